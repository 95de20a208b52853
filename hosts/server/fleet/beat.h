/* How often a counter is asked for at this worker: a decayed rate for each of the counters that were seen last.
 *
 * Requests are counted in slots of 50 ms; at the end of a slot the rate moves a quarter of the way to what the slot
 * had, so a burst is seen after one slot, and forgotten after some. Sets of four; whoever was seen longest ago makes
 * room, unless it has a lease. */
#ifndef SL_BEAT_H
#define SL_BEAT_H

#include "base/bytes.h"

enum { SL_BEAT_SLOTS = 20 }; /* a second */
#define SL_BEAT_SLOT_NS ((sluice_ns)50000000)

struct sl_beat {
	uint64_t tag;
	sluice_ns slot; /* when the present one began */
	uint32_t requests;
	uint32_t rate;             /* requests a second */
	uint64_t units, unit_rate; /* the same of cost */
	struct sl_lease *lease;    /* or NULL */
};

/* The rates; those of a burst before its slot has ended, as if nothing more came in it. */
static inline uint32_t sl_beat_rate(const struct sl_beat *beat) {
	uint64_t soon = (3 * (uint64_t)beat->rate + (uint64_t)beat->requests * SL_BEAT_SLOTS) / 4;
	return soon > beat->rate ? (uint32_t)soon : beat->rate;
}
static inline uint64_t sl_beat_unit_rate(const struct sl_beat *beat) {
	uint64_t soon = (3 * beat->unit_rate + beat->units * SL_BEAT_SLOTS) / 4;
	return soon > beat->unit_rate ? soon : beat->unit_rate;
}

/* Brings a rate up to `now`. */
void sl_beat_roll(struct sl_beat *beat, sluice_ns now);

/* The counter's beat in `set` of `ways`, rolled; one that is new takes the place of the one seen longest ago. NULL: all
 * have leases. */
struct sl_beat *sl_beat_in(struct sl_beat *set, int ways, uint64_t tag, sluice_ns now);

#endif
