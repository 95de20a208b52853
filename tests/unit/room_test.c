/* Room for logs, leases and reservations: one counter takes no more than its share of the blocks, denies beyond it
 * without looking for more, and nobody else is denied for room meanwhile. */
#include "store/blocks.h"
#include "tests/unit/ask.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { S = 1000, OTHERS = 1000 };

static const uint32_t sizes_mib[] = {1, 8};

/* What a search for room would have moved, or cost others. */
struct searched {
	uint64_t hand, evicted, starts;
};

static struct searched searched(const struct sluice_store *s) {
	return (struct searched){s->header->sweep_unit, s->header->evicted, s->header->sketch_starts};
}

/* A peek says what a charge of the same cost says, and writes nothing. */
static void assert_peeked(struct sluice_store *s, uint64_t at, const char *limit, const char *key,
                          const struct sluice_decision *charge) {
	struct asked a = ask_quietly(s, &(struct ask){SLUICE_PEEK, at, 1, .lines = {{limit, key}}});
	struct asked two = ask_quietly(s, &(struct ask){SLUICE_PEEK, at, 1, .lines = {{limit, key}, {"5/1d", "beside"}}});
	struct asked part = ask_quietly(s, &(struct ask){SLUICE_PEEK, at, 1, .upto = true, .lines = {{limit, key}}});
	const struct sluice_decision *peeks[] = {&a.d, &two.each[0], &part.d};
	for (size_t i = 0; i < sizeof peeks / sizeof *peeks; i++) {
		assert_int_equal(peeks[i]->allowed, charge->allowed);
		assert_int_equal(peeks[i]->bound, charge->bound);
		assert_true(charge->allowed || peeks[i]->remaining == 0);
		assert_true(peeks[i]->retry_after_ns == charge->retry_after_ns);
	}
}

static void assert_others_are_admitted(struct sluice_store *s, uint64_t at, const char *limit, sluice_operation how) {
	char key[16];
	for (uint32_t i = 0; i < OTHERS; i++) {
		snprintf(key, sizeof key, "other %" PRIu32, i);
		struct asked a = ASK(s, how, at, 1, "id", .lines = {{limit, key}});
		assert_int_equal(a.err, SLUICE_OK);
		assert_true(a.d.allowed);
		assert_int_equal(a.d.bound, SLUICE_BOUND_NONE);
	}
}

/* A hundred denials more than its share: each is one, names the bound and when the oldest charge is gone, and looked
 * for nothing. With it in one call, another limit is charged nothing, and one beside it counts as ever. */
static void a_log_keeps_to_its_share(void **state) {
	(void)state;
	for (uint32_t size = 0; size < sizeof sizes_mib / sizeof *sizes_mib; size++) {
		struct sluice_store *s = ask_store(sizes_mib[size]);
		const char *limit = "sliding-log 4G/1d";
		struct asked a;
		uint64_t at = 0;
		uint32_t admitted = 0;
		do
			a = ASK(s, SLUICE_CHARGE, at++, 1, .lines = {{limit, "one"}});
		while (a.d.allowed && ++admitted < 4000000);
		assert_in_range(admitted, sizes_mib[size] * 6000, sizes_mib[size] * 40000);
		assert_others_are_admitted(s, at, limit, SLUICE_CHARGE);
		struct searched before = searched(s);
		for (uint32_t i = 0; i < 100; i++, at++) {
			a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{limit, "one"}, {"fixed-window 5/1d", "beside"}});
			assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.index == 0 && a.d.bound == SLUICE_BOUND_ROOM);
			assert_int_equal(a.d.remaining, 0);
			assert_int_equal(a.d.retry_after_ns, (86400 * (uint64_t)S - at) * ASK_MS);
			assert_true(a.each[1].allowed && a.each[1].bound == SLUICE_BOUND_NONE && a.each[1].remaining == 5);
		}
		assert_peeked(s, at - 1, limit, "one", &a.each[0]);
		struct searched after = searched(s);
		assert_memory_equal(&before, &after, sizeof before);
		for (uint32_t i = 0; i < 7; i++) { /* only observed: it notes it, and the other one is exact */
			a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{limit, "one", .observed = 1}, {"fixed-window 5/1d", "beside"}});
			assert_int_equal(a.each[0].bound, i < 5 ? SLUICE_BOUND_ROOM : SLUICE_BOUND_NONE);
			assert_int_equal(a.each[0].allowed, i >= 5); /* what is denied by another is not asked for room */
			assert_int_equal(a.d.allowed, i < 5);
			assert_int_equal(a.d.bound, SLUICE_BOUND_NONE);
		}
		assert_others_are_admitted(s, at, limit, SLUICE_CHARGE);
		/* by then the bound has passed, and not a ms before */
		assert_false(ASK(s, SLUICE_CHARGE, 86400 * (uint64_t)S - 1, 1, .lines = {{limit, "one"}}).d.allowed);
		assert_true(ASK(s, SLUICE_CHARGE, 86400 * (uint64_t)S, 1, .lines = {{limit, "one"}}).d.allowed);
		assert_null(sluice_store_verify(s));
		sluice_store_close(s);
	}
}

/* No lease passes that is not counted: who was admitted is who holds one. */
static void leases_keep_to_their_share(void **state) {
	(void)state;
	struct sluice_store *s = ask_store(1);
	const char *limit = "concurrency 1M lease 1h";
	struct sluice_limit rule;
	struct asked a;
	uint32_t held = 0;
	char id[16];
	assert_int_equal(sluice_limit_parse(&rule, sl_str(limit), NULL), SLUICE_OK);
	for (uint32_t i = 0; i < 20000; i++) {
		snprintf(id, sizeof id, "lease %" PRIu32, i);
		a = ASK(s, SLUICE_ACQUIRE, i, 1, id, .lines = {{limit, "one"}});
		assert_int_equal(a.err, SLUICE_OK);
		assert_int_equal(a.d.allowed, a.d.bound == SLUICE_BOUND_NONE);
		held += a.d.allowed;
	}
	assert_in_range(held, 2000, 12000);
	assert_int_equal(sluice_holders(s, &rule, sl_str("one"), (ASK_START_MS + 20000) * ASK_MS, NULL, 0), held);
	assert_int_equal(a.d.retry_after_ns, (uint64_t)(3600 * S - 19999) * ASK_MS); /* the first lease ends */
	assert_peeked(s, 19999, limit, "one", &a.d);
	assert_others_are_admitted(s, 20000, limit, SLUICE_ACQUIRE);
	assert_int_equal(ASK(s, SLUICE_RELEASE, 20000, 0, "lease 7", .lines = {{limit, "one"}}).found, 1);
	assert_true(ASK(s, SLUICE_ACQUIRE, 20000, 1, "again", .lines = {{limit, "one"}}).d.allowed);
	assert_false(ASK(s, SLUICE_ACQUIRE, 20000, 1, "more", .lines = {{limit, "one"}}).d.allowed);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Reservations, too: who leaves his open keeps nobody from room, and is denied for his own. */
static void a_ledger_keeps_to_its_share(void **state) {
	(void)state;
	struct sluice_store *s = ask_store(1);
	const char *limit = "fixed-window 4G/1d";
	uint64_t ttl = (uint64_t)3600 * S;
	struct asked a;
	uint32_t open = 0;
	char id[16];
	do {
		snprintf(id, sizeof id, "r%" PRIu32, open);
		a = ASK(s, SLUICE_RESERVE, open, 1, id, ttl, .lines = {{limit, "one"}});
	} while (a.d.allowed && ++open < 20000);
	assert_int_equal(a.err, SLUICE_OK);
	assert_in_range(open, 1500, 3200); /* a quarter of the blocks, at 43 bytes each, or as far as a table is doubled */
	assert_others_are_admitted(s, open, "sliding-log 100/1d", SLUICE_CHARGE);
	struct searched before = searched(s);
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(id, sizeof id, "more %" PRIu32, i);
		a = ASK(s, SLUICE_RESERVE, open, 1, id, ttl, .lines = {{limit, "one"}, {"fixed-window 5/1d", "beside"}});
		assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.index == 0 && a.d.bound == SLUICE_BOUND_RESERVATIONS);
		assert_int_equal(a.d.remaining, 0);
		assert_true(a.each[1].allowed && a.each[1].remaining == 5);
	}
	struct searched after = searched(s);
	assert_memory_equal(&before, &after, sizeof before);
	/* the first ends, with those that end soon behind it */
	assert_in_range(a.d.retry_after_ns, (ttl - open) * ASK_MS, ttl * ASK_MS);
	ttl = open + a.d.retry_after_ns / ASK_MS;
	assert_others_are_admitted(s, open, "sliding-log 100/1d", SLUICE_CHARGE);
	/* what is charged without reserving needs none of it; and by then the bound has passed, and not a ms before */
	assert_true(ASK(s, SLUICE_CHARGE, open, 1, .lines = {{limit, "one"}}).d.allowed);
	assert_false(ASK(s, SLUICE_RESERVE, ttl - 1, 1, "late", ttl, .lines = {{limit, "one"}}).d.allowed);
	assert_true(ASK(s, SLUICE_RESERVE, ttl, 1, "late", ttl, .lines = {{limit, "one"}}).d.allowed);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* Blocks full of small logs in use: a longer one finds room, a piece at a time, and hardly ever has to be denied. */
static void a_long_log_finds_room_among_small_ones(void **state) {
	(void)state;
	struct sluice_store *s = ask_store(1);
	const char *limit = "sliding-log 100000/1d";
	uint32_t denied = 0, charges = 6000;
	char key[16];
	for (uint32_t i = 0; i < 20000; i++) {
		snprintf(key, sizeof key, "small %" PRIu32, i);
		assert_true(ASK(s, SLUICE_CHARGE, i, 1, .lines = {{limit, key}}).d.allowed);
	}
	assert_true(s->header->evicted > 1000);
	for (uint32_t i = 0; i < charges; i++) {
		struct asked a = ASK(s, SLUICE_CHARGE, 20000 + i, 1, .lines = {{limit, "long"}});
		assert_int_equal(a.err, SLUICE_OK);
		denied += !a.d.allowed;
	}
	assert_in_range(denied, 0, charges / 100);
	assert_null(sluice_store_verify(s));
	sluice_store_close(s);
}

/* More than 1,024 members would be estimated, and there is no room for that: denied until the first has gone. */
static void members_keep_to_their_share(void **state) {
	static const char limit[] = "distinct 4G/1h";
	struct sluice_store *s = ask_store(1);
	char member[16];
	(void)state;
	for (uint64_t i = 0; i < 1024; i++) {
		snprintf(member, sizeof member, "%" PRIu64, i);
		assert_true(ASK(s, SLUICE_CHARGE, 2 * i, 1, .lines = {{limit, .member = member}}).d.allowed);
	}
	for (uint64_t at = 2048; at < 3600 * S; at += 1000 * S) {
		struct asked a = ASK(s, SLUICE_CHARGE, at, 1, .lines = {{limit, .member = "new"}});
		assert_true(!a.d.allowed && a.d.bound == SLUICE_BOUND_ROOM);
		assert_true(a.d.retry_after_ns == (3600 * S - at) * ASK_MS);
		assert_peeked(s, at, limit, NULL, &a.d);
	}
	assert_false(ASK(s, SLUICE_CHARGE, 3600 * S - 1, 1, .lines = {{limit, .member = "new"}}).d.allowed);
	assert_true(ASK(s, SLUICE_CHARGE, 3600 * S, 1, .lines = {{limit, .member = "new"}}).d.allowed);
	assert_false(ASK(s, SLUICE_CHARGE, 3600 * S, 1, .lines = {{limit, .member = "newer"}}).d.allowed);
	sluice_store_close(s);
}

/* What could never be kept says so; a retried request without room for its record is decided all the same. */
static void what_can_never_be_kept_says_never(void **state) {
	(void)state;
	struct sluice_store_options options = {.memory_bytes = 1 << 20, .blocks_percent = 1};
	struct sluice_store *s;
	assert_int_equal(sluice_store_open(&s, &options, NULL), SLUICE_OK);
	struct asked a = ASK(s, SLUICE_CHARGE, 0, 1, .lines = {{"sliding-buckets 9/1d precision 30s"}, {"9/1m"}});
	assert_true(a.err == SLUICE_OK && !a.d.allowed && a.d.index == 0 && a.d.bound == SLUICE_BOUND_ROOM);
	assert_true(a.d.retry_after_ns == SLUICE_NEVER);
	assert_peeked(s, 0, "sliding-buckets 9/1d precision 30s", NULL, &a.each[0]);
	assert_int_equal(ask_peek(s, 0, "9/1m").remaining, 9);
	sluice_store_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_keeps_to_its_share),
		cmocka_unit_test(leases_keep_to_their_share),
		cmocka_unit_test(a_ledger_keeps_to_its_share),
		cmocka_unit_test(a_long_log_finds_room_among_small_ones),
		cmocka_unit_test(members_keep_to_their_share),
		cmocka_unit_test(what_can_never_be_kept_says_never),
	};
	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
