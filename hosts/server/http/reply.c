/* Answers, written where they are sent from: no copy, no printf.
 *
 *   HTTP/1.1 200 OK CR LF Date .. CR LF ... Content-Length: 000 CR LF CR LF {"allowed":..}
 *                                  length_at ^                    body_at ^
 *
 * The length is known once the body is written: three digits are left open for it, which nearly every answer needs, and
 * the body moves by the difference where it does not. Content-Length is therefore the last header.
 *
 *  R1  An answer is in the buffer whole or not at all.
 *  R2  Content-Length counts the body of the same request by GET, also where HEAD leaves the body out. */
#include "hosts/server/http/reply.h"

#include "algo/terms.h"
#include "base/assert.h"
#include "hosts/server/http/routes.h"
#include "proto/json.h"

const char sl_http_problem_quota[] = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const char sl_http_problem_reduced[] = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

enum { LENGTH_DIGITS = 3, LENGTH_DIGITS_MAX = 10 };

/* The Date header changes once a second. */
static void put_date(struct sl_out *out, sluice_ns now) {
	static _Thread_local uint64_t second = UINT64_MAX;
	static _Thread_local char line[] = "Date: ddd, 00 mmm 0000 00:00:00 GMT\r\n";
	if (now / 1000000000 != second) {
		second = now / 1000000000;
		sl_http_date(now, line + 6);
	}
	sl_out_bytes(out, line, sizeof line - 1);
}

static void put_status(struct sl_out *out, unsigned status) {
	if (status == 200) {
		sl_out_str(out, "HTTP/1.1 200 OK\r\n");
		return;
	}
	sl_out_str(out, "HTTP/1.1 ");
	sl_out_u64(out, status);
	sl_out_char(out, ' ');
	sl_out_str(out, sl_http_reason(status));
	sl_out_str(out, "\r\n");
}

bool sl_http_reply_begin(struct sl_http_reply *reply, struct sl_http_exchange *exchange, unsigned status,
                         const char *content_type, size_t room) {
	char *at = sl_buffer_reserve(exchange->out, SL_HTTP_REPLY_ROOM_HEAD + room);
	if (at == NULL) {
		exchange->close = true;
		return false;
	}
	*reply = (struct sl_http_reply){.exchange = exchange, .status = status};
	reply->w = sl_out_to(at, SL_HTTP_REPLY_ROOM_HEAD + room);
	put_status(&reply->w, status);
	put_date(&reply->w, exchange->context->now);
	if (content_type != NULL) {
		sl_out_str(&reply->w, "Content-Type: ");
		sl_out_str(&reply->w, content_type);
		sl_out_str(&reply->w, "\r\n");
	}
	sl_out_str(&reply->w, "Cache-Control: no-store\r\n");
	if (exchange->close)
		sl_out_str(&reply->w, "Connection: close\r\n");
	else if (exchange->request->http10)
		sl_out_str(&reply->w, "Connection: keep-alive\r\n");
	return true;
}

void sl_http_reply_body(struct sl_http_reply *reply) {
	sl_out_str(&reply->w, "Content-Length: ");
	reply->length_at = sl_out_len(&reply->w);
	sl_out_str(&reply->w, "000\r\n\r\n");
	reply->body_at = sl_out_len(&reply->w);
}

/* Writes the length and moves the body where its digits are not three. */
static void set_length(struct sl_http_reply *reply, size_t body_bytes) {
	char digits[LENGTH_DIGITS_MAX + 1], *start = reply->w.start;
	struct sl_out out = sl_out_to(digits, sizeof digits);
	sl_out_u64(&out, body_bytes);
	size_t n = sl_out_len(&out);
	if (n != LENGTH_DIGITS) {
		size_t body_at = reply->body_at - LENGTH_DIGITS + n;
		memmove(start + body_at, start + reply->body_at, body_bytes);
		memcpy(start + body_at - 4, "\r\n\r\n", 4);
		reply->body_at = body_at;
	}
	memcpy(start + reply->length_at, digits, n);
}

void sl_http_reply_end(struct sl_http_reply *reply) {
	struct sl_http_exchange *exchange = reply->exchange;
	size_t body_bytes = sl_out_len(&reply->w) - reply->body_at;
	bool head_only = exchange->request->method == SL_HTTP_HEAD;
	SL_ASSERT(reply->body_at != 0);
	/* `room` was too small: a mistake of ours, which must cost one connection and no more. */
	SL_DEBUG_ASSERT(!reply->w.overflow);
	if (reply->w.overflow || (size_t)(reply->w.end - reply->w.at) < LENGTH_DIGITS_MAX) {
		exchange->close = true;
		return;
	}
	set_length(reply, body_bytes);
	exchange->out->len += reply->body_at + (head_only ? 0 : body_bytes);
}

const struct sl_listen *sl_http_listen(const struct sl_http_exchange *exchange) {
	return sl_settings_listen(sl_policy_settings(exchange->context->policy), SL_LISTEN_HTTP,
	                          exchange->context->listener);
}

/* ---- whole answers ------------------------------------------------------------------------------------------- */

void sl_http_reply_text(struct sl_http_exchange *exchange, unsigned status, const char *text) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, status, "text/plain; charset=utf-8", strlen(text)))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, text);
	sl_http_reply_end(&reply);
}

void sl_http_problem_members(struct sl_out *out, unsigned status, const char *type, const char *title,
                             struct sluice_bytes detail) {
	sl_out_char(out, '{');
	sl_json_put_word(out, "type", type != NULL ? type : "about:blank");
	sl_json_put_word(out, "title", title != NULL ? title : sl_http_reason(status));
	sl_json_put_u64(out, "status", status);
	sl_json_put_text(out, "detail", detail);
}

void sl_http_reply_problem(struct sl_http_exchange *exchange, unsigned status, struct sluice_bytes detail,
                           const char *allow) {
	struct sl_http_reply reply;
	if (exchange->context->stats != NULL && status != 500 && status != 503)
		sl_count(&exchange->context->stats->errors[SL_TRANSPORT_HTTP], 1);
	if (!sl_http_reply_begin(&reply, exchange, status, "application/problem+json", 512 + SL_JSON_ROOM(detail.len)))
		return;
	if (allow != NULL) {
		sl_out_str(&reply.w, "Allow: ");
		sl_out_str(&reply.w, allow);
		sl_out_str(&reply.w, "\r\n");
	}
	sl_http_reply_body(&reply);
	sl_http_problem_members(&reply.w, status, NULL, NULL, detail);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

/* ---- the list of limits -------------------------------------------------------------------------------------- */

static size_t limit_room(const struct sl_policy_limit *limit) {
	const struct sl_policy_reserve *reserve = &limit->reserve;
	size_t more = limit->of != NULL ? SL_JSON_ROOM(strlen(limit->of)) : 0;
	if (limit->canary != NULL)
		more += SL_JSON_ROOM(strlen(limit->canary));
	if (reserve->actual_header != NULL)
		more += SL_JSON_ROOM(strlen(reserve->actual_header));
	if (limit->cost.header != NULL)
		more += SL_JSON_ROOM(strlen(limit->cost.header));
	if (reserve->estimate_header != NULL)
		more += SL_JSON_ROOM(strlen(reserve->estimate_header));
	return 512 + SLUICE_LIMIT_TEXT_MAX + SL_TERMS_TEXT_MAX + more + SL_JSON_ROOM(strlen(limit->name)) +
	       SL_JSON_ROOM(strlen(limit->key_text)) + strlen(limit->when_text);
}

static void put_text_or_null(struct sl_out *out, const char *name, const char *text) {
	if (text != NULL)
		sl_json_put_text(out, name, sl_str(text));
	else
		sl_json_put_null(out, name);
}

/* {"ttl_ms":60000,"actual":"x-actual-cost","estimate":1,"estimate_header":null}, or null */
static void put_reserve(struct sl_out *out, const struct sl_policy_reserve *reserve) {
	if (!reserve->on) {
		sl_json_put_null(out, "reserve");
		return;
	}
	sl_json_open(out, "reserve", '{');
	sl_json_put_ms(out, "ttl_ms", reserve->ttl_ns);
	put_text_or_null(out, "actual", reserve->actual_header);
	sl_json_put_u64(out, "estimate", reserve->estimate);
	put_text_or_null(out, "estimate_header", reserve->estimate_header);
	sl_out_char(out, '}');
}

/* What is said of a limit besides its notation: null and false where it is not. */
static void put_terms(struct sl_out *out, const struct sl_policy_limit *limit) {
	char penalty[SL_TERMS_TEXT_MAX];
	bool has_penalty = limit->has_terms && limit->terms.penalty_count != 0;
	if (has_penalty)
		sl_penalty_print(&limit->terms, penalty);
	put_text_or_null(out, "of", limit->of);
	put_text_or_null(out, "penalty", has_penalty ? penalty : NULL);
	sl_json_put_bool(out, "count_denied", limit->has_terms && limit->terms.count_denied);
	put_reserve(out, &limit->reserve);
}

/* {"cost":5,"header":"x-cost","routes":2}, or null: 0 is what the request costs, which 1 is where nobody says it. */
static void put_cost(struct sl_out *out, const struct sl_policy_cost *cost) {
	sl_out_str(out, ",\"cost\":");
	if (!cost->on) {
		sl_out_str(out, "null");
		return;
	}
	sl_out_str(out, "{\"cost\":");
	sl_out_u64(out, cost->cost);
	put_text_or_null(out, ",\"header\":", cost->header);
	sl_out_str(out, ",\"routes\":");
	sl_out_u64(out, cost->route_count);
	sl_out_char(out, '}');
}

static void put_limit(struct sl_out *out, const struct sl_policy_limit *limit) {
	sl_json_open(out, NULL, '{');
	sl_json_put_text(out, "name", sl_str(limit->name));
	sl_json_put_limit(out, "limit", &limit->limit);
	sl_json_put_text(out, "key", sl_str(limit->key_text));
	sl_json_name(out, "when");
	sl_out_str(out, limit->when_text);
	sl_json_put_u64(out, "overrides", limit->override_count);
	sl_json_put_bool(out, "observe", limit->observe);
	put_text_or_null(out, "canary", limit->canary);
	sl_json_put_word(out, "on_error",
	                 limit->on_error == SL_ON_ERROR_DENY    ? "deny"
	                 : limit->on_error == SL_ON_ERROR_LOCAL ? "local"
	                                                        : "allow");
	sl_json_put_bool(out, "strict", limit->strict);
	put_terms(out, limit);
	put_cost(out, &limit->cost);
	sl_out_char(out, '}');
}

void sl_http_reply_limits(struct sl_http_exchange *exchange) {
	const struct sluice_policy *policy = exchange->context->policy;
	uint32_t count = sl_policy_limit_count(policy);
	struct sl_http_reply reply;
	size_t room = 64;
	for (uint32_t i = 0; i < count; i++)
		room += limit_room(sl_policy_limit_at(policy, i));
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"limits\":[");
	for (uint32_t i = 0; i < count; i++)
		put_limit(&reply.w, sl_policy_limit_at(policy, i));
	sl_out_str(&reply.w, "]}");
	sl_http_reply_end(&reply);
}
