/* Small worlds of groups: every history of some calls on two limits that are decided together or apart, with what a
 * policy says of limits: one is observed, what one denies is charged, the two are quotas that deny together, one costs
 * more, the two meet in one counter, one of them is only tried; charged, reserved from, committed and refunded. Each
 * answer is held against two slow ledgers (ledger_twin.h) and the rules of groups, written down below as they stand in
 * sluice.h:
 *
 *   - an observed limit decides alone, and is charged where the call is allowed and it admits itself
 *   - of quotas (`quota`) those that would deny are observed where another one of the call admits
 *   - a call is allowed where all that are not observed admit; else nothing is charged
 *   - under count-denied what the limit judges is charged all the same, where it or the call was denied
 *   - where quotas deny, only the one that admits again first counts in the merged answer
 *   - UPTO grants the largest part that all admit which are not observed; of quotas one has to
 *   - a reservation is of all counters of the call; where all that are not observed have it already, it is repeated
 *   - two limits that meet in one counter charge it once, by the one of them that is charged at all whose cost is the
 *     greatest, the first of equals, and both see it; so much is given back, and committed
 *   - a limit that is tried is observed, and never charged: it sees what its counter is charged by the other
 *
 * With count-denied nothing is reserved of a log, and beside reservations of a log nothing is refunded, as in
 * worlds_ledger_test.c. SLUICE_WORLDS: only those whose first limit is of an algorithm whose name begins so.
 * SLUICE_SOAK_SECONDS: larger worlds, minutes. */
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

enum { COUNTERS = 2, ALPHABET_MAX = 1024 };
#define BASE_MS UINT64_C(1764000000000)

/* What is said of the two limits. */
struct flags {
	const char *name;
	bool observed[COUNTERS], counts_denied[COUNTERS];
	bool quotas;   /* both */
	uint32_t cost; /* of the second; 0: the call's */
	bool reserves;
	bool meet;  /* in one counter, the second with a quota, or a burst, of one more */
	bool tried; /* the second, which is observed too */
};

static const struct flags all_flags[] = {
	{"reserved from", .reserves = true},
	{"the second is observed", .observed = {false, true}, .reserves = true},
	{"the first is observed", .observed = {true, false}},
	{"both are observed", .observed = {true, true}, .reserves = true},
	{"quotas", .quotas = true, .reserves = true},
	{"the first counts denials", .counts_denied = {true, false}},
	{"both count denials", .counts_denied = {true, true}, .reserves = true},
	{"the second is observed and counts denials", .observed = {false, true}, .counts_denied = {false, true}},
	{"quotas, the first counts denials", .quotas = true, .counts_denied = {true, false}},
	{"the second costs 2", .cost = 2},
	{"they meet", .meet = true, .reserves = true},
	{"they meet, the first is observed", .meet = true, .observed = {true, false}},
	{"they meet, the second is tried", .meet = true, .observed = {false, true}, .tried = true, .reserves = true},
	{"they meet, the first counts denials", .meet = true, .counts_denied = {true, false}},
	{"they meet, the first is observed and counts denials",
     .meet = true,
     .observed = {true, false},
     .counts_denied = {true, false}},
	{"they meet, the second costs 2", .meet = true, .cost = 2, .reserves = true},
	{"they meet, the second costs 2, both count denials", .meet = true, .cost = 2, .counts_denied = {true, true}},
	{"they meet, the second is tried and counts denials",
     .meet = true,
     .observed = {false, true},
     .counts_denied = {false, true},
     .tried = true},
	{"the second is tried", .observed = {false, true}, .tried = true},
};
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

struct world {
	const struct flags *flags;
	struct twin_rule rules[COUNTERS];
	struct sluice_limit limits[COUNTERS];
	struct sluice_terms terms[COUNTERS];
	twin_wide most[COUNTERS]; /* of struct model */
	uint64_t unit_ns;         /* in which waits are compared */
	size_t letters;
	struct letter alphabet[ALPHABET_MAX];
	uint64_t page[COUNTERS];
	struct sluice_store *store;
};

struct spot {
	struct history history;
	uint64_t start_ms, now_ms;
	struct kept kept[COUNTERS];
};

/* ---- the definition ---------------------------------------------------------------------------------------------- */

/* One limit of a call. */
struct part {
	size_t counter; /* which limit it is */
	struct model *model; /* two may have the same */
	bool *charged;       /* whether that was, in this call */
	uint64_t t;
	uint32_t cost;
	bool observed, kept;
	struct twin_answer answer;
};

struct expected {
	struct part parts[COUNTERS];
	size_t count;
	bool allowed, repeated, changes;
	uint32_t granted, found;
};

/* The model of a part, by whose rule it is decided and charged then. */
static struct model *model_of(const struct world *w, const struct part *p) {
	p->model->rule = w->rules[p->counter];
	p->model->most = w->most[p->counter];
	return p->model;
}

static struct twin_answer ask_model(const struct world *w, const struct part *p, uint64_t now, uint64_t cost) {
	(void)model_of(w, p);
	return model_ask(p->model, now, cost, w->unit_ns);
}

static bool is_tried(const struct world *w, const struct part *p) {
	return w->flags->tried && p->counter == 1;
}

/* Whether it is held already; else what is, is not charged again. */
static bool is_held(const struct world *w, struct expected *e, const struct letter *l) {
	size_t asked = 0, held = 0, observed = 0;
	for (size_t i = 0; i < e->count; i++) {
		struct part *p = &e->parts[i];
		p->kept = !is_tried(w, p) && model_is_open(p->model, l->id, p->t);
		asked += !p->observed;
		held += p->kept && !p->observed;
		observed += p->kept && p->observed;
	}
	return held == asked && held + observed != 0;
}

static void grant(const struct world *w, struct expected *e, uint64_t now) {
	uint32_t most = 0;
	for (size_t i = 0; i < e->count; i++) {
		const uint32_t free =
			e->parts[i].cost != 0 ? ask_model(w, &e->parts[i], now, 1).remaining : UINT32_MAX; /* it is held already */
		most = free > most ? free : most;
		if (!w->flags->quotas && !e->parts[i].observed && free < e->granted)
			e->granted = free;
	}
	if (w->flags->quotas && most < e->granted)
		e->granted = most;
	for (size_t i = 0; i < e->count; i++)
		if (e->parts[i].cost != 0)
			e->parts[i].cost = e->granted != 0 ? e->granted : 1;
}

static void judge(const struct world *w, struct expected *e, uint64_t now) {
	bool one_admits = false;
	e->allowed = true;
	for (size_t i = 0; i < e->count; i++) {
		e->parts[i].answer = ask_model(w, &e->parts[i], now, e->parts[i].cost);
		one_admits = one_admits || e->parts[i].answer.allowed;
	}
	for (size_t i = 0; i < e->count; i++) {
		struct part *p = &e->parts[i];
		if (w->flags->quotas)
			p->observed = one_admits && !p->answer.allowed;
		e->allowed = e->allowed && (p->observed || p->answer.allowed);
	}
	if (!e->allowed)
		e->granted = 0;
}

/* What is there after it was charged: of what it denied, the wait for it. */
static void look(const struct world *w, struct part *p, uint64_t now) {
	const struct twin_answer before = p->answer;
	p->answer = ask_model(w, p, now, before.allowed ? 0 : p->cost);
	p->answer.allowed = before.allowed;
	p->answer.delay = before.delay;
}

/* What is charged to the counter of a part: as it was admitted; or, by force, all the same. */
static void charge_one(const struct world *w, struct expected *e, uint64_t now, const struct letter *l, struct part *p,
                       bool admitted) {
	struct model *m = model_of(w, p);
	model_collect(m, p->t);
	if (!admitted)
		model_count(m, p->t, p->cost);
	else if (l->operation == SLUICE_RESERVE)
		model_reserve(m, p->t, p->cost, l->id, p->t + l->life_ms * (uint64_t)TWIN_MS);
	else
		model_charge(m, p->t, p->cost);
	e->changes = true;
	for (size_t i = 0; i < e->count; i++)
		if (e->parts[i].model == p->model)
			look(w, &e->parts[i], now);
}

/* Whether a part may be charged: as it was admitted; or by force, as what it denied. */
static bool may_charge(const struct world *w, const struct expected *e, const struct part *p, bool forced) {
	const bool admitted = e->allowed && p->answer.allowed;
	return p->cost != 0 && !is_tried(w, p) && !*p->charged &&
	       (forced ? !admitted && w->flags->counts_denied[p->counter] : admitted);
}

/* Each counter once: by those that admit, else by those that count denials; by the greatest cost. */
static void charge(const struct world *w, struct expected *e, uint64_t now, const struct letter *l) {
	for (int forced = 0; forced < 2; forced++)
		for (size_t i = 0; i < e->count; i++) {
			struct part *charger = &e->parts[i];
			if (!may_charge(w, e, charger, forced))
				continue;
			for (size_t k = i + 1; k < e->count; k++)
				if (e->parts[k].model == charger->model && may_charge(w, e, &e->parts[k], forced) &&
				    e->parts[k].cost > charger->cost)
					charger = &e->parts[k];
			*charger->charged = true;
			charge_one(w, e, now, l, charger, forced == 0);
		}
}

static void decide(const struct world *w, struct expected *e, uint64_t now, const struct letter *l, bool peek) {
	e->repeated = !peek && l->operation == SLUICE_RESERVE && is_held(w, e, l);
	for (size_t i = 0; i < e->count; i++)
		if (e->repeated || e->parts[i].kept)
			e->parts[i].cost = 0;
	if (l->upto && !e->repeated)
		grant(w, e, now);
	judge(w, e, now);
	if (!peek && !e->repeated)
		charge(w, e, now, l);
}

/* Of a counter in which two meet, the first gives back, as much as the dearer one costs. */
static void give_back(const struct world *w, struct expected *e, uint64_t now, const struct letter *l) {
	for (size_t i = 0; i < e->count; i++) {
		struct part *p = &e->parts[i];
		struct model *m = model_of(w, p);
		if (*p->charged)
			continue;
		*p->charged = true;
		for (size_t k = i + 1; k < e->count; k++)
			if (e->parts[k].model == p->model && e->parts[k].cost > p->cost)
				p->cost = e->parts[k].cost;
		if (l->operation == SLUICE_REFUND) {
			model_collect(m, p->t);
			model_refund(m, p->t, p->cost);
		} else if (model_is_open(m, l->id, p->t)) {
			e->found++;
			model_collect(m, p->t);
			model_commit(m, l->id, p->cost, p->t);
		}
	}
	for (size_t i = 0; i < e->count; i++)
		e->parts[i].answer = ask_model(w, &e->parts[i], now, 0);
	e->changes = true;
	e->allowed = true;
}

/* What a letter is answered, the ledgers changed as it says; `peek`: as if it were a peek. */
static struct expected expect(const struct world *w, struct model models[COUNTERS], uint64_t now,
                              const struct letter *l, bool peek) {
	struct expected e = {.granted = l->cost};
	bool charged[COUNTERS] = {false};
	for (size_t c = 0; c < COUNTERS; c++) {
		const size_t whose = w->flags->meet ? 0 : c;
		if ((l->counters >> c & 1) == 0)
			continue;
		e.parts[e.count++] = (struct part){.counter = c,
		                                   .model = &models[whose],
		                                   .charged = &charged[whose],
		                                   .t = model_clock(&models[whose], now),
		                                   .cost = c == 1 && w->flags->cost != 0 ? w->flags->cost : l->cost,
		                                   .observed = w->flags->observed[c]};
	}
	if (letter_takes(l))
		decide(w, &e, now, l, peek);
	else
		give_back(w, &e, now, l);
	for (size_t i = 0; i < e.count; i++)
		e.parts[i].charged = NULL;
	return e;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static const char *const keys[COUNTERS] = {"a", "b"};

static uint8_t observed_of(const struct flags *flags, size_t c) {
	return !flags->observed[c] ? 0 : c == 1 && flags->tried ? SLUICE_TRIED : SLUICE_OBSERVED;
}

static struct sluice_call ask(const struct world *w, const struct letter *l, sluice_operation operation,
                              uint64_t now_ms, struct sluice_decision each[COUNTERS]) {
	struct sluice_item items[COUNTERS];
	uint32_t count = 0;
	memset(items, 0, sizeof items);
	for (size_t c = 0; c < COUNTERS; c++)
		if (l->counters >> c & 1)
			items[count++] = (struct sluice_item){.limit = &w->limits[c],
			                                      .key = sl_str(keys[w->flags->meet ? 0 : c]),
			                                      .observed = observed_of(w->flags, c),
			                                      .quota = w->flags->quotas,
			                                      .cost = c == 1 ? w->flags->cost : 0,
			                                      .terms = w->terms[c].count_denied ? &w->terms[c] : NULL};
	return letter_ask(w->store, l, operation, now_ms, items, count, each);
}

static void differ(const struct world *w, const struct spot *from, const struct letter *last, const char *what) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	uint64_t now = from->start_ms;
	for (size_t c = 0; c < COUNTERS; c++) {
		rule_print(&w->rules[c], text, sizeof text);
		fprintf(stderr, "%s: %s\n", keys[c], text);
	}
	for (size_t k = 0; k <= from->history.depth; k++) {
		const struct letter *l = k < from->history.depth ? &w->alphabet[from->history.calls[k]] : last;
		now += (uint64_t)(int64_t)l->wait_ms;
		letter_print(l, now - BASE_MS);
	}
	fail_msg("%s: %s", w->flags->name, what);
}

/* Whether a part is a quota that denies, where another one admits again sooner: then it takes no part. */
static bool is_passed_over(const struct world *w, const struct expected *e, size_t part) {
	bool passed_over = false;
	for (size_t i = 0; i < e->count && w->flags->quotas && !e->parts[part].answer.allowed; i++) {
		const uint64_t one = e->parts[i].answer.retry, its = e->parts[part].answer.retry;
		passed_over = passed_over || one < its || (one == its && i < part);
	}
	return passed_over;
}

/* Observed limits take no part. */
static void compare_merged(const struct world *w, const struct spot *from, const struct letter *l,
                           const struct sluice_call *call, const struct expected *e) {
	static const struct twin_rule any = {.algorithm = SLUICE_FIXED_WINDOW, .quota = 1};
	struct twin_answer enforced[COUNTERS];
	int32_t position[COUNTERS];
	struct sluice_decision got = call->merged;
	size_t count = 0, decided = 0;
	for (size_t i = 0; i < e->count; i++)
		if (!e->parts[i].observed && !is_passed_over(w, e, i)) {
			position[count] = (int32_t)i;
			enforced[count++] = e->parts[i].answer;
		}
	if (count == 0) {
		if (!got.allowed || got.index != -1 || got.quota != UINT32_MAX || got.remaining != UINT32_MAX)
			differ(w, from, l, "the answer where none is enforced");
		return;
	}
	const struct twin_answer merged = twin_merged(enforced, count, e->allowed, &decided);
	if (got.index != position[decided])
		differ(w, from, l, "the index of the limit that decided");
	got.index = 0;
	const char *what = twin_difference(&merged, &any, &got, false, w->unit_ns);
	if (what != NULL)
		differ(w, from, l, what);
}

static void compare(const struct world *w, const struct spot *from, const struct letter *l,
                    const struct sluice_call *call, const struct expected *e) {
	for (size_t i = 0; i < e->count; i++) {
		struct sluice_decision got = call->each[i];
		const char *what;
		got.index = 0;
		if (!e->allowed) /* a limit that admits where another denies holds nobody */
			got.delay_ns = e->parts[i].answer.delay * w->unit_ns;
		what = twin_difference(&e->parts[i].answer, &w->rules[e->parts[i].counter], &got, false, w->unit_ns);
		if (what != NULL)
			differ(w, from, l, what);
	}
	compare_merged(w, from, l, call, e);
	if (letter_takes(l) && call->granted != e->granted && !call->repeated)
		differ(w, from, l, "granted");
	if (call->found != e->found || call->repeated != e->repeated)
		differ(w, from, l, "found, or repeated");
}

static void play(const struct world *w, const struct spot *spot) {
	static const struct letter all = {.counters = (1u << COUNTERS) - 1};
	struct sluice_decision each[COUNTERS];
	uint64_t now = spot->start_ms;
	(void)ask(w, &all, SLUICE_RESET, now, each);
	for (size_t k = 0; k < spot->history.depth; k++) {
		const struct letter *l = &w->alphabet[spot->history.calls[k]];
		now += (uint64_t)(int64_t)l->wait_ms;
		(void)ask(w, l, l->operation, now, each);
	}
}

static void see_store(const struct world *w, uint64_t seen[2]) {
	for (size_t c = 0; c < COUNTERS; c++)
		if (c == 0 || w->page[c] != w->page[0])
			histories_see(w->store, w->page[c], BASE_MS * TWIN_MS, seen);
}

static void see_spot(struct spot *spot) {
	histories_mix(spot->history.seen, spot->now_ms);
	for (size_t c = 0; c < COUNTERS; c++)
		model_see(&spot->kept[c], spot->history.seen);
}

static void step(const void *world, const void *place, size_t letter, void *next) {
	static struct model models[COUNTERS];
	const struct world *w = world;
	const struct spot *from = place;
	const struct letter *l = &w->alphabet[letter];
	struct spot *to = next;
	struct sluice_decision each[COUNTERS];
	uint64_t before[2] = {0, 0}, after[2] = {0, 0};
	to->now_ms = from->now_ms + (uint64_t)(int64_t)l->wait_ms;
	play(w, from);
	see_store(w, before);
	for (size_t c = 0; c < COUNTERS; c++) {
		models[c].rule = w->rules[c];
		models[c].most = w->most[c];
		model_recall(&models[c], &from->kept[c]);
	}
	if (letter_takes(l)) {
		const struct sluice_call peeked = ask(w, l, SLUICE_PEEK, to->now_ms, each);
		const struct expected peek = expect(w, models, to->now_ms * TWIN_MS, l, true);
		compare(w, from, l, &peeked, &peek);
	}
	const struct sluice_call call = ask(w, l, l->operation, to->now_ms, each);
	const struct expected e = expect(w, models, to->now_ms * TWIN_MS, l, false);
	compare(w, from, l, &call, &e);
	see_store(w, after);
	if (!e.changes && memcmp(before, after, sizeof before) != 0)
		differ(w, from, l, "a call that changes nothing changed what the store has");
	memcpy(to->history.seen, after, sizeof after);
	for (size_t c = 0; c < COUNTERS; c++)
		model_keep(&to->kept[c], &models[c]);
	see_spot(to);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

struct size {
	uint32_t window_ms, quota, calls;
};

static bool is_log(const struct world *w, size_t counter) {
	return w->rules[counter].algorithm == SLUICE_SLIDING_LOG;
}

/* See above. */
static bool follows(const void *world, const void *place, size_t letter) {
	const struct world *w = world;
	const struct spot *from = place;
	const struct letter *l = &w->alphabet[letter];
	for (size_t c = 0; c < COUNTERS; c++) {
		const struct kept *kept = &from->kept[w->flags->meet ? 0 : c];
		if (l->operation == SLUICE_REFUND && l->counters >> c & 1 && is_log(w, c) && kept->opens != 0)
			return false;
	}
	return true;
}

static void add_letter(struct world *w, struct letter letter) {
	for (uint32_t counters = 1; counters < 1u << COUNTERS; counters++) {
		assert_true(w->letters < ALPHABET_MAX);
		letter.counters = counters;
		w->alphabet[w->letters++] = letter;
	}
}

static void fill_alphabet(struct world *w, const struct size *size) {
	const int32_t W = (int32_t)size->window_ms;
	const uint32_t most = size->quota + 1;
	bool reserves = w->flags->reserves;
	for (size_t c = 0; c < COUNTERS; c++)
		reserves = reserves && !(is_log(w, c) && w->flags->counts_denied[c]);
	for (int32_t wait = 0; wait <= W + 1; wait++) {
		for (uint32_t cost = 1; cost <= most; cost++)
			add_letter(w, (struct letter){SLUICE_CHARGE, cost, 0, 0, wait, false, 0});
		add_letter(w, (struct letter){SLUICE_REFUND, 1, 0, 0, wait, false, 0});
		if (w->flags->cost == 0)
			add_letter(w, (struct letter){SLUICE_CHARGE, most, 0, 0, wait, true, 0});
		for (uint32_t id = 1; id <= LETTER_IDS && reserves; id++) {
			if (w->flags->cost == 0)
				add_letter(w, (struct letter){SLUICE_RESERVE, most, id, 2, wait, true, 0});
			add_letter(w, (struct letter){SLUICE_RESERVE, 1, id, 1 + id % 2 * (uint32_t)W, wait, false, 0});
			for (uint32_t cost = 0; cost <= most; cost += most)
				add_letter(w, (struct letter){SLUICE_COMMIT, cost, id, 0, wait, false, 0});
		}
	}
}

static void start_at(struct world *w, struct spot *spot, uint64_t now_ms) {
	static struct model m;
	*spot = (struct spot){.start_ms = now_ms, .now_ms = now_ms};
	for (size_t c = 0; c < COUNTERS; c++) {
		model_start(&m, &w->rules[c], w->limits[c].derived[SL_TICK_NS]);
		w->most[c] = m.most;
		model_keep(&spot->kept[c], &m);
	}
	see_spot(spot);
}

static void find_pages(struct world *w) {
	struct sluice_decision each[COUNTERS];
	for (size_t c = 0; c < COUNTERS; c++) {
		const struct letter one = {.cost = 1, .counters = 1u << c};
		if (c == 1 && (w->flags->meet || w->flags->tried)) { /* the same; or there never is one */
			w->page[c] = w->page[0];
			continue;
		}
		(void)ask(w, &one, SLUICE_CHARGE, BASE_MS, each);
		w->page[c] = histories_page(w->store, BASE_MS * TWIN_MS);
		(void)ask(w, &one, SLUICE_RESET, BASE_MS, each);
	}
}

static struct totals explore(const struct flags *flags, int kind, int other, const struct size *size) {
	static struct world w;
	static struct spot starts[8];
	const struct sluice_store_options options = {.memory_bytes = 1 << 20};
	const uint32_t fewer = dice_ops(DICE_MILLION) < DICE_MILLION; /* under a sanitizer */
	struct histories all = {&w, sizeof *starts, 0, size->calls - fewer, follows, step};
	struct totals totals;
	memset(&w, 0, sizeof w);
	w.flags = flags;
	w.unit_ns = TWIN_NS;
	for (size_t c = 0; c < COUNTERS; c++) {
		const int its = c == 0 || flags->meet ? kind : other;
		w.rules[c] = kind_rule(&kinds[its], size->window_ms, size->quota + (uint32_t)c);
		if (flags->meet && model_is_bucket(&w.rules[c])) /* of one rate */
			w.rules[c].quota = w.rules[0].quota;
		w.limits[c] = rule_limit(&w.rules[c]);
		w.terms[c].count_denied = flags->counts_denied[c];
		w.unit_ns = is_log(&w, c) ? TWIN_MS : w.unit_ns;
	}
	assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
	fill_alphabet(&w, size);
	find_pages(&w);
	all.letters = w.letters;
	for (uint32_t phase = 0; phase < size->window_ms; phase++)
		start_at(&w, &starts[phase], BASE_MS + 8 * size->window_ms + phase);
	totals = histories_explore(&all, starts, size->window_ms);
	assert_null(sluice_store_verify(w.store));
	sluice_store_close(w.store);
	return totals;
}

/* The second counter is of another kind for each set of flags: with time each pair is met. */
static void every_history_of_groups(void **state) {
	static const struct size quick = {2, 1, 2}, longer = {2, 1, 3};
	const bool soak = getenv("SLUICE_SOAK_SECONDS") != NULL;
	const char *only = getenv("SLUICE_WORLDS");
	(void)state;
	for (size_t f = 0; f < COUNT_OF(all_flags); f++) {
		struct totals sum = {0};
		for (int kind = 0; kind < KINDS; kind++) {
			const int other = (kind + (int)f) % KINDS;
			if (only != NULL && strncmp(kinds[kind].name, only, strlen(only)) != 0)
				continue;
			const struct totals one = explore(&all_flags[f], kind, other, soak ? &longer : &quick);
			totals_add(&sum, &one);
		}
		totals_print(&sum, "groups", all_flags[f].name);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_history_of_groups)};
	return cmocka_run_group_tests_name("worlds of groups", tests, NULL, NULL);
}
