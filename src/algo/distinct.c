/* distinct: at most Q different members in any window (t - W, t]. A member counted within it is always admitted, and
 * charging him counts him anew; a stranger is admitted while fewer than Q are counted. So who is inside stays inside,
 * whatever strangers try.
 *
 * Up to 1,024 members each has a seat (seats.c): a fingerprint and the instant at which he is gone, W after his last
 * charge, to the nanosecond. That is exact, for any Q up to 1,024 and as long as no more are counted for one above.
 *
 * The 1,025th converts: a sliding HyperLogLog (hll.c) takes all fingerprints, and the seats go on with the newest
 * 1,024 members. Whether a single one is counted a HyperLogLog cannot say, since a stranger's register is nearly always
 * as high already. So those 1,024 stay known exactly, and of the others the operator chooses, once Q are counted:
 *
 *   edge deny    who is not among the newest 1,024 is denied, though he may be counted
 *   edge allow   whoever would not raise the estimate is admitted, though he may not be counted: of strangers all but
 *                one in Q / (0.72 m), of m registers, so that this side bounds nothing against somebody who tries
 *
 *   beyond   the end of the last member who lost his seat to a newer one. As long as it lies ahead, others than those
 *            with seats count, and the count is max(estimate, 1,025); after it every one that counts has a seat
 *            again, and the count is exact. (Who loses his seat ends before all who keep theirs.)
 *   ghosts   members of an evicted counter, whose number is known but not their names: added to either count
 *
 * Exact again with less than 256 members, the counter moves to a block of seats alone. So it does after a window
 * without any charge: the sketch's times need not be swept for longer.
 *
 * How many registers a limit has is no part of its counters: one that is changed keeps what has been counted. A sketch
 * goes on with the registers that it began with (its block says how many) until it is exact again; the next one has the
 * new number.
 *
 * A refund forgets a member's seat. The sketch can't forget him: until his window is over it counts him.
 *
 * A process that dies in the middle leaves a stranger's registers raised in part (hll.c), or raised and not yet in
 * a seat, or `beyond` set by one who has kept his seat: in each case the next decision is as good an estimate. */
#include "algo/hll.h"
#include "base/assert.h"
#include "base/point.h"

enum { EXACT_AGAIN = SL_EXACT_MEMBERS / 4, ESTIMATE_MIN = SL_EXACT_MEMBERS + 1 };

static bool is_estimated(const struct sl_seats *p) {
	return p->hll != NULL && p->hll->beyond > p->t;
}

static uint64_t ghosts_of(const struct sl_seats *p) {
	return p->hll != NULL && p->hll->ghosts_end > p->t ? p->hll->ghosts : 0;
}

/* Whether the next stranger makes a sketch of the counter. */
static bool converts(const struct sl_seats *p) {
	return p->hll == NULL && p->live >= SL_EXACT_MEMBERS;
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

/* How many are counted, ghosts aside. Where that is estimated, `with` is what it will be with the stranger as well. */
static uint64_t count_now(const struct sluice_limit *limit, struct sl_seats *p, uint64_t who, uint64_t *with) {
	uint64_t count = p->held;
	if (is_estimated(p)) {
		count = sl_max(sl_hll_estimate(limit, p, who, with), ESTIMATE_MIN);
		*with = sl_max(*with, ESTIMATE_MIN);
	}
	return count;
}

/* The nameless ones among those that have seats. */
static uint32_t count_nameless(const struct sl_seats *p, uint64_t *cost, sluice_ns *last_end) {
	uint32_t count = 0;
	*cost = *last_end = 0;
	for (uint32_t i = 0; i < p->capacity; i++) {
		if (p->ends[i] <= p->t || p->ids[i] != 0)
			continue;
		count++;
		*cost += p->costs != NULL ? p->costs[i] : 1;
		*last_end = sl_max(*last_end, p->ends[i]);
	}
	return count;
}

/* The count of `count` that is not estimated, ghosts and all, once a stranger is in it too. */
static uint64_t count_with(const struct sluice_limit *limit, struct sl_seats *p, uint64_t count, uint64_t who) {
	sluice_ns last_end;
	uint64_t nameless, with;
	if (p->hll != NULL && p->live >= p->capacity) {
		sl_hll_estimate(limit, p, who, &with);
		return sl_max(with, ESTIMATE_MIN) + ghosts_of(p);
	}
	if (!converts(p) || p->live - count_nameless(p, &nameless, &last_end) < SL_EXACT_MEMBERS)
		return count + 1;
	return sl_max(sl_hll_estimate_of(limit, p, who), ESTIMATE_MIN) + nameless;
}

/* The first instant at which the count, `count` at t and without ghosts, is below `quota`. */
static sluice_ns first_below(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t count,
                             uint64_t quota) {
	sluice_ns seats;
	SL_ASSERT(quota != 0);
	if (count < quota)
		return p->t;
	if (is_estimated(p) && quota > ESTIMATE_MIN)
		return sl_hll_below(limit, p, quota);
	seats = p->held >= quota ? p->t + sl_seats_wait(p, quota - 1) : p->t;
	return is_estimated(p) ? sl_max(seats, p->hll->beyond) : seats;
}

static sluice_ns retry_after(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t count) {
	uint64_t ghosts = ghosts_of(p), quota = limit->quota;
	if (ghosts != 0 && quota > ghosts) {
		sluice_ns first = first_below(limit, p, count, quota - ghosts);
		if (first < p->hll->ghosts_end)
			return sl_seats_wait_for(p, first);
	}
	if (ghosts != 0)
		return sl_seats_wait_for(p, sl_max(first_below(limit, p, count, quota), p->hll->ghosts_end));
	return sl_seats_wait_for(p, first_below(limit, p, count, quota));
}

/* Whether a stranger gets in although Q are counted. */
static bool gets_in(const struct sluice_limit *limit, const struct sl_counter *counter) {
	const struct sl_seats *p = &counter->seats;
	return limit->edge == SLUICE_EDGE_ALLOW && counter->who != 0 && is_estimated(p) &&
	       sl_hll_covers(limit, p, counter->who);
}

static sluice_ns last_end_of(const struct sl_seats *p) {
	if (p->hll == NULL)
		return p->last_end;
	return sl_max(p->last_end, sl_max(p->hll->beyond, p->hll->ghosts_end));
}

void sl_distinct_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                      bool charge, struct sluice_decision *decision) {
	struct sl_seats *p = sl_seats_look(counter, now);
	uint64_t quota = limit->quota, with = 0, found = count_now(limit, p, counter->who, &with);
	uint64_t ghosts = ghosts_of(p), count = found + ghosts;
	counter->known = p->mine != SL_NO_PLACE;
	sl_decide_room(decision, quota, quota > count ? quota - count : 0, cost != 0 && !counter->known);
	if (!decision->allowed && gets_in(limit, counter))
		decision->allowed = true;
	if (!decision->allowed)
		decision->retry_after_ns = retry_after(limit, p, found);
	if (!charge || !decision->allowed || cost == 0) {
		decision->reset_after_ns = sl_seats_wait_for(p, last_end_of(p));
		return;
	}
	decision->reset_after_ns = sl_seats_wait_for(p, sl_max(last_end_of(p), sl_seats_end(limit, p->t)));
	if (counter->known)
		return;
	SL_DEBUG_ASSERT(p->mine == SL_NO_PLACE);
	sl_seats_find_spare(p);
	count = is_estimated(p) ? with + ghosts : count_with(limit, p, count, counter->who);
	decision->remaining = (uint32_t)(quota > count ? quota - count : 0);
}

/* Beyond those that have seats some count by estimate, or without a name. */
void sl_distinct_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                          struct sluice_inspection *told) {
	struct sl_seats *p = sl_seats_look(counter, now);
	uint64_t with = 0;
	told->used = count_now(limit, p, 0, &with) + ghosts_of(p);
}

/* ---- charging --------------------------------------------------------------------------------------------------- */

uint64_t sl_distinct_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter) {
	const struct sl_seats *p = &counter->seats;
	uint64_t need = (uint64_t)p->live + 2;
	if (counter->known)
		return 0;
	if (converts(p))
		return sl_seats_bytes(SL_EXACT_MEMBERS, sl_seats_sketch_flags(sl_rule_register_bits(limit)));
	if (p->hll == NULL)
		return sl_seats_block_bytes(p, sl_min(limit->quota, SL_EXACT_MEMBERS), 1);
	if (is_estimated(p) || need > EXACT_AGAIN)
		return 0;
	return sl_seats_bytes(need + need / 8, ghosts_of(p) != 0 ? SL_PLACES_WEIGHTED : 0);
}

bool sl_members_prepare(const struct sluice_limit *limit, struct sl_counter *counter) {
	const struct sl_seats *p = &counter->seats;
	if (limit->algorithm == SLUICE_DISTINCT && p->hll != NULL && sl_hll_sweep(limit, p)) {
		sl_seats_stamp(counter, p->t);
		return true;
	}
	return sl_seats_prepare(counter);
}

/* Of seats that all count, the one that ends first. */
static uint32_t find_oldest(const struct sl_seats *p) {
	uint32_t oldest = 0;
	SL_ASSERT(p->capacity != 0);
	for (uint32_t i = 1; i < p->capacity; i++)
		if (p->ends[i] < p->ends[oldest])
			oldest = i;
	return oldest;
}

/* Counts somebody new in a sketch, and gives him a seat: a spare one, or that of who has been away longest. */
static void count_in_hll(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t who, sluice_ns t) {
	uint32_t seat = p->spare;
	SL_ASSERT(p->hll != NULL && p->costs == NULL);
	if (who != 0)
		sl_hll_add(limit, p, who, t);
	if (seat == SL_NO_PLACE) {
		seat = find_oldest(p);
		__atomic_store_n(&p->hll->beyond, sl_max(p->hll->beyond, p->ends[seat]), __ATOMIC_RELEASE);
		SL_POINT();
	}
	sl_seats_fill(p, seat, who, 1, sl_seats_end(limit, t));
}

/* Of a counter of seats alone, and a stranger, makes one with a sketch. */
static void write_hll(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t who, void *block,
                         uint64_t block_bytes) {
	struct sl_seats to = sl_seats_format(block, block_bytes, sl_seats_sketch_flags(sl_rule_register_bits(limit)));
	SL_ASSERT(p->hll == NULL && to.capacity == SL_EXACT_MEMBERS);
	to.t = to.last = p->t;
	sl_hll_format(limit, &to);
	count_nameless(p, &to.hll->ghosts, &to.hll->ghosts_end);
	for (uint32_t i = 0; i < p->capacity; i++) {
		if (p->ends[i] <= p->t || p->ids[i] == 0)
			continue;
		sl_seats_find_spare(&to);
		count_in_hll(limit, &to, p->ids[i], p->ends[i] - limit->window_ns);
	}
	sl_seats_find_spare(&to);
	count_in_hll(limit, &to, who, p->t);
}

/* Of a counter with a sketch, and a stranger, makes one of seats alone. */
static void write_exact(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t who, void *block,
                        uint64_t block_bytes) {
	uint64_t ghosts = ghosts_of(p);
	struct sl_seats to = sl_seats_format(block, block_bytes, ghosts != 0 ? SL_PLACES_WEIGHTED : 0);
	uint32_t used;
	SL_ASSERT((uint64_t)p->live + 2 <= to.capacity);
	used = sl_seats_move(p, &to);
	if (ghosts != 0)
		sl_seats_fill(&to, used++, 0, (uint32_t)sl_min(ghosts, UINT32_MAX), p->hll->ghosts_end);
	sl_seats_fill(&to, used, who, 1, sl_seats_end(limit, p->t));
}

static void refresh(const struct sluice_limit *limit, const struct sl_counter *counter) {
	const struct sl_seats *p = &counter->seats;
	if (p->hll != NULL)
		sl_hll_add(limit, p, counter->who, p->t);
	sl_seats_set_end(p, p->mine, sl_seats_end(limit, p->t));
}

void sl_distinct_write(const struct sluice_limit *limit, struct sl_counter *counter, void *block,
                       uint64_t block_bytes) {
	const struct sl_seats *p = &counter->seats;
	if (!counter->known && p->hll == NULL && !converts(p)) {
		sl_seats_write(limit, counter, 1, block, block_bytes);
		return;
	}
	SL_ASSERT(block == NULL ? counter->known || p->hll != NULL : !counter->known);
	if (counter->known)
		refresh(limit, counter);
	else if (block == NULL)
		count_in_hll(limit, p, counter->who, p->t);
	else if (p->hll == NULL)
		write_hll(limit, p, counter->who, block, block_bytes);
	else
		write_exact(limit, p, counter->who, block, block_bytes);
	if (block != NULL) {
		counter->block = block;
		counter->block_bytes = block_bytes;
	}
	sl_seats_stamp(counter, p->t);
}

bool sl_distinct_refund(struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct sl_seats *p = sl_seats_find(counter, now);
	if (cost == 0 || p->mine == SL_NO_PLACE)
		return false;
	sl_seats_set_end(p, p->mine, 0);
	return true;
}
