/* The auditor against sums made the slow way, and the bounds that stand beside them. */
#include "hosts/cli/audit.h"

#include "algo/step.h"
#include "tests/model/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CHARGES = 200, KEYS = 3, MEMBERS = 6, MEMORY = 1 << 20 };
#define MS ((sluice_ns)1000000)

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	struct sluice_error error;
	if (sluice_limit_parse(&limit, sl_str(text), &error) != SLUICE_OK)
		fail_msg("%s: %s", text, error.text);
	return limit;
}

static void bounds(void **state) {
	static const struct {
		const char *limit;
		uint64_t most;
	} rows[] = {
		{"fixed-window 100/1m", 200},
		{"100/month", 300},
		{"100/1m", 199},
		{"sliding-buckets 100/1m precision 1s", 100},
		{"sliding-buckets 100/1m precision 1s edge drop", 200},
		{"sliding-buckets 100/1m precision 1s edge weighted", 199},
		{"sliding-log 100/1m", 100},
		{"token-bucket 10/1s burst 100", 109},
		{"leaky-bucket 10/1s queue 50", 60},
		{"concurrency 20 lease 30s", 20},
		{"distinct 1024/1h", 1024},
		{"distinct 1025/1h", UINT64_MAX},
		{"unlimited", UINT64_MAX},
		{"0/1m", 0},
		{"token-bucket 0/1m", 0},
		{"fixed-window 4294967295/1m", 8589934590},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit = limit_of(rows[i].limit);
		assert_int_equal(sl_step_most(&limit), rows[i].most);
	}
}

/* ---- sums, the slow way ------------------------------------------------------------------------------------------ */

struct made {
	sluice_ns since, now, until;
	uint64_t cost;
	char key, member;
};

/* What certainly lay in the window that ends with charge `at`. */
static uint64_t sum_up_to(const struct made *list, int at, sluice_ns window) {
	uint64_t sum = 0;
	for (int i = 0; i <= at; i++)
		if (list[i].key == list[at].key && list[i].since + window > list[at].now && list[i].until > list[at].now)
			sum += list[i].cost;
	return sum;
}

static uint64_t members_up_to(const struct made *list, int at, sluice_ns window) {
	bool met[MEMBERS] = {false};
	uint64_t sum = 0;
	for (int i = 0; i <= at; i++)
		if (list[i].key == list[at].key && list[i].since + window > list[at].now) {
			sum += !met[(int)list[i].member];
			met[(int)list[i].member] = true;
		}
	return sum;
}

static void make(struct made *list, struct dice *dice, bool apart) {
	sluice_ns now = 1000 * MS;
	for (int i = 0; i < CHARGES; i++) {
		now += dice_below(dice, 8) * MS;
		list[i] = (struct made){now, now, now + dice_below(dice, 150) * MS, 1 + dice_below(dice, 5),
		                        (char)dice_below(dice, KEYS), (char)dice_below(dice, MEMBERS)};
		if (apart)
			list[i].since -= dice_below(dice, 12) * MS;
	}
}

static uint64_t most_of(const struct sluice_limit *limit, const struct made *list) {
	struct sl_audit *audit = sl_audit_open(1, MEMORY, false);
	for (int i = 0; i < CHARGES; i++) {
		struct sl_audit_charge charge = {0, limit, sl_slice(&list[i].key, 1), sl_slice(&list[i].member, 1),
		                                 list[i].cost, list[i].since, list[i].now, list[i].until};
		assert_true(sl_audit_add(audit, &charge));
	}
	uint64_t most = sl_audit_worst(audit, 0)->most;
	assert_int_equal(sl_audit_exceeded(audit) != 0, most > sl_step_most(limit));
	sl_audit_close(audit);
	return most;
}

static void sums(void **state) {
	const struct sluice_limit log = limit_of("sliding-log 40/100ms"), lease = limit_of("concurrency 20 lease 100ms"),
							  members = limit_of("distinct 5/100ms");
	(void)state;
	for (uint64_t round = 0; round < 200; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		struct made list[CHARGES];
		uint64_t cost = 0, held = 0, met = 0;
		make(list, &dice, round % 2 != 0);
		for (int i = 0; i < CHARGES; i++) {
			uint64_t of_members = members_up_to(list, i, 100 * MS);
			held = sum_up_to(list, i, 100 * MS) > held ? sum_up_to(list, i, 100 * MS) : held;
			met = of_members > met ? of_members : met;
		}
		assert_int_equal(most_of(&lease, list), held);
		assert_int_equal(most_of(&members, list), met);
		for (int i = 0; i < CHARGES; i++)
			list[i].until = SLUICE_NEVER;
		for (int i = 0; i < CHARGES; i++)
			cost = sum_up_to(list, i, 100 * MS) > cost ? sum_up_to(list, i, 100 * MS) : cost;
		assert_int_equal(most_of(&log, list), cost);
	}
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Two charges of the whole quota, `apart_ns` from each other. How many counters were above their bound? */
static uint64_t exceeded_by(const char *text, sluice_ns first, sluice_ns apart_ns, bool apart) {
	const struct sluice_limit limit = limit_of(text);
	struct sl_audit *audit = sl_audit_open(1, MEMORY, apart);
	struct sl_audit_charge charge = {
		.limit = &limit, .key = sl_str("k"), .cost = limit.quota, .since = first, .now = first};
	assert_true(sl_audit_add(audit, &charge));
	charge.since = charge.now = first + apart_ns;
	assert_true(sl_audit_add(audit, &charge));
	uint64_t exceeded = sl_audit_exceeded(audit);
	sl_audit_close(audit);
	return exceeded;
}

static void edges(void **state) {
	(void)state;
	assert_int_equal(exceeded_by("sliding-log 5/1m", 7, 60000 * MS, false), 0); /* it is gone at exactly s + W */
	assert_int_equal(exceeded_by("sliding-log 5/1m", 7, 60000 * MS - 1, false), 1);
	assert_int_equal(exceeded_by("sliding-log 5/1m", 7, 0, false), 1);
	assert_int_equal(exceeded_by("sliding-log 5/1m", 7, 60000 * MS - 7 * MS, true), 0); /* two clocks, and a stamp */
	assert_int_equal(exceeded_by("sliding-log 5/1m", 7, 60000 * MS - 7 * MS - 1, true), 1);
	assert_int_equal(exceeded_by("sliding-log 5/1ms", 7, 1, true), 0);
	assert_int_equal(exceeded_by("sliding-window 5/1m", 7, 1, false), 1); /* 10 of 9 */
	assert_int_equal(exceeded_by("fixed-window 5/1m", 7, 1, false), 0);   /* 10 of 10 */
	assert_int_equal(exceeded_by("token-bucket 5/1m burst 1", 7, 1, false), 1);
	/* a window of ticks: 1 us of these 10 s */
	assert_int_equal(exceeded_by("token-bucket 5/10s burst 4", 900, 10000 * MS - 800, false), 0);
	assert_int_equal(exceeded_by("token-bucket 5/10s burst 4", 900, 10000 * MS - 1800, false), 1);
}

/* A counter's clock never runs backwards; an override's quota is the counter's where it is the larger. */
static void counters(void **state) {
	const struct sluice_limit small = limit_of("sliding-log 5/1m"), large = limit_of("sliding-log 50/1m");
	struct sl_audit *audit = sl_audit_open(2, MEMORY, false);
	struct sl_audit_charge charge = {
		.limit = &small, .key = sl_str("k"), .cost = 5, .since = 60001 * MS, .now = 60001 * MS};
	(void)state;
	assert_true(sl_audit_add(audit, &charge));
	charge.since = charge.now = 1;
	charge.position = 1; /* another counter */
	assert_true(sl_audit_add(audit, &charge));
	assert_int_equal(sl_audit_exceeded(audit), 0);
	charge.position = 0;
	charge.limit = &large;
	assert_true(sl_audit_add(audit, &charge));
	assert_int_equal(sl_audit_exceeded(audit), 0);
	assert_int_equal(sl_audit_worst(audit, 0)->most, 5); /* all of 5: a worse part than 10 of 50 */
	assert_int_equal(sl_audit_worst(audit, 0)->counters, 1);
	charge.limit = &small;
	charge.cost = 50;
	assert_true(sl_audit_add(audit, &charge));
	assert_int_equal(sl_audit_exceeded(audit), 1);
	assert_int_equal(sl_audit_worst(audit, 0)->most, 60);
	assert_int_equal(sl_audit_worst(audit, 0)->bound, 50);
	assert_int_equal(sl_audit_worst(audit, 0)->at, 60001 * MS);
	sl_audit_close(audit);
}

static void memory(void **state) {
	const struct sluice_limit limit = limit_of("sliding-log 5/1m");
	struct sl_audit *audit = sl_audit_open(1, 128 * 1024, false);
	uint64_t key = 0;
	struct sl_audit_charge charge = {.limit = &limit, .key = sl_slice(&key, sizeof key), .cost = 1};
	(void)state;
	while (key < 100000 && sl_audit_add(audit, &charge))
		key++;
	assert_in_range(key, 500, 2000);
	sl_audit_close(audit);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(sums), cmocka_unit_test(edges),
	                                   cmocka_unit_test(counters), cmocka_unit_test(memory)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
