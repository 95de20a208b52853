/* Terms of a limit in words, and the strikes of an escalation.
 *
 * Strikes are the instants of the denials that count towards the next penalty, the end of the last one, and how many
 * were imposed. All of it follows from instants, so nothing has to run when a penalty ends:
 *
 *   t          the instant, never before the last denial
 *   locked out t < until
 *   counts     a denial at s, while t < s + within: a sliding log of at most 63
 *   forgiven   t >= max(until, last) + forgive: levels are 0 again; denials go by their own time
 *
 * A denial that makes `after` of them starts penalty number `level` (the last one repeats) at its own instant, and the
 * count begins anew. Whoever is locked out adds nothing, so nothing prolongs it.
 *
 * I1  until <= last + the longest penalty, whatever bytes are found or terms have changed: never longer than written.
 * I2  denials rise, and none lies after `last`.
 * I3  a penalty that is over under the terms of a denial is over for good once that denial is noted. */
#include "algo/terms.h"
#include "algo/reading.h"
#include "base/assert.h"
#include "base/math.h"

#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* Goes past `text` where it stands here. */
static bool skip(struct sl_reading *in, const char *text) {
	size_t len = strlen(text);
	if ((size_t)(in->end - in->at) < len || memcmp(in->at, text, len) != 0)
		return false;
	in->at += len;
	return true;
}

/* "[1m, 10m, 1h]" */
static sluice_err read_penalties(struct sl_reading *in, struct sluice_terms *terms) {
	if (!skip(in, "["))
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected '[' and penalties, such as [1m, 10m, 1h]");
	terms->penalty_count = 0;
	do {
		const char *start = in->at += in->at < in->end && *in->at == ' ' && terms->penalty_count != 0;
		sluice_ns ns;
		sluice_err err = sl_read_duration(in, &ns, "expected a penalty such as 10m");
		if (err != SLUICE_OK)
			return err;
		if (terms->penalty_count == SLUICE_PENALTIES_MAX)
			return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected at most 8 penalties");
		if (terms->penalty_count != 0 && ns <= terms->penalties_ns[terms->penalty_count - 1])
			return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected each penalty to be longer than the one before");
		terms->penalties_ns[terms->penalty_count++] = ns;
	} while (skip(in, ","));
	return skip(in, "]") ? SLUICE_OK
	                     : sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected ',' and a longer penalty, or ']'");
}

/* " after 3 denials in 1m" */
static sluice_err read_after(struct sl_reading *in, struct sluice_terms *terms) {
	const char *start;
	uint64_t n;
	if (!skip(in, " after "))
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected ' after N denials in ' and a time");
	start = in->at;
	if (sl_read_digits(in, &n, "expected a number of denials") != SLUICE_OK)
		return SLUICE_E_SYNTAX;
	if (n < 1 || n > SL_AFTER_MAX)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected 1 to 64 denials");
	terms->after = (uint16_t)n;
	if (!skip(in, " denials in ") && !(n == 1 && skip(in, " denial in ")))
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected ' denials in ' and a time such as 1m");
	return sl_read_duration(in, &terms->within_ns, "expected a time such as 1m");
}

static sluice_err read_penalty(struct sl_reading *in, struct sluice_terms *terms) {
	sluice_err err = read_penalties(in, terms);
	if (err == SLUICE_OK)
		err = read_after(in, terms);
	if (err != SLUICE_OK)
		return err;
	terms->forgive_ns = terms->penalties_ns[terms->penalty_count - 1];
	return skip(in, " forgive ") ? sl_read_duration(in, &terms->forgive_ns, "expected a time such as 1d") : SLUICE_OK;
}

static struct sl_reading reader_of(struct sluice_bytes text, struct sluice_error *error) {
	const char *start = text.data != NULL ? text.data : "";
	return (struct sl_reading){start, start, start + (text.data != NULL ? text.len : 0), error};
}

sluice_err sl_penalty_parse(struct sluice_terms *terms, struct sluice_bytes text, struct sluice_error *error) {
	struct sluice_terms parsed = *terms;
	struct sl_reading in = reader_of(text, error);
	sluice_err err;
	memset(parsed.penalties_ns, 0, sizeof parsed.penalties_ns);
	err = read_penalty(&in, &parsed);
	if (err == SLUICE_OK && in.at != in.end)
		err = sl_reading_fail(&in, SLUICE_E_SYNTAX, in.at, "expected ' forgive ' and a time, or the end");
	if (err == SLUICE_OK)
		*terms = parsed;
	return err;
}

static sluice_err read_term(struct sl_reading *in, struct sluice_terms *terms) {
	const char *start = in->at;
	if (skip(in, "count-denied")) {
		if (terms->count_denied)
			return sl_reading_fail(in, SLUICE_E_SYNTAX, start, "expected each term once");
		terms->count_denied = true;
		return SLUICE_OK;
	}
	if (!skip(in, "penalty "))
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected 'count-denied' or 'penalty ' and what it is");
	if (terms->penalty_count != 0)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, start, "expected each term once");
	return read_penalty(in, terms);
}

sluice_err sl_terms_parse(struct sluice_terms *terms, struct sluice_bytes text, struct sluice_error *error) {
	struct sluice_terms parsed = {0};
	struct sl_reading in = reader_of(text, error);
	do {
		sluice_err err = read_term(&in, &parsed);
		if (err != SLUICE_OK)
			return err;
	} while (skip(&in, "; "));
	if (in.at != in.end)
		return sl_reading_fail(&in, SLUICE_E_SYNTAX, in.at, "expected '; ' and another term, or the end");
	*terms = parsed;
	return SLUICE_OK;
}

static void print_penalty(struct sl_out *out, const struct sluice_terms *terms) {
	for (int i = 0; i < terms->penalty_count; i++) {
		sl_out_str(out, i == 0 ? "[" : ", ");
		sl_print_duration(out, terms->penalties_ns[i]);
	}
	sl_out_str(out, "] after ");
	sl_out_u64(out, terms->after);
	sl_out_str(out, terms->after == 1 ? " denial in " : " denials in ");
	sl_print_duration(out, terms->within_ns);
	sl_out_str(out, " forgive ");
	sl_print_duration(out, terms->forgive_ns);
}

size_t sl_penalty_print(const struct sluice_terms *terms, char text[SL_TERMS_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SL_TERMS_TEXT_MAX - 1);
	if (terms->penalty_count != 0)
		print_penalty(&out, terms);
	*out.at = '\0';
	return sl_out_len(&out);
}

size_t sl_terms_print(const struct sluice_terms *terms, char text[SL_TERMS_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SL_TERMS_TEXT_MAX - 1);
	if (terms->count_denied)
		sl_out_str(&out, terms->penalty_count != 0 ? "count-denied; " : "count-denied");
	if (terms->penalty_count != 0) {
		sl_out_str(&out, "penalty ");
		print_penalty(&out, terms);
	}
	*out.at = '\0';
	return sl_out_len(&out);
}

/* ---- strikes ---------------------------------------------------------------------------------------------------- */

/* The end of the last lockout, as I1 bounds it; 0: there was none. */
static sluice_ns end_of(const struct sluice_terms *terms, const struct sl_strikes *strikes) {
	if (terms->penalty_count == 0)
		return 0;
	return sl_min(strikes->until, sl_ns_plus(strikes->last, terms->penalties_ns[terms->penalty_count - 1]));
}

static sluice_ns forgiven_at(const struct sluice_terms *terms, const struct sl_strikes *strikes) {
	return sl_ns_plus(sl_max(end_of(terms, strikes), strikes->last), terms->forgive_ns);
}

/* How many denials count at t, the newest ones; they begin at denials[*first]. */
static uint32_t counting(const struct sluice_terms *terms, const struct sl_strikes *strikes, sluice_ns t,
                         uint32_t *first) {
	uint32_t count = (uint32_t)sl_min(strikes->count, SL_AFTER_MAX - 1);
	*first = 0;
	while (*first < count && (strikes->denials[*first] > t || t - strikes->denials[*first] >= terms->within_ns))
		++*first;
	SL_ASSERT(*first <= count && count < SL_AFTER_MAX);
	return count - *first;
}

struct sluice_standing sl_strikes_stand(const struct sluice_terms *terms, const struct sl_strikes *strikes,
                                        sluice_ns now) {
	struct sluice_standing standing = {0};
	sluice_ns t = sl_max(now, strikes->last), end = end_of(terms, strikes), forgiven = forgiven_at(terms, strikes);
	uint32_t first;
	if (terms->penalty_count == 0)
		return standing;
	SL_ASSERT(t >= strikes->last && forgiven >= end); /* of damaged strikes `last` may be later than anything */
	standing.denials = counting(terms, strikes, t, &first);
	standing.ends_after_ns = end > t ? end - t : 0;
	if (strikes->level != 0 && forgiven > t) {
		standing.level = strikes->level;
		standing.forgiven_after_ns = forgiven - t;
	}
	return standing;
}

void sl_strikes_judge(const struct sluice_terms *terms, const struct sl_strikes *strikes, sluice_ns now, uint64_t cost,
                      struct sluice_decision *decision) {
	sluice_ns ends = sl_strikes_stand(terms, strikes, now).ends_after_ns;
	if (ends == 0)
		return;
	SL_ASSERT(terms->penalty_count != 0 && ends <= terms->penalties_ns[terms->penalty_count - 1]);
	decision->remaining = 0;
	decision->delay_ns = 0;
	decision->reset_after_ns = sl_max(decision->reset_after_ns, ends);
	if (cost == 0)
		return;
	decision->allowed = false;
	decision->retry_after_ns = sl_max(decision->retry_after_ns, ends);
}

bool sl_terms_are_valid(const struct sluice_terms *terms) {
	if (terms->penalty_count == 0)
		return true;
	if (terms->penalty_count > SLUICE_PENALTIES_MAX || terms->after == 0 || terms->after > SL_AFTER_MAX ||
	    terms->within_ns == 0)
		return false;
	for (int i = 0; i < terms->penalty_count; i++)
		if (terms->penalties_ns[i] <= (i == 0 ? 0 : terms->penalties_ns[i - 1]))
			return false;
	return true;
}

bool sl_strikes_add(const struct sluice_terms *terms, struct sl_strikes *strikes, sluice_ns now) {
	sluice_ns t = sl_max(now, strikes->last);
	struct sluice_standing standing = sl_strikes_stand(terms, strikes, t);
	uint32_t first, count;
	bool penalized;
	if (terms->penalty_count == 0 || standing.ends_after_ns != 0)
		return false;
	count = counting(terms, strikes, t, &first);
	memmove(strikes->denials, strikes->denials + first, count * sizeof strikes->denials[0]);
	SL_ASSERT(count < SL_AFTER_MAX);
	strikes->denials[count++] = t;
	strikes->level = standing.level;
	strikes->until = end_of(terms, strikes); /* I3: what I1 has cut short must not go on behind the new `last` */
	strikes->last = t;
	penalized = count >= terms->after;
	if (penalized) {
		strikes->until = sl_ns_plus(t, terms->penalties_ns[sl_min(strikes->level, terms->penalty_count - 1u)]);
		strikes->level += strikes->level != UINT32_MAX;
		count = 0;
	}
	SL_ASSERT(count < terms->after); /* one more would have been too many */
	strikes->count = count;
	return penalized;
}

sluice_ns sl_strikes_life(const struct sluice_terms *terms, const struct sl_strikes *strikes, sluice_ns now) {
	sluice_ns end = end_of(terms, strikes);
	uint32_t count = (uint32_t)sl_min(strikes->count, SL_AFTER_MAX - 1);
	if (terms->penalty_count == 0)
		return 0;
	if (strikes->level != 0)
		end = sl_max(end, forgiven_at(terms, strikes));
	for (uint32_t i = 0; i < count; i++)
		end = sl_max(end, sl_ns_plus(sl_min(strikes->denials[i], strikes->last), terms->within_ns));
	return end > now ? end - now : 0;
}
