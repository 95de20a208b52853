/* Slots: where counters live, how they are found, claimed, published and freed (slot.c, claim.c). */
#ifndef SL_SLOT_H
#define SL_SLOT_H

#include "base/assert.h"
#include "base/point.h"
#include "base/siphash.h"
#include "store/lock.h"
#include "store/tag.h"
#include "store/use.h"

/* Where a counter lives, as its fingerprint says. */
struct sl_place {
	struct sl_bucket *home;
	uint64_t tag; /* without use and lifetime */
};

/* The page of a counter: its hash as a part of all pages. */
static inline uint64_t sl_page_of_hash(const struct sluice_store *store, uint64_t hash) {
	uint64_t low = hash & (((uint64_t)1 << SL_HASH_LOW_BITS) - 1);
	uint64_t bits = (hash & store->hash_top_mask) | low << store->hash_unused;
	uint64_t page = (uint64_t)(sl_mul(bits, store->page_count) >> 64);
	SL_DEBUG_ASSERT(page < store->page_count);
	return page;
}

/* Where the counter of a hash lives. `has_block`: its algorithm keeps a block. */
static inline struct sl_place sl_place_of_hash(const struct sluice_store *store, uint64_t hash, bool has_block) {
	uint64_t home = hash & (SL_PAGE_BUCKETS - 1);
	uint64_t print = hash << SL_HASH_TOP_BITS_MAX >> (SL_HASH_TOP_BITS_MAX + SL_HASH_HOME_BITS);
	return (struct sl_place){&store->pages[sl_page_of_hash(store, hash)].buckets[home],
	                         (print != 0 ? print : 1) << SL_TAG_PRINT_SHIFT |
	                             (uint64_t)has_block << SL_TAG_BLOCK_SHIFT | home << SL_TAG_HOME_SHIFT};
}

/* One or two words of identity and a key's bytes, at most SLUICE_KEY_BYTES_MAX, to a place. The first word must tell
 * whether there is a second. `has_block`: the counter's algorithm keeps a block. */
static inline struct sl_place sl_place_of(const struct sluice_store *store, const uint64_t *identity, int words,
                                          struct sluice_bytes key, bool has_block) {
	return sl_place_of_hash(store, sl_siphash(store->secret, identity, words, key, 1, 3), has_block);
}

/* What is kept beside the counter of a place, always with a block (layout.h I8). The bits are the lowest of the
 * fingerprint, which hardly ever pick the page: so in an arena of another size they come to the same one. */
enum {
	SL_BESIDE_LEDGER = 1,
	SL_BESIDE_STRIKES = 2,
	SL_BESIDE_CONTENTS = 4,
	SL_BESIDE_ALL = 7, /* that is forgotten with its counter */
	SL_BESIDE_OVERRIDE = 8,
};

/* Where that is kept: at the same home. */
static inline struct sl_place sl_place_beside(const struct sl_place *place, uint64_t which) {
	uint64_t tag = (place->tag ^ which << SL_TAG_PRINT_SHIFT) | (uint64_t)1 << SL_TAG_BLOCK_SHIFT;
	SL_DEBUG_ASSERT(which != 0 && which <= SL_BESIDE_OVERRIDE);
	return (struct sl_place){place->home,
	                         tag >> SL_TAG_PRINT_SHIFT != 0 ? tag : tag | (uint64_t)16 << SL_TAG_PRINT_SHIFT};
}

static inline void sl_place_prefetch(const struct sl_place *place) {
	__builtin_prefetch(place->home, 1);
	__builtin_prefetch((const char *)place->home + 64, 1);
}

/* Pages are aligned to their size in every mapping. */
static inline struct sl_page *sl_page_of(const struct sl_bucket *bucket) {
	return (struct sl_page *)((uintptr_t)bucket & ~(uintptr_t)(SL_PAGE_BYTES - 1));
}

/* Tags of a bucket are claimed by other homes without its lock: every access is atomic. */
static inline uint64_t sl_slot_tag(const struct sl_slot *slot) {
	return __atomic_load_n(&slot->tag, __ATOMIC_RELAXED);
}

static inline struct sl_bucket *sl_slot_bucket(const struct sl_slot *slot) {
	return (struct sl_bucket *)((uintptr_t)slot & ~(uintptr_t)(SL_BUCKET_BYTES - 1));
}

static inline uint64_t *sl_slot_state(const struct sl_slot *slot) {
	struct sl_bucket *bucket = sl_slot_bucket(slot);
	SL_DEBUG_ASSERT(slot >= bucket->slots && slot < bucket->slots + SL_BUCKET_SLOTS);
	return bucket->states[slot - bucket->slots];
}

/* The home that a used slot's tag names. */
static inline struct sl_bucket *sl_slot_home(const struct sl_slot *slot, uint64_t tag) {
	return &sl_page_of(sl_slot_bucket(slot))->buckets[sl_tag_home(tag)];
}

/* Writes a locked home's spill bits: atomic, since they are read without the lock for prefetching. */
static inline void sl_home_spill(struct sl_bucket *home, uint32_t spill) {
	__atomic_store_n(&home->spill, spill, __ATOMIC_RELAXED);
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

/* Without a lock, for prefetching: the state that a counter seems to have; false when it is not in its home bucket. */
static inline bool sl_slot_hint(const struct sl_place *place, uint64_t state[2]) {
	const struct sl_slot *slots = place->home->slots;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++)
		if (sl_tag_matches(sl_slot_tag(&slots[i]), place->tag)) {
			const uint64_t *found = sl_slot_state(&slots[i]);
			state[0] = __atomic_load_n(&found[0], __ATOMIC_RELAXED);
			state[1] = __atomic_load_n(&found[1], __ATOMIC_RELAXED);
			return true;
		}
	return false;
}

/* For a counter that is not in its home: prefetches the first buckets of the page where it may be. */
static inline void sl_place_prefetch_spilled(const struct sl_place *place) {
	uint32_t bits = __atomic_load_n(&place->home->spill, __ATOMIC_RELAXED);
	for (int i = 0; i < 2 && bits != 0; i++, bits &= bits - 1) {
		const struct sl_bucket *bucket = &sl_page_of(place->home)->buckets[__builtin_ctz(bits)];
		__builtin_prefetch(bucket, 1);
		__builtin_prefetch((const char *)bucket + 64, 1);
	}
}

/* ---- claiming and freeing --------------------------------------------------------------------------------------- */

/* The slots that a call has found or claimed so far: no claim and no sweep of the same call may take one of them for
 * expired or evict it. Their homes are locked by the call. */
enum { SL_PINS_MAX = 4 * SLUICE_ITEMS_MAX + 1 /* counter, reservations, their contents and strikes of each limit; the
                                               * retried request */
};
struct sl_pins {
	const struct sl_slot *slots[SL_PINS_MAX];
	uint32_t count;
};

/* Takes a slot for a new counter whose home is locked: FRESH, its state zeroed. A free one at home, an expired one at
 * home, a free one in the page, an expired one in the page; else the least used counter of the page is evicted into the
 * sketch. NULL only when every counter of the page is held, or its home locked by others. */
struct sl_slot *sl_slot_claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                              const struct sl_pins *pins);

/* Frees a counter's slot and its block, if it has one; its home is locked, and no change of blocks is open. SLUICE_OK,
 * or held up (lock.h), and nothing was changed; never held up where the counter has no block. */
sluice_err sl_slot_free(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot);

/* The same within a change of the blocks in which nothing has been done yet; after it another is open. */
void sl_slot_free_within(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot);

/* Within a change: frees the block of a slot and lets the state forget it; FRESH from then on, so that a death before
 * the slot is free leaves no counter that was charged nothing, in place of one of which the sketch knows more. */
void sl_slot_drop_block(struct sluice_store *store, struct sl_slot *slot, uint32_t block);

/* Whether the state of a slot of this tag equals no state by now. Without the home's lock: whether it seems to. */
bool sl_slot_has_expired(const struct sl_slot *slot, uint64_t tag, sluice_ns now);

/* The hash that a used slot's counter has; its bits that the arena does not use (hash_top_bits) are 0. */
uint64_t sl_slot_hash(const struct sluice_store *store, const struct sl_slot *slot);

/* Frees a slot other than the caller's: one that has expired or, with `evict`, one in use. `locked` is the home that
 * the caller has locked (NULL: none); the lock of another is tried. False when it is not to be had, the blocks' lock
 * is held up, or the slot is no longer what it was. */
bool sl_slot_make_free(struct sluice_store *store, struct sl_slot *slot, const struct sl_bucket *locked, bool evict,
                       sluice_ns now);

/* Whom to evict first: the less used, and among those the longer unused, have the lower rank; 0: has expired. Highest
 * are penalties that are kept and run, the later the lower. The slot is in use, and not FRESH. */
uint64_t sl_slot_rank(const struct sl_slot *slot, uint64_t tag, sluice_ns now);

enum {
	SL_RANK_USE_SHIFT = 61, /* what of a rank is use */
	SL_PENALTY_SHIFT = 27,  /* penalties last at most 3660 d: 31 bits of such units */
};
#define SL_RANK_PENALTY (UINT64_C(15) << 60) /* and above: a penalty that is kept and runs */
static inline uint64_t sl_rank_use(uint64_t rank) {
	return rank >> SL_RANK_USE_SHIFT;
}

/* Whether one more penalty that runs may be kept beside a counter of this home (layout.h I10). Of a page's slots a
 * quarter may be such, and of all blocks about a half: so whoever gets others locked out, or himself, leaves counters
 * their room. Looks at a page; others may make it one more meanwhile. */
bool sl_penalty_may_be_kept(const struct sluice_store *store, const struct sl_bucket *home, sluice_ns now);

/* The upper half of the second state word of one that runs until `end`, where `last` is the first. */
static inline uint64_t sl_penalty_word(uint64_t last, sluice_ns end) {
	uint64_t units = end > last ? (end - last + (((uint64_t)1 << SL_PENALTY_SHIFT) - 1)) >> SL_PENALTY_SHIFT : 0;
	return (units < UINT32_MAX ? units : UINT32_MAX) << 32;
}

/* Whether a slot is among those that a call holds. */
static inline bool sl_pins_have(const struct sl_pins *pins, const struct sl_slot *slot) {
	SL_DEBUG_ASSERT(pins->count <= SL_PINS_MAX);
	for (uint32_t i = 0; i < pins->count; i++)
		if (pins->slots[i] == slot)
			return true;
	return false;
}

/* ---- publishing ------------------------------------------------------------------------------------------------ */

/* Writes 16 aligned bytes with one instruction: a process that dies leaves the old ones or the new ones. In assembly,
 * since compilers split a 16-byte store of theirs in two; and joined in registers, since a 16-byte load of what was
 * just stored by halves would wait until those have left the core (15 cycles). */
static inline void sl_store16(uint64_t to[2], uint64_t low, uint64_t high) {
	SL_DEBUG_ASSERT((uintptr_t)to % 16 == 0); /* or it is no one store */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	typedef uint64_t pair __attribute__((vector_size(16)));
	pair both, upper;
	__asm__ volatile("movq %3, %0\n\tmovq %4, %1\n\tpunpcklqdq %1, %0\n\tmovaps %0, %2"
	                 : "=&x"(both), "=&x"(upper), "=m"(*(pair *)(void *)to)
	                 : "r"(low), "r"(high)
	                 : "memory");
#else
	__atomic_store_n(&to[0], low, __ATOMIC_RELAXED);
	__atomic_store_n(&to[1], high, __ATOMIC_RELAXED);
#endif
}

/* Writes a state whose lifetime stays as it is. The home is locked. */
static inline void sl_slot_write(struct sl_slot *slot, const uint64_t state[2]) {
	SL_POINT();
	sl_store16(sl_slot_state(slot), state[0], state[1]);
	SL_POINT();
}

/* Publishes a state, its marks (use.h) and the lifetime that it has from its last charge on, in the order of layout.h
 * I6. The home is locked. */
static inline void sl_slot_publish(struct sl_slot *slot, const uint64_t state[2], uint64_t marks, sluice_ns life_ns) {
	uint64_t old = sl_slot_tag(slot), life = sl_life_code(life_ns), old_life = old & SL_LIFE_FRESH;
	uint64_t tag = old >> SL_TAG_HOME_SHIFT << SL_TAG_HOME_SHIFT | marks << SL_TAG_USE_SHIFT | life;
	SL_DEBUG_ASSERT(life <= SL_LIFE_CODE_MAX && marks < (uint64_t)1 << (SL_TAG_HOME_SHIFT - SL_TAG_USE_SHIFT));
	if (old_life < life)
		__atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED); /* the lock's release orders it */
	sl_slot_write(slot, state);
	if (old_life >= life && tag != old)
		__atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED);
	SL_POINT();
}

#endif
