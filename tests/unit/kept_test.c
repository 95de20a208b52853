/* What a store keeps: whatever was charged, in whichever way, outlives the death of all who use it; and what is over
 * leaves nothing behind. */
#include "store/blocks.h"
#include "store/slot.h"
#include "store/store.h"
#include "tests/unit/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { S = 1000, DAY = 86400 * S };

/* ---- repair ------------------------------------------------------------------------------------------------------ */

/* Makes a copy of a store whole, as its first opener does after all of its users died at this moment. */
static struct sluice_store made_whole(const struct sluice_store *store, struct sl_repair *found) {
	struct sluice_store copy;
	void *memory = aligned_alloc(SL_PAGE_BYTES, store->arena_bytes);
	assert_non_null(memory);
	memcpy(memory, store->header, store->arena_bytes);
	sl_arena_attach(&copy, memory);
	copy.owner = store->owner;
	sl_arena_repair(&copy, found);
	assert_null(sl_store_verify(&copy));
	return copy;
}

static struct sl_repair repaired(const struct sluice_store *store) {
	struct sl_repair found;
	struct sluice_store copy = made_whole(store, &found);
	free(copy.header);
	return found;
}

static const struct sluice_terms strict = {.count_denied = true,
                                           .penalty_count = 1,
                                           .after = 1,
                                           .within_ns = (sluice_ns)30 * DAY * ASK_MS,
                                           .forgive_ns = (sluice_ns)30 * DAY * ASK_MS,
                                           .penalties_ns = {(sluice_ns)30 * DAY * ASK_MS}};

static const struct sluice_terms knocked = {.penalty_count = 1,
                                            .after = 1,
                                            .within_ns = (sluice_ns)30 * DAY * ASK_MS,
                                            .forgive_ns = (sluice_ns)30 * DAY * ASK_MS,
                                            .penalties_ns = {(sluice_ns)30 * DAY * ASK_MS}};

#define LEASE "concurrency 2 lease 9d"

/* One a day, each in its own way; after each there is so much in the store. */
static const struct {
	struct ask ask;
	uint64_t counters;
} kept[] = {
	{{SLUICE_CHARGE, 1, 1, .lines = {{"9/30d"}}}, 1},
	{{SLUICE_CHARGE, 2, 1, .lines = {{"9/30d"}, {"9/40d"}}}, 2},
	{{SLUICE_CHARGE, 3, 1, .lines = {{"sliding-log 9/30d"}}}, 3},
	{{SLUICE_CHARGE, 4, 1, "retried", .lines = {{"9/40d"}}}, 4},
	{{SLUICE_CHARGE, 5, 1, .lines = {{"distinct 9/30d", .member = "m"}}}, 5},
	{{SLUICE_ACQUIRE, 6, 1, "lease", .lines = {{LEASE}}}, 6},
	{{SLUICE_RENEW, 7, 0, "lease", .lines = {{LEASE}}}, 6},
	{{SLUICE_RESERVE, 8, 2, "a", 90 * (uint64_t)DAY, .lines = {{"fixed-window 9/year"}}}, 8},
	{{SLUICE_COMMIT, 9, 3, "a", .lines = {{"fixed-window 9/year"}}}, 7},
	{{SLUICE_CHARGE, 10, 6, .lines = {{"fixed-window 9/year", .terms = &strict}}}, 7},
	{{SLUICE_CHARGE, 11, 1, .lines = {{"fixed-window 9/year", .terms = &strict}}}, 8}, /* denied: a strike */
	{{SLUICE_RESERVE, 12, 2, "b", DAY, .lines = {{"token-bucket 9/30d"}}}, 10},
	{{SLUICE_REFUND, 14, 2, .lines = {{"token-bucket 9/30d"}}}, 9}, /* what was reserved has ended */
	{{SLUICE_RESERVE, 15, 2, "c", 9 * (uint64_t)DAY, .lines = {{"token-bucket 9/40d"}}}, 11},
	{{SLUICE_COMMIT, 16, 7, "c", .lines = {{"token-bucket 9/40d"}}}, 10},
	{{SLUICE_CHARGE, 17, 9, .lines = {{"fixed-window 8/year", "other", .terms = &knocked}}}, 11}, /* a strike alone */
};

static void what_was_charged_outlives_its_users(void **state) {
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		struct ask at_its_day = kept[i].ask;
		at_its_day.at_ms *= DAY;
		assert_int_equal(ask(*state, &at_its_day).err, SLUICE_OK);
		struct sl_repair found = repaired(*state);
		if (found.dropped != 0 || found.counters != kept[i].counters)
			fail_msg("row %zu: %u kept, %u dropped", i, (unsigned)found.counters, (unsigned)found.dropped);
	}
}

static uint64_t slots_used(struct sluice_store *store) {
	struct sluice_store_stats stats;
	sluice_store_stats(store, &stats);
	return stats.slots_used;
}

/* Homes that have overflowed are known to have, by the same buckets and no others. */
static void so_does_what_has_spilled(void **state) {
	struct sluice_store *store = *state;
	struct sluice_store_stats stats;
	struct sl_repair found;
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_SLOTS / 2; i++) {
		char key[24];
		(void)snprintf(key, sizeof key, "%u", (unsigned)i);
		assert_true(ASK(store, SLUICE_CHARGE, 0, 1, .lines = {{"9/30d", key}}).d.allowed);
	}
	sluice_store_stats(store, &stats);
	assert_true(stats.slots_spilled >= 100);
	struct sluice_store copy = made_whole(store, &found);
	assert_true(found.counters == stats.slots_used && found.dropped == 0);
	for (uint64_t p = 0; p < store->page_count; p++)
		for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++)
			assert_int_equal(copy.pages[p].buckets[at].spill, store->pages[p].buckets[at].spill);
	free(copy.header);
}

/* And may be committed there. */
static void so_does_what_is_reserved(void **state) {
	struct sl_repair found;
	assert_true(ASK(*state, SLUICE_RESERVE, 0, 5, "a", 60 * S, .lines = {{"9/1h"}}).d.allowed);
	struct sluice_store copy = made_whole(*state, &found);
	sluice_ns hour = (sluice_ns)3600 * S * ASK_MS, end = (ASK_START_MS + 60 * S) * ASK_MS;
	assert_in_range(found.until_ns, end, end + 3 * hour); /* of its counter two, and a quarter for rounding */
	struct asked a = ASK(&copy, SLUICE_COMMIT, S, 2, "a", .lines = {{"9/1h"}});
	assert_true(a.found == 1 && a.d.remaining == 7);
	free(copy.header);
}

/* What is torn is dropped, and the store counts it for good; a claim that nobody had charged yet was no counter. What
 * is remembered of others is left as it is. */
static void what_is_torn_is_dropped_and_counted(void **state) {
	struct sluice_store *store = *state;
	struct sl_repair found;
	struct sl_slot *slots[4];
	uint64_t used = 0;
	memset(store->sketch, 0x5a, store->cell_count * sizeof *store->sketch);
	assert_int_equal(ASK(store, SLUICE_CHARGE, 0, 1, .lines = {{"9/1h"}, {"9/2h"}, {"9/3h"}, {"9/4h"}}).err, SLUICE_OK);
	for (uint64_t at = 0; at < store->page_count * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &store->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		if (bucket->slots[at % SL_BUCKET_SLOTS].tag != 0)
			slots[used++] = &bucket->slots[at % SL_BUCKET_SLOTS];
	}
	assert_int_equal(used, 4);
	store->header->dropped = 40;
	slots[0]->tag |= SL_LIFE_FRESH;
	slots[1]->tag = (slots[1]->tag | SL_LIFE_FRESH) - 1; /* no lifetime */
	slots[3]->tag = (slots[3]->tag | SL_LIFE_FRESH) - 1;
	struct sluice_store copy = made_whole(store, &found);
	assert_true(found.counters == 1 && found.fresh == 1 && found.dropped == 2);
	assert_int_equal(copy.header->dropped, 42);
	assert_memory_equal(copy.sketch, store->sketch, store->cell_count * sizeof *store->sketch);
	free(copy.header);
	slots[0]->tag = slots[1]->tag = slots[3]->tag = 0;
}

/* A power cut leaves a header that may be half a minute older than the counters: those that were in use meanwhile are
 * whole, and no later opener drops them. What lies further ahead is torn. */
static void so_does_what_the_header_has_not_heard_of(void **state) {
	struct sluice_store *store = *state;
	struct sl_repair found;
	uint64_t heard;
	assert_true(ASK(store, SLUICE_CHARGE, 0, 5, .lines = {{"9/1h"}}).d.allowed);
	heard = store->header->latest_charge;
	assert_true(ASK(store, SLUICE_CHARGE, 35 * S, 3, .lines = {{"9/1h"}}).d.allowed);
	assert_int_not_equal(store->header->latest_charge, heard);
	store->header->latest_charge = heard;
	struct sluice_store copy = made_whole(store, &found);
	assert_true(found.counters == 1 && found.dropped == 0);
	assert_int_equal(ASK(&copy, SLUICE_PEEK, 35 * S, 1, .lines = {{"9/1h"}}).d.remaining, 1);
	assert_true(sl_store_latest_charge(&copy) > (ASK_START_MS + 35 * S) * ASK_MS);
	free(copy.header);
	assert_true(ASK(store, SLUICE_CHARGE, 90 * S, 1, .lines = {{"9/1h"}}).d.allowed);
	store->header->latest_charge = heard;
	copy = made_whole(store, &found);
	assert_true(found.counters == 0 && found.dropped == 1);
	free(copy.header);
}

/* The word that tells the latest charge may be damaged. Any may have been made then, but for those at the end of time,
 * than which no word could tell a later one. */
static void so_does_all_where_the_latest_is_not_known(void **state) {
	struct sluice_store *store = *state;
	struct sl_repair found;
	assert_true(ASK(store, SLUICE_CHARGE, 0, 5, .lines = {{"9/1h"}, {"9/2h"}}).d.allowed);
	store->header->latest_charge ^= 1;
	assert_true(sl_store_latest_charge(store) == UINT64_MAX);
	struct sluice_store copy = made_whole(store, &found);
	assert_true(found.counters == 2 && found.dropped == 0);
	free(copy.header);
	for (uint64_t at = 0, met = 0; met == 0; at++) {
		struct sl_bucket *bucket = &store->pages[at / SL_PAGE_BUCKETS].buckets[at % SL_PAGE_BUCKETS];
		met = bucket->slots[0].tag != 0;
		bucket->states[0][0] = met ? UINT64_MAX : 0;
	}
	copy = made_whole(store, &found);
	assert_true(found.counters == 1 && found.dropped == 1);
	assert_true(sl_store_latest_charge(&copy) > found.last_ns && sl_store_latest_charge(&copy) != UINT64_MAX);
	free(copy.header);
}

/* A quota of a key's own, the last that anybody wrote. */
static void so_does_a_quota_of_a_key(void **state) {
	struct sluice_limit of = ask_limit("9/1m"), own = ask_limit("20/1m");
	struct sluice_override_request request = {.limit = &of, .key = sl_str("k"), .own = &own};
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 1, .lines = {{"9/1m"}}).d.allowed);
	assert_int_equal(sluice_override_set(*state, &request, (ASK_START_MS + DAY) * ASK_MS, NULL), SLUICE_OK);
	struct sl_repair found = repaired(*state);
	assert_true(found.overrides == 1 && found.dropped == 0);
}

/* Has the only counter of a store go, as for want of room; what stands beside it stays. */
static void evict_counter(struct sluice_store *store, uint64_t at_ms) {
	uint64_t before = slots_used(store);
	for (uint64_t at = 0; at < store->page_count * SL_PAGE_SLOTS; at++) {
		struct sl_bucket *bucket = &store->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
		struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
		if (slot->tag != 0 && !sl_marks_are_beside(sl_tag_marks(slot->tag)))
			assert_true(sl_slot_make_free(store, slot, NULL, true, (ASK_START_MS + at_ms) * ASK_MS));
	}
	assert_int_equal(slots_used(store), before - 1);
}

/* That the sketch was told to forget is kept as well. */
static void so_is_what_was_forgotten(void **state) {
	assert_true(ASK(*state, SLUICE_CHARGE, 0, 9, .lines = {{"9/30d"}}).d.allowed);
	evict_counter(*state, 0);
	assert_false(ask_peek(*state, DAY, "9/30d").allowed);
	assert_int_equal(ASK(*state, SLUICE_RESET, DAY, 0, .lines = {{"9/30d"}}).forgotten, 1);
	assert_int_equal(ask_peek(*state, DAY, "9/30d").remaining, 9);
	struct sl_repair found = repaired(*state);
	assert_true(found.counters == 1 && found.dropped == 0);
}

/* ---- what is over ------------------------------------------------------------------------------------------------ */

enum { OPEN = 300 /* more than a ledger lists one by one: some are bundled */ };

static const char *const reservable[] = {
	"fixed-window 1000/1h", "sliding-window 1000/1h", "sliding-buckets 1000/1h precision 1m",
	"sliding-log 1000/1h",  "token-bucket 1000/1h",   "leaky-bucket 1000/1h queue 999",
};
enum { RESERVABLE = sizeof reservable / sizeof *reservable };

static void reserve_all(struct sluice_store *store, const char *limit) {
	for (int k = 0; k < OPEN; k++) {
		char id[16];
		snprintf(id, sizeof id, "%d", k);
		assert_true(ASK(store, SLUICE_RESERVE, (uint64_t)k, 2, id, (k % 2 ? 60 : 5) * S, .lines = {{limit}}).d.allowed);
	}
}

/* Of reservations that are all committed there is a counter, and nothing beside it. */
static void what_is_committed_leaves_a_counter(void **state) {
	for (uint64_t i = 0; i < RESERVABLE; i++) {
		reserve_all(*state, reservable[i]);
		assert_int_equal(slots_used(*state), i + 3); /* the counter, its ledger, what is bundled */
		for (int k = OPEN - 1; k >= 0; k--) {
			char id[16];
			snprintf(id, sizeof id, "%d", k);
			assert_int_equal(ASK(*state, SLUICE_COMMIT, S, 1, id, .lines = {{reservable[i]}}).found, 1);
		}
		assert_int_equal(slots_used(*state), i + 1);
	}
}

/* Nor is there of those that ended and were returned by whoever charged next. */
static void what_has_ended_leaves_a_counter(void **state) {
	for (uint64_t i = 0; i < RESERVABLE; i++) {
		reserve_all(*state, reservable[i]);
		assert_true(ASK(*state, SLUICE_CHARGE, 120 * S, 1, .lines = {{reservable[i]}}).d.allowed);
		assert_int_equal(slots_used(*state), i + 1);
	}
}

/* ---- reservations whose counter had to go ------------------------------------------------------------------------ */

static const struct sluice_terms counted = {.count_denied = true};

/* The contents of bundles are by far the longest of what stands beside a counter. */
static bool is_contents(const struct sluice_store *store, const struct sl_slot *slot) {
	uint32_t block = (uint32_t)sl_slot_state(slot)[1];
	return sl_marks_are_beside(sl_tag_marks(slot->tag)) && sl_block_bytes(store, block) > 4096;
}

/* A commit finds its reservation once, and gives nothing back of what nobody knows any more; nor does its end. */
static void what_went_with_its_counter_is_not_given_back(void **state) {
	static const uint32_t actual[] = {0, 400, 900};
	(void)state;
	for (uint64_t i = 0; i < RESERVABLE * (uint64_t)3; i++) {
		struct sluice_store *s = ask_store(2);
		const char *limit = reservable[i / 3];
		assert_true(ASK(s, SLUICE_RESERVE, 0, 400, "a", 60 * S, .lines = {{limit}}).d.allowed);
		assert_true(ASK(s, SLUICE_RESERVE, 0, 400, "b", 50 * S, .lines = {{limit}}).d.allowed);
		evict_counter(s, 0);
		struct sluice_decision known = ask_peek(s, 0, limit); /* by the sketch */
		assert_in_range(known.remaining, 0, 200);
		for (int again = 0; again < 2; again++) {
			struct asked a = ASK(s, SLUICE_COMMIT, 0, actual[i % 3], "a", .lines = {{limit}});
			assert_true(a.err == SLUICE_OK && a.found == (again ? 0 : 1));
			assert_int_equal(a.d.remaining, known.remaining);
		}
		/* a new counter is none that the other reservation speaks of */
		struct asked a = ASK(s, SLUICE_CHARGE, 0, 1, .lines = {{limit}});
		uint32_t left = known.remaining - a.d.allowed;
		assert_int_equal(a.d.remaining, left);
		assert_in_range(ask_peek(s, 50 * S, limit).remaining, left, left + 50 * 1000 / 3600 + 1);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* Nor of a counter that a reservation made anew: that is corrected by those who came with it or later. */
static void what_went_is_not_given_back_of_what_is_reserved_anew(void **state) {
	(void)state;
	for (uint64_t i = 0; i < RESERVABLE; i++) {
		struct sluice_store *s = ask_store(2);
		const char *limit = reservable[i];
		assert_true(ASK(s, SLUICE_RESERVE, 0, 400, "a", 60 * S, .lines = {{limit}}).d.allowed);
		assert_true(ASK(s, SLUICE_RESERVE, 0, 300, "b", 50 * S, .lines = {{limit}}).d.allowed);
		evict_counter(s, 0);
		struct asked a = ASK(s, SLUICE_RESERVE, 0, 9, "c", 60 * S, .lines = {{limit}});
		assert_true(a.err == SLUICE_OK && a.d.allowed);
		uint32_t left = a.d.remaining;
		a = ASK(s, SLUICE_COMMIT, 0, 0, "a", .lines = {{limit}});
		assert_true(a.found == 1 && a.d.remaining == left);
		assert_in_range(ask_peek(s, 50 * S, limit).remaining, left, left + 50 * 1000 / 3600 + 1);
		a = ASK(s, SLUICE_COMMIT, 0, 0, "c", .lines = {{limit}});
		assert_true(a.found == 1 && a.d.remaining == left + 9);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* What the sketch knows of a counter that had to go holds for whoever reserves. */
static void what_is_remembered_counts_on(void **state) {
	(void)state;
	for (uint64_t i = 0; i < RESERVABLE; i++) {
		struct sluice_store *s = ask_store(2);
		const char *limit = reservable[i];
		assert_true(ASK(s, SLUICE_CHARGE, 0, 500, .lines = {{limit}}).d.allowed);
		evict_counter(s, 0);
		uint32_t known = ask_peek(s, 0, limit).remaining;
		assert_in_range(known, 1, 500);
		assert_false(ASK(s, SLUICE_RESERVE, 0, known + 1, "a", 60 * S, .lines = {{limit}}).d.allowed);
		struct asked a = ASK(s, SLUICE_RESERVE, 0, 1, "a", 60 * S, .lines = {{limit}});
		assert_true(a.d.allowed && a.d.remaining == known - 1);
		a = ASK(s, SLUICE_COMMIT, 0, 0, "a", .lines = {{limit}});
		assert_true(a.found == 1 && a.d.remaining == known);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
	/* what nothing may be charged of, or nothing is counted of, is what it is */
	struct sluice_store *s = ask_store(2);
	assert_true(ASK(s, SLUICE_CHARGE, 0, 9, .lines = {{"fixed-window 9/1h"}}).d.allowed);
	evict_counter(s, 0);
	struct asked a = ASK(s, SLUICE_PEEK, 0, 1, .lines = {{"fixed-window 0/1h"}, {"unlimited", .key = "other"}});
	assert_true(!a.each[0].allowed && a.each[0].retry_after_ns == SLUICE_NEVER && a.each[1].allowed);
	sluice_store_close(s);
}

/* And what is denied is charged to it, where that is to be: also where it can hold no more. */
static void what_is_denied_is_charged_to_what_is_remembered(void **state) {
	static const char *const fullest[] = {
		"fixed-window 4294967295/1h", "sliding-window 4294967295/1h", "sliding-buckets 4294967295/1h precision 1m",
		"sliding-log 4294967295/1h",  "token-bucket 4294967295/1h",   "leaky-bucket 4294967295/1h queue 4294967294",
	};
	(void)state;
	for (uint64_t i = 0; i < RESERVABLE * (uint64_t)2; i++) {
		struct sluice_store *s = ask_store(2);
		bool full = i >= RESERVABLE;
		const char *limit = full ? fullest[i - RESERVABLE] : reservable[i];
		uint32_t spent = full ? UINT32_MAX : 500, more = full ? UINT32_MAX : 900;
		assert_true(ASK(s, SLUICE_CHARGE, 0, spent, .lines = {{limit}}).d.allowed);
		evict_counter(s, 0);
		struct asked a = ASK(s, SLUICE_CHARGE, 600 * S, more, .lines = {{limit, .terms = &counted}});
		assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.remaining == 0);
		assert_int_equal(ask_peek(s, 600 * S, limit).remaining, 0);
		assert_true(ask_peek(s, 5 * 3600 * S, limit).allowed);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* Bundles whose contents had to go can't be told apart: their estimates stay charged, whatever is committed. */
static void what_is_bundled_without_contents_stays_charged(void **state) {
	for (uint64_t i = 0; i < RESERVABLE; i++) {
		const char *limit = reservable[i];
		reserve_all(*state, limit);
		uint32_t left = ask_peek(*state, S, limit).remaining;
		uint64_t seen = 0;
		for (uint64_t at = 0; at < ((struct sluice_store *)*state)->page_count * SL_PAGE_SLOTS; at++) {
			struct sluice_store *s = *state;
			struct sl_bucket *bucket = &s->pages[at / SL_PAGE_SLOTS].buckets[at % SL_PAGE_SLOTS / SL_BUCKET_SLOTS];
			struct sl_slot *slot = &bucket->slots[at % SL_BUCKET_SLOTS];
			if (slot->tag == 0 || !is_contents(s, slot))
				continue;
			assert_true(sl_slot_make_free(s, slot, NULL, true, (ASK_START_MS + S) * ASK_MS));
			seen++;
		}
		assert_int_equal(seen, 1);
		assert_int_equal(ASK(*state, SLUICE_COMMIT, S, 0, "7", .lines = {{limit}}).found, 0);
		assert_in_range(ask_peek(*state, 120 * S, limit).remaining, left, left + 120 * 1000 / 3600 + 1);
		assert_int_equal(ASK(*state, SLUICE_RESET, 120 * S, 0, .lines = {{limit}}).forgotten, 1);
	}
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, ask_open, ask_close)
	const struct CMUnitTest tests[] = {
		TEST(what_was_charged_outlives_its_users),
		TEST(so_does_what_has_spilled),
		TEST(so_does_what_is_reserved),
		TEST(what_is_torn_is_dropped_and_counted),
		TEST(so_does_what_the_header_has_not_heard_of),
		TEST(so_does_all_where_the_latest_is_not_known),
		TEST(so_does_a_quota_of_a_key),
		TEST(so_is_what_was_forgotten),
		TEST(what_is_committed_leaves_a_counter),
		TEST(what_has_ended_leaves_a_counter),
		cmocka_unit_test(what_is_remembered_counts_on),
		cmocka_unit_test(what_is_denied_is_charged_to_what_is_remembered),
		TEST(what_is_bundled_without_contents_stays_charged),
		cmocka_unit_test(what_went_with_its_counter_is_not_given_back),
		cmocka_unit_test(what_went_is_not_given_back_of_what_is_reserved_anew),
	};
	return cmocka_run_group_tests_name("what a store keeps", tests, NULL, NULL);
}
