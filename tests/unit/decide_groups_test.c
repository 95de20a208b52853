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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_of_quotas_that_deny_decides, ask_open, ask_close),
	};
	return cmocka_run_group_tests_name("deciding together", tests, NULL, NULL);
}
