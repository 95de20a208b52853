/* The names of limits, each once, found by hash: at most half full, a position in each slot. */
#include "base/siphash.h"
#include "policy/envoy.h"
#include "policy/ruleset.h"

enum { FREE = UINT32_MAX };

bool sl_limit_names_make(struct sluice_policy *policy, uint32_t count) {
	uint32_t slots = 16;
	while (slots < 2 * count)
		slots *= 2;
	policy->named = sl_pool_take(&policy->pool, slots, sizeof *policy->named);
	if (policy->named == NULL)
		return false;
	memset(policy->named, 0xff, slots * sizeof *policy->named);
	policy->named_mask = slots - 1;
	return true;
}

/* The slot that holds a name, or the free one where it belongs. */
static uint32_t find_slot(const struct sluice_policy *policy, struct sluice_bytes name) {
	static const uint64_t key[2] = {0x6f2073656d616e20, 0x7374696d696c2066};
	uint32_t slot = (uint32_t)sl_siphash(key, NULL, 0, name, 1, 3) & policy->named_mask;
	while (policy->named[slot] != FREE && !sl_bytes_equal(sl_str(policy->limits[policy->named[slot]].shown.name), name))
		slot = (slot + 1) & policy->named_mask;
	return slot;
}

uint32_t sl_limit_names_add(struct sluice_policy *policy, uint32_t position) {
	uint32_t *slot = &policy->named[find_slot(policy, sl_str(policy->limits[position].shown.name))];
	if (*slot == FREE)
		*slot = position;
	return *slot;
}

int64_t sl_policy_limit_find(const struct sluice_policy *policy, struct sluice_bytes name) {
	uint32_t position = policy->named == NULL ? FREE : policy->named[find_slot(policy, name)];
	return position == FREE ? sl_policy_envoy_named(policy, name) : (int64_t)position;
}
