/* Metrics as text: every rule in which the two forms differ, numbers to the last digit, and who gets which form. */
#include "proto/prom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char memory[4096];
static struct sl_out out;

static struct sl_prom begin(bool open_metrics) {
	out = sl_out_to(memory, sizeof memory - 1);
	return (struct sl_prom){.out = &out, .open_metrics = open_metrics};
}

static void assert_text(const char *want) {
	assert_false(out.overflow);
	*out.at = '\0';
	assert_string_equal(memory, want);
}

static const struct sl_prom_label door[] = {{"door", {"r\"\\\n", 4}}, {"kind", {"", 0}}};

static void test_a_counter_has_total_where_each_form_wants_it(void **state) {
	(void)state;
	struct sl_prom prom = begin(false);
	sl_prom_family(&prom, "a_seconds", SL_PROM_COUNTER, "seconds", "Says \"a\\b\".");
	sl_prom_time(&prom, (struct sl_prom_labels){0}, 1500000000);
	sl_prom_end(&prom);
	assert_text("# HELP a_seconds_total Says \"a\\\\b\".\n# TYPE a_seconds_total counter\na_seconds_total 1.5\n");
	prom = begin(true);
	sl_prom_family(&prom, "a_seconds", SL_PROM_COUNTER, "seconds", "Says \"a\\b\".");
	sl_prom_time(&prom, (struct sl_prom_labels){0}, 1500000000);
	sl_prom_end(&prom);
	assert_text("# HELP a_seconds Says \\\"a\\\\b\\\".\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n"
	            "a_seconds_total 1.5\n# EOF\n");
}

static void test_labels_are_escaped(void **state) {
	(void)state;
	struct sl_prom prom = begin(false);
	sl_prom_family(&prom, "g", SL_PROM_GAUGE, NULL, "G.");
	sl_prom_count(&prom, (struct sl_prom_labels){door, 1}, UINT64_MAX);
	sl_prom_count(&prom, (struct sl_prom_labels){door, 2}, 0);
	assert_text("# HELP g G.\n# TYPE g gauge\ng{door=\"r\\\"\\\\\\n\"} 18446744073709551615\n"
	            "g{door=\"r\\\"\\\\\\n\",kind=\"\"} 0\n");
}

static void test_a_histogram_cumulates(void **state) {
	static const sluice_ns bounds[] = {100, 1000000000, SLUICE_NEVER};
	static const uint64_t counts[] = {2, 0, 3};
	(void)state;
	struct sl_prom prom = begin(true);
	sl_prom_family(&prom, "h_seconds", SL_PROM_HISTOGRAM, NULL, "H.");
	sl_prom_histogram(&prom, (struct sl_prom_labels){0}, bounds, counts, 3, 4000000001);
	sl_prom_histogram(&prom, (struct sl_prom_labels){&door[1], 1}, bounds, counts, 3, 0);
	assert_text(
		"# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
		"h_seconds_bucket{le=\"1e-07\"} 2\nh_seconds_bucket{le=\"1.0\"} 2\nh_seconds_bucket{le=\"+Inf\"} 5\n"
		"h_seconds_sum 4.000000001\nh_seconds_count 5\n"
		"h_seconds_bucket{kind=\"\",le=\"1e-07\"} 2\nh_seconds_bucket{kind=\"\",le=\"1.0\"} 2\n"
		"h_seconds_bucket{kind=\"\",le=\"+Inf\"} 5\nh_seconds_sum{kind=\"\"} 0\nh_seconds_count{kind=\"\"} 5\n");
}

static void assert_number(void (*put)(struct sl_out *, sluice_ns), sluice_ns ns, const char *want) {
	out = sl_out_to(memory, sizeof memory - 1);
	put(&out, ns);
	assert_text(want);
}

static void test_numbers_are_exact(void **state) {
	(void)state;
	assert_number(sl_prom_seconds, 0, "0");
	assert_number(sl_prom_seconds, 1, "0.000000001");
	assert_number(sl_prom_seconds, 999999999, "0.999999999");
	assert_number(sl_prom_seconds, 1000000000, "1");
	assert_number(sl_prom_seconds, 1000000010, "1.00000001");
	assert_number(sl_prom_seconds, UINT64_MAX, "18446744073.709551615");
	assert_number(sl_prom_bound, 0, "0.0");
	assert_number(sl_prom_bound, 1, "1e-09");
	assert_number(sl_prom_bound, 200, "2e-07");
	assert_number(sl_prom_bound, 12340, "1.234e-05");
	assert_number(sl_prom_bound, 99999, "9.9999e-05");
	assert_number(sl_prom_bound, 100000, "0.0001"); /* from here on as it is */
	assert_number(sl_prom_bound, 500000000, "0.5");
	assert_number(sl_prom_bound, 1000000000, "1.0");
	assert_number(sl_prom_bound, 10000000000, "10.0");
}

static void test_what_has_no_room_is_told(void **state) {
	(void)state;
	struct sl_prom prom = begin(true);
	out = sl_out_to(memory, 20);
	sl_prom_family(&prom, "g", SL_PROM_GAUGE, NULL, "A sentence that is longer than that.");
	assert_true(out.overflow);
	assert_true(sl_out_len(&out) <= 20);
}

static void test_the_accept_header_chooses(void **state) {
	static const struct {
		bool open;
		const char *accept;
	} cases[] = {
		/* Prometheus 2.5 and later, and 3 */
		{true, "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
	           "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"},
		{true, "application/openmetrics-text; version=1.0.0; charset=utf-8"},
		{true, "Application/OpenMetrics-Text ; Version=1.0.0 ; Q=1"},
		{true, "application/openmetrics-text"},
		{true, "text/plain;q=0.5, application/openmetrics-text;q=0.5"},
		{true, "*/*;q=0.9,text/plain;q=0.1,application/openmetrics-text;q=0.2"},
		{false, ""},
		{false, "*/*"}, /* curl */
		{false, "application/*"},
		{false, "text/html,application/xhtml+xml,*/*;q=0.8"},
		{false, "application/openmetrics-text;version=0.0.1"},
		{false, "application/openmetrics-text;q=0"},
		{false, "application/openmetrics-text;q=0.2,text/plain"},
		{false, "application/openmetrics-text;q=0.2,*/*;q=0.201"},
		{false, "text/*;q=0.5,application/openmetrics-text;q=0.4,*/*;q=0.1"},
		{false, "application/openmetrics-text;q=1.1"},
		{false, "application/openmetrics-text;q="},
		{false, "application/openmetrics-text;q=0.1234"},
		{false, "application/openmetrics-texts"},
		{true, "text/plain;q=0.5, ,\t,  application/openmetrics-text ; q=0.5 ; "},
		{false, " ,  ;  ,\t= ; q , ; ;q=1 "},
		{false, ",;,=;q,,;;q=1"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t len = strlen(cases[i].accept);
		char *copy = malloc(len + 1); /* of its own: a byte read past it is found by a sanitizer */
		memcpy(copy, cases[i].accept, len);
		if (sl_prom_accepts_open_metrics(sl_slice(copy, len)) != cases[i].open)
			fail_msg("%s: %s", cases[i].accept, cases[i].open ? "OpenMetrics" : "plain text");
		free(copy);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_counter_has_total_where_each_form_wants_it),
		cmocka_unit_test(test_labels_are_escaped),
		cmocka_unit_test(test_a_histogram_cumulates),
		cmocka_unit_test(test_numbers_are_exact),
		cmocka_unit_test(test_what_has_no_room_is_told),
		cmocka_unit_test(test_the_accept_header_chooses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
