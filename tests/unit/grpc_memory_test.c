/* Blocks of the gRPC door: none overlaps another, what was given back is taken again, and a slab that is used up is no
 * end. Under AddressSanitizer all of it is malloc's, and the same holds. */
#include "hosts/server/grpc/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sl_grpc_memory *memory;

static int setup(void **state) {
	(void)state;
	memory = calloc(1, sizeof *memory);
	return memory == NULL;
}

static int teardown(void **state) {
	(void)state;
	free(memory);
	return 0;
}

static bool is_in_slab(const void *block) {
	const uint8_t *p = block;
	return p >= memory->slab && p < memory->slab + sizeof memory->slab;
}

static void assert_filled(const uint8_t *block, size_t bytes, uint8_t with) {
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(block[i], with);
}

/* Random sizes, more than the slab has room for: each block keeps what was written to it until it is given back. */
static void test_none_overlaps(void **state) {
	enum { BLOCKS = 4000, TURNS = 60000 };
	static uint8_t *blocks[BLOCKS];
	static size_t bytes[BLOCKS];
	uint32_t seed = 1, outside = 0;
	(void)state;
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		seed = seed * 1664525 + 1013904223;
		uint32_t i = (seed >> 8) % BLOCKS;
		size_t want = 1 + (seed >> 20) % (SL_GRPC_BLOCK_MAX + 100);
		if (blocks[i] != NULL) {
			assert_filled(blocks[i], bytes[i], (uint8_t)i);
			sl_grpc_give(memory, blocks[i]);
		}
		blocks[i] = sl_grpc_take(memory, want);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % 16, 0);
		outside += !is_in_slab(blocks[i]) && want <= SL_GRPC_BLOCK_MAX;
		bytes[i] = want;
		memset(blocks[i], (int)i, want);
	}
	assert_true(outside != 0); /* the slab was used up */
	for (uint32_t i = 0; i < BLOCKS; i++)
		sl_grpc_give(memory, blocks[i]);
	memset(blocks, 0, sizeof blocks);
}

static void test_sizes(void **state) {
	static const size_t sizes[] = {1, SL_GRPC_CLASS_BYTES, SL_GRPC_CLASS_BYTES + 1, SL_GRPC_BLOCK_MAX};
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		void *block = sl_grpc_take(memory, sizes[i]);
		bool pooled = is_in_slab(block);
		sl_grpc_give(memory, block);
		void *again = sl_grpc_take(memory, sizes[i]);
		if (pooled)
			assert_ptr_equal(again, block);
		sl_grpc_give(memory, again);
	}
	void *large = sl_grpc_take(memory, SL_GRPC_BLOCK_MAX + 1);
	assert_false(is_in_slab(large));
	sl_grpc_give(memory, large);
	sl_grpc_give(memory, NULL);
	assert_null(sl_grpc_take_zeroed(memory, SIZE_MAX / 2, 3));
}

static void test_zeroed(void **state) {
	(void)state;
	uint8_t *block = sl_grpc_take(memory, 200);
	memset(block, 0xFF, 200);
	sl_grpc_give(memory, block);
	block = sl_grpc_take_zeroed(memory, 50, 4);
	assert_filled(block, 200, 0);
	sl_grpc_give(memory, block);
}

/* It grows out of its class, and then out of the slab, and keeps what it holds. */
static void test_grows(void **state) {
	uint8_t *block = NULL;
	(void)state;
	for (size_t bytes = 1; bytes <= 4 * SL_GRPC_BLOCK_MAX; bytes *= 2) {
		block = sl_grpc_resize(memory, block, bytes);
		assert_non_null(block);
		assert_filled(block, bytes / 2, 7);
		memset(block, 7, bytes);
	}
	assert_false(is_in_slab(block));
	sl_grpc_give(memory, block);
}

int main(void) {
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_none_overlaps),
		TEST(test_sizes),
		TEST(test_zeroed),
		TEST(test_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
