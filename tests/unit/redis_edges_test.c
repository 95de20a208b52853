/* The module's decisions at their edges, by name, without a Redis: what holds, leases, reservations and packed counters
 * do at their limits, and what is decided without memory. */
#include "tests/unit/redis_world.h"

#include "base/math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hosts/redis/own_quota.h"

static const sluice_ns NOW = REDIS_NOW;

static void test_a_lease_that_ends_by_itself_is_charged_at_its_end(void **state) {
	struct sluice_limit limit = redis_limit("sliding-log 10/1m");
	slr_value value = 0;
	(void)state;
	assert_int_equal(redis_do(SL_OP_LEASE, &value, &limit, 0, 4, 1).asked.granted, 4);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 999, 1, 0).asked.merged.remaining, 6);
	assert_int_equal(redis_do(SL_OP_CHECK, &value, &limit, 30000, 6, 0).asked.merged.remaining, 0);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 60999, 1, 0).asked.merged.remaining, 0); /* 1000 + 60000 */
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 61000, 1, 0).asked.merged.remaining, 4);
	slr_value_free(value);
}

/* Four are spent a second later at the latest: what is charged meanwhile has to be back as well. */
static void test_a_charge_beside_a_lease_tells_when_all_is_back(void **state) {
	struct sluice_limit limit = redis_limit("token-bucket 10/10s");
	slr_value value = 0;
	(void)state;
	assert_int_equal(redis_do(SL_OP_LEASE, &value, &limit, 0, 4, 1).asked.granted, 4);
	for (int i = 0; i < 3; i++) {
		struct slr_call call = redis_do(i == 1 ? SL_OP_CHECK : SL_OP_PEEK, &value, &limit, 500, 2, 0);
		assert_int_equal(call.asked.merged.reset_after_ns, (i == 0 ? 4500 : 6000) * (sluice_ns)SL_MS_NS);
	}
	slr_value_free(value);
}

static void test_a_lease_is_charged_what_was_spent_of_it(void **state) {
	struct sluice_limit limit = redis_limit("sliding-log 10/1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	redis_do(SL_OP_LEASE, &value, &limit, 0, 4, 1);
	call = redis_call(SL_OP_LEASE, value, &limit, NOW + 500 * (sluice_ns)SL_MS_NS, 0);
	call.id = 1;
	call.spent = 9; /* more than it holds: 4 are charged */
	assert_int_equal(slr_decide(&call), SLR_FINE);
	value = call.keys[0].value;
	assert_int_equal(call.asked.merged.remaining, 6);
	call = redis_do(SL_OP_PEEK, &value, &limit, 60499, 1, 0);
	assert_int_equal(call.asked.merged.remaining, 6);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 60500, 1, 0).asked.merged.remaining, 10);
	slr_value_free(value);
}

static void test_a_hold_fits_when_it_is_confirmed(void **state) {
	struct sluice_limit limit = redis_limit("fixed-window 10/1m");
	slr_value value = 0;
	(void)state;
	assert_true(redis_do(SL_OP_HOLD, &value, &limit, 0, 7, 9).asked.merged.allowed);
	assert_false(redis_do(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.allowed);
	/* not 999 ms */
	assert_int_equal(redis_do(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.retry_after_ns, SL_MS_NS);
	assert_int_equal(redis_do(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.bound, SLUICE_BOUND_HOLDS);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 1, 11, 0).asked.merged.bound, SLUICE_BOUND_NONE);
	assert_true(redis_do(SL_OP_CHECK, &value, &limit, 2, 3, 0).asked.merged.allowed);
	assert_true(redis_do(SL_OP_CONFIRM, &value, &limit, 999, 7, 9).asked.merged.allowed);
	/* it is gone: decided as CHECK */
	assert_false(redis_do(SL_OP_CONFIRM, &value, &limit, 999, 7, 9).asked.merged.allowed);
	assert_int_equal(redis_do(SL_OP_RESET, &value, &limit, 999, 0, 0).asked.forgotten, 1);
	assert_int_equal(value, 0);
}

/* A confirmation that charges nothing ends what is held all the same. */
static void test_a_hold_that_is_confirmed_with_nothing_is_gone(void **state) {
	struct sluice_limit limit = redis_limit("fixed-window 10/1m");
	slr_value value = 0;
	(void)state;
	redis_do(SL_OP_CHECK, &value, &limit, 0, 1, 0);
	redis_do(SL_OP_HOLD, &value, &limit, 0, 7, 9);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 1, 1, 0).asked.merged.remaining, 2);
	assert_true(redis_do(SL_OP_CONFIRM, &value, &limit, 1, 0, 9).asked.merged.allowed);
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 1, 1, 0).asked.merged.remaining, 9);
	slr_value_free(value);
}

/* What a lease holds is charged when it ends, and room is there a window after that. */
static void test_a_denial_behind_a_lease_tells_when_there_is_room(void **state) {
	static const struct {
		const char *limit;
		uint64_t retry_ms;
	} rows[] = {{"fixed-window 10/1m", 59500}, {"sliding-log 10/1m", 60500}, {"token-bucket 10/10s", 1500}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit = redis_limit(rows[i].limit);
		slr_value value = 0;
		assert_int_equal(redis_do(SL_OP_LEASE, &value, &limit, 0, 10, 1).asked.granted, 10);
		struct sluice_decision d = redis_do(SL_OP_CHECK, &value, &limit, 500, 1, 0).asked.merged;
		assert_false(d.allowed);
		assert_int_equal(d.retry_after_ns, rows[i].retry_ms * SL_MS_NS);
		slr_value_free(value);
	}
}

static void test_a_hold_leaves_nothing_behind(void **state) {
	struct sluice_limit limit = redis_limit("sliding-buckets 10/1m precision 1s");
	slr_value value = 0;
	(void)state;
	redis_do(SL_OP_HOLD, &value, &limit, 0, 7, 9);
	assert_int_equal(redis_do(SL_OP_CANCEL, &value, &limit, 1000, 0, 9).asked.forgotten, 0); /* it has ended */
	assert_int_equal(redis_do(SL_OP_HOLD, &value, &limit, 1000, 7, 9).asked.merged.remaining, 3);
	assert_int_equal(redis_do(SL_OP_CANCEL, &value, &limit, 1001, 0, 9).asked.forgotten, 1);
	assert_int_equal(value, 0);
}

/* A front holds for several calls at once, and charges one after the other out of that. */
static void test_a_hold_is_spent_in_parts(void **state) {
	struct sluice_limit limit = redis_limit("sliding-log 10/1m");
	slr_value value = 0;
	struct slr_call call = redis_call(SL_OP_HOLD, 0, &limit, NOW, 12);
	(void)state;
	redis_do(SL_OP_HOLD, &value, &limit, 0, 2, 5);
	call.keys[0].value = value;
	call.asked.upto = true;
	call.id = 9;
	call.asked.ttl_ns = UINT64_C(1000) * SL_MS_NS;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed);
	assert_int_equal(call.asked.granted, 8);
	assert_int_equal(call.asked.found, 2);
	value = call.keys[0].value;
	for (uint32_t i = 1; i <= 4; i++) { /* the rest of it is left out of the figures; the other's is not */
		call = redis_call(SL_OP_CONFIRM, value, &limit, NOW + i * (sluice_ns)SL_MS_NS, 2);
		call.id = 9;
		call.keep = call.asked.want_next = true;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		value = call.keys[0].value;
		assert_true(call.asked.merged.allowed);
		assert_int_equal(call.asked.merged.remaining, 8 - 2 * i);
		assert_int_equal(call.asked.merged.reset_after_ns, UINT64_C(60000) * SL_MS_NS);
		assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, i, 1, 0).asked.merged.remaining, 0);
		call = redis_call(SL_OP_PEEK, value, &limit, NOW + i * (sluice_ns)SL_MS_NS, 1);
		call.id = 9;
		call.keep = true;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		assert_int_equal(call.asked.merged.remaining, 8 - 2 * i);
	}
	call.operation = SL_OP_CONFIRM;
	call.asked.cost = 1;
	assert_int_equal(slr_decide(&call), SLR_FINE); /* nothing of it is left: as CHECK */
	assert_int_equal(call.asked.merged.bound, SLUICE_BOUND_HOLDS);
	assert_int_equal(redis_do(SL_OP_CANCEL, &value, &limit, 5, 0, 9).asked.forgotten, 0);
	assert_int_equal(redis_do(SL_OP_CANCEL, &value, &limit, 5, 0, 5).asked.forgotten, 1);
	slr_value_free(value);
}

static void test_holds_of_one_counter_are_bounded(void **state) {
	struct sluice_limit limit = redis_limit("1000/1m");
	struct slr_bytes before, after;
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	for (uint64_t id = 0; id < SLR_HOLDS_MAX; id++)
		assert_true(redis_do(SL_OP_HOLD, &value, &limit, id, 1, id).asked.merged.allowed);
	before = redis_bytes(value);
	call = redis_call(SL_OP_HOLD, value, &limit, NOW, 1);
	call.id = SLR_HOLDS_MAX;
	call.asked.ttl_ns = 1;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_false(call.asked.merged.allowed);
	assert_int_equal(call.asked.merged.bound, SLUICE_BOUND_HOLDS);
	assert_int_equal(call.asked.merged.remaining, 0);
	assert_int_equal(call.asked.merged.retry_after_ns, SL_MS_NS);
	after = redis_bytes(value);
	assert_int_equal(before.len, after.len);
	assert_memory_equal(before.data, after.data, after.len);
	assert_true(redis_do(SL_OP_HOLD, &value, &limit, 256, 1, 7).asked.merged.allowed); /* its own is replaced */
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 256, 1, 0).asked.merged.remaining, 744);
	slr_bytes_free(&before);
	slr_bytes_free(&after);
	slr_value_free(value);
}

/* Nothing was charged, and the limit says why. */
static void assert_bound(const struct slr_call *call, uint32_t item, sluice_bound bound, uint32_t ms) {
	const struct sluice_decision *d = &call->each[item];
	for (uint32_t k = 0; k < call->key_count; k++)
		assert_false(call->keys[k].changed);
	assert_false(d->allowed);
	assert_int_equal(d->bound, bound);
	assert_int_equal(d->remaining, 0);
	assert_int_equal(d->retry_after_ns, ms * (sluice_ns)SL_MS_NS);
	assert_int_equal(call->asked.granted, 0);
}

static void test_open_reservations_are_bounded(void **state) {
	struct sluice_limit limit = redis_limit("sliding-log 1M/1h");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	for (uint64_t id = 1; id <= SL_LEDGER_MAX; id++)
		assert_true(redis_do(SL_OP_RESERVE, &value, &limit, 0, 1, id).asked.merged.allowed);
	call = redis_call(SL_OP_RESERVE, value, &limit, NOW + 300 * SL_MS_NS, 1);
	call.id = SL_LEDGER_MAX + 1;
	call.asked.ttl_ns = SL_MS_NS;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 0, SLUICE_BOUND_RESERVATIONS, 700); /* redis_do() reserves for a second */
	call.items[0].observed = SLUICE_OBSERVED;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed && !call.each[0].allowed);
	assert_true(redis_do(SL_OP_RESERVE, &value, &limit, 1000, 1, 1).asked.merged.allowed);
	slr_value_free(value);
}

static bool no_memory(void) {
	return true;
}

static void test_without_memory_what_is_there_goes_on(void **state) {
	struct sluice_limit window = redis_limit("fixed-window 5/1h"), log = redis_limit("sliding-log 1000/500ms"),
						slots = redis_limit("concurrency 2 lease 1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	redis_do(SL_OP_CHECK, &value, &window, 0, 1, 0);
	call = redis_call(SL_OP_CHECK, value, &window, NOW, 1);
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.merged.remaining, 3);
	value = call.keys[0].value;
	/* the new one denies, with it the call; observed it is only noted */
	call.items[1] = (struct sluice_item){.limit = &log};
	call.items[2] = (struct sluice_item){.limit = &log};
	call.asked.item_count = 3;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 1, SLUICE_BOUND_ROOM, 500);
	assert_bound(&call, 2, SLUICE_BOUND_ROOM, 500);
	assert_int_equal(call.asked.merged.index, 1);
	assert_true(call.each[0].allowed);
	assert_int_equal(call.each[0].remaining, 3);
	call.items[1].observed = call.items[2].observed = SLUICE_OBSERVED;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed && call.keys[0].changed);
	assert_int_equal(call.each[0].remaining, 2);
	assert_int_equal(call.each[1].bound, SLUICE_BOUND_ROOM);
	value = call.keys[0].value;
	assert_int_equal(slr_value_count(value), 1);
	/* a peek tells what a check would; what asks for nothing is let through */
	call = redis_call(SL_OP_PEEK, value, &log, NOW, 1);
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, 500);
	call.asked.cost = 0;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed);
	/* held before: confirmed, given back, released */
	redis_do(SL_OP_HOLD, &value, &log, 0, 7, 9);
	call = redis_call(SL_OP_CONFIRM, value, &log, NOW, 7);
	call.id = 9;
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed);
	call.operation = SL_OP_REFUND;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.merged.remaining, 1000);
	value = call.keys[0].value;
	redis_do(SL_OP_ACQUIRE, &value, &slots, 0, 1, 1);
	call = redis_call(SL_OP_RELEASE, value, &slots, NOW, 0);
	call.id = 1;
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.found, 1);
	slr_value_free(call.keys[0].value);
}

static void test_without_memory_a_retry_is_charged_again(void **state) {
	static const bool is_full[] = {true, true, false, false};
	static const uint32_t remaining[] = {3, 2, 1, 1};
	struct sluice_limit window = redis_limit("fixed-window 5/1h");
	slr_value value = 0;
	(void)state;
	redis_do(SL_OP_CHECK, &value, &window, 0, 1, 0);
	for (int i = 0; i < 4; i++) {
		struct slr_call call = redis_call(SL_OP_CHECK, value, &window, NOW, 1);
		call.token = 7;
		call.asked.id = sl_str("id");
		call.is_full = is_full[i] ? no_memory : NULL;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		assert_true(call.asked.merged.allowed);
		assert_int_equal(call.asked.merged.remaining, remaining[i]);
		assert_int_equal(call.asked.repeated, i == 3);
		value = call.keys[0].value;
	}
	slr_value_free(value);
}

static void test_counters_of_one_key_are_bounded(void **state) {
	struct sluice_limit limit;
	struct slr_call call;
	slr_value value = 0;
	char text[32];
	(void)state;
	for (int i = 0; i < SLR_COUNTERS_MAX; i++) {
		snprintf(text, sizeof text, "5/%ds", i + 1);
		limit = redis_limit(text);
		redis_do(SL_OP_CHECK, &value, &limit, 0, 1, 0);
	}
	limit = redis_limit("5/1h");
	call = redis_call(SL_OP_CHECK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	int64_t ends_ms = sl_ns_to_ms_ceil(call.asked.merged.retry_after_ns); /* of the window of 1 s, and some */
	assert_in_range(ends_ms, 1000, 5000);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, ends_ms);
	assert_int_equal(slr_value_count(value), SLR_COUNTERS_MAX);
	call.operation = SL_OP_LEASE;
	call.id = 1;
	call.want = 3;
	call.asked.ttl_ns = SL_MS_NS;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.granted, 0);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, ends_ms);
	call = redis_call(SL_OP_PEEK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, ends_ms); /* as the check; one of a counter that is there is none */
	limit = redis_limit("5/9s");
	call = redis_call(SL_OP_PEEK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed && call.asked.merged.remaining == 4);
	slr_value_free(value);
}

/* The second of two keys is full: neither is charged. */
static void test_each_key_of_a_call_has_its_room(void **state) {
	struct sluice_limit limit;
	slr_value full = 0;
	char text[32];
	(void)state;
	for (int i = 0; i < SLR_COUNTERS_MAX; i++) {
		snprintf(text, sizeof text, "5/%ds", i + 1);
		limit = redis_limit(text);
		redis_do(SL_OP_CHECK, &full, &limit, 0, 1, 0);
	}
	limit = redis_limit("5/1h");
	struct slr_call call = redis_call(SL_OP_CHECK, 0, &limit, NOW, 1);
	call.items[1].limit = &limit;
	call.key_of[1] = 1;
	call.keys[1].value = full;
	call.key_count = call.asked.item_count = 2;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(!call.asked.merged.allowed && call.each[1].bound == SLUICE_BOUND_ROOM);
	assert_int_equal(call.keys[0].value, 0);
	slr_value_free(call.keys[1].value);
}

static int64_t later_ms(void) {
	return redis_wall_ms() + 10000;
}

/* Once the first of them matters no more, the next takes its place: one by itself, or of several limits. */
static void test_a_full_key_has_room_when_its_first_counter_has_ended(void **state) {
	struct sluice_limit limit, second = redis_limit("sliding-log 5/2h");
	char text[32];
	(void)state;
	for (uint32_t several = 0; several < 2; several++) {
		slr_value value = 0;
		for (int i = 0; i < SLR_COUNTERS_MAX; i++) {
			/* of the first of all it was not noted when it ends */
			snprintf(text, sizeof text, "%s5/%ds", i == 1 ? "fixed-window " : "", i == 1 || i == 2 ? 1 : 3600 + i);
			limit = redis_limit(text);
			redis_do(SL_OP_CHECK, &value, &limit, 0, 1, 0);
		}
		limit = redis_limit("5/3h");
		for (int later = 0; later < 2; later++) {
			const sluice_ns now = NOW + (later ? 10000 : 0) * (sluice_ns)SL_MS_NS;
			struct slr_call call = redis_call(SL_OP_CHECK, value, &limit, now, 1);
			call.wall_ms = later ? later_ms : redis_wall_ms;
			call.items[1].limit = &second;
			call.asked.item_count = 1 + several;
			struct slr_call look = call;
			look.operation = SL_OP_PEEK;
			assert_int_equal(slr_decide(&look), SLR_FINE);
			assert_int_equal(slr_decide(&call), SLR_FINE);
			assert_int_equal(call.asked.merged.allowed, later);
			assert_int_equal(look.asked.merged.allowed, later); /* it says so before, and changes nothing */
			assert_int_equal(look.keys[0].changed, false);
			assert_int_equal(call.keys[0].changed, later);
			value = call.keys[0].value;
			for (uint32_t i = 0; later && i <= several; i++) {
				call = redis_call(SL_OP_PEEK, value, i == 0 ? &limit : &second, now, 1);
				assert_int_equal(slr_decide(&call), SLR_FINE);
				assert_int_equal(call.asked.merged.remaining, 4); /* it was charged */
			}
		}
		assert_int_equal(slr_value_count(value), SLR_COUNTERS_MAX - 1 + several);
		slr_value_free(value);
	}
}

/* Decides a check on a value and does the same to its replica. */
static void check_both(slr_value *value, slr_value *replica, const struct sluice_limit *limit, uint64_t ms) {
	struct slr_call call = redis_call(SL_OP_CHECK, *value, limit, NOW + ms * SL_MS_NS, 1);
	call.heard = true;
	call.wall_ms = ms < 10000 ? redis_wall_ms : later_ms;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	*value = call.keys[0].value;
	struct slr_bytes *effects = &call.keys[0].effects.bytes;
	assert_true(slr_effects_apply(replica, sl_slice(effects->data, effects->len)));
	assert_int_equal(slr_value_count(*replica), slr_value_count(*value));
	for (uint32_t i = 0; i < slr_value_count(*value); i++) {
		struct slr_counter scratch, other;
		assert_non_null(slr_value_find(*replica, slr_value_at(*value, i, &scratch)->identity, &other));
	}
	slr_bytes_free(effects);
}

/* What a call has changed, done to a replica. Returns how many bytes that took. */
static size_t replicate(enum sl_operation operation, slr_value *value, slr_value *replica,
                        const struct sluice_limit *limit, uint64_t ms, uint32_t cost, uint64_t id) {
	struct slr_call call = redis_call(operation, *value, limit, NOW + ms * SL_MS_NS, cost);
	struct slr_bytes *effects = &call.keys[0].effects.bytes;
	size_t bytes;
	call.id = id;
	call.want = cost;
	call.asked.ttl_ns = UINT64_C(1000) * SL_MS_NS;
	call.heard = true;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	*value = call.keys[0].value;
	bytes = effects->len;
	if (bytes != 0)
		assert_true(slr_effects_apply(replica, sl_slice(effects->data, effects->len)));
	assert_true(slr_value_is_valid(*replica));
	slr_bytes_free(effects);
	return bytes;
}

/* Replicas are told how much was asked back of a log, not the log; with the lease and the reservation that ended. */
static void test_a_refund_of_a_log_is_not_the_log(void **state) {
	static const uint32_t costs[] = {1, 4, 700, 0, 5000};
	(void)state;
	for (int weighted = 0; weighted < 2; weighted++) {
		struct sluice_limit limit = redis_limit("sliding-log 5000/1h");
		slr_value value = 0, replica = 0;
		for (uint64_t i = 0; i < 2000; i++)
			replicate(SL_OP_CHECK, &value, &replica, &limit, i, weighted != 0 ? 1 + i % 3 : 1, 0);
		replicate(SL_OP_LEASE, &value, &replica, &limit, 2000, 9, 1);
		replicate(SL_OP_RESERVE, &value, &replica, &limit, 2500, 5, 2);
		for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
			size_t bytes = replicate(SL_OP_REFUND, &value, &replica, &limit, 4000 + i, costs[i], 0);
			assert_in_range(bytes, costs[i] == 0 ? 0 : 29, 200);
			for (uint64_t ms = 5000; ms < 3700000; ms += 1000) {
				uint32_t left = redis_do(SL_OP_PEEK, &value, &limit, ms, 1, 0).asked.merged.remaining;
				assert_int_equal(redis_do(SL_OP_PEEK, &replica, &limit, ms, 1, 0).asked.merged.remaining, left);
				if (ms == 5000 && i == 4)
					assert_int_equal(left, 5000);
			}
		}
		slr_value_free(value);
		slr_value_free(replica);
	}
}

/* Counters that are over, and quotas of a key's own, leave a replica when they leave the primary. */
static void test_what_is_over_leaves_replicas(void **state) {
	struct sluice_limit brief[] = {redis_limit("5/1s"), redis_limit("5/2s")};
	struct sluice_limit minute = redis_limit("5/1m"), own = redis_limit("9/1m");
	sluice_ns end = NOW + 11000 * (sluice_ns)SL_MS_NS;
	slr_value value = 0, replica = 0;
	(void)state;
	check_both(&value, &replica, &brief[0], 0);
	check_both(&value, &replica, &brief[1], 0);
	check_both(&value, &replica, &brief[0], 1); /* packed it told nobody until when it is kept */
	assert_int_equal(slr_value_count(value), 2);
	check_both(&value, &replica, &minute, 10000);
	assert_int_equal(slr_value_count(value), 1);
	for (int i = 0; i < 2; i++)
		slr_own_put(i == 0 ? &value : &replica, sl_identity_of(&minute), &own, end, sl_str(""));
	check_both(&value, &replica, &minute, 10999);
	assert_int_equal(slr_value_count(value), 2);
	check_both(&value, &replica, &minute, 11000);
	assert_int_equal(slr_value_count(value), 1);
	slr_value_free(value);
	slr_value_free(replica);
}

/* SipHash-2-4 of "alice" under the key that values, replicas and other nodes agree on. */
/* Until when a companion is kept at least, in ms from the wall clock's now. */
static int64_t kept_ms(slr_value value, enum slr_companion companion) {
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count(value); i++)
		if (slr_companion_is(companion, slr_value_at(value, i, &scratch)->identity))
			return slr_value_until(value, i) - redis_wall_ms();
	return -1;
}

/* A companion of several entries is kept until the last of them ends, whichever came last. */
static void test_what_ends_soon_cuts_off_nothing(void **state) {
	const struct sluice_limit day = redis_limit("10/1d"), second = redis_limit("7/1s"), many = redis_limit("1k/1d");
	slr_value value = 0;
	(void)state;
	for (uint64_t token = 1; token <= 2; token++) {
		struct slr_call call = redis_call(SL_OP_CHECK, value, token == 1 ? &day : &second, NOW, 1);
		call.token = token;
		call.asked.id = sl_str("id");
		assert_int_equal(slr_decide(&call), SLR_FINE);
		value = call.keys[0].value;
		assert_true(kept_ms(value, SLR_COMPANION_TOKENS) >= (int64_t)86400 * 1000);
	}
	slr_value_free(value);
	value = 0;
	for (uint64_t id = 1; id <= 101; id++) { /* from the 65th on they are bundled */
		struct slr_call call = redis_call(SL_OP_RESERVE, value, &many, NOW, 1);
		call.id = id;
		call.asked.ttl_ns = (sluice_ns)(id == 2 || id == 65 ? 500 : 600000) * SL_MS_NS;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		assert_true(call.asked.merged.allowed);
		value = call.keys[0].value;
		assert_true(kept_ms(value, SLR_COMPANION_LEDGER) >= 600000);
		assert_true(kept_ms(value, SLR_COMPANION_CONTENTS) >= 600000 ||
		            (id < 65 && kept_ms(value, SLR_COMPANION_CONTENTS) == -1));
	}
	slr_value_free(value);
}

/* A bucket that was full again, and went, owes what a commit says above its estimate; of a window nothing is left. */
static void test_a_commit_above_its_estimate_needs_no_counter(void **state) {
	static const struct {
		const char *limit;
		uint32_t left;
	} rows[] = {{"token-bucket 600/1m burst 100", 21}, {"leaky-bucket 600/1m queue 99", 21}, {"600/100ms", 600}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct sluice_limit limit = redis_limit(rows[i].limit);
		slr_value value = 0;
		struct slr_call call;
		redis_do(SL_OP_RESERVE, &value, &limit, 0, 1, 9);
		assert_true(slr_value_remove(&value, sl_identity_of(&limit)));
		call = redis_do(SL_OP_COMMIT, &value, &limit, 700, 80, 9);
		assert_int_equal(call.asked.found, 1);
		assert_int_equal(call.each[0].remaining, rows[i].left);
		if (rows[i].left == 21)
			assert_in_range(call.keys[0].expire_ms, redis_wall_ms() + 7900, redis_wall_ms() + 7902);
		assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, 700, 1, 0).each[0].remaining, rows[i].left);
		slr_value_free(value);
	}
}

static void test_a_member_has_the_same_number_on_every_node(void **state) {
	static const unsigned char number[] = {0xab, 0x67, 0x5a, 0x64, 0xfc, 0x69, 0x79, 0x70};
	struct sluice_limit limit = redis_limit("distinct 10/1m");
	struct slr_call call = redis_call(SL_OP_CHECK, 0, &limit, NOW, 1);
	(void)state;
	call.heard = true;
	call.items[0].member = sl_str("alice");
	assert_int_equal(slr_decide(&call), SLR_FINE);
	struct slr_bytes *effects = &call.keys[0].effects.bytes;
	assert_true(effects->len > sizeof number);
	assert_memory_equal(effects->data + effects->len - sizeof number, number, sizeof number);
	slr_bytes_free(effects);
	slr_value_free(call.keys[0].value);
}

/* 2047 fit, 2048 do not; an instant of whole ms fits in any era, one between them does not. */
static void test_what_is_packed_and_what_is_not(void **state) {
	struct sluice_limit limit = redis_limit("4095/60s");
	slr_value value = 0;
	(void)state;
	redis_do(SL_OP_CHECK, &value, &limit, 0, 2047, 0);
	assert_true(slr_value_is_packed(value));
	assert_int_equal(slr_value_bytes(value), 0);
	assert_int_equal(redis_do(SL_OP_CHECK, &value, &limit, 0, 1, 0).asked.merged.remaining, 2047);
	assert_false(slr_value_is_packed(value));
	assert_int_equal(slr_value_bytes(value), 32);
	assert_int_equal(redis_do(SL_OP_REFUND, &value, &limit, 0, 1, 0).asked.merged.remaining, 2048);
	assert_true(slr_value_is_packed(value));
	redis_do(SL_OP_CHECK, &value, &limit, UINT64_C(1) << 33, 1, 0); /* two eras on: a window of its own */
	assert_true(slr_value_is_packed(value));
	assert_int_equal(redis_do(SL_OP_PEEK, &value, &limit, UINT64_C(1) << 33, 1, 0).asked.merged.remaining, 4094);
	redis_do(SL_OP_HOLD, &value, &limit, UINT64_C(1) << 33, 5, 1);
	assert_false(slr_value_is_packed(value));
	assert_int_equal(redis_do(SL_OP_CANCEL, &value, &limit, UINT64_C(1) << 33, 0, 1).asked.forgotten, 1);
	assert_true(slr_value_is_packed(value));
	struct slr_call call = redis_call(SL_OP_CHECK, value, &limit, NOW + (SL_MS_NS * (UINT64_C(1) << 33)) + 1, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	value = call.keys[0].value;
	assert_false(slr_value_is_packed(value));
	slr_value_free(value);
}

static void test_more_shapes_than_there_is_room_for(void **state) {
	enum { MANY = 700 };
	static slr_value values[MANY];
	struct sluice_limit limit;
	char text[32];
	int packed = 0;
	(void)state;
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof text, "5/%dms", 1000 + i);
		limit = redis_limit(text);
		redis_do(SL_OP_CHECK, &values[i], &limit, 0, 2, 0);
		packed += slr_value_is_packed(values[i]);
	}
	assert_true(packed > 256 && packed <= 512);
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof text, "5/%dms", 1000 + i);
		limit = redis_limit(text);
		assert_int_equal(redis_do(SL_OP_PEEK, &values[i], &limit, 0, 1, 0).asked.merged.remaining, 3);
		slr_value_free(values[i]);
	}
	limit = redis_limit("5/9s");
	slr_value value = 0;
	redis_do(SL_OP_CHECK, &value, &limit, 0, 2, 0);
	assert_true(slr_value_is_packed(value)); /* what was given up is free again */
	slr_value_free(value);
}

static void test_expiry_is_told_in_wall_time(void **state) {
	struct sluice_limit limit = redis_limit("fixed-window 10/1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	call = redis_do(SL_OP_CHECK, &value, &limit, 1500, 1, 0);
	assert_int_equal(call.keys[0].expire_ms, redis_wall_ms() + 60000 - 1500 + 1);
	call = redis_do(SL_OP_CHECK, &value, &limit, 2500, 1, 0);
	assert_true(call.keys[0].changed && call.keys[0].expire_ms == 0); /* that of its window, which it has */
	call = redis_do(SL_OP_CHECK, &value, &limit, 2500, 100, 0);
	assert_false(call.keys[0].changed);
	call = redis_do(SL_OP_CHECK, &value, &limit, 61000, 1, 0);
	assert_int_equal(call.keys[0].expire_ms, redis_wall_ms() + 59000 + 1);
	slr_value_free(value);
}

/* Nothing is charged to a quota of 0, so nothing is told to replicas, which would refuse it. */
static void test_of_no_quota_no_denial_is_counted(void **state) {
	static const char *const notations[] = {"fixed-window 0/1m", "sliding-log 0/1m", "token-bucket 0/1m",
	                                        "sliding-buckets 0/1m precision 1s"};
	(void)state;
	for (size_t i = 0; i < sizeof notations / sizeof *notations; i++) {
		struct sluice_limit limit = redis_limit(notations[i]);
		struct slr_call call = redis_call(SL_OP_CHECK, 0, &limit, NOW, 7);
		struct sluice_terms terms = {.count_denied = true};
		call.heard = true;
		call.items[0].terms = &terms;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		assert_false(call.keys[0].changed || call.keys[0].effects.bytes.len != 0 || call.keys[0].value != 0);
		slr_bytes_free(&call.keys[0].effects.bytes);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lease_that_ends_by_itself_is_charged_at_its_end),
		cmocka_unit_test(test_a_charge_beside_a_lease_tells_when_all_is_back),
		cmocka_unit_test(test_a_lease_is_charged_what_was_spent_of_it),
		cmocka_unit_test(test_a_hold_fits_when_it_is_confirmed),
		cmocka_unit_test(test_a_hold_that_is_confirmed_with_nothing_is_gone),
		cmocka_unit_test(test_a_denial_behind_a_lease_tells_when_there_is_room),
		cmocka_unit_test(test_a_hold_leaves_nothing_behind),
		cmocka_unit_test(test_a_hold_is_spent_in_parts),
		cmocka_unit_test(test_holds_of_one_counter_are_bounded),
		cmocka_unit_test(test_open_reservations_are_bounded),
		cmocka_unit_test(test_without_memory_what_is_there_goes_on),
		cmocka_unit_test(test_without_memory_a_retry_is_charged_again),
		cmocka_unit_test(test_counters_of_one_key_are_bounded),
		cmocka_unit_test(test_each_key_of_a_call_has_its_room),
		cmocka_unit_test(test_a_full_key_has_room_when_its_first_counter_has_ended),
		cmocka_unit_test(test_a_refund_of_a_log_is_not_the_log),
		cmocka_unit_test(test_what_is_over_leaves_replicas),
		cmocka_unit_test(test_what_ends_soon_cuts_off_nothing),
		cmocka_unit_test(test_a_commit_above_its_estimate_needs_no_counter),
		cmocka_unit_test(test_a_member_has_the_same_number_on_every_node),
		cmocka_unit_test(test_what_is_packed_and_what_is_not),
		cmocka_unit_test(test_more_shapes_than_there_is_room_for),
		cmocka_unit_test(test_expiry_is_told_in_wall_time),
		cmocka_unit_test(test_of_no_quota_no_denial_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
