/* See force.h. The algorithms charge only what they admit; so they are asked under a limit that admits all. */
#include "hosts/redis/force.h"

#include "base/math.h"
#include "hosts/redis/memory.h"

struct sluice_limit slr_widened(const struct sluice_limit *limit) {
	struct sluice_limit wide = *limit;
	uint64_t kind = limit->derived[SL_IDENT_KIND], name = limit->derived[SL_IDENT_NAME];
	if (limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET) {
		wide.burst = UINT32_MAX;
		wide.quota = limit->quota != 0 ? limit->quota : 1; /* without a rate nothing can be said of a debt */
	} else {
		wide.quota = UINT32_MAX;
	}
	sl_rule_derive(&wide);
	wide.derived[SL_IDENT_KIND] = kind;
	wide.derived[SL_IDENT_NAME] = name;
	return wide;
}

bool slr_force_stepped(const struct sluice_limit *limit, struct sl_counter *step, sluice_ns instant, uint32_t cost,
                       void **fresh) {
	uint64_t bytes;
	*fresh = NULL;
	if (!sl_rule_has_block(limit))
		return true;
	bytes = sl_step_block_bytes(limit, step, cost);
	if (bytes == SL_BLOCK_TOO_LARGE)
		return false;
	bytes = (bytes + 7) / 8 * 8;
	if (bytes != 0)
		*fresh = slr_block_take(bytes);
	else
		(void)sl_step_prepare(limit, step);
	sl_step_write(limit, step, instant, cost, *fresh, bytes);
	if (*fresh != NULL)
		step->block_bytes = bytes;
	return true;
}

bool slr_force(const struct sluice_limit *wide, struct sl_counter *step, sluice_ns instant, uint32_t cost,
               void **fresh) {
	struct sl_counter before = *step;
	struct sluice_decision decision;
	*fresh = NULL;
	sl_step(wide, step, instant, 0, false, &decision);
	cost = (uint32_t)sl_min(cost, decision.remaining);
	sl_step(wide, step, instant, cost, true, &decision);
	if (cost == 0 || slr_force_stepped(wide, step, instant, cost, fresh))
		return true;
	*step = before;
	return false;
}

bool slr_force_counter(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant, uint32_t cost) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	if (!slr_force(wide, &step, instant, cost, &fresh))
		return false;
	counter->state = step.state;
	if (step.block != NULL)
		slr_counter_set_block(counter, step.block, step.block_bytes);
	return true;
}
