/* The one switch over the closed set of algorithms, and what holds for all of them: a quota of 0. */
#include "algo/step.h"
#include "algo/seats.h"
#include "base/assert.h"

const char *sluice_bound_name(sluice_bound bound) {
	static const char *const names[SLUICE_BOUNDS] = {"none", "limits", "room", "reservations", "holds", "queue", "key"};
	return (unsigned)bound < SLUICE_BOUNDS ? names[bound] : names[SLUICE_BOUND_NONE];
}

void sl_decide_unread(const struct sluice_item *item, bool costs, struct sluice_decision *decision) {
	uint64_t capacity = item->limit->derived[SL_CAPACITY];
	SL_ASSERT(item->bound < SLUICE_BOUNDS);
	sl_decide_room(decision, capacity, capacity, 0);
	if (item->bound != SLUICE_BOUND_NONE)
		sl_decide_beyond(decision, item->bound, costs);
}

bool sl_decide_blocked(const struct sluice_call *call) {
	bool blocked = false, costs = call->cost != 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		blocked = blocked || call->items[i].bound != SLUICE_BOUND_NONE;
		costs = costs || call->items[i].cost != 0;
	}
	for (uint32_t i = 0; i < call->item_count && blocked; i++) {
		sl_decide_unread(&call->items[i], costs, &call->each[i]);
		call->each[i].index = (int32_t)i;
	}
	return blocked;
}

/* A quota of 0 denies every cost above 0, for good, whatever a counter may hold from before it became 0. */
static void closed_step(uint64_t cost, struct sluice_decision *decision) {
	sl_decide_room(decision, 0, 0, cost);
	decision->retry_after_ns = decision->allowed ? 0 : SLUICE_NEVER;
}

/* Apart from the switch: there it would cost those that are in it an instruction. */
static __attribute__((noinline)) void other_step(const struct sluice_limit *limit, struct sl_counter *counter,
                                                 sluice_ns now, uint64_t cost, bool charge,
                                                 struct sluice_decision *decision) {
	if (sl_rule_spreads(limit))
		sl_spread_step(limit, counter, now, cost, charge, decision);
	else
		sl_decide_room(decision, UINT32_MAX, UINT32_MAX, cost);
}

static inline void choose(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                          bool charge, struct sluice_decision *decision) {
	if (limit->quota == 0 && limit->algorithm != SLUICE_UNLIMITED) {
		closed_step(cost, decision);
		counter->known = false;
		return;
	}
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
		sl_fixed_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_SLIDING_WINDOW:
		sl_window_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_SLIDING_BUCKETS:
		sl_subs_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_SLIDING_LOG:
		sl_log_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		sl_bucket_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_CONCURRENCY:
		sl_lease_step(limit, counter, now, cost, charge, decision);
		return;
	case SLUICE_DISTINCT:
		sl_distinct_step(limit, counter, now, cost, charge, decision);
		return;
	default:
		other_step(limit, counter, now, cost, charge, decision);
		return;
	}
}

void sl_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost, bool charge,
             struct sluice_decision *decision) {
	choose(limit, counter, now, cost, charge, decision);
	SL_DEBUG_ASSERT(decision->quota == limit->derived[SL_CAPACITY] || limit->quota == 0);
	SL_DEBUG_ASSERT(decision->remaining <= decision->quota);
	SL_DEBUG_ASSERT(decision->allowed || cost != 0);
	SL_DEBUG_ASSERT(decision->allowed == (decision->retry_after_ns == 0));
	SL_DEBUG_ASSERT(decision->delay_ns == 0 || sl_rule_has(limit, SL_DELAYS));
}

void sl_step_prefetch(const struct sluice_limit *limit, const struct sl_counter *counter) {
	__builtin_prefetch(counter->block, 1);
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		sl_log_prefetch(limit, counter);
	else if (limit->algorithm == SLUICE_SLIDING_BUCKETS)
		sl_subs_prefetch(limit, counter);
}

uint64_t sl_step_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost) {
	switch (limit->algorithm) {
	case SLUICE_SLIDING_LOG:
		return sl_log_block_bytes(limit, counter, cost);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_block_bytes(limit, counter, cost);
	case SLUICE_CONCURRENCY:
		return sl_lease_block_bytes(limit, counter, cost);
	case SLUICE_DISTINCT:
		return sl_distinct_block_bytes(limit, counter);
	default:
		return 0;
	}
}

void sl_step_write(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost,
                   void *block, uint64_t block_bytes) {
	(void)now; /* sl_step() has raised it, and left it in the counter */
	SL_ASSERT(sl_rule_has(limit, SL_HAS_BLOCK) && (block == NULL || block_bytes != 0));
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		sl_log_write(counter, cost, block, block_bytes);
	else if (limit->algorithm == SLUICE_SLIDING_BUCKETS)
		sl_subs_write(limit, counter, cost, block, block_bytes);
	else if (limit->algorithm == SLUICE_CONCURRENCY)
		sl_lease_write(limit, counter, cost, block, block_bytes);
	else
		sl_distinct_write(limit, counter, block, block_bytes);
}

bool sl_step_prepare_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                            uint32_t *cost) {
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return sl_log_prepare_refund(limit, counter, now, cost);
	return limit->algorithm == SLUICE_SLIDING_BUCKETS && sl_subs_prepare_refund(limit, counter, now, *cost);
}

bool sl_step_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		return sl_window_refund(limit, counter, now, cost);
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		return sl_spread_refund(limit, counter, now, cost);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_refund(limit, counter, now, cost);
	case SLUICE_SLIDING_LOG:
		return sl_log_refund(limit, counter, now, cost);
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		return sl_bucket_refund(limit, counter, now, cost);
	case SLUICE_DISTINCT:
		return sl_distinct_refund(counter, now, cost);
	default:
		return false;
	}
}

sluice_ns sl_step_instant(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	switch (limit->algorithm) {
	case SLUICE_SLIDING_LOG:
		return sl_log_instant(limit, counter, now);
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		return sl_bucket_instant(limit, counter, now);
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		return sl_window_instant(counter, now);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_instant(counter, now);
	case SLUICE_CONCURRENCY:
	case SLUICE_DISTINCT:
		return sl_seats_instant(counter, now);
	default:
		return now;
	}
}

static struct sl_reach reach_of(const struct sluice_limit *limit, sluice_ns t) {
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		return sl_window_reach(limit, t);
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		return sl_spread_reach(limit, t);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_reach(limit, t);
	case SLUICE_SLIDING_LOG:
		return sl_log_reach(limit, t);
	default:
		return (struct sl_reach){.whole = 1};
	}
}

struct sl_reach sl_step_reach(const struct sluice_limit *limit, sluice_ns t) {
	struct sl_reach reach = reach_of(limit, t);
	SL_ASSERT(reach.old <= reach.full && reach.full <= t + 1 && reach.left <= reach.whole && reach.whole != 0);
	return reach;
}

sluice_ns sl_step_leaves(const struct sluice_limit *limit, sluice_ns instant) {
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		return sl_window_leaves(limit, instant);
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		return sl_spread_leaves(limit, instant);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_leaves(limit, instant);
	case SLUICE_SLIDING_LOG:
		return sl_ns_plus(instant, limit->window_ns + SL_MS_NS);
	default:
		return UINT64_MAX;
	}
}

bool sl_step_goes_at_once(const struct sluice_limit *limit) {
	return sl_rule_algorithm(limit) == SLUICE_FIXED_WINDOW;
}

uint64_t sl_step_most(const struct sluice_limit *limit) {
	const uint64_t quota = limit->quota;
	if (quota == 0 && sl_rule_has(limit, SL_HAS_COUNTER))
		return 0;
	switch (sl_rule_algorithm(limit)) {
	case SLUICE_FIXED_WINDOW:
		/* a stretch as long as the longest month touches three */
		return limit->calendar != SLUICE_CALENDAR_NONE ? 3 * quota : 2 * quota;
	case SLUICE_SLIDING_WINDOW:
		return 2 * quota - 1;
	case SLUICE_SLIDING_BUCKETS:
		return limit->edge == SLUICE_EDGE_COUNT ? quota : 2 * quota - (limit->edge == SLUICE_EDGE_WEIGHTED);
	case SLUICE_SLIDING_LOG:
	case SLUICE_CONCURRENCY:
		return quota;
	case SLUICE_TOKEN_BUCKET:
		return limit->burst + quota - 1; /* less than B + Q */
	case SLUICE_LEAKY_BUCKET:
		return limit->burst + quota; /* less than N + 1 + Q */
	case SLUICE_DISTINCT:
		return quota <= SL_EXACT_MEMBERS ? quota : UINT64_MAX;
	default:
		return UINT64_MAX;
	}
}

void sl_step_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                      struct sluice_inspection *told) {
	if (sl_state_is_none(&counter->state))
		return;
	told->last_ns = sl_step_instant(limit, counter, 0);
	if (sl_rule_spreads(limit)) {
		sl_spread_describe(limit, counter, now, told);
		return;
	}
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		sl_window_describe(limit, counter, now, told);
		break;
	case SLUICE_SLIDING_BUCKETS:
		sl_subs_describe(limit, counter, now, told);
		break;
	case SLUICE_SLIDING_LOG:
		sl_log_describe(limit, counter, now, told);
		break;
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		sl_bucket_describe(limit, counter, now, told);
		break;
	case SLUICE_CONCURRENCY:
	case SLUICE_DISTINCT:
		sl_seats_describe(limit, counter, now, told);
		if (limit->algorithm == SLUICE_DISTINCT)
			sl_distinct_describe(limit, counter, now, told);
		break;
	default:
		break;
	}
	SL_ASSERT(told->charge_count <= told->charges_in_all && told->charge_count <= SLUICE_CHARGES_MAX);
}

uint32_t sl_step_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	if (limit->quota == 0 || cost == 0)
		return 0;
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		return sl_window_count(limit, counter, now, cost);
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		return sl_spread_count(limit, counter, now, cost);
	case SLUICE_SLIDING_BUCKETS:
		return sl_subs_count(limit, counter, now, cost);
	case SLUICE_SLIDING_LOG:
		return sl_log_count(limit, counter, now, cost);
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		return sl_bucket_count(limit, counter, now, cost);
	default:
		return 0;
	}
}

bool sl_step_trim(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	return limit->algorithm == SLUICE_SLIDING_LOG && sl_log_trim(limit, counter, now);
}

void sl_step_counted(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost,
                     struct sluice_decision *decision) {
	struct sluice_decision before = *decision;
	sl_step(limit, counter, now, before.allowed ? 0 : cost, false, decision);
	SL_ASSERT(sl_rule_has(limit, SL_COUNTS_DENIED) || !sl_rule_has(limit, SL_HAS_COUNTER));
	decision->allowed = before.allowed;
	decision->delay_ns = before.delay_ns;
	decision->index = before.index;
	decision->bound = before.bound;
}

uint64_t sl_step_assume_bytes(const struct sluice_limit *limit, int count, uint32_t cost) {
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return sl_log_assume_bytes(limit, count);
	if (sl_rule_has(limit, SL_HAS_SEATS))
		return sl_seats_assume_bytes(count);
	return limit->algorithm == SLUICE_SLIDING_BUCKETS ? sl_subs_assume_bytes(limit, cost) : 0;
}

void sl_step_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held, int count,
                    void *block, uint64_t block_bytes) {
	static const struct sl_held nothing = {0, 0};
	SL_ASSERT(count >= 0 && count <= SL_HELD_MAX && block_bytes >= sl_step_assume_bytes(limit, count, 0));
	if (count == 0) {
		held = &nothing;
		count = 1;
	}
	*counter = (struct sl_counter){.block = NULL};
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		sl_window_assume(limit, counter, held, count);
		return;
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		sl_spread_assume(limit, counter, held, count);
		return;
	case SLUICE_SLIDING_BUCKETS:
		sl_subs_assume(limit, counter, held, count, block, block_bytes);
		return;
	case SLUICE_SLIDING_LOG:
		sl_log_assume(limit, counter, held, count, block, block_bytes);
		return;
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		sl_bucket_assume(limit, counter, held, count);
		return;
	case SLUICE_CONCURRENCY:
	case SLUICE_DISTINCT:
		sl_seats_assume(limit, counter, held, count, block, block_bytes);
		return;
	default:
		return;
	}
}

bool sl_counter_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter) {
	if (!sl_rule_is_valid(limit))
		return false;
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return sl_log_is_valid(limit, counter);
	if (sl_rule_has(limit, SL_HAS_SEATS))
		return sl_seats_are_valid(limit, counter);
	return limit->algorithm != SLUICE_SLIDING_BUCKETS || sl_subs_is_valid(limit, counter);
}
