/* Slots: finding counters in the pages of the arena, and freeing them.
 *
 * A check touches one bucket: two neighbouring cache lines with the lock, the fingerprints and the small states. Only a
 * bucket that has overflowed sends its visitors on, to the buckets that its spill bits name. How a new counter gets a
 * slot is in claim.c. */
#include "base/assert.h"
#include "base/coarse.h"
#include "store/blocks.h"

bool sl_slot_has_expired(const struct sl_slot *slot, uint64_t tag, sluice_ns now) {
	uint64_t last = __atomic_load_n(&sl_slot_state(slot)[0], __ATOMIC_RELAXED);
	return (tag & SL_LIFE_FRESH) != SL_LIFE_FRESH &&
	       now >> SL_COARSE_SHIFT > (last >> SL_COARSE_SHIFT) + sl_life_units(tag);
}

struct sl_slot *sl_slot_find_spilled(const struct sl_place *place) {
	struct sl_page *page = sl_page_of(place->home);
	SL_DEBUG_ASSERT(sl_tag_home(place->tag) == (uint64_t)(place->home - page->buckets));
	for (uint32_t bits = place->home->spill; bits != 0; bits &= bits - 1) {
		struct sl_slot *slots = page->buckets[__builtin_ctz(bits)].slots;
		for (int i = 0; i < SL_BUCKET_SLOTS; i++)
			if (sl_tag_matches(sl_slot_tag(&slots[i]), place->tag))
				return &slots[i];
	}
	return NULL;
}

/* Clears the home's spill bit of a bucket in which none of its entries is left. */
static void update_spill(struct sl_bucket *home, const struct sl_bucket *bucket) {
	struct sl_page *page = sl_page_of(home);
	unsigned at_home = (unsigned)(home - page->buckets);
	SL_ASSERT(sl_page_of(bucket) == page);
	if (bucket == home)
		return;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t tag = sl_slot_tag(&bucket->slots[i]);
		if (tag != 0 && sl_tag_home(tag) == at_home)
			return;
	}
	sl_home_spill(home, home->spill & ~((uint32_t)1 << (bucket - page->buckets)));
}

void sl_slot_drop_block(struct sluice_store *store, struct sl_slot *slot, uint32_t block) {
	uint64_t *state = sl_slot_state(slot);
	SL_ASSERT(block != 0);
	sl_blocks_save_slot(store, slot);
	__atomic_store_n(&slot->tag, slot->tag | SL_LIFE_FRESH, __ATOMIC_RELAXED);
	SL_POINT();
	sl_store16(state, 0, 0);
	SL_POINT();
	sl_blocks_free(store, block);
}

/* The block of a slot; 0: it has none. */
static uint32_t block_of(const struct sl_slot *slot) {
	return sl_tag_has_block(sl_slot_tag(slot)) ? (uint32_t)sl_slot_state(slot)[1] : 0;
}

static bool count_up(uint64_t *word, uint64_t by, uint64_t most) {
	uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	do {
		if (seen > most || by > most - seen)
			return false;
	} while (!__atomic_compare_exchange_n(word, &seen, seen + by, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

/* Not below 0, whatever stands there. */
static void count_down(uint64_t *word, uint64_t by) {
	uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(word, &seen, seen - (seen < by ? seen : by), true, __ATOMIC_RELAXED,
	                                    __ATOMIC_RELAXED))
		;
}

bool sl_store_count_override(struct sluice_store *store, uint64_t count, uint64_t units, uint64_t most) {
	struct sl_header *header = store->header;
	if (!count_up(&header->overrides, count, most))
		return false;
	if (count_up(&header->override_units, units, sl_store_override_units_most(store)))
		return true;
	count_down(&header->overrides, count);
	return false;
}

void sl_store_uncount_override(struct sluice_store *store, uint64_t count, uint64_t units) {
	count_down(&store->header->overrides, count);
	count_down(&store->header->override_units, units);
}

/* A slot without a block. */
static void clear(struct sl_bucket *home, struct sl_slot *slot) {
	SL_DEBUG_ASSERT(sl_slot_home(slot, sl_slot_tag(slot)) == home);
	SL_POINT();
	__atomic_store_n(&slot->tag, 0, __ATOMIC_RELEASE); /* pairs with claim_free() */
	SL_POINT();
	update_spill(home, sl_slot_bucket(slot));
	SL_POINT();
}

sluice_err sl_slot_free(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot) {
	uint32_t block = block_of(slot);
	bool kept = sl_marks_are_kept(sl_tag_marks(sl_slot_tag(slot)));
	uint64_t units = kept && block != 0 ? sl_block_units(store, block) : 0;
	if (block != 0) {
		sluice_err err = sl_blocks_begin(store);
		if (err != SLUICE_OK)
			return err;
		sl_slot_drop_block(store, slot, block);
		sl_blocks_commit(store);
	}
	clear(home, slot);
	if (kept)
		sl_store_uncount_override(store, 1, units);
	return SLUICE_OK;
}

void sl_slot_free_within(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot) {
	uint32_t block = block_of(slot);
	if (block != 0) {
		sl_slot_drop_block(store, slot, block);
		sl_blocks_next(store);
	}
	clear(home, slot);
}

uint64_t sl_slot_hash(const struct sluice_store *store, const struct sl_slot *slot) {
	uint64_t tag = sl_slot_tag(slot), page = (uint64_t)(sl_page_of(sl_slot_bucket(slot)) - store->pages);
	uint64_t low = tag >> SL_TAG_PRINT_SHIFT << SL_HASH_HOME_BITS | sl_tag_home(tag);
	unsigned top_bits = store->hash_top_bits;
	/* the top bits are those with which the page comes out: floor(page / page_count), or the one after */
	uint64_t top = top_bits == 0 ? 0 : sl_div(sl_mul(page, (uint64_t)1 << top_bits), store->page_count), hash = low;
	for (int i = 0; i < 2; i++, top++) {
		hash = top_bits == 0 ? low : top << (64 - top_bits) | low;
		if (sl_page_of_hash(store, hash) == page)
			break;
	}
	SL_ASSERT(page < store->page_count);
	return hash;
}
