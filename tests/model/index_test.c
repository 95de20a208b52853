/* The index of conditions against walking through all of them: random policies, random requests, one answer. What the
 * two match has to be the same down to the last pointer, whatever the kinds of values and however they nest. The same
 * of patterns (policy/pattern.h), with and without an index: what is known of a request that has been seen
 * must be what is found of one that has not. */
#include "base/out.h"
#include "policy/index.h"
#include "policy/pattern.h"
#include "tests/model/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { YAML_BYTES_MAX = 64 * 1024, REQUESTS = 200, VALUES = 14 };

/* What policies and requests are made of: near to one another, so that much matches and much nearly does. Of `path` and
 * `host`, `ip` what policies write is more than what requests have. */
static const char *const paths[] = {"/",        "/a",         "/a/b",           "/a/b/c",     "/ab",
                                    "/a/b/",    "/x/y/z",     "/a/x/c",         "/b/x",       "/b/x/c",
                                    "/a/b/c/d", "/users/u/p", "/A/B",           "*",          "/*",
                                    "/a*",      "/a/*",       "/a/b*",          "/a/b/c*",    "/ab*",
                                    "/{p}",     "/a/{p}",     "/{p}/x/c",       "/{p}/b",     "/{p}/b*",
                                    "/a/{p}/*", "/{p}/*",     "/users/{q}/{p}", "/{p}/{q}/c", "/b/{p}/{r}/x*"};
static const char *const hosts[] = {"a.example.com",
                                    "b.example.com",
                                    "example.com",
                                    "x.a.example.com",
                                    "a.net",
                                    "net",
                                    "",
                                    "*.example.com",
                                    "*.com",
                                    "*.a.example.com",
                                    "a*",
                                    "*",
                                    "*.net",
                                    "b.*"};
static const char *const ips[] = {"10.0.0.1",      "10.0.0.2",      "10.1.2.3",   "192.0.2.9",   "2001:db8::1",
                                  "2001:db8:1::9", "nobody",        "10.0.0.0/8", "10.0.0.0/30", "10.1.0.0/16",
                                  "0.0.0.0/0",     "2001:db8::/32", "::/0",       "10.1.2.3/32"};
static const char *const words[] = {"a",  "b",  "ab",  "abc", "",     "alice", "bob",
                                    "al", "a*", "ab*", "*",   "ali*", "carol", "b*"};
static const char *const methods[] = {"GET", "POST", "get", "PUT", "DELETE", "PATCH", "HEAD",
                                      "P*",  "G*",   "PO*", "*",   "X",      "Y",     "OPTIONS"};

static const struct {
	const char *name;
	const char *const *values;
	unsigned count, plain; /* those before `plain` may be a request's */
} attributes[] = {
	{"path", paths, 30, 13},    {"host", hosts, VALUES, 7},     {"ip", ips, VALUES, 7},  {"user", words, VALUES, 8},
	{"plan", words, VALUES, 8}, {"method", methods, VALUES, 7}, {"p", words, VALUES, 8},
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

static void put_values(struct sl_out *out, struct dice *dice, unsigned attribute) {
	unsigned count = dice_one_in(dice, 3) ? 1 + (unsigned)dice_below(dice, 4) : 1;
	sl_out_str(out, attributes[attribute].name);
	sl_out_str(out, ": [");
	for (unsigned i = 0; i < count; i++) {
		sl_out_str(out, i == 0 ? "'" : ", '");
		sl_out_str(out, attributes[attribute].values[dice_below(dice, attributes[attribute].count)]);
		sl_out_char(out, '\'');
	}
	sl_out_char(out, ']');
}

/* Conditions in braces: none, one, some, seldom with what they except. */
static void put_when(struct sl_out *out, struct dice *dice, bool nested) {
	unsigned first = (unsigned)dice_below(dice, ATTRIBUTES), count = (unsigned)dice_below(dice, 4);
	const char *before = "";
	count = nested && count == 0 ? 1 : count;
	sl_out_char(out, '{');
	for (unsigned i = 0; i < count; i++) {
		sl_out_str(out, before);
		put_values(out, dice, (first + i) % ATTRIBUTES);
		before = ", ";
	}
	if (!nested && dice_one_in(dice, 6)) {
		sl_out_str(out, before);
		sl_out_str(out, "not: ");
		put_when(out, dice, true);
	}
	sl_out_char(out, '}');
}

static void put_limit(struct sl_out *out, struct dice *dice, unsigned number) {
	static const char *const keys[] = {"ip", "user | ip", "[path, user | \"none\"]", "route", "p", "[]"};
	unsigned overrides = dice_one_in(dice, 4) ? (unsigned)dice_below(dice, 40) : 0;
	sl_out_str(out, "- {name: n");
	sl_out_u64(out, number);
	sl_out_str(out, ", optional: true, key: ");
	sl_out_str(out, keys[dice_below(dice, sizeof keys / sizeof *keys)]);
	sl_out_str(out, dice_one_in(dice, 8) ? ", limit: unlimited" : ", limit: 5/1m");
	sl_out_str(out, dice_one_in(dice, 8) ? ", observe: true" : "");
	sl_out_str(out, ", when: ");
	put_when(out, dice, false);
	sl_out_str(out, ", overrides: [");
	for (unsigned i = 0; i < overrides; i++) {
		sl_out_str(out, i == 0 ? "{limit: " : ", {limit: ");
		sl_out_u64(out, i + 10);
		sl_out_str(out, "/1m, when: ");
		put_when(out, dice, false);
		sl_out_char(out, '}');
	}
	sl_out_str(out, "]}\n");
}

static struct sluice_policy *random_policy(struct dice *dice) {
	static char yaml[YAML_BYTES_MAX * 8];
	static const char *const choices[] = {"", "paths: {case: ignore}\n", "paths: {trailing-slash: ignore}\n",
	                                      "ipv6-prefix: 48\n"};
	struct sl_out out = sl_out_to(yaml, sizeof yaml);
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	unsigned limits = 1 + (unsigned)dice_below(dice, dice_one_in(dice, 3) ? 120 : 16);
	sl_out_str(&out, choices[dice_below(dice, sizeof choices / sizeof *choices)]);
	sl_out_str(&out, "limits:\n");
	for (unsigned i = 0; i < limits; i++)
		put_limit(&out, dice, i);
	assert_false(out.overflow);
	sluice_err err = sluice_policy_load(&policy, sl_slice(yaml, sl_out_len(&out)), &problems);
	for (size_t i = 0; i < problems.count && err != SLUICE_OK; i++)
		if (!problems.list[i].warning)
			print_message("%u:%u: %s\n", problems.list[i].line, problems.list[i].column, problems.list[i].text);
	sluice_problems_free(&problems);
	assert_int_equal(err, SLUICE_OK);
	return policy;
}

/* Gives the policy an index wherever one can be, or takes it away. */
static void set_index(struct sluice_policy *policy, bool on) {
	struct sl_pool *pool = &policy->pool;
	policy->index = on ? sl_index_make(pool, &policy->limits->when, sizeof *policy->limits, policy->limit_count) : NULL;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		struct sl_ruleset_limit *limit = &policy->limits[i];
		const uint32_t count = limit->shown.override_count;
		limit->index =
			on && count != 0 ? sl_index_make(pool, &limit->overrides->when, sizeof *limit->overrides, count) : NULL;
	}
	assert_false(pool->failed);
}

static size_t random_request(struct dice *dice, struct sluice_attribute *list) {
	size_t count = 0;
	for (unsigned i = 0; i < ATTRIBUTES; i++)
		if (!dice_one_in(dice, 4))
			list[count++] = (struct sluice_attribute){
				sl_str(attributes[i].name), sl_str(attributes[i].values[dice_below(dice, attributes[i].plain)])};
	return count;
}

struct answer {
	struct sluice_match match;
	sluice_err err;
	char buffer[SLUICE_MATCH_BYTES_MAX];
};

static void ask(const struct sluice_policy *policy, const struct sluice_attribute *list, size_t count,
                struct answer *answer) {
	answer->err = sluice_policy_match(policy, list, count, &answer->match, answer->buffer, sizeof answer->buffer);
}

static void assert_same(const struct answer *a, const struct answer *b) {
	assert_int_equal(a->err, b->err);
	assert_int_equal(a->match.count, b->match.count);
	assert_int_equal(a->match.beyond, b->match.beyond);
	for (uint32_t i = 0; i < a->match.count; i++) {
		const struct sluice_item *x = &a->match.items[i], *y = &b->match.items[i];
		assert_int_equal(a->match.position[i], b->match.position[i]);
		assert_ptr_equal(x->limit, y->limit);
		assert_true(sl_bytes_equal(x->key, y->key));
		assert_int_equal(x->observed, y->observed);
		assert_int_equal(x->bound, y->bound);
		assert_int_equal(x->cost, y->cost);
		assert_true(sl_bytes_equal(x->member, y->member));
	}
}

static void test_random(void **state) {
	static struct answer slow[REQUESTS], fast;
	struct sluice_attribute list[REQUESTS][ATTRIBUTES];
	size_t counts[REQUESTS];
	const uint64_t policies = dice_ops(1500);
	uint64_t found = 0;
	(void)state;
	for (uint64_t n = 0; n < policies; n++) {
		struct dice dice = dice_of(dice_seed(), n);
		struct sluice_policy *policy = random_policy(&dice);
		set_index(policy, false);
		for (unsigned i = 0; i < REQUESTS; i++) {
			counts[i] = random_request(&dice, list[i]);
			ask(policy, list[i], counts[i], &slow[i]);
			found += slow[i].match.count;
		}
		set_index(policy, true);
		for (unsigned i = 0; i < REQUESTS; i++) {
			ask(policy, list[i], counts[i], &fast);
			assert_same(&slow[i], &fast);
		}
		sluice_policy_free(policy);
	}
	print_message("%lu policies, %lu requests, %lu limits matched\n", policies, policies * REQUESTS, found);
	assert_true(found > policies);
}

/* A request of the pattern of another, and how it is matched without one. */
static uint64_t compare_pattern(struct dice *dice, const struct sluice_policy *policy) {
	static struct answer slow, fast;
	static struct sl_pattern pattern;
	struct sluice_attribute list[ATTRIBUTES];
	size_t count = random_request(dice, list);
	uint32_t varies = (uint32_t)dice_bits(dice) & (uint32_t)dice_bits(dice) & ((1u << count) - 1);
	uint64_t listed = 0;
	assert_true(sl_pattern_make(&pattern, policy, list, (uint32_t)count, varies));
	for (unsigned i = 0; i < 8; i++) {
		for (size_t k = 0; k < count; k++)
			for (unsigned a = 0; (varies >> k & 1) != 0 && a < ATTRIBUTES; a++)
				if (sl_bytes_equal(list[k].name, sl_str(attributes[a].name)))
					list[k].value = sl_str(attributes[a].values[dice_below(dice, attributes[a].plain)]);
		ask(policy, list, count, &slow);
		fast.err = sl_pattern_match(&pattern, policy, list, &fast.match, fast.buffer, sizeof fast.buffer);
		assert_same(&slow, &fast);
		listed += pattern.listed;
	}
	return listed;
}

static void test_patterns(void **state) {
	const uint64_t policies = dice_ops(600);
	uint64_t listed = 0;
	(void)state;
	for (uint64_t n = 0; n < policies; n++) {
		struct dice dice = dice_of(dice_seed(), n);
		struct sluice_policy *policy = random_policy(&dice);
		for (unsigned on = 0; on < 2; on++) {
			set_index(policy, on != 0);
			for (unsigned i = 0; i < REQUESTS / 8; i++)
				listed += compare_pattern(&dice, policy);
		}
		sluice_policy_free(policy);
	}
	print_message("%lu policies, %lu requests by a list\n", policies, listed);
	assert_true(listed > policies);
}

/* ---- by name: what random policies seldom have ------------------------------------------------------------- */

static struct sluice_policy *load(const char *head, const char *each, unsigned count) {
	static char yaml[YAML_BYTES_MAX * 32];
	struct sluice_policy *policy = NULL;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "%s", head);
	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, each, i, i, i);
	assert_true(len < sizeof yaml);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), NULL), SLUICE_OK);
	assert_non_null(policy->index);
	return policy;
}

static void compare(struct sluice_policy *policy, const char *name, const char *value) {
	static struct answer slow, fast;
	const struct sluice_attribute list[] = {{sl_str(name), sl_str(value)}, {sl_str("ip"), sl_str("10.0.0.1")}};
	const struct sl_index *index = policy->index;
	ask(policy, list, 2, &fast);
	policy->index = NULL;
	ask(policy, list, 2, &slow);
	policy->index = index;
	assert_same(&slow, &fast);
	assert_true(slow.match.count != 0);
}

/* More prefixes of one value than a walk has room for: all are walked through. */
static void test_many_lists(void **state) {
	char yaml[16 * 1024], value[128];
	struct sluice_policy *policy = NULL;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	for (unsigned i = 1; i <= SL_INDEX_LISTS_MAX + 10; i++)
		len +=
			(size_t)snprintf(yaml + len, sizeof yaml - len,
		                     "- {name: n%u, observe: true, key: ip, limit: 1/1m, when: {u: '%0*u*'}}\n", i, (int)i, 0);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), NULL), SLUICE_OK);
	for (int i = 1; i <= SL_INDEX_LISTS_MAX + 10; i += 3) {
		snprintf(value, sizeof value, "%0*u", i, 0);
		compare(policy, "u", value);
	}
	sluice_policy_free(policy);
}

/* More shapes of paths than an index has, and paths of more segments than a shape has. */
static void test_shapes(void **state) {
	char yaml[64 * 1024], path[256];
	struct sluice_policy *policy = NULL;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%u, key: p, limit: 1/1m, when: {path: '", i);
		for (unsigned k = 0; k < i; k++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, "/s");
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "/{p}'}}\n");
	}
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), NULL), SLUICE_OK);
	for (unsigned i = 0; i < 40; i++) {
		size_t at = 0;
		for (unsigned k = 0; k < i; k++)
			at += (size_t)snprintf(path + at, sizeof path - at, "/s");
		snprintf(path + at, sizeof path - at, "/x");
		compare(policy, "path", path);
	}
	sluice_policy_free(policy);
}

/* A value has one list however many limits share it, and one limit one place however often it is written. */
static void test_shared_values(void **state) {
	struct sluice_policy *policy =
		load("limits:\n",
	         "- {name: n%u, key: ip, limit: 1/1m, when: {u: [x, x, 'y%u'], v: 'w%u'}, optional: true}\n"
	         "",
	         30);
	(void)state;
	sluice_policy_free(policy);
	policy = load("limits:\n- {name: all, key: ip, limit: 9/1m}\n",
	              "- {name: n%u, observe: true, key: ip, limit: 1/1m, when: {u: [x, x, 'y%u', 'x*']}}\n", 30);
	compare(policy, "u", "x");
	compare(policy, "u", "y7");
	compare(policy, "u", "xx");
	compare(policy, "u", "");
	sluice_policy_free(policy);
}

/* Values that only one thing asks for: a canary, of a limit or an override, a member, a cost, an exception. */
static void test_values_that_few_ask_for(void **state) {
	static const char yaml[] =
		"limits:\n"
		"- {name: a, key: user | ip, limit: 5/1m, canary: 50% of org,\n"
		"   overrides: [{when: {plan: pro}, limit: 6/1m, canary: 50% of site}]}\n"
		"- {name: b, key: user, limit: distinct 5/1h, of: device, optional: true}\n"
		"- {name: c, key: user, limit: 5/1m, cost: [{when: {size: '1'}, cost: 3}, 1]}\n"
		"- {name: d, key: user, limit: 5/1m, when: {not: [{zone: '2'}, {area: '3'}]}}\n";
	static const char *const names[] = {"user", "plan", "ip", "org", "site", "device", "size", "zone", "area"};
	static const char *const values[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
	enum { COUNT = sizeof names / sizeof *names, PLAN = 1, IP = 2, FIRST = 3 };
	static struct answer slow, fast;
	static struct sl_pattern pattern;
	struct sluice_attribute list[COUNT];
	struct sluice_policy *policy = NULL;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
	for (int pro = 0; pro < 2; pro++) {
		for (int i = 0; i < COUNT; i++)
			list[i] = (struct sluice_attribute){sl_str(names[i]), sl_str("0")};
		list[PLAN].value = sl_str(pro ? "pro" : "free");
		list[IP].value = sl_str("10.0.0.1");
		assert_true(sl_pattern_make(&pattern, policy, list, COUNT, ((1u << COUNT) - 1) & ~(1u << PLAN)));
		assert_true(pattern.listed && pattern.numbers[IP] == SL_NAME_NONE);
		for (int i = FIRST; i < COUNT; i++)
			for (unsigned v = 0; v < sizeof values / sizeof *values; v++) {
				list[i].value = sl_str(values[v]);
				ask(policy, list, COUNT, &slow);
				fast.err = sl_pattern_match(&pattern, policy, list, &fast.match, fast.buffer, sizeof fast.buffer);
				assert_same(&slow, &fast);
			}
	}
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random), cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_many_lists),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_shared_values),
		cmocka_unit_test(test_values_that_few_ask_for),
	};
	return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
