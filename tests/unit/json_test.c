/* JSON at the doors: what is printed is read back by jansson as it was meant, whatever the bytes; what is read is
 * bounded, and refused by name. */
#include "proto/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* ---- writing ------------------------------------------------------------------------------------------------- */

/* Prints bytes into memory of exactly the promised room, and reads them back. */
static json_t *print_and_read(const void *bytes, size_t len) {
	char *memory = malloc(SL_JSON_ROOM(len));
	struct sl_out out = sl_out_to(memory, SL_JSON_ROOM(len));
	json_error_t error;
	sl_json_string(&out, sl_slice(bytes, len));
	assert_false(out.overflow);
	json_t *read = json_loadb(memory, sl_out_len(&out), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (read == NULL)
		fail_msg("%s: %.*s", error.text, (int)sl_out_len(&out), memory);
	free(memory);
	return read;
}

static void assert_prints(const char *bytes, size_t len, const char *want, size_t want_len) {
	json_t *read = print_and_read(bytes, len);
	assert_int_equal(json_string_length(read), want_len);
	assert_memory_equal(json_string_value(read), want, want_len);
	json_decref(read);
}

#define ASSERT_KEPT(bytes) assert_prints(bytes, sizeof bytes - 1, bytes, sizeof bytes - 1)
#define ASSERT_BECOMES(bytes, want) assert_prints(bytes, sizeof bytes - 1, want, sizeof want - 1)
#define BAD "\xef\xbf\xbd"

static void test_ascii_comes_back_as_it_was(void **state) {
	char all[128];
	(void)state;
	for (unsigned i = 0; i < sizeof all; i++)
		all[i] = (char)i;
	assert_prints(all, sizeof all, all, sizeof all);
	assert_prints(NULL, 0, "", 0);
}

static void test_utf8_is_kept_up_to_its_edges(void **state) {
	(void)state;
	ASSERT_KEPT("\xc2\x80\xdf\xbf");                             /* U+0080, U+07FF */
	ASSERT_KEPT("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"); /* U+0800, U+D7FF, U+E000, U+FFFF */
	ASSERT_KEPT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");             /* U+10000, U+10FFFF */
	ASSERT_KEPT("a\xe2\x82\xac" "b");
}

static void test_what_is_not_utf8_becomes_fffd(void **state) {
	(void)state;
	ASSERT_BECOMES("a\x80" "b", "a" BAD "b");                /* a byte of the middle */
	ASSERT_BECOMES("\xc0\x80", BAD BAD);                     /* overlong */
	ASSERT_BECOMES("\xc1\xbf", BAD BAD);
	ASSERT_BECOMES("\xe0\x9f\xbf", BAD BAD BAD);
	ASSERT_BECOMES("\xf0\x8f\xbf\xbf", BAD BAD BAD BAD);
	ASSERT_BECOMES("\xed\xa0\x80", BAD BAD BAD);             /* a surrogate */
	ASSERT_BECOMES("\xf4\x90\x80\x80", BAD BAD BAD BAD);     /* above U+10FFFF */
	ASSERT_BECOMES("\xf5\x80\x80\x80", BAD BAD BAD BAD);
	ASSERT_BECOMES("\xff\xfe", BAD BAD);
	ASSERT_BECOMES("\xc3", BAD);                             /* cut short */
	ASSERT_BECOMES("\xe2\x82", BAD BAD);
	ASSERT_BECOMES("\xf0\x9f\x98", BAD BAD BAD);
	ASSERT_BECOMES("\xc3\"", BAD "\"");                      /* what follows is not swallowed */
	ASSERT_BECOMES("\xe2\x82\n", BAD BAD "\n");
}

static void test_random_bytes_are_always_json(void **state) {
	uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;
	char bytes[64];
	(void)state;
	printf("seed %llu\n", (unsigned long long)random);
	for (int round = 0; round < 200000; round++) {
		size_t len = random % sizeof bytes;
		for (size_t i = 0; i < len; i++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			/* leads and middles more often than chance would have them */
			bytes[i] = (char)(random >> 8 & 3 ? 0x80 | (random >> 16 & 0x7f) : random >> 16 & 0xff);
		}
		json_t *read = print_and_read(bytes, len);
		assert_true(json_string_length(read) >= len);
		assert_true(json_string_length(read) <= 3 * len);
		json_decref(read);
	}
}

/* What a terminal would act on is escaped: C0, DEL and C1. All of it comes back when it is read. */
static void test_control_characters_are_escaped(void **state) {
	char memory[256];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	(void)state;
	assert_true(sl_json_string(&out, sl_str("a\x1b[2J\x7f\xc2\x80\xc2\x9f\xc2\xa0")));
	assert_int_equal(sl_out_len(&out), strlen("\"a\\u001b[2J\\u007f\\u0080\\u009f\xc2\xa0\""));
	assert_memory_equal(memory, "\"a\\u001b[2J\\u007f\\u0080\\u009f\xc2\xa0\"", sl_out_len(&out));
	json_decref(print_and_read("\x7f\xc2\x80", 3));
	assert_false(sl_json_string(&out, sl_str("\xc2")));
}

/* What turns a line around, ends it for some readers or can't be seen stands as \u. */
static void test_what_deceives_is_escaped(void **state) {
	static const char in[] = "a\xe2\x80\xae" "b\xe2\x80\xa8\xe2\x81\xa6\xd8\x9c\xef\xbb\xbf\xf3\xa0\x81\x81",
					  want[] = "\"a\\u202eb\\u2028\\u2066\\u061c\\ufeff\\udb40\\udc41\"";
	char memory[256];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	(void)state;
	assert_true(sl_json_string(&out, sl_str(in)));
	assert_int_equal(sl_out_len(&out), strlen(want));
	assert_memory_equal(memory, want, strlen(want));
	ASSERT_KEPT("a\xe2\x80\xae" "b\xe2\x80\xa8\xe2\x81\xa6\xd8\x9c\xef\xbb\xbf\xf3\xa0\x81\x81");
}

/* A comma stands between members and between elements, and nowhere else. */
static void test_members_and_elements(void **state) {
	static const char want[] = "{\"n\":7,\"i\":-1,\"ms\":2,\"never\":-1,\"yes\":true,\"none\":null,\"word\":\"full\","
							   "\"text\":\"a\\\"b\",\"limit\":\"sliding-window 5/1m\",\"no\":null,"
							   "\"list\":[{},{\"key\":\"k\"},3,4],\"empty\":[],"
							   "\"key\":\"\\u0000\xef\xbf\xbd\\u001a\",\"key_hex\":\"00ff1a\"}";
	char memory[512];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	struct sluice_limit limit;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("5/60s"), NULL), SLUICE_OK);
	sl_json_open(&out, NULL, '{');
	sl_json_put_u64(&out, "n", 7);
	sl_json_put_i64(&out, "i", -1);
	sl_json_put_ms(&out, "ms", 1000001);
	sl_json_put_ms(&out, "never", SLUICE_NEVER);
	sl_json_put_bool(&out, "yes", true);
	sl_json_put_null(&out, "none");
	sl_json_put_word(&out, "word", "full");
	sl_json_put_text(&out, "text", sl_str("a\"b"));
	sl_json_put_limit(&out, "limit", &limit);
	sl_json_put_limit(&out, "no", NULL);
	sl_json_open(&out, "list", '[');
	sl_json_open(&out, NULL, '{');
	sl_out_char(&out, '}');
	sl_json_open(&out, NULL, '{');
	sl_json_put_key(&out, sl_str("k"));
	sl_out_char(&out, '}');
	for (uint64_t i = 3; i < 5; i++) {
		sl_json_element(&out);
		sl_out_u64(&out, i);
	}
	sl_out_char(&out, ']');
	sl_json_open(&out, "empty", '[');
	sl_out_char(&out, ']');
	sl_json_put_key(&out, sl_slice("\x00\xff\x1a", 3));
	sl_out_char(&out, '}');
	assert_int_equal(sl_out_len(&out), strlen(want));
	assert_memory_equal(memory, want, strlen(want));
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *text, const char *error_has) {
	char error[SL_JSON_ERROR_BYTES];
	memset(error, 'x', sizeof error);
	json_t *root = sl_json_read(sl_str(text), error);
	assert_null(root);
	assert_true(strnlen(error, sizeof error) < sizeof error);
	if (strstr(error, error_has) == NULL)
		fail_msg("%s: want \"%s\" in \"%s\"", text, error_has, error);
}

static void test_depth_is_bounded_to_the_level(void **state) {
	char error[SL_JSON_ERROR_BYTES];
	json_t *root = sl_json_read(sl_str("{\"a\":[[[[[[[]]]]]]]}"), error); /* eight */
	(void)state;
	assert_non_null(root);
	sl_json_free(root);
	assert_refused("{\"a\":[[[[[[[[]]]]]]]]}", "nests more than 8 deep at byte 13");
	/* brackets side by side, or in strings, nest nothing */
	root = sl_json_read(sl_str("{\"a\":[[],[],[],[],[],[],[],[],[],[]],\"[[[[[[[[[\":\"\\\"{{{{{{{{{\"}"), error);
	assert_non_null(root);
	sl_json_free(root);
}

static void test_errors_say_where(void **state) {
	(void)state;
	assert_refused("", "empty");
	assert_refused("[1]", "must be a JSON object");
	assert_refused("{\"a\":1,}", "line 1, column");
	assert_refused("{\n\"a\":1,\n\"a\":2}", "line 3");
	assert_refused("{\"a\":\"\x01\"}", "line 1");
	assert_refused("{\"first\":1,\"second\":99999999999999999999}", "the number of 'second' is too large");
	assert_refused("{\"cost\":99999999999999999999}", "'cost' is too large: expected a whole number 0..4294967295");
	assert_refused("{\"ttl_ms\":1e309}", "'ttl_ms' is too large: expected a whole number 1..316224000000");
	assert_refused("{\"a\" : -99999999999999999999}", "the number of 'a' is too large");
	/* a number whose member is hard to tell is still refused as a number */
	assert_refused("{\"a\":[1,99999999999999999999]}", "is too large");
	assert_refused("{\"a\":\n99999999999999999999}", "is too large");
	assert_refused("{\"a\":1e999}", "is too large");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ascii_comes_back_as_it_was),
		cmocka_unit_test(test_utf8_is_kept_up_to_its_edges),
		cmocka_unit_test(test_what_is_not_utf8_becomes_fffd),
		cmocka_unit_test(test_random_bytes_are_always_json),
		cmocka_unit_test(test_control_characters_are_escaped),
		cmocka_unit_test(test_what_deceives_is_escaped),
		cmocka_unit_test(test_members_and_elements),
		cmocka_unit_test(test_depth_is_bounded_to_the_level),
		cmocka_unit_test(test_errors_say_where),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
