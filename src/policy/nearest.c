/* Optimal string alignment (Damerau-Levenshtein without overlapping swaps), a column of its table in one word: Hyyrö,
 * "A bit-vector algorithm for computing Levenshtein and Damerau edit distances", Nordic Journal of Computing 10 (2003).
 *
 * Neighbours in a column of the table differ by 1 at most, so a column is two bits for each letter of the word: whether
 * the distance rises from the row above, and whether it falls. A letter of a known word makes the next column of them
 * by a dozen operations. Only the last row is counted: its end is the distance, and it falls by at most 1 a column.
 *
 *          c h e c k      the last row of `chekc` against `check`
 *        0 1 2 3 4 5
 *      c 1 0 1 2 3 4
 *      h 2 1 0 1 2 3
 *      e 3 2 1 0 1 2
 *      k 4 3 2 1 1 1
 *      c 5 4 3 2 1 1   <- a swap, for two changes
 *
 * A suggestion that is far off is worse than none: at most a third of the word may differ, and one letter of a short
 * one. Letters compare without case, and `_` as `-`: both are habits, not misspellings.
 *
 * Whoever asks for what there is not makes us look, as often as he likes: a look is bounded, whatever there is to look
 * at. Measured: 4 us at the most, and 0.1 us among five names of twelve letters. */
#include "policy/nearest.h"

#include "base/assert.h"

enum {
	WORD_BYTES_MAX = 32, /* a bit each */
	WORDS_MAX = 256,     /* that are looked at */
	LETTERS_MAX = 1024,  /* of them that are compared; the last word is read to its end */
};

/* Where each letter stands in the word, a bit a place. */
struct places {
	uint32_t of[256];
	uint32_t last;
	unsigned len;
};

static unsigned char fold(char c) {
	if (c >= 'A' && c <= 'Z')
		return (unsigned char)(c + 32);
	return c == '_' ? '-' : (unsigned char)c;
}

static void find_places(struct places *places, struct sluice_bytes word) {
	const char *w = word.data;
	SL_ASSERT(word.len >= 1 && word.len <= WORD_BYTES_MAX);
	memset(places->of, 0, sizeof places->of);
	places->len = (unsigned)word.len;
	places->last = 1u << (word.len - 1);
	for (unsigned i = 0; i < word.len; i++)
		places->of[fold(w[i])] |= 1u << i;
}

/* How many edits a known word is away, if these are fewer than `most`; else `most` or more. Adds to `*letters` how many
 * it has read. */
static unsigned distance(const struct places *places, const char *known, unsigned len, unsigned most,
                         unsigned *letters) {
	uint32_t rises = UINT32_MAX, falls = 0, diagonal = 0, before = 0;
	unsigned edits = places->len, j;
	for (j = 0; j < len && edits < most + (len - j); j++) {
		uint32_t here = places->of[fold(known[j])];
		uint32_t swapped = (~diagonal & here) << 1 & before;
		diagonal = (((here & rises) + rises) ^ rises) | here | falls | swapped;
		uint32_t right = falls | ~(diagonal | rises), left = diagonal & rises;
		edits += (right & places->last) != 0;
		edits -= (left & places->last) != 0;
		right = right << 1 | 1;
		rises = left << 1 | ~(diagonal | right);
		falls = right & diagonal;
		before = here;
	}
	*letters += j;
	return j < len ? most : edits;
}

const char *sl_nearest(struct sluice_bytes word, sl_word_at *at, const void *table) {
	const char *nearest = NULL, *known;
	unsigned least_edits = word.len < 6 ? 2 : (unsigned)word.len / 3 + 1, letters = 0;
	struct places places;
	if (word.len == 0 || word.len > WORD_BYTES_MAX)
		return NULL;
	find_places(&places, word);
	for (size_t i = 0; i < WORDS_MAX && letters < LETTERS_MAX && (known = at(table, i)) != NULL; i++) {
		unsigned len = (unsigned)strnlen(known, WORD_BYTES_MAX + 1);
		unsigned apart = len > places.len ? len - places.len : places.len - len;
		if (len > WORD_BYTES_MAX || apart >= least_edits)
			continue;
		unsigned edits = distance(&places, known, len, least_edits, &letters);
		if (edits < least_edits) {
			least_edits = edits;
			nearest = known;
		}
	}
	return nearest;
}
