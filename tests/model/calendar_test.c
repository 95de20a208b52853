/* Windows of the calendar against a slow twin: a list of all charges, summed anew for every decision over the window
 * that holds the instant, through sluice_decide(), to the nanosecond.
 *
 * The twin's calendar shares a zone's table of shifts with the code, which tests/e2e/test_calendar.py holds against
 * Python's, and nothing else: it counts its days up from 1970 one by one, year, month and weekday with them, finds the
 * start of each by looking at all shifts, and an hour's ends by going back and forth second by second.
 *
 * Instants are aimed at where windows end, at changes of the clocks, at the ends of waits, and backwards. SLUICE_SEED
 * and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"

#include "algo/calendar.h"
#include "algo/step.h"
#include "os/zone.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DAYS = 48000 /* to 2101 */, OPS_MAX = 160, STREAMS_PER_STORE = 200, UNITS = 5 };
static const uint64_t second_ns = 1000000000;

/* ---- the twin's calendar ----------------------------------------------------------------------------------------- */

static const char *const zone_names[] = {
	"UTC",
	"Europe/Berlin",
	"America/Sao_Paulo",
	"America/Havana",
	"America/St_Johns",
	"Asia/Kathmandu",
	"Australia/Lord_Howe",
	"Pacific/Apia",
	"Africa/Cairo",
	"Africa/Monrovia",
	"Asia/Beirut",
	"Africa/Casablanca",
	"Antarctica/Casey",
	"Europe/Dublin",
};
enum { ZONES = sizeof zone_names / sizeof zone_names[0] };

static struct {
	const struct sl_zone *zone;
	int64_t starts[UNITS + 1][DAYS]; /* of units from the day on: when they begin, rising */
	size_t counts[UNITS + 1];
} calendars[ZONES];

static int64_t offset_at(const struct sl_zone *zone, int64_t t) {
	static const struct sl_zone *of;
	static uint32_t i; /* where the last search for this zone ended: the next is mostly about a second beside it */
	if (of != zone)
		i = 0;
	of = zone;
	while (i + 1 < zone->count && zone->shifts[i + 1].from_s <= t)
		i++;
	while (i > 0 && zone->shifts[i].from_s > t)
		i--;
	return zone->shifts[i].offset_s;
}

/* The least t whose local time is `local` or later. */
static int64_t first_at(const struct sl_zone *zone, int64_t local) {
	int64_t best = INT64_MAX;
	for (uint32_t i = 0; i < zone->count; i++) {
		int64_t t = local - zone->shifts[i].offset_s;
		if (i > 0 && t < zone->shifts[i].from_s)
			t = zone->shifts[i].from_s;
		if ((i + 1 == zone->count || t < zone->shifts[i + 1].from_s) && t < best)
			best = t;
	}
	return best;
}

static void count_days(size_t z) {
	int year = 1970, month = 0, day = 0;
	for (int64_t n = 0; n < DAYS; n++) {
		static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
		bool leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
		bool begins[UNITS + 1] = {0, 0, true, n % 7 == 4 /* January 5, 1970 */, day == 0, day == 0 && month == 0};
		int64_t start = first_at(calendars[z].zone, n * 86400);
		for (uint32_t unit = SLUICE_CALENDAR_DAY; unit <= SLUICE_CALENDAR_YEAR; unit++)
			if (begins[unit])
				calendars[z].starts[unit][calendars[z].counts[unit]++] = start;
		if (++day == lengths[month] + (month == 1 && leap)) {
			day = 0;
			month = (month + 1) % 12;
			year += month == 0;
		}
	}
}

static bool hour_begins(const struct sl_zone *zone, int64_t t) {
	int64_t offset = offset_at(zone, t);
	return (t + offset) % 3600 == 0 || (offset - offset_at(zone, t - 1)) % 3600 != 0;
}

/* The window of an instant, in seconds; false where the table does not reach. */
static bool window_of(size_t z, uint32_t unit, int64_t t, int64_t *start, int64_t *end) {
	if (unit == SLUICE_CALENDAR_HOUR) {
		for (*start = t; !hour_begins(calendars[z].zone, *start);)
			--*start;
		for (*end = t + 1; !hour_begins(calendars[z].zone, *end);)
			++*end;
		return true;
	}
	size_t i = 0, step = 1 << 16;
	for (; step != 0; step /= 2) /* the last that begins at t or before: of two that begin at once the later */
		if (i + step < calendars[z].counts[unit] && calendars[z].starts[unit][i + step] <= t)
			i += step;
	*start = calendars[z].starts[unit][i] <= t ? calendars[z].starts[unit][i] : INT64_MIN;
	*end = *start == INT64_MIN ? calendars[z].starts[unit][0] : calendars[z].starts[unit][i + 1];
	return i + 1 < calendars[z].counts[unit];
}

/* ---- the twin ---------------------------------------------------------------------------------------------------- */

struct stream {
	struct dice dice;
	struct sluice_store *store;
	size_t zone;
	uint32_t unit, quota;
	struct sluice_limit limit;
	bool named;
	char key[32];
	uint64_t now, end; /* end: of the window of the last operation */
	size_t count;
	struct {
		uint64_t at, cost;
	} charges[OPS_MAX];
};

static uint64_t clock_of(const struct stream *s, uint64_t now) {
	return s->count != 0 && s->charges[s->count - 1].at > now ? s->charges[s->count - 1].at : now;
}

static uint64_t counted(const struct stream *s, uint64_t start_ns) {
	uint64_t sum = 0;
	for (size_t i = 0; i < s->count; i++)
		sum += s->charges[i].at >= start_ns ? s->charges[i].cost : 0;
	return sum;
}

static void refund(struct stream *s, uint64_t start_ns, uint64_t cost) {
	for (size_t i = s->count; i-- > 0 && s->charges[i].at >= start_ns && cost != 0;) {
		uint64_t take = cost < s->charges[i].cost ? cost : s->charges[i].cost;
		s->charges[i].cost -= take;
		cost -= take;
	}
}

static void expect(const struct stream *s, const struct sluice_call *call, const char *what, uint64_t got,
                   uint64_t expected) {
	if (got == expected)
		return;
	fail_msg("SLUICE_SEED=%" PRIu64 ", key %s, %u/%s at %s: operation %d of %u at %" PRIu64 ": %s is %" PRIu64
	         ", not %" PRIu64,
	         dice_seed(), s->key, s->quota, sl_calendar_word(s->unit), zone_names[s->zone], (int)call->operation,
	         call->cost, call->now, what, got, expected);
}

static void run_op(struct stream *s, sluice_operation operation, uint32_t cost) {
	struct sluice_item item = {.limit = &s->limit, .key = {s->key, strlen(s->key)}};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .want_next = true, .now = s->now};
	uint64_t t = clock_of(s, s->now);
	int64_t start, end;
	assert_int_equal(sluice_decide(s->store, &call), SLUICE_OK);
	if (operation == SLUICE_RESET) {
		s->count = 0;
		return;
	}
	assert_true(window_of(s->zone, s->unit, (int64_t)(t / second_ns), &start, &end));
	uint64_t start_ns = start < 0 ? 0 : (uint64_t)start * second_ns, left = (uint64_t)end * second_ns - t;
	if (operation == SLUICE_REFUND) {
		refund(s, start_ns, cost);
		cost = 0;
	}
	uint64_t sum = counted(s, start_ns);
	bool allowed = cost == 0 || sum + cost <= s->quota;
	if (operation == SLUICE_CHARGE && allowed && cost != 0) {
		s->charges[s->count].at = t;
		s->charges[s->count++].cost = cost;
		sum += cost;
	}
	const struct sluice_decision *d = &call.merged;
	expect(s, &call, "allowed", d->allowed, allowed);
	expect(s, &call, "quota", d->quota, s->quota);
	expect(s, &call, "remaining", d->remaining, sum < s->quota ? s->quota - sum : 0);
	expect(s, &call, "retry_after", d->retry_after_ns, allowed ? 0 : cost > s->quota ? SLUICE_NEVER : left);
	expect(s, &call, "reset_after", d->reset_after_ns, sum != 0 ? left : 0);
	expect(s, &call, "next_after", d->next_after_ns, sum != 0 ? left : 0);
	expect(s, &call, "delay", d->delay_ns, 0);
	s->end = t + left;
}

static uint64_t next_instant(struct stream *s) {
	struct dice *dice = &s->dice;
	const struct sl_zone *zone = calendars[s->zone].zone;
	uint64_t jitter = dice_below(dice, 3) - 1, window = s->limit.window_ns;
	const struct sl_shift *shift;
	switch (dice_below(dice, 8)) {
	case 0:
		return s->now + dice_below(dice, window);
	case 1:
		return s->now + dice_below(dice, window / 16);
	case 2:
	case 3:
		return s->end + jitter;
	case 4:
		return s->now > window ? s->now - dice_below(dice, window) : s->now;
	case 5: /* about the next change of the clocks, if it is not far */
		shift = zone->shifts;
		while (shift + 1 < zone->shifts + zone->count && shift->from_s <= (int64_t)(s->now / second_ns))
			shift++;
		if (shift->from_s > (int64_t)(s->now / second_ns) && dice_one_in(dice, 2))
			return (uint64_t)shift->from_s * second_ns + jitter * (dice_one_in(dice, 2) ? 1 : 3600 * second_ns);
		return s->now + 1;
	default:
		return s->now;
	}
}

static void set_limit(struct stream *s) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	snprintf(text, sizeof text, "%u/%s at %s", s->quota, sl_calendar_word(s->unit), zone_names[s->zone]);
	assert_int_equal(sluice_limit_parse(&s->limit, (struct sluice_bytes){text, strlen(text)}, NULL), SLUICE_OK);
	if (s->named)
		sl_rule_name(&s->limit, (struct sluice_bytes){"monthly", 7});
}

static void begin(struct stream *s, uint64_t number) {
	struct dice *dice = &s->dice;
	*dice = dice_of(dice_seed(), number);
	s->zone = dice_below(dice, ZONES);
	s->unit = 1 + (uint32_t)dice_below(dice, UNITS);
	s->named = dice_one_in(dice, 4);
	s->quota = dice_quota(dice);
	s->count = 0;
	set_limit(s);
	uint64_t years = dice_one_in(dice, 8) ? 1 : 60;
	s->now = dice_below(dice, years * 365 * 86400) * second_ns + dice_below(dice, second_ns);
	s->end = s->now;
	snprintf(s->key, sizeof s->key, "%" PRIu64, number);
}

static void calendar_windows_equal_their_twin(void **state) {
	static struct stream s;
	uint64_t done = 0, most = dice_ops(DICE_MILLION), last_ns = (uint64_t)(DAYS - 800) * 86400 * second_ns;
	(void)state;
	for (uint64_t number = 0; done < most; number++) {
		if (number % STREAMS_PER_STORE == 0) {
			struct sluice_store_options options = {.memory_bytes = 8 << 20};
			sluice_store_close(s.store);
			assert_int_equal(sluice_store_open(&s.store, &options, NULL), SLUICE_OK);
		}
		begin(&s, number);
		for (uint64_t left = 1 + dice_below(&s.dice, OPS_MAX); left != 0; left--, done++) {
			uint64_t roll = dice_below(&s.dice, 100), t = next_instant(&s);
			if (dice_one_in(&s.dice, 40)) {
				s.quota = dice_quota(&s.dice);
				set_limit(&s);
			}
			s.now = t < last_ns ? t : s.now;
			run_op(&s,
			       roll < 72   ? SLUICE_CHARGE
			       : roll < 86 ? SLUICE_PEEK
			       : roll < 99 ? SLUICE_REFUND
			                   : SLUICE_RESET,
			       dice_cost(&s.dice, s.quota));
		}
	}
	sluice_store_close(s.store);
	s.store = NULL;
	print_message("%" PRIu64 " operations compared\n", done);
}

/* What a counter of many keys' past is made of (sl_step_assume) is at least as used as each of them. */
static void assumed_counters_are_no_less_used(void **state) {
	struct dice dice = dice_of(dice_seed(), 77);
	uint64_t most = dice_ops(DICE_MILLION / 20);
	(void)state;
	for (uint64_t n = 0; n < most; n++) {
		static struct stream s;
		begin(&s, n);
		s.quota = 1000;
		set_limit(&s);
		struct sl_held held[SL_HELD_MAX];
		struct sl_counter assumed, one = {.state = {.w = {0, 0}}};
		struct sluice_decision of_one, of_all;
		int count = 1 + (int)dice_below(&dice, SL_HELD_MAX), which = (int)dice_below(&dice, (uint64_t)count);
		for (int i = 0; i < count; i++) {
			held[i].instant = s.now + (uint64_t)i * (s.limit.window_ns / 5);
			held[i].cost = 1000 - (uint64_t)i * 100;
		}
		sl_step_assume(&s.limit, &assumed, held, count, NULL, 0);
		sl_step(&s.limit, &one, held[which].instant, held[which].cost, true, &of_one);
		uint64_t t = held[count - 1].instant + dice_below(&dice, 2 * s.limit.window_ns);
		sl_step(&s.limit, &one, t, 0, false, &of_one);
		sl_step(&s.limit, &assumed, t, 0, false, &of_all);
		assert_true(of_all.remaining <= of_one.remaining && of_all.reset_after_ns >= of_one.reset_after_ns);
		assert_true(sl_counter_is_valid(&s.limit, &assumed));
	}
}

static int set_up(void **state) {
	(void)state;
	sl_zone_use_host();
	for (size_t z = 0; z < ZONES; z++) {
		struct sluice_bytes name = {zone_names[z], strlen(zone_names[z])};
		int32_t number = sl_zone_find(name) >= 0 ? sl_zone_find(name) : sl_zone_read(name);
		assert_true(number >= 0); /* tzdata is installed */
		calendars[z].zone = sl_zone_at((uint32_t)number);
		count_days(z);
	}
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calendar_windows_equal_their_twin),
		cmocka_unit_test(assumed_counters_are_no_less_used),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
