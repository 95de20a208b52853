/* RateLimitService by the files of envoyproxy/ratelimit: which rule a descriptor finds, by which counter it is decided,
 * and what is told of it. */
#include "tests/unit/door_grpc.h"

#include "policy/envoy.h"

static const char rl_yaml[] = "domain: rl\n"
							  "descriptors:\n"
							  "  - key: plain\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 2, name: plain-name}\n"
							  "  - key: plain\n"
							  "    value: vip\n"
							  "    rate_limit: {unit: hour, requests_per_unit: 3}\n"
							  "  - key: plain\n"
							  "    value: free\n"
							  "  - key: never\n"
							  "    rate_limit: {unit: day, requests_per_unit: 0}\n"
							  "  - key: any\n"
							  "    rate_limit: {unlimited: true}\n"
							  "  - key: outer\n"
							  "    rate_limit: {unit: second, requests_per_unit: 9}\n"
							  "    descriptors:\n"
							  "      - key: inner\n"
							  "        rate_limit: {unit: minute, requests_per_unit: 5}\n"
							  "      - key: inner\n"
							  "        value: one\n"
							  "        rate_limit: {unit: minute, requests_per_unit: 1}\n"
							  "  - key: outer\n"
							  "    value: closed\n"
							  "  - key: path\n"
							  "    value: /a*\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 7}\n"
							  "  - key: path\n"
							  "    value: /ab*\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 8}\n"
							  "  - key: path\n"
							  "    value: /abc\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 9}\n"
							  "  - key: path\n"
							  "    value: '*.png'\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 10}\n"
							  "  - key: path\n"
							  "    value: /x*y*z\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 11}\n"
							  "  - key: path\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 12}\n"
							  "  - key: files\n"
							  "    value: f/*\n"
							  "    share_threshold: true\n"
							  "    rate_limit: {unit: hour, requests_per_unit: 3}\n"
							  "  - key: shade\n"
							  "    shadow_mode: true\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 1, name: shade}\n"
							  "  - key: q1\n"
							  "    quota_mode: true\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
							  "  - key: q2\n"
							  "    quota_mode: true\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 2}\n"
							  "  - key: q3\n"
							  "    quota_mode: true\n"
							  "    rate_limit: {unit: second, requests_per_unit: 1}\n"
							  "  - key: big\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 4, replaces: [{name: plain-name}]}\n"
							  "  - key: ours\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 100, name: ours}\n"
							  "    metadata: {sluice: {limit: sliding-log 2/10s}}\n"
							  "  - key: gift*\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 6}\n"
							  "  - key: a_b\n"
							  "    rate_limit: {unit: minute, requests_per_unit: 13}\n"
							  "  - key: twice\n"
							  "    descriptors:\n"
							  "      - key: twice\n"
							  "        rate_limit: {unit: year, requests_per_unit: 2}\n";

static void add(const char *yaml) {
	struct sluice_problems problems;
	/* nobody else has it yet */
	if (sl_policy_envoy_add((struct sluice_policy *)context.policy, "f.yaml", sl_str(yaml), &problems) != SLUICE_OK)
		fail_msg("%s", problems.count > 0 ? problems.list[0].text : "?");
	sluice_problems_free(&problems);
}

static int setup_policy(const char *policy) {
	int failed = setup_with(policy);
	add(rl_yaml);
	return failed;
}

static int setup(void **state) {
	(void)state;
	return setup_policy("envoy: {config: /x}\n");
}

static int setup_counting(void **state) {
	(void)state;
	return setup_policy("envoy: {config: /x, count-denied: true}\n");
}

static int setup_sliding(void **state) {
	(void)state;
	return setup_policy("envoy: {config: /x, algorithm: sliding-window}\n");
}

static int setup_beside(void **state) {
	(void)state;
	return setup_policy("envoy: {config: /x}\nlimits:\n"
	                    "- {name: own, key: plain, limit: sliding-log 1/1m}\n"
	                    "- {name: seen, key: [], limit: fixed-window 1000/1d, observe: true}\n");
}

/* A value, else a star in the order of the file, else the key alone; to the last entry, and no further. */
static void test_which_rule(void **state) {
	static const struct {
		const char *request, *answer;
	} rows[] = {
		{"rl plain=x", "OK | ok plain-name 2/m r1 t60"},
		{"rl plain=vip", "OK | ok  3/h r2 t3600"},
		{"rl plain=free", "OK | ok"}, /* let through by name */
		{"rl plain=", "OK | ok plain-name 2/m r1 t60"},
		{"rl never=x", "OVER | over  0/d r0 t86400"},
		{"rl any=x", "OK | ok r4294967295"},
		{"rl nothing=x", "OK | ok"},
		{"other plain=x", "OK | ok"},
		{"rl outer=x", "OK | ok  9/s r8 t1"},
		{"rl outer=x,inner=y", "OK | ok  5/m r4 t60"},
		{"rl outer=x,inner=one", "OK | ok  1/m r0 t60"},
		{"rl outer=x,inner=one,more=z", "OK | ok"},
		{"rl outer=closed,inner=one", "OK | ok"}, /* no way back to the key alone */
		{"rl inner=one", "OK | ok"},
		{"rl path=/abc", "OK | ok  9/m r8 t60"},
		{"rl path=/abd", "OK | ok  7/m r6 t60"}, /* the first of the file */
		{"rl path=/a", "OK | ok  7/m r6 t60"},
		{"rl path=/b.png", "OK | ok  10/m r9 t60"},
		{"rl path=/a.png", "OK | ok  7/m r6 t60"},
		{"rl path=/xyz", "OK | ok  11/m r10 t60"},
		{"rl path=/x1y2z", "OK | ok  11/m r10 t60"},
		{"rl path=/xz", "OK | ok  12/m r11 t60"},
		{"rl gift=x", "OK | ok  6/m r5 t60"},
		{"rl gifts=y", "OK | ok  6/m r5 t60"},
		{"rl a=b", "OK | ok"}, /* they would take it for the key a_b */
		{"rl a_b=c", "OK | ok  13/m r12 t60"},
		{"rl twice=1,twice=2", "OK | ok  2/year r1 t30326400"},
		{"rl twice=1", "OK | ok"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		expect(rows[i].request, rows[i].answer);
}

/* By the domain and all values, told apart. */
static void test_counters(void **state) {
	(void)state;
	expect("rl plain=a", "OK | ok plain-name 2/m r1 t60");
	expect("rl plain=b", "OK | ok plain-name 2/m r1 t60");
	expect("rl outer=a,inner=b_c", "OK | ok  5/m r4 t60");
	expect("rl outer=a_b,inner=c", "OK | ok  5/m r4 t60");
	expect("rl twice=1,twice=2", "OK | ok  2/year r1 t30326400");
	expect("rl twice=2,twice=1", "OK | ok  2/year r1 t30326400");
	/* what shares a threshold shares a counter */
	expect("rl files=f/a", "OK | ok  3/h r2 t3600");
	expect("rl files=f/b files=f/c", "OK | ok  3/h r1 t3600 | ok  3/h r1 t3600"); /* one counter is charged once */
	expect("rl files=f/d", "OK | ok  3/h r0 t3600");
	expect("rl files=f/a", "OVER | over  3/h r0 t3600");
}

/* Windows are aligned to the epoch; what is denied does not count, and nothing is charged where one denies. */
static void test_windows(void **state) {
	(void)state;
	context.now += 59 * 1000000000ull + 500000000;
	expect("rl!2 plain=a", "OK | ok plain-name 2/m r0 t1");
	expect("rl plain=a plain=vip", "OVER | over plain-name 2/m r0 t1 | ok  3/h r3 t3541");
	context.now += 500000000;
	expect("rl plain=a plain=vip", "OK | ok plain-name 2/m r1 t60 | ok  3/h r2 t3540");
	expect("rl!2 plain=a", "OVER | over plain-name 2/m r0 t60"); /* whole, or not at all */
	expect("rl plain=a", "OK | ok plain-name 2/m r0 t60");
	expect("rl plain=b+0", "OK | ok plain-name 2/m r2 t60");
	expect("rl plain=a+0", "OVER | over plain-name 2/m r0 t60"); /* not even one more fits */
}

/* As theirs counts: each by itself, whatever the others say. */
static void test_count_denied(void **state) {
	(void)state;
	expect("rl!2 plain=a", "OK | ok plain-name 2/m r0 t60");
	expect("rl plain=a plain=vip", "OVER | over plain-name 2/m r0 t60 | ok  3/h r2 t3600");
	expect("rl plain=a plain=vip", "OVER | over plain-name 2/m r0 t60 | ok  3/h r1 t3600");
	expect("rl!5 plain=b", "OVER | over plain-name 2/m r0 t60");
	expect("rl plain=b", "OVER | over plain-name 2/m r0 t60");
	expect("rl!2 shade=a", "OK | ok shade 1/m r0 t60");
	expect("rl shade=a", "OK | ok shade 1/m r0 t60");
	expect("rl!2 plain=c@3/2", "OK | ok fixed-window 3/1m 3/m r1 t60"); /* brought along: as well */
	expect("rl!2 plain=c@3/2", "OVER | over fixed-window 3/1m 3/m r0 t60");
	expect("rl plain=c@3/2", "OVER | over fixed-window 3/1m 3/m r0 t60");
}

static void test_shadow(void **state) {
	(void)state;
	expect("rl shade=a", "OK | ok shade 1/m r0 t60");
	expect("rl shade=a", "OK | ok shade 1/m r0 t60");
	expect("rl shade=a plain=a", "OK | ok shade 1/m r0 t60 | ok plain-name 2/m r1 t60");
}

/* Over where all quotas of the request are; what admits is charged, what does not is not. */
static void test_quota(void **state) {
	(void)state;
	expect("rl q1=a q2=a", "OK | ok  1/m r0 t60 | ok  2/m r1 t60");
	expect("rl q1=a q2=a", "OK | ok  1/m | ok  2/m r0 t60");
	expect("rl q1=a q2=a", "OVER | over  1/m r0 t60 | over  2/m r0 t60");
	expect("rl q1=a", "OVER | over  1/m r0 t60"); /* all of one */
	expect("rl q1=a q2=b", "OK | ok  1/m | ok  2/m r1 t60");
	expect("rl q1=a q2=b never=x", "OVER | ok  1/m | ok  2/m r1 t60 | over  0/d r0 t86400");
	expect("rl q1=a plain=x", "OVER | over  1/m r0 t60 | ok plain-name 2/m r2 t60");
}

/* Where all deny the one that admits first says when: so long is Retry-After, whatever the others would wait. */
static void test_quotas_that_deny(void **state) {
	(void)state;
	expect("rl q1=a q3=a", "OK | ok  1/m r0 t60 | ok  1/s r0 t1");
	int32_t id = submit_request("rl q1=a q3=a");
	pump();
	const char *text = shown(id, true);
	if (strncmp(text, "OVER | over  1/m r0 t60 | over  1/s r0 t1", 41) != 0 || strstr(text, "<Retry-After: 1>") == NULL)
		fail_msg("%s", text);
	context.now += 1000000000ull;
	expect("rl q1=a q3=a", "OK | ok  1/m | ok  1/s r0 t1");
}

static void test_replaces(void **state) {
	(void)state;
	expect("rl plain=a big=b", "OK | ok | ok  4/m r3 t60");
	expect("rl big=b plain=a", "OK | ok  4/m r2 t60 | ok");
	expect("rl big=b plain=vip", "OK | ok  4/m r1 t60 | ok  3/h r2 t3600"); /* of another name: none */
	expect("rl plain=a", "OK | ok plain-name 2/m r1 t60");                  /* it was not charged */
	expect("rl!3 big=c plain=a", "OK | ok  4/m r1 t60 | ok");
	expect("rl!3 big=c plain=a", "OVER | over  4/m r0 t60 | ok");
}

/* A descriptor's own limit goes before; not in a domain that no file has. */
static void test_overrides(void **state) {
	(void)state;
	expect("rl plain=a@1/2", "OK | ok fixed-window 1/1m 1/m r0 t60");
	expect("rl plain=a@1/2", "OVER | over fixed-window 1/1m 1/m r0 t60");
	expect("rl plain=a", "OK | ok plain-name 2/m r1 t60");
	expect("rl!2 plain=c@3/2", "OK | ok fixed-window 3/1m 3/m r1 t60");
	expect("rl!2 plain=c@3/2", "OVER | over fixed-window 3/1m 3/m r1 t60"); /* and not counted */
	expect("rl plain=c@3/2", "OK | ok fixed-window 3/1m 3/m r0 t60");
	expect("rl plain=a@3/7", "OK | ok fixed-window 3/1w 3/w r2 t604800");
	expect("other plain=a@0/2", "OK | ok");
}

static void test_refunds(void **state) {
	(void)state;
	expect("rl!2 plain=a", "OK | ok plain-name 2/m r0 t60");
	expect("rl plain=a-1", "OK | ok plain-name 2/m r1 t60");
	expect("rl plain=a-9", "OK | ok plain-name 2/m r2 t60");
}

/* What metadata says, and what the policy says of all. */
static void test_ours(void **state) {
	(void)state;
	expect("rl!2 ours=a", "OK | ok ours 2/? r0 t10");
	expect("rl ours=a", "OVER | over ours 2/? r0 t10");
	context.now += 10 * 1000000000ull;
	expect("rl ours=a", "OK | ok ours 2/? r1 t10");
}

static void test_sliding(void **state) {
	(void)state;
	context.now += 59 * 1000000000ull;
	expect("rl!2 plain=a", "OK | ok plain-name 2/m r0 t31"); /* until one is free */
	context.now += 1000000000;
	expect("rl plain=a", "OVER | over plain-name 2/m r0 t30");
	expect("rl!2 ours=a", "OK | ok ours 2/? r0 t10");
}

/* Limits of the policy and rules decide together. */
static void test_beside(void **state) {
	(void)state;
	expect("rl plain=a", "OK | ok own 1/m r0 t60");
	expect("rl plain=a", "OVER | over own 1/m r0 t60");
	expect("rl plain=b plain=a", "OVER | ok own 1/m r1 t0 | over own 1/m r0 t60");
	expect("rl never=a", "OVER | over  0/d r0 t86400");
	expect("x ip=1.2.3.4", "OK | ok");
}

static int32_t submit_seventeen(const char *hits) {
	char request[512] = "rl";
	for (size_t i = 0; i < 17; i++) {
		char one[16];
		snprintf(one, sizeof one, " plain=%zu%s", i, hits);
		strncat(request, one, sizeof request - strlen(request) - 1);
	}
	int32_t id = submit_request(request);
	pump();
	return id;
}

/* Seventeen that count: the last denies, and nothing is charged. Nor could a request that is given back have been, so
 * what others were charged stays. */
static void test_too_many(void **state) {
	(void)state;
	assert_non_null(strstr(shown(submit_seventeen(""), false), "OVER | ok plain-name 2/m r2 t60"));
	expect("rl plain=0", "OK | ok plain-name 2/m r1 t60");
	assert_non_null(strstr(shown(submit_seventeen("-1"), false), "OK | ok"));
	expect("rl plain=0", "OK | ok plain-name 2/m r0 t60");
}

/* A value that is long, or has what keys are made of. */
static void test_values(void **state) {
	char request[3000] = "rl plain=";
	(void)state;
	memset(request + 9, 'v', 2000);
	request[2009] = '1';
	expect(request, "OK | ok plain-name 2/m r1 t60");
	expect(request, "OK | ok plain-name 2/m r0 t60");
	request[2009] = '2';
	expect(request, "OK | ok plain-name 2/m r1 t60");
	expect("rl outer=%2C,inner=%", "OK | ok  5/m r4 t60");
}

/* What rules are counted under: their texts, and values where they ask for them. */
static void test_metric_names(void **state) {
	static const char yaml[] =
		"domain: m\ndescriptors:\n"
		"  - key: a\n    rate_limit: &r {unit: day, requests_per_unit: 1}\n"
		"  - {key: b, value_to_metric: true, rate_limit: *r}\n"
		"  - {key: c, detailed_metric: true, rate_limit: *r}\n"
		"  - {key: d, value: 'x*', rate_limit: *r}\n"
		"  - {key: e, value: 'x*', value_to_metric: true, rate_limit: *r}\n"
		"  - {key: f, value: 'x*', share_threshold: true, detailed_metric: true, rate_limit: *r}\n"
		"  - {key: g, value_to_metric: true, descriptors: [{key: h, rate_limit: *r}]}\n"
		"  - {key: i, value: 'x*', share_threshold: true,\n"
		"     descriptors: [{key: j, detailed_metric: true, rate_limit: *r}]}\n"
		"  - {key: k, value: '*', rate_limit: *r}\n";
	static const struct {
		const char *entries[4], *name;
	} rows[] = {
		{{"a", "1"}, "m.a"},     {{"b", "1"}, "m.b_1"},   {{"c", "1"}, "m.c_1"},   {{"c", ""}, "m.c_"},
		{{"d", "xy"}, "m.d_x*"}, {{"e", "xy"}, "m.e_xy"}, {{"f", "xy"}, "m.f_x*"}, {{"g", "1", "h", "2"}, "m.g_1.h"},
		{{"i", "xy", "j", ""}, "m.i_x*.j"}, {{"k", "xy"}, "m.k_*"},
	};
	(void)state;
	add(yaml);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_bytes pairs[4], name;
		struct sl_envoy_found found;
		char text[SL_ENVOY_METRIC_BYTES_MAX];
		uint32_t count = 0;
		for (; count < 4 && rows[i].entries[count] != NULL; count++)
			pairs[count] = sl_str(rows[i].entries[count]);
		sl_policy_envoy_find(context.policy, sl_str("m"), pairs, count / 2, &found);
		assert_non_null(found.rule);
		name = sl_policy_envoy_metric(context.policy, &found, sl_str("m"), pairs, count / 2, text);
		if (!sl_bytes_equal(name, sl_str(rows[i].name)))
			fail_msg("%.*s is not %s", (int)name.len, (const char *)name.data, rows[i].name);
	}
	/* nothing is read behind a value that is shorter than what stands around a star */
	char *heap = malloc(1);
	struct sluice_bytes pair[2] = {sl_str("d"), sl_slice(heap + 1, 0)};
	struct sl_envoy_found found;
	assert_non_null(heap);
	sl_policy_envoy_find(context.policy, sl_str("m"), pair, 1, &found);
	assert_null(found.rule);
	free(heap);
}

#define TEST(test, set_up) cmocka_unit_test_setup_teardown(test, set_up, teardown)

/* A name is as long as its file: the first 512 bytes are told, whole characters. */
static void test_long_names(void **state) {
	char name[700], yaml[900], told[600];
	(void)state;
	memset(name, 'n', 511);
	snprintf(name + 511, sizeof name - 511, "\xc3\xa4 and more");
	snprintf(yaml, sizeof yaml,
	         "domain: long\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3, name: '%s'}}]\n",
	         name);
	add(yaml);
	snprintf(told, sizeof told, "OK | ok %.511s 3/d r2 t86400", name);
	expect("long k=1", told);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(test_which_rule, setup),    TEST(test_counters, setup),        TEST(test_windows, setup),
		TEST(test_shadow, setup),        TEST(test_quota, setup),           TEST(test_replaces, setup),
		TEST(test_overrides, setup),     TEST(test_refunds, setup),         TEST(test_ours, setup),
		TEST(test_too_many, setup),      TEST(test_values, setup),          TEST(test_metric_names, setup),
		TEST(test_beside, setup_beside), TEST(test_sliding, setup_sliding), TEST(test_count_denied, setup_counting),
		TEST(test_long_names, setup),     TEST(test_quotas_that_deny, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
