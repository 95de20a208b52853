/* See slice.h for what and why. A slice is made for a counter that is hot, and freed when it has cooled down. */
#include "hosts/server/remote/slice.h"

#include "algo/override.h"
#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/server/remote/rate.h"
#include "hosts/server/remote/denial_cache.h"

#include <stdlib.h>

enum {
	WAYS = 4,
	CREDIT = 1000,                                     /* a command */
	CREDIT_EACH = CREDIT / SL_QUOTA_SLICE_PER_COMMAND, /* what a request brings */
	CREDIT_FIRST = 4 * CREDIT,
	WORTH = 3,    /* requests that a slice must serve to be worth its command */
	AHEAD_OF = 8, /* a slice so large is asked for anew before it ends */
};
#define SECOND_NS ((sluice_ns)1000000000)
#define INTERVAL_NS_MIN ((sluice_ns)20000000)
#define INTERVAL_NS_MAX ((sluice_ns)100000000)
#define TICK_NS_MIN ((sluice_ns)1000000)
#define BARRED_NS (5 * SECOND_NS) /* after a command that was refused */
#define NO_ROOM_NS SECOND_NS      /* after one that found no room for its counter */
#define COLD_NS SECOND_NS

struct sl_quota_slices {
	struct sl_quota_slices_options options;
	struct sl_quota_slice *first;
	uint32_t count;
	uint64_t random; /* splitmix64 (Steele, Lea, Flood 2014) */
	bool ended;
	struct sl_rate rates[SL_QUOTA_SLICE_RATES];
};

/* ---- making and freeing ------------------------------------------------------------------------------------------ */

struct sl_quota_slices *sl_quota_slices_new(const struct sl_quota_slices_options *options) {
	struct sl_quota_slices *slices = calloc(1, sizeof *slices);
	if (slices != NULL) {
		slices->options = *options;
		slices->random = options->seed;
	}
	return slices;
}

static void count_slices(const struct sl_quota_slices *slices) {
	atomic_store_explicit(&slices->options.figures->slices, slices->count, memory_order_relaxed);
}

static void slice_free(struct sl_quota_slice *l) {
	struct sl_quota_slices *slices = l->slices;
	SL_ASSERT(!l->asking && l->first == NULL && l->users == 0);
	*(l->prev == NULL ? &slices->first : &l->prev->next) = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	l->rate->slice = NULL;
	slices->count--;
	count_slices(slices);
	free(l->command);
	free(l);
}

void sl_quota_slices_free(struct sl_quota_slices *slices) {
	while (slices != NULL && slices->first != NULL)
		slice_free(slices->first);
	free(slices);
}

static uint64_t next_id(struct sl_quota_slices *slices) {
	uint64_t z = slices->random += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static struct sl_quota_slice *slice_new(struct sl_quota_slices *slices, const struct sl_plan_item *item,
                                        struct sl_rate *rate) {
	struct sl_quota_slice *l = calloc(1, sizeof *l);
	if (l == NULL)
		return NULL;
	l->command = sl_group_new(item, 1, slices->options.prefix);
	if (l->command == NULL) {
		free(l);
		return NULL;
	}
	l->command->owner = l;
	l->slices = slices;
	l->tag = rate->tag;
	l->id = next_id(slices);
	l->window_ns = item->item->limit->window_ns;
	l->capacity = l->quota = item->item->limit->derived[SL_CAPACITY];
	l->credit = CREDIT_FIRST;
	l->last = &l->first;
	l->rate = rate;
	rate->slice = l;
	l->next = slices->first;
	if (l->next != NULL)
		l->next->prev = l;
	slices->first = l;
	slices->count++;
	count_slices(slices);
	return l;
}

/* Is a bucket full again so soon that no slice could carry its rate? While a slice is out nothing flows in for it. */
static bool fills_at_once(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_DRAINS) &&
	       sl_mul(limit->derived[SL_CAPACITY], limit->window_ns) < sl_mul(limit->quota, 2 * INTERVAL_NS_MAX);
}

bool sl_quota_slice_suits(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_COUNTS_LATE) && limit->quota != 0 && !fills_at_once(limit);
}

/* ---- how much, how long ------------------------------------------------------------------------------------------ */

static sluice_ns interval_of(const struct sl_quota_slices *slices, uint32_t rate, sluice_ns window_ns) {
	sluice_ns interval = SL_QUOTA_SLICE_PER_COMMAND * SECOND_NS / sl_max(rate, 1);
	interval = sl_min(sl_max(interval, INTERVAL_NS_MIN), INTERVAL_NS_MAX);
	interval = sl_min(interval, sl_min(window_ns / 16, slices->options.slice_ns / 4));
	return sl_max(interval, TICK_NS_MIN);
}

static bool is_worth_it(const struct sl_quota_slices *slices, uint32_t rate, sluice_ns window_ns) {
	return rate >= SL_QUOTA_SLICE_HOT && rate * interval_of(slices, rate, window_ns) >= WORTH * SECOND_NS;
}

static uint64_t spent_in(const struct sl_quota_slice *l, sluice_ns ns) {
	return sl_div(sl_mul(sl_rate_of_units(l->rate), ns), SECOND_NS) + 1;
}

/* What to ask for while nobody waits for more. */
static uint64_t usual_want(const struct sl_quota_slice *l) {
	uint64_t most = spent_in(l, SL_QUOTA_SLICE_SHORT_NS);
	if (l->told && !l->exhausted)
		most = sl_max(most, l->remaining / 8);
	return sl_min(spent_in(l, interval_of(l->slices, sl_rate_of_requests(l->rate), l->window_ns)), most);
}

/* When to ask again after the last was taken. */
static void pace(struct sl_quota_slice *l, sluice_ns now) {
	uint32_t need = 2 * CREDIT, lack = l->credit < need ? need - l->credit : 0; /* to ask, and to settle */
	sluice_ns by_credit = now + lack * SECOND_NS / (CREDIT_EACH * sl_max(sl_rate_of_requests(l->rate), 1));
	/* who denies few, by what others hold for a moment, looks again sooner than who denies most */
	uint64_t of = l->recent_taken + l->recent_denied + 1;
	sluice_ns probe = l->asked_at + sl_min(l->window_ns / 16, SL_QUOTA_SLICE_PROBE_NS) / of * (l->recent_denied + 1);
	sluice_ns room = l->retry == SLUICE_NEVER ? SLUICE_NEVER : l->told_at + l->retry;
	l->recent_taken /= 2;
	l->recent_denied /= 2;
	l->ask_after = sl_max(sl_min(room, sl_max(probe, by_credit)), sl_min(by_credit, probe));
	l->ask_after = sl_min(l->ask_after, now + SL_QUOTA_SLICE_SEEN_NS);
}

/* ---- the slice --------------------------------------------------------------------------------------------------- */

/* The node will charge what it holds under this id: all of it. */
static void give_up(struct sl_quota_slice *l) {
	l->id = next_id(l->slices);
	l->turn++;
	l->left = l->lent = l->spent = l->held = 0;
}

static bool has(const struct sl_quota_slice *l, uint32_t cost, sluice_ns now) {
	return l->left >= cost && now < l->ends;
}

static void lend(struct sl_quota_slice *l, struct sl_quota_slice_wait *wait) {
	SL_DEBUG_ASSERT(l->left >= wait->cost);
	l->left -= wait->cost;
	l->lent += wait->cost;
	l->recent_taken++;
	l->users++;
	wait->slice = l;
	wait->turn = l->turn;
}

static bool order(struct sl_quota_slice *l, uint64_t want, sluice_ns now) {
	struct sl_head head = {.id = l->id,
	                       .ttl_ms = (uint32_t)(l->slices->options.slice_ns / SL_MS_NS),
	                       .spent = l->spent,
	                       .want = (uint32_t)sl_min(sl_max(want, l->lent), UINT32_MAX)};
	SL_DEBUG_ASSERT(!l->asking);
	sl_group_say(l->command, SL_OP_LEASE, &head);
	if ((l->slices->ended && want != 0) || !l->slices->options.send(l->slices->options.to, l))
		return false;
	if (l->left > head.want - l->lent) { /* I2 */
		sl_count(&l->slices->options.figures->returned, l->left - (head.want - l->lent));
		l->left = head.want - l->lent;
	}
	l->carried = l->left + l->lent;
	l->asking = true;
	l->wanted = head.want;
	l->spent = 0;
	l->sent_at = now;
	l->credit -= (uint32_t)sl_min(l->credit, CREDIT);
	if (head.want != 0)
		l->asked_at = now;
	return true;
}

static bool ask(struct sl_quota_slice *l, sluice_ns now) {
	return order(l, sl_max(l->waiting + l->left + l->lent, usual_want(l)), now);
}

/* After something was spent: what is to be sent at once. If it can't be, the tick tries again. */
static void follow(struct sl_quota_slice *l, sluice_ns now) {
	if (l->asking)
		return;
	if (l->exhausted && l->left == 0 && l->spent != 0 && l->credit >= CREDIT)
		(void)order(l, 0, now);
	else if (!l->exhausted && l->held >= AHEAD_OF && l->left <= l->held / 4)
		(void)ask(l, now);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static struct sluice_decision decision_here(const struct sl_quota_slice *l, bool allowed, sluice_ns now) {
	sluice_ns passed = now - l->told_at;
	struct sluice_decision d = {
		.allowed = allowed,
		.quota = l->quota,
		.reset_after_ns = sl_denial_cache_left(l->reset, passed),
		.next_after_ns = sl_denial_cache_left(l->following, passed),
	};
	if (allowed) {
		d.remaining = (uint32_t)sl_min(sl_min(l->quota, (uint64_t)l->remaining + l->left), UINT32_MAX);
		if (d.reset_after_ns == 0 && !l->unlimited)
			d.reset_after_ns = l->window_ns;
		return d;
	}
	d.retry_after_ns = sl_denial_cache_left(l->retry, passed);
	d.retry_after_ns = sl_max(d.retry_after_ns, l->ask_after > now ? l->ask_after - now : 1);
	d.next_after_ns = sl_max(d.next_after_ns, d.retry_after_ns);
	if (d.retry_after_ns != SLUICE_NEVER)
		d.reset_after_ns = sl_max(d.reset_after_ns, d.retry_after_ns);
	return d;
}

/* The wait of a denial is told for a cost of 1: others ask for theirs. */
static enum sl_quota_slice_result denied_as(uint32_t cost) {
	return cost == 1 ? SL_QUOTA_SLICE_DENIED : SL_QUOTA_SLICE_NONE;
}

static void add_wait(struct sl_quota_slice *l, struct sl_quota_slice_wait *wait) {
	wait->next = NULL;
	wait->slice = l;
	*l->last = wait;
	l->last = &wait->next;
	l->waiting += wait->cost;
}

static struct sl_quota_slice_wait *remove_waits(struct sl_quota_slice *l) {
	struct sl_quota_slice_wait *first = l->first;
	l->first = NULL;
	l->last = &l->first;
	l->waiting = 0;
	return first;
}

/* Tells those who waited. They may come again at once with what they do next: the slice is as it shall be. */
static void tell(struct sl_quota_slice *l, struct sl_quota_slice_wait *first, sluice_ns now) {
	while (first != NULL) {
		struct sl_quota_slice_wait *wait = first;
		enum sl_quota_slice_result result = wait->result;
		struct sluice_decision decision = decision_here(l, result == SL_QUOTA_SLICE_TAKEN, now);
		first = wait->next;
		wait->decided(wait, result, &decision);
	}
}

static void tell_all(struct sl_quota_slice *l, enum sl_quota_slice_result result, sluice_ns now) {
	struct sl_quota_slice_wait *first = remove_waits(l);
	for (struct sl_quota_slice_wait *wait = first; wait != NULL; wait = wait->next)
		wait->result = (uint8_t)result;
	tell(l, first, now);
}

/* Serves those who wait, first come first; who can't be served is denied, or asks again with all others. */
static void serve(struct sl_quota_slice *l, sluice_ns now) {
	struct sl_quota_slice_wait *waits = remove_waits(l), *served = NULL, **last = &served;
	while (waits != NULL) {
		struct sl_quota_slice_wait *wait = waits;
		waits = wait->next;
		if (has(l, wait->cost, now) && (l->exhausted || l->first == NULL)) {
			lend(l, wait);
			wait->result = SL_QUOTA_SLICE_TAKEN;
		} else if (l->exhausted) {
			wait->result = (uint8_t)denied_as(wait->cost);
			l->recent_denied++;
		} else {
			add_wait(l, wait);
			continue;
		}
		wait->next = NULL;
		*last = wait;
		last = &wait->next;
	}
	if (l->first != NULL && !ask(l, now)) {
		*last = remove_waits(l);
		for (struct sl_quota_slice_wait *wait = *last; wait != NULL; wait = wait->next)
			wait->result = SL_QUOTA_SLICE_NONE;
	}
	tell(l, served, now);
}

static void lose(struct sl_quota_slice *l, const struct sl_answer *answer, sluice_ns now) {
	give_up(l);
	if (answer->kind == SL_ANSWER_ERROR)
		l->barred_until = now + BARRED_NS;
	tell_all(l, SL_QUOTA_SLICE_NONE, now);
}

/* A node that has no room for the counter grants nothing: who waits asks it himself, and is told so. */
static bool finds_no_room(const int64_t *numbers) {
	return sl_plan_decision(numbers + 1, SL_EACH_NUMBERS, 0).bound == SLUICE_BOUND_ROOM;
}

static void take_in(struct sl_quota_slice *l, const int64_t *numbers, sluice_ns now) {
	struct sluice_decision peek = sl_plan_decision(numbers + 1, SL_EACH_NUMBERS, 0);
	uint32_t granted = (uint32_t)sl_min((uint64_t)numbers[0], l->wanted);
	uint32_t more = granted > l->carried ? granted - l->carried : 0,
			 less = granted < l->carried ? l->carried - granted : 0;
	sl_count(&l->slices->options.figures->slice_units, more);
	bool lowered = l->told && peek.quota < l->quota;
	l->held = granted;
	l->left += more;
	l->left -= (uint32_t)sl_min(l->left, less); /* a node that let go of what it held: a failover, a reset */
	l->ends = l->sent_at + l->slices->options.slice_ns;
	l->quota = peek.quota;
	l->unlimited = sl_own_is_unlimited(l->capacity, &peek);
	l->remaining = peek.remaining;
	l->retry = peek.retry_after_ns;
	l->reset = peek.reset_after_ns;
	l->following = peek.next_after_ns;
	l->told_at = now;
	l->told = true;
	if (l->wanted != 0)
		l->exhausted = granted < l->wanted;
	if (lowered)
		l->left = 0; /* it was granted by the quota before: given back by the next command */
	if (now >= l->ends)
		give_up(l);
	if (l->exhausted)
		pace(l, now);
}

void sl_quota_slice_answered(struct sl_quota_slice *l, const struct sl_answer *answer, sluice_ns now) {
	SL_ASSERT(l->asking);
	l->asking = false;
	sl_rate_roll(l->rate, now);
	if (l->stale) {
		l->stale = false;
		give_up(l);
		tell_all(l, SL_QUOTA_SLICE_NONE, now);
	} else if (!sl_plan_is_answer(SL_OP_LEASE, answer, 1)) {
		lose(l, answer, now);
	} else if (finds_no_room(answer->numbers)) {
		lose(l, answer, now);
		l->barred_until = now + NO_ROOM_NS;
	} else {
		take_in(l, answer->numbers, now);
		serve(l, now);
		follow(l, now);
	}
	if (l->slices->ended && !l->asking && (l->left != 0 || l->spent != 0))
		(void)order(l, 0, now); /* what was granted meanwhile goes back */
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* The node has ended it. While a command is under way that is the answer's to find out. */
static void check_end(struct sl_quota_slice *l, sluice_ns now) {
	if (!l->asking && l->held != 0 && now >= l->ends)
		give_up(l);
}

static enum sl_quota_slice_result take_of(struct sl_quota_slice *l, sluice_ns now, struct sl_quota_slice_wait *wait,
                                          struct sluice_decision *decision) {
	check_end(l, now);
	if (l->first == NULL && has(l, wait->cost, now)) {
		lend(l, wait);
		*decision = decision_here(l, true, now);
		return SL_QUOTA_SLICE_TAKEN;
	}
	if (wait->cost > 1 && wait->cost > usual_want(l) / 4)
		return SL_QUOTA_SLICE_NONE;
	if (l->exhausted && now < l->ask_after) {
		*decision = decision_here(l, false, now);
		l->recent_denied++;
		return denied_as(wait->cost);
	}
	add_wait(l, wait);
	if (l->asking || ask(l, now))
		return SL_QUOTA_SLICE_WAIT;
	remove_waits(l); /* this one alone: who waits, waits for a command */
	return SL_QUOTA_SLICE_NONE;
}

static struct sl_rate *beat_of(struct sl_quota_slices *slices, uint64_t tag, sluice_ns now) {
	return sl_rate_in(&slices->rates[tag % (SL_QUOTA_SLICE_RATES / WAYS) * WAYS], WAYS, tag, now);
}

enum sl_quota_slice_result sl_quota_slice_take(struct sl_quota_slices *slices, const struct sl_plan_item *item,
                                               uint64_t tag, sluice_ns now, struct sl_quota_slice_wait *wait,
                                               struct sluice_decision *decision) {
	struct sl_rate *rate = beat_of(slices, tag, now);
	struct sl_quota_slice *l;
	if (rate == NULL || slices->ended || wait->cost == 0)
		return SL_QUOTA_SLICE_NONE;
	rate->requests++;
	rate->units += wait->cost;
	l = rate->slice;
	if (l == NULL && slices->count < SL_QUOTA_SLICES_MAX &&
	    is_worth_it(slices, sl_rate_of_requests(rate), item->item->limit->window_ns))
		l = slice_new(slices, item, rate);
	if (l == NULL)
		return SL_QUOTA_SLICE_NONE;
	l->used_at = now;
	l->credit = (uint32_t)sl_min((uint64_t)l->credit + CREDIT_EACH, SL_QUOTA_SLICE_CREDIT_MAX * CREDIT);
	if (now < l->barred_until)
		return SL_QUOTA_SLICE_NONE;
	return take_of(l, now, wait, decision);
}

static struct sl_quota_slice *find(struct sl_quota_slices *slices, uint64_t tag) {
	struct sl_rate *set = &slices->rates[tag % (SL_QUOTA_SLICE_RATES / WAYS) * WAYS];
	for (int i = 0; i < WAYS; i++)
		if (set[i].tag == tag)
			return set[i].slice;
	return NULL;
}

enum sl_quota_slice_result sl_quota_slice_peek(struct sl_quota_slices *slices, uint64_t tag, uint32_t cost,
                                               sluice_ns now, struct sluice_decision *decision) {
	struct sl_quota_slice *l = find(slices, tag);
	if (l == NULL || cost == 0)
		return SL_QUOTA_SLICE_NONE;
	check_end(l, now);
	if (has(l, cost, now)) {
		*decision = decision_here(l, true, now);
		return SL_QUOTA_SLICE_TAKEN;
	}
	if (!l->exhausted || now >= l->ask_after)
		return SL_QUOTA_SLICE_NONE;
	*decision = decision_here(l, false, now);
	return denied_as(cost);
}

void sl_quota_slice_done(const struct sl_quota_slice_wait *taken, bool back, sluice_ns now) {
	struct sl_quota_slice *l = taken->slice;
	SL_ASSERT(l->users > 0);
	l->users--;
	if (l->turn != taken->turn)
		return; /* that slice is gone: the node charges it */
	SL_ASSERT(l->lent >= taken->cost);
	l->lent -= taken->cost;
	*(back ? &l->left : &l->spent) += taken->cost;
	follow(l, now);
}

void sl_quota_slice_settle(struct sl_quota_slices *slices, uint64_t tag, sluice_ns now) {
	struct sl_quota_slice *l = find(slices, tag);
	if (l == NULL)
		return;
	l->exhausted = false;
	if (!l->asking && l->spent != 0)
		(void)order(l, 0, now);
}

void sl_quota_slice_end(struct sl_quota_slices *slices, uint64_t tag, sluice_ns now) {
	struct sl_quota_slice *l = find(slices, tag);
	if (l == NULL)
		return;
	l->exhausted = false;
	if (!l->asking && (l->held != 0 || l->spent != 0))
		(void)order(l, 0, now);
}

void sl_quota_slice_look(struct sl_quota_slices *slices, uint64_t tag, uint32_t *left, uint32_t *spent) {
	const struct sl_quota_slice *slice = find(slices, tag);
	*left = slice != NULL ? slice->left : 0;
	*spent = slice != NULL ? slice->spent : 0;
}

void sl_quota_slice_forget(struct sl_quota_slices *slices, uint64_t tag) {
	struct sl_quota_slice *l = find(slices, tag);
	if (l == NULL)
		return;
	l->exhausted = l->told = false;
	if (l->asking)
		l->stale = true;
	give_up(l);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static bool is_cold(const struct sl_quota_slice *l, sluice_ns now) {
	return !l->asking && l->first == NULL && l->users == 0 && l->held == 0 && l->spent == 0 &&
	       now - l->used_at > COLD_NS;
}

/* The time of the first of those who wait is over: they were waiting for a command that was sent before they came, and
 * then for the next. */
static void end_waits(struct sl_quota_slice *l, sluice_ns now) {
	struct sl_quota_slice_wait *ended = l->first, **last = &ended;
	while (*last != NULL && now >= (*last)->until) {
		(*last)->result = SL_QUOTA_SLICE_NONE;
		l->waiting -= (*last)->cost;
		last = &(*last)->next;
	}
	l->first = *last;
	if (l->first == NULL)
		l->last = &l->first;
	*last = NULL;
	tell(l, ended, now);
}

/* Returns when the slice is due again. */
static sluice_ns tick_one(struct sl_quota_slice *l, sluice_ns now) {
	sluice_ns due;
	if (l->first != NULL && now >= l->first->until)
		end_waits(l, now);
	sl_rate_roll(l->rate, now);
	check_end(l, now);
	if (l->asking || (l->held == 0 && l->spent == 0))
		return l->first != NULL ? sl_min(l->first->until, now + COLD_NS) : now + COLD_NS;
	due = l->sent_at + interval_of(l->slices, sl_rate_of_requests(l->rate), l->window_ns);
	if (l->exhausted && l->left == 0 && l->spent != 0) {
		(void)order(l, 0, now);
	} else if (now >= due) {
		bool busy = l->spent != 0 && !l->exhausted;
		(void)(busy ? ask(l, now) : order(l, 0, now));
	}
	return l->asking ? now + COLD_NS : due;
}

sluice_ns sl_quota_slices_tick(struct sl_quota_slices *slices, sluice_ns now) {
	sluice_ns due = SLUICE_NEVER;
	for (struct sl_quota_slice *l = slices->first, *next; l != NULL; l = next) {
		next = l->next;
		if (is_cold(l, now))
			slice_free(l);
		else
			due = sl_min(due, tick_one(l, now));
	}
	return due == SLUICE_NEVER ? due : sl_max(due, now + TICK_NS_MIN);
}

uint32_t sl_quota_slices_count(const struct sl_quota_slices *slices) {
	return slices->count;
}

uint32_t sl_quota_slices_under_way(const struct sl_quota_slices *slices) {
	uint32_t under_way = 0;
	for (const struct sl_quota_slice *l = slices->first; l != NULL; l = l->next)
		under_way += l->asking;
	return under_way;
}

uint32_t sl_quota_slices_end(struct sl_quota_slices *slices, sluice_ns now) {
	for (struct sl_quota_slice *l = slices->first; l != NULL; l = l->next) {
		check_end(l, now);
		if (!l->asking && l->held != 0)
			(void)order(l, 0, now);
	}
	slices->ended = true;
	return sl_quota_slices_under_way(slices);
}
