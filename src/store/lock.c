/* Waiting for locks, and taking them from the dead.
 *
 * A lock word is 0 or names its owner (layout.h I7). An owner holds a lock for well under a microsecond, so a waiter
 * spins, then lets others run, and only after some rounds of that asks whether the owner is still there: a system call,
 * of which the core knows nothing (os/process.h). Dead owners' words are replaced by compare-and-swap of the very word
 * that was seen: a row of the process table that has been given to another process since has another generation, so no
 * living owner's word is ever mistaken for a dead one's.
 *
 * What a dead owner may have left in a home, and what becomes of it (docs/design/009-locking.md has the whole table):
 *   a FRESH slot               freed: its call was never answered, or it was being freed
 *   a state                    whole, since it is published by one store; a lifetime that is too long, never too short
 *   a spill bit                built anew from the page; a bit too many was harmless
 *   a change of the blocks     undone by whoever takes the blocks' lock next (blocks.c), states included: so that
 *                              comes first */
#include "store/blocks.h"

enum {
	SPINS = 64,      /* tries of a round */
	ASK_ROUNDS = 16, /* rounds between two questions after the owner */
};

static inline void pause_cpu(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Replaces the word of a dead owner by ours. */
static bool steal(const struct sluice_store *store, uint32_t *lock, uint32_t seen) {
	return seen != 0 && store->owner_is_dead != NULL && store->owner_is_dead(store, seen) &&
	       /* acquire: the dead owner's stores were seen by all when the kernel dropped its row */
	       __atomic_compare_exchange_n(lock, &seen, store->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

bool sl_lock_slow(const struct sluice_store *store, uint32_t *lock) {
	for (unsigned round = 1;; round++) {
		uint32_t seen = 0;
		for (int i = 0; i < SPINS; i++) {
			seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
			if (seen == 0 && sl_lock_try(store, lock))
				return false;
			pause_cpu();
		}
		if (round % ASK_ROUNDS == 0 && steal(store, lock, seen)) {
			__atomic_fetch_add(&store->header->stolen_locks, 1, __ATOMIC_RELAXED);
			return true;
		}
		if (store->relax != NULL)
			store->relax(store);
	}
}

void sl_home_recover(struct sluice_store *store, struct sl_bucket *home) {
	struct sl_page *page = sl_page_of(home);
	unsigned at_home = (unsigned)(home - page->buckets);
	uint32_t spill = 0;
	sl_blocks_begin(store);
	sl_blocks_commit(store);
	for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++)
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			struct sl_slot *slot = &page->buckets[at].slots[i];
			uint64_t tag = sl_slot_tag(slot);
			if (tag == 0 || sl_tag_home(tag) != at_home)
				continue;
			if ((tag & SL_LIFE_FRESH) == SL_LIFE_FRESH)
				__atomic_store_n(&slot->tag, 0, __ATOMIC_RELEASE); /* pairs with claim_free() */
			else
				spill |= (uint32_t)1 << at;
		}
	sl_home_spill(home, spill & ~((uint32_t)1 << at_home));
}
