/* Denials that are remembered: for how long, for which costs, and what they say meanwhile. */
#include "hosts/server/remote/denial_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)
#define NOW ((sluice_ns)5000000 * MS)

static const struct sluice_decision denial = {
	.quota = 10, .remaining = 2, .retry_after_ns = 300 * MS, .reset_after_ns = 900 * MS, .next_after_ns = 100 * MS};

static int set_up(void **state) {
	*state = sl_denial_cache_new();
	return *state == NULL;
}

static int tear_down(void **state) {
	sl_denial_cache_free(*state);
	return 0;
}

static void test_waits_are_counted_down(void **state) {
	struct sluice_decision d;
	sl_denial_cache_add(*state, 7, 3, &denial, NOW);
	assert_true(sl_denial_cache_find(*state, 7, 3, NOW + 120 * MS, &d));
	assert_false(d.allowed);
	assert_int_equal(d.quota, 10);
	assert_int_equal(d.remaining, 2);
	assert_int_equal(d.retry_after_ns, 180 * MS);
	assert_int_equal(d.reset_after_ns, 780 * MS);
	assert_int_equal(d.next_after_ns, 0);
	assert_true(sl_denial_cache_find(*state, 7, 3, NOW + 300 * MS - 1, &d));
	assert_int_equal(d.retry_after_ns, 1);
	assert_false(sl_denial_cache_find(*state, 7, 3, NOW + 300 * MS, &d));
}

static void test_other_costs_and_counters_are_not_known(void **state) {
	struct sluice_decision d;
	sl_denial_cache_add(*state, 7, 3, &denial, NOW);
	assert_false(sl_denial_cache_find(*state, 7, 2, NOW, &d));
	assert_false(sl_denial_cache_find(*state, 7, 4, NOW, &d)); /* denied, but for longer */
	assert_false(sl_denial_cache_find(*state, 8, 3, NOW, &d));
}

static void test_never_is_believed_for_a_second(void **state) {
	struct sluice_decision never = denial, d;
	never.retry_after_ns = SLUICE_NEVER;
	sl_denial_cache_add(*state, 7, 3, &never, NOW);
	assert_true(sl_denial_cache_find(*state, 7, 3, NOW + SL_DENIAL_CACHE_NS_MAX - 1, &d));
	assert_int_equal(d.retry_after_ns, SLUICE_NEVER);
	assert_false(sl_denial_cache_find(*state, 7, 3, NOW + SL_DENIAL_CACHE_NS_MAX, &d));
}

static void test_what_is_forgotten_is_gone_for_all_costs(void **state) {
	struct sluice_decision d;
	for (uint32_t cost = 1; cost <= 3; cost++)
		sl_denial_cache_add(*state, 7, cost, &denial, NOW);
	assert_true(sl_denial_cache_find(*state, 7, 1, NOW, &d));
	sl_denial_cache_forget(*state, 7);
	for (uint32_t cost = 1; cost <= 3; cost++)
		assert_false(sl_denial_cache_find(*state, 7, cost, NOW, &d));
}

static void test_the_one_that_ends_first_makes_room(void **state) {
	struct sluice_decision d, one = denial;
	for (uint32_t i = 0; i < SL_DENIAL_CACHE_WAYS; i++) {
		one.retry_after_ns = (i == 2 ? 10 : 20 + i) * MS;
		sl_denial_cache_add(*state, 7, i, &one, NOW);
	}
	sl_denial_cache_add(*state, 7, 77, &denial, NOW);
	sl_denial_cache_add(*state, 7, 77, &denial, NOW); /* takes its own place */
	assert_false(sl_denial_cache_find(*state, 7, 2, NOW, &d));
	assert_true(sl_denial_cache_find(*state, 7, 0, NOW, &d));
	assert_true(sl_denial_cache_find(*state, 7, 77, NOW, &d));
}

static uint64_t tag_of(const char *limit, const char *key) {
	static const uint64_t secret[2] = {1, 2};
	struct sluice_limit parsed;
	assert_int_equal(sluice_limit_parse(&parsed, sl_str(limit), NULL), SLUICE_OK);
	return sl_item_tag(secret, &parsed, sl_str(key));
}

static void test_tags_differ_where_answers_may(void **state) {
	static const char *const limits[] = {"10/1s",
	                                     "11/1s",
	                                     "10/2s",
	                                     "fixed-window 10/1s",
	                                     "token-bucket 10/1s",
	                                     "token-bucket 10/1s burst 11",
	                                     "sliding-buckets 10/1s precision 100ms",
	                                     "sliding-buckets 10/1s precision 100ms edge drop"};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		assert_int_equal(tag_of(limits[i], "k"), tag_of(limits[i], "k"));
		assert_int_not_equal(tag_of(limits[i], "k"), tag_of(limits[i], "l"));
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(tag_of(limits[i], "k"), tag_of(limits[k], "k"));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_waits_are_counted_down, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_costs_and_counters_are_not_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_never_is_believed_for_a_second, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_forgotten_is_gone_for_all_costs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_one_that_ends_first_makes_room, set_up, tear_down),
		cmocka_unit_test(test_tags_differ_where_answers_may),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
