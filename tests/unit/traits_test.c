/* The table of the algorithms (algo/traits.h) says what each of them does: here each trait is compared with what a
 * counter of that algorithm is seen to do. */
#include "algo/bundle.h"
#include "algo/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* In the middle of a second, a quarter of a millisecond in. */
#define START_NS (UINT64_C(1800000000) * 1000000000 + 500250000)

enum { NUMBERS = 32, BLOCK_BYTES_MAX = 1 << 16 };

static const char *const texts[] = {
	"unlimited",          "fixed-window 9/10s", "sliding-window 9/10s",      "sliding-buckets 9/10s precision 1s",
	"sliding-log 9/10s",  "token-bucket 9/10s", "leaky-bucket 9/10s queue 8", "concurrency 9 lease 10s",
	"distinct 9/10s",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

/* Memory for blocks, which are given back together, with the next limit. */
static uint64_t blocks[4][BLOCK_BYTES_MAX / 8];
static uint32_t blocks_used;

static void *block_of(uint64_t bytes) {
	assert_true(bytes <= BLOCK_BYTES_MAX && blocks_used < sizeof blocks / sizeof blocks[0]);
	return bytes != 0 ? blocks[blocks_used++] : NULL;
}

static struct sluice_limit parse(const char *text) {
	struct sluice_limit limit;
	blocks_used = 0;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

/* Charges a counter as a host does. Returns the decision. */
static struct sluice_decision charge(const struct sluice_limit *limit, struct sl_counter *c, sluice_ns now,
                                     uint32_t cost) {
	struct sluice_decision decision;
	uint64_t bytes;
	sl_step(limit, c, now, cost, true, &decision);
	if (!decision.allowed || c->known || !sl_rule_has(limit, SL_HAS_BLOCK))
		return decision;
	bytes = sl_step_block_bytes(limit, c, cost);
	if (bytes == 0)
		(void)sl_step_prepare(limit, c);
	sl_step_write(limit, c, now, cost, block_of(bytes), (bytes + 7) / 8 * 8);
	return decision;
}

static uint32_t remaining(const struct sluice_limit *limit, struct sl_counter c, sluice_ns now) {
	struct sluice_decision decision;
	sl_step(limit, &c, now, 0, false, &decision);
	return decision.remaining;
}

static struct sl_counter charged(const struct sluice_limit *limit, uint64_t who, uint32_t cost) {
	struct sl_counter c = {.who = who};
	assert_true(charge(limit, &c, START_NS, cost).allowed);
	return c;
}

/* ---- the words --------------------------------------------------------------------------------------------------- */

static void test_words_name_their_algorithms_and_nothing_else_does(void **state) {
	(void)state;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		char printed[SLUICE_LIMIT_TEXT_MAX];
		const char *word;
		struct sluice_limit limit;
		assert_int_equal(sl_algorithm_is_known(i), i < TEXTS);
		if (i >= TEXTS)
			continue;
		word = sl_algorithm_word(i);
		limit = parse(texts[i]);
		assert_int_equal(sl_algorithm_named(sl_str(word)), i);
		assert_int_equal(limit.algorithm, i);
		sluice_limit_print(&limit, printed);
		assert_memory_equal(printed, word, strlen(word));
	}
	assert_int_equal(sl_algorithm_named(sl_str("")), -1);
	assert_int_equal(sl_algorithm_named(sl_str("sliding")), -1);
	assert_int_equal(sl_algorithm_named(sl_str("fixed-windows")), -1);
}

/* In the order of the table, the last by `or`; and each one's example is a limit of it. */
static void test_words_are_listed_and_examples_are_limits(void **state) {
	static const struct {
		const char *word, *example;
		uint32_t algorithm;
	} rows[] = {
#define LISTED(algorithm, word, traits, example, says) {word, example, algorithm},
		SL_ALGORITHMS(LISTED)
#undef LISTED
	};
	char listed[512], *at = listed;
	struct sl_out out = sl_out_to(listed, sizeof listed - 1);
	(void)state;
	sl_algorithms_list(&out);
	*out.at = '\0';
	assert_int_equal(sizeof rows / sizeof rows[0], TEXTS);
	for (uint32_t i = 0; i < TEXTS; i++) {
		const char *between = i == 0 ? "" : i + 1 < TEXTS ? ", " : " or ";
		assert_int_equal(parse(rows[i].example).algorithm, rows[i].algorithm);
		assert_memory_equal(at, between, strlen(between));
		at += strlen(between);
		assert_memory_equal(at, rows[i].word, strlen(rows[i].word));
		at += strlen(rows[i].word);
	}
	assert_string_equal(at, "");
}

static void test_the_list_is_told_where_no_word_is_known(void **state) {
	char expected[512];
	struct sl_out out = sl_out_to(expected, sizeof expected - 1);
	struct sluice_error error;
	struct sluice_limit limit;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("sliding 9/10s"), &error), SLUICE_E_SYNTAX);
	assert_int_equal(error.column, 1);
	sl_out_str(&out, "expected a limit such as 100/1m, or an algorithm: ");
	sl_algorithms_list(&out);
	sl_out_str(&out, ", found 'sliding'");
	*out.at = '\0';
	assert_string_equal(error.text, expected);
}

static void test_numbers_of_no_algorithm_have_no_trait(void **state) {
	(void)state;
	for (uint32_t trait = 1; trait <= SL_COUNTS_LATE; trait *= 2) {
		uint32_t with = sl_algorithms_with((enum sl_trait)trait), without = sl_algorithms_without((enum sl_trait)trait);
		uint32_t windows = 1u << SLUICE_FIXED_WINDOW | 1u << SLUICE_SLIDING_WINDOW; /* with SLUICE_SPREAD, the same */
		assert_int_equal(with >> TEXTS, (with & windows) << (SLUICE_SPREAD - TEXTS));
		assert_int_equal(without >> TEXTS, (without & windows) << (SLUICE_SPREAD - TEXTS));
	}
}

/* Of one trait: all that count something and don't have it. Of several: all that lack any of them. */
static void test_what_is_lacking(void **state) {
	uint32_t counting = sl_algorithms_with(SL_HAS_COUNTER);
	(void)state;
	for (uint32_t trait = 1; trait <= SL_COUNTS_LATE; trait *= 2) {
		enum sl_trait one = (enum sl_trait)trait;
		assert_int_equal(sl_algorithms_without(one), counting & ~sl_algorithms_with(one));
	}
	assert_int_equal(sl_algorithms_without(SL_OF_CHARGES),
	                 sl_algorithms_without(SL_COUNTS_COST) | sl_algorithms_without(SL_RESERVABLE) |
	                     sl_algorithms_without(SL_REFUNDABLE));
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sluice_limit limit = parse(texts[i]);
		assert_int_equal(sl_rule_lacks(&limit, SL_OF_CHARGES), sl_algorithms_without(SL_OF_CHARGES) >> i & 1);
	}
}

/* ---- the traits -------------------------------------------------------------------------------------------------- */

static void has(const struct sluice_limit *limit, enum sl_trait trait, bool seen) {
	if (sl_rule_has(limit, trait) != seen)
		fail_msg("%s: trait %#x is %s", sl_algorithm_word(limit->algorithm), (unsigned)trait, seen ? "seen" : "not");
}

static void test_what_counts(void **state) {
	(void)state;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sluice_limit limit = parse(texts[i]);
		struct sl_counter c = charged(&limit, 5, 2), again = c;
		bool known;
		has(&limit, SL_HAS_COUNTER, !sl_state_is_none(&c.state));
		has(&limit, SL_HAS_BLOCK, c.block != NULL);
		charge(&limit, &again, START_NS, 2);
		known = again.known;
		has(&limit, SL_HAS_SEATS, known);
		has(&limit, SL_TAKES_MEMBER, known && remaining(&limit, c, START_NS) == 8); /* of whatever cost */
		has(&limit, SL_TAKES_LEASE, sl_rule_has(&limit, SL_HAS_SEATS) && sl_lease_release(&limit, &again, START_NS) &&
		                                remaining(&limit, again, START_NS) == 9 &&
		                                !sl_rule_has(&limit, SL_TAKES_MEMBER));
		has(&limit, SL_COUNTS_COST, remaining(&limit, again, START_NS) == 5);
		again = c; /* in the window that begins 9.5 s later */
		charge(&limit, &again, START_NS + UINT64_C(9600) * SL_MS_NS, 2);
		has(&limit, SL_HAS_WINDOWS,
		    c.block == NULL && (uint32_t)c.state.w[1] == 2 && (uint32_t)again.state.w[1] == 2);
	}
}

static void test_what_time_does(void **state) {
	(void)state;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sluice_limit limit = parse(texts[i]);
		struct sl_counter c = charged(&limit, 5, 4);
		uint32_t later = remaining(&limit, c, START_NS + UINT64_C(2500) * SL_MS_NS);
		struct sluice_decision next = charge(&limit, &c, START_NS, 1);
		has(&limit, SL_DRAINS, later == 7);
		has(&limit, SL_DELAYS, next.delay_ns != 0);
		/* a charge of an instant within the same ms counts as that ms' */
		has(&limit, SL_ROUNDS_TO_MS, sl_rule_has(&limit, SL_HAS_COUNTER) && c.block != NULL &&
		                                 sl_step_instant(&limit, &c, START_NS - SL_MS_NS) % SL_MS_NS == 0 &&
		                                 sl_step_instant(&limit, &c, START_NS - SL_MS_NS) > START_NS);
	}
}

static void test_what_goes_back(void **state) {
	(void)state;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sluice_limit limit = parse(texts[i]);
		struct sl_counter c = charged(&limit, 5, 4), denied = c;
		struct sl_correction at = {.instant = START_NS, .known = START_NS, .charged = 4, .actual = 3, .debt = 4};
		uint32_t cost = 1;
		has(&limit, SL_COUNTS_DENIED, sl_step_count(&limit, &denied, START_NS, 9) != 0);
		has(&limit, SL_RESERVABLE,
		    sl_correct(&limit, &c, &at, 1, block_of(sl_correct_bytes(&limit, &c, 0)), BLOCK_BYTES_MAX));
		assert_int_equal(sl_correct_bytes(&limit, &denied, 0) != 0, sl_rule_has(&limit, SL_KEEPS_TIMES));
		(void)sl_step_prepare_refund(&limit, &denied, START_NS, &cost);
		has(&limit, SL_REFUNDABLE, sl_step_refund(&limit, &c, START_NS, 1));
	}
}

/* Whether two charges of 2, at START_NS and `second_s` later, ever leave less than if the first comes `first_late_s`
 * later and the second `second_late_s`. */
static bool leave_less(const struct sluice_limit *limit, uint64_t second_s, uint64_t first_late_s,
                       uint64_t second_late_s) {
	struct sl_counter spent = {.who = 5}, late = {.who = 5};
	sluice_ns second = START_NS + second_s * 1000 * SL_MS_NS, last = second + second_late_s * 1000 * SL_MS_NS;
	bool less = false, admitted;
	blocks_used = 0;
	(void)charge(limit, &spent, START_NS, 2);
	(void)charge(limit, &spent, second, 2);
	blocks_used = 2;
	admitted = charge(limit, &late, START_NS + first_late_s * 1000 * SL_MS_NS, 2).allowed;
	admitted = charge(limit, &late, last, 2).allowed && admitted;
	for (uint64_t s = 0; s <= 24 && admitted; s++) {
		sluice_ns then = last + s * 1000 * SL_MS_NS;
		less = less || remaining(limit, late, then) > remaining(limit, spent, then);
	}
	return less;
}

/* Delays are told for an order, which is another when charges come late. */
static void test_what_comes_late(void **state) {
	(void)state;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sluice_limit limit = parse(texts[i]);
		bool less = false;
		for (uint64_t second = 0; second <= 12; second++)
			for (uint64_t late = 0; late <= 12; late++)
				less = less || leave_less(&limit, second, 0, late) ||
				       (late <= second && leave_less(&limit, second, late, 0)) ||
				       leave_less(&limit, second, second, late);
		has(&limit, SL_COUNTS_LATE,
		    sl_rule_has(&limit, SL_COUNTS_COST) && !sl_rule_has(&limit, SL_DELAYS) && !less);
	}
}

/* A log alone is decided at whole milliseconds; a bucket, alone or beside a log, and all else at the nanosecond. */
static void test_at_which_instant_a_call_is_decided(void **state) {
	(void)state;
	const sluice_ns now = START_NS + 1, whole = now - now % SL_MS_NS;
	for (uint32_t i = 0; i < TEXTS; i++)
		for (uint32_t j = 0; j < TEXTS; j++) {
			struct sluice_limit one = parse(texts[i]), other = parse(texts[j]);
			bool log = one.algorithm == SLUICE_SLIDING_LOG || other.algorithm == SLUICE_SLIDING_LOG;
			bool bucket = sl_rule_has(&one, SL_DRAINS) || sl_rule_has(&other, SL_DRAINS);
			assert_int_equal(sl_algorithms_instant(sl_algorithm_bit(&one) | sl_algorithm_bit(&other), now),
			                 log && !bucket ? whole : now);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_which_instant_a_call_is_decided),
		cmocka_unit_test(test_words_name_their_algorithms_and_nothing_else_does),
		cmocka_unit_test(test_words_are_listed_and_examples_are_limits),
		cmocka_unit_test(test_the_list_is_told_where_no_word_is_known),
		cmocka_unit_test(test_what_is_lacking),
		cmocka_unit_test(test_what_comes_late),
		cmocka_unit_test(test_numbers_of_no_algorithm_have_no_trait),
		cmocka_unit_test(test_what_counts),
		cmocka_unit_test(test_what_time_does),
		cmocka_unit_test(test_what_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
