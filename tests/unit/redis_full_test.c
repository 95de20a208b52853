/* Keys that have as many rows as they may: whatever a call would add, their values are saved, read and replicated. */
#include "tests/unit/redis_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hosts/redis/companion.h"

static const sluice_ns NOW = REDIS_NOW;

static int64_t later_ms(void) {
	return redis_wall_ms() + 10000;
}

/* A value of so many windows of an hour and more. */
static slr_value full_value(uint32_t count) {
	struct sluice_limit limit;
	slr_value value = 0;
	char text[32];
	for (uint32_t i = 0; i < count; i++) {
		snprintf(text, sizeof text, "5/%ds", 3600 + (int)i);
		limit = redis_limit(text);
		redis_do(SL_OP_CHECK, &value, &limit, 0, 1, 0);
	}
	return value;
}

/* A value is saved and read, with as many rows as it may have. */
static void assert_is_read(slr_value value) {
	struct slr_bytes bytes = redis_bytes(value);
	slr_value read = slr_read_value(sl_slice(bytes.data, bytes.len));
	assert_in_range(slr_value_count(value), 1, SLR_COUNTERS_MAX);
	assert_true(read != 0 && slr_value_count(read) == slr_value_count(value));
	slr_value_free(read);
	slr_bytes_free(&bytes);
}

/* At a key of so many counters, the next of which ends first: a check under an ID, twice. */
static void check_twice(slr_value *value, slr_value *replica, const struct sluice_limit *limit, uint64_t ms,
                        bool remembered) {
	for (int again = 0; again < 2; again++) {
		struct slr_call call = redis_call(SL_OP_CHECK, *value, limit, NOW + ms * SL_MS_NS, 1);
		struct slr_bytes *effects = &call.keys[0].effects.bytes;
		call.token = 7;
		call.asked.id = sl_str("id");
		call.heard = true;
		call.wall_ms = ms < 10000 ? redis_wall_ms : later_ms;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		assert_true(call.asked.merged.allowed);
		assert_int_equal(call.asked.repeated, again && remembered);
		*value = call.keys[0].value;
		if (effects->len != 0)
			assert_true(slr_effects_apply(replica, sl_slice(effects->data, effects->len)));
		assert_int_equal(slr_value_count(*replica), slr_value_count(*value));
		slr_bytes_free(effects);
	}
	assert_is_read(*value);
}

/* A full key remembers no request, for which there is no row, until a counter of it is over: then it gives it its. */
static void test_a_full_key_remembers_no_request(void **state) {
	struct sluice_limit there = redis_limit("5/3600s"), next = redis_limit("5/10h");
	struct sluice_limit over = redis_limit("fixed-window 5/1s");
	(void)state;
	for (uint32_t room = 0; room < 3; room++) {
		slr_value value = full_value(SLR_COUNTERS_MAX - room), replica = slr_value_copy(value);
		check_twice(&value, &replica, room == 0 ? &there : &next, 0, room == 2);
		slr_value_free(value);
		slr_value_free(replica);
	}
	slr_value value = full_value(SLR_COUNTERS_MAX - 1), replica;
	redis_do(SL_OP_CHECK, &value, &over, 0, 1, 0);
	replica = slr_value_copy(value);
	check_twice(&value, &replica, &there, 0, false);
	check_twice(&value, &replica, &there, 20000, true);
	assert_int_equal(slr_value_count(value), SLR_COUNTERS_MAX);
	slr_value_free(value);
	slr_value_free(replica);
}

/* Reserves of two limits at once; returns whether that was allowed. */
static bool reserve(slr_value *value, const struct sluice_limit *first, const struct sluice_limit *second,
                    uint64_t id) {
	struct slr_call call = redis_call(SL_OP_RESERVE, *value, first, NOW, 1);
	call.id = id;
	call.asked.id = sl_str("id");
	call.asked.ttl_ns = UINT64_C(3600000) * SL_MS_NS;
	call.items[1].limit = second;
	call.asked.item_count = second != NULL ? 2 : 1;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	*value = call.keys[0].value;
	if (!call.asked.merged.allowed)
		assert_int_equal(call.asked.merged.bound, SLUICE_BOUND_ROOM);
	return call.asked.merged.allowed;
}

/* The contents of a ledger take a row: with a counter and its ledger beside it in the call, all three are counted. By
 * themselves they are done without. */
static void test_contents_are_counted_with_what_a_call_makes(void **state) {
	struct sluice_limit many = redis_limit("token-bucket 4G/1h burst 4G"), other = redis_limit("fixed-window 5/7h");
	(void)state;
	for (uint32_t room = 0; room < 4; room++) {
		slr_value value = full_value(SLR_COUNTERS_MAX - 2 - room);
		for (uint64_t id = 1; id <= SL_LEDGER_LIST_MAX; id++)
			assert_true(reserve(&value, &many, NULL, id));
		assert_int_equal(reserve(&value, &many, &other, 100), room == 3);
		assert_is_read(value);
		assert_true(reserve(&value, &many, NULL, 101));
		assert_is_read(value);
		slr_value_free(value);
	}
}

/* What an earlier build left, with more rows than there should be, is read, and decides; it grows no more. */
static void test_more_rows_than_may_be_are_read(void **state) {
	struct sluice_limit limit = redis_limit("5/3600s"), next = redis_limit("5/10h");
	const uint32_t counts[] = {SLR_COUNTERS_MAX + 1, SLR_COUNTERS_READ_MAX, SLR_COUNTERS_READ_MAX + 1};
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		slr_value value = slr_value_for(counts[i]), read;
		struct slr_bytes bytes;
		for (uint32_t k = 0; k < counts[i]; k++) {
			struct sl_identity identity = sl_identity_of(&limit);
			struct sl_state window = sl_window_state((struct sl_window_counts){.last = NOW, .cur = 1});
			identity.name = k;
			slr_value_write(&value, identity, &window, SLR_UNTIL_UNKNOWN);
		}
		bytes = redis_bytes(value);
		read = slr_read_value(sl_slice(bytes.data, bytes.len));
		assert_int_equal(read != 0, counts[i] <= SLR_COUNTERS_READ_MAX);
		if (read != 0) {
			slr_value copy = 0;
			struct slr_effects effects = {.bytes.data = NULL};
			for (uint32_t k = 0; k < counts[i]; k++) {
				struct slr_counter scratch;
				slr_effect_whole(&effects, slr_value_at(read, k, &scratch));
			}
			assert_true(slr_effects_apply(&copy, sl_slice(effects.bytes.data, effects.bytes.len)));
			assert_int_equal(slr_value_count(copy), counts[i]);
			slr_value_free(copy);
			slr_bytes_free(&effects.bytes);
			assert_true(redis_do(SL_OP_CHECK, &read, &limit, 0, 1, 0).asked.merged.allowed);
			assert_int_equal(redis_do(SL_OP_CHECK, &read, &next, 0, 1, 0).asked.merged.bound, SLUICE_BOUND_ROOM);
			assert_int_equal(slr_value_count(read), counts[i]);
		}
		slr_value_free(read);
		slr_value_free(value);
		slr_bytes_free(&bytes);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_full_key_remembers_no_request),
		cmocka_unit_test(test_contents_are_counted_with_what_a_call_makes),
		cmocka_unit_test(test_more_rows_than_may_be_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
