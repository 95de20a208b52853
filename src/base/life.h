/* A lifetime in a byte: for how long, from the instant of its last charge, a state may differ from no state.
 *
 * The store keeps one beside each state (store/layout.h I3) and knows by it what may go. Whoever wrote the state can
 * read in it what the state itself has no room for: a bucket how fast it drains (algo/bucket.c).
 *
 *   units of 2^19 ns (base/coarse.h), rounded up to a number of the form (4 + m) * 2^e, m in 0..3; code = 4 e + m
 *
 * so of two lifetimes of one code the longer is at most a quarter longer, or 2 units. */
#ifndef SL_LIFE_H
#define SL_LIFE_H

#include "base/coarse.h"
#include "base/math.h"

/* The code of a lifetime: at most 175. */
static inline uint64_t sl_life_code(sluice_ns life_ns) {
	/* one unit more, since the instant that it is added to was rounded down; and the 4 of the form */
	uint64_t units = sl_max((life_ns >> SL_COARSE_SHIFT) + 2, 4), e = 61 - (uint64_t)__builtin_clzll(units);
	/* the two bits below the highest, rounded up: past 7 they carry into the next octave, as they should */
	return 4 * e + ((units + (((uint64_t)1 << e) - 1)) >> e) - 4;
}

/* The units that a code of at most 251 stands for. */
static inline uint64_t sl_life_units_of(uint64_t code) {
	return (4 + (code & 3)) << (code >> 2);
}

/* The longest lifetime of a code; saturates. */
static inline sluice_ns sl_life_longest(uint64_t code) {
	uint64_t units = sl_life_units_of(code) - 1;
	return units <= UINT64_MAX >> SL_COARSE_SHIFT ? (units << SL_COARSE_SHIFT) - 1 : UINT64_MAX;
}

#endif
