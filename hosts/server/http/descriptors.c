/* POST /json: a request to Envoy's rate limit service as JSON, as envoyproxy/ratelimit takes it over HTTP. It decides
 * as the gRPC door does (envoy/rate_limit.h), and answers with the same message:
 *
 *   200  OK      429  OVER_LIMIT      400  what is no such request, in a problem document
 *
 * The headers that Envoy would add to a response stand in the message, and are headers of this answer as well. A store
 * that can't answer is 503, or what the limits' on-error says; theirs gives 400 for that. */
#include "hosts/server/http/routes.h"

#include "hosts/server/envoy/rate_limit.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/rls_json.h"

static void put_header(struct sl_out *out, const struct sl_rls_header *header) {
	if (sl_bytes_equal_nocase(header->name, "content-type"))
		return; /* of the body that the message carries */
	sl_out_bytes(out, header->name.data, header->name.len);
	sl_out_str(out, ": ");
	sl_out_bytes(out, header->value.data, header->value.len);
	sl_out_str(out, "\r\n");
}

static void reply_answer(struct sl_http_exchange *exchange, const struct sl_rls_response *response) {
	struct sl_http_reply reply;
	size_t room = sl_rls_json_room(response);
	for (uint32_t i = 0; i < response->response_header_count; i++)
		room += response->response_headers[i].name.len + response->response_headers[i].value.len + 4;
	if (!sl_http_reply_begin(&reply, exchange, response->code == SL_RLS_OK ? 200 : 429, "application/json", room))
		return;
	for (uint32_t i = 0; i < response->response_header_count; i++)
		put_header(&reply.w, &response->response_headers[i]);
	sl_http_reply_body(&reply);
	struct sl_out body = sl_out_to(reply.w.at, (size_t)(reply.w.end - reply.w.at));
	sl_rls_json_put(&body, response);
	reply.w.at = body.at;
	reply.w.overflow = reply.w.overflow || body.overflow;
	sl_http_reply_end(&reply);
}

static void reply_refused(struct sl_http_exchange *exchange, const struct sl_rls_answer *answer) {
	if (answer->code == SL_GRPC_UNAVAILABLE)
		sl_http_reply_failed(exchange, answer->err);
	else
		sl_http_reply_problem(exchange, answer->code == SL_GRPC_INTERNAL ? 500 : 400, sl_str(answer->text), NULL);
}

static void decide(struct sl_http_exchange *exchange, struct sl_rls_worker *worker) {
	struct sl_rls_answer answer;
	answer.writer = NULL; /* JSON is asked for */
	sl_rls_was_read(worker);
	switch (sl_rls_decide(exchange->context, worker, SL_TRANSPORT_HTTP, &answer)) {
	case SL_RLS_LATER:
		exchange->waits = true;
		break;
	case SL_RLS_REFUSED:
		reply_refused(exchange, &answer);
		break;
	default:
		reply_answer(exchange, &answer.response);
	}
}

void sl_http_route_json(struct sl_http_exchange *exchange) {
	struct sl_rls_worker *worker = sl_rls_worker_of(exchange->context);
	char error[SL_JSON_ERROR_BYTES];
	struct sl_rls_answer answer;
	if (worker == NULL) {
		exchange->close = true;
		return;
	}
	json_t *root = sl_json_read(exchange->request->body, error);
	enum sl_rls_read came = root == NULL ? SL_RLS_MALFORMED : sl_rls_json_read(&worker->request, root, error);
	if (came == SL_RLS_MALFORMED) {
		sl_http_reply_problem(exchange, 400, sl_str(error), NULL);
	} else if (came == SL_RLS_TOO_MANY) {
		sl_rls_answer_bound(exchange->context, worker, SL_TRANSPORT_HTTP, "descriptors",
		                    worker->request.descriptors_sent, &answer);
		reply_answer(exchange, &answer.response);
	} else {
		decide(exchange, worker);
	}
	sl_json_free(root);
}
