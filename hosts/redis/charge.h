/* Charging a counter where it is in its value: what has been admitted elsewhere or before, such as what a primary tells
 * of. No limit is asked, and a cost that no counter could hold is cut to what it can. */
#ifndef SLR_CHARGE_H
#define SLR_CHARGE_H

#include "decide/copy.h"
#include "hosts/redis/value.h"

/* Where the blocks of values come from: slr_block_take(), slr_block_give(). */
extern const struct sl_memory slr_blocks;

/* What may happen to one lease or member of a counter: it ends, ends T from now, or is forgotten. Returns whether
 * anything changed. */
enum slr_end { SLR_END_RELEASE, SLR_END_RENEW, SLR_END_FORGET };
bool slr_counter_end(const struct sluice_limit *limit, struct slr_counter *counter, enum slr_end end, sluice_ns instant,
                     uint64_t who);

/* Charge a counter: for somebody, `who` (0: nobody), whatever it is under `wide` (sl_identity_widest()); as is counted;
 * and correct it. False as in decide/copy.h. */
SLUICE_MUST_USE bool slr_counter_charge(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant,
                                        uint32_t cost, uint64_t who);
SLUICE_MUST_USE bool slr_counter_count(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                                       uint32_t cost);
SLUICE_MUST_USE bool slr_counter_correct(const struct sluice_limit *limit, struct slr_counter *counter,
                                         const struct sl_correction *list, uint32_t count);

/* Whether a replica gives back the same, which knows of a counter with a block its identity alone: that has no edge, by
 * which sub-buckets count longer or shorter. */
static inline bool slr_refund_is_known(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_KEEPS_TIMES) && limit->bucket_count == 0;
}

/* Gives back at most `cost`, as sl_step_refund() does. */
void slr_counter_refund(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                        uint32_t cost);

#endif
