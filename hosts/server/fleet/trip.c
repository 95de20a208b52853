/* See trip.h.
 *
 * Never more is admitted than the limits allow, because nothing counts as admitted before all of it is charged, or held
 * for charges that fit:
 *
 *   - a denied or failed HOLD: what the others hold is cancelled; what may be held unknown to us ends by itself
 *   - all HOLDs stand, one CONFIRM is lost: the call has failed. A confirm that finds its hold gone decides anew, and
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

static void go_on(struct sl_trip *trip);
static void end(struct sl_trip *trip, sluice_err err);

static inline struct sl_fleet *fleet_of(const struct sl_trip *trip) {
	return trip->journey->fleet;
}

static inline bool is_enforced(const struct sl_trip *trip, uint32_t i) {
	return trip->call->call.items[i].observed == 0;
}

/* ---- journeys ---------------------------------------------------------------------------------------------------- */

struct sl_journey *sl_journey_new(struct sl_fleet *fleet, struct sl_flight *flight) {
	size_t items = 0, trips = flight->call_count;
	struct sl_journey *journey;
	struct sl_trip_item *next;
	for (size_t c = 0; c < trips; c++)
		items += flight->calls[c].call.item_count;
	journey = malloc(sizeof *journey + trips * sizeof journey->trips[0] + items * sizeof *next);
	if (journey == NULL)
		return NULL;
	*journey = (struct sl_journey){
		.fleet = fleet, .flight = flight, .deadline = flight->launched + fleet->budget_ns, .left = flight->call_count};
	next = (struct sl_trip_item *)&journey->trips[trips];
	memset(next, 0, items * sizeof *next);
	for (size_t c = 0; c < trips; c++) {
		journey->trips[c] = (struct sl_trip){.journey = journey, .call = &flight->calls[c], .items = next};
		next += flight->calls[c].call.item_count;
	}
	flight->fleet_own = journey;
	return journey;
}

/* Lands the flight when its last trip has ended. */
static void trip_over(struct sl_journey *journey) {
	struct sl_flight *flight = journey->flight;
	SL_ASSERT(journey->left > 0);
	if (--journey->left != 0 || journey->launching)
		return;
	free(journey);
	if (flight->to == NULL)
		sl_flight_free(flight);
	else
		flight->landed(flight, flight->to);
}

/* ---- what nobody waits for --------------------------------------------------------------------------------------- */

static void tidied(struct sl_ask *ask, const struct sl_answer *answer) {
	(void)answer;
	free((struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask)));
}

static struct sl_head head_of(const struct sl_fleet *fleet, const struct sl_group *group) {
	uint64_t ttl_ms = sl_min(sl_max(4 * fleet->budget_ns / SL_MS_NS, HOLD_MS_MIN), HOLD_MS_MAX);
	return (struct sl_head){
		.cost = group->cost, .ttl_ms = (uint32_t)ttl_ms, .id = group->id, .dated = group->dated, .now = group->now};
}

/* The same of a whole call. */
static struct sl_head whole_head(const struct sl_trip *trip, const struct sl_group *group) {
	const struct sluice_call *call = &trip->call->call;
	struct sl_head head = head_of(fleet_of(trip), group);
	head.of = trip->verb == SL_PEEK ? sl_slice(NULL, 0) : call->id;
	head.upto = call->upto;
	head.ttl_ms = (uint32_t)sl_min(call->ttl_ns / SL_MS_NS, UINT32_MAX);
	return head;
}

/* Sends a last command, best effort, and frees the group. */
static void send_off(struct sl_fleet *fleet, struct sl_group *group, enum sl_verb verb) {
	struct sl_head head = head_of(fleet, group);
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
	struct sl_fleet *fleet = fleet_of(trip);
	bool may_hold = group->result == GROUP_DONE || group->result == GROUP_UNKNOWN;
	if (trip->verb == SL_HOLD && may_hold)
		send_off(fleet, group, charged ? SL_CONFIRM : SL_CANCEL);
	else if (trip->verb == SL_CONFIRM && group->result != GROUP_DONE)
		send_off(fleet, group, SL_CANCEL);
	else if (trip->verb == SL_CONFIRM && !charged && !has_observed(trip, group))
		send_off(fleet, group, SL_REFUND); /* what was observed may not have been charged */
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
	if (trip->items[i].tag != 0 && !d->allowed && d->retry_after_ns != 0)
		sl_known_add(fleet_of(trip)->known, trip->items[i].tag, trip->call->call.cost, d, now);
}

static void take_each(struct sl_trip *trip, struct sl_group *group, const int64_t *numbers, uint32_t count) {
	uint32_t stride = sl_plan_stride(count, group->item_count);
	struct sluice_call *call = &trip->call->call;
	sluice_ns now = sl_clock_monotonic();
	for (uint32_t k = 0; k < group->item_count; k++) {
		uint8_t i = group->positions[k];
		call->each[i] = sl_plan_decision(numbers + (size_t)stride * k, stride, i, call->want_next);
		trip->items[i].held = false;
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

static void mark_held(struct sl_trip *trip, const struct sl_group *group) {
	for (uint32_t k = 0; k < group->item_count; k++)
		trip->items[group->positions[k]].held = trip->call->call.each[group->positions[k]].allowed;
}

static bool says(const struct sl_answer *answer, const char *begins) {
	size_t len = strlen(begins);
	return answer->kind == SL_ANSWER_ERROR && answer->error.len >= len && memcmp(answer->error.data, begins, len) == 0;
}

/* Is a node's error about what the caller has said himself? That is no store that is away, whatever is wrong with it;
 * of limits of a policy without an instant nothing is his but keys and members, which no node refuses. */
static bool is_callers(const struct sl_trip *trip, const struct sl_group *group, const struct sl_answer *answer) {
	bool own = trip->call->dated;
	for (uint32_t k = 0; k < group->item_count; k++)
		own = own || trip->call->facts[group->positions[k]].name == NULL;
	return own && says(answer, "ERR ") && !says(answer, "ERR unknown command");
}

/* What answers nothing. */
static void refuse(struct sl_trip *trip, struct sl_group *group, const struct sl_answer *answer) {
	struct sl_fleet *fleet = fleet_of(trip);
	bool unknown = answer->kind == SL_ANSWER_LATE || answer->kind == SL_ANSWER_LOST;
	trip->refused = trip->refused || (!trip->denied && is_callers(trip, group, answer));
	fail_group(trip, group, unknown ? GROUP_UNKNOWN : GROUP_FAILED);
	trip->late = trip->late || answer->kind == SL_ANSWER_LATE;
	if (!unknown && answer->kind != SL_ANSWER_AWAY) {
		sl_count(&fleet->figures->refused, 1);
		sl_fleet_refused(fleet, answer->kind == SL_ANSWER_ERROR ? answer->error : sl_str("unreadable answer"));
	}
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
	if (trip->verb == SL_RESET || trip->verb == SL_CANCEL)
		return;
	take_each(trip, group, answer->numbers, answer->count);
	group->result = admits(trip, group) ? GROUP_DONE : GROUP_FAILED;
	if (trip->verb == SL_HOLD && group->result == GROUP_DONE)
		mark_held(trip, group);
}

static void answered(struct sl_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_trip *trip = group->owner;
	take_answer(trip, group, answer);
	SL_ASSERT(trip->pending > 0);
	if (--trip->pending == 0)
		go_on(trip);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_group(struct sl_trip *trip, struct sl_group *group) {
	struct sl_head head = trip->whole ? whole_head(trip, group) : head_of(fleet_of(trip), group);
	sl_group_say(group, trip->verb, &head);
	group->ask.deadline = trip->journey->deadline;
	group->ask.answered = answered;
	group->result = GROUP_ASKED;
	if (sl_fleet_ask(fleet_of(trip), group))
		trip->pending++;
	else
		fail_group(trip, group, trip->verb == SL_CONFIRM ? GROUP_UNKNOWN : GROUP_FAILED);
}

static struct sl_plan_item plan_item(const struct sl_trip *trip, uint32_t i) {
	return (struct sl_plan_item){&trip->call->call.items[i], trip->call->facts[i].name, (uint8_t)i};
}

static uint16_t number_of(const struct sl_trip *trip, uint32_t i) {
	char text[SL_PLAN_KEY_ROOM];
	const struct sl_plan_item item = plan_item(trip, i);
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
			items[count++] = plan_item(trip, i);
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
	group->id = sl_fleet_id(fleet);
	while (*last != NULL)
		last = &(*last)->next;
	*last = group;
}

static uint32_t make_groups(struct sl_trip *trip) {
	const struct sluice_call *call = &trip->call->call;
	uint16_t numbers[SLUICE_ITEMS_MAX];
	uint32_t done = 0, count = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		numbers[i] = trip->items[i].state == SL_ITEM_TO_ASK ? number_of(trip, i) : 0;
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

static enum sl_verb verb_of(const struct sl_trip *trip, uint32_t groups) {
	static const enum sl_verb verbs[] = {
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
	return groups == 1 ? SL_CHECK : SL_HOLD;
}

static void send_groups(struct sl_trip *trip) {
	trip->pending++; /* this one itself: no answer ends the step before all are sent */
	for (struct sl_group *group = trip->groups; group != NULL; group = group->next)
		send_group(trip, group);
	if (--trip->pending == 0)
		go_on(trip);
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

/* Groups that hold nothing have no part in what follows. */
static void drop_failed(struct sl_trip *trip) {
	for (struct sl_group **at = &trip->groups; *at != NULL;) {
		struct sl_group *group = *at;
		if (group->result == GROUP_DONE) {
			at = &group->next;
			continue;
		}
		*at = group->next;
		dismiss(trip, group, false);
	}
}

static void end_held(struct sl_trip *trip) {
	sluice_err err = sl_aside(trip);
	bool allowed = err == SLUICE_OK && !is_denied(trip);
	drop_failed(trip);
	bool late = sl_clock_monotonic() >= trip->journey->deadline;
	if (late && allowed && trip->groups != NULL && !sl_aside_passes(trip)) {
		err = SLUICE_E_AWAY; /* they fit, but who can't be asked in time may not hear of it, and the holds end */
		allowed = false;
	}
	if (err != SLUICE_OK || trip->groups == NULL || late) {
		dismiss_all(trip, allowed);
		end(trip, err);
		return;
	}
	trip->denied = !allowed;
	trip->verb = allowed ? SL_CONFIRM : SL_CANCEL;
	send_groups(trip);
}

static void go_on(struct sl_trip *trip) {
	if (trip->verb == SL_VERBS) {
		ask(trip);
	} else if (trip->verb == SL_HOLD) {
		end_held(trip);
	} else if (trip->verb == SL_CONFIRM) {
		end_confirmed(trip);
	} else if (trip->verb == SL_CANCEL) {
		trip->verb = SL_PEEK;
		send_groups(trip);
	} else {
		sluice_err err = sl_aside(trip);
		dismiss_all(trip, false);
		end(trip, err);
	}
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* A hold was reported as if it were charged; it is not, and there was no time to look. */
static void take_back_holds(struct sl_trip *trip) {
	struct sluice_call *call = &trip->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_decision *d = &call->each[i];
		if (trip->items[i].held)
			d->remaining = (uint32_t)sl_min(sl_min((uint64_t)d->remaining + call->cost, d->quota), UINT32_MAX);
	}
}

static void merge(struct sl_trip *trip) {
	struct sluice_call *call = &trip->call->call;
	if (trip->was_held && is_denied(trip))
		take_back_holds(trip);
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++)
		if (trip->items[i].state != SL_ITEM_FREE && is_enforced(trip, i))
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
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
	if (!sl_plan_has_outcome((enum sl_verb)trip->verb, &(struct sl_head){.of = call->id, .upto = call->upto}))
		call->granted = call->merged.allowed ? call->cost : 0;
	passes = err == SLUICE_OK ? call->merged.allowed : sl_aside_passes(trip);
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (trip->items[i].state == SL_ITEM_TAKEN && trip->items[i].wait.lease != NULL) /* a peek takes nothing */
			sl_lease_done(&trip->items[i].wait, !passes, sl_clock_monotonic());
		if (!call->want_next)
			call->each[i].next_after_ns = 0;
	}
	count_way(trip, err);
	trip_over(trip->journey);
}

/* ---- here -------------------------------------------------------------------------------------------------------- */

static void slice_decided(struct sl_lease_wait *wait, enum sl_lease_result result,
                          const struct sluice_decision *decision) {
	struct sl_trip *trip = wait->owner;
	struct sl_trip_item *item = (struct sl_trip_item *)(void *)((char *)wait - offsetof(struct sl_trip_item, wait));
	uint32_t i = (uint32_t)(item - trip->items);
	item->state = result == SL_LEASE_TAKEN ? SL_ITEM_TAKEN : result == SL_LEASE_DENIED ? SL_ITEM_KNOWN : SL_ITEM_TO_ASK;
	if (result != SL_LEASE_NONE) {
		trip->call->call.each[i] = *decision;
		trip->call->call.each[i].index = (int32_t)i;
	}
	if (--trip->pending == 0)
		go_on(trip);
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
static bool may_lease(const struct sl_trip *trip) {
	const struct sluice_call *call = &trip->call->call;
	if (fleet_of(trip)->leases == NULL || trip->call->dated || call->operation > SLUICE_PEEK)
		return false;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (!is_enforced(trip, i))
			return false;
	return !some_meet(call);
}

static enum sl_lease_result try_lease(struct sl_trip *trip, uint32_t i, sluice_ns now) {
	const struct sl_flight_call *call = trip->call;
	struct sl_trip_item *item = &trip->items[i];
	struct sl_leases *leases = fleet_of(trip)->leases;
	const struct sl_plan_item plan = plan_item(trip, i);
	if (!sl_lease_suits(plan.item->limit))
		return SL_LEASE_NONE;
	if (call->call.operation == SLUICE_PEEK)
		return sl_lease_peek(leases, item->tag, call->call.cost, now, &call->call.each[i]);
	item->wait = (struct sl_lease_wait){.cost = call->call.cost, .decided = slice_decided, .owner = trip};
	return sl_lease_take(leases, &plan, item->tag, now, &item->wait, &call->call.each[i]);
}

static void look_here(struct sl_trip *trip, uint32_t i, bool lease, sluice_ns now) {
	struct sluice_call *call = &trip->call->call;
	struct sl_trip_item *item = &trip->items[i];
	enum sl_lease_result result = lease ? try_lease(trip, i, now) : SL_LEASE_NONE;
	if (result == SL_LEASE_WAIT) {
		item->state = SL_ITEM_WAITS;
		trip->pending++;
	} else if (result == SL_LEASE_TAKEN) {
		item->state = SL_ITEM_TAKEN;
	} else if (result == SL_LEASE_DENIED ||
	           sl_known_find(fleet_of(trip)->known, item->tag, call->cost, now, &call->each[i])) {
		item->state = SL_ITEM_KNOWN;
	}
	call->each[i].index = (int32_t)i;
}

/* What is given back makes what is known here wrong. */
static void give_back_here(struct sl_trip *trip, uint32_t i, sluice_ns now) {
	struct sl_fleet *fleet = fleet_of(trip);
	sl_known_forget(fleet->known, trip->items[i].tag);
	if (fleet->leases == NULL)
		return;
	if (trip->call->call.operation == SLUICE_REFUND)
		sl_lease_settle(fleet->leases, trip->items[i].tag, now);
	else
		sl_lease_forget(fleet->leases, trip->items[i].tag);
}

static void begin(struct sl_trip *trip) {
	struct sl_flight_call *of = trip->call;
	struct sluice_call *call = &of->call;
	sluice_ns now = trip->journey->flight->launched;
	bool lease = may_lease(trip);
	call->forgotten = call->found = 0;
	call->repeated = false;
	call->granted = 0;
	trip->whole = sl_plan_is_whole(call);
	trip->verb = SL_VERBS;
	trip->pending = 1; /* this one itself */
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sl_trip_item *item = &trip->items[i];
		call->each[i] = sl_plan_full(call->items[i].limit, (uint8_t)i);
		if (call->items[i].limit->algorithm == SLUICE_UNLIMITED)
			continue;
		item->state = SL_ITEM_TO_ASK;
		if (of->dated || of->facts[i].strict || trip->whole)
			continue;
		item->tag = sl_known_tag(fleet_of(trip)->secret, call->items[i].limit, call->items[i].key);
		if (call->operation > SLUICE_PEEK)
			give_back_here(trip, i, now);
		else if (is_enforced(trip, i) && call->cost != 0)
			look_here(trip, i, lease, now);
	}
	if (--trip->pending == 0)
		go_on(trip);
}

bool sl_journey_begin(struct sl_journey *journey) {
	uint32_t count = journey->flight->call_count;
	journey->launching = true;
	for (uint32_t c = 0; c < count; c++)
		begin(&journey->trips[c]);
	journey->launching = false;
	if (journey->left != 0)
		return false;
	free(journey);
	return true;
}
