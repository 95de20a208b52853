/* The proxies' doors: what of a request the policy sees, whom it believes, and what is answered. */
#include "tests/unit/door_http.h"

#include <openssl/sha.h>

/* Limits of quota 0 deny whatever applies, and a denial with details shows the keys: so the answer tells what was
 * seen. */
#define DETAILS "listen: {http: {address: 127.0.0.1:0, details: true}}\n"
#define SHOW                                    \
	DETAILS                                     \
	"limits:\n"                                 \
	"  - {name: m, key: method, limit: 0/1m}\n" \
	"  - {name: h, key: host, limit: 0/1m}\n"   \
	"  - {name: p, key: path, limit: 0/1m}\n"   \
	"  - {name: i, key: ip, limit: 0/1m}\n"     \
	"  - {name: u, key: user, limit: 0/1m}\n"

#define SETTINGS                                    \
	"trusted-proxies: [10.0.0.0/8, \"fd00::/8\"]\n" \
	"attributes: {user: header x-user-id}\n"

static void come_from(const char *peer) {
	context.peer = (struct sl_peer){.text = peer};
	if (strcmp(peer, "unix") == 0) {
		context.peer.is_unix = context.peer.is_trusted = true;
		return;
	}
	assert_true(sl_address_parse(sl_str(peer), &context.peer.address, NULL));
	context.peer.is_trusted = sl_policy_trusts(context.policy, &context.peer.address);
}

static struct answer ask_door(const char *line, const char *head) {
	char bytes[16 * 1024 + 1];
	int len = snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\n%s\r\n", line, head);
	assert_true(len < (int)sizeof bytes);
	return ask_raw(bytes, (size_t)len);
}

/* The keys of all limits, with a space between. */
static const char *seen(const char *line, const char *head) {
	static char keys[8 * 1024];
	struct answer answer = ask_door(line, head);
	char *at = keys;
	if (answer.status != 429 && answer.status != 403)
		fail_msg("%s: %u %s", line, answer.status, answer.body);
	json_t *limits = json_object_get(answer.json, "limits");
	for (size_t i = 0; i < json_array_size(limits); i++)
		at += snprintf(at, sizeof keys - (size_t)(at - keys), "%s%s", i > 0 ? " " : "",
		               json_string_value(json_object_get(json_array_get(limits, i), "key")));
	answer_free(&answer);
	return keys;
}

struct row {
	const char *peer, *line, *head, *seen;
};

static void assert_seen(const struct row *rows, size_t count) {
	for (size_t i = 0; i < count; i++) {
		come_from(rows[i].peer);
		const char *got = seen(rows[i].line, rows[i].head);
		if (strcmp(got, rows[i].seen) != 0)
			fail_msg("from %s, %s\n%s\nwant %s\ngot  %s", rows[i].peer, rows[i].line, rows[i].head, rows[i].seen, got);
	}
}

#define ASSERT_SEEN(rows) assert_seen(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- what is seen -------------------------------------------------------------------------------------------- */

#define F "/v1/auth/forward"
#define N "/v1/auth/nginx"
#define E "/v1/auth/envoy"
#define XF \
	"Host: sluice:7380\r\nX-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /a?b\r\nX-Forwarded-Host: Example.COM:8443\r\n"
#define XO "X-Original-Method: PATCH\r\nX-Original-URI: /o//p?q=1\r\n"

static void test_requests_of_each_proxy(void **state) {
	static const struct row rows[] = {
		/* Traefik, Caddy */
		{"10.0.0.1", "GET " F, XF "X-Forwarded-For: 192.0.2.7\r\n", "method=PUT host=example.com path=/a ip=192.0.2.7"},
		{"10.0.0.1", "GET " F "?the=query&of=the-client", XF "X-User-Id: alice\r\n",
	     "method=PUT host=example.com path=/a ip=10.0.0.1 user=alice"},
		{"10.0.0.1", "POST " F "/below/it", XF, "method=PUT host=example.com path=/a ip=10.0.0.1"},
		/* nginx */
		{"10.0.0.1", "GET " N, "Host: Sluice.\r\n" XO "X-Forwarded-For: 192.0.2.7\r\n",
	     "method=PATCH host=sluice path=/o/p ip=192.0.2.7"},
		{"10.0.0.1", "GET " N "?status=429&x", "Host: s\r\nX-Forwarded-Host: a, b.example:1\r\n" XO,
	     "method=PATCH host=b.example path=/o/p ip=10.0.0.1"},
		/* Envoy: the request is the original one */
		{"10.0.0.1", "DELETE " E "/a%2Fb/%7Ec/../d?x=y", "Host: Shop.example:443\r\nX-Forwarded-For: 192.0.2.7\r\n",
	     "method=DELETE host=shop.example path=/a%252Fb/d ip=192.0.2.7"},
		{"10.0.0.1", "GET " E, "Host: s\r\n", "method=GET host=s path=/ ip=10.0.0.1"},
		{"10.0.0.1", "GET " E "/", "Host: s\r\n", "method=GET host=s path=/ ip=10.0.0.1"},
		{"10.0.0.1", "GET " E "/v1/auth/envoy/x", "Host: s\r\n", "method=GET host=s path=/v1/auth/envoy/x ip=10.0.0.1"},
		{"10.0.0.1", "GET " E "?x=/y", "Host: s\r\n", "method=GET host=s path=/ ip=10.0.0.1"},
		{"10.0.0.1", "GET " E "/a?", "Host: s\r\n", "method=GET host=s path=/a ip=10.0.0.1"},
		{"10.0.0.1", "GET " E "/a", XF XO, "method=GET host=sluice path=/a ip=10.0.0.1"},
		/* each door knows the other family, but takes method and path of one, its own first */
		{"10.0.0.1", "GET " F, "Host: s\r\n" XO, "method=PATCH host=s path=/o/p ip=10.0.0.1"},
		{"10.0.0.1", "GET " N, XF, "method=PUT host=example.com path=/a ip=10.0.0.1"},
		{"10.0.0.1", "GET " F, XF XO, "method=PUT host=example.com path=/a ip=10.0.0.1"},
		{"10.0.0.1", "GET " N, XF XO, "method=PATCH host=example.com path=/o/p ip=10.0.0.1"},
		{"10.0.0.1", "GET " N, "Host: s\r\nX-Original-URI: /o\r\nX-Forwarded-Method: DELETE\r\n",
	     "method=GET host=s path=/o ip=10.0.0.1"},
		{"10.0.0.1", "GET " F, "Host: s\r\nX-Forwarded-Uri: /f\r\nX-Original-Method: DELETE\r\n",
	     "method=GET host=s path=/f ip=10.0.0.1"},
	};
	(void)state;
	use_policy(SETTINGS SHOW);
	ASSERT_SEEN(rows);
}

static void test_where_nothing_is_forwarded(void **state) {
	static const struct row rows[] = {
		{"10.0.0.1", "PUT " F, "Host: s:80\r\n", "method=PUT host=s path=/ ip=10.0.0.1"},
		{"10.0.0.1", "PUT " F "/a//b?c", "Host: s\r\n", "method=PUT host=s path=/a/b ip=10.0.0.1"},
		{"10.0.0.1", "PUT " N "/a", "Host: s\r\nX-Original-URI:\r\nX-Original-Method: \r\nX-Forwarded-Host: ,\r\n",
	     "method=PUT host=s path=/a ip=10.0.0.1"},
		{"10.0.0.1", "PUT http://Abs.example:80" F "/a", "Host: other\r\n",
	     "method=PUT host=abs.example path=/a ip=10.0.0.1"},
		{"10.0.0.1", "PUT " N "?status=403", "Host: s\r\n", "method=PUT host=s path=/ ip=10.0.0.1"},
		/* hosts */
		{"10.0.0.1", "GET " F, "Host: [2001:DB8::1]:8443\r\n", "method=GET host=[2001:db8::1] path=/ ip=10.0.0.1"},
		{"10.0.0.1", "GET " F, "Host: EXAMPLE.com.:80\r\n", "method=GET host=example.com path=/ ip=10.0.0.1"},
		/* addresses */
		{"2001:db8:1:2:3:4:5:6", "GET " F, "Host: s\r\n", "method=GET host=s path=/ ip=2001:db8:1:2::/64"},
		{"::ffff:192.0.2.9", "GET " F, "Host: s\r\n", "method=GET host=s path=/ ip=192.0.2.9"},
		{"unix", "GET " F, "Host: s\r\n", "method=GET host=s path=/"},
		{"unix", "GET " F, "Host: s\r\nX-Forwarded-For: junk\r\n", "method=GET host=s path=/"},
		{"unix", "GET " F, XF "X-Forwarded-For: 192.0.2.7\r\n", "method=PUT host=example.com path=/a ip=192.0.2.7"},
	};
	(void)state;
	use_policy(SETTINGS SHOW);
	ASSERT_SEEN(rows);
}

static void test_several_lines_and_sources(void **state) {
	static const struct row rows[] = {
		/* of what a proxy sets, the last line: it stands after the client's */
		{"10.0.0.1", "GET " F, "X-Forwarded-Uri: /evil\r\nX-Forwarded-Method: EVIL\r\nX-Forwarded-Host: evil\r\n" XF,
	     "method=PUT host=example.com path=/a ip=10.0.0.1"},
		{"10.0.0.1", "GET " F, "Host: s\r\nX-User-Id:\r\n", "method=GET host=s path=/ ip=10.0.0.1 user="},
	};
	(void)state;
	use_policy(SETTINGS SHOW);
	ASSERT_SEEN(rows);
	/* attributes of any header, one header for two of them, built-in ones included */
	use_policy(DETAILS "attributes: {user: header x-a, again: header x-a, agent: header user-agent, to: header host}\n"
	           "limits: [{name: all, key: [user, again, agent, to], limit: 0/1m}]\n");
	come_from("192.0.2.1");
	assert_string_equal(seen("GET " F, "Host: H:1\r\nX-A: 1, 2\r\nUser-Agent: curl\r\n"),
	                    "user=1%2C 2,again=1%2C 2,agent=curl,to=H:1");
}

/* A client's own line beside the one that a proxy added would be a counter of his choice. */
static void test_an_attribute_given_twice_is_refused(void **state) {
	static const struct {
		const char *door;
		int status;
	} doors[] = {{"GET " F, 400}, {"GET " N, 403}, {"GET " N "?status=429", 429}, {"GET " E "/a", 400}};
	static const char *const heads[] = {
		"Host: s\r\nX-User-Id: a\r\nX-User-Id: b\r\n",       "Host: s\r\nX-User-Id: a\r\nX-User-Id: a\r\n",
		"Host: s\r\nx-user-id:\r\nA: b\r\nX-USER-ID: b=c\r\n", "Host: s\r\nX-User-Id: a\r\nX-User-Id:\r\n",
	};
	(void)state;
	use_policy("attributes: {user: header x-user-id}\nlimits: [{name: u, key: user | ip, limit: 1/1h}]\n");
	come_from("10.0.0.1");
	for (size_t i = 0; i < 16; i++) {
		struct answer answer = ask_door(doors[i / 4].door, heads[i % 4]);
		assert_int_equal(answer.status, doors[i / 4].status);
		assert_non_null(strstr(answer.body, "is given twice: expected each once"));
		answer_free(&answer);
	}
	struct answer answer = ask_door("GET " F, "Host: s\r\nX-User-Id: a\r\n"); /* nothing was charged */
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
}

/* Whoever is none of trusted-proxies is taken for what it is. */
static void test_strangers_forward_nothing(void **state) {
	static const struct row rows[] = {
		{"192.0.2.1", "GET " F, XF XO "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n",
	     "method=GET host=sluice path=/ ip=192.0.2.1"},
		{"192.0.2.1", "GET " N "/a",
	     XF XO "X-Real-IP: 6.6.6.6\r\nTrue-Client-IP: 6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6\r\n",
	     "method=GET host=sluice path=/a ip=192.0.2.1"},
		{"192.0.2.1", "GET " E "/a", XF "X-Forwarded-For: 6.6.6.6\r\n", "method=GET host=sluice path=/a ip=192.0.2.1"},
		{"2001:db8::1", "GET " F, XF "X-Forwarded-For: 10.0.0.1\r\n", "method=GET host=sluice path=/ ip=2001:db8::/64"},
	};
	(void)state;
	use_policy(SETTINGS SHOW);
	ASSERT_SEEN(rows);
}

/* What a client writes before its proxy appends the truth: the key stays the same. */
static void test_spoofed_addresses_buy_nothing(void **state) {
	static const char *const spoofs[] = {
		"X-Forwarded-For: 6.6.6.6",
		"X-Forwarded-For: 6.6.6.6, 10.0.0.1",
		"X-Forwarded-For: 10.0.0.1",
		"X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-For: ::ffff:10.0.0.1",
		"X-Forwarded-For: [fd00::1]:80",
		"X-Forwarded-For: unknown",
		"X-Forwarded-For: ,,,",
		"X-Forwarded-For: \"6.6.6.6",
		"x-forwarded-for: 6.6.6.6\r\nX-FORWARDED-FOR: 10.0.0.9",
		"X-Forwarded-For : 6.6.6.6",
		"X_Forwarded_For: 6.6.6.6",
		"X-Real-IP: 6.6.6.6",
		"True-Client-IP: 6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6",
		"Forwarded: for=6.6.6.6",
		"X-Forwarded-For: 6.6.6.6\t",
		"X-Forwarded-For:\t6.6.6.6,,10.0.0.2,",
	};
	char head[1024];
	(void)state;
	use_policy(SETTINGS SHOW);
	come_from("10.0.0.1");
	for (size_t i = 0; i < sizeof spoofs / sizeof spoofs[0]; i++) {
		snprintf(head, sizeof head, "Host: s\r\n%s\r\nX-Forwarded-For: 192.0.2.7, 10.0.0.3\r\n", spoofs[i]);
		if (strstr(spoofs[i], "For :") != NULL) { /* no request at all */
			struct answer answer = ask_door("GET " F, head);
			assert_int_equal(answer.status, 400);
			answer_free(&answer);
			continue;
		}
		const char *got = seen("GET " F, head);
		if (strcmp(got, "method=GET host=s path=/ ip=192.0.2.7") != 0)
			fail_msg("%s: %s", spoofs[i], got);
	}
}

static void test_forwarded_instead(void **state) {
	static const struct row rows[] = {
		{"10.0.0.1", "GET " F,
	     "Host: s\r\nForwarded: for=6.6.6.6\r\nForwarded: for=\"[2001:db8:7::1]:1\";proto=https\r\n",
	     "method=GET host=s path=/ ip=2001:db8:7::/48"},
		/* never a mixture */
		{"10.0.0.1", "GET " F, "Host: s\r\nX-Forwarded-For: 6.6.6.6\r\n", "method=GET host=s path=/ ip=10.0.0.1"},
		{"192.0.2.1", "GET " F, "Host: s\r\nForwarded: for=6.6.6.6\r\n", "method=GET host=s path=/ ip=192.0.2.1"},
	};
	(void)state;
	use_policy("client-address: forwarded\nipv6-prefix: 48\n" SETTINGS SHOW);
	ASSERT_SEEN(rows);
}

/* ---- long values --------------------------------------------------------------------------------------------- */

/* The first 959 bytes and the hash of all. */
static void fold(char folded[SLUICE_KEY_BYTES_MAX + 1], const char *value) {
	unsigned char digest[SHA256_DIGEST_LENGTH];
	SHA256((const unsigned char *)value, strlen(value), digest);
	int len = snprintf(folded, SLUICE_KEY_BYTES_MAX + 1, "%.959s~", value);
	for (size_t i = 0; i < sizeof digest; i++)
		len += snprintf(folded + len, 3, "%02x", digest[i]);
	assert_int_equal(len, SLUICE_KEY_BYTES_MAX);
}

/* The value is, and then the key with its name. */
static void assert_folded(const char *got, const char *name, const char *value) {
	char once[SLUICE_KEY_BYTES_MAX + 1], twice[SLUICE_KEY_BYTES_MAX + 1], named[SLUICE_KEY_BYTES_MAX + 16];
	fold(once, value);
	snprintf(named, sizeof named, "%s=%s", name, once);
	fold(twice, named);
	assert_memory_equal(got, twice, SLUICE_KEY_BYTES_MAX);
}

static void test_long_values_keep_apart(void **state) {
	char *value = repeat("", "v", 3000, ""), *head = malloc(16 * 1024), *first = NULL;
	(void)state;
	use_policy(DETAILS "attributes: {user: header x-user-id, again: header x-user-id}\n"
	           "limits: [{name: u, key: user, limit: 0/1m}, {name: v, key: again, limit: 0/1m}]\n");
	come_from("192.0.2.1");
	for (int last = 'a'; last <= 'b'; last++) {
		value[2999] = (char)last;
		snprintf(head, 16 * 1024, "Host: s\r\nX-User-Id: %s\r\n", value);
		const char *got = seen("GET " F, head);
		assert_int_equal(strlen(got), 1024 + 1 + 1024);
		char *user = strndup(got, 1024);
		assert_folded(user, "user", value);
		assert_folded(got + 1024 + 1, "again", value);
		if (first != NULL)
			assert_string_not_equal(first, user);
		free(first);
		first = user;
	}
	free(first);
	/* a key of 1024 bytes fits, one more does not */
	use_policy(DETAILS "attributes: {user: header x-user-id}\nlimits: [{name: u, key: user, limit: 0/1m}]\n");
	snprintf(head, 16 * 1024, "Host: s\r\nX-User-Id: %.1019s\r\n", value);
	assert_int_equal(strlen(seen("GET " F, head)), strlen("user=") + 1019);
	assert_null(strchr(seen("GET " F, head), '~'));
	snprintf(head, 16 * 1024, "Host: s\r\nX-User-Id: %.1020s\r\n", value);
	assert_non_null(strchr(seen("GET " F, head), '~'));
	free(value);
	/* 15 KiB of them, and of everything else */
	use_policy(SETTINGS SHOW);
	come_from("10.0.0.1");
	value = repeat("", "w", 3500, "");
	snprintf(head, 16 * 1024, "Host: %s\r\nX-Forwarded-Uri: /%s\r\nX-Forwarded-Method: %s\r\nX-User-Id: %s\r\n", value,
	         value, value, value);
	assert_int_equal(strlen(seen("GET " F, head)), 4 * 1024 + 4 + strlen("ip=10.0.0.1"));
	free(value);
	free(head);
}

/* ---- answers ------------------------------------------------------------------------------------------------- */

static const char counting[] = "trusted-proxies: [10.0.0.0/8]\n"
							   "limits:\n"
							   "  - {name: per-ip, key: ip, limit: fixed-window 2/10s}\n"
							   "  - {name: shaped, when: {path: /shaped}, key: ip, limit: leaky-bucket 1/10s queue 5}\n"
							   "  - {name: never, when: {path: /never}, key: [], limit: 0/1m}\n";

static void assert_allowed(const char *line, const char *head, const char *ratelimit) {
	struct answer answer = ask_door(line, head);
	assert_int_equal(answer.status, 200);
	assert_int_equal(answer.body_bytes, 0);
	assert_header(&answer, "Content-Type", NULL);
	assert_header(&answer, "Content-Length", "0");
	assert_header(&answer, "Cache-Control", "no-store");
	assert_header(&answer, "Retry-After", NULL);
	assert_header(&answer, "RateLimit", ratelimit);
	answer_free(&answer);
}

static void assert_denied(const char *line, const char *head, unsigned status) {
	struct answer answer = ask_door(line, head);
	assert_problem(&answer, status, "limit per-ip (fixed-window 2/10s) has 0 left");
	assert_string_equal(text_of(&answer, "type"), "https://iana.org/assignments/http-problem-types#quota-exceeded");
	assert_header(&answer, "Retry-After", "10");
	assert_header(&answer, "RateLimit", "\"per-ip\";r=0;t=10");
	assert_header(&answer, "RateLimit-Policy", "\"per-ip\";q=2;w=10");
	assert_string_equal(json_string_value(json_array_get(json_object_get(answer.json, "violated-policies"), 0)),
	                    "per-ip");
	assert_int_equal(json_object_size(answer.json), 5);
	answer_free(&answer);
}

/* A denied stranger is told of what denied him: not what is left of others, nor whom they count, nor what is tried. */
static void test_a_denial_s_body_is_lean(void **state) {
	static const char limits[] = "limits:\n"
								 "  - {name: everybody, key: [], limit: 1000000/1h}\n"
								 "  - {name: per-ip, key: ip, limit: sliding-log 1/1m}\n"
								 "  - {name: trial, key: ip, limit: 0/1m, observe: true}\n"
								 "  - {name: twice, key: path, limit: sliding-log 1/1m}\n";
	char policy[1024];
	(void)state;
	for (int details = 0; details < 2; details++) {
		snprintf(policy, sizeof policy, "%s%s", details ? DETAILS : "", limits);
		use_policy(policy);
		come_from(details ? "192.0.2.2" : "192.0.2.1");
		struct answer answer = ask_door("GET " F "/a", "Host: s\r\n");
		assert_int_equal(answer.status, details ? 429 : 200); /* /a was counted the first time */
		answer_free(&answer);
		answer = ask_door("GET " F "/a", "Host: s\r\n");
		assert_problem(&answer, 429, "limit ");
		json_t *violated = json_object_get(answer.json, "violated-policies");
		assert_string_equal(json_string_value(json_array_get(violated, json_array_size(violated) - 1)), "twice");
		assert_int_equal(json_array_size(violated), details ? 1 : 2);
		if (details) {
			assert_int_equal(json_array_size(json_object_get(answer.json, "limits")), 4);
		} else {
			static const char *const members[] = {"type", "title", "status", "detail", "violated-policies"};
			for (size_t i = 0; i < 5; i++)
				assert_non_null(json_object_get(answer.json, members[i]));
			assert_int_equal(json_object_size(answer.json), 5);
			assert_null(strstr(answer.body, "everybody"));
			assert_null(strstr(answer.body, "192.0.2"));
			assert_null(strstr(answer.body, "trial"));
		}
		answer_free(&answer);
	}
}

static void test_answers(void **state) {
	(void)state;
	use_policy(counting);
	come_from("192.0.2.1");
	assert_allowed("GET " F, "Host: s\r\n", "\"per-ip\";r=1;t=10");
	assert_allowed("PROPFIND " E "/x", "Host: s\r\n", "\"per-ip\";r=0;t=10");
	assert_denied("GET " F, "Host: s\r\n", 429);
	assert_denied("POST " E "/", "Host: s\r\nContent-Length: 0\r\n", 429);
	assert_denied("GET " N, "Host: s\r\n", 403);
	assert_denied("GET " N "?status=403", "Host: s\r\n", 403);
	assert_denied("GET " N "?x=1&status=429", "Host: s\r\n", 429);
	/* not the client's to choose */
	assert_denied("GET " F "?status=403", "Host: s\r\n", 429);
	assert_denied("GET " E "/?status=403", "Host: s\r\n", 429);
	struct answer answer = ask_door("GET " N "?status=503", "Host: s\r\n");
	assert_problem(&answer, 400, "status must be 403 or 429");
	answer_free(&answer);
	/* no retry for what can never pass */
	come_from("192.0.2.2");
	answer = ask_door("GET " E "/never", "Host: s\r\n");
	assert_problem(&answer, 429, "never");
	assert_header(&answer, "Retry-After", NULL);
	answer_free(&answer);
	/* no limit applies: allowed, without headers */
	come_from("unix");
	assert_allowed("GET " F, "Host: s\r\n", NULL);
}

static void test_a_delay_is_told(void **state) {
	struct answer answer;
	(void)state;
	use_policy("limits: [{name: shaped, key: ip, limit: leaky-bucket 1/10s queue 5}]\n");
	come_from("192.0.2.1");
	assert_allowed("GET " F, "Host: s\r\n", "\"shaped\";r=5;t=10");
	answer = ask_door("GET " F, "Host: s\r\n");
	assert_int_equal(answer.status, 200);
	assert_header(&answer, "Sluice-Delay-Ms", "10000");
	answer_free(&answer);
}

static void test_forms_of_the_listener(void **state) {
	struct answer answer;
	(void)state;
	use_policy(counting);
	come_from("192.0.2.1");
	context.forms = SL_FORM_DRAFT7 | SL_FORM_LEGACY_EPOCH;
	answer = ask_door("GET " F, "Host: s\r\n");
	assert_header(&answer, "RateLimit", "limit=2, remaining=1, reset=10");
	assert_header(&answer, "RateLimit-Policy", "2;w=10");
	assert_header(&answer, "X-RateLimit-Reset", "1767225610");
	answer_free(&answer);
	context.forms = 0;
	assert_allowed("GET " F, "Host: s\r\n", NULL);
	answer = ask_door("GET " F, "Host: s\r\n");
	assert_int_equal(answer.status, 429);
	assert_header(&answer, "RateLimit-Policy", NULL);
	assert_header(&answer, "Retry-After", "10");
	answer_free(&answer);
}

static void test_where_a_log_has_no_room(void **state) {
	struct answer answer;
	(void)state;
	use_policy("limits: [{name: a, key: ip, limit: sliding-log 4G/1d}]\n");
	fill_log_of("192.0.2.1");
	come_from("192.0.2.1");
	answer = ask_door("GET " F, "Host: s\r\n");
	assert_int_equal(answer.status, 429);
	assert_header(&answer, "Retry-After", "82801");
	answer_free(&answer);
	come_from("192.0.2.2");
	answer = ask_door("GET " F, "Host: s\r\n");
	assert_int_equal(answer.status, 200);
	answer_free(&answer);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_requests_of_each_proxy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_where_nothing_is_forwarded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_several_lines_and_sources, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_attribute_given_twice_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strangers_forward_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spoofed_addresses_buy_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forwarded_instead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_values_keep_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_denial_s_body_is_lean, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_delay_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forms_of_the_listener, setup, teardown),
		cmocka_unit_test_setup_teardown(test_where_a_log_has_no_room, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
