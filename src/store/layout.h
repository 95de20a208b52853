/* Every byte of the arena. The arena is one contiguous, position-independent piece of memory: no pointer, size_t, bool
 * or enum is in it, and everything refers to everything by number.
 *
 *   +0                 header, one page of 4096 bytes
 *   +4096              page_count pages of 32 buckets; a bucket is 128 bytes, two cache lines that are fetched together
 *   +blocks_offset     unit_count units of 64 bytes, the blocks of logs and sub-buckets
 *   +map_offset        unit_count bytes, what each unit is (blocks.c)
 *
 *   bucket   u32 lock | u32 spill | 5 slots of 24 bytes
 *   slot     u64 tag, 16 bytes of state (algo/state.h)
 *   tag      63..14 fingerprint, never 0 | 13 has a block | 12..8 home bucket in the page | 7..0 lifetime; all 0: free
 *
 * A key's hash of 64 bits is used up: its high bits pick the page, its low 5 the home bucket and the next 50 are the
 * fingerprint, so that two counters are one only if (nearly) all 64 agree: 3 in 10,000 for any two among 100 M keys.
 * An entry whose home is full spills into another bucket of the same page (one TLB entry, no further than 4 KiB), and
 * stays under its home's lock; `spill` has a bit for each bucket of the page that holds entries of this home.
 *
 * I1  A tag changes from 0 only by compare-and-swap, since several homes may want the slot; everything else of a slot
 *     is read and written under the lock of the entry's home.
 * I2  `spill` is read and written under its bucket's lock.
 * I3  lifetime: 2^19 ns units from the instant of the last charge (base/coarse.h) to where the state equals no state,
 *     rounded up to a number of the form (4 + m) * 2^e; code = 4 e + m. 255: pinned by the check that is under way.
 * I4  a slot with the block bit has the number of its block in bits 31..0 of its second state word, 0 for none yet. */
#ifndef SL_LAYOUT_H
#define SL_LAYOUT_H

#include "sluice.h"

enum {
	SL_ARENA_VERSION = 1,
	SL_PAGE_BYTES = 4096,
	SL_BUCKET_BYTES = 128,
	SL_PAGE_BUCKETS = SL_PAGE_BYTES / SL_BUCKET_BYTES,
	SL_BUCKET_SLOTS = 5,
	SL_UNIT_BYTES = 64,
	SL_ORDERS = 32, /* block orders: 2^0 .. 2^31 units */
};
#define SL_ARENA_MAGIC UINT64_C(0x31656369756c5321) /* "!Sluice1", little-endian */

struct sl_slot {
	uint64_t tag;
	uint64_t state[2];
};

struct sl_bucket {
	uint32_t lock;
	uint32_t spill;
	struct sl_slot slots[SL_BUCKET_SLOTS];
};

struct sl_page {
	struct sl_bucket buckets[SL_PAGE_BUCKETS];
};

/* The first page. Written when the arena is formatted, but for the last cache lines, which the blocks' lock guards. */
struct sl_header {
	uint64_t magic;
	uint32_t version, header_bytes;
	uint64_t arena_bytes;
	uint64_t page_count;
	uint64_t blocks_offset, map_offset;
	uint64_t unit_count;
	uint64_t secret[2]; /* of the fingerprints: keys that collide can't be prepared */
	uint8_t reserved[192 - 9 * 8];
	uint32_t blocks_lock;
	uint32_t free_units;
	uint32_t free_heads[SL_ORDERS]; /* first free block of each order, as unit number; 0 for none */
};

_Static_assert(sizeof(struct sl_slot) == 24, "a slot is 24 bytes");
_Static_assert(sizeof(struct sl_bucket) == SL_BUCKET_BYTES, "a bucket is two cache lines");
_Static_assert(sizeof(struct sl_page) == SL_PAGE_BYTES, "a page is a page");
_Static_assert(sizeof(struct sl_header) <= SL_PAGE_BYTES, "the header fits its page");

#endif
