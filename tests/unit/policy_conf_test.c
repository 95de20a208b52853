/* Reading policy files: what loads, and for everything else the exact place and the words that help.
 *
 * A row of the tables is a file, and the problems that it must have: all of them, in order, each with line, column and
 * a part of its text. A problem too many fails as one too few does. */
#include "policy/address.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- what loads ------------------------------------------------------------------------------------------------- */

static void test_empty(void **state) {
	static const char *const files[] = {"limits: []\n", "\xef\xbb\xbf# mark\nlimits: []",
	                                    "%YAML 1.1\n---\nlimits: []\n", "{limits: []}", "---\nlimits: [ ]\n...\n"};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct sluice_policy *policy = sl_policy_loads(files[i]);
		const struct sl_settings *settings = sl_policy_settings(policy);
		assert_string_equal(settings->listens[0].address, "127.0.0.1:7379");
		assert_string_equal(settings->listens[1].address, "127.0.0.1:7380");
		assert_int_equal(settings->listen_count, 2);
		assert_null(settings->store_file);
		assert_null(settings->store_shared);
		assert_int_equal(settings->blocks_percent, 0);
		assert_false(settings->memory_given);
		assert_int_equal(settings->memory_bytes, 268435456);
		assert_int_equal(settings->threads, 0);
		assert_false(settings->client_time);
		assert_int_equal(settings->ipv6_prefix, 64);
		assert_int_equal(sl_policy_limit_count(policy), 0);
		assert_null(sluice_policy_limit_name(policy, 0));
		sluice_policy_free(policy);
	}
	struct sluice_policy *policy = NULL;
	sluice_policy_free(NULL);
	sluice_problems_free(NULL);
	assert_int_equal(sluice_policy_load(NULL, sl_str(""), NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_policy_load(&policy, (struct sluice_bytes){NULL, 1}, NULL), SLUICE_E_MISUSE);
}

/* What is left of a file that was emptied is no policy; `[]` says that none are meant. */
static void test_nothing_is_refused(void **state) {
	static const char *const files[] = {"",   "\n",   "# nothing\n",          "---\n",
	                                    "{}", "{ }\n", "\xef\xbb\xbf# mark\n", "%YAML 1.1\n---\n",
	                                    "---\n...\n"};
	static const struct {
		const char *file;
		bool warns, limits_given, users_given;
	} rows[] = {
		{"threads: 2\n", true, false, false},
		{"users: []\n", true, false, true},
		{"limits: []\n", false, true, false},
		{"limits: []\nusers: []\n", false, true, true},
		{"limits:\n  - {name: a, key: ip, limit: 5/1m}\n", false, true, false},
	};
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		assert_int_equal(sluice_policy_load(&policy, sl_str(files[i]), &problems), SLUICE_E_SYNTAX);
		assert_int_equal(problems.count, 1);
		assert_non_null(strstr(problems.list[0].text, "expected a policy, found nothing: write limits: []"));
		sluice_problems_free(&problems);
	}
	assert_int_equal(sluice_policy_load(&policy, (struct sluice_bytes){NULL, 0}, NULL), SLUICE_E_SYNTAX);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(sluice_policy_load(&policy, sl_str(rows[i].file), &problems), SLUICE_OK);
		assert_int_equal(problems.count, rows[i].warns);
		assert_true(!rows[i].warns || strstr(problems.list[0].text, "there are no limits") != NULL);
		assert_int_equal(sl_policy_settings(policy)->limits_given, rows[i].limits_given);
		assert_int_equal(sl_policy_settings(policy)->users_given, rows[i].users_given);
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
	/* A file that was cut behind a key has no list there. */
	assert_int_equal(sluice_policy_load(&policy, sl_str("threads: 2\nlimits:\n"), NULL), SLUICE_E_SYNTAX);
	assert_int_equal(sluice_policy_load(&policy, sl_str("limits: []\nusers:"), NULL), SLUICE_E_SYNTAX);
}

static void test_settings(void **state) {
	struct sluice_policy *policy =
		sl_policy_loads("listen: {resp: \"[::1]:0\", http: 'unix:/run/sluice.sock',\n"
	                    "         grpc: 127.0.0.1:7381}\n"
	                    "store: {file: /var/lib/sluice/counters, memory: 1GiB, blocks: 35%}\n"
	                    "trusted-proxies: [127.0.0.0/8, \"::1/128\", 192.0.2.1]\n"
	                    "attributes: {user: header X-User-ID, plan: 'header x_plan'}\n"
	                    "threads: 3\n"
	                    "client-time: true\n"
	                    "ipv6-prefix: 56\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	struct sl_address address;
	(void)state;
	assert_string_equal(settings->listens[0].address, "[::1]:0");
	assert_string_equal(settings->listens[1].address, "unix:/run/sluice.sock");
	assert_string_equal(settings->listens[2].address, "127.0.0.1:7381");
	assert_string_equal(settings->store_file, "/var/lib/sluice/counters");
	assert_int_equal(settings->memory_bytes, 1073741824);
	assert_true(settings->memory_given);
	assert_int_equal(settings->blocks_percent, 35);
	assert_int_equal(settings->overrides_most, 0);
	assert_null(settings->store_shared);
	assert_int_equal(settings->threads, 3);
	assert_true(settings->client_time);
	assert_int_equal(settings->ipv6_prefix, 56);
	assert_int_equal(sl_policy_source_count(policy), 2);
	assert_true(sl_bytes_equal(sl_policy_source_at(policy, 0)->name, sl_str("user")));
	assert_true(sl_bytes_equal(sl_policy_source_at(policy, 0)->header, sl_str("x-user-id")));
	assert_true(sl_bytes_equal(sl_policy_source_at(policy, 1)->header, sl_str("x_plan")));
	assert_true(sl_address_parse(sl_str("::ffff:127.1.2.3"), &address, NULL));
	assert_true(sl_policy_trusts(policy, &address));
	assert_true(sl_address_parse(sl_str("192.0.2.1"), &address, NULL));
	assert_true(sl_policy_trusts(policy, &address));
	assert_true(sl_address_parse(sl_str("192.0.2.2"), &address, NULL));
	assert_false(sl_policy_trusts(policy, &address));
	sluice_policy_free(policy);
}

static void test_stores(void **state) {
	static const struct {
		const char *yaml, *file, *shared;
		uint32_t percent;
	} rows[] = {
		{"store: {file: counters}", "counters", NULL, 0},
		{"store: {shared: a}", NULL, "a", 0},
		{"store: {shared: web_1.Counters-2, blocks: 1%}", NULL, "web_1.Counters-2", 1},
		{"store: {blocks: '98%'}", NULL, NULL, 98},
		{"store:\n  blocks: 50%\n  file: 'shared:a'\n", "shared:a", NULL, 50},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		const struct sl_settings *settings = sl_policy_settings(policy);
		if (rows[i].file == NULL)
			assert_null(settings->store_file);
		else
			assert_string_equal(settings->store_file, rows[i].file);
		if (rows[i].shared == NULL)
			assert_null(settings->store_shared);
		else
			assert_string_equal(settings->store_shared, rows[i].shared);
		assert_int_equal(settings->blocks_percent, rows[i].percent);
		assert_int_equal(settings->pretouch, rows[i].file == NULL && rows[i].shared == NULL);
		assert_int_equal(settings->memory_bytes, 268435456);
		assert_false(settings->memory_given);
		sluice_policy_free(policy);
	}
}

static void test_sizes(void **state) {
	static const struct {
		const char *yaml;
		uint64_t bytes;
	} rows[] = {
		{"store: {memory: 1048576}", (uint64_t)1 << 20},
		{"store: {memory: 1024KiB}", (uint64_t)1 << 20},
		{"store: {memory: \"1MiB\"}", (uint64_t)1 << 20},
		{"store: {memory: 256GiB}", (uint64_t)256 << 30},
		{"store: {memory: 3000000}", 3000000},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		assert_true(sl_policy_settings(policy)->memory_bytes == rows[i].bytes);
		sluice_policy_free(policy);
	}
}

/* The policy that the documentation shows, with its comments: no problem and no warning. */
static const char documented[] =
	"listen:  {resp: \"127.0.0.1:7379\", http: \"127.0.0.1:7380\"}      # defaults; \"unix:/run/sluice.sock\" also\n"
	"store:   {memory: 256MiB}                                      # or {file: /var/lib/sluice/counters}\n"
	"trusted-proxies: [127.0.0.0/8, \"::1/128\"]\n"
	"attributes:                                                    # where the HTTP doors find the rest\n"
	"  user: header x-user-id\n"
	"  plan: header x-plan\n"
	"limits:\n"
	"  - name: login\n"
	"    when: {method: POST, path: /login}                         # all must match\n"
	"    key: ip\n"
	"    limit: sliding-log 5/1m\n"
	"  - name: per-user\n"
	"    key: user | ip                                             # the first that the request has\n"
	"    limit: 600/1m\n"
	"    overrides:                                                 # first match wins\n"
	"      - {when: {plan: pro}, limit: 6000/1m}\n"
	"      - {when: {user: [alice, bob]}, limit: unlimited}\n"
	"  - name: search\n"
	"    when: {path: /search*}\n"
	"    key: [user | ip, path]                                     # a counter for each combination\n"
	"    limit: token-bucket 10/1s burst 50\n"
	"    observe: true                                              # decides and counts, denies nobody\n"
	"    on-error: allow\n";

static void test_documented(void **state) {
	static const struct {
		const char *name, *limit, *key, *when;
		uint32_t overrides;
		bool observe;
	} rows[] = {
		{"login", "sliding-log 5/1m", "ip", "{\"method\":\"POST\",\"path\":\"/login\"}", 0, false},
		{"per-user", "sliding-window 600/1m", "user | ip", "{}", 2, false},
		{"search", "token-bucket 10/1s burst 50", "user | ip, path", "{\"path\":\"/search*\"}", 0, true},
	};
	struct sluice_policy *policy = sl_policy_loads(documented);
	(void)state;
	assert_int_equal(sl_policy_limit_count(policy), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(policy, i);
		char text[SLUICE_LIMIT_TEXT_MAX];
		sluice_limit_print(&limit->limit, text);
		assert_string_equal(limit->name, rows[i].name);
		assert_string_equal(sluice_policy_limit_name(policy, i), rows[i].name);
		assert_string_equal(text, rows[i].limit);
		assert_string_equal(limit->key_text, rows[i].key);
		assert_string_equal(limit->when_text, rows[i].when);
		assert_int_equal(limit->override_count, rows[i].overrides);
		assert_int_equal(limit->observe, rows[i].observe);
		assert_false(limit->on_error == SL_ON_ERROR_DENY);
	}
	assert_null(sluice_policy_limit_name(policy, 3));
	sluice_policy_free(policy);
}

/* Every way that YAML has to write a text is one text to us. */
static void test_spellings(void **state) {
	struct sluice_policy *policy =
		sl_policy_loads("\"limits\":\n"
	                    "- name: 'it''s \"quoted\"'\n"
	                    "  \"ke\\x79\": \"\\x69p\"\n"
	                    "  limit: |-\n"
	                    "    100/1m\n"
	                    "  when: {host: [\"/a\\tb\\\"\\\\\", '/caf\xc3\xa9*'], method: \"\"}\n"
	                    "  on-error: 'deny'\n"
	                    "- {name: 7, key: [], limit: 5/1s, when: {}}\r\n"
	                    "- name: ~name\n"
	                    "  key:\n"
	                    "  - ip   |   path\n"
	                    "  - host|method\n"
	                    "  limit: >-\n"
	                    "    sliding-buckets 240/1h\n"
	                    "    precision 1m\n");
	(void)state;
	assert_string_equal(sl_policy_limit_at(policy, 0)->name, "it's \"quoted\"");
	assert_string_equal(sl_policy_limit_at(policy, 0)->key_text, "ip");
	assert_string_equal(sl_policy_limit_at(policy, 0)->when_text,
	                    "{\"host\":[\"/a\\u0009b\\\"\\\\\",\"/caf\xc3\xa9*\"],\"method\":\"\"}");
	assert_true(sl_policy_limit_at(policy, 0)->on_error == SL_ON_ERROR_DENY);
	assert_string_equal(sl_policy_limit_at(policy, 1)->name, "7");
	assert_string_equal(sl_policy_limit_at(policy, 1)->key_text, "");
	assert_string_equal(sl_policy_limit_at(policy, 1)->when_text, "{}");
	assert_string_equal(sl_policy_limit_at(policy, 2)->name, "~name");
	assert_string_equal(sl_policy_limit_at(policy, 2)->key_text, "ip | path, host | method");
	sluice_policy_free(policy);
}

/* The largest of everything loads, and one more does not. */
static struct sluice_policy *load_counted(const char *head, const char *each, unsigned count, const char *tail,
                                          sluice_err expected) {
	static char yaml[SL_POLICY_FILE_BYTES_MAX];
	struct sluice_policy *policy = NULL;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "%s", head);
	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, each, i, i);
	len += (size_t)snprintf(yaml + len, sizeof yaml - len, "%s", tail);
	assert_true(len < sizeof yaml);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, len), NULL), expected);
	assert_int_equal(policy != NULL, expected == SLUICE_OK);
	return policy;
}

static void test_maxima(void **state) {
	static const struct {
		const char *head, *each, *tail;
		unsigned max;
	} rows[] = {
		{"limits:\n", "- {name: n%u, key: ip, limit: 1/1s}\n", "", SL_POLICY_LIMITS_MAX},
		{"limits:\n- name: a\n  key: ip\n  limit: 1/1s\n  overrides:\n", "  - {when: {u: '%u'}, limit: 2/1s}\n", "",
	     SL_POLICY_OVERRIDES_MAX},
		{"limits: [{name: a, limit: 1/1s, key: [", "ip, ", "]}]", SL_POLICY_KEY_PARTS_MAX},
		{"limits: [{name: a, limit: 1/1s, key: ip", " | a%u", "}]", 7},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {", "a%u: '%u', ", "}}]", 16},
		{"attributes: {", "a%u: header x-%u, ", "}", 256},
		{"trusted-proxies: [", "10.0.0.0, ", "]", 1024},
		{"limits: [{name: '", "x", "', limit: 1/1s, key: ip}]", SLUICE_NAME_BYTES_MAX},
		{"limits: [{name: a, limit: 1/1s, key: '", "x", "'}]", SLUICE_NAME_BYTES_MAX},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: '", "x", "'}}]", SLUICE_KEY_BYTES_MAX},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: '", "x", "*'}}]", SLUICE_KEY_BYTES_MAX},
		{"attributes: {u: 'header ", "x", "'}", SLUICE_NAME_BYTES_MAX},
		{"listen: {resp: 'unix:", "x", "'}", 107},
		{"store: {file: '", "x", "'}", 4095},
		{"envoy: {config: '", "x", "'}", SL_ENVOY_PATH_BYTES_MAX},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		print_message("%s... %u\n", rows[i].head, rows[i].max);
		sluice_policy_free(load_counted(rows[i].head, rows[i].each, rows[i].max, rows[i].tail, SLUICE_OK));
		load_counted(rows[i].head, rows[i].each, rows[i].max + 1, rows[i].tail, SLUICE_E_SYNTAX);
	}
}

/* One attribute too many is one problem, which counts them. */
static void test_too_many_attributes(void **state) {
	static const struct wanted wanted = {1, 13, "expected at most 256 attributes, found 257"};
	char yaml[16 * 1024];
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "attributes: {");
	(void)state;
	for (unsigned i = 0; i <= 256; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "a%u: header x-%u, ", i, i);
	len += (size_t)snprintf(yaml + len, sizeof yaml - len, "}\n");
	assert_true(len < sizeof yaml);
	sl_policy_refused(sl_slice(yaml, len), &wanted, 1);
}

/* ---- what is refused: the bytes and the YAML -------------------------------------------------------------------- */

static void test_bytes(void **state) {
	static const struct {
		struct sluice_bytes yaml;
		struct wanted wanted;
	} rows[] = {
		{{"threads: 1\nthr\0eads", 18}, {2, 4, "U+0000 (NUL)"}},
		{{"a: \x1b[1m", 7}, {1, 4, "U+001B"}},
		{{"caf\xc3\xa9: \xff", 8}, {1, 7, "expected UTF-8 text, found the byte 0xff"}},
		{{"a: \xc0\xaf", 5}, {1, 4, "0xc0"}},
		{{"a: \xed\xa0\x80", 6}, {1, 4, "0xed"}},
		{{"a: \xe2\x82", 5}, {1, 4, "0xe2"}},
		{{"a: \xf4\x90\x80\x80", 7}, {1, 4, "0xf4"}},
		{{"a: \x80", 4}, {1, 4, "0x80"}},
		{{"a: \xef\xbb\xbf", 6}, {1, 4, "U+FEFF"}},
		{{"a: \xc2\x81", 5}, {1, 4, "U+0081"}},
		{{"\xff\xfe"
	      "a\0",
	      4},
	     {1, 1, "UTF-16"}},
		{{"\xfe\xff\0a", 4}, {1, 1, "UTF-16"}},
		{{"threads: 1\r\nthr\x7f", 16}, {2, 4, "U+007F"}},
		{{"threads: 1\rthr\x7f", 15}, {2, 4, "U+007F"}},
		{{"%TAG ! tag:x,2000:\n---\n", 23}, {1, 1, "expected no directive"}},
		{{"# ok\n%YAML1\n---\n", 16}, {2, 1, "expected no directive"}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		sl_policy_refused(rows[i].yaml, &rows[i].wanted, 1);
}

static void test_yaml(void **state) {
	static const struct row rows[] = {
		{"limits:\n\t- name: a\n", {{2, 1, "expected spaces, found a tab"}}},
		{"limits:\n  - name: a\n  \tkey: ip\n", {{3, 3, "expected spaces, found a tab"}}},
		{"threads: [1\n",
	     {{1, 10, "expected a whole number, found a list"}, {2, 1, "YAML: did not find expected ',' or ']'"}}},
		{"threads: 'x\n", {{2, 1, "YAML: found unexpected end of stream"}}},
		{"threads: 1: 2\n", {{1, 11, "YAML: mapping values are not allowed"}}},
		{"threads: 1\n---\nthreads: 2\n", {{2, 1, "expected one document, found a second one"}}},
		{"threads: &n 1\nipv6-prefix: *n\n",
	     {{1, 10, "expected no anchor: anchors are not supported here (quote a text that begins with &)"},
	      {2, 14, "expected no alias: aliases are not supported here (quote a text that begins with *)"}}},
		{"threads: !!int 3\n", {{1, 10, "expected no tag: tags are not supported here (quote a text that begins with "
		                                "!)"}}},
		{"threads: ! 3\n", {{1, 10, "expected no tag"}}},
		{"limits: &a [*a]\n", {{1, 9, "expected no anchor"}, {1, 13, "expected no alias"}}},
		{"- threads\n", {{1, 1, "expected a mapping with the keys of the policy, found a list"}}},
		{"threads\n", {{1, 1, "expected a mapping with the keys of the policy, found 'threads'"}}},
		{"''\n", {{1, 1, "expected a mapping with the keys of the policy, found nothing"}}},
		{"? [a]\n: b\n", {{1, 3, "expected a key, found a list"}}},
		{"? {a: b}\n: c\n", {{1, 3, "expected a key, found a mapping"}}},
		{"[[[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]]]\n",
	     {{1, 1, "expected a mapping with the keys of the policy"}, {1, 17, "at most 16 lists and mappings"}}},
		{"<<: {threads: 1}\n", {{1, 1, "unknown key '<<' in the policy"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* Where the file breaks off, what stands before it is judged, and what is missing behind it is not. */
static void test_cut(void **state) {
	static const struct row rows[] = {
		{"threads: none\nlimits:\n- name: a\n  key: ip\n  limit: {\n",
	     {{1, 10, "expected a whole number from 1 to 256, found 'none'"},
	      {5, 10, "expected a limit such as 100/1m, found a mapping"},
	      {6, 1, "YAML: did not find expected node content"}}},
		{"limits:\n- name: a\n  when: {path: [\n", {{4, 1, "YAML: did not find expected node content"}}},
		{"limits:\n- key: ip\n  limit: 1/1z\n \"\n",
	     {{3, 13, "expected a unit of time"}, {5, 1, "YAML: found unexpected end of stream"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_too_much(void **state) {
	static char yaml[SL_POLICY_FILE_BYTES_MAX + 1];
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	(void)state;
	memset(yaml, '#', sizeof yaml);
	sl_policy_refused(sl_slice(yaml, sizeof yaml),
	                  &(struct wanted){1, 1, "expected a file of at most 67108864 bytes"}, 1);
	memcpy(yaml, "limits: []\n", 11);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, sizeof yaml - 1), NULL), SLUICE_OK);
	sluice_policy_free(policy);
	/* more values than a tree holds: more than thirty million in one list */
	memset(yaml, ',', sizeof yaml);
	for (size_t i = 1; i < sizeof yaml; i += 2)
		yaml[i] = 'a';
	yaml[0] = '[';
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, sizeof yaml - 1), &problems), SLUICE_E_SYNTAX);
	sl_policy_print(&problems);
	assert_int_equal(problems.count, 2);
	assert_non_null(strstr(problems.list[1].text, "expected at most 4194304 values in a file"));
	sluice_problems_free(&problems);
	/* more mistakes than a list holds: a thousand, and the note that there are others */
	for (size_t i = 0; i < 6000; i += 3)
		memcpy(yaml + i, "a:\n", 3);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(yaml, 6000), &problems), SLUICE_E_SYNTAX);
	assert_int_equal(problems.count, 1001);
	assert_int_equal(problems.list[999].line, 1000);
	assert_non_null(strstr(problems.list[1000].text, "more than 1000 mistakes"));
	sluice_problems_free(&problems);
}

/* ---- what is refused: the policy -------------------------------------------------------------------------------- */

static void test_keys(void **state) {
	static const struct row rows[] = {
		{"limts: []\n", {{1, 1, "unknown key 'limts' in the policy: did you mean 'limits'?"}}},
		{"trusted_proxies: []\n", {{1, 1, "did you mean 'trusted-proxies'?"}}},
		{"Threads: 1\n", {{1, 1, "did you mean 'threads'?"}}},
		{"ipv6-perfix: 64\n", {{1, 1, "did you mean 'ipv6-prefix'?"}}},
		{"colour: red\n",
	     {{1, 1,
	       "unknown key 'colour' in the policy: expected headers, tls, users, anonymous, trusted-proxies, listen, "
	       "client-address, store, attributes, paths, retry-id, denied, ipv6-prefix, observe, limits, threads, "
	       "client-time or one of sluice.yaml(5)"}}},
		{"threads: 1\nthreads: 2\n", {{2, 1, "duplicate key 'threads' in the policy: first in line 1"}}},
		{"listen: {htpp: 127.0.0.1:80}\n", {{1, 10, "unknown key 'htpp' in listen: did you mean 'http'?"}}},
		{"store: {memory: 1GiB, fil: x, memory: 2GiB}\n",
	     {{1, 23, "did you mean 'file'?"}, {1, 31, "duplicate key 'memory' in store"}}},
		{"limits:\n  - nmae: a\n    keys: ip\n    limit: 1/1s\n    obsreve: true\n",
	     {{2, 5, "did you mean 'name'?"}, {3, 5, "did you mean 'key'?"}, {5, 5, "did you mean 'observe'?"}}},
		{"limits:\n  - {}\n",
	     {{2, 5, "missing key 'name' in a limit: expected a name, such as per-user"},
	      {2, 5, "missing key 'key' in a limit: expected the key, such as ip; or [] for one counter of all requests"},
	      {2, 5, "missing key 'limit' in a limit: expected a limit such as 100/1m"}}},
		{"\"thr\\x1beads\": 1\n", {{1, 1, "unknown key 'thr\\x1beads' in the policy: did you mean 'threads'?"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_types(void **state) {
	static const struct row rows[] = {
		{"listen: 7379\n", {{1, 9, "expected a mapping with the keys of listen, found '7379'"}}},
		{"listen: {resp: [::1]:7379}\n", {{1, 16, "expected an address such as"}, {1, 17, "YAML: "}}},
		{"store:\n", {{1, 7, "expected a mapping with the keys of store, found nothing"}}},
		{"trusted-proxies: 10.0.0.0/8\n", {{1, 18, "expected a list of networks"}}},
		{"attributes: [user]\n", {{1, 13, "expected a mapping of names to sources"}}},
		{"client-time: [true]\n", {{1, 14, "expected true or false, found a list"}}},
		{"client-time: {true: true}\n", {{1, 14, "expected true or false, found a mapping"}}},
		{"limits: {login: 5/1m}\n", {{1, 9, "expected a list of limits, found a mapping"}}},
		{"limits:\n", {{1, 8, "expected a list of limits, found nothing"}}},
		{"limits: [5/1m]\n", {{1, 10, "expected a mapping with the keys of a limit, found '5/1m'"}}},
		{"limits: [{name: [a], key: {ip: 1}, limit: [5/1m], when: path, overrides: 5/1m, observe: 1, on-error: {}}]\n",
	     {{1, 17, "expected the name of a limit, found a list"},
	      {1, 27, "expected an attribute, fallbacks such as user | ip, or a list of those, found a mapping"},
	      {1, 43, "expected a limit such as 100/1m, found a list"},
	      {1, 57, "expected conditions, such as {method: POST, path: /a*}, found 'path'"},
	      {1, 74, "expected a list of overrides, found '5/1m'"},
	      {1, 89, "expected true or false, found '1'"},
	      {1, 102, "expected allow, deny or local, found a mapping"}}},
		{"limits: [{name: , key: ~, limit: null, when: {path: }}]\n",
	     {{1, 17, "expected the name of a limit, found nothing"},
	      {1, 24, "found nothing (null; quote it to mean the word)"},
	      {1, 34, "found nothing (null; quote it to mean the word)"},
	      {1, 53, "expected a value, a prefix* or a list of those, found nothing"}}},
		{"limits: [{name: a, key: [[ip]], limit: 1/1s, when: {path: [[a]], host: {a: b}}}]\n",
	     {{1, 26, "expected an attribute such as ip"},
	      {1, 60, "expected a value, a prefix* or a list of those, found a list"},
	      {1, 72, "found a mapping"}}},
		{"limits: [{name: a, key: ip, limit: 1/1s, overrides: [5/1s, {limit: 5/1s}, {when: {}}]}]\n",
	     {{1, 54, "expected a mapping with the keys of an override, found '5/1s'"},
	      {1, 60, "missing key 'when' in an override"},
	      {1, 75, "missing key 'limit' in an override"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_values(void **state) {
	static const struct row rows[] = {
		{"threads: 0\n", {{1, 10, "expected a whole number from 1 to 256, found '0'"}}},
		{"threads: -1\n", {{1, 10, "found '-1'"}}},
		{"threads: 99999999999999999999999\n", {{1, 10, "from 1 to 256"}}},
		{"threads: \"4\"\n", {{1, 10, "expected a whole number from 1 to 256 without quotes, found '4'"}}},
		{"ipv6-prefix: 129\n", {{1, 14, "expected a whole number from 1 to 128, found '129'"}}},
		{"client-time: yes\n", {{1, 14, "expected true or false, found 'yes'"}}},
		{"client-time: 'true'\n", {{1, 14, "expected true or false without quotes, found 'true'"}}},
		{"store: {memory: 256MB}\n",
	     {{1, 20, "expected a size, such as 256MiB (KiB, MiB, GiB, TiB, or bytes), found"}}},
		{"store: {memory: 256 MiB}\n", {{1, 20, "expected a size"}}},
		{"store: {memory: MiB}\n", {{1, 17, "expected a size"}}},
		{"store: {memory: -1MiB}\n", {{1, 17, "expected a size"}}},
		{"store: {memory: 1KiB}\n", {{1, 17, "expected a size from 1MiB to 256GiB, found '1KiB'"}}},
		{"store: {memory: 1TiB}\n", {{1, 17, "expected a size from 1MiB to 256GiB"}}},
		{"store: {memory: 18446744073709551615TiB}\n", {{1, 17, "expected a size from 1MiB to 256GiB"}}},
		{"store: {memory: 99999999999999999999999}\n", {{1, 17, "expected a size from 1MiB to 256GiB"}}},
		{"store: {file: ''}\n", {{1, 15, "expected the path of a file, 1 to 4095 bytes"}}},
		{"store: {file: \"a\\0b\"}\n", {{1, 15, "without NUL, found 'a\\x00b'"}}},
		{"store: {file: a, shared: b}\n", {{1, 8, "expected file or shared, found both"}}},
		{"store: {shared: ''}\n", {{1, 17, "expected the name of shared memory, 1 to 200 letters"}}},
		{"store: {shared: ab/c}\n", {{1, 19, "1 to 200 letters, digits, dots, _ and -, found 'ab/c'"}}},
		{"store: {shared: [a]}\n", {{1, 17, "expected the name of shared memory, found a list"}}},
		{"store: {overrides: 0}\n", {{1, 20, "expected a whole number from 1 to 4294967295, found '0'"}}},
		{"store: {overrides: 1k}\n", {{1, 20, "expected a whole number"}}},
		{"limits: []\nstore: {memory: 1MiB, overrides: 3841}\n",
	     {{2, 34, "expected at most 3840, found 3841: a store of 1 MiB gives a quarter of its slots and a half"}}},
		{"store: {redis: \"127.0.0.1:1\", overrides: 7}\n", {{1, 42, "these counters are in redis"}}},
		{"store: {blocks: 50}\n", {{1, 17, "expected a share of the store, 1% to 98%, found '50'"}}},
		{"store: {blocks: 0%}\n", {{1, 17, "expected a share of the store"}}},
		{"store: {blocks: 99%}\n", {{1, 17, "expected a share of the store, 1% to 98%, found '99%'"}}},
		{"store: {blocks: 1.5%}\n", {{1, 17, "expected a share of the store"}}},
		{"store: {blocks: '%'}\n", {{1, 17, "expected a share of the store"}}},
		{"store: {blocks: }\n", {{1, 17, "expected a share of the store, such as 50%, found nothing"}}},
		{"listen: {resp: localhost:7379}\n", {{1, 16, "expected an address such as 127.0.0.1:7379"}}},
		{"listen: {resp: 127.0.0.1}\n", {{1, 25, "expected a port, such as :7379, found '127.0.0.1'"}}},
		{"listen: {resp: \"::1\"}\n", {{1, 20, "expected a port, such as :7379, found '::1'"}}},
		{"listen: {resp: 127.0.0.1:99999}\n", {{1, 16, "expected an address"}}},
		{"listen: {resp: \"unix:\"}\n", {{1, 22, "expected a path of 1 to 107 bytes after 'unix:'"}}},
		{"listen: {resp: 127.0.0.1:7380}\n",
	     {{1, 16, "duplicate address '127.0.0.1:7380': http listens there unless the file says otherwise"}}},
		{"listen: {http: 0.0.0.0:80, grpc: 0.0.0.0:80}\n",
	     {{1, 34, "duplicate address '0.0.0.0:80': the http listener in line 1 has it"}}},
		{"trusted-proxies: [10.0.0.0/33, lan, 10.0.0.1:80]\n",
	     {{1, 19, "expected a network such as 10.0.0.0/8"}, {1, 32, "found 'lan'"}, {1, 37, "found '10.0.0.1:80'"}}},
		{"attributes: {user: x-user, plan: header, job: header x job, a: \"header x:\", b: 'header '}\n",
	     {{1, 20, "expected a source such as 'header x-user-id', found 'x-user'"},
	      {1, 34, "expected a source"},
	      {1, 55, "expected the name of a header, 1 to 64 letters, digits and -, found 'x job'"},
	      {1, 73, "expected the name of a header"},
	      {1, 88, "expected the name of a header"}}},
		{"attributes: {ip: header x-real-ip, u: header a, u: header b}\n",
	     {{1, 14, "'ip' is built in"}, {1, 49, "duplicate key 'u' in attributes"}}},
		{"attributes: {a b: header x, '': header y, \"a\\tb\": header z}\n",
	     {{1, 15, "expected an attribute's name"},
	      {1, 30, "expected the name of an attribute, found nothing"},
	      {1, 43, "expected an attribute's name"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_limits(void **state) {
	static const struct row rows[] = {
		{"limits:\n- {name: '', key: ip, limit: 1/1s}\n", {{2, 10, "expected a name of 1 to 64 bytes, found 0"}}},
		{"limits:\n- {name: \"caf\xc3\xa9\", key: ip, limit: 1/1s}\n",
	     {{2, 14, "expected a name of printable ASCII characters, found 'caf\\xc3\\xa9'"}}},
		{"limits:\n- {name: \"a\\0\", key: ip, limit: 1/1s}\n", {{2, 10, "printable ASCII"}}},
		{"limits:\n- {name: a, key: ip, limit: 1/1s}\n- {name: b, key: ip, limit: 1/1s}\n"
	     "- {name: a, key: ip, limit: 1/1s}\n",
	     {{4, 10, "duplicate name 'a': the limit in line 2 has it"}}},
		/* columns inside the notation, in each style of scalar */
		{"limits:\n- name: a\n  key: ip\n  limit: token-bucket 10/1s brst 5\n",
	     {{4, 29, "expected the option 'burst'"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: \"100/60x\"\n", {{4, 17, "expected a unit of time"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: '100/60x'\n", {{4, 17, "expected a unit of time"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: \"\\x3100/60x\"\n", {{4, 10, "expected a unit of time"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: |\n    100/60s\n", {{4, 10, "expected a space or the end"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: sliding-log\n    5/60x\n", {{4, 10, "expected a unit of time"}}},
		{"limits:\n- name: \xc3\xa9\n  key: ip\n  limit: \xc3\xa9/1s\n",
	     {{2, 9, "printable ASCII"}, {4, 10, "expected a limit such as 100/1m"}}},
		{"limits: [{name: \"\xc3\xa9\", key: ip, limit: 1/1x}]\n",
	     {{1, 18, "printable ASCII"}, {1, 41, "unit of time"}}},
		{"limits:\n- {name: a, key: ip, limit: concurrency 20/30s}\n", {{2, 43, "lease"}}},
		{"limits:\n- {name: a, key: ip, limit: ''}\n", {{2, 30, "expected a limit"}}},
		{"limits:\n- {name: a, key: ip, limit: 1/1s, on-error: open}\n",
	     {{2, 45, "expected allow, deny or local, found 'open'"}}},
		{"limits:\n- name: a\n  key: ip\n  limit: 1/1s\n  overrides:\n  - {when: {plan: [pro, p*o]}, limit: 100/1y}\n",
	     {{6, 26, "expected * at the end only, found 'p*o'"}, {6, 44, "expected a unit of time"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_when_and_key(void **state) {
	static const struct row rows[] = {
		{"limits: [{name: a, limit: 1/1s, key: '|'}]\n",
	     {{1, 39, "expected the name of an attribute, found nothing"},
	      {1, 40, "expected the name of an attribute, found nothing"}}},
		{"limits: [{name: a, limit: 1/1s, key: user |}]\n",
	     {{1, 44, "expected the name of an attribute, found nothing"}}},
		{"limits: [{name: a, limit: 1/1s, key: ''}]\n", {{1, 39, "expected the name of an attribute, found nothing"}}},
		{"limits: [{name: a, limit: 1/1s, key: user or ip}]\n",
	     {{1, 42, "an attribute's name, without spaces and | (fallbacks: user | ip; parts: [ip, path]), found"}}},
		{"limits: [{name: a, limit: 1/1s, key: 'user, ip'}]\n", {{1, 44, "expected an attribute's name"}}},
		{"limits: [{name: a, limit: 1/1s, key: user | ip | user}]\n",
	     {{1, 50, "expected each fallback once, found 'user'"}}},
		{"limits: [{name: a, limit: 1/1s, key: [ip, user |  , path]}]\n",
	     {{1, 49, "expected the name of an attribute, found nothing"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: /a*b}}]\n", {{1, 57, "expected * at the end only"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: '*/a'}}]\n", {{1, 56, "expected * at the end only"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: '/a**'}}]\n", {{1, 58, "expected * at the end only"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: []}}]\n",
	     {{1, 55, "expected at least one value, found an"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {path: a, path: b}}]\n",
	     {{1, 58, "duplicate key 'path' in when"}}},
		{"limits: [{name: a, limit: 1/1s, key: ip, when: {'user | ip': a, '': b, [c]: d}}]\n",
	     {{1, 54, "expected an attribute's name"},
	      {1, 66, "expected the name of an attribute, found nothing"},
	      {1, 72, "expected the name of an attribute, found a list"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* All at once, in the order of the file, whatever the order they were found in. */
static void test_all_at_once(void **state) {
	static const struct row rows[] = {
		{"limits:\n"
	     "  - limit: 100/60x\n"
	     "    nam: a\n"
	     "    key: user | \n"
	     "  - name: b\n"
	     "    key: ip\n"
	     "    limit: sliding-log 5\n"
	     "store: {memory: 256MB}\n"
	     "threads: many\n",
	     {{2, 18, "expected a unit of time"},
	      {3, 5, "did you mean 'name'?"},
	      {4, 16, "found nothing"},
	      {7, 25, "expected '/' and a window"},
	      {8, 20, "expected a size"},
	      {9, 10, "expected a whole number"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_refused),
		cmocka_unit_test(test_empty),        cmocka_unit_test(test_settings),    cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_stores),       cmocka_unit_test(test_documented),  cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_maxima),       cmocka_unit_test(test_bytes),       cmocka_unit_test(test_yaml),
		cmocka_unit_test(test_cut),          cmocka_unit_test(test_too_much),    cmocka_unit_test(test_keys),
		cmocka_unit_test(test_types),        cmocka_unit_test(test_values),      cmocka_unit_test(test_limits),
		cmocka_unit_test(test_when_and_key), cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_too_many_attributes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
