/* Limits by the calendar: what is written and printed, whose counter it is, and the edges of their windows by name. */
#include "algo/calendar.h"
#include "algo/step.h"
#include "os/zone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const sluice_ns second = 1000000000;

static struct sluice_limit parse(const char *text) {
	struct sluice_limit limit;
	struct sluice_error error = {0};
	if (sluice_limit_parse(&limit, (struct sluice_bytes){text, strlen(text)}, &error) != SLUICE_OK)
		fail_msg("%s: column %u: %s", text, error.column, error.text);
	assert_true(sl_rule_is_valid(&limit));
	return limit;
}

static void what_is_written_is_printed_in_full(void **state) {
	static const struct {
		const char *written, *canonical;
		uint64_t longest_s;
	} cases[] = {
		{"5/hour", "fixed-window 5/hour at UTC", 3600},
		{"1000/day", "fixed-window 1000/day at UTC", 86400},
		{"fixed-window 1M/month", "fixed-window 1000000/month at UTC", 31 * 86400},
		{"1/week at UTC", "fixed-window 1/week at UTC", 7 * 86400},
		{"1/year at Etc/UTC", "fixed-window 1/year at Etc/UTC", 366 * 86400},
		{"1000/day at Europe/Berlin", "fixed-window 1000/day at Europe/Berlin", 90000},
		{"0/day at Europe/Berlin", "fixed-window 0/day at Europe/Berlin", 0},
		{"1/hour at Australia/Lord_Howe", "fixed-window 1/hour at Australia/Lord_Howe", 3600},
		{"4294967295/month at America/Argentina/ComodRivadavia",
	     "fixed-window 4294967295/month at America/Argentina/ComodRivadavia", 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		struct sluice_limit limit = parse(cases[i].written), again;
		size_t len = sluice_limit_print(&limit, text);
		assert_string_equal(text, cases[i].canonical);
		assert_int_equal(len, strlen(text));
		again = parse(text);
		assert_memory_equal(&again, &limit, sizeof limit);
		assert_true(limit.window_ns <= SL_WINDOW_NS_MAX);
		if (cases[i].longest_s != 0)
			assert_int_equal(limit.window_ns / second, cases[i].longest_s);
	}
}

static void unit_and_zone_are_whose_counter_it_is(void **state) {
	static const char *const different[] = {
		"1/day at UTC",
		"1/day at Europe/Berlin",
		"1/week at Europe/Berlin",
		"1/month at Europe/Berlin",
		"1/year at UTC",
		"1/hour at UTC",
		"1/day at Europe/Paris",
		"fixed-window 1/1d",
		"fixed-window 1/1h",
		"fixed-window 1/3660d",
		"1/1d",
		"1/day at Etc/UTC",
	};
	struct sluice_limit few = parse("1/day at Europe/Berlin"), many = parse("fixed-window 9/day at Europe/Berlin");
	(void)state;
	for (size_t i = 0; i < sizeof different / sizeof different[0]; i++)
		for (size_t k = 0; k < i; k++) {
			struct sluice_limit a = parse(different[i]), b = parse(different[k]);
			for (int named = 0; named < 2; named++) {
				if (a.derived[SL_IDENT_KIND] == b.derived[SL_IDENT_KIND])
					fail_msg("%s and %s", different[i], different[k]);
				sl_rule_name(&a, (struct sluice_bytes){"api", 3});
				sl_rule_name(&b, (struct sluice_bytes){"api", 3});
			}
		}
	assert_int_equal(few.derived[SL_IDENT_KIND], many.derived[SL_IDENT_KIND]); /* the quota is no part of it */
	assert_int_equal(few.derived[SL_IDENT_NAME], many.derived[SL_IDENT_NAME]);
}

static void what_the_parser_cannot_make_is_not_valid(void **state) {
	struct sluice_limit limit = parse("1/day at Europe/Berlin"), other = limit;
	(void)state;
	other.calendar = 6;
	assert_false(sl_rule_is_valid(&other));
	other = limit;
	other.zone = SL_ZONES_MAX - 1;
	assert_false(sl_rule_is_valid(&other));
	other = limit;
	other.algorithm = SLUICE_SLIDING_WINDOW;
	assert_false(sl_rule_is_valid(&other));
	other = limit;
	other.window_ns += second;
	assert_false(sl_rule_is_valid(&other));
	other = parse("fixed-window 1/1d");
	other.zone = limit.zone;
	assert_false(sl_rule_is_valid(&other));
}

/* Windows of every unit follow each other without a gap from 1970 to the last instant. */
static void windows_leave_nothing_out(void **state) {
	static const char *const zones[] = {
		"UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns", "Australia/Lord_Howe", "Africa/Monrovia"};
	static const char *const units[] = {"hour", "day", "week", "month", "year"};
	(void)state;
	for (size_t z = 0; z < sizeof zones / sizeof zones[0]; z++)
		for (size_t u = 0; u < 5; u++) {
			char text[64];
			snprintf(text, sizeof text, "1/%s at %s", units[u], zones[z]);
			struct sluice_limit limit = parse(text);
			sluice_ns t = 0, longest = 0;
			uint64_t count = 0;
			while (t < UINT64_MAX && count < 600000) {
				struct sl_span first = sl_calendar_span(&limit, t), last = sl_calendar_span(&limit, first.end - 1);
				if (first.start != t || first.end <= t || last.start != t || last.end != first.end)
					fail_msg("%s: the window at %llu", text, (unsigned long long)t);
				if (sl_calendar_before(&limit, first.end) != t && first.end != UINT64_MAX)
					fail_msg("%s: the window before %llu", text, (unsigned long long)first.end);
				longest = first.end - t > longest ? first.end - t : longest;
				t = first.end;
				count++;
			}
			assert_true(longest <= limit.window_ns);
			assert_true(u == 0 || t == UINT64_MAX); /* hours: the first 68 years */
			assert_int_equal(sl_calendar_before(&limit, 0), 0);
		}
}

static struct sluice_decision step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                                   uint64_t cost) {
	struct sluice_decision d;
	sl_step(limit, counter, now, cost, true, &d);
	return d;
}

static void the_day_on_which_clocks_are_put_back_has_25_hours(void **state) {
	struct sluice_limit limit = parse("2/day at Europe/Berlin");
	struct sl_counter counter = {.block = NULL};
	sluice_ns midnight = 1729980000 * second; /* 2024-10-27 00:00 there */
	struct sluice_decision d = step(&limit, &counter, midnight, 2);
	(void)state;
	assert_true(d.allowed && d.remaining == 0 && d.reset_after_ns == 25 * 3600 * second);
	d = step(&limit, &counter, midnight + 25 * 3600 * second - 1, 1);
	assert_true(!d.allowed && d.retry_after_ns == 1 && d.reset_after_ns == 1);
	d = step(&limit, &counter, midnight + 25 * 3600 * second, 1);
	assert_true(d.allowed && d.remaining == 1 && d.reset_after_ns == 24 * 3600 * second);
	d = step(&limit, &counter, midnight, 1); /* the clock does not run back into the day before */
	assert_true(d.allowed && d.remaining == 0 && d.reset_after_ns == 24 * 3600 * second);
}

static void a_cost_above_the_quota_never_passes(void **state) {
	struct sluice_limit limit = parse("2/month at Europe/Berlin");
	struct sl_counter counter = {.block = NULL};
	struct sluice_decision d = step(&limit, &counter, second, 3);
	(void)state;
	assert_true(!d.allowed && d.retry_after_ns == SLUICE_NEVER && d.reset_after_ns == 0 && d.remaining == 2);
	assert_true(sl_state_is_none(&counter.state));
}

static void the_last_instant_is_in_a_window(void **state) {
	struct sluice_limit limit = parse("2/year at Pacific/Apia");
	struct sl_counter counter = {.block = NULL};
	struct sluice_decision d = step(&limit, &counter, UINT64_MAX, 2);
	(void)state;
	assert_true(d.allowed && d.reset_after_ns == 1);
	d = step(&limit, &counter, UINT64_MAX, 1);
	assert_true(!d.allowed && d.retry_after_ns == 1);
}

static void a_refund_takes_from_the_present_window_alone(void **state) {
	struct sluice_limit limit = parse("5/day at Asia/Kolkata");
	struct sl_counter counter = {.block = NULL};
	sluice_ns midnight = 1719772200 * second; /* 2024-07-01 00:00 there */
	(void)state;
	(void)step(&limit, &counter, midnight - 1, 4);
	assert_false(sl_step_refund(&limit, &counter, midnight, 1));
	assert_true(sl_step_refund(&limit, &counter, midnight - 1, 9));
	assert_false(sl_step_refund(&limit, &counter, midnight - 1, 1));
	assert_int_equal(step(&limit, &counter, midnight - 1, 0).remaining, 5);
}

/* What is known of a counter that is gone counts in the window of its charge, whose first instant is in it. */
static void what_is_known_counts_in_its_window(void **state) {
	struct sluice_limit limit = parse("5/day at Asia/Kolkata");
	struct sl_counter counter = {.block = NULL};
	sluice_ns midnight = 1719772200 * second; /* 2024-07-01 00:00 there */
	const struct sl_held inside[] = {{midnight, 5}, {midnight + 1, 1}}, before[] = {{midnight - 1, 5}, {midnight, 1}};
	(void)state;
	sl_step_assume(&limit, &counter, inside, 2, NULL, 0);
	assert_int_equal(step(&limit, &counter, midnight + 1, 0).remaining, 0);
	sl_step_assume(&limit, &counter, before, 2, NULL, 0);
	assert_int_equal(step(&limit, &counter, midnight, 0).remaining, 4);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_printed_in_full),
		cmocka_unit_test(unit_and_zone_are_whose_counter_it_is),
		cmocka_unit_test(what_the_parser_cannot_make_is_not_valid),
		cmocka_unit_test(windows_leave_nothing_out),
		cmocka_unit_test(the_day_on_which_clocks_are_put_back_has_25_hours),
		cmocka_unit_test(a_cost_above_the_quota_never_passes),
		cmocka_unit_test(the_last_instant_is_in_a_window),
		cmocka_unit_test(a_refund_takes_from_the_present_window_alone),
		cmocka_unit_test(what_is_known_counts_in_its_window),
	};
	sl_zone_use_host();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
