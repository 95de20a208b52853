/* Who asks, from where, and whether that is enough.
 *
 *                        who                                     from where
 *   the proxies' doors   a trusted peer, or a role of anonymous  no page of another site, unless a proxy passed it on
 *   /healthz /readyz     anybody                                 anywhere
 *   /healthcheck
 *   everything else      Authorization, else anonymous           no page of another site changes anything. Without
 *                                                                users: asked under a name that no stranger's page
 *                                                                can have
 *
 * A page of anybody's, open in somebody's browser, can make that browser send a POST to a server on its loopback. It
 * can't read the answer, but a reset is done. Browsers say where such a request comes from (Origin, Sec-Fetch-Site):
 * what does not come from this very host and port goes no further. Programs send neither and are not touched.
 *
 * The same page may have its own name point to 127.0.0.1 once it is loaded (DNS rebinding), and then is of the same
 * origin and reads what it is told. Where there are users it has no credentials. Where there are none, whatever tells
 * or does anything wants a Host that no stranger's page can have: localhost, an address, a name without a dot, or one
 * that the listener's `hosts` name. Browsers always say the Host; who says none is refused as well. A unix socket is
 * beyond any page, and a page has no client certificate.
 *
 * At the proxies' doors Authorization is the client's own, and so are Host, Origin and Sec-Fetch-Site: what a proxy
 * passes on has a header of the proxy's with it, which a page can't add to a request across sites. An image of another
 * site's page comes without, and would be charged as its visitor.
 *
 * A login that failed says 401 whether or not anonymous would do: it must not look as if it had been accepted. The
 * challenge names Bearer only, so that no browser shows its own prompt over the dashboard's. */
#include "hosts/server/http/guard.h"

#include "hosts/server/access/authorization.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"
#include "proto/problem.h"

enum {
	DETAIL_BYTES = 512,
	HEADER_BYTES = 64,
	HOST_SHOWN_MAX = 100,
};

/* The header lines that matter here. */
struct fields {
	struct sluice_bytes authorization, origin, site, host;
	uint32_t authorization_count, origin_count;
};

static void read_fields(struct fields *fields, const struct sl_http_request *request) {
	struct sluice_bytes rest = request->head, name, value;
	*fields = (struct fields){0};
	while (sl_http_field_next(&rest, &name, &value)) {
		if (name.len == 4 && sl_bytes_equal_nocase(name, "host")) {
			fields->host = value;
		} else if (name.len == 6 && sl_bytes_equal_nocase(name, "origin")) {
			fields->origin = value;
			fields->origin_count++;
		} else if (name.len == 13 && sl_bytes_equal_nocase(name, "authorization")) {
			fields->authorization = value;
			fields->authorization_count++;
		} else if (name.len == 14 && sl_bytes_equal_nocase(name, "sec-fetch-site")) {
			fields->site = value;
		}
	}
	if (request->authority.len != 0)
		fields->host = request->authority;
}

/* A problem with one more header line, given with its CR LF; "" for none. */
static bool refuse(struct sl_http_exchange *exchange, unsigned status, struct sluice_bytes detail, const char *header) {
	struct sl_http_reply reply;
	size_t room = 256 + HEADER_BYTES + SL_JSON_ROOM(detail.len);
	if (exchange->context->stats != NULL)
		sl_count(&exchange->context->stats->errors[SL_TRANSPORT_HTTP], 1);
	if (!sl_http_reply_begin(&reply, exchange, status, "application/problem+json", room))
		return false;
	sl_out_str(&reply.w, header);
	sl_http_reply_body(&reply);
	sl_problem_members(&reply.w, status, NULL, NULL, detail);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
	return false;
}

static bool challenge(struct sl_http_exchange *exchange, struct sluice_bytes detail) {
	return refuse(exchange, 401, detail, "WWW-Authenticate: Bearer realm=\"sluice\"\r\n");
}

/* ---- from where ------------------------------------------------------------------------------------------------ */

static unsigned char lower(unsigned char c) {
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

static bool equal_nocase(struct sluice_bytes a, struct sluice_bytes b) {
	const unsigned char *p = a.data, *q = b.data;
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (lower(p[i]) != lower(q[i]))
			return false;
	return true;
}

/* Is a page of this origin one that came from this host? The scheme may be another one: TLS may end before us. */
static bool is_own_origin(struct sluice_bytes origin, struct sluice_bytes host) {
	const char *p = origin.data, *mark = origin.len == 0 ? NULL : memmem(p, origin.len, "://", 3);
	if (mark == NULL) /* "null": a sandboxed page, a file */
		return false;
	size_t scheme = (size_t)(mark + 3 - p);
	return host.len != 0 && equal_nocase(sl_slice(p + scheme, origin.len - scheme), host);
}

/* A host without its port, and without the dot at its end. */
static struct sluice_bytes name_in(struct sluice_bytes host) {
	const char *p = host.data, *colon = host.len == 0 ? NULL : memchr(p, ':', host.len);
	size_t len = colon != NULL ? (size_t)(colon - p) : host.len;
	return sl_slice(p, len > 1 && p[len - 1] == '.' ? len - 1 : len);
}

/* Can no stranger's page have come by this Host? What is below localhost is the browser's own (RFC 6761). */
static bool is_own_host(const struct sl_listen *listen, struct sluice_bytes host) {
	static const char below[] = ".localhost";
	struct sluice_bytes name = name_in(host);
	struct sl_address address;
	size_t tail = sizeof below - 1;
	if (sl_address_parse(host, &address, NULL))
		return true;
	if (name.len == 0 || *(const char *)name.data == '[')
		return false;
	if (memchr(name.data, '.', name.len) == NULL)
		return true;
	if (name.len > tail && sl_bytes_equal_nocase(sl_slice((const char *)name.data + name.len - tail, tail), below))
		return true;
	for (uint32_t i = 0; listen != NULL && i < listen->host_count; i++)
		if (equal_nocase(name, listen->hosts[i]))
			return true;
	return false;
}

/* Does whoever connects show who he is, without users? */
static bool shows_certificate(const struct sl_door_context *context) {
	return context->peer.is_tls && sl_policy_settings(context->policy)->tls_client_ca != NULL;
}

static bool refuse_host(struct sl_http_exchange *exchange, struct sluice_bytes host) {
	char memory[DETAIL_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	if (exchange->context->peer.is_unix || shows_certificate(exchange->context) ||
	    is_own_host(sl_http_listen(exchange), host))
		return false;
	sl_out_str(&out, host.len == 0 ? "the request names no Host" : "this server does not answer as ");
	if (host.len != 0)
		sl_out_quoted(&out, host, HOST_SHOWN_MAX);
	sl_out_str(&out,
	           ": while no users are configured, Host must be localhost, an address, a name without a dot, or one that "
	           "the policy names at this listener, hosts: [NAME]; otherwise any web page could ask this");
	return !refuse(exchange, 403, sl_slice(memory, sl_out_len(&out)), "");
}

static bool refuse_foreign(struct sl_http_exchange *exchange, const struct fields *fields) {
	if (fields->origin_count > 1 || sl_bytes_equal_nocase(fields->site, "cross-site") ||
	    (fields->origin_count == 1 && !is_own_origin(fields->origin, fields->host)))
		return !refuse(exchange, 403, sl_str("pages of other sites may not ask this: Origin must name the Host"), "");
	return false;
}

/* ---- who ------------------------------------------------------------------------------------------------------- */

static bool is_guarded(const struct sl_door_context *context) {
	return context->shared != NULL && context->shared->access != NULL &&
	       sl_policy_settings(context->policy)->user_count != 0;
}

static bool refuse_later(struct sl_http_exchange *exchange, sluice_ns wait) {
	char header[HEADER_BYTES];
	struct sl_out out = sl_out_to(header, sizeof header - 1);
	sl_out_str(&out, "Retry-After: ");
	sl_out_i64(&out, sl_ns_to_s_ceil(wait));
	sl_out_str(&out, "\r\n");
	*out.at = '\0';
	return refuse(exchange, 429, sl_str("too many failed logins from this address"), header);
}

/* Finds out the caller's roles; false once it has been refused. */
static bool identify(struct sl_http_exchange *exchange, const struct fields *fields, bool *logged_in) {
	const struct sl_door_context *context = exchange->context;
	struct sl_login login;
	exchange->roles = sl_access_anonymous(context->policy);
	if (fields->authorization_count == 0)
		return true;
	if (fields->authorization_count > 1)
		return refuse(exchange, 400, sl_str("Authorization is given more than once: give it once"), "");
	if (!sl_authorization_verify(context->shared->access, context->policy, fields->authorization, context->peer.text,
	                             context->now, &login))
		return challenge(exchange,
		                 sl_str("Authorization: expected 'Bearer TOKEN' or 'Basic', then base64 of name:secret"));
	if (login.result == SL_LOGIN_LATER)
		return refuse_later(exchange, login.retry_after_ns);
	if (login.result == SL_LOGIN_WRONG)
		return challenge(exchange, sl_str("Authorization: no user has this name and secret, or this token"));
	sl_login_keep(&exchange->login, sl_policy_settings(context->policy), login.user);
	exchange->roles = sl_access_roles(login.user);
	*logged_in = true;
	return true;
}

/* ---- whether that is enough ------------------------------------------------------------------------------------ */

static void put_roles(struct sl_out *out, uint32_t roles) {
	static const char *const names[] = {"check", "read", "admin"};
	const char *before = "";
	for (uint32_t i = 0; i < 3; i++)
		if (roles & 1u << i) {
			sl_out_str(out, before);
			sl_out_str(out, names[i]);
			before = " or ";
		}
}

static bool refuse_role(struct sl_http_exchange *exchange, const char *path, uint32_t needed, bool logged_in) {
	char memory[DETAIL_BYTES];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, path);
	sl_out_str(&out, " requires the role ");
	put_roles(&out, needed);
	sl_out_str(&out,
	           logged_in ? ", which this user does not have" : ": log in with 'Authorization: Bearer TOKEN', or Basic");
	struct sluice_bytes detail = sl_slice(memory, sl_out_len(&out));
	return logged_in ? refuse(exchange, 403, detail, "") : challenge(exchange, detail);
}

uint32_t sl_http_roles(const struct sl_door_context *context, struct sl_login_kept *login) {
	return is_guarded(context) ? sl_login_judge(login, context->policy) : SL_ROLE_ALL;
}

static bool changes_something(const struct sl_http_request *request) {
	return request->method != SL_HTTP_GET && request->method != SL_HTTP_HEAD;
}

bool sl_http_guard(struct sl_http_exchange *exchange, const char *path, uint32_t needed, bool any_host) {
	struct fields fields;
	bool logged_in = false, guarded = is_guarded(exchange->context);
	exchange->roles = SL_ROLE_ALL;
	if (needed == 0 && (guarded || any_host))
		return true;
	read_fields(&fields, exchange->request);
	if (changes_something(exchange->request) && refuse_foreign(exchange, &fields))
		return false;
	if (guarded ? !identify(exchange, &fields, &logged_in) : !any_host && refuse_host(exchange, fields.host))
		return false;
	return needed == 0 || (exchange->roles & needed) != 0 || refuse_role(exchange, path, needed, logged_in);
}

/* ---- the proxies' doors ---------------------------------------------------------------------------------------- */

static bool begins(struct sluice_bytes name, const char *start) {
	size_t len = strlen(start);
	return name.len > len && sl_bytes_equal_nocase(sl_slice(name.data, len), start);
}

/* Is a header one that a proxy adds, and no page can? */
static bool is_proxys(struct sluice_bytes name) {
	return begins(name, "x-forwarded-") || begins(name, "x-original-") || begins(name, "x-envoy-") ||
	       sl_bytes_equal_nocase(name, "forwarded") || sl_bytes_equal_nocase(name, "sluice-ticket");
}

/* Does a browser say that a page of another site asks, and no proxy that it passes that on? Most requests have no such
 * mark, and are looked through once. */
static bool comes_across_sites(const struct sl_http_request *request) {
	struct sluice_bytes rest = request->head, name, value;
	bool crosses = false;
	while (sl_http_field_next(&rest, &name, &value) && !crosses)
		crosses = name.len == 14 && sl_bytes_equal_nocase(name, "sec-fetch-site") &&
		          sl_bytes_equal_nocase(value, "cross-site");
	rest = request->head;
	while (crosses && sl_http_field_next(&rest, &name, &value))
		crosses = !is_proxys(name);
	return crosses;
}

bool sl_http_guard_proxy(struct sl_http_exchange *exchange) {
	static const char crossing[] =
		"Sec-Fetch-Site says that a page of another site sent this, and no header shows a proxy: this door is for "
		"proxies, which add X-Forwarded-For, X-Original-URI or the like";
	static const char closed[] =
		"this door is for proxies: name the proxy's address in trusted-proxies, or let anonymous check";
	const struct sl_door_context *context = exchange->context;
	bool open = context->peer.is_trusted || !is_guarded(context);
	exchange->roles = open ? SL_ROLE_ALL : sl_access_anonymous(context->policy);
	if (comes_across_sites(exchange->request))
		return refuse(exchange, 403, sl_str(crossing), "");
	return (exchange->roles & SL_ROLE_CHECK) != 0 || refuse(exchange, 403, sl_str(closed), "");
}
