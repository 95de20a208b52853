/* The dashboard, and the OpenAPI document: files of the program itself, below / and /dashboard/, and
 * /v1/openapi.json, by their exact names.
 *
 * The page shows keys that clients chose, so it is built as if one of them had got through: nothing but its own files
 * may run, be loaded or be talked to, no other page may frame it, and no type is guessed.
 *
 *  P1  Only the names of the table are served: there is no folder behind them, and so no way out of one.
 *  P2  A copy that a browser holds is asked for again each time (no-cache) and costs 304 and no body: after an upgrade
 *      nobody sees an old page talk to a new server. */
#include "hosts/server/http/page.h"

#include "base/assert.h"
#include "hosts/server/http/door_http.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/http/routes.h"

static const char security[] =
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	"img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'\r\n"
	"X-Content-Type-Options: nosniff\r\n"
	"X-Frame-Options: DENY\r\n"
	"Referrer-Policy: no-referrer\r\n"
	"Cross-Origin-Opener-Policy: same-origin\r\n"
	"Cross-Origin-Resource-Policy: same-origin\r\n";

static const struct sl_page_file *find_file(struct sluice_bytes path) {
	for (uint32_t i = 0; i < sl_page_file_count; i++)
		if (sl_bytes_equal(path, sl_str(sl_page_files[i].path)))
			return &sl_page_files[i];
	return NULL;
}

/* Does If-None-Match name this tag? A list is searched, and W/ passed over: the comparison is the weak one
 * (RFC 9110, 13.1.2). The quotes are part of the tag, so no tag is found inside another. */
static bool is_held(const struct sl_http_exchange *exchange, const char *etag) {
	struct sluice_bytes value, tag = sl_str(etag);
	if (!sl_http_field(exchange->request, "if-none-match", &value))
		return false;
	if (value.len == 1 && *(const char *)value.data == '*')
		return true;
	return memmem(value.data, value.len, tag.data, tag.len) != NULL;
}

static void put_head(struct sl_out *out, const struct sl_http_exchange *exchange, unsigned status,
                     const struct sl_page_file *file) {
	char date[SL_HTTP_DATE_BYTES];
	sl_http_date(exchange->context->now, date);
	sl_out_str(out, "HTTP/1.1 ");
	sl_out_u64(out, status);
	sl_out_char(out, ' ');
	sl_out_str(out, sl_http_reason(status));
	sl_out_str(out, "\r\nDate: ");
	sl_out_bytes(out, date, sizeof date);
	sl_out_str(out, "\r\nETag: ");
	sl_out_str(out, file->etag);
	sl_out_str(out, "\r\nCache-Control: no-cache\r\n");
	if (exchange->close)
		sl_out_str(out, "Connection: close\r\n");
	else if (exchange->request->http10)
		sl_out_str(out, "Connection: keep-alive\r\n");
	sl_out_str(out, security);
	if (status == 200) {
		sl_out_str(out, "Content-Type: ");
		sl_out_str(out, file->content_type);
		sl_out_str(out, "\r\nContent-Length: ");
		sl_out_u64(out, file->len);
		sl_out_str(out, "\r\n");
	}
	sl_out_str(out, "\r\n");
}

static void reply_file(struct sl_http_exchange *exchange, const struct sl_page_file *file) {
	enum { HEAD_ROOM = 1024 };
	bool held = is_held(exchange, file->etag);
	size_t body_bytes = held || exchange->request->method == SL_HTTP_HEAD ? 0 : file->len;
	char *at = sl_buffer_reserve(exchange->out, HEAD_ROOM + body_bytes);
	if (at == NULL) {
		exchange->close = true;
		return;
	}
	struct sl_out out = sl_out_to(at, HEAD_ROOM + body_bytes);
	put_head(&out, exchange, held ? 304 : 200, file);
	sl_out_bytes(&out, file->bytes, body_bytes);
	SL_DEBUG_ASSERT(!out.overflow);
	exchange->out->len += sl_out_len(&out);
}

static void reply_no_file(struct sl_http_exchange *exchange) {
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "the dashboard has no file ");
	sl_out_quoted(&out, exchange->request->path, 100);
	sl_out_str(&out, ": it is at /");
	sl_http_reply_problem(exchange, 404, sl_slice(memory, sl_out_len(&out)), NULL);
}

void sl_http_route_page(struct sl_http_exchange *exchange) {
	const struct sl_page_file *file = find_file(exchange->request->path);
	if (file != NULL)
		reply_file(exchange, file);
	else
		reply_no_file(exchange);
}
