/* What is held after the answer: leases, reservations, members, parts, retries, tickets; and how all of it is asked
 * for, rightly and wrongly. */
#include "tests/unit/door_http.h"

static const char held_policy[] = "client-time: true\n"
								  "trusted-proxies: [10.0.0.0/8]\n"
								  "attributes: {user: header x-user, device: header x-device}\n"
								  "limits:\n"
								  "  - {name: requests, key: user, limit: fixed-window 10/1h}\n"
								  "  - {name: tokens, key: user, limit: sliding-log 2000/1m,\n"
								  "     reserve: {ttl: 30s, estimate: 500, actual: header x-tokens}}\n"
								  "  - {name: flight, key: user, limit: concurrency 2 lease 20s}\n"
								  "  - {name: devices, key: user, limit: distinct 2/1h, of: device}\n";

static int setup_held(void **state) {
	int failed = setup(state);
	use_policy(held_policy);
	return failed;
}

/* ---- what is refused ----------------------------------------------------------------------------------------- */

#define C "\"concurrency 2 lease 20s\""
#define D "\"distinct 2/1h\""

static const struct {
	const char *route, *body, *detail;
} refused[] = {
	/* the right route is named */
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"," C "]}",
     "limits[1]: concurrency is acquired and released: POST /v1/acquire"},
	{"refund", "{\"key\":\"k\",\"limits\":[" C "]}",
     "limits[0]: concurrency takes no refund: POST /v1/release ends a lease"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":1,\"limits\":[" C "]}",
     "limits[0]: concurrency is acquired and released: POST /v1/acquire"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":1,\"limits\":[" D "]}",
     "limits[0]: distinct is not reserved: POST /v1/check decides it at once"},
	{"check", "{\"key\":\"k\",\"limits\":[" D "]}",
     "limits[0]: distinct counts members: POST /v1/check with \"member\""},
	{"refund", "{\"key\":\"k\",\"limits\":[" D "]}",
     "limits[0]: a refund of distinct forgets a member: POST /v1/refund with \"member\""},
	{"acquire", "{\"key\":\"k\",\"limits\":[" C "," D "]}",
     "limits[1]: distinct counts members: POST /v1/acquire with \"member\""},
	{"check",
     "{\"key\":\"k\",\"limits\":[{\"limit\":" D ",\"member\":\"a\"},{\"limit\":" D ",\"member\":\"b\"}]}",
     "limits[1]: another member of the same counter: expected one, and a call for each of the others"},
	{"acquire", "{\"key\":\"k\",\"limits\":[\"1/1s\"]}", "limits has none of concurrency: POST /v1/check"},
	/* ids */
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"id\":7}", "id must be a string, found 7"},
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"id\":\"\"}", "id must have 1 to 64 bytes, found 0"},
	{"acquire",
     "{\"key\":\"k\",\"limits\":[" C "],"
     "\"id\":\"12345678901234567890123456789012345678901234567890123456789012345\"}",
     "id must have 1 to 64 bytes, found 65"},
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"peek\":true,\"id\":\"a\"}", "id must be absent with peek"},
	{"release", "{\"key\":\"k\",\"limits\":[" C "]}", "id is missing"},
	{"renew", "{\"key\":\"k\",\"limits\":[" C "]}", "id is missing"},
	{"commit", "{\"actual\":1}", "id is missing"},
	{"commit", "{\"id\":\"mine\",\"actual\":1}", "id must be a ticket"},
	{"commit", "{\"id\":\"0123456789abcdef\",\"actual\":1}", "id must be a ticket"},
	{"commit", "{\"id\":\"0123456789abcdef.AQ\",\"actual\":1}", "id looks like a ticket but is not one"},
	{"commit", "{\"id\":\"0123456789abcdef.\",\"actual\":1}", "id looks like a ticket but is not one"},
	{"release", "{\"id\":\"0123456789abcdef.!!!!\"}", "id looks like a ticket but is not one"},
	{"release", "{\"id\":\"0123456789abcdef.AQQA\",\"limits\":[" C "]}", "key is missing"},
	{"release", "{\"id\":\"0123456789abcdef.AQQWY29uY3VycmVuY3kgMSBsZWFzZSAxcw\",\"limits\":[" C "]}",
     "limits must be absent: id is a ticket, which contains them"},
	{"release", "{\"id\":\"0123456789abcdef.AQQA\",\"key\":1}", "key must be a string"},
	/* a ticket of the other kind: of "1/1s", and of concurrency 1 lease 1s */
	{"release", "{\"id\":\"0123456789abcdef.AQQTc2xpZGluZy13aW5kb3cgMS8xcw\"}",
     "id is a ticket without leases: POST /v1/commit"},
	{"commit", "{\"id\":\"0123456789abcdef.AQQWY29uY3VycmVuY3kgMSBsZWFzZSAxcw\",\"actual\":1}",
     "id is a ticket without reservations: POST /v1/release"},
	/* numbers */
	{"reserve", "{\"key\":\"k\",\"limits\":[\"1/1s\"]}", "ttl_ms is missing"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":0,\"limits\":[\"1/1s\"]}",
     "ttl_ms must be a whole number of milliseconds, 1..316224000000, found 0"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":316224000001,\"limits\":[\"1/1s\"]}", "found 316224000001"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":\"1s\",\"limits\":[\"1/1s\"]}", "found a string"},
	{"commit", "{\"id\":\"0123456789abcdef.AQQQc2xpZGluZy1sb2cgNS8xbQ\"}", "actual is missing"},
	{"commit", "{\"id\":\"0123456789abcdef.AQQQc2xpZGluZy1sb2cgNS8xbQ\",\"actual\":-1}",
     "actual must be a whole number 0..4294967295, found -1"},
	{"commit", "{\"id\":\"0123456789abcdef.AQQQc2xpZGluZy1sb2cgNS8xbQ\",\"actual\":4294967296}",
     "actual must be a whole number 0..4294967295, found 4294967296"},
	{"commit", "{\"id\":\"0123456789abcdef.AQQQc2xpZGluZy1sb2cgNS8xbQ\",\"actual\":1.5}", "found a number with"},
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"upto\":1}", "upto must be true or false, found 1"},
	/* members */
	{"check", "{\"key\":\"k\",\"limits\":[" D "],\"member\":1}", "member must be a string, found 1"},
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"member\":\"m\"}", "member must be absent: none of the limits"},
	{"check", "{\"key\":\"k\",\"limits\":[{\"limit\":\"1/1s\",\"member\":\"m\"}]}",
     "limits[0]: only distinct counts members: leave member out"},
	{"check", "{\"key\":\"k\",\"limits\":[{\"limit\":" D ",\"member\":null}]}",
     "limits[0].member must be a string, found null"},
	{"release", "{\"key\":\"k\",\"id\":\"a\",\"limits\":[{\"limit\":" C ",\"member\":\"m\"}]}",
     "limits[0]: unknown member 'member'"},
	/* what a route does not know */
	{"check", "{\"key\":\"k\",\"limits\":[\"1/1s\"],\"ttl_ms\":1}", "unknown member 'ttl_ms'"},
	{"acquire", "{\"key\":\"k\",\"limits\":[" C "],\"peek\":true}", "unknown member 'peek'"},
	{"acquire", "{\"key\":\"k\",\"limits\":[" C "],\"upto\":true}", "unknown member 'upto'"},
	{"release", "{\"key\":\"k\",\"id\":\"a\",\"limits\":[" C "],\"cost\":1}", "unknown member 'cost'"},
	{"commit", "{\"id\":\"a\",\"cost\":1,\"actual\":1}", "unknown member 'cost'"},
	{"reserve", "{\"key\":\"k\",\"ttl_ms\":1,\"limits\":[\"1/1s\"],\"member\":\"m\"}", "unknown member 'member'"},
	{"admit", "{\"attributes\":{},\"limits\":[]}", "unknown member 'limits'"},
	{"acquire", "[]", "the body must be a JSON object"},
	{"acquire", "{\"limits\":[" C "]}", "key is missing"},
	{"release", "{\"id\":\"a\",\"limits\":[" C "]}", "key is missing"},
};

static void test_what_is_refused(void **state) {
	char route[32];
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		snprintf(route, sizeof route, "/v1/%s", refused[i].route);
		struct answer answer = post(route, refused[i].body);
		if (answer.status != 400 || strstr(text_of(&answer, "detail"), refused[i].detail) == NULL)
			fail_msg("%s %s\nwant %s\ngot  %u %s", route, refused[i].body, refused[i].detail, answer.status,
			         answer.body);
		assert_problem(&answer, 400, refused[i].detail);
		answer_free(&answer);
	}
}

/* ---- leases -------------------------------------------------------------------------------------------------- */

static const sluice_ns second = 1000000000;

/* The id of an answer, in static memory. */
static const char *id_of(const struct answer *answer) {
	static char id[4096];
	if (answer->status != 200)
		fail_msg("%u %s", answer->status, answer->body);
	snprintf(id, sizeof id, "%s", text_of(answer, "id"));
	return id;
}

static bool says(const struct answer *answer, const char *member) {
	return json_is_true(json_object_get(answer->json, member));
}

/* Sends, and expects an answer that begins so. */
static void expect_answer(const char *path, const char *body, unsigned status, const char *begins) {
	struct answer answer = post(path, body);
	if (answer.status != status || strncmp(answer.body, begins, strlen(begins)) != 0)
		fail_msg("%s %s\nwant %u %s\ngot  %u %s", path, body, status, begins, answer.status, answer.body);
	answer_free(&answer);
}

/* The body of a release or renewal of the id. */
static const char *by_id(const char *id) {
	static char body[4096];
	snprintf(body, sizeof body, "{\"key\":\"k\",\"id\":\"%s\",\"limits\":[" C "]}", id);
	return body;
}

/* A caller may name a lease so that the name begins as a ticket does. */
static void test_an_id_that_only_looks_like_a_ticket(void **state) {
	const char *id = "00f067aa0ba902b7.1";
	struct answer answer = post("/v1/acquire", by_id(id));
	(void)state;
	assert_string_equal(id_of(&answer), id);
	answer_free(&answer);
	expect_answer("/v1/renew", by_id(id), 200, "{\"renewed\":1}");
	expect_answer("/v1/release", by_id(id), 200, "{\"released\":1}");
}

static void test_a_lease_from_acquire_to_release(void **state) {
	const char *body = "{\"key\":\"k\",\"limits\":[" C "]}";
	struct answer answer = post("/v1/acquire", body);
	char first[64], later[64];
	(void)state;
	snprintf(first, sizeof first, "%s", id_of(&answer));
	assert_int_equal(strlen(first), 16);
	assert_int_equal(strspn(first, "0123456789abcdef"), 16);
	assert_int_equal(number_of(answer.json, "remaining"), 1);
	assert_false(says(&answer, "repeated"));
	assert_header(&answer, "RateLimit-Policy", "\"concurrency 2 lease 20s\";q=2;qu=\"concurrent-requests\"");
	assert_header(&answer, "RateLimit", "\"concurrency 2 lease 20s\";r=1;t=20");
	answer_free(&answer);
	context.now += 5 * second;
	answer = post("/v1/acquire", body);
	snprintf(later, sizeof later, "%s", id_of(&answer));
	assert_string_not_equal(later, first);
	answer_free(&answer);
	answer = post("/v1/acquire", body);
	assert_problem(&answer, 429, "concurrency 2 lease 20s has 0 left, the request costs 1: retry in 15000 ms");
	assert_null(json_object_get(answer.json, "id"));
	assert_header(&answer, "Retry-After", "15");
	answer_free(&answer);
	/* released once; the other renewed, and gone at its end to the ms */
	expect_answer("/v1/release", by_id(first), 200, "{\"released\":1}");
	expect_answer("/v1/release", by_id(first), 200, "{\"released\":0,\"detail\":\"no such lease is held");
	expect_answer("/v1/renew", by_id(first), 200, "{\"renewed\":0,\"detail\":\"no such lease is held");
	expect_answer("/v1/release", by_id("0123456789abcdef"), 200, "{\"released\":0,");
	context.now += second;
	expect_answer("/v1/renew", by_id(later), 200, "{\"renewed\":1}");
	context.now += 20 * second - 1;
	post_for_status("/v1/acquire", "{\"key\":\"k\",\"cost\":2,\"limits\":[" C "]}", 429);
	context.now += 1;
	expect_answer("/v1/release", by_id(later), 200, "{\"released\":0,");
	post_for_status("/v1/acquire", "{\"key\":\"k\",\"cost\":2,\"limits\":[" C "]}", 200);
}

static void test_a_lease_by_a_name_of_the_clients(void **state) {
	const char *body = "{\"key\":\"k\",\"id\":\"job \\u00fc 7\",\"limits\":[\"fixed-window 3/1h\"," C "]}";
	(void)state;
	for (int i = 0; i < 5; i++) {
		struct answer answer = post("/v1/acquire", body);
		assert_string_equal(id_of(&answer), "job \xc3\xbc 7");
		assert_int_equal(says(&answer, "repeated"), i > 0);
		assert_int_equal(number_of(limit_of(&answer, 0), "remaining"), 2);
		assert_int_equal(number_of(limit_of(&answer, 1), "remaining"), 1);
		answer_free(&answer);
	}
	/* all or nothing, also where another limit denies */
	post_for_status("/v1/acquire", "{\"key\":\"k\",\"limits\":[\"fixed-window 0/1h\"," C "]}", 429);
	expect_answer("/v1/release", by_id("job \xc3\xbc 7"), 200, "{\"released\":1}");
	expect_answer("/v1/release", by_id("job \xc3\xbc 7"), 200, "{\"released\":0,");
	/* cost 0 holds nothing */
	struct answer answer = post("/v1/acquire", "{\"key\":\"k\",\"cost\":0,\"limits\":[" C "]}");
	assert_int_equal(answer.status, 200);
	assert_null(json_object_get(answer.json, "id"));
	assert_int_equal(number_of(answer.json, "remaining"), 2);
	answer_free(&answer);
	/* a peek is allowed, where CHECK is not, and has no id */
	answer = post("/v1/check", "{\"key\":\"k\",\"limits\":[" C "],\"peek\":true}");
	assert_int_equal(answer.status, 200);
	assert_null(json_object_get(answer.json, "id"));
	answer_free(&answer);
}

/* ---- members, parts, retries --------------------------------------------------------------------------------- */

static void test_members(void **state) {
	struct answer answer = post("/v1/check", "{\"key\":\"k\",\"member\":\"a\",\"limits\":[" D ",\"5/1m\"]}");
	(void)state;
	assert_int_equal(answer.status, 200);
	assert_int_equal(number_of(limit_of(&answer, 0), "remaining"), 1);
	assert_header(&answer, "RateLimit-Policy", "\"distinct 2/1h\";q=2;w=3600, \"sliding-window 5/1m\";q=5;w=60");
	answer_free(&answer);
	post_for_status("/v1/check", "{\"limits\":[{\"key\":\"k\",\"limit\":" D ",\"member\":\"b\"}]}", 200);
	/* each element its own, or that of all */
	post_for_status("/v1/check",
	                "{\"key\":\"k\",\"member\":\"a\",\"limits\":[" D ","
	                "{\"key\":\"j\",\"limit\":" D ",\"member\":\"b\"}]}",
	                200);
	post_for_status("/v1/check", "{\"key\":\"k\",\"member\":\"c\",\"limits\":[" D "]}", 429);
	post_for_status("/v1/check", "{\"key\":\"k\",\"member\":\"a\",\"cost\":7,\"limits\":[" D "]}", 200);
	/* a stranger is peeked at, and a refund forgets whom it names */
	post_for_status("/v1/check", "{\"key\":\"k\",\"peek\":true,\"limits\":[" D "]}", 429);
	post_for_status("/v1/check", "{\"key\":\"k\",\"peek\":true,\"member\":\"b\",\"limits\":[" D "]}", 200);
	post_for_status("/v1/refund", "{\"key\":\"k\",\"member\":\"b\",\"limits\":[" D "]}", 200);
	post_for_status("/v1/check", "{\"key\":\"k\",\"member\":\"\",\"limits\":[" D "]}", 200);
	post_for_status("/v1/check", "{\"key\":\"k\",\"member\":\"b\",\"limits\":[" D "]}", 429);
}

static void test_parts_and_retries(void **state) {
	const char *retried = "{\"key\":\"k\",\"cost\":3,\"id\":\"r1\",\"limits\":[\"fixed-window 5/1h\"]}";
	struct answer answer;
	(void)state;
	for (int i = 0; i < 3; i++) {
		answer = post("/v1/check", retried);
		assert_int_equal(answer.status, 200);
		assert_int_equal(says(&answer, "repeated"), i > 0);
		assert_int_equal(number_of(answer.json, "remaining"), 2);
		assert_null(json_object_get(answer.json, "id"));
		assert_null(json_object_get(answer.json, "granted"));
		answer_free(&answer);
	}
	for (int i = 0; i < 2; i++) {
		answer = post("/v1/check", "{\"key\":\"k\",\"cost\":9,\"upto\":true,\"limits\":[\"fixed-window 5/1h\"]}");
		assert_int_equal(answer.status, i == 0 ? 200 : 429);
		assert_int_equal(number_of(answer.json, "granted"), i == 0 ? 2 : 0);
		if (i > 0)
			assert_problem(&answer, 429, "fixed-window 5/1h has 0 left, the request takes at least 1: retry in");
		answer_free(&answer);
	}
	answer = post("/v1/check", "{\"key\":\"k\",\"upto\":false,\"limits\":[\"fixed-window 5/1h\"]}");
	assert_null(json_object_get(answer.json, "granted"));
	answer_free(&answer);
}

/* ---- reservations -------------------------------------------------------------------------------------------- */

static const char *commit_of(const char *ticket, unsigned actual) {
	static char body[4096];
	snprintf(body, sizeof body, "{\"id\":\"%s\",\"actual\":%u}", ticket, actual);
	return body;
}

static void test_reserve_then_commit(void **state) {
	const char *body = "{\"key\":\"k\",\"cost\":500,\"ttl_ms\":5000,\"limits\":[\"sliding-log 1000/1m\"]}";
	struct answer answer = post("/v1/reserve", body);
	char ticket[512];
	(void)state;
	snprintf(ticket, sizeof ticket, "%s", id_of(&answer));
	assert_int_equal(ticket[16], '.');
	assert_int_equal(number_of(answer.json, "remaining"), 500);
	answer_free(&answer);
	context.now += second;
	answer = post("/v1/commit", commit_of(ticket, 731));
	assert_int_equal(answer.status, 200);
	assert_int_equal(number_of(answer.json, "remaining"), 269);
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "key")), "k");
	assert_header(&answer, "RateLimit-Policy", "\"sliding-log 1000/1m\";q=1000;w=60");
	answer_free(&answer);
	answer = post("/v1/commit", commit_of(ticket, 731));
	assert_problem(&answer, 404, "no such reservation is open");
	answer_free(&answer);
	/* denied: no ticket; cost 0: neither */
	answer = post("/v1/reserve", body);
	assert_int_equal(answer.status, 429);
	assert_null(json_object_get(answer.json, "id"));
	answer_free(&answer);
	answer = post("/v1/reserve", "{\"key\":\"k\",\"cost\":0,\"ttl_ms\":5000,\"limits\":[\"sliding-log 1000/1m\"]}");
	assert_int_equal(answer.status, 200);
	assert_null(json_object_get(answer.json, "id"));
	answer_free(&answer);
}

static void test_what_nobody_commits_goes_back(void **state) {
	const char *body = "{\"key\":\"k\",\"cost\":900,\"ttl_ms\":5000,\"id\":\"mine\",\"limits\":[\"sliding-log "
					   "1000/1m\",\"policy:requests\"]}";
	char tickets[2][512];
	(void)state;
	use_policy("limits: [{name: requests, key: user, limit: fixed-window 5000/1h}]\n");
	for (int i = 0; i < 2; i++) {
		struct answer answer = post("/v1/reserve", body);
		snprintf(tickets[i], sizeof tickets[i], "%s", id_of(&answer));
		assert_int_equal(says(&answer, "repeated"), i > 0);
		assert_int_equal(number_of(limit_of(&answer, 0), "remaining"), 100);
		assert_int_equal(number_of(limit_of(&answer, 1), "remaining"), 4100);
		answer_free(&answer);
	}
	assert_string_equal(tickets[0], tickets[1]);
	context.now += 5 * second - 1;
	post_for_status("/v1/check", "{\"key\":\"k\",\"cost\":101,\"peek\":true,\"limits\":[\"sliding-log 1000/1m\"]}",
	                429);
	context.now += 1;
	post_for_status("/v1/check", "{\"key\":\"k\",\"cost\":1000,\"peek\":true,\"limits\":[\"sliding-log 1000/1m\"]}",
	                200);
	struct answer answer = post("/v1/commit", commit_of(tickets[0], 1));
	assert_problem(&answer, 404, "at the end of its ttl");
	answer_free(&answer);
}

/* ---- a policy that holds ------------------------------------------------------------------------------------- */

#define ALICE "{\"attributes\":{\"user\":\"alice\",\"device\":\"d1\"}"

static void expect_left(int requests, int tokens, int flight) {
	struct answer answer = post("/v1/admit", ALICE ",\"peek\":true}");
	json_int_t left[3];
	for (size_t i = 0; i < 3; i++)
		left[i] = number_of(limit_of(&answer, i), "remaining");
	if (left[0] != requests || left[1] != tokens || left[2] != flight)
		fail_msg("want %d %d %d, got %s", requests, tokens, flight, answer.body);
	answer_free(&answer);
}

static void test_a_policy_leases_and_reserves(void **state) {
	struct answer answer = post("/v1/admit", ALICE "}");
	char ticket[512], body[1024];
	(void)state;
	snprintf(ticket, sizeof ticket, "%s", id_of(&answer));
	assert_int_equal(ticket[16], '.');
	answer_free(&answer);
	expect_left(9, 1500, 1); /* each limit its own: a request, the estimate, one in flight */
	answer = post("/v1/commit", commit_of(ticket, 1200));
	assert_int_equal(answer.status, 200);
	assert_int_equal(json_array_size(json_object_get(answer.json, "limits")), 1);
	assert_string_equal(json_string_value(json_object_get(limit_of(&answer, 0), "name")), "tokens");
	answer_free(&answer);
	expect_left(9, 800, 1);
	snprintf(body, sizeof body, "{\"id\":\"%s\"}", ticket);
	expect_answer("/v1/renew", body, 200, "{\"renewed\":1}");
	expect_answer("/v1/release", body, 200, "{\"released\":1}");
	expect_answer("/v1/release", body, 200, "{\"released\":0,");
	expect_left(9, 800, 2);
	/* the cost that a caller says is everybody's */
	answer = post("/v1/admit", ALICE ",\"cost\":2,\"id\":\"twice\"}");
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
	expect_left(7, 798, 0);
	answer = post("/v1/admit", ALICE ",\"cost\":2,\"id\":\"twice\"}");
	assert_true(says(&answer, "repeated"));
	answer_free(&answer);
	answer = post("/v1/admit", ALICE "}");
	assert_problem(&answer, 429, "limit flight (concurrency 2 lease 20s) has 0 left, the request costs 1: retry in");
	answer_free(&answer);
	/* members come from the policy's attribute, or from the caller */
	use_policy("limits: [{name: devices, key: user, limit: distinct 2/1h, of: device}]\n");
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\",\"device\":\"d2\"}}", 200);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\",\"device\":\"d3\"}}", 429);
	post_for_status("/v1/admit", "{\"attributes\":{\"user\":\"alice\",\"device\":\"d3\"},\"member\":\"d1\"}", 200);
}

static void test_explanations(void **state) {
	(void)state;
	use_policy("limits:\n"
	           "  - {name: p, key: user, limit: fixed-window 1/1h, penalty: \"[1m, 10m] after 2 denials in 1m\"}\n"
	           "  - {name: many, key: user, limit: distinct 5000/1h edge deny registers 16384, of: device}\n");
	struct answer answer = get("/v1/explain?user=alice&device=d");
	json_t *penalty = json_object_get(limit_of(&answer, 0), "penalty");
	assert_int_equal(number_of(penalty, "level"), 0);
	assert_int_equal(number_of(penalty, "ends_after_ms"), 0);
	assert_null(json_object_get(limit_of(&answer, 0), "error"));
	assert_null(json_object_get(limit_of(&answer, 1), "penalty"));
	assert_non_null(strstr(answer.body, "\"error\":0.0082"));
	answer_free(&answer);
	post_for_status("/v1/admit", ALICE "}", 200);
	for (int i = 0; i < 2; i++)
		post_for_status("/v1/admit", ALICE "}", 429);
	answer = get("/v1/explain?user=alice&device=d");
	penalty = json_object_get(limit_of(&answer, 0), "penalty");
	assert_int_equal(number_of(penalty, "level"), 1);
	assert_int_equal(number_of(penalty, "denials"), 0);
	assert_int_equal(number_of(penalty, "ends_after_ms"), 60000);
	assert_int_equal(number_of(penalty, "forgiven_after_ms"), 660000);
	answer_free(&answer);
	/* an admin forgives */
	post_for_status("/v1/reset", "{\"key\":\"user=alice\",\"limits\":[\"policy:p\"]}", 200);
	answer = get("/v1/explain?user=alice&device=d");
	assert_int_equal(number_of(json_object_get(limit_of(&answer, 0), "penalty"), "level"), 0);
	answer_free(&answer);
}

/* ---- the proxies' doors -------------------------------------------------------------------------------------- */

static struct answer ask_door(const char *path, const char *head) {
	static char bytes[16 * 1024];
	int len = snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, head);
	assert_true(len < (int)sizeof bytes);
	return ask_raw(bytes, (size_t)len);
}

#define HEAD "X-User: alice\r\nX-Device: d1\r\n"

static void expect_commit(const char *ticket, const char *more, unsigned status, const char *has) {
	char head[16 * 1024];
	snprintf(head, sizeof head, "%s%s%s%s", ticket != NULL ? "Sluice-Ticket: " : "", ticket != NULL ? ticket : "",
	         ticket != NULL ? "\r\n" : "", more);
	struct answer answer = ask_door("/v1/auth/commit", head);
	if (answer.status != status || strstr(answer.body, has) == NULL)
		fail_msg("%s\nwant %u %s\ngot  %u %s", head, status, has, answer.status, answer.body);
	answer_free(&answer);
}

static void test_a_proxy_commits(void **state) {
	static const char *const doors[] = {"/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/x"};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct answer answer = ask_door(doors[i], HEAD);
		char ticket[8192];
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer.body_bytes, 0);
		snprintf(ticket, sizeof ticket, "%s", header(&answer, "Sluice-Ticket"));
		answer_free(&answer);
		expect_left(9 - i, 1500 - 100 * i, 1);
		/* what is wrong changes nothing */
		expect_commit(NULL, "X-Tokens: 1\r\n", 400, "Sluice-Ticket is missing");
		expect_commit("", "X-Tokens: 1\r\n", 400, "Sluice-Ticket is missing");
		expect_commit("0123456789abcdef", "X-Tokens: 1\r\n", 400, "Sluice-Ticket is not a ticket");
		expect_commit("0123456789abcdef.AQ", "X-Tokens: 1\r\n", 400, "Sluice-Ticket is not a ticket");
		expect_commit(ticket, "", 400, "x-tokens is missing");
		expect_commit(ticket, "X-Tokens:\r\n", 400, "x-tokens is missing");
		expect_commit(ticket, "X-Actual-Cost: 1\r\n", 400, "x-tokens is missing");
		expect_commit(ticket, "X-Tokens: 1.5\r\n", 400, "x-tokens is not a whole number");
		expect_commit(ticket, "X-Tokens: -1\r\n", 400, "x-tokens is not a whole number");
		expect_commit(ticket, "X-Tokens: 4294967296\r\n", 400, "nothing was changed");
		expect_left(9 - i, 1500 - 100 * i, 1);
		expect_commit(ticket, "x-tokens: 100\r\n", 200, "{\"released\":1,\"committed\":1}");
		expect_left(9 - i, 1900 - 100 * i, 2);
		expect_commit(ticket, "X-Tokens: 100\r\n", 404, "this ticket holds nothing");
	}
	/* a denied request holds nothing */
	use_policy("attributes: {user: header x-user}\n"
	           "limits: [{name: f, key: user, limit: concurrency 0 lease 1s}]\n");
	struct answer answer = ask_door("/v1/auth/forward", HEAD);
	assert_int_equal(answer.status, 429);
	assert_header(&answer, "Sluice-Ticket", NULL);
	answer_free(&answer);
}

static void test_what_a_ticket_of_leases_alone_needs(void **state) {
	char ticket[8192];
	(void)state;
	use_policy("attributes: {user: header x-user}\n"
	           "limits: [{name: f, key: user, limit: concurrency 1 lease 1m}]\n");
	struct answer answer = ask_door("/v1/auth/nginx", HEAD);
	snprintf(ticket, sizeof ticket, "%s", header(&answer, "Sluice-Ticket"));
	answer_free(&answer);
	answer = ask_door("/v1/auth/nginx", HEAD);
	assert_int_equal(answer.status, 403);
	answer_free(&answer);
	/* also when the policy has another limit by now */
	use_policy("attributes: {user: header x-user}\nlimits: []\n");
	expect_commit(ticket, "", 200, "{\"released\":1,\"committed\":0}");
	expect_commit(ticket, "", 404, "this ticket holds nothing");
}

static void test_estimates(void **state) {
	static const struct {
		const char *head;
		unsigned status;
		int left;
	} rows[] = {
		{"", 200, 990},
		{"X-Estimate: 300\r\n", 200, 690},
		{"x-estimate: 0\r\n", 200, 689}, /* a request is one */
		{"X-Estimate: 690\r\n", 429, 689},
		{"X-Estimate: many\r\n", 400, 689},
		{"X-Estimate:\r\n", 400, 689},
		{"X-Estimate: 4294967296\r\n", 400, 689},
	};
	(void)state;
	use_policy("limits:\n"
	           "  - {name: t, key: [], limit: fixed-window 1000/1h,\n"
	           "     reserve: {estimate: [header x-estimate, 10]}}\n");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct answer answer = ask_door("/v1/auth/forward", rows[i].head);
		if (answer.status != rows[i].status)
			fail_msg("%s: %u %s", rows[i].head, answer.status, answer.body);
		if (answer.status == 400)
			assert_problem(&answer, 400, "x-estimate must be a whole number 0..4294967295");
		answer_free(&answer);
		answer = get("/v1/explain");
		assert_int_equal(number_of(answer.json, "remaining"), rows[i].left);
		answer_free(&answer);
	}
}

/* What a proxy could not hand on is denied before it is decided: no error, by which it could pass. */
static void test_tickets_that_do_not_fit(void **state) {
	(void)state;
	use_policy("attributes: {user: header x-user}\n"
	           "limits:\n"
	           "  - {name: a, key: user, limit: concurrency 9 lease 1m}\n"
	           "  - {name: b, key: user, limit: concurrency 9 lease 1m}\n"
	           "  - {name: c, key: user, limit: concurrency 9 lease 1m}\n");
	char *head = repeat("X-User: ", "u", 1000, "\r\n");
	struct answer answer = ask_door("/v1/auth/forward", head);
	free(head);
	assert_int_equal(answer.status, 429);
	assert_null(header(&answer, "Sluice-Ticket"));
	answer_free(&answer);
	answer = get("/v1/explain?user=x");
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
	head = repeat("X-User: ", "u", 600, "\r\n");
	answer = ask_door("/v1/auth/forward", head);
	free(head);
	assert_int_equal(answer.status, 200);
	assert_in_range(strlen(header(&answer, "Sluice-Ticket")), 2400, 3072);
	answer_free(&answer);
}

/* What a proxy keeps for an answer's head holds the ticket in any case, and RateLimit where there is room for it. */
static void test_heads_fit_a_proxys_page(void **state) {
	char yaml[4096], *at = yaml;
	(void)state;
	at += snprintf(at, 128, "attributes: {user: header x-user}\nlimits:\n");
	for (int i = 0; i < 16; i++) {
		at += snprintf(at, 160, "  - {name: '%.*s%02d', key: %s, limit: %s}\n", 60,
		               "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", i, i < 2 ? "user" : "[]",
		               i < 2 ? "concurrency 9 lease 1m" : "2/1h");
	}
	use_policy(yaml);
	for (size_t len = 1; len <= 1000; len += 333) {
		for (int i = 0; i < 3; i++) { /* two are allowed, then 14 limits deny */
			char *lines = repeat("X-User: ", "u", len, "\r\n");
			struct answer answer = ask_door("/v1/auth/forward", lines);
			free(lines);
			const char *body = strstr(out.data, "\r\n\r\n");
			assert_int_equal(answer.status, i < 2 ? 200 : 429);
			assert_in_range(body + 4 - out.data, 1, 4096);
			assert_true((header(&answer, "Sluice-Ticket") != NULL) == (i < 2));
			assert_true((header(&answer, "RateLimit-Policy") != NULL) == (len < 1000 || i == 2));
			answer_free(&answer);
		}
		context.now += 7200 * UINT64_C(1000000000);
	}
}

/* What is only observed denies nobody: its lease is not told, where others' would fit, and ends by its time. */
static void test_observed_tickets_that_do_not_fit(void **state) {
	(void)state;
	use_policy("attributes: {user: header x-user}\n"
	           "limits:\n"
	           "  - {name: a, key: user, limit: concurrency 9 lease 1m, observe: true}\n"
	           "  - {name: b, key: user, limit: concurrency 9 lease 1m, observe: true}\n"
	           "  - {name: c, key: user, limit: concurrency 9 lease 1m, observe: true}\n"
	           "  - {name: d, key: [], limit: 2/1h}\n"
	           "  - {name: e, key: [], when: {path: /e}, limit: concurrency 9 lease 1m}\n");
	context.peer.is_trusted = true;
	for (int i = 0; i < 3; i++) {
		char *head = repeat(i == 0 ? "X-Forwarded-Uri: /e\r\nX-User: " : "X-User: ", "u", 1000, "\r\n");
		struct answer answer = ask_door("/v1/auth/forward", head);
		free(head);
		assert_int_equal(answer.status, i < 2 ? 200 : 429);
		const char *ticket = header(&answer, "Sluice-Ticket");
		assert_true(i == 0 ? ticket != NULL && strlen(ticket) < 200 : ticket == NULL);
		answer_free(&answer);
	}
}

/* An id that is the path, too, is as long as a head may be. */
static void test_retries_by_the_path(void **state) {
	(void)state;
	use_policy("retry-id: header x-forwarded-uri\n"
	           "limits: [{name: a, key: [], limit: 2/1h}]\n");
	context.peer.is_trusted = true;
	for (int i = 0; i < 3; i++) {
		char *head = repeat("X-Forwarded-Uri: /", "u", 12 * 1024, "\r\n");
		struct answer answer = ask_door("/v1/auth/forward", head);
		free(head);
		assert_int_equal(answer.status, 200);
		answer_free(&answer);
	}
}

static int64_t left_after(const char *path, const char *head) {
	struct answer answer = ask_door(path, head);
	const char *told = header(&answer, "RateLimit");
	assert_int_equal(answer.status, 200);
	assert_non_null(told);
	int64_t left = strtoll(strstr(told, ";r=") + 3, NULL, 10);
	answer_free(&answer);
	return left;
}

/* One id with another query is another request, at every door. */
static void test_retries_by_the_query(void **state) {
	static const struct {
		const char *first, *first_head, *second, *second_head;
	} doors[] = {
		{"/v1/auth/envoy/e?q=1", "", "/v1/auth/envoy/e?q=2", ""},
		{"/v1/auth/forward/f?q=1", "", "/v1/auth/forward/f?q=2", ""},
		{"/v1/auth/forward", "X-Forwarded-Uri: /g?q=1\r\n", "/v1/auth/forward", "X-Forwarded-Uri: /g?q=2\r\n"},
		{"/v1/auth/nginx", "X-Original-URI: /n?q=1\r\n", "/v1/auth/nginx", "X-Original-URI: /n?q=2\r\n"},
	};
	char heads[2][128];
	(void)state;
	use_policy("retry-id: header idempotency-key\n"
	           "limits: [{name: a, key: path, limit: 9/1h}]\n");
	context.peer.is_trusted = true;
	for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
		snprintf(heads[0], sizeof heads[0], "%sIdempotency-Key: i\r\n", doors[i].first_head);
		snprintf(heads[1], sizeof heads[1], "%sIdempotency-Key: i\r\n", doors[i].second_head);
		assert_int_equal(left_after(doors[i].first, heads[0]), 8);
		assert_int_equal(left_after(doors[i].first, heads[0]), 8);
		assert_int_equal(left_after(doors[i].second, heads[1]), 7); /* of the same counter */
		assert_int_equal(left_after(doors[i].second, heads[1]), 7);
	}
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_held, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_refused),
		TEST(test_observed_tickets_that_do_not_fit),
		TEST(test_retries_by_the_path),
		TEST(test_retries_by_the_query),
		TEST(test_a_lease_from_acquire_to_release),
		TEST(test_an_id_that_only_looks_like_a_ticket),
		TEST(test_a_lease_by_a_name_of_the_clients),
		TEST(test_members),
		TEST(test_parts_and_retries),
		TEST(test_reserve_then_commit),
		TEST(test_what_nobody_commits_goes_back),
		TEST(test_a_policy_leases_and_reserves),
		TEST(test_explanations),
		TEST(test_a_proxy_commits),
		TEST(test_what_a_ticket_of_leases_alone_needs),
		TEST(test_estimates),
		TEST(test_tickets_that_do_not_fit),
		TEST(test_heads_fit_a_proxys_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
