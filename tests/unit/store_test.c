/* The store by itself: slots claimed, spilled, expired and freed; blocks taken and given back; the arena verified after
 * every phase. */
#include "store/blocks.h"
#include "store/sketch.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA = 1 << 20, SECOND = 1000000000, OWNER = 1 << SL_OWNER_ROW_SHIFT | 1 };

static const struct sl_pins nothing_held = {.count = 0};

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
	f->memory = aligned_alloc(SL_PAGE_BYTES, ARENA);
	assert_non_null(f->memory);
	memset(f->memory, 0, ARENA);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 50, secret, 5), SLUICE_OK);
	assert_null(sl_arena_refuse(f->memory, ARENA));
	sl_arena_attach(&f->store, f->memory);
	f->store.owner = OWNER;
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
	assert_int_equal(sl_arena_format(f->memory, SL_ARENA_BYTES_MIN - SL_PAGE_BYTES, 50, secret, 0), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, SL_ARENA_BYTES_MIN + 1, 50, secret, 0), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, SL_ARENA_BYTES_MAX + SL_PAGE_BYTES, 50, secret, 0), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 0, secret, 0), SLUICE_E_RANGE);
	assert_int_equal(sl_arena_format(f->memory, ARENA, 99, secret, 0), SLUICE_E_RANGE);
	assert_null(sl_store_verify(&f->store));
}

/* A store of another size for the same counters knows them by no more bits of their hashes than the old one did, and by
 * no more than it has pages to tell: a store that grew and shrinks again is as before. */
static void a_store_like_another_knows_as_much_of_a_hash_as_both(void **state) {
	enum { LARGE = 8 * ARENA };
	struct fixture *f = *state;
	struct sl_header *small = f->memory, *large = aligned_alloc(SL_PAGE_BYTES, LARGE), *again;
	const uint64_t secret[2] = {7, 11};
	uint32_t few = small->hash_top_bits, many;
	assert_non_null(large);
	again = aligned_alloc(SL_PAGE_BYTES, LARGE);
	assert_non_null(again);
	memset(large, 0, LARGE);
	assert_int_equal(sl_arena_format(large, LARGE, 50, secret, 5), SLUICE_OK);
	many = large->hash_top_bits;
	assert_true(few > 0 && many == few + 3); /* eight times the pages */
	memset(again, 0, LARGE);
	assert_int_equal(sl_arena_format_like(again, LARGE, 50, large), SLUICE_OK);
	assert_int_equal(again->hash_top_bits, many);
	memset(again, 0, LARGE);
	assert_int_equal(sl_arena_format_like(again, ARENA, 50, large), SLUICE_OK);
	assert_int_equal(again->hash_top_bits, few);
	assert_null(sl_arena_refuse(again, ARENA));
	memset(large, 0, LARGE);
	assert_int_equal(sl_arena_format_like(large, LARGE, 50, again), SLUICE_OK);
	assert_int_equal(large->hash_top_bits, few);
	assert_null(sl_arena_refuse(large, LARGE));
	free(again);
	free(large);
}

/* Puts a key in, evicting where there is no other way. */
static struct sl_slot *insert_used(struct sluice_store *store, uint64_t key, sluice_ns now, sluice_ns life,
                                   uint64_t use) {
	struct sl_place place = place_of(store, key, false);
	struct sl_slot *slot;
	sl_store_raise_latest(store, now);
	assert_int_equal(sl_home_lock(store, place.home), SLUICE_OK);
	slot = sl_slot_find(&place);
	if (slot == NULL)
		slot = sl_slot_claim(store, &place, now, &nothing_held);
	if (slot != NULL)
		sl_slot_publish(slot, (const uint64_t[2]){now, key}, use, life);
	sl_home_unlock(place.home);
	return slot;
}

static struct sl_slot *insert(struct sluice_store *store, uint64_t key, sluice_ns now, sluice_ns life) {
	return insert_used(store, key, now, life, 0);
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
		assert_int_equal(sl_slot_state(find(&f->store, key))[1], key);
	}
	assert_null(find(&f->store, keys));
	assert_null(sl_store_verify(&f->store));
}

static uint64_t slots_of(const struct sluice_store *store) {
	return store->page_count * SL_PAGE_SLOTS;
}

/* Every slot gets used before anyone is evicted, nearly; and expired ones go first. */
static void a_full_store_evicts_and_expired_slots_go_first(void **state) {
	struct fixture *f = *state;
	uint64_t slots = slots_of(&f->store), in = 0, evicted;
	sluice_ns later = 1000 * (sluice_ns)SECOND;
	for (uint64_t key = 0; key < slots / 2; key++)
		assert_non_null(insert(&f->store, key, SECOND, 60 * (sluice_ns)SECOND));
	assert_int_equal(f->store.header->evicted, 0);
	for (uint64_t key = slots / 2; key < 2 * slots; key++)
		assert_non_null(insert(&f->store, key, SECOND, 60 * (sluice_ns)SECOND));
	for (uint64_t key = 0; key < 2 * slots; key++)
		in += find(&f->store, key) != NULL;
	assert_int_equal(in, slots);
	assert_int_equal(f->store.header->evicted, slots);
	assert_null(sl_store_verify(&f->store));
	evicted = f->store.header->evicted;
	for (uint64_t key = 2 * slots; key < 2 * slots + slots / 2; key++)
		assert_non_null(insert(&f->store, key, later, SECOND));
	assert_int_equal(f->store.header->evicted, evicted);
	assert_null(sl_store_verify(&f->store));
}

/* Who has used more stays: a flood of little used keys displaces each other. */
static void the_least_used_go_first(void **state) {
	struct fixture *f = *state;
	uint64_t slots = slots_of(&f->store);
	for (uint64_t key = 0; key < slots / 2; key++)
		assert_non_null(insert_used(&f->store, key, SECOND, 600 * (sluice_ns)SECOND, SL_USE_LITTLE + 1 + key % 4));
	for (uint64_t key = slots / 2; key < 4 * slots; key++)
		assert_non_null(insert_used(&f->store, key, 2 * (sluice_ns)SECOND, 600 * (sluice_ns)SECOND, 0));
	for (uint64_t key = 0; key < slots / 2; key++)
		assert_non_null(find(&f->store, key));
	assert_null(sl_store_verify(&f->store));
}

/* What was evicted is remembered: at least as used, at least as late; and a key never seen is seldom mistaken. */
static void evicted_counters_are_remembered(void **state) {
	struct fixture *f = *state;
	uint64_t slots = slots_of(&f->store), mistaken = 0, gone = 0;
	const sluice_ns first = 1000 * (sluice_ns)SECOND, life = 600 * (sluice_ns)SECOND;
	struct sl_past pasts[SL_USES];
	for (uint64_t key = 0; key < 2 * slots; key++)
		assert_non_null(insert_used(&f->store, key, first + key * 1000000, life, key % 100 == 0 ? 7 : 1));
	for (uint64_t key = 0; key < 2 * slots; key++) {
		struct sl_place place = place_of(&f->store, key, false);
		if (find(&f->store, key) != NULL)
			continue;
		int count = sl_sketch_ask(&f->store, &place, first + 2 * slots * 1000000, pasts);
		bool found = false;
		for (int i = 0; i < count; i++) {
			found = found || (pasts[i].use >= (key % 100 == 0 ? 7u : 1u) && pasts[i].instant >= first + key * 1000000);
			assert_true(i == 0 || (pasts[i].instant > pasts[i - 1].instant && pasts[i].use < pasts[i - 1].use));
		}
		assert_true(found);
		gone++;
	}
	assert_true(gone > slots / 2);
	for (uint64_t key = 3 * slots; key < 4 * slots; key++) {
		struct sl_place place = place_of(&f->store, key, false);
		int count = sl_sketch_ask(&f->store, &place, first + 2 * slots * 1000000, pasts);
		mistaken += count > 0 && pasts[0].use == 7;
	}
	assert_true(mistaken < slots / 50);
	assert_true(sl_sketch_is_used(&f->store, first + life));
	assert_false(sl_sketch_is_used(&f->store, first + 2 * slots * 1000000 + 2 * life));
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

static void a_held_slot_is_not_taken(void **state) {
	struct fixture *f = *state;
	struct sl_slot *slot = insert(&f->store, 1, SECOND, SECOND);
	const struct sl_pins hold = {.slots = {slot}, .count = 1};
	for (uint64_t key = 2; key < 3 * slots_of(&f->store); key++) {
		struct sl_place place = place_of(&f->store, key, false);
		sluice_ns now = 1000 * (sluice_ns)SECOND;
		assert_int_equal(sl_home_lock(&f->store, place.home), SLUICE_OK);
		struct sl_slot *other = sl_slot_claim(&f->store, &place, now, &hold);
		assert_non_null(other);
		sl_slot_publish(other, (const uint64_t[2]){now, key}, 3, now);
		sl_home_unlock(place.home);
	}
	assert_ptr_equal(find(&f->store, 1), slot);
}

static uint64_t seen_bits(const struct sluice_store *store, uint64_t hash) {
	unsigned unused = SL_HASH_TOP_BITS_MAX - store->header->hash_top_bits;
	return hash & ~((((uint64_t)1 << unused) - 1) << SL_HASH_LOW_BITS);
}

/* A place's hash can be told from where its slot stands. */
static void hashes_come_back_from_slots(void **state) {
	struct fixture *f = *state;
	for (uint64_t key = 0; key < 5000; key++) {
		uint64_t hash = sl_siphash(f->store.secret, &key, 1, sl_slice(NULL, 0), 1, 3);
		struct sl_place place = sl_place_of_hash(&f->store, hash, false);
		struct sl_slot *slot;
		assert_int_equal(sl_home_lock(&f->store, place.home), SLUICE_OK);
		slot = sl_slot_claim(&f->store, &place, SECOND, &nothing_held);
		assert_non_null(slot);
		assert_int_equal(sl_slot_hash(&f->store, slot), seen_bits(&f->store, hash));
		sl_slot_free(&f->store, place.home, slot);
		sl_home_unlock(place.home);
	}
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
			sl_slot_free(&f->store, place.home, slot);
	}
	for (uint64_t p = 0; p < f->store.page_count; p++)
		for (int b = 0; b < SL_PAGE_BUCKETS; b++) {
			assert_int_equal(f->store.pages[p].buckets[b].spill, 0);
			for (int s = 0; s < SL_BUCKET_SLOTS; s++)
				assert_int_equal(f->store.pages[p].buckets[b].slots[s].tag, 0);
		}
}

/* ---- owners ------------------------------------------------------------------------------------------------------ */

enum { DEAD = 2 << SL_OWNER_ROW_SHIFT | 9 };

static bool is_the_dead(const struct sluice_store *store, uint32_t owner) {
	(void)store;
	return owner == DEAD;
}

/* A process that died in the middle of everything: its lock is taken over, its claim given back, its block returned. */
static void what_a_dead_owner_left_is_recovered(void **state) {
	struct fixture *f = *state;
	struct sl_place place = place_of(&f->store, 1, true), other = place;
	uint64_t free_units = f->store.blocks->free_units, bytes;
	struct sl_slot *slot;
	f->store.owner_is_dead = is_the_dead;
	f->store.owner = DEAD;
	assert_int_equal(sl_home_lock(&f->store, place.home), SLUICE_OK);
	slot = sl_slot_claim(&f->store, &place, SECOND, &nothing_held);
	assert_non_null(slot);
	assert_int_equal(sl_blocks_begin(&f->store), SLUICE_OK);
	uint32_t block = sl_blocks_take(&f->store, 1000, &bytes);
	assert_int_not_equal(block, 0);
	memset(sl_block_memory(&f->store, block), 0xff, bytes);
	sl_blocks_save(&f->store, &sl_slot_state(slot)[0]);
	sl_blocks_save(&f->store, &sl_slot_state(slot)[1]);
	sl_block_own(&f->store, block, slot);
	sl_slot_publish(slot, (const uint64_t[2]){SECOND, block}, 3, SECOND);
	place.home->spill |= 1u << 30;
	/* and there it dies */
	f->store.owner = OWNER;
	assert_int_equal(sl_home_lock(&f->store, other.home), SLUICE_OK);
	assert_int_equal(other.home->lock, OWNER);
	assert_int_equal(other.home->spill, 0);
	slot = sl_slot_find(&other);
	assert_true(slot == NULL || (sl_slot_state(slot)[0] == 0 && sl_slot_state(slot)[1] == 0));
	sl_home_unlock(other.home);
	assert_int_equal(f->store.blocks->free_units, free_units);
	assert_int_equal(f->store.header->stolen_locks, 2);
	assert_null(sl_store_verify(&f->store));
}

/* States stand behind the tags of their bucket: none is taken for one, whatever its bits are. */
static void a_recovery_leaves_states_as_they_are(void **state) {
	struct fixture *f = *state;
	struct sl_place place = place_of(&f->store, 1, false);
	uint64_t like_a_claim = (uint64_t)SECOND >> SL_COARSE_SHIFT << SL_COARSE_SHIFT | SL_LIFE_FRESH;
	like_a_claim |= sl_tag_home(place.tag) << SL_TAG_HOME_SHIFT;
	f->store.owner_is_dead = is_the_dead;
	struct sl_slot *slot = sl_slot_claim(&f->store, &place, SECOND, &nothing_held);
	assert_ptr_equal(slot, &place.home->slots[0]);
	sl_slot_publish(slot, (const uint64_t[2]){like_a_claim, 5}, 3, SECOND);
	place.home->lock = DEAD;
	assert_int_equal(sl_home_lock(&f->store, place.home), SLUICE_OK);
	assert_ptr_equal(sl_slot_find(&place), slot);
	assert_true(sl_slot_state(slot)[0] == like_a_claim && sl_slot_state(slot)[1] == 5);
	sl_home_unlock(place.home);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint32_t take(struct sluice_store *store, uint64_t bytes, uint64_t *true_bytes) {
	uint32_t block;
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	block = sl_blocks_take(store, bytes, true_bytes);
	sl_blocks_commit(store);
	return block;
}

static void give(struct sluice_store *store, uint32_t block) {
	assert_int_equal(sl_blocks_begin(store), SLUICE_OK);
	sl_blocks_free(store, block);
	sl_blocks_commit(store);
}

static void blocks_hold_what_was_asked_for(void **state) {
	struct fixture *f = *state;
	for (uint64_t bytes = 1; bytes < 100000; bytes += bytes / 7 + 1) {
		uint64_t got = 0;
		uint32_t block = take(&f->store, bytes, &got);
		assert_true(block != 0);
		assert_true(got >= bytes && got < bytes + SL_UNIT_BYTES);
		assert_int_equal(sl_block_bytes(&f->store, block), got);
		memset(sl_block_memory(&f->store, block), 0xff, got);
		give(&f->store, block);
	}
	assert_null(sl_blocks_verify(&f->store));
}

static void more_than_there_is_is_refused(void **state) {
	struct fixture *f = *state;
	uint64_t got;
	assert_int_equal(take(&f->store, 0, &got), 0);
	assert_int_equal(take(&f->store, ARENA, &got), 0);
	assert_int_equal(take(&f->store, UINT64_MAX, &got), 0);
	assert_null(sl_blocks_verify(&f->store));
}

/* A change that is given up, after all kinds of taking and freeing in it and with the blocks overwritten, has not
 * happened. */
static void an_aborted_change_leaves_every_byte(void **state) {
	enum { HELD = 100 };
	struct fixture *f = *state;
	uint32_t blocks[HELD] = {0};
	uint64_t bytes;
	void *before = malloc(ARENA);
	size_t map = (size_t)(f->store.map - (uint8_t *)f->memory);
	assert_non_null(before);
	printf("seed %llu\n", (unsigned long long)dice_state);
	for (int turn = 0; turn < 2000; turn++) {
		size_t at = dice(HELD);
		uint32_t mine[8];
		if (blocks[at] != 0)
			give(&f->store, blocks[at]);
		blocks[at] = take(&f->store, 1 + dice((uint64_t)64 << dice(7)), &bytes);
		memcpy(before, f->memory, ARENA);
		assert_int_equal(sl_blocks_begin(&f->store), SLUICE_OK);
		for (size_t i = 0; i < 8; i++) {
			mine[i] = sl_blocks_take(&f->store, 1 + dice(5000), &bytes);
			if (mine[i] != 0)
				memset(sl_block_memory(&f->store, mine[i]), 0x5a, bytes);
		}
		for (size_t i = 0; i < 8; i++) {
			size_t victim = (at + 1 + i) % HELD;
			if (mine[i] != 0 && dice(2) == 0)
				sl_blocks_free(&f->store, mine[i]);
			if (blocks[victim] != 0)
				sl_blocks_free(&f->store, blocks[victim]);
		}
		sl_blocks_abort(&f->store);
		assert_memory_equal((char *)f->memory + map, (char *)before + map, f->store.header->unit_count);
		for (size_t i = 0; i < HELD; i++)
			if (blocks[i] != 0) {
				const uint8_t *p = f->store.units + (size_t)blocks[i] * SL_UNIT_BYTES;
				assert_memory_equal(p, (char *)before + (p - (uint8_t *)f->memory),
				                    sl_block_bytes(&f->store, blocks[i]) + sizeof(struct sl_block_head));
			}
		assert_null(sl_blocks_verify(&f->store));
	}
	free(before);
}

/* Days of growing and shrinking: a quarter million blocks come and go, each keeps its bytes, and all room comes
 * back. */
static void nothing_overlaps_and_all_room_comes_back(void **state) {
	enum { HELD = 300 };
	struct fixture *f = *state;
	uint32_t blocks[HELD] = {0};
	uint64_t bytes[HELD] = {0}, room = f->store.blocks->free_units;
	printf("seed %llu\n", (unsigned long long)dice_state);
	for (int i = 0; i < 250000; i++) {
		size_t at = dice(HELD);
		if (blocks[at] != 0) {
			const unsigned char *p = sl_block_memory(&f->store, blocks[at]);
			assert_int_equal(p[0], at & 255);
			assert_int_equal(p[bytes[at] - 1], at & 255);
			give(&f->store, blocks[at]);
		}
		blocks[at] = take(&f->store, 1 + dice((uint64_t)64 << dice(7)), &bytes[at]);
		if (blocks[at] != 0)
			memset(sl_block_memory(&f->store, blocks[at]), (int)(at & 255), bytes[at]);
		if (i % 10000 == 0)
			assert_null(sl_blocks_verify(&f->store));
	}
	for (size_t at = 0; at < HELD; at++)
		if (blocks[at] != 0)
			give(&f->store, blocks[at]);
	assert_int_equal(f->store.blocks->free_units, room);
	assert_null(sl_blocks_verify(&f->store));
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void) {
	const struct CMUnitTest tests[] = {
		WITH_STORE(sizes_out_of_range_are_refused),
		WITH_STORE(a_store_like_another_knows_as_much_of_a_hash_as_both),
		WITH_STORE(keys_are_found_again_at_a_load_of_seven_tenths),
		WITH_STORE(a_full_store_evicts_and_expired_slots_go_first),
		WITH_STORE(the_least_used_go_first),
		WITH_STORE(evicted_counters_are_remembered),
		cmocka_unit_test(lifetimes_round_up),
		WITH_STORE(a_held_slot_is_not_taken),
		WITH_STORE(hashes_come_back_from_slots),
		WITH_STORE(freeing_every_key_leaves_an_empty_arena),
		WITH_STORE(what_a_dead_owner_left_is_recovered),
		WITH_STORE(a_recovery_leaves_states_as_they_are),
		WITH_STORE(blocks_hold_what_was_asked_for),
		WITH_STORE(more_than_there_is_is_refused),
		WITH_STORE(an_aborted_change_leaves_every_byte),
		WITH_STORE(nothing_overlaps_and_all_room_comes_back),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
