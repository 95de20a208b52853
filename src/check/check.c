/* Deciding a request: lock the counters of all its limits, step each, publish all or none.
 *
 * This folder alone knows both what a limit is (algo) and where counters live (store).
 *
 *   place    each limit with its key is hashed to its home bucket, and prefetched
 *   lock     the homes in address order, each once: whatever order callers name their limits in, no two wait for each
 *            other in a circle
 *   step     on copies of the states, as if all will be charged
 *   charge   if all enforced limits admit (charge.c): slots for new counters and longer blocks for logs, which may
 *            fail; then publish, which cannot
 *   unlock
 *
 * A denial and a peek stop after `step` and have written nothing but the lock words, which end as they began.
 *
 * Here is the way of the commonest call, one limit charged or peeked at, and of batches. All other calls are decided by
 * src/decide over the cells of cells.c: a counter with its companions, which are its open reservations (reserve.c) and
 * its strikes (strikes.c). A request that may be retried has a record (token.c). Leases and parts are counters like
 * others (lease.c for what else can be done with leases).
 *
 * I1  Limits that meet in one counter (same place) are each decided on its state as it was, and charge it once.
 * I2  No claim of a call takes a slot that the call has found or claimed, nor does its search for room.
 * I3  Observed limits are stepped like the others, never deny, and are charged only where they would have admitted;
 *     those that are tried are charged through others only.
 * I4  No state is charged at an instant past header->latest_charge. */
#include "check/part.h"

enum { BATCH_ITEMS = 64 }; /* placed and prefetched ahead by sluice_decide_many() */

/* The place of a candidate's counter, which is that of the limit that it is of, seldom one of its own. */
static __attribute__((noinline)) struct sl_place place_tried(const struct sluice_store *store,
                                                             const struct sluice_item *items, uint32_t i,
                                                             const struct sl_place *places) {
	const uint64_t *its = items[i].limit->derived;
	for (uint32_t j = 0; j < i; j++) {
		const uint64_t *other = items[j].limit->derived;
		if (items[j].key.data == items[i].key.data && items[j].key.len == items[i].key.len &&
		    other[SL_IDENT_KIND] == its[SL_IDENT_KIND] && other[SL_IDENT_NAME] == its[SL_IDENT_NAME] &&
		    sl_rule_has(items[j].limit, SL_HAS_BLOCK) == sl_rule_has(items[i].limit, SL_HAS_BLOCK) &&
		    places[j].home != NULL)
			return places[j];
	}
	return part_place(store, &items[i]);
}

/* The place of the i-th item, those of the items before it being known. */
static inline struct sl_place place_item(const struct sluice_store *store, const struct sluice_item *items, uint32_t i,
                                         const struct sl_place *places) {
	if (!item_has_counter(&items[i]))
		return (struct sl_place){NULL, 0};
	return items[i].observed == SLUICE_TRIED ? place_tried(store, items, i, places) : part_place(store, &items[i]);
}

/* ---- the commonest call ------------------------------------------------------------------------------------------ */

/* A counter that is new, or whose block is too short. Where there is no room for it the limit denies. */
static __attribute__((noinline)) sluice_err charge_anew(struct sluice_store *store, struct part *m,
                                                        const struct sluice_call *call) {
	struct sl_shortage shortage;
	sluice_err err;
	m->cell.cost = call->cost;
	m->cell.plain = m->cell.charged = true;
	m->cell.forced = m->cell.corrects = false;
	err = parts_charge(store, call, m, 1, NULL, &shortage);
	SL_ASSERT(err == SLUICE_OK || m->slot == NULL || sl_rule_has(m->cell.limit, SL_HAS_BLOCK) || sl_is_held_up(err));
	if (err != SLUICE_E_FULL)
		return err;
	part_step(store, m, call->now, call->cost, false, m->cell.decision);
	sl_decide_bound(m->cell.decision, shortage.bound, shortage.wait_ns);
	return SLUICE_OK;
}

static inline sluice_err charge_one(struct sluice_store *store, struct part *m, const struct sluice_call *call) {
	SL_DEBUG_ASSERT(m->cell.decision->allowed && call->cost != 0);
	parts_keep_latest(store, call->now);
	if (part_fits(m, call->cost)) {
		part_publish(m, call->now, call->cost);
		return SLUICE_OK;
	}
	return charge_anew(store, m, call);
}

/* A call that another process holds up (err), or not, made again once that one has moved. */
static __attribute__((noinline)) sluice_err decide_held_up(struct sluice_store *store, struct sluice_call *call,
                                                           const struct sl_place *places, bool plain, sluice_err err) {
	SL_ASSERT(err != SLUICE_OK && err != SLUICE_E_FULL);
	while (sl_is_held_up(err) && sl_held_up_wait(store, &err)) {
		sl_answer_clear(call);
		err = decide_several(store, call, places, plain);
	}
	if (err == SLUICE_E_BUSY)
		__atomic_fetch_add(&store->stalls->given_up, 1, __ATOMIC_RELAXED);
	return err;
}

static inline sluice_err decide_patiently(struct sluice_store *store, struct sluice_call *call,
                                          const struct sl_place *places, bool plain) {
	sluice_err err = decide_several(store, call, places, plain);
	return __builtin_expect(sl_is_held_up(err), 0) ? decide_held_up(store, call, places, plain, err) : err;
}

/* Whether a counter has open reservations, in a store that has some; its home is locked. */
static __attribute__((noinline)) bool has_ledger(const struct sl_place *place) {
	struct sl_place ledger = sl_place_beside(place, SL_BESIDE_LEDGER);
	return sl_slot_find(&ledger) != NULL;
}

/* Whether a part of a store in which keys have quotas of their own can go on by itself: its key is not unlimited. */
static __attribute__((noinline)) bool goes_on(const struct sluice_store *store, struct part *m, sluice_ns now) {
	return !override_take(store, m, now) || sl_rule_has(m->cell.limit, SL_HAS_COUNTER);
}

/* No groups, no merging, one lock. */
static sluice_err decide_one(struct sluice_store *store, struct sluice_call *call, const struct sl_place *place) {
	struct part m; /* filled as it is needed: zeroing it would be a tenth of the call */
	const struct sluice_decision *decision = &call->merged;
	bool charge = call->operation == SLUICE_CHARGE;
	sluice_err err;
	m.cell.limit = call->items[0].limit;
	m.place = place;
	m.cell.decision = &call->merged;
	err = sl_home_lock(store, place->home);
	if (__builtin_expect(err != SLUICE_OK, 0))
		return decide_held_up(store, call, place, true, err);
	if (__builtin_expect(sl_store_has_ledgers(store, call->now), 0) && has_ledger(place)) {
		sl_home_unlock(place->home);
		return decide_patiently(store, call, place, true);
	}
	if (__builtin_expect(sl_store_has_overrides(store), 0) && !goes_on(store, &m, call->now)) {
		sl_home_unlock(place->home);
		return decide_patiently(store, call, place, true);
	}
	m.slot = sl_slot_find(place);
	SL_DEBUG_ASSERT(call->item_count == 1 && sl_rule_has(m.cell.limit, SL_COUNTS_COST));
	part_step(store, &m, call->now, call->cost, charge, &call->merged);
	if (charge && decision->allowed && call->cost != 0)
		err = charge_one(store, &m, call);
	else if (!charge && sl_rule_has(m.cell.limit, SL_HAS_BLOCK))
		part_peek_room(store, call, &m, call->cost, &call->merged);
	if (call->want_next)
		part_fill_next(store, &m, call->now);
	sl_home_unlock(place->home);
	if (__builtin_expect(err != SLUICE_OK, 0))
		return decide_held_up(store, call, place, true, err);
	call->granted = decision->allowed ? call->cost : 0;
	if (call->each != NULL)
		call->each[0] = *decision;
	return SLUICE_OK;
}

/* ---- what a call asks for ---------------------------------------------------------------------------------------- */

/* Not 0: more is asked for than that a cost is charged to limits. */
static inline uint64_t extras_of(const struct sluice_call *call) {
	return call->upto | call->id.len;
}

static inline uint64_t item_extras(const struct sluice_item *item) {
	return item->cost | item->bound | item->quota | item->member.len | (uintptr_t)item->terms | item->ttl_ns;
}

/* Whether a call is about charging, done or tried: what most are. */
static inline bool only_charges(const struct sluice_call *call) {
	return call->operation == SLUICE_CHARGE || call->operation == SLUICE_PEEK;
}

/* Whether an item names a counter that is charged and peeked at without further ado. Windows that are spread do not:
 * the mask leaves them out, and costs the others nothing. Nor does a key that is to be folded. */
static inline bool item_counts(const struct sluice_item *item) {
	const uint32_t plain = (uint16_t)sl_algorithms_with(SL_COUNTS_COST);
	return item->limit != NULL && (plain >> (item->limit->algorithm & 31) & 1) != 0 &&
	       (item->key.data != NULL ? item->key.len <= SLUICE_KEY_BYTES_MAX : item->key.len == 0);
}

/* Whether a call is plain (part.h), and valid: in one pass, as nearly all are. */
static inline bool is_plain(const struct sluice_call *call) {
	uint64_t extras = extras_of(call);
	if (!only_charges(call) || call->item_count > SLUICE_ITEMS_MAX ||
	    (call->items == NULL && call->item_count != 0))
		return false;
	for (uint32_t i = 0, count = call->item_count; i < count; i++) {
		if (!item_counts(&call->items[i]))
			return false;
		extras |= item_extras(&call->items[i]);
	}
	return extras == 0;
}

/* What decide_one() takes, and in most programs nearly every call is: plain, with one limit that is enforced. */
static inline bool is_simple(const struct sluice_call *call) {
	return call->item_count == 1 && only_charges(call) && item_counts(call->items) &&
	       (extras_of(call) | item_extras(call->items) | call->items->observed) == 0;
}

static bool needs_keys(const struct sluice_call *call) {
	for (uint32_t i = 0; i < call->item_count; i++)
		if (sl_rule_needs_key(call->items[i].limit))
			return true;
	return false;
}

static sluice_err decide_any(struct sluice_store *store, struct sluice_call *call);

/* A valid call with windows that are spread: decided by the rules that its keys make of them. */
static __attribute__((noinline)) sluice_err decide_keyed(struct sluice_store *store, struct sluice_call *call) {
	const struct sluice_item *asked = call->items;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	SL_ASSERT(call->item_count <= SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < call->item_count; i++) {
		items[i] = asked[i];
		limits[i] = *asked[i].limit;
		sl_rule_key(&limits[i], asked[i].key);
		items[i].limit = &limits[i];
	}
	call->items = items;
	(void)decide_any(store, call);
	call->items = asked;
	return call->err;
}

/* The rest of sluice_decide(): several limits, an operation other than charge and peek, or nothing valid. */
static __attribute__((noinline)) sluice_err decide_any(struct sluice_store *store, struct sluice_call *call) {
	struct sl_place places[SLUICE_ITEMS_MAX];
	bool plain = store->owner != 0 && is_plain(call);
	call->err = plain ? SLUICE_OK : store->owner == 0 ? SLUICE_E_BUSY : sl_call_validate(call);
	if (call->err != SLUICE_OK)
		return call->err;
	if (!plain && needs_keys(call))
		return decide_keyed(store, call);
	for (uint32_t i = 0; i < call->item_count; i++) {
		places[i] = place_item(store, call->items, i, places);
		if (places[i].home != NULL)
			sl_place_prefetch(&places[i]);
	}
	sl_answer_clear(call);
	return call->err = decide_patiently(store, call, places, plain);
}

sluice_err sluice_decide(struct sluice_store *store, struct sluice_call *call) {
	struct sl_place place;
	if (call == NULL)
		return SLUICE_E_MISUSE;
	if (store == NULL)
		return call->err = SLUICE_E_MISUSE;
	if (store->owner == 0 || call->items == NULL || !is_simple(call))
		return decide_any(store, call);
	place = part_place_short(store, call->items);
	sl_place_prefetch(&place);
	sl_answer_clear(call);
	return call->err = decide_one(store, call, &place);
}

/* The second miss, once the home of a counter is near: the block of a log, or where a full home has put the counter. */
static inline void prefetch_second(const struct sluice_store *store, const struct sluice_limit *limit,
                                   const struct sl_place *place) {
	struct sl_counter counter;
	if (place->home == NULL)
		return;
	if (!sl_slot_hint(place, counter.state.w)) {
		sl_place_prefetch_spilled(place);
	} else if (sl_rule_has(limit, SL_HAS_BLOCK) && (uint32_t)counter.state.w[1] != 0 &&
	           (uint32_t)counter.state.w[1] < store->unit_count) {
		counter.block = sl_block_memory(store, (uint32_t)counter.state.w[1]);
		sl_step_prefetch(limit, &counter);
	}
}

static void prefetch_seconds(const struct sluice_store *store, const struct sluice_call *calls, size_t count,
                             const struct sl_place *places) {
	for (size_t c = 0; c < count; c++)
		for (uint32_t i = 0; calls[c].err == SLUICE_OK && i < calls[c].item_count; i++, places++)
			if (calls[c].items[i].observed != SLUICE_TRIED) /* its counter is another item's */
				prefetch_second(store, calls[c].items[i].limit, places);
}

static inline void place_and_prefetch(const struct sluice_store *store, const struct sluice_item *items, uint32_t count,
                                      struct sl_place *places) {
	for (uint32_t i = 0; i < count; i++) {
		places[i] = place_item(store, items, i, places);
		if (places[i].home != NULL)
			sl_place_prefetch(&places[i]);
	}
}

/* What is found out once of the calls of a batch: the bit of each one's first place. */
struct kinds {
	uint64_t simple, plain;
};

_Static_assert(BATCH_ITEMS == 64, "a bit for each");

/* Places and prefetches the valid calls from `first` on, as many as fit. Returns how many calls that were. */
static size_t place_ahead(const struct sluice_store *store, struct sluice_call *calls, size_t count,
                          struct sl_place *places, struct kinds *kinds) {
	size_t taken = 0, used = 0;
	*kinds = (struct kinds){0, 0};
	for (; taken < count && used < BATCH_ITEMS; taken++) {
		struct sluice_call *call = &calls[taken];
		if (call->items != NULL && is_simple(call)) {
			call->err = SLUICE_OK;
			kinds->simple |= UINT64_C(1) << used;
			places[used] = part_place_short(store, call->items);
			sl_place_prefetch(&places[used++]);
			continue;
		}
		bool plain = is_plain(call);
		call->err = plain ? SLUICE_OK : sl_call_validate(call);
		if (call->err != SLUICE_OK)
			continue;
		if (used + call->item_count > BATCH_ITEMS)
			break;
		if (call->item_count != 0)
			kinds->plain |= (uint64_t)plain << used;
		place_and_prefetch(store, call->items, call->item_count, places + used);
		used += call->item_count;
	}
	return taken;
}

/* Of a batch, placed and valid; with windows that are spread, in the wrong place. */
static sluice_err decide_placed(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places,
                                bool plain) {
	return !plain && needs_keys(call) ? decide_keyed(store, call) : decide_patiently(store, call, places, plain);
}

void sluice_decide_many(struct sluice_store *store, struct sluice_call *calls, size_t count) {
	struct sl_place places[BATCH_ITEMS];
	if (store == NULL || store->owner == 0) {
		for (size_t i = 0; i < count; i++)
			calls[i].err = store == NULL ? SLUICE_E_MISUSE : SLUICE_E_BUSY;
		return;
	}
	while (count != 0) {
		struct kinds kinds;
		size_t taken = place_ahead(store, calls, count, places, &kinds), used = 0;
		SL_ASSERT(taken > 0);
		prefetch_seconds(store, calls, taken, places);
		for (size_t i = 0; i < taken; i++) {
			if (calls[i].err != SLUICE_OK)
				continue;
			SL_DEBUG_ASSERT(used < BATCH_ITEMS || calls[i].item_count == 0);
			sl_answer_clear(&calls[i]);
			bool has = calls[i].item_count != 0; /* a bit */
			calls[i].err = has && (kinds.simple >> used & 1) != 0
			                   ? decide_one(store, &calls[i], places + used)
			                   : decide_placed(store, &calls[i], places + used, has && (kinds.plain >> used & 1) != 0);
			used += calls[i].item_count;
		}
		calls += taken;
		count -= taken;
	}
}
