/* The headers of rate limiting: the grammar of RFC 9651, the rounding, and who is told of what. */
#include "proto/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char text[64 * 1024];

static const char *end(struct sl_out *out) {
	assert_false(out->overflow);
	*out->at = '\0';
	return text;
}

static struct sl_out begin(void) {
	return sl_out_to(text, sizeof text - 1);
}

/* ---- single values ------------------------------------------------------------------------------------------- */

static void assert_string(struct sluice_bytes value, const char *want) {
	struct sl_out out = begin();
	sl_headers_string(&out, value);
	assert_string_equal(end(&out), want);
}

static void test_strings_are_escaped_and_printable(void **state) {
	char all[256];
	(void)state;
	assert_string(sl_str(""), "\"\"");
	assert_string(sl_str("per-user"), "\"per-user\"");
	assert_string(sl_str("a\"b\\c"), "\"a\\\"b\\\\c\"");
	assert_string(sl_slice("a\0\r\n\t\x7f\xc3\xa9", 8), "\"a???????\"");
	assert_string(sl_str(" ~;,="), "\" ~;,=\"");
	for (unsigned i = 0; i < 256; i++)
		all[i] = (char)i;
	struct sl_out out = begin();
	sl_headers_string(&out, sl_slice(all, 256));
	for (const char *at = end(&out); *at != '\0'; at++)
		assert_true(*at >= 0x20 && *at < 0x7f);
	assert_int_equal(strlen(text), 256 + 2 + 2);
}

static void assert_integer(uint64_t value, const char *want) {
	struct sl_out out = begin();
	sl_headers_integer(&out, value);
	assert_string_equal(end(&out), want);
}

static void test_integers_have_at_most_fifteen_digits(void **state) {
	(void)state;
	assert_integer(0, "0");
	assert_integer(4294967296, "4294967296");
	assert_integer(999999999999999, "999999999999999");
	assert_integer(1000000000000000, "999999999999999");
	assert_integer(UINT64_MAX, "999999999999999");
}

static void assert_retry_after(sluice_ns wait, const char *want) {
	struct sl_out out = begin();
	sl_headers_retry_after(&out, wait);
	assert_string_equal(end(&out), want);
}

static void test_retry_after_is_rounded_up_and_never_zero(void **state) {
	(void)state;
	assert_retry_after(0, "Retry-After: 1\r\n");
	assert_retry_after(1, "Retry-After: 1\r\n");
	assert_retry_after(1000000000, "Retry-After: 1\r\n");
	assert_retry_after(1000000001, "Retry-After: 2\r\n");
	assert_retry_after(SLUICE_NEVER - 1, "Retry-After: 18446744074\r\n");
	assert_retry_after(SLUICE_NEVER, "");
}

/* ---- windows ------------------------------------------------------------------------------------------------- */

static struct sluice_limit parse(const char *notation) {
	struct sluice_limit limit;
	struct sluice_error error;
	if (sluice_limit_parse(&limit, sl_str(notation), &error) != SLUICE_OK)
		fail_msg("%s: %s", notation, error.text);
	return limit;
}

static void test_windows_in_seconds(void **state) {
	static const struct {
		const char *notation;
		uint64_t quota, window_s;
	} cases[] = {
		{"600/1m", 600, 60},
		{"fixed-window 10/1s", 10, 1},
		{"10/1ms", 10, 1},
		{"10/1001ms", 10, 2},
		{"sliding-log 5/3660d", 5, 316224000},
		{"sliding-buckets 240/1h precision 1m", 240, 3600},
		{"sliding-window 0/1m", 0, 60},
		/* what is won back at Q/W, until the whole q is there: B * W / Q */
		{"token-bucket 10/1s burst 100", 100, 10},
		{"token-bucket 10/1s burst 5", 5, 1},
		{"token-bucket 10/1s", 10, 1},
		{"token-bucket 3/1s burst 10", 10, 4},
		{"token-bucket 3000/1s burst 1", 1, 1},
		{"token-bucket 1/3660d burst 4294967295", 4294967295, 1358171737894080000},
		{"token-bucket 0/1m", 0, 60},
		/* (N + 1) * W / Q */
		{"leaky-bucket 10/1s queue 50", 51, 6},
		{"leaky-bucket 10/1s queue 0", 1, 1},
		{"leaky-bucket 10/1m queue 4", 5, 30},
		{"leaky-bucket 1/3660d queue 4294967295", 4294967296, 1358171738210304000},
		{"leaky-bucket 0/1m", 0, 60},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sluice_limit limit = parse(cases[i].notation);
		uint64_t got = sl_headers_window_s(&limit, cases[i].quota, 0);
		if (got != cases[i].window_s)
			fail_msg("%s: %llu", cases[i].notation, (unsigned long long)got);
	}
}

static void test_a_window_of_the_calendar_is_as_long_as_the_present_one(void **state) {
	static const struct {
		const char *notation;
		uint64_t now_s, window_s;
	} cases[] = {
		{"10/hour", 1709164800, 3600},        {"10/day", 1709164800, 86400},
		{"10/week", 1709164800, 604800},      {"10/month", 1709164800, 29 * 86400}, /* 2024-02-29 */
		{"10/month", 1709251200, 31 * 86400}, {"10/year", 1709164800, 366 * 86400},
		{"10/year", 1735689600, 365 * 86400}, {"0/month", 1709164800, 29 * 86400},
		{"10/month", 4107456000, 28 * 86400}, /* 2100-02-28 */
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sluice_limit limit = parse(cases[i].notation);
		uint64_t got = sl_headers_window_s(&limit, 10, cases[i].now_s * 1000000000);
		if (got != cases[i].window_s)
			fail_msg("%s at %llu: %llu", cases[i].notation, (unsigned long long)cases[i].now_s,
			         (unsigned long long)got);
	}
}

/* ---- both headers -------------------------------------------------------------------------------------------- */

enum { SECOND = 1000000000 };

static const sluice_ns start_ns = 1767225600ull * SECOND;

static const struct sluice_decision
	room = {.allowed = true,
            .quota = 600,
            .remaining = 41,
            .next_after_ns = 2 * (sluice_ns)SECOND + 1,
            .reset_after_ns = 56 * (sluice_ns)SECOND + 1},
	full = {.allowed = true, .quota = 10, .remaining = 10},
	none = {.allowed = false, .quota = 10, .remaining = 0, .next_after_ns = 1, .retry_after_ns = 5},
	never = {
		.allowed = false, .quota = 10, .remaining = 0, .next_after_ns = SLUICE_NEVER, .retry_after_ns = SLUICE_NEVER};

static struct sluice_limit window, second, unlimited;

static int prepare(void **state) {
	(void)state;
	window = parse("600/1m");
	second = parse("10/1s");
	unlimited = parse("unlimited");
	return 0;
}

static void assert_headers(const struct sl_headers_limit *limits, uint32_t count, bool allowed, int32_t decided,
                           const char *want) {
	struct sl_out out = begin();
	sl_headers_rate_limit(&out, SL_FORM_DRAFT10,
	                      &(struct sl_headers_decision){limits, count, decided, allowed, start_ns});
	assert_string_equal(end(&out), want);
}

static void test_allowed_names_the_one_that_decided(void **state) {
	struct sl_headers_limit limits[] = {{sl_str("per-user"), &window, &room, false},
	                                    {sl_str("10/1s"), &second, &full, false}};
	(void)state;
	assert_headers(limits, 1, true, 0,
	               "RateLimit-Policy: \"per-user\";q=600;w=60\r\nRateLimit: \"per-user\";r=41;t=3\r\n");
	/* nothing to wait for: no t */
	assert_headers(limits, 2, true, 1,
	               "RateLimit-Policy: \"per-user\";q=600;w=60, \"10/1s\";q=10;w=1\r\nRateLimit: \"10/1s\";r=10\r\n");
}

static void test_denied_names_every_denying_one(void **state) {
	struct sl_headers_limit limits[] = {{sl_str("a"), &second, &none, false},
	                                    {sl_str("b"), &window, &room, false},
	                                    {sl_str("c\"d"), &second, &never, false}};
	(void)state;
	assert_headers(limits, 3, false, 2,
	               "RateLimit-Policy: \"a\";q=10;w=1, \"b\";q=600;w=60, \"c\\\"d\";q=10;w=1\r\n"
	               "RateLimit: \"a\";r=0;t=1, \"c\\\"d\";r=0\r\n");
}

static void test_observed_and_unlimited_are_told_to_nobody(void **state) {
	struct sl_headers_limit limits[] = {{sl_str("seen"), &second, &none, true},
	                                    {sl_str("free"), &unlimited, &full, false},
	                                    {sl_str("a"), &window, &room, false}};
	(void)state;
	assert_headers(limits, 3, true, 2, "RateLimit-Policy: \"a\";q=600;w=60\r\nRateLimit: \"a\";r=41;t=3\r\n");
	assert_headers(limits, 2, true, -1, "");
	assert_headers(limits, 0, true, -1, "");
}

/* No window has what is in flight: its unit is said instead, and the older forms, which know no units, say nothing. */
static void test_concurrency_has_no_window(void **state) {
	static const struct sluice_limit flight = {.algorithm = SLUICE_CONCURRENCY, .quota = 600, .window_ns = SECOND};
	struct sl_headers_limit limits[] = {{sl_str("a"), &flight, &room, false}, {sl_str("b"), &second, &full, false}};
	struct sl_out out = begin();
	(void)state;
	assert_headers(limits, 2, true, 0,
	               "RateLimit-Policy: \"a\";q=600;qu=\"concurrent-requests\", \"b\";q=10;w=1\r\n"
	               "RateLimit: \"a\";r=41;t=3\r\n");
	sl_headers_rate_limit(&out, SL_FORM_DRAFT7, &(struct sl_headers_decision){limits, 2, 0, true, start_ns});
	assert_string_equal(end(&out), "RateLimit-Policy: 600, 10;w=1\r\nRateLimit: limit=600, remaining=41, reset=57\r\n");
}

/* ---- the older forms ----------------------------------------------------------------------------------------- */

static void assert_forms(uint32_t forms, const struct sl_headers_limit *limits, uint32_t count, bool allowed,
                         int32_t decided, const char *want) {
	struct sl_out out = begin();
	sl_headers_rate_limit(&out, forms, &(struct sl_headers_decision){limits, count, decided, allowed, start_ns + 1});
	assert_string_equal(end(&out), want);
}

/* The strings are those of express-rate-limit 8.7.4 with standardHeaders 'draft-6', 'draft-7' and legacyHeaders. */
static void test_each_form(void **state) {
	static const struct {
		uint32_t forms;
		const char *want;
	} cases[] = {
		{0, ""},
		{SL_FORM_DRAFT7, "RateLimit-Policy: 600;w=60\r\nRateLimit: limit=600, remaining=41, reset=57\r\n"},
		{SL_FORM_DRAFT6, "RateLimit-Policy: 600;w=60\r\nRateLimit-Limit: 600\r\nRateLimit-Remaining: 41\r\n"
	                     "RateLimit-Reset: 57\r\n"},
		{SL_FORM_LEGACY_DELTA, "X-RateLimit-Limit: 600\r\nX-RateLimit-Remaining: 41\r\nX-RateLimit-Reset: 57\r\n"},
		/* two times a nanosecond is still rounded up to one second */
		{SL_FORM_LEGACY_EPOCH,
	     "X-RateLimit-Limit: 600\r\nX-RateLimit-Remaining: 41\r\nX-RateLimit-Reset: 1767225657\r\n"},
		/* together: one RateLimit-Policy for both drafts, which have one grammar for it */
		{SL_FORM_DRAFT7 | SL_FORM_DRAFT6,
	     "RateLimit-Policy: 600;w=60\r\nRateLimit: limit=600, remaining=41, reset=57\r\nRateLimit-Limit: 600\r\n"
	     "RateLimit-Remaining: 41\r\nRateLimit-Reset: 57\r\n"},
		{SL_FORM_DRAFT10 | SL_FORM_LEGACY_EPOCH,
	     "RateLimit-Policy: \"per-user\";q=600;w=60\r\nRateLimit: \"per-user\";r=41;t=3\r\nX-RateLimit-Limit: "
	     "600\r\nX-RateLimit-Remaining: 41\r\nX-RateLimit-Reset: 1767225657\r\n"},
	};
	struct sl_headers_limit limit = {sl_str("per-user"), &window, &room, false};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_forms(cases[i].forms, &limit, 1, true, 0, cases[i].want);
	/* what would be behind the last instant that there is */
	struct sl_out out = begin();
	sl_headers_rate_limit(&out, SL_FORM_LEGACY_EPOCH,
	                      &(struct sl_headers_decision){&limit, 1, 0, true, SLUICE_NEVER - 5});
	assert_string_equal(end(&out), "X-RateLimit-Limit: 600\r\nX-RateLimit-Remaining: 41\r\n"
	                               "X-RateLimit-Reset: 18446744074\r\n");
}

static void test_single_forms_tell_of_the_one_that_decided(void **state) {
	struct sl_headers_limit limits[] = {{sl_str("seen"), &second, &none, true},
	                                    {sl_str("a"), &second, &none, false},
	                                    {sl_str("free"), &unlimited, &full, false},
	                                    {sl_str("b"), &window, &room, false}};
	(void)state;
	/* the denying one; quotas of all that are told, in their order */
	assert_forms(SL_FORM_DRAFT7, limits, 4, false, 1,
	             "RateLimit-Policy: 10;w=1, 600;w=60\r\nRateLimit: limit=10, remaining=0, reset=0\r\n");
	assert_forms(SL_FORM_DRAFT6 | SL_FORM_LEGACY_DELTA, limits, 4, true, 3,
	             "RateLimit-Policy: 10;w=1, 600;w=60\r\nRateLimit-Limit: 600\r\nRateLimit-Remaining: 41\r\n"
	             "RateLimit-Reset: 57\r\nX-RateLimit-Limit: 600\r\nX-RateLimit-Remaining: 41\r\n"
	             "X-RateLimit-Reset: 57\r\n");
	/* no limit decided: nothing, in any form */
	assert_forms(SL_FORM_DRAFT7 | SL_FORM_DRAFT6 | SL_FORM_LEGACY_EPOCH, limits, 4, true, -1, "");
	assert_forms(SL_FORM_DRAFT7 | SL_FORM_DRAFT6 | SL_FORM_LEGACY_EPOCH, limits, 0, true, -1, "");
}

static void test_the_room_that_is_promised_suffices(void **state) {
	char name[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_limit slow = parse("leaky-bucket 1/3660d queue 4294967295");
	struct sluice_decision most = {.quota = UINT64_MAX, .remaining = UINT32_MAX, .next_after_ns = SLUICE_NEVER - 1};
	struct sl_headers_limit limits[SLUICE_ITEMS_MAX];
	(void)state;
	/* more than any policy may ask for: what the pairs that exclude each other would take is left out */
	const uint32_t all = UINT32_MAX, dropped = SL_FORM_LEGACY_DELTA;
	memset(name, '"', sizeof name);
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
		limits[i] = (struct sl_headers_limit){sl_slice(name, sizeof name), &slow, &most, false};
	for (uint32_t count = 1; count <= SLUICE_ITEMS_MAX; count++) {
		struct sl_out out =
			sl_out_to(text, SL_HEADERS_ROOM_FIXED + count * (SL_HEADERS_ROOM_PER_LIMIT + 4 * sizeof name));
		sl_headers_rate_limit(&out, all & ~dropped,
		                      &(struct sl_headers_decision){limits, count, 0, false, SLUICE_NEVER});
		sl_headers_retry_after(&out, SLUICE_NEVER - 1);
		assert_false(out.overflow);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings_are_escaped_and_printable),
		cmocka_unit_test(test_integers_have_at_most_fifteen_digits),
		cmocka_unit_test(test_retry_after_is_rounded_up_and_never_zero),
		cmocka_unit_test(test_windows_in_seconds),
		cmocka_unit_test(test_a_window_of_the_calendar_is_as_long_as_the_present_one),
		cmocka_unit_test(test_allowed_names_the_one_that_decided),
		cmocka_unit_test(test_denied_names_every_denying_one),
		cmocka_unit_test(test_observed_and_unlimited_are_told_to_nobody),
		cmocka_unit_test(test_concurrency_has_no_window),
		cmocka_unit_test(test_each_form),
		cmocka_unit_test(test_single_forms_tell_of_the_one_that_decided),
		cmocka_unit_test(test_the_room_that_is_promised_suffices),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}
