/* Counters and histograms of one writer: see times.h. */
#include "hosts/server/watch/times.h"

#include "base/assert.h"

/* The upper bounds of a histogram's buckets. A linear search is over after two or three of them: a decision takes some
 * hundreds of ns. */
#define DECADE(ns) ns, 2 * (sluice_ns)ns, 5 * (sluice_ns)ns
static const sluice_ns bounds[SL_TIMES] = {
	DECADE(100),      DECADE(1000),      DECADE(10000),      DECADE(100000), DECADE(1000000),
	DECADE(10000000), DECADE(100000000), DECADE(1000000000), 10000000000,    SLUICE_NEVER,
};

sluice_ns sl_times_bound(uint32_t bucket) {
	SL_ASSERT(bucket < SL_TIMES);
	return bounds[bucket];
}

void sl_times_add(struct sl_times *times, sluice_ns ns, uint64_t count) {
	uint32_t bucket = 0;
	while (ns > bounds[bucket])
		bucket++;
	sl_count(&times->counts[bucket], count);
	sl_count(&times->sum_ns, ns * count);
}

void sl_times_sum(const struct sl_times *times, uint64_t counts[SL_TIMES], sluice_ns *sum_ns) {
	for (int i = 0; i < SL_TIMES; i++)
		counts[i] += atomic_load_explicit(&times->counts[i], memory_order_relaxed);
	*sum_ns += atomic_load_explicit(&times->sum_ns, memory_order_relaxed);
}
