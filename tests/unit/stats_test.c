/* The stats: names keep their rows over reloads, rows are used again only where that cannot confuse anybody, those of
 * limits as those of routes, workers' pages add up, histograms put every bound where it belongs, and the history is
 * what was counted when. */
#include "hosts/server/watch/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const sluice_ns start_ns = 1767225600ull * 1000000000, step_ns = (sluice_ns)SL_HISTORY_STEP_MS * 1000000;

static struct sl_stats *stats;
static uint32_t rows[2 * SL_STATS_LIMITS_MAX + SL_POLICY_ROUTES_MAX];

static int setup(void **state) {
	(void)state;
	stats = sl_stats_new(3);
	return stats == NULL;
}

static int teardown(void **state) {
	(void)state;
	sl_stats_free(stats);
	return 0;
}

static void enter_text(const char *text, size_t len) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	if (sluice_policy_load(&policy, sl_slice(text, len), &problems) != SLUICE_OK)
		fail_msg("%s", problems.count > 0 ? problems.list[0].text : "?");
	assert_in_range(sl_stats_rows_of(policy), 1, sizeof rows / sizeof *rows);
	sl_stats_enter(stats, policy, rows);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
}

/* Enters a policy of the limits PREFIXfrom .. PREFIXto-1, in that order. */
static void enter(const char *prefix, uint32_t from, uint32_t to) {
	size_t room = 64 + (to - from) * 64, len = 0;
	char *text = malloc(room);
	len += (size_t)snprintf(text, room, "limits:\n");
	for (uint32_t i = from; i < to; i++)
		len += (size_t)snprintf(text + len, room - len, "  - {name: %s%u, key: ip, limit: 10/1m}\n", prefix, i);
	enter_text(text, len);
	free(text);
}

static void count_allowed(uint32_t worker, uint32_t row, uint64_t by) {
	struct sl_row *own = sl_worker_stats_row(sl_stats_worker(stats, worker), row);
	assert_non_null(own);
	sl_count(&own->decisions[SL_TRANSPORT_RESP][SL_VERDICT_ALLOWED], by);
	sl_count(&own->near, by);
}

static struct sl_row_sum sum_of(uint32_t row) {
	struct sl_row_sum sum;
	assert_true(sl_stats_row(stats, row, &sum));
	return sum;
}

static uint64_t allowed_in(uint32_t row) {
	struct sl_row_sum sum = sum_of(row);
	assert_int_equal(sum.near, sum.decisions[SL_TRANSPORT_RESP][SL_VERDICT_ALLOWED]);
	return sum.near;
}

/* The row of a name, or 0. */
static uint32_t row_named(const char *name) {
	struct sl_row_sum sum;
	for (uint32_t row = 1; row < sl_stats_row_count(stats); row++)
		if (sl_stats_row(stats, row, &sum) && strcmp(sum.name, name) == 0)
			return row;
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void test_row_0_is_that_of_notation(void **state) {
	(void)state;
	assert_int_equal(sl_stats_row_count(stats), 1);
	assert_string_equal(sum_of(0).name, "");
	struct sl_row_sum sum;
	assert_false(sl_stats_row(stats, 1, &sum));
}

static void test_a_name_keeps_its_row_when_limits_move_and_when_it_comes_back(void **state) {
	(void)state;
	enter("a", 0, 3);
	uint32_t a0 = rows[0], a2 = rows[2];
	count_allowed(0, a0, 5);
	count_allowed(0, a2, 7);
	enter("a", 2, 4); /* a0 goes, a2 is first now, a3 is new */
	assert_int_equal(rows[0], a2);
	assert_int_equal(allowed_in(a2), 7);
	assert_int_equal(allowed_in(rows[1]), 0);
	assert_int_equal(allowed_in(a0), 5); /* what was counted does not vanish */
	enter("a", 0, 1);
	assert_int_equal(rows[0], a0);
	count_allowed(1, a0, 1);
	assert_int_equal(allowed_in(a0), 6);
}

static void test_pages_of_all_workers_add_up(void **state) {
	(void)state;
	enter("a", 0, 130); /* three chunks */
	for (uint32_t worker = 0; worker < 3; worker++) {
		struct sl_worker_stats *page = sl_stats_worker(stats, worker);
		struct sl_row *row = sl_worker_stats_row(page, rows[129]);
		sl_count(&row->decisions[SL_TRANSPORT_HTTP][SL_VERDICT_DENIED], worker + 1);
		sl_count(&row->hits[0], 10 * (worker + 1));
		sl_count(&row->hits[1], 1);
		sl_count(&row->candidate, 2);
		sl_count(&page->requests[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 3);
		sl_count(&page->errors[SL_TRANSPORT_RESP], 4);
		sl_times_add(&page->decision, 150, 2);
		sl_times_add(&page->request[SL_TRANSPORT_RESP], 1000, 1);
	}
	struct sl_row_sum row = sum_of(rows[129]);
	assert_int_equal(row.decisions[SL_TRANSPORT_HTTP][SL_VERDICT_DENIED], 6);
	assert_int_equal(row.decisions[SL_TRANSPORT_RESP][SL_VERDICT_DENIED], 0);
	assert_int_equal(row.hits[0], 60);
	assert_int_equal(row.hits[1], 3);
	assert_int_equal(row.candidate, 6);
	struct sl_stats_sum sum;
	sl_stats_sum(stats, &sum);
	assert_int_equal(sum.requests[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 9);
	assert_int_equal(sum.errors[SL_TRANSPORT_RESP], 12);
	assert_int_equal(sum.decision[1], 6);
	assert_int_equal(sum.decision_ns, 900);
	assert_int_equal(sum.request[SL_TRANSPORT_RESP][3], 3);
	assert_int_equal(sum.request_ns[SL_TRANSPORT_RESP], 3000);
	assert_int_equal(sum.request_ns[SL_TRANSPORT_HTTP], 0);
}

/* Two policies of the largest size fill the table but for some rows; a third must take rows of the first. */
static void test_a_full_table_gives_the_longest_unused_rows_to_new_names(void **state) {
	(void)state;
	const uint32_t most = SL_STATS_LIMITS_MAX, spare = SL_ROWS_MAX - 1 - 2 * SL_STATS_LIMITS_MAX;
	enter("a", 0, most);
	for (uint32_t i = 0; i < most; i++)
		count_allowed(i % 3, rows[i], 100);
	enter("b", 0, most);
	for (uint32_t i = 0; i < most; i++)
		count_allowed(i % 3, rows[i], 200);
	enter("c", 0, most);
	assert_int_equal(sl_stats_row_count(stats), SL_ROWS_MAX);
	for (uint32_t i = 0; i < most; i++) {
		assert_int_equal(allowed_in(rows[i]), 0); /* nothing of what the row counted for another */
		count_allowed(2, rows[i], i);
		assert_int_equal(allowed_in(rows[i]), i);
	}
	uint32_t left = 0;
	for (uint32_t i = 0; i < most; i++) {
		char name[16];
		snprintf(name, sizeof name, "b%u", i); /* of the policy before: a worker may still count there */
		assert_int_not_equal(row_named(name), 0);
		assert_int_equal(allowed_in(row_named(name)), 200);
		snprintf(name, sizeof name, "a%u", i);
		left += row_named(name) != 0;
	}
	assert_int_equal(left, spare);
}

static void test_a_row_of_the_policy_before_is_not_given_away_in_a_full_table(void **state) {
	(void)state;
	enter("a", 0, SL_STATS_LIMITS_MAX);
	enter("b", 0, SL_STATS_LIMITS_MAX);
	enter("c", 0, 100);
	uint32_t c0 = rows[0];
	enter("d", 0, SL_STATS_LIMITS_MAX);
	assert_int_equal(row_named("c0"), c0);
	uint32_t left[2] = {0};
	for (uint32_t row = 1; row < SL_ROWS_MAX; row++)
		for (int i = 0; i < 2; i++)
			left[i] += sum_of(row).name[0] == "ab"[i];
	assert_int_equal(left[0], 0); /* the oldest first */
	assert_int_equal(left[1], SL_ROWS_MAX - 1 - SL_STATS_LIMITS_MAX - 100);
	for (uint32_t i = 0; i < SL_STATS_LIMITS_MAX; i++)
		assert_int_not_equal(rows[i], 0);
}

/* Limits after so many share a row, which keeps its name over reloads; the largest policies still fit beside it. */
static void test_limits_beyond_the_first_are_counted_together(void **state) {
	(void)state;
	enter("a", 0, SL_STATS_LIMITS_MAX + 3);
	const uint32_t others = rows[SL_STATS_LIMITS_MAX];
	assert_int_equal(row_named(SL_STATS_OTHERS), others);
	assert_int_equal(rows[SL_STATS_LIMITS_MAX + 2], others);
	assert_int_not_equal(rows[SL_STATS_LIMITS_MAX - 1], others);
	count_allowed(0, rows[SL_STATS_LIMITS_MAX], 5);
	count_allowed(1, rows[SL_STATS_LIMITS_MAX + 2], 6);
	assert_int_equal(allowed_in(others), 11);
	enter("b", 0, 2 * SL_STATS_LIMITS_MAX);
	assert_int_equal(rows[2 * SL_STATS_LIMITS_MAX - 1], others);
	assert_int_equal(allowed_in(others), 11);
	enter("c", 0, 1); /* one that has a row of its own is counted by itself again */
	assert_int_not_equal(rows[0], others);
	assert_int_equal(row_named(SL_STATS_OTHERS), others);
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

static void count_denied(uint32_t worker, uint32_t row, uint64_t by) {
	assert_true(row < SL_ROUTE_ROWS_MAX);
	sl_count(&sl_stats_worker(stats, worker)->routes[row], by);
}

/* What a row counts, "" for no such row. */
static const char *route_told(uint32_t row) {
	static char told[512];
	struct sl_route_sum sum;
	if (!sl_route_stats_row(sl_stats_routes(stats), row, &sum))
		return "";
	snprintf(told, sizeof told, "%s %s %llu", sum.limit, sum.route, (unsigned long long)sum.denied);
	return told;
}

static void test_a_route_keeps_its_row_and_what_it_counted(void **state) {
	static const char before[] = "limits:\n  - {name: a, key: [], limit: 1/1s, when: {path: [/x, '/o/{org}/s', /x]}}\n"
								 "  - {name: b, key: [], limit: 1/1s}\n"
								 "  - {name: c, key: [], limit: 1/1s, when: {path: /x*}}\n";
	static const char after[] = "limits:\n  - {name: c, key: [], limit: 1/1s, when: {path: /y}}\n"
								"  - {name: a, key: [], limit: 1/1s, when: {path: ['/o/{org}/s', /z]}}\n";
	(void)state;
	assert_string_equal(route_told(0), "");
	enter_text(before, sizeof before - 1);
	assert_int_equal(sl_route_stats_count(sl_stats_routes(stats)), 3); /* one is written twice */
	assert_int_equal(rows[3], rows[5]);
	uint32_t parts = rows[4];
	for (uint32_t worker = 0; worker < 3; worker++)
		count_denied(worker, parts, worker + 1);
	count_denied(1, rows[6], 9);
	assert_string_equal(route_told(parts), "a /o/{org}/s 6");
	assert_string_equal(route_told(rows[3]), "a /x 0");
	assert_string_equal(route_told(rows[6]), "c /x* 9");
	enter_text(after, sizeof after - 1);
	assert_int_equal(rows[3], parts);
	assert_string_equal(route_told(rows[2]), "c /y 0");
	assert_string_equal(route_told(rows[4]), "a /z 0");
	count_denied(2, parts, 1);
	assert_string_equal(route_told(parts), "a /o/{org}/s 7");
	assert_string_equal(route_told(2), "c /x* 9"); /* what was counted does not vanish */
}

static void test_a_route_that_is_too_long_has_no_row(void **state) {
	char text[1024];
	(void)state;
	for (int len = SL_ROUTE_TEXT_MAX; len <= SL_ROUTE_TEXT_MAX + 1; len++) {
		int size = snprintf(text, sizeof text, "limits: [{name: a, key: ip, limit: 1/1s, when: {path: '/%0*d'}}]",
		                    len - 1, 1);
		enter_text(text, (size_t)size);
		assert_int_equal(rows[1] == SL_ROUTE_ROW_NONE, len > SL_ROUTE_TEXT_MAX);
	}
	assert_int_equal(sl_route_stats_count(sl_stats_routes(stats)), 1);
}

/* Enters a policy of four limits with `count` routes each, /PREFIXn. */
static void enter_routes(const char *prefix, uint32_t count) {
	size_t room = 1024 + (size_t)count * 4 * 16, len = 0;
	char *text = malloc(room);
	len += (size_t)snprintf(text, room, "limits:\n");
	for (uint32_t i = 0; i < 4; i++) {
		len += (size_t)snprintf(text + len, room - len,
		                        "  - name: l%u\n    key: ip\n    limit: 1/1s\n    when: {path: [", i);
		for (uint32_t k = 0; k < count; k++)
			len += (size_t)snprintf(text + len, room - len, "%s/%s%u", k == 0 ? "" : ",", prefix, k);
		len += (size_t)snprintf(text + len, room - len, "]}\n");
	}
	enter_text(text, len);
	free(text);
}

static void test_rows_of_routes_are_bounded_and_used_again(void **state) {
	const uint32_t each = SL_POLICY_ROUTES_MAX / 4;
	char told[64];
	(void)state;
	for (int round = 0; round < 4; round++) {
		char prefix[2] = {(char)('a' + round), '\0'};
		enter_routes(prefix, each + 1); /* the last limit's last four have no number */
		for (uint32_t i = 0; i < SL_POLICY_ROUTES_MAX; i++) {
			snprintf(told, sizeof told, "l%u /%s%u 0", i / (each + 1), prefix, i % (each + 1));
			assert_string_equal(route_told(rows[4 + i]), told);
			count_denied(i % 3, rows[4 + i], 5);
		}
	}
	assert_int_equal(sl_route_stats_count(sl_stats_routes(stats)), SL_ROUTE_ROWS_MAX);
}

/* ---- histograms -------------------------------------------------------------------------------------------------- */

static uint32_t bucket_of(sluice_ns ns) {
	struct sl_times times = {0};
	uint32_t bucket = 0;
	sl_times_add(&times, ns, 1);
	while (times.counts[bucket] == 0)
		bucket++;
	assert_int_equal(times.sum_ns, ns);
	return bucket;
}

static void test_a_bound_belongs_to_the_bucket_below_it(void **state) {
	(void)state;
	assert_int_equal(sl_times_bound(0), 100);
	assert_int_equal(sl_times_bound(SL_TIMES - 2), 10000000000);
	assert_true(sl_times_bound(SL_TIMES - 1) == SLUICE_NEVER);
	assert_int_equal(bucket_of(0), 0);
	for (uint32_t i = 0; i + 1 < SL_TIMES; i++) {
		assert_int_equal(bucket_of(sl_times_bound(i)), i);
		assert_int_equal(bucket_of(sl_times_bound(i) + 1), i + 1);
	}
	assert_int_equal(bucket_of(SLUICE_NEVER), SL_TIMES - 1);
}

/* ---- history ----------------------------------------------------------------------------------------------------- */

static struct sl_step_sum steps[SL_HISTORY_STEPS];

static uint32_t history(uint32_t row, sluice_ns *last) {
	memset(steps, 0xff, sizeof steps);
	return sl_stats_history(stats, row, steps, last);
}

static void test_a_step_has_what_was_counted_in_it(void **state) {
	sluice_ns last;
	(void)state;
	enter("a", 0, 1);
	assert_int_equal(history(rows[0], &last), 0);
	assert_int_equal(last, 0);
	count_allowed(0, rows[0], 3);
	sl_stats_sample(stats, start_ns);
	count_allowed(0, rows[0], 1);
	count_allowed(1, rows[0], 1);
	sl_count(&sl_worker_stats_row(sl_stats_worker(stats, 2), rows[0])->decisions[SL_TRANSPORT_HTTP][SL_VERDICT_DENIED],
	         4);
	sl_count(&sl_worker_stats_row(sl_stats_worker(stats, 2), rows[0])->decisions[SL_TRANSPORT_RESP][SL_VERDICT_SHADOW],
	         5);
	sl_count(&sl_worker_stats_row(sl_stats_worker(stats, 2), rows[0])->candidate, 6);
	sl_stats_sample(stats, start_ns + step_ns);
	sl_stats_sample(stats, start_ns + 2 * step_ns + step_ns / 3); /* a late timer is no missing step */
	assert_int_equal(history(rows[0], &last), 3);
	assert_int_equal(last, start_ns + 2 * step_ns + step_ns / 3);
	assert_int_equal(steps[0].allowed, 3);
	assert_memory_equal(&steps[1], (&(struct sl_step_sum){2, 4, 5, 2, 6}), sizeof steps[1]);
	assert_memory_equal(&steps[2], (&(struct sl_step_sum){0, 0, 0, 0, 0}), sizeof steps[2]);
}

static void test_steps_that_were_missed_count_nothing(void **state) {
	sluice_ns last;
	(void)state;
	enter("a", 0, 1);
	count_allowed(0, rows[0], 1);
	sl_stats_sample(stats, start_ns);
	count_allowed(0, rows[0], 9);
	sl_stats_sample(stats, start_ns + 4 * step_ns);
	assert_int_equal(history(rows[0], &last), 5);
	const uint32_t want[] = {1, 0, 0, 0, 9};
	for (int i = 0; i < 5; i++)
		assert_int_equal(steps[i].allowed, want[i]);
	sl_stats_sample(stats, start_ns + 6 * step_ns - step_ns / 3); /* one was missed, the next came early */
	assert_int_equal(history(rows[0], &last), 7);
	sl_stats_sample(stats, start_ns + 4 * step_ns - 1); /* nor does a clock that stands still or steps back break it */
	assert_int_equal(history(rows[0], &last), 8);
	sl_stats_sample(stats, start_ns + 1000000 * step_ns); /* the host slept for weeks */
	assert_int_equal(history(rows[0], &last), SL_HISTORY_STEPS);
	for (int i = 0; i < SL_HISTORY_STEPS; i++)
		assert_int_equal(steps[i].allowed, 0);
}

static void test_the_ring_keeps_the_last_steps(void **state) {
	sluice_ns last;
	(void)state;
	enter("a", 0, 1);
	for (uint32_t i = 0; i < SL_HISTORY_STEPS + 10; i++) {
		count_allowed(0, rows[0], i);
		sl_stats_sample(stats, start_ns + i * step_ns);
	}
	enter("a", 0, 2); /* a younger limit has fewer steps, that end at the same instant */
	count_allowed(0, rows[1], 77);
	sl_stats_sample(stats, start_ns + (SL_HISTORY_STEPS + 10) * step_ns);
	assert_int_equal(history(rows[0], &last), SL_HISTORY_STEPS);
	assert_int_equal(steps[0].allowed, 11);
	assert_int_equal(steps[SL_HISTORY_STEPS - 2].allowed, SL_HISTORY_STEPS + 9);
	assert_int_equal(steps[SL_HISTORY_STEPS - 1].allowed, 0);
	assert_int_equal(history(rows[1], &last), 1);
	assert_int_equal(steps[0].allowed, 77);
	assert_int_equal(last, start_ns + (SL_HISTORY_STEPS + 10) * step_ns);
}

static void test_a_row_that_is_used_again_has_no_history_of_before(void **state) {
	sluice_ns last;
	(void)state;
	enter("a", 0, SL_STATS_LIMITS_MAX);
	for (uint32_t i = 0; i < SL_STATS_LIMITS_MAX; i++)
		count_allowed(0, rows[i], 50);
	sl_stats_sample(stats, start_ns);
	enter("b", 0, SL_STATS_LIMITS_MAX);
	enter("c", 0, SL_STATS_LIMITS_MAX);
	count_allowed(0, rows[SL_STATS_LIMITS_MAX - 1], 2);
	sl_stats_sample(stats, start_ns + step_ns);
	assert_int_equal(history(rows[SL_STATS_LIMITS_MAX - 1], &last), 1);
	assert_int_equal(steps[0].allowed, 2);
}

static void test_a_step_that_holds_too_much_says_the_most(void **state) {
	sluice_ns last;
	(void)state;
	count_allowed(0, 0, (uint64_t)UINT32_MAX + 10);
	sl_stats_sample(stats, start_ns);
	count_allowed(0, 0, 1);
	sl_stats_sample(stats, start_ns + step_ns);
	assert_int_equal(history(0, &last), 2);
	assert_int_equal(steps[0].allowed, UINT32_MAX);
	assert_int_equal(steps[1].allowed, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(test_row_0_is_that_of_notation),
		TEST(test_a_name_keeps_its_row_when_limits_move_and_when_it_comes_back),
		TEST(test_pages_of_all_workers_add_up),
		TEST(test_a_full_table_gives_the_longest_unused_rows_to_new_names),
		TEST(test_a_row_of_the_policy_before_is_not_given_away_in_a_full_table),
		TEST(test_limits_beyond_the_first_are_counted_together),
		TEST(test_a_route_keeps_its_row_and_what_it_counted),
		TEST(test_a_route_that_is_too_long_has_no_row),
		TEST(test_rows_of_routes_are_bounded_and_used_again),
		TEST(test_a_bound_belongs_to_the_bucket_below_it),
		TEST(test_a_step_has_what_was_counted_in_it),
		TEST(test_steps_that_were_missed_count_nothing),
		TEST(test_the_ring_keeps_the_last_steps),
		TEST(test_a_row_that_is_used_again_has_no_history_of_before),
		TEST(test_a_step_that_holds_too_much_says_the_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
