/* Warnings: a file that loads and has something to look at; and as important, files without that have none. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT(more) "limits:\n- {name: a, limit: 5/1m, " more "}\n"
#define OVERRIDES(more) "limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  overrides:\n" more

static void test_table(void **state) {
	static const struct row rows[] = {
		/* what an absent attribute switches off */
		{LIMIT("key: ip"), {{0}}},
		{LIMIT("key: [method, host, path, ip]"), {{0}}},
		{LIMIT("key: user | ip"), {{0}}},
		{LIMIT("key: [user | tenant | host, path]"), {{0}}},
		{LIMIT("key: []"), {{0}}},
		{LIMIT("key: user"), {{2, 31, "a request without 'user' escapes this limit: add a fallback"}}},
		{LIMIT("key: user | tenant"), {{2, 31, "a request with none of 'user | tenant' escapes this limit"}}},
		{LIMIT("key: [ip, user]"), {{2, 36, "a request without 'user' escapes"}}},
		{LIMIT("key: IP"), {{2, 31, "a request without 'IP' escapes"}}},
		{LIMIT("key: ip, when: {method: POST, path: /a*, host: h, ip: 1.2.3.4}"), {{0}}},
		{LIMIT("key: ip, when: {plan: free}"),
	     {{2, 42, "a request without 'plan' escapes this limit: a limit for all"}}},
		{"attributes: {user: header x-user}\n" LIMIT("key: user"), {{3, 31, "without 'user'"}}},
		/* numbers */
		{"limits:\n- {name: a, key: ip, limit: 0/1m}\n", {{2, 29, "a quota of 0 denies every request"}}},
		{OVERRIDES("  - {when: {plan: x}, limit: fixed-window 0/1s}\n"), {{6, 30, "a quota of 0"}}},
		/* what is never reached */
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: b}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: a}, limit: 2/1m}\n"),
	     {{7, 5, "never reached: the override in line 6 takes all of it"}}},
		{OVERRIDES("  - {when: {plan: 'a*'}, limit: 1/1m}\n  - {when: {plan: [ab, 'ac*']}, limit: 2/1m}\n"),
	     {{7, 5, "never reached"}}},
		{OVERRIDES("  - {when: {plan: 'a*'}, limit: 1/1m}\n  - {when: {plan: [ab, b]}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: 'ab*'}, limit: 1/1m}\n  - {when: {plan: 'a*'}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: 'a*'}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {user: u, plan: a}, limit: 2/1m}\n"),
	     {{7, 5, "never reached"}}},
		{OVERRIDES("  - {when: {plan: a, user: u}, limit: 1/1m}\n  - {when: {user: u}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {}, limit: 1/1m}\n  - {when: {user: u}, limit: 2/1m}\n"),
	     {{4, 10, "never used: the override in line 6 has no conditions"}, {7, 5, "never reached"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited}\n", {{2, 29, "this limit never applies"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited, overrides: []}\n", {{2, 29, "this limit never applies"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited, overrides: [{when: {plan: x}, limit: 1/1s}]}\n", {{0}}},
		/* the rest */
		{"trusted-proxies: [10.0.0.0/8, 10.1.2.3/16]\n",
	     {{1, 31, "'10.1.2.3/16' has bits behind its prefix: read as 10.1.0.0/16"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Limits that exclude each other may be as many as they like; seventeen that meet may not. */
static void test_many(void **state) {
	static char yaml[65536];
	static const struct {
		const char *each;
		unsigned count;
		struct wanted wanted[2];
	} rows[] = {
		{"- {name: n%u, key: ip, limit: 1/1s}\n", 16, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1s}\n",
	     17,
	     {{18, 3, "one limit more than the 16 that may apply to a request"}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: '/%u'}}\n", 500, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: ['/%u', '/x*']}}\n", 500, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: '/x*', method: POST}}\n", 17, {{18, 3, "one limit more"}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: '/%u*'}}\n", 500, {{0}}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (unsigned j = 0; j < rows[i].count; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, rows[i].each, j, j);
		sl_policy_rows_warned(&(struct row){yaml, {rows[i].wanted[0]}}, 1);
	}
}

/* A file that does not load has mistakes, and no warnings that may follow from them. */
static void test_no_warnings_beside_mistakes(void **state) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	(void)state;
	assert_int_equal(
		sluice_policy_load(&policy, sl_str("limits:\n- {name: a, key: user, limit: 0/1s}\nthreads: 0\n"), &problems),
		SLUICE_E_SYNTAX);
	assert_int_equal(problems.count, 1);
	assert_int_equal(problems.list[0].line, 3);
	assert_false(problems.list[0].warning);
	sluice_problems_free(&problems);
}

/* Warnings are cut at two hundred, and leave room for mistakes. */
static void test_warnings_are_bounded(void **state) {
	static char yaml[128 * 1024];
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len,
		                        "- {name: n%u, key: ip, limit: 0/1s, when: {path: /%u}}\n", i, i);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), &problems), SLUICE_OK);
	assert_int_equal(problems.count, 201);
	assert_non_null(strstr(problems.list[200].text, "there are more than 200 warnings"));
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	policy = NULL;
	len += (size_t)snprintf(yaml + len, sizeof yaml - len, "threads: 0\n");
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), &problems), SLUICE_E_SYNTAX);
	assert_int_equal(problems.count, 1);
	assert_int_equal(problems.list[0].line, 1002);
	sluice_problems_free(&problems);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_no_warnings_beside_mistakes),
		cmocka_unit_test(test_warnings_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
