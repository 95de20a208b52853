/* Who goes for a block, in a store whose blocks are all taken: nobody whom the call holds, whose home is locked, who is
 * being made, or who is no counter; and nobody who has used more than others. One search at a time, as store/room.c
 * makes it; what comes of many is room_test.c's and full_test.c's. */
#include "base/coarse.h"
#include "store/blocks.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { OTHER = 3 << SL_OWNER_ROW_SHIFT | 7, SEARCHES = 64, UNIT = SL_UNIT_BYTES - 8, SLOTS_MAX = 8192 };

struct world {
	struct sluice_store store;
	struct sl_stalls stalls;
	struct sluice_limit log;
	struct sl_slot *slots[SLOTS_MAX]; /* of those with a block, in the order of their blocks */
	uint32_t count;
};

static uint64_t clock_ns;

static sluice_ns read_clock(const struct sluice_store *store) {
	(void)store;
	return clock_ns += SL_PATIENCE_NS / 2;
}

static bool is_alive(const struct sluice_store *store, uint32_t owner) {
	(void)store, (void)owner;
	return false;
}

/* Logs of one entry until there is no unit left. */
static int open_full(void **state, uint32_t blocks_percent) {
	struct world *w = calloc(1, sizeof *w);
	const uint64_t secret[2] = {7, 11};
	void *memory = arena_map();
	char key[16];
	assert_int_equal(sl_arena_format(memory, ARENA_BYTES, blocks_percent, secret, 5), SLUICE_OK);
	arena_attach(&w->store, memory, ARENA_SURVIVOR);
	w->store.owner_is_dead = is_alive;
	w->store.clock = read_clock;
	w->store.stalls = &w->stalls;
	w->log = arena_limit("sliding-log 9/1h");
	for (int i = 0; w->store.blocks->free_units != 0; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		assert_int_equal(arena_call(&w->store, SLUICE_CHARGE, &w->log, key, 1, ARENA_START_NS, NULL), SLUICE_OK);
	}
	assert_true(w->store.header->evicted == 0);
	for (uint32_t unit = 1; unit < w->store.unit_count; unit++)
		if (w->store.map[unit] == 1)
			assert_non_null(w->slots[w->count++] = sl_block_owner(&w->store, unit));
	assert_int_equal(w->count, w->store.unit_count - 1); /* a unit each */
	*state = w;
	return 0;
}

static int open_few(void **state) {
	return open_full(state, 1);
}

static int open_many(void **state) {
	return open_full(state, 50);
}

static int close_world(void **state) {
	struct world *w = *state;
	munmap(w->store.header, ARENA_BYTES);
	free(w);
	return 0;
}

static bool search(struct world *w, uint64_t bytes, sluice_ns after, const struct sl_pins *pins) {
	static const struct sl_pins none = {.count = 0};
	struct sl_room_search room = {0};
	return sl_store_make_room(&w->store, bytes, ARENA_START_NS + after, pins != NULL ? pins : &none, &room);
}

static uint32_t gone(const struct world *w) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < w->count; i++)
		count += w->slots[i]->tag == 0;
	return count;
}

static void mark(struct sl_slot *slot, uint64_t marks) {
	slot->tag = (slot->tag & ~((uint64_t)63 << SL_TAG_USE_SHIFT)) | marks << SL_TAG_USE_SHIFT;
}

/* ---- who stays --------------------------------------------------------------------------------------------------- */

static void keep(struct world *w, uint32_t i) {
	mark(w->slots[i], SL_MARKS_KEPT);
}

static void begin(struct world *w, uint32_t i) {
	w->slots[i]->tag |= SL_LIFE_FRESH;
}

static void lock_home(struct world *w, uint32_t i) {
	sl_slot_home(w->slots[i], w->slots[i]->tag)->lock = OTHER;
}

static void name_no_page(struct world *w, uint32_t i) {
	sl_block_head(&w->store, i + 1)->word |= ~(uint64_t)0 << (SL_BLOCK_UNITS_BITS + SL_BLOCK_OWNER_SLOT_BITS);
}

static void name_no_slot(struct world *w, uint32_t i) {
	sl_block_head(&w->store, i + 1)->word |= (uint64_t)UINT8_MAX << SL_BLOCK_UNITS_BITS;
}

static void name_a_free_slot(struct world *w, uint32_t i) {
	w->slots[i]->tag = 0;
}

static void whoever_may_not_go_stays(void **state) {
	static void (*const reasons[])(struct world *, uint32_t) = {
		keep, begin, lock_home, name_no_page, name_no_slot, name_a_free_slot};
	struct world *w = *state;
	void *sound = malloc(ARENA_BYTES);
	uint64_t tags[SL_PAGE_SLOTS];
	memcpy(sound, w->store.header, ARENA_BYTES);
	for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
		for (uint32_t i = 0; i < w->count; i++) {
			reasons[r](w, i);
			tags[i] = w->slots[i]->tag;
		}
		for (uint32_t units = 1; units < 4; units++)
			assert_false(search(w, units * SL_UNIT_BYTES - 8, 0, NULL));
		for (uint32_t i = 0; i < w->count; i++)
			assert_true(w->slots[i]->tag == tags[i]);
		assert_int_equal(w->store.blocks->free_units, 0);
		assert_int_equal(w->store.blocks->lock, 0);
		memcpy(w->store.header, sound, ARENA_BYTES);
	}
	free(sound);
	assert_true(search(w, UNIT, 0, NULL));
	assert_int_equal(gone(w), 1);
}

static void the_only_one_who_may_goes(void **state) {
	struct world *w = *state;
	struct sl_pins pins = {.count = 0};
	uint32_t who = w->count / 2;
	for (uint32_t i = 0; i < w->count; i++)
		if (i % 4 == 0 && i != who)
			pins.slots[pins.count++] = w->slots[i];
		else if (i != who)
			keep(w, i);
	assert_false(search(w, UNIT + 1, 0, &pins)); /* no two neighbours */
	assert_int_equal(gone(w), 0);
	assert_true(search(w, UNIT, 0, &pins));
	assert_int_equal(gone(w), 1);
	assert_true(w->slots[who]->tag == 0);
	assert_int_equal(w->store.blocks->free_units, 1);
}

/* What has expired goes before whoever is in use, and is no eviction; a key's own quota too. */
static void whoever_has_expired_goes_first(void **state) {
	struct world *w = *state;
	uint32_t who = 20; /* so many are looked at */
	keep(w, who);
	w->store.header->overrides = w->store.header->override_units = 1;
	for (uint32_t i = 0; i < w->count; i++)
		if (i != who)
			sl_slot_state(w->slots[i])[0] += 7200 * ARENA_S;
	assert_true(search(w, UNIT, 7200 * ARENA_S, NULL));
	assert_true(w->slots[who]->tag == 0);
	assert_int_equal(gone(w), 1);
	assert_int_equal(w->store.header->evicted, 0);
	assert_int_equal(w->store.header->overrides, 0);
}

static void the_least_used_of_those_looked_at_goes(void **state) {
	struct world *w = *state;
	for (uint32_t i = 0; i < w->count; i++)
		mark(w->slots[i], i == 7 ? 0 : SL_USE_ALL);
	assert_true(search(w, UNIT, 0, NULL));
	assert_true(w->slots[7]->tag == 0);
	assert_int_equal(gone(w), 1);
}

/* Where none has expired for long, eight are looked at of those who have used little, else 24. The hand tells. */
static void as_few_are_looked_at_as_is_enough(void **state) {
	static const struct {
		uint32_t unexpired;
		uint64_t use, looked;
	} rows[] = {{256, 0, 8}, {255, 0, 8}, {247, 0, 9}, {240, 0, 16}, {0, 0, 24}, {256, SL_USE_ALL, 24}};
	struct world *w = *state;
	uint32_t size = (uint32_t)(sizeof rows / sizeof *rows);
	for (uint32_t i = 0; i < size; i++) {
		for (uint32_t k = 0; k < w->count; k++)
			mark(w->slots[k], rows[i].use);
		w->store.header->sweep_unit = 1 + 30 * i;
		w->store.passed = (struct sl_passed){.unexpired = rows[i].unexpired};
		assert_true(search(w, UNIT, 0, NULL));
		assert_int_equal(w->store.header->sweep_unit - (1 + 30 * i), rows[i].looked);
	}
}

/* Of long stretches fewer are looked at: the blocks are locked for as long as it takes. The hand tells: it passes by no
 * more owners than 768, and those of the stretch at which it gets there. */
static void as_many_owners_are_looked_at_as_others_can_wait_for(void **state) {
	static const struct {
		uint64_t units, stretches;
	} rows[] = {{32, 24}, {33, 24}, {34, 23}, {64, 12}, {65, 12}, {256, 3}};
	struct world *w = *state;
	void *sound = malloc(ARENA_BYTES);
	memcpy(sound, w->store.header, ARENA_BYTES);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		w->store.header->sweep_unit = 1;
		w->store.passed = (struct sl_passed){.count = 0};
		assert_true(search(w, rows[i].units * SL_UNIT_BYTES - 8, 0, NULL));
		assert_int_equal(w->store.header->sweep_unit - 1, rows[i].units * rows[i].stretches);
		memcpy(w->store.header, sound, ARENA_BYTES);
	}
	free(sound);
}

/* The hand that goes round is the store's: anything may stand there. */
static void a_hand_is_put_back_from_anywhere(void **state) {
	struct world *w = *state;
	const uint64_t hands[] = {0, w->store.unit_count - 1, w->store.unit_count, UINT64_MAX};
	for (size_t i = 0; i < sizeof hands / sizeof *hands; i++) {
		w->store.header->sweep_unit = hands[i];
		w->store.passed = (struct sl_passed){.count = 0};
		assert_true(search(w, UNIT, 0, NULL));
		assert_int_equal(gone(w), i + 1);
		assert_in_range(w->store.header->sweep_unit, 1, w->store.unit_count);
	}
}

/* Whoever was passed over is known by what he had used then, the least used last: also where the list is full, and
 * others come in between. */
static void those_passed_over_stand_in_order(void **state) {
	struct world *w = *state;
	for (uint32_t i = 0; i < w->count; i++)
		sl_slot_state(w->slots[i])[0] += (uint64_t)(i * 7919 % w->count) << SL_COARSE_SHIFT;
	for (int k = 0; k < SEARCHES; k++) {
		const struct sl_passed *passed = &w->store.passed;
		assert_true(search(w, UNIT, 0, NULL));
		for (uint32_t at = 0; at < passed->count; at++) {
			const struct sl_slot *slot = w->slots[passed->units[at] - 1];
			assert_true(at == 0 || passed->ranks[at] <= passed->ranks[at - 1]);
			assert_true(slot->tag == 0 || sl_slot_rank(slot, slot->tag, ARENA_START_NS) == passed->ranks[at]);
		}
	}
	assert_int_equal(w->store.passed.count, SL_PASSED_MAX);
}

/* ---- how long it is looked for ----------------------------------------------------------------------------------- */

static void more_than_its_share_is_not_looked_for(void **state) {
	struct world *w = *state;
	uint64_t most = sl_block_bytes_most(&w->store);
	assert_false(search(w, most + 1, 0, NULL));
	assert_int_equal(gone(w), 0);
	assert_true(search(w, most, 0, NULL));
	assert_true(gone(w) != 0);
}

/* A search has an end, whoever sits on the blocks. */
static void a_search_has_an_end(void **state) {
	static const struct sl_pins none = {.count = 0};
	struct world *w = *state;
	struct sl_room_search room = {0};
	w->store.blocks->lock = OTHER;
	for (int i = 0; i < SEARCHES; i++)
		assert_true(sl_store_make_room(&w->store, UNIT, ARENA_START_NS, &none, &room));
	assert_false(sl_store_make_room(&w->store, UNIT, ARENA_START_NS, &none, &room));
	assert_int_equal(gone(w), 0);
}

/* ---- a long stretch, a piece at a time --------------------------------------------------------------------------- */

static void leave(struct world *w, uint32_t i) {
	(void)w, (void)i;
}

static void use_up(struct world *w, uint32_t i) {
	mark(w->slots[i], SL_USE_ALL);
}

/* It goes on behind its first piece while that is in no better use; where somebody there can't go, or has used more,
 * another stretch is looked for. */
static void a_stretch_is_gone_on_with_or_left(void **state) {
	static void (*const meanwhile[])(struct world *, uint32_t) = {leave, keep, use_up};
	static const struct sl_pins none = {.count = 0};
	enum { UNITS = 2 * SL_STRETCH_MAX + 44 };
	struct world *w = *state;
	void *sound = malloc(ARENA_BYTES);
	memcpy(sound, w->store.header, ARENA_BYTES);
	for (size_t m = 0; m < sizeof meanwhile / sizeof *meanwhile; m++) {
		struct sl_room_search room = {0};
		uint32_t first, behind, here = 0;
		assert_true(sl_store_make_room(&w->store, UNITS * SL_UNIT_BYTES - 8, ARENA_START_NS, &none, &room));
		assert_true(room.first != 0 && gone(w) == SL_STRETCH_MAX);
		first = room.first - 1;
		behind = first + SL_STRETCH_MAX;
		for (uint32_t i = behind; i < first + UNITS; i++)
			meanwhile[m](w, i);
		assert_true(sl_store_make_room(&w->store, UNITS * SL_UNIT_BYTES - 8, ARENA_START_NS, &none, &room));
		for (uint32_t i = behind; i < first + UNITS; i++)
			here += w->slots[i]->tag == 0;
		assert_int_equal(here, meanwhile[m] == leave ? SL_STRETCH_MAX : 0);
		assert_int_equal(gone(w), 2 * SL_STRETCH_MAX);
		memcpy(w->store.header, sound, ARENA_BYTES);
		w->store.passed = (struct sl_passed){.count = 0};
	}
	free(sound);
}

#define OF_FEW(test) cmocka_unit_test_setup_teardown(test, open_few, close_world)
#define OF_MANY(test) cmocka_unit_test_setup_teardown(test, open_many, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		OF_FEW(whoever_may_not_go_stays),
		OF_FEW(the_only_one_who_may_goes),
		OF_FEW(whoever_has_expired_goes_first),
		OF_FEW(the_least_used_of_those_looked_at_goes),
		OF_MANY(as_few_are_looked_at_as_is_enough),
		OF_MANY(as_many_owners_are_looked_at_as_others_can_wait_for),
		OF_FEW(a_hand_is_put_back_from_anywhere),
		OF_MANY(those_passed_over_stand_in_order),
		OF_FEW(more_than_its_share_is_not_looked_for),
		OF_FEW(a_search_has_an_end),
		OF_MANY(a_stretch_is_gone_on_with_or_left),
	};
	return cmocka_run_group_tests_name("room for a block", tests, NULL, NULL);
}
