/* Parsing of RESP requests.
 *
 *   *3\r\n $12\r\nSLUICE.CHECK\r\n ...     an array of bulk strings, what every client library sends
 *   SLUICE.CHECK alice 1 "100/60s"\r\n     an inline request, what people type and redis-benchmark's first test sends
 *
 * What real Redis 7.0.15 does at the edges was probed and is kept, for clients have come to rely on it: lengths are
 * strict decimal (`+1` and `04` are refused), a line ends at its first \r and the byte after that is not looked at,
 * the two bytes after a bulk string are not looked at either, a count of 0 or less is an empty request, quotes of an
 * inline request must be followed by a space. The bounds are ours, and much lower than Redis's 512 MiB.
 *
 * Invariants
 *  1. No byte at or past data + len is read.
 *  2. The answer depends only on the bytes of the request, not on how they were cut into reads: 0 is answered exactly
 *     while some continuation of the bytes could still be a request.
 *  3. need > len whenever 0 is returned, and need never exceeds SL_RESP_REQUEST_BYTES_MAX.
 */
#include "proto/resp.h"

#include "base/out.h"

enum {
	REDIS_COUNT_MAX = 2147483647, /* above: Redis itself refuses it */
	REDIS_BULK_BYTES_MAX = 536870912,
};

/* What a request may take. Both are constants, and the parser is compiled for each. */
struct bounds {
	uint32_t args, bulk_bytes, request_bytes;
	bool guest; /* Redis has words of its own for what is too much before a login */
};

static const struct bounds members = {SL_RESP_ARGS_MAX, SL_RESP_BULK_BYTES_MAX, SL_RESP_REQUEST_BYTES_MAX, false};
static const struct bounds guests = {SL_RESP_GUEST_ARGS_MAX, SL_RESP_GUEST_BULK_BYTES_MAX,
                                     SL_RESP_GUEST_REQUEST_BYTES_MAX, true};

enum line { LINE_BAD = -1, LINE_PARTIAL = 0 }; /* > 0: bytes of the line with its end */

static ptrdiff_t refuse(struct sl_resp_request *request, const char *text) {
	struct sl_out out = sl_out_to(request->error, sizeof request->error - 1);
	sl_out_str(&out, "Protocol error: ");
	sl_out_str(&out, text);
	*out.at = '\0';
	return -1;
}

/* A bound of ours, where Redis would have gone on: its words, then ours. */
static ptrdiff_t refuse_above(struct sl_resp_request *request, const char *text, uint64_t most, const char *unit) {
	struct sl_out out = sl_out_to(request->error, sizeof request->error - 1);
	sl_out_str(&out, "Protocol error: ");
	sl_out_str(&out, text);
	sl_out_str(&out, ", at most ");
	sl_out_u64(&out, most);
	sl_out_str(&out, unit);
	*out.at = '\0';
	return -1;
}

static ptrdiff_t refuse_byte(struct sl_resp_request *request, unsigned char got) {
	struct sl_out out = sl_out_to(request->error, sizeof request->error - 1);
	sl_out_str(&out, "Protocol error: expected '$', got ");
	if (got == '\r' || got == '\n')
		got = ' '; /* as Redis shows them: an error is one line */
	sl_out_quoted(&out, sl_slice(&got, 1), 1);
	*out.at = '\0';
	return -1;
}

static ptrdiff_t want_more(struct sl_resp_request *request, const struct bounds *most, size_t need) {
	if (need > most->request_bytes)
		return refuse_above(request, most->guest ? "too big unauthenticated request" : "too big request",
		                    most->request_bytes, " bytes");
	request->need = need;
	return 0;
}

bool sl_resp_to_i64(struct sluice_bytes text, int64_t *value) {
	const char *p = text.data;
	bool negative = text.len != 0 && *p == '-';
	struct sluice_bytes digits = {p + negative, text.len - negative};
	uint64_t n;
	if (!sl_bytes_to_u64(digits, &n) || (p[negative] == '0' && text.len != 1) || n > (uint64_t)INT64_MAX + negative)
		return false;
	*value = (int64_t)(negative ? 0 - n : n);
	return true;
}

/* A length line, from its mark to after its end. Only its number is judged here, not its mark. */
static ptrdiff_t read_line_slow(const char *p, const char *end, int64_t *value) {
	size_t seen = (size_t)(end - p) > SL_RESP_INLINE_BYTES_MAX ? SL_RESP_INLINE_BYTES_MAX : (size_t)(end - p);
	const char *stop = memchr(p, '\r', seen);
	if (stop == NULL || end - stop < 2)
		return LINE_PARTIAL;
	if (stop == p || !sl_resp_to_i64(sl_slice(p + 1, (size_t)(stop - p - 1)), value))
		return LINE_BAD;
	return stop + 2 - p;
}

/* One to three digits, which is every length but a few, without a loop. */
static inline ptrdiff_t read_line(const char *p, const char *end, int64_t *value) {
	if (end - p < 6)
		return read_line_slow(p, end, value);
	unsigned a = (unsigned char)p[1] - '0', b = (unsigned char)p[2] - '0', c = (unsigned char)p[3] - '0';
	if (p[2] == '\r' && a <= 9)
		return *value = a, 4;
	if (p[3] == '\r' && a - 1 < 9 && b <= 9)
		return *value = a * 10 + b, 5;
	if (p[4] == '\r' && a - 1 < 9 && b <= 9 && c <= 9)
		return *value = a * 100 + b * 10 + c, 6;
	return read_line_slow(p, end, value);
}

/* ---- inline requests ----------------------------------------------------------------------------------------- */

static bool is_space(char c) {
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One escape of a double-quoted part, p at the backslash, with at least one byte after it. Returns past it. */
static const char *unescape(const char *p, const char *end, char *byte) {
	if (p[1] == 'x' && end - p >= 4 && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
		*byte = (char)(hex_digit(p[2]) * 16 + hex_digit(p[3]));
		return p + 4;
	}
	static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
	const char *found = memchr(from, p[1], sizeof from - 1);
	*byte = found != NULL ? to[found - from] : p[1];
	return p + 2;
}

/* A quoted part, p at its opening quote. Returns past the closing one, or NULL where there is none or something
 * other than a space follows it. */
static const char *unquote(const char *p, const char *end, char **to) {
	char quote = *p++;
	while (p < end && *p != quote) {
		if (quote == '"' && *p == '\\' && end - p >= 2) {
			p = unescape(p, end, (*to)++);
		} else if (quote == '\'' && *p == '\\' && end - p >= 2 && p[1] == '\'') {
			*(*to)++ = '\'';
			p += 2;
		} else {
			*(*to)++ = *p++;
		}
	}
	if (p == end || (p + 1 < end && !is_space(p[1])))
		return NULL;
	return p + 1;
}

/* One word of an inline request, quoted parts and all. */
static const char *read_word(const char *p, const char *end, char **to) {
	while (p < end && *p != ' ' && *p != '\t' && *p != '\r' && *p != '\n') {
		if (*p == '"' || *p == '\'')
			return unquote(p, end, to); /* a closing quote ends the word */
		*(*to)++ = *p++;
	}
	return p;
}

static ptrdiff_t split_line(struct sl_resp_request *request, const char *p, const char *end) {
	char *to = request->unquoted; /* a word is never longer unquoted, so the line's bound is this buffer's */
	request->is_inline = true;
	for (;;) {
		while (p < end && is_space(*p))
			p++;
		if (p == end)
			return 1;
		if (request->count == SL_RESP_ARGS_MAX)
			return refuse_above(request, "too big inline request", SL_RESP_ARGS_MAX, " arguments");
		char *start = to;
		p = read_word(p, end, &to);
		if (p == NULL)
			return refuse(request, "unbalanced quotes in request");
		request->args[request->count++] = sl_slice(start, (size_t)(to - start));
	}
}

static ptrdiff_t parse_inline(struct sl_resp_request *request, const struct bounds *most, const char *data,
                              size_t len) {
	size_t seen = len > SL_RESP_INLINE_BYTES_MAX ? SL_RESP_INLINE_BYTES_MAX : len;
	const char *newline = memchr(data, '\n', seen);
	if (newline == NULL && len > SL_RESP_INLINE_BYTES_MAX)
		return refuse(request, "too big inline request");
	if (newline == NULL)
		return want_more(request, most, len + 1);
	const char *end = newline > data && newline[-1] == '\r' ? newline - 1 : newline;
	ptrdiff_t split = split_line(request, data, end);
	return split < 0 ? split : newline + 1 - data;
}

/* ---- arrays of bulk strings ---------------------------------------------------------------------------------- */

/* A length line that is not all there: more of it, unless it is longer than any length. One byte more may already
 * make it a bad one, which has to be said at once. */
static ptrdiff_t unfinished_line(struct sl_resp_request *request, const struct bounds *most, size_t before, size_t len,
                                 const char *too_big) {
	return len - before > SL_RESP_INLINE_BYTES_MAX ? refuse(request, too_big) : want_more(request, most, len + 1);
}

static ptrdiff_t refuse_bulk(struct sl_resp_request *request, const struct bounds *most, const char *p, ptrdiff_t line,
                             int64_t bytes) {
	if (*p != '$')
		return refuse_byte(request, (unsigned char)*p);
	if (line == LINE_BAD || bytes < 0 || bytes > REDIS_BULK_BYTES_MAX)
		return refuse(request, "invalid bulk length");
	if (most->guest)
		return refuse(request, "unauthenticated bulk length");
	return refuse_above(request, "invalid bulk length", SL_RESP_BULK_BYTES_MAX, " bytes");
}

static inline ptrdiff_t parse_bulks(struct sl_resp_request *request, const struct bounds *most, const char *data,
                                    size_t len, const char *p, uint32_t count) {
	const char *end = data + len;
	for (uint32_t i = 0; i < count; i++) {
		int64_t bytes = 0;
		ptrdiff_t line = p == end ? LINE_PARTIAL : read_line(p, end, &bytes);
		if (line == LINE_PARTIAL)
			return unfinished_line(request, most, (size_t)(p - data), len, "too big bulk count string");
		if (line == LINE_BAD || *p != '$' || (uint64_t)bytes > most->bulk_bytes)
			return refuse_bulk(request, most, p, line, bytes);
		p += line;
		if (end - p < bytes + 2)
			return want_more(request, most, (size_t)(p - data) + (size_t)bytes + 2);
		request->args[i] = sl_slice(p, (size_t)bytes);
		p += bytes + 2;
	}
	request->count = count;
	return p - data;
}

static inline __attribute__((always_inline)) ptrdiff_t parse(struct sl_resp_request *request, const struct bounds *most,
                                                             const char *data, size_t len) {
	request->count = 0;
	request->is_inline = false;
	if (len == 0)
		return want_more(request, most, 1);
	if (len > most->request_bytes) /* bytes past the bound never help; so all cuts see the same (2) */
		len = most->request_bytes;
	if (data[0] != '*')
		return parse_inline(request, most, data, len);
	int64_t count = 0;
	ptrdiff_t line = read_line(data, data + len, &count);
	if (line == LINE_PARTIAL)
		return unfinished_line(request, most, 0, len, "too big mbulk count string");
	if (line == LINE_BAD || count > REDIS_COUNT_MAX)
		return refuse(request, "invalid multibulk length");
	if (count > most->args && most->guest)
		return refuse(request, "unauthenticated multibulk length");
	if (count > most->args)
		return refuse_above(request, "invalid multibulk length", most->args, " arguments");
	if (count <= 0)
		return line;
	return parse_bulks(request, most, data, len, data + line, (uint32_t)count);
}

ptrdiff_t sl_resp_parse(struct sl_resp_request *request, const char *data, size_t len) {
	return parse(request, &members, data, len);
}

ptrdiff_t sl_resp_parse_guest(struct sl_resp_request *request, const char *data, size_t len) {
	return parse(request, &guests, data, len);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

char *sl_resp_put_digits(char *at, int64_t value) {
	if (value < 0)
		*at++ = '-';
	return sl_put_unsigned(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

size_t sl_resp_command_bytes(uint32_t count, const struct sluice_bytes *args) {
	size_t bytes = SL_RESP_NUMBER_BYTES_MAX;
	for (uint32_t i = 0; i < count; i++)
		bytes += args[i].len + SL_RESP_BULK_MORE;
	return bytes;
}

char *sl_resp_put_command(char *at, uint32_t count, const struct sluice_bytes *args) {
	at = sl_resp_put_number(at, '*', count);
	for (uint32_t i = 0; i < count; i++)
		at = sl_resp_put_bulk(at, args[i]);
	return at;
}
