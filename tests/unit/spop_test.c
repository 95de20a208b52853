/* The codec of SPOP: numbers and values as SPOE.txt has them, by bytes that are written out by hand; frames cut at
 * every byte; what is malformed. */
#include "proto/spop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* SPOE.txt, 3.1: the bounds of each length, and the largest number. */
static void test_numbers(void **state) {
	static const struct {
		uint64_t number;
		const char *bytes;
		size_t len;
	} rows[] = {
		{0, "\x00", 1},
		{239, "\xef", 1},
		{240, "\xf0\x00", 2},
		{255, "\xff\x00", 2},
		{256, "\xf0\x01", 2},
		{2287, "\xff\x7f", 2},
		{2288, "\xf0\x80\x00", 3},
		{264431, "\xff\xff\x7f", 3},
		{264432, "\xf0\x80\x80\x00", 4},
		{33818863, "\xff\xff\xff\x7f", 4},
		{33818864, "\xf0\x80\x80\x80\x00", 5},
		{UINT32_MAX, "\xff\xf0\xfe\xfe\x7e", 5},
		{UINT64_MAX, "\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e", 10},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char bytes[64];
		struct sl_out out = sl_out_to(bytes, sizeof bytes);
		struct sl_spop_value value;
		sl_spop_set_number(&out, "", (int64_t)rows[i].number);
		/* action, count, scope, an empty name, the type */
		assert_int_equal(sl_out_len(&out), 5 + rows[i].len);
		assert_memory_equal(bytes + 5, rows[i].bytes, rows[i].len);
		bytes[4] = SL_SPOP_UINT64;
		for (size_t cut = 1; cut <= rows[i].len; cut++) {
			struct sluice_bytes rest = sl_slice(bytes + 4, cut);
			assert_false(sl_spop_take_value(&rest, &value));
		}
		struct sluice_bytes rest = sl_slice(bytes + 4, 1 + rows[i].len);
		assert_true(sl_spop_take_value(&rest, &value));
		assert_true(value.number == rows[i].number && rest.len == 0);
	}
}

static void test_values_as_text(void **state) {
	static const struct {
		const char *bytes;
		size_t len;
		const char *text; /* NULL: none */
	} rows[] = {
		{"\x00", 1, NULL},
		{"\x01", 1, "false"},
		{"\x11", 1, "true"},
		{"\x02\x07", 2, "7"},
		{"\x03\xff\xf0\xfe\xfe\x7e", 6, "4294967295"},
		{"\x04\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e", 11, "-1"},
		{"\x05\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e", 11, "18446744073709551615"},
		{"\x06\xc0\x00\x02\x01", 5, "192.0.2.1"},
		{"\x07\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01", 17, "2001:db8::1"},
		{"\x08\x03"
	     "abc",
	     5, "abc"},
		{"\x08\x00", 2, ""},
		{"\x09\x02\r\n", 4, "\r\n"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *copy = malloc(rows[i].len), memory[SL_SPOP_TEXT_MAX];
		struct sl_spop_value value;
		memcpy(copy, rows[i].bytes, rows[i].len);
		for (size_t cut = 0; cut < rows[i].len; cut++) {
			struct sluice_bytes rest = sl_slice(copy, cut);
			assert_false(sl_spop_take_value(&rest, &value));
		}
		struct sluice_bytes rest = sl_slice(copy, rows[i].len);
		assert_true(sl_spop_take_value(&rest, &value));
		struct sluice_bytes text = sl_spop_text(&value, memory);
		if (rows[i].text == NULL)
			assert_null(text.data);
		else
			assert_true(text.data != NULL && sl_bytes_equal(text, sl_str(rows[i].text)));
		free(copy);
	}
}

static void test_malformed_values(void **state) {
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{"\x0a", 1}, /* a type that is none */
		{"\x08\x05"
	     "abc",
	     5},                                                      /* longer than what is there */
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10},         /* much longer */
		{"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12}, /* more than 64 bits */
		{"\x05\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0f", 11},     /* 2^64 */
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_bytes rest = sl_slice(rows[i].bytes, rows[i].len);
		struct sl_spop_value value;
		assert_false(sl_spop_take_value(&rest, &value));
	}
}

static void test_frames(void **state) {
	static const char bytes[] = "\0\0\0\x0a\x03\0\0\0\x01\xf0\x00\x07hi!and more";
	const size_t whole = 14;
	struct sl_spop_frame frame;
	(void)state;
	for (size_t len = 0; len < sizeof bytes; len++)
		assert_int_equal(sl_spop_frame_read(&frame, bytes, len, 1024), len < whole ? 0 : (ptrdiff_t)whole);
	assert_int_equal(frame.type, SL_SPOP_NOTIFY);
	assert_int_equal(frame.flags, SL_SPOP_FIN);
	assert_int_equal(frame.stream, 240);
	assert_int_equal(frame.frame, 7);
	assert_int_equal(frame.payload.len, 2); /* by its length: "!" is of the next one */
	assert_int_equal(sl_spop_frame_read(&frame, bytes, sizeof bytes, 10), (ptrdiff_t)whole);
	assert_int_equal(sl_spop_frame_read(&frame, bytes, 4, 9), -SL_SPOP_TOO_BIG); /* known before it is there */
	assert_int_equal(sl_spop_frame_read(&frame, "\0\0\0\x06\x03\0\0\0\x01\x07", 10, 1024), -SL_SPOP_INVALID);
	assert_int_equal(sl_spop_frame_read(&frame, "\0\0\0\0", 4, 1024), -SL_SPOP_INVALID);
}

/* What is written is what is read. */
static void test_written(void **state) {
	static const char expect[] = "\0\0\0\x1b\x67\0\0\0\x01\x05\x01"
								 "\x01\x03\x02\x06"
								 "denied\x11"
								 "\x01\x03\x02\x01"
								 "x\x08\x02"
								 "ab";
	char bytes[64];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	(void)state;
	char *start = sl_spop_begin(&out, SL_SPOP_ACK, 5, 1);
	sl_spop_set_bool(&out, "denied", true);
	sl_spop_set_text(&out, "x", sl_str("ab"));
	sl_spop_end(&out, start);
	assert_int_equal(sl_out_len(&out), sizeof expect - 1);
	assert_memory_equal(bytes, expect, sizeof expect - 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_values_as_text), cmocka_unit_test(test_malformed_values),
		cmocka_unit_test(test_frames),  cmocka_unit_test(test_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
