/* A policy's admission. At most doors a request has one cost, which all its limits are charged; a proxy can say none,
 * and a request costs 1 there. What it reserves is of another kind (a request, and the tokens that it will take): so
 * the policy's estimate is the cost of those limits alone, unless the caller says what the request costs. */
#include "hosts/server/door/admission.h"

#include "algo/step.h"
#include "base/assert.h"
#include "hosts/server/door/ids.h"

/* The estimate of one limit; 0 where the request's own cost is it. */
static bool estimate_of(struct sl_admission *admission, const struct sl_policy_reserve *reserve, uint32_t *cost) {
	struct sluice_bytes said = {NULL, 0};
	uint64_t number;
	*cost = 0;
	if (admission->cost_said || admission->upto)
		return true;
	*cost = reserve->estimate;
	if (admission->header != NULL && reserve->estimate_header != NULL)
		said = admission->header(admission->data, reserve->estimate_header);
	if (said.data == NULL)
		return true;
	admission->wrong = reserve->estimate_header;
	if (!sl_bytes_to_u64(said, &number) || number > UINT32_MAX)
		return false;
	*cost = number != 0 ? (uint32_t)number : 1; /* what is expected to cost nothing still is a request */
	return true;
}

static bool fill_item(struct sl_admission *admission, const struct sl_policy_limit *limit, struct sluice_item *item) {
	if (!limit->reserve.on)
		return true;
	item->ttl_ns = limit->reserve.ttl_ns;
	return estimate_of(admission, &limit->reserve, &item->cost);
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
	for (uint32_t i = 0; i < match->count; i++)
		if (!fill_item(admission, sl_policy_limit_at(policy, match->position[i]), &items[i]))
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
