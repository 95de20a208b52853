/* Who is denied: canaries and overrides that enforce. The hash is held to values that tests/cases/canary.py, which
 * shares no code with it, has computed; shares are counted over 100,000 users. */
#include "algo/rule.h"
#include "policy/rollout.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { USERS = 100000 };

static char buffer[SLUICE_MATCH_BYTES_MAX];

/* The least share that a value is of, in millionths. */
static uint32_t least_share(const char *limit, struct sluice_bytes value) {
	uint32_t low = 0, high = SL_CANARY_ALL; /* not of low; of high */
	uint64_t hash = sl_canary_limit(sl_str(limit));
	assert_false(sl_canary_holds(hash, value, low));
	assert_true(sl_canary_holds(hash, value, high));
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (sl_canary_holds(hash, value, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

static void test_the_hash_never_changes(void **state) {
	static const struct {
		const char *limit, *value;
		uint64_t hash;
	} rows[] = {
		{"per-user", "alice", 0x420ba47a731e01cf},
		{"per-user", "bob", 0xa85f3d9e2d0b8ef9},
		{"login", "alice", 0x38eeae3420615f89},
		{"per-user", "", 0xb65a575819931563},
		{"", "", 0xb68af9a5905a175b},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		/* the first share that is above hash / 2^64 */
		uint32_t share = (uint32_t)((unsigned __int128)rows[i].hash * SL_CANARY_ALL >> 64) + 1;
		assert_int_equal(least_share(rows[i].limit, sl_str(rows[i].value)), share);
	}
	char large[1024];
	memset(large, 'x', sizeof large);
	assert_int_equal(least_share("per-user", sl_slice(large, sizeof large)),
	                 (uint32_t)((unsigned __int128)0x0e028f9f2541e1ed * SL_CANARY_ALL >> 64) + 1);
}

/* Within 0.3 points of every percentage, for several kinds of names; 20 % holds the same 10 %. */
static void test_shares_of_many_users(void **state) {
	static const char *const forms[] = {"%d", "user-%d", "user%08x", "10.0.%d.7", "%d@example.com"};
	static const uint32_t shares[] = {5000, 10000, 100000, 200000, 500000, 990000};
	(void)state;
	uint64_t limit = sl_canary_limit(sl_str("per-user")), other = sl_canary_limit(sl_str("per-user-2"));
	for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
		uint32_t counts[6] = {0}, both = 0;
		for (int i = 0; i < USERS; i++) {
			char text[32];
			bool before = false;
			struct sluice_bytes user = sl_slice(text, (size_t)snprintf(text, sizeof text, forms[f], i));
			for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
				bool held = sl_canary_holds(limit, user, shares[k]);
				assert_true(held || !before);
				counts[k] += before = held;
			}
			both += sl_canary_holds(limit, user, 100000) && sl_canary_holds(other, user, 100000);
		}
		for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
			assert_in_range(counts[k], shares[k] / 10 - 300 * (shares[k] > 5000) - 100 * (shares[k] == 5000),
			                shares[k] / 10 + 300);
		assert_in_range(both, 700, 1300); /* another limit has another tenth: they share a hundredth */
	}
}

#define LIMIT(more) "limits:\n- {name: a, key: ip, limit: 9/1m, " more "}\n"

static void test_refused(void **state) {
	static const struct row rows[] = {
		{LIMIT("canary: 10%"), {{2, 46, "expected a share of an attribute's values, such as 10% of user"}}},
		{LIMIT("canary: 10 of user"), {{2, 45, "(0% to 100%, up to 4 decimals), found '10 of user'"}}},
		{LIMIT("canary: 0.1 of user"), {{2, 46, "such as 10% of user"}}},
		{LIMIT("canary: 10%  of user"), {{2, 47, "such as 10% of user"}}},
		{LIMIT("canary: ten% of user"), {{2, 43, "found 'ten% of user'"}}},
		{LIMIT("canary: -1% of user"), {{2, 43, "found '-1% of user'"}}},
		{LIMIT("canary: 101% of user"), {{2, 43, "expected a share from 0% to 100%, found '101% of user'"}}},
		{LIMIT("canary: 100.0001% of user"), {{2, 43, "expected a share from 0% to 100%"}}},
		{LIMIT("canary: 99999999999999999999999% of user"), {{2, 43, "expected a share from 0% to 100%"}}},
		{LIMIT("canary: 1.% of user"), {{2, 45, "up to 4 decimals"}}},
		{LIMIT("canary: .5% of user"), {{2, 43, "up to 4 decimals"}}},
		{LIMIT("canary: 0.00001% of user"), {{2, 49, "up to 4 decimals"}}},
		{LIMIT("canary: '10% of '"), {{2, 51, "expected the name of an attribute, found nothing"}}},
		{LIMIT("canary: 10% of user | ip"), {{2, 54, "expected an attribute's name, without spaces and |"}}},
		{LIMIT("canary: [10%, user]"), {{2, 43, "such as 10% of user, found a list"}}},
		{LIMIT("canary: "), {{2, 43, "found nothing"}}},
		{LIMIT("canary: 10% of ip, observe: true"), {{2, 43, "expected canary or observe: true, found both"}}},
		{LIMIT("canary: 10%, observe: 2"), {{2, 46, "10% of user"}, {2, 57, "expected true or false"}}},
		{LIMIT("canarry: 10% of ip"), {{2, 35, "unknown key 'canarry' in a limit: did you mean 'canary'?"}}},
		{LIMIT("overrides: [{when: {}, canary: 5}]"), {{2, 67, "such as 10% of user"}}},
		{LIMIT("overrides: [{when: {}}]"), {{2, 47, "missing key 'limit' in an override: expected a limit such as"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_written_one_way(void **state) {
	static const struct {
		const char *written, *shown;
	} rows[] = {
		{"0% of ip", "0% of ip"},
		{"0.0% of ip", "0% of ip"},
		{"10% of ip", "10% of ip"},
		{"010.50% of ip", "10.5% of ip"},
		{"0.5% of ip", "0.5% of ip"},
		{"0.0001% of ip", "0.0001% of ip"},
		{"99.9999% of ip", "99.9999% of ip"},
		{"100.0000% of ip", "100% of ip"},
		{"3.05% of method", "3.05% of method"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[128];
		snprintf(yaml, sizeof yaml, LIMIT("canary: %s"), rows[i].written);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		assert_string_equal(sl_policy_limit_at(policy, 0)->canary, rows[i].shown);
		assert_false(sl_policy_limit_at(policy, 0)->observe);
		sluice_policy_free(policy);
	}
}

/* ---- what a match says ------------------------------------------------------------------------------------------- */

/* 'e' where the first limit enforces for a request of up to two attributes, 'o' where it observes. */
static char ask(const struct sluice_policy *policy, const char *name, const char *value, const char *other,
                const char *other_value, bool *candidate) {
	const struct sluice_attribute attributes[] = {{sl_str(name), sl_str(value)}, {sl_str(other), sl_str(other_value)}};
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_match found;
	uint8_t of[SLUICE_ITEMS_MAX];
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &found, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(found.count, 1);
	if (candidate != NULL)
		*candidate = sl_policy_candidates(policy, &found, items, of, SLUICE_ITEMS_MAX) == 1;
	return found.items[0].observed ? 'o' : 'e';
}

static void test_canary_of_requests(void **state) {
	(void)state;
	struct sluice_policy *policy =
		sl_policy_loads("attributes: {user: header x-user}\n"
	                    "limits:\n- {name: per-user, key: ip, limit: 9/1m, canary: 30% of user}\n");
	uint64_t limit = sl_canary_limit(sl_str("per-user"));
	uint32_t enforced = 0;
	for (int i = 0; i < 1000; i++) {
		char text[16];
		snprintf(text, sizeof text, "u%d", i);
		bool holds = sl_canary_holds(limit, sl_str(text), 300000);
		enforced += holds;
		assert_int_equal(ask(policy, "ip", "1", "user", text, NULL), holds ? 'e' : 'o');
		assert_int_equal(ask(policy, "user", text, "ip", text, NULL), holds ? 'e' : 'o');
	}
	assert_in_range(enforced, 240, 360);
	assert_int_equal(ask(policy, "ip", "1", "plan", "pro", NULL), 'o'); /* no user: not in the canary */
	sluice_policy_free(policy);
}

/* The share is of values as they are compared and counted. */
static void test_canary_of_addresses(void **state) {
	uint32_t enforced = 0;
	(void)state;
	struct sluice_policy *policy = sl_policy_loads("limits:\n- {name: a, key: [], limit: 9/1m, canary: 50% of ip}\n");
	for (int i = 0; i < 64; i++) {
		char one[32], other[48];
		snprintf(one, sizeof one, "2001:db8:0:%x::1", i);
		snprintf(other, sizeof other, "[2001:DB8:0:%X::beef]:443", i);
		char said = ask(policy, "ip", one, "x", "", NULL);
		assert_int_equal(ask(policy, "ip", other, "x", "", NULL), said);
		enforced += said == 'e';
	}
	assert_in_range(enforced, 16, 48);
	sluice_policy_free(policy);
}

static void test_overrides_say_themselves(void **state) {
	static const char rules[] = "attributes: {tenant: header x-tenant, plan: header x-plan}\n"
								"limits:\n"
								"- name: a\n"
								"  key: ip\n"
								"  limit: 9/1m\n"
								"  candidate: 5/1m\n"
								"  observe: true\n"
								"  overrides:\n"
								"  - {when: {tenant: acme}, observe: false}\n"
								"  - {when: {tenant: big}, limit: 90/1m, observe: false}\n"
								"  - {when: {tenant: odd}, limit: 8/1m}\n"
								"  - {when: {tenant: all}, canary: 100% of ip}\n"
								"  - {when: {tenant: none}, canary: 0% of ip}\n";
	static const struct {
		const char *tenant;
		char found;
		bool candidate; /* is tried where the limit's own quota counts */
	} rows[] = {{"acme", 'e', true}, {"big", 'e', false}, {"odd", 'o', false},
	            {"all", 'e', true},  {"none", 'o', true}, {"x", 'o', true}};
	char yaml[1024];
	(void)state;
	struct sluice_policy *policy = sl_policy_loads(rules), *all = NULL, *canary;
	snprintf(yaml, sizeof yaml, "%sobserve: true\n", rules); /* wherever it stands */
	assert_int_equal(sluice_policy_load(&all, sl_str(yaml), NULL), SLUICE_OK);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool candidate;
		assert_int_equal(ask(policy, "ip", "1", "tenant", rows[i].tenant, &candidate), rows[i].found);
		assert_int_equal(candidate, rows[i].candidate);
		assert_int_equal(ask(all, "ip", "1", "tenant", rows[i].tenant, NULL), 'o');
	}
	assert_null(sl_policy_limit_at(policy, 0)->canary);
	canary = sl_policy_loads("limits:\n- {name: a, key: ip, limit: 9/1m, canary: 0% of ip, overrides: [\n"
	                         "  {when: {ip: 10*}, limit: 8/1m}, {when: {ip: 11*}, limit: 8/1m, observe: false}]}\n");
	assert_int_equal(ask(canary, "ip", "10.0.0.1", "x", "", NULL), 'o'); /* what the limit says */
	assert_int_equal(ask(canary, "ip", "11.0.0.1", "x", "", NULL), 'e');
	sluice_policy_free(canary);
	sluice_policy_free(policy);
	sluice_policy_free(all);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_hash_never_changes),
		cmocka_unit_test(test_shares_of_many_users),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_written_one_way),
		cmocka_unit_test(test_canary_of_requests),
		cmocka_unit_test(test_canary_of_addresses),
		cmocka_unit_test(test_overrides_say_themselves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
