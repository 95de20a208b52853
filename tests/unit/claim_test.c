/* Who may go for a new counter, and who may not: each reason by itself, with nothing changed where somebody stays. Then
 * what is put into a store from another, when it has no room for it, or a process that is stopped sits on a lock. */
#include "store/blocks.h"
#include "store/scan.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OTHER = 3 << SL_OWNER_ROW_SHIFT | 7 /* who is stopped */, LOOKS = 3, FULL = SL_PAGE_SLOTS };
enum { HELD_UP = SL_E_HELD_UP - (OTHER >> SL_OWNER_ROW_SHIFT) };

struct world {
	void *memory, *before;
	struct sluice_store store;
	struct sl_stalls stalls;
	struct sluice_limit plain, log;
	struct sl_slot *counter, *with_block; /* of "a" */
};

static uint64_t clock_ns;

static sluice_ns read_clock(const struct sluice_store *store) {
	(void)store;
	return clock_ns += SL_PATIENCE_NS / 2;
}

static void rest(const struct sluice_store *store, sluice_ns ns) {
	(void)store;
	clock_ns += ns;
}

static bool is_alive(const struct sluice_store *store, uint32_t owner) {
	(void)store, (void)owner;
	return false;
}

static struct sl_slot *charged(struct world *w, const struct sluice_limit *limit, const char *key, uint32_t cost) {
	struct sl_place place = arena_place(&w->store, limit, key);
	assert_int_equal(arena_call(&w->store, SLUICE_CHARGE, limit, key, cost, ARENA_START_NS, NULL), SLUICE_OK);
	return sl_slot_find(&place);
}

static int open_world(void **state) {
	struct world *w = calloc(1, sizeof *w);
	w->memory = arena_map();
	w->before = malloc(ARENA_BYTES);
	arena_format(w->memory, 1);
	arena_attach(&w->store, w->memory, ARENA_SURVIVOR);
	w->store.owner_is_dead = is_alive;
	w->store.clock = read_clock;
	w->store.rest = rest;
	w->store.stalls = &w->stalls;
	w->stalls.looks = LOOKS;
	w->plain = arena_limit("sliding-window 9/1m");
	w->log = arena_limit("sliding-log 9/1m");
	w->counter = charged(w, &w->plain, "a", 1);
	w->with_block = charged(w, &w->log, "a", 1);
	assert_true(w->counter != NULL && w->with_block != NULL);
	*state = w;
	return 0;
}

static int close_world(void **state) {
	struct world *w = *state;
	free(w->before);
	free(w);
	return 0;
}

static void note(struct world *w) {
	memcpy(w->before, w->memory, ARENA_BYTES);
}

static void assert_unchanged(struct world *w) {
	assert_memory_equal(w->before, w->memory, ARENA_BYTES);
}

static void mark_kept(struct sl_slot *slot) {
	slot->tag = (slot->tag & ~((uint64_t)63 << SL_TAG_USE_SHIFT)) | (uint64_t)SL_MARKS_KEPT << SL_TAG_USE_SHIFT;
}

/* ---- who may go -------------------------------------------------------------------------------------------------- */

static bool goes(struct world *w, struct sl_slot *slot, bool evict, sluice_ns after) {
	return sl_slot_make_free(&w->store, slot, NULL, evict, ARENA_START_NS + after);
}

static void one_in_use_goes_only_by_eviction(void **state) {
	struct world *w = *state;
	note(w);
	assert_false(goes(w, w->counter, false, 0));
	assert_false(goes(w, w->with_block, false, 0));
	assert_unchanged(w);
	assert_true(goes(w, w->counter, true, 0));
	assert_true(goes(w, w->with_block, true, 0));
	assert_int_equal(w->store.header->evicted, 2);
	assert_null(sl_store_verify(&w->store));
}

static void one_that_has_expired_is_no_eviction(void **state) {
	struct world *w = *state;
	assert_true(goes(w, w->counter, false, 3600 * ARENA_S));
	assert_true(goes(w, w->with_block, true, 3600 * ARENA_S));
	assert_int_equal(w->store.header->evicted, 0);
	assert_null(sl_store_verify(&w->store));
}

static void nobody_goes_twice_or_while_he_is_made(void **state) {
	struct world *w = *state;
	struct sl_bucket *home = sl_slot_home(w->counter, w->counter->tag);
	uint64_t tag = w->counter->tag;
	w->counter->tag |= SL_LIFE_FRESH;
	note(w);
	assert_false(goes(w, w->counter, true, 3600 * ARENA_S));
	home->lock = OTHER;
	w->counter->tag = tag;
	note(w);
	assert_false(goes(w, w->counter, true, 3600 * ARENA_S)); /* its home is locked */
	assert_unchanged(w);
	home->lock = 0;
	w->counter->tag = 0;
	note(w);
	assert_false(goes(w, w->counter, true, 3600 * ARENA_S));
	assert_unchanged(w);
}

static void a_keys_own_quota_goes_when_it_has_expired(void **state) {
	struct world *w = *state;
	mark_kept(w->with_block);
	w->store.header->overrides = 1;
	w->store.header->override_units = 1;
	note(w);
	assert_false(goes(w, w->with_block, true, 0));
	assert_unchanged(w);
	assert_true(goes(w, w->with_block, true, 3600 * ARENA_S));
	assert_int_equal(w->store.header->overrides, 0);
	assert_int_equal(w->store.header->override_units, 0);
	/* one whose block is gone, and of which nobody kept count */
	mark_kept(w->counter);
	assert_true(goes(w, w->counter, false, 3600 * ARENA_S));
	assert_int_equal(w->store.header->overrides, 0);
	assert_null(sl_store_verify(&w->store));
}

static void whose_block_cant_be_had_back_stays(void **state) {
	struct world *w = *state;
	uint64_t tag = w->with_block->tag;
	w->store.blocks->lock = OTHER;
	assert_false(goes(w, w->with_block, true, 0));
	assert_false(goes(w, w->with_block, true, 3600 * ARENA_S));
	assert_true(w->with_block->tag == tag && w->store.header->evicted == 0);
	assert_true(goes(w, w->counter, true, 0)); /* it has none */
	w->store.blocks->lock = 0;
	assert_true(goes(w, w->with_block, true, 0));
	assert_null(sl_store_verify(&w->store));
}

/* ---- a full page ------------------------------------------------------------------------------------------------- */

/* Fills a key's page with counters of a limit, those at its home used more than all others. */
static struct sl_page *fill_page(struct world *w, const struct sluice_limit *limit, const struct sl_place *place) {
	uint64_t page = arena_page(&w->store, place);
	struct sl_page_figures figures = {0};
	char key[16];
	for (int i = 0; figures.used < FULL; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		struct sl_place other = arena_place(&w->store, limit, key);
		if (arena_page(&w->store, &other) != page)
			continue;
		(void)charged(w, limit, key, other.home == place->home ? 9 : 1);
		figures = (struct sl_page_figures){0};
		assert_true(sl_store_scan(&w->store, page, ARENA_START_NS, &figures, NULL, NULL));
	}
	return &w->store.pages[page];
}

static void lock_others(struct sl_page *page, const struct sl_bucket *home, uint32_t word) {
	for (int at = 0; at < SL_PAGE_BUCKETS; at++)
		if (&page->buckets[at] != home)
			page->buckets[at].lock = word;
}

/* The least used are passed over where others have their homes locked, so many and no more; then the new one is denied
 * for room, nothing is charged, and nobody has gone. Once they are free the least used goes, and not whoever is at
 * home. */
static void a_page_of_locked_homes_is_full(void **state) {
	struct world *w = *state;
	struct sl_place place = arena_place(&w->store, &w->plain, "new");
	struct sl_page *page = fill_page(w, &w->plain, &place);
	uint64_t evicted = w->store.header->evicted;
	struct sluice_decision decision;
	const struct sl_entry entry = {.hash = sl_slot_hash(&w->store, &page->buckets[0].slots[0]) ^ 1 << 20,
	                               .tag = (page->buckets[0].slots[0].tag)};
	struct sl_place put = sl_place_of_hash(&w->store, entry.hash, false);
	lock_others(page, place.home, OTHER);
	note(w);
	assert_int_equal(arena_call(&w->store, SLUICE_CHARGE, &w->plain, "new", 1, ARENA_START_NS, &decision), SLUICE_OK);
	assert_true(!decision.allowed && decision.bound == SLUICE_BOUND_ROOM);
	assert_unchanged(w);
	assert_ptr_equal(sl_page_of(put.home), page);
	put.home->lock = 0;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) { /* at its home as well */
		struct sl_bucket *home = sl_slot_home(&put.home->slots[i], put.home->slots[i].tag);
		if (home == put.home)
			put.home->slots[i].tag |= (uint64_t)SL_USE_ALL << SL_TAG_USE_SHIFT;
	}
	note(w);
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_E_FULL);
	assert_unchanged(w);
	lock_others(page, NULL, 0);
	assert_non_null(charged(w, &w->plain, "new", 1));
	assert_int_equal(w->store.header->evicted, evicted + 1);
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		assert_true(sl_tag_use(place.home->slots[i].tag) != 0 || sl_tag_home(place.home->slots[i].tag) !=
		            sl_tag_home(place.tag) || sl_tag_matches(place.home->slots[i].tag, place.tag));
	assert_null(sl_store_verify(&w->store));
}

static void a_page_whose_blocks_cant_be_had_back_is_held_up(void **state) {
	struct world *w = *state;
	struct sl_place place = arena_place(&w->store, &w->log, "new");
	uint64_t evicted;
	(void)fill_page(w, &w->log, &place);
	evicted = w->store.header->evicted;
	w->store.blocks->lock = OTHER;
	assert_int_equal(arena_call(&w->store, SLUICE_CHARGE, &w->log, "new", 1, ARENA_START_NS, NULL), SLUICE_E_BUSY);
	assert_int_equal(w->store.header->evicted, evicted);
	w->store.blocks->lock = 0;
	assert_null(sl_store_verify(&w->store));
	assert_non_null(charged(w, &w->log, "new", 1));
}

/* Expired ones at home go first, but for those that the call itself holds, and those of a home that is locked. */
static void expired_ones_at_home_go_first(void **state) {
	struct world *w = *state;
	struct sl_place place = arena_place(&w->store, &w->plain, "new");
	struct sl_page *page = fill_page(w, &w->plain, &place);
	struct sl_pins pins = {.count = 0};
	sluice_ns late = ARENA_START_NS + 3600 * ARENA_S;
	lock_others(page, place.home, OTHER);
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		if (sl_slot_home(&place.home->slots[i], place.home->slots[i].tag) == place.home)
			pins.slots[pins.count++] = &place.home->slots[i];
	assert_true(pins.count != 0);
	for (uint32_t bits = place.home->spill; bits != 0; bits &= bits - 1) /* and wherever else they are */
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			struct sl_slot *slot = &page->buckets[__builtin_ctz(bits)].slots[i];
			if (sl_slot_home(slot, slot->tag) == place.home)
				pins.slots[pins.count++] = slot;
		}
	note(w);
	assert_null(sl_slot_claim(&w->store, &place, late, &pins));
	assert_unchanged(w);
	struct sl_slot *freed = (struct sl_slot *)(uintptr_t)pins.slots[0];
	pins.slots[0] = pins.slots[--pins.count];
	assert_ptr_equal(sl_slot_claim(&w->store, &place, late, &pins), freed);
}

/* And before a free slot of any other bucket: what is at home is found first. One goes and no more, whichever it is. */
static void an_expired_one_at_home_goes_before_another_bucket(void **state) {
	static const struct sl_pins none = {.count = 0};
	struct world *w = *state;
	struct sl_place place = arena_place(&w->store, &w->plain, "new");
	sluice_ns late = ARENA_START_NS + 3600 * ARENA_S;
	for (uint64_t print = 1; print <= SL_BUCKET_SLOTS; print++) {
		struct sl_place other = {place.home, place.tag ^ print << SL_TAG_PRINT_SHIFT};
		struct sl_slot *slot = sl_slot_claim(&w->store, &other, ARENA_START_NS, &none);
		assert_ptr_equal(sl_slot_bucket(slot), place.home);
		sl_slot_publish(slot, (const uint64_t[2]){ARENA_START_NS, 0}, 0, 60 * ARENA_S);
	}
	for (int only = 0; only < SL_BUCKET_SLOTS; only++) {
		struct sl_slot *slot = &place.home->slots[only];
		struct sl_pins others = {.count = 0};
		uint64_t tag = slot->tag;
		for (int i = 0; i < SL_BUCKET_SLOTS; i++)
			if (i != only)
				others.slots[others.count++] = &place.home->slots[i];
		assert_ptr_equal(sl_slot_claim(&w->store, &place, late, &others), slot);
		slot->tag = tag;
		sl_slot_state(slot)[0] = ARENA_START_NS;
	}
	assert_ptr_equal(sl_slot_bucket(sl_slot_claim(&w->store, &place, late, &none)), place.home);
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		assert_true(place.home->slots[i].tag != 0);
	assert_int_equal(place.home->spill, 0);
}

/* ---- entries of another store ------------------------------------------------------------------------------------ */

static struct sl_entry entry_of(struct world *w, struct sl_slot *slot) {
	struct sl_entry entry = {.hash = sl_slot_hash(&w->store, slot), .tag = slot->tag};
	memcpy(entry.state, sl_slot_state(slot), sizeof entry.state);
	slot->tag = 0;
	return entry;
}

/* Nothing is left of what could not be put there: no claim, no count of a key's own quota. */
static void what_is_held_up_is_not_put_there(void **state) {
	static const char block[40];
	struct world *w = *state;
	struct sl_place place = arena_place(&w->store, &w->log, "a");
	mark_kept(w->with_block);
	struct sl_entry entry = entry_of(w, w->with_block);
	uint32_t *locks[2] = {&place.home->lock, &w->store.blocks->lock};
	entry.block = block;
	entry.block_bytes = sizeof block;
	for (int i = 0; i < 2; i++) {
		*locks[i] = OTHER;
		assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), HELD_UP);
		assert_null(i == 1 ? sl_slot_find(&place) : NULL);
		assert_int_equal(w->store.header->overrides, 0);
		assert_int_equal(w->store.header->override_units, 0);
		*locks[i] = 0;
	}
	assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_OK);
	assert_int_equal(w->store.header->overrides, 1);
	assert_int_equal(w->store.header->override_units, 1);
}

/* As many as there may be, or units as many: one more is not taken in, and neither is counted. */
static void quotas_of_keys_have_bounds_there_too(void **state) {
	struct world *w = *state;
	struct sl_header *header = w->store.header;
	uint64_t count_most = sl_store_overrides_most(&w->store), units_most = sl_store_override_units_most(&w->store);
	const struct {
		uint64_t count, units;
		sluice_err err;
	} rows[] = {
		{count_most, 0, SLUICE_E_FULL}, {UINT64_MAX, 0, SLUICE_E_FULL}, {0, units_most, SLUICE_E_FULL},
		{0, UINT64_MAX, SLUICE_E_FULL}, {count_most - 1, units_most - 1, SLUICE_OK},
	};
	mark_kept(w->counter);
	struct sl_entry entry = entry_of(w, w->counter);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		header->overrides = rows[i].count;
		header->override_units = rows[i].units;
		assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), rows[i].err);
		assert_true(header->overrides == rows[i].count + (rows[i].err == SLUICE_OK));
		assert_true(header->override_units == rows[i].units + (rows[i].err == SLUICE_OK));
	}
}

/* What stands beside a counter, if it has a block, makes reservations be looked for until it ends. */
static void what_stands_beside_a_counter_is_looked_for(void **state) {
	const struct {
		uint64_t marks;
		bool has_block, looked_for;
	} rows[] = {{0, true, false}, {SL_MARKS_BESIDE_LITTLE, false, false}, {SL_MARKS_KEPT, true, false},
	            {SL_MARKS_BESIDE_MUCH, true, true}};
	struct world *w = *state;
	struct sl_entry entry = entry_of(w, w->counter);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t cleared = (uint64_t)63 << SL_TAG_USE_SHIFT | (uint64_t)1 << SL_TAG_BLOCK_SHIFT;
		entry.hash += (uint64_t)1 << 20; /* another key */
		entry.tag = (entry.tag & ~cleared) | rows[i].marks << SL_TAG_USE_SHIFT |
		            (uint64_t)rows[i].has_block << SL_TAG_BLOCK_SHIFT;
		assert_int_equal(sl_store_put(&w->store, &entry, ARENA_START_NS), SLUICE_OK);
		assert_int_equal(sl_store_has_ledgers(&w->store, ARENA_START_NS), rows[i].looked_for);
	}
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(one_in_use_goes_only_by_eviction),
		IN_A_WORLD(one_that_has_expired_is_no_eviction),
		IN_A_WORLD(nobody_goes_twice_or_while_he_is_made),
		IN_A_WORLD(a_keys_own_quota_goes_when_it_has_expired),
		IN_A_WORLD(whose_block_cant_be_had_back_stays),
		IN_A_WORLD(a_page_of_locked_homes_is_full),
		IN_A_WORLD(a_page_whose_blocks_cant_be_had_back_is_held_up),
		IN_A_WORLD(expired_ones_at_home_go_first),
		IN_A_WORLD(an_expired_one_at_home_goes_before_another_bucket),
		IN_A_WORLD(what_is_held_up_is_not_put_there),
		IN_A_WORLD(quotas_of_keys_have_bounds_there_too),
		IN_A_WORLD(what_stands_beside_a_counter_is_looked_for),
	};
	return cmocka_run_group_tests_name("claims", tests, NULL, NULL);
}
