/* Windows of the calendar: where the hour, day, week, month or year begins in a time zone (base/zone.h). */
#ifndef SL_CALENDAR_H
#define SL_CALENDAR_H

#include "base/bytes.h"
#include "base/zone.h"

/* The window of limit->calendar (not NONE) that holds the instant t, half-open, Unix ns: start <= t < end, but at the
 * very last of all ns. What would begin before 1970 begins at 0, what would end after the last instant (in 2554) ends
 * there. A day begins at the first instant of its date or, where there is none, of a later one; where the clocks are
 * put back over midnight, at the first of the two. About 20 ns in UTC, 80 ns elsewhere. */
struct sl_span {
	sluice_ns start, end;
};
struct sl_span sl_calendar_span(const struct sluice_limit *limit, sluice_ns t);

/* The start of the window before the one that starts at `start`; 0 for the first. */
sluice_ns sl_calendar_before(const struct sluice_limit *limit, sluice_ns start);

/* The longest that a window of the calendar (not NONE) can be in a zone that is known; whole seconds. */
sluice_ns sl_calendar_longest(uint32_t calendar, uint32_t zone);

/* Whether it is a number of enum sluice_calendar, but NONE. */
bool sl_calendar_is_known(uint32_t calendar);

/* "hour", "day", "week", "month", "year". */
const char *sl_calendar_word(uint32_t calendar);

/* The unit of which this is the word, or SLUICE_CALENDAR_NONE. */
uint32_t sl_calendar_of(struct sluice_bytes word);

#endif
