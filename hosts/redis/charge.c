/* See charge.h. */
#include "hosts/redis/charge.h"

const struct sl_memory slr_blocks = {slr_block_take, slr_block_give};

static void put(struct slr_counter *counter, const struct sl_counter *step) {
	bool has_block = slr_has_block(counter->identity);
	counter->state.w[0] = step->state.w[0];
	counter->state.w[1] = has_block ? (step->state.w[1] >> 32 << 32 | (uint32_t)counter->state.w[1]) : step->state.w[1];
	if (step->block != NULL)
		slr_counter_set_block(counter, step->block, step->block_bytes);
}

bool slr_counter_charge(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant, uint32_t cost,
                       uint64_t who) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	step.who = who;
	if (!sl_copy_charge(wide, &step, instant, cost, &slr_blocks, &fresh))
		return false;
	put(counter, &step);
	return true;
}

bool slr_counter_count(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                       uint32_t cost) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	if (!sl_copy_count(limit, &step, instant, cost, &slr_blocks, &fresh))
		return false;
	put(counter, &step);
	return true;
}

bool slr_counter_correct(const struct sluice_limit *limit, struct slr_counter *counter,
                         const struct sl_correction *list, uint32_t count) {
	struct sl_counter step;
	void *fresh;
	slr_counter_load(counter, &step);
	if (!sl_copy_correct(limit, &step, list, count, &slr_blocks, &fresh))
		return false;
	put(counter, &step);
	return true;
}

static bool refund(const struct sluice_limit *limit, struct sl_counter *step, sluice_ns instant, uint32_t cost) {
	bool any = sl_step_prepare_refund(limit, step, instant, &cost);
	return sl_step_refund(limit, step, instant, cost) || any;
}

void slr_counter_refund(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                        uint32_t cost) {
	struct sl_counter step;
	slr_counter_load(counter, &step);
	if (refund(limit, &step, instant, cost))
		put(counter, &step);
}

bool slr_counter_end(const struct sluice_limit *limit, struct slr_counter *counter, enum slr_end end, sluice_ns instant,
                     uint64_t who) {
	struct sl_counter step;
	bool any;
	slr_counter_load(counter, &step);
	step.who = who;
	if (end == SLR_END_FORGET)
		any = refund(limit, &step, instant, 1);
	else
		any = end == SLR_END_RENEW ? sl_lease_renew(limit, &step, instant) : sl_lease_release(limit, &step, instant);
	if (any)
		put(counter, &step);
	return any;
}
