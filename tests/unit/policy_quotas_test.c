/* Quotas of single keys from a file: what a line may be, whom it is for, what is refused and where, and a million of
 * them against what the file says. */
#include "policy/explain.h"
#include "policy/quotas.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char buffer[SLUICE_MATCH_BYTES_MAX];

static const char one_part[] = "limits:\n- {name: n, key: user | ip | \"none\", limit: 5/1m, overrides-from: q.csv,\n"
							   "   overrides: [{when: {plan: pro}, limit: 50/1m}]}\n";
static const char two_parts[] = "limits:\n- {name: n, key: [org, user | ip], limit: 5/1m, overrides-from: q.csv}\n";

static const char by_script[] = "store: {redis: [\"127.0.0.1:1\"], via: script}\n"
								"limits:\n- {name: n, key: user | ip, limit: concurrency 5 lease 9s,\n"
								"   overrides-from: q.csv}\n";

static struct sluice_policy *load(const char *yaml) {
	struct sluice_policy *policy = NULL;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
	return policy;
}

/* The quota that a request has, attributes from "name=value name=value"; 0: unlimited. */
static uint64_t quota_of(const struct sluice_policy *policy, const char *text) {
	struct sluice_attribute attributes[8];
	struct sluice_match match;
	size_t count = sl_policy_split(text, attributes);
	assert_int_equal(sluice_policy_match(policy, attributes, count, &match, buffer, sizeof buffer), SLUICE_OK);
	return match.count == 0 ? 0 : match.items[0].limit->quota;
}

static void set(struct sluice_policy *policy, const char *text) {
	struct sluice_problem problem;
	if (!sl_policy_quotas_set(policy, 0, sl_str(text), &problem))
		fail_msg("%u:%u: %s", problem.line, problem.column, problem.text);
}

static void test_lines(void **state) {
	static const struct {
		const char *yaml, *text, *request;
		uint64_t quota;
	} rows[] = {
		{one_part, "alice,7/1m\n", "user=alice", 7},
		{one_part, "alice,7/1m", "user=alice", 7},
		{one_part, "alice,7/1m\r\nbob,8/1m\r\n", "user=bob", 8},
		{one_part, "key,limit\n\n# plans\nalice,7/1m\n", "user=alice", 7},
		{one_part, "\xef\xbb\xbf" "alice,7/1m\r\n", "user=alice", 7}, /* as spreadsheets save it */
		{one_part, "\xef\xbb\xbfkey,limit\nalice,7/1m\n", "user=alice", 7},
		{one_part, "alice,7/1m\n", "user=bob", 5},
		{one_part, "alice,7/1m\n", "ip=alice", 5},            /* the name is of the key, too */
		{one_part, "alice,7/1m\n", "user=alice plan=pro", 7}, /* a key's own goes before overrides */
		{one_part, "alice,7/1m\n", "user=bob plan=pro", 50},
		{one_part, "alice,unlimited\n", "user=alice", 0},
		{one_part, "user=alice,7/1m\n", "user=alice", 7},
		{one_part, "ip=10.0.0.1:80,7/1m\n", "ip=10.0.0.1", 7}, /* in the form of keys */
		{one_part, "ip=2001:DB8::1,7/1m\n", "ip=2001:db8::9", 7},
		{one_part, "=none,7/1m\n", "plan=free", 7},
		{one_part, "\"a,b\",7/1m\n", "user=a,b", 7},
		{one_part, "\"say\"\"a\",\"7/1m\"\n", "user=say\"a", 7},
		{one_part, "100%,7/1m\n", "user=100%", 7},
		{one_part, "j\xc3\xb6rg,7/1m\n", "user=j\xc3\xb6rg", 7},
		{one_part, "j\xf6rg,7/1m\n", "user=j\xf6rg", 7}, /* keys are bytes, text or not */
		{one_part, "j\xf6rg,7/1m\n", "user=j\xc3\xb6rg", 5},
		{one_part, "user=\xff\xfe,7/1m\n", "user=\xff\xfe", 7},
		{one_part, "user=a%2Cb,7/1m\n", "user=a,b", 7},
		{one_part, "user=YWxpY2U=,7/1m\n", "user=YWxpY2U=", 7},
		{one_part, "user=YWxpY2U%3D,7/1m\n", "user=YWxpY2U=", 7},
		{one_part, "user=100%,7/1m\n", "user=100%", 7},
		{two_parts, "\"org=x==,user=a%b\",7/1m\n", "org=x== user=a%b", 7},
		{one_part, "alice,sliding-window 7/1m\n", "user=alice", 7},
		{one_part, "alice,0/1m\n", "user=alice", 0},
		{two_parts, "\"org=x,user=alice\",7/1m\n", "org=x user=alice", 7},
		{two_parts, "\"org=x,ip=10.0.0.1\",7/1m\n", "org=x ip=10.0.0.1", 7},
		{two_parts, "\"org=x,user=alice\",7/1m\n", "org=y user=alice", 5},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = load(rows[i].yaml);
		set(policy, rows[i].text);
		if (quota_of(policy, rows[i].request) != rows[i].quota)
			fail_msg("%s: %s", rows[i].text, rows[i].request);
		sluice_policy_free(policy);
	}
}

static void test_what_is_refused(void **state) {
	static const struct {
		const char *yaml, *text;
		uint32_t line, column;
		const char *said;
	} rows[] = {
		{one_part, "alice\n", 1, 1, "expected KEY,LIMIT"},
		{one_part, "alice,7/1m\n\nbob;8/1m\n", 3, 1, "expected KEY,LIMIT"},
		{one_part, "alice,7/1x\n", 1, 10, "expected a unit of time"},
		{one_part, "alice,\"7/1x\"\n", 1, 11, "expected a unit of time"},
		{one_part, "\xef\xbb\xbf" "alice,7/1x\n", 1, 10, "expected a unit of time"},
		{one_part, "alice,\n", 1, 7, "expected"},
		{one_part, "alice,7/1m,8/1m\n", 1, 11, "expected the end of the line"},
		{one_part, "\"alice,7/1m\n", 1, 1, "expected KEY,LIMIT"},
		{one_part, ",7/1m\n", 1, 1, "expected a key of 1 to 1023 bytes"},
		{one_part, "alice,7/1h\n", 1, 7, "another window"},
		{one_part, "alice,token-bucket 7/1m\n", 1, 7, "another algorithm"},
		{one_part, "plan=pro,7/1m\n", 1, 1, "expected the key of a request"},
		{one_part, "\"user=a,ip=b\",7/1m\n", 1, 1, "expected the key of a request"},
		{one_part, "alice,7/1m\nbob,1/1m\nuser=alice,8/1m\n", 3, 1, "duplicate key: line 1 has it"},
		{one_part, "ip=10.0.0.1,7/1m\nip=10.0.0.1:80,8/1m\n", 2, 1, "duplicate key: line 1 has it"},
		{two_parts, "alice,7/1m\n", 1, 1, "expected the key of a request"},
		{two_parts, "org=x,7/1m\n", 1, 1, "expected the key of a request"},
		{by_script, "alice,concurrency 9 lease 9s\nbob,concurrency 1025 lease 9s\n", 2, 5,
	     "concurrency above 1,024 needs Sluice's module"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = load(rows[i].yaml);
		struct sluice_problem problem;
		assert_false(sl_policy_quotas_set(policy, 0, sl_str(rows[i].text), &problem));
		if (problem.line != rows[i].line || problem.column != rows[i].column ||
		    strstr(problem.text, rows[i].said) == NULL)
			fail_msg("%s: %u:%u: %s", rows[i].text, problem.line, problem.column, problem.text);
		assert_int_equal(quota_of(policy, "org=x user=alice"), 5); /* nothing of it counts */
		sluice_policy_free(policy);
	}
}

static void test_policies(void **state) {
	static const char *const refused[] = {
		"limits:\n- {name: n, key: [], limit: 5/1m, overrides-from: q}\n",
		"limits:\n- {name: n, key: ip, limit: unlimited, overrides-from: q}\n",
		"limits:\n- {name: n, key: ip, limit: 5/1m, overrides-from: [q]}\n",
		"limits:\n- {name: n, key: ip, limit: 5/1m, overrides-from: ''}\n",
	};
	struct sluice_policy *policy = load(one_part);
	(void)state;
	assert_int_equal(sl_policy_quotas_count(policy), 1);
	assert_string_equal(sl_policy_quotas_at(policy, 0)->file, "q.csv");
	assert_int_equal(quota_of(policy, "user=alice"), 5);
	sluice_policy_free(policy);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		policy = NULL;
		assert_int_equal(sluice_policy_load(&policy, sl_str(refused[i]), NULL), SLUICE_E_SYNTAX);
	}
}

static void keep(void *to, const struct sl_policy_told *told) {
	char why[SL_WHY_BYTES_MAX];
	struct sluice_bytes line = sl_policy_why(told, why);
	snprintf(to, 256, "%.*s", (int)line.len, (const char *)line.data);
}

/* Explain names the file and the line. */
static void test_explained(void **state) {
	struct sluice_policy *policy = load(one_part);
	struct sluice_attribute user = {sl_str("user"), sl_str("alice")};
	struct sluice_match match;
	char why[256];
	(void)state;
	set(policy, "bob,unlimited\nalice,7/1m\n");
	for (int i = 0; i < 2; i++) {
		user.value = sl_str(i == 0 ? "alice" : "bob");
		assert_int_equal(sl_policy_match(policy, &user, 1, sl_slice(NULL, 0), &match, buffer, sizeof buffer),
		                 SLUICE_OK);
		sl_policy_explain(policy, &user, 1, sl_slice(NULL, 0), &match, keep, why);
		assert_string_equal(why, i == 0 ? "line 2 of q.csv applies, the key's own quota, before any override"
		                                : "line 1 of q.csv says unlimited");
	}
	sluice_policy_free(policy);
}

#define SAME "changes nothing: the limit itself says the same for this key: leave the line out"
#define EXCLUDED "never used: the limit's own `when` excludes this key: leave the line out"
#define ONE(more) "limits:\n- {name: n, key: user | ip, limit: 5/1m, overrides-from: q.csv, optional: true, " more "}\n"

static const char by_route[] = "limits:\n- {name: n, key: route, limit: 5/1m, overrides-from: q.csv, "
							   "when: {path: [/a, '/b/{id}']}}\n";

static void lint(const struct sluice_policy *policy, struct sluice_problems *problems) {
	struct sl_report report = {0};
	sl_policy_quotas_lint(policy, 0, &report);
	sl_report_move(&report, problems);
}

/* Lines that do nothing, and those that only look so. */
static void test_lines_that_do_nothing(void **state) {
	static const struct {
		const char *yaml, *text;
		uint32_t line; /* of the one warning; 0: none */
		const char *said;
	} rows[] = {
		{ONE("when: {}"), "alice,6/1m\n", 0, NULL},
		{ONE("when: {}"), "alice,6/1m\nbob,5/1m\n", 2, SAME},
		{ONE("when: {}"), "bob,sliding-window 5/60s\n", 1, SAME},
		{ONE("when: {}"), "bob,unlimited\n", 0, NULL},
		{ONE("observe: true"), "bob,5/1m\n", 1, SAME},
		{ONE("candidate: 6/1m"), "bob,5/1m\n", 0, NULL}, /* an own quota keeps the candidate from being tried */
		{ONE("overrides: [{when: {plan: pro}, limit: 9/1m}]"), "bob,5/1m\n", 0, NULL}, /* before an override */
		{ONE("overrides: [{when: {user: al}, limit: 9/1m}]"), "bob,5/1m\n", 1, SAME},
		{ONE("overrides: [{when: {user: bob}, limit: 9/1m}]"), "bob,5/1m\n", 0, NULL},
		{ONE("overrides: [{when: {user: al, plan: pro}, limit: 9/1m}]"), "ip=::1,5/1m\n", 1, SAME},
		/* what `when` excludes */
		{ONE("when: {user: [al, bob]}"), "bob,6/1m\n", 0, NULL},
		{ONE("when: {user: [al, bob]}"), "bob,6/1m\neve,6/1m\n", 2, EXCLUDED},
		{ONE("when: {user: [al, bob]}"), "eve,5/1m\n", 1, EXCLUDED}, /* told once */
		{ONE("when: {user: 'b*'}"), "ip=10.0.0.1,6/1m\n", 1, EXCLUDED}, /* such a request has no user */
		{ONE("when: {ip: 10.0.0.0/8}"), "bob,6/1m\n", 0, NULL},
		{ONE("when: {ip: 10.0.0.0/8}"), "ip=11.0.0.1,6/1m\n", 1, EXCLUDED},
		{ONE("when: {ip: 10.0.0.0/8}"), "ip=10.0.0.1:80,6/1m\n", 0, NULL},
		{ONE("when: {path: /a}"), "bob,6/1m\n", 0, NULL},
		{ONE("when: {not: {user: bob}}"), "bob,6/1m\n", 1, EXCLUDED},
		{ONE("when: {not: {user: bob, path: /a}}"), "bob,6/1m\n", 0, NULL},
		{ONE("when: {not: {path: /a}}"), "bob,6/1m\n", 0, NULL},
		/* the part of a path is the key, and what the request says is asked of `when` */
		{ONE("when: {user: bob, path: '/a/{user}'}"), "eve,6/1m\n", 0, NULL},
		{ONE("when: {user: bob, path: '/a/{org}'}"), "eve,6/1m\n", 1, EXCLUDED},
		{ONE("when: {path: '/a/{user}'}"), "eve/b,6/1m\n", 1, EXCLUDED}, /* no segment is so */
		{ONE("when: {path: '/a/{user}'}"), "ip=10.0.0.1,6/1m\n", 1, EXCLUDED},
		{ONE("when: {path: ['/a/{user}', /b]}"), "eve/b,6/1m\n", 0, NULL}, /* at /b, by what the request says */
		{by_route, "/a,6/1m\n/b/{id},6/1m\n", 0, NULL},
		{by_route, "/b/{org},6/1m\n", 1, EXCLUDED},
		{by_route, "/a,6/1m\n/A,6/1m\n", 2, EXCLUDED},
		{two_parts, "\"org=x,user=alice\",5/1m\n", 1, SAME},
		{two_parts, "\"org=x,user=alice\",6/1m\n", 0, NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = load(rows[i].yaml);
		struct sluice_problems problems;
		set(policy, rows[i].text);
		lint(policy, &problems);
		sl_policy_print(&problems);
		if (problems.count != (rows[i].said != NULL) ||
		    (problems.count == 1 && (problems.list[0].line != rows[i].line || problems.list[0].column != 1 ||
		                             !problems.list[0].warning || strcmp(problems.list[0].text, rows[i].said) != 0)))
			fail_msg("%s %s", rows[i].yaml, rows[i].text);
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

/* Of as many as may be some are told, and the others counted. */
static void test_a_million_that_do_nothing(void **state) {
	const size_t room = (size_t)SL_QUOTAS_MAX * 16;
	char *text = malloc(room);
	struct sluice_policy *policy = load(ONE("when: {}"));
	struct sluice_problem problem;
	struct sluice_problems problems;
	size_t len = 0;
	(void)state;
	for (uint32_t i = 0; i < SL_QUOTAS_MAX; i++)
		len += (size_t)snprintf(text + len, room - len, "u%u,5/1m\n", i);
	assert_true(sl_policy_quotas_set(policy, 0, sl_slice(text, len), &problem));
	lint(policy, &problems);
	assert_int_equal(problems.count, SL_QUOTAS_WARNINGS_MAX + 1);
	assert_int_equal(problems.list[SL_QUOTAS_WARNINGS_MAX - 1].line, SL_QUOTAS_WARNINGS_MAX);
	assert_string_equal(problems.list[SL_QUOTAS_WARNINGS_MAX].text, "999980 more lines that do nothing are not listed");
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	free(text);
}

/* As many as may be: each has what its line says, nobody else has anything; and one more is refused. */
static void test_a_million(void **state) {
	const size_t room = (size_t)(SL_QUOTAS_MAX + 1) * 24;
	char *text = malloc(room), request[64];
	struct sluice_problem problem;
	size_t len = 0;
	(void)state;
	for (uint32_t i = 0; i < SL_QUOTAS_MAX; i++)
		len += (size_t)snprintf(text + len, room - len, "u%u,%u/1m\n", i, 10 + i % 1000);
	struct sluice_policy *policy = load(one_part);
	assert_true(sl_policy_quotas_set(policy, 0, sl_slice(text, len), &problem));
	assert_int_equal(sl_policy_limit_at(policy, 0)->quota_count, SL_QUOTAS_MAX);
	for (uint32_t i = 0; i < SL_QUOTAS_MAX + 1000; i += 7) {
		snprintf(request, sizeof request, "user=u%u", i);
		assert_int_equal(quota_of(policy, request), i < SL_QUOTAS_MAX ? 10 + i % 1000 : 5);
	}
	sluice_policy_free(policy);
	policy = load(one_part);
	len += (size_t)snprintf(text + len, room - len, "more,1/1m\n");
	assert_false(sl_policy_quotas_set(policy, 0, sl_slice(text, len), &problem));
	assert_int_equal(problem.line, SL_QUOTAS_MAX + 1);
	sluice_policy_free(policy);
	free(text);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),     cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_policies),
		cmocka_unit_test(test_explained), cmocka_unit_test(test_a_million),
		cmocka_unit_test(test_lines_that_do_nothing), cmocka_unit_test(test_a_million_that_do_nothing),
	};
	return cmocka_run_group_tests_name("quotas", tests, NULL, NULL);
}
