/* The Redis protocol, versions 2 and 3: bytes to requests, values to bytes. No descriptor, no clock, no store.
 *
 * Requests are parsed in place: an argument is a slice of the bytes that arrived, and nothing is copied (but for inline
 * requests with quotes, typed by people). A request that is not all there yet is parsed again when more of it is:
 * `need` tells how many bytes that takes at least, so that a sender of single bytes cannot make us work for each. */
#ifndef SL_RESP_H
#define SL_RESP_H

#include "base/bytes.h"
#include "base/digits.h"

enum {
	SL_RESP_ARGS_MAX = 1024,                /* arguments in a request, its name among them */
	SL_RESP_BULK_BYTES_MAX = 64 * 1024,     /* one argument */
	SL_RESP_INLINE_BYTES_MAX = 64 * 1024,   /* one line: an inline request, or a length */
	SL_RESP_REQUEST_BYTES_MAX = 256 * 1024, /* one request, all in all */
	/* Of those who have not logged in where that is asked: */
	SL_RESP_GUEST_ARGS_MAX = 10,
	SL_RESP_GUEST_BULK_BYTES_MAX = 16 * 1024,
	SL_RESP_GUEST_REQUEST_BYTES_MAX = 20 * 1024,
	SL_RESP_NUMBER_BYTES_MAX = 24, /* what sl_resp_put_number() writes at most */
};

/* One request, as sl_resp_parse() found it. About 80 KiB: one a worker, not one a connection. */
struct sl_resp_request {
	uint32_t count; /* of args; 0: an empty request (`\r\n`, `*0\r\n`), to be passed over in silence */
	bool is_inline; /* the arguments lie in `unquoted`, until the next parse */
	size_t need;    /* of an unfinished request: bytes that it takes at least, more than there were */
	char error[96]; /* of a bad one: the text after "-ERR ", NUL-ended */
	struct sluice_bytes args[SL_RESP_ARGS_MAX];
	char unquoted[SL_RESP_INLINE_BYTES_MAX];
};

/* Parses the request that the bytes begin with.
 *  request  out; the arguments point into `data`, or into request->unquoted
 * Returns the bytes that the request took (> 0); 0 when it is not all there yet (request->need is set); -1 when it
 * breaks the protocol (request->error says how; the connection has to be closed after saying so). Errors are worded as
 * Redis words them; one past a bound of ours names the bound. Reads nothing past data + len. A few ns an argument. */
SLUICE_MUST_USE ptrdiff_t sl_resp_parse(struct sl_resp_request *request, const char *data, size_t len);
/* The same under the bounds of guests, so that nobody fills memory without saying who he is. */
SLUICE_MUST_USE ptrdiff_t sl_resp_parse_guest(struct sl_resp_request *request, const char *data, size_t len);

/* Reads a whole number as Redis does: an optional '-', digits without leading zeros, -2^63..2^63-1. */
bool sl_resp_to_i64(struct sluice_bytes text, int64_t *value);

/* Writes the digits of a number, a '-' before them where it is negative; returns their end. At most 20 bytes are
 * touched. */
char *sl_resp_put_digits(char *at, int64_t value);

/* Writes `type`, a number and the line's end: `:42\r\n`, `$5\r\n`, `*7\r\n`. At most SL_RESP_NUMBER_BYTES_MAX bytes are
 * written, and up to that many touched; returns the end. */
static inline char *sl_resp_put_number(char *at, char type, int64_t value) {
	at[0] = type;
	if (value >= 0 && value < 10) {
		memcpy(at + 1, "0\r\n", 3);
		at[1] = (char)('0' + value);
		return at + 4;
	}
	at = value >= 0 ? sl_put_unsigned(at + 1, (uint64_t)value) : sl_resp_put_digits(at + 1, value);
	memcpy(at, "\r\n", 2);
	return at + 2;
}

/* Writes a bulk string; returns its end. At most text.len + SL_RESP_BULK_MORE bytes. */
enum { SL_RESP_BULK_MORE = SL_RESP_NUMBER_BYTES_MAX + 2 };
static inline char *sl_resp_put_bulk(char *at, struct sluice_bytes text) {
	at = sl_resp_put_number(at, '$', (int64_t)text.len);
	if (text.len != 0)
		memcpy(at, text.data, text.len);
	memcpy(at + text.len, "\r\n", 2);
	return at + text.len + 2;
}

/* Writes a command, an array of bulk strings; returns its end. At most sl_resp_command_bytes() bytes. */
char *sl_resp_put_command(char *at, uint32_t count, const struct sluice_bytes *args);
size_t sl_resp_command_bytes(uint32_t count, const struct sluice_bytes *args);

#endif
