/* HTTP/1.1 requests: what is read, what is refused, and that how the bytes were cut changes neither. */
#include "proto/http.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include <cmocka.h>

/* ---- running a parser ---------------------------------------------------------------------------------------- */

enum { TOLD_BYTES = 512 * 1024 };

/* What came out of a stream, as text: one line a request, "BAD status detail" at the end of a refused stream. */
struct told {
	struct sl_out out;
	uint32_t continues;
	bool bad;
};

static void tell_request(struct told *told, const struct sl_http_request *request) {
	struct sl_out *out = &told->out;
	sl_out_bytes(out, request->method_name.data, request->method_name.len);
	sl_out_char(out, ' ');
	sl_out_bytes(out, request->path.data, request->path.len);
	sl_out_char(out, '?');
	sl_out_bytes(out, request->query.data, request->query.len);
	sl_out_str(out, request->http10 ? " 1.0" : " 1.1");
	sl_out_str(out, request->keep_alive ? " keep [" : " close [");
	sl_out_bytes(out, request->body.data, request->body.len);
	sl_out_str(out, "]");
	/* header lines named "z..." and the authority are told too: any cut must leave them as they are */
	struct sluice_bytes rest = request->head, name, value;
	while (sl_http_field_next(&rest, &name, &value))
		if (*(const char *)name.data == 'z') {
			sl_out_char(out, ' ');
			sl_out_bytes(out, name.data, name.len);
			sl_out_char(out, '=');
			sl_out_bytes(out, value.data, value.len);
		}
	if (request->authority.len > 0) {
		sl_out_str(out, " at ");
		sl_out_bytes(out, request->authority.data, request->authority.len);
	}
	sl_out_char(out, '\n');
}

/* Gives the parser what is there, as a connection does: what it did not consume comes again. The bytes are copied to
 * memory of their exact size, so that reading past them is caught by the address sanitizer. */
static size_t feed(struct sl_http_parser *parser, struct told *told, const char *data, size_t len) {
	char *copy = malloc(len == 0 ? 1 : len);
	size_t done = 0, used;
	memcpy(copy, data, len);
	while (!told->bad) {
		enum sl_http_result result = sl_http_parse(parser, copy + done, len - done, &used);
		assert_true(used <= len - done);
		done += used;
		if (result == SL_HTTP_MORE)
			break;
		if (result == SL_HTTP_REQUEST)
			tell_request(told, &parser->request);
		else if (result == SL_HTTP_CONTINUE)
			told->continues++;
		else {
			told->bad = true;
			sl_out_str(&told->out, "BAD ");
			sl_out_u64(&told->out, parser->refusal.status);
			sl_out_char(&told->out, ' ');
			sl_out_str(&told->out, parser->refusal.detail);
		}
	}
	free(copy);
	return done;
}

/* Feeds `len` bytes in pieces that end at each of `cuts` (ascending), and tells what came out. */
static void run(struct told *told, char *memory, const char *data, size_t len, const size_t *cuts, size_t cut_count) {
	struct sl_http_parser parser;
	size_t done = 0;
	sl_http_parser_init(&parser);
	*told = (struct told){.out = sl_out_to(memory, TOLD_BYTES - 1)};
	for (size_t i = 0; i < cut_count; i++)
		done += feed(&parser, told, data + done, cuts[i] - done);
	done += feed(&parser, told, data + done, len - done);
	sl_http_parser_free(&parser);
	assert_false(told->out.overflow);
	*told->out.at = '\0';
}

static char whole_memory[TOLD_BYTES], cut_memory[TOLD_BYTES];

static const char *tell(const char *data, size_t len) {
	static struct told told;
	run(&told, whole_memory, data, len, NULL, 0);
	return whole_memory;
}

/* The same bytes cut at every position, and byte by byte: the same is told (I2). */
static void assert_cuts_alike(const char *data, size_t len) {
	struct told whole, cut;
	size_t *every = malloc((len + 1) * sizeof *every);
	run(&whole, whole_memory, data, len, NULL, 0);
	for (size_t at = 0; at <= len; at++) {
		every[at] = at;
		run(&cut, cut_memory, data, len, &at, 1);
		assert_string_equal(whole_memory, cut_memory);
	}
	run(&cut, cut_memory, data, len, every, len + 1);
	assert_string_equal(whole_memory, cut_memory);
	free(every);
}

static uint64_t random_state;

static uint64_t next_random(void) {
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

#define H "Host: x\r\n"

static void test_a_field_is_found_by_name(void **state) {
	static const char bytes[] = "GET / HTTP/1.1\r\n" H "X-User-ID: \t alice \r\nx-user-id: bob\r\nX-User: eve\r\n\r\n";
	struct sl_http_parser parser;
	struct sluice_bytes value = sl_str("kept");
	size_t used;
	(void)state;
	sl_http_parser_init(&parser);
	assert_int_equal(sl_http_parse(&parser, bytes, sizeof bytes - 1, &used), SL_HTTP_REQUEST);
	assert_false(sl_http_field(&parser.request, "x-user-", &value));
	assert_true(sl_bytes_equal(value, sl_str("kept")));
	assert_true(sl_http_field(&parser.request, "x-user-id", &value));
	assert_true(sl_bytes_equal(value, sl_str("alice"))); /* the first of two */
	assert_true(sl_http_field(&parser.request, "x-user", &value));
	assert_true(sl_bytes_equal(value, sl_str("eve")));
	sl_http_parser_free(&parser);
}

/* ---- what is read -------------------------------------------------------------------------------------------- */

#define METHOD_64 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-abcdefghijklmnopqrstuvwxyz~"

static const struct {
	const char *bytes, *told;
} good[] = {
	{"GET / HTTP/1.1\r\n" H "\r\n", "GET /? 1.1 keep []\n"},
	{"GET /healthz HTTP/1.1\r\nhOsT:x\r\nUser-Agent:  curl/8 \t\r\nA: \r\n\r\n", "GET /healthz? 1.1 keep []\n"},
	{"HEAD /a?b=c&d HTTP/1.1\r\n" H "\r\n", "HEAD /a?b=c&d 1.1 keep []\n"},
	{"GET /?? HTTP/1.1\r\n" H "\r\n", "GET /?? 1.1 keep []\n"},
	{"POST /v1/check HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", "POST /v1/check? 1.1 keep [abc]\n"},
	{"POST /a HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "POST /a? 1.1 keep []\n"},
	/* the coding of a body that is not there */
	{"GET /a HTTP/1.1\r\n" H "Content-Encoding: gzip\r\n\r\n", "GET /a? 1.1 keep []\n"},
	{"POST /a HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", "POST /a? 1.1 keep []\n"},
	{"POST /a HTTP/1.1\r\n" H "\r\n", "POST /a? 1.1 keep []\n"},
	/* pipelined, with an empty line between, as RFC 9112 2.2 lets pass */
	{"POST /a HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nxyGET /b HTTP/1.1\r\n" H "\r\n\r\n\r\nGET /c HTTP/1.1\r\n" H
     "\r\n",
     "POST /a? 1.1 keep [xy]\nGET /b? 1.1 keep []\nGET /c? 1.1 keep []\n"},
	/* chunks: sizes in hex, leading zeros, extensions, trailers */
	{"POST /a HTTP/1.1\r\n" H
     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00a;x=y\r\n0123456789\r\n0\r\nT: r\r\n\r\nGET /b "
     "HTTP/1.1\r\n" H "\r\n",
     "POST /a? 1.1 keep [abc0123456789]\nGET /b? 1.1 keep []\n"},
	{"POST /a HTTP/1.1\r\n" H "tRANSFER-eNCODING:Chunked\r\n\r\n0\r\n\r\n", "POST /a? 1.1 keep []\n"},
	{"GET /a HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "GET /a? 1.1 close []\n"},
	{"GET /a HTTP/1.1\r\n" H "Connection: keep-alive, Close\r\n\r\n", "GET /a? 1.1 close []\n"},
	{"GET /a HTTP/1.0\r\n\r\n", "GET /a? 1.0 close []\n"},
	{"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /a? 1.0 keep []\n"},
	/* RFC 9112 3.2.2: the absolute form must be taken */
	{"GET http://x/a?b HTTP/1.1\r\n" H "\r\n", "GET /a?b 1.1 keep [] at x\n"},
	{"GET HTTPS://x:1/a HTTP/1.1\r\n" H "\r\n", "GET /a? 1.1 keep [] at x:1\n"},
	{"GET http://x HTTP/1.1\r\n" H "\r\n", "GET /? 1.1 keep [] at x\n"},
	{"GET http://x?b HTTP/1.1\r\n" H "\r\n", "GET /?b 1.1 keep [] at x\n"},
	/* header lines: white space around a value is no part of it, that in the middle is; an empty one is one */
	{"GET /a HTTP/1.1\r\nza:1\r\n" H "zb: \t 2 \t3\t \r\nzc:\r\nzd: \r\nze: a: b\r\nza:4\r\n\r\n",
     "GET /a? 1.1 keep [] za=1 zb=2 \t3 zc= zd= ze=a: b za=4\n"},
	{"POST /a HTTP/1.1\r\nza: 1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nzt: trailer\r\n\r\n",
     "POST /a? 1.1 keep [x] za=1\n"},
	{"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS *? 1.1 keep []\n"},
	/* methods that llhttp does not know, or knows in RTSP alone; and such as begin as one that it knows */
	{"QUERY /a HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhiBASELINE-CONTROL /b HTTP/1.1\r\n" H "\r\n",
     "QUERY /a? 1.1 keep [hi]\nBASELINE-CONTROL /b? 1.1 keep []\n"},
	{"PLAY /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nget /b HTTP/1.1\r\n" H "\r\n",
     "PLAY /a? 1.1 keep [hi]\nget /b? 1.1 keep []\n"},
	{"\r\nGETT http://x/a?b HTTP/1.0\r\n\r\n", "GETT /a?b 1.0 close [] at x\n"},
	{"PRIVATE /a HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nCONNECTED / HTTP/1.1\r\n" H "\r\n",
     "PRIVATE /a? 1.1 keep []\nCONNECTED /? 1.1 keep []\n"},
	{METHOD_64 " * HTTP/1.1\r\n" H "\r\n", METHOD_64 " *? 1.1 keep []\n"},
	{"!#$%&'*+-.^_`|~9 /a HTTP/1.1\r\n" H "\r\n", "!#$%&'*+-.^_`|~9 /a? 1.1 keep []\n"},
	{"GET /a HTTP/1.1\r\nHost:\tx \t\r\n\r\n", "GET /a? 1.1 keep []\n"},
	{"GET /a HTTP/1.1\r\nHost:\r\n\r\n", "GET /a? 1.1 keep []\n"},
	{"GET /a HTTP/1.1\r\nHost: [2001:DB8::1]:8080\r\n\r\n", "GET /a? 1.1 keep []\n"},
	{"GET /a HTTP/1.1\r\nHost: a_b-c.d~1%20!$&'()*+,;=:1\r\n\r\n", "GET /a? 1.1 keep []\n"},
	{"DELETE /a%20b HTTP/1.1\r\n" H "\r\n", "DELETE /a%20b? 1.1 keep []\n"},
	/* an offer to upgrade is passed over, and what follows is still HTTP */
	{"GET /a HTTP/1.1\r\n" H "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\nGET /b "
     "HTTP/1.1\r\n" H "\r\n",
     "GET /a? 1.1 keep []\nGET /b? 1.1 keep []\n"},
	{"POST /a HTTP/1.1\r\n" H "Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nhi",
     "POST /a? 1.1 keep [hi]\n"},
	{"POST /a HTTP/1.1\r\n" H "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi", "POST /a? 1.1 keep [hi]\n"},
};

static void test_good_requests(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_string_equal(tell(good[i].bytes, strlen(good[i].bytes)), good[i].told);
		assert_cuts_alike(good[i].bytes, strlen(good[i].bytes));
	}
}

static void test_a_prefix_is_never_a_request(void **state) {
	(void)state;
	const char *bytes = "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
	for (size_t len = 0; len < strlen(bytes); len++)
		assert_string_equal(tell(bytes, len), "");
	assert_string_equal(tell(bytes, strlen(bytes)), "POST /a? 1.1 keep [abc]\n");
}

static void test_continue_is_asked_for_once(void **state) {
	(void)state;
	const char *head = "POST /a HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
	char bytes[256];
	struct told told;
	size_t len = strlen(head), cuts[] = {len, len + 1, len + 2};
	snprintf(bytes, sizeof bytes, "%sabcd", head);
	run(&told, cut_memory, bytes, len + 4, cuts, 3);
	assert_int_equal(told.continues, 1);
	assert_string_equal(cut_memory, "POST /a? 1.1 keep [abcd]\n");
	/* a body that is there already changes nothing; where none is announced, none is waited for */
	run(&told, cut_memory, bytes, len + 4, NULL, 0);
	assert_int_equal(told.continues, 1);
	assert_string_equal(cut_memory, "POST /a? 1.1 keep [abcd]\n");
	const char *empty = "POST /a HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n";
	run(&told, cut_memory, empty, strlen(empty), NULL, 0);
	assert_int_equal(told.continues, 0);
	/* HTTP/1.0 knows no 100 (RFC 9110 10.1.1) */
	const char *old = "POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
	run(&told, cut_memory, old, strlen(old), NULL, 0);
	assert_int_equal(told.continues, 0);
}

/* ---- what is refused ----------------------------------------------------------------------------------------- */

static const struct {
	unsigned status;
	const char *bytes;
} bad[] = {
	/* who speaks here? */
	{400, "\x16\x03\x01\x02"},
	{400, "*1\r\n$4\r\nPING\r\n"},
	{400, "FOO\r\n"},
	{400, "FOO: / HTTP/1.1\r\n" H "\r\n"},
	{400, METHOD_64 "X / HTTP/1.1\r\n" H "\r\n"},
	{400, METHOD_64 METHOD_64 METHOD_64},
	{505, "FOO / RTSP/1.0\r\n" H "\r\n"},
	{505, "FOO / HTTP/2.0\r\n" H "\r\n"},
	{505, "FOO /\r\n\r\n"},
	{400, "FOO  / HTTP/1.1\r\n" H "\r\n"},
	{400, "FOO x:1 HTTP/1.1\r\n" H "\r\n"},
	{400, "PRI / HTTP/1.1\r\n" H "\r\n"},
	{400, "CONNECT x:1 HTTP/1.1\r\n" H "\r\n"},
	{505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
	{505, "GET / HTTP/2.0\r\n" H "\r\n"},
	{505, "GET / HTTP/1.2\r\n" H "\r\n"},
	{505, "GET /\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H H "\r\n"},
	/* the request line */
	{400, "GET  / HTTP/1.1\r\n" H "\r\n"},
	{400, "GET /  HTTP/1.1\r\n" H "\r\n"},
	{505, "GET / HTTP/1.1 \r\n" H "\r\n"},
	{400, "GET a HTTP/1.1\r\n" H "\r\n"},
	{400, "GET *a HTTP/1.1\r\n" H "\r\n"},
	{400, "GET /a#b HTTP/1.1\r\n" H "\r\n"},
	{400, "GET /\x01 HTTP/1.1\r\n" H "\r\n"},
	{400, " GET / HTTP/1.1\r\n" H "\r\n"},
	{400, "\rGET / HTTP/1.1\r\n" H "\r\n"},
	{400, "\nGET / HTTP/1.1\r\n" H "\r\n"},
	/* line ends: a bare LF, a bare CR, and the CR that swallows the byte behind it */
	{400, "GET / HTTP/1.1\n" H "\n"},
	{400, "GET / HTTP/1.1\n" H "\r\n"},
	{400, "GET / HTTP/1.1\r\nHost: x\n\r\n"},
	{400, "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "\rGET /admin HTTP/1.1\r\n" H "\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "A: b\rTransfer-Encoding: chunked\r\n\r\n"},
	/* names and values */
	{400, "GET / HTTP/1.1\r\nHost : x\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H ": b\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "A\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "A: b\x01\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n A: b\r\n" H "\r\n"},
	{400, "GET / HTTP/1.1\r\n" H " folded\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\n" H "A: b\r\n\tfolded\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n"},
	{400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
	{400, "GET http://u@h/ HTTP/1.1\r\n" H "\r\n"},
	{400, "GET http:///a HTTP/1.1\r\n" H "\r\n"},
	{400, "GET /a\fb HTTP/1.1\r\n" H "\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nA : b\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n c\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0;e\r\n: b\r\n\r\n"},
	{417, "POST / HTTP/1.1\r\n" H "Expect: the-unexpected\r\n\r\n"},
	{415, "POST / HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi"},
	{415, "POST / HTTP/1.1\r\n" H "Content-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	/* where does the body end? */
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length : 3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n"},
	{413, "POST / HTTP/1.1\r\n" H "Content-Length: 65537\r\n\r\n"},
	{413, "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551615\r\n\r\n"},
	{413, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"},
	{501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
	{501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n"},
	{400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\rXabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\rX0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\rX"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcXY0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcXY2\r\nde\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc  0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc210\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a=\x01\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a=\"\x01\"\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a=\"\x7f\"\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a=\x7f\r\nabc\r\n0\r\n\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3 ;\x0b\r\nabc\r\n0\r\n\r\n"},
	{413, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n10001\r\n"},
	{413, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n10000\r\n"},
	{400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"},
};

static void test_hostile_requests(void **state) {
	char want[16];
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *told = tell(bad[i].bytes, strlen(bad[i].bytes));
		const char *at = strstr(told, "BAD ");
		snprintf(want, sizeof want, "BAD %u ", bad[i].status);
		if (at == NULL || strncmp(at, want, strlen(want)) != 0)
			fail_msg("case %zu (%s): want %u, told: %s", i, bad[i].bytes, bad[i].status, told);
		assert_true(strlen(at) > strlen(want) + 10); /* says something */
		assert_cuts_alike(bad[i].bytes, strlen(bad[i].bytes));
	}
}

/* Who speaks HTTP/2 is told so; who speaks something else, where it began. */
static void test_who_speaks_is_told(void **state) {
	static const struct {
		const char *line, *text;
	} rows[] = {
		{"PRI / HTTP/1.1\r\n" H "\r\n", "PRI is no method of HTTP/1.1"},
		{"FOO\r\n", "not a request of HTTP/1.1: at byte "},
		{"@GET / HTTP/1.1\r\n", "not a request of HTTP/1.1: at byte 1: "},
		{"\"a / HTTP/1.1\r\n", "not a request of HTTP/1.1: at byte 1: "},
		{"[a / HTTP/1.1\r\n", "not a request of HTTP/1.1: at byte 1: "},
		{"{a / HTTP/1.1\r\n", "not a request of HTTP/1.1: at byte 1: "},
		{"*1\r\n$4\r\n", "not a request of HTTP/1.1: at byte 1: "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *told = tell(rows[i].line, strlen(rows[i].line));
		if (strstr(told, rows[i].text) == NULL)
			fail_msg("%s: %s", rows[i].line, told);
	}
}

static void test_nul_bytes_are_refused(void **state) {
	static const char in_target[] = "GET /\0 HTTP/1.1\r\n" H "\r\n", in_value[] = "GET / HTTP/1.1\r\nHost: \0x\r\n\r\n",
					  in_name[] = "GET / HTTP/1.1\r\n" H "A\0: x\r\n\r\n", first[] = "\0GET / HTTP/1.1\r\n" H "\r\n";
	(void)state;
	assert_non_null(strstr(tell(in_target, sizeof in_target - 1), "BAD 400"));
	assert_non_null(strstr(tell(in_value, sizeof in_value - 1), "BAD 400"));
	assert_non_null(strstr(tell(in_name, sizeof in_name - 1), "BAD 400"));
	assert_non_null(strstr(tell(first, sizeof first - 1), "BAD 400"));
}

/* ---- chunks, beside a reader of their grammar ---------------------------------------------------------------- */

static const char *twin_line(const char *at, const char *end) {
	const char *cr = at;
	while (cr < end && *cr != '\r' && *cr != '\n')
		cr++;
	return end - cr >= 2 && cr[0] == '\r' && cr[1] == '\n' ? cr + 2 : NULL;
}

/* RFC 9112 7.1, read as it is written. Returns what stands behind the body; NULL where it is none. */
static const char *twin_body(const char *at, const char *end, char *body, size_t *len) {
	for (*len = 0;;) {
		const char *line = twin_line(at, end);
		char *stop;
		if (line == NULL || !isxdigit((unsigned char)*at) || (*at == '0' && (at[1] | 0x20) == 'x'))
			return NULL;
		unsigned long size = strtoul(at, &stop, 16);
		while (*stop == ' ' || *stop == '\t')
			stop++;
		if (stop != line - 2 && *stop != ';')
			return NULL;
		at = line;
		if (size == 0)
			break;
		if (size + 2 > (size_t)(end - at) || at[size] != '\r' || at[size + 1] != '\n')
			return NULL;
		memcpy(body + *len, at, size);
		*len += size;
		at += size + 2;
	}
	for (;;) {
		const char *line = twin_line(at, end);
		if (line == NULL || line == at + 2)
			return line;
		if (*at == ':' || memchr(at, ':', (size_t)(line - at)) == NULL)
			return NULL;
		at = line;
	}
}

/* Every byte of a chunked body becomes every other: it is refused, waited for, or what the grammar makes of it. */
static void test_chunks_are_the_grammar_s(void **state) {
	static const char start[] = "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n",
					  body[] = "3\r\nabc\r\n00a;x=y\r\n0123456789\r\n0;z\r\nT: r\r\n\r\n",
					  next[] = "GET /b HTTP/1.1\r\n" H "\r\n";
	char bytes[512], joined[128];
	size_t before = sizeof start - 1, len = before + sizeof body - 1, all = len + sizeof next - 1, taken = 0, used;
	(void)state;
	for (size_t i = 0; i < (sizeof body - 1) * 256; i++) {
		struct sl_http_parser parser;
		size_t joined_len;
		memcpy(bytes, start, before);
		memcpy(bytes + before, body, sizeof body - 1);
		memcpy(bytes + len, next, sizeof next - 1);
		bytes[before + i / 256] = (char)(i % 256);
		sl_http_parser_init(&parser);
		if (sl_http_parse(&parser, bytes, all, &used) == SL_HTTP_REQUEST) {
			const char *behind = twin_body(bytes + before, bytes + all, joined, &joined_len);
			if (behind != bytes + used || joined_len != parser.request.body.len ||
			    memcmp(joined, parser.request.body.data, joined_len) != 0)
				fail_msg("byte %zu as %zu was taken", i / 256, i % 256);
			taken++;
		}
		sl_http_parser_free(&parser);
	}
	assert_in_range(taken, sizeof body - 1, 10000); /* 256 values of each byte of data, and more */
}

/* ---- heads, beside a reader of theirs ------------------------------------------------------------------------- */

static bool twin_token(const char *at, const char *end) {
	const char *from = at;
	while (at < end && (isalnum((unsigned char)*at) || (*at != '\0' && strchr("!#$%&'*+-.^_`|~", *at) != NULL)))
		at++;
	return at == end && at != from;
}

static bool twin_value(const char *at, const char *end) {
	while (at < end && ((unsigned char)*at >= ' ' || *at == '\t') && *at != 0x7f)
		at++;
	return at == end;
}

/* RFC 9112 3 and 5: a request line, and header lines to the empty one. Returns what stands behind; NULL where it is no
 * head. `*len` is of the body by the one Content-Length; -1: there are chunks. */
static const char *twin_head(const char *at, const char *end, long *len) {
	int hosts = 0, lengths = 0, codings = 0;
	const char *line = twin_line(at, end), *space = line == NULL ? NULL : memchr(at, ' ', (size_t)(line - at));
	if (space == NULL || !twin_token(at, space) || line - at < 12 || memcmp(line - 11, " HTTP/1.", 8) != 0)
		return NULL;
	bool old = line[-3] == '0'; /* HTTP/1.0 needs no Host */
	for (*len = 0, at = line; (line = twin_line(at, end)) != NULL && line != at + 2; at = line) {
		const char *colon = memchr(at, ':', (size_t)(line - at)), *value = colon + 1;
		if (colon == NULL || !twin_token(at, colon) || !twin_value(value, line - 2))
			return NULL;
		value += strspn(value, " \t");
		hosts += colon - at == 4 && strncasecmp(at, "host", 4) == 0;
		codings += colon - at == 17 && strncasecmp(at, "transfer-encoding", 17) == 0;
		if (colon - at == 14 && strncasecmp(at, "content-length", 14) == 0) {
			size_t digits = strspn(value, "0123456789");
			lengths++;
			*len = strtol(value, NULL, 10);
			if (digits == 0 || value + digits + strspn(value + digits, " \t") != line - 2)
				return NULL;
		}
	}
	*len = codings != 0 ? -1 : *len;
	return hosts > 1 || (hosts == 0 && !old) || lengths + codings > 1 ? NULL : line;
}

/* One byte of a head becomes every other, or two become any: it is refused, waited for, or what the twin makes of
 * it. */
static void test_heads_are_the_grammar_s(void **state) {
	static const char *const heads[] = {
		"POST /a?b HTTP/1.1\r\nHost: x:80\r\nContent-Length: 3\r\nA-b: c d\r\n\r\n",
		"GET http://h/ HTTP/1.1\r\nhost:x\r\n\r\n",
		"PUT * HTTP/1.1\r\nTransfer-Encoding:chunked\r\nHost: [::1]\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	};
	char bytes[512], body[512];
	size_t used, taken = 0;
	(void)state;
	random_state = (uint64_t)time(NULL) * 2654435761u | 1;
	printf("seed %llu\n", (unsigned long long)random_state);
	for (size_t i = 0; i < 200000; i++) {
		const char *head = heads[i % 3];
		size_t len = strlen(head), body_len;
		size_t all = (size_t)snprintf(bytes, sizeof bytes, "%s3\r\nabc\r\n0\r\n\r\nGET /c HTTP/1.1\r\n" H "\r\n", head);
		bytes[i / 3 / 256 % len] = (char)(i / 3 % 256);
		if (i >= 100000)
			bytes[next_random() % len] = "\r\n :\t0aA;,"[next_random() % 10];
		struct sl_http_parser parser;
		sl_http_parser_init(&parser);
		if (sl_http_parse(&parser, bytes, all, &used) == SL_HTTP_REQUEST) {
			long want;
			const char *at = bytes + (strncmp(bytes, "\r\n", 2) == 0 ? 2 : 0);
			const char *behind = twin_head(at, bytes + all, &want);
			if (behind != NULL && want >= 0)
				behind += want;
			else if (behind != NULL)
				behind = twin_body(behind, bytes + all, body, &body_len);
			if (behind != bytes + used)
				fail_msg("taken: %.*s", (int)all, bytes);
			taken++;
		}
		sl_http_parser_free(&parser);
	}
	assert_true(taken > 5000);
}

/* ---- bounds, to the byte ------------------------------------------------------------------------------------- */

static char big[512 * 1024];

/* A request whose head has exactly `len` bytes. */
static size_t make_head(size_t len) {
	size_t at = (size_t)snprintf(big, sizeof big, "GET /a HTTP/1.1\r\n" H "A: ");
	memset(big + at, 'x', len - at - 4);
	memcpy(big + len - 4, "\r\n\r\n", 4);
	return len;
}

static void test_head_bound(void **state) {
	(void)state;
	assert_string_equal(tell(big, make_head(SL_HTTP_HEAD_BYTES_MAX)), "GET /a? 1.1 keep []\n");
	assert_non_null(strstr(tell(big, make_head(SL_HTTP_HEAD_BYTES_MAX + 1)), "BAD 431"));
	/* refused without waiting for its end, and not a byte earlier */
	make_head(SL_HTTP_HEAD_BYTES_MAX + 100);
	assert_string_equal(tell(big, SL_HTTP_HEAD_BYTES_MAX - 1), "");
	assert_non_null(strstr(tell(big, SL_HTTP_HEAD_BYTES_MAX), "BAD 431"));
	memset(big, 'x', sizeof big);
	memcpy(big, "GET /", 5);
	assert_non_null(strstr(tell(big, SL_HTTP_HEAD_BYTES_MAX), "BAD 414"));
}

static size_t make_fields(unsigned count) {
	size_t at = (size_t)snprintf(big, sizeof big, "GET /a HTTP/1.1\r\n" H);
	for (unsigned i = 1; i < count; i++)
		at += (size_t)snprintf(big + at, sizeof big - at, "A%u: b\r\n", i);
	return at + (size_t)snprintf(big + at, sizeof big - at, "\r\n");
}

static void test_field_bound(void **state) {
	(void)state;
	assert_string_equal(tell(big, make_fields(SL_HTTP_FIELDS_MAX)), "GET /a? 1.1 keep []\n");
	assert_non_null(strstr(tell(big, make_fields(SL_HTTP_FIELDS_MAX + 1)), "BAD 431"));
}

/* A chunked request of `count` chunks of `size` bytes. */
static size_t make_chunks(size_t count, size_t size) {
	size_t at = (size_t)snprintf(big, sizeof big, "POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
	for (size_t i = 0; i < count; i++) {
		at += (size_t)snprintf(big + at, sizeof big - at, "%zx\r\n", size);
		memset(big + at, 'b', size);
		memcpy(big + at + size, "\r\n", 2);
		at += size + 2;
	}
	return at + (size_t)snprintf(big + at, sizeof big - at, "0\r\n\r\n");
}

static void test_method_bound(void **state) {
	char text[200];
	(void)state;
	size_t len = (size_t)snprintf(text, sizeof text, "%064d / HTTP/1.1\r\n" H "\r\n", 0);
	assert_null(strstr(tell(text, len), "BAD"));
	len = (size_t)snprintf(text, sizeof text, "%065d / HTTP/1.1\r\n" H "\r\n", 0);
	assert_string_equal(tell(text, len), "BAD 400 the method may have at most 64 bytes");
}

static void test_body_bound(void **state) {
	(void)state;
	size_t head = (size_t)snprintf(big, sizeof big, "POST /a HTTP/1.1\r\n" H "Content-Length: 65536\r\n\r\n");
	memset(big + head, 'b', 65536);
	assert_int_equal(strlen(tell(big, head + 65536)), strlen("POST /a? 1.1 keep []\n") + 65536);
	assert_int_equal(strlen(tell(big, make_chunks(64, 1024))), strlen("POST /a? 1.1 keep []\n") + 65536);
	assert_non_null(strstr(tell(big, make_chunks(65, 1024)), "BAD 413"));
	/* one byte a chunk costs six: refused before the connection's memory is full */
	assert_int_equal(strlen(tell(big, make_chunks(30000, 1))), strlen("POST /a? 1.1 keep []\n") + 30000);
	assert_non_null(strstr(tell(big, make_chunks(40000, 1)), "BAD 413"));
	assert_true(SL_HTTP_WIRE_BYTES_MAX + SL_HTTP_BODY_BYTES_MAX <= 256 * 1024);
}

/* ---- random mischief ----------------------------------------------------------------------------------------- */

/* Good and bad requests strung together, bytes changed, taken out and doubled; cut anywhere: told alike, or refused. */
static void test_mutations_are_told_alike_however_cut(void **state) {
	char bytes[2048];
	struct told whole, cut;
	(void)state;
	random_state = (uint64_t)time(NULL) * 2654435761u | 1;
	printf("seed %llu\n", (unsigned long long)random_state);
	for (int round = 0; round < 20000; round++) {
		size_t len = 0, cuts[3];
		for (int i = 0; i < 3; i++) {
			const char *from = next_random() % 3 != 0 ? good[next_random() % (sizeof good / sizeof good[0])].bytes
			                                          : bad[next_random() % (sizeof bad / sizeof bad[0])].bytes;
			memcpy(bytes + len, from, strlen(from));
			len += strlen(from);
		}
		for (uint64_t i = next_random() % 4; i > 0; i--)
			bytes[next_random() % len] = next_random() % 2 ? "\r\n :\t0aA;,"[next_random() % 10] : (char)next_random();
		cuts[0] = next_random() % (len + 1);
		cuts[1] = cuts[0] + next_random() % (len + 1 - cuts[0]);
		cuts[2] = cuts[1] + next_random() % (len + 1 - cuts[1]);
		run(&whole, whole_memory, bytes, len, NULL, 0);
		run(&cut, cut_memory, bytes, len, cuts, 3);
		assert_int_equal(whole.out.at - whole.out.start, cut.out.at - cut.out.start);
		assert_memory_equal(whole_memory, cut_memory, (size_t)(whole.out.at - whole.out.start));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_field_is_found_by_name),
		cmocka_unit_test(test_good_requests),
		cmocka_unit_test(test_a_prefix_is_never_a_request),
		cmocka_unit_test(test_continue_is_asked_for_once),
		cmocka_unit_test(test_hostile_requests),
		cmocka_unit_test(test_who_speaks_is_told),
		cmocka_unit_test(test_nul_bytes_are_refused),
		cmocka_unit_test(test_chunks_are_the_grammar_s),
		cmocka_unit_test(test_heads_are_the_grammar_s),
		cmocka_unit_test(test_head_bound),
		cmocka_unit_test(test_field_bound),
		cmocka_unit_test(test_method_bound),
		cmocka_unit_test(test_body_bound),
		cmocka_unit_test(test_mutations_are_told_alike_however_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
