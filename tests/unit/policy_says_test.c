/* What a policy says of requests besides who is counted: what they cost, and which route they are; and the keys that
 * come of it. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT(more) "limits:\n- {name: a, key: ip, " more "}\n"
#define COST(cost) LIMIT("limit: 5/1m, cost: " cost)

/* ---- conditions ------------------------------------------------------------------------------------------------- */

#define WHEN(when) "limits:\n- {name: a, key: ip, limit: 5/1m, when: " when "}\n"

static void test_conditions_refused(void **state) {
	static const struct row rows[] = {
		{WHEN("{host: '*example.com'}"), {{2, 49, "expected * at the end only, or *. at the beginning"}}},
		{WHEN("{path: '*.html'}"), {{2, 49, "expected * at the end only"}}},
		{WHEN("{host: '*.'}"), {{2, 48, "expected the end of a host's name, such as *.example.com"}}},
		{WHEN("{host: '*.a.*'}"), {{2, 48, "expected the end of a host's name"}}},
		{WHEN("{not: {}}"), {{2, 47, "expected at least one condition in not, found none"}}},
		{WHEN("{not: [{path: /a}, {}]}"), {{2, 60, "expected at least one condition in not, found none"}}},
		{WHEN("{not: /a}"), {{2, 47, "expected conditions, such as {method: POST, path: /a*}"}}},
		{WHEN("{not: {not: {path: /a}}}"), {{2, 48, "expected no not within not"}}},
		{WHEN("{not: {path: /a, path: /b}}"), {{2, 58, "duplicate key 'path'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_conditions_in_doubt(void **state) {
	static const struct row rows[] = {
		{WHEN("{ip: 10.0.0.0/8}, overrides: [{when: {ip: 10.0.0.0/16}, limit: 1/1m}, {when: {ip: 10.0.0.0/12}, "
	          "limit: 2/1m}]"),
	     {{0}}},
		{WHEN("{ip: 10.0.0.1/8}"), {{2, 46, "the network of that address is '10.0.0.0/8'"}}},
		{WHEN("{ip: '2001:db8:1:2:3::/96'}"), {{2, 46, "this holds for all of '2001:db8:1:2::/64'"}}},
		{WHEN("{ip: 10.0.0.0/8}, overrides: [{when: {ip: 10.0.0.0/8}, limit: 1/1m}, {when: {ip: 10.1.0.0/16}, limit: "
	          "2/1m}]"),
	     {{2, 110, "never reached: the override in line 2 matches all of it"}}},
		{WHEN("{ip: 10.0.0.0/8}, overrides: [{when: {host: '*.a.b', not: {user: x}}, limit: 1/1m}, {when: {host: "
	          "x.a.b}, "
	          "limit: 2/1m}]"),
	     {{2, 100, "HTTP doors have no attribute 'user'"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* ---- costs ------------------------------------------------------------------------------------------------------ */

static void test_costs_refused(void **state) {
	static const struct row rows[] = {
		{COST("0"), {{2, 41, "expected a cost from 1, found 0: an override whose limit is unlimited costs nothing"}}},
		{COST("-1"), {{2, 41, "expected a whole number from 1 to 4294967295, found '-1'"}}},
		{COST("4294967296"), {{2, 41, "expected a whole number from 1 to 4294967295"}}},
		{COST("'5'"), {{2, 41, "expected a whole number from 1 to 4294967295 without quotes"}}},
		{COST("header"), {{2, 41, "expected a source such as 'header x-user-id', found 'header'"}}},
		{COST("header x cost"), {{2, 49, "expected the name of a header"}}},
		{COST("[]"), {{2, 41, "expected 1 to 64 costs, found 0"}}},
		{COST("[5, header x-cost]"), {{2, 45, "never read: expected first {when, cost} of some requests"}}},
		{COST("[header a, header b]"), {{2, 52, "never read"}}},
		{COST("[header a, {when: {}, cost: 2}]"), {{2, 52, "never read"}}},
		{COST("[1, 2]"), {{2, 45, "never read"}}},
		{COST("{when: {}, cost: 2}"), {{2, 41, "expected a whole number, found a mapping"}}},
		{COST("[{when: {path: /a}, costs: 2}]"), {{2, 61, "unknown key 'costs' in a cost: did you mean 'cost'?"}}},
		{COST("[{when: {path: /a}, cost: 0}]"), {{2, 67, "expected a cost from 1, found 0"}}},
		{COST("[{cost: 2}]"), {{2, 42, "missing key 'when' in a cost"}}},
		{LIMIT("limit: distinct 5/1d, of: path, cost: 2"), {{2, 60, "cost does not go with distinct: a member"}}},
		{LIMIT("limit: unlimited, cost: 2"), {{2, 46, "cost does not go with unlimited: it counts nothing"}}},
		{LIMIT("limit: 5/1m, reserve: true, cost: 2"), {{2, 56, "cost does not go with reserve: a request first"}}},
		{"store: {redis: 127.0.0.1:1, via: script}\n" COST("2"),
	     {{3, 41, "a cost of one limit alone needs Sluice's module on the nodes: via: script can't do it"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_costs_taken(void **state) {
	static const struct {
		const char *cost, *path;
		uint32_t own, otherwise;
		const char *header;
	} rows[] = {
		{"5", "/a", 5, 5, NULL},
		{"4294967295", "/a", UINT32_MAX, UINT32_MAX, NULL},
		{"header X-Cost", "/a", 0, 0, "x-cost"},
		{"[header x-cost, 7]", "/a", 0, 7, "x-cost"},
		{"[{when: {path: /a}, cost: 3}, header x-cost, 7]", "/a", 3, 7, "x-cost"},
		{"[{when: {path: /a}, cost: 3}, header x-cost, 7]", "/b", 0, 7, "x-cost"},
		{"[{when: {path: '/a*'}, cost: 3}, {when: {path: /ab}, cost: 4}, 7]", "/ab", 3, 7, NULL},
		{"[{when: {path: '/a*'}, cost: 3}, {when: {path: /b}, cost: 4}]", "/b", 4, 0, NULL},
		{"[{when: {path: '/a*'}, cost: 3}]", "/c", 0, 0, NULL},
	};
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("a")}, {sl_str("path"), sl_str(rows[i].path)}};
		struct sluice_match match;
		char yaml[256];
		snprintf(yaml, sizeof yaml, COST("%s"), rows[i].cost);
		struct sluice_policy *policy;
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK); /* some are in doubt */
		const struct sl_policy_cost *cost = &sl_policy_limit_at(policy, 0)->cost;
		assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(match.items[0].cost, rows[i].own);
		assert_true(cost->on);
		assert_int_equal(cost->cost, rows[i].otherwise);
		if (rows[i].header == NULL)
			assert_null(cost->header);
		else
			assert_string_equal(cost->header, rows[i].header);
		sluice_policy_free(policy);
	}
}

/* What the key alone tells of a request's cost: 0 where it turns on what a request has beside its key. */
static void test_costs_by_key(void **state) {
	static const struct {
		const char *cost, *key;
		uint32_t is;
	} rows[] = {
		{"[{when: {ip: 10.0.0.1}, cost: 3}, 7]", "ip=10.0.0.1", 3},
		{"[{when: {ip: 10.0.0.1}, cost: 3}, 7]", "ip=10.0.0.2", 7},
		{"[{when: {path: /a}, cost: 3}, 7]", "ip=10.0.0.1", 0},
		{"[{when: {ip: 10.0.0.1, path: /a}, cost: 3}, 7]", "ip=10.0.0.2", 7},
		{"[{when: {ip: 10.0.0.0/8, not: {ip: 10.0.0.2}}, cost: 3}, 7]", "ip=10.0.0.1", 3},
		{"[{when: {ip: 10.0.0.0/8, not: {ip: 10.0.0.2}}, cost: 3}, 7]", "ip=10.0.0.2", 7},
		{"[{when: {ip: 10.0.0.0/8, not: {path: /a}}, cost: 3}, 7]", "ip=10.0.0.1", 0},
		{"[{when: {ip: 10.0.0.0/8, not: {path: /a}}, cost: 3}, 7]", "ip=1.2.3.4", 7},
		{"[{when: {ip: 10.0.0.0/8, not: [{path: /a}, {ip: 10.0.0.2}]}, cost: 3}, 7]", "ip=10.0.0.2", 7},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char yaml[256];
		snprintf(yaml, sizeof yaml, COST("%s"), rows[i].cost);
		struct sluice_policy *policy;
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		if (sl_policy_limit_of_key(policy, 0, sl_str(rows[i].key)).cost != rows[i].is)
			fail_msg("%s of %s: not %u", rows[i].cost, rows[i].key, rows[i].is);
		sluice_policy_free(policy);
	}
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

#define PATH(path) "limits:\n- {name: a, key: ip, limit: 5/1m, when: {path: " path "}}\n"

static void test_routes_refused(void **state) {
	static const struct row rows[] = {
		{PATH("/a/{b"), {{3, 1, "YAML: did not find expected"}}},
		{PATH("'/a/{b'"), {{2, 52, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/b}'"), {{2, 53, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/{}'"), {{2, 52, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/{b}c'"), {{2, 52, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/x{b}'"), {{2, 53, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/{b}*'"), {{2, 52, "expected a part such as {org} as a whole segment"}}},
		{PATH("'/a/{b c}'"), {{2, 52, "expected a part such as {org} as a whole segment"}}},
		{PATH("/a/{ip}"), {{2, 52, "expected a name of your own for a part"}}},
		{PATH("/a/{route}"), {{2, 52, "expected a name of your own for a part"}}},
		{PATH("/a/{b}/{b}"), {{2, 56, "expected at most 8 parts of a path, each with a name of its own"}}},
		{PATH("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}"), {{2, 82, "expected at most 8 parts of a path"}}},
		{"paths: {case: upper}\n" PATH("/a"), {{1, 15, "expected keep or ignore, found 'upper'"}}},
		{"paths: ignore\n" PATH("/a"), {{1, 8, "expected a mapping with the keys of paths"}}},
		{"paths: {slash: keep}\n" PATH("/a"), {{1, 9, "unknown key 'slash' in paths: expected case or"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* A request for a path, and its key by `[route, x | y | "none"]`; NULL: the limit is not for it. */
static void test_routes_hold(void **state) {
	static const struct {
		const char *choice, *paths, *path, *key;
	} rows[] = {
		{"", "/o/{x}/search", "/o/a/search", "route=/o/{x}/search,x=a"},
		{"", "/o/{x}/search", "/o/a/search?q", "route=/o/{x}/search,x=a"},
		{"", "/o/{x}/search", "/o//a/./search", "route=/o/{x}/search,x=a"},
		{"", "/o/{x}/search", "/o/a%2Fb/search", "route=/o/{x}/search,x=a%252Fb"},
		{"", "/o/{x}/search", "/o/a/search/", NULL},
		{"", "/o/{x}/search", "/o/search", NULL},
		{"", "/o/{x}/search", "/o/a/b/search", NULL},
		{"", "/o/{x}", "/o/", NULL},
		{"", "/o/{x}", "/o", NULL},
		{"", "/o/{x}", "/o/a", "route=/o/{x},x=a"},
		{"", "/o/{x}/*", "/o/a/", "route=/o/{x}/*,x=a"},
		{"", "/o/{x}/*", "/o/a/b/c", "route=/o/{x}/*,x=a"},
		{"", "/o/{x}/*", "/o/a", NULL},
		{"", "/{x}/{y}", "/a/b", "route=/{x}/{y},x=a"},
		{"", "/{azAZ_09-}/{x}", "/b/a", "route=/{azAZ_09-}/{x},x=a"},
		{"", "['/o/new', '/o/{x}', '/o/*']", "/o/new", "route=/o/new,=none"},
		{"", "['/o/{x}', /o/new]", "/o/new", "route=/o/{x},x=new"},
		{"", "['/o/{x}', '/o/*']", "/o/a/b", "route=/o/*,=none"},
		{"", "['/o/{y}', '/p/{x}']", "/p/a", "route=/p/{x},x=a"},
		{"", "/Search*", "/search", NULL},
		{"paths: {case: ignore}\n", "'/O/{x}/Se*'", "/o/A/sEARCH", "route=/O/{x}/Se*,x=a"},
		{"paths: {trailing-slash: ignore}\n", "/o/{x}/search", "/o/a/search/", "route=/o/{x}/search,x=a"},
		{"paths: {trailing-slash: ignore}\n", "/o/{x}/search/", "/o/a/search", "route=/o/{x}/search/,x=a"},
		{"paths: {trailing-slash: ignore}\n", "/o/{x}/*", "/o/a", "route=/o/{x}/*,x=a"},
		{"paths: {trailing-slash: ignore}\n", "/o/*", "/o", "route=/o/*,=none"},
		{"paths: {trailing-slash: ignore}\n", "/o/*", "/on", NULL},
		{"paths: {trailing-slash: ignore}\n", "/", "/", "route=/,=none"},
		{"", "/o//{x}/./s", "/o/a/s", "route=/o//{x}/./s,x=a"},
	};
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_attribute attribute = {sl_str("path"), sl_str(rows[i].path)};
		struct sluice_match match;
		struct sluice_policy *policy;
		char yaml[256];
		snprintf(yaml, sizeof yaml,
		         "%slimits:\n- {name: a, limit: 5/1m, when: {path: %s}, key: [route, x | y | \"none\"]}\n"
		         "- {name: b, limit: 5/1m, key: [x]}\n",
		         rows[i].choice, rows[i].paths);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
		if (match.count != (rows[i].key != NULL) ||
		    (match.count == 1 && !sl_bytes_equal(match.items[0].key, sl_str(rows[i].key))))
			fail_msg("%s of %s: %.*s", rows[i].path, rows[i].paths, match.count == 0 ? 0 : (int)match.items[0].key.len,
			         match.count == 0 ? "" : (const char *)match.items[0].key.data);
		sluice_policy_free(policy);
	}
}

/* Does a path have a route, both from their slashes on? Slow and obvious: segment by segment, by recursion. */
static bool has_route(const char *route, const char *path) {
	if (strcmp(route, "*") == 0)
		return true;
	if (*route == '\0' || *path == '\0')
		return *route == *path;
	if (*route != '{')
		return *route == *path && has_route(route + 1, path + 1);
	size_t segment = strcspn(path, "/");
	return segment != 0 && has_route(strchr(route, '}') + 1, path + segment);
}

/* Appends segments out of a few to a text; with parts, where `named`. */
static void add_segments(char *text, size_t bytes, unsigned *seed, bool named) {
	static const char *const plain[] = {"a", "b", "ab"}, *const parts[] = {"{x}", "{y}", "{z}"};
	unsigned count = rand_r(seed) % 4;
	for (unsigned i = 0; i < count; i++) {
		bool part = named && i < 3 && rand_r(seed) % 2 == 0;
		size_t len = strlen(text);
		snprintf(text + len, bytes - len, "/%s", part ? parts[i] : plain[rand_r(seed) % 3]);
	}
	if (count == 0 || rand_r(seed) % 4 == 0)
		strncat(text, "/", bytes - strlen(text) - 1);
}

/* Random routes and paths: a limit is for a path exactly where the slow way says so. */
static void test_routes_at_random(void **state) {
	static char buffer[4096];
	unsigned seed = 20240504, held = 0;
	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		char route[64] = "", path[64] = "", yaml[256];
		struct sluice_attribute attribute = {sl_str("path"), sl_str(path)};
		struct sluice_policy *policy;
		struct sluice_match match;
		add_segments(route, sizeof route, &seed, true);
		size_t len = strlen(route);
		if (rand_r(&seed) % 3 == 0 && route[len - 1] == '/')
			strncat(route, "*", 2);
		snprintf(yaml, sizeof yaml, "limits: [{name: a, limit: 5/1m, key: [], when: {path: '%s'}}]", route);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
		for (unsigned k = 0; k < 8; k++) {
			*path = '\0';
			add_segments(path, sizeof path, &seed, false);
			attribute.value = sl_str(path);
			assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
			if ((match.count == 1) != has_route(route, path))
				fail_msg("%s of %s: %u", path, route, match.count);
			held += match.count;
		}
		sluice_policy_free(policy);
	}
	assert_true(held > 1000);
}

/* A condition on `route` asks for what the policy writes, whichever paths are one. */
static void test_overrides_of_a_route_as_written(void **state) {
	static char buffer[4096];
	struct sluice_attribute attribute = {sl_str("path"), sl_str("/ORGS/acme")};
	struct sluice_match match;
	struct sluice_policy *policy;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy,
	                                    sl_str("paths: {case: ignore, trailing-slash: ignore}\n"
	                                           "limits:\n"
	                                           "- {name: a, limit: 5/1m, when: {path: '/Orgs/{org}/'}, key: org,\n"
	                                           "   overrides: [{when: {route: '/Orgs/{org}/'}, limit: 9/1m}]}\n"),
	                                    NULL),
	                 SLUICE_OK);
	assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 1);
	assert_int_equal(match.items[0].limit->quota, 9);
	sluice_policy_free(policy);
}

/* What a route fills in is of its limit alone, and goes before what the caller says. */
static void test_parts_are_of_their_limit(void **state) {
	static char buffer[4096];
	struct sluice_attribute attributes[] = {{sl_str("path"), sl_str("/o/a")}, {sl_str("x"), sl_str("mine")}};
	struct sluice_match match;
	struct sluice_policy *policy;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy,
	                                    sl_str("limits:\n"
	                                           "- {name: a, limit: 5/1m, when: {path: /o/{x}}, key: x,\n"
	                                           "   overrides: [{when: {x: a}, limit: 9/1m}]}\n"
	                                           "- {name: b, limit: 5/1m, key: x}\n"
	                                           "- {name: c, limit: 5/1m, key: [route | \"none\", x]}\n"),
	                                    NULL),
	                 SLUICE_OK);
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 3);
	assert_int_equal(match.items[0].limit->quota, 9);
	assert_true(sl_bytes_equal(match.items[0].key, sl_str("x=a")));
	assert_true(sl_bytes_equal(match.items[1].key, sl_str("x=mine")));
	assert_true(sl_bytes_equal(match.items[2].key, sl_str("=none,x=mine")));
	sluice_policy_free(policy);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

#define KEY(key) "limits:\n- {name: a, limit: 5/1m, key: " key "}\n"

static void test_keys_refused(void **state) {
	static const struct row rows[] = {
		{KEY("ip | \"unknown"), {{2, 36, "expected a literal of 1 to 64 printable ASCII characters in quotes"}}},
		{KEY("ip | \"\""), {{2, 36, "expected a literal of 1 to 64 printable ASCII characters in quotes"}}},
		{KEY("ip | \"a\"b\""), {{2, 36, "expected a literal of 1 to 64 printable ASCII characters in quotes"}}},
		{KEY("ip | \"\xc3\xa4\""), {{2, 36, "expected a literal of 1 to 64 printable ASCII characters in quotes"}}},
		{KEY("ip | \"a\" | path"), {{2, 36, "expected a literal as the last fallback, after the attributes"}}},
		{KEY("'\"a\"'"), {{2, 32, "expected a literal as the last fallback, after the attributes"}}},
		{"attributes: {user: header x-u}\n" KEY("usr | ip"),
	     {{3, 31, "unknown attribute 'usr': did you mean 'user'? (attributes: {..: given} says"}}},
		{"attributes: {user: header x-u}\n" KEY("[ip, usr]"), {{3, 36, "unknown attribute 'usr': did you mean"}}},
		{"attributes: {user: gven}\n" KEY("ip"), {{1, 20, "expected a source such as 'header x-user-id'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_keys_warned(void **state) {
	static const struct row rows[] = {
		{KEY("ip | \"unknown\""), {{0}}},
		{"attributes: {user: header x-u, usr: given}\n" KEY("[usr | user | \"none\", ip]"), {{0}}},
		{"attributes: {user: header x-u}\n" KEY("usr | ip, optional: true"), {{0}}},
		{"attributes: {user: header x-u}\n" KEY("tenant | ip"), {{3, 31, "HTTP doors have no attribute 'tenant'"}}},
		{KEY("usr | ip"), {{2, 31, "HTTP doors have no attribute 'usr'"}}},
		{KEY("[ip, route], when: {path: /a*}"), {{0}}},
		{KEY("[ip, route]"), {{2, 36, "a request without 'route' escapes this limit"}}},
		{KEY("[x, ip], when: {path: /a/{x}}"), {{0}}},
		{KEY("[ip, path], when: {path: [/a, /b]}"), {{0}}},
		{KEY("[ip, path], when: {path: /a*}"), {{2, 31, "each path has a quota of its own"}}},
		{KEY("[ip, path], when: {path: /a/{x}}"), {{2, 31, "each path has a quota of its own"}}},
		{KEY("[ip, path], when: {path: /a*}") "- {name: b, limit: 9/1m, key: ip}\n", {{0}}},
		{KEY("[ip, path], when: {path: /a*}") "- {name: b, limit: 9/1m, key: ip, when: {method: PUT}}\n",
	     {{2, 31, "each path has a quota of its own"}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* ---- the environment -------------------------------------------------------------------------------------------- */

static void test_environment(void **state) {
	static const struct {
		const char *limit, *quota;
	} rows[] = {
		{"${SL_QUOTA}/1m", "7"},
		{"${azAZ_09}/1m", "5"},
		{"\"${SL_QUOTA}/1m\"", "7"},
		{"'${SL_QUOTA:-9}/1m'", "7"},
		{"\"${SL_NOTHING:-9}/1m\"", "9"},
		{"\"${SL_EMPTY:-9}/1m\"", "9"},
		{"\"1${SL_EMPTY}/1m\"", "1"},
		{"\"${SL_QUOTA}${SL_QUOTA}/${SL_WINDOW}\"", "77"},
		{"\"${SL_NOTHING:-token-bucket 3/1s burst 4}\"", "3"},
	};
	(void)state;
	setenv("SL_QUOTA", "7", 1);
	setenv("azAZ_09", "5", 1);
	setenv("SL_EMPTY", "", 1);
	setenv("SL_WINDOW", "1h", 1);
	unsetenv("SL_NOTHING");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char yaml[256];
		snprintf(yaml, sizeof yaml, "limits:\n- name: a\n  key: ip\n  limit: %s\n", rows[i].limit);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		assert_int_equal(sl_policy_limit_at(policy, 0)->limit.quota, strtoul(rows[i].quota, NULL, 10));
		sluice_policy_free(policy);
	}
}

/* What the environment says is one value, whatever is in it. */
static void test_environment_makes_values_only(void **state) {
	(void)state;
	setenv("SL_NAME", "a, key: b} #: [x", 1);
	setenv("SL_THREADS", "3", 1);
	struct sluice_policy *policy = sl_policy_loads(
		"threads: \"${SL_THREADS}\"\nlimits:\n"
		"- {name: \"${SL_NAME}\", key: ip, limit: 5/1m, optional: \"${SL_NO:-true}\"}\n"
		"- {name: \"$${SL_NAME}\", key: ip, limit: 5/1h}\n"
		"- {name: \"a$${\", key: ip, limit: 5/1d}\n");
	assert_string_equal(sluice_policy_limit_name(policy, 0), "a, key: b} #: [x");
	assert_string_equal(sluice_policy_limit_name(policy, 1), "${SL_NAME}");
	assert_string_equal(sluice_policy_limit_name(policy, 2), "a${");
	assert_int_equal(sl_policy_settings(policy)->threads, 3);
	sluice_policy_free(policy);
}

static void test_environment_refused(void **state) {
	static const struct row rows[] = {
		{"threads: ${SL_NOTHING}\nlimits: []\n",
	     {{1, 10, "the environment has no 'SL_NOTHING': expected it to be set, or a default: ${SL_NOTHING:-...}"}}},
		{"threads: ${SL_QUOTA\nlimits: []\n", {{1, 10, "expected } after ${NAME or ${NAME:-default"}}},
		{"threads: 1${\nlimits: []\n", {{1, 11, "expected } after ${NAME or ${NAME:-default"}}},
		{"threads: 1${}\nlimits: []\n", {{1, 11, "expected ${NAME} or ${NAME:-default}: a name of letters"}}},
		{"threads: ${1A}\nlimits: []\n", {{1, 10, "expected ${NAME} or ${NAME:-default}: a name of letters"}}},
		{"threads: ${A-1}\nlimits: []\n", {{1, 10, "expected ${NAME} or ${NAME:-default}: a name of letters"}}},
		{"threads: ${SL_BYTES}\nlimits: []\n", {{1, 10, "expected one line of UTF-8 text in the environment"}}},
		{"threads: ${SL_LINES}\nlimits: []\n", {{1, 10, "expected one line of UTF-8 text in the environment"}}},
		{"threads: ${SL_EMPTY}\nlimits: []\n", {{1, 10, "expected a whole number from 1 to 256"}}},
		{"${SL_KEY}: 1\nlimits: []\n", {{1, 1, "unknown key '${SL_KEY}' in the policy"}}},
		{LIMIT("limit: '${SL_NOTHING}'"), {{2, 30, "the environment has no 'SL_NOTHING'"}}},
		{"retry-id: idempotency-key\nlimits: []\n", {{1, 11, "expected a source such as 'header x-user-id'"}}},
	};
	(void)state;
	setenv("SL_BYTES", "\xff", 1);
	setenv("SL_LINES", "1\nthreads: 2", 1);
	setenv("SL_KEY", "threads", 1);
	CHECK_ROWS(rows);
}

/* What is too much of the environment is refused, and never cut: the first text leaves no byte. */
static void test_too_much_environment(void **state) {
	static const struct row rows[] = {
		{"threads: ${SL_BIG}${SL_BIG}${SL_BIG}${SL_BIG}\nlimits: [{name: 'a${SL_MORE}bc', key: ip, limit: 1/1m}]\n",
	     {{1, 10, "expected a whole number"},
	      {2, 17, "expected values of at most 67108864 bytes in all from the environment"}}},
		{"threads: ${SL_BIG}${SL_BIG}${SL_BIG}${SL_BIG}${SL_BIG}\nlimits: []\n",
	     {{1, 10, "expected values of at most 67108864 bytes in all from the environment"}}},
	};
	const size_t bytes = SL_POLICY_FILE_BYTES_MAX / 4;
	char *big = malloc(bytes + 1), more[13];
	(void)state;
	assert_non_null(big);
	memset(big, 'x', bytes);
	memset(more, 'y', sizeof more);
	big[bytes] = more[sizeof more - 1] = '\0';
	setenv("SL_BIG", big, 1);
	setenv("SL_MORE", more, 1);
	free(big);
	CHECK_ROWS(rows);
	struct sluice_policy *policy = sl_policy_loads( /* what is only shown is no value */
		"limits: [{name: '$${SL_BIG}$${SL_BIG}$${SL_BIG}$${SL_BIG}$${SL_BIG}', key: ip, limit: 1/1m}]\n");
	sluice_policy_free(policy);
	unsetenv("SL_BIG");
	unsetenv("SL_MORE");
}

/* ---- bodies of denials ------------------------------------------------------------------------------------------- */

static void test_bodies_refused(void **state) {
	static const struct row rows[] = {
		{"denied: a.json\nlimits: []\n", {{1, 9, "expected a mapping with the keys of denied, found 'a.json'"}}},
		{"denied: {body: a}\nlimits: []\n", {{1, 9, "missing key 'type' in denied: expected a media type"}}},
		{"denied: {type: text/html}\nlimits: []\n", {{1, 9, "missing key 'body' in denied: expected the path"}}},
		{"denied: {body: '', type: text/html}\nlimits: []\n", {{1, 16, "expected the path of a file"}}},
		{"denied: {body: a, type: text/css}\nlimits: []\n",
	     {{1, 25, "expected application/json, application/problem+json, text/html or text/plain, found 'text/css'"}}},
		{LIMIT("limit: 5/1m, denied: {body: a, typ: text/html}"), {{2, 53, "did you mean 'type'?"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_too_many_bodies(void **state) {
	char text[4096], long_path[4096];
	int len = snprintf(text, sizeof text, "limits:\n");
	(void)state;
	for (int i = 0; i <= SL_DENIED_MAX; i++)
		len += snprintf(text + len, sizeof text - (size_t)len,
		                "- {name: a%d, key: ip, limit: 1/1m, denied: {body: f%d, type: text/html}}\n", i, i);
	CHECK_ROWS(((const struct row[]){{text, {{18, 52, "expected at most 16 different bodies of denials"}}}}));
	snprintf(long_path, sizeof long_path, "denied: {body: %0512d, type: text/html}\nlimits: []\n", 0);
	CHECK_ROWS(((const struct row[]){{long_path, {{1, 16, "expected a path of at most 511 bytes, found 512"}}}}));
}

/* A limit's own goes before the policy's; what is named twice is one; none is served before it was read. */
static void test_bodies_taken(void **state) {
	struct sluice_policy *policy;
	(void)state;
	static const char text[] = "denied: {body: one, type: text/html}\nlimits:\n"
							   "- {name: a, key: ip, limit: 1/1m}\n"
							   "- {name: b, key: ip, limit: 1/1m, denied: {body: two, type: text/html}}\n"
							   "- {name: c, key: ip, limit: 1/1m, denied: {body: one, type: text/html}}\n"
							   "- {name: d, key: ip, limit: 1/1m, denied: {body: one, type: text/plain}}\n";
	assert_int_equal(sluice_policy_load(&policy, sl_str(text), NULL), SLUICE_OK);
	assert_int_equal(sl_policy_denied_count(policy), 3);
	for (uint32_t i = 0; i < 4; i++)
		assert_null(sl_policy_denied_by(policy, i));
	for (uint32_t i = 0; i < 3; i++)
		assert_true(sl_policy_denied_set(policy, i, sl_str("text")));
	static const char *const files[] = {"one", "two", "one", "one"};
	for (uint32_t i = 0; i < 4; i++) {
		assert_string_equal(sl_policy_denied_by(policy, i)->file, files[i]);
		assert_int_equal(sl_policy_denied_by(policy, i)->type, i == 3 ? SL_DENIED_PLAIN : SL_DENIED_HTML);
		assert_true(sl_bytes_equal(sl_policy_denied_by(policy, i)->body, sl_str("text")));
	}
	assert_int_equal(sl_policy_denied_at(policy, 1)->line, 4);
	assert_int_equal(sl_policy_denied_at(policy, 1)->column, 50);
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions_refused),  cmocka_unit_test(test_conditions_in_doubt),
		cmocka_unit_test(test_costs_refused),       cmocka_unit_test(test_costs_taken),
		cmocka_unit_test(test_costs_by_key),
		cmocka_unit_test(test_routes_refused),      cmocka_unit_test(test_routes_hold),
		cmocka_unit_test(test_routes_at_random),    cmocka_unit_test(test_overrides_of_a_route_as_written),
		cmocka_unit_test(test_parts_are_of_their_limit),
		cmocka_unit_test(test_keys_refused),        cmocka_unit_test(test_keys_warned),
		cmocka_unit_test(test_environment),         cmocka_unit_test(test_environment_makes_values_only),
		cmocka_unit_test(test_environment_refused), cmocka_unit_test(test_too_much_environment),
		cmocka_unit_test(test_bodies_refused),
		cmocka_unit_test(test_too_many_bodies),     cmocka_unit_test(test_bodies_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
