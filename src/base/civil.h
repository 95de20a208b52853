/* Civil dates and days since 1970-01-01, in the proleptic Gregorian calendar, on integers.
 *
 * The year is shifted to begin in March, so that a leap day is its last; 400 years are 146,097 days, and the days
 * before the m-th month from March are floor((153 m + 2) / 5). Source: Howard Hinnant, "chrono-compatible low-level
 * date algorithms", 2013. All functions hold for the years -32,000 to 32,000. */
#ifndef SL_CIVIL_H
#define SL_CIVIL_H

#include <stdint.h>

struct sl_date {
	int32_t year;
	uint32_t month, day; /* 1..12, 1..31 */
};

/* floor(a / b) for b > 0. */
static inline int64_t sl_floor_div(int64_t a, int64_t b) {
	return a / b - (a % b < 0);
}

/* Days since 1970-01-01 of a date that there is. A few ns. */
static inline int64_t sl_days_of(int32_t year, uint32_t month, uint32_t day) {
	int64_t y = year - (month <= 2), era = sl_floor_div(y, 400), of_era = y - era * 400;
	int64_t of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + (int64_t)day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The date of a number of days since 1970-01-01. A few ns. */
static inline struct sl_date sl_date_of(int64_t days) {
	int64_t z = days + 719468, era = sl_floor_div(z, 146097), of_era = z - era * 146097;
	int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;
	uint32_t month = (uint32_t)(m < 10 ? m + 3 : m - 9);
	return (struct sl_date){(int32_t)(y + era * 400 + (month <= 2)), month,
	                        (uint32_t)(of_year - (153 * m + 2) / 5 + 1)};
}

static inline int sl_is_leap_year(int32_t year) {
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

#endif
