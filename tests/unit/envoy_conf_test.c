/* Files of envoyproxy/ratelimit: which are read, and what is said of the others. The verdicts and texts are those that
 * envoyproxy/ratelimit itself (1.4.1 of January 2026) gave for these very files; but that stars may stand anywhere, as
 * newer ones have it. */
#include "policy/alias.h"
#include "policy/envoy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ONE(text) "domain: d\ndescriptors:\n  - " text "\n"
#define A(text) ONE("key: a\n    " text)
#define RATE(text) A("rate_limit: {" text "}")
#define YAML(text) "error loading config file: yaml: " text
#define UNMARSHAL(line, what, into) YAML("unmarshal errors: line " line ": cannot unmarshal " what " into " into)

enum { YAML_BYTES = 4 * 1024 * 1024 };

/* A policy that files are read into; free it with sluice_policy_free(). */
static struct sluice_policy *policy_of(const char *yaml) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), &problems), SLUICE_OK);
	sluice_problems_free(&problems);
	return policy;
}

static sluice_err add(struct sluice_policy *policy, const char *yaml, struct sluice_problems *problems) {
	sluice_err err = sl_policy_envoy_add(policy, "f.yaml", sl_str(yaml), problems);
	for (size_t i = 0; i < problems->count; i++)
		print_message("  %u:%u: %s%s\n", problems->list[i].line, problems->list[i].column,
		              problems->list[i].warning ? "warning: " : "", problems->list[i].text);
	return err;
}

static __attribute__((format(printf, 2, 3))) void put(struct sl_out *out, const char *format, ...) {
	char text[128];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	sl_out_str(out, text);
}

static sluice_err add_out(struct sluice_policy *policy, const struct sl_out *out, struct sluice_problems *problems) {
	assert_false(out->overflow);
	return sl_policy_envoy_add(policy, "f.yaml", sl_slice(out->start, sl_out_len(out)), problems);
}

/* Of a row with a text: refused, and the first mistake says that. */
struct row {
	const char *yaml, *text;
};

static void check_row(const char *policy_yaml, const struct row *row) {
	struct sluice_policy *policy = policy_of(policy_yaml);
	struct sluice_problems problems;
	size_t first = 0;
	print_message("%.300s\n", row->yaml);
	assert_int_equal(add(policy, row->yaml, &problems), row->text == NULL ? SLUICE_OK : SLUICE_E_SYNTAX);
	while (first < problems.count && problems.list[first].warning)
		first++;
	assert_int_equal(first < problems.count, row->text != NULL);
	if (row->text != NULL && strncmp(problems.list[first].text, row->text, strlen(row->text)) != 0)
		fail_msg("'%s' is not '%s'", problems.list[first].text, row->text);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
}

static const struct row their_rows[] = {
	{"", "config file cannot have empty domain"},
	{"{}", "config file cannot have empty domain"},
	{"domain: ''", "config file cannot have empty domain"},
	{"domain:", "config file cannot have empty domain"},
	{"domain: ~", "config file cannot have empty domain"},
	{"descriptors: []", "config file cannot have empty domain"},
	{"- a", UNMARSHAL("1", "!!seq", "map[interface {}]interface {}")},
	{"foo", UNMARSHAL("1", "!!str `foo`", "map[interface {}]interface {}")},
	{"5", UNMARSHAL("1", "!!int `5`", "map[interface {}]interface {}")},
	{"domain: d\n", NULL},
	{"domain: 5\n", NULL},
	{"domain: yes\n", NULL},
	{"domain: 1.5\n", "error checking config"},
	{RATE("unit: foo, requests_per_unit: 1"), "invalid rate limit unit 'foo'"},
	{RATE("requests_per_unit: 1"), "invalid rate limit unit ''"},
	{RATE("unit: unknown, requests_per_unit: 1"), "invalid rate limit unit 'unknown'"},
	{RATE("unit: WeeK, requests_per_unit: 1"), NULL},
	{RATE("unit: Day, requests_per_unit: 1"), NULL},
	{RATE("unit: day, requests_per_unit: -1"), UNMARSHAL("4", "!!int `-1`", "uint32")},
	{RATE("unit: day, requests_per_unit: 4294967296"), UNMARSHAL("4", "!!int `4294967296`", "uint32")},
	{RATE("unit: day, requests_per_unit: 4294967295"), NULL},
	{RATE("unit: day, requests_per_unit: 1.5"), "error checking config"},
	{RATE("unit: day, requests_per_unit: '5'"), UNMARSHAL("4", "!!str `5`", "uint32")},
	{RATE("unit: day, requests_per_unit: many"), UNMARSHAL("4", "!!str `many`", "uint32")},
	{RATE("unit: day, requests_per_unit: 010"), NULL},
	{RATE("unit: day, requests_per_unit: 0x10"), NULL},
	{RATE("unit: day, requests_per_unit: 0X1aF"), NULL},
	{RATE("unit: day, requests_per_unit: 0x1g"), UNMARSHAL("4", "!!str `0x1g`", "uint32")},
	{RATE("unit: day, requests_per_unit: 0x1@"), UNMARSHAL("4", "!!str `0x1@`", "uint32")},
	{RATE("unit: day, requests_per_unit: 1_000"), NULL},
	{RATE("unit: day, requests_per_unit: 08"), "error checking config"},
	{RATE("unit: day, requests_per_unit: +5"), NULL},
	{RATE("unit: day, requests_per_unit: -0x10"), UNMARSHAL("4", "!!int `-0x10`", "uint32")},
	{RATE("unit: day, requests_per_unit: -1.5"), "error checking config"},
	{RATE("unit: day, requests_per_unit: +.5e-3"), "error checking config"},
	{RATE("unit: day, requests_per_unit: 9223372036854775807"), UNMARSHAL("4", "!!int `9223372...`", "uint32")},
	{RATE("unit: day, requests_per_unit: 9223372036854775808"), "error checking config"},
	{RATE("unit: day, requests_per_unit: 15e5"), "error checking config"},
	{RATE("unit: day, requests_per_unit: 15E+5"), "error checking config"},
	{RATE("unit: day, requests_per_unit: 15e"), UNMARSHAL("4", "!!str `15e`", "uint32")},
	{RATE("unit: day, requests_per_unit: -"), UNMARSHAL("4", "!!str `-`", "uint32")},
	{RATE("unit: day, requests_per_unit: yes"), UNMARSHAL("4", "!!bool `yes`", "uint32")},
	{RATE("unit: day, requests_per_unit: "), NULL},
	{RATE("unit: day, requests_per_unit: 99999999999999999999"), "error checking config"},
	{RATE("unlimited: true, unit: day"), "should not specify rate limit unit when unlimited"},
	{RATE("unlimited: true, unit: foo"), NULL},
	{RATE("unlimited: yes"), NULL},
	{RATE("unlimited: 'true'"), UNMARSHAL("4", "!!str `true`", "bool")},
	{RATE("unlimited: 1"), UNMARSHAL("4", "!!int `1`", "bool")},
	{RATE("unlimited: maybe not now"), UNMARSHAL("4", "!!str `maybe n...`", "bool")},
	{A("rate_limit: 5"), UNMARSHAL("4", "!!int `5`", "config.YamlRateLimit")},
	{A("rate_limit: []"), UNMARSHAL("4", "!!seq", "config.YamlRateLimit")},
	{A("rate_limit: [{unit: day}]"), UNMARSHAL("4", "!!seq", "config.YamlRateLimit")},
	{A("rate_limit:"), NULL},
	{ONE("key: a\n  - key: a"), "duplicate descriptor composite key 'd.a'"},
	{ONE("key: a_b\n  - key: a\n    value: b"), "duplicate descriptor composite key 'd.a_b'"},
	{A("value: b_c\n  - key: a_b\n    value: c"), "duplicate descriptor composite key 'd.a_b_c'"},
	{A("descriptors:\n      - key: b\n      - key: b"), "duplicate descriptor composite key 'd.a.b'"},
	{A("descriptors: {key: b}"), UNMARSHAL("4", "!!map", "[]config.YamlDescriptor")},
	{A("descriptors: b"), UNMARSHAL("4", "!!str `b`", "[]config.YamlDescriptor")},
	{A("descriptors: [b]"), "config error, yaml file contains list of type other than map: b"},
	{A("descriptors: [[b]]"), "config error, yaml file contains list of type other than map: [b]"},
	{A("descriptors: [5]"), "config error, yaml file contains list of type other than map: 5"},
	{A("descriptors: [~]"), "config error, yaml file contains list of type other than map: <nil>"},
	{ONE("value: b"), "descriptor has empty key"},
	{ONE("key: ''"), "descriptor has empty key"},
	{ONE("key: [a]"), "config error, yaml file contains list of type other than map: a"},
	{ONE("key: {key: a}"), UNMARSHAL("3", "!!map", "string")},
	{ONE("key: {a: a}"), "config error, unknown key 'a'"},
	{ONE("key: 1.5"), "error checking config"},
	{ONE("key: 15\n    value: no"), NULL},
	{A("shadow_mode: nope"), UNMARSHAL("4", "!!str `nope`", "bool")},
	{A("shadow_mode: off"), NULL},
	{A("share_threshold: true"),
     "share_threshold can only be used with wildcard values (containing '*'), but found key 'a'"},
	{A("value: b\n    share_threshold: true"),
     "share_threshold can only be used with wildcard values (containing '*'), but found key 'a_b'"},
	{A("value: b*c\n    share_threshold: true"), NULL},
	{A("value: b*\n    share_threshold: true"), NULL},
	{ONE("key: 'a*'\n    share_threshold: true"), NULL},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: [{name: x}]"),
     "replaces should not contain name of same descriptor"},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: [{name: }]"), "should not have an empty replaces entry"},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: [x]"),
     "config error, yaml file contains list of type other than map: x"},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: x"),
     UNMARSHAL("4", "!!str `x`", "[]config.yamlReplaces")},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: [{}]"), "should not have an empty replaces entry"},
	{RATE("unit: day, requests_per_unit: 1, name: x, replaces: [{name: y}, {name: z}]"), NULL},
	{A("ratelimit: {}"), "config error, unknown key 'ratelimit'"},
	{A("5: {}"), "config error, key is not of type string: 5"},
	{A("yes: {}"), "config error, key is not of type string: true"},
	{A("~: {}"), "config error, key is not of type string: <nil>"},
	{A("key: b"), NULL},
	{"domain: d\nfoo: 1\n", "config error, unknown key 'foo'"},
	{"0.25: d\n", "config error, key is not of type string: 0.25"},
	{"domain: d\ndomain: e\n", NULL},
	{"domain: d\n---\ndomain: e\nfoo: 1\n", NULL},
	{"domain: d\ndescriptors: &x\n  - key: a\n", NULL},
	{ONE("&x\n    key: a\n    rate_limit: &r {unit: day, requests_per_unit: 3}\n  - key: b\n    rate_limit: *r"), NULL},
	{"domain: d\ndescriptors: *x\n", YAML("unknown anchor 'x' referenced")},
	{"domain: d\ndescriptors: &x\n  - key: a\n    descriptors: *x\n", YAML("anchor 'x' value contains itself")},
	{"domain: d\n\tfoo: 1\n", YAML("line 2: found a tab character that violates indentation")},
	{"domain: [d\n", YAML("line 1: did not find expected ',' or ']'")},
	{"domain: {d\n", YAML("line 1: did not find expected ',' or '}'")},
	{"domain: 'd\n", YAML("line 2: found unexpected end of stream")},
	{"domain: \"d\n", YAML("line 2: found unexpected end of stream")},
	{"domain: d\n descriptors: []\n", YAML("line 2: mapping values are not allowed in this context")},
	{"domain: d: e\n", YAML("mapping values are not allowed in this context")},
	{"domain: @d\n", YAML("found character that cannot start any token")},
	{"domain: `d\n", YAML("found character that cannot start any token")},
	{"domain: %d\n", YAML("found character that cannot start any token")},
	{"domain: d\n- a\n", YAML("line 1: did not find expected key")},
	{"- a\nb: c\n", YAML("line 1: did not find expected '-' indicator")},
	{"'''", YAML("found unexpected end of stream")},
	{"domain: d\ndescriptors:\n- key: a\n   value: b\n",
     YAML("line 4: mapping values are not allowed in this context")},
	{ONE("key: a\n value: b"), YAML("line 3: did not find expected key")},
	{": :\n", YAML("did not find expected key")},
	{"? a\n", "config error, unknown key 'a'"},
	{"domain: |\n d\n", NULL},
	{"!!str domain: d\n", NULL},
	{RATE("unit: 5, requests_per_unit: 1"), "invalid rate limit unit '5'"},
	{"domain: $HOME\n", NULL},
	{"domain: d\nshadow_mode: true\n", NULL},
};

static void test_their_verdicts(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof their_rows / sizeof *their_rows; i++)
		check_row("limits: []\n", &their_rows[i]);
}

/* What that program's version does not know, and what is ours. */
static void test_ours(void **state) {
	static const struct row rows[] = {
		{A("metadata: {anything: [1.5, {x: y}]}"), NULL},
		{A("metadata: 5"), "expected metadata to be a mapping"},
		{A("metadata: {sluice: {limit: 5/1m}}"), "metadata.sluice goes with a rate_limit, which is missing"},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {limit: sliding-log 5/1m}"), NULL},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: 5"), "metadata.sluice: expected {limit: ..}"},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {limits: 5/1m}"),
	     "unknown key in metadata.sluice: expected limit"},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {}"),
	     "metadata.sluice: expected a limit such as"},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {limit: 5/1x}"), "expected"},
		{RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {limit: concurrency 5 lease 1s}"),
	     "expected a limit that counts requests"},
		{RATE("unlimited: true}\n    metadata: {sluice: {limit: 5/1m}"), "metadata.sluice can't go with unlimited"},
		{"domain: \x01\n", "expected printable text"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		check_row("limits: []\n", &rows[i]);
}

/* Every mistake of a file is told, where it stands. */
static void test_places(void **state) {
	static const struct {
		uint32_t line, column;
		bool warning;
		const char *text;
	} wanted[] = {
		{3, 5, false, "descriptor has empty key"},
		{7, 7, true, "'shadow_mode' means nothing in a rate_limit"},
		{7, 26, false, "invalid rate limit unit 'foo'"},
		{8, 5, false, "duplicate descriptor composite key 'd.a_b*c'"},
		{11, 5, true, "'name' means nothing in a descriptor"},
	};
	struct sluice_policy *policy = policy_of("limits: []\n");
	struct sluice_problems problems;
	(void)state;
	assert_int_equal(add(policy,
	                     "domain: d\ndescriptors:\n  - value: x\n\n  - key: a\n    value: b*c\n"
	                     "    rate_limit: {unit: foo, requests_per_unit: 1, shadow_mode: true}\n"
	                     "  - key: a\n    value: b*c\n  - key: c\n    name: x\n",
	                     &problems),
	                 SLUICE_E_SYNTAX);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		bool found = false;
		for (size_t j = 0; j < problems.count; j++)
			found =
				found || (problems.list[j].line == wanted[i].line && problems.list[j].warning == wanted[i].warning &&
			              strcmp(problems.list[j].text, wanted[i].text) == 0);
		if (!found)
			fail_msg("nothing says %u: %s", wanted[i].line, wanted[i].text);
	}
	assert_int_equal(problems.count, sizeof wanted / sizeof *wanted);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
}

/* Domains of several files: once each, unless the policy merges them; then descriptors are once each. */
static void test_domains(void **state) {
	static const char first[] = ONE("key: a"), other[] = ONE("key: b");
	struct sluice_problems problems;
	(void)state;
	for (int merges = 0; merges < 2; merges++) {
		struct sluice_policy *policy =
			policy_of(merges ? "envoy: {config: /x, merge-domains: true}\n" : "envoy: {config: /x}\n");
		assert_int_equal(add(policy, first, &problems), SLUICE_OK);
		sluice_problems_free(&problems);
		assert_int_equal(add(policy, other, &problems), merges ? SLUICE_OK : SLUICE_E_SYNTAX);
		if (!merges)
			assert_string_equal(problems.list[0].text, "duplicate domain 'd' in config file");
		sluice_problems_free(&problems);
		assert_int_equal(add(policy, first, &problems), SLUICE_E_SYNTAX);
		assert_string_equal(problems.list[0].text, merges ? "duplicate descriptor composite key 'd.a'"
		                                                  : "duplicate domain 'd' in config file");
		sluice_problems_free(&problems);
		assert_true(sl_policy_envoy_has(policy, sl_str("d")));
		assert_false(sl_policy_envoy_has(policy, sl_str("e")));
		sluice_policy_free(policy);
	}
}

/* What a rule counts by: theirs, or what the policy or metadata says. */
static void test_limits(void **state) {
	static const struct {
		const char *policy, *rate, *limit;
	} rows[] = {
		{"limits: []\n", "unit: minute, requests_per_unit: 20", "fixed-window 20/1m"},
		{"limits: []\n", "unit: month, requests_per_unit: 0", "fixed-window 0/30d"},
		{"limits: []\n", "unit: YEAR, requests_per_unit: 1", "fixed-window 1/365d"},
		{"limits: []\n", "unit: week, requests_per_unit: 1", "fixed-window 1/1w"},
		{"limits: []\n", "unlimited: true", "unlimited"},
		{"envoy: {config: /x, algorithm: sliding-window}\n", "unit: second, requests_per_unit: 4294967295",
	     "sliding-window 4294967295/1s"},
		{"envoy: {config: /x, algorithm: token-bucket}\n", "unit: hour, requests_per_unit: 5",
	     "token-bucket 5/1h burst 5"},
		{"envoy: {config: /x, algorithm: token-bucket}\n",
	     "unit: hour, requests_per_unit: 5}\n    metadata: {sluice: {limit: sliding-log 7/10s}", "sliding-log 7/10s"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = policy_of(rows[i].policy);
		struct sluice_problems problems;
		char yaml[300], text[SLUICE_LIMIT_TEXT_MAX];
		snprintf(yaml, sizeof yaml, RATE("%s"), rows[i].rate);
		assert_int_equal(add(policy, yaml, &problems), SLUICE_OK);
		assert_int_equal(sl_policy_envoy_count(policy), 1);
		sluice_limit_print(&sl_policy_envoy_at(policy, 0)->shown.limit, text);
		assert_string_equal(text, rows[i].limit);
		assert_string_equal(sl_policy_envoy_at(policy, 0)->shown.when_text, "{}");
		assert_string_equal(sluice_policy_limit_name(policy, 0), "d.a");
		assert_ptr_equal(sl_policy_envoy_rule(policy, 0), sl_policy_envoy_at(policy, 0));
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

/* What a script can't do is refused with the policy. */
static void test_by_script(void **state) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy,
	                                    sl_str("store: {redis: \"127.0.0.1:1\", via: script}\n"
	                                           "envoy: {config: /x, count-denied: true}\n"),
	                                    &problems),
	                 SLUICE_E_SYNTAX);
	assert_string_equal(problems.list[0].text,
	                    "count-denied needs Sluice's module on the nodes: via: script can't do it");
	sluice_problems_free(&problems);
}

/* A quota that no window of such an algorithm has; a rule that its store can't decide. */
static void test_policies(void **state) {
	static const struct {
		const char *policy, *yaml, *text;
	} rows[] = {
		{"envoy: {config: /x, algorithm: token-bucket}\n", RATE("unit: day, requests_per_unit: 1"), NULL},
		{"store: {redis: \"127.0.0.1:1\", via: script}\nenvoy: {config: /x, algorithm: token-bucket}\n",
	     RATE("unit: year, requests_per_unit: 4000000"), "a bucket of so large a burst over so long a window needs"},
		{"store: {redis: \"127.0.0.1:1\", via: script}\nenvoy: {config: /x}\n",
	     RATE("unit: year, requests_per_unit: 4000000"), NULL},
		{"store: {redis: \"127.0.0.1:1\", via: script}\nenvoy: {config: /x}\n",
	     RATE("unit: day, requests_per_unit: 1}\n    metadata: {sluice: {limit: 5/month at UTC}"),
	     "a window of the calendar needs Sluice's module"},
		{"store: {redis: \"127.0.0.1:1\"}\nenvoy: {config: /x}\n",
	     RATE("unit: day, requests_per_unit: 1}\n    quota_mode: true\n    metadata: {"),
	     "quota_mode: a store in Redis can't decide it"},
		{"envoy: {config: /x}\n", RATE("unit: day, requests_per_unit: 1}\n    quota_mode: true\n    metadata: {"),
	     NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		check_row(rows[i].policy, &(struct row){rows[i].yaml, rows[i].text});
}

/* The bounds: one less is fine. */
static void test_bounds(void **state) {
	char *yaml = malloc(YAML_BYTES);
	struct sluice_problems problems;
	(void)state;
	assert_non_null(yaml);
	for (int depth = SL_ENVOY_DEPTH_MAX; depth <= SL_ENVOY_DEPTH_MAX + 1; depth++) {
		struct sluice_policy *policy = policy_of("limits: []\n");
		struct sl_out out = sl_out_to(yaml, YAML_BYTES);
		sl_out_str(&out, "domain: d\n");
		for (int i = 0; i < depth; i++)
			put(&out, "%*sdescriptors:\n%*s- key: k%d\n", 2 * i, "", 2 * i, "", i);
		assert_int_equal(add_out(policy, &out, &problems), depth > SL_ENVOY_DEPTH_MAX ? SLUICE_E_SYNTAX : SLUICE_OK);
		if (depth > SL_ENVOY_DEPTH_MAX)
			assert_string_equal(problems.list[0].text, "expected at most 16 descriptors inside one another");
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
	for (int count = SL_ENVOY_REPLACES_MAX; count <= SL_ENVOY_REPLACES_MAX + 1; count++) {
		struct sluice_policy *policy = policy_of("limits: []\n");
		struct sl_out out = sl_out_to(yaml, YAML_BYTES);
		sl_out_str(&out, "domain: d\ndescriptors:\n- key: a\n  rate_limit:\n    unit: day\n    requests_per_unit: 1\n"
		                 "    name: own\n    replaces:\n");
		for (int i = 0; i < count; i++)
			put(&out, "    - name: n%d\n", i);
		assert_int_equal(add_out(policy, &out, &problems), count > SL_ENVOY_REPLACES_MAX ? SLUICE_E_SYNTAX : SLUICE_OK);
		if (count > SL_ENVOY_REPLACES_MAX)
			assert_string_equal(problems.list[0].text, "expected at most 64 names in replaces, found 65");
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
	for (int count = SL_ENVOY_DESCRIPTORS_MAX; count <= SL_ENVOY_DESCRIPTORS_MAX + 1; count++) {
		struct sluice_policy *policy = policy_of("limits: []\n");
		struct sl_out out = sl_out_to(yaml, YAML_BYTES);
		sl_out_str(&out, "domain: d\ndescriptors:\n");
		for (int i = 0; i < count; i++)
			put(&out, "- key: k%d\n", i);
		assert_int_equal(add_out(policy, &out, &problems),
		                 count > SL_ENVOY_DESCRIPTORS_MAX ? SLUICE_E_SYNTAX : SLUICE_OK);
		if (count > SL_ENVOY_DESCRIPTORS_MAX)
			assert_string_equal(problems.list[0].text, "expected at most 65536 descriptors in all files");
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
	struct sluice_policy *policy = policy_of("limits: []\n");
	for (int i = 0; i <= SL_ENVOY_FILES_MAX; i++) {
		snprintf(yaml, 64, "domain: d%d\n", i);
		assert_int_equal(add(policy, yaml, &problems), i == SL_ENVOY_FILES_MAX ? SLUICE_E_SYNTAX : SLUICE_OK);
		sluice_problems_free(&problems);
	}
	sluice_policy_free(policy);
	policy = policy_of("limits: []\n");
	memset(yaml, '#', SL_ENVOY_FILE_BYTES_MAX);
	for (int i = 0; i <= SL_ENVOY_BYTES_MAX / SL_ENVOY_FILE_BYTES_MAX; i++) {
		bool last = i == SL_ENVOY_BYTES_MAX / SL_ENVOY_FILE_BYTES_MAX;
		int len = snprintf(yaml, 64, "domain: d%d\n", i);
		yaml[len] = '#';
		assert_int_equal(sl_policy_envoy_add(policy, "f.yaml",
		                                     sl_slice(yaml, last ? (size_t)len : SL_ENVOY_FILE_BYTES_MAX), &problems),
		                 last ? SLUICE_E_SYNTAX : SLUICE_OK);
		if (last)
			assert_string_equal(problems.list[0].text, "expected at most 256 files of 32 MiB together");
		sluice_problems_free(&problems);
	}
	sluice_policy_free(policy);
	free(yaml);
}

static void add_long(const struct sl_out *out, const char *text) {
	struct sluice_policy *policy = policy_of("limits: []\n");
	struct sluice_problems problems;
	assert_int_equal(add_out(policy, out, &problems), text == NULL ? SLUICE_OK : SLUICE_E_SYNTAX);
	if (text != NULL)
		assert_non_null(strstr(problems.list[0].text, text));
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
}

/* Aliases of aliases, and merges of merges: a small file that would be large. */
static void test_bombs(void **state) {
	static char yaml[8192];
	struct sl_out out = sl_out_to(yaml, sizeof yaml);
	(void)state;
	sl_out_str(&out, "domain: d\ndescriptors: &a0 [{key: x}]\n");
	for (int i = 1; i < 12; i++) {
		put(&out, "descriptors: &a%d\n", i);
		for (int j = 0; j < 8; j++)
			put(&out, "  - {descriptors: *a%d}\n", i - 1);
	}
	add_long(&out, YAML("document contains excessive aliasing"));
	out = sl_out_to(yaml, sizeof yaml);
	sl_out_str(&out, "domain: d\ndescriptors:\n- &a0 {key: x}\n");
	for (int i = 1; i < 40; i++)
		put(&out, "- &a%d {<<: [*a%d, *a%d, *a%d]}\n", i, i - 1, i - 1, i - 1);
	add_long(&out, YAML("document contains excessive aliasing"));
}

/* What is repeated is counted with every list and mapping in it, against what a file of its size may repeat. */
static void test_what_aliases_may_repeat(void **state) {
	static char yaml[16384];
	const struct {
		int items;
		bool refused;
	} rows[] = {{60, false}, {80, true}}; /* 98.9 and 99.1 in 100 */
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_out out = sl_out_to(yaml, sizeof yaml);
		sl_out_str(&out, "domain: d\ndescriptors: &l [");
		for (int k = 0; k < rows[i].items; k++)
			sl_out_str(&out, k == 0 ? "{descriptors: []}" : ", {descriptors: []}");
		sl_out_str(&out, "]\n");
		for (int k = 0; k < 700; k++)
			sl_out_str(&out, "descriptors: *l\n");
		sl_out_str(&out, "descriptors: [{key: a}]\n");
		add_long(&out, rows[i].refused ? YAML("document contains excessive aliasing") : NULL);
	}
	/* 99 in 100 of a few steps, and less of many */
	struct sl_aliases aliases = {.pool = NULL};
	for (int k = 0; k < 4000; k++)
		assert_true(sl_aliases_count(&aliases, (struct sl_position){1, 1}, 99));
	assert_true(aliases.steps == 400000 && aliases.repeated == 396000 && aliases.wrong[0] == '\0');
	assert_false(sl_aliases_count(&aliases, (struct sl_position){7, 1}, 100));
	assert_int_equal(aliases.place.line, 7);
	assert_string_equal(aliases.wrong, "document contains excessive aliasing");
}

/* Aliases inside one another, where a reader that goes down by itself would find no end of its stack. */
static void test_deep_aliases(void **state) {
	char *yaml = malloc(YAML_BYTES);
	(void)state;
	assert_non_null(yaml);
	for (int deep = 0; deep < 2; deep++) {
		struct sl_out out = sl_out_to(yaml, YAML_BYTES);
		const int links = deep ? 60000 : 12;
		sl_out_str(&out, "domain: d\ndescriptors:\n- key: k\n  metadata:\n  - &a0 {key: a}\n");
		for (int i = 1; i < links; i++)
			put(&out, "  - &a%d {key: a, descriptors: [*a%d]}\n", i, i - 1);
		put(&out, "  descriptors: [*a%d]\n", links - 1);
		add_long(&out, deep ? "expected at most 40 lists and mappings inside one another"
		                    : "expected metadata to be a mapping");
	}
	free(yaml);
}

/* What stands where something is merged over it, or said again, is doubted; what was merged may be replaced. */
static void test_merges_are_told(void **state) {
	static const char base[] = ONE("&b {key: a, value: x}\n  - {<<: *b, key: b}\n  - {key: c, <<: *b, value: y}");
	struct sluice_policy *policy = policy_of("limits: []\n");
	struct sluice_problems problems;
	(void)state;
	assert_int_equal(add(policy, base, &problems), SLUICE_OK);
	assert_int_equal(problems.count, 1);
	assert_string_equal(problems.list[0].text, "'key' stands again in line 3, which counts: << comes after it");
	assert_int_equal(problems.list[0].line, 5);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_their_verdicts),
		cmocka_unit_test(test_ours),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_domains),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_what_aliases_may_repeat),
		cmocka_unit_test(test_by_script),
		cmocka_unit_test(test_deep_aliases),
		cmocka_unit_test(test_merges_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
