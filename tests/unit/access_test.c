/* Secrets and logins: what is right, what is wrong, what it costs, and for whom. No clock but one of ours. */
#include "hosts/server/access/access.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/unit/users.h"

#define NOW_NS UINT64_C(1800000000000000000) /* a whole minute */
#define SECOND UINT64_C(1000000000)
#define HERE "192.0.2.1:4321"

struct world {
	struct sl_access *access;
	struct sluice_policy *policy;
};

static struct world begin(const char *policy) {
	struct world world = {sl_access_new(), users_load(policy)};
	assert_non_null(world.access);
	return world;
}

static void end(struct world *world) {
	sl_access_free(world->access);
	sluice_policy_free(world->policy);
}

static struct sl_login login_at(const struct world *world, const char *name, const char *secret, const char *from,
                                sluice_ns now) {
	return sl_access_login(world->access, world->policy, sl_str(name), sl_str(secret), sl_str(from), now);
}

static void expect_login(const struct world *world, const char *name, const char *secret, const char *from,
                         enum sl_login_result want) {
	struct sl_login login = login_at(world, name, secret, from, NOW_NS);
	assert_int_equal(login.result, want);
	if (want == SL_LOGIN_OK)
		assert_true(sl_bytes_equal(login.user->name, sl_str(name)));
}

static struct sl_login bearer(const struct world *world, const char *token, const char *from) {
	return sl_access_bearer(world->access, world->policy, sl_str(token), sl_str(from), NOW_NS);
}

/* ---- secrets --------------------------------------------------------------------------------------------------- */

/* What is made can be written into a policy and logs in; each one is another. */
static void test_made_secrets_work(void **state) {
	(void)state;
	char password[SL_SECRET_TEXT_MAX], again[SL_SECRET_TEXT_MAX], hash[SL_SECRET_TEXT_MAX];
	char token[SL_TOKEN_TEXT_BYTES + 1], other[SL_TOKEN_TEXT_BYTES + 1], policy[1024];
	assert_true(sl_secret_of_password(sl_str("hunter2"), password));
	assert_true(sl_secret_of_password(sl_str("hunter2"), again));
	assert_string_not_equal(password, again);
	assert_true(sl_secret_of_token(other, hash));
	assert_true(sl_secret_of_token(token, hash));
	assert_string_not_equal(token, other);
	assert_int_equal(strlen(token), SL_TOKEN_TEXT_BYTES);
	assert_int_equal(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
	                 SL_TOKEN_TEXT_BYTES);
	assert_null(strstr(password, "hunter2"));
	assert_null(strstr(hash, token));
	snprintf(policy, sizeof policy,
	         "users:\n  - {name: a, password: \"%s\", role: check}\n  - {name: b, token: \"%s\", role: read}\n",
	         password, hash);
	struct world world = begin(policy);
	assert_int_equal(sl_policy_settings(world.policy)->users[0].secret.rounds, SL_SECRET_ROUNDS);
	expect_login(&world, "a", "hunter2", HERE, SL_LOGIN_OK);
	expect_login(&world, "a", "hunter3", HERE, SL_LOGIN_WRONG);
	expect_login(&world, "b", token, HERE, SL_LOGIN_OK);
	expect_login(&world, "b", other, HERE, SL_LOGIN_WRONG);
	end(&world);
}

/* Known answers: PBKDF2-HMAC-SHA-256 of RFC 7914 section 11 has 64 bytes of output and other salts; this one is
 * OpenSSL's for "password", 16 bytes of 's', 1000 rounds. And every single wrong bit is wrong. */
static void test_secret_is(void **state) {
	(void)state;
	struct sl_secret kept = {.kind = SL_SECRET_PBKDF2, .rounds = 1000}, changed;
	memset(kept.salt, 's', sizeof kept.salt);
	assert_int_equal(
		PKCS5_PBKDF2_HMAC("password", 8, kept.salt, sizeof kept.salt, 1000, EVP_sha256(), sizeof kept.hash, kept.hash),
		1);
	assert_true(sl_secret_is(&kept, sl_str("password")));
	assert_false(sl_secret_is(&kept, sl_str("passworD")));
	assert_false(sl_secret_is(&kept, sl_str("")));
	assert_false(sl_secret_is(&kept, sl_str("password1")));
	for (size_t bit = 0; bit < 8 * sizeof kept.hash; bit += 5) {
		changed = kept;
		changed.hash[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(sl_secret_is(&changed, sl_str("password")));
	}
	changed = kept;
	changed.rounds++;
	assert_false(sl_secret_is(&changed, sl_str("password")));
	/* SHA-256 of "abc": FIPS 180-2, appendix B.1. */
	static const uint8_t abc[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
	                                0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
	                                0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
	struct sl_secret token = {.kind = SL_SECRET_SHA256};
	memcpy(token.hash, abc, sizeof abc);
	assert_true(sl_secret_is(&token, sl_str("abc")));
	assert_false(sl_secret_is(&token, sl_str("abd")));
	assert_false(sl_secret_is(&token, sl_slice(NULL, 0)));
}

/* ---- roles ----------------------------------------------------------------------------------------------------- */

static void test_roles(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	assert_int_equal(sl_access_anonymous(world.policy), 0);
	assert_int_equal(sl_access_roles(login_at(&world, "checker", "pw-checker", HERE, NOW_NS).user), SL_ROLE_CHECK);
	assert_int_equal(sl_access_roles(login_at(&world, "reader", "pw-reader", HERE, NOW_NS).user), SL_ROLE_READ);
	assert_int_equal(sl_access_roles(login_at(&world, "admin", "pw-admin", HERE, NOW_NS).user), SL_ROLE_ALL);
	end(&world);
	world = begin(users_policy("anonymous: read\n", ""));
	assert_int_equal(sl_access_anonymous(world.policy), SL_ROLE_READ);
	end(&world);
	world = begin("limits: []\n");
	assert_int_equal(sl_access_anonymous(world.policy), SL_ROLE_ALL);
	end(&world);
}

/* ---- what a login costs ---------------------------------------------------------------------------------------- */

static void test_right_once_is_right_for_nothing(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	for (int i = 0; i < 1000; i++)
		expect_login(&world, "checker", "pw-checker", HERE, SL_LOGIN_OK);
	assert_int_equal(sl_access_stretched(world.access), 1);
	expect_login(&world, "checker", "pw-reader", HERE, SL_LOGIN_WRONG);
	expect_login(&world, "reader", "pw-checker", HERE, SL_LOGIN_WRONG); /* remembered of another user */
	assert_int_equal(sl_access_stretched(world.access), 3);
	expect_login(&world, "checker", "pw-reader", HERE, SL_LOGIN_WRONG); /* what was wrong is not remembered as right */
	assert_int_equal(sl_access_stretched(world.access), 4);
	end(&world);
}

/* An unknown name is stretched as a known one is, with rounds that some user has; and a token's owner likewise. */
static void test_unknown_names_cost_the_same(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	expect_login(&world, "nobody", "pw-checker", HERE, SL_LOGIN_WRONG);
	assert_int_equal(sl_access_stretched(world.access), 1);
	expect_login(&world, "robot", "wrong", HERE, SL_LOGIN_WRONG);
	assert_int_equal(sl_access_stretched(world.access), 2);
	expect_login(&world, "robot", "token-robot", HERE, SL_LOGIN_OK);
	expect_login(&world, "", "", HERE, SL_LOGIN_WRONG);
	assert_int_equal(sl_access_stretched(world.access), 3);
	end(&world);
	char line[USERS_LINE_MAX], policy[USERS_LINE_MAX + 16];
	snprintf(policy, sizeof policy, "users:\n%s", user_token(line, "robot", "token-robot", "check"));
	world = begin(policy);
	expect_login(&world, "nobody", "x", HERE, SL_LOGIN_WRONG);
	expect_login(&world, "robot", "x", HERE, SL_LOGIN_WRONG);
	assert_int_equal(sl_access_stretched(world.access), 0);
	end(&world);
}

/* ---- reloads --------------------------------------------------------------------------------------------------- */

static void test_a_changed_password_is_forgotten(void **state) {
	(void)state;
	char line[USERS_LINE_MAX], policy[USERS_LINE_MAX + 16];
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "a", "first", USERS_ROUNDS, "check"));
	struct world world = begin(policy);
	struct sluice_policy *before = world.policy;
	expect_login(&world, "a", "first", HERE, SL_LOGIN_OK);
	world.policy = users_load(policy);
	expect_login(&world, "a", "first", HERE, SL_LOGIN_OK);
	assert_int_equal(sl_access_stretched(world.access), 1); /* nothing changed, nothing forgotten */
	sluice_policy_free(world.policy);
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "a", "second", USERS_ROUNDS, "check"));
	world.policy = users_load(policy);
	expect_login(&world, "a", "first", HERE, SL_LOGIN_WRONG);
	expect_login(&world, "a", "second", HERE, SL_LOGIN_OK);
	sluice_policy_free(world.policy);
	world.policy = users_load("users: [{name: b, token: \"sha256:"
	                          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\", role: check}]\n");
	expect_login(&world, "a", "second", HERE, SL_LOGIN_WRONG);
	sluice_policy_free(before);
	end(&world);
}

/* ---- guessing -------------------------------------------------------------------------------------------------- */

static void test_failures_are_limited_by_address(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	for (int i = 0; i < 10; i++) /* spread over seconds, so that stretchings in all are not what ends it */
		assert_int_equal(login_at(&world, "checker", "guess", HERE, NOW_NS + i * SECOND).result, SL_LOGIN_WRONG);
	uint64_t stretched = sl_access_stretched(world.access);
	struct sl_login late = login_at(&world, "checker", "pw-checker", HERE, NOW_NS + 10 * SECOND);
	assert_int_equal(late.result, SL_LOGIN_LATER);
	assert_true(late.retry_after_ns > 0 && late.retry_after_ns <= 60 * SECOND);
	assert_int_equal(sl_access_stretched(world.access), stretched); /* no work for who must wait */
	/* Another port is the same address; another address is not. */
	late = login_at(&world, "checker", "pw-checker", "192.0.2.1:9", NOW_NS + 10 * SECOND);
	assert_int_equal(late.result, SL_LOGIN_LATER);
	assert_int_equal(login_at(&world, "checker", "pw-checker", "192.0.2.2:9", NOW_NS + 10 * SECOND).result,
	                 SL_LOGIN_OK);
	/* And when the wait is over, not before. */
	late = login_at(&world, "reader", "pw-reader", HERE, NOW_NS + 10 * SECOND);
	assert_int_equal(late.result, SL_LOGIN_LATER);
	sluice_ns then = NOW_NS + 10 * SECOND + late.retry_after_ns;
	assert_int_equal(login_at(&world, "reader", "pw-reader", HERE, then - 1000000).result, SL_LOGIN_LATER);
	assert_int_equal(login_at(&world, "reader", "pw-reader", HERE, then).result, SL_LOGIN_OK);
	end(&world);
}

static void test_an_ipv6_network_is_one_guesser(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	for (int i = 0; i < 10; i++) {
		char from[64];
		snprintf(from, sizeof from, "[2001:db8:0:1::%x]:80", i + 1);
		assert_int_equal(login_at(&world, "x", "guess", from, NOW_NS + i * SECOND).result, SL_LOGIN_WRONG);
	}
	assert_int_equal(login_at(&world, "x", "y", "[2001:db8:0:1::ff]:80", NOW_NS + 10 * SECOND).result, SL_LOGIN_LATER);
	assert_int_equal(login_at(&world, "x", "y", "[2001:db8:0:2::1]:80", NOW_NS + 10 * SECOND).result, SL_LOGIN_WRONG);
	end(&world);
}

/* A flood of wrong passwords, from the very address of users who were verified before, and from a thousand others. */
static void test_an_attack_locks_nobody_out(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	expect_login(&world, "checker", "pw-checker", HERE, SL_LOGIN_OK);
	expect_login(&world, "admin", "pw-admin", "unix", SL_LOGIN_OK);
	for (int i = 0; i < 5000; i++) {
		char from[64], guess[32];
		snprintf(from, sizeof from, "10.1.%d.%d:80", i / 250, i % 250);
		snprintf(guess, sizeof guess, "guess%d", i);
		login_at(&world, "checker", guess, i % 2 ? from : HERE, NOW_NS + (sluice_ns)i * 1000000);
	}
	/* 5 s of it: 16 stretchings at once and 4 a second, besides the two right ones. */
	assert_in_range(sl_access_stretched(world.access), 30, 2 + 16 + 4 * 5 + 1);
	uint64_t before = sl_access_stretched(world.access);
	sluice_ns now = NOW_NS + 5 * SECOND;
	assert_int_equal(login_at(&world, "checker", "pw-checker", HERE, now).result, SL_LOGIN_OK);
	assert_int_equal(login_at(&world, "admin", "pw-admin", HERE, now).result, SL_LOGIN_OK);
	assert_int_equal(sl_access_stretched(world.access), before);
	/* Who was not verified waits as everybody does; a token does not. */
	assert_int_equal(login_at(&world, "reader", "pw-reader", HERE, now).result, SL_LOGIN_LATER);
	assert_int_equal(sl_access_bearer(world.access, world.policy, sl_str("token-robot"), sl_str(HERE), now).result,
	                 SL_LOGIN_OK);
	assert_int_equal(login_at(&world, "robot", "token-robot", HERE, now).result, SL_LOGIN_OK);
	end(&world);
}

/* Right logins take nothing from what failures may: as many users as there may be, behind one address, all get in, and
 * all are remembered. */
static void test_right_logins_are_not_counted(void **state) {
	(void)state;
	enum { USERS = SL_USERS_MAX };
	char *policy = malloc((USERS + 1) * USERS_LINE_MAX), *at = stpcpy(policy, "users:\n");
	for (int i = 0; i < USERS; i++) {
		char line[USERS_LINE_MAX], name[16];
		snprintf(name, sizeof name, "user%d", i);
		at = stpcpy(at, user_password(line, name, name, USERS_ROUNDS, "check"));
	}
	struct world world = begin(policy);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < USERS; i++) {
			char name[16];
			snprintf(name, sizeof name, "user%d", i);
			expect_login(&world, name, name, HERE, SL_LOGIN_OK);
		}
	assert_int_equal(sl_access_stretched(world.access), USERS);
	free(policy);
	end(&world);
}

/* ---- bearers --------------------------------------------------------------------------------------------------- */

static void test_bearers(void **state) {
	(void)state;
	char first[USERS_LINE_MAX], last[USERS_LINE_MAX];
	static char policy[8 * USERS_LINE_MAX];
	user_token(first, "early", "token-early", "read");
	snprintf(policy, sizeof policy, "%s%s", users_policy("", first), user_token(last, "late", "token-late", "admin"));
	struct world world = begin(policy);
	static const char *const names[] = {"robot", "early", "late"};
	for (int i = 0; i < 3; i++) {
		char token[32];
		snprintf(token, sizeof token, "token-%s", names[i]);
		struct sl_login login = bearer(&world, token, HERE);
		assert_int_equal(login.result, SL_LOGIN_OK);
		assert_true(sl_bytes_equal(login.user->name, sl_str(names[i])));
	}
	assert_int_equal(bearer(&world, "pw-checker", HERE).result, SL_LOGIN_WRONG); /* a password is no token */
	assert_int_equal(bearer(&world, "", HERE).result, SL_LOGIN_WRONG);
	for (int i = 0; i < 8; i++)
		assert_int_equal(bearer(&world, "token-nobody", HERE).result, SL_LOGIN_WRONG);
	struct sl_login late = bearer(&world, "token-nobody", HERE);
	assert_int_equal(late.result, SL_LOGIN_LATER);
	assert_true(late.retry_after_ns > 0);
	assert_int_equal(bearer(&world, "token-late", HERE).result, SL_LOGIN_OK);
	assert_int_equal(sl_access_stretched(world.access), 0);
	end(&world);
}

/* What stands in the file as a password's hash is no token's, even if somebody knew what has that SHA-256. */
static void test_a_passwords_hash_is_no_tokens(void **state) {
	(void)state;
	struct world world = begin("users: [{name: a, role: admin, password: \"pbkdf2-sha256:1000:"
	                           "00000000000000000000000000000000:"
	                           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]\n");
	assert_int_equal(bearer(&world, "abc", HERE).result, SL_LOGIN_WRONG);
	expect_login(&world, "a", "abc", HERE, SL_LOGIN_WRONG);
	end(&world);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

static void *log_in_often(void *argument) {
	const struct world *world = argument;
	uintptr_t wrong = 0;
	for (int i = 0; i < 20000; i++) {
		const char *name = i % 3 == 0 ? "checker" : i % 3 == 1 ? "reader" : "admin";
		char password[32];
		snprintf(password, sizeof password, "pw-%s", name);
		struct sl_login login = login_at(world, name, password, "unix", NOW_NS + (sluice_ns)i * 1000000);
		wrong += login.result != SL_LOGIN_OK || !sl_bytes_equal(login.user->name, sl_str(name));
		wrong += i % 16 == 0 && login_at(world, name, "pw", "10.0.0.1:1", NOW_NS).result == SL_LOGIN_OK;
	}
	return (void *)wrong;
}

static void test_threads(void **state) {
	(void)state;
	struct world world = begin(users_policy("", ""));
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_in_often, &world), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	end(&world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_secrets_work),
		cmocka_unit_test(test_secret_is),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_right_once_is_right_for_nothing),
		cmocka_unit_test(test_unknown_names_cost_the_same),
		cmocka_unit_test(test_a_changed_password_is_forgotten),
		cmocka_unit_test(test_failures_are_limited_by_address),
		cmocka_unit_test(test_an_ipv6_network_is_one_guesser),
		cmocka_unit_test(test_an_attack_locks_nobody_out),
		cmocka_unit_test(test_right_logins_are_not_counted),
		cmocka_unit_test(test_bearers),
		cmocka_unit_test(test_a_passwords_hash_is_no_tokens),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
