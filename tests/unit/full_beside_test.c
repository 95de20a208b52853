/* A full store, and what stands beside counters: a call that finds no room has done nothing, at whatever limit; what
 * was evicted is gone, and nobody else pays for it. */
#include "store/slot.h"
#include "tests/unit/ask.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { S = 1000 };

/* Who is denied once is shut out for a minute. */
static const struct sluice_terms once = {.penalty_count = 1,
                                         .after = 1,
                                         .within_ns = (sluice_ns)60 * S * ASK_MS,
                                         .forgive_ns = (sluice_ns)60 * S * ASK_MS,
                                         .penalties_ns = {(sluice_ns)60 * S * ASK_MS}};

static struct sluice_store *small_store(uint32_t blocks_percent) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20, .blocks_percent = blocks_percent};
	struct sluice_store *store;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	return store;
}

/* One log that grows no more; it was used most, so it stays. */
static void a_reservation_without_room_does_nothing(void **state) {
	struct sluice_store *s = small_store(1);
	struct asked a;
	uint64_t at = 0;
	(void)state;
	for (;; at++) {
		a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{"sliding-log 100000/1h", "big"}});
		assert_int_equal(a.err, SLUICE_OK);
		if (!a.d.allowed)
			break;
	}
	assert_int_equal(a.d.bound, SLUICE_BOUND_ROOM);
	sluice_ns reset_ns = a.d.reset_after_ns;
	struct sluice_decision before = ask_peek(s, at, "fixed-window 9/1h");
	/* with it in one call: the first has room, the second has none, and has to be moved */
	a = ASK(s, SLUICE_RESERVE, at, 2, "a", 60 * S,
	        .lines = {{"fixed-window 9/1h"}, {"sliding-log 100000/1h", "big"}, {"token-bucket 5/1h", "t"}});
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.index == 1 && a.d.bound == SLUICE_BOUND_ROOM);
	assert_true(a.each[0].allowed && a.each[2].allowed);
	assert_true(a.each[1].reset_after_ns == reset_ns); /* of what stands, since nothing was charged */
	a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{"fixed-window 9/1h"}, {"sliding-log 100000/1h", "big"}});
	assert_true(!a.d.allowed && a.each[1].bound == SLUICE_BOUND_ROOM && a.each[1].reset_after_ns == reset_ns);
	assert_int_equal(ask_peek(s, at, "fixed-window 9/1h").remaining, before.remaining);
	assert_int_equal(ASK(s, SLUICE_COMMIT, at, 0, "a", .lines = {{"fixed-window 9/1h"}}).found, 0);
	assert_int_equal(
		ASK(s, SLUICE_RESET, at, 0, .lines = {{"fixed-window 9/1h"}, {"token-bucket 5/1h", "t"}}).forgotten, 0);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Reserves 2 of a log and of a window of 99, with 10 charged there; then the log grows until `end`, or until it can't
 * be written anew: nor can what is reserved of it be corrected. */
static struct sluice_store *store_with_a_log_until(uint64_t end, uint64_t *at) {
	struct sluice_store *s = small_store(1);
	struct asked a = ASK(s, SLUICE_CHARGE, 0, 10, .lines = {{"fixed-window 99/1d"}});
	assert_true(a.err == SLUICE_OK && a.d.allowed);
	a = ASK(s, SLUICE_RESERVE, 0, 2, "a", 60 * S,
	        .lines = {{"fixed-window 99/1d"}, {"sliding-log 100000/1h", "big"}});
	for (*at = 1; a.err == SLUICE_OK && a.d.allowed && *at < end; ++*at)
		a = ASK(s, SLUICE_CHARGE, *at, 1, .lines = {{"sliding-log 100000/1h", "big"}});
	assert_true(a.err == SLUICE_OK && (*at == end || a.d.bound == SLUICE_BOUND_ROOM) && *at < 60 * S);
	return s;
}

static struct sluice_store *store_with_a_log_that_stays(uint64_t *at) {
	return store_with_a_log_until(60 * S, at);
}

static uint32_t big_remaining(struct sluice_store *s, uint64_t at) {
	return ASK(s, SLUICE_PEEK, at, 0, .lines = {{"sliding-log 100000/1h", "big"}}).d.remaining;
}

/* Where there is room the estimate is corrected, elsewhere it stays charged, and each is done once. */
static void a_commit_without_room_keeps_the_estimate(void **state) {
	static const struct {
		uint32_t actual, window_remaining;
	} rows[] = {{0, 89}, {2, 87}, {5, 84}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t at;
		struct sluice_store *s = store_with_a_log_that_stays(&at);
		uint32_t big = big_remaining(s, at);
		for (int again = 0; again < 2; again++) {
			struct asked a = ASK(s, SLUICE_COMMIT, at, rows[i].actual, "a",
			                     .lines = {{"fixed-window 99/1d"}, {"sliding-log 100000/1h", "big"}});
			assert_true(a.err == SLUICE_OK && a.found == (again ? 0 : 2));
			assert_int_equal(a.each[0].remaining, rows[i].window_remaining);
			assert_int_equal(big_remaining(s, at), big);
		}
		assert_int_equal(big_remaining(s, 61 * S), big); /* committed: its end gives back nothing */
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* What is above the estimate is charged as of now where there is room for that, as for one more entry of a log. */
static void a_commit_without_room_charges_what_is_above(void **state) {
	static const struct {
		uint32_t actual, above;
	} rows[] = {{0, 0}, {1, 0}, {2, 0}, {3, 1}, {5, 3}};
	uint64_t end, at;
	(void)state;
	sluice_store_close(store_with_a_log_that_stays(&end));
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_store *s = store_with_a_log_until(end - 9, &at);
		uint32_t big = big_remaining(s, at) - rows[i].above;
		for (int again = 0; again < 2; again++) {
			struct asked a = ASK(s, SLUICE_COMMIT, at, rows[i].actual, "a",
			                     .lines = {{"fixed-window 99/1d"}, {"sliding-log 100000/1h", "big"}});
			assert_true(a.err == SLUICE_OK && a.found == (again ? 0 : 2));
			assert_int_equal(big_remaining(s, at), big);
		}
		assert_int_equal(big_remaining(s, 61 * S), big); /* committed: its end gives back nothing */
		assert_int_equal(big_remaining(s, 3600 * S), 100000 - (at - 1) - rows[i].above);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* What has ended of the log, and can't be written so, stays; the other limit is refunded all the same. */
static void a_refund_without_room_leaves_out_what_it_cannot_settle(void **state) {
	uint64_t at;
	struct sluice_store *s = store_with_a_log_that_stays(&at);
	uint32_t big = big_remaining(s, 61 * S);
	(void)state;
	assert_int_equal(big, big_remaining(s, at) + 2);
	struct asked a = ASK(s, SLUICE_REFUND, 61 * S, 3,
	                     .lines = {{"fixed-window 99/1d"}, {"sliding-log 100000/1h", "big"}});
	assert_int_equal(a.err, SLUICE_OK);
	assert_int_equal(a.each[0].remaining, 92);
	assert_int_equal(big_remaining(s, 61 * S), big);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* A denial that could not be noted is a denial. */
static void a_denial_stands_without_room_for_its_strike(void **state) {
	static const struct sluice_terms terms = {.count_denied = true,
	                                          .penalty_count = 1,
	                                          .after = 1,
	                                          .within_ns = (sluice_ns)60 * S * ASK_MS,
	                                          .forgive_ns = (sluice_ns)60 * S * ASK_MS,
	                                          .penalties_ns = {(sluice_ns)60 * S * ASK_MS}};
	struct sluice_store *s = small_store(1);
	struct asked a;
	uint64_t at = 0;
	(void)state;
	do
		a = ASK(s, SLUICE_CHARGE, at++, 1, .lines = {{"sliding-log 100000/1h", "big"}});
	while (a.d.allowed);
	for (uint32_t i = 0; s->blocks->free_units != 0 && i < 1000; i++) { /* and what is left of them */
		char key[16];
		snprintf(key, sizeof key, "%" PRIu32, i);
		ASK(s, SLUICE_CHARGE, at, 1, .lines = {{"sliding-log 1/1h", key}});
	}
	assert_int_equal(ASK(s, SLUICE_CHARGE, at, 9, .lines = {{"fixed-window 9/1h", .terms = &terms}}).err, SLUICE_OK);
	a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{"fixed-window 9/1h", .terms = &terms}});
	assert_int_equal(a.err, SLUICE_OK);
	assert_false(a.d.allowed);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Has every free slot claimed by others, who have published nothing yet. */
static void claim_the_rest(struct sluice_store *s) {
	for (uint64_t at = 0; at < s->page_count * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &s->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
		if (slot->tag == 0)
			slot->tag = (uint64_t)(at + 1) << SL_TAG_PRINT_SHIFT |
			            (uint64_t)(bucket - s->pages[at / SL_PAGE_SLOTS].buckets) << SL_TAG_HOME_SHIFT |
			            SL_LIFE_FRESH;
	}
}

/* And lets them go. */
static void unclaim_the_rest(struct sluice_store *s) {
	for (uint64_t at = 0; at < s->page_count * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &s->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
		if ((slot->tag & SL_LIFE_FRESH) == SL_LIFE_FRESH)
			slot->tag = 0;
	}
}

/* A counter that is there is charged, whatever finds no place beside it: a strike and the record of a request are done
 * without, and a reservation is denied. */
static void without_a_slot_the_counter_goes_on(void **state) {
	struct sluice_store *s = small_store(50);
	struct asked a = ASK(s, SLUICE_CHARGE, 0, 2, .lines = {{"fixed-window 9/1h"}});
	(void)state;
	assert_true(a.d.allowed);
	claim_the_rest(s);
	for (uint32_t i = 0; i < 2; i++) { /* nobody knows that it was made before */
		a = ASK(s, SLUICE_CHARGE, 1, 1, "id", .lines = {{"fixed-window 9/1h"}});
		assert_true(a.err == SLUICE_OK && a.d.allowed && !a.repeated && a.d.remaining == 6 - i);
	}
	a = ASK(s, SLUICE_CHARGE, 1, 9, .lines = {{"fixed-window 9/1h", .terms = &once}});
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.penalized == 0);
	assert_true(ASK(s, SLUICE_CHARGE, 2, 1, .lines = {{"fixed-window 9/1h", .terms = &once}}).d.allowed);
	a = ASK(s, SLUICE_RESERVE, 3, 1, "r", 60 * S, .lines = {{"fixed-window 9/1h"}});
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.bound == SLUICE_BOUND_ROOM);
	assert_int_equal(ask_peek(s, 4, "fixed-window 9/1h").remaining, 4);
	unclaim_the_rest(s);
	assert_int_equal(ASK(s, SLUICE_COMMIT, 4, 0, "r", .lines = {{"fixed-window 9/1h"}}).found, 0);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* A key gets no quota of its own, and is counted as none. */
static void without_a_slot_no_quota_is_set(void **state) {
	struct sluice_limit of = ask_limit("9/1h"), own = ask_limit("20/1h");
	struct sluice_override_request request = {.limit = &of, .key = sl_str("k"), .own = &own};
	struct sluice_error error;
	struct sluice_store *s = small_store(50);
	(void)state;
	claim_the_rest(s);
	assert_int_equal(sluice_override_set(s, &request, ASK_START_MS * ASK_MS, &error), SLUICE_E_FULL);
	assert_int_equal(s->header->overrides + s->header->override_units, 0);
	assert_int_equal(ask_peek(s, 0, "9/1h").quota, 9);
	unclaim_the_rest(s);
	assert_int_equal(sluice_override_set(s, &request, ASK_START_MS * ASK_MS, &error), SLUICE_OK);
	assert_int_equal(ask_peek(s, 0, "9/1h").quota, 20);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Logs of keys until no block is free. */
static void fill_blocks(struct sluice_store *s) {
	for (uint32_t i = 0; s->blocks->free_units != 0 && i < 10000; i++) {
		char key[16];
		snprintf(key, sizeof key, "%" PRIu32, i);
		ASK(s, SLUICE_CHARGE, 0, 1, .lines = {{"sliding-log 100/1h", key}});
	}
}

/* Where logs have all blocks it is one of them that goes. */
static void a_quota_of_a_key_makes_room(void **state) {
	struct sluice_limit of = ask_limit("9/1h"), own = ask_limit("20/1h");
	struct sluice_override_request request = {.limit = &of, .key = sl_str("k"), .own = &own};
	struct sluice_store *s = small_store(1);
	struct sluice_store_stats before, stats;
	(void)state;
	fill_blocks(s);
	sluice_store_stats(s, &before);
	assert_int_equal(before.block_bytes_free, 0);
	assert_int_equal(sluice_override_set(s, &request, ASK_START_MS * ASK_MS, NULL), SLUICE_OK);
	sluice_store_stats(s, &stats);
	assert_int_equal(stats.evicted - before.evicted, 1);
	assert_int_equal(ask_peek(s, 0, "9/1h").quota, 20);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Nor is one reservation more than are listed one by one, where what is bundled has no place. */
static void without_a_slot_for_bundles_one_more_is_denied(void **state) {
	struct sluice_store *s = small_store(50);
	struct asked a = {.granted = 0};
	uint32_t open = 0;
	(void)state;
	assert_true(ASK(s, SLUICE_RESERVE, 0, 1, "first", 60 * S, .lines = {{"fixed-window 1k/1h"}}).d.allowed);
	claim_the_rest(s);
	do {
		char id[16];
		snprintf(id, sizeof id, "%" PRIu32, open++);
		a = ASK(s, SLUICE_RESERVE, 0, 1, id, 60 * S, .lines = {{"fixed-window 1k/1h"}});
	} while (a.d.allowed && open < 1000);
	assert_true(a.err == SLUICE_OK && a.d.bound == SLUICE_BOUND_ROOM);
	assert_in_range(open, 60, 70);
	assert_int_equal(ask_peek(s, 0, "fixed-window 1k/1h").remaining, 1000 - open);
	unclaim_the_rest(s);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Nobody's counter makes room for a strike that is in the same call: the denial stands, and is not noted. */
static void a_strike_takes_nothing_of_its_own_call(void **state) {
	struct sluice_store *s = small_store(1);
	struct sluice_limit of = ask_limit("9/1h"), own = ask_limit("20/1h");
	static const char keys[][2] = {"a", "b", "c", "d", "e", "f"};
	struct ask all = {SLUICE_CHARGE, 0, 1, .lines = {{"fixed-window 9/1h", "other"}}};
	struct asked a;
	(void)state;
	for (int i = 0; i < 6; i++) { /* each takes what those before it have left, which are in the same call */
		all.lines[1 + i] =
			(struct ask_line){"sliding-log 100000/1h", keys[i], .observed = SLUICE_OBSERVED, .cost = 1};
		all.cost = 0;
		do
			all.at_ms++, a = ask(s, &all);
		while (a.each[1 + i].allowed);
	}
	for (uint32_t i = 0; s->blocks->free_units != 0 && i < 10000; i++) { /* the rest is whose nobody evicts */
		char key[16];
		struct sluice_override_request request = {.limit = &of, .key = {key, 0}, .own = &own};
		request.key.len = (size_t)snprintf(key, sizeof key, "%" PRIu32, i);
		assert_int_equal(sluice_override_set(s, &request, ASK_START_MS * ASK_MS, NULL), SLUICE_OK);
	}
	assert_int_equal(s->blocks->free_units, 0);
	all.cost = 10;
	all.lines[0] = (struct ask_line){"fixed-window 9/1h", .terms = &once};
	a = ask(s, &all);
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.penalized == 0);
	assert_true(ASK(s, SLUICE_CHARGE, all.at_ms, 9, .lines = {all.lines[0]}).d.allowed); /* nor shut out */
	all.cost = 1;
	all.lines[1].limit = NULL; /* without them there is room to be made */
	a = ask(s, &all);
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.penalized == 1);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Where somebody can make room a strike has it, and the penalty holds; nobody's counter goes in vain. */
static void a_strike_makes_room(void **state) {
	static const struct sluice_terms terms = {.penalty_count = 1,
	                                          .after = 6,
	                                          .within_ns = (sluice_ns)60 * S * ASK_MS,
	                                          .forgive_ns = (sluice_ns)60 * S * ASK_MS,
	                                          .penalties_ns = {(sluice_ns)60 * S * ASK_MS}};
	struct sluice_store *s = small_store(1);
	struct sluice_store_stats before, stats;
	(void)state;
	fill_blocks(s);
	assert_int_equal(s->blocks->free_units, 0);
	assert_int_equal(ASK(s, SLUICE_CHARGE, 0, 9, .lines = {{"fixed-window 9/1h", .terms = &terms}}).err, SLUICE_OK);
	sluice_store_stats(s, &before);
	for (uint64_t i = 1; i <= 6; i++) { /* the first needs a unit, the fifth two that stand together */
		struct asked a = ASK(s, SLUICE_CHARGE, i, 1, .lines = {{"fixed-window 9/1h", .terms = &terms}});
		assert_true(a.err == SLUICE_OK && !a.d.allowed);
		assert_int_equal(a.penalized, i == 6);
	}
	sluice_store_stats(s, &stats);
	assert_in_range(stats.evicted - before.evicted, 2, 6);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Records of retried requests go first, and leave nothing in the sketch that a stranger would start from. */
static void a_flood_of_records_costs_strangers_nothing(void **state) {
	struct sluice_store *s = small_store(50);
	struct sluice_store_stats stats;
	(void)state;
	for (uint32_t i = 0; i < 60000; i++) {
		char id[16];
		snprintf(id, sizeof id, "%" PRIu32, i);
		struct asked a = ASK(s, SLUICE_CHARGE, i / 100, 1, id, .lines = {{"fixed-window 4000000/1d"}});
		assert_true(a.err == SLUICE_OK && a.d.allowed && !a.repeated);
	}
	sluice_store_stats(s, &stats);
	assert_true(stats.evicted > 30000);
	assert_int_equal(ask_peek(s, 600, "fixed-window 4000000/1d").remaining, 4000000 - 60000);
	for (uint32_t i = 0; i < 2000; i++) {
		char key[16];
		snprintf(key, sizeof key, "new %" PRIu32, i);
		struct asked a = ASK(s, SLUICE_PEEK, 600, 1, .lines = {{"fixed-window 40/1d", key}});
		assert_int_equal(a.d.remaining, 40);
	}
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Whatever of counters and ledgers a flood displaces, nobody has more than his quota: what is admitted while a
 * reservation may be open, and what it held, stay below. */
static void evicted_ledgers_leave_estimates_charged(void **state) {
	struct sluice_store *s = small_store(10);
	uint32_t found = 0, forgotten = 0, keys = 3000;
	(void)state;
	for (uint32_t i = 0; i < keys; i++) {
		char key[16];
		snprintf(key, sizeof key, "%" PRIu32, i);
		struct asked a = ASK(s, SLUICE_RESERVE, i / 10, 8, "r", 600 * S, .lines = {{"fixed-window 10/1d", key}});
		assert_true(a.err == SLUICE_OK && a.d.allowed);
	}
	for (uint32_t i = 0; i < keys; i++) {
		char key[16];
		struct asked a, c;
		snprintf(key, sizeof key, "%" PRIu32, i);
		a = ASK(s, SLUICE_PEEK, 400, 1, .lines = {{"fixed-window 10/1d", key}});
		assert_true(a.d.remaining <= 2);
		c = ASK(s, SLUICE_COMMIT, 400, 0, "r", .lines = {{"fixed-window 10/1d", key}});
		assert_int_equal(c.err, SLUICE_OK);
		assert_true(c.d.remaining == (c.found != 0 ? 10 : a.d.remaining) || c.d.remaining <= 2);
		found += c.found;
		forgotten += c.found == 0;
	}
	printf("%" PRIu32 " ledgers stayed, %" PRIu32 " went (no seed)\n", found, forgotten);
	assert_true(found > 0 && forgotten > 0);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reservation_without_room_does_nothing),
		cmocka_unit_test(a_commit_without_room_keeps_the_estimate),
		cmocka_unit_test(a_commit_without_room_charges_what_is_above),
		cmocka_unit_test(a_refund_without_room_leaves_out_what_it_cannot_settle),
		cmocka_unit_test(a_denial_stands_without_room_for_its_strike),
		cmocka_unit_test(without_a_slot_the_counter_goes_on),
		cmocka_unit_test(without_a_slot_no_quota_is_set),
		cmocka_unit_test(a_quota_of_a_key_makes_room),
		cmocka_unit_test(without_a_slot_for_bundles_one_more_is_denied),
		cmocka_unit_test(a_strike_takes_nothing_of_its_own_call),
		cmocka_unit_test(a_strike_makes_room),
		cmocka_unit_test(a_flood_of_records_costs_strangers_nothing),
		cmocka_unit_test(evicted_ledgers_leave_estimates_charged),
	};
	return cmocka_run_group_tests_name("what stands beside counters in a full store", tests, NULL, NULL);
}
