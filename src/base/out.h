/* A bounded output writer: appends to memory that the caller owns, never past its end, and remembers that it had to
 * stop, so that one test at the end replaces one a field. */
#ifndef SL_OUT_H
#define SL_OUT_H

#include "base/bytes.h"

struct sl_out {
	char *at, *end; /* the next byte to write, and one past the last that may be written */
	char *start;
	bool overflow; /* something did not fit; what is written so far is whole fields up to there */
};

static inline struct sl_out sl_out_to(void *memory, size_t bytes) {
	char *p = memory;
	return (struct sl_out){.at = p, .end = p + bytes, .start = p, .overflow = false};
}

static inline size_t sl_out_len(const struct sl_out *out) {
	return (size_t)(out->at - out->start);
}

/* Appends bytes, all or none. */
static inline void sl_out_bytes(struct sl_out *out, const void *data, size_t len) {
	if ((size_t)(out->end - out->at) < len) {
		out->overflow = true;
		return;
	}
	if (len != 0)
		memcpy(out->at, data, len);
	out->at += len;
}

static inline void sl_out_str(struct sl_out *out, const char *text) {
	sl_out_bytes(out, text, strlen(text));
}

static inline void sl_out_char(struct sl_out *out, char c) {
	sl_out_bytes(out, &c, 1);
}

/* Writes the last `digits` hex digits of a number, 1..16, and returns their end. */
static inline char *sl_hex(char *to, uint64_t number, int digits) {
	while (digits-- > 0)
		*to++ = "0123456789abcdef"[number >> 4 * digits & 15];
	return to;
}

/* The same of a whole number, NUL-ended. */
static inline void sl_hex_text(char text[17], uint64_t number) {
	*sl_hex(text, number, 16) = '\0';
}

/* Decimal digits, no padding. */
void sl_out_u64(struct sl_out *out, uint64_t value);
void sl_out_i64(struct sl_out *out, int64_t value);

/* Bytes, two hex digits each. */
void sl_out_hex(struct sl_out *out, const void *bytes, size_t count);

/* Bytes in base64 (RFC 4648): by its section 4, with padding; or for URLs, by its section 5, without. */
void sl_out_base64(struct sl_out *out, struct sluice_bytes bytes, bool for_url);

/* A byte that can't be shown, as \xNN. */
void sl_out_escaped(struct sl_out *out, unsigned char byte);

/* Text for a message: printable ASCII as it is, everything else as \xNN, at most `max` bytes of it, then "...". */
void sl_out_quoted(struct sl_out *out, struct sluice_bytes text, size_t max);

#endif
