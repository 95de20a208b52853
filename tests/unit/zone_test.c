/* Time zones: the table that threads share, files of every version, damaged ones, and the rules at their ends, held
 * against the C library's own reading of the same rules. */
#include "tests/model/dice.h"

#include "base/civil.h"
#include "base/tzif.h"
#include "os/zone.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* ---- files made here --------------------------------------------------------------------------------------------- */

struct file {
	unsigned char bytes[4096];
	size_t len;
};

struct zone_text {
	int64_t times[4];
	int32_t offsets[5]; /* of before the first time, and from each on */
	uint32_t count, leaps;
	const char *rule;
};

static void put(struct file *file, uint64_t value, int bytes) {
	while (bytes-- > 0)
		file->bytes[file->len++] = (unsigned char)(value >> (8 * bytes));
}

static void put_block(struct file *file, char version, const struct zone_text *text, int time_bytes) {
	memcpy(file->bytes + file->len, "TZif", 4);
	file->bytes[file->len + 4] = (unsigned char)version;
	memset(file->bytes + file->len + 5, 0, 15);
	file->len += 20;
	uint64_t counts[] = {0, 0, text->leaps, text->count, text->count + 1, 4};
	for (int i = 0; i < 6; i++)
		put(file, counts[i], 4);
	for (uint32_t i = 0; i < text->count; i++)
		put(file, (uint64_t)text->times[i], time_bytes);
	for (uint32_t i = 0; i < text->count; i++)
		put(file, i + 1, 1);
	for (uint32_t i = 0; i <= text->count; i++) {
		put(file, (uint32_t)text->offsets[i], 4);
		put(file, 0, 2);
	}
	put(file, 0x41414100, 4);
	for (uint32_t i = 0; i < text->leaps; i++) {
		put(file, 78796800, time_bytes);
		put(file, 1, 4);
	}
}

static struct file make_file(char version, const struct zone_text *text) {
	struct file file = {.len = 0};
	put_block(&file, version, text, 4);
	if (version == 0)
		return file;
	put_block(&file, version, text, 8);
	file.len += (size_t)snprintf((char *)file.bytes + file.len, 200, "\n%s\n", text->rule);
	return file;
}

static const char *read_back(const struct file *file, struct sl_shift *shifts, uint32_t *count) {
	return sl_tzif_read((struct sluice_bytes){file->bytes, file->len}, shifts, count);
}

static struct sl_shift shifts[SL_SHIFTS_MAX];

static int32_t offset_at(uint32_t count, int64_t t) {
	int32_t offset = shifts[0].offset_s;
	for (uint32_t i = 1; i < count && shifts[i].from_s <= t; i++)
		offset = shifts[i].offset_s;
	return offset;
}

static void every_version_is_read(void **state) {
	struct zone_text text = {.times = {100000000, 200000000}, .offsets = {60, 3600, -7200}, .count = 2, .rule = ""};
	static const char versions[] = {0, '2', '3', '4'};
	(void)state;
	for (size_t i = 0; i < sizeof versions; i++) {
		struct file file = make_file(versions[i], &text);
		uint32_t count;
		assert_null(read_back(&file, shifts, &count));
		assert_int_equal(count, 3);
		assert_true(sl_shifts_are_valid(shifts, count));
		assert_int_equal(shifts[1].from_s, 100000000);
		assert_int_equal(offset_at(count, 0), 60);
		assert_int_equal(offset_at(count, 100000000), 3600);
		assert_int_equal(offset_at(count, 199999999), 3600);
		assert_int_equal(offset_at(count, 200000000), -7200);
	}
}

static void what_sets_no_clock_is_left_out(void **state) {
	struct zone_text text = {
		.times = {-3000000000, -2000000000, 5, 6}, .offsets = {9, 60, 120, 120, 180}, .count = 4, .rule = ""};
	struct file file = make_file('2', &text);
	uint32_t count;
	(void)state;
	assert_null(read_back(&file, shifts, &count));
	assert_int_equal(count, 2); /* long before 1970 only the last matters */
	assert_int_equal(shifts[0].offset_s, 120);
	assert_int_equal(shifts[1].from_s, 6);
}

static void a_file_that_is_cut_off_is_refused(void **state) {
	struct zone_text text = {.times = {100000000}, .offsets = {0, 3600}, .count = 1, .rule = "AAA-1BBB,M3.5.0,M10.5.0"};
	(void)state;
	for (int version = 0; version <= '2'; version += '2') {
		struct file whole = make_file((char)version, &text);
		uint32_t count;
		assert_null(read_back(&whole, shifts, &count));
		for (size_t len = 0; len < whole.len; len++) {
			unsigned char *cut = malloc(len + (len == 0)); /* a sanitizer sees what is read behind it */
			assert_non_null(cut);
			memcpy(cut, whole.bytes, len);
			assert_non_null(sl_tzif_read((struct sluice_bytes){cut, len}, shifts, &count));
			free(cut);
		}
	}
}

static void what_is_wrong_is_refused(void **state) {
	static const struct {
		const char *why;
		struct zone_text text;
	} cases[] = {
		{"leap seconds", {.leaps = 1, .rule = ""}},
		{"a day or more from UTC", {.offsets = {86400}, .rule = ""}},
		{"a day or more from UTC", {.offsets = {-86400}, .rule = ""}},
		{"is damaged", {.times = {5, 5}, .count = 2, .rule = ""}},
		{"is damaged", {.times = {5, 4}, .count = 2, .rule = ""}},
	};
	static const char *const rules[] = {
		"A-1",
		"AAA",
		"AAA25",
		"AAA-1BBB",
		"AAA-1BBB,M3.5.0",
		"AAA1BBB,M13.1.0,M3.1.0",
		"AAA1BBB,M3.6.0,M4.1.0",
		"AAA1BBB,M3.0.0,M4.1.0",
		"AAA1BBB,M3.1.7,M4.1.0",
		"AAA1BBB,J0,J5",
		"AAA1BBB,J366,J5",
		"AAA1BBB,366,5",
		"AAA1BBB,5/168,6",
		"AAA1BBB,5/1:60,6",
		"AAA1BBB,5,6,",
		"AAA1BBB,5,6 ",
		"<AA1BBB,5,6",
		"<A>1",
		":Europe/Berlin",
		"AAA1:",
		"AAA-23BBB,5,6",
		"AAA1BBB,,6",
		"AAA1BBB,5/,6",
		"AAA-24:00",
		"AAA1BBB,9999,6",
	};
	uint32_t count;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct file file = make_file('2', &cases[i].text);
		const char *why = read_back(&file, shifts, &count);
		assert_non_null(why);
		assert_non_null(strstr(why, cases[i].why));
	}
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
		struct file file = make_file('2', &(struct zone_text){.rule = rules[i]});
		if (read_back(&file, shifts, &count) == NULL)
			fail_msg("%s", rules[i]);
	}
	struct file file = make_file('5', &(struct zone_text){.rule = ""});
	assert_string_equal(read_back(&file, shifts, &count), "is not a time zone");
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static uint32_t read_rule(const char *rule) {
	struct file file = make_file('3', &(struct zone_text){.rule = rule});
	uint32_t count = 0;
	const char *why = read_back(&file, shifts, &count);
	if (why != NULL)
		fail_msg("%s: %s", rule, why);
	assert_true(sl_shifts_are_valid(shifts, count));
	return count;
}

static int64_t instant(int32_t year, uint32_t month, uint32_t day, int64_t hour) {
	return sl_days_of(year, month, day) * 86400 + hour * 3600;
}

static void assert_shift(const char *rule, int64_t from_s, int32_t offset_s) {
	uint32_t count = read_rule(rule);
	for (uint32_t i = 0; i < count; i++)
		if (shifts[i].from_s == from_s && shifts[i].offset_s == offset_s)
			return;
	fail_msg("%s: no shift to %d at %lld", rule, offset_s, (long long)from_s);
}

static void rules_mean_what_they_say(void **state) {
	static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3", j60[] = "AAA0BBB,J60/0,J300", n59[] = "AAA0BBB,59/0,300";
	(void)state;
	assert_shift(berlin, instant(2024, 3, 31, 1), 7200);
	assert_shift(berlin, instant(2024, 10, 27, 1), 3600);
	assert_shift(berlin, instant(2554, 3, 31, 1), 7200);
	assert_shift(j60, instant(2023, 3, 1, 0), 3600);
	assert_shift(j60, instant(2024, 3, 1, 0), 3600);
	assert_shift(n59, instant(2023, 3, 1, 0), 3600);
	assert_shift(n59, instant(2024, 2, 29, 0), 3600);
	assert_shift("AAA0BBB,M3.4.4/50,M10.4.4/50", instant(2024, 3, 30, 2), 3600);     /* Thursday 28, 50:00 */
	assert_shift("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", instant(2024, 3, 31, 1), -3600); /* Nuuk: Saturday 23:00 */
	assert_shift("AAA0BBB,M1.1.0/0,M12.5.6/0", instant(2024, 12, 27, 23), 0); /* the last Saturday of a year */
	assert_shift("AAA0BBB,J1/0,J365/0", instant(2024, 12, 30, 23), 0);
	assert_shift("AAA0BBB,0/0,365/0", instant(2024, 12, 30, 23), 0);
	assert_shift("AAA-5:30:15BBB-6,100,200", sl_days_of(2024, 4, 10) * 86400 + 7200 - 19815, 21600);
	assert_shift("IST-1GMT0,M10.5.0,M3.5.0/1", instant(2024, 3, 31, 1), 3600); /* Dublin: winter is the exception */
	assert_int_equal(read_rule("EST5EDT,0/0,J365/25"), 1);                     /* summer all year */
	assert_int_equal(shifts[0].offset_s, -4 * 3600);
	assert_int_equal(read_rule("<+0530>-5:30"), 1);
	assert_int_equal(shifts[0].offset_s, 19800);
	assert_int_equal(read_rule("AAA-23:59:59"), 1); /* the most there is, either way */
	assert_int_equal(shifts[0].offset_s, SL_OFFSET_MAX_S);
	assert_int_equal(read_rule("AAA23:59:59"), 1);
	assert_int_equal(shifts[0].offset_s, -SL_OFFSET_MAX_S);
}

/* A day of a rule between February and November, where no year's rule reaches into another's. */
static void print_day(struct dice *dice, char *text, size_t bytes, unsigned month) {
	int hours = (int)dice_below(dice, 335) - 167;
	char time[32] = "";
	if (dice_one_in(dice, 2))
		snprintf(time, sizeof time, "/%d:%02u", hours, (unsigned)dice_below(dice, 60));
	switch (dice_below(dice, 3)) {
	case 0:
		snprintf(text, bytes, "M%u.%u.%u%s", month, 1 + (unsigned)dice_below(dice, 5), (unsigned)dice_below(dice, 7),
		         time);
		return;
	case 1:
		snprintf(text, bytes, "J%u%s", month * 30 + (unsigned)dice_below(dice, 10), time);
		return;
	default:
		snprintf(text, bytes, "%u%s", month * 30 + (unsigned)dice_below(dice, 10), time);
	}
}

static void rules_are_read_as_the_c_library_reads_them(void **state) {
	struct dice dice = dice_of(dice_seed(), 1);
	(void)state;
	for (int i = 0; i < 300; i++) {
		char start[40], end[40], rule[128];
		unsigned first = 2 + (unsigned)dice_below(&dice, 3), second = 7 + (unsigned)dice_below(&dice, 4);
		bool south = dice_one_in(&dice, 2);
		print_day(&dice, start, sizeof start, south ? second : first);
		print_day(&dice, end, sizeof end, south ? first : second);
		snprintf(rule, sizeof rule, "AAA%d:%02uBBB%s,%s,%s", (int)dice_below(&dice, 24) - 12,
		         (unsigned)dice_below(&dice, 60), dice_one_in(&dice, 2) ? "3:20" : "", start, end);
		uint32_t count = read_rule(rule);
		setenv("TZ", rule, 1);
		tzset();
		for (int k = 0; k < 400; k++) {
			time_t t = (time_t)dice_below(&dice, 18000000000);
			struct tm tm;
			if (k % 2 == 0)
				t = (time_t)(shifts[dice_below(&dice, count)].from_s - (int64_t)dice_below(&dice, 2));
			if (t < 0)
				continue;
			assert_non_null(localtime_r(&t, &tm));
			if (tm.tm_gmtoff != offset_at(count, t))
				fail_msg("SLUICE_SEED=%llu: %s at %lld: %d, the C library says %ld", (unsigned long long)dice_seed(),
				         rule, (long long)t, offset_at(count, t), tm.tm_gmtoff);
		}
	}
	unsetenv("TZ");
	tzset();
}

static void dates_go_both_ways(void **state) {
	(void)state;
	for (int64_t day = -400000; day < 400000; day++) {
		struct sl_date date = sl_date_of(day);
		assert_int_equal(sl_days_of(date.year, date.month, date.day), day);
	}
	for (int64_t day = 0; day < 220000; day += 13) { /* to 2572 */
		time_t t = day * 86400;
		struct tm tm;
		struct sl_date date = sl_date_of(day);
		assert_non_null(gmtime_r(&t, &tm));
		assert_int_equal(date.year, tm.tm_year + 1900);
		assert_int_equal(date.month, tm.tm_mon + 1);
		assert_int_equal(date.day, tm.tm_mday);
	}
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static struct sluice_bytes text_of(const char *text) {
	return (struct sluice_bytes){text, strlen(text)};
}

static void names_are_checked(void **state) {
	static const char *const none[] = {"",
	                                   "/",
	                                   "/UTC",
	                                   "Europe",
	                                   "Europe/",
	                                   "Europe//Berlin",
	                                   "../UTC",
	                                   "Europe/..",
	                                   "A/../UTC",
	                                   "posix/Europe/Oslo",
	                                   "right/UTC",
	                                   "localtime",
	                                   "zone.tab",
	                                   "Europe/Berlin ",
	                                   "Zulu\n",
	                                   "europe/berlin",
	                                   "Europe/Berlin/X"};
	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		assert_int_equal(sl_zone_read(text_of(none[i])), -1);
	assert_int_equal(sl_zone_read((struct sluice_bytes){"Europe/Berlin\0x", 15}), -1);
	assert_int_equal(sl_zone_read((struct sluice_bytes){"UTC\0", 4}), -1);
	assert_int_equal(sl_zone_find(text_of("UTC")), 0);
	assert_string_equal(sl_zone_guess(text_of("Europe/Berlyn")), "Europe/Berlin");
	assert_string_equal(sl_zone_guess(text_of("new_york")), "America/New_York");
	assert_null(sl_zone_guess(text_of("Elsewhere/Entirely")));
	assert_null(sl_zone_guess(text_of("..")));
	/* two letters too few or too many are a slip, three are another name */
	assert_string_equal(sl_zone_guess(text_of("Europe/Belin")), "Europe/Berlin");
	assert_string_equal(sl_zone_guess(text_of("America/New_rk")), "America/New_York");
	assert_string_equal(sl_zone_guess(text_of("America/New_Yxxork")), "America/New_York");
	assert_null(sl_zone_guess(text_of("America/New_k")));
	assert_null(sl_zone_guess(text_of("America/New_Yxxxork")));
	/* of four letters two are too many: `Rome` might be any word */
	assert_string_equal(sl_zone_guess(text_of("rome")), "Europe/Rome");
	assert_null(sl_zone_guess(text_of("rame")));
	assert_string_equal(sl_zone_guess(text_of("Tokio")), "Asia/Tokyo");
}

static void a_zone_is_found_by_its_hash(void **state) {
	int32_t number = sl_zone_read_hash(sl_zone_hash(text_of("Asia/Tokyo")));
	(void)state;
	assert_true(number > 0);
	assert_string_equal(sl_zone_at((uint32_t)number)->name, "Asia/Tokyo");
	assert_int_equal(sl_zone_read(text_of("Asia/Tokyo")), number);
	assert_int_equal(sl_zone_find_hash(sl_zone_hash(text_of("Asia/Tokyo"))), number);
	assert_int_equal(sl_zone_find_hash(sl_zone_hash(text_of("UTC"))), 0);
	assert_int_equal(sl_zone_read_hash(12345), -1);
	assert_true(sl_zone_hash(text_of("Asia/Tokyo")) < (uint64_t)1 << 45);
}

enum { THREADS = 4, ADDED = 200 };

static void *add_some(void *argument) {
	static const struct sl_shift shift = {INT64_MIN, 3600};
	(void)argument;
	for (int i = 0; i < ADDED; i++) {
		char name[SL_ZONE_NAME_MAX];
		snprintf(name, sizeof name, "Test/%d", i);
		int32_t number = sl_zone_add(text_of(name), &shift, 1);
		if (number <= 0 || sl_zone_find(text_of(name)) != number || sl_zone_at((uint32_t)number)->count != 1 ||
		    strcmp(sl_zone_at((uint32_t)number)->name, name) != 0)
			return "a zone is not what was added";
	}
	return NULL;
}

static void threads_add_the_same_zones(void **state) {
	pthread_t threads[THREADS];
	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_some, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *why;
		assert_int_equal(pthread_join(threads[i], &why), 0);
		assert_null(why);
	}
}

/* The last test: it fills the table. */
static void a_full_table_refuses(void **state) {
	static const struct sl_shift shift = {INT64_MIN, 0};
	int32_t last = 0;
	(void)state;
	for (int i = 0; i < 2 * SL_ZONES_MAX; i++) {
		char name[SL_ZONE_NAME_MAX];
		snprintf(name, sizeof name, "Full/%d", i);
		last = sl_zone_add(text_of(name), &shift, 1);
		if (last < 0)
			break;
		assert_int_equal(sl_zone_find(text_of(name)), last);
	}
	assert_int_equal(last, -1);
	assert_int_equal(sl_zone_read(text_of("Europe/Paris")), -1);
	assert_true(sl_zone_find(text_of("Asia/Tokyo")) > 0);
	assert_int_equal(sl_zone_find(text_of("UTC")), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_is_read),
		cmocka_unit_test(what_sets_no_clock_is_left_out),
		cmocka_unit_test(a_file_that_is_cut_off_is_refused),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(rules_mean_what_they_say),
		cmocka_unit_test(rules_are_read_as_the_c_library_reads_them),
		cmocka_unit_test(dates_go_both_ways),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(a_zone_is_found_by_its_hash),
		cmocka_unit_test(threads_add_the_same_zones),
		cmocka_unit_test(a_full_table_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
