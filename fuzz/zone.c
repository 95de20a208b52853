/* Any bytes as a time zone file: refused with a reason, or its shifts are in order and within bounds, and then the
 * windows of every unit hold the instants that they are asked for, meet, and are no longer than they can be. The first
 * eight bytes of the input are the instant. */
#include "algo/calendar.h"
#include "algo/rule.h"
#include "base/assert.h"
#include "base/tzif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sl_shift shifts[SL_SHIFTS_MAX];

/* The table only grows: one zone of it is filled anew for each input. */
static struct sl_zone *zone_of_input(uint32_t count) {
	static const struct sl_shift any = {0, 0};
	static const struct sluice_bytes name = {"Input", 5};
	int32_t number = sl_zone_add(name, &any, 1);
	SL_ASSERT(number > 0);
	struct sl_zone *zone = (struct sl_zone *)(uintptr_t)sl_zone_at((uint32_t)number);
	int32_t least = shifts[0].offset_s, most = least;
	for (uint32_t i = 1; i < count; i++) {
		least = shifts[i].offset_s < least ? shifts[i].offset_s : least;
		most = shifts[i].offset_s > most ? shifts[i].offset_s : most;
	}
	zone->shifts = shifts;
	zone->count = count;
	zone->swing_s = (uint32_t)(most - least);
	return zone;
}

static void check_windows(struct sluice_limit *limit, sluice_ns t) {
	for (uint16_t unit = SLUICE_CALENDAR_HOUR; unit <= SLUICE_CALENDAR_YEAR; unit++) {
		limit->calendar = unit;
		struct sl_span span = sl_calendar_span(limit, t), next;
		SL_ASSERT(span.start <= t && (t < span.end || t == UINT64_MAX));
		SL_ASSERT(span.end - span.start <= sl_calendar_longest(unit, limit->zone));
		next = sl_calendar_span(limit, span.end);
		SL_ASSERT(span.end == UINT64_MAX || next.start == span.end);
		SL_ASSERT(span.end == UINT64_MAX || sl_calendar_before(limit, next.start) == span.start);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	sluice_ns t = 0;
	uint32_t count;
	if (size < sizeof t)
		return 0;
	memcpy(&t, data, sizeof t);
	const char *why = sl_tzif_read((struct sluice_bytes){data + sizeof t, size - sizeof t}, shifts, &count);
	if (why != NULL) {
		SL_ASSERT(strlen(why) < 100);
		return 0;
	}
	SL_ASSERT(sl_shifts_are_valid(shifts, count));
	struct sl_zone *zone = zone_of_input(count);
	struct sluice_limit limit = {.algorithm = SLUICE_FIXED_WINDOW, .zone = (uint16_t)sl_zone_find(sl_str(zone->name))};
	check_windows(&limit, t);
	check_windows(&limit, (sluice_ns)(shifts[t % count].from_s > 0 ? shifts[t % count].from_s : 0) * 1000000000);
	return 0;
}
