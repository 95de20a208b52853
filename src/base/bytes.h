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

/* Reads a decimal number of at most 20 digits, digits only. Returns false on an empty, malformed or overflowing one. */
static inline bool sl_bytes_to_u64(struct sluice_bytes text, uint64_t *value) {
	const unsigned char *p = text.data;
	uint64_t n = 0;
	if (text.len == 0 || text.len > 20)
		return false;
	for (size_t i = 0; i < text.len; i++) {
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
