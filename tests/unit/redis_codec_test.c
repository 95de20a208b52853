/* Values and notes as bytes: what was written is read, and whatever else comes is refused, or is a value on which
 * decisions end and stay within their memory (which the address sanitizer sees). SLUICE_SEED repeats the random part.
 */
#include "tests/unit/redis_world.h"

#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hosts/redis/companion.h"
#include "hosts/redis/memory.h"

enum { CALLS = 40, MUTATIONS = 60 };

static uint64_t stream_now; /* for the message of a failure */

#define CHECK(condition)                                                                                     \
	do {                                                                                                     \
		if (!(condition))                                                                                    \
			fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 ": %s", dice_seed(), stream_now, #condition); \
	} while (0)

static struct sluice_bytes slice_of(const struct slr_bytes *bytes) {
	return sl_slice(bytes->data, bytes->len);
}

/* A world in which something of everything has happened. */
static void stir(struct redis_world *world, uint64_t stream) {
	redis_world_begin(world, stream);
	for (int i = 0; i < CALLS; i++) {
		redis_world_draw(world);
		world->call.operation = (enum sl_operation)dice_below(&world->dice, SL_OP_LEASE + 1);
		world->call.id = dice_below(&world->dice, 3);
		world->call.asked.ttl_ns = UINT64_C(60000) * SL_MS_NS;
		world->call.spent = 1;
		world->call.want = 5;
		if (world->call.operation == SL_OP_LEASE) {
			world->call.asked.item_count = world->call.key_count = 1;
			world->call.items[0].observed = world->call.key_of[0] = 0;
		}
		CHECK(redis_world_decide(world) == SLR_FINE);
		if (dice_one_in(&world->dice, 8))
			(void)redis_world_override(world, true);
	}
}

static slr_value first_value(const struct redis_world *world) {
	for (size_t k = 0; k < WORLD_KEYS; k++)
		if (world->values[k] != 0)
			return world->values[k];
	return 0;
}

/* Every limit of the world on a value that came from anywhere. */
static void use(struct redis_world *world, slr_value *value) {
	CHECK(slr_value_is_valid(*value));
	for (size_t i = 0; i < WORLD_RULES; i++) {
		enum sl_operation operation = (enum sl_operation)dice_below(&world->dice, SL_OP_LEASE + 1);
		struct slr_call call = redis_call(operation, *value, &world->limits[i], world->now_ms * SL_MS_NS, 1);
		call.asked.ttl_ns = 1;
		call.want = 1;
		call.heard = true;
		CHECK(slr_decide(&call) == SLR_FINE);
		*value = call.keys[0].value;
		slr_bytes_free(&call.keys[0].effects.bytes);
		CHECK(slr_value_count(*value) <= SLR_COUNTERS_MAX);
	}
}

static void mutate(struct dice *dice, struct slr_bytes *bytes) {
	uint64_t times = 1 + dice_below(dice, 3);
	for (uint64_t i = 0; i < times; i++) {
		size_t at = dice_below(dice, bytes->len);
		bytes->data[at] = dice_one_in(dice, 3) ? (unsigned char)(bytes->data[at] ^ 1 << dice_below(dice, 8))
		                                       : (unsigned char)dice_bits(dice);
	}
}

static void test_a_value_is_read_as_it_was_written(void **state) {
	uint64_t streams = dice_ops(DICE_MILLION) / 10000 + 1;
	(void)state;
	for (stream_now = 0; stream_now < streams; stream_now++) {
		static struct redis_world world;
		stir(&world, stream_now);
		for (size_t k = 0; k < WORLD_KEYS; k++) {
			struct slr_bytes bytes = redis_bytes(world.values[k]), again;
			slr_value read = slr_read_value(slice_of(&bytes));
			CHECK((read == 0) == (world.values[k] == 0));
			again = redis_bytes(read);
			CHECK(bytes.len == again.len && (read == 0 || memcmp(bytes.data, again.data, bytes.len) == 0));
			slr_value_free(read);
			slr_bytes_free(&bytes);
			slr_bytes_free(&again);
		}
		redis_world_end(&world);
	}
}

static void test_no_part_of_a_value_is_one(void **state) {
	static struct redis_world world;
	struct slr_bytes bytes;
	(void)state;
	for (stream_now = 0; stream_now < 20; stream_now++) {
		stir(&world, stream_now);
		bytes = redis_bytes(first_value(&world));
		for (size_t len = 0; len < bytes.len; len++)
			CHECK(slr_read_value(sl_slice(bytes.data, len)) == 0);
		slr_bytes_add(&bytes, "", 1);
		CHECK(slr_read_value(slice_of(&bytes)) == 0);
		slr_bytes_free(&bytes);
		redis_world_end(&world);
	}
}

static void test_damaged_values_are_refused_or_harmless(void **state) {
	uint64_t streams = dice_ops(DICE_MILLION) / 10000 + 1;
	(void)state;
	for (stream_now = 0; stream_now < streams; stream_now++) {
		static struct redis_world world;
		stir(&world, stream_now);
		for (int i = 0; i < MUTATIONS; i++) {
			struct slr_bytes bytes = redis_bytes(world.values[dice_below(&world.dice, WORLD_KEYS)]);
			slr_value value;
			mutate(&world.dice, &bytes);
			value = slr_read_value(slice_of(&bytes));
			if (value != 0)
				use(&world, &value);
			slr_value_free(value);
			slr_bytes_free(&bytes);
		}
		redis_world_end(&world);
	}
}

static void test_damaged_notes_are_refused_or_harmless(void **state) {
	uint64_t streams = dice_ops(DICE_MILLION) / 10000 + 1;
	(void)state;
	for (stream_now = 0; stream_now < streams; stream_now++) {
		static struct redis_world world;
		stir(&world, stream_now);
		for (int i = 0; i < MUTATIONS; i++) {
			slr_value *value = &world.replicas[dice_below(&world.dice, WORLD_KEYS)];
			struct slr_effects effects = {.bytes.data = NULL};
			struct slr_counter scratch;
			struct slr_bytes before = redis_bytes(*value), after;
			bool applied;
			if (*value != 0)
				slr_effect_whole(&effects, slr_value_at(*value, slr_value_count(*value) - 1, &scratch));
			slr_effect_charge(&effects, sl_identity_of(&world.limits[dice_below(&world.dice, WORLD_RULES)]),
			                  world.now_ms * SL_MS_NS, 1 + (uint32_t)dice_below(&world.dice, 9));
			mutate(&world.dice, &effects.bytes);
			applied = slr_effects_apply(value, slice_of(&effects.bytes));
			after = redis_bytes(*value);
			CHECK(applied || (before.len == after.len && memcmp(before.data, after.data, after.len) == 0));
			use(&world, value);
			slr_bytes_free(&before);
			slr_bytes_free(&after);
			slr_bytes_free(&effects.bytes);
		}
		redis_world_end(&world);
	}
}

static void test_holds_that_could_not_have_been_are_refused(void **state) {
	static const struct slr_hold wrong[][2] = {
		{{1, 10, 0, 0}, {2, 11, 1, 0}}, /* holds nothing */
		{{1, 10, 1, 2}, {2, 11, 1, 0}}, /* neither hold nor lease */
		{{1, 10, 1, 0}, {1, 11, 1, 0}}, /* twice */
		{{1, 10, 1, 0}, {2, 9, 1, 0}},  /* in no order */
	};
	struct sluice_limit limit = redis_limit("10/1m");
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct slr_holds *holds = malloc(sizeof *holds + sizeof wrong[i]);
		assert_non_null(holds);
		*holds = (struct slr_holds){2, 2};
		struct slr_counter counter = {.identity = sl_identity_of(&limit), .more = holds};
		struct slr_bytes bytes = {.data = NULL};
		slr_value value = 0;
		memcpy((char *)holds + sizeof *holds, wrong[i], sizeof wrong[i]);
		struct slr_effects effects = {.bytes.data = NULL};
		slr_effect_holds(&effects, &counter);
		assert_false(slr_effects_apply(&value, slice_of(&effects.bytes)));
		slr_write_counter(&bytes, &counter, SLR_UNTIL_UNKNOWN);
		struct slr_reader reader = {.at = bytes.data, .end = bytes.data + bytes.len};
		assert_false(slr_read_counter(&reader, SLR_CODEC_VERSION_RATELESS, &value));
		assert_int_equal(value, 0);
		slr_bytes_free(&bytes);
		slr_bytes_free(&effects.bytes);
		free(holds);
	}
}

/* A charge under count-denied, of nothing or of what is not counted so. */
static void test_counts_that_could_not_have_been_are_refused(void **state) {
	static const struct {
		const char *limit;
		uint32_t cost, quota;
		bool taken;
	} rows[] = {{"sliding-log 5/1m", 1, 5, true},
	            {"sliding-log 5/1m", 0, 5, false},
	            {"sliding-log 5/1m", 1, 0, false},
	            {"fixed-window 5/1m", 1, 5, false},
	            {"concurrency 5 lease 1m", 1, 5, false}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit = redis_limit(rows[i].limit);
		struct slr_effects effects = {.bytes.data = NULL};
		slr_value value = 0;
		slr_effect_count(&effects, sl_identity_of(&limit), SL_MS_NS, rows[i].cost, rows[i].quota);
		assert_int_equal(slr_effects_apply(&value, slice_of(&effects.bytes)), rows[i].taken);
		assert_int_equal(value != 0, rows[i].taken);
		slr_bytes_free(&effects.bytes);
		slr_value_free(value);
	}
}

/* A refund, of nothing or of what is no log. Of a log that is not there it does nothing. */
static void test_refunds_that_could_not_have_been_are_refused(void **state) {
	static const struct {
		const char *limit;
		uint32_t cost;
		bool taken;
	} rows[] = {{"sliding-log 5/1m", 1, true},
	            {"sliding-log 5/1m", 0, false},
	            {"fixed-window 5/1m", 1, false},
	            {"sliding-buckets 5/1m precision 1s", 1, false},
	            {"concurrency 5 lease 1m", 1, false}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit = redis_limit(rows[i].limit);
		struct slr_effects effects = {.bytes.data = NULL};
		slr_value value = 0;
		slr_effect_refund(&effects, sl_identity_of(&limit), SL_MS_NS, rows[i].cost);
		assert_int_equal(slr_effects_apply(&value, slice_of(&effects.bytes)), rows[i].taken);
		assert_int_equal(value, 0);
		slr_bytes_free(&effects.bytes);
		slr_effect_refund(&effects, sl_identity_of(&limit), SLR_INSTANT_MAX + 1, 1);
		assert_false(slr_effects_apply(&value, slice_of(&effects.bytes)));
		slr_bytes_free(&effects.bytes);
	}
}

/* As a module of another version might write them. */
static void test_what_is_not_known_is_refused(void **state) {
	struct sluice_limit limit = redis_limit("10/1m");
	struct slr_counter counter = {.identity = slr_companion_of((enum slr_companion)15, sl_identity_of(&limit))};
	struct slr_bytes bytes = {.data = NULL};
	slr_value value = 0;
	void *block = slr_block_take(16);
	(void)state;
	memset(block, 0, 16);
	slr_counter_set_block(&counter, block, 16);
	slr_write_counter(&bytes, &counter, SLR_UNTIL_UNKNOWN);
	struct slr_reader reader = {.at = bytes.data, .end = bytes.data + bytes.len};
	assert_false(slr_read_counter(&reader, SLR_CODEC_VERSION_RATELESS, &value));
	assert_int_equal(value, 0);
	assert_false(slr_effects_apply(&value, sl_str("")));
	struct slr_effects effects = {.bytes.data = NULL}; /* no companion has a ledger */
	slr_effect_return(&effects, counter.identity, SL_MS_NS);
	assert_false(slr_effects_apply(&value, slice_of(&effects.bytes)));
	slr_bytes_free(&effects.bytes);
	slr_block_give(block);
	slr_bytes_free(&bytes);
}

/* Another place in memory, as the server's defragmentation gives. */
static void *to_elsewhere(void *context, void *memory) {
	size_t bytes = malloc_usable_size(memory);
	void *to = malloc(bytes);
	assert_non_null(to);
	memcpy(to, memory, bytes);
	free(memory);
	++*(uint64_t *)context;
	return to;
}

static void *nowhere(void *context, void *memory) {
	(void)context;
	(void)memory;
	return NULL; /* it stays */
}

static void test_a_value_that_is_moved_is_the_same(void **state) {
	static struct redis_world world;
	uint64_t moved = 0;
	(void)state;
	for (stream_now = 0; stream_now < 200; stream_now++) {
		stir(&world, stream_now);
		for (size_t k = 0; k < WORLD_KEYS; k++) {
			struct slr_bytes before = redis_bytes(world.values[k]), after;
			slr_value_move(&world.values[k], stream_now % 4 == 0 ? nowhere : to_elsewhere, &moved);
			after = redis_bytes(world.values[k]);
			CHECK(before.len == after.len && (after.len == 0 || memcmp(before.data, after.data, after.len) == 0));
			slr_bytes_free(&before);
			slr_bytes_free(&after);
			use(&world, &world.values[k]);
		}
		redis_world_end(&world);
	}
	assert_true(moved > 400);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_value_is_read_as_it_was_written),
		cmocka_unit_test(test_no_part_of_a_value_is_one),
		cmocka_unit_test(test_damaged_values_are_refused_or_harmless),
		cmocka_unit_test(test_damaged_notes_are_refused_or_harmless),
		cmocka_unit_test(test_holds_that_could_not_have_been_are_refused),
		cmocka_unit_test(test_counts_that_could_not_have_been_are_refused),
		cmocka_unit_test(test_refunds_that_could_not_have_been_are_refused),
		cmocka_unit_test(test_what_is_not_known_is_refused),
		cmocka_unit_test(test_a_value_that_is_moved_is_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
