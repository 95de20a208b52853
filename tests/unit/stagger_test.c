/* Staggered waits, under a clock that is passed in: a thousand callers are denied within a second, each comes back when
 * it was told, and nobody else comes. Then nobody is denied again, nobody was told less than the truth, and the last is
 * served as early as if they had stood in line. */
#include "hosts/admission/stagger.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SECOND_NS (1000 * MS)
#define START_NS (UINT64_C(1767225600) * SECOND_NS) /* 2026-01-01 */

enum { CALLERS = 1000 };

static uint64_t dice = 88172645463325252u;

static uint64_t draw(uint64_t below) {
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % below;
}

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(text), NULL) != SLUICE_OK)
		fail_msg("%s", text);
	return limit;
}

static struct sluice_store *open_store(void) {
	struct sluice_store *store = NULL;
	assert_int_equal(sluice_store_open(&store, &(struct sluice_store_options){.memory_bytes = 4u << 20}, NULL),
	                 SLUICE_OK);
	return store;
}

static struct sluice_decision decide(struct sluice_store *store, const struct sluice_item *item, uint32_t cost,
                                     sluice_ns now, sluice_operation operation) {
	struct sluice_call call = {.items = item, .item_count = 1, .cost = cost, .operation = operation, .now = now};
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged;
}

struct caller {
	sluice_ns at;
	uint32_t cost;
};

static int by_instant(const void *a, const void *b) {
	const struct caller *x = a, *y = b;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Uses up a limit over about a window and a half, at random instants and costs. Returns when. */
static sluice_ns use_up(struct sluice_store *stores[2], const struct sluice_item *item, sluice_ns step) {
	sluice_ns now = START_NS + draw(1000) * MS;
	uint64_t quota = decide(stores[0], item, 0, now, SLUICE_PEEK).quota;
	for (int i = 0; i < 150; i++) {
		uint32_t cost = 1 + (uint32_t)draw(1 + quota / 40);
		decide(stores[0], item, cost, now, SLUICE_CHARGE);
		decide(stores[1], item, cost, now, SLUICE_CHARGE);
		now += item->limit->window_ns / 100 / step * step;
	}
	struct sluice_decision decision = decide(stores[0], item, 0, now, SLUICE_PEEK);
	decide(stores[0], item, decision.remaining, now, SLUICE_CHARGE);
	decide(stores[1], item, decision.remaining, now, SLUICE_CHARGE);
	return now;
}

/* Serves callers in line as early as the limit admits them, without tickets. Returns when the last was. */
static sluice_ns serve_in_line(struct sluice_store *store, const struct sluice_item *item, const struct caller *callers,
                               int count, sluice_ns now) {
	for (int i = 0; i < count; i++) {
		struct sluice_decision decision = decide(store, item, callers[i].cost, now, SLUICE_CHARGE);
		if (decision.allowed)
			continue;
		now += (decision.retry_after_ns + MS - 1) / MS * MS; /* as a caller told by a door comes */
		assert_true(decide(store, item, callers[i].cost, now, SLUICE_CHARGE).allowed);
	}
	return now;
}

struct outcome {
	int denied_again;
	double late; /* the last one's wait, in those of the line */
};

/* `step` is what instants are whole numbers of: 1 ms at a log's door. `elsewhere`: by the denials alone. */
static struct outcome stampede(const char *notation, uint32_t cost_max, sluice_ns step, bool elsewhere) {
	int count = cost_max == 1 ? CALLERS : CALLERS / 3; /* within the windows that tickets reach ahead */
	struct sluice_limit limit = limit_of(notation);
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_store *stores[2] = {open_store(), open_store()};
	struct sl_stagger *stagger = sl_stagger_new();
	struct caller *callers = calloc(CALLERS, sizeof *callers);
	struct outcome outcome = {0};
	assert_non_null(callers);
	sluice_ns now = use_up(stores, &item, step), before = 0;
	sluice_ns pause = limit.window_ns / CALLERS / 20 / step * step; /* all come within a twentieth of a window */
	sluice_ns ends = now + 5 * step;
	for (int i = 0; i < count; i++) {
		callers[i].cost = 1 + (uint32_t)draw(cost_max);
		struct sluice_decision decision = decide(stores[0], &item, callers[i].cost, now, SLUICE_CHARGE);
		if (decision.allowed) { /* something freed meanwhile, and he was first */
			decide(stores[1], &item, callers[i].cost, now, SLUICE_CHARGE);
			callers[i--].cost = 0;
			continue;
		}
		sluice_ns wait = sl_stagger_next(stagger, elsewhere ? NULL : stores[0], &item, callers[i].cost, now, &decision);
		assert_true(wait >= decision.retry_after_ns);
		assert_int_equal(wait % MS, 0);
		callers[i].at = now + wait;
		assert_true(callers[i].at >= before); /* in order */
		before = callers[i].at;
		if (now + pause < ends)
			now += pause;
	}
	sluice_ns line_end = serve_in_line(stores[1], &item, callers, count, now);
	qsort(callers, (size_t)count, sizeof *callers, by_instant);
	for (int i = 0; i < count; i++)
		outcome.denied_again += !decide(stores[0], &item, callers[i].cost, callers[i].at, SLUICE_CHARGE).allowed;
	outcome.late = ((double)(before - now) - MS) / (double)(line_end - now); /* told in whole ms, rounded up */
	sl_stagger_free(stagger);
	free(callers);
	sluice_store_close(stores[0]);
	sluice_store_close(stores[1]);
	return outcome;
}

static const struct {
	const char *limit;
	sluice_ns step;
} limits[] = {
	{"fixed-window 100/1m", 1},
	{"fixed-window 1000/1s", 1},
	{"100/1m", 1},
	{"5000/1s", 1},
	{"100/1d", 1},
	{"sliding-log 100/1m", MS},
	{"sliding-log 3000/1s", MS},
	{"sliding-log 200/30d", MS},
	{"sliding-buckets 100/1m precision 1s", 1},
	{"sliding-buckets 100/1m precision 1s edge drop", 1},
	{"sliding-buckets 100/1m precision 10s edge weighted", 1},
	{"sliding-buckets 1000/1s precision 100ms edge weighted", 1},
	{"token-bucket 100/1m burst 20", 1},
	{"token-bucket 3000/1s burst 5", 1},
	{"token-bucket 70/1h burst 500", 1},
	{"token-bucket 100/365d burst 100", 1}, /* ticks of a millisecond */
	{"leaky-bucket 100/1m queue 30", 1},
	{"leaky-bucket 10000/1s queue 3", 1},
	{"100/hour at Australia/Lord_Howe", 1},
};

static void test_a_thousand_who_come_when_told_are_not_denied_again(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		for (uint32_t cost_max = 1; cost_max <= 4; cost_max += 3) {
			struct outcome outcome = stampede(limits[i].limit, cost_max, limits[i].step, false);
			/* weighted shares are rounded up to whole cost: a thousandth or two later */
			if (outcome.denied_again != 0 || outcome.late > 1.002)
				fail_msg("%s, cost 1..%u: %d denied again, the last at %.4f of the line's time", limits[i].limit,
				         cost_max, outcome.denied_again, outcome.late);
		}
}

/* The counters are in Redis: what a denial says of a bucket or a fixed window is enough, and all others are told the
 * truth. */
static void test_elsewhere_some_are_spread_by_their_denials(void **state) {
	int buckets = 0;
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct sluice_limit limit = limit_of(limits[i].limit);
		for (uint32_t cost_max = 1; cost_max <= 4 && sl_stagger_suits_elsewhere(&limit); cost_max += 3, buckets++) {
			struct outcome outcome = stampede(limits[i].limit, cost_max, limits[i].step, true);
			if (outcome.denied_again != 0 || outcome.late > 1.002)
				fail_msg("%s, cost 1..%u: %d denied again, the last at %.4f of the line's time", limits[i].limit,
				         cost_max, outcome.denied_again, outcome.late);
		}
	}
	assert_int_equal(buckets, 18);
}

static void test_elsewhere_others_are_told_the_truth(void **state) {
	const struct sluice_limit log = limit_of("sliding-log 2/1m"), bucket = limit_of("token-bucket 1/1s burst 1");
	struct sluice_item item = {.limit = &log, .key = sl_str("k")};
	struct sluice_decision denial = {.quota = 2, .retry_after_ns = 7 * MS + 1, .reset_after_ns = 60000 * MS};
	struct sl_stagger *stagger = sl_stagger_new();
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 7 * MS + 1);
	/* a fixed window that frees before it ends is one with reservations, of which the denial says nothing */
	const struct sluice_limit window = limit_of("fixed-window 2/1m");
	const sluice_ns left = 60000 * MS - START_NS % (60000 * MS);
	item = (struct sluice_item){.limit = &window, .key = sl_str("w")};
	for (int i = 0; i < 3; i++)
		assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 7 * MS + 1);
	denial.retry_after_ns = left;
	for (int i = 0; i < 6; i++) /* two fit the next window, two the one after it */
		assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), left + i / 2 * (60000 * MS));
	denial.retry_after_ns = 7 * MS + 1;
	item = (struct sluice_item){.limit = &bucket, .key = sl_str("k")};
	denial.bound = SLUICE_BOUND_QUEUE; /* what a bound lets pass again is none of the bucket's */
	for (int i = 0; i < 3; i++)
		assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 7 * MS + 1);
	denial.bound = SLUICE_BOUND_NONE;
	for (int i = 0; i < 3; i++) /* a quota of the key's own, of which its rate is not told */
		assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 7 * MS + 1);
	denial.quota = 1;
	assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 8 * MS);
	assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 1008 * MS);
	/* a penalty's wait is no bucket's: after it those who wait find it as full as it then is */
	const struct sluice_terms terms = {.penalty_count = 1, .after = 1, .within_ns = MS, .penalties_ns = {5000 * MS}};
	item = (struct sluice_item){.limit = &bucket, .key = sl_str("p"), .terms = &terms};
	denial.retry_after_ns = denial.reset_after_ns = 5000 * MS;
	assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 5000 * MS);
	assert_int_equal(sl_stagger_next(stagger, NULL, &item, 1, START_NS, &denial), 6000 * MS);
	sl_stagger_free(stagger);
}

/* ---- a line of one limit, used up at START_NS -------------------------------------------------------------------- */

struct desk {
	struct sluice_limit limit;
	struct sluice_item item;
	struct sluice_store *store;
	struct sl_stagger *stagger;
};

static void desk_open(struct desk *desk, const char *notation) {
	desk->limit = limit_of(notation);
	desk->item = (struct sluice_item){.limit = &desk->limit, .key = sl_str("k")};
	desk->store = open_store();
	desk->stagger = sl_stagger_new();
	assert_non_null(desk->stagger);
	decide(desk->store, &desk->item, desk->limit.quota, START_NS, SLUICE_CHARGE);
}

static void desk_close(struct desk *desk) {
	sl_stagger_free(desk->stagger);
	sluice_store_close(desk->store);
}

/* The wait that a caller denied `at_ms` after the start is told, in ms; `truth_ms` out, may be NULL. */
static uint64_t told(struct desk *desk, const char *key, uint64_t at_ms, uint64_t *truth_ms) {
	sluice_ns now = START_NS + at_ms * MS;
	struct sluice_item item = {.limit = &desk->limit, .key = sl_str(key)};
	struct sluice_decision decision = decide(desk->store, &item, 1, now, SLUICE_PEEK);
	assert_false(decision.allowed);
	if (truth_ms != NULL)
		*truth_ms = (uint64_t)sl_ns_to_ms_ceil(decision.retry_after_ns);
	return (uint64_t)sl_ns_to_ms_ceil(
		sl_stagger_next(desk->stagger, desk->store, &item, 1, now, &decision));
}

static void test_slots_are_told_in_order(void **state) {
	struct desk desk;
	(void)state;
	desk_open(&desk, "token-bucket 10/1s burst 1");
	decide(desk.store, &desk.item, 1, START_NS, SLUICE_CHARGE);
	for (uint64_t i = 1; i <= 50; i++)
		assert_int_equal(told(&desk, "k", 0, NULL), i * 100);
	desk_close(&desk);
	desk_open(&desk, "sliding-log 2/1m");
	assert_int_equal(told(&desk, "k", 1000, NULL), 59000);
	assert_int_equal(told(&desk, "k", 1000, NULL), 59000); /* both units are free then */
	assert_int_equal(told(&desk, "k", 1000, NULL), 119000);
	assert_int_equal(told(&desk, "k", 2000, NULL), 118000);
	assert_int_equal(told(&desk, "k", 2000, NULL), 178000);
	desk_close(&desk);
}

static void test_a_ticket_is_forgotten_when_its_instant_has_passed(void **state) {
	struct desk desk;
	uint64_t truth;
	(void)state;
	desk_open(&desk, "fixed-window 3/1m");
	for (int i = 0; i < 3; i++)
		assert_int_equal(told(&desk, "k", 0, NULL), 60000);
	assert_int_equal(told(&desk, "k", 0, NULL), 120000);
	/* nobody came; others did, and used the minute up */
	decide(desk.store, &desk.item, 3, START_NS + 61000 * MS, SLUICE_CHARGE);
	assert_int_equal(told(&desk, "k", 62000, &truth), 58000); /* one ticket, for 120 s, is left before him */
	assert_int_equal(truth, 58000);
	assert_int_equal(told(&desk, "k", 62000, NULL), 58000);
	assert_int_equal(told(&desk, "k", 62000, NULL), 118000);
	desk_close(&desk);
}

/* Who hammers begins new rounds, and sends nobody further than the windows that tickets reach. */
static void test_nobody_is_sent_away_for_longer_than_a_round(void **state) {
	struct desk desk;
	uint64_t longest = 0, truths = 0;
	(void)state;
	desk_open(&desk, "sliding-log 5/1m");
	for (uint64_t i = 0; i < 5000; i++) {
		uint64_t truth, wait = told(&desk, "k", i, &truth);
		assert_true(wait >= truth);
		longest = wait > longest ? wait : longest;
		truths += wait == truth;
	}
	assert_in_range(longest, (SL_STAGGER_WINDOWS - 1) * 60000, SL_STAGGER_WINDOWS * 60000);
	assert_true(truths >= 5000 / (5 * SL_STAGGER_WINDOWS)); /* each round begins with the truth */
	desk_close(&desk);
}

static void test_a_cost_that_never_fits_takes_no_ticket(void **state) {
	const struct sluice_decision never = {.retry_after_ns = SLUICE_NEVER};
	struct desk desk;
	(void)state;
	desk_open(&desk, "10/1m");
	assert_int_equal(sl_stagger_next(desk.stagger, desk.store, &desk.item, 11, START_NS, &never), SLUICE_NEVER);
	uint64_t truth, wait = told(&desk, "k", 0, &truth);
	assert_int_equal(wait, truth);
	desk_close(&desk);
	desk_open(&desk, "0/1m");
	assert_int_equal(sl_stagger_next(desk.stagger, desk.store, &desk.item, 1, START_NS, &never), SLUICE_NEVER);
	desk_close(&desk);
}

/* Quota changes under the tickets, up and down, as a reload or an override does. */
static void test_tickets_survive_another_quota(void **state) {
	static const char *const notations[] = {"token-bucket 10/1s burst 1", "token-bucket 20/1s burst 4",
	                                        "token-bucket 2/1s burst 1"};
	struct desk desk;
	uint64_t last = 0;
	(void)state;
	desk_open(&desk, notations[0]);
	uint64_t name = desk.limit.derived[1];
	for (uint64_t i = 0; i < 30; i++) {
		desk.limit = limit_of(notations[i % 3]);
		desk.limit.derived[1] = name; /* one name of a policy */
		struct sluice_decision decision = decide(desk.store, &desk.item, 1, START_NS, SLUICE_PEEK);
		uint64_t wait = sl_stagger_next(desk.stagger, desk.store, &desk.item, 1, START_NS, &decision);
		assert_true(wait >= decision.retry_after_ns);
		assert_true(wait >= last);
		assert_true(wait <= 16 * SECOND_NS);
		last = wait;
	}
	desk_close(&desk);
}

/* A key with a quota of its own, used up, whose callers all come when they are told. Returns the last one's wait in ms;
 * 0 where one is denied again. */
static uint64_t line_of_own(const char *notation, const char *own, int callers) {
	struct sluice_limit quota = limit_of(own);
	uint64_t waits[32] = {0};
	bool again = false;
	struct desk desk;
	desk_open(&desk, notation);
	sl_rule_name(&desk.limit, sl_str("a limit of a policy")); /* whose buckets may have another rate */
	struct sluice_override_request request = {.limit = &desk.limit, .key = desk.item.key, .own = &quota};
	assert_int_equal(sluice_override_set(desk.store, &request, START_NS, NULL), SLUICE_OK);
	uint32_t all = (uint32_t)decide(desk.store, &desk.item, 0, START_NS, SLUICE_PEEK).quota;
	assert_true(decide(desk.store, &desk.item, all, START_NS, SLUICE_CHARGE).allowed);
	for (int i = 0; i < callers; i++)
		waits[i] = told(&desk, "k", 0, NULL);
	for (int i = 0; i < callers; i++)
		again = again || !decide(desk.store, &desk.item, 1, START_NS + waits[i] * MS, SLUICE_CHARGE).allowed;
	desk_close(&desk);
	return again ? 0 : waits[callers - 1];
}

static void test_a_key_is_spread_by_its_own_quota(void **state) {
	static const struct {
		const char *limit, *own;
		uint64_t tenth_ms;
	} lines[] = {
		{"token-bucket 10/1m", "token-bucket 1000/1m burst 1000", 600},
		{"token-bucket 10/1m", "token-bucket 1/1m burst 1", 600000},
		{"token-bucket 0/1m", "token-bucket 60/1m burst 2", 10000},
		{"leaky-bucket 100/1m queue 30", "leaky-bucket 10/1m queue 3", 60000},
		{"fixed-window 10/1m", "fixed-window 2/1m", 300000},
		{"fixed-window 2/1m", "fixed-window 10/1m", 60000},
		{"fixed-window 2/1m spread", "fixed-window 10/1m spread", 48739},
		{"sliding-log 1/1m", "sliding-log 5/1m", 120000},
		{"sliding-log 0/1m", "sliding-log 5/1m", 120000},
		{"sliding-log 5/1m", "sliding-log 1/1m", 600000},
	};
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (line_of_own(lines[i].limit, lines[i].own, 10) != lines[i].tenth_ms)
			fail_msg("%s, the own quota of a key of %s: the tenth is told %" PRIu64 " ms", lines[i].own, lines[i].limit,
			         line_of_own(lines[i].limit, lines[i].own, 10));
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* More instants than a key may have: told later than they could be, never earlier, and nobody is denied again. */
static void test_a_long_line_keeps_its_promises(void **state) {
	enum { LONG = 5 * SL_STAGGER_TICKETS };
	struct desk desk;
	(void)state;
	desk_open(&desk, "sliding-log 400/1s");
	decide(desk.store, &desk.item, 400, START_NS, SLUICE_RESET);
	for (uint64_t i = 0; i < 400; i++) /* spread, so that each unit frees at an instant of its own */
		assert_true(decide(desk.store, &desk.item, 1, START_NS + i * 2 * MS, SLUICE_CHARGE).allowed);
	uint64_t *waits = calloc(LONG, sizeof *waits);
	assert_non_null(waits);
	for (int i = 0; i < LONG; i++)
		waits[i] = told(&desk, "k", 800, NULL);
	for (int i = 1; i < LONG; i++)
		assert_true(waits[i] >= waits[i - 1]);
	assert_true(waits[LONG - 1] < 1000 * LONG / 400 * 5 / 4);
	for (int i = 0; i < LONG; i++)
		assert_true(decide(desk.store, &desk.item, 1, START_NS + (800 + waits[i]) * MS, SLUICE_CHARGE).allowed);
	free(waits);
	desk_close(&desk);
}

static void test_more_keys_than_places_are_told_the_truth(void **state) {
	enum { KEYS = 10 * SL_STAGGER_KEYS };
	struct desk desk;
	char key[16];
	int spread = 0;
	(void)state;
	desk_open(&desk, "sliding-log 1/1m");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < KEYS; i++) {
			uint64_t truth;
			snprintf(key, sizeof key, "%d", i);
			if (round == 0)
				decide(desk.store, &(struct sluice_item){.limit = &desk.limit, .key = sl_str(key)}, 1, START_NS,
				       SLUICE_CHARGE);
			uint64_t wait = told(&desk, key, 1, &truth);
			assert_true(wait == truth || wait == truth + 60000);
			spread += wait != truth;
		}
	assert_in_range(spread, 1, SL_STAGGER_KEYS); /* those that still had a place in the second round */
	desk_close(&desk);
}

static void *deny_much(void *data) {
	struct desk *desk = data;
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t truth, wait = told(desk, "k", i / 10, &truth);
		if (wait < truth)
			return desk;
	}
	return NULL;
}

static void test_threads_share_a_line(void **state) {
	pthread_t threads[3];
	struct desk desk;
	void *failed;
	(void)state;
	desk_open(&desk, "5000/1h");
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, deny_much, &desk), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	desk_close(&desk);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thousand_who_come_when_told_are_not_denied_again),
		cmocka_unit_test(test_elsewhere_some_are_spread_by_their_denials),
		cmocka_unit_test(test_elsewhere_others_are_told_the_truth),
		cmocka_unit_test(test_slots_are_told_in_order),
		cmocka_unit_test(test_a_ticket_is_forgotten_when_its_instant_has_passed),
		cmocka_unit_test(test_nobody_is_sent_away_for_longer_than_a_round),
		cmocka_unit_test(test_a_cost_that_never_fits_takes_no_ticket),
		cmocka_unit_test(test_tickets_survive_another_quota),
		cmocka_unit_test(test_a_key_is_spread_by_its_own_quota),
		cmocka_unit_test(test_a_long_line_keeps_its_promises),
		cmocka_unit_test(test_more_keys_than_places_are_told_the_truth),
		cmocka_unit_test(test_threads_share_a_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
