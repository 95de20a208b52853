/* Windows that are spread: those of each key begin at a phase of its own, so that not all who wait for theirs come back
 * at :00. The phase is a part of the rule once a key has given it (sl_rule_key()), and of the counter's identity; so
 * whoever has only that, a replica or a dump, decides by the same windows.
 *
 * A window of phase p begins p after one that is aligned. That is an aligned window on a clock that is W - p ahead:
 *
 *   time       ..|.....p|...........|        | windows of this key
 *   its clock  .........|...........|        | aligned ones
 *
 * So the steps of window.c decide, on that clock: instants are put ahead on the way in and back on the way out, and
 * they stand as time in the counter, as everywhere. What is proved of aligned windows holds for these: no proof says
 * where the clock begins.
 *
 * I1  Only instants are moved; waits are the same on both clocks.
 * I2  A state of zeros is no state on either clock, and is left alone. */
#include "algo/algorithms.h"
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"

/* The rule of the aligned windows, on the clock that is ahead. */
struct ahead {
	struct sluice_limit limit;
	sluice_ns by;
};

static struct ahead ahead_of(const struct sluice_limit *limit) {
	struct ahead ahead = {*limit, limit->derived[SL_AHEAD_NS]};
	SL_ASSERT(sl_rule_spreads(limit) && !sl_rule_needs_key(limit) && ahead.by < limit->window_ns);
	ahead.limit.algorithm = (uint8_t)sl_rule_algorithm(limit);
	ahead.limit.burst = 0;
	return ahead;
}

/* Any bytes may stand in a state: the sum may wrap, and comes back as it was. */
static void put_ahead(const struct ahead *ahead, struct sl_counter *counter) {
	if (!sl_state_is_none(&counter->state))
		counter->state.w[0] += ahead->by;
}

static void put_back(const struct ahead *ahead, struct sl_counter *counter) {
	if (!sl_state_is_none(&counter->state))
		counter->state.w[0] -= ahead->by;
}

void sl_spread_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                    bool charge, struct sluice_decision *decision) {
	const struct ahead ahead = ahead_of(limit);
	put_ahead(&ahead, counter);
	if (ahead.limit.algorithm == SLUICE_FIXED_WINDOW)
		sl_fixed_step(&ahead.limit, counter, sl_ns_plus(now, ahead.by), cost, charge, decision);
	else
		sl_window_step(&ahead.limit, counter, sl_ns_plus(now, ahead.by), cost, charge, decision);
	put_back(&ahead, counter);
}

bool sl_spread_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct ahead ahead = ahead_of(limit);
	put_ahead(&ahead, counter);
	bool changed = sl_window_refund(&ahead.limit, counter, sl_ns_plus(now, ahead.by), cost);
	put_back(&ahead, counter);
	return changed;
}

uint32_t sl_spread_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct ahead ahead = ahead_of(limit);
	put_ahead(&ahead, counter);
	cost = sl_window_count(&ahead.limit, counter, sl_ns_plus(now, ahead.by), cost);
	put_back(&ahead, counter);
	return cost;
}

struct sl_reach sl_spread_reach(const struct sluice_limit *limit, sluice_ns t) {
	const struct ahead ahead = ahead_of(limit);
	struct sl_reach reach = sl_window_reach(&ahead.limit, sl_ns_plus(t, ahead.by));
	reach.old -= sl_min(reach.old, ahead.by);
	reach.full -= sl_min(reach.full, ahead.by);
	return reach;
}

sluice_ns sl_spread_leaves(const struct sluice_limit *limit, sluice_ns instant) {
	const struct ahead ahead = ahead_of(limit);
	sluice_ns leaves = sl_window_leaves(&ahead.limit, sl_ns_plus(instant, ahead.by));
	return leaves == UINT64_MAX ? leaves : leaves - ahead.by;
}

void sl_spread_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                        struct sluice_inspection *told) {
	const struct ahead ahead = ahead_of(limit);
	put_ahead(&ahead, counter);
	sl_window_describe(&ahead.limit, counter, sl_ns_plus(now, ahead.by), told);
	put_back(&ahead, counter);
	for (uint32_t i = 0; i < told->charge_count; i++) {
		told->charges[i].from_ns -= sl_min(told->charges[i].from_ns, ahead.by);
		told->charges[i].until_ns -= sl_min(told->charges[i].until_ns, ahead.by);
	}
}

bool sl_spread_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *at) {
	const struct ahead ahead = ahead_of(limit);
	struct sl_correction put = *at;
	put.instant = at->instant == 0 ? 0 : sl_ns_plus(at->instant, ahead.by); /* 0: it counts nowhere */
	put_ahead(&ahead, counter);
	bool changed = sl_window_correct(&ahead.limit, counter, &put);
	put_back(&ahead, counter);
	return changed;
}

void sl_spread_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count) {
	const struct ahead ahead = ahead_of(limit);
	struct sl_held put[SL_HELD_MAX];
	SL_ASSERT(count >= 1 && count <= SL_HELD_MAX);
	for (int i = 0; i < count; i++) {
		put[i] = held[i];
		put[i].instant = sl_ns_plus(held[i].instant, ahead.by);
	}
	sl_window_assume(&ahead.limit, counter, put, count);
	put_back(&ahead, counter);
}
