/* What grows and what is reused, while all threads are at it: one log growing under all of them, many logs out of one
 * heap of blocks, and a store so full that every new key takes the place of an expired one. */
#include "tests/race/crew.h"

#include "base/bytes.h"
#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { MS = 1000000, ENTRIES = 160000 / CREW_SLOWNESS };

/* ---- logs ---------------------------------------------------------------------------------------------------- */

/* Every charge at an instant of its own, so each is an entry of the log. */
static void grow_one_log(struct crew *crew, uint32_t index) {
	(void)index;
	for (uint64_t i = 0; i < crew->attempts; i++)
		crew_charge(crew, crew->limits, "grows", crew->now_ns + crew_add(&crew->clock, 1) * MS, 1);
}

static void one_log_grows_under_all_threads(void **state) {
	struct sluice_limit limit = crew_limit("sliding-log 4294967295/1h");
	struct crew crew = {.store = crew_store(32), .limits = &limit, .now_ns = CREW_START_NS, .attempts = ENTRIES / CREW};
	uint64_t entries = ENTRIES / CREW * CREW, hour_ns = limit.window_ns, end_ns = crew.now_ns + entries * MS;
	(void)state;
	crew_run(&crew, CREW, grow_one_log);
	assert_int_equal(crew.errors, 0);
	assert_int_equal(crew.admitted, entries);
	assert_int_equal(crew_remaining(&crew, &limit, "grows", end_ns), UINT32_MAX - entries);
	assert_int_equal(crew_remaining(&crew, &limit, "grows", end_ns + hour_ns), UINT32_MAX);
	assert_null(sl_store_verify(crew.store));
	sluice_store_close(crew.store);
}

enum { LOGS = 40 };

/* Many logs at once out of one heap of blocks, some of them forgotten again and again: nothing overlaps, which an
 * entry that changes would show in some key's remaining. */
static void grow_many_logs(struct crew *crew, uint32_t index) {
	for (uint64_t i = 0; i < crew->attempts; i++) {
		char key[32];
		uint64_t k = (i * 7 + index) % LOGS;
		struct sluice_item item = {.limit = crew->limits, .key = {key, 0}};
		struct sluice_call call = {.items = &item, .item_count = 1, .operation = SLUICE_RESET, .now = crew->now_ns};
		if (i % 50 == 49) { /* keys of this thread alone, that come and go */
			item.key.len = (size_t)snprintf(key, sizeof key, "mine:%" PRIu32, index);
			if (sluice_decide(crew->store, &call) != SLUICE_OK || call.forgotten != 1)
				crew_add(&crew->errors, 1);
			continue;
		}
		snprintf(key, sizeof key, "log:%" PRIu64, k);
		crew_charge(crew, crew->limits, key, crew->now_ns + i * MS, 1);
		snprintf(key, sizeof key, "mine:%" PRIu32, index);
		if (!crew_charge(crew, crew->limits, key, crew->now_ns + i * MS, 1))
			crew_add(&crew->errors, 1);
	}
}

static void many_logs_grow_without_touching_each_other(void **state) {
	struct sluice_limit limit = crew_limit("sliding-log 4G/1h");
	struct crew crew = {.store = crew_store(32), .limits = &limit, .now_ns = CREW_START_NS, .attempts = ENTRIES / CREW};
	uint64_t sum = 0, mine = 0;
	(void)state;
	crew_run(&crew, CREW, grow_many_logs);
	assert_int_equal(crew.errors, 0);
	for (uint32_t k = 0; k < LOGS; k++) {
		char key[32];
		snprintf(key, sizeof key, "log:%" PRIu32, k);
		sum += 4000000000u - crew_remaining(&crew, &limit, key, crew.now_ns);
	}
	mine = (crew.attempts - crew.attempts / 50) * CREW; /* every charge of a shared log had one of its own beside it */
	assert_int_equal(sum, mine);
	assert_int_equal(crew.admitted, 2 * mine);
	assert_null(sl_store_verify(crew.store));
	sluice_store_close(crew.store);
}

/* ---- new keys in the place of expired ones --------------------------------------------------------------------- */

enum { CHUNKS = 300 / (CREW_SLOWNESS > 1 ? 5 : 1), CHUNK_KEYS = 200, LIVING_CHUNKS = 4 };

struct churn {
	uint32_t admitted[CHUNKS * CHUNK_KEYS]; /* atomic: how often each key was */
	uint64_t full;                          /* atomic: calls that found no room */
};

/* All threads charge the same new keys at the same instant, chunk by chunk, time going on a second a chunk; a counter
 * lives for four. A store of 1 MiB is full of expired ones soon. Each chunk is checked again while it lives. */
static void churn_keys(struct crew *crew, uint32_t index) {
	struct churn *churn = crew->more;
	for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
		uint64_t now_ns = crew->now_ns + (uint64_t)chunk * 1000 * MS;
		uint32_t back = chunk < LIVING_CHUNKS - 1 ? 0 : LIVING_CHUNKS - 1;
		crew_wait(crew); /* so that no thread is further behind than the others remember */
		for (uint32_t i = 0; i < CHUNK_KEYS; i++) {
			uint32_t keys[] = {chunk * CHUNK_KEYS + i, (chunk - back) * CHUNK_KEYS + (i * 17 + index) % CHUNK_KEYS};
			for (uint32_t n = 0; n < 2; n++) {
				char key[32];
				struct sluice_item item = {.limit = &crew->limits[keys[n] % crew->limit_count], .key = {key, 0}};
				struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .now = now_ns};
				item.key.len = (size_t)snprintf(key, sizeof key, "churn:%" PRIu32, keys[n]);
				if (sluice_decide(crew->store, &call) != SLUICE_OK)
					crew_add(&churn->full, 1);
				else if (call.merged.allowed)
					__atomic_fetch_add(&churn->admitted[keys[n]], 1, __ATOMIC_RELAXED);
			}
		}
	}
}

static void churn(const char *const *notations, uint32_t count, uint64_t crowd) {
	static struct churn churned;
	struct sluice_limit limits[4], ballast = crew_limit("fixed-window 1/4s");
	struct crew crew = {.store = crew_store(1), .limits = limits, .limit_count = count, .now_ns = CREW_START_NS};
	churned = (struct churn){0};
	crew.more = &churned;
	for (uint32_t i = 0; i < count; i++)
		limits[i] = crew_limit(notations[i]);
	for (uint64_t k = 0; k < crowd; k++) { /* fills the store with what expires before the first chunk */
		char key[32];
		snprintf(key, sizeof key, "ballast:%" PRIu64, k);
		crew_charge(&crew, &ballast, key, CREW_START_NS - 3600000ull * MS, 1);
	}
	crew_run(&crew, CREW, churn_keys);
	assert_int_equal(churned.full, 0);
	for (uint32_t k = 0; k < CHUNKS * CHUNK_KEYS; k++)
		assert_int_equal(churned.admitted[k], 1);
	assert_null(sl_store_verify(crew.store));
	sluice_store_close(crew.store);
}

static void expired_counters_are_reused_under_threads(void **state) {
	static const char *const small[] = {"sliding-window 1/4s", "token-bucket 1/4s", "leaky-bucket 1/4s queue 0"};
	(void)state;
	churn(small, 3, 20000);
}

static void expired_blocks_are_reused_under_threads(void **state) {
	static const char *const with_blocks[] = {"sliding-log 1/4s", "sliding-buckets 1/4s precision 500ms",
	                                          "sliding-buckets 1/4s precision 100ms edge count"};
	(void)state;
	churn(with_blocks, 3, 20000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_log_grows_under_all_threads),
		cmocka_unit_test(many_logs_grow_without_touching_each_other),
		cmocka_unit_test(expired_counters_are_reused_under_threads),
		cmocka_unit_test(expired_blocks_are_reused_under_threads),
	};
	return cmocka_run_group_tests_name("growth and reuse under threads", tests, NULL, NULL);
}
