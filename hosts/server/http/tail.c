/* GET /v1/tail?limit=NAME&key=KEY&denied=true: decisions as they happen, an answer that goes on until the client leaves
 * or asks for something else.
 *
 *   application/x-ndjson   {"time":..,"limit":..} LF             a line a decision
 *   text/event-stream      data: {"time":..,"limit":..} LF LF    where Accept has that: for EventSource
 *
 * HTTP/1.1 gets chunks, so that the connection lives on; HTTP/1.0 bytes up to its end. */
#include "hosts/server/http/tail.h"

#include "base/assert.h"
#include "hosts/server/door/tailing.h"
#include "hosts/server/http/door_http.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/http/routes.h"

#include <stdio.h>

/* Of reader->form. */
enum { FORM_EVENTS = 1, FORM_CHUNKED = 2, FORM_LAST = 4 };

enum { CHUNK_ROOM = 32, HEAD_ROOM = 256 };

/* Says what is wrong, and with which member of the query. */
static bool fail(struct sluice_error *error, const char *member, const char *what) {
	char text[sizeof error->text];
	snprintf(text, sizeof text, "%s: %.220s", member, what);
	memcpy(error->text, text, sizeof text);
	return false;
}

/* One name=value of the query, the value decoded. False with `error` filled. */
static bool take_pair(const struct sl_http_exchange *exchange, struct sluice_bytes name, struct sluice_bytes value,
                      struct sl_tail_filter *filter, struct sluice_error *error) {
	struct sluice_error why = {.text = ""};
	if (sl_bytes_equal(name, sl_str("limit")))
		return sl_tailing_limit(exchange->context, filter, value, &why) || fail(error, "limit", why.text);
	if (sl_bytes_equal(name, sl_str("key"))) {
		sl_tailing_key(exchange->context, filter, value);
		return true;
	}
	if (!sl_bytes_equal(name, sl_str("denied")))
		return fail(error, "query", "expected limit=NAME, key=KEY and denied=true|false");
	filter->denied = sl_bytes_equal(value, sl_str("true"));
	return filter->denied || sl_bytes_equal(value, sl_str("false")) || fail(error, "denied", "expected true or false");
}

static bool read_query(const struct sl_http_exchange *exchange, struct sl_tail_filter *filter,
                       struct sluice_error *error) {
	struct sluice_bytes query = exchange->request->query, name, value;
	char *memory = exchange->context->match_buffer;
	sl_tail_filter_begin(filter);
	if (sl_http_query_repeats(query))
		return fail(error, "query", SL_HTTP_REPEATED);
	while (sl_http_query_next(&query, &name, &value)) {
		SL_ASSERT(value.len <= SLUICE_MATCH_BYTES_MAX); /* a request's head is shorter */
		ptrdiff_t len = sl_http_decode(value, true, memory);
		if (len < 0)
			return fail(error, "query", "expected two hex digits after each %");
		if (!take_pair(exchange, name, sl_slice(memory, (size_t)len), filter, error))
			return false;
	}
	return true;
}

/* Does the client take events? Other types beside that one do not matter: who names it has an EventSource. */
static bool wants_events(const struct sl_http_exchange *exchange) {
	struct sluice_bytes accept, events = sl_str("text/event-stream");
	return sl_http_field(exchange->request, "accept", &accept) && accept.len >= events.len &&
	       memmem(accept.data, accept.len, events.data, events.len) != NULL;
}

static uint32_t form_of(const struct sl_http_exchange *exchange) {
	return (wants_events(exchange) ? FORM_EVENTS : 0) | (exchange->request->http10 ? FORM_LAST : FORM_CHUNKED) |
	       (exchange->close ? FORM_LAST : 0);
}

static void reply_stream(struct sl_http_exchange *exchange) {
	struct sl_http_reply reply;
	uint32_t form = form_of(exchange);
	exchange->close = (form & FORM_LAST) != 0;
	if (!sl_http_reply_begin(&reply, exchange, 200,
	                         (form & FORM_EVENTS) != 0 ? "text/event-stream" : "application/x-ndjson", HEAD_ROOM)) {
		sl_tailing_end(exchange->context);
		return;
	}
	sl_out_str(&reply.w, "X-Accel-Buffering: no\r\n"); /* nginx would hold lines back until it has 4 KiB */
	if ((form & FORM_CHUNKED) != 0)
		sl_out_str(&reply.w, "Transfer-Encoding: chunked\r\n");
	sl_http_reply_head(&reply);
	if (exchange->context->reader != NULL) {
		exchange->context->reader->form = form;
		exchange->close = false; /* not before the stream has ended */
	}
}

void sl_http_route_tail(struct sl_http_exchange *exchange) {
	struct sl_tail_filter filter;
	struct sluice_error error = {.text = ""};
	if (!read_query(exchange, &filter, &error))
		sl_http_reply_problem(exchange, 400, sl_str(error.text), NULL);
	else if (exchange->request->method != SL_HTTP_HEAD && !sl_tailing_begin(exchange->context, &filter, &error))
		sl_http_reply_problem(exchange, 503, sl_str(error.text), NULL);
	else
		reply_stream(exchange);
}

/* A chunk a line: its length, the line as the client wants it. */
void sl_http_stream(void *state, struct sl_door_context *context, struct sluice_bytes line, struct sl_buffer *out) {
	const uint32_t form = context->reader->form;
	const char *before = (form & FORM_EVENTS) != 0 ? "data: " : "", *after = (form & FORM_EVENTS) != 0 ? "\n\n" : "\n";
	size_t len = strlen(before) + line.len + strlen(after);
	char *at = sl_buffer_reserve(out, len + CHUNK_ROOM), digits[17];
	(void)state;
	if (at == NULL)
		return;
	struct sl_out w = sl_out_to(at, len + CHUNK_ROOM);
	if ((form & FORM_CHUNKED) != 0) {
		sl_hex_text(digits, len);
		sl_out_str(&w, digits + 8);
		sl_out_str(&w, "\r\n");
	}
	sl_out_str(&w, before);
	sl_out_bytes(&w, line.data, line.len);
	sl_out_str(&w, after);
	if ((form & FORM_CHUNKED) != 0)
		sl_out_str(&w, "\r\n");
	out->len += sl_out_len(&w);
}

bool sl_http_end_stream(const struct sl_door_context *context, struct sl_buffer *out) {
	static const char last[] = "0\r\n\r\n";
	const uint32_t form = context->reader->form;
	if ((form & FORM_CHUNKED) != 0 && !sl_buffer_append(out, last, sizeof last - 1))
		return false;
	return (form & FORM_LAST) == 0;
}
