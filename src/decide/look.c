/* Looking at a cell: what a cost would get, with the companions of the counter; figures that are out of date; and what
 * is told of it to people. When units return is found by asking what larger costs would wait for: so what is told is
 * what will be decided, whatever the algorithm. */
#include "base/math.h"
#include "decide/within.h"

void sl_cell_judge(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, struct sluice_decision *decision) {
	d->host->judge(d, c, cost, false, decision);
	if (c->strikes != NULL)
		sl_strikes_judge(c->terms, c->strikes, d->call->now, cost, decision);
}

void sl_cell_look(struct sl_deciding *d, struct sl_cell *c) {
	struct sluice_decision left;
	d->host->load(d, c);
	sl_cell_judge(d, c, c->decision->allowed ? 0 : c->cost, &left);
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
	c->who = c->counter.who = 0;
	if (sl_rule_has(limit, SL_TAKES_MEMBER) && limit->quota <= SL_EXACT_MEMBERS) {
		/* whatever its cost, who is counted takes one place: as if there were no more than are taken */
		full = *limit;
		full.quota -= (uint32_t)(cost - 1);
		full.derived[SL_CAPACITY] = full.quota;
		c->limit = &full;
	}
	sl_cell_judge(d, c, cost, &next);
	c->limit = limit;
	return next.retry_after_ns;
}

/* In whole milliseconds, since these are what people are told; what returns within one is told together. */
static void tell_returns(struct sl_deciding *d, struct sl_cell *c, struct sluice_inspection *told) {
	uint64_t most = sl_min(c->decision->quota, UINT32_MAX), back = 0; /* that can be seen to be left */
	uint64_t gone = most - sl_min(c->decision->remaining, most);
	if (c->decision->bound != SLUICE_BOUND_NONE ||
	    (sl_rule_has(c->limit, SL_TAKES_MEMBER) && c->limit->quota > SL_EXACT_MEMBERS))
		return;
	while (back < gone && told->return_count < SLUICE_RETURNS_MAX) {
		sluice_ns wait = sl_cell_wait(d, c, back + 1);
		uint64_t low = back + 1, high = gone;
		if (wait == 0 || wait >= SLUICE_NEVER - SL_MS_NS)
			return;
		wait = (wait + SL_MS_NS - 1) / SL_MS_NS * SL_MS_NS;
		while (low < high) {
			uint64_t middle = high - (high - low) / 2;
			if (sl_cell_wait(d, c, middle) <= wait)
				low = middle;
			else
				high = middle - 1;
		}
		back = low;
		told->returns[told->return_count++] =
			(struct sluice_return){wait, (uint32_t)(c->decision->remaining + back)};
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
