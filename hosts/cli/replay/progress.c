/* See progress.h. The clock is looked at once in some thousand lines: a bar must cost nothing. */
#include "hosts/cli/replay/progress.h"

#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { BAR_CELLS = 30 };

struct sl_progress sl_progress_begin(uint64_t total_bytes) {
	return (struct sl_progress){.shown = isatty(STDERR_FILENO) == 1, .total = total_bytes};
}

static void draw(struct sl_progress *progress, uint64_t done, const char *doing) {
	char bar[BAR_CELLS + 1];
	if (progress->total == 0) {
		fprintf(stderr, "\r%s: %" PRIu64 " lines\033[K", doing, progress->lines);
	} else {
		/* a file may grow while it is read */
		uint64_t percent = done < progress->total ? done / (progress->total / 100 + 1) : 100;
		for (unsigned i = 0; i < BAR_CELLS; i++)
			bar[i] = i * 100 < percent * BAR_CELLS ? '#' : '.';
		bar[BAR_CELLS] = '\0';
		fprintf(stderr, "\r%s: [%s] %3" PRIu64 " %%, %" PRIu64 " lines\033[K", doing, bar, percent, progress->lines);
	}
	fflush(stderr);
	progress->drawn = true;
}

void sl_progress_look(struct sl_progress *progress, uint64_t done_bytes, const char *doing) {
	sluice_ns now = sl_clock_monotonic();
	if (now - progress->drawn_at < SL_PROGRESS_REDRAW_NS)
		return;
	progress->drawn_at = now;
	draw(progress, done_bytes, doing);
}

void sl_progress_end(struct sl_progress *progress) {
	if (progress->drawn)
		fputs("\r\033[K", stderr);
	progress->drawn = false;
}
