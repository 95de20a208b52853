/* Tickets of denied callers, and the first instant that is free after them.
 *
 * A key's tickets are a list of instants, each with the cost of all up to it, so that the cost from any instant on is
 * one search away:
 *
 *   at    10.0 s   10.4 s   11.0 s            cost of tickets at or after x  =  total - sum of the last one before x
 *   sum        1        3        4
 *
 * Windows and logs: the store says, by a peek at an instant t that is still to come, what will be admitted there if
 * nobody comes (all, of a fixed window that is over: there no store is asked that is elsewhere); the tickets that will
 * count at t are added to the cost asked for. Both only shrink as t grows past the last ticket, so the first t is found
 * by steps that double and then by halving.
 *
 * Buckets: charges of the same debt are one sum. With E the instant at which all debt is drained, cost c is admitted at
 * E - (C - c) W / Q, and moves E to max(E, t) + c W / Q; see algo/bucket.c for C, W and Q.
 *
 *  G1  at[] grows strictly, sum[] too; `base` is the sum of those that were forgotten.
 *  G2  A table of sets: a key's hash names four places; the one whose last ticket is earliest goes.
 *  G3  One lock a set; the store's locks are taken inside it, never the other way round. */
#include "hosts/admission/stagger.h"

#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/siphash.h"
#include "hosts/admission/admission.h"
#include "os/map.h"

#include <pthread.h>
#include <stdlib.h>

enum { WAYS = 4, SETS = SL_STAGGER_KEYS / WAYS, TICKETS_MIN = 8 };

_Static_assert((SETS & (SETS - 1)) == 0, "a set is chosen by a mask");

/* A wait that nobody needs to be spread over: 100 years. Instants below it, and 16 of the longest windows, add up. */
#define TRUTH_NS_MAX ((sluice_ns)36525 * 86400 * 1000000000)

struct ticket {
	sluice_ns at;
	uint64_t sum;
};

/* The tickets of one key. */
struct line {
	uint64_t hash;
	struct ticket *tickets;
	uint32_t first, end, capacity; /* those in use: first .. end - 1 */
	uint64_t base, total;
	sl_u128 drained; /* buckets: E after the last ticket, times `quota` */
	uint32_t quota;
};

struct set {
	pthread_mutex_t lock;
	struct line lines[WAYS];
};

struct sl_stagger {
	uint64_t secret[2];
	struct set sets[SETS];
};

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

struct sl_stagger *sl_stagger_new(void) {
	struct sl_stagger *stagger = calloc(1, sizeof *stagger);
	if (stagger == NULL || !sl_random_secret(stagger->secret)) {
		free(stagger);
		return NULL;
	}
	for (int i = 0; i < SETS; i++)
		pthread_mutex_init(&stagger->sets[i].lock, NULL);
	return stagger;
}

void sl_stagger_free(struct sl_stagger *stagger) {
	for (int i = 0; stagger != NULL && i < SETS; i++) {
		for (int j = 0; j < WAYS; j++)
			free(stagger->sets[i].lines[j].tickets);
		pthread_mutex_destroy(&stagger->sets[i].lock);
	}
	free(stagger);
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static sluice_ns last_of(const struct line *line) {
	return line->first == line->end ? 0 : line->tickets[line->end - 1].at;
}

static void clear(struct line *line) {
	line->first = line->end = 0;
	line->base = line->total = 0;
	line->drained = 0;
}

/* The line of a key: its own, or another's that nobody waits in, or that ends first. */
static struct line *find_line(struct set *set, uint64_t hash) {
	struct line *best = &set->lines[0];
	for (int i = 0; i < WAYS; i++) {
		struct line *line = &set->lines[i];
		if (line->hash == hash)
			return line;
		if (last_of(line) < last_of(best))
			best = line;
	}
	clear(best);
	best->hash = hash;
	return best;
}

/* The first ticket at or after an instant; line->end where there is none. */
static uint32_t ticket_from(const struct line *line, sluice_ns at) {
	uint32_t low = line->first, high = line->end;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (line->tickets[middle].at >= at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The cost of the tickets at or after an instant. */
static uint64_t cost_from(const struct line *line, sluice_ns at) {
	uint32_t index = ticket_from(line, at);
	return line->total - (index == line->first ? line->base : line->tickets[index - 1].sum);
}

static void forget_passed(struct line *line, sluice_ns now) {
	uint32_t index = ticket_from(line, now);
	if (index == line->first)
		return;
	line->base = line->tickets[index - 1].sum;
	line->first = index;
	if (line->first == line->end)
		clear(line);
}

/* Makes room for one more ticket: after those forgotten, in more memory, or by making one of each two. */
static bool make_room(struct line *line) {
	if (line->end < line->capacity)
		return true;
	if (line->first > 0) {
		memmove(line->tickets, line->tickets + line->first, (line->end - line->first) * sizeof *line->tickets);
		line->end -= line->first;
		line->first = 0;
		return true;
	}
	if (line->capacity < SL_STAGGER_TICKETS) {
		uint32_t capacity = line->capacity == 0 ? TICKETS_MIN : line->capacity * 2;
		struct ticket *tickets = realloc(line->tickets, capacity * sizeof *tickets);
		if (tickets != NULL) {
			line->tickets = tickets;
			line->capacity = capacity;
			return true;
		}
	}
	for (uint32_t i = 0; i < line->end / 2; i++)
		line->tickets[i] = line->tickets[2 * i + 1]; /* of each two the later, whose sum is that of both */
	line->end /= 2;
	return line->end < line->capacity;
}

static void add_ticket(struct line *line, sluice_ns at, uint32_t cost) {
	bool same = line->first != line->end && line->tickets[line->end - 1].at == at;
	if (!same && !make_room(line))
		return;
	line->total += cost;
	line->tickets[same ? line->end - 1 : line->end++] = (struct ticket){at, line->total};
}

/* ---- windows and logs -------------------------------------------------------------------------------------------- */

/* The cost of tickets that counts at t, if all of them were charged when they said; none is later than t. */
static uint64_t tickets_at(const struct line *line, const struct sluice_limit *limit, sluice_ns t) {
	struct sl_reach reach = sl_step_reach(limit, t);
	uint64_t newer = cost_from(line, reach.full);
	return newer + sl_div_ceil(sl_mul(cost_from(line, reach.old) - newer, reach.left), reach.whole);
}

struct search {
	struct sluice_store *store;
	const struct sluice_item *item;   /* what is peeked at: there the store knows until when an own quota counts */
	const struct sluice_limit *rule;  /* by what is reckoned: the limit, or the quota of the key's own */
	const struct line *line;
	uint32_t cost;
	sluice_ns now;
	const struct sluice_decision *denial;
	uint64_t far_ms; /* no further than this */
};

static bool admits_after(const struct search *search, uint64_t wait_ms) {
	sluice_ns t = search->now + wait_ms * SL_MS_NS;
	uint64_t cost = search->cost + tickets_at(search->line, search->rule, t);
	if (cost > search->rule->quota || search->store == NULL)
		return cost <= search->rule->quota;
	struct sluice_item item = {.limit = search->item->limit, .key = search->item->key};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = (uint32_t)cost, .operation = SLUICE_PEEK, .now = t};
	return sluice_decide(search->store, &call) != SLUICE_OK || call.merged.allowed;
}

/* The first wait from `from_ms` on that admits; one above far_ms where that is too far. */
static uint64_t search_windows(const struct search *search, uint64_t from_ms) {
	const struct sluice_limit *limit = search->rule;
	uint64_t low = from_ms, step = sl_max(1, limit->window_ns / SL_MS_NS / limit->quota), high;
	if (admits_after(search, from_ms))
		return from_ms;
	for (high = low + step; !admits_after(search, high); high += step) {
		if (high > search->far_ms)
			return high;
		low = high;
		step *= 2;
	}
	while (high - low > 1) { /* denies at low, admits at high */
		uint64_t middle = low + (high - low) / 2;
		if (admits_after(search, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* ---- buckets ----------------------------------------------------------------------------------------------------- */

/* How long a bucket takes to drain, by a denial: at the instant of the retry its cost fits just so, into a bucket that
 * is otherwise full. That holds for what fronts hold of it as well. A penalty's wait says nothing of the bucket: there
 * the reset does, to the ms. */
static sluice_ns held_by_denial(const struct search *search) {
	const struct sluice_limit *limit = search->rule;
	const struct sluice_terms *terms = search->item->terms;
	const uint64_t others = limit->derived[SL_CAPACITY] - search->cost;
	if (terms != NULL && terms->penalty_count != 0)
		return search->denial->reset_after_ns;
	return search->denial->retry_after_ns + sl_div_ceil(sl_mul(others, limit->window_ns), limit->quota);
}

static sluice_ns held_by_store(const struct search *search) {
	struct sluice_item item = {.limit = search->item->limit, .key = search->item->key};
	struct sluice_call call = {.items = &item, .item_count = 1, .operation = SLUICE_PEEK, .now = search->now};
	return sluice_decide(search->store, &call) == SLUICE_OK ? call.merged.reset_after_ns : 0;
}

/* E times Q, which is a whole number: the whole of what the store holds (to the ns), and of all tickets, drained. */
static sl_u128 drained_at(const struct search *search) {
	const struct sluice_limit *limit = search->rule;
	const struct line *line = search->line;
	sluice_ns held = search->store != NULL ? held_by_store(search) : held_by_denial(search);
	sl_u128 drained = sl_mul(search->now + sl_min(held, INT64_MAX), limit->quota);
	drained += sl_mul(line->total - line->base, limit->window_ns);
	/* after the last ticket it may be more: where he comes later than he could, in whole ms, a full bucket stays
	 * full */
	return line->quota == limit->quota && line->drained > drained ? line->drained : drained;
}

/* Whole ticks: a bucket's time stands still within one. */
static uint64_t search_buckets(const struct search *search, uint64_t from_ms) {
	const struct sluice_limit *limit = search->rule;
	uint64_t tick = limit->derived[SL_TICK_NS];
	sl_u128 spare = sl_mul(limit->derived[SL_CAPACITY] - search->cost, limit->window_ns), drained = drained_at(search);
	sluice_ns free_at = drained > spare ? sl_min(sl_div_ceil(drained - spare, limit->quota), INT64_MAX) : 0;
	free_at = (free_at + tick - 1) / tick * tick;
	return free_at <= search->now ? from_ms : sl_max(from_ms, (uint64_t)sl_ns_to_ms_ceil(free_at - search->now));
}

static void drain_behind(struct line *line, const struct search *search, sluice_ns at) {
	const struct sluice_limit *limit = search->rule;
	sl_u128 drained = drained_at(search), least = sl_mul(at, limit->quota);
	line->drained = (drained > least ? drained : least) + sl_mul(search->cost, limit->window_ns);
	line->quota = limit->quota;
}

/* ---- the next in line -------------------------------------------------------------------------------------------- */

/* The wait in ms, and its ticket. */
static uint64_t take_ticket(struct line *line, struct search *search, uint64_t truth_ms) {
	const struct sluice_limit *limit = search->rule;
	uint64_t wait_ms = truth_ms;
	sluice_ns last = last_of(line);
	if (line->first != line->end) {
		uint64_t from_ms = last > search->now ? (uint64_t)sl_ns_to_ms_ceil(last - search->now) : 0;
		from_ms = sl_max(from_ms, truth_ms);
		wait_ms = sl_rule_has(limit, SL_DRAINS) ? search_buckets(search, from_ms) : search_windows(search, from_ms);
	}
	if (wait_ms > search->far_ms) {
		clear(line);
		wait_ms = truth_ms;
	}
	sluice_ns at = search->now + wait_ms * SL_MS_NS;
	if (sl_rule_has(limit, SL_DRAINS))
		drain_behind(line, search, at);
	add_ticket(line, at, search->cost);
	return wait_ms;
}

sluice_ns sl_stagger_next(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_item *item,
                          uint32_t cost, sluice_ns now, const struct sluice_decision *denial) {
	const sluice_ns truth_ns = denial->retry_after_ns;
	if (store == NULL && (!sl_stagger_suits_elsewhere(item->limit) || denial->bound != SLUICE_BOUND_NONE))
		return truth_ns;
	if (truth_ns > TRUTH_NS_MAX || !sl_rule_has(item->limit, SL_HAS_COUNTER))
		return truth_ns;
	struct sluice_limit limit = *item->limit, own;
	struct sluice_item keyed = *item;
	sl_rule_key(&limit, item->key); /* windows that are spread reach as far as this key's do */
	keyed.limit = &limit;
	const struct sluice_limit *rule = sl_admission_limit(store, &keyed, denial, now, &own);
	if (rule->quota == 0 || rule->derived[SL_CAPACITY] != denial->quota)
		return truth_ns; /* a quota of the key's own denied, of which no more is known here: it is elsewhere, or gone */
	if (store == NULL && !sl_rule_has(rule, SL_DRAINS) && sl_step_reach(rule, now + truth_ns).old <= now)
		return truth_ns; /* reservations end in between, or it counts no windows of this host's clock */
	uint64_t hash = sl_siphash(stagger->secret, &limit.derived[SL_IDENT_KIND], 2, item->key, 1, 3);
	uint64_t truth_ms = (uint64_t)sl_ns_to_ms_ceil(truth_ns);
	struct set *set = &stagger->sets[hash & (SETS - 1)];
	pthread_mutex_lock(&set->lock);
	struct line *line = find_line(set, hash);
	struct search search = {store, &keyed, rule, line, cost, now, denial, 0};
	search.far_ms = sl_max(rule->window_ns / SL_MS_NS * SL_STAGGER_WINDOWS, truth_ms);
	forget_passed(line, now);
	uint64_t wait_ms = take_ticket(line, &search, truth_ms);
	pthread_mutex_unlock(&set->lock);
	return wait_ms * SL_MS_NS;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static bool is_staggered(const struct sluice_policy *policy, const struct sluice_call *call, uint32_t position,
                         uint32_t i) {
	return position != SL_POSITION_NOTATION && !call->items[i].observed && !call->each[i].allowed &&
	       sl_policy_limit_at(policy, position)->stagger;
}

/* The longest wait of those that deny, and whose it is; the first of equals. */
static void merge_waits(struct sluice_call *call, uint32_t count) {
	sluice_ns longest = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_decision *one = &call->each[i];
		if (call->items[i].observed || one->allowed || one->retry_after_ns <= longest)
			continue;
		longest = one->retry_after_ns;
		call->merged.index = (int32_t)i;
		call->merged.quota = one->quota;
		call->merged.bound = one->bound;
	}
	call->merged.retry_after_ns = longest;
}

void sl_stagger_call(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_policy *policy,
                     const uint32_t *positions, uint32_t count, struct sluice_call *call) {
	bool any = false;
	for (uint32_t i = 0; i < count && !call->merged.allowed; i++) {
		if (!is_staggered(policy, call, positions[i], i))
			continue;
		const struct sluice_item *item = &call->items[i];
		call->each[i].retry_after_ns =
			sl_stagger_next(stagger, store, item, item->cost != 0 ? item->cost : call->cost, call->now, &call->each[i]);
		any = true;
	}
	if (any)
		merge_waits(call, count);
}
