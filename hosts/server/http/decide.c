/* Deciding: what is asked becomes one call, decided as one step, and its answer; and the routes of limits that the
 * caller brings along: check, refund, reset. Those of the policy are in admit.c, leases in hold.c, reservations in
 * commit.c.
 *
 * When the store is away, or held up by a process that was stopped, and cannot answer (a bound of ours is no such
 * thing: there the limit denies):
 *   /v1/check, /v1/refund   503, a problem of type temporary-reduced-capacity: the caller knows what to do without us
 *   /v1/admit, /v1/auth/..  what the policy says: if any limit that applies has on-error: deny, the same 503, which
 *                           names those limits; else 200, allowed as where no limit applies. Where the proxy takes
 *                           a 5xx for a server that is down, and may let everybody in for that, 429 instead */
#include "hosts/server/http/decide.h"

#include "base/assert.h"
#include "base/operation.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/http/routes.h"
#include "proto/json.h"
#include "proto/problem.h"

struct sluice_bytes sl_http_header_of(void *data, const char *name) {
	struct sluice_bytes value = {NULL, 0};
	sl_http_field(data, name, &value);
	return value;
}

bool sl_http_decide(struct sl_http_exchange *exchange, struct sl_http_question *question, const struct sl_http_ask *ask,
                    struct sl_call_outcome *outcome) {
	struct sluice_call *call = &question->call;
	bool decides = sl_operation_is(call->operation, SL_OPS_DECIDING);
	call->want_next = decides;
	call->now = sl_admission_instant(ask->call.now, call->items, call->item_count);
	call->each = question->each;
	outcome->call = call;
	outcome->candidate_of = question->candidate_of;
	outcome->transport = SL_TRANSPORT_HTTP;
	outcome->asker.header = sl_http_header_of;
	outcome->asker.data = (void *)exchange->request;
	exchange->waits = !sl_pending_ask(exchange->context, outcome);
	if (exchange->waits)
		return false;
	if (call->operation == SLUICE_CHARGE || sl_operation_is(call->operation, SL_OPS_LASTING))
		sl_call_outcome_settle(exchange->context, outcome);
	return true;
}

struct sluice_call sl_http_call_of(const struct sl_http_ask *ask, sluice_operation operation) {
	struct sluice_call call = ask->call;
	call.operation = operation;
	call.items = ask->items;
	return call;
}

void sl_http_reply_malformed(struct sl_http_exchange *exchange, const struct sl_http_ask *ask) {
	sl_http_reply_problem(exchange, 400, sl_slice(ask->error, strnlen(ask->error, sizeof ask->error)), NULL);
}

bool sl_http_is_unable(sluice_err err) {
	return err == SLUICE_E_AWAY || err == SLUICE_E_BUSY;
}

void sl_http_reply_unable(struct sl_http_exchange *exchange, unsigned status, sluice_err err,
                          const struct sluice_bytes *names, uint32_t count) {
	struct sl_http_reply reply;
	size_t room = 1024;
	for (uint32_t i = 0; i < count; i++)
		room += SL_JSON_ROOM(names[i].len) + 1;
	if (!sl_http_reply_begin(&reply, exchange, status, sl_problem_media, room))
		return;
	sl_headers_retry_after(&reply.w, SL_UNABLE_RETRY_NS);
	sl_http_reply_body(&reply);
	sl_problem_put_unable(&reply.w, status, err == SLUICE_E_BUSY, names, count);
	sl_http_reply_end(&reply);
}

/* An error that no request should meet. */
static void reply_broken(struct sl_http_exchange *exchange, sluice_err err) {
	char memory[64];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "the decision failed with error ");
	sl_out_i64(&out, err);
	sl_http_reply_problem(exchange, 500, sl_slice(memory, sl_out_len(&out)), NULL);
}

void sl_http_reply_failed(struct sl_http_exchange *exchange, sluice_err err) {
	if (sl_http_is_unable(err))
		sl_http_reply_unable(exchange, 503, err, NULL, 0);
	else if (err == SLUICE_E_APART)
		sl_http_reply_problem(exchange, 400, sl_str(SL_PENDING_APART_TEXT), NULL);
	else if (err == SLUICE_E_MISUSE && exchange->context->remote != NULL)
		sl_http_reply_problem(exchange, 400, sl_str(SL_PENDING_MISUSE_TEXT), NULL);
	else
		reply_broken(exchange, err);
}

/* ---- limits that the caller brings along; reset -------------------------------------------------------------- */

/* The name of a limit: the policy's, or its canonical text. */
static struct sluice_bytes name_of(const struct sl_http_exchange *exchange, const struct sl_http_ask *ask, uint32_t i,
                                   const struct sluice_limit *limit, char text[SLUICE_LIMIT_TEXT_MAX]) {
	if (ask->positions[i] != SL_POSITION_NOTATION)
		return sl_str(sluice_policy_limit_name(exchange->context->policy, ask->positions[i]));
	return sl_slice(text, sluice_limit_print(limit, text));
}

void sl_http_reply_items(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                         const struct sl_http_question *question, struct sluice_bytes id) {
	char texts[SLUICE_ITEMS_MAX][SLUICE_LIMIT_TEXT_MAX];
	struct sl_http_view view;
	view.call = &question->call;
	view.count = question->call.item_count;
	view.beyond = 0;
	view.candidate_of = NULL;
	view.context = exchange->context;
	view.id = id;
	view.denied = NULL;
	view.failed_open = false;
	view.style = (struct sl_http_style){0};
	view.next = ask->call.want_next;
	for (uint32_t i = 0; i < view.count; i++) {
		const struct sluice_item *item = &question->call.items[i];
		sl_http_view_limit(&view, i, name_of(exchange, ask, i, item->limit, texts[i]));
	}
	sl_http_reply_decision(exchange, &view);
}

static void reply_forgotten(struct sl_http_exchange *exchange, uint32_t forgotten) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", 32))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"reset\":");
	sl_out_u64(&reply.w, forgotten);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

/* Forgets one item's counter; of a limit of the policy that of each override too, which may be one of its own. False:
 * later. */
static bool reset_item(struct sl_http_exchange *exchange, const struct sl_http_ask *ask, uint32_t index,
                       uint32_t *forgotten, sluice_err *err) {
	const struct sluice_limit *limits[SL_POLICY_VARIANTS_MAX] = {ask->items[index].limit};
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint32_t positions[SLUICE_ITEMS_MAX];
	struct sl_http_question question;
	uint32_t count = 1, done = 0;
	if (ask->positions[index] != SL_POSITION_NOTATION)
		count =
			sl_policy_limit_variants(exchange->context->policy, ask->positions[index], limits, SL_POLICY_VARIANTS_MAX);
	for (uint32_t n; done < count && *err == SLUICE_OK; done += n) {
		struct sl_call_outcome outcome = {.positions = positions};
		n = count - done < SLUICE_ITEMS_MAX ? count - done : SLUICE_ITEMS_MAX;
		for (uint32_t i = 0; i < n; i++) {
			items[i] = (struct sluice_item){
				.limit = limits[done + i], .key = ask->items[index].key, .terms = ask->items[index].terms};
			positions[i] = ask->positions[index];
		}
		outcome.shown = n;
		outcome.more = done + n < count || index + 1 < ask->call.item_count;
		question.call = (struct sluice_call){.items = items, .item_count = n, .operation = SLUICE_RESET};
		if (!sl_http_decide(exchange, &question, ask, &outcome))
			return false;
		*err = question.call.err;
		*forgotten += question.call.forgotten;
	}
	return true;
}

static void reset_items(struct sl_http_exchange *exchange, const struct sl_http_ask *ask) {
	uint32_t forgotten = 0;
	sluice_err err = SLUICE_OK;
	for (uint32_t i = 0; i < ask->call.item_count && err == SLUICE_OK; i++)
		if (!reset_item(exchange, ask, i, &forgotten, &err))
			return;
	if (err == SLUICE_OK)
		reply_forgotten(exchange, forgotten);
	else
		sl_http_reply_failed(exchange, err);
}

void sl_http_route_reset(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, exchange, SL_OP_RESET, NULL))
		reset_items(exchange, &ask);
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}
