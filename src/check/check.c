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
 * I1  Limits that meet in one counter (same place) are each decided on its state as it was, and charge it once.
 * I2  No claim of a call takes a slot that the call has found or claimed, nor does its search for room.
 * I3  Observed limits are stepped like the others, never deny, and are charged only where they would have admitted;
 *     those that are tried are charged through others only.
 * I4  No state is charged at an instant past header->latest_charge. */
#include "algo/merge.h"
#include "check/member.h"

enum { BATCH_ITEMS = 64 }; /* placed and prefetched ahead by sluice_decide_many() */

static bool has_counter(const struct sluice_limit *limit) {
	return limit->algorithm != SLUICE_UNLIMITED;
}

static struct sl_place place_item(const struct sluice_store *store, const struct sluice_item *item) {
	if (!has_counter(item->limit))
		return (struct sl_place){NULL, 0};
	return sl_place_of(store, &item->limit->derived[SL_IDENT_KIND], item->limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2,
	                   item->key, sl_rule_has_block(item->limit));
}

/* The wait until `remaining` grows by one: when one unit more than it would be admitted. */
static void fill_next(const struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sluice_decision next;
	if (m->decision->remaining >= m->decision->quota)
		return;
	member_step(store, m, now, (uint64_t)m->decision->remaining + 1, false, &next);
	m->decision->next_after_ns = next.retry_after_ns;
}

/* ---- several counters: groups and locks ------------------------------------------------------------------------- */

static uint32_t collect_homes(const struct member *members, uint32_t count, struct sl_bucket **homes) {
	uint32_t used = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = used;
		struct sl_bucket *home;
		if (!members[i].counts)
			continue;
		home = members[i].place->home;
		while (at > 0 && homes[at - 1] > home)
			at--;
		if (at > 0 && homes[at - 1] == home)
			continue;
		memmove(&homes[at + 1], &homes[at], (used - at) * sizeof homes[0]);
		homes[at] = home;
		used++;
	}
	return used;
}

static void find_leaders(struct member *members, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = 0;
		while (first < i &&
		       !(members[first].counts && members[i].counts && members[first].place->home == members[i].place->home &&
		         members[first].place->tag == members[i].place->tag))
			first++;
		members[i].leader = (uint8_t)first;
	}
}

static void set_up(const struct sluice_call *call, const struct sl_place *places, struct member *members,
                   struct sluice_decision *decisions) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		m->limit = call->items[i].limit;
		m->place = &places[i];
		m->decision = &decisions[i];
		m->slot = NULL;
		m->observed = call->items[i].observed != 0;
		m->tried = call->items[i].observed == SLUICE_TRIED;
		m->counts = has_counter(m->limit);
		m->charged = false;
	}
	find_leaders(members, call->item_count);
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

/* A member whose counter another one has charged: it may have had no slot before, and where it is an observed limit
 * that denies, its figures are to be those after the charge, as everybody else's are. */
static void join_charge(const struct sluice_store *store, const struct sluice_call *call, struct member *m) {
	m->slot = sl_slot_find(m->place);
	if (!m->decision->allowed)
		member_step(store, m, call->now, call->cost, false, m->decision);
}

/* Charges every group that is to be, or none. A group is charged through its first member that may. */
static sluice_err charge_groups(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	bool group_charged[SLUICE_ITEMS_MAX] = {false};
	sluice_err err;
	members_keep_latest(store, call->now);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		m->charged = m->counts && m->decision->allowed && !m->tried && !group_charged[m->leader];
		group_charged[m->leader] = group_charged[m->leader] || m->charged;
	}
	err = members_charge(store, call, members, call->item_count);
	for (uint32_t i = 0; i < call->item_count && err == SLUICE_OK; i++)
		if (group_charged[members[i].leader] && !members[i].charged)
			join_charge(store, call, &members[i]);
		else if (members[i].tried && members[i].counts && !group_charged[members[i].leader])
			member_step(store, &members[i], call->now, call->cost, false, members[i].decision);
	return err;
}

static sluice_err decide_members(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	bool charge = call->operation == SLUICE_CHARGE, allowed = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		member_step(store, &members[i], call->now, call->cost, charge, members[i].decision);
		allowed = allowed && (members[i].decision->allowed || members[i].observed);
	}
	if (!charge || call->cost == 0)
		return SLUICE_OK;
	if (allowed)
		return charge_groups(store, call, members);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].decision->allowed)
			member_step(store, &members[i], call->now, call->cost, false, members[i].decision);
	return SLUICE_OK;
}

static void refund_members(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		uint32_t cost = call->cost;
		if (!m->counts || m->leader != i || m->slot == NULL)
			continue;
		member_load(store, m);
		if (sl_step_prepare_refund(m->limit, &m->counter, call->now, &cost))
			sl_slot_write(m->slot, m->counter.state.w);
		if (sl_step_refund(m->limit, &m->counter, call->now, cost))
			sl_slot_write(m->slot, m->counter.state.w);
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		member_step(store, &members[i], call->now, 0, false, members[i].decision);
}

static void reset_members(struct sluice_store *store, struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (m->counts && m->leader == i)
			call->forgotten += member_reset(store, m, call->now);
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		members[i].slot = members[i].counts ? sl_slot_find(members[i].place) : NULL;
	for (uint32_t i = 0; i < call->item_count; i++)
		member_step(store, &members[i], call->now, 0, false, members[i].decision);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void answer(struct sluice_call *call, const struct member *members) {
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (members[i].counts && !members[i].observed)
			sl_merge_add(&call->merged, members[i].decision, (int32_t)i);
		if (call->each != NULL) {
			call->each[i] = *members[i].decision;
			call->each[i].index = (int32_t)i;
		}
	}
}

static sluice_err decide_several(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places) {
	struct member members[SLUICE_ITEMS_MAX];
	struct sluice_decision decisions[SLUICE_ITEMS_MAX];
	struct sl_bucket *homes[SLUICE_ITEMS_MAX + 1];
	uint32_t home_count;
	sluice_err err = SLUICE_OK;
	set_up(call, places, members, decisions);
	home_count = collect_homes(members, call->item_count, homes);
	for (uint32_t i = 0; i < home_count; i++)
		sl_home_lock(store, homes[i]);
	for (uint32_t i = 0; i < call->item_count; i++)
		members[i].slot = members[i].counts ? sl_slot_find(members[i].place) : NULL;
	if (call->operation == SLUICE_REFUND)
		refund_members(store, call, members);
	else if (call->operation == SLUICE_RESET)
		reset_members(store, call, members);
	else
		err = decide_members(store, call, members);
	for (uint32_t i = 0; call->want_next && err == SLUICE_OK && i < call->item_count; i++)
		if (members[i].counts)
			fill_next(store, &members[i], call->now);
	for (uint32_t i = 0; i < home_count; i++)
		sl_home_unlock(homes[i]);
	if (err == SLUICE_OK)
		answer(call, members);
	return err;
}

/* Nothing to claim or take, for most: the counter is there, and its block, if it has one, is long enough. */
static inline sluice_err charge_one(struct sluice_store *store, struct member *m, const struct sluice_call *call) {
	members_keep_latest(store, call->now);
	if (m->slot != NULL &&
	    (!sl_rule_has_block(m->limit) || sl_step_block_bytes(m->limit, &m->counter, call->cost) == 0)) {
		member_publish(m, call);
		return SLUICE_OK;
	}
	m->charged = true;
	return members_charge(store, call, m, 1);
}

/* The same for the commonest call, one enforced limit charged or peeked at: no groups, no merging, one lock. */
static sluice_err decide_one(struct sluice_store *store, struct sluice_call *call, const struct sl_place *place) {
	struct member m; /* filled as it is needed: zeroing it would be a tenth of the call */
	bool charge = call->operation == SLUICE_CHARGE;
	sluice_err err = SLUICE_OK;
	m.limit = call->items[0].limit;
	m.place = place;
	m.decision = &call->merged;
	sl_home_lock(store, place->home);
	m.slot = sl_slot_find(place);
	member_step(store, &m, call->now, call->cost, charge, m.decision);
	if (charge && m.decision->allowed && call->cost != 0)
		err = charge_one(store, &m, call);
	if (call->want_next && err == SLUICE_OK)
		fill_next(store, &m, call->now);
	sl_home_unlock(place->home);
	if (err != SLUICE_OK)
		return err;
	if (call->each != NULL)
		call->each[0] = call->merged;
	return SLUICE_OK;
}

static inline bool item_is_valid(const struct sluice_item *item) {
	return item->limit != NULL && (item->key.data != NULL || item->key.len == 0);
}

static sluice_err validate(const struct sluice_store *store, const struct sluice_call *call) {
	if (store->owner == 0)
		return SLUICE_E_BUSY;
	if (call->item_count > SLUICE_ITEMS_MAX)
		return SLUICE_E_RANGE;
	if (call->operation > SLUICE_RESET || (call->items == NULL && call->item_count != 0))
		return SLUICE_E_MISUSE;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (!item_is_valid(&call->items[i]))
			return SLUICE_E_MISUSE;
	return SLUICE_OK;
}

/* What decide_one() takes, and in most programs nearly every call is. */
static inline bool is_simple(const struct sluice_call *call) {
	return call->item_count == 1 && call->operation <= SLUICE_PEEK && !call->items[0].observed &&
	       has_counter(call->items[0].limit);
}

static void decide_placed(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places) {
	call->forgotten = 0;
	if (is_simple(call))
		call->err = decide_one(store, call, places);
	else
		call->err = decide_several(store, call, places);
}

/* The rest of sluice_decide(): several limits, an operation other than charge and peek, or nothing valid. */
static __attribute__((noinline)) sluice_err decide_any(struct sluice_store *store, struct sluice_call *call) {
	struct sl_place places[SLUICE_ITEMS_MAX];
	call->err = validate(store, call);
	if (call->err != SLUICE_OK)
		return call->err;
	for (uint32_t i = 0; i < call->item_count; i++) {
		places[i] = place_item(store, &call->items[i]);
		if (places[i].home != NULL)
			sl_place_prefetch(&places[i]);
	}
	decide_placed(store, call, places);
	return call->err;
}

sluice_err sluice_decide(struct sluice_store *store, struct sluice_call *call) {
	struct sl_place place;
	if (call == NULL)
		return SLUICE_E_MISUSE;
	if (store == NULL)
		return call->err = SLUICE_E_MISUSE;
	if (store->owner == 0 || call->items == NULL || call->item_count != 1 || !item_is_valid(call->items) ||
	    !is_simple(call))
		return decide_any(store, call);
	place = place_item(store, call->items);
	sl_place_prefetch(&place);
	call->forgotten = 0;
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
	} else if (sl_rule_has_block(limit) && (uint32_t)counter.state.w[1] != 0 &&
	           (uint32_t)counter.state.w[1] < store->header->unit_count) {
		counter.block = sl_block_memory(store, (uint32_t)counter.state.w[1]);
		sl_step_prefetch(limit, &counter);
	}
}

static void prefetch_seconds(const struct sluice_store *store, const struct sluice_call *calls, size_t count,
                             const struct sl_place *places) {
	for (size_t c = 0; c < count; c++)
		for (uint32_t i = 0; calls[c].err == SLUICE_OK && i < calls[c].item_count; i++)
			prefetch_second(store, calls[c].items[i].limit, places++);
}

static inline void place_and_prefetch(const struct sluice_store *store, const struct sluice_item *item,
                                      struct sl_place *place) {
	*place = place_item(store, item);
	if (place->home != NULL)
		sl_place_prefetch(place);
}

/* Places and prefetches the valid calls from `first` on, as many as fit. Returns how many calls that were. */
static size_t place_ahead(const struct sluice_store *store, struct sluice_call *calls, size_t count,
                          struct sl_place *places) {
	size_t taken = 0, used = 0;
	for (; taken < count && used < BATCH_ITEMS; taken++) {
		struct sluice_call *call = &calls[taken];
		if (call->item_count == 1 && call->items != NULL && item_is_valid(call->items) &&
		    call->operation <= SLUICE_RESET) {
			call->err = SLUICE_OK;
			place_and_prefetch(store, call->items, &places[used++]);
			continue;
		}
		call->err = validate(store, call);
		if (call->err != SLUICE_OK)
			continue;
		if (used + call->item_count > BATCH_ITEMS)
			break;
		for (uint32_t i = 0; i < call->item_count; i++)
			place_and_prefetch(store, &call->items[i], &places[used++]);
	}
	return taken;
}

void sluice_decide_many(struct sluice_store *store, struct sluice_call *calls, size_t count) {
	struct sl_place places[BATCH_ITEMS];
	if (store == NULL || store->owner == 0) {
		for (size_t i = 0; i < count; i++)
			calls[i].err = store == NULL ? SLUICE_E_MISUSE : SLUICE_E_BUSY;
		return;
	}
	while (count != 0) {
		size_t taken = place_ahead(store, calls, count, places), used = 0;
		SL_ASSERT(taken > 0);
		prefetch_seconds(store, calls, taken, places);
		for (size_t i = 0; i < taken; i++) {
			if (calls[i].err != SLUICE_OK)
				continue;
			decide_placed(store, &calls[i], places + used);
			used += calls[i].item_count;
		}
		calls += taken;
		count -= taken;
	}
}
