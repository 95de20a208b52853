/* What is remembered of counters that had to go while they were in use (sketch.c). */
#ifndef SL_SKETCH_H
#define SL_SKETCH_H

#include "store/slot.h"

/* What is remembered of a counter that was evicted: at `instant` it was charged for the last time, and held at most
 * sl_use_cost(quota, use) then. */
struct sl_past {
	sluice_ns instant;
	uint64_t use;
};

/* Remembers a counter by its page and tag: `last` is the instant of its last charge, rounded up as one likes. */
void sl_sketch_note(struct sluice_store *store, uint64_t page, uint64_t tag, sluice_ns last);

/* Asks for the memory that sl_sketch_note() writes for a counter. */
void sl_sketch_prefetch(const struct sluice_store *store, uint64_t page, uint64_t tag);

/* What the sketch has of a counter that has no slot: fills at most SL_USES pasts, their instants rising, uses falling.
 * Returns how many. Two misses of memory; call it only where sl_sketch_is_used(). */
int sl_sketch_ask(const struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                  struct sl_past pasts[SL_USES]);

static inline bool sl_sketch_is_used(const struct sluice_store *store, sluice_ns now) {
	return now < __atomic_load_n(&store->header->sketch_until_ns, __ATOMIC_RELAXED);
}

#endif
