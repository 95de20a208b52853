/* Deciding a call: load the counters of all its limits, decide each as if all were charged, then change all or none.
 *
 *   load     each limit's counter out of its key's value, brought up to its clock in an image beside it
 *   decide   on the images, as if all will be charged
 *   plan     if all enforced limits admit: is there room for every change?
 *   commit   in place, which can't fail
 *
 * Redis decides one command at a time, so nothing is locked.
 *
 * I1  Limits that meet in one counter (one key, one identity) are each decided on it as it was, and charge it once.
 * I2  Observed limits are decided like the others, never deny, and are charged only where they would have admitted;
 *     those that are tried are charged through others only.
 * I3  Before the first commit nothing has been changed, and after it nothing fails.
 * I4  The hold with a call's id is left out of account in deciding that call, and goes when it is allowed; but a hold
 *     of nothing holds nothing, and leaves it. */
#include "hosts/redis/decide.h"

#include "algo/merge.h"
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/member.h"

struct deciding {
	struct slr_call *call;
	struct slr_member members[SLUICE_ITEMS_MAX];
	uint32_t counts_before[SLUICE_ITEMS_MAX]; /* of each key */
};

/* ---- members ----------------------------------------------------------------------------------------------------- */

static uint8_t leader_of(const struct slr_member *members, uint32_t i) {
	uint32_t first = 0;
	while (first < i && !(members[first].counts && members[i].counts && members[first].key == members[i].key &&
	                      slr_identity_equal(members[first].identity, members[i].identity)))
		first++;
	return (uint8_t)first;
}

static void set_up(struct deciding *d) {
	struct slr_call *call = d->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		const struct slr_item *item = &call->items[i];
		m->limit = &item->limit;
		m->key = &call->keys[item->key];
		m->decision = &call->each[i];
		m->identity = slr_identity_of(m->limit);
		m->counts = m->limit->algorithm != SLUICE_UNLIMITED;
		m->observed = item->watched != 0;
		m->tried = item->watched == SLUICE_TRIED;
		m->charged = false;
		m->image.own = NULL;
		m->leader = leader_of(d->members, i);
	}
}

static bool load_all(struct deciding *d) {
	bool skip_own = d->call->operation >= SLR_HOLD, whole = true;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		whole = slr_member_load(d->call, &d->members[i], skip_own) && whole;
	return whole;
}

/* The member as it is after the commits of a call. That its leases are charged already is sure. */
static void reload(const struct slr_call *call, struct slr_member *m) {
	bool whole;
	slr_member_drop(m);
	whole = slr_member_load(call, m, false);
	SL_ASSERT(whole);
}

/* ---- check, peek, hold, confirm ---------------------------------------------------------------------------------- */

/* Marks the members that charge a counter, one for each: the first of those that share it which may. */
static void choose_chargers(struct deciding *d, bool chosen[SLUICE_ITEMS_MAX]) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		m->charged = m->counts && m->decision->allowed && !m->tried && !chosen[m->leader];
		chosen[m->leader] = chosen[m->leader] || m->charged;
	}
}

/* Counters that a call would make must find room in their values. */
static enum slr_failure plan_counters(const struct deciding *d) {
	uint32_t more[SLUICE_ITEMS_MAX] = {0};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct slr_member *m = &d->members[i];
		if (m->charged && !m->there)
			more[m->key - d->call->keys]++;
	}
	for (uint32_t k = 0; k < d->call->key_count; k++)
		if (more[k] != 0 && slr_value_count(d->call->keys[k].value) + more[k] > SLR_COUNTERS_MAX)
			return SLR_TOO_MANY_COUNTERS;
	return SLR_FINE;
}

static enum slr_failure plan_all(struct deciding *d, const struct slr_change *change) {
	enum slr_failure failure = plan_counters(d);
	for (uint32_t i = 0; i < d->call->item_count && failure == SLR_FINE; i++)
		if (d->members[i].charged)
			failure = slr_member_plan(d->call, &d->members[i], change);
	return failure;
}

/* A call that is allowed lets go of its hold also where it charges nothing. */
static void drop_holds(struct deciding *d, const bool chosen[SLUICE_ITEMS_MAX]) {
	static const struct slr_change drop = {.drop_own = true};
	bool dropped[SLUICE_ITEMS_MAX] = {false};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (m->own < 0 || chosen[m->leader] || dropped[m->leader])
			continue;
		slr_member_commit(d->call, m, &drop);
		dropped[m->leader] = true;
	}
}

/* Members whose counter has changed under their figures: another one has charged it, or none has though one was tried.
 * Those that were allowed have the figures of after the charge already. */
static void look_again(struct deciding *d, const bool chosen[SLUICE_ITEMS_MAX]) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		bool others = chosen[m->leader] && !m->charged && !m->decision->allowed;
		bool tried = m->tried && m->counts && !chosen[m->leader];
		if (!others && !tried)
			continue;
		if (m->key->changed)
			reload(d->call, m);
		slr_member_decide(d->call, m, d->call->cost, false, m->decision);
	}
}

static enum slr_failure take(struct deciding *d) {
	const struct slr_call *call = d->call;
	struct slr_hold hold = {.id = call->id, .cost = call->cost};
	struct slr_change change = {.charge = call->cost, .drop_own = call->operation >= SLR_HOLD};
	bool chosen[SLUICE_ITEMS_MAX] = {false};
	enum slr_failure failure;
	if (call->cost != 0)
		choose_chargers(d, chosen);
	if (call->operation == SLR_HOLD) {
		change.charge = 0;
		change.place = &hold;
	}
	failure = plan_all(d, &change);
	if (failure != SLR_FINE)
		return failure;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		hold.end = m->clock + call->ttl_ns;
		if (m->charged)
			slr_member_commit(call, m, &change);
	}
	if (call->operation != SLR_CHECK)
		drop_holds(d, chosen);
	if (call->cost != 0)
		look_again(d, chosen);
	return SLR_FINE;
}

/* The figures of a call that has changed nothing, so that its own hold is where it was: whether it is allowed was
 * decided without that, the rest is what anybody finds. */
static void look_unchanged(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision before = *m->decision;
	if (m->own < 0) {
		if (before.allowed)
			slr_member_decide(call, m, call->cost, false, m->decision);
		return;
	}
	reload(call, m);
	slr_member_decide(call, m, before.allowed ? 0 : call->cost, false, m->decision);
	m->decision->delay_ns = before.delay_ns;
}

static enum slr_failure decide_members(struct deciding *d) {
	const struct slr_call *call = d->call;
	bool charge = call->operation != SLR_PEEK, allowed = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		slr_member_decide(call, m, call->cost, charge, m->decision);
		allowed = allowed && (m->decision->allowed || m->observed);
	}
	if (!charge || (call->cost == 0 && call->operation == SLR_CHECK))
		return SLR_FINE;
	if (allowed && (call->cost != 0 || call->operation != SLR_HOLD))
		return take(d);
	for (uint32_t i = 0; i < call->item_count; i++)
		look_unchanged(call, &d->members[i]);
	return SLR_FINE;
}

/* ---- refund, reset, cancel --------------------------------------------------------------------------------------- */

static void refund_members(struct deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].counts && d->members[i].leader == i)
			slr_member_refund(d->call, &d->members[i], d->call->cost);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		reload(d->call, &d->members[i]);
		slr_member_decide(d->call, &d->members[i], 0, false, d->members[i].decision);
	}
}

static void reset_members(struct deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].counts && d->members[i].leader == i)
			d->call->forgotten += slr_member_reset(d->call, &d->members[i]);
}

static void cancel_members(struct deciding *d) {
	static const struct slr_change drop = {.drop_own = true};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (m->leader != i || m->own < 0)
			continue;
		slr_member_decide(d->call, m, 0, false, m->decision);
		slr_member_commit(d->call, m, &drop);
		d->call->forgotten++;
	}
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

/* Charges what was spent of the old lease, and holds anew what there is room for. */
static enum slr_failure lease(struct deciding *d) {
	struct slr_call *call = d->call;
	struct slr_member *m = &d->members[0];
	uint32_t held = m->own >= 0 ? m->holds->list[m->own].cost : 0;
	struct slr_hold hold = {.id = call->id, .end = m->clock + call->ttl_ns, .lease = 1};
	struct slr_change change = {
		.charge = call->spent < held ? call->spent : held, .forced = true, .drop_own = true, .place = NULL};
	struct sluice_decision room;
	enum slr_failure failure;
	/* what will have been charged is held against it here: both take as much of the room */
	m->held += change.charge;
	slr_member_decide(call, m, 0, false, &room);
	m->held -= change.charge;
	hold.cost = call->granted = (uint32_t)sl_min(call->want, room.remaining);
	if (!m->counts)
		return SLR_FINE;
	if (hold.cost != 0)
		change.place = &hold;
	m->charged = change.charge != 0 || change.place != NULL;
	failure = plan_counters(d);
	if (failure == SLR_FINE)
		failure = slr_member_plan(call, m, &change);
	if (failure != SLR_FINE || (!m->charged && m->own < 0))
		return failure;
	*m->decision = room; /* how long the key is kept is worked out anew below */
	slr_member_commit(call, m, &change);
	return SLR_FINE;
}

static enum slr_failure decide_lease(struct deciding *d) {
	struct slr_call *call = d->call;
	struct slr_member *m = &d->members[0];
	enum slr_failure failure = lease(d);
	if (failure != SLR_FINE)
		return failure;
	reload(call, m);
	slr_member_decide(call, m, 1, false, m->decision);
	if (m->key->changed)
		slr_member_keep(call, m);
	return SLR_FINE;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static enum slr_failure run(struct deciding *d) {
	switch (d->call->operation) {
	case SLR_REFUND:
		refund_members(d);
		return SLR_FINE;
	case SLR_RESET:
		reset_members(d);
		return SLR_FINE;
	case SLR_CANCEL:
		cancel_members(d);
		return SLR_FINE;
	case SLR_LEASE:
		return decide_lease(d);
	default:
		return decide_members(d);
	}
}

static void answer(struct deciding *d) {
	struct slr_call *call = d->call;
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		call->each[i].index = (int32_t)i;
		if (d->members[i].counts && !d->members[i].observed)
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
}

/* The waits until each limit's remaining grows, of counters as the call has left them. */
static void fill_next(struct deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (m->key->changed)
			reload(d->call, m);
		slr_member_next(d->call, m);
	}
}

enum slr_failure slr_decide(struct slr_call *call) {
	struct deciding d;
	enum slr_failure failure = SLR_LOG_TOO_LONG;
	d.call = call;
	call->forgotten = call->granted = 0;
	SL_DEBUG_ASSERT(call->item_count <= SLUICE_ITEMS_MAX && call->key_count <= SLUICE_ITEMS_MAX);
	for (uint32_t k = 0; k < call->key_count; k++) {
		call->keys[k].changed = false;
		call->keys[k].expire_ms = call->keys[k].wall_ms = 0;
		call->keys[k].notes.bytes.len = 0;
		d.counts_before[k] = slr_value_count(call->keys[k].value);
	}
	set_up(&d);
	if (load_all(&d))
		failure = run(&d);
	if (failure == SLR_FINE && call->operation != SLR_RESET && call->operation != SLR_CANCEL) {
		if (call->want_next)
			fill_next(&d);
		answer(&d);
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		slr_member_drop(&d.members[i]);
	for (uint32_t k = 0; k < call->key_count; k++)
		slr_key_settle(call, &call->keys[k], d.counts_before[k]);
	return failure;
}
