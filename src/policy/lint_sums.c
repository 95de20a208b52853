/* Limits below a limit: a limit of all, or of a tenant, and one of each user within it.
 *
 * A limit is below another when every request that it counts is counted by that one too, for a key of fewer parts. Then
 * so many of its keys, each at its full quota, ask for more than the other admits. That may be meant, as not all come
 * at once: so it is no warning, but a note. */
#include "policy/lint.h"

#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"

enum { LIMITS_MAX = 1000 }; /* of a policy that is looked at: the search is quadratic */

static bool has_part(const struct sl_ruleset_limit *limit, const struct sl_key_part *part) {
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const struct sl_key_part *one = &limit->parts[i];
		if (one->count == part->count && memcmp(one->choices, part->choices, part->count * sizeof *part->choices) == 0)
			return true;
	}
	return false;
}

/* Is it counted by whole requests' cost, at a rate, and does it deny? */
static bool is_rate(const struct sl_ruleset_limit *limit) {
	return sl_rule_has(&limit->shown.limit, SL_COUNTS_COST) && limit->shown.limit.quota != 0 && !limit->shown.observe &&
	       limit->shown.limit.calendar == SLUICE_CALENDAR_NONE;
}

static bool is_below(const struct sl_ruleset_limit *below, const struct sl_ruleset_limit *above) {
	if (!is_rate(below) || !is_rate(above) || above->part_count >= below->part_count || !sl_when_is_empty(&above->when))
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

uint32_t sl_lint_sums(const struct sluice_policy *policy, struct sl_lint_sum *list, uint32_t room) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < policy->limit_count && policy->limit_count <= LIMITS_MAX; i++)
		for (uint32_t j = 0; j < policy->limit_count && count < room; j++)
			if (is_below(&policy->limits[i], &policy->limits[j]))
				list[count++] = (struct sl_lint_sum){
					.below = i,
					.above = j,
					.keys = keys_that_exceed(&policy->limits[i].shown.limit, &policy->limits[j].shown.limit)};
	return count;
}
