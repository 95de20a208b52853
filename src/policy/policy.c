/* The public calls around a policy's life, and what hosts ask of it. */
#include "policy/policy.h"

#include "base/assert.h"
#include "policy/conf.h"

#include <stdlib.h>

static void policy_init(struct sluice_policy *policy) {
	policy->settings = (struct sl_settings){
		.listen_resp = "127.0.0.1:7379",
		.listen_http = "127.0.0.1:7380",
		.memory_bytes = (uint64_t)256 << 20,
		.ipv6_prefix = 64,
	};
	for (size_t i = 0; i < SL_NAME_SLOTS; i++)
		policy->slots[i] = SL_NAME_NONE;
}

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
	sluice_err err = sl_conf_read(loaded, yaml, &report) ? SLUICE_OK : SLUICE_E_MEMORY;
	if (err == SLUICE_OK && report.error_count != 0) {
		err = SLUICE_E_SYNTAX;
		sl_report_drop_warnings(&report);
	}
	if (err == SLUICE_OK)
		*policy = loaded;
	else
		sluice_policy_free(loaded);
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
	return policy != NULL && position < policy->limit_count ? policy->limits[position].shown.name : NULL;
}

const struct sl_settings *sl_policy_settings(const struct sluice_policy *policy) {
	return &policy->settings;
}

uint32_t sl_policy_limit_count(const struct sluice_policy *policy) {
	return policy->limit_count;
}

const struct sl_policy_limit *sl_policy_limit_at(const struct sluice_policy *policy, uint32_t position) {
	SL_ASSERT(position < policy->limit_count);
	return &policy->limits[position].shown;
}

bool sl_policy_denies_on_error(const struct sluice_policy *policy, const struct sluice_match *match) {
	for (uint32_t i = 0; i < match->count; i++)
		if (!match->items[i].observed && sl_policy_limit_at(policy, match->position[i])->deny_on_error)
			return true;
	return false;
}

uint32_t sl_policy_source_count(const struct sluice_policy *policy) {
	return policy->source_count;
}

const struct sl_policy_source *sl_policy_source_at(const struct sluice_policy *policy, uint32_t position) {
	SL_ASSERT(position < policy->source_count);
	return &policy->sources[position];
}

bool sl_policy_trusts(const struct sluice_policy *policy, const struct sl_address *address) {
	for (uint32_t i = 0; i < policy->proxy_count; i++)
		if (sl_network_contains(&policy->proxies[i], address))
			return true;
	return false;
}
