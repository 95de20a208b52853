/* Secrets, hashed: what the policy file has of them, made and compared.
 *
 *   password   pbkdf2-sha256:ROUNDS:SALT:HASH   RFC 8018: PBKDF2 with HMAC-SHA-256, a salt of 16 random bytes
 *   token      sha256:HASH                      of its text
 *
 * A password is what a person can remember, so whoever steals the file can try all that persons think of: each try is
 * made to cost ROUNDS hashes. A token is 256 random bits, which nobody tries through: one hash is enough, and it can be
 * asked with every request. Neither hash is of use to log in with.
 *
 * 60,000 rounds take about 30 ms of the machines of 2024. That is less than what is advised for sites whose users
 * choose the passwords (OWASP 2023: 600,000): a worker that verifies one does nothing else meanwhile. The rounds stand
 * in the file, so an operator with few, long-lived logins may have more of them. */
#include "base/out.h"
#include "hosts/server/access/access.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>

enum { HASH_BYTES = 32, SALT_BYTES = 16, TOKEN_BYTES = 32, TOKEN_BASE64_BYTES = 45 };

_Static_assert(sizeof((struct sl_secret *)0)->hash == HASH_BYTES, "SHA-256");
_Static_assert(sizeof((struct sl_secret *)0)->salt == SALT_BYTES, "as the policy file has it");

/* Looked up once: finding the algorithm takes twice as long as hashing a token with it. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void find_sha256(void) {
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

bool sl_secret_digest(struct sluice_bytes token, uint8_t hash[HASH_BYTES]) {
	unsigned len = 0;
	pthread_once(&sha256_once, find_sha256);
	return sha256 != NULL && EVP_Digest(token.data, token.len, hash, &len, sha256, NULL) == 1 && len == HASH_BYTES;
}

static bool stretch(struct sluice_bytes password, const uint8_t salt[SALT_BYTES], uint32_t rounds,
                    uint8_t hash[HASH_BYTES]) {
	const char *text = password.len == 0 ? "" : password.data;
	pthread_once(&sha256_once, find_sha256);
	return sha256 != NULL && password.len <= INT32_MAX &&
	       PKCS5_PBKDF2_HMAC(text, (int)password.len, salt, SALT_BYTES, (int)rounds, sha256, HASH_BYTES, hash) == 1;
}

bool sl_secret_is(const struct sl_secret *kept, struct sluice_bytes secret) {
	uint8_t hash[HASH_BYTES] = {0};
	bool done = kept->kind == SL_SECRET_PBKDF2 ? stretch(secret, kept->salt, kept->rounds, hash)
	                                           : sl_secret_digest(secret, hash);
	bool same = CRYPTO_memcmp(hash, kept->hash, HASH_BYTES) == 0;
	OPENSSL_cleanse(hash, sizeof hash);
	return done && same;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

bool sl_secret_of_password(struct sluice_bytes password, char text[SL_SECRET_TEXT_MAX]) {
	uint8_t salt[SALT_BYTES], hash[HASH_BYTES];
	struct sl_out out = sl_out_to(text, SL_SECRET_TEXT_MAX - 1);
	if (RAND_bytes(salt, SALT_BYTES) != 1 || !stretch(password, salt, SL_SECRET_ROUNDS, hash))
		return false;
	sl_out_str(&out, "pbkdf2-sha256:");
	sl_out_u64(&out, SL_SECRET_ROUNDS);
	sl_out_char(&out, ':');
	sl_out_hex(&out, salt, sizeof salt);
	sl_out_char(&out, ':');
	sl_out_hex(&out, hash, sizeof hash);
	*out.at = '\0';
	OPENSSL_cleanse(hash, sizeof hash);
	return true;
}

bool sl_secret_of_token(char token[SL_TOKEN_TEXT_BYTES + 1], char text[SL_SECRET_TEXT_MAX]) {
	uint8_t random[TOKEN_BYTES], hash[HASH_BYTES];
	char base64[TOKEN_BASE64_BYTES];
	struct sl_out out = sl_out_to(text, SL_SECRET_TEXT_MAX - 1);
	if (RAND_bytes(random, TOKEN_BYTES) != 1)
		return false;
	EVP_EncodeBlock((unsigned char *)base64, random, TOKEN_BYTES);
	for (int i = 0; i < SL_TOKEN_TEXT_BYTES; i++) /* RFC 4648, 5: nothing that a URL or a shell would take apart */
		token[i] = (char)(base64[i] == '+' ? '-' : base64[i] == '/' ? '_' : base64[i]);
	token[SL_TOKEN_TEXT_BYTES] = '\0';
	OPENSSL_cleanse(random, sizeof random);
	OPENSSL_cleanse(base64, sizeof base64);
	if (!sl_secret_digest(sl_slice(token, SL_TOKEN_TEXT_BYTES), hash))
		return false;
	sl_out_str(&out, "sha256:");
	sl_out_hex(&out, hash, sizeof hash);
	*out.at = '\0';
	return true;
}
