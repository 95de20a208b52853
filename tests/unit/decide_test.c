/* What deciding means, case by case: the rules of contract section 4 as a person reads them, with numbers worked out by
 * hand. The random tests of tests/model say that the same holds everywhere. */
#include "base/fold.h"
#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MS = 1000000 };
#define START_MS ((uint64_t)1767225600000) /* 2026-01-01: a multiple of every window up to a day */

/* A request as a table writes it. */
struct line {
	const char *key, *limit;
	bool observed;
};

struct answer {
	struct sluice_decision each[SLUICE_ITEMS_MAX], merged;
	uint32_t forgotten;
	sluice_err err;
};

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(text), NULL) != SLUICE_OK)
		fail_msg("%s", text);
	return limit;
}

static struct answer ask(struct sluice_store *store, sluice_operation operation, uint64_t at_ms, uint32_t cost,
                         const struct line *lines, uint32_t count) {
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct answer answer;
	struct sluice_call call = {.items = items,
	                           .item_count = count,
	                           .cost = cost,
	                           .operation = operation,
	                           .want_next = true,
	                           .now = (START_MS + at_ms) * MS,
	                           .each = answer.each};
	for (uint32_t i = 0; i < count; i++) {
		limits[i] = limit_of(lines[i].limit);
		items[i] =
			(struct sluice_item){.limit = &limits[i], .key = sl_str(lines[i].key), .observed = lines[i].observed};
	}
	answer.err = sluice_decide(store, &call);
	assert_int_equal(answer.err, call.err);
	answer.merged = call.merged;
	answer.forgotten = call.forgotten;
	return answer;
}

/* The same of one limit, its only answer. */
static struct sluice_decision one(struct sluice_store *store, sluice_operation operation, uint64_t at_ms, uint32_t cost,
                                  const char *key, const char *limit) {
	struct line line = {key, limit, false};
	struct answer answer = ask(store, operation, at_ms, cost, &line, 1);
	assert_int_equal(answer.err, SLUICE_OK);
	return answer.merged;
}

static struct sluice_decision charge(struct sluice_store *store, uint64_t at_ms, uint32_t cost, const char *limit) {
	return one(store, SLUICE_CHARGE, at_ms, cost, "k", limit);
}

static struct sluice_decision peek(struct sluice_store *store, uint64_t at_ms, const char *limit) {
	return one(store, SLUICE_PEEK, at_ms, 0, "k", limit);
}

/* allowed, quota, remaining, retry, reset, delay, next; waits in ms, -1 never. */
static void expect(struct sluice_decision d, bool allowed, uint64_t quota, uint32_t remaining, int64_t retry,
                   int64_t reset, int64_t delay, int64_t next) {
	if (d.allowed != allowed || d.quota != quota || d.remaining != remaining ||
	    sl_ns_to_ms_ceil(d.retry_after_ns) != retry || sl_ns_to_ms_ceil(d.reset_after_ns) != reset ||
	    sl_ns_to_ms_ceil(d.delay_ns) != delay || sl_ns_to_ms_ceil(d.next_after_ns) != next)
		fail_msg("got %d %" PRIu64 " %" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 ", expected %d %" PRIu64
		         " %" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		         d.allowed, d.quota, d.remaining, sl_ns_to_ms_ceil(d.retry_after_ns),
		         sl_ns_to_ms_ceil(d.reset_after_ns), sl_ns_to_ms_ceil(d.delay_ns), sl_ns_to_ms_ceil(d.next_after_ns),
		         allowed, quota, remaining, retry, reset, delay, next);
}

static int open_store(void **state) {
	struct sluice_store_options options = {.memory_bytes = 4 << 20};
	return sluice_store_open((struct sluice_store **)state, &options, NULL) == SLUICE_OK ? 0 : -1;
}

static int close_store(void **state) {
	sluice_store_close(*state);
	return 0;
}

/* ---- one limit ----------------------------------------------------------------------------------------------- */

static void each_algorithm_answers_in_full(void **state) {
	struct sluice_store *s = *state;
	expect(charge(s, 250, 3, "fixed-window 10/1s"), true, 10, 7, 0, 750, 0, 750);
	expect(charge(s, 250, 8, "fixed-window 10/1s"), false, 10, 7, 750, 750, 0, 750);
	expect(charge(s, 500, 10, "sliding-window 10/1s"), true, 10, 0, 0, 1500, 0, 600);
	expect(charge(s, 1250, 3, "sliding-window 10/1s"), false, 10, 2, 50, 750, 0, 50);
	expect(charge(s, 99, 10, "sliding-buckets 10/1s precision 100ms edge count"), true, 10, 0, 0, 1001, 0, 1001);
	expect(charge(s, 150, 4, "sliding-log 10/1s"), true, 10, 6, 0, 1000, 0, 1000);
	expect(charge(s, 200, 6, "sliding-log 10/1s"), true, 10, 0, 0, 1000, 0, 950);
	expect(charge(s, 300, 5, "sliding-log 10/1s"), false, 10, 0, 900, 900, 0, 850);
	expect(charge(s, 0, 5, "token-bucket 10/1s burst 5"), true, 5, 0, 0, 500, 0, 100);
	expect(charge(s, 150, 3, "token-bucket 10/1s burst 5"), false, 5, 1, 150, 350, 0, 50);
	expect(charge(s, 0, 2, "leaky-bucket 10/1s queue 2"), true, 3, 1, 0, 200, 100, 100);
	expect(charge(s, 50, 2, "leaky-bucket 10/1s queue 2"), false, 3, 1, 50, 150, 0, 50);
	expect(charge(s, 0, 9, "unlimited"), true, UINT32_MAX, UINT32_MAX, 0, 0, 0, 0);
}

static void the_simple_call_charges_now(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 2/1h");
	struct sluice_decision d;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(sluice_check(*state, &limit, sl_str("k"), 1, &d), SLUICE_OK);
		assert_true(d.allowed == (i < 2) && d.quota == 2 && d.remaining == (i == 0 ? 1 : 0) && d.index == 0);
	}
	assert_true(d.retry_after_ns > 0 && d.retry_after_ns <= 3600001ull * MS); /* a log rounds up by 1 ms at most */
	assert_int_equal(sluice_check(*state, &limit, sl_str("k"), 3, &d), SLUICE_OK);
	assert_true(!d.allowed && d.retry_after_ns == SLUICE_NEVER);
	assert_int_equal(sluice_check(*state, &limit, sl_str("k"), 0, &d), SLUICE_OK);
	assert_true(d.allowed && d.retry_after_ns == 0);
}

static void quota_0_denies_every_cost_but_0(void **state) {
	static const char *const limits[] = {"fixed-window 0/1s", "sliding-window 0/1s", "sliding-log 0/1s",
	                                     "token-bucket 0/1s", "sliding-buckets 0/1h precision 1m"};
	struct sluice_decision leaky = charge(*state, 0, 1, "leaky-bucket 0/1s");
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		expect(charge(*state, 0, 1, limits[i]), false, 0, 0, -1, 0, 0, 0);
		expect(charge(*state, 0, UINT32_MAX, limits[i]), false, 0, 0, -1, 0, 0, 0);
		expect(charge(*state, 0, 0, limits[i]), true, 0, 0, 0, 0, 0, 0);
	}
	assert_true(!leaky.allowed && leaky.remaining == 0 && leaky.retry_after_ns == SLUICE_NEVER);
	assert_true(leaky.reset_after_ns == 0 && leaky.delay_ns == 0);
}

static void the_largest_and_smallest_rates_count(void **state) {
	expect(charge(*state, 0, 1, "sliding-log 1/3660d"), true, 1, 0, 0, 316224000000, 0, 316224000000);
	expect(charge(*state, 1, 1, "sliding-log 1/3660d"), false, 1, 0, 316223999999, 316223999999, 0, 316223999999);
	expect(charge(*state, 0, UINT32_MAX, "fixed-window 4294967295/1ms"), true, UINT32_MAX, 0, 0, 1, 0, 1);
	expect(charge(*state, 0, 1, "fixed-window 4294967295/1ms"), false, UINT32_MAX, 0, 1, 1, 0, 1);
	expect(charge(*state, 1, UINT32_MAX, "fixed-window 4294967295/1ms"), true, UINT32_MAX, 0, 0, 1, 0, 1);
	expect(charge(*state, 0, 1, "token-bucket 1/3660d burst 1"), true, 1, 0, 0, 316224000000, 0, 316224000000);
	expect(charge(*state, 0, 1, "token-bucket 1/3660d burst 1"), false, 1, 0, 316224000000, 316224000000, 0,
	       316224000000);
	expect(charge(*state, 0, UINT32_MAX, "token-bucket 4294967295/1ms"), true, UINT32_MAX, 0, 0, 1, 0, 1);
	expect(charge(*state, 0, 1, "leaky-bucket 1/1m queue 0"), true, 1, 0, 0, 60000, 0, 60000);
	expect(charge(*state, 59999, 1, "leaky-bucket 1/1m queue 0"), false, 1, 0, 1, 1, 0, 1);
	expect(charge(*state, 60000, 1, "leaky-bucket 1/1m queue 0"), true, 1, 0, 0, 60000, 0, 60000);
	expect(charge(*state, 0, 1, "sliding-window 1/1ms"), true, 1, 0, 0, 2, 0, 2);
}

/* 4294967295 units at one in ten years: 43 billion years are reported as 584. */
static void waits_saturate(void **state) {
	const int64_t most_ms = 18446744073710;
	struct sluice_decision d = charge(*state, 0, UINT32_MAX, "token-bucket 1/3660d burst 4294967295");
	assert_true(d.allowed && d.reset_after_ns == SLUICE_NEVER - 1);
	d = charge(*state, 0, UINT32_MAX, "token-bucket 1/3660d burst 4294967295");
	expect(d, false, UINT32_MAX, 0, most_ms, most_ms, 0, 316224000000);
	assert_true(d.retry_after_ns == SLUICE_NEVER - 1);
	d = charge(*state, 0, UINT32_MAX, "leaky-bucket 1/3660d queue 4294967295");
	expect(d, true, 4294967296, 1, 0, most_ms, most_ms, 316224000000);
	expect(charge(*state, 0, 2, "leaky-bucket 1/3660d queue 4294967295"), false, 4294967296, 1, 316224000000, most_ms,
	       0, 316224000000);
}

/* A quotient of 2^64 and more may be a delay that still fits, once what has passed of a tick of 1 ms is taken off: it
 * is told to the ns, and whatever is longer by as much as can be said. */
static void a_delay_at_the_end_of_all_time_is_told_to_the_ns(void **state) {
	const uint64_t debt_ms = 60 * UINT64_C(316224000000);
	static const struct {
		uint64_t left_ms; /* of the debt, with all but a ns of a tick passed; 2^64 ns are 18446744073709.6 ms */
		sluice_ns delay;
	} told[] = {{UINT64_C(18446744073709), UINT64_C(18446744073708000001)},
	            {UINT64_C(18446744073710), UINT64_C(18446744073709000001)},
	            {UINT64_C(18446744073711), SLUICE_NEVER - 1}};
	struct sluice_limit limit = limit_of("leaky-bucket 1/3660d queue 4294967295");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	charge(*state, 0, 60, "leaky-bucket 1/3660d queue 4294967295");
	for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
		struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .operation = SLUICE_PEEK};
		call.now = (START_MS + debt_ms - told[i].left_ms + 1) * MS - 1;
		assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
		assert_true(call.merged.allowed && call.merged.delay_ns == told[i].delay);
	}
}

/* ---- the clock, rule 4.6 -------------------------------------------------------------------------------------- */

static void an_instant_before_the_last_charge_is_raised_to_it(void **state) {
	static const char *const limits[] = {"fixed-window 2/1m", "sliding-window 2/1m",
	                                     "sliding-log 2/1m",  "sliding-buckets 2/1m precision 10s",
	                                     "token-bucket 2/1m", "leaky-bucket 2/1m"};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct sluice_decision at, before;
		charge(*state, 3600000, 2, limits[i]);
		at = one(*state, SLUICE_PEEK, 3600000, 2, "k", limits[i]);
		before = one(*state, SLUICE_PEEK, 0, 2, "k", limits[i]); /* waits count from the last charge */
		assert_memory_equal(&at, &before, sizeof at);
		assert_false(before.allowed);
		assert_true(charge(*state, 3600000 + 120000, 1, limits[i]).allowed);
		before = peek(*state, 3600000 + 120000, limits[i]);
		charge(*state, 0, 0, limits[i]); /* what charges nothing moves no clock, either way */
		one(*state, SLUICE_PEEK, 7200000, 1, "k", limits[i]);
		at = peek(*state, 3600000 + 120000, limits[i]);
		assert_memory_equal(&at, &before, sizeof at);
	}
}

static void a_step_back_neither_frees_nor_locks(void **state) {
	expect(charge(*state, 86400000, 5, "sliding-log 10/10s"), true, 10, 5, 0, 10000, 0, 10000);
	expect(charge(*state, 86400000 - 11000, 5, "sliding-log 10/10s"), true, 10, 0, 0, 10000, 0, 10000);
	expect(charge(*state, 0, 1, "sliding-log 10/10s"), false, 10, 0, 10000, 10000, 0, 10000);
	expect(charge(*state, 86400000 + 10000, 10, "sliding-log 10/10s"), true, 10, 0, 0, 10000, 0, 10000);
}

/* ---- other numbers, the same counter: rules 4.3 and 4.7 --------------------------------------------------------- */

static void quota_burst_queue_and_edge_change_under_a_live_counter(void **state) {
	struct sluice_store *s = *state;
	charge(s, 0, 8, "sliding-log 10/1m");
	expect(peek(s, 0, "sliding-log 20/1m"), true, 20, 12, 0, 60000, 0, 60000);
	expect(peek(s, 0, "sliding-log 5/1m"), true, 5, 0, 0, 60000, 0, 60000);
	expect(charge(s, 0, 5, "sliding-log 5/1m"), false, 5, 0, 60000, 60000, 0, 60000);
	charge(s, 0, 8, "sliding-window 10/1m");
	expect(peek(s, 60000, "sliding-window 12/1m"), true, 12, 4, 0, 60000, 0, 7500);
	charge(s, 0, 5, "token-bucket 10/1s burst 5");
	expect(peek(s, 0, "token-bucket 10/1s burst 100"), true, 100, 95, 0, 500, 0, 100);
	expect(peek(s, 0, "token-bucket 10/1s burst 2"), true, 2, 0, 0, 500, 0, 400);
	charge(s, 0, 4, "leaky-bucket 10/1s queue 9");
	expect(peek(s, 0, "leaky-bucket 10/1s queue 3"), true, 4, 0, 0, 400, 0, 100);
	charge(s, 50, 10, "sliding-buckets 10/1s precision 100ms edge drop");
	expect(peek(s, 1000, "sliding-buckets 10/1s precision 100ms edge drop"), true, 10, 10, 0, 0, 0, 0);
	expect(peek(s, 1000, "sliding-buckets 10/1s precision 100ms edge count"), true, 10, 0, 0, 100, 0, 100);
	expect(peek(s, 1050, "sliding-buckets 10/1s precision 100ms edge weighted"), true, 10, 5, 0, 50, 0, 10);
}

static void another_algorithm_window_precision_or_rate_is_another_counter(void **state) {
	static const char *const others[] = {"sliding-window 10/1m",
	                                     "fixed-window 10/1m",
	                                     "sliding-log 10/1m",
	                                     "sliding-log 10/61s",
	                                     "sliding-buckets 10/1m precision 1s",
	                                     "sliding-buckets 10/1m precision 2s",
	                                     "token-bucket 10/1m",
	                                     "token-bucket 11/1m",
	                                     "token-bucket 10/2m",
	                                     "leaky-bucket 10/1m",
	                                     "leaky-bucket 11/1m"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		assert_true(peek(*state, 0, others[i]).reset_after_ns == 0);
		assert_true(charge(*state, 0, 10, others[i]).allowed);
	}
}

/* ---- giving back, rule 4.5 ------------------------------------------------------------------------------------- */

static struct sluice_decision refund(struct sluice_store *store, uint64_t at_ms, uint32_t cost, const char *limit) {
	return one(store, SLUICE_REFUND, at_ms, cost, "k", limit);
}

static void a_refund_takes_the_newest_that_still_count(void **state) {
	struct sluice_store *s = *state;
	charge(s, 0, 4, "sliding-log 10/1m");
	charge(s, 10000, 4, "sliding-log 10/1m");
	expect(refund(s, 20000, 6, "sliding-log 10/1m"), true, 10, 8, 0, 40000, 0, 40000);
	expect(refund(s, 20000, 99, "sliding-log 10/1m"), true, 10, 10, 0, 0, 0, 0);
	charge(s, 30000, 4, "sliding-window 10/1m");
	charge(s, 60000, 4, "sliding-window 10/1m");
	expect(refund(s, 75000, 5, "sliding-window 10/1m"), true, 10, 7, 0, 45000, 0, 5000);
	charge(s, 0, 4, "fixed-window 10/1m");
	expect(refund(s, 60000, 4, "fixed-window 10/1m"), true, 10, 10, 0, 0, 0, 0);
	expect(peek(s, 59999, "fixed-window 10/1m"), true, 10, 6, 0, 1, 0, 1); /* it held nothing that still counted */
	charge(s, 0, 10, "token-bucket 10/1s");
	expect(refund(s, 250, 3, "token-bucket 10/1s"), true, 10, 5, 0, 450, 0, 50);
	expect(refund(s, 250, UINT32_MAX, "token-bucket 10/1s"), true, 10, 10, 0, 0, 0, 0);
	charge(s, 0, 3, "leaky-bucket 10/1s queue 4");
	expect(refund(s, 0, 1, "leaky-bucket 10/1s queue 4"), true, 5, 3, 0, 200, 0, 100);
}

static void a_refund_creates_nothing_and_moves_no_clock(void **state) {
	struct sluice_store *s = *state;
	expect(refund(s, 0, 5, "sliding-log 10/1m"), true, 10, 10, 0, 0, 0, 0);
	assert_int_equal(ask(s, SLUICE_RESET, 0, 0, &(struct line){"k", "sliding-log 10/1m", false}, 1).forgotten, 0);
	charge(s, 0, 5, "sliding-log 10/1m");
	refund(s, 50000, 1, "sliding-log 10/1m");
	expect(peek(s, 1000, "sliding-log 10/1m"), true, 10, 6, 0, 59000, 0, 59000);
}

/* ---- all or nothing, rule 4.1 ---------------------------------------------------------------------------------- */

/* Sixteen limits of every algorithm over several keys; one of them, at each position in turn, is full. */
static const struct line sixteen[SLUICE_ITEMS_MAX] = {
	{"a", "fixed-window 10/1m", false},
	{"b", "fixed-window 10/1m", false},
	{"a", "sliding-window 10/1m", false},
	{"a", "sliding-window 10/2m", false},
	{"a", "sliding-log 10/1m", false},
	{"c", "sliding-log 10/1m", false},
	{"a", "sliding-buckets 10/1m precision 10s edge count", false},
	{"b", "sliding-buckets 10/1m precision 10s edge drop", false},
	{"c", "sliding-buckets 10/1m precision 10s edge weighted", false},
	{"a", "token-bucket 10/1m", false},
	{"b", "token-bucket 10/1m burst 10", false},
	{"a", "token-bucket 20/1m burst 10", false},
	{"a", "leaky-bucket 10/1m queue 9", false},
	{"b", "leaky-bucket 10/1m queue 9", false},
	{"", "sliding-log 10/1m", false},
	{"a", "fixed-window 10/1h", false},
};

static void one_that_denies_charges_none_wherever_it_stands(void **state) {
	for (uint32_t full = 0; full < SLUICE_ITEMS_MAX; full++) {
		uint64_t day_ms = full * 86400000ull; /* each round on counters that are back to full */
		struct answer answer = ask(*state, SLUICE_CHARGE, day_ms, 8, &sixteen[full], 1);
		assert_true(answer.merged.allowed);
		answer = ask(*state, SLUICE_CHARGE, day_ms, 3, sixteen, SLUICE_ITEMS_MAX);
		assert_false(answer.merged.allowed);
		assert_int_equal(answer.merged.index, full);
		for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++) {
			assert_int_equal(answer.each[i].allowed, i != full);
			assert_int_equal(answer.each[i].remaining, i == full ? 2 : 10);
		}
		answer = ask(*state, SLUICE_CHARGE, day_ms, 2, sixteen, SLUICE_ITEMS_MAX);
		assert_true(answer.merged.allowed);
		for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
			assert_int_equal(answer.each[i].remaining, i == full ? 0 : 8);
	}
}

static void limits_that_meet_in_one_counter_charge_it_once(void **state) {
	static const struct line same[] = {{"k", "sliding-log 10/1m", false},
	                                   {"k", "sliding-log 10/60s", false},
	                                   {"k", "sliding-log 7/1m", false},
	                                   {"other", "sliding-log 10/1m", false},
	                                   {"k", "token-bucket 9/1s burst 5", false},
	                                   {"k", "token-bucket 9/1s burst 6", false},
	                                   {"k", "sliding-buckets 9/1m precision 1s edge count", false},
	                                   {"k", "sliding-buckets 8/1m precision 1s edge drop", false}};
	static const uint32_t left[] = {7, 7, 4, 7, 2, 3, 6, 5};
	struct answer answer = ask(*state, SLUICE_CHARGE, 0, 3, same, 8);
	assert_true(answer.merged.allowed && answer.merged.remaining == 2 && answer.merged.index == 4);
	for (uint32_t i = 0; i < 8; i++)
		assert_true(answer.each[i].remaining == left[i] && answer.each[i].index == (int32_t)i);
	answer = ask(*state, SLUICE_REFUND, 0, 1, same, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_true(answer.each[i].remaining == left[i] + 1 && answer.each[i].index == (int32_t)i);
	assert_int_equal(ask(*state, SLUICE_RESET, 0, 0, same, 8).forgotten, 4);
	assert_int_equal(ask(*state, SLUICE_RESET, 0, 0, same, 8).forgotten, 0);
	assert_int_equal(ask(*state, SLUICE_PEEK, 0, 1, same, 8).each[2].remaining, 7);
}

static void keys_are_told_apart_by_every_byte(void **state) {
	static char longest[100000];
	static const struct {
		const char *data;
		size_t len;
	} keys[] = {{NULL, 0},   {"\0", 1},        {"\0\0", 2},      {"a", 1},         {"a\0", 2},       {"b", 1},
	            {"ab", 2},   {"a,b", 3},       {"abcdefg", 7},   {"abcdefgh", 8},  {"abcdefg\0", 8}, {"abcdefghi", 9},
	            {"\xff", 1}, {longest, 99998}, {longest, 99999}, {longest, 100000}};
	struct sluice_limit limit = limit_of("sliding-log 1/1m");
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
			struct sluice_item item = {.limit = &limit, .key = sl_slice(keys[i].data, keys[i].len)};
			struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .now = START_MS * MS};
			assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
			assert_int_equal(call.merged.allowed, round == 0);
		}
	}
}

/* A caller of the library says a long key as it is, a door as it is folded: they meet in one counter, and so do members
 * and the ids of retries. Windows that are spread get their phase of the folded key. */
static void a_long_key_is_the_one_that_it_is_folded_to(void **state) {
	static const char *const notations[] = {"3/1m", "sliding-log 3/1m", "fixed-window 3/1m spread", "distinct 2/1m"};
	static char whole[70000], twin[70000], folded[SLUICE_KEY_BYTES_MAX];
	memset(whole, 'x', sizeof whole);
	memset(twin, 'x', sizeof twin);
	for (size_t n = 0; n < sizeof notations / sizeof *notations; n++) {
		for (size_t len = SLUICE_KEY_BYTES_MAX + 1; len <= sizeof whole; len *= 3) {
			struct sluice_limit limit = limit_of(notations[n]);
			struct sluice_bytes keys[] = {sl_slice(whole, len), sl_key_fold(folded, sl_slice(whole, len))};
			twin[len - 1] = 'y';
			for (uint32_t i = 0; i < 2; i++) {
				struct sluice_item item = {.limit = &limit, .key = keys[i], .member = keys[i]};
				struct sluice_call call = {.items = &item,
				                           .item_count = 1,
				                           .cost = 1,
				                           .now = START_MS * MS,
				                           .operation = SLUICE_CHARGE,
				                           .id = i == 0 ? sl_str("retried") : sl_slice(NULL, 0)};
				item.member = n == 3 ? item.member : sl_slice(NULL, 0);
				assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
				assert_int_equal(call.merged.remaining, n == 3 ? 1 : 2 - i);
				call.id = sl_str("retried");
				assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
				assert_true(call.repeated && call.merged.remaining == (n == 3 ? 1 : 2 - i));
				item.key = sl_slice(twin, len);
				call.operation = SLUICE_PEEK;
				call.id = sl_slice(NULL, 0);
				assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
				assert_int_equal(call.merged.remaining, call.merged.quota);
			}
			twin[len - 1] = 'x';
		}
	}
}

/* ---- merging, rule 4.4 ------------------------------------------------------------------------------------------ */

static void without_limits_everything_is_allowed(void **state) {
	static const struct line unlimited[] = {{"a", "unlimited", false}, {"b", "unlimited", false}};
	for (int operation = SLUICE_CHARGE; operation <= SLUICE_REFUND; operation++) {
		for (uint32_t count = 0; count <= 2; count++) {
			struct answer answer = ask(*state, (sluice_operation)operation, 0, UINT32_MAX, unlimited, count);
			assert_int_equal(answer.err, SLUICE_OK);
			expect(answer.merged, true, UINT32_MAX, UINT32_MAX, 0, 0, 0, 0);
			assert_int_equal(answer.merged.index, -1);
		}
	}
	assert_int_equal(ask(*state, SLUICE_RESET, 0, 0, unlimited, 2).forgotten, 0);
}

static void unlimited_among_others_is_never_the_one_that_decided(void **state) {
	static const struct line lines[] = {
		{"a", "unlimited", false}, {"a", "sliding-log 4294967295/1m", false}, {"a", "unlimited", false}};
	struct answer answer = ask(*state, SLUICE_PEEK, 0, 1, lines, 3);
	assert_true(answer.merged.allowed && answer.merged.index == 1 && answer.merged.quota == UINT32_MAX);
	assert_true(answer.each[0].allowed && answer.each[0].remaining == UINT32_MAX);
}

static void the_least_remaining_decides_when_allowed(void **state) {
	static const struct line lines[] = {{"a", "sliding-log 10/1m", false},
	                                    {"a", "sliding-log 5/2m", false},
	                                    {"a", "fixed-window 5/1h", false},
	                                    {"a", "leaky-bucket 10/1s queue 20", false}};
	struct answer answer = ask(*state, SLUICE_CHARGE, 0, 3, lines, 4);
	assert_int_equal(answer.merged.index, 1); /* a tie: the first */
	assert_true(answer.merged.allowed && answer.merged.quota == 5 && answer.merged.remaining == 2);
	assert_int_equal(sl_ns_to_ms_ceil(answer.merged.reset_after_ns), 3600000); /* the longest of all */
	assert_int_equal(sl_ns_to_ms_ceil(answer.merged.delay_ns), 200);
	assert_true(answer.merged.retry_after_ns == 0);
}

static void the_longest_wait_decides_when_denied(void **state) {
	static const struct line lines[] = {{"a", "sliding-log 5/1m", false},   {"a", "sliding-log 5/2m", false},
	                                    {"a", "sliding-log 6/120s", false}, {"b", "sliding-log 5/2m", false},
	                                    {"a", "sliding-log 100/1h", false}, {"a", "sliding-log 4/1s", false}};
	struct answer answer = ask(*state, SLUICE_CHARGE, 0, 4, lines, 5);
	assert_true(answer.merged.allowed);
	answer = ask(*state, SLUICE_CHARGE, 0, 3, lines, 5);
	assert_false(answer.merged.allowed);
	assert_int_equal(answer.merged.index, 1); /* 2 waits as long, 3 too: the first; 0 waits less, 4 admits */
	assert_true(answer.merged.quota == 5 && answer.merged.remaining == 1);
	assert_int_equal(sl_ns_to_ms_ceil(answer.merged.retry_after_ns), 120000);
	assert_int_equal(sl_ns_to_ms_ceil(answer.merged.reset_after_ns), 3600000);
	answer = ask(*state, SLUICE_CHARGE, 0, 5, lines, 6); /* never is the longest */
	assert_int_equal(answer.merged.index, 5);
	assert_true(answer.merged.retry_after_ns == SLUICE_NEVER && answer.merged.quota == 4);
	assert_int_equal(answer.merged.remaining, 1);
}

/* ---- observed limits, rule 4.9 ---------------------------------------------------------------------------------- */

static void an_observed_limit_denies_nobody(void **state) {
	static const struct line lines[] = {{"a", "sliding-log 1/1m", true}, {"a", "fixed-window 3/1h", false}};
	struct answer answer;
	for (uint32_t i = 0; i < 3; i++) {
		answer = ask(*state, SLUICE_CHARGE, 0, 1, lines, 2);
		expect(answer.merged, true, 3, 2 - i, 0, 3600000, 0, 3600000);
		assert_int_equal(answer.merged.index, 1);
		assert_int_equal(answer.each[0].allowed, i == 0);
		assert_int_equal(sl_ns_to_ms_ceil(answer.each[0].retry_after_ns), i == 0 ? 0 : 60000);
	}
	/* Denied as a whole: the observed one, back to full, admits, and is not charged. */
	answer = ask(*state, SLUICE_CHARGE, 60000, 1, lines, 2);
	assert_true(!answer.merged.allowed && answer.each[0].allowed && answer.each[0].remaining == 1);
	answer = ask(*state, SLUICE_CHARGE, 60000, 1, lines, 1);
	expect(answer.merged, true, UINT32_MAX, UINT32_MAX, 0, 0, 0, 0); /* only observed ones: no limit applies */
	assert_int_equal(answer.merged.index, -1);
	assert_int_equal(answer.each[0].remaining, 0);
}

/* ---- calls that are wrong --------------------------------------------------------------------------------------- */

static void more_than_sixteen_limits_are_refused(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 10/1m");
	struct sluice_item items[SLUICE_ITEMS_MAX + 1];
	struct sluice_call call = {.items = items, .item_count = SLUICE_ITEMS_MAX + 1, .cost = 1, .now = START_MS * MS};
	for (uint32_t i = 0; i <= SLUICE_ITEMS_MAX; i++)
		items[i] = (struct sluice_item){.limit = &limit, .key = sl_str("k")};
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_RANGE);
	assert_int_equal(call.err, SLUICE_E_RANGE);
	assert_int_equal(peek(*state, 0, "sliding-log 10/1m").remaining, 10);
	call.item_count = UINT32_MAX;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_RANGE);
}

static void null_pointers_and_unknown_operations_are_refused(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 10/1m");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .now = START_MS * MS};
	struct sluice_decision d;
	assert_int_equal(sluice_decide(NULL, &call), SLUICE_E_MISUSE);
	assert_int_equal(sluice_decide(*state, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_check(NULL, &limit, sl_str("k"), 1, &d), SLUICE_E_MISUSE);
	assert_int_equal(sluice_check(*state, NULL, sl_str("k"), 1, &d), SLUICE_E_MISUSE);
	call.items = NULL;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_MISUSE);
	call.items = &item;
	item.limit = NULL;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_MISUSE);
	item.limit = &limit;
	call.operation = (sluice_operation)(SLUICE_COMMIT + 1);
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_MISUSE);
	assert_int_equal(peek(*state, 0, "sliding-log 10/1m").remaining, 10);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* One call that fails leaves the others of its batch alone. */
static void a_batch_decides_each_call_by_itself(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 3/1m");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call calls[7];
	for (uint32_t i = 0; i < 7; i++)
		calls[i] = (struct sluice_call){.items = &item, .item_count = 1, .cost = 1, .now = START_MS * MS};
	calls[1].item_count = 17;
	calls[2].operation = SLUICE_PEEK;
	calls[3].operation = (sluice_operation)99;
	sluice_decide_many(*state, calls, 7);
	assert_int_equal(calls[1].err, SLUICE_E_RANGE);
	assert_int_equal(calls[3].err, SLUICE_E_MISUSE);
	assert_true(calls[0].merged.remaining == 2 && calls[2].merged.remaining == 2 && calls[4].merged.remaining == 1);
	assert_true(calls[5].merged.allowed && calls[5].merged.remaining == 0 && !calls[6].merged.allowed);
	sluice_decide_many(*state, calls, 0);
}

/* Calls of no limit, of one, and of several stand in any order: each meets the counters of its own limits. */
static void a_batch_may_hold_calls_of_no_limit(void **state) {
	struct sluice_limit limits[2] = {limit_of("5/1m"), limit_of("fixed-window 9/1h")};
	struct sluice_item one = {.limit = &limits[0], .key = sl_str("one")}, seen = one;
	struct sluice_item two[2] = {{.limit = &limits[0], .key = sl_str("a")}, {.limit = &limits[1], .key = sl_str("b")}};
	struct sluice_call calls[80];
	seen.observed = SLUICE_OBSERVED;
	for (uint32_t i = 0; i < 80; i++) {
		calls[i] = (struct sluice_call){.cost = 1, .now = START_MS * MS};
		calls[i].item_count = i % 5 == 1 || i % 5 == 3 ? 1 : i % 5 == 2 ? 2 : 0;
		calls[i].items = i % 5 == 1 ? &one : i % 5 == 2 ? two : i % 5 == 3 ? &seen : NULL;
	}
	sluice_decide_many(*state, calls, 80);
	for (uint32_t i = 0; i < 80; i++) {
		uint32_t turn = i / 5, both = turn < 3 ? 3 - turn : 0; /* the second and fourth of five share a counter */
		assert_int_equal(calls[i].err, SLUICE_OK);
		if (i % 5 == 0 || i % 5 == 4)
			assert_true(calls[i].merged.allowed && calls[i].merged.quota == UINT32_MAX);
		else if (i % 5 == 1)
			assert_true(calls[i].merged.allowed == (turn < 3) &&
			            calls[i].merged.remaining == (turn < 3 ? 2 * both - 2 : 0));
		else if (i % 5 == 2)
			assert_true(calls[i].merged.allowed == (turn < 5) &&
			            calls[i].merged.remaining == (turn < 5 ? 4 - turn : 0));
		else
			assert_true(calls[i].merged.allowed && calls[i].merged.quota == UINT32_MAX);
	}
}

/* Of quotas all deny or none does: what denies beside one that admits is observed; what admits is charged. */
static void quotas_deny_together_or_not_at_all(void **state) {
	static const struct {
		const char *limits[3];     /* of the keys a, b, c; the third is no quota */
		const char *want, *merged; /* of each: whether it admits, and what is left; all of them: how it ends */
	} rows[] = {
		{{"fixed-window 1/1m", "fixed-window 2/1m", NULL}, "y0 y1", "y0"},
		{{"fixed-window 1/1m", "fixed-window 2/1m", NULL}, "n0 y0", "y0"}, /* the second alone is charged */
		{{"fixed-window 1/1m", "fixed-window 2/1m", NULL}, "n0 n0", "n0"},
		{{"fixed-window 1/1m", "fixed-window 3/1m", "fixed-window 0/1m"}, "n0 y1 n0", "n0"}, /* nothing is charged */
		{{"fixed-window 1/1m", "fixed-window 3/1m", "fixed-window 1/1m"}, "n0 y0 y0", "y0"},
		{{"fixed-window 1/1m", "fixed-window 3/1m", "fixed-window 2/1m"}, "n0 n0 y1", "n0"},
		{{"fixed-window 1/1m", NULL, NULL}, "n0", "n0"}, /* all of one */
	};
	static const char *const keys[] = {"a", "b", "c"};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct sluice_limit limits[3];
		struct sluice_item items[3];
		struct sluice_decision each[3];
		struct sluice_call call = {.items = items, .cost = 1, .now = START_MS * MS, .each = each};
		char got[64] = "";
		while (call.item_count < 3 && rows[r].limits[call.item_count] != NULL) {
			uint32_t i = call.item_count++;
			limits[i] = limit_of(rows[r].limits[i]);
			items[i] = (struct sluice_item){.limit = &limits[i], .key = sl_str(keys[i]), .quota = i < 2};
		}
		for (int peek = 1; peek >= 0; peek--) { /* it is foreseen, but for what is left */
			call.operation = peek ? SLUICE_PEEK : SLUICE_CHARGE;
			assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
			assert_int_equal(call.merged.allowed, rows[r].merged[0] == 'y');
			assert_int_equal(call.granted, call.merged.allowed);
		}
		for (uint32_t i = 0; i < call.item_count; i++)
			snprintf(got + strlen(got), sizeof got - strlen(got), "%s%c%u", i == 0 ? "" : " ",
			         each[i].allowed ? 'y' : 'n', each[i].remaining);
		assert_string_equal(got, rows[r].want);
		if (call.merged.allowed)
			assert_true(each[call.merged.index].allowed); /* one that is observed decides nothing */
	}
}

/* Without a store, or behind a fork that has none of its own, each call of a batch says why, and nothing else. */
static void a_batch_without_a_store_decides_none(void **state) {
	struct sluice_store *store = *state;
	struct sluice_limit limit = limit_of("sliding-log 3/1m");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call calls[4];
	uint32_t owner = store->owner;
	for (uint32_t i = 0; i < 4; i++)
		calls[i] = (struct sluice_call){.items = &item, .item_count = 1, .cost = 1, .now = START_MS * MS};
	sluice_decide_many(NULL, calls, 3);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(calls[i].err, i < 3 ? SLUICE_E_MISUSE : SLUICE_OK);
	store->owner = 0;
	sluice_decide_many(store, calls, 3);
	store->owner = owner;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(calls[i].err, i < 3 ? SLUICE_E_BUSY : SLUICE_OK);
	assert_int_equal(peek(store, 0, "sliding-log 3/1m").remaining, 3);
}

#define IN_A_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_STORE(each_algorithm_answers_in_full),
		IN_A_STORE(the_simple_call_charges_now),
		IN_A_STORE(quota_0_denies_every_cost_but_0),
		IN_A_STORE(the_largest_and_smallest_rates_count),
		IN_A_STORE(waits_saturate),
		IN_A_STORE(a_delay_at_the_end_of_all_time_is_told_to_the_ns),
		IN_A_STORE(an_instant_before_the_last_charge_is_raised_to_it),
		IN_A_STORE(a_step_back_neither_frees_nor_locks),
		IN_A_STORE(quota_burst_queue_and_edge_change_under_a_live_counter),
		IN_A_STORE(another_algorithm_window_precision_or_rate_is_another_counter),
		IN_A_STORE(a_refund_takes_the_newest_that_still_count),
		IN_A_STORE(a_refund_creates_nothing_and_moves_no_clock),
		IN_A_STORE(one_that_denies_charges_none_wherever_it_stands),
		IN_A_STORE(limits_that_meet_in_one_counter_charge_it_once),
		IN_A_STORE(keys_are_told_apart_by_every_byte),
		IN_A_STORE(a_long_key_is_the_one_that_it_is_folded_to),
		IN_A_STORE(without_limits_everything_is_allowed),
		IN_A_STORE(unlimited_among_others_is_never_the_one_that_decided),
		IN_A_STORE(the_least_remaining_decides_when_allowed),
		IN_A_STORE(the_longest_wait_decides_when_denied),
		IN_A_STORE(an_observed_limit_denies_nobody),
		IN_A_STORE(quotas_deny_together_or_not_at_all),
		IN_A_STORE(more_than_sixteen_limits_are_refused),
		IN_A_STORE(null_pointers_and_unknown_operations_are_refused),
		IN_A_STORE(a_batch_decides_each_call_by_itself),
		IN_A_STORE(a_batch_may_hold_calls_of_no_limit),
		IN_A_STORE(a_batch_without_a_store_decides_none),
	};
	return cmocka_run_group_tests_name("deciding", tests, NULL, NULL);
}
