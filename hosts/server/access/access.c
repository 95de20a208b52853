/* Logging in, and what is remembered of it.
 *
 *   name, secret --> remembered? --> a token's? --> may this address still try? --> stretch, compare --> remember
 *                    100 ns          0.3 us          0.2 us                          30 ms
 *
 *  A1  Who was verified stays verified, for nothing: clients that open a connection a request, or send their password
 *      with each, pay for one stretching in all. And nobody's failures can lock them out, not even from their own
 *      address: what is remembered is looked at first.
 *  A2  It is remembered under what the policy keeps of the secret as well, so a reload that changes a password forgets
 *      the old one by itself, and one that changes nothing forgets nothing.
 *  A3  Only what has been verified is remembered, so an attacker can push nothing out. 1,024 places for 256 users at
 *      most, 32 sets of 32: that one of them gets more than its places happens to one server in 10^8.
 *  A4  The secret itself is not kept, only 128 bits of SipHash-2-4 under keys of this process. (Who can read the memory
 *      of the server can try passwords against them quickly: but he may as well read the next one that arrives.)
 *  A5  An attempt is charged before it is looked at and given back when it was right: 10 failures a minute from an
 *      address (from an IPv6 network), and 4 stretchings a second that came to nothing, from everywhere together. Both
 *      are Sluice's own limits, in a store of their own, decided as one: all or nothing.
 *  A6  An unknown name costs what a known one does: a decoy is stretched, with the rounds of one of the users. */
#include "hosts/server/access/access.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "policy/address.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SETS = 32, WAYS = 32 };

/* The limits of A5. A failure of ours to decide keeps the door shut for a second. */
#define FAILURES "sliding-window 10/1m"
#define STRETCHES "token-bucket 4/1s burst 16"
#define FAILED_WAIT_NS UINT64_C(1000000000)

/* What a credential is remembered by. */
struct trace {
	uint64_t low, high;
};

/* Two halves that are written apart: whoever reads a torn one sees 128 bits that no credential has. */
struct place {
	_Atomic uint64_t low, high;
};

struct sl_access {
	uint64_t keys[2][2], name_key[2];
	struct sluice_store *store;
	struct sluice_limit failures, stretches;
	struct sl_secret decoy, decoy_token;
	_Atomic uint64_t stretched;
	_Atomic uint32_t next_way;
	struct place verified[SETS][WAYS];
};

struct sl_access *sl_access_new(void) {
	struct sl_access *access = calloc(1, sizeof *access);
	if (access == NULL)
		return NULL;
	access->decoy.kind = SL_SECRET_PBKDF2;
	access->decoy_token.kind = SL_SECRET_SHA256;
	if (RAND_bytes((unsigned char *)access->keys, sizeof access->keys) != 1 ||
	    RAND_bytes((unsigned char *)access->name_key, sizeof access->name_key) != 1 ||
	    RAND_bytes(access->decoy.salt, sizeof access->decoy.salt) != 1 ||
	    RAND_bytes(access->decoy.hash, sizeof access->decoy.hash) != 1 ||
	    RAND_bytes(access->decoy_token.hash, sizeof access->decoy_token.hash) != 1 ||
	    sluice_limit_parse(&access->failures, sl_str(FAILURES), NULL) != SLUICE_OK ||
	    sluice_limit_parse(&access->stretches, sl_str(STRETCHES), NULL) != SLUICE_OK ||
	    sluice_store_open(&access->store, &(struct sluice_store_options){.memory_bytes = 1 << 20}, NULL) != SLUICE_OK) {
		free(access);
		return NULL;
	}
	return access;
}

void sl_access_free(struct sl_access *access) {
	if (access == NULL)
		return;
	sluice_store_close(access->store);
	OPENSSL_cleanse(access, sizeof *access);
	free(access);
}

uint64_t sl_access_stretched(const struct sl_access *access) {
	return atomic_load_explicit(&access->stretched, memory_order_relaxed);
}

/* ---- what is remembered ---------------------------------------------------------------------------------------- */

/* First what the policy keeps, then what was given: two messages, so that no byte of one passes for the other's. */
static struct trace trace_of(const struct sl_access *access, const struct sl_secret *kept, struct sluice_bytes secret) {
	uint8_t own[sizeof kept->salt + sizeof kept->hash];
	uint64_t words[2];
	memcpy(own, kept->salt, sizeof kept->salt);
	memcpy(own + sizeof kept->salt, kept->hash, sizeof kept->hash);
	words[0] = sl_siphash(access->keys[0], NULL, 0, sl_slice(own, sizeof own), 2, 4);
	words[1] = sl_siphash(access->keys[1], NULL, 0, sl_slice(own, sizeof own), 2, 4);
	return (struct trace){sl_siphash(access->keys[0], words, 2, secret, 2, 4),
	                      sl_siphash(access->keys[1], words, 2, secret, 2, 4)};
}

/* Relaxed: a trace carries all that it means, and one that is seen late costs a stretching. */
static bool is_remembered(const struct sl_access *access, struct trace trace) {
	const struct place *places = access->verified[trace.low % SETS];
	bool found = false;
	for (int i = 0; i < WAYS; i++) {
		uint64_t low = atomic_load_explicit(&places[i].low, memory_order_relaxed);
		uint64_t high = atomic_load_explicit(&places[i].high, memory_order_relaxed);
		found |= ((low ^ trace.low) | (high ^ trace.high)) == 0;
	}
	return found;
}

static void remember(struct sl_access *access, struct trace trace) {
	struct place *places = access->verified[trace.low % SETS];
	uint32_t way = 0;
	while (way < WAYS && (atomic_load_explicit(&places[way].low, memory_order_relaxed) |
	                      atomic_load_explicit(&places[way].high, memory_order_relaxed)) != 0)
		way++;
	if (way == WAYS)
		way = atomic_fetch_add_explicit(&access->next_way, 1, memory_order_relaxed) % WAYS;
	atomic_store_explicit(&places[way].low, trace.low, memory_order_relaxed);
	atomic_store_explicit(&places[way].high, trace.high, memory_order_relaxed);
}

/* ---- what attempts are charged to ------------------------------------------------------------------------------ */

struct attempt {
	char address[SL_ADDRESS_TEXT_MAX];
	struct sluice_item items[2];
	uint32_t item_count;
	sluice_ns now;
};

static void begin_attempt(struct attempt *attempt, const struct sl_access *access, uint32_t ipv6_prefix,
                          struct sluice_bytes address, bool stretches, sluice_ns now) {
	struct sl_address parsed;
	size_t len = address.len < sizeof attempt->address ? address.len : sizeof attempt->address;
	if (sl_address_parse(address, &parsed, NULL))
		len = sl_address_key(&parsed, ipv6_prefix, attempt->address);
	else if (len != 0)
		memcpy(attempt->address, address.data, len);
	attempt->items[0] = (struct sluice_item){.limit = &access->failures, .key = sl_slice(attempt->address, len)};
	attempt->items[1] = (struct sluice_item){.limit = &access->stretches};
	attempt->item_count = stretches ? 2 : 1;
	attempt->now = now;
}

/* Charges an attempt. 0, or how long the caller has to wait first. */
static sluice_ns charge(struct sl_access *access, const struct attempt *attempt) {
	struct sluice_call call = {
		.items = attempt->items, .item_count = attempt->item_count, .cost = 1, .now = attempt->now};
	if (sluice_decide(access->store, &call) != SLUICE_OK)
		return FAILED_WAIT_NS;
	return call.merged.retry_after_ns;
}

static void give_back(struct sl_access *access, const struct attempt *attempt) {
	struct sluice_call call = {.items = attempt->items,
	                           .item_count = attempt->item_count,
	                           .operation = SLUICE_REFUND,
	                           .cost = 1,
	                           .now = attempt->now};
	sluice_err err = sluice_decide(access->store, &call);
	(void)err; /* then the charge stays: one attempt less, and nobody let in */
}

/* ---- logging in ------------------------------------------------------------------------------------------------ */

static struct sl_login let_in(const struct sl_user *user) {
	return (struct sl_login){.result = SL_LOGIN_OK, .user = user};
}

static struct sl_login refuse(sluice_ns wait) {
	return (struct sl_login){.result = wait == 0 ? SL_LOGIN_WRONG : SL_LOGIN_LATER, .retry_after_ns = wait};
}

static const struct sl_user *find_user(const struct sl_settings *settings, struct sluice_bytes name) {
	for (uint32_t i = 0; i < settings->user_count; i++)
		if (sl_bytes_equal(settings->users[i].name, name))
			return &settings->users[i];
	return NULL;
}

/* What is stretched for a name that has no password: with the rounds of a user who has one, always the same for one
 * name. False where nobody has one: then nothing is ever stretched. */
static bool make_decoy(const struct sl_access *access, const struct sl_settings *settings, struct sluice_bytes name,
                       struct sl_secret *decoy) {
	uint32_t count = 0, chosen;
	for (uint32_t i = 0; i < settings->user_count; i++)
		count += !settings->users[i].is_token;
	if (count == 0)
		return false;
	chosen = (uint32_t)(sl_siphash(access->name_key, NULL, 0, name, 2, 4) % count);
	*decoy = access->decoy;
	for (uint32_t i = 0; i < settings->user_count; i++)
		if (!settings->users[i].is_token && chosen-- == 0)
			decoy->rounds = settings->users[i].secret.rounds;
	return true;
}

static bool stretch(struct sl_access *access, const struct sl_secret *kept, struct sluice_bytes secret) {
	atomic_fetch_add_explicit(&access->stretched, 1, memory_order_relaxed);
	return sl_secret_is(kept, secret);
}

/* A6: the decoy is compared as well, and never right. */
static bool is_token_of(const struct sl_access *access, const struct sl_user *user, struct sluice_bytes secret) {
	bool has_token = user != NULL && user->is_token;
	return sl_secret_is(has_token ? &user->secret : &access->decoy_token, secret) && has_token;
}

struct sl_login sl_access_login(struct sl_access *access, const struct sluice_policy *policy, struct sluice_bytes name,
                                struct sluice_bytes secret, struct sluice_bytes address, sluice_ns now) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	const struct sl_user *user = find_user(settings, name);
	struct sl_secret kept;
	struct attempt attempt;
	struct trace trace = trace_of(access, user != NULL ? &user->secret : &access->decoy, secret);
	if ((is_remembered(access, trace) && user != NULL) || is_token_of(access, user, secret))
		return let_in(user);
	bool has_password = user != NULL && !user->is_token, stretches = true;
	if (has_password)
		kept = user->secret;
	else
		stretches = make_decoy(access, settings, name, &kept);
	begin_attempt(&attempt, access, settings->ipv6_prefix, address, stretches, now);
	sluice_ns wait = charge(access, &attempt);
	if (wait != 0 || !stretches)
		return refuse(wait);
	if (!stretch(access, &kept, secret) || !has_password)
		return refuse(0);
	give_back(access, &attempt);
	remember(access, trace);
	return let_in(user);
}

struct sl_login sl_access_bearer(struct sl_access *access, const struct sluice_policy *policy,
                                 struct sluice_bytes token, struct sluice_bytes address, sluice_ns now) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	const struct sl_user *found = NULL;
	uint8_t hash[32];
	struct attempt attempt;
	bool hashed = sl_secret_digest(token, hash);
	for (uint32_t i = 0; i < settings->user_count && hashed; i++) { /* to the end: time tells nothing of which it was */
		const struct sl_user *user = &settings->users[i];
		bool same = CRYPTO_memcmp(hash, user->secret.hash, sizeof hash) == 0;
		found = same && user->is_token ? user : found;
	}
	if (found != NULL)
		return let_in(found);
	begin_attempt(&attempt, access, settings->ipv6_prefix, address, false, now);
	return refuse(charge(access, &attempt));
}

/* ---- logins that are kept ---------------------------------------------------------------------------------------- */

void sl_login_keep(struct sl_login_kept *kept, const struct sl_settings *settings, const struct sl_user *user) {
	SL_ASSERT(user->name.len <= SLUICE_NAME_BYTES_MAX);
	kept->logged_in = true;
	kept->index = (uint16_t)(user - settings->users);
	memcpy(kept->hash, user->secret.hash, sizeof kept->hash);
	memcpy(kept->user, user->name.data, user->name.len);
	kept->user[user->name.len] = '\0';
}

static bool is_still(const struct sl_login_kept *kept, const struct sl_user *user) {
	return sl_bytes_equal(user->name, sl_str(kept->user)) &&
	       memcmp(user->secret.hash, kept->hash, sizeof kept->hash) == 0;
}

static const struct sl_user *find_kept(struct sl_login_kept *kept, const struct sl_settings *settings) {
	if (kept->index < settings->user_count && is_still(kept, &settings->users[kept->index]))
		return &settings->users[kept->index];
	for (uint32_t i = 0; i < settings->user_count; i++)
		if (is_still(kept, &settings->users[i])) {
			kept->index = (uint16_t)i;
			return &settings->users[i];
		}
	return NULL;
}

uint32_t sl_login_judge(struct sl_login_kept *kept, const struct sluice_policy *policy) {
	const struct sl_user *user = kept->logged_in ? find_kept(kept, sl_policy_settings(policy)) : NULL;
	kept->logged_in = user != NULL;
	return user != NULL ? sl_access_roles(user) : sl_access_anonymous(policy);
}
