/* fixed-window and sliding-window: two counts on windows aligned to the Unix epoch; fixed-window also on those of the
 * calendar.
 *
 * State: w[0] = instant of the last charge, ns; w[1] = count of the window before it << 32 | count of its window.
 * With t the instant (never before the last charge), e = t mod W, and the counts moved on to t's window:
 *
 *   fixed-window    admits when  cur + c <= Q
 *   sliding-window  admits when  prev * (W - e) + (cur + c) * W <= Q * W
 *                   which, all being whole numbers, is  c <= Q - cur - ceil(prev * (W - e) / W)
 *
 * so one division serves the decision and `remaining`. The usage never grows while nothing arrives (it is continuous
 * at the window's end, where cur becomes prev), so the first instant that admits c is found in closed form:
 *
 *   this window, if cur + c <= Q:   prev * (W - e') <= (Q - cur - c) * W   at  e' = W - floor((Q - cur - c) * W / prev)
 *   else in the next, prev' = cur:  cur  * (W - e') <= (Q - c) * W         at  e' = W - floor((Q - c) * W / cur)
 *
 * where e' = W means the start of the window after. No division by zero: a denial in the first case has prev > 0, in
 * the second cur > 0.
 *
 * Worst case in any half-open window: fixed-window 2Q (both sides of a boundary). sliding-window 2Q - 1: Q at the very
 * end of one window and, at the end of the next, all but what the vanishing weight still holds.
 * A window of the calendar (calendar.h) is a fixed window whose bounds are looked up: the state is the same, and the
 * count in it counts while its last charge was in the window that now is. All of that stands apart and out of line.
 *
 * Source: the two-bucket estimate in common use (Cloudflare 2017), here on integers and with its inverse.
 *
 * I1  cur, prev <= 2^32 - 1: an admitted charge leaves cur <= Q. They may be above Q, once charged whatever the quota
 *     or corrected above it (ledger.h), or when Q was lowered; the formulas hold for any.
 * I2  last is the instant of a charge; peeks, denials, refunds and corrections leave it. */
#include "algo/calendar.h"
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"

struct window {
	sluice_ns t, e;     /* the instant, and how far into its window it is */
	uint64_t cur, prev; /* the counts of t's window and of the one before */
};

/* floor(t / W) * W by the stored inverse: its estimate of the quotient is at most 2 too low. */
static inline sluice_ns into_window(const struct sluice_limit *limit, sluice_ns t) {
	uint64_t quotient = (uint64_t)(sl_mul(t, limit->derived[SL_WINDOW_INVERSE]) >> 64);
	sluice_ns e = t - quotient * limit->window_ns;
	SL_DEBUG_ASSERT(e <= t && e / 3 < limit->window_ns);
	while (e >= limit->window_ns)
		e -= limit->window_ns;
	return e;
}

static inline struct window window_at(const struct sluice_limit *limit, const struct sl_state *state, sluice_ns now) {
	sluice_ns last = state->w[0], t = sl_max(now, last), start;
	struct window w = {.t = t, .e = into_window(limit, t)};
	start = t - w.e;
	if (last >= start) {
		w.cur = (uint32_t)state->w[1];
		w.prev = state->w[1] >> 32;
	} else if (start - last <= limit->window_ns) { /* <= : the window before starts exactly W earlier */
		w.prev = (uint32_t)state->w[1];
	}
	SL_DEBUG_ASSERT(w.t >= now && w.e <= w.t && w.e < limit->window_ns);
	return w;
}

static inline void write_state(struct sl_counter *counter, const struct window *w, uint64_t cost) {
	SL_DEBUG_ASSERT(w->cur + cost <= UINT32_MAX && w->prev <= UINT32_MAX);
	counter->state.w[0] = w->t;
	counter->state.w[1] = w->prev << 32 | (w->cur + cost);
}

/* ---- windows of the calendar ------------------------------------------------------------------------------------- */

struct dated {
	sluice_ns t, left; /* the instant, and how long its window lasts from there */
	uint64_t cur;
};

static struct dated dated_at(const struct sluice_limit *limit, const struct sl_state *state, sluice_ns now) {
	sluice_ns last = state->w[0], t = sl_max(now, last);
	struct sl_span span = sl_calendar_span(limit, t);
	SL_DEBUG_ASSERT(span.start <= t && t - span.start < limit->window_ns && t <= span.end);
	/* at the last instant that there is, the window lasts a ns more */
	return (struct dated){t, sl_max(span.end - t, 1), last >= span.start ? (uint32_t)state->w[1] : 0};
}

static __attribute__((noinline)) void calendar_step(const struct sluice_limit *limit, struct sl_counter *counter,
                                                    sluice_ns now, uint64_t cost, bool charge,
                                                    struct sluice_decision *decision) {
	struct dated d = dated_at(limit, &counter->state, now);
	uint64_t quota = limit->quota, room = quota > d.cur ? quota - d.cur : 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : d.left;
	if (charge && decision->allowed && cost != 0) {
		d.cur += cost;
		counter->state.w[0] = d.t;
		counter->state.w[1] = d.cur;
		decision->remaining = (uint32_t)(room - cost);
	}
	decision->reset_after_ns = d.cur != 0 ? d.left : 0;
}

static __attribute__((noinline)) bool calendar_refund(const struct sluice_limit *limit, struct sl_counter *counter,
                                                      sluice_ns now, uint32_t cost) {
	uint64_t take = sl_min(cost, dated_at(limit, &counter->state, now).cur);
	SL_ASSERT(take <= (uint32_t)counter->state.w[1]);
	counter->state.w[1] -= take;
	return take != 0;
}

/* As sl_window_assume(): those that were charged last in the window of the newest. */
static __attribute__((noinline)) void calendar_assume(const struct sluice_limit *limit, struct sl_counter *counter,
                                                      const struct sl_held *held, int count) {
	sluice_ns t = held[count - 1].instant, start = sl_calendar_span(limit, t).start;
	uint64_t cur = 0;
	for (int i = 0; i < count; i++)
		if (held[i].instant >= start)
			cur = sl_max(cur, sl_held_cost(limit, &held[i]));
	counter->state.w[0] = t;
	counter->state.w[1] = cur;
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */

void sl_fixed_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                   bool charge, struct sluice_decision *decision) {
	if (__builtin_expect(limit->calendar != SLUICE_CALENDAR_NONE, 0)) {
		calendar_step(limit, counter, now, cost, charge, decision);
		return;
	}
	struct window w = window_at(limit, &counter->state, now);
	uint64_t quota = limit->quota, room = quota > w.cur ? quota - w.cur : 0;
	w.prev = 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : limit->window_ns - w.e;
	if (charge && decision->allowed && cost != 0) {
		write_state(counter, &w, cost);
		decision->remaining = (uint32_t)(room - cost);
		w.cur += cost;
	}
	decision->reset_after_ns = w.cur != 0 ? limit->window_ns - w.e : 0;
}

/* The wait until a denied cost <= Q is admitted. */
static sluice_ns window_retry(const struct sluice_limit *limit, const struct window *w, uint64_t cost) {
	uint64_t quota = limit->quota, window = limit->window_ns;
	SL_ASSERT(cost <= quota && (w->cur + cost <= quota ? w->prev : w->cur) != 0);
	if (w->cur + cost <= quota)
		return window - w->e - sl_div(sl_mul(quota - w->cur - cost, window), w->prev);
	return 2 * window - w->e - sl_div(sl_mul(quota - cost, window), w->cur);
}

/* What counts: of the window before, as much as the sliding one still covers. */
static inline uint64_t window_used(const struct sluice_limit *limit, const struct window *w) {
	return w->prev == 0 ? w->cur
	                    : w->cur + sl_div_ceil(sl_mul(w->prev, limit->window_ns - w->e), limit->window_ns);
}

void sl_window_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                    bool charge, struct sluice_decision *decision) {
	struct window w = window_at(limit, &counter->state, now);
	uint64_t quota = limit->quota, used = window_used(limit, &w), room;
	room = quota > used ? quota - used : 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : window_retry(limit, &w, cost);
	if (charge && decision->allowed && cost != 0) {
		write_state(counter, &w, cost);
		decision->remaining = (uint32_t)(room - cost);
		w.cur += cost;
	}
	/* prev counts until its weight is 0, at the end of this window; cur until the end of the next */
	decision->reset_after_ns = (w.cur != 0 ? 2 * limit->window_ns : w.prev != 0 ? limit->window_ns : w.e) - w.e;
}

void sl_window_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                        struct sluice_inspection *told) {
	struct window w;
	sluice_ns start;
	if (limit->calendar != SLUICE_CALENDAR_NONE) {
		struct dated d = dated_at(limit, &counter->state, now);
		told->used = d.cur;
		sl_describe_charge(told, sl_calendar_span(limit, d.t).start, d.t + d.left, d.cur);
		return;
	}
	w = window_at(limit, &counter->state, now);
	start = w.t - w.e;
	if (limit->algorithm == SLUICE_FIXED_WINDOW)
		w.prev = 0;
	told->used = window_used(limit, &w);
	sl_describe_charge(told, start - sl_min(start, limit->window_ns), sl_ns_plus(start, limit->window_ns), w.prev);
	sl_describe_charge(told, start, sl_window_leaves(limit, w.t), w.cur);
}

/* Takes from the count of t's window first, then from the one before, without moving the clock: the counts are changed
 * where they stand in the state, which may be a window earlier than t's. */
bool sl_window_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return calendar_refund(limit, counter, now, cost);
	struct window w = window_at(limit, &counter->state, now);
	uint64_t cur = (uint32_t)counter->state.w[1], prev = counter->state.w[1] >> 32, before = counter->state.w[1];
	uint64_t take, counted = limit->algorithm == SLUICE_SLIDING_WINDOW ? w.cur + w.prev : w.cur;
	bool moved_on = counter->state.w[0] < w.t - w.e;
	take = sl_min(cost, counted);
	SL_ASSERT(take <= (moved_on ? cur : cur + prev));
	if (moved_on) {
		cur -= take; /* only the stored cur can still count, as prev */
	} else {
		uint64_t from_cur = sl_min(take, cur);
		cur -= from_cur;
		prev -= take - from_cur;
	}
	counter->state.w[1] = prev << 32 | cur;
	return counter->state.w[1] != before;
}

uint32_t sl_window_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	struct window w;
	if (limit->calendar != SLUICE_CALENDAR_NONE) {
		struct dated d = dated_at(limit, &counter->state, now);
		w = (struct window){.t = d.t, .cur = d.cur};
	} else {
		w = window_at(limit, &counter->state, now);
	}
	if (limit->algorithm == SLUICE_FIXED_WINDOW)
		w.prev = 0;
	cost = (uint32_t)sl_min(cost, UINT32_MAX - w.cur);
	SL_ASSERT(w.cur + cost <= UINT32_MAX);
	if (cost != 0)
		write_state(counter, &w, cost);
	return cost;
}

sluice_ns sl_window_instant(const struct sl_counter *counter, sluice_ns now) {
	return sl_max(now, counter->state.w[0]);
}

struct sl_reach sl_window_reach(const struct sluice_limit *limit, sluice_ns t) {
	sluice_ns start = limit->calendar != SLUICE_CALENDAR_NONE ? sl_calendar_span(limit, t).start
	                                                          : t - into_window(limit, t);
	SL_ASSERT(start <= t && t - start < limit->window_ns);
	if (limit->algorithm == SLUICE_FIXED_WINDOW)
		return (struct sl_reach){start, start, 0, 1};
	return (struct sl_reach){start - sl_min(start, limit->window_ns), start, limit->window_ns - (t - start),
	                         limit->window_ns};
}

sluice_ns sl_window_leaves(const struct sluice_limit *limit, sluice_ns instant) {
	uint64_t windows = limit->algorithm == SLUICE_FIXED_WINDOW ? 1 : 2;
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return sl_calendar_span(limit, instant).end;
	return sl_ns_plus(instant - into_window(limit, instant), windows * limit->window_ns);
}

bool sl_window_keeps_end(const struct sluice_limit *limit, const struct sl_state *before, sluice_ns now,
                         sluice_ns reset_after) {
	uint64_t windows = sl_rule_algorithm(limit) == SLUICE_FIXED_WINDOW ? 1 : 2;
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return before->w[0] >= sl_calendar_span(limit, now).start;
	return now + reset_after <= before->w[0] + windows * limit->window_ns;
}

/* In the count of the window in which it was charged, where the state stands; moving on leaves the rest as it is. */
bool sl_window_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *at) {
	bool dated = limit->calendar != SLUICE_CALENDAR_NONE;
	sluice_ns last = counter->state.w[0];
	sluice_ns start = dated ? sl_calendar_span(limit, last).start : last - into_window(limit, last);
	uint64_t before = counter->state.w[1], cur = (uint32_t)before, prev = before >> 32;
	if (at->instant >= start)
		cur = sl_corrected(at, cur, UINT32_MAX - cur);
	else if (limit->algorithm == SLUICE_SLIDING_WINDOW && start - at->instant <= limit->window_ns)
		prev = sl_corrected(at, prev, UINT32_MAX - prev);
	SL_ASSERT(cur <= UINT32_MAX && prev <= UINT32_MAX);
	counter->state.w[1] = prev << 32 | cur;
	return counter->state.w[1] != before;
}

/* Each of `held` may have charged all of its cost in its last window, from where it counts longest. The two windows'
 * costs may be more than a quota together, as after a quota was lowered. */
void sl_window_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count) {
	if (limit->calendar != SLUICE_CALENDAR_NONE) {
		calendar_assume(limit, counter, held, count);
		return;
	}
	struct window w = {.t = held[count - 1].instant};
	sluice_ns start = w.t - into_window(limit, w.t);
	for (int i = 0; i < count; i++) {
		sluice_ns its_start = held[i].instant - into_window(limit, held[i].instant);
		SL_ASSERT(its_start <= start);
		if (its_start == start)
			w.cur = sl_max(w.cur, sl_held_cost(limit, &held[i]));
		else if (start - its_start == limit->window_ns)
			w.prev = sl_max(w.prev, sl_held_cost(limit, &held[i]));
	}
	write_state(counter, &w, 0);
}
