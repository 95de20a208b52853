/* The public calls around a policy's life, and what hosts ask of it. */
#include "policy/policy.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "policy/conf.h"
#include "policy/envoy.h"

#include <stdatomic.h>
#include <stdlib.h>

static const sluice_ns SECOND_NS = 1000000000;

/* Who may speak for others unless the file says: this host, from which alone the default listeners are reached. */
static const struct sl_network loopback[] = {
	{.address = {{[10] = 0xff, [11] = 0xff, [12] = 127}}, .prefix_bits = 104, .v4 = true},
	{.address = {{[15] = 1}}, .prefix_bits = 128},
};

static void policy_init(struct sluice_policy *policy) {
	policy->settings = (struct sl_settings){
		.memory_bytes = (uint64_t)256 << 20,
		.pretouch = true,
		.ipv6_prefix = 64,
		.forms = SL_FORM_DRAFT10,
		.near_percent = 5,
		.connections = {.idle_ns = 0, .request_ns = SECOND_NS * 10, .write_ns = SECOND_NS * 10},
		.redis = {.prefix = "sluice:", .budget_ns = SECOND_NS / 50, .slices = true, .slice_ns = SECOND_NS / 2,
		          .ready_after_ns = 10 * SECOND_NS},
		.log = {.denials_per_key = SECOND_NS * 10, .denials_per_second = 100, .denials_bytes = (uint64_t)64 << 20},
	};
	policy->proxies = loopback;
	policy->route = SL_NAME_NONE;
	policy->proxy_count = sizeof loopback / sizeof *loopback;
	for (size_t i = 0; i < SL_NAME_SLOTS; i++)
		policy->slots[i] = SL_NAME_NONE;
}

static bool leases(const struct sl_ruleset_limit *limit) {
	bool any = sl_rule_has(&limit->shown.limit, SL_TAKES_LEASE);
	for (uint32_t i = 0; i < limit->shown.override_count; i++)
		any = any || sl_rule_has(&limit->overrides[i].limit, SL_TAKES_LEASE);
	return any;
}

static void note_what_limits_say(struct sluice_policy *policy) {
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_policy_limit *shown = &policy->limits[i].shown;
		policy->has_costs = policy->has_costs || shown->reserve.on || shown->cost.on;
		policy->holds = policy->holds || shown->reserve.on || leases(&policy->limits[i]);
	}
}

static _Atomic uint64_t loaded_before; /* policies of this process */

sluice_err sluice_policy_load(struct sluice_policy **policy, struct sluice_bytes yaml,
                              struct sluice_problems *problems) {
	struct sl_report report = {0};
	if (problems != NULL)
		*problems = (struct sluice_problems){0};
	if (policy == NULL || (yaml.data == NULL && yaml.len != 0))
		return SLUICE_E_MISUSE;
	struct sluice_policy *loaded = calloc(1, sizeof *loaded);
	if (loaded == NULL)
		return SLUICE_E_MEMORY;
	policy_init(loaded);
	loaded->number = atomic_fetch_add_explicit(&loaded_before, 1, memory_order_relaxed) + 1;
	sluice_err err = sl_conf_read(loaded, yaml, &report) ? SLUICE_OK : SLUICE_E_MEMORY;
	if (err == SLUICE_OK && report.error_count != 0)
		err = SLUICE_E_SYNTAX;
	if (err == SLUICE_OK) {
		note_what_limits_say(loaded);
		*policy = loaded;
	} else {
		sluice_policy_free(loaded);
	}
	if (problems != NULL && err != SLUICE_E_MEMORY)
		sl_report_move(&report, problems);
	sl_report_free(&report);
	return err;
}

void sluice_policy_free(struct sluice_policy *policy) {
	if (policy == NULL)
		return;
	sl_pool_free(&policy->pool);
	free(policy);
}

const char *sluice_policy_limit_name(const struct sluice_policy *policy, uint32_t position) {
	if (policy == NULL)
		return NULL;
	if (position < policy->limit_count)
		return policy->limits[position].shown.name;
	const struct sl_envoy_rule *rule = sl_policy_envoy_rule(policy, position);
	return rule != NULL ? rule->shown.name : NULL;
}

uint64_t sl_policy_number(const struct sluice_policy *policy) {
	return policy->number;
}

const struct sl_settings *sl_policy_settings(const struct sluice_policy *policy) {
	return &policy->settings;
}

uint32_t sl_policy_armed(const struct sluice_policy *policy) {
	const bool rules = sl_policy_envoy_count(policy) != 0;
	return (policy->limit_count != 0 || rules ? SL_ARMED_LIMITS : 0) | (rules ? SL_ARMED_RULES : 0) |
	       (policy->settings.user_count != 0 ? SL_ARMED_USERS : 0);
}

const char *sl_policy_disarms(uint32_t had, const struct sluice_policy *policy) {
	const struct sl_settings *now = &policy->settings;
	const bool rules = sl_policy_envoy_count(policy) != 0;
	if ((had & SL_ARMED_RULES) != 0 && now->envoy.config != NULL && !rules)
		return "the files that envoy.config names no longer have any limits";
	if ((had & SL_ARMED_LIMITS) != 0 && !now->limits_given && !rules)
		return "it has no limits, and does not say limits: []";
	if ((had & SL_ARMED_USERS) != 0 && !now->users_given)
		return "it has no users, and does not say users: []";
	return NULL;
}

uint32_t sl_policy_limit_count(const struct sluice_policy *policy) {
	return policy->limit_count;
}

const struct sl_policy_limit *sl_policy_limit_at(const struct sluice_policy *policy, uint32_t position) {
	if (position < policy->limit_count)
		return &policy->limits[position].shown;
	const struct sl_envoy_rule *rule = sl_policy_envoy_rule(policy, position);
	SL_ASSERT(rule != NULL);
	return &rule->shown;
}

enum sl_on_error sl_policy_on_error(const struct sluice_policy *policy, const struct sluice_match *match, uint32_t i) {
	SL_ASSERT(i < match->count);
	enum sl_on_error said = sl_policy_limit_at(policy, match->position[i])->on_error;
	return match->items[i].observed && said == SL_ON_ERROR_DENY ? SL_ON_ERROR_ALLOW : said;
}

bool sl_policy_is_strict(const struct sluice_policy *policy, const struct sluice_match *match, uint32_t i) {
	SL_ASSERT(i < match->count);
	return sl_policy_limit_at(policy, match->position[i])->strict;
}

const struct sl_policy_reserve *sl_policy_reserve(const struct sluice_policy *policy, const struct sluice_match *match,
                                                  uint32_t i) {
	SL_ASSERT(i < match->count);
	const struct sl_policy_reserve *reserve = &sl_policy_limit_at(policy, match->position[i])->reserve;
	return reserve->on ? reserve : NULL;
}

bool sl_policy_holds(const struct sluice_policy *policy) {
	return policy->holds;
}

bool sl_policy_has_costs(const struct sluice_policy *policy) {
	return policy->has_costs;
}

int32_t sl_policy_denier(const struct sluice_policy *policy, const struct sluice_match *match) {
	for (uint32_t i = 0; i < match->count; i++)
		if (sl_policy_on_error(policy, match, i) == SL_ON_ERROR_DENY)
			return (int32_t)i;
	return -1;
}

uint32_t sl_policy_candidates(const struct sluice_policy *policy, const struct sluice_match *match,
                              struct sluice_item *items, uint8_t *of, uint32_t room) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < match->count && count < room; i++) {
		if (match->position[i] >= policy->limit_count) /* given in notation */
			continue;
		const struct sl_ruleset_limit *limit = &policy->limits[match->position[i]];
		if (!limit->shown.has_candidate || match->items[i].limit != &limit->shown.limit)
			continue; /* an override has its own quota: the candidate is tried where the limit itself counts */
		of[count] = (uint8_t)i;
		items[count++] =
			(struct sluice_item){.limit = &limit->shown.candidate,
		                         .key = match->items[i].key,
		                         .observed = true,
		                         .member = match->items[i].member}; /* without terms: strikes are the limit's own */
	}
	return count;
}

uint32_t sl_policy_denied_count(const struct sluice_policy *policy) {
	return policy->denied_count;
}

const struct sl_policy_denied *sl_policy_denied_at(const struct sluice_policy *policy, uint32_t number) {
	SL_ASSERT(number < policy->denied_count);
	return &policy->denials[number];
}

bool sl_policy_denied_set(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text) {
	SL_ASSERT(number < policy->denied_count);
	policy->denials[number].body = sl_slice(sl_pool_text(&policy->pool, text), text.len);
	return policy->denials[number].body.data != NULL;
}

const struct sl_policy_denied *sl_policy_denied_by(const struct sluice_policy *policy, uint32_t position) {
	uint8_t own = sl_policy_limit_at(policy, position)->denied, number = own != 0 ? own : policy->denied;
	SL_ASSERT(number <= policy->denied_count);
	return number != 0 && policy->denials[number - 1].body.data != NULL ? &policy->denials[number - 1] : NULL;
}

int sl_policy_limit_named(const struct sluice_policy *policy, struct sluice_bytes text,
                          const struct sluice_limit **limit) {
	static const char prefix[] = "policy:";
	const size_t len = sizeof prefix - 1;
	if (text.len < len || memcmp(text.data, prefix, len) != 0)
		return 0;
	int64_t position = sl_policy_limit_find(policy, sl_slice((const char *)text.data + len, text.len - len));
	if (position < 0)
		return -1;
	*limit = &sl_policy_limit_at(policy, (uint32_t)position)->limit;
	return 1;
}

uint32_t sl_policy_source_count(const struct sluice_policy *policy) {
	return policy->source_count;
}

const struct sl_policy_source *sl_policy_source_at(const struct sluice_policy *policy, uint32_t position) {
	SL_ASSERT(position < policy->source_count);
	return &policy->sources[position];
}

const struct sl_listen *sl_settings_listen(const struct sl_settings *settings, uint32_t door, uint32_t number) {
	const struct sl_listen *found = NULL;
	for (uint32_t i = 0, seen = 0; number != SL_LISTENER_NONE && i < settings->listen_count && seen <= number; i++)
		if (settings->listens[i].door == door) {
			found = &settings->listens[i];
			seen++;
		}
	return found;
}

bool sl_policy_trusts(const struct sluice_policy *policy, const struct sl_address *address) {
	for (uint32_t i = 0; i < policy->proxy_count; i++)
		if (sl_network_contains(&policy->proxies[i], address))
			return true;
	return false;
}
