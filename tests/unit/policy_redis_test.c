/* A store in Redis: what loads, what is refused, what is doubted, and that no message repeats a password. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ON_NODES "store: {redis: 127.0.0.1:6379}\n"
#define LIMIT(more) "limits:\n- {name: a, key: ip, limit: 5/1m, " more "}\n"

static const sluice_ns MS = 1000000;

static struct sl_redis_settings redis_of(const struct sluice_policy *policy) {
	return sl_policy_settings(policy)->redis;
}

static void test_defaults(void **state) {
	static const char *const files[] = {"limits: []\n", "store: {memory: 1GiB}\n", ON_NODES};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct sluice_policy *policy = sl_policy_loads(files[i]);
		struct sl_redis_settings redis = redis_of(policy);
		assert_int_equal(redis.address_count, i == 2);
		assert_string_equal(redis.prefix, "sluice:");
		assert_int_equal(redis.via, SL_VIA_AUTO);
		assert_int_equal(redis.budget_ns, 20 * MS);
		assert_true(redis.slices);
		assert_int_equal(redis.slice_ns, 500 * MS);
		assert_int_equal(redis.ready_after_ns, 10000 * MS);
		assert_null(redis.user);
		assert_null(redis.password_file);
		assert_false(redis.tls);
		assert_true(redis.tls_ca == NULL && redis.tls_certificate == NULL && redis.tls_key == NULL);
		sluice_policy_free(policy);
	}
}

static void test_all_written(void **state) {
	struct sluice_policy *policy = sl_policy_loads("store:\n"
	                                               "  redis:\n"
	                                               "    - 10.0.0.1:6379\n"
	                                               "    - \"[fd00::1]:65535\"\n"
	                                               "    - unix:/run/redis.sock\n"
	                                               "    - redis-1.cache_a.example:6379\n"
	                                               "    - 1-10.cache.example:6379\n"
	                                               "    - azAZ.example:1\n"
	                                               "  prefix: \"limits:v2:\"\n"
	                                               "  via: script\n"
	                                               "  budget: 1s\n"
	                                               "  slices: true\n"
	                                               "  slice: 10s\n"
	                                               "  ready-after: 1h\n"
	                                               "  user: front-1\n"
	                                               "  password-file: /etc/sluice/redis.password\n"
	                                               "  tls: {ca: /a.pem, certificate: /b.pem, key: /c.pem}\n"
	                                               "  memory: 16MiB\n"
	                                               "  blocks: 30%\n");
	struct sl_redis_settings redis = redis_of(policy);
	(void)state;
	assert_int_equal(redis.address_count, 6);
	assert_string_equal(redis.addresses[0], "10.0.0.1:6379");
	assert_string_equal(redis.addresses[1], "[fd00::1]:65535");
	assert_string_equal(redis.addresses[2], "unix:/run/redis.sock");
	assert_string_equal(redis.addresses[3], "redis-1.cache_a.example:6379");
	assert_string_equal(redis.addresses[4], "1-10.cache.example:6379");
	assert_string_equal(redis.addresses[5], "azAZ.example:1");
	assert_string_equal(redis.prefix, "limits:v2:");
	assert_int_equal(redis.via, SL_VIA_SCRIPT);
	assert_int_equal(redis.budget_ns, 1000 * MS);
	assert_int_equal(redis.slice_ns, 10000 * MS);
	assert_int_equal(redis.ready_after_ns, 3600000 * MS);
	assert_string_equal(redis.user, "front-1");
	assert_string_equal(redis.password_file, "/etc/sluice/redis.password");
	assert_true(redis.tls);
	assert_string_equal(redis.tls_ca, "/a.pem");
	assert_string_equal(redis.tls_certificate, "/b.pem");
	assert_string_equal(redis.tls_key, "/c.pem");
	assert_int_equal(sl_policy_settings(policy)->memory_bytes, 16 << 20);
	assert_int_equal(sl_policy_settings(policy)->blocks_percent, 30);
	sluice_policy_free(policy);
}

/* Each value alone, in what a file may write beside an address. */
static void test_values(void **state) {
	static const struct {
		const char *more;
		struct sl_redis_settings redis; /* of which the fields that differ from 0 are looked at */
	} rows[] = {
		{"prefix: ''", {.prefix = ""}},
		{"prefix: 'a}b'", {.prefix = "a}b"}},
		{"via: auto", {.prefix = "sluice:"}},
		{"via: module", {.via = SL_VIA_MODULE}},
		{"budget: 1ms", {.budget_ns = 1000000}},
		{"budget: 1000ms", {.budget_ns = 1000000000}},
		{"slice: 10ms", {.slice_ns = 10000000}},
		{"lease: 11ms", {.slice_ns = 11000000}}, /* its former name */
		{"ready-after: 1500ms", {.ready_after_ns = 1500000000}},
		{"tls: true", {.tls = true}},
		{"tls: {}", {.tls = true}},
		{"tls: {ca: x}", {.tls = true, .tls_ca = "x"}},
		{"password-file: x", {.password_file = "x"}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[256];
		snprintf(yaml, sizeof yaml, "store: {redis: [127.0.0.1:6379], %s}\n", rows[i].more);
		print_message("%s", yaml);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		struct sl_redis_settings redis = redis_of(policy), wanted = rows[i].redis;
		assert_int_equal(redis.address_count, 1);
		if (wanted.prefix != NULL)
			assert_string_equal(redis.prefix, wanted.prefix);
		if (wanted.tls_ca != NULL)
			assert_string_equal(redis.tls_ca, wanted.tls_ca);
		if (wanted.password_file != NULL)
			assert_string_equal(redis.password_file, wanted.password_file);
		assert_int_equal(redis.via, wanted.via);
		assert_int_equal(redis.tls, wanted.tls);
		assert_int_equal(redis.budget_ns, wanted.budget_ns != 0 ? wanted.budget_ns : 20 * MS);
		assert_int_equal(redis.slice_ns, wanted.slice_ns != 0 ? wanted.slice_ns : 500 * MS);
		assert_int_equal(redis.ready_after_ns, wanted.ready_after_ns != 0 ? wanted.ready_after_ns : 10000 * MS);
		sluice_policy_free(policy);
	}
	struct sluice_policy *policy = sl_policy_loads("store: {redis: 127.0.0.1:1, ready-after: 0s}\n");
	assert_int_equal(redis_of(policy).ready_after_ns, 0);
	sluice_policy_free(policy);
	policy = sl_policy_loads("store: {redis: 127.0.0.1:1, slices: false, tls: false}\n");
	assert_false(redis_of(policy).slices);
	assert_false(redis_of(policy).tls);
	sluice_policy_free(policy);
	policy = sl_policy_loads("store: {redis: 127.0.0.1:1, leases: false}\n"); /* the former name */
	assert_false(redis_of(policy).slices);
	sluice_policy_free(policy);
}

static void test_addresses_refused(void **state) {
	static const struct row rows[] = {
		{"store: {redis: }\n", {{1, 16, "expected an address such as 127.0.0.1:7379"}}},
		{"store: {redis: []}\n", {{1, 16, "expected 1 to 64 addresses of nodes, found 0"}}},
		{"store: {redis: {a: b}}\n", {{1, 16, "expected an address such as"}}},
		{"store: {redis: cache.example}\n", {{1, 16, "expected a host and a port, such as cache.example:6379, found"}}},
		{"store: {redis: 'cache.example:'}\n", {{1, 16, "expected a host and a port"}}},
		{"store: {redis: 'cache.example:0'}\n", {{1, 16, "expected a host and a port"}}},
		{"store: {redis: 'cache.example:65536'}\n", {{1, 16, "expected a host and a port"}}},
		{"store: {redis: 'cache example:1'}\n", {{1, 16, "expected a host and a port"}}},
		{"store: {redis: null}\n", {{1, 16, "expected"}}},
		{"store: {redis: ['a.b:1', 'a.b:1']}\n", {{1, 26, "expected each node once, found 'a.b:1'"}}},
		{"store: {redis: 10.0.0.1}\n", {{1, 24, "expected a port"}}},
		{"store: {redis: 10.0.0.1:0}\n", {{1, 16, "expected a port from 1 to 65535, such as :6379"}}},
		{"store: {redis: 10.0.0.1:65536}\n", {{1, 16, "expected an address"}}},
		{"store: {redis: [::1]:6379}\n",
	     {{1, 16, "expected an address such as 10.0.0.1:6379, or \"[::1]:6379\" in quotes, found a list"},
	      {1, 17, "YAML: did not find expected node content"}}},
		{"store: {redis: 'unix:'}\n", {{1, 22, "expected a path of 1 to 107 bytes after 'unix:'"}}},
		{"store: {redis: 'redis://10.0.0.1:6379'}\n",
	     {{1, 16, "found a URL: user, password-file and tls say the rest"}}},
		{"store: {redis: [10.0.0.1:1, [10.0.0.2:1]]}\n", {{1, 29, "expected an address such as"}}},
		{"store:\n  redis:\n  - 10.0.0.1:1\n  - 10.0.0.2:1\n  - 10.0.0.1:1\n",
	     {{5, 5, "expected each node once, found '10.0.0.1:1'"}}},
		{"store: {redis: ['[::1]:1', '[0::1]:1']}\n", {{1, 28, "expected each node once, found '[0::1]:1'"}}},
		{"store: {redis: ['unix:/a', 'unix:/b', 'unix:/a']}\n", {{1, 39, "expected each node once"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_refused(void **state) {
	static const struct row rows[] = {
		{"store: {pretouch: yes please}\n", {{1, 19, "expected true or false, found 'yes please'"}}},
		{"store: {file: x, pretouch: true}\n",
	     {{1, 28, "pretouch is for private memory: files and shared memory are allocated when they are created"}}},
		{"store: {redis: 10.0.0.1:1, file: x}\n", {{1, 8, "expected redis or file, found both: a store is in one "
		                                                  "place"}}},
		{"store: {redis: 10.0.0.1:1, shared: x}\n", {{1, 8, "expected redis or shared, found both"}}},
		{"store: {redis: 10.0.0.1:1, prefix: 'a b'}\n", {{1, 38, "at most 64 printable ASCII characters without"}}},
		{"store: {redis: 10.0.0.1:1, prefix: 'a{b'}\n",
	     {{1, 36, "expected a prefix without '{', or with a whole hash tag"}}},
		{"store: {redis: 10.0.0.1:1, prefix: 'a{}b'}\n", {{1, 36, "a key would close the tag that it opens"}}},
		{"store: {redis: 10.0.0.1:1, prefix: }\n", {{1, 36, "expected what stands before every key"}}},
		{"store: {redis: 10.0.0.1:1, via: modul}\n",
	     {{1, 33, "expected auto, module or script, found 'modul': did you mean 'module'?"}}},
		{"store: {redis: 10.0.0.1:1, budget: 0ms}\n", {{1, 36, "expected a duration from 1ms to 10s, found '0ms'"}}},
		{"store: {redis: 10.0.0.1:1, budget: 11s}\n", {{1, 36, "expected a duration from 1ms to 10s, found '11s'"}}},
		{"store: {redis: 10.0.0.1:1, budget: 20}\n", {{1, 38, "expected a duration such as 10s"}}},
		{"store: {redis: 10.0.0.1:1, slice: 9ms}\n", {{1, 35, "expected a duration from 10ms to 10s"}}},
		{"store: {redis: 10.0.0.1:1, slice: 10001ms}\n", {{1, 35, "expected a duration from 10ms to 10s"}}},
		{"store: {redis: 10.0.0.1:1, ready-after: 61m}\n",
	     {{1, 41, "expected a duration from 0s to 1h, found '61m'"}}},
		{"store: {redis: 10.0.0.1:1, slices: 500ms}\n", {{1, 36, "expected true or false, found '500ms'"}}},
		{"store: {redis: 10.0.0.1:1, user: a}\n", {{1, 34, "expected password-file as well as user"}}},
		{"store: {redis: 10.0.0.1:1, user: 'a b', password-file: x}\n", {{1, 36, "a name of 1 to 128 printable"}}},
		{"store: {redis: 127.0.0.1:1, user: '', password-file: x}\n", {{1, 35, "a name of 1 to 128 printable"}}},
		{"store: {redis: 127.0.0.1:1, password-file: ''}\n", {{1, 44, "expected the path of a file"}}},
		{"store: {redis: 127.0.0.1:1, tls: yes}\n", {{1, 34, "expected true or false, found 'yes'"}}},
		{"store: {redis: 127.0.0.1:1, tls: [ca]}\n", {{1, 34, "expected true, false, or a mapping such as {ca: "}}},
		{"store: {redis: 127.0.0.1:1, tls: {cert: x}}\n", {{1, 35, "unknown key 'cert' in the nodes' tls"}}},
		{"store: {redis: 127.0.0.1:1, tls: {key: x}}\n", {{1, 34, "certificate and key together, found only key"}}},
		{"store: {redis: 127.0.0.1:1, tls: {certificate: x}}\n", {{1, 34, "found only certificate"}}},
		{"store: {redi: 127.0.0.1:1}\n", {{1, 9, "unknown key in store: did you mean 'redis'?"}}},
		{"store: {prefix: a, via: auto, budget: 1s, slices: true, slice: 1s}\n",
	     {{1, 17, "expected redis: ADDRESS as well: prefix is for a store in Redis"},
	      {1, 25, "via is for"},
	      {1, 39, "budget is for"},
	      {1, 51, "slices is for"},
	      {1, 64, "slice is for"}}},
		{"store: {redis: 127.0.0.1:1, slices: true, leases: true}\n",
	     {{1, 51, "expected slices alone: leases is its former name"}}},
		{"store: {redis: 127.0.0.1:1, lease: 1s, slice: 1s}\n",
	     {{1, 36, "expected slice alone: lease is its former name"}}},
		{"store: {user: a, password-file: b, tls: true, ready-after: 1s}\n",
	     {{1, 15, "user is for"},
	      {1, 33, "password-file is for"},
	      {1, 41, "tls is for"},
	      {1, 60, "ready-after is for a store in Redis"}}},
		{LIMIT("on-error: remote"), {{2, 45, "expected allow, deny or local, found 'remote'"}}},
		{ON_NODES LIMIT("strict: always"), {{3, 43, "expected true or false, found 'always'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_doubted(void **state) {
	static const struct row rows[] = {
		{ON_NODES LIMIT("on-error: local, strict: true"), {{0}}},
		{ON_NODES LIMIT("stagger: false"), {{0}}},
		{LIMIT("on-error: allow, strict: false, stagger: true"), {{0}}},
		{LIMIT("on-error: local"), {{2, 45, "local acts as allow here: the store is on this host"}}},
		{"limits: [{name: a, key: ip, limit: concurrency 5 lease 1m, stagger: true}]\n",
	     {{1, 69, "stagger has no effect at concurrency and distinct"}}},
		{"limits: [{name: a, key: ip, limit: distinct 5/1m, of: path, stagger: true}]\n",
	     {{1, 70, "stagger has no effect at concurrency and distinct"}}},
		{LIMIT("strict: true"), {{2, 43, "strict has no effect here: it forbids slices"}}},
		{LIMIT("strict: true") "store: {memory: 1GiB}\n", {{2, 43, "strict has no effect here"}}},
		{LIMIT("stagger: true") ON_NODES, {{2, 44, "stagger has no effect here: the store is in Redis"}}},
		{"limits: [{name: a, key: ip, limit: token-bucket 5/1s burst 5, stagger: true}]\n" ON_NODES, {{0}}},
		{"store: {redis: 127.0.0.1:1, budget: 1s}\n", {{0}}},
		{"store: {redis: 127.0.0.1:1, budget: 1001ms}\n", {{1, 37, "a budget above 1s stalls callers"}}},
		{"store: {redis: 127.0.0.1:1, slices: false, slice: 1s}\n", {{1, 51, "slice has no effect: slices is false"}}},
		{"store: {redis: 127.0.0.1:1, prefix: 'x{a}'}\n", {{1, 37, "puts all keys into one slot"}}},
		{"store: {redis: 10.0.0.1:1, password-file: x}\n", {{1, 43, "the password crosses the network in clear"}}},
		{"store: {redis: 10.0.0.1:1, password-file: x, tls: true}\n", {{0}}},
		{"store: {redis: cache.example:1, password-file: x}\n", {{1, 48, "the password crosses the network in clear"}}},
		{"store: {redis: localhost:1, password-file: x}\n", {{0}}},
		{"store: {redis: ['[::1]:1', 'unix:/a', 127.9.9.9:1], password-file: x}\n", {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* However a password is mistyped into a file, no message repeats a part of it. */
static void test_no_message_repeats_a_password(void **state) {
	static const char *const values[] = {
		"redis: 127.0.0.1:1, password: hunter2",
		"redis: 127.0.0.1:1, password: [hunter2]",
		"redis: 127.0.0.1:1, password:hunter2",
		"redis: 127.0.0.1:1, pasword:hunter2",
		"redis: 127.0.0.1:1, password hunter2: x",
		"redis: 127.0.0.1:1, [hunter2]: x",
		"redis: 'redis://:hunter2@127.0.0.1:1'",
		"redis: ['redis://:hunter2']",
		"redis: 'me:hunter2@127.0.0.1:1'",
		"redis: 127.0.0.1:1, password: hunter2, password: hunter2",
		"redis: 127.0.0.1:1, user: 'me hunter2', password-file: x",
		"password: hunter2",
	};
	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		char yaml[256];
		snprintf(yaml, sizeof yaml, "store: {%s}\n", values[i]);
		print_message("%s", yaml);
		assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), &problems), SLUICE_E_SYNTAX);
		assert_true(problems.count > 0);
		sl_policy_print(&problems);
		for (size_t j = 0; j < problems.count; j++)
			assert_null(strstr(problems.list[j].text, "unter2"));
		sluice_problems_free(&problems);
	}
}

static void test_most_addresses(void **state) {
	(void)state;
	for (unsigned count = SL_REDIS_ADDRESSES_MAX; count <= SL_REDIS_ADDRESSES_MAX + 1; count++) {
		char yaml[4096];
		struct sluice_policy *policy = NULL;
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "store:\n  redis:\n");
		for (unsigned i = 0; i < count; i++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, "  - 10.0.0.%u:6379\n", i);
		assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), NULL),
		                 count == SL_REDIS_ADDRESSES_MAX ? SLUICE_OK : SLUICE_E_SYNTAX);
		if (policy != NULL)
			assert_int_equal(redis_of(policy).address_count, count);
		sluice_policy_free(policy);
	}
}

static void test_longest_texts(void **state) {
	static const struct {
		const char *key, *more;
		int most;
	} rows[] = {{"prefix", "", 64}, {"user", ", password-file: x", 128}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int len = rows[i].most; len <= rows[i].most + 1; len++) {
			char yaml[512];
			struct sluice_policy *policy = NULL;
			snprintf(yaml, sizeof yaml, "store: {redis: 127.0.0.1:1, %s: %0*d%s}\n", rows[i].key, len, 1, rows[i].more);
			assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL),
			                 len == rows[i].most ? SLUICE_OK : SLUICE_E_SYNTAX);
			sluice_policy_free(policy);
		}
}

/* What a match's items get while nodes are silent, and which are asked there each time. */
static void test_of_a_match(void **state) {
	static const struct {
		enum sl_on_error on_error;
		bool strict, observed;
	} wanted[] = {
		{SL_ON_ERROR_ALLOW, false, false}, {SL_ON_ERROR_DENY, true, false},
		{SL_ON_ERROR_LOCAL, false, false}, {SL_ON_ERROR_ALLOW, false, true}, /* says deny, and is only observed */
		{SL_ON_ERROR_LOCAL, true, true},
	};
	struct sluice_policy *policy =
		sl_policy_loads(ON_NODES "limits:\n"
	                             "- {name: a, key: ip, limit: 1/1s}\n"
	                             "- {name: b, key: ip, limit: 2/1s, on-error: deny, strict: true}\n"
	                             "- {name: c, key: ip, limit: 3/1s, on-error: local}\n"
	                             "- {name: d, key: ip, limit: 4/1s, on-error: deny, observe: true}\n"
	                             "- name: e\n"
	                             "  key: ip\n"
	                             "  limit: 5/1s\n"
	                             "  on-error: local\n"
	                             "  strict: true\n"
	                             "  overrides: [{when: {ip: 1.2.3.4}, limit: 6/1s, observe: true}]\n");
	const struct sluice_attribute attribute = {sl_str("ip"), sl_str("1.2.3.4")};
	struct sluice_match match;
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	(void)state;
	assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 5);
	for (uint32_t i = 0; i < match.count; i++) {
		assert_int_equal(match.items[i].observed, wanted[i].observed);
		assert_int_equal(sl_policy_on_error(policy, &match, i), wanted[i].on_error);
		assert_int_equal(sl_policy_is_strict(policy, &match, i), wanted[i].strict);
	}
	assert_int_equal(sl_policy_denier(policy, &match), 1);
	match.items[1].observed = true;
	assert_int_equal(sl_policy_denier(policy, &match), -1);
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),       cmocka_unit_test(test_all_written),
		cmocka_unit_test(test_values),         cmocka_unit_test(test_addresses_refused),
		cmocka_unit_test(test_refused),        cmocka_unit_test(test_doubted),
		cmocka_unit_test(test_most_addresses), cmocka_unit_test(test_no_message_repeats_a_password),
		cmocka_unit_test(test_longest_texts),  cmocka_unit_test(test_of_a_match),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
