/* Cells in values of Redis: every call but the commonest (decide.c), decided by src/decide.
 *
 *   load     each limit's counter out of its key's value, brought up to its clock in an image apart from it
 *   decide   by the engine, on the images
 *   plan     is there room for every change?
 *   commit   in place, which can't fail (commit.c)
 *
 * Redis decides one command at a time, so nothing is locked.
 *
 * I1  Before the first commit nothing has been changed, and after it nothing fails.
 * I2  The hold with a call's id is left out of account in deciding that call, and goes when it is allowed; but a hold
 *     of nothing holds nothing, and leaves it. Where the call keeps, only what is charged goes from it, and no figure
 *     counts the rest. */
#include "base/assert.h"
#include "base/fold.h"
#include "base/math.h"
#include "hosts/redis/own_quota.h"
#include "hosts/redis/part.h"

static struct slr_deciding *of(struct sl_deciding *d) {
	return (struct slr_deciding *)(void *)d;
}

static struct slr_part *part_of(struct sl_cell *cell) {
	return (struct slr_part *)(void *)cell;
}

/* ---- loading and judging ----------------------------------------------------------------------------------------- */

static void load(struct sl_deciding *d, struct sl_cell *c) {
	slr_part_reload(of(d)->call, part_of(c));
}

/* A peek says what a charge would find, also where there is no memory for a counter, or no place at its key. */
static void judge(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, bool charge,
                  struct sluice_decision *decision) {
	const struct slr_call *call = of(d)->call;
	struct sl_shortage shortage;
	slr_part_judge(call, part_of(c), cost, charge, decision);
	if (call->operation != SL_OP_PEEK || c->there || !c->counts || c->tried || cost == 0 || !decision->allowed)
		return;
	enum slr_failure failure = !slr_counter_fits(of(d), part_of(c)) ? SLR_TOO_MANY_COUNTERS
	                           : slr_is_full(call)                  ? SLR_NO_ROOM
	                                                                : SLR_FINE;
	if (failure == SLR_FINE)
		return;
	shortage = slr_shortage_of(call, part_of(c), failure);
	sl_decide_bound(decision, shortage.bound, shortage.wait_ns);
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

/* What is done to each part that is charged: its cost is charged or, by SL_OP_HOLD, held. */
static struct slr_change change_of(const struct slr_deciding *d, const struct slr_part *m, struct slr_hold *hold) {
	const struct slr_call *call = d->call;
	struct slr_change change = {.drop_own = slr_holds_by(call->operation), .keep_own = call->keep};
	if (call->operation != SL_OP_HOLD) {
		change.charge = m->cell.cost;
		return change;
	}
	*hold = (struct slr_hold){.id = call->id, .end = m->clock + call->asked.ttl_ns, .cost = m->cell.cost};
	change.place = hold;
	return change;
}

/* Whether all that are charged find room; else `*at` is the first that does not. */
static enum slr_failure plan_all(struct slr_deciding *d, uint32_t *at) {
	enum slr_failure failure = slr_counters_fit(d, at) ? SLR_FINE : SLR_TOO_MANY_COUNTERS;
	for (uint32_t i = 0; i < d->call->asked.item_count && failure == SLR_FINE; i++) {
		struct slr_hold hold;
		struct slr_change change = change_of(d, &d->parts[i], &hold);
		*at = i;
		if (d->parts[i].cell.charged)
			failure = slr_part_plan(d->call, &d->parts[i], &change);
	}
	return failure;
}

/* Makes room where keys have as many counters as they may: those go whose time is over. */
static bool reclaim(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	bool any = false;
	for (uint32_t k = 0; k < call->key_count; k++)
		if (slr_value_count(call->keys[k].value) + SLUICE_ITEMS_MAX > SLR_COUNTERS_MAX)
			any = slr_key_reclaim(call, &call->keys[k]) || any;
	for (uint32_t i = 0; any && i < call->asked.item_count; i++) {
		bool whole;
		slr_part_drop(&d->parts[i]);
		whole = slr_part_load(call, &d->parts[i], slr_holds_by(call->operation) || call->keep);
		SL_ASSERT(whole); /* as when the call began */
		if (d->parts[i].cell.charged)
			slr_part_judge(call, &d->parts[i], d->parts[i].cell.cost, true, d->parts[i].cell.decision);
	}
	return any;
}

/* A charge that is allowed lets go of its hold also where it charges nothing. A HOLD replaces what it holds anew. */
static void drop_holds(struct slr_deciding *d) {
	static const struct slr_change drop = {.drop_own = true};
	uint32_t done = 0; /* a bit for each leader */
	for (uint32_t i = 0; i < d->call->asked.item_count; i++)
		if (d->parts[i].cell.charged)
			done |= 1u << d->parts[i].cell.leader;
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		if (m->own < 0 || (done >> m->cell.leader & 1) != 0)
			continue;
		done |= 1u << m->cell.leader;
		slr_part_commit(d->call, m, &drop);
	}
	for (uint32_t i = 0; i < d->call->asked.item_count; i++)
		slr_part_reload(d->call, &d->parts[i]);
}

static sluice_err charge(struct slr_deciding *d, struct sl_shortage *shortage) {
	const struct slr_call *call = d->call;
	uint32_t at = 0;
	enum slr_failure failure = plan_all(d, &at);
	if ((failure == SLR_TOO_MANY_COUNTERS || (failure == SLR_FINE && !slr_record_fits(d))) && reclaim(d))
		failure = plan_all(d, &at);
	if (failure != SLR_FINE) {
		*shortage = slr_shortage_of(call, &d->parts[at], failure);
		shortage->cell = at;
		if (failure == SLR_TOO_MANY_HOLDS)
			d->engine.call->found = UINT32_MAX;
		return SLUICE_E_FULL;
	}
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		struct slr_hold hold;
		struct slr_change change = change_of(d, m, &hold);
		if (!m->cell.charged)
			continue;
		slr_part_commit(call, m, &change);
		if (m->cell.ttl_ns != 0)
			slr_part_reserve(call, m);
	}
	if (call->operation == SL_OP_CONFIRM && !call->keep)
		drop_holds(d);
	return SLUICE_OK;
}

/* ---- denials that have consequences ------------------------------------------------------------------------------ */

static bool has_room(const struct slr_call *call, const struct slr_part *m, struct sl_identity identity) {
	struct slr_counter scratch;
	return slr_value_find(m->key->value, identity, &scratch) != NULL ||
	       (slr_value_count(m->key->value) < SLR_COUNTERS_MAX && !slr_is_full(call));
}

/* Charges a denied cost. How long the key is kept follows from what that leaves, not from the denial. */
static sluice_err force(struct slr_deciding *d, struct slr_part *m) {
	const struct slr_change change = {.charge = m->cell.cost, .counted = true};
	struct sluice_decision left, *denial = m->cell.decision;
	if (!has_room(d->call, m, m->identity))
		return SLUICE_E_FULL;
	slr_part_reload(d->call, m);
	slr_part_commit(d->call, m, &change);
	slr_part_reload(d->call, m);
	slr_part_judge(d->call, m, denial->allowed ? 0 : m->cell.cost, false, &left);
	m->cell.decision = &left;
	slr_part_keep(d->call, m);
	m->cell.decision = denial;
	return SLUICE_OK;
}

static bool strike(struct sl_deciding *d, struct sl_cell *c) {
	struct slr_part *m = part_of(c);
	if (!has_room(of(d)->call, m, slr_companion_of(SLR_COMPANION_STRIKES, m->identity)))
		return false;
	slr_part_strike(of(d)->call, m);
	return true;
}

/* ---- correcting, giving back, forgetting ------------------------------------------------------------------------- */

static bool find(struct sl_deciding *d, struct sl_cell *c, uint32_t *cost) {
	struct slr_part *m = part_of(c);
	m->found = sl_bundle_find(c->limit, &m->ledger, &m->contents, of(d)->call->id, m->clock);
	if (m->found.at < (int64_t)m->returned)
		return false;
	*cost = m->found.its.cost;
	return true;
}

/* A bucket whose counter has gone was full again: what a commit says above its estimate it owes from now on. Of an
 * estimate in a window, or a log, that has gone nothing counts. */
static void charge_above(const struct slr_call *call, struct slr_part *m) {
	struct slr_change change = {.forced = true};
	if (!sl_rule_has(m->cell.limit, SL_DRAINS) || m->cell.limit->quota == 0 ||
	    call->asked.cost <= m->found.its.cost || !has_room(call, m, m->identity))
		return;
	change.charge = call->asked.cost - m->found.its.cost;
	slr_part_reload(call, m);
	slr_part_judge(call, m, 0, false, m->cell.decision);
	slr_part_commit(call, m, &change);
	slr_part_reload(call, m);
	slr_part_judge(call, m, 0, false, m->cell.decision);
	slr_part_keep(call, m);
}

/* Closes a reservation that was found. `correction`: that its image has been corrected by; NULL: a log can't be made
 * longer for it, and the estimate stays charged. */
static void close_one(const struct slr_call *call, struct slr_part *m, const struct sl_correction *correction) {
	struct slr_change change = {.correction = correction};
	slr_part_close(call, m, &m->found);
	if (!m->cell.there) {
		charge_above(call, m);
		return;
	}
	m->ledger = (struct sl_ledger){m->ledger.list, m->returned}; /* how long it lives if no other is returned */
	slr_part_judge(call, m, 0, false, m->cell.decision);
	m->ledger = slr_ledger_of(m->key->value, m->identity);
	slr_part_commit(call, m, &change);
}

static void correct(struct slr_deciding *d) {
	const struct slr_call *call = d->call;
	struct sl_correction corrections[SLUICE_ITEMS_MAX];
	bool corrected[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		if (!m->cell.corrects)
			continue;
		corrections[i] = sl_ledger_return(&m->found.its);
		corrections[i].known = m->clock;
		corrections[i].actual = call->asked.cost;
		corrected[i] = m->cell.there && slr_part_correct(m, &corrections[i], 1);
	}
	for (uint32_t i = 0; i < call->asked.item_count; i++)
		if (d->parts[i].cell.corrects)
			close_one(call, &d->parts[i], corrected[i] ? &corrections[i] : NULL);
}

static sluice_err change(struct sl_deciding *engine, enum sl_change change, struct sl_shortage *shortage) {
	struct slr_deciding *d = of(engine);
	if (change == SL_CORRECT) {
		correct(d);
		return SLUICE_OK;
	}
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		if (change == SL_CHARGE && m->cell.forced)
			return force(d, m);
		if (change == SL_REFUND && m->cell.counts && m->cell.leader == i)
			slr_part_refund(d->call, m, m->cell.cost);
		if (change == SL_FORGET && m->cell.counts && m->cell.leader == i)
			m->cell.gone = slr_part_reset(d->call, m);
	}
	return change == SL_CHARGE ? charge(d, shortage) : SLUICE_OK;
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

static bool end(struct sl_deciding *engine, struct sl_cell *c) {
	const struct slr_call *call = of(engine)->call;
	struct slr_part *m = part_of(c);
	if (call->operation == SL_OP_RELEASE)
		return slr_part_release(call, m);
	if (!slr_part_renew(call, m))
		return false;
	slr_part_reload(call, m);
	sl_lease_step(c->limit, &c->counter, call->asked.now, 0, false, c->decision); /* also where N is 0 */
	slr_part_keep(call, m);
	return true;
}

/* ---- records of requests ----------------------------------------------------------------------------------------- */

static bool recall(struct sl_deciding *d, struct sl_record *record) {
	const struct slr_key *key = slr_record_key(of(d));
	const struct slr_token *token =
		key == NULL ? NULL : slr_token_find(key->value, of(d)->call->token, of(d)->call->asked.now);
	if (token == NULL)
		return false;
	record->at = token->at;
	record->delay_ns = token->delay;
	record->granted = token->granted;
	return true;
}

static void keep_record(struct sl_deciding *d, const struct sl_record *record) {
	const struct slr_call *call = of(d)->call;
	struct slr_key *key = slr_record_key(of(d));
	struct slr_token token = {.hash = call->token, .at = record->at, .granted = record->granted};
	int64_t until_ms;
	if (key == NULL || !slr_token_fits(key->value, 0) || slr_is_full(call)) /* a retry is charged once more */
		return;
	token.end = call->asked.now + record->life_ns;
	token.delay = sl_delay_unpack(sl_delay_pack(record->delay_ns)); /* as the store of one host keeps it */
	until_ms = slr_wall_in(call, key, record->life_ns);
	slr_token_add(&key->value, &token, until_ms);
	if (call->heard)
		slr_effect_token(&key->effects, &token);
	slr_key_changed(key, until_ms);
}

static const struct sl_host values = {
	.load = load,
	.judge = judge,
	.change = change,
	.find = find,
	.end = end,
	.strike = strike,
	.recall = recall,
	.record = keep_record,
};

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static uint8_t leader_of(const struct slr_part *parts, uint32_t i) {
	uint32_t first = 0;
	while (first < i && !(parts[first].cell.counts && parts[i].cell.counts && parts[first].key == parts[i].key &&
	                      sl_identity_equal(parts[first].identity, parts[i].identity)))
		first++;
	return (uint8_t)first;
}

/* The fingerprint of a member of `distinct`, the same on every node; never 0. */
static uint64_t member_number(struct sluice_bytes member) {
	/* A fixed key: a value is read by other nodes than the one that wrote it. */
	static const uint64_t key[2] = {0x6d656d6265722d6f, 0x662d736c75696365};
	uint64_t number = sl_siphash_folded(key, NULL, 0, member, 2, 4);
	return number != 0 ? number : 1;
}

/* Whose lease, or which member, an item asks for. */
static uint64_t who_of(const struct slr_call *call, const struct sluice_item *item) {
	if (sl_rule_has(item->limit, SL_TAKES_MEMBER))
		return item->member.data == NULL ? 0 : member_number(item->member);
	if (!sl_rule_has(item->limit, SL_TAKES_LEASE))
		return 0;
	return sl_operation_is(call->operation, SL_OPS_OF_LEASES) ? call->id : 0;
}

/* Has a part decided by its key's own quota, where it has one. What a front holds of a key that is unlimited now is let
 * go of as ever. */
static void take_own(const struct slr_call *call, struct slr_part *m) {
	const struct slr_own *own = m->cell.counts ? slr_own_find(m->key->value, m->identity) : NULL;
	m->free = false;
	if (own == NULL)
		return;
	m->key_rule = *m->cell.limit;
	if (!slr_own_take(own, call->asked.now, &m->key_rule))
		return;
	m->free = own->unlimited != 0 && (call->operation == SL_OP_LEASE || call->operation == SL_OP_CANCEL);
	if (!m->free)
		sl_cell_take_own(&m->cell, call->asked.operation, &m->key_rule);
}

/* Sets up all cells and loads them. False: a log is too long for the leases that have ended. */
static bool begin(struct slr_deciding *d) {
	static struct sl_strikes strikes[SLUICE_ITEMS_MAX];
	struct slr_call *call = d->call;
	bool skip_own = slr_holds_by(call->operation) || call->keep, whole = true;
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		struct slr_part *m = &d->parts[i];
		const struct sluice_item *item = &call->items[i];
		d->engine.cells[i] = &m->cell;
		sl_cell_set_up(&m->cell, d->engine.call, i, &call->each[i]);
		m->key = &call->keys[call->key_of[i]];
		m->identity = sl_identity_of(item->limit);
		m->cell.who = who_of(call, item);
		take_own(call, m);
		m->cell.leader = leader_of(d->parts, i);
		if (item->terms != NULL && item->terms->penalty_count != 0 && m->cell.counts)
			m->cell.strikes = &strikes[i];
		whole = slr_part_load(call, m, skip_own) && whole;
	}
	return whole;
}

/* What others hold of the enforced limits' counters, for a while only. */
static uint32_t held_elsewhere(const struct slr_deciding *d) {
	uint64_t most = 0;
	for (uint32_t i = 0; i < d->call->asked.item_count; i++)
		if (!d->parts[i].cell.observed)
			most = sl_max(most, d->parts[i].held - d->parts[i].leased);
	return (uint32_t)sl_min(most, UINT32_MAX);
}

/* Of a peek that tells what counters hold: which quotas their keys have of their own. */
static void tell_own(const struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		const struct slr_part *m = &d->parts[i];
		struct sluice_inspection *told = &d->call->inspect[i];
		const struct slr_own *own = slr_own_find(m->key->value, m->identity);
		told->overridden = m->cell.limit == &m->key_rule;
		if (!told->overridden)
			continue;
		told->own.limit = m->key_rule;
		told->own.ends_after_ns = own->end == SLUICE_NEVER ? SLUICE_NEVER : own->end - d->call->asked.now;
	}
}

static enum slr_failure run(struct slr_deciding *d) {
	const struct slr_call *call = d->call;
	sluice_err err;
	if (call->operation == SL_OP_CANCEL) {
		slr_cancel_holds(d);
		return SLR_FINE;
	}
	if (call->operation == SL_OP_LEASE)
		return slr_take_slice(d);
	if (call->operation == SL_OP_HOLD && call->asked.upto)
		d->engine.call->found = held_elsewhere(d);
	err = sl_decide(&d->engine);
	SL_ASSERT(err == SLUICE_OK); /* whoever has no room was denied */
	if (call->inspect != NULL)
		tell_own(d);
	if (slr_holds_by(call->operation) && !call->keep &&
	    (!d->engine.call->merged.allowed || (call->operation == SL_OP_HOLD && call->asked.cost == 0)))
		slr_look_kept(d);
	return SLR_FINE;
}

enum slr_failure slr_decide_cells(struct slr_call *call) {
	struct slr_deciding d;
	uint32_t counts_before[SLUICE_ITEMS_MAX]; /* of each key */
	enum slr_failure failure = SLR_LOG_TOO_LONG;
	SL_DEBUG_ASSERT(call->asked.item_count <= SLUICE_ITEMS_MAX && call->key_count <= SLUICE_ITEMS_MAX);
	/* a front that holds or confirms charges */
	call->asked.operation = slr_holds_by(call->operation) ? SLUICE_CHARGE : (sluice_operation)call->operation;
	sl_answer_clear(&call->asked);
	d.call = call;
	d.engine.host = &values;
	d.engine.call = &call->asked;
	d.engine.inspect = call->inspect;
	d.engine.retried = call->token != 0;
	d.engine.always_changes = call->operation == SL_OP_CONFIRM;
	for (uint32_t k = 0; k < call->key_count; k++)
		counts_before[k] = slr_key_begin(&call->keys[k]);
	if (begin(&d))
		failure = run(&d);
	for (uint32_t i = 0; i < call->asked.item_count; i++)
		slr_part_drop(&d.parts[i]);
	for (uint32_t k = 0; k < call->key_count; k++)
		slr_key_settle(call, &call->keys[k], counts_before[k]);
	return failure;
}
