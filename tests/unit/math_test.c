/* 128-bit quotients against the compiler's own, and the saturation that no caller may forget. */
#include "base/bytes.h"
#include "base/math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t dice_state = 0x9e3779b97f4a7c15;

static uint64_t dice(void) {
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return dice_state >> (dice_state % 64);
}

static void quotients_are_the_compilers(void **state) {
	(void)state;
	printf("seed %llu\n", (unsigned long long)dice_state);
	for (int i = 0; i < 1000000; i++) {
		uint64_t d = dice(); /* even and odd */
		d += d == 0;
		sl_u128 n = (sl_u128)dice() << 64 | dice();
		sl_u128 quotient = n / d, up = n / d + (n % d != 0);
		assert_true(sl_div(n, d) == (quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient));
		if (n >> 96 == 0)
			assert_true(sl_div_ceil(n, d) == (up > UINT64_MAX ? UINT64_MAX : (uint64_t)up));
	}
}

/* The way of other machines, on this one: for every n below d * 2^64. */
static void schoolbook_is_the_compilers(void **state) {
	static const struct {
		uint64_t high, low, d;
	} rows[] = {
		{0, 0, 1},
		{0, UINT64_MAX, 1},
		{0, UINT64_MAX, 2},
		{1, 0, 2},
		{1, UINT64_MAX, 2},
		{1, 0, UINT64_MAX},
		{UINT64_MAX - 1, UINT64_MAX, UINT64_MAX}, /* the 65th bit at every step */
		{UINT64_MAX - 2, UINT64_MAX, UINT64_MAX - 1},
		{INT64_MAX, UINT64_MAX, UINT64_C(1) << 63},
		{(UINT64_C(1) << 63) - 1, 0, (UINT64_C(1) << 63) + 1},
		{UINT64_C(1) << 63, 0, (UINT64_C(1) << 63) + 1},
		{4, UINT64_MAX, 5},
		{999999, 999999, 1000000},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		sl_u128 n = (sl_u128)rows[i].high << 64 | rows[i].low;
		assert_int_equal(sl_div_bit_by_bit(rows[i].high, rows[i].low, rows[i].d), (uint64_t)(n / rows[i].d));
		assert_int_equal(sl_div(n, rows[i].d), (uint64_t)(n / rows[i].d));
	}
	for (int i = 0; i < 200000; i++) {
		uint64_t d = dice(), low = dice(), high;
		d += d == 0;
		high = dice() % d;
		assert_int_equal(sl_div_bit_by_bit(high, low, d), (uint64_t)(((sl_u128)high << 64 | low) / d));
	}
}

static void waits_saturate_below_never(void **state) {
	(void)state;
	assert_int_equal(sl_wait(UINT64_MAX, 1000000, 0), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(UINT64_MAX, 1, 0), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(3, 1000, 999), 2001);
	assert_int_equal(sl_wait(3, 1000, 3000), 0);
	assert_int_equal(sl_wait(3, 1000, 3001), 0);
	assert_int_equal(sl_wait(UINT64_MAX, 1, 1), SLUICE_NEVER - 1);
	/* of more than 64 bits, and of 64 once what has passed is taken off */
	assert_int_equal(sl_wait(UINT64_C(1) << 32, UINT64_C(1) << 32, 1), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(UINT64_C(1) << 32, UINT64_C(1) << 32, 2), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(UINT64_C(1) << 32, UINT64_C(1) << 32, 10), UINT64_MAX - 9);
}

static void sums_end_below_never(void **state) {
	static const struct {
		sluice_ns a, b, sum;
	} rows[] = {
		{0, 0, 0},
		{3, 4, 7},
		{SLUICE_NEVER - 3, 1, SLUICE_NEVER - 2},
		{SLUICE_NEVER - 3, 2, SLUICE_NEVER - 1},
		{SLUICE_NEVER - 3, 3, SLUICE_NEVER - 1},
		{SLUICE_NEVER - 2, SLUICE_NEVER - 2, SLUICE_NEVER - 1},
		{SLUICE_NEVER - 1, 0, SLUICE_NEVER - 1},
		{SLUICE_NEVER, 0, SLUICE_NEVER - 1},
		{SLUICE_NEVER, SLUICE_NEVER, SLUICE_NEVER - 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(sl_ns_plus(rows[i].a, rows[i].b), rows[i].sum);
		assert_int_equal(sl_ns_plus(rows[i].b, rows[i].a), rows[i].sum);
	}
}

static void quotients_saturate(void **state) {
	static const struct {
		uint64_t high, low, d, down, up;
	} rows[] = {
		{0, 7, 2, 3, 4},
		{0, 8, 2, 4, 4},
		{0, UINT64_MAX, 1, UINT64_MAX, UINT64_MAX},
		{1, 0, 1, UINT64_MAX, UINT64_MAX},
		{1, 0, 2, UINT64_C(1) << 63, UINT64_C(1) << 63},
		{1, 1, 2, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1},
		{4, UINT64_MAX, 5, UINT64_MAX, UINT64_MAX}, /* the largest that fits */
		{5, 0, 5, UINT64_MAX, UINT64_MAX},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		sl_u128 n = (sl_u128)rows[i].high << 64 | rows[i].low;
		assert_int_equal(sl_div(n, rows[i].d), rows[i].down);
		assert_int_equal(sl_div_ceil(n, rows[i].d), rows[i].up);
	}
	assert_true(sl_min(3, 4) == 3 && sl_min(4, 3) == 3 && sl_max(3, 4) == 4 && sl_max(4, 3) == 4);
}

/* Of 20 digits some fit 64 bits. */
static void test_decimal_numbers(void **state) {
	static const struct {
		const char *text;
		bool fits;
		uint64_t value;
	} rows[] = {
		{"0", true, 0},
		{"007", true, 7},
		{"9999999999999999999", true, UINT64_C(9999999999999999999)},
		{"18446744073709551615", true, UINT64_MAX},
		{"18446744073709551616", false, 0},
		{"18446744073709551620", false, 0},
		{"99999999999999999999", false, 0},
		{"00000000000000000009", true, 9},
		{"000000000000000000009", false, 0},
		{"", false, 0},
		{"1 ", false, 0},
		{"-1", false, 0},
		{"1234567890123456789:", false, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t value = 0;
		assert_int_equal(sl_bytes_to_u64(sl_str(rows[i].text), &value), rows[i].fits);
		assert_int_equal(value, rows[i].value);
	}
}

/* Any byte in any of the eight places, beside digits whose sums could carry into it. */
static void eight_digits_or_none(void **state) {
	static const char *const around[] = {"00000000", "99999999", "12345678"};
	(void)state;
	for (size_t a = 0; a < sizeof around / sizeof *around; a++)
		for (int place = 0; place < 8; place++)
			for (int byte = 0; byte < 256; byte++) {
				char text[9];
				uint64_t word, value = 0;
				memcpy(text, around[a], sizeof text);
				text[place] = (char)byte;
				memcpy(&word, text, 8);
				bool fine = byte >= '0' && byte <= '9';
				assert_int_equal(sl_eight_to_u64(word, &value), fine);
				assert_int_equal(value, fine ? strtoul(text, NULL, 10) : 0);
			}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_digits_or_none),
		cmocka_unit_test(test_decimal_numbers),       cmocka_unit_test(quotients_are_the_compilers),
		cmocka_unit_test(waits_saturate_below_never), cmocka_unit_test(sums_end_below_never),
		cmocka_unit_test(quotients_saturate),         cmocka_unit_test(schoolbook_is_the_compilers),
	};
	return cmocka_run_group_tests_name("math", tests, NULL, NULL);
}
