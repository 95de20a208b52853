/* The most that each algorithm admits in any half-open window of its length, searched by an adversary, and shown to be
 * reached where the contract says that it can be; and that time is counted without early or coarse steps.
 *
 * The adversary takes all or part of what is left, at instants drawn around window and sub-bucket ends, the leaving of
 * older charges, and the same instant again. What was admitted is then summed over every window [t, t + W) that begins
 * with a charge: no window (s, s + W] holds more than the best of these. */
#include "tests/model/probe.h"

#include "algo/rule.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS ((uint64_t)1767225600000 * TWIN_MS) /* a multiple of every window used here but random ones */
#define SECOND_NS ((uint64_t)1000 * TWIN_MS)

enum { CHARGES_MAX = 400 };

struct charges {
	size_t count;
	struct {
		uint64_t at_ns, cost;
	} list[CHARGES_MAX];
};

static void note(struct charges *charges, uint64_t at_ns, uint64_t cost) {
	assert_true(charges->count < CHARGES_MAX);
	charges->list[charges->count].at_ns = at_ns;
	charges->list[charges->count++].cost = cost;
}

/* The largest sum in any window. Instants never decrease. */
static uint64_t most_in_a_window(const struct charges *charges, uint64_t window_ns) {
	uint64_t most = 0;
	for (size_t i = 0; i < charges->count; i++) {
		uint64_t sum = 0;
		for (size_t k = i; k < charges->count && charges->list[k].at_ns - charges->list[i].at_ns < window_ns; k++)
			sum += charges->list[k].cost;
		most = sum > most ? sum : most;
	}
	return most;
}

/* Contract section 3, last column. */
static uint64_t bound_of(const struct twin_rule *rule) {
	uint64_t Q = rule->quota, B = rule->burst;
	switch (rule->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return 2 * Q;
	case SLUICE_SLIDING_WINDOW:
		return 2 * Q - 1;
	case SLUICE_SLIDING_LOG:
		return Q;
	case SLUICE_TOKEN_BUCKET:
		return B + Q - 1; /* < B + Q */
	case SLUICE_LEAKY_BUCKET:
		return B + 1 + Q - 1; /* < N + 1 + Q */
	default:
		return rule->edge == SLUICE_EDGE_COUNT ? Q : rule->edge == SLUICE_EDGE_DROP ? 2 * Q : 2 * Q - 1;
	}
}

/* ---- the search ---------------------------------------------------------------------------------------------- */

static struct twin_rule small_rule(struct dice *dice, const struct kind *kind) {
	static const uint64_t parts[] = {2, 3, 5, 10, 60};
	struct twin_rule rule = {.algorithm = kind->algorithm, .edge = kind->edge};
	rule.quota = (uint32_t)(1 + dice_below(dice, dice_one_in(dice, 2) ? 5 : 120));
	rule.window_ns = (1 + dice_below(dice, dice_one_in(dice, 2) ? 20 : 3000)) * TWIN_MS;
	if (kind->algorithm == SLUICE_SLIDING_BUCKETS) {
		rule.precision_ns = rule.window_ns;
		rule.window_ns *= parts[dice_below(dice, 5)];
	}
	if (kind->algorithm == SLUICE_TOKEN_BUCKET || kind->algorithm == SLUICE_LEAKY_BUCKET)
		rule.burst = (uint32_t)(1 + dice_below(dice, 2 * rule.quota));
	return rule;
}

static uint64_t next_attack(struct dice *dice, const struct twin_rule *rule, const struct charges *charges, uint64_t t,
                            uint64_t unit) {
	uint64_t W = rule->window_ns, P = rule->precision_ns != 0 ? rule->precision_ns : W, past;
	switch (dice_below(dice, 8)) {
	case 0:
		return t;
	case 1:
		return t + unit;
	case 2:
		return t - t % P + P;
	case 3:
		return t - t % P + P - unit + (t % P == P - unit ? P : 0);
	case 4:
		return t + unit * dice_below(dice, W / unit / 4 + 1);
	case 5:
		return t + W - unit;
	case 6:
		return t + unit * dice_below(dice, 2 * W / unit);
	default:
		break;
	}
	if (charges->count == 0)
		return t;
	past = charges->list[charges->count - 1 - dice_below(dice, charges->count < 20 ? charges->count : 20)].at_ns + W;
	return past > t ? past : t;
}

static void attack(const struct kind *kind, uint64_t number, uint64_t unit) {
	struct dice dice = dice_of(dice_seed(), number * KINDS + (uint64_t)(kind - kinds));
	struct twin_rule rule = small_rule(&dice, kind);
	struct probe probe = probe_of(&rule);
	struct charges admitted = {0}, departed = {0};
	uint64_t t = START_NS + unit * dice_below(&dice, rule.window_ns / unit), most;
	bool unit_costs = dice_one_in(&dice, 3), greedy = dice_one_in(&dice, 2);
	for (int n = 0; n < 200; n++) {
		uint32_t left = probe_peek(&probe, t, 0).remaining;
		uint32_t cost = unit_costs ? 1 : greedy ? left : 1 + (uint32_t)dice_below(&dice, left + 1);
		struct sluice_decision d = probe_charge(&probe, t, cost);
		if (d.allowed && cost != 0) {
			note(&admitted, t, cost);
			note(&departed, t + d.delay_ns, 1);
		}
		if (!unit_costs || !d.allowed || dice_one_in(&dice, 4))
			t = next_attack(&dice, &rule, &admitted, t, unit);
	}
	most = most_in_a_window(&admitted, rule.window_ns);
	if (most > bound_of(&rule))
		fail_msg("SLUICE_SEED=%" PRIu64 ", %s, attack %" PRIu64 ": quota %" PRIu32 ", burst %" PRIu32
		         ", window %" PRIu64 " ns: %" PRIu64 " admitted in a window",
		         dice_seed(), kind->name, number, rule.quota, rule.burst, rule.window_ns, most);
	if (kind->algorithm == SLUICE_LEAKY_BUCKET && unit_costs)
		assert_true(most_in_a_window(&departed, rule.window_ns) <= rule.quota);
	probe_close(&probe);
}

static void no_attack_gets_past_a_bound(void **state) {
	(void)state;
	for (uint64_t i = 0; i < dice_ops(1500); i++)
		for (size_t k = 0; k < KINDS; k++)
			attack(&kinds[k], i, TWIN_MS);
}

static void no_attack_gets_past_a_bound_between_milliseconds(void **state) {
	(void)state;
	for (uint64_t i = 0; i < dice_ops(1000); i++)
		for (size_t k = 0; k < KINDS; k++)
			attack(&kinds[k], i, dice_seed() % 2 == 0 ? 1000 : TWIN_NS);
}

/* ---- bounds that are reached --------------------------------------------------------------------------------- */

/* All that can be had at two instants, ms after START. */
static uint64_t boundary_burst(const char *notation, uint64_t first_ms, uint64_t second_ms) {
	struct probe probe = probe_of_text(notation);
	struct charges admitted = {0};
	const uint64_t instants[] = {START_NS + first_ms * TWIN_MS, START_NS + second_ms * TWIN_MS};
	for (int i = 0; i < 2; i++) {
		uint32_t left = probe_peek(&probe, instants[i], 0).remaining;
		assert_true(probe_charge(&probe, instants[i], left).allowed);
		assert_false(probe_charge(&probe, instants[i], 1).allowed);
		note(&admitted, instants[i], left);
	}
	probe_close(&probe);
	return most_in_a_window(&admitted, SECOND_NS);
}

static void the_boundary_burst_shows_each_bound(void **state) {
	(void)state;
	assert_int_equal(boundary_burst("fixed-window 100/1s", 999, 1000), 200);
	assert_int_equal(boundary_burst("sliding-window 100/1s", 999, 1000), 100);
	assert_int_equal(boundary_burst("sliding-window 100/1s", 999, 1998), 199);
	assert_int_equal(boundary_burst("sliding-buckets 100/1s precision 100ms edge count", 99, 1098), 100);
	assert_int_equal(boundary_burst("sliding-buckets 100/1s precision 100ms edge drop", 99, 1000), 200);
	assert_int_equal(boundary_burst("sliding-buckets 100/1s precision 500ms edge weighted", 499, 1498), 199);
	assert_int_equal(boundary_burst("sliding-log 100/1s", 999, 1998), 100);
	assert_int_equal(boundary_burst("sliding-log 100/1s", 999, 1000), 100);
	assert_int_equal(boundary_burst("token-bucket 100/1s burst 50", 0, 499), 50 + 49);
	assert_int_equal(boundary_burst("token-bucket 100/1s burst 100", 0, 999), 100 + 99);
	assert_int_equal(boundary_burst("leaky-bucket 100/1s queue 99", 0, 999), 99 + 1 + 99);
}

/* The edge of a log to the millisecond, and the end of a sub-bucket: a charge at s is gone at exactly s + W. */
static void a_charge_is_gone_exactly_when_it_should(void **state) {
	static const struct {
		const char *notation;
		uint64_t gone_ms; /* after the charge, at 50 ms */
	} ends[] = {
		{"sliding-log 1/1s", 1050},
		{"fixed-window 1/1s", 1000},
		{"sliding-window 1/1s", 2000},
		{"sliding-buckets 1/1s precision 100ms edge count", 1100},
		{"sliding-buckets 1/1s precision 100ms edge drop", 1000},
		{"sliding-buckets 1/1s precision 100ms edge weighted", 1100},
		{"token-bucket 1/1s burst 1", 1050},
		{"leaky-bucket 1/1s queue 0", 1050},
	};
	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct probe probe = probe_of_text(ends[i].notation);
		assert_true(probe_charge(&probe, START_NS + 50 * TWIN_MS, 1).allowed);
		assert_false(probe_charge(&probe, START_NS + (ends[i].gone_ms - 1) * TWIN_MS, 1).allowed);
		assert_true(probe_charge(&probe, START_NS + ends[i].gone_ms * TWIN_MS, 1).allowed);
		probe_close(&probe);
	}
}

/* ---- time without steps -------------------------------------------------------------------------------------- */

/* Asks for one unit every `step_ns` for a second; how many were admitted. */
static uint64_t admitted_in_a_second(const char *notation, uint64_t step_ns) {
	struct probe probe = probe_of_text(notation);
	uint64_t admitted = 0;
	for (uint64_t t = 0; t < SECOND_NS; t += step_ns)
		admitted += probe_charge(&probe, START_NS + t, 1).allowed;
	probe_close(&probe);
	return admitted;
}

static void refill_has_no_granularity(void **state) {
	(void)state;
	assert_int_equal(admitted_in_a_second("token-bucket 3000/1s burst 1", 333334), 3000);
	assert_int_equal(admitted_in_a_second("token-bucket 3000/1s burst 1", 100000), 2500); /* every 400 us */
	assert_int_equal(admitted_in_a_second("token-bucket 100k/1s burst 1", 10000), 100000);
	assert_int_equal(admitted_in_a_second("token-bucket 4G/1m burst 1", 10000), 100000);
	assert_int_equal(admitted_in_a_second("token-bucket 36M/1h burst 1", 100000), 10000);
	assert_int_equal(admitted_in_a_second("token-bucket 864M/1d burst 1", 100000), 10000);
	assert_int_equal(admitted_in_a_second("leaky-bucket 3000/1s queue 0", 333334), 3000);
	assert_int_equal(admitted_in_a_second("leaky-bucket 864M/1d queue 0", 100000), 10000);
}

/* After any idle time a bucket admits its burst at once, and no more. */
static void a_burst_after_idling_is_the_burst(void **state) {
	(void)state;
	for (uint32_t burst = 1; burst <= 10; burst += 3) {
		for (uint64_t idle_ms = 0; idle_ms <= 60000; idle_ms += 500) {
			char notation[64];
			struct probe probe;
			uint64_t t = START_NS, after = 0;
			snprintf(notation, sizeof notation, "token-bucket 1/1s burst %" PRIu32, burst);
			probe = probe_of_text(notation);
			while (probe_charge(&probe, t, 1).allowed)
				;
			t += idle_ms * TWIN_MS;
			while (probe_charge(&probe, t, 1).allowed)
				after++;
			assert_int_equal(after, idle_ms / 1000 < burst ? idle_ms / 1000 : burst);
			probe_close(&probe);
		}
	}
}

/* At any nanosecond a limit may be late by up to one millisecond, and never early: compared with the exact twin, which
 * is charged with what the library admitted. Buckets count in ticks of their own (1 ns to windows of 4.29 s, 1 us to 25
 * days, then 1 ms) and take an instant for the tick that it lies in. */
static void compare_between_milliseconds(const struct kind *kind, uint64_t number) {
	struct dice dice = dice_of(dice_seed(), number * KINDS + (uint64_t)(kind - kinds));
	struct twin_rule rule = dice_rule(&dice, kind->algorithm, kind->edge);
	struct probe probe = probe_of(&rule);
	struct twin twin = {0};
	bool is_bucket = kind->algorithm == SLUICE_TOKEN_BUCKET || kind->algorithm == SLUICE_LEAKY_BUCKET;
	uint64_t tick = is_bucket ? probe.limit.derived[SL_TICK_NS] : 1;
	uint64_t t = START_NS + dice_below(&dice, rule.window_ns), span = rule.window_ns / (1 + dice_below(&dice, 200));
	for (int n = 0; n < 80; n++) {
		uint32_t cost = dice_cost(&dice, twin_quota(&rule));
		bool allowed = probe_charge(&probe, t, cost).allowed, exact = twin_admits(&twin, &rule, t + tick - 1, cost);
		bool by_then = t - TWIN_MS >= twin_clock(&twin, 0) && twin_admits(&twin, &rule, t - TWIN_MS, cost);
		if ((allowed && !exact) || (by_then && !allowed)) {
			char text[SLUICE_LIMIT_TEXT_MAX];
			sluice_limit_print(&probe.limit, text);
			fail_msg("SLUICE_SEED=%" PRIu64 ", %s, %s, stream %" PRIu64 ", request %d, cost %" PRIu32 " at %" PRIu64
			         " ns: %s",
			         dice_seed(), kind->name, text, number, n, cost, t, allowed ? "early" : "late");
		}
		if (allowed)
			twin_add(&twin, &rule, t, cost);
		t += dice_below(&dice, dice_one_in(&dice, 2) ? 3 * (uint64_t)TWIN_MS : span);
	}
	twin_reset(&twin);
	probe_close(&probe);
}

static void nothing_is_early_and_nothing_a_millisecond_late(void **state) {
	(void)state;
	for (uint64_t i = 0; i < dice_ops(1500); i++)
		for (size_t k = 0; k < KINDS; k++)
			compare_between_milliseconds(&kinds[k], i);
}

/* ---- long logs ----------------------------------------------------------------------------------------------- */

enum { LONG = 300000 };

/* A log of up to some tens of thousands of entries at once, whose running cost passes 2^32 again and again, against a
 * queue of what was admitted. */
static void run_long_log(const char *notation, uint64_t step_ms, uint32_t cost_max) {
	static struct { uint64_t at_ms, cost; } queue[LONG];
	struct dice dice = dice_of(dice_seed(), step_ms);
	struct probe probe = probe_of_text(notation);
	struct sluice_store_options options = {.memory_bytes = 32 << 20};
	uint64_t sum = 0, t = START_NS / TWIN_MS, window_ms = probe.limit.window_ns / TWIN_MS, quota = probe.limit.quota;
	size_t head = 0, tail = 0;
	probe_close(&probe);
	assert_int_equal(sluice_store_open(&probe.store, &options, NULL), SLUICE_OK);
	for (uint64_t n = dice_ops(LONG) < LONG ? dice_ops(LONG) : LONG; n != 0; n--) {
		uint32_t cost = 1 + (uint32_t)dice_below(&dice, cost_max);
		struct sluice_decision d;
		t += dice_one_in(&dice, 20000) ? window_ms : dice_below(&dice, 2 * step_ms + 1);
		while (head < tail && queue[head].at_ms + window_ms <= t)
			sum -= queue[head++].cost;
		d = probe_charge(&probe, t * TWIN_MS, cost);
		assert_int_equal(d.allowed, sum + cost <= quota);
		if (d.allowed) {
			queue[tail].at_ms = t;
			queue[tail++].cost = cost;
			sum += cost;
		}
		assert_int_equal(d.remaining, quota - sum);
		assert_int_equal(d.reset_after_ns, (queue[tail - 1].at_ms + window_ms - t) * TWIN_MS);
	}
	probe_close(&probe);
}

static void long_logs_stay_exact(void **state) {
	(void)state;
	run_long_log("sliding-log 4294967295/1h", 100, 200000);
	run_long_log("sliding-log 20000/30s", 1, 1);
	run_long_log("sliding-log 100000/3660d", 3000000, 4);
	run_long_log("sliding-log 4G/7d", 20000, 2000000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_attack_gets_past_a_bound),
		cmocka_unit_test(no_attack_gets_past_a_bound_between_milliseconds),
		cmocka_unit_test(the_boundary_burst_shows_each_bound),
		cmocka_unit_test(a_charge_is_gone_exactly_when_it_should),
		cmocka_unit_test(refill_has_no_granularity),
		cmocka_unit_test(a_burst_after_idling_is_the_burst),
		cmocka_unit_test(nothing_is_early_and_nothing_a_millisecond_late),
		cmocka_unit_test(long_logs_stay_exact),
	};
	dice_seed();
	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
