/* Leases: POST /v1/acquire, /v1/release, /v1/renew.
 *
 * A lease is ended by whoever has its id, once: "released" and "renewed" say of how many counters. 0 is no error, since
 * whoever releases wants it to be gone, and it is; the detail says what may have been, which nobody can tell apart any
 * more: nothing is remembered of leases that have ended. */
#include "hosts/server/http/decide.h"

#include "hosts/server/door/ids.h"

/* ---- acquire ------------------------------------------------------------------------------------------------- */

static void acquire(struct sl_http_turn *turn, struct sl_http_ask *ask) {
	char made[SL_ID_DIGITS + 1];
	struct sl_ruling ruling = {.positions = ask->names ? ask->positions : NULL, .shown = ask->item_count};
	if (ask->id.len == 0) {
		sl_make_id(made);
		ask->id = sl_slice(made, SL_ID_DIGITS);
	}
	struct sl_http_question question = {.call = sl_http_call_of(ask, SLUICE_ACQUIRE)};
	if (!sl_http_decide(turn, &question, ask, &ruling))
		return;
	const struct sluice_call *call = &question.call;
	if (call->err == SLUICE_OK)
		sl_http_reply_items(turn, ask, &question,
		                    call->merged.allowed && call->cost != 0 ? call->id : sl_slice(NULL, 0));
	else
		sl_http_reply_failed(turn, call->err);
}

void sl_http_route_acquire(struct sl_http_turn *turn) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, SL_HTTP_ASK_ACQUIRE, NULL))
		acquire(turn, &ask);
	else
		sl_http_reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

/* ---- release, renew ------------------------------------------------------------------------------------------ */

static void reply_found(struct sl_http_turn *turn, const char *member, uint32_t found) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, turn, 200, "application/json", 256))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"");
	sl_out_str(&reply.w, member);
	sl_out_str(&reply.w, "\":");
	sl_out_u64(&reply.w, found);
	if (found == 0)
		sl_out_str(&reply.w,
		           ",\"detail\":\"no such lease is held: it had ended by itself, was released before, or is not "
		           "of this key and limit\"");
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

static void end_leases(struct sl_http_turn *turn, const struct sl_http_ask *ask, sluice_operation operation,
                       const char *member) {
	struct sl_http_question question = {.call = sl_http_call_of(ask, operation)};
	struct sl_ruling ruling = {.positions = ask->names ? ask->positions : NULL, .shown = ask->item_count};
	if (!sl_http_decide(turn, &question, ask, &ruling))
		return;
	if (question.call.err == SLUICE_OK)
		reply_found(turn, member, question.call.found);
	else
		sl_http_reply_failed(turn, question.call.err);
}

/* `member` is what the answer says of it. */
static void route_ending(struct sl_http_turn *turn, enum sl_http_ask_kind kind, sluice_operation operation,
                         const char *member) {
	struct sl_http_ticket ticket;
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, turn, kind, &ticket))
		end_leases(turn, &ask, operation, member);
	else
		sl_http_reply_malformed(turn, &ask);
	sl_http_ask_free(&ask);
}

void sl_http_route_release(struct sl_http_turn *turn) {
	route_ending(turn, SL_HTTP_ASK_RELEASE, SLUICE_RELEASE, "released");
}

void sl_http_route_renew(struct sl_http_turn *turn) {
	route_ending(turn, SL_HTTP_ASK_RENEW, SLUICE_RENEW, "renewed");
}
