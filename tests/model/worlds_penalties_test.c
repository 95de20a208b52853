/* Small worlds of penalties: every history of some calls on one counter whose limit has an escalation, each answer held
 * against the page that promises it (docs/limits.md, "What a denial does") read as a formula over the list of denials,
 * and the limit's own decision against the slow ledger (ledger_twin.h). Nothing of src/algo is shared.
 *
 * Of denials d1, d2, .. of a key, each noted at its instant and none of them during a penalty, with the penalty p(i)
 * that the i-th began, or 0:
 *
 *   end(t)     the last d(i) with a penalty, and p(i) after it: while t is before that, every cost is denied
 *   counts(t)  those since the last one with a penalty that are less than `within` old
 *   level(i)   0 if d(i) is `forgive` or more after the later of d(i - 1) and the end of what that began, else
 *              level(i - 1); and one more if d(i) begins a penalty
 *   p(i)       where counts(d(i)) with d(i) is `after`: penalty number level(i - 1), forgiven as above; or the last
 *
 * After every call the standing of the key is read, and has to be that. A penalty that was imposed before the terms
 * were changed lasts no longer than the longest of those that hold now (algo/terms.h).
 *
 * Calls: a charge of each cost up to one more than the quota, a part (UPTO), a refund, a reservation that ends, and a
 * reset; each after every wait up to the longest that matters, and after one ms back; with terms that change once.
 * Before each charge or reservation the same is asked by a peek, which changes nothing; nor does a denial during a
 * penalty.
 *
 * SLUICE_WORLDS: only those of algorithms whose name begins so. SLUICE_SOAK_SECONDS: larger worlds, minutes. */
#include "tests/model/histories.h"
#include "tests/model/ledger_twin.h"
#include "tests/model/letters.h"
#include "tests/model/probe.h"

#include "algo/rule.h"
#include "base/bytes.h"
#include "base/math.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALPHABET_MAX = 512, STEPS_MAX = 3, WINDOW_MS = 2 };
#define BASE_MS UINT64_C(1764000000000)

/* An escalation in ms. */
struct escalation {
	uint32_t after, within, forgive, steps, step[STEPS_MAX];
};

struct call {
	struct letter letter;
	bool changed; /* under the terms after their change */
};

struct world {
	struct twin_rule rule;
	struct sluice_limit limit;
	const struct escalation *escalations[2]; /* before and after the change */
	struct sluice_terms terms[2];
	twin_wide most;   /* of struct model */
	uint64_t unit_ns; /* in which waits are compared */
	size_t letters;
	struct call alphabet[ALPHABET_MAX];
	uint64_t page;
	struct sluice_store *store;
};

/* A denial that was noted, in ms since BASE_MS. */
struct denial {
	uint32_t at, penalty, level; /* penalty: that began with it; level: how many, and not forgiven then */
};

struct spot {
	struct history history;
	uint64_t start_ms, now_ms;
	bool changed;
	uint8_t denials;
	struct denial denial[HISTORIES_CALLS_MAX];
	struct kept kept;
};

static void see_spot(struct spot *spot) {
	histories_mix(spot->history.seen, spot->now_ms << 1 | spot->changed);
	histories_mix(spot->history.seen, spot->denials);
	for (size_t i = 0; i < spot->denials; i++) {
		const struct denial *d = &spot->denial[i];
		histories_mix(spot->history.seen, (uint64_t)d->at << 32 | d->penalty << 16 | d->level);
	}
	model_see(&spot->kept, spot->history.seen);
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

static uint32_t longest(const struct escalation *e) {
	return e->step[e->steps - 1];
}

/* Until when the key is locked out, whether or not that has passed; 0: it never was. */
static uint32_t end_of(const struct spot *s, const struct escalation *e) {
	uint32_t end = 0;
	for (size_t i = 0; i < s->denials; i++) {
		const struct denial *d = &s->denial[i];
		uint32_t penalty = d->penalty < longest(e) ? d->penalty : longest(e);
		end = penalty != 0 ? d->at + penalty : end;
	}
	return end;
}

static uint32_t strikes_clock(const struct spot *s, uint64_t now_ms) {
	uint32_t now = (uint32_t)(now_ms - BASE_MS), last = s->denials != 0 ? s->denial[s->denials - 1].at : 0;
	return now > last ? now : last;
}

static uint32_t counting(const struct spot *s, const struct escalation *e, uint32_t t) {
	uint32_t count = 0;
	for (size_t i = 0; i < s->denials; i++)
		count = s->denial[i].penalty != 0 ? 0 : count + (t - s->denial[i].at < e->within);
	return count;
}

static uint32_t forgiven_at(const struct spot *s, const struct escalation *e) {
	uint32_t end = end_of(s, e), last = s->denial[s->denials - 1].at;
	return (end > last ? end : last) + e->forgive;
}

static uint32_t level_at(const struct spot *s, const struct escalation *e, uint32_t t) {
	return s->denials == 0 || t >= forgiven_at(s, e) ? 0 : s->denial[s->denials - 1].level;
}

/* What is left of the penalty at `t`. */
static uint32_t left_at(const struct spot *s, const struct escalation *e, uint32_t t) {
	uint32_t end = end_of(s, e);
	return end > t ? end - t : 0;
}

/* Notes a denial of somebody who is not locked out. Returns whether a penalty begins. */
static bool note(struct spot *s, const struct escalation *e, uint32_t t) {
	struct denial d = {.at = t, .level = level_at(s, e, t)};
	assert_true(s->denials < HISTORIES_CALLS_MAX && left_at(s, e, t) == 0);
	if (counting(s, e, t) + 1 >= e->after)
		d.penalty = e->step[d.level < e->steps ? d.level : e->steps - 1];
	d.level += d.penalty != 0;
	s->denial[s->denials++] = d;
	return d.penalty != 0;
}

/* What the penalty makes of the limit's own answer. */
static void lock_out(const struct world *w, struct twin_answer *answer, uint32_t left_ms, uint64_t cost) {
	uint64_t left = left_ms * (uint64_t)TWIN_MS / w->unit_ns;
	if (left == 0)
		return;
	answer->remaining = 0;
	answer->delay = 0;
	answer->reset = answer->reset > left ? answer->reset : left;
	if (cost == 0)
		return;
	answer->allowed = false;
	answer->retry = answer->retry > left ? answer->retry : left;
}

struct expected {
	struct twin_answer answer;
	uint32_t granted;
	bool penalized;
};

static void take(const struct world *w, struct model *m, uint64_t now, const struct letter *l, struct expected *e) {
	uint64_t t = model_clock(m, now), delay = e->answer.delay;
	model_collect(m, t);
	if (l->operation == SLUICE_RESERVE)
		model_reserve(m, t, e->granted, l->id, t + l->life_ms * (uint64_t)TWIN_MS);
	else
		model_charge(m, t, e->granted);
	e->answer = model_ask(m, now, 0, w->unit_ns);
	e->answer.delay = delay;
}

/* A charge or a reservation, or a peek for it, which leaves all as it is. */
static struct expected expect(const struct world *w, struct model *m, struct spot *s, const struct call *call,
                              uint64_t now_ms, bool peek) {
	const struct escalation *terms = w->escalations[call->changed];
	const struct letter *l = &call->letter;
	uint64_t now = now_ms * TWIN_MS;
	uint32_t t = strikes_clock(s, now_ms), left = left_at(s, terms, t), cost = l->cost;
	struct expected e = {.granted = l->cost};
	if (l->upto) {
		uint32_t free = left != 0 ? 0 : model_ask(m, now, 1, w->unit_ns).remaining;
		e.granted = free < e.granted ? free : e.granted;
		cost = e.granted != 0 ? e.granted : 1;
	}
	e.answer = model_ask(m, now, cost, w->unit_ns);
	if (e.answer.allowed && left == 0) {
		if (!peek)
			take(w, m, now, l, &e);
		return e;
	}
	e.granted = 0;
	if (!peek && w->terms[call->changed].count_denied) {
		model_collect(m, model_clock(m, now));
		model_count(m, model_clock(m, now), cost);
		e.answer = model_ask(m, now, cost, w->unit_ns);
		e.answer.remaining = model_ask(m, now, 0, w->unit_ns).remaining;
		e.answer.allowed = false;
		e.answer.delay = 0;
	}
	if (!peek && left == 0)
		e.penalized = note(s, terms, t);
	lock_out(w, &e.answer, left_at(s, terms, t), cost);
	return e;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static struct sluice_item item_of(const struct world *w, bool changed) {
	return (struct sluice_item){.limit = &w->limit, .key = sl_str("a"), .terms = &w->terms[changed]};
}

static struct sluice_call ask(const struct world *w, const struct call *call, sluice_operation operation,
                              uint64_t now_ms) {
	static struct sluice_decision each; /* read by the call's caller, before it asks again */
	const struct sluice_item item = item_of(w, call->changed);
	return letter_ask(w->store, &call->letter, operation, now_ms, &item, 1, &each);
}

static void differ(const struct world *w, const struct spot *from, const struct call *last, const char *what) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	uint64_t now = from->start_ms;
	rule_print(&w->rule, text, sizeof text);
	fprintf(stderr, "%s%s\n", text, w->terms[0].count_denied ? ", count-denied" : "");
	for (int i = 0; i < 2; i++) {
		const struct escalation *e = w->escalations[i];
		fprintf(stderr, "%s penalty: %" PRIu32 " of", i == 0 ? "first" : "then", e->steps);
		for (uint32_t k = 0; k < e->steps; k++)
			fprintf(stderr, " %" PRIu32, e->step[k]);
		fprintf(stderr, " ms after %" PRIu32 " denials in %" PRIu32 " ms forgive %" PRIu32 " ms\n", e->after, e->within,
		        e->forgive);
	}
	for (size_t k = 0; k <= from->history.depth; k++) {
		const struct call *c = k < from->history.depth ? &w->alphabet[from->history.calls[k]] : last;
		now += (uint64_t)(int64_t)c->letter.wait_ms;
		fprintf(stderr, "%s", c->changed ? "  then" : "");
		letter_print(&c->letter, now - BASE_MS);
	}
	fail_msg("%s", what);
}

static void compare(const struct world *w, const struct spot *from, const struct call *c,
                    const struct sluice_call *call, const struct expected *e) {
	const struct sluice_decision *said[] = {&call->merged, call->each}; /* the limit says a delay of a denial, too */
	for (size_t i = 0; i < 2; i++) {
		const char *what = twin_difference(&e->answer, &w->rule, said[i], false, w->unit_ns);
		if (what != NULL)
			differ(w, from, c, what);
	}
	if (letter_takes(&c->letter) && call->granted != e->granted)
		differ(w, from, c, "granted");
	if ((call->penalized != 0) != e->penalized)
		differ(w, from, c, "penalized");
}

/* How the key stands after the last of the calls, which is `c`. */
static void compare_standing(const struct world *w, const struct spot *from, const struct call *c,
                             const struct spot *to) {
	const struct escalation *e = w->escalations[c->changed];
	const struct sluice_item item = item_of(w, c->changed);
	struct sluice_standing got = sluice_standing(w->store, &item, to->now_ms * TWIN_MS);
	uint32_t t = strikes_clock(to, to->now_ms), level = level_at(to, e, t);
	uint32_t forgiven = level != 0 ? forgiven_at(to, e) - t : 0;
	if (got.denials != counting(to, e, t))
		differ(w, from, c, "standing: denials");
	if (got.ends_after_ns != left_at(to, e, t) * (uint64_t)TWIN_MS)
		differ(w, from, c, "standing: the end of the penalty");
	if (got.level != level || got.forgiven_after_ns != forgiven * (uint64_t)TWIN_MS)
		differ(w, from, c, "standing: the level");
}

static void play(const struct world *w, const struct spot *spot) {
	const struct call none = {0};
	uint64_t now = spot->start_ms;
	(void)ask(w, &none, SLUICE_RESET, now);
	for (size_t k = 0; k < spot->history.depth; k++) {
		const struct call *c = &w->alphabet[spot->history.calls[k]];
		now += (uint64_t)(int64_t)c->letter.wait_ms;
		(void)ask(w, c, c->letter.operation, now);
	}
}

static void see_store(const struct world *w, uint64_t seen[2]) {
	seen[0] = seen[1] = 0;
	histories_see(w->store, w->page, BASE_MS * TWIN_MS, seen);
}

static void step_reset(const struct world *w, const struct spot *from, const struct call *c, struct spot *to,
                       struct model *m) {
	(void)ask(w, c, SLUICE_RESET, to->now_ms);
	to->denials = 0;
	model_start(m, &w->rule, w->limit.derived[SL_TICK_NS]);
	see_store(w, to->history.seen);
	if ((to->history.seen[0] | to->history.seen[1]) != 0)
		differ(w, from, c, "a reset left something in the store");
}

static void step_refund(const struct world *w, const struct spot *from, const struct call *c, struct spot *to,
                        struct model *m) {
	struct sluice_call call = ask(w, c, SLUICE_REFUND, to->now_ms);
	struct expected e = {.penalized = false};
	uint64_t now = to->now_ms * TWIN_MS, t = model_clock(m, now);
	model_collect(m, t);
	model_refund(m, t, c->letter.cost);
	e.answer = model_ask(m, now, 0, w->unit_ns);
	lock_out(w, &e.answer, left_at(to, w->escalations[c->changed], strikes_clock(to, to->now_ms)), 0);
	compare(w, from, c, &call, &e);
}

static void step_take(const struct world *w, const struct spot *from, const struct call *c, struct spot *to,
                      struct model *m) {
	uint64_t before[2], after[2];
	struct sluice_call call;
	struct expected e;
	see_store(w, before);
	call = ask(w, c, SLUICE_PEEK, to->now_ms);
	e = expect(w, m, to, c, to->now_ms, true);
	compare(w, from, c, &call, &e);
	see_store(w, after);
	if (memcmp(before, after, sizeof before) != 0)
		differ(w, from, c, "a peek changed what the store has");
	call = ask(w, c, c->letter.operation, to->now_ms);
	e = expect(w, m, to, c, to->now_ms, false);
	compare(w, from, c, &call, &e);
	see_store(w, after);
	if (e.granted == 0 && to->denials == from->denials && !w->terms[0].count_denied &&
	    memcmp(before, after, sizeof before) != 0)
		differ(w, from, c, "a denial during a penalty changed what the store has");
}

static void step(const void *world, const void *place, size_t letter, void *next) {
	static struct model m;
	const struct world *w = world;
	const struct spot *from = place;
	const struct call *c = &w->alphabet[letter];
	struct spot *to = next;
	to->now_ms = from->now_ms + (uint64_t)(int64_t)c->letter.wait_ms;
	to->changed = c->changed;
	m.rule = w->rule;
	m.most = w->most;
	model_recall(&m, &from->kept);
	play(w, from);
	if (c->letter.operation == SLUICE_RESET)
		step_reset(w, from, c, to, &m);
	else if (c->letter.operation == SLUICE_REFUND)
		step_refund(w, from, c, to, &m);
	else
		step_take(w, from, c, to, &m);
	compare_standing(w, from, c, to);
	model_keep(&to->kept, &m);
	see_store(w, to->history.seen);
	see_spot(to);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

/* An id is reserved again when it has ended and is gone; beside reservations of a log nothing is refunded
 * (worlds_ledger_test.c), nor of a log that counts denials anything reserved. Terms change once. */
static bool follows(const void *world, const void *place, size_t letter) {
	const struct world *w = world;
	const struct spot *from = place;
	const struct call *c = &w->alphabet[letter];
	if (from->changed && !c->changed)
		return false;
	return from->kept.opens == 0 || (c->letter.operation != SLUICE_RESERVE &&
	                                 (c->letter.operation != SLUICE_REFUND ||
	                                  w->rule.algorithm != SLUICE_SLIDING_LOG));
}

static void add_call(struct world *w, struct letter letter, bool changed) {
	assert_true(w->letters < ALPHABET_MAX);
	w->alphabet[w->letters++] = (struct call){letter, changed};
}

static void fill_alphabet(struct world *w) {
	const struct escalation *from = w->escalations[0], *to = w->escalations[1];
	int32_t most = (int32_t)(longest(from) > longest(to) ? longest(from) : longest(to)) + 1;
	uint32_t beyond = (uint32_t)twin_quota(&w->rule) + 1;
	bool reserves = w->rule.algorithm != SLUICE_SLIDING_LOG || !w->terms[0].count_denied;
	for (int changed = 0; changed < 1 + (from != to); changed++)
		for (int32_t wait = -1; wait <= most + 1; wait++) {
			int32_t ms = wait > most ? most + (int32_t)from->forgive : wait;
			for (uint32_t cost = 1; cost <= beyond; cost++)
				add_call(w, (struct letter){SLUICE_CHARGE, cost, 0, 0, ms, false, 0}, changed != 0);
			add_call(w, (struct letter){SLUICE_CHARGE, beyond, 0, 0, ms, true, 0}, changed != 0);
			if (wait == 0 || wait == 1) {
				add_call(w, (struct letter){SLUICE_REFUND, 1, 0, 0, ms, false, 0}, changed != 0);
				add_call(w, (struct letter){SLUICE_RESET, 0, 0, 0, ms, false, 0}, changed != 0);
				if (reserves)
					add_call(w, (struct letter){SLUICE_RESERVE, 1, 1, WINDOW_MS - 1, ms, false, 0}, changed != 0);
			}
		}
}

static struct sluice_terms terms_of(const struct escalation *e, bool count_denied) {
	struct sluice_terms terms = {.count_denied = count_denied,
	                             .penalty_count = (uint8_t)e->steps,
	                             .after = (uint16_t)e->after,
	                             .within_ns = e->within * (sluice_ns)TWIN_MS,
	                             .forgive_ns = e->forgive * (sluice_ns)TWIN_MS};
	for (uint32_t i = 0; i < e->steps; i++)
		terms.penalties_ns[i] = e->step[i] * (sluice_ns)TWIN_MS;
	return terms;
}

static void start_at(struct world *w, struct spot *spot, uint64_t now_ms) {
	static struct model m;
	model_start(&m, &w->rule, w->limit.derived[SL_TICK_NS]);
	w->most = m.most;
	*spot = (struct spot){.start_ms = now_ms, .now_ms = now_ms};
	model_keep(&spot->kept, &m);
	see_spot(spot);
}

static struct totals explore(const struct kind *kind, const struct escalation *from, const struct escalation *to,
                             bool count_denied, uint32_t calls) {
	static struct world w;
	static struct spot starts[WINDOW_MS];
	const struct call one = {.letter = {.cost = 1}};
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct histories all = {&w, sizeof *starts, 0, calls, follows, step};
	struct totals totals;
	memset(&w, 0, sizeof w);
	w.rule = kind_rule(kind, WINDOW_MS, kind->algorithm == SLUICE_LEAKY_BUCKET ? 2 : 1); /* of which one is delayed */
	w.limit = rule_limit(&w.rule);
	w.unit_ns = kind->algorithm == SLUICE_SLIDING_LOG ? TWIN_MS : TWIN_NS;
	w.escalations[0] = from;
	w.escalations[1] = to;
	w.terms[0] = terms_of(from, count_denied);
	w.terms[1] = terms_of(to, count_denied);
	assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
	fill_alphabet(&w);
	(void)ask(&w, &one, SLUICE_CHARGE, BASE_MS);
	w.page = histories_page(w.store, BASE_MS * TWIN_MS);
	(void)ask(&w, &one, SLUICE_RESET, BASE_MS);
	all.letters = w.letters;
	for (uint32_t phase = 0; phase < WINDOW_MS; phase++)
		start_at(&w, &starts[phase], BASE_MS + 8 * WINDOW_MS + phase);
	totals = histories_explore(&all, starts, WINDOW_MS);
	assert_null(sluice_store_verify(w.store));
	sluice_store_close(w.store);
	return totals;
}

/* A first step that is shorter than the window and one that is longer; denials that are forgotten before they are
 * enough; a forgiveness that ends before, with and after the longest penalty. */
static const struct escalation at_once = {1, 1, 2, 2, {1, 3}}, second = {2, 3, 4, 3, {2, 3, 5}},
							   third = {3, 2, 1, 1, {2}}, longer = {1, 3, 4, 2, {4, 5}}, shorter = {2, 3, 3, 2, {1, 2}};

struct size {
	const struct escalation *from, *to;
	bool count_denied;
	uint32_t quick, soak; /* calls */
};

static const struct size sizes[] = {{&at_once, &at_once, false, 3, 5}, {&second, &second, false, 4, 5},
                                    {&third, &third, false, 4, 5},     {&second, &second, true, 3, 4},
                                    {&longer, &shorter, false, 3, 4},  {&at_once, &second, false, 3, 4}};

/* What penalties do is the same whatever the algorithm: for seconds a window is enough, and what delays. */
static bool is_quick(int kind) {
	return kinds[kind].algorithm == SLUICE_FIXED_WINDOW || kinds[kind].algorithm == SLUICE_LEAKY_BUCKET;
}

static uint32_t calls_of(const struct size *size, int kind) {
	uint32_t fewer = dice_ops(DICE_MILLION) < DICE_MILLION; /* under a sanitizer */
	if (getenv("SLUICE_SOAK_SECONDS") != NULL)
		return size->soak - fewer;
	return (uint32_t)sl_min(size->quick, kinds[kind].algorithm == SLUICE_FIXED_WINDOW ? 4 : 3) - fewer;
}

static void explore_kinds(bool denials) {
	const char *only = getenv("SLUICE_WORLDS");
	for (int k = 0; k < KINDS; k++) {
		struct totals sum = {0};
		if (only != NULL && strncmp(kinds[k].name, only, strlen(only)) != 0)
			continue;
		if (getenv("SLUICE_SOAK_SECONDS") == NULL && !is_quick(k))
			continue;
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			const struct size *s = &sizes[i];
			if (s->count_denied == denials) {
				struct totals one = explore(&kinds[k], s->from, s->to, denials, calls_of(s, k));
				totals_add(&sum, &one);
			}
		}
		totals_print(&sum, denials ? "penalties, count-denied" : "penalties", kinds[k].name);
	}
}

static void every_history_of_denials(void **state) {
	(void)state;
	explore_kinds(false);
}

static void every_history_of_denials_that_count(void **state) {
	(void)state;
	explore_kinds(true);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_history_of_denials),
		cmocka_unit_test(every_history_of_denials_that_count),
	};
	return cmocka_run_group_tests_name("worlds of penalties", tests, NULL, NULL);
}
