/* A store of 1 MiB that is asked for more than it holds: who is in stays in, exactly as it was; who finds no room is
 * told so and changes nothing; and what has expired makes room again, generation after generation. */
#include "base/bytes.h"
#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { KEYS_MAX = 60000, HOUR_S = 3600 };

static const uint64_t second_ns = 1000000000, start_ns = (uint64_t)1767225600 * 1000000000;

struct world {
	struct sluice_store *store;
	struct sluice_limit limit;
	bool in[KEYS_MAX]; /* keys that found room */
};

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(text), NULL) != SLUICE_OK)
		fail_msg("%s", text);
	return limit;
}

static int open_world(void **state) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct world *world = calloc(1, sizeof *world);
	*state = world;
	return world != NULL && sluice_store_open(&world->store, &options, NULL) == SLUICE_OK ? 0 : -1;
}

static int close_world(void **state) {
	struct world *world = *state;
	sluice_store_close(world->store);
	free(world);
	return 0;
}

static struct sluice_call ask(struct world *world, sluice_operation operation, uint32_t generation, uint32_t key,
                              uint64_t at_s, uint32_t cost) {
	char name[32];
	struct sluice_item item = {&world->limit, {name, 0}, false};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .now = start_ns + at_s * second_ns};
	item.key.len = (size_t)snprintf(name, sizeof name, "%" PRIu32 ":%" PRIu32, generation, key);
	if (sluice_decide(world->store, &call) != call.err)
		fail_msg("the returned error is another than the call's");
	call.items = NULL; /* the item was ours */
	return call;
}

/* Charges one unit to each key of a generation once; returns how many found room. */
static uint32_t fill(struct world *world, uint32_t generation, uint32_t keys, uint64_t at_s) {
	uint32_t count = 0;
	for (uint32_t k = 0; k < keys; k++) {
		struct sluice_call call = ask(world, SLUICE_CHARGE, generation, k, at_s, 1);
		assert_true(call.err == SLUICE_OK || call.err == SLUICE_E_FULL);
		world->in[k] = call.err == SLUICE_OK;
		count += world->in[k];
		if (world->in[k])
			assert_true(call.merged.allowed);
	}
	assert_null(sl_store_verify(world->store));
	return count;
}

static void expect_all_remaining(struct world *world, uint32_t generation, uint32_t keys, uint64_t at_s,
                                 uint32_t remaining) {
	for (uint32_t k = 0; k < keys; k++)
		if (world->in[k])
			assert_int_equal(ask(world, SLUICE_PEEK, generation, k, at_s, 1).merged.remaining, remaining);
}

static bool same_arena(const struct world *world, const void *copy) {
	size_t bytes;
	const void *arena = sl_store_arena(world->store, &bytes);
	return memcmp(arena, copy, bytes) == 0;
}

static void *copy_of_arena(const struct world *world) {
	size_t bytes;
	const void *arena = sl_store_arena(world->store, &bytes);
	void *copy = malloc(bytes);
	assert_non_null(copy);
	return memcpy(copy, arena, bytes);
}

static uint32_t first_out(const struct world *world) {
	for (uint32_t k = 0; k < KEYS_MAX; k++)
		if (!world->in[k])
			return k;
	fail_msg("the store holds %d keys", KEYS_MAX);
	return 0;
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static void who_is_in_stays_in(void **state) {
	struct world *world = *state;
	world->limit = limit_of("fixed-window 3/1d");
	assert_in_range(fill(world, 0, KEYS_MAX, 0), 8000, KEYS_MAX - 1);
	expect_all_remaining(world, 0, KEYS_MAX, 0, 2);
	for (uint32_t k = 0; k < KEYS_MAX; k++) { /* and goes on being counted, to its limit and no further */
		if (!world->in[k])
			continue;
		assert_true(ask(world, SLUICE_CHARGE, 0, k, 1, 2).merged.allowed);
		assert_false(ask(world, SLUICE_CHARGE, 0, k, 2, 1).merged.allowed);
	}
	expect_all_remaining(world, 0, KEYS_MAX, 3, 0);
	assert_null(sl_store_verify(world->store));
}

static void who_finds_no_room_changes_nothing(void **state) {
	struct world *world = *state;
	uint32_t out;
	void *before;
	world->limit = limit_of("token-bucket 3/1d");
	fill(world, 0, KEYS_MAX, 0);
	out = first_out(world);
	before = copy_of_arena(world);
	assert_int_equal(ask(world, SLUICE_CHARGE, 0, out, 5, 1).err, SLUICE_E_FULL);
	assert_true(same_arena(world, before));
	/* What creates nothing needs no room: it is answered. */
	assert_int_equal(ask(world, SLUICE_PEEK, 0, out, 5, 1).merged.remaining, 3);
	assert_true(ask(world, SLUICE_CHARGE, 0, out, 5, 0).merged.allowed);
	assert_true(ask(world, SLUICE_CHARGE, 0, out, 5, 4).merged.retry_after_ns == SLUICE_NEVER);
	assert_int_equal(ask(world, SLUICE_REFUND, 0, out, 5, 1).err, SLUICE_OK);
	assert_int_equal(ask(world, SLUICE_RESET, 0, out, 5, 1).forgotten, 0);
	assert_true(same_arena(world, before));
	free(before);
}

/* All or nothing holds for room as well: a limit that has its counter is not charged when another finds no room. */
static void a_request_without_room_charges_none_of_its_limits(void **state) {
	struct world *world = *state;
	char in[32], out[32];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_limit log;
	void *before;
	world->limit = limit_of("leaky-bucket 3/1d");
	log = limit_of("sliding-log 3/1d");
	fill(world, 0, KEYS_MAX, 0);
	before = copy_of_arena(world);
	snprintf(out, sizeof out, "0:%" PRIu32, first_out(world));
	for (uint32_t at = 0; at < SLUICE_ITEMS_MAX; at++) {
		struct sluice_call call = {.items = items, .item_count = SLUICE_ITEMS_MAX, .cost = 1, .now = start_ns};
		uint32_t k = at;
		while (!world->in[k])
			k++;
		snprintf(in, sizeof in, "0:%" PRIu32, k);
		for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
			items[i] = (struct sluice_item){&world->limit, sl_str(i == at ? out : in), false};
		if (at % 2 == 1)
			items[(at + 5) % SLUICE_ITEMS_MAX] = (struct sluice_item){&log, sl_str(out), false};
		assert_int_equal(sluice_decide(world->store, &call), SLUICE_E_FULL);
		assert_true(same_arena(world, before));
	}
	free(before);
}

static void expired_counters_make_room_and_others_do_not(void **state) {
	struct world *world = *state;
	uint32_t first, last;
	world->limit = limit_of("sliding-window 3/1h");
	first = fill(world, 0, KEYS_MAX, 0);
	/* One second before the end of the window after theirs they still count: a flood gets nothing of it. */
	for (uint32_t k = 0; k < 2000; k++)
		ask(world, SLUICE_CHARGE, 1, k, 2 * HOUR_S - 1, 1);
	expect_all_remaining(world, 0, KEYS_MAX, 2 * HOUR_S - 1, 2);
	for (uint32_t generation = 2; generation < 12; generation++) {
		last = fill(world, generation, KEYS_MAX, generation * 4 * HOUR_S);
		assert_in_range(last, first - first / 20, first + first / 20);
		expect_all_remaining(world, generation, KEYS_MAX, generation * 4 * HOUR_S, 2);
	}
}

static void forgotten_counters_make_room(void **state) {
	struct world *world = *state;
	uint32_t in, forgotten = 0;
	world->limit = limit_of("sliding-window 3/1d");
	in = fill(world, 0, KEYS_MAX, 0);
	for (uint32_t k = 0; k < KEYS_MAX; k++)
		forgotten += ask(world, SLUICE_RESET, 0, k, 1, 0).forgotten;
	assert_int_equal(forgotten, in);
	assert_null(sl_store_verify(world->store));
	assert_in_range(fill(world, 1, KEYS_MAX, 2), in - in / 20, in + in / 20);
}

/* ---- logs and sub-buckets -------------------------------------------------------------------------------------- */

/* One log grows until there is no room: it keeps all that it holds, and when that expires it goes on. */
static void a_log_that_cannot_grow_loses_nothing(void **state) {
	struct world *world = *state;
	uint32_t charges = 0;
	void *before;
	world->limit = limit_of("sliding-log 4294967295/1d");
	while (ask(world, SLUICE_CHARGE, 0, 0, charges / 20, 1000).err == SLUICE_OK)
		charges++;
	assert_in_range(charges, 3000, 400000);
	for (uint64_t at_s = charges / 20 + 1; at_s < 86400; at_s += 8000) {
		before = copy_of_arena(world);
		assert_int_equal(ask(world, SLUICE_CHARGE, 0, 0, at_s, 1).err, SLUICE_E_FULL);
		assert_int_equal(ask(world, SLUICE_PEEK, 0, 0, at_s, 1).merged.remaining, UINT32_MAX - charges * 1000);
		assert_true(same_arena(world, before));
		free(before);
	}
	assert_null(sl_store_verify(world->store));
	/* The first twenty, of one instant, are gone after a day: one more finds room. */
	assert_int_equal(ask(world, SLUICE_CHARGE, 0, 0, 86400 + 60, 1).err, SLUICE_OK);
	assert_true(ask(world, SLUICE_CHARGE, 0, 0, 3 * 86400, UINT32_MAX).merged.allowed);
	assert_null(sl_store_verify(world->store));
}

/* A key of every algorithm among a flood of keys of all others: what it holds is what it was charged. */
static void a_flood_of_keys_resets_nobody(void **state) {
	static const char *const notations[] = {"fixed-window 9/1d",   "sliding-window 9/1d",
	                                        "sliding-log 9/1d",    "sliding-buckets 9/1d precision 1h",
	                                        "token-bucket 9/365d", "leaky-bucket 9/365d queue 8"};
	struct world *world = *state;
	for (uint32_t i = 0; i < 6; i++) {
		world->limit = limit_of(notations[i]);
		assert_true(ask(world, SLUICE_CHARGE, 999, 0, 0, 9).merged.allowed);
	}
	for (uint32_t i = 0; i < 6; i++) {
		world->limit = limit_of(notations[i]);
		for (uint32_t k = 0; k < KEYS_MAX / 3; k++)
			ask(world, SLUICE_CHARGE, i, k, 1, 1);
	}
	for (uint32_t i = 0; i < 6; i++) {
		world->limit = limit_of(notations[i]);
		assert_int_equal(ask(world, SLUICE_CHARGE, 999, 0, 2, 1).err, SLUICE_OK);
		assert_false(ask(world, SLUICE_CHARGE, 999, 0, 2, 1).merged.allowed);
	}
	assert_null(sl_store_verify(world->store));
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(who_is_in_stays_in),
		IN_A_WORLD(who_finds_no_room_changes_nothing),
		IN_A_WORLD(a_request_without_room_charges_none_of_its_limits),
		IN_A_WORLD(expired_counters_make_room_and_others_do_not),
		IN_A_WORLD(forgotten_counters_make_room),
		IN_A_WORLD(a_log_that_cannot_grow_loses_nothing),
		IN_A_WORLD(a_flood_of_keys_resets_nobody),
	};
	return cmocka_run_group_tests_name("a full store", tests, NULL, NULL);
}
