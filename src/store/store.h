/* The store: memory in, counters found and locked. It never knows what a limit is. Here is the arena as a whole; slots,
 * locks, blocks and the sketch have headers of their own. See layout.h for the bytes, and docs/design/008-store.md for
 * why they are as they are. */
#ifndef SL_STORE_H
#define SL_STORE_H

#include "base/math.h"
#include "store/latest.h"
#include "store/layout.h"

/* Fuzzers have small ones: a few calls fill them, and each input looks into all of one. */
#ifdef SL_SMALL_ARENAS
enum { SL_ARENA_BYTES_MIN = 96 * 1024 };
#else
enum { SL_ARENA_BYTES_MIN = 1024 * 1024 };
#endif
enum {
	SL_BLOCKS_PERCENT_DEFAULT = 50,
	SL_BLOCKS_PERCENT_MAX = 98,
};
#define SL_ARENA_BYTES_MAX ((uint64_t)256 << 30)

/* Whom this process has waited for in vain (lock.c). Its own, not the arena's. */
struct sl_stalls {
	uint64_t rows[SL_PROCESSES]; /* by row of the process table, atomic: 0, or which lock it sits on */
	uint64_t given_up;           /* calls that were not decided for it; atomic */
	uint32_t looks;              /* at a lock that does not move, SL_LOOK_NS apart, until its owner counts as stopped */
	bool parks;                  /* calls that would have to wait for one are left to the host: sl_held_up_wait() */
};

/* Stretches of blocks that this process looked at for room and passed over for better ones (room.c): where each begins,
 * and its rank then; the least last. Its own, not the arena's; under the blocks' lock. */
enum { SL_PASSED_MAX = 16 };
struct sl_passed {
	uint64_t ranks[SL_PASSED_MAX];
	uint32_t units[SL_PASSED_MAX];
	uint32_t count;
	uint32_t unexpired; /* stretches looked at since one had expired; stays where it would overflow */
	uint64_t ahead;     /* the unit up to which the memory of owners was asked for */
};

/* A process's handle of an arena: where it is mapped here, and nothing that another process would have to know. */
struct sluice_store {
	struct sl_header *header;
	struct sl_processes *processes;
	struct sl_blocks *blocks;
	struct sl_page *pages;
	struct sl_sketch_cell *sketch;
	uint8_t *map;
	uint8_t *units;
	uint64_t page_count, cell_count, unit_count; /* as the header said: nobody can change these any more */
	uint64_t secret[2];
	uint64_t hash_top_mask; /* of header->hash_top_bits: these bits of a hash, and how many more a slot leaves */
	uint32_t hash_unused, hash_top_bits;
	uint32_t owner;     /* this process's lock word; 0: it may not decide (no row was free for it after a fork) */
	uint64_t latest_ns; /* somewhat before header->latest_charge as last seen: past it, that is raised; atomic */
	uint64_t arena_bytes;
	struct sl_passed passed;
	void (*relax)(const struct sluice_store *);                         /* lets others run; NULL: spins on */
	void (*rest)(const struct sluice_store *, sluice_ns ns);            /* sleeps; with `stalls` */
	sluice_ns (*clock)(const struct sluice_store *);                    /* monotonic; with `stalls` */
	struct sl_stalls *stalls;                                           /* NULL: waits without a bound */
	bool (*owner_is_dead)(const struct sluice_store *, uint32_t owner); /* NULL: none ever is */
	void *home;                                                         /* of whoever mapped the arena */
	uint64_t *claimed; /* private memory: a bit for each page in which a slot was ever claimed; NULL: nobody counts */
	/* Of a file: the first run of pages from *page on, and before *end, that may have been written: the rest reads as
	 * zero. *page = *end where there is none. NULL: all may have been. */
	void (*find_written)(const struct sluice_store *, uint64_t *page, uint64_t *end);
};

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
 * `owner_is_dead`, `home`, `claimed` and `find_written` are the caller's to fill. */
void sl_arena_attach(struct sluice_store *store, void *memory);

/* What was found by a first opener, who has the arena for itself: nobody else is attached. */
struct sl_repair {
	uint64_t counters;   /* kept */
	uint64_t dropped;    /* torn: in a place where they may not be, twice, from the future, with a block not theirs */
	uint64_t fresh;      /* claimed by an owner that died before it charged them */
	uint64_t blocks;     /* kept */
	uint64_t overrides, override_units; /* of those, quotas of keys' own, and what their blocks take */
	sluice_ns until_ns;  /* of what is kept beside counters, the last end */
	sluice_ns last_ns;   /* of the latest charge that was kept, about */
	sluice_ns latest_ns; /* past which a charge is torn; near the end of time where the arena does not say */
};

/* Makes an arena whole after a crash, a power cut or damage: frees all locks, drops what is torn, builds spill bits,
 * block map and free lists anew from the slots that are left. Never fails; any bytes may stand in the arena after its
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

/* Whether any counter of the arena may have open reservations that matter at `now`; and, before one is given some,
 * until when they do. */
static inline bool sl_store_has_ledgers(const struct sluice_store *store, sluice_ns now) {
	return now < __atomic_load_n(&store->header->ledgers_until_ns, __ATOMIC_RELAXED);
}
void sl_store_raise_ledgers(struct sluice_store *store, sluice_ns until);

/* Whether any key of the arena may have a quota of its own. */
static inline bool sl_store_has_overrides(const struct sluice_store *store) {
	return __atomic_load_n(&store->header->overrides, __ATOMIC_RELAXED) != 0;
}

/* The most units of blocks that they may take, and how many of them the arena can have: a half of the units, of which
 * each takes one or more, and a quarter of the slots, so that counters find room beside them. */
static inline uint64_t sl_store_override_units_most(const struct sluice_store *store) {
	return store->unit_count / 2;
}
static inline uint64_t sl_overrides_most(uint64_t pages, uint64_t units) {
	return sl_min(pages * SL_PAGE_SLOTS / 4, units / 2);
}
static inline uint64_t sl_store_overrides_most(const struct sluice_store *store) {
	return sl_overrides_most(store->page_count, store->unit_count);
}

/* The same of an arena that is yet to be made, of at least SL_ARENA_BYTES_MIN. */
uint64_t sl_arena_overrides_most(uint64_t bytes, uint32_t blocks_percent);

/* Counts one more of them, whose block has so many units, before it is there: false where it would be more than `most`,
 * or its block too much. Counts one less, or units of one that gets another block, after it has gone. (slot.c) */
SLUICE_MUST_USE bool sl_store_count_override(struct sluice_store *store, uint64_t count, uint64_t units, uint64_t most);
void sl_store_uncount_override(struct sluice_store *store, uint64_t count, uint64_t units);

#endif
