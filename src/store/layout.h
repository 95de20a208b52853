/* Every byte of the arena. The arena is one contiguous, position-independent piece of memory, in the byte order of the
 * machine: no pointer, size_t, bool or enum is in it, and everything refers to everything by number.
 *
 *   +0                 header, one page: what the arena is, its clock, its figures
 *   +4096              processes, one page: who may own a lock
 *   +8192              blocks' control, ten pages: their lock, free lists and undo log
 *   +49152             page_count pages of 32 buckets; a bucket is 128 bytes, two cache lines that are fetched together
 *   +sketch_offset     cell_count cells of 32 bytes: what is remembered of evicted counters (sketch.c)
 *   +map_offset        unit_count bytes, what each unit is (blocks.c)
 *   +blocks_offset     unit_count units of 64 bytes, the blocks of logs and sub-buckets
 *
 *   bucket   u32 lock | u32 spill | 5 tags of 8 bytes | 5 states of 16 bytes, each aligned to 16 (algo/state.h)
 *   tag      63..20 fingerprint, never 0 | 19 has a block | 18..14 home bucket in the page | 13..11 start | 10..8 use |
 *            7..0 lifetime; all 0: free
 *
 * A key's hash of 64 bits is used up: its low 5 bits are the home bucket, the next 44 the fingerprint, and the other 15
 * pick the page, with the low ones after them for evenness. Of those 15 an arena uses as many as it had pages for when
 * it was made (hash_top_bits), so that page and slot always say the whole hash: enough to place the counter in an arena
 * of another size. Two counters are one only if all those bits agree: 3 in 10,000 for any two among 100 M keys.
 * An entry whose home is full spills into another bucket of the same page (one TLB entry, no further than 4 KiB), and
 * stays under its home's lock; `spill` has a bit for each bucket of the page that holds entries of this home.
 *
 * I1  A tag changes from 0 only by compare-and-swap, since several homes may want the slot; everything else of a slot
 *     is read and written under the lock of the entry's home.
 * I2  `spill` is written under its bucket's lock, and has at least the bits that it must have.
 * I3  lifetime: 2^19 ns units from the instant of the last charge (base/coarse.h) to where the state equals no state,
 *     rounded up to a number of the form (4 + m) * 2^e; code = 4 e + m. 255: FRESH, claimed and not yet charged: the
 *     slot is given back if its owner dies.
 * I4  a slot with the block bit has the number of its block in bits 31..0 of its second state word, 0 for none.
 * I5  use: how much of the quota the last charge left used, in one of eight steps (use.h); for choosing whom to evict,
 *     and for what is remembered then. start: with which use, plus 1, the counter started from the sketch; 0: with
 *     none.
 *     Start 7 goes with use 0, 6 or 7 only, since who starts with all of a quota has nothing left beyond; with 1..5 it
 *     marks a slot that is no counter but stands beside some (I8), which the sketch never hears of; 7 with 4 one that
 *     is never evicted (I9), 7 with 3 one that goes last (I10).
 * I6  A state is published by one aligned store of 16 bytes; where the lifetime grows with it the tag is written
 *     before, where it shrinks after: at any instant the slot lives long enough for the state that it has.
 * I7  A lock word is 0, or says who holds it: row of the process table and generation (SL_OWNER_*).
 * I8  What is kept beside a counter (its open reservations, its strikes) is a slot of the same home, whose fingerprint
 *     is the counter's with one bit changed, and which has a block. A request that may be retried has one of
 *     its own.
 * I9  A key's own quota, set at run time, is kept beside its counter as well: its state is that of algo/override.h, its
 *     block says whose it is (check/override.c). Whatever the counter's page or the blocks are short of, it stays until
 *     it has expired. The header counts them, and the units of their blocks: never less than there are; a process that
 *     died, or a program that does not know of them, may leave more, until a first opener counts anew.
 * I10 Strikes whose penalty is kept say in bits 63..32 of their second state word how long it runs from the instant of
 *     the first, in units of 2^27 ns, rounded up. While it runs they go after all counters, the latest first. */
#ifndef SL_LAYOUT_H
#define SL_LAYOUT_H

#include "sluice.h"

enum {
	SL_ARENA_VERSION = 3,
	SL_ARENA_VERSION_ALIKE = 2, /* since which counters have been kept as they are: dumps of those are read */
	SL_PAGE_BYTES = 4096,
	SL_BUCKET_BYTES = 128,
	SL_PAGE_BUCKETS = SL_PAGE_BYTES / SL_BUCKET_BYTES,
	SL_BUCKET_SLOTS = 5,
	SL_PAGE_SLOTS = SL_PAGE_BUCKETS * SL_BUCKET_SLOTS,
	SL_UNIT_BYTES = 64,
	SL_PROCESSES = 256, /* rows of the process table; row 0 is never used */
	SL_UNDO_MAX = 2496, /* words that one change of the blocks may write: 16 limits, each the block of its counter, of
	                     * its reservations and one to compute in, taken and freed: 130 at most for a limit */
	SL_RUN_CLASSES = 32 * 4,
	SL_USES = 8,
};
#define SL_ARENA_MAGIC UINT64_C(0x0a32656369756c53) /* "Sluice2\n", little-endian */

/* Tags. */
enum {
	SL_TAG_LIFE_BITS = 8,
	SL_TAG_USE_SHIFT = 8,
	SL_TAG_START_SHIFT = 11,
	SL_TAG_HOME_SHIFT = 14,
	SL_TAG_BLOCK_SHIFT = 19,
	SL_TAG_PRINT_SHIFT = 20,
	SL_HASH_HOME_BITS = 5,
	SL_HASH_PRINT_BITS = 64 - SL_TAG_PRINT_SHIFT,
	SL_HASH_LOW_BITS = SL_HASH_HOME_BITS + SL_HASH_PRINT_BITS,
	SL_HASH_TOP_BITS_MAX = 64 - SL_HASH_LOW_BITS,
	SL_LIFE_FRESH = 255,
	SL_LIFE_CODE_MAX = 4 * 43 + 3, /* 7 * 2^43 units of 2^19 ns: all of 64 bits */
};

/* Lock words: row 31..24, generation of that row 23..0, never 0. */
enum { SL_OWNER_ROW_SHIFT = 24, SL_OWNER_GENERATION_MASK = 0xffffff };

/* Names a slot: its state stands at a fixed place relative to it (sl_slot_state()). */
struct sl_slot {
	uint64_t tag;
};

struct sl_bucket {
	uint32_t lock;
	uint32_t spill;
	struct sl_slot slots[SL_BUCKET_SLOTS];
	uint64_t states[SL_BUCKET_SLOTS][2] __attribute__((aligned(16)));
};

struct sl_page {
	struct sl_bucket buckets[SL_PAGE_BUCKETS];
};

/* How the arena's clock is anchored: instant = offset_ns + CLOCK_BOOTTIME of this boot. Two equal copies; one suffices.
 * The rules are in hosts/library/anchor.c. */
struct sl_anchor {
	uint64_t boot[2];   /* which boot of which kernel; 0: never anchored */
	uint64_t offset_ns; /* modulo 2^64 */
	uint64_t check;     /* of the words before, keyed with the arena's secret */
	uint64_t latest;    /* an instant that the clock has not reached: its bits 63..30, and a check of them below */
};

/* The first page. What stands before `check` is written once, when the arena is formatted. */
struct sl_header {
	uint64_t magic; /* written last: an arena without it was never finished */
	uint32_t version, header_bytes;
	uint64_t arena_bytes;
	uint64_t page_count;
	uint64_t cell_count;
	uint64_t unit_count;
	uint64_t sketch_offset, map_offset, blocks_offset;
	uint32_t hash_top_bits, blocks_percent;
	uint64_t secret[2];    /* of the fingerprints: keys that collide can't be prepared */
	uint64_t formatted_ns; /* wall time, for people */
	uint64_t check;        /* SipHash of all between `magic` and it */
	struct sl_anchor anchors[2];
	uint64_t latest_charge; /* no state has a later instant (latest.h); ahead of the truth by up to two steps of it */
	uint64_t repairs;       /* times the arena was verified by a first opener */
	uint64_t dropped;       /* counters dropped then, as torn */
	/* of quotas of keys' own; 0 in stores of those who know none: see I9 */
	uint64_t overrides, override_units;
	uint8_t apart[48];
	/* figures, atomic, on a cache line of their own that only a full or damaged store writes */
	uint64_t evicted;         /* counters in use that made room for others */
	uint64_t sketch_starts;   /* counters that started from the sketch */
	uint64_t sketch_until_ns; /* the instant from which nothing that the sketch remembers matters */
	uint64_t stolen_locks;    /* taken from owners that had died */
	uint64_t sweep_unit;      /* where the next search for room begins; under the blocks' lock */
	/* and one that hardly anybody writes, and everybody reads */
	uint64_t ledgers_until_ns; /* the instant from which no open reservation matters */
};

/* A row of the process table. Its holder keeps a lock on the row for as long as it lives (os/process.h), takes a new
 * generation with it, and never writes the row again. */
struct sl_process {
	uint32_t generation;
	uint32_t pid; /* for people */
	uint64_t since_ns;
};

struct sl_processes {
	struct sl_process rows[SL_PROCESSES];
};

struct sl_undo {
	uint64_t offset; /* of an aligned word of the arena */
	uint64_t old;
};

/* All of it is read and written under `lock`. */
struct sl_blocks {
	uint32_t lock;
	uint32_t undo_count; /* 0: no change is under way */
	uint64_t free_units;
	uint64_t nonempty[SL_RUN_CLASSES / 64]; /* a bit for each list that is not empty */
	uint32_t heads[SL_RUN_CLASSES];         /* first free run of each class, as unit number; 0 for none */
	uint8_t apart[1024 - 32 - SL_RUN_CLASSES * 4];
	struct sl_undo undo[SL_UNDO_MAX];
};

/* One cell of the sketch: for each use, the latest instant at which an evicted counter of that use was last charged, in
 * 2^25 ns units modulo 2^32; 0 for none. */
struct sl_sketch_cell {
	uint32_t latest[SL_USES];
};

_Static_assert(sizeof(struct sl_bucket) == SL_BUCKET_BYTES, "a bucket is two cache lines");
_Static_assert(sizeof(struct sl_page) == SL_PAGE_BYTES, "a page is a page");
_Static_assert(sizeof(struct sl_header) <= SL_PAGE_BYTES, "the header fits its page");
_Static_assert(sizeof(struct sl_processes) == SL_PAGE_BYTES, "so do the processes");
_Static_assert(SL_LIFE_CODE_MAX < SL_LIFE_FRESH, "FRESH is no lifetime");

/* Where the parts that never move begin. */
enum {
	SL_PROCESSES_OFFSET = SL_PAGE_BYTES,
	SL_BLOCKS_CONTROL_OFFSET = 2 * SL_PAGE_BYTES,
	SL_PAGES_OFFSET = 12 * SL_PAGE_BYTES,
};
_Static_assert(sizeof(struct sl_blocks) == SL_PAGES_OFFSET - SL_BLOCKS_CONTROL_OFFSET, "ten pages of control");

#endif
