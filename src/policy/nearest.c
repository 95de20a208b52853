/* Optimal string alignment (Damerau-Levenshtein without overlapping swaps) over three rows.
 *
 * A suggestion that is far off is worse than none: at most a third of the word may differ, and one letter of a short
 * one. Letters compare without case, and `_` as `-`: both are habits, not misspellings.
 */
#include "policy/nearest.h"

enum { WORD_BYTES_MAX = 32 };

static unsigned char fold(char c) {
	if (c >= 'A' && c <= 'Z')
		return (unsigned char)(c + 32);
	return c == '_' ? '-' : (unsigned char)c;
}

static unsigned least(unsigned a, unsigned b) {
	return a < b ? a : b;
}

static unsigned distance(struct sluice_bytes word, const char *known) {
	unsigned rows[3][WORD_BYTES_MAX + 1];
	const char *w = word.data;
	unsigned known_len = (unsigned)strlen(known);
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];
	for (unsigned j = 0; j <= known_len; j++)
		above[j] = j;
	for (unsigned i = 1; i <= word.len; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= known_len; j++) {
			bool same = fold(w[i - 1]) == fold(known[j - 1]);
			row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
			if (i > 1 && j > 1 && fold(w[i - 1]) == fold(known[j - 2]) && fold(w[i - 2]) == fold(known[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		unsigned *spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[known_len];
}

const char *sl_nearest(struct sluice_bytes word, sl_word_at *at, const void *table) {
	const char *nearest = NULL, *known;
	unsigned least_edits = word.len < 6 ? 2 : (unsigned)word.len / 3 + 1;
	if (word.len == 0 || word.len > WORD_BYTES_MAX)
		return NULL;
	for (size_t i = 0; (known = at(table, i)) != NULL; i++) {
		if (strlen(known) > WORD_BYTES_MAX)
			continue;
		unsigned edits = distance(word, known);
		if (edits < least_edits) {
			least_edits = edits;
			nearest = known;
		}
	}
	return nearest;
}
