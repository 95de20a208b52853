/* Commands of a front, word by word, and what it takes for an answer. */
#include "hosts/server/remote/plan.h"

#include "algo/rule.h"
#include "policy/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct row {
	const char *limit, *key, *name;
	uint8_t observed;
};

struct commands {
	struct row rows[4];
	enum sl_operation verb;
	bool dated;
	const char *expected; /* keys, then `:`, then verb and words */
};

static const struct commands table[] = {
	{{{"10/1s", "a", NULL, 0}}, SL_OP_CHECK, false, "p:a : CHECK 7 EXACT sliding-window 10/1s"},
	{{{"10/1s", "a", NULL, 0}}, SL_OP_PEEK, true, "p:a : PEEK 7 AT 1234 EXACT sliding-window 10/1s"},
	{{{"10/1s", "a", "n", 0}}, SL_OP_REFUND, false, "p:a : REFUND 7 EXACT NAME n sliding-window 10/1s"},
	{{{"10/1s", "a", "n", 0}}, SL_OP_RESET, false, "p:a : RESET NAME n sliding-window 10/1s"},
	{{{"10/1s", "", NULL, 0}}, SL_OP_RESET, true, "p: : RESET AT 1234 sliding-window 10/1s"},
	{{{"10/1s", "a", NULL, 0},
      {"sliding-log 5/1m", "b", "n", SLUICE_OBSERVED},
      {"5/1m", "b", "n", SLUICE_TRIED},
      {"5/2m", "a", NULL, 0}},
     SL_OP_HOLD,
     true,
     "p:a p:b : HOLD 7 00000000000000ff 3000 AT 1234 UPTO sliding-window 10/1s KEY p:b NAME n OBSERVED sliding-log "
     "5/1m "
     "NAME n TRIED sliding-window 5/1m KEY p:a sliding-window 5/2m"},
	{{{"10/1s", "a", NULL, 0}},
     SL_OP_CONFIRM, false, "p:a : CONFIRM 7 00000000000000ff EXACT KEEP sliding-window 10/1s"},
	{{{"unlimited", "a", NULL, 0}}, SL_OP_BESIDE, true, "p:a : PEEK 7 AT 1234 EXACT BESIDE 00000000000000ff unlimited"},
	{{{"10/1s", "a", NULL, 0}}, SL_OP_CANCEL, true, "p:a : CANCEL 00000000000000ff AT 1234 sliding-window 10/1s"},
	{{{"10/1s", "a", "n", 0}},
     SL_OP_LEASE, false, "p:a : LEASE 00000000000000ff 3000 40 50 NAME n sliding-window 10/1s"},
};

static size_t print_words(char *text, size_t at, const struct sluice_bytes *words, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		memcpy(text + at, words[i].data, words[i].len);
		at += words[i].len;
		text[at++] = ' ';
	}
	return at;
}

static void check_row(const struct commands *row) {
	struct sluice_limit limits[4];
	struct sluice_item items[4];
	struct sl_plan_item plan[4];
	struct sl_head head = {
		.cost = 7, .spent = 40, .want = 50, .ttl_ms = 3000, .id = 255, .dated = row->dated, .now = 1234999999};
	char text[1024];
	uint32_t count = 0;
	size_t at;
	for (; count < 4 && row->rows[count].limit != NULL; count++) {
		const struct row *r = &row->rows[count];
		assert_int_equal(sluice_limit_parse(&limits[count], sl_str(r->limit), NULL), SLUICE_OK);
		items[count] = (struct sluice_item){.limit = &limits[count], .key = sl_str(r->key), .observed = r->observed};
		plan[count] = (struct sl_plan_item){&items[count], r->name, (uint8_t)count};
	}
	struct sl_group *group = sl_group_new(plan, count, "p:");
	assert_non_null(group);
	sl_group_say(group, SL_OP_HOLD, &head); /* the one before leaves no trace */
	sl_group_say(group, row->verb, &head);
	if (strstr(row->expected, " EXACT ") == NULL)
		assert_int_equal(group->ask.exact, 0);
	else
		assert_true(sl_bytes_equal(group->ask.words[group->ask.exact - 1], sl_str("EXACT")));
	at = print_words(text, 0, group->ask.keys, group->ask.key_count);
	at += (size_t)snprintf(text + at, sizeof text - at, ": %s ", group->ask.verb);
	at = print_words(text, at, group->ask.words, group->ask.word_count);
	text[at - 1] = '\0';
	assert_string_equal(text, row->expected);
	assert_int_equal(group->item_count, count);
	free(group);
}

static void test_commands_word_by_word(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		check_row(&table[i]);
}

/* What a script is told as bytes, and what takes words. */
static void test_who_is_one_plain_limit(void **state) {
	static const struct {
		const char *limit;
		enum sl_operation verb;
		uint8_t observed, kind;
		bool dated, upto;
	} rows[] = {
		{"10/1s", SL_OP_CHECK, 0, 'W', false, false},
		{"fixed-window 10/1s", SL_OP_PEEK, 0, 'F', false, false},
		{"sliding-log 10/1s", SL_OP_CHECK, 0, 'L', false, false},
		{"4294967295/34m", SL_OP_CHECK, 0, 'W', false, false}, /* below 2^53 */
		{"4294967295/35m", SL_OP_CHECK, 0, 0, false, false},
		{"0/1s", SL_OP_CHECK, 0, 0, false, false},
		{"10/1s spread", SL_OP_CHECK, 0, 0, false, false},
		{"10/day", SL_OP_CHECK, 0, 0, false, false},
		{"token-bucket 10/1s", SL_OP_CHECK, 0, 0, false, false},
		{"unlimited", SL_OP_CHECK, 0, 0, false, false},
		{"10/1s", SL_OP_CHECK, SLUICE_OBSERVED, 0, false, false},
		{"10/1s", SL_OP_CHECK, 0, 0, true, false},
		{"10/1s", SL_OP_CHECK, 0, 0, false, true},
		{"10/1s", SL_OP_REFUND, 0, 0, false, false},
		{"10/1s", SL_OP_BESIDE, 0, 0, false, false},
		{"10/1s", SL_OP_HOLD, 0, 0, false, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sluice_limit limit;
		assert_int_equal(sluice_limit_parse(&limit, sl_str(rows[i].limit), NULL), SLUICE_OK);
		const struct sluice_item item = {.limit = &limit, .key = sl_str("a"), .observed = rows[i].observed};
		const struct sl_plan_item plan = {&item, "n", 0};
		const struct sl_head head = {.cost = 7, .dated = rows[i].dated, .upto = rows[i].upto};
		struct sl_group *group = sl_group_new(&plan, 1, "p:");
		assert_non_null(group);
		sl_group_say(group, rows[i].verb, &head);
		if (rows[i].kind == 0) {
			assert_null(group->ask.one);
		} else {
			assert_non_null(group->ask.one);
			assert_int_equal(group->ask.one->kind, rows[i].kind);
			assert_int_equal(group->ask.one->charges, rows[i].verb == SL_OP_CHECK);
			assert_int_equal(group->ask.one->cost, 7);
			assert_int_equal(group->ask.one->quota, limit.quota);
			assert_int_equal(group->ask.one->window_ms, limit.window_ns / 1000000);
			assert_true(sl_bytes_equal(group->ask.one->name, sl_str("n")));
		}
		free(group);
	}
}

/* What a whole call says of itself and of its items. */
static void test_a_whole_call_is_one_command(void **state) {
	static const struct {
		enum sl_operation verb;
		bool upto;
		const char *id, *expected;
	} rows[] = {
		{SL_OP_CHECK, true, "t", "p:a : CHECK 7 EXACT UPTO ID t "},
		{SL_OP_CHECK, false, "", "p:a : CHECK 7 EXACT "},
		{SL_OP_PEEK, true, "", "p:a : PEEK 7 EXACT UPTO "},
		{SL_OP_ACQUIRE, false, "job 1", "p:a : ACQUIRE 7 EXACT ID ba33032f4a654ff0 "},
		{SL_OP_RESERVE, false, "job", "p:a : RESERVE 7 3000 EXACT ID 66b261a88d5b5c7f "},
		{SL_OP_ACQUIRE, true, "job", "p:a : ACQUIRE 7 EXACT UPTO ID 66b261a88d5b5c7f "},
		{SL_OP_RESERVE, true, "job", "p:a : RESERVE 7 3000 EXACT UPTO ID 66b261a88d5b5c7f "},
		{SL_OP_RELEASE, false, "0123456789abcdef", "p:a : RELEASE 0123456789abcdef "},
		{SL_OP_RENEW, false, "job", "p:a : RENEW 66b261a88d5b5c7f "},
	};
	static const char tail[] =
		"TERMS count-denied; penalty [1m, 2m] after 3 denials in 1m forgive 2m COST 500 TTL 60000 "
		"MEMBER m concurrency 20 lease 30s";
	struct sluice_terms terms = {.count_denied = true,
	                             .penalty_count = 2,
	                             .after = 3,
	                             .within_ns = 60000000000,
	                             .forgive_ns = 120000000000,
	                             .penalties_ns = {60000000000, 120000000000}};
	struct sluice_limit limit;
	struct sluice_item item = {.limit = &limit,
	                           .key = sl_str("a"),
	                           .member = sl_str("m"),
	                           .terms = &terms,
	                           .cost = 500,
	                           .ttl_ns = 60000000000};
	struct sl_plan_item plan = {.item = &item};
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("concurrency 20 lease 30s"), NULL), SLUICE_OK);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct sl_head head = {.cost = 7, .ttl_ms = 3000, .of = sl_str(rows[i].id), .upto = rows[i].upto};
		struct sl_group *group = sl_group_new(&plan, 1, "p:");
		char text[1024], expected[1024];
		size_t at;
		assert_non_null(group);
		sl_group_say(group, rows[i].verb, &head);
		at = print_words(text, 0, group->ask.keys, group->ask.key_count);
		at += (size_t)snprintf(text + at, sizeof text - at, ": %s ", group->ask.verb);
		at = print_words(text, at, group->ask.words, group->ask.word_count);
		text[at - 1] = '\0';
		snprintf(expected, sizeof expected, "%s%s", rows[i].expected, tail);
		assert_string_equal(text, expected);
		if (strstr(text, "E 7 EXACT UPTO") == NULL && strstr(text, "3000 EXACT UPTO") == NULL)
			assert_int_equal(group->ask.part, 0);
		else
			assert_true(sl_bytes_equal(group->ask.words[group->ask.part - 1], sl_str("UPTO")));
		free(group);
	}
}

static void test_the_counter_of_throttle_has_a_name_of_its_own(void **state) {
	struct sluice_limit limit;
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sl_plan_item plan = {.item = &item};
	struct sl_head head = {.cost = 1};
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("token-bucket 30/1m burst 16"), NULL), SLUICE_OK);
	sl_rule_throttle(&limit);
	struct sl_group *group = sl_group_new(&plan, 1, "");
	assert_non_null(group);
	sl_group_say(group, SL_OP_CHECK, &head);
	assert_int_equal(group->ask.word_count, 5);
	assert_true(sl_bytes_equal(group->ask.words[2], sl_str("NAME")));
	assert_true(sl_bytes_equal(group->ask.words[3], sl_str("CL.THROTTLE 30")));
	free(group);
}

static void test_the_longest_keys_fit(void **state) {
	static char key[SLUICE_KEY_BYTES_MAX];
	struct sluice_limit limit;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sl_plan_item plan[SLUICE_ITEMS_MAX];
	(void)state;
	assert_int_equal(
		sluice_limit_parse(&limit, sl_str("sliding-buckets 4294967295/3660d precision 1098d edge weighted"), NULL),
		SLUICE_E_RANGE);
	assert_int_equal(
		sluice_limit_parse(&limit, sl_str("sliding-buckets 4294967295/3660d precision 1830d edge weighted"), NULL),
		SLUICE_OK);
	memset(key, '{', sizeof key);
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++) {
		items[i] = (struct sluice_item){.limit = &limit, .key = sl_slice(key, sizeof key - i)};
		plan[i] = (struct sl_plan_item){&items[i], "a-name", (uint8_t)i};
	}
	struct sl_group *group = sl_group_new(plan, SLUICE_ITEMS_MAX, "prefix");
	assert_non_null(group);
	assert_int_equal(group->ask.key_count, SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
		assert_int_equal(group->keys[i].len, SLUICE_KEY_BYTES_MAX);
	free(group);
}

/* Of a policy's key no `{` makes a hash tag; of one that is brought along it does. What is too long is folded, with its
 * prefix, and keeps its tag. */
static void test_keys_in_redis(void **state) {
	static const struct {
		const char *prefix, *key, *name, *expected;
		size_t more; /* so many z behind the key */
	} rows[] = {
		{"s:", "user=a", "n", "s:user=a", 0},
		{"s:", "user={b}", "n", "s:user=%7Bb}", 0},
		{"{t}:", "user={b},path={", "n", "{t}:user=%7Bb},path=%7B", 0},
		{"s:", "user=%257B{", "n", "s:user=%257B%7B", 0},
		{"s:", "{b}:a", NULL, "s:{b}:a", 0},
		{"", "", "n", "", 0},
		{"s:", "user={b}", "n", "s:user=%7Bb}z", SLUICE_KEY_BYTES_MAX - 12},
		{"s:", "user={b}", "n", "s:user=%7Bb}z", SLUICE_KEY_BYTES_MAX - 8},
		{"s:", "{b}", NULL, "s:{b}z", SLUICE_KEY_BYTES_MAX - 3},
	};
	struct sluice_limit limit;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("1/1s"), NULL), SLUICE_OK);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char key[SLUICE_KEY_BYTES_MAX], text[SL_PLAN_KEY_ROOM], whole[SL_PLAN_KEY_ROOM], folded[SLUICE_KEY_BYTES_MAX];
		size_t len = strlen(rows[i].key), told = strlen(rows[i].expected), stem = told - (rows[i].more != 0);
		memset(key, 'z', sizeof key);
		memcpy(key, rows[i].key, len);
		struct sluice_item item = {.limit = &limit, .key = sl_slice(key, len + rows[i].more)};
		struct sl_plan_item plan = {&item, rows[i].name, 0};
		struct sluice_bytes got = sl_plan_key(text, rows[i].prefix, &plan);
		memset(whole, 'z', sizeof whole);
		memcpy(whole, rows[i].expected, told);
		struct sluice_bytes expected = sl_key_fold(folded, sl_slice(whole, stem + rows[i].more));
		assert_int_equal(got.len, expected.len);
		assert_memory_equal(got.data, expected.data, got.len);
		assert_int_equal(sl_plan_folds(rows[i].prefix, &plan), stem + rows[i].more > SLUICE_KEY_BYTES_MAX);
		struct sl_group *group = sl_group_new(&plan, 1, rows[i].prefix); /* says the same */
		assert_true(sl_bytes_equal(group->keys[0], expected));
		free(group);
		if (rows[i].name != NULL && got.len < SLUICE_KEY_BYTES_MAX) {
			size_t prefix = strlen(rows[i].prefix), undone = sl_plan_key_undo(text + prefix, got.len - prefix);
			assert_true(sl_bytes_equal(sl_slice(text + prefix, undone), item.key));
		}
	}
}

static const int64_t fine[] = {1, 10, 9, 0, 1000, 0, 100};

static bool takes(enum sl_operation verb, uint32_t items, uint32_t count, size_t at, int64_t value) {
	int64_t numbers[2 * SL_EACH_NUMBERS + 1] = {5};
	struct sl_answer answer = {.kind = SL_ANSWER_NUMBERS, .count = count, .numbers = numbers};
	bool lease = verb == SL_OP_LEASE;
	memcpy(numbers + lease, fine, sizeof fine);
	memcpy(numbers + lease + SL_EACH_NUMBERS, fine, (SL_EACH_NUMBERS - (size_t)lease) * sizeof fine[0]);
	if (at < sizeof numbers / sizeof numbers[0])
		numbers[at] = value;
	return sl_plan_is_answer(verb, &answer, items);
}

static void test_answers_that_can_not_be(void **state) {
	struct sl_answer error = {.kind = SL_ANSWER_ERROR};
	(void)state;
	assert_true(takes(SL_OP_CHECK, 1, 7, 99, 0));
	assert_true(takes(SL_OP_CHECK, 2, 14, 99, 0));
	assert_true(takes(SL_OP_LEASE, 1, 8, 99, 0));
	assert_true(takes(SL_OP_RESET, 2, 1, 0, 2));
	assert_false(takes(SL_OP_CHECK, 1, 14, 99, 0));
	assert_false(takes(SL_OP_CHECK, 2, 7, 99, 0));
	assert_false(takes(SL_OP_LEASE, 1, 7, 99, 0));
	assert_false(takes(SL_OP_RESET, 1, 2, 99, 0));
	assert_false(takes(SL_OP_RESET, 1, 1, 0, -1));
	assert_false(takes(SL_OP_CANCEL, 1, 1, 0, (int64_t)UINT32_MAX + 1));
	assert_true(takes(SL_OP_HOLD, 1, SL_HOLD_NUMBERS, SL_HOLD_NUMBERS - 1, UINT32_MAX));
	assert_false(takes(SL_OP_HOLD, 1, SL_HOLD_NUMBERS, SL_HOLD_NUMBERS - 1, -1));
	assert_false(takes(SL_OP_HOLD, 1, SL_HOLD_NUMBERS, SL_HOLD_NUMBERS - 2, (int64_t)UINT32_MAX + 1));
	assert_false(takes(SL_OP_HOLD, 1, SL_EACH_NUMBERS, 0, 1));
	assert_false(takes(SL_OP_CHECK, 1, 7, 1, -1));
	assert_false(takes(SL_OP_CHECK, 1, 7, 1, (int64_t)UINT32_MAX + 2));
	assert_true(takes(SL_OP_CHECK, 1, 7, 1, (int64_t)UINT32_MAX + 1)); /* leaky-bucket */
	assert_false(takes(SL_OP_CHECK, 1, 7, 2, (int64_t)UINT32_MAX + 1));
	assert_false(takes(SL_OP_CHECK, 1, 7, 3, -2));
	assert_false(takes(SL_OP_CHECK, 2, 14, 13, -2));
	assert_false(takes(SL_OP_LEASE, 1, 8, 0, -1));
	assert_false(sl_plan_is_answer(SL_OP_CHECK, &error, 1));
}

static void test_a_node_says_which_bound_was_met(void **state) {
	int64_t numbers[] = {2 * SLUICE_BOUND_ROOM, 10, 0, 100, 100, 0, 0};
	struct sluice_decision d = sl_plan_decision(numbers, SL_EACH_NUMBERS, 0);
	(void)state;
	assert_false(d.allowed);
	assert_int_equal(d.bound, SLUICE_BOUND_ROOM);
	numbers[0] = 2 * SLUICE_BOUND_KEY + 1;
	d = sl_plan_decision(numbers, SL_EACH_NUMBERS, 0);
	assert_true(d.allowed);
	assert_int_equal(d.bound, SLUICE_BOUND_KEY);
	assert_true(takes(SL_OP_CHECK, 1, 7, 0, 2 * SLUICE_BOUNDS - 1));
	assert_false(takes(SL_OP_CHECK, 1, 7, 0, 2 * SLUICE_BOUNDS));
	assert_false(takes(SL_OP_CHECK, 1, 7, 0, -1));
}

static void test_waits_become_ns(void **state) {
	int64_t numbers[] = {0, 10, 3, -1, INT64_MAX, 25, 7};
	struct sluice_decision d = sl_plan_decision(numbers, SL_EACH_NUMBERS, 4);
	(void)state;
	assert_false(d.allowed);
	assert_int_equal(d.index, 4);
	assert_int_equal(d.quota, 10);
	assert_int_equal(d.remaining, 3);
	assert_int_equal(d.retry_after_ns, SLUICE_NEVER);
	assert_int_equal(d.reset_after_ns, SLUICE_NEVER - 1);
	assert_int_equal(d.delay_ns, 25000000);
	assert_int_equal(d.next_after_ns, 7000000);
}

/* What a wait was rounded up by comes behind the seven, where the node says it. */
static void test_exact_waits(void **state) {
	int64_t numbers[2 * SL_EXACT_NUMBERS + SL_OUTCOME_NUMBERS] = {0, 10, 3, 141, 200, 0, 7, 571428,
	                                                              1, 10, 3, 0,   200, 0, 7, 0};
	struct sl_answer answer = {.kind = SL_ANSWER_NUMBERS, .count = 2 * SL_EXACT_NUMBERS, .numbers = numbers};
	(void)state;
	assert_int_equal(sl_plan_stride(7, 1), SL_EACH_NUMBERS);
	assert_int_equal(sl_plan_stride(8 * 16, 16), SL_EXACT_NUMBERS);
	assert_int_equal(sl_plan_stride(15, 2), 0);
	assert_int_equal(sl_plan_decision(numbers, SL_EXACT_NUMBERS, 0).retry_after_ns, 140428572);
	assert_int_equal(sl_plan_decision(numbers, SL_EACH_NUMBERS, 0).retry_after_ns, 141000000);
	assert_true(sl_plan_is_answer(SL_OP_CHECK, &answer, 2));
	answer.count += SL_OUTCOME_NUMBERS;
	assert_true(sl_plan_is_outcome(&answer, 2));
	answer.count -= SL_OUTCOME_NUMBERS;
	numbers[7] = 1000000;
	assert_false(sl_plan_is_answer(SL_OP_CHECK, &answer, 2));
	numbers[7] = -1;
	assert_false(sl_plan_is_answer(SL_OP_CHECK, &answer, 2));
	numbers[7] = 0;
	numbers[15] = 1; /* of a wait that is none */
	assert_false(sl_plan_is_answer(SL_OP_CHECK, &answer, 2));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands_word_by_word),
		cmocka_unit_test(test_who_is_one_plain_limit),
		cmocka_unit_test(test_a_whole_call_is_one_command),
		cmocka_unit_test(test_the_counter_of_throttle_has_a_name_of_its_own),
		cmocka_unit_test(test_the_longest_keys_fit),
		cmocka_unit_test(test_keys_in_redis),
		cmocka_unit_test(test_answers_that_can_not_be),
		cmocka_unit_test(test_a_node_says_which_bound_was_met),
		cmocka_unit_test(test_waits_become_ns),
		cmocka_unit_test(test_exact_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
