/* The HTTP door: who may ask what, by which credentials, and from which pages. */
#include "tests/unit/door_http.h"

#include "hosts/server/watch/tail.h"
#include "tests/unit/users.h"

#include <openssl/evp.h>

static struct sl_shared shared;

static int guard(const char *policy) {
	if (setup(NULL) != 0)
		return -1;
	sluice_policy_free((struct sluice_policy *)context.policy);
	context.policy = users_load(policy);
	shared.access = sl_access_new();
	context.shared = &shared;
	context.peer.text = "192.0.2.1:4321";
	return 0;
}

static void unguard(void) {
	teardown(NULL);
	out = (struct sl_buffer){0};
	sl_access_free(shared.access);
	shared.access = NULL;
}

/* One request with the header lines given, each with its CR LF. */
static struct answer ask(const char *method, const char *target, const char *host, const char *lines,
                         const char *body) {
	char bytes[32 * 1024];
	int len = snprintf(bytes, sizeof bytes, "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %zu\r\n\r\n%s", method,
	                   target, host, lines, strlen(body), body);
	assert_true(len < (int)sizeof bytes);
	return ask_raw(bytes, (size_t)len);
}

static const char *basic(const char *pair) {
	static char line[512];
	char base64[400];
	EVP_EncodeBlock((unsigned char *)base64, (const unsigned char *)pair, (int)strlen(pair));
	snprintf(line, sizeof line, "Authorization: Basic %s\r\n", base64);
	return line;
}

static void expect(const char *method, const char *target, const char *lines, unsigned status) {
	struct answer answer = ask(method, target, "x", lines, "");
	if (answer.status != status)
		fail_msg("%s %s\n%swant %u, got %u: %s", method, target, lines, status, answer.status, answer.body);
	if (status == 401)
		assert_header(&answer, "WWW-Authenticate", "Bearer realm=\"sluice\"");
	else
		assert_header(&answer, "WWW-Authenticate", NULL);
	if (status == 401 || status == 403)
		assert_header(&answer, "Content-Type", "application/problem+json");
	answer_free(&answer);
}

/* ---- credentials ----------------------------------------------------------------------------------------------- */

static void test_credentials(void **state) {
	(void)state;
	assert_int_equal(guard(users_policy("", "")), 0);
	expect("GET", "/v1/limits", "", 401);
	expect("GET", "/v1/limits", "Authorization: Bearer token-robot\r\n", 200);
	expect("GET", "/v1/limits", "authorization:   bEARER   token-robot  \r\n", 200);
	expect("GET", "/v1/limits", "Authorization: Bearer token-robo\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Bearer pw-checker\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Bearer\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Bearertoken-robot\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: token-robot\r\n", 401);
	expect("GET", "/v1/limits", "Authorization:\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Digest username=\"checker\"\r\n", 401);
	expect("GET", "/v1/limits", basic("checker:pw-checker"), 200);
	expect("GET", "/v1/limits", basic("checker:pw-reader"), 401);
	expect("GET", "/v1/limits", basic("robot:token-robot"), 200);
	expect("GET", "/v1/limits", basic(":token-robot"), 200);
	expect("GET", "/v1/limits", basic("checker"), 401);
	unguard();
	assert_int_equal(guard(users_policy("", "")), 0);
	expect("GET", "/v1/limits", "Authorization: Basic !!!!\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Basic Y2hlY2tlcjpwdy1jaGVja2Vy=\r\n", 401);
	expect("GET", "/v1/limits", "Authorization: Bearer token-robot\r\nAuthorization: Bearer token-robot\r\n", 400);
	char *huge = repeat("Authorization: Basic ", "QUFB", 3000, "\r\n");
	expect("GET", "/v1/limits", huge, 401);
	free(huge);
	/* A login that fails is no anonymous caller. */
	unguard();
	assert_int_equal(guard(users_policy("anonymous: check\n", "")), 0);
	expect("GET", "/v1/limits", "", 200);
	expect("GET", "/v1/limits", "Authorization: Bearer wrong\r\n", 401);
	unguard();
}

static void test_passwords_with_strange_bytes(void **state) {
	(void)state;
	char line[USERS_LINE_MAX], policy[USERS_LINE_MAX + 16];
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "a", "p:w \xc3\xa4 :", USERS_ROUNDS, "check"));
	assert_int_equal(guard(policy), 0);
	expect("GET", "/v1/limits", basic("a:p:w \xc3\xa4 :"), 200);
	expect("GET", "/v1/limits", basic("a:p:w \xc3\xa4 "), 401);
	unguard();
}

static void test_too_many_failures(void **state) {
	(void)state;
	assert_int_equal(guard(users_policy("", "")), 0);
	expect("GET", "/v1/limits", basic("checker:pw-checker"), 200);
	for (int i = 0; i < 10; i++) {
		context.now = start_ns + (sluice_ns)i * 1000000000;
		expect("GET", "/v1/limits", i % 2 ? basic("checker:guess") : "Authorization: Bearer guess\r\n", 401);
	}
	struct answer answer = ask("GET", "/v1/limits", "x", basic("reader:pw-reader"), "");
	assert_problem(&answer, 429, "too many failed logins");
	const char *wait = header(&answer, "Retry-After");
	assert_non_null(wait);
	assert_in_range(strtol(wait, NULL, 10), 1, 60);
	answer_free(&answer);
	expect("GET", "/v1/limits", basic("checker:pw-checker"), 200);
	expect("GET", "/v1/limits", "Authorization: Bearer token-robot\r\n", 200);
	unguard();
}

/* Pipelined behind a request of somebody's, one without Authorization is nobody's: it follows decisions no longer than
 * others may. */
static void test_a_login_is_of_one_request(void **state) {
	char bytes[2048];
	enum sl_door_verdict verdict;
	(void)state;
	assert_int_equal(guard(users_policy("anonymous: read\n", "")), 0);
	shared.tail = sl_tail_new(1);
	assert_non_null(shared.tail);
	int len = snprintf(bytes, sizeof bytes,
	                   "GET /v1/top HTTP/1.1\r\nHost: x\r\n%s\r\nGET /v1/tail HTTP/1.1\r\nHost: x\r\n\r\n",
	                   basic("reader:pw-reader"));
	feed(bytes, (size_t)len, &verdict);
	assert_int_equal(verdict, SL_DOOR_OPEN);
	assert_non_null(context.reader);
	assert_true(sl_door_http.may_stream(connection, &context));
	sluice_policy_free((struct sluice_policy *)context.policy);
	context.policy = users_load(users_policy("", ""));
	assert_false(sl_door_http.may_stream(connection, &context));
	sl_tail_leave(context.reader);
	context.reader = NULL;
	unguard();
	sl_tail_free(shared.tail);
	shared.tail = NULL;
}

/* ---- every route and role -------------------------------------------------------------------------------------- */

enum { CHECK = SL_ROLE_CHECK, READ = SL_ROLE_READ, ADMIN = SL_ROLE_ADMIN };

static const struct {
	const char *method, *target;
	uint32_t roles; /* one of which it takes, besides admin; 0: open to all */
} rules[] = {
	{"POST", "/v1/check", CHECK},
	{"POST", "/v1/admit", CHECK},
	{"POST", "/v1/refund", CHECK},
	{"POST", "/v1/acquire", CHECK},
	{"POST", "/v1/release", CHECK},
	{"POST", "/v1/renew", CHECK},
	{"POST", "/v1/holders", READ},
	{"POST", "/v1/inspect", READ},
	{"GET", "/v1/inspect", READ},
	{"POST", "/v1/reserve", CHECK},
	{"POST", "/v1/commit", CHECK},
	{"POST", "/v1/reset", ADMIN},
	{"POST", "/v1/reload", ADMIN},
	{"GET", "/v1/explain?a=b", CHECK | READ},
	{"GET", "/v1/limits", CHECK | READ},
	{"HEAD", "/v1/limits", CHECK | READ},
	{"GET", "/v1/%6cimits", CHECK | READ},
	{"GET", "/v1/overrides", ADMIN},
	{"GET", "/v1/overrides/per-user/k", ADMIN},
	{"PUT", "/v1/overrides/per-user/k", ADMIN},
	{"DELETE", "/v1/overrides/per-user/k", ADMIN},
	{"GET", "/v1/top", READ},
	{"GET", "/v1/tail?x=y", READ},
	{"GET", "/v1/figures", READ},
	{"GET", "/metrics", READ},
	{"POST", "/json", CHECK},
	{"GET", "/rlconfig", READ},
	{"GET", "/healthz", 0},
	{"GET", "/readyz", 0},
	{"GET", "/healthcheck", 0},
	{"GET", "/", 0},
	{"GET", "/v1/openapi.json", 0},
	{"GET", "/dashboard/nosuch", 0},
};

static struct answer ask_rule(size_t rule, const char *lines) {
	char bytes[1024];
	const char *at;
	enum sl_door_verdict verdict;
	bool head = strcmp(rules[rule].method, "HEAD") == 0;
	int len = snprintf(bytes, sizeof bytes, "%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 2\r\n\r\n{}",
	                   rules[rule].method, rules[rule].target, lines);
	out.len = 0;
	feed(bytes, (size_t)len, &verdict);
	at = out.data;
	return read_answer(&at, out.data + out.len, head);
}

static void expect_rule(size_t rule, const char *lines, uint32_t roles, bool logged_in) {
	struct answer answer = ask_rule(rule, lines);
	bool refused = answer.status == 401 || answer.status == 403;
	bool allowed = rules[rule].roles == 0 || (roles & (rules[rule].roles | ADMIN)) != 0;
	if (refused == allowed || (refused && answer.status != (logged_in ? 403u : 401u)))
		fail_msg("%s %s with roles %u: %u %s", rules[rule].method, rules[rule].target, roles, answer.status,
		         answer.body);
	if (answer.json != NULL && refused) {
		const char *needed = rules[rule].roles & CHECK  ? "the role check"
		                     : rules[rule].roles & READ ? "the role read"
		                                                : "the role admin";
		assert_non_null(strstr(text_of(&answer, "detail"), needed));
	}
	answer_free(&answer);
}

static void test_every_route_and_role(void **state) {
	(void)state;
	static const struct {
		const char *anonymous, *lines;
		uint32_t roles;
	} callers[] = {
		{"", "", 0},
		{"", "Authorization: Basic Y2hlY2tlcjpwdy1jaGVja2Vy\r\n", CHECK},
		{"", "Authorization: Basic cmVhZGVyOnB3LXJlYWRlcg==\r\n", READ},
		{"", "Authorization: Basic YWRtaW46cHctYWRtaW4=\r\n", ADMIN},
		{"", "Authorization: Bearer token-robot\r\n", CHECK},
		{"anonymous: read\n", "", READ},
		{"anonymous: [check, read]\n", "", CHECK | READ},
		{"anonymous: admin\n", "", ADMIN},
		{"anonymous: admin\n", "Authorization: Bearer token-robot\r\n", CHECK},
	};
	for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
		assert_int_equal(guard(users_policy(callers[i].anonymous, "")), 0);
		for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++)
			expect_rule(rule, callers[i].lines, callers[i].roles, callers[i].lines[0] != '\0');
		unguard();
	}
	/* And where there are no users, all of it. */
	assert_int_equal(guard("limits: []\n"), 0);
	for (size_t rule = 0; rule < sizeof rules / sizeof *rules; rule++)
		expect_rule(rule, "", ADMIN, false);
	expect("GET", "/v1/limits", "Authorization: Bearer whatever\r\n", 200);
	unguard();
}

/* The table above has all routes: the answer to an unknown path lists them. */
static void test_no_route_is_forgotten(void **state) {
	(void)state;
	assert_int_equal(guard("limits: []\n"), 0);
	struct answer answer = get("/nosuch");
	const char *at = strstr(text_of(&answer, "detail"), "one of ");
	assert_non_null(at);
	for (at += strlen("one of "); *at != '\0';) {
		size_t len = strcspn(at, ","), plain = len - (at[len - 1] == '*');
		bool known = strncmp(at, "/v1/auth/", 9) == 0; /* test_proxies */
		for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
			known |= strncmp(rules[i].target, at, plain) == 0;
		if (!known)
			fail_msg("no rule for %.*s", (int)len, at);
		at += len + (at[len] != '\0' ? 2 : 0);
	}
	answer_free(&answer);
	unguard();
}

/* ---- the proxies' doors ---------------------------------------------------------------------------------------- */

static void test_proxies(void **state) {
	(void)state;
	static const char *const doors[] = {"/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/some/path"};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(guard(users_policy("", "")), 0);
		context.peer.is_trusted = true;
		expect("GET", doors[i], "", 200);
		/* The client's own credentials, right or wrong or strange, are none of ours. */
		expect("GET", doors[i], "Authorization: Bearer wrong\r\n", 200);
		expect("POST", doors[i], "Authorization: Basic !\r\nAuthorization: Basic !\r\n", 200);
		expect("POST", doors[i],
		       "Origin: https://elsewhere.example\r\nSec-Fetch-Site: cross-site\r\nX-Forwarded-For: 192.0.2.7\r\n",
		       200);
		context.peer.is_trusted = false;
		expect("GET", doors[i], "", 403);
		expect("GET", doors[i], "Authorization: Bearer token-robot\r\n", 403);
		assert_int_equal(sl_access_stretched(shared.access), 0);
		unguard();
		assert_int_equal(guard(users_policy("anonymous: check\n", "")), 0);
		expect("GET", doors[i], "Authorization: Bearer wrong\r\n", 200);
		unguard();
		assert_int_equal(guard(users_policy("anonymous: read\n", "")), 0);
		expect("GET", doors[i], "", 403);
		unguard();
		assert_int_equal(guard("limits: []\n"), 0);
		expect("GET", doors[i], "", 200);
		unguard();
	}
	/* What begins with a door's name is that door only if it is written so: what it forwards is behind it. */
	assert_int_equal(guard("limits: []\n"), 0);
	expect("GET", "/v1/auth/%65nvoy/x", "", 404);
	expect("GET", "/v1/auth/envoys", "", 404);
	char *longer = repeat("/v1/auth/envoy/", "%2f..%zz", 500, "");
	expect("GET", longer, "", 200);
	free(longer);
	unguard();
}

/* ---- pages of other sites -------------------------------------------------------------------------------------- */

static void expect_post(const char *target, const char *host, const char *lines, bool allowed) {
	struct answer answer = ask("POST", target, host, lines, "{\"key\":\"k\",\"limits\":[\"1/1m\"]}");
	bool refused = answer.status == 403;
	if (refused == allowed)
		fail_msg("POST %s to %s\n%s: %u %s", target, host, lines, answer.status, answer.body);
	answer_free(&answer);
}

static void test_other_sites(void **state) {
	(void)state;
	static const struct {
		const char *host, *lines;
		bool allowed;
	} cases[] = {
		{"127.0.0.1:7380", "", true}, /* a program */
		{"127.0.0.1:7380", "Origin: http://127.0.0.1:7380\r\n", true},
		{"127.0.0.1:7380", "Origin: https://127.0.0.1:7380\r\nSec-Fetch-Site: same-origin\r\n", true},
		{"LocalHost:7380", "Origin: http://localhost:7380\r\n", true},
		{"[::1]:7380", "Origin: http://[::1]:7380\r\n", true},
		{"127.0.0.1:7380", "Origin: http://127.0.0.1:7381\r\n", false},
		{"127.0.0.1:7380", "Origin: http://127.0.0.1\r\n", false},
		{"127.0.0.1:7380", "Origin: http://localhost:7380\r\n", false},
		{"127.0.0.1:7380", "Origin: https://evil.example\r\n", false},
		{"127.0.0.1:7380", "Origin: http://127.0.0.1:7380.evil.example\r\n", false},
		{"127.0.0.1:7380", "Origin: http://evil.example/127.0.0.1:7380\r\n", false},
		{"127.0.0.1:7380", "Origin: null\r\n", false},
		{"127.0.0.1:7380", "Origin:\r\n", false},
		{"127.0.0.1:7380", "Origin: http://\r\n", false},
		{"127.0.0.1:7380", "Origin: 127.0.0.1:7380\r\n", false},
		{"127.0.0.1:7380", "Origin: http://127.0.0.1:7380\r\nOrigin: http://evil.example\r\n", false},
		{"127.0.0.1:7380", "Origin: http://127.0.0.1:7380\r\nSec-Fetch-Site: cross-site\r\n", false},
		{"127.0.0.1:7380", "Sec-Fetch-Site: cross-site\r\n", false},
		{"127.0.0.1:7380", "Sec-Fetch-Site: none\r\n", true},
	};
	static const char *const targets[] = {"/v1/reset", "/v1/check", "/v1/reload"};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t j = 0; j < 3; j++) {
			assert_int_equal(guard("limits: []\n"), 0);
			expect_post(targets[j], cases[i].host, cases[i].lines, cases[i].allowed);
			unguard();
		}
	/* What only reads is the browser's to keep from the page. */
	assert_int_equal(guard(users_policy("", "")), 0);
	expect("GET", "/v1/limits", "Origin: https://evil.example\r\nAuthorization: Bearer token-robot\r\n", 200);
	unguard();
	/* With users, right credentials change nothing of that. */
	char lines[600];
	assert_int_equal(guard(users_policy("", "")), 0);
	snprintf(lines, sizeof lines, "%sOrigin: https://evil.example\r\n", basic("admin:pw-admin"));
	expect_post("/v1/reset", "x", lines, false);
	snprintf(lines, sizeof lines, "%sOrigin: https://x\r\n", basic("admin:pw-admin"));
	expect_post("/v1/reset", "x", lines, true);
	unguard();
}

/* An image in somebody's page, at a door that asks nobody for a name; and what a proxy passes on of such a page. */
static void test_images_of_other_sites(void **state) {
	static const char *const doors[] = {"/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/a", "/v1/auth/commit"};
	static const struct {
		const char *lines;
		bool refused;
	} cases[] = {
		{"", false},
		{"Sec-Fetch-Site: cross-site\r\n", true},
		{"sec-fetch-site:  Cross-Site \r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n", true},
		{"Sec-Fetch-Site: cross-site\r\nReferer: http://evil.example/x-forwarded-for\r\n", true},
		{"Sec-Fetch-Site: same-origin\r\n", false},
		{"Sec-Fetch-Site: none\r\n", false},
		{"Sec-Fetch-Site: cross-site\r\nX-Forwarded-Method: GET\r\n", false},
		{"X-FORWARDED-FOR: 192.0.2.7\r\nSec-Fetch-Site: cross-site\r\n", false},
		{"Sec-Fetch-Site: cross-site\r\nForwarded: for=192.0.2.7\r\n", false},
		{"Sec-Fetch-Site: cross-site\r\nX-Original-URI: /a\r\n", false},
		{"Sec-Fetch-Site: cross-site\r\nx-envoy-internal: true\r\n", false},
		{"Sec-Fetch-Site: cross-site\r\nSluice-Ticket: 0\r\n", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t j = 0; j < 4; j++)
			for (int trusted = 0; trusted < 2; trusted++) {
				assert_int_equal(guard("limits: [{name: all, key: [], limit: 1/1h}]\n"), 0);
				context.peer.is_trusted = trusted;
				expect("GET", doors[j], cases[i].lines, cases[i].refused ? 403 : j == 3 ? 400 : 200);
				if (j < 3) /* refused, it was not charged */
					expect("POST", doors[j], "", cases[i].refused ? 200 : j == 1 ? 403 : 429);
				unguard();
			}
}

/* A name that points to us today, and belonged to somebody else a moment ago. */
static void test_rebinding(void **state) {
	static const struct {
		const char *host;
		bool own;
	} names[] = {
		{"localhost", true},
		{"LOCALHOST:7380", true},
		{"localhost.", true},
		{"a.localhost:7380", true},
		{"127.0.0.1", true},
		{"192.0.2.7:80", true},
		{"[::1]", true},
		{"[2001:db8::1]:7380", true},
		{"sluice", true},
		{"sluice:7380", true},
		{"limits.example.com", true},
		{"Limits.Example.COM.:7380", true},
		{"evil.example", false},
		{"evil.example:7380", false},
		{"localhost.evil.example", false},
		{"127.0.0.1.evil.example:80", false},
		{".localhost", false},
		{"notlocal.host", false},
		{"a.limits.example.com", false},
		{"limits.example.com.evil.example", false},
		{"[evil.example]:80", false},
		{":80", false},
		{"", false},
	};
	static const char hosts[] = "listen: {http: {address: 127.0.0.1:0, hosts: [other.example, Limits.example.com]}}\n";
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (size_t j = 0; j < sizeof rules / sizeof *rules; j++) {
			bool exempt = strncmp(rules[j].target, "/health", 7) == 0 || strcmp(rules[j].target, "/readyz") == 0;
			if (strcmp(rules[j].method, "HEAD") == 0)
				continue;
			assert_int_equal(guard(hosts), 0);
			struct answer answer = ask(rules[j].method, rules[j].target, names[i].host, "", "");
			bool refused = answer.status == 403;
			if (refused != (!names[i].own && !exempt))
				fail_msg("%s %s to %s: %u %s", rules[j].method, rules[j].target, names[i].host, answer.status,
				         answer.body);
			if (refused)
				assert_problem(&answer, 403, "hosts: [NAME]");
			answer_free(&answer);
			/* A unix socket is beyond any page; and so are those who show a certificate. */
			context.peer.is_unix = true;
			answer = ask(rules[j].method, rules[j].target, names[i].host, "", "");
			assert_int_not_equal(answer.status, 403);
			answer_free(&answer);
			unguard();
		}
}

/* With users the page would need credentials that it has not; a proxy passes its client's Host on. */
static void test_hosts_are_free(void **state) {
	(void)state;
	assert_int_equal(guard(users_policy("anonymous: admin\n", "")), 0);
	expect_post("/v1/reset", "evil.example", "Origin: http://evil.example\r\n", true);
	unguard();
	static const char *const doors[] = {"/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/a"};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(guard("limits: []\n"), 0);
		struct answer answer = ask("GET", doors[i], "shop.example", "", "");
		assert_int_equal(answer.status, 200);
		answer_free(&answer);
		unguard();
	}
	assert_int_equal(guard("listen: {http: {address: 127.0.0.1:0, tls: true}}\n"
	                       "tls: {certificate: c.pem, key: k.pem, client-ca: ca.pem}\n"),
	                 0);
	context.peer.is_tls = true;
	expect_post("/v1/check", "limits.example", "", true);
	context.peer.is_tls = false;
	expect_post("/v1/check", "limits.example", "", false);
	unguard();
	/* a name is the listener's by which it is asked */
	static const char two[] = "listen: {http: [{address: 127.0.0.1:0, hosts: a.example}, {address: 127.0.0.1:0}]}\n";
	for (uint32_t listener = 0; listener < 2; listener++) {
		assert_int_equal(guard(two), 0);
		context.listener = listener;
		expect_post("/v1/check", "a.example", "", listener == 0);
		expect_post("/v1/check", "localhost", "", true);
		unguard();
	}
}

/* ---- bodies, counts -------------------------------------------------------------------------------------------- */

/* Whoever may not ask is told so before he sends a body. */
static void test_expectations_are_refused_too(void **state) {
	(void)state;
	static const char *const lines[] = {"", "Authorization: Bearer wrong\r\n", "Authorization: Bearer token-robot\r\n"};
	static const unsigned want[] = {401, 401, 403};
	for (int i = 0; i < 3; i++) {
		char bytes[512];
		assert_int_equal(guard(users_policy("", "")), 0);
		snprintf(bytes, sizeof bytes,
		         "POST /v1/reset HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n%s\r\n",
		         lines[i]);
		struct answer answer = ask_raw(bytes, strlen(bytes));
		assert_int_equal(answer.status, want[i]);
		assert_header(&answer, "Connection", "close");
		answer_free(&answer);
		unguard();
	}
}

static void test_refusals_are_counted(void **state) {
	(void)state;
	struct sl_worker_stats *stats = calloc(1, sizeof *stats);
	assert_int_equal(guard(users_policy("", "")), 0);
	context.stats = stats;
	expect("GET", "/healthz", "", 200);
	expect("GET", "/v1/limits", "Authorization: Bearer token-robot\r\n", 200);
	assert_int_equal(atomic_load(&stats->errors[SL_TRANSPORT_HTTP]), 0);
	expect("GET", "/v1/limits", "", 401);
	expect("GET", "/nosuch", "", 404);
	expect("GET", "/v1/reset", "", 405);
	struct answer answer = ask_raw("GET / HTTP/9.9\r\n\r\n", 18);
	answer_free(&answer);
	assert_int_equal(atomic_load(&stats->errors[SL_TRANSPORT_HTTP]), 4);
	assert_int_equal(context.commands, 5);
	context.stats = NULL;
	free(stats);
	unguard();
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_credentials),
		cmocka_unit_test(test_passwords_with_strange_bytes),
		cmocka_unit_test(test_too_many_failures),
		cmocka_unit_test(test_a_login_is_of_one_request),
		cmocka_unit_test(test_every_route_and_role),
		cmocka_unit_test(test_no_route_is_forgotten),
		cmocka_unit_test(test_proxies),
		cmocka_unit_test(test_other_sites),
		cmocka_unit_test(test_images_of_other_sites),
		cmocka_unit_test(test_rebinding),
		cmocka_unit_test(test_hosts_are_free),
		cmocka_unit_test(test_expectations_are_refused_too),
		cmocka_unit_test(test_refusals_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
