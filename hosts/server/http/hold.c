/* What is asked of limits that the caller brings along, or of what a ticket says: POST /v1/check, /v1/refund,
 * /v1/acquire, /v1/release, /v1/renew, /v1/reserve, /v1/commit. Each is a body, a call, and its answer.
 *
 * A lease is ended by whoever has its id, once: "released" and "renewed" say of how many counters. 0 is no error, since
 * whoever releases wants it to be gone, and it is; the detail says what may have been, which nobody can tell apart any
 * more: nothing is remembered of leases that have ended. */
#include "hosts/server/http/routes.h"

#include "algo/step.h"
#include "hosts/admission/ids.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/answer.h"
#include "proto/json.h"

static const char gone[] = "no such reservation is open: it was committed before, or was returned at the end of its "
                           "ttl";

static void reply_found(struct sl_http_exchange *exchange, const char *member, uint32_t found) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", 256))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	sl_json_put_u64(&reply.w, member, found);
	if (found == 0)
		sl_json_put_word(&reply.w, "detail",
		                 "no such lease is held: it ended by itself, was released before, or belongs to another key "
		                 "or limit");
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

static size_t write_ticket(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                           const struct sluice_call *call, char text[SL_TICKET_BYTES_MAX]) {
	const char *names[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < call->item_count; i++)
		names[i] = ask->positions[i] != SL_POSITION_NOTATION
		               ? sluice_policy_limit_name(exchange->context->policy, ask->positions[i])
		               : NULL;
	return sl_ticket_write(text, sl_id_number(call->id), sl_slice(NULL, 0), call->items, names, call->item_count);
}

/* What the caller holds now: a lease, or the ticket of a reservation; len 0: nothing. */
static struct sluice_bytes held_by(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                                   const struct sluice_call *call, char text[SL_TICKET_BYTES_MAX]) {
	bool holds = (call->operation == SLUICE_ACQUIRE || call->operation == SLUICE_RESERVE) && sl_answer_holds(call);
	if (!holds || call->merged.index < 0) /* what counts nothing holds nothing */
		return sl_slice(NULL, 0);
	return call->operation == SLUICE_ACQUIRE ? call->id : sl_slice(text, write_ticket(exchange, ask, call, text));
}

static void answer(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                   const struct sl_http_question *question) {
	const struct sluice_call *call = &question->call;
	char text[SL_TICKET_BYTES_MAX];
	if (call->err != SLUICE_OK)
		sl_http_reply_failed(exchange, call->err);
	else if (call->operation == SLUICE_RELEASE)
		reply_found(exchange, "released", call->found);
	else if (call->operation == SLUICE_RENEW)
		reply_found(exchange, "renewed", call->found);
	else if (call->operation == SLUICE_COMMIT && call->found == 0)
		sl_http_reply_problem(exchange, 404, sl_str(gone), NULL);
	else
		sl_http_reply_items(exchange, ask, question, held_by(exchange, ask, call, text));
}

static void decide(struct sl_http_exchange *exchange, struct sl_http_ask *ask, sluice_operation operation) {
	char made[SL_ID_DIGITS + 1];
	struct sl_call_outcome outcome = {.positions = ask->names ? ask->positions : NULL, .shown = ask->call.item_count};
	if ((operation == SLUICE_ACQUIRE || operation == SLUICE_RESERVE) && ask->call.id.len == 0) {
		ask->call.id = sl_make_id(made);
	}
	struct sl_http_question question = {.call = sl_http_call_of(ask, operation)};
	if (sl_http_decide(exchange, &question, ask, &outcome))
		answer(exchange, ask, &question);
}

static void route(struct sl_http_exchange *exchange, enum sl_operation operation) {
	struct sl_http_ticket ticket;
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, exchange, operation, &ticket))
		decide(exchange, &ask, ask.peek ? SLUICE_PEEK : (sluice_operation)operation);
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}

#define ROUTE(name, operation)                                     \
	void sl_http_route_##name(struct sl_http_exchange *exchange) { \
		route(exchange, operation);                                \
	}

ROUTE(check, SL_OP_CHECK)
ROUTE(refund, SL_OP_REFUND)
ROUTE(acquire, SL_OP_ACQUIRE)
ROUTE(release, SL_OP_RELEASE)
ROUTE(renew, SL_OP_RENEW)
ROUTE(reserve, SL_OP_RESERVE)
ROUTE(commit, SL_OP_COMMIT)
