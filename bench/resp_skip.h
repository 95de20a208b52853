/* Skipping RESP2 replies: how long is the one at the front, and what does it begin with?
 *
 * A load generator must not be what it measures, so replies are stepped over, not parsed: an array adds its elements to
 * the count of things still to come, so nesting costs nothing and needs no stack. Of the contents two things are kept:
 * whether the reply is an error, and its leading integer (its own value, or that of an array's first element), which
 * says "allowed" in every dialect that is compared here.
 */
#ifndef SL_RESP_SKIP_H
#define SL_RESP_SKIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct resp_reply {
	size_t len;      /* of the whole reply, in bytes */
	int64_t leading; /* its leading integer; -1 where there is none */
	bool error;      /* the reply itself, or an element of it, is an error */
};

enum resp_verdict {
	RESP_WHOLE = 0, /* a whole reply is there */
	RESP_MORE = 1,  /* it goes on behind the end */
	RESP_BAD = 2,   /* these bytes are not RESP2 */
};

/* Reads the number between a type byte and CR LF; the line is known to end in LF. False when it is no number. */
static inline bool resp_number(const char *at, const char *line_end, int64_t *value) {
	bool negative = at < line_end && *at == '-';
	int64_t n = 0;
	at += negative;
	if (at + 1 >= line_end || line_end - at > 20)
		return false;
	for (; at + 1 < line_end; at++) {
		unsigned digit = (unsigned)(unsigned char)*at - '0';
		if (digit > 9)
			return false;
		n = n * 10 + (int64_t)digit;
	}
	*value = negative ? -n : n;
	return line_end[-1] == '\r';
}

/* Finds the reply at the front of data[0..len). `reply` is filled for RESP_WHOLE only. */
static inline enum resp_verdict resp_skip(const char *data, size_t len, struct resp_reply *reply) {
	const char *at = data, *end = data + len;
	bool error = false, first = true;
	int64_t leading = -1, n = 0;
	for (uint64_t pending = 1; pending > 0; pending--) {
		const char *line = at;
		while (at < end && *at != '\n') /* lines are a few bytes: a loop is faster than memchr here */
			at++;
		if (at == end)
			return RESP_MORE;
		switch (*line) {
		case ':':
			if (first && !resp_number(line + 1, at, &leading))
				return RESP_BAD;
			first = false;
			break;
		case '*':
			if (!resp_number(line + 1, at, &n) || n > 1 << 20)
				return RESP_BAD;
			pending += n > 0 ? (uint64_t)n : 0;
			break;
		case '$':
			if (!resp_number(line + 1, at, &n) || n > 512 << 20)
				return RESP_BAD;
			if (n >= 0 && end - at - 1 < n + 2)
				return RESP_MORE;
			at += n >= 0 ? n + 2 : 0;
			first = false;
			break;
		case '-':
			error = true;
			first = false;
			break;
		case '+':
			first = false;
			break;
		default:
			return RESP_BAD;
		}
		at++;
	}
	*reply = (struct resp_reply){(size_t)(at - data), leading, error};
	return RESP_WHOLE;
}

#endif
