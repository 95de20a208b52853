/* The store's own figures, for whoever watches: totals, which stand in its header, and how many counters there are,
 * which nothing knows without looking at every page. A thread of its own looks: page by page, without a lock and
 * without writing, so that neither checks nor the pages of a file notice; a tenth of a core while it goes on. */
#ifndef SL_STORE_STATS_H
#define SL_STORE_STATS_H

#include "sluice.h"

enum {
	SL_STORE_STATS_EVERY_MS = 15000, /* a count is begun at most so often, and only where somebody asks */
	SL_STORE_STATS_REST = 9,         /* for each ns of counting, so many of rest */
};

struct sl_store_stats;

/* Starts the thread, and a first count. The store must stay open until sl_store_stats_free(). NULL when the system
 * gives no memory or no thread. */
struct sl_store_stats *sl_store_stats_new(struct sluice_store *store);
/* Ends the thread, also in the middle of a count. NULL is allowed. */
void sl_store_stats_free(struct sl_store_stats *store_stats);

struct sl_store_figures {
	uint64_t bytes, slots;
	uint64_t keys, expired; /* as of `counted`: counters, and how many of them count no longer */
	sluice_ns counted;      /* instant of the count; 0: none is done yet */
	uint64_t block_bytes, block_bytes_free;
	uint64_t overrides, overrides_most; /* quotas of keys' own; how many the store can have */
	uint64_t evicted, from_sketch, recoveries, dropped, given_up, stopped; /* as in struct sluice_store_stats */
};

/* The figures as they stand; asks for a new count where the last is old. From any thread; never waits for a count. */
void sl_store_stats_read(struct sl_store_stats *store_stats, struct sl_store_figures *figures);

#endif
