/* Lines of logs: what each format says, what is refused and why, and that no byte of a line is trusted.
 *
 * Instants are written as their Unix seconds, computed with date(1), not with the code under test. */
#include "proto/logline.h"
#include "proto/logtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sl_logline_scratch scratch;

static bool parse(enum sl_log_format format, const char *text, struct sl_logline *line) {
	struct sluice_error error = {0};
	bool fine = sl_logline_parse(format, sl_str(text), &scratch, line, &error);
	if (!fine) {
		assert_true(error.column >= 1 && error.column <= strlen(text) + 1);
		assert_true(strlen(error.text) > 0 && strchr(error.text, '\n') == NULL);
	}
	return fine;
}

/* `wanted` NULL: the line does not say. */
static void expect(struct sluice_bytes got, const char *wanted) {
	if (wanted == NULL) {
		assert_null(got.data);
		return;
	}
	assert_int_equal(got.len, strlen(wanted));
	assert_memory_equal(got.data, wanted, got.len);
}

static void ops_lines(void **state) {
	static const struct {
		const char *text, *key;
		uint64_t ms;
		uint32_t cost;
	} fine[] = {
		{"1521911720615 10.164.94.120 1", "10.164.94.120", 1521911720615, 1},
		{"1521911720615 llm", "llm", 1521911720615, 1},
		{"0 k 0", "k", 0, 0},
		{"9223372036854 k 4294967295", "k", 9223372036854, 4294967295},
		{"  7\tkey/with=any,bytes\xff  3  ", "key/with=any,bytes\xff", 7, 3},
		{"7 7 7", "7", 7, 7},
	};
	(void)state;
	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
		struct sl_logline line;
		assert_true(parse(SL_LOG_OPS, fine[i].text, &line));
		expect(line.key, fine[i].key);
		assert_int_equal(line.time, fine[i].ms * 1000000);
		assert_int_equal(line.cost, fine[i].cost);
		assert_null(line.ip.data);
	}
}

static void ops_refused(void **state) {
	static const struct {
		const char *text;
		uint32_t column;
	} bad[] = {
		{"", 1},
		{" ", 2},
		{"key 1", 1},
		{"-5 k", 1},
		{"1.5 k", 1},
		{"1e3 k", 1},
		{"18446744073710 k", 1},
		{"99999999999999999999 k", 1},
		{"100000000000000000000000 k", 1},
		{"5", 2},
		{"5 ", 3},
		{"5 k x", 5},
		{"5 k -1", 5},
		{"5 k 4294967296", 5},
		{"5 k 1 1", 7},
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_logline line;
		struct sluice_error error;
		assert_false(sl_logline_parse(SL_LOG_OPS, sl_str(bad[i].text), &scratch, &line, &error));
		assert_int_equal(error.column, bad[i].column);
	}
}

static void ops_key_lengths(void **state) {
	char text[SLUICE_KEY_BYTES_MAX + 8];
	struct sl_logline line;
	(void)state;
	memcpy(text, "12 ", 3);
	memset(text + 3, 'k', SLUICE_KEY_BYTES_MAX + 1);
	text[3 + SLUICE_KEY_BYTES_MAX + 1] = '\0';
	assert_true(parse(SL_LOG_OPS, text, &line));
	assert_int_equal(line.key.len, SLUICE_KEY_BYTES_MAX + 1);
	text[3 + SLUICE_KEY_BYTES_MAX] = '\0';
	assert_true(parse(SL_LOG_OPS, text, &line));
	assert_int_equal(line.key.len, SLUICE_KEY_BYTES_MAX);
}

struct access {
	const char *text;
	uint64_t s;
	const char *ip, *user, *method, *path, *host, *status;
};

static void expect_access(enum sl_log_format format, const struct access *wanted) {
	struct sl_logline line;
	if (!parse(format, wanted->text, &line))
		fail_msg("not read: %s", wanted->text);
	assert_int_equal(line.time, wanted->s * 1000000000);
	assert_int_equal(line.cost, 1);
	expect(line.ip, wanted->ip);
	expect(line.user, wanted->user);
	expect(line.method, wanted->method);
	expect(line.path, wanted->path);
	expect(line.host, wanted->host);
	expect(line.status, wanted->status);
	expect(line.key, NULL);
}

#define AT "[17/May/2015:10:05:03 +0000] "
#define AT_S 1431857103
#define ROOT AT "\"GET / HTTP/1.1\" 200 5"

#define LISTED "h.example:80 1.2.3.4, 10.0.0.7 10.0.0.5 - bob"

static const struct access common[] = {
	{"83.149.9.216 - - " AT "\"GET /a.png HTTP/1.1\" 200 203023", AT_S, "83.149.9.216", NULL, "GET", "/a.png", NULL,
     "200"},
	{"2001:db8::1 - alice " AT "\"POST /x?y=1 HTTP/2.0\" 404 -", AT_S, "2001:db8::1", "alice", "POST", "/x?y=1", NULL,
     "404"},
	{"h.example ident J. R. Hacker " AT "\"GET / HTTP/1.0\" - 0", AT_S, "h.example", "J. R. Hacker", "GET", "/", NULL,
     NULL},
	{"1.2.3.4 - [17/May] " AT "\"GET / HTTP/1.0\" 200 0", AT_S, "1.2.3.4", "[17/May]", "GET", "/", NULL, "200"},
	/* A name that would set the clock back. */
	{"1.2.3.4 - [01/Jan/2001:00:00:00 +0000] \\\"x " AT "\"GET / HTTP/1.0\" 200 0", AT_S, "1.2.3.4",
     "[01/Jan/2001:00:00:00 +0000] \"x", "GET", "/", NULL, "200"},
	{"1.2.3.4 - \"\" " AT "\"GET / HTTP/1.0\" 200 0", AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	/* Combined, whole and cut in the agent, as logs of full disks are. */
	{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 200 5 \"http://r/\" \"Mozilla/5.0 (X)\"", AT_S, "1.2.3.4", NULL, "GET", "/",
     NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 200 5 \"-\" \"Mozil", AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	/* Apache's vhost_combined. */
	{"www.example:443 1.2.3.4 - bob " AT "\"GET / HTTP/1.1\" 200 5", AT_S, "1.2.3.4", "bob", "GET", "/",
     "www.example:443", "200"},
	/* The zone counts: the same instant, written elsewhere. */
	{"1.2.3.4 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/", NULL,
     "200"},
	{"1.2.3.4 - - [17/May/2015:02:35:03 -0730] \"GET / HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/", NULL,
     "200"},
	/* Requests that are none still are somebody's. */
	{"1.2.3.4 - - " AT "\"-\" 408 0", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL, "408"},
	{"1.2.3.4 - - " AT "\"\" 400 0", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL, "400"},
	{"1.2.3.4 - - " AT "\"\\x16\\x03\\x01\" 400 150", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL, "400"},
	/* Escapes, as Apache and nginx write them. */
	{"1.2.3.4 - - " AT "\"GET /\\\"a\\\" HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/\"a\"", NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET /\\x41\\x5C\\q\\t HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/A\\\\q\t", NULL,
     "200"},
	{"1.2.3.4 - - " AT "\"GET /a\\\\\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/a\\", NULL, "200"},
	/* Odd requests: HTTP/0.9, spaces in the target, a proxy's absolute target. */
	{"1.2.3.4 - - " AT "\"GET /old\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/old", NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET /a b c\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/a b c", NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET /a b c HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "/a b c", NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET http://H:80/a?b HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "GET", "http://H:80/a?b",
     "H:80", "200"},
	{"1.2.3.4 - - " AT "\"OPTIONS * HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, "OPTIONS", "*", NULL, "200"},
	{"1.2.3.4 - - " AT "\"GET  HTTP/1.1\" 200 5", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL, "200"},
	/* A host in front with a port, or a name before an address. */
	{"127.0.1.1:80 1.2.3.4 - - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", "127.0.1.1:80", "200"},
	{"[::1]:80 2001:db8::1 - bob " ROOT, AT_S, "2001:db8::1", "bob", "GET", "/", "[::1]:80", "200"},
	{"example.com:80 h7.example.net - - " ROOT, AT_S, "h7.example.net", NULL, "GET", "/", "example.com:80", "200"},
	{"_ 1.2.3.4 - - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", "_", "200"},
	/* A port of the client's own. */
	{"1.2.3.4:5555 - bob " ROOT, AT_S, "1.2.3.4:5555", "bob", "GET", "/", NULL, "200"},
	{"[2001:db8::1]:5555 - - " ROOT, AT_S, "[2001:db8::1]:5555", NULL, "GET", "/", NULL, "200"},
	/* X-Forwarded-For in front, with and without the peer that sent it; a request that has none. */
	{"1.2.3.4 10.0.0.5 - - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	{"1.2.3.4, 10.0.0.7 - - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	{"1.2.3.4,10.0.0.8,  10.0.0.7 - J. R. Hacker " ROOT, AT_S, "1.2.3.4", "J. R. Hacker", "GET", "/", NULL, "200"},
	{LISTED " " ROOT, AT_S, "1.2.3.4", "bob", "GET", "/", "h.example:80", "200"},
	{"- 10.0.0.5 - - " ROOT, AT_S, "10.0.0.5", NULL, "GET", "/", NULL, "200"},
	/* An address for an identity, as where a server logs its own. */
	{"1.2.3.4 5.6.7.8 bob " ROOT, AT_S, "1.2.3.4", "bob", "GET", "/", NULL, "200"},
	{"1.2.3.4 5.6.7.8 - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	{"1.2.3.4 - john doe " ROOT, AT_S, "1.2.3.4", "john doe", "GET", "/", NULL, "200"},
	{"1.2.3.4 - a-b -c " ROOT, AT_S, "1.2.3.4", "a-b -c", "GET", "/", NULL, "200"},
	/* fields of somebody's own */
	{"1.2.3.4 - - www.example " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	{"1.2.3.4 - -  www.example 0.003 " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	/* older ingress-nginx */
	{"1.2.3.4 - [1.2.3.4, 10.0.0.7] - - " ROOT, AT_S, "1.2.3.4", NULL, "GET", "/", NULL, "200"},
	{"1.2.3.4 - [1.2.3.4] - bob " ROOT, AT_S, "1.2.3.4", "bob", "GET", "/", NULL, "200"},
};

static void common_lines(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
		expect_access(SL_LOG_COMMON, &common[i]);
		expect_access(SL_LOG_COMBINED, &common[i]);
		expect_access(SL_LOG_AUTO, &common[i]);
	}
}

static void common_refused(void **state) {
	static const struct {
		const char *text;
		uint32_t column;
	} bad[] = {
		{"", 1},
		{"no time here", 1},
		{"1.2.3.4 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [29/Feb/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [17/May/2015:24:00:00 +0000] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [17/May/2015:10:05:03] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [17/May/1969:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [01/Jan/1970:00:59:59 +0100] \"GET / HTTP/1.1\" 200 5", 13},
		{"1.2.3.4 - - [17/May/9999:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", 13},
		{AT "\"GET / HTTP/1.1\" 200 5", 1},
		{"1.2.3.4 " AT "\"GET / HTTP/1.1\" 200 5", 1},
		{", - - " ROOT, 1},
		/* What syslog, journald, Docker and Kubernetes put in front; fields of somebody's own. */
		{"Nov 29 19:00:01 web1 nginx: 1.2.3.4 - - " ROOT, 1},
		{"Nov 29 19:00:01 web1 nginx[12]: 1.2.3.4 - bob " ROOT, 1},
		{"<190>Nov 29 19:00:01 web1 nginx: 1.2.3.4 - - " ROOT, 1},
		{"nginx: 1.2.3.4 - - " ROOT, 1},
		{"web-1 | 1.2.3.4 - - " ROOT, 1},
		{"web-1  | 1.2.3.4 - john doe " ROOT, 1},
		{"[pod/web-1/nginx] 1.2.3.4 - - " ROOT, 1},
		{"2015-05-17T10:05:03.123456789Z stdout F 1.2.3.4 - - " ROOT, 1},
		{"2015-05-17T10:05:03Z 1.2.3.4 - - " ROOT, 1},
		{"unknown host7.example.net - - " ROOT, 1},
		{"example.com:80 - - - " ROOT, 1},
		{"h.example - - 0.003 " ROOT, 1},
		{"10.0.0.9 - - 1.2.3.4 bob " ROOT, 1},
		{"10.0.0.9 - - web1 - " ROOT, 1},
		{"1.2.3.4 - - " AT, 42},
		{"1.2.3.4 - - " AT "GET / HTTP/1.1 200 5", 42},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1", 42},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\\", 42},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\"", 58},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 20 5", 59},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 2000 5", 59},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 200", 62},
		{"1.2.3.4 - - " AT "\"GET / HTTP/1.1\" 200 -5", 63},
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_logline line;
		struct sluice_error error;
		if (sl_logline_parse(SL_LOG_COMMON, sl_str(bad[i].text), &scratch, &line, &error))
			fail_msg("read: %s", bad[i].text);
		if (error.column != bad[i].column)
			fail_msg("column %u, not %u, of: %s", error.column, bad[i].column, bad[i].text);
	}
}

static const struct access json[] = {
	/* nginx with escape=json; the request as one line */
	{"{\"time\":\"2015-05-17T10:05:03+00:00\",\"remote_addr\":\"1.2.3.4\",\"request\":\"GET /a?b HTTP/1.1\","
     "\"status\":200,\"remote_user\":\"\",\"http_host\":\"www.example\"}",
     AT_S, "1.2.3.4", NULL, "GET", "/a?b", "www.example", "200"},
	/* nginx's $msec and $time_local */
	{"{\"msec\":1431857103.000,\"ip\":\"1.2.3.4\",\"status\":\"404\"}", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL, "404"},
	{"{\"time_local\":\"17/May/2015:12:05:03 +0200\",\"ip\":\"1.2.3.4\"}", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL,
     NULL},
	/* Caddy: nested, and what it believes of the client before the mere peer */
	{"{\"level\":\"info\",\"ts\":1431857103,\"logger\":\"http.log.access\",\"request\":{\"remote_ip\":\"10.0.0.1\","
     "\"client_ip\":\"1.2.3.4\",\"method\":\"GET\",\"host\":\"h\",\"uri\":\"/u?q\"},\"user_id\":\"\",\"status\":200}",
     AT_S, "1.2.3.4", NULL, "GET", "/u?q", "h", "200"},
	/* Traefik */
	{"{\"ClientHost\":\"1.2.3.4\",\"ClientUsername\":\"-\",\"RequestMethod\":\"PUT\",\"RequestPath\":\"/p\","
     "\"RequestHost\":\"h\",\"DownstreamStatus\":201,\"time\":\"2015-05-17T10:05:03Z\"}",
     AT_S, "1.2.3.4", NULL, "PUT", "/p", "h", "201"},
	/* Elastic's names, nested and flat; a load balancer's nested request */
	{"{\"@timestamp\":\"2015-05-17T10:05:03.000Z\",\"source\":{\"ip\":\"1.2.3.4\"},\"http.request.method\":\"GET\","
     "\"url\":{\"path\":\"/e\"},\"user\":{\"name\":\"eve\"}}",
     AT_S, "1.2.3.4", "eve", "GET", "/e", NULL, NULL},
	{"{\"timestamp\":\"2015-05-17T10:05:03Z\",\"httpRequest\":{\"remoteIp\":\"1.2.3.4\",\"requestMethod\":\"GET\","
     "\"requestUrl\":\"https://h/p\",\"status\":200}}",
     AT_S, "1.2.3.4", NULL, "GET", "https://h/p", "h", "200"},
	/* a host of its own goes before that of the target */
	{"{\"ts\":1431857103,\"url\":\"https://h/p\",\"host\":\"own\"}", AT_S, NULL, NULL, NULL, "https://h/p", "own",
     NULL},
	{"{\"ts\":1431857103,\"url\":\"/p?to=https://h/p\"}", AT_S, NULL, NULL, NULL, "/p?to=https://h/p", NULL, NULL},
	/* whole numbers beyond 63 bits, which are text; the others of such a line stay what they are */
	{"{\"ts\":1431857103,\"ip\":\"1.2.3.4\",\"trace\":18446744073709551615,\"status\":200}", AT_S, "1.2.3.4", NULL,
     NULL, NULL, NULL, "200"},
	{"{\"ts\":1431857103000000000,\"ids\":[99999999999999999999,-9223372036854775809, 1.0000000000000000000e2,true],"
     "\"path\":\"/\\\"\\\\99999999999999999999\",\"user\":18446744073709551615}",
     AT_S, NULL, "18446744073709551615", NULL, "/\"\\99999999999999999999", NULL, NULL},
	/* Envoy and Istio; Cloudflare's Logpush; AWS' API Gateway */
	{"{\"start_time\":\"2015-05-17T10:05:03.000Z\",\"method\":\"GET\",\"path\":\"/e\",\"authority\":\"h\","
     "\"response_code\":200,\"x_forwarded_for\":\"5.6.7.8\",\"downstream_remote_address\":\"1.2.3.4:5555\"}",
     AT_S, "1.2.3.4:5555", NULL, "GET", "/e", "h", "200"},
	{"{\"ClientIP\":\"1.2.3.4\",\"ClientRequestHost\":\"h\",\"ClientRequestMethod\":\"GET\",\"ClientRequestURI\":"
     "\"/u?q\",\"EdgeResponseStatus\":200,\"EdgeStartTimestamp\":\"2015-05-17T10:05:03Z\"}",
     AT_S, "1.2.3.4", NULL, "GET", "/u?q", "h", "200"},
	{"{\"ClientIP\":\"1.2.3.4\",\"EdgeStartTimestamp\":1431857103000000000}", AT_S, "1.2.3.4", NULL, NULL, NULL, NULL,
     NULL},
	{"{\"ip\":\"1.2.3.4\",\"user\":\"-\",\"requestTime\":\"17/May/2015:10:05:03 +0000\",\"httpMethod\":\"GET\","
     "\"resourcePath\":\"/r/{id}\",\"status\":\"200\"}",
     AT_S, "1.2.3.4", NULL, "GET", NULL, NULL, "200"},
	{" {\"ts\":1431857103000,\"client\":\"1.2.3.4\",\"user\":42,\"path\":\"\\u002fA\"} ", AT_S, "1.2.3.4", "42", NULL,
     "/A", NULL, NULL},
	{"{\"ts\":1431857103000000,\"ip\":null,\"user\":true}", AT_S, NULL, NULL, NULL, NULL, NULL, NULL},
	{"{\"ts\":1431857103000000000}", AT_S, NULL, NULL, NULL, NULL, NULL, NULL},
};

static void json_lines(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof json / sizeof *json; i++) {
		expect_access(SL_LOG_JSON, &json[i]);
		expect_access(SL_LOG_AUTO, &json[i]);
	}
}

static void json_cost_and_key(void **state) {
	struct sl_logline line;
	(void)state;
	assert_true(parse(SL_LOG_JSON, "{\"ts\":1,\"cost\":4294967295,\"key\":\"k\\u0000\"}", &line));
	assert_int_equal(line.cost, 4294967295);
	assert_true(line.cost_said);
	assert_int_equal(line.key.len, 2);
	assert_memory_equal(line.key.data, "k\0", 2);
	assert_true(
		parse(SL_LOG_JSON, "{\"ts\":1,\"cost\":null,\"method\":\"no method\",\"request\":\"GET / HTTP/1.1\"}", &line));
	assert_int_equal(line.cost, 1);
	assert_false(line.cost_said);
	assert_null(line.method.data);
}

static void json_durations(void **state) {
	static const struct {
		const char *text;
		int64_t us; /* -1: the line says none */
	} rows[] = {
		{"\"request_time\":\"0.250\"", 250000},
		{"\"request_time\":3", 3000000},
		{"\"duration\":0.0005", 500},
		{"\"duration\":5", 5000},
		{"\"duration\":\"5\"", 5000},
		{"\"duration\":\"5.0\"", 5000000},
		{"\"latency\":\"1.5s\"", 1500000},
		{"\"latency\":\"350\xc2\xb5s\"", 350},
		{"\"latency\":\"2m\"", 120000000},
		{"\"duration\":\"1m2.5s\"", 62500000},
		{"\"duration\":\"1h2m3s\"", 3723000000},
		{"\"duration\":\"0s\"", 0},
		{"\"duration\":\"87840h0m0s\"", 316224000000000},
		{"\"duration\":\"87840h0m0.001s\"", -1},
		{"\"duration\":\"1m2\"", -1},
		{"\"duration\":\"1m-2s\"", -1},
		{"\"duration\":\"1m2 s\"", -1},
		{"\"latency\":2345000,\"latency_human\":\"2.345ms\"", 2345}, /* Echo's */
		{"\"trace\":18446744073709551615,\"duration\":5", 5000},
		{"\"duration_ms\":1.5", 1500},
		{"\"Duration\":1500000", 1500},
		{"\"event\":{\"duration\":1000}", 1},
		{"\"httpRequest\":{\"latency\":\"0.1s\"}", 100000},
		{"\"duration\":-1,\"duration_ms\":2", 2000}, /* the first that can be read */
		{"\"duration\":0", 0},
		{"\"duration_s\":316224000", 316224000000000}, /* 3660 d, and no more */
		{"\"duration_s\":316224001", -1},
		{"\"duration\":1e999", -1},
		{"\"duration\":\"1e999\"", -1},
		{"\"duration\":\"nan\"", -1},
		{"\"duration\":\"-0.5s\"", -1},
		{"\"duration\":\"5 parsecs\"", -1},
		{"\"duration\":\"\"", -1},
		{"\"duration\":null", -1},
		{"\"duration\":[5]", -1},
		{"\"event\":{\"duration\":{}}", -1},
		{"\"took\":5", -1},
	};
	struct sl_logline line;
	char text[128];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(text, sizeof text, "{\"ts\":1,%s}", rows[i].text);
		bool read = parse(SL_LOG_JSON, text, &line);
		print_message("%s\n", text);
		if (strstr(text, ":1e999") != NULL) { /* which is no number of JSON's */
			assert_false(read);
			continue;
		}
		assert_true(read);
		assert_int_equal(line.has_duration, rows[i].us >= 0);
		if (rows[i].us >= 0)
			assert_int_equal(line.duration, (uint64_t)rows[i].us * 1000);
	}
	assert_true(parse(SL_LOG_OPS, "5 k 1", &line));
	assert_false(line.has_duration);
}

static void json_refused(void **state) {
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"7",
		"\"x\"",
		"{}",
		"{\"ts\":1}x",
		"{\"ts\":1}{\"ts\":2}",
		"{\"ts\":-1}",
		"{\"ts\":\"soon\"}",
		"{\"ts\":{}}",
		"{\"ts\":1e30}",
		"{\"ts\":-0.5}",
		"{\"ts\":99999999999999999999}",
		"{\"ts\":18446744073709551615}",
		"{\"ts\":9223372036854000001}",
		"{\"ts\":9223372036855}",
		"{\"time\":\"2262-04-12T00:00:00Z\"}",
		"{\"ts\":1,\"x\":18446744073709551615,\"y\":1e999}",
		"{\"ts\":1,\"x\":18446744073709551615",
		"{\"ts\":1,\"x\":18446744073709551615,\"\\",
		"{\"ts\":1,\"cost\":18446744073709551615}",
		"{\"ts\":1,\"cost\":-1}",
		"{\"ts\":1,\"cost\":4294967296}",
		"{\"ts\":1,\"cost\":1.5}",
		"{\"ts\":1,\"cost\":\"1\"}",
		"{\"ts\":1,\"ip\":\"\xff\"}",
		"{'ts':1}",
		"{\"time\":\"2015-13-01T00:00:00Z\"}",
		"{\"time\":\"2015-05-17\"}",
		"{\"time\":\"2015-05-17T10:05:03.Z\"}",
		"{\"time\":\"2015-05-17T10:05:03Zx\"}",
		"{\"time\":\"\"}",
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_logline line;
		if (parse(SL_LOG_JSON, bad[i], &line))
			fail_msg("read: %s", bad[i]);
	}
}

static void json_nested_deeply(void **state) {
	enum { DEPTH = 30000 };
	char *text = malloc(2 * DEPTH);
	struct sl_logline line;
	struct sluice_error error;
	(void)state;
	memset(text, '[', 2 * DEPTH);
	memcpy(text, "{\"a\":", 5);
	assert_false(sl_logline_parse(SL_LOG_JSON, sl_slice(text, 2 * DEPTH), &scratch, &line, &error));
	free(text);
}

/* A fraction lands on the very nanosecond where text says it, on the microsecond where a JSON number does. */
static void fractions(void **state) {
	static const struct {
		const char *text;
		uint64_t ns;
	} times[] = {
		{"1431857103.123456789", 123456789},
		{"1431857103123.4567", 123456700},
		{"2015-05-17T10:05:03.1Z", 100000000},
		{"2015-05-17t10:05:03,123456789123z", 123456789},
		{"2015-05-17 10:05:03.000000001 +0000", 1},
		{"2015-05-17T10:05:03", 0},
		{"2015-05-17T08:05:03.5-02:00", 500000000},
		{"17/May/2015:10:05:03.250 +0000", 250000000},
		{"1431857103.9999999999999999999999999", 999999999},
	};
	struct sl_logline line;
	sluice_ns time;
	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		if (!sl_logtime_text(sl_str(times[i].text), &time))
			fail_msg("not read: %s", times[i].text);
		assert_int_equal(time, AT_S * 1000000000ull + times[i].ns);
	}
	for (uint64_t us = 0; us < 1000000; us += 37) {
		char text[64];
		snprintf(text, sizeof text, "{\"ts\":1431857103.%06u}", (unsigned)us);
		assert_true(parse(SL_LOG_JSON, text, &line));
		assert_int_equal(line.time, AT_S * 1000000000ull + us * 1000);
	}
}

static void calendar(void **state) {
	static const struct {
		const char *text;
		uint64_t s;
	} days[] = {
		{"1970-01-01T00:00:00Z", 0},           {"1972-02-29T00:00:00Z", 68169600},
		{"1999-12-31T23:59:59Z", 946684799},   {"2000-02-29T12:00:00Z", 951825600},
		{"2016-12-31T23:59:60Z", 1483228800},  {"2024-03-01T00:00:00Z", 1709251200},
		{"2100-03-01T00:00:00Z", 4107542400},  {"2200-02-28T23:59:59Z", 7263215999},
		{"2262-04-11T23:47:15Z", 9223372035},
	};
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	sluice_ns time;
	(void)state;
	for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
		assert_true(sl_logtime_text(sl_str(days[i].text), &time));
		assert_int_equal(time, days[i].s * 1000000000);
	}
	for (int month = 0, day = 0; month < 12; day += lengths[month++]) {
		char text[32];
		snprintf(text, sizeof text, "2100-%02d-01T00:00:00Z", month + 1);
		assert_true(sl_logtime_text(sl_str(text), &time));
		assert_int_equal(time, (INT64_C(4102444800) + INT64_C(86400) * day) * 1000000000);
		for (int over = 0; over < 2; over++) {
			snprintf(text, sizeof text, "2100-%02d-%02dT00:00:00Z", month + 1, lengths[month] + over);
			assert_int_equal(sl_logtime_text(sl_str(text), &time), over == 0);
		}
	}
	assert_false(sl_logtime_text(sl_str("2262-04-11T23:47:16Z"), &time));
	assert_false(sl_logtime_text(sl_str("2100-02-29T00:00:00Z"), &time));
	assert_false(sl_logtime_text(sl_str("1970-01-01T00:00:00+00:01"), &time));
	assert_false(sl_logtime_text(sl_str("1969-12-31T23:59:59-01:00"), &time));
}

static void detection(void **state) {
	struct sl_logline line;
	(void)state;
	assert_true(parse(SL_LOG_AUTO, "1521911720615 10.164.94.120 1", &line));
	assert_int_equal(line.format, SL_LOG_OPS);
	assert_true(parse(SL_LOG_AUTO, json[0].text, &line));
	assert_int_equal(line.format, SL_LOG_JSON);
	assert_true(parse(SL_LOG_AUTO, common[0].text, &line));
	assert_int_equal(line.format, SL_LOG_COMMON);
	assert_false(parse(SL_LOG_OPS, common[0].text, &line));
	assert_false(parse(SL_LOG_JSON, common[0].text, &line));
	assert_false(parse(SL_LOG_COMMON, "1521911720615 10.164.94.120 1", &line));
}

static void too_long(void **state) {
	static const char head[] = "1.2.3.4 - - " AT "\"GET /";
	char *text = malloc(SL_LOGLINE_BYTES_MAX + 1);
	struct sl_logline line;
	struct sluice_error error;
	(void)state;
	memset(text, '\\', SL_LOGLINE_BYTES_MAX + 1); /* an escape at every byte */
	memcpy(text, head, strlen(head));
	memcpy(text + SL_LOGLINE_BYTES_MAX - 7, "\" 200 5", 7);
	text[SL_LOGLINE_BYTES_MAX - 8] = 'x';
	assert_true(sl_logline_parse(SL_LOG_AUTO, sl_slice(text, SL_LOGLINE_BYTES_MAX), &scratch, &line, &error));
	assert_true(line.path.len > 1000 && line.path.len < SL_LOGLINE_BYTES_MAX);
	text[SL_LOGLINE_BYTES_MAX] = '5';
	assert_false(sl_logline_parse(SL_LOG_AUTO, sl_slice(text, SL_LOGLINE_BYTES_MAX + 1), &scratch, &line, &error));
	free(text);
}

/* Every prefix and every one-byte change of a good line is read or refused, never anything else; each is a copy of its
 * own exact size, so that the address sanitizer sees a read past it. */
static void mutations(void **state) {
	const char *const lines[] = {
		common[7].text, common[13].text, common[14].text,
		json[3].text,   LISTED " " ROOT, "1521911720615 k 12",
	};
	struct sl_logline line;
	struct sluice_error error;
	size_t tried = 0;
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		size_t len = strlen(lines[i]);
		for (size_t at = 0; at <= len; at++) {
			for (int byte = at < len ? 0 : 255; byte < 256; byte += 5, tried++) {
				char *copy = malloc(len);
				memcpy(copy, lines[i], len);
				if (at < len)
					copy[at] = (char)byte;
				sl_logline_parse(SL_LOG_AUTO, sl_slice(copy, len), &scratch, &line, &error);
				char *prefix = malloc(at + 1);
				memcpy(prefix, copy, at);
				sl_logline_parse(SL_LOG_AUTO, sl_slice(prefix, at), &scratch, &line, &error);
				assert_true(scratch.used <= len);
				free(prefix);
				free(copy);
			}
		}
	}
	assert_true(tried > 10000);
}

/* A line means the same whatever lines came before it: the day that is remembered is a shortcut and no more. */
static void days_remembered(void **state) {
	static const char *const times[] = {
		"17/May/2015:10:05:03 +0000", "17/May/2015:23:59:60 +0000",     "17/May/2015:10:05:03 +0200",
		"17/May/2015:10:05:61 +0000", "17/May/2015:24:00:00 +0000",     "17/May/2015:10:05:03.250 +0000",
		"17/May/2015:10-05:03 +0000", "18/May/2015:10:05:03 +0000",     "17/May/2016:10:05:03 +0000",
		"17/Jun/2015:10:05:03 +0000", "17/May/2015:10:05:03 -0330",     "17/May/2015:10:05:03 Z",
		"01/Jan/1970:00:30:00 +0000", "01/Jan/1970:00:30:00 +0100",     "01/Jan/1970:01:30:00 +0100",
		"11/Apr/2262:23:47:15 +0000", "11/Apr/2262:23:47:16 +0000",     "17/May/2015:10:05:03 +00:00",
		"17/May/2015:1a:05:03 +0000", "17/May/2015:10:05:03 +0000 and", "31/Apr/2015:10:05:03 +0000",
	};
	enum { TIMES = sizeof times / sizeof *times };
	size_t shortened = 0;
	(void)state;
	for (size_t before = 0; before < TIMES; before++)
		for (size_t i = 0; i < TIMES; i++) {
			struct sl_logtime_day day = {0};
			sluice_ns time = 0, alone = 0;
			sl_logtime_clf(sl_str(times[before]), &day, &time);
			shortened += day.known && memcmp(times[i], day.date, sizeof day.date) == 0;
			size_t len = sl_logtime_clf(sl_str(times[i]), NULL, &alone);
			time = 0;
			assert_int_equal(sl_logtime_clf(sl_str(times[i]), &day, &time), len);
			assert_true(len == 0 || time == alone);
			for (size_t end = 0; end < len; end++) /* a line that ends within its time has none */
				if (sl_logtime_clf(sl_slice(times[i], end), &day, &time) != 0)
					assert_int_equal(sl_logtime_clf(sl_slice(times[i], end), NULL, &alone), end);
		}
	assert_true(shortened > 20);
}

static void request_skipped(void **state) {
	static struct sl_logline_scratch narrow = {.skips_request = true};
	struct sl_logline whole, line;
	struct sluice_error error;
	const char *text = "203.0.113.9 - alice [17/May/2015:10:05:03 +0000] \"GET http://a.example/b HTTP/1.1\" 200 5316";
	(void)state;
	assert_true(parse(SL_LOG_COMMON, text, &whole));
	assert_true(sl_logline_parse(SL_LOG_COMMON, sl_str(text), &narrow, &line, &error));
	assert_null(line.method.data);
	assert_null(line.path.data);
	assert_null(line.host.data);
	expect(whole.host, "a.example");
	expect(line.ip, "203.0.113.9");
	expect(line.user, "alice");
	expect(line.status, "200");
	assert_int_equal(line.time, whole.time);
	assert_false(sl_logline_parse(SL_LOG_COMMON, sl_slice(text, strlen(text) - 9), &narrow, &line, &error));
}

static void names(void **state) {
	(void)state;
	assert_string_equal(sl_log_formats[SL_LOG_AUTO], "auto");
	assert_string_equal(sl_log_formats[SL_LOG_COMMON], "common");
	assert_string_equal(sl_log_formats[SL_LOG_COMBINED], "combined");
	assert_string_equal(sl_log_formats[SL_LOG_JSON], "json");
	assert_string_equal(sl_log_formats[SL_LOG_OPS], "ops");
	assert_null(sl_log_formats[SL_LOG_OPS + 1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ops_lines),       cmocka_unit_test(ops_refused),
		cmocka_unit_test(ops_key_lengths), cmocka_unit_test(common_lines),
		cmocka_unit_test(common_refused),  cmocka_unit_test(json_lines),
		cmocka_unit_test(json_durations),  cmocka_unit_test(json_cost_and_key),
		cmocka_unit_test(json_refused),    cmocka_unit_test(json_nested_deeply),
		cmocka_unit_test(fractions),       cmocka_unit_test(calendar),
		cmocka_unit_test(detection),       cmocka_unit_test(too_long),
		cmocka_unit_test(mutations),       cmocka_unit_test(names),
		cmocka_unit_test(days_remembered), cmocka_unit_test(request_skipped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
