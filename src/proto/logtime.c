/* The times of log lines, in the forms that servers write; see logtime.h. */
#include "proto/logtime.h"

#include "base/math.h"

enum { SECOND_NS = 1000000000, DAY_S = 86400 };

/* A walk over text; every take_ leaves it where it was when it fails. */
struct cursor {
	const char *at, *end;
};

static bool take_char(struct cursor *c, char wanted) {
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

/* Exactly `digits` digits. */
static bool take_number(struct cursor *c, int digits, int *value) {
	int n = 0;
	if (c->end - c->at < digits)
		return false;
	for (int i = 0; i < digits; i++) {
		unsigned digit = (unsigned)(unsigned char)c->at[i] - '0';
		if (digit > 9)
			return false;
		n = n * 10 + (int)digit;
	}
	c->at += digits;
	*value = n;
	return true;
}

/* The digits after a point or comma, as parts of `unit` nanoseconds, cut off below one; at least one digit. */
static bool take_fraction(struct cursor *c, uint64_t unit, uint64_t *ns) {
	const char *from = c->at;
	uint64_t sum = 0;
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
		unit /= 10;
		sum += unit * (uint64_t)(*c->at - '0');
	}
	*ns = sum;
	return c->at > from;
}

static bool take_month(struct cursor *c, int *month) {
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	if (c->end - c->at < 3)
		return false;
	for (int i = 0; i < 12; i++) {
		if (memcmp(c->at, names + 3 * i, 3) == 0) {
			c->at += 3;
			*month = i + 1;
			return true;
		}
	}
	return false;
}

/* "Z", "+hh:mm", "-hhmm": seconds east of UTC. */
static bool take_zone(struct cursor *c, int *east_s) {
	int hours, minutes;
	if (take_char(c, 'Z') || take_char(c, 'z')) {
		*east_s = 0;
		return true;
	}
	bool west = c->at < c->end && *c->at == '-';
	if (!take_char(c, west ? '-' : '+') || !take_number(c, 2, &hours))
		return false;
	take_char(c, ':');
	if (!take_number(c, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*east_s = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
	return true;
}

struct civil {
	int year, month, day, hour, minute, second, east_s;
	uint64_t fraction_ns;
};

static bool is_leap(int year) {
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 1970-01-01; `year` >= 1970. */
static int64_t days_since_epoch(const struct civil *t) {
	static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
	int64_t y = t->year - 1;
	int64_t leaps = y / 4 - y / 100 + y / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
	return (t->year - 1970) * (int64_t)365 + leaps + before[t->month - 1] + (t->month > 2 && is_leap(t->year)) +
	       t->day - 1;
}

static bool civil_is_valid(const struct civil *t) {
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	if (t->month < 1 || t->month > 12 || t->year < 1970)
		return false;
	/* second 60 is a leap second: the same instant as the second that follows it */
	return t->day >= 1 && t->day <= days[t->month - 1] + (t->month == 2 && is_leap(t->year)) && t->hour <= 23 &&
	       t->minute <= 59 && t->second <= 60;
}

static int clock_s(const struct civil *t) {
	return t->hour * 3600 + t->minute * 60 + t->second;
}

static bool seconds_to_ns(int64_t s, uint64_t fraction_ns, sluice_ns *time) {
	if (s < 0 || (uint64_t)s >= SL_AT_NS_MAX / SECOND_NS)
		return false;
	*time = (uint64_t)s * SECOND_NS + fraction_ns;
	return true;
}

static bool civil_to_ns(const struct civil *t, sluice_ns *time) {
	return civil_is_valid(t) &&
	       seconds_to_ns(days_since_epoch(t) * DAY_S + clock_s(t) - t->east_s, t->fraction_ns, time);
}

static bool take_clock(struct cursor *c, struct civil *t) {
	if (!take_number(c, 2, &t->hour) || !take_char(c, ':') || !take_number(c, 2, &t->minute) || !take_char(c, ':') ||
	    !take_number(c, 2, &t->second))
		return false;
	if (take_char(c, '.') || take_char(c, ','))
		return take_fraction(c, SECOND_NS, &t->fraction_ns);
	return true;
}

enum { DATE_BYTES = 12, CLOCK_BYTES = 8, ZONE_BYTES = 6, PLAIN_BYTES = DATE_BYTES + CLOCK_BYTES + ZONE_BYTES };

/* The instant of another clock on the day that is known; false: read it as a whole. */
static bool read_clock(const struct sl_logtime_day *day, const char *text, sluice_ns *time) {
	struct cursor c = {text + DATE_BYTES, text + DATE_BYTES + CLOCK_BYTES};
	struct civil t = {.year = 1970, .month = 1, .day = 1};
	return memcmp(text, day->date, DATE_BYTES) == 0 && memcmp(c.end, day->zone, ZONE_BYTES) == 0 &&
	       take_clock(&c, &t) && c.at == c.end && civil_is_valid(&t) &&
	       seconds_to_ns(day->midnight_s + clock_s(&t), 0, time);
}

size_t sl_logtime_clf(struct sluice_bytes text, struct sl_logtime_day *day, sluice_ns *time) {
	const char *from = text.data;
	struct cursor c = {from, from + text.len};
	struct civil t = {0};
	if (day != NULL && day->known && text.len >= PLAIN_BYTES && read_clock(day, from, time))
		return PLAIN_BYTES;
	bool fine = take_number(&c, 2, &t.day) && take_char(&c, '/') && take_month(&c, &t.month) && take_char(&c, '/') &&
	            take_number(&c, 4, &t.year) && take_char(&c, ':') && take_clock(&c, &t) && take_char(&c, ' ') &&
	            take_zone(&c, &t.east_s) && civil_to_ns(&t, time);
	if (!fine)
		return 0;
	if (day != NULL && c.at - from == PLAIN_BYTES && from[DATE_BYTES + CLOCK_BYTES] == ' ') {
		day->known = true;
		day->midnight_s = days_since_epoch(&t) * DAY_S - t.east_s;
		memcpy(day->date, from, DATE_BYTES);
		memcpy(day->zone, from + DATE_BYTES + CLOCK_BYTES, ZONE_BYTES);
	}
	return (size_t)(c.at - from);
}

static bool read_iso(struct sluice_bytes text, sluice_ns *time) {
	const char *from = text.data;
	struct cursor c = {from, from + text.len};
	struct civil t = {0};
	if (!take_number(&c, 4, &t.year) || !take_char(&c, '-') || !take_number(&c, 2, &t.month) || !take_char(&c, '-') ||
	    !take_number(&c, 2, &t.day))
		return false;
	if (!take_char(&c, 'T') && !take_char(&c, ' ') && !take_char(&c, 't'))
		return false;
	if (!take_clock(&c, &t))
		return false;
	take_char(&c, ' ');
	if (c.at != c.end && !take_zone(&c, &t.east_s))
		return false;
	return c.at == c.end && civil_to_ns(&t, time);
}

sluice_ns sl_logtime_unit(uint64_t count) {
	return count < 100000000000 ? SECOND_NS : count < 100000000000000 ? 1000000 : count < 100000000000000000 ? 1000 : 1;
}

bool sl_logtime_count(struct sluice_bytes text, sluice_ns *time) {
	const char *from = text.data;
	struct cursor c = {from, from + text.len};
	uint64_t count, fraction_ns = 0;
	size_t digits = 0;
	while (digits < text.len && from[digits] >= '0' && from[digits] <= '9')
		digits++;
	if (!sl_bytes_to_u64(sl_slice(from, digits), &count))
		return false;
	uint64_t unit = sl_logtime_unit(count);
	c.at += digits;
	if (take_char(&c, '.') && !take_fraction(&c, unit, &fraction_ns))
		return false;
	sl_u128 ns = sl_mul(count, unit) + fraction_ns;
	if (c.at != c.end || ns > SL_AT_NS_MAX)
		return false;
	*time = (sluice_ns)ns;
	return true;
}

bool sl_logtime_text(struct sluice_bytes text, sluice_ns *time) {
	size_t clf = sl_logtime_clf(text, NULL, time);
	return (clf != 0 && clf == text.len) || read_iso(text, time) || sl_logtime_count(text, time);
}
