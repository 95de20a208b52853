/* Blocks: memory for the states that do not fit a slot, inside the arena.
 *
 * Runs of units of 64 bytes, of any length, at any place: a log that grows by an eighth gets that and not the next
 * power of two. Free runs hang in lists by size class, four classes an octave, with a bit for each list that is not
 * empty, so taking and freeing are O(1); a freed run is merged with its free neighbours at once, so that days of
 * growing and shrinking leave no more fragments than there are gaps between living blocks.
 *
 *   map    one byte a unit: 0 inside of something or unused, TAKEN or FREE for the first of a run, LAST for the last
 *          of a free run of two or more
 *   taken  u24 units, u40 whose it is (page, slot in the page) | what the owner keeps there
 *   free   u32 units, u32 next | u32 prev, u32 0 | ... | u64 units, the last 8 bytes of its last unit
 *
 * Unit 0 is never given out: its number means "none". Source: Masmano et al., TLSF (2004); Knuth, TAOCP vol. 1, 2.5,
 * for the tags at both ends.
 *
 * Everything here is one small change of words under one lock, and may end with the death of its maker at any store. So
 * each aligned word is saved to an undo log before it is written (address, old value, then the count); whoever takes
 * the lock and finds the log not empty puts the old words back, newest first. A change has happened when the log is
 * emptied. What the maker's home keeps of blocks, the state that names one, is saved the same way: so no block is ever
 * lost, and none is named twice.
 *
 * I1  every unit but 0 belongs to exactly one free or taken run.
 * I2  no two free runs are neighbours.
 * I3  undo_count is 0 whenever the lock is free. */
#include "base/assert.h"
#include "base/math.h"
#include "store/blocks.h"

enum { INSIDE = 0, TAKEN = 1, FREE = 2, LAST = 3 };
enum { MAP_WORD = 8 };
enum { LOOKS = 8 }; /* runs of the very class that are tried for one that is long enough */

struct run {
	uint32_t units, next;
	uint32_t prev, zero;
};

/* What a damaged arena names and has not is unit 0: see sl_block_head(). */
static uint32_t in_arena(const struct sluice_store *store, uint64_t unit) {
	return unit < store->unit_count ? (uint32_t)unit : 0;
}

static struct run *run_of(const struct sluice_store *store, uint32_t unit) {
	return (struct run *)(void *)(store->units + (size_t)in_arena(store, unit) * SL_UNIT_BYTES);
}

/* The length of a free run: none that goes past the end, and at least one. */
static uint32_t length_of(const struct sluice_store *store, uint32_t unit) {
	uint32_t units = run_of(store, unit)->units;
	return units != 0 && unit < store->unit_count && units <= store->unit_count - unit ? units : 1;
}

/* The same, at its other end. */
static uint64_t *end_of(const struct sluice_store *store, uint32_t unit, uint32_t units) {
	size_t last = in_arena(store, (uint64_t)unit + units - 1);
	return (uint64_t *)(void *)(store->units + (last + 1) * SL_UNIT_BYTES) - 1;
}

static unsigned class_of(uint32_t units) {
	unsigned order = 31 - (unsigned)__builtin_clz(units);
	SL_ASSERT(units != 0 && order * 4 + 3 < SL_RUN_CLASSES);
	return order * 4 + (unsigned)(((uint64_t)units << 2 >> order) & 3);
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

void sl_blocks_save(struct sluice_store *store, const void *word) {
	struct sl_blocks *blocks = store->blocks;
	uint64_t offset = (uint64_t)((const uint8_t *)word - (const uint8_t *)store->header) & ~(uint64_t)7;
	const uint64_t *now = (const uint64_t *)(const void *)((const uint8_t *)store->header + offset);
	uint32_t count = blocks->undo_count;
	SL_ASSERT(offset >= SL_BLOCKS_CONTROL_OFFSET && offset < store->arena_bytes);
	if (__builtin_expect(count >= SL_UNDO_MAX, 0))
		return; /* of a damaged arena: no change of ours has so many words */
	/* atomic: a state's words are read by hints without a lock */
	blocks->undo[count] = (struct sl_undo){offset, __atomic_load_n(now, __ATOMIC_RELAXED)};
	SL_POINT();
	__atomic_store_n(&blocks->undo_count, count + 1, __ATOMIC_RELEASE); /* after the entry; pairs with undo() */
	SL_POINT();
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* and before the write that it is for */
}

static void undo(struct sluice_store *store) {
	struct sl_blocks *blocks = store->blocks;
	/* relaxed: the lock was acquired */
	uint32_t count = __atomic_load_n(&blocks->undo_count, __ATOMIC_RELAXED);
	for (uint32_t i = count < SL_UNDO_MAX ? count : SL_UNDO_MAX; i-- > 0;) {
		struct sl_undo entry = blocks->undo[i];
		if (entry.offset % 8 == 0 && entry.offset >= SL_BLOCKS_CONTROL_OFFSET && entry.offset < store->arena_bytes)
			__atomic_store_n((uint64_t *)(void *)((uint8_t *)store->header + entry.offset), entry.old,
			                 __ATOMIC_RELAXED);
		SL_POINT();
	}
	__atomic_store_n(&blocks->undo_count, 0, __ATOMIC_RELEASE);
}

sluice_err sl_blocks_begin(struct sluice_store *store) {
	uint32_t dead = 0;
	if (!sl_lock_try(store, &store->blocks->lock)) {
		sluice_err err = sl_lock_slow(store, &store->blocks->lock, &dead);
		if (err != SLUICE_OK)
			return err;
	}
	if (dead != 0)
		__atomic_fetch_add(&store->header->stolen_locks, 1, __ATOMIC_RELAXED);
	SL_POINT();
	if (store->blocks->undo_count != 0)
		undo(store);
	return SLUICE_OK;
}

sluice_err sl_blocks_why_full(const struct sluice_store *store) {
	sluice_err err = SLUICE_E_FULL;
	(void)sl_lock_is_held_up(store, &store->blocks->lock, &err);
	return err;
}

void sl_blocks_next(struct sluice_store *store) {
	SL_POINT();
	__atomic_store_n(&store->blocks->undo_count, 0, __ATOMIC_RELEASE);
	SL_POINT();
}

void sl_blocks_commit(struct sluice_store *store) {
	sl_blocks_next(store);
	sl_unlock(&store->blocks->lock);
}

void sl_blocks_abort(struct sluice_store *store) {
	undo(store);
	sl_unlock(&store->blocks->lock);
}

/* A write that is undone with the change; whole, for figures are read without the lock. */
#define PUT(store, place, value) \
	(sl_blocks_save(store, &(place)), __atomic_store_n(&(place), (value), __ATOMIC_RELAXED))

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void mark(struct sluice_store *store, uint32_t unit, uint8_t kind) {
	unit = in_arena(store, unit);
	PUT(store, store->map[unit], kind);
	SL_POINT();
}

static void mark_free(struct sluice_store *store, uint32_t unit, uint32_t units, bool free) {
	mark(store, unit, free ? FREE : INSIDE);
	if (units > 1)
		mark(store, unit + units - 1, free ? LAST : INSIDE);
}

static void push(struct sluice_store *store, uint32_t unit, uint32_t units) {
	struct sl_blocks *blocks = store->blocks;
	unsigned class = class_of(units);
	uint32_t head = blocks->heads[class];
	struct run *run = run_of(store, unit);
	SL_ASSERT(unit != 0 && (uint64_t)unit + units <= store->unit_count);
	sl_blocks_save(store, &run->units);
	sl_blocks_save(store, &run->prev);
	*run = (struct run){units, head, 0, 0};
	PUT(store, *end_of(store, unit, units), units);
	if (head != 0)
		PUT(store, run_of(store, head)->prev, unit);
	else
		PUT(store, blocks->nonempty[class / 64], blocks->nonempty[class / 64] | (uint64_t)1 << class % 64);
	PUT(store, blocks->heads[class], unit);
	PUT(store, blocks->free_units, blocks->free_units + units);
	mark_free(store, unit, units, true);
}

static void take_out(struct sluice_store *store, uint32_t unit) {
	struct sl_blocks *blocks = store->blocks;
	struct run run = *run_of(store, unit);
	run.units = length_of(store, unit);
	unsigned class = class_of(run.units);
	SL_DEBUG_ASSERT(run.units != 0 && run.units <= store->unit_count);
	if (run.prev != 0)
		PUT(store, run_of(store, run.prev)->next, run.next);
	else
		PUT(store, blocks->heads[class], run.next);
	if (run.next != 0)
		PUT(store, run_of(store, run.next)->prev, run.prev);
	if (blocks->heads[class] == 0)
		PUT(store, blocks->nonempty[class / 64], blocks->nonempty[class / 64] & ~((uint64_t)1 << class % 64));
	PUT(store, blocks->free_units, blocks->free_units - run.units);
	mark_free(store, unit, run.units, false);
}

/* A free run of at least so many units; 0 when there is none. Its own class first, where runs may be too short. */
static uint32_t find(const struct sluice_store *store, uint32_t units) {
	const struct sl_blocks *blocks = store->blocks;
	unsigned class = class_of(units);
	uint32_t unit = blocks->heads[class];
	for (int i = 0; i < LOOKS && unit != 0; i++, unit = run_of(store, unit)->next)
		if (run_of(store, unit)->units >= units)
			return unit;
	for (class ++; class < SL_RUN_CLASSES; class = (class / 64 + 1) * 64) {
		uint64_t left = blocks->nonempty[class / 64] >> class % 64;
		if (left != 0)
			return blocks->heads[class + (unsigned)__builtin_ctzll(left)];
	}
	return 0;
}

uint32_t sl_blocks_take(struct sluice_store *store, uint64_t bytes, uint64_t *true_bytes) {
	uint64_t units = sl_block_units_for(bytes);
	uint32_t unit, found;
	if (bytes == 0 || bytes > store->unit_count * SL_UNIT_BYTES || units >> SL_BLOCK_UNITS_BITS != 0)
		return 0;
	unit = find(store, (uint32_t)units);
	if (unit == 0)
		return 0;
	found = length_of(store, unit);
	if (found < units || unit >= store->unit_count)
		return 0; /* damaged */
	/* what its owner will overwrite without asking */
	sl_blocks_save(store, &run_of(store, unit)->units);
	sl_blocks_save(store, &run_of(store, unit)->prev);
	sl_blocks_save(store, end_of(store, unit, found));
	take_out(store, unit);
	if (found > units)
		push(store, unit + (uint32_t)units, found - (uint32_t)units);
	SL_ASSERT(unit != 0 && unit + units <= store->unit_count);
	sl_block_head(store, unit)->word = units; /* of nobody, until sl_block_own() */
	mark(store, unit, TAKEN);
	*true_bytes = units * SL_UNIT_BYTES - sizeof(struct sl_block_head);
	SL_ASSERT(*true_bytes >= bytes && *true_bytes - bytes < SL_UNIT_BYTES);
	return unit;
}

void sl_blocks_free(struct sluice_store *store, uint32_t block) {
	uint32_t unit = block, units;
	uint64_t unit_count = store->unit_count;
	if (block == 0 || block >= unit_count || store->map[block] != TAKEN)
		return; /* of a damaged arena */
	units = sl_block_units(store, block);
	SL_ASSERT(units != 0 && (uint64_t)block + units <= unit_count);
	mark(store, block, INSIDE);
	if (unit + units < unit_count && store->map[unit + units] == FREE) {
		uint32_t after = unit + units;
		units += length_of(store, after);
		take_out(store, after);
	}
	if (unit > 1 && (store->map[unit - 1] == FREE || store->map[unit - 1] == LAST)) {
		uint64_t before = *end_of(store, unit - 1, 1);
		if (before < unit && length_of(store, unit - (uint32_t)before) == before) {
			units += (uint32_t)before;
			unit -= (uint32_t)before;
			take_out(store, unit);
		}
	}
	push(store, unit, units);
}

void sl_block_own(struct sluice_store *store, uint32_t block, const struct sl_slot *slot) {
	const struct sl_bucket *bucket = sl_slot_bucket(slot);
	const struct sl_page *page = sl_page_of(bucket);
	uint64_t at = (uint64_t)(bucket - page->buckets) * SL_BUCKET_SLOTS + (uint64_t)(slot - bucket->slots);
	uint64_t owner = (uint64_t)(page - store->pages) << SL_BLOCK_OWNER_SLOT_BITS | at;
	SL_ASSERT(block != 0 && at < SL_PAGE_SLOTS && (uint64_t)(page - store->pages) < store->page_count);
	sl_block_head(store, block)->word = owner << SL_BLOCK_UNITS_BITS | sl_block_units(store, block);
}

struct sl_slot *sl_block_owner(const struct sluice_store *store, uint32_t block) {
	uint64_t owner = sl_block_head(store, block)->word >> SL_BLOCK_UNITS_BITS, page = owner >> SL_BLOCK_OWNER_SLOT_BITS;
	uint64_t at = owner & ((1 << SL_BLOCK_OWNER_SLOT_BITS) - 1);
	if (page >= store->page_count || at >= SL_PAGE_SLOTS)
		return NULL;
	return &store->pages[page].buckets[at / SL_BUCKET_SLOTS].slots[at % SL_BUCKET_SLOTS];
}

bool sl_blocks_stretch(const struct sluice_store *store, uint64_t from, uint64_t units, struct sl_stretch *stretch) {
	uint64_t count = store->unit_count, unit = from;
	while (unit < count && store->map[unit] != TAKEN && store->map[unit] != FREE)
		unit++;
	stretch->first = (uint32_t)unit;
	stretch->count = 0;
	while (unit < count && unit - stretch->first < units) {
		bool free = store->map[unit] == FREE;
		stretch->end = (uint32_t)unit;
		if (!free && stretch->count == SL_STRETCH_MAX)
			return count - stretch->first >= units;
		if (!free)
			stretch->blocks[stretch->count++] = (uint32_t)unit;
		unit += free ? length_of(store, (uint32_t)unit) : sl_block_units(store, (uint32_t)unit);
	}
	stretch->end = (uint32_t)unit;
	SL_ASSERT(unit <= (count > from ? count : from) && stretch->count <= SL_STRETCH_MAX);
	return unit - stretch->first >= units;
}

uint32_t sl_blocks_ahead(const struct sluice_store *store, uint64_t from, uint32_t most, uint32_t *blocks) {
	uint64_t end = sl_min(from + SL_AHEAD_UNITS, store->unit_count), word;
	uint32_t count = 0;
	for (uint64_t unit = from; unit + MAP_WORD <= end && count < most; unit += MAP_WORD) {
		memcpy(&word, store->map + unit, sizeof word);
		/* a bit for each byte that is TAKEN: odd, and without the bit of LAST */
		for (word &= ~(word >> 1) & UINT64_C(0x0101010101010101); word != 0 && count < most; word &= word - 1)
			blocks[count++] = (uint32_t)(unit + (unsigned)__builtin_ctzll(word) / 8);
	}
	SL_ASSERT(count <= most);
	return count;
}

void sl_blocks_rebuild(struct sluice_store *store) {
	struct sl_blocks *blocks = store->blocks;
	uint64_t count = store->unit_count;
	*blocks = (struct sl_blocks){.lock = 0};
	for (uint64_t unit = 1; unit < count;) {
		uint64_t most = sl_min(count - unit, UINT32_MAX);
		const uint8_t *taken = memchr(store->map + unit, TAKEN, most);
		uint64_t end = taken != NULL ? (uint64_t)(taken - store->map) : unit + most;
		if (end > unit)
			push(store, (uint32_t)unit, (uint32_t)(end - unit));
		blocks->undo_count = 0; /* nobody to undo it for */
		unit = taken != NULL ? end + sl_block_units(store, (uint32_t)end) : end;
		SL_ASSERT(unit <= count);
	}
}

/* ---- verifying -------------------------------------------------------------------------------------------------- */

static const char *verify_map(const struct sluice_store *store, uint64_t *free_units) {
	uint64_t count = store->unit_count;
	bool after_free = false;
	for (uint64_t unit = 1; unit < count;) {
		uint8_t kind = store->map[unit];
		bool free = kind == FREE;
		uint64_t units = free ? run_of(store, (uint32_t)unit)->units : sl_block_units(store, (uint32_t)unit);
		if ((kind != TAKEN && !free) || units == 0 || unit + units > count)
			return "the block map has a unit that belongs to no run";
		for (uint64_t inside = unit + 1; inside < unit + units; inside++)
			if (store->map[inside] != (free && inside == unit + units - 1 ? LAST : INSIDE))
				return "the block map has a run inside of a run";
		if (free && (after_free || *end_of(store, (uint32_t)unit, (uint32_t)units) != units))
			return "two free runs are neighbours, or the ends of one disagree";
		*free_units += free ? units : 0;
		after_free = free;
		unit += units;
	}
	return NULL;
}

const char *sl_blocks_verify(const struct sluice_store *store) {
	const struct sl_blocks *blocks = store->blocks;
	uint64_t free_units = 0;
	const char *wrong = verify_map(store, &free_units);
	if (wrong != NULL)
		return wrong;
	if (blocks->lock != 0 || blocks->undo_count != 0)
		return "a change of the blocks was not completed";
	if (free_units != blocks->free_units)
		return "the number of free units is not that of the block map";
	for (unsigned class = 0; class < SL_RUN_CLASSES; class ++) {
		uint32_t prev = 0;
		if ((blocks->heads[class] != 0) != (blocks->nonempty[class / 64] >> class % 64 & 1))
			return "a list of free runs is not what its bit says";
		for (uint32_t unit = blocks->heads[class]; unit != 0; unit = run_of(store, unit)->next) {
			const struct run *run = run_of(store, unit);
			if (unit >= store->unit_count || store->map[unit] != FREE || class_of(run->units) != class ||
			    run->prev != prev)
				return "a list of free runs names what is none of its runs";
			/* no run is met twice, since each has one before it: so these are among those that the map has */
			SL_ASSERT(run->units <= free_units);
			free_units -= run->units;
			prev = unit;
		}
	}
	return free_units == 0 ? NULL : "a free run is in no list";
}
