/* See footprint.h.
 *
 * A counter takes a slot s, and a block between a least L and a most M: of sub-buckets these are one, a log grows. With
 * the share p for blocks there is room for min((1 - p) / s, p / x) counters whose blocks are x; with the best share,
 * x / (s + x), for 1 / (s + x). What p holds is a part of that: at M it is p / best(M), where blocks run out first, and
 * at L (1 - p) / (1 - best(L)), where slots do. The smaller of the two is greatest where both are equal:
 *
 *   p = best(M) / (best(M) + 1 - best(L)) = M (s + L) / (M (s + L) + s (s + M))
 *
 * which is the best share itself where L and M are one, and at worst holds two thirds of the best one. */
#include "policy/footprint.h"

#include "algo/hll.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"
#include "policy/ruleset.h"
#include "store/blocks.h"

enum {
	SLOT_BYTES = 42, /* 26.4 with its part of a page and of the sketch, at a fill of 63 % */
	UNIT_BYTES = SL_UNIT_BYTES + 1, /* and its byte of the map */
	SPARE_PERCENT = 10,
};

/* Above so many members are estimated. */
static uint64_t seats_max(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_TAKES_MEMBER) ? SL_EXACT_MEMBERS : UINT32_MAX;
}

uint64_t sl_footprint_bytes_used_up(const struct sluice_limit *limit) {
	uint64_t ms = limit->window_ns / SL_MS_NS;
	if (limit->bucket_count != 0)
		return sl_step_most_bytes(limit);
	if (sl_rule_has(limit, SL_KEEPS_TIMES))
		return (uint64_t)limit->quota * (ms <= UINT16_MAX ? 2 : ms <= UINT32_MAX ? 4 : 8);
	return sl_rule_has(limit, SL_HAS_SEATS) ? sl_min(limit->quota, seats_max(limit)) * 16 : 0;
}

/* A block of so many bytes, in whole units. */
static uint64_t in_units(uint64_t bytes) {
	return (bytes + sizeof(struct sl_block_head) + SL_UNIT_BYTES - 1) / SL_UNIT_BYTES * UNIT_BYTES;
}

static uint64_t after_first_charge(const struct sluice_limit *limit) {
	struct sl_counter counter = {.block = NULL};
	struct sluice_decision decision;
	sl_step(limit, &counter, 1, 1, false, &decision);
	return in_units(sl_step_block_bytes(limit, &counter, 1));
}

struct sl_footprint sl_footprint_of(const struct sluice_limit *limit) {
	struct sl_footprint footprint = {0};
	uint64_t bytes;
	if (!sl_rule_has(limit, SL_HAS_COUNTER) || limit->quota == 0)
		return footprint;
	footprint.slot = SLOT_BYTES;
	bytes = sl_footprint_bytes_used_up(limit);
	if (bytes == 0)
		return footprint;
	footprint.least = after_first_charge(limit);
	if (limit->bucket_count != 0) {
		footprint.most = in_units(bytes);
		return footprint;
	}
	/* registers beside the members that are known; up to an eighth more, so that not each charge makes it longer; and
	 * gaps between blocks */
	bytes += sl_rule_estimates(limit) ? sl_hll_bytes(sl_rule_register_bits(limit)) : 0;
	footprint.most = in_units(bytes + bytes / 8);
	footprint.most = sl_max(footprint.most + footprint.most / 4, footprint.least);
	return footprint;
}

uint32_t sl_footprint_split(const struct sl_footprint *sum) {
	sl_u128 blocks = sl_mul(sum->most, sum->slot + sum->least), slots = sl_mul(sum->slot, sum->slot + sum->most);
	SL_ASSERT(sum->least <= sum->most);
	if (sum->slot == 0)
		return SL_BLOCKS_PERCENT_DEFAULT;
	while ((blocks + slots) >> 57 != 0) { /* of a hundred thousand limits of the longest logs */
		blocks >>= 1;
		slots >>= 1;
	}
	uint64_t percent = sl_div_ceil(blocks * 100, (uint64_t)(blocks + slots));
	return (uint32_t)sl_min(sl_max(percent, 1), SL_BLOCKS_PERCENT_MAX);
}

struct sl_footprint sl_policy_footprint(const struct sluice_policy *policy) {
	struct sl_footprint sum = {0};
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_ruleset_limit *limit = &policy->limits[i];
		struct sl_footprint one;
		if (limit->part_count == 0 || limit->variant_count == 0)
			continue;
		one = sl_footprint_of(limit->variants[0]);
		sum.slot += one.slot;
		sum.least += one.least;
		sum.most += one.most;
	}
	return sum;
}

uint32_t sl_policy_blocks_percent(const struct sluice_policy *policy) {
	struct sl_footprint sum = sl_policy_footprint(policy);
	uint64_t percent = sl_footprint_split(&sum);
	if (policy->settings.blocks_percent != 0)
		return policy->settings.blocks_percent;
	return (uint32_t)sl_min(sl_max(percent, SPARE_PERCENT), 100 - SPARE_PERCENT);
}

uint64_t sl_policy_keys_most(const struct sluice_policy *policy) {
	struct sl_footprint sum = sl_policy_footprint(policy);
	uint64_t percent = sl_policy_blocks_percent(policy), bytes = policy->settings.memory_bytes;
	uint64_t slots = sum.slot != 0 ? bytes / 100 * (100 - percent) / sum.slot : UINT64_MAX;
	uint64_t blocks = sum.most != 0 ? bytes / 100 * percent / sum.most : UINT64_MAX;
	return sl_min(slots, blocks);
}
