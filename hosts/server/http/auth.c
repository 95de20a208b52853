/* The proxies' doors: a proxy asks, before it passes a request on, whether it may.
 *
 *                     method, path                               host               denied
 *   /v1/auth/forward  X-Forwarded-Method, X-Forwarded-Uri        X-Forwarded-Host   429   Traefik, Caddy, HAProxy
 *   /v1/auth/nginx    X-Original-Method, X-Original-URI          X-Forwarded-Host   403   auth_request
 *   /v1/auth/envoy    its own method, what is after the prefix  Host               429   ext_authz
 *
 * The first two understand each other's names, their own first; but method and path are of one family. A proxy that
 * sets one of them passes the other family on as the client wrote it. Where nothing is forwarded, or whoever forwards
 * is none of trusted-proxies, a request counts as what it is: its own method, its path after the prefix, its Host.
 * Whatever stands twice is taken from the right: what a proxy adds stands after what it got.
 *
 *   ip      the client's (proto/forwarded.h); a unix socket that forwards none has none
 *   others  the header that the policy names, on one line: what is given twice is refused, as at every door.
 *           What a client wrote stands beside what a proxy added, and which of the two counts is nobody's choice.
 *
 * All of them come into their forms where the policy is matched (policy/attribute.h), as at all doors.
 *
 * 200 allows, whatever the proxy (Envoy knows no other), without a body. nginx makes 500 of any denial but 401 and 403,
 * so 403 it is there, unless the configuration asks for ?status=429 and maps it. No allocation: values point into the
 * request. */
#include "hosts/server/http/routes.h"

#include "base/assert.h"
#include "base/nocase.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/forwarded.h"

enum auth_door { FORWARD, NGINX, ENVOY };

static const char *const prefixes[] = {"/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy"};

/* The header lines that matter here, found in one walk. No two that are looked for by name are of one length. */
struct told {
	struct sluice_bytes host, forwarded_host;
	struct sluice_bytes forwarded_method, forwarded_uri, original_method, original_uri;
	uint32_t for_count;
	struct sluice_bytes for_lines[SL_HTTP_FIELDS_MAX];
	struct sluice_bytes sources[SL_HTTP_SOURCES_MAX]; /* data NULL: absent */
	const struct sl_policy_source *repeated;                 /* one that is written on several lines; NULL: none is */
};

/* ---- the walk over the head ---------------------------------------------------------------------------------- */

/* A policy's names are 256 at most. */
static uint32_t source_count(const struct sluice_policy *policy) {
	uint32_t count = sl_policy_source_count(policy);
	SL_ASSERT(count <= SL_HTTP_SOURCES_MAX);
	return count;
}

static void take_source(struct told *told, const struct sluice_policy *policy, struct sluice_bytes name,
                        struct sluice_bytes value) {
	uint32_t count = source_count(policy);
	for (uint32_t i = 0; i < count; i++) {
		if (!sl_is_lowered(name, sl_policy_source_at(policy, i)->header))
			continue;
		if (told->sources[i].data != NULL)
			told->repeated = sl_policy_source_at(policy, i);
		told->sources[i] = value;
	}
}

/* An empty value says nothing; of several lines the last one counts. */
static void take(struct sluice_bytes *place, struct sluice_bytes value) {
	if (value.len > 0)
		*place = value;
}

static void take_field(struct told *told, struct sluice_bytes addresses, struct sluice_bytes name,
                       struct sluice_bytes value) {
	static const struct {
		struct sluice_bytes name;
		size_t place;
	} known[] = {
		[4] = {{"host", 4}, offsetof(struct told, host)},
		[14] = {{"x-original-uri", 14}, offsetof(struct told, original_uri)},
		[15] = {{"x-forwarded-uri", 15}, offsetof(struct told, forwarded_uri)},
		[16] = {{"x-forwarded-host", 16}, offsetof(struct told, forwarded_host)},
		[17] = {{"x-original-method", 17}, offsetof(struct told, original_method)},
		[18] = {{"x-forwarded-method", 18}, offsetof(struct told, forwarded_method)},
	};
	if (name.len < sizeof known / sizeof known[0] && sl_is_lowered(name, known[name.len].name))
		take((struct sluice_bytes *)((char *)told + known[name.len].place), value);
	if (sl_is_lowered(name, addresses) && told->for_count < SL_HTTP_FIELDS_MAX)
		told->for_lines[told->for_count++] = value;
}

static void walk_head(struct told *told, const struct sl_http_exchange *exchange) {
	const struct sluice_policy *policy = exchange->context->policy;
	struct sluice_bytes addresses = sl_str(sl_policy_settings(policy)->forwarded ? "forwarded" : "x-forwarded-for");
	struct sluice_bytes rest = exchange->request->head, name, value;
	told->host = told->forwarded_host = sl_slice(NULL, 0);
	told->forwarded_method = told->forwarded_uri = told->original_method = told->original_uri = sl_slice(NULL, 0);
	told->for_count = 0;
	told->repeated = NULL;
	memset(told->sources, 0, source_count(policy) * sizeof told->sources[0]);
	while (sl_http_field_next(&rest, &name, &value)) {
		take_field(told, addresses, name, value);
		take_source(told, policy, name, value);
	}
}

/* ---- values -------------------------------------------------------------------------------------------------- */

/* What is after the prefix, which the route has seen written plainly; with the query, as a proxy that forwards a target
 * has it: two that differ in it are two requests to a client who tries one again. */
static struct sluice_bytes after_prefix(const struct sl_http_request *request, const char *prefix) {
	size_t len = strlen(prefix);
	const char *at = request->path.data, *end = at + request->path.len;
	SL_ASSERT(request->path.len >= len);
	if (request->query.data != NULL) {
		SL_ASSERT(request->query.data == end + 1); /* the target is one text */
		end = (const char *)request->query.data + request->query.len;
	}
	return sl_slice(at + len, (size_t)(end - at) - len);
}

/* The client's address, in `text`; empty where there is none. */
static struct sluice_bytes ip_of(char text[SL_ADDRESS_TEXT_MAX], const struct sl_http_exchange *exchange,
                                 const struct told *told) {
	const struct sl_door_context *context = exchange->context;
	const struct sl_settings *settings = sl_policy_settings(context->policy);
	enum sl_forwarded_form form = settings->forwarded ? SL_FORWARDED_RFC7239 : SL_FORWARDED_FOR;
	struct sl_address address = context->peer.address;
	bool known = context->peer.text != NULL && !context->peer.is_unix;
	if (context->peer.is_trusted)
		known |= sl_forwarded_client(told->for_lines, told->for_count, form, context->policy, &address);
	if (!known)
		return sl_slice(NULL, 0);
	return sl_slice(text, sl_address_print(&address, text));
}

/* ---- the request as the policy sees it ----------------------------------------------------------------------- */

static void add(struct sl_http_ask *ask, const char *name, struct sluice_bytes value) {
	if (value.data != NULL)
		ask->attributes[ask->attribute_count++] = (struct sluice_attribute){sl_str(name), value};
}

static void add_request(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, struct sluice_bytes ip,
                        const struct told *told, enum auth_door door) {
	const struct sl_http_request *request = exchange->request;
	bool forwards = exchange->context->peer.is_trusted && door != ENVOY;
	bool has_original = told->original_method.len + told->original_uri.len > 0;
	bool has_forwarded = told->forwarded_method.len + told->forwarded_uri.len > 0;
	bool original = has_original && (door == NGINX || !has_forwarded);
	struct sluice_bytes method = original ? told->original_method : told->forwarded_method;
	struct sluice_bytes uri = original ? told->original_uri : told->forwarded_uri;
	struct sluice_bytes host = request->authority.len > 0 ? request->authority : told->host;
	struct sluice_bytes forwarded_host = told->forwarded_host;
	if (!forwards || method.len == 0)
		method = request->method_name;
	if (!forwards || uri.len == 0)
		uri = after_prefix(request, prefixes[door]);
	if (forwards)
		sl_forwarded_last(&forwarded_host, false, &host);
	add(ask, "method", method);
	add(ask, "host", host.len > 0 ? host : sl_slice(NULL, 0));
	add(ask, "path", uri);
	add(ask, "ip", ip);
}

static void add_source(struct sl_http_ask *ask, const struct sl_policy_source *source, struct sluice_bytes value) {
	ask->attributes[ask->attribute_count++] = (struct sluice_attribute){source->name, value};
}

/* One that stands on several lines is added twice, which is found and refused where attributes are matched. */
static void add_sources(struct sl_http_ask *ask, const struct sluice_policy *policy, const struct told *told) {
	uint32_t count = source_count(policy);
	for (uint32_t i = 0; i < count; i++)
		if (told->sources[i].data != NULL)
			add_source(ask, sl_policy_source_at(policy, i), told->sources[i]);
	if (told->repeated != NULL)
		add_source(ask, told->repeated, sl_slice("", 0));
}

static void answer(struct sl_http_exchange *exchange, enum auth_door door, uint16_t denied, uint16_t unable) {
	struct told told;
	struct sl_http_ask ask;
	char ip[SL_ADDRESS_TEXT_MAX];
	sl_http_ask_begin(&ask, exchange);
	walk_head(&told, exchange);
	add_request(&ask, exchange, ip_of(ip, exchange, &told), &told, door);
	add_sources(&ask, exchange->context->policy, &told);
	sl_http_decide_attributes(exchange, &ask,
	                          (struct sl_http_style){.empty = true,
	                                                 .denied = denied,
	                                                 .unable = unable,
	                                                 .wrong = door == NGINX ? denied : 0});
}

/* ---- the routes ---------------------------------------------------------------------------------------------- */

/* The last ?status= that is there; NULL without one. Other arguments are the business of whoever wrote them. */
static struct sluice_bytes status_of(const struct sl_http_exchange *exchange) {
	struct sluice_bytes rest = exchange->request->query, name, value, status = {NULL, 0};
	while (sl_http_query_next(&rest, &name, &value))
		if (sl_bytes_equal(name, sl_str("status")))
			status = value;
	return status;
}

void sl_http_route_auth_forward(struct sl_http_exchange *exchange) {
	answer(exchange, FORWARD, 429, sl_bytes_equal(status_of(exchange), sl_str("429")) ? 429 : 503);
}

/* Envoy takes any 5xx for a server that is down. */
void sl_http_route_auth_envoy(struct sl_http_exchange *exchange) {
	answer(exchange, ENVOY, 429, 429);
}

/* A status that nginx would not understand is a mistake of the configuration, which had better be seen before the first
 * denial. */
void sl_http_route_auth_nginx(struct sl_http_exchange *exchange) {
	struct sluice_bytes status = status_of(exchange);
	bool as_is = sl_bytes_equal(status, sl_str("429"));
	if (status.data != NULL && !as_is && !sl_bytes_equal(status, sl_str("403")))
		sl_http_reply_problem(exchange, 400, sl_str("status must be 403 or 429: what a denial is answered with"), NULL);
	else
		answer(exchange, NGINX, as_is ? 429 : 403, 503);
}
