/* Why a limit counts for a request or does not, in words: each reason, and what is told of overrides, keys, addresses
 * and rollouts. Of every request the explanation agrees with what matching finds. */
#include "policy/explain.h"

#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char buffer[SLUICE_MATCH_BYTES_MAX];

static const char rules[] =
	"trusted-proxies: [127.0.0.0/8, 10.9.0.0/16]\n"
	"attributes: {user: header x-user, plan: header x-plan}\n"
	"limits:\n"
	"  - {name: login, when: {method: POST, path: [/login, /password/*]}, key: ip, limit: 5/1m}\n"
	"  - name: per-user\n"
	"    key: user | ip\n"
	"    limit: 600/1m\n"
	"    overrides:\n"
	"      - {when: {plan: pro}, limit: 6000/1m}\n"
	"      - {when: {user: alice}, limit: unlimited}\n"
	"      - {when: {user: [ann, eve]}, limit: 10/1m, observe: true}\n"
	"  - {name: search, when: {path: /search*}, key: [user | \"nobody\", path], limit: 9/1s, canary: 100% of user,\n"
	"     optional: true}\n"
	"  - {name: devices, key: user, optional: true, limit: distinct 5/1h, of: ip}\n"
	"  - {name: off, key: [], limit: unlimited}\n"
	"  - name: rest\n"
	"    when: {method: GET, host: \"*.example.com\", not: [{path: /health}, {user: root}]}\n"
	"    key: []\n"
	"    limit: 9/1s\n";

/* What was told of each limit. */
struct story {
	const struct sluice_match *match;
	uint32_t count;
	int32_t item[64];
	char why[64][SL_WHY_BYTES_MAX + 1];
};

static void keep(void *to, const struct sl_policy_told *told) {
	struct story *story = to;
	char memory[SL_WHY_BYTES_MAX];
	struct sluice_bytes why = sl_policy_why(told, memory);
	assert_int_equal(told->position, story->count);
	assert_in_range(why.len, 1, SL_WHY_BYTES_MAX);
	story->item[story->count] = told->item;
	memcpy(story->why[story->count], why.data, why.len);
	story->why[story->count++][why.len] = '\0';
}

static struct sluice_policy *load(const char *yaml) {
	struct sluice_policy *policy;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
	return policy;
}

/* "name=value name=value" */
static void explain(const struct sluice_policy *policy, const char *request, struct sluice_match *match,
                    struct story *story) {
	struct sluice_attribute attributes[16];
	char text[256];
	size_t count = 0;
	snprintf(text, sizeof text, "%s", request);
	for (char *at = text, *end; *at != '\0'; at = end) {
		end = at + strcspn(at, " ");
		char *equals = strchr(at, '=');
		attributes[count].name = sl_slice(at, (size_t)(equals - at));
		attributes[count++].value = sl_slice(equals + 1, (size_t)(end - equals - 1));
		end += *end == ' ';
	}
	assert_int_equal(sl_policy_match(policy, attributes, count, sl_slice(NULL, 0), match, buffer, sizeof buffer),
	                 SLUICE_OK);
	*story = (struct story){.match = match};
	sl_policy_explain(policy, attributes, count, sl_slice(NULL, 0), match, keep, story);
	assert_int_equal(story->count, sl_policy_limit_count(policy));
	for (uint32_t i = 0, found = 0; i < story->count; i++) {
		bool counts = found < match->count && match->position[found] == i;
		assert_int_equal(story->item[i], counts ? (int32_t)found : -1);
		found += counts;
	}
}

static void test_each_reason(void **state) {
	static const struct {
		const char *request;
		uint32_t limit;
		const char *why;
	} rows[] = {
		{"ip=192.0.2.7 method=GET path=/x", 0, "for method=POST, path=/login|/password/*: method is GET, path is /x"},
		{"ip=192.0.2.7", 0, "for method=POST, path=/login|/password/*: no method, no path"},
		{"ip=192.0.2.7 method=post path=/password/a", 0, "applies where method=POST, path=/login|/password/*"},
		{"method=POST path=/login", 0, "its key is ip, and the request has no ip"},
		{"path=/x", 1, "its key is user | ip, and the request has no user and no ip"},
		{"user=alice", 1, "override 2 (user=alice) says unlimited"},
		{"user=bob", 1,
	     "applies to every request; override 1 (plan=pro) does not fit: no plan; override 2 (user=alice) does not "
	     "fit: user "
	     "is bob; override 3 (user=ann|eve) does not fit: user is bob"},
		{"user=ann plan=pro", 1,
	     "override 1 (plan=pro) applies; override 3 (user=ann|eve) fits as well, and comes later: the first that fits "
	     "applies"},
		{"user=ann plan=\xff\x01", 1,
	     "override 3 (user=ann|eve) applies; override 1 (plan=pro) does not fit: plan is \\xff\\x01; override 2 "
	     "(user=alice) does not fit: user is ann; observed: it denies nobody"},
		{"path=/search/a", 2,
	     "applies where path=/search*; no user, so it counts by \"nobody\"; each path has a counter of its own; canary "
	     "100% of user: the request has none, so it is not in it, and only observed"},
		{"path=/search/a user=x", 2,
	     "applies where path=/search*; each path has a counter of its own; canary 100% of user: the request is in it, "
	     "so "
	     "it can be denied"},
		{"user=x ip=192.0.2.7", 3, "applies to every request; counts different values of ip"},
		{"user=x", 3, "it counts different values of ip, and the request has none"},
		{"ip=192.0.2.7", 3, "its key is user, and the request has no user"},
		{"ip=192.0.2.7", 4, "the limit says unlimited"},
		{"method=PUT path=/health user=root", 5,
	     "for method=GET, host=*.example.com, not (path=/health), not (user=root): method is PUT, no host, not "
	     "(path=/health), not (user=root)"},
	};
	struct sluice_policy *policy = load(rules);
	struct sluice_match match;
	struct story story;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		explain(policy, rows[i].request, &match, &story);
		assert_string_equal(story.why[rows[i].limit], rows[i].why);
	}
	sluice_policy_free(policy);
}

/* A proxy that is not believed, or says nothing, counts for all behind it: that is said where an address counts. */
static void test_addresses(void **state) {
	static const struct {
		const char *ip, *said;
	} rows[] = {
		{"10.9.1.2", "one of trusted-proxies"},
		{"127.0.0.1", "one of trusted-proxies"},
		{"10.8.0.1", "a private one, and not in trusted-proxies"},
		{"172.31.255.255", "a private one"},
		{"192.168.7.7", "a private one"},
		{"100.64.0.1", "a private one"},
		{"fd00::1", "a private one"},
		{"172.32.0.1", NULL},
		{"203.0.113.7", NULL},
		{"2001:db8::1", NULL},
		{"unix", NULL},
	};
	struct sluice_policy *policy = load("trusted-proxies: [127.0.0.0/8, 10.9.0.0/16]\n"
	                                    "limits: [{name: a, key: ip, limit: 5/1m}]\n");
	struct sluice_match match;
	struct story story;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char request[64];
		snprintf(request, sizeof request, "ip=%s", rows[i].ip);
		explain(policy, request, &match, &story);
		if (rows[i].said == NULL)
			assert_string_equal(story.why[0], "applies to every request");
		else
			assert_non_null(strstr(story.why[0], rows[i].said));
	}
	sluice_policy_free(policy);
}

/* More limits than a request can have: one that is observed is left out, another denies, and all after it are told. */
static void test_more_limits_than_fit(void **state) {
	char yaml[4096] = "limits:\n";
	struct sluice_match match;
	static struct story story;
	(void)state;
	for (int i = 0; i < 19; i++)
		snprintf(yaml + strlen(yaml), sizeof yaml - strlen(yaml), "  - {name: n%d, key: [], limit: 5/1m%s}\n", i,
		         i == 16 ? ", observe: true" : "");
	struct sluice_policy *policy = load(yaml);
	struct sluice_attribute none;
	assert_int_equal(sl_policy_match(policy, &none, 0, sl_slice(NULL, 0), &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.items[SLUICE_ITEMS_MAX - 1].bound, SLUICE_BOUND_LIMITS);
	sl_policy_explain(policy, &none, 0, sl_slice(NULL, 0), &match, keep, &story);
	assert_int_equal(story.item[14], 14);
	assert_int_equal(story.item[15], -1); /* its place was taken */
	assert_int_equal(story.item[17], 15);
	assert_int_equal(story.item[18], -1);
	assert_non_null(strstr(story.why[18], "more limits apply than one request can have"));
	sluice_policy_free(policy);
}

/* A line that is longer than its room is cut, and says so. */
static void test_long_lines(void **state) {
	char yaml[16384] = "limits:\n  - name: a\n    key: ip\n    limit: 5/1m\n    overrides:\n", word[400];
	struct sluice_match match;
	struct story story;
	(void)state;
	memset(word, 'w', sizeof word);
	for (int i = 0; i < 12; i++)
		snprintf(
			yaml + strlen(yaml), sizeof yaml - strlen(yaml),
			"      - {when: {host: [%.200sa, %.200sb], path: [/%.200sa, /%.200sb], method: [A%d, B]}, limit: 1/1s}\n",
			word, word, word, word, i);
	struct sluice_policy *policy = load(yaml);
	explain(policy, "ip=192.0.2.7 host=x", &match, &story);
	assert_int_equal(strlen(story.why[0]) <= SL_WHY_BYTES_MAX, 1);
	assert_string_equal(story.why[0] + strlen(story.why[0]) - 4, " ...");
	sluice_policy_free(policy);
}

static uint32_t told_count, told_last;

static void count_told(void *to, const struct sl_policy_told *told) {
	(void)to;
	told_count++;
	told_last = told->position;
}

/* Of very many limits the first are told, and all that count, in the order of the file. */
static void test_very_many_limits(void **state) {
	static char yaml[64 * (SL_TOLD_MAX + 101)] = "limits:\n";
	struct sluice_attribute none;
	struct sluice_match match;
	size_t len = strlen(yaml);
	(void)state;
	for (int i = 0; i < SL_TOLD_MAX + 100; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%d, key: [], limit: 5/1m, when: {u: '%d'}}\n",
		                        i, i);
	snprintf(yaml + len, sizeof yaml - len, "- {name: last, key: [], limit: 5/1m}\n");
	struct sluice_policy *policy = load(yaml);
	assert_int_equal(sl_policy_match(policy, &none, 0, sl_slice(NULL, 0), &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 1);
	assert_int_equal(sl_policy_told_count(policy), SL_TOLD_MAX);
	sl_policy_explain(policy, &none, 0, sl_slice(NULL, 0), &match, count_told, NULL);
	assert_int_equal(told_count, SL_TOLD_MAX);
	assert_int_equal(told_last, SL_TOLD_MAX + 100);
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_reason),          cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_more_limits_than_fit), cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_very_many_limits),
	};
	return cmocka_run_group_tests_name("policy_explain", tests, NULL, NULL);
}
