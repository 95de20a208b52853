/* The arena as a whole: which headers are refused and in which words, those with a right check included, since whoever
 * can write a file can write that; an arena made like another; and the instant that no charge has reached. */
#include "base/siphash.h"
#include "store/scan.h"
#include "store/slot.h"
#include "store/store.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct sl_header *formatted(uint64_t seed) {
	void *memory = arena_map();
	arena_format(memory, seed);
	return memory;
}

/* As docs/format.md has it. */
static void check_anew(struct sl_header *header) {
	const uint64_t key[2] = {SL_ARENA_MAGIC, SL_ARENA_VERSION};
	const size_t from = offsetof(struct sl_header, version), to = offsetof(struct sl_header, check);
	header->check = sl_siphash(key, NULL, 0, sl_slice((const char *)header + from, to - from), 1, 3);
}

/* ---- refusing ---------------------------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(struct sl_header, name), sizeof(((struct sl_header *)0)->name)

static const struct {
	size_t offset, bytes;
	uint64_t added;
	const char *told;
} forged[] = {
	{FIELD(version), 1, "it was made by another version of Sluice: dump it there, load it here"},
	{FIELD(header_bytes), 8, "it was made by another version of Sluice: dump it there, load it here"},
	{FIELD(arena_bytes), SL_PAGE_BYTES, "it has been truncated"},
	{FIELD(arena_bytes), -(uint64_t)SL_PAGE_BYTES, "it is longer than when it was made"},
	{FIELD(blocks_percent), UINT32_MAX - SL_BLOCKS_PERCENT_DEFAULT + 1, "its header has an impossible size"},
	{FIELD(blocks_percent), SL_BLOCKS_PERCENT_MAX, "its header has an impossible size"},
	{FIELD(page_count), 1, "its header has impossible parts"},
	{FIELD(cell_count), 1, "its header has impossible parts"},
	{FIELD(unit_count), 1, "its header has impossible parts"},
	{FIELD(sketch_offset), 8, "its header has impossible parts"},
	{FIELD(map_offset), 8, "its header has impossible parts"},
	{FIELD(blocks_offset), 8, "its header has impossible parts"},
	{FIELD(hash_top_bits), 1, "its header has impossible parts"},
	{FIELD(hash_top_bits), UINT32_MAX, NULL}, /* one bit less: as of an arena that was made like a smaller one */
};

static void each_forged_field_is_refused(void **state) {
	struct sl_header *header = formatted(1), sound = *header;
	(void)state;
	assert_null(sl_arena_refuse(header, ARENA_BYTES));
	for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
		uint64_t value = 0;
		const char *told;
		memcpy(&value, (char *)header + forged[i].offset, forged[i].bytes); /* little-endian, as arenas are */
		value += forged[i].added;
		memcpy((char *)header + forged[i].offset, &value, forged[i].bytes);
		if (forged[i].offset > offsetof(struct sl_header, header_bytes)) {
			told = sl_arena_refuse(header, ARENA_BYTES);
			assert_string_equal(told != NULL ? told : "nothing", "its header is damaged");
		}
		check_anew(header);
		told = sl_arena_refuse(header, ARENA_BYTES);
		if (forged[i].told == NULL)
			assert_null(told);
		else
			assert_string_equal(told != NULL ? told : "nothing", forged[i].told);
		*header = sound;
	}
	munmap(header, ARENA_BYTES);
}

static void what_is_no_arena_is_refused(void **state) {
	struct sl_header *header = formatted(1);
	(void)state;
	assert_string_equal(sl_arena_refuse(header, sizeof *header - 1), "it is too short to be a store");
	assert_string_equal(sl_arena_refuse(header, sizeof *header), "it has been truncated");
	header->magic++;
	assert_string_equal(sl_arena_refuse(header, ARENA_BYTES), "it is not a Sluice store of this kind of machine");
	munmap(header, ARENA_BYTES);
}

/* ---- one like another -------------------------------------------------------------------------------------------- */

static const struct {
	uint64_t bytes;
	uint32_t percent;
	sluice_err err;
} sizes[] = {
	{ARENA_BYTES - SL_PAGE_BYTES, 50, SLUICE_E_RANGE}, {ARENA_BYTES + 1, 50, SLUICE_E_RANGE},
	{SL_ARENA_BYTES_MAX + SL_PAGE_BYTES, 50, SLUICE_E_RANGE}, {ARENA_BYTES, 0, SLUICE_E_RANGE},
	{ARENA_BYTES, SL_BLOCKS_PERCENT_MAX + 1, SLUICE_E_RANGE}, {ARENA_BYTES, 1, SLUICE_OK},
	{ARENA_BYTES, SL_BLOCKS_PERCENT_MAX, SLUICE_OK},
};

static void a_size_that_cant_be_changes_nothing(void **state) {
	static const char zeros[ARENA_BYTES];
	const uint64_t secret[2] = {3, 4};
	struct sl_header *like = formatted(1);
	void *memory = arena_map();
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(memory, 0, ARENA_BYTES);
		assert_int_equal(sl_arena_format(memory, sizes[i].bytes, sizes[i].percent, secret, 1), sizes[i].err);
		assert_int_equal(memcmp(memory, zeros, ARENA_BYTES) == 0, sizes[i].err != SLUICE_OK);
		memset(memory, 0, ARENA_BYTES);
		assert_int_equal(sl_arena_format_like(memory, sizes[i].bytes, sizes[i].percent, like), sizes[i].err);
		assert_int_equal(memcmp(memory, zeros, ARENA_BYTES) == 0, sizes[i].err != SLUICE_OK);
	}
	munmap(memory, ARENA_BYTES);
	munmap(like, ARENA_BYTES);
}

struct moved {
	struct sluice_store *to;
	uint32_t count;
};

static bool move(void *context, const struct sl_entry *entry) {
	struct moved *moved = context;
	assert_int_equal(sl_store_put(moved->to, entry, ARENA_START_NS), SLUICE_OK);
	assert_int_equal(sl_store_put(moved->to, entry, ARENA_START_NS), SLUICE_E_RANGE); /* it is found where it was put */
	moved->count++;
	return true;
}

static void move_all(struct sluice_store *from, struct sluice_store *to, uint32_t count) {
	struct moved moved = {to, 0};
	for (uint64_t page = 0; page < from->page_count; page++)
		assert_true(sl_store_scan(from, page, ARENA_START_NS, NULL, move, &moved));
	assert_int_equal(moved.count, count);
	assert_null(sl_store_verify(to));
}

/* Counters that are known by fewer bits of their hash stay so from arena to arena, down to none above the page's; each
 * is found by its key in the last one, with what it was charged. */
static void counters_move_whatever_is_known_of_their_hash(void **state) {
	enum { KEYS = 200 };
	(void)state;
	for (uint32_t bits = 0; bits <= 6; bits++) {
		struct sluice_limit limit = arena_limit("fixed-window 9/1d"), log = arena_limit("sliding-log 9/1d");
		struct sl_header *first = formatted(5 + bits), *second = arena_map(), *third = arena_map();
		struct sluice_store a, b, c;
		char key[16];
		first->hash_top_bits = bits;
		check_anew(first);
		assert_null(sl_arena_refuse(first, ARENA_BYTES));
		arena_attach(&a, first, ARENA_SURVIVOR);
		for (int i = 0; i < KEYS; i++) {
			(void)snprintf(key, sizeof key, "key %d", i);
			assert_int_equal(arena_call(&a, SLUICE_CHARGE, i % 2 ? &limit : &log, key, 1 + (uint32_t)i % 9,
			                            ARENA_START_NS, NULL), SLUICE_OK);
		}
		assert_int_equal(sl_arena_format_like(second, ARENA_BYTES, 70, first), SLUICE_OK);
		assert_int_equal(second->hash_top_bits, bits);
		assert_int_equal(second->latest_charge, first->latest_charge);
		arena_attach(&b, second, ARENA_SURVIVOR);
		move_all(&a, &b, KEYS);
		assert_int_equal(sl_arena_format_like(third, ARENA_BYTES, 50, second), SLUICE_OK);
		arena_attach(&c, third, ARENA_SURVIVOR);
		move_all(&b, &c, KEYS);
		for (int i = 0; i < KEYS; i++) {
			struct sluice_decision decision;
			(void)snprintf(key, sizeof key, "key %d", i);
			assert_int_equal(arena_call(&c, SLUICE_PEEK, i % 2 ? &limit : &log, key, 1, ARENA_START_NS, &decision),
			                 SLUICE_OK);
			assert_int_equal(decision.remaining, 8 - i % 9);
		}
		munmap(first, ARENA_BYTES);
		munmap(second, ARENA_BYTES);
		munmap(third, ARENA_BYTES);
	}
}

/* ---- the latest charge ------------------------------------------------------------------------------------------- */

static void no_charge_is_later_than_the_latest(void **state) {
	const sluice_ns instants[] = {0, 1, SL_LATEST_STEP_NS - 1, SL_LATEST_STEP_NS, ARENA_START_NS,
	                              UINT64_MAX - 3 * SL_LATEST_STEP_NS, UINT64_MAX - SL_LATEST_STEP_NS, UINT64_MAX};
	struct sl_header *header = formatted(1);
	struct sluice_store store;
	(void)state;
	arena_attach(&store, header, ARENA_SURVIVOR);
	assert_true(sl_store_latest_charge(&store) == 0); /* there was none */
	for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
		uint64_t steps = 2; /* so far ahead of the truth at most; at the end of time there is nothing later */
		sl_store_raise_latest(&store, instants[i]);
		sluice_ns latest = sl_store_latest_charge(&store);
		assert_true(latest % SL_LATEST_STEP_NS == 0);
		assert_true(latest > instants[i] || latest > UINT64_MAX - 2 * SL_LATEST_STEP_NS);
		assert_true(latest < SL_LATEST_STEP_NS || latest - SL_LATEST_STEP_NS <= instants[i] ||
		            latest - instants[i] <= steps * SL_LATEST_STEP_NS);
		assert_true(store.latest_ns == latest - SL_LATEST_STEP_NS);
		sl_store_raise_latest(&store, instants[i] / 2); /* an earlier one takes nothing back */
		assert_true(sl_store_latest_charge(&store) == latest);
	}
	header->latest_charge ^= 1;
	assert_true(sl_store_latest_charge(&store) == UINT64_MAX); /* damaged: any may have been */
	munmap(header, ARENA_BYTES);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_forged_field_is_refused),
		cmocka_unit_test(what_is_no_arena_is_refused),
		cmocka_unit_test(a_size_that_cant_be_changes_nothing),
		cmocka_unit_test(counters_move_whatever_is_known_of_their_hash),
		cmocka_unit_test(no_charge_is_later_than_the_latest),
	};
	return cmocka_run_group_tests_name("the arena", tests, NULL, NULL);
}
