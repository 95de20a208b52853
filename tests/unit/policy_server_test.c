/* The sections of a server in a policy file: listeners, certificates, headers, connections, logs. Each key good and
 * bad, and each default. */
#include "policy/address.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TLS "tls: {certificate: c.pem, key: k.pem}\n"
#define CLIENT_CA "tls: {certificate: c.pem, key: k.pem, client-ca: ca.pem}\n"
#define SECOND_NS ((sluice_ns)1000000000)

static void check_listen(const struct sl_listen *listen, uint8_t door, const char *address, uint32_t mode,
                         uint32_t forms) {
	assert_int_equal(listen->door, door);
	assert_string_equal(listen->address, address);
	assert_int_equal(listen->mode, mode);
	assert_int_equal(listen->forms, forms);
}

/* ---- what loads ------------------------------------------------------------------------------------------------- */

static void test_defaults(void **state) {
	struct sluice_policy *policy = sl_policy_loads("limits: []\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	(void)state;
	assert_int_equal(settings->listen_count, 2);
	check_listen(&settings->listens[0], SL_LISTEN_RESP, "127.0.0.1:7379", 0660, SL_FORM_DRAFT10);
	check_listen(&settings->listens[1], SL_LISTEN_HTTP, "127.0.0.1:7380", 0660, SL_FORM_DRAFT10);
	assert_int_equal(settings->forms, SL_FORM_DRAFT10);
	assert_false(settings->forwarded);
	assert_int_equal(settings->near_percent, 5);
	assert_int_equal(settings->drain_ns, 0);
	assert_null(settings->tls_certificate);
	assert_null(settings->tls_key);
	assert_null(settings->tls_client_ca);
	assert_int_equal(settings->user_count, 0);
	assert_int_equal(settings->anonymous, 0);
	assert_int_equal(settings->connections.max, 0);
	assert_int_equal(settings->connections.per_address, 0);
	assert_int_equal(settings->connections.idle_ns, 0);
	assert_int_equal(settings->connections.request_ns, 10 * SECOND_NS);
	assert_int_equal(settings->connections.write_ns, 10 * SECOND_NS);
	assert_false(settings->log.json);
	assert_null(settings->log.denials);
	assert_int_equal(settings->log.denials_per_key, 10 * SECOND_NS);
	assert_int_equal(settings->log.denials_per_second, 100);
	assert_int_equal(settings->log.denials_bytes, 67108864);
	sluice_policy_free(policy);
}

static void test_settings(void **state) {
	struct sluice_policy *policy =
		sl_policy_loads("client-address: forwarded\nnear-limit: 100%\ndrain: 10m\n"
	                    "connections: {max: 20000, per-address: 1000, idle: 5m, request: 0s, write: 1500ms}\n"
	                    "log: {format: json, denials: /var/log/d.jsonl, denials-per-key: 0s, denials-per-second: 1,\n"
	                    "      denials-size: 1MiB}\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	(void)state;
	assert_true(settings->forwarded);
	assert_int_equal(settings->near_percent, 100);
	assert_int_equal(settings->drain_ns, 600 * SECOND_NS);
	assert_int_equal(settings->connections.max, 20000);
	assert_int_equal(settings->connections.per_address, 1000);
	assert_int_equal(settings->connections.idle_ns, 300 * SECOND_NS);
	assert_int_equal(settings->connections.request_ns, 0);
	assert_int_equal(settings->connections.write_ns, 1500 * (SECOND_NS / 1000));
	assert_true(settings->log.json);
	assert_string_equal(settings->log.denials, "/var/log/d.jsonl");
	assert_int_equal(settings->log.denials_per_key, 0);
	assert_int_equal(settings->log.denials_per_second, 1);
	assert_int_equal(settings->log.denials_bytes, 1048576);
	sluice_policy_free(policy);
}

static void test_durations(void **state) {
	static const struct {
		const char *text;
		sluice_ns ns;
	} rows[] = {
		{"0s", 0},
		{"0d", 0},
		{"1ms", SECOND_NS / 1000},
		{"5s", 5 * SECOND_NS},
		{"\"2m\"", 120 * SECOND_NS},
		{"3h", 10800 * SECOND_NS},
		{"1d", 86400 * SECOND_NS},
		{"2w", 1209600 * SECOND_NS},
		{"3660d", 3660 * 86400 * SECOND_NS},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[64];
		snprintf(yaml, sizeof yaml, "connections: {idle: %s}\n", rows[i].text);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		assert_true(sl_policy_settings(policy)->connections.idle_ns == rows[i].ns);
		sluice_policy_free(policy);
	}
}

/* What is said of an http listener alone. A name is kept as a Host header is compared with it. */
static void test_details_and_hosts(void **state) {
	struct sluice_policy *policy = sl_policy_loads(
		"listen:\n  http:\n"
		"  - {address: '127.0.0.1:1', hosts: [A.Example, b_-9.example.]}\n"
		"  - {address: '127.0.0.1:2', details: true, hosts: c}\n"
		"  - {address: unix:/x, proxy-protocol: true, details: true, hosts: []}\n"
		"  - {address: '127.0.0.1:3', details: false, hosts: []}\n"
		"  resp: []\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	static const uint32_t counts[] = {2, 1, 0, 0};
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		const struct sl_listen *listen = sl_settings_listen(settings, SL_LISTEN_HTTP, i);
		assert_ptr_equal(listen, &settings->listens[i < 3 ? i : 3]);
		assert_int_equal(listen->host_count, counts[i < 3 ? i : 3]);
		assert_int_equal(listen->details, i == 1 || i == 2);
	}
	assert_null(sl_settings_listen(settings, SL_LISTEN_RESP, 0));
	assert_true(sl_bytes_equal(settings->listens[0].hosts[0], sl_str("a.example")));
	assert_true(sl_bytes_equal(settings->listens[0].hosts[1], sl_str("b_-9.example")));
	assert_true(sl_bytes_equal(settings->listens[1].hosts[0], sl_str("c")));
	sluice_policy_free(policy);
}

static void test_most_hosts(void **state) {
	char hosts[1024], yaml[2048];
	size_t len = 0;
	struct sluice_policy *policy;
	(void)state;
	for (int i = 0; i < SL_HOSTS_MAX; i++)
		len += (size_t)snprintf(hosts + len, sizeof hosts - len, "h%d, ", i);
	snprintf(yaml, sizeof yaml, "listen: {http: {address: '127.0.0.1:1', hosts: [%s]}}\n", hosts);
	policy = sl_policy_loads(yaml);
	assert_int_equal(sl_settings_listen(sl_policy_settings(policy), SL_LISTEN_HTTP, 0)->host_count, SL_HOSTS_MAX);
	sluice_policy_free(policy);
	snprintf(yaml, sizeof yaml, "listen: {http: {address: '127.0.0.1:1', hosts: [%sh]}}\n", hosts);
	const struct wanted wanted = {1, (uint32_t)(strstr(yaml, " h]") - yaml) + 2, "at most 64 hosts of a listener"};
	sl_policy_refused(sl_str(yaml), &wanted, 1);
}

/* Texts, mappings and lists; doors in their order; what is not written of a listener is the policy's. */
static void test_listens(void **state) {
	struct sluice_policy *policy = sl_policy_loads(
		"listen:\n"
		"  http:\n"
		"  - unix:/run/h\n"
		"  - {address: '127.0.0.1:80', tls: true, proxy-protocol: true, headers: [draft-7, legacy-epoch]}\n"
		"  - {mode: \"600\", address: unix:/x}\n"
		"  - {address: unix:/y, mode: 0777, headers: none}\n"
		"  - {address: '[::1]:0', tls: false}\n"
		"  grpc: [127.0.0.1:1]\n"
		"  resp: {address: '[::1]:0', unprotected: false}\n"
		"headers: [draft7, draft6]\n"
		"tls: {certificate: c.pem, key: k.pem, client-ca: ca.pem}\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	const uint32_t forms = SL_FORM_DRAFT7 | SL_FORM_DRAFT6;
	(void)state;
	assert_int_equal(settings->listen_count, 7);
	check_listen(&settings->listens[0], SL_LISTEN_RESP, "[::1]:0", 0660, forms);
	check_listen(&settings->listens[1], SL_LISTEN_HTTP, "unix:/run/h", 0660, forms);
	check_listen(&settings->listens[2], SL_LISTEN_HTTP, "127.0.0.1:80", 0660, SL_FORM_DRAFT7 | SL_FORM_LEGACY_EPOCH);
	check_listen(&settings->listens[3], SL_LISTEN_HTTP, "unix:/x", 0600, forms);
	check_listen(&settings->listens[4], SL_LISTEN_HTTP, "unix:/y", 0777, 0);
	check_listen(&settings->listens[5], SL_LISTEN_HTTP, "[::1]:0", 0660, forms);
	check_listen(&settings->listens[6], SL_LISTEN_GRPC, "127.0.0.1:1", 0660, forms);
	for (uint32_t i = 0; i < 7; i++) {
		assert_int_equal(settings->listens[i].tls, i == 2);
		assert_int_equal(settings->listens[i].proxy_protocol, i == 2);
		assert_false(settings->listens[i].unprotected);
	}
	assert_string_equal(settings->tls_certificate, "c.pem");
	assert_string_equal(settings->tls_key, "k.pem");
	assert_string_equal(settings->tls_client_ca, "ca.pem");
	sluice_policy_free(policy);
}

/* A door that is not written keeps its place; one that is written as [] is closed. */
static void test_doors(void **state) {
	static const struct {
		const char *yaml, *addresses;
	} rows[] = {
		{"listen: {}\n", "127.0.0.1:7379 127.0.0.1:7380 "},
		{"listen: {resp: unix:/a}\n", "unix:/a 127.0.0.1:7380 "},
		{"listen: {http: [unix:/a, 'unix:/b']}\n", "127.0.0.1:7379 unix:/a unix:/b "},
		{"listen: {http: []}\n", "127.0.0.1:7379 "},
		{"listen: {resp: [], http: [], grpc: unix:/g}\n", "unix:/g "},
		{"listen: {resp: 127.0.0.1:7380, http: 127.0.0.1:7379}\n", "127.0.0.1:7380 127.0.0.1:7379 "},
		{"listen: {resp: ['127.0.0.1:0', '127.0.0.1:0'], http: 127.0.0.1:0}\n", "127.0.0.1:0 127.0.0.1:0 127.0.0.1:0 "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		const struct sl_settings *settings = sl_policy_settings(policy);
		char text[256];
		size_t len = 0;
		for (uint32_t j = 0; j < settings->listen_count; j++)
			len += (size_t)snprintf(text + len, sizeof text - len, "%s ", settings->listens[j].address);
		assert_string_equal(text, rows[i].addresses);
		sluice_policy_free(policy);
	}
}

static void test_forms(void **state) {
	static const struct {
		const char *text;
		uint32_t forms;
	} rows[] = {
		{"draft10", SL_FORM_DRAFT10},
		{"draft-10", SL_FORM_DRAFT10},
		{"ietf", SL_FORM_DRAFT10},
		{"draft8", SL_FORM_DRAFT10},
		{"draft-8", SL_FORM_DRAFT10},
		{"draft9", SL_FORM_DRAFT10},
		{"[draft-9, legacy-epoch]", SL_FORM_DRAFT10 | SL_FORM_LEGACY_EPOCH},
		{"[draft10]", SL_FORM_DRAFT10},
		{"draft7", SL_FORM_DRAFT7},
		{"draft-6", SL_FORM_DRAFT6},
		{"[draft-7, draft6]", SL_FORM_DRAFT7 | SL_FORM_DRAFT6},
		{"[legacy-delta, ietf]", SL_FORM_DRAFT10 | SL_FORM_LEGACY_DELTA},
		{"[draft10, failed-open]", SL_FORM_DRAFT10 | SL_FORM_FAILED_OPEN},
		{"'legacy-epoch'", SL_FORM_LEGACY_EPOCH},
		{"none", 0},
		{"[none]", 0},
		{"[]", 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[96];
		snprintf(yaml, sizeof yaml, "headers: %s\n", rows[i].text);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		assert_int_equal(sl_policy_settings(policy)->forms, rows[i].forms);
		assert_int_equal(sl_policy_settings(policy)->listens[1].forms, rows[i].forms);
		sluice_policy_free(policy);
	}
}

static void test_trust(void **state) {
	static const struct {
		const char *yaml, *address;
		bool trusted;
	} rows[] = {
		{"limits: []\n", "127.0.0.1", true},
		{"limits: []\n", "127.255.255.255", true},
		{"limits: []\n", "::ffff:127.0.0.1", true},
		{"limits: []\n", "::1", true},
		{"limits: []\n", "128.0.0.1", false},
		{"limits: []\n", "::2", false},
		{"limits: []\n", "10.0.0.1", false},
		{"threads: 2\n", "127.0.0.1", true},
		{"trusted-proxies: []\n", "127.0.0.1", false},
		{"trusted-proxies: []\n", "::1", false},
		{"trusted-proxies: [10.0.0.0/8]\n", "10.1.2.3", true},
		{"trusted-proxies: [10.0.0.0/8]\n", "127.0.0.1", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		struct sl_address address;
		assert_true(sl_address_parse(sl_str(rows[i].address), &address, NULL));
		assert_int_equal(sl_policy_trusts(policy, &address), rows[i].trusted);
		sluice_policy_free(policy);
	}
}

/* Sixteen listeners of all doors together, those that are there by themselves among them. */
static void test_most_listeners(void **state) {
	static const struct {
		unsigned count;
		const char *tail, *wrong;
	} rows[] = {
		{15, "]}\nlimits: []\n", NULL},
		{16, "], http: []}\nlimits: []\n", NULL},
		{16, "]}\nlimits: []\n", "expected at most 16 addresses of all doors together, with 127.0.0.1:7380"},
		{17, "], http: []}\nlimits: []\n", "expected at most 16 addresses of all doors together"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[1024] = "listen: {resp: [";
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		size_t len = strlen(yaml);
		for (unsigned j = 0; j < rows[i].count; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, "unix:/%u,", j);
		snprintf(yaml + len, sizeof yaml - len, "%s", rows[i].tail);
		sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
		sl_policy_print(&problems);
		assert_int_equal(err, rows[i].wrong == NULL ? SLUICE_OK : SLUICE_E_SYNTAX);
		assert_int_equal(problems.count, rows[i].wrong != NULL);
		if (rows[i].wrong != NULL)
			assert_non_null(strstr(problems.list[0].text, rows[i].wrong));
		else
			assert_int_equal(sl_policy_settings(policy)->listen_count, 16);
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void test_bad_listens(void **state) {
	static const struct row rows[] = {
		{"listen: {resp: {adress: 127.0.0.1:1}}\n",
	     {{1, 17, "unknown key 'adress' in a listener: did you mean 'address'?"}}},
		{"listen: {resp: {tls: false}}\n",
	     {{1, 16, "missing key 'address' in a listener: expected an address such as 127.0.0.1:7379"}}},
		{"listen: {resp: {address: 127.0.0.1, proxy-protocol: 1, unprotected: no}}\n",
	     {{1, 35, "expected a port, such as :7379"},
	      {1, 53, "expected true or false, found '1'"},
	      {1, 69, "expected true or false, found 'no'"}}},
		{"listen: {http: [127.0.0.1:1, [127.0.0.1:2], 80]}\n",
	     {{1, 30, "expected an address, or a mapping such as {address: \"127.0.0.1:7379\"}, found a list"},
	      {1, 45, "expected an address such as 127.0.0.1:7379"}}},
		{"listen: {http: , resp: ~}\n",
	     {{1, 16, "expected an address such as"}, {1, 24, "found nothing (null; quote it to mean the word)"}}},
		{"listen: {resp: [], http: []}\n", {{1, 9, "expected at least one address of all doors together, found none"}}},
		{"listen: {resp: [127.0.0.1:1, '127.0.0.1:01'],\n  http: {address: \"[::ffff:127.0.0.1]:1\"}}\n",
	     {{1, 30, "duplicate address '127.0.0.1:01': the resp listener in line 1 has it"},
	      {2, 19, "the resp listener in line 1 has it"}}},
		{"listen: {http: [unix:/a, 'unix:/a']}\n",
	     {{1, 26, "duplicate address 'unix:/a': the http listener in line 1"}}},
		{"listen: {http: 127.0.0.1:7379}\n",
	     {{1, 16, "duplicate address '127.0.0.1:7379': resp listens there unless the file says otherwise"}}},
		{"listen: {http: {address: 127.0.0.1:1, mode: 0660}}\n", {{1, 45, "expected a mode for unix sockets only"}}},
		{"listen: {http: [{address: unix:/a, mode: 888}, {address: unix:/b, mode: '1777'},\n"
	     " {address: unix:/c, mode: 66}, {address: unix:/d, mode: 00660}, {address: unix:/e, mode: rw}]}\n",
	     {{1, 42, "expected permissions in octal, 3 or 4 digits up to 0777, found '888'"},
	      {1, 73, "found '1777'"},
	      {2, 27, "found '66'"},
	      {2, 57, "found '00660'"},
	      {2, 90, "found 'rw'"}}},
		{"listen: {resp: {address: unix:/a, headers: draft7}}\n",
	     {{1, 44, "expected headers on http, grpc and spop listeners only"}}},
		{"listen: {spop: 0.0.0.0:7382}\n", {{1, 16, "SPOP has no login"}}},
		{"listen: {spop: {address: unix:/a, unprotected: true, proxy-protocol: true}}\n",
	     {{1, 16, "no proxy-protocol here"}, {1, 16, "no unprotected here"}}},
		{"listen: {resp: {address: unix:/a, details: true}}\n", {{1, 44, "expected details on http listeners only"}}},
		{"listen: {http: {address: unix:/a, hosts: [a.b], details: 1}}\n",
	     {{1, 42, "expected hosts on http listeners with a port only"}, {1, 58, "expected true or false, found '1'"}}},
		{"listen: {resp: {address: 127.0.0.1:1, hosts: [a.b]}}\n", {{1, 46, "expected hosts on http listeners with"}}},
		{"listen: {http: {address: 127.0.0.1:1, hosts: ['a.b:80', '*.b', '', http://a, {a: b}, '.']}}\n",
	     {{1, 47, "expected a name that clients use for it, such as limits.example.com: no port, no *, found 'a.b:80'"},
	      {1, 57, "found '*.b'"},
	      {1, 64, "found ''"},
	      {1, 68, "found 'http://a'"},
	      {1, 78, "found a mapping"},
	      {1, 86, "found '.'"}}},
		{"listen: {http: {address: unix:/a, headers: [draft7, ietf], tls: true}}\n",
	     {{1, 53, "expected draft10 or draft7, found both"},
	      {1, 65, "expected a certificate for it: tls: {certificate: FILE, key: FILE}"}}},
		/* a broken section is there all the same */
		{"listen: {http: {address: unix:/a, tls: true}}\ntls: {certificate: a}\n",
	     {{2, 6, "missing key 'key' in tls: expected the path of a PEM file"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_bad_forms(void **state) {
	static const char all[] = "expected draft10, draft7, draft6, legacy-epoch, legacy-delta, failed-open or none";
	const struct row rows[] = {
		{"headers: draft11\n", {{1, 10, "found 'draft11': did you mean 'draft10'?"}}},
		{"headers: rfc\n", {{1, 10, all}}},
		{"headers: {draft7: true}\n", {{1, 10, "or none, found a mapping"}}},
		{"headers:\n", {{1, 9, "or none, found nothing"}}},
		{"headers: [draft10, draft7]\n",
	     {{1, 20,
	       "expected draft10 or draft7, found both: each writes RateLimit and RateLimit-Policy in a grammar of"}}},
		{"headers: [draft-6, legacy-epoch, ietf]\n",
	     {{1, 34, "expected draft10 or draft6, found both: each writes RateLimit-Policy in a grammar of its own"}}},
		{"headers: [legacy-delta, legacy-epoch]\n",
	     {{1, 25, "expected legacy-epoch or legacy-delta, found both: X-RateLimit-Reset is an instant in one"}}},
		{"headers: [none, draft10]\n", {{1, 17, "expected none alone, or a list without it"}}},
		{"headers: [draft7, none]\n", {{1, 19, "expected none alone, or a list without it"}}},
		{"headers: [[draft7], legacy]\n", {{1, 11, "or none, found a list"}, {1, 21, "found 'legacy'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_bad_values(void **state) {
#define NO_ALGORITHM "expected an algorithm that needs no more than a quota and a window, such as sliding-window, found"
	static const struct row rows[] = {
		{"envoy: {config: a, algorithm: concurrency}\n", {{1, 31, NO_ALGORITHM " 'concurrency'"}}},
		{"envoy: {config: a, algorithm: distinct}\n", {{1, 31, NO_ALGORITHM}}},
		{"envoy: {config: a, algorithm: sliding-buckets}\n", {{1, 31, NO_ALGORITHM}}},
		{"envoy: {config: a, algorithm: sliding}\n", {{1, 31, NO_ALGORITHM}}},
		{"envoy: {config: a, algorithm: sliding-log 5/1m}\n", {{1, 31, NO_ALGORITHM}}},
		{"envoy: {config: a, algorithm: ''}\n", {{1, 31, NO_ALGORITHM}}},
		{"tls: cert.pem\n", {{1, 6, "expected a mapping with the keys of tls, found 'cert.pem'"}}},
		{"tls: {cert: a, keys: b}\n",
	     {{1, 6, "missing key 'certificate' in tls"},
	      {1, 7, "unknown key 'cert' in tls: expected certificate, key or client-ca"},
	      {1, 16, "unknown key 'keys' in tls: did you mean 'key'?"}}},
		{"client-address: xff\n", {{1, 17, "expected x-forwarded-for or forwarded, found 'xff'"}}},
		{"client-address: Forwarded\n", {{1, 17, "found 'Forwarded': did you mean 'forwarded'?"}}},
		{"near-limit: 5\n", {{1, 13, "expected a share of the quota, 0% to 100%, found '5'"}}},
		{"near-limit: 101%\n", {{1, 13, "expected a share of the quota, 0% to 100%, found '101%'"}}},
		{"observe: all\n", {{1, 10, "expected true or false, found 'all'"}}},
		{"drain: 5\n", {{1, 9, "expected a duration such as 10s: a whole number and ms, s, m, h, d or w, found '5'"}}},
		{"drain: 601s\n", {{1, 8, "expected a duration from 0s to 10m, found '601s'"}}},
		{"drain: 1.5s\n", {{1, 9, "expected a duration such as 10s"}}},
		{"drain: -1s\n", {{1, 8, "expected a duration such as 10s"}}},
		{"drain: 1 s\n", {{1, 9, "expected a duration such as 10s"}}},
		{"drain: [5s]\n", {{1, 8, "expected a duration such as 10s, found a list"}}},
		{"drain: 99999999999999999999s\n", {{1, 8, "expected a duration from 0s to 10m"}}},
		{"connections: {idle: 3661d, max: 10000001, per-adress: 1, request: s, write: 10}\n",
	     {{1, 21, "expected a duration from 0s to 3660d, found '3661d'"},
	      {1, 33, "expected a whole number from 0 to 10000000, found '10000001'"},
	      {1, 43, "unknown key 'per-adress' in connections: did you mean 'per-address'?"},
	      {1, 67, "expected a duration such as 10s"},
	      {1, 79, "expected a duration such as 10s"}}},
		{"connections: 5\n", {{1, 14, "expected a mapping with the keys of connections, found '5'"}}},
		{"log: {format: xml, denials: '', denials-per-key: soon, denials-per-second: 0, denials-size: 1KiB}\n",
	     {{1, 15, "expected text or json, found 'xml'"},
	      {1, 29, "expected the path of a file, 1 to 4095 bytes"},
	      {1, 50, "expected a duration such as 10s"},
	      {1, 76, "expected a whole number from 1 to 1000000, found '0'"},
	      {1, 93, "expected a size from 1MiB to 256GiB, found '1KiB'"}}},
		{"log: {keys: hash}\n", {{1, 6, "keys: hash needs keys-secret, the secret that keys are hashed by"}}},
		{"log: {keys: cut, keys-secret: 0123456789abcdef}\n",
	     {{1, 6, "keys-secret is for keys: hash, which is missing"}}},
		{"log: {keys: secret, keys-secret: short}\n",
	     {{1, 13, "expected clear, hash or cut, found 'secret'"},
	      {1, 34, "expected the secret that keys are hashed by, 16 to 256 bytes without NUL, found 5 bytes"}}},
		{"log: json\n", {{1, 6, "expected a mapping with the keys of log, found 'json'"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* ---- what is doubtful ------------------------------------------------------------------------------------------- */

#define USER "users: [{name: a, role: check, token: \"sha256:" HEX64 "\"}]\n"
#define HEX16 "0123456789abcdef"
#define HEX64 HEX16 HEX16 HEX16 HEX16

static void test_warnings(void **state) {
	static const struct row rows[] = {
		{"listen: {resp: 0.0.0.0:1}\n",
	     {{1, 16, "serve refuses to listen where other hosts can reach it and there are no users: add users, or "
	              "unprotected: true"}}},
		{"listen: {resp: \"[::]:1\"}\n", {{1, 16, "serve refuses"}}},
		{"listen: {http: {address: 10.0.0.1:1, unprotected: true}}\n",
	     {{1, 26, "unprotected: every client that can connect may check, reset and reload"}}},
		{"listen: {http: {address: 127.0.0.2:1, unprotected: true}}\n",
	     {{1, 26, "unprotected has no effect here: other hosts can't reach this address"}}},
		{"listen: {http: {address: unix:/a, unprotected: true}}\n", {{1, 26, "other hosts can't reach"}}},
		{"listen: {http: {address: 10.0.0.1:1, unprotected: true, tls: true}}\n" TLS USER,
	     {{1, 26, "unprotected has no effect here: there are users"}}},
		{"listen: {http: {address: 10.0.0.1:1, unprotected: true, tls: true}}\n" CLIENT_CA,
	     {{1, 26, "unprotected has no effect here: clients need certificates"}}},
		{"listen: {http: {address: 10.0.0.1:1, tls: true}}\n" CLIENT_CA, {{0}}},
		{"listen: {http: {address: 10.0.0.1:1, tls: true}}\n" TLS, {{1, 26, "serve refuses to listen"}}},
		{"listen: {http: 10.0.0.1:1}\n" USER, {{1, 16, "passwords and tokens cross the network in clear text here: "
		                                               "tls:"}}},
		{"listen: {http: {address: 10.0.0.1:1, tls: true}}\n" TLS USER, {{0}}},
		{"listen: {http: {address: 127.0.0.1:1, hosts: a.b}}\n", {{0}}},
		{"listen: {http: {address: 127.0.0.1:1, hosts: a.b}}\n" USER,
	     {{1, 26, "hosts has no effect here: clients have to log in, whatever name they use"}}},
		{"listen: {http: {address: 10.0.0.1:1, hosts: a.b, tls: true}}\n" CLIENT_CA,
	     {{1, 26, "hosts has no effect here: clients need certificates"}}},
		{"listen: {http: 127.0.0.1:1, resp: [unix:/a, '[::1]:4']}\n" USER, {{0}}},
		{"listen: {http: {address: 127.0.0.1:1, proxy-protocol: true}}\ntrusted-proxies: []\n",
	     {{1, 26, "no connection is accepted here: proxy-protocol is believed from trusted-proxies only, and there "
	              "are none"}}},
		{"trusted-proxies: []\nlisten: {http: {address: unix:/a, proxy-protocol: true}}\n", {{0}}},
		{TLS, {{1, 6, "no listener says tls: true: the certificate is not used"}}},
		{"anonymous: check\n", {{1, 12, "anonymous has no effect without users: every client may do everything"}}},
		{"anonymous: none\n", {{0}}},
		{"anonymous: [read, admin]\n" USER, {{1, 12, "anonymous callers are admins"}}},
		{"anonymous: [read, check]\n" USER, {{0}}},
		{"observe: true\n", {{1, 10, "all limits are only observed: nobody is denied"}}},
		{"observe: false\n", {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* What a policy had before and has no more, unless it says that none is meant. */
static void test_what_would_disarm(void **state) {
	static const char no_limits[] = "it has no limits, and does not say limits: []";
	static const char no_users[] = "it has no users, and does not say users: []";
	static const char no_rules[] = "the files that envoy.config names no longer have any limits";
	static const struct {
		uint32_t had;
		const char *yaml, *why;
	} rows[] = {
		{0, "threads: 1\n", NULL},
		{SL_ARMED_USERS, "threads: 1\nlimits: []\n", no_users},
		{SL_ARMED_USERS, "limits: []\nusers: []\n", NULL},
		{SL_ARMED_LIMITS, "threads: 1\n", no_limits},
		{SL_ARMED_LIMITS, "limits: []\n", NULL},
		{0, "envoy: {config: /x}\n", NULL},
		{SL_ARMED_RULES, "envoy: {config: /x}\n", no_rules},
		{SL_ARMED_RULES, "limits: []\n", NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		const char *why = sl_policy_disarms(rows[i].had, policy);
		assert_string_equal(why != NULL ? why : "", rows[i].why != NULL ? rows[i].why : "");
		sluice_policy_free(policy);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),       cmocka_unit_test(test_settings),    cmocka_unit_test(test_durations),
		cmocka_unit_test(test_details_and_hosts), cmocka_unit_test(test_most_hosts),
		cmocka_unit_test(test_listens),        cmocka_unit_test(test_doors),       cmocka_unit_test(test_forms),
		cmocka_unit_test(test_trust),          cmocka_unit_test(test_bad_listens), cmocka_unit_test(test_bad_forms),
		cmocka_unit_test(test_what_would_disarm),
		cmocka_unit_test(test_most_listeners), cmocka_unit_test(test_bad_values),  cmocka_unit_test(test_warnings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
