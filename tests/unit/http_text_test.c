/* Texts of HTTP/1.1: the words of a status, dates, what is encoded in queries. */
#include "proto/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* The words of RFC 9110 for each status that is answered. */
static void test_each_status_has_its_words(void **state) {
	static const struct {
		unsigned status;
		const char *words;
	} rows[] = {
		{200, "OK"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{417, "Expectation Failed"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
		{299, "Unknown"},
		{0, "Unknown"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(sl_http_reason(rows[i].status), rows[i].words);
}

static void assert_decodes(const char *text, bool plus, const char *want, ptrdiff_t want_len) {
	char memory[64];
	ptrdiff_t len = sl_http_decode(sl_str(text), plus, memory);
	assert_int_equal(len, want_len);
	if (len > 0)
		assert_memory_equal(memory, want, (size_t)len);
}

static void test_percent_decoding(void **state) {
	(void)state;
	assert_decodes("", false, "", 0);
	assert_decodes("abc", false, "abc", 3);
	assert_decodes("a%20b+c", false, "a b+c", 5);
	assert_decodes("a%20b+c", true, "a b c", 5);
	assert_decodes("%00%fF%2b", true, "\0\xff+", 3);
	assert_decodes("%41", false, "A", 1);
	assert_decodes("%", false, NULL, -1);
	assert_decodes("a%4", false, NULL, -1);
	assert_decodes("%4g", false, NULL, -1);
	assert_decodes("%g4", false, NULL, -1);
	assert_decodes("%%41", false, NULL, -1);
}

static void test_queries(void **state) {
	struct sluice_bytes rest = sl_str("&a=1&&b=&c&=d&e=f=g&"), name, value;
	static const char *want[][2] = {{"a", "1"}, {"b", ""}, {"c", ""}, {"", "d"}, {"e", "f=g"}};
	(void)state;
	for (size_t i = 0; i < 5; i++) {
		assert_true(sl_http_query_next(&rest, &name, &value));
		assert_true(sl_bytes_equal(name, sl_str(want[i][0])));
		assert_true(sl_bytes_equal(value, sl_str(want[i][1])));
	}
	assert_false(sl_http_query_next(&rest, &name, &value));
	rest = sl_str("a=1&b"); /* a name of one byte, without a value, is the last */
	assert_true(sl_http_query_next(&rest, &name, &value) && sl_http_query_next(&rest, &name, &value));
	assert_true(sl_bytes_equal(name, sl_str("b")) && value.len == 0 && rest.len == 0);
	assert_false(sl_http_query_next(&rest, &name, &value));
}

static void test_names_given_twice(void **state) {
	static const char *const twice[] = {"a=1&a=1", "a&a=2", "a=1&b=2&c=3&d=4&a=5", "&&b=1&a=&b", "=1&=2"};
	static const char *const once[] = {"", "a=1", "a=1&b=1", "a=b&b=a", "a=a", "a=1&A=1", "aa=1&a=1", "a&b&c&d&e&e"};
	(void)state;
	for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
		if (!sl_http_query_repeats(sl_str(twice[i])))
			fail_msg("%s", twice[i]);
	for (size_t i = 0; i < sizeof once / sizeof *once; i++)
		if (sl_http_query_repeats(sl_str(once[i])))
			fail_msg("%s", once[i]);
}

static void assert_date(uint64_t seconds) {
	char got[SL_HTTP_DATE_BYTES + 1] = {0}, want[64];
	time_t at = (time_t)seconds;
	struct tm parts;
	sl_http_date(seconds * 1000000000, got);
	assert_non_null(gmtime_r(&at, &parts));
	strftime(want, sizeof want, "%a, %d %b %Y %H:%M:%S GMT", &parts);
	assert_string_equal(got, want);
}

static void test_dates_are_those_of_the_c_library(void **state) {
	(void)state;
	for (uint64_t day = 0; day < 213000; day += 1) /* every day to 2553, each at another second */
		assert_date(day * 86400 + day * 7919 % 86400);
	assert_date(UINT64_MAX / 1000000000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_status_has_its_words), cmocka_unit_test(test_percent_decoding),
		cmocka_unit_test(test_queries),                   cmocka_unit_test(test_names_given_twice),
		cmocka_unit_test(test_dates_are_those_of_the_c_library),
	};
	return cmocka_run_group_tests_name("texts of HTTP", tests, NULL, NULL);
}
