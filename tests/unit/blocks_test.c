/* Free runs of blocks, class by class, and what verifying finds in them: each kind of damage by itself, by the words
 * that it is told with. */
#include "store/blocks.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA = 1 << 20, OWNER = 1 << SL_OWNER_ROW_SHIFT | 1 };

struct fixture {
	struct sluice_store store;
	void *memory, *sound;
};

static int open_store(void **state) {
	struct fixture *f = calloc(1, sizeof *f);
	const uint64_t secret[2] = {7, 11};
	assert_non_null(f);
	f->memory = aligned_alloc(SL_PAGE_BYTES, ARENA);
	f->sound = malloc(ARENA);
	assert_true(f->memory != NULL && f->sound != NULL);
	memset(f->memory, 0, ARENA);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 50, secret, 5), SLUICE_OK);
	sl_arena_attach(&f->store, f->memory);
	f->store.owner = OWNER;
	*state = f;
	return 0;
}

static int close_store(void **state) {
	struct fixture *f = *state;
	free(f->sound);
	free(f->memory);
	free(f);
	return 0;
}

/* A block of so many units; 0 where there is none. */
static uint32_t take(struct sluice_store *store, uint32_t units) {
	uint64_t bytes;
	uint32_t block;
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	block = sl_blocks_take(store, (uint64_t)units * SL_UNIT_BYTES - sizeof(struct sl_block_head), &bytes);
	sl_blocks_commit(store);
	assert_true(block == 0 || sl_block_units(store, block) == units);
	return block;
}

static void give(struct sluice_store *store, uint32_t block) {
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	sl_blocks_free(store, block);
	sl_blocks_commit(store);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* By definition: four to an octave, and in it by how far a run is from one power of two to the next. */
static unsigned class_by_definition(uint32_t units) {
	unsigned octave = 0;
	while ((uint64_t)2 << octave <= units)
		octave++;
	return 4 * octave + (unsigned)(((uint64_t)units - ((uint64_t)1 << octave)) * 4 / ((uint64_t)1 << octave));
}

/* docs/format.md: `heads` and `nonempty` are read by other versions of this program. */
static void a_free_run_hangs_in_the_list_of_its_class(void **state) {
	struct sluice_store *store = &((struct fixture *)*state)->store;
	const struct sl_blocks *blocks = store->blocks;
	assert_int_equal(class_by_definition(1), 0);
	assert_int_equal(class_by_definition(7), 11);
	assert_int_equal(class_by_definition(4095), 47);
	assert_int_equal(blocks->heads[class_by_definition((uint32_t)store->unit_count - 1)], 1);
	for (uint32_t units = 1; units < 3000; units += units < 70 ? 1 : units / 13) {
		uint32_t block = take(store, units), fence = take(store, 1);
		unsigned class = class_by_definition(units);
		assert_true(block != 0 && fence != 0);
		give(store, block);
		assert_int_equal(blocks->heads[class], block);
		assert_true(blocks->nonempty[class / 64] >> class % 64 & 1);
		assert_null(sl_blocks_verify(store));
		give(store, fence);
		assert_int_equal(blocks->heads[class], 0);
	}
}

/* Of two free runs, one a unit too short and one that is long enough, the second is taken, in whatever class it is. */
static void a_run_that_is_long_enough_is_found(void **state) {
	struct sluice_store *store = &((struct fixture *)*state)->store;
	for (uint32_t units = 2; units < 70; units++)
		for (uint32_t longer = units; longer < 70; longer++) {
			uint32_t block = take(store, longer), fence = take(store, 1), shorter = take(store, units - 1);
			uint32_t second = take(store, 1), rest, found;
			give(store, block);
			give(store, shorter);
			rest = take(store, (uint32_t)store->blocks->free_units - longer - (units - 1));
			assert_true(rest != 0); /* now these two are all there is */
			found = take(store, units);
			assert_int_equal(found, block);
			give(store, found);
			assert_int_equal(take(store, longer + 1), 0);
			give(store, rest);
			give(store, fence);
			give(store, second);
		}
	assert_int_equal(store->blocks->free_units, store->unit_count - 1);
	assert_null(sl_blocks_verify(store));
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

static void a_run_inside(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)freed;
	s->map[taken + 1] = 1;
}

static void of_no_run(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)freed;
	s->map[taken] = 0;
}

static void past_the_end(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)freed;
	sl_block_head(s, taken)->word |= (1 << SL_BLOCK_UNITS_BITS) - 1;
}

static void without_length(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken;
	*(uint64_t *)(void *)(s->units + (size_t)(freed + 3) * SL_UNIT_BYTES - 8) += 1;
}

static void of_no_unit(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken;
	*(uint32_t *)(void *)(s->units + (size_t)freed * SL_UNIT_BYTES) = 0;
}

static void free_past_the_end(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken;
	*(uint32_t *)(void *)(s->units + (size_t)freed * SL_UNIT_BYTES) = (uint32_t)s->unit_count - freed + 1;
}

/* The block turned into a free run that is whole, but for the one before it, with which it should be one. */
static void beside_another(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)freed;
	s->map[taken] = 2;
	s->map[taken + 4] = 3;
	*(uint32_t *)(void *)(s->units + (size_t)taken * SL_UNIT_BYTES) = 5;
	*(uint64_t *)(void *)(s->units + (size_t)(taken + 5) * SL_UNIT_BYTES - 8) = 5;
}

static void locked(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->lock = OWNER;
}

static void not_ended(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->undo_count = 1;
}

static void one_free_too_many(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->free_units++;
}

static void one_free_too_few(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->free_units--;
}

static void a_bit_of_nothing(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->nonempty[1] |= (uint64_t)1 << 63;
}

static void a_bit_is_gone(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->nonempty[0] &= ~((uint64_t)1 << class_by_definition(3));
}

static void a_list_of_a_block(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)freed;
	s->blocks->heads[class_by_definition(3)] = taken;
}

static void a_list_of_nowhere(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken, (void)freed;
	s->blocks->heads[class_by_definition(3)] = (uint32_t)s->unit_count;
}

/* The next one's "previous" is a run, and not the one before it. */
static void a_list_that_goes_back_elsewhere(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken;
	*(uint32_t *)(void *)(s->units + (size_t)freed * SL_UNIT_BYTES + 8) = freed;
}

static void a_list_without_end(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	(void)taken;
	*(uint32_t *)(void *)(s->units + (size_t)freed * SL_UNIT_BYTES + 4) = freed;
}

static void of_another_class(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	unsigned class = class_by_definition(3);
	(void)taken;
	s->blocks->heads[class] = 0;
	s->blocks->heads[class + 1] = freed;
	s->blocks->nonempty[0] ^= (uint64_t)3 << class;
}

static void in_no_list(struct sluice_store *s, uint32_t taken, uint32_t freed) {
	unsigned class = class_by_definition(3);
	(void)taken, (void)freed;
	s->blocks->heads[class] = 0;
	s->blocks->nonempty[0] &= ~((uint64_t)1 << class);
}

static void verifying_tells_each_damage(void **state) {
	static const struct {
		void (*damage)(struct sluice_store *, uint32_t taken, uint32_t freed);
		const char *says;
	} rows[] = {
		{a_run_inside, "the block map has a run inside of a run"},
		{of_no_run, "the block map has a unit that belongs to no run"},
		{past_the_end, "the block map has a unit that belongs to no run"},
		{of_no_unit, "the block map has a unit that belongs to no run"},
		{free_past_the_end, "the block map has a unit that belongs to no run"},
		{beside_another, "two free runs are neighbours, or the ends of one disagree"},
		{without_length, "two free runs are neighbours, or the ends of one disagree"},
		{locked, "a change of the blocks was not completed"},
		{not_ended, "a change of the blocks was not completed"},
		{one_free_too_many, "the number of free units is not that of the block map"},
		{one_free_too_few, "the number of free units is not that of the block map"},
		{a_bit_of_nothing, "a list of free runs is not what its bit says"},
		{a_bit_is_gone, "a list of free runs is not what its bit says"},
		{a_list_of_a_block, "a list of free runs names what is none of its runs"},
		{a_list_of_nowhere, "a list of free runs names what is none of its runs"},
		{a_list_that_goes_back_elsewhere, "a list of free runs names what is none of its runs"},
		{a_list_without_end, "a list of free runs names what is none of its runs"},
		{of_another_class, "a list of free runs names what is none of its runs"},
		{in_no_list, "a free run is in no list"},
	};
	struct fixture *f = *state;
	uint32_t freed = take(&f->store, 3), taken = take(&f->store, 5);
	assert_true(freed != 0 && taken != 0);
	give(&f->store, freed);
	memcpy(f->sound, f->memory, ARENA);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *says;
		assert_null(sl_blocks_verify(&f->store));
		rows[i].damage(&f->store, taken, freed);
		says = sl_blocks_verify(&f->store);
		assert_string_equal(says != NULL ? says : "nothing", rows[i].says);
		memcpy(f->memory, f->sound, ARENA);
	}
	assert_null(sl_blocks_verify(&f->store));
}

/* ---- looking ahead ----------------------------------------------------------------------------------------------- */

/* The next blocks by the map, a word at a time, beside a walk from run to run: from each unit, for each number asked
 * for; never more than asked, never past what is looked at, none left out between. */
static void the_next_blocks_are_told_by_the_map(void **state) {
	struct sluice_store *store = &((struct fixture *)*state)->store;
	enum { BLOCKS = 400, MOST = 16 };
	uint32_t blocks[BLOCKS], ahead[MOST];
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_int_not_equal(blocks[i] = take(store, 1 + i % 11), 0);
	for (uint32_t i = 0; i < BLOCKS; i += 3)
		give(store, blocks[i]);
	for (uint64_t from = 1; from < store->unit_count; from += from < 3000 ? 1 : 97) {
		uint32_t most = (uint32_t)(from % (MOST + 1)), count, seen = 0;
		assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
		count = sl_blocks_ahead(store, from, most, ahead);
		sl_blocks_commit(store);
		assert_true(count <= most);
		for (uint32_t i = 0; i < BLOCKS; i++) /* they were taken in order */
			if (i % 3 != 0 && blocks[i] >= from && seen < count)
				assert_int_equal(ahead[seen++], blocks[i]);
		assert_int_equal(seen, count);
		for (uint32_t i = 0; i < BLOCKS && count < most; i++) /* whoever is left out is farther than is looked */
			if (i % 3 != 0 && blocks[i] >= from && (count == 0 || blocks[i] > ahead[count - 1]))
				assert_true(blocks[i] >= sl_min(from + SL_AHEAD_UNITS, store->unit_count) - 8);
	}
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void) {
	const struct CMUnitTest tests[] = {
		WITH_STORE(a_free_run_hangs_in_the_list_of_its_class),
		WITH_STORE(a_run_that_is_long_enough_is_found),
		WITH_STORE(the_next_blocks_are_told_by_the_map),
		WITH_STORE(verifying_tells_each_damage),
	};
	return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
