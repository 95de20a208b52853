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

static void test_numbers_of_no_algorithm_have_no_trait(void **state) {
	(void)state;
	for (uint32_t trait = 1; trait <= SL_COUNTS_DENIED; trait *= 2)
		assert_int_equal(sl_algorithms_with((enum sl_trait)trait) >> TEXTS, 0);
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
		has(&limit, SL_HAS_WINDOWS, (uint32_t)c.state.w[1] == 2 && c.block == NULL);
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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_name_their_algorithms_and_nothing_else_does),
		cmocka_unit_test(test_numbers_of_no_algorithm_have_no_trait),
		cmocka_unit_test(test_what_counts),
		cmocka_unit_test(test_what_time_does),
		cmocka_unit_test(test_what_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
