/* Small worlds, all of them: every history of up to six calls over one or two counters, with every cost, instant and
 * key, and one change of the limit, each answer held against the twin's (twin.h), which is the contract read as a
 * formula. Chance finds what is likely; here what is small is complete.
 *
 * A world has windows of up to 8 ms, quotas of up to 4. Its calls: a charge of each cost up to one more than the quota,
 * the same asked by a peek before it, a refund of each cost; each after every wait of interest: a ms back, none, each
 * ms of a window, one more, two windows. Every phase of the window is a beginning.
 *
 * What six calls can't fill, a ring of many entries or sub-buckets, is filled before: some worlds begin with charges in
 * a row, with a pause in them so that the oldest have gone and the newest stand where those stood.
 *
 * Histories that lead to the same place are followed once (histories.h). A place is the instant, whether the limit was
 * changed, what the twin has, and what the store has.
 *
 * SLUICE_WORLDS: only those of algorithms whose name begins so. SLUICE_SOAK_SECONDS: larger worlds, as long as that
 * lasts; without it those that are done in seconds. */
#include "tests/model/histories.h"
#include "tests/model/probe.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = HISTORIES_CALLS_MAX, COUNTERS = 2, ALPHABET_MAX = 1024, WAITS_MAX = 16, BEGUN_MAX = 24 };
enum { MARKS_MAX = CALLS + BEGUN_MAX };
#define BASE_MS UINT64_C(1764000000000) /* a multiple of every window; before all instants */

/* One call, as the alphabet of a world has it. */
struct letter {
	sluice_operation operation;
	uint32_t cost;
	int32_t wait_ms;
	uint32_t counters; /* a bit for each */
	bool changed;      /* by the limit after its change */
};

/* The charges of the first counter that each history begins with. */
struct beginning {
	uint32_t charges, gap_ms;
	uint32_t pause_after, pause_ms; /* so many of them, and then this instead of the gap */
	uint32_t heavy;                 /* each so-and-so-manieth costs 2, the others 1; 0: none does */
	uint32_t times;                 /* that; 0: once */
};

struct world {
	size_t counters, letters;
	uint64_t unit_ns; /* in which waits are compared: 1 ns, or 1 ms where a log rounds up to that */
	struct twin_rule rules[COUNTERS][2]; /* before and after the change */
	struct sluice_limit limits[COUNTERS][2];
	struct letter alphabet[ALPHABET_MAX];
	uint32_t begun;
	struct letter beginning[BEGUN_MAX];
	uint64_t page[COUNTERS]; /* where a counter is in the store */
	struct sluice_store *store;
};

/* A charge or a refund of a twin, packed: there are many places. */
struct mark {
	uint32_t at_ms; /* since BASE_MS */
	uint32_t cost;
	uint8_t rate;
	bool refund;
};

struct place {
	struct history history;
	uint64_t start_ms, now_ms;
	uint8_t marks[COUNTERS];
	bool changed;
	struct mark mark[COUNTERS][MARKS_MAX];
};

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* What the store has for the counters of the world. */
static void see_store(const struct world *w, uint64_t now_ms, uint64_t seen[2]) {
	for (size_t i = 0; i < w->counters; i++)
		if (i == 0 || w->page[i] != w->page[0])
			histories_see(w->store, w->page[i], now_ms * TWIN_MS, seen);
}

static void see_twins(const struct world *w, struct place *place) {
	histories_mix(place->history.seen, place->now_ms << 1 | place->changed);
	for (size_t i = 0; i < w->counters; i++) {
		histories_mix(place->history.seen, place->marks[i]);
		for (size_t k = 0; k < place->marks[i]; k++) {
			const struct mark *m = &place->mark[i][k];
			histories_mix(place->history.seen, (uint64_t)m->at_ms << 32 | m->cost);
			histories_mix(place->history.seen, (uint64_t)m->rate << 8 | m->refund);
		}
	}
}

static void unpack(const struct place *place, size_t counter, struct twin *twin,
                   struct twin_event events[MARKS_MAX + 1]) {
	for (size_t k = 0; k < place->marks[counter]; k++) {
		const struct mark *m = &place->mark[counter][k];
		events[k] = (struct twin_event){(BASE_MS + m->at_ms) * TWIN_MS, m->cost, m->rate, m->refund};
	}
	*twin = (struct twin){events, place->marks[counter], MARKS_MAX + 1};
}

/* Charges of one instant are one, and one that was given back to nothing is kept only where it is the last, which holds
 * the clock: so that histories that leave the same meet. */
static void pack(struct place *place, size_t counter, const struct twin *twin) {
	struct mark *marks = place->mark[counter];
	size_t count = 0;
	assert_true(twin->count <= MARKS_MAX);
	for (size_t k = 0; k < twin->count; k++) {
		const struct twin_event *e = &twin->events[k];
		struct mark m = {(uint32_t)(e->at_ns / TWIN_MS - BASE_MS), (uint32_t)e->cost, (uint8_t)e->rate, e->refund};
		struct mark *last = count != 0 ? &marks[count - 1] : NULL;
		if (last != NULL && last->cost == 0 && !last->refund && !m.refund)
			count--;
		else if (last != NULL && last->at_ms == m.at_ms && last->rate == m.rate && last->refund == m.refund)
			m.cost += marks[--count].cost;
		marks[count++] = m;
	}
	place->marks[counter] = (uint8_t)count;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static const char *const keys[COUNTERS] = {"a", "b"};

static struct sluice_call ask(const struct world *w, const struct letter *letter, sluice_operation operation,
                              uint64_t now_ms, struct sluice_decision each[COUNTERS]) {
	struct sluice_item items[COUNTERS];
	struct sluice_call call = {.items = items, .cost = letter->cost, .operation = operation, .want_next = true};
	memset(items, 0, sizeof items);
	for (size_t i = 0; i < w->counters; i++)
		if (letter->counters >> i & 1) {
			items[call.item_count].limit = &w->limits[i][letter->changed];
			items[call.item_count++].key = sl_str(keys[i]);
		}
	call.now = now_ms * TWIN_MS;
	call.each = each;
	assert_int_equal(sluice_decide(w->store, &call), SLUICE_OK);
	return call;
}

/* The k-th call of a history, with those that it begins with. */
static const struct letter *letter_of(const struct world *w, const struct place *place, size_t k) {
	return k < w->begun ? &w->beginning[k] : &w->alphabet[place->history.calls[k - w->begun]];
}

static void differ(const struct world *w, const struct place *place, const struct letter *last, const char *what) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	uint64_t now = place->start_ms;
	for (size_t i = 0; i < w->counters; i++)
		for (int changed = 0; changed < 2; changed++) {
			rule_print(&w->rules[i][changed], text, sizeof text);
			fprintf(stderr, "%s%s: %s\n", keys[i], changed ? " changed" : "", text);
		}
	for (size_t k = 0; k <= w->begun + place->history.depth; k++) {
		const struct letter *l = k < w->begun + place->history.depth ? letter_of(w, place, k) : last;
		now += (uint64_t)(int64_t)l->wait_ms;
		fprintf(stderr, "  %s %" PRIu32 " at %" PRIu64 " ms of counters %" PRIu32 "%s\n",
		        l->operation == SLUICE_REFUND ? "refund" : "charge", l->cost, now - BASE_MS, l->counters,
		        l->changed ? ", changed" : "");
	}
	fail_msg("%s", what);
}

/* The counters as the history leaves them. */
static void play(const struct world *w, const struct place *place) {
	struct letter all = {.operation = SLUICE_RESET, .counters = (1u << w->counters) - 1};
	struct sluice_decision each[COUNTERS];
	uint64_t now = place->start_ms;
	(void)ask(w, &all, SLUICE_RESET, now, each);
	for (size_t k = 0; k < w->begun + place->history.depth; k++) {
		const struct letter *l = letter_of(w, place, k);
		now += (uint64_t)(int64_t)l->wait_ms;
		(void)ask(w, l, l->operation, now, each);
	}
}

static void compare_merged(const struct world *w, const struct place *place, const struct letter *l,
                           const struct sluice_call *call, const struct twin_answer *answers, bool allowed) {
	size_t decided;
	struct twin_answer merged = twin_merged(answers, call->item_count, allowed, &decided);
	struct sluice_decision got = call->merged;
	const struct twin_rule any = {.algorithm = SLUICE_FIXED_WINDOW, .quota = 1};
	if (got.index != (int32_t)decided)
		differ(w, place, l, "the index of the limit that decided");
	got.index = 0;
	const char *what = twin_difference(&merged, &any, &got, true, w->unit_ns);
	if (what != NULL)
		differ(w, place, l, what);
}

static void compare(const struct world *w, const struct place *place, const struct letter *l,
                    const struct sluice_call *call, const struct twin_answer *answers, bool allowed) {
	for (size_t i = 0, at = 0; i < w->counters; i++) {
		struct sluice_decision got;
		const char *what;
		if ((l->counters >> i & 1) == 0)
			continue;
		got = call->each[at];
		got.index = 0;
		if (!allowed) /* a limit that admits where another denies holds nobody */
			got.delay_ns = answers[at].delay * w->unit_ns;
		what = twin_difference(&answers[at], &w->rules[i][l->changed], &got, true, w->unit_ns);
		if (what != NULL)
			differ(w, place, l, what);
		at++;
	}
	compare_merged(w, place, l, call, answers, allowed);
}

static bool all_admit(const struct world *w, struct twin twins[COUNTERS], const struct letter *l, uint64_t now_ns) {
	for (size_t i = 0; i < w->counters; i++)
		if (l->counters >> i & 1 &&
		    !twin_admits(&twins[i], &w->rules[i][l->changed], twin_clock(&twins[i], now_ns), l->cost))
			return false;
	return true;
}

/* The twins' answers to a letter; they are changed as it says, or as a peek says. Returns whether all admit. */
static bool expect(const struct world *w, struct twin twins[COUNTERS], const struct letter *l,
                   sluice_operation operation, uint64_t now_ms, struct twin_answer answers[COUNTERS]) {
	uint64_t now_ns = now_ms * TWIN_MS;
	bool allowed = operation == SLUICE_REFUND || all_admit(w, twins, l, now_ns);
	for (size_t i = 0, at = 0; i < w->counters; i++) {
		const struct twin_rule *rule = &w->rules[i][l->changed];
		if ((l->counters >> i & 1) == 0)
			continue;
		if (operation == SLUICE_REFUND)
			answers[at++] = twin_refund(&twins[i], rule, now_ns, l->cost, w->unit_ns);
		else if (operation == SLUICE_CHARGE && allowed)
			answers[at++] = twin_charge(&twins[i], rule, now_ns, l->cost, w->unit_ns);
		else
			answers[at++] = twin_peek(&twins[i], rule, now_ns, l->cost, w->unit_ns);
	}
	return allowed;
}

/* One call in a place, and a peek before it where it charges, which changes nothing. `to` is where it leads. */
static void step(const void *world, const void *place, size_t letter, void *next) {
	const struct world *w = world;
	const struct place *from = place;
	const struct letter *l = &w->alphabet[letter];
	struct place *to = next;
	struct twin twins[COUNTERS];
	struct twin_event events[COUNTERS][MARKS_MAX + 1];
	struct twin_answer answers[COUNTERS];
	struct sluice_decision each[COUNTERS];
	struct sluice_call call;
	uint64_t before[2] = {0, 0}, after[2] = {0, 0};
	bool allowed;
	to->now_ms = from->now_ms + (uint64_t)(int64_t)l->wait_ms;
	for (size_t i = 0; i < w->counters; i++)
		unpack(from, i, &twins[i], events[i]);
	play(w, from);
	see_store(w, BASE_MS, before);
	if (l->operation == SLUICE_CHARGE) {
		call = ask(w, l, SLUICE_PEEK, to->now_ms, each);
		allowed = expect(w, twins, l, SLUICE_PEEK, to->now_ms, answers);
		compare(w, from, l, &call, answers, allowed);
	}
	call = ask(w, l, l->operation, to->now_ms, each);
	allowed = expect(w, twins, l, l->operation, to->now_ms, answers);
	compare(w, from, l, &call, answers, allowed);
	see_store(w, BASE_MS, after);
	if (!allowed && memcmp(before, after, sizeof before) != 0)
		differ(w, from, l, "a denial changed what the store has");
	to->changed = l->changed;
	memcpy(to->history.seen, after, sizeof after);
	for (size_t i = 0; i < w->counters; i++)
		pack(to, i, &twins[i]);
	see_twins(w, to);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

/* Where the counters are: a charge each, looked for in all pages. */
static void find_pages(struct world *w) {
	struct sluice_decision each[COUNTERS];
	for (size_t i = 0; i < w->counters; i++) {
		struct letter one = {.cost = 1, .counters = 1u << i};
		(void)ask(w, &one, SLUICE_CHARGE, BASE_MS, each);
		w->page[i] = histories_page(w->store, BASE_MS * TWIN_MS);
		(void)ask(w, &one, SLUICE_RESET, BASE_MS, each);
	}
}

/* Of large quotas not each cost: the least ones, about a half, and the most; of the largest, one that leaves room. */
static bool matters(uint32_t cost, uint32_t most) {
	return most < 8 || cost <= 2 || cost == 5 || cost == most / 2 || cost + 2 > most ||
	       (most > UINT16_MAX && (cost == most - 8 || cost == UINT16_MAX));
}

static void add_letters(struct world *w, sluice_operation operation, uint32_t most, const int32_t *waits,
                        size_t count) {
	bool changes = false;
	for (size_t i = 0; i < w->counters; i++)
		changes = changes || memcmp(&w->rules[i][0], &w->rules[i][1], sizeof w->rules[i][0]) != 0;
	for (uint32_t changed = 0; changed < 1u + changes; changed++)
		for (uint32_t counters = 1; counters < 1u << w->counters; counters++)
			for (size_t i = 0; i < count; i++)
				for (uint32_t cost = 1; cost <= most; cost++) {
					if (!matters(cost, most))
						continue;
					assert_true(w->letters < ALPHABET_MAX);
					w->alphabet[w->letters++] = (struct letter){operation, cost, waits[i], counters, changed != 0};
				}
}

static uint32_t largest_cost(const struct world *w) {
	uint64_t most = 0;
	for (size_t i = 0; i < 2 * w->counters; i++)
		most = twin_quota(&w->rules[i / 2][i % 2]) > most ? twin_quota(&w->rules[i / 2][i % 2]) : most;
	return (uint32_t)most + 1;
}

static size_t waits_of(uint32_t window_ms, int32_t waits[WAITS_MAX]) {
	size_t count = 0;
	waits[count++] = -1;
	for (uint32_t ms = 0; ms <= window_ms + 1; ms++)
		if (window_ms <= 12 || ms <= 2 || ms == window_ms / 2 || ms + 1 >= window_ms) /* of long ones not each */
			waits[count++] = (int32_t)ms;
	waits[count++] = 2 * (int32_t)window_ms + 1;
	return count;
}

/* One change: who has made it does not go back. */
static bool follows(const void *world, const void *place, size_t letter) {
	const struct world *w = world;
	const struct place *from = place;
	return !from->changed || w->alphabet[letter].changed;
}

static struct place begin(const struct world *w, uint64_t start_ms) {
	struct place place = {.start_ms = start_ms, .now_ms = start_ms};
	struct twin_event events[MARKS_MAX + 1];
	struct twin twin = {events, 0, MARKS_MAX + 1};
	for (uint32_t k = 0; k < w->begun; k++) {
		place.now_ms += (uint64_t)(int64_t)w->beginning[k].wait_ms;
		twin_add(&twin, &w->rules[0][0], place.now_ms * TWIN_MS, w->beginning[k].cost);
	}
	pack(&place, 0, &twin);
	see_twins(w, &place);
	return place;
}

/* Every history begins at each phase of the window. */
static struct totals explore(const struct world *w, uint32_t window_ms, uint32_t calls) {
	static struct place starts[8];
	const struct histories all = {w, sizeof *starts, w->letters, calls, follows, step};
	const uint32_t phases = w->begun != 0 ? 1 : window_ms;
	for (uint32_t phase = 0; phase < phases; phase++)
		starts[phase] = begin(w, BASE_MS + 8 * window_ms + phase);
	return histories_explore(&all, starts, phases);
}

static void run_world(struct world *w, uint32_t window_ms, uint32_t calls, struct totals *sum) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	int32_t waits[WAITS_MAX];
	size_t count = waits_of(window_ms, waits);
	uint32_t most = largest_cost(w);
	struct totals totals;
	assert_int_equal(sluice_store_open(&w->store, &options, NULL), SLUICE_OK);
	w->unit_ns = TWIN_NS;
	for (size_t i = 0; i < w->counters; i++)
		if (w->rules[i][0].algorithm == SLUICE_SLIDING_LOG)
			w->unit_ns = TWIN_MS;
	for (size_t i = 0; i < w->counters; i++)
		for (int k = 0; k < 2; k++)
			w->limits[i][k] = rule_limit(&w->rules[i][k]);
	w->letters = 0;
	add_letters(w, SLUICE_CHARGE, most, waits, count);
	add_letters(w, SLUICE_REFUND, most < 3 ? most : 3, waits, count);
	find_pages(w);
	totals = explore(w, window_ms, calls);
	sluice_store_close(w->store);
	totals_add(sum, &totals);
}

struct size {
	uint32_t window_ms, quota, calls;
};

/* One counter whose limit stays. */
static void explore_one(const struct kind *kind, const struct size *size, struct totals *sum) {
	static struct world w;
	memset(&w, 0, sizeof w);
	w.counters = 1;
	w.rules[0][0] = w.rules[0][1] = kind_rule(kind, size->window_ms, size->quota);
	run_world(&w, size->window_ms, size->calls, sum);
}

/* One whose limit has one more, or one less, from some call on: a bucket in its burst; its rate is for rates_test.c. */
static void explore_changed(const struct kind *kind, const struct size *size, struct totals *sum) {
	static struct world w;
	for (uint32_t less = 0; less < 2; less++) {
		struct twin_rule from = kind_rule(kind, size->window_ms, size->quota + less);
		struct twin_rule to = kind_rule(kind, size->window_ms, size->quota + !less);
		if (to.algorithm == SLUICE_TOKEN_BUCKET || to.algorithm == SLUICE_LEAKY_BUCKET)
			to.quota = from.quota;
		memset(&w, 0, sizeof w);
		w.counters = 1;
		w.rules[0][0] = from;
		w.rules[0][1] = to;
		run_world(&w, size->window_ms, size->calls, sum);
	}
}

/* Two counters, of this kind and of any other, decided together or apart. */
static void explore_two(const struct kind *kind, const struct size *size, struct totals *sum) {
	static struct world w;
	for (int other = 0; other < KINDS; other++) {
		memset(&w, 0, sizeof w);
		w.counters = 2;
		w.rules[0][0] = w.rules[0][1] = kind_rule(kind, size->window_ms, size->quota);
		w.rules[1][0] = w.rules[1][1] = kind_rule(&kinds[other], size->window_ms, size->quota + 1);
		run_world(&w, size->window_ms, size->calls, sum);
	}
}

/* One counter that has been charged many times. */
static void explore_begun(const struct kind *kind, const struct size *size, const struct beginning *beginning,
                          struct totals *sum) {
	static struct world w;
	memset(&w, 0, sizeof w);
	w.counters = 1;
	w.rules[0][0] = w.rules[0][1] = kind_rule(kind, size->window_ms, size->quota);
	w.rules[0][0].precision_ns = w.rules[0][1].precision_ns = w.rules[0][0].precision_ns != 0 ? TWIN_MS : 0;
	assert_true(beginning->charges <= BEGUN_MAX);
	for (w.begun = 0; w.begun < beginning->charges; w.begun++) {
		const uint32_t nth = w.begun + 1;
		const uint32_t wait = nth == beginning->pause_after + 1 ? beginning->pause_ms : beginning->gap_ms;
		const uint32_t once = beginning->heavy != 0 && nth % beginning->heavy == 0 ? 2 : 1;
		const uint32_t cost = beginning->times != 0 ? once * beginning->times : once;
		w.beginning[w.begun] = (struct letter){SLUICE_CHARGE, cost, (int32_t)wait, 1, false};
	}
	run_world(&w, size->window_ms, size->calls, sum);
}

static const struct size short_ones[] = {{1, 1, 4}, {2, 1, 4}, {2, 2, 3}, {3, 2, 3}, {4, 3, 3}},
						 short_changed[] = {{2, 1, 3}, {3, 2, 3}}, short_two[] = {{2, 1, 2}},
						 long_ones[] = {{2, 1, 6}, {2, 2, 6}, {4, 2, 5}, {8, 4, 4}},
						 long_changed[] = {{2, 1, 5}, {4, 2, 4}, {8, 4, 3}}, long_two[] = {{2, 1, 3}, {4, 2, 3}};

static void explore_sizes(const char *what, const struct size *sizes, size_t count,
                          void (*explore_size)(const struct kind *, const struct size *, struct totals *)) {
	uint32_t fewer = dice_ops(DICE_MILLION) < DICE_MILLION; /* under a sanitizer */
	const char *only = getenv("SLUICE_WORLDS");
	for (int k = 0; k < KINDS; k++) {
		struct totals sum = {0};
		if (only != NULL && strncmp(kinds[k].name, only, strlen(only)) != 0)
			continue;
		for (size_t i = 0; i < count; i++) {
			struct size size = {sizes[i].window_ms, sizes[i].quota, sizes[i].calls - fewer};
			if (kinds[k].algorithm != SLUICE_SLIDING_BUCKETS || size.window_ms >= 2) /* of two parts at least */
				explore_size(&kinds[k], &size, &sum);
		}
		totals_print(&sum, what, kinds[k].name);
	}
}

/* Of those that keep more the more is charged. */
static void explore_beginnings(const struct size *size) {
	/* A block of a log has eight entries to begin with; then 11, 13 and 15. In the last one the charge that makes it
	 * longer costs 1, as not all before it did. */
	static const struct beginning all[] = {{12, 1, 0, 0, 2, 0},  {11, 1, 6, 10, 3, 0}, {4, 3, 0, 0, 2, 0},
	                                       {12, 1, 0, 0, 0, 0},  {11, 1, 6, 10, 0, 0}, {12, 0, 6, 1, 0, 0},
	                                       {11, 1, 0, 0, 3, 0}};
	const char *only = getenv("SLUICE_WORLDS");
	for (int k = 0; k < KINDS; k++) {
		struct totals sum = {0};
		if (kinds[k].algorithm != SLUICE_SLIDING_LOG && kinds[k].algorithm != SLUICE_SLIDING_BUCKETS)
			continue;
		if (only != NULL && strncmp(kinds[k].name, only, strlen(only)) != 0)
			continue;
		/* to sub-buckets the first three are as good as all */
		for (size_t i = 0; i < (kinds[k].algorithm == SLUICE_SLIDING_LOG ? sizeof all / sizeof *all : 3); i++)
			explore_begun(&kinds[k], size, &all[i], &sum);
		totals_print(&sum, "begun", kinds[k].name);
	}
}

/* Of those whose cells grow: more than 65,535 in one of them, by one charge beside another or by two of a half. Cells
 * are narrow in rings of 17 and more: a block of 64 bytes has room for the others. */
static void explore_grown(uint32_t calls) {
	static const struct beginning beside = {1, 0, 0, 0, 0, 5}, halves = {2, 0, 0, 0, 0, 35000};
	const struct size size = {20, 70000, calls};
	const char *only = getenv("SLUICE_WORLDS");
	for (int k = 0; k < KINDS; k++) {
		struct totals sum = {0};
		if (kinds[k].algorithm != SLUICE_SLIDING_BUCKETS ||
		    (only != NULL && strncmp(kinds[k].name, only, strlen(only)) != 0))
			continue;
		explore_begun(&kinds[k], &size, &beside, &sum);
		explore_begun(&kinds[k], &size, &halves, &sum);
		totals_print(&sum, "cells that grow", kinds[k].name);
	}
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))
#define EXPLORE(what, name, explore_size)                                                                          \
	(getenv("SLUICE_SOAK_SECONDS") != NULL ? explore_sizes(what, long_##name, COUNT_OF(long_##name), explore_size) \
	                                       : explore_sizes(what, short_##name, COUNT_OF(short_##name), explore_size))

static void every_history_of_one_counter(void **state) {
	(void)state;
	EXPLORE("one counter", ones, explore_one);
}

static void every_history_with_a_change(void **state) {
	(void)state;
	EXPLORE("a change", changed, explore_changed);
}

static void every_history_of_two_counters(void **state) {
	(void)state;
	EXPLORE("two counters", two, explore_two);
}

static void every_history_that_begins_with_many_charges(void **state) {
	static const struct size quick = {12, 24, 2}, longer = {12, 24, 3};
	(void)state;
	explore_beginnings(getenv("SLUICE_SOAK_SECONDS") != NULL ? &longer : &quick);
}

static void every_history_of_cells_that_grow(void **state) {
	(void)state;
	explore_grown(getenv("SLUICE_SOAK_SECONDS") != NULL ? 3 : 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_history_of_cells_that_grow),
		cmocka_unit_test(every_history_that_begins_with_many_charges),
		cmocka_unit_test(every_history_of_one_counter),
		cmocka_unit_test(every_history_with_a_change),
		cmocka_unit_test(every_history_of_two_counters),
	};
	return cmocka_run_group_tests_name("worlds", tests, NULL, NULL);
}
