/* The policy's own limits by name in JSON bodies, and what an explanation shows of them. */
#include "tests/unit/door_http.h"

static const char named_policy[] = "limits:\n"
								   "  - name: per-user\n"
								   "    key: user\n"
								   "    limit: fixed-window 3/10s\n"
								   "    overrides:\n"
								   "      - {when: {plan: pro}, limit: fixed-window 5/10s}\n"
								   "      - {when: {plan: log}, limit: sliding-log 2/10s}\n"
								   "      - {when: {plan: free}, limit: unlimited}\n"
								   "  - name: with candidate\n"
								   "    when: {path: /c*}\n"
								   "    key: user\n"
								   "    limit: fixed-window 3/10s\n"
								   "    candidate: fixed-window 1/10s\n";

static int setup_named(void **state) {
	int failed = setup(state);
	use_policy(named_policy);
	return failed;
}

static void test_a_limit_by_name_is_the_policys_own(void **state) {
	const char *peek = "{\"key\":\"user=alice\",\"limits\":[\"policy:per-user\"],\"peek\":true}";
	struct answer answer;
	(void)state;
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\"}}", 200);
	answer = post("/v1/check", peek);
	assert_int_equal(answer.status, 200);
	assert_string_equal(text_of(&answer, "limit"), "per-user");
	assert_int_equal(number_of(answer.json, "remaining"), 2);
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "limit")), "fixed-window 3/10s");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "name")), "per-user");
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "key")), "user=alice");
	assert_header(&answer, "RateLimit-Policy", "\"per-user\";q=3;w=10");
	answer_free(&answer);
	/* charged and given back by name, beside a limit in notation */
	post_for_status("/v1/check", "{\"key\":\"user=alice\",\"cost\":2,\"limits\":[\"policy:per-user\",\"5/1s\"]}", 200);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\"}}", 429);
	answer = post("/v1/refund", "{\"key\":\"user=alice\",\"limits\":[{\"limit\":\"policy:per-user\"}]}");
	assert_int_equal(number_of(answer.json, "remaining"), 1);
	answer_free(&answer);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\"}}", 200);
	/* the same words in notation are a counter of their own */
	answer = post("/v1/check", "{\"key\":\"user=alice\",\"limits\":[\"fixed-window 3/10s\"],\"peek\":true}");
	assert_int_equal(number_of(answer.json, "remaining"), 3);
	answer_free(&answer);
}

static void test_reset_forgets_what_overrides_keep_too(void **state) {
	struct answer answer;
	(void)state;
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"bob\",\"plan\":\"pro\"}}", 200);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"bob\",\"plan\":\"log\"}}", 200);
	post_for_status("/v1/check", "{\"key\":\"user=bob\",\"limits\":[\"1/1h\"]}", 200);
	answer = post("/v1/reset", "{\"key\":\"user=bob\",\"limits\":[\"policy:per-user\",\"1/1h\"]}");
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.body, "{\"reset\":3}");
	answer_free(&answer);
	answer = post("/v1/admit", "{\"attributes\":{\"user\":\"bob\",\"plan\":\"log\"},\"peek\":true}");
	assert_int_equal(number_of(answer.json, "remaining"), 2);
	answer_free(&answer);
	answer = post("/v1/reset", "{\"key\":\"user=bob\",\"limits\":[\"policy:per-user\"]}");
	assert_string_equal(answer.body, "{\"reset\":0}");
	answer_free(&answer);
}

/* A limit with more different overrides than one call can take. */
static void test_reset_of_many_variants(void **state) {
	char yaml[8 * 1024], *at = yaml, body[128];
	struct answer answer;
	(void)state;
	at += snprintf(at, 256, "limits:\n  - name: many\n    key: user\n    limit: fixed-window 3/1h\n    overrides:\n");
	for (int i = 1; i <= 40; i++)
		at += snprintf(at, 128, "      - {when: {plan: p%d}, limit: fixed-window 3/%dh}\n", i, i + 1);
	use_policy(yaml);
	for (int i = 0; i <= 40; i++) {
		snprintf(body, sizeof body, "{\"attributes\":{\"user\":\"u\",\"plan\":\"p%d\"}}", i);
		post_for_status("/v1/admit", body, 200);
	}
	answer = post("/v1/reset", "{\"key\":\"user=u\",\"limits\":[\"policy:many\"]}");
	assert_string_equal(answer.body, "{\"reset\":41}");
	answer_free(&answer);
}

static void test_names_that_are_none(void **state) {
	struct answer answer = post("/v1/check", "{\"key\":\"k\",\"limits\":[\"1/1s\",\"policy:per-usr\"]}");
	(void)state;
	assert_problem(&answer, 400, "limits[1]: the policy has no limit named 'per-usr': did you mean policy:per-user");
	answer_free(&answer);
	answer = post("/v1/reset", "{\"key\":\"k\",\"limits\":[\"policy:\"]}");
	assert_problem(&answer, 400, "limits[0]: the policy has no limit named ''");
	answer_free(&answer);
	answer = post("/v1/check", "{\"key\":\"k\",\"limits\":[\"policy:zzzzzzzzzzzzzzzz\"]}");
	assert_problem(&answer, 400, "GET /v1/limits lists them");
	answer_free(&answer);
	answer = post("/v1/check", "{\"key\":\"k\",\"limits\":[\"Policy:per-user\"]}");
	assert_problem(&answer, 400, "limits[0], column");
	answer_free(&answer);
}

static void test_explanations(void **state) {
	struct answer answer = get("/v1/explain?user=carol&path=/cart");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_int_equal(number_of(limit_of(&answer, 0), "next_after_ms"), 0);
	assert_null(json_object_get(limit_of(&answer, 0), "candidate"));
	json_t *candidate = json_object_get(limit_of(&answer, 1), "candidate");
	assert_string_equal(json_string_value(json_object_get(candidate, "limit")), "fixed-window 1/10s");
	assert_true(json_is_true(json_object_get(candidate, "allowed")));
	assert_int_equal(number_of(candidate, "remaining"), 1);
	assert_int_equal(number_of(candidate, "retry_after_ms"), 0);
	assert_int_equal(json_array_size(json_object_get(answer.json, "limits")), 2);
	answer_free(&answer);
	for (int i = 0; i < 2; i++)
		post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"carol\",\"path\":\"/cart\"}}", 200);
	context.now += 2500000001;
	answer = get("/v1/explain?user=carol&path=/cart");
	assert_true(json_is_true(json_object_get(answer.json, "allowed")));
	assert_int_equal(number_of(limit_of(&answer, 1), "remaining"), 1);
	assert_int_equal(number_of(limit_of(&answer, 1), "next_after_ms"), 7500);
	candidate = json_object_get(limit_of(&answer, 1), "candidate");
	assert_true(json_is_false(json_object_get(candidate, "allowed")));
	assert_int_equal(number_of(candidate, "remaining"), 0);
	assert_int_equal(number_of(candidate, "retry_after_ms"), 7500);
	answer_free(&answer);
	/* nobody else is shown them */
	answer = post("/v1/admit", "{\"attributes\":{\"user\":\"carol\",\"path\":\"/cart\"}}");
	assert_null(json_object_get(limit_of(&answer, 1), "candidate"));
	assert_null(json_object_get(limit_of(&answer, 1), "next_after_ms"));
	assert_int_equal(json_array_size(json_object_get(answer.json, "limits")), 2);
	answer_free(&answer);
}

/* What can never be admitted frees nothing either. */
static void test_never_is_minus_one(void **state) {
	struct answer answer;
	(void)state;
	use_policy("limits: [{name: none, key: [], limit: 0/1m}]\n");
	answer = get("/v1/explain");
	assert_int_equal(answer.status, 200);
	assert_true(json_is_false(json_object_get(answer.json, "allowed")));
	assert_int_equal(number_of(limit_of(&answer, 0), "retry_after_ms"), -1);
	assert_true(number_of(limit_of(&answer, 0), "next_after_ms") <= 0);
	answer_free(&answer);
}

/* What a request costs, where all limits say the same. */
static void test_an_inspection_has_the_limits_cost(void **state) {
	static const struct {
		const char *yaml;
		json_int_t first, last;
	} policies[] = {
		{"limits: [{name: a, key: user, limit: fixed-window 10/1h, cost: 5}]\n", 5, 5},
		{"limits: [{name: a, key: user, limit: 10/1h, cost: 5}, {name: b, key: user, limit: 20/1h, cost: 5}]\n", 5, 5},
		{"limits: [{name: a, key: user, limit: 10/1h, cost: 5}, {name: b, key: user, limit: 20/1h}]\n", 5, 1},
		{"limits: [{name: a, key: user, limit: 10/1h}, {name: b, key: user, limit: 20/1h, cost: 5}]\n", 1, 5},
		{"limits: [{name: a, key: user, limit: 10/1h}]\n", 1, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		use_policy(policies[i].yaml);
		struct answer answer = get("/v1/inspect?user=alice");
		json_t *limits = json_object_get(answer.json, "limits");
		assert_int_equal(number_of(json_array_get(limits, 0), "cost"), policies[i].first);
		assert_int_equal(number_of(json_array_get(limits, json_array_size(limits) - 1), "cost"), policies[i].last);
		answer_free(&answer);
	}
	use_policy(policies[0].yaml);
	for (int i = 0; i < 2; i++)
		post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"bob\"}}", 200);
	struct answer answer = get("/v1/inspect?user=bob");
	assert_true(json_is_false(json_object_get(limit_of(&answer, 0), "allowed")));
	assert_int_equal(number_of(limit_of(&answer, 0), "retry_after_ms"), 3600000);
	answer_free(&answer);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_named, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_limit_by_name_is_the_policys_own),
		TEST(test_reset_forgets_what_overrides_keep_too),
		TEST(test_reset_of_many_variants),
		TEST(test_names_that_are_none),
		TEST(test_explanations),
		TEST(test_never_is_minus_one),
		TEST(test_an_inspection_has_the_limits_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
