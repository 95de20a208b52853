/* What else may be asked of a call, or said of a limit, through a store, case by case: leases, members, a part of the
 * cost, a request that is retried, denials that are charged, penalties. */
#include "tests/unit/array_host.h"
#include "tests/unit/ask.h"

#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { S = 1000 };

static int64_t retry_ms(const struct asked *a) {
	return sl_ns_to_ms_ceil(a->d.retry_after_ns);
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

#define TWO "concurrency 2 lease 30s"

static struct asked acquire(struct sluice_store *s, uint64_t at_ms, const char *id) {
	return ASK(s, SLUICE_ACQUIRE, at_ms, 1, id, .lines = {{TWO}});
}

static void a_lease_is_held_until_it_is_released_or_ends(void **state) {
	struct asked a = acquire(*state, 0, "a");
	assert_true(a.err == SLUICE_OK && a.d.allowed && a.d.quota == 2 && a.d.remaining == 1 && a.granted == 1);
	assert_true(acquire(*state, 10 * S, "b").d.allowed);
	a = acquire(*state, 20 * S, "c");
	assert_false(a.d.allowed);
	assert_int_equal(retry_ms(&a), 10 * S);
	assert_int_equal(a.granted, 0);
	assert_int_equal(ASK(*state, SLUICE_RELEASE, 20 * S, 0, "x", .lines = {{TWO}}).found, 0);
	a = ASK(*state, SLUICE_RELEASE, 20 * S, 0, "b", .lines = {{TWO}, {"10/1m"}});
	assert_true(a.found == 1 && a.d.remaining == 1);
	assert_int_equal(ASK(*state, SLUICE_RELEASE, 20 * S, 0, "b", .lines = {{TWO}}).found, 0);
	assert_true(acquire(*state, 20 * S, "c").d.allowed);
	assert_false(acquire(*state, 30 * S - 1, "d").d.allowed);
	assert_true(acquire(*state, 30 * S, "d").d.allowed);
	assert_int_equal(ASK(*state, SLUICE_RELEASE, 30 * S, 0, "a", .lines = {{TWO}}).found, 0); /* late */
}

static void a_renewed_lease_ends_later(void **state) {
	struct sluice_limit limit = ask_limit(TWO);
	struct sluice_holder list[4];
	acquire(*state, 0, "a");
	acquire(*state, 1 * S, "00000000000000ff");
	assert_int_equal(ASK(*state, SLUICE_RENEW, 29 * S, 0, "a", .lines = {{TWO}}).found, 1);
	assert_int_equal(ASK(*state, SLUICE_RENEW, 29 * S, 0, "b", .lines = {{TWO}}).found, 0);
	assert_int_equal(sluice_holders(*state, &limit, sl_str("k"), (ASK_START_MS + 29 * S) * ASK_MS, list, 4), 2);
	assert_true(list[0].id == 0xff && list[0].ends_after_ns == (uint64_t)2 * S * ASK_MS && list[0].cost == 1);
	assert_int_equal(list[1].ends_after_ns, (uint64_t)30 * S * ASK_MS);
	assert_int_equal(sluice_holders(*state, &limit, sl_str("k"), (ASK_START_MS + 29 * S) * ASK_MS, list, 1), 2);
	assert_int_equal(list[0].id, 0xff);
	assert_int_equal(sluice_holders(*state, &limit, sl_str("x"), (ASK_START_MS + 29 * S) * ASK_MS, list, 4), 0);
	struct asked a = ASK(*state, SLUICE_PEEK, 31 * S, 2, .lines = {{TWO}});
	assert_true(!a.d.allowed && a.d.remaining == 1 && retry_ms(&a) == 28 * S);
	assert_int_equal(ASK(*state, SLUICE_RENEW, 59 * S, 0, "a", .lines = {{TWO}}).found, 0);
}

static void an_acquire_made_five_times_has_one_lease(void **state) {
	struct ask both = {SLUICE_ACQUIRE, 0, 1, "a", .lines = {{TWO}, {"10/1m"}}};
	struct asked a = ask(*state, &both);
	assert_true(a.d.allowed && !a.repeated && a.each[1].remaining == 9);
	for (int i = 0; i < 4; i++) {
		both.at_ms += S;
		both.cost = 2;
		a = ask_quietly(*state, &both);
		assert_true(a.d.allowed && a.repeated && a.each[0].remaining == 1 && a.each[1].remaining == 9);
	}
	/* held at one of two limits: only the other is charged */
	both.lines[2] = (struct ask_line){.limit = "concurrency 5 lease 1m", .key = "other"};
	a = ask(*state, &both);
	assert_true(a.d.allowed && !a.repeated && a.each[0].remaining == 1 && a.each[2].remaining == 3);
}

/* Who only asks is a stranger: what an id stands for matters to those who would hold, keep or end it. */
static void a_peek_of_leases_knows_nobody(void **state) {
	struct ask peek = {SLUICE_PEEK, 0, 1, "b", .lines = {{TWO}}};
	assert_true(acquire(*state, 0, "a").d.allowed && acquire(*state, 0, "b").d.allowed);
	struct asked a = ask_quietly(*state, &peek);
	assert_false(a.d.allowed);
	assert_int_equal(retry_ms(&a), 30 * S);
}

static void leases_outlive_a_change_of_their_number(void **state) {
	for (int i = 0; i < 8; i++) {
		char id[4] = {(char)('a' + i), 0};
		assert_true(ASK(*state, SLUICE_ACQUIRE, 0, 1, id, .lines = {{"concurrency 8 lease 30s"}}).d.allowed);
	}
	assert_false(acquire(*state, 0, "x").d.allowed);
	for (int i = 0; i < 7; i++) {
		char id[4] = {(char)('a' + i), 0};
		assert_int_equal(ASK(*state, SLUICE_RELEASE, 0, 0, id, .lines = {{TWO}}).found, 1);
	}
	assert_true(acquire(*state, 0, "x").d.allowed);
	assert_false(acquire(*state, 0, "y").d.allowed);
}

static void calls_of_leases_that_make_no_sense_are_refused(void **state) {
	static const struct {
		struct ask ask;
		sluice_err err;
	} rows[] = {
		{{SLUICE_CHARGE, 0, 1, .lines = {{TWO}}}, SLUICE_E_MISUSE},
		{{SLUICE_REFUND, 0, 1, .lines = {{TWO}}}, SLUICE_E_MISUSE},
		{{SLUICE_ACQUIRE, 0, 1, "a", .lines = {{"10/1m"}}}, SLUICE_E_MISUSE},
		{{SLUICE_ACQUIRE, 0, 1, .lines = {{TWO}}}, SLUICE_E_RANGE},
		{{SLUICE_RELEASE, 0, 1, .lines = {{TWO}}}, SLUICE_E_RANGE},
		{{SLUICE_RENEW, 0, 1, "", .lines = {{TWO}}}, SLUICE_E_RANGE},
		{{SLUICE_CHARGE, 0, 1, .lines = {{"distinct 2/1m"}}}, SLUICE_E_MISUSE},
		{{SLUICE_ACQUIRE, 0, 1, "a", .lines = {{TWO}, {"distinct 2/1m"}}}, SLUICE_E_MISUSE},
		{{SLUICE_ACQUIRE, 0, 1, "a", .lines = {{TWO, .ttl_ms = 5}}}, SLUICE_E_MISUSE},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(ask_quietly(*state, &rows[i].ask).err, rows[i].err);
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static struct asked member(struct sluice_store *s, uint64_t at_ms, const char *who) {
	return ASK(s, SLUICE_CHARGE, at_ms, 7, .want_next = true, .lines = {{"distinct 2/1m", .member = who}});
}

static void a_known_member_passes_while_the_limit_is_full(void **state) {
	struct asked a = member(*state, 0, "ann");
	assert_true(a.err == SLUICE_OK && a.d.allowed && a.d.remaining == 1);
	assert_int_equal(a.d.next_after_ns, (uint64_t)60 * S * ASK_MS);
	assert_true(member(*state, 10 * S, "ben").d.allowed);
	a = member(*state, 20 * S, "eve");
	assert_true(!a.d.allowed && retry_ms(&a) == 40 * S);
	assert_true(member(*state, 30 * S, "ann").d.allowed); /* and is refreshed */
	a = member(*state, 40 * S, "eve");
	assert_int_equal(retry_ms(&a), 30 * S);
	a = ASK(*state, SLUICE_PEEK, 40 * S, 1, .lines = {{"distinct 2/1m"}});
	assert_true(!a.d.allowed && a.d.remaining == 0); /* a stranger */
	struct ask peek = {SLUICE_PEEK, 40 * S, 1, .lines = {{"distinct 2/1m", .member = "ann"}}};
	assert_true(ask_quietly(*state, &peek).d.allowed);
	assert_true(member(*state, 70 * S, "eve").d.allowed);
	a = ASK(*state, SLUICE_REFUND, 70 * S, 1, .lines = {{"distinct 2/1m", .member = "eve"}});
	assert_int_equal(a.d.remaining, 1);
}

/* Where members are estimated as well: a stranger gets in when he was told that he would, and not a ms before, however
 * many have to go first. */
static void a_stranger_waits_as_long_as_he_is_told(void **state) {
	static const char *const fewer[] = {"distinct 1900/1h", "distinct 1500/1h", "distinct 1100/1h"};
	const uint64_t now = 300 * S;
	char who[16];
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(who, sizeof who, "%d", i);
		(void)ASK(*state, SLUICE_CHARGE, (uint64_t)i * S / 10, 1, .lines = {{"distinct 2k/1h", .member = who}});
	}
	for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
		struct asked a = ASK(*state, SLUICE_PEEK, now, 1, .lines = {{fewer[i], .member = "stranger"}});
		assert_false(a.d.allowed);
		uint64_t at = now + (a.d.retry_after_ns + ASK_MS - 1) / ASK_MS;
		assert_in_range(at, 3600 * S, 3900 * S);
		assert_false(ASK(*state, SLUICE_PEEK, at - 1, 1, .lines = {{fewer[i], .member = "stranger"}}).d.allowed);
		assert_true(ASK(*state, SLUICE_PEEK, at, 1, .lines = {{fewer[i], .member = "stranger"}}).d.allowed);
	}
}

static struct sluice_decision peek_of_2000(struct sluice_store *s, uint64_t at_ms) {
	return ASK(s, SLUICE_PEEK, at_ms, 1, .want_next = true, .lines = {{"distinct 2k/1h"}}).d;
}

/* Of up to 1,024 the first one's end; where they are estimated when the estimate falls, and not a ms before. */
static void next_is_when_fewer_members_count(void **state) {
	char who[16];
	for (int i = 0; i < 1500; i++) {
		(void)snprintf(who, sizeof who, "%d", i);
		(void)ASK(*state, SLUICE_CHARGE, (uint64_t)i * S, 1, .lines = {{"distinct 2k/1h", .member = who}});
		if (i != 0 && i != 500 && i != 1499)
			continue;
		uint64_t now = (uint64_t)i * S;
		struct sluice_decision d = peek_of_2000(*state, now);
		uint64_t next = now + (d.next_after_ns + ASK_MS - 1) / ASK_MS;
		assert_true(d.remaining < 2000 && (i >= 1024 || next == 3600 * S));
		assert_int_equal(peek_of_2000(*state, next - 1).remaining, d.remaining);
		assert_true(peek_of_2000(*state, next).remaining > d.remaining);
	}
}

/* ---- parts of a cost --------------------------------------------------------------------------------------------- */

static void upto_grants_what_is_left(void **state) {
	struct ask some = {SLUICE_CHARGE, 0, 7, .upto = true, .lines = {{"fixed-window 10/1m"}, {"sliding-log 15/1m"}}};
	struct asked a = ask(*state, &some);
	assert_true(a.d.allowed && a.granted == 7);
	some.operation = SLUICE_PEEK;
	a = ask_quietly(*state, &some);
	assert_true(a.d.allowed && a.granted == 3 && a.d.remaining == 3);
	some.operation = SLUICE_CHARGE;
	a = ask(*state, &some);
	assert_true(a.d.allowed && a.granted == 3 && a.d.remaining == 0 && a.each[1].remaining == 5);
	a = ask_quietly(*state, &some);
	assert_true(!a.d.allowed && a.granted == 0 && retry_ms(&a) == 60 * S);
	assert_int_equal(ask_peek(*state, 0, "sliding-log 15/1m").remaining, 5);
}

/* Of quotas the one that has most left says how much of a cost is granted, and the other limits as ever. */
static void upto_grants_what_a_quota_has_left(void **state) {
	struct sluice_limit limits[] = {ask_limit("fixed-window 5/1h"), ask_limit("fixed-window 10/1h"),
	                                ask_limit("fixed-window 3/1h"), ask_limit("unlimited")};
	struct sluice_item items[] = {{.limit = &limits[0], .key = sl_str("a"), .quota = 1},
	                              {.limit = &limits[1], .key = sl_str("b"), .quota = 1},
	                              {.limit = &limits[2], .key = sl_str("c")},
	                              {.limit = &limits[3], .key = sl_str("d"), .quota = 1}};
	struct sluice_decision each[4];
	struct sluice_call call = {
		.items = items, .item_count = 1, .cost = 5, .now = ASK_START_MS * ASK_MS, .each = each};
	assert_true(sluice_decide(*state, &call) == SLUICE_OK && call.merged.allowed);
	call.upto = true;
	call.item_count = 2;
	for (int i = 0; i < 3; i++) {
		static const uint32_t granted[] = {5, 5, 0};
		assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
		assert_true(call.merged.allowed == (i < 2) && call.granted == granted[i]);
		assert_int_equal(each[1].remaining, i == 0 ? 5 : 0);
	}
	call.item_count = 4; /* the last quota has no end, so the limit that is none says how much */
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
	assert_true(call.merged.allowed && call.granted == 3 && each[2].remaining == 0);
}

static void upto_counts_a_member_once_and_lowers_what_is_held(void **state) {
	struct ask some = {SLUICE_CHARGE, 0, 9, .upto = true, .lines = {{"20/1m"}, {"distinct 2/1m", .member = "a"}}};
	assert_int_equal(ask(*state, &some).granted, 9);
	some.lines[1].member = "b";
	assert_int_equal(ask(*state, &some).granted, 9);
	assert_int_equal(ask(*state, &some).granted, 2);
	some = (struct ask){SLUICE_ACQUIRE, 0, 9, "x", .upto = true, .lines = {{"concurrency 5 lease 1m"}}};
	assert_int_equal(ask(*state, &some).granted, 5);
	assert_int_equal(ask_quietly(*state, &some).granted, 5);
	some = (struct ask){SLUICE_RESERVE, 0, 9, "x", 5 * S, .upto = true, .lines = {{"token-bucket 6/1m"}}};
	assert_int_equal(ask(*state, &some).granted, 6);
	assert_int_equal(ask_quietly(*state, &some).granted, 6);
	some.lines[1] = (struct ask_line){"token-bucket 4/1m", "y"}; /* the first has nothing left, and is held */
	assert_int_equal(ask(*state, &some).granted, 4);
}

/* ---- retries ----------------------------------------------------------------------------------------------------- */

static void a_retried_request_is_charged_once(void **state) {
	struct ask once = {SLUICE_CHARGE, 0, 3, "r-1", .lines = {{"fixed-window 10/1m"}, {"sliding-log 20/10s", "x"}}};
	struct asked a = ask(*state, &once);
	assert_true(a.d.allowed && !a.repeated && a.granted == 3);
	for (once.at_ms = S; once.at_ms < 60 * S; once.at_ms += 9 * S) {
		struct ask_line first = once.lines[0];
		once.lines[0] = once.lines[1], once.lines[1] = first; /* a set */
		a = ask_quietly(*state, &once);
		assert_true(a.d.allowed && a.repeated && a.granted == 3);
	}
	once.at_ms = 60 * S;
	assert_false(ask(*state, &once).repeated);
	once.lines[0].key = once.lines[1].key = "other";
	assert_false(ask(*state, &once).repeated);
	once.lines[0].limit = NULL;
	once.lines[0] = (struct ask_line){.limit = "fixed-window 10/1m"};
	once.lines[1].limit = NULL;
	assert_false(ask(*state, &once).repeated); /* of another set of counters */
}

static void a_retry_is_answered_alike(void **state) {
	struct ask shaped = {SLUICE_CHARGE, 0, 9, "r", .upto = true, .lines = {{"leaky-bucket 60/1m queue 4"}}};
	struct asked a = ask(*state, &shaped);
	assert_true(a.d.allowed && a.granted == 5);
	assert_int_equal(sl_ns_to_ms_ceil(a.d.delay_ns), 4 * S);
	shaped.at_ms = 1500;
	a = ask_quietly(*state, &shaped);
	assert_true(a.repeated && a.d.allowed && a.granted == 5);
	assert_int_equal(sl_ns_to_ms_ceil(a.d.delay_ns), 2500);
	shaped = (struct ask){SLUICE_CHARGE, 0, 9, "denied", .lines = {{"5/1m"}}};
	assert_false(ask_quietly(*state, &shaped).d.allowed); /* and leaves no record */
	shaped.cost = 5;
	a = ask(*state, &shaped);
	assert_true(a.d.allowed && !a.repeated);
}

/* A candidate is charged nothing: there is nothing to recall, nor to record (array_host.c asserts it). */
static void a_request_that_charges_nothing_leaves_no_record(void **state) {
	const struct sluice_limit limit = ask_limit("fixed-window 9/1m");
	const struct sluice_item item = {.limit = &limit, .key = sl_str("k"), .observed = SLUICE_TRIED};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .now = ASK_START_MS * ASK_MS};
	call.id = sl_str("r");
	(void)state;
	array_open();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(array_decide(&call), SLUICE_OK);
		assert_true(call.merged.allowed && !call.repeated && call.granted == 1);
	}
}

/* ---- denials that are charged ------------------------------------------------------------------------------------ */

static void denied_requests_count(void **state) {
	static const struct sluice_terms counts = {.count_denied = true};
	static const char *const notations[] = {"fixed-window 3/1m", "sliding-window 3/1m", "sliding-log 3/1m",
	                                        "sliding-buckets 3/1m precision 1s"};
	for (size_t i = 0; i < 4; i++) {
		struct ask knock = {SLUICE_CHARGE, 0, 1, .lines = {{notations[i], .terms = &counts}}};
		for (; knock.at_ms < 4; knock.at_ms++)
			assert_true(ask(*state, &knock).d.allowed == (knock.at_ms < 3));
		struct asked a = ask(*state, &knock);
		assert_true(!a.d.allowed && a.d.remaining == 0 && a.granted == 0);
		knock.operation = SLUICE_PEEK;
		assert_false(ask_quietly(*state, &knock).d.allowed);
	}
	/* a log keeps the newest Q: whoever goes on is never let in */
	struct ask knock = {SLUICE_CHARGE, 0, 1, .lines = {{"sliding-log 2/10s", .terms = &counts}}};
	for (; knock.at_ms < 100 * S; knock.at_ms += 4 * S)
		assert_true(ask(*state, &knock).d.allowed == (knock.at_ms < 8 * S));
	struct asked a = ask(*state, &knock);
	assert_int_equal(retry_ms(&a), 6 * S);
}

static void a_limit_counts_what_others_deny(void **state) {
	static const struct sluice_terms counts = {.count_denied = true};
	struct ask both = {SLUICE_CHARGE, 0, 1, .lines = {{"fixed-window 5/1m", .terms = &counts}, {"1/1m", "x"}}};
	struct asked a = ask(*state, &both);
	assert_int_equal(a.each[0].remaining, 4);
	a = ask(*state, &both);
	assert_true(!a.d.allowed && a.each[0].allowed && a.each[0].remaining == 3);
	assert_int_equal(ask_peek(*state, 0, "fixed-window 5/1m").remaining, 3);
	/* observed: its own denial counts though the request is allowed; tried: never */
	both = (struct ask){SLUICE_CHARGE, 0, 1,
	                    .lines = {{"fixed-window 1/1m", "o", .observed = 1, .terms = &counts},
	                              {"fixed-window 9/1h", "t", .observed = 2, .terms = &counts}}};
	for (int i = 0; i < 3; i++)
		assert_true(ask(*state, &both).d.allowed);
	a = ASK(*state, SLUICE_PEEK, 0, 1, .lines = {{"fixed-window 9/1m", "o"}, {"fixed-window 9/1h", "t"}});
	assert_true(a.each[0].remaining == 6 && a.each[1].remaining == 9);
}

/* ---- penalties --------------------------------------------------------------------------------------------------- */

static const struct sluice_terms penalty = {.penalty_count = 2,
                                            .after = 3,
                                            .within_ns = (sluice_ns)60 * S * ASK_MS,
                                            .forgive_ns = (sluice_ns)3600 * S * ASK_MS,
                                            .penalties_ns = {(sluice_ns)60 * S * ASK_MS, (sluice_ns)600 * S *ASK_MS}};

static struct asked knock(struct sluice_store *s, uint64_t at_ms) {
	return ASK(s, SLUICE_CHARGE, at_ms, 1, .lines = {{"fixed-window 1/10s", .terms = &penalty}});
}

static struct sluice_standing stand(struct sluice_store *s, uint64_t at_ms) {
	struct sluice_limit limit = ask_limit("fixed-window 1/10s");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k"), .terms = &penalty};
	return sluice_standing(s, &item, (ASK_START_MS + at_ms) * ASK_MS);
}

static void who_keeps_knocking_is_shut_out(void **state) {
	assert_true(knock(*state, 0).d.allowed);
	for (int i = 1; i < 3; i++) {
		struct asked a = knock(*state, (uint64_t)i * S);
		assert_true(!a.d.allowed && a.penalized == 0 && retry_ms(&a) == (10 - i) * S);
	}
	assert_int_equal(stand(*state, 2 * S).denials, 2);
	struct asked a = knock(*state, 3 * S);
	assert_true(!a.d.allowed && a.penalized == 1 && retry_ms(&a) == 60 * S);
	struct ask again = {SLUICE_CHARGE, 20 * S, 1, .lines = {{"fixed-window 1/10s", .terms = &penalty}}};
	a = ask_quietly(*state, &again); /* the window is free again, the client is not; it prolongs nothing */
	assert_true(!a.d.allowed && a.penalized == 0 && retry_ms(&a) == 43 * S && a.d.remaining == 0);
	assert_int_equal(stand(*state, 20 * S).ends_after_ns, (sluice_ns)43 * S * ASK_MS);
	again.at_ms = 63 * S - 1;
	assert_false(ask_quietly(*state, &again).d.allowed);
	assert_true(knock(*state, 63 * S).d.allowed);
	for (int i = 1; i <= 3; i++)
		a = knock(*state, 63 * S + (uint64_t)i);
	assert_true(a.penalized == 1 && retry_ms(&a) == 600 * S);
	assert_int_equal(stand(*state, 64 * S).level, 2);
	assert_int_equal(ASK(*state, SLUICE_RESET, 64 * S, 0, .lines = {{"fixed-window 1/10s"}}).forgotten, 1);
	assert_int_equal(stand(*state, 64 * S).level, 0);
	assert_true(knock(*state, 64 * S).d.allowed);
}

static void only_a_limits_own_denials_strike(void **state) {
	struct ask both = {SLUICE_CHARGE, 0, 1, .lines = {{"9/1h", .terms = &penalty}, {"1/1h", "x"}}};
	for (; both.at_ms < 20; both.at_ms++)
		assert_true(ask(*state, &both).penalized == 0);
	assert_int_equal(ask_peek(*state, 0, "9/1h").remaining, 8);
	/* observed: shut out alone */
	both =
		(struct ask){SLUICE_CHARGE, 0, 1, .lines = {{"1/1h", "o", .observed = 1, .terms = &penalty}, {"99/1h", "y"}}};
	for (int i = 0; i < 4; i++) {
		struct asked a = ask(*state, &both);
		assert_true(a.d.allowed && a.penalized == (i == 3));
	}
}

/* Two limits in one counter, whose penalties last for a minute and for a second. */
static void the_longer_penalty_of_a_counter_is_not_ended_by_the_shorter(void **state) {
	static const struct sluice_terms brief = {
		.penalty_count = 1, .after = 1, .within_ns = ASK_MS, .penalties_ns = {(sluice_ns)S * ASK_MS}};
	struct ask both = {
		SLUICE_CHARGE,
		5 * S, /* the window still denies */
		1,
		.lines = {{"fixed-window 1/10s", .terms = &brief}, {"fixed-window 1/10s", .terms = &penalty}}};
	for (int i = 0; i < 4; i++)
		knock(*state, 0);
	assert_false(ask_quietly(*state, &both).d.allowed);
	assert_int_equal(stand(*state, 5 * S).ends_after_ns, (sluice_ns)55 * S * ASK_MS);
	both.lines[1].observed = SLUICE_OBSERVED; /* whom only that one locks out is noted */
	assert_int_equal(ask(*state, &both).penalized, 1);
}

static void a_penalty_outlives_counter_and_restart_of_its_users(void **state) {
	struct sluice_store *s = *state;
	for (int i = 0; i < 4; i++)
		knock(s, (uint64_t)i);
	for (int i = 0; i < 3000; i++) { /* others come and go */
		char key[16];
		snprintf(key, sizeof key, "%d", i);
		ASK(s, SLUICE_CHARGE, 30 * S, 1, .lines = {{"fixed-window 9/10s", key}});
	}
	assert_false(knock(s, 60 * S + 2).d.allowed);
	assert_true(knock(s, 60 * S + 3).d.allowed);
}

/* Terms that no text says, but a program may: they would be kept beyond the room that there is. */
static void terms_out_of_range_are_refused(void **state) {
	static const struct sluice_terms good = {
		.penalty_count = 2, .after = 64, .within_ns = 1, .penalties_ns = {1000, 2000}};
	struct sluice_terms bad[6];
	for (int i = 0; i < 6; i++)
		bad[i] = good;
	bad[0].penalty_count = SLUICE_PENALTIES_MAX + 1;
	bad[1].after = 65;
	bad[2].after = 0;
	bad[3].within_ns = 0;
	bad[4].penalties_ns[1] = 1000;
	bad[5].penalties_ns[0] = 0;
	assert_int_equal(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"9/1m", .terms = &good}}).err, SLUICE_OK);
	for (int i = 0; i < 6; i++) {
		struct sluice_limit limit;
		assert_int_equal(sluice_limit_parse(&limit, sl_str("9/1m"), NULL), SLUICE_OK);
		struct sluice_item item = {.limit = &limit, .key = sl_str("k"), .terms = &bad[i]};
		assert_int_equal(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"9/1m", .terms = &bad[i]}}).err, SLUICE_E_RANGE);
		assert_int_equal(sluice_standing(*state, &item, 0).level, 0);
	}
}

/* Beside another limit, with or without one more that has a home of its own: the short way and the engine. */
static void a_candidate_sees_what_its_limit_was_charged(void **state) {
	static const char *const others[] = {"fixed-window 50/1m", "unlimited"};
	for (size_t i = 0; i < 2; i++) {
		const char *key = others[i];
		struct asked a = ASK(*state, SLUICE_CHARGE, 0, 30,
		                     .lines = {{"fixed-window 100/1m", key},
		                               {"fixed-window 40/1m", key, .observed = SLUICE_TRIED},
		                               {others[i], "elsewhere"}});
		assert_true(a.d.allowed && a.each[0].remaining == 70 && a.each[1].allowed && a.each[1].remaining == 10);
		a = ASK(*state, SLUICE_CHARGE, 1, 20,
		        .lines = {{"fixed-window 100/1m", key},
		                  {"fixed-window 40/1m", key, .observed = SLUICE_TRIED},
		                  {others[i], "elsewhere"}});
		assert_true(a.d.allowed && a.each[0].remaining == 50 && !a.each[1].allowed && a.each[1].remaining == 0);
		a = ASK(*state, SLUICE_CHARGE, 2, 60,
		        .lines = {{"fixed-window 100/1m", key}, {"fixed-window 40/1m", key, .observed = SLUICE_TRIED}});
		assert_true(!a.d.allowed && a.each[0].remaining == 50 && !a.each[1].allowed && a.each[1].remaining == 0);
	}
}

/* It is told when somebody new is admitted: whom the other limit has put into their counter it would admit at once. */
static void a_candidate_that_denies_tells_when_a_place_is_free(void **state) {
	struct asked a = ASK(*state, SLUICE_CHARGE, 0, 2, .lines = {{"distinct 3/1m", .member = "ann"}});
	for (uint8_t seen = SLUICE_OBSERVED; seen <= SLUICE_TRIED; seen++) {
		a = ASK(*state, SLUICE_CHARGE, seen * 1000, 2,
		        .lines = {{"distinct 3/1m", .member = seen == SLUICE_TRIED ? "bob" : "eve"},
		                  {"distinct 1/1m", .member = seen == SLUICE_TRIED ? "bob" : "eve", .observed = seen}});
		assert_true(a.d.allowed && !a.each[1].allowed && a.each[1].remaining == 0);
		assert_int_equal(a.each[1].retry_after_ns, (uint64_t)60000 * ASK_MS);
	}
	a = ASK(*state, SLUICE_ACQUIRE, 0, 2, "job",
	        .lines = {{"concurrency 4 lease 9s", "jobs"},
	                  {"concurrency 1 lease 9s", "jobs", .observed = SLUICE_OBSERVED}});
	assert_true(a.d.allowed && !a.each[1].allowed && a.each[1].retry_after_ns == SLUICE_NEVER);
	a = ASK(*state, SLUICE_ACQUIRE, 1000, 1, "other",
	        .lines = {{"concurrency 4 lease 9s", "jobs"},
	                  {"concurrency 1 lease 9s", "jobs", .observed = SLUICE_TRIED}});
	assert_true(a.d.allowed && !a.each[1].allowed && a.each[1].retry_after_ns == (uint64_t)9000 * ASK_MS);
}

#define IN_A_STORE(test) cmocka_unit_test_setup_teardown(test, ask_open, ask_close)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_STORE(a_lease_is_held_until_it_is_released_or_ends),
		IN_A_STORE(a_renewed_lease_ends_later),
		IN_A_STORE(an_acquire_made_five_times_has_one_lease),
		IN_A_STORE(a_peek_of_leases_knows_nobody),
		IN_A_STORE(leases_outlive_a_change_of_their_number),
		IN_A_STORE(calls_of_leases_that_make_no_sense_are_refused),
		IN_A_STORE(a_known_member_passes_while_the_limit_is_full),
		IN_A_STORE(a_stranger_waits_as_long_as_he_is_told),
		IN_A_STORE(next_is_when_fewer_members_count),
		IN_A_STORE(a_candidate_that_denies_tells_when_a_place_is_free),
		IN_A_STORE(upto_grants_what_is_left),
		IN_A_STORE(upto_grants_what_a_quota_has_left),
		IN_A_STORE(upto_counts_a_member_once_and_lowers_what_is_held),
		IN_A_STORE(a_retried_request_is_charged_once),
		IN_A_STORE(a_retry_is_answered_alike),
		cmocka_unit_test(a_request_that_charges_nothing_leaves_no_record),
		IN_A_STORE(a_candidate_sees_what_its_limit_was_charged),
		IN_A_STORE(denied_requests_count),
		IN_A_STORE(a_limit_counts_what_others_deny),
		IN_A_STORE(who_keeps_knocking_is_shut_out),
		IN_A_STORE(only_a_limits_own_denials_strike),
		IN_A_STORE(the_longer_penalty_of_a_counter_is_not_ended_by_the_shorter),
		IN_A_STORE(a_penalty_outlives_counter_and_restart_of_its_users),
		IN_A_STORE(terms_out_of_range_are_refused),
	};
	return cmocka_run_group_tests_name("leases, members, parts, retries and terms in a store", tests, NULL, NULL);
}
