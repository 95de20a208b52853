/* The step: (rule, state, now, cost) -> (decision, state). Pure functions over memory that the host hands in: no clock,
 * no allocation, no lock. One switch over the closed set of algorithms.
 *
 * A host decides in two halves, so that several limits can be decided as one:
 *   1. sl_step() on a copy of each counter, with charge = true: the decisions as they will be if all admit. The copies
 *      of small states come back charged; blocks are not touched.
 *   2. all admitted: for the algorithms with blocks sl_step_block_bytes() says whether a longer block is needed; the
 *      host provides all of them, and only then sl_step_write() charges each. Nothing after that can fail.
 *      one denied: sl_step() with charge = false for those that had admitted, and nothing is written.
 *
 * A host whose counters outlive it publishes states, each with one store of 16 bytes that no store before or after it
 * may pass, and does so in this order, so that its death between any two stores leaves every counter whole:
 *
 *   charge in place       if (sl_step_prepare(limit, &c)) publish(c.state);
 *                         sl_step_write(limit, &c, now, cost, NULL, 0);            publish(c.state);
 *   charge in a new block sl_step_write(limit, &c, now, cost, block, bytes);       publish(c.state with the new block);
 *   refund                if (sl_step_prepare_refund(limit, &c, now, &cost)) publish(c.state);
 *                         if (sl_step_refund(limit, &c, now, cost))                publish(c.state);
 *
 * Every call holds for any bytes in state and block (algo/state.h): its answers are then wrong but well-formed. */
#ifndef SL_STEP_H
#define SL_STEP_H

#include "algo/algorithms.h"

/* Decides a cost of 0..2^32 at `now`, all fields of the decision but index and next_after_ns. With `charge`, an
 * admitted cost above 0 is reported as charged and, for algorithms without blocks, charged in counter->state. O(1) for
 * windows and token/leaky buckets, O(log n) for logs, O(W / P) for sub-buckets when denied or idle. */
void sl_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost, bool charge,
             struct sluice_decision *decision);

/* Prefetches what sl_step() will read of counter->block, by its state alone; both may be out of date, and counter may
 * lack its block_bytes. */
void sl_step_prefetch(const struct sluice_limit *limit, const struct sl_counter *counter);

/* After sl_step() at the same instant and before sl_step_write() in the present block: makes counter->state one that
 * says the same of every instant from now on, and of which the write to come destroys nothing, so that a process that
 * dies within the write leaves a counter that is whole. Returns whether the state changed: then it is to be published
 * first. Always for sub-buckets; for logs a few instructions, and hardly ever; for leases and members where one takes
 * the place of another that has ended. */
static inline bool sl_step_prepare(const struct sluice_limit *limit, struct sl_counter *counter) {
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return counter->log.count + 1 >= counter->log.capacity && sl_log_prepare(counter);
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS)
		return sl_subs_prepare(counter);
	return sl_rule_has(limit, SL_HAS_SEATS) && sl_members_prepare(limit, counter);
}

/* After sl_step() at the same instant: how many bytes of block a charge of `cost` needs. 0 when the present one serves,
 * else of a new one, which sl_step_write() is then given and the old one is free after it; SL_BLOCK_TOO_LARGE when
 * there can be none. It is the shortest that will do: sl_step_most_bytes() says what a later charge may ask for. */
uint64_t sl_step_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost);

/* How long a block a counter may come to need of which no part goes before all of it: one that has no room for it
 * can't be kept, and is denied at once and not at some later charge. 0 for algorithms other than sub-buckets:
 * logs, leases and members grow with what they hold, and shrink. */
static inline uint64_t sl_step_most_bytes(const struct sluice_limit *limit) {
	return limit->algorithm == SLUICE_SLIDING_BUCKETS ? sl_subs_most_bytes(limit) : 0;
}

/* Charges an admitted cost > 0 to an algorithm with blocks, after sl_step() at the same instant. `block` is the new
 * block (bytes as asked for or more) or NULL to go on in counter->block, if sl_step_block_bytes() was 0.
 * A process that dies within it leaves a charge of all of the cost or of nothing, under the prepared state. Writes the
 * block and counter->state (the host's 32 bits of it left as they are). */
void sl_step_write(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost,
                   void *block, uint64_t block_bytes);

/* Before sl_step_refund() with the same arguments: makes counter->state one under which the refund may write the block,
 * as sl_step_prepare() does for a charge. It may already give something back by that, whole charges; `cost` is lowered
 * by as much. Returns whether the state changed: then it is to be published first. */
bool sl_step_prepare_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                            uint32_t *cost);

/* Gives back at most `cost`, newest charges that still count first, in counter->state and its block; of `distinct`
 * forgets the member counter->who, of `concurrency` nothing (sl_lease_release()). Returns whether anything changed.
 * A process that dies within it has given back a part of it, newest first. */
bool sl_step_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost);

/* The instant that a step at `now` decides at: now or, where that is later, the counter's last charge. A log has its
 * last charge at the end of its millisecond, but time within that has not gone back. */
sluice_ns sl_step_instant(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now);

/* What of charges made at or before t, each at its instant, counts at t. For algorithms that count cost and do not
 * drain; for others nothing ever leaves. */
struct sl_reach sl_step_reach(const struct sluice_limit *limit, sluice_ns t);

/* From when on a charge made at `instant` counts no longer at all, at the latest; UINT64_MAX as above, and where time
 * ends before. */
sluice_ns sl_step_leaves(const struct sluice_limit *limit, sluice_ns instant);

/* Whether all that was charged within a window goes at once, with the window. */
bool sl_step_goes_at_once(const struct sluice_limit *limit);

/* The most that a limit admits in any half-open window of its length, as docs/limits.md states it: cost, of concurrency
 * in flight at any instant, of distinct how many members. Net of refunds, while the limit is unchanged and its store is
 * not full. UINT64_MAX where no bound is stated: unlimited, and members that are estimated. O(1). */
uint64_t sl_step_most(const struct sluice_limit *limit);

/* ---- charges whatever the quota (`count-denied`) ------------------------------------------------------------------
 *
 *   small states   if (sl_step_count(limit, &c, now, cost) != 0)                     publish(c.state);
 *   with a block   charge = sl_step_count(limit, &c, now, cost);
 *                  if (charge != 0) write it as any charge: sl_step_block_bytes(), _prepare(), _write(), publish;
 *                  while (sl_step_trim(limit, &c, now))                              publish(c.state);
 *   the answer     sl_step_counted(limit, &c, now, cost, &decision)
 *
 * A process that dies on the way leaves the charge made in full, in part or not, and never less than was there. */

/* Charges a cost above 0 of a request that was allowed or denied. Counts saturate: those of windows, and what counts of
 * sub-buckets and logs, at 2^32 - 1; of a log no more than Q is charged; a bucket is emptied at most. Debt that was
 * above that (corrections, a lowered quota) stays. Algorithms without blocks are charged in counter->state; others come
 * back as after sl_step() at the same instant. Returns what was charged, or is to be by sl_step_write(): 0: nothing,
 * and nothing changed; as always for a quota of 0, and for unlimited, concurrency and distinct. Costs as sl_step(). */
uint32_t sl_step_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost);

/* After that charge was written, as often as it returns true: drops from a log what is too much, oldest units first, so
 * that it keeps the newest Q. Returns whether the state changed and is to be published before the next call; for other
 * algorithms false. O(log n). */
bool sl_step_trim(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now);

/* Turns the decision by which such a charge was made into that of the new state: allowed, and the delay, stay as
 * decided. */
void sl_step_counted(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost,
                     struct sluice_decision *decision);

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Tells what a counter holds at `now`: fills used, last_ns and the charges of `told`, which the caller has cleared. As
 * little is assumed of its bytes as by a step. O(what counts). */
void sl_step_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                      struct sluice_inspection *told);

/* ---- what is known of a counter that is gone -------------------------------------------------------------------- */

/* Bytes of block that sl_step_assume() needs for so many; 0 for algorithms without blocks. At most
 * SL_ASSUME_BYTES_MAX. `cost`: the most that the next charge will be. */
uint64_t sl_step_assume_bytes(const struct sluice_limit *limit, int count, uint32_t cost);
enum { SL_ASSUME_BYTES_MAX = (SL_BUCKETS_MAX + 1) * 4 + 64 };

/* Makes counter->state and its block those of a counter that at every instant from the last of `held` on (at most
 * SL_HELD_MAX, instants rising, costs falling; a cost above the capacity counts as that; none: an unused counter) is at
 * least as used as each counter that `held` may speak of, whenever up to its instant those charged what they held. The
 * next charge needs no longer block.
 *  block  of sl_step_assume_bytes() or more; NULL where that is 0. Becomes counter->block; the host's 32 bits of the
 *         state come out 0 */
void sl_step_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held, int count,
                    void *block, uint64_t block_bytes);

/* For how long after the charge that `decision` reports the state may differ from no state, under any edge. */
static inline sluice_ns sl_step_life(const struct sluice_limit *limit, const struct sluice_decision *decision) {
	sluice_ns extra = limit->algorithm == SLUICE_SLIDING_BUCKETS ? limit->precision_ns : 0;
	sluice_ns life;
	if (__builtin_add_overflow(decision->reset_after_ns, extra + SL_MS_NS, &life))
		return SLUICE_NEVER - 1; /* 584 years are as long as can be said */
	return life;
}

/* Whether a state and its block could have been written by this code: for attach checks, fuzzers and debug builds. */
bool sl_counter_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter);

/* Turns a decision into the denial of a bound of ours (sluice_bound), by which nothing is charged.
 *  wait_ns  by when the bound can have passed; SLUICE_NEVER where it can't */
static inline void sl_decide_bound(struct sluice_decision *decision, sluice_bound bound, sluice_ns wait_ns) {
	decision->allowed = false;
	decision->bound = (uint8_t)bound;
	decision->remaining = 0;
	decision->delay_ns = 0;
	decision->retry_after_ns = wait_ns != 0 ? wait_ns : 1;
	if (wait_ns != SLUICE_NEVER && decision->reset_after_ns < decision->retry_after_ns)
		decision->reset_after_ns = decision->retry_after_ns;
}

/* Decides a cost by a bound that was met before the call (sluice_item.bound), for good: only nothing is admitted. */
static inline void sl_decide_beyond(struct sluice_decision *decision, uint8_t bound, bool costs) {
	sl_decide_bound(decision, (sluice_bound)bound, SLUICE_NEVER);
	if (!costs) {
		decision->allowed = true;
		decision->retry_after_ns = 0;
	}
}

/* Answers a limit without its counter: by the bound that it has met before the call, or as if it were unused.
 *  costs  whether anything of the call costs anything */
void sl_decide_unread(const struct sluice_item *item, bool costs, struct sluice_decision *decision);

/* Where a limit of a call has met a bound before (sluice_item.bound), answers it without any counter: fills `each`, by
 * which that limit denies, unless nothing of the call costs anything, and others stand as if they were unused. Returns
 * whether there is one. For hosts whose counters are elsewhere. */
bool sl_decide_blocked(const struct sluice_call *call);

#endif
