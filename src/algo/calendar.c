/* Windows of the calendar, in integers.
 *
 * With off(t) what a zone's clocks are ahead of UTC at the instant t, the local date of t is floor((t + off(t)) / 1 d).
 * Clocks that are set make it jump or fall back, so it is not the date that windows go by but
 *
 *   start(D) = the first instant whose local date is D or later
 *   day of t = the D with start(D) <= t < start(D + 1), that is the latest date that there was up to t
 *
 * which is what people call the day, wherever a midnight is:
 *
 *   no midnight   (Sao Paulo, clocks put forward from 00:00)    the day begins at 01:00
 *   two of them   (Havana, clocks put back from 01:00 to 00:00) at the first
 *   put back over it (St. John's, 00:01 to 23:01)               at the first: what comes again belongs to the new day
 *   no such day   (Apia, 2011-12-30)                            start(D) = start(D + 1): there is no window
 *
 * Weeks (from Monday), months and years begin with their first day, and so they never overlap and leave nothing out.
 * A day begins in the first stretch of equal offset, [from, next), with max(from, D - off) < next; offsets are within
 * a day, so the search starts at the one that holds a day before D would begin in UTC.
 *
 * Hours are an hour each of elapsed time, as who writes 5/hour expects it: they begin when the local clock shows a
 * full one, and the hour that clocks put back bring again is a window of its own. Where an offset changes by other than
 * whole hours (Lord Howe: 30 minutes) the window in which it does is cut off there, and a shorter one leads to the next
 * full hour; never is one longer than an hour. */
#include "algo/calendar.h"

#include "base/assert.h"
#include "base/civil.h"
#include "base/math.h"

static const int64_t hour_s = 3600, day_s = 86400;
static const sluice_ns second_ns = 1000000000;

static const char *const words[] = {[SLUICE_CALENDAR_HOUR] = "hour",
                                    [SLUICE_CALENDAR_DAY] = "day",
                                    [SLUICE_CALENDAR_WEEK] = "week",
                                    [SLUICE_CALENDAR_MONTH] = "month",
                                    [SLUICE_CALENDAR_YEAR] = "year"};
enum { WORDS = sizeof words / sizeof words[0] };

bool sl_calendar_is_known(uint32_t calendar) {
	return calendar < WORDS && words[calendar] != NULL;
}

const char *sl_calendar_word(uint32_t calendar) {
	SL_ASSERT(sl_calendar_is_known(calendar));
	return words[calendar];
}

uint32_t sl_calendar_of(struct sluice_bytes word) {
	for (uint32_t i = 0; i < WORDS; i++)
		if (words[i] != NULL && sl_bytes_equal(word, sl_str(words[i])))
			return i;
	return SLUICE_CALENDAR_NONE;
}

sluice_ns sl_calendar_longest(uint32_t calendar, uint32_t zone) {
	static const uint16_t days[] = {0, 0, 1, 7, 31, 366};
	SL_ASSERT(sl_calendar_is_known(calendar));
	if (calendar == SLUICE_CALENDAR_HOUR)
		return (sluice_ns)hour_s * second_ns;
	/* start(D) >= D - the largest offset; start(D') <= D' - the least */
	return ((sluice_ns)days[calendar] * (sluice_ns)day_s + sl_zone_at(zone)->swing_s) * second_ns;
}

/* The shift that holds at an instant: the last from then or before, else the first. */
static uint32_t shift_at(const struct sl_zone *zone, int64_t t_s) {
	uint32_t low = 0, high = zone->count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (zone->shifts[middle].from_s <= t_s)
			low = middle;
		else
			high = middle;
	}
	SL_DEBUG_ASSERT(low == 0 || zone->shifts[low].from_s <= t_s);
	return low;
}

/* The same from one that is not far. */
static uint32_t shift_near(const struct sl_zone *zone, uint32_t i, int64_t t_s) {
	SL_DEBUG_ASSERT(i < zone->count);
	while (i > 0 && zone->shifts[i].from_s > t_s)
		i--;
	while (i + 1 < zone->count && zone->shifts[i + 1].from_s <= t_s)
		i++;
	return i;
}

/* start(day); `near` is a shift from about then. */
static int64_t day_start(const struct sl_zone *zone, uint32_t near, int64_t day) {
	int64_t local = day * day_s;
	const struct sl_shift *shifts = zone->shifts;
	for (uint32_t i = shift_near(zone, near, local - day_s);; i++) {
		int64_t t = local - shifts[i].offset_s;
		if (i != 0 && t < shifts[i].from_s)
			t = shifts[i].from_s;
		if (i + 1 == zone->count || t < shifts[i + 1].from_s)
			return t;
	}
}

static bool is_cut(const struct sl_zone *zone, uint32_t i) {
	SL_DEBUG_ASSERT(i != 0 && i < zone->count);
	return (zone->shifts[i].offset_s - zone->shifts[i - 1].offset_s) % hour_s != 0;
}

/* The hour of t_s, cut where the offset changes by other than whole hours; i is the shift of t_s. */
static void hour_around(const struct sl_zone *zone, uint32_t i, int64_t t_s, int64_t *start, int64_t *end) {
	const struct sl_shift *shifts = zone->shifts;
	int64_t offset = shifts[i].offset_s;
	*start = sl_floor_div(t_s + offset, hour_s) * hour_s - offset;
	*end = *start + hour_s;
	for (uint32_t k = i; k > 0 && *start < shifts[k].from_s; k--)
		if (is_cut(zone, k))
			*start = shifts[k].from_s;
	for (uint32_t k = i + 1; k<zone->count && * end> shifts[k].from_s; k++)
		if (is_cut(zone, k))
			*end = shifts[k].from_s;
	SL_DEBUG_ASSERT(*end - *start <= hour_s);
}

/* The first days of the unit that a day is in, and of the next. */
static void days_around(uint32_t calendar, int64_t day, int64_t *first, int64_t *next) {
	struct sl_date date;
	if (calendar == SLUICE_CALENDAR_DAY) {
		*first = day;
		*next = day + 1;
	} else if (calendar == SLUICE_CALENDAR_WEEK) {
		*first = sl_floor_div(day + 3, 7) * 7 - 3; /* 1970-01-01 was a Thursday */
		*next = *first + 7;
	} else {
		bool year = calendar == SLUICE_CALENDAR_YEAR;
		date = sl_date_of(day);
		*first = sl_days_of(date.year, year ? 1 : date.month, 1);
		*next = year || date.month == 12 ? sl_days_of(date.year + 1, 1, 1) : sl_days_of(date.year, date.month + 1, 1);
	}
	SL_DEBUG_ASSERT(*first <= day && day < *next);
}

static sluice_ns to_ns(int64_t s) {
	if (s <= 0)
		return 0;
	return (uint64_t)s > UINT64_MAX / second_ns ? UINT64_MAX : (uint64_t)s * second_ns;
}

struct sl_span sl_calendar_span(const struct sluice_limit *limit, sluice_ns t) {
	const struct sl_zone *zone = sl_zone_at(limit->zone);
	int64_t t_s = (int64_t)(t / second_ns), start, end, day, first, next;
	uint32_t i = shift_at(zone, t_s);
	if (limit->calendar == SLUICE_CALENDAR_HOUR) {
		hour_around(zone, i, t_s, &start, &end);
	} else {
		day = sl_floor_div(t_s + zone->shifts[i].offset_s, day_s);
		while (zone->count > 1 && day_start(zone, i, day + 1) <= t_s)
			day++; /* it has been a later day already */
		days_around(limit->calendar, day, &first, &next);
		start = day_start(zone, i, first);
		end = day_start(zone, i, next);
	}
	SL_DEBUG_ASSERT(start <= t_s && t_s < end);
	return (struct sl_span){to_ns(start), to_ns(end)};
}

sluice_ns sl_calendar_before(const struct sluice_limit *limit, sluice_ns start) {
	return start != 0 ? sl_calendar_span(limit, start - 1).start : 0;
}
