/* A week of traffic in one store whose blocks are well used: logs of many lengths grow with the day, shrink with the
 * night and are given up. If that left gaps which nobody can use, counters in use would have to go, each day more. */
#include "store/blocks.h"
#include "store/scan.h"
#include "store/store.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DAYS = 7, MINUTES = 24 * 60, CLIENTS = 6000, LIMITS = 4, STORE_MIB = 4, MINUTE_MS = 60000 };

#define DAY_ZERO_NS (UINT64_C(1767225600) * 1000000000)

static const char *const notations[LIMITS] = {"sliding-log 2000/6h", "sliding-log 300/30m",
                                              "sliding-buckets 5000/2h precision 1m", "sliding-log 50k/12h"};

struct week {
	struct sluice_store *store;
	struct sluice_limit limits[LIMITS];
	struct dice dice;
};

/* Few clients ask much, most ask little; costs differ for one in eight. */
static void ask(struct week *week, uint64_t now_ns) {
	uint64_t client = dice_below(&week->dice, CLIENTS);
	char key[32];
	struct sluice_item item = {.limit = &week->limits[client % LIMITS], .key = {key, 0}};
	struct sluice_call call = {.items = &item, .item_count = 1, .now = now_ns};
	client = client * dice_below(&week->dice, CLIENTS) / CLIENTS;
	item.limit = &week->limits[client % LIMITS];
	item.key.len = (size_t)snprintf(key, sizeof key, "client:%" PRIu64, client);
	call.cost = client % 8 == 5 ? 1 + (uint32_t)dice_below(&week->dice, 9) : 1;
	assert_int_equal(sluice_decide(week->store, &call), SLUICE_OK);
}

static bool add_block(void *context, const struct sl_entry *entry) {
	*(uint64_t *)context += entry->block != NULL ? entry->block_bytes + sizeof(struct sl_block_head) : 0;
	return true;
}

/* The share of all blocks, in %, that counters hold which have not expired. */
static uint64_t living_percent(const struct week *week, uint64_t now_ns) {
	uint64_t bytes = 0;
	for (uint64_t page = 0; page < week->store->page_count; page++)
		(void)sl_store_scan(week->store, page, now_ns, NULL, add_block, &bytes);
	return bytes * 100 / (week->store->header->unit_count * SL_UNIT_BYTES);
}

/* One day: a request a second at night, thirty at noon. Returns how many counters in use had to go. */
static uint64_t live_a_day(struct week *week, uint64_t day, uint64_t *peak_percent) {
	uint64_t evicted = week->store->header->evicted;
	*peak_percent = 0;
	for (uint64_t minute = 0; minute < MINUTES; minute++) {
		uint64_t away = minute < MINUTES / 2 ? MINUTES / 2 - minute : minute - MINUTES / 2;
		uint64_t asks = 60 + 1000 * (MINUTES / 2 - away) / (MINUTES / 2);
		uint64_t now_ns = DAY_ZERO_NS + ((day * MINUTES + minute) * MINUTE_MS) * 1000000;
		for (uint64_t i = 0; i < asks; i++)
			ask(week, now_ns + i * MINUTE_MS / asks * 1000000);
		if (minute % 60 == 0)
			*peak_percent = sl_max(*peak_percent, living_percent(week, now_ns));
	}
	return week->store->header->evicted - evicted;
}

static void a_week_leaves_no_gaps(void **state) {
	struct sluice_store_options options = {.memory_bytes = (uint64_t)STORE_MIB << 20, .blocks_percent = 60};
	struct week week = {.dice = dice_of(dice_seed(), 77)};
	uint64_t days = dice_ops(DAYS);
	(void)state;
	assert_int_equal(sluice_store_open(&week.store, &options, NULL), SLUICE_OK);
	for (int i = 0; i < LIMITS; i++)
		assert_int_equal(sluice_limit_parse(&week.limits[i], sl_str(notations[i]), NULL), SLUICE_OK);
	for (uint64_t day = 0; day < days; day++) {
		uint64_t peak, evicted = live_a_day(&week, day, &peak);
		printf("day %" PRIu64 ": at most %" PRIu64 " %% of the blocks hold what counts, %" PRIu64 " in use had to go\n",
		       day + 1, peak, evicted);
		assert_in_range(peak, 60, 95);
		assert_int_equal(evicted, 0);
		assert_null(sl_store_verify(week.store));
	}
	sluice_store_close(week.store);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_week_leaves_no_gaps)};
	return cmocka_run_group_tests_name("days of traffic", tests, NULL, NULL);
}
