/* A sliding HyperLogLog: how many different members were counted within the window, about (hll.c). How many registers
 * a sketch has is said by its block (seats.h), so that it is read right whatever the limit says by now. */
#ifndef SL_HLL_H
#define SL_HLL_H

#include "algo/seats.h"

enum {
	SL_SKETCH_RANKS = 25,    /* a higher one counts as this: above 2^32 members they matter little */
	SL_SKETCH_UNITS = 16384, /* of time, a window */
};

/* Stands in a block between its header and its seats. Times are numbers of units, their lower 16 bits. */
struct sl_hll {
	sluice_ns beyond;     /* the end of the last member that counts, maybe, and has no seat: until then we estimate */
	sluice_ns ghosts_end; /* until when so many that nobody knows by name count as well */
	uint64_t ghosts;
	uint64_t counted;  /* 1 + the unit for which `rows` say how many registers are live; 0: none */
	uint16_t rows[28]; /* [0] all, [1..25] live at this rank or above */
	uint16_t times[];  /* a row a rank: of each register, when one of at least this rank came */
};

/* The bytes of a sketch of 2^bits registers. */
static inline uint64_t sl_hll_bytes(uint32_t bits) {
	return sizeof(struct sl_hll) + (uint64_t)SL_SKETCH_RANKS * sizeof(uint16_t) * ((uint64_t)1 << bits);
}

/* Empties a sketch; its clock is that of a state stamped with seats->t. */
void sl_hll_format(const struct sluice_limit *limit, const struct sl_seats *seats);

/* Counts a member, last charged at an instant at or before seats->last, or t if that is stamped. Times never fall. */
void sl_hll_add(const struct sluice_limit *limit, const struct sl_seats *seats, uint64_t who, sluice_ns instant);

/* The estimate at seats->t, and as it will be once `who` (0: nobody) is counted as well; notes seats->rows. Some
 * 50 ns in the unit of the last charge, else up to 5 us for 4,096 registers. */
uint64_t sl_hll_estimate(const struct sluice_limit *limit, struct sl_seats *seats, uint64_t who,
                            uint64_t *with_who);

/* The estimate, by the limit's number of registers and without a sketch, of those in seats that count and have a name,
 * and another. About 5 us for 4,096 registers. */
uint64_t sl_hll_estimate_of(const struct sluice_limit *limit, const struct sl_seats *seats, uint64_t another);

/* Whether counting `who` at seats->t would leave the estimate as it is. */
bool sl_hll_covers(const struct sluice_limit *limit, const struct sl_seats *seats, uint64_t who);

/* The first instant after t at which the estimate is below `quota`, if that comes before `beyond`; else that. */
sluice_ns sl_hll_below(const struct sluice_limit *limit, const struct sl_seats *seats, uint64_t quota);

/* Before the clock is moved from seats->last to t: makes times so old that they would soon read as new ones old again.
 * Nobody sees a difference. Returns whether the units of the two differ. */
bool sl_hll_sweep(const struct sluice_limit *limit, const struct sl_seats *seats);

/* Whether a sketch could have been written by this code, under the state whose instant is seats->last. 100 us. */
bool sl_hll_is_valid(const struct sluice_limit *limit, const struct sl_seats *seats);

/* The error to be expected of a limit's count: one standard deviation, 1.04 / sqrt(registers), in parts per 10,000,
 * rounded up; 0 where it is exact. */
uint32_t sl_distinct_error(const struct sluice_limit *limit);

#endif
