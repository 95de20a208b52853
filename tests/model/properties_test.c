/* What every decision promises, over random states of every algorithm: each wait is exact, and nothing changes unless
 * something is charged.
 *
 * No twin here: the library is asked again at the instant that it named itself, one millisecond earlier (for those
 * that keep nanoseconds, one nanosecond), and for short windows at every millisecond between. */
#include "tests/model/probe.h"

#include "base/bytes.h"
#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS ((uint64_t)1767225600000 * TWIN_MS)
#define WAIT_MAX_NS ((uint64_t)10000000000000 * TWIN_MS) /* longer ones would pass the end of all instants */

/* ---- waits --------------------------------------------------------------------------------------------------- */

static void complain(const struct probe *probe, const char *what, uint64_t now_ns, uint32_t cost, uint64_t wait_ns) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&probe->limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 ", key %s: %s: %s, at %" PRIu64 " ns, cost %" PRIu32 ", wait %" PRIu64 " ns",
	         dice_seed(), probe->key, text, what, now_ns, cost, wait_ns);
}

/* A wait as a client waits it: in whole units. */
static uint64_t rounded(uint64_t wait_ns, uint64_t unit_ns) {
	return (wait_ns / unit_ns + (wait_ns % unit_ns != 0)) * unit_ns;
}

static void retry_is_exact(const struct probe *probe, uint64_t t, uint32_t cost, uint64_t unit) {
	struct sluice_decision d = probe_peek(probe, t, cost);
	uint64_t wait = rounded(d.retry_after_ns, unit);
	if (d.allowed) {
		if (d.retry_after_ns != 0)
			complain(probe, "allowed, with a wait", t, cost, d.retry_after_ns);
		return;
	}
	if ((d.retry_after_ns == SLUICE_NEVER) != (cost > d.quota || probe->limit.quota == 0))
		complain(probe, "never, or not never", t, cost, d.retry_after_ns);
	if (d.retry_after_ns > WAIT_MAX_NS)
		return;
	if (d.retry_after_ns == 0 || !probe_peek(probe, t + wait, cost).allowed)
		complain(probe, "waiting retry_after does not admit", t, cost, d.retry_after_ns);
	if (probe_peek(probe, t + wait - unit, cost).allowed)
		complain(probe, "one unit less than retry_after admits", t, cost, d.retry_after_ns);
}

static void reset_is_exact(const struct probe *probe, uint64_t t, uint64_t unit) {
	struct sluice_decision d = probe_peek(probe, t, 0);
	uint64_t wait = rounded(d.reset_after_ns, unit), whole = d.quota > UINT32_MAX ? UINT32_MAX : d.quota;
	if (probe->limit.quota == 0 || d.reset_after_ns > WAIT_MAX_NS)
		return;
	if (probe_peek(probe, t + wait, 0).remaining != whole)
		complain(probe, "waiting reset_after does not bring the whole quota", t, 0, d.reset_after_ns);
	if (d.quota <= UINT32_MAX && (d.reset_after_ns == 0) != (d.remaining == d.quota))
		complain(probe, "reset_after is 0 for something else than the whole quota", t, 0, d.reset_after_ns);
	if (d.quota <= UINT32_MAX && wait != 0 && probe_peek(probe, t + wait - unit, 0).remaining == whole)
		complain(probe, "the whole quota is back sooner than reset_after", t, 0, d.reset_after_ns);
}

static void next_is_exact(const struct probe *probe, uint64_t t, uint64_t unit) {
	struct sluice_decision d = probe_peek(probe, t, 0);
	uint64_t wait = rounded(d.next_after_ns, unit);
	if (d.remaining == UINT32_MAX || d.next_after_ns > WAIT_MAX_NS)
		return;
	if ((d.next_after_ns == 0) != (d.reset_after_ns == 0))
		complain(probe, "next_after is 0 for something else than the whole quota", t, 0, d.next_after_ns);
	if (d.next_after_ns == 0)
		return;
	if (probe_peek(probe, t + wait, 0).remaining <= d.remaining)
		complain(probe, "waiting next_after does not bring more", t, 0, d.next_after_ns);
	if (probe_peek(probe, t + wait - unit, 0).remaining > d.remaining)
		complain(probe, "there is more sooner than next_after", t, 0, d.next_after_ns);
}

/* For short windows every unit of the wait: denied at each, admitted at the end and from there on. */
static void admission_comes_once(const struct probe *probe, uint64_t t, uint32_t cost, uint64_t unit) {
	struct sluice_decision d = probe_peek(probe, t, cost);
	uint64_t wait = rounded(d.retry_after_ns, unit);
	if (d.allowed || d.retry_after_ns > 300 * unit)
		return;
	for (uint64_t i = 0; i < wait + 50 * unit; i += unit)
		if (probe_peek(probe, t + i, cost).allowed != (i >= wait))
			complain(probe, "admitted and denied in turns", t + i, cost, d.retry_after_ns);
}

static void remaining_is_the_largest(const struct probe *probe, uint64_t t) {
	uint32_t remaining = probe_peek(probe, t, 0).remaining;
	if (!probe_peek(probe, t, remaining).allowed)
		complain(probe, "remaining is not admitted", t, remaining, 0);
	if (remaining != UINT32_MAX && probe_peek(probe, t, remaining + 1).allowed)
		complain(probe, "more than remaining is admitted", t, remaining + 1, 0);
}

static void waits_are_exact_for(const struct kind *kind, uint64_t unit, uint64_t states) {
	for (uint64_t i = 0; i < states; i++) {
		struct dice dice = dice_of(dice_seed(), i * KINDS + (uint64_t)(kind - kinds));
		struct twin_rule rule = dice_rule(&dice, kind->algorithm, kind->edge);
		struct probe probe = probe_of(&rule);
		uint64_t t = START_NS + unit * dice_below(&dice, 3 * rule.window_ns / unit);
		t = probe_stir(&probe, &dice, t, unit, 40);
		for (int n = 0; n < 12; n++) {
			uint32_t cost = dice_cost(&dice, twin_quota(&rule));
			retry_is_exact(&probe, t, cost, unit);
			admission_comes_once(&probe, t, cost, unit);
			reset_is_exact(&probe, t, unit);
			next_is_exact(&probe, t, unit);
			remaining_is_the_largest(&probe, t);
			t += unit * dice_below(&dice, rule.window_ns / unit / 8 + 2);
		}
		probe_close(&probe);
	}
}

static void waits_are_exact_to_the_ms(void **state) {
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		waits_are_exact_for(&kinds[i], TWIN_MS, dice_ops(800));
}

static void waits_are_exact_to_the_ns(void **state) {
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].keeps_ns)
			waits_are_exact_for(&kinds[i], TWIN_NS, dice_ops(400));
}

/* Instants of any nanosecond, waits of whole milliseconds: what a server with a running clock sees. */
static void waits_are_exact_to_the_ms_at_any_ns(void **state) {
	(void)state;
	for (uint64_t i = 0; i < dice_ops(4000); i++) {
		const struct kind *kind = &kinds[i % KINDS];
		struct dice dice = dice_of(dice_seed(), i ^ 0x6e73);
		struct twin_rule rule = dice_rule(&dice, kind->algorithm, kind->edge);
		struct probe probe = probe_of(&rule);
		uint64_t t = probe_stir(&probe, &dice, START_NS + dice_below(&dice, rule.window_ns), TWIN_NS, 40);
		t += TWIN_MS; /* past a log's rounding of its newest entry */
		for (int n = 0; n < 6; n++) {
			uint32_t cost = dice_cost(&dice, twin_quota(&rule));
			retry_is_exact(&probe, t, cost, TWIN_MS);
			reset_is_exact(&probe, t, TWIN_MS);
			next_is_exact(&probe, t, TWIN_MS);
			remaining_is_the_largest(&probe, t);
			t += dice_below(&dice, rule.window_ns / 8);
		}
		probe_close(&probe);
	}
}

/* A request that was told its delay leaves when all before it have left: unit costs are W/Q apart, to the ms. */
static void a_leaky_bucket_spaces_what_it_admits(void **state) {
	struct probe probe = probe_of_text("leaky-bucket 4/1s queue 9");
	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		struct sluice_decision d = probe_charge(&probe, START_NS, 1);
		assert_true(d.allowed && d.quota == 10 && d.remaining == 9 - i);
		assert_true(d.delay_ns == i * 250ull * TWIN_MS);
	}
	assert_false(probe_charge(&probe, START_NS, 1).allowed);
	assert_true(probe_charge(&probe, START_NS + 100ull * TWIN_MS, 0).delay_ns == 0);
	/* After 600 ms 7.6 are left; the second of two more leaves when 8.6 have. */
	assert_true(probe_peek(&probe, START_NS + 600ull * TWIN_MS, 2).delay_ns == 2150ull * TWIN_MS);
	probe_close(&probe);
}

/* ---- nothing changes ----------------------------------------------------------------------------------------- */

struct snapshot {
	void *copy;
	size_t bytes;
};

static struct snapshot snapshot_of(const struct sluice_store *store) {
	struct snapshot snapshot;
	const void *arena = sl_store_arena(store, &snapshot.bytes);
	snapshot.copy = malloc(snapshot.bytes);
	if (snapshot.copy == NULL)
		abort();
	memcpy(snapshot.copy, arena, snapshot.bytes);
	return snapshot;
}

/* The arena still has the bytes of the snapshot. */
static bool is_unchanged(const struct snapshot *snapshot, const struct sluice_store *store) {
	size_t bytes;
	const void *arena = sl_store_arena(store, &bytes);
	return bytes == snapshot->bytes && memcmp(arena, snapshot->copy, bytes) == 0;
}

/* The smallest cost that is denied at t, if any is. */
static bool denied_cost(const struct probe *probe, uint64_t t, uint32_t *cost) {
	uint32_t remaining = probe_peek(probe, t, 0).remaining;
	*cost = remaining + 1;
	return remaining != UINT32_MAX;
}

static void ask_without_charging(struct probe *probe, struct dice *dice, uint64_t t) {
	uint32_t cost;
	probe_peek(probe, t, dice_cost(dice, probe->limit.quota));
	probe_charge(probe, t, 0);
	probe_do(probe, SLUICE_REFUND, t, 0);
	if (denied_cost(probe, t, &cost) && probe_charge(probe, t, cost).allowed)
		complain(probe, "more than remaining is admitted", t, cost, 0);
}

/* Peeks, denials, cost 0 and refunds of nothing, at every kind of instant, on counters that are there and that are
 * not: the arena keeps its every byte, lock words included. */
static void only_a_charge_changes_the_arena(void **state) {
	(void)state;
	for (uint64_t i = 0; i < dice_ops(1600); i++) {
		const struct kind *kind = &kinds[i % KINDS];
		struct dice dice = dice_of(dice_seed(), i ^ 0x6172656e61);
		struct twin_rule rule = dice_rule(&dice, kind->algorithm, kind->edge);
		struct probe probe = probe_of(&rule);
		uint64_t t = START_NS;
		struct snapshot before;
		for (int keys = 0; keys < 4; keys++, probe_next_key(&probe))
			t = probe_stir(&probe, &dice, t, dice_one_in(&dice, 2) ? TWIN_MS : TWIN_NS, 30);
		before = snapshot_of(probe.store);
		for (int n = 0; n < 6; n++) {
			snprintf(probe.key, sizeof probe.key, "%d", (int)dice_below(&dice, 6)); /* two of them unknown */
			ask_without_charging(&probe, &dice, dice_one_in(&dice, 4) ? t - rule.window_ns / 2 : t);
			t += dice_below(&dice, dice_one_in(&dice, 3) ? 3 * rule.window_ns : rule.window_ns / 9);
		}
		probe_next_key(&probe);
		probe.key[0] = 'x';
		probe_do(&probe, SLUICE_REFUND, t, 5);
		probe_do(&probe, SLUICE_RESET, t, 0);
		if (!is_unchanged(&before, probe.store))
			complain(&probe, "a call that charged nothing wrote into the arena", t, 0, 0);
		assert_null(sl_store_verify(probe.store));
		free(before.copy);
		probe_close(&probe);
	}
}

/* A denied request of several limits writes nothing either, whichever of them denies. */
static void a_denied_request_changes_nothing(void **state) {
	struct sluice_limit limits[KINDS], closed;
	(void)state;
	assert_int_equal(sluice_limit_parse(&closed, sl_str("fixed-window 0/1s"), NULL), SLUICE_OK);
	for (size_t denier = 0; denier < SLUICE_ITEMS_MAX; denier++) {
		struct dice dice = dice_of(dice_seed(), denier);
		struct twin_rule rule = {.algorithm = SLUICE_SLIDING_LOG, .quota = 1, .window_ns = 1000ull * TWIN_MS};
		struct probe probe = probe_of(&rule);
		struct sluice_item items[SLUICE_ITEMS_MAX];
		struct snapshot before;
		for (size_t i = 0; i < KINDS; i++) {
			rule = dice_rule(&dice, kinds[i].algorithm, kinds[i].edge);
			rule.quota += rule.quota == 0;
			rule.burst += rule.burst == 0;
			limits[i] = rule_limit(&rule);
		}
		for (size_t i = 0; i < SLUICE_ITEMS_MAX; i++)
			items[i] = (struct sluice_item){.limit = &limits[i % KINDS], .key = sl_slice(&"0123456789abcdef"[i], 1)};
		for (int round = 0; round < 2; round++) { /* on an empty store, then on counters that are there */
			struct sluice_call call = {.items = items, .item_count = SLUICE_ITEMS_MAX, .cost = 1, .now = START_NS};
			items[denier].limit = &closed;
			before = snapshot_of(probe.store);
			assert_int_equal(sluice_decide(probe.store, &call), SLUICE_OK);
			assert_false(call.merged.allowed);
			assert_true(is_unchanged(&before, probe.store));
			free(before.copy);
			items[denier].limit = &limits[denier % KINDS];
			assert_int_equal(sluice_decide(probe.store, &call), SLUICE_OK);
			assert_true(call.merged.allowed || round == 1);
		}
		probe_close(&probe);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_exact_to_the_ms),           cmocka_unit_test(waits_are_exact_to_the_ns),
		cmocka_unit_test(waits_are_exact_to_the_ms_at_any_ns), cmocka_unit_test(a_leaky_bucket_spaces_what_it_admits),
		cmocka_unit_test(only_a_charge_changes_the_arena),     cmocka_unit_test(a_denied_request_changes_nothing),
	};
	dice_seed();
	return cmocka_run_group_tests_name("properties", tests, NULL, NULL);
}
