/* The store by itself: slots claimed, spilled, expired and freed; blocks taken and given back; the arena verified after
 * every phase. */
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA = 1 << 20, SECOND = 1000000000 };

struct fixture {
	struct sluice_store store;
	void *memory;
};

static uint64_t dice_state = 88172645463325252;

static uint64_t dice(uint64_t below) {
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return dice_state % below;
}

static int open_store(void **state) {
	struct fixture *f = calloc(1, sizeof *f);
	const uint64_t secret[2] = {7, 11};
	assert_non_null(f);
	f->memory = aligned_alloc(4096, ARENA);
	assert_non_null(f->memory);
	memset(f->memory, 0, ARENA);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 50, secret), SLUICE_OK);
	sl_arena_attach(&f->store, f->memory);
	*state = f;
	return 0;
}

static int close_store(void **state) {
	struct fixture *f = *state;
	free(f->memory);
	free(f);
	return 0;
}

static struct sl_place place_of(const struct sluice_store *store, uint64_t key, bool has_block) {
	const uint64_t identity = 42;
	return sl_place_of(store, &identity, 1, sl_slice(&key, sizeof key), has_block);
}

static void sizes_out_of_range_are_refused(void **state) {
	struct fixture *f = *state;
	const uint64_t secret[2] = {1, 2};
	assert_int_equal(sl_arena_format(f->memory, SL_ARENA_BYTES_MIN - 1, 50, secret), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, SL_ARENA_BYTES_MAX + 1, 50, secret), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 0, secret), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 91, secret), SLUICE_E_RANGE);
	assert_null(sl_store_verify(&f->store));
}

static struct sl_slot *insert(struct sluice_store *store, uint64_t key, sluice_ns now, sluice_ns life) {
	struct sl_place place = place_of(store, key, false);
	struct sl_slot *slot;
	sl_lock(store, &place.home->lock);
	slot = sl_slot_find(&place);
	if (slot == NULL)
		slot = sl_slot_claim(store, &place, now);
	if (slot != NULL)
		sl_slot_publish(slot, (const uint64_t[2]){now, key}, life);
	sl_unlock(&place.home->lock);
	return slot;
}

static struct sl_slot *find(struct sluice_store *store, uint64_t key) {
	struct sl_place place = place_of(store, key, false);
	return sl_slot_find(&place);
}

/* Up to a load of 0.7 every key finds room, and is found again with its own state, spilled or not. */
static void keys_are_found_again_at_a_load_of_seven_tenths(void **state) {
	struct fixture *f = *state;
	uint64_t keys = f->store.page_count * SL_PAGE_BUCKETS * SL_BUCKET_SLOTS * 7 / 10;
	for (uint64_t key = 0; key < keys; key++)
		assert_non_null(insert(&f->store, key, SECOND, 60 * (sluice_ns)SECOND));
	for (uint64_t key = 0; key < keys; key++) {
		assert_non_null(find(&f->store, key));
		assert_int_equal(find(&f->store, key)->state[1], key);
	}
	assert_null(find(&f->store, keys));
	assert_null(sl_store_verify(&f->store));
}

static void a_full_page_refuses_and_expired_slots_are_reused(void **state) {
	struct fixture *f = *state;
	uint64_t slots = f->store.page_count * SL_PAGE_BUCKETS * SL_BUCKET_SLOTS, in = 0, refused = 0;
	sluice_ns later = 1000 * (sluice_ns)SECOND;
	for (uint64_t key = 0; key < 2 * slots; key++) {
		if (insert(&f->store, key, SECOND, 60 * (sluice_ns)SECOND) != NULL)
			in++;
		else
			refused++;
	}
	assert_int_equal(in, slots);
	assert_int_equal(refused, slots);
	assert_null(sl_store_verify(&f->store));
	for (uint64_t key = 2 * slots; key < 2 * slots + slots / 2; key++)
		assert_non_null(insert(&f->store, key, later, SECOND));
	assert_null(sl_store_verify(&f->store));
}

/* A lifetime never ends early, and at most a quarter and a coarse instant late. */
static void lifetimes_round_up(void **state) {
	(void)state;
	for (int i = 0; i < 100000; i++) {
		sluice_ns life = (sluice_ns)dice((uint64_t)1 << (1 + dice(60)));
		uint64_t code = sl_life_code(life), units = (4 + (code & 3)) << (code >> 2);
		assert_true(code < 255);
		assert_true(units >= (life >> 19) + 2);
		assert_true(units <= (life >> 19) + (life >> 21) + 8);
	}
}

static void a_pinned_slot_is_not_taken_for_expired(void **state) {
	struct fixture *f = *state;
	struct sl_slot *slot = insert(&f->store, 1, SECOND, SECOND);
	uint64_t tag = sl_slot_pin(slot), slots = f->store.page_count * SL_PAGE_BUCKETS * SL_BUCKET_SLOTS;
	for (uint64_t key = 2; key < 3 * slots; key++)
		(void)insert(&f->store, key, 1000 * (sluice_ns)SECOND, 1000 * (sluice_ns)SECOND);
	assert_ptr_equal(find(&f->store, 1), slot);
	sl_slot_unpin(slot, tag);
	assert_int_equal(slot->tag, tag);
}

static void freeing_every_key_leaves_an_empty_arena(void **state) {
	struct fixture *f = *state;
	uint64_t keys = f->store.page_count * SL_PAGE_BUCKETS * 4;
	for (uint64_t key = 0; key < keys; key++)
		(void)insert(&f->store, key, SECOND, SECOND);
	for (uint64_t key = 0; key < keys; key++) {
		struct sl_place place = place_of(&f->store, key, false);
		struct sl_slot *slot = sl_slot_find(&place);
		if (slot != NULL)
			sl_slot_free(&f->store, &place, slot);
	}
	for (uint64_t p = 0; p < f->store.page_count; p++)
		for (int b = 0; b < SL_PAGE_BUCKETS; b++) {
			assert_int_equal(f->store.pages[p].buckets[b].spill, 0);
			for (int s = 0; s < SL_BUCKET_SLOTS; s++)
				assert_int_equal(f->store.pages[p].buckets[b].slots[s].tag, 0);
		}
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void blocks_hold_what_was_asked_for(void **state) {
	struct fixture *f = *state;
	for (uint64_t bytes = 1; bytes < 100000; bytes += bytes / 7 + 1) {
		uint64_t got = 0;
		uint32_t block = sl_block_take(&f->store, bytes, &got);
		assert_true(block != 0);
		assert_true(got >= bytes && got <= bytes + bytes / 4 + SL_UNIT_BYTES);
		assert_int_equal(sl_block_bytes(&f->store, block), got);
		memset(sl_block_memory(&f->store, block), 0xff, got);
		sl_block_free(&f->store, block);
	}
	assert_null(sl_blocks_verify(&f->store));
}

static void more_than_there_is_is_refused(void **state) {
	struct fixture *f = *state;
	uint64_t got;
	assert_int_equal(sl_block_take(&f->store, 0, &got), 0);
	assert_int_equal(sl_block_take(&f->store, ARENA, &got), 0);
	assert_int_equal(sl_block_take(&f->store, UINT64_MAX, &got), 0);
	assert_null(sl_blocks_verify(&f->store));
}

/* Days of growing and shrinking: a quarter million blocks come and go, each keeps its bytes, and all room comes
 * back. */
static void nothing_overlaps_and_all_room_comes_back(void **state) {
	enum { HELD = 300 };
	struct fixture *f = *state;
	uint32_t blocks[HELD] = {0}, room = f->store.header->free_units;
	uint64_t bytes[HELD] = {0};
	printf("seed %llu\n", (unsigned long long)dice_state);
	for (int i = 0; i < 250000; i++) {
		size_t at = dice(HELD);
		if (blocks[at] != 0) {
			const unsigned char *p = sl_block_memory(&f->store, blocks[at]);
			assert_int_equal(p[0], at & 255);
			assert_int_equal(p[bytes[at] - 1], at & 255);
			sl_block_free(&f->store, blocks[at]);
		}
		blocks[at] = sl_block_take(&f->store, 1 + dice((uint64_t)64 << dice(7)), &bytes[at]);
		if (blocks[at] != 0)
			memset(sl_block_memory(&f->store, blocks[at]), (int)(at & 255), bytes[at]);
		if (i % 10000 == 0)
			assert_null(sl_blocks_verify(&f->store));
	}
	for (size_t at = 0; at < HELD; at++)
		if (blocks[at] != 0)
			sl_block_free(&f->store, blocks[at]);
	assert_int_equal(f->store.header->free_units, room);
	assert_null(sl_blocks_verify(&f->store));
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void) {
	const struct CMUnitTest tests[] = {
		WITH_STORE(sizes_out_of_range_are_refused),
		WITH_STORE(keys_are_found_again_at_a_load_of_seven_tenths),
		WITH_STORE(a_full_page_refuses_and_expired_slots_are_reused),
		cmocka_unit_test(lifetimes_round_up),
		WITH_STORE(a_pinned_slot_is_not_taken_for_expired),
		WITH_STORE(freeing_every_key_leaves_an_empty_arena),
		WITH_STORE(blocks_hold_what_was_asked_for),
		WITH_STORE(more_than_there_is_is_refused),
		WITH_STORE(nothing_overlaps_and_all_room_comes_back),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
