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
 * State: w[0] = instant of the last charge, ns; w[1] = total << 32 | host's. Block: cells[n + 1], sub-bucket j in
 * cells[j mod (n + 1)]; here a cell is named by how far it lies before the sub-bucket of the last charge, 0..n. Cells
 * are u32 in a block that has room for so many of them, else u16: a counter begins with those, and gets a block of the
 * others with the first charge that would take a cell above 2^16 - 1. Corrections, and Redis, keep to u32.
 *
 *   total <= TOTAL_MAX        the cost of the n newest cells (age 0..n-1)
 *   total  > TOTAL_MAX        unknown: it is the sum of the cells, of which the UINT32_MAX - total newest hold leavings
 *                             of the turn of the ring before and read as 0
 *
 * A charge clears the cells of the sub-buckets that were skipped, raises its own, and then both must agree with the
 * total, which no one store can do. So the total is made unknown first, at the instant of the charge, with the cells
 * about to be cleared declared stale (sl_subs_prepare()): from there to the final state every word of the block may be
 * written or not, and the counter means the same, but for the one store that raises the charge's own cell. A refund
 * does likewise. Whoever finds a total unknown adds the cells up: O(n), until the next charge.
 *
 * I1  total <= 2^32 - 1: under every edge an admitted charge leaves full <= Q; a charge whatever the quota, and a
 *     correction (ledger.h), saturate there. One above TOTAL_MAX is kept as unknown.
 * I2  the edge is no part of the state: n + 1 cells serve all three.
 * I3  cells of sub-buckets after the last charge's hold leavings until the next charge clears them.
 * I4  whatever bytes state and block hold, no cell outside the ring is touched and no loop is longer than it.
 * I5  the width of the cells follows from the length of the block, and from nothing else. */
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/point.h"

#define TOTAL_MAX (UINT32_MAX - (SL_BUCKETS_MAX + 1) - 1) /* a ring of the longest may be stale as a whole */

enum { NARROW_MAX = UINT16_MAX };

static inline uint64_t ring_of(const struct sl_subs *s) {
	return s->n + 1;
}

static inline uint64_t ring_of_limit(const struct sluice_limit *limit) {
	return (uint64_t)limit->bucket_count + 1;
}

static inline uint64_t narrow_bytes(const struct sluice_limit *limit) {
	return ring_of_limit(limit) * sizeof(uint16_t);
}

uint64_t sl_subs_wide_bytes(const struct sluice_limit *limit) {
	return ring_of_limit(limit) * sizeof(uint32_t);
}

/* I5 */
static inline bool is_narrow(uint64_t ring, uint64_t block_bytes) {
	return block_bytes < ring * sizeof(uint32_t);
}

static inline uint64_t get(const struct sl_subs *s, uint64_t slot) {
	SL_DEBUG_ASSERT(slot <= s->n);
	return s->narrow ? ((const uint16_t *)s->cells)[slot] : ((const uint32_t *)s->cells)[slot];
}

/* One store, whole: a process that dies has written the cell or not. No cost is more than a cell can hold, but for
 * damaged ones. */
static inline void put(const struct sl_subs *s, uint64_t slot, uint64_t cost) {
	SL_DEBUG_ASSERT(slot <= s->n);
	if (s->narrow)
		__atomic_store_n((uint16_t *)s->cells + slot, (uint16_t)sl_min(cost, NARROW_MAX), __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint32_t *)s->cells + slot, (uint32_t)sl_min(cost, UINT32_MAX), __ATOMIC_RELAXED);
	SL_POINT();
}

/* floor(t / P) by the stored inverse: its estimate of the quotient is at most 2 too low. */
static inline uint64_t to_sub_bucket(const struct sluice_limit *limit, sluice_ns t, sluice_ns *into) {
	uint64_t b = (uint64_t)(sl_mul(t, limit->derived[SL_PRECISION_INVERSE]) >> 64);
	*into = t - b * limit->precision_ns;
	SL_DEBUG_ASSERT(*into <= t && *into / 3 < limit->precision_ns);
	while (*into >= limit->precision_ns) {
		*into -= limit->precision_ns;
		b++;
	}
	return b;
}

/* b mod (n + 1); b is below 2^45, so the estimate is at most 1 too low. */
static inline uint64_t to_slot(const struct sluice_limit *limit, uint64_t b) {
	uint64_t ring = ring_of_limit(limit);
	uint64_t slot = b - (uint64_t)(sl_mul(b, limit->derived[SL_RING_INVERSE]) >> 64) * ring;
	SL_DEBUG_ASSERT(slot < 2 * ring);
	return slot >= ring ? slot - ring : slot;
}

static inline uint64_t slot_aged(const struct sl_subs *s, uint64_t slot, uint64_t age) {
	SL_DEBUG_ASSERT(slot <= s->n && age <= s->n);
	return slot >= age ? slot - age : slot + ring_of(s) - age;
}

/* The cost `age` 0..n sub-buckets before the last charge's. */
static inline uint64_t cell(const struct sl_subs *s, uint64_t age) {
	return age < s->stale ? 0 : get(s, slot_aged(s, s->slot, age));
}

/* The cost of the sub-buckets of age 0..count-1. */
static uint64_t sum_of_newest(const struct sl_subs *s, uint64_t count) {
	uint64_t sum = 0;
	for (uint64_t age = s->stale; age < count; age++)
		sum += cell(s, age);
	return sl_min(sum, UINT32_MAX); /* it is more only in damaged cells */
}

/* What of a known total still counts `moved` < n sub-buckets later. */
static uint64_t what_stays(const struct sl_subs *s, uint64_t total) {
	for (uint64_t age = s->n; age-- > s->n - s->moved;) {
		uint64_t leaves = cell(s, age);
		total = total > leaves ? total - leaves : 0; /* less only if damaged */
	}
	return total;
}

/* Finds out how the sub-buckets stand at `now`, into counter->subs. */
static inline struct sl_subs *look(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	struct sl_subs *s = &counter->subs;
	uint64_t last = counter->state.w[0], total = counter->state.w[1] >> 32, last_b;
	sluice_ns into;
	s->n = limit->bucket_count;
	s->cells = counter->block;
	s->narrow = is_narrow(ring_of(s), counter->block_bytes);
	s->stale = s->full = s->old = 0;
	if (counter->block_bytes < ring_of(s) * sizeof(uint16_t)) { /* 0 without a block */
		s->cells = NULL;
		s->t = now;
		s->b = to_sub_bucket(limit, now, &s->r);
		s->moved = ring_of(s);
		s->slot = to_slot(limit, s->b);
		return s;
	}
	s->t = sl_max(now, last);
	s->b = to_sub_bucket(limit, s->t, &s->r);
	last_b = last >= s->t - s->r ? s->b : to_sub_bucket(limit, last, &into);
	s->moved = sl_min(s->b - last_b, ring_of(s));
	s->slot = to_slot(limit, last_b);
	if (total > TOTAL_MAX)
		s->stale = sl_min(UINT32_MAX - total, ring_of(s));
	SL_DEBUG_ASSERT(s->t >= now && s->r < limit->precision_ns && last_b <= s->b);
	SL_DEBUG_ASSERT(s->moved <= ring_of(s) && s->stale <= ring_of(s));
	if (s->moved <= s->n)
		s->old = cell(s, s->n - s->moved);
	if (s->moved < s->n)
		s->full = total > TOTAL_MAX ? sum_of_newest(s, s->n - s->moved) : what_stays(s, total);
	return s;
}

/* What of `old` counts at `into` ns into the sub-bucket. */
static uint64_t edge_cost(const struct sluice_limit *limit, uint64_t old, sluice_ns into) {
	if (limit->edge == SLUICE_EDGE_WEIGHTED && old != 0)
		return sl_div_ceil(sl_mul(old, limit->precision_ns - into), limit->precision_ns);
	return limit->edge == SLUICE_EDGE_COUNT ? old : 0;
}

/* From `age` on towards the newest: the first cell that holds something, or 0. Most sub-buckets of a day are empty for
 * most keys, so sixteen bytes of cells are looked at together. */
static uint64_t skip_empty(const struct sl_subs *s, uint64_t age) {
	const uint64_t width = s->narrow ? sizeof(uint16_t) : sizeof(uint32_t);
	uint64_t slot = slot_aged(s, s->slot, age);
	while (age != 0 && cell(s, age) == 0) {
		uint64_t words[2] = {1, 0}, together = sizeof words / width;
		if (age > s->stale + together && slot + together <= s->n) /* the ring does not end among them */
			memcpy(words, (const char *)s->cells + slot * width, sizeof words);
		uint64_t step = (words[0] | words[1]) == 0 ? together : 1;
		age -= step;
		slot = slot + step <= s->n ? slot + step : 0;
	}
	return age;
}

/* The wait until a denied cost <= Q is admitted: walk the oldest sub-buckets out of the window until it fits, which is
 * once all have left, whatever a damaged total says. */
static sluice_ns subs_retry(const struct sluice_limit *limit, const struct sl_subs *s, uint64_t cost) {
	uint64_t room = limit->quota - cost, full = s->full, old = s->old, k = 0;
	sluice_ns precision = limit->precision_ns;
	bool count = limit->edge == SLUICE_EDGE_COUNT;
	SL_ASSERT(cost <= limit->quota);
	while (full + (count ? old : 0) > room) {
		k++;
		if (old == 0 && s->moved + k < s->n) /* that empty ones leave changes nothing */
			k = s->n - s->moved - skip_empty(s, s->n - s->moved - k);
		SL_ASSERT(k <= ring_of(s)); /* all have left by then */
		old = s->moved + k <= s->n ? cell(s, s->n - s->moved - k) : 0;
		full = s->moved + k < s->n && full > old ? full - old : 0;
	}
	if (limit->edge == SLUICE_EDGE_WEIGHTED && old != 0) {
		/* below P, unless a damaged total and its cells disagree */
		uint64_t weightless = sl_min(sl_div(sl_mul(room - full, precision), old), precision);
		return (k + 1) * precision - s->r - weightless;
	}
	return k * precision - s->r;
}

/* How far back a sub-bucket reaches into the window: the n newest, and with them the one that the edge cuts. */
static inline uint64_t reach_of(const struct sluice_limit *limit) {
	return limit->bucket_count + (uint64_t)(limit->edge != SLUICE_EDGE_DROP);
}

sluice_ns sl_subs_instant(const struct sl_counter *counter, sluice_ns now) {
	return sl_max(now, counter->state.w[0]);
}

struct sl_reach sl_subs_reach(const struct sluice_limit *limit, sluice_ns t) {
	sluice_ns precision = limit->precision_ns, into, newest, full, old;
	(void)to_sub_bucket(limit, t, &into);
	newest = t - into; /* n - 1 more always count */
	full = newest - sl_min(newest, limit->window_ns - precision);
	old = full - sl_min(full, precision);
	SL_ASSERT(into < precision && full <= newest);
	if (limit->edge == SLUICE_EDGE_DROP)
		return (struct sl_reach){full, full, 0, 1};
	if (limit->edge == SLUICE_EDGE_COUNT)
		return (struct sl_reach){old, full, 1, 1};
	return (struct sl_reach){old, full, precision - into, precision};
}

/* Under whichever edge. */
sluice_ns sl_subs_leaves(const struct sluice_limit *limit, sluice_ns instant) {
	sluice_ns into;
	(void)to_sub_bucket(limit, instant, &into);
	return sl_ns_plus(instant - into, limit->window_ns + limit->precision_ns);
}

/* The wait until nothing counts: the newest sub-bucket that holds anything has left, with its edge. */
static sluice_ns subs_reset(const struct sluice_limit *limit, const struct sl_subs *s) {
	uint64_t age = s->stale, last;
	if (edge_cost(limit, s->old, s->r) + s->full == 0)
		return 0;
	SL_ASSERT(s->moved < reach_of(limit));
	last = reach_of(limit) - s->moved - 1;
	while (age < last && cell(s, age) == 0)
		age++;
	return (last + 1 - sl_min(age, last)) * limit->precision_ns - s->r;
}

void sl_subs_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                  bool charge, struct sluice_decision *decision) {
	const struct sl_subs *s = look(limit, counter, now);
	uint64_t quota = limit->quota, used = s->full + edge_cost(limit, s->old, s->r);
	uint64_t room = quota > used ? quota - used : 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : subs_retry(limit, s, cost);
	if (charge && decision->allowed && cost != 0) {
		decision->remaining = (uint32_t)(room - cost);
		decision->reset_after_ns = reach_of(limit) * limit->precision_ns - s->r;
	} else {
		decision->reset_after_ns = subs_reset(limit, s);
	}
}

/* Sub-bucket j counts until j + reach begins. */
void sl_subs_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                      struct sluice_inspection *told) {
	const struct sl_subs *s = look(limit, counter, now);
	told->used = s->full + edge_cost(limit, s->old, s->r);
	if (s->cells == NULL || s->moved >= reach_of(limit))
		return;
	for (uint64_t age = reach_of(limit) - s->moved; age-- > s->stale;) {
		sluice_ns from = (s->b - sl_min(s->b, s->moved + age)) * limit->precision_ns;
		sl_describe_charge(told, from, sl_ns_plus(from, reach_of(limit) * limit->precision_ns), cell(s, age));
	}
}

/* The first cells that the step reads: of the last charge's sub-bucket, and of the oldest one, which is the next. How
 * wide they are is not known before the block's head is: likely as wide as they must be. */
void sl_subs_prefetch(const struct sluice_limit *limit, const struct sl_counter *counter) {
	sluice_ns into;
	uintptr_t cells = (uintptr_t)counter->block, width = limit->quota <= NARROW_MAX ? 2 : 4;
	if (limit->bucket_count < 16) /* nearly always on the line that every block begins with */
		return;
	cells += width * to_slot(limit, to_sub_bucket(limit, counter->state.w[0], &into));
	__builtin_prefetch((const void *)cells, 1);
	__builtin_prefetch((const void *)(cells + width), 1);
}

/* ---- charging -------------------------------------------------------------------------------------------------- */

static inline void set_total(struct sl_counter *counter, uint64_t total) {
	counter->state.w[1] = (total <= TOTAL_MAX ? total : UINT32_MAX) << 32 | (uint32_t)counter->state.w[1];
}

static inline void set_unknown(struct sl_counter *counter, uint64_t stale) {
	SL_DEBUG_ASSERT(stale <= SL_BUCKETS_MAX + 1);
	counter->state.w[1] = (UINT32_MAX - stale) << 32 | (uint32_t)counter->state.w[1];
}

/* What a charge at the same instant finds in its own cell. */
static inline uint64_t own_cell(const struct sl_subs *s) {
	return s->moved == 0 ? cell(s, 0) : 0;
}

uint64_t sl_subs_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost) {
	const struct sl_subs *s = &counter->subs;
	uint64_t own = s->cells != NULL ? own_cell(s) : 0;
	if (s->cells != NULL && (!s->narrow || own + cost <= NARROW_MAX))
		return 0;
	return own + cost <= NARROW_MAX ? narrow_bytes(limit) : sl_subs_wide_bytes(limit);
}

uint64_t sl_subs_most_bytes(const struct sluice_limit *limit) {
	return limit->quota <= NARROW_MAX ? narrow_bytes(limit) : sl_subs_wide_bytes(limit);
}

bool sl_subs_move(const struct sluice_limit *limit, struct sl_counter *counter, void *block, uint64_t block_bytes) {
	uint64_t ring = ring_of_limit(limit);
	struct sl_subs from = {.cells = counter->block, .n = ring - 1, .narrow = is_narrow(ring, counter->block_bytes)};
	struct sl_subs to = {.cells = block, .n = ring - 1, .narrow = is_narrow(ring, block_bytes)};
	SL_ASSERT(block != NULL && block_bytes >= narrow_bytes(limit));
	if (counter->block_bytes < narrow_bytes(limit))
		return false;
	for (uint64_t slot = 0; slot < ring; slot++)
		put(&to, slot, get(&from, slot));
	counter->block = block;
	counter->block_bytes = block_bytes;
	return true;
}

bool sl_subs_prepare(struct sl_counter *counter) {
	const struct sl_subs *s = &counter->subs;
	struct sl_state before = counter->state;
	counter->state.w[0] = s->t;
	set_unknown(counter, sl_min(s->moved + s->stale, ring_of(s)));
	return counter->state.w[0] != before.w[0] || counter->state.w[1] != before.w[1];
}

void sl_subs_write(const struct sluice_limit *limit, struct sl_counter *counter, uint32_t cost, void *block,
                   uint64_t block_bytes) {
	struct sl_subs *s = &counter->subs;
	uint64_t own = s->cells != NULL ? own_cell(s) : 0;
	uint64_t clear = sl_min(s->moved + s->stale, ring_of(s)), slot = s->moved == 0 ? s->slot : to_slot(limit, s->b);
	if (block != NULL && !sl_subs_move(limit, counter, block, block_bytes)) {
		clear = ring_of(s);
		counter->block = block;
		counter->block_bytes = block_bytes;
	}
	s->cells = counter->block;
	s->narrow = is_narrow(ring_of(s), counter->block_bytes);
	SL_ASSERT(s->cells != NULL);
	SL_DEBUG_ASSERT(cost != 0 && slot <= s->n && s->full + cost <= UINT32_MAX);
	for (uint64_t i = 0; i < clear; i++)
		put(s, slot_aged(s, slot, i), 0);
	put(s, slot, own + cost);
	counter->state.w[0] = s->t;
	set_total(counter, s->full + cost);
}

/* ---- giving back ----------------------------------------------------------------------------------------------- */

/* The cells from which a refund may take are those of age stale..this - 1. */
static uint64_t refund_end(const struct sluice_limit *limit, const struct sl_subs *s) {
	uint64_t reach = reach_of(limit);
	return s->moved < reach ? reach - s->moved : 0;
}

bool sl_subs_prepare_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                            uint32_t cost) {
	const struct sl_subs *s = look(limit, counter, now);
	uint64_t before = counter->state.w[1];
	if (cost == 0 || sum_of_newest(s, refund_end(limit, s)) == 0)
		return false;
	set_unknown(counter, s->stale);
	return counter->state.w[1] != before;
}

bool sl_subs_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct sl_subs *s = look(limit, counter, now);
	uint64_t end = refund_end(limit, s), left = cost;
	for (uint64_t age = s->stale; left != 0 && age < end; age++) {
		uint64_t slot = slot_aged(s, s->slot, age), held = get(s, slot), take = sl_min(left, held);
		if (take != 0)
			put(s, slot, held - take); /* newest first */
		left -= take;
	}
	if (left == cost)
		return false;
	if (s->stale == 0)
		set_total(counter, sum_of_newest(s, s->n));
	return true;
}

/* ---- charges whatever the quota, and corrections ----------------------------------------------------------------- */

uint32_t sl_subs_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct sl_subs *s = look(limit, counter, now);
	return (uint32_t)sl_min(cost, UINT32_MAX - s->full);
}

/* In a copy of the cells, as of the last charge. The n newest together stay below 2^32. */
static bool correct_cell(const struct sluice_limit *limit, struct sl_subs *s, const struct sl_correction *at) {
	sluice_ns into;
	uint64_t age = s->b - sl_min(s->b, to_sub_bucket(limit, at->instant, &into)), slot, held, corrected;
	bool newest = age < s->n;
	if (age > s->n)
		return false;
	slot = slot_aged(s, s->slot, age);
	held = get(s, slot);
	corrected = sl_corrected(at, held, UINT32_MAX - (newest ? s->full : held));
	if (corrected == held)
		return false;
	s->full = newest ? s->full + corrected - held : s->full;
	put(s, slot, corrected);
	return true;
}

/* From the oldest cell of a stretch on, as far as that reaches. */
static bool take_oldest(const struct sluice_limit *limit, struct sl_subs *s, const struct sl_correction *at) {
	sluice_ns into;
	uint64_t b = to_sub_bucket(limit, at->instant, &into), end = to_sub_bucket(limit, at->spread - 1, &into) + 1;
	uint64_t left = at->charged;
	if (b + s->n < s->b)
		return false;
	for (; left != 0 && b < end && b <= s->b; b++) {
		uint64_t age = s->b - b, slot = slot_aged(s, s->slot, age), held = get(s, slot), take = sl_min(left, held);
		put(s, slot, held - take);
		s->full -= age < s->n ? take : 0;
		left -= take;
	}
	return left != at->charged;
}

bool sl_subs_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                     uint32_t count, void *block) {
	struct sl_subs from = *look(limit, counter, 0), s = from;
	bool changed = false;
	if (from.cells == NULL)
		return false;
	SL_ASSERT(block != NULL);
	s.cells = block;
	s.narrow = false;
	s.stale = 0;
	SL_ASSERT(block != from.cells || !from.narrow);
	for (uint64_t age = 0; age <= s.n && block != from.cells; age++) /* or go on in a copy that was made */
		put(&s, slot_aged(&s, s.slot, age), cell(&from, age));
	for (uint32_t i = 0; i < count; i++)
		changed |= list[i].spread != 0 ? take_oldest(limit, &s, &list[i]) : correct_cell(limit, &s, &list[i]);
	if (!changed)
		return false;
	counter->block = block;
	counter->block_bytes = sl_subs_wide_bytes(limit);
	set_total(counter, s.full);
	return true;
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

uint64_t sl_subs_assume_bytes(const struct sluice_limit *limit, uint32_t cost) {
	uint64_t most = limit->derived[SL_CAPACITY] + cost; /* of a cell, whatever the quota */
	return most <= NARROW_MAX ? narrow_bytes(limit) : sl_subs_wide_bytes(limit);
}

/* Each of `held` may have charged all of its cost in its last sub-bucket, from where it counts longest. So that the
 * cells from there on add up to its cost, its cell holds what it has above the next one. */
void sl_subs_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held, int count,
                    void *block, uint64_t block_bytes) {
	uint64_t ring = ring_of_limit(limit), total = 0;
	struct sl_subs s = {.cells = block, .n = ring - 1, .narrow = is_narrow(ring, block_bytes)};
	sluice_ns into;
	uint64_t last_b = to_sub_bucket(limit, held[count - 1].instant, &into);
	SL_ASSERT(!s.narrow || limit->derived[SL_CAPACITY] <= NARROW_MAX);
	for (uint64_t i = 0; i < ring; i++)
		put(&s, i, 0);
	for (int i = 0; i < count; i++) {
		uint64_t b = to_sub_bucket(limit, held[i].instant, &into), above = sl_held_above(limit, held, count, i);
		uint64_t slot = to_slot(limit, b);
		SL_ASSERT(b <= last_b);
		if (last_b - b < ring)
			put(&s, slot, get(&s, slot) + above);
		total += last_b - b < ring - 1 ? above : 0;
	}
	counter->block = block;
	counter->block_bytes = block_bytes;
	counter->state.w[0] = held[count - 1].instant;
	set_total(counter, total);
}

bool sl_subs_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter) {
	struct sl_counter copy = *counter;
	uint64_t total = counter->state.w[1] >> 32;
	const struct sl_subs *s;
	if (counter->block == NULL)
		return sl_state_is_none(&counter->state);
	if (counter->block_bytes < narrow_bytes(limit))
		return false;
	s = look(limit, &copy, counter->state.w[0]);
	if (total > TOTAL_MAX)
		return UINT32_MAX - total <= ring_of(s);
	return sum_of_newest(s, s->n) == total;
}
