/* Changing a value: plan, which may find no room, then commit, which can't fail.
 *
 * With every change a counter is also brought up to its clock: holds that have ended go, leases among them charged, as
 * loading has worked out already. What changed is noted for replicas where somebody listens.
 *
 * How long the key is to be kept is told in wall time, since Redis expires by it; the instants of a counter are those
 * of a clock that nobody sets. */
#include "algo/seats.h"
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/own_quota.h"
#include "hosts/redis/part.h"

static int64_t wall_of(const struct slr_call *call, struct slr_key *key) {
	if (key->wall_ms == 0)
		key->wall_ms = call->wall_ms();
	return key->wall_ms;
}

/* The wall time of an instant that is so far ahead of the call's. */
static int64_t wall_in(const struct slr_call *call, struct slr_key *key, sluice_ns ahead, sluice_ns more) {
	uint64_t ms = (uint64_t)sl_ns_to_ms_ceil(ahead) + (uint64_t)sl_ns_to_ms_ceil(more);
	/* a damaged state may say anything: 584 years are enough */
	return wall_of(call, key) + call->slack_ms + (int64_t)sl_min(ms, (uint64_t)1 << 44);
}

int64_t slr_wall_in(const struct slr_call *call, struct slr_key *key, sluice_ns ahead) {
	return wall_in(call, key, ahead, SL_MS_NS);
}

/* How long a counter of a quota of 0 may differ from none: as it stands, if no reservation is returned. */
static __attribute__((noinline)) sluice_ns life_of_none(const struct slr_call *call, struct slr_part *m) {
	const struct sluice_limit *limit = m->cell.limit;
	const struct sl_ledger ledger = m->ledger;
	struct sluice_decision left;
	struct sluice_limit wide;
	m->cell.limit = sl_rule_lasting(limit, &wide);
	m->ledger.count = m->returned;
	slr_part_judge(call, m, 0, false, &left);
	m->ledger = ledger;
	m->cell.limit = limit;
	return sl_step_life(limit, &left);
}

/* The wall time at which a counter equals none that is charged as `decision` says, and holds nothing; `end`: of a hold
 * that is being placed, or 0. */
static int64_t until_of(const struct slr_call *call, struct slr_part *m, sluice_ns end) {
	sluice_ns life = m->cell.limit->quota != 0 ? sl_step_life(m->cell.limit, m->cell.decision) : life_of_none(call, m);
	int64_t until_ms = wall_in(call, m->key, m->clock - call->asked.now, life);
	if (m->holds != NULL && m->holds->count > m->ended)
		end = sl_max(end, m->holds->list[m->holds->count - 1].end);
	int64_t end_ms = end <= m->clock ? 0 : wall_in(call, m->key, end - call->asked.now, SL_MS_NS);
	return end_ms > until_ms ? end_ms : until_ms;
}

/* Whether the expiry that a key has is that of its one window still: the charge before fell into the same window. What
 * a packed counter may become meanwhile has no expiry of its own that would have to be known. Where the key has none
 * any more (PERSIST, RESTORE), it gets one with the next window: to look for that would cost each charge 210
 * instructions, and the cache misses of one more table. */
static bool keeps_expiry(const struct slr_part *m) {
	return m->packed && slr_value_is_packed(m->key->value) &&
	       sl_window_keeps_end(m->cell.limit, &m->state, m->clock, m->cell.decision->reset_after_ns);
}

/* How much longer than it has to a key may live for a counter that was charged: the end of all but windows, which end
 * where they did, moves with each charge, and so its expiry needs to move 16 times a window at most. */
static int64_t spare_of(const struct slr_part *m) {
	return sl_rule_has(m->cell.limit, SL_HAS_WINDOWS) ? 0 : (int64_t)(m->cell.limit->window_ns / 16 / SL_MS_NS);
}

/* Until when the key is kept anyhow, for another of its counters, as far as is known. */
static int64_t kept_until(const struct slr_key *key) {
	int64_t latest = 0;
	uint32_t count = slr_value_is_packed(key->value) ? 0 : slr_value_count(key->value);
	for (uint32_t i = 0; i < count; i++) {
		int64_t until_ms = slr_value_until(key->value, i);
		if (until_ms > latest && until_ms != SLR_UNTIL_UNKNOWN)
			latest = until_ms;
	}
	return latest;
}

void slr_key_changed(struct slr_key *key, int64_t until_ms) {
	key->changed = true;
	if (until_ms > key->expire_ms)
		key->expire_ms = until_ms;
}

static void changed(struct slr_part *m, int64_t until_ms) {
	slr_key_changed(m->key, until_ms);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Whether the image has been charged by deciding it, at this instant and with nothing held against it. */
static bool is_stepped(const struct slr_part *m, const struct slr_change *change) {
	return !change->forced && !change->counted && m->held == 0;
}

/* The limit under which a change charges. */
static struct sluice_limit charging_limit(const struct slr_part *m, const struct slr_change *change) {
	return change->forced ? sl_rule_widened(m->cell.limit) : *m->cell.limit;
}

static enum slr_failure fits(const struct sluice_limit *limit, const struct slr_part *m, uint32_t cost) {
	return sl_step_block_bytes(limit, &m->cell.counter, cost) == SL_BLOCK_TOO_LARGE ? SLR_LOG_TOO_LONG : SLR_FINE;
}

/* The holds that are there still, but for the call's own. */
static uint32_t live_of(const struct slr_part *m) {
	return m->holds != NULL ? m->holds->count - m->ended - (uint32_t)(m->own >= 0) : 0;
}

bool slr_part_has_place(const struct slr_part *m) {
	return live_of(m) < SLR_HOLDS_MAX;
}

/* Whether the part's charge, now or when its hold is confirmed, makes its block longer. */
static bool grows(const struct slr_call *call, struct slr_part *m) {
	struct sluice_decision decision;
	m->cell.counter.state = m->state;
	sl_step(m->cell.limit, &m->cell.counter, call->asked.now, m->cell.cost, true, &decision);
	return sl_step_block_bytes(m->cell.limit, &m->cell.counter, m->cell.cost) != 0;
}

/* Whether a change would add to the memory that the server has no more of. */
static bool lacks_memory(const struct slr_call *call, struct slr_part *m) {
	bool asks = call->operation == SL_OP_CHECK || call->operation == SL_OP_HOLD || call->operation == SL_OP_ACQUIRE ||
	            call->operation == SL_OP_RESERVE;
	if (m->cell.there && !(asks && (m->cell.ttl_ns != 0 || sl_rule_has(m->cell.limit, SL_HAS_BLOCK))))
		return false;
	return slr_is_full(call) && (!m->cell.there || m->cell.ttl_ns != 0 || grows(call, m));
}

enum slr_failure slr_part_plan(const struct slr_call *call, struct slr_part *m, const struct slr_change *change) {
	struct sluice_decision decision;
	struct sluice_limit limit;
	if (change->place != NULL && !slr_part_has_place(m))
		return SLR_TOO_MANY_HOLDS;
	if (m->cell.ttl_ns != 0) {
		struct sl_ledger open = slr_part_open(m);
		if (sl_ledger_open(m->cell.limit->algorithm, &open) >= SL_LEDGER_MAX)
			return SLR_TOO_MANY_OPEN;
	}
	if (lacks_memory(call, m))
		return SLR_NO_ROOM;
	if (change->charge == 0 || !sl_rule_has(m->cell.limit, SL_HAS_BLOCK))
		return SLR_FINE;
	if (is_stepped(m, change))
		return fits(m->cell.limit, m, change->charge);
	limit = charging_limit(m, change);
	m->cell.counter.state = m->state;
	sl_step(&limit, &m->cell.counter, call->asked.now, change->charge, true, &decision);
	return fits(&limit, m, change->charge);
}

/* ---- committing -------------------------------------------------------------------------------------------------- */

/* Charges the image; its block, if it is still the value's, in place. *fresh: a block that takes the other's place. */
static void charge(const struct slr_call *call, struct slr_part *m, const struct slr_change *change, void **fresh) {
	struct sl_counter *counter = &m->cell.counter;
	struct sluice_limit limit;
	bool charged;
	*fresh = NULL;
	if (change->charge != 0 && is_stepped(m, change)) {
		charged = sl_copy_write(m->cell.limit, counter, call->asked.now, change->charge, &slr_blocks, fresh);
		SL_ASSERT(charged);
		return;
	}
	counter->state = m->state;
	if (change->charge == 0)
		return;
	if (change->counted) {
		charged = sl_copy_count(m->cell.limit, counter, call->asked.now, change->charge, &slr_blocks, fresh);
		SL_ASSERT(charged || *fresh == NULL); /* a log as long as may be is not made longer by denials */
		return;
	}
	limit = charging_limit(m, change);
	charged = sl_copy_charge(&limit, counter, call->asked.now, change->charge, &slr_blocks, fresh);
	SL_ASSERT(charged || change->forced);
}

/* What was returned from index `from` on until an instant. Returns how many were in all. */
static uint32_t note_returned(struct slr_part *m, uint32_t from, sluice_ns instant) {
	uint32_t ended = (uint32_t)sl_min(sl_ledger_ended(&m->ledger, instant), m->returned), count;
	struct sl_correction *list;
	if (ended <= from)
		return from;
	list = slr_part_returns(m, from, ended, &count);
	if (count != 0)
		slr_effect_correct(&m->key->effects, m->identity, list, count);
	slr_give(list);
	return ended;
}

/* All that has happened to a counter with a block, in the order in which loading has worked it out. `whole`: what this
 * call charges is said by the counter as it is then. */
static void note_charges(const struct slr_call *call, struct slr_part *m, const struct slr_change *change, bool whole) {
	uint32_t returned = 0;
	SL_DEBUG_ASSERT(m->ended == 0 || m->holds != NULL);
	for (uint32_t i = 0; i < m->ended; i++) {
		const struct slr_hold *hold = &m->holds->list[i];
		if (hold->lease == 0)
			continue;
		returned = note_returned(m, returned, hold->end);
		slr_effect_charge(&m->key->effects, m->identity, hold->end, hold->cost);
	}
	note_returned(m, returned, m->clock);
	if (change->correction != NULL)
		slr_effect_correct(&m->key->effects, m->identity, change->correction, 1);
	if (change->charge == 0 || whole)
		return;
	if (change->counted)
		slr_effect_count(&m->key->effects, m->identity, call->asked.now, change->charge, m->cell.limit->quota);
	else if (sl_rule_has(m->cell.limit, SL_HAS_SEATS))
		slr_effect_lend(&m->key->effects, m->identity, call->asked.now, change->charge, m->cell.who);
	else
		slr_effect_charge(&m->key->effects, m->identity, call->asked.now, change->charge);
}

/* Reservations that have ended leave the ledger, with whatever the counter is changed by. */
static void drop_returned(const struct slr_call *call, struct slr_part *m) {
	if (m->returned == 0)
		return;
	slr_ledger_remove(&m->key->value, m->identity, 0, m->returned);
	m->returned = m->ledger.count = 0; /* it is read again where it is looked at again */
	if (call->heard)
		slr_effect_return(&m->key->effects, m->identity, m->clock);
}

/* Writes the holds of a counter as they are to be. Returns whether that changed anything. */
static bool put_holds(struct slr_part *m, struct slr_counter *counter, const struct slr_change *change) {
	struct slr_holds *holds = slr_counter_holds(counter);
	bool own = change->drop_own && m->own >= 0;
	bool part = own && change->keep_own && change->charge < holds->list[m->own].cost, drop = own && !part;
	if (m->ended == 0 && !own && change->place == NULL)
		return false;
	if (part)
		holds->list[m->own].cost -= change->charge;
	if (drop)
		holds = slr_holds_remove(holds, (uint32_t)m->own, 1);
	if (m->ended != 0)
		holds = slr_holds_remove(holds, 0, m->ended);
	if (change->place != NULL)
		holds = slr_holds_add(holds, change->place);
	slr_counter_set_holds(counter, holds);
	return true;
}

static void note_state(struct slr_part *m, const struct sl_state *state) {
	slr_effect_state(&m->key->effects, m->identity, state);
	if (!m->cell.there || state->rate != m->rate)
		slr_effect_rate(&m->key->effects, m->identity, state);
}

static void note_counter(struct slr_part *m, const struct slr_counter *counter, bool holds_changed) {
	if (!sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && !sl_state_is_none(&counter->state))
		note_state(m, &counter->state);
	if (holds_changed)
		slr_effect_holds(&m->key->effects, counter);
}

/* The counter that is left when nothing is charged and no hold is there is none. */
static void forget(const struct slr_call *call, struct slr_part *m) {
	slr_value_remove(&m->key->value, m->identity);
	if (call->heard)
		slr_effect_gone(&m->key->effects, m->identity);
}

/* After a charge that has turned a bucket to another rate: what is open is noted as of now (algo/ledger.h I3). */
static void note_turn(const struct slr_call *call, struct slr_part *m) {
	struct sl_ledger ledger = slr_ledger_of(m->key->value, m->identity);
	struct sl_contents contents;
	struct slr_counter scratch;
	if (ledger.count == 0 || !sl_identity_keeps_rate(m->identity) || m->state.rate == 0 ||
	    m->state.rate == m->cell.limit->quota)
		return;
	contents = slr_contents_of(m->key->value, m->identity);
	for (uint32_t i = 0; i < ledger.count; i++)
		sl_bundle_turn(m->cell.limit, m->state.rate, (struct sl_reservation *)(uintptr_t)&ledger.list[i], m->clock);
	if (call->heard)
		slr_effect_whole(&m->key->effects,
		                 slr_value_find(m->key->value, slr_companion_of(SLR_COMPANION_LEDGER, m->identity), &scratch));
	if (sl_contents_turn(&contents, m->state.rate, m->cell.limit->quota) && call->heard)
		slr_effect_whole(
			&m->key->effects,
			slr_value_find(m->key->value, slr_companion_of(SLR_COMPANION_CONTENTS, m->identity), &scratch));
}

static void commit_in_place(const struct slr_call *call, struct slr_part *m, const struct slr_change *change,
                            int64_t until_ms) {
	struct slr_counter *counter;
	void *fresh;
	bool holds_changed, whole;
	charge(call, m, change, &fresh);
	/* a replica that is told of the charge alone would begin a sketch of as many registers as are usual */
	whole = fresh != NULL && sl_rule_has(m->cell.limit, SL_TAKES_MEMBER) &&
	        sl_seats_have_registers(m->cell.counter.block, m->cell.counter.block_bytes);
	if (call->heard && sl_rule_has(m->cell.limit, SL_HAS_BLOCK))
		note_charges(call, m, change, whole);
	counter = slr_value_open(&m->key->value, m->identity, until_ms);
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK)) {
		if (fresh != NULL || m->image.own != NULL) {
			if (fresh != NULL)
				slr_block_give(m->image.own);
			slr_counter_set_block(counter, m->cell.counter.block, m->cell.counter.block_bytes);
			m->image.own = NULL;
		}
		counter->state.w[0] = m->cell.counter.state.w[0];
		counter->state.w[1] = m->cell.counter.state.w[1] >> 32 << 32 | (uint32_t)counter->state.w[1];
	} else {
		counter->state = m->cell.counter.state;
	}
	holds_changed = put_holds(m, counter, change);
	if (whole && call->heard)
		slr_effect_whole(&m->key->effects, counter);
	if (slr_counter_is_none(counter))
		forget(call, m);
	else if (call->heard)
		note_counter(m, counter, holds_changed);
}

void slr_part_commit(const struct slr_call *call, struct slr_part *m, const struct slr_change *change) {
	sluice_ns end = change->place != NULL ? change->place->end : 0;
	int64_t kept_ms = kept_until(m->key), until_ms = end == 0 && keeps_expiry(m) ? 0 : until_of(call, m, end);
	bool open = m->ledger.count != m->returned;
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK) || m->holds != NULL || change->place != NULL || change->charge == 0 ||
	    change->forced || change->counted) {
		commit_in_place(call, m, change, until_ms);
	} else {
		/* the commonest: the image has been charged by deciding it */
		SL_DEBUG_ASSERT(change->charge != 0);
		slr_value_write(&m->key->value, m->identity, &m->cell.counter.state, until_ms);
		if (call->heard)
			note_state(m, &m->cell.counter.state);
	}
	drop_returned(call, m);
	if (change->charge != 0 && open)
		note_turn(call, m);
	if (until_ms > kept_ms && end == 0)
		m->key->spare_ms = sl_max(m->key->spare_ms, spare_of(m));
	changed(m, until_ms > kept_ms ? until_ms : 0);
}

void slr_part_keep(const struct slr_call *call, struct slr_part *m) {
	int64_t until_ms = until_of(call, m, 0);
	slr_value_keep(m->key->value, m->identity, until_ms);
	changed(m, until_ms);
}

/* ---- giving back, forgetting ------------------------------------------------------------------------------------- */

void slr_part_refund(const struct slr_call *call, struct slr_part *m, uint32_t cost) {
	static const struct slr_change nothing = {.charge = 0};
	struct sl_counter *step = &m->cell.counter;
	struct slr_counter *counter;
	const uint32_t asked = cost;
	bool any, holds_changed, known = slr_refund_is_known(m->cell.limit);
	if (!m->cell.there)
		return;
	step->state = m->state;
	any = sl_step_prepare_refund(m->cell.limit, step, call->asked.now, &cost);
	any = sl_step_refund(m->cell.limit, step, call->asked.now, cost) || any;
	if (!any && m->returned == 0)
		return;
	changed(m, 0);
	if (m->holds == NULL && sl_state_is_none(&step->state)) {
		forget(call, m); /* a charge at the instant 0 */
		return;
	}
	if (!sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && m->holds == NULL) {
		slr_value_write(&m->key->value, m->identity, &step->state, SLR_UNTIL_UNKNOWN);
		if (call->heard)
			note_state(m, &step->state);
		drop_returned(call, m);
		return;
	}
	if (call->heard && known) { /* 200,000 entries are 800 KB: they are not sent again */
		note_charges(call, m, &nothing, false);
		if (asked != 0)
			slr_effect_refund(&m->key->effects, m->identity, call->asked.now, asked);
	}
	counter = slr_value_open(&m->key->value, m->identity, SLR_UNTIL_UNKNOWN);
	if (m->image.own != NULL)
		slr_counter_set_block(counter, m->image.own, step->block_bytes);
	m->image.own = NULL;
	counter->state.w[0] = step->state.w[0];
	counter->state.rate = step->state.rate;
	counter->state.w[1] = sl_rule_has(m->cell.limit, SL_HAS_BLOCK)
	                          ? (step->state.w[1] >> 32 << 32 | (uint32_t)counter->state.w[1])
	                          : step->state.w[1];
	holds_changed = put_holds(m, counter, &nothing);
	if (call->heard) {
		if (sl_rule_has(m->cell.limit, SL_TAKES_MEMBER))
			slr_effect_who(&m->key->effects, SLR_EFFECT_FORGET, m->identity, call->asked.now, m->cell.who);
		else if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && !known)
			slr_effect_whole(&m->key->effects, counter);
		else
			note_counter(m, counter, holds_changed);
	}
	drop_returned(call, m);
}

static bool drop_companion(const struct slr_call *call, struct slr_part *m, enum slr_companion companion) {
	struct sl_identity identity = slr_companion_of(companion, m->identity);
	if (slr_value_is_packed(m->key->value) || !slr_value_remove(&m->key->value, identity))
		return false;
	if (call->heard)
		slr_effect_gone(&m->key->effects, identity);
	return true;
}

bool slr_part_reset(const struct slr_call *call, struct slr_part *m) {
	bool says = m->cell.there && (!sl_state_is_none(&m->state) || (m->holds != NULL && m->holds->count > m->ended));
	bool companions = drop_companion(call, m, SLR_COMPANION_LEDGER);
	companions = drop_companion(call, m, SLR_COMPANION_CONTENTS) || companions;
	companions = drop_companion(call, m, SLR_COMPANION_STRIKES) || companions;
	if (!m->cell.there && !companions)
		return false;
	if (m->cell.there)
		forget(call, m);
	changed(m, 0);
	return says || companions; /* of holds that have ended nothing is left */
}

/* ---- leases, reservations, strikes ------------------------------------------------------------------------------- */

static bool end_lease(const struct slr_call *call, struct slr_part *m, bool renew) {
	struct slr_counter *counter;
	if (!m->cell.there || !sl_rule_has(m->cell.limit, SL_TAKES_LEASE))
		return false;
	if (!sl_lease_is_held(&m->cell.counter, call->asked.now)) /* before the value is opened: that may move it unheard */
		return false;
	counter = slr_value_open(&m->key->value, m->identity, SLR_UNTIL_UNKNOWN);
	if (!slr_counter_end(m->cell.limit, counter, renew ? SLR_END_RENEW : SLR_END_RELEASE, call->asked.now, m->cell.who))
		return false;
	if (call->heard)
		slr_effect_who(&m->key->effects, renew ? SLR_EFFECT_RENEW : SLR_EFFECT_RELEASE, m->identity, call->asked.now,
		               m->cell.who);
	changed(m, 0);
	return true;
}

bool slr_part_release(const struct slr_call *call, struct slr_part *m) {
	return end_lease(call, m, false);
}

bool slr_part_renew(const struct slr_call *call, struct slr_part *m) {
	return end_lease(call, m, true);
}

void slr_part_reserve(const struct slr_call *call, struct slr_part *m) {
	struct sl_reservation reservation = sl_reservation_of(m->cell.limit, &m->cell.counter, call->asked.now, call->id,
	                                                      m->cell.cost, m->cell.ttl_ns);
	int64_t until_ms = wall_in(call, m->key, reservation.instant - call->asked.now, m->cell.ttl_ns + SL_MS_NS);
	bool added;
	added = slr_ledger_add(&m->key->value, m->identity, m->cell.limit, m->cell.limit->quota, &reservation, until_ms);
	SL_ASSERT(added);
	if (call->heard)
		slr_effect_open(&m->key->effects, m->identity, &reservation);
	changed(m, until_ms);
}

void slr_part_close(const struct slr_call *call, struct slr_part *m, const struct sl_found *found) {
	if (call->heard)
		slr_effect_close(&m->key->effects, m->identity, found->place != NULL ? found->place : &found->its);
	slr_ledger_close(&m->key->value, m->identity, found);
	m->ledger = slr_ledger_of(m->key->value, m->identity);
	m->contents = slr_contents_of(m->key->value, m->identity);
	changed(m, 0);
}

void slr_part_strike(const struct slr_call *call, struct slr_part *m) {
	sluice_ns life = sl_strikes_life(m->cell.terms, m->cell.strikes, call->asked.now);
	int64_t until_ms = wall_in(call, m->key, 0, sl_min(life, SLUICE_NEVER - SL_MS_NS) + SL_MS_NS);
	struct slr_counter scratch;
	slr_strikes_put(&m->key->value, m->identity, m->cell.strikes, until_ms);
	if (call->heard)
		slr_effect_kept(&m->key->effects,
		                slr_value_find(m->key->value, slr_companion_of(SLR_COMPANION_STRIKES, m->identity), &scratch),
		                until_ms);
	changed(m, until_ms);
}

/* ---- the key ----------------------------------------------------------------------------------------------------- */

/* A ledger with its contents, as long as its counter is there: what has ended is charged there still. */
static bool is_needed(slr_value value, struct sl_identity identity) {
	struct slr_counter scratch;
	if (!sl_identity_is_companion(identity) || (sl_identity_algorithm(identity) != SLR_COMPANION_LEDGER &&
	                                            sl_identity_algorithm(identity) != SLR_COMPANION_CONTENTS))
		return false;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		struct sl_identity other = slr_value_at(value, i, &scratch)->identity;
		if (!sl_identity_is_companion(other) &&
		    sl_identity_equal(slr_companion_of(sl_identity_algorithm(identity), other), identity))
			return true;
	}
	return false;
}

static void remove_expired(const struct slr_call *call, struct slr_key *key) {
	int64_t wall_ms = wall_of(call, key);
	for (uint32_t i = slr_value_count(key->value); i-- > 0;) {
		struct slr_counter scratch;
		struct sl_identity identity = slr_value_at(key->value, i, &scratch)->identity;
		if (slr_value_until(key->value, i) > wall_ms || is_needed(key->value, identity))
			continue;
		slr_value_remove(&key->value, identity);
		if (call->heard)
			slr_effect_gone(&key->effects, identity);
	}
}

bool slr_key_reclaim(const struct slr_call *call, struct slr_key *key) {
	uint32_t before = slr_value_count(key->value);
	remove_expired(call, key);
	if (slr_value_count(key->value) == before)
		return false;
	slr_key_changed(key, 0);
	return true;
}

uint32_t slr_key_needed(const struct slr_call *call, struct slr_key *key) {
	int64_t wall_ms = wall_of(call, key);
	uint32_t needed = 0;
	for (uint32_t i = 0; i < slr_value_count(key->value); i++) {
		struct slr_counter scratch;
		needed += slr_value_until(key->value, i) > wall_ms ||
		          is_needed(key->value, slr_value_at(key->value, i, &scratch)->identity);
	}
	return needed;
}

sluice_ns slr_key_first_end(const struct slr_call *call, struct slr_key *key) {
	int64_t wall_ms = wall_of(call, key), first_ms = SLR_UNTIL_UNKNOWN;
	for (uint32_t i = 0; i < slr_value_count(key->value); i++) {
		struct slr_counter scratch;
		if (!is_needed(key->value, slr_value_at(key->value, i, &scratch)->identity))
			first_ms = slr_value_until(key->value, i) < first_ms ? slr_value_until(key->value, i) : first_ms;
	}
	if (first_ms >= wall_ms + ((int64_t)1 << 43))
		return SLUICE_NEVER;
	return first_ms > wall_ms ? (sluice_ns)(first_ms - wall_ms) * SL_MS_NS : SL_MS_NS;
}

/* Quotas of the key's own that have ended. */
static void remove_ended(const struct slr_call *call, struct slr_key *key) {
	for (uint32_t i = slr_value_count(key->value); i-- > 0;) {
		struct slr_counter scratch;
		const struct slr_counter *counter = slr_value_at(key->value, i, &scratch);
		const struct slr_own *own = slr_own_of(counter);
		struct sl_identity identity = counter->identity;
		if (own == NULL || own->end > call->asked.now)
			continue;
		slr_value_remove(&key->value, identity);
		if (call->heard)
			slr_effect_gone(&key->effects, identity);
	}
}

static __attribute__((noinline)) void settle(const struct slr_call *call, struct slr_key *key, uint32_t count_before) {
	SL_DEBUG_ASSERT(slr_value_count(key->value) <= sl_max(count_before, SLR_COUNTERS_MAX));
	if (slr_value_has_companions(key->value))
		remove_ended(call, key);
	if (slr_value_count(key->value) > count_before && count_before > 0)
		remove_expired(call, key);
	slr_value_slim(&key->value);
}

void slr_key_settle(const struct slr_call *call, struct slr_key *key, uint32_t count_before) {
	if (key->changed && !slr_value_is_packed(key->value)) /* packed, it is one counter, in its smallest form */
		settle(call, key, count_before);
}
