/* What counting costs in memory, and that nothing is missed by it: in private memory and in a file, whatever the system
 * does with a page that is read and was never written. Which pages are there is asked of the kernel by mincore(), which
 * touches none: to it a page of zeroes that all share is there as well, so that this test is red where pages were read,
 * on kernels on which that costs nothing too. */
#include "tests/unit/home.h"

#include "hosts/server/watch/store_stats.h"
#include "os/clock.h"
#include "store/scan.h"
#include "store/walk.h"

#include <sys/mman.h>
#include <time.h>

enum { STORE_MIB = 256, FEW = 3000, SLACK = 8 }; /* counters; pages */

static uint64_t pages_there(struct sluice_store *store) {
	size_t bytes;
	const void *arena = sl_store_arena(store, &bytes);
	unsigned char *there = malloc(bytes / 4096);
	uint64_t count = 0;
	assert_non_null(there);
	assert_int_equal(mincore((void *)(uintptr_t)arena, bytes, there), 0);
	for (size_t i = 0; i < bytes / 4096; i++)
		count += there[i] & 1;
	free(there);
	return count;
}

static struct sl_store_figures counted(struct sluice_store *store) {
	const struct timespec little = {.tv_nsec = 2000000};
	const sluice_ns end = sl_clock_monotonic() + (sluice_ns)60 * 1000000000;
	struct sl_store_stats *store_stats = sl_store_stats_new(store);
	struct sl_store_figures figures = {.counted = 0};
	assert_non_null(store_stats);
	while (figures.counted == 0 && sl_clock_monotonic() < end) {
		sl_store_stats_read(store_stats, &figures);
		nanosleep(&little, NULL);
	}
	sl_store_stats_free(store_stats);
	assert_true(figures.counted != 0);
	return figures;
}

static void charge(struct sluice_store *store, uint32_t from, uint32_t to) {
	char key[16];
	for (uint32_t i = from; i < to; i++) {
		(void)snprintf(key, sizeof key, "k%u", i);
		(void)remaining_after(store, i % 3 ? "sliding-log 9/1h" : "9/1h", key);
	}
}

/* Whoever asks once more is told the same. */
static void an_end_is_an_end(const struct sluice_store *store) {
	struct sl_walk walk = {.store = store};
	while (sl_walk_next(&walk))
		;
	for (int i = 0; i < 2; i++) {
		assert_false(sl_walk_next(&walk));
		assert_true(walk.page == store->page_count);
	}
}

static void same_as_of_all_pages(struct sluice_store *store, uint64_t counters) {
	struct sluice_store_stats stats, of_all;
	struct sl_store_figures figures = counted(store);
	sluice_store_stats(store, &stats);
	uint64_t *claimed = store->claimed;
	void (*find_written)(const struct sluice_store *, uint64_t *, uint64_t *) = store->find_written;
	store->claimed = NULL;
	store->find_written = NULL;
	sluice_store_stats(store, &of_all);
	store->claimed = claimed;
	store->find_written = find_written;
	an_end_is_an_end(store);
	assert_memory_equal(&stats, &of_all, sizeof stats);
	assert_int_equal(stats.slots_used, counters);
	assert_int_equal(figures.keys, counters);
}

/* A store that is hardly used, one of some counters, and one that is full: from 0 to all of its pages. */
static void costs_little_and_misses_nothing(const struct sluice_store_options *options) {
	struct sluice_store *store = open_or_fail(options);
	struct sluice_store_stats stats;
	uint64_t before = pages_there(store);
	assert_int_equal(counted(store).keys, 0);
	sluice_store_stats(store, &stats);
	assert_int_equal(stats.slots_used, 0);
	assert_true(pages_there(store) <= before + SLACK);
	charge(store, 0, 5);
	before = pages_there(store);
	assert_int_equal(counted(store).keys, 5);
	sluice_store_stats(store, &stats);
	assert_int_equal(stats.slots_used, 5);
	assert_true(pages_there(store) <= before + SLACK);
	same_as_of_all_pages(store, 5);
	charge(store, 5, FEW);
	same_as_of_all_pages(store, FEW);
	sluice_store_close(store);
}

static void test_private_memory(void **state) {
	(void)state;
	costs_little_and_misses_nothing(&(struct sluice_store_options){.memory_bytes = (uint64_t)STORE_MIB * MIB});
}

static void test_a_file(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = (uint64_t)STORE_MIB * MIB};
	costs_little_and_misses_nothing(&options);
	options.existing = true; /* with its counters, by who opens it anew */
	struct sluice_store *store = open_or_fail(&options);
	same_as_of_all_pages(store, FEW);
	sluice_store_close(store);
}

static void test_shared_memory(void **state) {
	struct home_paths *paths = *state;
	const struct sluice_store_options options = {.shared = paths->shared, .memory_bytes = 16 * MIB};
	struct sluice_store *store = open_or_fail(&options);
	charge(store, 0, FEW);
	same_as_of_all_pages(store, FEW);
	sluice_store_close(store);
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
}

static void test_a_full_store(void **state) {
	(void)state;
	const struct sluice_store_options options = {.memory_bytes = MIB};
	struct sluice_store *store = open_or_fail(&options);
	struct sluice_store_stats stats;
	charge(store, 0, 60000);
	sluice_store_stats(store, &stats);
	assert_true(stats.evicted > 0 && stats.slots_used > stats.slots * 9 / 10);
	same_as_of_all_pages(store, stats.slots_used);
	sluice_store_close(store);
}

#define ENTRY(test) cmocka_unit_test_setup_teardown(test, home_setup, home_teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		ENTRY(test_private_memory),
		ENTRY(test_a_file),
		ENTRY(test_shared_memory),
		ENTRY(test_a_full_store),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
