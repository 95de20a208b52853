/* Pending calls: copies that outlive the bytes they were read from, and their answers.
 *
 *   one malloc: pending | calls | items | facts | limits | each | terms | names, keys, members, ids
 *
 * The answers that are ready are a queue of calls. A door takes from its front what it asks for; when it has
 * answered what it took, the taken part is dropped (sl_pending_settle()); when it has to wait again, taking begins anew
 * at the next feed. So what a request has asked for is there each time that it is read again, and no longer. */
#include "hosts/server/door/pending.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "hosts/server/door/inspected.h"
#include "hosts/server/door/override_ask.h"
#include "os/clock.h"
#include "store/lock.h"

#include <stdlib.h>

/* What some calls take. */
struct load {
	size_t items, terms, bytes;
};

/* ---- what one item is ------------------------------------------------------------------------------------------- */

/* The limit of the policy that an item belongs to; a candidate's is that of the item that it tries. */
static uint32_t position_of(const struct sl_call_outcome *outcome, uint32_t i) {
	if (outcome->positions == NULL)
		return SL_POSITION_NOTATION;
	return outcome->positions[i < outcome->shown ? i : outcome->candidate_of[i - outcome->shown]];
}

static const struct sl_policy_limit *limit_of(const struct sl_door_context *context,
                                              const struct sl_call_outcome *outcome, uint32_t i) {
	uint32_t position = position_of(outcome, i);
	return position == SL_POSITION_NOTATION ? NULL : sl_policy_limit_at(context->policy, position);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static struct load weigh(const struct sl_door_context *context, const struct sl_call_outcome *outcomes, size_t count) {
	struct load load = {0, 0, 0};
	for (size_t c = 0; c < count; c++) {
		const struct sluice_call *call = outcomes[c].call;
		for (uint32_t i = 0; i < call->item_count; i++) {
			const struct sl_policy_limit *limit = limit_of(context, &outcomes[c], i);
			load.bytes += call->items[i].key.len + call->items[i].member.len;
			load.bytes += limit != NULL ? strlen(limit->name) + 1 : 0;
			load.terms += call->items[i].terms != NULL;
		}
		load.bytes += call->id.len;
		load.items += call->item_count;
	}
	return load;
}

/* Where its parts are filled from. */
struct hold {
	struct sluice_item *items;
	struct sl_pending_item *facts;
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

static void pack_item(struct hold *hold, const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                      uint32_t i) {
	const struct sluice_item *item = &outcome->call->items[i];
	const struct sl_policy_limit *limit = limit_of(context, outcome, i);
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
	*hold->facts = (struct sl_pending_item){.on_error = SL_ON_ERROR_DENY};
	if (limit != NULL)
		*hold->facts = (struct sl_pending_item){.name = stow(hold, limit->name, strlen(limit->name) + 1),
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
static void pack_call(struct hold *hold, const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                      sluice_err err, struct sl_pending_call *to) {
	*to = (struct sl_pending_call){.call = *outcome->call,
	                               .facts = hold->facts,
	                               .retried = outcome->retried,
	                               .dated = is_dated(context, outcome->call)};
	to->call.items = hold->items;
	to->call.each = hold->each;
	if (err != SLUICE_OK)
		to->call.err = err;
	else if (outcome->call->each != NULL)
		memcpy(hold->each, outcome->call->each, outcome->call->item_count * sizeof hold->each[0]);
	to->call.id = sl_slice(stow(hold, to->call.id.data, to->call.id.len), to->call.id.len);
	hold->each += outcome->call->item_count;
	for (uint32_t i = 0; i < outcome->call->item_count; i++)
		pack_item(hold, context, outcome, i);
}

static struct sl_pending *pack(const struct sl_door_context *context, const struct sl_call_outcome *outcomes,
                               size_t count, sluice_err err) {
	struct load load = weigh(context, outcomes, count);
	struct sl_pending *pending = malloc(sizeof *pending + count * sizeof pending->calls[0] +
	                                    load.items * (sizeof(struct sluice_item) + sizeof(struct sl_pending_item) +
	                                                  sizeof(struct sluice_limit) + sizeof(struct sluice_decision)) +
	                                    load.terms * sizeof(struct sluice_terms) + load.bytes);
	if (pending == NULL)
		return NULL;
	*pending = (struct sl_pending){.sent_at = sl_clock_monotonic(), .call_count = (uint32_t)count};
	struct hold hold = {.items = (struct sluice_item *)&pending->calls[count]};
	hold.facts = (struct sl_pending_item *)&hold.items[load.items];
	hold.limits = (struct sluice_limit *)&hold.facts[load.items];
	hold.each = (struct sluice_decision *)&hold.limits[load.items];
	hold.terms = (struct sluice_terms *)&hold.each[load.items];
	hold.bytes = (char *)&hold.terms[load.terms];
	for (size_t c = 0; c < count; c++)
		pack_call(&hold, context, &outcomes[c], err, &pending->calls[c]);
	return pending;
}

void sl_pending_free(struct sl_pending *pending) {
	if (pending != NULL && pending->reload != NULL)
		sluice_problems_free(&pending->reload->problems);
	if (pending != NULL)
		free(pending->reload);
	if (pending != NULL)
		free(pending->inspected);
	if (pending != NULL)
		sl_override_ask_free(pending->override);
	if (pending != NULL)
		sl_pending_free_all(pending->before);
	free(pending);
}

void sl_pending_free_all(struct sl_pending *first) {
	for (struct sl_pending *next; first != NULL; first = next) {
		next = first->next;
		sl_pending_free(first);
	}
}

/* ---- taking what is ready ---------------------------------------------------------------------------------------- */

/* The call that is `at` calls after the first that was not settled yet; NULL after the last. */
static const struct sl_pending_call *ready_at(const struct sl_door_context *context, uint32_t at) {
	at += context->ready_settled;
	for (const struct sl_pending *pending = context->ready; pending != NULL; pending = pending->next) {
		if (at < pending->call_count)
			return &pending->calls[at];
		at -= pending->call_count;
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

static void take(struct sluice_call *call, const struct sluice_call *ready) {
	SL_ASSERT(is_same(call, ready));
	call->err = ready->err;
	call->merged = ready->merged;
	call->forgotten = ready->forgotten;
	call->found = ready->found;
	call->granted = ready->granted;
	call->repeated = ready->repeated;
	call->id = ready->id; /* one that a door makes is another each time that it is fed */
	if (call->each != NULL)
		memcpy(call->each, ready->each, call->item_count * sizeof call->each[0]);
}

static size_t take_ready(struct sl_door_context *context, const struct sl_call_outcome *outcomes, size_t count) {
	size_t taken = 0;
	for (; taken < count; taken++) {
		const struct sl_pending_call *ready = ready_at(context, context->ready_taken);
		if (ready == NULL)
			break;
		take(outcomes[taken].call, &ready->call);
		if (outcomes[taken].undecided != NULL)
			*outcomes[taken].undecided = ready->undecided;
		context->ready_taken++;
	}
	return taken;
}

void sl_pending_settle(struct sl_door_context *context) {
	context->ready_settled += context->ready_taken;
	context->ready_taken = 0;
	while (context->ready != NULL && context->ready_settled >= context->ready->call_count) {
		struct sl_pending *done = context->ready;
		context->ready_settled -= done->call_count;
		context->ready = done->next;
		sl_pending_free(done);
	}
}

void sl_pending_drop(struct sl_door_context *context) {
	sl_pending_free_all(context->ready);
	context->ready = NULL;
	context->ready_settled = context->ready_taken = 0;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static void append(struct sl_door_context *context, struct sl_pending *pending) {
	struct sl_pending **end = &context->ready;
	while (*end != NULL)
		end = &(*end)->next;
	*end = pending;
}

/* Sends calls of which none is ready. */
static bool send_away(struct sl_door_context *context, struct sl_remote *to, const struct sl_call_outcome *outcomes,
                      size_t count, sluice_err err) {
	context->pending = NULL;
	struct sl_pending *pending = pack(context, outcomes, count, err);
	if (pending == NULL)
		return false;
	if (!to->send(to, pending)) {
		context->pending = pending;
		return false;
	}
	append(context, pending);
	take_ready(context, outcomes, count);
	return true;
}

bool sl_pending_decide(struct sl_door_context *context, const struct sl_call_outcome *outcomes, size_t count) {
	size_t taken = take_ready(context, outcomes, count);
	struct sl_remote *to = context->remote != NULL ? context->remote : context->parking;
	return taken == count || send_away(context, to, outcomes + taken, count - taken, (sluice_err)SL_E_HELD_UP);
}

bool sl_pending_park(struct sl_door_context *context, const struct sl_call_outcome *outcomes, size_t count) {
	bool held_up = false;
	for (size_t i = 0; i < count && context->parking != NULL; i++)
		held_up = held_up || sl_is_held_up(outcomes[i].call->err);
	return !held_up || send_away(context, context->parking, outcomes, count, SLUICE_OK);
}

/* Keeps the answer of a call that the store has decided, unless it is kept already, with those that are ready. */
static bool keep(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	if (context->parking == NULL || context->ready != NULL)
		return true;
	context->pending = NULL;
	struct sl_pending *kept = pack(context, outcome, 1, SLUICE_OK);
	if (kept == NULL)
		return false;
	append(context, kept);
	context->ready_taken++;
	return true;
}

bool sl_pending_ask(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	struct sl_worker_stats *stats = context->stats;
	if (context->remote != NULL || sl_pending_wait(context))
		return sl_pending_decide(context, outcome, 1);
	sluice_ns begun = stats != NULL ? sl_clock_monotonic() : 0;
	outcome->call->err = sluice_decide(context->store, outcome->call);
	if (stats != NULL)
		sl_times_add(&stats->decision, sl_clock_monotonic() - begun, 1);
	return sl_pending_park(context, outcome, 1) && (!outcome->more || keep(context, outcome));
}

void sl_pending_put_off(struct sl_door_context *context, void *asker) {
	struct sl_pending *pending = context->pending;
	SL_ASSERT(pending != NULL && asker != NULL);
	SL_ASSERT(pending->reload == NULL); /* it stands in the list of net/reloading.c */
	pending->asker = asker;
	if (context->asker != asker) { /* its first turn: what it has got is no other request's */
		pending->before = context->ready;
		context->ready = NULL;
	}
	pending->next = context->put_off;
	context->put_off = pending;
	context->pending = NULL;
	context->ready_taken = 0; /* what it has taken is taken again when the rest is there */
}

/* ---- reading the policy again ------------------------------------------------------------------------------------ */

/* Where the call is that a door takes next; NULL: it is not ready. */
static struct sl_pending *next_ready(const struct sl_door_context *context) {
	uint32_t at = context->ready_settled + context->ready_taken;
	struct sl_pending *pending = context->ready;
	for (; pending != NULL && at >= pending->call_count; pending = pending->next)
		at -= pending->call_count;
	return pending;
}

/* One that asks for no decision; NULL: there is no memory. */
static struct sl_pending *make_plain(void) {
	struct sl_pending *pending = calloc(1, sizeof *pending + sizeof pending->calls[0]);
	if (pending != NULL)
		*pending = (struct sl_pending){.sent_at = sl_clock_monotonic(), .call_count = 1};
	return pending;
}

/* Has `to` do what is pending, which will fill `told`. False: it waits, as context->pending; or either is NULL, there
 * was no memory for it, and it is freed. */
static bool send_one(struct sl_door_context *context, struct sl_remote *to, struct sl_pending *pending,
                     const void *told) {
	if (pending == NULL || told == NULL) {
		sl_pending_free(pending);
		return false;
	}
	if (!to->send(to, pending)) {
		context->pending = pending;
		return false;
	}
	append(context, pending);
	return true;
}

bool sl_pending_reload(struct sl_door_context *context, const struct sl_reload **outcome) {
	struct sl_pending *pending = next_ready(context);
	context->pending = NULL;
	if (pending == NULL) {
		pending = make_plain();
		if (pending != NULL)
			pending->reload = calloc(1, sizeof *pending->reload);
		if (!send_one(context, context->reloading, pending, pending != NULL ? pending->reload : NULL))
			return false;
	}
	SL_ASSERT(pending->reload != NULL);
	context->ready_taken++;
	*outcome = pending->reload;
	return true;
}

/* ---- quotas of keys' own ----------------------------------------------------------------------------------------- */

bool sl_pending_override(struct sl_door_context *context, const struct sl_override_ask *asked,
                         struct sl_override_ask **told) {
	struct sl_pending *pending = next_ready(context);
	context->pending = NULL;
	if (pending == NULL) {
		pending = make_plain();
		if (pending != NULL)
			pending->override = sl_override_ask_new(asked);
		if (!send_one(context, context->remote, pending, pending != NULL ? pending->override : NULL))
			return false;
	}
	SL_ASSERT(pending->override != NULL && pending->override->kind == asked->kind);
	context->ready_taken++;
	*told = pending->override;
	return true;
}

/* ---- what counters hold ---------------------------------------------------------------------------------------- */

bool sl_pending_inspect(struct sl_door_context *context, const struct sl_call_outcome *outcome,
                        const struct sl_inspected **told) {
	struct sl_pending *pending = next_ready(context);
	context->pending = NULL;
	if (pending == NULL) {
		pending = pack(context, outcome, 1, SLUICE_E_AWAY);
		if (pending != NULL)
			pending->inspected = calloc(1, sizeof *pending->inspected);
		if (!send_one(context, context->remote, pending, pending != NULL ? pending->inspected : NULL))
			return false;
	}
	SL_ASSERT(pending->inspected != NULL);
	context->ready_taken++;
	*told = pending->inspected;
	return true;
}
