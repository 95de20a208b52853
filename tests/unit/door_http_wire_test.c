/* The HTTP door: its manners on the wire: methods, lengths, pipelines, and bytes cut anywhere. */
#include "tests/unit/door_http.h"

/* ---- mechanics ----------------------------------------------------------------------------------------------- */

#define H "Host: x\r\n"

static const struct {
	unsigned status;
	const char *allow, *connection;
	const char *bytes;
} mechanics[] = {
	{404, NULL, NULL, "GET /nothing HTTP/1.1\r\n" H "\r\n"},
	{404, NULL, NULL, "GET /v1/checks HTTP/1.1\r\n" H "\r\n"},
	{404, NULL, NULL, "POST /v1/check/ HTTP/1.1\r\n" H "\r\n"},
	{404, NULL, NULL, "OPTIONS * HTTP/1.1\r\n" H "\r\n"},
	{404, NULL, NULL, "GET /%zz HTTP/1.1\r\n" H "\r\n"},
	{404, NULL, NULL, "GET /healthz%00 HTTP/1.1\r\n" H "\r\n"},
	{405, "POST", NULL, "GET /v1/check HTTP/1.1\r\n" H "\r\n"},
	{405, "POST", NULL, "DELETE /v1/reset HTTP/1.1\r\n" H "\r\n"},
	{405, "GET, HEAD", NULL, "POST /v1/limits HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}"},
	{405, "GET, HEAD", NULL, "OPTIONS /healthz HTTP/1.1\r\n" H "\r\n"},
	{200, NULL, NULL, "GET http://x/healthz HTTP/1.1\r\n" H "\r\n"},
	{200, NULL, NULL, "GET /healthz HTTP/1.1\r\n" H "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n"},
	{200, NULL, "close", "GET /healthz HTTP/1.0\r\n\r\n"},
	{200, NULL, "keep-alive", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"},
	{200, NULL, "close", "GET /healthz HTTP/1.1\r\n" H "Connection: close\r\n\r\n"},
	{400, NULL, "close", "GET /healthz HTTP/1.1\r\n\r\n"},
	{400, NULL, "close", "GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n"},
	{400, NULL, "close", "\x01nonsense\r\n"},
	{413, NULL, "close", "POST /v1/check HTTP/1.1\r\n" H "Content-Length: 1000000\r\n\r\n"},
	{413, NULL, "close", "POST /v1/check HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"},
	{400, NULL, "close", "CONNECT x:1 HTTP/1.1\r\n" H "\r\n"},
	{505, NULL, "close", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
	{400, NULL, "close", "PRI /v1/auth/envoy/x HTTP/1.1\r\n" H "\r\n"}, /* a proxy's client made it up */
	/* curl -d says it is a form; a limiter that is asked with curl takes it */
	{200, NULL, NULL,
     "POST /v1/check HTTP/1.1\r\n" H "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 31"
     "\r\n\r\n{\"key\":\"c\",\"limits\":[\"100/1m\"]}"},
	{200, NULL, NULL,
     "POST /v1/check HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n11\r\n{\"key\":\"c\",\"limit\r\ne\r\n"
     "s\":[\"100/1m\"]}\r\n0\r\n\r\n"},
	/* an expectation is refused where the request would be */
	{404, NULL, "close", "POST /nowhere HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"},
	{405, "GET, HEAD", "close", "POST /healthz HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"},
};

static void test_mechanics(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof mechanics / sizeof mechanics[0]; i++) {
		enum sl_door_verdict verdict;
		const char *bytes = mechanics[i].bytes, *at;
		reconnect();
		feed(bytes, strlen(bytes), &verdict);
		at = out.data;
		struct answer answer = read_answer(&at, out.data + out.len, false);
		if (answer.status != mechanics[i].status)
			fail_msg("%s: want %u, got %u", bytes, mechanics[i].status, answer.status);
		assert_ptr_equal(at, out.data + out.len);
		assert_header(&answer, "Allow", mechanics[i].allow);
		assert_header(&answer, "Connection", mechanics[i].connection);
		bool closes = mechanics[i].connection != NULL && strcmp(mechanics[i].connection, "close") == 0;
		assert_int_equal(verdict, closes ? SL_DOOR_CLOSE : SL_DOOR_OPEN);
		if (answer.status >= 400)
			assert_problem(&answer, answer.status, "");
		answer_free(&answer);
	}
	reconnect();
}

static void test_head_is_get_without_its_body(void **state) {
	const char *bytes =
		"GET /v1/limits HTTP/1.1\r\n" H "\r\nHEAD /v1/limits HTTP/1.1\r\n" H "\r\nHEAD /none HTTP/1.1\r\n" H
		"\r\nHEAD /v1/check HTTP/1.1\r\n" H "\r\nGET /healthz HTTP/1.1\r\n" H "\r\n";
	const char *at;
	enum sl_door_verdict verdict;
	(void)state;
	out.len = 0;
	feed(bytes, strlen(bytes), &verdict);
	at = out.data;
	struct answer whole = read_answer(&at, out.data + out.len, false);
	struct answer head = read_answer(&at, out.data + out.len, true);
	assert_string_equal(whole.head, head.head);
	answer_free(&head);
	answer_free(&whole);
	unsigned want[] = {404, 405, 200};
	for (int i = 0; i < 3; i++) {
		struct answer answer = read_answer(&at, out.data + out.len, i < 2);
		assert_int_equal(answer.status, want[i]);
		answer_free(&answer);
	}
	assert_ptr_equal(at, out.data + out.len);
}

static void test_continue_then_the_body(void **state) {
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	const char *head = "POST /v1/check HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 31\r\n\r\n";
	const char *body = "{\"key\":\"c\",\"limits\":[\"100/1m\"]}", *at;
	char bytes[256];
	enum sl_door_verdict verdict;
	(void)state;
	out.len = 0;
	assert_int_equal(feed(head, strlen(head), &verdict), 0);
	assert_int_equal(verdict, SL_DOOR_OPEN);
	assert_int_equal(out.len, sizeof go_on - 1);
	snprintf(bytes, sizeof bytes, "%s%s", head, body);
	feed(bytes, strlen(bytes), &verdict);
	assert_memory_equal(out.data, go_on, sizeof go_on - 1);
	at = out.data + sizeof go_on - 1;
	struct answer answer = read_answer(&at, out.data + out.len, false);
	assert_int_equal(answer.status, 200);
	assert_ptr_equal(at, out.data + out.len);
	answer_free(&answer);
}

static void test_nothing_is_answered_after_a_refusal(void **state) {
	const char *bytes =
		"GET /healthz HTTP/1.1\r\n" H "\r\nGET /healthz HTTP/1.1\r\nHost : x\r\n\r\nGET /healthz HTTP/1.1\r\n" H "\r\n";
	const char *at;
	enum sl_door_verdict verdict;
	(void)state;
	out.len = 0;
	assert_int_equal(feed(bytes, strlen(bytes), &verdict), strlen(bytes));
	assert_int_equal(verdict, SL_DOOR_CLOSE);
	at = out.data;
	struct answer first = read_answer(&at, out.data + out.len, false);
	struct answer second = read_answer(&at, out.data + out.len, false);
	assert_int_equal(first.status, 200);
	assert_int_equal(second.status, 400);
	assert_ptr_equal(at, out.data + out.len);
	answer_free(&first);
	answer_free(&second);
	reconnect();
}

static void test_a_long_pipeline_is_answered_in_turns(void **state) {
	const char *request = "GET /v1/limits HTTP/1.1\r\n" H "\r\n";
	enum { COUNT = 2000 };
	char *bytes = repeat("", request, COUNT, "");
	size_t len = strlen(bytes), done = 0, used, turns = 0, answers = 0;
	enum sl_door_verdict verdict;
	(void)state;
	do {
		out.len = 0;
		verdict = sl_door_http.feed(connection, &context, bytes + done, len - done, &used, &out);
		done += used;
		turns++;
		assert_true(out.len < SL_DOOR_OUTPUT_TURN + 4096);
		for (const char *at = out.data; at < out.data + out.len; answers++) {
			struct answer answer = read_answer(&at, out.data + out.len, false);
			assert_int_equal(answer.status, 200);
			answer_free(&answer);
		}
	} while (verdict == SL_DOOR_MORE);
	assert_int_equal(verdict, SL_DOOR_OPEN);
	assert_int_equal(answers, COUNT);
	assert_true(turns > 2);
	free(bytes);
}

/* One stream of everything, cut at every byte and into single bytes: the same answers to the byte. It ends as it
 * began: the counters it charges are reset. */
static void test_cuts_change_nothing(void **state) {
	static const char stream[] =
		"POST /v1/check HTTP/1.1\r\n" H "Content-Length: 42\r\n\r\n{\"key\":\"z\",\"limits\":[\"fixed-window 1/1h\"]}"
		"POST /v1/check HTTP/1.1\r\n" H
		"Transfer-Encoding: chunked\r\n\r\n2a\r\n{\"key\":\"z\",\"limits\":[\"fixed-window "
		"1/1h\"]}\r\n0\r\n\r\n"
		"GET /v1/explain?user=a%20b HTTP/1.1\r\n" H "\r\n\r\nPOST /v1/admit HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\n{"
		"POST /v1/check HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
		"HEAD /v1/limits HTTP/1.1\r\n" H "\r\nGET /none HTTP/1.1\r\n" H "\r\n"
		"POST /v1/reset HTTP/1.1\r\n" H "Content-Length: 42\r\n\r\n{\"key\":\"z\",\"limits\":[\"fixed-window 1/1h\"]}"
		"GET /healthz HTTP/1.1\r\n" H "Connection: close\r\n\r\n";
	const size_t len = sizeof stream - 1;
	enum sl_door_verdict verdict;
	(void)state;
	reconnect();
	feed(stream, len, &verdict);
	assert_int_equal(verdict, SL_DOOR_CLOSE);
	char *want = strndup(out.data, out.len);
	size_t want_len = out.len;
	assert_non_null(strstr(want, "HTTP/1.1 429"));
	assert_non_null(strstr(want, "{\"reset\":1}"));
	for (size_t cut = 0; cut <= len; cut++) {
		reconnect();
		size_t done = feed(stream, cut, &verdict);
		feed(stream + done, len - done, &verdict);
		assert_int_equal(out.len, want_len);
		assert_memory_equal(out.data, want, want_len);
	}
	reconnect();
	for (size_t at = 1, done = 0; at <= len; at++)
		done += feed(stream + done, at - done, &verdict);
	assert_int_equal(out.len, want_len);
	assert_memory_equal(out.data, want, want_len);
	free(want);
	reconnect();
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_mechanics),
		TEST(test_head_is_get_without_its_body),
		TEST(test_continue_then_the_body),
		TEST(test_nothing_is_answered_after_a_refusal),
		TEST(test_a_long_pipeline_is_answered_in_turns),
		TEST(test_cuts_change_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
