/* The routes that decide. Each reads what is asked, decides it as one step, and shows the decision.
 *
 * When the store is full, or away, and cannot answer:
 *   /v1/check, /v1/refund   503, a problem of type temporary-reduced-capacity: the caller knows what to do without us
 *   /v1/admit, /v1/auth/..  what the policy says: if any limit that applies has on-error: deny, the same 503, which
 *                           names those limits; else 200, allowed as where no limit applies */
#include "base/assert.h"
#include "hosts/server/door/flight.h"
#include "hosts/server/http/door_http.h"
#include "os/clock.h"

/* A call over items, with its answers. */
struct question {
	struct sluice_call call;
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* of a match, with candidates behind them */
	uint8_t candidate_of[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
};

static void decide_here(struct sl_http_turn *turn, struct sluice_call *call) {
	struct sl_tally *tally = turn->context->tally;
	sluice_ns begun = tally != NULL ? sl_clock_monotonic() : 0;
	call->err = sluice_decide(turn->context->store, call);
	if (tally != NULL)
		sl_times_add(&tally->decision, sl_clock_monotonic() - begun, 1);
}

/* Decides the items of `ruling`, whose call is made here. False: later, and nothing is to be said. Else
 * question->call.err says how. */
static bool decide(struct sl_http_turn *turn, struct question *question, const struct sl_http_ask *ask,
                   const struct sluice_item *items, uint32_t count, sluice_operation operation,
                   struct sl_ruling *ruling) {
	question->call = (struct sluice_call){
		.items = items,
		.item_count = count,
		.cost = ask->cost,
		.operation = operation,
		.want_next = operation != SLUICE_RESET,
		.now = sl_door_instant(ask->now, items, count),
		.each = question->each,
	};
	ruling->call = &question->call;
	ruling->candidate_of = question->candidate_of;
	ruling->transport = SL_TRANSPORT_HTTP;
	if (turn->context->remote == NULL)
		decide_here(turn, &question->call);
	else
		turn->waits = !sl_flight_decide(turn->context, ruling, 1);
	return !turn->waits;
}

static void settle(struct sl_http_turn *turn, const struct sl_ruling *ruling) {
	if (ruling->call->operation == SLUICE_CHARGE)
		sl_ruling_settle(turn->context, ruling);
}

static void reply_malformed(struct sl_http_turn *turn, const struct sl_http_ask *ask) {
	sl_http_reply_problem(turn, 400, sl_slice(ask->error, strnlen(ask->error, sizeof ask->error)), NULL);
}

static bool is_unable(sluice_err err) {
	return err == SLUICE_E_FULL || err == SLUICE_E_AWAY;
}

/* The store cannot answer. `names` are of the limits that deny for it. */
static void reply_unable(struct sl_http_turn *turn, sluice_err err, const struct sluice_bytes *names, uint32_t count) {
	struct sl_http_reply reply;
	bool away = err == SLUICE_E_AWAY;
	size_t room = 1024;
	for (uint32_t i = 0; i < count; i++)
		room += SL_JSON_ROOM(names[i].len) + 1;
	if (!sl_http_reply_begin(&reply, turn, 503, "application/problem+json", room))
		return;
	sl_http_reply_body(&reply);
	sl_http_problem_members(
		&reply.w, 503, sl_http_problem_reduced, away ? "Store away" : "Store full",
		sl_str(away ? "the store did not answer in time: the request was not decided"
	                : "the store has no room for a new counter: give it more memory or wait for some to end"));
	sl_out_str(&reply.w, ",\"violated-policies\":[");
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0)
			sl_out_char(&reply.w, ',');
		sl_json_string(&reply.w, names[i]);
	}
	sl_out_str(&reply.w, "]}");
	sl_http_reply_end(&reply);
}

/* An error that no request should meet. */
static void reply_broken(struct sl_http_turn *turn, sluice_err err) {
	char memory[64];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "the decision failed with error ");
	sl_out_i64(&out, err);
	sl_http_reply_problem(turn, 500, sl_slice(memory, sl_out_len(&out)), NULL);
}

/* ---- limits given in notation: check, refund, reset ---------------------------------------------------------- */

static void reply_items(struct sl_http_turn *turn, const struct sl_http_ask *ask, const struct question *question) {
	char texts[SLUICE_ITEMS_MAX][SLUICE_LIMIT_TEXT_MAX];
	struct sl_http_view view;
	view.call = &question->call;
	view.count = ask->item_count;
	view.candidate_of = NULL;
	view.style = (struct sl_http_style){0};
	for (uint32_t i = 0; i < view.count; i++) {
		struct sluice_bytes name = ask->positions[i] != SL_RULING_NOTATION
		                               ? sl_str(sluice_policy_limit_name(turn->context->policy, ask->positions[i]))
		                               : sl_slice(texts[i], sluice_limit_print(&ask->limits[i], texts[i]));
		view.keys[i] = ask->items[i].key;
		view.limits[i] = (struct sl_headers_limit){name, &ask->limits[i], &question->each[i], false};
	}
	sl_http_reply_decision(turn, &view);
}

static void decide_items(struct sl_http_turn *turn, const struct sl_http_ask *ask, sluice_operation operation) {
	struct question question;
	struct sl_ruling ruling = {.positions = ask->names ? ask->positions : NULL, .shown = ask->item_count};
	if (!decide(turn, &question, ask, ask->items, ask->item_count, operation, &ruling))
		return;
	settle(turn, &ruling);
	if (question.call.err == SLUICE_OK)
		reply_items(turn, ask, &question);
	else if (is_unable(question.call.err))
		reply_unable(turn, question.call.err, NULL, 0);
	else
		reply_broken(turn, question.call.err);
}

void sl_http_route_check(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_CHECK))
		decide_items(turn, &ask, ask.peek ? SLUICE_PEEK : SLUICE_CHARGE);
	else
		reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

void sl_http_route_refund(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_REFUND))
		decide_items(turn, &ask, SLUICE_REFUND);
	else
		reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

static void reply_forgotten(struct sl_http_turn *turn, uint32_t forgotten) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, turn, 200, "application/json", 32))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"reset\":");
	sl_out_u64(&reply.w, forgotten);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

/* Forgets one item's counter; of a limit of the policy that of each override too, which may be one of its own. False:
 * later. */
static bool reset_item(struct sl_http_turn *turn, const struct sl_http_ask *ask, uint32_t index, uint32_t *forgotten,
                       sluice_err *err) {
	const struct sluice_limit *limits[SL_POLICY_OVERRIDES_MAX + 1] = {ask->items[index].limit};
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint32_t positions[SLUICE_ITEMS_MAX];
	struct question question;
	uint32_t count = 1, done = 0;
	if (ask->positions[index] != SL_RULING_NOTATION)
		count =
			sl_policy_limit_variants(turn->context->policy, ask->positions[index], limits, SL_POLICY_OVERRIDES_MAX + 1);
	for (uint32_t n; done < count && *err == SLUICE_OK; done += n) {
		struct sl_ruling ruling = {.positions = positions};
		n = count - done < SLUICE_ITEMS_MAX ? count - done : SLUICE_ITEMS_MAX;
		for (uint32_t i = 0; i < n; i++) {
			items[i] = (struct sluice_item){.limit = limits[done + i], .key = ask->items[index].key};
			positions[i] = ask->positions[index];
		}
		ruling.shown = n;
		if (!decide(turn, &question, ask, items, n, SLUICE_RESET, &ruling))
			return false;
		*err = question.call.err;
		*forgotten += question.call.forgotten;
	}
	return true;
}

static void reset_items(struct sl_http_turn *turn, const struct sl_http_ask *ask) {
	uint32_t forgotten = 0;
	sluice_err err = SLUICE_OK;
	for (uint32_t i = 0; i < ask->item_count && err == SLUICE_OK; i++)
		if (!reset_item(turn, ask, i, &forgotten, &err))
			return;
	if (err == SLUICE_OK)
		reply_forgotten(turn, forgotten);
	else if (is_unable(err))
		reply_unable(turn, err, NULL, 0);
	else
		reply_broken(turn, err);
}

void sl_http_route_reset(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_RESET))
		reset_items(turn, &ask);
	else
		reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

/* ---- limits of the policy: admit, explain -------------------------------------------------------------------- */

static void reply_match(struct sl_http_turn *turn, const struct sluice_match *match, const struct question *question,
                        struct sl_http_style style) {
	struct sl_http_view view;
	view.call = &question->call;
	view.count = match->count;
	view.candidate_of = question->candidate_of;
	view.style = style;
	for (uint32_t i = 0; i < view.count; i++) {
		const struct sluice_item *item = &match->items[i];
		const char *name = sluice_policy_limit_name(turn->context->policy, match->position[i]);
		view.keys[i] = item->key;
		view.limits[i] = (struct sl_headers_limit){sl_str(name), item->limit, &question->each[i], item->observed};
	}
	sl_http_reply_decision(turn, &view);
}

/* What a request gets while the store cannot answer. */
static void reply_on_error(struct sl_http_turn *turn, sluice_err err, const struct sluice_match *match,
                           struct sl_http_style style) {
	struct sluice_bytes names[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < match->count; i++) {
		if (sl_policy_on_error(turn->context->policy, match, i) == SL_ON_ERROR_DENY)
			names[count++] = sl_str(sluice_policy_limit_name(turn->context->policy, match->position[i]));
	}
	if (count > 0) {
		reply_unable(turn, err, names, count);
		return;
	}
	struct question open = {
		.call.merged = {.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX},
	};
	reply_match(turn, &(struct sluice_match){.count = 0}, &open, style);
}

void sl_http_decide_attributes(struct sl_http_turn *turn, const struct sl_http_ask *ask, struct sl_http_style style) {
	struct sluice_match match;
	struct question question;
	sluice_err err = sluice_policy_match(turn->context->policy, ask->attributes, ask->attribute_count, &match,
	                                     turn->context->match_buffer, SLUICE_MATCH_BYTES_MAX);
	if (err == SLUICE_E_RANGE) {
		sl_http_reply_problem(turn, 500, sl_str("more than 16 limits of the policy apply to this request"), NULL);
		return;
	}
	if (err != SLUICE_OK) {
		reply_broken(turn, err);
		return;
	}
	memcpy(question.items, match.items, match.count * sizeof match.items[0]);
	uint32_t count = sl_ruling_add_candidates(turn->context->policy, &match, question.items, question.candidate_of);
	struct sl_ruling ruling = {.positions = match.position, .shown = match.count};
	if (!decide(turn, &question, ask, question.items, count, ask->peek ? SLUICE_PEEK : SLUICE_CHARGE, &ruling))
		return;
	settle(turn, &ruling);
	if (question.call.err == SLUICE_OK)
		reply_match(turn, &match, &question, style);
	else if (is_unable(question.call.err))
		reply_on_error(turn, question.call.err, &match, style);
	else
		reply_broken(turn, question.call.err);
}

void sl_http_route_admit(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_ADMIT))
		sl_http_decide_attributes(turn, &ask, (struct sl_http_style){0});
	else
		reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

void sl_http_route_explain(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	char decoded[SL_HTTP_HEAD_BYTES_MAX]; /* a query is shorter than the head that it stands in */
	SL_ASSERT(turn->request->query.len < sizeof decoded);
	if (sl_http_ask_query(&ask, turn, decoded))
		sl_http_decide_attributes(turn, &ask, (struct sl_http_style){.explain = true});
	else
		reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}
