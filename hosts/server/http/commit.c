/* What a proxy says when the app has answered: /v1/auth/commit.
 *
 *   proxy -> /v1/auth/..      -> 200, Sluice-Ticket: 0f3a..    what the request holds
 *   proxy -> app              -> X-Actual-Cost: 731
 *   proxy -> /v1/auth/commit     Sluice-Ticket, X-Actual-Cost  -> 200, 404, or 400 and nothing was changed
 *
 * The second call ends all that the ticket is of: reservations are committed to the cost that a header says, each
 * limit's to its own header, and leases are released. A cost that is missing or no number is refused before anything is
 * changed: the proxy's configuration says what it is where the app says none. What is not committed goes back by
 * itself. */
#include "hosts/server/http/routes.h"

#include "algo/traits.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"

static const char ticket_header[] = "sluice-ticket", actual_header[] = "x-actual-cost";

/* What is committed and released by one ticket: groups of items, each decided as one call. */
struct ending {
	struct sl_http_exchange *exchange;
	struct sl_ticket *ticket;
	uint32_t positions[SLUICE_ITEMS_MAX];
	const char *header[SLUICE_ITEMS_MAX]; /* that says the cost of an item; NULL: a lease */
	uint32_t actual[SLUICE_ITEMS_MAX];
	bool done[SLUICE_ITEMS_MAX];
};

/* The header that the policy names for a limit; for one that it has no more it is the usual one. */
static const char *header_for(const struct sluice_policy *policy, uint32_t position) {
	const char *header =
		position == SL_POSITION_NOTATION ? NULL : sl_policy_limit_at(policy, position)->reserve.actual_header;
	return header != NULL ? header : actual_header;
}

static bool refuse_actual(struct sl_http_exchange *exchange, const char *header, bool missing) {
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, header);
	sl_out_str(&out, missing ? " is missing" : " is no whole number 0..4294967295");
	sl_out_str(&out, ": expected what the request has cost; nothing was changed");
	sl_http_reply_problem(exchange, 400, sl_slice(memory, sl_out_len(&out)), NULL);
	return false;
}

/* Reads what each reservation has cost; false where that was refused. */
static bool read_actuals(struct ending *ending) {
	struct sl_http_exchange *exchange = ending->exchange;
	for (uint32_t i = 0; i < ending->ticket->count; i++) {
		struct sluice_bytes text = {NULL, 0};
		uint64_t actual;
		ending->positions[i] = sl_http_position(exchange->context->policy, ending->ticket->names[i]);
		ending->header[i] = NULL;
		ending->actual[i] = 0;
		ending->done[i] = false;
		if (sl_rule_has(ending->ticket->items[i].limit, SL_TAKES_LEASE))
			continue;
		ending->header[i] = header_for(exchange->context->policy, ending->positions[i]);
		if (!sl_http_field(exchange->request, ending->header[i], &text) || text.len == 0)
			return refuse_actual(exchange, ending->header[i], true);
		if (!sl_bytes_to_u64(text, &actual) || actual > UINT32_MAX)
			return refuse_actual(exchange, ending->header[i], false);
		ending->actual[i] = (uint32_t)actual;
	}
	return true;
}

/* Ends the first item that is not ended yet, with all others that go the same way. False: not now, or it was answered
 * that it cannot be. */
static bool end_next(struct ending *ending, const struct sl_http_ask *ask, uint32_t first, uint32_t *found) {
	struct sl_http_question question;
	uint32_t count = 0, positions[SLUICE_ITEMS_MAX];
	struct sl_call_outcome outcome = {.positions = positions};
	for (uint32_t i = first; i < ending->ticket->count; i++) {
		bool same = ending->header[i] == NULL || ending->header[first] == NULL
		                ? ending->header[i] == ending->header[first]
		                : ending->actual[i] == ending->actual[first];
		if (ending->done[i] || !same)
			continue;
		positions[count] = ending->positions[i];
		question.items[count++] = ending->ticket->items[i];
		ending->done[i] = true;
	}
	question.call = (struct sluice_call){
		.items = question.items,
		.item_count = count,
		.cost = ending->actual[first],
		.operation = ending->header[first] == NULL ? SLUICE_RELEASE : SLUICE_COMMIT,
		.id = ending->ticket->id,
	};
	outcome.shown = count;
	if (!sl_http_decide(ending->exchange, &question, ask, &outcome))
		return false;
	if (question.call.err != SLUICE_OK)
		sl_http_reply_failed(ending->exchange, question.call.err);
	*found += question.call.found;
	return question.call.err == SLUICE_OK;
}

static void reply_ended(struct sl_http_exchange *exchange, uint32_t released, uint32_t committed) {
	struct sl_http_reply reply;
	if (released == 0 && committed == 0) {
		sl_http_reply_problem(exchange, 404,
		                      sl_str("nothing is held by this ticket: it was committed before, or all of it has ended"),
		                      NULL);
		return;
	}
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", 64))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	sl_json_put_u64(&reply.w, "released", released);
	sl_json_put_u64(&reply.w, "committed", committed);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

/* Leases last: where a reservation cannot be answered for now, nothing is half done. */
static void end_all(struct ending *ending, const struct sl_http_ask *ask) {
	uint32_t released = 0, committed = 0;
	for (int leases = 0; leases < 2; leases++)
		for (uint32_t i = 0; i < ending->ticket->count; i++)
			if (!ending->done[i] && (ending->header[i] == NULL) == (leases == 1) &&
			    !end_next(ending, ask, i, leases == 1 ? &released : &committed))
				return;
	reply_ended(ending->exchange, released, committed);
}

void sl_http_route_auth_commit(struct sl_http_exchange *exchange) {
	struct sl_http_ticket ticket;
	struct sl_http_ask ask;
	struct ending ending = {.exchange = exchange, .ticket = &ticket.ticket};
	struct sluice_bytes text = {NULL, 0};
	sl_http_ask_begin(&ask, exchange);
	if (!sl_http_field(exchange->request, ticket_header, &text) || text.len == 0)
		sl_http_reply_problem(exchange, 400,
		                      sl_str("Sluice-Ticket is missing: expected what the first call answered in it"), NULL);
	else if (!sl_ticket_read(&ticket.ticket, text, sl_slice("", 0), ticket.memory))
		sl_http_reply_problem(exchange, 400,
		                      sl_str("Sluice-Ticket is no ticket: give it as the first call answered it, to the byte"),
		                      NULL);
	else if (read_actuals(&ending))
		end_all(&ending, &ask);
}
