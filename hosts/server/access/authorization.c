/* Authorization headers. What is decoded of a secret is wiped. */
#include "hosts/server/access/authorization.h"

#include "base/bytes.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { BASIC_BYTES_MAX = 2048 }; /* decoded; more than any name and secret */

/* On whose behalf, and when. */
struct caller {
	struct sl_access *access;
	const struct sluice_policy *policy;
	struct sluice_bytes address;
	sluice_ns now;
};

static struct sl_login bearer(const struct caller *caller, struct sluice_bytes token) {
	return sl_access_bearer(caller->access, caller->policy, token, caller->address, caller->now);
}

static bool basic(const struct caller *caller, struct sluice_bytes text, struct sl_login *login) {
	unsigned char memory[BASIC_BYTES_MAX + 4];
	const char *p = text.data;
	if (text.len == 0 || text.len % 4 != 0 || text.len / 4 * 3 > BASIC_BYTES_MAX)
		return false;
	int len = EVP_DecodeBlock(memory, text.data, (int)text.len);
	len -= (p[text.len - 1] == '=') + (p[text.len - 2] == '='); /* it counts the padding as bytes */
	unsigned char *colon = len <= 0 ? NULL : memchr(memory, ':', (size_t)len);
	if (colon != NULL) {
		struct sluice_bytes name = sl_slice(memory, (size_t)(colon - memory));
		struct sluice_bytes secret = sl_slice(colon + 1, (size_t)len - name.len - 1);
		*login = name.len == 0
		             ? bearer(caller, secret)
		             : sl_access_login(caller->access, caller->policy, name, secret, caller->address, caller->now);
	}
	OPENSSL_cleanse(memory, sizeof memory);
	return colon != NULL;
}

/* Takes the scheme and the spaces after it off a value. */
static bool has_scheme(struct sluice_bytes *value, const char *scheme) {
	size_t len = strlen(scheme);
	const char *p = value->data;
	if (value->len <= len || p[len] != ' ' || !sl_bytes_equal_nocase(sl_slice(p, len), scheme))
		return false;
	while (len < value->len && p[len] == ' ')
		len++;
	*value = sl_slice(p + len, value->len - len);
	return true;
}

bool sl_authorization_verify(struct sl_access *access, const struct sluice_policy *policy, struct sluice_bytes value,
                             const char *address, sluice_ns now, struct sl_login *login) {
	const struct caller caller = {access, policy, sl_str(address == NULL ? "" : address), now};
	if (!has_scheme(&value, "bearer"))
		return has_scheme(&value, "basic") && basic(&caller, value, login);
	*login = bearer(&caller, value);
	return true;
}
