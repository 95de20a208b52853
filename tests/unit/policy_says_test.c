/* What a policy says of requests besides who is counted: what they cost. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT(more) "limits:\n- {name: a, key: ip, " more "}\n"
#define COST(cost) LIMIT("limit: 5/1m, cost: " cost)

/* ---- costs ------------------------------------------------------------------------------------------------------ */

static void test_costs_refused(void **state) {
	static const struct row rows[] = {
		{COST("0"), {{2, 41, "expected a cost from 1, found 0: an override whose limit is unlimited costs nothing"}}},
		{COST("-1"), {{2, 41, "expected a whole number from 1 to 4294967295, found '-1'"}}},
		{COST("4294967296"), {{2, 41, "expected a whole number from 1 to 4294967295"}}},
		{COST("'5'"), {{2, 41, "expected a whole number from 1 to 4294967295 without quotes"}}},
		{COST("header"), {{2, 41, "expected a source such as 'header x-user-id', found 'header'"}}},
		{COST("header x cost"), {{2, 49, "expected the name of a header"}}},
		{COST("[]"), {{2, 41, "expected 1 to 64 costs, found 0"}}},
		{COST("[5, header x-cost]"), {{2, 45, "never read: expected first {when, cost} of some requests"}}},
		{COST("[header a, header b]"), {{2, 52, "never read"}}},
		{COST("[header a, {when: {}, cost: 2}]"), {{2, 52, "never read"}}},
		{COST("[1, 2]"), {{2, 45, "never read"}}},
		{COST("{when: {}, cost: 2}"), {{2, 41, "expected a whole number, found a mapping"}}},
		{COST("[{when: {path: /a}, costs: 2}]"), {{2, 61, "unknown key 'costs' in a cost: did you mean 'cost'?"}}},
		{COST("[{when: {path: /a}, cost: 0}]"), {{2, 67, "expected a cost from 1, found 0"}}},
		{COST("[{cost: 2}]"), {{2, 42, "missing key 'when' in a cost"}}},
		{LIMIT("limit: distinct 5/1d, of: path, cost: 2"), {{2, 60, "cost can't be said of distinct: a member"}}},
		{LIMIT("limit: unlimited, cost: 2"), {{2, 46, "cost can't be said of unlimited: nothing is counted there"}}},
		{LIMIT("limit: 5/1m, reserve: true, cost: 2"), {{2, 56, "cost can't be said beside reserve: its estimate is"}}},
		{"store: {redis: 127.0.0.1:1, via: script}\n" COST("2"),
	     {{3, 41, "a cost of one limit alone needs Sluice's module on the nodes: via: script can't do it"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_costs_taken(void **state) {
	static const struct {
		const char *cost, *path;
		uint32_t own, otherwise;
		const char *header;
	} rows[] = {
		{"5", "/a", 5, 5, NULL},
		{"4294967295", "/a", UINT32_MAX, UINT32_MAX, NULL},
		{"header X-Cost", "/a", 0, 0, "x-cost"},
		{"[header x-cost, 7]", "/a", 0, 7, "x-cost"},
		{"[{when: {path: /a}, cost: 3}, header x-cost, 7]", "/a", 3, 7, "x-cost"},
		{"[{when: {path: /a}, cost: 3}, header x-cost, 7]", "/b", 0, 7, "x-cost"},
		{"[{when: {path: '/a*'}, cost: 3}, {when: {path: /ab}, cost: 4}, 7]", "/ab", 3, 7, NULL},
		{"[{when: {path: '/a*'}, cost: 3}, {when: {path: /b}, cost: 4}]", "/b", 4, 0, NULL},
		{"[{when: {path: '/a*'}, cost: 3}]", "/c", 0, 0, NULL},
	};
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("a")}, {sl_str("path"), sl_str(rows[i].path)}};
		struct sluice_match match;
		char yaml[256];
		snprintf(yaml, sizeof yaml, COST("%s"), rows[i].cost);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		const struct sl_policy_cost *cost = &sl_policy_limit_at(policy, 0)->cost;
		assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(match.items[0].cost, rows[i].own);
		assert_true(cost->on);
		assert_int_equal(cost->cost, rows[i].otherwise);
		if (rows[i].header == NULL)
			assert_null(cost->header);
		else
			assert_string_equal(cost->header, rows[i].header);
		sluice_policy_free(policy);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_costs_refused),
		cmocka_unit_test(test_costs_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
