/* See ledger_twin.h; each function here is a sentence of docs/design/012. */
#include "tests/model/ledger_twin.h"

#include "base/assert.h"
#include "base/math.h"
#include "tests/model/histories.h"

#include <stdlib.h>
#include <string.h>

bool model_is_bucket(const struct twin_rule *rule) {
	return rule->algorithm == SLUICE_TOKEN_BUCKET || rule->algorithm == SLUICE_LEAKY_BUCKET;
}

static uint64_t place_of(const struct twin_rule *rule, uint64_t t) {
	switch (rule->algorithm) {
	case SLUICE_SLIDING_LOG:
		return (t + TWIN_MS - 1) / TWIN_MS;
	case SLUICE_SLIDING_BUCKETS:
		return t / rule->precision_ns;
	default:
		return model_is_bucket(rule) ? t : t / rule->window_ns;
	}
}

uint64_t model_clock(const struct model *m, uint64_t now) {
	if (m->rule.algorithm == SLUICE_SLIDING_LOG) /* kept at the end of its ms, within which time has not gone back */
		return place_of(&m->rule, now) < m->clock / TWIN_MS ? m->clock : now;
	return now > m->clock ? now : m->clock;
}

/* Of a log: whether a place had left when the last charge was made. It may be charged again by a correction, as long
 * as it is within W of that charge's millisecond: then it is marked UP, and counts for the room. */
static bool has_left(const struct model *m, const struct place *place) {
	return place->at * TWIN_MS + m->rule.window_ns <= m->exact;
}

static void set_clock(struct model *m, uint64_t t) {
	m->exact = t > m->exact ? t : m->exact;
	for (size_t i = 0; i < m->places && m->rule.algorithm == SLUICE_SLIDING_LOG; i++)
		if (m->place[i].kind == UP && m->place[i].at * TWIN_MS + m->rule.window_ns <= t)
			m->place[i].kind = CHARGE;
	m->clock = m->rule.algorithm == SLUICE_SLIDING_LOG ? place_of(&m->rule, t) * TWIN_MS : t;
}

static struct place *find_place(struct model *m, uint64_t at) {
	for (size_t i = 0; i < m->places; i++)
		if (m->place[i].at == at)
			return &m->place[i];
	SL_ASSERT(m->places < PLACES_MAX);
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

struct twin_answer model_ask(const struct model *m, uint64_t now, uint64_t cost, uint64_t unit) {
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
	if (m->rule.algorithm == SLUICE_SLIDING_LOG && answer.reset > m->rule.window_ns / unit)
		answer.reset = m->rule.window_ns / unit; /* whatever its instants are rounded to */
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
		b = held(m, 0, m->exact < n ? 0 : (m->exact - n) / TWIN_MS + 1, UINT64_MAX);
		for (size_t i = 0; i < m->places; i++)
			b += m->place[i].kind == UP && has_left(m, &m->place[i]) && m->place[i].at * TWIN_MS + n >= m->clock
			         ? m->place[i].cost
			         : 0;
		return UINT32_MAX - b;
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

static void add_event(struct model *m, struct place event) {
	SL_ASSERT(m->places < PLACES_MAX);
	m->place[m->places++] = event;
}

static void correct(struct model *m, const struct open *of, uint64_t actual, uint64_t known) {
	struct place *place;
	uint64_t up = actual > of->cost ? actual - of->cost : 0, down = actual < of->cost ? of->cost - actual : 0, room;
	if (model_is_bucket(&m->rule)) {
		add_event(m, (struct place){known, up + down, up != 0 ? UP : DOWN, of->instant, of->debt});
		if (up != 0)
			set_clock(m, known);
		return;
	}
	place = find_place(m, place_of(&m->rule, of->instant));
	if (up != 0 && m->rule.algorithm == SLUICE_SLIDING_LOG && has_left(m, place) && place->kind != UP)
		*place = (struct place){.at = place->at, .kind = UP};
	room = room_at(m, place->at);
	place->cost = place->cost - (down < place->cost ? down : place->cost) + (up < room ? up : room);
}

/* Returns what has ended for good. */
void model_collect(struct model *m, uint64_t t) {
	size_t kept = 0;
	qsort(m->open, m->opens, sizeof *m->open, by_end);
	for (size_t i = 0; i < m->opens; i++) {
		if (m->open[i].end <= t)
			correct(m, &m->open[i], 0, m->open[i].end);
		else
			m->open[kept++] = m->open[i];
	}
	m->opens = kept;
}

void model_charge(struct model *m, uint64_t t, uint64_t cost) {
	set_clock(m, t);
	if (model_is_bucket(&m->rule))
		add_event(m, (struct place){.at = t, .cost = cost});
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

void model_count(struct model *m, uint64_t t, uint64_t cost) {
	uint64_t used = 0, W = m->rule.window_ns, capacity = twin_quota(&m->rule);
	if (m->rule.quota == 0 || cost == 0)
		return;
	if (model_is_bucket(&m->rule)) {
		if (debt_at(m, t) >= (twin_wide)capacity * W) /* nothing is charged, and the clock stays */
			return;
		set_clock(m, t);
		add_event(m, (struct place){.at = t, .cost = cost, .kind = COUNT, .debt = capacity});
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

void model_refund(struct model *m, uint64_t t, uint64_t cost) {
	const struct twin_rule *rule = &m->rule;
	uint64_t now = place_of(rule, t), from = now, W = rule->window_ns;
	if (model_is_bucket(rule)) {
		if (m->places != 0)
			add_event(m, (struct place){.at = t, .cost = cost, .kind = REFUND});
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

void model_start(struct model *m, const struct twin_rule *rule, uint64_t tick_ns) {
	*m = (struct model){.rule = *rule};
	if (model_is_bucket(rule) && rule->quota != 0)
		m->most = ((((twin_wide)1 << (tick_ns == 1 ? 0 : tick_ns == 1000 ? 9 : 19)) << 64) - 1) * (twin_wide)tick_ns;
}

uint64_t model_debt(const struct model *m, uint64_t t) {
	twin_wide debt = model_is_bucket(&m->rule) ? debt_at(m, t) / (twin_wide)m->rule.window_ns : 0;
	return debt > UINT32_MAX ? UINT32_MAX : (uint64_t)debt;
}

void model_reserve(struct model *m, uint64_t t, uint64_t cost, uint64_t id, uint64_t end) {
	model_charge(m, t, cost);
	SL_ASSERT(m->opens < PLACES_MAX);
	m->open[m->opens] = (struct open){id, t, end, cost, model_debt(m, t)};
	m->opens++;
}

static size_t find_open(const struct model *m, uint64_t id, uint64_t t) {
	size_t k = 0;
	while (k < m->opens && (m->open[k].id != id || m->open[k].end <= t))
		k++;
	return k;
}

bool model_is_open(const struct model *m, uint64_t id, uint64_t t) {
	return find_open(m, id, t) < m->opens;
}

void model_commit(struct model *m, uint64_t id, uint64_t actual, uint64_t t) {
	size_t k = find_open(m, id, t);
	struct open its;
	SL_ASSERT(k < m->opens);
	its = m->open[k];
	m->open[k] = m->open[--m->opens];
	if (actual != its.cost)
		correct(m, &its, actual, t);
}

/* ---- packed ------------------------------------------------------------------------------------------------------ */

void model_recall(struct model *m, const struct kept *kept) {
	m->clock = kept->clock;
	m->exact = kept->exact;
	m->places = kept->places;
	m->opens = kept->opens;
	memcpy(m->place, kept->place, kept->places * sizeof *m->place);
	memcpy(m->open, kept->open, kept->opens * sizeof *m->open);
}

static int by_id(const void *a, const void *b) {
	const struct open *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

void model_keep(struct kept *kept, struct model *m) {
	const bool in_order = model_is_bucket(&m->rule);
	memset(kept, 0, sizeof *kept);
	kept->clock = m->clock;
	kept->exact = m->exact;
	for (size_t i = 0; i < m->places; i++) {
		if (m->place[i].cost == 0 && !in_order && m->place[i].kind != UP)
			continue;
		SL_ASSERT(kept->places < KEPT_MAX);
		kept->place[kept->places++] = m->place[i];
	}
	SL_ASSERT(m->opens <= KEPT_MAX);
	kept->opens = m->opens;
	qsort(m->open, m->opens, sizeof *m->open, by_id);
	memcpy(kept->open, m->open, m->opens * sizeof *m->open);
}

void model_see(const struct kept *kept, uint64_t seen[2]) {
	const uint64_t words[] = {kept->clock, kept->exact, kept->places, kept->opens};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		histories_mix(seen, words[i]);
	for (size_t i = 0; i < kept->places; i++) {
		const struct place *p = &kept->place[i];
		histories_mix(seen, p->at);
		histories_mix(seen, p->cost << 8 | p->kind);
		histories_mix(seen, p->instant);
		histories_mix(seen, p->debt);
	}
	for (size_t i = 0; i < kept->opens; i++) {
		const struct open *o = &kept->open[i];
		histories_mix(seen, o->id);
		histories_mix(seen, o->instant);
		histories_mix(seen, o->end);
		histories_mix(seen, o->cost << 32 | o->debt);
	}
}
