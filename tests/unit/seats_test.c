/* Leases and members by name: the last unit, the first denial, the exact end, who is known, what a refund forgets, a
 * clock that goes back, quotas lowered and raised, what is known of an evicted counter; and what each store of a change
 * leaves behind. Instants are in ms from a start; waits too. */
#include "algo/hll.h"
#include "algo/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS (UINT64_C(1800000000) * 1000000000)
#define NEVER (-1)

enum { CHARGE, PEEK, RELEASE, RENEW, FORGET, QUOTA };

static struct host {
	struct sluice_limit limit;
	struct sl_state state;
	void *block;
	uint64_t block_bytes;
} host;

static void begin(const char *text) {
	free(host.block);
	host = (struct host){.block = NULL};
	assert_int_equal(sluice_limit_parse(&host.limit, sl_str(text), NULL), SLUICE_OK);
}

/* What a step finds out stands in whatever memory a host has: here in bytes that mean something else. */
static struct sl_counter load(uint64_t who) {
	struct sl_counter counter = {
		.state = host.state, .block = host.block, .block_bytes = host.block_bytes, .who = who};
	memset(&counter.seats, 0x5a, sizeof counter.seats);
	return counter;
}

static struct sluice_decision charge(sluice_ns now, uint32_t cost, uint64_t who, bool *known) {
	struct sl_counter counter = load(who);
	struct sluice_decision d;
	uint64_t need;
	sl_step(&host.limit, &counter, now, cost, true, &d);
	*known = counter.known;
	if (!d.allowed || cost == 0)
		return d;
	need = (sl_step_block_bytes(&host.limit, &counter, cost) + 7) / 8 * 8;
	if (need != 0) {
		void *block = calloc(1, need);
		assert_non_null(block);
		sl_step_write(&host.limit, &counter, now, cost, block, need);
		free(host.block);
		host.block = block;
		host.block_bytes = need;
	} else {
		sl_step_prepare(&host.limit, &counter);
		sl_step_write(&host.limit, &counter, now, cost, NULL, 0);
	}
	host.state = counter.state;
	return d;
}

static int64_t ms(sluice_ns wait) {
	return wait == SLUICE_NEVER ? NEVER : (int64_t)(wait / SL_MS_NS);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

struct row {
	int operation;
	int64_t at;
	uint32_t cost;
	uint64_t who;
	int says; /* allowed + 2 x known; released, renewed, forgotten */
	uint32_t remaining;
	int64_t retry, reset;
};

static void run_named(const struct row *row, sluice_ns now, size_t number) {
	struct sl_counter counter = load(row->who);
	bool done = false;
	if (row->operation == RELEASE)
		done = sl_lease_release(&host.limit, &counter, now);
	else if (row->operation == RENEW)
		done = sl_lease_renew(&host.limit, &counter, now);
	else if (row->operation == FORGET)
		done = sl_step_refund(&host.limit, &counter, now, row->cost);
	else
		host.limit.quota = (uint32_t)(host.limit.derived[SL_CAPACITY] = row->cost);
	if (row->operation != QUOTA && done != (row->says != 0))
		fail_msg("row %zu: done %d", number, done);
	host.state = counter.state;
}

static void run(const char *text, const struct row *rows, size_t count) {
	begin(text);
	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		sluice_ns now = START_NS + (sluice_ns)(row->at * SL_MS_NS);
		struct sl_counter counter = load(row->who);
		struct sluice_decision d;
		bool known;
		if (row->operation > PEEK) {
			run_named(row, now, i);
			continue;
		}
		if (row->operation == CHARGE) {
			d = charge(now, row->cost, row->who, &known);
		} else {
			sl_step(&host.limit, &counter, now, row->cost, false, &d);
			known = counter.known;
		}
		if (d.allowed + 2 * known != row->says || d.remaining != row->remaining || ms(d.retry_after_ns) != row->retry ||
		    ms(d.reset_after_ns) != row->reset)
			fail_msg("%s, row %zu: allowed %d, known %d, remaining %u, retry %ld, reset %ld", text, i, d.allowed, known,
			         d.remaining, (long)ms(d.retry_after_ns), (long)ms(d.reset_after_ns));
		counter = load(0);
		assert_true(sl_counter_is_valid(&host.limit, &counter));
	}
}
#define RUN(text, rows) run(text, rows, sizeof(rows) / sizeof *(rows))

static void leases_by_the_table(void **state) {
	static const struct row rows[] = {
		{PEEK, 0, 1, 1, 1, 3, 0, 0},
		{CHARGE, 0, 0, 1, 1, 3, 0, 0}, /* cost 0 takes nothing */
		{CHARGE, 0, 1, 1, 1, 2, 0, 10000},
		{CHARGE, 1000, 2, 2, 1, 0, 0, 10000}, /* the last unit */
		{CHARGE, 1000, 1, 3, 0, 0, 9000, 10000},
		{PEEK, 1000, 2, 3, 0, 0, 10000, 10000}, /* behind both ends only */
		{PEEK, 1000, 4, 3, 0, 0, NEVER, 10000},
		{CHARGE, 1000, 9, 2, 3, 0, 0, 10000},   /* known: whatever cost it names */
		{CHARGE, 500, 1, 3, 0, 0, 9000, 10000}, /* the clock does not go back */
		{PEEK, 9999, 1, 3, 0, 0, 1, 1001},
		{PEEK, 10000, 1, 3, 1, 1, 0, 1000}, /* back at its T, to the ms */
		{RELEASE, 10000, 0, 1, 0, 0, 0, 0}, /* it has ended */
		{RENEW, 10000, 0, 1, 0, 0, 0, 0},
		{RENEW, 10000, 0, 2, 1, 0, 0, 0},
		{PEEK, 10000, 3, 3, 0, 1, 10000, 10000},
		{CHARGE, 12000, 1, 3, 1, 0, 0, 10000},
		{RELEASE, 12000, 0, 9, 0, 0, 0, 0}, /* another's */
		{RELEASE, 12000, 0, 2, 1, 0, 0, 0},
		{RELEASE, 12000, 0, 2, 0, 0, 0, 0}, /* twice */
		{PEEK, 12000, 2, 2, 1, 2, 0, 10000},
		{QUOTA, 0, 1, 0, 0, 0, 0, 0}, /* N lowered, and raised: no lease is lost */
		{CHARGE, 13000, 1, 4, 0, 0, 9000, 9000},
		{CHARGE, 13000, 1, 3, 3, 0, 0, 9000},
		{QUOTA, 0, 0, 0, 0, 0, 0, 0},
		{CHARGE, 13000, 1, 4, 0, 0, NEVER, 0},
		{QUOTA, 0, 5, 0, 0, 0, 0, 0},
		{CHARGE, 13000, 4, 4, 1, 0, 0, 10000},
		{FORGET, 13000, 1, 4, 0, 0, 0, 0}, /* leases are not refunded */
		{PEEK, 22000, 1, 0, 1, 1, 0, 1000},
		{PEEK, 23000, 5, 0, 1, 5, 0, 0},
	};
	(void)state;
	RUN("concurrency 3 lease 10s", rows);
}

static void members_by_the_table(void **state) {
	static const struct row rows[] = {
		{CHARGE, 0, 1, 1, 1, 1, 0, 10000},
		{CHARGE, 1000, 7, 2, 1, 0, 0, 10000}, /* any cost is one member */
		{CHARGE, 2000, 1, 3, 0, 0, 8000, 9000},
		{PEEK, 2000, 1, 0, 0, 0, 8000, 9000}, /* a stranger without a name */
		{PEEK, 2000, 5, 1, 3, 0, 0, 9000},    /* a peek refreshes nobody */
		{CHARGE, 3000, 1, 1, 3, 0, 0, 10000}, /* a charge does */
		{CHARGE, 3000, 1, 3, 0, 0, 8000, 10000},
		{CHARGE, 3000, 0, 2, 3, 0, 0, 10000}, /* cost 0 does not */
		{PEEK, 10999, 1, 2, 3, 0, 0, 2001},
		{PEEK, 10999, 1, 3, 0, 0, 1, 2001},
		{CHARGE, 11000, 1, 3, 1, 0, 0, 10000},
		{CHARGE, 11000, 1, 2, 0, 0, 2000, 10000},
		{FORGET, 11000, 0, 3, 0, 0, 0, 0},
		{FORGET, 11000, 1, 9, 0, 0, 0, 0},
		{FORGET, 11000, 1, 3, 1, 0, 0, 0},
		{FORGET, 11000, 1, 3, 0, 0, 0, 0},
		{CHARGE, 11000, 1, 2, 1, 0, 0, 10000},
		{QUOTA, 0, 1, 0, 0, 0, 0, 0}, /* nobody is forgotten; enough have to go */
		{PEEK, 12000, 1, 3, 0, 0, 9000, 9000},
		{PEEK, 12000, 1, 1, 3, 0, 0, 9000},
		{QUOTA, 0, 0, 0, 0, 0, 0, 0},
		{PEEK, 12000, 1, 1, 0, 0, NEVER, 0},
		{QUOTA, 0, 3, 0, 0, 0, 0, 0},
		{PEEK, 12000, 1, 3, 1, 1, 0, 9000},
		{PEEK, 21000, 1, 2, 1, 3, 0, 0},
	};
	(void)state;
	RUN("distinct 2/10s", rows);
}

/* ---- an evicted counter ----------------------------------------------------------------------------------------- */

static void assume(const struct sl_held *held, int count, const char *text) {
	struct sl_counter counter;
	begin(text);
	host.block_bytes = (sl_step_assume_bytes(&host.limit, count, UINT32_MAX) + 7) / 8 * 8;
	assert_true(host.block_bytes <= SL_ASSUME_BYTES_MAX);
	assert_non_null(host.block = calloc(1, host.block_bytes));
	sl_step_assume(&host.limit, &counter, held, count, host.block, host.block_bytes);
	host.state = counter.state;
	assert_true(sl_counter_is_valid(&host.limit, &counter));
}

static void what_was_evicted_is_held_without_a_name(void **state) {
	static const char *const texts[] = {"concurrency 20 lease 10s", "distinct 20/10s"};
	static const struct sl_held held[] = {{START_NS - 5000 * (sluice_ns)SL_MS_NS, 15}, {START_NS, 6}};
	struct sl_counter counter;
	struct sluice_decision d;
	struct sluice_holder holders[4];
	bool known;
	(void)state;
	for (int i = 0; i < 2; i++) {
		assume(held, 2, texts[i]);
		for (uint64_t who = 1; who <= 5; who++) {
			counter = load(who);
			sl_step(&host.limit, &counter, START_NS, 1, true, &d);
			assert_true(who != 1 || sl_step_block_bytes(&host.limit, &counter, 1) == 0);
			d = charge(START_NS, 1, who, &known);
			assert_true(d.allowed && !known && d.remaining == 5 - who);
		}
		d = charge(START_NS, 1, 6, &known);
		assert_true(!d.allowed && ms(d.retry_after_ns) == 5000 && ms(d.reset_after_ns) == 10000);
		counter = load(0);
		sl_step(&host.limit, &counter, START_NS + 5000 * (sluice_ns)SL_MS_NS, 1, false, &d);
		assert_int_equal(d.remaining, 9); /* 9 of 15 were the earlier's alone */
	}
	assume(held, 2, texts[0]);
	counter = load(0);
	assert_int_equal(sl_lease_list(&counter, START_NS, holders, 4), 2);
	assert_true(holders[0].id == 0 && holders[0].cost + holders[1].cost == 15);
	assume(held, 0, texts[0]);
}

/* A million evicted members are a number without names, in any block; strangers are counted beside them. */
static void many_evicted_members_are_counted(void **state) {
	static const struct sl_held held[] = {{START_NS, 90000}};
	struct sluice_decision d;
	bool known;
	(void)state;
	assume(held, 1, "distinct 100k/10s");
	for (uint64_t i = 1; i <= 3000; i++)
		d = charge(START_NS + i, 1, sl_id_number(sl_slice(&i, sizeof i)), &known);
	assert_true(host.block_bytes > 200000 && d.allowed && d.remaining > 6800 && d.remaining < 7200);
	host.limit.quota = (uint32_t)(host.limit.derived[SL_CAPACITY] = 91000);
	d = charge(START_NS + 4000, 1, 1, &known);
	assert_true(!d.allowed && d.retry_after_ns == 10000 * (sluice_ns)SL_MS_NS - 4000);
	host.limit.quota = (uint32_t)(host.limit.derived[SL_CAPACITY] = 2000);
	d = charge(START_NS + 4000, 1, 1, &known);
	assert_true(!d.allowed && d.retry_after_ns > 10000 * (sluice_ns)SL_MS_NS - 4000);
}

static bool is_known(int64_t at_ms, uint64_t who) {
	struct sl_counter counter = load(who);
	struct sluice_decision d;
	sl_step(&host.limit, &counter, START_NS + (sluice_ns)at_ms * SL_MS_NS, 1, false, &d);
	return counter.known;
}

static void count_member(int64_t at_ms, uint64_t who, bool before) {
	bool known;
	assert_true(charge(START_NS + (sluice_ns)at_ms * SL_MS_NS, 1, who, &known).allowed);
	assert_int_equal(known, before);
}

/* An evicted member without a name, and 1,024 who came after: once most of them are forgotten, the one still counts. */
static void a_single_ghost_goes_back_to_a_seat(void **state) {
	for (uint32_t ghosts = 1; ghosts <= 2; ghosts++) {
		const struct sl_held held = {START_NS, ghosts};
		struct sl_counter counter;
		bool known;
		(void)state;
		assume(&held, 1, "distinct 5000/1h");
		for (uint64_t who = 1; who <= 1024; who++)
			assert_true(charge(START_NS + who, 1, who, &known).allowed);
		assert_true(host.block_bytes > 200000);
		for (uint64_t who = 1; who <= 1000; who++) {
			counter = load(who);
			assert_true(sl_step_refund(&host.limit, &counter, START_NS + 2000, 1));
			host.state = counter.state;
		}
		assert_int_equal(charge(START_NS + 3000, 1, 2000, &known).remaining, 5000 - ghosts - 24 - 1);
		assert_true(host.block_bytes < 1000);
		counter = load(0);
		assert_true(sl_counter_is_valid(&host.limit, &counter));
	}
}

/* Who has a register of a sketch alone, and never comes back: four windows later, where the time of his last
 * charge would come round, his register counts nothing, whichever of a stretch that is looked through it is. */
static void what_a_sketch_counted_does_not_come_round(void **state) {
	static const uint64_t alone[] = {1 << 12 | 0, 2 << 12 | 4, 2 << 12 | 7, 1 << 12 | 99};
	const sluice_ns window = UINT64_C(3600) * 1000000000, unit = window / SL_SKETCH_UNITS + 1;
	const sluice_ns round = unit * 65536, pace = window / 1500;
	struct sl_counter counter;
	bool known;
	(void)state;
	begin("distinct 5000/1h");
	for (uint64_t i = 0; i * pace < round + window / 2; i++) {
		/* others have registers from 1,000 on */
		charge(START_NS + i * pace, 1, (i + 1) << 12 | (1000 + i % 3000), &known);
		if (i == 1200)
			for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
				assert_true(charge(START_NS + i * pace, 1, alone[k], &known).allowed);
		if (i < 4 * 1500 || i % 100 != 0)
			continue;
		counter = load(0);
		assert_true(sl_counter_is_valid(&host.limit, &counter));
		sl_seats_look(&counter, START_NS + i * pace);
		for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
			assert_false(sl_hll_covers(&host.limit, &counter.seats, alone[k]));
	}
}

/* Of many the first to end are told, in the order in which they do, wherever they stand. */
static void who_ends_first_is_told_first(void **state) {
	static const uint32_t counts[] = {1, 2, SLUICE_CHARGES_MAX, SLUICE_CHARGES_MAX + 1, 3 * SLUICE_CHARGES_MAX};
	(void)state;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		const uint32_t most = counts[i] < SLUICE_CHARGES_MAX ? counts[i] : SLUICE_CHARGES_MAX;
		struct sluice_inspection told = {.used = 0};
		struct sl_counter counter;
		bool known;
		begin("distinct 500/10s");
		for (uint64_t who = 1; who <= counts[i]; who++)
			assert_true(charge(START_NS, 1, who, &known).allowed);
		for (uint64_t k = 1; k <= counts[i]; k++) /* again, the last first */
			assert_true(charge(START_NS + k, 1, counts[i] + 1 - k, &known).allowed && known);
		counter = load(0);
		sl_step_describe(&host.limit, &counter, START_NS + 1000, &told);
		assert_true(told.used == counts[i] && told.charges_in_all == counts[i] && told.charge_count == most);
		for (uint32_t k = 0; k < most; k++)
			assert_true(told.charges[k].cost == 1 && told.charges[k].from_ns == START_NS + k + 1 &&
			            told.charges[k].until_ns == START_NS + k + 1 + 10000 * (sluice_ns)SL_MS_NS);
		told = (struct sluice_inspection){.used = 0}; /* as the first of them ends, it is told no more */
		sl_step_describe(&host.limit, &counter, START_NS + 1 + 10000 * (sluice_ns)SL_MS_NS, &told);
		assert_true(told.used == counts[i] - 1 && told.charges_in_all == counts[i] - 1);
		assert_int_equal(told.charge_count, most < counts[i] ? most : most - 1);
		assert_true(counts[i] == 1 || told.charges[0].from_ns == START_NS + 2);
	}
}

/* Of 1,024 seats the one that ends first is given to somebody new, wherever it stands: first, last, or between. */
static void who_has_been_away_longest_gives_way(void **state) {
	static const uint64_t oldest[] = {1, 2, 512, 1023, 1024};
	(void)state;
	for (size_t i = 0; i < sizeof oldest / sizeof *oldest; i++) {
		begin("distinct 5000/1h");
		for (uint64_t who = 1; who <= 1024; who++)
			count_member((int64_t)who, who, false);
		for (uint64_t who = 1; who <= 1024; who++) /* all but one come again, in another order than they stand in */
			if (who * 7 % 1025 != oldest[i])
				count_member(2000 + (int64_t)who, who * 7 % 1025, true);
		count_member(4000, 9001, false);
		for (uint64_t who = 1; who <= 1024; who++)
			assert_int_equal(is_known(4000, who), who != oldest[i]);
		assert_true(is_known(4000, 9001));
		count_member(4001, 9002, false); /* and then the one that came again first */
		assert_false(is_known(4001, oldest[i] != 7 ? 7 : 14));
	}
	begin("distinct 5000/1h");
	for (uint64_t who = 1; who <= 1024; who++)
		count_member(0, who, false);
	count_member(0, 9001, false); /* of those that end together the first: a replica's block says the same */
	for (uint64_t who = 1; who <= 1024; who++)
		assert_int_equal(is_known(0, who), who != 1);
}

/* A sketch in which nobody is left who has no seat: what it says of its registers is never what stood in the host's
 * memory before. */
static void a_sketch_notes_only_what_was_counted(void **state) {
	struct sl_counter counter;
	(void)state;
	begin("distinct 5000/1h");
	for (uint64_t who = 1; who <= 1100; who++)
		count_member((int64_t)who * 1000, who * UINT64_C(0x9e3779b97f4a7c15), false);
	assert_true(host.block_bytes > 200000);
	counter = load(0);
	assert_int_equal(sl_seats_look(&counter, START_NS + 1100 * 1000 * (sluice_ns)SL_MS_NS)->live, 1024);
	for (int64_t who = 1; who <= 40; who++) { /* 76 have lost their seats, and their time is over */
		count_member(3600 * 1000 + 100 * 1000 + who, (uint64_t)who * UINT64_C(0xd1342543de82ef95), false);
		counter = load(0);
		assert_true(sl_counter_is_valid(&host.limit, &counter));
	}
}

/* ---- a death at any store --------------------------------------------------------------------------------------- */

/* Of a change in place: whatever words of the block it has written up to any of them, in the order of its stores, who
 * counts is who counted before, or who counts after. The order: all but the end, then the end. */
static void a_place_is_taken_with_its_last_store(void **state) {
	unsigned char before[512], after[512];
	struct sl_counter counter;
	struct sluice_decision d;
	sluice_ns now = START_NS + 11000 * (sluice_ns)SL_MS_NS;
	bool known;
	uint64_t ends_from = 8, ends_to;
	(void)state;
	begin("concurrency 3 lease 10s");
	charge(START_NS, 2, 1, &known);
	charge(START_NS + 5000 * (sluice_ns)SL_MS_NS, 1, 2, &known);
	assert_true(host.block_bytes <= sizeof before);
	ends_to = ends_from + 8 * ((host.block_bytes - 8) / 20);
	memcpy(before, host.block, host.block_bytes);
	counter = load(3); /* takes the seat of lease 1, which has ended, but not at the instant of the state */
	sl_step(&host.limit, &counter, now, 1, true, &d);
	assert_int_equal(sl_step_block_bytes(&host.limit, &counter, 1), 0);
	assert_true(sl_step_prepare(&host.limit, &counter));
	host.state = counter.state;
	sl_step_write(&host.limit, &counter, now, 1, NULL, 0);
	memcpy(after, host.block, host.block_bytes);
	memcpy(host.block, after, host.block_bytes);
	memcpy((unsigned char *)host.block + ends_from, before + ends_from, ends_to - ends_from);
	counter = load(0); /* all but the end: nobody counts it, at whatever earlier instant he asks */
	sl_step(&host.limit, &counter, START_NS, 1, false, &d);
	assert_int_equal(d.remaining, 2);
	memcpy(host.block, after, host.block_bytes);
	counter = load(3);
	sl_step(&host.limit, &counter, START_NS, 1, false, &d);
	assert_true(counter.known && d.remaining == 1);
}

/* Of a charge in a sketch the state goes first, to its instant: a register that is raised counts by it at once, and
 * whoever dies before the last store leaves nobody uncounted. */
static void a_sketch_is_raised_under_the_state_of_its_charge(void **state) {
	const sluice_ns now = START_NS + 1200 * 1000 * (sluice_ns)SL_MS_NS;
	(void)state;
	begin("distinct 5000/1h");
	for (uint64_t who = 1; who <= 1100; who++)
		count_member((int64_t)who * 1000, who * UINT64_C(0x9e3779b97f4a7c15), false);
	for (uint64_t who = 1000; who <= 1100; who++) { /* each comes again, and dies */
		struct sluice_inspection before = {.used = 0}, after = {.used = 0};
		struct sl_counter counter = load(0);
		struct sluice_decision d;
		sl_step_describe(&host.limit, &counter, now, &before);
		counter = load(who * UINT64_C(0x9e3779b97f4a7c15));
		sl_step(&host.limit, &counter, now, 1, true, &d);
		assert_true(d.allowed && counter.known && sl_step_block_bytes(&host.limit, &counter, 1) == 0);
		sl_step_prepare(&host.limit, &counter);
		host.state = counter.state;
		sl_step_write(&host.limit, &counter, now, 1, NULL, 0);
		counter = load(0);
		assert_true(sl_counter_is_valid(&host.limit, &counter));
		sl_step_describe(&host.limit, &counter, now, &after);
		assert_true(after.used >= before.used);
	}
}

static void no_block_is_an_unused_counter(void **state) {
	static const char *const texts[] = {"concurrency 20 lease 10s", "distinct 20/10s"};
	static const struct sl_state idle = {.w = {START_NS >> SL_COARSE_SHIFT << SL_COARSE_SHIFT, 0}};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sl_counter counter = {.state = idle, .who = 1};
		struct sluice_decision d;
		begin(texts[i]);
		sl_step(&host.limit, &counter, START_NS, 1, false, &d);
		assert_true(d.allowed && d.remaining == 20 && d.reset_after_ns == 0 && !counter.known);
		assert_false(sl_lease_release(&host.limit, &counter, START_NS));
		assert_false(sl_step_refund(&host.limit, &counter, START_NS, 1));
	}
}

static void ids_are_numbers(void **state) {
	uint64_t text = sl_id_number(sl_str("job-1")), again = sl_id_number(sl_str("job-1"));
	(void)state;
	assert_true(sl_id_number(sl_str("00000000000000ff")) == 255);
	assert_true(sl_id_number(sl_str("0000000000000000")) == 1);
	assert_true(sl_id_number(sl_str("00000000000000FF")) != 255 && sl_id_number(sl_str("ff")) != 255);
	assert_true(text == again && text != sl_id_number(sl_str("job-2")) && text != 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_by_the_table),
		cmocka_unit_test(members_by_the_table),
		cmocka_unit_test(what_was_evicted_is_held_without_a_name),
		cmocka_unit_test(many_evicted_members_are_counted),
		cmocka_unit_test(a_single_ghost_goes_back_to_a_seat),
		cmocka_unit_test(what_a_sketch_counted_does_not_come_round),
		cmocka_unit_test(who_ends_first_is_told_first),
		cmocka_unit_test(who_has_been_away_longest_gives_way),
		cmocka_unit_test(a_sketch_notes_only_what_was_counted),
		cmocka_unit_test(a_place_is_taken_with_its_last_store),
		cmocka_unit_test(a_sketch_is_raised_under_the_state_of_its_charge),
		cmocka_unit_test(no_block_is_an_unused_counter),
		cmocka_unit_test(ids_are_numbers),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(host.block);
	return failed;
}
