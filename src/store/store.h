/* The store: memory in, counters found and locked. It never knows what a limit is. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include "base/math.h"
#include "base/siphash.h"
#include "store/layout.h"

enum {
	SL_ARENA_BYTES_MIN = 1024 * 1024,
	SL_BLOCKS_PERCENT_DEFAULT = 50,
};
#define SL_ARENA_BYTES_MAX ((uint64_t)256 << 30)

/* A process's handle of an arena: where it is mapped here, and nothing that another process would have to know. */
struct sluice_store {
	struct sl_header *header;
	struct sl_page *pages;
	uint8_t *units;
	uint8_t *map;
	uint64_t page_count;
	uint64_t secret[2];
	uint64_t arena_bytes;
	uint64_t sweep_page;                    /* where sl_store_sweep() goes on; atomic */
	void (*relax)(void);                    /* called by a waiter that has spun for a while; lets others run */
	void (*release)(struct sluice_store *); /* how whoever mapped the arena unmaps it; NULL: not ours to */
};

/* Formats `bytes` of zeroed memory (page-aligned) as an empty arena.
 *  blocks_percent  share for blocks, 1..90
 *  secret          16 random bytes
 * Returns SLUICE_OK or SLUICE_E_RANGE for a size out of SL_ARENA_BYTES_MIN..MAX. O(1) but for the block map. */
SLUICE_MUST_USE sluice_err sl_arena_format(void *memory, uint64_t bytes, uint32_t blocks_percent,
                                           const uint64_t secret[2]);

/* Fills a handle for a formatted arena; owns nothing. */
void sl_arena_attach(struct sluice_store *store, void *memory);

/* The bytes of the arena, for tests that compare them. */
const void *sl_store_arena(const struct sluice_store *store, size_t *bytes);

/* Walks the whole arena: every tag in a place where it may be, every spill bit, every block referred to once, the free
 * blocks disjoint from them. Quiet stores only. Returns NULL, or what is wrong. */
const char *sl_store_verify(const struct sluice_store *store);

/* ---- finding -------------------------------------------------------------------------------------------------- */

/* Where a counter lives, as its fingerprint says. */
struct sl_place {
	struct sl_bucket *home;
	uint64_t tag; /* without a lifetime */
};

/* One or two words of identity and the key's bytes to a place. The first word must tell whether there is a second.
 * `has_block`: the counter's algorithm keeps a block. */
static inline struct sl_place sl_place_of(const struct sluice_store *store, const uint64_t *identity, int words,
                                          struct sluice_bytes key, bool has_block) {
	uint64_t hash = sl_siphash(store->secret, identity, words, key, 1, 3);
	/* the page comes from the high bits, home and fingerprint are the low ones */
	uint64_t page = (uint64_t)(sl_mul(hash, store->page_count) >> 64);
	uint64_t home = hash & (SL_PAGE_BUCKETS - 1), print = hash << 9 >> 14;
	return (struct sl_place){&store->pages[page].buckets[home],
	                         (print != 0 ? print : 1) << 14 | (uint64_t)has_block << 13 | home << 8};
}

static inline void sl_place_prefetch(const struct sl_place *place) {
	__builtin_prefetch(place->home, 1);
	__builtin_prefetch((const char *)place->home + 64, 1);
}

/* Takes and gives back the lock of a bucket. Locks of several are taken in address order. */
void sl_bucket_lock_slow(const struct sluice_store *store, uint32_t *lock);

static inline bool sl_lock_try(uint32_t *lock) {
	uint32_t free = 0;
	/* acquire; pairs with sl_unlock */
	return __atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void sl_lock(const struct sluice_store *store, uint32_t *lock) {
	if (!sl_lock_try(lock))
		sl_bucket_lock_slow(store, lock);
}

static inline void sl_unlock(uint32_t *lock) {
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* release; pairs with sl_lock_try */
}

/* Tags of a bucket are claimed by other homes without its lock: every access is atomic. */
static inline uint64_t sl_slot_tag(const struct sl_slot *slot) {
	return __atomic_load_n(&slot->tag, __ATOMIC_RELAXED);
}

static inline bool sl_tag_matches(uint64_t slot_tag, uint64_t tag) {
	return (slot_tag ^ tag) >> 8 == 0;
}

/* The rest of sl_slot_find(): the buckets that the home's spill bits name. */
struct sl_slot *sl_slot_find_spilled(const struct sl_place *place);

/* The slot of a counter whose home is locked; NULL where there is none. */
static inline struct sl_slot *sl_slot_find(const struct sl_place *place) {
	struct sl_slot *slots = place->home->slots;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		if (sl_tag_matches(sl_slot_tag(&slots[i]), place->tag))
			return &slots[i];
	return __builtin_expect(place->home->spill != 0, 0) ? sl_slot_find_spilled(place) : NULL;
}

/* Takes a slot for a new counter whose home is locked, pinned and its state zeroed: a free one at home, an expired one
 * at home, a free one in the page, an expired one in the page. NULL: the page is full of counters in use. */
struct sl_slot *sl_slot_claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now);

/* Frees what has expired in the next `page_count` pages, as far as its locks are free: for a caller that found no
 * block. Slots that it must keep are pinned. */
void sl_store_sweep(struct sluice_store *store, uint64_t page_count, sluice_ns now);

/* Keeps a found slot from being taken for expired by a claim of the same call; the home is locked. Returns the tag to
 * give back to sl_slot_unpin(); sl_slot_publish() unpins too. */
uint64_t sl_slot_pin(struct sl_slot *slot);
void sl_slot_unpin(struct sl_slot *slot, uint64_t tag);

/* Frees a counter's slot and its block, if it has one; its home is locked. */
void sl_slot_free(struct sluice_store *store, const struct sl_place *place, struct sl_slot *slot);

/* The lifetime code of a wait: see layout.h I3. */
uint64_t sl_life_code(sluice_ns life_ns);

/* Writes a state. Its readers hold the lock, but for sl_slot_hint(): hence atomic, though nothing is ordered by it. */
static inline void sl_slot_write(struct sl_slot *slot, const uint64_t state[2]) {
	__atomic_store_n(&slot->state[0], state[0], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state[1], state[1], __ATOMIC_RELAXED);
}

/* Without a lock, for prefetching: the state that a counter seems to have; false when it is not in its home bucket. */
static inline bool sl_slot_hint(const struct sl_place *place, uint64_t state[2]) {
	const struct sl_slot *slots = place->home->slots;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		if (sl_tag_matches(sl_slot_tag(&slots[i]), place->tag)) {
			state[0] = __atomic_load_n(&slots[i].state[0], __ATOMIC_RELAXED);
			state[1] = __atomic_load_n(&slots[i].state[1], __ATOMIC_RELAXED);
			return true;
		}
	return false;
}

/* Publishes a state and the lifetime that it has from its last charge on. The home is locked. */
static inline void sl_slot_publish(struct sl_slot *slot, const uint64_t state[2], sluice_ns life_ns) {
	uint64_t tag = sl_slot_tag(slot), with_life = (tag & ~(uint64_t)255) | sl_life_code(life_ns);
	sl_slot_write(slot, state);
	if (tag != with_life)
		__atomic_store_n(&slot->tag, with_life, __ATOMIC_RELAXED); /* the lock's release orders it */
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* Takes a block of at least `bytes`; returns its number (> 0) and its true size, or 0 when there is no room.
 * O(log of the arena), under one lock for all blocks; asked for only when a log grows. */
uint32_t sl_block_take(struct sluice_store *store, uint64_t bytes, uint64_t *true_bytes);
void sl_block_free(struct sluice_store *store, uint32_t block);
static inline void *sl_block_memory(const struct sluice_store *store, uint32_t block) {
	return store->units + (size_t)block * SL_UNIT_BYTES;
}
uint64_t sl_block_bytes(const struct sluice_store *store, uint32_t block);

/* Sets up the free lists of a formatted arena. */
void sl_blocks_format(struct sluice_store *store);

/* Checks the block map and free lists; NULL, or what is wrong. */
const char *sl_blocks_verify(const struct sluice_store *store);

#endif
