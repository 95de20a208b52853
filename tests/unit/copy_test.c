/* Corrections of a log's copy: charges that were less than what was used in the end get entries between those that are
 * there, in a fresh block where they have no room, and go again in their own order. */
#include "decide/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CHARGES = 3, CORRECTIONS = 12, MS = 1000000 };

static const sluice_ns start = (sluice_ns)1700000000 * 1000 * MS;

static void *take(uint64_t bytes) {
	void *block = calloc(1, bytes);
	assert_non_null(block);
	return block;
}

static const struct sl_memory memory = {take, free};

/* What is used at an instant. */
static uint64_t used(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	struct sl_counter copy = *counter;
	struct sluice_decision decision;
	sl_step(limit, &copy, now, 0, false, &decision);
	return decision.quota - decision.remaining;
}

static void a_log_gets_entries_between(void **state) {
	struct sluice_limit limit;
	struct sl_counter copy = {.block = NULL};
	struct sl_correction list[CORRECTIONS] = {{.instant = 0}};
	uint64_t costs[8 * CHARGES] = {0}; /* by the millisecond */
	void *fresh;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("sliding-log 100/1m"), NULL), SLUICE_OK);
	for (int i = 0; i < CHARGES; i++) {
		void *old = copy.block;
		assert_true(sl_copy_charge(&limit, &copy, start + (sluice_ns)8 * i * MS, 5, &memory, &fresh));
		if (fresh != NULL)
			free(old);
		costs[8 * i] = 5;
	}
	void *old = copy.block;
	for (int i = 0; i < CORRECTIONS; i++) {
		list[i].instant = start + (sluice_ns)(i + 1) * MS;
		list[i].charged = 1;
		list[i].actual = 3 + (uint32_t)i;
		costs[i + 1] += 2 + (uint64_t)i;
	}
	const uint64_t bytes_before = copy.block_bytes;
	assert_true(sl_copy_correct(&limit, &copy, list, CORRECTIONS, &memory, &fresh));
	assert_ptr_equal(copy.block, fresh);
	assert_in_range(copy.block_bytes, bytes_before, 4 * bytes_before);
	free(old);
	for (int ms = 0; ms < 8 * CHARGES; ms++) {
		uint64_t left = 0;
		for (int later = ms + 1; later < 8 * CHARGES; later++)
			left += costs[later];
		assert_int_equal(used(&limit, &copy, start + limit.window_ns + (sluice_ns)ms * MS + MS / 2), left);
	}
	free(copy.block);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_log_gets_entries_between)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
