/* The limiter that the bindings share (bindings/common): stores by their names, limits by their texts, calls as words,
 * failures by kind, policies that are replaced. What is decided is held by the case list through the bindings. */
#include "bindings/common/workspace.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#define T ((sluice_ns)1728000000 * 1000000000)

static struct sl_failure failure;

static struct sl_limiter *open_with(const char *store, const char *memory, const char *policy) {
	struct sl_limiter_options options = {.store = sl_str(store), .memory = sl_str(memory), .policy = sl_str(policy)};
	struct sl_limiter *limiter = NULL;
	memset(&failure, 0, sizeof failure);
	return sl_limiter_open(&limiter, &options, &failure) ? limiter : NULL;
}

static void expect_failure(enum sl_failure_kind kind, const char *text) {
	assert_string_equal(failure.text, text);
	assert_int_equal(failure.kind, kind);
}

/* A call over limits in notation, at an instant of its own. */
static bool ask(struct sl_limiter *limiter, struct sl_told *told, struct sl_asked asked, const char *limits) {
	static struct sl_asked_limit list[SL_ASKED_LIMITS_MAX + 8];
	static char text[2048];
	snprintf(text, sizeof text, "%s", limits);
	asked.limit_count = 0;
	for (char *at = text; *at != '\0';) {
		size_t len = strcspn(at, "|");
		list[asked.limit_count++] = (struct sl_asked_limit){.text = sl_slice(at, len)};
		at += len + (at[len] == '|');
	}
	asked.limits = list;
	if (asked.now == 0)
		asked.now = T;
	if (asked.key.data == NULL)
		asked.key = sl_str("ann");
	return sl_limiter_decide(limiter, &asked, told, &failure);
}

static void test_stores(void **state) {
	(void)state;
	char path[] = "/tmp/sluice-handle-XXXXXX";
	assert_int_not_equal(mkdtemp(path), 0);
	char file[64], shared[64];
	snprintf(file, sizeof file, "%s/counters", path);
	snprintf(shared, sizeof shared, "shared:handle-test-%d", (int)getpid());
	const char *names[] = {"", "memory", shared, file};
	for (int i = 0; i < 4; i++) {
		struct sl_limiter *limiter = open_with(names[i], "1MiB", "");
		assert_non_null(limiter);
		assert_int_equal(sl_limiter_may_wait(limiter), i >= 2);
		assert_non_null(sl_limiter_store(limiter));
		sl_limiter_close(limiter);
	}
	assert_int_equal(sluice_store_forget(shared + 7, NULL), SLUICE_OK);
	FILE *other = fopen(file, "w");
	fputs("not a store", other);
	fclose(other);
	assert_null(open_with(file, "", ""));
	assert_int_equal(failure.kind, SL_FAILED_STORE);
	unlink(file);
	rmdir(path);
	assert_null(open_with("/nowhere/counters", "", ""));
	assert_int_equal(failure.kind, SL_FAILED_SYSTEM);
}

static void test_what_is_no_store(void **state) {
	(void)state;
	assert_null(open_with("counters", "", ""));
	expect_failure(SL_FAILED_ARGUMENT,
	               "store 'counters': expected memory, shared:NAME or the path of a file with a slash in it");
	assert_null(open_with("shared:a/b", "", ""));
	assert_int_equal(failure.kind, SL_FAILED_ARGUMENT);
	assert_null(open_with("", "64MB", ""));
	expect_failure(SL_FAILED_ARGUMENT, "memory '64MB': expected a size, such as 64MiB");
	assert_null(open_with("", "99999999999TiB", ""));
	assert_int_equal(failure.kind, SL_FAILED_ARGUMENT);
	assert_null(open_with("", "1KiB", ""));
	expect_failure(SL_FAILED_ARGUMENT, "a store takes 1 MiB to 256 GiB of memory, of which 1 to 98 % are for blocks");
	struct sl_limiter_options zero = {.store = sl_slice("/tmp/a\0b", 8)};
	struct sl_limiter *limiter;
	assert_false(sl_limiter_open(&limiter, &zero, &failure));
	assert_int_equal(failure.kind, SL_FAILED_ARGUMENT);
	sl_limiter_close(NULL);
}

/* ---- one plain limit --------------------------------------------------------------------------------------------- */

static bool check(struct sl_limiter *limiter, const char *limit, uint32_t cost, sluice_ns now,
                  struct sluice_decision *decision) {
	return now == 0 ? sl_limiter_check(limiter, sl_str("ann"), sl_str(limit), cost, decision) == SLUICE_OK
	                : sl_limiter_check_at(limiter, sl_str("ann"), sl_str(limit), cost, now, decision) == SLUICE_OK;
}

static void expect_same(const struct sluice_decision *a, const struct sluice_decision *b) {
	assert_int_equal(a->allowed, b->allowed);
	assert_int_equal(a->bound, b->bound);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->remaining, b->remaining);
	assert_int_equal(a->quota, b->quota);
	assert_int_equal(a->retry_after_ns, b->retry_after_ns);
	assert_int_equal(a->reset_after_ns, b->reset_after_ns);
	assert_int_equal(a->delay_ns, b->delay_ns);
}

/* The short way and the long one, in a store each. */
static void test_the_short_way_answers_alike(void **state) {
	(void)state;
	static const char *const limits[] = {
		"5/1m", "fixed-window 5/1m", "sliding-log 5/1m", "sliding-buckets 10/1m precision 10s",
		"token-bucket 10/1s burst 3", "leaky-bucket 10/1s queue 2", "unlimited", "1M/month at Europe/Berlin"};
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		struct sl_limiter *a = open_with("", "1MiB", ""), *b = open_with("", "1MiB", "");
		struct sl_told told;
		struct sluice_decision decision;
		assert_false(check(a, limits[i], 1, T, &decision)); /* not known yet */
		assert_true(ask(a, &told, (struct sl_asked){.operation = SL_OP_PEEK, .cost = 1}, limits[i]));
		sl_told_end(a, &told);
		for (int n = 0; n < 9; n++) {
			sluice_ns now = T + (sluice_ns)n * 12345678;
			assert_true(check(a, limits[i], 1 + n % 2, now, &decision));
			struct sl_asked asked = {.operation = SL_OP_CHECK, .cost = 1 + n % 2, .now = now};
			assert_true(ask(b, &told, asked, limits[i]));
			expect_same(&decision, &told.merged);
			assert_int_equal(told.each_count, 0);
			sl_told_end(b, &told);
		}
		sl_limiter_close(a);
		sl_limiter_close(b);
	}
}

static void test_the_running_clock(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	struct sluice_decision decision;
	struct sl_asked_limit limit = {.text = sl_str("sliding-log 5/1m")};
	struct sl_asked asked = {
		.operation = SL_OP_CHECK, .key = sl_str("ann"), .limits = &limit, .limit_count = 1, .cost = 1};
	assert_true(sl_limiter_decide(limiter, &asked, &told, &failure));
	assert_int_equal(told.merged.reset_after_ns, (sluice_ns)60 * 1000000000); /* stamped in whole milliseconds */
	sl_told_end(limiter, &told);
	assert_true(check(limiter, "sliding-log 5/1m", 1, 0, &decision));
	assert_int_equal(decision.remaining, 3);
	assert_int_equal(decision.reset_after_ns, (sluice_ns)60 * 1000000000);
	sl_limiter_close(limiter);
}

/* What the short way can't say it leaves, with nothing charged. */
static void test_what_is_left_to_the_long_way(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	struct sluice_decision decision;
	static char key[SLUICE_KEY_BYTES_MAX + 1];
	memset(key, 'k', sizeof key);
	for (int i = 0; i < 2; i++) {
		assert_false(check(limiter, "concurrency 2 lease 1s", 1, T, &decision));
		assert_false(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_CHECK, .cost = 1},
		                 "concurrency 2 lease 1s"));
		expect_failure(SL_FAILED_LIMIT, "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE");
	}
	assert_false(check(limiter, "100/60", 1, T, &decision));
	assert_false(check(limiter, "", 1, T, &decision));
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_PEEK, .cost = 1}, "7/1s"));
	sl_told_end(limiter, &told);
	for (size_t left_out = 0; left_out < 2; left_out++) { /* of any length */
		struct sluice_bytes whole = sl_slice(key, sizeof key - left_out);
		assert_int_equal(sl_limiter_check_at(limiter, whole, sl_str("7/1s"), 1, T, &decision), SLUICE_OK);
		assert_int_equal(decision.remaining, 6);
	}
	assert_int_equal(sl_limiter_check_at(limiter, sl_slice(NULL, 0), sl_str("7/1s"), 1, T, &decision), SLUICE_OK);
	sl_limiter_close(limiter);
}

/* Texts of every length, and more than are kept: each finds its own limit. */
static void test_limits_by_their_texts(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "4MiB", "");
	struct sl_told told;
	struct sluice_decision decision;
	char text[64];
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 1; i <= SL_LIMITS_KEPT + 200; i++) {
			snprintf(text, sizeof text, "%s%u/1m", i % 3 == 0 ? "fixed-window " : i % 3 == 1 ? "" : "token-bucket ", i);
			struct sl_asked asked = {.operation = SL_OP_PEEK, .cost = 1};
			assert_true(ask(limiter, &told, asked, text));
			assert_int_equal(told.merged.quota, i);
			sl_told_end(limiter, &told);
			for (int at = 0; at < 2; at++) {
				assert_int_equal(check(limiter, text, 0, at * T, &decision), i <= SL_LIMITS_KEPT);
				if (i <= SL_LIMITS_KEPT)
					assert_int_equal(decision.quota, i);
			}
		}
	assert_int_equal(limiter->kept_count, SL_LIMITS_KEPT);
	sl_limiter_close(limiter);
}

/* ---- the full form ----------------------------------------------------------------------------------------------- */

static void test_all_or_nothing_and_each(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	struct sl_asked asked = {.operation = SL_OP_CHECK, .cost = 3, .each = true};
	assert_true(ask(limiter, &told, asked, "10/1m|fixed-window 2/1h"));
	assert_false(told.merged.allowed);
	assert_int_equal(told.merged.index, 1);
	assert_int_equal(told.merged.retry_after_ns, SLUICE_NEVER);
	assert_int_equal(told.each_count, 2);
	assert_true(told.each[0].allowed);
	assert_int_equal(told.each[0].remaining, 10);
	assert_int_equal(told.granted, 0);
	assert_null(told.id.data);
	sl_told_end(limiter, &told);
	asked.upto = true;
	assert_true(ask(limiter, &told, asked, "10/1m|fixed-window 2/1h"));
	assert_int_equal(told.granted, 2);
	sl_told_end(limiter, &told);
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_RESET}, "10/1m|fixed-window 2/1h"));
	assert_int_equal(told.count, 2);
	sl_told_end(limiter, &told);
	sl_limiter_close(limiter);
}

static void test_leases(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	const char *limits = "concurrency 1 lease 30s";
	char id[64];
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_ACQUIRE, .cost = 1}, limits));
	assert_int_equal(told.id.len, 16);
	snprintf(id, sizeof id, "%.16s", (const char *)told.id.data);
	sl_told_end(limiter, &told);
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_ACQUIRE, .cost = 1}, limits));
	assert_false(told.merged.allowed);
	assert_null(told.id.data);
	sl_told_end(limiter, &told);
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_RENEW, .id = sl_str(id)}, limits));
	assert_int_equal(told.count, 1);
	sl_told_end(limiter, &told);
	for (uint32_t left = 1; left <= 1; left--) {
		assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_RELEASE, .id = sl_str(id)}, limits));
		assert_int_equal(told.count, left);
		sl_told_end(limiter, &told);
	}
	sl_limiter_close(limiter);
}

/* A forked process beyond the last place of its store. */
static void test_without_a_place(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("memory", "1MiB", "");
	struct sluice_store *store = sl_limiter_store(limiter);
	struct sl_told told;
	struct sluice_holder *list;
	uint32_t count, owner = store->owner;
	uint64_t counters;
	struct sluice_bytes key = sl_str("ann"), limit = sl_str("concurrency 3 lease 1h");
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_ACQUIRE, .cost = 1}, limit.data));
	sl_told_end(limiter, &told);
	store->owner = 0;
	for (int i = 0; i < 3; i++) {
		assert_false(i == 0   ? ask(limiter, &told, (struct sl_asked){.operation = SL_OP_PEEK, .cost = 1}, limit.data)
		             : i == 1 ? sl_limiter_holders(limiter, key, limit, T, &list, &count, &failure)
		                      : sl_limiter_counters(limiter, &counters, &failure));
		assert_int_equal(failure.kind, SL_FAILED_FULL);
	}
	store->owner = owner;
	assert_true(sl_limiter_holders(limiter, key, limit, T, &list, &count, &failure));
	assert_int_equal(count, 1);
	free(list);
	assert_true(ask(limiter, &told, (struct sl_asked){.operation = SL_OP_CHECK, .cost = 1}, "sliding-log 5/3650d"));
	sl_told_end(limiter, &told);
	assert_true(sl_limiter_counters(limiter, &counters, &failure));
	assert_int_equal(counters, 1); /* by the running clock the lease has ended */
	sl_limiter_close(limiter);
}

static void test_reservations(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	char ticket[256];
	struct sl_asked asked = {.operation = SL_OP_RESERVE, .cost = 5, .ttl_ms = 1000, .id = sl_str("mine")};
	assert_true(ask(limiter, &told, asked, "10/1m"));
	assert_int_equal(told.merged.remaining, 5);
	snprintf(ticket, sizeof ticket, "%.*s", (int)told.id.len, (const char *)told.id.data);
	sl_told_end(limiter, &told);
	struct sl_asked commit = {.operation = SL_OP_COMMIT, .cost = 2, .id = sl_str(ticket)};
	assert_true(ask(limiter, &told, commit, ""));
	assert_int_equal(told.merged.remaining, 8);
	sl_told_end(limiter, &told);
	assert_false(ask(limiter, &told, commit, ""));
	assert_int_equal(failure.kind, SL_FAILED_UNKNOWN);
	assert_non_null(strstr(failure.text, "no such reservation is open"));
	assert_true(ask(limiter, &told, asked, "10/1m|KEY|bob|100/1h"));
	sl_told_end(limiter, &told);
	struct sl_asked_limit limits[] = {{.text = sl_str("10/1m")}, {.text = sl_str("100/1h"), .key = sl_str("bob")}};
	struct sl_asked own = {.operation = SL_OP_COMMIT, .key = sl_str("ann"), .limits = limits, .limit_count = 2,
	                       .cost = 1, .id = sl_str("mine"), .now = T};
	assert_true(sl_limiter_decide(limiter, &own, &told, &failure)); /* by the id alone */
	assert_int_equal(told.count, 2);
	sl_told_end(limiter, &told);
	own.limits = &(struct sl_asked_limit){.text = sl_str("10")};
	assert_false(sl_limiter_decide(limiter, &own, &told, &failure));
	assert_int_equal(failure.kind, SL_FAILED_LIMIT);
	commit.id = sl_str("nonsense");
	assert_false(ask(limiter, &told, commit, ""));
	expect_failure(SL_FAILED_ARGUMENT,
	               "no ticket: 'nonsense': expected it as SLUICE.RESERVE or SLUICE.ADMIT gave it");
	sl_limiter_close(limiter);
}

static void test_a_reservation_whose_first_limit_has_its_own_key(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_asked_limit limits[] = {{.text = sl_str("100/1h"), .key = sl_str("bob")}, {.text = sl_str("10/1m")}};
	static const char *const keys[] = {"ann", "bob"};
	for (int i = 0; i < 4; i++) { /* at the key of the call, or that of the first limit; of both, or of one alone */
		struct sl_told told;
		char ticket[256];
		struct sl_asked asked = {.operation = SL_OP_RESERVE, .key = sl_str("ann"), .limits = limits,
		                         .limit_count = i < 2 ? 2 : 1, .cost = 5, .ttl_ms = 1000, .now = T};
		assert_true(sl_limiter_decide(limiter, &asked, &told, &failure));
		snprintf(ticket, sizeof ticket, "%.*s", (int)told.id.len, (const char *)told.id.data);
		sl_told_end(limiter, &told);
		struct sl_asked commit = {.operation = SL_OP_COMMIT, .key = sl_str(keys[i % 2]), .cost = 0,
		                          .id = sl_str(ticket), .now = T};
		assert_true(sl_limiter_decide(limiter, &commit, &told, &failure));
		assert_int_equal(told.count, i < 2 ? 2 : 1);
		sl_told_end(limiter, &told);
	}
	sl_limiter_close(limiter);
}

static void test_what_is_wrong(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "");
	struct sl_told told;
	char many[17 * 5 + 1];
	for (int i = 0; i < 17; i++)
		memcpy(many + (ptrdiff_t)5 * i, "1/1s|", 6);
	static char key[SLUICE_KEY_BYTES_MAX + 1];
	memset(key, 'k', sizeof key);
	const struct {
		struct sl_asked asked;
		const char *limits;
		enum sl_failure_kind kind;
		const char *says;
	} wrong[] = {
		{{.operation = SL_OP_CHECK, .cost = 1}, "", SL_FAILED_LIMIT, "no limit for key"},
		{{.operation = SL_OP_RESET}, "", SL_FAILED_LIMIT, "no limit for key"},
		{{.operation = SL_OP_CHECK, .cost = 1}, "100/60", SL_FAILED_LIMIT, "limit 1, column 7: "},
		{{.operation = SL_OP_CHECK, .cost = 1}, many, SL_FAILED_LIMIT, "too many limits: at most 16 in one request"},
		{{.operation = SL_OP_CHECK, .cost = -1}, "1/1s", SL_FAILED_ARGUMENT, "cost '-1': expected a whole number"},
		{{.operation = SL_OP_CHECK, .cost = 1ll << 32}, "1/1s", SL_FAILED_ARGUMENT, "cost '4294967296': expected"},
		{{.operation = SL_OP_CHECK, .cost = 1}, "distinct 2/1m", SL_FAILED_LIMIT, "limit 1: distinct counts members"},
		{{.operation = SL_OP_RESERVE, .cost = 1}, "1/1s", SL_FAILED_ARGUMENT, "ttl_ms '0': expected a whole number"},
		{{.operation = SL_OP_CHECK, .cost = 1, .id = sl_slice(key, 65)}, "1/1s", SL_FAILED_ARGUMENT, "the ID '"},
		{{.operation = SL_OP_CHECK, .cost = 1, .id = sl_slice(key, 0)}, "1/1s", SL_FAILED_ARGUMENT, "the ID '"},
		{{.operation = SL_OP_ACQUIRE, .cost = 1}, "1/1s", SL_FAILED_LIMIT, "no limit of concurrency"},
		{{.operation = SL_OP_CHECK, .cost = 1}, "AT|5|1/1s", SL_FAILED_ARGUMENT, "AT is not allowed here"},
		{{.operation = SL_OP_ADMIT, .cost = 1}, "", SL_FAILED_POLICY, "there is no policy"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_false(ask(limiter, &told, wrong[i].asked, wrong[i].limits));
		if (strncmp(failure.text, wrong[i].says, strlen(wrong[i].says)) != 0)
			fail_msg("%zu: %s", i, failure.text);
		assert_int_equal(failure.kind, wrong[i].kind);
	}
	sl_limiter_close(limiter);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void expect_words(const struct sl_asked *asked, const char *expected) {
	static struct sluice_bytes words[SL_ASKED_WORDS_MAX];
	struct sl_asked_numbers numbers;
	uint32_t count = sl_asked_words(asked, &numbers, words, &failure);
	char text[1024] = "";
	size_t at = 0;
	for (uint32_t i = 0; i < count; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s", i == 0 ? "" : "|", (int)words[i].len,
		                       (const char *)words[i].data);
	assert_string_equal(text, expected);
}

static void test_words(void **state) {
	(void)state;
	const struct sl_asked_limit limits[] = {
		{.text = sl_str("10/1s")},
		{.text = sl_str("distinct 5/1h"), .member = sl_str("home")},
		{.text = sl_str("100/1h"), .key = sl_str("ip:9")},
		{.text = sl_str("5/1m")},
	};
	struct sl_asked asked = {.operation = SL_OP_CHECK, .key = sl_str("ann"), .limits = limits, .limit_count = 4,
	                         .cost = 7, .id = sl_str("r1"), .upto = true, .next = true, .now = T + 999};
	expect_words(&asked, "SLUICE.CHECK|ann|7|AT|1728000000000|UPTO|NEXT|ID|r1|10/1s|MEMBER|home|distinct 5/1h|"
	                     "KEY|ip:9|100/1h|KEY|ann|5/1m");
	asked = (struct sl_asked){.operation = SL_OP_RESERVE, .key = sl_str("ann"), .limits = limits, .limit_count = 1,
	                          .cost = 7, .ttl_ms = 500, .each = true, .next = true};
	expect_words(&asked, "SLUICE.RESERVE|ann|7|500|EACH|10/1s");
	asked = (struct sl_asked){.operation = SL_OP_RELEASE, .key = sl_str("ann"), .id = sl_str("x.y")};
	expect_words(&asked, "SLUICE.RELEASE|ann|x.y");
	asked = (struct sl_asked){.operation = SL_OP_COMMIT, .key = sl_str("*"), .id = sl_str("x.y"), .cost = 3};
	expect_words(&asked, "SLUICE.COMMIT|*|x.y|3");
	const struct sluice_attribute attributes[] = {{sl_str("user"), sl_str("ann")}, {sl_str("ip"), sl_str("::1")}};
	asked = (struct sl_asked){.operation = SL_OP_ADMIT, .cost = 1, .attributes = attributes, .attribute_count = 2,
	                          .member = sl_str("m"), .open = true, .now = T};
	expect_words(&asked, "SLUICE.ADMIT|1|OPEN|MEMBER|m|user|ann|ip|::1");
	asked.attribute_count = 500;
	expect_words(&asked, "");
}

static void test_answers_are_merged(void **state) {
	(void)state;
	struct sl_told told;
	const int64_t good[][7] = {{1, 10, 9, 0, 60000, 0, 100},
	                           {1, UINT32_MAX, UINT32_MAX, 0, 0, 0, 0},
	                           {4, 2, 0, 500, 1000, 0, 500}};
	const struct sluice_bytes texts[SLUICE_ITEMS_MAX + 1] = {sl_str("10/1m"), sl_str("unlimited"), sl_str("2/1s")};
	assert_true(sl_told_merge(&told, good, texts, 3));
	assert_false(told.merged.allowed);
	assert_int_equal(told.merged.index, 2);
	assert_int_equal(told.merged.bound, SLUICE_BOUND_ROOM);
	assert_int_equal(told.merged.remaining, 0);
	assert_int_equal(told.merged.reset_after_ns, (sluice_ns)60 * 1000000000);
	assert_true(sl_told_merge(&told, good + 1, texts + 1, 1));
	assert_int_equal(told.merged.index, -1);
	assert_true(sl_told_merge(&told, good + 1, texts, 1)); /* a quota as large, nothing of which is spent */
	assert_int_equal(told.merged.index, 0);
	const int64_t bad[][7] = {{1, 10, 9, -2, 0, 0, 0}};
	assert_false(sl_told_merge(&told, bad, texts, 1));
	assert_false(sl_told_merge(&told, good, texts, SLUICE_ITEMS_MAX + 1));
}

/* ---- policies ---------------------------------------------------------------------------------------------------- */

static bool admit(struct sl_limiter *limiter, struct sl_told *told, const char *user, int64_t cost) {
	const struct sluice_attribute attributes[] = {{sl_str("user"), sl_str(user)}, {sl_str("path"), sl_str("/a//b?q")}};
	struct sl_asked asked = {
		.operation = SL_OP_ADMIT, .attributes = attributes, .attribute_count = 2, .cost = cost, .now = T};
	return sl_limiter_decide(limiter, &asked, told, &failure);
}

static void test_policy(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB",
	                                       "limits:\n  - {name: other, when: {path: /x}, key: user, limit: 1/1m}\n"
	                                       "  - {name: all, when: {path: /a/b}, key: user, limit: 2/1m}\n");
	struct sl_told told;
	assert_non_null(limiter);
	for (int i = 0; i < 3; i++) {
		assert_true(admit(limiter, &told, "ann", 1));
		assert_int_equal(told.merged.allowed, i < 2);
		assert_int_equal(told.merged.index, 1);
		assert_int_equal(told.each_count, 1);
		assert_int_equal(told.each[0].index, 1);
		assert_string_equal(told.name.data, "all");
		assert_null(told.id.data);
		assert_null(told.limits);
		sl_told_end(limiter, &told);
	}
	const struct sluice_attribute user = {sl_str("user"), sl_str("ann")}, path = {sl_str("path"), sl_str("/a/b")};
	struct sl_asked each = {.operation = SL_OP_ADMIT, .attribute_count = 2, .cost = 0, .each = true,
	                        .attributes = (struct sluice_attribute[]){user, path}};
	assert_true(sl_limiter_decide(limiter, &each, &told, &failure));
	assert_string_equal(told.limits[0].name.data, "all");
	assert_string_equal(told.limits[0].text.data, "sliding-window 2/1m");
	assert_false(told.limits[0].observed);
	sl_told_end(limiter, &told);
	const struct sluice_attribute twice[] = {{sl_str("user"), sl_str("a")}, {sl_str("user"), sl_str("b")}};
	struct sl_asked asked = {.operation = SL_OP_ADMIT, .attributes = twice, .attribute_count = 2, .cost = 1};
	assert_false(sl_limiter_decide(limiter, &asked, &told, &failure));
	expect_failure(SL_FAILED_ARGUMENT, "the attribute 'user' is given twice: expected each once");
	asked.attribute_count = 0;
	assert_false(sl_limiter_decide(limiter, &asked, &told, &failure));
	expect_failure(SL_FAILED_ARGUMENT, "no attribute: expected at least one, a name and a value");
	sl_limiter_close(limiter);
}

static void test_policy_leases_and_long_keys(void **state) {
	(void)state;
	struct sl_limiter *limiter =
		open_with("", "1MiB", "limits:\n  - {name: work, key: user, limit: concurrency 1 lease 1m}\n");
	struct sl_told told;
	char user[SLUICE_KEY_BYTES_MAX + 1], ticket[4096];
	memset(user, '%', sizeof user - 1); /* three bytes each in a key */
	user[sizeof user - 1] = '\0';
	assert_true(admit(limiter, &told, user, 1));
	assert_non_null(told.id.data);
	snprintf(ticket, sizeof ticket, "%.*s", (int)told.id.len, (const char *)told.id.data);
	sl_told_end(limiter, &told);
	assert_true(admit(limiter, &told, user, 1));
	assert_false(told.merged.allowed);
	sl_told_end(limiter, &told);
	assert_true(ask(limiter, &told,
	                (struct sl_asked){.operation = SL_OP_RELEASE, .key = sl_str("*"), .id = sl_str(ticket)}, ""));
	assert_int_equal(told.count, 1);
	sl_told_end(limiter, &told);
	sl_limiter_close(limiter);
}

static void test_stagger(void **state) {
	(void)state;
	struct sl_limiter *limiter =
		open_with("", "1MiB", "limits:\n  - {name: one, key: user, limit: sliding-log 1/1m, stagger: true}\n");
	const struct sluice_attribute user = {sl_str("user"), sl_str("ann")};
	struct sl_asked asked = {.operation = SL_OP_ADMIT, .attributes = &user, .attribute_count = 1, .cost = 1};
	struct sl_told told;
	sluice_ns waits[3];
	for (int i = 0; i < 3; i++) {
		assert_true(sl_limiter_decide(limiter, &asked, &told, &failure));
		waits[i] = told.merged.retry_after_ns;
		sl_told_end(limiter, &told);
	}
	assert_int_equal(waits[0], 0);
	assert_true(waits[2] >= waits[1] + (sluice_ns)59 * 1000000000);
	sl_limiter_close(limiter);
}

/* Refused, and not read as far as there is room for it. */
static void test_policy_that_is_too_long(void **state) {
	(void)state;
	static const char yaml[] = "limits: [{name: a, key: user, limit: 1/1m}]\n";
	char path[] = "/tmp/handle_test.XXXXXX", text[sizeof path + 64];
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, sizeof yaml - 1), sizeof yaml - 1);
	assert_int_equal(ftruncate(fd, SL_POLICY_FILE_BYTES_MAX + 1), 0);
	assert_null(open_with("", "1MiB", path));
	snprintf(text, sizeof text, "%s:1:1: expected a file of at most %d bytes", path, SL_POLICY_FILE_BYTES_MAX);
	expect_failure(SL_FAILED_POLICY, text);
	assert_int_equal(ftruncate(fd, sizeof yaml - 1), 0);
	struct sl_limiter *limiter = open_with("", "1MiB", path);
	assert_non_null(limiter);
	sl_limiter_close(limiter);
	(void)close(fd);
	(void)unlink(path);
}

static void test_reload(void **state) {
	(void)state;
	struct sl_limiter *limiter = open_with("", "1MiB", "limits: [{name: a, key: user, limit: 1/1m}]\n");
	struct sl_told told;
	assert_false(sl_limiter_reload(limiter, sl_str("limits:\n  - {name: a, limt: 3}\n  - {name: a}\n"), &failure));
	assert_int_equal(failure.kind, SL_FAILED_POLICY);
	assert_non_null(strstr(failure.text, "policy:2:"));
	assert_non_null(strstr(failure.text, "\npolicy:3:")); /* all of them */
	assert_false(sl_limiter_reload(limiter, sl_str("threads: 1\n"), &failure));
	expect_failure(SL_FAILED_POLICY, "the policy was rejected: it has no limits, and does not say limits: []");
	assert_false(sl_limiter_reload(limiter, sl_str("/nowhere.yaml"), &failure));
	assert_int_equal(failure.kind, SL_FAILED_POLICY);
	assert_true(admit(limiter, &told, "ann", 1));
	assert_string_equal(told.name.data, "a");
	/* replaced while a call looks at it: freed when it is safe */
	assert_non_null(sl_limiter_enter(limiter));
	assert_true(sl_limiter_reload(limiter, sl_str("limits: [{name: b, key: user, limit: 1/1m}]\n"), &failure));
	assert_non_null(limiter->retired);
	sl_limiter_leave(limiter);
	sl_told_end(limiter, &told);
	assert_true(sl_limiter_reload(limiter, sl_str("limits: []\n"), &failure));
	assert_null(limiter->retired);
	assert_true(admit(limiter, &told, "ann", 1));
	assert_int_equal(told.merged.index, -1);
	assert_int_equal(told.name.len, 0);
	sl_told_end(limiter, &told);
	sl_limiter_close(limiter);
}

static void test_many_mistakes_are_cut(void **state) {
	(void)state;
	char yaml[8192] = "limits:\n";
	size_t len = strlen(yaml);
	for (int i = 0; i < 100; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "  - {name: a, limit: nonsense}\n");
	assert_null(open_with("", "1MiB", yaml));
	assert_int_equal(failure.kind, SL_FAILED_POLICY);
	assert_in_range(strlen(failure.text), SL_FAILURE_BYTES / 2, SL_FAILURE_BYTES - 1);
}

static void test_kinds(void **state) {
	(void)state;
	for (int i = 0; i < SL_FAILURES; i++)
		assert_non_null(sl_failure_name((enum sl_failure_kind)i));
	assert_int_equal(sl_failure_kind_of(sl_str("ERR limit 1, column 1: x")), SL_FAILED_LIMIT);
	assert_int_equal(sl_failure_kind_of(sl_str("ERR the store did not answer in time: x")), SL_FAILED_AWAY);
	assert_int_equal(sl_failure_kind_of(sl_str("NOAUTH Authentication required.")), SL_FAILED_ACCESS);
	assert_int_equal(sl_failure_kind_of(sl_str("ERR")), SL_FAILED_ARGUMENT);
	assert_int_equal(sl_failure_kind_of(sl_slice(NULL, 0)), SL_FAILED_ARGUMENT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stores),
		cmocka_unit_test(test_what_is_no_store),
		cmocka_unit_test(test_the_short_way_answers_alike),
		cmocka_unit_test(test_the_running_clock),
		cmocka_unit_test(test_what_is_left_to_the_long_way),
		cmocka_unit_test(test_limits_by_their_texts),
		cmocka_unit_test(test_all_or_nothing_and_each),
		cmocka_unit_test(test_leases),
		cmocka_unit_test(test_without_a_place),
		cmocka_unit_test(test_reservations),
		cmocka_unit_test(test_a_reservation_whose_first_limit_has_its_own_key),
		cmocka_unit_test(test_what_is_wrong),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_answers_are_merged),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_policy_leases_and_long_keys),
		cmocka_unit_test(test_policy_that_is_too_long),
		cmocka_unit_test(test_stagger),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_many_mistakes_are_cut),
		cmocka_unit_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
