/* Keys as logs show them. */
#include "hosts/server/watch/key_shown.h"

#include "base/assert.h"
#include "base/math.h"
#include "base/out.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { HASH_BYTES_SHOWN = 8, CUT_BYTES_MAX = 4 };

/* "hmac:?" where libcrypto has no memory: a line without a key, and never the key itself. */
static struct sluice_bytes hashed(const char *secret, struct sluice_bytes key, char *memory) {
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	struct sl_out out = sl_out_to(memory, SLUICE_KEY_BYTES_MAX);
	sl_out_str(&out, "hmac:");
	if (HMAC(EVP_sha256(), secret, (int)strlen(secret), key.data, key.len, hash, &len) == NULL)
		sl_out_char(&out, '?');
	SL_ASSERT(len == 0 || len >= HASH_BYTES_SHOWN);
	for (unsigned i = 0; i < HASH_BYTES_SHOWN && i < len; i++) {
		sl_out_char(&out, "0123456789abcdef"[hash[i] >> 4]);
		sl_out_char(&out, "0123456789abcdef"[hash[i] & 15]);
	}
	return sl_slice(memory, sl_out_len(&out));
}

/* Whole characters of UTF-8 at the beginning of a value. */
static size_t kept_of(const unsigned char *value, size_t len) {
	size_t kept = sl_min(CUT_BYTES_MAX, len / 2);
	while (kept != 0 && (value[kept] & 0xc0) == 0x80)
		kept--;
	return kept;
}

static struct sluice_bytes cut(struct sluice_bytes key, char *memory) {
	const unsigned char *at = key.data, *end = at + key.len;
	struct sl_out out = sl_out_to(memory, (size_t)2 * SLUICE_KEY_BYTES_MAX);
	while (at < end) {
		const unsigned char *comma = memchr(at, ',', (size_t)(end - at)), *until = comma != NULL ? comma : end;
		const unsigned char *equals = memchr(at, '=', (size_t)(until - at));
		const unsigned char *value = equals != NULL ? equals + 1 : at;
		sl_out_bytes(&out, at, (size_t)(value - at));
		sl_out_bytes(&out, value, kept_of(value, (size_t)(until - value)));
		sl_out_char(&out, '*');
		if (comma != NULL)
			sl_out_char(&out, ',');
		at = until + (comma != NULL);
	}
	return sl_slice(memory, sl_out_len(&out));
}

struct sluice_bytes sl_key_shown(const struct sl_log_settings *settings, struct sluice_bytes key,
                                 char memory[2 * SLUICE_KEY_BYTES_MAX]) {
	key.len = sl_min(key.len, SLUICE_KEY_BYTES_MAX);
	if (key.len == 0)
		return key;
	if (settings->keys == SL_KEYS_HASH)
		return hashed(settings->keys_secret, key, memory);
	return settings->keys == SL_KEYS_CUT ? cut(key, memory) : key;
}
