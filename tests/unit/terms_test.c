/* Terms in words, both ways, and the strikes of an escalation: what counts, when it ends, when it is forgiven.
 *
 * Random denials are compared with a slow twin: the list of all denials that ever counted, read anew each time. */
#include "algo/terms.h"
#include "base/bytes.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define S ((sluice_ns)1000000000)
#define M (60 * S)
#define H (60 * M)

static struct sluice_terms terms_of(const char *text) {
	struct sluice_terms terms = {0};
	struct sluice_error error = {0};
	if (sl_terms_parse(&terms, sl_str(text), &error) != SLUICE_OK)
		fail_msg("%s: column %" PRIu32 ": %s", text, error.column, error.text);
	return terms;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static const struct {
	const char *written, *canonical;
} accepted[] = {
	{"count-denied", "count-denied"},
	{"penalty [1m] after 1 denial in 1s", "penalty [1m] after 1 denial in 1s forgive 1m"},
	{"penalty [1m] after 1 denials in 1000ms", "penalty [1m] after 1 denial in 1s forgive 1m"},
	{"penalty [1m,10m,1h] after 3 denials in 60s", "penalty [1m, 10m, 1h] after 3 denials in 1m forgive 1h"},
	{"penalty [1m, 10m,60m] after 3 denials in 1m forgive 24h",
     "penalty [1m, 10m, 1h] after 3 denials in 1m forgive 1d"},
	{"penalty [1ms, 3660d] after 64 denials in 3660d forgive 1ms",
     "penalty [1ms, 3660d] after 64 denials in 3660d forgive 1ms"},
	{"penalty [1h] after 2 denials in 1m; count-denied", "count-denied; penalty [1h] after 2 denials in 1m forgive 1h"},
	{"count-denied; penalty [1s, 2s, 3s, 4s, 5s, 6s, 1w, 8d] after 9 denials in 90s forgive 1500ms",
     "count-denied; penalty [1s, 2s, 3s, 4s, 5s, 6s, 1w, 8d] after 9 denials in 90s forgive 1500ms"},
};

static void written_terms_print_canonically(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
		char text[SL_TERMS_TEXT_MAX], again[SL_TERMS_TEXT_MAX];
		struct sluice_terms terms = terms_of(accepted[i].written), back;
		size_t len = sl_terms_print(&terms, text);
		assert_string_equal(text, accepted[i].canonical);
		assert_int_equal(len, strlen(text));
		back = terms_of(text);
		assert_memory_equal(&terms, &back, sizeof terms);
		sl_penalty_print(&terms, text);
		if (terms.penalty_count == 0) {
			assert_string_equal(text, "");
			continue;
		}
		back = (struct sluice_terms){.count_denied = terms.count_denied};
		assert_int_equal(sl_penalty_parse(&back, sl_str(text), NULL), SLUICE_OK);
		sl_terms_print(&back, again);
		assert_string_equal(again, accepted[i].canonical);
	}
}

static const struct {
	const char *text;
	sluice_err err;
	uint32_t column;
	const char *says;
} refused[] = {
	{"", SLUICE_E_SYNTAX, 1, "expected 'count-denied' or 'penalty ' and what it is, found the end"},
	{"count", SLUICE_E_SYNTAX, 1, "expected 'count-denied' or 'penalty ' and what it is, found 'count'"},
	{"count-denied ", SLUICE_E_SYNTAX, 13, "expected '; ' and another term, or the end, found ' '"},
	{"count-denied;penalty", SLUICE_E_SYNTAX, 13, "expected '; ' and another term, or the end, found ';penalty'"},
	{"count-denied; count-denied", SLUICE_E_SYNTAX, 15, "expected each term once, found 'count-denied'"},
	{"penalty 1m", SLUICE_E_SYNTAX, 9, "expected '[' and penalties, such as [1m, 10m, 1h], found '1m'"},
	{"penalty []", SLUICE_E_SYNTAX, 10, "expected a penalty such as 10m, found ']'"},
	{"penalty [1m,  2m] after 1 denial in 1m", SLUICE_E_SYNTAX, 14, "expected a penalty such as 10m, found ' '"},
	{"penalty [1m 2m] after", SLUICE_E_SYNTAX, 12, "expected ',' and a longer penalty, or ']', found ' '"},
	{"penalty [1x] after", SLUICE_E_SYNTAX, 11, "expected a unit of time: ms, s, m, h, d or w, found 'x]'"},
	{"penalty [0s] after", SLUICE_E_RANGE, 10, "expected a duration from 1ms to 3660d, found '0s]'"},
	{"penalty [3661d] after", SLUICE_E_RANGE, 10, "expected a duration from 1ms to 3660d, found '3661d]'"},
	{"penalty [2m, 60s] after", SLUICE_E_RANGE, 14,
     "expected each penalty to be longer than the one before, found '60s]'"},
	{"penalty [1s,2s,3s,4s,5s,6s,7s,8s,9s]", SLUICE_E_RANGE, 34, "expected at most 8 penalties, found '9s]'"},
	{"penalty [1m]", SLUICE_E_SYNTAX, 13, "expected ' after N denials in ' and a time, found the end"},
	{"penalty [1m] after x", SLUICE_E_SYNTAX, 20, "expected a number of denials, found 'x'"},
	{"penalty [1m] after 0 denials in 1m", SLUICE_E_RANGE, 20, "expected 1 to 64 denials, found '0'"},
	{"penalty [1m] after 65 denials in 1m", SLUICE_E_RANGE, 20, "expected 1 to 64 denials, found '65'"},
	{"penalty [1m] after 2 denial in 1m", SLUICE_E_SYNTAX, 21,
     "expected ' denials in ' and a time such as 1m, found ' '"},
	{"penalty [1m] after 2 denials in", SLUICE_E_SYNTAX, 21,
     "expected ' denials in ' and a time such as 1m, found ' '"},
	{"penalty [1m] after 2 denials in 1", SLUICE_E_SYNTAX, 34,
     "expected a unit of time: ms, s, m, h, d or w, found the end"},
	{"penalty [1m] after 2 denials in 1m forgive", SLUICE_E_SYNTAX, 35,
     "expected '; ' and another term, or the end, found ' '"},
	{"penalty [1m] after 2 denials in 1m forgive x", SLUICE_E_SYNTAX, 44, "expected a time such as 1d, found 'x'"},
};

static void bad_terms_are_refused_where_they_are_bad(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct sluice_terms terms = {.after = 7}, before = terms;
		struct sluice_error error = {0};
		assert_int_equal(sl_terms_parse(&terms, sl_str(refused[i].text), &error), refused[i].err);
		assert_string_equal(error.text, refused[i].says);
		assert_int_equal(error.column, refused[i].column);
		assert_int_equal(sl_terms_parse(&terms, sl_str(refused[i].text), NULL), refused[i].err);
		assert_memory_equal(&terms, &before, sizeof terms);
	}
}

static void a_penalty_alone_leaves_other_terms(void **state) {
	struct sluice_terms terms = {.count_denied = true};
	struct sluice_error error;
	(void)state;
	assert_int_equal(sl_penalty_parse(&terms, sl_str("[5m, 1h] after 2 denials in 1m"), &error), SLUICE_OK);
	assert_true(terms.count_denied);
	assert_int_equal(terms.penalty_count, 2);
	assert_int_equal(terms.forgive_ns, H);
	assert_int_equal(sl_penalty_parse(&terms, sl_str("[5m] after 2 denials in 1m."), &error), SLUICE_E_SYNTAX);
	assert_int_equal(error.column, 27);
	assert_string_equal(error.text, "expected ' forgive ' and a time, or the end, found '.'");
	assert_int_equal(terms.penalty_count, 2);
	assert_int_equal(sl_penalty_parse(&terms, sl_str("[9m] after 2 denials in 1m"), &error), SLUICE_OK);
	assert_int_equal(terms.penalty_count, 1);
	assert_int_equal(terms.penalties_ns[1], 0);
}

static void damaged_terms_are_refused_or_whole(void **state) {
	struct dice dice = dice_of(dice_seed(), 61);
	(void)state;
	for (uint64_t i = 0, ops = dice_ops(300000); i < ops; i++) {
		char text[SL_TERMS_TEXT_MAX], canonical[SL_TERMS_TEXT_MAX];
		const char *from = accepted[dice_below(&dice, sizeof accepted / sizeof *accepted)].canonical;
		size_t len = strlen(from);
		struct sluice_terms terms, back;
		struct sluice_error error = {0};
		memcpy(text, from, len);
		for (uint64_t n = 1 + dice_below(&dice, 3); n != 0; n--)
			text[dice_below(&dice, len)] =
				dice_one_in(&dice, 4) ? (char)dice_bits(&dice) : from[dice_below(&dice, len)];
		len -= dice_one_in(&dice, 3) ? dice_below(&dice, len) : 0;
		if (sl_terms_parse(&terms, sl_slice(text, len), &error) == SLUICE_OK) {
			sl_terms_print(&terms, canonical);
			back = terms_of(canonical);
			assert_memory_equal(&terms, &back, sizeof terms);
		} else {
			assert_true(error.column >= 1 && error.column <= len + 1 && error.text[0] != '\0');
		}
	}
}

/* ---- strikes, by name ------------------------------------------------------------------------------------------- */

static struct sluice_decision denied(sluice_ns retry) {
	return (struct sluice_decision){.quota = 5, .retry_after_ns = retry, .reset_after_ns = retry};
}

static void the_third_denial_in_a_minute_shuts_out(void **state) {
	struct sluice_terms terms = terms_of("penalty [1m, 10m] after 3 denials in 1m forgive 1h");
	struct sl_strikes strikes = {0};
	struct sluice_decision decision = denied(7 * S);
	sluice_ns t = 1000 * H;
	(void)state;
	sl_strikes_add(&terms, &strikes, t);
	sl_strikes_add(&terms, &strikes, t + 30 * S);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 60 * S - 1).denials, 2);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 60 * S).denials, 1); /* gone at exactly a minute */
	sl_strikes_judge(&terms, &strikes, t + 30 * S, 1, &decision);
	assert_int_equal(decision.retry_after_ns, 7 * S);
	sl_strikes_add(&terms, &strikes, t + 60 * S - 1);
	assert_int_equal(strikes.level, 1);
	assert_int_equal(strikes.count, 0);
	sl_strikes_judge(&terms, &strikes, t + 60 * S - 1, 1, &decision);
	assert_int_equal(decision.retry_after_ns, M);
	assert_int_equal(decision.remaining, 0);
	assert_int_equal(decision.reset_after_ns, M);
	/* What is asked meanwhile adds nothing. */
	for (sluice_ns s = 0; s < 60; s++)
		sl_strikes_add(&terms, &strikes, t + (60 + s) * S - 1);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 120 * S - 2).ends_after_ns, 1);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 120 * S - 1).ends_after_ns, 0);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 120 * S - 1).denials, 0);
}

static void two_denials_a_minute_apart_are_not_two(void **state) {
	struct sluice_terms terms = terms_of("penalty [1m] after 2 denials in 1m");
	struct sl_strikes strikes = {0};
	(void)state;
	for (sluice_ns t = H; t < 3 * H; t += M)
		sl_strikes_add(&terms, &strikes, t);
	assert_int_equal(strikes.level, 0);
	sl_strikes_add(&terms, &strikes, 3 * H - M + M - 1);
	assert_int_equal(strikes.level, 1);
}

static void penalties_rise_and_the_last_repeats(void **state) {
	struct sluice_terms terms = terms_of("penalty [1m, 10m, 1h] after 1 denial in 1m forgive 1d");
	static const sluice_ns expected[] = {M, 10 * M, H, H, H};
	struct sl_strikes strikes = {0};
	sluice_ns t = 1000 * H;
	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		struct sluice_standing standing;
		sl_strikes_add(&terms, &strikes, t);
		standing = sl_strikes_stand(&terms, &strikes, t);
		assert_int_equal(standing.level, i + 1);
		assert_int_equal(standing.ends_after_ns, expected[i]);
		assert_int_equal(standing.forgiven_after_ns, expected[i] + 24 * H);
		t += expected[i];
	}
	/* Forgiven a day after the end, to the ns; a denial before that begins the day anew. */
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 24 * H - 1).level, 5);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 24 * H).level, 0);
	assert_int_equal(sl_strikes_life(&terms, &strikes, t), 24 * H);
	sl_strikes_add(&terms, &strikes, t + 24 * H);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 24 * H).ends_after_ns, M);
}

static void a_denial_that_shuts_nobody_out_delays_forgiving(void **state) {
	struct sluice_terms terms = terms_of("penalty [1m, 10m] after 2 denials in 1m forgive 1h");
	struct sl_strikes strikes = {0};
	sluice_ns t = 1000 * H;
	(void)state;
	sl_strikes_add(&terms, &strikes, t);
	sl_strikes_add(&terms, &strikes, t);
	sl_strikes_add(&terms, &strikes, t + 30 * M);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 61 * M).level, 1);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 61 * M).forgiven_after_ns, 29 * M);
	assert_int_equal(sl_strikes_stand(&terms, &strikes, t + 90 * M).level, 0);
}

static void a_judged_decision_keeps_the_longer_wait(void **state) {
	struct sluice_terms terms = terms_of("penalty [1m] after 1 denial in 1s");
	struct sl_strikes strikes = {0};
	struct sluice_decision decision = denied(2 * M);
	(void)state;
	sl_strikes_add(&terms, &strikes, H);
	sl_strikes_judge(&terms, &strikes, H, 1, &decision);
	assert_int_equal(decision.retry_after_ns, 2 * M);
	decision = denied(SLUICE_NEVER);
	sl_strikes_judge(&terms, &strikes, H, 1, &decision);
	assert_true(decision.retry_after_ns == SLUICE_NEVER);
	decision = (struct sluice_decision){.allowed = true, .remaining = 4, .delay_ns = 9};
	sl_strikes_judge(&terms, &strikes, H + 1, 1, &decision);
	assert_false(decision.allowed);
	assert_int_equal(decision.retry_after_ns, M - 1);
	assert_int_equal(decision.remaining + decision.delay_ns, 0);
	/* A cost of 0 is always allowed, and told how it stands. */
	decision = (struct sluice_decision){.allowed = true, .remaining = 4};
	sl_strikes_judge(&terms, &strikes, H, 0, &decision);
	assert_true(decision.allowed);
	assert_int_equal(decision.retry_after_ns, 0);
	assert_int_equal(decision.remaining, 0);
	assert_int_equal(decision.reset_after_ns, M);
	/* An instant before the last denial counts as that. */
	assert_int_equal(sl_strikes_stand(&terms, &strikes, 1).ends_after_ns, M);
}

static void lowered_terms_shorten_what_was_imposed(void **state) {
	struct sluice_terms terms = terms_of("penalty [1h] after 1 denial in 1s"),
						lower = terms_of("penalty [1m] after 1 denial in 1s");
	struct sl_strikes strikes = {0};
	(void)state;
	sl_strikes_add(&terms, &strikes, H);
	assert_int_equal(sl_strikes_stand(&lower, &strikes, H).ends_after_ns, M);
	assert_int_equal(sl_strikes_stand(&(struct sluice_terms){0}, &strikes, H).ends_after_ns, 0);
}

static void what_lowered_terms_have_ended_does_not_go_on(void **state) {
	struct sluice_terms terms = terms_of("penalty [1h] after 1 denial in 1s"),
						lower = terms_of("penalty [1m] after 2 denials in 1m");
	struct sl_strikes strikes = {0};
	(void)state;
	assert_true(sl_strikes_add(&terms, &strikes, H));
	assert_false(sl_strikes_add(&lower, &strikes, H + M - 1));
	assert_int_equal(sl_strikes_stand(&lower, &strikes, H + M).denials, 0);
	assert_false(sl_strikes_add(&lower, &strikes, H + M)); /* the first of two */
	assert_int_equal(sl_strikes_stand(&lower, &strikes, H + M).ends_after_ns, 0);
	assert_int_equal(sl_strikes_stand(&lower, &strikes, H + M).denials, 1);
	assert_true(sl_strikes_add(&lower, &strikes, H + M + 1));
	assert_int_equal(sl_strikes_stand(&lower, &strikes, H + M + 1).ends_after_ns, M);
}

/* ---- strikes against their twin, and against any bytes ----------------------------------------------------------- */

enum { STREAM = 300 };

struct twin_strikes {
	sluice_ns at[STREAM];
	bool imposed[STREAM]; /* the denial that brought a penalty */
	size_t count;
};

/* How a key stands, told from all denials by the words of the header. */
static struct sluice_standing twin_stand(const struct sluice_terms *terms, const struct twin_strikes *twin,
                                         sluice_ns t) {
	struct sluice_standing standing = {0};
	sluice_ns quiet_from = 0, end = 0;
	for (size_t i = 0; i < twin->count; i++) {
		if (standing.level != 0 && twin->at[i] >= quiet_from + terms->forgive_ns)
			standing.level = 0;
		if (twin->imposed[i]) {
			end =
				twin->at[i] +
				terms->penalties_ns[standing.level < terms->penalty_count ? standing.level : terms->penalty_count - 1u];
			standing.level++;
		}
		quiet_from = twin->at[i] > end ? twin->at[i] : end;
	}
	if (standing.level != 0 && t >= quiet_from + terms->forgive_ns)
		standing.level = 0;
	standing.forgiven_after_ns = standing.level != 0 ? quiet_from + terms->forgive_ns - t : 0;
	standing.ends_after_ns = end > t ? end - t : 0;
	for (size_t i = twin->count; i-- > 0 && !twin->imposed[i];)
		standing.denials += t - twin->at[i] < terms->within_ns;
	return standing;
}

static void twin_deny(const struct sluice_terms *terms, struct twin_strikes *twin, sluice_ns t) {
	if (twin_stand(terms, twin, t).ends_after_ns != 0)
		return;
	twin->at[twin->count] = t;
	twin->imposed[twin->count++] = false;
	if (twin_stand(terms, twin, t).denials >= terms->after)
		twin->imposed[twin->count - 1] = true;
}

static struct sluice_terms dice_terms(struct dice *dice) {
	struct sluice_terms terms = {.after = (uint16_t)(1 + dice_below(dice, dice_one_in(dice, 3) ? 64 : 4))};
	terms.penalty_count = (uint8_t)(1 + dice_below(dice, SLUICE_PENALTIES_MAX));
	terms.within_ns = (1 + dice_below(dice, 100)) * S;
	terms.forgive_ns = (1 + dice_below(dice, 300)) * S;
	for (uint32_t i = 0; i < terms.penalty_count; i++)
		terms.penalties_ns[i] = (i == 0 ? 0 : terms.penalties_ns[i - 1]) + (1 + dice_below(dice, 50)) * S;
	return terms;
}

static void strikes_are_their_twins(void **state) {
	uint64_t streams = dice_ops(DICE_MILLION) / STREAM + 1;
	(void)state;
	for (uint64_t s = 0; s < streams; s++) {
		struct dice dice = dice_of(dice_seed(), 62000000 + s);
		struct sluice_terms terms = dice_terms(&dice);
		struct sl_strikes strikes = {0};
		struct twin_strikes twin = {.count = 0};
		sluice_ns t = H, step = dice_one_in(&dice, 2) ? 3 * S : 1 + terms.within_ns / terms.after;
		for (int i = 0; i < STREAM; i++) {
			struct sluice_standing got, expected;
			t += dice_below(&dice, step) + (dice_one_in(&dice, 20) ? dice_below(&dice, 2 * terms.forgive_ns) : 0);
			if (dice_one_in(&dice, 8)) /* exactly at an end */
				t += sl_strikes_stand(&terms, &strikes, t).ends_after_ns;
			if (!dice_one_in(&dice, 4)) {
				sl_strikes_add(&terms, &strikes, t);
				twin_deny(&terms, &twin, t);
			}
			got = sl_strikes_stand(&terms, &strikes, t);
			expected = twin_stand(&terms, &twin, t);
			if (memcmp(&got, &expected, sizeof got) != 0)
				fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " operation %d: level %u %u denials %u %u",
				         dice_seed(), s, i, got.level, expected.level, got.denials, expected.denials);
			if (sl_strikes_life(&terms, &strikes, t) == 0)
				assert_int_equal(got.level + got.denials + got.ends_after_ns, 0);
			else
				assert_true(got.level + got.denials + got.ends_after_ns != 0);
		}
	}
}

static void any_bytes_are_well_formed(void **state) {
	struct dice dice = dice_of(dice_seed(), 63);
	(void)state;
	for (uint64_t i = 0, ops = dice_ops(200000); i < ops; i++) {
		struct sluice_terms terms = dice_terms(&dice);
		struct sl_strikes strikes;
		struct sluice_decision decision = denied(S);
		struct sluice_standing standing;
		sluice_ns now = dice_bits(&dice) >> dice_below(&dice, 40), t;
		for (size_t k = 0; k < sizeof strikes / 8; k++)
			((uint64_t *)(void *)&strikes)[k] =
				dice_one_in(&dice, 8) ? UINT64_MAX - dice_below(&dice, 3) : dice_bits(&dice) >> dice_below(&dice, 64);
		t = strikes.last > now ? strikes.last : now;
		assert_true(sl_strikes_bytes(&strikes) <= sizeof strikes);
		standing = sl_strikes_stand(&terms, &strikes, now);
		assert_true(standing.ends_after_ns <= terms.penalties_ns[terms.penalty_count - 1]);
		assert_true(standing.denials < SL_AFTER_MAX);
		sl_strikes_judge(&terms, &strikes, now, 1, &decision);
		assert_false(decision.allowed);
		assert_true(decision.retry_after_ns >= S);
		sl_strikes_add(&terms, &strikes, now);
		if (standing.ends_after_ns == 0) {
			assert_true(strikes.count < SL_AFTER_MAX);
			assert_int_equal(strikes.last, t);
		}
		(void)sl_strikes_life(&terms, &strikes, now);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_terms_print_canonically),
		cmocka_unit_test(bad_terms_are_refused_where_they_are_bad),
		cmocka_unit_test(a_penalty_alone_leaves_other_terms),
		cmocka_unit_test(damaged_terms_are_refused_or_whole),
		cmocka_unit_test(the_third_denial_in_a_minute_shuts_out),
		cmocka_unit_test(two_denials_a_minute_apart_are_not_two),
		cmocka_unit_test(penalties_rise_and_the_last_repeats),
		cmocka_unit_test(a_denial_that_shuts_nobody_out_delays_forgiving),
		cmocka_unit_test(a_judged_decision_keeps_the_longer_wait),
		cmocka_unit_test(lowered_terms_shorten_what_was_imposed),
		cmocka_unit_test(what_lowered_terms_have_ended_does_not_go_on),
		cmocka_unit_test(strikes_are_their_twins),
		cmocka_unit_test(any_bytes_are_well_formed),
	};
	dice_seed();
	return cmocka_run_group_tests_name("terms and strikes", tests, NULL, NULL);
}
