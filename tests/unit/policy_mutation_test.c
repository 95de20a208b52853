/* Damaged policy files: a good file with bytes changed, put in, taken out, doubled and moved, some tens of thousands of
 * times. Whatever comes of it is refused with mistakes that have a place and words, or loads and matches; and a file
 * that loads is the same each time it is loaded. */
#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 20000, YAML_BYTES_MAX = 8192 };

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Every key that there is. */
static const char good[] =
	"listen:\n"
	"  resp: [\"127.0.0.1:7379\", {address: 'unix:/run/s', mode: 0600}]\n"
	"  http: {address: 127.0.0.1:80, tls: true, proxy-protocol: true, headers: [draft7, draft6], unprotected: false}\n"
	"tls: {certificate: c.pem, key: k.pem, client-ca: ca.pem}\n"
	"users:\n"
	"  - {name: api, password: \"pbkdf2-sha256:1000:0123456789abcdef0123456789abcdef:" HASH
	"\", roles: [check, read]}\n"
	"  - {name: top, token: sha256:" HASH ", role: admin}\n"
	"anonymous: [check]\n"
	"headers: [draft10, legacy-delta]\n"
	"client-address: forwarded\n"
	"near-limit: 5%\n"
	"observe: false\n"
	"drain: 5s\n"
	"connections: {max: 20000, per-address: 1000, idle: 5m, request: 10s, write: 10s}\n"
	"log: {format: json, denials: /d, denials-per-key: 10s, denials-per-second: 100, denials-size: 64MiB}\n"
	"store: {memory: 256MiB, blocks: 40%, redis: [\"10.0.0.1:6379\", unix:/r], prefix: 'x:', via: module, budget: "
	"20ms,\n"
	"  slices: true, slice: 1s, ready-after: 5s,\n"
	"  user: me, password-file: /p, tls: {ca: c.pem, certificate: /a, key: /b}}\n"
	"trusted-proxies: [127.0.0.0/8, \"::1/128\"]\n"
	"attributes:\n"
	"  user: header x-user-id\n"
	"threads: 2\n"
	"client-time: false\n"
	"ipv6-prefix: 56\n"
	"limits:\n"
	"  - name: login\n"
	"    when: {method: POST, path: [/login, \"/a\\x62*\"]}\n"
	"    key: ip\n"
	"    limit: sliding-log 5/1m\n"
	"    candidate: sliding-log 4/1m\n"
	"    on-error: deny\n"
	"    stagger: true\n"
	"    strict: true\n"
	"    penalty: [1m, 10m, 1h] after 3 denials in 1m forgive 1d\n"
	"    count-denied: true\n"
	"  - {name: tokens, key: ip, limit: 400k/day at UTC, penalty: {steps: [1d, 2d], after: 3, in: 1m, forgive: 1d},\n"
	"     reserve: {ttl: 60s, actual: header x-used, estimate: [header x-max, 500]}}\n"
	"  - {name: devices, key: ip, limit: distinct 5/1d, of: path, penalty: [1s,1d] after 1 denial in 1s, reserve: "
	"false}\n"
	"  - {name: busy, key: ip, limit: concurrency 5 lease 30s}\n"
	"  - name: per-user # two\n"
	"    key: [user | ip, path]\n"
	"    limit: |-\n"
	"      600/1m\n"
	"    observe: true\n"
	"    overrides:\n"
	"      - {when: {plan: pro}, limit: 6000/1m, observe: false}\n"
	"      - {when: {user: [alice, bob]}, limit: unlimited}\n";

static size_t below(size_t n) {
	return (size_t)random() % n;
}

static size_t mutate(char *text, size_t len) {
	static const char spice[] = "{}[]:,-*&!|>'\"%@`#? \n\t\r\0\x80\xff\xc3~<0";
	size_t at = below(len), from = below(len), run = 1 + below(12);
	run = run < len - from ? run : len - from;
	run = run < len - at ? run : len - at;
	switch (below(6)) {
	case 0:
		text[at] = spice[below(sizeof spice)];
		return len;
	case 1:
		text[at] = (char)random();
		return len;
	case 2: /* take out */
		memmove(text + at, text + at + run, len - at - run);
		return len - run;
	case 3: /* put in */
		if (len + 1 > YAML_BYTES_MAX)
			return len;
		memmove(text + at + 1, text + at, len - at);
		text[at] = spice[below(sizeof spice)];
		return len + 1;
	case 4: /* copy over */
		memmove(text + at, text + from, run);
		return len;
	default: /* cut off */
		return below(8) == 0 ? at + 1 : len;
	}
}

static void check_problems(const struct sluice_problems *problems, bool loaded) {
	bool mistakes = false;
	for (size_t i = 0; i < problems->count; i++) {
		const struct sluice_problem *problem = &problems->list[i], *before = problem - 1;
		assert_true(problem->line >= 1 && problem->column >= 1);
		assert_true(problem->text[0] != '\0' && memchr(problem->text, '\0', sizeof problem->text) != NULL);
		assert_true(strpbrk(problem->text, "\n\r\t") == NULL);
		if (i > 0)
			assert_true(before->line < problem->line ||
			            (before->line == problem->line && before->column <= problem->column));
		mistakes |= !problem->warning;
	}
	assert_int_equal(mistakes, !loaded);
}

static uint32_t try_match(const struct sluice_policy *policy, char *keys, size_t bytes) {
	const struct sluice_attribute attributes[] = {
		{sl_str("method"), sl_str("POST")}, {sl_str("path"), sl_str("/login")}, {sl_str("ip"), sl_str("1.2.3.4")},
		{sl_str("user"), sl_str("carol")},  {sl_str("plan"), sl_str("pro")},
	};
	struct sluice_match match;
	assert_int_equal(sluice_policy_match(policy, attributes, 5, &match, keys, bytes), SLUICE_OK);
	for (uint32_t i = 0; i < match.count; i++) {
		assert_non_null(sluice_policy_limit_name(policy, match.position[i]));
		assert_int_equal(match.items[i].member.data != NULL, match.items[i].limit->algorithm == SLUICE_DISTINCT);
	}
	return match.count;
}

/* What holds of any settings, and that two readings agree. */
static void check_settings(const struct sl_settings *a, const struct sl_settings *b) {
	assert_in_range(a->listen_count, 1, SL_LISTENS_MAX);
	assert_int_equal(a->listen_count, b->listen_count);
	for (uint32_t i = 0; i < a->listen_count; i++) {
		assert_string_equal(a->listens[i].address, b->listens[i].address);
		assert_true(i == 0 || a->listens[i - 1].door <= a->listens[i].door);
		assert_true(a->listens[i].mode <= 0777);
		assert_true(!a->listens[i].tls || a->tls_certificate != NULL);
		assert_int_equal(a->listens[i].forms, b->listens[i].forms);
	}
	assert_int_equal(a->tls_certificate == NULL, a->tls_key == NULL);
	assert_int_equal(a->user_count, b->user_count);
	for (uint32_t i = 0; i < a->user_count; i++) {
		assert_in_range(a->users[i].roles, 1, SL_ROLE_ALL);
		assert_in_range(a->users[i].name.len, 1, 64);
		assert_int_equal(a->users[i].secret.kind, a->users[i].is_token ? SL_SECRET_SHA256 : SL_SECRET_PBKDF2);
		assert_memory_equal(a->users[i].secret.hash, b->users[i].secret.hash, 32);
	}
	assert_true(a->anonymous <= SL_ROLE_ALL && a->near_percent <= 100);
}

static void check_redis(const struct sl_settings *settings, const struct sl_redis_settings *b) {
	const struct sl_redis_settings *a = &settings->redis;
	assert_true(a->address_count <= SL_REDIS_ADDRESSES_MAX);
	assert_int_equal(a->address_count, b->address_count);
	for (uint32_t i = 0; i < a->address_count; i++)
		assert_string_equal(a->addresses[i], b->addresses[i]);
	assert_string_equal(a->prefix, b->prefix);
	assert_true(strlen(a->prefix) <= 64 && a->via <= SL_VIA_SCRIPT);
	assert_in_range(a->budget_ns, 1000000, 10000000000);
	assert_in_range(a->slice_ns, 10000000, 10000000000);
	assert_in_range(a->ready_after_ns, 0, 3600000000000);
	assert_int_equal(a->tls_certificate == NULL, a->tls_key == NULL);
	assert_true(a->tls || (a->tls_ca == NULL && a->tls_key == NULL));
	assert_true(a->user == NULL || a->password_file != NULL);
	assert_true(a->address_count == 0 || (settings->store_file == NULL && settings->store_shared == NULL));
}

static void try_file(struct sluice_bytes yaml, unsigned *loaded) {
	static char keys[SLUICE_MATCH_BYTES_MAX];
	struct sluice_policy *policy = NULL, *again = NULL;
	struct sluice_problems problems;
	sluice_err err = sluice_policy_load(&policy, yaml, &problems);
	assert_true(err == SLUICE_OK || err == SLUICE_E_SYNTAX);
	check_problems(&problems, err == SLUICE_OK);
	sluice_problems_free(&problems);
	if (err != SLUICE_OK)
		return;
	++*loaded;
	assert_int_equal(sluice_policy_load(&again, yaml, NULL), SLUICE_OK);
	assert_int_equal(sl_policy_limit_count(policy), sl_policy_limit_count(again));
	check_settings(sl_policy_settings(policy), sl_policy_settings(again));
	check_redis(sl_policy_settings(policy), &sl_policy_settings(again)->redis);
	for (uint32_t i = 0; i < sl_policy_limit_count(policy); i++) {
		const struct sl_policy_limit *a = sl_policy_limit_at(policy, i), *b = sl_policy_limit_at(again, i);
		assert_string_equal(a->name, b->name);
		assert_string_equal(a->when_text, b->when_text);
		assert_memory_equal(&a->limit, &b->limit, sizeof a->limit);
		assert_int_equal(a->has_candidate, b->has_candidate);
		assert_memory_equal(&a->candidate, &b->candidate, sizeof a->candidate);
		assert_string_equal(a->terms_text, b->terms_text);
		assert_int_equal(a->of == NULL, b->of == NULL);
	}
	assert_int_equal(try_match(policy, keys, sizeof keys), try_match(again, keys, sizeof keys));
	sluice_policy_free(policy);
	sluice_policy_free(again);
}

static void test_mutations(void **state) {
	const char *chosen = getenv("SLUICE_SEED");
	unsigned seed = chosen == NULL ? 20240504 : (unsigned)strtoul(chosen, NULL, 10), loaded = 0;
	(void)state;
	try_file(sl_slice(good, sizeof good - 1), &loaded);
	assert_int_equal(loaded, 1);
	print_message("seed %u (SLUICE_SEED sets it)\n", seed);
	srandom(seed);
	for (unsigned i = 0; i < ROUNDS; i++) {
		char text[YAML_BYTES_MAX];
		size_t len = sizeof good - 1;
		memcpy(text, good, len);
		for (size_t count = 1 + below(4); count > 0 && len > 0; count--)
			len = mutate(text, len);
		char *exact = malloc(len); /* so that a sanitizer sees one byte too many */
		assert_non_null(exact);
		memcpy(exact, text, len);
		try_file(sl_slice(exact, len), &loaded);
		free(exact);
	}
	print_message("%u of %u damaged files loaded all the same\n", loaded, (unsigned)ROUNDS);
	assert_in_range(loaded, ROUNDS / 100, ROUNDS * 9 / 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
