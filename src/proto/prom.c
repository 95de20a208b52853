/* The two text forms of metrics differ in little: what a counter's family is called, units, the end. What is easily
 * missed:
 *
 *  P1  A bucket's bound is a label, compared as text by those who join series: both forms print it alike, as
 *      OpenMetrics says ("1.0", not "1").
 *  P2  Numbers are exact: seconds are printed from whole nanoseconds, never through floating point.
 *  P3  A histogram's buckets, count and sum are of one reading: _count is the bucket +Inf. */
#include "proto/prom.h"

#include "base/assert.h"

static const uint64_t second_ns = 1000000000;

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* The decimals of ns / 10^9, without zeros at the end. Returns how many. */
static uint32_t decimals(uint64_t ns, char text[9]) {
	uint32_t count = 9;
	uint64_t rest = ns % second_ns;
	for (int i = 8; i >= 0; i--, rest /= 10)
		text[i] = (char)('0' + rest % 10);
	while (count > 0 && text[count - 1] == '0')
		count--;
	return count;
}

void sl_prom_seconds(struct sl_out *out, sluice_ns ns) {
	char text[9];
	uint32_t count = decimals(ns, text);
	sl_out_u64(out, ns / second_ns);
	if (count != 0)
		sl_out_char(out, '.');
	sl_out_bytes(out, text, count);
}

/* Below 10^-4 s: one digit, its decimals, the power of ten in two digits. */
static void put_scientific(struct sl_out *out, sluice_ns ns) {
	char text[9];
	uint32_t count = decimals(ns, text), first = 0;
	while (text[first] == '0')
		first++;
	sl_out_char(out, text[first]);
	if (first + 1 < count)
		sl_out_char(out, '.');
	sl_out_bytes(out, text + first + 1, count - first - 1);
	sl_out_str(out, "e-0");
	sl_out_u64(out, first + 1);
}

void sl_prom_bound(struct sl_out *out, sluice_ns ns) {
	if (ns != 0 && ns < 100000) {
		put_scientific(out, ns);
		return;
	}
	sl_prom_seconds(out, ns);
	if (ns % second_ns == 0)
		sl_out_str(out, ".0");
}

/* ---- families and samples -------------------------------------------------------------------------------------- */

/* A label's value, or a help text, which in the plain form has its quotes as they are. */
static void put_escaped(struct sl_out *out, struct sluice_bytes text, bool quotes) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++) {
		if (p[i] == '\n')
			sl_out_str(out, "\\n");
		else if (p[i] == '\\')
			sl_out_str(out, "\\\\");
		else if (p[i] == '"' && quotes)
			sl_out_str(out, "\\\"");
		else
			sl_out_char(out, p[i]);
	}
}

static void begin_line(struct sl_prom *prom, const char *what) {
	sl_out_str(prom->out, what);
	sl_out_str(prom->out, prom->name);
	if (prom->type == SL_PROM_COUNTER && !prom->open_metrics)
		sl_out_str(prom->out, "_total");
	sl_out_char(prom->out, ' ');
}

void sl_prom_family(struct sl_prom *prom, const char *name, enum sl_prom_type type, const char *unit,
                    const char *help) {
	static const char *const types[] = {"counter", "gauge", "histogram"};
	prom->name = name;
	prom->type = type;
	begin_line(prom, "# HELP ");
	put_escaped(prom->out, sl_str(help), prom->open_metrics);
	sl_out_char(prom->out, '\n');
	begin_line(prom, "# TYPE ");
	sl_out_str(prom->out, types[type]);
	sl_out_char(prom->out, '\n');
	if (unit != NULL && prom->open_metrics) {
		begin_line(prom, "# UNIT ");
		sl_out_str(prom->out, unit);
		sl_out_char(prom->out, '\n');
	}
}

/* Name and labels; `bound` NULL but for the buckets of a histogram. */
static void begin_sample(struct sl_prom *prom, const char *suffix, struct sl_prom_labels labels,
                         const sluice_ns *bound) {
	struct sl_out *out = prom->out;
	char before = '{';
	sl_out_str(out, prom->name);
	sl_out_str(out, suffix);
	for (uint32_t i = 0; i < labels.count; i++, before = ',') {
		sl_out_char(out, before);
		sl_out_str(out, labels.list[i].name);
		sl_out_str(out, "=\"");
		put_escaped(out, labels.list[i].value, true);
		sl_out_char(out, '"');
	}
	if (bound != NULL) {
		sl_out_char(out, before);
		sl_out_str(out, "le=\"");
		if (*bound == SLUICE_NEVER)
			sl_out_str(out, "+Inf");
		else
			sl_prom_bound(out, *bound);
		sl_out_char(out, '"');
	}
	if (labels.count != 0 || bound != NULL)
		sl_out_char(out, '}');
	sl_out_char(out, ' ');
}

static void put_count(struct sl_prom *prom, const char *suffix, struct sl_prom_labels labels, const sluice_ns *bound,
                      uint64_t value) {
	begin_sample(prom, suffix, labels, bound);
	sl_out_u64(prom->out, value);
	sl_out_char(prom->out, '\n');
}

static void put_time(struct sl_prom *prom, const char *suffix, struct sl_prom_labels labels, sluice_ns value) {
	begin_sample(prom, suffix, labels, NULL);
	sl_prom_seconds(prom->out, value);
	sl_out_char(prom->out, '\n');
}

void sl_prom_count(struct sl_prom *prom, struct sl_prom_labels labels, uint64_t value) {
	SL_ASSERT(prom->type != SL_PROM_HISTOGRAM);
	put_count(prom, prom->type == SL_PROM_COUNTER ? "_total" : "", labels, NULL, value);
}

void sl_prom_time(struct sl_prom *prom, struct sl_prom_labels labels, sluice_ns value) {
	SL_ASSERT(prom->type != SL_PROM_HISTOGRAM);
	put_time(prom, prom->type == SL_PROM_COUNTER ? "_total" : "", labels, value);
}

void sl_prom_histogram(struct sl_prom *prom, struct sl_prom_labels labels, const sluice_ns *bounds,
                       const uint64_t *counts, uint32_t count, sluice_ns sum) {
	const sluice_ns infinite = SLUICE_NEVER;
	uint64_t total = 0;
	SL_ASSERT(prom->type == SL_PROM_HISTOGRAM && count > 0);
	for (uint32_t i = 0; i < count; i++) {
		total += counts[i];
		put_count(prom, "_bucket", labels, i + 1 < count ? &bounds[i] : &infinite, total);
	}
	put_time(prom, "_sum", labels, sum);
	put_count(prom, "_count", labels, NULL, total);
}

void sl_prom_end(struct sl_prom *prom) {
	if (prom->open_metrics)
		sl_out_str(prom->out, "# EOF\n");
}

/* ---- which form ------------------------------------------------------------------------------------------------ */

static bool is_space(char c) {
	return c == ' ' || c == '\t';
}

static struct sluice_bytes trim(struct sluice_bytes text) {
	const char *p = text.data;
	for (; text.len > 0 && is_space(p[0]); text.len--)
		p++;
	while (text.len > 0 && is_space(p[text.len - 1]))
		text.len--;
	text.data = p;
	return text;
}

/* Takes off what stands before the next `mark`, trimmed; false when nothing is left. */
static bool cut(struct sluice_bytes *rest, char mark, struct sluice_bytes *part) {
	if (rest->len == 0)
		return false;
	const char *p = rest->data, *end = memchr(p, mark, rest->len);
	size_t len = end == NULL ? rest->len : (size_t)(end - p);
	*part = trim(sl_slice(p, len));
	*rest = end == NULL ? sl_slice(p + len, 0) : sl_slice(end + 1, rest->len - len - 1);
	return true;
}

/* "0.75" in thousandths; what is none counts as 0: nobody is given what he may not have asked for. */
static uint32_t quality(struct sluice_bytes text) {
	const char *p = text.data;
	uint32_t value = 0;
	if (text.len == 0 || text.len > 5 || p[0] < '0' || p[0] > '1' || (text.len > 1 && p[1] != '.'))
		return 0;
	for (size_t i = 0; i < 5; i++) {
		char c = i < text.len ? p[i] : '0';
		if (i == 1)
			continue;
		if (c < '0' || c > '9')
			return 0;
		value = value * 10 + (uint32_t)(c - '0');
	}
	return value <= 1000 ? value : 0;
}

/* One range of an Accept header: its type, quality, and the version that it asks for. */
struct range {
	struct sluice_bytes type, version;
	uint32_t quality;
};

static struct range read_range(struct sluice_bytes text) {
	struct range range = {.quality = 1000};
	struct sluice_bytes part, name;
	(void)cut(&text, ';', &range.type);
	while (cut(&text, ';', &part)) {
		if (!cut(&part, '=', &name))
			continue;
		if (sl_bytes_equal_nocase(name, "q"))
			range.quality = quality(trim(part));
		else if (sl_bytes_equal_nocase(name, "version"))
			range.version = trim(part);
	}
	return range;
}

bool sl_prom_accepts_open_metrics(struct sluice_bytes accept) {
	uint32_t open = 0, plain = 0, rank = 0;
	struct sluice_bytes part;
	while (cut(&accept, ',', &part)) {
		struct range range = read_range(part);
		uint32_t own = sl_bytes_equal_nocase(range.type, "text/plain") ? 3
		               : sl_bytes_equal_nocase(range.type, "text/*")   ? 2
		               : sl_bytes_equal_nocase(range.type, "*/*")      ? 1
		                                                               : 0;
		if (own > rank) { /* the nearest range says what plain text is worth */
			rank = own;
			plain = range.quality;
		} else if (sl_bytes_equal_nocase(range.type, "application/openmetrics-text") &&
		           (range.version.len == 0 || sl_bytes_equal(range.version, sl_str("1.0.0"))) && range.quality > open) {
			open = range.quality;
		}
	}
	return open > 0 && open >= plain;
}
