/* Making an arena whole for its first opener, whatever bytes stand in it after its header: after a crash of all its
 * users, a power cut, a copy taken at a bad moment, damage.
 *
 * Everything but slots and the blocks that they name can be built anew from those, and is. A slot is kept when it
 * stands where it may (its home is its bucket, or one that can reach it), is the only one of its counter, has a
 * lifetime that can be written, was not charged long after the arena's latest charge, and its block, if it names one,
 * is marked as the first of a run that lies in the arena, overlapping no other. Else it is dropped, and counted. What a
 * state or a block says is not looked at: only algorithms could, and they take any bytes.
 *
 * The latest charge is told by the header, a page that may be older than a counter's: each page is written back when
 * its own time has come, with Linux some 35 s after it was changed. So after a power cut counters that were in use may
 * be later than that by as much, and are whole.
 *
 * A change of the blocks that was cut short is not undone here: who owns which block is what the slots say, and a slot
 * says so by one store, after the block was written and before the one that it had is let go. Nor is the undo log
 * believed.
 *
 * Blocks are told apart by the map, in place: first all marks but TAKEN are wiped; each slot that is kept turns its
 * block's mark into KEPT and the units inside into WITHIN; in the end those become TAKEN and inside, all else free. */
#include "base/assert.h"
#include "base/coarse.h"
#include "base/math.h"
#include "store/blocks.h"
#include "store/store.h"

enum { TAKEN = 1, KEPT = 4, WITHIN = 5 };
#define WRITTEN_BACK_NS ((sluice_ns)1 << 36) /* 69 s: how much older one page may be than another, and then some */
#define LATEST_MOST_NS (UINT64_MAX - 2 * SL_LATEST_STEP_NS) /* the header can say that it is later than that */

static void wipe_marks(struct sluice_store *store) {
	for (uint64_t unit = 0; unit < store->unit_count; unit++)
		if (store->map[unit] != TAKEN)
			store->map[unit] = 0;
}

static bool keep_block(struct sluice_store *store, uint32_t block, const struct sl_slot *slot) {
	uint64_t count = store->unit_count, units;
	if (block >= count || store->map[block] != TAKEN)
		return false;
	units = sl_block_units(store, block);
	SL_ASSERT(block != 0 && units != 0 && block + units <= count);
	for (uint64_t unit = block + 1; unit < block + units; unit++)
		if (store->map[unit] != 0)
			return false;
	store->map[block] = KEPT;
	sl_block_own(store, block, slot);
	memset(store->map + block + 1, WITHIN, units - 1);
	return true;
}

/* Whether another slot of the page, before this one, has the same counter. */
static bool is_second(const struct sl_page *page, const struct sl_slot *slot) {
	unsigned home = (unsigned)sl_tag_home(slot->tag);
	for (unsigned at = 0;; at++) {
		const struct sl_bucket *bucket = &page->buckets[at];
		SL_ASSERT(at < SL_PAGE_BUCKETS); /* it is met at last */
		/* the home's spill bits have been built from the buckets up to this slot's */
		if (at != home && !(page->buckets[home].spill >> at & 1))
			continue;
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			if (&bucket->slots[i] == slot)
				return false;
			if (bucket->slots[i].tag != 0 && sl_tag_matches(bucket->slots[i].tag, slot->tag))
				return true;
		}
	}
}

static bool is_whole(const struct sl_page *page, const struct sl_slot *slot, uint64_t latest) {
	uint64_t tag = slot->tag, last = sl_slot_state(slot)[0] >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
	return tag >> SL_TAG_PRINT_SHIFT != 0 && (tag & SL_LIFE_FRESH) <= SL_LIFE_CODE_MAX && last <= latest &&
	       !is_second(page, slot);
}

static void repair_slot(struct sluice_store *store, struct sl_page *page, unsigned at, struct sl_slot *slot,
                        struct sl_repair *found) {
	unsigned home = (unsigned)sl_tag_home(slot->tag);
	uint64_t *state = sl_slot_state(slot);
	uint32_t block = sl_tag_has_block(slot->tag) ? (uint32_t)state[1] : 0;
	bool fresh = (slot->tag & SL_LIFE_FRESH) == SL_LIFE_FRESH;
	if (at != home)
		page->buckets[home].spill |= (uint32_t)1 << at;
	if (!fresh && is_whole(page, slot, found->latest_ns) && (block == 0 || keep_block(store, block, slot))) {
		found->counters++;
		found->last_ns = sl_max(found->last_ns, state[0]);
		found->blocks += block != 0;
		if (sl_marks_are_kept(sl_tag_marks(slot->tag))) {
			found->overrides++;
			found->override_units += block != 0 ? sl_block_units(store, block) : 0;
		} else if (block != 0 && sl_marks_are_beside(sl_tag_marks(slot->tag)))
			found->until_ns = sl_max(found->until_ns, sl_slot_end(state[0], slot->tag));
		return;
	}
	slot->tag = 0;
	state[0] = state[1] = 0;
	found->fresh += fresh;
	found->dropped += !fresh;
}

/* Drops bits for buckets from which the last counter of a home was dropped. */
static uint32_t needed_spill(const struct sl_page *page, unsigned home) {
	uint32_t needed = 0;
	for (uint32_t bits = page->buckets[home].spill; bits != 0; bits &= bits - 1) {
		unsigned at = (unsigned)__builtin_ctz(bits);
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			uint64_t tag = page->buckets[at].slots[i].tag;
			if (tag != 0 && sl_tag_home(tag) == home)
				needed |= (uint32_t)1 << at;
		}
	}
	return needed;
}

static void repair_page(struct sluice_store *store, struct sl_page *page, struct sl_repair *found) {
	SL_ASSERT((uintptr_t)page % SL_PAGE_BYTES == 0);
	for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++) {
		page->buckets[at].lock = 0;
		page->buckets[at].spill = 0;
	}
	for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++)
		for (int i = 0; i < SL_BUCKET_SLOTS; i++)
			if (page->buckets[at].slots[i].tag != 0)
				repair_slot(store, page, at, &page->buckets[at].slots[i], found);
	for (unsigned home = 0; home < SL_PAGE_BUCKETS; home++)
		page->buckets[home].spill = needed_spill(page, home);
}

void sl_arena_repair(struct sluice_store *store, struct sl_repair *found) {
	sluice_ns latest = sl_latest_read(store->header->latest_charge, store->secret); /* 0: none yet, or damaged */
	*found = (struct sl_repair){.latest_ns = LATEST_MOST_NS};
	if (latest != 0)
		found->latest_ns = sl_min(sl_ns_plus(latest, WRITTEN_BACK_NS), LATEST_MOST_NS);
	wipe_marks(store);
	for (uint64_t p = 0; p < store->page_count; p++)
		repair_page(store, &store->pages[p], found);
	for (uint64_t unit = 0; unit < store->unit_count; unit++)
		store->map[unit] = store->map[unit] == KEPT ? TAKEN : 0;
	sl_blocks_rebuild(store);
	/* where nothing could be told to be late, from here on it can */
	if (found->last_ns > latest || (latest == 0 && found->counters != 0))
		store->header->latest_charge = sl_latest_write(found->last_ns, store->secret);
	SL_ASSERT(found->blocks <= found->counters);
	store->header->ledgers_until_ns = found->until_ns;
	store->header->overrides = found->overrides;
	store->header->override_units = found->override_units;
	store->header->repairs++;
	store->header->dropped += found->dropped;
}
