/* Looking at a cell: what a cost would get, with the companions of the counter; and figures that are out of date. */
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
