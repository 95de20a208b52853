/* Texts of a policy file: the characters that bytes are, words that could be taken for something else, how many names
 * there may be, and what is told of conditions. */
#include "policy/ruleset.h"
#include "policy/source.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* What the list of limits tells of conditions: one line of JSON, whatever stands in them. */
static void test_conditions_in_json(void **state) {
	static const struct {
		const char *when, *json;
	} rows[] = {
		{"{}", "{}"},
		{"{path: /a*}", "{\"path\":\"/a*\"}"},
		{"{plan: [free trial, pro]}", "{\"plan\":[\"free trial\",\"pro\"]}"},
		{"{plan: [a], path: /x}", "{\"plan\":[\"a\"],\"path\":\"/x\"}"},
		{"{plan: 'say \"a\\b\"'}", "{\"plan\":\"say \\\"a\\\\b\\\"\"}"},
		{"{plan: \"a\\tb\\x1f c~\"}", "{\"plan\":\"a\\u0009b\\u001f c~\"}"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[256];
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		snprintf(yaml, sizeof yaml, "limits: [{name: a, key: ip, limit: 1/1s, when: %s}]\n", rows[i].when);
		sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
		sl_policy_print(&problems);
		assert_int_equal(err, SLUICE_OK);
		assert_string_equal(policy->limits[0].shown.when_text, rows[i].json);
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

/* More names than a file may have, each in a key of its own: it is the one too many that is told. */
static void test_too_many_names(void **state) {
	static char yaml[32 * 1024];
	static const struct wanted wanted = {258, 34, "expected at most 256 different attributes in a file, found 'a256'"};
	size_t len = 0;
	(void)state;
	for (unsigned i = 0; i <= 256; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "%s- {name: n%03u, limit: 1/1s, key: a%u%s\n",
		                        i == 0 ? "limits:\n" : "", i, i, "}");
	assert_true(len < sizeof yaml);
	sl_policy_refused(sl_slice(yaml, len), &wanted, 1);
}

/* Quoted it is a word as any other. */
static void test_null_is_a_word_too(void **state) {
	(void)state;
	sluice_policy_free(sl_policy_loads("limits:\n"
	                                   "- {name: 'null', key: ip, limit: 1/1s}\n"
	                                   "- {name: \"~\", key: ip, limit: 9/1m}\n"));
}

/* Characters off bytes: each length's first and last, and what is none. */
static void test_characters(void **state) {
	static const struct {
		const char *bytes;
		size_t len; /* 0: no character */
		uint32_t code;
	} rows[] = {
		{"a", 1, 'a'},
		{"\x7f", 1, 0x7f},
		{"\xc2\x80", 2, 0x80},
		{"\xdf\xbf", 2, 0x7ff},
		{"\xe0\xa0\x80", 3, 0x800},
		{"\xed\x9f\xbf", 3, 0xd7ff},
		{"\xee\x80\x80", 3, 0xe000},
		{"\xef\xbf\xbf", 3, 0xffff},
		{"\xf0\x90\x80\x80", 4, 0x10000},
		{"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
		{"\xc1\xbf", 0, 0},
		{"\xe0\x9f\xbf", 0, 0},
		{"\xf0\x8f\xbf\xbf", 0, 0},
		{"\xed\xa0\x80", 0, 0},
		{"\xed\xbf\xbf", 0, 0},
		{"\xf4\x90\x80\x80", 0, 0},
		{"\x80", 0, 0},
		{"\xc2", 0, 0},
		{"\xe2\x82", 0, 0},
		{"\xe2\x82\xc0", 0, 0},
		{"\xf8\x88\x80\x80\x80", 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint32_t code = 0;
		assert_int_equal(sl_source_decode(sl_str(rows[i].bytes), &code), rows[i].len);
		assert_int_equal(code, rows[i].code);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions_in_json),
		cmocka_unit_test(test_too_many_names),
		cmocka_unit_test(test_null_is_a_word_too),
		cmocka_unit_test(test_characters),
	};
	return cmocka_run_group_tests_name("texts of a policy", tests, NULL, NULL);
}
