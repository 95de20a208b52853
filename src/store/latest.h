/* A word that says which instant has not been reached: bits 63..30 of it, and below them a check, so that it can be
 * moved by one store, without a lock, and damage to it is noticed. */
#ifndef SL_LATEST_H
#define SL_LATEST_H

#include "base/siphash.h"

enum { SL_LATEST_BITS = 30 };
#define SL_LATEST_STEP_NS ((uint64_t)1 << SL_LATEST_BITS)

static inline uint64_t sl_latest_word(uint64_t high, const uint64_t secret[2]) {
	uint64_t check = sl_siphash(secret, &high, 1, sl_slice(NULL, 0), 1, 3) & (SL_LATEST_STEP_NS - 1);
	return high << SL_LATEST_BITS | check;
}

/* The instant that a word says has not been reached, a multiple of 2^30 ns; 0 for a damaged word. */
static inline sluice_ns sl_latest_read(uint64_t word, const uint64_t secret[2]) {
	return sl_latest_word(word >> SL_LATEST_BITS, secret) == word ? word & ~(SL_LATEST_STEP_NS - 1) : 0;
}

/* The word that says so of the first such instant above `now`. */
static inline uint64_t sl_latest_write(sluice_ns now, const uint64_t secret[2]) {
	uint64_t high = now >> SL_LATEST_BITS;
	return sl_latest_word(high == UINT64_MAX >> SL_LATEST_BITS ? high : high + 1, secret);
}

#endif
