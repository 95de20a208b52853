/* See array_host.h. A counter is found by walking all of them, and memory is given back when another host is opened. */
#include "array_host.h"

#include "algo/bundle.h"
#include "base/assert.h"
#include "decide/copy.h"

enum { COUNTERS = 256, RECORDS = 256, OPEN_MAX = 512 };

struct counter {
	bool used;
	struct sl_identity identity;
	struct sluice_bytes key;
	struct sl_counter stands;
	struct sl_reservation list[OPEN_MAX]; /* what is reserved, by end */
	uint32_t open;
	struct sl_strikes strikes;
};

static struct counter counters[COUNTERS];
static struct {
	uint64_t whose; /* the id and all counters that it can charge */
	struct sl_record said;
} records[RECORDS];
static uint64_t memory[1 << 22];
static size_t record_count, memory_used;
static const struct sl_contents no_contents; /* nothing is bundled: lists are long enough */

static void *take(uint64_t bytes) {
	memory_used += (bytes + 7) / 8;
	SL_ASSERT(memory_used <= sizeof memory / sizeof memory[0]);
	return &memory[memory_used - (bytes + 7) / 8];
}

static void give(void *block) {
	(void)block;
}

static const struct sl_memory blocks = {take, give};

/* One limit of a call: its counter, and the copy that is decided on, in which what has ended is returned. */
struct part {
	struct sl_cell cell;
	struct counter *home;
	struct sl_counter copy;
	struct sl_strikes strikes;
	struct sl_found found;
	uint32_t ended;
};

static struct part parts[SLUICE_ITEMS_MAX];

#define PART(cell) ((struct part *)(void *)(cell))

static struct counter *counter_of(const struct sluice_item *item) {
	struct sl_identity identity = sl_identity_of(item->limit);
	struct counter *at = counters;
	while (at->used && !(sl_identity_equal(at->identity, identity) && sl_bytes_equal(at->key, item->key)))
		at++;
	SL_ASSERT(at < &counters[COUNTERS - 1]);
	if (!at->used && item->key.len != 0)
		at->key = sl_slice(memcpy(take(item->key.len), item->key.data, item->key.len), item->key.len);
	at->identity = identity;
	at->used = true;
	return at;
}

static void load(struct sl_deciding *d, struct sl_cell *c) {
	struct part *p = PART(c);
	struct sl_correction list[OPEN_MAX];
	struct sl_ledger ledger = {p->home->list, p->home->open};
	void *fresh;
	p->copy = p->home->stands;
	p->copy.who = c->who;
	p->ended = sl_ledger_ended(&ledger, sl_step_instant(c->limit, &p->copy, d->call->now));
	sl_bundle_returns(c->limit, &ledger, &no_contents, 0, p->ended, list);
	if (!sl_copy_correct(c->limit, &p->copy, list, p->ended, &blocks, &fresh))
		p->ended = 0;
	c->there = c->counts && !sl_state_is_none(&p->copy.state);
	c->plain = c->ttl_ns == 0 && p->home->open == 0 && c->strikes == NULL;
	if (c->strikes != NULL)
		*c->strikes = p->home->strikes;
}

static void judge(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, bool charge,
                  struct sluice_decision *decision) {
	const struct part *p = PART(c);
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / sizeof(uint64_t) + 1];
	struct sl_ledger open = {p->home->list + p->ended, p->home->open - p->ended};
	c->counter = p->copy;
	c->counter.who = c->who;
	if (open.count != 0)
		sl_ledger_step(c->limit, &c->counter, &open, d->call->now, cost, scratch, decision);
	else
		sl_step(c->limit, &c->counter, d->call->now, cost, charge, decision);
}

/* The copy becomes the counter, and what has ended leaves its list. */
static void keep(struct part *p) {
	p->home->stands = p->copy;
	p->home->open -= p->ended;
	memmove(p->home->list, p->home->list + p->ended, p->home->open * sizeof p->home->list[0]);
	p->ended = 0;
}

static sluice_err charge(const struct sluice_call *call, struct part *p) {
	const struct sluice_limit *limit = p->cell.limit;
	struct sl_reservation added;
	struct sluice_decision ignored;
	uint32_t rate = p->copy.state.rate;
	void *fresh;
	if (!p->cell.forced)
		sl_step(limit, &p->copy, call->now, p->cell.cost, true, &ignored);
	if (!(p->cell.forced ? sl_copy_count(limit, &p->copy, call->now, p->cell.cost, &blocks, &fresh)
	                     : sl_copy_write(limit, &p->copy, call->now, p->cell.cost, &blocks, &fresh)))
		return SLUICE_E_FULL;
	keep(p);
	added = sl_reservation_of(limit, &p->copy, call->now, sl_id_number(call->id), p->cell.cost, p->cell.ttl_ns);
	for (uint32_t i = 0; sl_rule_rate_may_change(limit) && rate != 0 && rate != limit->quota && i < p->home->open; i++)
		sl_bundle_turn(limit, rate, &p->home->list[i], added.instant);
	if (p->cell.ttl_ns != 0)
		sl_bundle_add(limit, limit->quota, p->home->list, &p->home->open, &added, &no_contents);
	return SLUICE_OK;
}

static void correct(const struct sluice_call *call, struct part *p) {
	struct sl_correction correction = sl_ledger_return(&p->found.its);
	struct sl_reservation *its = &p->home->list[p->found.at];
	void *fresh;
	correction.known = sl_step_instant(p->cell.limit, &p->copy, call->now);
	correction.actual = p->cell.cost;
	if (!sl_copy_correct(p->cell.limit, &p->copy, &correction, 1, &blocks, &fresh))
		correction.actual = correction.charged; /* the estimate stays charged */
	memmove(its, its + 1, (size_t)(&p->home->list[--p->home->open] - its) * sizeof *its);
	keep(p);
}

static void give_back(const struct sluice_call *call, struct part *p) {
	uint32_t cost = p->cell.cost;
	(void)sl_step_prepare_refund(p->cell.limit, &p->copy, call->now, &cost);
	(void)sl_step_refund(p->cell.limit, &p->copy, call->now, cost);
	keep(p);
}

static sluice_err change(struct sl_deciding *d, enum sl_change change, struct sl_shortage *shortage) {
	sluice_err err = SLUICE_OK;
	*shortage = (struct sl_shortage){.bound = SLUICE_BOUND_ROOM};
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct part *p = &parts[i];
		if (change == SL_CHARGE && p->cell.charged)
			err = charge(d->call, p);
		else if (change == SL_CORRECT && p->cell.corrects)
			correct(d->call, p);
		else if (change == SL_REFUND && p->cell.counts && p->cell.leader == i)
			give_back(d->call, p);
		else if (change == SL_FORGET && p->cell.counts && p->cell.leader == i) {
			p->cell.gone = p->cell.there || p->home->open != 0 || p->home->strikes.last != 0;
			memset(&p->home->stands, 0, sizeof *p->home - offsetof(struct counter, stands));
		}
	}
	return err;
}

static bool find(struct sl_deciding *d, struct sl_cell *c, uint32_t *cost) {
	struct part *p = PART(c);
	struct sl_ledger ledger = {p->home->list, p->home->open};
	p->found = sl_bundle_find(c->limit, &ledger, &no_contents, sl_id_number(d->call->id),
	                          sl_step_instant(c->limit, &p->copy, d->call->now));
	*cost = p->found.its.cost;
	return p->found.at >= 0;
}

static bool end(struct sl_deciding *d, struct sl_cell *c) {
	bool renews = d->call->operation == SLUICE_RENEW;
	return (renews ? sl_lease_renew : sl_lease_release)(c->limit, &PART(c)->copy, d->call->now);
}

static bool strike(struct sl_deciding *d, struct sl_cell *c) {
	(void)d;
	PART(c)->home->strikes = *c->strikes;
	return true;
}

static uint64_t whose(const struct sl_deciding *d) {
	uint64_t sum = sl_id_number(d->call->id);
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (parts[i].cell.counts && !parts[i].cell.tried && parts[i].cell.leader == i)
			sum += (uint64_t)(parts[i].home - counters + 1) * 0x9e3779b97f4a7c15;
	return sum;
}

static bool recall(struct sl_deciding *d, struct sl_record *record) {
	for (size_t i = record_count; i-- > 0;)
		if (records[i].whose == whose(d)) {
			*record = records[i].said;
			return true;
		}
	return false;
}

static void keep_record(struct sl_deciding *d, const struct sl_record *record) {
	SL_ASSERT(record_count < RECORDS && record->life_ns != 0);
	records[record_count].whose = whose(d);
	records[record_count++].said = *record;
}

static const struct sl_host array = {load, judge, change, find, end, strike, recall, keep_record};

sluice_err array_decide(struct sluice_call *call) {
	struct sl_deciding d = {.host = &array, .call = call};
	struct sluice_decision decisions[SLUICE_ITEMS_MAX];
	struct sluice_bytes who;
	call->err = sl_call_validate(call);
	if (call->err != SLUICE_OK)
		return call->err;
	sl_answer_clear(call);
	d.retried = call->operation == SLUICE_CHARGE && call->id.len != 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sl_cell *c = d.cells[i] = &parts[i].cell;
		sl_cell_set_up(c, call, i, &decisions[i]);
		parts[i].home = counter_of(&call->items[i]);
		for (c->leader = 0; parts[c->leader].home != parts[i].home; c->leader++)
			;
		if (c->terms != NULL && c->terms->penalty_count != 0)
			c->strikes = &parts[i].strikes;
		who = sl_rule_has(c->limit, SL_TAKES_LEASE) ? call->id : call->items[i].member;
		c->who = who.data != NULL ? sl_id_number(who) : 0;
		load(&d, c);
	}
	return call->err = sl_decide(&d);
}

uint32_t array_holders(const struct sluice_item *item, sluice_ns now, struct sluice_holder *list, uint32_t room) {
	return sl_lease_list(&counter_of(item)->stands, now, list, room);
}

void array_open(void) {
	memset(counters, 0, sizeof counters);
	record_count = memory_used = 0;
}
