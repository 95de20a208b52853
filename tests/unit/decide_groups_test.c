/* Limits of one call that are decided together, case by case: quotas, and those that meet in one counter at costs of
 * their own. The small worlds of tests/model/worlds_groups_test.c say that the same holds everywhere. */
#include "tests/unit/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS (ASK_START_MS * ASK_MS)

/* Where all deny, a request is let in as soon as one admits: so long it is told to wait. What is no quota counts as
 * ever. */
static void the_first_of_quotas_that_deny_decides(void **state) {
	static const struct {
		const char *limits[4]; /* of the keys a, b, c, d; the last two are no quotas */
		uint32_t index;
		int64_t retry_ms, reset_ms;
	} rows[] = {
		{{"fixed-window 1/1h", "fixed-window 1/1s", NULL}, 1, 1000, 1000},
		{{"fixed-window 0/1h", "fixed-window 1/1s", NULL}, 1, 1000, 1000},
		{{"fixed-window 1/1h", "fixed-window 1/1s", "fixed-window 1/1m", NULL}, 2, 60000, 60000},
		{{"fixed-window 1/1h", "fixed-window 1/1s", "fixed-window 5/1d", NULL}, 1, 1000, 86400000},
		{{"fixed-window 1/1h", "fixed-window 1/1h", NULL}, 0, 3600000, 3600000},
		{{"fixed-window 0/1h", "fixed-window 0/1s", NULL}, 0, -1, 0},
	};
	static const char *const keys[] = {"a", "b", "c", "d"};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct sluice_limit limits[4];
		struct sluice_item items[4];
		struct sluice_call call = {.items = items, .cost = 1, .now = START_NS};
		for (uint32_t i = 0; rows[r].limits[i] != NULL; i++) {
			limits[i] = ask_limit(rows[r].limits[i]);
			items[i] = (struct sluice_item){.limit = &limits[i], .key = sl_str(keys[i])};
			ASK(*state, SLUICE_RESET, 0, 0, .lines = {{rows[r].limits[i], .key = keys[i]}});
			ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{rows[r].limits[i], .key = keys[i]}});
			items[i].quota = i < 2;
			call.item_count++;
		}
		for (int peek = 0; peek < 2; peek++) {
			call.operation = peek ? SLUICE_PEEK : SLUICE_CHARGE;
			assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
			assert_false(call.merged.allowed);
			assert_int_equal(call.merged.index, rows[r].index);
			assert_int_equal(sl_ns_to_ms_ceil(call.merged.retry_after_ns), rows[r].retry_ms);
			assert_int_equal(sl_ns_to_ms_ceil(call.merged.reset_after_ns), rows[r].reset_ms);
		}
	}
}

/* Each is judged by its own cost; what the counter is charged, and given back, is the greatest of those that may. */
static void the_greatest_cost_is_charged_where_limits_meet(void **state) {
	struct sluice_limit limit = ask_limit("fixed-window 100/1h"), small = ask_limit("fixed-window 60/1h");
	struct sluice_decision each[3];
	struct sluice_item items[3] = {{.limit = &limit, .key = sl_str("k")},
	                               {.limit = &limit, .key = sl_str("k"), .cost = 50},
	                               {.limit = &small, .key = sl_str("k"), .cost = 20, .observed = SLUICE_OBSERVED}};
	struct sluice_call call = {
		.items = items, .item_count = 3, .cost = 1, .now = START_NS, .each = each, .want_next = true};
	static const uint32_t left[] = {50, 0};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
		assert_true(call.merged.allowed && call.merged.remaining == left[i]);
		assert_true(each[0].remaining == left[i] && each[1].remaining == left[i]);
		assert_int_equal(each[2].allowed, i == 0); /* by what it costs itself */
	}
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_false(call.merged.allowed);
	call.operation = SLUICE_REFUND;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_int_equal(call.merged.remaining, 50);
	/* one that does not admit is not charged by: where it is observed the others go on */
	call.operation = SLUICE_CHARGE;
	items[1].observed = SLUICE_OBSERVED;
	items[1].cost = 51;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_true(call.merged.allowed && call.merged.remaining == 49 && !each[1].allowed && !each[2].allowed);
}

/* A denial is charged as an admission is: by the greatest of the costs that count it. */
static void the_greatest_cost_is_charged_of_denials(void **state) {
	static const struct sluice_terms counts = {.count_denied = true};
	struct sluice_limit limit = ask_limit("fixed-window 100/1h"), none = ask_limit("fixed-window 0/1h");
	struct sluice_decision each[3];
	struct sluice_item items[3] = {{.limit = &limit, .key = sl_str("k"), .terms = &counts},
	                               {.limit = &limit, .key = sl_str("k"), .cost = 30, .terms = &counts},
	                               {.limit = &none, .key = sl_str("n")}};
	struct sluice_call call = {.items = items, .item_count = 3, .cost = 1, .now = START_NS, .each = each};
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_false(call.merged.allowed);
	assert_true(each[0].remaining == 70 && each[1].remaining == 70);
}

/* Of any two items, wherever they stand. */
static void two_members_of_one_counter_are_refused(void **state) {
	struct sluice_limit limit = ask_limit("distinct 3/1h");
	struct sluice_item items[3] = {{.limit = &limit, .key = sl_str("other"), .member = sl_str("x")},
	                               {.limit = &limit, .key = sl_str("k"), .member = sl_str("x")},
	                               {.limit = &limit, .key = sl_str("k"), .member = sl_str("y")}};
	struct sluice_call call = {.items = items, .item_count = 3, .cost = 1, .now = START_NS};
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_MISUSE);
	items[2].observed = SLUICE_OBSERVED;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_MISUSE);
	items[1].observed = SLUICE_OBSERVED; /* they deny nobody */
	assert_true(sluice_decide(*state, &call) == SLUICE_OK && call.merged.allowed);
	items[1].observed = items[2].observed = 0;
	items[2].key = sl_str("third");
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
}

/* A quota that denies by a bound has nothing to grant; another one has. */
static void upto_grants_nothing_of_a_quota_out_of_bounds(void **state) {
	struct sluice_limit limit = ask_limit("fixed-window 10/1h");
	struct sluice_item items[2] = {{.limit = &limit, .key = sl_str("a"), .quota = 1, .bound = SLUICE_BOUND_LIMITS},
	                               {.limit = &limit, .key = sl_str("b"), .quota = 1}};
	struct sluice_call call = {.items = items, .item_count = 2, .cost = 10, .now = START_NS};
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	call.upto = true;
	call.cost = 5;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_true(!call.merged.allowed && call.granted == 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_of_quotas_that_deny_decides, ask_open, ask_close),
		cmocka_unit_test_setup_teardown(the_greatest_cost_is_charged_where_limits_meet, ask_open, ask_close),
		cmocka_unit_test_setup_teardown(the_greatest_cost_is_charged_of_denials, ask_open, ask_close),
		cmocka_unit_test_setup_teardown(two_members_of_one_counter_are_refused, ask_open, ask_close),
		cmocka_unit_test_setup_teardown(upto_grants_nothing_of_a_quota_out_of_bounds, ask_open, ask_close),
	};
	return cmocka_run_group_tests_name("deciding together", tests, NULL, NULL);
}
