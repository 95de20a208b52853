/* Members, penalties, denials that count, reservations in policy files: what loads, what is refused and where, what is
 * warned of; and what a match makes of it. */
#include "tests/unit/policy_rows.h"

#include "algo/terms.h"
#include "os/zone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT(more) "limits:\n- {name: a, key: ip, " more "}\n"
#define BLOCK(more) "limits:\n- name: a\n  key: ip\n  limit: 5/1m\n" more

static const sluice_ns second = 1000000000;

/* ---- what loads ------------------------------------------------------------------------------------------------- */

/* The first limit's terms, of a file without problems. */
static void check_terms(const char *yaml, const char *text) {
	print_message("%s", yaml);
	struct sluice_policy *policy = sl_policy_loads(yaml);
	const struct sl_policy_limit *limit = sl_policy_limit_at(policy, 0);
	assert_string_equal(limit->terms_text, text);
	assert_int_equal(limit->has_terms, *text != '\0');
	sluice_policy_free(policy);
}

static void test_penalties(void **state) {
	static const char three[] = "penalty [1m, 10m, 1h] after 3 denials in 1m forgive 1h";
	static const char *const rows[][2] = {
		{BLOCK(""), ""},
		{BLOCK("  penalty: \"[1m, 10m, 1h] after 3 denials in 1m\"\n"), three},
		{BLOCK("  penalty: '[1m, 10m, 1h] after 3 denials in 1m'\n"), three},
		{BLOCK("  penalty: [1m, 10m, 1h] after 3 denials in 1m\n"), three},
		{BLOCK("  penalty: [1m,10m,1h] after 3 denials in 1m # as people write it\n"), three},
		{BLOCK("  penalty:   [1m, 10m, 1h] after 3 denials in 1m   \n"), three},
		{BLOCK("  \"penalty\": [1m, 10m, 1h] after 3 denials in 1m\n"), three},
		{BLOCK("  'penalty' : [1m, 10m, 1h] after 3 denials in 1m\n"), three},
		{BLOCK("  penalty: [1m, 10m,\n    1h] after 3\n    denials in 1m\n"), three},
		{BLOCK("  penalty:\n    [1m, 10m, 1h] after 3 denials in 1m\n"), three},
		{BLOCK("  penalty: [1m, 10m, 1h] after 3 denials in 1m\r\n"), three},
		{BLOCK("  penalty: [1m, 10m, 1h] after 3 denials in 1m"), three},
		{BLOCK("  penalty: {steps: [1m, 10m, 1h], after: 3, in: 1m}\n"), three},
		{BLOCK("  penalty: {in: 60s, after: 1, forgive: 1d, steps: 1m}\n"),
	     "penalty [1m] after 1 denial in 1m forgive 1d"},
		{BLOCK("  penalty: [1m] after 1 denial in 1s forgive 1d\n"), "penalty [1m] after 1 denial in 1s forgive 1d"},
		{LIMIT("limit: 5/1m, penalty: [1m, 10m, 1h] after 3 denials in 1m"), three},
		{LIMIT("penalty: [1m, 10m, 1h] after 3 denials in 1m, limit: 5/1m"), three},
		{LIMIT("limit: 5/1m, penalty: '[1m, 10m, 1h] after 3 denials in 1m'"), three},
		{BLOCK("  count-denied: true\n"), "count-denied"},
		{BLOCK("  count-denied: false\n"), ""},
		{BLOCK("  penalty: [2m] after 2 denials in 1m\n  count-denied: true\n"),
	     "count-denied; penalty [2m] after 2 denials in 1m forgive 2m"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		check_terms(rows[i][0], rows[i][1]);
}

/* Texts that look like it keep their brackets, wherever they stand. */
static void test_brackets(void **state) {
	static const char *const names[] = {
		"\"penalty: [1m, 2m] after all\"",
		"'penalty: [1m] after all'",
		"\"penalty: [1m,2m] after, penalty: [3m] after\"",
		"\"penalty: [1m, 2m] before\"",
		"\"penalty: [x] after\"",
		"\"penalty: [1m\"",
		"\"penalty: [\"",
		"\"penalty:\"",
		"\"penalty: [1m, ] after\"",
	};
	char yaml[256], quoted[128];
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(yaml, sizeof yaml, "# penalty: [1m, 2m] after\nlimits: [{key: ip, limit: 5/1m, name: %s}]\n",
		         names[i]);
		struct sluice_policy *policy = sl_policy_loads(yaml);
		snprintf(quoted, sizeof quoted, "%s", names[i] + 1);
		quoted[strlen(quoted) - 1] = '\0';
		assert_string_equal(sluice_policy_limit_name(policy, 0), quoted);
		sluice_policy_free(policy);
	}
}

static void test_reserve(void **state) {
	static const struct {
		const char *yaml, *actual, *header;
		uint32_t estimate, ttl_ms;
	} rows[] = {
		{BLOCK("  reserve: true\n"), NULL, NULL, 0, 60000},
		{BLOCK("  reserve: {}\n"), NULL, NULL, 0, 60000},
		{BLOCK("  reserve: {ttl: 1500ms}\n"), NULL, NULL, 0, 1500},
		{BLOCK("  reserve: {actual: header X-Tokens-Used}\n"), "x-tokens-used", NULL, 0, 60000},
		{BLOCK("  reserve: {estimate: 5, ttl: 2m, actual: header a}\n"), "a", NULL, 5, 120000},
		{BLOCK("  reserve: {estimate: header x-max-tokens}\n"), NULL, "x-max-tokens", 0, 60000},
		{BLOCK("  reserve: {estimate: [header x-max-tokens, 5]}\n"), NULL, "x-max-tokens", 5, 60000},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_policy *policy = sl_policy_loads(rows[i].yaml);
		const struct sl_policy_reserve *reserve = &sl_policy_limit_at(policy, 0)->reserve;
		assert_true(reserve->on);
		assert_int_equal(reserve->estimate, rows[i].estimate);
		assert_int_equal(reserve->ttl_ns, rows[i].ttl_ms * (second / 1000));
		assert_int_equal(reserve->actual_header != NULL, rows[i].actual != NULL);
		if (rows[i].actual != NULL)
			assert_string_equal(reserve->actual_header, rows[i].actual);
		assert_int_equal(reserve->estimate_header != NULL, rows[i].header != NULL);
		if (rows[i].header != NULL)
			assert_string_equal(reserve->estimate_header, rows[i].header);
		sluice_policy_free(policy);
	}
	struct sluice_policy *policy = sl_policy_loads(BLOCK("  reserve: false\n"));
	assert_false(sl_policy_limit_at(policy, 0)->reserve.on);
	assert_int_equal(sl_policy_limit_at(policy, 0)->reserve.ttl_ns, 0);
	sluice_policy_free(policy);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void test_refused_penalties(void **state) {
	static const struct row rows[] = {
		{BLOCK("  penalty: [1m, 10m] after x denials in 1m\n"), {{5, 28, "expected a number of denials, found 'x'"}}},
		{BLOCK("  penalty: '[1m, 10m] after x denials in 1m'\n"), {{5, 29, "expected a number of denials"}}},
		{BLOCK("  penalty: [1m, 10m, 5m] after 3 denials in 1m\n"), {{5, 22, "longer than the one before"}}},
		{BLOCK("  penalty: [1m] after 65 denials in 1m\n"), {{5, 23, "expected 1 to 64 denials"}}},
		{BLOCK("  penalty: [1m] after 3 denials\n"), {{5, 24, "expected ' denials in '"}}},
		{BLOCK("  penalty: [1m, 10m]\n"), {{5, 12, "after 3 denials in 1m, found a list"}}},
		{BLOCK("  penalty: 1m after 3 denials in 1m\n"), {{5, 12, "expected '[' and penalties"}}},
		{BLOCK("  penalty:\n"), {{5, 11, "found nothing"}}},
		{BLOCK("  penalty: {steps: [1m]}\n"), {{5, 12, "missing key 'after'"}, {5, 12, "missing key 'in'"}}},
		{BLOCK("  penalty: {steps: [], after: 3, in: 1m}\n"), {{5, 20, "expected 1 to 8 penalties, found 0"}}},
		{BLOCK("  penalty: {steps: [1m, 1m], after: 3, in: 1m}\n"),
	     {{5, 25, "longer than the one before, found '1m'"}}},
		{BLOCK("  penalty: {steps: [1m], after: 0, in: 1x, forgive: 0s}\n"),
	     {{5, 33, "expected a whole number from 1 to 64"},
	      {5, 41, "expected a duration such as 10s"},
	      {5, 53, "expected a duration from 1ms to 3660d"}}},
		{LIMIT("limit: unlimited, penalty: [1m] after 3 denials in 1m"),
	     {{2, 49, "penalty does not go with unlimited: it counts nothing"}}},
		/* columns behind a penalty stay what they are */
		{LIMIT("limit: 5/1m, penalty: [1m, 2m] after 3 denials in 1m, observe: maybe"),
	     {{2, 85, "expected true or false, found 'maybe'"}}},
		{BLOCK("  penalty: [1m, x] after 3 denials in 1m\n"), {{5, 17, "expected a penalty such as 10m, found 'x"}}},
		{BLOCK("  penalty: [] after 3 denials in 1m\n"), {{5, 13, "expected a penalty such as 10m"}}},
		{BLOCK("  penalty: [1m,] after 3 denials in 1m\n"), {{5, 16, "expected a penalty such as 10m"}}},
		{BLOCK("  penalty: [1m, after] after 3 denials in 1m\n"),
	     {{5, 12, "found a list"}, {5, 24, "YAML: did not find expected key"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

static void test_refused(void **state) {
	static const struct row rows[] = {
		{BLOCK("  count-denied: 1\n"), {{5, 17, "expected true or false"}}},
		{LIMIT("limit: unlimited, count-denied: true"), {{2, 54, "it counts nothing"}}},
		{LIMIT("limit: concurrency 5 lease 10s, count-denied: true"),
	     {{2, 68, "count-denied does not go with concurrency: it can't count denials"}}},
		{LIMIT("limit: distinct 5/1d, of: path, count-denied: true"),
	     {{2, 68, "count-denied does not go with distinct: it can't count denials"}}},
		{LIMIT("limit: 5/1m, count-denied: true, overrides: [{when: {path: /a}, limit: concurrency 5 lease 1s}]"),
	     {{2, 49, "count-denied does not go with concurrency"}}},
		{LIMIT("limit: concurrency 5 lease 10s, reserve: true"), {{2, 63, "reserve does not go with concurrency"}}},
		{LIMIT("limit: distinct 5/1d, of: path, reserve: {}"),
	     {{2, 63, "reserve does not go with distinct: its charges can't be corrected"}}},
		{LIMIT("limit: unlimited, reserve: true"), {{2, 49, "it counts nothing"}}},
		{LIMIT("limit: distinct 5/1d"), {{2, 29, "missing key 'of' in a limit of distinct"}}},
		{LIMIT("limit: 5/1d, overrides: [{when: {path: /a}, limit: distinct 5/1d}]"), {{2, 29, "missing key 'of'"}}},
		{LIMIT("limit: 5/1d, of: path"), {{2, 39, "of is for distinct alone"}}},
		{LIMIT("limit: concurrency 5 lease 1m, of: path"), {{2, 57, "of is for distinct alone"}}},
		{LIMIT("limit: distinct 5/1d, of: [path]"), {{2, 48, "expected the attribute whose values are counted"}}},
		{LIMIT("limit: distinct 5/1d, of: 'path | ip'"), {{2, 53, "without spaces and |"}}},
		{LIMIT("limit: distinct 5/1d, of: "), {{2, 48, "found nothing"}}},
		{LIMIT("limit: distinct 5/, of: path"), {{2, 40, "expected a window"}}},
		{BLOCK("  reserve: maybe\n"), {{5, 12, "expected true or false"}}},
		{BLOCK("  reserve: {ttl: 0s}\n"), {{5, 18, "expected a duration from 1ms to 3660d"}}},
		{BLOCK("  reserve: {tll: 1s}\n"), {{5, 13, "did you mean 'ttl'"}}},
		{BLOCK("  reserve: {actual: x-tokens}\n"), {{5, 21, "expected a source such as 'header x-user-id'"}}},
		{BLOCK("  reserve: {actual: header x y}\n"), {{5, 29, "expected the name of a header"}}},
		{BLOCK("  reserve: {estimate: 0}\n"), {{5, 23, "expected a whole number from 1"}}},
		{BLOCK("  reserve: {estimate: [500]}\n"), {{5, 23, "or both as a list"}}},
		{BLOCK("  reserve: {estimate: [500, header x]}\n"),
	     {{5, 24, "expected a source"}, {5, 29, "expected a whole number"}}},
		{LIMIT("limit: concurrency 5 lease 1m, candidate: concurrency 9 lease 2m"),
	     {{2, 64, "another lease would need counters of its own"}}},
		{LIMIT("limit: distinct 5/1d, of: path, candidate: distinct 9/2d"), {{2, 65, "another window would need"}}},
		{LIMIT("limit: 5/day at UTC, candidate: fixed-window 9/1d"), {{2, 54, "another window would need"}}},
		{LIMIT("limit: 5/day at UTC, candidate: 9/day at Europe/Berlin"), {{2, 54, "another time zone would need"}}},
		{LIMIT("limit: 5/day at Mars/Olympus"), {{2, 38, "Mars/Olympus"}}},
		/* what the script can't do */
		{"store: {redis: '127.0.0.1:1', via: script}\n" BLOCK("  reserve: true\n  count-denied: true\n"
	                                                          "  penalty: [2m] after 3 denials in 1m\n"),
	     {{6, 12, "reserve needs Sluice's module"},
	      {7, 17, "count-denied needs Sluice's module on the nodes: via: script can't do it"},
	      {8, 12, "penalty needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: distinct 1025/1d, of: path"),
	     {{3, 29, "distinct above 1,024 needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: concurrency 1025 lease 1m"),
	     {{3, 29, "concurrency above 1,024 needs Sluice's module on the nodes: via: script can't do it"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: 5/day at UTC"),
	     {{3, 29, "a window of the calendar needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: token-bucket 1/3660d burst 28483"),
	     {{3, 29, "a bucket of so large a burst over so long a window needs Sluice's module on the nodes"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: leaky-bucket 1/3660d queue 28482"),
	     {{3, 29, "a bucket of so large a burst over so long a window needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n"
	     LIMIT("limit: token-bucket 5/3660d burst 2, candidate: token-bucket 5/3660d burst 4G"),
	     {{3, 70, "a bucket of so large a burst over so long a window needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n"
	     LIMIT("limit: concurrency 5 lease 1m, candidate: concurrency 5000 lease 1m"),
	     {{3, 64, "concurrency above 1,024 needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n"
	     LIMIT("limit: distinct 5/1d, of: path, candidate: distinct 5000/1d"),
	     {{3, 65, "distinct above 1,024 needs Sluice's module"}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: distinct 5/1d, of: path, overrides: "
	                                                           "[{when: {path: /a}, limit: distinct 5000/1d}]"),
	     {{3, 29, "distinct above 1,024 needs Sluice's module"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* ---- what is warned of ------------------------------------------------------------------------------------------ */

static void test_warnings(void **state) {
	static const struct row rows[] = {
		{LIMIT("limit: concurrency 5 lease 1d"), {{0}}},
		{LIMIT("limit: concurrency 5 lease 25h"), {{2, 29, "a holder that dies keeps its place"}}},
		{LIMIT("limit: concurrency 5 lease 1m, candidate: concurrency 9 lease 1m"), {{0}}},
		{LIMIT("limit: distinct 1024/1d, of: path"), {{0}}},
		{LIMIT("limit: distinct 1025/1d, of: path"), {{2, 29, "standard error 1.63 %"}}},
		{LIMIT("limit: distinct 1025/1d edge deny, of: path"), {{2, 29, "standard error 1.63 %, some 200 KiB"}}},
		{LIMIT("limit: distinct 1025/1d registers 16384, of: path"), {{2, 29, "standard error 0.82 %, some 800 KiB"}}},
		{LIMIT("limit: distinct 1025/1d registers 1024, of: path"), {{2, 29, "standard error 3.25 %, some 50 KiB"}}},
		{LIMIT("limit: distinct 1025/1d edge allow, of: path"),
	     {{2, 29, "standard error 1.63 %"}, {2, 29, "edge allow is not a bound"}}},
		{LIMIT("limit: distinct 5/1d, of: device"), {{2, 48, "a request without 'device' escapes this limit"}}},
		{"limits: [{name: a, key: ip | path, limit: distinct 5/1d, of: ip}]", {{0}}},
		{LIMIT("limit: distinct 5/1d, of: ip"), {{2, 48, "each counter has one member"}}},
		{LIMIT("limit: 100/1h, penalty: [1s, 30m] after 3 denials in 1m"),
	     {{2, 46, "longer than the longest penalty"}}},
		{LIMIT("limit: 100/1h, penalty: [1s, 1h] after 3 denials in 1m"), {{0}}},
		{LIMIT("limit: token-bucket 100/1h, penalty: [1s, 36s] after 3 denials in 1m"), {{0}}},
		{LIMIT("limit: token-bucket 100/1h, penalty: [1s, 35s] after 3 denials in 1m"), {{2, 59, "longer than"}}},
		{LIMIT("limit: 0/1s, penalty: [1m] after 3 denials in 1m"), {{2, 29, "a quota of 0"}}},
		{"listen: {http: []}\n" BLOCK("  reserve: {actual: header x}\n"), {{6, 21, "never read"}}},
		{"listen: {http: []}\n" BLOCK("  reserve: true\n"), {{0}}},
		{"listen: {resp: []}\n" BLOCK("  reserve: {actual: header x}\n"), {{0}}},
		{LIMIT("limit: 1000/day at Europe/Berlin"), {{2, 3, "up to twice the quota passes"}}},
		{LIMIT("limit: 1000/day at UTC") "- {name: b, key: ip, limit: 10/1m}\n", {{0}}},
		{LIMIT("limit: 1000/day at UTC") "- {name: b, key: user | ip, limit: 10/1m}\n", {{2, 3, "twice"}}},
		{LIMIT("limit: 1000/month") "- {name: b, key: ip, of: path, limit: distinct 10/1m}\n", {{2, 3, "twice"}}},
		{LIMIT("limit: 1000/month") "- {name: b, key: ip, limit: 10/day}\n", {{2, 3, "twice"}, {3, 3, "twice"}}},
		{"store: {redis: '127.0.0.1:1'}\n" BLOCK("  reserve: true\n"),
	     {{6, 12, "reserve needs Sluice's module on the nodes: via: module makes sure of it"}}},
		{"store: {redis: '127.0.0.1:1', via: module}\n" BLOCK("  reserve: true\n"), {{0}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: concurrency 1024 lease 1m"), {{0}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: token-bucket 1/3660d burst 28482"), {{0}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: leaky-bucket 1/3660d queue 28481"), {{0}}},
		{"store: {redis: '127.0.0.1:1', via: script}\n" LIMIT("limit: 4G/3660d"), {{0}}},
	};
	(void)state;
	CHECK_WARNINGS(rows);
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

static const char matched[] =
	"limits:\n"
	"- {name: tokens, key: user | ip, limit: sliding-log 400k/1m, reserve: {ttl: 5s}}\n"
	"- {name: devices, key: user | ip, of: path, limit: distinct 5/1d,\n"
	"   candidate: distinct 3/1d, penalty: [1d] after 3 denials in 1m,\n"
	"   overrides: [{when: {user: vip}, limit: distinct 50/1d}, {when: {user: old}, limit: 5/1d}]}\n"
	"- {name: busy, key: user | ip, limit: concurrency 3 lease 1m}\n"
	"- {name: plain, key: user | ip, limit: 5/1m, count-denied: true}\n";

struct matched {
	struct sluice_match match;
	char buffer[4096];
};

/* Matches `path` (NULL: none) of a user. */
static void match_request(struct matched *in, const struct sluice_policy *policy, const char *user, const char *path) {
	struct sluice_attribute attributes[] = {{sl_str("user"), sl_str(user)},
	                                        {sl_str("path"), sl_str(path == NULL ? "" : path)}};
	assert_int_equal(
		sluice_policy_match(policy, attributes, path == NULL ? 1 : 2, &in->match, in->buffer, sizeof in->buffer),
		SLUICE_OK);
}

static void test_match(void **state) {
	struct sluice_policy *policy = sl_policy_loads(matched);
	struct matched in;
	struct sluice_item candidate;
	uint8_t of;
	(void)state;
	match_request(&in, policy, "u,=", "/a,b=%");
	assert_int_equal(in.match.count, 4);
	const struct sluice_item *items = in.match.items;
	assert_int_equal(items[0].ttl_ns, 5 * second);
	assert_null(items[0].terms);
	assert_null(items[0].member.data);
	assert_ptr_equal(sl_policy_reserve(policy, &in.match, 0), &sl_policy_limit_at(policy, 0)->reserve);
	assert_null(sl_policy_reserve(policy, &in.match, 1));
	/* the member is the value as it is, the key is encoded */
	assert_true(sl_bytes_equal(items[1].member, sl_str("/a,b=%")));
	assert_true(sl_bytes_equal(items[1].key, sl_str("user=u%2C%3D")));
	assert_int_equal(items[1].ttl_ns, 0);
	assert_int_equal(items[1].terms->penalty_count, 1);
	assert_ptr_equal(items[1].terms, &sl_policy_limit_at(policy, 1)->terms);
	assert_string_equal(sl_policy_limit_at(policy, 1)->of, "path");
	assert_null(items[2].terms);
	assert_true(items[3].terms->count_denied);
	assert_int_equal(sl_policy_candidates(policy, &in.match, &candidate, &of, 1), 1);
	assert_int_equal(candidate.limit->quota, 3);
	assert_true(sl_bytes_equal(candidate.member, sl_str("/a,b=%")));
	assert_null(candidate.terms); /* strikes are the limit's own */

	match_request(&in, policy, "u", NULL); /* no member, and not counted */
	assert_int_equal(in.match.count, 3);
	assert_int_equal(in.match.position[1], 2);
	match_request(&in, policy, "u", ""); /* an empty path is the root, and a member */
	assert_int_equal(in.match.count, 4);
	assert_true(sl_bytes_equal(in.match.items[1].member, sl_str("/")));
	match_request(&in, policy, "vip", "/x"); /* an override has its limit's terms */
	assert_int_equal(in.match.items[1].limit->quota, 50);
	assert_non_null(in.match.items[1].terms);
	match_request(&in, policy, "old", NULL); /* and needs no member where it counts requests */
	assert_int_equal(in.match.count, 4);
	assert_null(in.match.items[1].member.data);
	sluice_policy_free(policy);
}

/* A key that fits, and a member that does not. */
static void test_match_room(void **state) {
	struct sluice_policy *policy = sl_policy_loads(LIMIT("limit: distinct 5/1d, of: path"));
	struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("1.2.3.4")}, {sl_str("path"), sl_str("/0123456789")}};
	struct sluice_match match;
	char buffer[64];
	(void)state;
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, 20), SLUICE_E_RANGE);
	assert_int_equal(match.count, 0);
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, 64), SLUICE_OK);
	assert_int_equal(match.count, 1);
	sluice_policy_free(policy);
}

/* What a reset has to forget: one counter of each kind, for whatever calendar and zone. */
static void test_variants(void **state) {
	static const char yaml[] =
		"limits:\n- {name: a, key: ip, limit: 5/day at UTC, of: path, overrides: [\n"
		"   {when: {path: /b}, limit: 9/day}, {when: {path: /c}, limit: 9/day at Europe/Berlin},\n"
		"   {when: {path: /d}, limit: 9/month}, {when: {path: /e}, limit: concurrency 1 lease 1d},\n"
		"   {when: {path: /f}, limit: concurrency 2 lease 1d}, {when: {path: /g}, limit: distinct 3/1d},\n"
		"   {when: {path: /h}, limit: 9/day at Europe/Paris}, {when: {path: /i}, limit: fixed-window 9/1d}]}\n"
		"- {name: b, key: ip, limit: 5/1s}\n";
	const struct sluice_limit *limits[16];
	struct sluice_policy *policy = sl_policy_loads(yaml);
	(void)state;
	assert_int_equal(sl_policy_limit_variants(policy, 0, limits, 16), 7);
	assert_int_equal(limits[3]->algorithm, SLUICE_CONCURRENCY);
	assert_int_equal(limits[4]->algorithm, SLUICE_DISTINCT);
	assert_int_equal(limits[5]->window_ns, limits[1]->window_ns); /* of another zone, as long as the one before */
	assert_int_equal(limits[6]->window_ns, limits[0]->window_ns); /* of no calendar */
	sluice_policy_free(policy);
}

int main(void) {
	sl_zone_use_host();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_penalties), cmocka_unit_test(test_brackets),   cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_refused),   cmocka_unit_test(test_warnings),   cmocka_unit_test(test_match),
		cmocka_unit_test(test_variants),  cmocka_unit_test(test_match_room), cmocka_unit_test(test_refused_penalties),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
