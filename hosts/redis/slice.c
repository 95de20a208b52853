/* What a front does with its holds, beyond charging (cells.c): it cancels one, takes a slice of a counter to decide by
 * itself for a while, and asks how a counter stands with its own hold in place. */
#include "base/math.h"
#include "hosts/redis/part.h"

void slr_cancel_holds(struct slr_deciding *d) {
	static const struct slr_change drop = {.drop_own = true};
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		if (m->cell.leader != i || m->own < 0)
			continue;
		slr_part_judge(d->call, m, 0, false, m->cell.decision);
		slr_part_commit(d->call, m, &drop);
		d->engine.call->forgotten++;
	}
}

/* Whether the call is allowed was decided without its own hold, the rest is what anybody finds. */
void slr_look_kept(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		struct sluice_decision *decision = m->cell.decision, before = *decision;
		if (m->own < 0)
			continue;
		slr_part_reload(d->call, m);
		slr_part_judge(d->call, m, before.allowed ? 0 : m->cell.cost, false, decision);
		decision->delay_ns = before.delay_ns;
	}
	sl_answer(&d->engine);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* Charges what was spent of the old slice, and holds a new one of what there is room for. */
static enum slr_failure take(struct slr_deciding *d, struct sl_shortage *shortage) {
	struct slr_call *call = d->call;
	struct slr_part *m = &d->parts[0];
	uint32_t held = m->own >= 0 ? m->holds->list[m->own].cost : 0, at;
	struct slr_hold hold = {.id = call->id, .end = m->clock + call->asked.ttl_ns, .lease = 1};
	struct slr_change change = {
		.charge = call->spent < held ? call->spent : held, .forced = true, .drop_own = true, .place = NULL};
	struct sluice_decision room;
	enum slr_failure failure;
	/* what will have been charged is held against it here: both take as much of the room */
	m->held += change.charge;
	slr_part_judge(call, m, 0, false, &room);
	m->held -= change.charge;
	/* under a lowered quota there may be less room than is held: what the front may be spending meanwhile stays held */
	hold.cost = d->engine.call->granted =
		(uint32_t)sl_min(call->want, sl_max(room.remaining, held - change.charge));
	if (!m->cell.counts)
		return SLR_FINE;
	if (hold.cost != 0)
		change.place = &hold;
	m->cell.charged = change.charge != 0 || change.place != NULL;
	failure = slr_counters_fit(d, &at) ? slr_part_plan(call, m, &change) : SLR_TOO_MANY_COUNTERS;
	if (failure == SLR_NO_ROOM || failure == SLR_TOO_MANY_COUNTERS) {
		d->engine.call->granted = 0; /* no slice of a counter that can't be made */
		*shortage = slr_shortage_of(call, m, failure);
		return SLR_FINE;
	}
	if (failure == SLR_TOO_MANY_HOLDS) { /* no slice, then: what was spent is charged */
		d->engine.call->granted = 0;
		change.place = NULL;
		m->cell.charged = change.charge != 0;
		failure = slr_part_plan(call, m, &change);
	}
	if (failure != SLR_FINE || (!m->cell.charged && m->own < 0))
		return failure;
	*m->cell.decision = room; /* how long the key is kept is worked out anew below */
	slr_part_commit(call, m, &change);
	return SLR_FINE;
}

/* Of a key that is unlimited for now all is granted, and nothing held; what was spent of a slice before is charged. */
static enum slr_failure take_freely(struct slr_deciding *d, struct sl_shortage *shortage) {
	struct slr_part *m = &d->parts[0];
	uint32_t want = d->call->want;
	enum slr_failure failure;
	d->call->want = 0;
	failure = take(d, shortage);
	d->call->want = want;
	if (failure != SLR_FINE)
		return failure;
	if (m->key->changed) {
		slr_part_reload(d->call, m);
		slr_part_judge(d->call, m, 1, false, m->cell.decision);
		slr_part_keep(d->call, m);
	}
	*shortage = (struct sl_shortage){.bound = SLUICE_BOUND_NONE};
	d->engine.call->granted = want;
	sl_cell_take_own(&m->cell, SLUICE_CHARGE, &m->key_rule);
	return SLR_FINE;
}

enum slr_failure slr_take_slice(struct slr_deciding *d) {
	struct slr_part *m = &d->parts[0];
	struct sl_shortage shortage = {.bound = SLUICE_BOUND_NONE};
	enum slr_failure failure = m->free ? take_freely(d, &shortage) : take(d, &shortage);
	if (failure != SLR_FINE)
		return failure;
	slr_part_reload(d->call, m);
	slr_part_judge(d->call, m, 1, false, m->cell.decision);
	if (m->key->changed && m->cell.counts)
		slr_part_keep(d->call, m);
	if (shortage.bound != SLUICE_BOUND_NONE)
		sl_decide_bound(m->cell.decision, shortage.bound, shortage.wait_ns);
	sl_answer(&d->engine);
	return SLR_FINE;
}
