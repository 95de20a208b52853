/* Users for the tests of logging in: policies whose secrets everybody knows, with few rounds. */
#ifndef TESTS_USERS_H
#define TESTS_USERS_H

#include "hosts/server/access/access.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

enum { USERS_ROUNDS = 1000, USERS_LINE_MAX = 320 };

static inline void users_hex(char *text, const uint8_t *bytes, size_t count) {
	for (size_t i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* A line of `users:` for a password, hashed here by OpenSSL itself and not by the code under test. */
static inline const char *user_password(char line[USERS_LINE_MAX], const char *name, const char *password, int rounds,
                                        const char *roles) {
	uint8_t salt[16], hash[32];
	char salt_hex[33], hash_hex[65];
	for (size_t i = 0; i < sizeof salt; i++)
		salt[i] = (uint8_t)(name[i % strlen(name)] + i);
	PKCS5_PBKDF2_HMAC(password, (int)strlen(password), salt, sizeof salt, rounds, EVP_sha256(), sizeof hash, hash);
	users_hex(salt_hex, salt, sizeof salt);
	users_hex(hash_hex, hash, sizeof hash);
	snprintf(line, USERS_LINE_MAX, "  - {name: %s, password: \"pbkdf2-sha256:%d:%s:%s\", roles: [%s]}\n", name, rounds,
	         salt_hex, hash_hex, roles);
	return line;
}

static inline const char *user_token(char line[USERS_LINE_MAX], const char *name, const char *token,
                                     const char *roles) {
	uint8_t hash[32];
	char hash_hex[65];
	unsigned len = 0;
	EVP_Digest(token, strlen(token), hash, &len, EVP_sha256(), NULL);
	users_hex(hash_hex, hash, sizeof hash);
	snprintf(line, USERS_LINE_MAX, "  - {name: %s, token: \"sha256:%s\", roles: [%s]}\n", name, hash_hex, roles);
	return line;
}

/* One user for each role, by password: checker, reader, admin ("pw-" before the name), and one by token: robot
 * ("token-robot", check). `before` and `after` stand around them in the file. Static memory. */
static inline const char *users_policy(const char *before, const char *after) {
	static char text[8 * USERS_LINE_MAX];
	char line[USERS_LINE_MAX];
	size_t len = (size_t)snprintf(text, sizeof text, "%susers:\n", before);
	static const struct {
		const char *name, *roles;
	} users[] = {{"checker", "check"}, {"reader", "read"}, {"admin", "admin"}};
	for (size_t i = 0; i < 3; i++) {
		char password[32];
		snprintf(password, sizeof password, "pw-%s", users[i].name);
		user_password(line, users[i].name, password, USERS_ROUNDS, users[i].roles);
		len += (size_t)snprintf(text + len, sizeof text - len, "%s", line);
	}
	snprintf(text + len, sizeof text - len, "%s%s", user_token(line, "robot", "token-robot", "check"), after);
	return text;
}

static inline struct sluice_policy *users_load(const char *text) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {0};
	if (sluice_policy_load(&policy, sl_str(text), &problems) != SLUICE_OK)
		fail_msg("policy, line %u: %s", problems.list[0].line, problems.list[0].text);
	sluice_problems_free(&problems);
	return policy;
}

#endif
