/* A full store, and keys that are locked out: no flood lets one out before its time, and no number of them takes the
 * store from others. */
#include "algo/terms.h"
#include "store/blocks.h"
#include "tests/unit/ask.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { S = 1000, HOUR = 3600 * S, KEYS = 25000, QUOTA = 5, DENIALS = 3, LOCKED_OUT = QUOTA + DENIALS };

/* Who is denied three times in a minute is shut out for an hour. */
static const struct sluice_terms hour = {.penalty_count = 1,
                                         .after = DENIALS,
                                         .within_ns = (sluice_ns)60 * S * ASK_MS,
                                         .forgive_ns = (sluice_ns)HOUR * ASK_MS,
                                         .penalties_ns = {(sluice_ns)HOUR * ASK_MS}};

static const char *const limits[] = {"sliding-log 5/1m", "fixed-window 5/1m", "token-bucket 5/1m"};
enum { LIMITS = sizeof limits / sizeof *limits };

static struct sluice_store *small_store(uint32_t blocks_percent) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20, .blocks_percent = blocks_percent};
	struct sluice_store *store;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	return store;
}

/* A key asks so many times, each at the next millisecond. */
static struct asked asks(struct sluice_store *s, const char *limit, const char *key, uint64_t at_ms, int times) {
	struct asked a = {.granted = 0};
	for (int i = 0; i < times; i++)
		a = ASK(s, SLUICE_CHARGE, at_ms + (uint64_t)i, 1, .lines = {{limit, key, .terms = &hour}});
	assert_int_equal(a.err, SLUICE_OK);
	return a;
}

/* Keys of a name ask so many times each, 100 keys in 10 ms. */
static void flood(struct sluice_store *s, const char *limit, const char *name, int keys, int times, uint64_t at_ms) {
	for (int i = 0; i < keys; i++) {
		char key[32];
		snprintf(key, sizeof key, "%s %d", name, i);
		asks(s, limit, key, at_ms + (uint64_t)i / 10, times);
	}
}

static int are_locked_out(struct sluice_store *s, const char *limit, const char *name, int keys, uint64_t at_ms) {
	int count = 0;
	for (int i = 0; i < keys; i++) {
		char key[32];
		snprintf(key, sizeof key, "%s %d", name, i);
		count += !ASK(s, SLUICE_PEEK, at_ms, 1, .lines = {{limit, key, .terms = &hour}}).d.allowed;
	}
	return count;
}

/* Whatever a flood's keys do, and whatever counts them: also where each of them is locked out as well. The counters'
 * windows are over when it is looked, so it is their penalties that deny. */
static void a_flood_lets_nobody_out(void **state) {
	enum { BANNED = 100 };
	static const int times[] = {1, QUOTA, QUOTA + 1, LOCKED_OUT};
	(void)state;
	for (size_t i = 0; i < LIMITS * (sizeof times / sizeof *times); i++) {
		const char *limit = limits[i % LIMITS];
		struct sluice_store *s = small_store(50);
		struct asked a;
		flood(s, limit, "banned", BANNED, LOCKED_OUT, 0);
		assert_int_equal(are_locked_out(s, limit, "banned", BANNED, 61 * S), BANNED);
		flood(s, limit, "flood", KEYS, times[i / LIMITS], 1 * S);
		assert_int_equal(are_locked_out(s, limit, "banned", BANNED, 66 * S), BANNED);
		a = ASK(s, SLUICE_CHARGE, 66 * S, 1, .lines = {{limit, "banned 0", .terms = &hour}});
		assert_true(!a.d.allowed && a.d.retry_after_ns == (sluice_ns)(HOUR + LOCKED_OUT - 1 - 66 * S) * ASK_MS);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* ---- what they may take ------------------------------------------------------------------------------------------ */

/* The slots whose penalties are kept at an instant, of a page or of all. */
static uint64_t kept(const struct sluice_store *s, uint64_t first_page, uint64_t pages, sluice_ns now) {
	uint64_t count = 0;
	for (uint64_t at = first_page * SL_PAGE_SLOTS; at < (first_page + pages) * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &s->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		const struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
		count += slot->tag != 0 && sl_slot_rank(slot, slot->tag, now) >= SL_RANK_PENALTY;
	}
	return count;
}

/* More keys are locked out than there are slots: of each page a quarter of them is kept, and in all as many as leave a
 * half of the blocks. All counters find room beside them, and blocks as long as ever; strangers have their quotas. */
static void those_kept_leave_room(void **state) {
	static const struct {
		uint32_t percent, a_page;
	} rows[] = {{1, 0}, {10, 3}, {50, 32}, {90, 40}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_store *s = small_store(rows[i].percent);
		sluice_ns now = (ASK_START_MS + 66 * S) * ASK_MS;
		uint64_t at = 66 * S, all;
		flood(s, limits[1], "flood", KEYS, LOCKED_OUT, 0);
		all = kept(s, 0, s->page_count, now);
		assert_true(all <= s->unit_count / 2 && all == rows[i].a_page * s->page_count);
		for (uint64_t page = 0; page < s->page_count; page++)
			assert_int_equal(kept(s, page, 1, now), rows[i].a_page);
		assert_int_equal(asks(s, limits[1], "stranger", at, 1).d.remaining, QUOTA - 1);
		for (int n = 0; n < 200; n++)
			assert_true(ASK(s, SLUICE_CHARGE, at++, 1, .lines = {{"sliding-log 1000/1h", "long"}}).d.allowed);
		assert_int_equal(ASK(s, SLUICE_PEEK, at, 1, .lines = {{"sliding-log 1000/1h", "long"}}).d.remaining, 800);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* Those that began first are kept, while they run; after that others may be. */
static void those_that_are_over_are_not_kept(void **state) {
	struct sluice_store *s = small_store(50);
	sluice_ns later = (ASK_START_MS + HOUR + 60 * S) * ASK_MS;
	uint64_t all;
	(void)state;
	flood(s, limits[0], "flood", KEYS, LOCKED_OUT, 0);
	all = kept(s, 0, s->page_count, (ASK_START_MS + 60 * S) * ASK_MS);
	assert_true(all != 0);
	assert_int_equal(kept(s, 0, s->page_count, later), 0);
	flood(s, limits[0], "next", KEYS, LOCKED_OUT, HOUR + 10 * S);
	assert_int_equal(kept(s, 0, s->page_count, later), all);
	assert_in_range(are_locked_out(s, limits[0], "next", KEYS, HOUR + 75 * S), all, all + all / 5);
	sluice_store_close(s);
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

static const struct sl_slot *strikes_of(const struct sluice_store *s, uint64_t at_ms) {
	uint64_t word = (ASK_START_MS + at_ms) * ASK_MS >> 19 << 19;
	for (uint64_t at = 0; at < s->page_count * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &s->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		const struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
		if (slot->tag != 0 && sl_slot_state(slot)[0] == word && sl_marks_are_beside(sl_tag_marks(slot->tag)))
			return slot;
	}
	fail_msg("nothing was noted at %" PRIu64, at_ms);
	return NULL;
}

/* The end is rounded up, by less than 2^27 ns and the 2^19 to which the beginning is rounded down. */
static void one_is_kept_for_as_long_as_it_runs(void **state) {
	struct sluice_store *s = small_store(50);
	uint64_t first_ms = 10 + LOCKED_OUT - 1, second_ms = 1000 + LOCKED_OUT - 1;
	sluice_ns end = (ASK_START_MS + first_ms + HOUR) * ASK_MS, at = (ASK_START_MS + 60 * S) * ASK_MS;
	const struct sl_slot *first, *second;
	(void)state;
	asks(s, limits[1], "a", 10, LOCKED_OUT);
	asks(s, limits[1], "b", 1000, LOCKED_OUT);
	first = strikes_of(s, first_ms);
	second = strikes_of(s, second_ms);
	assert_true(sl_slot_rank(second, second->tag, at) >= SL_RANK_PENALTY);
	assert_true(sl_slot_rank(first, first->tag, at) > sl_slot_rank(second, second->tag, at));
	assert_true(sl_slot_rank(first, first->tag, end - 1) >= SL_RANK_PENALTY);
	assert_int_equal(sl_rank_use(sl_slot_rank(first, first->tag, end + (1 << 27) + (1 << 19))), 5);
	assert_int_equal(sl_rank_use(sl_slot_rank(first, first->tag, end + (sluice_ns)HOUR * ASK_MS - 1)), 5);
	assert_int_equal(sl_slot_rank(first, first->tag, end + (sluice_ns)2 * HOUR * ASK_MS), 0);
	sluice_store_close(s);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* The strikes of "a", who was locked out a second ago. */
static struct sl_strikes *locked_out(struct sluice_store *s) {
	uint32_t block;
	asks(s, limits[1], "a", 0, LOCKED_OUT);
	assert_false(asks(s, limits[1], "a", 61 * S, 1).d.allowed);
	block = (uint32_t)sl_slot_state(strikes_of(s, LOCKED_OUT - 1))[1];
	assert_int_not_equal(block, 0);
	return sl_block_memory(s, block);
}

/* What a power cut may leave of a block, or a stranger: whatever it says of the time, its key is locked out no longer
 * than was ever imposed, and denials count as ever. */
static void a_torn_block_locks_nobody_out(void **state) {
	static const sluice_ns lasts[] = {0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
	(void)state;
	for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++) {
		struct sluice_store *s = small_store(50);
		struct sl_strikes *strikes = locked_out(s);
		strikes->last = lasts[i];
		strikes->until = UINT64_MAX;
		assert_true(asks(s, limits[1], "a", 62 * S, 1).d.allowed);
		assert_false(asks(s, limits[1], "a", 62 * S, LOCKED_OUT).d.allowed);
		assert_false(asks(s, limits[1], "a", 130 * S, 1).d.allowed);
		assert_true(asks(s, limits[1], "a", 130 * S + HOUR, 1).d.allowed);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* Slot and block agree on an instant that is later than anything. */
static void all_ones_end_no_process(void **state) {
	struct sluice_store *s = small_store(50);
	struct sl_strikes *strikes = locked_out(s);
	const struct sl_slot *slot = strikes_of(s, LOCKED_OUT - 1);
	struct asked a;
	(void)state;
	memset(strikes, 0xff, sl_block_bytes(s, (uint32_t)sl_slot_state(slot)[1]));
	sl_slot_state(slot)[0] = UINT64_MAX;
	a = ASK(s, SLUICE_PEEK, 62 * S, 1, .lines = {{limits[1], "a", .terms = &hour}});
	assert_int_equal(a.err, SLUICE_OK);
	a = ASK(s, SLUICE_CHARGE, 62 * S, 10, .lines = {{limits[1], "a", .terms = &hour}});
	assert_int_equal(a.err, SLUICE_OK);
	assert_false(a.d.allowed);
	sluice_store_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_lets_nobody_out),
		cmocka_unit_test(those_kept_leave_room),
		cmocka_unit_test(those_that_are_over_are_not_kept),
		cmocka_unit_test(one_is_kept_for_as_long_as_it_runs),
		cmocka_unit_test(a_torn_block_locks_nobody_out),
		cmocka_unit_test(all_ones_end_no_process),
	};
	return cmocka_run_group_tests_name("penalties in a full store", tests, NULL, NULL);
}
