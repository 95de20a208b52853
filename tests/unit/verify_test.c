/* What verifying a store finds in its slots, each kind of damage by itself and by the words that tell it (of blocks it
 * is blocks_test.c); what walks of it say; and which entries another store does not take in. */
#include "store/blocks.h"
#include "store/scan.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
	struct sluice_store store;
	struct sluice_limit plain, log;
	struct sl_slot *slots[3]; /* of a counter, of a log, of a log beside it */
};

static struct sl_slot *charged(struct world *w, const struct sluice_limit *limit, const char *key) {
	struct sl_place place = arena_place(&w->store, limit, key);
	struct sl_slot *slot;
	assert_int_equal(arena_call(&w->store, SLUICE_CHARGE, limit, key, 1, ARENA_START_NS, NULL), SLUICE_OK);
	slot = sl_slot_find(&place);
	assert_non_null(slot);
	return slot;
}

static int open_world(void **state) {
	struct world *w = calloc(1, sizeof *w);
	void *memory = arena_map();
	arena_format(memory, 1);
	arena_attach(&w->store, memory, ARENA_SURVIVOR);
	w->plain = arena_limit("sliding-window 9/1m");
	w->log = arena_limit("sliding-log 9/1m");
	w->slots[0] = charged(w, &w->plain, "a");
	w->slots[1] = charged(w, &w->log, "b");
	w->slots[2] = charged(w, &w->log, "c");
	assert_null(sl_store_verify(&w->store));
	*state = w;
	return 0;
}

static int close_world(void **state) {
	free(*state);
	return 0;
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

static uint64_t *state_of(struct sl_slot *slot) {
	struct sl_bucket *bucket = sl_slot_bucket(slot);
	return bucket->states[slot - bucket->slots];
}

static void lose_fingerprint(struct world *w) {
	w->slots[0]->tag &= ((uint64_t)1 << SL_TAG_PRINT_SHIFT) - 1;
}

static void claim_and_leave(struct world *w) {
	w->slots[0]->tag |= SL_LIFE_FRESH;
}

static void live_for_no_time_that_there_is(struct world *w) {
	w->slots[0]->tag = (w->slots[0]->tag | SL_LIFE_FRESH) - (SL_LIFE_FRESH - SL_LIFE_CODE_MAX - 1);
}

static void say_another_home(struct world *w) {
	w->slots[0]->tag ^= (uint64_t)1 << SL_TAG_HOME_SHIFT;
}

static void stand_twice(struct world *w) {
	struct sl_bucket *bucket = sl_slot_bucket(w->slots[0]);
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		if (bucket->slots[i].tag == 0) {
			bucket->slots[i].tag = w->slots[0]->tag;
			return;
		}
}

static void refer_past_the_end(struct world *w) {
	state_of(w->slots[1])[1] |= UINT32_MAX;
}

static void refer_to_a_free_unit(struct world *w) {
	state_of(w->slots[1])[1] = w->store.unit_count - 1;
}

static void refer_to_its_neighbours(struct world *w) {
	state_of(w->slots[1])[1] = state_of(w->slots[2])[1];
}

static void forget_the_block(struct world *w) {
	state_of(w->slots[1])[1] = 0;
}

static void forget_the_slot(struct world *w) {
	w->slots[2]->tag = 0;
}

static void leave_a_lock(struct world *w) {
	w->store.pages[w->store.page_count - 1].buckets[SL_PAGE_BUCKETS - 1].lock = 1;
}

static void keep_without_counting(struct world *w) {
	struct sluice_limit own = arena_limit("sliding-window 20/1m");
	struct sluice_override_request request = {.limit = &w->plain, .key = sl_str("a"), .own = &own};
	assert_int_equal(sluice_override_set(&w->store, &request, ARENA_START_NS, NULL), SLUICE_OK);
	assert_null(sl_store_verify(&w->store));
	w->store.header->overrides = 0;
}

static void leave_the_blocks_locked(struct world *w) {
	w->store.blocks->lock = 1;
}

static const struct {
	void (*damage)(struct world *);
	const char *told;
} damages[] = {
	{lose_fingerprint, "a slot has no fingerprint"},
	{claim_and_leave, "a slot is claimed, and nobody is charging it"},
	{live_for_no_time_that_there_is, "a slot is claimed, and nobody is charging it"},
	{say_another_home, "a spilled slot is in a bucket that its home does not name"},
	{stand_twice, "a counter stands in two slots"},
	{refer_past_the_end, "a slot refers to a block that is not taken"},
	{refer_to_a_free_unit, "a slot refers to a block that is not taken"},
	{refer_to_its_neighbours, "a block says that it is another slot's"},
	{forget_the_block, "a taken block is referred to by no slot, or by two"},
	{forget_the_slot, "a taken block is referred to by no slot, or by two"},
	{leave_a_lock, "a bucket is locked"},
	{keep_without_counting, "there are more quotas of keys' own than are counted"},
	{leave_the_blocks_locked, "a change of the blocks was not completed"},
};

static void each_damage_is_told(void **state) {
	struct world *w = *state;
	struct sl_header header = *w->store.header;
	void *before = malloc(ARENA_BYTES), *memory = w->store.header;
	memcpy(before, memory, ARENA_BYTES);
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		const char *told;
		damages[i].damage(w);
		told = sl_store_verify(&w->store);
		assert_non_null(told);
		assert_string_equal(told, damages[i].told);
		memcpy(memory, before, ARENA_BYTES);
		assert_null(sl_store_verify(&w->store));
	}
	assert_memory_equal(&header, w->store.header, sizeof header);
	free(before);
}

/* ---- walking, and another store ---------------------------------------------------------------------------------- */

struct seen {
	int count, stop_after;
	struct sl_entry last_log;
};

static bool see(void *context, const struct sl_entry *entry) {
	struct seen *seen = context;
	if (entry->block != NULL)
		seen->last_log = *entry;
	return ++seen->count != seen->stop_after;
}

static bool scan_all(struct world *w, struct sl_page_figures *figures, struct seen *seen) {
	bool more = true;
	for (uint64_t page = 0; page < w->store.page_count && more; page++)
		more = sl_store_scan(&w->store, page, ARENA_START_NS, figures, seen != NULL ? see : NULL, seen);
	return more;
}

static void a_walk_ends_where_its_visitor_says(void **state) {
	struct world *w = *state;
	struct sl_page_figures figures = {0};
	assert_true(scan_all(w, &figures, NULL));
	assert_true(figures.used == 3 && figures.with_block == 2 && figures.block_bytes != 0 && figures.expired == 0);
	for (int stop = 1; stop <= 4; stop++) {
		struct seen seen = {.stop_after = stop};
		assert_int_equal(scan_all(w, NULL, &seen), stop > 3);
		assert_int_equal(seen.count, stop > 3 ? 3 : stop);
	}
}

/* Whatever a slot says of its block, no more of it is told than is there. */
static void a_walk_stays_in_the_arena(void **state) {
	struct world *w = *state;
	struct sl_page_figures figures = {0};
	struct seen seen = {0};
	refer_past_the_end(w);
	w->slots[2]->tag = 0;
	assert_true(scan_all(w, &figures, &seen));
	assert_int_equal(figures.with_block, 1);
	assert_int_equal(figures.block_bytes, SL_UNIT_BYTES - sizeof(struct sl_block_head));
	assert_ptr_equal(seen.last_log.block, w->store.units + sizeof(struct sl_block_head));
}

/* A hash whose fingerprint would be that of a free slot is found again under another. */
static void an_entry_without_a_fingerprint_has_one(void **state) {
	struct world *w = *state;
	struct sl_entry entry = {.hash = 9, .tag = w->slots[0]->tag};
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_OK);
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_E_RANGE);
	assert_null(sl_store_verify(&w->store));
}

static void an_entry_that_is_none_is_not_taken_in(void **state) {
	struct world *w = *state;
	struct seen seen = {0};
	struct sl_entry entry, wrong;
	void *copy;
	assert_true(scan_all(w, NULL, &seen));
	entry = seen.last_log;
	copy = malloc(entry.block_bytes); /* the walk's own is the store's */
	memcpy(copy, entry.block, entry.block_bytes);
	entry.block = copy;
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_E_RANGE); /* there is such a counter */
	w->slots[1]->tag = w->slots[2]->tag = 0;
	wrong = entry;
	wrong.tag |= SL_LIFE_FRESH;
	assert_int_equal(sl_store_put(&w->store, &wrong, ARENA_START_NS), SLUICE_E_RANGE);
	wrong = entry;
	wrong.tag &= ~((uint64_t)1 << SL_TAG_BLOCK_SHIFT); /* a block of what has none */
	assert_int_equal(sl_store_put(&w->store, &wrong, ARENA_START_NS), SLUICE_E_RANGE);
	wrong = entry;
	wrong.block_bytes = w->store.unit_count * SL_UNIT_BYTES + 1;
	assert_int_equal(sl_store_put(&w->store, &wrong, ARENA_START_NS), SLUICE_E_FULL);
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_OK);
	free(copy);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(each_damage_is_told),
		IN_A_WORLD(a_walk_ends_where_its_visitor_says),
		IN_A_WORLD(a_walk_stays_in_the_arena),
		IN_A_WORLD(an_entry_without_a_fingerprint_has_one),
		IN_A_WORLD(an_entry_that_is_none_is_not_taken_in),
	};
	return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
