/* How much of its quota a counter has used, in one of eight steps: all that the store knows of limits.
 *
 *   use        0     1     2     3     4    5    6              7
 *   at most    1/32  1/16  1/10  1/5   2/5  3/4  all but one    all
 *
 * It decides who is evicted, and what is remembered of whoever was. A key that finds something in the sketch may be the
 * one that was evicted, or one that only shares its cells: it starts with that use in either case. Were that then
 * counted as its own, the next stranger would start with a step more, and so on, until a flood of keys that ask once
 * had denied everybody. So a counter keeps in mind with what it started, and is remembered by what it has used beyond;
 * unless more than three quarters of its quota are gone: whoever is denied, or nearly, is remembered as just that. */
#ifndef SL_USE_H
#define SL_USE_H

#include "base/assert.h"
#include "store/layout.h"

enum {
	SL_USE_LITTLE = 3,
	SL_USE_NEARLY_ALL = 6,
	SL_USE_ALL = 7,
	SL_MARKS_START_SHIFT = SL_TAG_START_SHIFT - SL_TAG_USE_SHIFT,
	/* What is no counter (layout.h I5): evicted as early as one that was hardly used, or as late as one that was. */
	SL_MARKS_BESIDE_LITTLE = SL_USE_ALL << SL_MARKS_START_SHIFT | 1,
	SL_MARKS_BESIDE_PENALTY = SL_USE_ALL << SL_MARKS_START_SHIFT | 3, /* later than any counter, while it runs (I10) */
	SL_MARKS_BESIDE_MUCH = SL_USE_ALL << SL_MARKS_START_SHIFT | 5,
	SL_MARKS_KEPT = SL_USE_ALL << SL_MARKS_START_SHIFT | 4, /* a key's own quota: it is not evicted at all (I9) */
};

static inline bool sl_marks_are_beside(uint64_t marks) {
	return marks >= SL_MARKS_BESIDE_LITTLE && marks <= SL_MARKS_BESIDE_MUCH;
}

static inline bool sl_marks_are_kept(uint64_t marks) {
	return marks == SL_MARKS_KEPT;
}

/* The use of a quota of which `used` is used. Comparisons: quicker than a division, and exact. */
static inline uint64_t sl_use_of(uint64_t quota, uint64_t used) {
	if (used * 10 <= quota)
		return used * 32 <= quota ? 0 : used * 16 <= quota ? 1 : 2;
	if (used * 5 <= 2 * quota)
		return used * 5 <= quota ? 3 : 4;
	return used * 4 <= 3 * quota ? 5 : used < quota ? SL_USE_NEARLY_ALL : SL_USE_ALL;
}

/* The greatest cost that a counter of a quota and a use can pins. */
static inline uint64_t sl_use_cost(uint64_t quota, uint64_t use) {
	static const uint8_t shares[SL_USES][2] = {{1, 32}, {1, 16}, {1, 10}, {1, 5}, {2, 5}, {3, 4}, {1, 1}, {1, 1}};
	uint64_t cost = quota * shares[use][0] / shares[use][1];
	SL_DEBUG_ASSERT(use < SL_USES && cost <= quota);
	return use == SL_USE_NEARLY_ALL && cost != 0 ? cost - 1 : cost;
}

/* The marks of a counter that starts from nothing or, `remembered`, with a use that the sketch has of it. */
static inline uint64_t sl_marks_start(bool remembered, uint64_t use) {
	uint64_t start = remembered ? (use < SL_USE_NEARLY_ALL ? use + 1 : SL_USE_ALL) : 0;
	return start << SL_MARKS_START_SHIFT;
}

/* The marks after a charge that left `remaining` of `quota`, from those before. */
static inline uint64_t sl_marks_of(uint64_t marks, uint64_t quota, uint64_t remaining) {
	uint64_t start = marks >> SL_MARKS_START_SHIFT, used = quota > remaining ? quota - remaining : 0;
	uint64_t use = sl_use_of(quota, used);
	if (__builtin_expect(start != 0, 0) && use < SL_USE_NEARLY_ALL) {
		uint64_t before = sl_use_cost(quota, start - 1);
		use = sl_use_of(quota, used > before ? used - before : 0);
	}
	SL_DEBUG_ASSERT(use < SL_USES);
	return start << SL_MARKS_START_SHIFT | use;
}

#endif
