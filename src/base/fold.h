/* Texts that are longer than a key may be: folded.
 *
 * One that is longer than SLUICE_KEY_BYTES_MAX keeps its first 959 bytes, then has '~' and the SHA-256 of the whole in
 * hex: long ones must neither share a counter, as cut ones would, nor go uncounted. That is done wherever one can come
 * in or become too long: to a key or a member that a caller names, to an attribute's value, to a policy's key, to one
 * that gets a prefix in Redis. To fold twice is to fold once: what is folded is short enough. */
#ifndef SL_FOLD_H
#define SL_FOLD_H

#include "base/siphash.h"

/* sl_key_fold() of a text that is longer. */
struct sluice_bytes sl_key_fold_long(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole);

/* Makes a text that is longer than SLUICE_KEY_BYTES_MAX so long. Returns what is the key: `whole` itself where it is
 * short enough, and `folded` has not been touched then; else `folded`, which may be memory that `whole` stands in. Some
 * 5 us a KiB. */
static inline struct sluice_bytes sl_key_fold(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole) {
	return whole.len <= SLUICE_KEY_BYTES_MAX ? whole : sl_key_fold_long(folded, whole);
}

/* sl_siphash() of a longer text, folded: 1-3 rounds with the secret of a store, 2-4 with a fixed key. */
uint64_t sl_siphash_long(const uint64_t key[2], const uint64_t *words, int word_count, struct sluice_bytes text, int c,
                         int d);

/* sl_siphash() of a key, or a member, of any length: a longer one is hashed as what it is folded to. So a caller of the
 * library meets the counter that the same key has at every door. */
static inline __attribute__((always_inline)) uint64_t
sl_siphash_folded(const uint64_t key[2], const uint64_t *words, int word_count, struct sluice_bytes text, int c,
                  int d) {
	if (__builtin_expect(text.len > SLUICE_KEY_BYTES_MAX, 0))
		return sl_siphash_long(key, words, word_count, text, c, d);
	return sl_siphash(key, words, word_count, text, c, d);
}

#endif
