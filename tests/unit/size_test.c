/* What `sluice size` says of stores: one of that size holds so many keys that are used up, and evicts none; one of
 * half of it does not. */
#include "hosts/cli/size.h"

#include "algo/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)

/* Uses up one limit for `keys` keys, at instants of their own. Returns how many counters were evicted, or denied for
 * want of room. */
static uint64_t fill(const struct sluice_limit *limit, uint64_t keys, uint64_t memory, uint32_t percent) {
	struct sluice_store_options options = {.memory_bytes = memory, .blocks_percent = percent};
	struct sluice_store_stats stats;
	struct sluice_store *store;
	uint64_t denied = 0;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	sluice_ns start = sluice_store_now(store);
	/* an estimate may deny a little below its quota: fill() stops where the sketch stands */
	const uint32_t parts = sl_rule_estimates(limit)   ? SL_EXACT_MEMBERS + 10
	                       : limit->bucket_count != 0 ? limit->bucket_count
	                                                  : limit->quota;
	for (uint32_t part = 0; part < parts; part++)
		for (uint64_t key = 0; key < keys; key++) {
			char id[17];
			struct sluice_item item = {.limit = limit, .key = {&key, sizeof key}};
			struct sluice_call call = {
				.items = &item, .item_count = 1, .cost = 1, .now = start + limit->window_ns / 2 / parts * part};
			snprintf(id, sizeof id, "%08x%08x", (unsigned)key, part);
			if (sl_rule_has(limit, SL_TAKES_LEASE)) {
				call.operation = SLUICE_ACQUIRE;
				call.id = (struct sluice_bytes){id, 16};
			} else if (sl_rule_has(limit, SL_TAKES_MEMBER)) {
				item.member = (struct sluice_bytes){id, 16};
			}
			assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
			denied += !call.merged.allowed;
		}
	sluice_store_stats(store, &stats);
	sluice_store_close(store);
	return stats.evicted + denied;
}

static void stores(void **state) {
	static const struct {
		const char *limit;
		uint64_t keys;
	} rows[] = {
		{"fixed-window 1/1h", 300000},
		{"token-bucket 1/1h", 100000},
		{"sliding-log 10/1m", 40000},
		{"sliding-log 300/1h", 2000},
		{"sliding-buckets 1000/1h precision 1m", 8000},
		{"concurrency 20 lease 1h", 8000},
		{"distinct 20/1h", 8000},
		{"distinct 2000/1h registers 1024", 120},
		{"distinct 2000/1h", 60},
		{"distinct 2000/1h registers 16384", 20},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit;
		uint64_t mib;
		uint32_t percent;
		assert_int_equal(
			sluice_limit_parse(&limit, (struct sluice_bytes){rows[i].limit, strlen(rows[i].limit)}, NULL), SLUICE_OK);
		sl_size_store(&limit, 1, rows[i].keys, &mib, &percent);
		uint64_t bytes = mib << 20;
		uint64_t lost = fill(&limit, rows[i].keys, bytes, percent), lost_of_half;
		if (lost != 0)
			fail_msg("%s: %llu lost", rows[i].limit, (unsigned long long)lost);
		lost_of_half = fill(&limit, rows[i].keys, bytes / 2, percent);
		if (lost_of_half == 0)
			fail_msg("%s: half of %llu bytes would do", rows[i].limit, (unsigned long long)bytes);
	}
}

static void none(void **state) {
	struct sluice_limit limit;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, (struct sluice_bytes){"unlimited", 9}, NULL), SLUICE_OK);
	struct sl_size size = sl_size_of(&limit);
	assert_int_equal(size.slots + size.blocks + size.module + size.script + size.theirs, 0);
	assert_null(size.theirs_called);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(stores), cmocka_unit_test(none)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
