/* Blocks: memory for the states that do not fit a slot, inside the arena.
 *
 * A binary buddy system over units of 64 bytes, with one addition: a request that is no power of two gives the tail of
 * its power of two back at once, in smaller buddies. Sizes then go in steps of a quarter of an octave (1 2 3 4 5 6 7 8
 * 10 12 14 16 20 ...), so that a log that grows by a quarter wastes an eighth on average, and freeing still coalesces
 * to whole powers of two: days of growing and shrinking leave no more fragments than buddies do.
 *
 *   map    one byte a unit: 0 inside of something, 0x80 | order: first of a free block, 1..127: first of a taken one,
 *          of size class byte - 1
 *   lists  free blocks of each order, doubly linked by unit number in their own first 8 bytes
 *
 * Unit 0 is never given out: its number means "none". Source: Knuth, TAOCP vol. 1, 2.5; the lists could be rebuilt from
 * the slots alone, since every taken block is referred to by exactly one.
 *
 * I1  every unit but 0 belongs to exactly one free or taken block.
 * I2  no two free buddies of one order: they would have been merged. */
#include "base/assert.h"
#include "store/store.h"

enum {
	MAP_FREE = 0x80,
	CLASS_MAX = 110, /* 7 * 2^26 units: more than the largest arena has */
	CLASS_LINEAR = 4,
};

struct link {
	uint32_t next, prev;
};

static struct link *link_of(const struct sluice_store *store, uint32_t unit) {
	return (struct link *)(void *)(store->units + (size_t)unit * SL_UNIT_BYTES);
}

/* Units of a size class: 1 2 3 4, then 5 6 7 8 times 2^k. */
static uint64_t class_units(unsigned class) {
	if (class < CLASS_LINEAR)
		return class + 1;
	return (uint64_t)(5 + (class - CLASS_LINEAR) % 4) << (class - CLASS_LINEAR) / 4;
}

static unsigned class_for(uint64_t units) {
	unsigned class = 0;
	while (class < CLASS_MAX && class_units(class) < units)
		class ++;
	return class;
}

static unsigned order_down(uint64_t units) {
	return 63 - (unsigned)__builtin_clzll(units);
}

static void push(struct sluice_store *store, uint32_t unit, unsigned order) {
	uint32_t head = store->header->free_heads[order];
	*link_of(store, unit) = (struct link){head, 0};
	if (head != 0)
		link_of(store, head)->prev = unit;
	store->header->free_heads[order] = unit;
	store->map[unit] = (uint8_t)(MAP_FREE | order);
}

static void take_out(struct sluice_store *store, uint32_t unit, unsigned order) {
	struct link link = *link_of(store, unit);
	if (link.prev != 0)
		link_of(store, link.prev)->next = link.next;
	else
		store->header->free_heads[order] = link.next;
	if (link.next != 0)
		link_of(store, link.next)->prev = link.prev;
	store->map[unit] = 0;
}

/* Frees an aligned block of 2^order units, merging it with its buddy as long as that is free. */
static void give_back(struct sluice_store *store, uint32_t unit, unsigned order) {
	store->map[unit] = 0;
	while (order + 1 < SL_ORDERS) {
		uint64_t buddy = unit ^ (uint64_t)1 << order;
		if (buddy >= store->header->unit_count || store->map[buddy] != (MAP_FREE | order))
			break;
		take_out(store, (uint32_t)buddy, order);
		unit &= ~((uint32_t)1 << order);
		order++;
	}
	push(store, unit, order);
}

/* Frees any run of units, cut into aligned powers of two. */
static void give_back_run(struct sluice_store *store, uint32_t unit, uint64_t units) {
	store->header->free_units += (uint32_t)units;
	while (units != 0) {
		unsigned order = order_down(units), aligned = unit == 0 ? SL_ORDERS - 1 : (unsigned)__builtin_ctz(unit);
		order = order < aligned ? order : aligned;
		give_back(store, unit, order);
		unit += (uint32_t)1 << order;
		units -= (uint64_t)1 << order;
	}
}

void sl_blocks_format(struct sluice_store *store) {
	if (store->header->unit_count > 1)
		give_back_run(store, 1, store->header->unit_count - 1);
}

static uint32_t take_locked(struct sluice_store *store, unsigned class) {
	uint64_t units = class_units(class);
	unsigned want = order_down(units) + ((units & (units - 1)) != 0), order = want;
	uint32_t unit;
	while (order < SL_ORDERS && store->header->free_heads[order] == 0)
		order++;
	if (order >= SL_ORDERS)
		return 0;
	unit = store->header->free_heads[order];
	take_out(store, unit, order);
	store->header->free_units -= (uint32_t)1 << order;
	give_back_run(store, unit + (uint32_t)units, ((uint64_t)1 << order) - units);
	store->map[unit] = (uint8_t)(class + 1);
	return unit;
}

uint32_t sl_block_take(struct sluice_store *store, uint64_t bytes, uint64_t *true_bytes) {
	uint64_t units = bytes / SL_UNIT_BYTES + (bytes % SL_UNIT_BYTES != 0);
	unsigned class = class_for(units);
	uint32_t unit;
	if (units == 0 || units > store->header->unit_count || class >= CLASS_MAX)
		return 0;
	sl_lock(store, &store->header->blocks_lock);
	unit = take_locked(store, class);
	sl_unlock(&store->header->blocks_lock);
	*true_bytes = class_units(class) * SL_UNIT_BYTES;
	return unit;
}

void sl_block_free(struct sluice_store *store, uint32_t block) {
	SL_ASSERT(block != 0 && block < store->header->unit_count);
	sl_lock(store, &store->header->blocks_lock);
	SL_ASSERT(store->map[block] != 0 && store->map[block] < MAP_FREE);
	give_back_run(store, block, class_units(store->map[block] - 1u));
	sl_unlock(&store->header->blocks_lock);
}

uint64_t sl_block_bytes(const struct sluice_store *store, uint32_t block) {
	/* relaxed: a taken block's byte changes only with its owner, whose lock is held */
	return class_units(__atomic_load_n(&store->map[block], __ATOMIC_RELAXED) - 1u) * SL_UNIT_BYTES;
}

const char *sl_blocks_verify(const struct sluice_store *store) {
	uint64_t count = store->header->unit_count, free_units = 0;
	for (uint64_t unit = 1; unit < count;) {
		uint8_t kind = store->map[unit];
		uint64_t units = kind >= MAP_FREE ? (uint64_t)1 << (kind & 31) : kind != 0 ? class_units(kind - 1u) : 0;
		if (units == 0 || unit + units > count)
			return "the block map has a unit that belongs to no block";
		for (uint64_t inside = unit + 1; inside < unit + units; inside++)
			if (store->map[inside] != 0)
				return "the block map has a block inside of a block";
		free_units += kind >= MAP_FREE ? units : 0;
		unit += units;
	}
	if (free_units != store->header->free_units)
		return "the number of free units is not that of the block map";
	for (unsigned order = 0; order < SL_ORDERS; order++)
		for (uint32_t unit = store->header->free_heads[order]; unit != 0; unit = link_of(store, unit)->next) {
			if (unit >= count || store->map[unit] != (MAP_FREE | order))
				return "a free list names a block that is not free";
			free_units -= (uint64_t)1 << order;
		}
	return free_units == 0 ? NULL : "a free block is in no free list";
}
