/* What the sketch tells of one instant, by table: at the ends of time, where its units wrap, and where a cell lies
 * ahead of the clock. Then the marks that a counter starts with, the costs of uses, and places of hashes that come to
 * no fingerprint. How a full store lives with it is full_test.c's. */
#include "store/sketch.h"
#include "store/slot.h"
#include "store/use.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#define UNIT_NS ((sluice_ns)1 << 25)
#define UNITS ((sluice_ns)1 << 32) /* after so many they come again */
#define LATE (ARENA_START_NS >> 25)

enum { PAGE = 1, USE = 5 };

static struct sluice_store open_store(void) {
	struct sluice_store store;
	void *memory = arena_map();
	arena_format(memory, 1);
	arena_attach(&store, memory, ARENA_SURVIVOR);
	return store;
}

static const struct {
	sluice_ns noted, asked; /* in units; what is noted is rounded up to the next one */
	sluice_ns told;         /* in units; 0: nothing */
} rows[] = {
	{LATE, LATE + 100, LATE + 1},
	{LATE, LATE + 1, LATE + 1},
	{0, 100, 1},
	/* rounding has put it ahead of now: it is now */
	{LATE, LATE, LATE},
	{LATE + 1, LATE, LATE},
	/* it is ahead of a clock that went back: as it is, up to a minute; more ahead than that is 4 years ago */
	{LATE + 2, LATE, LATE + 3},
	{LATE + 2047, LATE, LATE + 2048},
	{LATE + 2048, LATE, 0},
	/* before time began */
	{UNITS - 51, 10, 0},
	/* the number of its unit is that of none: it is taken for the next */
	{UNITS - 1, UNITS + 10, UNITS + 1},
	{2 * UNITS - 1, 2 * UNITS + 10, 2 * UNITS + 1},
};

static void one_instant_comes_back_as_it_was(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_store store = open_store();
		struct sl_place place = {&store.pages[PAGE].buckets[3], (uint64_t)77 << SL_TAG_PRINT_SHIFT};
		struct sl_past pasts[SL_USES];
		int count;
		place.tag |= (uint64_t)3 << SL_TAG_HOME_SHIFT;
		assert_false(sl_sketch_is_used(&store, 0));
		sl_sketch_note(&store, PAGE, place.tag | USE << SL_TAG_USE_SHIFT, rows[i].noted * UNIT_NS);
		assert_true(sl_sketch_is_used(&store, rows[i].noted * UNIT_NS));
		count = sl_sketch_ask(&store, &place, rows[i].asked * UNIT_NS, pasts);
		assert_int_equal(count, rows[i].told != 0);
		if (count != 0) {
			assert_int_equal(pasts[0].use, USE);
			assert_true(pasts[0].instant == rows[i].told * UNIT_NS);
		}
		munmap(store.header, ARENA_BYTES);
	}
}

/* As long as anything that was noted may matter, and no instant beyond the last is lost. */
static void it_is_asked_until_the_last_has_passed(void **state) {
	struct sluice_store store = open_store();
	uint64_t tag = (uint64_t)77 << SL_TAG_PRINT_SHIFT | 40 /* a lifetime of some minutes */;
	sluice_ns until;
	(void)state;
	sl_sketch_note(&store, PAGE, tag, ARENA_START_NS);
	until = store.header->sketch_until_ns;
	assert_true(until > ARENA_START_NS && until == sl_slot_end(ARENA_START_NS, tag));
	assert_true(sl_sketch_is_used(&store, until - 1) && !sl_sketch_is_used(&store, until));
	sl_sketch_note(&store, PAGE, tag, ARENA_START_NS / 2);
	assert_true(store.header->sketch_until_ns == until);
	sl_sketch_note(&store, PAGE, tag | SL_LIFE_CODE_MAX, ARENA_START_NS);
	assert_true(store.header->sketch_until_ns == UINT64_MAX);
	munmap(store.header, ARENA_BYTES);
}

/* The most used comes first; a less used past is told only where it is later. */
static void pasts_rise_as_uses_fall(void **state) {
	struct sluice_store store = open_store();
	struct sl_place place = {&store.pages[PAGE].buckets[0], (uint64_t)77 << SL_TAG_PRINT_SHIFT};
	const struct {
		uint64_t use, unit;
	} noted[] = {{7, LATE + 5}, {6, LATE + 5}, {5, LATE + 4}, {4, LATE + 6}, {2, LATE + 6}, {0, LATE + 9}};
	struct sl_past pasts[SL_USES];
	(void)state;
	for (size_t i = 0; i < sizeof noted / sizeof *noted; i++)
		sl_sketch_note(&store, PAGE, place.tag | noted[i].use << SL_TAG_USE_SHIFT, noted[i].unit * UNIT_NS);
	assert_int_equal(sl_sketch_ask(&store, &place, (LATE + 100) * UNIT_NS, pasts), 3);
	assert_true(pasts[0].use == 7 && pasts[0].instant == (LATE + 6) * UNIT_NS);
	assert_true(pasts[1].use == 4 && pasts[1].instant == (LATE + 7) * UNIT_NS);
	assert_true(pasts[2].use == 0 && pasts[2].instant == (LATE + 10) * UNIT_NS);
	munmap(store.header, ARENA_BYTES);
}

/* Stores keep their sketch across versions: a counter's cells stay where they are, one in each half. */
static void a_counter_keeps_its_cells(void **state) {
	static const struct {
		uint64_t page, print, home, cells[2];
	} kept[] = {
		{0, 1, 0, {73, 394}},
		{0, 77, 3, {131, 415}},
		{PAGE, 77, 3, {153, 430}},
		{PAGE, (uint64_t)1 << 43, 31, {180, 418}},
	};
	struct sluice_store store = open_store();
	(void)state;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		uint64_t tag = kept[i].print << SL_TAG_PRINT_SHIFT | kept[i].home << SL_TAG_HOME_SHIFT;
		int found = 0;
		memset(store.sketch, 0, store.cell_count * sizeof *store.sketch);
		sl_sketch_note(&store, kept[i].page, tag, ARENA_START_NS);
		for (uint64_t cell = 0; cell < store.cell_count; cell++)
			if (store.sketch[cell].latest[0] != 0) {
				assert_in_range(found, 0, 1);
				assert_int_equal(cell, kept[i].cells[found++]);
			}
		assert_int_equal(found, 2);
	}
	munmap(store.header, ARENA_BYTES);
}

/* Whoever was nearly denied starts as one who was. */
static void marks_and_costs_of_each_use(void **state) {
	static const uint64_t starts[SL_USES] = {1, 2, 3, 4, 5, 6, 7, 7}, costs[SL_USES] = {3, 6, 10, 20, 40, 75, 99, 100};
	static const uint64_t exact[SL_USES] = {15000, 30000, 48000, 96000, 192000, 360000, 479999, 480000};
	(void)state;
	for (uint64_t use = 0; use < SL_USES; use++) {
		assert_int_equal(sl_marks_start(true, use), starts[use] << SL_MARKS_START_SHIFT);
		assert_int_equal(sl_marks_start(false, use), 0);
		assert_int_equal(sl_use_cost(100, use), costs[use]);
		assert_int_equal(sl_use_cost(0, use), 0);
		assert_int_equal(sl_use_cost(1, use), use == SL_USE_ALL);
		assert_int_equal(sl_use_cost(480000, use), exact[use]);
		assert_int_equal(sl_use_of(480000, exact[use]), use);
		assert_int_equal(sl_use_of(480000, exact[use] + 1), use < SL_USE_ALL ? use + 1 : use);
	}
}

/* A fingerprint of 0 would be a free slot; and what stands beside a counter has another than it: the same in stores of
 * every version. */
static void no_place_is_without_a_fingerprint(void **state) {
	struct sluice_store store = open_store();
	static const uint64_t which[] = {SL_BESIDE_LEDGER, SL_BESIDE_STRIKES, SL_BESIDE_CONTENTS, SL_BESIDE_OVERRIDE};
	(void)state;
	for (uint64_t print = 0; print < 40; print++) {
		struct sl_place place = sl_place_of_hash(&store, print << SL_HASH_HOME_BITS | 9, false);
		assert_int_equal(place.tag >> SL_TAG_PRINT_SHIFT, print != 0 ? print : 1);
		assert_int_equal(sl_tag_home(place.tag), 9);
		for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
			struct sl_place beside = sl_place_beside(&place, which[i]);
			uint64_t changed = (print != 0 ? print : 1) ^ which[i];
			assert_ptr_equal(beside.home, place.home);
			assert_int_equal(beside.tag >> SL_TAG_PRINT_SHIFT, changed != 0 ? changed : 16);
			assert_true(sl_tag_has_block(beside.tag));
			assert_false(sl_tag_matches(beside.tag, place.tag));
			assert_int_equal(sl_tag_home(beside.tag), 9);
		}
	}
	munmap(store.header, ARENA_BYTES);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_instant_comes_back_as_it_was),
		cmocka_unit_test(it_is_asked_until_the_last_has_passed),
		cmocka_unit_test(pasts_rise_as_uses_fall),
		cmocka_unit_test(a_counter_keeps_its_cells),
		cmocka_unit_test(marks_and_costs_of_each_use),
		cmocka_unit_test(no_place_is_without_a_fingerprint),
	};
	return cmocka_run_group_tests_name("the sketch", tests, NULL, NULL);
}
