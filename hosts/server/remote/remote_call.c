/* See remote_call.h.
 *
 * Never more is admitted than the limits allow, because nothing counts as admitted before all of it is charged, or held
 * for charges that fit:
 *
 *   - lanes hold what is spent here (lane.h); what may be held unknown to us ends by itself
 *   - one CONFIRM is lost: the call has failed. A confirm that finds its hold gone decides anew, and
 *     charges only what fits: else the call is denied. Those that were confirmed are given back, if the request does
 *     not pass; this and the loss of a hold (a failover, a reset) are the only places where counters are told
 *     something that has not quite been:
 *     a refund takes the newest charge, which may be another's: that one counts less long, by what the request lasted
 *   - slices are taken before anything is asked, and put back if the request is denied */
#include "hosts/admission/admission.h"
#include "hosts/server/remote/call_batch.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/fallback.h"
#include "hosts/server/remote/sending.h"

#include "algo/merge.h"
#include "algo/override.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"

#include <stdlib.h>

enum { GROUP_ASKED, GROUP_DONE, GROUP_UNKNOWN, GROUP_FAILED }; /* sl_group.result */

static void end(struct sl_remote_call *remote, sluice_err err);
static void expire(struct sl_remote_call *remote, bool for_node);

static inline struct sl_fleet *fleet_of(const struct sl_remote_call *remote) {
	return remote->batch->fleet;
}

static inline bool is_enforced(const struct sl_remote_call *remote, uint32_t i) {
	return remote->call->call.items[i].observed == 0;
}

/* ---- what nobody waits for --------------------------------------------------------------------------------------- */

/* The same of a whole call. */
static struct sl_head whole_head(const struct sl_remote_call *remote, const struct sl_group *group) {
	const struct sluice_call *call = &remote->call->call;
	struct sl_head head = sl_group_head(fleet_of(remote), group);
	head.of = remote->verb == SL_OP_PEEK ? sl_slice(NULL, 0) : call->id;
	head.upto = call->upto;
	head.ttl_ms = call->ttl_ns / SL_MS_NS;
	return head;
}

static bool has_observed(const struct sl_remote_call *remote, const struct sl_group *group) {
	for (uint32_t i = 0; i < group->item_count; i++)
		if (!is_enforced(remote, group->positions[i]))
			return true;
	return false;
}

/* What becomes of a group that is needed no more. */
static void dismiss(struct sl_remote_call *remote, struct sl_group *group, bool charged) {
	if (remote->verb == SL_OP_CONFIRM && group->result == GROUP_DONE && !charged && !has_observed(remote, group))
		sl_group_send_off(fleet_of(remote), group, SL_OP_REFUND); /* what was observed may not have been charged */
	else
		free(group);
}

static void dismiss_all(struct sl_remote_call *remote, bool charged) {
	while (remote->groups != NULL) {
		struct sl_group *group = remote->groups;
		remote->groups = group->next;
		dismiss(remote, group, charged);
	}
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void note_denial(struct sl_remote_call *remote, uint32_t i, sluice_ns now) {
	const struct sluice_decision *d = &remote->call->call.each[i];
	if (remote->items[i].tag != 0 && !d->allowed && d->retry_after_ns != 0 && d->bound == SLUICE_BOUND_NONE)
		sl_denial_cache_add(fleet_of(remote)->denials, remote->items[i].tag, remote->call->call.cost, d, now);
}

/* What this front has changed in a counter makes what it knows of it wrong: other costs are denied with less left, and
 * for longer. Not what it knows by another quota for the same counter, which ends within a second. */
static void forget_denials(struct sl_remote_call *remote, uint32_t i) {
	const struct sluice_item *item = &remote->call->call.items[i];
	struct sl_fleet *fleet = fleet_of(remote);
	uint64_t tag = remote->items[i].tag;
	sl_denial_cache_forget(fleet->denials, tag != 0 ? tag : sl_item_tag(fleet->secret, item->limit, item->key));
}

static void take_each(struct sl_remote_call *remote, struct sl_group *group, const int64_t *numbers, uint32_t count) {
	uint32_t stride = sl_plan_stride(count, group->item_count);
	bool changes =
		sl_operation_is(remote->verb, SL_OPS_CHARGING | SL_OP_BIT(REFUND) | SL_OP_BIT(COMMIT) | SL_OP_BIT(CONFIRM));
	struct sluice_call *call = &remote->call->call;
	sluice_ns now = sl_loop_now(fleet_of(remote)->loop);
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		call->each[i] = sl_plan_decision(numbers + (size_t)stride * k, stride, i);
		remote->items[i].state = SL_ITEM_ANSWERED;
		if (changes && call->each[i].allowed)
			forget_denials(remote, i);
		note_denial(remote, i, now);
	}
}

static void take_reset(struct sl_remote_call *remote, const struct sl_group *group, const int64_t *numbers) {
	struct sluice_call *call = &remote->call->call;
	call->forgotten += (uint32_t)numbers[0];
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		call->each[i] = sl_plan_full(call->items[i].limit, i);
		remote->items[i].state = SL_ITEM_ANSWERED;
		sl_denial_cache_forget(fleet_of(remote)->denials,
		                       remote->items[i].tag); /* a denial may have arrived in between */
	}
}

static void fail_group(struct sl_remote_call *remote, struct sl_group *group, uint8_t result) {
	group->result = result;
	for (uint32_t k = 0; k < group->item_count && !remote->denied; k++)
		remote->items[group->positions[k]].state = SL_ITEM_FAILED;
}

static bool admits(const struct sl_remote_call *remote, const struct sl_group *group) {
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		if (is_enforced(remote, i) && !remote->call->call.each[i].allowed)
			return false;
	}
	return true;
}

static bool says(const struct sl_answer *answer, const char *begins) {
	size_t len = strlen(begins);
	return answer->kind == SL_ANSWER_ERROR && answer->error.len >= len && memcmp(answer->error.data, begins, len) == 0;
}

/* By bit. */
static uint32_t items_of(const struct sl_group *group) {
	uint32_t items = 0;
	for (uint32_t k = 0; k < group->item_count; k++)
		items |= (uint32_t)1 << group->positions[k];
	return items;
}

/* Is a node's error about what the caller has said himself? That is no store that is away, whatever is wrong with it;
 * of limits of a policy without an instant nothing is his but keys and members, which no node refuses, and that he
 * reserves, or says what single descriptors cost: a policy that does is not loaded where nodes are asked by script. */
static bool is_callers(const struct sl_remote_call *remote, uint32_t items, const struct sl_answer *answer) {
	bool own = remote->call->dated || says(answer, "ERR reservations need the module") ||
	           says(answer, "ERR COST is for reservations");
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		own = own || ((items >> i & 1) != 0 && remote->call->facts[i].name == NULL);
	return own && says(answer, "ERR ") && !says(answer, "ERR unknown command");
}

static bool is_unknown(const struct sl_answer *answer) {
	return answer->kind == SL_ANSWER_LATE || answer->kind == SL_ANSWER_LOST;
}

static void tell_refused(struct sl_remote_call *remote, const struct sl_answer *answer) {
	struct sl_fleet *fleet = fleet_of(remote);
	if (is_unknown(answer) || answer->kind == SL_ANSWER_AWAY)
		return;
	remote->told_error = true;
	sl_count(&fleet->figures->cluster.refused, 1);
	sl_fleet_refused(fleet, answer->kind == SL_ANSWER_ERROR ? answer->error : sl_str("unreadable answer"));
}

/* What no counter has a say in. */
static void deny_for_load(struct sl_remote_call *remote, uint32_t items) {
	struct sluice_call *call = &remote->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (remote->items[i].state != SL_ITEM_TO_ASK || (items >> i & 1) == 0)
			continue;
		remote->items[i].state = SL_ITEM_ANSWERED;
		call->each[i].allowed = false;
		call->each[i].bound = SLUICE_BOUND_QUEUE;
		call->each[i].remaining = 0;
		call->each[i].retry_after_ns = fleet_of(remote)->budget_ns;
		if (is_enforced(remote, i)) /* one that is observed only tells it */
			remote->denies |= (uint32_t)1 << i;
	}
}

/* Does it end what it holds now? Then no group of it waits for others, or is denied for them. */
static bool ends_holds(const struct sl_remote_call *remote) {
	return remote->verb == SL_OP_CONFIRM || remote->verb == SL_OP_BESIDE;
}

static bool can_group_be_denied(const struct sl_remote_call *remote) {
	return sl_remote_can_be_denied(remote) && !ends_holds(remote) && !fleet_of(remote)->closing;
}

/* What answers nothing. */
static void refuse(struct sl_remote_call *remote, struct sl_group *group, const struct sl_answer *answer) {
	remote->late = remote->late || answer->kind == SL_ANSWER_LATE;
	if (answer->kind == SL_ANSWER_LATE && answer->ours && can_group_be_denied(remote)) {
		deny_for_load(remote, items_of(group));
		group->result = GROUP_UNKNOWN;
		return;
	}
	remote->refused = remote->refused || (!remote->denied && is_callers(remote, items_of(group), answer));
	fail_group(remote, group, is_unknown(answer) ? GROUP_UNKNOWN : GROUP_FAILED);
	tell_refused(remote, answer);
}

static void fail_items(struct sl_remote_call *remote, uint32_t items, const struct sl_answer *answer, bool tell) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (items >> i & 1)
			remote->items[i].state = SL_ITEM_FAILED;
	remote->refused = remote->refused || is_callers(remote, items, answer);
	remote->told_error = remote->told_error || answer->kind == SL_ANSWER_ERROR;
	remote->late = remote->late || answer->kind == SL_ANSWER_LATE;
	if (tell)
		tell_refused(remote, answer);
}

/* What a whole call has come to beside its limits' answers: what was granted, whether it had been before, and of how
 * many counters a lease or reservation was. False: it is no answer to it. */
static bool take_outcome(struct sl_remote_call *remote, struct sl_group *group, const struct sl_answer *answer) {
	struct sluice_call *call = &remote->call->call;
	struct sl_head head = whole_head(remote, group);
	const int64_t *outcome;
	if (remote->verb == SL_OP_COMMIT && says(answer, "NOTFOUND "))
		return true; /* found stays 0; nobody asks for the limits' answers then */
	if (remote->verb == SL_OP_RELEASE || remote->verb == SL_OP_RENEW) {
		if (!sl_plan_is_answer(remote->verb, answer, group->item_count))
			return false;
		call->found = (uint32_t)answer->numbers[0];
		return true;
	}
	if (!sl_plan_has_outcome(remote->verb, &head)) {
		if (!sl_plan_is_answer(remote->verb, answer, group->item_count))
			return false;
		take_each(remote, group, answer->numbers, answer->count);
		return true;
	}
	if (!sl_plan_is_outcome(answer, group->item_count))
		return false;
	outcome = answer->numbers + answer->count - SL_OUTCOME_NUMBERS;
	take_each(remote, group, answer->numbers, answer->count - SL_OUTCOME_NUMBERS);
	call->granted = (uint32_t)outcome[0];
	call->repeated = outcome[1] == 1;
	call->found = (uint32_t)outcome[2];
	remote->has_outcome = true;
	return true;
}

/* A node without memory whose module, or whose Redis, refuses whatever would add to it: a bound, which denies. */
static bool take_full(struct sl_remote_call *remote, struct sl_group *group, const struct sl_answer *answer) {
	bool charges = sl_operation_is(remote->verb, SL_OPS_CHARGING | SL_OP_BIT(HOLD));
	if (!charges || !says(answer, "OOM "))
		return false;
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		const struct sluice_limit *limit = remote->call->call.items[i].limit;
		remote->call->call.each[i] = sl_plan_full(limit, i);
		sl_decide_bound(&remote->call->call.each[i], SLUICE_BOUND_ROOM, sl_plan_room_wait(limit));
		remote->items[i].state = SL_ITEM_ANSWERED;
	}
	group->result = GROUP_FAILED; /* it holds nothing */
	sl_fleet_refused(fleet_of(remote), answer->error);
	return true;
}

static void take_whole(struct sl_remote_call *remote, struct sl_group *group, const struct sl_answer *answer) {
	if (!take_outcome(remote, group, answer)) {
		refuse(remote, group, answer);
		return;
	}
	group->result = GROUP_DONE;
	for (uint32_t k = 0; k < group->item_count; k++)
		remote->items[group->positions[k]].state = SL_ITEM_ANSWERED;
}

static void take_answer(struct sl_remote_call *remote, struct sl_group *group, const struct sl_answer *answer) {
	if (take_full(remote, group, answer))
		return;
	if (remote->whole) {
		take_whole(remote, group, answer);
		return;
	}
	if (!sl_plan_is_answer(remote->verb, answer, group->item_count)) {
		refuse(remote, group, answer);
		return;
	}
	if (remote->verb == SL_OP_RESET)
		take_reset(remote, group, answer->numbers);
	group->result = GROUP_DONE;
	if (remote->verb == SL_OP_RESET)
		return;
	take_each(remote, group, answer->numbers, answer->count);
	group->result = admits(remote, group) ? GROUP_DONE : GROUP_FAILED;
}

static void answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_remote_call *remote = group->owner;
	take_answer(remote, group, answer);
	SL_ASSERT(remote->pending > 0);
	if (--remote->pending == 0)
		sl_remote_call_go_on(remote);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_group(struct sl_remote_call *remote, struct sl_group *group) {
	struct sl_head head = remote->whole ? whole_head(remote, group) : sl_group_head(fleet_of(remote), group);
	sl_group_say(group, remote->verb, &head);
	group->ask.deadline = remote->batch->deadline;
	group->ask.asker = remote->batch;
	group->ask.at_once = ends_holds(remote);
	if (group->ask.at_once) /* what is granted is not lost for being granted late */
		group->ask.deadline =
			sl_max(group->ask.deadline, sl_loop_now(fleet_of(remote)->loop) + fleet_of(remote)->budget_ns / 4);
	group->ask.answered = answered;
	group->result = GROUP_ASKED;
	if (sl_fleet_ask(fleet_of(remote), group)) {
		remote->pending++;
	} else if (can_group_be_denied(remote) && sl_fleet_is_busy(fleet_of(remote), group->number)) {
		deny_for_load(remote, items_of(group)); /* as many are under way as there is room for */
		group->result = GROUP_FAILED;
	} else
		fail_group(remote, group, remote->verb == SL_OP_CONFIRM ? GROUP_UNKNOWN : GROUP_FAILED);
}

static uint16_t number_of(const struct sl_remote_call *remote, uint32_t i) {
	char text[SL_PLAN_KEY_ROOM];
	const struct sl_plan_item item = sl_remote_plan(remote, i);
	return sl_nodes_group(fleet_of(remote)->nodes, sl_plan_key(text, fleet_of(remote)->prefix, &item));
}

/* Makes the group of the items whose number is that of item `first`; marks them in `done`. */
static void make_group(struct sl_remote_call *remote, const uint16_t *numbers, uint32_t first, uint32_t *done) {
	const struct sluice_call *call = &remote->call->call;
	struct sl_fleet *fleet = fleet_of(remote);
	struct sl_plan_item items[SLUICE_ITEMS_MAX];
	struct sl_group *group, **last = &remote->groups;
	bool torn = !remote->whole && sl_nodes_is_torn(fleet->nodes, numbers[first]);
	uint32_t count = 0;
	for (uint32_t i = first; i < call->item_count; i++)
		if (remote->items[i].state == SL_ITEM_TO_ASK && (*done >> i & 1) == 0 && numbers[i] == numbers[first] &&
		    (!torn || sl_bytes_equal(call->items[i].key, call->items[first].key))) {
			*done |= (uint32_t)1 << i;
			items[count++] = sl_remote_plan(remote, i);
		}
	SL_ASSERT(count != 0);
	group = call->operation == SLUICE_COMMIT ? sl_group_new_ticket(items, count, fleet->prefix, sl_id_number(call->id))
	                                         : sl_group_new(items, count, fleet->prefix);
	if (group == NULL) {
		for (uint32_t k = 0; k < count; k++)
			remote->items[items[k].position].state = SL_ITEM_FAILED;
		return;
	}
	group->owner = remote;
	group->number = numbers[first];
	group->dated = remote->call->dated;
	group->now = call->now;
	group->cost = call->cost;
	group->id = fleet->hold_id;
	while (*last != NULL)
		last = &(*last)->next;
	*last = group;
}

static uint32_t make_groups(struct sl_remote_call *remote) {
	const struct sluice_call *call = &remote->call->call;
	uint16_t numbers[SLUICE_ITEMS_MAX];
	uint32_t done = 0, count = 0;
	/* Before it is known whether there are slots, it is asked as one command, which a cluster refuses. */
	bool one = remote->whole && !sl_nodes_knows_slots(fleet_of(remote)->nodes);
	for (uint32_t i = 0; i < call->item_count; i++)
		numbers[i] = remote->items[i].state == SL_ITEM_TO_ASK && !one ? number_of(remote, i) : 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (remote->items[i].state == SL_ITEM_TO_ASK && !(done >> i & 1)) {
			make_group(remote, numbers, i, &done);
			count++;
		}
	return count;
}

static bool is_denied(const struct sl_remote_call *remote) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (is_enforced(remote, i) && remote->items[i].state != SL_ITEM_FREE && !remote->call->call.each[i].allowed)
			return true;
	return false;
}

static enum sl_operation verb_of(const struct sl_remote_call *remote, uint32_t groups) {
	sluice_operation operation = remote->call->call.operation;
	if (operation != SLUICE_CHARGE)
		return (enum sl_operation)operation;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (remote->items[i].state == SL_ITEM_DENIED)
			return SL_OP_PEEK;
	if (remote->call->call.id.len == 0 && !sl_admission_costs(&remote->call->call))
		return SL_OP_PEEK;
	return groups > 1 ? SL_OP_HOLD : SL_OP_CHECK;
}

static void send_groups(struct sl_remote_call *remote) {
	remote->pending++; /* this one itself: no answer ends the step before all are sent */
	for (struct sl_group *group = remote->groups; group != NULL; group = group->next)
		send_group(remote, group);
	if (--remote->pending == 0)
		sl_remote_call_go_on(remote);
}

/* After those that share a counter with it. */
static void queue(struct sl_remote_call *remote) {
	struct sl_lanes *lanes = fleet_of(remote)->lanes;
	if (remote->verb == SL_OP_CHECK && !remote->whole)
		remote->verb = SL_OP_HOLD; /* out of what is held for all of them */
	if (!sl_lanes_join(lanes, remote, remote->verb != SL_OP_HOLD)) { /* our own queue is full */
		if (sl_remote_can_be_denied(remote))
			deny_for_load(remote, UINT32_MAX);
		expire(remote, false);
	} else if (!remote->batch->starting)
		sl_lanes_run(lanes);
}

/* Has it waited for a slice until its time was over? Then nobody is asked any more: what would be charged now would be
 * charged for nobody. Nodes that owe no answer are not away. */
static bool ends_late(struct sl_remote_call *remote) {
	const struct sl_fleet *fleet = fleet_of(remote);
	bool busy = true;
	if (!remote->waited || sl_loop_now(fleet->loop) < remote->batch->deadline)
		return false;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (remote->items[i].state == SL_ITEM_TO_ASK)
			busy = busy && sl_fleet_is_busy(fleet, number_of(remote, i));
	if (busy)
		deny_for_load(remote, UINT32_MAX);
	expire(remote, !busy);
	return true;
}

static void ask(struct sl_remote_call *remote) {
	uint32_t groups;
	if (ends_late(remote))
		return;
	groups = make_groups(remote);
	if (remote->whole && groups > 1 && sl_fleet_drop_retry_id(fleet_of(remote), remote->call))
		remote->whole = sl_plan_is_whole(&remote->call->call);
	remote->verb = (uint8_t)verb_of(remote, groups);
	remote->asked = remote->asked || groups != 0;
	if (remote->whole && groups > 1) { /* counters of several slots, in one step: that can't be */
		dismiss_all(remote, false);
		end(remote, SLUICE_E_APART);
		return;
	}
	remote->was_held = remote->verb == SL_OP_HOLD;
	if (remote->was_held || sl_lanes_concern(fleet_of(remote)->lanes, remote))
		queue(remote);
	else
		send_groups(remote);
}

/* ---- after the answers ------------------------------------------------------------------------------------------- */

/* Whether all nodes have answered to what was to be confirmed. One that denies then has found its hold gone: the key
 * was unlimited when it was to be held, or was reset since. That is a denial like any other, and no outage. */
static bool is_answered(const struct sl_remote_call *remote) {
	for (const struct sl_group *group = remote->groups; group != NULL; group = group->next)
		for (uint32_t k = 0; k < group->item_count; k++)
			if (group->result == GROUP_UNKNOWN || remote->items[group->positions[k]].state != SL_ITEM_ANSWERED)
				return false;
	return true;
}

/* A confirm that did not come through, or found its hold gone. */
static void end_confirmed(struct sl_remote_call *remote) {
	const bool answered_all = is_answered(remote);
	bool lost = false;
	for (const struct sl_group *group = remote->groups; group != NULL; group = group->next)
		lost = lost || group->result != GROUP_DONE;
	if (lost)
		sl_count(&fleet_of(remote)->figures->lost_confirms, 1);
	dismiss_all(remote, !lost || (!answered_all && sl_fallback_passes(remote)));
	end(remote, lost && !answered_all ? SLUICE_E_AWAY : SLUICE_OK);
}

/* Groups of which an item has failed have no part in what follows. */
static void drop_failed(struct sl_remote_call *remote) {
	for (struct sl_group **at = &remote->groups; *at != NULL;) {
		struct sl_group *group = *at;
		bool failed = false;
		for (uint32_t k = 0; k < group->item_count; k++)
			failed = failed || remote->items[group->positions[k]].state != SL_ITEM_TO_ASK;
		if (!failed) {
			at = &group->next;
			continue;
		}
		*at = group->next;
		free(group);
	}
}

/* Where limits of one counter were held for at once, one may have too little and others enough: what the counter says
 * of each is told. If it now says that all admit, it has drained since, and so little was missing. */
static void end_looked(struct sl_remote_call *remote) {
	struct sluice_call *call = &remote->call->call;
	bool drained;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (remote->no_room >> i & 1)
			sl_decide_bound(&call->each[i], SLUICE_BOUND_ROOM, sl_plan_room_wait(call->items[i].limit));
	drained = !is_denied(remote);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_decision *d = &call->each[i];
		if (!drained || (remote->denies >> i & 1) == 0)
			continue;
		d->allowed = false;
		d->remaining = sl_min(d->remaining, call->cost - 1);
		d->retry_after_ns = SL_MS_NS;
		d->delay_ns = 0;
	}
	SL_ASSERT(is_denied(remote));
	dismiss_all(remote, false);
	end(remote, SLUICE_OK);
}

/* What is decided by its lanes: charged out of what they hold, or looked at. */
static void settle(struct sl_remote_call *remote, enum sl_lane_verdict verdict) {
	struct sl_lanes *lanes = fleet_of(remote)->lanes;
	sluice_err err = sl_fallback(remote, fleet_of(remote)->store);
	remote->denied = is_denied(remote); /* perhaps by counters of this process */
	if (err == SLUICE_OK && verdict == SL_LANE_ADMITS && !remote->denied)
		sl_lanes_spend(remote);
	sl_lanes_leave(lanes, remote);
	drop_failed(remote);
	if (err != SLUICE_OK || remote->groups == NULL) {
		dismiss_all(remote, false);
		end(remote, err);
		return;
	}
	remote->verb = remote->denied ? SL_OP_BESIDE : SL_OP_CONFIRM;
	send_groups(remote);
}

static void take_turn(struct sl_remote_call *remote) {
	struct sl_lanes *lanes = fleet_of(remote)->lanes;
	sluice_ns now = sl_loop_now(fleet_of(remote)->loop);
	enum sl_lane_verdict verdict;
	if (remote->alone && remote->groups != NULL) {
		sl_lanes_leave(lanes, remote);
		send_groups(remote);
		return;
	}
	verdict = sl_lanes_judge(remote);
	if (verdict == SL_LANE_DOUBTS && now < remote->batch->deadline && !fleet_of(remote)->nodes_closing)
		sl_lanes_stall(lanes, remote, now);
	else
		settle(remote, verdict);
}

/* What gives back or forgets is never denied for our own queue: its node is asked out of turn, in the rest of its
 * budget. */
static void expire(struct sl_remote_call *remote, bool for_node) {
	static const struct sl_answer late = {.kind = SL_ANSWER_LATE};
	sluice_err err = SLUICE_OK;
	if (!for_node && !sl_remote_can_be_denied(remote) && remote->groups != NULL) {
		send_groups(remote);
		return;
	}
	if (for_node || !sl_remote_can_be_denied(remote)) {
		for (uint32_t i = 0; i < remote->call->call.item_count; i++)
			if (remote->items[i].state == SL_ITEM_TO_ASK)
				fail_items(remote, (uint32_t)1 << i, &late, false);
		err = sl_fallback(remote, fleet_of(remote)->store);
	}
	dismiss_all(remote, false);
	end(remote, err);
}

/* Is it denied by what others hold, and by nothing else? Then it gets another turn, in its lanes. */
static bool is_doubted(const struct sl_remote_call *remote) {
	const struct sluice_call *call = &remote->call->call;
	bool any = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_decision *d = &call->each[i];
		if (remote->items[i].state == SL_ITEM_FREE || !is_enforced(remote, i) || d->allowed)
			continue;
		if (remote->items[i].state != SL_ITEM_ANSWERED || d->bound != SLUICE_BOUND_HOLDS)
			return false;
		any = true;
	}
	return any && !remote->late;
}

static bool ask_again(struct sl_remote_call *remote) {
	struct sl_lanes *lanes = fleet_of(remote)->lanes;
	sluice_ns now = sl_loop_now(fleet_of(remote)->loop);
	if (!is_doubted(remote) || now >= remote->batch->deadline || fleet_of(remote)->closing)
		return false;
	remote->denies = remote->no_room = 0;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		remote->denies |= (uint32_t)!remote->call->call.each[i].allowed << i;
		if (remote->items[i].state == SL_ITEM_ANSWERED)
			remote->items[i].state = SL_ITEM_TO_ASK;
	}
	if (remote->verb == SL_OP_CHECK && !remote->whole)
		remote->verb = SL_OP_HOLD;
	if (!sl_lanes_join(lanes, remote, remote->verb != SL_OP_HOLD))
		return false;
	sl_lanes_stall(lanes, remote, now);
	sl_lanes_run(lanes);
	return true;
}

void sl_remote_call_go_on(struct sl_remote_call *remote) {
	if (remote->verb == SL_OP_NONE) {
		ask(remote);
	} else if (remote->verb == SL_OP_CONFIRM) {
		end_confirmed(remote);
	} else if (remote->verb == SL_OP_BESIDE) {
		end_looked(remote);
	} else if (!ask_again(remote)) {
		sluice_err err = sl_fallback(remote, fleet_of(remote)->store);
		dismiss_all(remote, false);
		end(remote, err);
	}
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* A key that is too long is a bound that denies nobody: it is told where no other was met. */
static void note_folded(struct sl_remote_call *remote, uint32_t i) {
	struct sluice_decision *d = &remote->call->call.each[i];
	const struct sl_plan_item item = sl_remote_plan(remote, i);
	if (d->bound == SLUICE_BOUND_NONE && sl_plan_folds(fleet_of(remote)->prefix, &item))
		d->bound = SLUICE_BOUND_KEY;
}

/* By a quota of the key's own: then it is no limit that applies. */
static bool is_unlimited(const struct sl_remote_call *remote, uint32_t i) {
	const struct sluice_call *call = &remote->call->call;
	return sl_own_is_unlimited(call->items[i].limit->derived[SL_CAPACITY], &call->each[i]);
}

static void merge(struct sl_remote_call *remote) {
	struct sluice_call *call = &remote->call->call;
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (remote->items[i].state == SL_ITEM_FREE)
			continue;
		note_folded(remote, i);
		if (!call->want_next)
			call->each[i].next_after_ns = 0;
		if (is_enforced(remote, i) && !is_unlimited(remote, i))
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
}

static void count_way(struct sl_remote_call *remote, sluice_err err) {
	struct sl_fleet *fleet = fleet_of(remote);
	bool known = false, sliced = false, failed = err != SLUICE_OK, local = false;
	enum sl_fleet_way way = SL_WAY_ASKED;
	if (err == SLUICE_E_MISUSE || err == SLUICE_E_APART)
		return; /* no decision was asked for that can be made */
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		uint8_t state = remote->items[i].state;
		known = known || state == SL_ITEM_DENIED;
		sliced = sliced || state == SL_ITEM_TAKEN;
		failed = failed || state == SL_ITEM_FAILED;
		local = local || state == SL_ITEM_LOCAL;
	}
	if (remote->late)
		sl_count(&fleet->figures->late, 1);
	if (local || failed)
		way = local && err == SLUICE_OK ? SL_WAY_LOCAL : SL_WAY_FAILED;
	else if (remote->asked)
		way = remote->was_held ? SL_WAY_HELD : SL_WAY_ASKED;
	else if (known || sliced)
		way = known ? SL_WAY_KNOWN : SL_WAY_SLICE;
	else
		return; /* nothing to decide */
	sl_count(&fleet->figures->decided[way], 1);
}

static void end(struct sl_remote_call *remote, sluice_err err) {
	struct sluice_call *call = &remote->call->call;
	bool passes;
	merge(remote);
	call->err = err;
	if (!remote->has_outcome) /* of what nobody was asked about, and of what passes undecided, all of the cost */
		call->granted = call->merged.allowed ? call->cost : 0;
	passes = err == SLUICE_OK ? call->merged.allowed : sl_fallback_passes(remote);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (remote->items[i].state == SL_ITEM_TAKEN && remote->items[i].wait.slice != NULL) /* a peek takes nothing */
			sl_quota_slice_done(&remote->items[i].wait, !passes, sl_loop_now(fleet_of(remote)->loop));
	count_way(remote, err);
	sl_call_batch_end_one(remote->batch);
}

const struct sl_lane_calls sl_remote_call_lanes = {.turn = take_turn, .fail = fail_items, .expire = expire};
