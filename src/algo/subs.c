/* sliding-buckets: the window cut into n = W / P sub-buckets of cost, the newest of which is still filling.
 *
 * With b = floor(t / P), the sub-buckets b-n+1..b ("full") always count; what becomes of b-n, which the window's edge
 * cuts through ("old"), is the choice of edge:
 *
 *   count     full + old + c <= Q                             never more than Q in any window; gives back late, by < P
 *   drop      full + c <= Q                                   up to 2Q: old's cost is forgotten up to P too early
 *   weighted  full P + old (P - t mod P) + c P <= Q P         up to 2Q - 1, like sliding-window, of which it is the
 *                                                             refinement (n = 1 would be that very rule)
 *
 * Source: J. Carlson's sub-bucketed hash, whose window is `drop`; count is what closes its hole.
 *
 * State: w[0] = instant of the last charge, ns; w[1] = total of the n newest sub-buckets at that instant << 32 |
 * host's. Block: u32 cells[n + 1], sub-bucket j in cells[j mod (n + 1)]. The cells of sub-buckets after the last
 * charge's hold leavings until the next charge clears them; cell() reads those as 0.
 *
 * I1  total <= 2^32 - 1: under every edge an admitted charge leaves full <= Q.
 * I2  the edge is no part of the state: n + 1 cells serve all three. */
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"

struct subs {
	const struct sluice_limit *limit;
	const uint32_t *cells;
	uint64_t n, last_b, b; /* sub-buckets of the last charge and of t */
	sluice_ns t, r;        /* the instant, and how far into b it is */
	uint64_t full, old;
};

/* The cost in sub-bucket j: nothing outside the n + 1 up to the last charge's. */
static inline uint64_t cell(const struct subs *s, uint64_t j) {
	if (s->cells == NULL || j > s->last_b || s->last_b - j > s->n)
		return 0;
	return s->cells[j % (s->n + 1)];
}

/* Whether sub-bucket b - n exists: near the epoch there may be none. */
static inline bool has_old(const struct subs *s) {
	return s->b >= s->n;
}

static uint64_t full_at(const struct subs *s, uint64_t total) {
	uint64_t moved = s->b - s->last_b;
	if (moved >= s->n)
		return 0;
	for (uint64_t i = 0; i < moved; i++) {
		uint64_t behind = s->n - 1 - i; /* how far behind the last charge's sub-bucket the leaving one is */
		if (s->last_b >= behind)
			total -= cell(s, s->last_b - behind);
	}
	return total;
}

static struct subs subs_at(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	sluice_ns last = counter->block == NULL ? 0 : counter->state.w[0];
	struct subs s = {.limit = limit, .cells = counter->block, .n = limit->bucket_count, .t = sl_max(now, last)};
	s.b = s.t / limit->precision_ns;
	s.r = s.t - s.b * limit->precision_ns;
	s.last_b = last / limit->precision_ns;
	s.full = counter->block == NULL ? 0 : full_at(&s, counter->state.w[1] >> 32);
	s.old = has_old(&s) ? cell(&s, s.b - s.n) : 0;
	return s;
}

/* What of `old` counts at `into` ns into the sub-bucket. */
static uint64_t edge_cost(const struct sluice_limit *limit, uint64_t old, sluice_ns into) {
	if (limit->edge == SLUICE_EDGE_WEIGHTED && old != 0)
		return sl_div_ceil(sl_mul(old, limit->precision_ns - into), limit->precision_ns);
	return limit->edge == SLUICE_EDGE_COUNT ? old : 0;
}

/* The wait until a denied cost <= Q is admitted: walk the oldest sub-buckets out of the window until it fits. */
static sluice_ns subs_retry(const struct subs *s, uint64_t cost) {
	uint64_t room = s->limit->quota - cost, full = s->full, old = s->old, k = 0;
	sluice_ns precision = s->limit->precision_ns;
	bool count = s->limit->edge == SLUICE_EDGE_COUNT;
	while (full + (count ? old : 0) > room) {
		k++;
		old = s->b + k >= s->n ? cell(s, s->b + k - s->n) : 0;
		full -= old;
	}
	if (s->limit->edge == SLUICE_EDGE_WEIGHTED && old != 0)
		return k * precision - s->r + precision - sl_div(sl_mul(room - full, precision), old);
	return k * precision - s->r;
}

/* The wait until nothing counts: the newest sub-bucket that holds anything has left, with its edge. */
static sluice_ns subs_reset(const struct subs *s) {
	uint64_t reach = s->n + (s->limit->edge == SLUICE_EDGE_DROP ? 0 : 1), j = s->last_b;
	if (edge_cost(s->limit, s->old, s->r) + s->full == 0)
		return 0;
	while (cell(s, j) == 0)
		j--;
	return (j + reach - s->b) * s->limit->precision_ns - s->r;
}

void sl_subs_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                  bool charge, struct sluice_decision *decision) {
	struct subs s = subs_at(limit, counter, now);
	uint64_t quota = limit->quota, used = s.full + edge_cost(limit, s.old, s.r);
	uint64_t room = quota > used ? quota - used : 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : subs_retry(&s, cost);
	if (charge && decision->allowed && cost != 0) {
		decision->remaining = (uint32_t)(room - cost);
		decision->reset_after_ns = (s.n + (limit->edge == SLUICE_EDGE_DROP ? 0 : 1)) * limit->precision_ns - s.r;
	} else {
		decision->reset_after_ns = subs_reset(&s);
	}
}

uint64_t sl_subs_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter) {
	return counter->block == NULL ? ((uint64_t)limit->bucket_count + 1) * sizeof(uint32_t) : 0;
}

void sl_subs_write(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost,
                   void *block) {
	struct subs s = subs_at(limit, counter, now);
	uint64_t ring = s.n + 1, clear = s.b - s.last_b;
	uint32_t *cells = block != NULL ? block : counter->block;
	SL_ASSERT(cells != NULL && s.full + cost <= UINT32_MAX);
	if (block != NULL || clear > ring)
		clear = ring;
	for (uint64_t i = 0; i < clear; i++)
		cells[(s.b + ring - i) % ring] = 0;
	cells[s.b % ring] += cost;
	counter->block = cells;
	counter->block_bytes = ring * sizeof(uint32_t);
	counter->state.w[0] = s.t;
	counter->state.w[1] = (s.full + cost) << 32 | (uint32_t)counter->state.w[1];
}

bool sl_subs_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	struct subs s = subs_at(limit, counter, now);
	uint64_t oldest = limit->edge == SLUICE_EDGE_DROP ? s.n - 1 : s.n, left = cost, total = counter->state.w[1] >> 32;
	uint32_t *cells = counter->block;
	if (cells == NULL)
		return false;
	for (uint64_t j = s.last_b; left != 0 && s.b - j <= oldest; j--) {
		uint32_t take = (uint32_t)sl_min(left, cell(&s, j));
		if (take != 0) {
			cells[j % (s.n + 1)] -= take;
			total -= s.last_b - j < s.n ? take : 0;
			left -= take;
		}
		if (j == 0)
			break;
	}
	counter->state.w[1] = total << 32 | (uint32_t)counter->state.w[1];
	return left != cost;
}

bool sl_subs_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter) {
	struct subs s;
	uint64_t total = 0;
	if (counter->block == NULL)
		return sl_state_is_none(&counter->state);
	if (counter->block_bytes < ((uint64_t)limit->bucket_count + 1) * sizeof(uint32_t))
		return false;
	s = subs_at(limit, counter, counter->state.w[0]);
	for (uint64_t i = 0; i < s.n && i <= s.last_b; i++)
		total += cell(&s, s.last_b - i);
	return total == counter->state.w[1] >> 32;
}
