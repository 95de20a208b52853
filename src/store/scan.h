/* Walking an arena, for tools (scan.c). */
#ifndef SL_SCAN_H
#define SL_SCAN_H

#include "store/slot.h"

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
	uint32_t used, expired, with_block, spilled, overrides;
	uint32_t uses[SL_USES];
	uint64_t block_bytes;
	uint32_t held_up; /* homes whose counters were passed over: a process that is stopped holds their locks */
};

/* Calls visit(context, entry) for each counter of a page that has not expired by `now`, its home locked; a visit that
 * returns false ends it. `figures` are added to. Either may be NULL. Safe beside other processes; one that is stopped
 * with a lock in hand is waited for once (sl_held_up_wait()). */
bool sl_store_scan(struct sluice_store *store, uint64_t page, sluice_ns now, struct sl_page_figures *figures,
                   bool (*visit)(void *context, const struct sl_entry *entry), void *context);

/* Puts a counter into an arena of the same secret and at most as many hash_top_bits, as it stands. SLUICE_OK,
 * SLUICE_E_FULL, SLUICE_E_RANGE where the arena has such a counter or the entry is none, or held up (lock.h). */
SLUICE_MUST_USE sluice_err sl_store_put(struct sluice_store *store, const struct sl_entry *entry, sluice_ns now);

#endif
