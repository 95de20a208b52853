/* Bit strings, of which those are looked for that a value begins with: prefixes of texts, ends of hosts (turned round),
 * networks. Made once, then only read. */
#ifndef SL_STEMS_H
#define SL_STEMS_H

#include "policy/pool.h"

#define SL_STEM_NONE UINT32_MAX

/* `bits` of `bytes` bytes; bits after them are 0. Those of a set that end within a byte have all as many bytes. */
struct sl_stem {
	const void *data;
	uint32_t bytes, bits;
	uint32_t shorter; /* the longest other one that it begins with; SL_STEM_NONE: none */
	uint32_t tag;     /* what it stands for */
};

struct sl_stems {
	const struct sl_stem *list; /* sorted, each once; the tag is the owner's */
	uint32_t count;
};

/* The order of a set's list, for qsort(): as the bits are, what another one begins with before it. */
int sl_stem_compare(const void *a, const void *b);

/* Fills in `shorter` of a list that is sorted and has each once. O(count). */
void sl_stems_join(struct sl_stem *list, uint32_t count);

/* The longest of the set that a value begins with, by its place in the list; the others that it begins with are those
 * `shorter` than that. SL_STEM_NONE: it begins with none. O(log count), and what is longer than the answer and begins
 * with it. */
uint32_t sl_stems_find(const struct sl_stems *stems, const struct sl_stem *value);

#endif
