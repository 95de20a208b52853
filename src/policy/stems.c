/* A trie without nodes: the strings sorted, each with a link to the longest other one that it begins with.
 *
 *   10.0.0.0/8 <- 10.1.0.0/16 <- 10.1.2.0/24
 *              <- 10.9.0.0/16
 *
 * In this order all that lies between a string and one that begins with it begins with it, too. So whatever a value
 * begins with is found from the last string that is not after the value, going by the links: first up to the longest
 * that the two have in common.
 *
 * Why no trie: this is two arrays, made by a sort; a search takes as many steps as a trie of paths has bytes, and no
 * memory but the strings' own.
 */
#include "policy/stems.h"

#include "base/assert.h"

int sl_stem_compare(const void *a, const void *b) {
	const struct sl_stem *x = a, *y = b;
	uint32_t bytes = x->bytes < y->bytes ? x->bytes : y->bytes;
	int order = bytes == 0 ? 0 : memcmp(x->data, y->data, bytes);
	return order != 0 || x->bits == y->bits ? order : x->bits < y->bits ? -1 : 1;
}

/* How many bits two have in common at their beginnings. */
static uint32_t common_bits(const struct sl_stem *a, const struct sl_stem *b) {
	const unsigned char *p = a->data, *q = b->data;
	uint32_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes, at = 0;
	uint32_t bits = a->bits < b->bits ? a->bits : b->bits;
	while (at < bytes && p[at] == q[at])
		at++;
	uint32_t common = at == bytes ? bits : 8 * at + (uint32_t)__builtin_clz((unsigned)(p[at] ^ q[at])) - 24;
	return common < bits ? common : bits;
}

void sl_stems_join(struct sl_stem *list, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint32_t before = i == 0 ? SL_STEM_NONE : i - 1;
		SL_DEBUG_ASSERT(i == 0 || sl_stem_compare(&list[i - 1], &list[i]) < 0);
		while (before != SL_STEM_NONE && common_bits(&list[before], &list[i]) != list[before].bits)
			before = list[before].shorter;
		list[i].shorter = before;
	}
}

/* Eight bytes from `at` on, as a number that is ordered as they are; those past the end are 0. */
static uint64_t head_of(const struct sl_stem *stem, uint32_t at) {
	const char *p = (const char *)stem->data + at;
	uint32_t left = stem->bytes - at;
	uint64_t head = 0;
	if (left >= 8)
		memcpy(&head, p, 8);
	else
		for (uint32_t i = 0; i < left; i++)
			memcpy((char *)&head + i, p + i, 1);
	return __builtin_bswap64(head);
}

/* The first of [low, high) whose head at `at` is `least` or more; `high`: none. */
static uint32_t find_head(const struct sl_stem *list, uint32_t low, uint32_t high, uint32_t at, uint64_t least) {
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (head_of(&list[middle], at) < least)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many whole bytes two have in common. */
static uint32_t common_bytes(const struct sl_stem *a, const struct sl_stem *b) {
	const char *p = a->data, *q = b->data;
	uint32_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes, at = 0;
	while (at < bytes && p[at] == q[at])
		at++;
	return at;
}

enum { FEW = 8 }; /* are compared one by one */

/* Leaves those that must be compared as a whole: all before *low are not after the value, all from *high on are. What
 * all of them begin with is compared once, then eight bytes of each; most values differ there from all. */
static void narrow(const struct sl_stem *list, const struct sl_stem *value, uint32_t *low, uint32_t *high) {
	while (*high - *low > FEW) {
		const uint32_t count = *high - *low, at = common_bytes(&list[*low], &list[*high - 1]);
		if (common_bytes(&list[*low], value) < at) { /* so all are on one side */
			if (sl_stem_compare(&list[*low], value) <= 0)
				*low = *high;
			else
				*high = *low;
			return;
		}
		const uint64_t head = head_of(value, at);
		*low = find_head(list, *low, *high, at, head);
		if (head != UINT64_MAX)
			*high = find_head(list, *low, *high, at, head + 1);
		if (*high - *low == count)
			return;
	}
}

uint32_t sl_stems_find(const struct sl_stems *stems, const struct sl_stem *value) {
	uint32_t low = 0, high = stems->count;
	narrow(stems->list, value, &low, &high);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (sl_stem_compare(&stems->list[middle], value) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return SL_STEM_NONE;
	uint32_t at = low - 1, common = common_bits(&stems->list[at], value);
	while (at != SL_STEM_NONE && stems->list[at].bits > common)
		at = stems->list[at].shorter;
	return at;
}
