/* A store of 1 MiB that is asked for more than it holds: what has expired goes first, then the least used; nobody gets
 * his quota back for it, and strangers keep nearly all of theirs. */
#include "algo/rule.h"
#include "base/bytes.h"
#include "store/sketch.h"
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
	struct sluice_item item = {.limit = &world->limit, .key = {name, 0}};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .now = start_ns + at_s * second_ns};
	item.key.len = (size_t)snprintf(name, sizeof name, "%" PRIu32 ":%" PRIu32, generation, key);
	if (sluice_decide(world->store, &call) != call.err)
		fail_msg("the returned error is another than the call's");
	call.items = NULL; /* the item was ours */
	return call;
}

/* Charges one unit to each key of a generation once; returns how many counters in use had to go. */
static uint64_t fill(struct world *world, uint32_t generation, uint32_t keys, uint64_t at_s) {
	uint64_t evicted = world->store->header->evicted;
	for (uint32_t k = 0; k < keys; k++)
		assert_int_equal(ask(world, SLUICE_CHARGE, generation, k, at_s, 1).err, SLUICE_OK);
	assert_null(sl_store_verify(world->store));
	return world->store->header->evicted - evicted;
}

static void expect_all_remaining(struct world *world, uint32_t generation, uint32_t keys, uint64_t at_s,
                                 uint32_t remaining) {
	for (uint32_t k = 0; k < keys; k++)
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

/* Half of the slots of a store of 1 MiB, all of which find room. */
enum { KEYS_FIT = 9000 };

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static void below_capacity_every_answer_is_exact(void **state) {
	struct world *world = *state;
	world->limit = limit_of("fixed-window 3/1d");
	assert_int_equal(fill(world, 0, KEYS_FIT, 0), 0);
	expect_all_remaining(world, 0, KEYS_FIT, 0, 2);
	for (uint32_t k = 0; k < KEYS_FIT; k++) { /* and goes on being counted, to its limit and no further */
		assert_true(ask(world, SLUICE_CHARGE, 0, k, 1, 2).merged.allowed);
		assert_false(ask(world, SLUICE_CHARGE, 0, k, 2, 1).merged.allowed);
	}
	expect_all_remaining(world, 0, KEYS_FIT, 3, 0);
	assert_int_equal(world->store->header->evicted, 0);
}

static void peeks_and_denials_write_nothing_in_a_full_store(void **state) {
	struct world *world = *state;
	void *before;
	world->limit = limit_of("token-bucket 30/1d");
	assert_in_range(fill(world, 0, KEYS_MAX, 0), KEYS_MAX / 4, KEYS_MAX);
	before = copy_of_arena(world);
	for (uint32_t k = 0; k < KEYS_MAX; k += 7) {
		assert_in_range(ask(world, SLUICE_PEEK, 0, k, 5, 1).merged.remaining, 27, 29);
		assert_true(ask(world, SLUICE_CHARGE, 0, k, 5, 0).merged.allowed);
		assert_true(ask(world, SLUICE_CHARGE, 0, k, 5, 31).merged.retry_after_ns == SLUICE_NEVER);
		assert_false(ask(world, SLUICE_CHARGE, 0, k, 5, 30).merged.allowed);
	}
	assert_true(same_arena(world, before));
	free(before);
}

static void expired_counters_make_room_and_nobody_is_evicted(void **state) {
	struct world *world = *state;
	world->limit = limit_of("sliding-window 3/1h");
	for (uint32_t generation = 0; generation < 12; generation++) {
		assert_int_equal(fill(world, generation, KEYS_FIT, generation * 4 * HOUR_S), 0);
		expect_all_remaining(world, generation, KEYS_FIT, generation * 4 * HOUR_S, 2);
	}
}

static void forgotten_counters_make_room(void **state) {
	struct world *world = *state;
	uint32_t forgotten = 0;
	world->limit = limit_of("sliding-window 3/1d");
	assert_int_equal(fill(world, 0, KEYS_FIT, 0), 0);
	for (uint32_t k = 0; k < KEYS_FIT; k++)
		forgotten += ask(world, SLUICE_RESET, 0, k, 1, 0).forgotten;
	assert_int_equal(forgotten, KEYS_FIT);
	assert_null(sl_store_verify(world->store));
	assert_int_equal(fill(world, 1, KEYS_FIT, 2), 0);
}

static const char *const algorithms[] = {"fixed-window 20/1d", "sliding-window 20/1d",
                                         "sliding-log 20/1d",  "sliding-buckets 20/1d precision 1h",
                                         "token-bucket 20/1d", "leaky-bucket 20/1d queue 19"};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms, DENIED = 999, STRANGERS = 998 };

/* A key of every algorithm is denied, in turn a flood of keys of each algorithm passes: it stays denied, asking or
 * not. */
static void a_flood_frees_nobody(void **state) {
	struct world *world = *state;
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		world->limit = limit_of(algorithms[i]);
		for (uint32_t k = 0; k < 20; k++)
			assert_true(ask(world, SLUICE_CHARGE, DENIED, k, 0, 20).merged.allowed);
	}
	for (uint32_t flood = 0; flood < ALGORITHMS; flood++) {
		world->limit = limit_of(algorithms[flood]);
		fill(world, flood, KEYS_MAX, 1 + flood);
		for (uint32_t i = 0; i < ALGORITHMS; i++) {
			world->limit = limit_of(algorithms[i]);
			for (uint32_t k = 0; k < 20; k += 1 + flood % 2)
				assert_false(ask(world, SLUICE_CHARGE, DENIED, k, 2 + flood, 1).merged.allowed);
		}
	}
	assert_null(sl_store_verify(world->store));
}

/* Keys that all are denied are more than the store holds: still none of them gets anything back. */
static void more_denied_keys_than_slots_stay_denied(void **state) {
	struct world *world = *state;
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		uint32_t admitted = 0, keys = KEYS_MAX / 2;
		world->limit = limit_of(algorithms[i]);
		for (uint32_t k = 0; k < keys; k++)
			admitted += ask(world, SLUICE_CHARGE, i, k, i * 600, 20).merged.allowed;
		for (uint32_t k = 0; k < keys; k++)
			assert_false(ask(world, SLUICE_CHARGE, i, k, i * 600 + 300, 20).merged.allowed);
		print_message("%s: %u of %u strangers were taken for denied ones\n", algorithms[i], keys - admitted, keys);
	}
}

static void strangers_keep_nine_tenths(void **state) {
	struct world *world = *state;
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		world->limit = limit_of(algorithms[i]);
		for (uint32_t round = 0; round < 3; round++) {
			fill(world, i * 3 + round, KEYS_MAX, i * 10 + round);
			for (uint32_t k = 0; k < 1000; k++)
				assert_in_range(ask(world, SLUICE_PEEK, STRANGERS, i * 1000 + k, i * 10 + 5, 1).merged.remaining, 18,
				                20);
		}
	}
	assert_true(world->store->header->sketch_starts > 0);
}

/* The table of docs/limits.md: what new keys start with behind a flood of 400,000 in 4 MiB: never the whole. */
static void what_a_flood_costs_strangers(void **state) {
	static const struct {
		uint32_t quota, spent, left;
	} rows[] = {{5, 1, 4}, {50, 1, 49}, {1000, 1, 969}, {5, 2, 1}, {50, 2, 47}, {5, 5, 0}, {50, 50, 0}};
	enum { FLOOD = 400000, NEW = 900 };
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_store_options options = {.memory_bytes = 4 << 20};
		struct world world;
		char text[32];
		uint32_t exactly = 0;
		assert_int_equal(sluice_store_open(&world.store, &options, NULL), SLUICE_OK);
		snprintf(text, sizeof text, "sliding-window %" PRIu32 "/1h", rows[i].quota);
		world.limit = limit_of(text);
		for (uint32_t k = 0; k < FLOOD; k++)
			assert_int_equal(ask(&world, SLUICE_CHARGE, 0, k, 0, rows[i].spent).err, SLUICE_OK);
		for (uint32_t k = 0; k < NEW; k++) {
			struct sluice_call call = ask(&world, SLUICE_PEEK, STRANGERS, k, 1, 1);
			assert_int_equal(call.merged.bound, SLUICE_BOUND_NONE); /* nobody is denied for room */
			assert_in_range(call.merged.remaining, rows[i].left, rows[i].quota - (rows[i].left != 0));
			exactly += call.merged.remaining == rows[i].left;
		}
		assert_in_range(exactly, NEW - NEW / 50, NEW);
		sluice_store_close(world.store);
	}
}

/* After the window nothing of the flood is left, in slots or sketch. */
static void a_flood_is_over_when_its_window_is(void **state) {
	struct world *world = *state;
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		world->limit = limit_of(algorithms[i]);
		fill(world, i, KEYS_MAX, i * 10 * 24 * HOUR_S);
		expect_all_remaining(world, i, KEYS_MAX, (i * 10 + 3) * 24 * HOUR_S, 20);
	}
}

static void reset_forgets_what_the_sketch_knows(void **state) {
	struct world *world = *state;
	world->limit = limit_of("sliding-window 3/1d");
	for (uint32_t k = 0; k < KEYS_MAX; k++)
		ask(world, SLUICE_CHARGE, 0, k, 0, 3);
	for (uint32_t k = 0; k < 100; k++) {
		assert_false(ask(world, SLUICE_PEEK, 0, k, 1, 1).merged.allowed);
		assert_int_equal(ask(world, SLUICE_RESET, 0, k, 1, 0).forgotten, 1);
		assert_int_equal(ask(world, SLUICE_PEEK, 0, k, 1, 1).merged.remaining, 3);
		assert_true(ask(world, SLUICE_CHARGE, 0, k, 1, 3).merged.allowed);
		assert_false(ask(world, SLUICE_CHARGE, 0, k, 1, 1).merged.allowed);
	}
}

/* ---- several limits in one call --------------------------------------------------------------------------------- */

enum { TWO = 2 };

/* One operation on two keys of the world's limit, all or nothing. */
static struct sluice_call ask_two(struct world *world, sluice_operation operation, const char *first,
                                  const char *second, uint64_t at_s) {
	struct sluice_item items[TWO] = {{.limit = &world->limit, .key = sl_str(first)},
	                                 {.limit = &world->limit, .key = sl_str(second)}};
	struct sluice_call call = {
		.items = items, .item_count = TWO, .cost = 1, .operation = operation, .now = start_ns + at_s * second_ns};
	(void)!sluice_decide(world->store, &call);
	call.items = NULL;
	return call;
}

static struct sl_place place_of(const struct world *world, const char *key) {
	return sl_place_of(world->store, &world->limit.derived[SL_IDENT_KIND],
	                   world->limit.derived[SL_IDENT_NAME] == 0 ? 1 : 2, sl_str(key), false);
}

/* The next key, from *k on, that lives in a page; in a home of it, or in any. */
static void find_key(const struct world *world, const struct sl_place *page_of, bool same_home, uint32_t *k,
                     char key[32]) {
	struct sl_place place;
	do {
		snprintf(key, 32, "k%" PRIu32, ++*k);
		place = place_of(world, key);
	} while (sl_page_of(place.home) != sl_page_of(page_of->home) || (same_home && place.home != page_of->home));
}

/* The next key, from *k on, that lives in another page than that. */
static void find_key_elsewhere(const struct world *world, const struct sl_page *page, uint32_t *k, char key[32]) {
	do
		snprintf(key, 32, "k%" PRIu32, ++*k);
	while (sl_page_of(place_of(world, key).home) == page);
}

/* The limit denies for want of room, and says until when. */
static void assert_no_room(struct sluice_call call, int index) {
	assert_int_equal(call.err, SLUICE_OK);
	assert_false(call.merged.allowed);
	assert_int_equal(call.merged.bound, SLUICE_BOUND_ROOM);
	assert_int_equal(call.merged.index, index);
	assert_int_equal(call.merged.remaining, 0);
	assert_in_range(call.merged.retry_after_ns, 1, 86400 * second_ns);
	assert_int_equal(call.granted, 0);
}

/* Where a page is full of slots that others have just claimed, nothing can be had: and what the call did have, it
 * keeps. */
static void a_claim_that_fails_gives_back_what_it_claimed_and_no_more(void **state) {
	struct world *world = *state;
	char has[32], elsewhere[4][32];
	struct sl_place full;
	struct sl_page *page, *before = aligned_alloc(SL_PAGE_BYTES, sizeof *before);
	uint32_t k = 0;
	assert_non_null(before);
	world->limit = limit_of("fixed-window 3/1d");
	full = place_of(world, "none");
	page = sl_page_of(full.home);
	find_key_elsewhere(world, page, &k, has);
	for (int i = 0; i < 4; i++)
		find_key_elsewhere(world, page, &k, elsewhere[i]);
	assert_int_equal(ask_two(world, SLUICE_CHARGE, elsewhere[0], has, 0).err, SLUICE_OK);
	memcpy(before, page, sizeof *page);
	for (unsigned i = 0; i < SL_PAGE_SLOTS; i++)
		page->buckets[i / SL_BUCKET_SLOTS].slots[i % SL_BUCKET_SLOTS].tag =
			(uint64_t)(i + 1) << SL_TAG_PRINT_SHIFT | SL_LIFE_FRESH;
	assert_int_equal(ask_two(world, SLUICE_CHARGE, elsewhere[1], elsewhere[2], 1).err, SLUICE_OK); /* two are claimed */
	assert_no_room(ask_two(world, SLUICE_CHARGE, "none", has, 1), 0);
	assert_no_room(ask_two(world, SLUICE_CHARGE, elsewhere[3], "none", 1), 1);
	memcpy(page, before, sizeof *page);
	free(before);
	assert_int_equal(ask_two(world, SLUICE_PEEK, has, has, 1).merged.remaining, 2);
	assert_int_equal(ask_two(world, SLUICE_PEEK, elsewhere[3], "none", 1).merged.remaining, 3);
	assert_null(sl_store_verify(world->store));
}

/* To hide one key from the sketch another one's slot may have to go, of the very call that resets both. */
static void resetting_two_keys_of_a_full_page_forgets_both(void **state) {
	struct world *world = *state;
	char first[32], second[32], other[32];
	uint32_t k = 0, used = 0;
	struct sl_place place;
	struct sl_page *page;
	world->limit = limit_of("fixed-window 30/1d");
	place = place_of(world, "any");
	page = sl_page_of(place.home);
	find_key(world, &place, true, &k, first);
	find_key(world, &place, true, &k, second);
	place = place_of(world, first);
	assert_int_equal(ask_two(world, SLUICE_CHARGE, second, second, 1).err, SLUICE_OK); /* the oldest */
	while (used < SL_PAGE_SLOTS) {
		find_key(world, &place, false, &k, other);
		assert_int_equal(ask_two(world, SLUICE_CHARGE, other, other, 10).err, SLUICE_OK);
		for (unsigned i = used = 0; i < SL_PAGE_SLOTS; i++)
			used += page->buckets[i / SL_BUCKET_SLOTS].slots[i % SL_BUCKET_SLOTS].tag != 0;
	}
	assert_int_equal(world->store->header->evicted, 0);
	sl_sketch_note(world->store, (uint64_t)(page - world->store->pages),
	               place.tag | SL_USE_ALL << SL_TAG_USE_SHIFT | sl_life_code(86400 * second_ns), start_ns);
	assert_false(ask_two(world, SLUICE_PEEK, first, first, 11).merged.allowed);
	assert_int_equal(ask_two(world, SLUICE_RESET, first, second, 11).forgotten, 2);
	assert_int_equal(ask_two(world, SLUICE_PEEK, first, first, 11).merged.remaining, 30);
	assert_null(sl_store_verify(world->store));
}

/* ---- logs and sub-buckets -------------------------------------------------------------------------------------- */

/* One log grows until there is no room: it keeps all that it holds, and when that expires it goes on. All or nothing
 * holds for room as well: a limit that has its counter is not charged when another finds no room. */
static void a_log_that_cannot_grow_loses_nothing(void **state) {
	struct world *world = *state;
	struct sluice_limit other = limit_of("fixed-window 9/1d");
	uint32_t charges = 0;
	void *before;
	world->limit = limit_of("sliding-log 4294967295/1d");
	while (ask(world, SLUICE_CHARGE, 0, 0, charges / 20, 1000).merged.allowed)
		charges++;
	assert_in_range(charges, 3000, 800000);
	for (uint64_t at_s = charges / 20 + 1; at_s < 86400; at_s += 8000) {
		struct sluice_item items[] = {{.limit = &other, .key = sl_str("0:1")},
		                              {.limit = &world->limit, .key = sl_str("0:0")}};
		struct sluice_call both = {.items = items, .item_count = 2, .cost = 1, .now = start_ns + at_s * second_ns};
		assert_no_room(ask(world, SLUICE_CHARGE, 0, 0, at_s, 1), 0);
		before = copy_of_arena(world);
		assert_no_room(ask(world, SLUICE_PEEK, 0, 0, at_s, 1), 0);
		/* what it holds is told to who asks for nothing */
		assert_int_equal(ask(world, SLUICE_PEEK, 0, 0, at_s, 0).merged.remaining, UINT32_MAX - charges * 1000);
		assert_true(same_arena(world, before));
		free(before);
		assert_int_equal(sluice_decide(world->store, &both), SLUICE_OK);
		assert_no_room(both, 1);
		both.operation = SLUICE_PEEK;
		both.item_count = 1;
		assert_int_equal(sluice_decide(world->store, &both), SLUICE_OK);
		assert_int_equal(both.merged.remaining, 9);
	}
	assert_null(sl_store_verify(world->store));
	/* The first twenty, of one instant, are gone after a day: one more finds room. */
	assert_int_equal(ask(world, SLUICE_CHARGE, 0, 0, 86400 + 60, 1).err, SLUICE_OK);
	assert_true(ask(world, SLUICE_CHARGE, 0, 0, 3 * 86400, UINT32_MAX).merged.allowed);
	assert_null(sl_store_verify(world->store));
}

/* Expired logs that nobody visits give their blocks to those who need some, and nobody else has to go. */
static void blocks_of_expired_counters_come_back(void **state) {
	enum { LOGS = 900 };
	struct world *world = *state;
	world->limit = limit_of("sliding-log 1000/1h");
	for (uint32_t generation = 0; generation < 10; generation++)
		for (uint32_t i = 0; i < 80; i++)
			for (uint32_t k = 0; k < LOGS; k++)
				assert_true(ask(world, SLUICE_CHARGE, generation, k, generation * 3 * HOUR_S + i, 1).merged.allowed);
	assert_int_equal(world->store->header->evicted, 0);
	assert_null(sl_store_verify(world->store));
}

/* How many of every other key, from `first` on, have no counter any more. */
static uint32_t gone(struct world *world, uint32_t first, uint32_t keys, uint64_t at_s) {
	uint32_t count = 0;
	for (uint32_t k = first; k < keys; k += 2) {
		char name[32];
		struct sluice_inspection seen;
		struct sluice_item item = {.limit = &world->limit, .key = {name, 0}};
		item.key.len = (size_t)snprintf(name, sizeof name, "0:%" PRIu32, k);
		assert_int_equal(sluice_inspect(world->store, &item, 1, start_ns + at_s * second_ns, &seen), SLUICE_OK);
		count += seen.last_ns == 0;
	}
	return count;
}

/* Logs of which every other has used most of its quota: those go last when strangers need their room. A search looks at
 * a few only, so some go all the same: at most one in ten. */
static void the_least_used_give_their_room_first(void **state) {
	struct world *world = *state;
	uint32_t keys = 0, little, much;
	world->limit = limit_of("sliding-log 10/1h");
	while (world->store->header->evicted == 0 && keys < KEYS_MAX) {
		for (uint32_t times = keys % 2 == 0 ? 8 : 1; times != 0; times--)
			assert_true(ask(world, SLUICE_CHARGE, 0, keys, 0, 1).merged.allowed);
		keys++;
	}
	assert_in_range(keys, 1000, KEYS_MAX - 1);
	for (uint32_t k = 0; k < keys / 4; k++)
		assert_int_equal(ask(world, SLUICE_CHARGE, 1, k, 1, 1).err, SLUICE_OK);
	much = gone(world, 0, keys, 2);
	little = gone(world, 1, keys, 2);
	assert_in_range(little, keys / 10, keys);
	assert_true(much * 10 <= little);
	assert_null(sl_store_verify(world->store));
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(below_capacity_every_answer_is_exact),
		IN_A_WORLD(peeks_and_denials_write_nothing_in_a_full_store),
		IN_A_WORLD(expired_counters_make_room_and_nobody_is_evicted),
		IN_A_WORLD(forgotten_counters_make_room),
		IN_A_WORLD(a_flood_frees_nobody),
		IN_A_WORLD(more_denied_keys_than_slots_stay_denied),
		IN_A_WORLD(strangers_keep_nine_tenths),
		cmocka_unit_test(what_a_flood_costs_strangers),
		IN_A_WORLD(a_flood_is_over_when_its_window_is),
		IN_A_WORLD(reset_forgets_what_the_sketch_knows),
		IN_A_WORLD(a_claim_that_fails_gives_back_what_it_claimed_and_no_more),
		IN_A_WORLD(resetting_two_keys_of_a_full_page_forgets_both),
		IN_A_WORLD(a_log_that_cannot_grow_loses_nothing),
		IN_A_WORLD(blocks_of_expired_counters_come_back),
		IN_A_WORLD(the_least_used_give_their_room_first),
	};
	return cmocka_run_group_tests_name("a full store", tests, NULL, NULL);
}
