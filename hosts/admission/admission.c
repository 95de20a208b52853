/* A policy's admission. A request has one cost, which all its limits are charged; a proxy can say none, and a request
 * costs 1 there. Two things may be said of single limits:
 *
 *   reserve   its estimate, unless the caller says what the request costs: a request, and the tokens that it will take
 *   cost      a number holds whoever asks; a header is what a proxy's request says of it, in place of a stated cost
 *
 * A request of cost 0 costs nothing at any limit, and one that asks for a part of its cost (`upto`) asks all limits for
 * the same. */
#include "hosts/admission/admission.h"

#include "algo/merge.h"
#include "algo/override.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/sha256.h"
#include "hosts/admission/ids.h"
#include "policy/attribute.h"

_Static_assert((int)SL_RETRY_ID_DIGITS == (int)SL_SHA256_DIGITS, "the half of a hash");

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

/* Does the caller say what an item costs? */
static bool is_said(const struct sl_admission *admission, uint32_t item) {
	return admission->costs != NULL ? admission->costs[item] != 0 : admission->cost_said;
}

/* The estimate of one limit; 0 where the request's own cost is it. */
static bool estimate_of(struct sl_admission *admission, const struct sl_policy_reserve *reserve, uint32_t item,
                        uint32_t *cost) {
	bool said;
	*cost = 0;
	if (is_said(admission, item) || admission->upto)
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
static bool cost_of(struct sl_admission *admission, const struct sl_policy_cost *says, uint32_t item, uint32_t whole,
                    uint32_t *cost) {
	bool said;
	if (*cost != 0)
		return true;
	*cost = sl_admission_own_cost(says, is_said(admission, item), whole);
	return read_header(admission, says->header, &said, cost);
}

void sl_admission_put_no_cost(struct sl_out *out, const char *header) {
	sl_out_str(out, header);
	sl_out_str(out, " must be a whole number 0..4294967295, on one line: what the request costs");
}

void sl_admission_put_repeated(struct sl_out *out, struct sluice_bytes name) {
	sl_out_str(out, "attribute ");
	sl_out_quoted(out, name, SLUICE_NAME_BYTES_MAX);
	sl_out_str(out, " is given twice: expected each once");
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

/* The limit of the policy that an item is of; NULL: it is given in notation. */
static const struct sl_policy_limit *limit_of(const struct sluice_policy *policy, const struct sluice_match *match,
                                              uint32_t i) {
	return match->position[i] == SL_POSITION_NOTATION ? NULL : sl_policy_limit_at(policy, match->position[i]);
}

/* The costs of all limits, one of which says its own, into their items. */
static bool fill_costs(struct sl_admission *admission, const struct sluice_policy *policy,
                       const struct sluice_match *match, struct sluice_item *items, struct sluice_call *call) {
	uint32_t costs[SLUICE_ITEMS_MAX] = {0};
	for (uint32_t i = 0; i < match->count; i++) {
		const struct sl_policy_limit *limit = limit_of(policy, match, i);
		uint32_t whole = admission->costs == NULL ? call->cost : admission->costs[i] != 0 ? admission->costs[i] : 1;
		costs[i] = items[i].cost;
		bool says = limit != NULL && limit->cost.on;
		if (says && !cost_of(admission, &limit->cost, i, whole, &costs[i]))
			return false;
		if (!says && costs[i] == 0)
			costs[i] = whole;
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
	if (admission->costs == NULL && (policy == NULL || !sl_policy_has_costs(policy))) /* as in most */
		return true;
	for (uint32_t i = 0; i < match->count; i++) {
		const struct sl_policy_limit *limit = limit_of(policy, match, i);
		if (limit == NULL)
			continue;
		own = own || limit->cost.on;
		if (!limit->reserve.on)
			continue;
		items[i].ttl_ns = limit->reserve.ttl_ns;
		if (!estimate_of(admission, &limit->reserve, i, &items[i].cost))
			return false;
	}
	if (own && (call->cost == 0 || admission->upto))
		sl_admission_drop_costs(items, match->count);
	else if (own || admission->costs != NULL)
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
		call->id = sl_make_id(admission->made);
	}
	return true;
}

struct sluice_decision sl_admission_unable(const struct sluice_match *match, uint32_t denier) {
	return (struct sluice_decision){.index = (int32_t)denier,
	                                .quota = match->items[denier].limit->derived[SL_CAPACITY],
	                                .retry_after_ns = SL_UNABLE_RETRY_NS};
}

void sl_admission_fall_back(const struct sluice_policy *policy, const struct sluice_match *match,
                            struct sluice_call *call) {
	int32_t denier = sl_policy_denier(policy, match);
	call->merged = denier >= 0 ? sl_admission_unable(match, (uint32_t)denier) : sl_merge_nothing();
	call->granted = call->merged.allowed ? call->cost : 0;
}

static size_t end_of(struct sluice_bytes text, const char *buffer, size_t used) {
	if (text.len == 0) /* data may be NULL */
		return used;
	const char *end = (const char *)text.data + text.len;
	return end > buffer + used && end <= buffer + SLUICE_MATCH_BYTES_MAX ? (size_t)(end - buffer) : used;
}

size_t sl_admission_match_end(const struct sluice_match *match, const char *buffer, size_t used) {
	for (uint32_t i = 0; i < match->count; i++) {
		used = end_of(match->items[i].key, buffer, used);
		used = end_of(match->items[i].member, buffer, used);
	}
	return used;
}

struct sluice_bytes sl_admission_retry_id(const struct sluice_attribute *attributes, size_t count,
                                          struct sluice_bytes said, struct sl_out *scratch,
                                          char digits[SL_RETRY_ID_DIGITS]) {
	for (size_t i = 0; i < count; i++) {
		enum sl_attribute attribute = sl_attribute_find(attributes[i].name);
		if (attribute == SL_ATTRIBUTE_OTHER || attribute == SL_ATTRIBUTE_IP)
			continue;
		sl_out_bytes(scratch, attributes[i].value.data, attributes[i].value.len);
		sl_out_char(scratch, '\n'); /* in no head's value */
	}
	sl_out_bytes(scratch, said.data, said.len);
	SL_ASSERT(!scratch->overflow);
	sl_sha256_hex(sl_slice(scratch->start, sl_out_len(scratch)), digits);
	return sl_slice(digits, SL_RETRY_ID_DIGITS / 2);
}

/* ---- the ticket -------------------------------------------------------------------------------------------------- */

static bool is_held(const struct sluice_item *item, bool observed) {
	return (sl_rule_has(item->limit, SL_TAKES_LEASE) || item->ttl_ns != 0) && (observed || item->observed == 0);
}

/* Writes the ticket of what is held; what else was charged is done with. 0: nothing of the kind is held. */
static size_t write_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, bool observed, char text[SL_TICKET_BYTES_MAX]) {
	struct sluice_item items[SLUICE_ITEMS_MAX];
	const char *names[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < match->count; i++) {
		if (!is_held(&call->items[i], observed))
			continue;
		names[count] = sluice_policy_limit_name(policy, match->position[i]);
		items[count++] = call->items[i];
	}
	if (count == 0)
		return 0;
	return sl_ticket_write(text, sl_id_number(call->id), sl_slice(NULL, 0), items, names, count);
}

size_t sl_admission_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, size_t most, char text[SL_TICKET_BYTES_MAX]) {
	SL_ASSERT(sl_admission_holds(call) && call->id.len != 0);
	size_t len = write_ticket(policy, match, call, true, text);
	return len <= most ? len : write_ticket(policy, match, call, false, text);
}

void sl_admission_deny_untold(struct sluice_call *call) {
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		uint64_t capacity = item->limit->derived[SL_CAPACITY];
		call->each[i] = (struct sluice_decision){.allowed = true,
		                                         .index = (int32_t)i,
		                                         .quota = capacity,
		                                         .remaining = (uint32_t)sl_min(capacity, UINT32_MAX)};
		if (is_held(item, true))
			sl_decide_bound(&call->each[i], SLUICE_BOUND_KEY, SLUICE_NEVER);
		if (item->observed == 0)
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
}

/* ---- quotas of keys' own ----------------------------------------------------------------------------------------- */

/* Of those that are not buckets only another quota shows. What gives back is done by the limit even where the key is
 * unlimited: the decision says by which. */
const struct sluice_limit *sl_admission_limit(struct sluice_store *store, const struct sluice_item *item,
                                              const struct sluice_decision *decision, sluice_ns now,
                                              struct sluice_limit *own) {
	const struct sluice_limit *limit = item->limit;
	bool other = decision->quota != limit->derived[SL_CAPACITY];
	struct sluice_override found;
	if (!sl_rule_has(limit, SL_HAS_COUNTER))
		return limit;
	if (store == NULL && !sl_own_is_unlimited(limit->derived[SL_CAPACITY], decision))
		return limit;
	if (store == NULL) {
		*own = *limit;
		return sl_own_apply(&(struct sl_own){.unlimited = true}, own) ? own : limit;
	}
	if (!(other || sl_rule_has(limit, SL_DRAINS)) ||
	    sluice_override_get(store, limit, item->key, now, &found) != SLUICE_OK ||
	    found.limit.derived[SL_CAPACITY] != decision->quota)
		return limit;
	*own = found.limit;
	return own;
}
