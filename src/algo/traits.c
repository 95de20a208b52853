/* The words of the table of algorithms, both ways. */
#include "algo/traits.h"

#include "base/assert.h"

/* By algorithm; NULL: there is none of this number. */
static const char *const words[] = {
#define WORD_AT(algorithm, word, traits) [algorithm] = word,
	SL_ALGORITHMS(WORD_AT)
#undef WORD_AT
};

enum { WORDS = sizeof words / sizeof words[0] };
_Static_assert(WORDS <= 16, "an identity has 4 bits for the algorithm");

bool sl_algorithm_is_known(uint32_t algorithm) {
	return algorithm < WORDS && words[algorithm] != NULL;
}

const char *sl_algorithm_word(uint32_t algorithm) {
	SL_ASSERT(sl_algorithm_is_known(algorithm));
	return words[algorithm];
}

int32_t sl_algorithm_named(struct sluice_bytes word) {
	for (uint32_t i = 0; i < WORDS; i++)
		if (words[i] != NULL && sl_bytes_equal(word, sl_str(words[i])))
			return (int32_t)i;
	return -1;
}
