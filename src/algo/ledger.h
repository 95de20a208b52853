/* Reservations: charges whose true cost comes later (docs/design/012-leases.md).
 *
 * An estimate is charged like any cost. Beside the counter its host keeps a ledger of what is still open. When the true
 * cost is known, or the time has run out and nothing was used, the charge is corrected where it was made, at its
 * instant: a window that has rolled on keeps nothing of it. Pure functions, as in step.h; a ledger is a list that the
 * host keeps in whatever memory it has.
 *
 * I1  A ledger is sorted by `end`; the first ones have ended, and count as returned whether or not the counter has been
 *     corrected yet. So peeks and denials need not write.
 * I2  Whoever charges a counter takes the ended ones out of its ledger and corrects it first.
 * I3  A ledger that is lost takes nothing with it but the way back: the estimates stay charged. */
#ifndef SL_LEDGER_H
#define SL_LEDGER_H

#include "algo/step.h"

enum { SL_LEDGER_MAX = 65536 /* open reservations of one counter */ };

struct sl_reservation {
	uint64_t id;
	sluice_ns instant; /* of the charge, by the counter's clock */
	sluice_ns end;     /* from which on it is returned; above instant */
	uint32_t cost;     /* that was charged, >= 1 */
	uint32_t debt;     /* buckets: the debt behind the charge, in whole units, rounded down; what of it had drained when
	                    * it is returned is not given back again. Others: 0 */
};

struct sl_ledger {
	const struct sl_reservation *list;
	uint32_t count;
};

/* A charge that was made at `instant` of `charged`, and is to have been of `actual` as is known at `known`. */
struct sl_correction {
	sluice_ns instant, known;
	uint32_t charged, actual;
	uint32_t debt; /* as in struct sl_reservation */
};

/* How many of a ledger have ended at `now`. O(log n). */
uint32_t sl_ledger_ended(const struct sl_ledger *ledger, sluice_ns now);

/* Where an id stands among those that are open at `now`, or -1. O(n). */
int64_t sl_ledger_find(const struct sl_ledger *ledger, uint64_t id, sluice_ns now);

/* Memory that sl_ledger_step() may use. */
enum { SL_LEDGER_SCRATCH_BYTES = (SL_BUCKETS_MAX + 1) * 4 + 64 };

/* Decides a cost of 0..2^32, charging nothing, all fields as sl_step() does: those that have ended are returned, and
 * the waits know that those still open will be. counter is as it stands in the host, nothing corrected. For the five
 * counting algorithms and the buckets; others, and an empty ledger, decide as sl_step().
 *  scratch  SL_LEDGER_SCRATCH_BYTES, aligned to 8
 * O(ended + log n steps) for an admitted cost; a denial and the reset cost O(log open) times that. */
void sl_ledger_step(const struct sluice_limit *limit, const struct sl_counter *counter, const struct sl_ledger *ledger,
                    sluice_ns now, uint64_t cost, void *scratch, struct sluice_decision *decision);

/* The debt to be noted in a reservation, from the counter behind its charge. */
uint32_t sl_ledger_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now);

/* Bytes of the new block that sl_correct() needs for a counter with a block; 0 for others. SL_BLOCK_TOO_LARGE as in
 * sl_step_block_bytes(). */
uint64_t sl_correct_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t count);

/* Makes counter->state and its new block those of a counter whose charges had the actual costs: below what was charged,
 * it gives back what of it still counts; above, it charges more in the same place, saturating, whatever the quota. The
 * last charge's instant stays; the old block is not written; the next charge of any cost needs no longer block.
 * Returns whether anything changed; if not, the new block was not written and the counter keeps its old one.
 *  block  sl_correct_bytes() or more; NULL where that is 0. Becomes counter->block */
bool sl_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                uint32_t count, void *block, uint64_t block_bytes);

#endif
