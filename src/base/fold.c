/* Long texts, folded: see fold.h. */
#include "base/fold.h"

#include "base/sha256.h"

enum { KEPT = SLUICE_KEY_BYTES_MAX - 1 - SL_SHA256_DIGITS };

struct sluice_bytes sl_key_fold_long(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole) {
	char digits[SL_SHA256_DIGITS];
	sl_sha256_hex(whole, digits);
	memmove(folded, whole.data, KEPT);
	folded[KEPT] = '~';
	memcpy(folded + KEPT + 1, digits, sizeof digits);
	return sl_slice(folded, SLUICE_KEY_BYTES_MAX);
}

uint64_t sl_siphash_long(const uint64_t key[2], const uint64_t *words, int word_count, struct sluice_bytes text, int c,
                         int d) {
	char folded[SLUICE_KEY_BYTES_MAX];
	return sl_siphash(key, words, word_count, sl_key_fold(folded, text), c, d);
}
