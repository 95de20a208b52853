/* Bounds of ours that a charge meets (contract 4.10): no error, but denials of the limits of that counter.
 *
 *   no memory, 256 counters at the key   SLUICE_BOUND_ROOM          again in a second, or a window where that is less
 *   a log of 2^25 entries                SLUICE_BOUND_ROOM          again when the oldest is gone
 *   16,384 open reservations             SLUICE_BOUND_RESERVATIONS  again when the first of them has ended
 *
 * Where one that denies is enforced the call is denied, and nothing is charged; else it is decided without those that
 * are observed. */
#include "base/math.h"
#include "hosts/redis/member.h"

#define MOMENT_NS ((sluice_ns)1000000000)

/* When one more than fits now will. */
static sluice_ns next_of(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision now, then;
	slr_member_decide(call, m, 0, false, &now);
	slr_member_decide(call, m, (uint64_t)now.remaining + 1, false, &then);
	return then.retry_after_ns;
}

void slr_meet_bound(const struct slr_call *call, struct slr_member *m, enum slr_failure failure) {
	struct sl_ledger open = slr_member_open(m);
	m->bound = SLUICE_BOUND_ROOM;
	m->bound_ns = sl_min(MOMENT_NS, sl_max(m->limit->window_ns, SL_MS_NS));
	if (failure == SLR_TOO_MANY_OPEN) {
		m->bound = SLUICE_BOUND_RESERVATIONS;
		m->bound_ns = open.count == 0 ? MOMENT_NS : open.list[0].end - m->clock;
	} else if (failure == SLR_LOG_TOO_LONG) {
		m->bound_ns = next_of(call, m);
	}
}

bool slr_deny(struct slr_deciding *d, uint32_t member, enum slr_failure failure) {
	uint8_t leader = d->members[member].leader;
	bool enforced = false;
	slr_meet_bound(d->call, &d->members[member], failure);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (!m->counts || m->leader != leader || m->tried || m->cost == 0 || !m->decision->allowed)
			continue;
		m->bound = d->members[member].bound;
		m->bound_ns = d->members[member].bound_ns;
		m->decision->allowed = false;
		enforced = enforced || !m->observed;
	}
	return enforced;
}

bool slr_find_room(struct slr_deciding *d) {
	bool any = false, enforced = false;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct slr_member *m = &d->members[i];
		if (!m->counts || m->there || m->tried || m->cost == 0 || !m->decision->allowed)
			continue;
		if (!any && !slr_is_full(d->call))
			return true;
		any = true;
		enforced = slr_deny(d, i, SLR_NO_ROOM) || enforced;
	}
	slr_tell_bounds(d);
	return !enforced;
}

void slr_tell_bounds(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].bound != SLUICE_BOUND_NONE)
			sl_decide_bound(d->members[i].decision, d->members[i].bound, d->members[i].bound_ns);
}
