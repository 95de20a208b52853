/* Reservations: POST /v1/reserve, /v1/commit; and what a proxy says when the app has answered: /v1/auth/commit.
 *
 *   proxy -> /v1/auth/..      -> 200, Sluice-Ticket: 0f3a..    what the request holds
 *   proxy -> app              -> X-Actual-Cost: 731
 *   proxy -> /v1/auth/commit     Sluice-Ticket, X-Actual-Cost  -> 200, 404, or 400 and nothing was changed
 *
 * The second call ends all that the ticket is of: reservations are committed to the cost that a header says, each
 * limit's to its own header, and leases are released. A cost that is missing or no number is refused before anything is
 * changed: the proxy's configuration says what it is where the app says none. What is not committed goes back by
 * itself. */
#include "hosts/server/http/decide.h"

#include "algo/step.h"
#include "hosts/server/door/ids.h"

/* ---- reserve ------------------------------------------------------------------------------------------------- */

static size_t write_ticket(struct sl_http_turn *turn, const struct sl_http_ask *ask, const struct sluice_call *call,
                           char text[SL_TICKET_BYTES_MAX]) {
	const char *names[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < ask->item_count; i++)
		names[i] = ask->positions[i] != SL_RULING_NOTATION
		               ? sluice_policy_limit_name(turn->context->policy, ask->positions[i])
		               : NULL;
	return sl_ticket_write(text, sl_id_number(call->id), sl_slice(NULL, 0), call->items, names, call->item_count);
}

static void reserve(struct sl_http_turn *turn, struct sl_http_ask *ask) {
	char made[SL_ID_DIGITS + 1], ticket[SL_TICKET_BYTES_MAX];
	struct sluice_bytes id = {NULL, 0};
	struct sl_ruling ruling = {.positions = ask->names ? ask->positions : NULL, .shown = ask->item_count};
	if (ask->id.len == 0) {
		sl_make_id(made);
		ask->id = sl_slice(made, SL_ID_DIGITS);
	}
	struct sl_http_question question = {.call = sl_http_call_of(ask, SLUICE_RESERVE)};
	if (!sl_http_decide(turn, &question, ask, &ruling))
		return;
	const struct sluice_call *call = &question.call;
	if (call->err != SLUICE_OK) {
		sl_http_reply_failed(turn, call->err);
		return;
	}
	if (call->merged.allowed && call->cost != 0 && call->merged.index >= 0) /* else it counts nothing */
		id = sl_slice(ticket, write_ticket(turn, ask, call, ticket));
	sl_http_reply_items(turn, ask, &question, id);
}

void sl_http_route_reserve(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_RESERVE, NULL))
		reserve(turn, &ask);
	else
		sl_http_reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

/* ---- commit -------------------------------------------------------------------------------------------------- */

static const char gone[] = "no such reservation is open: it was committed before, or went back at its end";

static void commit(struct sl_http_turn *turn, struct sl_http_ask *ask) {
	struct sl_ruling ruling = {.positions = ask->names ? ask->positions : NULL, .shown = ask->item_count};
	struct sl_http_question question = {.call = sl_http_call_of(ask, SLUICE_COMMIT)};
	if (!sl_http_decide(turn, &question, ask, &ruling))
		return;
	if (question.call.err != SLUICE_OK)
		sl_http_reply_failed(turn, question.call.err);
	else if (question.call.found == 0)
		sl_http_reply_problem(turn, 404, sl_str(gone), NULL);
	else
		sl_http_reply_items(turn, ask, &question, sl_slice(NULL, 0));
}

void sl_http_route_commit(struct sl_http_turn *turn) {
	struct sl_http_ticket ticket;
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_COMMIT, &ticket))
		commit(turn, &ask);
	else
		sl_http_reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

/* ---- a proxy's second call ----------------------------------------------------------------------------------- */

static const char ticket_header[] = "sluice-ticket", actual_header[] = "x-actual-cost";

/* What is committed and released by one ticket: groups of items, each decided as one call. */
struct ending {
	struct sl_http_turn *turn;
	struct sl_ticket *ticket;
	uint32_t positions[SLUICE_ITEMS_MAX];
	const char *header[SLUICE_ITEMS_MAX]; /* that says the cost of an item; NULL: a lease */
	uint32_t actual[SLUICE_ITEMS_MAX];
	bool done[SLUICE_ITEMS_MAX];
};

/* The header that the policy names for a limit; for one that it has no more it is the usual one. */
static const char *header_for(const struct sluice_policy *policy, uint32_t position) {
	const char *header =
		position == SL_RULING_NOTATION ? NULL : sl_policy_limit_at(policy, position)->reserve.actual_header;
	return header != NULL ? header : actual_header;
}

static bool refuse_actual(struct sl_http_turn *turn, const char *header, bool missing) {
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, header);
	sl_out_str(&out, missing ? " is missing" : " is no whole number 0..4294967295");
	sl_out_str(&out, ": expected what the request has cost; nothing was changed");
	sl_http_reply_problem(turn, 400, sl_slice(memory, sl_out_len(&out)), NULL);
	return false;
}

/* Reads what each reservation has cost; false where that was refused. */
static bool read_actuals(struct ending *ending) {
	struct sl_http_turn *turn = ending->turn;
	for (uint32_t i = 0; i < ending->ticket->count; i++) {
		struct sluice_bytes text = {NULL, 0};
		uint64_t actual;
		ending->positions[i] = sl_http_position(turn->context->policy, ending->ticket->names[i]);
		ending->header[i] = NULL;
		ending->actual[i] = 0;
		ending->done[i] = false;
		if (ending->ticket->items[i].limit->algorithm == SLUICE_CONCURRENCY)
			continue;
		ending->header[i] = header_for(turn->context->policy, ending->positions[i]);
		if (!sl_http_field(turn->request, ending->header[i], &text) || text.len == 0)
			return refuse_actual(turn, ending->header[i], true);
		if (!sl_bytes_to_u64(text, &actual) || actual > UINT32_MAX)
			return refuse_actual(turn, ending->header[i], false);
		ending->actual[i] = (uint32_t)actual;
	}
	return true;
}

/* Ends the first item that is not ended yet, with all others that go the same way. False: not now, or it was answered
 * that it cannot be. */
static bool end_next(struct ending *ending, const struct sl_http_ask *ask, uint32_t first, uint32_t *found) {
	struct sl_http_question question;
	uint32_t count = 0, positions[SLUICE_ITEMS_MAX];
	struct sl_ruling ruling = {.positions = positions};
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
	ruling.shown = count;
	if (!sl_http_decide(ending->turn, &question, ask, &ruling))
		return false;
	if (question.call.err != SLUICE_OK)
		sl_http_reply_failed(ending->turn, question.call.err);
	*found += question.call.found;
	return question.call.err == SLUICE_OK;
}

static void reply_ended(struct sl_http_turn *turn, uint32_t released, uint32_t committed) {
	struct sl_http_reply reply;
	if (released == 0 && committed == 0) {
		sl_http_reply_problem(
			turn, 404, sl_str("nothing is held by this ticket: it was committed before, or all of it has ended"), NULL);
		return;
	}
	if (!sl_http_reply_begin(&reply, turn, 200, "application/json", 64))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"released\":");
	sl_out_u64(&reply.w, released);
	sl_out_str(&reply.w, ",\"committed\":");
	sl_out_u64(&reply.w, committed);
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
	reply_ended(ending->turn, released, committed);
}

void sl_http_route_auth_commit(struct sl_http_turn *turn) {
	struct sl_http_ticket ticket;
	struct sl_http_ask ask;
	struct ending ending = {.turn = turn, .ticket = &ticket.ticket};
	struct sluice_bytes text = {NULL, 0};
	sl_http_ask_begin(&ask, turn);
	if (!sl_http_field(turn->request, ticket_header, &text) || text.len == 0)
		sl_http_reply_problem(turn, 400,
		                      sl_str("Sluice-Ticket is missing: expected what the first call answered in it"), NULL);
	else if (!sl_ticket_read(&ticket.ticket, text, sl_slice("", 0), ticket.memory))
		sl_http_reply_problem(
			turn, 400, sl_str("Sluice-Ticket is no ticket: give it as the first call answered it, to the byte"), NULL);
	else if (read_actuals(&ending))
		end_all(&ending, &ask);
}
