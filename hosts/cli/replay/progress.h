/* A progress bar on standard error, where that is a terminal; nothing at all where it is not. */
#ifndef SL_CLI_PROGRESS_H
#define SL_CLI_PROGRESS_H

#include "sluice.h"

enum {
	SL_PROGRESS_EVERY = 4096,           /* lines between two looks at the clock */
	SL_PROGRESS_REDRAW_NS = 100000000,  /* between two drawings */
};

struct sl_progress {
	bool shown;     /* is there a terminal? */
	bool drawn;     /* is there a bar on it now? */
	uint64_t total; /* bytes of all files; 0 where it is not known (standard input) */
	uint64_t lines;
	sluice_ns drawn_at;
};

/* Begins. */
struct sl_progress sl_progress_begin(uint64_t total_bytes);

/* The rest of sl_progress_line(): looks at the clock, and draws. */
void sl_progress_look(struct sl_progress *progress, uint64_t done_bytes, const char *doing);

/* Counts a line; draws now and then. `done` is how many of the total bytes were read; `doing` one word for it. */
static inline void sl_progress_line(struct sl_progress *progress, uint64_t done_bytes, const char *doing) {
	if (++progress->lines % SL_PROGRESS_EVERY == 0 && progress->shown)
		sl_progress_look(progress, done_bytes, doing);
}

/* Wipes the bar, so that what is printed next has the line to itself. */
void sl_progress_end(struct sl_progress *progress);

#endif
