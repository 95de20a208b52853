/* How often a counter is asked for at this worker: a decayed rate for each of the counters that were seen last.
 *
 * Requests are counted in slots of 50 ms; at the end of a slot the rate moves a quarter of the way to what the slot
 * had, so a burst is seen after one slot, and forgotten after some. Sets of four; whoever was seen longest ago makes
 * room, unless it has a slice. */
#ifndef SL_RATE_H
#define SL_RATE_H

#include "base/bytes.h"

enum { SL_RATE_SLOTS = 20 }; /* a second */
#define SL_RATE_SLOT_NS ((sluice_ns)50000000)

struct sl_rate {
	uint64_t tag;
	sluice_ns slot; /* when the present one began */
	uint32_t requests;
	uint32_t request_rate;     /* requests a second */
	uint64_t units, unit_rate; /* the same of cost */
	struct sl_quota_slice *slice; /* or NULL */
};

/* The rates; those of a burst before its slot has ended, as if nothing more came in it. */
static inline uint32_t sl_rate_of_requests(const struct sl_rate *rate) {
	uint64_t soon = (3 * (uint64_t)rate->request_rate + (uint64_t)rate->requests * SL_RATE_SLOTS) / 4;
	return soon > rate->request_rate ? (uint32_t)soon : rate->request_rate;
}
static inline uint64_t sl_rate_of_units(const struct sl_rate *rate) {
	uint64_t soon = (3 * rate->unit_rate + rate->units * SL_RATE_SLOTS) / 4;
	return soon > rate->unit_rate ? soon : rate->unit_rate;
}

/* Brings a rate up to `now`. */
void sl_rate_roll(struct sl_rate *rate, sluice_ns now);

/* The counter's rate in `set` of `ways`, rolled; one that is new takes the place of the one seen longest ago. NULL: all
 * have slices. */
struct sl_rate *sl_rate_in(struct sl_rate *set, int ways, uint64_t tag, sluice_ns now);

#endif
