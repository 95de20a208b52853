/* Exact integer arithmetic for deciding: 64 x 64 -> 128-bit products and their quotients.
 *
 * Written out because the compiler turns a 128-bit division into a call of its runtime library (__udivti3), which the
 * core may not depend on, and because every quotient here is known to fit 64 bits, or is to saturate: one `divq`.
 *
 * I1  No floats: a decision compares products, and divides only to report.
 * I2  A quotient that would not fit is UINT64_MAX, never a wrapped one. */
#ifndef SL_MATH_H
#define SL_MATH_H

#include "sluice.h"

__extension__ typedef unsigned __int128 sl_u128;

static inline sl_u128 sl_mul(uint64_t a, uint64_t b) {
	return (sl_u128)a * b;
}

/* a + b, no later than there is time: one below SLUICE_NEVER. */
static inline sluice_ns sl_ns_plus(sluice_ns a, sluice_ns b) {
	return a < SLUICE_NEVER - 1 && b < SLUICE_NEVER - 1 - a ? a + b : SLUICE_NEVER - 1;
}

/* floor(n / d) of n = high, low for high < d: schoolbook, for machines whose division is not known here. The remainder
 * stays below d, so one bit a step; `carry` is its 65th bit. About 64 times the cost of a division. */
static inline uint64_t sl_div_bit_by_bit(uint64_t high, uint64_t low, uint64_t d) {
	uint64_t quotient = 0;
	for (int bit = 63; bit >= 0; bit--) {
		uint64_t carry = high >> 63;
		high = high << 1 | (low >> bit & 1);
		quotient <<= 1;
		if (carry != 0 || high >= d) {
			high -= d;
			quotient |= 1;
		}
	}
	return quotient;
}

/* floor(n / d) for d > 0 and n of more than 64 bits, saturating at UINT64_MAX. */
static inline uint64_t sl_div_wide(sl_u128 n, uint64_t d) {
	uint64_t high = (uint64_t)(n >> 64), low = (uint64_t)n;
	if (high >= d)
		return UINT64_MAX;
#if defined(__x86_64__)
	uint64_t quotient, remainder;
	__asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(low), "d"(high), "r"(d) : "cc");
	return quotient;
#else
	return sl_div_bit_by_bit(high, low, d);
#endif
}

/* floor(n / d) for d > 0, saturating at UINT64_MAX. */
static inline uint64_t sl_div(sl_u128 n, uint64_t d) {
	return n >> 64 == 0 ? (uint64_t)n / d : sl_div_wide(n, d);
}

/* ceil(n / d) for d > 0, saturating. n + d - 1 must fit 128 bits, as all products of the algorithms do (< 2^95). */
static inline uint64_t sl_div_ceil(sl_u128 n, uint64_t d) {
	uint64_t low = (uint64_t)n;
	if (n >> 64 == 0)
		return low / d + (low % d != 0);
	return sl_div_wide(n + (d - 1), d);
}

/* A wait of `count` ticks, less what has passed of the present one; saturates just below SLUICE_NEVER. */
static inline sluice_ns sl_wait(uint64_t count, uint64_t tick_ns, sluice_ns passed_ns) {
	sl_u128 wait = sl_mul(count, tick_ns);
	sluice_ns ns = (sluice_ns)wait;
	if (__builtin_expect(wait >> 64 != 0, 0))
		return wait - passed_ns >= SLUICE_NEVER ? SLUICE_NEVER - 1 : (sluice_ns)(wait - passed_ns);
	ns = ns > passed_ns ? ns - passed_ns : 0;
	return ns - (ns == SLUICE_NEVER);
}

static inline uint64_t sl_min(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

static inline uint64_t sl_max(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

#endif
