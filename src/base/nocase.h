/* Comparing names whose case does not matter, such as those of headers, eight bytes at a time. */
#ifndef SL_NOCASE_H
#define SL_NOCASE_H

#include "base/bytes.h"

/* A word with its capital letters made small; other bytes stay. A byte without its top bit reaches that bit when what
 * is missing to 0x80 from `A`, or from what follows `Z`, is added. */
static inline uint64_t sl_lower_word(uint64_t word) {
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t low = word & ~tops;
	uint64_t from_a = low + ones * (0x80 - 'A'), above_z = low + ones * (0x80 - 'Z' - 1);
	return word | ((from_a & ~above_z & ~word & tops) >> 2);
}

/* Is a text this one, which has no capital letters? */
static inline bool sl_is_lowered(struct sluice_bytes text, struct sluice_bytes lower) {
	const char *p = text.data, *want = lower.data;
	uint64_t a = 0, b = 0;
	size_t at = 0;
	if (text.len != lower.len)
		return false;
	for (; text.len - at >= 8; at += 8) {
		memcpy(&a, p + at, 8);
		memcpy(&b, want + at, 8);
		if (sl_lower_word(a) != b)
			return false;
	}
	if (text.len >= 8) { /* the last eight, some of them once more */
		memcpy(&a, p + text.len - 8, 8);
		memcpy(&b, want + text.len - 8, 8);
		return sl_lower_word(a) == b;
	}
	for (; at < text.len; at++) {
		a = a << 8 | (unsigned char)p[at];
		b = b << 8 | (unsigned char)want[at];
	}
	return sl_lower_word(a) == b;
}

#endif
