/* Counters and histograms: written by one thread, read by any. */
#ifndef SL_TIMES_H
#define SL_TIMES_H

#include "sluice.h"

#include <stdatomic.h>

enum { SL_TIMES = 26 }; /* buckets of a histogram: 1, 2, 5 of each decade from 100 ns to 10 s, and above */

/* How long something took: counts per bucket, and the sum. */
struct sl_times {
	_Atomic uint64_t counts[SL_TIMES];
	_Atomic uint64_t sum_ns;
};

/* Adds to a counter that only this thread writes: cheaper than an atomic addition. */
static inline void sl_count(_Atomic uint64_t *counter, uint64_t by) {
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* Notes that `count` things took `ns` each. */
void sl_times_add(struct sl_times *times, sluice_ns ns, uint64_t count);
/* Adds what was noted to counts and to a sum. Any thread. */
void sl_times_sum(const struct sl_times *times, uint64_t counts[SL_TIMES], sluice_ns *sum_ns);
/* The upper bound of a bucket in ns; the last one has none: SLUICE_NEVER. */
sluice_ns sl_times_bound(uint32_t bucket);

#endif
