/* The one notation for limits, both ways:
 *
 *   limit    = "unlimited" | [algorithm " "] quota "/" window *( " " option " " value )
 *            | [algorithm " "] quota "/" duration " spread" [ " " digits ]         fixed-window, sliding-window
 *            | "concurrency " quota " lease " duration
 *   quota    = digits [ k | M | G ]              0..4294967295 after the multiplier
 *   window   = duration | hour | day | week | month | year
 *   duration = digits ( ms | s | m | h | d | w ) 1 ms..3660 d
 *
 * One pass, no allocation. A mistake is reported with the column of the first byte that is wrong and with what would
 * be right there; nothing is guessed. Printing gives the canonical text: quotas in digits, durations in the largest
 * unit that divides them, every option written out but `spread`, which has no default: it is there or not, and
 * `registers` where it is the default, so that the text of before is the text still.
 * parse(print(x)) == x for every valid limit. */
#include "algo/calendar.h"
#include "algo/reading.h"

static struct sluice_bytes peek_word(const struct sl_reading *in) {
	const char *stop = in->at;
	while (stop < in->end && *stop != ' ')
		stop++;
	return sl_slice(in->at, (size_t)(stop - in->at));
}

static sluice_err read_quota(struct sl_reading *in, uint32_t *quota, const char *expected) {
	const char *start = in->at;
	uint64_t n, factor = 1;
	sluice_err err = sl_read_digits(in, &n, expected);
	if (err != SLUICE_OK)
		return err;
	if (in->at < in->end && (*in->at == 'k' || *in->at == 'M' || *in->at == 'G')) {
		factor = *in->at == 'k' ? 1000 : *in->at == 'M' ? 1000000 : 1000000000;
		in->at++;
	}
	if (n > UINT32_MAX / factor)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected at most 4294967295");
	*quota = (uint32_t)(n * factor);
	return SLUICE_OK;
}

static sluice_err fail_algorithm(struct sl_reading *in) {
	char text[sizeof in->error->text];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	sl_out_str(&out, "expected a limit such as 100/1m, or an algorithm: ");
	sl_algorithms_list(&out);
	SL_ASSERT(!out.overflow);
	*out.at = '\0';
	return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, text);
}

static sluice_err read_algorithm(struct sl_reading *in, struct sluice_limit *limit) {
	struct sluice_bytes word = peek_word(in);
	int32_t found = sl_algorithm_named(word);
	limit->algorithm = SLUICE_SLIDING_WINDOW;
	if (in->at < in->end && sl_is_digit(*in->at))
		return SLUICE_OK;
	if (found < 0)
		return fail_algorithm(in);
	limit->algorithm = (uint8_t)found;
	in->at += word.len;
	if (limit->algorithm == SLUICE_UNLIMITED)
		return in->at == in->end ? SLUICE_OK
		                         : sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected nothing after 'unlimited'");
	if (in->at == in->end) /* else a space stands here, with which words end */
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected a space and a quota such as 100/1m");
	in->at++;
	return SLUICE_OK;
}

/* A window of the calendar, if one stands here: of fixed-window alone, which is also meant where no algorithm is named.
 * Its zone is an option. */
static sluice_err read_calendar(struct sl_reading *in, struct sluice_limit *limit) {
	struct sluice_bytes word = peek_word(in);
	bool named = !sl_is_digit(*in->start);
	limit->calendar = (uint16_t)sl_calendar_of(word);
	if (limit->calendar == SLUICE_CALENDAR_NONE)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected a window such as 10s or 1m");
	if (named && limit->algorithm != SLUICE_FIXED_WINDOW)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at,
		                       "expected a window such as 10s or 1m: those of the calendar are fixed-window's alone");
	limit->algorithm = SLUICE_FIXED_WINDOW;
	limit->window_ns = sl_calendar_longest(limit->calendar, limit->zone);
	in->at += word.len;
	return SLUICE_OK;
}

static sluice_err read_rate(struct sl_reading *in, struct sluice_limit *limit) {
	sluice_err err = read_quota(in, &limit->quota, "expected a quota such as 100 or 5k");
	if (err != SLUICE_OK)
		return err;
	if (in->at == in->end || *in->at != '/')
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at,
		                       "expected '/' and a window such as 1m (multipliers: k, M, G)");
	in->at++;
	if (in->at == in->end || sl_is_digit(*in->at))
		return sl_read_duration(in, &limit->window_ns, "expected a window such as 10s or 1m");
	return read_calendar(in, limit);
}

/* concurrency N lease T: how many, and for how long each at most; it is no option whether leases end. */
static sluice_err read_leases(struct sl_reading *in, struct sluice_limit *limit) {
	static const char lease[] = " lease ";
	size_t len = sizeof lease - 1;
	sluice_err err = read_quota(in, &limit->quota, "expected how many may be in flight, such as 20");
	if (err != SLUICE_OK)
		return err;
	if ((size_t)(in->end - in->at) < len || memcmp(in->at, lease, len) != 0)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at,
		                       "expected the option 'lease' and its duration, such as lease 30s");
	in->at += len;
	err = sl_read_duration(in, &limit->window_ns, "expected how long a lease lasts, such as 30s");
	if (err == SLUICE_OK && in->at != in->end)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected the end");
	return err;
}

/* ---- options: each word, whom it belongs to, and how its value is read --------------------------------------- */

struct option {
	const char *word;
	uint8_t algorithm;
	sluice_err (*read)(struct sl_reading *in, struct sluice_limit *limit);
};

static sluice_err read_burst(struct sl_reading *in, struct sluice_limit *limit) {
	const char *start = in->at;
	sluice_err err = read_quota(in, &limit->burst, "expected a burst such as 100 or 5k");
	if (err == SLUICE_OK && limit->burst == 0)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected a burst of at least 1");
	return err;
}

static sluice_err read_queue(struct sl_reading *in, struct sluice_limit *limit) {
	return read_quota(in, &limit->burst, "expected a queue such as 50 or 5k");
}

static sluice_err read_precision(struct sl_reading *in, struct sluice_limit *limit) {
	const char *start = in->at;
	sluice_err err = sl_read_duration(in, &limit->precision_ns, "expected a precision such as 1s");
	if (err != SLUICE_OK)
		return err;
	if (limit->window_ns % limit->precision_ns != 0)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected a precision that divides the window");
	if (limit->window_ns / limit->precision_ns < 2 || limit->window_ns / limit->precision_ns > SL_BUCKETS_MAX)
		return sl_reading_fail(in, SLUICE_E_RANGE, start,
		                       "expected a precision that divides the window into 2 to 4096 parts");
	limit->bucket_count = (uint16_t)(limit->window_ns / limit->precision_ns);
	return SLUICE_OK;
}

static const char *const edges[] = {"count", "drop", "weighted", "deny", "allow"};

/* One of the edges from..to; false where none of them stands here. */
static bool read_edge_of(struct sl_reading *in, struct sluice_limit *limit, uint8_t from, uint8_t to) {
	struct sluice_bytes word = peek_word(in);
	for (uint8_t i = from; i <= to; i++)
		if (sl_bytes_equal(word, sl_str(edges[i]))) {
			limit->edge = i;
			in->at += word.len;
			return true;
		}
	return false;
}

static sluice_err read_edge(struct sl_reading *in, struct sluice_limit *limit) {
	if (read_edge_of(in, limit, SLUICE_EDGE_COUNT, SLUICE_EDGE_WEIGHTED))
		return SLUICE_OK;
	return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected an edge: count, drop or weighted");
}

static sluice_err read_side(struct sl_reading *in, struct sluice_limit *limit) {
	if (read_edge_of(in, limit, SLUICE_EDGE_DENY, SLUICE_EDGE_ALLOW))
		return SLUICE_OK;
	return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected an edge: deny or allow");
}

static sluice_err read_registers(struct sl_reading *in, struct sluice_limit *limit) {
	static const char expected[] = "expected a number of registers: 1024, 2048, 4096, 8192, 16384 or 32768";
	const char *start = in->at;
	uint64_t n;
	sluice_err err = sl_read_digits(in, &n, expected);
	if (err == SLUICE_OK && (n < SL_REGISTERS_MIN || n > SL_REGISTERS_MAX || (n & (n - 1)) != 0))
		return sl_reading_fail(in, SLUICE_E_RANGE, start, expected);
	limit->burst = err == SLUICE_OK ? (uint32_t)n : 0;
	return err;
}

/* `Europe/Berlin` -> `expected the name of a time zone such as 'Europe/Berlin'`, with the one that was meant. */
static sluice_err fail_zone(struct sl_reading *in, struct sluice_bytes word) {
	char text[160];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	const char *near = sl_zone_near != NULL ? sl_zone_near(word) : NULL;
	sl_out_str(&out, "expected the name of a time zone ");
	sl_out_str(&out, near != NULL ? "(did you mean " : "such as Europe/Berlin");
	sl_out_str(&out, near != NULL ? near : "");
	sl_out_str(&out, near != NULL ? "?)" : "");
	if (sl_zone_load == NULL)
		sl_out_str(&out, " (only UTC is known here)");
	*out.at = '\0';
	return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, text);
}

static sluice_err read_zone(struct sl_reading *in, struct sluice_limit *limit) {
	struct sluice_bytes word = peek_word(in);
	int32_t zone = -1;
	if (word.len >= 1 && word.len < SL_ZONE_NAME_MAX)
		zone = sl_zone_find(word);
	if (zone < 0 && word.len >= 1 && word.len < SL_ZONE_NAME_MAX && sl_zone_load != NULL)
		zone = sl_zone_load(word);
	if (zone < 0)
		return fail_zone(in, word);
	limit->zone = (uint16_t)zone;
	limit->window_ns = sl_calendar_longest(limit->calendar, limit->zone);
	in->at += word.len;
	return SLUICE_OK;
}

/* `spread`, which may be all that is said; or with the phase of all keys, in parts of a window. */
static sluice_err read_spread(struct sl_reading *in, struct sluice_limit *limit) {
	static const char expected[] = "expected the end, or a phase in 131072ths of the window, up to 131071";
	uint64_t phase;
	limit->algorithm |= SLUICE_SPREAD;
	if (in->at == in->end)
		return SLUICE_OK;
	const char *start = ++in->at;
	sluice_err err = sl_read_digits(in, &phase, expected);
	if (err == SLUICE_OK && phase >= SL_PHASES)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, expected);
	limit->burst = err == SLUICE_OK ? (uint32_t)phase + 1 : 0;
	return err;
}

/* Windows that are not the calendar's have one option, which is no pair. Whether it stands here. */
static bool is_spread(const struct sl_reading *in, const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_HAS_WINDOWS) && !sl_rule_spreads(limit) &&
	       limit->calendar == SLUICE_CALENDAR_NONE && sl_bytes_equal(peek_word(in), sl_str("spread"));
}

static const struct option options[] = {
	{"at", SLUICE_FIXED_WINDOW, read_zone},         {"burst", SLUICE_TOKEN_BUCKET, read_burst},
	{"queue", SLUICE_LEAKY_BUCKET, read_queue},     {"precision", SLUICE_SLIDING_BUCKETS, read_precision},
	{"edge", SLUICE_SLIDING_BUCKETS, read_edge},    {"edge", SLUICE_DISTINCT, read_side},
	{"registers", SLUICE_DISTINCT, read_registers},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const char no_options[] = "expected the end: this algorithm has no options";

static const char *expected_option(const struct sluice_limit *limit) {
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return limit->calendar != SLUICE_CALENDAR_NONE ? "expected the option 'at', once" : no_options;
	case SLUICE_TOKEN_BUCKET:
		return "expected the option 'burst', once";
	case SLUICE_LEAKY_BUCKET:
		return "expected the option 'queue', once";
	case SLUICE_SLIDING_BUCKETS:
		return "expected the options 'precision' and 'edge', once each";
	case SLUICE_DISTINCT:
		return sl_rule_estimates(limit)
		           ? "expected the options 'edge' and 'registers', once each"
		           : "expected the end: options belong to quotas above 1024, up to there members are counted exactly";
	default:
		return no_options;
	}
}

/* `240/1h precision 1m`: the limit has no options, and the word is one of another algorithm's. */
static sluice_err fail_no_option(struct sl_reading *in, const struct sluice_limit *limit, struct sluice_bytes word) {
	static const struct {
		const char *word, *owner;
	} owners[] = {
		{"precision", "sliding-buckets ..."},
		{"edge", "sliding-buckets ..."},
		{"burst", "token-bucket ..."},
		{"queue", "leaky-bucket ..."},
		{"at", "100/day at ..."},
		{"registers", "distinct ..."},
		{"spread", "fixed-window ... and sliding-window ..."},
	};
	char text[128];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	const char *expected = expected_option(limit);
	for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
		if (expected != no_options || !sl_bytes_equal(word, sl_str(owners[i].word)))
			continue;
		sl_out_str(&out, "expected the end: '");
		sl_out_str(&out, owners[i].word);
		sl_out_str(&out, "' belongs to ");
		sl_out_str(&out, owners[i].owner);
		*out.at = '\0';
		expected = text;
	}
	return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, expected);
}

/* One " word value"; `seen` has a bit for each option that has been read. */
static sluice_err read_option(struct sl_reading *in, struct sluice_limit *limit, unsigned *seen) {
	struct sluice_bytes word;
	unsigned i = 0;
	if (*in->at != ' ')
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected a space or the end");
	if (in->at + 1 == in->end)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected the end");
	in->at++;
	word = peek_word(in);
	if (is_spread(in, limit)) {
		in->at += word.len;
		return read_spread(in, limit);
	}
	while (i < OPTION_COUNT &&
	       !(sl_bytes_equal(word, sl_str(options[i].word)) && options[i].algorithm == limit->algorithm))
		i++;
	if (i == OPTION_COUNT || (*seen & 1u << i) || (limit->algorithm == SLUICE_DISTINCT && !sl_rule_estimates(limit)) ||
	    (limit->algorithm == SLUICE_FIXED_WINDOW && limit->calendar == SLUICE_CALENDAR_NONE))
		return fail_no_option(in, limit, word);
	if (limit->quota == 0 && limit->algorithm != SLUICE_SLIDING_BUCKETS && limit->calendar == SLUICE_CALENDAR_NONE)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected no option: a quota of 0 denies all and has none");
	*seen |= 1u << i;
	in->at += word.len;
	if (in->at == in->end)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected a space and the option's value");
	in->at++;
	return options[i].read(in, limit);
}

static sluice_err read_options(struct sl_reading *in, struct sluice_limit *limit) {
	unsigned seen = 0;
	bool bucket = sl_rule_has(limit, SL_DRAINS);
	if (bucket)
		limit->burst = limit->quota;
	if (sl_rule_estimates(limit)) {
		limit->edge = SLUICE_EDGE_DENY;
		limit->burst = SL_REGISTERS;
	}
	while (in->at < in->end) {
		sluice_err err = read_option(in, limit, &seen);
		if (err != SLUICE_OK)
			return err;
	}
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS && limit->precision_ns == 0)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected the option 'precision', such as precision 1s");
	return SLUICE_OK;
}

sluice_err sluice_limit_parse(struct sluice_limit *limit, struct sluice_bytes text, struct sluice_error *error) {
	struct sluice_limit parsed = {0};
	struct sl_reading in = {text.data, text.data, (const char *)text.data + text.len, error};
	sluice_err err;
	if (limit == NULL || (text.data == NULL && text.len != 0))
		return SLUICE_E_MISUSE;
	if (text.data == NULL)
		in = (struct sl_reading){"", "", "", error};
	in.end = in.at + text.len;
	err = read_algorithm(&in, &parsed);
	SL_ASSERT(in.at >= in.start && in.at <= in.end);
	if (err == SLUICE_OK && parsed.algorithm != SLUICE_UNLIMITED)
		err = parsed.algorithm == SLUICE_CONCURRENCY ? read_leases(&in, &parsed) : read_rate(&in, &parsed);
	if (err == SLUICE_OK && parsed.algorithm != SLUICE_UNLIMITED)
		err = read_options(&in, &parsed);
	if (err != SLUICE_OK)
		return err;
	sl_rule_derive(&parsed);
	SL_DEBUG_ASSERT(sl_rule_is_valid(&parsed));
	*limit = parsed;
	return SLUICE_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------------- */

static void print_window(struct sl_out *out, const struct sluice_limit *limit) {
	if (limit->calendar == SLUICE_CALENDAR_NONE) {
		sl_print_duration(out, limit->window_ns);
		return;
	}
	sl_out_str(out, sl_calendar_word(limit->calendar));
	sl_out_str(out, " at ");
	sl_out_str(out, sl_zone_at(limit->zone)->name);
}

static void print_options(struct sl_out *out, const struct sluice_limit *limit) {
	SL_ASSERT(limit->edge < sizeof edges / sizeof edges[0]);
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS) {
		sl_out_str(out, " precision ");
		sl_print_duration(out, limit->precision_ns);
		sl_out_str(out, " edge ");
		sl_out_str(out, edges[limit->edge]);
	} else if (sl_rule_estimates(limit)) {
		sl_out_str(out, " edge ");
		sl_out_str(out, edges[limit->edge]);
		if (limit->burst != SL_REGISTERS) {
			sl_out_str(out, " registers ");
			sl_out_u64(out, limit->burst);
		}
	} else if (limit->quota != 0 && sl_rule_has(limit, SL_DRAINS)) {
		sl_out_str(out, limit->algorithm == SLUICE_TOKEN_BUCKET ? " burst " : " queue ");
		sl_out_u64(out, limit->burst);
	} else if (sl_rule_spreads(limit)) {
		sl_out_str(out, " spread");
		if (limit->burst != 0) {
			sl_out_char(out, ' ');
			sl_out_u64(out, limit->burst - 1);
		}
	}
}

size_t sluice_limit_print(const struct sluice_limit *limit, char text[SLUICE_LIMIT_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SLUICE_LIMIT_TEXT_MAX - 1);
	sl_out_str(&out, sl_algorithm_word(sl_rule_algorithm(limit)));
	if (limit->algorithm != SLUICE_UNLIMITED) {
		sl_out_char(&out, ' ');
		sl_out_u64(&out, limit->quota);
		sl_out_str(&out, limit->algorithm == SLUICE_CONCURRENCY ? " lease " : "/");
		print_window(&out, limit);
		print_options(&out, limit);
	}
	SL_ASSERT(!out.overflow);
	*out.at = '\0';
	return sl_out_len(&out);
}
