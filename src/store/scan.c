/* Walking an arena for tools: figures, dumps, and putting counters into another arena. Beside its users: each home is
 * locked while its counters are looked at, as by any check. */
#include "base/assert.h"
#include "base/coarse.h"
#include "store/blocks.h"
#include "store/scan.h"
#include "store/store.h"

struct scan {
	struct sluice_store *store;
	sluice_ns now;
	struct sl_page_figures *figures;
	bool (*visit)(void *context, const struct sl_entry *entry);
	void *context;
};

static void add_figures(const struct scan *scan, const struct sl_bucket *home, const struct sl_slot *slot,
                        const struct sl_entry *entry, bool expired) {
	struct sl_page_figures *figures = scan->figures;
	figures->used++;
	figures->expired += expired;
	figures->with_block += entry->block != NULL;
	figures->block_bytes += entry->block_bytes;
	figures->spilled += sl_slot_bucket(slot) != home;
	figures->overrides += !expired && sl_marks_are_kept(sl_tag_marks(entry->tag));
	if (!expired && !sl_marks_are_beside(sl_tag_marks(entry->tag)))
		figures->uses[sl_tag_use(entry->tag)]++;
}

static bool scan_slot(const struct scan *scan, const struct sl_bucket *home, const struct sl_slot *slot) {
	const uint64_t *state = sl_slot_state(slot);
	struct sl_entry entry = {.tag = sl_slot_tag(slot), .state = {state[0], state[1]}};
	bool expired = sl_slot_has_expired(slot, entry.tag, scan->now);
	uint32_t block = sl_tag_has_block(entry.tag) ? (uint32_t)state[1] : 0;
	if (block != 0) {
		entry.block = sl_block_memory(scan->store, block);
		entry.block_bytes = sl_block_bytes(scan->store, block);
	}
	if (scan->figures != NULL)
		add_figures(scan, home, slot, &entry, expired);
	if (expired || scan->visit == NULL)
		return true;
	entry.hash = sl_slot_hash(scan->store, slot);
	return scan->visit(scan->context, &entry);
}

static bool scan_home(const struct scan *scan, struct sl_bucket *home) {
	struct sl_page *page = sl_page_of(home);
	unsigned at_home = (unsigned)(home - page->buckets);
	bool more = true;
	for (uint32_t bits = home->spill | (uint32_t)1 << at_home; bits != 0 && more; bits &= bits - 1) {
		struct sl_bucket *bucket = &page->buckets[__builtin_ctz(bits)];
		for (int i = 0; i < SL_BUCKET_SLOTS && more; i++) {
			uint64_t tag = sl_slot_tag(&bucket->slots[i]);
			if (tag != 0 && sl_tag_home(tag) == at_home)
				more = scan_slot(scan, home, &bucket->slots[i]);
		}
	}
	return more;
}

bool sl_store_scan(struct sluice_store *store, uint64_t page, sluice_ns now, struct sl_page_figures *figures,
                   bool (*visit)(void *context, const struct sl_entry *entry), void *context) {
	struct scan scan = {store, now, figures, visit, context};
	bool more = true;
	SL_ASSERT(page < store->page_count);
	for (unsigned at = 0; at < SL_PAGE_BUCKETS && more; at++) {
		struct sl_bucket *home = &store->pages[page].buckets[at];
		if (sl_home_lock_patiently(store, home) != SLUICE_OK) {
			if (figures != NULL)
				figures->held_up++;
			continue;
		}
		more = scan_home(&scan, home);
		sl_home_unlock(home);
	}
	return more;
}

/* Writes an entry's block and state into a slot that was claimed for it. */
static sluice_err fill(struct sluice_store *store, struct sl_slot *slot, const struct sl_entry *entry) {
	uint64_t state[2] = {entry->state[0], entry->state[1]}, bytes, tag;
	uint32_t block = 0;
	sluice_err err = sl_blocks_begin(store);
	if (err != SLUICE_OK)
		return err;
	if (sl_tag_has_block(entry->tag))
		state[1] = state[1] >> 32 << 32;
	if (entry->block != NULL) {
		block = sl_blocks_take(store, entry->block_bytes, &bytes);
		if (block == 0) {
			sl_blocks_abort(store);
			return SLUICE_E_FULL;
		}
		SL_ASSERT(bytes >= entry->block_bytes);
		memcpy(sl_block_memory(store, block), entry->block, entry->block_bytes);
		state[1] |= block;
		sl_block_own(store, block, slot);
	}
	sl_blocks_save_slot(store, slot);
	sl_slot_write(slot, state);
	tag = sl_slot_tag(slot) >> SL_TAG_HOME_SHIFT << SL_TAG_HOME_SHIFT;
	__atomic_store_n(&slot->tag, tag | (entry->tag & (((uint64_t)1 << SL_TAG_HOME_SHIFT) - 1)), __ATOMIC_RELAXED);
	sl_blocks_commit(store);
	return SLUICE_OK;
}

static sluice_err put_locked(struct sluice_store *store, const struct sl_place *place, const struct sl_entry *entry,
                             sluice_ns now) {
	const struct sl_pins pins = {.count = 0};
	struct sl_slot *slot;
	sluice_err err;
	if (sl_slot_find(place) != NULL)
		return SLUICE_E_RANGE;
	slot = sl_slot_claim(store, place, now, &pins);
	if (slot == NULL)
		return SLUICE_E_FULL;
	err = fill(store, slot, entry);
	if (err != SLUICE_OK)
		(void)sl_slot_free(store, place->home, slot); /* it has no block yet */
	return err;
}

sluice_err sl_store_put(struct sluice_store *store, const struct sl_entry *entry, sluice_ns now) {
	bool has_block = sl_tag_has_block(entry->tag), kept = sl_marks_are_kept(sl_tag_marks(entry->tag));
	uint64_t units = sl_block_units_for(entry->block_bytes);
	struct sl_place place = sl_place_of_hash(store, entry->hash, has_block);
	sluice_err err;
	if ((entry->tag & SL_LIFE_FRESH) > SL_LIFE_CODE_MAX || (entry->block != NULL && !has_block))
		return SLUICE_E_RANGE;
	if (entry->state[0] >= __atomic_load_n(&store->latest_ns, __ATOMIC_RELAXED))
		sl_store_raise_latest(store, entry->state[0]);
	if (sl_marks_are_beside(sl_tag_marks(entry->tag)) && has_block && !kept)
		sl_store_raise_ledgers(store, sl_slot_end(entry->state[0], entry->tag));
	if (kept && !sl_store_count_override(store, 1, units, sl_store_overrides_most(store)))
		return SLUICE_E_FULL;
	err = sl_home_lock(store, place.home);
	if (err == SLUICE_OK) {
		err = put_locked(store, &place, entry, now);
		sl_home_unlock(place.home);
	}
	if (kept && err != SLUICE_OK)
		sl_store_uncount_override(store, 1, units);
	return err;
}
