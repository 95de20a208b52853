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
 * An example: `token-bucket 2/1s burst 4`, empty of debt, is charged 3 at 0 s. C = 4, and 2 units drain in a second:
 *
 *     debt
 *     4 = C |- - - - - - - - - - - - - - - - - -   as full of debt as it can be: no tokens
 *         3 |\
 *           | \ . 2.5 at 0.25 s: 4 - ceil(2.5) = 1 token remains
 *         2 |  \ . . at 0.5 s a cost of 2 fits: 2 + 2 <= 4
 *         1 |    \
 *         0 +------\------------------------- t
 *           0      1.5 s: as if it had never been charged
 *
 * At 0.25 s a cost of 2 is denied, for 2.5 + 2 > 4: it is to be asked again when the debt has come down to C - 2 = 2,
 * (2.5 - 2) / 2 = 0.25 s later; and all is as new after 2.5 / 2 = 1.25 s. `leaky-bucket 2/1s queue 3` has the same
 * C = 3 + 1 and the same debts: there a cost of 1 is admitted at 0.25 s and leaves when what is ahead of it has
 * drained, after 2.5 / 2 = 1.25 s.
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
 * Rate: what is owed drains at the rate of the limit that charged it last (state->rate), whoever asks; only from a
 * charge by another on does the rest drain at that one's. Q above is that rate, but for the delay of a charge, which
 * leaves at the new one. Debt is in 1/W_ticks of a unit whatever the rate, and W belongs to the counter's identity, so
 * a debt means the same to all that ask.
 *
 *     debt |\                  charged at rate r: a line down to nothing. The limit is lowered to q; a denial, a peek
 *          | \ r               and a refund go by that line. Only a charge turns the rest to q.
 *          |  \__
 *          |     ``--..__ q
 *          +----------------- t
 *
 * A store has 16 bytes and a lifetime of 8 bits (base/life.h) for this, so there the rate is told by how long the debt
 * was to live. It is the limit's own if that would have led to the same code: then all is exact, but for a rate within
 * a quarter of it, which is taken for it. Else it is the least of the code: late by a quarter, or by the 2 units and
 * 1 ms that are added to every lifetime.
 *
 * Worst case in any half-open window: token-bucket below B + Q, leaky-bucket below N + 1 + Q admitted; departures of
 * unit cost are W/Q apart, so Q. Source: the virtual scheduling form of GCRA (ITU-T I.371), with the debt kept in place
 * of the theoretical arrival time, so that quota and burst can change under it. */
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/life.h"
#include "base/math.h"

struct bucket {
	uint64_t tick;    /* the instant, in ticks; never before the last charge */
	sluice_ns passed; /* ns of the present tick that have passed */
	sl_u128 debt;     /* at that instant */
	uint32_t rate;    /* units of cost that drain in a window */
	sl_u128 drained;  /* what has drained since the last charge; for refunds */
};

static inline unsigned debt_bits(uint64_t tick_ns) {
	SL_DEBUG_ASSERT(tick_ns == 1 || tick_ns == 1000 || tick_ns == SL_MS_NS);
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
	SL_DEBUG_ASSERT(stored_debt(state, bits) == debt);
	SL_DEBUG_ASSERT(tick >= UINT64_MAX / tick_ns - 1 || stored_tick(state, tick_ns, bits) == tick);
}

/* ---- rates that the host tells by lifetimes ---------------------------------------------------------------------- */

/* How many ticks a debt lives that drains at `rate` from the instant of its charge; `ns`, for as long as that is. A
 * charge knows how much of its tick has passed (sl_step_life()), and may say up to a tick less. */
static uint64_t ticks_of(sl_u128 debt, uint64_t rate) {
	return debt == 0 || rate == 0 ? 0 : sl_div_ceil(debt, rate);
}

static sluice_ns least_life(uint64_t ticks, uint64_t tick_ns) {
	sl_u128 ns = sl_mul(ticks, tick_ns) + SL_MS_NS - (tick_ns - 1);
	return ns < SLUICE_NEVER ? (sluice_ns)ns : SLUICE_NEVER - 1;
}

/* The most ticks that a debt of this code can live. */
static uint64_t most_ticks(uint64_t life_code, uint64_t tick_ns) {
	sluice_ns longest = sl_life_longest(life_code);
	return sl_max((longest - SL_MS_NS + (tick_ns - 1)) / tick_ns, 1);
}

/* By the lifetime that the state was published with. */
static __attribute__((noinline)) uint32_t told_rate(const struct sluice_limit *limit, const struct sl_state *state) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], life_code = state->life - 1;
	sl_u128 debt = stored_debt(state, debt_bits(tick_ns));
	sluice_ns least = least_life(ticks_of(debt, limit->quota), tick_ns);
	sluice_ns most = least + sl_min(tick_ns - 1, SLUICE_NEVER - 1 - least);
	if (debt == 0 || (limit->quota != 0 && (sl_life_code(least) == life_code || sl_life_code(most) == life_code)))
		return limit->quota;
	return (uint32_t)sl_min(sl_div_ceil(debt, most_ticks(life_code, tick_ns)), UINT32_MAX);
}

static inline uint32_t rate_of(const struct sluice_limit *limit, const struct sl_state *state) {
	if (sl_identity_space(sl_identity_of(limit)) != SL_SPACE_POLICY)
		return limit->quota;
	if (state->life != 0)
		return told_rate(limit, state);
	return state->rate != 0 ? state->rate : limit->quota;
}

uint32_t sl_bucket_rate(const struct sluice_limit *limit, const struct sl_state *state) {
	return rate_of(limit, state);
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

static inline struct bucket bucket_at(const struct sluice_limit *limit, const struct sl_state *state, sluice_ns now) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], last, tick = to_ticks(now, tick_ns);
	unsigned bits = debt_bits(tick_ns);
	sl_u128 debt = stored_debt(state, bits);
	struct bucket b;
	last = stored_tick(state, tick_ns, bits);
	b.passed = tick >= last ? now - tick * tick_ns : 0;
	b.tick = sl_max(tick, last);
	b.rate = rate_of(limit, state);
	b.drained = sl_mul(b.rate, b.tick - last);
	b.debt = debt > b.drained ? debt - b.drained : 0;
	SL_DEBUG_ASSERT(b.tick >= last && b.passed < tick_ns && b.debt <= debt);
	return b;
}

/* The wait until a denied cost <= C is admitted. */
static sluice_ns bucket_retry(const struct sluice_limit *limit, const struct bucket *b, uint64_t cost) {
	sl_u128 room = sl_mul(limit->derived[SL_CAPACITY] - cost, limit->derived[SL_WINDOW_TICKS]);
	SL_DEBUG_ASSERT(b->debt > room);
	SL_ASSERT(cost <= limit->derived[SL_CAPACITY] && b->rate != 0);
	return sl_wait(sl_div_ceil(b->debt - room, b->rate), limit->derived[SL_TICK_NS], b->passed);
}

static sluice_ns bucket_delay(const struct sluice_limit *limit, const struct bucket *b, uint64_t cost) {
	sl_u128 ahead = b->debt + sl_mul(cost - 1, limit->derived[SL_WINDOW_TICKS]);
	sl_u128 owed = ahead * limit->derived[SL_TICK_NS], drained = sl_mul(b->rate, b->passed); /* < 2^93: 2^73, a tick */
	SL_ASSERT(cost != 0 && b->rate != 0);
	/* what this tick has drained goes first: a quotient that does not fit stands for any that is longer */
	return owed > drained ? sl_wait(sl_div_ceil(owed - drained, b->rate), 1, 0) : 0;
}

void sl_bucket_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                    bool charge, struct sluice_decision *decision) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t capacity = limit->derived[SL_CAPACITY], window = limit->derived[SL_WINDOW_TICKS], used = 0, room;
	if (b.debt != 0)
		used = sl_div_ceil(b.debt, window);
	else
		b.rate = limit->quota; /* nothing drains: it is as good as none */
	room = capacity > used ? capacity - used : 0;
	sl_decide_room(decision, capacity, room, cost);
	if (charge)
		b.rate = decision->allowed && cost != 0 ? limit->quota : b.rate;
	if (!decision->allowed) {
		decision->retry_after_ns = cost > capacity ? SLUICE_NEVER : bucket_retry(limit, &b, cost);
	} else if (cost != 0) {
		if (sl_rule_has(limit, SL_DELAYS))
			decision->delay_ns = bucket_delay(limit, &b, cost);
		if (charge) {
			b.debt += sl_mul(cost, window);
			SL_DEBUG_ASSERT(b.debt <= sl_mul(capacity, window));
			store(&counter->state, b.tick, b.debt, limit->derived[SL_TICK_NS]);
			counter->state.rate = b.rate;
			counter->state.life = 0;
			decision->remaining = (uint32_t)sl_min(room - cost, UINT32_MAX);
		}
	}
	if (b.debt != 0)
		decision->reset_after_ns = sl_wait(sl_div_ceil(b.debt, b.rate), limit->derived[SL_TICK_NS], b.passed);
}

/* One debt: from the last charge on, until it has drained. */
void sl_bucket_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                        struct sluice_inspection *told) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t tick_ns = limit->derived[SL_TICK_NS];
	if (b.debt == 0 || b.rate == 0)
		return;
	told->used = sl_div_ceil(b.debt, limit->derived[SL_WINDOW_TICKS]);
	sl_describe_charge(told, told->last_ns,
	                   sl_ns_plus(b.tick * tick_ns + b.passed, sl_wait(sl_div_ceil(b.debt, b.rate), tick_ns, b.passed)),
	                   told->used);
}

/* ---- giving back, correcting ------------------------------------------------------------------------------------- */

/* A rate that was read out of a lifetime is the least of a quarter: what is told on is near its middle, else it would
 * become less with each refund. */
sluice_ns sl_bucket_life(const struct sluice_limit *limit, const struct sl_state *state) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], rate = rate_of(limit, state);
	if (state->life != 0)
		return sl_life_longest(state->life - 1);
	rate += rate != limit->quota ? rate / 8 : 0;
	return least_life(ticks_of(stored_debt(state, debt_bits(tick_ns)), rate), tick_ns);
}

/* Writes what is owed at a tick, to drain as it did: once read, a rate is not read again. */
static void store_line(const struct sluice_limit *limit, struct sl_state *state, uint64_t tick, sl_u128 debt,
                       uint32_t rate) {
	store(state, tick, debt, limit->derived[SL_TICK_NS]);
	if (state->life != 0)
		state->rate = rate;
	state->life = 0;
}

/* Towards empty of debt, at most the debt of now; what drained since the last charge stays drained. */
bool sl_bucket_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	struct bucket b = bucket_at(limit, &counter->state, now);
	uint64_t tick_ns = limit->derived[SL_TICK_NS];
	unsigned bits = debt_bits(tick_ns);
	sl_u128 take = sl_mul(cost, limit->derived[SL_WINDOW_TICKS]);
	take = take < b.debt ? take : b.debt;
	SL_ASSERT(take <= stored_debt(&counter->state, bits));
	if (take != 0)
		store_line(limit, &counter->state, stored_tick(&counter->state, tick_ns, bits),
		           stored_debt(&counter->state, bits) - take, b.rate);
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
	SL_ASSERT(limit->quota != 0 && debt <= empty);
	store(&counter->state, b.tick, debt, limit->derived[SL_TICK_NS]);
	counter->state.rate = limit->quota;
	counter->state.life = 0;
	return cost;
}

/* What was too much goes back as a refund does, but only what of it has not drained: the debt after the charge, less
 * what drained since. What was too little is debt from when it is known. */
bool sl_bucket_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *at) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], window = limit->derived[SL_WINDOW_TICKS];
	unsigned bits = debt_bits(tick_ns);
	struct bucket b = bucket_at(limit, &counter->state, at->known);
	struct sl_state before = counter->state;
	if (at->actual > at->charged) {
		sl_u128 most = ((sl_u128)1 << bits << 64) - 1, debt = b.debt + sl_mul(at->actual - at->charged, window);
		store_line(limit, &counter->state, b.tick, debt < most ? debt : most, b.rate);
	} else {
		uint64_t since = b.tick - sl_min(b.tick, to_ticks(at->instant, tick_ns));
		sl_u128 owed = sl_mul(at->debt, window), drained = sl_mul(b.rate, since);
		sl_u128 take = sl_mul(at->charged - at->actual, window), left = owed > drained ? owed - drained : 0;
		take = take < left ? take : left;
		take = take < b.debt ? take : b.debt;
		SL_ASSERT(take <= stored_debt(&before, bits));
		if (take != 0)
			store_line(limit, &counter->state, stored_tick(&before, tick_ns, bits), stored_debt(&before, bits) - take,
			           b.rate);
	}
	return counter->state.w[0] != before.w[0] || counter->state.w[1] != before.w[1];
}

uint32_t sl_ledger_left(const struct sluice_limit *limit, uint32_t rate, const struct sl_reservation *reservation,
                        sluice_ns now) {
	uint64_t tick_ns = limit->derived[SL_TICK_NS], from = to_ticks(reservation->instant, tick_ns);
	uint64_t t = to_ticks(now, tick_ns);
	sl_u128 owed = sl_mul(reservation->debt, limit->derived[SL_WINDOW_TICKS]);
	sl_u128 drained = sl_mul(rate, t - sl_min(t, from));
	return drained < owed ? (uint32_t)sl_div(owed - drained, limit->derived[SL_WINDOW_TICKS]) : 0;
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
		SL_ASSERT(i == 0 || held[i].instant >= held[i - 1].instant);
		store(&counter->state, b.tick, debt > b.debt ? debt : b.debt, limit->derived[SL_TICK_NS]);
	}
}
