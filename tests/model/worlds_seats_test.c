/* Small worlds of leases and of members: every history of some calls over one or two counters, each answer held against
 * a list of who counts until when, read as the contract has it:
 *
 *   concurrency N lease T   held + c <= N, of leases that end after t; acquired or renewed at t, one ends at t + T
 *   distinct Q/W            the member is counted in (t - W, t], or fewer than Q are: he is counted until t + W
 *
 * Calls: acquire, renew and release by each of some ids; charges by each of some members, their refunds, a peek by a
 * stranger; each cost up to one more than N, each ms of a window, one ms back, two windows; one change of the quota
 * from some call on. Before each charge the same is asked by a peek, and after each call of leases who holds them, and
 * for how long. Windows are of ms, and waits are compared to the ns.
 *
 * SLUICE_SOAK_SECONDS: larger worlds, minutes. */
#include "tests/model/dice.h"
#include "tests/model/histories.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNTERS = 2, NAMES = 4, ALPHABET_MAX = 1024 };
#define BASE_MS UINT64_C(1764000000000)

struct letter {
	sluice_operation operation;
	uint32_t who, cost; /* 1..NAMES; 0: nobody */
	int32_t wait_ms;
	uint32_t counters; /* a bit for each */
	bool changed;
};

struct world {
	bool leases;
	uint32_t window_ms, quota[2], counters; /* quota: before and after the change */
	size_t letters;
	struct sluice_limit limits[2];
	struct letter alphabet[ALPHABET_MAX];
	uint64_t page[COUNTERS];
	struct sluice_store *store;
};

/* Who counts, by his number: until when, in ms; 0: he does not. */
struct counter {
	uint64_t clock_ms, end_ms[NAMES];
	uint32_t cost[NAMES];
};

struct place {
	struct history history;
	uint64_t start_ms, now_ms, changed;
	struct counter counter[COUNTERS];
};

/* ---- the definition ---------------------------------------------------------------------------------------------- */

static uint64_t held_at(const struct counter *c, uint64_t t) {
	uint64_t held = 0;
	for (int i = 0; i < NAMES; i++)
		held += c->end_ms[i] > t ? c->cost[i] : 0;
	return held;
}

static bool counts(const struct counter *c, uint32_t who, uint64_t t) {
	return who != 0 && c->end_ms[who - 1] > t;
}

static uint64_t later(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

/* The first wait after which so much more fits. */
static uint64_t wait_for(const struct counter *c, uint64_t t, uint64_t more, uint64_t quota) {
	uint64_t wait = 0;
	if (more > quota)
		return SLUICE_NEVER;
	while (held_at(c, t + wait) + more > quota)
		wait++;
	return wait * TWIN_MS;
}

/* What a cost by somebody is answered at t. */
static struct twin_answer judge(const struct world *w, const struct counter *c, uint64_t t, uint32_t who, uint32_t cost,
                                uint64_t quota) {
	uint64_t held = held_at(c, t), more = counts(c, who, t) ? 0 : cost, free;
	struct twin_answer a = {.quota = quota};
	more = !w->leases && more != 0 ? 1 : more; /* a member is one, whatever he costs */
	free = quota > held ? quota - held : 0;
	a.allowed = more == 0 || more <= free;
	a.remaining = (uint32_t)free;
	a.retry = a.allowed ? 0 : wait_for(c, t, more, quota);
	a.next = free == quota ? 0 : wait_for(c, t, free + 1, quota);
	for (int i = 0; i < NAMES; i++)
		a.reset = c->end_ms[i] > t ? later(a.reset, (c->end_ms[i] - t) * TWIN_MS) : a.reset;
	return a;
}

static void count_in(const struct world *w, struct counter *c, uint64_t t, uint32_t who, uint32_t cost) {
	if (w->leases && counts(c, who, t))
		return; /* he holds it, and nothing more */
	c->end_ms[who - 1] = t + w->window_ms;
	c->cost[who - 1] = w->leases ? cost : 1;
	c->clock_ms = t;
}

/* Ends somebody's lease or renews it, or forgets a member. Returns whether he counted. */
static bool change(const struct world *w, struct counter *c, uint64_t t, const struct letter *l) {
	if (!counts(c, l->who, t))
		return false;
	c->end_ms[l->who - 1] = l->operation == SLUICE_RENEW ? t + w->window_ms : 0;
	c->clock_ms = l->operation == SLUICE_RENEW ? t : c->clock_ms;
	return true;
}

struct expected {
	struct twin_answer each[COUNTERS];
	uint32_t found;
	bool allowed, repeated;
};

static bool is_charge(const struct letter *l) {
	return l->operation == SLUICE_ACQUIRE || l->operation == SLUICE_CHARGE;
}

/* What a letter is answered, the counters changed as it says; `peek`: as if it were a peek. */
static struct expected expect(const struct world *w, struct place *to, const struct letter *l, bool peek) {
	struct expected e = {.allowed = true, .repeated = w->leases && !peek && is_charge(l)};
	uint64_t quota = w->quota[l->changed];
	uint32_t who = peek && w->leases ? 0 : l->who; /* a peek has no id */
	for (uint32_t i = 0; i < w->counters; i++) {
		const struct counter *c = &to->counter[i];
		uint64_t t = later(to->now_ms, c->clock_ms);
		if ((l->counters >> i & 1) == 0)
			continue;
		e.allowed = e.allowed && (!is_charge(l) || judge(w, c, t, who, l->cost, quota).allowed);
		e.repeated = e.repeated && counts(c, l->who, t);
	}
	for (uint32_t i = 0, at = 0; i < w->counters; i++) {
		struct counter *c = &to->counter[i];
		uint64_t t = later(to->now_ms, c->clock_ms);
		if ((l->counters >> i & 1) == 0)
			continue;
		e.each[at] = judge(w, c, t, who, is_charge(l) ? l->cost : 0, quota);
		if (is_charge(l) && e.allowed && !peek && l->cost != 0)
			count_in(w, c, t, l->who, l->cost);
		else if (!is_charge(l))
			e.found += change(w, c, t, l) && w->leases;
		if (e.allowed)
			e.each[at] = judge(w, c, later(to->now_ms, c->clock_ms), 0, 0, quota);
		at++;
	}
	return e;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static const char *const keys[COUNTERS] = {"a", "b"};
static const char *const names[NAMES + 1] = {"", "0000000000000001", "0000000000000002", "0000000000000003",
                                         "0000000000000004"};

static struct sluice_call ask(const struct world *w, const struct letter *l, sluice_operation operation,
                              uint64_t now_ms, struct sluice_decision each[COUNTERS]) {
	struct sluice_item items[COUNTERS] = {{0}, {0}};
	struct sluice_call call = {.items = items, .cost = l->cost, .operation = operation, .want_next = true};
	for (uint32_t i = 0; i < w->counters; i++)
		if (l->counters >> i & 1) {
			items[call.item_count].limit = &w->limits[l->changed];
			items[call.item_count].key = sl_str(keys[i]);
			if (!w->leases && l->who != 0)
				items[call.item_count].member = sl_str(names[l->who]);
			call.item_count++;
		}
	if (w->leases && l->who != 0)
		call.id = sl_str(names[l->who]);
	call.now = now_ms * TWIN_MS;
	call.each = each;
	assert_int_equal(sluice_decide(w->store, &call), SLUICE_OK);
	call.items = NULL;
	return call;
}

static const char *const operations[] = {"charge", "peek", "refund", "reset", "acquire", "release", "renew"};

static void differ(const struct world *w, const struct place *from, const struct letter *last, const char *what) {
	uint64_t now = from->start_ms;
	fprintf(stderr, "%s, window %" PRIu32 " ms, quota %" PRIu32 ", then %" PRIu32 "\n",
	        w->leases ? "concurrency" : "distinct", w->window_ms, w->quota[0], w->quota[1]);
	for (size_t k = 0; k <= from->history.depth; k++) {
		const struct letter *l = k < from->history.depth ? &w->alphabet[from->history.calls[k]] : last;
		now += (uint64_t)(int64_t)l->wait_ms;
		fprintf(stderr, "  %s by %" PRIu32 " of %" PRIu32 " at %" PRIu64 " ms, counters %" PRIu32 "%s\n",
		        operations[l->operation], l->who, l->cost, now - BASE_MS, l->counters, l->changed ? ", changed" : "");
	}
	fail_msg("%s", what);
}

static void compare(const struct world *w, const struct place *from, const struct letter *l,
                    const struct sluice_call *call, const struct expected *e) {
	const struct twin_rule any = {.algorithm = SLUICE_FIXED_WINDOW, .quota = 1};
	struct sluice_decision got = call->merged;
	struct twin_answer merged;
	size_t decided;
	const char *what;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_decision one = call->each[i];
		one.index = 0;
		what = twin_difference(&e->each[i], &any, &one, true, TWIN_NS);
		if (what != NULL)
			differ(w, from, l, what);
	}
	merged = twin_merged(e->each, call->item_count, e->allowed, &decided);
	if (got.index != (int32_t)decided)
		differ(w, from, l, "the index of the limit that decided");
	got.index = 0;
	what = twin_difference(&merged, &any, &got, true, TWIN_NS);
	if (what != NULL)
		differ(w, from, l, what);
	if (call->found != e->found || call->repeated != e->repeated)
		differ(w, from, l, "found, or repeated");
}

/* Who holds what: those that end first first, and of equals the lower id. */
static void compare_holders(const struct world *w, const struct place *from, const struct letter *l,
                            const struct place *to) {
	for (uint32_t i = 0; i < w->counters; i++) {
		const struct counter *c = &to->counter[i];
		struct sluice_holder list[NAMES + 1];
		uint64_t t = later(to->now_ms, c->clock_ms), before = 0;
		uint32_t last = 0, count = sluice_holders(w->store, &w->limits[l->changed], sl_str(keys[i]),
		                                          to->now_ms * TWIN_MS, list, NAMES + 1);
		for (uint32_t who = 1; who <= NAMES; who++)
			last += counts(c, who, t);
		if (count != last)
			differ(w, from, l, "how many hold leases");
		for (uint32_t k = 0, id = 0; k < count; k++) {
			uint64_t order = list[k].ends_after_ns;
			id = (uint32_t)list[k].id;
			if (id < 1 || id > NAMES || !counts(c, id, t) || list[k].cost != c->cost[id - 1] ||
			    list[k].ends_after_ns != (c->end_ms[id - 1] - t) * TWIN_MS)
				differ(w, from, l, "who holds a lease");
			if (order < before || (k != 0 && order == before && list[k].id <= list[k - 1].id))
				differ(w, from, l, "the order of who holds leases");
			before = order;
		}
	}
}

static void see_model(struct place *place) {
	const uint64_t *words = &place->now_ms;
	size_t count = (sizeof *place - offsetof(struct place, now_ms)) / sizeof *words;
	for (size_t i = 0; i < count; i++)
		histories_mix(place->history.seen, words[i]);
}

/* Who has ended long ago is forgotten, so that histories meet. */
static void tidy(struct place *place) {
	for (int i = 0; i < COUNTERS; i++)
		for (int k = 0; k < NAMES; k++)
			if (place->counter[i].end_ms[k] <= place->counter[i].clock_ms)
				place->counter[i].end_ms[k] = place->counter[i].cost[k] = 0;
}

static void play(const struct world *w, const struct place *place) {
	struct letter all = {.operation = SLUICE_RESET, .counters = (1u << w->counters) - 1};
	struct sluice_decision each[COUNTERS];
	uint64_t now = place->start_ms;
	(void)ask(w, &all, SLUICE_RESET, now, each);
	for (size_t k = 0; k < place->history.depth; k++) {
		const struct letter *l = &w->alphabet[place->history.calls[k]];
		now += (uint64_t)(int64_t)l->wait_ms;
		(void)ask(w, l, l->operation, now, each);
	}
}

static void see_store(const struct world *w, uint64_t seen[2]) {
	seen[0] = seen[1] = 0;
	for (uint32_t i = 0; i < w->counters; i++)
		if (i == 0 || w->page[i] != w->page[0])
			histories_see(w->store, w->page[i], BASE_MS * TWIN_MS, seen);
}

static void step(const void *world, const void *place, size_t letter, void *next) {
	const struct world *w = world;
	const struct place *from = place;
	const struct letter *l = &w->alphabet[letter];
	struct place *to = next;
	struct sluice_decision each[COUNTERS];
	struct sluice_call call;
	struct expected e;
	uint64_t before[2], after[2];
	bool changes;
	to->now_ms = from->now_ms + (uint64_t)(int64_t)l->wait_ms;
	play(w, from);
	see_store(w, before);
	if (is_charge(l)) {
		call = ask(w, l, SLUICE_PEEK, to->now_ms, each);
		e = expect(w, to, l, true);
		compare(w, from, l, &call, &e);
	}
	call = ask(w, l, l->operation, to->now_ms, each);
	e = expect(w, to, l, false);
	compare(w, from, l, &call, &e);
	if (w->leases)
		compare_holders(w, from, l, to);
	see_store(w, after);
	changes = e.allowed && !e.repeated && (!w->leases || is_charge(l) || e.found != 0);
	if (!changes && memcmp(before, after, sizeof before) != 0)
		differ(w, from, l, "a call that changes nothing changed what the store has");
	to->changed = l->changed;
	tidy(to);
	memcpy(to->history.seen, after, sizeof after);
	see_model(to);
}

/* ---- worlds ------------------------------------------------------------------------------------------------------ */

static bool follows(const void *world, const void *place, size_t letter) {
	const struct world *w = world;
	const struct place *from = place;
	return from->changed == 0 || w->alphabet[letter].changed;
}

static void add_letter(struct world *w, struct letter letter) {
	bool changes = w->quota[0] != w->quota[1];
	for (int changed = 0; changed <= changes; changed++)
		for (letter.counters = 1; letter.counters < 1u << w->counters; letter.counters++) {
			assert_true(w->letters < ALPHABET_MAX);
			letter.changed = changed != 0;
			w->alphabet[w->letters++] = letter;
		}
}

static void fill_alphabet(struct world *w, uint32_t people, bool lean) {
	uint32_t most = (w->quota[0] > w->quota[1] ? w->quota[0] : w->quota[1]) + 1;
	const int32_t last = lean ? 2 : (int32_t)w->window_ms + 2;
	w->letters = 0;
	for (int32_t i = lean ? 0 : -1; i <= last - lean; i++) {
		int32_t wait = i == last ? 2 * (int32_t)w->window_ms + 1 : i;
		for (uint32_t who = 1; who <= people; who++) {
			for (uint32_t cost = 1; cost <= (w->leases ? most : 1); cost++)
				add_letter(w, (struct letter){w->leases ? SLUICE_ACQUIRE : SLUICE_CHARGE, who, cost, wait, 0, 0});
			if (lean)
				continue;
			add_letter(w, (struct letter){w->leases ? SLUICE_RELEASE : SLUICE_REFUND, who, 1, wait, 0, 0});
			if (w->leases)
				add_letter(w, (struct letter){SLUICE_RENEW, who, 1, wait, 0, 0});
		}
	}
}

static void find_pages(struct world *w) {
	struct sluice_decision each[COUNTERS];
	for (uint32_t i = 0; i < w->counters; i++) {
		struct letter one = {.who = 1, .cost = 1, .counters = 1u << i};
		(void)ask(w, &one, w->leases ? SLUICE_ACQUIRE : SLUICE_CHARGE, BASE_MS, each);
		w->page[i] = histories_page(w->store, BASE_MS * TWIN_MS);
		(void)ask(w, &one, SLUICE_RESET, BASE_MS, each);
	}
}

struct size {
	bool leases;
	uint32_t window_ms, quota, then, counters, people, calls;
	bool lean; /* none gives back, and at most a ms passes: for more people, who end one after another */
};

static struct totals explore(const struct size *size) {
	static struct world w;
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct place start = {.start_ms = BASE_MS + 100, .now_ms = BASE_MS + 100};
	uint32_t fewer = dice_ops(DICE_MILLION) < DICE_MILLION; /* under a sanitizer */
	struct histories all = {&w, sizeof start, 0, size->calls - fewer, follows, step};
	struct totals totals;
	memset(&w, 0, sizeof w);
	w.leases = size->leases;
	w.window_ms = size->window_ms;
	w.quota[0] = size->quota;
	w.quota[1] = size->then;
	w.counters = size->counters;
	for (int k = 0; k < 2; k++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		snprintf(text, sizeof text,
		         w.leases ? "concurrency %" PRIu32 " lease %" PRIu32 "ms" : "distinct %" PRIu32 "/%" PRIu32 "ms",
		         w.quota[k], w.window_ms);
		assert_int_equal(sluice_limit_parse(&w.limits[k], sl_str(text), NULL), SLUICE_OK);
	}
	assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
	fill_alphabet(&w, size->people, size->lean);
	find_pages(&w);
	all.letters = w.letters;
	see_model(&start);
	totals = histories_explore(&all, &start, 1);
	assert_null(sluice_store_verify(w.store));
	sluice_store_close(w.store);
	return totals;
}

static void explore_all(const struct size *sizes, size_t count, bool leases) {
	struct totals sum = {0};
	for (size_t i = 0; i < count; i++)
		if (sizes[i].leases == leases) {
			struct totals one = explore(&sizes[i]);
			totals_add(&sum, &one);
		}
	totals_print(&sum, "seats", leases ? "concurrency" : "distinct");
}

static const struct size short_ones[] = {
	{true, 2, 2, 2, 1, 2, 4, false},  {true, 2, 2, 1, 1, 2, 3, false},  {true, 2, 1, 2, 2, 2, 2, false},
	{true, 5, 4, 4, 1, 4, 5, true},   {true, 3, 3, 3, 1, 4, 4, true},   {false, 2, 1, 1, 1, 2, 4, false},
	{false, 2, 2, 1, 1, 3, 3, false}, {false, 2, 1, 2, 2, 2, 3, false}, {false, 5, 3, 2, 1, 4, 5, true},
};
static const struct size long_ones[] = {
	{true, 2, 1, 1, 1, 2, 6, false},  {true, 2, 2, 2, 1, 2, 6, false},  {true, 3, 2, 3, 1, 3, 4, false},
	{true, 4, 3, 2, 1, 2, 4, false},  {true, 2, 1, 2, 2, 2, 3, false},  {true, 8, 4, 4, 1, 3, 3, false},
	{true, 6, 4, 4, 1, 4, 6, true},   {false, 2, 1, 1, 1, 3, 6, false}, {false, 2, 2, 2, 1, 3, 6, false},
	{false, 4, 2, 3, 1, 3, 4, false}, {false, 4, 3, 1, 1, 3, 4, false}, {false, 2, 1, 2, 2, 3, 3, false},
	{false, 8, 2, 2, 1, 3, 4, false}, {false, 6, 3, 2, 1, 4, 6, true},
};

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static void run(bool leases) {
	if (getenv("SLUICE_SOAK_SECONDS") != NULL)
		explore_all(long_ones, COUNT_OF(long_ones), leases);
	else
		explore_all(short_ones, COUNT_OF(short_ones), leases);
}

static void every_history_of_leases(void **state) {
	(void)state;
	run(true);
}

static void every_history_of_members(void **state) {
	(void)state;
	run(false);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_history_of_leases),
		cmocka_unit_test(every_history_of_members),
	};
	return cmocka_run_group_tests_name("worlds of seats", tests, NULL, NULL);
}
