/* Journeys: flights on their way, from launch to landing, and what of their calls is decided here, at once: by slices
 * and by denials that still hold. The rest is asked for (trip.c). */
#include "hosts/server/fleet/trip.h"

#include "algo/step.h"
#include "base/assert.h"
#include "os/clock.h"

#include <stdlib.h>

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

void sl_journey_over(struct sl_journey *journey) {
	struct sl_flight *flight = journey->flight;
	SL_ASSERT(journey->left > 0);
	if (--journey->left != 0 || journey->launching)
		return;
	if (journey->fleet->launching) {
		journey->next = journey->fleet->to_land;
		journey->fleet->to_land = journey;
		sl_fleet_wake(journey->fleet, 0);
		return;
	}
	free(journey);
	if (flight->to == NULL)
		sl_flight_free(flight);
	else
		flight->landed(flight, flight->to);
}

void sl_journeys_land(struct sl_fleet *fleet) {
	while (fleet->to_land != NULL) {
		struct sl_journey *journey = fleet->to_land;
		fleet->to_land = journey->next;
		journey->left = 1;
		sl_journey_over(journey);
	}
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
		sl_trip_go_on(trip);
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
	const struct sl_plan_item plan = sl_trip_plan(trip, i);
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

/* A limit has met a bound before: it denies, and nobody is asked. */
static bool is_blocked(struct sl_trip *trip) {
	const struct sluice_call *call = &trip->call->call;
	if (!sl_decide_blocked(call))
		return false;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->items[i].bound != SLUICE_BOUND_NONE)
			trip->items[i].state = SL_ITEM_KNOWN;
	return true;
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
	bool blocked = is_blocked(trip);
	for (uint32_t i = 0; i < call->item_count && !blocked; i++) {
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
		sl_trip_go_on(trip);
}

bool sl_journey_begin(struct sl_journey *journey) {
	uint32_t count = journey->flight->call_count;
	journey->launching = true;
	for (uint32_t c = 0; c < count; c++)
		begin(&journey->trips[c]);
	sl_lanes_run(journey->fleet->lanes);
	journey->launching = false;
	if (journey->left != 0)
		return false;
	free(journey);
	return true;
}
