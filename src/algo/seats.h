/* Seats: what leases and members have in common (seats.c). Somebody, told by 64 bits, counts until an instant, with a
 * cost. */
#ifndef SL_SEATS_H
#define SL_SEATS_H

#include "algo/algorithms.h"
#include "base/math.h"

/* What the header of a block says. */
enum {
	SL_PLACES_WEIGHTED = 1,   /* costs are kept; else each is 1 */
	SL_PLACES_SKETCH = 2,     /* distinct above 1,024: a sketch stands before the seats (hll.h), */
	SL_PLACES_BITS_SHIFT = 8, /* of 2^n registers, n in the bits from here on: 10, 11, 13, 14, 15; 0: 2^12 */
};

/* The flags of a block with a sketch of 2^bits registers; and how many a block has by its flags, if it has one. */
static inline uint32_t sl_seats_sketch_flags(uint32_t bits) {
	return SL_PLACES_SKETCH | (bits == SL_REGISTER_BITS ? 0 : bits << SL_PLACES_BITS_SHIFT);
}

static inline uint32_t sl_seats_sketch_bits(uint32_t flags) {
	return flags >> SL_PLACES_BITS_SHIFT != 0 ? flags >> SL_PLACES_BITS_SHIFT : SL_REGISTER_BITS;
}

/* Whether a block of seats has a sketch of another number of registers than is usual, chosen by a limit. */
bool sl_seats_have_registers(const void *block, uint64_t block_bytes);

/* Finds out how the seats stand at `now`, into counter->seats, spare not yet looked for. O(seats). */
struct sl_seats *sl_seats_look(struct sl_counter *counter, sluice_ns now);

/* Tells of those that count, who ends first first: sl_step_describe(). O(seats), a few times. */
void sl_seats_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                       struct sluice_inspection *told);

/* The instant that they are looked at: now or, where that is later, that of the last charge or renewal. */
sluice_ns sl_seats_instant(const struct sl_counter *counter, sluice_ns now);

/* Only looks where counter->who stands: what counts is not filled in. Half as long. */
struct sl_seats *sl_seats_find(struct sl_counter *counter, sluice_ns now);

/* The wait from seats->t until what counts costs `keep` or less, which it does not yet. Exact; O(seats), a few times
 * that where one end does not do. */
sluice_ns sl_seats_wait(const struct sl_seats *seats, uint64_t keep);

/* The instant W after t; no later than there is time. */
static inline sluice_ns sl_seats_end(const struct sluice_limit *limit, sluice_ns t) {
	return t > UINT64_MAX - limit->window_ns ? UINT64_MAX : t + limit->window_ns;
}

/* A wait until an end that lies ahead; 0 for others. */
static inline sluice_ns sl_seats_wait_for(const struct sl_seats *seats, sluice_ns end) {
	return end > seats->t ? sl_min(end - seats->t, SLUICE_NEVER - 1) : 0;
}

/* What of that which counts has ended by an instant; the first end after one, 0: there is none. O(seats). */
uint64_t sl_seats_ended(const struct sl_seats *seats, sluice_ns instant);
sluice_ns sl_seats_next_end(const struct sl_seats *seats, sluice_ns instant);

/* Looks for a dead seat. O(seats). */
void sl_seats_find_spare(struct sl_seats *seats);

/* The bytes of a block of so many seats under these flags. */
uint64_t sl_seats_bytes(uint64_t count, uint32_t flags);

/* The bytes of a block without a sketch in which one more of `cost` finds room, an eighth longer than the need but for
 * no more than `most`; 0 where the present one serves. SL_BLOCK_TOO_LARGE as in sl_step_block_bytes(). */
uint64_t sl_seats_block_bytes(const struct sl_seats *seats, uint64_t most, uint32_t cost);

/* Makes a new block of dead seats and says where its parts are. */
struct sl_seats sl_seats_format(void *block, uint64_t block_bytes, uint32_t flags);

/* Copies those that count to the beginning of a new block, which has room. Returns how many there were. */
uint32_t sl_seats_move(const struct sl_seats *seats, const struct sl_seats *to);

/* Fills a seat: true with its last store, of the end, if the seat was dead before. */
void sl_seats_fill(const struct sl_seats *seats, uint32_t i, uint64_t id, uint32_t cost, sluice_ns end);

/* Lets a seat end at an instant, with one store; 0: it is dead. */
void sl_seats_set_end(const struct sl_seats *seats, uint32_t i, sluice_ns end);

/* Notes the instant of a charge in a state. */
static inline void sl_seats_stamp(struct sl_counter *counter, sluice_ns t) {
	counter->state.w[0] = t;
	counter->state.w[1] = (uint64_t)1 << 32 | (uint32_t)counter->state.w[1]; /* a state of zeros is none */
}

/* sl_step_prepare(), where the charge to come goes into a spare seat: before it is filled, nobody may count any more
 * who stood there. */
bool sl_seats_prepare(struct sl_counter *counter);

/* The charge of somebody new, in the present block, or with all others in a new one. */
void sl_seats_write(const struct sluice_limit *limit, struct sl_counter *counter, uint32_t cost, void *block,
                     uint64_t block_bytes);

/* sl_step_assume() and its bytes: each of `held` is a nameless one. */
uint64_t sl_seats_assume_bytes(int count);
void sl_seats_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count, void *block, uint64_t block_bytes);

/* Whether seats and state could have been written by this code. */
bool sl_seats_are_valid(const struct sluice_limit *limit, const struct sl_counter *counter);

#endif
