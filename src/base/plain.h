/* Text that may stand between double quotes as it is, in JSON and in a String of RFC 9651 alike: printable ASCII but
 * `"` and `\`. Nearly all keys and names are such, so whoever writes or reads them looks at eight bytes at a time. */
#ifndef SL_PLAIN_H
#define SL_PLAIN_H

#include "base/bytes.h"

static inline bool sl_is_plain(unsigned char c) {
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* The top bit of each byte of a word that is not plain; bytes after the first such may have it set as well. A byte
 * below 0x20, and one that equals what it is compared to, borrows when it is subtracted from; 0x7f carries. */
static inline uint64_t sl_plain_misfits(uint64_t word) {
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t quote = word ^ ones * '"', escape = word ^ ones * '\\';
	uint64_t low = word - ones * 0x20, high = (word & ~tops) + ones;
	return (((quote - ones) & ~quote) | ((escape - ones) & ~escape) | (low & ~word) | high | word) & tops;
}

/* How many bytes of a text are plain before the first that is not. About an instruction a byte. */
static inline size_t sl_plain_len(const void *text, size_t len) {
	const char *p = text;
	size_t at = 0;
	for (; len - at >= 8; at += 8) {
		uint64_t word;
		memcpy(&word, p + at, 8);
		uint64_t misfits = sl_plain_misfits(word);
		if (misfits != 0)
			return at + (size_t)__builtin_ctzll(misfits) / 8;
	}
	while (at < len && sl_is_plain((unsigned char)p[at]))
		at++;
	return at;
}

#endif
