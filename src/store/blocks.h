/* Blocks: memory inside the arena for the states that do not fit a slot (blocks.c, room.c). */
#ifndef SL_BLOCKS_H
#define SL_BLOCKS_H

#include "store/slot.h"

/* A change of the blocks: between begin and commit, whoever has begun holds the one lock of all blocks. A change that
 * is not committed, because its owner died or gave up, has not happened: hence all taking in a change comes before all
 * freeing, so that nobody writes into a block that was freed and might not have been. Home locks are taken before,
 * never within. Beginning: SLUICE_OK, or held up (lock.h), and nothing has begun. */
SLUICE_MUST_USE sluice_err sl_blocks_begin(struct sluice_store *store);
void sl_blocks_commit(struct sluice_store *store);
void sl_blocks_abort(struct sluice_store *store);

/* Commits a change, and begins another without letting go of the lock. */
void sl_blocks_next(struct sluice_store *store);

/* Why nothing could be made free: SLUICE_E_FULL, or held up where the blocks' lock is, without which whoever has a
 * block can't go. */
sluice_err sl_blocks_why_full(const struct sluice_store *store);

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

/* A number that is none, as damage may leave it, is that of unit 0: nobody's, and nothing that matters. */
static inline struct sl_block_head *sl_block_head(const struct sluice_store *store, uint32_t block) {
	size_t unit = __builtin_expect(block < store->unit_count, 1) ? block : 0;
	return (struct sl_block_head *)(void *)(store->units + unit * SL_UNIT_BYTES);
}

/* At least one, and no more than there are after it, whatever stands there. */
static inline uint32_t sl_block_units(const struct sluice_store *store, uint32_t block) {
	uint64_t units = sl_block_head(store, block)->word & ((1 << SL_BLOCK_UNITS_BITS) - 1);
	uint64_t room = __builtin_expect(block < store->unit_count, 1) ? store->unit_count - block : 1;
	return (uint32_t)(units != 0 && units <= room ? units : 1);
}

static inline void *sl_block_memory(const struct sluice_store *store, uint32_t block) {
	return sl_block_head(store, block) + 1;
}

/* Its true size. On the line that the block begins with, so it costs no miss of its own. */
static inline uint64_t sl_block_bytes(const struct sluice_store *store, uint32_t block) {
	return (uint64_t)sl_block_units(store, block) * SL_UNIT_BYTES - sizeof(struct sl_block_head);
}

/* The units of a block that keeps so many bytes. */
static inline uint64_t sl_block_units_for(uint64_t bytes) {
	return (bytes + sizeof(struct sl_block_head) + SL_UNIT_BYTES - 1) / SL_UNIT_BYTES;
}

/* Within the change that took it: says whose a block is. And who that is; NULL where it can't be. */
void sl_block_own(struct sluice_store *store, uint32_t block, const struct sl_slot *slot);
struct sl_slot *sl_block_owner(const struct sluice_store *store, uint32_t block);

/* The most bytes that a charge lets a block have: a quarter of all, so that one counter, whose block is written anew
 * beside the old one when it grows, leaves half of them to others. Of very small stores up to a half. O(1). */
static inline uint64_t sl_block_bytes_most(const struct sluice_store *store) {
	uint64_t units = store->unit_count, small = units / 2 < 512 ? units / 2 : 512;
	return (units / 4 > small ? units / 4 : small) * SL_UNIT_BYTES - sizeof(struct sl_block_head);
}

/* A stretch of neighbouring blocks and free runs. */
enum { SL_STRETCH_MAX = 256 };
struct sl_stretch {
	uint32_t blocks[SL_STRETCH_MAX]; /* those that are taken */
	uint32_t count;
	uint32_t first, end; /* units */
};

/* Within a change: the stretch of at least `units` that begins with the first run from unit `from` on, or as much of it
 * as SL_STRETCH_MAX blocks are. False when it would go past the end; `end` is how far it got. */
bool sl_blocks_stretch(const struct sluice_store *store, uint64_t from, uint64_t units, struct sl_stretch *stretch);

/* Within a change: the first blocks from unit `from` on, by the map alone, so that nothing has to be read of them.
 * Fills at most `most` numbers, of blocks in the next SL_AHEAD_UNITS; returns how many. */
enum { SL_AHEAD_UNITS = 1024 };
uint32_t sl_blocks_ahead(const struct sluice_store *store, uint64_t from, uint32_t most, uint32_t *blocks);

/* Sets up the free lists of a formatted arena, or after a repair, from a map of which only taken units are marked. */
void sl_blocks_rebuild(struct sluice_store *store);

/* Checks the block map and free lists; NULL, or what is wrong. */
const char *sl_blocks_verify(const struct sluice_store *store);

/* A search for room, zeroed before the first try. */
struct sl_room_search {
	uint32_t tries;
	uint32_t first; /* unit from which on a long stretch is being freed, a piece at a time; 0: none is */
	uint64_t rank;  /* of the most used of its first piece */
};

/* Makes room for a block of so many bytes (room.c): frees the owners of neighbouring blocks, expired ones or else the
 * least used that a search met. Returns whether there was anybody who could go, or the blocks' lock was held up; others
 * may have been quicker to take the room, or to lock those owners, and of many small ones it takes several tries: it is
 * worth another as long as it returns true, which it does at most 64 times. For a caller to whom sl_blocks_take() has
 * said no; no change of blocks is open. Looks at some hundreds of owners at most. */
bool sl_store_make_room(struct sluice_store *store, uint64_t bytes, sluice_ns now, const struct sl_pins *pins,
                        struct sl_room_search *room);

#endif
