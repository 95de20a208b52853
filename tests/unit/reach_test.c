/* When counters decide, and how far back what they count reaches: the answers of sl_step_instant(), _reach() and
 * _leaves() are those that the steps themselves give. */
#include "algo/step.h"
#include "base/math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define START_NS (UINT64_C(1800000000) * 1000000000 + 3 * MS + 250001)

enum { QUOTA = 1000, CHARGES = 40 };

static uint64_t block[1 << 12];
static struct sluice_limit limit;
static struct sl_counter counter;

static void begin(const char *text) {
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	counter = (struct sl_counter){.who = 7};
}

static void charge(sluice_ns now, uint32_t cost) {
	struct sluice_decision decision;
	uint64_t bytes;
	sl_step(&limit, &counter, now, cost, true, &decision);
	assert_true(decision.allowed);
	if (!sl_rule_has(&limit, SL_HAS_BLOCK))
		return;
	bytes = sl_step_block_bytes(&limit, &counter, cost);
	if (bytes == 0) {
		(void)sl_step_prepare(&limit, &counter);
		sl_step_write(&limit, &counter, now, cost, NULL, 0);
		return;
	}
	/* a new block, and the old one as it was: in one half each */
	assert_true(bytes <= sizeof block / 2);
	sl_step_write(&limit, &counter, now, cost, counter.block == block ? block + sizeof block / 16 : block,
	              (bytes + 7) / 8 * 8);
}

static struct sluice_decision peek(sluice_ns now, uint64_t cost) {
	struct sl_counter copy = counter;
	struct sluice_decision decision;
	sl_step(&limit, &copy, now, cost, false, &decision);
	return decision;
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* Contract 4.6: an instant before the last charge is raised to that, and waits are counted from there. */
static void test_what_is_asked_earlier_is_decided_at_the_last_charge(void **state) {
	static const char *const texts[] = {
		"fixed-window 4/10s",         "fixed-window 4/day",         "sliding-window 4/10s",
		"sliding-buckets 4/10s precision 1s", "sliding-log 4/10s",  "token-bucket 4/3s",
		"token-bucket 4/90m",         "leaky-bucket 4/3000d queue 4", "concurrency 4 lease 10s",
		"distinct 4/10s",
	};
	static const sluice_ns back_ns[] = {0, 1, 250000, 250001, 749999, MS, 5 * MS, 3000 * MS};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		begin(texts[i]);
		assert_true(sl_step_instant(&limit, &counter, START_NS) == START_NS); /* nobody has charged it */
		charge(START_NS, 4);
		counter.who = 8;
		for (size_t k = 0; k < sizeof back_ns / sizeof back_ns[0]; k++) {
			sluice_ns now = START_NS - back_ns[k], at = sl_step_instant(&limit, &counter, now);
			struct sluice_decision asked = peek(now, 4), raised = peek(at, 4);
			if (memcmp(&asked, &raised, sizeof asked) != 0 || (back_ns[k] >= 3 * MS && at <= now) || at < now)
				fail_msg("%s, %llu ns back: decided at %lld ns", texts[i], (unsigned long long)back_ns[k],
				         (long long)(at - START_NS));
		}
		assert_true(sl_step_instant(&limit, &counter, START_NS + 5 * MS) == START_NS + 5 * MS);
	}
}

static void test_leases_and_members_keep_the_instant_of_their_last_charge(void **state) {
	(void)state;
	begin("concurrency 4 lease 10s");
	charge(START_NS, 1);
	assert_true(sl_step_instant(&limit, &counter, START_NS - 1) == START_NS);
	assert_true(sl_lease_renew(&limit, &counter, START_NS + 5 * MS));
	assert_true(sl_step_instant(&limit, &counter, START_NS) == START_NS + 5 * MS);
	begin("distinct 4/10s");
	charge(START_NS, 1);
	assert_true(sl_step_instant(&limit, &counter, START_NS - MS) == START_NS);
}

/* ---- what counts ------------------------------------------------------------------------------------------------- */

static const char *const reaching[] = {
	"fixed-window 1000/10s",
	"fixed-window 1000/hour",
	"sliding-window 1000/10s",
	"sliding-buckets 1000/10s precision 1s edge drop",
	"sliding-buckets 1000/10s precision 1s edge count",
	"sliding-buckets 1000/10s precision 1s edge weighted",
	"sliding-log 1000/10s",
};
enum { REACHING = sizeof reaching / sizeof reaching[0] };

/* Charges of whole and broken milliseconds, 731.5 ms apart. */
static sluice_ns instant_of(uint32_t i) {
	return START_NS + i * UINT64_C(731500000);
}

static void test_what_is_reached_is_what_a_step_counts(void **state) {
	(void)state;
	for (size_t i = 0; i < REACHING; i++) {
		begin(reaching[i]);
		for (uint32_t n = 0; n < CHARGES; n++) {
			charge(instant_of(n), n % 5 + 1);
			for (sluice_ns t = instant_of(n); t < instant_of(n + 1); t += 73 * MS + 11) {
				struct sl_reach reach = sl_step_reach(&limit, t);
				uint64_t full = 0, old = 0;
				for (uint32_t k = 0; k <= n; k++) {
					full += instant_of(k) >= reach.full ? k % 5 + 1 : 0;
					old += instant_of(k) >= reach.old && instant_of(k) < reach.full ? k % 5 + 1 : 0;
				}
				full += sl_div_ceil(sl_mul(old, reach.left), reach.whole);
				if (QUOTA - peek(t, 0).remaining != full)
					fail_msg("%s: counts %u, reaches %u", reaching[i], QUOTA - peek(t, 0).remaining, (unsigned)full);
			}
		}
	}
}

static void test_nothing_counts_from_when_it_leaves(void **state) {
	(void)state;
	for (size_t i = 0; i < REACHING; i++) {
		sluice_ns leaves;
		begin(reaching[i]);
		charge(START_NS, 3);
		leaves = sl_step_leaves(&limit, START_NS);
		assert_int_equal(peek(leaves, 0).remaining, QUOTA);
		/* and no earlier, but for what the edge of sub-buckets forgets, and within the millisecond of a log */
		if (limit.edge != SLUICE_EDGE_DROP)
			assert_true(peek(leaves - (sl_rule_has(&limit, SL_ROUNDS_TO_MS) ? MS : 1), 0).remaining < QUOTA);
	}
	begin("token-bucket 4/10s");
	assert_true(sl_step_leaves(&limit, START_NS) == UINT64_MAX);
	begin("sliding-window 4/10s");
	assert_true(sl_step_leaves(&limit, SLUICE_NEVER - MS) == SLUICE_NEVER - 1); /* time ends before */
}

/* ---- the examples of log.c and bucket.c -------------------------------------------------------------------------- */

static void expect(struct sluice_decision d, bool allowed, uint32_t remaining, uint64_t retry_ms, uint64_t reset_ms) {
	assert_int_equal(d.allowed, allowed);
	assert_int_equal(d.remaining, remaining);
	assert_int_equal(d.retry_after_ns, retry_ms * MS);
	assert_int_equal(d.reset_after_ns, reset_ms * MS);
}

static void test_the_example_of_a_log(void **state) {
	(void)state;
	begin("sliding-log 5/10s");
	charge(1000 * MS, 2);
	charge(3500 * MS, 1);
	charge(4000 * MS, 1);
	charge(9000 * MS, 1);
	assert_false(peek(11000 * MS - 1, 1).allowed);
	expect(peek(11000 * MS, 2), true, 2, 0, 8000);
	expect(peek(11000 * MS, 3), false, 2, 2500, 8000);
}

static void test_the_example_of_a_bucket(void **state) {
	(void)state;
	begin("token-bucket 2/1s burst 4");
	charge(0, 3);
	expect(peek(250 * MS, 2), false, 1, 250, 1250);
	expect(peek(500 * MS, 2), true, 2, 0, 1000);
	expect(peek(1500 * MS, 4), true, 4, 0, 0);
	begin("leaky-bucket 2/1s queue 3");
	charge(0, 3);
	expect(peek(250 * MS, 1), true, 1, 0, 1250);
	assert_int_equal(peek(250 * MS, 1).delay_ns, 1250 * MS);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_asked_earlier_is_decided_at_the_last_charge),
		cmocka_unit_test(test_leases_and_members_keep_the_instant_of_their_last_charge),
		cmocka_unit_test(test_what_is_reached_is_what_a_step_counts),
		cmocka_unit_test(test_nothing_counts_from_when_it_leaves),
		cmocka_unit_test(test_the_example_of_a_log),
		cmocka_unit_test(test_the_example_of_a_bucket),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
