/* The top keys against an exact count of the same stream: what is listed is within its error, and nobody who has more
 * than an eighth of his set's events is missing. Instants are passed in. */
#include "hosts/server/watch/top.h"

#include "base/bytes.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)
#define NOW_NS (UINT64_C(1800000000) * SECOND_NS) /* a whole minute */

enum { KEYS = 3000, LIST_MAX = SL_TOP_SETS * SL_TOP_WAYS };

/* ---- a stream, counted exactly ----------------------------------------------------------------------------------- */

struct exact {
	uint64_t counts[KEYS]; /* in halves of events */
	double weights[KEYS]; /* cumulative */
	uint64_t state;
};

static uint64_t draw(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static void zipf(struct exact *exact, double exponent, uint64_t seed) {
	double sum = 0;
	*exact = (struct exact){.state = seed};
	for (int i = 0; i < KEYS; i++)
		exact->weights[i] = sum += 1 / pow(i + 1, exponent);
}

static int draw_key(struct exact *exact) {
	double at = (double)(draw(&exact->state) >> 11) / 9007199254740992.0 * exact->weights[KEYS - 1];
	int low = 0, high = KEYS - 1;
	while (low < high) {
		int middle = (low + high) / 2;
		if (exact->weights[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct sl_top_noted note(struct sl_top *top, int key, sluice_ns now) {
	char text[16];
	int len = snprintf(text, sizeof text, "user=%d", key);
	return sl_top_note(top, SL_TOP_DENIED, true, sl_str("login"), sl_slice(text, (size_t)len), now, SECOND_NS);
}

static int key_of(const struct sl_top_entry *entry) {
	char text[16] = "";
	assert_true(entry->key_len > 5 && entry->key_len < sizeof text);
	memcpy(text, entry->key, entry->key_len);
	assert_memory_equal(text, "user=", 5);
	assert_true(entry->named);
	assert_int_equal(entry->limit_len, 5);
	assert_memory_equal(entry->limit, "login", 5);
	return (int)strtol(text + 5, NULL, 10);
}

static void halve_counts(struct exact *exact) {
	for (int i = 0; i < KEYS; i++)
		exact->counts[i] /= 2;
}

/* Every entry is within its error, none comes twice, they are in order; returns the entries. */
static struct sl_top_entry *list_checked(const struct exact *exact, struct sl_top **tops, uint32_t top_count,
                                         sluice_ns now, uint32_t *count) {
	struct sl_top_entry *entries = calloc(LIST_MAX * top_count, sizeof *entries);
	bool *seen = calloc(KEYS, sizeof *seen);
	assert_non_null(entries);
	assert_non_null(seen);
	*count = sl_top_list(tops, top_count, SL_TOP_DENIED, now, entries, LIST_MAX * top_count);
	for (uint32_t i = 0; i < *count; i++) {
		int key = key_of(&entries[i]);
		assert_false(seen[key]);
		seen[key] = true;
		assert_true(entries[i].error <= entries[i].count);
		assert_true(entries[i].count - entries[i].error <= (exact->counts[key] + 1) / 2);
		assert_true((exact->counts[key] + 1) / 2 <= entries[i].count);
		if (i > 0)
			assert_true(entries[i - 1].count >= entries[i].count);
	}
	free(seen);
	return entries;
}

static bool is_listed(const struct sl_top_entry *entries, uint32_t count, int key) {
	for (uint32_t i = 0; i < count; i++)
		if (key_of(&entries[i]) == key)
			return true;
	return false;
}

/* ---- one sketch -------------------------------------------------------------------------------------------------- */

/* Where a set has eight places, a key with more than an eighth of *all* events has certainly more than its set's share;
 * and all sets together keep every key that is heavy in a Zipf stream. */
static void run_zipf(double exponent, uint64_t seed, int sure) {
	struct exact *exact = malloc(sizeof *exact);
	struct sl_top *top = sl_top_new();
	uint32_t count;
	assert_non_null(exact);
	assert_non_null(top);
	zipf(exact, exponent, seed);
	for (int i = 0; i < 200000; i++) {
		int key = draw_key(exact);
		exact->counts[key] += 2;
		note(top, key, NOW_NS + (sluice_ns)i);
	}
	struct sl_top_entry *entries = list_checked(exact, &top, 1, NOW_NS, &count);
	assert_int_equal(count, LIST_MAX);
	for (int key = 0; key < sure; key++)
		assert_true(is_listed(entries, count, key));
	free(entries);
	sl_top_free(top);
	free(exact);
}

static void test_lists_who_is_heavy_and_errs_within_what_it_says(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		run_zipf(1.0, seed * 7919, 40);
		run_zipf(1.3, seed * 104729, 40);
		run_zipf(0.5, seed * 1299709, 0);
	}
}

/* One set's worth: a key above an eighth of all events is there whatever comes between, in every order. */
static void test_a_key_above_its_sets_share_is_always_there(void **state) {
	(void)state;
	struct exact *exact = calloc(1, sizeof *exact);
	struct sl_top *top = sl_top_new();
	struct sl_top_entry *entries;
	uint32_t count;
	assert_non_null(exact);
	uint64_t dice = 88172645463325252u;
	for (int i = 0; i < 80000; i++) {
		/* 13 % to one key, the rest to keys that come once or twice each: the hardest stream for a sketch */
		int key = draw(&dice) % 100 < 13 ? 0 : 1 + i % (KEYS - 1);
		exact->counts[key] += 2;
		note(top, key, NOW_NS);
	}
	entries = list_checked(exact, &top, 1, NOW_NS, &count);
	assert_int_equal(key_of(&entries[0]), 0);
	free(entries);
	sl_top_free(top);
	free(exact);
}

static void test_counts_are_halved_and_forgotten(void **state) {
	(void)state;
	struct exact *exact = malloc(sizeof *exact);
	struct sl_top *top = sl_top_new();
	uint32_t count;
	assert_non_null(exact);
	zipf(exact, 1.0, 12345);
	sluice_ns now = NOW_NS;
	for (int minute = 0; minute < 6; minute++) {
		for (int i = 0; i < 20000; i++) {
			int key = draw_key(exact);
			exact->counts[key] += 2;
			note(top, key, now + (sluice_ns)i);
		}
		free(list_checked(exact, &top, 1, now + 59 * SECOND_NS, &count));
		assert_int_equal(count, LIST_MAX);
		now += 60 * SECOND_NS;
		halve_counts(exact);
		free(list_checked(exact, &top, 1, now, &count));
	}
	free(list_checked(exact, &top, 1, now - 60 * SECOND_NS, &count)); /* a clock that lags changes nothing */
	now += 40 * 60 * SECOND_NS;
	for (int i = 0; i < 40; i++)
		halve_counts(exact);
	free(list_checked(exact, &top, 1, now, &count));
	assert_int_equal(count, 0);
	sl_top_free(top);
	free(exact);
}

/* At the end of a minute, too, an event is in the list for one minute at least, and for two at most. */
static void test_a_lone_event_stays_for_a_minute(void **state) {
	static const struct {
		sluice_ns at, until;
		uint32_t count;
	} rows[] = {
		{59 * SECOND_NS, 59 * SECOND_NS, 1},
		{59 * SECOND_NS, 60 * SECOND_NS, 1},
		{59 * SECOND_NS, 120 * SECOND_NS - 1, 1},
		{59 * SECOND_NS, 120 * SECOND_NS, 0},
		{0, 60 * SECOND_NS, 1},
		{0, 120 * SECOND_NS - 1, 1},
		{0, 120 * SECOND_NS, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_top *top = sl_top_new();
		struct sl_top_entry entry;
		note(top, 1, NOW_NS + rows[i].at);
		assert_int_equal(sl_top_list(&top, 1, SL_TOP_DENIED, NOW_NS + rows[i].until, &entry, 1), rows[i].count);
		if (rows[i].count != 0)
			assert_true(key_of(&entry) == 1 && entry.count == 1 && entry.error == 0);
		sl_top_free(top);
	}
}

/* ---- several sketches -------------------------------------------------------------------------------------------- */

static void test_several_sketches_are_one_list(void **state) {
	(void)state;
	enum { TOPS = 5 };
	struct exact *exact = malloc(sizeof *exact);
	struct sl_top *tops[TOPS];
	uint32_t count;
	assert_non_null(exact);
	zipf(exact, 1.1, 777);
	for (int i = 0; i < TOPS; i++)
		tops[i] = sl_top_new();
	for (int i = 0; i < 100000; i++) {
		int key = draw_key(exact);
		exact->counts[key] += 2;
		note(tops[(key + i) % (key % 3 == 0 ? 1 : TOPS)], key, NOW_NS);
	}
	struct sl_top_entry *entries = list_checked(exact, tops, TOPS, NOW_NS, &count);
	for (int key = 0; key < 10; key++)
		assert_true(is_listed(entries, count, key));
	free(entries);
	for (int i = 0; i < TOPS; i++)
		sl_top_free(tops[i]);
	free(exact);
}

/* ---- what tells keys apart --------------------------------------------------------------------------------------- */

static void test_names_notations_kinds_and_long_keys_are_told_apart(void **state) {
	(void)state;
	static char keys[2][3 * SLUICE_KEY_BYTES_MAX];
	struct sl_top *top = sl_top_new();
	struct sl_top_entry entries[8];
	memset(keys, 'k', sizeof keys);
	keys[1][sizeof keys[1] - 1] = 'x';
	struct sluice_bytes a = sl_slice(keys[0], sizeof keys[0]), b = sl_slice(keys[1], sizeof keys[1]);
	sl_top_note(top, SL_TOP_DENIED, true, sl_str("x"), a, NOW_NS, 0);
	sl_top_note(top, SL_TOP_DENIED, true, sl_str("x"), b, NOW_NS, 0);
	sl_top_note(top, SL_TOP_DENIED, false, sl_str("x"), a, NOW_NS, 0);
	sl_top_note(top, SL_TOP_DENIED, true, sl_str("y"), a, NOW_NS, 0);
	sl_top_note(top, SL_TOP_DENIED, true, sl_str("y"), a, NOW_NS + 5, 0);
	sl_top_note(top, SL_TOP_NEAR, true, sl_str("y"), sl_slice(NULL, 0), NOW_NS, 0);
	assert_int_equal(sl_top_list(&top, 1, SL_TOP_DENIED, NOW_NS, entries, 8), 4);
	assert_int_equal(entries[0].count, 2);
	assert_memory_equal(entries[0].limit, "y", 1);
	assert_int_equal(entries[0].last, NOW_NS + 5);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(entries[i].key_len, SLUICE_KEY_BYTES_MAX);
		assert_memory_equal(entries[i].key, keys[0], SLUICE_KEY_BYTES_MAX);
	}
	assert_int_equal(sl_top_list(&top, 1, SL_TOP_NEAR, NOW_NS, entries, 8), 1);
	assert_int_equal(entries[0].key_len, 0);
	assert_int_equal(sl_top_list(&top, 1, SL_TOP_DENIED, NOW_NS, entries, 1), 1); /* no more than there is room for */
	sl_top_free(top);
}

/* ---- what the denial log asks ------------------------------------------------------------------------------------ */

static void test_a_key_is_logged_once_in_its_time(void **state) {
	(void)state;
	struct sl_top *top = sl_top_new();
	struct sl_top_noted noted = note(top, 1, NOW_NS);
	assert_true(noted.write);
	assert_int_equal(noted.suppressed, 0);
	for (int i = 1; i <= 41; i++)
		assert_false(note(top, 1, NOW_NS + (sluice_ns)i).write);
	assert_true(note(top, 2, NOW_NS).write); /* each key for itself */
	assert_false(note(top, 1, NOW_NS + SECOND_NS - 1).write);
	noted = note(top, 1, NOW_NS + SECOND_NS);
	assert_true(noted.write);
	assert_int_equal(noted.suppressed, 42);
	assert_false(note(top, 1, NOW_NS + SECOND_NS + 1).write);
	/* half an hour later its count is gone, what was suppressed is not */
	noted = note(top, 1, NOW_NS + 1800 * SECOND_NS);
	assert_true(noted.write);
	assert_int_equal(noted.suppressed, 1);
	sl_top_free(top);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *write_much(void *data) {
	struct sl_top *top = data;
	for (int i = 0; i < 20000; i++)
		note(top, i % 700 * (i % 3), NOW_NS + (sluice_ns)i * SECOND_NS / 100);
	return NULL;
}

static void test_readers_and_writers_meet(void **state) {
	(void)state;
	struct sl_top *tops[2] = {sl_top_new(), sl_top_new()};
	struct sl_top_entry *entries = calloc(SL_TOP_COUNT_MAX, sizeof *entries);
	pthread_t threads[3];
	assert_non_null(entries);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_much, tops[i % 2]), 0);
	for (int i = 0; i < 50; i++) {
		uint32_t count = sl_top_list(tops, 2, SL_TOP_DENIED, NOW_NS, entries, SL_TOP_COUNT_MAX);
		for (uint32_t j = 0; j < count; j++) {
			assert_true(entries[j].error <= entries[j].count);
			assert_in_range(key_of(&entries[j]), 0, 1400);
		}
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_true(sl_top_list(tops, 2, SL_TOP_DENIED, NOW_NS, entries, 1) == 1);
	assert_int_equal(key_of(&entries[0]), 0);
	free(entries);
	sl_top_free(tops[0]);
	sl_top_free(tops[1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_who_is_heavy_and_errs_within_what_it_says),
		cmocka_unit_test(test_a_key_above_its_sets_share_is_always_there),
		cmocka_unit_test(test_counts_are_halved_and_forgotten),
		cmocka_unit_test(test_a_lone_event_stays_for_a_minute),
		cmocka_unit_test(test_several_sketches_are_one_list),
		cmocka_unit_test(test_names_notations_kinds_and_long_keys_are_told_apart),
		cmocka_unit_test(test_a_key_is_logged_once_in_its_time),
		cmocka_unit_test(test_readers_and_writers_meet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
