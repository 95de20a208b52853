/* Flights: copies of calls that outlive the bytes they were read from, and their answers.
 *
 *   one malloc: flight | calls | items | facts | limits | each | terms | names, keys, members, ids
 *
 * The answers of landed flights are a queue of calls. A door takes from its front what it asks for; when it has
 * answered what it took, the taken part is dropped (sl_flights_settle()); when it has to wait again, taking begins anew
 * at the next feed. So what a request has asked for is there each time that it is read again, and no longer. */
#include "hosts/server/door/flight.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "os/clock.h"
#include "store/lock.h"

#include <stdlib.h>

/* What a flight of some calls takes. */
struct load {
	size_t items, terms, bytes;
};

/* ---- what one item is ------------------------------------------------------------------------------------------- */

/* The limit of the policy that an item belongs to; a candidate's is that of the item that it tries. */
static uint32_t position_of(const struct sl_ruling *ruling, uint32_t i) {
	if (ruling->positions == NULL)
		return SL_RULING_NOTATION;
	return ruling->positions[i < ruling->shown ? i : ruling->candidate_of[i - ruling->shown]];
}

static const struct sl_policy_limit *limit_of(const struct sl_door_context *context, const struct sl_ruling *ruling,
                                              uint32_t i) {
	uint32_t position = position_of(ruling, i);
	return position == SL_RULING_NOTATION ? NULL : sl_policy_limit_at(context->policy, position);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static struct load weigh(const struct sl_door_context *context, const struct sl_ruling *rulings, size_t count) {
	struct load load = {0, 0, 0};
	for (size_t c = 0; c < count; c++) {
		const struct sluice_call *call = rulings[c].call;
		for (uint32_t i = 0; i < call->item_count; i++) {
			const struct sl_policy_limit *limit = limit_of(context, &rulings[c], i);
			load.bytes += call->items[i].key.len + call->items[i].member.len;
			load.bytes += limit != NULL ? strlen(limit->name) + 1 : 0;
			load.terms += call->items[i].terms != NULL;
		}
		load.bytes += call->id.len;
		load.items += call->item_count;
	}
	return load;
}

/* Where the parts of a flight are filled from. */
struct hold {
	struct sluice_item *items;
	struct sl_flight_item *facts;
	struct sluice_limit *limits;
	struct sluice_decision *each;
	struct sluice_terms *terms;
	char *bytes;
};

static const void *stow(struct hold *hold, const void *data, size_t len) {
	char *at = hold->bytes;
	if (len != 0)
		memcpy(at, data, len);
	hold->bytes += len;
	return at;
}

static void pack_item(struct hold *hold, const struct sl_door_context *context, const struct sl_ruling *ruling,
                      uint32_t i) {
	const struct sluice_item *item = &ruling->call->items[i];
	const struct sl_policy_limit *limit = limit_of(context, ruling, i);
	*hold->limits = *item->limit;
	*hold->items = *item;
	hold->items->limit = hold->limits;
	hold->items->key = sl_slice(stow(hold, item->key.data, item->key.len), item->key.len);
	if (item->member.data != NULL)
		hold->items->member = sl_slice(stow(hold, item->member.data, item->member.len), item->member.len);
	if (item->terms != NULL) {
		*hold->terms = *item->terms;
		hold->items->terms = hold->terms++;
	}
	*hold->facts = (struct sl_flight_item){.on_error = SL_ON_ERROR_DENY};
	if (limit != NULL)
		*hold->facts = (struct sl_flight_item){.name = stow(hold, limit->name, strlen(limit->name) + 1),
		                                       .on_error = limit->on_error,
		                                       .strict = limit->strict};
	hold->items++;
	hold->facts++;
	hold->limits++;
}

/* Was the call's instant set by the client? The server's own may have been cut to whole milliseconds. */
static bool is_dated(const struct sl_door_context *context, const struct sluice_call *call) {
	return sl_policy_settings(context->policy)->client_time &&
	       !(call->now <= context->now && context->now - call->now < SL_MS_NS);
}

/* `err`: SLUICE_OK for a call that is decided, and is packed with its answer. */
static void pack_call(struct hold *hold, const struct sl_door_context *context, const struct sl_ruling *ruling,
                      sluice_err err, struct sl_flight_call *to) {
	*to =
		(struct sl_flight_call){.call = *ruling->call, .facts = hold->facts, .dated = is_dated(context, ruling->call)};
	to->call.items = hold->items;
	to->call.each = hold->each;
	if (err != SLUICE_OK)
		to->call.err = err;
	else if (ruling->call->each != NULL)
		memcpy(hold->each, ruling->call->each, ruling->call->item_count * sizeof hold->each[0]);
	to->call.id = sl_slice(stow(hold, to->call.id.data, to->call.id.len), to->call.id.len);
	hold->each += ruling->call->item_count;
	for (uint32_t i = 0; i < ruling->call->item_count; i++)
		pack_item(hold, context, ruling, i);
}

static struct sl_flight *pack(const struct sl_door_context *context, const struct sl_ruling *rulings, size_t count,
                              sluice_err err) {
	struct load load = weigh(context, rulings, count);
	struct sl_flight *flight = malloc(sizeof *flight + count * sizeof flight->calls[0] +
	                                  load.items * (sizeof(struct sluice_item) + sizeof(struct sl_flight_item) +
	                                                sizeof(struct sluice_limit) + sizeof(struct sluice_decision)) +
	                                  load.terms * sizeof(struct sluice_terms) + load.bytes);
	if (flight == NULL)
		return NULL;
	*flight = (struct sl_flight){.launched = sl_clock_monotonic(), .call_count = (uint32_t)count};
	struct hold hold = {.items = (struct sluice_item *)&flight->calls[count]};
	hold.facts = (struct sl_flight_item *)&hold.items[load.items];
	hold.limits = (struct sluice_limit *)&hold.facts[load.items];
	hold.each = (struct sluice_decision *)&hold.limits[load.items];
	hold.terms = (struct sluice_terms *)&hold.each[load.items];
	hold.bytes = (char *)&hold.terms[load.terms];
	for (size_t c = 0; c < count; c++)
		pack_call(&hold, context, &rulings[c], err, &flight->calls[c]);
	return flight;
}

void sl_flight_free(struct sl_flight *flight) {
	if (flight != NULL && flight->reload != NULL)
		sluice_problems_free(&flight->reload->problems);
	if (flight != NULL)
		free(flight->reload);
	free(flight);
}

void sl_flights_free(struct sl_flight *first) {
	for (struct sl_flight *next; first != NULL; first = next) {
		next = first->next;
		sl_flight_free(first);
	}
}

/* ---- taking what has landed -------------------------------------------------------------------------------------- */

/* The call that is `at` calls behind the first that was not settled yet; NULL behind the last. */
static const struct sl_flight_call *landed_at(const struct sl_door_context *context, uint32_t at) {
	at += context->landed_settled;
	for (const struct sl_flight *flight = context->landed; flight != NULL; flight = flight->next) {
		if (at < flight->call_count)
			return &flight->calls[at];
		at -= flight->call_count;
	}
	return NULL;
}

/* Does an answer belong to a call? The same bytes were read under the same policy, so it does. */
static bool is_same(const struct sluice_call *a, const struct sluice_call *b) {
	if (a->operation != b->operation || a->cost != b->cost || a->item_count != b->item_count || a->upto != b->upto)
		return false;
	for (uint32_t i = 0; i < a->item_count; i++)
		if (!sl_bytes_equal(a->items[i].key, b->items[i].key) ||
		    memcmp(a->items[i].limit->derived, b->items[i].limit->derived, sizeof a->items[i].limit->derived) != 0)
			return false;
	return true;
}

static void take(struct sluice_call *call, const struct sluice_call *landed) {
	SL_ASSERT(is_same(call, landed));
	call->err = landed->err;
	call->merged = landed->merged;
	call->forgotten = landed->forgotten;
	call->found = landed->found;
	call->granted = landed->granted;
	call->repeated = landed->repeated;
	call->id = landed->id; /* one that a door makes is another each time that it is fed */
	if (call->each != NULL)
		memcpy(call->each, landed->each, call->item_count * sizeof call->each[0]);
}

static size_t take_landed(struct sl_door_context *context, const struct sl_ruling *rulings, size_t count) {
	size_t taken = 0;
	for (; taken < count; taken++) {
		const struct sl_flight_call *landed = landed_at(context, context->landed_taken);
		if (landed == NULL)
			break;
		take(rulings[taken].call, &landed->call);
		context->landed_taken++;
	}
	return taken;
}

void sl_flights_settle(struct sl_door_context *context) {
	context->landed_settled += context->landed_taken;
	context->landed_taken = 0;
	while (context->landed != NULL && context->landed_settled >= context->landed->call_count) {
		struct sl_flight *done = context->landed;
		context->landed_settled -= done->call_count;
		context->landed = done->next;
		sl_flight_free(done);
	}
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static void append(struct sl_door_context *context, struct sl_flight *flight) {
	struct sl_flight **end = &context->landed;
	while (*end != NULL)
		end = &(*end)->next;
	*end = flight;
}

/* Launches calls of which none has landed. */
static bool launch(struct sl_door_context *context, struct sl_remote *to, const struct sl_ruling *rulings, size_t count,
                   sluice_err err) {
	context->launched = NULL;
	struct sl_flight *flight = pack(context, rulings, count, err);
	if (flight == NULL)
		return false;
	if (!to->launch(to, flight)) {
		context->launched = flight;
		return false;
	}
	append(context, flight);
	take_landed(context, rulings, count);
	return true;
}

bool sl_flight_decide(struct sl_door_context *context, const struct sl_ruling *rulings, size_t count) {
	size_t taken = take_landed(context, rulings, count);
	struct sl_remote *to = context->remote != NULL ? context->remote : context->parking;
	return taken == count || launch(context, to, rulings + taken, count - taken, (sluice_err)SL_E_HELD_UP);
}

bool sl_flight_park(struct sl_door_context *context, const struct sl_ruling *rulings, size_t count) {
	bool held_up = false;
	for (size_t i = 0; i < count && context->parking != NULL; i++)
		held_up = held_up || sl_is_held_up(rulings[i].call->err);
	return !held_up || launch(context, context->parking, rulings, count, SLUICE_OK);
}

/* ---- reading the policy again ------------------------------------------------------------------------------------ */

/* The flight of the call that a door takes next; NULL: none has landed. */
static struct sl_flight *next_landed(const struct sl_door_context *context) {
	uint32_t at = context->landed_settled + context->landed_taken;
	struct sl_flight *flight = context->landed;
	for (; flight != NULL && at >= flight->call_count; flight = flight->next)
		at -= flight->call_count;
	return flight;
}

bool sl_flight_reload(struct sl_door_context *context, const struct sl_reload **outcome) {
	struct sl_flight *flight = next_landed(context);
	context->launched = NULL;
	if (flight == NULL) {
		flight = calloc(1, sizeof *flight + sizeof flight->calls[0]);
		if (flight == NULL)
			return false;
		*flight = (struct sl_flight){.launched = sl_clock_monotonic(), .call_count = 1};
		flight->reload = calloc(1, sizeof *flight->reload);
		if (flight->reload == NULL) {
			sl_flight_free(flight);
			return false;
		}
		if (!context->reloading->launch(context->reloading, flight)) {
			context->launched = flight;
			return false;
		}
		append(context, flight);
	}
	SL_ASSERT(flight->reload != NULL);
	context->landed_taken++;
	*outcome = flight->reload;
	return true;
}
