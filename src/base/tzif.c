/* TZif: a header and a block of 32-bit times; from version 2 on the same again of 64 bits, and a rule for the years
 * after the last time.
 *
 *   header   "TZif", version (0, '2', '3' or '4'), 15 unused bytes, six counts of 32 bits, big-endian as all is:
 *            UT marks, standard marks, leap seconds, times, types, bytes of abbreviations
 *   block    times  types of times (8 bits)  types (offset 32 bits, is daylight saving 8 bits, abbreviation 8 bits)
 *            abbreviations  leap seconds (time, 32 bits)  standard marks  UT marks
 *   footer   '\n' rule '\n'
 *   rule     std offset [dst [offset] , start , end]      of POSIX's TZ: offsets are west of UTC
 *   start    ( Mm.w.d | Jn | n ) [ / time ]               time: -167..167 h of the day that it is counted from
 *
 * Of this only what the clocks are set to is used: abbreviations, marks and what is daylight saving are not looked at.
 * Times that set nothing, or are out of order in a rule, are dropped.
 *
 * Every count is checked against the file's length before anything after it is read; a reader never moves past its
 * end. Source: RFC 9636; POSIX.1-2024, Base Definitions, 8.3. */
#include "base/tzif.h"

#include "base/civil.h"

static const int64_t day_s = 86400;
/* What holds on the last of these days may matter to windows of 1970; rules are followed to the end of sluice_ns. */
static const int64_t oldest_s = -4 * 86400, latest_s = UINT64_MAX / 1000000000;
enum { FIRST_YEAR = 1969, LAST_YEAR = 2555, HEADER = 44, TYPES_MAX = 256 };

struct reader {
	const unsigned char *at, *end;
};

struct list {
	struct sl_shift *shifts;
	uint32_t count;
	int64_t times_end_s; /* the last time of the file, after which its rule holds; INT64_MIN: it has none */
	bool full;
};

/* Shifts come in order; what comes before the last is dropped, at the same instant it takes its place. */
static void add_shift(struct list *list, int64_t from_s, int32_t offset_s) {
	struct sl_shift *last = list->count != 0 ? &list->shifts[list->count - 1] : NULL;
	if (last != NULL && (from_s < last->from_s || (from_s > last->from_s && offset_s == last->offset_s)))
		return;
	if (last != NULL && (from_s == last->from_s || from_s <= oldest_s)) {
		last->from_s = from_s;
		last->offset_s = offset_s;
		if (list->count > 1 && last[-1].offset_s == offset_s)
			list->count--;
		return;
	}
	if (list->count == SL_SHIFTS_MAX) {
		list->full = true;
		return;
	}
	list->shifts[list->count++] = (struct sl_shift){from_s, offset_s};
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

struct day_rule {
	char form; /* 'M', 'J' or 'n' */
	uint32_t month, week, day;
	int64_t time_s;
};

struct rule {
	bool has_dst;
	int32_t standard_s, dst_s; /* east of UTC */
	struct day_rule start, end;
};

static bool take(struct reader *in, char c) {
	if (in->at == in->end || *in->at != (unsigned char)c)
		return false;
	in->at++;
	return true;
}

/* One to three digits, least..most. */
static bool read_number(struct reader *in, uint32_t least, uint32_t most, uint32_t *number) {
	const unsigned char *start = in->at;
	uint32_t n = 0;
	while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && in->at - start < 3)
		n = n * 10 + (uint32_t)(*in->at++ - '0');
	*number = n;
	return in->at != start && n >= least && n <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool read_time(struct reader *in, uint32_t hours_max, int64_t *time_s) {
	uint32_t h, m = 0, s = 0;
	bool minus = take(in, '-');
	if (!minus)
		(void)take(in, '+');
	if (!read_number(in, 0, hours_max, &h))
		return false;
	if (take(in, ':')) {
		if (!read_number(in, 0, 59, &m) || (take(in, ':') && !read_number(in, 0, 59, &s)))
			return false;
	}
	*time_s = (int64_t)h * 3600 + m * 60 + s;
	if (minus)
		*time_s = -*time_s;
	return true;
}

/* An offset, which POSIX counts westwards; of 24 hours it would be a day (SL_OFFSET_MAX_S). */
static bool read_offset(struct reader *in, int32_t *offset_s) {
	int64_t west_s;
	if (!read_time(in, 23, &west_s))
		return false;
	*offset_s = (int32_t)-west_s;
	return true;
}

static bool is_letter(unsigned char c) {
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Three letters or more, or <three or more of letters, digits, + and -> */
static bool skip_name(struct reader *in) {
	bool quoted = take(in, '<');
	const unsigned char *start = in->at;
	while (in->at < in->end &&
	       (is_letter(*in->at) || (quoted && ((*in->at >= '0' && *in->at <= '9') || *in->at == '+' || *in->at == '-'))))
		in->at++;
	return in->at - start >= 3 && (!quoted || take(in, '>'));
}

static bool read_day_rule(struct reader *in, struct day_rule *rule) {
	bool good;
	*rule = (struct day_rule){.form = 'n', .time_s = 7200};
	if (take(in, 'M')) {
		rule->form = 'M';
		good = read_number(in, 1, 12, &rule->month) && take(in, '.') && read_number(in, 1, 5, &rule->week) &&
		       take(in, '.') && read_number(in, 0, 6, &rule->day);
	} else if (take(in, 'J')) {
		rule->form = 'J';
		good = read_number(in, 1, 365, &rule->day);
	} else {
		good = read_number(in, 0, 365, &rule->day);
	}
	return good && (!take(in, '/') || read_time(in, 167, &rule->time_s));
}

static bool read_rule(struct reader *in, struct rule *rule) {
	*rule = (struct rule){.has_dst = false};
	if (!skip_name(in) || !read_offset(in, &rule->standard_s))
		return false;
	if (in->at == in->end)
		return true;
	rule->has_dst = true;
	if (!skip_name(in) || in->at == in->end)
		return false;
	rule->dst_s = rule->standard_s + 3600;
	if (*in->at != ',' && !read_offset(in, &rule->dst_s))
		return false;
	return rule->dst_s <= SL_OFFSET_MAX_S && take(in, ',') && read_day_rule(in, &rule->start) && take(in, ',') &&
	       read_day_rule(in, &rule->end) && in->at == in->end;
}

/* Local seconds since 1970 at which it is the rule's time on its day of a year. */
static int64_t local_of(const struct day_rule *rule, int32_t year) {
	int64_t days;
	if (rule->form == 'M') {
		int64_t first = sl_days_of(year, rule->month, 1);
		int64_t next = rule->month == 12 ? sl_days_of(year + 1, 1, 1) : sl_days_of(year, rule->month + 1, 1);
		int64_t weekday = first + 4 - sl_floor_div(first + 4, 7) * 7; /* of the first: 0 is Sunday */
		days = first + ((int64_t)rule->day - weekday + 7) % 7 + 7 * ((int64_t)rule->week - 1);
		while (days >= next)
			days -= 7; /* the fifth is the last */
	} else {
		days = sl_days_of(year, 1, 1) + rule->day;
		if (rule->form == 'J')
			days -= rule->day < 60 || !sl_is_leap_year(year); /* February 29 is never counted: J60 is March 1 */
	}
	return days * day_s + rule->time_s;
}

static void follow_rule(struct list *list, const struct rule *rule) {
	if (!rule->has_dst) {
		if (list->times_end_s == INT64_MIN)
			add_shift(list, INT64_MIN, rule->standard_s);
		return;
	}
	for (int32_t year = FIRST_YEAR; year <= LAST_YEAR; year++) {
		int64_t start_s = local_of(&rule->start, year) - rule->standard_s;
		int64_t end_s = local_of(&rule->end, year) - rule->dst_s;
		bool start_first = start_s < end_s;
		for (int i = 0; i < 2; i++) {
			bool is_start = (i == 0) == start_first;
			int64_t from_s = is_start ? start_s : end_s;
			if (from_s > list->times_end_s && from_s <= latest_s)
				add_shift(list, from_s, is_start ? rule->dst_s : rule->standard_s);
		}
	}
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

struct header {
	char version;
	uint32_t ut_marks, standard_marks, leaps, times, types, letters;
};

static uint32_t read_32(const unsigned char *p) {
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t read_64(const unsigned char *p) {
	return (int64_t)((uint64_t)read_32(p) << 32 | read_32(p + 4));
}

static bool read_header(struct reader *in, struct header *h) {
	const unsigned char *p = in->at;
	if (in->end - p < HEADER || memcmp(p, "TZif", 4) != 0)
		return false;
	*h = (struct header){(char)p[4],      read_32(p + 20), read_32(p + 24), read_32(p + 28),
	                     read_32(p + 32), read_32(p + 36), read_32(p + 40)};
	in->at += HEADER;
	return h->version == 0 || (h->version >= '2' && h->version <= '4');
}

/* Bytes of the block after a header; counts have 32 bits, so the sum cannot overflow. */
static uint64_t block_bytes(const struct header *h, uint64_t time_bytes) {
	return h->times * time_bytes + h->times + h->types * (uint64_t)6 + h->letters + h->leaps * (time_bytes + 4) +
	       h->standard_marks + h->ut_marks;
}

static const char *read_block(struct reader *in, const struct header *h, uint32_t time_bytes, struct list *list) {
	const unsigned char *times = in->at, *types_of, *types;
	if ((uint64_t)(in->end - in->at) < block_bytes(h, time_bytes))
		return "is cut off";
	if (h->leaps != 0)
		return "counts leap seconds, which Unix time does not have";
	if (h->types < 1 || h->types > TYPES_MAX)
		return "is damaged";
	types_of = times + (uint64_t)h->times * time_bytes;
	types = types_of + h->times;
	for (uint32_t i = 0; i < h->types; i++) {
		int32_t offset_s = (int32_t)read_32(types + i * 6);
		if (offset_s < -SL_OFFSET_MAX_S || offset_s > SL_OFFSET_MAX_S)
			return "has clocks a day or more from UTC";
	}
	add_shift(list, INT64_MIN, (int32_t)read_32(types));
	for (uint32_t i = 0; i < h->times; i++) {
		const unsigned char *p = times + (uint64_t)i * time_bytes;
		int64_t from_s = time_bytes == 8 ? read_64(p) : (int32_t)read_32(p);
		if (types_of[i] >= h->types || (i != 0 && from_s <= list->times_end_s))
			return "is damaged";
		list->times_end_s = from_s;
		add_shift(list, from_s, (int32_t)read_32(types + types_of[i] * 6));
	}
	in->at += block_bytes(h, time_bytes);
	return NULL;
}

static const char *read_footer(struct reader *in, struct list *list) {
	struct reader text;
	struct rule rule;
	const unsigned char *stop;
	if (!take(in, '\n'))
		return "is cut off";
	stop = memchr(in->at, '\n', (size_t)(in->end - in->at));
	if (stop == NULL)
		return "is cut off";
	text = (struct reader){in->at, stop};
	if (text.at == text.end)
		return NULL; /* nobody knows what comes: it stays as it was */
	if (!read_rule(&text, &rule))
		return "has a malformed rule for future years";
	follow_rule(list, &rule);
	return NULL;
}

const char *sl_tzif_read(struct sluice_bytes file, struct sl_shift *shifts, uint32_t *count) {
	struct reader in = {file.data, (const unsigned char *)file.data + file.len};
	struct list list = {.shifts = shifts, .times_end_s = INT64_MIN};
	struct header h;
	const char *why;
	if (!read_header(&in, &h))
		return "is not a time zone";
	if (h.version == 0) {
		why = read_block(&in, &h, 4, &list);
	} else {
		uint64_t old = block_bytes(&h, 4);
		if ((uint64_t)(in.end - in.at) < old)
			return "is cut off";
		in.at += old;
		if (!read_header(&in, &h) || h.version == 0)
			return "is damaged";
		why = read_block(&in, &h, 8, &list);
		if (why == NULL)
			why = read_footer(&in, &list);
	}
	if (why == NULL && list.full)
		why = "has too many changes of the clocks";
	*count = list.count;
	return why;
}
