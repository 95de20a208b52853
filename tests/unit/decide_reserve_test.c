/* Reservations through a store, case by case: charged, committed, returned, and what of it a stranger sees
 * meanwhile. */
#include "tests/unit/ask.h"

#include "algo/bundle.h"
#include "algo/rule.h"
#include "algo/terms.h"
#include "store/blocks.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const notations[] = {
	"fixed-window 1000/1m", "sliding-window 1000/1m", "sliding-buckets 1000/1m precision 1s",
	"sliding-log 1000/1m",  "token-bucket 1000/1h",   "leaky-bucket 1/1h queue 999",
};
enum { NOTATIONS = sizeof notations / sizeof *notations, S = 1000 };

static struct asked reserve(struct sluice_store *s, uint64_t at_ms, uint32_t cost, const char *id, uint64_t ttl_ms,
                            const char *limit) {
	struct asked asked = ASK(s, SLUICE_RESERVE, at_ms, cost, id, ttl_ms, .lines = {{limit}});
	assert_int_equal(asked.err, SLUICE_OK);
	return asked;
}

static struct asked commit(struct sluice_store *s, uint64_t at_ms, uint32_t actual, const char *id, const char *limit) {
	struct asked asked = ASK(s, SLUICE_COMMIT, at_ms, actual, id, .lines = {{limit}});
	assert_int_equal(asked.err, SLUICE_OK);
	return asked;
}

/* Within a second, so that buckets have drained nothing. */
static void a_commit_corrects_what_was_charged(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		struct asked a = reserve(*state, 0, 500, "a", 60 * S, notations[i]);
		assert_true(a.d.allowed && a.granted == 500 && !a.repeated && a.d.remaining == 500);
		assert_int_equal(reserve(*state, 100, 600, "b", 60 * S, notations[i]).d.allowed, false);
		a = commit(*state, 200, 100, "a", notations[i]);
		assert_true(a.found == 1 && a.d.allowed && a.d.remaining == 900);
		a = commit(*state, 300, 100, "a", notations[i]);
		assert_true(a.found == 0 && a.d.remaining == 900);
		assert_int_equal(commit(*state, 300, 0, "b", notations[i]).found, 0); /* was denied */
	}
}

static void a_commit_above_the_estimate_is_debt(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		reserve(*state, 0, 900, "a", 60 * S, notations[i]);
		assert_int_equal(commit(*state, 0, 1500, "a", notations[i]).d.remaining, 0);
		assert_false(ask_peek(*state, 0, notations[i]).allowed);
	}
	/* 500 above: they are paid first */
	struct asked a = ASK(*state, SLUICE_PEEK, 0, 1, .lines = {{"token-bucket 1000/1h"}});
	assert_int_equal(a.d.retry_after_ns, (uint64_t)501 * 3600 * S * ASK_MS / 1000);
}

static void what_is_left_open_is_back_at_its_end(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		uint64_t at = 20 * S;
		reserve(*state, at, 1000, "a", 5 * S, notations[i]);
		struct ask peek = {SLUICE_PEEK, at + S, 900, .lines = {{notations[i]}}};
		struct asked a = ask_quietly(*state, &peek);
		assert_false(a.d.allowed);
		assert_int_equal(a.d.retry_after_ns, (uint64_t)4 * S * ASK_MS);
		peek.at_ms = at + 5 * S - 1;
		assert_false(ask_quietly(*state, &peek).d.allowed);
		peek.at_ms = at + 5 * S;
		assert_true(ask_quietly(*state, &peek).d.allowed);
		assert_int_equal(commit(*state, at + 5 * S, 1, "a", notations[i]).found, 0);
		/* whoever charges next writes it down */
		a = ASK(*state, SLUICE_CHARGE, at + 5 * S, 900, .lines = {{notations[i]}});
		assert_true(a.d.allowed && a.d.remaining == 100 && a.granted == 900);
		assert_int_equal(ask_peek(*state, at + 5 * S, notations[i]).remaining, 100);
	}
}

static void the_same_id_is_charged_once(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		assert_false(reserve(*state, 0, 400, "a", 60 * S, notations[i]).repeated);
		for (int k = 0; k < 4; k++) {
			struct ask again = {SLUICE_RESERVE, 100, 999, "a", 60 * S, .lines = {{notations[i]}}};
			struct asked a = ask_quietly(*state, &again);
			assert_true(a.repeated && a.d.allowed && a.d.remaining == 600);
		}
		assert_false(reserve(*state, 200, 400, "b", 60 * S, notations[i]).repeated);
		assert_int_equal(commit(*state, 300, 0, "a", notations[i]).d.remaining, 600);
		assert_false(reserve(*state, 400, 1, "a", 60 * S, notations[i]).repeated);
	}
}

static void several_limits_are_reserved_or_none(void **state) {
	struct ask both = {SLUICE_RESERVE, 0, 5, "a", 60 * S, .lines = {{"sliding-log 10/1m"}, {"fixed-window 7/1m"}}};
	struct asked a = ask(*state, &both);
	assert_true(a.d.allowed && a.d.remaining == 2 && a.each[0].remaining == 5);
	both.id = "b";
	assert_false(ask_quietly(*state, &both).d.allowed);
	a = ASK(*state, SLUICE_COMMIT, 1, 1, "b", .lines = {{"sliding-log 10/1m"}, {"fixed-window 7/1m"}});
	assert_int_equal(a.found, 0);
	a = ASK(*state, SLUICE_COMMIT, 1, 1, "a", .lines = {{"sliding-log 10/1m"}, {"fixed-window 7/1m"}});
	assert_true(a.found == 2 && a.each[0].remaining == 9 && a.each[1].remaining == 6);
}

static void limits_that_meet_in_one_counter_are_reserved_once(void **state) {
	struct asked a = ASK(*state, SLUICE_RESERVE, 0, 5, "a", 60 * S,
	                     .lines = {{"sliding-log 10/1m"}, {"sliding-log 8/1m"}, {"sliding-log 20/1m", .observed = 1}});
	assert_true(a.d.allowed && a.each[0].remaining == 5 && a.each[1].remaining == 3 && a.each[2].remaining == 15);
	a = ASK(*state, SLUICE_COMMIT, 0, 2, "a", .lines = {{"sliding-log 10/1m"}, {"sliding-log 8/1m"}});
	assert_true(a.found == 1 && a.each[0].remaining == 8 && a.each[1].remaining == 6);
}

/* A request costs 1, its tokens 500. */
static void a_policy_mixes_charges_reservations_and_leases(void **state) {
	struct ask mixed = {SLUICE_ACQUIRE, 0, 1, "a",
	                    .lines = {{"concurrency 2 lease 1m"},
	                              {"fixed-window 10/1m"},
	                              {"sliding-log 1000/1m", .cost = 500, .ttl_ms = 30000}}};
	struct asked a = ask(*state, &mixed);
	assert_int_equal(a.err, SLUICE_OK);
	assert_true(a.d.allowed && a.each[0].remaining == 1 && a.each[1].remaining == 9 && a.each[2].remaining == 500);
	assert_true(ask_quietly(*state, &mixed).repeated);
	a = ASK(*state, SLUICE_COMMIT, 0, 120, "a", .lines = {{"sliding-log 1000/1m"}});
	assert_true(a.found == 1 && a.d.remaining == 880);
	mixed.id = "b", mixed.lines[2].cost = 900;
	assert_false(ask_quietly(*state, &mixed).d.allowed);
	mixed = (struct ask){SLUICE_RESERVE, 0, 1, "c",
	                     .lines = {{"fixed-window 10/1m"}, {"token-bucket 100/1m", .cost = 60, .ttl_ms = 5000}}};
	a = ask(*state, &mixed);
	assert_true(a.d.allowed && a.each[0].remaining == 8 && a.each[1].remaining == 40);
	assert_true(ask_quietly(*state, &mixed).repeated);
}

static void a_refund_corrects_what_has_ended_first(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		struct asked a;
		ASK(*state, SLUICE_CHARGE, 0, 300, .lines = {{notations[i]}});
		reserve(*state, 100, 500, "a", S, notations[i]);
		a = ASK(*state, SLUICE_REFUND, 1100, 100, .lines = {{notations[i]}});
		assert_int_equal(a.err, SLUICE_OK);
		assert_int_equal(a.d.remaining, 800);
	}
}

/* What a call finds where it keeps what it has not looked up. */
static __attribute__((noinline)) void spoil_stack(void) {
	volatile unsigned char spoilt[1 << 16];
	for (size_t i = 0; i < sizeof spoilt; i++)
		spoilt[i] = 0xb5;
}

/* Nothing is charged: how long the block has to be is up to the corrections alone. */
static void so_does_one_by_a_quota_of_0(void **state) {
	static const char *const none[] = {"sliding-buckets 0/1m precision 1s", "sliding-log 0/1m"};
	for (int i = 0; i < 2; i++) {
		const char *notation = notations[2 + i];
		ASK(*state, SLUICE_CHARGE, 0, 300, .lines = {{notation}});
		reserve(*state, 100, 500, "a", S, notation);
		spoil_stack();
		assert_int_equal(ASK(*state, SLUICE_REFUND, 1100, 100, .lines = {{none[i]}}).err, SLUICE_OK);
		assert_int_equal(ask_peek(*state, 1100, notation).remaining, 800);
	}
}

static void a_reset_forgets_reservations_too(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		reserve(*state, 0, 500, "a", 60 * S, notations[i]);
		assert_int_equal(ASK(*state, SLUICE_RESET, 1, 0, .lines = {{notations[i]}}).forgotten, 1);
		assert_int_equal(commit(*state, 2, 700, "a", notations[i]).found, 0);
		assert_int_equal(ask_peek(*state, 2, notations[i]).remaining, 1000);
	}
}

static void a_longer_ttl_than_the_window_is_still_found(void **state) {
	reserve(*state, 0, 10, "a", 600 * S, "sliding-log 10/1s");
	assert_true(ASK(*state, SLUICE_CHARGE, 5 * S, 4, .lines = {{"sliding-log 10/1s"}}).d.allowed);
	struct asked a = commit(*state, 5 * S, 99, "a", "sliding-log 10/1s");
	assert_true(a.found == 1 && a.d.remaining == 6);
}

/* More than fit the stack, returned and charged in one call; and as many as there may be. */
static void many_reservations_end_at_once(void **state) {
	for (int i = 0; i < NOTATIONS; i++) {
		char id[16];
		for (int k = 0; k < 500; k++) {
			snprintf(id, sizeof id, "%d", k);
			assert_true(reserve(*state, (uint64_t)k, 2, id, S, notations[i]).d.allowed);
		}
		assert_int_equal(commit(*state, 600, 1, "250", notations[i]).found, 1);
		assert_int_equal(ask_peek(*state, 999, notations[i]).remaining, 1);
		struct asked a = ASK(*state, SLUICE_CHARGE, 2 * S, 997, .lines = {{notations[i]}});
		assert_true(a.d.allowed);
		assert_true(a.d.remaining <= 3); /* committed, less what a bucket drained, or lost in bundles */
	}
}

/* Sixteen limits, each of which needs all that a limit can: a longer log, a ledger, and contents for its bundles. What
 * a death would undo of it has room. */
static void what_sixteen_change_can_be_undone(void **state) {
	struct sluice_store *s = ask_store(64);
	char keys[SLUICE_ITEMS_MAX][8], id[16];
	uint32_t used = 0;
	(void)state;
	for (int round = 0; round < 200; round++) {
		struct ask all = {SLUICE_RESERVE, (uint64_t)round * 7, 1, id, S};
		for (int i = 0; i < SLUICE_ITEMS_MAX; i++) {
			const char *limit = i % 2 == 0 ? "sliding-log 9k/1m" : "sliding-buckets 9k/1m precision 1s";
			snprintf(keys[i], sizeof keys[i], "%d", i);
			all.lines[i] = (struct ask_line){limit, keys[i]};
		}
		snprintf(id, sizeof id, "%d", round);
		memset(s->blocks->undo, 0, sizeof s->blocks->undo);
		assert_true(ask(s, &all).d.allowed);
		for (uint32_t i = 0; i < SL_UNDO_MAX; i++)
			used = s->blocks->undo[i].offset != 0 && i >= used ? i + 1 : used;
	}
	print_message("%u words of %u\n", used, (unsigned)SL_UNDO_MAX);
	assert_true(used < SL_UNDO_MAX);
	sluice_store_close(s);
}

/* A charge behind a reservation lets what is known of that live on, also where its slot would have anyway. */
static void a_charge_lets_the_ledger_live_on(void **state) {
	static const char limit[] = "token-bucket 20/1s burst 30";
	assert_int_equal(ASK(*state, SLUICE_CHARGE, 0, 22, .lines = {{limit}}).d.remaining, 8);
	assert_int_equal(ASK(*state, SLUICE_RESERVE, 0, 2, "a", 702, .lines = {{limit}}).d.remaining, 6);
	assert_int_equal(ASK(*state, SLUICE_CHARGE, 0, 2, .lines = {{limit}}).d.reset_after_ns, 1200 * (sluice_ns)ASK_MS);
	assert_int_equal(ask_peek(*state, 1199, limit).remaining, 29);
	for (uint64_t at = 1200; at < 1400; at += 10)
		assert_int_equal(ask_peek(*state, at, limit).remaining, 30);
}

/* Where the ledger of 1M/1m is full. The figures of another limit with reservations are those of what stands; and a
 * denial that nobody would have asked about counts nowhere. */
static void a_bound_leaves_the_others_alone(struct sluice_store *s) {
	static const struct sluice_terms counts = {.count_denied = true};
	ASK(s, SLUICE_RESERVE, 0, 3, "p", 60 * S, .lines = {{"fixed-window 9/1m", "p"}});
	ASK(s, SLUICE_CHARGE, 0, 1, .lines = {{"fixed-window 9/1m", "o"}});
	struct asked a = ASK(s, SLUICE_RESERVE, 0, 2, "more",
	                     .lines = {{"fixed-window 9/1m", "p"},
	                               {"fixed-window 1/1m", "o", .observed = 1, .terms = &counts},
	                               {"fixed-window 1M/1m", .ttl_ms = 50 * S}});
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.each[2].bound == SLUICE_BOUND_RESERVATIONS);
	assert_true(a.each[0].allowed && a.each[0].remaining == 6 && !a.each[1].allowed);
	a = ASK(s, SLUICE_PEEK, 0, 1, .lines = {{"fixed-window 9/1m", "p"}, {"fixed-window 9/1m", "o"}});
	assert_true(a.each[0].remaining == 6 && a.each[1].remaining == 8);
}

static void a_ledger_has_an_end(void **state) {
	char id[16];
	struct sluice_store *s = ask_store(16);
	(void)state;
	for (int k = 0; k < SL_LEDGER_MAX; k++) {
		snprintf(id, sizeof id, "%d", k);
		assert_int_equal(ASK(s, SLUICE_RESERVE, 0, 1, id, 60 * S, .lines = {{"fixed-window 1M/1m"}}).err, SLUICE_OK);
	}
	struct asked a = ASK(s, SLUICE_RESERVE, 0, 1, "more", 50 * S, .lines = {{"fixed-window 1M/1m"}, {"9/1m", "k"}});
	assert_int_equal(a.err, SLUICE_OK);
	assert_false(a.d.allowed);
	assert_int_equal(a.d.bound, SLUICE_BOUND_RESERVATIONS);
	assert_int_equal(a.d.retry_after_ns, 60 * S * (sluice_ns)ASK_MS);
	assert_int_equal(a.each[1].remaining, 9); /* charged nothing */
	assert_true(a.each[1].allowed && a.granted == 0);
	a_bound_leaves_the_others_alone(s);
	assert_int_equal(ASK(s, SLUICE_COMMIT, 0, 1, "7", .lines = {{"fixed-window 1M/1m"}}).found, 1);
	assert_int_equal(ASK(s, SLUICE_RESERVE, 0, 1, "more", 60 * S, .lines = {{"fixed-window 1M/1m"}}).err, SLUICE_OK);
	sluice_store_close(s);
}

static void calls_that_make_no_sense_are_refused(void **state) {
	static const struct {
		struct ask ask;
		sluice_err err;
	} rows[] = {
		{{SLUICE_RESERVE, 0, 1, "a", 0, .lines = {{"10/1m"}}}, SLUICE_E_RANGE},
		{{SLUICE_RESERVE, 0, 1, "a", (uint64_t)3661 * 86400 * S, .lines = {{"10/1m"}}}, SLUICE_E_RANGE},
		{{SLUICE_RESERVE, 0, 1, "a", S, .lines = {{"concurrency 1 lease 1s"}}}, SLUICE_E_MISUSE},
		{{SLUICE_RESERVE, 0, 1, "a", S, .lines = {{"distinct 1/1s", .member = "m"}}}, SLUICE_E_MISUSE},
		{{SLUICE_COMMIT, 0, 1, .lines = {{"10/1m"}}}, SLUICE_E_RANGE},
		{{SLUICE_COMMIT, 0, 1, "0123456789012345678901234567890123456789012345678901234567890123x",
	      .lines = {{"10/1m"}}},
	     SLUICE_E_RANGE},
		{{SLUICE_CHARGE, 0, 5, .upto = true, .lines = {{"10/1m", .cost = 2}}}, SLUICE_E_MISUSE},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(ask_quietly(*state, &rows[i].ask).err, rows[i].err);
}

/* A limit that has met a bound before the call has no counter, and no ledger to be looked at. */
static void a_limit_beyond_the_most_is_not_reserved(void **state) {
	struct sluice_decision each[2];
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("100/1h"), NULL), SLUICE_OK);
	for (int way = 0; way < 4; way++) {
		bool observed = way % 2 != 0, reserves = way < 2;
		struct sluice_item items[2] = {
			{.limit = &limit, .key = sl_str("k")},
			{.limit = &limit, .key = sl_str("k"), .bound = SLUICE_BOUND_LIMITS, .observed = observed}};
		struct sluice_call call = {.items = items, .item_count = 2, .cost = 5};
		call.operation = reserves ? SLUICE_RESERVE : SLUICE_CHARGE;
		call.now = sluice_store_now(*state);
		call.ttl_ns = reserves ? (sluice_ns)60000 * ASK_MS : 0;
		call.id = sl_str(observed ? "b" : "a");
		call.each = each;
		assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
		assert_int_equal(call.merged.allowed, observed);
		assert_false(each[1].allowed);
		assert_int_equal(each[1].bound, SLUICE_BOUND_LIMITS);
		assert_true(each[1].reset_after_ns == 0); /* nothing is charged there */
		assert_int_equal(each[0].remaining, (reserves ? 100 : 95) - (observed ? 5 : 0));
	}
}

/* What costs nothing is allowed there too; it is told that nothing remains, whatever becomes of the others. */
static void a_limit_beyond_the_most_lets_a_cost_of_0_pass(void **state) {
	struct sluice_decision each[2];
	struct sluice_limit limit = ask_limit("100/1h");
	for (int way = 0; way < 4; way++) {
		uint32_t first = way < 2 ? 0 : way == 2 ? 100 : 101; /* what the limit beside it is asked for */
		struct sluice_item items[2] = {{.limit = &limit, .key = sl_str("k"), .cost = first},
		                               {.limit = &limit, .key = sl_str("k"), .bound = SLUICE_BOUND_LIMITS}};
		struct sluice_call call = {.items = items, .item_count = 2, .each = each};
		call.operation = way == 1 ? SLUICE_PEEK : SLUICE_CHARGE;
		call.now = sluice_store_now(*state);
		assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
		assert_int_equal(call.merged.allowed, first <= 100);
		assert_true(each[1].allowed && each[1].remaining == 0 && each[1].quota == 100);
		assert_true(each[1].retry_after_ns == 0 && each[1].reset_after_ns == 0);
		assert_int_equal(each[1].bound, SLUICE_BOUND_LIMITS);
		assert_int_equal(each[0].remaining, first < 100 ? 100 : 0);
		assert_int_equal(call.merged.index, first == 0);
	}
}

#define IN_A_STORE(test) cmocka_unit_test_setup_teardown(test, ask_open, ask_close)

/* Of a limit with a name, whose rate may change. */
static struct sluice_decision of_name(struct sluice_store *store, sluice_operation operation, uint64_t at_ms,
                                      uint32_t cost, const char *id, const char *text) {
	struct sluice_limit limit = ask_limit(text);
	sl_rule_name(&limit, sl_str("api"));
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .operation = operation,
	                           .now = (ASK_START_MS + at_ms) * ASK_MS, .id = sl_str(id)};
	call.ttl_ns = operation == SLUICE_RESERVE ? (sluice_ns)60 * S * ASK_MS : 0;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged;
}

/* What has drained of a reservation by the time the rate changes drained at the rate of before. */
static void a_rate_that_changes_keeps_what_was_left(void **state) {
	const char *before = "token-bucket 10/10s burst 100", *after = "token-bucket 20/10s burst 100";
	assert_int_equal(of_name(*state, SLUICE_RESERVE, 0, 50, "a", before).remaining, 50);
	assert_int_equal(of_name(*state, SLUICE_RESERVE, 10 * S, 1, "b", after).remaining, 59);
	/* of 41 that are owed 20 drain, and 20 of what is left go back */
	assert_int_equal(of_name(*state, SLUICE_COMMIT, 20 * S, 0, "a", after).remaining, 99);
}

/* A list of one leaves room in its block for a part of an entry: that is nobody's, whatever stands there from before,
 * and so is what comes after the block. */
static void a_rate_that_changes_leaves_other_blocks_alone(void **state) {
	const char *before = "token-bucket 10/10s burst 100", *after = "token-bucket 20/10s burst 100";
	static const char *const ids[] = {"0", "1", "2", "3", "4"};
	for (size_t i = 0; i < 5; i++)
		ASK(*state, SLUICE_RESERVE, 0, 1, ids[i], 60 * S, .lines = {{before, "gone"}});
	ASK(*state, SLUICE_RESET, 0, 0, .lines = {{before, "gone"}});
	assert_int_equal(of_name(*state, SLUICE_RESERVE, 0, 50, "a", before).remaining, 50);
	for (size_t i = 0; i < 5; i++)
		ASK(*state, SLUICE_RESERVE, 0, 1, ids[i], 60 * S, .lines = {{"fixed-window 9/1m", ids[i]}});
	assert_int_equal(of_name(*state, SLUICE_CHARGE, 10 * S, 1, "", after).remaining, 59);
	assert_null(sluice_store_verify(*state));
	for (size_t i = 0; i < 5; i++) {
		struct asked a = ASK(*state, SLUICE_COMMIT, 10 * S, 0, ids[i], .lines = {{"fixed-window 9/1m", ids[i]}});
		assert_int_equal(a.found, 1);
	}
}

/* What such a charge lets live on is a ledger that lives: one that has expired gives nothing back of the charge. */
static void a_charge_wakes_no_ledger_that_has_expired(void **state) {
	const char *limit = "token-bucket 20/1s burst 30";
	struct sluice_terms terms;
	assert_int_equal(sl_terms_parse(&terms, sl_str("penalty [50ms] after 1 denial in 100ms"), NULL), SLUICE_OK);
	(void)ASK(*state, SLUICE_CHARGE, 0, 9, .lines = {{limit}});
	(void)ASK(*state, SLUICE_RESERVE, 15, 2, "a", 373, .lines = {{limit}});
	(void)ASK(*state, SLUICE_REFUND, 15, 4, .lines = {{limit}});
	(void)ASK(*state, SLUICE_RESERVE, 204, 1, "b", 197, .lines = {{limit}});
	struct asked a = ASK(*state, SLUICE_CHARGE, 494, 2, .lines = {{limit, .terms = &terms}});
	assert_true(a.d.allowed && a.d.remaining == 28);
	assert_int_equal(a.d.reset_after_ns, 100 * ASK_MS);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_STORE(a_commit_corrects_what_was_charged),
		IN_A_STORE(a_commit_above_the_estimate_is_debt),
		IN_A_STORE(what_is_left_open_is_back_at_its_end),
		IN_A_STORE(a_rate_that_changes_keeps_what_was_left),
		IN_A_STORE(a_rate_that_changes_leaves_other_blocks_alone),
		IN_A_STORE(the_same_id_is_charged_once),
		IN_A_STORE(several_limits_are_reserved_or_none),
		IN_A_STORE(limits_that_meet_in_one_counter_are_reserved_once),
		IN_A_STORE(a_policy_mixes_charges_reservations_and_leases),
		IN_A_STORE(a_refund_corrects_what_has_ended_first),
		IN_A_STORE(so_does_one_by_a_quota_of_0),
		IN_A_STORE(a_reset_forgets_reservations_too),
		IN_A_STORE(a_longer_ttl_than_the_window_is_still_found),
		IN_A_STORE(many_reservations_end_at_once),
		IN_A_STORE(a_charge_lets_the_ledger_live_on),
		IN_A_STORE(a_charge_wakes_no_ledger_that_has_expired),
		IN_A_STORE(a_limit_beyond_the_most_is_not_reserved),
		IN_A_STORE(a_limit_beyond_the_most_lets_a_cost_of_0_pass),
		cmocka_unit_test(a_ledger_has_an_end),
		cmocka_unit_test(what_sixteen_change_can_be_undone),
		IN_A_STORE(calls_that_make_no_sense_are_refused),
	};
	return cmocka_run_group_tests_name("reservations in a store", tests, NULL, NULL);
}
