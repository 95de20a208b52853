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
	if (bytes != 0 && limit->algorithm >= SLUICE_CONCURRENCY)
		memset(*fresh, 0, bytes); /* places that nobody has had are written to files with the rest */
	if (bytes == 0)
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

bool slr_correct(const struct sluice_limit *limit, struct sl_counter *step, const struct sl_correction *list,
                 uint32_t count, void **fresh) {
	uint32_t above = 0;
	uint64_t bytes;
	for (uint32_t i = 0; i < count; i++)
		above += list[i].actual > list[i].charged;
	*fresh = NULL;
	bytes = sl_correct_bytes(limit, step, above);
	if (bytes == SL_BLOCK_TOO_LARGE)
		return false;
	bytes = (bytes + 7) / 8 * 8;
	if (bytes != 0)
		*fresh = slr_block_take(bytes);
	if (sl_correct(limit, step, list, count, *fresh, bytes)) {
		step->block_bytes = bytes;
		return true;
	}
	slr_block_give(*fresh);
	*fresh = NULL;
	return true;
}

bool slr_count(const struct sluice_limit *limit, struct sl_counter *step, sluice_ns instant, uint32_t cost,
               void **fresh) {
	struct sl_counter before = *step;
	*fresh = NULL;
	cost = sl_step_count(limit, step, instant, cost);
	if (cost != 0 && !slr_force_stepped(limit, step, instant, cost, fresh)) {
		*step = before;
		return false;
	}
	while (cost != 0 && sl_step_trim(limit, step, instant))
		;
	return true;
}

static void put(struct slr_counter *counter, const struct sl_counter *step) {
	bool has_block = slr_has_block(counter->identity);
	counter->state.w[0] = step->state.w[0];
	counter->state.w[1] = has_block ? (step->state.w[1] >> 32 << 32 | (uint32_t)counter->state.w[1]) : step->state.w[1];
	if (step->block != NULL)
		slr_counter_set_block(counter, step->block, step->block_bytes);
}

bool slr_force_counter(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant, uint32_t cost,
                       uint64_t who) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	step.who = who;
	if (!slr_force(wide, &step, instant, cost, &fresh))
		return false;
	put(counter, &step);
	return true;
}

bool slr_count_counter(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                       uint32_t cost) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	if (!slr_count(limit, &step, instant, cost, &fresh))
		return false;
	put(counter, &step);
	return true;
}

bool slr_correct_counter(const struct sluice_limit *limit, struct slr_counter *counter,
                         const struct sl_correction *list, uint32_t count) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	if (!slr_correct(limit, &step, list, count, &fresh))
		return false;
	put(counter, &step);
	return true;
}

bool slr_end_counter(const struct sluice_limit *limit, struct slr_counter *counter, enum slr_end end, sluice_ns instant,
                     uint64_t who) {
	struct sl_counter step;
	uint32_t cost = 1;
	bool any;
	slr_counter_load(counter, &step);
	step.who = who;
	if (end == SLR_END_FORGET) {
		any = sl_step_prepare_refund(limit, &step, instant, &cost);
		any = sl_step_refund(limit, &step, instant, cost) || any;
	} else {
		any = end == SLR_END_RENEW ? sl_lease_renew(limit, &step, instant) : sl_lease_release(limit, &step, instant);
	}
	if (any)
		put(counter, &step);
	return any;
}
