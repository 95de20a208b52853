/* token-bucket and leaky-bucket: one debt that drains at the exact rational rate Q / W.
 *
 * Debt is what has been taken and not yet won back. A token-bucket of burst B has B - debt tokens; a leaky-bucket's
 * backlog is the debt, and it holds at most N + 1. With capacity C = B or N + 1 both admit when debt + c <= C.
 *
 * Units: time in ticks (1 ns, 1 us or 1 ms, rule.c), debt in 1/W_ticks of a unit of cost. In one tick exactly Q of
 * those drain, so nothing is ever rounded and refill has no granularity: d(t) = max(0, d - Q * (t - last)).
 *
 *   remaining    C - ceil(d / W)               admits c when c <= that
 *   retry        ceil((d + c W - C W) / Q)     ticks; reset: ceil(d / Q)
 *   delay        ceil((d + (c - 1) W) / Q)     leaky-bucket: the request leaves when its last unit may
 *
 * Ticks are floor(t / tick) on both sides, so that elapsed times add up without drift.
 *
 * State, 16 bytes. Debt needs up to log2(2^32 * W_ticks) < 73 bits; the last instant is a multiple of the tick, so its
 * low bits carry the rest:
 *   tick 1 ns   w[0] = last ns                               w[1] = debt
 *   tick 1 us   w[0] = last ns cut to 2^9,  debt >> 64       w[1] = debt, low 64 bits
 *   tick 1 ms   w[0] = last ns cut to 2^19, debt >> 64       w[1] = debt, low 64 bits
 * 2^9 < 1000 and 2^19 < 10^6, so rounding up to the tick gives the instant back.
 *
 * Whatever bytes a state holds, its debt fits where it came from, and an admitted charge leaves at most C W of it. More
 * than that is debt by a correction (ledger.h), up to what a state can hold: at least 2^32 units of cost.
 *
 * Worst case in any half-open window: token-bucket below B + Q, leaky-bucket below N + 1 + Q admitted; departures of
 * unit cost are W/Q apart, so Q. Source: the virtual scheduling form of GCRA (ITU-T I.371), with the debt kept in place
 * of the theoretical arrival time, so that quota and burst can change under it. */
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"

struct bucket {
	uint64_t tick;    /* the instant, in ticks; never before the last charge */
	sluice_ns passed; /* ns of the present tick that have passed */
	sl_u128 debt;     /* at that instant */
	sl_u128 drained;  /* what has drained since the last charge; for refunds */
};

static inline unsigned debt_bits(uint64_t tick_ns) {
	return tick_ns == 1 ? 0 : tick_ns == 1000 ? 9 : SL_COARSE_SHIFT;
}

/* Constants, so that each division becomes a multiplication. */
static inline uint64_t to_ticks(sluice_ns ns, uint64_t tick_ns) {
	return tick_ns == 1 ? ns : tick_ns == 1000 ? ns / 1000 : ns / SL_MS_NS;
}

static inline sl_u128 stored_debt(const struct sl_state *state, unsigned bits) {
	return (sl_u128)(state->w[0] & (((uint64_t)1 << bits) - 1)) << 64 | state->w[1];
}

static inline uint64_t stored_tick(const struct sl_state *state, uint64_t tick_ns, unsigned bits) {
	sluice_ns cut = state->w[0] >> bits << bits;
	return to_ticks(cut + (tick_ns - 1), tick_ns);
}

static inline void store(struct sl_state *state, uint64_t tick, sl_u128 debt, uint64_t tick_ns) {
	unsigned bits = debt_bits(tick_ns);
	SL_ASSERT(debt >> 64 >> bits == 0);
	state->w[0] = (tick * tick_ns) >> bits << bits | (uint64_t)(debt >> 64);
	state->w[1] = (uint64_t)debt;
}

static inline struct bucket bucket_at(const struct sluice_limit *limit, const struct sl_state *state, sluice_ns now) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], last, tick = to_ticks(now, tick_ns);
	unsigned bits = debt_bits(tick_ns);
	sl_u128 debt = stored_debt(state, bits);
	struct bucket b;
	last = stored_tick(state, tick_ns, bits);
	b.passed = tick >= last ? now - tick * tick_ns : 0;
	b.tick = sl_max(tick, last);
	b.drained = sl_mul(limit->quota, b.tick - last);
	b.debt = debt > b.drained ? debt - b.drained : 0;
	return b;
}

/* The wait until a denied cost <= C is admitted. */
static sluice_ns bucket_retry(const struct sluice_limit *limit, const struct bucket *b, uint64_t cost) {
	sl_u128 room = sl_mul(limit->derived[SL_CAPACITY] - cost, limit->derived[SL_WINDOW_TICKS]);
	SL_DEBUG_ASSERT(b->debt > room);
	return sl_wait(sl_div_ceil(b->debt - room, limit->quota), limit->derived[SL_TICK_NS], b->passed);
}

static sluice_ns bucket_delay(const struct sluice_limit *limit, const struct bucket *b, uint64_t cost) {
	sl_u128 ahead = b->debt + sl_mul(cost - 1, limit->derived[SL_WINDOW_TICKS]);
	/* < 2^73 debts times a tick of < 2^20 ns */
	return sl_wait(sl_div_ceil(ahead * limit->derived[SL_TICK_NS], limit->quota), 1, b->passed);
}

void sl_bucket_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                    bool charge, struct sluice_decision *decision) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t capacity = limit->derived[SL_CAPACITY], window = limit->derived[SL_WINDOW_TICKS], used = 0, room;
	if (b.debt != 0)
		used = sl_div_ceil(b.debt, window);
	room = capacity > used ? capacity - used : 0;
	sl_decide_room(decision, capacity, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > capacity ? SLUICE_NEVER : bucket_retry(limit, &b, cost);
	else if (limit->algorithm == SLUICE_LEAKY_BUCKET && cost != 0)
		decision->delay_ns = bucket_delay(limit, &b, cost);
	if (charge && decision->allowed && cost != 0) {
		b.debt += sl_mul(cost, window);
		store(&counter->state, b.tick, b.debt, limit->derived[SL_TICK_NS]);
		decision->remaining = (uint32_t)sl_min(room - cost, UINT32_MAX);
	}
	if (b.debt != 0)
		decision->reset_after_ns = sl_wait(sl_div_ceil(b.debt, limit->quota), limit->derived[SL_TICK_NS], b.passed);
}

/* Towards empty of debt, at most the debt of now; what drained since the last charge stays drained. */
bool sl_bucket_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t tick_ns = limit->derived[SL_TICK_NS];
	unsigned bits = debt_bits(tick_ns);
	sl_u128 take = sl_mul(cost, limit->derived[SL_WINDOW_TICKS]);
	take = take < b.debt ? take : b.debt;
	store(&counter->state, stored_tick(&counter->state, tick_ns, bits), stored_debt(&counter->state, bits) - take,
	      tick_ns);
	return take != 0;
}

sluice_ns sl_bucket_instant(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], last = stored_tick(&counter->state, tick_ns, debt_bits(tick_ns));
	return to_ticks(now, tick_ns) >= last ? now : last * tick_ns;
}

/* Down to empty, and no further; but debt that goes further already stays. */
uint32_t sl_bucket_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t window = limit->derived[SL_WINDOW_TICKS];
	sl_u128 empty = sl_mul(limit->derived[SL_CAPACITY], window), debt = b.debt + sl_mul(cost, window);
	debt = debt < empty ? debt : empty;
	if (debt <= b.debt)
		return 0;
	store(&counter->state, b.tick, debt, limit->derived[SL_TICK_NS]);
	return cost;
}

/* What was too much goes back as a refund does, but only what of it has not drained: the debt behind the charge, less
 * what drained since. What was too little is debt from when it is known. */
bool sl_bucket_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *at) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], window = limit->derived[SL_WINDOW_TICKS];
	unsigned bits = debt_bits(tick_ns);
	struct bucket b = bucket_at(limit, &counter->state, at->known);
	struct sl_state before = counter->state;
	if (at->actual > at->charged) {
		sl_u128 most = ((sl_u128)1 << bits << 64) - 1, debt = b.debt + sl_mul(at->actual - at->charged, window);
		store(&counter->state, b.tick, debt < most ? debt : most, tick_ns);
	} else {
		uint64_t since = b.tick - sl_min(b.tick, to_ticks(at->instant, tick_ns));
		sl_u128 behind = sl_mul(at->debt, window), drained = sl_mul(limit->quota, since);
		sl_u128 take = sl_mul(at->charged - at->actual, window), left = behind > drained ? behind - drained : 0;
		take = take < left ? take : left;
		take = take < b.debt ? take : b.debt;
		store(&counter->state, stored_tick(&before, tick_ns, bits), stored_debt(&before, bits) - take, tick_ns);
	}
	return counter->state.w[0] != before.w[0] || counter->state.w[1] != before.w[1];
}

uint32_t sl_bucket_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	return (uint32_t)sl_min(sl_div(b.debt, limit->derived[SL_WINDOW_TICKS]), UINT32_MAX);
}

/* Debts drain alike, so the greatest at each instant stays the greatest. */
void sl_bucket_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count) {
	for (int i = 0; i < count; i++) {
		struct bucket b = bucket_at(limit, &counter->state, held[i].instant);
		sl_u128 debt = sl_mul(sl_held_cost(limit, &held[i]), limit->derived[SL_WINDOW_TICKS]);
		store(&counter->state, b.tick, debt > b.debt ? debt : b.debt, limit->derived[SL_TICK_NS]);
	}
}
