/* Blocks that nobody of ours may have written (a dump, a value of Redis, damage): what is right in one is checked field
 * by field, so here each field by itself is made wrong, at the least and at the most that it can be. Then contents of a
 * ledger under the same, and calls whose limits come with a bound of the policy's. */
#include "algo/bundle.h"
#include "algo/hll.h"
#include "algo/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START_NS (UINT64_C(1800000000) * 1000000000)
#define MINUTE_NS (UINT64_C(60) * 1000000000)

enum { MEMBERS = 1100, SEATS_OF_SKETCH = 1024, SKETCH_BYTES = sizeof(struct sl_hll) + 25 * 2 * 4096 };

struct host {
	struct sluice_limit limit;
	struct sl_state state;
	unsigned char *block;
	uint64_t bytes;
};

/* A counter as a host keeps it, of members 1 to `members`. */
static struct host charged(const char *text, uint64_t members, uint32_t cost) {
	struct host host = {.block = NULL};
	assert_int_equal(sluice_limit_parse(&host.limit, sl_str(text), NULL), SLUICE_OK);
	for (uint64_t who = 1; who <= members; who++) {
		struct sl_counter c = {.state = host.state, .block = host.block, .block_bytes = host.bytes, .who = who};
		struct sluice_decision decision;
		uint64_t need;
		sl_step(&host.limit, &c, START_NS, cost, true, &decision);
		assert_true(decision.allowed);
		host.state = c.state;
		if (!sl_rule_has(&host.limit, SL_HAS_BLOCK))
			continue;
		need = (sl_step_block_bytes(&host.limit, &c, cost) + 7) / 8 * 8;
		if (need != 0) {
			unsigned char *block = calloc(1, need);
			assert_non_null(block);
			sl_step_write(&host.limit, &c, START_NS, cost, block, need);
			free(host.block);
			host.block = block;
			host.bytes = need;
		} else if (!c.known) {
			(void)sl_step_prepare(&host.limit, &c);
			sl_step_write(&host.limit, &c, START_NS, cost, NULL, 0);
		}
		host.state = c.state;
	}
	return host;
}

static bool is_valid(const struct host *host) {
	const struct sl_counter c = {.state = host->state, .block = host->block, .block_bytes = host->bytes};
	return sl_counter_is_valid(&host->limit, &c);
}

/* ---- each field -------------------------------------------------------------------------------------------------- */

static const struct damage {
	const char *limit;
	uint64_t members;
	uint32_t cost;
	size_t at, bytes; /* in the block */
	uint64_t value;
} damages[] = {
	/* seats: capacity, flags, ends, costs */
	{"concurrency 9 lease 1m", 3, 1, 0, 4, 0},
	{"concurrency 9 lease 1m", 3, 1, 0, 4, 9},
	{"concurrency 9 lease 1m", 3, 1, 0, 4, (1 << 25) + 1},
	{"concurrency 9 lease 1m", 3, 1, 0, 4, UINT32_MAX},
	{"concurrency 9 lease 1m", 3, 1, 4, 4, SL_PLACES_WEIGHTED},
	{"concurrency 9 lease 1m", 3, 1, 4, 4, SL_PLACES_SKETCH},
	{"concurrency 9 lease 1m", 3, 1, 4, 4, SL_PLACES_SKETCH << 1},
	{"concurrency 9 lease 1m", 3, 1, 4, 4, 11 << SL_PLACES_BITS_SHIFT},
	{"concurrency 9 lease 1m", 3, 1, 8, 8, START_NS + MINUTE_NS + 1},
	{"concurrency 9 lease 1m", 3, 1, 8, 8, UINT64_MAX},
	{"concurrency 9 lease 1m", 3, 2, 8 + 16 * 8, 4, 0},
	/* members with a sketch: flags, seats, ends, what is noted of it, registers */
	{"distinct 2k/1m", MEMBERS, 1, 0, 4, SEATS_OF_SKETCH - 1},
	{"distinct 2k/1m", MEMBERS, 1, 4, 4, 0},
	{"distinct 2k/1m", MEMBERS, 1, 4, 4, SL_PLACES_SKETCH | 9 << SL_PLACES_BITS_SHIFT},
	{"distinct 2k/1m", MEMBERS, 1, 4, 4, SL_PLACES_SKETCH | 12 << SL_PLACES_BITS_SHIFT},
	{"distinct 2k/1m", MEMBERS, 1, 4, 4, SL_PLACES_SKETCH | 13 << SL_PLACES_BITS_SHIFT},
	{"distinct 2k/1m", MEMBERS, 1, 4, 4, SL_PLACES_SKETCH | 16 << SL_PLACES_BITS_SHIFT},
	{"distinct 2k/1m", MEMBERS, 1, 8 + offsetof(struct sl_hll, beyond), 8, START_NS + MINUTE_NS + 1},
	{"distinct 2k/1m", MEMBERS, 1, 8 + offsetof(struct sl_hll, ghosts_end), 8, START_NS + MINUTE_NS + 1},
	{"distinct 2k/1m", MEMBERS, 1, 8 + offsetof(struct sl_hll, ghosts), 8, (uint64_t)UINT32_MAX + 1},
	{"distinct 2k/1m", MEMBERS, 1, 8 + offsetof(struct sl_hll, rows) + 2, 2, 4096},
	{"distinct 2k/1m", MEMBERS, 1, 8 + SKETCH_BYTES, 8, START_NS + MINUTE_NS + 1},
	/* a log: capacity, its weights, instants in order and not after the last */
	{"sliding-log 9/1m", 3, 1, 0, 4, 1 << 30},
	{"sliding-log 9/1m", 3, 1, 0, 4, UINT32_MAX},
	{"sliding-log 9/1m", 3, 1, 0, 4, 2},
	{"sliding-log 9/1m", 3, 1, 4, 4, 2},
	{"sliding-log 9/1m", 3, 2, 4, 4, 2},
};

static void each_wrong_field_of_a_block_is_seen(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		const struct damage *d = &damages[i];
		struct host host = charged(d->limit, d->members, d->cost);
		assert_true(is_valid(&host));
		assert_true(d->at + d->bytes <= host.bytes);
		memcpy(host.block + d->at, &d->value, d->bytes); /* little-endian, as blocks are */
		if (is_valid(&host))
			fail_msg("row %zu of %s", i, d->limit);
		free(host.block);
	}
}

/* Nothing of a register at one rank that does not hold at those below, in whatever unit it came. */
static void a_register_counts_at_all_ranks_below(void **state) {
	(void)state;
	struct host host = charged("distinct 2k/1m", MEMBERS, 1);
	struct sl_hll *hll = (struct sl_hll *)(void *)(host.block + 8);
	uint32_t seen = 0;
	hll->counted = 0; /* whose numbers of rows would give it away */
	assert_true(is_valid(&host));
	for (uint32_t i = 0; i < 4096; i++) {
		uint16_t kept = hll->times[4096 + i]; /* its second rank */
		hll->times[4096 + i] = hll->times[i] - 1; /* came before the first did: no harm */
		assert_true(is_valid(&host) || hll->times[2 * 4096 + i] == kept);
		hll->times[4096 + i] = kept;
		if (hll->times[2 * 4096 + i] != kept || kept != hll->times[i])
			continue;
		hll->times[i]--;
		seen += !is_valid(&host);
		hll->times[i]++;
	}
	assert_true(is_valid(&host) && seen > 100);
	free(host.block);
}

/* Every block that is short of what its header says, byte by byte. */
static void no_block_is_shorter_than_it_says(void **state) {
	static const char *const limits[] = {"concurrency 9 lease 1m", "sliding-log 9/1m", "distinct 9/1m",
	                                     "sliding-buckets 60/1m precision 1s"};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct host host = charged(limits[i], 3, 1);
		uint64_t bytes = host.bytes, least = bytes;
		for (; host.bytes > 0; host.bytes--) {
			least = is_valid(&host) ? host.bytes : least;
			if (is_valid(&host))
				assert_true(host.bytes + 8 > bytes); /* only what it was rounded up by may be missing */
		}
		assert_true(least <= bytes && !is_valid(&host));
		free(host.block);
		host.block = NULL; /* and a state that has one, without it */
		assert_false(is_valid(&host));
		host.state = (struct sl_state){0};
		assert_true(is_valid(&host));
	}
}

static void nothing_is_right_under_a_limit_that_is_none(void **state) {
	(void)state;
	struct host host = charged("9/1m", 1, 1);
	assert_true(is_valid(&host));
	host.limit.window_ns = 0;
	assert_false(is_valid(&host));
}

/* Registers of another number than is usual are told by the block alone, and never by one that is too short to say. */
static void a_block_says_how_many_registers_it_has(void **state) {
	const uint32_t of_13_bits[2] = {1, sl_seats_sketch_flags(13)}, usual[2] = {1, sl_seats_sketch_flags(12)};
	const uint32_t none[2] = {1, 0}, wrong[2] = {1, SL_PLACES_WEIGHTED | 13 << SL_PLACES_BITS_SHIFT};
	(void)state;
	assert_true(sl_seats_have_registers(of_13_bits, sizeof of_13_bits));
	assert_false(sl_seats_have_registers(of_13_bits, sizeof of_13_bits - 1));
	assert_false(sl_seats_have_registers(NULL, 0));
	assert_false(sl_seats_have_registers(usual, sizeof usual));
	assert_false(sl_seats_have_registers(none, sizeof none));
	assert_false(sl_seats_have_registers(wrong, sizeof wrong));
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

enum { HEAD_WORDS = 4, CONTENTS_WORDS = 4096 };

static uint32_t saved;

static void count_saved(void *context, const void *word) {
	(void)context, (void)word;
	saved++;
}

/* u32 buckets, u32 rate | u64 void_until | u64 seed | u64 zero */
static void contents_that_are_none_are_left_alone(void **state) {
	static uint64_t memory[CONTENTS_WORDS], before[CONTENTS_WORDS];
	struct sluice_limit limit;
	struct sl_contents contents = {.memory = memory, .bytes = sl_contents_bytes(1), .save = count_saved};
	const struct {
		uint64_t word, value, bytes;
	} wrong[] = {
		{0, 0, contents.bytes},           {0, 1, contents.bytes},          {0, 3, contents.bytes},
		{0, UINT32_MAX, contents.bytes},  {0, 1 << 20, contents.bytes},    {3, 1, contents.bytes},
		{2, 7, contents.bytes - 1},       {2, 7, HEAD_WORDS * 8 - 1},      {2, 7, 0},
	};
	(void)state;
	assert_true(contents.bytes <= sizeof memory);
	assert_int_equal(sluice_limit_parse(&limit, sl_str("token-bucket 9/1m"), NULL), SLUICE_OK);
	sl_contents_format(&limit, &contents, NULL, NULL, 5);
	assert_true(sl_contents_are_valid(&contents));
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sl_contents damaged = contents;
		uint64_t kept = memory[wrong[i].word];
		memory[wrong[i].word] = wrong[i].value;
		damaged.bytes = wrong[i].bytes;
		memcpy(before, memory, sizeof before);
		assert_false(sl_contents_are_valid(&damaged));
		assert_false(sl_contents_have_room(&damaged, 0, 1));
		assert_false(sl_contents_bear(&damaged, 0, 1));
		assert_false(sl_contents_turn(&damaged, 9, 20));
		sl_contents_void(&damaged, START_NS);
		assert_memory_equal(memory, before, sizeof before);
		memory[wrong[i].word] = kept;
	}
	assert_false(sl_contents_are_valid(&(struct sl_contents){.memory = NULL, .bytes = contents.bytes}));
	assert_int_equal(saved, 0);
	/* the highest rate since it was turned, and the latest instant */
	assert_true(sl_contents_turn(&contents, 9, 20));
	assert_false(sl_contents_turn(&contents, 20, 9));
	assert_true(sl_contents_turn(&contents, 30, 9));
	assert_int_equal((uint32_t)(memory[0] >> 32), 30);
	sl_contents_void(&contents, START_NS);
	assert_true(memory[1] == START_NS);
	assert_int_equal(saved, 3);
	assert_true(sl_contents_are_valid(&contents));
	contents.save = NULL; /* nobody wants to know */
	sl_contents_void(&contents, START_NS + 1);
	assert_true(memory[1] == START_NS + 1);
}

/* What a reservation gives back of a counter that is gone is nothing: of a bucket's bundle its cost, of all else the
 * instant that says where it counts. */
static void what_is_void_gives_nothing_back(void **state) {
	struct sl_reservation single = {.id = 1, .instant = 5, .end = 9, .cost = 3};
	struct sl_reservation bundle = {.id = 1, .instant = 9, .end = 9, .cost = 3, .debt = 2}, other = bundle;
	(void)state;
	sl_bundle_void(SLUICE_TOKEN_BUCKET, &single);
	assert_true(single.instant == 0 && single.cost == 3);
	sl_bundle_void(SLUICE_TOKEN_BUCKET, &bundle);
	assert_true(bundle.instant == 9 && bundle.cost == 0);
	sl_bundle_void(SLUICE_FIXED_WINDOW, &other);
	assert_true(other.instant == 0 && other.cost == 3);
}

/* ---- bounds of the policy ---------------------------------------------------------------------------------------- */

/* Nothing is decided by those that have one: they are denied for good, whatever there is room for; the others have all
 * of theirs, since nothing is charged. Without any, nothing is said at all. */
static void a_bound_denies_for_good(void **state) {
	struct sluice_limit limits[3];
	struct sluice_item items[3];
	struct sluice_decision each[3];
	struct sluice_call call = {.items = items, .item_count = 3, .cost = 1, .now = START_NS, .each = each};
	static const char *const names[] = {"none", "limits", "room", "reservations", "holds", "queue", "key"};
	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sluice_limit_parse(&limits[i], sl_str(i == 1 ? "unlimited" : "9/1m"), NULL), SLUICE_OK);
		items[i] = (struct sluice_item){.limit = &limits[i], .key = sl_str("k")};
	}
	memset(each, 0x5a, sizeof each);
	assert_false(sl_decide_blocked(&call));
	assert_int_equal(each[0].index, 0x5a5a5a5a);
	for (int bound = SLUICE_BOUND_NONE + 1; bound < SLUICE_BOUNDS; bound++) {
		items[2].bound = (uint8_t)bound;
		assert_true(sl_decide_blocked(&call));
		for (int i = 0; i < 3; i++) {
			assert_int_equal(each[i].index, i);
			assert_int_equal(each[i].allowed, i != 2);
			assert_int_equal(each[i].bound, i == 2 ? bound : SLUICE_BOUND_NONE);
		}
		assert_true(each[2].retry_after_ns == SLUICE_NEVER && each[2].remaining == 0);
		assert_true(each[0].remaining == 9 && each[1].remaining == UINT32_MAX);
		assert_string_equal(sluice_bound_name((sluice_bound)bound), names[bound]);
	}
	assert_string_equal(sluice_bound_name((sluice_bound)SLUICE_BOUNDS), names[0]);
	for (int way = 0; way < 3; way++) { /* what costs nothing at all is allowed even so */
		call.cost = way == 1;
		items[0].cost = way == 2;
		assert_true(sl_decide_blocked(&call));
		assert_int_equal(each[2].allowed, way == 0);
		assert_true(each[2].retry_after_ns == (way == 0 ? 0 : SLUICE_NEVER) && each[2].remaining == 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_wrong_field_of_a_block_is_seen),
		cmocka_unit_test(a_register_counts_at_all_ranks_below),
		cmocka_unit_test(no_block_is_shorter_than_it_says),
		cmocka_unit_test(nothing_is_right_under_a_limit_that_is_none),
		cmocka_unit_test(a_block_says_how_many_registers_it_has),
		cmocka_unit_test(contents_that_are_none_are_left_alone),
		cmocka_unit_test(what_is_void_gives_nothing_back),
		cmocka_unit_test(a_bound_denies_for_good),
	};
	return cmocka_run_group_tests_name("blocks of others", tests, NULL, NULL);
}
