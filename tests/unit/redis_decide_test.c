/* The module's decisions without a Redis: against the embedded store where that knows what is asked, and against time
 * itself where it does not, which is with holds and leases.
 *
 *  same      random calls of several limits and keys, some of which have quotas of their own for a while: every figure
 *            as the store's; and a replica that is sent the
 *            effects, and a value that was saved and loaded, answer like the value itself
 *  waits     with holds and leases among the calls: what a peek at a later instant says is what a decision promised for
 *            it, to the millisecond; a denied call changes no byte
 *  edges     by name: what a hold, a lease and a packed counter do at their limits
 *
 * The definition of holds, as a twin that counts them from scratch, meets the module in
 * tests/e2e/test_module_random.py. */
#include "tests/unit/redis_world.h"

#include "base/math.h"
#include "hosts/redis/own_quota.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = 60, HOLDING_CALLS = 40, STREAMS_PER_STORE = 500, HOLDERS = 3 };

static const sluice_ns NOW = UINT64_C(1800000000) * 1000000000;
static uint64_t stream_now; /* for the message of a failure */

#define CHECK(condition)                                                                                     \
	do {                                                                                                     \
		if (!(condition))                                                                                    \
			fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 ": %s", dice_seed(), stream_now, #condition); \
	} while (0)

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

/* ---- the same as the store -------------------------------------------------------------------------------------- */

static bool same_decision(const struct sluice_decision *a, const struct sluice_decision *b) {
	return a->allowed == b->allowed && a->index == b->index && a->remaining == b->remaining && a->quota == b->quota &&
	       a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
	       a->delay_ns == b->delay_ns && a->next_after_ns == b->next_after_ns;
}

/* Asks the store what the module was asked. */
static void ask_store(struct sluice_store *store, const struct redis_world *world, uint64_t stream,
                      struct sluice_call *asked, struct sluice_decision *each) {
	static struct sluice_item items[SLUICE_ITEMS_MAX];
	static char keys[WORLD_KEYS][32];
	const struct slr_call *call = &world->call;
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		uint8_t key = world->keys_of_call[call->key_of[i]];
		int len = snprintf(keys[key], sizeof keys[key], "%" PRIu64 ":%d", stream, key);
		items[i] = (struct sluice_item){.limit = call->items[i].limit,
		                                .key = sl_slice(keys[key], (size_t)len),
		                                .observed = call->items[i].observed};
	}
	*asked = (struct sluice_call){.items = items, .item_count = call->asked.item_count, .cost = call->asked.cost};
	asked->operation = (sluice_operation)call->operation;
	asked->want_next = call->asked.want_next;
	asked->now = call->asked.now;
	asked->each = each;
	CHECK(sluice_decide(store, asked) == SLUICE_OK);
}

/* A value that was saved and loaded, or made by effects, answers a peek as the value does. */
static void check_twin_value(const struct redis_world *world, slr_value value, slr_value twin) {
	for (size_t i = 0; i < WORLD_RULES; i++) {
		struct slr_call a = redis_call(SL_OP_PEEK, value, &world->limits[i], world->now_ms * SL_MS_NS, 1);
		struct slr_call b = redis_call(SL_OP_PEEK, twin, &world->limits[i], world->now_ms * SL_MS_NS, 1);
		CHECK(slr_decide(&a) == SLR_FINE && slr_decide(&b) == SLR_FINE);
		CHECK(same_decision(&a.asked.merged, &b.asked.merged));
	}
}

static void check_copies(const struct redis_world *world) {
	for (size_t k = 0; k < WORLD_KEYS; k++) {
		struct slr_bytes bytes = redis_bytes(world->values[k]);
		slr_value loaded = slr_read_value(sl_slice(bytes.data, bytes.len)), copy = slr_value_copy(world->values[k]);
		CHECK((loaded == 0) == (world->values[k] == 0));
		CHECK(slr_value_is_valid(loaded) && slr_value_is_valid(copy));
		check_twin_value(world, world->values[k], loaded);
		check_twin_value(world, world->values[k], copy);
		check_twin_value(world, world->values[k], world->replicas[k]);
		slr_value_free(loaded);
		slr_value_free(copy);
		slr_bytes_free(&bytes);
	}
}

static void draw_operation(struct redis_world *world) {
	static const enum sl_operation operations[] = {SL_OP_CHECK, SL_OP_CHECK,  SL_OP_CHECK, SL_OP_CHECK,
	                                                SL_OP_PEEK,  SL_OP_REFUND, SL_OP_RESET};
	redis_world_draw(world);
	world->call.operation = operations[dice_below(&world->dice, sizeof operations / sizeof *operations)];
	if (world->call.operation == SL_OP_RESET && !dice_one_in(&world->dice, 3))
		world->call.operation = SL_OP_CHECK;
}

/* Sets or forgets a quota of a key's own in the world and in the store. They don't end: the world's clock goes back,
 * and what has ended once may be gone here, and there still. */
static void override_both(struct sluice_store *store, struct redis_world *world, uint64_t stream) {
	const struct redis_own drawn = redis_world_override(world, false);
	char key[32];
	int len = snprintf(key, sizeof key, "%" PRIu64 ":%d", stream, drawn.key);
	const struct sluice_override_request request = {.limit = drawn.limit,
	                                                .key = sl_slice(key, (size_t)len),
	                                                .own = &drawn.own};
	sluice_ns now = world->now_ms * SL_MS_NS;
	if (drawn.set)
		CHECK(sluice_override_set(store, &request, now, NULL) == SLUICE_OK);
	else
		CHECK(sluice_override_delete(store, drawn.limit, request.key, now) != SLUICE_E_BUSY);
}

static void test_same_as_the_store(void **state) {
	struct sluice_store *store;
	uint64_t streams = dice_ops(DICE_MILLION) / 2000 + 1;
	(void)state;
	assert_int_equal(sluice_store_open(&store, NULL, NULL), SLUICE_OK);
	for (stream_now = 0; stream_now < streams; stream_now++) {
		static struct redis_world world;
		if (stream_now % STREAMS_PER_STORE == STREAMS_PER_STORE - 1) { /* one that is full would evict */
			sluice_store_close(store);
			assert_int_equal(sluice_store_open(&store, NULL, NULL), SLUICE_OK);
		}
		redis_world_begin(&world, stream_now);
		for (int i = 0; i < CALLS; i++) {
			struct sluice_decision each[SLUICE_ITEMS_MAX];
			struct sluice_call asked;
			if (dice_one_in(&world.dice, 12))
				override_both(store, &world, stream_now);
			draw_operation(&world);
			CHECK(redis_world_decide(&world) == SLR_FINE);
			ask_store(store, &world, stream_now, &asked, each);
			if (world.call.operation == SL_OP_RESET) {
				CHECK(asked.forgotten == world.call.asked.forgotten);
				continue;
			}
			CHECK(same_decision(&asked.merged, &world.call.asked.merged));
			for (uint32_t k = 0; k < world.call.asked.item_count; k++)
				CHECK(same_decision(&each[k], &world.call.each[k]));
		}
		check_copies(&world);
		redis_world_end(&world);
	}
	sluice_store_close(store);
}

/* ---- what is promised comes true -------------------------------------------------------------------------------- */

static struct sluice_decision peek(slr_value value, const struct sluice_limit *limit, sluice_ns now, uint32_t cost) {
	struct slr_call call = redis_call(SL_OP_PEEK, value, limit, now, cost);
	CHECK(slr_decide(&call) == SLR_FINE);
	CHECK(!call.keys[0].changed && call.keys[0].value == value);
	return call.each[0];
}

/* Whether an instant and the wait from it are such that what happens there can be looked at. */
static bool in_reach(sluice_ns wait) {
	return wait != SLUICE_NEVER && wait < SL_WINDOW_NS_MAX * 3;
}

/* A copy of a value in which nothing is held of a limit's counter but by leases. */
static slr_value without_plain_holds(slr_value value, const struct sluice_limit *limit, sluice_ns now) {
	slr_value copy = slr_value_copy(value);
	for (uint64_t id = 0; id < HOLDERS; id++) {
		struct slr_call call = redis_call(SL_OP_CANCEL, copy, limit, now, 0);
		call.id = id;
		CHECK(slr_decide(&call) == SLR_FINE);
		copy = call.keys[0].value;
	}
	return copy;
}

/* Plain holds have no part in waits: those are what they would be without, and what only they deny says so. */
static void check_bound(slr_value value, slr_value bare, const struct sluice_limit *limit, sluice_ns now,
                        uint32_t cost) {
	struct sluice_decision d = peek(value, limit, now, cost), without = peek(bare, limit, now, cost);
	CHECK(d.reset_after_ns == without.reset_after_ns && d.remaining <= without.remaining);
	CHECK((d.bound == SLUICE_BOUND_HOLDS) == (!d.allowed && without.allowed));
	CHECK(d.retry_after_ns == (d.bound == SLUICE_BOUND_HOLDS ? SL_MS_NS : without.retry_after_ns));
}

/* Waits end at the first whole ms at which what they wait for is there, and not one ms sooner. */
static void check_waits(slr_value value, const struct sluice_limit *limit, sluice_ns now, uint32_t cost) {
	struct sluice_decision d = peek(value, limit, now, cost), then;
	uint64_t retry = (uint64_t)sl_ns_to_ms_ceil(d.retry_after_ns) * SL_MS_NS;
	uint64_t reset = (uint64_t)sl_ns_to_ms_ceil(d.reset_after_ns) * SL_MS_NS;
	if (!d.allowed && in_reach(d.retry_after_ns)) {
		CHECK(peek(value, limit, now + retry, cost).allowed);
		CHECK(!peek(value, limit, now + retry - SL_MS_NS, cost).allowed);
	}
	if (in_reach(d.reset_after_ns)) {
		then = peek(value, limit, now + reset, 0);
		CHECK(limit->quota == 0 || (then.reset_after_ns == 0 && then.remaining == sl_min(then.quota, UINT32_MAX)));
	}
	if (d.remaining < d.quota && d.remaining != UINT32_MAX && in_reach(d.next_after_ns)) {
		uint64_t next = (uint64_t)sl_ns_to_ms_ceil(d.next_after_ns) * SL_MS_NS;
		CHECK(peek(value, limit, now + next, 0).remaining > d.remaining);
		CHECK(peek(value, limit, now + next - SL_MS_NS, 0).remaining <= d.remaining);
	}
}

/* A call of any operation. */
static void draw_holding(struct redis_world *world) {
	struct slr_call *call = &world->call;
	redis_world_draw(world);
	call->operation = (enum sl_operation)dice_below(&world->dice, SL_OP_LEASE + 1);
	if (call->operation == SL_OP_RESET && !dice_one_in(&world->dice, 4))
		call->operation = SL_OP_LEASE;
	call->id = dice_below(&world->dice, HOLDERS);
	call->asked.ttl_ns = (1 + dice_below(&world->dice, dice_one_in(&world->dice, 2) ? 50 : SLR_HOLD_MS_MAX)) * SL_MS_NS;
	call->spent = dice_cost(&world->dice, world->rules[0].quota);
	call->want = dice_cost(&world->dice, world->rules[0].quota);
	if (call->operation == SL_OP_LEASE) {
		call->asked.item_count = call->key_count = 1;
		call->items[0].observed = call->key_of[0] = 0;
	}
}

static bool changes_nothing(const struct slr_call *call) {
	return call->operation == SL_OP_PEEK ||
	       (!call->asked.merged.allowed &&
	        (call->operation == SL_OP_CHECK || call->operation == SL_OP_HOLD || call->operation == SL_OP_CONFIRM));
}

static void decide_holding(struct redis_world *world) {
	struct slr_bytes before[WORLD_KEYS], after;
	for (size_t k = 0; k < WORLD_KEYS; k++)
		before[k] = redis_bytes(world->values[k]);
	draw_holding(world);
	CHECK(redis_world_decide(world) == SLR_FINE);
	for (size_t k = 0; k < WORLD_KEYS; k++) {
		after = redis_bytes(world->values[k]);
		if (changes_nothing(&world->call))
			CHECK(after.len == before[k].len && memcmp(after.data, before[k].data, after.len) == 0);
		slr_bytes_free(&after);
		slr_bytes_free(&before[k]);
	}
}

static void test_waits_behind_holds_come_true(void **state) {
	uint64_t streams = dice_ops(DICE_MILLION) / 2500 + 1;
	(void)state;
	for (stream_now = 0; stream_now < streams; stream_now++) {
		static struct redis_world world;
		redis_world_begin(&world, stream_now + (UINT64_C(1) << 32));
		for (int i = 0; i < HOLDING_CALLS; i++) {
			size_t rule = dice_below(&world.dice, WORLD_RULES), key = dice_below(&world.dice, WORLD_KEYS);
			decide_holding(&world);
			if (world.rules[rule].quota != 0) {
				uint32_t cost = dice_cost(&world.dice, world.rules[rule].quota);
				sluice_ns now = world.latest_ms * SL_MS_NS;
				slr_value bare = without_plain_holds(world.values[key], &world.limits[rule], now);
				check_bound(world.values[key], bare, &world.limits[rule], now, cost);
				check_waits(bare, &world.limits[rule], now, cost);
				slr_value_free(bare);
			}
		}
		check_copies(&world);
		redis_world_end(&world);
	}
}

/* ---- edges, by name --------------------------------------------------------------------------------------------- */

static struct slr_call do_one(enum sl_operation operation, slr_value *value, const struct sluice_limit *limit,
                              uint64_t ms, uint32_t cost, uint64_t id) {
	struct slr_call call = redis_call(operation, *value, limit, NOW + ms * SL_MS_NS, cost);
	call.id = id;
	call.asked.id = sl_slice("id", id != 0 ? 2 : 0);
	call.asked.ttl_ns = UINT64_C(1000) * SL_MS_NS;
	call.want = cost;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	*value = call.keys[0].value;
	assert_true(slr_value_is_valid(*value));
	return call;
}

static void test_a_lease_that_ends_by_itself_is_charged_at_its_end(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 10/1m");
	slr_value value = 0;
	(void)state;
	assert_int_equal(do_one(SL_OP_LEASE, &value, &limit, 0, 4, 1).asked.granted, 4);
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 999, 1, 0).asked.merged.remaining, 6);
	assert_int_equal(do_one(SL_OP_CHECK, &value, &limit, 30000, 6, 0).asked.merged.remaining, 0);
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 60999, 1, 0).asked.merged.remaining, 0); /* 1000 + 60000 */
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 61000, 1, 0).asked.merged.remaining, 4);
	slr_value_free(value);
}

static void test_a_lease_is_charged_what_was_spent_of_it(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 10/1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	do_one(SL_OP_LEASE, &value, &limit, 0, 4, 1);
	call = redis_call(SL_OP_LEASE, value, &limit, NOW + 500 * (sluice_ns)SL_MS_NS, 0);
	call.id = 1;
	call.spent = 9; /* more than it holds: 4 are charged */
	assert_int_equal(slr_decide(&call), SLR_FINE);
	value = call.keys[0].value;
	assert_int_equal(call.asked.merged.remaining, 6);
	call = do_one(SL_OP_PEEK, &value, &limit, 60499, 1, 0);
	assert_int_equal(call.asked.merged.remaining, 6);
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 60500, 1, 0).asked.merged.remaining, 10);
	slr_value_free(value);
}

static void test_a_hold_fits_when_it_is_confirmed(void **state) {
	struct sluice_limit limit = limit_of("fixed-window 10/1m");
	slr_value value = 0;
	(void)state;
	assert_true(do_one(SL_OP_HOLD, &value, &limit, 0, 7, 9).asked.merged.allowed);
	assert_false(do_one(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.allowed);
	assert_int_equal(do_one(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.retry_after_ns, SL_MS_NS); /* not 999 */
	assert_int_equal(do_one(SL_OP_CHECK, &value, &limit, 1, 4, 0).asked.merged.bound, SLUICE_BOUND_HOLDS);
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 1, 11, 0).asked.merged.bound, SLUICE_BOUND_NONE);
	assert_true(do_one(SL_OP_CHECK, &value, &limit, 2, 3, 0).asked.merged.allowed);
	assert_true(do_one(SL_OP_CONFIRM, &value, &limit, 999, 7, 9).asked.merged.allowed);
	/* it is gone: decided as CHECK */
	assert_false(do_one(SL_OP_CONFIRM, &value, &limit, 999, 7, 9).asked.merged.allowed);
	assert_int_equal(do_one(SL_OP_RESET, &value, &limit, 999, 0, 0).asked.forgotten, 1);
	assert_int_equal(value, 0);
}

static void test_a_hold_leaves_nothing_behind(void **state) {
	struct sluice_limit limit = limit_of("sliding-buckets 10/1m precision 1s");
	slr_value value = 0;
	(void)state;
	do_one(SL_OP_HOLD, &value, &limit, 0, 7, 9);
	assert_int_equal(do_one(SL_OP_CANCEL, &value, &limit, 1000, 0, 9).asked.forgotten, 0); /* it has ended */
	assert_int_equal(do_one(SL_OP_HOLD, &value, &limit, 1000, 7, 9).asked.merged.remaining, 3);
	assert_int_equal(do_one(SL_OP_CANCEL, &value, &limit, 1001, 0, 9).asked.forgotten, 1);
	assert_int_equal(value, 0);
}

/* A front holds for several calls at once, and charges one after the other out of that. */
static void test_a_hold_is_spent_in_parts(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 10/1m");
	slr_value value = 0;
	struct slr_call call = redis_call(SL_OP_HOLD, 0, &limit, NOW, 12);
	(void)state;
	do_one(SL_OP_HOLD, &value, &limit, 0, 2, 5);
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
		assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, i, 1, 0).asked.merged.remaining, 0);
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
	assert_int_equal(do_one(SL_OP_CANCEL, &value, &limit, 5, 0, 9).asked.forgotten, 0);
	assert_int_equal(do_one(SL_OP_CANCEL, &value, &limit, 5, 0, 5).asked.forgotten, 1);
	slr_value_free(value);
}

static void test_holds_of_one_counter_are_bounded(void **state) {
	struct sluice_limit limit = limit_of("1000/1m");
	struct slr_bytes before, after;
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	for (uint64_t id = 0; id < SLR_HOLDS_MAX; id++)
		assert_true(do_one(SL_OP_HOLD, &value, &limit, id, 1, id).asked.merged.allowed);
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
	assert_true(do_one(SL_OP_HOLD, &value, &limit, 256, 1, 7).asked.merged.allowed); /* its own is replaced */
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, 256, 1, 0).asked.merged.remaining, 744);
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
	struct sluice_limit limit = limit_of("sliding-log 1M/1h");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	for (uint64_t id = 1; id <= SL_LEDGER_MAX; id++)
		assert_true(do_one(SL_OP_RESERVE, &value, &limit, 0, 1, id).asked.merged.allowed);
	call = redis_call(SL_OP_RESERVE, value, &limit, NOW + 300 * SL_MS_NS, 1);
	call.id = SL_LEDGER_MAX + 1;
	call.asked.ttl_ns = SL_MS_NS;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 0, SLUICE_BOUND_RESERVATIONS, 700); /* do_one() reserves for a second */
	call.items[0].observed = SLUICE_OBSERVED;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed && !call.each[0].allowed);
	assert_true(do_one(SL_OP_RESERVE, &value, &limit, 1000, 1, 1).asked.merged.allowed);
	slr_value_free(value);
}

static bool no_memory(void) {
	return true;
}

static void test_without_memory_what_is_there_goes_on(void **state) {
	struct sluice_limit window = limit_of("fixed-window 5/1h"), log = limit_of("sliding-log 1000/500ms"),
						slots = limit_of("concurrency 2 lease 1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	do_one(SL_OP_CHECK, &value, &window, 0, 1, 0);
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
	do_one(SL_OP_HOLD, &value, &log, 0, 7, 9);
	call = redis_call(SL_OP_CONFIRM, value, &log, NOW, 7);
	call.id = 9;
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_true(call.asked.merged.allowed);
	call.operation = SL_OP_REFUND;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.merged.remaining, 1000);
	value = call.keys[0].value;
	do_one(SL_OP_ACQUIRE, &value, &slots, 0, 1, 1);
	call = redis_call(SL_OP_RELEASE, value, &slots, NOW, 0);
	call.id = 1;
	call.is_full = no_memory;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.found, 1);
	slr_value_free(call.keys[0].value);
}

static void test_counters_of_one_key_are_bounded(void **state) {
	struct sluice_limit limit;
	struct slr_call call;
	slr_value value = 0;
	char text[32];
	(void)state;
	for (int i = 0; i < SLR_COUNTERS_MAX; i++) {
		snprintf(text, sizeof text, "5/%ds", i + 1);
		limit = limit_of(text);
		do_one(SL_OP_CHECK, &value, &limit, 0, 1, 0);
	}
	limit = limit_of("5/1h");
	call = redis_call(SL_OP_CHECK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, 1000);
	assert_int_equal(slr_value_count(value), SLR_COUNTERS_MAX);
	call.operation = SL_OP_LEASE;
	call.id = 1;
	call.want = 3;
	call.asked.ttl_ns = SL_MS_NS;
	assert_int_equal(slr_decide(&call), SLR_FINE);
	assert_int_equal(call.asked.granted, 0);
	assert_bound(&call, 0, SLUICE_BOUND_ROOM, 1000);
	call = redis_call(SL_OP_PEEK, value, &limit, NOW, 1);
	assert_int_equal(slr_decide(&call), SLR_FINE);
	slr_value_free(value);
}

/* 2047 fit, 2048 do not; an instant of whole ms fits in any era, one between them does not. */
static void test_what_is_packed_and_what_is_not(void **state) {
	struct sluice_limit limit = limit_of("4095/60s");
	slr_value value = 0;
	(void)state;
	do_one(SL_OP_CHECK, &value, &limit, 0, 2047, 0);
	assert_true(slr_value_is_packed(value));
	assert_int_equal(slr_value_bytes(value), 0);
	assert_int_equal(do_one(SL_OP_CHECK, &value, &limit, 0, 1, 0).asked.merged.remaining, 2047);
	assert_false(slr_value_is_packed(value));
	assert_int_equal(slr_value_bytes(value), 32);
	assert_int_equal(do_one(SL_OP_REFUND, &value, &limit, 0, 1, 0).asked.merged.remaining, 2048);
	assert_true(slr_value_is_packed(value));
	do_one(SL_OP_CHECK, &value, &limit, UINT64_C(1) << 33, 1, 0); /* two eras on: a window of its own */
	assert_true(slr_value_is_packed(value));
	assert_int_equal(do_one(SL_OP_PEEK, &value, &limit, UINT64_C(1) << 33, 1, 0).asked.merged.remaining, 4094);
	do_one(SL_OP_HOLD, &value, &limit, UINT64_C(1) << 33, 5, 1);
	assert_false(slr_value_is_packed(value));
	assert_int_equal(do_one(SL_OP_CANCEL, &value, &limit, UINT64_C(1) << 33, 0, 1).asked.forgotten, 1);
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
		limit = limit_of(text);
		do_one(SL_OP_CHECK, &values[i], &limit, 0, 2, 0);
		packed += slr_value_is_packed(values[i]);
	}
	assert_true(packed > 256 && packed <= 512);
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof text, "5/%dms", 1000 + i);
		limit = limit_of(text);
		assert_int_equal(do_one(SL_OP_PEEK, &values[i], &limit, 0, 1, 0).asked.merged.remaining, 3);
		slr_value_free(values[i]);
	}
	limit = limit_of("5/9s");
	slr_value value = 0;
	do_one(SL_OP_CHECK, &value, &limit, 0, 2, 0);
	assert_true(slr_value_is_packed(value)); /* what was given up is free again */
	slr_value_free(value);
}

static void test_expiry_is_told_in_wall_time(void **state) {
	struct sluice_limit limit = limit_of("fixed-window 10/1m");
	slr_value value = 0;
	struct slr_call call;
	(void)state;
	call = do_one(SL_OP_CHECK, &value, &limit, 1500, 1, 0);
	assert_int_equal(call.keys[0].expire_ms, redis_wall_ms() + 60000 - 1500 + 1);
	call = do_one(SL_OP_CHECK, &value, &limit, 2500, 1, 0);
	assert_true(call.keys[0].changed && call.keys[0].expire_ms == 0); /* that of its window, which it has */
	call = do_one(SL_OP_CHECK, &value, &limit, 2500, 100, 0);
	assert_false(call.keys[0].changed);
	call = do_one(SL_OP_CHECK, &value, &limit, 61000, 1, 0);
	assert_int_equal(call.keys[0].expire_ms, redis_wall_ms() + 59000 + 1);
	slr_value_free(value);
}

/* Nothing is charged to a quota of 0, so nothing is told to replicas, which would refuse it. */
static void test_of_no_quota_no_denial_is_counted(void **state) {
	static const char *const notations[] = {"fixed-window 0/1m", "sliding-log 0/1m", "token-bucket 0/1m",
	                                        "sliding-buckets 0/1m precision 1s"};
	(void)state;
	for (size_t i = 0; i < sizeof notations / sizeof *notations; i++) {
		struct sluice_limit limit = limit_of(notations[i]);
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
		cmocka_unit_test(test_of_no_quota_no_denial_is_counted),
		cmocka_unit_test(test_same_as_the_store),
		cmocka_unit_test(test_waits_behind_holds_come_true),
		cmocka_unit_test(test_a_lease_that_ends_by_itself_is_charged_at_its_end),
		cmocka_unit_test(test_a_lease_is_charged_what_was_spent_of_it),
		cmocka_unit_test(test_a_hold_fits_when_it_is_confirmed),
		cmocka_unit_test(test_a_hold_leaves_nothing_behind),
		cmocka_unit_test(test_a_hold_is_spent_in_parts),
		cmocka_unit_test(test_holds_of_one_counter_are_bounded),
		cmocka_unit_test(test_open_reservations_are_bounded),
		cmocka_unit_test(test_without_memory_what_is_there_goes_on),
		cmocka_unit_test(test_counters_of_one_key_are_bounded),
		cmocka_unit_test(test_what_is_packed_and_what_is_not),
		cmocka_unit_test(test_more_shapes_than_there_is_room_for),
		cmocka_unit_test(test_expiry_is_told_in_wall_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
