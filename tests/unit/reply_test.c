/* Replies of nodes: tokens by table, the same however the bytes are cut, and what is refused.
 *
 * Bytes lie in memory that ends where they end, so that a read past them is seen by the sanitizer. */
#include "proto/reply.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BYTES(text) \
	{ (text), sizeof(text) - 1 }

/* Tokens as text: depth, kind (:number, 'text', -error, nil, [elements]), ~ before what is aside, ! behind the last. */
static size_t print_token(const struct sl_reply_token *token, char *at, size_t room) {
	int len = snprintf(at, room, "%s%u", token->aside ? "~" : "", token->depth);
	switch (token->kind) {
	case SL_REPLY_ARRAY:
		len += snprintf(at + len, room - (size_t)len, "[%" PRId64 "]", token->value);
		break;
	case SL_REPLY_INTEGER:
		len += snprintf(at + len, room - (size_t)len, ":%" PRId64, token->value);
		break;
	case SL_REPLY_TEXT:
	case SL_REPLY_ERROR:
		len += snprintf(at + len, room - (size_t)len, token->kind == SL_REPLY_TEXT ? "'%.*s'" : "-%.*s",
		                (int)token->text.len, (const char *)token->text.data);
		break;
	case SL_REPLY_NIL:
		len += snprintf(at + len, room - (size_t)len, "nil");
	}
	len += snprintf(at + len, room - (size_t)len, "%s ", token->last ? "!" : "");
	return (size_t)len;
}

/* Feeds bytes, at first `cut` of them, then all. Fills `text`, and returns the error or NULL. */
static const char *read_all(const char *bytes, size_t len, size_t cut, char *text, size_t room) {
	struct sl_reply reply = {.depth = 0};
	struct sl_reply_token token;
	size_t at = 0, written = 0;
	text[0] = '\0';
	for (size_t seen = cut; at < len;) {
		char *memory = malloc(seen - at + 1); /* one more than is told: of 0 bytes, too */
		assert_non_null(memory);
		memcpy(memory, bytes + at, seen - at);
		char *exact = realloc(memory, seen - at != 0 ? seen - at : 1);
		const ptrdiff_t taken = sl_reply_next(&reply, exact, seen - at, &token);
		if (taken > 0)
			written += print_token(&token, text + written, room - written);
		free(exact);
		if (taken < 0)
			return reply.error;
		if (taken == 0 && seen == len)
			return "more";
		if (taken == 0) {
			assert_in_range(reply.need, seen - at + 1, SL_REPLY_TOKEN_BYTES_MAX);
			seen = len;
		}
		at += (size_t)taken;
	}
	assert_int_equal(reply.depth, 0);
	return NULL;
}

static const struct {
	struct sluice_bytes bytes;
	const char *tokens;
} good[] = {
	{BYTES(":1\r\n"), "0:1! "},
	{BYTES(":-9223372036854775808\r\n:9223372036854775807\r\n"), "0:-9223372036854775808! 0:9223372036854775807! "},
	{BYTES("+OK\r\n"), "0'OK'! "},
	{BYTES("+\r\n"), "0''! "},
	{BYTES("-ERR no\r\n"), "0-ERR no! "},
	{BYTES("$5\r\na\r\nbc\r\n"), "0'a\r\nbc'! "},
	{BYTES("$0\r\n\r\n"), "0''! "},
	{BYTES("$-1\r\n*-1\r\n_\r\n"), "0nil! 0nil! 0nil! "},
	{BYTES("*0\r\n"), "0[0]! "},
	{BYTES("*2\r\n:1\r\n:2\r\n"), "0[2] 1:1 1:2! "},
	{BYTES("*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n:3\r\n:4\r\n"), "0[2] 1[2] 2:1 2:2 1[1] 2:3! 0:4! "},
	{BYTES("*3\r\n*0\r\n*1\r\n*0\r\n*0\r\n"), "0[3] 1[0] 1[1] 2[0] 1[0]! "},
	{BYTES("*2\r\n:1\r\n-no\r\n"), "0[2] 1:1 1-no! "},
	{BYTES("#t\r\n#f\r\n"), "0:1! 0:0! "},
	{BYTES(",1.5\r\n(123456789012345678901\r\n"), "0'1.5'! 0'123456789012345678901'! "},
	{BYTES("!5\r\nERR a\r\n=8\r\ntxt:some\r\n=2\r\nab\r\n"), "0-ERR a! 0'some'! 0'ab'! "},
	{BYTES("%1\r\n+a\r\n:1\r\n~1\r\n:1\r\n"), "0[2] 1'a' 1:1! 0[1] 1:1! "},
	{BYTES(">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n:7\r\n"), "~0[2] ~1'invalidate' ~1[1] ~2'a' 0:7! "},
	{BYTES(">0\r\n:7\r\n"), "~0[0] 0:7! "},
	{BYTES("|1\r\n+ttl\r\n:3\r\n*2\r\n|1\r\n+x\r\n>1\r\n"), NULL},
	{BYTES("|1\r\n+ttl\r\n:3\r\n*2\r\n|1\r\n+x\r\n*1\r\n:0\r\n:1\r\n:2\r\n"),
     "~0[2] ~1'ttl' ~1:3 0[2] ~1[2] ~2'x' ~2[1] ~3:0 1:1 1:2! "},
	{BYTES("|0\r\n:1\r\n"), "~0[0] 0:1! "},
	{BYTES("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), "0[1] 1[1] 2[1] 3[1] 4[1] 5[1] 6[1] 7[1] 8:1! "},
};

static void test_tokens_however_they_are_cut(void **state) {
	char text[512];
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		for (size_t cut = 0; cut <= good[i].bytes.len; cut++) {
			const char *error = read_all(good[i].bytes.data, good[i].bytes.len, cut, text, sizeof text);
			if (good[i].tokens == NULL) {
				assert_string_equal(error, "a push within a reply");
				continue;
			}
			assert_null(error);
			assert_string_equal(text, good[i].tokens);
		}
}

static const struct {
	struct sluice_bytes bytes;
	const char *error;
} bad[] = {
	{BYTES("HTTP/1.1 400 Bad Request\r\n"), "a byte that begins no reply"},
	{BYTES("\0"), "a byte that begins no reply"},
	{BYTES("\r\n"), "a byte that begins no reply"},
	{BYTES(":\r\n"), "a malformed integer"},
	{BYTES(":+1\r\n"), "a malformed integer"},
	{BYTES(":01\r\n"), "a malformed integer"},
	{BYTES(":9223372036854775808\r\n"), "a malformed integer"},
	{BYTES(":1\r1\n"), "a line that does not end with \\r\\n"},
	{BYTES("#x\r\n"), "a malformed boolean"},
	{BYTES("#tt\r\n"), "a malformed boolean"},
	{BYTES("$x\r\n"), "a length that is not a number"},
	{BYTES("$?\r\n"), "a length that is not a number"},
	{BYTES("*?\r\n"), "a length that is not a number"},
	{BYTES("$-2\r\n"), "a string of that length"},
	{BYTES("!-1\r\n"), "a string of that length"},
	{BYTES("$32769\r\n"), "a string of that length"},
	{BYTES("$1\r\nab\r\n"), "a string that is longer than it says"},
	{BYTES("$1\r\na\rb"), "a string that is longer than it says"},
	{BYTES("*-2\r\n"), "an array of that length"},
	{BYTES("%-1\r\n"), "an array of that length"},
	{BYTES("*1048577\r\n"), "an array of that length"},
	{BYTES("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), "arrays that deep"},
};

static void test_what_is_no_reply(void **state) {
	char text[512];
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (size_t cut = 0; cut <= bad[i].bytes.len; cut++) {
			const char *error = read_all(bad[i].bytes.data, bad[i].bytes.len, cut, text, sizeof text);
			assert_non_null(error);
			assert_string_equal(error, bad[i].error);
		}
}

static void test_lengths_are_bounded(void **state) {
	const size_t line = SL_REPLY_LINE_BYTES_MAX;
	char *bytes = malloc(SL_REPLY_TOKEN_BYTES_MAX + 16);
	struct sl_reply reply = {.depth = 0};
	struct sl_reply_token token;
	(void)state;
	assert_non_null(bytes);
	memset(bytes, 'a', line);
	bytes[0] = '-';
	assert_int_equal(sl_reply_next(&reply, bytes, line - 1, &token), 0);
	assert_int_equal(reply.need, line);
	assert_int_equal(sl_reply_next(&reply, bytes, line, &token), -1);
	assert_string_equal(reply.error, "a line without an end");
	memcpy(bytes + line - 2, "\r\n", 2);
	assert_int_equal(sl_reply_next(&reply, bytes, line, &token), line);
	assert_int_equal(token.text.len, line - 3);

	reply = (struct sl_reply){.depth = 0};
	const size_t head = (size_t)snprintf(bytes, 16, "$%d\r\n", SL_REPLY_TEXT_BYTES_MAX);
	memset(bytes + head, 'x', SL_REPLY_TEXT_BYTES_MAX);
	memcpy(bytes + head + SL_REPLY_TEXT_BYTES_MAX, "\r\n", 2);
	assert_int_equal(sl_reply_next(&reply, bytes, head, &token), 0);
	assert_int_equal(reply.need, head + SL_REPLY_TEXT_BYTES_MAX + 2);
	assert_int_equal(sl_reply_next(&reply, bytes, reply.need, &token), reply.need);
	assert_int_equal(token.text.len, SL_REPLY_TEXT_BYTES_MAX);
	free(bytes);
}

/* An array of arrays of arrays could name any number of elements in few bytes at a time. */
static void test_elements_of_a_reply_are_bounded(void **state) {
	struct sl_reply reply = {.depth = 0};
	struct sl_reply_token token;
	uint32_t taken = 0;
	(void)state;
	assert_true(sl_reply_next(&reply, "*2\r\n", 4, &token) > 0);
	assert_true(sl_reply_next(&reply, "*1048576\r\n", 10, &token) > 0);
	while (sl_reply_next(&reply, "*0\r\n", 4, &token) > 0 && taken < 2 * SL_REPLY_TOKENS_MAX) {
		taken++;
		assert_false(token.last);
	}
	assert_int_equal(taken, SL_REPLY_TOKENS_MAX - 2);
	assert_string_equal(reply.error, "a reply of that many elements");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens_however_they_are_cut),
		cmocka_unit_test(test_what_is_no_reply),
		cmocka_unit_test(test_lengths_are_bounded),
		cmocka_unit_test(test_elements_of_a_reply_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
