/* Quotas of keys' own at run time, case by case: which may be set, how long they last, what is decided by them, what
 * stays of them when counters go, and how many there may be. */
#include "store/blocks.h"
#include "store/scan.h"
#include "store/use.h"
#include "store/walk.h"
#include "tests/unit/ask.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/override.h"

enum { S = 1000 };
#define START_NS (ASK_START_MS * ASK_MS)

static sluice_err set_most(struct sluice_store *s, uint64_t at_ms, const char *limit, const char *key, const char *own,
                           uint64_t ttl_ms, uint64_t most) {
	struct sluice_limit of = ask_limit(limit), quota = ask_limit(own);
	struct sluice_override_request request = {.limit = &of,
	                                          .key = sl_str(key),
	                                          .own = &quota,
	                                          .ttl_ns = ttl_ms * ASK_MS,
	                                          .most = most,
	                                          .name = sl_str("per-user")};
	struct sluice_error error = {.text = ""};
	sluice_err err = sluice_override_set(s, &request, START_NS + at_ms * ASK_MS, &error);
	assert_true((err == SLUICE_OK) == (error.text[0] == '\0'));
	return err;
}

static sluice_err set(struct sluice_store *s, uint64_t at_ms, const char *limit, const char *own, uint64_t ttl_ms) {
	return set_most(s, at_ms, limit, "k", own, ttl_ms, 0);
}

static sluice_err get(struct sluice_store *s, uint64_t at_ms, const char *limit, struct sluice_override *override) {
	struct sluice_limit of = ask_limit(limit);
	return sluice_override_get(s, &of, sl_str("k"), START_NS + at_ms * ASK_MS, override);
}

static sluice_err forget(struct sluice_store *s, uint64_t at_ms, const char *limit) {
	struct sluice_limit of = ask_limit(limit);
	return sluice_override_delete(s, &of, sl_str("k"), START_NS + at_ms * ASK_MS);
}

/* ---- each algorithm ---------------------------------------------------------------------------------------------- */

static const struct {
	const char *limit, *own, *shown;
	uint64_t quota; /* of a decision by it */
} fits[] = {
	{"100/1m", "300/1m", "sliding-window 300/1m", 300},
	{"100/1m", "0/1m", "sliding-window 0/1m", 0},
	{"100/1m", "4294967295/1m", "sliding-window 4294967295/1m", UINT32_MAX},
	{"100/1m", "unlimited", "unlimited", UINT32_MAX},
	{"fixed-window 10/1s", "fixed-window 20/1s", "fixed-window 20/1s", 20},
	{"1M/month at UTC", "2M/month at UTC", "fixed-window 2000000/month at UTC", 2000000},
	{"sliding-log 10/1m", "sliding-log 500/1m", "sliding-log 500/1m", 500},
	{"sliding-buckets 240/1h precision 1m", "sliding-buckets 480/1h precision 1m edge weighted",
     "sliding-buckets 480/1h precision 1m edge weighted", 480},
	{"token-bucket 10/1s burst 100", "token-bucket 10/1s burst 7", "token-bucket 10/1s burst 7", 7},
	{"leaky-bucket 10/1s", "leaky-bucket 10/1s queue 0", "leaky-bucket 10/1s queue 0", 1},
	{"concurrency 2 lease 30s", "concurrency 9 lease 30s", "concurrency 9 lease 30s", 9},
	{"distinct 3/1d", "distinct 50000/1d registers 2048", "distinct 50000/1d edge deny registers 2048", 50000},
	{"distinct 50000/1d", "distinct 3/1d", "distinct 3/1d", 3},
	{"100/1m spread", "300/1m spread", NULL, 300},
};

static void a_quota_of_a_key_decides(void **state) {
	for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
		struct sluice_store *s = ask_store(2);
		struct sluice_decision before = ask_peek(s, 0, fits[i].limit), now;
		struct sluice_override own;
		char text[SLUICE_LIMIT_TEXT_MAX];
		assert_int_equal(get(s, 0, fits[i].limit, &own), SLUICE_E_NONE);
		assert_int_equal(set(s, 0, fits[i].limit, fits[i].own, 0), SLUICE_OK);
		now = ask_peek(s, 0, fits[i].limit);
		assert_int_equal(now.quota, fits[i].quota);
		assert_int_equal(now.allowed, fits[i].quota != 0);
		assert_int_equal(get(s, 0, fits[i].limit, &own), SLUICE_OK);
		assert_true(own.ends_after_ns == SLUICE_NEVER && sl_rule_is_valid(&own.limit));
		sluice_limit_print(&own.limit, text);
		if (fits[i].shown != NULL)
			assert_string_equal(text, fits[i].shown);
		assert_int_equal(forget(s, 0, fits[i].limit), SLUICE_OK);
		assert_int_equal(forget(s, 0, fits[i].limit), SLUICE_E_NONE);
		now = ask_peek(s, 0, fits[i].limit);
		assert_memory_equal(&now, &before, sizeof now);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
	(void)state;
}

static void what_is_no_quota_for_the_counter_is_refused(void **state) {
	static const char *const rows[][2] = {
		{"100/1m", "100/1h"},
		{"100/1m", "fixed-window 100/1m"},
		{"100/1m", "100/1m spread"},
		{"sliding-buckets 240/1h precision 1m", "sliding-buckets 240/1h precision 1s"},
		{"1M/month at UTC", "1M/day at UTC"},
		{"concurrency 2 lease 30s", "concurrency 2 lease 31s"},
		{"token-bucket 10/1s", "token-bucket 20/1s"}, /* of no name: its rate says whose counter it is */
		{"unlimited", "100/1m"},
		{"unlimited", "unlimited"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(set(*state, 0, rows[i][0], rows[i][1], 0), SLUICE_E_RANGE);
	assert_int_equal(set(*state, 0, "100/1m", "200/1m", (uint64_t)3661 * 86400 * S), SLUICE_E_RANGE);
	assert_int_equal(sluice_override_set(*state, NULL, START_NS, NULL), SLUICE_E_MISUSE);
	assert_false(sl_store_has_overrides(*state));
}

static void a_named_bucket_may_have_another_rate(void **state) {
	struct sluice_limit of = ask_limit("token-bucket 10/1s burst 10"), own = ask_limit("token-bucket 20/1s burst 40");
	struct sluice_item item = {.limit = &of, .key = sl_str("k")};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 10, .now = START_NS};
	sl_rule_name(&of, sl_str("per-user"));
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_int_equal(call.merged.remaining, 0);
	assert_int_equal(
		sluice_override_set(*state, &(struct sluice_override_request){.limit = &of, .key = item.key, .own = &own},
	                        START_NS, NULL),
		SLUICE_OK);
	call.operation = SLUICE_PEEK;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_true(call.merged.quota == 40 && call.merged.remaining == 30); /* what is spent stays spent */
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void it_ends_by_itself_to_the_millisecond(void **state) {
	static const uint64_t ttls[] = {1, 2, 3, 10, 999, 12345, 3600 * S, (uint64_t)86400 * S + 1,
	                                (uint64_t)3660 * 86400 * S};
	struct sluice_override own;
	for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++) {
		assert_int_equal(set(*state, i, "100/1m", "300/1m", ttls[i]), SLUICE_OK);
		assert_int_equal(get(*state, i, "100/1m", &own), SLUICE_OK);
		assert_true(own.ends_after_ns >= ttls[i] * ASK_MS && own.ends_after_ns < (ttls[i] + 1) * ASK_MS);
		assert_int_equal(ask_peek(*state, i + ttls[i] - 1, "100/1m").quota, 300);
		assert_int_equal(ask_peek(*state, i + ttls[i] + 1, "100/1m").quota, 100);
		assert_int_equal(get(*state, i + ttls[i] + 1, "100/1m", &own), SLUICE_E_NONE);
		assert_int_equal(forget(*state, i + ttls[i] + 1, "100/1m"), SLUICE_E_NONE);
	}
	/* longer, shorter, for good */
	assert_int_equal(set(*state, 0, "100/1m", "300/1m", 10 * S), SLUICE_OK);
	assert_int_equal(set(*state, 0, "100/1m", "400/1m", S), SLUICE_OK);
	assert_int_equal(ask_peek(*state, S + 1, "100/1m").quota, 100);
	assert_int_equal(set(*state, 0, "100/1m", "400/1m", 0), SLUICE_OK);
	assert_int_equal(ask_peek(*state, (uint64_t)100 * 365 * 86400 * S, "100/1m").quota, 400);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static void what_was_spent_stays_spent(void **state) {
	struct asked a = ASK(*state, SLUICE_CHARGE, 0, 90, .lines = {{"100/1m"}});
	assert_int_equal(a.d.remaining, 10);
	assert_int_equal(set(*state, 0, "100/1m", "150/1m", 0), SLUICE_OK);
	a = ASK(*state, SLUICE_CHARGE, 0, 50, .lines = {{"100/1m"}});
	assert_true(a.d.allowed && a.d.remaining == 10 && a.d.quota == 150);
	assert_int_equal(set(*state, 0, "100/1m", "20/1m", 0), SLUICE_OK);
	a = ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"100/1m"}});
	assert_true(!a.d.allowed && a.d.quota == 20);
	assert_int_equal(forget(*state, 0, "100/1m"), SLUICE_OK);
	assert_false(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"100/1m"}}).d.allowed);
}

/* Under a quota of 0 nothing is ever back; but what is committed then is spent when the quota is another. */
static void what_was_spent_outlives_a_quota_of_0(void **state) {
	static const char *const rows[][2] = {
		{"10/1h", "0/1h"},
		{"fixed-window 10/1h", "fixed-window 0/1h"},
		{"sliding-log 10/1h", "sliding-log 0/1h"},
		{"sliding-buckets 10/1h precision 1m", "sliding-buckets 0/1h precision 1m"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_store *s = ask_store(2);
		struct sl_page_figures figures = {.used = 0};
		assert_true(ASK(s, SLUICE_RESERVE, 0, 5, "r", 60 * S, .lines = {{rows[i][0]}}).d.allowed);
		assert_true(ASK(s, SLUICE_CHARGE, 0, 3, .lines = {{rows[i][0]}}).d.allowed);
		assert_int_equal(set(s, 0, rows[i][0], rows[i][1], 0), SLUICE_OK);
		assert_int_equal(ASK(s, SLUICE_COMMIT, 0, 4, "r", .lines = {{rows[i][0]}}).found, 1);
		assert_int_equal(forget(s, 0, rows[i][0]), SLUICE_OK);
		for (struct sl_walk walk = {.store = s}; sl_walk_next(&walk);)
			(void)sl_store_scan(s, walk.page, START_NS + (sluice_ns)600 * S * ASK_MS, &figures, NULL, NULL);
		assert_int_equal(figures.used - figures.expired, 1);
		assert_int_equal(figures.uses[SL_USE_ALL], 1); /* of what quota it is used is not known: it is the last to go */
		assert_int_equal(ask_peek(s, 600 * S, rows[i][0]).remaining, 3);
		sluice_store_close(s);
	}
	(void)state;
}

static void other_keys_and_counters_have_their_limits(void **state) {
	assert_int_equal(set(*state, 0, "100/1m", "300/1m", 0), SLUICE_OK);
	struct asked a = ASK(*state, SLUICE_CHARGE, 0, 1,
	                     .lines = {{"100/1m"}, {"100/1m", "other"}, {"100/1h"}, {"fixed-window 100/1m"}});
	assert_true(a.each[0].quota == 300 && a.each[1].quota == 100 && a.each[2].quota == 100 && a.each[3].quota == 100);
	assert_true(a.d.allowed && a.d.index == 1);
	/* the same counter, whatever quota the call brings; a candidate's and an observed one's too */
	a = ASK(*state, SLUICE_CHARGE, 0, 1,
	        .lines = {{"100/1m"}, {"50/1m", .observed = SLUICE_TRIED}, {"7/1m", .observed = SLUICE_OBSERVED}});
	assert_true(a.each[0].quota == 300 && a.each[1].quota == 300 && a.each[2].quota == 300);
}

static void unlimited_counts_nothing_and_lets_old_things_end(void **state) {
	struct ask_line both[] = {{"concurrency 2 lease 30s"}, {"100/1m"}};
	struct asked a = ASK(*state, SLUICE_ACQUIRE, 0, 1, "a", .lines = {both[0], both[1]});
	assert_true(a.d.allowed);
	a = ASK(*state, SLUICE_RESERVE, 0, 5, "r", 60 * S, .lines = {both[1]});
	assert_true(a.d.allowed && a.d.remaining == 94);
	assert_int_equal(set(*state, 0, both[0].limit, "unlimited", 0), SLUICE_OK);
	assert_int_equal(set(*state, 0, both[1].limit, "unlimited", 0), SLUICE_OK);
	for (int i = 0; i < 200; i++) {
		a = ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {both[1]});
		assert_true(a.d.allowed && a.d.index == -1 && a.d.quota == UINT32_MAX && a.d.remaining == UINT32_MAX);
	}
	a = ASK(*state, SLUICE_ACQUIRE, 0, 7, "b", .lines = {both[0], {"10/1s"}});
	assert_true(a.d.allowed && a.d.index == 1 && a.d.remaining == 3);
	assert_int_equal(ASK(*state, SLUICE_RELEASE, 0, 0, "a", .lines = {both[0]}).found, 1);
	assert_int_equal(ASK(*state, SLUICE_COMMIT, 0, 2, "r", .lines = {both[1]}).found, 1);
	assert_int_equal(forget(*state, 0, both[1].limit), SLUICE_OK);
	assert_int_equal(ask_peek(*state, 0, both[1].limit).remaining, 97);
	assert_int_equal(ASK(*state, SLUICE_RESET, 0, 0, .lines = {both[1]}).forgotten, 1);
}

/* What ends, renews or forgets something answers by the quota that the next call is decided by. */
static void all_that_is_asked_answers_by_it(void **state) {
	struct ask_line bucket = {"token-bucket 5/1s burst 9"}, leases = {"concurrency 9 lease 30s"};
	struct asked a;
	assert_int_equal(set(*state, 0, bucket.limit, "token-bucket 5/1s burst 2", 0), SLUICE_OK);
	assert_int_equal(set(*state, 0, leases.limit, "concurrency 2 lease 30s", 0), SLUICE_OK);
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {bucket}).d.allowed);
	a = ASK(*state, SLUICE_RESET, 0, 0, .lines = {bucket});
	assert_true(a.forgotten == 1 && a.d.quota == 2 && a.d.remaining == 2 && a.each[0].remaining == 2);
	assert_true(ASK(*state, SLUICE_ACQUIRE, 0, 1, "a", .lines = {leases}).d.allowed);
	a = ASK(*state, SLUICE_RENEW, 0, 0, "a", .lines = {leases});
	assert_true(a.found == 1 && a.d.quota == 2 && a.d.remaining == 1);
	a = ASK(*state, SLUICE_RELEASE, 0, 0, "a", .lines = {leases});
	assert_true(a.found == 1 && a.d.quota == 2 && a.d.remaining == 2);
}

/* A request that has an id, and whose limits are all unlimited, is charged nothing, and leaves nothing behind: also
 * where it has a candidate in another counter. A slot that was claimed for its record, and has none, is never free. */
static void unlimited_leaves_no_record(void **state) {
	assert_int_equal(set(*state, 0, "fixed-window 100/1m", "unlimited", 0), SLUICE_OK);
	for (int i = 0; i < 2; i++) {
		struct asked a = ASK(*state, SLUICE_CHARGE, 0, 1, "id",
		                     .lines = {{"fixed-window 100/1m"}, {"100/1m", .observed = SLUICE_TRIED}});
		assert_true(a.err == SLUICE_OK && a.d.allowed && !a.repeated);
		assert_null(sluice_store_verify(*state));
	}
}

static void it_stays_when_its_counter_goes(void **state) {
	assert_int_equal(set(*state, 0, "100/1m", "300/1m", 0), SLUICE_OK);
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"100/1m"}}).d.allowed);
	assert_int_equal(ASK(*state, SLUICE_RESET, 0, 0, .lines = {{"100/1m"}}).forgotten, 1);
	assert_int_equal(ask_peek(*state, 0, "100/1m").quota, 300);
	assert_int_equal(ASK(*state, SLUICE_RESET, 0, 0, .lines = {{"100/1m"}}).forgotten, 0);
	assert_int_equal(ask_peek(*state, (uint64_t)365 * 86400 * S, "100/1m").quota, 300);
}

static void denials_and_peeks_write_nothing(void **state) {
	assert_int_equal(set(*state, 0, "100/1m", "2/1m", 0), SLUICE_OK);
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 2, .lines = {{"100/1m"}}).d.allowed);
	struct ask charge = {SLUICE_CHARGE, 0, 1, .lines = {{"100/1m"}}}, peek = {SLUICE_PEEK, 0, 1, .lines = {{"100/1m"}}};
	assert_false(ask_quietly(*state, &charge).d.allowed);
	assert_false(ask_quietly(*state, &peek).d.allowed);
	charge.lines[1] = (struct ask_line){"10/1s", "other"};
	assert_false(ask_quietly(*state, &charge).d.allowed);
}

static void inspect_tells_of_it(void **state) {
	struct sluice_limit limit = ask_limit("100/1m");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_inspection told;
	assert_int_equal(sluice_inspect(*state, &item, 1, START_NS, &told), SLUICE_OK);
	assert_false(told.overridden);
	assert_int_equal(set(*state, 0, "100/1m", "300/1m", 10 * S), SLUICE_OK);
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 7, .lines = {{"100/1m"}}).d.allowed);
	assert_int_equal(sluice_inspect(*state, &item, 1, START_NS, &told), SLUICE_OK);
	assert_true(told.overridden && told.own.limit.quota == 300 && told.decision.quota == 300 && told.used == 7);
	assert_true(told.own.ends_after_ns >= (sluice_ns)10 * S * ASK_MS);
	assert_int_equal(set(*state, 0, "100/1m", "unlimited", 0), SLUICE_OK);
	assert_int_equal(sluice_inspect(*state, &item, 1, START_NS, &told), SLUICE_OK);
	assert_true(told.overridden && told.own.limit.algorithm == SLUICE_UNLIMITED && told.decision.allowed);
}

/* The last instant at which one may end is the last but one that there is. */
static void it_ends_before_time_does(void **state) {
	struct sluice_limit of = ask_limit("100/1m"), own = ask_limit("300/1m");
	struct sluice_override_request request = {
		.limit = &of, .key = sl_str("k"), .own = &own, .ttl_ns = S * (sluice_ns)ASK_MS};
	sluice_ns last = SLUICE_NEVER - 1 - request.ttl_ns;
	assert_int_equal(sluice_override_set(*state, &request, last + 1, NULL), SLUICE_E_RANGE);
	assert_int_equal(sluice_override_set(*state, &request, last, NULL), SLUICE_OK);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static const char *numbered(int i) {
	static char key[16];
	snprintf(key, sizeof key, "u%d", i);
	return key;
}

static void there_are_no_more_than_may_be(void **state) {
	struct sluice_store_stats stats;
	int count = 0;
	for (int i = 0; i < 10; i++)
		assert_int_equal(set_most(*state, 0, "100/1m", numbered(i), "300/1m", i == 9 ? S : 0, 10), SLUICE_OK);
	assert_int_equal(set_most(*state, 0, "100/1m", numbered(10), "300/1m", 0, 10), SLUICE_E_FULL);
	assert_int_equal(set_most(*state, 0, "100/1m", numbered(3), "400/1m", 0, 5), SLUICE_OK); /* none more */
	assert_int_equal(set_most(*state, S + 2, "100/1m", numbered(10), "300/1m", 0, 10), SLUICE_OK); /* one has ended */
	sluice_store_stats(*state, &stats);
	assert_int_equal(stats.overrides, 10);
	/* whatever is asked for, no more than the store can bear */
	while (set_most(*state, S + 2, "100/1m", numbered(100 + count), "300/1m", 0, 0) == SLUICE_OK)
		count++;
	assert_int_equal(count + 10, stats.overrides_most);
	assert_true(stats.overrides_most <= stats.slots / 4 && stats.overrides_most >= 7000);
}

/* A quota that changes needs no more of the bound than its new block is larger than the one it has. */
static void at_the_bound_those_that_are_there_change(void **state) {
	struct sluice_store *s = *state;
	const uint64_t most = sl_store_override_units_most(s), *taken = &s->header->override_units;
	const struct sluice_limit limit = ask_limit("100/1m");
	const char *const key = "seventeen bytes 0", *const other = "seventeen bytes 1"; /* "unlimited" takes one unit */
	struct sluice_override own;
	assert_int_equal(set_most(s, 0, "100/1m", key, "300/1m", 0, 0), SLUICE_OK);
	assert_int_equal(*taken, 2);
	assert_int_equal(set_most(s, 0, "100/1m", other, "300/1m", 0, 0), SLUICE_OK);
	for (int i = 0; *taken < most - 1; i++) {
		char of[32];
		snprintf(of, sizeof of, "as many bytes %03d", i);
		assert_int_equal(set_most(s, 0, "100/1m", of, "300/1m", 0, 0), SLUICE_OK);
	}
	assert_int_equal(set_most(s, 0, "100/1m", "as many bytes for it", "300/1m", 0, 0), SLUICE_E_FULL);
	const uint64_t full = *taken;
	assert_int_equal(set_most(s, 0, "100/1m", key, "200/1m", 0, 0), SLUICE_OK);
	assert_int_equal(*taken, full);
	assert_int_equal(set_most(s, 0, "100/1m", key, "unlimited", 0, 0), SLUICE_OK);
	assert_int_equal(*taken, full - 1);
	assert_int_equal(set_most(s, 0, "100/1m", key, "300/1m", 0, 0), SLUICE_OK);
	assert_int_equal(*taken, full);
	/* one that grows by what others have taken meanwhile is refused, and stays */
	assert_int_equal(set_most(s, 0, "100/1m", key, "unlimited", 0, 0), SLUICE_OK);
	for (int i = 0; *taken < most; i++)
		assert_int_equal(set_most(s, 0, "100/1m", numbered(i), "300/1m", 0, 0), SLUICE_OK);
	assert_int_equal(set_most(s, 0, "100/1m", key, "300/1m", 0, 0), SLUICE_E_FULL);
	assert_int_equal(*taken, most);
	assert_int_equal(sluice_override_get(s, &limit, sl_str(key), START_NS, &own), SLUICE_OK);
	assert_int_equal(own.limit.algorithm, SLUICE_UNLIMITED);
	assert_int_equal(set_most(s, 0, "100/1m", other, "400/1m", 0, 0), SLUICE_OK);
	assert_int_equal(*taken, most);
}

static void mark_logs(struct sluice_store *s, uint64_t marks) {
	for (uint32_t unit = 1; unit < s->unit_count; unit++) {
		struct sl_slot *slot = s->map[unit] == 1 ? sl_block_owner(s, unit) : NULL;
		if (slot != NULL)
			slot->tag = (slot->tag & ~((uint64_t)63 << SL_TAG_USE_SHIFT)) | marks << SL_TAG_USE_SHIFT;
	}
}

/* Where all blocks are taken by logs one of them goes; where none may go, it is told. */
static void it_finds_room_among_logs(void **state) {
	struct sluice_store *s = *state;
	struct sluice_override own;
	for (int i = 0; s->header->evicted == 0 || s->blocks->free_units != 0; i++) {
		struct asked a = ASK(s, SLUICE_CHARGE, 0, 1, .lines = {{"sliding-log 9/1m", numbered(i)}});
		assert_int_equal(a.err, SLUICE_OK);
	}
	mark_logs(s, SL_MARKS_KEPT);
	assert_int_equal(set(s, 0, "100/1m", "300/1m", 0), SLUICE_E_FULL);
	mark_logs(s, 0);
	assert_int_equal(set(s, 0, "100/1m", "300/1m", 0), SLUICE_OK);
	assert_int_equal(get(s, 0, "100/1m", &own), SLUICE_OK);
	assert_true(own.limit.quota == 300);
}

/* As many as may be, and a flood: none is evicted, and everybody finds room. */
static void a_flood_of_keys_evicts_none(void **state) {
	struct sluice_store_stats stats;
	struct sluice_limit limit = ask_limit("100/1m");
	int count = 0;
	while (set_most(*state, 0, "100/1m", numbered(count), "300/1m", 0, 0) == SLUICE_OK)
		count++;
	for (int i = 0; i < 60000; i++) {
		char key[16];
		snprintf(key, sizeof key, "f%d", i);
		struct asked a =
			ASK(*state, SLUICE_CHARGE, 0, 90, .lines = {{i % 8 != 0 ? "100/1m" : "sliding-log 100/1m", key}});
		assert_true(a.err == SLUICE_OK && a.d.bound == SLUICE_BOUND_NONE);
	}
	sluice_store_stats(*state, &stats);
	assert_true(stats.evicted > 1000 && stats.overrides == (uint64_t)count);
	for (int i = 0; i < count; i++) {
		struct sluice_override own;
		assert_int_equal(sluice_override_get(*state, &limit, sl_str(numbered(i)), START_NS, &own), SLUICE_OK);
		assert_int_equal(own.limit.quota, 300);
	}
}

struct listed {
	uint32_t count, wrong;
};

static void list(void *context, const struct sluice_override_entry *entry) {
	struct listed *listed = context;
	listed->count++;
	listed->wrong += !sl_bytes_equal(entry->name, sl_str("per-user")) ||
	                 !sl_bytes_equal(entry->limit, sl_str("sliding-window 300/1m")) || entry->key.len < 2 ||
	                 *(const char *)entry->key.data != 'u';
}

static void each_is_listed_once(void **state) {
	struct listed all = {0}, some;
	uint64_t from = 0;
	char long_key[3000];
	for (int i = 0; i < 500; i++)
		assert_int_equal(set_most(*state, 0, "100/1m", numbered(i), "300/1m", i % 5 == 0 ? S : 0, 0), SLUICE_OK);
	do {
		some = (struct listed){0};
		from = sluice_override_list(*state, from, 10, START_NS, list, &some);
		assert_true(some.count < 10 + SL_PAGE_SLOTS);
		all.count += some.count;
		all.wrong += some.wrong;
	} while (from != 0);
	assert_true(all.count == 500 && all.wrong == 0);
	some = (struct listed){0};
	(void)sluice_override_list(*state, 0, UINT32_MAX, START_NS + (sluice_ns)2 * S * ASK_MS, list, &some);
	assert_int_equal(some.count, 400);
	memset(long_key, 'u', sizeof long_key - 1);
	long_key[sizeof long_key - 1] = '\0';
	assert_int_equal(set_most(*state, 0, "100/1m", long_key, "300/1m", 0, 0), SLUICE_OK);
	some = (struct listed){0};
	(void)sluice_override_list(*state, 0, UINT32_MAX, START_NS, list, &some);
	assert_true(some.count == 501 && some.wrong == 0);
}

/* ---- other arenas ------------------------------------------------------------------------------------------------ */

struct moved {
	struct sluice_store *to;
	uint32_t put;
};

static bool put(void *context, const struct sl_entry *entry) {
	struct moved *moved = context;
	moved->put += sl_store_put(moved->to, entry, START_NS) == SLUICE_OK;
	return true;
}

/* As a dump is loaded, and as a first opener makes a store whole. */
static void it_goes_into_another_arena_and_survives_repair(void **state) {
	static struct sluice_store other;
	struct sluice_store *from = *state;
	struct moved moved = {.to = &other};
	struct sl_repair found;
	void *memory = aligned_alloc(SL_PAGE_BYTES, 4 << 20);
	assert_non_null(memory);
	memset(memory, 0, 4 << 20);
	for (int i = 0; i < 100; i++)
		assert_int_equal(set_most(from, 0, "token-bucket 10/1m", numbered(i), "token-bucket 10/1m burst 77",
		                          i == 0 ? S : 0, 0),
		                 SLUICE_OK);
	assert_int_equal(sl_arena_format_like(memory, 4 << 20, 50, from->header), SLUICE_OK);
	sl_arena_attach(&other, memory);
	other.owner = 1 << SL_OWNER_ROW_SHIFT | 1;
	for (struct sl_walk walk = {.store = from}; sl_walk_next(&walk);)
		(void)sl_store_scan(from, walk.page, START_NS, NULL, put, &moved);
	assert_int_equal(moved.put, 100);
	assert_int_equal(other.header->overrides, 100);
	assert_false(sl_store_has_ledgers(&other, START_NS));
	other.header->overrides = 0; /* as torn */
	assert_non_null(sl_store_verify(&other));
	sl_arena_repair(&other, &found);
	assert_true(found.overrides == 100 && found.dropped == 0 && other.header->overrides == 100);
	assert_int_equal(other.header->override_units, from->header->override_units);
	assert_null(sl_store_verify(&other));
	for (int i = 0; i < 100; i++) {
		struct sluice_limit limit = ask_limit("token-bucket 10/1m");
		struct sluice_override own;
		assert_int_equal(sluice_override_get(&other, &limit, sl_str(numbered(i)), START_NS, &own), SLUICE_OK);
		assert_true(own.limit.burst == 77 && (own.ends_after_ns == SLUICE_NEVER) == (i != 0));
	}
	free(memory);
}

/* Whatever 16 bytes say, there is a rule of it or none. */
static void any_sixteen_bytes_are_read(void **state) {
	uint64_t x = 88172645463325252;
	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct sluice_limit limit = ask_limit(fits[i % (sizeof fits / sizeof *fits)].limit);
		uint64_t words[2];
		struct sl_own own;
		for (int w = 0; w < 2; w++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			words[w] = x;
		}
		own = sl_own_read(words);
		(void)sl_own_end(words);
		if (sl_own_apply(&own, &limit))
			assert_true(sl_rule_is_valid(&limit));
	}
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, ask_open, ask_close)
	const struct CMUnitTest tests[] = {
		TEST(a_quota_of_a_key_decides),
		TEST(what_is_no_quota_for_the_counter_is_refused),
		TEST(a_named_bucket_may_have_another_rate),
		TEST(it_ends_by_itself_to_the_millisecond),
		TEST(what_was_spent_stays_spent),
		TEST(what_was_spent_outlives_a_quota_of_0),
		TEST(other_keys_and_counters_have_their_limits),
		TEST(unlimited_counts_nothing_and_lets_old_things_end),
		TEST(all_that_is_asked_answers_by_it),
		TEST(unlimited_leaves_no_record),
		TEST(it_stays_when_its_counter_goes),
		TEST(denials_and_peeks_write_nothing),
		TEST(inspect_tells_of_it),
		TEST(it_ends_before_time_does),
		TEST(there_are_no_more_than_may_be),
		TEST(at_the_bound_those_that_are_there_change),
		TEST(it_finds_room_among_logs),
		TEST(a_flood_of_keys_evicts_none),
		TEST(each_is_listed_once),
		TEST(it_goes_into_another_arena_and_survives_repair),
		TEST(any_sixteen_bytes_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
