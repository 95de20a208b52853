/* Slices of borrowed bytes, and the helpers that every floor shares. */
#ifndef SL_BYTES_H
#define SL_BYTES_H

#include "sluice.h"

#include <string.h>

/* A slice of a C string literal or a NUL-ended string. */
static inline struct sluice_bytes sl_str(const char *text) {
	return (struct sluice_bytes){text, strlen(text)};
}

static inline struct sluice_bytes sl_slice(const void *data, size_t len) {
	return (struct sluice_bytes){data, len};
}

static inline bool sl_bytes_equal(struct sluice_bytes a, struct sluice_bytes b) {
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ASCII letters compare alike in either case; no locale. */
static inline bool sl_bytes_equal_nocase(struct sluice_bytes a, const char *b) {
	const unsigned char *p = a.data;
	size_t i = 0;
	for (; i < a.len && b[i] != '\0'; i++) {
		unsigned char x = p[i], y = (unsigned char)b[i];
		x = (unsigned char)(x >= 'A' && x <= 'Z' ? x + 32 : x);
		y = (unsigned char)(y >= 'A' && y <= 'Z' ? y + 32 : y);
		if (x != y)
			return false;
	}
	return i == a.len && b[i] == '\0';
}

/* Eight characters, the first in the lowest byte, as a number below 10^8; false where one of them is no digit. */
static inline bool sl_eight_to_u64(uint64_t text, uint64_t *value) {
	uint64_t high = text & UINT64_C(0xf0f0f0f0f0f0f0f0); /* 3 in each upper half, and still so six further on */
	uint64_t higher = (text + UINT64_C(0x0606060606060606)) & UINT64_C(0xf0f0f0f0f0f0f0f0);
	uint64_t digits = text & UINT64_C(0x0f0f0f0f0f0f0f0f);
	if ((high | higher >> 4) != UINT64_C(0x3333333333333333))
		return false;
	digits = (digits * 10 + (digits >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	digits = (digits * 100 + (digits >> 16)) & UINT64_C(0x0000ffff0000ffff);
	*value = (digits * 10000 + (digits >> 32)) & UINT64_C(0xffffffff);
	return true;
}

/* Reads a decimal number of at most 20 digits, digits only. Returns false on an empty, malformed or overflowing one. */
static inline bool sl_bytes_to_u64(struct sluice_bytes text, uint64_t *value) {
	const unsigned char *p = text.data;
	uint64_t n = 0;
	size_t i = 0;
	if (text.len == 0 || text.len > 20)
		return false;
	for (; text.len - i >= 8; i += 8) {
		uint64_t word, eight;
		memcpy(&word, p + i, 8);
		if (!sl_eight_to_u64(word, &eight))
			return false;
		n = n * 100000000 + eight;
	}
	for (; i < text.len; i++) {
		unsigned digit = (unsigned)p[i] - '0';
		if (digit > 9 || (i == 19 && n > (UINT64_MAX - digit) / 10)) /* 19 digits always fit */
			return false;
		n = n * 10 + digit;
	}
	*value = n;
	return true;
}

/* How many bytes a unit stands for: none is one, KiB, MiB, GiB, TiB; 0 for what is none of these. */
uint64_t sl_size_unit(struct sluice_bytes unit);

/* The last instant that callers and logs may name, Unix milliseconds: its nanoseconds fit 63 bits. In the year 2262. */
#define SL_AT_MS_MAX ((uint64_t)INT64_MAX / 1000000)
#define SL_AT_NS_MAX (SL_AT_MS_MAX * 1000000)

/* Waits at the doors: milliseconds, rounded up; SLUICE_NEVER becomes -1. */
static inline int64_t sl_ns_to_ms_ceil(sluice_ns ns) {
	return ns == SLUICE_NEVER ? -1 : (int64_t)(ns / 1000000 + (ns % 1000000 != 0));
}

/* The same in seconds. */
static inline int64_t sl_ns_to_s_ceil(sluice_ns ns) {
	return ns == SLUICE_NEVER ? -1 : (int64_t)(ns / 1000000000 + (ns % 1000000000 != 0));
}

#endif
