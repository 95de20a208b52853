/* The order of a call: recall, grant, judge, change, look, note, answer (decide.h). */
#include "decide/decide.h"

#include "base/assert.h"
#include "decide/within.h"

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Answers as a peek of cost 0 does, of what is there now. */
static void look_all(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		d->host->load(d, d->cells[i]);
		sl_cell_judge(d, d->cells[i], 0, d->cells[i]->decision);
	}
}

/* ---- what was done before ---------------------------------------------------------------------------------------- */

static bool is_lease(const struct sl_cell *c) {
	return c->counts && sl_rule_has(c->limit, SL_TAKES_LEASE);
}

/* Whether a cell holds what the call names, and of how much. */
static bool holds(struct sl_deciding *d, struct sl_cell *c, uint32_t *cost) {
	struct sluice_decision ignored;
	if (!is_lease(c))
		return c->ttl_ns != 0 && c->there && d->host->find(d, c, cost);
	d->host->judge(d, c, c->cost, false, &ignored);
	if (!c->there || !c->counter.known)
		return false;
	SL_ASSERT(c->who != 0);
	*cost = c->counter.seats.costs != NULL ? c->counter.seats.costs[c->counter.seats.mine] : 1;
	return true;
}

/* Whether the leases that are acquired, or else the reservations, are held already, all of them. Marks the cells that
 * hold theirs; what those hold is what was granted. */
static bool holds_all(struct sl_deciding *d) {
	struct sluice_call *call = d->call;
	uint32_t asked = 0, held = 0, observed = 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		uint32_t cost = 0;
		if (!c->counts || c->tried)
			continue;
		c->kept = holds(d, c, &cost);
		if (call->operation == SLUICE_ACQUIRE ? !is_lease(c) : c->ttl_ns == 0)
			continue;
		asked += !c->observed;
		held += c->kept && !c->observed;
		observed += c->kept && c->observed;
		if (c->kept && call->upto)
			call->granted = (uint32_t)sl_min(call->granted, cost);
	}
	SL_ASSERT(held <= asked && call->granted <= call->cost);
	return held == asked && held + observed != 0;
}

/* Nothing is charged, since that was done before. */
static void answer_again(struct sl_deciding *d, sluice_ns delay_ns) {
	d->call->repeated = true;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		c->cost = 0;
		sl_cell_judge(d, c, 0, c->decision);
		if (sl_rule_has(c->limit, SL_DELAYS))
			c->decision->delay_ns = delay_ns;
	}
}

/* What counts for the record of a request: the longest window of what it can charge, and the longest delay. */
static struct sl_record record_of(const struct sl_deciding *d) {
	struct sl_record record = {.at = d->call->now, .granted = d->call->granted};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct sl_cell *c = d->cells[i];
		if (!c->counts || c->tried)
			continue;
		record.life_ns = sl_max(record.life_ns, c->limit->window_ns);
		if (!c->observed)
			record.delay_ns = sl_max(record.delay_ns, c->decision->delay_ns);
	}
	return record;
}

static bool was_charged(struct sl_deciding *d, sluice_ns *delay_ns) {
	struct sl_record record;
	sluice_ns passed;
	if (!d->retried)
		return false;
	record = record_of(d);
	if (!d->host->recall(d, &record))
		return false;
	passed = d->call->now > record.at ? d->call->now - record.at : 0;
	if (passed >= record.life_ns)
		return false;
	SL_ASSERT(record.life_ns != 0);
	d->call->granted = record.granted;
	*delay_ns = record.delay_ns - sl_min(record.delay_ns, passed);
	return true;
}

static bool was_done(struct sl_deciding *d) {
	sluice_ns delay_ns = 0;
	bool done = d->call->operation == SLUICE_CHARGE ? was_charged(d, &delay_ns)
	                                                 : d->call->id.len != 0 && holds_all(d);
	for (uint32_t i = 0; i < d->call->item_count && !done; i++)
		if (d->cells[i]->kept)
			d->cells[i]->cost = 0;
	if (done)
		answer_again(d, delay_ns);
	return done;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* The largest part of the cost that a cell admits. A member counts once, whatever the cost; so does what is held
 * already. */
static uint32_t part_of(struct sl_deciding *d, struct sl_cell *c) {
	struct sluice_decision one;
	if (c->bound != SLUICE_BOUND_NONE)
		return 0;
	if (!c->counts || c->cost == 0)
		return d->call->cost;
	sl_cell_judge(d, c, 1, &one);
	return sl_rule_has(c->limit, SL_TAKES_MEMBER) && one.allowed ? d->call->cost : one.remaining;
}

/* The largest part of the cost that all enforced limits admit, and one of the quotas (I4). */
static uint32_t find_part(struct sl_deciding *d) {
	uint32_t part = d->call->cost, most = 0;
	bool quotas = false;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		quotas = quotas || c->quota;
		if (c->quota)
			most = (uint32_t)sl_max(most, part_of(d, c));
		else if (!c->observed && c->bound == SLUICE_BOUND_NONE)
			part = (uint32_t)sl_min(part, part_of(d, c));
	}
	return quotas ? (uint32_t)sl_min(part, most) : part;
}

/* Lowers all costs to the part that is granted; where that is nothing, what is asked is 1, and denied. */
static void grant(struct sl_deciding *d) {
	d->call->granted = find_part(d);
	SL_ASSERT(d->call->granted <= d->call->cost);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->cells[i]->cost != 0)
			d->cells[i]->cost = d->call->granted != 0 ? d->call->granted : 1;
}

static void judge(struct sl_deciding *d, struct sl_cell *c, bool charge) {
	bool shut_out =
		c->strikes != NULL && sl_strikes_stand(c->terms, c->strikes, d->call->now).ends_after_ns != 0;
	d->host->judge(d, c, c->cost, charge && c->counts && !shut_out, c->decision);
	SL_DEBUG_ASSERT(c->strikes == NULL || (c->counts && !c->plain && c->terms->penalty_count != 0));
	c->struck = charge && c->strikes != NULL && !shut_out && !c->tried && !c->decision->allowed;
	if (c->strikes != NULL)
		sl_strikes_judge(c->terms, c->strikes, d->call->now, c->cost, c->decision);
	if (c->bound != SLUICE_BOUND_NONE)
		sl_decide_beyond(c->decision, c->bound, c->cost != 0);
}

/* I4: quotas that would deny are observed where another one admits. */
static void weigh_quotas(struct sl_deciding *d) {
	bool admits = false;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		admits = admits || (d->cells[i]->quota && d->cells[i]->decision->allowed);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->cells[i]->quota)
			d->cells[i]->observed = admits && !d->cells[i]->decision->allowed;
}

static bool judge_all(struct sl_deciding *d, bool charge) {
	bool allowed = true;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		judge(d, d->cells[i], charge);
	weigh_quotas(d);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		allowed = allowed && (d->cells[i]->decision->allowed || d->cells[i]->observed);
	return allowed;
}

/* Nothing is charged: the figures of those that would have been are those of what stands. Those of a bound that was
 * met before stay. */
static void look_unchanged(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->cells[i]->decision->allowed && d->cells[i]->bound == SLUICE_BOUND_NONE)
			sl_cell_judge(d, d->cells[i], d->cells[i]->cost, d->cells[i]->decision);
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

/* The first of the group of a cell, among `count`, that is charged; NULL: none is. */
static struct sl_cell *find_charger(const struct sl_deciding *d, uint32_t count, const struct sl_cell *c) {
	for (uint32_t i = 0; i < count; i++)
		if (d->cells[i]->leader == c->leader && d->cells[i]->charged)
			return d->cells[i];
	return NULL;
}

static void choose_chargers(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		struct sl_cell *before = c->leader == i ? NULL : find_charger(d, i, c);
		c->forced = false;
		SL_DEBUG_ASSERT(c->leader <= i && d->cells[c->leader]->leader == c->leader);
		c->charged = c->counts && c->decision->allowed && !c->tried && c->cost != 0 &&
		             (before == NULL || before->cost < c->cost);
		if (c->charged && before != NULL)
			before->charged = false;
	}
}

/* Whether the figures of a cell are those after the charge of its group already: it was judged as if it were charged,
 * at the same cost and rate. */
static bool is_as_charged(const struct sl_cell *c, const struct sl_cell *charger) {
	return c->plain && charger->plain && c->decision->allowed && c->cost == charger->cost &&
	       c->limit->quota == charger->limit->quota;
}

/* The figures of those whose counter was charged under their decision; and of candidates alone with their counter,
 * which was not. */
static void look_charged(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		const struct sl_cell *charger;
		if (!c->counts || (c->charged && c->plain && !d->call->want_next))
			continue;
		charger = find_charger(d, d->call->item_count, c);
		SL_ASSERT(!c->charged || charger == c); /* I1: one of each group */
		if (charger != NULL && !is_as_charged(c, charger))
			sl_cell_look(d, c);
		else if (charger == NULL && c->tried)
			sl_cell_judge(d, c, c->cost, c->decision);
		else if (charger != NULL && (charger != c || d->call->want_next))
			d->host->load(d, c);
	}
}

/* Turns the decisions of all that were to charge the counter of the cell that has no room into denials by its bound:
 * their figures are those of what stands. Returns whether one of them is enforced. */
static bool deny_group(struct sl_deciding *d, const struct sl_shortage *shortage) {
	uint8_t leader = d->cells[shortage->cell]->leader;
	bool enforced = false;
	uint32_t denied = 0; /* a bit for each that this is about */
	SL_ASSERT(shortage->bound != SLUICE_BOUND_NONE && d->cells[shortage->cell]->charged);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		if (!c->counts || c->leader != leader || c->tried || c->cost == 0 || !c->decision->allowed)
			continue;
		sl_cell_judge(d, c, c->cost, c->decision);
		sl_decide_bound(c->decision, shortage->bound, shortage->wait_ns);
		denied |= 1u << i;
	}
	weigh_quotas(d);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		enforced = enforced || ((denied >> i & 1) != 0 && !d->cells[i]->observed);
	return enforced;
}

static void keep_record(struct sl_deciding *d) {
	struct sl_record record = record_of(d);
	SL_ASSERT(record.granted <= d->call->cost);
	if (record.life_ns != 0)
		d->host->record(d, &record);
}

/* Charges all who admit. Where a bound of ours keeps a counter from being charged, its limit denies: the whole call, or
 * what is only observed by itself, and then the rest is charged. SLUICE_OK, with `charged` saying whether it was; or
 * what change() failed with. */
static sluice_err charge_or_deny(struct sl_deciding *d, bool *charged) {
	struct sl_shortage shortage = {0, SLUICE_BOUND_NONE, 0};
	sluice_err err;
	*charged = false;
	for (;;) {
		choose_chargers(d);
		err = d->host->change(d, SL_CHARGE, &shortage);
		if (err != SLUICE_E_FULL)
			break;
		if (deny_group(d, &shortage)) {
			d->call->granted = 0;
			look_unchanged(d);
			return SLUICE_OK;
		}
	}
	if (err != SLUICE_OK)
		return err;
	*charged = true;
	look_charged(d);
	if (d->retried)
		keep_record(d);
	return SLUICE_OK;
}

static bool costs_something(const struct sl_deciding *d) {
	bool costs = false;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		costs = costs || (d->cells[i]->counts && d->cells[i]->cost != 0);
	return costs;
}

static bool has_terms(const struct sl_deciding *d) {
	bool terms = false;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		terms = terms || d->cells[i]->terms != NULL;
	return terms;
}

static sluice_err decide(struct sl_deciding *d) {
	bool charge = d->call->operation != SLUICE_PEEK, allowed, charged = false;
	sluice_err err = SLUICE_OK;
	d->call->granted = d->call->cost;
	if (charge && was_done(d))
		return SLUICE_OK;
	if (d->call->upto)
		grant(d);
	allowed = judge_all(d, charge);
	if (!allowed)
		d->call->granted = 0;
	if (!charge || (!costs_something(d) && !d->always_changes))
		return SLUICE_OK;
	SL_ASSERT(d->call->granted <= d->call->cost && (allowed || d->call->granted == 0));
	if (allowed)
		err = charge_or_deny(d, &charged);
	else
		look_unchanged(d);
	if (err == SLUICE_OK && charged == allowed && has_terms(d)) /* not where a bound denied */
		sl_note_denials(d, allowed);
	return err;
}

/* ---- the other operations ---------------------------------------------------------------------------------------- */

static sluice_err end_leases(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		if (is_lease(c) && c->leader == i)
			d->call->found += d->host->end(d, c);
	}
	look_all(d);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		d->cells[i]->counts = is_lease(d->cells[i]); /* no other limit takes part in the merged answer */
	return SLUICE_OK;
}

/* What a group gives back, or in truth costs, is the greatest cost of its limits, as what it was charged is. */
static void share_costs(struct sl_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct sl_cell *c = d->cells[i];
		struct sl_cell *leader = d->cells[c->leader];
		if (leader != c && c->counts && !c->tried && c->cost > leader->cost)
			leader->cost = c->cost;
	}
}

static sluice_err commit(struct sl_deciding *d) {
	struct sl_shortage none;
	sluice_err err = SLUICE_OK;
	share_costs(d);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		uint32_t estimate;
		c->corrects = c->counts && c->leader == i && d->host->find(d, c, &estimate);
		d->call->found += c->corrects;
	}
	if (d->call->found != 0)
		err = d->host->change(d, SL_CORRECT, &none);
	SL_ASSERT(err != SLUICE_E_FULL);
	if (err == SLUICE_OK)
		look_all(d);
	return err;
}

static sluice_err refund(struct sl_deciding *d) {
	struct sl_shortage none;
	share_costs(d);
	sluice_err err = d->host->change(d, SL_REFUND, &none);
	SL_ASSERT(err != SLUICE_E_FULL);
	if (err == SLUICE_OK)
		look_all(d);
	return err;
}

static sluice_err forget(struct sl_deciding *d) {
	struct sl_shortage none;
	sluice_err err = d->host->change(d, SL_FORGET, &none);
	SL_ASSERT(err != SLUICE_E_FULL);
	for (uint32_t i = 0; i < d->call->item_count && err == SLUICE_OK; i++)
		d->call->forgotten += d->cells[i]->counts && d->cells[i]->leader == i && d->cells[i]->gone;
	if (err == SLUICE_OK)
		look_all(d);
	return err;
}

static sluice_err operate(struct sl_deciding *d) {
	switch (d->call->operation) {
	case SLUICE_REFUND:
		return refund(d);
	case SLUICE_RESET:
		return forget(d);
	case SLUICE_RELEASE:
	case SLUICE_RENEW:
		return end_leases(d);
	case SLUICE_COMMIT:
		return commit(d);
	default:
		return decide(d);
	}
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* The wait until `remaining` grows by one: when one unit more than it would be admitted. */
static void fill_next(struct sl_deciding *d, struct sl_cell *c) {
	if (c->decision->remaining >= c->decision->quota)
		return;
	if (c->decision->bound != SLUICE_BOUND_NONE) {
		c->decision->next_after_ns = c->decision->retry_after_ns;
		return;
	}
	c->decision->next_after_ns = sl_cell_wait(d, c, 1);
}

/* The quota that is added of those that deny; NULL: none does. */
static const struct sluice_decision *find_denying_quota(const struct sl_deciding *d) {
	const struct sluice_decision *first = NULL;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct sl_cell *c = d->cells[i];
		if (c->quota && !c->observed && !c->decision->allowed && sl_merge_quota_is_first(c->decision, first))
			first = c->decision;
	}
	return first;
}

void sl_answer(struct sl_deciding *d) {
	const struct sluice_decision *denying = find_denying_quota(d);
	d->call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		bool passed_over = c->quota && !c->decision->allowed && c->decision != denying;
		if (d->call->want_next && c->counts)
			fill_next(d, c);
		sl_answer_add(d->call, i, c->decision,
		              (c->counts || c->bound != SLUICE_BOUND_NONE) && !c->observed && !passed_over);
	}
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

sluice_err sl_decide(struct sl_deciding *d) {
	sluice_err err = operate(d);
	SL_ASSERT(err != SLUICE_E_FULL); /* it has become a denial */
	if (err == SLUICE_OK)
		sl_answer(d);
	for (uint32_t i = 0; d->inspect != NULL && err == SLUICE_OK && i < d->call->item_count; i++)
		sl_cell_inspect(d, d->cells[i], &d->inspect[i]);
	return err;
}
