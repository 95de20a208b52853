/* Arenas in memory; see arena.h. */
#include "tests/crash/arena.h"

#include "store/blocks.h"
#include "store/slot.h"
#include "tests/model/dice.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

void *arena_map(void) {
	void *memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

void arena_format(void *memory, uint64_t seed) {
	struct dice dice = dice_of(seed, 77);
	uint64_t secret[2] = {dice_bits(&dice), dice_bits(&dice)};
	memset(memory, 0, ARENA_BYTES);
	if (sl_arena_format(memory, ARENA_BYTES, SL_BLOCKS_PERCENT_DEFAULT, secret, ARENA_START_NS) != SLUICE_OK)
		abort();
}

static bool is_other(const struct sluice_store *store, uint32_t owner) {
	return owner != store->owner;
}

void arena_attach(struct sluice_store *store, void *memory, uint32_t owner) {
	*store = (struct sluice_store){0};
	sl_arena_attach(store, memory);
	store->owner = owner;
	store->relax = NULL;
	store->owner_is_dead = is_other;
	store->home = NULL;
}

struct sluice_limit arena_limit(const char *notation) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(notation), NULL) != SLUICE_OK) {
		fprintf(stderr, "%s\n", notation);
		abort();
	}
	return limit;
}

sluice_err arena_call(struct sluice_store *store, sluice_operation operation, const struct sluice_limit *limit,
                      const char *key, uint32_t cost, sluice_ns now, struct sluice_decision *decision) {
	struct sluice_item item = {.limit = limit, .key = sl_str(key)};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .operation = operation, .now = now};
	sluice_err err = sluice_decide(store, &call);
	if (decision != NULL)
		*decision = call.merged;
	return err;
}

struct sl_place arena_place(const struct sluice_store *store, const struct sluice_limit *limit, const char *key) {
	int words = limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2;
	return sl_place_of(store, &limit->derived[SL_IDENT_KIND], words, sl_str(key), sl_rule_has(limit, SL_HAS_BLOCK));
}

uint64_t arena_page(const struct sluice_store *store, const struct sl_place *place) {
	return (uint64_t)(place->home - store->pages->buckets) / SL_PAGE_BUCKETS;
}

uint64_t arena_bucket(const struct sl_place *place) {
	return place->tag >> SL_TAG_HOME_SHIFT & (SL_PAGE_BUCKETS - 1);
}

void arena_settle(struct sluice_store *store) {
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++) {
		struct sl_bucket *home = &store->pages[i / SL_PAGE_BUCKETS].buckets[i % SL_PAGE_BUCKETS];
		if (sl_home_lock(store, home) != SLUICE_OK)
			abort();
		sl_home_unlock(home);
	}
	if (sl_blocks_begin(store) != SLUICE_OK)
		abort();
	sl_blocks_commit(store);
}

uint64_t arena_units(const struct sluice_store *store) {
	uint64_t units = store->blocks->free_units;
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++) {
		const struct sl_bucket *bucket = &store->pages[i / SL_PAGE_BUCKETS].buckets[i % SL_PAGE_BUCKETS];
		for (int k = 0; k < SL_BUCKET_SLOTS; k++) {
			uint32_t block = (uint32_t)bucket->states[k][1];
			if ((bucket->slots[k].tag >> SL_TAG_BLOCK_SHIFT & 1) != 0 && block != 0)
				units += (sl_block_bytes(store, block) + sizeof(struct sl_block_head)) / SL_UNIT_BYTES;
		}
	}
	return units;
}

const char *arena_problem(const struct sluice_store *store, uint64_t units) {
	const char *problem = sl_store_verify(store);
	if (problem == NULL && arena_units(store) != units)
		problem = "units of blocks are lost, or there are more than before";
	return problem;
}

uint64_t arena_clock_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t arena_seconds(void) {
	const char *text = getenv("SLUICE_SECONDS");
	return text == NULL ? 0 : strtoull(text, NULL, 10);
}
