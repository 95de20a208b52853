/* The store: memory in, counters found and locked. It never knows what a limit is. See layout.h for its bytes, and
 * docs/design/008-store.md for why they are as they are. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include "base/coarse.h"
#include "base/math.h"
#include "base/point.h"
#include "base/siphash.h"
#include "store/latest.h"
#include "store/layout.h"
#include "store/use.h"

enum {
	SL_ARENA_BYTES_MIN = 1024 * 1024,
	SL_BLOCKS_PERCENT_DEFAULT = 50,
	SL_BLOCKS_PERCENT_MAX = 98,
};
#define SL_ARENA_BYTES_MAX ((uint64_t)256 << 30)

/* A process's handle of an arena: where it is mapped here, and nothing that another process would have to know. */
struct sluice_store {
	struct sl_header *header;
	struct sl_processes *processes;
	struct sl_blocks *blocks;
	struct sl_page *pages;
	struct sl_cell *sketch;
	uint8_t *map;
	uint8_t *units;
	uint64_t page_count;
	uint64_t secret[2];
	uint64_t hash_top_mask; /* of header->hash_top_bits: these bits of a hash, and how many more a slot leaves */
	uint32_t hash_unused;
	uint32_t owner;     /* this process's lock word; 0: it may not decide (no row was free for it after a fork) */
	uint64_t latest_ns; /* somewhat before header->latest_charge as last seen: past it, that is raised; atomic */
	uint64_t arena_bytes;
	void (*relax)(const struct sluice_store *);                         /* lets others run; NULL: spins on */
	bool (*owner_is_dead)(const struct sluice_store *, uint32_t owner); /* NULL: none ever is */
	void *home;                                                         /* of whoever mapped the arena */
};

/* ---- the arena (arena.c) --------------------------------------------------------------------------------------- */

/* Formats `bytes` of zeroed memory (page-aligned, a multiple of a page) as an empty arena.
 *  blocks_percent  share for blocks, 1..98
 *  secret          16 random bytes
 *  wall_ns         noted for people
 * Returns SLUICE_OK or SLUICE_E_RANGE for a size out of SL_ARENA_BYTES_MIN..MAX. O(1) but for the block map. */
SLUICE_MUST_USE sluice_err sl_arena_format(void *memory, uint64_t bytes, uint32_t blocks_percent,
                                           const uint64_t secret[2], sluice_ns wall_ns);

/* The same with the secret, hash bits, clock and figures of another arena, so that its counters can be put into it. */
SLUICE_MUST_USE sluice_err sl_arena_format_like(void *memory, uint64_t bytes, uint32_t blocks_percent,
                                                const struct sl_header *like);

/* Whether the first `bytes` of memory are the header of a finished arena of this version. NULL, or what is wrong, for a
 * person. Reads nothing but sizeof(struct sl_header); the rest may be missing. */
const char *sl_arena_refuse(const void *memory, uint64_t bytes);

/* Fills a handle for an arena that sl_arena_refuse() has nothing against; owns nothing. `owner`, `relax`,
 * `owner_is_dead` and `home` are the caller's to fill. */
void sl_arena_attach(struct sluice_store *store, void *memory);

/* What was found by a first opener, who has the arena for itself: nobody else is attached. */
struct sl_repair {
	uint64_t counters; /* kept */
	uint64_t dropped;  /* torn: in a place where they may not be, twice, from the future, with a block not theirs */
	uint64_t fresh;    /* claimed by an owner that died before it charged them */
	uint64_t blocks;   /* kept */
	sluice_ns last_ns; /* of the latest charge, about */
};

/* Makes an arena whole after a crash, a power cut or damage: frees all locks, drops what is torn, builds spill bits,
 * block map and free lists anew from the slots that are left. Never fails; any bytes may stand in the arena behind its
 * header. O(arena). */
void sl_arena_repair(struct sluice_store *store, struct sl_repair *found);

/* The bytes of the arena, for tests that compare them. */
const void *sl_store_arena(const struct sluice_store *store, size_t *bytes);

/* Walks the whole arena: every tag in a place where it may be, every spill bit, every block referred to once, the free
 * runs disjoint from them. Quiet stores only. Returns NULL, or what is wrong. */
const char *sl_store_verify(const struct sluice_store *store);

/* The instant that header->latest_charge says; UINT64_MAX where it is damaged. */
sluice_ns sl_store_latest_charge(const struct sluice_store *store);

/* Raises header->latest_charge above `now`; before any charge whose instant is at or past store->latest_ns. */
void sl_store_raise_latest(struct sluice_store *store, sluice_ns now);

/* ---- finding (slot.c) ------------------------------------------------------------------------------------------ */

/* Where a counter lives, as its fingerprint says. */
struct sl_place {
	struct sl_bucket *home;
	uint64_t tag; /* without use and lifetime */
};

static inline uint64_t sl_page_of_hash(const struct sluice_store *store, uint64_t hash) {
	uint64_t low = hash & (((uint64_t)1 << SL_HASH_LOW_BITS) - 1);
	return (uint64_t)(sl_mul((hash & store->hash_top_mask) | low << store->hash_unused, store->page_count) >> 64);
}

/* Where the counter of a hash lives. `has_block`: its algorithm keeps a block. */
static inline struct sl_place sl_place_of_hash(const struct sluice_store *store, uint64_t hash, bool has_block) {
	uint64_t home = hash & (SL_PAGE_BUCKETS - 1);
	uint64_t print = hash << SL_HASH_TOP_BITS_MAX >> (SL_HASH_TOP_BITS_MAX + SL_HASH_HOME_BITS);
	return (struct sl_place){&store->pages[sl_page_of_hash(store, hash)].buckets[home],
	                         (print != 0 ? print : 1) << SL_TAG_PRINT_SHIFT |
	                             (uint64_t)has_block << SL_TAG_BLOCK_SHIFT | home << SL_TAG_HOME_SHIFT};
}

/* One or two words of identity and the key's bytes to a place. The first word must tell whether there is a second.
 * `has_block`: the counter's algorithm keeps a block. */
static inline struct sl_place sl_place_of(const struct sluice_store *store, const uint64_t *identity, int words,
                                          struct sluice_bytes key, bool has_block) {
	return sl_place_of_hash(store, sl_siphash(store->secret, identity, words, key, 1, 3), has_block);
}

static inline void sl_place_prefetch(const struct sl_place *place) {
	__builtin_prefetch(place->home, 1);
	__builtin_prefetch((const char *)place->home + 64, 1);
}

static inline uint64_t sl_tag_home(uint64_t tag) {
	return tag >> SL_TAG_HOME_SHIFT & (SL_PAGE_BUCKETS - 1);
}

static inline uint64_t sl_tag_use(uint64_t tag) {
	return tag >> SL_TAG_USE_SHIFT & (SL_USES - 1);
}

/* Start and use. */
static inline uint64_t sl_tag_marks(uint64_t tag) {
	return tag >> SL_TAG_USE_SHIFT & ((1 << (SL_TAG_HOME_SHIFT - SL_TAG_USE_SHIFT)) - 1);
}

static inline bool sl_tag_has_block(uint64_t tag) {
	return tag >> SL_TAG_BLOCK_SHIFT & 1;
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
	return bucket->states[slot - bucket->slots];
}

/* The home that a used slot's tag names. */
static inline struct sl_bucket *sl_slot_home(const struct sl_slot *slot, uint64_t tag) {
	return &sl_page_of(sl_slot_bucket(slot))->buckets[sl_tag_home(tag)];
}

static inline bool sl_tag_matches(uint64_t slot_tag, uint64_t tag) {
	return (slot_tag ^ tag) >> SL_TAG_HOME_SHIFT == 0;
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

/* ---- locks (lock.c) -------------------------------------------------------------------------------------------- */

/* Waits for a lock, and takes it from an owner that has died. Returns true when it was taken so. */
bool sl_lock_slow(const struct sluice_store *store, uint32_t *lock);

static inline bool sl_lock_try(const struct sluice_store *store, uint32_t *lock) {
	uint32_t free = 0;
	/* acquire; pairs with sl_unlock */
	return __atomic_compare_exchange_n(lock, &free, store->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void sl_unlock(uint32_t *lock) {
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* release; pairs with sl_lock_try */
}

/* The lock of a home bucket taken from a dead owner: what it left half done there is undone. */
void sl_home_recover(struct sluice_store *store, struct sl_bucket *home);

/* Takes the lock of a home bucket. Locks of several are taken in address order. */
static inline void sl_home_lock(struct sluice_store *store, struct sl_bucket *home) {
	if (__builtin_expect(!sl_lock_try(store, &home->lock), 0) && sl_lock_slow(store, &home->lock))
		sl_home_recover(store, home);
}

static inline void sl_home_unlock(struct sl_bucket *home) {
	sl_unlock(&home->lock);
}

/* ---- claiming, publishing, freeing (slot.c, publish.h) --------------------------------------------------------- */

/* The slots that a call has found or claimed so far: no claim and no sweep of the same call may take one of them for
 * expired or evict it. Their homes are locked by the call. */
struct sl_hold {
	const struct sl_slot *slots[SLUICE_ITEMS_MAX];
	uint32_t count;
};

/* Takes a slot for a new counter whose home is locked: FRESH, its state zeroed. A free one at home, an expired one at
 * home, a free one in the page, an expired one in the page; else the least used counter of the page is evicted into the
 * sketch. NULL only when every counter of the page is held, or its home locked by others. */
struct sl_slot *sl_slot_claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                              const struct sl_hold *hold);

/* Frees a counter's slot and its block, if it has one; its home is locked, and no change of blocks is open. */
void sl_slot_free(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot);

/* Whether the state of a slot of this tag equals no state by now. Without the home's lock: whether it seems to. */
bool sl_slot_has_expired(const struct sl_slot *slot, uint64_t tag, sluice_ns now);

/* The hash that a used slot's counter has; its bits that the arena does not use (hash_top_bits) are 0. */
uint64_t sl_slot_hash(const struct sluice_store *store, const struct sl_slot *slot);

/* Frees a slot other than the caller's: one that has expired or, with `evict`, one in use. `locked` is the home that
 * the caller has locked (NULL: none); the lock of another is tried. False when it is not to be had, or the slot is no
 * longer what it was. */
bool sl_slot_make_free(struct sluice_store *store, struct sl_slot *slot, const struct sl_bucket *locked, bool evict,
                       sluice_ns now);

/* Whom to evict first: the less used, and among those the longer unused, have the lower rank; 0: has expired. */
uint64_t sl_slot_rank(const struct sl_slot *slot, uint64_t tag, sluice_ns now);

/* Whether a slot is among those that a call holds. */
static inline bool sl_hold_has(const struct sl_hold *hold, const struct sl_slot *slot) {
	for (uint32_t i = 0; i < hold->count; i++)
		if (hold->slots[i] == slot)
			return true;
	return false;
}

/* Makes room for a block of so many bytes (room.c): frees the owners of neighbouring blocks, expired ones or else the
 * least used that a search met. Returns whether there was anybody who could go; others may have been quicker to take
 * the room, or to lock those owners. For a caller to whom sl_blocks_take() has said no; no
 * change of blocks is open. */
bool sl_store_make_room(struct sluice_store *store, uint64_t bytes, sluice_ns now, const struct sl_hold *hold);

/* The lifetime code of a wait: see layout.h I3; and the units of 2^19 ns that the code of a tag (not FRESH) stands
 * for. */
static inline uint64_t sl_life_code(sluice_ns life_ns) {
	/* one unit more, since the instant that it is added to was rounded down; and the 4 of the form */
	uint64_t units = sl_max((life_ns >> SL_COARSE_SHIFT) + 2, 4), e = 61 - (uint64_t)__builtin_clzll(units);
	/* the two bits below the highest, rounded up: past 7 they carry into the next octave, as they should */
	return 4 * e + ((units + (((uint64_t)1 << e) - 1)) >> e) - 4;
}

static inline uint64_t sl_life_units(uint64_t tag) {
	return (4 + (tag & 3)) << ((tag & SL_LIFE_FRESH) >> 2);
}

/* Writes 16 aligned bytes with one instruction: a process that dies leaves the old ones or the new ones. In assembly,
 * since compilers split a 16-byte store of theirs in two; and joined in registers, since a 16-byte load of what was
 * just stored by halves would wait until those have left the core (15 cycles). */
static inline void sl_store16(uint64_t to[2], uint64_t low, uint64_t high) {
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
	if (old_life < life)
		__atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED); /* the lock's release orders it */
	sl_slot_write(slot, state);
	if (old_life >= life && tag != old)
		__atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED);
	SL_POINT();
}

/* ---- the sketch (sketch.c) ------------------------------------------------------------------------------------- */

/* What is remembered of a counter that was evicted: at `instant` it was charged for the last time, and held at most
 * sl_use_cost(quota, use) then. */
struct sl_past {
	sluice_ns instant;
	uint64_t use;
};

/* Remembers a counter by its page and tag: `last` is the instant of its last charge, rounded up as one likes. */
void sl_sketch_note(struct sluice_store *store, uint64_t page, uint64_t tag, sluice_ns last);

/* What the sketch has of a counter that has no slot: fills at most SL_USES pasts, their instants rising, uses falling.
 * Returns how many. Two misses of memory; call it only where sl_sketch_is_used(). */
int sl_sketch_ask(const struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                  struct sl_past pasts[SL_USES]);

static inline bool sl_sketch_is_used(const struct sluice_store *store, sluice_ns now) {
	return now < __atomic_load_n(&store->header->sketch_until_ns, __ATOMIC_RELAXED);
}

/* ---- blocks (blocks.c) ----------------------------------------------------------------------------------------- */

/* A change of the blocks: between begin and commit, whoever has begun holds the one lock of all blocks. A change that
 * is not committed, because its owner died or gave up, has not happened: hence all taking in a change comes before all
 * freeing, so that nobody writes into a block that was freed and might not have been. Home locks are taken before,
 * never within. */
void sl_blocks_begin(struct sluice_store *store);
void sl_blocks_commit(struct sluice_store *store);
void sl_blocks_abort(struct sluice_store *store);

/* Within a change: takes a block of at least `bytes`; returns its number (> 0) and its true size, or 0 when there is no
 * room. O(1). */
uint32_t sl_blocks_take(struct sluice_store *store, uint64_t bytes, uint64_t *true_bytes);

/* Within a change: frees a block. O(1). */
void sl_blocks_free(struct sluice_store *store, uint32_t block);

/* Within a change: an aligned word of the arena that the caller is about to write will have its present value again if
 * the change does not happen. */
void sl_blocks_save(struct sluice_store *store, const void *word);

/* The same for a slot, tag and state. */
static inline void sl_blocks_save_slot(struct sluice_store *store, const struct sl_slot *slot) {
	sl_blocks_save(store, &slot->tag);
	sl_blocks_save(store, &sl_slot_state(slot)[0]);
	sl_blocks_save(store, &sl_slot_state(slot)[1]);
}

/* What stands before the memory of a block that is taken: units 23..0, whose it is 63..24. */
struct sl_block_head {
	uint64_t word;
};
enum { SL_BLOCK_UNITS_BITS = 24, SL_BLOCK_OWNER_SLOT_BITS = 8 };

static inline struct sl_block_head *sl_block_head(const struct sluice_store *store, uint32_t block) {
	return (struct sl_block_head *)(void *)(store->units + (size_t)block * SL_UNIT_BYTES);
}

static inline uint32_t sl_block_units(const struct sluice_store *store, uint32_t block) {
	return (uint32_t)(sl_block_head(store, block)->word & ((1 << SL_BLOCK_UNITS_BITS) - 1));
}

static inline void *sl_block_memory(const struct sluice_store *store, uint32_t block) {
	return sl_block_head(store, block) + 1;
}

/* Its true size. On the line that the block begins with, so it costs no miss of its own. */
static inline uint64_t sl_block_bytes(const struct sluice_store *store, uint32_t block) {
	return (uint64_t)sl_block_units(store, block) * SL_UNIT_BYTES - sizeof(struct sl_block_head);
}

/* Within the change that took it: says whose a block is. And who that is; NULL where it can't be. */
void sl_block_own(struct sluice_store *store, uint32_t block, const struct sl_slot *slot);
struct sl_slot *sl_block_owner(const struct sluice_store *store, uint32_t block);

/* A stretch of neighbouring blocks and free runs. */
struct sl_stretch {
	uint32_t blocks[256]; /* those that are taken */
	uint32_t count;
	uint32_t first, end; /* units */
};
enum { SL_STRETCH_MAX = 256 };

/* Within a change: the stretch of at least `units` that begins with the first run from unit `from` on. False when it
 * would have too many blocks, or go past the end. */
bool sl_blocks_stretch(const struct sluice_store *store, uint64_t from, uint64_t units, struct sl_stretch *stretch);

/* Sets up the free lists of a formatted arena, or after a repair, from a map of which only taken units are marked. */
void sl_blocks_rebuild(struct sluice_store *store);

/* Checks the block map and free lists; NULL, or what is wrong. */
const char *sl_blocks_verify(const struct sluice_store *store);

/* ---- walking (scan.c) ------------------------------------------------------------------------------------------ */

/* A counter as it stands, for tools: all that another arena needs to take it in. */
struct sl_entry {
	uint64_t hash; /* sl_slot_hash() */
	uint64_t tag;  /* use and lifetime; whether it has a block */
	uint64_t state[2];
	const void *block; /* NULL: none */
	uint64_t block_bytes;
};

/* What a page holds. */
struct sl_page_figures {
	uint32_t used, expired, with_block, spilled;
	uint32_t uses[SL_USES];
	uint64_t block_bytes;
};

/* Calls visit(context, entry) for each counter of a page that has not expired by `now`, its home locked; a visit that
 * returns false ends it. `figures` (may be NULL) are added to. Safe beside other processes. */
bool sl_store_scan(struct sluice_store *store, uint64_t page, sluice_ns now, struct sl_page_figures *figures,
                   bool (*visit)(void *context, const struct sl_entry *entry), void *context);

/* Puts a counter into an arena of the same secret and at most as many hash_top_bits, as it stands. SLUICE_OK,
 * SLUICE_E_FULL, or SLUICE_E_RANGE where the arena has such a counter or the entry is none. */
SLUICE_MUST_USE sluice_err sl_store_put(struct sluice_store *store, const struct sl_entry *entry, sluice_ns now);

#endif
