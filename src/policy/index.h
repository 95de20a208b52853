/* An index of conditions: which of many `when` a request may meet, in their order, without looking at the others.
 *
 * Each `when` is filed under one of its conditions, the one that fewest share; what has none is filed under nothing,
 * and always told. What is told has still to be looked at (sl_when_holds()): it may not hold; what is not told does
 * not. So who walks through what is told finds what he would find walking through all. */
#ifndef SL_INDEX_H
#define SL_INDEX_H

#include "policy/ruleset.h"

enum {
	SL_INDEX_LEAST = 12,     /* of fewer none is made: walking through them costs no more */
	SL_INDEX_LISTS_MAX = 48, /* that a request may have at once; with more all are walked through */
};
#define SL_INDEX_END UINT32_MAX

struct sl_index;

/* Makes the index of `count` conditions, in the policy's memory; the i-th stands `i * stride` bytes after `first`. They
 * are not copied, and must stay. NULL without memory, with the pool's `failed` set. O(values log values); some 30
 * bytes a value. */
const struct sl_index *sl_index_make(struct sl_pool *pool, const struct sl_when *first, size_t stride, uint32_t count);

/* Whether what the index tells depends on the value of an attribute, by its number. O(attributes that it asks for). */
bool sl_index_asks(const struct sl_index *index, uint32_t number);

/* What a request may meet: lists of numbers, each rising, of which the least comes next. */
struct sl_index_walk {
	uint32_t list_count;
	uint32_t next[SL_INDEX_LISTS_MAX];      /* of each list */
	const uint32_t *at[SL_INDEX_LISTS_MAX]; /* what comes after that */
	uint32_t left[SL_INDEX_LISTS_MAX];
	uint32_t all, all_count; /* no lists: every number from `all` on, below that */
};

/* Begins a walk. `values` by attribute number, and needed no longer afterwards. Some 30 ns for each attribute that
 * anything is filed under. */
void sl_index_begin(const struct sl_index *index, const struct sluice_bytes *values, struct sl_index_walk *walk);

/* The next number, from 0, each once and rising; SL_INDEX_END: that was all. O(lists). */
uint32_t sl_index_next(struct sl_index_walk *walk);

#endif
