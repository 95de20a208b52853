/* The one notation for limits, both ways:
 *
 *   limit    = "unlimited" | [algorithm " "] quota "/" duration *( " " option " " value )
 *   quota    = digits [ k | M | G ]              0..4294967295 after the multiplier
 *   duration = digits ( ms | s | m | h | d | w ) 1 ms..3660 d
 *
 * One pass, no allocation. A mistake is reported with the column of the first byte that is wrong and with what would
 * be right there; nothing is guessed. Printing gives the canonical text: quotas in digits, durations in the largest
 * unit that divides them, every option written out. parse(print(x)) == x for every valid limit. */
#include "algo/rule.h"
#include "base/out.h"

struct word {
	const char *text;
	uint8_t algorithm;
};

enum { CONCURRENCY = 100, DISTINCT = 101 };

static const struct word algorithms[] = {
	{"fixed-window", SLUICE_FIXED_WINDOW},
	{"sliding-window", SLUICE_SLIDING_WINDOW},
	{"sliding-buckets", SLUICE_SLIDING_BUCKETS},
	{"sliding-log", SLUICE_SLIDING_LOG},
	{"token-bucket", SLUICE_TOKEN_BUCKET},
	{"leaky-bucket", SLUICE_LEAKY_BUCKET},
	{"concurrency", CONCURRENCY},
	{"distinct", DISTINCT},
	{"unlimited", SLUICE_UNLIMITED},
};

static const struct unit {
	const char *text;
	uint64_t ms;
} durations[] = {{"w", 604800000}, {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

struct reader {
	const char *start, *at, *end;
	struct sluice_error *error;
};

/* Fills the error with `expected`, what was found at `where`, and its column. */
static sluice_err fail(struct reader *in, sluice_err err, const char *where, const char *expected) {
	const char *stop = where;
	if (in->error == NULL)
		return err;
	struct sl_out out = sl_out_to(in->error->text, sizeof in->error->text - 1);
	while (stop < in->end && *stop != ' ')
		stop++;
	if (stop == where && stop < in->end)
		stop++;
	in->error->column = (uint32_t)(where - in->start) + 1;
	sl_out_str(&out, expected);
	sl_out_str(&out, ", found ");
	if (where == in->end)
		sl_out_str(&out, "the end");
	else
		sl_out_quoted(&out, sl_slice(where, (size_t)(stop - where)), 40);
	*out.at = '\0';
	return err;
}

static struct sluice_bytes peek_word(const struct reader *in) {
	const char *stop = in->at;
	while (stop < in->end && *stop != ' ')
		stop++;
	return sl_slice(in->at, (size_t)(stop - in->at));
}

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* Digits to a number; saturates at UINT64_MAX, so that the range check behind it sees any overflow. */
static sluice_err read_digits(struct reader *in, uint64_t *value, const char *expected) {
	uint64_t n = 0;
	if (in->at == in->end || !is_digit(*in->at))
		return fail(in, SLUICE_E_SYNTAX, in->at, expected);
	for (; in->at < in->end && is_digit(*in->at); in->at++)
		n = n > (UINT64_MAX - 9) / 10 ? UINT64_MAX : n * 10 + (uint64_t)(*in->at - '0');
	*value = n;
	return SLUICE_OK;
}

static sluice_err read_quota(struct reader *in, uint32_t *quota, const char *expected) {
	const char *start = in->at;
	uint64_t n, factor = 1;
	sluice_err err = read_digits(in, &n, expected);
	if (err != SLUICE_OK)
		return err;
	if (in->at < in->end && (*in->at == 'k' || *in->at == 'M' || *in->at == 'G')) {
		factor = *in->at == 'k' ? 1000 : *in->at == 'M' ? 1000000 : 1000000000;
		in->at++;
	}
	if (n > UINT32_MAX / factor)
		return fail(in, SLUICE_E_RANGE, start, "expected at most 4294967295");
	*quota = (uint32_t)(n * factor);
	return SLUICE_OK;
}

/* The unit that stands here, the longest that fits: "ms" before "m". */
static const struct unit *read_unit(struct reader *in) {
	const struct unit *found = NULL;
	size_t left = (size_t)(in->end - in->at), longest = 0;
	for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
		size_t len = strlen(durations[i].text);
		if (len <= left && len > longest && memcmp(in->at, durations[i].text, len) == 0) {
			found = &durations[i];
			longest = len;
		}
	}
	in->at += longest;
	return found;
}

static sluice_err read_duration(struct reader *in, sluice_ns *ns, const char *expected) {
	const char *start = in->at;
	const struct unit *unit;
	uint64_t n;
	sluice_err err = read_digits(in, &n, expected);
	if (err != SLUICE_OK)
		return err;
	unit = read_unit(in);
	if (unit == NULL)
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected a unit of time: ms, s, m, h, d or w");
	if (n < 1 || n > SL_WINDOW_NS_MAX / SL_MS_NS / unit->ms)
		return fail(in, SLUICE_E_RANGE, start, "expected a duration from 1ms to 3660d");
	*ns = n * unit->ms * SL_MS_NS;
	return SLUICE_OK;
}

static sluice_err read_algorithm(struct reader *in, struct sluice_limit *limit) {
	struct sluice_bytes word = peek_word(in);
	const struct word *found = NULL;
	limit->algorithm = SLUICE_SLIDING_WINDOW;
	if (in->at < in->end && is_digit(*in->at))
		return SLUICE_OK;
	for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
		if (sl_bytes_equal(word, sl_str(algorithms[i].text)))
			found = &algorithms[i];
	if (found == NULL)
		return fail(in, SLUICE_E_SYNTAX, in->at,
		            "expected a limit such as 100/1m, or an algorithm: fixed-window, sliding-window, sliding-buckets, "
		            "sliding-log, token-bucket, leaky-bucket or unlimited");
	if (found->algorithm == CONCURRENCY || found->algorithm == DISTINCT)
		return fail(in, SLUICE_E_SYNTAX, in->at,
		            found->algorithm == DISTINCT
		                ? "'distinct' comes with a later version of Sluice; expected another algorithm"
		                : "'concurrency' comes with a later version of Sluice; expected another algorithm");
	limit->algorithm = found->algorithm;
	in->at += word.len;
	if (limit->algorithm == SLUICE_UNLIMITED)
		return in->at == in->end ? SLUICE_OK : fail(in, SLUICE_E_SYNTAX, in->at, "expected nothing after 'unlimited'");
	if (in->at == in->end || *in->at != ' ')
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected a space and a quota such as 100/1m");
	in->at++;
	return SLUICE_OK;
}

static sluice_err read_rate(struct reader *in, struct sluice_limit *limit) {
	sluice_err err = read_quota(in, &limit->quota, "expected a quota such as 100 or 5k");
	if (err != SLUICE_OK)
		return err;
	if (in->at == in->end || *in->at != '/')
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected '/' and a window such as 1m (multipliers: k, M, G)");
	in->at++;
	return read_duration(in, &limit->window_ns, "expected a window such as 10s or 1m");
}

/* ---- options: each word, whom it belongs to, and how its value is read --------------------------------------- */

struct option {
	const char *word;
	uint8_t algorithm;
	sluice_err (*read)(struct reader *in, struct sluice_limit *limit);
};

static sluice_err read_burst(struct reader *in, struct sluice_limit *limit) {
	const char *start = in->at;
	sluice_err err = read_quota(in, &limit->burst, "expected a burst such as 100 or 5k");
	if (err == SLUICE_OK && limit->burst == 0)
		return fail(in, SLUICE_E_RANGE, start, "expected a burst of at least 1");
	return err;
}

static sluice_err read_queue(struct reader *in, struct sluice_limit *limit) {
	return read_quota(in, &limit->burst, "expected a queue such as 50 or 5k");
}

static sluice_err read_precision(struct reader *in, struct sluice_limit *limit) {
	const char *start = in->at;
	sluice_err err = read_duration(in, &limit->precision_ns, "expected a precision such as 1s");
	if (err != SLUICE_OK)
		return err;
	if (limit->window_ns % limit->precision_ns != 0)
		return fail(in, SLUICE_E_RANGE, start, "expected a precision that divides the window");
	if (limit->window_ns / limit->precision_ns < 2 || limit->window_ns / limit->precision_ns > SL_BUCKETS_MAX)
		return fail(in, SLUICE_E_RANGE, start, "expected a precision that divides the window into 2 to 4096 parts");
	limit->bucket_count = (uint16_t)(limit->window_ns / limit->precision_ns);
	return SLUICE_OK;
}

static const char *const edges[] = {"count", "drop", "weighted"};

static sluice_err read_edge(struct reader *in, struct sluice_limit *limit) {
	struct sluice_bytes word = peek_word(in);
	for (uint8_t i = 0; i < 3; i++)
		if (sl_bytes_equal(word, sl_str(edges[i]))) {
			limit->edge = i;
			in->at += word.len;
			return SLUICE_OK;
		}
	return fail(in, SLUICE_E_SYNTAX, in->at, "expected an edge: count, drop or weighted");
}

static const struct option options[] = {
	{"burst", SLUICE_TOKEN_BUCKET, read_burst},
	{"queue", SLUICE_LEAKY_BUCKET, read_queue},
	{"precision", SLUICE_SLIDING_BUCKETS, read_precision},
	{"edge", SLUICE_SLIDING_BUCKETS, read_edge},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const char *expected_option(const struct sluice_limit *limit) {
	switch (limit->algorithm) {
	case SLUICE_TOKEN_BUCKET:
		return "expected the option 'burst', once";
	case SLUICE_LEAKY_BUCKET:
		return "expected the option 'queue', once";
	case SLUICE_SLIDING_BUCKETS:
		return "expected the options 'precision' and 'edge', once each";
	default:
		return "expected the end: this algorithm has no options";
	}
}

/* One " word value"; `seen` has a bit for each option that has been read. */
static sluice_err read_option(struct reader *in, struct sluice_limit *limit, unsigned *seen) {
	struct sluice_bytes word;
	unsigned i = 0;
	if (*in->at != ' ')
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected a space or the end");
	if (in->at + 1 == in->end)
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected the end");
	in->at++;
	word = peek_word(in);
	while (i < OPTION_COUNT && !sl_bytes_equal(word, sl_str(options[i].word)))
		i++;
	if (i == OPTION_COUNT || options[i].algorithm != limit->algorithm || (*seen & 1u << i))
		return fail(in, SLUICE_E_SYNTAX, in->at, expected_option(limit));
	if (limit->quota == 0 && limit->algorithm != SLUICE_SLIDING_BUCKETS)
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected no option: a quota of 0 denies all and has none");
	*seen |= 1u << i;
	in->at += word.len;
	if (in->at == in->end || *in->at != ' ')
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected a space and the option's value");
	in->at++;
	return options[i].read(in, limit);
}

static sluice_err read_options(struct reader *in, struct sluice_limit *limit) {
	unsigned seen = 0;
	bool bucket = limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET;
	if (bucket)
		limit->burst = limit->quota;
	while (in->at < in->end) {
		sluice_err err = read_option(in, limit, &seen);
		if (err != SLUICE_OK)
			return err;
	}
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS && limit->precision_ns == 0)
		return fail(in, SLUICE_E_SYNTAX, in->at, "expected the option 'precision', such as precision 1s");
	return SLUICE_OK;
}

sluice_err sluice_limit_parse(struct sluice_limit *limit, struct sluice_bytes text, struct sluice_error *error) {
	struct sluice_limit parsed = {0};
	struct reader in = {text.data, text.data, (const char *)text.data + text.len, error};
	sluice_err err;
	if (limit == NULL || (text.data == NULL && text.len != 0))
		return SLUICE_E_MISUSE;
	if (text.data == NULL)
		in = (struct reader){"", "", "", error};
	in.end = in.at + text.len;
	err = read_algorithm(&in, &parsed);
	if (err == SLUICE_OK && parsed.algorithm != SLUICE_UNLIMITED)
		err = read_rate(&in, &parsed);
	if (err == SLUICE_OK && parsed.algorithm != SLUICE_UNLIMITED)
		err = read_options(&in, &parsed);
	if (err != SLUICE_OK)
		return err;
	sl_rule_derive(&parsed);
	*limit = parsed;
	return SLUICE_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------------- */

static void print_duration(struct sl_out *out, sluice_ns ns) {
	uint64_t ms = ns / SL_MS_NS;
	const struct unit *unit = durations;
	while (ms % unit->ms != 0)
		unit++;
	sl_out_u64(out, ms / unit->ms);
	sl_out_str(out, unit->text);
}

static void print_options(struct sl_out *out, const struct sluice_limit *limit) {
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS) {
		sl_out_str(out, " precision ");
		print_duration(out, limit->precision_ns);
		sl_out_str(out, " edge ");
		sl_out_str(out, edges[limit->edge]);
	} else if (limit->quota != 0 &&
	           (limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET)) {
		sl_out_str(out, limit->algorithm == SLUICE_TOKEN_BUCKET ? " burst " : " queue ");
		sl_out_u64(out, limit->burst);
	}
}

size_t sluice_limit_print(const struct sluice_limit *limit, char text[SLUICE_LIMIT_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SLUICE_LIMIT_TEXT_MAX - 1);
	sl_out_str(&out, sl_rule_word(limit));
	if (limit->algorithm != SLUICE_UNLIMITED) {
		sl_out_char(&out, ' ');
		sl_out_u64(&out, limit->quota);
		sl_out_char(&out, '/');
		print_duration(&out, limit->window_ns);
		print_options(&out, limit);
	}
	*out.at = '\0';
	return sl_out_len(&out);
}
