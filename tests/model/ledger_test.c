/* Reservations against a slow, obvious twin: decisions that know what will be returned, corrections, charges whatever
 * the quota.
 *
 * The twin is a list of places and a list of open reservations. A place is where a charge counts: the millisecond of a
 * log, the sub-bucket, the window; of buckets a place is an event, replayed in order. Whether a cost fits at t is said
 * by the contract's line over copies of those lists in which whatever has ended by t has been returned; every wait is
 * the first instant at which it fits, found by doubling and halving. The other side is a host in miniature: a counter
 * with its block, and a sorted ledger, kept as ledger.h tells hosts to.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run; in a soak it is a million operations. */
#include "algo/ledger.h"
#include "base/math.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STREAM_OPS = 120, PLACES_MAX = 1024 };

/* ---- the twin ---------------------------------------------------------------------------------------------------- */

enum kind { CHARGE, COUNT, UP, DOWN, REFUND };

struct place {
	uint64_t at;    /* the window's or sub-bucket's number, the millisecond; of buckets the instant of the event */
	uint64_t cost;  /* buckets: of the event */
	enum kind kind; /* buckets */
	uint64_t instant, debt; /* debt: of COUNT the capacity then */
};

struct open {
	uint64_t id, instant, end, cost, debt;
};

struct model {
	struct twin_rule rule;
	uint64_t tick; /* of a bucket, and the most that its state can hold, in cost x ns */
	twin_wide most;
	uint64_t clock; /* the last charge, as the counter keeps it */
	uint64_t exact; /* and as it was made */
	size_t places, opens;
	struct place place[PLACES_MAX];
	struct open open[PLACES_MAX];
};

static bool is_bucket(const struct twin_rule *rule) {
	return rule->algorithm == SLUICE_TOKEN_BUCKET || rule->algorithm == SLUICE_LEAKY_BUCKET;
}

static uint64_t place_of(const struct twin_rule *rule, uint64_t t) {
	switch (rule->algorithm) {
	case SLUICE_SLIDING_LOG:
		return (t + TWIN_MS - 1) / TWIN_MS;
	case SLUICE_SLIDING_BUCKETS:
		return t / rule->precision_ns;
	default:
		return is_bucket(rule) ? t : t / rule->window_ns;
	}
}

static uint64_t model_clock(const struct model *m, uint64_t now) {
	if (m->rule.algorithm == SLUICE_SLIDING_LOG) /* kept at the end of its ms, within which time has not gone back */
		return place_of(&m->rule, now) < m->clock / TWIN_MS ? m->clock : now;
	return now > m->clock ? now : m->clock;
}

static void set_clock(struct model *m, uint64_t t) {
	m->exact = t > m->exact ? t : m->exact;
	m->clock = m->rule.algorithm == SLUICE_SLIDING_LOG ? place_of(&m->rule, t) * TWIN_MS : t;
}

static struct place *find_place(struct model *m, uint64_t at) {
	for (size_t i = 0; i < m->places; i++)
		if (m->place[i].at == at)
			return &m->place[i];
	assert_true(m->places < PLACES_MAX);
	m->place[m->places] = (struct place){.at = at};
	return &m->place[m->places++];
}

/* The cost in the places from..to, whatever returned some of it by t. */
static uint64_t held(const struct model *m, uint64_t t, uint64_t from, uint64_t to) {
	uint64_t sum = 0;
	for (size_t i = 0; i < m->places; i++) {
		uint64_t its = m->place[i].cost;
		if (m->place[i].at < from || m->place[i].at > to)
			continue;
		for (size_t k = 0; k < m->opens; k++)
			if (m->open[k].end <= t && place_of(&m->rule, m->open[k].instant) == m->place[i].at)
				its -= m->open[k].cost < its ? m->open[k].cost : its;
		sum += its;
	}
	return sum;
}

static uint64_t back(uint64_t t, uint64_t by) {
	return t < by ? 0 : t - by;
}

static twin_wide drain(twin_wide debt, uint64_t rate, uint64_t from, twin_wide to) {
	debt -= to > (twin_wide)from ? (to - from) * rate : 0;
	return debt > 0 ? debt : 0;
}

/* What of a bucket's charge can still be given back at `known`. */
static twin_wide undrained(const struct model *m, uint64_t instant, uint64_t debt, uint64_t cost, uint64_t known) {
	twin_wide W = m->rule.window_ns, left = drain(W * debt, m->rule.quota, instant, known);
	return left < W * cost ? left : W * cost;
}

static int by_end(const void *a, const void *b) {
	const struct open *x = a, *y = b;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* A bucket's debt at t, in cost x ns: every event replayed, and behind them what returned by t. */
static twin_wide debt_at(const struct model *m, twin_wide t) {
	struct open opens[PLACES_MAX];
	twin_wide W = m->rule.window_ns, debt = 0;
	uint64_t at = 0, rate = m->rule.quota;
	for (size_t i = 0; i < m->places; i++) {
		const struct place *e = &m->place[i];
		twin_wide now = drain(debt, rate, at, e->at), more = now + W * e->cost, less;
		switch (e->kind) {
		case COUNT: /* emptied at most, but what was below that stays */
			more = more < W * e->debt ? more : W * e->debt;
			debt = more > now ? more : now;
			at = e->at;
			break;
		case CHARGE:
		case UP:
			debt = more < m->most ? more : m->most;
			at = e->at;
			break;
		default:
			less = e->kind == DOWN ? undrained(m, e->instant, e->debt, e->cost, e->at) : W * e->cost;
			debt -= less < now ? less : now;
		}
	}
	memcpy(opens, m->open, m->opens * sizeof *opens);
	qsort(opens, m->opens, sizeof *opens, by_end);
	for (size_t k = 0; k < m->opens && opens[k].end <= t; k++) {
		twin_wide now = drain(debt, rate, at, opens[k].end);
		twin_wide less = undrained(m, opens[k].instant, opens[k].debt, opens[k].cost, opens[k].end);
		debt -= less < now ? less : now;
	}
	return drain(debt, rate, at, t);
}

static bool subs_admit(const struct model *m, uint64_t t, uint64_t cost) {
	uint64_t P = m->rule.precision_ns, n = m->rule.window_ns / P, b = t / P;
	twin_wide old = b >= n ? held(m, t, b - n, b - n) : 0, full = held(m, t, back(b, n - 1), b), Q = m->rule.quota;
	if (m->rule.edge == SLUICE_EDGE_COUNT)
		return old + full + cost <= Q;
	if (m->rule.edge == SLUICE_EDGE_DROP)
		return full + cost <= Q;
	return full * P + old * (P - t % P) + (twin_wide)cost * P <= Q * P;
}

static bool admits(const struct model *m, twin_wide at, uint64_t cost) {
	const struct twin_rule *rule = &m->rule;
	uint64_t W = rule->window_ns, t = at > (twin_wide)UINT64_MAX ? UINT64_MAX : (uint64_t)at, window = t / W;
	twin_wide Q = rule->quota, c = cost;
	if (cost == 0)
		return true;
	if (rule->quota == 0)
		return false;
	switch (rule->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return held(m, t, window, window) + c <= Q;
	case SLUICE_SLIDING_WINDOW:
		return (window == 0 ? 0 : held(m, t, window - 1, window - 1)) * (twin_wide)(W - t % W) +
		           (held(m, t, window, window) + c) * W <=
		       Q * W;
	case SLUICE_SLIDING_BUCKETS:
		return subs_admit(m, t, cost);
	case SLUICE_SLIDING_LOG: /* in ms (t - W, t] */
		return held(m, t, t < W ? 0 : (t - W) / TWIN_MS + 1, UINT64_MAX) + c <= Q;
	default:
		return debt_at(m, at) + c * W <= (twin_wide)twin_quota(rule) * W;
	}
}

/* The first whole number of units after t at which `cost` fits, saturating as the library does. */
static uint64_t wait_for(const struct model *m, uint64_t t, uint64_t cost, uint64_t unit) {
	twin_wide low = 0, high = 1, most = (twin_wide)((SLUICE_NEVER - 1) / unit + ((SLUICE_NEVER - 1) % unit != 0));
	if (admits(m, t, cost))
		return 0;
	if (cost > twin_quota(&m->rule) || m->rule.quota == 0)
		return SLUICE_NEVER;
	while (high < most && !admits(m, t + high * (twin_wide)unit, cost)) {
		low = high;
		high *= 2;
	}
	while (high - low > 1) {
		twin_wide middle = (low + high) / 2;
		if (admits(m, t + middle * (twin_wide)unit, cost))
			high = middle;
		else
			low = middle;
	}
	return (uint64_t)(high < most ? high : most);
}

static struct twin_answer ask(const struct model *m, uint64_t now, uint64_t cost, uint64_t unit) {
	uint64_t t = model_clock(m, now), low = 0, high = (uint64_t)UINT32_MAX + 1, quota = twin_quota(&m->rule);
	struct twin_answer answer = {.allowed = admits(m, t, cost), .quota = m->rule.quota == 0 ? 0 : quota};
	if (!answer.allowed)
		answer.retry = wait_for(m, t, cost, unit);
	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;
		if (admits(m, t, middle))
			low = middle;
		else
			high = middle;
	}
	answer.remaining = (uint32_t)low;
	answer.reset = m->rule.quota == 0 ? 0 : wait_for(m, t, quota, unit);
	if (m->rule.algorithm == SLUICE_LEAKY_BUCKET && m->rule.quota != 0 && answer.allowed && cost != 0) {
		twin_wide wait = debt_at(m, t) + (twin_wide)(cost - 1) * m->rule.window_ns, Q = m->rule.quota;
		wait = wait / Q >= (twin_wide)SLUICE_NEVER ? (twin_wide)(SLUICE_NEVER - 1) * Q : wait;
		answer.delay = (uint64_t)((wait + Q * (twin_wide)unit - 1) / (Q * (twin_wide)unit));
	}
	return answer;
}

/* What counts at the last charge, or the window's count: the room below 2^32 above it. */
static uint64_t room_at(const struct model *m, uint64_t place) {
	uint64_t n, b = place_of(&m->rule, m->clock);
	switch (m->rule.algorithm) {
	case SLUICE_SLIDING_LOG:
		n = m->rule.window_ns;
		return UINT32_MAX - held(m, 0, m->exact < n ? 0 : (m->exact - n) / TWIN_MS + 1, UINT64_MAX);
	case SLUICE_SLIDING_BUCKETS:
		n = m->rule.window_ns / m->rule.precision_ns;
		if (b - place < n)
			return UINT32_MAX - held(m, 0, back(b, n - 1), b);
		break;
	default:
		break;
	}
	return UINT32_MAX - held(m, 0, place, place);
}

static void note(struct model *m, struct place event) {
	assert_true(m->places < PLACES_MAX);
	m->place[m->places++] = event;
}

static void model_correct(struct model *m, const struct open *of, uint64_t actual, uint64_t known) {
	struct place *place;
	uint64_t up = actual > of->cost ? actual - of->cost : 0, down = actual < of->cost ? of->cost - actual : 0, room;
	if (is_bucket(&m->rule)) {
		note(m, (struct place){known, up + down, up != 0 ? UP : DOWN, of->instant, of->debt});
		if (up != 0)
			set_clock(m, known);
		return;
	}
	place = find_place(m, place_of(&m->rule, of->instant));
	room = room_at(m, place->at);
	place->cost = place->cost - (down < place->cost ? down : place->cost) + (up < room ? up : room);
}

/* Returns what has ended for good. */
static void model_collect(struct model *m, uint64_t t) {
	size_t kept = 0;
	qsort(m->open, m->opens, sizeof *m->open, by_end);
	for (size_t i = 0; i < m->opens; i++) {
		if (m->open[i].end <= t)
			model_correct(m, &m->open[i], 0, m->open[i].end);
		else
			m->open[kept++] = m->open[i];
	}
	m->opens = kept;
}

static void model_charge(struct model *m, uint64_t t, uint64_t cost) {
	set_clock(m, t);
	if (is_bucket(&m->rule))
		note(m, (struct place){.at = t, .cost = cost});
	else
		find_place(m, place_of(&m->rule, t))->cost += cost;
}

/* A log keeps the newest units, as many as its quota or, if it held more, as it held. */
static void trim(struct model *m, uint64_t t, uint64_t keep) {
	uint64_t from = t < m->rule.window_ns ? 0 : (t - m->rule.window_ns) / TWIN_MS + 1;
	for (;;) {
		uint64_t used = held(m, 0, from, UINT64_MAX), over;
		struct place *oldest = NULL;
		if (used <= keep)
			return;
		for (size_t i = 0; i < m->places; i++)
			if (m->place[i].at >= from && m->place[i].cost != 0 && (oldest == NULL || m->place[i].at < oldest->at))
				oldest = &m->place[i];
		over = used - keep;
		oldest->cost -= over < oldest->cost ? over : oldest->cost;
	}
}

static void model_count(struct model *m, uint64_t t, uint64_t cost) {
	uint64_t used = 0, W = m->rule.window_ns, capacity = twin_quota(&m->rule);
	if (m->rule.quota == 0 || cost == 0)
		return;
	if (is_bucket(&m->rule)) {
		if (debt_at(m, t) >= (twin_wide)capacity * W) /* nothing is charged, and the clock stays */
			return;
		set_clock(m, t);
		note(m, (struct place){.at = t, .cost = cost, .kind = COUNT, .debt = capacity});
		return;
	}
	if (m->rule.algorithm == SLUICE_SLIDING_LOG) {
		used = held(m, 0, t < W ? 0 : (t - W) / TWIN_MS + 1, UINT64_MAX);
		cost = sl_min(sl_min(cost, m->rule.quota), UINT32_MAX - used);
	} else {
		uint64_t before = m->clock;
		m->clock = t; /* for the room there will be */
		cost = sl_min(cost, room_at(m, place_of(&m->rule, t)));
		m->clock = cost != 0 ? t : before;
	}
	if (cost == 0)
		return;
	model_charge(m, t, cost);
	if (m->rule.algorithm == SLUICE_SLIDING_LOG)
		trim(m, t, used > m->rule.quota ? used : m->rule.quota);
}

static void model_refund(struct model *m, uint64_t t, uint64_t cost) {
	const struct twin_rule *rule = &m->rule;
	uint64_t now = place_of(rule, t), from = now, W = rule->window_ns;
	if (is_bucket(rule)) {
		if (m->places != 0)
			note(m, (struct place){.at = t, .cost = cost, .kind = REFUND});
		return;
	}
	if (rule->algorithm == SLUICE_SLIDING_WINDOW)
		from = back(now, 1);
	else if (rule->algorithm == SLUICE_SLIDING_BUCKETS)
		from = back(now, W / rule->precision_ns - (rule->edge == SLUICE_EDGE_DROP));
	else if (rule->algorithm == SLUICE_SLIDING_LOG)
		from = t < W ? 0 : (t - W) / TWIN_MS + 1;
	for (;;) {
		struct place *newest = NULL;
		uint64_t taken;
		for (size_t i = 0; i < m->places; i++)
			if (m->place[i].at >= from && m->place[i].cost != 0 && (newest == NULL || m->place[i].at > newest->at))
				newest = &m->place[i];
		if (newest == NULL || cost == 0)
			return;
		taken = cost < newest->cost ? cost : newest->cost;
		newest->cost -= taken;
		cost -= taken;
	}
}

/* ---- the host in miniature --------------------------------------------------------------------------------------- */

struct world {
	struct dice dice;
	struct sluice_limit limit;
	struct sl_counter counter;
	struct sl_reservation list[PLACES_MAX];
	struct sl_ledger ledger;
	struct model model;
	uint64_t stream, op, unit, now, ids;
	const char *last;
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / 8 + 1];
};

static void differ(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&w->limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " operation %" PRIu64 " (%s) at %" PRIu64
	         " under %s: %s %" PRIu64 ", twin %" PRIu64,
	         dice_seed(), w->stream, w->op, w->last, w->now, text, what, got, expected);
}

static void same(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	if (got != expected)
		differ(w, what, got, expected);
}

static uint64_t units(const struct world *w, sluice_ns wait) {
	return wait == SLUICE_NEVER ? SLUICE_NEVER : wait / w->unit + (wait % w->unit != 0);
}

static void compare(const struct world *w, const struct sluice_decision *d, const struct twin_answer *a) {
	same(w, "allowed", d->allowed, a->allowed);
	same(w, "remaining", d->remaining, a->remaining);
	same(w, "quota", d->quota, a->quota);
	same(w, "retry_after", units(w, d->retry_after_ns), a->retry);
	same(w, "reset_after", units(w, d->reset_after_ns), a->reset);
	same(w, "delay", units(w, d->delay_ns), a->delay);
}

static struct sluice_decision decide(struct world *w, uint64_t cost) {
	struct sluice_decision decision = {0};
	struct twin_answer answer = ask(&w->model, w->now, cost, w->unit);
	same(w, "the counter's clock", sl_step_instant(&w->limit, &w->counter, w->now), model_clock(&w->model, w->now));
	sl_ledger_step(&w->limit, &w->counter, &w->ledger, w->now, cost, w->scratch, &decision);
	compare(w, &decision, &answer);
	return decision;
}

static void set_block(struct world *w, struct sl_counter *counter, void *block, uint64_t bytes) {
	if (w->counter.block != block)
		free(w->counter.block);
	w->counter = *counter;
	w->counter.block = block;
	w->counter.block_bytes = bytes;
	if (!sl_counter_is_valid(&w->limit, &w->counter))
		differ(w, "is valid", 0, 1);
}

static void correct(struct world *w, const struct sl_correction *list, uint32_t count) {
	struct sl_counter counter = w->counter;
	uint32_t above = 0;
	uint64_t bytes;
	void *block, *copy = NULL;
	for (uint32_t i = 0; i < count; i++)
		above += list[i].actual > list[i].charged;
	bytes = (sl_correct_bytes(&w->limit, &counter, above) + 7) / 8 * 8;
	block = bytes != 0 ? malloc(bytes) : NULL;
	if (w->counter.block != NULL) {
		copy = malloc(w->counter.block_bytes);
		memcpy(copy, w->counter.block, w->counter.block_bytes);
	}
	if (sl_correct(&w->limit, &counter, list, count, block, bytes)) {
		if (copy != NULL)
			assert_memory_equal(copy, w->counter.block, w->counter.block_bytes);
		set_block(w, &counter, bytes != 0 ? block : w->counter.block, bytes != 0 ? bytes : w->counter.block_bytes);
	} else {
		assert_memory_equal(&counter.state, &w->counter.state, sizeof counter.state);
		assert_ptr_equal(counter.block, w->counter.block);
		free(block);
	}
	free(copy);
}

static void collect(struct world *w, uint64_t t) {
	struct sl_correction list[PLACES_MAX];
	uint32_t ended = sl_ledger_ended(&w->ledger, t);
	for (uint32_t i = 0; i < ended; i++)
		list[i] = sl_ledger_return(&w->list[i]);
	if (ended != 0)
		correct(w, list, ended);
	memmove(w->list, w->list + ended, (w->ledger.count - ended) * sizeof *w->list);
	w->ledger.count -= ended;
	model_collect(&w->model, t);
}

/* Writes a charge into the block, in the present one where it need not grow. */
static void write_charge(struct world *w, uint32_t cost) {
	struct sl_counter counter = w->counter;
	uint64_t bytes = (sl_step_block_bytes(&w->limit, &counter, cost) + 7) / 8 * 8;
	void *block = bytes != 0 ? malloc(bytes) : NULL;
	if (bytes == 0)
		(void)sl_step_prepare(&w->limit, &counter);
	sl_step_write(&w->limit, &counter, w->now, cost, block, bytes);
	set_block(w, &counter, bytes != 0 ? block : w->counter.block, bytes != 0 ? bytes : w->counter.block_bytes);
}

static void reserve(struct world *w, uint32_t cost, uint64_t ttl) {
	uint64_t t = model_clock(&w->model, w->now);
	struct sl_reservation its = {.id = ++w->ids, .cost = cost};
	struct sluice_decision decision = decide(w, cost), charged;
	uint32_t at = 0;
	if (!decision.allowed || cost == 0)
		return;
	collect(w, t);
	sl_step(&w->limit, &w->counter, w->now, cost, true, &charged);
	same(w, "admitted as it was decided", charged.allowed, true);
	if (sl_rule_has_block(&w->limit))
		write_charge(w, cost);
	model_charge(&w->model, t, cost);
	its.instant = sl_step_instant(&w->limit, &w->counter, w->now);
	same(w, "the instant of the charge", its.instant, t);
	if (ttl == 0)
		return;
	its.end = its.instant + ttl;
	its.debt = sl_ledger_debt(&w->limit, &w->counter, w->now);
	while (at < w->ledger.count && w->list[at].end <= its.end)
		at++;
	memmove(w->list + at + 1, w->list + at, (w->ledger.count - at) * sizeof *w->list);
	w->list[at] = its;
	w->ledger.count++;
	w->model.open[w->model.opens++] = (struct open){its.id, t, t + ttl, cost, 0};
	if (is_bucket(&w->model.rule)) {
		twin_wide debt = debt_at(&w->model, t) / (twin_wide)w->model.rule.window_ns;
		w->model.open[w->model.opens - 1].debt = debt > UINT32_MAX ? UINT32_MAX : (uint64_t)debt;
	}
	same(w, "the debt behind the charge", its.debt, w->model.open[w->model.opens - 1].debt);
}

static void commit(struct world *w, uint64_t id, uint32_t actual) {
	uint64_t t = model_clock(&w->model, w->now);
	int64_t at = sl_ledger_find(&w->ledger, id, t);
	struct sl_correction correction;
	size_t k = 0;
	while (k < w->model.opens && (w->model.open[k].id != id || w->model.open[k].end <= t))
		k++;
	same(w, "found", at >= 0, k < w->model.opens);
	if (at < 0)
		return;
	collect(w, t);
	at = sl_ledger_find(&w->ledger, id, t);
	correction = sl_ledger_return(&w->list[at]);
	correction.known = t;
	correction.actual = actual;
	correct(w, &correction, 1);
	memmove(w->list + at, w->list + at + 1, (w->ledger.count - (size_t)at - 1) * sizeof *w->list);
	w->ledger.count--;
	for (k = 0; w->model.open[k].id != id;)
		k++;
	{
		struct open its = w->model.open[k];
		w->model.open[k] = w->model.open[--w->model.opens];
		if (actual != its.cost)
			model_correct(&w->model, &its, actual, t);
	}
}

static void count(struct world *w, uint32_t cost) {
	uint64_t t = model_clock(&w->model, w->now);
	struct sluice_decision decision = decide(w, cost), counted = decision;
	struct twin_answer answer;
	uint32_t charged;
	collect(w, t);
	charged = sl_step_count(&w->limit, &w->counter, w->now, cost);
	if (charged != 0 && sl_rule_has_block(&w->limit)) {
		write_charge(w, charged);
		while (sl_step_trim(&w->limit, &w->counter, w->now))
			set_block(w, &w->counter, w->counter.block, w->counter.block_bytes);
	}
	model_count(&w->model, t, cost);
	if (w->ledger.count != 0)
		return;
	sl_step_counted(&w->limit, &w->counter, w->now, cost, &counted);
	answer = ask(&w->model, w->now, cost, w->unit);
	answer.allowed = decision.allowed;
	answer.retry = decision.allowed ? 0 : answer.retry;
	answer.delay = units(w, decision.delay_ns);
	compare(w, &counted, &answer);
}

static void refund(struct world *w, uint32_t cost) {
	uint64_t t = model_clock(&w->model, w->now);
	if (w->counter.state.w[0] == 0 && w->counter.state.w[1] == 0)
		return;
	collect(w, t);
	(void)sl_step_prepare_refund(&w->limit, &w->counter, w->now, &cost);
	(void)sl_step_refund(&w->limit, &w->counter, w->now, cost);
	set_block(w, &w->counter, w->counter.block, w->counter.block_bytes);
}

/* ---- streams ------------------------------------------------------------------------------------------------------ */

static uint64_t some_ttl(struct world *w) {
	uint64_t W = w->model.rule.window_ns / w->unit, ttl;
	switch (dice_below(&w->dice, 6)) {
	case 0:
		ttl = 1 + dice_below(&w->dice, 5);
		break;
	case 1:
		ttl = W;
		break;
	case 2:
		ttl = W + dice_below(&w->dice, 2 * W);
		break;
	default:
		ttl = 1 + dice_below(&w->dice, W);
	}
	return ttl * w->unit;
}

static void pass_time(struct world *w) {
	uint64_t W = w->model.rule.window_ns, unit = w->unit, t = w->now, k = w->ledger.count;
	switch (dice_below(&w->dice, 9)) {
	case 0:
	case 1:
		return;
	case 2:
		t = k == 0 ? t : w->list[dice_below(&w->dice, k)].end - dice_below(&w->dice, 2) * unit;
		break;
	case 3:
		t += dice_below(&w->dice, W / unit + 1) * unit;
		break;
	case 4:
		t = (t / W + 1) * W - dice_below(&w->dice, 2) * unit;
		break;
	case 5:
		t = dice_one_in(&w->dice, 6) ? t - dice_below(&w->dice, W / unit + 1) * unit
		                             : t + dice_below(&w->dice, W / unit / 50 + 2) * unit;
		break;
	default:
		t += dice_below(&w->dice, W / unit / 20 + 2) * unit;
	}
	if (t < ((uint64_t)1 << 60) && (t > W || t > w->now))
		w->now = t;
}

static uint64_t some_id(struct world *w) {
	if (w->ledger.count == 0 || dice_one_in(&w->dice, 8))
		return 1 + dice_below(&w->dice, w->ids + 2);
	return w->list[dice_below(&w->dice, w->ledger.count)].id;
}

static uint32_t some_actual(struct world *w, uint64_t quota) {
	uint32_t cost = dice_cost(&w->dice, quota);
	switch (dice_below(&w->dice, 4)) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)(1 + dice_below(&w->dice, 4));
	default:
		return cost;
	}
}

/* What a counter may hold is above its quota from here on, or its edge is another; a bucket keeps its rate. */
static void change_limit(struct world *w) {
	struct twin_rule *rule = &w->model.rule;
	struct twin_rule other = dice_rule(&w->dice, rule->algorithm, (sluice_edge)dice_below(&w->dice, 3));
	if (other.quota == 0 || rule->quota == 0)
		return;
	if (is_bucket(rule)) {
		rule->burst = other.burst;
	} else {
		rule->quota = other.quota;
		rule->edge = rule->algorithm == SLUICE_SLIDING_BUCKETS ? other.edge : rule->edge;
	}
	w->limit = rule_limit(rule);
}

static void step(struct world *w) {
	uint64_t quota = twin_quota(&w->model.rule);
	uint32_t cost = dice_cost(&w->dice, quota);
	struct sluice_decision decision;
	pass_time(w);
	switch (dice_below(&w->dice, 16)) {
	case 0:
	case 1:
		w->last = "peek";
		decision = decide(w, dice_one_in(&w->dice, 9) ? (uint64_t)UINT32_MAX + 1 : cost);
		if (!decision.allowed && decision.retry_after_ns < SLUICE_NEVER / 1024 && w->unit == TWIN_NS)
			w->now = model_clock(&w->model, w->now) + decision.retry_after_ns - dice_below(&w->dice, 2);
		return;
	case 2:
	case 3:
		w->last = "charge";
		reserve(w, cost, 0);
		return;
	case 4:
	case 5:
	case 6:
	case 7:
		w->last = "commit";
		commit(w, some_id(w), some_actual(w, quota));
		return;
	case 8:
		w->last = "count";
		count(w, cost);
		return;
	case 9:
		w->last = "refund";
		/* Of a log only while nothing is reserved: what ended may seem to hold more (ledger.h). */
		if (dice_one_in(&w->dice, 4) && (w->ledger.count == 0 || w->model.rule.algorithm != SLUICE_SLIDING_LOG)) {
			refund(w, cost);
			model_refund(&w->model, model_clock(&w->model, w->now), cost);
		}
		return;
	case 10:
		if (dice_one_in(&w->dice, 10))
			change_limit(w);
		return;
	default:
		w->last = "reserve";
		reserve(w, cost, some_ttl(w));
	}
}

static void run_stream(uint64_t number, sluice_algorithm algorithm, sluice_edge edge, bool ns) {
	static struct world w;
	memset(&w, 0, sizeof w);
	w.dice = dice_of(dice_seed(), 63000000 + number);
	w.stream = number;
	w.model.rule = dice_rule(&w.dice, algorithm, edge);
	w.limit = rule_limit(&w.model.rule);
	w.ledger.list = w.list;
	w.unit = ns && (!is_bucket(&w.model.rule) || w.limit.derived[SL_TICK_NS] == 1) ? TWIN_NS : TWIN_MS;
	w.now = ((uint64_t)1767225600 << (number % 3 == 0 ? 0 : 1)) * 1000000000 + (w.unit == 1 ? number * 7 : 0);
	w.now = w.now > 2 * w.model.rule.window_ns ? w.now : 2 * w.model.rule.window_ns;
	if (is_bucket(&w.model.rule) && w.model.rule.quota != 0) {
		uint64_t tick = w.limit.derived[SL_TICK_NS];
		w.model.most = ((((twin_wide)1 << (tick == 1 ? 0 : tick == 1000 ? 9 : 19)) << 64) - 1) * (twin_wide)tick;
	}
	for (w.op = 0; w.op < STREAM_OPS && w.model.places < PLACES_MAX - 256; w.op++)
		step(&w);
	free(w.counter.block);
}

static const struct {
	sluice_algorithm algorithm;
	sluice_edge edge;
} which[] = {
	{SLUICE_FIXED_WINDOW, 0},
	{SLUICE_SLIDING_WINDOW, 0},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_COUNT},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_DROP},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_WEIGHTED},
	{SLUICE_SLIDING_LOG, 0},
	{SLUICE_TOKEN_BUCKET, 0},
	{SLUICE_LEAKY_BUCKET, 0},
};

static void every_algorithm_against_its_twin(void **state) {
	uint64_t ops = getenv("SLUICE_SOAK_SECONDS") != NULL ? DICE_MILLION : dice_ops(DICE_MILLION / 4);
	(void)state;
	for (uint64_t i = 0; i * STREAM_OPS < ops || i < 16; i++)
		run_stream(i, which[i % 8].algorithm, which[i % 8].edge, i / 8 % 2 == 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_against_its_twin),
	};
	dice_seed();
	return cmocka_run_group_tests_name("reservations against their twin", tests, NULL, NULL);
}
