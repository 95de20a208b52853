/* SHA-256 (FIPS 180-4), for what must fit and may neither be cut nor shared: nobody finds two texts of one hash.
 * Secrets are hashed by libcrypto, not by this. */
#ifndef SL_SHA256_H
#define SL_SHA256_H

#include "base/bytes.h"

enum { SL_SHA256_BYTES = 32, SL_SHA256_DIGITS = 2 * SL_SHA256_BYTES };

/* Hashes `text`, of any length (data may be NULL where len is 0), and writes the hash as lower-case hex digits, not
 * NUL-ended. Some 5 us a KiB. */
void sl_sha256_hex(struct sluice_bytes text, char digits[SL_SHA256_DIGITS]);

#endif
