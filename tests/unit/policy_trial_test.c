/* What tries limits before they are enforced: observe, per limit, per override and for all; candidates on the live
 * counters. And what hosts ask of limits by name. */
#include "algo/rule.h"
#include "policy/address.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char buffer[SLUICE_MATCH_BYTES_MAX];

#define LIMIT(more) "limits:\n- {name: a, key: ip, " more "}\n"

static void test_refused(void **state) {
	static const struct row rows[] = {
		{LIMIT("limit: 100/1m, candidate: token-bucket 50/1m"),
	     {{2, 48,
	       "expected another quota for the counters of sliding-window 100/1m: another algorithm would need counters of "
	       "its own"}}},
		{LIMIT("limit: 100/1m, candidate: 50/1h"), {{2, 48, "another window would need counters of its own"}}},
		{LIMIT("limit: sliding-buckets 100/1h precision 1m, candidate: sliding-buckets 50/1h precision 2m"),
	     {{2, 77, "another precision would need counters of its own"}}},
		{LIMIT("limit: 100/1m, candidate: unlimited"), {{2, 48, "observe: true tries having no limit"}}},
		{LIMIT("limit: unlimited, candidate: 50/1m"),
	     {{2, 51, "counters of unlimited: an unlimited limit counts nothing"}}},
		{LIMIT("limit: 100/1m, candidate: 50/1x"), {{2, 52, "expected a unit of time"}}},
		{LIMIT("limit: 100/1x, candidate: 50/1h"), {{2, 34, "expected a unit of time"}}},
		{LIMIT("limit: 100/1m, candidate: [50/1m]"), {{2, 48, "expected a limit such as 100/1m, found a list"}}},
		{LIMIT("limit: 100/1m, candidat: 50/1m"),
	     {{2, 37, "unknown key 'candidat' in a limit: did you mean 'candidate'?"}}},
		{LIMIT("limit: 100/1m, stagger: 2s"), {{2, 46, "expected true or false, found '2s'"}}},
		{LIMIT("limit: 100/1m, overrides: [{when: {}, limit: 1/1m, candidate: 5/1m}]"),
	     {{2, 73, "unknown key 'candidate' in an override: expected when, limit, observe or canary"}}},
		{LIMIT("limit: 100/1m, overrides: [{when: {}, limit: 1/1m, observe: 1}]"),
	     {{2, 82, "expected true or false, found '1'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_warned(void **state) {
	static const struct row rows[] = {
		{LIMIT("limit: 100/1m, candidate: 50/1m"), {{0}}},
		{LIMIT("limit: 100/1m, candidate: 0/1m"), {{0}}}, /* denies nobody */
		{LIMIT("limit: 100/1m, candidate: sliding-window 100/60s"), {{2, 48, "the candidate equals the limit"}}},
		{LIMIT("limit: token-bucket 1/1s burst 5, candidate: token-bucket 1/1s burst 6"), {{0}}},
		{LIMIT("limit: token-bucket 1/1s burst 5, candidate: token-bucket 2/1s burst 5"), {{0}}},
		{LIMIT("limit: leaky-bucket 1/1s queue 5, candidate: leaky-bucket 1/1s queue 0"), {{0}}},
		{LIMIT("limit: sliding-buckets 9/1h precision 1m, candidate: sliding-buckets 9/1h precision 1m edge drop"),
	     {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

static const char rules[] =
	"limits:\n"
	"- {name: plain, key: ip, limit: 2/1h, candidate: 1/1h, stagger: true}\n"
	"- name: mixed\n"
	"  key: ip\n"
	"  limit: fixed-window 9/1h\n"
	"  candidate: fixed-window 3/1h\n"
	"  observe: true\n"
	"  on-error: deny\n"
	"  overrides:\n"
	"  - {when: {plan: pro}, limit: fixed-window 90/1h, observe: false}\n"
	"  - {when: {plan: free}, limit: token-bucket 1/1s}\n"
	"  - {when: {plan: odd}, limit: unlimited, observe: false}\n"
	"- {name: other, key: ip, limit: 5/1h, overrides: [{when: {plan: pro}, limit: 6/1h, observe: true},\n"
	"   {when: {plan: free}, limit: 7/1h}]}\n";

/* Matches a request of one address, with a plan or none. */
static void match(const struct sluice_policy *policy, const char *plan, struct sluice_match *found) {
	const struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("1")}, {sl_str("plan"), sl_str(plan)}};
	assert_int_equal(sluice_policy_match(policy, attributes, *plan == '\0' ? 1 : 2, found, buffer, sizeof buffer),
	                 SLUICE_OK);
}

/* A letter an item: o observed, e enforced; behind the colon the items that candidates belong to. */
static void describe(const struct sluice_policy *policy, const char *plan, char text[64]) {
	struct sluice_match found;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint8_t of[SLUICE_ITEMS_MAX];
	size_t len = 0;
	match(policy, plan, &found);
	for (uint32_t i = 0; i < found.count; i++)
		text[len++] = found.items[i].observed ? 'o' : 'e';
	text[len++] = ':';
	uint32_t count = sl_policy_candidates(policy, &found, items, of, SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(policy, found.position[of[i]]);
		assert_ptr_equal(items[i].limit, &limit->candidate);
		assert_true(items[i].observed);
		assert_true(sl_bytes_equal(items[i].key, found.items[of[i]].key));
		text[len++] = (char)('0' + of[i]);
	}
	text[len++] = sl_policy_denier(policy, &found) >= 0 ? '!' : '.';
	text[len] = '\0';
}

static void test_observed(void **state) {
	static const struct {
		const char *plan, *found, *found_by_all;
	} rows[] = {
		{"", "eoe:01.", "ooo:01."},
		{"pro", "eeo:0!", "ooo:0."},  /* an override has its own quota, and says itself who observes it */
		{"free", "eoe:0.", "ooo:0."}, /* or the limit does */
		{"odd", "ee:0.", "oo:0."},
	};
	struct sluice_policy *policy = sl_policy_loads(rules), *all = NULL;
	char yaml[2048];
	(void)state;
	snprintf(yaml, sizeof yaml, "%sobserve: true\n", rules); /* wherever it stands */
	assert_int_equal(sluice_policy_load(&all, sl_str(yaml), NULL), SLUICE_OK);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[64];
		describe(policy, rows[i].plan, text);
		assert_string_equal(text, rows[i].found);
		describe(all, rows[i].plan, text);
		assert_string_equal(text, rows[i].found_by_all);
	}
	assert_true(sl_policy_limit_at(policy, 0)->stagger);
	assert_false(sl_policy_limit_at(policy, 1)->stagger);
	assert_true(sl_policy_limit_at(all, 0)->observe);
	sluice_policy_free(policy);
	sluice_policy_free(all);
}

static void test_room(void **state) {
	struct sluice_policy *policy = sl_policy_loads(rules);
	struct sluice_match found;
	struct sluice_item items[1] = {{0}};
	uint8_t of[1] = {9};
	(void)state;
	match(policy, "", &found);
	assert_int_equal(sl_policy_candidates(policy, &found, items, of, 0), 0);
	assert_null(items[0].limit);
	assert_int_equal(sl_policy_candidates(policy, &found, items, of, 1), 1);
	assert_int_equal(of[0], 0);
	sluice_policy_free(policy);
}

/* A candidate is decided on the counter that the limit charges, and charges it no second time. */
static void test_one_counter(void **state) {
	static const char *const limits[] = {
		"2/1h, candidate: 1/1h",
		"fixed-window 2/1h, candidate: fixed-window 1/1h",
		"sliding-log 2/1h, candidate: sliding-log 1/1h",
		"sliding-buckets 2/1h precision 1m, candidate: sliding-buckets 1/1h precision 1m edge drop",
		"token-bucket 2/1h, candidate: token-bucket 1/1h",
		"leaky-bucket 2/1h queue 1, candidate: leaky-bucket 1/1h queue 0",
	};
	static const bool allowed[] = {true, true, false, false}, tried[] = {true, false, false, false};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct sluice_store_options options = {.memory_bytes = 1 << 20};
		struct sluice_store *store = NULL;
		struct sluice_match found;
		struct sluice_decision each[2];
		char yaml[256];
		uint8_t of[1];
		snprintf(yaml, sizeof yaml, "limits:\n- {name: a, key: ip, limit: %s}\n", limits[i]);
		print_message("%s", yaml);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
		match(policy, "", &found);
		assert_int_equal(sl_policy_candidates(policy, &found, found.items + 1, of, 1), 1);
		for (size_t j = 0; j < 4; j++) {
			struct sluice_call call = {
				.items = found.items, .item_count = 2, .cost = 1, .now = (sluice_ns)3600000000000000, .each = each};
			assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
			assert_int_equal(call.merged.allowed, allowed[j]);
			assert_int_equal(each[0].allowed, allowed[j]);
			assert_int_equal(each[1].allowed, tried[j]);
		}
		sluice_store_close(store);
		sluice_policy_free(policy);
	}
}

/* ---- by name ---------------------------------------------------------------------------------------------------- */

static void test_names(void **state) {
	static const struct {
		const char *text;
		int answer, position;
	} rows[] = {
		{"", 0, 0},
		{"10/1s", 0, 0},
		{"policy", 0, 0},
		{"Policy:plain", 0, 0},
		{"policy:", -1, 0},
		{"policy:plain", 1, 0},
		{"policy:other", 1, 2},
		{"policy:othe", -1, 0},
		{"policy:others", -1, 0},
		{"policy: other", -1, 0},
	};
	struct sluice_policy *policy = sl_policy_loads(rules);
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct sluice_limit *limit = NULL;
		assert_int_equal(sl_policy_limit_named(policy, sl_str(rows[i].text), &limit), rows[i].answer);
		assert_int_equal(limit != NULL, rows[i].answer == 1);
		if (limit != NULL)
			assert_ptr_equal(limit, &sl_policy_limit_at(policy, (uint32_t)rows[i].position)->limit);
	}
	assert_int_equal(sl_policy_limit_find(policy, sl_str("mixed")), 1);
	assert_int_equal(sl_policy_limit_find(policy, sl_str("none")), -1);
	assert_int_equal(sl_policy_limit_find(policy, (struct sluice_bytes){NULL, 0}), -1);
	sluice_policy_free(policy);
}

/* However many names there are: each has its limit, and one that no limit has is not found. */
static void test_many_names(void **state) {
	static const uint32_t counts[] = {1, 7, 8, 9, 15, 16, 17, 32, 1000};
	static char yaml[64 * 1024];
	(void)state;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		char name[16];
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (uint32_t k = 0; k < counts[i]; k++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len,
			                        "- {name: n%u, key: ip, when: {path: /%u}, limit: 1/1m}\n", k, k);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		for (uint32_t k = 0; k <= counts[i]; k++) {
			snprintf(name, sizeof name, "n%u", k);
			assert_int_equal(sl_policy_limit_find(policy, sl_str(name)), k < counts[i] ? (int64_t)k : -1);
		}
		sluice_policy_free(policy);
	}
}

/* The counters that a limit and its overrides keep, each once; `unlimited` keeps none. */
static void test_variants(void **state) {
	struct sluice_policy *policy = sl_policy_loads(rules);
	const struct sluice_limit *limits[4] = {NULL};
	(void)state;
	assert_int_equal(sl_policy_limit_variants(policy, 0, limits, 4), 1);
	assert_ptr_equal(limits[0], &sl_policy_limit_at(policy, 0)->limit);
	assert_int_equal(sl_policy_limit_variants(policy, 1, limits, 4), 2);
	assert_int_equal(limits[0]->algorithm, SLUICE_FIXED_WINDOW);
	assert_int_equal(limits[1]->algorithm, SLUICE_TOKEN_BUCKET);
	assert_int_equal(limits[0]->derived[SL_IDENT_NAME], limits[1]->derived[SL_IDENT_NAME]);
	assert_int_equal(sl_policy_limit_variants(policy, 1, limits, 1), 1);
	assert_int_equal(sl_policy_limit_variants(policy, 2, limits, 4), 1);
	sluice_policy_free(policy);
	policy =
		sl_policy_loads("limits: [{name: a, key: ip, limit: unlimited, overrides: [{when: {plan: x}, limit: 1/1s}]}]");
	assert_int_equal(sl_policy_limit_variants(policy, 0, limits, 4), 1);
	assert_int_equal(limits[0]->algorithm, SLUICE_SLIDING_WINDOW);
	sluice_policy_free(policy);
}

static void test_loopback(void **state) {
	static const struct {
		const char *text;
		bool loopback;
	} rows[] = {{"127.0.0.1", true},
	            {"127.255.0.9", true},
	            {"::ffff:127.0.0.1", true},
	            {"::1", true},
	            {"126.0.0.1", false},
	            {"128.0.0.1", false},
	            {"0.0.0.0", false},
	            {"::", false},
	            {"::2", false},
	            {"::ffff:10.0.0.1", false},
	            {"1::1", false}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_address address;
		assert_true(sl_address_parse(sl_str(rows[i].text), &address, NULL));
		assert_int_equal(sl_address_is_loopback(&address), rows[i].loopback);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),  cmocka_unit_test(test_warned),      cmocka_unit_test(test_observed),
		cmocka_unit_test(test_room),     cmocka_unit_test(test_one_counter), cmocka_unit_test(test_names),
		cmocka_unit_test(test_many_names), cmocka_unit_test(test_variants), cmocka_unit_test(test_loopback),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
