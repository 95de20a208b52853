/* Small worlds of reservations: every history of some calls on one counter that is charged, reserved from, committed
 * and refunded, each answer held against the slow ledger (ledger_twin.h), a list of charges and of reservations.
 *
 * Calls: a charge and a refund of each cost; a reservation by each of two ids, of each cost and of two lives, all or a
 * part (UPTO: what a front end does with a slice of a quota: it takes what there is, and gives back what it has not
 * spent); a commit by each id, of nothing (which cancels it) up to one more than the quota. Each after every wait of
 * interest: one ms back, none, each ms of a window, two windows. What nobody commits goes back at its end.
 * Every phase of the window is a beginning. Before each charge or reservation the same is asked by a peek; what is
 * denied changes nothing that the store has.
 *
 * What so few calls can't open, three reservations and more of several ends, is opened before: some worlds begin so.
 *
 * With `count-denied` what is denied is charged as well; of a log then nothing is reserved, and beside reservations of
 * a log nothing is refunded: which units they lose is only bounded there (algo/ledger.h).
 *
 * SLUICE_WORLDS: only those of algorithms whose name begins so. SLUICE_SOAK_SECONDS: larger worlds, minutes. */
#include "tests/model/histories.h"
#include "tests/model/ledger_twin.h"
#include "tests/model/letters.h"
#include "tests/model/probe.h"

#include "algo/rule.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALPHABET_MAX = 1024, BEGUN_MAX = 3 };
_Static_assert((int)KEPT_MAX >= 2 * (int)HISTORIES_CALLS_MAX, "a call makes two places at most");
_Static_assert((int)LETTER_IDS + (int)BEGUN_MAX <= (int)LETTER_IDS_MAX, "each has an id of its own");
#define BASE_MS UINT64_C(1764000000000)

struct world {
	struct twin_rule rule;
	struct sluice_limit limit;
	struct sluice_terms terms;
	twin_wide most;   /* of struct model */
	uint64_t unit_ns; /* in which waits are compared */
	size_t letters;
	struct letter alphabet[ALPHABET_MAX];
	const struct letter *beginning; /* of BEGUN_MAX reservations; NULL: histories begin with nothing */
	uint64_t page;
	struct sluice_store *store;
};

struct spot {
	struct history history;
	uint64_t start_ms, now_ms;
	struct kept kept;
};

static void see_spot(struct spot *spot) {
	histories_mix(spot->history.seen, spot->now_ms);
	model_see(&spot->kept, spot->history.seen);
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

struct expected {
	struct twin_answer answer;
	uint32_t granted, found;
	bool repeated;
};

static void take(const struct world *w, struct model *m, uint64_t now, const struct letter *l, struct expected *e) {
	uint64_t t = model_clock(m, now), delay = e->answer.delay;
	bool allowed = e->answer.allowed;
	uint64_t retry;
	if (!allowed && !w->terms.count_denied)
		return;
	model_collect(m, t);
	if (!allowed)
		model_count(m, t, l->upto ? 1 : l->cost);
	else if (l->operation == SLUICE_RESERVE)
		model_reserve(m, t, e->granted, l->id, t + l->life_ms * (uint64_t)TWIN_MS);
	else
		model_charge(m, t, e->granted);
	retry = allowed ? 0 : model_ask(m, now, l->upto ? 1 : l->cost, w->unit_ns).retry;
	e->answer = model_ask(m, now, 0, w->unit_ns);
	e->answer.allowed = allowed;
	e->answer.delay = allowed ? delay : 0;
	e->answer.retry = retry;
}

/* What a letter is answered, the ledger changed as it says; `peek`: as if it were a peek. */
static struct expected expect(const struct world *w, struct model *m, uint64_t now, const struct letter *l, bool peek) {
	uint64_t t = model_clock(m, now);
	struct expected e = {.granted = l->cost};
	if (letter_takes(l)) {
		e.repeated = !peek && l->operation == SLUICE_RESERVE && model_is_open(m, l->id, t);
		if (l->upto && !e.repeated) {
			uint32_t free = model_ask(m, now, 1, w->unit_ns).remaining;
			e.granted = free < e.granted ? free : e.granted;
		}
		e.answer = model_ask(m, now, e.repeated ? 0 : l->upto && e.granted == 0 ? 1 : e.granted, w->unit_ns);
		if (!e.answer.allowed)
			e.granted = 0;
		if (!peek && !e.repeated)
			take(w, m, now, l, &e);
		return e;
	}
	if (l->operation == SLUICE_REFUND) {
		model_collect(m, t);
		model_refund(m, t, l->cost);
	} else if (model_is_open(m, l->id, t)) {
		e.found = 1;
		model_collect(m, t);
		model_commit(m, l->id, l->cost, t);
	}
	e.answer = model_ask(m, now, 0, w->unit_ns);
	return e;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static struct sluice_call ask(const struct world *w, const struct letter *l, sluice_operation operation,
                              uint64_t now_ms) {
	const struct sluice_item item = {.limit = &w->limit, .key = sl_str("a"), .terms = &w->terms};
	return letter_ask(w->store, l, operation, now_ms, &item, 1, NULL);
}

static void differ(const struct world *w, const struct spot *from, const struct letter *last, const char *what) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	uint64_t now = from->start_ms;
	rule_print(&w->rule, text, sizeof text);
	fprintf(stderr, "%s%s\n", text, w->terms.count_denied ? ", count-denied" : "");
	for (size_t k = 0; w->beginning != NULL && k < BEGUN_MAX; k++) {
		now += (uint64_t)(int64_t)w->beginning[k].wait_ms;
		letter_print(&w->beginning[k], now - BASE_MS);
	}
	for (size_t k = 0; k <= from->history.depth; k++) {
		const struct letter *l = k < from->history.depth ? &w->alphabet[from->history.calls[k]] : last;
		now += (uint64_t)(int64_t)l->wait_ms;
		letter_print(l, now - BASE_MS);
	}
	fail_msg("%s", what);
}

static void compare(const struct world *w, const struct spot *from, const struct letter *l,
                    const struct sluice_call *call, const struct expected *e) {
	const char *what = twin_difference(&e->answer, &w->rule, &call->merged, false, w->unit_ns);
	if (what != NULL)
		differ(w, from, l, what);
	if (letter_takes(l) && call->granted != e->granted && !call->repeated)
		differ(w, from, l, "granted");
	if (call->found != e->found || call->repeated != e->repeated)
		differ(w, from, l, "found, or repeated");
}

static void play(const struct world *w, const struct spot *spot) {
	const struct letter none = {0};
	uint64_t now = spot->start_ms;
	(void)ask(w, &none, SLUICE_RESET, now);
	for (size_t k = 0; w->beginning != NULL && k < BEGUN_MAX; k++) {
		now += (uint64_t)(int64_t)w->beginning[k].wait_ms;
		(void)ask(w, &w->beginning[k], w->beginning[k].operation, now);
	}
	for (size_t k = 0; k < spot->history.depth; k++) {
		const struct letter *l = &w->alphabet[spot->history.calls[k]];
		now += (uint64_t)(int64_t)l->wait_ms;
		(void)ask(w, l, l->operation, now);
	}
}

static void step(const void *world, const void *place, size_t letter, void *next) {
	static struct model m;
	const struct world *w = world;
	const struct spot *from = place;
	const struct letter *l = &w->alphabet[letter];
	struct spot *to = next;
	struct sluice_call call;
	struct expected e;
	uint64_t before[2] = {0, 0}, after[2] = {0, 0}, now;
	to->now_ms = from->now_ms + (uint64_t)(int64_t)l->wait_ms;
	now = to->now_ms * TWIN_MS;
	play(w, from);
	histories_see(w->store, w->page, BASE_MS * TWIN_MS, before);
	m.rule = w->rule;
	m.most = w->most;
	model_recall(&m, &from->kept);
	if (letter_takes(l)) {
		call = ask(w, l, SLUICE_PEEK, to->now_ms);
		e = expect(w, &m, now, l, true);
		compare(w, from, l, &call, &e);
	}
	call = ask(w, l, l->operation, to->now_ms);
	e = expect(w, &m, now, l, false);
	compare(w, from, l, &call, &e);
	histories_see(w->store, w->page, BASE_MS * TWIN_MS, after);
	if (((letter_takes(l) && e.granted == 0 && !w->terms.count_denied) || e.repeated) &&
	    memcmp(before, after, sizeof before) != 0)
		differ(w, from, l, "a call that changes nothing changed what the store has");
	model_keep(&to->kept, &m);
	memcpy(to->history.seen, after, sizeof after);
	see_spot(to);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

struct size {
	uint32_t window_ms, quota, calls;
	bool denials; /* under count-denied */
	bool lean;    /* of one id, and time that goes on: for more calls */
	const struct letter *beginning;
};

/* Of several ends, out of order: in one ms, and in three. */
static const struct letter together[BEGUN_MAX] = {{SLUICE_RESERVE, 1, 3, 4, 0, false, 0},
                                                  {SLUICE_RESERVE, 1, 4, 2, 0, false, 0},
                                                  {SLUICE_RESERVE, 2, 5, 3, 0, false, 0}};
static const struct letter apart[BEGUN_MAX] = {{SLUICE_RESERVE, 2, 3, 6, 0, false, 0},
                                               {SLUICE_RESERVE, 1, 4, 2, 1, false, 0},
                                               {SLUICE_RESERVE, 1, 5, 2, 1, false, 0}};

static bool is_log(const struct world *w) {
	return w->rule.algorithm == SLUICE_SLIDING_LOG;
}

/* See above. */
static bool follows(const void *world, const void *place, size_t letter) {
	const struct world *w = world;
	const struct spot *from = place;
	return !is_log(w) || w->alphabet[letter].operation != SLUICE_REFUND || from->kept.opens == 0;
}

static void add_letter(struct world *w, struct letter letter) {
	assert_true(w->letters < ALPHABET_MAX);
	w->alphabet[w->letters++] = letter;
}

static void fill_alphabet(struct world *w, const struct size *size) {
	int32_t W = (int32_t)size->window_ms;
	uint32_t most = (uint32_t)twin_quota(&w->rule) + 1;
	for (int32_t i = size->lean ? 0 : -1; i <= W + (size->lean ? 1 : 2); i++) {
		int32_t wait = i == W + 2 ? 2 * W + 1 : i;
		for (uint32_t cost = 1; cost <= most; cost++) {
			add_letter(w, (struct letter){SLUICE_CHARGE, cost, 0, 0, wait, false, 0});
			if (cost < most)
				add_letter(w, (struct letter){SLUICE_REFUND, cost, 0, 0, wait, false, 0});
		}
		for (uint32_t id = 1; id <= (size->lean ? 1 : LETTER_IDS) && !(is_log(w) && size->denials); id++) {
			for (uint32_t cost = 1; cost <= most; cost++)
				add_letter(w, (struct letter){SLUICE_RESERVE, cost, id, 1 + cost % 2 * (uint32_t)W, wait, false, 0});
			add_letter(w, (struct letter){SLUICE_RESERVE, 1, id, 1, wait, false, 0});
			add_letter(w, (struct letter){SLUICE_RESERVE, most, id, 2, wait, true, 0});
			for (uint32_t cost = 0; cost <= most; cost++)
				add_letter(w, (struct letter){SLUICE_COMMIT, cost, id, 0, wait, false, 0});
		}
		for (uint32_t k = 0; w->beginning != NULL && k < BEGUN_MAX; k++)
			for (uint32_t cost = 0; cost < 3; cost++)
				add_letter(w, (struct letter){SLUICE_COMMIT, cost, w->beginning[k].id, 0, wait, false, 0});
	}
}

static void start_at(struct world *w, struct spot *spot, uint64_t now_ms) {
	static struct model m;
	model_start(&m, &w->rule, w->limit.derived[SL_TICK_NS]);
	w->most = m.most;
	*spot = (struct spot){.start_ms = now_ms, .now_ms = now_ms};
	for (size_t k = 0; w->beginning != NULL && k < BEGUN_MAX; k++) {
		const struct letter *l = &w->beginning[k];
		uint64_t now = (spot->now_ms += (uint64_t)(int64_t)l->wait_ms) * TWIN_MS;
		model_reserve(&m, now, l->cost, l->id, now + l->life_ms * (uint64_t)TWIN_MS);
	}
	model_keep(&spot->kept, &m);
	see_spot(spot);
}

/* Of a log that counts denials nothing is reserved: of so few letters there may be more calls, and more to trim. And a
 * log is corrected otherwise where it has more than one entry. */
static struct size size_of(const struct kind *kind, const struct size *size) {
	struct size its = *size;
	if (kind->algorithm != SLUICE_SLIDING_LOG)
		return its;
	if (size->denials)
		its = (struct size){size->window_ms, size->quota + 2, size->calls + (size->calls < 5), true, size->lean, NULL};
	else if (size->lean && size->beginning == NULL)
		its = (struct size){size->window_ms, size->quota + 1, size->calls < 5 ? size->calls : 5, false, true, NULL};
	return its;
}

static struct totals explore(const struct kind *kind, const struct size *size) {
	static struct world w;
	static struct spot starts[8];
	const struct letter one = {.cost = 1};
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	uint32_t fewer = dice_ops(DICE_MILLION) < DICE_MILLION; /* under a sanitizer */
	struct histories all = {&w, sizeof *starts, 0, size->calls - fewer, follows, step};
	const uint32_t phases = size->beginning != NULL ? 1 : size->window_ms;
	struct totals totals;
	memset(&w, 0, sizeof w);
	w.rule = kind_rule(kind, size->window_ms, size->quota);
	w.limit = rule_limit(&w.rule);
	w.unit_ns = kind->algorithm == SLUICE_SLIDING_LOG ? TWIN_MS : TWIN_NS;
	w.terms.count_denied = size->denials;
	w.beginning = size->beginning;
	assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
	fill_alphabet(&w, size);
	(void)ask(&w, &one, SLUICE_CHARGE, BASE_MS);
	w.page = histories_page(w.store, BASE_MS * TWIN_MS);
	(void)ask(&w, &one, SLUICE_RESET, BASE_MS);
	all.letters = w.letters;
	for (uint32_t phase = 0; phase < phases; phase++)
		start_at(&w, &starts[phase], BASE_MS + 8 * size->window_ms + phase);
	totals = histories_explore(&all, starts, phases);
	assert_null(sluice_store_verify(w.store));
	sluice_store_close(w.store);
	return totals;
}

static const struct size short_ones[] = {{1, 1, 3, false, false, NULL},    {2, 1, 2, false, false, NULL},
                                         {2, 2, 2, false, false, NULL},    {2, 1, 3, false, true, NULL},
                                         {4, 4, 2, false, true, together}, {4, 5, 2, false, true, apart},
                                         {2, 1, 2, true, false, NULL}};
static const struct size long_ones[] = {{1, 1, 4, false, false, NULL},    {2, 1, 3, false, false, NULL},
                                        {2, 2, 3, false, false, NULL},    {4, 2, 3, false, false, NULL},
                                        {2, 1, 6, false, true, NULL},     {4, 4, 3, false, true, together},
                                        {4, 5, 3, false, true, apart},    {1, 1, 3, true, false, NULL},
                                        {2, 2, 3, true, false, NULL},     {2, 1, 6, true, true, NULL}};

static void explore_all(const struct size *sizes, size_t count, bool denials) {
	const char *only = getenv("SLUICE_WORLDS");
	for (int k = 0; k < KINDS; k++) {
		struct totals sum = {0};
		if (only != NULL && strncmp(kinds[k].name, only, strlen(only)) != 0)
			continue;
		for (size_t i = 0; i < count; i++) {
			bool too_short = kinds[k].algorithm == SLUICE_SLIDING_BUCKETS && sizes[i].window_ms < 2;
			if (sizes[i].denials == denials && !too_short) {
				const struct size size = size_of(&kinds[k], &sizes[i]);
				struct totals one = explore(&kinds[k], &size);
				totals_add(&sum, &one);
			}
		}
		totals_print(&sum, denials ? "reservations, count-denied" : "reservations", kinds[k].name);
	}
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static void run(bool denials) {
	if (getenv("SLUICE_SOAK_SECONDS") != NULL)
		explore_all(long_ones, COUNT_OF(long_ones), denials);
	else
		explore_all(short_ones, COUNT_OF(short_ones), denials);
}

static void every_history_of_reservations(void **state) {
	(void)state;
	run(false);
}

static void every_history_where_denials_count(void **state) {
	(void)state;
	run(true);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_history_of_reservations),
		cmocka_unit_test(every_history_where_denials_count),
	};
	return cmocka_run_group_tests_name("worlds of ledgers", tests, NULL, NULL);
}
