/* Changing a copy of a counter, for hosts whose blocks are pieces of memory: where a block is too short, a fresh one
 * takes its place. The host decides when the copy becomes the counter, and gives back the block that is left over.
 *
 * All of these change `copy` and its block in place, or fill *fresh with the block that copy->block then is: the
 * host's, as the old one still is. *fresh is NULL otherwise. False: a log has as many entries as one may have, and
 * nothing was changed. */
#ifndef SL_COPY_H
#define SL_COPY_H

#include "algo/ledger.h"
#include "algo/step.h"

/* Where blocks come from: take() never fails, and returns memory aligned to 8. */
struct sl_memory {
	void *(*take)(uint64_t bytes);
	void (*give)(void *block);
};

/* Charges a cost > 0 that sl_step() or sl_step_count() has charged at this instant: the half of it that blocks need. */
SLUICE_MUST_USE bool sl_copy_write(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now,
                                   uint32_t cost, const struct sl_memory *memory, void **fresh);

/* Charges as much of a cost as `limit` admits: all that a counter can hold, under sl_rule_widened(). */
SLUICE_MUST_USE bool sl_copy_charge(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now,
                                    uint32_t cost, const struct sl_memory *memory, void **fresh);

/* Charges a cost whatever the quota (sl_step_count()). */
SLUICE_MUST_USE bool sl_copy_count(const struct sluice_limit *limit, struct sl_counter *copy, sluice_ns now,
                                   uint32_t cost, const struct sl_memory *memory, void **fresh);

/* Corrects charges (algo/ledger.h). */
SLUICE_MUST_USE bool sl_copy_correct(const struct sluice_limit *limit, struct sl_counter *copy,
                                     const struct sl_correction *list, uint32_t count,
                                     const struct sl_memory *memory, void **fresh);

#endif
