/* Chance that can be repeated: a seed, drawn once and printed, and what the random tests throw with it.
 *
 * SLUICE_SEED sets the seed; it is printed, so that a failure can be had again. SLUICE_OPS says how long tests run: the
 * operations of a test that does a million of them by itself, and all others in proportion. Numbers are drawn where
 * limiters break: at 0, 1, the quota, one more, and the largest. */
#ifndef TESTS_MODEL_DICE_H
#define TESTS_MODEL_DICE_H

#include "tests/model/twin.h"

struct dice {
	uint64_t state;
};

/* The seed of this run: SLUICE_SEED, or one from the clock. Always the same within a process. */
uint64_t dice_seed(void);

enum { DICE_MILLION = 1000000 };

/* How much a test does that by itself does `standard`: that times SLUICE_OPS / a million, at least 1. Without
 * SLUICE_OPS all of it, or a hundredth under a sanitizer. */
uint64_t dice_ops(uint64_t standard);

/* Dice of their own for one stream of one test, so that one stream can be repeated alone. */
struct dice dice_of(uint64_t seed, uint64_t stream);

/* 64 random bits; splitmix64 (Steele, Lea, Flood 2014). */
uint64_t dice_bits(struct dice *dice);

/* 0..n-1; 0 where n is 0. The bias, below n / 2^64, does not matter here. */
uint64_t dice_below(struct dice *dice, uint64_t n);

static inline bool dice_one_in(struct dice *dice, uint64_t n) {
	return dice_below(dice, n) == 0;
}

/* A quota, 1..4294967295, mostly small or round. */
uint32_t dice_quota(struct dice *dice);

/* A cost for a limit of this quota: 0, 1, small, close to it on either side, or anything. */
uint32_t dice_cost(struct dice *dice, uint64_t quota);

/* A window, 1 ms to 3660 d, in ns. */
uint64_t dice_window(struct dice *dice);

/* The algorithms that count charges, with each edge; the last, unlimited, counts nothing. */
enum { DICE_COUNTING = 8, DICE_KINDS = DICE_COUNTING + 1 };
extern const struct dice_kind {
	sluice_algorithm algorithm;
	sluice_edge edge;
} dice_kinds[DICE_KINDS];

/* A limit of the algorithm. */
struct twin_rule dice_rule(struct dice *dice, sluice_algorithm algorithm, sluice_edge edge);

/* Writes a rule in the notation, durations in ms, options always given. Returns its length. */
size_t rule_print(const struct twin_rule *rule, char *text, size_t bytes);

/* The limit of a rule, through its notation. */
struct sluice_limit rule_limit(const struct twin_rule *rule);

#endif
