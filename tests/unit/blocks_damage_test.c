/* Blocks in an arena that others have written: whatever a head, a run, a block or the undo log says, nothing is read or
 * written past the arena's end, nothing is given out that is not there, and what is sound goes on being used. Each kind
 * of damage by itself; random ones are fuzz/arena.c's. */
#include "store/blocks.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA = 1 << 20, OWNER = 1 << SL_OWNER_ROW_SHIFT | 1, FREED = 3, TAKEN = 5 };

struct world {
	struct sluice_store store;
	void *memory, *sound;
	uint32_t freed, taken, last; /* neighbours: a free run of FREED units, a block of TAKEN, and one of 2 */
};

static uint32_t take(struct sluice_store *store, uint64_t units) {
	uint64_t bytes;
	uint32_t block;
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	block = sl_blocks_take(store, units * SL_UNIT_BYTES - sizeof(struct sl_block_head), &bytes);
	sl_blocks_commit(store);
	return block;
}

static void give(struct sluice_store *store, uint32_t block) {
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	sl_blocks_free(store, block);
	sl_blocks_commit(store);
}

/* The memory is of the arena's exact size, so that AddressSanitizer sees a byte too far. */
static int open_world(void **state) {
	struct world *w = calloc(1, sizeof *w);
	const uint64_t secret[2] = {7, 11};
	assert_non_null(w);
	w->memory = aligned_alloc(SL_PAGE_BYTES, ARENA);
	w->sound = malloc(ARENA);
	assert_true(w->memory != NULL && w->sound != NULL);
	memset(w->memory, 0, ARENA);
	assert_int_equal(sl_arena_format(w->memory, ARENA, 50, secret, 5), SLUICE_OK);
	sl_arena_attach(&w->store, w->memory);
	w->store.owner = OWNER;
	w->freed = take(&w->store, FREED);
	w->taken = take(&w->store, TAKEN);
	w->last = take(&w->store, 2);
	assert_true(w->taken == w->freed + FREED && w->last == w->taken + TAKEN);
	give(&w->store, w->freed);
	memcpy(w->sound, w->memory, ARENA);
	*state = w;
	return 0;
}

static int close_world(void **state) {
	struct world *w = *state;
	free(w->sound);
	free(w->memory);
	free(w);
	return 0;
}

static void heal(struct world *w) {
	memcpy(w->memory, w->sound, ARENA);
	assert_null(sl_blocks_verify(&w->store));
}

static uint32_t *units_of_run(struct world *w, uint32_t unit) {
	return (uint32_t *)(void *)(w->store.units + (size_t)unit * SL_UNIT_BYTES);
}

static uint64_t *end_of_run(struct world *w, uint32_t unit, uint32_t units) {
	return (uint64_t *)(void *)(w->store.units + (size_t)(unit + units) * SL_UNIT_BYTES) - 1;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static void point_each_list(struct world *w, uint32_t unit) {
	for (unsigned class = 0; class < SL_RUN_CLASSES; class ++)
		if (w->store.blocks->heads[class] != 0)
			w->store.blocks->heads[class] = unit;
}

static void a_list_that_names_no_unit_gives_none(void **state) {
	struct world *w = *state;
	const uint32_t nowhere[] = {(uint32_t)w->store.unit_count, (uint32_t)w->store.unit_count + 3, UINT32_MAX};
	for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
		for (uint32_t units = 1; units <= 4; units++) {
			point_each_list(w, nowhere[i]);
			assert_int_equal(take(&w->store, units), 0);
			heal(w);
		}
}

/* A length that can't be is 1: all that is known to be there. */
static void a_run_of_an_impossible_length_is_one_unit(void **state) {
	struct world *w = *state;
	const uint32_t lengths[] = {0, (uint32_t)w->store.unit_count, UINT32_MAX};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (uint32_t units = 1; units <= 3; units++) {
			uint32_t block;
			point_each_list(w, w->freed);
			*units_of_run(w, w->freed) = lengths[i];
			block = take(&w->store, units);
			assert_int_equal(block, units == 1 ? w->freed : 0);
			assert_true(block == 0 || sl_block_units(&w->store, block) == 1);
			heal(w);
		}
}

static void there_is_no_block_of_nothing(void **state) {
	struct world *w = *state;
	uint64_t bytes = 77;
	assert_int_equal(sl_blocks_begin(&w->store), SLUICE_OK);
	assert_int_equal(sl_blocks_take(&w->store, 0, &bytes), 0);
	assert_int_equal(sl_blocks_take(&w->store, w->store.unit_count * SL_UNIT_BYTES + 1, &bytes), 0);
	assert_int_equal(sl_blocks_take(&w->store, UINT64_MAX - SL_UNIT_BYTES, &bytes), 0);
	sl_blocks_abort(&w->store);
	assert_int_equal(bytes, 77);
	assert_null(sl_blocks_verify(&w->store));
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

static void what_is_no_block_is_not_freed(void **state) {
	struct world *w = *state;
	const uint32_t none[] = {0, w->freed, w->taken + 1, (uint32_t)w->store.unit_count, UINT32_MAX};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		give(&w->store, none[i]);
		assert_null(sl_blocks_verify(&w->store));
		assert_int_equal(w->store.blocks->free_units, ((struct sl_blocks *)(void *)((char *)w->sound +
		                 SL_BLOCKS_CONTROL_OFFSET))->free_units);
	}
}

/* The end of the run before it says another length than its beginning, or one that begins before the arena: it is left
 * alone, and the block becomes a run of its own. */
static void a_neighbour_that_contradicts_itself_is_not_joined(void **state) {
	struct world *w = *state;
	const uint64_t lengths[] = {FREED - 1, FREED + 1, w->taken, UINT32_MAX, UINT64_MAX};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		*end_of_run(w, w->freed, FREED) = lengths[i];
		give(&w->store, w->taken);
		assert_int_equal(*units_of_run(w, w->taken), TAKEN);
		assert_int_equal(*units_of_run(w, w->freed), FREED);
		assert_int_equal(*end_of_run(w, w->taken, TAKEN), TAKEN);
		heal(w);
	}
	give(&w->store, w->taken); /* and one that agrees is */
	assert_int_equal(*units_of_run(w, w->freed), FREED + TAKEN);
	assert_null(sl_blocks_verify(&w->store));
}

/* ---- whose it is, and how long ----------------------------------------------------------------------------------- */

static void a_block_without_an_owner_is_nobodys(void **state) {
	struct world *w = *state;
	const struct sl_slot *slot = &w->store.pages[w->store.page_count - 1].buckets[SL_PAGE_BUCKETS - 1].slots[4];
	const struct {
		uint64_t page, slot;
	} rows[] = {{w->store.page_count, 0}, {UINT32_MAX, 3}, {0, SL_PAGE_SLOTS}, {0, UINT8_MAX}};
	struct sl_block_head *head = sl_block_head(&w->store, w->taken);
	sl_block_own(&w->store, w->taken, slot);
	assert_ptr_equal(sl_block_owner(&w->store, w->taken), slot);
	assert_int_equal(sl_block_units(&w->store, w->taken), TAKEN);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		head->word = (rows[i].page << SL_BLOCK_OWNER_SLOT_BITS | rows[i].slot) << SL_BLOCK_UNITS_BITS | TAKEN;
		assert_null(sl_block_owner(&w->store, w->taken));
	}
}

static void a_number_that_is_no_block_has_one_unit_at_most(void **state) {
	struct world *w = *state;
	const uint32_t none[] = {(uint32_t)w->store.unit_count, (uint32_t)w->store.unit_count + 1, UINT32_MAX};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		assert_ptr_equal(sl_block_head(&w->store, none[i]), w->store.units);
		assert_int_equal(sl_block_units(&w->store, none[i]), 1);
		assert_int_equal(sl_block_bytes(&w->store, none[i]), SL_UNIT_BYTES - sizeof(struct sl_block_head));
	}
	sl_block_head(&w->store, w->last)->word = 0;
	assert_int_equal(sl_block_units(&w->store, w->last), 1);
	sl_block_head(&w->store, w->last)->word = w->store.unit_count - w->last; /* all that is behind it */
	assert_int_equal(sl_block_units(&w->store, w->last), w->store.unit_count - w->last);
	sl_block_head(&w->store, w->last)->word++;
	assert_int_equal(sl_block_units(&w->store, w->last), 1);
}

/* ---- undoing ----------------------------------------------------------------------------------------------------- */

/* Words outside of what a change of the blocks may write are not put back: a damaged log is no way to write a header,
 * or past the end. */
static void only_words_of_the_arena_are_put_back(void **state) {
	struct world *w = *state;
	struct sl_blocks *blocks = w->store.blocks;
	uint64_t last_word = ARENA - 8, free_units = offsetof(struct sl_blocks, free_units) + SL_BLOCKS_CONTROL_OFFSET;
	const struct sl_undo log[] = {
		{free_units, 1234}, {free_units + 1, UINT64_MAX}, {free_units + 4, UINT64_MAX}, {0, UINT64_MAX},
		{SL_BLOCKS_CONTROL_OFFSET - 8, UINT64_MAX}, {ARENA, UINT64_MAX}, {UINT64_MAX - 7, UINT64_MAX}, {last_word, 5},
	};
	memcpy(blocks->undo, log, sizeof log);
	blocks->undo_count = sizeof log / sizeof *log;
	memcpy(w->sound, w->memory, ARENA);
	assert_int_equal(sl_blocks_begin(&w->store), SLUICE_OK);
	sl_blocks_commit(&w->store);
	assert_int_equal(blocks->free_units, 1234);
	assert_int_equal(*(uint64_t *)(void *)((char *)w->memory + last_word), 5);
	/* and nothing else was written */
	((struct sl_blocks *)(void *)((char *)w->sound + SL_BLOCKS_CONTROL_OFFSET))->free_units = 1234;
	((struct sl_blocks *)(void *)((char *)w->sound + SL_BLOCKS_CONTROL_OFFSET))->undo_count = 0;
	memset((char *)w->sound + last_word, 0, 8);
	*((char *)w->sound + last_word) = 5;
	assert_memory_equal(w->memory, w->sound, ARENA);
}

/* A log that says it is longer than it can be: as much as there is of it is undone, and no change adds to it. */
static void a_log_has_an_end(void **state) {
	struct world *w = *state;
	struct sl_blocks *blocks = w->store.blocks;
	const uint32_t counts[] = {SL_UNDO_MAX, SL_UNDO_MAX + 1, UINT32_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		uint64_t free_units = blocks->free_units;
		memset(blocks->undo, 0, sizeof blocks->undo); /* of the change before */
		blocks->undo[SL_UNDO_MAX - 1] =
			(struct sl_undo){offsetof(struct sl_blocks, free_units) + SL_BLOCKS_CONTROL_OFFSET, free_units + 1};
		assert_int_equal(sl_blocks_begin(&w->store), SLUICE_OK);
		blocks->undo_count = counts[i];
		sl_blocks_save(&w->store, &blocks->free_units);
		assert_int_equal(blocks->undo_count, counts[i]);
		sl_blocks_abort(&w->store);
		assert_int_equal(blocks->undo_count, 0);
		assert_int_equal(blocks->free_units, free_units + 1);
		heal(w);
	}
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(a_list_that_names_no_unit_gives_none),
		IN_A_WORLD(a_run_of_an_impossible_length_is_one_unit),
		IN_A_WORLD(there_is_no_block_of_nothing),
		IN_A_WORLD(what_is_no_block_is_not_freed),
		IN_A_WORLD(a_neighbour_that_contradicts_itself_is_not_joined),
		IN_A_WORLD(a_block_without_an_owner_is_nobodys),
		IN_A_WORLD(a_number_that_is_no_block_has_one_unit_at_most),
		IN_A_WORLD(only_words_of_the_arena_are_put_back),
		IN_A_WORLD(a_log_has_an_end),
	};
	return cmocka_run_group_tests_name("blocks, damaged", tests, NULL, NULL);
}
