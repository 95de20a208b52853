/* Whole numbers to decimal digits, eight at a time.
 *
 * A word holds two numbers of four digits, then four of two, then eight of one: each step divides all of its parts at
 * once, by a multiplication and a shift that are exact for numbers so small. Leading zeros are shifted out of the word.
 *
 *   1234567 -> 0123 | 4567 -> 01 | 23 | 45 | 67 -> 0 1 2 3 4 5 6 7 -> "1234567"
 *
 * About 25 instructions for any number below 10^8; digit by digit it is 10 a digit. */
#ifndef SL_DIGITS_H
#define SL_DIGITS_H

#include "base/assert.h"
#include "base/bytes.h"

enum { SL_DIGITS_MAX = 20 }; /* of an uint64_t */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is the lowest byte of the word");

/* The eight digits of n < 10^8, 0..9 each, the first in the lowest byte. */
static inline uint64_t sl_eight_digits(uint32_t n) {
	uint64_t fours = n / 10000 | (uint64_t)(n % 10000) << 32;
	uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
	uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
	uint64_t tens = (twos * 103 >> 10) & UINT64_C(0x000f000f000f000f);
	SL_DEBUG_ASSERT(n < 100000000);
	return tens | (twos - tens * 10) << 8;
}

/* n < 10^8 without leading zeros; returns the end. Eight bytes are touched. */
static inline char *sl_put_small(char *at, uint32_t n) {
	uint64_t digits = sl_eight_digits(n);
	unsigned zeros = (unsigned)__builtin_ctzll(digits | (uint64_t)1 << 56) / 8;
	digits = (digits | UINT64_C(0x3030303030303030)) >> 8 * zeros;
	memcpy(at, &digits, 8);
	return at + 8 - zeros;
}

/* n < 10^8 with them. */
static inline char *sl_put_eight(char *at, uint32_t n) {
	uint64_t digits = sl_eight_digits(n) | UINT64_C(0x3030303030303030);
	memcpy(at, &digits, 8);
	return at + 8;
}

/* The rest of sl_put_unsigned(). */
char *sl_put_large(char *at, uint64_t n);

/* Any number without leading zeros; returns the end. SL_DIGITS_MAX bytes may be touched. */
static inline char *sl_put_unsigned(char *at, uint64_t n) {
	return n < 100000000 ? sl_put_small(at, (uint32_t)n) : sl_put_large(at, n);
}

#endif
