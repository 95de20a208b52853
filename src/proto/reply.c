/* Parsing of replies.
 *
 *   :1\r\n  +OK\r\n  -ERR text\r\n  $2\r\nab\r\n  *2\r\n..                version 2; $-1 and *-1 are nil
 *   _\r\n  #t\r\n  ,1.5\r\n  (123\r\n  !5\r\n..  =9\r\ntxt:..  ~ % > |    and what version 3 adds
 *
 * Attributes (|) go before a value, pushes (>) between replies: both are told as tokens that are `aside`. Strings and
 * arrays of unknown length ($?, *?) are in the specification of version 3, but no server sends them: they are refused.
 *
 * Invariants
 *  1. No byte at or past data + len is read.
 *  2. The tokens depend only on the bytes, not on how they were cut into reads.
 *  3. need > len whenever 0 is returned, and need <= SL_REPLY_TOKEN_BYTES_MAX. */
#include "proto/reply.h"

#include "base/assert.h"
#include "proto/resp.h"

static ptrdiff_t refuse(struct sl_reply *reply, const char *what) {
	reply->error = what;
	return -1;
}

/* The line that the bytes begin with, without its mark and end. > 0: its bytes, all in all. */
static inline ptrdiff_t read_line(struct sl_reply *reply, const char *data, size_t len, struct sluice_bytes *line) {
	size_t seen = len < SL_REPLY_LINE_BYTES_MAX ? len : SL_REPLY_LINE_BYTES_MAX;
	const char *stop = memchr(data, '\r', seen);
	if (stop == NULL && seen == SL_REPLY_LINE_BYTES_MAX)
		return refuse(reply, "a line without an end");
	if (stop == NULL || stop + 1 == data + len) {
		reply->need = len + 1;
		return 0;
	}
	if (stop[1] != '\n')
		return refuse(reply, "a line that does not end with \\r\\n");
	*line = sl_slice(data + 1, (size_t)(stop - data - 1));
	return stop + 2 - data;
}

/* A value is all there: closes the arrays that it completes, and sees whether that ends the reply. */
static inline void complete(struct sl_reply *reply, struct sl_reply_token *token) {
	while (reply->depth != 0) {
		uint8_t top = (uint8_t)(reply->depth - 1);
		SL_ASSERT(reply->left[top] > 0);
		if (--reply->left[top] != 0)
			return;
		reply->depth = top;
		const bool was_aside = reply->aside == top + 1;
		if (was_aside)
			reply->aside = 0;
		if (reply->attribute[top] || was_aside)
			return; /* what it belongs to, or the reply, is yet to come */
	}
	token->last = true;
	reply->tokens = 0;
}

static ptrdiff_t open_array(struct sl_reply *reply, char mark, int64_t count, struct sl_reply_token *token) {
	const bool pairs = mark == '%' || mark == '|', aside = mark == '>' || mark == '|';
	if (count < 0 || count > SL_REPLY_TOKENS_MAX)
		return refuse(reply, "an array of that length");
	if (mark == '>' && reply->depth != 0)
		return refuse(reply, "a push within a reply");
	token->kind = SL_REPLY_ARRAY;
	token->value = pairs ? 2 * count : count;
	token->aside = reply->aside != 0 || aside;
	if (count == 0) {
		if (!aside)
			complete(reply, token);
		return 0;
	}
	if (reply->depth == SL_REPLY_DEPTH_MAX)
		return refuse(reply, "arrays that deep");
	if (aside && reply->aside == 0)
		reply->aside = (uint8_t)(reply->depth + 1);
	reply->attribute[reply->depth] = mark == '|';
	reply->left[reply->depth++] = (uint32_t)token->value;
	return 0;
}

static ptrdiff_t end_of(struct sl_reply *reply, struct sl_reply_token *token, enum sl_reply_kind kind,
                        ptrdiff_t taken) {
	token->kind = kind;
	token->aside = reply->aside != 0;
	complete(reply, token);
	return taken;
}

static ptrdiff_t read_bulk(struct sl_reply *reply, const char *data, size_t len, ptrdiff_t line, int64_t bytes,
                           struct sl_reply_token *token) {
	if (bytes < 0 || bytes > SL_REPLY_TEXT_BYTES_MAX)
		return refuse(reply, "a string of that length");
	const size_t whole = (size_t)line + (size_t)bytes + 2;
	if (len < whole) {
		reply->need = whole;
		return 0;
	}
	if (data[whole - 2] != '\r' || data[whole - 1] != '\n')
		return refuse(reply, "a string that is longer than it says");
	token->text = sl_slice(data + line, (size_t)bytes);
	if (*data == '=' && bytes >= 4) /* "txt:" */
		token->text = sl_slice(data + line + 4, (size_t)bytes - 4);
	return end_of(reply, token, *data == '!' ? SL_REPLY_ERROR : SL_REPLY_TEXT, (ptrdiff_t)whole);
}

/* A token whose line holds a length. */
static ptrdiff_t read_sized(struct sl_reply *reply, const char *data, size_t len, ptrdiff_t line,
                            struct sluice_bytes number, struct sl_reply_token *token) {
	int64_t count;
	if (!sl_resp_to_i64(number, &count))
		return refuse(reply, "a length that is not a number");
	if (count == -1 && (*data == '$' || *data == '*'))
		return end_of(reply, token, SL_REPLY_NIL, line);
	if (*data == '$' || *data == '!' || *data == '=')
		return read_bulk(reply, data, len, line, count, token);
	return open_array(reply, *data, count, token) < 0 ? -1 : line;
}

ptrdiff_t sl_reply_next(struct sl_reply *reply, const char *data, size_t len, struct sl_reply_token *token) {
	struct sluice_bytes line = {"", 0};
	if (len == 0) {
		reply->need = 1;
		return 0;
	}
	if (memchr(":+-$*_#,(!=~%>|", *data, 15) == NULL)
		return refuse(reply, "a byte that begins no reply");
	ptrdiff_t taken = read_line(reply, data, len, &line);
	if (taken <= 0)
		return taken;
	*token = (struct sl_reply_token){.depth = reply->depth, .text = line};
	const char *p = line.data;
	switch (*data) {
	case ':':
		taken = sl_resp_to_i64(line, &token->value) ? end_of(reply, token, SL_REPLY_INTEGER, taken)
		                                            : refuse(reply, "a malformed integer");
		break;
	case '#':
		token->value = line.len == 1 && *p == 't';
		taken = line.len == 1 && (*p == 't' || *p == 'f') ? end_of(reply, token, SL_REPLY_INTEGER, taken)
		                                                  : refuse(reply, "a malformed boolean");
		break;
	case '_':
		taken = end_of(reply, token, SL_REPLY_NIL, taken);
		break;
	case '-':
		taken = end_of(reply, token, SL_REPLY_ERROR, taken);
		break;
	case '+':
	case ',':
	case '(':
		taken = end_of(reply, token, SL_REPLY_TEXT, taken);
		break;
	default:
		taken = read_sized(reply, data, len, taken, line, token);
	}
	if (taken > 0 && !token->last && ++reply->tokens > SL_REPLY_TOKENS_MAX)
		return refuse(reply, "a reply of that many elements");
	return taken;
}
