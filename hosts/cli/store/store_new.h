/* A store made to take over another's counters: with its secret and clock, in a file of its own until it is whole. */
#ifndef SL_CLI_STORE_NEW_H
#define SL_CLI_STORE_NEW_H

#include "hosts/cli/store/part.h"
#include "store/scan.h"

struct sl_store_new {
	struct sl_part part;
	struct sluice_store store;
	uint64_t evicted_before; /* what `like` had evicted */
	uint64_t kept, refused;  /* counters that were put, and that found no room */
};

/* Makes an empty arena of `bytes` (a multiple of a page), like another. SL_GO_ON, or SL_EXIT_FAILED after saying
 * why. */
int sl_store_new_begin(const struct sl_verb *verb, struct sl_store_new *made, const char *path, uint64_t bytes,
                       uint32_t percent, const struct sl_header *like);

/* Puts one counter, or counts it as refused when there is no room. False when it can be none, or is there already. */
bool sl_store_new_put(struct sl_store_new *made, const struct sl_entry *entry, sluice_ns now);

/* How many counters are not in it that should be: refused, or evicted by those that were put after them. */
uint64_t sl_store_new_lost(const struct sl_store_new *made);

/* Writes it to disk and moves it to its place; see sl_part_finish(). */
int sl_store_new_finish(const struct sl_verb *verb, struct sl_store_new *made, bool replace);

/* Removes it; nothing to do after a finish. */
void sl_store_new_drop(struct sl_store_new *made);

#endif
