/* See copy.h: the order of algo/step.h, for counters that are copies, so that no death between two writes matters. */
#include "decide/copy.h"

#include "base/assert.h"
#include "base/math.h"

static void *take(const struct sl_memory *memory, uint64_t bytes) {
	void *block = bytes != 0 ? memory->take(bytes) : NULL;
	SL_ASSERT((block != NULL) == (bytes != 0) && (uintptr_t)block % 8 == 0);
	return block;
}

bool sl_copy_write(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now, uint32_t cost,
                   const struct sl_memory *memory, void **fresh) {
	uint64_t bytes;
	*fresh = NULL;
	if (!sl_rule_has(limit, SL_HAS_BLOCK))
		return true;
	bytes = sl_step_block_bytes(limit, copy, cost);
	if (bytes == SL_BLOCK_TOO_LARGE)
		return false;
	SL_ASSERT(cost != 0);
	if (bytes != 0 && limit->bucket_count != 0)
		bytes = sl_subs_wide_bytes(limit); /* replicas of before know no others */
	bytes = (bytes + 7) / 8 * 8;
	*fresh = take(memory, bytes);
	if (bytes != 0 && sl_rule_has(limit, SL_HAS_SEATS))
		memset(*fresh, 0, bytes); /* places that nobody has had are written to files with the rest */
	if (bytes == 0)
		(void)sl_step_prepare(limit, copy);
	sl_step_write(limit, copy, now, cost, *fresh, bytes);
	SL_ASSERT(*fresh == NULL || copy->block == *fresh);
	if (bytes != 0)
		copy->block_bytes = bytes;
	return true;
}

bool sl_copy_charge(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now, uint32_t cost,
                    const struct sl_memory *memory, void **fresh) {
	struct sl_counter before = *copy;
	struct sluice_decision decision;
	*fresh = NULL;
	sl_step(limit, copy, now, 0, false, &decision);
	cost = (uint32_t)sl_min(cost, decision.remaining);
	sl_step(limit, copy, now, cost, true, &decision);
	if (cost == 0 || sl_copy_write(limit, copy, now, cost, memory, fresh))
		return true;
	*copy = before;
	return false;
}

bool sl_copy_count(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now, uint32_t cost,
                   const struct sl_memory *memory, void **fresh) {
	struct sl_counter before = *copy;
	*fresh = NULL;
	cost = sl_step_count(limit, copy, now, cost);
	if (cost != 0 && !sl_copy_write(limit, copy, now, cost, memory, fresh)) {
		*copy = before;
		return false;
	}
	while (cost != 0 && sl_step_trim(limit, copy, now))
		;
	return true;
}

bool sl_copy_correct(const struct sluice_limit *limit, struct sl_counter *copy, const struct sl_correction *list,
                     uint32_t count, const struct sl_memory *memory, void **fresh) {
	uint32_t above = 0;
	uint64_t bytes;
	for (uint32_t i = 0; i < count; i++)
		above += list[i].actual > list[i].charged;
	*fresh = NULL;
	bytes = sl_correct_bytes(limit, copy, above);
	if (bytes == SL_BLOCK_TOO_LARGE)
		return false;
	bytes = (bytes + 7) / 8 * 8;
	*fresh = take(memory, bytes);
	if (sl_correct(limit, copy, list, count, *fresh, bytes)) {
		SL_ASSERT(*fresh == NULL || copy->block == *fresh);
		copy->block_bytes = bytes;
		return true;
	}
	if (*fresh != NULL)
		memory->give(*fresh);
	*fresh = NULL;
	return true;
}
