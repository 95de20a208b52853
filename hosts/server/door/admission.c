/* A policy's admission. A request has one cost, which all its limits are charged; a proxy can say none, and a request
 * costs 1 there. Two things may be said of single limits:
 *
 *   reserve   its estimate, unless the caller says what the request costs: a request, and the tokens that it will take
 *   cost      a number holds whoever asks; a header is what a proxy's request says of it, in place of a stated cost
 *
 * A request of cost 0 costs nothing at any limit, and one that asks for a part of its cost (`upto`) asks all limits for
 * the same. */
#include "hosts/server/door/admission.h"

#include "algo/step.h"
#include "base/assert.h"
#include "hosts/server/door/ids.h"

/* The cost that a header says; false where it is there and says none. `*said`: it is there. */
static bool read_header(struct sl_admission *admission, const char *name, bool *said, uint32_t *cost) {
	struct sluice_bytes value = {NULL, 0};
	uint64_t number;
	*said = false;
	if (admission->header == NULL || name == NULL)
		return true;
	admission->wrong = name;
	if (!admission->header(admission->data, name, &value))
		return false;
	if (value.data == NULL)
		return true;
	if (!sl_bytes_to_u64(value, &number) || number > UINT32_MAX)
		return false;
	*said = true;
	*cost = (uint32_t)number;
	return true;
}

/* The estimate of one limit; 0 where the request's own cost is it. */
static bool estimate_of(struct sl_admission *admission, const struct sl_policy_reserve *reserve, uint32_t *cost) {
	bool said;
	*cost = 0;
	if (admission->cost_said || admission->upto)
		return true;
	*cost = reserve->estimate;
	if (!read_header(admission, reserve->estimate_header, &said, cost))
		return false;
	if (said && *cost == 0)
		*cost = 1; /* what is expected to cost nothing still is a request */
	return true;
}

/* The cost of one limit that says one, of a request that costs `whole` elsewhere. What the match knows already holds
 * whatever the request says. */
static bool cost_of(struct sl_admission *admission, const struct sl_policy_cost *says, uint32_t whole, uint32_t *cost) {
	bool said;
	if (*cost != 0)
		return true;
	*cost = admission->cost_said || says->cost == 0 ? whole : says->cost;
	return read_header(admission, says->header, &said, cost);
}

void sl_admission_share_costs(struct sluice_call *call, struct sluice_item *items, const uint32_t *costs,
                              uint32_t count) {
	bool same = true, none = false;
	for (uint32_t i = 0; i < count; i++) {
		same = same && costs[i] == costs[0];
		none = none || costs[i] == 0;
	}
	call->cost = count == 0 ? call->cost : same ? costs[0] : none ? 0 : call->cost;
	for (uint32_t i = 0; i < count; i++)
		items[i].cost = costs[i] != call->cost ? costs[i] : 0;
}

/* The costs of all limits, one of which says its own, into their items. */
static bool fill_costs(struct sl_admission *admission, const struct sluice_policy *policy,
                       const struct sluice_match *match, struct sluice_item *items, struct sluice_call *call) {
	uint32_t costs[SLUICE_ITEMS_MAX] = {0};
	for (uint32_t i = 0; i < match->count; i++) {
		const struct sl_policy_cost *says = &sl_policy_limit_at(policy, match->position[i])->cost;
		costs[i] = items[i].cost;
		if (says->on && !cost_of(admission, says, call->cost, &costs[i]))
			return false;
		if (!says->on && costs[i] == 0)
			costs[i] = call->cost;
	}
	sl_admission_share_costs(call, items, costs, match->count);
	return true;
}

void sl_admission_drop_costs(struct sluice_item *items, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		items[i].cost = 0;
}

static bool fill_items(struct sl_admission *admission, const struct sluice_policy *policy,
                       const struct sluice_match *match, struct sluice_item *items, struct sluice_call *call) {
	bool own = false;
	for (uint32_t i = 0; i < match->count; i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(policy, match->position[i]);
		own = own || limit->cost.on;
		if (!limit->reserve.on)
			continue;
		items[i].ttl_ns = limit->reserve.ttl_ns;
		if (!estimate_of(admission, &limit->reserve, &items[i].cost))
			return false;
	}
	if (own && (call->cost == 0 || admission->upto))
		sl_admission_drop_costs(items, match->count);
	else if (own)
		return fill_costs(admission, policy, match, items, call);
	return true;
}

static sluice_operation operation_of(const struct sl_admission *admission, const struct sluice_match *match,
                                     const struct sluice_item *items) {
	bool leases = false, reserves = false;
	for (uint32_t i = 0; i < match->count; i++) {
		leases = leases || (sl_rule_has(items[i].limit, SL_TAKES_LEASE) && items[i].bound == SLUICE_BOUND_NONE);
		reserves = reserves || items[i].ttl_ns != 0;
	}
	if (admission->peek)
		return SLUICE_PEEK;
	return leases ? SLUICE_ACQUIRE : reserves ? SLUICE_RESERVE : SLUICE_CHARGE;
}

bool sl_admission_prepare(struct sl_admission *admission, const struct sluice_policy *policy,
                          const struct sluice_match *match, const uint8_t *candidate_of, struct sluice_item *items,
                          struct sluice_call *call) {
	if (!fill_items(admission, policy, match, items, call))
		return false;
	for (uint32_t i = match->count; i < call->item_count; i++) {
		const struct sluice_item *own = &items[candidate_of[i - match->count]];
		items[i].cost = own->cost;
	}
	call->operation = operation_of(admission, match, items);
	call->id = admission->id;
	call->upto = admission->upto;
	if (sl_admission_holds(call) && call->id.len == 0) {
		sl_make_id(admission->made);
		call->id = sl_slice(admission->made, SL_TICKET_ID_DIGITS);
	}
	return true;
}

/* ---- the ticket -------------------------------------------------------------------------------------------------- */

/* The items that a ticket is of, and their names; the others were charged, and are done with. */
static uint32_t held_items(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, struct sluice_item items[SLUICE_ITEMS_MAX],
                           const char *names[SLUICE_ITEMS_MAX]) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < match->count; i++) {
		const struct sluice_item *item = &call->items[i];
		if (!sl_rule_has(item->limit, SL_TAKES_LEASE) && item->ttl_ns == 0)
			continue;
		names[count] = sluice_policy_limit_name(policy, match->position[i]);
		items[count++] = *item;
	}
	return count;
}

size_t sl_admission_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, char text[SL_TICKET_BYTES_MAX]) {
	struct sluice_item items[SLUICE_ITEMS_MAX];
	const char *names[SLUICE_ITEMS_MAX];
	uint32_t count = held_items(policy, match, call, items, names);
	SL_ASSERT(sl_admission_holds(call) && call->id.len != 0);
	return sl_ticket_write(text, sl_id_number(call->id), sl_slice(NULL, 0), items, names, count);
}
