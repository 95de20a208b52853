/* The slow, obvious twin. See twin.h for what it is; each function here is a sentence of the contract. */
#include "tests/model/twin.h"

#include <stdlib.h>

void twin_reset(struct twin *twin) {
	free(twin->events);
	*twin = (struct twin){0};
}

static void append(struct twin *twin, struct twin_event event) {
	if (twin->count == twin->room) {
		twin->room = twin->room == 0 ? 16 : 2 * twin->room;
		twin->events = realloc(twin->events, twin->room * sizeof *twin->events);
		if (twin->events == NULL)
			abort();
	}
	twin->events[twin->count++] = event;
}

static bool is_bucket(const struct twin_rule *rule) {
	return rule->algorithm == SLUICE_TOKEN_BUCKET || rule->algorithm == SLUICE_LEAKY_BUCKET;
}

uint64_t twin_clock(const struct twin *twin, uint64_t now_ns) {
	for (size_t i = twin->count; i-- > 0;)
		if (!twin->events[i].refund) /* a refund moves no clock */
			return now_ns > twin->events[i].at_ns ? now_ns : twin->events[i].at_ns;
	return now_ns;
}

uint64_t twin_quota(const struct twin_rule *rule) {
	switch (rule->algorithm) {
	case SLUICE_TOKEN_BUCKET:
		return rule->burst;
	case SLUICE_LEAKY_BUCKET:
		return (uint64_t)rule->burst + 1;
	case SLUICE_UNLIMITED:
		return UINT32_MAX;
	default:
		return rule->quota;
	}
}

/* The cost of all charges in [from, to). */
static uint64_t spent(const struct twin *twin, twin_wide from, twin_wide to) {
	uint64_t sum = 0;
	for (size_t i = 0; i < twin->count; i++)
		if (twin->events[i].at_ns >= from && twin->events[i].at_ns < to)
			sum += twin->events[i].cost;
	return sum;
}

/* What a bucket drains at now: the rate of the last that charged it, or of who asks first. */
static uint32_t rate_of(const struct twin *twin, const struct twin_rule *rule) {
	for (size_t i = twin->count; i-- > 0;)
		if (!twin->events[i].refund)
			return twin->events[i].rate;
	return rule->quota;
}

/* What is owed at `t`, in units of cost times W ns: every event replayed, the time between them drained at the rate of
 * the charge before, never below nothing. */
static twin_wide debt_at(const struct twin *twin, const struct twin_rule *rule, twin_wide t) {
	twin_wide W = rule->window_ns, debt = 0, at = 0;
	uint32_t rate = 0;
	for (size_t i = 0; i < twin->count; i++) {
		const struct twin_event *e = &twin->events[i];
		twin_wide held = debt - (e->at_ns - at) * rate, amount = W * e->cost;
		if (held < 0)
			held = 0;
		if (e->refund) {
			debt -= amount < held ? amount : held;
		} else {
			debt = held + amount;
			at = e->at_ns;
			rate = e->rate;
		}
	}
	debt -= (t - at) * rate;
	return debt > 0 ? debt : 0;
}

static bool buckets_admit(const struct twin *twin, const struct twin_rule *rule, twin_wide t, uint64_t cost) {
	twin_wide P = rule->precision_ns, W = rule->window_ns, Q = rule->quota, c = cost;
	twin_wide b = t - t % P, end = b + P; /* sub-bucket b starts here; b-n starts a whole window earlier */
	uint64_t old = spent(twin, b - W, b - W + P), full = spent(twin, b - W + P, end);
	switch (rule->edge) {
	case SLUICE_EDGE_COUNT:
		return old + full + c <= Q;
	case SLUICE_EDGE_DROP:
		return full + c <= Q;
	default:
		return full * P + old * (P - t % P) + c * P <= Q * P;
	}
}

/* Where the window of an instant starts: at a whole number of them from the epoch, or from the phase. */
static twin_wide window_start(const struct twin_rule *rule, twin_wide t) {
	twin_wide W = rule->window_ns, phase = rule->spread == 0 ? 0 : W * (rule->spread - 1) / 131072;
	twin_wide into = (t - phase) % W;
	return t - (into < 0 ? into + W : into);
}

bool twin_admits(const struct twin *twin, const struct twin_rule *rule, twin_wide t, uint64_t cost) {
	twin_wide W = rule->window_ns, Q = rule->quota, c = cost, start;
	if (cost == 0 || rule->algorithm == SLUICE_UNLIMITED)
		return true;
	if (rule->quota == 0)
		return false;
	start = window_start(rule, t);
	switch (rule->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return spent(twin, start, start + W) + c <= Q;
	case SLUICE_SLIDING_WINDOW:
		return spent(twin, start - W, start) * (W - (t - start)) + (spent(twin, start, start + W) + c) * W <= Q * W;
	case SLUICE_SLIDING_BUCKETS:
		return buckets_admit(twin, rule, t, cost);
	case SLUICE_SLIDING_LOG:
		return spent(twin, t - W + 1, t + 1) + c <= Q;
	case SLUICE_TOKEN_BUCKET:
		return (twin_wide)rule->burst * W - debt_at(twin, rule, t) >= c * W;
	case SLUICE_LEAKY_BUCKET:
		return debt_at(twin, rule, t) + c * W <= ((twin_wide)rule->burst + 1) * W;
	default:
		abort();
	}
}

/* The first whole number of units after which the cost is admitted if nothing else arrives. */
static uint64_t wait_for(const struct twin *twin, const struct twin_rule *rule, uint64_t t, uint64_t cost,
                         uint64_t unit) {
	twin_wide low = 0, high = 1, most = (twin_wide)((SLUICE_NEVER - 1) / unit + ((SLUICE_NEVER - 1) % unit != 0));
	if (twin_admits(twin, rule, t, cost))
		return 0;
	if (cost > twin_quota(rule) || rule->quota == 0)
		return SLUICE_NEVER;
	while (!twin_admits(twin, rule, t + high * (twin_wide)unit, cost)) {
		low = high;
		high *= 2;
	}
	while (high - low > 1) { /* denied at low, admitted at high */
		twin_wide middle = (low + high) / 2;
		if (twin_admits(twin, rule, t + middle * (twin_wide)unit, cost))
			high = middle;
		else
			low = middle;
	}
	return (uint64_t)(high < most ? high : most);
}

/* Until all drains that stood before the last unit, at `rate`. */
static uint64_t delay_of(const struct twin *twin, const struct twin_rule *rule, uint64_t t, uint32_t cost,
                         uint32_t rate, uint64_t unit) {
	twin_wide per_unit = (twin_wide)rate * unit, wait, most = SLUICE_NEVER - 1;
	if (rule->algorithm != SLUICE_LEAKY_BUCKET || cost == 0 || rule->quota == 0)
		return 0;
	wait = debt_at(twin, rule, t) + (twin_wide)(cost - 1) * rule->window_ns;
	if (wait / rate > most)
		wait = most * rate;
	return (uint64_t)(wait / per_unit + (wait % per_unit != 0));
}

void twin_outlook(const struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint64_t unit_ns,
                  struct twin_answer *answer) {
	uint64_t t = twin_clock(twin, now_ns), low = 0, high = (uint64_t)UINT32_MAX + 1, quota = twin_quota(rule);
	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;
		if (twin_admits(twin, rule, t, middle))
			low = middle;
		else
			high = middle;
	}
	answer->quota = quota;
	answer->remaining = (uint32_t)low;
	answer->reset = rule->quota == 0 ? 0 : wait_for(twin, rule, t, quota, unit_ns);
	answer->next_is_beyond = answer->reset != 0 && low == UINT32_MAX;
	answer->next = answer->reset == 0 || answer->next_is_beyond ? 0 : wait_for(twin, rule, t, low + 1, unit_ns);
}

struct twin_answer twin_peek(const struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                             uint64_t unit_ns) {
	uint64_t t = twin_clock(twin, now_ns);
	struct twin_answer answer = {.allowed = twin_admits(twin, rule, t, cost)};
	if (answer.allowed)
		answer.delay = delay_of(twin, rule, t, cost, debt_at(twin, rule, t) != 0 ? rate_of(twin, rule) : rule->quota,
		                        unit_ns);
	else
		answer.retry = wait_for(twin, rule, t, cost, unit_ns);
	twin_outlook(twin, rule, now_ns, unit_ns, &answer);
	return answer;
}

void twin_add(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost) {
	struct twin_event event = {.at_ns = twin_clock(twin, now_ns), .cost = cost, .rate = rule->quota};
	if (cost != 0 && rule->algorithm != SLUICE_UNLIMITED)
		append(twin, event);
}

struct twin_answer twin_charge(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                               uint64_t unit_ns) {
	uint64_t t = twin_clock(twin, now_ns);
	struct twin_answer answer = {.allowed = true};
	if (!twin_admits(twin, rule, t, cost))
		return twin_peek(twin, rule, now_ns, cost, unit_ns);
	answer.delay = delay_of(twin, rule, t, cost, rule->quota, unit_ns);
	twin_add(twin, rule, now_ns, cost);
	twin_outlook(twin, rule, now_ns, unit_ns, &answer);
	return answer;
}

/* The oldest instant whose charges still count at `t`. */
static twin_wide oldest_counting(const struct twin_rule *rule, twin_wide t) {
	twin_wide W = rule->window_ns, P = rule->precision_ns;
	switch (rule->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return window_start(rule, t);
	case SLUICE_SLIDING_WINDOW:
		return window_start(rule, t) - W;
	case SLUICE_SLIDING_BUCKETS:
		return t - t % P - W + (rule->edge == SLUICE_EDGE_DROP ? P : 0);
	default:
		return t - W + 1;
	}
}

struct twin_answer twin_refund(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                               uint64_t unit_ns) {
	uint64_t t = twin_clock(twin, now_ns), left = cost;
	struct twin_event back = {.at_ns = t, .cost = cost, .refund = true};
	if (is_bucket(rule)) {
		if (twin->count != 0)
			append(twin, back);
		return twin_peek(twin, rule, now_ns, 0, unit_ns);
	}
	for (size_t i = twin->count; i-- > 0 && left != 0;) {
		struct twin_event *e = &twin->events[i];
		uint64_t taken = e->cost < left ? e->cost : left;
		if (e->at_ns < oldest_counting(rule, t))
			break;
		e->cost -= taken;
		left -= taken;
	}
	return twin_peek(twin, rule, now_ns, 0, unit_ns);
}

int64_t twin_units(uint64_t unit_ns, sluice_ns wait) {
	return wait == SLUICE_NEVER ? -1 : (int64_t)(wait / unit_ns + (wait % unit_ns != 0));
}

static int64_t signed_wait(uint64_t wait) {
	return wait == SLUICE_NEVER ? -1 : (int64_t)wait;
}

const char *twin_difference(const struct twin_answer *answer, const struct twin_rule *rule,
                            const struct sluice_decision *got, bool want_next, uint64_t unit_ns) {
	bool quota_is_said = rule->algorithm != SLUICE_LEAKY_BUCKET || rule->quota != 0;
	if (got->allowed != answer->allowed)
		return "allowed";
	if (got->remaining != answer->remaining)
		return "remaining";
	if (twin_units(unit_ns, got->retry_after_ns) != signed_wait(answer->retry))
		return "retry_after";
	if (twin_units(unit_ns, got->reset_after_ns) != signed_wait(answer->reset))
		return "reset_after";
	if (twin_units(unit_ns, got->delay_ns) != signed_wait(answer->delay))
		return "delay";
	if (quota_is_said && got->quota != answer->quota)
		return "quota";
	if (!want_next && got->next_after_ns != 0)
		return "next_after, which nobody asked for,";
	if (want_next && !answer->next_is_beyond && twin_units(unit_ns, got->next_after_ns) != signed_wait(answer->next))
		return "next_after";
	return got->index == 0 ? NULL : "index";
}

struct twin_answer twin_merged(const struct twin_answer *answers, size_t count, bool allowed, size_t *decided) {
	struct twin_answer merged = {.allowed = allowed, .remaining = UINT32_MAX};
	bool none = false;
	*decided = 0;
	for (size_t i = 0; i < count; i++) {
		const struct twin_answer *a = &answers[i], *d = &answers[*decided];
		merged.remaining = a->remaining < merged.remaining ? a->remaining : merged.remaining;
		merged.reset = a->reset > merged.reset ? a->reset : merged.reset;
		if (!a->allowed && a->retry > merged.retry)
			merged.retry = a->retry; /* SLUICE_NEVER is the longest */
		if (allowed && a->delay > merged.delay)
			merged.delay = a->delay;
		if (allowed ? a->remaining < d->remaining : !a->allowed && (d->allowed || a->retry > d->retry))
			*decided = i;
	}
	merged.quota = answers[*decided].quota;
	for (size_t i = 0; i < count; i++) { /* what remains grows when it does so of all that have the least */
		const struct twin_answer *a = &answers[i];
		if (a->remaining != merged.remaining)
			continue;
		merged.next_is_beyond |= a->next_is_beyond;
		merged.next = a->next > merged.next ? a->next : merged.next;
		none |= a->next == 0 && !a->next_is_beyond; /* the least is all that this one has */
	}
	if (none) {
		merged.next = 0;
		merged.next_is_beyond = false;
	}
	return merged;
}
