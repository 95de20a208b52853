/* The HTTP door: what it decides and answers, route by route, and what it refuses. */
#include "tests/unit/door_http.h"

/* ---- check --------------------------------------------------------------------------------------------------- */

static void test_check_allows_then_denies(void **state) {
	const char *body = "{\"key\":\"user:1\",\"limits\":[\"fixed-window 2/10s\"]}";
	struct answer answer = post("/v1/check", body);
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.body,
	                    "{\"allowed\":true,\"limit\":\"fixed-window 2/10s\",\"quota\":2,\"remaining\":1,"
	                    "\"retry_after_ms\":0,\"reset_after_ms\":10000,\"delay_ms\":0,\"limits\":["
	                    "{\"limit\":\"fixed-window 2/10s\",\"name\":\"fixed-window 2/10s\",\"key\":\"user:1\","
	                    "\"allowed\":true,\"quota\":2,\"remaining\":1,\"retry_after_ms\":0,\"reset_after_ms\":10000,"
	                    "\"delay_ms\":0,\"observed\":false}]}");
	assert_header(&answer, "Content-Type", "application/json");
	assert_header(&answer, "Date", "Thu, 01 Jan 2026 00:00:00 GMT");
	assert_header(&answer, "RateLimit-Policy", "\"fixed-window 2/10s\";q=2;w=10");
	assert_header(&answer, "RateLimit", "\"fixed-window 2/10s\";r=1;t=10");
	assert_header(&answer, "Retry-After", NULL);
	assert_header(&answer, "Connection", NULL);
	answer_free(&answer);

	context.now += 2500 * 1000000ull;
	post_for_status("/v1/check", body, 200);
	answer = post("/v1/check", body);
	assert_problem(&answer, 429, "retry in 7500 ms");
	assert_string_equal(text_of(&answer, "type"), "https://iana.org/assignments/http-problem-types#quota-exceeded");
	assert_string_equal(text_of(&answer, "title"), "Quota Exceeded");
	assert_true(json_is_false(json_object_get(answer.json, "allowed")));
	assert_string_equal(text_of(&answer, "limit"), "fixed-window 2/10s");
	assert_int_equal(number_of(answer.json, "quota"), 2);
	assert_int_equal(number_of(answer.json, "remaining"), 0);
	assert_int_equal(number_of(answer.json, "retry_after_ms"), 7500);
	assert_int_equal(number_of(answer.json, "reset_after_ms"), 7500);
	assert_int_equal(number_of(limit_of(&answer, 0), "retry_after_ms"), 7500);
	json_t *violated = json_object_get(answer.json, "violated-policies");
	assert_int_equal(json_array_size(violated), 1);
	assert_string_equal(json_string_value(json_array_get(violated, 0)), "fixed-window 2/10s");
	assert_header(&answer, "RateLimit-Policy", "\"fixed-window 2/10s\";q=2;w=10");
	assert_header(&answer, "RateLimit", "\"fixed-window 2/10s\";r=0;t=8");
	assert_header(&answer, "Retry-After", "8");
	answer_free(&answer);
	context.now += 7500 * 1000000ull;
	post_for_status("/v1/check", body, 200);
}

static void test_a_cost_above_the_quota_can_never_be_retried(void **state) {
	struct answer answer = post("/v1/check", "{\"key\":\"k\",\"cost\":11,\"limits\":[\"10/1s\"]}");
	(void)state;
	assert_problem(&answer, 429, "never");
	assert_int_equal(number_of(answer.json, "retry_after_ms"), -1);
	assert_int_equal(number_of(answer.json, "remaining"), 10);
	assert_header(&answer, "Retry-After", NULL);
	assert_header(&answer, "RateLimit", "\"sliding-window 10/1s\";r=10");
	answer_free(&answer);
}

static void test_several_limits_all_or_nothing(void **state) {
	const char *body =
		"{\"key\":\"u\",\"cost\":2,\"limits\":[\"5/1s\",{\"key\":\"ip\",\"limit\":\"fixed-window 3/1m\"},"
		"{\"limit\":\"unlimited\"}]}";
	struct answer answer = post("/v1/check", body);
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(text_of(&answer, "limit"), "fixed-window 3/1m");
	assert_int_equal(number_of(answer.json, "remaining"), 1);
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "key")), "u");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 1), "key")), "ip");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 2), "key")), "u");
	assert_header(&answer, "RateLimit-Policy", "\"sliding-window 5/1s\";q=5;w=1, \"fixed-window 3/1m\";q=3;w=60");
	assert_header(&answer, "RateLimit", "\"fixed-window 3/1m\";r=1;t=60");
	answer_free(&answer);
	answer = post("/v1/check", body);
	assert_problem(&answer, 429, "fixed-window 3/1m has 1 left, the request costs 2");
	assert_true(json_is_true(json_object_get(limit_of(&answer, 0), "allowed")));
	assert_int_equal(number_of(limit_of(&answer, 0), "remaining"), 3); /* not charged */
	answer_free(&answer);
	/* one limit for two keys: two policies of one name */
	answer = post("/v1/check", "{\"limits\":[{\"key\":\"a\",\"limit\":\"1/1s\"},{\"key\":\"b\",\"limit\":\"1/1s\"}]}");
	assert_int_equal(answer.status, 200);
	assert_header(&answer, "RateLimit-Policy", "\"sliding-window 1/1s\";q=1;w=1, \"sliding-window 1/1s\";q=1;w=1");
	answer_free(&answer);
}

static void test_a_limits_own_key_is_counted_whatever_the_bodys_is(void **state) {
	static const char *const keys[] = {"a", "b", "c", "a"};
	char body[128];
	(void)state;
	for (int i = 0; i < 4; i++) {
		snprintf(body, sizeof body, "{\"key\":\"%s\",\"limits\":[{\"key\":\"a\",\"limit\":\"5/1h\"}]}", keys[i]);
		struct answer answer = post("/v1/check", body);
		assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "key")), "a");
		assert_int_equal(number_of(answer.json, "remaining"), 4 - i);
		answer_free(&answer);
	}
}

static void test_unlimited_alone_is_told_to_nobody(void **state) {
	struct answer answer = post("/v1/check", "{\"key\":\"\",\"limits\":[\"unlimited\"]}");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(text_of(&answer, "limit"), "");
	assert_int_equal(number_of(answer.json, "quota"), 4294967295);
	assert_int_equal(number_of(answer.json, "remaining"), 4294967295);
	assert_header(&answer, "RateLimit-Policy", NULL);
	assert_header(&answer, "RateLimit", NULL);
	answer_free(&answer);
}

static void test_peek_charges_nothing(void **state) {
	const char *peek = "{\"key\":\"p\",\"limits\":[\"1/1m\"],\"peek\":true}";
	(void)state;
	for (int i = 0; i < 3; i++)
		post_for_status("/v1/check", peek, 200);
	post_for_status("/v1/check", "{\"key\":\"p\",\"limits\":[\"1/1m\"],\"peek\":false}", 200);
	post_for_status("/v1/check", peek, 429);
}

static void test_refund_and_reset(void **state) {
	(void)state;
	post_for_status("/v1/check", "{\"key\":\"r\",\"cost\":3,\"limits\":[\"3/1m\"]}", 200);
	post_for_status("/v1/check", "{\"key\":\"r\",\"limits\":[\"3/1m\"]}", 429);
	struct answer answer = post("/v1/refund", "{\"key\":\"r\",\"cost\":2,\"limits\":[\"3/1m\"]}");
	assert_int_equal(answer.status, 200);
	assert_int_equal(number_of(answer.json, "remaining"), 2);
	assert_header(&answer, "RateLimit", "\"sliding-window 3/1m\";r=2;t=120");
	answer_free(&answer);
	answer = post("/v1/reset", "{\"key\":\"r\",\"limits\":[\"3/1m\",\"4/1m\",\"3/1h\"]}");
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.body, "{\"reset\":1}"); /* 3/1m and 4/1m are one counter, 3/1h has none */
	assert_header(&answer, "RateLimit", NULL);
	answer_free(&answer);
	answer = post("/v1/check", "{\"key\":\"r\",\"cost\":0,\"limits\":[\"3/1m\"]}");
	assert_int_equal(number_of(answer.json, "remaining"), 3);
	assert_header(&answer, "RateLimit", "\"sliding-window 3/1m\";r=3");
	answer_free(&answer);
}

static void test_shaping_tells_the_delay(void **state) {
	const char *body = "{\"key\":\"s\",\"limits\":[\"leaky-bucket 10/1s queue 1\"]}";
	(void)state;
	post_for_status("/v1/check", body, 200);
	struct answer answer = post("/v1/check", body);
	assert_int_equal(answer.status, 200);
	assert_int_equal(number_of(answer.json, "delay_ms"), 100);
	assert_header(&answer, "RateLimit-Policy", "\"leaky-bucket 10/1s queue 1\";q=2;w=1");
	answer_free(&answer);
}

/* ---- admit and explain --------------------------------------------------------------------------------------- */

static void test_admit_by_policy(void **state) {
	struct answer answer =
		post("/v1/admit", "{\"attributes\":{\"user\":\"ali,ce\",\"path\":\"/search/a\"},\"cost\":2}");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(text_of(&answer, "limit"), "per-user");
	assert_int_equal(number_of(answer.json, "quota"), 600);
	assert_int_equal(number_of(answer.json, "remaining"), 598);
	assert_header(&answer, "RateLimit-Policy", "\"per-user\";q=600;w=60");
	assert_header(&answer, "RateLimit", "\"per-user\";r=598;t=90");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "name")), "per-user");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "limit")), "sliding-window 600/1m");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "key")), "user=ali%2Cce");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 1), "name")), "search");
	assert_true(json_is_true(json_object_get(limit_of(&answer, 1), "observed")));
	answer_free(&answer);
	/* the observed one is exhausted: its own answer says so, the request does not suffer */
	answer = post("/v1/admit", "{\"attributes\":{\"user\":\"ali,ce\",\"path\":\"/search/a\"},\"cost\":1}");
	assert_int_equal(answer.status, 200);
	assert_true(json_is_false(json_object_get(limit_of(&answer, 1), "allowed")));
	answer_free(&answer);
	/* an override is named as the limit that it overrides, with its own numbers */
	answer = post("/v1/admit", "{\"attributes\":{\"user\":\"bob\",\"plan\":\"pro\"}}");
	assert_header(&answer, "RateLimit-Policy", "\"per-user\";q=6000;w=60");
	answer_free(&answer);
}

static void test_admit_names_every_denying_limit(void **state) {
	const char *login = "{\"attributes\":{\"ip\":\"10.0.0.9\",\"method\":\"POST\",\"path\":\"/login\"}%s}";
	char body[256];
	(void)state;
	snprintf(body, sizeof body, login, "");
	for (int i = 0; i < 5; i++)
		post_for_status("/v1/admit", body, 200);
	snprintf(body, sizeof body, login, ",\"cost\":601");
	struct answer answer = post("/v1/admit", body);
	assert_problem(&answer, 429, "limit login (sliding-log 5/1m) has 0 left, the request costs 601");
	assert_header(&answer, "RateLimit-Policy", "\"login\";q=5;w=60, \"per-user\";q=600;w=60");
	assert_header(&answer, "RateLimit", "\"login\";r=0;t=60, \"per-user\";r=595;t=72");
	assert_int_equal(json_array_size(json_object_get(answer.json, "violated-policies")), 2);
	answer_free(&answer);
	snprintf(body, sizeof body, login, "");
	answer = post("/v1/admit", body);
	assert_problem(&answer, 429, "limit login");
	assert_header(&answer, "RateLimit", "\"login\";r=0;t=60");
	assert_header(&answer, "Retry-After", "60");
	answer_free(&answer);
}

static void assert_free(struct answer answer) {
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.body, "{\"allowed\":true,\"limit\":\"\",\"quota\":4294967295,\"remaining\":4294967295,"
	                                 "\"retry_after_ms\":0,\"reset_after_ms\":0,\"delay_ms\":0,\"limits\":[]}");
	assert_header(&answer, "RateLimit-Policy", NULL);
	assert_header(&answer, "RateLimit", NULL);
	answer_free(&answer);
}

static void test_no_limit_applies(void **state) {
	(void)state;
	assert_free(post("/v1/admit", "{\"attributes\":{}}"));
	assert_free(post("/v1/admit", "{\"attributes\":{\"nobody\":\"asks\"},\"cost\":4294967295}"));
	assert_free(post("/v1/admit", "{\"attributes\":{\"user\":\"root\"}}"));
	assert_free(get("/v1/explain"));
	use_policy("limits: []\n");
	assert_free(post("/v1/admit", "{\"attributes\":{\"user\":\"alice\"}}"));
}

static void test_explain_decodes_and_charges_nothing(void **state) {
	struct answer answer;
	(void)state;
	for (int i = 0; i < 3; i++) {
		answer = get("/v1/explain?us%65r=a+b%2Bc%25%00%FF&path=%2Fsearch%2Fx&cost=9");
		assert_int_equal(answer.status, 200);
		assert_int_equal(number_of(answer.json, "remaining"), 600);
		assert_int_equal(number_of(limit_of(&answer, 1), "remaining"), 2);
		/* bytes that are not UTF-8 are shown as U+FFFD */
		json_t *key = json_object_get(limit_of(&answer, 0), "key");
		assert_int_equal(json_string_length(key), strlen("user=a b+c%25") + 1 + 3);
		assert_memory_equal(json_string_value(key), "user=a b+c%25\0\xef\xbf\xbd", json_string_length(key));
		assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 1), "limit")),
		                    "token-bucket 10/1s burst 2");
		answer_free(&answer);
	}
	/* it explains denials too, and is not one itself */
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"u\"},\"cost\":600}", 200);
	answer = get("/v1/explain?user=u");
	assert_int_equal(answer.status, 200);
	assert_header(&answer, "Content-Type", "application/json");
	assert_true(json_is_false(json_object_get(answer.json, "allowed")));
	assert_header(&answer, "Retry-After", NULL);
	answer_free(&answer);
}

static void test_explain_refuses_what_it_cannot_read(void **state) {
	static char target[12 * 1024];
	struct answer answer = get("/v1/explain?user=%4");
	size_t at;
	(void)state;
	assert_problem(&answer, 400, "two hex digits");
	answer_free(&answer);
	answer = get("/v1/explain?=x");
	assert_problem(&answer, 400, "a name must have 1 to 64 bytes, found 0");
	answer_free(&answer);
	answer = get("/v1/explain?us%65r=a&path=/&user=a");
	assert_problem(&answer, 400, "attribute 'user' is given twice: expected each once");
	answer_free(&answer);
	at = (size_t)snprintf(target, sizeof target, "/v1/explain?user=");
	memset(target + at, 'x', 1025); /* longer than a key may be: it counts as its hash */
	answer = get(target);
	assert_int_equal(answer.status, 200);
	json_t *key = json_object_get(limit_of(&answer, 0), "key");
	assert_int_equal(json_string_length(key), 1024);
	assert_memory_equal(json_string_value(key) + 958, "x~", 2);
	answer_free(&answer);
	target[at + 1024] = '\0';
	answer = get(target);
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
	at = (size_t)snprintf(target, sizeof target, "/v1/explain?");
	for (int i = 0; i < 65; i++)
		at += (size_t)snprintf(target + at, sizeof target - at, "a%d=b&", i);
	answer = get(target);
	assert_problem(&answer, 400, "64 attributes");
	answer_free(&answer);
}

/* ---- what else is served ------------------------------------------------------------------------------------- */

static void test_limits_are_listed(void **state) {
	struct answer answer = get("/v1/limits");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_int_equal(json_array_size(json_object_get(answer.json, "limits")), 3);
	json_t *login = limit_of(&answer, 0), *user = limit_of(&answer, 1), *search = limit_of(&answer, 2);
	assert_string_equal(json_string_value(json_object_get(login, "name")), "login");
	assert_string_equal(json_string_value(json_object_get(login, "limit")), "sliding-log 5/1m");
	assert_string_equal(json_string_value(json_object_get(login, "key")), "ip");
	assert_string_equal(json_string_value(json_object_get(json_object_get(login, "when"), "path")), "/login");
	assert_string_equal(json_string_value(json_object_get(login, "on_error")), "deny");
	assert_int_equal(number_of(user, "overrides"), 2);
	assert_string_equal(json_string_value(json_object_get(user, "on_error")), "allow");
	assert_true(json_is_false(json_object_get(user, "strict")));
	assert_true(json_is_true(json_object_get(search, "observe")));
	answer_free(&answer);
}

static void test_health(void **state) {
	struct answer answer = get("/healthz");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.body, "ok\n");
	answer_free(&answer);
	answer = get("/%72eadyz?x");
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
	context.draining = true;
	answer = get("/healthz");
	assert_int_equal(answer.status, 200);
	assert_header(&answer, "Connection", "close");
	answer_free(&answer);
	answer = get("/readyz");
	assert_problem(&answer, 503, "shutting down");
	answer_free(&answer);
	context.draining = false;
	struct sl_figures figures = {.awaits_nodes = true};
	const struct sl_shared *before = context.shared, shared = {.figures = &figures};
	context.shared = &shared;
	answer = get("/readyz");
	assert_problem(&answer, 503, "no node of Redis has answered yet");
	assert_header(&answer, "Connection", NULL); /* it may be asked again over the same one */
	answer_free(&answer);
	figures.awaits_nodes = false;
	answer = get("/readyz");
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
	context.shared = before;
}

/* ---- bodies that are refused --------------------------------------------------------------------------------- */

#define LIMITS "\"limits\":[\"1/1s\"]"

static const struct {
	const char *path, *body, *detail_has;
} refused[] = {
	{"/v1/check", "", "empty"},
	{"/v1/check", "{", "line 1"},
	{"/v1/check", "{\"key\":\"a\"," LIMITS "} x", "line 1"},
	{"/v1/check", "{\"key\":\"a\",\n" LIMITS ",}", "line 2"},
	{"/v1/check", "[]", "must be a JSON object"},
	{"/v1/check", "3", "line 1"},
	{"/v1/check", "{\"key\":\"a\xff\"," LIMITS "}", "byte 0xff"},
	{"/v1/check", "{\"key\":\"\\ud800\"," LIMITS "}", "line 1"},
	{"/v1/check", "{\"key\":\"a\",\"key\":\"b\"," LIMITS "}", "duplicate"},
	{"/v1/check", "{\"key\":\"a\",\"limit\":[\"1/1s\"]}", "unknown member 'limit': did you mean limits"},
	{"/v1/check", "{\"key\":\"a\",\"coast\":1," LIMITS "}", "did you mean cost"},
	{"/v1/check", "{\"key\":\"a\",\"colour\":1," LIMITS "}",
     "unknown member 'colour': expected key, limits, cost, peek, at"},
	{"/v1/check", "{\"key\":\"a\",\"attributes\":{}," LIMITS "}", "unknown member 'attributes'"},
	{"/v1/check", "{" LIMITS "}", "key is missing"},
	{"/v1/check", "{\"key\":\"a\"}", "limits is missing"},
	{"/v1/check", "{\"key\":1," LIMITS "}", "key must be a string, found 1"},
	{"/v1/check", "{\"key\":null," LIMITS "}", "key must be a string, found null"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":\"1/1s\"}",
     "limits must be an array such as [\"100/1m\"], found a string"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[]}", "1 to 16 limits, found 0"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[1]}", "limits[0] must be a limit"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[\"1/1s\",null]}", "limits[1] must be a limit"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[\"1/1s\",\"10/1y\"]}", "limits[1], column 5: expected a unit of time"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[\"5000M/1s\"]}", "limits[0], column 1: expected at most 4294967295"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[\"\"]}", "limits[0], column 1"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[\"1/1s\\u0000\"]}", "limits[0], column"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[{\"key\":\"b\"}]}", "member limit"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[{\"key\":2,\"limit\":\"1/1s\"}]}", "limits[0].key must be a string"},
	{"/v1/check", "{\"key\":\"a\",\"limits\":[{\"kye\":\"b\",\"limit\":\"1/1s\"}]}",
     "limits[0]: unknown member 'kye': did you mean key"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":-1," LIMITS "}", "cost must be a whole number 0..4294967295, found -1"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":4294967296," LIMITS "}", "0..4294967295, found 4294967296"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":1.0," LIMITS "}",
     "cost must be a whole number 0..4294967295, found a number with"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":1e3," LIMITS "}", "cost must be a whole number"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":\"1\"," LIMITS "}",
     "cost must be a whole number 0..4294967295, found a string"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":true," LIMITS "}",
     "cost must be a whole number 0..4294967295, found true or false"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":null," LIMITS "}", "cost must be a whole number 0..4294967295, found null"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":99999999999999999999," LIMITS "}", "the number of 'cost' is too large"},
	{"/v1/check", "{\"key\":\"a\",\"cost\" : -99999999999999999999 ," LIMITS "}", "the number of 'cost' is too"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":01," LIMITS "}", "line 1"},
	{"/v1/check", "{\"key\":\"a\",\"cost\":NaN," LIMITS "}", "line 1"},
	{"/v1/check", "{\"key\":\"a\",\"peek\":1," LIMITS "}", "peek must be true or false, found 1"},
	{"/v1/check", "{\"key\":\"a\",\"at\":\"now\"," LIMITS "}", "at must be Unix milliseconds"},
	{"/v1/check", "{\"key\":\"a\",\"at\":-1," LIMITS "}", "at must be Unix milliseconds"},
	{"/v1/check", "{\"key\":\"a\",\"at\":9223372036855," LIMITS "}", "0..9223372036854, found 9223372036855"},
	{"/v1/refund", "{\"key\":\"a\",\"peek\":true," LIMITS "}", "a refund cannot be a peek"},
	{"/v1/reset", "{\"key\":\"a\",\"cost\":1," LIMITS "}", "unknown member 'cost'"},
	{"/v1/reset", "{\"key\":\"a\"}", "limits is missing"},
	{"/v1/admit", "{}", "attributes is missing"},
	{"/v1/admit", "{\"attributes\":[]}", "attributes must be an object"},
	{"/v1/admit", "{\"attributes\":{\"user\":5}}", "attribute 'user' must be a string, found a number"},
	{"/v1/admit", "{\"attributes\":{\"user\":null}}", "attribute 'user' must be a string, found null"},
	{"/v1/admit", "{\"attributes\":{\"user\":\"a\",\"user\":\"b\"}}", "duplicate"},
	{"/v1/admit", "{\"attributes\":{\"\":\"a\"}}", "1 to 64 bytes, found 0"},
	{"/v1/admit", "{\"attributes\":{\"a\\u0000b\":\"a\"}}", "NUL"},
	{"/v1/admit", "{\"attribute\":{}}", "did you mean attributes"},
	{"/v1/admit", "{\"attributes\":{},\"key\":\"a\"}", "unknown member 'key'"},
	{"/v1/admit", "{\"attributes\":{},\"cost\":-1}", "cost must be"},
};

static void test_malformed_bodies_are_refused_and_change_nothing(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		struct answer answer = post(refused[i].path, refused[i].body);
		if (answer.status != 400)
			fail_msg("%s: %u", refused[i].body, answer.status);
		assert_problem(&answer, 400, refused[i].detail_has);
		assert_header(&answer, "Connection", NULL); /* a bad body costs nobody the connection */
		assert_header(&answer, "RateLimit", NULL);
		answer_free(&answer);
	}
	post_for_status("/v1/check", "{\"key\":\"a\"," LIMITS "}", 200);
}

static void assert_repeated(const char *path, const char *before, const char *piece, size_t count, const char *after,
                            unsigned status, const char *detail_has) {
	char *body = repeat(before, piece, count, after);
	struct answer answer = post(path, body);
	if (status == 200)
		assert_int_equal(answer.status, 200);
	else
		assert_problem(&answer, status, detail_has);
	answer_free(&answer);
	free(body);
}

static void test_bounds_of_bodies(void **state) {
	(void)state;
	assert_repeated("/v1/check", "{\"key\":\"", "k", 1024, "\"," LIMITS "}", 200, NULL);
	assert_repeated("/v1/check", "{\"key\":\"", "k", 1025, "\"," LIMITS "}", 200, NULL);
	assert_repeated("/v1/check", "{\"key\":\"", "\xc3\xa9", 20000, "\"," LIMITS "}", 200, NULL);
	assert_repeated("/v1/check", "{\"key\":\"", "\\u0000", 1024, "\"," LIMITS "}", 200, NULL);
	assert_repeated("/v1/check", "{\"key\":\"a\",\"limits\":[\"1/1s\"", ",\"2/1h\"", 15, "]}", 200, NULL);
	assert_repeated("/v1/check", "{\"key\":\"a\",\"limits\":[\"1/1s\"", ",\"2/1h\"", 16, "]}", 400,
	                "1 to 16 limits, found 17");
	assert_repeated("/v1/admit", "{\"attributes\":{\"user\":\"", "v", 1024, "\"}}", 200, NULL);
	assert_repeated("/v1/admit", "{\"attributes\":{\"user\":\"", "v", 4096, "\"}}", 200, NULL);
	assert_repeated("/v1/admit", "{\"attributes\":{\"", "n", 64, "\":\"\"}}", 200, NULL);
	assert_repeated("/v1/admit", "{\"attributes\":{\"", "n", 65, "\":\"\"}}", 400, "1 to 64 bytes, found 65");
	/* nesting: refused before anything recurses */
	assert_repeated("/v1/check", "{\"key\":", "[", 10000, "", 400, "nests more than 8 deep at byte 15");
	assert_repeated("/v1/check", "", "{\"a\":", 10000, "", 400, "nests more than 8 deep");
	assert_repeated("/v1/check", "{\"key\":\"", "[\\\"", 100, "\"," LIMITS "}", 200,
	                NULL); /* in a string: no nesting */
	assert_repeated("/v1/check", "", "]", 60000, "", 400, "line 1");
	assert_repeated("/v1/check", "{\"cost\":", "9", 60000, "}", 400, "too large");
	assert_repeated("/v1/check", "{\"", "x", 60000, "\":1}", 400, "unknown member 'xxx");
	assert_repeated("/v1/check", "", " ", 65537, "", 413, "65536");
}

static void test_the_longest_answer_fits(void **state) {
	char *body = repeat("{\"key\":\"", "\\u0001", 1024,
	                    "\",\"cost\":9,\"limits\":[\"sliding-buckets 1/52w precision 1w edge "
	                    "weighted\"");
	char *full = repeat(body, ",\"sliding-buckets 1/53w precision 1w edge weighted\"", 15, "]}");
	struct answer answer = post("/v1/check", full);
	(void)state;
	assert_problem(&answer, 429, "never");
	assert_true(answer.body_bytes > 16 * 6 * 1024);
	answer_free(&answer);
	free(full);
	free(body);
}

static void test_keys_are_bytes(void **state) {
	struct answer answer = post("/v1/check", "{\"key\":\"a\\u0000b\\\"\\\\\\n\\u001f\xc3\xa9\"," LIMITS "}");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.body, "\"key\":\"a\\u0000b\\\"\\\\\\n\\u001f\xc3\xa9\""));
	answer_free(&answer);
	post_for_status("/v1/check", "{\"key\":\"a\"," LIMITS "}", 200); /* not cut at the NUL: another key */
}

/* ---- time ---------------------------------------------------------------------------------------------------- */

static void test_clients_set_the_time_where_allowed(void **state) {
	(void)state;
	post_for_status("/v1/check", "{\"key\":\"t\",\"at\":1767225600000,\"limits\":[\"fixed-window 1/1s\"]}", 200);
	post_for_status("/v1/check", "{\"key\":\"t\",\"at\":1767225600999,\"limits\":[\"fixed-window 1/1s\"]}", 429);
	post_for_status("/v1/check", "{\"key\":\"t\",\"at\":1767225601000,\"limits\":[\"fixed-window 1/1s\"]}", 200);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"t\"},\"at\":1767225601000}", 200);
	post_for_status("/v1/refund", "{\"key\":\"t\",\"at\":1767225601000,\"limits\":[\"fixed-window 1/1s\"]}", 200);
	post_for_status("/v1/check", "{\"key\":\"t\",\"at\":1767225601000,\"limits\":[\"fixed-window 1/1s\"]}", 200);
	use_policy("client-time: false\n");
	struct answer answer = post("/v1/check", "{\"key\":\"t\",\"at\":1767225600000,\"limits\":[\"1/1s\"]}");
	assert_problem(&answer, 400, "client-time: true");
	answer_free(&answer);
}

/* ---- a full store -------------------------------------------------------------------------------------------- */

static void test_no_room_for_a_log(void **state) {
	struct sluice_limit limit;
	(void)state;
	sluice_store_close(context.store);
	assert_int_equal(sluice_store_open(&context.store, &(struct sluice_store_options){.memory_bytes = 1 << 20}, NULL),
	                 SLUICE_OK);
	assert_int_equal(sluice_limit_parse(&limit, sl_str("sliding-log 4G/1d"), NULL), SLUICE_OK);
	fill_log(&(struct sluice_item){.limit = &limit, .key = sl_str("long")});
	/* that limit denies, with a problem like any denial, and names the bound; the other one is charged nothing */
	static const char both[] = "{\"key\":\"long\",\"limits\":[\"fixed-window 9/1d\",\"sliding-log 4G/1d\"]}";
	struct answer answer = post("/v1/check", both);
	assert_problem(&answer, 429, "can't be kept for the request (bound: room): retry in ");
	assert_string_equal(text_of(&answer, "bound"), "room");
	assert_string_equal(text_of(&answer, "limit"), "sliding-log 4000000000/1d");
	assert_int_equal(number_of(answer.json, "remaining"), 0);
	assert_header(&answer, "Retry-After", "82801"); /* the oldest of the log is an hour old */
	answer_free(&answer);
	answer = post("/v1/check", "{\"key\":\"long\",\"limits\":[\"fixed-window 9/1d\"],\"peek\":true}");
	assert_int_equal(number_of(answer.json, "remaining"), 9);
	assert_null(strstr(answer.body, "bound"));
	answer_free(&answer);
	/* whatever on-error says; an observed one notes it, and the request goes on */
	use_policy("limits:\n  - {name: a, key: ip, limit: sliding-log 4G/1d, on-error: allow}\n"
	           "  - {name: b, key: ip, limit: sliding-log 5/2m}\n");
	fill_log_of("1.2.3.4");
	answer = post("/v1/admit", "{\"attributes\":{\"ip\":\"1.2.3.4\"}}");
	assert_problem(&answer, 429, "limit a (sliding-log 4000000000/1d) can't be kept");
	answer_free(&answer);
	use_policy("limits:\n  - {name: a, key: ip, limit: sliding-log 4G/1d, observe: true}\n"
	           "  - {name: b, key: ip, limit: sliding-log 5/2m}\n");
	for (int k = 0; k < 5; k++) {
		answer = post("/v1/admit", "{\"attributes\":{\"ip\":\"1.2.3.4\"}}");
		assert_int_equal(answer.status, 200);
		assert_int_equal(number_of(answer.json, "remaining"), 4 - k);
		assert_non_null(strstr(answer.body, "\"bound\":\"room\",\"observed\":true"));
		answer_free(&answer);
	}
	post_for_status("/v1/admit", "{\"attributes\":{\"ip\":\"1.2.3.4\"}}", 429);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_check_allows_then_denies),
		TEST(test_a_cost_above_the_quota_can_never_be_retried),
		TEST(test_several_limits_all_or_nothing),
		TEST(test_a_limits_own_key_is_counted_whatever_the_bodys_is),
		TEST(test_unlimited_alone_is_told_to_nobody),
		TEST(test_peek_charges_nothing),
		TEST(test_refund_and_reset),
		TEST(test_shaping_tells_the_delay),
		TEST(test_admit_by_policy),
		TEST(test_admit_names_every_denying_limit),
		TEST(test_no_limit_applies),
		TEST(test_explain_decodes_and_charges_nothing),
		TEST(test_explain_refuses_what_it_cannot_read),
		TEST(test_limits_are_listed),
		TEST(test_health),
		TEST(test_malformed_bodies_are_refused_and_change_nothing),
		TEST(test_bounds_of_bodies),
		TEST(test_the_longest_answer_fits),
		TEST(test_keys_are_bytes),
		TEST(test_clients_set_the_time_where_allowed),
		TEST(test_no_room_for_a_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
