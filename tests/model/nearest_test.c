/* The nearest word, against the table of distances as a textbook fills it; and what a look costs at most. */
#include "policy/nearest.h"
#include "tests/model/dice.h"

#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORD_MAX = 32, TABLE_MAX = 5000 };

static char words[TABLE_MAX][WORD_MAX + 4];
static size_t word_count, asked;

static const char *word_at(const void *table, size_t index) {
	(void)table;
	asked++;
	return index < word_count ? words[index] : NULL;
}

/* ---- the twin -------------------------------------------------------------------------------------------------- */

static char folded(char c) {
	return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static size_t least(size_t a, size_t b) {
	return a < b ? a : b;
}

static size_t twin_distance(const char *a, const char *b) {
	size_t d[WORD_MAX + 1][WORD_MAX + 1], m = strlen(a), n = strlen(b);
	for (size_t i = 0; i <= m; i++)
		for (size_t j = 0; j <= n; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			bool same = folded(a[i - 1]) == folded(b[j - 1]);
			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + !same);
			if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]))
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[m][n];
}

static const char *twin_nearest(const char *word) {
	const char *nearest = NULL;
	size_t len = strlen(word), best = len < 6 ? 2 : len / 3 + 1;
	for (size_t i = 0; len != 0 && len <= WORD_MAX && i < word_count; i++)
		if (strlen(words[i]) <= WORD_MAX && twin_distance(word, words[i]) < best) {
			nearest = words[i];
			best = twin_distance(word, nearest);
		}
	return nearest;
}

/* ---- words of chance ------------------------------------------------------------------------------------------- */

static void throw_word(struct dice *dice, char *word, size_t len) {
	static const char letters[] = "abcdeABC-_";
	size_t few = 2 + dice_below(dice, sizeof letters - 2);
	for (size_t i = 0; i < len; i++)
		word[i] = letters[dice_below(dice, few)];
	word[len] = '\0';
}

/* A word with some slips: letters changed, left out, put in, swapped. */
static void mistype(struct dice *dice, char *word, const char *known) {
	memcpy(word, known, strlen(known) + 1);
	for (uint64_t slips = dice_below(dice, 12); slips > 0; slips--) {
		size_t len = strlen(word), at = dice_below(dice, len + 1);
		uint64_t kind = dice_below(dice, 4);
		char other = "aBc-xyz"[dice_below(dice, 7)];
		if (kind == 0 && len < WORD_MAX) {
			memmove(word + at + 1, word + at, len + 1 - at);
			word[at] = other;
		} else if (kind == 1 && at < len) {
			memmove(word + at, word + at + 1, len - at);
		} else if (kind == 2 && at < len) {
			word[at] = other;
		} else if (kind == 3 && at + 1 < len) {
			char first = word[at];
			word[at] = word[at + 1];
			word[at + 1] = first;
		}
	}
}

/* Few enough words for the bound on letters: 31, of 32 at most. */
static void test_as_a_textbook_says(void **state) {
	uint64_t rounds = dice_ops(20000), found = 0;
	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		char word[WORD_MAX + 4];
		word_count = dice_below(&dice, 31);
		for (size_t i = 0; i < word_count; i++)
			throw_word(&dice, words[i], dice_below(&dice, WORD_MAX + 2));
		if (word_count == 0 || dice_one_in(&dice, 4) || strlen(words[word_count - 1]) > WORD_MAX)
			throw_word(&dice, word, dice_below(&dice, WORD_MAX + 1));
		else
			mistype(&dice, word, words[word_count - 1]);
		const char *want = twin_nearest(word), *got = sl_nearest(sl_str(word), word_at, NULL);
		if (got != want)
			fail_msg("seed %" PRIu64 " round %" PRIu64 ": '%s': want %s, got %s", dice_seed(), round, word,
			         want == NULL ? "none" : want, got == NULL ? "none" : got);
		found += want != NULL;
	}
	assert_in_range(found, rounds / 10, rounds - rounds / 10);
}

/* ---- what a look costs ------------------------------------------------------------------------------------------ */

static size_t looked_at(const char *word) {
	asked = 0;
	(void)sl_nearest(sl_str(word), word_at, NULL);
	return asked;
}

static void test_a_look_is_bounded(void **state) {
	(void)state;
	word_count = TABLE_MAX;
	for (unsigned i = 0; i < TABLE_MAX; i++)
		snprintf(words[i], sizeof words[i], "customer-%05u-requests-a-minute", i);
	/* 1,024 letters: 32 words of 32 to their ends, or more of which less is read. */
	assert_in_range(looked_at("customer-99999-requests-a-minutf"), 32, 60);
	assert_int_equal(looked_at("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), 86); /* 12 of each say that it is not near */
	assert_int_equal(looked_at("n1"), 256);                             /* none of which has its length */
	assert_int_equal(looked_at(""), 0);
	assert_int_equal(looked_at("customer-99999-requests-a-minutes"), 0);
	memcpy(words[255], "here", sizeof "here");
	memcpy(words[256], "there", sizeof "there");
	assert_string_equal(sl_nearest(sl_str("herr"), word_at, NULL), "here");
	assert_null(sl_nearest(sl_str("therr"), word_at, NULL));
	word_count = 256;
	assert_int_equal(looked_at("n1"), 256);
	word_count = 255;
	assert_int_equal(looked_at("n1"), 256); /* with the end */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_a_textbook_says),
		cmocka_unit_test(test_a_look_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
