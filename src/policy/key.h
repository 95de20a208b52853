/* Keys as text: what EXPLAIN prints and what counters are found by.
 *
 * A key, or a value, that is longer than SLUICE_KEY_BYTES_MAX keeps its first 959 bytes, then has '~' and the SHA-256
 * of the whole in hex: long ones must neither share a counter, as cut ones would, nor go uncounted. That is done
 * wherever one can become too long: to an attribute's value, to a policy's key, to one that gets a prefix in Redis. */
#ifndef SL_KEY_H
#define SL_KEY_H

#include "base/out.h"

/* Appends a name or a value with `%`, `,` and `=` as %25, %2C and %3D, so that no two lists of pairs make one key.
 * Sets out->overflow where it does not fit. About 1 ns a byte. */
void sl_key_encode(struct sl_out *out, struct sluice_bytes text);

/* The same of an attribute's value: one that is longer than SLUICE_KEY_BYTES_MAX is folded first. */
void sl_key_add(struct sl_out *out, struct sluice_bytes value);

/* sl_key_fold() of a text that is longer. */
struct sluice_bytes sl_key_fold_long(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole);

/* Makes a text that is longer than SLUICE_KEY_BYTES_MAX so long. Returns what is the key: `whole` itself where it is
 * short enough, and `folded` has not been touched then; else `folded`, which may be memory that `whole` stands in. Some
 * 5 us a KiB. */
static inline struct sluice_bytes sl_key_fold(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole) {
	return whole.len <= SLUICE_KEY_BYTES_MAX ? whole : sl_key_fold_long(folded, whole);
}

#endif
