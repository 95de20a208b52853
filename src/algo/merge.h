/* Merging the answers of several limits into one (contract 4.4). */
#ifndef SL_MERGE_H
#define SL_MERGE_H

#include "base/assert.h"
#include "base/bytes.h"
#include "base/math.h"

/* What a request gets to which no limit applies: allowed, no limit named. */
static inline struct sluice_decision sl_merge_nothing(void) {
	return (struct sluice_decision){.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX};
}

/* `remaining` grows once that of all limits has which have the least; never where one of these has its whole quota. */
static inline void sl_merge_next(struct sluice_decision *merged, const struct sluice_decision *one) {
	if (one->remaining < merged->remaining || merged->index < 0)
		merged->next_after_ns = one->next_after_ns;
	else if (one->remaining == merged->remaining && one->next_after_ns == 0)
		merged->next_after_ns = 0;
	else if (one->remaining == merged->remaining && merged->next_after_ns != 0)
		merged->next_after_ns = sl_max(merged->next_after_ns, one->next_after_ns);
}

/* Of quotas that deny, as all do or none (decide.h, I4), only the one that admits again first is added: a request is
 * let in as soon as one of them admits. Whether that is `one`, rather than `before`, which stands before it; NULL: none
 * does. */
static inline bool sl_merge_quota_is_first(const struct sluice_decision *one, const struct sluice_decision *before) {
	return before == NULL || one->retry_after_ns < before->retry_after_ns;
}

/* Adds the answer of the enforced limit at `index` to `merged`, which began as sl_merge_nothing(). Limits are to be
 * added in their order: of equals the first decides. A few ns. */
static inline void sl_merge_add(struct sluice_decision *merged, const struct sluice_decision *one, int32_t index) {
	bool decides = one->allowed ? merged->allowed && (merged->index < 0 || one->remaining < merged->remaining)
	                            : one->retry_after_ns > merged->retry_after_ns;
	SL_DEBUG_ASSERT(index >= 0 && index > merged->index);
	sl_merge_next(merged, one);
	if (decides) {
		merged->index = index;
		merged->quota = one->quota;
		merged->bound = one->bound;
	}
	merged->allowed = merged->allowed && one->allowed;
	merged->remaining = one->remaining < merged->remaining ? one->remaining : merged->remaining;
	merged->retry_after_ns = sl_max(merged->retry_after_ns, one->retry_after_ns);
	merged->reset_after_ns = sl_max(merged->reset_after_ns, one->reset_after_ns);
	merged->delay_ns = merged->allowed ? sl_max(merged->delay_ns, one->delay_ns) : 0; /* what is denied is not held */
}

#endif
