/* What a call must be, whatever its limits say: nothing here looks at the store. */
#include "base/math.h"
#include "base/operation.h"
#include "decide/decide.h"

static bool takes_id(sluice_operation operation) {
	return operation == SLUICE_CHARGE || sl_operation_is(operation, SL_OPS_LASTING);
}

static bool needs_id(sluice_operation operation) {
	return sl_operation_is(operation, SL_OPS_LASTING) && operation != SLUICE_RESERVE;
}

static bool charges(sluice_operation operation) {
	return sl_operation_is(operation, SL_OPS_CHARGING);
}

static bool reserves(const struct sluice_call *call, const struct sluice_item *item) {
	return (call->operation == SLUICE_RESERVE && (call->ttl_ns != 0 || item->ttl_ns != 0)) ||
	       (call->operation == SLUICE_ACQUIRE && item->ttl_ns != 0);
}

/* Whether an operation is one for the algorithm of a limit. Candidates are charged nothing. */
static inline bool fits(const struct sluice_call *call, const struct sluice_item *item) {
	bool refunds = call->operation == SLUICE_REFUND;
	if (!sl_rule_lacks(item->limit, SL_OF_CHARGES) || item->observed == SLUICE_TRIED)
		return true;
	if ((refunds && !sl_rule_has(item->limit, SL_REFUNDABLE)) ||
	    (reserves(call, item) && !sl_rule_has(item->limit, SL_RESERVABLE)))
		return false;
	if (sl_rule_has(item->limit, SL_TAKES_LEASE))
		return call->operation != SLUICE_CHARGE && call->operation != SLUICE_RESERVE && item->ttl_ns == 0;
	return !sl_rule_has(item->limit, SL_TAKES_MEMBER) || item->member.data != NULL ||
	       !(charges(call->operation) || refunds);
}

static bool ttl_is_valid(sluice_ns ttl_ns) {
	return ttl_ns == 0 || (ttl_ns >= SL_MS_NS && ttl_ns <= SL_WINDOW_NS_MAX);
}

static inline sluice_err validate_item(const struct sluice_call *call, const struct sluice_item *item) {
	if (item->bound != SLUICE_BOUND_NONE)
		return item->limit != NULL && item->bound < SLUICE_BOUNDS ? SLUICE_OK : SLUICE_E_MISUSE;
	if (item->limit == NULL || (item->key.data == NULL && item->key.len != 0) ||
	    (item->member.data == NULL && item->member.len != 0) || !fits(call, item) || (call->upto && item->cost != 0))
		return SLUICE_E_MISUSE;
	bool ranges = ttl_is_valid(item->ttl_ns) && (item->terms == NULL || sl_terms_are_valid(item->terms));
	return ranges ? SLUICE_OK : SLUICE_E_RANGE;
}

static sluice_err validate_id(const struct sluice_call *call) {
	if (!takes_id(call->operation))
		return SLUICE_OK;
	if (call->id.len > SLUICE_ID_BYTES_MAX || (call->id.len == 0 && needs_id(call->operation)))
		return SLUICE_E_RANGE;
	return call->id.data != NULL || call->id.len == 0 ? SLUICE_OK : SLUICE_E_MISUSE;
}

/* That it asks for what its operation is about: a lease, a reservation. */
static sluice_err validate_purpose(const struct sluice_call *call) {
	bool acquires = call->operation == SLUICE_ACQUIRE, found = false;
	if (!acquires && call->operation != SLUICE_RESERVE)
		return SLUICE_OK;
	for (uint32_t i = 0; i < call->item_count; i++)
		found = found || (acquires ? sl_rule_has(call->items[i].limit, SL_TAKES_LEASE)
		                           : call->ttl_ns != 0 || call->items[i].ttl_ns != 0);
	if (acquires)
		return found ? SLUICE_OK : SLUICE_E_MISUSE;
	return found && ttl_is_valid(call->ttl_ns) ? SLUICE_OK : SLUICE_E_RANGE;
}

static bool has_second_member(const struct sluice_call *call) {
	return sl_operation_is(call->operation, SL_OPS_DECIDING) &&
	       sl_items_second_member(call->items, call->item_count) != call->item_count;
}

sluice_err sl_call_validate(const struct sluice_call *call) {
	sluice_err err;
	if (call->item_count > SLUICE_ITEMS_MAX)
		return SLUICE_E_RANGE;
	if (!sl_operation_is(call->operation, SL_OPS_PUBLIC) || (call->items == NULL && call->item_count != 0))
		return SLUICE_E_MISUSE;
	for (uint32_t i = 0; i < call->item_count; i++) {
		err = validate_item(call, &call->items[i]);
		if (err != SLUICE_OK)
			return err;
	}
	if (has_second_member(call))
		return SLUICE_E_MISUSE;
	err = validate_id(call);
	return err == SLUICE_OK ? validate_purpose(call) : err;
}
