/* Quotas of keys' own in values of the module, case by case, without Redis: how long they last, what leaves them, and
 * what becomes of fronts' slices. The store decides the same: tests/unit/redis_decide_test.c. */
#include "tests/unit/redis_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hosts/redis/own_quota.h"

static const sluice_ns NOW = REDIS_NOW;

static struct sluice_decision peek(slr_value value, const struct sluice_limit *limit, sluice_ns now, uint32_t cost) {
	struct slr_call call = redis_call(SL_OP_PEEK, value, limit, now, cost);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_false(call.keys[0].changed);
	return call.each[0];
}

/* A quota of a key's own: to which instant it counts, what RESET leaves, and that what it was is gone with a charge. */
static void test_a_quota_of_a_key_ends(void **state) {
	struct sluice_limit limit = redis_limit("5/1m"), own = redis_limit("9/1m"), free = redis_limit("unlimited");
	struct sl_identity counter = sl_identity_of(&limit);
	slr_value value = 0;
	(void)state;
	sluice_ns end = slr_own_end(&own, NOW, 1000 * SL_MS_NS);
	assert_true(end >= NOW + 1000 * SL_MS_NS && end <= NOW + 1001 * SL_MS_NS);
	slr_own_put(&value, counter, &own, end, sl_str(""));
	assert_true(slr_own_count() == 1 && !slr_own_endless(value));
	assert_true(peek(value, &limit, end - 1, 9).allowed && !peek(value, &limit, end, 9).allowed);
	slr_own_put(&value, counter, &free, SLUICE_NEVER, sl_str("per-user"));
	assert_true(slr_own_count() == 1 && slr_own_endless(value) && slr_value_count(value) == 1);
	struct slr_call call = redis_call(SL_OP_CHECK, value, &limit, NOW, 100);
	assert_true(slr_decide(&call) == SLR_FINE && call.each[0].allowed && !call.keys[0].changed);
	slr_own_put(&value, counter, &own, end, sl_str(""));
	call = redis_call(SL_OP_CHECK, value, &limit, NOW, 6);
	assert_true(slr_decide(&call) == SLR_FINE && call.each[0].remaining == 3);
	assert_true(slr_value_count(call.keys[0].value) == 2);
	call = redis_call(SL_OP_RESET, call.keys[0].value, &limit, NOW, 0);
	assert_true(slr_decide(&call) == SLR_FINE && call.asked.forgotten == 1);
	assert_true(slr_own_find(call.keys[0].value, counter) != NULL);
	call = redis_call(SL_OP_CHECK, call.keys[0].value, &limit, NOW + 1001 * SL_MS_NS, 1);
	assert_true(slr_decide(&call) == SLR_FINE && call.each[0].quota == 5);
	assert_true(slr_value_is_packed(call.keys[0].value) && slr_own_count() == 0);
	slr_value_free(call.keys[0].value);
}

static struct slr_call lease(slr_value value, const struct sluice_limit *limit, uint32_t spent, uint32_t want) {
	struct slr_call call = redis_call(SL_OP_LEASE, value, limit, NOW, 0);
	call.id = 7;
	call.spent = spent;
	call.want = want;
	call.asked.ttl_ns = 1000 * SL_MS_NS;
	assert_true(slr_decide(&call) == SLR_FINE);
	return call;
}

/* A front's slice of a key without a limit for now: all is granted, and what was spent of the one before charged. */
static void test_slices_of_a_key_without_limit(void **state) {
	struct sluice_limit limit = redis_limit("100/1m"), free = redis_limit("unlimited");
	struct sl_identity counter = sl_identity_of(&limit);
	struct slr_call call = lease(0, &limit, 0, 40);
	(void)state;
	assert_true(call.asked.granted == 40);
	slr_own_put(&call.keys[0].value, counter, &free, SLUICE_NEVER, sl_str(""));
	call = lease(call.keys[0].value, &limit, 30, 5000);
	assert_true(call.asked.granted == 5000 && call.each[0].quota == UINT32_MAX);
	assert_true(slr_value_remove(&call.keys[0].value, slr_companion_of(SLR_COMPANION_OVERRIDE, counter)));
	assert_true(peek(call.keys[0].value, &limit, NOW, 0).remaining == 70);
	slr_value_free(call.keys[0].value);
}

/* A front may spend of its slice while it asks anew. Of a quota that was lowered meanwhile that stays held, and is
 * charged when it is told: what is admitted in all is what one of the two quotas admits. */
static void test_a_slice_under_a_lowered_quota(void **state) {
	struct sluice_limit limit = redis_limit("100/1m"), own = redis_limit("10/1m");
	struct slr_call call = lease(0, &limit, 0, 40);
	(void)state;
	assert_true(call.asked.granted == 40);
	slr_own_put(&call.keys[0].value, sl_identity_of(&limit), &own, SLUICE_NEVER, sl_str(""));
	call = lease(call.keys[0].value, &limit, 15, 40);
	assert_true(call.asked.granted == 25 && call.each[0].quota == 10 && !call.each[0].allowed);
	call = lease(call.keys[0].value, &limit, 25, 40);
	assert_true(call.asked.granted == 0);
	assert_true(
		slr_value_remove(&call.keys[0].value, slr_companion_of(SLR_COMPANION_OVERRIDE, sl_identity_of(&limit))));
	assert_true(peek(call.keys[0].value, &limit, NOW, 0).remaining == 60);
	slr_value_free(call.keys[0].value);
}

static void put_none(slr_value *value, const struct sluice_limit *limit, const char *none) {
	struct sluice_limit own = redis_limit(none);
	slr_own_put(value, sl_identity_of(limit), &own, SLUICE_NEVER, sl_str(""));
}

/* That a call keeps its key, and each counter in it, for an hour at least. */
static void assert_kept(const struct slr_call *call) {
	const int64_t until_ms = redis_wall_ms() + 3600000;
	struct slr_counter scratch;
	assert_true(call->keys[0].changed && call->keys[0].expire_ms >= until_ms);
	for (uint32_t i = 0; i < slr_value_count(call->keys[0].value); i++) {
		const struct slr_counter *counter = slr_value_at(call->keys[0].value, i, &scratch);
		assert_true(sl_identity_is_companion(counter->identity) ||
		            slr_value_until(call->keys[0].value, i) >= until_ms);
	}
}

/* What is left of a quota of 10 when that of 0 is forgotten. */
static void assert_left(slr_value value, const struct sluice_limit *limit, uint32_t left) {
	assert_true(slr_value_remove(&value, slr_companion_of(SLR_COMPANION_OVERRIDE, sl_identity_of(limit))));
	assert_int_equal(peek(value, limit, NOW, 0).remaining, left);
	slr_value_free(value);
}

/* Under a quota of 0 nothing is ever back; but what is charged, committed or still held then is spent when the quota is
 * another: the counter is kept as long as under any. An hour begins at REDIS_NOW. */
static void test_what_was_spent_outlives_a_quota_of_0(void **state) {
	static const char *const rows[][2] = {
		{"10/1h", "0/1h"},
		{"fixed-window 10/1h", "fixed-window 0/1h"},
		{"sliding-log 10/1h", "sliding-log 0/1h"},
		{"sliding-buckets 10/1h precision 1m", "sliding-buckets 0/1h precision 1m"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct sluice_limit limit = redis_limit(rows[i][0]);
		/* a slice that is settled */
		struct slr_call call = lease(0, &limit, 0, 4);
		put_none(&call.keys[0].value, &limit, rows[i][1]);
		call = lease(call.keys[0].value, &limit, 4, 0);
		assert_kept(&call);
		assert_left(call.keys[0].value, &limit, 6);
		/* a hold that is cancelled, of what was spent before; and beside a slice, which is charged when it ends */
		for (uint32_t slice = 0; slice < 2; slice++) {
			slr_value value = 0;
			(void)redis_do(slice != 0 ? SL_OP_LEASE : SL_OP_CHECK, &value, &limit, 0, 5, slice);
			(void)redis_do(SL_OP_HOLD, &value, &limit, 0, 2, 9);
			put_none(&value, &limit, rows[i][1]);
			call = redis_do(SL_OP_CANCEL, &value, &limit, 0, 0, 9);
			assert_int_equal(call.asked.forgotten, 1);
			assert_kept(&call);
			assert_left(value, &limit, 5);
		}
		/* a reservation that is committed */
		slr_value value = 0;
		(void)redis_do(SL_OP_RESERVE, &value, &limit, 0, 5, 9);
		put_none(&value, &limit, rows[i][1]);
		call = redis_do(SL_OP_COMMIT, &value, &limit, 0, 4, 9);
		assert_int_equal(call.asked.found, 1);
		assert_kept(&call);
		assert_left(value, &limit, 6);
	}
}

/* A key lives as long as the longest-lived thing in it; one that does not end has it live for good. */
static void test_how_long_a_key_lives(void **state) {
	struct sluice_limit limit = redis_limit("5/1m"), other = redis_limit("fixed-window 5/1h");
	struct sluice_limit own = redis_limit("9/1m");
	const int64_t wall = 1800000000000, hour = 3600000;
	slr_value value = 0;
	(void)state;
	slr_own_put(&value, sl_identity_of(&limit), &own, NOW + 500 * SL_MS_NS, sl_str(""));
	assert_in_range(slr_own_expiry(value, &limit, NOW, wall, -1), wall + 500, wall + 502);
	struct slr_call call = redis_call(SL_OP_CHECK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	value = call.keys[0].value;
	slr_value_keep(value, sl_identity_of(&limit), wall + hour);
	assert_int_equal(slr_own_expiry(value, NULL, NOW, wall, -1), wall + hour);
	/* what is not known ends with what the key's expiry was, or is worked out, whichever limit asks */
	slr_value_keep(value, sl_identity_of(&limit), SLR_UNTIL_UNKNOWN);
	assert_int_equal(slr_own_expiry(value, NULL, NOW, wall, wall + hour), wall + hour);
	assert_in_range(slr_own_expiry(value, &limit, NOW, wall, -1), wall + 60000, wall + 121000);
	assert_int_equal(slr_own_expiry(value, &other, NOW, wall, -1), slr_own_expiry(value, &limit, NOW, wall, -1));
	/* but for strikes, whose end only the terms of a limit tell: they have one that is told, or nobody knows it */
	const struct sl_strikes strikes = {.until = NOW + SL_MS_NS};
	slr_strikes_put(&value, sl_identity_of(&limit), &strikes, SLR_UNTIL_UNKNOWN);
	assert_true(slr_own_expiry(value, &limit, NOW, wall, -1) > wall + 3659 * 24 * hour);
	slr_strikes_put(&value, sl_identity_of(&limit), &strikes, wall + 2 * hour);
	assert_int_equal(slr_own_expiry(value, &limit, NOW, wall, -1), wall + 2 * hour);
	/* how much the limit that asks admits has no part in it */
	const struct sluice_limit none = redis_limit("0/1m");
	slr_value_keep(value, sl_identity_of(&limit), SLR_UNTIL_UNKNOWN);
	slr_value_remove(&value, slr_companion_of(SLR_COMPANION_STRIKES, sl_identity_of(&limit)));
	assert_in_range(slr_own_expiry(value, &none, NOW, wall, -1), wall + 60000, wall + 121000);
	slr_own_put(&value, sl_identity_of(&other), &own, SLUICE_NEVER, sl_str(""));
	assert_int_equal(slr_own_expiry(value, &limit, NOW, wall, wall + hour), -1);
	slr_value_free(value);
	assert_int_equal(slr_own_count(), 0);
}

/* A value is written in the least version that has all of it: an older module refuses those that have one, and reads
 * all others. */
static void test_only_values_with_one_are_of_version_5(void **state) {
	struct sluice_limit limit = redis_limit("5/1m"), own = redis_limit("9/1m");
	struct slr_call call = redis_call(SL_OP_CHECK, 0, &limit, NOW, 1);
	(void)state;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	slr_value value = call.keys[0].value;
	struct slr_bytes bytes = redis_bytes(value);
	assert_int_equal(bytes.data[0], SLR_CODEC_VERSION_OLD);
	slr_bytes_free(&bytes);
	slr_own_put(&value, sl_identity_of(&limit), &own, SLUICE_NEVER, sl_str("per-user"));
	bytes = redis_bytes(value);
	assert_int_equal(bytes.data[0], 5);
	slr_value loaded = slr_read_value(sl_slice(bytes.data, bytes.len));
	const struct slr_own *read = slr_own_find(loaded, sl_identity_of(&limit));
	assert_non_null(read);
	assert_true(sl_bytes_equal(slr_own_name(read), sl_str("per-user")));
	assert_true(sl_bytes_equal(slr_own_text(read), sl_str("sliding-window 9/1m")));
	slr_bytes_free(&bytes);
	slr_value_free(loaded);
	slr_value_free(value);
	assert_int_equal(slr_own_count(), 0);
}

/* What no module has written is no quota. */
static void test_damaged_ones_are_refused(void **state) {
	struct sluice_limit limit = redis_limit("5/1m"), own = redis_limit("9/1m");
	slr_value value = 0;
	struct slr_counter scratch;
	(void)state;
	slr_own_put(&value, sl_identity_of(&limit), &own, SLUICE_NEVER, sl_str("per-user"));
	struct slr_counter *companion = slr_value_at(value, 0, &scratch);
	struct slr_own *put = (void *)slr_counter_block(companion)->bytes;
	const uint64_t bytes = slr_counter_block_bytes(companion);
	const struct slr_own was = *put;
	const uint64_t kind = sl_identity_of(&limit).kind;
	assert_true(slr_own_is_valid(kind, put, bytes) && slr_value_is_valid(value));
	assert_false(slr_own_is_valid(kind, put, bytes - 8) || slr_own_is_valid(kind, put, 8));
	put->unlimited = 2;
	assert_false(slr_own_is_valid(kind, put, bytes));
	*put = was;
	put->name = SLUICE_NAME_BYTES_MAX + 1;
	assert_false(slr_own_is_valid(kind, put, bytes));
	*put = was;
	put->end = SLUICE_NEVER - 1;
	assert_false(slr_own_is_valid(kind, put, bytes));
	*put = was;
	put->zero = 1;
	assert_false(slr_value_is_valid(value));
	*put = was;
	((char *)put)[bytes - 1] = 1;
	assert_false(slr_value_is_valid(value));
	((char *)put)[bytes - 1] = 0;
	put->edge = 77;
	assert_false(slr_value_is_valid(value));
	*put = was;
	slr_value_free(value);
}

/* Numbers that no SET would write lead to decisions that end, whatever they are. */
static void test_odd_numbers_are_decided_by(void **state) {
	static const char *const limits[] = {"5/1m", "token-bucket 5/1m burst 9", "leaky-bucket 5/1m", "sliding-log 5/1m"};
	static const uint32_t numbers[] = {0, 1, UINT32_MAX};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits * 9; i++) {
		struct sluice_limit limit = redis_limit(limits[i / 9]), own = limit;
		slr_value value = 0;
		own.quota = numbers[i % 3];
		own.burst = numbers[i / 3 % 3];
		sl_rule_derive(&own);
		slr_own_put(&value, sl_identity_of(&limit), &own, SLUICE_NEVER, sl_str(""));
		for (uint64_t step = 0; step < 40; step++) {
			struct slr_call call =
				redis_call(SL_OP_CHECK, value, &limit, NOW + step * 7919 * SL_MS_NS, (uint32_t)(step % 4));
			call.wall_ms = redis_wall_ms;
			assert_int_equal(slr_decide(&call), SLR_FINE);
			assert_true(slr_value_is_valid(call.keys[0].value));
			value = call.keys[0].value;
		}
		slr_value_free(value);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_quota_of_a_key_ends),
		cmocka_unit_test(test_slices_of_a_key_without_limit),
		cmocka_unit_test(test_a_slice_under_a_lowered_quota),
		cmocka_unit_test(test_what_was_spent_outlives_a_quota_of_0),
		cmocka_unit_test(test_how_long_a_key_lives),
		cmocka_unit_test(test_only_values_with_one_are_of_version_5),
		cmocka_unit_test(test_damaged_ones_are_refused),
		cmocka_unit_test(test_odd_numbers_are_decided_by),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
