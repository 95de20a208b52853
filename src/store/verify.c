/* Whether an arena is one that this code could have left: for tests, fuzzers, and `inspect --verify`. Quiet stores
 * only. */
#include "store/blocks.h"
#include "store/store.h"

/* One slot: its home's spill bit names its bucket, its fingerprint is there once, its block is a taken one. */
static const char *verify_slot(const struct sluice_store *store, const struct sl_page *page, unsigned at,
                               const struct sl_slot *slot, uint64_t *blocks) {
	const struct sl_bucket *home = &page->buckets[sl_tag_home(slot->tag)];
	struct sl_place place = {(struct sl_bucket *)(uintptr_t)home, slot->tag};
	uint32_t block = (uint32_t)sl_slot_state(slot)[1];
	if (slot->tag >> SL_TAG_PRINT_SHIFT == 0)
		return "a slot has no fingerprint";
	if ((slot->tag & SL_LIFE_FRESH) > SL_LIFE_CODE_MAX)
		return "a slot is claimed, and nobody is charging it";
	if (home != &page->buckets[at] && !(home->spill >> at & 1))
		return "a spilled slot is in a bucket that its home does not name";
	if (sl_slot_find(&place) != slot)
		return "a counter stands in two slots";
	if (!sl_tag_has_block(slot->tag) || block == 0)
		return NULL;
	if (block >= store->unit_count || store->map[block] != 1)
		return "a slot refers to a block that is not taken";
	if (sl_block_owner(store, block) != slot)
		return "a block says that it is another slot's";
	++*blocks;
	return NULL;
}

static uint64_t taken_blocks(const struct sluice_store *store) {
	uint64_t taken = 0;
	for (uint64_t unit = 1; unit < store->unit_count; unit++)
		taken += store->map[unit] == 1;
	return taken;
}

const char *sl_store_verify(const struct sluice_store *store) {
	uint64_t blocks = 0, overrides = 0;
	const char *wrong = sl_blocks_verify(store);
	for (uint64_t p = 0; p < store->page_count && wrong == NULL; p++)
		for (unsigned at = 0; at < SL_PAGE_BUCKETS && wrong == NULL; at++) {
			const struct sl_bucket *bucket = &store->pages[p].buckets[at];
			if (bucket->lock != 0)
				wrong = "a bucket is locked";
			for (int i = 0; i < SL_BUCKET_SLOTS && wrong == NULL; i++)
				if (bucket->slots[i].tag != 0) {
					wrong = verify_slot(store, &store->pages[p], at, &bucket->slots[i], &blocks);
					overrides += sl_marks_are_kept(sl_tag_marks(bucket->slots[i].tag));
				}
		}
	if (wrong == NULL && overrides > store->header->overrides)
		wrong = "there are more quotas of keys' own than are counted";
	if (wrong == NULL && blocks != taken_blocks(store))
		wrong = "a taken block is referred to by no slot, or by two";
	return wrong;
}
