/* Leases as operations: releasing, renewing, listing. What a lease is, and how the counter of a limit of concurrency
 * keeps them, is algo/lease.c's.
 *
 * Releasing writes one word of a block that the counter keeps; renewing too, after a lifetime of the slot that is long
 * enough for it: so a death leaves the lease as it was, or as it is to be. */
#include "check/lease.h"

#include "check/part.h"

bool lease_renew(struct sluice_store *store, struct part *m, sluice_ns now) {
	const uint64_t *state = sl_slot_state(m->slot);
	const uint64_t before[2] = {state[0], state[1]};
	struct sluice_decision decision;
	sluice_ns end;
	SL_ASSERT(sl_rule_has(m->cell.limit, SL_TAKES_LEASE) && m->slot != NULL);
	part_load(store, m);
	m->remembered = false;
	if (!sl_lease_is_held(&m->cell.counter, now))
		return false;
	/* sl_step() says nothing of what N = 0 leaves */
	sl_lease_step(m->cell.limit, &m->cell.counter, now, 0, false, &decision);
	parts_keep_latest(store, now);
	/* T from now, or from the counter's clock, whichever is later: before the lease is that long */
	end = ns_add(sl_step_instant(m->cell.limit, &m->cell.counter, now), m->cell.limit->window_ns);
	sl_slot_publish(m->slot, before, sl_tag_marks(sl_slot_tag(m->slot)),
	                life_until(before[0], ns_add(end, sl_step_life(m->cell.limit, &decision))));
	if (!sl_lease_renew(m->cell.limit, &m->cell.counter, now))
		return false;
	sl_lease_step(m->cell.limit, &m->cell.counter, now, 0, false, &decision);
	part_publish_state(m, &decision);
	return true;
}

bool lease_release(struct sluice_store *store, struct part *m, sluice_ns now) {
	SL_ASSERT(sl_rule_has(m->cell.limit, SL_TAKES_LEASE) && m->slot != NULL);
	part_load(store, m);
	return sl_lease_release(m->cell.limit, &m->cell.counter, now);
}

uint32_t sl_store_leases(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                         sluice_ns now, struct sluice_holder *list, uint32_t room) {
	const struct sluice_item item = {.limit = limit, .key = key};
	struct sl_place place = part_place(store, &item);
	struct part m = {.cell.limit = limit, .place = &place};
	uint32_t count = 0;
	if (sl_home_lock_patiently(store, place.home) != SLUICE_OK)
		return SLUICE_HOLDERS_BUSY;
	m.slot = sl_slot_find(&place);
	if (m.slot != NULL) {
		part_load(store, &m);
		count = sl_lease_list(&m.cell.counter, now, list, room);
	}
	sl_home_unlock(place.home);
	return count;
}
