/* How a store is split for a policy, and what sub-buckets take of it. */
#include "policy/footprint.h"

#include "algo/step.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct sluice_policy *policy_of(const char *yaml) {
	struct sluice_policy *policy = NULL;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
	return policy;
}

static uint32_t percent_of(const char *yaml) {
	struct sluice_policy *policy = policy_of(yaml);
	uint32_t percent = sl_policy_blocks_percent(policy);
	sluice_policy_free(policy);
	return percent;
}

static void shares(void **state) {
	(void)state;
	assert_int_equal(percent_of("limits: []\n"), SL_BLOCKS_PERCENT_DEFAULT);
	assert_int_equal(percent_of("limits: [{name: a, key: [], limit: sliding-log 5/1m}]\n"), SL_BLOCKS_PERCENT_DEFAULT);
	assert_int_equal(percent_of("limits: [{name: a, key: ip, limit: 5/1m}]\n"), 10);
	assert_int_equal(percent_of("store: {blocks: 3%}\nlimits: [{name: a, key: ip, limit: 5/1m}]\n"), 3);
	/* 97 cells of two bytes: four units, each with its byte of the map, beside a slot of 42 bytes */
	assert_int_equal(percent_of("limits: [{name: a, key: ip, limit: sliding-buckets 50k/1d precision 15m}]\n"), 87);
	assert_int_equal(percent_of("limits:\n- {name: a, key: ip, limit: sliding-buckets 50k/1d precision 15m}\n"
	                            "- {name: b, key: ip, limit: 5/1m}\n"),
	                 76);
}

/* A log takes what its entries take, an eighth more and a quarter of that: more than its first charge. */
static void most_of_a_log(void **state) {
	struct sluice_policy *policy = policy_of("limits: [{name: a, key: ip, limit: sliding-log 1000/1h}]\n");
	const struct sluice_limit *limit = &sl_policy_limit_at(policy, 0)->limit;
	struct sl_footprint footprint = sl_footprint_of(limit);
	uint64_t bytes = sl_footprint_bytes_used_up(limit);
	(void)state;
	assert_true(footprint.least < bytes);
	assert_in_range(footprint.most, bytes * 45 / 32, bytes * 45 / 32 + 200);
	sluice_policy_free(policy);
}

/* Whatever a block is between its least and its most, at least two thirds of what the best share holds. */
static void regret(void **state) {
	(void)state;
	for (uint64_t least = 65; least < 1000; least += 130)
		for (uint64_t most = least; most < 40000000; most = most * 3 + 1) {
			struct sl_footprint sum = {42, least, most};
			uint64_t p = sl_footprint_split(&sum), slots = (100 - p) * (42 + least), blocks = p * (42 + most);
			assert_true(p >= 1 && p <= SL_BLOCKS_PERCENT_MAX);
			assert_true(slots * 3 + 3 * (42 + least) >= UINT64_C(200) * 42);
			assert_true(blocks * 3 + 3 * (42 + most) >= 200 * most);
		}
}

/* As many keys as lint says fit, without one being evicted. */
static void keys_fit(void **state) {
	struct sluice_policy *policy = policy_of("store: {memory: 4MiB}\nlimits:\n"
	                                         "- {name: a, key: ip, limit: sliding-buckets 50k/1d precision 15m}\n");
	const struct sluice_limit *limit = &sl_policy_limit_at(policy, 0)->limit;
	struct sluice_store_options options = {.memory_bytes = 4 << 20,
	                                       .blocks_percent = sl_policy_blocks_percent(policy)};
	struct sluice_store *store;
	struct sluice_store_stats stats;
	uint64_t keys = sl_policy_keys_most(policy);
	(void)state;
	assert_true(keys > 9000);
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	for (uint64_t key = 0; key < keys; key++) {
		struct sluice_decision decision;
		struct sluice_bytes bytes = {&key, sizeof key};
		assert_int_equal(sluice_check(store, limit, bytes, 500, &decision), SLUICE_OK);
		assert_true(decision.allowed);
	}
	sluice_store_stats(store, &stats);
	assert_int_equal(stats.evicted, 0);
	sluice_store_close(store);
	sluice_policy_free(policy);
}

/* A cell that outgrows 16 bits: the counter goes on in wide ones, and nothing of it is lost. */
static void cells_widen(void **state) {
	struct sluice_limit limit;
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct sluice_store *store;
	struct sluice_store_stats narrow, wide;
	struct sluice_item item = {.limit = &limit, .key = {"k", 1}};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 65535, .now = UINT64_C(1700000000000000000)};
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("sliding-buckets 200k/1d precision 15m"), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	sluice_store_stats(store, &narrow);
	assert_int_equal(narrow.block_bytes, 4 * 64 - 8);
	call.cost = 1;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	assert_true(call.merged.allowed && call.merged.remaining == 200000 - 65536);
	sluice_store_stats(store, &wide);
	assert_int_equal(wide.block_bytes, 7 * 64 - 8);
	call.cost = 200000 - 65536;
	call.now += limit.window_ns / 2;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	assert_true(call.merged.allowed && call.merged.remaining == 0);
	call.now += limit.window_ns / 2 + limit.precision_ns; /* what came first has left, and all of it */
	call.cost = 0;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	assert_int_equal(call.merged.remaining, 65536);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(shares), cmocka_unit_test(most_of_a_log),
	                                   cmocka_unit_test(regret), cmocka_unit_test(keys_fit),
	                                   cmocka_unit_test(cells_widen)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
