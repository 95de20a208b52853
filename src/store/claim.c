/* How a new counter gets a slot, and what has to go for it (contract 4.8).
 *
 *   free at home, expired at home, free in the page, expired in the page: nobody loses anything
 *   the least used counter of the page, the oldest of those that used little: remembered in the sketch, and gone;
 *   never a key's own quota, which is no counter (layout.h I9); last a penalty that runs (I10)
 *
 * Dead entries are swept by the traffic of the very buckets that are short of room, without a background thread, and a
 * store that is far from full never reuses anything. "Least used" is what keeps a flood of new keys from freeing a
 * denied one: a flood's keys have asked once, and displace each other.
 *
 * Slots of other homes than the caller's are freed under their home's lock, had by trying only: waiting would break the
 * address order that keeps checks free of deadlock. */
#include "base/assert.h"
#include "base/coarse.h"
#include "store/sketch.h"
#include "store/walk.h"

enum {
	/* Candidates whose locks are tried. A call may have locked other homes of the page itself, and can't have what is
	 * theirs: of one home there are 24 once in many lives of a store, 8 were once in 500,000 claims. */
	EVICT_TRIES = 24,
	PENALTIES_MAX = SL_PAGE_SLOTS / 4, /* of a page, that go last */
	BLOCKS_PART = 2,                   /* and their blocks, one unit each: at most a half of all */
};

static struct sl_slot *claim_free(struct sl_bucket *bucket, uint64_t tag) {
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		uint64_t none = 0;
		struct sl_slot *slot = &bucket->slots[i];
		/* acquire; pairs with the release in sl_slot_free, so that the old owner's last reads come before our writes */
		if (sl_slot_tag(slot) == 0 && __atomic_compare_exchange_n(&slot->tag, &none, tag | SL_LIFE_FRESH, false,
		                                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			SL_POINT();
			sl_store16(sl_slot_state(slot), 0, 0);
			SL_POINT();
			return slot;
		}
	}
	return NULL;
}

/* Claims a free slot of any bucket of the page; where it isn't home's own, home learns where it is. */
static struct sl_slot *claim_in(const struct sl_place *place, struct sl_bucket *bucket) {
	struct sl_slot *slot = claim_free(bucket, place->tag);
	SL_ASSERT(sl_page_of(bucket) == sl_page_of(place->home) &&
	          sl_tag_home(place->tag) == (uint64_t)(place->home - sl_page_of(place->home)->buckets));
	if (slot != NULL && bucket != place->home) {
		sl_home_spill(place->home, place->home->spill | (uint32_t)1 << (bucket - sl_page_of(place->home)->buckets));
		SL_POINT();
	}
	return slot;
}

static bool penalty_runs(const struct sl_slot *slot, uint64_t last_coarse, uint64_t now_coarse) {
	uint64_t units = __atomic_load_n(&sl_slot_state(slot)[1], __ATOMIC_RELAXED) >> 32;
	return now_coarse < last_coarse + (units << (SL_PENALTY_SHIFT - SL_COARSE_SHIFT));
}

/* Use 63..61, instant of the last charge, plus 1, 45..0. Whoever has used little, up to a fifth, is alike in that:
 * among those a client that comes back all the time stays, and a flood's keys go. A kept penalty seems to be one. */
static inline uint64_t rank_of(uint64_t tag, uint64_t last_coarse) {
	uint64_t use = sl_tag_use(tag);
	SL_DEBUG_ASSERT(last_coarse <= UINT64_MAX >> SL_COARSE_SHIFT);
	return (use > SL_USE_LITTLE ? use : 0) << SL_RANK_USE_SHIFT | (last_coarse + 1);
}

/* The rank of a slot, from what rank_of() says of it: never a lower one. A counter that has to go is remembered in the
 * sketch, a penalty is not. So one that is kept and runs goes last, and the latest of them first: a flood of keys that
 * are locked out displaces its own penalties, and none that began before it. Once it is over it ranks as strikes do. */
static inline uint64_t raised_rank(const struct sl_slot *slot, uint64_t tag, uint64_t rank, uint64_t now_coarse) {
	uint64_t last = rank - 1;
	if (__builtin_expect(sl_tag_marks(tag) != SL_MARKS_BESIDE_PENALTY || rank == 0, 1))
		return rank;
	SL_DEBUG_ASSERT(rank <= (UINT64_MAX >> SL_COARSE_SHIFT) + 1);
	return penalty_runs(slot, last, now_coarse)
	           ? SL_RANK_PENALTY | ((UINT64_MAX >> SL_COARSE_SHIFT) - last)
	           : (uint64_t)(SL_MARKS_BESIDE_MUCH % SL_USES) << SL_RANK_USE_SHIFT | rank;
}

bool sl_penalty_may_be_kept(const struct sluice_store *store, const struct sl_bucket *home, sluice_ns now) {
	uint64_t most = sl_min(PENALTIES_MAX, store->unit_count / BLOCKS_PART / store->page_count), kept = 0;
	for (unsigned at = 0; at < SL_PAGE_SLOTS && kept < most; at++) {
		const struct sl_slot *slot = &sl_page_of(home)->buckets[at / SL_BUCKET_SLOTS].slots[at % SL_BUCKET_SLOTS];
		uint64_t last = __atomic_load_n(&sl_slot_state(slot)[0], __ATOMIC_RELAXED) >> SL_COARSE_SHIFT;
		kept += sl_tag_marks(sl_slot_tag(slot)) == SL_MARKS_BESIDE_PENALTY &&
		        penalty_runs(slot, last, now >> SL_COARSE_SHIFT);
	}
	return kept < most;
}

uint64_t sl_slot_rank(const struct sl_slot *slot, uint64_t tag, sluice_ns now) {
	uint64_t last = __atomic_load_n(&sl_slot_state(slot)[0], __ATOMIC_RELAXED) >> SL_COARSE_SHIFT;
	SL_DEBUG_ASSERT((tag & SL_LIFE_FRESH) != SL_LIFE_FRESH);
	if (now >> SL_COARSE_SHIFT > last + sl_life_units(tag))
		return 0;
	return raised_rank(slot, tag, rank_of(tag, last), now >> SL_COARSE_SHIFT);
}

static bool evict_locked(struct sluice_store *store, struct sl_bucket *home, struct sl_slot *slot, uint64_t tag) {
	uint64_t page = (uint64_t)(sl_page_of(home) - store->pages);
	sluice_ns last = sl_slot_state(slot)[0] | (((sluice_ns)1 << SL_COARSE_SHIFT) - 1);
	SL_ASSERT(page < store->page_count && sl_page_of(sl_slot_bucket(slot)) == sl_page_of(home));
	if (!sl_marks_are_beside(sl_tag_marks(tag))) {
		sl_sketch_note(store, page, tag, last);
		SL_POINT();
	}
	if (sl_slot_free(store, home, slot) != SLUICE_OK)
		return false; /* the sketch was told in vain: a maximum, harmless */
	__atomic_fetch_add(&store->header->evicted, 1, __ATOMIC_RELAXED);
	return true;
}

bool sl_slot_make_free(struct sluice_store *store, struct sl_slot *slot, const struct sl_bucket *locked, bool evict,
                       sluice_ns now) {
	uint64_t tag = sl_slot_tag(slot);
	struct sl_bucket *home = sl_slot_home(slot, tag);
	bool freed = false;
	SL_ASSERT(sl_page_of(sl_slot_bucket(slot)) - store->pages < (ptrdiff_t)store->page_count);
	if (tag == 0 || (home != locked && !sl_lock_try(store, &home->lock)))
		return false;
	if (sl_slot_tag(slot) == tag && (tag & SL_LIFE_FRESH) != SL_LIFE_FRESH) {
		if (sl_slot_has_expired(slot, tag, now))
			freed = sl_slot_free(store, home, slot) == SLUICE_OK;
		else
			freed = evict && !sl_marks_are_kept(sl_tag_marks(tag)) && evict_locked(store, home, slot, tag);
	}
	if (home != locked)
		sl_home_unlock(home);
	return freed;
}

/* Who could go, by what the slots of a page seem to be; looked at again under their locks. */
struct survey {
	struct sl_slot *least; /* of the lowest rank */
	uint64_t rank;
	const struct sl_slot *passed_over[EVICT_TRIES]; /* whose homes were locked */
	unsigned passed_over_count;
};

static bool may_go(const struct survey *survey, const struct sl_slot *slot, uint64_t tag, bool expired,
                   const struct sl_pins *pins) {
	SL_DEBUG_ASSERT(survey->passed_over_count < EVICT_TRIES);
	for (unsigned i = 0; i < survey->passed_over_count; i++)
		if (survey->passed_over[i] == slot)
			return false;
	return (tag & SL_LIFE_FRESH) != SL_LIFE_FRESH && (expired || !sl_marks_are_kept(sl_tag_marks(tag))) &&
	       !sl_pins_have(pins, slot);
}

/* Looks through the page from home on for a free slot, noting who else could go: expired ones have rank 0. The inner
 * loop is what a new key costs in a full store. */
static struct sl_slot *claim_or_survey(const struct sl_place *place, struct survey *survey, sluice_ns now,
                                       const struct sl_pins *pins) {
	struct sl_page *page = sl_page_of(place->home);
	unsigned home = (unsigned)(place->home - page->buckets);
	uint64_t now_coarse = now >> SL_COARSE_SHIFT;
	survey->least = NULL;
	survey->rank = UINT64_MAX;
	for (unsigned step = 0; step < SL_PAGE_BUCKETS; step++) {
		struct sl_bucket *bucket = &page->buckets[(home + step) % SL_PAGE_BUCKETS];
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			uint64_t tag = sl_slot_tag(&bucket->slots[i]), rank, last;
			struct sl_slot *slot = tag == 0 ? claim_in(place, bucket) : NULL;
			if (slot != NULL)
				return slot;
			last = __atomic_load_n(&bucket->states[i][0], __ATOMIC_RELAXED) >> SL_COARSE_SHIFT;
			rank = now_coarse > last + sl_life_units(tag) ? 0 : rank_of(tag, last);
			if (rank >= survey->rank || tag == 0)
				continue;
			rank = raised_rank(&bucket->slots[i], tag, rank, now_coarse);
			if (rank < survey->rank && may_go(survey, &bucket->slots[i], tag, rank == 0, pins)) {
				survey->least = &bucket->slots[i];
				survey->rank = rank;
			}
		}
	}
	return NULL;
}

/* An expired counter at home, which is nobody's loss and no farther away. */
static bool free_expired_at_home(struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                                 const struct sl_pins *pins) {
	for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
		struct sl_slot *slot = &place->home->slots[i];
		if (sl_slot_has_expired(slot, sl_slot_tag(slot), now) && !sl_pins_have(pins, slot) &&
		    sl_slot_make_free(store, slot, place->home, false, now))
			return true;
	}
	return false;
}

struct sl_slot *sl_slot_claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                              const struct sl_pins *pins) {
	struct sl_slot *slot;
	struct survey survey;
	SL_ASSERT(pins->count <= SL_PINS_MAX && place->tag >> SL_TAG_PRINT_SHIFT != 0);
	sl_walk_note(store, (uint64_t)(sl_page_of(place->home) - store->pages));
	slot = claim_in(place, place->home);
	if (slot == NULL && free_expired_at_home(store, place, now, pins))
		slot = claim_in(place, place->home);
	/* what is made free may be claimed by others before us: they do not free what we make, so it ends */
	for (survey.passed_over_count = 0; slot == NULL && survey.passed_over_count < EVICT_TRIES;) {
		slot = claim_or_survey(place, &survey, now, pins);
		if (slot != NULL || survey.least == NULL)
			break;
		survey.passed_over[survey.passed_over_count++] = survey.least;
		if (sl_slot_make_free(store, survey.least, place->home, true, now))
			slot = claim_in(place, sl_slot_bucket(survey.least));
	}
	SL_ASSERT(slot == NULL || !sl_pins_have(pins, slot)); /* nobody is given what the call itself holds */
	return slot;
}
