/* What inspect says is what will be decided: over random states of every algorithm, with and without penalties, the
 * decision, each instant at which units are said to return, and what is said to count, are held against decisions made
 * there and one millisecond earlier. No twin: the library is asked again. */
#include "tests/model/probe.h"

#include "algo/step.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS ((uint64_t)1767225600000 * TWIN_MS)
#define WAIT_MAX_NS ((uint64_t)10000000000000 * TWIN_MS) /* longer ones would pass the end of all instants */

/* One key in some state, and what asks about it needs. */
struct asked {
	const struct probe *probe;
	struct sluice_item item;
	uint64_t t;
};

static struct sluice_decision decide(const struct asked *a, sluice_operation operation, uint64_t t, uint32_t cost) {
	struct sluice_item item = a->item;
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .want_next = true, .now = t};
	if (sluice_decide(a->probe->store, &call) != SLUICE_OK)
		fail_msg("error %d", call.err);
	return call.merged;
}

static void complain(const struct asked *a, const char *what, uint64_t one, uint64_t other) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(a->item.limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 ", key %s: %s%s: at %" PRIu64 " ns: %s: %" PRIu64 ", %" PRIu64, dice_seed(),
	         a->probe->key, text, a->item.terms != NULL ? " with penalties" : "", a->t, what, one, other);
}

static void hold(const struct asked *a, const char *what, uint64_t said, uint64_t is) {
	if (said != is)
		complain(a, what, said, is);
}

/* Each instant at which units return: there so much is left, one millisecond earlier less. */
static uint64_t returns_are_exact(const struct asked *a, const struct sluice_inspection *told) {
	uint64_t before = told->decision.remaining, after = 0;
	for (uint32_t i = 0; i < told->return_count; i++) {
		const struct sluice_return *one = &told->returns[i];
		if (one->after_ns <= after || one->after_ns % TWIN_MS != 0 || one->remaining <= before)
			complain(a, "returns do not rise", one->after_ns, one->remaining);
		if (one->after_ns > WAIT_MAX_NS)
			return i;
		hold(a, "left when units return", one->remaining,
		     decide(a, SLUICE_PEEK, a->t + one->after_ns, 0).remaining);
		hold(a, "left one ms earlier", before,
		     decide(a, SLUICE_PEEK, a->t + one->after_ns - TWIN_MS, 0).remaining);
		before = one->remaining;
		after = one->after_ns;
	}
	if (told->return_count < SLUICE_RETURNS_MAX && a->item.limit->quota != 0 && before < UINT32_MAX)
		hold(a, "all that is to return is told", before, told->decision.quota);
	return told->return_count;
}

static void charges_add_up(const struct asked *a, const struct sluice_inspection *told) {
	uint64_t sum = 0, quota = told->decision.quota;
	for (uint32_t i = 0; i < told->charge_count; i++) {
		const struct sluice_charged *one = &told->charges[i];
		if (one->cost == 0 || one->from_ns > one->until_ns || one->until_ns <= a->t)
			complain(a, "a charge that counts no longer", one->from_ns, one->until_ns);
		if (i != 0 && one->until_ns < told->charges[i - 1].until_ns)
			complain(a, "charges are not in order", one->until_ns, told->charges[i - 1].until_ns);
		sum += one->cost;
	}
	if (a->item.limit->quota == 0)
		return;
	if (a->item.terms == NULL)
		hold(a, "what is used, and what is left", told->decision.remaining,
		     quota > told->used ? (quota - told->used < UINT32_MAX ? quota - told->used : UINT32_MAX) : 0);
	if (told->charge_count == told->charges_in_all && sum < told->used)
		complain(a, "charges come to less than is used", sum, told->used);
	if ((told->used == 0) != (told->charges_in_all == 0) && a->item.limit->edge == SLUICE_EDGE_COUNT)
		complain(a, "something is used, and nothing charged, or the reverse", told->used, told->charges_in_all);
}

/* Inspects, and asks for what was said. Returns how many instants were held. */
static uint64_t inspect(const struct asked *a) {
	struct sluice_inspection told;
	struct sluice_decision peeked = decide(a, SLUICE_PEEK, a->t, 1);
	if (sluice_inspect(a->probe->store, &a->item, 1, a->t, &told) != SLUICE_OK)
		fail_msg("not inspected");
	hold(a, "allowed", told.decision.allowed, peeked.allowed);
	hold(a, "quota", told.decision.quota, peeked.quota);
	hold(a, "remaining", told.decision.remaining, peeked.remaining);
	hold(a, "retry", told.decision.retry_after_ns, peeked.retry_after_ns);
	hold(a, "reset", told.decision.reset_after_ns, peeked.reset_after_ns);
	hold(a, "next", told.decision.next_after_ns, peeked.next_after_ns);
	charges_add_up(a, &told);
	return returns_are_exact(a, &told);
}

static const struct sluice_terms escalates = {.penalty_count = 2,
                                              .after = 2,
                                              .within_ns = (uint64_t)60000 * TWIN_MS,
                                              .forgive_ns = (uint64_t)600000 * TWIN_MS,
                                              .penalties_ns = {(uint64_t)5000 * TWIN_MS, (uint64_t)90000 * TWIN_MS}};

static uint64_t states_of(const struct kind *kind, struct dice *dice, uint64_t count) {
	uint64_t instants = 0;
	for (uint64_t i = 0; i < count;) {
		struct twin_rule rule = dice_rule(dice, kind->algorithm, kind->edge);
		struct probe probe = probe_of(&rule);
		for (int k = 0; k < 8 && i < count; k++, i++) {
			struct asked a = {.probe = &probe, .item = {.limit = &probe.limit}, .t = START_NS};
			probe_next_key(&probe);
			a.item.key = sl_str(probe.key);
			a.item.terms = dice_one_in(dice, 4) ? &escalates : NULL;
			a.t += dice_below(dice, probe.limit.window_ns / TWIN_MS + 1) * TWIN_MS;
			a.t = probe_stir(&probe, dice, a.t, TWIN_MS, 12);
			for (uint64_t n = dice_below(dice, 4); a.item.terms != NULL && n > 0; n--)
				decide(&a, SLUICE_CHARGE, a.t, dice_cost(dice, probe.limit.quota));
			instants += inspect(&a);
			/* and what it says of the next decision is that decision */
			bool said = decide(&a, SLUICE_PEEK, a.t, 1).allowed;
			hold(&a, "the next decision", said, decide(&a, SLUICE_CHARGE, a.t, 1).allowed);
		}
		probe_close(&probe);
	}
	return instants;
}

static void inspect_says_what_will_be_decided(void **state) {
	uint64_t states = dice_ops(100000), instants = 0;
	(void)state;
	for (int k = 0; k < KINDS; k++) {
		struct dice dice = dice_of(dice_seed(), (uint64_t)k);
		instants += states_of(&kinds[k], &dice, states / (KINDS + 2));
	}
	assert_true(instants > states / 4);
}

/* Leases and members: each by a name of its own. */
static void seats(const char *notation, sluice_operation operation, struct dice *dice, uint64_t count) {
	struct probe probe = probe_of_text(notation);
	struct asked a = {.probe = &probe, .item = {.limit = &probe.limit}, .t = START_NS};
	for (uint64_t i = 0; i < count; i++) {
		char id[17], member[8];
		if (i % 8 == 0)
			probe_next_key(&probe);
		a.item.key = sl_str(probe.key);
		a.t += dice_below(dice, probe.limit.window_ns / TWIN_MS / 4 + 1) * TWIN_MS;
		sluice_make_id(id);
		snprintf(member, sizeof member, "%u", (unsigned)dice_below(dice, 12));
		if (probe.limit.algorithm == SLUICE_DISTINCT)
			a.item.member = sl_str(member);
		struct sluice_call call = {.items = &a.item, .item_count = 1, .operation = operation, .now = a.t};
		call.cost = operation == SLUICE_CHARGE ? 1 : 1 + (uint32_t)dice_below(dice, 3);
		call.id = operation == SLUICE_ACQUIRE ? sl_str(id) : call.id;
		assert_int_equal(sluice_decide(probe.store, &call), SLUICE_OK);
		a.item.member = sl_slice(NULL, 0);
		(void)inspect(&a);
	}
	probe_close(&probe);
}

static void inspect_of_leases_and_members(void **state) {
	struct dice dice = dice_of(dice_seed(), KINDS);
	uint64_t states = dice_ops(100000) / (KINDS + 2);
	(void)state;
	seats("sliding-window 9/1m spread", SLUICE_CHARGE, &dice, states / 8);
	seats("fixed-window 9/1m spread", SLUICE_CHARGE, &dice, states / 8);
	seats("concurrency 7 lease 20s", SLUICE_ACQUIRE, &dice, states);
	seats("distinct 5/40s", SLUICE_CHARGE, &dice, states);
}

/* Reserves and charges up to 256 times within a part of a window. */
static void fill(struct asked *a, struct dice *dice) {
	const uint64_t window_ms = a->probe->limit.window_ns / TWIN_MS;
	const uint64_t count = 1 + dice_below(dice, 256), step_ms = 1 + window_ms / (1 + dice_below(dice, 8)) / count;
	for (uint64_t i = 0; i < count; i++) {
		char id[17];
		struct sluice_call call = {.items = &a->item, .item_count = 1, .cost = 1 + (uint32_t)dice_below(dice, 3)};
		sluice_make_id(id);
		a->t += dice_below(dice, 2 * step_ms) * TWIN_MS;
		call.now = a->t;
		call.operation = dice_one_in(dice, 5) ? SLUICE_CHARGE : SLUICE_RESERVE;
		call.id = call.operation == SLUICE_RESERVE ? sl_str(id) : call.id;
		call.ttl_ns = (1 + window_ms / 4 + dice_below(dice, window_ms)) * TWIN_MS;
		assert_int_equal(sluice_decide(a->probe->store, &call), SLUICE_OK);
	}
}

/* Reservations that end, many of them as one, while nobody charges: what they leave is told like what never was. */
static void reserves(const char *notation, struct dice *dice, uint64_t count) {
	struct probe probe = probe_of_text(notation);
	struct asked a = {.probe = &probe, .item = {.limit = &probe.limit}, .t = START_NS};
	for (uint64_t i = 0; i < count; i++) {
		if (i % 24 == 0) {
			probe_next_key(&probe);
			a.item.key = sl_str(probe.key);
			fill(&a, dice);
		}
		(void)inspect(&a);
		a.t += dice_below(dice, probe.limit.window_ns / TWIN_MS / 8) * TWIN_MS;
	}
	probe_close(&probe);
}

static void inspect_of_reservations(void **state) {
	static const char *const notations[] = {"300/1m",
	                                        "fixed-window 300/1m",
	                                        "sliding-log 300/1m",
	                                        "sliding-buckets 300/1m precision 5s",
	                                        "sliding-buckets 300/1m precision 5s edge drop",
	                                        "token-bucket 300/1m burst 300",
	                                        "leaky-bucket 300/1m queue 299",
	                                        "sliding-log 900/100ms",
	                                        "sliding-window 9/1m spread"};
	const uint64_t count = sizeof notations / sizeof *notations;
	struct dice dice = dice_of(dice_seed(), KINDS + 2);
	(void)state;
	for (uint64_t i = 0; i < count; i++)
		reserves(notations[i], &dice, dice_ops(36000) / count);
}

/* What is damaged is told as what it may be: sanitizers watch. */
static void inspect_of_any_bytes(void **state) {
	struct dice dice = dice_of(dice_seed(), KINDS + 1);
	(void)state;
	for (uint64_t i = 0; i < dice_ops(20000); i++) {
		const struct kind *kind = &kinds[dice_below(&dice, KINDS)];
		struct twin_rule rule = dice_rule(&dice, kind->algorithm, kind->edge);
		struct sluice_limit limit = rule_limit(&rule);
		uint64_t block[64];
		struct sluice_inspection told = {.used = 0};
		struct sl_counter counter = {.state.w = {dice_bits(&dice), dice_bits(&dice)}};
		for (int k = 0; k < 64; k++)
			block[k] = dice_bits(&dice);
		((uint32_t *)block)[0] = (uint32_t)dice_below(&dice, 40); /* often a header that fits */
		((uint32_t *)block)[1] &= 1;
		if (dice_one_in(&dice, 2)) {
			counter.block = block;
			counter.block_bytes = sizeof block;
		}
		sl_step_describe(&limit, &counter, START_NS, &told);
		assert_true(told.charge_count <= told.charges_in_all && told.charge_count <= SLUICE_CHARGES_MAX);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inspect_says_what_will_be_decided),
		cmocka_unit_test(inspect_of_leases_and_members),
		cmocka_unit_test(inspect_of_reservations),
		cmocka_unit_test(inspect_of_any_bytes),
	};
	dice_seed();
	return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
