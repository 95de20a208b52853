/* The stats and the store's stats with everybody at it at once: workers count while policies come and go, samples are
 * taken, and readers add up; under ThreadSanitizer. Afterwards not one count is missing. */
#include "hosts/server/watch/stats.h"
#include "hosts/server/watch/store_stats.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORKERS = 3, COUNTS = 200000, NAMES = 4, POLICIES = 2 };

static struct sl_stats *stats;
static struct sl_store_stats *store_stats;
static struct sluice_store *store;
static struct sluice_policy *policies[POLICIES];
static uint32_t rows[NAMES];
static _Atomic bool stop;

static struct sluice_policy *load(const char *text) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	assert_int_equal(sluice_policy_load(&policy, sl_str(text), &problems), SLUICE_OK);
	sluice_problems_free(&problems);
	return policy;
}

static void *work(void *argument) {
	struct sl_worker_stats *page = argument;
	struct sluice_limit limit;
	struct sluice_decision decision;
	if (sluice_limit_parse(&limit, sl_str("10/1h"), NULL) != SLUICE_OK)
		return NULL;
	for (uint32_t i = 0; i < COUNTS; i++) {
		struct sl_row *row = sl_worker_stats_row(page, rows[i % NAMES]);
		sl_count(&row->decisions[i % 2][SL_VERDICT_ALLOWED], 1);
		sl_count(&row->hits[1], 2);
		sl_times_add(&page->decision, i, 1);
		if (i % 16 == 0 && sluice_check(store, &limit, sl_slice(&i, sizeof i), 1, &decision) != SLUICE_OK)
			return NULL;
	}
	return page;
}

static void *watch(void *argument) {
	struct sl_step_sum steps[SL_HISTORY_STEPS];
	struct sl_row_sum sum;
	struct sl_stats_sum all;
	struct sl_store_figures figures;
	sluice_ns last;
	uint64_t before = 0;
	(void)argument;
	while (!stop) {
		uint64_t now = 0;
		for (uint32_t row = 0; row < sl_stats_row_count(stats); row++)
			if (sl_stats_row(stats, row, &sum)) {
				now += sum.hits[1];
				(void)sl_stats_history(stats, row, steps, &last);
			}
		if (now < before)
			return NULL;
		before = now;
		sl_stats_sum(stats, &all);
		sl_store_stats_read(store_stats, &figures);
	}
	return &stop;
}

static void *manage(void *argument) {
	uint32_t again[NAMES];
	(void)argument;
	for (sluice_ns now = 1; !stop; now += 1000000000) {
		sl_stats_enter(stats, policies[now % 2], again);
		sl_stats_sample(stats, now);
	}
	return &stop;
}

static void test_nothing_is_lost_between_threads(void **state) {
	pthread_t workers[WORKERS], watcher, manager;
	void *result;
	(void)state;
	stats = sl_stats_new(WORKERS);
	assert_int_equal(sluice_store_open(&store, &(struct sluice_store_options){.memory_bytes = 16 << 20}, NULL), 0);
	store_stats = sl_store_stats_new(store);
	assert_non_null(store_stats);
	policies[0] = load("limits:\n  - {name: a, key: ip, limit: 1/1m}\n  - {name: b, key: ip, limit: 1/1m}\n  - {name: "
	                   "c, key: ip, limit: 1/1m}\n"
	                   "  - {name: d, key: ip, limit: 1/1m}\n");
	policies[1] = load("limits:\n  - {name: d, key: ip, limit: 1/1m}\n  - {name: e, key: ip, limit: 1/1m}\n");
	sl_stats_enter(stats, policies[0], rows);
	assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
	assert_int_equal(pthread_create(&manager, NULL, manage, NULL), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, work, sl_stats_worker(stats, i)), 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		pthread_join(workers[i], &result);
		assert_non_null(result);
	}
	stop = true;
	pthread_join(manager, &result);
	pthread_join(watcher, &result);
	assert_non_null(result);
	struct sl_row_sum sum;
	struct sl_stats_sum all;
	for (uint32_t i = 0; i < NAMES; i++) {
		assert_true(sl_stats_row(stats, rows[i], &sum));
		assert_int_equal(sum.hits[1], 2 * WORKERS * COUNTS / NAMES);
	}
	uint64_t times = 0;
	sl_stats_sum(stats, &all);
	for (int i = 0; i < SL_TIMES; i++)
		times += all.decision[i];
	assert_int_equal(times, WORKERS * COUNTS);
	sl_store_stats_free(store_stats);
	/* A first count of a quiet store is exact. */
	struct sl_store_figures figures = {0};
	store_stats = sl_store_stats_new(store);
	while (figures.counted == 0)
		sl_store_stats_read(store_stats, &figures);
	assert_int_equal(figures.keys, COUNTS / 16);
	assert_int_equal(figures.expired, 0);
	assert_int_equal(figures.block_bytes, 0);
	sl_store_stats_free(store_stats);
	sluice_store_close(store);
	for (int i = 0; i < POLICIES; i++)
		sluice_policy_free(policies[i]);
	sl_stats_free(stats);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost_between_threads)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
