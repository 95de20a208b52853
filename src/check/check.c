/* Deciding a request: lock the counters of all its limits, step each, publish all or none.
 *
 * The only file that knows both what a limit is (algo) and where counters live (store).
 *
 *   place    each limit with its key is hashed to its home bucket, and prefetched
 *   lock     the homes in address order, each once: whatever order callers name their limits in, no two wait for each
 *            other in a circle
 *   step     on copies of the states, as if all will be charged
 *   reserve  if all enforced limits admit: slots for new counters, longer blocks for logs; may fail, and is then undone
 *   publish  cannot fail
 *   unlock
 *
 * A denial and a peek stop after `step` and have written nothing but the lock words, which end as they began.
 *
 * I1  Limits that meet in one counter (same place) are each decided on its state as it was, and charge it once.
 * I2  Between reserve and publish every slot of the call is pinned: no claim of the same call can take it for expired.
 * I3  Observed limits are stepped like the others, never deny, and are charged only where they would have admitted. */
#include "algo/step.h"
#include "base/assert.h"
#include "store/store.h"

enum {
	BATCH_ITEMS = 64, /* placed and prefetched ahead by sluice_decide_many() */
	SWEEP_PAGES = 16, /* searched for expired blocks by a call that found none free */
};

/* One limit of a call, while it is being decided. */
struct member {
	const struct sluice_limit *limit;
	const struct sl_place *place;
	struct sl_slot *slot;      /* NULL: no counter yet */
	struct sl_counter counter; /* a copy */
	struct sluice_decision *decision;
	uint64_t tag;   /* of the slot before it was pinned */
	uint32_t block; /* reserved */
	uint64_t block_bytes;
	bool observed;
	bool counts;    /* not `unlimited`, which has no counter */
	bool charged;   /* this member charges the counter that it, or a group, has */
	bool claimed;   /* the slot was claimed by this call */
	uint8_t leader; /* first member with the same counter */
};

static bool has_counter(const struct sluice_limit *limit) {
	return limit->algorithm != SLUICE_UNLIMITED;
}

static struct sl_place place_item(const struct sluice_store *store, const struct sluice_item *item) {
	if (!has_counter(item->limit))
		return (struct sl_place){NULL, 0};
	return sl_place_of(store, &item->limit->derived[SL_IDENT_KIND], item->limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2,
	                   item->key, sl_rule_has_block(item->limit));
}

/* ---- one counter ------------------------------------------------------------------------------------------------ */

/* For debug builds; a block's true size is a miss of its own, which no decision needs. */
__attribute__((unused)) static bool is_valid(const struct sluice_store *store, struct member *m) {
	if (m->counter.block != NULL)
		m->counter.block_bytes = sl_block_bytes(store, (uint32_t)m->counter.state.w[1]);
	return sl_counter_is_valid(m->limit, &m->counter);
}

/* Copies the state from the slot, or none. */
static inline void load(const struct sluice_store *store, struct member *m) {
	uint32_t block;
	m->counter.block = NULL;
	m->counter.block_bytes = 0;
	if (m->slot == NULL) {
		m->counter.state = (struct sl_state){{0, 0}};
		return;
	}
	/* word by word: a load of all 16 bytes could not be forwarded from the two stores of the publish before */
	m->counter.state.w[0] = __atomic_load_n(&m->slot->state[0], __ATOMIC_RELAXED);
	m->counter.state.w[1] = __atomic_load_n(&m->slot->state[1], __ATOMIC_RELAXED);
	block = (uint32_t)m->counter.state.w[1];
	if (sl_rule_has_block(m->limit) && block != 0) {
		m->counter.block = sl_block_memory(store, block);
		sl_step_prefetch(m->limit, &m->counter);
	}
	SL_DEBUG_ASSERT(is_valid(store, m));
}

static inline void step(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost, bool charge) {
	load(store, m);
	sl_step(m->limit, &m->counter, now, cost, charge, m->decision);
}

/* Gets what the charge will need: a slot, and for a log perhaps a longer block. Undo with unreserve(). */
static sluice_err reserve(struct sluice_store *store, struct member *m, const struct sluice_call *call) {
	uint64_t bytes;
	m->block = 0;
	m->claimed = m->slot == NULL;
	if (m->claimed) {
		m->slot = sl_slot_claim(store, m->place, call->now);
		if (m->slot == NULL) {
			m->claimed = false;
			return SLUICE_E_FULL;
		}
	} else {
		m->tag = sl_slot_pin(m->slot);
	}
	if (!sl_rule_has_block(m->limit))
		return SLUICE_OK;
	bytes = sl_step_block_bytes(m->limit, &m->counter, call->cost);
	if (bytes == 0)
		return SLUICE_OK;
	if (bytes == SL_BLOCK_TOO_LARGE)
		return SLUICE_E_FULL;
	m->block = sl_block_take(store, bytes, &m->block_bytes);
	if (m->block == 0) {
		sl_store_sweep(store, SWEEP_PAGES, call->now);
		m->block = sl_block_take(store, bytes, &m->block_bytes);
	}
	return m->block != 0 ? SLUICE_OK : SLUICE_E_FULL;
}

static void unreserve(struct sluice_store *store, struct member *m) {
	if (m->block != 0)
		sl_block_free(store, m->block);
	if (m->claimed) {
		sl_slot_free(store, m->place, m->slot);
		m->slot = NULL;
	} else if (m->slot != NULL) {
		sl_slot_unpin(m->slot, m->tag);
	}
}

static void publish(struct sluice_store *store, struct member *m, const struct sluice_call *call) {
	uint32_t old = 0;
	if (sl_rule_has_block(m->limit)) {
		void *block = m->block != 0 ? sl_block_memory(store, m->block) : NULL;
		sl_step_write(m->limit, &m->counter, call->now, call->cost, block, m->block_bytes);
		if (m->block != 0) {
			old = (uint32_t)m->counter.state.w[1];
			m->counter.state.w[1] = m->counter.state.w[1] >> 32 << 32 | m->block;
		}
	}
	sl_slot_publish(m->slot, m->counter.state.w, sl_step_life(m->limit, m->decision));
	if (old != 0)
		sl_block_free(store, old);
}

/* The wait until `remaining` grows by one: when one unit more than it would be admitted. */
static void fill_next(const struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sluice_decision next;
	if (m->decision->remaining >= m->decision->quota)
		return;
	load(store, m);
	sl_step(m->limit, &m->counter, now, (uint64_t)m->decision->remaining + 1, false, &next);
	m->decision->next_after_ns = next.retry_after_ns;
}

/* ---- several counters: groups and locks
 * ----------------------------------------------------------------------------- */

static uint32_t collect_locks(const struct member *members, uint32_t count, uint32_t **locks) {
	uint32_t used = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = used, *lock;
		if (!members[i].counts)
			continue;
		lock = &members[i].place->home->lock;
		while (at > 0 && locks[at - 1] > lock)
			at--;
		if (at > 0 && locks[at - 1] == lock)
			continue;
		memmove(&locks[at + 1], &locks[at], (used - at) * sizeof locks[0]);
		locks[at] = lock;
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
		m->observed = call->items[i].observed;
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
		step(store, m, call->now, call->cost, false);
}

/* Charges every group that is to be, or none. A group is charged through its first member that may. */
static sluice_err charge_all(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	bool group_charged[SLUICE_ITEMS_MAX] = {false};
	sluice_err err = SLUICE_OK;
	uint32_t reserved = 0;
	for (uint32_t i = 0; i < call->item_count && err == SLUICE_OK; i++) {
		struct member *m = &members[i];
		m->charged = m->counts && m->decision->allowed && !group_charged[m->leader];
		if (m->charged) {
			group_charged[m->leader] = true;
			err = reserve(store, m, call);
		}
		reserved = i + 1;
	}
	for (uint32_t i = 0; i < reserved; i++) {
		if (members[i].charged && err == SLUICE_OK)
			publish(store, &members[i], call);
		else if (members[i].charged)
			unreserve(store, &members[i]);
	}
	for (uint32_t i = 0; i < call->item_count && err == SLUICE_OK; i++)
		if (group_charged[members[i].leader] && !members[i].charged)
			join_charge(store, call, &members[i]);
	return err;
}

static sluice_err decide_members(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	bool charge = call->operation == SLUICE_CHARGE, allowed = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		step(store, &members[i], call->now, call->cost, charge);
		allowed = allowed && (members[i].decision->allowed || members[i].observed);
	}
	if (!charge || call->cost == 0)
		return SLUICE_OK;
	if (allowed)
		return charge_all(store, call, members);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].decision->allowed)
			step(store, &members[i], call->now, call->cost, false);
	return SLUICE_OK;
}

static void refund_members(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (!m->counts || m->leader != i || m->slot == NULL)
			continue;
		load(store, m);
		if (sl_step_refund(m->limit, &m->counter, call->now, call->cost))
			sl_slot_write(m->slot, m->counter.state.w);
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		step(store, &members[i], call->now, 0, false);
}

static void reset_members(struct sluice_store *store, struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (m->counts && m->leader == i && m->slot != NULL) {
			sl_slot_free(store, m->place, m->slot);
			call->forgotten++;
		}
		m->slot = NULL;
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		step(store, &members[i], call->now, 0, false);
}

/* ---- the answer
 * --------------------------------------------------------------------------------------------------- */

static void merge_one(struct sluice_decision *merged, const struct sluice_decision *one, int32_t index) {
	bool decides = one->allowed ? merged->allowed && (merged->index < 0 || one->remaining < merged->remaining)
	                            : one->retry_after_ns > merged->retry_after_ns;
	if (decides) {
		merged->index = index;
		merged->quota = one->quota;
		merged->next_after_ns = one->next_after_ns;
	}
	merged->allowed = merged->allowed && one->allowed;
	merged->remaining = one->remaining < merged->remaining ? one->remaining : merged->remaining;
	merged->retry_after_ns = sl_max(merged->retry_after_ns, one->retry_after_ns);
	merged->reset_after_ns = sl_max(merged->reset_after_ns, one->reset_after_ns);
	merged->delay_ns = sl_max(merged->delay_ns, one->delay_ns);
}

static struct sluice_decision nothing_applies(void) {
	return (struct sluice_decision){.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX};
}

static void answer(struct sluice_call *call, const struct member *members) {
	call->merged = nothing_applies();
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (members[i].counts && !members[i].observed)
			merge_one(&call->merged, members[i].decision, (int32_t)i);
		if (call->each != NULL) {
			call->each[i] = *members[i].decision;
			call->each[i].index = (int32_t)i;
		}
	}
}

static sluice_err decide_several(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places) {
	struct member members[SLUICE_ITEMS_MAX];
	struct sluice_decision decisions[SLUICE_ITEMS_MAX];
	uint32_t *locks[SLUICE_ITEMS_MAX + 1], lock_count;
	sluice_err err = SLUICE_OK;
	set_up(call, places, members, decisions);
	lock_count = collect_locks(members, call->item_count, locks);
	for (uint32_t i = 0; i < lock_count; i++)
		sl_lock(store, locks[i]);
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
	for (uint32_t i = 0; i < lock_count; i++)
		sl_unlock(locks[i]);
	if (err == SLUICE_OK)
		answer(call, members);
	return err;
}

/* Nothing to reserve, for most: the counter is there, and its block, if it has one, is long enough. */
static inline sluice_err charge_one(struct sluice_store *store, struct member *m, const struct sluice_call *call) {
	sluice_err err;
	bool has_block = sl_rule_has_block(m->limit);
	if (m->slot != NULL && (!has_block || sl_step_block_bytes(m->limit, &m->counter, call->cost) == 0)) {
		if (has_block)
			sl_step_write(m->limit, &m->counter, call->now, call->cost, NULL, 0);
		sl_slot_publish(m->slot, m->counter.state.w, sl_step_life(m->limit, m->decision));
		return SLUICE_OK;
	}
	err = reserve(store, m, call);
	if (err == SLUICE_OK)
		publish(store, m, call);
	else
		unreserve(store, m);
	return err;
}

/* The same for the commonest call, one enforced limit charged or peeked at: no groups, no merging, one lock. */
static sluice_err decide_one(struct sluice_store *store, struct sluice_call *call, const struct sl_place *place) {
	struct member m; /* filled as it is needed: zeroing it would be a tenth of the call */
	bool charge = call->operation == SLUICE_CHARGE;
	sluice_err err = SLUICE_OK;
	m.limit = call->items[0].limit;
	m.place = place;
	m.decision = &call->merged;
	sl_lock(store, &place->home->lock);
	m.slot = sl_slot_find(place);
	step(store, &m, call->now, call->cost, charge);
	if (charge && m.decision->allowed && call->cost != 0)
		err = charge_one(store, &m, call);
	if (call->want_next && err == SLUICE_OK)
		fill_next(store, &m, call->now);
	sl_unlock(&place->home->lock);
	if (err != SLUICE_OK)
		return err;
	if (call->each != NULL)
		call->each[0] = call->merged;
	return SLUICE_OK;
}

static void decide_placed(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places) {
	call->forgotten = 0;
	if (call->item_count == 1 && call->operation <= SLUICE_PEEK && !call->items[0].observed &&
	    has_counter(call->items[0].limit))
		call->err = decide_one(store, call, places);
	else
		call->err = decide_several(store, call, places);
}

static sluice_err validate(const struct sluice_call *call) {
	if (call->item_count > SLUICE_ITEMS_MAX)
		return SLUICE_E_RANGE;
	if (call->operation > SLUICE_RESET || (call->items == NULL && call->item_count != 0))
		return SLUICE_E_MISUSE;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->items[i].limit == NULL || (call->items[i].key.data == NULL && call->items[i].key.len != 0))
			return SLUICE_E_MISUSE;
	return SLUICE_OK;
}

sluice_err sluice_decide(struct sluice_store *store, struct sluice_call *call) {
	struct sl_place places[SLUICE_ITEMS_MAX];
	if (call == NULL)
		return SLUICE_E_MISUSE;
	call->err = store == NULL ? SLUICE_E_MISUSE : validate(call);
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

/* The second miss of a log: its block, once the slot that names it is near. */
static void prefetch_block(const struct sluice_store *store, const struct sluice_limit *limit,
                           const struct sl_place *place) {
	struct sl_counter counter;
	if (!sl_rule_has_block(limit) || !sl_slot_hint(place, counter.state.w) || (uint32_t)counter.state.w[1] == 0 ||
	    (uint32_t)counter.state.w[1] >= store->header->unit_count)
		return;
	counter.block = sl_block_memory(store, (uint32_t)counter.state.w[1]);
	sl_step_prefetch(limit, &counter);
}

static void prefetch_blocks(const struct sluice_store *store, const struct sluice_call *calls, size_t count,
                            const struct sl_place *places) {
	for (size_t c = 0; c < count; c++)
		for (uint32_t i = 0; calls[c].err == SLUICE_OK && i < calls[c].item_count; i++)
			prefetch_block(store, calls[c].items[i].limit, places++);
}

/* Places and prefetches the valid calls from `first` on, as many as fit. Returns how many calls that were. */
static size_t place_ahead(const struct sluice_store *store, struct sluice_call *calls, size_t count,
                          struct sl_place *places) {
	size_t taken = 0, used = 0;
	for (; taken < count; taken++) {
		struct sluice_call *call = &calls[taken];
		call->err = validate(call);
		if (call->err != SLUICE_OK)
			continue;
		if (used + call->item_count > BATCH_ITEMS)
			break;
		for (uint32_t i = 0; i < call->item_count; i++, used++) {
			places[used] = place_item(store, &call->items[i]);
			if (places[used].home != NULL)
				sl_place_prefetch(&places[used]);
		}
	}
	return taken;
}

void sluice_decide_many(struct sluice_store *store, struct sluice_call *calls, size_t count) {
	struct sl_place places[BATCH_ITEMS];
	while (count != 0) {
		size_t taken = place_ahead(store, calls, count, places), used = 0;
		SL_ASSERT(taken > 0);
		prefetch_blocks(store, calls, taken, places);
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
