/* Who may do what: credentials to roles.
 *
 * Where no users are configured everybody may do everything, and the server listens on loopback and unix sockets only.
 * With users, a caller has the roles of whoever it logs in as, or those of `anonymous`.
 *
 * Secrets are kept hashed and compared in constant time. A password is stretched, which costs milliseconds: who has
 * been verified is remembered (by a keyed hash), and wrong passwords of one address are limited, so that nobody can
 * keep the server busy with guessing. Nothing of a secret is ever logged or printed. */
#ifndef SL_ACCESS_H
#define SL_ACCESS_H

#include "policy/policy.h"

struct sl_access;

/* Makes the memory of verified credentials and failed attempts; one a server, shared by its workers. NULL when the
 * system gives no memory or no random bytes. */
struct sl_access *sl_access_new(void);
void sl_access_free(struct sl_access *access);

enum sl_login_result {
	SL_LOGIN_OK,
	SL_LOGIN_WRONG, /* no such user, or another password: not told apart, not by time either */
	SL_LOGIN_LATER, /* this address has failed too often: it may try again in a while */
};

struct sl_login {
	enum sl_login_result result;
	const struct sl_user *user; /* SL_LOGIN_OK: borrowed from the policy */
	sluice_ns retry_after_ns;   /* SL_LOGIN_LATER */
};

/* Verifies a name and its password or token. `address` is the caller's, as text ("192.0.2.1:51000", "[2001:db8::1]:80",
 * "unix"), for the limit of failures: a port is left out, IPv6 counts by its network.
 * Some hundred ns for who was verified before, else as long as the hash takes. Any thread. */
struct sl_login sl_access_login(struct sl_access *access, const struct sluice_policy *policy, struct sluice_bytes name,
                                struct sluice_bytes secret, struct sluice_bytes address, sluice_ns now);
/* Verifies a bearer's token, which names no user. A right one is let in however often its address has failed: it costs
 * no more to find out. About a microsecond. Any thread. */
struct sl_login sl_access_bearer(struct sl_access *access, const struct sluice_policy *policy,
                                 struct sluice_bytes token, struct sluice_bytes address, sluice_ns now);

/* How many passwords have been stretched since the server began: what logging in has cost. */
uint64_t sl_access_stretched(const struct sl_access *access);

/* What roles come to: admin may do everything. */
static inline uint32_t sl_access_expand(uint32_t roles) {
	return roles & SL_ROLE_ADMIN ? SL_ROLE_ALL : roles;
}
/* The roles of a caller who has not logged in. */
static inline uint32_t sl_access_anonymous(const struct sluice_policy *policy) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	return settings->user_count == 0 ? SL_ROLE_ALL : sl_access_expand(settings->anonymous);
}
/* The roles of one who has. */
static inline uint32_t sl_access_roles(const struct sl_user *user) {
	return sl_access_expand(user->roles);
}


/* Who has logged in on a connection, while policies come and go under it: nothing of a policy is pointed to. */
struct sl_login_kept {
	bool logged_in;
	uint16_t index;   /* where the policy had the user when last looked */
	uint8_t hash[32]; /* what it keeps of his secret: another one ends the login */
	char user[SLUICE_NAME_BYTES_MAX + 1];
};
/* Keeps a login; `user` is one of the settings'. */
void sl_login_keep(struct sl_login_kept *kept, const struct sl_settings *settings, const struct sl_user *user);
/* Looks again, under whatever policy is in force: a user who has gone, or whose secret is another one now, is logged
 * out. Whoever takes away a stolen password wants its connections to lose it too. Returns the roles that he has now;
 * anonymous' where he is not logged in, all where there are no users. Some ns. */
uint32_t sl_login_judge(struct sl_login_kept *kept, const struct sluice_policy *policy);

/* ---- making secrets, for `sluice password` and `sluice token` ---- */

enum {
	SL_SECRET_TEXT_MAX = 160,
	SL_TOKEN_TEXT_BYTES = 43,
	SL_SECRET_ROUNDS = 60000, /* of a new password: about 30 ms, during which a worker does nothing else */
};

/* Hashes a password for the policy file: "pbkdf2-sha256:..", NUL-ended. False where the system gave no random bytes.
 * Takes SL_SECRET_ROUNDS. */
bool sl_secret_of_password(struct sluice_bytes password, char text[SL_SECRET_TEXT_MAX]);
/* Makes a new token (256 random bits, base64url, NUL-ended) and its hash "sha256:..". */
bool sl_secret_of_token(char token[SL_TOKEN_TEXT_BYTES + 1], char text[SL_SECRET_TEXT_MAX]);
/* Is this the secret that was hashed? Constant time in what is compared; a password takes its rounds. */
bool sl_secret_is(const struct sl_secret *kept, struct sluice_bytes secret);
/* The hash that a token is kept as. False where the system gives no memory. */
bool sl_secret_digest(struct sluice_bytes token, uint8_t hash[32]);

#endif
