/* Keys that are too long: see key.h. */
#include "base/sha256.h"
#include "policy/key.h"

enum { KEPT = SLUICE_KEY_BYTES_MAX - 1 - SL_SHA256_DIGITS };

struct sluice_bytes sl_key_fold_long(char folded[SLUICE_KEY_BYTES_MAX], struct sluice_bytes whole) {
	char digits[SL_SHA256_DIGITS];
	sl_sha256_hex(whole, digits);
	memmove(folded, whole.data, KEPT);
	folded[KEPT] = '~';
	memcpy(folded + KEPT + 1, digits, sizeof digits);
	return sl_slice(folded, SLUICE_KEY_BYTES_MAX);
}
