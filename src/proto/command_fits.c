/* Which limits an operation can't be asked of: leases end by their ids, members are no amounts, and not every charge
 * can be corrected. What is wrong is decided once, and worded for each kind of door. */
#include "algo/rule.h"
#include "algo/traits.h"
#include "proto/command.h"

static const struct sl_misfit no_lease = {
	"concurrency is acquired and released: SLUICE.ACQUIRE",
	"concurrency is acquired and released: POST /v1/acquire",
	false,
};
static const struct sl_misfit no_member = {
	"distinct counts members: expected MEMBER and the member, as in SLUICE.%s key 1 MEMBER 192.0.2.1 \"distinct "
	"50/1h\"",
	"distinct counts members: POST /v1/%s with \"member\"",
	false,
};
static const struct sl_misfit no_member_refund = {
	"distinct counts members: expected MEMBER and the member, as in SLUICE.%s key 1 MEMBER 192.0.2.1 \"distinct "
	"50/1h\"",
	"a refund of distinct forgets a member: POST /v1/%s with \"member\"",
	false,
};
static const struct sl_misfit second_member = {SL_SECOND_MEMBER_TEXT, SL_SECOND_MEMBER_TEXT, false};
static const struct sl_misfit not_reserved = {
	"%s is not reserved: SLUICE.CHECK decides it at once",
	"%s is not reserved: POST /v1/check decides it at once",
	true,
};
static const struct sl_misfit not_refunded = {
	"%s takes no refund: SLUICE.RELEASE ends a lease, SLUICE.RESET all that is counted",
	"%s takes no refund: POST /v1/release ends a lease, POST /v1/reset all that is counted",
	true,
};
static const struct sl_misfit not_held = {
	"distinct is not held: SLUICE.CHECK with MEMBER decides it at once",
	NULL,
	false,
};
static const struct sl_misfit no_leases = {
	"no limit of concurrency among the limits: expected one, or SLUICE.CHECK",
	"limits has none of concurrency: POST /v1/check",
	false,
};
static const struct sl_misfit no_holders = {
	"expected one limit of concurrency: others have no holders",
	"limits[0] must be concurrency: nothing else is held",
	false,
};
static const struct sl_misfit no_end = {"ttl_ms '0': expected a whole number from 1 to 316224000000", NULL, false};
static const struct sl_misfit no_slice = {"a lease is of one limit, neither OBSERVED nor TRIED", NULL, false};

static const struct sl_misfit *of_member(enum sl_operation operation, const struct sluice_item *item) {
	if (sl_operation_is(operation, SL_OPS_HOLDING))
		return &not_held;
	if (item->member.data != NULL || !sl_forms[operation].members)
		return NULL;
	return operation == SL_OP_REFUND ? &no_member_refund : &no_member;
}

static const struct sl_misfit *of_limit(enum sl_operation operation, const struct sluice_call *call,
                                        const struct sluice_item *item) {
	if (item->observed == SLUICE_TRIED || !sl_rule_lacks(item->limit, SL_OF_CHARGES))
		return NULL;
	if (operation == SL_OP_REFUND && !sl_rule_has(item->limit, SL_REFUNDABLE))
		return &not_refunded;
	if (sl_rule_has(item->limit, SL_TAKES_LEASE) && !sl_forms[operation].leases)
		return &no_lease;
	if (operation == SL_OP_RESERVE && (call->ttl_ns != 0 || item->ttl_ns != 0) &&
	    !sl_rule_has(item->limit, SL_RESERVABLE))
		return &not_reserved;
	return sl_rule_has(item->limit, SL_TAKES_MEMBER) ? of_member(operation, item) : NULL;
}

const struct sl_misfit *sl_command_misfit(enum sl_operation operation, const struct sluice_call *call, int *index) {
	bool leases = false, ends = call->ttl_ns != 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sl_misfit *misfit = of_limit(operation, call, &call->items[i]);
		*index = (int)i;
		if (misfit != NULL)
			return misfit;
		ends = ends || call->items[i].ttl_ns != 0;
		leases = leases || (sl_rule_has(call->items[i].limit, SL_TAKES_LEASE) &&
		                    call->items[i].observed != SLUICE_TRIED);
	}
	const uint32_t second = sl_operation_is(operation, SL_OPS_DECIDING)
	                            ? sl_items_second_member(call->items, call->item_count)
	                            : call->item_count;
	*index = second != call->item_count ? (int)second : -1;
	if (second != call->item_count)
		return &second_member;
	if (operation == SL_OP_HOLDERS && (!leases || call->item_count != 1))
		return &no_holders;
	if (operation == SL_OP_LEASE && (call->item_count != 1 || call->items[0].observed != 0))
		return &no_slice;
	if (operation == SL_OP_RESERVE && !ends)
		return &no_end;
	return operation == SL_OP_ACQUIRE && !leases ? &no_leases : NULL;
}
