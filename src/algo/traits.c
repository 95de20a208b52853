/* The words of the table of algorithms, both ways. */
#include "algo/traits.h"

#include "base/assert.h"

/* By algorithm; NULL: there is none of this number. */
static const char *const words[] = {
#define WORD_AT(algorithm, word, traits, example, says) [algorithm] = word,
	SL_ALGORITHMS(WORD_AT)
#undef WORD_AT
};

/* As people read of them. */
static const uint8_t order[] = {
#define NUMBER(algorithm, word, traits, example, says) algorithm,
	SL_ALGORITHMS(NUMBER)
#undef NUMBER
};

enum { ALGORITHMS = sizeof order / sizeof order[0] };
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

void sl_algorithms_list(struct sl_out *out) {
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		sl_out_str(out, i == 0 ? "" : i + 1 < ALGORITHMS ? ", " : " or ");
		sl_out_str(out, words[order[i]]);
	}
}
