/* Windows of the calendar: where the hour, day, week, month or year begins in a time zone.
 *
 * A zone is a table of instants from which on a local time holds. The tables are this process's: whoever reads time
 * zones (os/zone.c) adds them once and for good, and a limit names one by its number. The core itself reads no file. */
#ifndef SL_CALENDAR_H
#define SL_CALENDAR_H

#include "base/bytes.h"

enum { SL_ZONES_MAX = 1024, SL_ZONE_NAME_MAX = 48 /* bytes, with NUL; the longest of tzdata has 32 */ };

/* From `from_s` on (Unix seconds) until the next one local time is UTC + offset_s. */
struct sl_shift {
	int64_t from_s;
	int32_t offset_s; /* within a day */
};

struct sl_zone {
	char name[SL_ZONE_NAME_MAX];
	uint64_t hash; /* of the name; part of a counter's identity */
	uint32_t count;
	const struct sl_shift *shifts; /* rising; the first holds for all time before it as well */
};

/* The number of a zone that is known, or -1. "UTC" always is: 0. Some 100 ns. */
int32_t sl_zone_find(struct sluice_bytes name);

/* The zone of a number that was found. */
const struct sl_zone *sl_zone_at(uint32_t number);

/* Adds a zone, whose shifts are never given back; from any thread. Returns its number, that of a zone of the same name
 * that was there before, or -1: SL_ZONES_MAX are there. */
int32_t sl_zone_add(struct sluice_bytes name, const struct sl_shift *shifts, uint32_t count);

/* What a parser calls for a zone that is not known: finds and adds it; returns as sl_zone_find(). Set once, before the
 * first limit is parsed, by hosts that can read time zones; NULL: only UTC is there. */
extern int32_t (*sl_zone_load)(struct sluice_bytes name);

/* The window of limit->calendar (not NONE) that holds the instant t, half-open, Unix ns. A day begins at the first
 * instant of its date; where the clocks are put back over midnight, at the first of the two. About 50 ns. */
struct sl_span {
	sluice_ns start, end;
};
struct sl_span sl_calendar_span(const struct sluice_limit *limit, sluice_ns t);

/* The start of the window before the one that starts at `start`. */
sluice_ns sl_calendar_before(const struct sluice_limit *limit, sluice_ns start);

/* "hour", "day", "week", "month", "year". */
const char *sl_calendar_word(uint32_t calendar);

#endif
