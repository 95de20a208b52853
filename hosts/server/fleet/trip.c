/* See trip.h.
 *
 * Never more is admitted than the limits allow, because nothing counts as admitted before all of it is charged, or held
 * for charges that fit:
 *
 *   - lanes hold what is spent here (lane.h); what may be held unknown to us ends by itself
 *   - one CONFIRM is lost: the call has failed. A confirm that finds its hold gone decides anew, and
 *     charges only what fits. Those that were confirmed are given back, if the request does not pass; this and the loss
 *     of a hold (a failover, a reset) are the only places where counters are told something that has not quite been:
 *     a refund takes the newest charge, which may be another's, so that one counts some ms shorter
 *   - slices are taken before anything is asked, and put back if the request is denied */
#include "hosts/server/fleet/trip.h"

#include "algo/merge.h"
#include "algo/step.h"
#include "base/assert.h"
#include "os/clock.h"

#include <stdlib.h>

enum { HOLD_MS_MIN = 1000, HOLD_MS_MAX = 60000 };
#define TIDY_NS ((sluice_ns)1000000000) /* how long a command may take that nobody waits for */

enum { GROUP_ASKED, GROUP_DONE, GROUP_UNKNOWN, GROUP_FAILED }; /* sl_group.result */

static void end(struct sl_trip *trip, sluice_err err);

static inline struct sl_fleet *fleet_of(const struct sl_trip *trip) {
	return trip->journey->fleet;
}

static inline bool is_enforced(const struct sl_trip *trip, uint32_t i) {
	return trip->call->call.items[i].observed == 0;
}

/* ---- what nobody waits for --------------------------------------------------------------------------------------- */

static void tidied(struct sl_node_ask *ask, const struct sl_answer *answer) {
	(void)answer;
	free((struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask)));
}

struct sl_head sl_group_head(const struct sl_fleet *fleet, const struct sl_group *group) {
	uint64_t ttl_ms = sl_min(sl_max(4 * fleet->budget_ns / SL_MS_NS, HOLD_MS_MIN), HOLD_MS_MAX);
	return (struct sl_head){
		.cost = group->cost, .ttl_ms = (uint32_t)ttl_ms, .id = group->id, .dated = group->dated, .now = group->now};
}

/* The same of a whole call. */
static struct sl_head whole_head(const struct sl_trip *trip, const struct sl_group *group) {
	const struct sluice_call *call = &trip->call->call;
	struct sl_head head = sl_group_head(fleet_of(trip), group);
	head.of = trip->verb == SL_PEEK ? sl_slice(NULL, 0) : call->id;
	head.upto = call->upto;
	head.ttl_ms = (uint32_t)sl_min(call->ttl_ns / SL_MS_NS, UINT32_MAX);
	return head;
}

void sl_group_send_off(struct sl_fleet *fleet, struct sl_group *group, enum sl_fleet_verb verb) {
	struct sl_head head = sl_group_head(fleet, group);
	group->owner = NULL;
	sl_group_say(group, verb, &head);
	group->ask.deadline = sl_clock_monotonic() + TIDY_NS;
	group->ask.answered = tidied;
	if (!sl_fleet_ask(fleet, group))
		free(group);
}

static bool has_observed(const struct sl_trip *trip, const struct sl_group *group) {
	for (uint32_t i = 0; i < group->item_count; i++)
		if (!is_enforced(trip, group->positions[i]))
			return true;
	return false;
}

/* What becomes of a group that is needed no more. */
static void dismiss(struct sl_trip *trip, struct sl_group *group, bool charged) {
	if (trip->verb == SL_CONFIRM && group->result == GROUP_DONE && !charged && !has_observed(trip, group))
		sl_group_send_off(fleet_of(trip), group, SL_REFUND); /* what was observed may not have been charged */
	else
		free(group);
}

static void dismiss_all(struct sl_trip *trip, bool charged) {
	while (trip->groups != NULL) {
		struct sl_group *group = trip->groups;
		trip->groups = group->next;
		dismiss(trip, group, charged);
	}
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void note_denial(struct sl_trip *trip, uint32_t i, sluice_ns now) {
	const struct sluice_decision *d = &trip->call->call.each[i];
	if (trip->items[i].tag != 0 && !d->allowed && d->retry_after_ns != 0 && d->bound == SLUICE_BOUND_NONE)
		sl_known_add(fleet_of(trip)->known, trip->items[i].tag, trip->call->call.cost, d, now);
}

static void take_each(struct sl_trip *trip, struct sl_group *group, const int64_t *numbers, uint32_t count) {
	uint32_t stride = sl_plan_stride(count, group->item_count);
	struct sluice_call *call = &trip->call->call;
	sluice_ns now = sl_clock_monotonic();
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		call->each[i] = sl_plan_decision(numbers + (size_t)stride * k, stride, i, call->want_next);
		trip->items[i].state = SL_ITEM_ANSWERED;
		note_denial(trip, i, now);
	}
}

static void take_reset(struct sl_trip *trip, const struct sl_group *group, const int64_t *numbers) {
	struct sluice_call *call = &trip->call->call;
	call->forgotten += (uint32_t)numbers[0];
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		call->each[i] = sl_plan_full(call->items[i].limit, i);
		trip->items[i].state = SL_ITEM_ANSWERED;
		sl_known_forget(fleet_of(trip)->known, trip->items[i].tag); /* a denial may have arrived in between */
	}
}

static void fail_group(struct sl_trip *trip, struct sl_group *group, uint8_t result) {
	group->result = result;
	for (uint32_t k = 0; k < group->item_count && !trip->denied; k++)
		trip->items[group->positions[k]].state = SL_ITEM_FAILED;
}

static bool admits(const struct sl_trip *trip, const struct sl_group *group) {
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		if (is_enforced(trip, i) && !trip->call->call.each[i].allowed)
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
 * reserves: a policy that does is not loaded where nodes are asked by script. */
static bool is_callers(const struct sl_trip *trip, uint32_t items, const struct sl_answer *answer) {
	bool own = trip->call->dated || says(answer, "ERR reservations need the module");
	for (uint32_t i = 0; i < trip->call->call.item_count; i++)
		own = own || ((items >> i & 1) != 0 && trip->call->facts[i].name == NULL);
	return own && says(answer, "ERR ") && !says(answer, "ERR unknown command");
}

static bool is_unknown(const struct sl_answer *answer) {
	return answer->kind == SL_ANSWER_LATE || answer->kind == SL_ANSWER_LOST;
}

static void tell_refused(struct sl_fleet *fleet, const struct sl_answer *answer) {
	if (is_unknown(answer) || answer->kind == SL_ANSWER_AWAY)
		return;
	sl_count(&fleet->figures->refused, 1);
	sl_fleet_refused(fleet, answer->kind == SL_ANSWER_ERROR ? answer->error : sl_str("unreadable answer"));
}

/* What no counter has a say in. */
static void deny_for_load(struct sl_trip *trip, uint32_t items) {
	struct sluice_call *call = &trip->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (trip->items[i].state != SL_ITEM_TO_ASK || (items >> i & 1) == 0)
			continue;
		trip->items[i].state = SL_ITEM_ANSWERED;
		if (!is_enforced(trip, i))
			continue;
		call->each[i].allowed = false;
		call->each[i].bound = SLUICE_BOUND_QUEUE;
		call->each[i].remaining = 0;
		call->each[i].retry_after_ns = fleet_of(trip)->budget_ns;
		trip->denies |= (uint32_t)1 << i;
	}
}

/* It is late, but its node answers others in time: it stands behind too many. */
static bool is_busy(const struct sl_trip *trip, const struct sl_group *group, const struct sl_answer *answer) {
	const bool decides =
		trip->verb == SL_CHECK || trip->verb == SL_PEEK || trip->verb == SL_ACQUIRE || trip->verb == SL_RESERVE;
	return decides && answer->kind == SL_ANSWER_LATE && !fleet_of(trip)->closing &&
	       sl_nodes_is_busy(fleet_of(trip)->nodes, group->number);
}

/* What answers nothing. */
static void refuse(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	trip->late = trip->late || answer->kind == SL_ANSWER_LATE;
	if (is_busy(trip, group, answer)) {
		deny_for_load(trip, items_of(group));
		group->result = GROUP_UNKNOWN;
		return;
	}
	trip->refused = trip->refused || (!trip->denied && is_callers(trip, items_of(group), answer));
	fail_group(trip, group, is_unknown(answer) ? GROUP_UNKNOWN : GROUP_FAILED);
	tell_refused(fleet_of(trip), answer);
}

void sl_trip_fail(struct sl_trip *trip, uint32_t items, const struct sl_answer *answer, bool tell) {
	for (uint32_t i = 0; i < trip->call->call.item_count; i++)
		if (items >> i & 1)
			trip->items[i].state = SL_ITEM_FAILED;
	trip->refused = trip->refused || is_callers(trip, items, answer);
	trip->late = trip->late || answer->kind == SL_ANSWER_LATE;
	if (tell)
		tell_refused(fleet_of(trip), answer);
}

/* What a whole call has come to beside its limits' answers: what was granted, whether it had been before, and of how
 * many counters a lease or reservation was. False: it is no answer to it. */
static bool take_outcome(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	struct sluice_call *call = &trip->call->call;
	struct sl_head head = whole_head(trip, group);
	const int64_t *outcome;
	if (trip->verb == SL_COMMIT && says(answer, "NOTFOUND "))
		return true; /* found stays 0; nobody asks for the limits' answers then */
	if (trip->verb == SL_RELEASE || trip->verb == SL_RENEW) {
		if (!sl_plan_is_answer(trip->verb, answer, group->item_count))
			return false;
		call->found = (uint32_t)answer->numbers[0];
		return true;
	}
	if (!sl_plan_has_outcome(trip->verb, &head)) {
		if (!sl_plan_is_answer(trip->verb, answer, group->item_count))
			return false;
		take_each(trip, group, answer->numbers, answer->count);
		return true;
	}
	if (!sl_plan_is_outcome(answer, group->item_count))
		return false;
	outcome = answer->numbers + answer->count - SL_OUTCOME_NUMBERS;
	take_each(trip, group, answer->numbers, answer->count - SL_OUTCOME_NUMBERS);
	call->granted = (uint32_t)outcome[0];
	call->repeated = outcome[1] == 1;
	call->found = (uint32_t)outcome[2];
	return true;
}

/* A node without memory whose module, or whose Redis, refuses whatever would add to it: a bound, which denies. */
static bool take_full(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	bool charges =
		trip->verb == SL_CHECK || trip->verb == SL_HOLD || trip->verb == SL_ACQUIRE || trip->verb == SL_RESERVE;
	if (!charges || !says(answer, "OOM "))
		return false;
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		const struct sluice_limit *limit = trip->call->call.items[i].limit;
		trip->call->call.each[i] = sl_plan_full(limit, i);
		sl_decide_bound(&trip->call->call.each[i], SLUICE_BOUND_ROOM, sl_plan_room_wait(limit));
		trip->items[i].state = SL_ITEM_ANSWERED;
	}
	group->result = GROUP_FAILED; /* it holds nothing */
	sl_fleet_refused(fleet_of(trip), answer->error);
	return true;
}

static void take_whole(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	if (!take_outcome(trip, group, answer)) {
		refuse(trip, group, answer);
		return;
	}
	group->result = GROUP_DONE;
	for (uint32_t k = 0; k < group->item_count; k++)
		trip->items[group->positions[k]].state = SL_ITEM_ANSWERED;
}

static void take_answer(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	if (take_full(trip, group, answer))
		return;
	if (trip->whole) {
		take_whole(trip, group, answer);
		return;
	}
	if (!sl_plan_is_answer(trip->verb, answer, group->item_count)) {
		refuse(trip, group, answer);
		return;
	}
	if (trip->verb == SL_RESET)
		take_reset(trip, group, answer->numbers);
	group->result = GROUP_DONE;
	if (trip->verb == SL_RESET)
		return;
	take_each(trip, group, answer->numbers, answer->count);
	group->result = admits(trip, group) ? GROUP_DONE : GROUP_FAILED;
}

static void answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_trip *trip = group->owner;
	take_answer(trip, group, answer);
	SL_ASSERT(trip->pending > 0);
	if (--trip->pending == 0)
		sl_trip_go_on(trip);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_group(struct sl_trip *trip, struct sl_group *group) {
	struct sl_head head = trip->whole ? whole_head(trip, group) : sl_group_head(fleet_of(trip), group);
	sl_group_say(group, trip->verb, &head);
	group->ask.deadline = trip->journey->deadline;
	if (trip->verb == SL_CONFIRM || trip->verb == SL_BESIDE) /* what is granted is not lost for being granted late */
		group->ask.deadline = sl_max(group->ask.deadline, sl_clock_monotonic() + fleet_of(trip)->budget_ns / 4);
	group->ask.answered = answered;
	group->result = GROUP_ASKED;
	if (sl_fleet_ask(fleet_of(trip), group))
		trip->pending++;
	else
		fail_group(trip, group, trip->verb == SL_CONFIRM ? GROUP_UNKNOWN : GROUP_FAILED);
}

static uint16_t number_of(const struct sl_trip *trip, uint32_t i) {
	char text[SL_PLAN_KEY_ROOM];
	const struct sl_plan_item item = sl_trip_plan(trip, i);
	return sl_nodes_group(fleet_of(trip)->nodes, sl_plan_key(text, fleet_of(trip)->prefix, &item));
}

/* Makes the group of the items whose number is that of item `first`; marks them in `done`. */
static void make_group(struct sl_trip *trip, const uint16_t *numbers, uint32_t first, uint32_t *done) {
	const struct sluice_call *call = &trip->call->call;
	struct sl_fleet *fleet = fleet_of(trip);
	struct sl_plan_item items[SLUICE_ITEMS_MAX];
	struct sl_group *group, **last = &trip->groups;
	uint32_t count = 0;
	for (uint32_t i = first; i < call->item_count; i++)
		if (trip->items[i].state == SL_ITEM_TO_ASK && numbers[i] == numbers[first]) {
			*done |= (uint32_t)1 << i;
			items[count++] = sl_trip_plan(trip, i);
		}
	SL_ASSERT(count != 0);
	group = call->operation == SLUICE_COMMIT ? sl_group_new_ticket(items, count, fleet->prefix, sl_id_number(call->id))
	                                         : sl_group_new(items, count, fleet->prefix);
	if (group == NULL) {
		for (uint32_t k = 0; k < count; k++)
			trip->items[items[k].position].state = SL_ITEM_FAILED;
		return;
	}
	group->owner = trip;
	group->number = numbers[first];
	group->dated = trip->call->dated;
	group->now = call->now;
	group->cost = call->cost;
	group->id = fleet->hold_id;
	while (*last != NULL)
		last = &(*last)->next;
	*last = group;
}

static uint32_t make_groups(struct sl_trip *trip) {
	const struct sluice_call *call = &trip->call->call;
	uint16_t numbers[SLUICE_ITEMS_MAX];
	uint32_t done = 0, count = 0;
	/* Before it is known whether there are slots, it is asked as one command, which a cluster refuses. */
	bool one = trip->whole && !sl_nodes_knows_slots(fleet_of(trip)->nodes);
	for (uint32_t i = 0; i < call->item_count; i++)
		numbers[i] = trip->items[i].state == SL_ITEM_TO_ASK && !one ? number_of(trip, i) : 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (trip->items[i].state == SL_ITEM_TO_ASK && !(done >> i & 1)) {
			make_group(trip, numbers, i, &done);
			count++;
		}
	return count;
}

static bool is_denied(const struct sl_trip *trip) {
	for (uint32_t i = 0; i < trip->call->call.item_count; i++)
		if (is_enforced(trip, i) && trip->items[i].state != SL_ITEM_FREE && !trip->call->call.each[i].allowed)
			return true;
	return false;
}

static enum sl_fleet_verb verb_of(const struct sl_trip *trip, uint32_t groups) {
	static const enum sl_fleet_verb verbs[] = {
		[SLUICE_CHARGE] = SL_CHECK, [SLUICE_PEEK] = SL_PEEK,       [SLUICE_REFUND] = SL_REFUND,
		[SLUICE_RESET] = SL_RESET,  [SLUICE_ACQUIRE] = SL_ACQUIRE, [SLUICE_RELEASE] = SL_RELEASE,
		[SLUICE_RENEW] = SL_RENEW,  [SLUICE_RESERVE] = SL_RESERVE, [SLUICE_COMMIT] = SL_COMMIT};
	sluice_operation operation = trip->call->call.operation;
	if (operation != SLUICE_CHARGE)
		return verbs[operation];
	for (uint32_t i = 0; i < trip->call->call.item_count; i++)
		if (trip->items[i].state == SL_ITEM_KNOWN)
			return SL_PEEK;
	if (trip->call->call.cost == 0 && trip->call->call.id.len == 0)
		return SL_PEEK;
	return groups > 1 ? SL_HOLD : SL_CHECK;
}

static void send_groups(struct sl_trip *trip) {
	trip->pending++; /* this one itself: no answer ends the step before all are sent */
	for (struct sl_group *group = trip->groups; group != NULL; group = group->next)
		send_group(trip, group);
	if (--trip->pending == 0)
		sl_trip_go_on(trip);
}


/* Behind those that share a counter with it. */
static void queue(struct sl_trip *trip) {
	struct sl_lanes *lanes = fleet_of(trip)->lanes;
	if (trip->verb == SL_CHECK && !trip->whole)
		trip->verb = SL_HOLD; /* out of what is held for all of them */
	if (!sl_lanes_join(lanes, trip, trip->verb != SL_HOLD)) {
		deny_for_load(trip, UINT32_MAX); /* our own queue is full */
		sl_trip_expire(trip, false);
	} else if (!trip->journey->launching)
		sl_lanes_run(lanes);
}

static void ask(struct sl_trip *trip) {
	uint32_t groups = make_groups(trip);
	trip->verb = (uint8_t)verb_of(trip, groups);
	trip->asked = trip->asked || groups != 0;
	if (trip->whole && groups > 1) { /* counters of several slots, in one step: that can't be */
		dismiss_all(trip, false);
		end(trip, SLUICE_E_APART);
		return;
	}
	trip->was_held = trip->verb == SL_HOLD;
	if (trip->was_held || sl_lanes_concern(fleet_of(trip)->lanes, trip))
		queue(trip);
	else
		send_groups(trip);
}

/* ---- behind the answers ------------------------------------------------------------------------------------------ */

/* A confirm that did not come through, or found its hold gone. */
static void end_confirmed(struct sl_trip *trip) {
	bool lost = false;
	for (const struct sl_group *group = trip->groups; group != NULL; group = group->next)
		lost = lost || group->result != GROUP_DONE;
	if (lost)
		sl_count(&fleet_of(trip)->figures->lost_confirms, 1);
	dismiss_all(trip, !lost || sl_aside_passes(trip));
	end(trip, lost ? SLUICE_E_AWAY : SLUICE_OK);
}

/* Groups of which an item has failed have no part in what follows. */
static void drop_failed(struct sl_trip *trip) {
	for (struct sl_group **at = &trip->groups; *at != NULL;) {
		struct sl_group *group = *at;
		bool failed = false;
		for (uint32_t k = 0; k < group->item_count; k++)
			failed = failed || trip->items[group->positions[k]].state != SL_ITEM_TO_ASK;
		if (!failed) {
			at = &group->next;
			continue;
		}
		*at = group->next;
		free(group);
	}
}

static void end_looked(struct sl_trip *trip) {
	struct sluice_call *call = &trip->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_decision *d = &call->each[i];
		if (trip->no_room >> i & 1)
			sl_decide_bound(d, SLUICE_BOUND_ROOM, sl_plan_room_wait(call->items[i].limit));
		if ((trip->denies >> i & 1) == 0 || !d->allowed)
			continue;
		d->allowed = false; /* it has drained since: so little was missing */
		d->remaining = sl_min(d->remaining, call->cost - 1);
		d->retry_after_ns = SL_MS_NS;
		d->delay_ns = 0;
	}
	SL_ASSERT(is_denied(trip));
	dismiss_all(trip, false);
	end(trip, SLUICE_OK);
}

/* What is decided by its lanes: charged out of what they hold, or looked at. */
static void settle(struct sl_trip *trip, enum sl_lane_verdict verdict) {
	struct sl_lanes *lanes = fleet_of(trip)->lanes;
	sluice_err err = sl_aside(trip);
	if (err == SLUICE_OK && verdict == SL_LANE_ADMITS)
		sl_lanes_spend(trip);
	sl_lanes_leave(lanes, trip);
	drop_failed(trip);
	if (err != SLUICE_OK || trip->groups == NULL) {
		dismiss_all(trip, false);
		end(trip, err);
		return;
	}
	trip->denied = is_denied(trip);
	trip->verb = trip->denied ? SL_BESIDE : SL_CONFIRM;
	send_groups(trip);
}

void sl_trip_turn(struct sl_trip *trip) {
	struct sl_lanes *lanes = fleet_of(trip)->lanes;
	sluice_ns now = sl_clock_monotonic();
	enum sl_lane_verdict verdict;
	if (trip->alone && trip->groups != NULL) {
		sl_lanes_leave(lanes, trip);
		send_groups(trip);
		return;
	}
	verdict = sl_lanes_judge(trip);
	if (verdict == SL_LANE_DOUBTS && now < trip->journey->deadline)
		sl_lanes_stall(lanes, trip, now);
	else
		settle(trip, verdict);
}

void sl_trip_expire(struct sl_trip *trip, bool for_node) {
	static const struct sl_answer late = {.kind = SL_ANSWER_LATE};
	sluice_operation operation = trip->call->call.operation;
	bool never_denied = operation == SLUICE_REFUND || operation == SLUICE_RESET || operation == SLUICE_RELEASE ||
	                    operation == SLUICE_RENEW || operation == SLUICE_COMMIT;
	sluice_err err = SLUICE_OK;
	if (for_node || never_denied) {
		for (uint32_t i = 0; i < trip->call->call.item_count; i++)
			if (trip->items[i].state == SL_ITEM_TO_ASK)
				sl_trip_fail(trip, (uint32_t)1 << i, &late, false);
		err = sl_aside(trip);
	}
	dismiss_all(trip, false);
	end(trip, err);
}

/* Is it denied by what others hold, and by nothing else? Then it gets another turn, in its lanes. */
static bool is_doubted(const struct sl_trip *trip) {
	const struct sluice_call *call = &trip->call->call;
	bool any = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_decision *d = &call->each[i];
		if (trip->items[i].state == SL_ITEM_FREE || !is_enforced(trip, i) || d->allowed)
			continue;
		if (trip->items[i].state != SL_ITEM_ANSWERED || d->bound != SLUICE_BOUND_HOLDS)
			return false;
		any = true;
	}
	return any && !trip->late;
}

static bool ask_again(struct sl_trip *trip) {
	struct sl_lanes *lanes = fleet_of(trip)->lanes;
	sluice_ns now = sl_clock_monotonic();
	if (!is_doubted(trip) || now >= trip->journey->deadline || fleet_of(trip)->closing)
		return false;
	trip->denies = trip->no_room = 0;
	for (uint32_t i = 0; i < trip->call->call.item_count; i++) {
		trip->denies |= (uint32_t)!trip->call->call.each[i].allowed << i;
		if (trip->items[i].state == SL_ITEM_ANSWERED)
			trip->items[i].state = SL_ITEM_TO_ASK;
	}
	if (trip->verb == SL_CHECK && !trip->whole)
		trip->verb = SL_HOLD;
	if (!sl_lanes_join(lanes, trip, trip->verb != SL_HOLD))
		return false;
	sl_lanes_stall(lanes, trip, now);
	sl_lanes_run(lanes);
	return true;
}

void sl_trip_go_on(struct sl_trip *trip) {
	if (trip->verb == SL_VERBS) {
		ask(trip);
	} else if (trip->verb == SL_CONFIRM) {
		end_confirmed(trip);
	} else if (trip->verb == SL_BESIDE) {
		end_looked(trip);
	} else if (!ask_again(trip)) {
		sluice_err err = sl_aside(trip);
		dismiss_all(trip, false);
		end(trip, err);
	}
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* A key that is too long is a bound that denies nobody: it is told where no other was met. */
static void note_folded(struct sl_trip *trip, uint32_t i) {
	struct sluice_decision *d = &trip->call->call.each[i];
	const struct sl_plan_item item = sl_trip_plan(trip, i);
	if (d->bound == SLUICE_BOUND_NONE && sl_plan_folds(fleet_of(trip)->prefix, &item))
		d->bound = SLUICE_BOUND_KEY;
}

static void merge(struct sl_trip *trip) {
	struct sluice_call *call = &trip->call->call;
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (trip->items[i].state == SL_ITEM_FREE)
			continue;
		note_folded(trip, i);
		if (is_enforced(trip, i))
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
}

static void count_way(struct sl_trip *trip, sluice_err err) {
	struct sl_fleet *fleet = fleet_of(trip);
	bool known = false, leased = false, failed = err != SLUICE_OK, local = false;
	enum sl_fleet_way way = SL_WAY_ASKED;
	if (err == SLUICE_E_MISUSE || err == SLUICE_E_APART)
		return; /* no decision was asked for that can be made */
	for (uint32_t i = 0; i < trip->call->call.item_count; i++) {
		uint8_t state = trip->items[i].state;
		known = known || state == SL_ITEM_KNOWN;
		leased = leased || state == SL_ITEM_TAKEN;
		failed = failed || state == SL_ITEM_FAILED;
		local = local || state == SL_ITEM_LOCAL;
	}
	if (trip->late)
		sl_count(&fleet->figures->late, 1);
	if (local || failed)
		way = local && err == SLUICE_OK ? SL_WAY_LOCAL : SL_WAY_FAILED;
	else if (trip->asked)
		way = trip->was_held ? SL_WAY_HELD : SL_WAY_ASKED;
	else if (known || leased)
		way = known ? SL_WAY_KNOWN : SL_WAY_LEASED;
	else
		return; /* nothing to decide */
	sl_count(&fleet->figures->decided[way], 1);
}

static void end(struct sl_trip *trip, sluice_err err) {
	struct sluice_call *call = &trip->call->call;
	bool passes;
	merge(trip);
	call->err = err;
	if (!sl_plan_has_outcome((enum sl_fleet_verb)trip->verb, &(struct sl_head){.of = call->id, .upto = call->upto}))
		call->granted = call->merged.allowed ? call->cost : 0;
	passes = err == SLUICE_OK ? call->merged.allowed : sl_aside_passes(trip);
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (trip->items[i].state == SL_ITEM_TAKEN && trip->items[i].wait.lease != NULL) /* a peek takes nothing */
			sl_lease_done(&trip->items[i].wait, !passes, sl_clock_monotonic());
		if (!call->want_next)
			call->each[i].next_after_ns = 0;
	}
	count_way(trip, err);
	sl_journey_over(trip->journey);
}
