/* Keys as text, encoded: see key.h. */
#include "policy/key.h"

static bool is_separator(char c) {
	return c == '%' || c == ',' || c == '=';
}

/* Has a word of eight bytes one that equals `c`? The subtraction borrows into the top bit of the lowest such byte. */
static bool word_has(uint64_t word, char c) {
	const uint64_t ones = UINT64_MAX / 255;
	uint64_t zeros = word ^ ones * (unsigned char)c;
	return ((zeros - ones) & ~zeros & ones << 7) != 0;
}

/* Copies a word that needs no encoding. False: it does. */
static inline bool copy_word(char *to, const char *from) {
	uint64_t word;
	memcpy(&word, from, 8);
	memcpy(to, &word, 8);
	return !word_has(word, '%') && !word_has(word, ',') && !word_has(word, '=');
}

/* Copies what needs no encoding, eight bytes at a time, the last ones together with some before them; both ends have
 * room for them. Returns how many. */
static size_t copy_words(char *to, const char *from, size_t len) {
	size_t at = 0;
	for (; len - at >= 8; at += 8)
		if (!copy_word(to + at, from + at))
			return at;
	return at != 0 && at != len && copy_word(to + len - 8, from + len - 8) ? len : at;
}

void sl_key_encode(struct sl_out *out, struct sluice_bytes text) {
	const char *p = text.data;
	if ((size_t)(out->end - out->at) < 3 * text.len) { /* seldom, near the end: measure what it really needs */
		size_t need = text.len;
		for (size_t i = 0; i < text.len; i++)
			need += is_separator(p[i]) ? 2 : 0;
		if ((size_t)(out->end - out->at) < need) {
			out->overflow = true;
			return;
		}
	}
	size_t at = copy_words(out->at, p, text.len);
	out->at += at;
	for (; at < text.len; at++) {
		if (!is_separator(p[at])) {
			*out->at++ = p[at];
			continue;
		}
		memcpy(out->at, p[at] == '%' ? "%25" : p[at] == ',' ? "%2C" : "%3D", 3);
		out->at += 3;
	}
}

/* Apart, so that short values need no memory for it. */
static __attribute__((noinline)) void add_long(struct sl_out *out, struct sluice_bytes value) {
	char folded[SLUICE_KEY_BYTES_MAX];
	sl_key_encode(out, sl_key_fold(folded, value));
}

void sl_key_add(struct sl_out *out, struct sluice_bytes value) {
	if (value.len <= SLUICE_KEY_BYTES_MAX)
		sl_key_encode(out, value);
	else
		add_long(out, value);
}
