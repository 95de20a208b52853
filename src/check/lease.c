/* Leases as operations: which call holds what it asks for, releasing, renewing, listing. What a lease is, and how the
 * counter of a limit of concurrency keeps them, is algo/lease.c's.
 *
 * Releasing writes one word of a block that the counter keeps; renewing too, behind a lifetime of the slot that is long
 * enough for it: so a death leaves the lease as it was, or as it is to be. */
#include "check/lease.h"

#include "check/member.h"

static bool is_lease(const struct member *m) {
	return m->counts && m->limit->algorithm == SLUICE_CONCURRENCY;
}

static bool has_reservation(struct member *m, uint64_t id, sluice_ns now) {
	const struct sl_ledger ledger = {m->ledger.list, m->ledger.count};
	struct sl_found found;
	if (m->plain || !m->ledger.adds || m->ledger.count == 0 || m->ledger.dead)
		return false;
	found = sl_bundle_find(m->limit, &ledger, &m->ledger.contents, id, now);
	m->amount = found.at >= 0 ? found.its.cost : 0;
	return found.at >= 0;
}

/* Whether a member holds what the call names: then it is not charged again. */
static bool holds(const struct sluice_store *store, struct member *m, uint64_t id, sluice_ns now) {
	struct sluice_decision ignored;
	if (!is_lease(m))
		return has_reservation(m, id, now);
	member_step(store, m, now, m->cost, false, &ignored);
	if (m->remembered || m->slot == NULL || !m->counter.known)
		return false;
	m->amount = m->counter.places.costs != NULL ? m->counter.places.costs[m->counter.places.mine] : 1;
	return true;
}

bool members_hold(const struct sluice_store *store, struct sluice_call *call, struct member *members) {
	uint64_t id = sl_id_number(call->id);
	uint32_t asked = 0, held = 0, observed_held = 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		bool asks = call->operation == SLUICE_ACQUIRE ? is_lease(m) : m->counts && !m->plain && m->ledger.adds;
		if (!m->counts || m->tried)
			continue;
		m->kept = holds(store, m, id, call->now);
		if (!asks)
			continue;
		asked += !m->observed;
		held += m->kept && !m->observed;
		if (m->kept && call->upto)
			call->granted = (uint32_t)sl_min(call->granted, m->amount);
		observed_held += m->kept && m->observed;
	}
	return held == asked && held + observed_held != 0;
}

static bool renew(struct sluice_store *store, struct member *m, sluice_ns now) {
	const uint64_t *state = sl_slot_state(m->slot);
	const uint64_t before[2] = {state[0], state[1]};
	struct sluice_decision decision;
	if (!sl_lease_is_held(&m->counter, now))
		return false;
	sl_lease_step(m->limit, &m->counter, now, 0, false, &decision); /* sl_step() says nothing of what N = 0 leaves */
	members_keep_latest(store, now);
	/* T from now, or from the counter's clock, whichever is later: before the lease is that long */
	sl_slot_publish(
		m->slot, before, sl_tag_marks(sl_slot_tag(m->slot)),
		life_until(before[0], ns_add(ns_add(sl_step_instant(m->limit, &m->counter, now), m->limit->window_ns),
	                                 sl_step_life(m->limit, &decision))));
	if (!sl_lease_renew(m->limit, &m->counter, now))
		return false;
	sl_lease_step(m->limit, &m->counter, now, 0, false, &decision);
	member_publish_state(m, &decision);
	return true;
}

void members_end_leases(struct sluice_store *store, struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (!is_lease(m) || m->leader != i || m->slot == NULL)
			continue;
		member_load(store, m);
		m->remembered = false;
		call->found += call->operation == SLUICE_RENEW ? renew(store, m, call->now)
		                                               : sl_lease_release(m->limit, &m->counter, call->now);
	}
	for (uint32_t i = 0; i < call->item_count; i++) {
		members[i].counts = is_lease(&members[i]); /* no other limit takes part in the answer */
		member_step(store, &members[i], call->now, 0, false, members[i].decision);
	}
}

uint32_t sl_store_leases(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                         sluice_ns now, struct sluice_holder *list, uint32_t room) {
	const struct sluice_item item = {.limit = limit, .key = key};
	struct sl_place place = member_place(store, &item);
	struct member m = {.limit = limit, .place = &place};
	uint32_t count = 0;
	if (sl_home_lock_patiently(store, place.home) != SLUICE_OK)
		return SLUICE_HOLDERS_BUSY;
	m.slot = sl_slot_find(&place);
	if (m.slot != NULL) {
		member_load(store, &m);
		count = sl_lease_list(&m.counter, now, list, room);
	}
	sl_home_unlock(place.home);
	return count;
}
