/* What of a batch's calls is decided here, at once: by slices and by denials that still hold. The rest is asked for
 * (remote_call.c). */
#include "hosts/server/remote/start.h"

#include "algo/rule.h"
#include "algo/step.h"
#include "base/operation.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/shared.h"

#include <stdlib.h>

static inline struct sl_fleet *fleet_of(const struct sl_remote_call *remote) {
	return remote->batch->fleet;
}

static inline bool is_enforced(const struct sl_remote_call *remote, uint32_t i) {
	return remote->call->call.items[i].observed == 0;
}

static void slice_decided(struct sl_quota_slice_wait *wait, enum sl_quota_slice_result result,
                          const struct sluice_decision *decision) {
	struct sl_remote_call *remote = wait->owner;
	struct sl_remote_item *item =
		(struct sl_remote_item *)(void *)((char *)wait - offsetof(struct sl_remote_item, wait));
	uint32_t i = (uint32_t)(item - remote->items);
	item->state = result == SL_QUOTA_SLICE_TAKEN    ? SL_ITEM_TAKEN
	              : result == SL_QUOTA_SLICE_DENIED ? SL_ITEM_DENIED
	                                                : SL_ITEM_TO_ASK;
	remote->waited = true;
	if (result != SL_QUOTA_SLICE_NONE) {
		remote->call->call.each[i] = *decision;
		remote->call->call.each[i].index = (int32_t)i;
	}
	if (--remote->pending == 0)
		sl_remote_call_go_on(remote);
}

/* Whether two items meet in one counter, which a call charges once: slices would be charged twice. */
static bool some_meet(const struct sluice_call *call) {
	for (uint32_t i = 1; i < call->item_count; i++)
		for (uint32_t k = 0; k < i; k++)
			if (memcmp(call->items[i].limit->derived, call->items[k].limit->derived, 2 * sizeof(uint64_t)) == 0 &&
			    sl_bytes_equal(call->items[i].key, call->items[k].key))
				return true;
	return false;
}

/* Calls with observed limits have to ask in any case, and what those see is the counter as it is. */
static bool may_slice(const struct sl_remote_call *remote) {
	const struct sluice_call *call = &remote->call->call;
	if (fleet_of(remote)->slices == NULL || remote->call->dated || !sl_operation_is(call->operation, SL_OPS_PLAIN))
		return false;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (!is_enforced(remote, i))
			return false;
	return !some_meet(call);
}

static enum sl_quota_slice_result try_slice(struct sl_remote_call *remote, uint32_t i, sluice_ns now) {
	const struct sl_pending_call *call = remote->call;
	struct sl_remote_item *item = &remote->items[i];
	struct sl_quota_slices *slices = fleet_of(remote)->slices;
	const struct sl_plan_item plan = sl_remote_plan(remote, i);
	if (!sl_quota_slice_suits(plan.item->limit))
		return SL_QUOTA_SLICE_NONE;
	if (call->call.operation == SLUICE_PEEK)
		return sl_quota_slice_peek(slices, item->tag, call->call.cost, now, &call->call.each[i]);
	item->wait = (struct sl_quota_slice_wait){
		.until = remote->batch->deadline, .cost = call->call.cost, .decided = slice_decided, .owner = remote};
	return sl_quota_slice_take(slices, &plan, item->tag, now, &item->wait, &call->call.each[i]);
}

static void look_here(struct sl_remote_call *remote, uint32_t i, bool slice, sluice_ns now) {
	struct sluice_call *call = &remote->call->call;
	struct sl_remote_item *item = &remote->items[i];
	enum sl_quota_slice_result result = slice ? try_slice(remote, i, now) : SL_QUOTA_SLICE_NONE;
	if (result == SL_QUOTA_SLICE_WAIT) {
		item->state = SL_ITEM_WAITS;
		remote->pending++;
	} else if (result == SL_QUOTA_SLICE_TAKEN) {
		item->state = SL_ITEM_TAKEN;
	} else if (result == SL_QUOTA_SLICE_DENIED ||
	           sl_denial_cache_find(fleet_of(remote)->denials, item->tag, call->cost, now, &call->each[i])) {
		item->state = SL_ITEM_DENIED;
	}
	call->each[i].index = (int32_t)i;
}

/* What is given back makes what is known here wrong. */
static void give_back_here(struct sl_remote_call *remote, uint32_t i, sluice_ns now) {
	struct sl_fleet *fleet = fleet_of(remote);
	sl_denial_cache_forget(fleet->denials, remote->items[i].tag);
	if (fleet->slices == NULL)
		return;
	if (remote->call->call.operation == SLUICE_REFUND)
		sl_quota_slice_settle(fleet->slices, remote->items[i].tag, now);
	else
		sl_quota_slice_forget(fleet->slices, remote->items[i].tag);
}

/* A limit has met a bound before: it denies, and nobody is asked. */
static bool is_blocked(struct sl_remote_call *remote) {
	const struct sluice_call *call = &remote->call->call;
	if (!sl_decide_blocked(call))
		return false;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->items[i].bound != SLUICE_BOUND_NONE)
			remote->items[i].state = SL_ITEM_DENIED;
	return true;
}

static void begin(struct sl_remote_call *remote) {
	struct sl_pending_call *of = remote->call;
	struct sluice_call *call = &of->call;
	sluice_ns now = remote->batch->pending->sent_at;
	bool slice = may_slice(remote);
	call->forgotten = call->found = 0;
	call->repeated = false;
	call->granted = 0;
	remote->whole = sl_plan_is_whole(call);
	remote->verb = SL_OP_NONE;
	remote->pending = 1; /* this one itself */
	bool blocked = is_blocked(remote);
	for (uint32_t i = 0; i < call->item_count && !blocked; i++) {
		struct sl_remote_item *item = &remote->items[i];
		call->each[i] = sl_plan_full(call->items[i].limit, (uint8_t)i);
		if (!sl_rule_has(call->items[i].limit, SL_HAS_COUNTER))
			continue;
		item->state = SL_ITEM_TO_ASK;
		if (of->dated || of->facts[i].strict || (remote->whole && call->operation != SLUICE_REFUND))
			continue;
		item->tag = sl_item_tag(fleet_of(remote)->secret, call->items[i].limit, call->items[i].key);
		if (!sl_operation_is(call->operation, SL_OPS_PLAIN))
			give_back_here(remote, i, now);
		else if (is_enforced(remote, i) && call->cost != 0)
			look_here(remote, i, slice, now);
	}
	if (--remote->pending == 0)
		sl_remote_call_go_on(remote);
}

bool sl_call_batch_start(struct sl_call_batch *batch) {
	uint32_t count = batch->pending->call_count;
	batch->starting = true;
	for (uint32_t c = 0; c < count; c++)
		begin(&batch->calls[c]);
	sl_lanes_run(batch->fleet->lanes);
	batch->starting = false;
	if (batch->left != 0)
		return false;
	free(batch);
	return true;
}
