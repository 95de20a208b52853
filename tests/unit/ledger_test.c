/* Reservations, corrections and charges whatever the quota, edge by edge. Random streams are in tests/model. */
#include "algo/bundle.h"
#include "algo/step.h"
#include "base/bytes.h"
#include "base/math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)
#define S (1000 * MS)
#define T0 (1767225600 * S) /* a whole minute */

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

struct host {
	struct sluice_limit limit;
	struct sl_counter counter;
	struct sl_reservation list[8];
	struct sl_ledger ledger;
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / 8 + 1];
};

static struct host *host_of(const char *text) {
	static struct host host;
	free(host.counter.block);
	host = (struct host){.limit = limit_of(text)};
	host.ledger.list = host.list;
	return &host;
}

static void set_block(struct host *h, void *block, uint64_t bytes) {
	if (block == NULL)
		return;
	if (h->counter.block != block)
		free(h->counter.block);
	h->counter.block = block;
	h->counter.block_bytes = bytes;
}

static void write_charge(struct host *h, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = h->counter;
	uint64_t bytes = (sl_step_block_bytes(&h->limit, &counter, cost) + 7) / 8 * 8;
	void *block = bytes != 0 ? malloc(bytes) : NULL, *old = h->counter.block;
	sl_step_write(&h->limit, &counter, now, cost, block, bytes);
	h->counter = counter;
	h->counter.block = old;
	set_block(h, block, bytes);
}

static struct sluice_decision charge(struct host *h, sluice_ns now, uint32_t cost) {
	struct sluice_decision decision;
	sl_step(&h->limit, &h->counter, now, cost, true, &decision);
	if (decision.allowed && sl_rule_has(&h->limit, SL_HAS_BLOCK))
		write_charge(h, now, cost);
	return decision;
}

static void reserve(struct host *h, sluice_ns now, uint32_t cost, sluice_ns ttl) {
	struct sl_reservation *its = &h->list[h->ledger.count++];
	assert_true(charge(h, now, cost).allowed);
	*its = (struct sl_reservation){.id = h->ledger.count, .instant = now, .end = now + ttl, .cost = cost};
	its->debt = sl_ledger_debt(&h->limit, &h->counter, now);
}

static void correct(struct host *h, const struct sl_correction *list, uint32_t count, bool changes) {
	struct sl_counter counter = h->counter;
	uint64_t bytes = (sl_correct_bytes(&h->limit, &counter, count) + 7) / 8 * 8;
	void *block = bytes != 0 ? malloc(bytes) : NULL, *old = h->counter.block;
	assert_int_equal(sl_correct(&h->limit, &counter, list, count, block, bytes), changes);
	if (!changes) {
		assert_memory_equal(&counter.state, &h->counter.state, sizeof counter.state);
		free(block);
		return;
	}
	h->counter = counter;
	h->counter.block = old;
	set_block(h, block, bytes);
	assert_true(sl_counter_is_valid(&h->limit, &h->counter));
}

static struct sluice_decision ask(struct host *h, sluice_ns now, uint64_t cost) {
	struct sluice_decision decision;
	sl_ledger_step(&h->limit, &h->counter, &h->ledger, now, cost, h->scratch, &decision);
	return decision;
}

static const char *const ten_a_minute[] = {
	"fixed-window 10/1m", "sliding-window 10/1m",        "sliding-buckets 10/1m precision 5s",
	"sliding-log 10/1m",  "token-bucket 10/1m burst 10", "leaky-bucket 10/1m queue 9",
};
enum { ALGORITHMS = sizeof ten_a_minute / sizeof *ten_a_minute };

/* A wait that ends with a reservation, not with the window; and nothing is written for it. */
static void a_denial_knows_that_reservations_end(void **state) {
	(void)state;
	for (int i = 0; i < ALGORITHMS; i++) {
		struct host *h = host_of(ten_a_minute[i]);
		struct sl_state before;
		reserve(h, T0, 10, 3 * S);
		before = h->counter.state;
		assert_int_equal(ask(h, T0, 10).retry_after_ns, 3 * S);
		assert_int_equal(ask(h, T0, 10).reset_after_ns, 3 * S);
		assert_false(ask(h, T0 + 3 * S - 1, 10).allowed);
		assert_int_equal(ask(h, T0 + 3 * S - 1, 10).retry_after_ns, 1);
		assert_memory_equal(&before, &h->counter.state, sizeof before);
		assert_int_equal(ask(h, T0 + 3 * S, 10).remaining, 10);
		assert_int_equal(ask(h, T0 + 3 * S, 10).reset_after_ns, 0);
	}
}

/* Two that end at one instant go together, and the wait is for the last that is needed. */
static int64_t find(const struct host *h, uint64_t id, sluice_ns now) {
	return sl_bundle_find(&h->limit, &h->ledger, &(struct sl_contents){.memory = NULL}, id, now).at;
}

static void ends_are_waited_for_in_turn(void **state) {
	struct host *h = host_of("sliding-log 10/1m");
	(void)state;
	reserve(h, T0, 3, 2 * S);
	reserve(h, T0, 4, 5 * S);
	reserve(h, T0 + S, 3, 4 * S);
	assert_int_equal(ask(h, T0 + S, 3).retry_after_ns, 1 * S);
	assert_int_equal(ask(h, T0 + S, 4).retry_after_ns, 4 * S);
	assert_int_equal(ask(h, T0 + S, 10).retry_after_ns, 4 * S);
	assert_int_equal(ask(h, T0 + S, 11).retry_after_ns, SLUICE_NEVER);
	assert_int_equal(sl_ledger_ended(&h->ledger, T0 + 5 * S), 3);
	assert_int_equal(find(h, 1, T0 + 2 * S - 1), 0);
	assert_int_equal(find(h, 1, T0 + 2 * S), -1);
	assert_int_equal(find(h, 9, T0), -1);
}

/* More reservations of a log than a search remembers: those behind them go back as well, each for what its entry still
 * holds. Of `shared` that were made in one millisecond a refund has taken some back. */
static void thousands_end_one_by_one(struct host *h, uint32_t shared, uint32_t refund) {
	enum { OPEN = 4000, OTHER = 1000 };
	static struct sl_reservation list[OPEN];
	uint32_t left = shared - refund;
	h->ledger.list = list;
	h->ledger.count = OPEN;
	for (uint32_t i = 0; i < OPEN; i++) {
		sluice_ns at = T0 + (i < shared ? 0 : i) * MS;
		list[i] = (struct sl_reservation){.id = i + 1, .instant = at, .end = T0 + 10 * S + i * MS, .cost = 1};
		assert_true(charge(h, at, 1).allowed);
		if (i + 1 == shared)
			assert_int_equal(sl_step_refund(&h->limit, &h->counter, at, refund), refund != 0);
	}
	assert_true(charge(h, T0 + 9 * S, OTHER).allowed);
	for (uint32_t ended = 0; ended <= OPEN; ended += 160) {
		sluice_ns at = T0 + 10 * S + ended * MS - 1;
		uint32_t back = (uint32_t)sl_min(ended, left) + (ended > shared ? ended - shared : 0);
		uint32_t used = OTHER + OPEN - refund - back;
		assert_int_equal(ask(h, at, 0).remaining, 5000 - used);
		assert_true(ask(h, at, 5000 - used).allowed);
		assert_false(ask(h, at, 5000 - used + 1).allowed);
	}
	assert_int_equal(ask(h, T0 + 9 * S, 4000).retry_after_ns, 1 * S + (OPEN - 1) * MS);
}

static void more_may_be_open_than_are_remembered(void **state) {
	(void)state;
	thousands_end_one_by_one(host_of("sliding-log 5000/1m"), 0, 0);
	thousands_end_one_by_one(host_of("sliding-log 5000/1m"), 2500, 0);
	thousands_end_one_by_one(host_of("sliding-log 5000/1m"), 2500, 300);
}

/* 400 reserved, 1,000 used: 600 above the quota are waited for, to the ms. */
static void debt_is_paid_before_the_next_admission(void **state) {
	struct host *h = host_of("sliding-log 400/1m");
	struct sl_correction above = {.instant = T0, .known = T0 + 2 * S, .charged = 400, .actual = 1000};
	(void)state;
	assert_true(charge(h, T0, 400).allowed);
	correct(h, &above, 1, true);
	assert_int_equal(ask(h, T0 + 2 * S, 1).remaining, 0);
	assert_int_equal(ask(h, T0 + 2 * S, 1).retry_after_ns, 58 * S);
	assert_true(ask(h, T0 + 60 * S, 400).allowed);

	h = host_of("token-bucket 10/1s burst 10");
	above = (struct sl_correction){.instant = T0, .known = T0 + S, .charged = 10, .actual = 35, .debt = 10};
	assert_true(charge(h, T0, 10).allowed);
	correct(h, &above, 1, true); /* the first 10 have drained by then; 25 are owed */
	assert_int_equal(ask(h, T0 + S, 10).retry_after_ns, 2500 * MS);
	assert_int_equal(ask(h, T0 + S, 1).retry_after_ns, 1600 * MS);
	assert_false(ask(h, T0 + 2600 * MS - 1, 1).allowed);
	assert_true(ask(h, T0 + 2600 * MS, 1).allowed);

	h = host_of("sliding-window 10/1m");
	above = (struct sl_correction){.instant = T0, .charged = 10, .actual = 40};
	assert_true(charge(h, T0, 10).allowed);
	correct(h, &above, 1, true); /* 40 weigh 10 at three quarters of the next minute, and 9 at 46.5 s */
	assert_int_equal(ask(h, T0, 1).retry_after_ns, 60 * S + 46500 * MS);
	assert_int_equal(ask(h, T0, 10).retry_after_ns, 120 * S);
}

/* Corrected in the window in which it was charged, when that has become the one before. */
static void a_window_that_has_rolled_is_corrected(void **state) {
	struct host *h = host_of("sliding-window 10/1m");
	struct sl_correction down = {.instant = T0 + 59 * S, .charged = 6, .actual = 2};
	(void)state;
	assert_true(charge(h, T0 + 59 * S, 6).allowed);
	assert_true(charge(h, T0 + 61 * S, 1).allowed);
	correct(h, &down, 1, true);
	assert_int_equal(h->counter.state.w[1], (uint64_t)2 << 32 | 1);
	assert_true(charge(h, T0 + 121 * S, 1).allowed);
	correct(h, &down, 1, false); /* gone */

	h = host_of("fixed-window 10/1m");
	assert_true(charge(h, T0 + 59 * S, 6).allowed);
	correct(h, &down, 1, true);
	assert_int_equal(ask(h, T0 + 59 * S, 1).remaining, 8);
	assert_true(charge(h, T0 + 61 * S, 1).allowed);
	correct(h, &down, 1, false);
	assert_int_equal(ask(h, T0 + 61 * S, 1).remaining, 9);
}

/* What was too much goes back, but not what has drained since. */
static void a_bucket_gives_back_what_has_not_drained(void **state) {
	struct host *h = host_of("token-bucket 10/1s burst 100");
	struct sl_correction down = {.instant = T0, .known = T0 + 6 * S, .charged = 80, .actual = 0, .debt = 90};
	(void)state;
	assert_true(charge(h, T0, 10).allowed);
	assert_true(charge(h, T0, 80).allowed);
	assert_int_equal(sl_ledger_debt(&h->limit, &h->counter, T0), 90);
	assert_true(charge(h, T0 + 6 * S, 50).allowed); /* 30 of the 90 are left, and 50 more */
	correct(h, &down, 1, true);
	assert_int_equal(ask(h, T0 + 6 * S, 1).remaining, 50);
	down.known = T0 + 9 * S;
	correct(h, &down, 1, false);
}

/* The oldest cost drains first: of 5 that were reserved at 0 s, 2 are left at 3 s, and no more than those go back. Had
 * the true cost of 1 been charged, then 2 of the 3 of 1 s would have drained instead. */
static void a_bucket_gives_back_less_after_another_charge(void **state) {
	struct sl_correction down = {.instant = T0, .known = T0 + 3 * S, .charged = 5, .actual = 1, .debt = 5};
	struct host *h = host_of("token-bucket 1/1s burst 10");
	(void)state;
	assert_true(charge(h, T0, 1).allowed);
	assert_true(charge(h, T0 + S, 3).allowed);
	assert_int_equal(ask(h, T0 + 3 * S, 1).remaining, 9);

	h = host_of("token-bucket 1/1s burst 10");
	assert_true(charge(h, T0, 5).allowed);
	assert_true(charge(h, T0 + S, 3).allowed);
	correct(h, &down, 1, true);
	assert_int_equal(ask(h, T0 + 3 * S, 1).remaining, 7);
}

/* A unit log becomes weighted, an entry that is left with nothing goes, and one that a refund took comes again. */
static void a_log_is_corrected_entry_by_entry(void **state) {
	struct host *h = host_of("sliding-log 10/1m");
	struct sl_correction list[] = {{.instant = T0, .charged = 1, .actual = 3},
	                               {.instant = T0 + S, .charged = 1, .actual = 0},
	                               {.instant = T0 + 2 * S + 1, .charged = 1, .actual = 2}};
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(charge(h, T0 + (sluice_ns)i * S + (i == 2), 1).allowed);
	correct(h, list, 3, true);
	assert_int_equal(ask(h, T0 + 3 * S, 1).remaining, 5);
	assert_int_equal(ask(h, T0 + 60 * S, 1).remaining, 8); /* the first 3 gone */
	assert_int_equal(ask(h, T0 + 61 * S, 1).remaining, 8); /* there was nothing */
	assert_int_equal(ask(h, T0 + 62 * S + MS, 1).remaining, 10);
	assert_true(sl_step_refund(&h->limit, &h->counter, T0 + 3 * S, 10));
	list[0] = (struct sl_correction){.instant = T0 + S, .charged = 1, .actual = 5};
	correct(h, list, 1, true);
	assert_int_equal(ask(h, T0 + 61 * S - 1, 1).remaining, 6);
	assert_int_equal(ask(h, T0 + 61 * S, 1).remaining, 10);
}

/* An entry of just a window before the last charge counts until the millisecond of both ends, and so does what goes
 * back of it when its reservation ends in that millisecond. */
static void a_log_gives_back_what_is_a_window_old(void **state) {
	struct host *h = host_of("sliding-log 10/1s");
	const sluice_ns last = T0 + S + 5 * MS;
	(void)state;
	reserve(h, T0 + 5 * MS + MS / 2, 4, S);
	reserve(h, T0 + 5 * MS + MS / 2, 3, 2 * S);
	assert_true(charge(h, last + MS / 4, 2).allowed);
	assert_int_equal(ask(h, last + MS / 2 - 1, 1).remaining, 1);
	assert_int_equal(ask(h, last + MS / 2 - 1, 5).retry_after_ns, 1);
	assert_int_equal(ask(h, last + MS / 2, 5).remaining, 5);
	assert_int_equal(ask(h, last + MS - 1, 6).retry_after_ns, 1);
	assert_int_equal(ask(h, last + MS, 8).remaining, 8);
}

static void nothing_is_corrected_of_nothing(void **state) {
	(void)state;
	for (int i = 0; i < ALGORITHMS; i++) {
		struct host *h = host_of(ten_a_minute[i]);
		struct sl_correction same = {.instant = T0, .known = T0, .charged = 4, .actual = 4, .debt = 4};
		struct sl_correction down = {.instant = T0 - 600 * S, .known = T0, .charged = 4, .debt = 4};
		assert_true(charge(h, T0, 4).allowed);
		correct(h, &same, 1, false);
		correct(h, &down, 1, false);
		assert_int_equal(ask(h, T0, 1).remaining, 6);
	}
}

/* ---- charges whatever the quota --------------------------------------------------------------------------------- */

static struct sluice_decision count(struct host *h, sluice_ns now, uint32_t cost) {
	struct sluice_decision decision;
	uint32_t charged;
	sl_step(&h->limit, &h->counter, now, cost, false, &decision);
	charged = sl_step_count(&h->limit, &h->counter, now, cost);
	if (charged != 0 && sl_rule_has(&h->limit, SL_HAS_BLOCK)) {
		write_charge(h, now, charged);
		while (sl_step_trim(&h->limit, &h->counter, now))
			continue;
	}
	sl_step_counted(&h->limit, &h->counter, now, cost, &decision);
	assert_true(sl_counter_is_valid(&h->limit, &h->counter));
	return decision;
}

/* Who keeps asking stays out; each algorithm as far as its words go. */
static void what_is_denied_is_charged(void **state) {
	/* Of a sliding window 20 weigh 9 at 33 s of the next minute; sub-buckets leave whole, those of 0 s at 65 s. */
	static const sluice_ns waits[ALGORITHMS] = {59 * S, 92 * S, 64 * S, 60 * S, 6 * S, 6 * S};
	(void)state;
	for (int i = 0; i < ALGORITHMS; i++) {
		struct host *h = host_of(ten_a_minute[i]);
		struct sluice_decision decision;
		for (int k = 0; k < 10; k++)
			assert_true(count(h, T0, 1).allowed);
		assert_int_equal(ask(h, T0, 1).remaining, 0);
		for (int k = 0; k < 10; k++) {
			decision = count(h, T0 + S, 1);
			assert_false(decision.allowed);
			assert_int_equal(decision.remaining, 0);
		}
		assert_int_equal(decision.retry_after_ns, waits[i]);
	}
}

static void a_log_keeps_its_newest_units(void **state) {
	struct host *h = host_of("sliding-log 10/1m");
	(void)state;
	assert_true(charge(h, T0, 4).allowed);
	assert_true(charge(h, T0 + S, 4).allowed);
	assert_false(count(h, T0 + 2 * S, 5).allowed); /* 1 of the first is left */
	assert_int_equal(ask(h, T0 + 2 * S, 1).remaining, 0);
	assert_int_equal(ask(h, T0 + 60 * S, 1).remaining, 1);
	assert_int_equal(ask(h, T0 + 61 * S, 1).remaining, 5);
	assert_int_equal(count(h, T0 + 3 * S, 99).retry_after_ns, SLUICE_NEVER);
	assert_int_equal(ask(h, T0 + 3 * S, 1).retry_after_ns, 60 * S);
	assert_int_equal(ask(h, T0 + 3 * S, 10).reset_after_ns, 60 * S);
}

static void counts_saturate(void **state) {
	struct host *h = host_of("fixed-window 10/1m");
	(void)state;
	(void)count(h, T0, UINT32_MAX - 1);
	assert_int_equal(sl_step_count(&h->limit, &h->counter, T0, 5), 1);
	assert_int_equal(sl_step_count(&h->limit, &h->counter, T0, 5), 0);
	h = host_of("sliding-buckets 10/1m precision 5s");
	(void)count(h, T0, UINT32_MAX - 1);
	assert_int_equal(sl_step_count(&h->limit, &h->counter, T0 + 5 * S, 5), 1);
	h = host_of("token-bucket 10/1s burst 5");
	(void)count(h, T0, UINT32_MAX);
	assert_int_equal(ask(h, T0, 5).reset_after_ns, 500 * MS);
	assert_int_equal(sl_step_count(&h->limit, &h->counter, T0, 5), 0);
	h = host_of("fixed-window 0/1m");
	assert_int_equal(sl_step_count(&h->limit, &h->counter, T0, 5), 0);
	assert_true(sl_state_is_none(&h->counter.state));
}

/* A list with its contents. */
struct bundled {
	struct sluice_limit limit;
	struct sl_contents contents;
	struct sl_reservation list[SL_LEDGER_LIST_MAX + 1];
	struct sl_ledger ledger;
};
enum { CONTENTS_BYTES = 65536 };

static struct bundled *bundled_of(const char *text, uint64_t bytes) {
	static uint64_t memory[CONTENTS_BYTES / 8];
	static struct bundled b;
	assert_true(bytes <= sizeof memory);
	b = (struct bundled){.limit = limit_of(text), .contents = {.memory = memory, .bytes = bytes}};
	b.ledger.list = b.list;
	sl_contents_format(&b.limit, &b.contents, NULL, &b.ledger, 7);
	return &b;
}

static void bundle(struct bundled *b, const struct sl_reservation *its) {
	sl_bundle_add(&b->limit, b->limit.quota, b->list, &b->ledger.count, its, &b->contents);
}

static struct sl_found find_bundled(const struct bundled *b, uint64_t id, sluice_ns now) {
	return sl_bundle_find(&b->limit, &b->ledger, &b->contents, id, now);
}

/* Of 65 the two whose ends lie closest end together. Of a bucket what drains meanwhile is given back less, once it has
 * begun to drain: 5 charged of a debt of 5, of which 1 is gone at its own end and another one 10 s later. */
static void a_bucket_gives_back_less_where_it_waits(void **state) {
	struct bundled *b = bundled_of("token-bucket 6/1m burst 1000", CONTENTS_BYTES);
	struct sl_found found;
	(void)state;
	assert_true(sl_contents_bytes(4) <= CONTENTS_BYTES);
	bundle(b, &(struct sl_reservation){1, T0, T0 + 10 * S, 5, 5});
	bundle(b, &(struct sl_reservation){2, T0, T0 + 20 * S, 5, 100});
	for (uint64_t i = 3; i <= SL_LEDGER_LIST_MAX + 1; i++)
		bundle(b, &(struct sl_reservation){i, T0 + 1000 * i * S - 1, T0 + 1000 * i * S, 1, 1});
	assert_int_equal(b->ledger.count, SL_LEDGER_LIST_MAX);
	assert_int_equal(sl_ledger_open(b->limit.algorithm, &b->ledger), SL_LEDGER_LIST_MAX + 1);
	assert_true(sl_bundle_is(b->limit.algorithm, &b->list[0]));
	assert_int_equal(b->list[0].end, T0 + 20 * S);
	assert_int_equal(b->list[0].cost, 3 + 5);
	found = find_bundled(b, 1, T0 + 15 * S);
	assert_true(found.at == 0 && found.place != NULL && found.its.cost == 5 && found.its.end == T0 + 10 * S);
	assert_int_equal(find_bundled(b, 1, T0 + 20 * S).at, -1);
}

/* Reservations beside a bundle of a log, of its class and of others: each goes back once. */
static void a_bundle_takes_nothing_of_what_stands_beside_it(void **state) {
	struct host *h = host_of("sliding-log 20/1m");
	(void)state;
	reserve(h, T0, 3, 40 * S);
	h->list[0].debt = 2; /* two of them */
	reserve(h, T0 + S, 4, 40 * S);
	reserve(h, T0 + 20 * S, 5, 30 * S);
	assert_true(charge(h, T0 + 25 * S, 6).allowed);
	assert_int_equal(ask(h, T0 + 30 * S, 0).remaining, 2);
	assert_int_equal(ask(h, T0 + 30 * S, 5).retry_after_ns, 10 * S);
	assert_int_equal(ask(h, T0 + 40 * S, 0).remaining, 5);
	assert_int_equal(ask(h, T0 + 41 * S, 0).remaining, 9);
	assert_int_equal(ask(h, T0 + 50 * S, 0).remaining, 14);
	assert_int_equal(ask(h, T0 + 85 * S, 0).remaining, 20);
}

/* ---- contents of bundles ----------------------------------------------------------------------------------------- */

static struct bundled *bundled_hours(uint64_t reserved, uint64_t bytes) {
	struct bundled *b = bundled_of("fixed-window 1000/1h", bytes);
	for (uint64_t id = 1; id <= reserved; id++)
		bundle(b, &(struct sl_reservation){id, T0 + id, T0 + (60 + id) * S, 1, 0});
	return b;
}

/* What was void when contents grew is void in the larger ones, and is found there. */
static void what_is_void_stays_so_in_larger_contents(void **state) {
	enum { RESERVED = 200 };
	static uint64_t more[2 * CONTENTS_BYTES / 8];
	struct bundled *b = bundled_hours(RESERVED, CONTENTS_BYTES);
	const struct sl_contents larger = {.memory = more, .bytes = sizeof more};
	uint32_t bundled = 0;
	(void)state;
	sl_contents_void(&b->contents, T0 + S);
	for (uint32_t k = 0; k < b->ledger.count; k++)
		sl_bundle_void(b->limit.algorithm, &b->list[k]);
	sl_contents_format(&b->limit, &larger, &b->contents, &b->ledger, 9);
	b->contents = larger;
	for (uint64_t id = 1; id <= RESERVED; id++) {
		struct sl_found found = find_bundled(b, id, T0 + 2 * S);
		assert_true(found.at >= 0 && found.its.instant == 0);
		bundled += found.place != NULL;
	}
	assert_true(bundled > RESERVED / 2);
}

/* Where contents are too small, which nobody who asks can bring about, what has no place is counted no longer. */
static void what_has_no_place_is_not_counted(void **state) {
	enum { RESERVED = 300 };
	const struct bundled *b = bundled_hours(RESERVED, 516 * 8); /* 8 buckets of 16 */
	uint32_t found = 0;
	(void)state;
	for (uint64_t id = 1; id <= RESERVED; id++)
		found += find_bundled(b, id, T0 + 2 * S).at >= 0;
	assert_in_range(found, 64 + 64, RESERVED - 1);
	assert_int_equal(sl_ledger_open(b->limit.algorithm, &b->ledger), found);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* The block of a log is made smaller once a quarter of it would do, and not before; one of up to 32 entries never. */
static void a_log_shrinks_to_a_quarter(void **state) {
	static const uint32_t charged[] = {20, 24, 26, 28, 30, 34, 38, 200};
	uint32_t kept = 0, shrunk = 0;
	(void)state;
	for (size_t k = 0; k < sizeof charged / sizeof *charged; k++) {
		struct host *h = host_of("sliding-log 1000/1m");
		for (uint64_t i = 0; i < charged[k]; i++)
			assert_true(charge(h, T0 + i * S / 10, 1).allowed);
		for (uint64_t i = 0; i < charged[k]; i++) {
			struct sl_counter counter = h->counter;
			struct sluice_decision decision;
			sl_step(&h->limit, &counter, T0 + 60 * S + i * S / 10, 1, true, &decision);
			uint32_t need = counter.log.count - counter.log.expired + 2; /* one more, and the one before the oldest */
			bool stays = sl_step_block_bytes(&h->limit, &counter, 1) == 0;
			assert_int_equal(stays, need > counter.log.capacity / 4 || counter.log.capacity <= 32);
			kept += stays;
			shrunk += !stays;
		}
	}
	assert_true(kept > 200 && shrunk > 40);
}

/* What goes back from the oldest on goes back of its own sub-buckets, and of no others. */
static void a_spread_return_stays_in_its_stretch(void **state) {
	static const struct {
		sluice_ns spread;
		uint32_t charged, back;
	} rows[] = {{T0 + 60 * S, 5, 5}, {T0 + 60 * S, 10, 10}, {T0 + 60 * S, 25, 10}, {T0 + 60 * S + 1, 25, 20},
	            {T0 + 120 * S, 19, 19}, {T0 + 900 * S, 50, 30}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct host *h = host_of("sliding-buckets 1000/1h precision 1m");
		for (int minute = 0; minute < 3; minute++)
			assert_true(charge(h, T0 + minute * 60 * S, 10).allowed);
		struct sl_correction back = {.instant = T0, .charged = rows[i].charged, .spread = rows[i].spread};
		correct(h, &back, 1, true);
		assert_int_equal(ask(h, T0 + 120 * S, 0).remaining, 1000 - 30 + rows[i].back);
	}
}

/* A counter whose bytes say that it was charged at the end of time: what is reserved of it is no bundle, and can be
 * noted. */
static void what_is_reserved_of_a_damaged_counter_is_no_bundle(void **state) {
	static const char *const texts[] = {"token-bucket 10/1s", "leaky-bucket 10/1s queue 5", "sliding-window 10/1m",
	                                    "fixed-window 10/1m"};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (uint64_t bit = 0; bit < 64; bit++) {
			struct bundled *b = bundled_of(texts[i], CONTENTS_BYTES);
			struct sl_counter counter = {.state.w = {UINT64_MAX << bit, UINT64_MAX}};
			struct sl_reservation its = sl_reservation_of(&b->limit, &counter, T0, 1, 1, S);
			assert_true(its.instant < its.end && !sl_bundle_is(b->limit.algorithm, &its));
			bundle(b, &its);
			assert_int_equal(b->ledger.count, 1);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denial_knows_that_reservations_end),
		cmocka_unit_test(ends_are_waited_for_in_turn),
		cmocka_unit_test(more_may_be_open_than_are_remembered),
		cmocka_unit_test(debt_is_paid_before_the_next_admission),
		cmocka_unit_test(what_is_void_stays_so_in_larger_contents),
		cmocka_unit_test(what_has_no_place_is_not_counted),
		cmocka_unit_test(a_log_shrinks_to_a_quarter),
		cmocka_unit_test(what_is_reserved_of_a_damaged_counter_is_no_bundle),
		cmocka_unit_test(a_spread_return_stays_in_its_stretch),
		cmocka_unit_test(a_window_that_has_rolled_is_corrected),
		cmocka_unit_test(a_bucket_gives_back_what_has_not_drained),
		cmocka_unit_test(a_bucket_gives_back_less_after_another_charge),
		cmocka_unit_test(a_log_is_corrected_entry_by_entry),
		cmocka_unit_test(a_log_gives_back_what_is_a_window_old),
		cmocka_unit_test(nothing_is_corrected_of_nothing),
		cmocka_unit_test(what_is_denied_is_charged),
		cmocka_unit_test(a_log_keeps_its_newest_units),
		cmocka_unit_test(counts_saturate),
		cmocka_unit_test(a_bucket_gives_back_less_where_it_waits),
		cmocka_unit_test(a_bundle_takes_nothing_of_what_stands_beside_it),
	};
	return cmocka_run_group_tests_name("reservations, corrections, charges whatever the quota", tests, NULL, NULL);
}
