/* GET /rlconfig: the rules of envoyproxy/ratelimit's files that are in force, a line each, as that program's debug port
 * tells them. In the order of the files, where its own is random. */
#include "hosts/server/http/routes.h"

#include "hosts/server/http/reply.h"
#include "policy/envoy.h"
#include "proto/rls.h"

enum { LINE_BYTES = 128 }; /* of a line besides its name */

static void put_rule(struct sl_out *out, const struct sl_envoy_rule *rule) {
	sl_out_bytes(out, rule->full_key.data, rule->full_key.len);
	sl_out_str(out, ": unit=");
	sl_out_str(out, sl_rls_unit_name(rule->unit));
	sl_out_str(out, " requests_per_unit=");
	sl_out_u64(out, rule->requests);
	sl_out_str(out, ", shadow_mode: ");
	sl_out_str(out, rule->shadow ? "true" : "false");
	sl_out_str(out, ", quota_mode: ");
	sl_out_str(out, rule->quota ? "true\n" : "false\n");
}

void sl_http_route_rlconfig(struct sl_http_exchange *exchange) {
	const struct sluice_policy *policy = exchange->context->policy;
	const uint32_t count = sl_policy_envoy_count(policy);
	struct sl_http_reply reply;
	size_t room = 0;
	for (uint32_t i = 0; i < count; i++)
		room += sl_policy_envoy_at(policy, i)->full_key.len + LINE_BYTES;
	if (!sl_http_reply_begin(&reply, exchange, 200, "text/plain; charset=utf-8", room))
		return;
	sl_http_reply_body(&reply);
	for (uint32_t i = 0; i < count; i++)
		put_rule(&reply.w, sl_policy_envoy_at(policy, i));
	sl_http_reply_end(&reply);
}
