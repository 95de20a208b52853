/* Exactly the quota, whatever the threads do: on one key, on keys that nobody has seen before, and across the ends of
 * windows. Time is passed in, so a window ends when the test says so. */
#include "tests/race/crew.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { QUOTA = 500, WINDOW_MS = 60000, MS = 1000000 };

static const char *const notations[] = {
	"fixed-window 500/1m",
	"sliding-window 500/1m",
	"sliding-buckets 500/1m precision 1s edge count",
	"sliding-buckets 500/1m precision 1s edge drop",
	"sliding-buckets 500/1m precision 1s edge weighted",
	"sliding-log 500/1m",
	"token-bucket 500/1m",
	"leaky-bucket 500/1m queue 499",
};
enum { ALGORITHMS = sizeof notations / sizeof *notations };

/* ---- one key ------------------------------------------------------------------------------------------------- */

static void hammer_one_key(struct crew *crew, uint32_t index) {
	for (uint64_t i = 0; i < crew->attempts; i++)
		crew_charge(crew, crew->limits, "one", crew->now_ns, 1 + (i + index) % 3);
	for (uint64_t i = 0; i < 3; i++) /* what a cost of 2 or 3 left over */
		crew_charge(crew, crew->limits, "one", crew->now_ns, 1);
}

static void exactly_the_quota_on_one_key(uint32_t threads) {
	for (size_t a = 0; a < ALGORITHMS; a++) {
		struct sluice_limit limit = crew_limit(notations[a]);
		struct crew crew = {.store = crew_store(4), .limits = &limit, .now_ns = CREW_START_NS, .attempts = 2 * QUOTA};
		for (int round = 0; round < (CREW_SLOWNESS > 1 ? 2 : 8); round++) {
			crew.admitted = 0;
			crew_run(&crew, threads, hammer_one_key);
			assert_int_equal(crew.admitted, QUOTA);
			assert_int_equal(crew_remaining(&crew, &limit, "one", crew.now_ns), 0);
			crew.now_ns += 3ull * WINDOW_MS * MS; /* idle for longer than any of them remembers */
		}
		assert_int_equal(crew.errors, 0);
		sluice_store_close(crew.store);
	}
}

static void eight_threads_on_one_key(void **state) {
	(void)state;
	exactly_the_quota_on_one_key(CREW);
}

static void sixty_four_threads_on_one_key(void **state) {
	(void)state;
	exactly_the_quota_on_one_key(CREW_MAX);
}

/* ---- new keys ------------------------------------------------------------------------------------------------ */

enum { NEW_KEYS = 3000 / CREW_SLOWNESS, EACH_KEY = 7 };

/* All threads walk through the same new keys, so that each key is created by several at once. */
static void walk_new_keys(struct crew *crew, uint32_t index) {
	(void)index;
	for (uint32_t k = 0; k < NEW_KEYS; k++) {
		char key[32];
		snprintf(key, sizeof key, "new:%" PRIu32, k);
		for (int i = 0; i < 2; i++)
			crew_charge(crew, &crew->limits[k % crew->limit_count], key, crew->now_ns, 1);
	}
}

static void exactly_the_quota_on_new_keys(uint32_t threads) {
	static const char *const small[] = {"fixed-window 7/1m", "sliding-window 7/1m", "sliding-buckets 7/1m precision 1s",
	                                    "sliding-log 7/1m",  "token-bucket 7/1m",   "leaky-bucket 7/1m queue 6"};
	struct sluice_limit limits[6];
	struct crew crew = {.store = crew_store(32), .limits = limits, .limit_count = 6, .now_ns = CREW_START_NS};
	for (size_t i = 0; i < 6; i++)
		limits[i] = crew_limit(small[i]);
	crew_run(&crew, threads, walk_new_keys);
	assert_int_equal(crew.errors, 0);
	assert_int_equal(crew.admitted, (uint64_t)NEW_KEYS * EACH_KEY);
	for (uint32_t k = 0; k < NEW_KEYS; k++) {
		char key[32];
		snprintf(key, sizeof key, "new:%" PRIu32, k);
		assert_int_equal(crew_remaining(&crew, &limits[k % 6], key, crew.now_ns), 0);
	}
	sluice_store_close(crew.store);
}

static void eight_threads_on_new_keys(void **state) {
	(void)state;
	exactly_the_quota_on_new_keys(CREW);
}

static void sixty_four_threads_on_new_keys(void **state) {
	(void)state;
	exactly_the_quota_on_new_keys(CREW_MAX);
}

/* ---- across the ends of windows ------------------------------------------------------------------------------- */

enum { WINDOWS = 200 / CREW_SLOWNESS, PER_WINDOW = 400, SMALL_QUOTA = 20 };

/* A clock that the attempts themselves move: so many of them a window, whoever makes them. A thread that sleeps
 * between reading it and charging brings an instant of the past, which counts as the counter's last. */
static void charge_by_the_clock(struct crew *crew, uint32_t index) {
	uint64_t window_ns = crew->limits->window_ns;
	(void)index;
	for (;;) {
		uint64_t tick = crew_add(&crew->clock, 1);
		if (tick >= (uint64_t)WINDOWS * PER_WINDOW)
			return;
		crew_charge(crew, crew->limits, "clock", crew->now_ns + tick * (window_ns / PER_WINDOW), 1);
	}
}

/* Where a window or sub-bucket begins anew: Q in each. Elsewhere never more, and somewhat less, because a late attempt
 * leaves later. */
static void the_quota_in_every_window(void **state) {
	static const struct {
		const char *notation;
		bool exact;
	} limits[] = {{"fixed-window 20/4s", true},
	              {"sliding-log 20/4s", false},
	              {"sliding-buckets 20/4s precision 2s edge drop", true},
	              {"sliding-window 20/4s", false},
	              {"sliding-buckets 20/4s precision 1s edge count", false}};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct sluice_limit limit = crew_limit(limits[i].notation);
		struct crew crew = {.store = crew_store(4), .limits = &limit, .now_ns = CREW_START_NS};
		crew_run(&crew, CREW, charge_by_the_clock);
		assert_int_equal(crew.errors, 0);
		if (limits[i].exact)
			assert_int_equal(crew.admitted, (uint64_t)WINDOWS * SMALL_QUOTA);
		else
			assert_true(crew.admitted <= (uint64_t)WINDOWS * SMALL_QUOTA && crew.admitted > (uint64_t)WINDOWS * 10);
		sluice_store_close(crew.store);
	}
}

/* The burst at the start and then exactly the rate. */
static void the_rate_of_buckets_under_threads(void **state) {
	static const char *const notations_of_buckets[] = {"token-bucket 20/4s burst 5", "leaky-bucket 20/4s queue 4"};
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct sluice_limit limit = crew_limit(notations_of_buckets[i]);
		struct crew crew = {.store = crew_store(4), .limits = &limit, .now_ns = CREW_START_NS};
		crew_run(&crew, CREW, charge_by_the_clock);
		assert_int_equal(crew.errors, 0);
		/* The last attempt comes one tick before the last unit. */
		assert_int_equal(crew.admitted, 5 + (uint64_t)WINDOWS * SMALL_QUOTA - 1);
		sluice_store_close(crew.store);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_threads_on_one_key),  cmocka_unit_test(sixty_four_threads_on_one_key),
		cmocka_unit_test(eight_threads_on_new_keys), cmocka_unit_test(sixty_four_threads_on_new_keys),
		cmocka_unit_test(the_quota_in_every_window), cmocka_unit_test(the_rate_of_buckets_under_threads),
	};
	return cmocka_run_group_tests_name("exactly the quota", tests, NULL, NULL);
}
