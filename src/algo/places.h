/* Places: what leases and members have in common (places.c). Somebody, told by 64 bits, counts until an instant, with a
 * cost. */
#ifndef SL_PLACES_H
#define SL_PLACES_H

#include "algo/step.h"
#include "base/math.h"

/* What the header of a block says. */
enum {
	SL_PLACES_WEIGHTED = 1, /* costs are kept; else each is 1 */
	SL_PLACES_SKETCH = 2,   /* distinct above 1,024: a sketch stands before the places (hyperlog.h) */
};

/* Finds out how the places stand at `now`, into counter->places, spare not yet looked for. O(places). */
struct sl_places *sl_places_look(struct sl_counter *counter, sluice_ns now);

/* Only looks where counter->who stands: what counts is not filled in. Half as long. */
struct sl_places *sl_places_find(struct sl_counter *counter, sluice_ns now);

/* The wait from places->t until what counts costs `keep` or less, which it does not yet. Exact; O(places), a few times
 * that where one end does not do. */
sluice_ns sl_places_wait(const struct sl_places *places, uint64_t keep);

/* The instant W after t; no later than there is time. */
static inline sluice_ns sl_places_end(const struct sluice_limit *limit, sluice_ns t) {
	return t > UINT64_MAX - limit->window_ns ? UINT64_MAX : t + limit->window_ns;
}

/* A wait until an end that lies ahead; 0 for others. */
static inline sluice_ns sl_places_wait_for(const struct sl_places *places, sluice_ns end) {
	return end > places->t ? sl_min(end - places->t, SLUICE_NEVER - 1) : 0;
}

/* Looks for a dead place. O(places). */
void sl_places_find_spare(struct sl_places *places);

/* The bytes of a block of so many places under these flags. */
uint64_t sl_places_bytes(uint64_t count, uint32_t flags);

/* The bytes of a block without a sketch in which one more of `cost` finds room, an eighth longer than the need but for
 * no more than `most`; 0 where the present one serves. SL_BLOCK_TOO_LARGE as in sl_step_block_bytes(). */
uint64_t sl_places_block_bytes(const struct sl_places *places, uint64_t most, uint32_t cost);

/* Makes a new block of dead places and says where its parts are. */
struct sl_places sl_places_format(void *block, uint64_t block_bytes, uint32_t flags);

/* Copies those that count to the beginning of a new block, which has room. Returns how many there were. */
uint32_t sl_places_move(const struct sl_places *places, const struct sl_places *to);

/* Fills a place: true with its last store, of the end, if the place was dead before. */
void sl_places_fill(const struct sl_places *places, uint32_t i, uint64_t id, uint32_t cost, sluice_ns end);

/* Lets a place end at an instant, with one store; 0: it is dead. */
void sl_places_set_end(const struct sl_places *places, uint32_t i, sluice_ns end);

/* Notes the instant of a charge in a state. */
static inline void sl_places_stamp(struct sl_counter *counter, sluice_ns t) {
	counter->state.w[0] = t;
	counter->state.w[1] = (uint64_t)1 << 32 | (uint32_t)counter->state.w[1]; /* a state of zeros is none */
}

/* sl_step_prepare(), where the charge to come goes into a spare place: before it is filled, nobody may count any more
 * who stood there. */
bool sl_places_prepare(struct sl_counter *counter);

/* The charge of somebody new, in the present block, or with all others in a new one. */
void sl_places_write(const struct sluice_limit *limit, struct sl_counter *counter, uint32_t cost, void *block,
                     uint64_t block_bytes);

/* sl_step_assume() and its bytes: each of `held` is a nameless one. */
uint64_t sl_places_assume_bytes(int count);
void sl_places_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count, void *block, uint64_t block_bytes);

/* Whether places and state could have been written by this code. */
bool sl_places_are_valid(const struct sluice_limit *limit, const struct sl_counter *counter);

#endif
