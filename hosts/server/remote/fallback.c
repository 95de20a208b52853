/* What a call gets when nobody answers for some or all of its limits.
 *
 *   a limit that did answer denies            denied: no answer could have changed it
 *   one that failed says on-error: deny       SLUICE_E_AWAY; the door denies
 *   some say local                            those are decided by counters of this process, the others stand aside
 *   all say allow, and others have answered   as those others have it
 *   nothing is left to decide by              SLUICE_E_AWAY; the door lets the request pass
 *   a node refused what the caller has said   SLUICE_E_MISUSE; he is told, and on-error is silent
 *
 * A reset that did not reach its counter is a failure whatever limits say, and so is a refund, unless it is decided by
 * local counters. */
#include "hosts/server/remote/fallback.h"

static uint8_t on_error(const struct sl_remote_call *remote, uint32_t i) {
	return remote->call->facts[i].on_error;
}

static bool is_enforced(const struct sl_remote_call *remote, uint32_t i) {
	return remote->call->call.items[i].observed == 0;
}

bool sl_fallback_passes(const struct sl_remote_call *remote) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (remote->items[i].state != SL_ITEM_FREE && is_enforced(remote, i) && on_error(remote, i) == SL_ON_ERROR_DENY)
			return false;
	return true;
}

/* What the items are, as far as this matters here. */
struct survey {
	uint32_t decided, failed, local;
	bool denied, deny; /* by an answer; a failed one says so */
};

static struct survey survey(const struct sl_remote_call *remote) {
	struct survey s = {0};
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		uint8_t state = remote->items[i].state;
		if (state == SL_ITEM_FREE)
			continue;
		if (state != SL_ITEM_FAILED) {
			s.decided += is_enforced(remote, i);
			s.denied = s.denied || (is_enforced(remote, i) && !remote->call->call.each[i].allowed);
			continue;
		}
		s.failed++;
		s.local += on_error(remote, i) == SL_ON_ERROR_LOCAL;
		s.deny = s.deny || (is_enforced(remote, i) && on_error(remote, i) == SL_ON_ERROR_DENY);
	}
	return s;
}

static void stand_aside(struct sl_remote_call *remote) {
	struct sluice_call *call = &remote->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (remote->items[i].state != SL_ITEM_FAILED)
			continue;
		call->each[i] = sl_plan_full(call->items[i].limit, (uint8_t)i);
		remote->call->undecided.failed |= (uint32_t)1 << i;
		if (is_enforced(remote, i) && on_error(remote, i) == SL_ON_ERROR_ALLOW)
			remote->call->undecided.items |= (uint32_t)1 << i;
	}
}

static bool decide_locally(struct sl_remote_call *remote, struct sluice_store *store) {
	struct sluice_call *call = &remote->call->call, local = *call;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	uint8_t of[SLUICE_ITEMS_MAX];
	local.items = items;
	local.each = each;
	local.item_count = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (remote->items[i].state == SL_ITEM_FAILED && on_error(remote, i) == SL_ON_ERROR_LOCAL) {
			of[local.item_count] = (uint8_t)i;
			items[local.item_count++] = call->items[i];
		}
	if (sluice_decide(store, &local) != SLUICE_OK)
		return false;
	call->granted = local.granted;
	call->repeated = local.repeated;
	call->found = local.found;
	remote->has_outcome = true;
	for (uint32_t k = 0; k < local.item_count; k++) {
		call->each[of[k]] = each[k];
		call->each[of[k]].index = of[k];
		remote->items[of[k]].state = SL_ITEM_LOCAL;
		remote->call->undecided.failed &= ~((uint32_t)1 << of[k]);
	}
	return true;
}

sluice_err sl_fallback(struct sl_remote_call *remote, struct sluice_store *store) {
	struct survey s = survey(remote);
	sluice_operation operation = remote->call->call.operation;
	if (remote->refused)
		return SLUICE_E_MISUSE;
	remote->call->undecided = (struct sl_undecided){.refused = remote->told_error, .local = s.local != 0};
	if (s.failed == 0)
		return SLUICE_OK;
	stand_aside(remote);
	if (operation == SLUICE_RESET) {
		if (s.local != 0)
			(void)decide_locally(remote, store);
		return SLUICE_E_AWAY;
	}
	if (s.denied && operation != SLUICE_REFUND)
		return SLUICE_OK;
	if (s.deny)
		return SLUICE_E_AWAY;
	if (s.local != 0)
		return decide_locally(remote, store) ? SLUICE_OK : SLUICE_E_AWAY;
	return s.decided != 0 && operation != SLUICE_REFUND ? SLUICE_OK : SLUICE_E_AWAY;
}
