/* What a call gets when nobody answered for some of its limits, by table. */
#include "hosts/server/remote/fallback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NONE_MORE = 0, FREE, ADMITS, DENIES, WATCHED_DENIES, ALLOW, DENY, LOCAL, WATCHED_DENY };

struct row {
	sluice_operation operation;
	uint8_t items[4]; /* as they were answered, or what they say where they were not */
	sluice_err err;
	bool allowed, passes;
};

/* clang-format off */
static const struct row table[] = {
	{SLUICE_CHARGE, {ADMITS}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {DENIES}, SLUICE_OK, false, true},
	{SLUICE_CHARGE, {FREE}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {ALLOW}, SLUICE_E_AWAY, true, true},
	{SLUICE_CHARGE, {DENY}, SLUICE_E_AWAY, true, false},
	{SLUICE_CHARGE, {ALLOW, DENY}, SLUICE_E_AWAY, true, false},
	{SLUICE_CHARGE, {LOCAL}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {LOCAL, ALLOW}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {LOCAL, DENY}, SLUICE_E_AWAY, true, false},
	{SLUICE_CHARGE, {ADMITS, ALLOW}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {ADMITS, DENY}, SLUICE_E_AWAY, true, false},
	{SLUICE_CHARGE, {ADMITS, LOCAL, ALLOW}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {DENIES, DENY}, SLUICE_OK, false, false},
	{SLUICE_CHARGE, {DENIES, LOCAL}, SLUICE_OK, false, true},
	{SLUICE_CHARGE, {DENIES, ALLOW}, SLUICE_OK, false, true},
	{SLUICE_CHARGE, {WATCHED_DENIES, ALLOW}, SLUICE_E_AWAY, true, true},
	{SLUICE_CHARGE, {ADMITS, WATCHED_DENY}, SLUICE_OK, true, true},
	{SLUICE_CHARGE, {FREE, ALLOW}, SLUICE_E_AWAY, true, true},
	{SLUICE_PEEK, {DENY}, SLUICE_E_AWAY, true, false},
	{SLUICE_PEEK, {LOCAL}, SLUICE_OK, true, true},
	{SLUICE_REFUND, {ADMITS}, SLUICE_OK, true, true},
	{SLUICE_REFUND, {LOCAL}, SLUICE_OK, true, true},
	{SLUICE_REFUND, {ALLOW}, SLUICE_E_AWAY, true, true},
	{SLUICE_REFUND, {ADMITS, ALLOW}, SLUICE_E_AWAY, true, true},
	{SLUICE_REFUND, {DENIES, ALLOW}, SLUICE_E_AWAY, false, true},
	{SLUICE_RESET, {ADMITS}, SLUICE_OK, true, true},
	{SLUICE_RESET, {LOCAL}, SLUICE_E_AWAY, true, true},
	{SLUICE_RESET, {ADMITS, ALLOW}, SLUICE_E_AWAY, true, true},
};
/* clang-format on */

struct bed {
	struct sluice_limit limit, unlimited;
	struct sluice_item items[4];
	struct sl_pending_item facts[4];
	struct sluice_decision each[4];
	struct sl_remote_item states[4];
	struct sluice_store *store;
	struct sl_pending_call call;
	struct sl_remote_call remote;
};

static void put_item(struct bed *bed, uint32_t i, uint8_t what) {
	bool failed = what >= ALLOW;
	bed->items[i].limit = what == FREE ? &bed->unlimited : &bed->limit;
	bed->items[i].key = sl_slice(&"abcd"[i], 1);
	bed->items[i].observed = what == WATCHED_DENIES || what == WATCHED_DENY ? SLUICE_OBSERVED : 0;
	bed->facts[i].on_error = what == DENY || what == WATCHED_DENY ? SL_ON_ERROR_DENY
	                         : what == LOCAL                      ? SL_ON_ERROR_LOCAL
	                                                              : SL_ON_ERROR_ALLOW;
	bed->states[i].state = what == FREE ? SL_ITEM_FREE : failed ? SL_ITEM_FAILED : SL_ITEM_ANSWERED;
	bed->each[i] = sl_plan_full(bed->items[i].limit, (uint8_t)i);
	bed->each[i].allowed = what != DENIES && what != WATCHED_DENIES;
}

static struct bed *make_bed(const struct row *row) {
	struct bed *bed = calloc(1, sizeof *bed);
	uint32_t count = 0;
	assert_non_null(bed);
	assert_int_equal(sluice_limit_parse(&bed->limit, sl_str("sliding-log 2/1h"), NULL), SLUICE_OK);
	assert_int_equal(sluice_limit_parse(&bed->unlimited, sl_str("unlimited"), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&bed->store, NULL, NULL), SLUICE_OK);
	for (; count < 4 && row->items[count] != NONE_MORE; count++)
		put_item(bed, count, row->items[count]);
	bed->call = (struct sl_pending_call){.facts = bed->facts,
	                                     .call = {.items = bed->items,
	                                              .item_count = count,
	                                              .cost = 1,
	                                              .operation = row->operation,
	                                              .now = sluice_now(),
	                                              .each = bed->each}};
	bed->remote = (struct sl_remote_call){.call = &bed->call, .items = bed->states};
	return bed;
}

static bool all_allow(const struct bed *bed) {
	for (uint32_t i = 0; i < bed->call.call.item_count; i++)
		if (bed->items[i].observed == 0 && !bed->each[i].allowed)
			return false;
	return true;
}

/* A bit for each limit that nobody has decided. */
static uint32_t undecided_of(const struct bed *bed) {
	uint32_t failed = 0;
	for (uint32_t i = 0; i < bed->call.call.item_count; i++)
		failed |= (uint32_t)(bed->states[i].state == SL_ITEM_FAILED) << i;
	return failed;
}

static void free_bed(struct bed *bed) {
	sluice_store_close(bed->store);
	free(bed);
}

static void test_what_calls_get(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct bed *bed = make_bed(&table[i]);
		sluice_err err = sl_fallback(&bed->remote, bed->store);
		if (err != table[i].err || all_allow(bed) != table[i].allowed ||
		    sl_fallback_passes(&bed->remote) != table[i].passes)
			print_message("row %zu\n", i);
		assert_int_equal(err, table[i].err);
		assert_int_equal(all_allow(bed), table[i].allowed);
		assert_int_equal(sl_fallback_passes(&bed->remote), table[i].passes);
		assert_int_equal(bed->call.undecided.failed, undecided_of(bed));
		free_bed(bed);
	}
}

static void test_local_counters_count(void **state) {
	static const struct row row = {SLUICE_CHARGE, {ALLOW, LOCAL}, SLUICE_OK, true, true};
	struct bed *bed = make_bed(&row);
	(void)state;
	for (int i = 0; i < 3; i++) {
		bed->states[1].state = SL_ITEM_FAILED;
		assert_int_equal(sl_fallback(&bed->remote, bed->store), SLUICE_OK);
		assert_int_equal(bed->states[1].state, SL_ITEM_LOCAL);
		assert_int_equal(bed->each[1].allowed, i < 2);
		assert_int_equal(bed->each[1].remaining, i < 2 ? 1 - i : 0);
		assert_int_equal(bed->each[1].index, 1);
		assert_true(bed->each[0].allowed);
		assert_int_equal(bed->each[0].remaining, 2); /* stands aside: full */
	}
	free_bed(bed);
}

/* What the local counters have granted, and whether it had been charged before, is told of the call. */
static void test_local_counters_tell_what_came_of_it(void **state) {
	static const struct row row = {SLUICE_CHARGE, {LOCAL}, SLUICE_OK, true, true};
	struct bed *bed = make_bed(&row);
	struct sluice_call *call = &bed->call.call;
	(void)state;
	call->cost = 5;
	call->upto = true;
	call->id = sl_str("again");
	for (int i = 0; i < 2; i++) {
		bed->states[0].state = SL_ITEM_FAILED;
		assert_int_equal(sl_fallback(&bed->remote, bed->store), SLUICE_OK);
		assert_true(bed->remote.has_outcome);
		assert_int_equal(call->granted, 2);
		assert_int_equal(call->repeated, i);
	}
	free_bed(bed);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_calls_get),
		cmocka_unit_test(test_local_counters_count),
		cmocka_unit_test(test_local_counters_tell_what_came_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
