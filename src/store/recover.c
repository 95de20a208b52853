/* Homes whose owner died with their lock in hand.
 *
 * What a dead owner may have left in a home, and what becomes of it (docs/design/009-locking.md has the whole table):
 *   a FRESH slot               freed: its call was never answered, or it was being freed
 *   a state                    whole, since it is published by one store; a lifetime that is too long, never too short
 *   a spill bit                built anew from the page; a bit too many was harmless
 *   a change of the blocks     undone by whoever takes the blocks' lock next (blocks.c), states included: so that
 *                              comes first. Where that lock can't be had the home is left to the next one: it gets the
 *                              dead owner's word back */
#include "base/assert.h"
#include "store/blocks.h"
#include "store/slot.h"
#include "store/store.h"

/* A home taken from the dead is made whole. */
static sluice_err recover(struct sluice_store *store, struct sl_bucket *home) {
	struct sl_page *page = sl_page_of(home);
	unsigned at_home = (unsigned)(home - page->buckets);
	uint32_t spill = 0;
	sluice_err err = sl_blocks_begin(store);
	SL_ASSERT(at_home < SL_PAGE_BUCKETS && (uint64_t)(page - store->pages) < store->page_count);
	if (err != SLUICE_OK)
		return err;
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
	return SLUICE_OK;
}

sluice_err sl_home_lock_slow(struct sluice_store *store, struct sl_bucket *home) {
	uint32_t dead;
	sluice_err err = sl_lock_slow(store, &home->lock, &dead);
	if (err != SLUICE_OK || dead == 0)
		return err;
	SL_ASSERT(store->owner_is_dead != NULL);
	err = recover(store, home);
	if (err == SLUICE_OK)
		__atomic_fetch_add(&store->header->stolen_locks, 1, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&home->lock, dead, __ATOMIC_RELEASE); /* for the next one who waits */
	return err;
}

sluice_err sl_home_lock_patiently(struct sluice_store *store, struct sl_bucket *home) {
	sluice_err err;
	do
		err = sl_home_lock(store, home);
	while (sl_is_held_up(err) && sl_held_up_wait(store, &err));
	return err;
}
