/* The bodies of denials: what is refused, and where; what values become; and that none of them ends what it stands in,
 * whatever its bytes. */
#include "proto/template.h"

#include "base/text.h"
#include "proto/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND ((sluice_ns)1000000000)

/* ---- reading --------------------------------------------------------------------------------------------------- */

static void test_what_is_refused(void **state) {
	static const struct {
		const char *text;
		enum sl_denied_type type;
		uint32_t line, column;
		const char *problem;
	} rows[] = {
		{"", SL_DENIED_PLAIN, 1, 1, "expected a body of 1 to 16384 bytes, found none"},
		{"a {{limit", SL_DENIED_PLAIN, 1, 3, "{{ is not closed: expected {{name}}"},
		{"a\n\xc3\xa4 {{limit} }}", SL_DENIED_HTML, 2, 3, "{{ is not closed"},
		{"{{", SL_DENIED_PLAIN, 1, 1, "{{ is not closed"},
		{"{{limit}", SL_DENIED_PLAIN, 1, 1, "{{ is not closed"},
		{"{{li\nmit}}", SL_DENIED_PLAIN, 1, 1, "{{ is not closed"},
		{"{{limit}}{{{quota}}", SL_DENIED_PLAIN, 1, 10, "{{ is not closed"},
		{"\n\n x {{limits}}", SL_DENIED_PLAIN, 3, 4, "unknown value 'limits': expected limit, quota"},
		{"{{}}", SL_DENIED_PLAIN, 1, 1, "unknown value ''"},
		{"{{key}}", SL_DENIED_JSON, 1, 1, "unknown value 'key'"},
		{"{{Limit}}", SL_DENIED_PLAIN, 1, 1, "unknown value 'Limit'"},
		{"ab\x01", SL_DENIED_PLAIN, 1, 3, "expected UTF-8 text without control characters, found \\x01"},
		{"\x01z", SL_DENIED_PLAIN, 1, 1, "found \\x01"},
		{"ab\n\xc3\xa4\xff", SL_DENIED_HTML, 2, 2, "found \\xff"},
		{"{\"a\": {{limit}}}", SL_DENIED_JSON, 1, 8, "expected JSON, with limit and request_id within quotes: "},
		{"{\"a\": 1{{quota}}}", SL_DENIED_JSON, 1, 9, "expected JSON"},
		{"{\"a\": {{quota}}5}", SL_DENIED_PROBLEM, 1, 16, "expected JSON"},
		{"{\"a\": -{{quota}}}", SL_DENIED_JSON, 1, 7, "expected JSON"},
		{"{\"a\": \"\\{{limit}}\"}", SL_DENIED_JSON, 1, 9, "expected JSON"},
		{"{\"a\": \"\\u{{quota}}\"}", SL_DENIED_JSON, 1, 10, "expected JSON"},
		{"{\"a\": 1,\n \"a\": 2}", SL_DENIED_JSON, 2, 4, "expected JSON"},
		{"{\n\"a\": 1", SL_DENIED_JSON, 2, 6, "expected JSON"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_problem problem = {.line = 0};
		if (sl_template_check(sl_str(rows[i].text), rows[i].type, &problem))
			fail_msg("%s is taken", rows[i].text);
		if (problem.line != rows[i].line || problem.column != rows[i].column ||
		    strstr(problem.text, rows[i].problem) == NULL)
			fail_msg("%s: %u:%u: %s", rows[i].text, problem.line, problem.column, problem.text);
	}
}

static void test_bounds(void **state) {
	static char text[SL_DENIED_BYTES_MAX + 1];
	struct sluice_problem problem;
	size_t len = 0;
	(void)state;
	memset(text, 'x', sizeof text);
	assert_true(sl_template_check(sl_slice(text, SL_DENIED_BYTES_MAX), SL_DENIED_PLAIN, &problem));
	assert_false(sl_template_check(sl_slice(text, SL_DENIED_BYTES_MAX + 1), SL_DENIED_PLAIN, &problem));
	assert_string_equal(problem.text, "expected a body of 1 to 16384 bytes, found more");
	for (int i = 0; i < SL_TEMPLATE_VALUES_MAX; i++, len += 9)
		memcpy(text + len, "{{limit}}", 9);
	assert_true(sl_template_check(sl_slice(text, len), SL_DENIED_PLAIN, &problem));
	memcpy(text + len, "{{quota}}", 9);
	assert_false(sl_template_check(sl_slice(text, len + 9), SL_DENIED_PLAIN, &problem));
	assert_string_equal(problem.text, "expected at most 64 values, this is one more");
	assert_int_equal(problem.column, len + 1);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static size_t put(char *memory, const char *text, enum sl_denied_type type, const struct sl_template_values *values) {
	struct sluice_problem problem;
	struct sl_out out = sl_out_to(memory, SL_TEMPLATE_ROOM(strlen(text)));
	if (!sl_template_check(sl_str(text), type, &problem))
		fail_msg("%s: %u:%u: %s", text, problem.line, problem.column, problem.text);
	sl_template_put(&out, sl_str(text), type, values);
	assert_false(out.overflow);
	return sl_out_len(&out);
}

static void test_what_values_become(void **state) {
	static const struct {
		const char *text;
		enum sl_denied_type type;
		const char *body;
	} rows[] = {
		{"plain", SL_DENIED_PLAIN, "plain"},
		{"{ {} } }} {", SL_DENIED_PLAIN, "{ {} } }} {"},
		{"{{quota}}{{ remaining }}{{  limit}}.", SL_DENIED_PLAIN, "60b\"<'&\\."},
		{"{{retry_after}} {{retry_after_ms}} {{reset_after}}", SL_DENIED_PLAIN, "2 1001 61"},
		{"<b title=\"{{limit}}\">{{request_id}}", SL_DENIED_HTML, "<b title=\"b&#34;&lt;&#39;&amp;\\\">id&#96;"},
		{"{\"a\": \"{{limit}}\", \"b\": {{quota}}, \"c\":{\"d\":{}}}", SL_DENIED_JSON,
	     "{\"a\": \"b\\\"<'&\\\\\", \"b\": 6, \"c\":{\"d\":{}}}"},
		{"[\"{{request_id}}{{quota}}\"]", SL_DENIED_PROBLEM, "[\"id`6\"]"},
	};
	static char memory[SL_TEMPLATE_ROOM(256)];
	const struct sl_template_values values = {.limit = sl_str("b\"<'&\\"),
	                                          .request_id = sl_str("id`"),
	                                          .quota = 6,
	                                          .remaining = 0,
	                                          .retry_after_ns = SECOND + 1,
	                                          .reset_after_ns = 60 * SECOND + 1};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t len = put(memory, rows[i].text, rows[i].type, &values);
		if (!sl_bytes_equal(sl_slice(memory, len), sl_str(rows[i].body)))
			fail_msg("%s: %.*s", rows[i].text, (int)len, memory);
	}
}

static void test_waits(void **state) {
	static const struct {
		sluice_ns wait;
		const char *body;
	} rows[] = {
		{0, "1 0 0"}, {1, "1 1 1"}, {SECOND, "1 1000 1"}, {SECOND + 1, "2 1001 2"}, {SLUICE_NEVER, "-1 -1 -1"},
	};
	static char memory[SL_TEMPLATE_ROOM(256)];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct sl_template_values values = {.limit = sl_str("a"),
		                                          .retry_after_ns = rows[i].wait,
		                                          .reset_after_ns = rows[i].wait};
		size_t len = put(memory, "{{retry_after}} {{retry_after_ms}} {{reset_after}}", SL_DENIED_PLAIN, &values);
		assert_true(sl_bytes_equal(sl_slice(memory, len), sl_str(rows[i].body)));
	}
}

/* ---- any bytes ------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) {
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Bytes that are likely to end something: quotes, brackets, braces, controls, halves of characters. */
static struct sluice_bytes random_text(uint64_t *seed, char memory[SL_TEMPLATE_TEXT_MAX]) {
	static const char likely[] = "\"\\<>&'`{}\n\r\t\x7f\xc3\xa4\xe2\x80\xae\xed\xa0\x80u0";
	size_t len = next_random(seed) % (SL_TEMPLATE_TEXT_MAX + 1);
	for (size_t i = 0; i < len; i++) {
		uint64_t random = next_random(seed) >> 8;
		memory[i] = random % 2 == 0 ? (char)(random >> 8) : likely[(random >> 8) % sizeof likely];
	}
	return sl_slice(memory, len);
}

static void check_html(const char *body, size_t len) {
	assert_true(len >= 2 && body[0] == '"' && body[len - 1] == '"');
	for (size_t i = 1; i + 1 < len; i++)
		assert_null(memchr("<>\"'`", body[i], 5));
}

static void check_shown(const char *body, size_t len) {
	uint32_t character;
	for (size_t i = 0, n; i < len; i += n) {
		n = sl_text_next((const unsigned char *)body + i, len - i, &character);
		assert_true(n != 0 && sl_text_is_shown(character));
	}
}

static void test_no_value_ends_what_it_stands_in(void **state) {
	static char memory[SL_TEMPLATE_ROOM(256)];
	char limit[SL_TEMPLATE_TEXT_MAX], id[SL_TEMPLATE_TEXT_MAX];
	uint64_t seed = 0x746d706c;
	(void)state;
	for (int i = 0; i < 20000; i++) {
		const struct sl_template_values values = {.limit = random_text(&seed, limit),
		                                          .request_id = random_text(&seed, id),
		                                          .quota = next_random(&seed),
		                                          .retry_after_ns = next_random(&seed)};
		json_error_t error;
		size_t len = put(memory, "[\"{{limit}}\", \"{{request_id}}\", {{retry_after}}]", SL_DENIED_JSON, &values);
		json_t *read = json_loadb(memory, len, JSON_ALLOW_NUL, &error);
		assert_non_null(read);
		assert_int_equal(json_array_size(read), 3);
		assert_true(json_is_string(json_array_get(read, 0)) && json_is_string(json_array_get(read, 1)));
		json_decref(read);
		len = put(memory, "\"{{limit}}{{request_id}}\"", SL_DENIED_HTML, &values);
		check_html(memory, len);
		check_shown(memory, len);
		len = put(memory, "{{limit}}{{request_id}}", SL_DENIED_PLAIN, &values);
		check_shown(memory, len);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_what_values_become),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_no_value_ends_what_it_stands_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
