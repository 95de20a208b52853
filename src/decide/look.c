/* Looking at a cell: what a cost would get, with the companions of the counter; figures that are out of date; and what
 * is told of it to people. When units return is found by asking what larger costs would wait for: so what is told is
 * what will be decided, whatever the algorithm. Few are asked, for somebody's lock is held: of leases and members the
 * ends are read, of others what is told to count says near which cost to look. */
#include "algo/seats.h"
#include "base/math.h"
#include "decide/within.h"

void sl_cell_judge(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, struct sluice_decision *decision) {
	d->host->judge(d, c, cost, false, decision);
	if (c->strikes != NULL)
		sl_strikes_judge(c->terms, c->strikes, d->call->now, cost, decision);
}

/* As sl_cell_judge(), for somebody who has nothing in the counter. */
static void judge_stranger(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, struct sluice_decision *decision) {
	c->who = c->counter.who = 0;
	sl_cell_judge(d, c, cost, decision);
}

/* A limit that denies, and whose member or lease another limit has put into their counter, is asked as by a stranger:
 * who counts already would be admitted at once. */
void sl_cell_look(struct sl_deciding *d, struct sl_cell *c) {
	struct sluice_decision left;
	d->host->load(d, c);
	sl_cell_judge(d, c, c->decision->allowed ? 0 : c->cost, &left);
	if (!c->decision->allowed && left.allowed && c->who != 0)
		judge_stranger(d, c, c->cost, &left);
	c->decision->quota = left.quota;
	c->decision->remaining = left.remaining;
	c->decision->reset_after_ns = left.reset_after_ns;
	if (!c->decision->allowed)
		c->decision->retry_after_ns = left.retry_after_ns;
}

sluice_ns sl_cell_wait(struct sl_deciding *d, struct sl_cell *c, uint64_t more) {
	const struct sluice_limit *limit = c->limit;
	uint64_t cost = (uint64_t)c->decision->remaining + more;
	struct sluice_limit full;
	struct sluice_decision next;
	SL_ASSERT(c->counts && more != 0 && cost <= c->decision->quota);
	if (sl_rule_has(limit, SL_TAKES_MEMBER)) {
		/* whatever its cost, who is counted takes one place: as if there were no more than are taken */
		full = *limit;
		full.quota -= (uint32_t)(cost - 1);
		full.derived[SL_CAPACITY] = full.quota;
		c->limit = &full;
	}
	judge_stranger(d, c, cost, &next);
	c->limit = limit;
	return next.retry_after_ns;
}

/* ---- when units return ----------------------------------------------------------------------------------------- */

/* In whole milliseconds, since these are what people are told; what returns within one is told together. False: that
 * was the last. */
static bool tell_return(struct sluice_inspection *told, sluice_ns wait, uint64_t remaining) {
	told->returns[told->return_count++] = (struct sluice_return){wait, (uint32_t)remaining};
	return told->return_count < SLUICE_RETURNS_MAX;
}

static sluice_ns whole_ms(sluice_ns wait) {
	return (wait + SL_MS_NS - 1) / SL_MS_NS * SL_MS_NS;
}

/* Leases and members, whose ends stand there: each end is a return, once fewer count than the quota. */
static void tell_ends(struct sl_deciding *d, struct sl_cell *c, struct sluice_inspection *told) {
	const uint64_t quota = c->decision->quota;
	sluice_ns wait = sl_cell_wait(d, c, 1);
	const struct sl_seats *p = sl_seats_look(&c->counter, d->call->now);
	while (wait != 0 && wait < SLUICE_NEVER - SL_MS_NS) {
		wait = whole_ms(wait);
		uint64_t left = p->held - sl_min(p->held, sl_seats_ended(p, p->t + wait));
		if (left >= quota || !tell_return(told, wait, sl_min(quota - left, UINT32_MAX)) || left == 0)
			return;
		wait = sl_seats_wait_for(p, sl_seats_next_end(p, p->t + wait));
	}
}

/* How many units will have returned by an instant, if what is told of charges is all there is to it; often it is. */
static uint64_t guess_returned(const struct sl_cell *c, const struct sluice_inspection *told, sluice_ns instant) {
	uint64_t quota = c->decision->quota, over = 0;
	for (uint32_t i = 0; i < told->charge_count && told->charges[i].until_ns <= instant; i++)
		over += told->charges[i].cost;
	return sl_min(quota + over > told->used ? quota + over - told->used : 0, quota) -
	       sl_min(c->decision->remaining, quota);
}

/* The most units, low .. high, that have returned within a wait; `low` have. Looks near a guess first. */
static uint64_t most_within(struct sl_deciding *d, struct sl_cell *c, uint64_t low, uint64_t high, uint64_t guess,
                            sluice_ns wait) {
	uint64_t step = 1, probe;
	guess = sl_max(low, sl_min(guess, high));
	bool up = guess == low || sl_cell_wait(d, c, guess) <= wait;
	low = up ? guess : low;
	high = up ? high : guess - 1;
	for (; low < high; step *= 2) { /* away from the guess, twice as far each time, until it is passed */
		probe = up ? low + sl_min(step, high - low) : high - sl_min(step, high - low - 1);
		bool within = sl_cell_wait(d, c, probe) <= wait;
		low = within ? probe : low;
		high = within ? high : probe - 1;
		if (within != up)
			break;
	}
	while (low < high) {
		probe = high - (high - low) / 2;
		if (sl_cell_wait(d, c, probe) <= wait)
			low = probe;
		else
			high = probe - 1;
	}
	return low;
}

static void tell_returns(struct sl_deciding *d, struct sl_cell *c, struct sluice_inspection *told) {
	const uint64_t most = sl_min(c->decision->quota, UINT32_MAX); /* that can be seen to be left */
	const uint64_t gone = most - sl_min(c->decision->remaining, most);
	const sluice_ns t = sl_max(d->call->now, told->last_ns);
	uint64_t back = 0, step = 1;
	if (gone == 0 || c->decision->bound != SLUICE_BOUND_NONE ||
	    (sl_rule_has(c->limit, SL_TAKES_MEMBER) && c->limit->quota > SL_EXACT_MEMBERS))
		return;
	if (sl_rule_has(c->limit, SL_HAS_SEATS) && c->there) {
		tell_ends(d, c, told);
		return;
	}
	while (back < gone) {
		sluice_ns wait = sl_cell_wait(d, c, back + 1);
		if (wait == 0 || wait >= SLUICE_NEVER - SL_MS_NS)
			return;
		wait = whole_ms(wait);
		uint64_t guess = guess_returned(c, told, wait > UINT64_MAX - t ? UINT64_MAX : t + wait);
		uint64_t low = most_within(d, c, back + 1, gone, guess > back ? guess : back + step, wait);
		step = low - back;
		back = low;
		if (!tell_return(told, wait, c->decision->remaining + back))
			return;
	}
}

void sl_cell_inspect(struct sl_deciding *d, struct sl_cell *c, struct sluice_inspection *told) {
	*told = (struct sluice_inspection){.decision = *c->decision};
	if (!c->counts)
		return;
	if (c->there)
		sl_step_describe(c->limit, &c->counter, d->call->now, told);
	if (c->strikes != NULL)
		told->standing = sl_strikes_stand(c->terms, c->strikes, d->call->now);
	tell_returns(d, c, told);
}
