/* distinct above 1,024: the sliding HyperLogLog against a list of who was charged when, and its error against the one
 * that is printed.
 *
 * The list keeps for each member the instant of his last charge, and nothing else. From it the estimate is made anew,
 * in floating point and by another way round (the highest rank of each register, then the sum): of all that count for
 * certain, and of all that count at most, a unit of time longer. What the step says must lie between the two.
 *
 * The worlds have each number of registers that a limit can have. SLUICE_SEED repeats a run. SLUICE_SOAK_SECONDS: the
 * error at Q = 1,000,000 over 100 runs, and of other numbers than 4,096 at 200,000 over 40; else at 10,000 to 80,000
 * over 20 and 4. */
#include "tests/model/dice.h"

#include "algo/hll.h"
#include "algo/step.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MEMBERS_MAX = 20000, EVENTS = 16000, EVENTS_SOAKED = 40000 }; /* in a world; 1,025 to 9,024 fill it */

struct host {
	struct sluice_limit limit;
	struct sl_state state;
	void *block;
	uint64_t block_bytes;
};

static void parse(struct host *host, const char *text) {
	assert_int_equal(sluice_limit_parse(&host->limit, sl_str(text), NULL), SLUICE_OK);
}

static struct sl_counter load(const struct host *host, uint64_t who) {
	return (struct sl_counter){
		.state = host->state, .block = host->block, .block_bytes = host->block_bytes, .who = who};
}

static struct sluice_decision peek(const struct host *host, uint64_t now, uint64_t who, bool *known) {
	struct sl_counter counter = load(host, who);
	struct sluice_decision d;
	sl_step(&host->limit, &counter, now, 1, false, &d);
	*known = counter.known;
	return d;
}

static struct sluice_decision charge(struct host *host, uint64_t now, uint64_t who, bool *known) {
	struct sl_counter counter = load(host, who);
	struct sluice_decision d;
	uint64_t need;
	sl_step(&host->limit, &counter, now, 1, true, &d);
	*known = counter.known;
	if (!d.allowed)
		return d;
	need = (sl_step_block_bytes(&host->limit, &counter, 1) + 7) / 8 * 8;
	if (need != 0) {
		void *block = malloc(need);
		assert_non_null(block);
		memset(block, 0x5a, need);
		sl_step_write(&host->limit, &counter, now, 1, block, need);
		free(host->block);
		host->block = block;
		host->block_bytes = need;
	} else {
		if (sl_step_prepare(&host->limit, &counter))
			host->state = counter.state;
		sl_step_write(&host->limit, &counter, now, 1, NULL, 0);
	}
	host->state = counter.state;
	return d;
}

static void forget(struct host *host) {
	free(host->block);
	host->block = NULL;
	host->block_bytes = 0;
	host->state = (struct sl_state){.rate = 0};
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static uint64_t name_of(uint64_t salt, uint64_t member) {
	struct dice dice = dice_of(salt, member);
	uint64_t name = dice_bits(&dice);
	return name != 0 ? name : 1;
}

struct list {
	uint64_t names[MEMBERS_MAX], charged[MEMBERS_MAX]; /* 0: never */
	uint32_t members, bits;                            /* of 2^bits registers */
};

/* The estimate of those that were charged behind an instant. */
static double estimate_of(const struct list *list, uint64_t behind, uint32_t *count) {
	static uint8_t ranks[1 << 15];
	const double m = 1 << list->bits;
	double sum = 0, empty = 0, sigma, x;
	memset(ranks, 0, sizeof ranks);
	*count = 0;
	for (uint32_t i = 0; i < list->members; i++) {
		uint64_t rest = list->names[i] >> list->bits, at = list->names[i] % (UINT64_C(1) << list->bits);
		int rank = 1;
		if (list->charged[i] == 0 || list->charged[i] <= behind)
			continue;
		++*count;
		while (rank < 25 && (rest & 1) == 0) {
			rest >>= 1;
			rank++;
		}
		if (ranks[at] < rank)
			ranks[at] = (uint8_t)rank;
	}
	for (int i = 0; i < 1 << list->bits; i++) {
		empty += ranks[i] == 0;
		sum += ranks[i] == 0 ? 0 : ldexp(ranks[i] == 25 ? 2.0 / 3 : 1, -ranks[i]);
	}
	x = empty / m;
	sigma = x;
	for (int k = 1; k < 60 && x < 1; k++) {
		x *= x;
		sigma += ldexp(x, k - 1);
	}
	return empty == m ? 0 : m * m / (2 * log(2)) / (sum + m * sigma);
}

/* ---- against the list ------------------------------------------------------------------------------------------- */

struct world {
	struct host host;
	struct list list;
	struct dice dice;
	uint64_t now, last, number;
	int event;
};

static void wrong(const struct world *w, const char *what, double got, double low, double high) {
	fail_msg("SLUICE_SEED=%" PRIu64 ", world %" PRIu64 ", event %d: %s is %.0f, expected %.0f to %.0f", dice_seed(),
	         w->number, w->event, what, got, low, high);
}

/* What remains at the instant of the world, by the list. */
static void check_remaining(const struct world *w, uint32_t remaining) {
	uint64_t t = w->now > w->last ? w->now : w->last, window = w->host.limit.window_ns, quota = w->host.limit.quota;
	uint64_t unit = window / 16384 + 1;
	uint32_t sure, most;
	double low = estimate_of(&w->list, t > window ? t - window : 0, &sure);
	double high = estimate_of(&w->list, t > window + unit ? t - window - unit : 0, &most);
	if (sure <= 1024) {
		if (remaining != quota - sure)
			wrong(w, "what remains, exactly,", remaining, (double)(quota - sure), (double)(quota - sure));
		return;
	}
	low = low < 1025 ? 1025 : low * (1 - 1e-7) - 1;
	high = high < 1025 ? 1025 : high * (1 + 1e-7) + 1;
	if (remaining > fmax(0, (double)quota - low) || remaining < fmax(0, (double)quota - high))
		wrong(w, "what remains", remaining, (double)quota - high, (double)quota - low);
}

static void check_waits(const struct world *w, const struct sluice_decision *d) {
	uint64_t t = w->now > w->last ? w->now : w->last;
	bool known;
	struct sluice_decision then;
	if (d->retry_after_ns != 0) {
		assert_true(peek(&w->host, t + d->retry_after_ns, 0, &known).allowed);
		assert_false(peek(&w->host, t + d->retry_after_ns - 1, 0, &known).allowed);
	}
	then = peek(&w->host, t + d->reset_after_ns, 0, &known);
	assert_true(then.remaining == w->host.limit.quota && then.reset_after_ns == 0);
	if (d->reset_after_ns != 0)
		assert_true(peek(&w->host, t + d->reset_after_ns - 1, 0, &known).remaining < w->host.limit.quota);
}

static void check_world(const struct world *w) {
	struct sl_counter counter = load(&w->host, 0);
	bool known;
	struct sluice_decision d = peek(&w->host, w->now, 0, &known);
	check_remaining(w, d.remaining);
	check_waits(w, &d);
	assert_true(sl_counter_is_valid(&w->host.limit, &counter));
}

/* A denial changes nothing; who is called known was counted within the window; and what a charge says to remain is what
 * the next peek finds. */
static void charge_one(struct world *w, uint32_t member) {
	uint64_t window = w->host.limit.window_ns, name = w->list.names[member];
	struct sl_state before = w->host.state;
	bool known, peeked;
	struct sluice_decision then, d;
	d = charge(&w->host, w->now, name, &known);
	if (!d.allowed) {
		assert_memory_equal(&before, &w->host.state, sizeof before);
		if (dice_one_in(&w->dice, 200))
			check_waits(w, &d);
		return;
	}
	w->last = w->now > w->last ? w->now : w->last;
	if (known)
		assert_true(w->list.charged[member] != 0 && w->list.charged[member] + window > w->last);
	w->list.charged[member] = w->last;
	then = peek(&w->host, w->now, name, &peeked);
	assert_true(then.allowed && peeked);
	if (then.remaining != d.remaining || then.reset_after_ns != d.reset_after_ns)
		wrong(w, "what remains behind a charge", then.remaining, d.remaining, d.remaining);
}

static void move_clock(struct world *w, uint64_t pace) {
	if (dice_one_in(&w->dice, 5000))
		w->now += dice_below(&w->dice, 3 * w->host.limit.window_ns);
	else if (dice_one_in(&w->dice, 50))
		w->now -= dice_below(&w->dice, pace * 10);
	else
		w->now += dice_below(&w->dice, 2 * pace);
}

static void run_world(uint64_t number, int events) {
	static struct world w;
	char text[SLUICE_LIMIT_TEXT_MAX];
	uint64_t pace, quota, window;
	w = (struct world){.dice = dice_of(dice_seed(), number), .number = number};
	quota = 1025 + dice_below(&w.dice, 8000);
	window = dice_window(&w.dice);
	w.list.bits = 10 + (uint32_t)(number % 6);
	snprintf(text, sizeof text, "distinct %" PRIu64 "/%" PRIu64 "ms edge %s registers %d", quota, window / TWIN_MS,
	         dice_one_in(&w.dice, 2) ? "deny" : "allow", 1 << w.list.bits);
	parse(&w.host, text);
	w.list.members = 1000 + (uint32_t)dice_below(&w.dice, MEMBERS_MAX - 1000);
	for (uint32_t i = 0; i < w.list.members; i++)
		w.list.names[i] = name_of(dice_seed() + number, i);
	w.now = ((uint64_t)1 << 60) + dice_below(&w.dice, (uint64_t)1 << 60);
	pace = window / (500 + dice_below(&w.dice, 20000)) + 1;
	for (w.event = 0; w.event < events; w.event++) {
		move_clock(&w, pace);
		charge_one(&w, (uint32_t)dice_below(&w.dice, dice_one_in(&w.dice, 3) ? w.list.members / 20 : w.list.members));
		if (w.event % 500 == 0)
			check_world(&w);
	}
	forget(&w.host);
}

static void a_sketch_slides_as_the_list_does(void **state) {
	const bool soak = getenv("SLUICE_SOAK_SECONDS") != NULL;
	uint64_t worlds = dice_ops(soak ? 36 : 6);
	(void)state;
	for (uint64_t i = 0; i < worlds; i++)
		run_world(i, soak ? EVENTS_SOAKED : EVENTS);
}

/* ---- who is let in ---------------------------------------------------------------------------------------------- */

#define START_NS (UINT64_C(1800000000) * 1000000000)

/* Fills a counter with strangers until one is denied; returns how many there were. */
static uint64_t fill(struct host *host, uint64_t salt, uint64_t now, uint64_t step_ns) {
	uint64_t count = 0;
	bool known;
	while (charge(host, now + count * step_ns, name_of(salt, count), &known).allowed)
		count++;
	return count;
}

static void the_newest_stay_inside_whatever_strangers_try(void **state) {
	struct host host = {.block = NULL};
	uint64_t count, now = START_NS, let_in = 0;
	const uint64_t rare = dice_ops(100) < 100 ? 4 : 1; /* fewer rounds while nobody can be let in */
	bool known;
	(void)state;
	parse(&host, "distinct 3000/1h edge deny");
	count = fill(&host, 1, now, 1000);
	now += count * 1000;
	for (uint64_t round = 0; round < 90; round++) { /* a window and a half */
		now += UINT64_C(60) * 1000000000;
		if (round < 56 && round % rare != 0)
			continue;
		for (uint64_t i = 1; i <= 200; i++, now++) { /* nobody is as new as another */
			if (i % 2 == 0)
				assert_true(charge(&host, now, name_of(1, count - i), &known).allowed && known);
			let_in += charge(&host, now, name_of(2, round * 1000 + i), &known).allowed;
			assert_false(round < 58 && let_in != 0);
		}
	}
	assert_true(let_in > 2700 && let_in < 3100); /* behind the hour: in the seat of those who kept away */
	forget(&host);
}

static void the_edge_decides_on_which_side_it_errs(void **state) {
	struct host host = {.block = NULL};
	uint64_t count, old = 0, strangers = 0;
	bool known;
	(void)state;
	parse(&host, "distinct 20k/1h edge deny");
	count = fill(&host, 3, START_NS, 1000);
	for (int edge = 0; edge < 2; edge++) {
		for (uint64_t i = 0; i < 1000; i++) {
			old += peek(&host, START_NS + count * 1000, name_of(3, i), &known).allowed;
			strangers += peek(&host, START_NS + count * 1000, name_of(4, i), &known).allowed;
		}
		if (edge == 0)
			assert_true(old == 0 && strangers == 0);
		host.limit.edge = SLUICE_EDGE_ALLOW;
	}
	assert_int_equal(old, 1000);
	assert_true(strangers > 780 && strangers < 920); /* all but 0.72 x 4096 / 20,000 would not raise it */
	assert_false(peek(&host, START_NS + count * 1000, 0, &known).allowed);
	forget(&host);
}

/* A refunded member has no seat any more, but the sketch counts on; back below 256 all is exact again, and small. */
static void it_is_exact_again_when_few_are_left(void **state) {
	struct host host = {.block = NULL};
	uint64_t hour = UINT64_C(3600) * 1000000000, large;
	struct sl_counter counter;
	struct sluice_decision d;
	bool known;
	(void)state;
	parse(&host, "distinct 5k/1h");
	fill(&host, 5, START_NS, 1000);
	large = host.block_bytes;
	assert_true(large > 200000 && large < 230000);
	counter = load(&host, name_of(5, 4000));
	d = peek(&host, START_NS + hour, name_of(5, 4000), &known);
	assert_true(sl_step_refund(&host.limit, &counter, START_NS + 1, 1));
	assert_false(sl_step_refund(&host.limit, &counter, START_NS + 1, 1));
	assert_int_equal(peek(&host, START_NS + hour, 0, &known).remaining, d.remaining);
	d = charge(&host, START_NS + hour + hour / 2, name_of(6, 1), &known);
	assert_true(d.allowed && d.remaining == 4999 && host.block_bytes < 1000);
	forget(&host);
}

static void expect_exact_wait(const struct host *host, uint64_t now, uint64_t least, uint64_t most) {
	bool known;
	struct sluice_decision d = peek(host, now, 0, &known);
	assert_true(!d.allowed && d.retry_after_ns >= least && d.retry_after_ns <= most);
	assert_true(peek(host, now + d.retry_after_ns, 0, &known).allowed);
	assert_false(peek(host, now + d.retry_after_ns - 1, 0, &known).allowed);
}

/* Whoever waits for the first of two bursts to go waits until the unit of its time has, and no longer. */
static void bursts_go_with_their_unit(void **state) {
	struct host host = {.block = NULL};
	uint64_t hour = UINT64_C(3600) * 1000000000, unit = hour / 16384 + 1, now = START_NS + 12345, count;
	bool known;
	(void)state;
	parse(&host, "distinct 4k/1h");
	for (uint64_t i = 0; i < 1500; i++)
		assert_true(charge(&host, now, name_of(7, i), &known).allowed);
	count = fill(&host, 8, now + hour / 2, 1);
	assert_true(count > 2200);
	expect_exact_wait(&host, now + hour / 2 + count, hour / 2 - count, hour / 2 - count + unit);
	forget(&host);
}

/* Q lowered to where counting is exact: full until all who have no seat have gone, and then by the seats alone. */
static void a_quota_lowered_below_the_places_waits_for_them(void **state) {
	struct host host = {.block = NULL};
	uint64_t hour = UINT64_C(3600) * 1000000000, count, now;
	(void)state;
	parse(&host, "distinct 3k/1h");
	count = fill(&host, 9, START_NS, 1000000);
	now = START_NS + count * 1000000;
	for (uint32_t quota = 1026; quota > 400; quota = quota > 1023 ? quota - 1 : quota / 2) {
		uint64_t left = quota < 1025 ? quota - 1 : 1024; /* so many of the newest may be left */
		host.limit.quota = quota;
		host.limit.edge = quota > 1024 ? SLUICE_EDGE_DENY : SLUICE_EDGE_COUNT;
		host.limit.derived[SL_CAPACITY] = quota;
		expect_exact_wait(&host, now, quota > 1025 ? 0 : hour - (left + 1) * 1000000, hour - (left + 1) * 1000000);
	}
	forget(&host);
}

/* ---- how many registers ----------------------------------------------------------------------------------------- */

static uint32_t flags_of(const struct host *host) {
	uint32_t header[2];
	assert_true(host->block_bytes >= sizeof header);
	memcpy(header, host->block, sizeof header);
	return header[1];
}

/* The number is no part of the counter: what was counted stays counted, by the registers that it was begun with, which
 * the block says. Those that are usual are said as ever: 2 in the flags of the header. */
static void a_sketch_keeps_the_registers_that_it_began_with(void **state) {
	static const struct {
		const char *first, *then;
		uint32_t flags, again; /* of the block; of the next one */
		uint64_t least, most;  /* its bytes */
	} changes[] = {
		{"distinct 3k/1h", "distinct 3k/1h registers 16384", 2, 2 | 14 << 8, 200000, 230000},
		{"distinct 3k/1h registers 16384", "distinct 3k/1h", 2 | 14 << 8, 2, 830000, 840000},
		{"distinct 3k/1h registers 1024", "distinct 3k/1h edge allow registers 32768", 2 | 10 << 8, 2 | 15 << 8, 65000,
	     70000},
		{"distinct 3k/1h registers 32768", "distinct 3k/1h registers 2048", 2 | 15 << 8, 2 | 11 << 8, 1650000, 1660000},
	};
	const uint64_t day = UINT64_C(86400) * 1000000000;
	(void)state;
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		struct host host = {.block = NULL};
		struct sluice_decision before, after;
		bool known;
		parse(&host, changes[i].first);
		uint64_t count = fill(&host, 20 + i, START_NS, 1000);
		assert_int_equal(flags_of(&host), changes[i].flags);
		assert_true(host.block_bytes > changes[i].least && host.block_bytes < changes[i].most);
		before = peek(&host, START_NS + count * 1000, 0, &known);
		assert_false(before.allowed);
		parse(&host, changes[i].then);
		after = peek(&host, START_NS + count * 1000, 0, &known);
		assert_true(!after.allowed && after.retry_after_ns == before.retry_after_ns &&
		            after.reset_after_ns == before.reset_after_ns);
		assert_true(charge(&host, START_NS + count * 1000, name_of(20 + i, count - 1), &known).allowed && known);
		assert_int_equal(flags_of(&host), changes[i].flags);
		count = fill(&host, 40 + i, START_NS + day, 1000);
		assert_true(count > 2000 && count < 4000);
		assert_int_equal(flags_of(&host), changes[i].again);
		forget(&host);
	}
}

/* A header of no block of ours says nothing that is read. */
static void registers_that_nobody_can_have_are_no_sketch(void **state) {
	static const uint32_t flags[] = {
		2 | 9 << 8, 2 | 12 << 8, 2 | 16 << 8, 2 | 63 << 8, 10 << 8, 3 | 10 << 8, 2 | 10 << 8 | 1u << 31, 4};
	struct host host = {.block = NULL};
	bool known;
	(void)state;
	parse(&host, "distinct 3k/1h registers 1024");
	fill(&host, 50, START_NS, 1000);
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		struct sl_counter counter = load(&host, 0);
		memcpy((unsigned char *)host.block + 4, &flags[i], sizeof flags[i]);
		assert_false(sl_counter_is_valid(&host.limit, &counter));
		assert_int_equal(peek(&host, START_NS, 0, &known).remaining, 3000);
	}
	forget(&host);
}

/* ---- the error -------------------------------------------------------------------------------------------------- */

static void measure_error(uint32_t registers, uint64_t quota, uint64_t runs, uint32_t printed_bp) {
	struct host host = {.block = NULL};
	double sum = 0, squares = 0, printed = printed_bp / 10000.0, most = 0;
	char text[64];
	snprintf(text, sizeof text, "distinct %" PRIu64 "/1d registers %u", quota, registers);
	parse(&host, text);
	assert_int_equal(sl_distinct_error(&host.limit), printed_bp);
	for (uint64_t run = 0; run < runs; run++) {
		double error = (double)fill(&host, dice_seed() + run, START_NS, 1000) / (double)quota - 1;
		sum += error;
		squares += error * error;
		most = fmax(most, fabs(error));
		forget(&host);
	}
	printf("%u registers, %" PRIu64 " runs at Q = %" PRIu64
	       ": standard error %.2f %%, mean %+.2f %%, most %.2f %%; printed %.2f %%\n",
	       registers, runs, quota, 100 * sqrt(squares / (double)runs), 100 * sum / (double)runs, 100 * most,
	       100 * printed);
	assert_true(sqrt(squares / (double)runs) < printed * (1 + 3.5 / sqrt(2.0 * (double)runs)));
	assert_true(fabs(sum / (double)runs) < 4 * printed / sqrt((double)runs));
}

/* 1.04 / sqrt(m) holds from some 5 m on; below it is smaller. */
static void the_error_is_the_one_that_is_printed(void **state) {
	const bool soak = getenv("SLUICE_SOAK_SECONDS") != NULL;
	struct host host = {.block = NULL};
	(void)state;
	measure_error(1024, soak ? 200000 : 10000, soak ? 40 : dice_ops(20), 325);
	measure_error(4096, soak ? 1000000 : 20000, soak ? 100 : dice_ops(20), 163);
	measure_error(16384, soak ? 200000 : 80000, soak ? 40 : dice_ops(4), 82);
	if (soak) {
		measure_error(2048, 200000, 40, 230);
		measure_error(8192, 200000, 40, 115);
		measure_error(32768, 200000, 40, 58);
	}
	parse(&host, "distinct 1024/1d");
	assert_int_equal(sl_distinct_error(&host.limit), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sketch_slides_as_the_list_does),
		cmocka_unit_test(the_newest_stay_inside_whatever_strangers_try),
		cmocka_unit_test(the_edge_decides_on_which_side_it_errs),
		cmocka_unit_test(it_is_exact_again_when_few_are_left),
		cmocka_unit_test(bursts_go_with_their_unit),
		cmocka_unit_test(a_quota_lowered_below_the_places_waits_for_them),
		cmocka_unit_test(a_sketch_keeps_the_registers_that_it_began_with),
		cmocka_unit_test(registers_that_nobody_can_have_are_no_sketch),
		cmocka_unit_test(the_error_is_the_one_that_is_printed),
	};
	printf("SLUICE_SEED=%" PRIu64 "\n", dice_seed());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
