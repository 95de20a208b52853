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

#include "base/assert.h"
#include "hosts/server/http/routes.h"
#include "proto/json.h"
#include "proto/problem.h"

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
	exchange->unsaid += head_only ? body_bytes : 0;
}

void sl_http_reply_head(struct sl_http_reply *reply) {
	sl_out_str(&reply->w, "\r\n");
	SL_ASSERT(!reply->w.overflow);
	reply->exchange->out->len += sl_out_len(&reply->w);
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

void sl_http_reply_problem(struct sl_http_exchange *exchange, unsigned status, struct sluice_bytes detail,
                           const char *allow) {
	struct sl_http_reply reply;
	if (exchange->context->stats != NULL && status != 500 && status != 503)
		sl_count(&exchange->context->stats->errors[SL_TRANSPORT_HTTP], 1);
	if (!sl_http_reply_begin(&reply, exchange, status, sl_problem_media, 512 + SL_JSON_ROOM(detail.len)))
		return;
	if (allow != NULL) {
		sl_out_str(&reply.w, "Allow: ");
		sl_out_str(&reply.w, allow);
		sl_out_str(&reply.w, "\r\n");
	}
	sl_http_reply_body(&reply);
	sl_problem_members(&reply.w, status, NULL, NULL, detail);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}
