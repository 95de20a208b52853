/* Windows that are spread: each key's own phase, the same everywhere and for ever; the rest of a decision is that of
 * aligned windows (model/twin_test.c, cases/spread.json). */
#include "tests/model/dice.h"

#include "algo/ledger.h"
#include "algo/rule.h"
#include "algo/step.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_NS (UINT64_C(1728000000000) * SL_MS_NS)

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

static uint32_t phase_of(const char *text, const char *name, const char *key) {
	struct sluice_limit limit = limit_of(text);
	if (name != NULL)
		sl_rule_name(&limit, sl_str(name));
	assert_true(sl_rule_needs_key(&limit) && sl_rule_is_valid(&limit));
	sl_rule_key(&limit, sl_str(key));
	assert_true(!sl_rule_needs_key(&limit) && sl_rule_is_valid(&limit));
	return limit.burst - 1;
}

/* Counters are kept under it, in stores and in Redis: who changes one of these numbers moves everybody's windows. */
static void phases_are_for_ever(void **state) {
	(void)state;
	assert_int_equal(phase_of("fixed-window 100/1h spread", NULL, "user:1"), 25656);
	assert_int_equal(phase_of("100/1h spread", NULL, "user:1"), 67938);
	assert_int_equal(phase_of("100/1h spread", "search", "user:1"), 95071);
	assert_int_equal(phase_of("5/1h spread", "search", "user:1"), 95071); /* the quota is no part of it */
	assert_int_equal(phase_of("100/1h spread", "search", ""), 73937);
}

static void identities_say_the_phase(void **state) {
	static const char *const texts[] = {"fixed-window 5/1ms spread 0", "5/3660d spread 131071", "5/1h spread 77777"};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		for (int named = 0; named < 2; named++) {
			struct sluice_limit limit = limit_of(texts[i]), wide, again;
			if (named)
				sl_rule_name(&limit, sl_str("search"));
			assert_true(sl_identity_widest(sl_identity_of(&limit), &wide));
			assert_int_equal(wide.algorithm, limit.algorithm);
			assert_int_equal(wide.burst, limit.burst);
			assert_true(wide.window_ns == limit.window_ns && wide.quota == UINT32_MAX);
			assert_true(wide.derived[SL_AHEAD_NS] == limit.derived[SL_AHEAD_NS]);
			again = sl_rule_widened(&limit);
			assert_memory_equal(&again, &wide, sizeof wide);
		}
}

/* Nobody's: a rule that has not met its key, a phase of an algorithm without windows, of a window that is too long. */
static void identities_that_are_none(void **state) {
	struct sluice_limit limit = limit_of("5/1h spread"), wide;
	struct sl_identity identity = sl_identity_of(&limit);
	(void)state;
	assert_false(sl_identity_widest(identity, &wide));
	limit = limit_of("5/1h spread 5");
	identity = sl_identity_of(&limit);
	assert_true(sl_identity_widest(identity, &wide));
	for (uint64_t algorithm = 0; algorithm < 16; algorithm++) {
		struct sl_identity other = {(identity.kind & ~(UINT64_C(15) << 58)) | algorithm << 58, identity.name};
		assert_int_equal(sl_identity_widest(other, &wide),
		                 algorithm == SLUICE_FIXED_WINDOW || algorithm == SLUICE_SLIDING_WINDOW);
	}
	identity.kind |= (UINT64_C(1) << 39) - 1;
	assert_false(sl_identity_widest(identity, &wide));
}

/* ---- in a store -------------------------------------------------------------------------------------------------- */

static struct sluice_store *open_store(void) {
	struct sluice_store_options options = {.memory_bytes = 64 << 20};
	struct sluice_store *store = NULL;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	return store;
}

static struct sluice_decision decide(struct sluice_store *store, const struct sluice_limit *limit, const char *key,
                                     sluice_operation operation, sluice_ns now) {
	struct sluice_item item = {.limit = limit, .key = sl_str(key)};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .operation = operation, .now = now};
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	assert_true(call.items == &item && item.limit == limit);
	return call.merged;
}

/* A rule for all keys, and the one that a key makes of it, count in one counter: alone, among others, in a batch. */
static void a_key_s_rule_is_the_same_counter(void **state) {
	struct sluice_store *store = open_store();
	struct sluice_limit spread = limit_of("fixed-window 3/1h spread"), its = spread, aligned = limit_of("1/1h");
	struct sluice_item items[] = {{.limit = &aligned, .key = sl_str("b")}, {.limit = &spread, .key = sl_str("a")}};
	struct sluice_call several = {
		.items = items, .item_count = 2, .cost = 1, .operation = SLUICE_CHARGE, .now = NOW_NS};
	struct sluice_call batch[3] = {several, several, several};
	(void)state;
	sl_rule_key(&its, sl_str("a"));
	assert_int_equal(decide(store, &spread, "a", SLUICE_CHARGE, NOW_NS).remaining, 2);
	assert_int_equal(decide(store, &its, "a", SLUICE_PEEK, NOW_NS).remaining, 2);
	assert_int_equal(sluice_decide(store, &several), SLUICE_OK);
	assert_true(several.merged.allowed && decide(store, &its, "a", SLUICE_PEEK, NOW_NS).remaining == 1);
	for (int i = 0; i < 3; i++) {
		batch[i].items = &items[1];
		batch[i].item_count = 1;
	}
	sluice_decide_many(store, batch, 3);
	assert_true(batch[0].merged.allowed && !batch[1].merged.allowed && !batch[2].merged.allowed);
	assert_int_equal(decide(store, &its, "a", SLUICE_CHARGE, NOW_NS).allowed, false);
	assert_int_equal(decide(store, &aligned, "a", SLUICE_PEEK, NOW_NS).remaining, 1); /* another's */
	sluice_store_close(store);
}

/* ---- the herd ---------------------------------------------------------------------------------------------------- */

enum { CLIENTS = 10000, SLOTS = 100 };

/* All have used their quota up, wait as long as they are told, and come back: how many in the fullest 100 ms? */
static uint32_t worst_of_herd(const char *text) {
	struct sluice_store *store = open_store();
	struct sluice_limit limit = limit_of(text);
	uint32_t slots[2 * SLOTS + 2] = {0}, worst = 0;
	for (int i = 0; i < CLIENTS; i++) {
		char key[16];
		snprintf(key, sizeof key, "c%d", i);
		struct sluice_decision d = decide(store, &limit, key, SLUICE_CHARGE, NOW_NS);
		assert_true(d.allowed);
		d = decide(store, &limit, key, SLUICE_CHARGE, NOW_NS);
		assert_true(!d.allowed && d.retry_after_ns != 0 && d.retry_after_ns <= 2 * limit.window_ns);
		assert_false(decide(store, &limit, key, SLUICE_PEEK, NOW_NS + d.retry_after_ns - 1).allowed);
		assert_true(decide(store, &limit, key, SLUICE_CHARGE, NOW_NS + d.retry_after_ns).allowed);
		slots[d.retry_after_ns / (100 * SL_MS_NS)]++;
	}
	for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
		worst = slots[i] > worst ? slots[i] : worst;
	sluice_store_close(store);
	return worst;
}

static void a_herd_comes_back_spread(void **state) {
	(void)state;
	assert_int_equal(worst_of_herd("fixed-window 1/10s"), CLIENTS); /* aligned: all in one */
	assert_int_equal(worst_of_herd("1/10s"), CLIENTS);
	assert_true(worst_of_herd("fixed-window 1/10s spread") <= 3 * CLIENTS / SLOTS);
	assert_true(worst_of_herd("1/10s spread") <= 3 * CLIENTS / SLOTS);
}

/* A reservation in a window that is spread is of the window of the key, whose bounds are not whole minutes; a peek of
 * the same key, and what inspecting tells, agree with it. */
static void reservations_in_a_phase(void **state) {
	static const char *const texts[][2] = {{"9/1m spread", "20/1m spread"},
	                                       {"fixed-window 9/1m spread", "fixed-window 20/1m spread"}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct sluice_store_options options = {.memory_bytes = 2 << 20};
		struct sluice_store *store;
		struct sluice_limit limit = limit_of(texts[i][0]), own = limit_of(texts[i][1]);
		struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
		struct sluice_call call = {.items = &item, .item_count = 1, .cost = 5, .now = NOW_NS, .id = sl_str("r")};
		struct sluice_override_request request;
		struct sluice_inspection told;
		assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
		call.operation = SLUICE_RESERVE;
		call.ttl_ns = 10000 * (sluice_ns)SL_MS_NS;
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_int_equal(call.merged.remaining, 4);
		assert_int_equal(sluice_inspect(store, &item, 1, NOW_NS, &told), SLUICE_OK);
		assert_true(told.used == 5 && told.charge_count == 1 && told.charges[0].cost == 5);
		assert_true(told.charges[0].from_ns <= NOW_NS && told.charges[0].until_ns > NOW_NS);
		assert_true(told.charges[0].from_ns % (60000 * (sluice_ns)SL_MS_NS) != 0);
		call.operation = SLUICE_COMMIT;
		call.cost = 2;
		call.ttl_ns = 0;
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_true(call.found == 1 && call.merged.remaining == 7);
		/* one that is not committed is given back at its end, and not before */
		call.operation = SLUICE_RESERVE;
		call.cost = 7;
		call.ttl_ns = 1000 * (sluice_ns)SL_MS_NS;
		call.id = sl_str("other");
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_int_equal(call.merged.remaining, 0);
		call = (struct sluice_call){.items = &item, .item_count = 1, .cost = 1, .operation = SLUICE_PEEK};
		call.now = NOW_NS + 1;
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_false(call.merged.allowed);
		call.now = NOW_NS + 1001 * (sluice_ns)SL_MS_NS;
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_int_equal(call.merged.remaining, 7);
		/* and a quota of the key's own has the same windows */
		request = (struct sluice_override_request){.limit = &limit, .key = item.key, .own = &own};
		assert_int_equal(sluice_override_set(store, &request, call.now, NULL), SLUICE_OK);
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_int_equal(call.merged.remaining, 18);
		assert_null(sluice_store_verify(store));
		sluice_store_close(store);
	}
	(void)state;
}

static uint32_t left_at(const struct sluice_limit *limit, struct sl_counter counter, sluice_ns now) {
	struct sluice_decision decision;
	sl_step(limit, &counter, now, 0, false, &decision);
	return decision.remaining;
}

/* Of any phase: a charge of all counts to the last instant of its window, and what is known of a counter that is gone
 * counts where it was charged, the first instant of a window included. */
static void a_window_has_all_of_its_instants(void **state) {
	static const char *const texts[] = {"fixed-window 9/1h spread 0", "fixed-window 9/1h spread 77777",
	                                    "fixed-window 9/1s spread 131071"};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct sluice_limit limit = limit_of(texts[i]);
		struct sl_counter counter = {.block = NULL}, known = {.block = NULL};
		struct sluice_decision decision;
		struct sluice_inspection told = {0};
		sluice_ns leaves = sl_step_leaves(&limit, NOW_NS), start = leaves - limit.window_ns;
		const struct sl_held inside[] = {{start, 9}, {start + 1, 1}}, before[] = {{start - 1, 9}, {start, 1}};
		assert_true(start <= NOW_NS && NOW_NS < leaves);
		sl_step(&limit, &counter, start, 9, true, &decision);
		assert_true(decision.allowed);
		assert_int_equal(left_at(&limit, counter, leaves - 1), 0);
		assert_int_equal(left_at(&limit, counter, leaves), 9);
		assert_true(sl_step_leaves(&limit, start) == leaves && sl_step_leaves(&limit, leaves) != leaves);
		sl_step_describe(&limit, &counter, start, &told);
		assert_true(told.charge_count == 1 && told.charges[0].until_ns == leaves);
		sl_step_assume(&limit, &known, inside, 2, NULL, 0);
		assert_int_equal(left_at(&limit, known, start + 1), 0);
		sl_step_assume(&limit, &known, before, 2, NULL, 0);
		assert_int_equal(left_at(&limit, known, start), 8);
	}
}

/* A window of a phase is an aligned one on a clock that is ahead: what is counted whatever the quota, corrected and
 * given back comes to the same counts, wherever in its window it is asked for. */
static void charges_beside_the_quota_are_those_of_aligned_windows(void **state) {
	static const char *const texts[][2] = {{"fixed-window 9/1h spread 77777", "fixed-window 9/1h"},
	                                       {"9/1h spread 77777", "9/1h"}};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct sluice_limit spread = limit_of(texts[i][0]), aligned = limit_of(texts[i][1]);
		sluice_ns ahead = spread.derived[SL_AHEAD_NS], now = NOW_NS;
		struct sl_counter counter = {.block = NULL}, twin = {.block = NULL};
		for (uint32_t k = 0; k < 100; k++, now += spread.window_ns / 9) {
			struct sl_correction late = {.instant = now, .known = now, .charged = 4, .actual = k % 9};
			struct sl_correction its = late;
			its.instant = its.known = now + ahead;
			assert_int_equal(sl_step_count(&spread, &counter, now, 4 + k % 5),
			                 sl_step_count(&aligned, &twin, now + ahead, 4 + k % 5));
			assert_int_equal(sl_correct(&spread, &counter, &late, 1, NULL, 0),
			                 sl_correct(&aligned, &twin, &its, 1, NULL, 0));
			assert_int_equal(sl_step_refund(&spread, &counter, now, k % 3),
			                 sl_step_refund(&aligned, &twin, now + ahead, k % 3));
			assert_true(counter.state.w[0] + ahead == twin.state.w[0] && counter.state.w[1] == twin.state.w[1]);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_are_for_ever),
		cmocka_unit_test(identities_say_the_phase),
		cmocka_unit_test(identities_that_are_none),
		cmocka_unit_test(a_key_s_rule_is_the_same_counter),
		cmocka_unit_test(reservations_in_a_phase),
		cmocka_unit_test(a_herd_comes_back_spread),
		cmocka_unit_test(a_window_has_all_of_its_instants),
		cmocka_unit_test(charges_beside_the_quota_are_those_of_aligned_windows),
	};
	return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
