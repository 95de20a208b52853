/* The counters that a limit and its overrides may keep for one key: overrides of another algorithm, window or precision
 * have counters of their own. Found once, when the policy is loaded. */
#include "algo/rule.h"
#include "policy/envoy.h"
#include "policy/quotas.h"

/* Do two limits of one name keep the same counter for a key? */
static bool is_same_counter(const struct sluice_limit *a, const struct sluice_limit *b) {
	return a->algorithm == b->algorithm && a->window_ns == b->window_ns && a->precision_ns == b->precision_ns &&
	       a->calendar == b->calendar && a->zone == b->zone && (!sl_rule_spreads(a) || a->burst == b->burst);
}

/* The counters that a limit with its overrides may keep for one key, at most `room` of them. Returns how many. */
static uint32_t find_variants(const struct sl_ruleset_limit *limit, const struct sluice_limit **limits, uint32_t room) {
	uint32_t count = 0;
	for (uint32_t i = 0; i <= limit->shown.override_count && count < room; i++) {
		const struct sluice_limit *one = i == 0 ? &limit->shown.limit : &limit->overrides[i - 1].limit;
		bool known = !sl_rule_has(one, SL_HAS_COUNTER);
		for (uint32_t j = 0; j < count && !known; j++)
			known = is_same_counter(one, limits[j]);
		if (!known)
			limits[count++] = one;
	}
	return count;
}

bool sl_limit_variants(struct sl_pool *pool, struct sl_ruleset_limit *limit) {
	const struct sluice_limit *found[SL_POLICY_VARIANTS_MAX + 1];
	uint32_t count = find_variants(limit, found, SL_POLICY_VARIANTS_MAX + 1);
	if (count > SL_POLICY_VARIANTS_MAX)
		return false;
	limit->variants = sl_pool_take(pool, count, sizeof *limit->variants);
	limit->variant_count = limit->variants == NULL ? 0 : count;
	if (limit->variants != NULL)
		memcpy(limit->variants, found, count * sizeof *found);
	return true;
}

uint32_t sl_policy_limit_variants(const struct sluice_policy *policy, uint32_t position,
                                  const struct sluice_limit **limits, uint32_t room) {
	if (position >= policy->limit_count) { /* a rule of envoyproxy/ratelimit's files has no overrides */
		if (room != 0)
			limits[0] = &sl_policy_envoy_rule(policy, position)->shown.limit;
		return room != 0;
	}
	const struct sl_ruleset_limit *limit = &policy->limits[position];
	uint32_t count = limit->variant_count < room ? limit->variant_count : room;
	memcpy(limits, limit->variants, count * sizeof *limits);
	return count;
}

bool sl_policy_begins_anew(const struct sluice_policy *before, uint32_t position, const struct sluice_policy *now,
                           uint32_t changed) {
	const struct sl_ruleset_limit *limit = &now->limits[changed];
	const struct sluice_limit *was = &before->limits[position].shown.limit;
	bool found = !sl_rule_has(was, SL_HAS_COUNTER) || limit->variant_count == 0;
	for (uint32_t i = 0; i < limit->variant_count && !found; i++)
		found = is_same_counter(was, limit->variants[i]);
	return !found;
}
