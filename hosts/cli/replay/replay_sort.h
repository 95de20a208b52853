/* Puts lines in the order of their instants, stably, in bounded memory: an external merge sort.
 *
 * Lines are appended to the front of one block of memory, {time, where} pairs from its back:
 *
 *   | line line line ...  -->            <-- ... pair pair pair |
 *
 * When they meet, the pairs are sorted and the lines written in that order as one run to a temporary file without a
 * name. At the end the runs are merged through a heap, each through its own part of the same memory. What fits in
 * memory is never written. Lines of one instant keep their order: within a run by where they stand, among runs by the
 * runs' numbers. */
#ifndef SL_CLI_REPLAY_SORT_H
#define SL_CLI_REPLAY_SORT_H

#include "base/bytes.h"

enum {
	SL_SORT_MEMORY = 128 * 1024 * 1024,
	SL_SORT_LINE_MAX = 64 * 1024,
	SL_SORT_MEMORY_MIN = 4 * (SL_SORT_LINE_MAX + 64),
};

/* A line, and where it came from. */
struct sl_sort_line {
	sluice_ns time;
	uint64_t number; /* in its file, from 1 */
	uint32_t file;
	uint32_t format; /* the caller's */
	struct sluice_bytes text;
};

struct sl_sort;

/* Begins with `memory` bytes (SL_SORT_MEMORY_MIN or more; taken from the system as they are used). NULL when there are
 * none. */
struct sl_sort *sl_sort_open(size_t memory);
void sl_sort_close(struct sl_sort *sort);

/* Adds a line of at most SL_SORT_LINE_MAX bytes, which is copied. False with `error` filled: a temporary file can't be
 * made or written in $TMPDIR (/tmp), or there are more runs than the memory can merge (some 200 GiB of lines). */
bool sl_sort_add(struct sl_sort *sort, const struct sl_sort_line *line, struct sluice_error *error);

/* Ends the adding. To be called once, before the first sl_sort_next(). */
bool sl_sort_finish(struct sl_sort *sort, struct sluice_error *error);

/* The next line in order, valid until the next call: 1, 0 at the end, -1 with `error` filled. */
int sl_sort_next(struct sl_sort *sort, struct sl_sort_line *line, struct sluice_error *error);

#endif
