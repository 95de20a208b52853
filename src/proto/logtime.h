/* Instants as logs write them -> Unix nanoseconds. Exact integers: no double is met on the way, except where JSON
 * itself writes a number with a fraction (logjson.c). */
#ifndef SL_LOGTIME_H
#define SL_LOGTIME_H

#include "base/bytes.h"

/* A day that was met in an access log: of lines of the same day and zone, as nearly all are, only the clock is read. */
struct sl_logtime_day {
	bool known;
	char date[12], zone[6]; /* "17/May/2015:", " +0000" */
	int64_t midnight_s;     /* of the zone; Unix seconds */
};

/* Reads the time of an access log, `17/May/2015:10:05:03 +0000`, at the start of `text`; a fraction of a second may
 * stand after the seconds. The zone is honoured.
 *  day  in and out: the day of the line before; begins zeroed; NULL: each is read as a whole
 * Returns how many bytes it took; 0 when there is no such time, or it is outside 1970..2262. */
size_t sl_logtime_clf(struct sluice_bytes text, struct sl_logtime_day *day, sluice_ns *time);

/* Reads the whole of `text`: ISO 8601 (`2015-05-17T10:05:03.123Z`, also with a space for the T, `+02:00`, `+0200`, or
 * without a zone, which is then UTC), the form above, or a count since the epoch (sl_logtime_count).
 * Returns false when it is none of them or outside 1970..2262. */
bool sl_logtime_text(struct sluice_bytes text, sluice_ns *time);

/* Reads a count since the epoch, digits with an optional fraction: seconds below 10^11, milliseconds below 10^14,
 * microseconds below 10^17, else nanoseconds (no log of today is misread: 10^11 s is the year 5138, 10^11 ms is 1973).
 * What is finer than a nanosecond is cut off. */
bool sl_logtime_count(struct sluice_bytes text, sluice_ns *time);

/* The unit in nanoseconds of a count since the epoch of this size, as above. */
sluice_ns sl_logtime_unit(uint64_t count);

#endif
