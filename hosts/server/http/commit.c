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

#include "hosts/server/door/ending_decide.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"

static const char ticket_header[] = "sluice-ticket";

/* The cost that a header had to say. */
static void refuse_cost(struct sl_http_exchange *exchange, const char *header) {
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	bool missing = sl_http_header_of((void *)exchange->request, header).len == 0;
	sl_out_str(&out, header);
	sl_out_str(&out, missing ? " is missing" : " is not a whole number 0..4294967295");
	sl_out_str(&out, ": expected the request's true cost; nothing was changed");
	sl_http_reply_problem(exchange, 400, sl_slice(memory, sl_out_len(&out)), NULL);
}

static void reply_ended(struct sl_http_exchange *exchange, uint32_t released, uint32_t committed) {
	struct sl_http_reply reply;
	if (released == 0 && committed == 0) {
		sl_http_reply_problem(exchange, 404,
		                      sl_str("this ticket holds nothing: it was committed before, or its time is over"),
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

static void end(struct sl_http_exchange *exchange, const struct sl_ticket *ticket) {
	struct sl_ending ending;
	const char *header = NULL;
	sluice_err err;
	if (!sl_ending_make(&ending, ticket, exchange->context->policy, exchange->context->now, sl_http_header_of,
	                    (void *)exchange->request, &header)) {
		refuse_cost(exchange, header);
		return;
	}
	exchange->waits = !sl_ending_decide(&ending, exchange->context, SL_TRANSPORT_HTTP, &err);
	if (exchange->waits)
		return;
	if (err == SLUICE_OK)
		reply_ended(exchange, ending.released, ending.committed);
	else
		sl_http_reply_failed(exchange, err);
}

void sl_http_route_auth_commit(struct sl_http_exchange *exchange) {
	struct sl_http_ticket ticket;
	struct sluice_bytes text = {NULL, 0};
	if (!sl_http_field(exchange->request, ticket_header, &text) || text.len == 0)
		sl_http_reply_problem(exchange, 400,
		                      sl_str("Sluice-Ticket is missing: expected the one that the first call answered"), NULL);
	else if (!sl_ticket_read(&ticket.ticket, text, sl_slice("", 0), ticket.memory))
		sl_http_reply_problem(exchange, 400,
		                      sl_str("Sluice-Ticket is not a ticket: send it back exactly as the first call answered "
		                             "it"),
		                      NULL);
	else
		end(exchange, &ticket.ticket);
}
