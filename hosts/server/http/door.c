/* The HTTP door: one connection's requests, in order, each answered as soon as it is whole.
 *
 *   bytes -> sl_http_parse() -> route -> ask -> decide -> reply -> the worker's output buffer
 *
 * Pipelined requests are answered in their order, many of one read into one write. A connection is kept unless the
 * client says otherwise, the server drains, or a request could not be parsed: after that nobody knows where the next
 * one begins, so the answer says "Connection: close" and is the last.
 *
 *  D1  Whatever is asked, something is answered: a refusal is a problem document with a status that fits.
 *  D2  The answers depend on the bytes, not on how they were cut (tests/unit/door_http_test.c cuts at every byte).
 *  D3  "100 Continue" is said only to a request that would be served: others get their refusal instead of the body. */
#include "hosts/server/http/routes.h"

#include "hosts/server/door/tailing.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/http/door_http.h"
#include "hosts/server/http/guard.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/http/tail.h"
#include "hosts/server/http/worker.h"

#include <stdlib.h>

enum { PATH_BYTES_MAX = 64 }; /* longer than any path that is served */

enum allowed { ALLOW_POST, ALLOW_GET, ALLOW_BOTH, ALLOW_ITEM, ALLOW_ANY };
enum { ANY_ROLE = 0 };

static void route_healthz(struct sl_http_exchange *exchange) {
	sl_http_reply_text(exchange, 200, "ok\n");
}

/* A balancer that asks this sends nothing before there is somebody to decide, and stops sending new work before the
 * listener goes away. */
static void route_readyz(struct sl_http_exchange *exchange) {
	const char *why = sl_door_unready(exchange->context);
	if (why != NULL)
		sl_http_reply_problem(exchange, 503, sl_str(why), NULL);
	else
		sl_http_reply_text(exchange, 200, "ready\n");
}

/* The same for probes that were written for envoyproxy/ratelimit, in its words. */
static void route_healthcheck(struct sl_http_exchange *exchange) {
	const char *why = sl_door_unready(exchange->context);
	if (why != NULL)
		sl_http_reply_problem(exchange, 500, sl_str(why), NULL);
	else
		sl_http_reply_text(exchange, 200, "OK");
}

static const struct route {
	const char *path; /* one that ends with '*' stands for all paths that begin so */
	enum allowed allowed;
	uint32_t roles; /* SL_ROLE_ bits, one of which the caller needs; ANY_ROLE: open to all */
	void (*answer)(struct sl_http_exchange *exchange);
	bool any_host; /* asked under whatever name */
} routes[] = {
	{"/v1/check", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_check, false},
	{"/v1/admit", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_admit, false},
	{"/v1/refund", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_refund, false},
	{"/v1/acquire", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_acquire, false},
	{"/v1/release", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_release, false},
	{"/v1/renew", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_renew, false},
	{"/v1/holders", ALLOW_POST, SL_ROLE_READ, sl_http_route_holders, false},
	{"/v1/reserve", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_reserve, false},
	{"/v1/commit", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_commit, false},
	{"/v1/reset", ALLOW_POST, SL_ROLE_ADMIN, sl_http_route_reset, false},
	{"/v1/reload", ALLOW_POST, SL_ROLE_ADMIN, sl_http_route_reload, false},
	{"/v1/explain", ALLOW_GET, SL_ROLE_CHECK | SL_ROLE_READ, sl_http_route_explain, false},
	{"/v1/inspect", ALLOW_BOTH, SL_ROLE_READ, sl_http_route_inspect, false},
	{"/v1/limits", ALLOW_GET, SL_ROLE_CHECK | SL_ROLE_READ, sl_http_route_limits, false},
	{"/v1/overrides", ALLOW_GET, SL_ROLE_ADMIN, sl_http_route_overrides, false},
	{"/v1/overrides/*", ALLOW_ITEM, SL_ROLE_ADMIN, sl_http_route_override, false},
	{"/v1/top", ALLOW_GET, SL_ROLE_READ, sl_http_route_top, false},
	{"/v1/tail", ALLOW_GET, SL_ROLE_READ, sl_http_route_tail, false},
	{"/v1/figures", ALLOW_GET, SL_ROLE_READ, sl_http_route_figures, false},
	{"/v1/auth/forward*", ALLOW_ANY, SL_ROLE_CHECK, sl_http_route_auth_forward, false},
	{"/v1/auth/nginx*", ALLOW_ANY, SL_ROLE_CHECK, sl_http_route_auth_nginx, false},
	{"/v1/auth/envoy*", ALLOW_ANY, SL_ROLE_CHECK, sl_http_route_auth_envoy, false},
	{"/v1/auth/commit", ALLOW_ANY, SL_ROLE_CHECK, sl_http_route_auth_commit, false},
	{"/json", ALLOW_POST, SL_ROLE_CHECK, sl_http_route_json, false},
	{"/metrics", ALLOW_GET, SL_ROLE_READ, sl_http_route_metrics, false},
	{"/rlconfig", ALLOW_GET, SL_ROLE_READ, sl_http_route_rlconfig, false},
	{"/healthz", ALLOW_GET, ANY_ROLE, route_healthz, true},
	{"/readyz", ALLOW_GET, ANY_ROLE, route_readyz, true},
	{"/healthcheck", ALLOW_GET, ANY_ROLE, route_healthcheck, true},
	{"/v1/openapi.json", ALLOW_GET, ANY_ROLE, sl_http_route_page, false},
	{"/", ALLOW_GET, ANY_ROLE, sl_http_route_page, false},
	{"/dashboard/*", ALLOW_GET, ANY_ROLE, sl_http_route_page, false},
};

/* ---- routing ------------------------------------------------------------------------------------------------- */

/* The path decoded, so that /v1/%63heck is /v1/check. False for what cannot be a path of ours. */
static bool decode_path(struct sluice_bytes path, char memory[PATH_BYTES_MAX], struct sluice_bytes *decoded) {
	ptrdiff_t len = 0;
	*decoded = path;
	if (memchr(path.data, '%', path.len) == NULL)
		return true;
	if (path.len > 3 * PATH_BYTES_MAX)
		return false;
	char wide[3 * PATH_BYTES_MAX];
	len = sl_http_decode(path, false, wide);
	if (len < 0 || len > PATH_BYTES_MAX)
		return false;
	memcpy(memory, wide, (size_t)len);
	*decoded = sl_slice(memory, (size_t)len);
	return true;
}

/* "/v1/auth/forward*" is that path itself and what lies below it, not "/v1/auth/forwarding". */
static bool is_path_of(const struct route *route, struct sluice_bytes path) {
	struct sluice_bytes own = sl_str(route->path);
	if (((const char *)own.data)[own.len - 1] != '*')
		return sl_bytes_equal(path, own);
	own.len--;
	return path.len >= own.len && memcmp(path.data, own.data, own.len) == 0 &&
	       (path.len == own.len || ((const char *)own.data)[own.len - 1] == '/' ||
	        ((const char *)path.data)[own.len] == '/');
}

static bool is_prefix(const struct route *route) {
	return route->path[strlen(route->path) - 1] == '*';
}

static const struct route *route_of(struct sluice_bytes path) {
	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
		if (is_path_of(&routes[i], path))
			return &routes[i];
	return NULL;
}

/* As written first: what lies below /v1/auth/envoy is another server's path, encoded and as long as it likes. The
 * prefix itself must be written plainly: it is cut off by its length. */
static const struct route *find_route(const struct sl_http_request *request) {
	char memory[PATH_BYTES_MAX];
	struct sluice_bytes path;
	const struct route *route = route_of(request->path);
	if (route != NULL || !decode_path(request->path, memory, &path))
		return route;
	route = route_of(path);
	return route != NULL && is_prefix(route) ? NULL : route;
}

static bool is_allowed(const struct route *route, const struct sl_http_request *request) {
	static const uint32_t methods[] = {
		[ALLOW_POST] = 1u << SL_HTTP_POST,
		[ALLOW_GET] = 1u << SL_HTTP_GET | 1u << SL_HTTP_HEAD,
		[ALLOW_BOTH] = 1u << SL_HTTP_GET | 1u << SL_HTTP_HEAD | 1u << SL_HTTP_POST,
		[ALLOW_ITEM] = 1u << SL_HTTP_GET | 1u << SL_HTTP_HEAD | 1u << SL_HTTP_PUT | 1u << SL_HTTP_DELETE,
		[ALLOW_ANY] = UINT32_MAX,
	};
	return (methods[route->allowed] >> request->method & 1) != 0;
}

static void reply_unknown_path(struct sl_http_exchange *exchange) {
	char memory[2 * SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "nothing is served at ");
	sl_out_quoted(&out, exchange->request->path, 100);
	sl_out_str(&out, ": expected one of");
	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
		sl_out_str(&out, i > 0 ? ", " : " ");
		sl_out_str(&out, routes[i].path);
	}
	sl_http_reply_problem(exchange, 404, sl_slice(memory, sl_out_len(&out)), NULL);
}

static void reply_wrong_method(struct sl_http_exchange *exchange, const struct route *route) {
	static const char *const methods[] = {
		[ALLOW_POST] = "POST",
		[ALLOW_GET] = "GET, HEAD",
		[ALLOW_BOTH] = "GET, HEAD, POST",
		[ALLOW_ITEM] = "GET, HEAD, PUT, DELETE",
	};
	const char *allow = methods[route->allowed];
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, route->path);
	sl_out_str(&out, " accepts ");
	sl_out_str(&out, allow);
	sl_out_str(&out, ", not ");
	sl_out_quoted(&out, exchange->request->method_name, 40);
	sl_http_reply_problem(exchange, 405, sl_slice(memory, sl_out_len(&out)), allow);
}

/* The proxies' doors take any method, and another view of who asks. */
static bool is_let_in(struct sl_http_exchange *exchange, const struct route *route) {
	return route->allowed == ALLOW_ANY ? sl_http_guard_proxy(exchange)
	                                   : sl_http_guard(exchange, route->path, route->roles, route->any_host);
}

/* Answers a request; with only its head, where it would be refused for that. Returns whether it was answered. */
static bool answer(struct sl_http_exchange *exchange, bool only_refuse) {
	const struct route *route = find_route(exchange->request);
	exchange->login = (struct sl_login_kept){.logged_in = false}; /* what the request before it said is not its own */
	exchange->by_program = false;
	if (exchange->request->has_foreign_method && (route == NULL || route->allowed != ALLOW_ANY))
		exchange->close = true; /* it may be the rest of a body that was longer than it said */
	if (route == NULL)
		reply_unknown_path(exchange);
	else if (!is_allowed(route, exchange->request))
		reply_wrong_method(exchange, route);
	else if (is_let_in(exchange, route)) {
		if (only_refuse)
			return false;
		exchange->by_program = route->allowed == ALLOW_POST;
		route->answer(exchange);
	}
	return true;
}

/* ---- the connection ------------------------------------------------------------------------------------------ */

/* The client waits before it sends a body: let it come, or refuse the request instead. Returns whether to go on. */
static bool answer_expectation(struct sl_http_exchange *exchange) {
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	exchange->close = true; /* a refusal leaves the body unread */
	return !answer(exchange, true) && sl_buffer_append(exchange->out, go_on, sizeof go_on - 1);
}

static void answer_refusal(struct sl_http_exchange *exchange, const struct sl_http_refusal *refusal) {
	exchange->close = true;
	sl_http_reply_problem(exchange, refusal->status, sl_str(refusal->detail), NULL);
}

/* One connection. */
struct session {
	struct sl_http_parser parser;
	bool continued; /* the client of the request in hand was told to go on sending */
	bool named;     /* the first request by a program has said, or not said, which */
	struct sl_login_kept reader;   /* who follows decisions, if the connection does */
};

static void *door_open(struct sl_door_context *context) {
	if (context->http == NULL) /* without it nothing is remembered */
		context->http = calloc(1, sizeof *context->http);
	struct session *session = calloc(1, sizeof *session);
	if (session != NULL)
		sl_http_parser_init(&session->parser);
	return session;
}

static void door_close(void *state) {
	struct session *session = state;
	sl_http_parser_free(&session->parser);
	free(session);
}

/* Between two requests there is nothing to tell: an unfinished one is given to the new parser from its first byte. */
static size_t door_pack(const void *state, char *bytes) {
	(void)state;
	(void)bytes;
	return 0;
}

static void *door_unpack(struct sl_door_context *context, const char *bytes, size_t len) {
	(void)bytes;
	return len == 0 ? door_open(context) : NULL;
}

/* The client waits before it sends a body. Told already, it is not told again. Returns whether to go on. */
static bool go_on(struct session *session, struct sl_http_exchange *exchange) {
	if (!session->continued && !answer_expectation(exchange))
		return false;
	session->continued = true;
	exchange->close = false;
	return true;
}

/* Decisions are under way: the parser forgets the request, which will be given again from its first byte. */
static bool wait(struct session *session, struct sl_http_exchange *exchange, size_t said) {
	exchange->out->len = said;
	exchange->context->commands--;
	exchange->close = exchange->context->pending == NULL; /* no memory for them */
	sl_http_parser_free(&session->parser);
	sl_http_parser_init(&session->parser);
	return false;
}

/* A connection is named once: a program has one User-Agent. What proxies ask has their visitors'. */
static void name_client(struct session *session, const struct sl_http_exchange *exchange) {
	struct sluice_bytes agent;
	session->named = true;
	if (sl_http_field(exchange->request, "user-agent", &agent))
		sl_door_name_agent(exchange->context, agent);
}

/* Answers a request of `*consumed` bytes; none of them are, where it waits. */
static bool answer_request(struct session *session, struct sl_http_exchange *exchange, size_t *consumed) {
	size_t said = exchange->out->len;
	exchange->context->commands++;
	exchange->close = !session->parser.request.keep_alive || exchange->context->draining || exchange->context->leaving;
	answer(exchange, false);
	if (exchange->by_program && !session->named)
		name_client(session, exchange);
	if (exchange->context->reader != NULL)
		session->reader = exchange->login;
	if (exchange->waits) {
		*consumed = 0;
		return wait(session, exchange, said);
	}
	sl_pending_drop(exchange->context);
	session->continued = false;
	return !exchange->close;
}

/* Takes one step: reads a request and answers it. Returns false when no more can be done with what there is, or when
 * exchange->close says that nothing more will be. */
static bool step(struct session *session, struct sl_http_exchange *exchange, const char *data, size_t len,
                 size_t *consumed) {
	exchange->request = &session->parser.request;
	session->parser.memo = exchange->context->http == NULL ? NULL : &exchange->context->http->head;
	switch (sl_http_parse(&session->parser, data, len, consumed)) {
	case SL_HTTP_MORE:
		return false;
	case SL_HTTP_BAD:
		answer_refusal(exchange, &session->parser.refusal);
		return false;
	case SL_HTTP_CONTINUE:
		return go_on(session, exchange);
	default:
		return answer_request(session, exchange, consumed);
	}
}

/* ---- who follows decisions ------------------------------------------------------------------------------------- */

static bool door_may_stream(void *state, struct sl_door_context *context) {
	struct session *session = state;
	return (sl_http_roles(context, &session->reader) & SL_ROLE_READ) != 0;
}

static void door_end_stream(void *state, struct sl_door_context *context, struct sl_buffer *out) {
	(void)state;
	(void)sl_http_end_stream(context, out);
}

/* What comes after a request that is answered by a stream is the next request, which ends it. */
static bool end_stream(struct sl_http_exchange *exchange) {
	exchange->close = !sl_http_end_stream(exchange->context, exchange->out);
	sl_tailing_end(exchange->context);
	return !exchange->close;
}

static enum sl_door_verdict door_feed(void *state, struct sl_door_context *context, const char *data, size_t len,
                                      size_t *consumed, struct sl_buffer *out) {
	struct sl_http_exchange exchange = {.context = context, .out = out};
	size_t out_before = out->len, used;
	*consumed = 0;
	for (;;) {
		if (context->reader != NULL && *consumed < len && !end_stream(&exchange)) {
			*consumed = len;
			return SL_DOOR_CLOSE;
		}
		bool more = step(state, &exchange, data + *consumed, len - *consumed, &used);
		*consumed += used;
		if (exchange.close) {
			*consumed = len;
			return SL_DOOR_CLOSE;
		}
		if (exchange.waits)
			return SL_DOOR_WAIT;
		if (!more)
			return SL_DOOR_OPEN;
		if (out->len - out_before + exchange.unsaid >= SL_DOOR_OUTPUT_TURN && *consumed < len)
			return SL_DOOR_MORE;
	}
}

const struct sl_door sl_door_http = {
	.name = "http",
	.transport = SL_TRANSPORT_HTTP,
	.alpn = "\x08http/1.1",
	.open = door_open,
	.close = door_close,
	.feed = door_feed,
	.pack = door_pack,
	.unpack = door_unpack,
	.stream = sl_http_stream,
	.may_stream = door_may_stream,
	.end_stream = door_end_stream,
};
