/* 128-bit quotients against the compiler's own, and the saturation that no caller may forget. */
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
		uint64_t d = dice() | 1;
		sl_u128 n = (sl_u128)dice() << 64 | dice();
		sl_u128 quotient = n / d, up = n / d + (n % d != 0);
		assert_true(sl_div(n, d) == (quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient));
		if (n >> 96 == 0)
			assert_true(sl_div_ceil(n, d) == (up > UINT64_MAX ? UINT64_MAX : (uint64_t)up));
	}
}

static void waits_saturate_below_never(void **state) {
	(void)state;
	assert_int_equal(sl_wait(UINT64_MAX, 1000000, 0), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(UINT64_MAX, 1, 0), SLUICE_NEVER - 1);
	assert_int_equal(sl_wait(3, 1000, 999), 2001);
	assert_int_equal(sl_wait(3, 1000, 3000), 0);
	assert_int_equal(sl_wait(3, 1000, 3001), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quotients_are_the_compilers),
		cmocka_unit_test(waits_saturate_below_never),
	};
	return cmocka_run_group_tests_name("math", tests, NULL, NULL);
}
