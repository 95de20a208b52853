/* The module's decisions without a Redis: against the embedded store where that knows what is asked, and against time
 * itself where it does not, which is with holds and leases.
 *
 *  same      random calls of several limits and keys, some of which have quotas of their own for a while: every figure
 *            as the store's; and a replica that is sent the effects, and a value that was saved and loaded, answer
 *            like the value itself
 *  waits     with holds and leases among the calls: what a peek at a later instant says is what a decision promised for
 *            it, to the millisecond; a denied call changes no byte
 *
 * Edges, by name, are in redis_edges_test.c. The definition of holds, as a twin that counts them from scratch, meets
 * the module in tests/e2e/test_module_random.py. */
#include "tests/unit/redis_world.h"

#include "base/math.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = 60, HOLDING_CALLS = 40, STREAMS_PER_STORE = 500, HOLDERS = 3 };

static uint64_t stream_now; /* for the message of a failure */

#define CHECK(condition)                                                                                     \
	do {                                                                                                     \
		if (!(condition))                                                                                    \
			fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 ": %s", dice_seed(), stream_now, #condition); \
	} while (0)

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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_the_store),
		cmocka_unit_test(test_waits_behind_holds_come_true),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
