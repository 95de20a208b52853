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
 * A host whose counters outlive it publishes states, each with one store of 16 bytes that no store before or behind it
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

#include "algo/state.h"

/* sl_step_block_bytes(): the log has as many entries as one may have. */
#define SL_BLOCK_TOO_LARGE UINT64_MAX

/* Whether the algorithm keeps a block. */
static inline bool sl_rule_has_block(const struct sluice_limit *limit) {
	return limit->algorithm == SLUICE_SLIDING_LOG || limit->algorithm == SLUICE_SLIDING_BUCKETS ||
	       limit->algorithm == SLUICE_CONCURRENCY || limit->algorithm == SLUICE_DISTINCT;
}

/* Decides a cost of 0..2^32 at `now`, all fields of the decision but index and next_after_ns. With `charge`, an
 * admitted cost above 0 is reported as charged and, for algorithms without blocks, charged in counter->state. O(1) for
 * windows and token/leaky buckets, O(log n) for logs, O(W / P) for sub-buckets when denied or idle. */
void sl_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost, bool charge,
             struct sluice_decision *decision);

/* Prefetches what sl_step() will read of counter->block, by its state alone; both may be out of date, and counter may
 * lack its block_bytes. */
void sl_step_prefetch(const struct sluice_limit *limit, const struct sl_counter *counter);

/* Of logs whose ring is as long as the block, of sub-buckets, of leases and members: see sl_step_prepare(). */
bool sl_log_prepare(struct sl_counter *counter);
bool sl_subs_prepare(struct sl_counter *counter);
bool sl_members_prepare(const struct sluice_limit *limit, struct sl_counter *counter);

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
	return (limit->algorithm == SLUICE_CONCURRENCY || limit->algorithm == SLUICE_DISTINCT) &&
	       sl_members_prepare(limit, counter);
}

/* After sl_step() at the same instant: how many bytes of block a charge of `cost` needs. 0 when the present one serves,
 * else of a new one, which sl_step_write() is then given and the old one is free after it; SL_BLOCK_TOO_LARGE when
 * there can be none. */
uint64_t sl_step_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost);

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

/* ---- leases (lease.c): counters of concurrency, counter->who says which one ------------------------------------- */

/* Whether a lease is held at `now`; ends it, or lets it end T later, in one store of the block, without prepare or
 * write, whatever N is by now: also 0. Each returns whether it is held: if not, nothing changed. A renewed counter's
 * state is to be published after it, with the lifetime that sl_lease_step() at the same instant says. */
bool sl_lease_is_held(const struct sl_counter *counter, sluice_ns now);
bool sl_lease_release(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now);
bool sl_lease_renew(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now);

/* Who holds leases at `now`, in no order: fills at most `room`; returns how many there are. */
uint32_t sl_lease_list(const struct sl_counter *counter, sluice_ns now, struct sluice_holder *list, uint32_t room);

/* The number of an id: 16 hex digits in lower case are that number, any other text is hashed to one. Never 0. */
uint64_t sl_id_number(struct sluice_bytes id);

/* What is known of a counter that is gone: at `instant` it was charged for the last time, and held at most `cost`. */
struct sl_held {
	sluice_ns instant;
	uint64_t cost;
};
enum { SL_HELD_MAX = 8 };

/* Bytes of block that sl_step_assume() needs for so many; 0 for algorithms without blocks. At most
 * SL_ASSUME_BYTES_MAX. */
uint64_t sl_step_assume_bytes(const struct sluice_limit *limit, int count);
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

/* Whether the counters of a limit may be charged at one rate now and another then: buckets of a name. The identity of
 * others says their rate. */
static inline bool sl_rule_rate_may_change(const struct sluice_limit *limit) {
	return limit->algorithm - (unsigned)SLUICE_TOKEN_BUCKET <= SLUICE_LEAKY_BUCKET - SLUICE_TOKEN_BUCKET &&
	       limit->derived[SL_IDENT_KIND] >> 62 == SL_SPACE_POLICY;
}

/* The rate that a bucket drains by: state->rate, if that is known. By state->life that of the limit, where the lifetime
 * can't tell the two apart, or the least that it can be. Else that of the limit. */
uint32_t sl_bucket_rate(const struct sluice_limit *limit, const struct sl_state *state);

/* The lifetime of a bucket's state that was not charged just now, but refunded or corrected: sl_step_life() of others
 * and of charges. */
sluice_ns sl_bucket_life(const struct sluice_limit *limit, const struct sl_state *state);

/* Whether a state and its block could have been written by this code: for attach checks, fuzzers and debug builds. */
bool sl_counter_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter);

/* Fills the numbers of a decision that all algorithms share: allowed when `cost` fits `room`. */
static inline void sl_decide_room(struct sluice_decision *decision, uint64_t capacity, uint64_t room, uint64_t cost) {
	*decision = (struct sluice_decision){.allowed = cost <= room || cost == 0,
	                                     .quota = capacity,
	                                     .remaining = (uint32_t)(room < UINT32_MAX ? room : UINT32_MAX)};
}

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

/* Where a limit of a call has met a bound before (sluice_item.bound), answers it without any counter: fills `each`, by
 * which that limit denies and others stand as if they were unused. Returns whether there is one. For hosts whose
 * counters are elsewhere. */
bool sl_decide_blocked(const struct sluice_call *call);

/* What of a cost held can have been: no more than the capacity. */
static inline uint64_t sl_held_cost(const struct sluice_limit *limit, const struct sl_held *held) {
	return held->cost < limit->derived[SL_CAPACITY] ? held->cost : limit->derived[SL_CAPACITY];
}

/* By how much the cost of held[i] is above that of the next, if there is a next. */
static inline uint64_t sl_held_above(const struct sluice_limit *limit, const struct sl_held *held, int count, int i) {
	uint64_t its = sl_held_cost(limit, &held[i]), next = i + 1 < count ? sl_held_cost(limit, &held[i + 1]) : 0;
	return its > next ? its - next : 0;
}

/* The algorithms, one a file; sl_step() and its companions choose among them. */
void sl_fixed_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                   struct sluice_decision *);
void sl_window_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                    struct sluice_decision *);
void sl_bucket_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                    struct sluice_decision *);
void sl_log_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool, struct sluice_decision *);
void sl_subs_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                  struct sluice_decision *);
void sl_lease_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                   struct sluice_decision *);
void sl_distinct_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                      struct sluice_decision *);
void sl_log_prefetch(const struct sluice_limit *, const struct sl_counter *);
void sl_subs_prefetch(const struct sluice_limit *, const struct sl_counter *);
uint64_t sl_log_block_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t);
uint64_t sl_subs_block_bytes(const struct sluice_limit *, const struct sl_counter *);
void sl_log_write(struct sl_counter *, uint32_t, void *, uint64_t);
void sl_subs_write(const struct sluice_limit *, struct sl_counter *, uint32_t, void *);
uint64_t sl_lease_block_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t);
uint64_t sl_distinct_block_bytes(const struct sluice_limit *, const struct sl_counter *);
void sl_lease_write(const struct sluice_limit *, struct sl_counter *, uint32_t, void *, uint64_t);
void sl_distinct_write(const struct sluice_limit *, struct sl_counter *, void *, uint64_t);
bool sl_log_prepare_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t *);
bool sl_subs_prepare_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_window_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_bucket_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_log_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_distinct_refund(struct sl_counter *, sluice_ns, uint32_t);
bool sl_subs_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint64_t sl_log_assume_bytes(const struct sluice_limit *, int);
uint64_t sl_subs_assume_bytes(const struct sluice_limit *);
void sl_window_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int);
void sl_bucket_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int);
void sl_log_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int, void *, uint64_t);
void sl_subs_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int, void *);
uint32_t sl_window_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_bucket_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_log_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_subs_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_log_trim(const struct sluice_limit *, struct sl_counter *, sluice_ns);
sluice_ns sl_log_instant(const struct sluice_limit *, const struct sl_counter *, sluice_ns);
sluice_ns sl_bucket_instant(const struct sluice_limit *, const struct sl_counter *, sluice_ns);
bool sl_log_is_valid(const struct sluice_limit *, const struct sl_counter *);
bool sl_subs_is_valid(const struct sluice_limit *, const struct sl_counter *);

#endif
