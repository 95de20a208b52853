/* The name that EVALSHA knows a script by. */
#include "hosts/redis/script/script.h"

#include "base/out.h"

#include <openssl/evp.h>
#include <string.h>

void sl_script_sha1(const char *text, size_t text_bytes, char hex[41]) {
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned int bytes = 0;
	memset(hex, '0', 40);
	hex[40] = '\0';
	if (EVP_Digest(text, text_bytes, hash, &bytes, EVP_sha1(), NULL) != 1 || bytes != 20)
		return; /* no SHA1 in this libcrypto: the name of no script, so Redis says NOSCRIPT */
	for (int i = 0; i < 20; i++)
		sl_hex(hex + 2 * i, hash[i], 2);
}
