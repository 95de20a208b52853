/* Recognising a text that has been seen before, such as the notation of a limit that request after request brings
 * along: whoever keeps a table of texts and what they stand for finds the line here, and asks whether it is the one. */
#ifndef SL_RECALL_H
#define SL_RECALL_H

#include "base/bytes.h"

static inline uint64_t sl_recall_load8(const char *p) {
	uint64_t word;
	memcpy(&word, p, 8);
	return word;
}

/* All bytes of a text of less than 8, in a word: a call to memcpy() or memcmp() would cost more than the rest here. */
static inline uint64_t sl_recall_load_short(const char *p, size_t len) {
	uint32_t first, last;
	if (len < 4)
		return len == 0 ? 0 : (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[len / 2] << 8 | (uint8_t)p[len - 1];
	memcpy(&first, p, 4);
	memcpy(&last, p + len - 4, 4);
	return (uint64_t)first << 32 | last;
}

/* Whether `kept`, of kept_len bytes, is this text. */
static inline bool sl_recall_is(const char *kept, size_t kept_len, struct sluice_bytes text) {
	const char *p = text.data;
	if (kept_len != text.len)
		return false;
	if (text.len < 8)
		return sl_recall_load_short(p, text.len) == sl_recall_load_short(kept, text.len);
	for (size_t i = 0; i + 8 < text.len; i += 8)
		if (sl_recall_load8(p + i) != sl_recall_load8(kept + i))
			return false;
	return sl_recall_load8(p + text.len - 8) == sl_recall_load8(kept + text.len - 8);
}

/* Spreads texts over 64 bits, the upper ones best. Not secret: texts that collide in a table are parsed again, 100 ns,
 * and nothing else. */
static inline uint64_t sl_recall_hash(struct sluice_bytes text) {
	const char *p = text.data;
	size_t left = text.len;
	uint64_t hash = left;
	for (; left >= 8; left -= 8, p += 8) {
		hash = (hash ^ sl_recall_load8(p)) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 29;
	}
	return (hash ^ sl_recall_load_short(p, left)) * 0x9e3779b97f4a7c15;
}

#endif
