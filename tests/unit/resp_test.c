/* The RESP codec: what is a request, what is not yet one, and what never will be, in Redis's words.
 *
 * Every case is parsed whole and cut at every byte, each time from memory that ends where the bytes end, so that a read
 * past them is seen by the sanitizer. The expected words are those of a real Redis 7.0.15. */
#include "proto/resp.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BYTES(text) \
	{ (text), sizeof(text) - 1 }

static struct sl_resp_request request;

/* Parses bytes[0..len) from memory of just that size. */
static ptrdiff_t parse(const char *bytes, size_t len, char **memory) {
	*memory = malloc(len != 0 ? len : 1);
	assert_non_null(*memory);
	memcpy(*memory, bytes, len);
	return sl_resp_parse(&request, *memory, len);
}

static ptrdiff_t parse_and_forget(const char *bytes, size_t len) {
	char *memory;
	ptrdiff_t taken = parse(bytes, len, &memory);
	free(memory);
	return taken;
}

static const struct {
	struct sluice_bytes input;
	ptrdiff_t taken;
	const char *args; /* joined by | */
} whole[] = {
	{BYTES("*1\r\n$4\r\nPING\r\n"), 14, "PING"},
	{BYTES("*1\r\n$4\r\nPING\r\n*1\r\n"), 14, "PING"},
	{BYTES("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), 20, "ECHO|"},
	{BYTES("*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n"), 22, "ECHO|\r\n"},
	{BYTES("*1\r\n$4\r\nPINGxx"), 14, "PING"}, /* the two bytes behind a bulk are not looked at */
	{BYTES("*1\rX$4\rXPING\r\n"), 14, "PING"}, /* nor the one behind \r */
	{BYTES("*3\r\n$12\r\nSLUICE.CHECK\r\n$1\r\nk\r\n$1\r\n1\r\n"), 37, "SLUICE.CHECK|k|1"},
	{BYTES("*0\r\n"), 4, ""},
	{BYTES("*-1\r\n"), 5, ""},
	{BYTES("*-9223372036854775808\r\n"), 23, ""},
	{BYTES("\r\n"), 2, ""},
	{BYTES("\n"), 1, ""},
	{BYTES("  \t \r\n"), 6, ""},
	{BYTES("PING\r\n"), 6, "PING"},
	{BYTES("PING\n"), 5, "PING"},
	{BYTES("  PING  x \r\n"), 12, "PING|x"},
	{BYTES("SET 'a b' \"\\x41\\n\"\r\n"), 20, "SET|a b|A\n"},
	{BYTES("ECHO \"\\x4\\q\\\"\\\\\\r\\t\\a\\b\"\n"), 25, "ECHO|x4q\"\\\r\t\a\b"},
	{BYTES("ECHO 'it\\'s' 'a\\nb'\r\n"), 21, "ECHO|it's|a\\nb"},
	{BYTES("ECHO a\"b c\" ''\r\n"), 16, "ECHO|ab c|"},
};

static void check_args(const char *expected) {
	char joined[256];
	size_t len = 0;
	for (uint32_t i = 0; i < request.count; i++) {
		if (i != 0)
			joined[len++] = '|';
		memcpy(joined + len, request.args[i].data, request.args[i].len);
		len += request.args[i].len;
	}
	joined[len] = '\0';
	assert_string_equal(joined, expected);
}

static void test_whole_requests(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		char *memory;
		assert_int_equal(parse(whole[i].input.data, whole[i].input.len, &memory), whole[i].taken);
		check_args(whole[i].args);
		free(memory);
	}
}

static void test_every_prefix_waits_for_more(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		for (ptrdiff_t len = 0; len < whole[i].taken; len++) {
			assert_int_equal(parse_and_forget(whole[i].input.data, (size_t)len), 0);
			assert_in_range(request.need, (size_t)len + 1, (size_t)whole[i].taken);
		}
}

#define BAD(text, error) \
	{ BYTES(text), "Protocol error: " error }

static const struct {
	struct sluice_bytes input;
	const char *error;
} bad[] = {
	BAD("*abc\r\n", "invalid multibulk length"),
	BAD("*+1\r\n", "invalid multibulk length"),
	BAD("*2147483648\r\n", "invalid multibulk length"),
	BAD("*99999999999999999999\r\n", "invalid multibulk length"),
	BAD("*-9223372036854775809\r\n", "invalid multibulk length"),
	BAD("*\r\n", "invalid multibulk length"),
	BAD("*-\r\n", "invalid multibulk length"),
	BAD("*01\r\n", "invalid multibulk length"),
	BAD("*1 \r\n", "invalid multibulk length"),
	BAD("*1\0\r\n", "invalid multibulk length"),
	BAD("*1025\r\n", "invalid multibulk length, at most 1024 arguments"),
	BAD("*2147483647\r\n", "invalid multibulk length, at most 1024 arguments"),
	BAD("*1\r\n+PING\r\n", "expected '$', got '+'"),
	BAD("*1\r\n*1\r\n", "expected '$', got '*'"),
	BAD("*1\r\n\r\n", "expected '$', got ' '"),
	BAD("*1\r\n\x01\r\n", "expected '$', got '\\x01'"),
	BAD("*1\r\n$-1\r\n", "invalid bulk length"),
	BAD("*1\r\n$536870913\r\n", "invalid bulk length"),
	BAD("*1\r\n$18446744073709551617\r\n", "invalid bulk length"),
	BAD("*1\r\n$04\r\n", "invalid bulk length"),
	BAD("*1\r\n$\r\n", "invalid bulk length"),
	BAD("*1\r\n$x\r\n", "invalid bulk length"),
	BAD("*1\r\n$65537\r\n", "invalid bulk length, at most 65536 bytes"),
	BAD("*1\r\n$536870912\r\n", "invalid bulk length, at most 65536 bytes"),
	BAD("*2\r\n$4\r\nECHO\r\n$-1\r\n", "invalid bulk length"),
	BAD("PING \"unbalanced\r\n", "unbalanced quotes in request"),
	BAD("PING 'unbalanced\r\n", "unbalanced quotes in request"),
	BAD("PING \"a\"b\r\n", "unbalanced quotes in request"),
	BAD("PING 'a'b\r\n", "unbalanced quotes in request"),
	BAD("PING \"a\\\"\r\n", "unbalanced quotes in request"),
};

static void test_errors_at_the_last_byte_and_not_before(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		for (size_t len = 0; len < bad[i].input.len; len++) {
			assert_int_equal(parse_and_forget(bad[i].input.data, len), 0);
			assert_in_range(request.need, len + 1, bad[i].input.len); /* no later: the error would be waited for */
		}
		assert_int_equal(parse_and_forget(bad[i].input.data, bad[i].input.len), -1);
		assert_string_equal(request.error, bad[i].error);
	}
}

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

static char *repeat(const char *head, const char *unit, size_t count, const char *tail, size_t *len) {
	size_t unit_len = strlen(unit), head_len = strlen(head), tail_len = strlen(tail);
	char *text = malloc(head_len + count * unit_len + tail_len + 1);
	assert_non_null(text);
	memcpy(text, head, head_len);
	for (size_t i = 0; i < count; i++)
		memcpy(text + head_len + i * unit_len, unit, unit_len);
	memcpy(text + head_len + count * unit_len, tail, tail_len);
	*len = head_len + count * unit_len + tail_len;
	return text;
}

static void check_bound(const char *head, const char *unit, size_t count, const char *tail, ptrdiff_t expected,
                        const char *error) {
	size_t len;
	char *text = repeat(head, unit, count, tail, &len);
	ptrdiff_t taken = sl_resp_parse(&request, text, len);
	assert_int_equal(taken, expected == 1 ? (ptrdiff_t)len : expected);
	if (expected == -1)
		assert_string_equal(request.error, error);
	free(text);
}

static void test_bounds_are_met_exactly(void **state) {
	(void)state;
	check_bound("*1024\r\n", "$1\r\na\r\n", 1024, "", 1, NULL);
	assert_int_equal(request.count, 1024);
	check_bound("*1\r\n$65536\r\n", "x", 65536, "\r\n", 1, NULL);
	check_bound("", "x", 65535, "\n", 1, NULL);
	check_bound("", "x", 65536, "", 0, NULL);
	check_bound("", "x", 65536, "\n", -1, "Protocol error: too big inline request");
	check_bound("", "x", 65537, "", -1, "Protocol error: too big inline request");
	check_bound("", "a ", 1024, "\n", 1, NULL);
	check_bound("", "a ", 1025, "\n", -1, "Protocol error: too big inline request, at most 1024 arguments");
	check_bound("*", "1", 65535, "", 0, NULL);
	check_bound("*", "1", 65536, "", -1, "Protocol error: too big mbulk count string");
	check_bound("*1\r\n$", "1", 65535, "", 0, NULL);
	check_bound("*1\r\n$", "1", 65536, "", -1, "Protocol error: too big bulk count string");
}

static void test_a_request_is_bounded_as_a_whole(void **state) {
	(void)state;
	enum { BULK = 60000 };
	size_t len;
	char *bulk = repeat("$60000\r\n", "x", BULK, "\r\n", &len);
	bulk[len] = '\0';
	/* 4 fit, the 5th does not: noticed when its length is known, not after its bytes are here. */
	check_bound("*4\r\n", bulk, 4, "", 1, NULL);
	check_bound("*5\r\n", bulk, 4, "$60000\r\n", -1, "Protocol error: too big request, at most 262144 bytes");
	check_bound("*5\r\n", bulk, 5, "", -1, "Protocol error: too big request, at most 262144 bytes");
	free(bulk);
}

static void test_need_jumps_over_a_bulk(void **state) {
	(void)state;
	assert_int_equal(parse_and_forget("*2\r\n$4\r\nECHO\r\n$50000\r\nabc", 25), 0);
	assert_int_equal(request.need, 22 + 50000 + 2);
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static void check_number(int64_t value) {
	char at[SL_RESP_NUMBER_BYTES_MAX + 1], expected[40];
	int64_t back;
	size_t len = (size_t)(sl_resp_put_number(at, ':', value) - at);
	int expected_len = snprintf(expected, sizeof expected, ":%" PRId64 "\r\n", value);
	assert_int_equal(len, expected_len);
	assert_memory_equal(at, expected, len);
	assert_true(sl_resp_to_i64(sl_slice(at + 1, len - 3), &back));
	assert_true(back == value);
}

static void test_numbers_both_ways(void **state) {
	(void)state;
	struct dice dice = dice_of(dice_seed(), 1);
	for (int64_t value = -1001; value <= 100001; value++)
		check_number(value);
	for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10)
		for (uint64_t near = power - 1; near != power + 2; near++) {
			check_number((int64_t)near);
			check_number((int64_t)(0 - near));
		}
	check_number(INT64_MAX);
	check_number(INT64_MIN);
	for (int i = 0; i < 200000; i++)
		check_number((int64_t)(dice_bits(&dice) >> dice_below(&dice, 64)));
}

static void test_what_is_no_number(void **state) {
	(void)state;
	static const char *const texts[] = {"",
	                                    "-",
	                                    "+1",
	                                    " 1",
	                                    "1 ",
	                                    "01",
	                                    "-0",
	                                    "-01",
	                                    "1.0",
	                                    "0x1",
	                                    "1e3",
	                                    "9223372036854775808",
	                                    "-9223372036854775809",
	                                    "99999999999999999999",
	                                    "184467440737095516160"};
	int64_t value = 77;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_false(sl_resp_to_i64(sl_str(texts[i]), &value));
	assert_int_equal(value, 77);
}

/* ---- anything --------------------------------------------------------------------------------------------------- */

/* Random bytes from the letters of the protocol: whatever they are, a longer prefix never takes an answer back. */
static void test_answers_do_not_depend_on_cuts(void **state) {
	(void)state;
	static const char letters[] = "*$:-0012345\r\n\r\n\r\nPx\"'\\ ";
	struct dice dice = dice_of(dice_seed(), 2);
	char bytes[48];
	for (int round = 0; round < 30000; round++) {
		size_t len = 1 + dice_below(&dice, sizeof bytes - 1), at = 0;
		for (size_t i = 0; i < len; i++)
			bytes[i] = letters[dice_below(&dice, sizeof letters - 1)];
		if (dice_below(&dice, 2) != 0)
			memcpy(bytes, "*1\r\n$", len < 5 ? len : 5);
		ptrdiff_t full = parse_and_forget(bytes, len);
		for (at = 0; at < len; at++) {
			ptrdiff_t part = parse_and_forget(bytes, at);
			if (part != 0) {
				assert_int_equal(part, full);
				break;
			}
			assert_true(request.need > at);
			assert_true(full == 0 || full == -1 || request.need <= (size_t)full);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_requests),
		cmocka_unit_test(test_every_prefix_waits_for_more),
		cmocka_unit_test(test_errors_at_the_last_byte_and_not_before),
		cmocka_unit_test(test_bounds_are_met_exactly),
		cmocka_unit_test(test_a_request_is_bounded_as_a_whole),
		cmocka_unit_test(test_need_jumps_over_a_bulk),
		cmocka_unit_test(test_numbers_both_ways),
		cmocka_unit_test(test_what_is_no_number),
		cmocka_unit_test(test_answers_do_not_depend_on_cuts),
	};
	return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
