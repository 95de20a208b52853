/* Limits below a limit: a limit of all, or of a tenant, and one of each user within it.
 *
 * A limit is below another when every request that it counts is counted by that one too, for a key of fewer parts. Then
 * so many of its keys, each at its full quota, ask for more than the other admits. That may be meant, as not all come
 * at once: so it is no warning, but a note. */
#include "policy/lint.h"

#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"

enum { STEPS_MAX = 20 * 1000 * 1000 }; /* limits that are looked at: some 0.1 s */

static bool has_part(const struct sl_ruleset_limit *limit, const struct sl_key_part *part) {
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const struct sl_key_part *one = &limit->parts[i];
		if (one->count == part->count && memcmp(one->choices, part->choices, part->count * sizeof *part->choices) == 0)
			return true;
	}
	return false;
}

/* Is it counted by requests' own cost, at a rate, and does it deny everybody? What another cost is charged for, in
 * units of the limit's own, adds up to nothing that the other limit knows. */
static bool is_rate(const struct sl_ruleset_limit *limit) {
	const struct sl_policy_limit *shown = &limit->shown;
	return sl_rule_has(&shown->limit, SL_COUNTS_COST) && shown->limit.quota != 0 && !shown->observe &&
	       !limit->rollout.canary && !shown->cost.on && !shown->reserve.on &&
	       shown->limit.calendar == SLUICE_CALENDAR_NONE;
}

static bool is_above(const struct sl_ruleset_limit *limit) {
	return is_rate(limit) && sl_when_is_empty(&limit->when);
}

static bool is_below(const struct sl_ruleset_limit *below, const struct sl_ruleset_limit *above) {
	if (above->part_count >= below->part_count || !is_rate(below))
		return false;
	for (uint32_t i = 0; i < above->part_count; i++)
		if (!has_part(below, &above->parts[i]))
			return false;
	return true;
}

/* How many keys at full quota are the first to ask for more. */
static uint64_t keys_that_exceed(const struct sluice_limit *below, const struct sluice_limit *above) {
	SL_ASSERT(below->quota != 0 && above->window_ns != 0); /* is_rate() */
	sl_u128 keys = sl_mul(above->quota, below->window_ns) / sl_mul(below->quota, above->window_ns) + 1;
	return keys < UINT64_MAX ? (uint64_t)keys : UINT64_MAX;
}

uint32_t sl_lint_sums(const struct sluice_policy *policy, struct sl_lint_sum *list, uint32_t room, bool *whole) {
	uint32_t count = 0, steps = STEPS_MAX;
	*whole = true;
	for (uint32_t j = 0; j < policy->limit_count; j++) {
		const struct sl_ruleset_limit *above = &policy->limits[j];
		if (!is_above(above))
			continue;
		if (steps < policy->limit_count) {
			*whole = false;
			break;
		}
		steps -= policy->limit_count;
		for (uint32_t i = 0; i < policy->limit_count && count < room; i++)
			if (is_below(&policy->limits[i], above))
				list[count++] = (struct sl_lint_sum){
					i, j, keys_that_exceed(&policy->limits[i].shown.limit, &above->shown.limit)};
	}
	return count;
}
