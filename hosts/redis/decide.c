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
 *     of nothing holds nothing, and leaves it. Where the call keeps, only what is charged goes from it, and no figure
 *     counts the rest. */
#include "hosts/redis/decide.h"

#include "algo/merge.h"
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/member.h"

/* ---- members ----------------------------------------------------------------------------------------------------- */

static uint8_t leader_of(const struct slr_member *members, uint32_t i) {
	uint32_t first = 0;
	while (first < i && !(members[first].counts && members[i].counts && members[first].key == members[i].key &&
	                      slr_identity_equal(members[first].identity, members[i].identity)))
		first++;
	return (uint8_t)first;
}

/* Whose lease, or which member, an item asks for. */
static uint64_t who_of(const struct slr_call *call, const struct slr_item *item) {
	if (item->limit.algorithm == SLUICE_DISTINCT)
		return item->member;
	if (item->limit.algorithm != SLUICE_CONCURRENCY)
		return 0;
	return call->operation == SLR_ACQUIRE || call->operation == SLR_RELEASE || call->operation == SLR_RENEW ? call->id
	                                                                                                        : 0;
}

static sluice_ns ttl_of(const struct slr_call *call, const struct slr_item *item) {
	if (item->watched == SLUICE_TRIED || item->limit.algorithm >= SLUICE_CONCURRENCY)
		return 0;
	if (call->operation == SLR_RESERVE)
		return item->ttl_ns != 0 ? item->ttl_ns : call->ttl_ns;
	return call->operation == SLR_ACQUIRE ? item->ttl_ns : 0;
}

/* Strikes are looked at only where there are penalties. */
static void set_up_terms(struct slr_deciding *d, uint32_t i) {
	struct slr_member *m = &d->members[i];
	static struct sl_strikes strikes[SLUICE_ITEMS_MAX];
	m->terms = &d->call->items[i].terms;
	d->has_terms = true;
	if (m->terms->penalty_count != 0 && m->counts)
		m->strikes = &strikes[i];
}

/* What any member has: that of a plain call has no more. */
static inline void set_up_member(struct slr_call *call, struct slr_member *m, uint32_t i) {
	const struct slr_item *item = &call->items[i];
	m->limit = &item->limit;
	m->key = &call->keys[item->key];
	m->decision = &call->each[i];
	m->identity = slr_identity_of(m->limit);
	m->counts = m->limit->algorithm != SLUICE_UNLIMITED;
	m->image.own = NULL;
	m->who = 0;
	m->ttl_ns = 0;
	m->strikes = NULL;
	m->bound = SLUICE_BOUND_NONE;
}

static void set_up(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		const struct slr_item *item = &call->items[i];
		set_up_member(call, m, i);
		m->observed = item->watched != 0;
		m->tried = item->watched == SLUICE_TRIED;
		m->charged = m->reserves = m->kept = false;
		m->cost = item->cost != 0 ? item->cost : call->cost;
		if (m->limit->algorithm >= SLUICE_CONCURRENCY)
			m->who = who_of(call, item);
		if (call->operation >= SLR_ACQUIRE)
			m->ttl_ns = ttl_of(call, item);
		m->terms = NULL;
		if (item->has_terms)
			set_up_terms(d, i);
		m->leader = leader_of(d->members, i);
	}
}

static bool load_all(struct slr_deciding *d) {
	bool skip_own = slr_holds_by(d->call->operation) || d->call->keep, whole = true;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		whole = slr_member_load(d->call, &d->members[i], skip_own) && whole;
	return whole;
}

void slr_member_reload(const struct slr_call *call, struct slr_member *m) {
	bool whole;
	slr_member_drop(m);
	whole = slr_member_load(call, m, call->keep);
	SL_ASSERT(whole);
}

/* ---- check, peek, hold, confirm, acquire, reserve ---------------------------------------------------------------- */

/* Marks the members that charge a counter, one for each: the first of those that share it which may. */
static void choose_chargers(struct slr_deciding *d, bool chosen[SLUICE_ITEMS_MAX]) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		m->charged = m->counts && m->decision->allowed && !m->tried && m->cost != 0 && !chosen[m->leader];
		chosen[m->leader] = chosen[m->leader] || m->charged;
	}
}

/* Counters that a call would make must find room in their values. Else `*at` is a member that would make one. */
static enum slr_failure plan_counters(const struct slr_deciding *d, uint32_t *at) {
	uint32_t more[SLUICE_ITEMS_MAX] = {0};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct slr_member *m = &d->members[i];
		if (m->charged && !m->there)
			more[m->key - d->call->keys]++;
		if (m->charged && m->ttl_ns != 0 && m->ledger.count == 0)
			more[m->key - d->call->keys]++;
	}
	if (d->call->token != 0 && slr_token_key(d) != NULL)
		more[slr_token_key(d) - d->call->keys]++;
	for (*at = 0; *at < d->call->item_count; ++*at) {
		const struct slr_member *m = &d->members[*at];
		size_t k = (size_t)(m->key - d->call->keys);
		if (m->charged && (!m->there || m->ttl_ns != 0) && more[k] != 0 &&
		    slr_value_count(m->key->value) + more[k] > SLR_COUNTERS_MAX)
			return SLR_TOO_MANY_COUNTERS;
	}
	return SLR_FINE;
}

/* Whether all that are charged find room; else `*at` is the first that does not. */
static enum slr_failure plan_all(struct slr_deciding *d, struct slr_change *change, uint32_t *at) {
	enum slr_failure failure = plan_counters(d, at);
	for (uint32_t i = 0; i < d->call->item_count && failure == SLR_FINE; i++) {
		*at = i;
		change->charge = d->call->operation == SLR_HOLD ? 0 : d->members[i].cost;
		if (d->members[i].charged)
			failure = slr_member_plan(d->call, &d->members[i], change);
	}
	return failure;
}

/* A charge that is allowed lets go of its hold also where it charges nothing. A HOLD replaces what it holds anew. */
static void drop_holds(struct slr_deciding *d, const bool chosen[SLUICE_ITEMS_MAX]) {
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

/* The figures behind a charge, which what is reserved will still change. */
static void look_behind(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision before = *m->decision;
	slr_member_decide(call, m, before.allowed ? 0 : m->cost, false, m->decision);
	m->decision->allowed = before.allowed;
	m->decision->delay_ns = before.delay_ns;
}

/* Whether a member that was allowed has other figures than those behind the charge of its group: that was of another
 * cost, or at another rate, or is reserved. */
static bool was_charged_otherwise(const struct slr_deciding *d, const struct slr_member *m) {
	uint32_t i = m->leader;
	while (!d->members[i].charged || d->members[i].leader != m->leader)
		i++;
	return d->members[i].cost != m->cost || d->members[i].reserves || d->members[i].limit->quota != m->limit->quota;
}

/* Members whose counter has changed under their figures: another one has charged it, or none has though one was tried.
 * Those that were allowed have the figures of after the charge already, but where that was of another cost, or there
 * are reservations. */
static void look_again(struct slr_deciding *d, const bool chosen[SLUICE_ITEMS_MAX]) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		bool others = chosen[m->leader] && !m->charged && !m->decision->allowed;
		bool tried = m->tried && m->counts && !chosen[m->leader];
		bool less = chosen[m->leader] && !m->charged && was_charged_otherwise(d, m);
		if (!others && !tried && !less && !m->reserves)
			continue;
		if (m->key->changed)
			slr_member_reload(d->call, m);
		if (tried)
			slr_member_decide(d->call, m, m->cost, false, m->decision);
		else
			look_behind(d->call, m);
	}
}

/* Charges a member, or places its hold. */
static void take_one(const struct slr_call *call, struct slr_member *m, const struct slr_change *change) {
	slr_member_commit(call, m, change);
	if (m->ttl_ns != 0)
		slr_member_reserve(call, m);
}

/* Charges, holds or reserves what was decided; else `*at` is a member that finds no room for it, and nothing has been
 * done. */
static enum slr_failure take(struct slr_deciding *d, uint32_t *at) {
	const struct slr_call *call = d->call;
	struct slr_hold hold = {.id = call->id};
	struct slr_change change = {.drop_own = slr_holds_by(call->operation), .keep_own = call->keep};
	bool chosen[SLUICE_ITEMS_MAX] = {false};
	enum slr_failure failure;
	choose_chargers(d, chosen);
	if (call->operation == SLR_HOLD)
		change.place = &hold;
	failure = plan_all(d, &change, at);
	if (failure != SLR_FINE)
		return failure;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		hold.end = m->clock + call->ttl_ns;
		hold.cost = m->cost;
		change.charge = call->operation == SLR_HOLD ? 0 : m->cost;
		m->reserves = m->ttl_ns != 0 || m->ledger.count != 0 || m->strikes != NULL;
		if (m->charged)
			take_one(call, m, &change);
	}
	if (slr_holds_by(call->operation) && call->operation != SLR_HOLD && !call->keep)
		drop_holds(d, chosen);
	if (call->item_count > 1 || d->members[0].reserves || d->members[0].tried)
		look_again(d, chosen);
	if (call->token != 0)
		slr_remember(d);
	return SLR_FINE;
}

/* The figures of a call that has changed nothing, so that its own hold is where it was: whether it is allowed was
 * decided without that, the rest is what anybody finds. */
static void look_unchanged(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision before = *m->decision;
	if (m->own < 0 || call->keep) {
		if (before.allowed)
			slr_member_decide(call, m, m->cost, false, m->decision);
		return;
	}
	slr_member_reload(call, m);
	slr_member_decide(call, m, before.allowed ? 0 : m->cost, false, m->decision);
	m->decision->delay_ns = before.delay_ns;
}

static void look_all_unchanged(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		look_unchanged(d->call, &d->members[i]);
}

/* Takes a call that is allowed, unless an enforced limit finds no room for it: then it is *allowed no more. What only
 * observed limits find no room for is taken without them. */
static enum slr_failure take_or_deny(struct slr_deciding *d, bool *allowed) {
	uint32_t at = 0;
	enum slr_failure failure = take(d, &at);
	for (; failure != SLR_FINE && failure != SLR_TOO_MANY_HOLDS; failure = take(d, &at)) {
		if (!slr_deny(d, at, failure))
			continue;
		*allowed = false;
		d->call->granted = 0;
		look_all_unchanged(d);
		return SLR_FINE;
	}
	return failure;
}

static bool decide_all(struct slr_deciding *d, bool charge) {
	bool allowed = true;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		slr_member_decide(d->call, m, m->cost, charge, m->decision);
		m->strikes_out = m->strikes != NULL && !m->tried && m->denied && !m->shut;
		allowed = allowed && (m->decision->allowed || m->observed);
	}
	return allowed;
}

/* The largest part of the cost that all enforced limits admit becomes what is asked of them; 1 where that is none. */
static uint32_t take_part(struct slr_deciding *d) {
	uint32_t part = d->call->cost;
	(void)decide_all(d, false);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct slr_member *m = &d->members[i];
		if (!m->observed && m->counts && !m->decision->allowed)
			part = (uint32_t)sl_min(part, m->decision->remaining);
	}
	part = (uint32_t)sl_max(part, 1);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].cost != 0)
			d->members[i].cost = part;
	return part;
}

/* What is held already is not charged again. */
static void spare_kept(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].kept)
			d->members[i].cost = 0;
}

static bool costs_something(const struct slr_deciding *d) {
	bool costs = false;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		costs = costs || (d->members[i].counts && d->members[i].cost != 0);
	return costs;
}

/* A counter that has no place for one more hold: in a moment it has. */
static void deny_for_places(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		look_unchanged(d->call, m);
		if (!m->charged || slr_member_has_place(m))
			continue;
		m->decision->allowed = false;
		m->decision->bound = SLUICE_BOUND_HOLDS;
		m->decision->retry_after_ns = SL_MS_NS;
		m->decision->delay_ns = 0;
		d->call->found = UINT32_MAX;
	}
	d->call->granted = 0;
}

/* What others hold of the enforced limits' counters, for a while only. */
static void look_elsewhere(struct slr_deciding *d) {
	uint64_t most = 0;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (!d->members[i].observed)
			most = sl_max(most, d->members[i].held - d->members[i].leased);
	d->call->found = (uint32_t)sl_min(most, UINT32_MAX);
}

static enum slr_failure decide_members(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	bool charge = call->operation != SLR_PEEK, allowed;
	enum slr_failure failure = SLR_FINE;
	uint32_t part = call->cost;
	if (call->operation >= SLR_ACQUIRE) {
		if (slr_is_held(d)) {
			slr_answer_again(d, 0);
			return SLR_FINE;
		}
		spare_kept(d);
	}
	if (call->operation == SLR_HOLD && call->upto)
		look_elsewhere(d);
	if (call->upto && call->cost != 0)
		part = take_part(d);
	allowed = decide_all(d, charge);
	if (!charge)
		allowed = slr_find_room(d) && allowed;
	call->granted = allowed ? part : 0;
	if (!charge || (call->cost == 0 && !slr_holds_by(call->operation) && !costs_something(d)))
		return SLR_FINE;
	if (allowed && (call->cost != 0 || call->operation != SLR_HOLD))
		failure = take_or_deny(d, &allowed);
	else
		look_all_unchanged(d);
	if (failure == SLR_TOO_MANY_HOLDS) {
		deny_for_places(d);
		failure = SLR_FINE;
	}
	if (failure == SLR_FINE && d->has_terms)
		slr_note_denials(d, allowed);
	slr_tell_bounds(d);
	return failure;
}

/* A request that was charged before is answered from what is remembered. */
static enum slr_failure decide_named(struct slr_deciding *d) {
	const struct slr_token *token = slr_retry_of(d);
	sluice_ns passed;
	if (token == NULL)
		return decide_members(d);
	passed = d->call->now > token->at ? d->call->now - token->at : 0;
	slr_answer_again(d, token->delay - sl_min(token->delay, passed));
	d->call->granted = token->granted;
	return SLR_FINE;
}

/* ---- refund, reset, cancel --------------------------------------------------------------------------------------- */

static void refund_members(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].counts && d->members[i].leader == i)
			slr_member_refund(d->call, &d->members[i], d->call->cost);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		slr_member_reload(d->call, &d->members[i]);
		slr_member_decide(d->call, &d->members[i], 0, false, d->members[i].decision);
	}
}

static void reset_members(struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].counts && d->members[i].leader == i)
			d->call->forgotten += slr_member_reset(d->call, &d->members[i]);
}

static void cancel_members(struct slr_deciding *d) {
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
static enum slr_failure lease(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	struct slr_member *m = &d->members[0];
	uint32_t held = m->own >= 0 ? m->holds->list[m->own].cost : 0;
	struct slr_hold hold = {.id = call->id, .end = m->clock + call->ttl_ns, .lease = 1};
	struct slr_change change = {
		.charge = call->spent < held ? call->spent : held, .forced = true, .drop_own = true, .place = NULL};
	struct sluice_decision room;
	enum slr_failure failure;
	uint32_t at;
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
	failure = plan_counters(d, &at);
	if (failure == SLR_FINE)
		failure = slr_member_plan(call, m, &change);
	if (failure == SLR_NO_ROOM || failure == SLR_TOO_MANY_COUNTERS) {
		call->granted = 0; /* no slice of a counter that can't be made */
		slr_deny(d, 0, failure);
		return SLR_FINE;
	}
	if (failure == SLR_TOO_MANY_HOLDS) { /* no slice, then: what was spent is charged */
		call->granted = 0;
		change.place = NULL;
		m->charged = change.charge != 0;
		failure = slr_member_plan(call, m, &change);
	}
	if (failure != SLR_FINE || (!m->charged && m->own < 0))
		return failure;
	*m->decision = room; /* how long the key is kept is worked out anew below */
	slr_member_commit(call, m, &change);
	return SLR_FINE;
}

static enum slr_failure decide_lease(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	struct slr_member *m = &d->members[0];
	enum slr_failure failure = lease(d);
	if (failure != SLR_FINE)
		return failure;
	slr_member_reload(call, m);
	slr_member_decide(call, m, 1, false, m->decision);
	if (m->key->changed)
		slr_member_keep(call, m);
	slr_tell_bounds(d);
	return SLR_FINE;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static enum slr_failure run(struct slr_deciding *d) {
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
	case SLR_RELEASE:
	case SLR_RENEW:
		slr_end_leases(d);
		return SLR_FINE;
	case SLR_COMMIT:
		slr_commit_members(d);
		return SLR_FINE;
	default:
		return d->call->token != 0 ? decide_named(d) : decide_members(d);
	}
}

static void answer(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		call->each[i].index = (int32_t)i;
		if (d->members[i].counts && !d->members[i].observed)
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
}

/* The wait until a limit's remaining grows, of its counter as the call has left it. */
static void fill_next(const struct slr_call *call, struct slr_member *m) {
	if (m->key->changed)
		slr_member_reload(call, m);
	slr_member_next(call, m);
}

static inline void begin(struct slr_call *call) {
	call->forgotten = call->granted = call->found = 0;
	call->repeated = false;
}

/* How many counters it has. */
static inline uint32_t begin_key(struct slr_key *key) {
	key->changed = false;
	key->expire_ms = key->wall_ms = 0;
	key->notes.bytes.len = 0;
	return slr_value_count(key->value);
}

static enum slr_failure decide_any(struct slr_call *call) {
	struct slr_deciding d;
	enum slr_failure failure = SLR_LOG_TOO_LONG;
	d.call = call;
	d.has_terms = false;
	begin(call);
	SL_DEBUG_ASSERT(call->item_count <= SLUICE_ITEMS_MAX && call->key_count <= SLUICE_ITEMS_MAX);
	for (uint32_t k = 0; k < call->key_count; k++)
		d.counts_before[k] = begin_key(&call->keys[k]);
	set_up(&d);
	if (load_all(&d))
		failure = run(&d);
	if (failure == SLR_FINE && call->operation != SLR_RESET && call->operation != SLR_CANCEL) {
		for (uint32_t i = 0; call->want_next && i < call->item_count; i++)
			fill_next(call, &d.members[i]);
		answer(&d);
	}
	for (uint32_t i = 0; i < call->item_count; i++)
		slr_member_drop(&d.members[i]);
	for (uint32_t k = 0; k < call->key_count; k++)
		slr_key_settle(call, &call->keys[k], d.counts_before[k]);
	return failure;
}

/* ---- a plain call ------------------------------------------------------------------------------------------------ */

/* Whether a call is what most are: a check of one enforced limit that counts requests, with nothing said beside it and
 * nothing standing beside its counter. Then there is nobody to agree with, and nothing to look at again. */
static inline bool is_plain(const struct slr_call *call) {
	const struct slr_item *item = &call->items[0];
	const uint64_t beside = (call->item_count ^ 1) | (call->key_count ^ 1) | (uint64_t)(call->operation ^ SLR_CHECK) |
	                        call->token | call->upto | item->key | item->watched | item->has_terms | item->cost |
	                        ((item->limit.algorithm - 1u) / (SLUICE_CONCURRENCY - 1));
	slr_value value = call->keys[0].value;
	return beside == 0 && (slr_value_is_packed(value) || !slr_value_has_sides(value));
}

static enum slr_failure charge_alone(const struct slr_call *call, struct slr_member *m, uint32_t count) {
	const struct slr_change change = {.charge = call->cost};
	enum slr_failure failure;
	m->cost = call->cost;
	failure = !m->there && count >= SLR_COUNTERS_MAX ? SLR_TOO_MANY_COUNTERS : slr_member_plan(call, m, &change);
	if (failure == SLR_FINE)
		slr_member_commit(call, m, &change);
	return failure;
}

/* The figures of a call that finds no room to be charged. */
static __attribute__((noinline)) void deny_alone(struct slr_call *call, struct slr_member *m,
                                                 enum slr_failure failure) {
	slr_meet_bound(call, m, failure);
	slr_member_decide(call, m, call->cost, false, m->decision);
	sl_decide_bound(m->decision, m->bound, m->bound_ns);
}

static enum slr_failure decide_alone(struct slr_call *call) {
	struct slr_member m;
	struct sluice_decision merged = sl_merge_nothing();
	enum slr_failure failure = SLR_LOG_TOO_LONG;
	uint32_t count = begin_key(&call->keys[0]);
	begin(call);
	set_up_member(call, &m, 0);
	if (slr_member_load(call, &m, false)) {
		slr_member_decide(call, &m, call->cost, true, m.decision);
		failure = m.decision->allowed && call->cost != 0 ? charge_alone(call, &m, count) : SLR_FINE;
		if (failure != SLR_FINE)
			deny_alone(call, &m, failure);
		failure = SLR_FINE;
	}
	if (failure == SLR_FINE) {
		call->granted = m.decision->allowed ? call->cost : 0;
		if (call->want_next)
			fill_next(call, &m);
		m.decision->index = 0;
		sl_merge_add(&merged, m.decision, 0);
		call->merged = merged;
	}
	slr_member_drop(&m);
	slr_key_settle(call, &call->keys[0], count);
	return failure;
}

enum slr_failure slr_decide(struct slr_call *call) {
	return __builtin_expect(is_plain(call), 1) ? decide_alone(call) : decide_any(call);
}
