/* The policy's decisions: admit, explain, and what the proxies' doors ask.
 *
 * What is held after a request was allowed, leases and reservations, is ended by its ticket (proto/ticket.h): "id" in
 * the answer, or, at the proxies' doors, the header Sluice-Ticket. There it must fit into the 4 KiB that a proxy keeps
 * for an answer's head unless told otherwise; a request whose keys are so long that it does not is denied before it is
 * decided. nginx would take the whole answer for a failure, and fail open; so it would any error of ours. */
#include "hosts/server/http/routes.h"

#include "base/assert.h"
#include "hosts/admission/admission.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/http/worker.h"
#include "policy/attribute.h"
#include "proto/template.h"

/* A request of the policy's, from its match to its answer. */
struct admitting {
	struct sl_http_exchange *exchange;
	const struct sl_http_ask *ask;
	struct sl_http_style style;
	struct sluice_match match;
	struct sl_http_question question;
	struct sl_admission admission;
	struct sluice_bytes id; /* the ticket */
	struct sl_undecided undecided;
	bool failed_open; /* it passes undecided, in whole or in part */
	char ticket[SL_TICKET_BYTES_MAX];
	char retry_id[SL_RETRY_ID_DIGITS];
};

/* Of a header that stands on several lines a client may have written one, and which one counts is nobody's choice. */
static bool single_header(void *data, const char *name, struct sluice_bytes *value) {
	const struct sl_http_request *request = data;
	struct sluice_bytes rest = request->head, found, text;
	while (sl_http_field_next(&rest, &found, &text)) {
		if (!sl_bytes_equal_nocase(found, name))
			continue;
		if (value->data != NULL)
			return false;
		*value = text;
	}
	return true;
}

/* A proxy's door answers a denial with the body of the limit that decided, where the policy names one. An id of the
 * request that is given twice, or longer than ids are, is none. */
static void choose_body(struct sl_http_view *view, const struct admitting *a, const struct sluice_match *match) {
	const struct sluice_decision *merged = &a->question.call.merged;
	view->denied = NULL;
	view->request_id = sl_slice(NULL, 0);
	if (!a->style.empty || merged->allowed)
		return;
	SL_ASSERT(merged->index >= 0 && (uint32_t)merged->index < match->count);
	view->denied = sl_policy_denied_by(a->exchange->context->policy, match->position[merged->index]);
	if (view->denied == NULL)
		return;
	bool single = single_header((void *)a->exchange->request, "x-request-id", &view->request_id);
	if (!single || view->request_id.len > SL_TEMPLATE_TEXT_MAX)
		view->request_id = sl_slice(NULL, 0);
}

/* The limits that found no place, after those that are decided. */
static void show_beyond(struct sl_http_view *view, const struct sluice_match *match,
                        struct sluice_decision decisions[SLUICE_BEYOND_MAX]) {
	const bool costs = sl_admission_costs(view->call);
	for (uint32_t k = 0; k < match->beyond; k++) {
		const struct sluice_item *item = &match->items[SLUICE_ITEMS_MAX + k];
		const char *name = sluice_policy_limit_name(view->context->policy, match->position[SLUICE_ITEMS_MAX + k]);
		sl_decide_unread(item, costs, &decisions[k]);
		view->keys[view->count + k] = item->key;
		view->limits[view->count + k] =
			(struct sl_headers_limit){sl_str(name), item->limit, &decisions[k], item->observed};
	}
	view->beyond = match->beyond;
}

static void reply_match(struct admitting *a, const struct sluice_match *match) {
	struct sluice_decision beyond[SLUICE_BEYOND_MAX];
	struct sl_http_view view;
	view.call = &a->question.call;
	view.count = match->count;
	view.candidate_of = a->question.candidate_of;
	view.context = a->exchange->context;
	view.id = a->id;
	view.failed_open = a->failed_open;
	choose_body(&view, a, match);
	view.style = a->style;
	view.next = a->ask->call.want_next;
	for (uint32_t i = 0; i < view.count; i++) {
		const char *name = sluice_policy_limit_name(a->exchange->context->policy, match->position[i]);
		sl_http_view_limit(&view, i, sl_str(name));
	}
	show_beyond(&view, match, beyond);
	sl_http_reply_decision(a->exchange, &view);
}

/* What a request gets while the store cannot answer. */
static void reply_on_error(struct admitting *a, sluice_err err) {
	const struct sluice_policy *policy = a->exchange->context->policy;
	struct sluice_bytes names[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < a->match.count; i++)
		if (sl_policy_on_error(policy, &a->match, i) == SL_ON_ERROR_DENY)
			names[count++] = sl_str(sluice_policy_limit_name(policy, a->match.position[i]));
	if (count > 0) {
		sl_http_reply_unable(a->exchange, a->style.unable != 0 ? a->style.unable : 503, err, names, count);
		return;
	}
	a->question.call = (struct sluice_call){
		.upto = a->question.call.upto,
		.granted = a->question.call.cost, /* as it passes undecided, all of it */
		.merged = {.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX},
	};
	reply_match(a, &(struct sluice_match){.count = 0});
}

/* ---- before it is decided ------------------------------------------------------------------------------------ */

/* nginx would make 500 of a 400, which its configuration may let in: there what is wrong is refused as a denial is. */
static void reply_wrong(struct admitting *a, const struct sl_out *out, const char *text) {
	sl_http_reply_problem(a->exchange, a->style.wrong != 0 ? a->style.wrong : 400, sl_slice(text, sl_out_len(out)),
	                      NULL);
}

static void reply_no_cost(struct admitting *a, const char *header) {
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_admission_put_no_cost(&out, header);
	reply_wrong(a, &out, memory);
}

/* Which attribute stands twice? */
static void reply_repeated(struct admitting *a) {
	const struct sl_http_ask *ask = a->ask;
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	size_t twice = sl_attribute_repeated(ask->attributes, ask->attribute_count);
	SL_ASSERT(twice < ask->attribute_count);
	sl_admission_put_repeated(&out, ask->attributes[twice].name);
	reply_wrong(a, &out, memory);
}

/* The id under which a proxy's request is charged once: of the header that the policy names. len 0: it has none. False
 * where it was refused. */
static bool take_retry_id(struct admitting *a, struct sluice_bytes *id) {
	const struct sl_http_exchange *exchange = a->exchange;
	const char *name = sl_policy_settings(exchange->context->policy)->retry_header;
	struct sluice_bytes said = {NULL, 0};
	char whole[2 * SL_HTTP_HEAD_BYTES_MAX + 64], memory[SL_HTTP_ERROR_BYTES];
	if (!a->style.empty || name == NULL)
		return true;
	if (!single_header((void *)exchange->request, name, &said)) {
		struct sl_out out = sl_out_to(memory, sizeof memory);
		sl_out_str(&out, name);
		sl_out_str(&out, " is given twice: expected one line, the id of the request");
		reply_wrong(a, &out, memory);
		return false;
	}
	if (said.len == 0)
		return true;
	/* all of it stands in the head; what was said may be one of the attributes, too */
	struct sl_out scratch = sl_out_to(whole, sizeof whole);
	*id = sl_admission_retry_id(a->ask->attributes, a->ask->attribute_count, said, &scratch, a->retry_id);
	return true;
}

static sluice_err match(struct admitting *a) {
	const struct sl_door_context *context = a->exchange->context;
	const struct sl_http_ask *ask = a->ask;
	struct sl_http_worker *worker = context->http;
	if (worker == NULL)
		return sl_policy_match(context->policy, ask->attributes, ask->attribute_count, ask->member, &a->match,
		                       context->match_buffer, SLUICE_MATCH_BYTES_MAX);
	return sl_pattern_memo_match(a->style.empty ? &worker->forwarded : &worker->asked, context->policy,
	                             ask->attributes, ask->attribute_count, ask->member, &a->match,
	                             context->match_buffer, SLUICE_MATCH_BYTES_MAX);
}

/* Finds the limits and makes the call; false where the request was refused. */
static bool prepare(struct admitting *a) {
	struct sl_http_exchange *exchange = a->exchange;
	const struct sluice_policy *policy = exchange->context->policy;
	struct sl_http_question *question = &a->question;
	sluice_err err = match(a);
	if (err == SLUICE_E_MISUSE)
		reply_repeated(a);
	else if (err != SLUICE_OK)
		sl_http_reply_failed(exchange, err);
	if (err != SLUICE_OK)
		return false;
	memcpy(question->items, a->match.items, a->match.count * sizeof a->match.items[0]);
	question->call = sl_http_call_of(a->ask, SLUICE_CHARGE);
	question->call.items = question->items;
	question->call.item_count =
		sl_call_outcome_add_candidates(policy, &a->match, question->items, question->candidate_of);
	a->admission = (struct sl_admission){
		.peek = a->ask->peek,
		.upto = a->ask->call.upto,
		.cost_said = a->ask->cost_said,
		.id = a->ask->call.id,
		.header = a->style.empty ? single_header : NULL,
		.data = (void *)exchange->request,
	};
	if (!take_retry_id(a, &a->admission.id))
		return false;
	if (sl_admission_prepare(&a->admission, policy, &a->match, question->candidate_of, question->items,
	                         &question->call))
		return true;
	reply_no_cost(a, a->admission.wrong);
	return false;
}

static void write_ticket(struct admitting *a) {
	const struct sl_http_exchange *exchange = a->exchange;
	const size_t most = a->style.empty ? SL_ADMISSION_PROXY_TICKET_MAX : SL_TICKET_BYTES_MAX;
	a->id = sl_slice(a->ticket, sl_admission_ticket(exchange->context->policy, &a->match, &a->question.call, most,
	                                                a->ticket));
}

/* Can a proxy be told what it would hold? */
static bool can_tell(struct admitting *a) {
	size_t len;
	if (!a->style.empty || !sl_admission_holds(&a->question.call))
		return true;
	write_ticket(a);
	len = a->id.len;
	a->id = sl_slice(NULL, 0);
	return len <= SL_ADMISSION_PROXY_TICKET_MAX;
}

/* What no proxy could hand on is denied by the limits that would be held, before anything is decided: an error would
 * pass where a proxy is open to errors, and clients choose how long their headers are. */
static void deny_untold(struct admitting *a, const struct sl_call_outcome *outcome) {
	a->question.call.each = a->question.each;
	sl_admission_deny_untold(&a->question.call);
	sl_call_outcome_settle(a->exchange->context, outcome);
	reply_match(a, &a->match);
}

/* ---- the decision -------------------------------------------------------------------------------------------- */

void sl_http_decide_attributes(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                               struct sl_http_style style) {
	struct admitting a;
	struct sluice_call *call = &a.question.call;
	a.exchange = exchange;
	a.ask = ask;
	a.style = style;
	a.id = sl_slice(NULL, 0);
	a.undecided = (struct sl_undecided){0};
	a.failed_open = false;
	if (!prepare(&a))
		return;
	struct sl_call_outcome outcome = {.call = call,
	                                  .positions = a.match.position,
	                                  .shown = a.match.count,
	                                  .candidate_of = a.question.candidate_of,
	                                  .transport = SL_TRANSPORT_HTTP,
	                                  .undecided = &a.undecided,
	                                  .asker = {.attributes = ask->attributes,
	                                            .attribute_count = ask->attribute_count,
	                                            .header = sl_http_header_of,
	                                            .data = (void *)exchange->request},
	                                  .beyond = a.match.beyond != 0 ? &a.match : NULL,
	                                  .retried = call->id.data == a.retry_id};
	if (!can_tell(&a)) {
		deny_untold(&a, &outcome);
		return;
	}
	if (!sl_http_decide(exchange, &a.question, ask, &outcome))
		return;
	a.failed_open = sl_call_outcome_fails_open(exchange->context, &outcome);
	if (call->err == SLUICE_OK && call->merged.allowed && sl_admission_costs(call) && sl_admission_holds(call))
		write_ticket(&a);
	if (call->err == SLUICE_OK)
		reply_match(&a, &a.match);
	else if (sl_http_is_unable(call->err))
		reply_on_error(&a, call->err);
	else
		sl_http_reply_failed(exchange, call->err);
}

void sl_http_route_admit(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, exchange, SL_OP_ADMIT, NULL))
		sl_http_decide_attributes(exchange, &ask, (struct sl_http_style){0});
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}

void sl_http_route_explain(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	char decoded[SL_HTTP_HEAD_BYTES_MAX]; /* a query is shorter than the head that it stands in */
	SL_ASSERT(exchange->request->query.len < sizeof decoded);
	if (sl_http_ask_query(&ask, exchange, decoded))
		sl_http_decide_attributes(exchange, &ask, (struct sl_http_style){.explain = true});
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}

/* ---- what counters hold ------------------------------------------------------------------------------------------ */

static void inspect_body(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	uint32_t positions[SLUICE_ITEMS_MAX];
	if (sl_http_ask_body(&ask, exchange, SL_OP_INSPECT, NULL)) {
		for (uint32_t i = 0; i < ask.call.item_count; i++) {
			positions[i] = ask.names ? ask.positions[i] : SL_POSITION_NOTATION;
			if (positions[i] == SL_POSITION_NOTATION)
				continue;
			const struct sl_policy_keyed keyed =
				sl_policy_limit_of_key(exchange->context->policy, positions[i], ask.items[i].key);
			ask.limits[i] = *keyed.limit;
			ask.items[i].cost = keyed.cost;
		}
		sl_http_reply_inspection(exchange, ask.items, ask.call.item_count, positions, ask.call.now);
	} else {
		sl_http_reply_malformed(exchange, &ask);
	}
	sl_http_ask_free(&ask);
}

static void inspect_attributes(struct sl_http_exchange *exchange, const struct sl_http_ask *ask) {
	struct admitting a = {.exchange = exchange, .ask = ask};
	if (!prepare(&a))
		return;
	/* where all limits say one cost it is the call's; a cost of nothing is admitted by all, which is no answer */
	const uint32_t cost = a.question.call.cost != 0 ? a.question.call.cost : 1;
	for (uint32_t i = 0; i < a.match.count; i++)
		if (a.question.items[i].cost == 0)
			a.question.items[i].cost = cost;
	sl_http_reply_why(exchange, ask, &a.match, a.question.items);
}

static void inspect_query(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	char decoded[SL_HTTP_HEAD_BYTES_MAX];
	SL_ASSERT(exchange->request->query.len < sizeof decoded);
	if (sl_http_ask_query(&ask, exchange, decoded))
		inspect_attributes(exchange, &ask);
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}

void sl_http_route_inspect(struct sl_http_exchange *exchange) {
	if (exchange->request->method == SL_HTTP_POST)
		inspect_body(exchange);
	else
		inspect_query(exchange);
}
