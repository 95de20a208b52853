/* Reservations: charges whose true cost comes later (docs/design/012-leases.md).
 *
 * An estimate is charged like any cost. Beside the counter its host keeps a ledger of what is still open. When the true
 * cost is known, or the time has run out and nothing was used, the charge is corrected where it was made, at its
 * instant: a window that has rolled on keeps nothing of it. Pure functions, as in step.h; a ledger is a list that the
 * host keeps in whatever memory it has.
 *
 *   reserve   charge; then note {id, sl_step_instant() after the charge, instant + ttl, cost, sl_ledger_debt()}
 *   charge    sl_ledger_step() decides. Admitted: the first sl_ledger_ended() are corrected to 0 as of their ends and
 *             taken out, then it is charged as any other
 *   commit    sl_bundle_find(); those that have ended are corrected first, then this one as of now, and taken out
 *
 * I1  A ledger is sorted by `end`; the first ones have ended, and count as returned whether or not the counter has been
 *     corrected yet. So peeks and denials need not write.
 * I2  Whoever charges or refunds a counter takes the ended ones out of its ledger and corrects it first.
 * I3  All in a bucket's ledger are of instants since which it has drained at one rate: whoever charges it at another
 *     one notes them anew, as of then.
 * I4  A ledger that is lost takes nothing with it but the way back: the estimates stay charged. */
#ifndef SL_LEDGER_H
#define SL_LEDGER_H

#include "algo/algorithms.h"

enum { SL_LEDGER_MAX = 16384 /* open reservations of one counter; a call looks at some dozens (bundle.h) */ };

struct sl_reservation {
	uint64_t id;
	sluice_ns instant; /* of the charge, by the counter's clock */
	sluice_ns end;     /* from which on it is returned; above instant */
	uint32_t cost;     /* that was charged, >= 1 */
	uint32_t debt;     /* buckets: the debt after the charge, in whole units, rounded down; what of it had drained when
	                    * it is returned is not given back again. Where the bucket's rate was turned since, both are as
	                    * of then (sl_ledger_left()). Others: 0 */
};

struct sl_ledger {
	const struct sl_reservation *list;
	uint32_t count;
};

/* The correction that returns a reservation at its end. */
static inline struct sl_correction sl_ledger_return(const struct sl_reservation *reservation) {
	return (struct sl_correction){.instant = reservation->instant,
	                              .known = reservation->end,
	                              .charged = reservation->cost,
	                              /* of a bucket's bundle, which is not before its end: all that is left of it */
	                              .debt = reservation->instant < reservation->end ? reservation->debt
	                                                                              : reservation->cost};
}

/* How many of a ledger have ended at `now`, which is to be a counter's sl_step_instant(). O(log n). */
uint32_t sl_ledger_ended(const struct sl_ledger *ledger, sluice_ns now);

/* Memory that sl_ledger_step() may use. */
enum { SL_LEDGER_SCRATCH_BYTES = (SL_BUCKETS_MAX + 1) * 4 + 64 };

/* Decides a cost of 0..2^32, charging nothing, all fields as sl_step() does: those that have ended are returned, and
 * the waits know that those still open will be. counter is as it stands in the host, nothing corrected. For the five
 * counting algorithms and the buckets; others, and an empty ledger, decide as sl_step().
 *  scratch  SL_LEDGER_SCRATCH_BYTES, aligned to 8
 * The same answers as sl_step() gives once the ended ones are corrected; but where a refund, or the charge of what was
 * denied, took away a part of a log's charges of one millisecond that are reserved until several instants, those that
 * have ended may seem to have held more of them. O(ended) and a step, some log(open) times; a log O(open log n), and
 * O(open) some log(open n) times. */
void sl_ledger_step(const struct sluice_limit *limit, const struct sl_counter *counter, const struct sl_ledger *ledger,
                    sluice_ns now, uint64_t cost, void *scratch, struct sluice_decision *decision);

/* Tells what a counter holds as sl_step_describe() does, with those returned that have ended; counter, scratch and what
 * it costs as of sl_ledger_step(). For limits that can be reserved. */
void sl_ledger_describe(const struct sluice_limit *limit, const struct sl_counter *counter,
                        const struct sl_ledger *ledger, sluice_ns now, void *scratch, struct sluice_inspection *told);

/* The debt to be noted in a reservation, from the counter after its charge. */
uint32_t sl_ledger_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now);

/* A reservation of what a counter was just charged: from its clock on, for a ttl. O(1). */
struct sl_reservation sl_reservation_of(const struct sluice_limit *limit, const struct sl_counter *counter,
                                        sluice_ns now, uint64_t id, uint32_t cost, sluice_ns ttl_ns);

/* What can still be given back at `now`, of a bucket that drained at `rate` since the reservation's instant: to be
 * noted in its place, with `now`, when a charge turns the bucket to another rate. Whole units, rounded down. */
uint32_t sl_ledger_left(const struct sluice_limit *limit, uint32_t rate, const struct sl_reservation *reservation,
                        sluice_ns now);

/* Bytes of the new block that sl_correct() needs for a counter with a block; 0 for others, and for one without.
 * SL_BLOCK_TOO_LARGE as in sl_step_block_bytes().
 *  above  how many of the corrections, at most, are above what was charged */
uint64_t sl_correct_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t above);

/* Makes counter->state and its new block those of a counter whose charges had the actual costs: below what was charged,
 * it gives back what of it still counts; above, it charges more in the same place, saturating (what counts of a log or
 * sub-buckets, and a window's count, at 2^32 - 1; a bucket's debt at what its state can hold), whatever the quota. A
 * bucket gives back what has not drained, the oldest cost first: where others have charged it since, that may be less
 * than actual costs would have left, by at most what has drained since then, and by less than a unit.
 * Corrections are made in the order of the list: for buckets that of `known`. The last charge's instant stays, but that
 * debt of a bucket begins when it is known. The old block is not written, and the new one has room for the next charge,
 * of any cost, even if sl_step_block_bytes() would rather have a shorter one.
 * Returns whether anything changed; if not, the counter is as it was, and the new block again the host's.
 *  block  sl_correct_bytes() or more; NULL where that is 0. Becomes counter->block
 * O(count) for small states; for sub-buckets + O(W / P); for logs O(n + count log n), and O(n) for each charge above
 * that a refund had removed. */
bool sl_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                uint32_t count, void *block, uint64_t block_bytes);

#endif
