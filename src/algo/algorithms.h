/* The algorithms, one a file: what each offers, below the switches of step.c and ledger.c that choose among them. What
 * a call asks for, and promises, stands where the choice is (step.h, ledger.h); here is which algorithm has it.
 * Algorithms include this and nothing above it. */
#ifndef SL_ALGORITHMS_H
#define SL_ALGORITHMS_H

#include "algo/state.h"

/* The block that a charge needs would have more entries than one may have. */
#define SL_BLOCK_TOO_LARGE UINT64_MAX

/* What is known of a counter that is gone: at `instant` it was charged for the last time, and held at most `cost`. */
struct sl_held {
	sluice_ns instant;
	uint64_t cost;
};
enum { SL_HELD_MAX = 8 };

/* A charge that was made at `instant` of `charged`, and is to have been of `actual` as is known at `known`. */
struct sl_correction {
	sluice_ns instant; /* above the counter's last charge it counts as that */
	sluice_ns known;   /* buckets: when it goes back, or becomes debt; others don't look at it. Of one that has ended
	                    * its end, else the counter's sl_step_instant() */
	uint32_t charged, actual;
	uint32_t debt;    /* as in struct sl_reservation */
	sluice_ns spread; /* sub-buckets, if not 0: goes back from the oldest of instant..spread - 1 on; decisions only */
};

/* Fills the numbers of a decision that all algorithms share: allowed when `cost` fits `room`. */
static inline void sl_decide_room(struct sluice_decision *decision, uint64_t capacity, uint64_t room, uint64_t cost) {
	*decision = (struct sluice_decision){.allowed = cost <= room || cost == 0,
	                                     .quota = capacity,
	                                     .remaining = (uint32_t)(room < UINT32_MAX ? room : UINT32_MAX)};
}

/* What of a cost held can have been: no more than the capacity. */
static inline uint64_t sl_held_cost(const struct sluice_limit *limit, const struct sl_held *held) {
	return held->cost < limit->derived[SL_CAPACITY] ? held->cost : limit->derived[SL_CAPACITY];
}

/* By how much the cost of held[i] is above that of the next, if there is a next. */
static inline uint64_t sl_held_above(const struct sluice_limit *limit, const struct sl_held *held, int count, int i) {
	uint64_t its = sl_held_cost(limit, &held[i]), next = i + 1 < count ? sl_held_cost(limit, &held[i + 1]) : 0;
	return its > next ? its - next : 0;
}

/* What was held in a seat, corrected: down at most to nothing, up at most by `room`. */
static inline uint64_t sl_corrected(const struct sl_correction *at, uint64_t held, uint64_t room) {
	uint64_t up = at->actual > at->charged ? at->actual - at->charged : 0;
	uint64_t down = at->actual < at->charged ? at->charged - at->actual : 0;
	return held - (down < held ? down : held) + (up < room ? up : room);
}

/* What of past charges counts at an instant: all from `full` on, and left / whole of those of old..full - 1. */
struct sl_reach {
	sluice_ns old, full;
	uint64_t left, whole;
};

/* The state of fixed-window and sliding-window, for hosts that can keep it in less: the instant of the last charge, the
 * count of its window, and of the one before. */
struct sl_window_counts {
	sluice_ns last;
	uint32_t cur, prev;
};

static inline struct sl_window_counts sl_window_counts(const struct sl_state *state) {
	return (struct sl_window_counts){state->w[0], (uint32_t)state->w[1], (uint32_t)(state->w[1] >> 32)};
}

static inline struct sl_state sl_window_state(struct sl_window_counts counts) {
	return (struct sl_state){.w = {counts.last, (uint64_t)counts.prev << 32 | counts.cur}};
}

/* fixed-window and sliding-window: window.c. */
void sl_fixed_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                   struct sluice_decision *);
void sl_window_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                    struct sluice_decision *);
bool sl_window_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_window_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_window_correct(const struct sluice_limit *, struct sl_counter *, const struct sl_correction *);
sluice_ns sl_window_instant(const struct sl_counter *, sluice_ns);
void sl_window_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);
struct sl_reach sl_window_reach(const struct sluice_limit *, sluice_ns);
sluice_ns sl_window_leaves(const struct sluice_limit *, sluice_ns);
/* Whether a counter that stood at `before`, and is at `now` as `reset_after` says, still ends when its last charge of
 * before made it end: that fell into the window of now. */
bool sl_window_keeps_end(const struct sluice_limit *, const struct sl_state *before, sluice_ns now,
                         sluice_ns reset_after);
void sl_window_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int);

/* The same on windows that are spread, of a rule that has its key's phase: spread.c. */
void sl_spread_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                    struct sluice_decision *);
bool sl_spread_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_spread_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_spread_correct(const struct sluice_limit *, struct sl_counter *, const struct sl_correction *);
struct sl_reach sl_spread_reach(const struct sluice_limit *, sluice_ns);
sluice_ns sl_spread_leaves(const struct sluice_limit *, sluice_ns);
void sl_spread_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);
void sl_spread_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int);

/* token-bucket and leaky-bucket: bucket.c. */
void sl_bucket_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                    struct sluice_decision *);
sluice_ns sl_bucket_instant(const struct sluice_limit *, const struct sl_counter *, sluice_ns);
void sl_bucket_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);
bool sl_bucket_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_bucket_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_bucket_correct(const struct sluice_limit *, struct sl_counter *, const struct sl_correction *);
void sl_bucket_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int);

/* The debt at `now`, in whole units, rounded down. */
uint32_t sl_bucket_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now);

/* The rate that a bucket drains by: state->rate, if that is known. By state->life that of the limit, where the lifetime
 * can't tell the two apart, or the least that it can be. Else that of the limit. */
uint32_t sl_bucket_rate(const struct sluice_limit *limit, const struct sl_state *state);

/* The lifetime of a bucket's state that was not charged just now, but refunded or corrected: sl_step_life() of others
 * and of charges. */
sluice_ns sl_bucket_life(const struct sluice_limit *limit, const struct sl_state *state);

/* sliding-log: log.c. sl_log_prepare() is for a ring that is as long as its block. */
void sl_log_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool, struct sluice_decision *);
void sl_log_prefetch(const struct sluice_limit *, const struct sl_counter *);
uint64_t sl_log_block_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t);
bool sl_log_prepare(struct sl_counter *);
void sl_log_write(struct sl_counter *, uint32_t, void *, uint64_t);
sluice_ns sl_log_instant(const struct sluice_limit *, const struct sl_counter *, sluice_ns);
struct sl_reach sl_log_reach(const struct sluice_limit *, sluice_ns);
bool sl_log_prepare_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t *);
bool sl_log_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_log_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_log_trim(const struct sluice_limit *, struct sl_counter *, sluice_ns);
uint64_t sl_log_correct_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t above);
bool sl_log_correct(const struct sluice_limit *, struct sl_counter *, const struct sl_correction *, uint32_t, void *,
                    uint64_t);
uint64_t sl_log_assume_bytes(const struct sluice_limit *, int);
void sl_log_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int, void *, uint64_t);
bool sl_log_is_valid(const struct sluice_limit *, const struct sl_counter *);

/* sl_log_used() says what of a log counts at an instant. After it, of its entries log.expired..log.count - 1,
 * sl_log_held() says how much was charged in the millisecond of `instant`, and in which entry first (in: a guess);
 * sl_log_leaves() when an entry is gone. Of all entries that are kept, expired or not, sl_log_first() says which is the
 * first of an instant or later, and sl_log_between() what first..last - 1 were charged. */
uint64_t sl_log_used(const struct sluice_limit *, struct sl_counter *, sluice_ns now);
uint32_t sl_log_held(const struct sl_counter *, sluice_ns instant, uint32_t *entry);
sluice_ns sl_log_leaves(const struct sl_counter *, uint32_t entry);
uint32_t sl_log_first(const struct sl_counter *, sluice_ns instant);
uint32_t sl_log_between(const struct sl_counter *, uint32_t first, uint32_t last);

/* sliding-buckets: subs.c. */
sluice_ns sl_subs_instant(const struct sl_counter *, sluice_ns);
void sl_subs_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);
void sl_log_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);
void sl_distinct_describe(const struct sluice_limit *, struct sl_counter *, sluice_ns, struct sluice_inspection *);

/* Adds one of the charges that a description tells of, the oldest first; beyond the room it only counts. */
static inline void sl_describe_charge(struct sluice_inspection *told, sluice_ns from, sluice_ns until, uint64_t cost) {
	if (cost == 0)
		return;
	if (told->charge_count < SLUICE_CHARGES_MAX)
		told->charges[told->charge_count++] = (struct sluice_charged){from, until, cost};
	told->charges_in_all++;
}
struct sl_reach sl_subs_reach(const struct sluice_limit *, sluice_ns);
sluice_ns sl_subs_leaves(const struct sluice_limit *, sluice_ns);
void sl_subs_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                  struct sluice_decision *);
void sl_subs_prefetch(const struct sluice_limit *, const struct sl_counter *);
uint64_t sl_subs_block_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t);
/* The longest block that charges within the quota ask for; and that of the widest cells, for any charge or
 * correction, and the only one that programs of before wide and narrow cells know. */
uint64_t sl_subs_most_bytes(const struct sluice_limit *);
uint64_t sl_subs_wide_bytes(const struct sluice_limit *);
/* Copies the cells of a counter into another block, no shorter one, which becomes counter->block. False: it has
 * none. */
bool sl_subs_move(const struct sluice_limit *, struct sl_counter *, void *, uint64_t);
bool sl_subs_prepare(struct sl_counter *);
void sl_subs_write(const struct sluice_limit *, struct sl_counter *, uint32_t, void *, uint64_t);
bool sl_subs_prepare_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_subs_refund(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
uint32_t sl_subs_count(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint32_t);
bool sl_subs_correct(const struct sluice_limit *, struct sl_counter *, const struct sl_correction *, uint32_t, void *);
uint64_t sl_subs_assume_bytes(const struct sluice_limit *, uint32_t);
void sl_subs_assume(const struct sluice_limit *, struct sl_counter *, const struct sl_held *, int, void *, uint64_t);
bool sl_subs_is_valid(const struct sluice_limit *, const struct sl_counter *);

/* concurrency: lease.c. What leases share with members is in seats.h. */
void sl_lease_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                   struct sluice_decision *);
uint64_t sl_lease_block_bytes(const struct sluice_limit *, const struct sl_counter *, uint32_t);
void sl_lease_write(const struct sluice_limit *, struct sl_counter *, uint32_t, void *, uint64_t);

/* Whether the lease counter->who is held at `now`; ends it, or lets it end T later, in one store of the block, without
 * prepare or write, whatever N is by now: also 0. Each returns whether it is held: if not, nothing changed. A renewed
 * counter's state is to be published after it, with the lifetime that sl_lease_step() at the same instant says. */
bool sl_lease_is_held(const struct sl_counter *counter, sluice_ns now);
bool sl_lease_release(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now);
bool sl_lease_renew(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now);

/* Who holds leases at `now`, in no order: fills at most `room`; returns how many there are. */
uint32_t sl_lease_list(const struct sl_counter *counter, sluice_ns now, struct sluice_holder *list, uint32_t room);

/* In which order holders are told, for qsort(): those that end first, then by id. */
int sl_lease_order(const void *one, const void *other);

/* The number of an id: 16 hex digits in lower case are that number, any other text is hashed to one. Never 0. */
uint64_t sl_id_number(struct sluice_bytes id);

/* distinct: distinct.c; and sl_step_prepare() of leases and members. */
void sl_distinct_step(const struct sluice_limit *, struct sl_counter *, sluice_ns, uint64_t, bool,
                      struct sluice_decision *);
uint64_t sl_distinct_block_bytes(const struct sluice_limit *, const struct sl_counter *);
void sl_distinct_write(const struct sluice_limit *, struct sl_counter *, void *, uint64_t);
bool sl_distinct_refund(struct sl_counter *, sluice_ns, uint32_t);
bool sl_members_prepare(const struct sluice_limit *, struct sl_counter *);

#endif
