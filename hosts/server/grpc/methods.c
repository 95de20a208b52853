/* Which methods are served, who may ask them, and what is answered to a request that is none, in the order and with the
 * codes and words of grpc-go's servers (google.golang.org/grpc 1.60 and later; their tests are not ours, but users'
 * dashboards know them):
 *
 *   content-type is not application/grpc   415   3  invalid gRPC request content-type "..."
 *   grpc-timeout is none                   400  13  malformed grpc-timeout: ...
 *   :method is not POST                    405  13  Received a HEADERS frame with :method "..." which should be POST
 *   no such service, no such method        200  12
 *   credentials                            200  16, 7, 8
 *   grpc-encoding that is not ours         200  12
 *   message cut, missing, more than one    200  13
 *   message too long                       200   8 */
#include "hosts/server/grpc/session.h"

#include "hosts/server/access/authorization.h"

#define RLS "/envoy.service.ratelimit.v3.RateLimitService/"
#define HEALTH "/grpc.health.v1.Health/"

static const struct sl_grpc_method methods[] = {
	{RLS "ShouldRateLimit", SL_ROLE_CHECK, sl_grpc_should_rate_limit, sl_grpc_deny_unread},
	{HEALTH "Check", 0, sl_grpc_health_check, NULL},
	{HEALTH "Watch", 0, sl_grpc_health_watch, NULL},
};

enum { METHODS = sizeof methods / sizeof methods[0] };

const struct sl_grpc_method *sl_grpc_method_of(struct sluice_bytes path) {
	for (int i = 0; i < METHODS; i++)
		if (sl_bytes_equal(path, sl_str(methods[i].path)))
			return &methods[i];
	return NULL;
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* Refuses with what the peer has sent between two texts. */
static bool refuse(struct sl_grpc_stream *stream, unsigned status, enum sl_grpc_code code, const char *before,
                   const char *after) {
	char memory[SL_GRPC_TEXT_MAX];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, before);
	sl_out_bytes(&out, stream->shown.text, stream->shown.len);
	sl_out_str(&out, after);
	sl_grpc_refuse(stream, status, code, sl_slice(memory, sl_out_len(&out)));
	return false;
}

/* A path that is served nowhere: is its service ours? */
static bool refuse_path(struct sl_grpc_stream *stream) {
	static const char *const services[] = {RLS, HEALTH};
	struct sluice_bytes path = sl_slice(stream->shown.text, stream->shown.len);
	for (int i = 0; i < 2; i++)
		if (path.len >= strlen(services[i]) && memcmp(path.data, services[i], strlen(services[i])) == 0)
			return refuse(stream, 200, SL_GRPC_UNIMPLEMENTED, "unknown method ", "");
	if (path.len == 0 || stream->shown.text[0] != '/' || memchr(stream->shown.text + 1, '/', path.len - 1) == NULL)
		return refuse(stream, 200, SL_GRPC_UNIMPLEMENTED, "malformed method name: \"", "\"");
	return refuse(stream, 200, SL_GRPC_UNIMPLEMENTED, "unknown service ", "");
}

static bool fail(struct sl_grpc_stream *stream, enum sl_grpc_code code, const char *text) {
	sl_grpc_fail(stream, code, text);
	return false;
}

static bool fail_later(struct sl_grpc_stream *stream, sluice_ns wait) {
	char memory[SL_GRPC_TEXT_MAX];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "too many failed logins from this address: try again in ");
	sl_out_i64(&out, sl_ns_to_s_ceil(wait));
	sl_out_str(&out, " s");
	sl_grpc_refuse(stream, 200, SL_GRPC_RESOURCE_EXHAUSTED, sl_slice(memory, sl_out_len(&out)));
	return false;
}

/* Finds out the caller's roles; false once it has been refused. */
static bool identify(struct sl_grpc_stream *stream, const struct sl_door_context *context, uint32_t *roles) {
	struct sl_login login;
	*roles = sl_access_anonymous(context->policy);
	if (stream->authorizations == 0)
		return true;
	if (stream->authorizations > 1)
		return fail(stream, SL_GRPC_UNAUTHENTICATED, "authorization is given more than once, or too long");
	if (!sl_authorization_verify(
			context->shared->access, context->policy,
			sl_slice(stream->authorization != NULL ? stream->authorization : "", stream->authorization_len),
			context->peer.text, context->now, &login))
		return fail(stream, SL_GRPC_UNAUTHENTICATED,
		            "authorization: expected 'Bearer TOKEN' or 'Basic', then base64 of name:secret");
	if (login.result == SL_LOGIN_LATER)
		return fail_later(stream, login.retry_after_ns);
	if (login.result == SL_LOGIN_WRONG)
		return fail(stream, SL_GRPC_UNAUTHENTICATED, "authorization: no user has this name and secret, or this token");
	*roles = sl_access_roles(login.user);
	return true;
}

/* May the caller ask this? Without users everybody may whom the listener lets in. */
static bool is_let_in(struct sl_grpc_stream *stream) {
	const struct sl_door_context *context = stream->session->context;
	uint32_t needed = stream->method->roles, roles;
	if (needed == 0 || context->shared == NULL || context->shared->access == NULL ||
	    sl_policy_settings(context->policy)->user_count == 0)
		return true;
	if (!identify(stream, context, &roles))
		return false;
	if ((roles & needed) != 0)
		return true;
	return stream->authorizations != 0
	           ? fail(stream, SL_GRPC_PERMISSION_DENIED, "this requires the role check, which this user does not have")
	           : fail(stream, SL_GRPC_UNAUTHENTICATED,
	                  "this requires the role check: log in with authorization metadata");
}

static bool refuse_head(struct sl_grpc_stream *stream, unsigned status, enum sl_grpc_code code, const char *text) {
	sl_grpc_refuse(stream, status, code, sl_str(text));
	return false;
}

bool sl_grpc_admit_head(struct sl_grpc_stream *stream) {
	if ((stream->head & SL_GRPC_IS_GRPC) == 0)
		return refuse_head(stream, 415, SL_GRPC_INVALID_ARGUMENT, "invalid gRPC request content-type");
	if (stream->bad_timeout)
		return refuse_head(stream, 400, SL_GRPC_INTERNAL, "malformed grpc-timeout");
	if ((stream->head & SL_GRPC_IS_POST) == 0)
		return refuse_head(stream, 405, SL_GRPC_INTERNAL,
		                   "Received a HEADERS frame with a :method which should be POST");
	if (stream->method == NULL)
		return refuse_path(stream);
	if (!is_let_in(stream))
		return false;
	if (stream->encoded)
		return refuse(stream, 200, SL_GRPC_UNIMPLEMENTED, "grpc: Decompressor is not installed for grpc-encoding \"",
		              "\"");
	return true;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

void sl_grpc_run(struct sl_grpc_stream *stream) {
	static const char *const wrong[] = {
		[SL_GRPC_FRAME_EMPTY] = "cardinality violation: received no request message from non-client-streaming RPC",
		[SL_GRPC_FRAME_CUT] = "unexpected EOF",
		[SL_GRPC_FRAME_MORE] = "cardinality violation: received multiple request messages for non-client-streaming RPC",
		[SL_GRPC_FRAME_COMPRESSED] = "grpc: compressed flag set with identity or empty encoding",
		[SL_GRPC_FRAME_FLAG] = "grpc: received unexpected payload format",
	};
	struct sluice_bytes message;
	enum sl_grpc_frame frame = sl_grpc_unframe(sl_slice(stream->body, stream->body_len), &message);
	if (frame == SL_GRPC_FRAME_WHOLE)
		stream->method->run(stream, message);
	else
		sl_grpc_fail(stream, SL_GRPC_INTERNAL, wrong[frame]);
}

void sl_grpc_run_whole(struct sl_grpc_session *session) {
	for (struct sl_grpc_stream *stream = session->whole, *next; stream != NULL; stream = next) {
		next = stream->next_whole;
		stream->whole = false;
		if (stream->gone)
			sl_grpc_stream_free(stream);
		else
			sl_grpc_run(stream);
	}
	session->whole = NULL;
	session->whole_end = &session->whole;
}
