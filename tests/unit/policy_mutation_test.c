/* Damaged policy files: a good file with bytes changed, put in, taken out, doubled and moved, some tens of thousands of
 * times. Whatever comes of it is refused with mistakes that have a place and words, or loads and matches; and a file
 * that loads is the same each time it is loaded. */
#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 20000, YAML_BYTES_MAX = 4096 };

static const char good[] = "listen: {resp: \"127.0.0.1:7379\", http: 'unix:/run/s'}\n"
						   "store: {memory: 256MiB, file: /x}\n"
						   "trusted-proxies: [127.0.0.0/8, \"::1/128\"]\n"
						   "attributes:\n"
						   "  user: header x-user-id\n"
						   "threads: 2\n"
						   "client-time: false\n"
						   "limits:\n"
						   "  - name: login\n"
						   "    when: {method: POST, path: [/login, \"/a\\x62*\"]}\n"
						   "    key: ip\n"
						   "    limit: sliding-log 5/1m\n"
						   "    on-error: deny\n"
						   "  - name: per-user # two\n"
						   "    key: [user | ip, path]\n"
						   "    limit: |-\n"
						   "      600/1m\n"
						   "    observe: true\n"
						   "    overrides:\n"
						   "      - {when: {plan: pro}, limit: 6000/1m}\n"
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
	for (uint32_t i = 0; i < match.count; i++)
		assert_non_null(sluice_policy_limit_name(policy, match.position[i]));
	return match.count;
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
	for (uint32_t i = 0; i < sl_policy_limit_count(policy); i++) {
		const struct sl_policy_limit *a = sl_policy_limit_at(policy, i), *b = sl_policy_limit_at(again, i);
		assert_string_equal(a->name, b->name);
		assert_string_equal(a->when_text, b->when_text);
		assert_memory_equal(&a->limit, &b->limit, sizeof a->limit);
	}
	assert_int_equal(try_match(policy, keys, sizeof keys), try_match(again, keys, sizeof keys));
	sluice_policy_free(policy);
	sluice_policy_free(again);
}

static void test_mutations(void **state) {
	const char *chosen = getenv("SLUICE_SEED");
	unsigned seed = chosen == NULL ? 20240504 : (unsigned)strtoul(chosen, NULL, 10), loaded = 0;
	(void)state;
	print_message("seed %u (SLUICE_SEED sets it)\n", seed);
	srandom(seed);
	for (unsigned i = 0; i < ROUNDS; i++) {
		char text[YAML_BYTES_MAX];
		size_t len = sizeof good - 1;
		memcpy(text, good, len);
		for (size_t count = 1 + below(4); count > 0; count--)
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
