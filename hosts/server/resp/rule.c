/* SLUICE.RULE domain key value [key value ...]: which rule of envoyproxy/ratelimit's files a descriptor of Envoy's rate
 * limit service finds, for whoever wants to know why a request got its answer. Nothing is looked up but rules: what the
 * counter holds is told by SLUICE.PEEK and INSPECT, of `key` and `policy:NAME`.
 *
 *   why TEXT  limit NOTATION  name NAME  key KEY  counts 1  shadow 0  quota 0  count-denied 0
 *   why TEXT  limit NOTATION  name NAME  counts 0              it is unlimited
 *   why TEXT  counts 0                                         none is found */
#include "hosts/server/resp/resp.h"
#include "policy/envoy.h"

enum { FIRST_PAIR = 2 };

struct descriptor {
	struct sluice_bytes domain, pairs[2 * SL_ENVOY_DEPTH_MAX];
	uint32_t count;
};

/* False: answered. */
static bool read_descriptor(struct sl_resp_turn *turn, struct descriptor *descriptor) {
	const uint32_t words = turn->request->count - FIRST_PAIR;
	if (sl_policy_settings(turn->context->policy)->envoy.config == NULL) {
		sl_reply_error(turn, "ERR the policy names no files of envoyproxy/ratelimit (envoy: {config: DIR})");
		return false;
	}
	if (words % 2 != 0 || words / 2 > SL_ENVOY_DEPTH_MAX) {
		sl_reply_error(turn, "ERR expected entries, each a key and a value, at most %d", SL_ENVOY_DEPTH_MAX);
		return false;
	}
	descriptor->domain = sl_resp_arg(turn, 1);
	descriptor->count = words / 2;
	for (uint32_t i = 0; i < words; i++)
		descriptor->pairs[i] = sl_resp_arg(turn, FIRST_PAIR + i);
	return true;
}

static void put_text(struct sl_resp_turn *turn, const char *name, struct sluice_bytes value) {
	sl_reply_text(turn, name);
	sl_reply_bulk(turn, value);
}

static void put_truth(struct sl_resp_turn *turn, const char *name, bool value) {
	sl_reply_text(turn, name);
	sl_reply_integer(turn, value);
}

static void put_limit(struct sl_resp_turn *turn, const struct sl_envoy_rule *rule) {
	char limit[SLUICE_LIMIT_TEXT_MAX];
	put_text(turn, "limit", sl_slice(limit, sluice_limit_print(&rule->shown.limit, limit)));
	put_text(turn, "name", sl_str(rule->shown.name));
}

void sl_resp_rule(struct sl_resp_turn *turn) {
	const struct sluice_policy *policy = turn->context->policy;
	struct descriptor descriptor;
	struct sl_envoy_found found;
	char why[SL_ENVOY_WHY_BYTES_MAX], key[SL_ENVOY_KEY_ROOM];
	if (!read_descriptor(turn, &descriptor))
		return;
	sl_policy_envoy_find(policy, descriptor.domain, descriptor.pairs, descriptor.count, &found);
	const struct sl_envoy_rule *rule = found.rule;
	const bool applies = rule != NULL && !rule->unlimited;
	sl_reply_array(turn, 2 * (applies ? 8 : rule != NULL ? 4 : 2));
	put_text(turn, "why",
	         sl_policy_envoy_why(policy, &found, descriptor.domain, descriptor.pairs, descriptor.count, why));
	put_truth(turn, "applies", applies);
	if (rule != NULL)
		put_limit(turn, rule);
	if (!applies)
		return;
	put_text(turn, "key", sl_policy_envoy_key(policy, &found, descriptor.domain, descriptor.pairs, descriptor.count,
	                                          key, sizeof key));
	put_truth(turn, "shadow", rule->shadow);
	put_truth(turn, "quota", rule->quota);
	put_truth(turn, "count-denied", rule->shown.has_terms);
}
