/* Keys as logs and streams show them: in the clear, hashed, or cut, as the policy says (`log: {keys: ..}`). One rule
 * for all who write a key down; whoever answers who asked shows it as it is.
 *
 *   clear  as it is
 *   hash   "hmac:" and the first 16 hex digits of HMAC-SHA-256(keys-secret, key): who knows the key finds its lines by
 *          `printf %s KEY | openssl dgst -sha256 -hmac SECRET`, who reads the log learns no key
 *   cut    of each value (`user=alice,plan=pro`; a key without `=` is one) its first bytes, at most 4 and at most half
 *          of it, and `*` */
#ifndef SL_KEY_SHOWN_H
#define SL_KEY_SHOWN_H

#include "policy/policy.h"

/* The key, or an address, in the form that the settings ask for. At most SLUICE_KEY_BYTES_MAX bytes of it are looked
 * at; `memory`, twice as many, holds what is not the key itself. Hashing takes about a microsecond. */
struct sluice_bytes sl_key_shown(const struct sl_log_settings *settings, struct sluice_bytes key,
                                 char memory[2 * SLUICE_KEY_BYTES_MAX]);

#endif
