/* Denials that have consequences (struct sluice_terms): a charge of what was denied, under count-denied; a strike,
 * under an escalation.
 *
 * A denial stands, whether or not there is room to note it: had it become an error, a host that allows on errors would
 * let through whom the limit has denied. */
#include "decide/within.h"

#include "base/assert.h"

static bool counts_denied(const struct sl_cell *c, bool allowed) {
	return c->counts && !c->tried && c->cost != 0 && c->terms != NULL && c->terms->count_denied &&
	       c->limit->quota != 0 && /* of which nothing can be charged */
	       sl_rule_has(c->limit, SL_COUNTS_DENIED) && !(allowed && c->decision->allowed);
}

/* Charges a denied cost to one counter. Returns whether it was. */
static bool force(struct sl_deciding *d, struct sl_cell *c) {
	struct sl_shortage ignored;
	for (uint32_t i = 0; i < d->call->item_count; i++)
		d->cells[i]->charged = d->cells[i]->forced = false;
	SL_ASSERT(c->counts && !c->tried && c->cost != 0);
	c->charged = c->forced = true;
	return d->host->change(d, SL_CHARGE, &ignored) == SLUICE_OK;
}

/* Of the group of the i-th cell, whose cost is charged: the greatest, as of those who admit (decide.h, I1). */
static struct sl_cell *find_denied(struct sl_deciding *d, uint32_t i, bool allowed) {
	struct sl_cell *charger = d->cells[i];
	for (uint32_t k = i + 1; k < d->call->item_count; k++) {
		struct sl_cell *c = d->cells[k];
		if (c->leader == charger->leader && c->cost > charger->cost && counts_denied(c, allowed))
			charger = c;
	}
	return charger;
}

static void count_all(struct sl_deciding *d, bool allowed) {
	uint32_t done = 0; /* a bit for each leader */
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (allowed && d->cells[i]->charged)
			done |= 1u << d->cells[i]->leader;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct sl_cell *c = d->cells[i];
		if (!counts_denied(c, allowed) || (done >> c->leader & 1) != 0)
			continue;
		done |= 1u << c->leader;
		c = find_denied(d, i, allowed);
		if (!force(d, c))
			continue;
		for (uint32_t k = 0; k < d->call->item_count; k++)
			if (d->cells[k]->counts && d->cells[k]->leader == c->leader)
				sl_cell_look(d, d->cells[k]);
	}
}

/* Notes a strike, and says what it makes of all limits of that counter. */
static void strike(struct sl_deciding *d, uint32_t index) {
	struct sl_cell *c = d->cells[index];
	struct sl_strikes before = *c->strikes;
	bool penalized;
	SL_ASSERT(!c->tried && c->cost != 0);
	penalized = sl_strikes_add(c->terms, c->strikes, d->call->now);
	if (!d->host->strike(d, c)) {
		*c->strikes = before;
		return;
	}
	if (penalized)
		d->call->penalized |= (uint16_t)(1u << index);
	for (uint32_t k = 0; k < d->call->item_count; k++) {
		struct sl_cell *other = d->cells[k];
		if (other->leader != c->leader || other->strikes == NULL)
			continue;
		if (other != c)
			*other->strikes = *c->strikes;
		sl_strikes_judge(other->terms, other->strikes, d->call->now, other->cost, other->decision);
	}
}

/* Whether an enforced limit of a counter locks the key out, by terms of its own: then no other limit of that counter
 * notes a denial, and terms with shorter penalties do not end the longer one. */
static bool is_shut_out(const struct sl_deciding *d, uint8_t leader) {
	bool shut_out = false;
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		const struct sl_cell *c = d->cells[i];
		if (c->leader == leader && c->strikes != NULL && !c->observed)
			shut_out |= sl_strikes_stand(c->terms, c->strikes, d->call->now).ends_after_ns != 0;
	}
	return shut_out;
}

void sl_note_denials(struct sl_deciding *d, bool allowed) {
	uint32_t done = 0;
	count_all(d, allowed);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		uint8_t leader = d->cells[i]->leader;
		if (!d->cells[i]->struck || (done >> leader & 1) != 0)
			continue;
		done |= 1u << leader;
		SL_ASSERT(d->cells[i]->strikes != NULL && !d->cells[i]->decision->allowed);
		if (!is_shut_out(d, leader))
			strike(d, i);
	}
}
