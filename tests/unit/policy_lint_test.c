/* Warnings: a file that loads and has something to look at; and as important, files without that have none. */
#include "policy/lint.h"
#include "tests/unit/policy_rows.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT(more) "limits:\n- {name: a, limit: 5/1m, " more "}\n"
#define OVERRIDES(more) "limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  overrides:\n" more

static void test_table(void **state) {
	static const struct row rows[] = {
		/* what an absent attribute switches off */
		{LIMIT("key: ip"), {{0}}},
		{LIMIT("key: [method, host, path, ip]"), {{2, 31, "each path has a quota of its own"}}},
		{LIMIT("key: user | ip"), {{0}}},
		{LIMIT("key: [user | tenant | host, path]"), {{2, 31, "each path has a quota of its own"}}},
		{LIMIT("key: []"), {{0}}},
		{LIMIT("key: user"), {{2, 31, "a request without 'user' escapes this limit: add a fallback"}}},
		{LIMIT("key: user | tenant"), {{2, 31, "a request with none of 'user | tenant' escapes this limit"}}},
		{LIMIT("key: [ip, user]"), {{2, 36, "a request without 'user' escapes"}}},
		{LIMIT("key: IP"), {{2, 31, "a request without 'IP' escapes"}}},
		{LIMIT("key: ip, when: {method: POST, path: /a*, host: h, ip: 1.2.3.4}"), {{0}}},
		{LIMIT("key: ip, when: {plan: free}"),
	     {{2, 42, "a request without 'plan' escapes this limit: a limit for all"}}},
		{"attributes: {user: header x-user}\n" LIMIT("key: user"), {{3, 31, "without 'user'"}}},
		/* numbers */
		{"limits:\n- {name: a, key: ip, limit: 0/1m}\n", {{2, 29, "a quota of 0 denies every request"}}},
		{OVERRIDES("  - {when: {plan: x}, limit: fixed-window 0/1s}\n"), {{6, 30, "a quota of 0"}}},
		/* what is never reached */
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: b}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: a}, limit: 2/1m}\n"),
	     {{7, 5, "never reached: the override in line 6 matches all of it"}}},
		{OVERRIDES("  - {when: {plan: 'a*'}, limit: 1/1m}\n  - {when: {plan: [ab, 'ac*']}, limit: 2/1m}\n"),
	     {{7, 5, "never reached"}}},
		{OVERRIDES("  - {when: {plan: 'a*'}, limit: 1/1m}\n  - {when: {plan: [ab, b]}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: 'ab*'}, limit: 1/1m}\n  - {when: {plan: 'a*'}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: 'a*'}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {user: u, plan: a}, limit: 2/1m}\n"),
	     {{7, 5, "never reached"}}},
		{OVERRIDES("  - {when: {plan: a, user: u}, limit: 1/1m}\n  - {when: {user: u}, limit: 2/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {}, limit: 1/1m}\n  - {when: {user: u}, limit: 2/1m}\n"),
	     {{4, 10, "never used: the override in line 6 has no conditions"}, {7, 5, "never reached"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited}\n", {{2, 29, "this limit never applies"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited, overrides: []}\n", {{2, 29, "this limit never applies"}}},
		{"limits:\n- {name: a, key: ip, limit: unlimited, overrides: [{when: {plan: x}, limit: 1/1s}]}\n", {{0}}},
		/* the rest */
		{"trusted-proxies: [10.0.0.0/8, 10.1.2.3/16]\n",
	     {{1, 31, "'10.1.2.3/16' has bits after its prefix: read as 10.1.0.0/16"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Limits of the calendar that nothing bounds, as many as there are: each has its warning, and no more. */
static void test_calendars(void **state) {
	static char yaml[64 * 128];
	(void)state;
	for (uint32_t count = 1; count < 64; count += 9) {
		struct sluice_policy *policy;
		struct sluice_problems problems = {NULL, 0};
		uint32_t warned = 0;
		size_t used = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (uint32_t i = 0; i < count; i++)
			used += (size_t)snprintf(yaml + used, sizeof yaml - used,
			                         "- {name: a%u, key: ip, limit: '%u/day'}\n", i, 5 + i);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), &problems), SLUICE_OK);
		for (uint32_t i = 0; i < problems.count; i++)
			warned += strstr(problems.list[i].text, "twice the quota passes around the end of a window") != NULL;
		assert_int_equal(warned, count);
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

#define WITHIN(when, override) \
	"limits:\n- name: a\n  key: ip\n  when: {" when "}\n  limit: 5/1m\n  overrides:\n" \
	"  - {when: {" override "}, limit: 9/1m}\n"
#define EXCLUDED {{7, 5, "never used: the limit's own `when` excludes all of it"}}

/* Overrides that the limit's own conditions exclude; and as many that come near to it. */
static void test_excluded_overrides(void **state) {
	static const struct row rows[] = {
		{WITHIN("method: GET", "method: POST"), EXCLUDED},
		{WITHIN("method: [GET, POST]", "method: POST"), {{0}}},
		{WITHIN("method: GET", "path: /a"), {{0}}},
		{WITHIN("path: '/a/*'", "path: '/b/*'"), EXCLUDED},
		{WITHIN("path: '/a/*'", "path: '/a/b/*'"), {{0}}},
		{WITHIN("path: '/a/b/*'", "path: '/a/*'"), {{0}}},
		{WITHIN("path: '/a/*'", "path: /b"), EXCLUDED},
		{WITHIN("path: '/a/*'", "path: [/b, /a/c]"), {{0}}},
		{WITHIN("path: '/a/*'", "path: /a"), EXCLUDED},
		{"paths: {trailing-slash: ignore}\n" WITHIN("path: '/a/*'", "path: /a"), {{0}}},
		{WITHIN("path: '/a/{id}'", "path: /b"), {{0}}},
		{WITHIN("path: ['/a/{id}', '/b/*']", "route: '/a/{id}'"), {{0}}},
		{WITHIN("path: ['/a/{id}', '/b/*']", "route: ['/c', '/b/*']"), {{0}}},
		{WITHIN("path: ['/a/{id}', '/b/*']", "route: '/b*'"), {{0}}},
		{WITHIN("path: ['/a/{id}', '/b/*']", "route: '/a/{org}'"), EXCLUDED},
		{WITHIN("path: ['/a/{id}', '/b/*']", "method: GET, route: [/c, '/d*']"), EXCLUDED},
		{WITHIN("path: /a, method: GET", "route: /b"), EXCLUDED},
		{WITHIN("method: GET", "route: /b"), {{0}}}, /* such a limit has no routes */
		{WITHIN("path: '/a/{id}'", "path: '/b/{id}'"), {{0}}},
		{WITHIN("plan: a, path: '/a/{plan}'", "plan: b") "  optional: true\n", {{0}}}, /* the part, not what was said */
		{WITHIN("ip: 10.0.0.0/8", "ip: 192.168.0.0/16"), EXCLUDED},
		{WITHIN("ip: 10.0.0.1", "ip: '2001:db8::/32'"), EXCLUDED},
		{WITHIN("ip: 10.0.0.0/8", "ip: 10.1.0.0/16"), {{0}}},
		{WITHIN("ip: 10.1.0.0/16", "ip: 10.0.0.0/8"), {{0}}},
		{WITHIN("ip: 10.0.0.0/8", "ip: '1*'"), {{0}}},
		{WITHIN("host: '*.example.com'", "host: '*.example.org'"), EXCLUDED},
		{WITHIN("host: '*.example.com'", "host: '*.eu.example.com'"), {{0}}},
		{WITHIN("host: '*.example.com'", "host: 'a*'"), {{0}}},
		{WITHIN("host: '*.example.com'", "host: example.com"), EXCLUDED},
		{WITHIN("not: {method: POST}", "method: POST"), EXCLUDED},
		{WITHIN("not: {method: POST, path: /a}", "method: POST"), {{0}}},
		{WITHIN("not: {method: POST}", "method: [GET, POST]"), {{0}}},
		{WITHIN("method: POST", "not: {method: POST}"), EXCLUDED},
		{WITHIN("method: [GET, POST]", "not: {method: POST}"), {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

#define SAME(first, more) OVERRIDES("  - {when: {" first "}, limit: 5/1m}\n" more)
#define NOTHING {{6, 5, "changes nothing: the limit itself says the same"}}

static void test_what_changes_nothing(void **state) {
	static const struct row rows[] = {
		{SAME("path: /a", ""), NOTHING},
		{SAME("path: /a", "  - {when: {path: /b}, limit: 9/1m}\n"), NOTHING},
		{SAME("path: /a", "  - {when: {path: '/*'}, limit: 9/1m}\n"), {{0}}}, /* an exception of what follows */
		{SAME("path: /a", "  - {when: {method: GET}, limit: 9/1m}\n"), {{0}}},
		{OVERRIDES("  - {when: {path: /a}, limit: sliding-window 5/60s}\n"), NOTHING},
		{OVERRIDES("  - {when: {path: /a}, limit: 5/1m, observe: true}\n"), {{0}}},
		{OVERRIDES("  - {when: {path: /a}, limit: fixed-window 5/1m}\n"), {{0}}},
		{"limits:\n- {name: a, key: ip, limit: 5/1m, candidate: 6/1m, overrides: [{when: {path: /a}, limit: 5/1m}]}\n",
	     {{0}}},
		/* `not` that leaves nothing */
		{LIMIT("key: ip, when: {path: '/a/b', not: {path: '/a/*'}}"), {{2, 41, "never holds: `not` excludes all"}}},
		{LIMIT("key: ip, when: {path: '/a/*', not: {path: '/a/b'}}"), {{0}}},
		{LIMIT("key: ip, when: {path: '/a/b', not: {path: '/a/*', method: GET}}"), {{0}}},
		{OVERRIDES("  - {when: {method: GET, not: {method: [GET, PUT]}}, limit: 1/1m}\n"), {{6, 12, "never holds"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

#define COSTS(more, list) \
	"limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  when: {path: '/a/*'}\n" more "  cost:\n" list
#define RESERVE(more, estimate) \
	"limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  when: {path: '/a/*'}\n" more "  reserve: {estimate: " estimate \
	"}\n"
#define ROUTE(when, cost) "  - {when: {" when "}, cost: " cost "}\n"

/* Costs that never count, or that no quota admits; and those that do. */
static void test_costs(void **state) {
	static const struct row rows[] = {
		{COSTS("", ROUTE("method: GET", "2") ROUTE("method: PUT", "3") "  - 1\n"), {{0}}},
		{COSTS("", ROUTE("method: [GET, PUT]", "2") ROUTE("method: PUT", "3")),
	     {{8, 5, "never reached: the cost in line 7 matches all of it"}}},
		{COSTS("", ROUTE("method: PUT", "2") ROUTE("method: [GET, PUT]", "3")), {{0}}},
		{COSTS("", ROUTE("path: '/a/b/*'", "2") ROUTE("path: /a/b/c, method: GET", "3")), {{8, 5, "never reached"}}},
		{COSTS("", ROUTE("method: GET, not: {method: [GET, PUT]}", "2")),
	     {{7, 12, "never holds: `not` excludes all that the other conditions match"}}},
		{COSTS("", ROUTE("method: [GET, PUT], not: {method: GET}", "2")), {{0}}},
		{COSTS("", ROUTE("path: /b", "2")), {{7, 5, "never used: the limit's own `when` excludes all of it"}}},
		{COSTS("", ROUTE("path: '/*'", "2")), {{0}}},
		{COSTS("", ROUTE("route: /b", "2")), {{7, 5, "never used: the limit's own `when` excludes all of it"}}},
		{COSTS("", ROUTE("", "2") "  - 1\n"), {{8, 5, "never used: the cost in line 7 has no conditions"}}},
		{COSTS("", ROUTE("", "2") "  - header x-cost\n  - 1\n"), {{8, 5, "never used: the cost in line 7"}}},
		{COSTS("", ROUTE("method: GET", "2") "  - header x-cost\n"), {{0}}},
		/* more than any quota admits */
		{COSTS("", ROUTE("method: GET", "5") "  - header x-cost\n  - 5\n"), {{0}}},
		{COSTS("", ROUTE("method: GET", "6")),
	     {{7, 5, "never admitted: a cost of 6, where the largest quota that it can be charged to admits 5 at once"}}},
		{COSTS("", ROUTE("method: GET", "1") "  - header x-cost\n  - 6\n"), {{9, 5, "never admitted: a cost of 6"}}},
		{COSTS("", "  - 6\n"), {{7, 5, "never admitted"}}},
		{COSTS("  observe: true\n", "  - 6\n"), {{0}}},
		{COSTS("  canary: 10% of ip\n", "  - 6\n"), {{0}}},
		{"observe: true\n" COSTS("", "  - 6\n"), {{1, 10, "all limits are only observed"}}},
		{COSTS("  overrides-from: q.csv\n", "  - 6\n"), {{0}}},
		{COSTS("  overrides: [{when: {host: h}, limit: 9/1m}]\n", "  - 6\n"), {{0}}},
		{COSTS("  overrides: [{when: {host: h}, limit: unlimited}]\n", "  - 6\n"), {{0}}},
		{COSTS("  overrides: [{when: {host: h}, limit: 5/1m, observe: true}]\n", "  - 6\n"), {{0}}},
		{COSTS("  overrides: [{when: {host: h}, limit: 9/1m}]\n", "  - 10\n"),
	     {{8, 5, "a cost of 10, where the largest quota that it can be charged to admits 9"}}},
		{COSTS("  overrides: [{when: {method: GET}, limit: 9/1m}]\n", ROUTE("method: PUT", "6")), {{8, 5, "admits 5"}}},
		{COSTS("  overrides: [{when: {method: GET}, limit: 9/1m}]\n", ROUTE("method: GET", "6")), {{0}}},
		{COSTS("  overrides: [{when: {method: GET}, limit: 2/1m}]\n", ROUTE("method: GET", "3")), {{8, 5, "admits 2"}}},
		{LIMIT("key: ip, cost: 5"), {{0}}},
		{LIMIT("key: ip, cost: 6"), {{2, 41, "never admitted: a cost of 6"}}},
		{LIMIT("cost: header x-cost, key: ip"), {{0}}},
		{"limits:\n- {name: a, key: ip, limit: token-bucket 5/1m burst 9, cost: 9}\n", {{0}}},
		{"limits:\n- {name: a, key: ip, limit: token-bucket 5/1m burst 4, cost: 5}\n", {{2, 62, "admits 4 at once"}}},
		{"limits:\n- {name: a, key: ip, limit: leaky-bucket 5/1m queue 1, cost: 3}\n", {{2, 62, "admits 2 at once"}}},
		{"limits:\n- {name: a, key: ip, limit: 0/1m, cost: 3}\n", {{2, 29, "a quota of 0 denies every request"}}},
		/* an estimate of reserve likewise */
		{RESERVE("", "5"), {{0}}},
		{RESERVE("", "6"),
	     {{6, 23, "never admitted: an estimate of 6, where the largest quota that it can be charged to admits 5 at"}}},
		{RESERVE("", "[header x-estimate, 6]"), {{6, 43, "never admitted: an estimate of 6"}}},
		{RESERVE("", "header x-estimate"), {{0}}},
		{RESERVE("  observe: true\n", "6"), {{0}}},
		{RESERVE("  overrides-from: q.csv\n", "6"), {{0}}},
		{RESERVE("  overrides: [{when: {host: h}, limit: 6/1m}]\n", "6"), {{0}}},
		{RESERVE("  overrides: [{when: {host: h}, limit: 6/1m}]\n", "7"), {{7, 23, "admits 6 at once"}}},
		{LIMIT("key: ip, reserve: true"), {{0}}},
		/* what a part of the path is, and not what the request said */
		{"limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  when: {path: '/a/{m}', m: x}\n  optional: true\n"
	     "  cost: [{when: {m: y}, cost: 2}]\n",
	     {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

#define TWO(one, two) "limits:\n- {name: a, " one "}\n- {name: b, " two "}\n"
#define HIDDEN(line, by) {{line, 3, "denies no request that the limit in line " by " admits"}}

/* Limits that another one hides; and those that only look so. */
static void test_hidden_limits(void **state) {
	static const struct row rows[] = {
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m"), HIDDEN(3, "2")},
		{TWO("key: ip, limit: 6/1m", "key: ip, limit: 5/1m"), HIDDEN(2, "3")},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 5/1m"), HIDDEN(3, "2")},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m, when: {path: /a}"), HIDDEN(3, "2")},
		{TWO("key: ip, limit: 5/1m, when: {path: /a}", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m, when: {path: /a}", "key: ip, limit: 6/1m, when: {path: /b}"), {{0}}},
		{TWO("key: ip, limit: 5/1m, when: {not: {path: /a}}", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 100/1h"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: host, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: [ip, host], limit: 6/1m"), {{0}}},
		{TWO("key: user | ip, limit: 5/1m", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: sliding-log 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m, observe: true", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m, observe: true"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m, candidate: 4/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m, cost: 2", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m, overrides: [{when: {path: /a}, limit: 9/1m}]", "key: ip, limit: 6/1m"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m, overrides: [{when: {path: /a}, limit: 1/1m}]"), {{0}}},
		{TWO("key: ip, limit: 5/1m", "key: ip, limit: 6/1m, penalty: '[1m] after 3 denials in 1m'"), {{0}}},
		{TWO("key: ip, limit: token-bucket 5/1m", "key: ip, limit: token-bucket 6/1m"), {{0}}},
		{TWO("key: ip, limit: token-bucket 5/1m", "key: ip, limit: token-bucket 5/1m"), HIDDEN(3, "2")},
		{TWO("key: ip, limit: concurrency 5 lease 1m", "key: ip, limit: concurrency 6 lease 1m"), {{0}}},
		{TWO("key: id, limit: 5/1m, when: {path: '/a/{id}'}", "key: id, limit: 6/1m, when: {path: '/a/{id}'}"), {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

#define ROUTES(key, routes) "limits:\n- {name: a, limit: 5/1m, key: [" key "], when: {path: [" routes "]}}\n"

static void test_hidden_routes(void **state) {
	static const struct row rows[] = {
		{ROUTES("route", "'/a/{x}', '/a/b'"), {{2, 46, "'/a/b' is never the route: '/a/{x}' before it matches"}}},
		{ROUTES("route", "'/a/b', '/a/{x}'"), {{0}}},
		{ROUTES("route", "'/a/{x}', '/a/{y}'"), {{2, 46, "'/a/{y}' is never the route"}}},
		{ROUTES("route", "'/a/{x}', '/a/{x}/b'"), {{0}}},
		{ROUTES("route", "'/a/*', '/a/{x}'"), {{2, 46, "'/a/{x}' is never the route: '/a/*' before it"}}},
		{ROUTES("route", "'/a/*', '/a'"), {{0}}},
		{"paths: {trailing-slash: ignore}\n" ROUTES("route", "'/a/*', '/a'"),
	     {{3, 46, "'/a' is never the route: '/a/*' before it"}}},
		{ROUTES("route", "'/a/b/*', '/a/{x}/*'"), {{0}}},
		{ROUTES("route", "'/a*', '/b'"), {{0}}},
		{ROUTES("ip", "'/a/*', '/a/b'"), {{0}}}, /* nobody asks for it */
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Limits that exclude each other may be as many as they like; seventeen that meet may not. */
static void test_many(void **state) {
#define MANY "one limit more than the 16 that may apply to a request: it denies such a request"
	static char yaml[65536];
	static const struct {
		const char *first; /* of so many limits; then come so many others */
		unsigned count;
		const char *then;
		unsigned then_count;
		struct wanted wanted[3];
	} rows[] = {
		{"- {name: n%u, key: ip, limit: 1/1%us}\n", 16, "", 0, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1%us}\n", 17, "", 0, {{18, 3, MANY}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: '/%u'}}\n", 500, "", 0, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1s, when: {path: ['/%u', '/x*']}}\n", 500, "", 0, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1%us, when: {path: '/x*', method: POST}}\n", 17, "", 0, {{18, 3, MANY}}},
		{"- {name: n%u, key: ip, limit: 1/1%us, when: {path: '/%u*'}}\n", 500, "", 0, {{0}}},
		/* each kind of request is told of, once */
		{"- {name: n%u, key: ip, limit: 1/1%us, when: {path: /a}}\n",
	     19,
	     "- {name: m%u, key: ip, limit: 1/1%us, when: {path: /b}}\n",
	     17,
	     {{18, 3, MANY}, {37, 3, MANY}}},
		/* an observed limit that finds no place denies nobody */
		{"- {name: n%u, key: ip, limit: 1/1%us, observe: true}\n", 20, "", 0, {{0}}},
		{"- {name: n%u, key: ip, limit: 1/1%us, observe: true}\n",
	     17,
	     "- {name: m%u, key: ip, limit: 1/2%us}\n",
	     2,
	     {{19, 3, MANY}}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (unsigned j = 0; j < rows[i].count; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, rows[i].first, j, j, j);
		for (unsigned j = 0; j < rows[i].then_count; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, rows[i].then, j, j, j);
		sl_policy_rows_warned(&(struct row){yaml, {rows[i].wanted[0], rows[i].wanted[1]}}, 1);
	}
}

/* ---- conditions and attributes ----------------------------------------------------------------------------------- */

#define WHEN(what) "limits:\n- {name: a, key: ip, limit: 5/1m, when: {" what "}}\n"

static void test_what_never_holds(void **state) {
	static const struct row rows[] = {
		{WHEN("path: /search?q=1"), {{2, 48, "paths are compared without their query: this holds for '/search' with "
		                                     "any"}}},
		{WHEN("path: '/search?q=*'"), {{2, 48, "never holds: paths are compared without their query"}}},
		{WHEN("path: [/a, upload]"),
	     {{2, 53, "never holds at the proxies' doors: a path begins with /, as in '/upload'"}}},
		{WHEN("path: 'up*'"), {{2, 48, "a path begins with /, as in '/up'"}}},
		{WHEN("path: ['*', /a//b, /a/../b*, '%2a']"), {{2, 71, "a path begins with /"}}},
		{WHEN("path: /caf\xc3\xa9"), {{2, 48, "clients send such bytes encoded: write '/caf%C3%A9'"}}},
		{WHEN("path: \"/a b/{id}/\\x7f*\""), {{2, 48, "clients send such bytes encoded: write '/a%20b/{id}/%7F'"}}},
		{WHEN("path: [/caf%C3%A9, /a%20b, '/~!$&()+;=:@%25']"), {{0}}},
		{WHEN("path: '/a/%c*'"), {{2, 48, "never holds: digits of encoded characters are compared in upper case: "
		                                  "write '/a/%C'*"}}},
		{WHEN("path: ['/a/%C*', '/a/%*', '/a/%2*', '/a/%c3*', '/a/c*']"), {{0}}},
		{"paths: {case: ignore}\n" WHEN("path: '/a/%c*'"), {{0}}},
		{WHEN("method: [GET, 'PROP*']"), {{0}}},
		{WHEN("method: get"), {{2, 50, "methods are compared in upper case: this holds for 'GET'"}}},
		{WHEN("method: [GET, 'prop*']"), {{2, 56, "this holds for 'PROP'"}}},
		{WHEN("host: Example.com"), {{0}}},
		{WHEN("host: 'Example.com:443'"), {{2, 48, "hosts are compared without their port: this holds for "
		                                           "'example.com' at any"}}},
		{WHEN("host: ['[::1]', '[::1]:80']"), {{2, 58, "this holds for '[::1]' at any"}}},
		{WHEN("host: 'a.example:80*'"), {{2, 48, "never holds: hosts are compared without their port"}}},
		{WHEN("ip: [1.2.3.4, '::ffff:1.2.3.5', local, '10.*']"), {{0}}},
		{WHEN("ip: 10.0.0.0/8"), {{0}}},
		{WHEN("ip: '2001:db8::/32'"), {{0}}},
		{WHEN("ip: '2001:db8::/96'"), {{2, 46, "IPv6 counts by networks: this holds for all of '2001:db8::/64'"}}},
		{WHEN("ip: '2001:db8::/64'"), {{0}}},
		{WHEN("ip: '2001:db8::5'"), {{2, 46, "IPv6 counts by networks: this holds for all of '2001:db8::/64'"}}},
		{WHEN("ip: '2001:db8::5'") "ipv6-prefix: 128\n", {{0}}},
		{WHEN("ip: [10.0.0.7, 10.0.0.256]"), {{2, 57, "never holds for an address: expected four numbers up to 255"}}},
		{WHEN("ip: 10.0.0/8"), {{2, 46, "never holds for an address: expected four numbers"}}},
		{WHEN("ip: 10.0.0.0/33"), {{2, 46, "or a network with /0 to /32, such as 10.0.0.0/8"}}},
		{WHEN("ip: '2001:db8::/129'"), {{2, 46, "expected one such as 2001:db8::5, or a network with /0 to /128"}}},
		{WHEN("ip: [unix, cafe, '10.0.0.x', 1/2/3, '10.0.0.256*']"), {{0}}}, /* given by callers of ADMIT */
		{OVERRIDES("  - {when: {path: /a?b}, limit: 1/1m}\n"), {{6, 19, "paths are compared without their query"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Values of conditions have the form of requests' values. */
static void test_conditions_take_the_form(void **state) {
	static const struct {
		const char *when, *name, *value;
	} rows[] = {
		{"method: get", "method", "GET"},
		{"method: 'prop*'", "method", "propfind"},
		{"path: /a//%62?x", "path", "/a/b"},
		{"path: '/a/../b/*'", "path", "/b/c?d"},
		{"host: 'A.Example:443'", "host", "a.example"},
		{"ip: '2001:db8::5'", "ip", "2001:DB8::6"},
		{"ip: '::ffff:1.2.3.4'", "ip", "1.2.3.4:5"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		static char buffer[SLUICE_MATCH_BYTES_MAX];
		char yaml[128];
		struct sluice_policy *policy;
		struct sluice_match match;
		struct sluice_attribute attribute = {sl_str(rows[i].name), sl_str(rows[i].value)};
		snprintf(yaml, sizeof yaml, "limits: [{name: a, key: [], limit: 5/1m, when: {%s}}]", rows[i].when);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(match.count, 1);
		sluice_policy_free(policy);
	}
}

static void test_names(void **state) {
	static const struct row rows[] = {
		{LIMIT("key: user | ip"), {{2, 31, "HTTP doors have no attribute 'user': name its header under `attributes`"}}},
		{LIMIT("key: ip | user"), {{2, 36, "HTTP doors have no attribute 'user'"}}},
		{"attributes: {user: header x-user}\n" LIMIT("key: user | ip"), {{0}}},
		{"listen: {http: []}\n" LIMIT("key: user | ip"), {{0}}},
		{OVERRIDES("  - {when: {plan: a}, limit: 1/1m}\n  - {when: {plan: b}, limit: 2/1m}\n"),
	     {{6, 13, "HTTP doors have no attribute 'plan'"}}},
		{LIMIT("key: 'user,ip', optional: true"), {{0}}},
		{LIMIT("key: 'user,ip'"),
	     {{2, 31, "a request without 'user,ip' escapes"},
	      {2, 31, "'user,ip' is one attribute of that name: a list is"}}},
		/* what may be absent, and is meant so */
		{LIMIT("key: user, optional: true"), {{0}}},
		{LIMIT("key: ip, when: {plan: free}, optional: true"), {{0}}},
		{LIMIT("key: user, optional: false"), {{2, 31, "a request without 'user' escapes"}}},
		{"limits:\n- {name: a, limit: distinct 5/1m, key: ip, of: user, optional: true}\n", {{0}}},
		{"limits:\n- {name: a, limit: 5/1m, key: user, optional: true}\n- {name: b, limit: 5/1h, key: user}\n",
	     {{3, 31, "a request without 'user' escapes"}, {3, 31, "HTTP doors have no attribute 'user'"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

static void test_server(void **state) {
	static const struct row rows[] = {
		{"threads: 256\nlimits: []\n", {{0}}},
		{"listen: {grpc: 127.0.0.1:1}\nlimits: []\n", {{0}}},
		{"trusted-proxies: [10.0.0.0/8, 0.0.0.0/0]\nlimits: []\n", {{1, 31, "every address is trusted"}}},
		{"trusted-proxies: ['::/0', '::ffff:0:0/96', '::/1', 0.0.0.0/1]\nlimits: []\n",
	     {{1, 19, "every address is trusted"}, {1, 27, "every address is trusted"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Warnings show beside mistakes, but for those that may follow from one. */
static void test_beside_mistakes(void **state) {
	static const struct {
		const char *yaml;
		size_t count, warnings;
	} rows[] = {
		{"limits:\n- {name: a, key: user, limit: 0/1s}\nthreads: 0\n", 4, 3},
		{"limits:\n- {name: a, key: user |, limit: 5/1m}\n", 1, 0}, /* a fallback was meant */
		{"limits:\n- {name: a, key: ip, limit: unlimted}\n", 1, 0},
		{"limits:\n- {name: a, key: ip, limit: 5/1m, overrides: [{when: {plan: }, limit: 1/1m}]}\n", 1, 0},
		{"users: [{name: a}]\nlisten: {http: '0.0.0.0:80'}\n", 2, 0}, /* there are users, if bad ones */
		{"limits: [{name: a, key: ip, limit: 5/1m, when: {path: /a?b}, optional: maybe}]\n", 2, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		size_t warnings = 0;
		assert_int_equal(sluice_policy_load(&policy, sl_str(rows[i].yaml), &problems), SLUICE_E_SYNTAX);
		sl_policy_print(&problems);
		for (size_t j = 0; j < problems.count; j++)
			warnings += problems.list[j].warning;
		assert_int_equal(problems.count, rows[i].count);
		assert_int_equal(warnings, rows[i].warnings);
		sluice_problems_free(&problems);
	}
}

/* Warnings are cut at two hundred, and leave room for mistakes. */
static void test_warnings_are_bounded(void **state) {
	static char yaml[128 * 1024];
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len,
		                        "- {name: n%u, key: ip, limit: 0/1s, when: {path: /%u}}\n", i, i);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), &problems), SLUICE_OK);
	assert_int_equal(problems.count, 201);
	assert_non_null(strstr(problems.list[200].text, "there are more than 200 warnings"));
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	policy = NULL;
	len += (size_t)snprintf(yaml + len, sizeof yaml - len, "threads: 0\n");
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), &problems), SLUICE_E_SYNTAX);
	assert_int_equal(problems.count, 202);
	assert_int_equal(problems.list[201].line, 1002);
	assert_false(problems.list[201].warning);
	sluice_problems_free(&problems);
}

/* Nine limits of one attribute and eight of another meet in a request that has both. */
static void test_many_of_different_conditions(void **state) {
	static char yaml[8192];
	(void)state;
	for (unsigned more = 7; more <= 8; more++) {
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (unsigned j = 0; j < 9 + more; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len,
			                        "- {name: n%u, key: ip, limit: 1/1%us, when: {%s}}\n", j, j,
			                        j < 9 ? "method: POST" : "path: /x");
		sl_policy_rows_warned(
			&(struct row){yaml, {more == 7 ? (struct wanted){0} : (struct wanted){18, 3, "one limit more"}}}, 1);
	}
}

static void test_room(void **state) {
	static const struct row rows[] = {
		{"store: {blocks: 50%}\nlimits:\n- {name: n, key: ip, limit: sliding-log 8M/1h}\n", {{0}}},
		{"store: {blocks: 50%}\nlimits:\n- {name: n, key: ip, limit: sliding-log 9M/1h}\n",
	     {{3, 3, "a key that uses up the quota by costs of 1 needs 35157 KiB, and may have at most 32768 KiB of"}}},
		{"store: {memory: 1MiB, blocks: 50%}\nlimits:\n- {name: n, key: ip, limit: concurrency 8k lease 1m}\n", {{0}}},
		{"store: {memory: 1MiB, blocks: 50%}\nlimits:\n- {name: n, key: ip, limit: concurrency 9k lease 1m}\n",
	     {{3, 3, "needs"}}},
		{"store: {memory: 1MiB, blocks: 1%}\nlimits:\n"
	     "- {name: n, key: ip, limit: sliding-buckets 90k/1d precision 1m}\n",
	     {{3, 3, "needs 6 KiB, and may have at most 3 KiB"}}},
		{"store: {memory: 1MiB}\nlimits:\n- {name: n, key: ip, limit: 9/1m, overrides: [{when: {ip: a}, limit: "
	     "sliding-log 1M/1h}]}\n",
	     {{3, 3, "needs"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* Of many overrides, too, those are found that another one hides, whatever kind of condition hides them; and of a
 * hundred thousand within the budget. */
static void test_hidden_among_many(void **state) {
	static const char *const hidden[] = {"user: u7",
	                                     "user: 'begins-abc'",
	                                     "user: 'begins-x*'",
	                                     "host: a.b.example.com",
	                                     "host: '*.b.example.com'",
	                                     "ip: 10.1.2.3",
	                                     "ip: 10.1.0.0/16",
	                                     "path: /orders/5, plan: pro",
	                                     "path: [/orders/5, '/orders/6*'], user: whoever"};
	static const char *const seen[] = {"user: u7777777", "host: example.com", "ip: 11.0.0.0/8", "path: /order",
	                                   "user: 'begins*'"};
	const unsigned many = 50000, count = sizeof hidden / sizeof *hidden, others = sizeof seen / sizeof *seen;
	const size_t room = (size_t)many * 64 + 4096;
	char *yaml = malloc(room);
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	size_t len =
		(size_t)snprintf(yaml, room,
	                     "attributes: {user: given, plan: given}\nlimits:\n- name: a\n  key: ip\n  limit: 1/1s\n"
	                     "  overrides:\n"
	                     "  - {when: {user: 'begins-*'}, limit: 2/1s}\n"
	                     "  - {when: {host: '*.example.com'}, limit: 2/1s}\n"
	                     "  - {when: {ip: 10.0.0.0/8}, limit: 2/1s}\n"
	                     "  - {when: {path: '/orders/*'}, limit: 2/1s}\n");
	(void)state;
	for (unsigned i = 0; i < many; i++)
		len += (size_t)snprintf(yaml + len, room - len, "  - {when: {user: u%u}, limit: 2/1s}\n", i);
	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(yaml + len, room - len, "  - {when: {%s}, limit: 2/1s}\n", hidden[i]);
	for (unsigned i = 0; i < others; i++)
		len += (size_t)snprintf(yaml + len, room - len, "  - {when: {%s}, limit: 2/1s}\n", seen[i]);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), &problems), SLUICE_OK);
	unsigned found = 0;
	for (size_t i = 0; i < problems.count; i++)
		if (strstr(problems.list[i].text, "never reached") != NULL) {
			assert_int_equal(problems.list[i].line, 7 + 4 + many + found);
			found++;
		}
	assert_int_equal(found, count);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	free(yaml);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

/* Keys of one limit that share the quota of another, and how many at full quota ask for more than that. */
static void test_sums(void **state) {
	static const struct {
		const char *below, *above;
		uint64_t keys; /* 0: they are no such pair */
	} rows[] = {
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m", 11},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 105/1m", 11},
		{"key: [tenant, user], limit: 600/1h", "key: tenant, limit: 100/1m", 11},
		{"key: [tenant, user], limit: 10/1m", "key: [], limit: 9/1m", 1},
		{"key: [tenant, user], limit: 4294967295/1m", "key: [], limit: 1/1h", 1},
		{"key: [user, tenant], limit: 10/1m", "key: user, limit: 10/1m", 2},
		{"key: [tenant, user], limit: 10/1m, observe: true", "key: tenant, limit: 100/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m, observe: true", 0},
		{"key: [tenant, user], limit: 0/1m", "key: tenant, limit: 100/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 0/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: ip, limit: 100/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: [user, tenant], limit: 100/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m, when: {path: /a}", 0},
		{"key: [tenant, user], limit: 10/1m, when: {path: /a}", "key: tenant, limit: 100/1m", 11},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/month at UTC", 0},
		{"key: [tenant, user], limit: 10/month at UTC", "key: tenant, limit: 100/1m", 0},
		{"key: [tenant, user], limit: concurrency 9 lease 1m", "key: tenant, limit: 100/1m", 0},
		{"key: [tenant | ip, user], limit: 10/1m", "key: tenant, limit: 100/1m", 0},
		/* what they count is not requests' own cost, or not of all requests */
		{"key: [tenant, user], limit: 5000/1h, cost: 10", "key: [], limit: 1000/1h", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m, cost: 10", 0},
		{"key: [tenant, user], limit: 10/1m, cost: [{when: {path: /a}, cost: 2}]", "key: [], limit: 9/1m", 0},
		{"key: [tenant, user], limit: 400k/1m, reserve: true", "key: [], limit: 1000/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m, reserve: true", 0},
		{"key: [tenant, user], limit: 10/1m, canary: 1% of user", "key: tenant, limit: 100/1m", 0},
		{"key: [tenant, user], limit: 10/1m", "key: tenant, limit: 100/1m, canary: 1% of tenant", 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[512];
		struct sluice_policy *policy = NULL;
		struct sl_lint_sum list[4] = {{0}};
		snprintf(yaml, sizeof yaml, "limits:\n- {name: b, %s}\n- {name: a, %s}\n", rows[i].below, rows[i].above);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		bool whole = false;
		uint32_t found = sl_lint_sums(policy, list, 4, &whole);
		if (found != (rows[i].keys != 0) || list[0].keys != rows[i].keys)
			fail_msg("%s: %u found, %" PRIu64 " keys", yaml, found, list[0].keys);
		if (found != 0)
			assert_true(list[0].below == 0 && list[0].above == 1);
		assert_true(whole);
		assert_int_equal(sl_lint_sums(policy, list, 0, &whole), 0);
		sluice_policy_free(policy);
	}
}

/* Two limits of all, the first and the last of many: of each that has no conditions all others are looked at, as long
 * as those are few. */
static void test_sums_of_many(void **state) {
	static const struct {
		uint32_t many;
		const char *when;
		uint32_t found;
		bool whole;
	} rows[] = {
		{1998, ", when: {path: /a}", 4, true},
		{9998, ", when: {path: /a}", 4, true},
		{1998, "", 4, true},
		{9998, "", 2, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const size_t room = 128 * ((size_t)rows[i].many + 4);
		char *yaml = malloc(room);
		struct sluice_policy *policy = NULL;
		struct sl_lint_sum list[8] = {{0}};
		bool whole = !rows[i].whole;
		int len = snprintf(yaml, room, "limits:\n- {name: first, key: tenant, limit: 5/1h}\n");
		for (uint32_t n = 0; n < rows[i].many; n++)
			len += snprintf(yaml + len, room - (size_t)len, "- {name: l%u, key: %s, limit: 5/1h%s}\n", n,
			                n < 2 ? "[tenant, user]" : "ip", rows[i].when);
		snprintf(yaml + len, room - (size_t)len, "- {name: last, key: tenant, limit: 5/1m}\n");
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		assert_int_equal(sl_lint_sums(policy, list, 8, &whole), rows[i].found);
		assert_int_equal(whole, rows[i].whole);
		for (uint32_t n = 0; n < rows[i].found; n++) {
			assert_int_equal(list[n].above, n < 2 ? 0 : rows[i].many + 1);
			assert_int_equal(list[n].below, 1 + n % 2);
			assert_int_equal(list[n].keys, n < 2 ? 2 : 61);
		}
		sluice_policy_free(policy);
		free(yaml);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_calendars),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_what_never_holds),
		cmocka_unit_test(test_conditions_take_the_form),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_beside_mistakes),
		cmocka_unit_test(test_many_of_different_conditions),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_warnings_are_bounded),
		cmocka_unit_test(test_hidden_among_many),
		cmocka_unit_test(test_excluded_overrides),
		cmocka_unit_test(test_what_changes_nothing),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_hidden_limits),
		cmocka_unit_test(test_hidden_routes),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sums_of_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
