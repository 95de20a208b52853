/* Slots: finding, claiming, freeing and locking counters in the pages of the arena.
 *
 * A check touches one bucket: two neighbouring cache lines with the lock, the fingerprints and the small states. Only a
 * bucket that has overflowed sends its visitors on, to the buckets that its spill bits name.
 *
 * Claiming prefers a free slot at home, then reuses what has expired at home, and only then spills. So dead entries are
 * swept by the traffic of the very buckets that are short of room, without a background thread, and a store that is far
 * from full never reuses anything. A slot that spilled here from another home may be reused as well, once its home's
 * lock could be had without waiting (waiting would break the address order that keeps checks free of deadlock). */
#include "base/assert.h"
#include "base/coarse.h"
#include "store/store.h"

enum {
	LIFE_PINNED = 255,
	SPINS = 64, /* tries between two calls of relax() */
};

static inline void pause_cpu(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

void sl_bucket_lock_slow(const struct sluice_store *store, uint32_t *lock) {
	for (;;) {
		for (int i = 0; i < SPINS; i++) {
			if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 && sl_lock_try(lock))
				return;
			pause_cpu();
		}
		if (store->relax != NULL)
			store->relax();
	}
}

uint64_t sl_life_code(sluice_ns life_ns) {
	/* one unit more, since the instant that it is added to was rounded down */
	uint64_t units = (life_ns >> SL_COARSE_SHIFT) + 2, rest;
	unsigned e;
	if (units <= 4)
		return 0;
	e = 61 - (unsigned)__builtin_clzll(units);
	rest = units - ((uint64_t)4 << e);
	return 4 * (uint64_t)e + ((rest + (((uint64_t)1 << e) - 1)) >> e);
}

static bool has_expired(const struct sl_slot *slot, uint64_t tag, sluice_ns now) {
	uint64_t code = tag & 255, units = (4 + (code & 3)) << (code >> 2);
	return code != LIFE_PINNED && now >> SL_COARSE_SHIFT > (slot->state[0] >> SL_COARSE_SHIFT) + units;
}

static struct sl_bucket *page_of(const struct sl_place *place) {
	return place->home - (place->tag >> 8 & (SL_PAGE_BUCKETS - 1));
}

static unsigned home_of(uint64_t tag) {
	return tag >> 8 & (SL_PAGE_BUCKETS - 1);
}

struct sl_slot *sl_slot_find_spilled(const struct sl_place *place) {
	struct sl_bucket *page = page_of(place);
	for (uint32_t bits = place->home->spill; bits != 0; bits &= bits - 1) {
		struct sl_slot *slots = page[__builtin_ctz(bits)].slots;
		for (int i = 0; i < SL_BUCKET_SLOTS; i++)
			if (sl_tag_matches(sl_slot_tag(&slots[i]), place->tag))
				return &slots[i];
	}
	return NULL;
}

/* ---- claiming --------------------------------------------------------------------------------------------------- */

static struct sl_slot *claim_free(struct sl_bucket *bucket, uint64_t tag) {
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t none = 0;
		struct sl_slot *slot = &bucket->slots[i];
		/* acquire; pairs with the release in sl_slot_free, so that the old owner's last reads come before our writes */
		if (sl_slot_tag(slot) == 0 && __atomic_compare_exchange_n(&slot->tag, &none, tag | LIFE_PINNED, false,
		                                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			sl_slot_write(slot, (const uint64_t[2]){0, 0});
			return slot;
		}
	}
	return NULL;
}

/* Frees the expired entries of one home in one bucket; the home is locked. Returns whether there were any. */
static bool sweep(struct sluice_store *store, struct sl_bucket *page, struct sl_bucket *bucket, unsigned home,
                  sluice_ns now) {
	bool freed = false;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t tag = sl_slot_tag(&bucket->slots[i]);
		if (tag != 0 && home_of(tag) == home && has_expired(&bucket->slots[i], tag, now)) {
			sl_slot_free(store, &(struct sl_place){page + home, tag & ~(uint64_t)255}, &bucket->slots[i]);
			freed = true;
		}
	}
	return freed;
}

/* Sweeps what other homes have spilled into or keep in a bucket, as far as their locks are free. */
static bool sweep_others(struct sluice_store *store, struct sl_bucket *page, struct sl_bucket *bucket, sluice_ns now) {
	bool freed = false;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t tag = sl_slot_tag(&bucket->slots[i]);
		unsigned home = home_of(tag);
		if (tag == 0 || !sl_lock_try(&page[home].lock))
			continue;
		freed |= sweep(store, page, bucket, home, now);
		sl_unlock(&page[home].lock);
	}
	return freed;
}

void sl_store_sweep(struct sluice_store *store, uint64_t page_count, sluice_ns now) {
	for (uint64_t turn = 0; turn < page_count; turn++) {
		/* relaxed: two that take the same page sweep it twice, one after the other */
		uint64_t page = __atomic_fetch_add(&store->sweep_page, 1, __ATOMIC_RELAXED) % store->page_count;
		for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++)
			(void)sweep_others(store, store->pages[page].buckets, &store->pages[page].buckets[at], now);
	}
}

/* A slot in another bucket of the page, nearest first: free, or with `reuse` also swept free. */
static struct sl_slot *claim_spilled(struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                                     bool reuse) {
	struct sl_bucket *page = page_of(place);
	unsigned home = home_of(place->tag);
	for (unsigned step = 1; step < SL_PAGE_BUCKETS; step++) {
		unsigned at = (home + step) % SL_PAGE_BUCKETS;
		struct sl_slot *slot;
		if (reuse && !sweep(store, page, &page[at], home, now) && !sweep_others(store, page, &page[at], now))
			continue;
		slot = claim_free(&page[at], place->tag);
		if (slot != NULL) {
			place->home->spill |= (uint32_t)1 << at;
			return slot;
		}
	}
	return NULL;
}

struct sl_slot *sl_slot_claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now) {
	struct sl_slot *slot = claim_free(place->home, place->tag);
	if (slot == NULL && sweep(store, page_of(place), place->home, home_of(place->tag), now))
		slot = claim_free(place->home, place->tag);
	if (slot == NULL)
		slot = claim_spilled(store, place, now, false);
	if (slot == NULL && sweep_others(store, page_of(place), place->home, now))
		slot = claim_free(place->home, place->tag);
	return slot != NULL ? slot : claim_spilled(store, place, now, true);
}

uint64_t sl_slot_pin(struct sl_slot *slot) {
	uint64_t tag = sl_slot_tag(slot);
	__atomic_store_n(&slot->tag, tag | LIFE_PINNED, __ATOMIC_RELAXED);
	return tag;
}

void sl_slot_unpin(struct sl_slot *slot, uint64_t tag) {
	__atomic_store_n(&slot->tag, tag, __ATOMIC_RELAXED);
}

/* Clears the home's spill bit of a bucket in which none of its entries is left. */
static void update_spill(const struct sl_place *place, struct sl_bucket *bucket) {
	struct sl_bucket *page = page_of(place);
	unsigned home = home_of(place->tag);
	if (bucket == place->home)
		return;
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t tag = sl_slot_tag(&bucket->slots[i]);
		if (tag != 0 && home_of(tag) == home)
			return;
	}
	place->home->spill &= ~((uint32_t)1 << (bucket - page));
}

void sl_slot_free(struct sluice_store *store, const struct sl_place *place, struct sl_slot *slot) {
	struct sl_bucket *page = page_of(place);
	size_t offset = (size_t)((char *)slot - (char *)page);
	uint64_t tag = sl_slot_tag(slot);
	SL_DEBUG_ASSERT(sl_tag_matches(tag, place->tag));
	if ((tag & (uint64_t)1 << 13) && (uint32_t)slot->state[1] != 0)
		sl_block_free(store, (uint32_t)slot->state[1]);
	/* release; pairs with claim_free */
	__atomic_store_n(&slot->tag, 0, __ATOMIC_RELEASE);
	update_spill(place, &page[offset / SL_BUCKET_BYTES]);
}
