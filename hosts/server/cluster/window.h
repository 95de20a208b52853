/* How many commands a node has under way at once, and which wait for their turn: see window.c. */
#ifndef SL_WINDOW_H
#define SL_WINDOW_H

#include "hosts/server/cluster/pending_command.h"

struct sl_window {
	struct sl_pending_command *first, *last; /* that wait: of each asker the first, in the order of their turns */
	uint32_t under_way, most;
	sluice_ns narrowed_at;       /* when `most` was last made less */
	bool slow;                   /* an answer of this turn was, to what was sent since */
	sluice_ns best[2], best_end; /* the quickest answer of this second, or so, and of the one before; when it ends */
};

/* All as at a new connection: nothing is under way. */
void sl_window_reset(struct sl_window *window);

/* May a command be sent now? Else it is to wait. */
static inline bool sl_window_is_open(const struct sl_window *window) {
	return window->first == NULL && window->under_way < window->most;
}

/* Lets a command wait, behind those of its asker; `pending->sent` becomes `now`. O(1), as all here. */
void sl_window_wait(struct sl_window *window, struct sl_pending_command *pending, sluice_ns now);

/* Takes one out that waits. */
void sl_window_leave(struct sl_window *window, struct sl_pending_command *pending);

/* The first whose turn it is, taken out; NULL: none waits, or too many are under way. */
struct sl_pending_command *sl_window_next(struct sl_window *window);

/* An answer has come, to what was sent at `sent`. */
void sl_window_answered(struct sl_window *window, sluice_ns sent, sluice_ns now, sluice_ns budget_ns);
/* All answers that were there have been read: makes the window wider or narrower. */
void sl_window_read(struct sl_window *window, sluice_ns now);

#endif
