/* States that outlive who wrote them: any bytes may stand in one after damage, its writer may have died at any store,
 * and what is remembered of one that was evicted is little. Random limits of every algorithm; SLUICE_SEED repeats it.
 *
 *  hostile   any bytes of state and block: every call stays in the block (which is allocated to the byte, for the
 *            address sanitizer), ends, and gives answers that agree with themselves
 *  death     a charge or refund that dies with any subset of its stores done, under the state published before them:
 *            always between what it would be without the call and with it, then and after all later calls
 *  assumed   a counter made from what is remembered is never less used than the real one, at no later instant */
#include "algo/algorithms.h"
#include "algo/step.h"
#include "base/bytes.h"
#include "base/life.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BLOCK_BYTES_MAX = 1 << 20, LATER = 6, SUBSETS_MAX = 64 };

static const sluice_ns START_NS = UINT64_C(1800000000) * 1000000000;

/* A counter as a store keeps it. */
struct kept {
	struct sl_state state;
	unsigned char *block;
	uint64_t block_bytes;
};

static uint64_t stream_now; /* for the message of a failure */
static char stream_text[SLUICE_LIMIT_TEXT_MAX];

#define CHECK(condition)                                                                                              \
	do {                                                                                                              \
		if (!(condition)) {                                                                                           \
			fprintf(stderr, "SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " %s\n", dice_seed(), stream_now, stream_text); \
			fail_msg("%s", #condition);                                                                               \
		}                                                                                                             \
	} while (0)

static struct sluice_limit any_limit(struct dice *dice, uint64_t stream, bool with_block) {
	static const sluice_algorithm blocks[] = {SLUICE_SLIDING_BUCKETS, SLUICE_SLIDING_LOG};
	sluice_algorithm algorithm = (sluice_algorithm)(1 + dice_below(dice, SLUICE_LEAKY_BUCKET));
	struct twin_rule rule =
		dice_rule(dice, with_block ? blocks[dice_below(dice, 2)] : algorithm, (sluice_edge)dice_below(dice, 3));
	stream_now = stream;
	rule_print(&rule, stream_text, sizeof stream_text);
	return rule_limit(&rule);
}

/* One under which a walk of many windows stays before the end of time; logs keep 8 bytes an instant from 49 days on. */
static struct sluice_limit walkable_limit(struct dice *dice, uint64_t stream, bool with_block) {
	for (;;) {
		struct sluice_limit limit = any_limit(dice, stream, with_block);
		if (limit.quota != 0 && limit.window_ns <= UINT64_C(60) * 86400 * 1000 * SL_MS_NS)
			return limit;
	}
}

static unsigned char *bytes_for(uint64_t bytes, struct dice *dice) {
	unsigned char *block = malloc(bytes);
	assert_non_null(block);
	for (uint64_t i = 0; i < bytes; i++)
		block[i] = (unsigned char)dice_bits(dice); /* a store hands out what others have left */
	return block;
}

static struct sl_counter load(const struct kept *kept) {
	return (struct sl_counter){.state = kept->state, .block = kept->block, .block_bytes = kept->block_bytes};
}

static struct kept copy_of(const struct kept *kept) {
	struct kept copy = *kept;
	if (kept->block != NULL) {
		copy.block = malloc(kept->block_bytes);
		assert_non_null(copy.block);
		memcpy(copy.block, kept->block, kept->block_bytes);
	}
	return copy;
}

static void drop(struct kept *kept) {
	free(kept->block);
	*kept = (struct kept){.block = NULL};
}

static struct sluice_decision peek(const struct sluice_limit *limit, const struct kept *kept, sluice_ns now,
                                   uint64_t cost) {
	struct sl_counter counter = load(kept);
	struct sluice_decision decision;
	sl_step(limit, &counter, now, cost, false, &decision);
	return decision;
}

/* How far a walk in time goes in one step: where limiters break, or anywhere. */
static sluice_ns any_step(struct dice *dice, const struct sluice_limit *limit) {
	sluice_ns window = limit->window_ns, unit = limit->precision_ns != 0 ? limit->precision_ns : window / 10 + 1;
	switch (dice_below(dice, 10)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return 1 + dice_below(dice, 2 * SL_MS_NS);
	case 3:
		return unit - 1 + dice_below(dice, 3);
	case 4:
		return window - 1 + dice_below(dice, 3);
	case 5:
		return dice_below(dice, 3 * window);
	case 6:
		return (1 + dice_below(dice, 4)) * SL_MS_NS;
	default:
		return dice_below(dice, unit);
	}
}

/* ---- hostile ----------------------------------------------------------------------------------------------------- */

static void check_answer(const struct sluice_limit *limit, const struct sluice_decision *d, uint64_t cost) {
	uint64_t most = d->quota < UINT32_MAX ? d->quota : UINT32_MAX;
	CHECK(d->quota == limit->derived[SL_CAPACITY]);
	CHECK(d->remaining <= d->quota);
	CHECK(d->allowed == (d->retry_after_ns == 0));
	CHECK((d->retry_after_ns == SLUICE_NEVER) == (!d->allowed && cost > d->quota));
	CHECK(d->allowed || (d->delay_ns == 0 && cost > d->remaining));
	CHECK(d->reset_after_ns != SLUICE_NEVER && d->delay_ns != SLUICE_NEVER);
	CHECK(d->reset_after_ns != 0 || d->remaining == most);
	CHECK(d->next_after_ns == 0 && d->index == 0);
}

static sluice_ns any_instant(struct dice *dice, const struct kept *kept, const struct sluice_limit *limit) {
	switch (dice_below(dice, 6)) {
	case 0:
		return dice_bits(dice) >> dice_below(dice, 64);
	case 1:
		return UINT64_MAX - dice_below(dice, 3);
	case 2:
		return dice_below(dice, 3);
	case 3:
		return kept->state.w[0] - any_step(dice, limit);
	default:
		return kept->state.w[0] + any_step(dice, limit);
	}
}

/* Charges as a store does. Returns whether it was admitted. */
static bool charge(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost,
                   struct dice *dice) {
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	uint64_t need = 0;
	unsigned char *block = NULL;
	sl_step_prefetch(limit, &counter);
	sl_step(limit, &counter, now, cost, true, &d);
	check_answer(limit, &d, cost);
	if (!d.allowed || cost == 0)
		return d.allowed;
	if (sl_rule_has(limit, SL_HAS_BLOCK)) {
		need = sl_step_block_bytes(limit, &counter, cost);
		if (need > BLOCK_BYTES_MAX) /* one log of that size would be fair; none comes near here */
			return true;
		need = (need + 7) / 8 * 8;
		if (need != 0)
			block = bytes_for(need, dice);
		else if (sl_step_prepare(limit, &counter))
			kept->state = counter.state;
		sl_step_write(limit, &counter, now, cost, block, need);
	}
	if (need != 0) {
		free(kept->block);
		kept->block = block;
		kept->block_bytes = need;
	}
	kept->state = counter.state;
	return true;
}

static void refund(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = load(kept);
	uint32_t left = cost;
	if (sl_step_prepare_refund(limit, &counter, now, &left))
		kept->state = counter.state;
	CHECK(left <= cost);
	if (sl_step_refund(limit, &counter, now, left))
		kept->state = counter.state;
}

static uint64_t any_word(struct dice *dice) {
	static const uint64_t words[] = {0, 1, 0xffffffff, UINT64_MAX, UINT64_MAX << 32, UINT64_C(1) << 63};
	if (dice_one_in(dice, 3))
		return words[dice_below(dice, sizeof words / sizeof *words)];
	return dice_bits(dice) >> dice_below(dice, 64);
}

/* A counter of any bytes, or a good one with some of its bits turned over. */
static struct kept any_counter(struct dice *dice, const struct sluice_limit *limit) {
	struct kept kept = {.state = {.w = {any_word(dice), any_word(dice)}}};
	uint64_t some = 8 * (1 + dice_below(dice, 40)), exact = (limit->bucket_count + 2) / 2 * UINT64_C(8);
	if (dice_one_in(dice, 2)) {
		sluice_ns now = START_NS;
		kept.state = (struct sl_state){.rate = 0};
		for (uint64_t i = dice_below(dice, 60); i > 0; i--)
			charge(limit, &kept, now += any_step(dice, limit), dice_one_in(dice, 3) ? 2 : 1, dice);
		for (uint64_t i = dice_below(dice, 4); i > 0; i--)
			kept.state.w[dice_below(dice, 2)] ^= UINT64_C(1) << dice_below(dice, 64);
		for (uint64_t i = dice_below(dice, 4); i > 0 && kept.block != NULL; i--)
			kept.block[dice_below(dice, dice_one_in(dice, 2) ? 8 : kept.block_bytes)] ^=
				(unsigned char)(1 << dice_below(dice, 8));
	} else if (sl_rule_has(limit, SL_HAS_BLOCK) && !dice_one_in(dice, 10)) {
		uint64_t word = any_word(dice);
		kept.block_bytes = limit->bucket_count != 0 && !dice_one_in(dice, 4) ? exact : some;
		kept.block = bytes_for(kept.block_bytes, dice);
		if (dice_one_in(dice, 2)) /* as a log's header may be: capacity, weighted */
			word = dice_below(dice, kept.block_bytes) | (dice_bits(dice) & 1) << 32;
		if (!dice_one_in(dice, 3))
			memcpy(kept.block, &word, 8);
		if (dice_one_in(dice, 4))
			memset(kept.block + 8, dice_one_in(dice, 2) ? 0xff : 0, kept.block_bytes - 8);
	}
	return kept;
}

static void hostile_bytes_give_wrong_answers_at_worst(void **state) {
	uint64_t seed = dice_seed(), streams = dice_ops(60000);
	(void)state;
	for (uint64_t stream = 0; stream < streams; stream++) {
		struct dice dice = dice_of(seed, stream);
		struct sluice_limit limit = any_limit(&dice, stream, dice_one_in(&dice, 2));
		struct kept kept = any_counter(&dice, &limit);
		struct sl_counter counter = load(&kept);
		sl_counter_is_valid(&limit, &counter);
		for (int i = 0; i < 8; i++) {
			sluice_ns now = any_instant(&dice, &kept, &limit);
			uint32_t cost = dice_cost(&dice, limit.quota);
			struct sluice_decision d = peek(&limit, &kept, now, cost);
			check_answer(&limit, &d, cost);
			CHECK(d.allowed == (cost <= d.remaining || cost == 0));
			if (dice_one_in(&dice, 4))
				refund(&limit, &kept, now, cost);
			else
				CHECK(charge(&limit, &kept, now, cost, &dice) == d.allowed);
		}
		drop(&kept);
	}
}

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

/* A total above what its cells hold: the last of them must not be waited for from before it was charged. */
static void a_damaged_total_gives_a_wait_all_the_same(void **state) {
	struct sluice_limit limit = limit_of("sliding-buckets 9/7m precision 1m edge weighted");
	struct dice dice = dice_of(1, 4);
	struct kept kept = {.block = NULL};
	(void)state;
	assert_true(charge(&limit, &kept, START_NS / limit.window_ns * limit.window_ns + 1, 1, &dice));
	for (uint32_t total = 1; total <= 20; total++)
		for (uint32_t cost = 0; cost <= 10; cost++) {
			struct sluice_decision d;
			kept.state.w[1] = (uint64_t)total << 32 | (uint32_t)kept.state.w[1];
			d = peek(&limit, &kept, START_NS / limit.window_ns * limit.window_ns + 1, cost);
			check_answer(&limit, &d, cost);
			assert_true(d.allowed || cost > limit.quota || d.retry_after_ns <= limit.window_ns + limit.precision_ns);
		}
	drop(&kept);
}

/* ---- death ------------------------------------------------------------------------------------------------------- */

/* `less` is at most as used as `more`, at `now` and at instants to come. */
static void check_order(const struct sluice_limit *limit, const struct kept *less, const struct kept *more,
                        sluice_ns now, struct dice *dice) {
	for (int i = 0; i < LATER; i++) {
		uint32_t cost = dice_cost(dice, limit->quota);
		struct sluice_decision a = peek(limit, less, now, cost), b = peek(limit, more, now, cost);
		CHECK(a.remaining >= b.remaining);
		CHECK(a.retry_after_ns <= b.retry_after_ns);
		CHECK(a.reset_after_ns <= b.reset_after_ns);
		now += any_step(dice, limit);
	}
}

/* What a death among the stores that lead from `before` to `after` leaves: of the words that differ some are written.
 * The state is `published`. */
static struct kept torn_between(const struct kept *before, const struct kept *after, const struct sl_state *published,
                                uint64_t subset, struct dice *dice) {
	struct kept torn = copy_of(before);
	unsigned found = 0;
	torn.state = *published;
	for (uint64_t at = 0; at < torn.block_bytes; at += 4) {
		if (memcmp(before->block + at, after->block + at, 4) == 0)
			continue;
		if (found < 6 ? subset >> found & 1 : dice_one_in(dice, 2))
			memcpy(torn.block + at, after->block + at, 4);
		found++;
	}
	return torn;
}

/* A process whose clock lags behind the dead one's asks at an earlier instant: it gains nothing by it. (A log raises it
 * to the last charge's instant as it keeps it, in whole milliseconds.) */
static void check_lagging(const struct sluice_limit *limit, const struct kept *before, const struct kept *torn,
                          const struct kept *after, sluice_ns now, struct dice *dice) {
	sluice_ns lag = now - dice_below(dice, limit->window_ns / 4 + 2);
	uint32_t remaining = peek(limit, torn, lag, 0).remaining, least = peek(limit, before, lag, 0).remaining;
	uint32_t charged = peek(limit, after, lag, 0).remaining;
	CHECK(remaining >= (charged < least ? charged : least));
	CHECK(remaining <= peek(limit, before, (now + SL_MS_NS - 1) / SL_MS_NS * SL_MS_NS, 0).remaining);
}

/* `before` is what the call finds, `after` what it leaves, `less` and `more` the one and the other by use. Every death
 * is tried, and the counter of one of them returned. */
static struct kept die(const struct sluice_limit *limit, const struct kept *before, const struct kept *after,
                       const struct sl_state *published, bool gives_back, sluice_ns now, struct dice *dice) {
	const struct kept *less = gives_back ? after : before, *more = gives_back ? before : after;
	uint64_t chosen = dice_below(dice, SUBSETS_MAX);
	struct kept left = {.block = NULL};
	for (uint64_t subset = 0; subset < SUBSETS_MAX; subset++) {
		struct kept torn = torn_between(before, after, published, subset, dice);
		check_order(limit, less, &torn, now, dice);
		check_order(limit, &torn, more, now, dice);
		if (!gives_back)
			check_lagging(limit, before, &torn, after, now, dice);
		if (subset == chosen)
			left = torn;
		else
			drop(&torn);
	}
	return left;
}

/* A charge that dies. A new block is nobody's until its state is published, so then nothing has happened. */
static void charge_and_die(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost,
                           struct dice *dice) {
	struct kept before = copy_of(kept), after;
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	sl_step(limit, &counter, now, cost, true, &d);
	CHECK(d.allowed);
	if (cost != 0 && sl_step_block_bytes(limit, &counter, cost) == 0) {
		if (!sl_step_prepare(limit, &counter))
			CHECK(memcmp(&counter.state, &before.state, sizeof counter.state) == 0);
		struct sl_state published = counter.state;
		sl_step_write(limit, &counter, now, cost, NULL, 0);
		after = (struct kept){counter.state, kept->block, kept->block_bytes};
		struct kept left = die(limit, &before, &after, &published, false, now, dice);
		drop(kept);
		*kept = left;
	}
	drop(&before);
}

static void refund_and_die(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost,
                           struct dice *dice) {
	struct kept before = copy_of(kept), after, left;
	struct sl_counter counter = load(kept);
	sl_step_prepare_refund(limit, &counter, now, &cost);
	struct sl_state published = counter.state;
	sl_step_refund(limit, &counter, now, cost);
	after = (struct kept){counter.state, kept->block, kept->block_bytes};
	left = die(limit, &before, &after, &published, true, now, dice);
	drop(&before);
	drop(kept);
	*kept = left;
}

/* Three counters go through the same calls. Those that die do so only in `torn`; `less` never hears of a charge and has
 * all of a refund, `more` the other way round. */
struct walk {
	struct kept less, torn, more;
};

static void walk_on(struct walk *walk, const struct sluice_limit *limit, sluice_ns now, struct dice *dice) {
	bool dies = dice_one_in(dice, 8), gives_back = dice_one_in(dice, 6);
	uint64_t room = peek(limit, &walk->more, now, 0).remaining;
	uint32_t cost = dice_cost(dice, limit->quota);
	if (!gives_back && cost > room)
		cost = room == 0 ? 0 : (uint32_t)(1 + dice_below(dice, room));
	if (gives_back) {
		refund(limit, &walk->less, now, cost);
		if (dies)
			refund_and_die(limit, &walk->torn, now, cost, dice);
		else
			refund(limit, &walk->torn, now, cost);
		if (!dies)
			refund(limit, &walk->more, now, cost);
		return;
	}
	if (dies)
		charge_and_die(limit, &walk->torn, now, cost, dice);
	else
		CHECK(charge(limit, &walk->torn, now, cost, dice) && charge(limit, &walk->less, now, cost, dice));
	CHECK(charge(limit, &walk->more, now, cost, dice));
}

/* Of 4096 sub-buckets, the most that there may be, every cell is older than the window: then a charge that dies once it
 * has said so has left a counter of nothing. */
static void a_death_in_the_longest_ring_leaves_an_empty_counter(void **state) {
	struct sluice_limit limit;
	struct sl_counter counter = {0};
	struct sluice_decision d;
	void *block;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("sliding-buckets 10/4096ms precision 1ms"), NULL), SLUICE_OK);
	sl_step(&limit, &counter, START_NS, 10, true, &d);
	block = calloc(1, sl_step_block_bytes(&limit, &counter, 10));
	assert_non_null(block);
	sl_step_write(&limit, &counter, START_NS, 10, block, sl_step_block_bytes(&limit, &counter, 10));
	sl_step(&limit, &counter, START_NS + 3 * limit.window_ns, 1, true, &d);
	assert_true(d.allowed && sl_step_block_bytes(&limit, &counter, 1) == 0 && sl_step_prepare(&limit, &counter));
	sl_step(&limit, &counter, START_NS + 3 * limit.window_ns, 1, false, &d);
	assert_true(d.allowed && d.remaining == 10 && d.reset_after_ns == 0);
	free(block);
}

static void a_death_leaves_a_whole_counter(void **state) {
	uint64_t seed = dice_seed(), streams = dice_ops(3000);
	(void)state;
	for (uint64_t stream = 0; stream < streams; stream++) {
		struct dice dice = dice_of(seed, stream + 1000000);
		struct sluice_limit limit = walkable_limit(&dice, stream + 1000000, true);
		struct walk walk = {.less = {.block = NULL}};
		sluice_ns now = START_NS;
		while (limit.bucket_count > 100) /* the time goes into comparing blocks */
			limit = walkable_limit(&dice, stream + 1000000, true);
		for (int i = 0; i < 60; i++) {
			bool fine = dice_one_in(&dice, 2); /* many charges in a window, or any step */
			now += fine ? dice_below(&dice, limit.window_ns / 16 + 2) : any_step(&dice, &limit);
			walk_on(&walk, &limit, now, &dice);
			check_order(&limit, &walk.less, &walk.torn, now, &dice);
			check_order(&limit, &walk.torn, &walk.more, now, &dice);
		}
		drop(&walk.less);
		drop(&walk.torn);
		drop(&walk.more);
	}
}

/* ---- assumed ----------------------------------------------------------------------------------------------------- */

static struct kept assume(const struct sluice_limit *limit, const struct sl_held *held, int count, struct dice *dice) {
	struct sl_counter counter;
	uint32_t cost = dice_one_in(dice, 2) ? limit->quota : UINT32_MAX;
	struct kept kept = {.block_bytes = (sl_step_assume_bytes(limit, count, cost) + 7) / 8 * 8};
	assert_true(kept.block_bytes <= SL_ASSUME_BYTES_MAX);
	if (kept.block_bytes != 0)
		kept.block = bytes_for(kept.block_bytes, dice);
	sl_step_assume(limit, &counter, held, count, kept.block, kept.block_bytes);
	kept.state = counter.state;
	CHECK(sl_counter_is_valid(limit, &counter));
	return kept;
}

static uint64_t used_at(const struct sluice_limit *limit, const struct kept *kept, sluice_ns now) {
	struct sluice_decision d = peek(limit, kept, now, 0);
	return d.reset_after_ns == 0 ? 0 : d.quota - d.remaining;
}

/* A real counter, charged for the last time at *now, which it moves on. */
static struct kept real_counter(const struct sluice_limit *limit, sluice_ns *now, struct dice *dice) {
	struct kept kept = {.block = NULL};
	sluice_ns last = 0;
	do {
		*now += any_step(dice, limit);
		if (charge(limit, &kept, *now, dice_cost(dice, limit->quota), dice) && !sl_state_is_none(&kept.state))
			last = *now;
	} while (last == 0 || !dice_one_in(dice, 12));
	*now = last;
	return kept;
}

static void check_goes_on(const struct sluice_limit *limit, const struct kept *assumed, sluice_ns now,
                          struct dice *dice) {
	struct kept kept = copy_of(assumed);
	struct sl_counter counter = load(&kept);
	struct sluice_decision d;
	uint32_t cost = dice_cost(dice, limit->quota);
	sl_step(limit, &counter, now, cost, true, &d);
	if (d.allowed && cost != 0)
		CHECK(sl_step_block_bytes(limit, &counter, cost) == 0);
	for (int i = 0; i < 40; i++)
		charge(limit, &kept, now += any_step(dice, limit), dice_cost(dice, limit->quota), dice);
	drop(&kept);
}

static void assumed_from_one_is_as_used(void **state) {
	uint64_t seed = dice_seed(), streams = dice_ops(60000);
	(void)state;
	for (uint64_t stream = 0; stream < streams; stream++) {
		struct dice dice = dice_of(seed, stream + 2000000);
		struct sluice_limit limit = walkable_limit(&dice, stream + 2000000, false);
		sluice_ns now = START_NS + dice_below(&dice, 100 * SL_MS_NS);
		struct kept real = real_counter(&limit, &now, &dice), assumed;
		struct sl_held held = {now, used_at(&limit, &real, now)};
		assumed = assume(&limit, &held, 1, &dice);
		CHECK(used_at(&limit, &assumed, now) == held.cost); /* as used, and no more */
		check_order(&limit, &real, &assumed, now, &dice);
		check_goes_on(&limit, &assumed, now, &dice);
		drop(&assumed);

		held.instant += dice_below(&dice, 40 * SL_MS_NS); /* remembered roughly */
		held.cost += dice_below(&dice, limit.quota);
		assumed = assume(&limit, &held, 1, &dice);
		check_order(&limit, &real, &assumed, held.instant, &dice);
		check_goes_on(&limit, &assumed, now, &dice);
		drop(&assumed);
		drop(&real);
	}
}

/* Several real counters, of which the assumed one might have been each. */
static void assumed_from_several_is_as_used_as_each(void **state) {
	uint64_t seed = dice_seed(), streams = dice_ops(20000);
	(void)state;
	for (uint64_t stream = 0; stream < streams; stream++) {
		struct dice dice = dice_of(seed, stream + 3000000);
		struct sluice_limit limit = walkable_limit(&dice, stream + 3000000, false);
		struct kept real[SL_HELD_MAX], assumed;
		struct sl_held held[SL_HELD_MAX];
		int count = 1 + (int)dice_below(&dice, SL_HELD_MAX);
		sluice_ns now = START_NS + dice_below(&dice, 100 * SL_MS_NS);
		for (int i = 0; i < count; i++) {
			sluice_ns its = now; /* each has its own past, and ends a little after the one before */
			real[i] = real_counter(&limit, &its, &dice);
			now = its;
			held[i] = (struct sl_held){its, used_at(&limit, &real[i], its)};
		}
		for (int i = count - 1; i-- > 0;)
			held[i].cost = held[i].cost > held[i + 1].cost ? held[i].cost : held[i + 1].cost;
		assumed = assume(&limit, held, count, &dice);
		for (int i = 0; i < count; i++) {
			check_order(&limit, &real[i], &assumed, now, &dice);
			drop(&real[i]);
		}
		if (limit.algorithm != SLUICE_SLIDING_WINDOW) /* which may hold one in each of its two windows */
			CHECK(used_at(&limit, &assumed, now) <= held[0].cost);
		check_goes_on(&limit, &assumed, now, &dice);
		drop(&assumed);
	}
}

static void assumed_from_nothing_is_unused(void **state) {
	uint64_t seed = dice_seed();
	(void)state;
	for (uint64_t stream = 0; stream < 200; stream++) {
		struct dice dice = dice_of(seed, stream + 4000000);
		struct sluice_limit limit = walkable_limit(&dice, stream + 4000000, false);
		struct kept assumed = assume(&limit, NULL, 0, &dice);
		CHECK(used_at(&limit, &assumed, START_NS) == 0);
		check_goes_on(&limit, &assumed, START_NS, &dice);
		drop(&assumed);
	}
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

/* A sum of cells too large to be noted as a total is still counted to the unit. */
static void totals_beyond_what_is_noted_are_added_up(void **state) {
	struct sluice_limit limit = limit_of("sliding-buckets 4294967295/10s precision 1s edge count");
	struct dice dice = dice_of(1, 1);
	struct kept kept = {.block = NULL};
	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		assert_true(charge(&limit, &kept, START_NS + i * UINT64_C(1000000000), UINT32_MAX / 5, &dice));
	assert_int_equal(peek(&limit, &kept, START_NS + UINT64_C(4000000000), 0).remaining, 0);
	assert_int_equal(peek(&limit, &kept, START_NS + UINT64_C(10999999999), 0).remaining, 0);
	assert_int_equal(peek(&limit, &kept, START_NS + UINT64_C(11000000000), 0).remaining, UINT32_MAX / 5);
	drop(&kept);
}

/* Between the two publications of a charge in the next sub-bucket, with everything of the block written. */
static void a_prepared_state_does_not_see_the_charge(void **state) {
	struct sluice_limit limit = limit_of("sliding-buckets 10/3s precision 1s edge count");
	struct dice dice = dice_of(1, 2);
	struct kept kept = {.block = NULL};
	struct sluice_decision d;
	(void)state;
	assert_true(charge(&limit, &kept, START_NS, 4, &dice));
	for (uint32_t i = 1; i <= 6; i++) {
		sluice_ns now = START_NS + i * UINT64_C(1000000000);
		struct sl_counter counter = load(&kept);
		sl_step(&limit, &counter, now, 1, true, &d);
		assert_true(d.allowed);
		assert_true(sl_step_prepare(&limit, &counter));
		kept.state = counter.state;
		sl_step_write(&limit, &counter, now, 1, NULL, 0);
		assert_int_equal(peek(&limit, &kept, now, 0).remaining, i <= 3 ? 6 : 10);
	}
	drop(&kept);
}

/* Expired entries are about to be overwritten: nobody may charge any more at an instant at which they counted. */
static void a_prepared_log_is_at_the_instant_of_its_charge(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 100/100ms");
	struct dice dice = dice_of(1, 3);
	struct kept kept = {.block = NULL};
	struct sluice_decision d;
	int prepared = 0;
	(void)state;
	for (sluice_ns now = START_NS; now < START_NS + 2000 * SL_MS_NS; now += 15 * SL_MS_NS) {
		struct sl_counter counter = load(&kept);
		sl_step(&limit, &counter, now, 1, true, &d);
		if (sl_step_block_bytes(&limit, &counter, 1) == 0 && sl_step_prepare(&limit, &counter)) {
			kept.state = counter.state;
			assert_true(charge(&limit, &kept, now - 5 * SL_MS_NS, 1, &dice));
			assert_int_equal(peek(&limit, &kept, now + 95 * SL_MS_NS, 0).remaining, 99);
			assert_int_equal(peek(&limit, &kept, now + 100 * SL_MS_NS, 0).remaining, 100);
			prepared++;
		} else {
			assert_true(charge(&limit, &kept, now, 1, &dice));
		}
	}
	assert_true(prepared > 5);
	drop(&kept);
}

/* More than 2^64 ns is told as that, and must not come round to a lifetime of nothing. */
static void the_longest_wait_is_the_longest_life(void **state) {
	struct twin_rule rule = {
		.algorithm = SLUICE_LEAKY_BUCKET, .quota = 1, .burst = 1000, .window_ns = SL_WINDOW_NS_MAX};
	struct sluice_limit limit = rule_limit(&rule);
	struct sl_counter counter = {.block = NULL};
	struct sluice_decision decision;
	(void)state;
	sl_step(&limit, &counter, START_NS, 1000, true, &decision);
	assert_true(decision.allowed && decision.reset_after_ns == SLUICE_NEVER - 1);
	assert_true(sl_step_life(&limit, &decision) == SLUICE_NEVER - 1);
}

/* The rate by which a store reads a charge that it has just published. */
static uint32_t rate_told(const struct sluice_limit *limit, const struct sl_counter *counter,
                          const struct sluice_decision *decision) {
	struct sl_state kept = {.w = {counter->state.w[0], counter->state.w[1]}};
	kept.life = (uint32_t)sl_life_code(sl_step_life(limit, decision)) + 1;
	return sl_bucket_rate(limit, &kept);
}

/* By the longest debt of a code of lifetimes, and by one that lives longer than any. */
static void a_lifetime_tells_the_rate_of_the_limit(void **state) {
	struct sluice_limit limit = limit_of("token-bucket 1000/1s burst 2000");
	const sluice_ns second_ns = UINT64_C(1000000000);
	(void)state;
	sl_rule_name(&limit, sl_str("search"));
	for (uint64_t code = sl_life_code(second_ns + 2 * SL_MS_NS); sl_life_longest(code) < 2 * second_ns; code++) {
		struct sl_counter counter = {.block = NULL};
		sluice_ns reset = sl_life_longest(code) - SL_MS_NS;
		struct sluice_decision decision;
		sl_step(&limit, &counter, START_NS, 1000, true, &decision);
		sl_step(&limit, &counter, START_NS + 2 * second_ns - reset, 1000, true, &decision);
		assert_true(decision.allowed && decision.reset_after_ns == reset);
		assert_int_equal(rate_told(&limit, &counter, &decision), 1000);
	}
	limit = limit_of("token-bucket 1/3660d burst 4000000000");
	sl_rule_name(&limit, sl_str("search"));
	struct sl_counter counter = {.block = NULL};
	struct sluice_decision decision;
	sl_step(&limit, &counter, START_NS, UINT32_C(4000000000), true, &decision);
	assert_true(decision.allowed);
	assert_int_equal(rate_told(&limit, &counter, &decision), 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_bytes_give_wrong_answers_at_worst),
		cmocka_unit_test(a_damaged_total_gives_a_wait_all_the_same),
		cmocka_unit_test(a_death_in_the_longest_ring_leaves_an_empty_counter),
		cmocka_unit_test(a_death_leaves_a_whole_counter),
		cmocka_unit_test(the_longest_wait_is_the_longest_life),
		cmocka_unit_test(a_lifetime_tells_the_rate_of_the_limit),
		cmocka_unit_test(assumed_from_one_is_as_used),
		cmocka_unit_test(assumed_from_several_is_as_used_as_each),
		cmocka_unit_test(assumed_from_nothing_is_unused),
		cmocka_unit_test(totals_beyond_what_is_noted_are_added_up),
		cmocka_unit_test(a_prepared_state_does_not_see_the_charge),
		cmocka_unit_test(a_prepared_log_is_at_the_instant_of_its_charge),
	};
	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
