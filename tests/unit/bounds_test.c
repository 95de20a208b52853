/* How many connections there are of whom: beside a plain list of all that came and went, on random traffic. */
#include "hosts/server/net/bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sl_address address_of(const char *text) {
	struct sl_address address;
	assert_true(sl_address_parse(sl_str(text), &address, NULL));
	return address;
}

static void test_an_address_has_a_bound(void **state) {
	_Atomic uint64_t refused = 0;
	struct sl_settings settings = {.ipv6_prefix = 64, .connections = {.per_address = 2}};
	struct sl_bounds *bounds = sl_bounds_new(&refused);
	struct sl_address a = address_of("192.0.2.1"), b = address_of("192.0.2.2");
	struct sl_bounds_entry first = {false}, second = {false}, third = {false}, other = {false};
	(void)state;
	assert_true(sl_bounds_enter_address(bounds, &first, &a, &settings));
	assert_true(sl_bounds_enter_address(bounds, &second, &a, &settings));
	assert_false(sl_bounds_enter_address(bounds, &third, &a, &settings));
	assert_false(third.by_address);
	assert_true(sl_bounds_enter_address(bounds, &other, &b, &settings));
	sl_bounds_leave(bounds, &third); /* was never in: changes nothing */
	assert_false(sl_bounds_enter_address(bounds, &third, &a, &settings));
	sl_bounds_leave(bounds, &first);
	sl_bounds_leave(bounds, &first); /* once is enough */
	assert_true(sl_bounds_enter_address(bounds, &third, &a, &settings));
	assert_false(sl_bounds_enter_address(bounds, &first, &a, &settings));
	settings.connections.per_address = 0;
	assert_true(sl_bounds_enter_address(bounds, &first, &a, &settings));
	sl_bounds_refuse(bounds);
	assert_int_equal(refused, 1);
	sl_bounds_free(bounds);
}

static void test_ipv6_counts_by_its_network(void **state) {
	static const struct {
		uint32_t prefix;
		const char *one, *same, *another;
	} rows[] = {
		{64, "2001:db8:1:2::1", "2001:db8:1:2:ffff::", "2001:db8:1:3::1"},
		{56, "2001:db8:1:200::", "2001:db8:1:2ff::", "2001:db8:1:300::"},
		{128, "2001:db8::1", "2001:db8::1", "2001:db8::2"},
		{1, "::2", "7fff::", "8000::"},
		{64, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"}, /* IPv4 by itself, however it is written */
		{60, "2001:db8:1:f0::", "2001:db8:1:ff::", "2001:db8:1:e0::"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		_Atomic uint64_t refused = 0;
		struct sl_settings settings = {.ipv6_prefix = rows[i].prefix, .connections = {.per_address = 1}};
		struct sl_bounds *bounds = sl_bounds_new(&refused);
		struct sl_address one = address_of(rows[i].one), same = address_of(rows[i].same);
		struct sl_address another = address_of(rows[i].another);
		struct sl_bounds_entry places[3] = {{false}};
		assert_true(sl_bounds_enter_address(bounds, &places[0], &one, &settings));
		assert_false(sl_bounds_enter_address(bounds, &places[1], &same, &settings));
		assert_true(sl_bounds_enter_address(bounds, &places[2], &another, &settings));
		settings.ipv6_prefix = 32; /* a reload: it leaves as it came */
		sl_bounds_leave(bounds, &places[0]);
		settings.ipv6_prefix = rows[i].prefix;
		assert_true(sl_bounds_enter_address(bounds, &places[1], &same, &settings));
		sl_bounds_free(bounds);
	}
}

static void test_all_and_what_descriptors_leave(void **state) {
	_Atomic uint64_t refused = 0;
	struct sl_bounds *bounds = sl_bounds_new(&refused);
	struct sl_settings settings = {.connections = {.max = 0}};
	struct sl_bounds_entry places[3] = {{false}};
	(void)state;
	assert_int_equal(sl_bounds_most(bounds, &settings), UINT32_MAX);
	sl_bounds_set_descriptors(bounds, 40);
	assert_int_equal(sl_bounds_most(bounds, &settings), 40);
	settings.connections.max = 41;
	assert_int_equal(sl_bounds_most(bounds, &settings), 40);
	settings.connections.max = 39;
	assert_int_equal(sl_bounds_most(bounds, &settings), 39);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sl_bounds_enter(bounds, &places[i]), i + 1);
	sl_bounds_leave(bounds, &places[1]);
	assert_int_equal(sl_bounds_open(bounds), 2);
	sl_bounds_free(bounds);
}

enum { PLACES = 3000, ADDRESSES = 700, STEPS = 200000, MOST = 6 };

static uint64_t next_random(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* Crowds of many sizes, so that the table grows, shrinks and closes its gaps. */
static void test_against_a_list(void **state) {
	const char *given = getenv("SLUICE_SEED");
	uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20261121, dice = seed * 2 + 1;
	_Atomic uint64_t refused = 0;
	struct sl_settings settings = {.ipv6_prefix = 64, .connections = {.per_address = MOST}};
	struct sl_bounds *bounds = sl_bounds_new(&refused);
	static struct sl_bounds_entry places[PLACES];
	static uint32_t whose[PLACES], counts[ADDRESSES];
	(void)state;
	printf("SLUICE_SEED=%llu\n", (unsigned long long)seed);
	for (int step = 0; step < STEPS; step++) {
		uint32_t at = (uint32_t)(next_random(&dice) % PLACES), who = (uint32_t)(next_random(&dice) % ADDRESSES);
		bool crowded = step / 20000 % 2 == 0; /* waves: nearly all come, nearly all go */
		if (places[at].by_address && (!crowded || next_random(&dice) % 8 == 0)) {
			sl_bounds_leave(bounds, &places[at]);
			counts[whose[at]]--;
		} else if (!places[at].by_address && (crowded || next_random(&dice) % 8 == 0)) {
			struct sl_address address = {
				{0x20, 1, [6] = (uint8_t)(who >> 8), [7] = (uint8_t)who, [15] = (uint8_t)step}};
			bool entered = sl_bounds_enter_address(bounds, &places[at], &address, &settings);
			assert_int_equal(entered, counts[who] < MOST);
			counts[who] += entered;
			whose[at] = who;
		}
	}
	for (int i = 0; i < PLACES; i++)
		sl_bounds_leave(bounds, &places[i]);
	sl_bounds_free(bounds);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_address_has_a_bound),
		cmocka_unit_test(test_ipv6_counts_by_its_network),
		cmocka_unit_test(test_all_and_what_descriptors_leave),
		cmocka_unit_test(test_against_a_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
