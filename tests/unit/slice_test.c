/* Slices step by step: what is sent, what is spent, and what becomes of a slice when a command is lost, refused, late
 * or overtaken by a reset. The share of a limit that they admit, and the windows, are tests/model/slice_test.c's.
 */
#include "base/math.h"
#include "hosts/server/remote/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)
#define NOW ((sluice_ns)1000000 * MS)

enum { TAG = 42, WAITS = 512 };

static struct bed {
	struct sl_quota_slices *slices;
	struct sl_fleet_figures figures;
	struct sluice_limit limit;
	struct sl_quota_slice *sent; /* the command under way */
	uint32_t spent, want, commands;
	uint64_t all_spent;
	uint64_t id;
	bool deaf; /* nobody to send to */
	struct sl_quota_slice_wait waits[WAITS];
	uint32_t used, taken, denied, none;
	struct sl_quota_slice_wait *last; /* that was decided */
	sluice_ns now;
	struct sluice_decision decision;
} bed;

static uint64_t word(const struct sl_quota_slice *slice, uint32_t i) {
	uint64_t value = UINT64_MAX;
	assert_true(sl_bytes_to_u64(slice->command->ask.words[i], &value));
	return value;
}

static bool send_it(void *to, struct sl_quota_slice *slice) {
	assert_ptr_equal(to, &bed);
	if (bed.deaf)
		return false;
	assert_null(bed.sent); /* I4 */
	bed.sent = slice;
	bed.id = slice->id;
	bed.spent = (uint32_t)word(slice, 2);
	bed.want = (uint32_t)word(slice, 3);
	bed.commands++;
	bed.all_spent += bed.spent;
	return true;
}

static void decided(struct sl_quota_slice_wait *wait, enum sl_quota_slice_result result,
                    const struct sluice_decision *decision) {
	bed.taken += result == SL_QUOTA_SLICE_TAKEN;
	bed.denied += result == SL_QUOTA_SLICE_DENIED;
	bed.none += result == SL_QUOTA_SLICE_NONE;
	bed.decision = *decision;
	bed.last = wait;
	if (result == SL_QUOTA_SLICE_TAKEN)
		sl_quota_slice_done(wait, false, bed.now);
}

static struct sl_quota_slice_wait *fresh_wait(uint32_t cost) {
	struct sl_quota_slice_wait *wait = &bed.waits[bed.used++ % WAITS];
	*wait = (struct sl_quota_slice_wait){.until = SLUICE_NEVER, .cost = cost, .decided = decided};
	return wait;
}

static enum sl_quota_slice_result take(uint32_t cost, sluice_ns now) {
	struct sluice_item item = {.limit = &bed.limit, .key = sl_str("k")};
	struct sl_plan_item plan = {.item = &item};
	bed.last = fresh_wait(cost);
	return sl_quota_slice_take(bed.slices, &plan, TAG, now, bed.last, &bed.decision);
}

static enum sl_quota_slice_result take_and_keep(uint32_t cost, sluice_ns now) {
	enum sl_quota_slice_result result = take(cost, now);
	if (result == SL_QUOTA_SLICE_TAKEN)
		sl_quota_slice_done(bed.last, false, now);
	return result;
}

static void answer_under(int64_t quota, int64_t granted, int64_t remaining, int64_t retry_ms, sluice_ns now) {
	const int64_t numbers[SL_LEASE_NUMBERS] = {granted, remaining > 0, quota, remaining, retry_ms, 900, 0, 7};
	const struct sl_answer answer = {.kind = SL_ANSWER_NUMBERS, .count = SL_LEASE_NUMBERS, .numbers = numbers};
	struct sl_quota_slice *slice = bed.sent;
	assert_non_null(slice);
	bed.now = now;
	bed.sent = NULL;
	sl_quota_slice_answered(slice, &answer, now);
}

static void answer(int64_t granted, int64_t remaining, int64_t retry_ms, sluice_ns now) {
	answer_under(1000, granted, remaining, retry_ms, now);
}

static void break_off(enum sl_answer_kind kind, sluice_ns now) {
	const struct sl_answer answer = {.kind = kind, .error = sl_str("ERR no")};
	struct sl_quota_slice *slice = bed.sent;
	assert_non_null(slice);
	bed.now = now;
	bed.sent = NULL;
	sl_quota_slice_answered(slice, &answer, now);
}

static int set_up_for(sluice_ns slice_ns) {
	struct sl_quota_slices_options options = {
		.slice_ns = slice_ns, .prefix = "", .seed = 3, .send = send_it, .to = &bed, .figures = &bed.figures};
	memset(&bed, 0, sizeof bed);
	bed.slices = sl_quota_slices_new(&options);
	assert_int_equal(sluice_limit_parse(&bed.limit, sl_str("sliding-log 1000/1s"), NULL), SLUICE_OK);
	return bed.slices == NULL;
}

static int set_up(void **state) {
	(void)state;
	return set_up_for(500 * MS);
}

static int set_up_long(void **state) {
	(void)state;
	return set_up_for(10000 * MS);
}

static int tear_down(void **state) {
	(void)state;
	if (bed.sent != NULL)
		break_off(SL_ANSWER_LOST, NOW + 100000 * MS);
	sl_quota_slices_free(bed.slices);
	return 0;
}

/* Makes the counter hot: 2,000 requests a second, all slices spent or settled. Returns when; a command is under way
 * that wants some tens of units, for one request that waits. */
static sluice_ns warm_up(void) {
	sluice_ns now = NOW;
	for (int i = 0; i < 1000; i++) {
		if (bed.sent != NULL)
			answer(bed.want, 1000, 0, now);
		take_and_keep(1, now += MS / 2);
	}
	if (bed.sent != NULL)
		answer(bed.want, 1000, 0, now);
	sl_quota_slice_settle(bed.slices, TAG, now);
	if (bed.sent != NULL)
		answer(0, 1000, 0, now);
	bed.taken = bed.denied = bed.none = 0;
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	assert_non_null(bed.sent);
	assert_int_equal(bed.spent, 0);
	assert_in_range(bed.want, 40, 125);
	return now;
}

static void test_cold_counters_have_no_lease(void **state) {
	(void)state;
	for (int i = 0; i < 500; i++)
		assert_int_equal(take(1, NOW + (sluice_ns)i * 20 * MS), SL_QUOTA_SLICE_NONE); /* 50 a second */
	assert_int_equal(bed.commands, 0);
	assert_int_equal(sl_quota_slices_count(bed.slices), 0);
}

static void test_some_limits_have_none(void **state) {
	static const struct {
		const char *limit;
		bool suits;
	} rows[] = {{"10/1s", true},
	            {"fixed-window 10/1s", true},
	            {"token-bucket 10/1s", true},
	            {"token-bucket 10/1s burst 2", true},
	            {"token-bucket 10/1s burst 1", false},
	            {"token-bucket 4G/1s burst 4G", true},
	            {"token-bucket 4G/3660d burst 1", false},
	            {"token-bucket 1/3660d burst 1", true},
	            {"sliding-buckets 10/1s precision 100ms", true},
	            {"leaky-bucket 10/1s", false},
	            {"unlimited", false},
	            {"0/1s", false}};
	struct sluice_limit limit;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(sluice_limit_parse(&limit, sl_str(rows[i].limit), NULL), SLUICE_OK);
		assert_int_equal(sl_quota_slice_suits(&limit), rows[i].suits);
	}
}

static void test_who_waits_is_served_and_the_rest_is_spent_here(void **state) {
	sluice_ns now = warm_up();
	uint32_t commands = bed.commands, want = bed.want;
	(void)state;
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT); /* joins the one that waits */
	assert_int_equal(bed.commands, commands);
	answer(want, 900, 0, now + MS);
	assert_int_equal(bed.taken, 2);
	assert_true(bed.decision.allowed);
	assert_int_equal(bed.decision.quota, 1000);
	assert_int_equal(bed.decision.remaining, sl_min(1000, 900 + want - 2));
	assert_int_equal(take_and_keep(1, now + 2 * MS), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(bed.decision.remaining, sl_min(1000, 900 + want - 3));
	assert_int_equal(bed.decision.reset_after_ns, 899 * MS);
	assert_int_equal(bed.decision.retry_after_ns, 0);
	for (uint32_t left = want - 3; left > want / 4 + 1; left--)
		assert_int_equal(take_and_keep(1, now + 2 * MS), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(bed.commands, commands);
	assert_int_equal(take_and_keep(1, now + 2 * MS), SL_QUOTA_SLICE_TAKEN); /* three quarters: time for another */
	assert_int_equal(bed.commands, commands + 1);
	assert_int_equal(bed.spent, want - want / 4);
}

static void test_wants_at_most_an_eighth_of_what_is_left(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	for (int i = 0; i < 2000; i++) { /* a rate at which far more would be spent in an interval */
		if (bed.sent != NULL)
			answer(bed.want, 800, 0, now);
		assert_true(bed.want <= 100 + 20 + 2); /* or what is spent in SL_QUOTA_SLICE_SHORT_NS, and who waits */
		take_and_keep(1, now += MS / 16);
	}
	assert_true(bed.commands > 3);
}

static void test_spends_on_while_a_command_is_under_way(void **state) {
	sluice_ns now = warm_up();
	uint32_t taken = 0, want, slice;
	(void)state;
	slice = bed.want;
	answer(slice, 900, 0, now += MS);
	while (bed.sent == NULL) {
		taken += take_and_keep(1, now) == SL_QUOTA_SLICE_TAKEN;
		assert_in_range(taken, 0, slice);
	}
	assert_int_equal(bed.spent, taken + 1); /* and who waited before */
	want = bed.want;
	assert_true(want >= slice - bed.spent); /* I2 */
	for (uint32_t i = bed.spent; i < slice; i++)
		assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	answer(want, 800, 0, now += MS);
	assert_int_equal(bed.taken, 2);
	sl_quota_slice_settle(bed.slices, TAG, now);
	assert_non_null(bed.sent);
	assert_int_equal(bed.spent, slice - (taken + 1) + 1); /* what was spent meanwhile is told with the next */
}

static void test_a_slice_ends_before_the_nodes_hold_does(void **state) {
	sluice_ns now = warm_up(), sent = now;
	uint64_t id = bed.id;
	(void)state;
	answer(bed.want, 900, 0, now + 100 * MS);
	assert_int_equal(take_and_keep(1, sent + 500 * MS - 1), SL_QUOTA_SLICE_TAKEN);
	while (bed.sent != NULL)
		break_off(SL_ANSWER_AWAY, sent + 500 * MS - 1);
	bed.deaf = true;
	assert_int_equal(take(1, sent + 500 * MS), SL_QUOTA_SLICE_NONE);
	bed.deaf = false;
	assert_int_equal(take(1, sent + 500 * MS), SL_QUOTA_SLICE_WAIT);
	assert_int_not_equal(bed.id, id);
	assert_int_equal(bed.spent, 0); /* the node charges it in full */
}

static void test_nothing_is_spent_of_what_a_command_gives_back(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(bed.want, 900, 0, now);
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	sl_quota_slice_settle(bed.slices, TAG, now);
	assert_int_equal(bed.want, 0);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
}

static void test_a_slice_ends_in_time_while_a_command_is_late(void **state) {
	sluice_ns now = warm_up(), sent = now;
	(void)state;
	answer(bed.want, 900, 0, now += MS);
	while (bed.sent == NULL) /* asks for another ahead of its end */
		assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(take_and_keep(1, sent + 500 * MS - 1), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(take(1, sent + 500 * MS), SL_QUOTA_SLICE_WAIT);
}

static void test_a_command_whose_end_is_unknown_ends_the_slice(void **state) {
	static const enum sl_answer_kind kinds[] = {SL_ANSWER_LATE, SL_ANSWER_LOST, SL_ANSWER_AWAY};
	sluice_ns now = warm_up();
	(void)state;
	for (int i = 0; i < 3; i++) {
		uint64_t id = bed.id;
		uint32_t none = bed.none;
		break_off(kinds[i], now);
		assert_int_equal(bed.none, none + 1); /* who waited asks for himself */
		assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
		assert_int_not_equal(bed.id, id);
		assert_int_equal(bed.spent, 0);
	}
}

/* One command after the other may be sent while somebody waits; he is told by his time all the same. */
static void test_who_waits_is_told_when_his_time_is_over(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	assert_int_equal(take(1000, now), SL_QUOTA_SLICE_NONE); /* more than a slice has: he asks himself */
	bed.sent->first->until = now + 20 * MS; /* warm_up()'s */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
		bed.last->until = now + (i == 0 ? 20 : 40) * MS;
	}
	const uint32_t none = bed.none;
	(void)sl_quota_slices_tick(bed.slices, now + 20 * MS - 1);
	assert_int_equal(bed.none, none);
	assert_true(sl_quota_slices_tick(bed.slices, now + 20 * MS) <= now + 40 * MS);
	assert_int_equal(bed.none, none + 2); /* the third waits on */
	answer(bed.want, 1000, 0, now + 30 * MS);
	assert_int_equal(bed.none, none + 2);
}

static void test_refused_commands_are_not_sent_again_at_once(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	break_off(SL_ANSWER_ERROR, now);
	for (int i = 0; i < 100; i++)
		assert_int_equal(take(1, now += MS), SL_QUOTA_SLICE_NONE);
	assert_null(bed.sent);
	for (int i = 0; i < 100; i++)
		take(1, now += 50 * MS);
	for (int i = 0; i < 500 && bed.sent == NULL; i++)
		take(1, now += MS);
	assert_non_null(bed.sent);
}

static void test_answers_that_can_not_be_are_no_slices(void **state) {
	sluice_ns now = warm_up();
	uint64_t id = bed.id;
	(void)state;
	answer(-1, 900, 0, now);
	assert_int_equal(bed.taken, 0);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	assert_int_not_equal(bed.id, id);
	answer(INT32_MAX, 900, 0, now); /* more than was wanted: what was wanted */
	for (uint32_t i = 1; i < bed.want; i++)
		assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_int_not_equal(take(1, now), SL_QUOTA_SLICE_TAKEN);
}

static void test_exhaustion_denies_until_it_is_worth_asking(void **state) {
	sluice_ns now = warm_up();
	uint32_t commands;
	(void)state;
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	answer(1, 0, 400, now); /* of two or more */
	assert_int_equal(bed.taken, 1);
	assert_int_equal(bed.denied, 1);
	assert_false(bed.decision.allowed);
	assert_int_equal(bed.decision.remaining, 0);
	assert_in_range(bed.decision.retry_after_ns, 1, 400 * MS);
	sl_quota_slices_tick(bed.slices, now); /* the spent one is charged at once, or as soon as that is worth a command */
	assert_non_null(bed.sent);
	assert_int_equal(bed.spent, 1);
	assert_int_equal(bed.want, 0);
	answer(0, 0, 399, now += MS);
	commands = bed.commands;
	for (sluice_ns end = now + 50 * MS; now < end; now += MS / 2)
		assert_int_equal(take(1, now), SL_QUOTA_SLICE_DENIED);
	assert_int_equal(bed.commands, commands);
	assert_in_range(bed.decision.retry_after_ns, 1, 350 * MS);
	while (take(1, now) == SL_QUOTA_SLICE_DENIED) { /* a sixteenth of the window: somebody may have given back */
		assert_true(now < NOW + 5000 * MS);
		now += MS / 2;
	}
	assert_int_equal(bed.commands, commands + 1);
	answer(0, 0, 330, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_DENIED);
	assert_in_range(bed.decision.retry_after_ns, 60 * MS, 330 * MS);
}

static void test_other_costs_ask_for_themselves_when_exhausted(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(0, 0, 400, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_DENIED);
	assert_int_equal(take(2, now), SL_QUOTA_SLICE_NONE);
	assert_int_equal(take(0, now), SL_QUOTA_SLICE_NONE);
}

static void test_what_is_put_back_is_there_again(void **state) {
	sluice_ns now = warm_up();
	struct sl_quota_slice_wait *first;
	uint32_t want = bed.want;
	(void)state;
	answer(want, 900, 0, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_TAKEN);
	first = bed.last;
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	sl_quota_slice_settle(bed.slices, TAG, now); /* what is lent is not settled, and held on */
	assert_int_equal(bed.spent, 2);
	assert_int_equal(bed.want, 1);
	answer(1, 900, 0, now);
	sl_quota_slice_done(first, true, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_TAKEN);
	sl_quota_slice_done(bed.last, false, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	assert_int_equal(bed.spent, 1);
}

static void test_what_is_put_back_of_a_slice_that_is_gone_is_gone(void **state) {
	sluice_ns now = warm_up();
	struct sl_quota_slice_wait *first;
	(void)state;
	answer(bed.want, 900, 0, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_TAKEN);
	first = bed.last;
	assert_int_equal(take(1, now += 600 * MS), SL_QUOTA_SLICE_WAIT);
	sl_quota_slice_done(first, true, now);
	assert_int_equal(bed.spent, 0);
	answer(bed.want, 900, 0, now);
	for (uint32_t i = 1; i < bed.want; i++)
		assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
}

static void test_a_reset_takes_the_slice_with_it(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(bed.want, 900, 0, now);
	sl_quota_slice_forget(bed.slices, TAG);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	assert_int_equal(bed.spent, 0);
	sl_quota_slice_forget(bed.slices, TAG); /* overtakes the answer */
	answer(bed.want, 900, 0, now);
	assert_int_equal(bed.none, 1);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
}

/* A key's own quota, set at another front: of a lower one nothing more is spent here. */
static void test_under_a_lower_quota_the_rest_is_given_back(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(bed.want, 1000, 0, now);
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	sl_quota_slices_tick(bed.slices, now += 100 * MS);
	assert_non_null(bed.sent);
	answer_under(20, bed.want, 0, 0, now); /* the node lets go of nothing that may have been spent meanwhile */
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_WAIT);
	answer_under(20, 0, 0, 400, now);
	assert_int_equal(bed.denied, 1);
	assert_int_equal(bed.decision.quota, 20);
}

/* Nor is there anything to wait for where it is unlimited. */
static void test_an_unlimited_key_has_nothing_to_reset(void **state) {
	sluice_ns now = warm_up();
	const int64_t numbers[SL_LEASE_NUMBERS] = {bed.want, 1, UINT32_MAX, UINT32_MAX, 0, 0, 0, 0};
	const struct sl_answer told = {.kind = SL_ANSWER_NUMBERS, .count = SL_LEASE_NUMBERS, .numbers = numbers};
	struct sl_quota_slice *slice = bed.sent;
	(void)state;
	bed.sent = NULL;
	sl_quota_slice_answered(slice, &told, now);
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(bed.decision.remaining, UINT32_MAX);
	assert_int_equal(bed.decision.reset_after_ns, 0);
}

/* And set here, it ends the slice at once. */
static void test_a_change_here_ends_the_slice(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(bed.want, 1000, 0, now);
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_null(bed.sent);
	sl_quota_slice_end(bed.slices, TAG, now);
	assert_non_null(bed.sent);
	assert_int_equal(bed.want, 0);
	assert_int_equal(bed.spent, 2);
	answer(0, 998, 0, now);
	sl_quota_slice_end(bed.slices, TAG, now); /* nothing is held any more */
	assert_null(bed.sent);
	sl_quota_slice_end(bed.slices, TAG + 1, now);
	assert_null(bed.sent);
}

/* However few its requests have become, so that a raised quota is seen. */
static void test_an_exhausted_slice_asks_within_half_a_second(void **state) {
	sluice_ns now, asked;
	(void)state;
	assert_int_equal(sluice_limit_parse(&bed.limit, sl_str("1000/1h"), NULL), SLUICE_OK);
	asked = now = warm_up();
	answer(1, 0, 3000000, now);
	for (uint32_t commands = bed.commands; now < asked + 501 * MS;) {
		now += 100 * MS;
		sl_quota_slices_tick(bed.slices, now);
		if (bed.sent != NULL)
			answer(0, 0, 3000000, now);
		(void)take_and_keep(1, now);
		if (bed.sent != NULL && bed.want != 0)
			asked = now;
		if (bed.sent != NULL)
			answer(0, 0, 3000000, now);
		if (bed.commands > commands + 100)
			return;
	}
	fail_msg("nothing was asked for half a second");
}

static void test_peeks_see_the_slice_and_take_nothing(void **state) {
	sluice_ns now = warm_up();
	struct sluice_decision d;
	(void)state;
	assert_int_equal(sl_quota_slice_peek(bed.slices, TAG, 1, now, &d), SL_QUOTA_SLICE_NONE);
	answer(bed.want, 800, 0, now);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(sl_quota_slice_peek(bed.slices, TAG, bed.want - 1, now, &d), SL_QUOTA_SLICE_TAKEN);
		assert_int_equal(d.remaining, 800 + bed.want - 1);
	}
	assert_int_equal(sl_quota_slice_peek(bed.slices, TAG, bed.want, now, &d), SL_QUOTA_SLICE_NONE);
	assert_int_equal(sl_quota_slice_peek(bed.slices, TAG + 1, 1, now, &d), SL_QUOTA_SLICE_NONE);
}

static void test_idle_slices_are_given_back_and_cold_leases_freed(void **state) {
	sluice_ns used = warm_up(), now = used, due;
	(void)state;
	answer(bed.want, 900, 0, now);
	due = sl_quota_slices_tick(bed.slices, now);
	assert_in_range(due, now + 1, now + 100 * MS);
	now = due + 200 * MS;
	sl_quota_slices_tick(bed.slices, now);
	assert_int_equal(bed.spent, 1);
	answer(bed.want, 900, 0, now);
	sl_quota_slices_tick(bed.slices, now += 200 * MS);
	assert_int_equal(bed.spent, 0);
	assert_int_equal(bed.want, 0);
	assert_int_equal(bed.figures.returned + bed.all_spent, bed.figures.slice_units);
	answer(0, 900, 0, now);
	assert_int_not_equal(sl_quota_slices_tick(bed.slices, used + 1000 * MS), SLUICE_NEVER);
	assert_int_equal(bed.figures.slices, 1);
	assert_int_equal(sl_quota_slices_tick(bed.slices, used + 1000 * MS + 1), SLUICE_NEVER);
	assert_int_equal(sl_quota_slices_count(bed.slices), 0);
	assert_int_equal(bed.figures.slices, 0);
}

/* A second after its last use, but a command is under way; then nobody can be told; then a request is not over. */
static void test_slices_that_are_not_cold(void **state) {
	sluice_ns used = warm_up(), now = used + 1500 * MS;
	(void)state;
	sl_quota_slices_tick(bed.slices, now);
	answer(bed.want, 900, 0, now);
	assert_int_equal(bed.taken, 1);
	bed.deaf = true;
	for (int i = 0; i < 5; i++)
		sl_quota_slices_tick(bed.slices, now += 500 * MS);
	bed.deaf = false;
	sl_quota_slices_tick(bed.slices, now);
	assert_int_equal(bed.spent, 1); /* and not only at the slice's end, when the node charges all of it */
	answer(bed.want, 900, 0, now);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_TAKEN);
	struct sl_quota_slice_wait *taken = bed.last;
	for (int i = 0; i < 20; i++) {
		if (bed.sent != NULL)
			answer(0, 900, 0, now);
		sl_quota_slices_tick(bed.slices, now += 1000 * MS);
	}
	assert_int_equal(bed.figures.slices, 1);
	sl_quota_slice_done(taken, true, now);
	if (bed.sent != NULL)
		answer(0, 900, 0, now);
	for (int i = 0; i < 2; i++)
		sl_quota_slices_tick(bed.slices, now += 1000 * MS);
	assert_int_equal(bed.figures.slices, 0);
}

static void test_ending_gives_everything_back(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	answer(bed.want, 900, 0, now);
	assert_int_equal(take_and_keep(1, now), SL_QUOTA_SLICE_TAKEN);
	assert_int_equal(sl_quota_slices_end(bed.slices, now), 1);
	assert_int_equal(bed.spent, 2);
	assert_int_equal(bed.want, 0);
	answer(0, 900, 0, now);
	assert_int_equal(sl_quota_slices_under_way(bed.slices), 0);
	assert_int_equal(take(1, now), SL_QUOTA_SLICE_NONE);
}

/* One is under way when the front end ends: what it grants goes back as well, and what was spent is told. */
static void test_what_is_granted_after_the_end_goes_back(void **state) {
	sluice_ns now = warm_up();
	(void)state;
	assert_int_equal(sl_quota_slices_under_way(bed.slices), 1);
	assert_int_equal(sl_quota_slices_end(bed.slices, now), 1);
	assert_true(bed.want != 0);
	answer(bed.want, 900, 0, now);
	assert_int_equal(sl_quota_slices_under_way(bed.slices), 1);
	assert_int_equal(bed.want, 0);
	answer(0, 900, 0, now);
	assert_int_equal(sl_quota_slices_under_way(bed.slices), 0);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(test_cold_counters_have_no_lease),
		CASE(test_some_limits_have_none),
		CASE(test_who_waits_is_served_and_the_rest_is_spent_here),
		CASE(test_wants_at_most_an_eighth_of_what_is_left),
		CASE(test_spends_on_while_a_command_is_under_way),
		CASE(test_a_slice_ends_before_the_nodes_hold_does),
		CASE(test_nothing_is_spent_of_what_a_command_gives_back),
		CASE(test_a_slice_ends_in_time_while_a_command_is_late),
		CASE(test_a_command_whose_end_is_unknown_ends_the_slice),
		CASE(test_who_waits_is_told_when_his_time_is_over),
		CASE(test_refused_commands_are_not_sent_again_at_once),
		CASE(test_answers_that_can_not_be_are_no_slices),
		CASE(test_exhaustion_denies_until_it_is_worth_asking),
		CASE(test_other_costs_ask_for_themselves_when_exhausted),
		CASE(test_what_is_put_back_is_there_again),
		CASE(test_what_is_put_back_of_a_slice_that_is_gone_is_gone),
		CASE(test_a_reset_takes_the_slice_with_it),
		CASE(test_under_a_lower_quota_the_rest_is_given_back),
		CASE(test_an_unlimited_key_has_nothing_to_reset),
		CASE(test_a_change_here_ends_the_slice),
		CASE(test_an_exhausted_slice_asks_within_half_a_second),
		CASE(test_peeks_see_the_slice_and_take_nothing),
		CASE(test_idle_slices_are_given_back_and_cold_leases_freed),
		cmocka_unit_test_setup_teardown(test_slices_that_are_not_cold, set_up_long, tear_down),
		CASE(test_ending_gives_everything_back),
		CASE(test_what_is_granted_after_the_end_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
