/* The requests that a key of the module remembers: however many there are, and whoever chose their IDs. */
#include "tests/unit/redis_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hosts/redis/companion.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/tokens.h"

enum { ROOM_MAX = 2 * SLR_TOKENS_MAX };

static const sluice_ns NOW = UINT64_C(1800000000) * 1000000000, HOUR = UINT64_C(3600) * 1000000000;

static void use_secret(uint64_t number) {
	const uint64_t secret[2] = {number, ~number};
	slr_tokens_keep_secret(secret);
}

/* Remembers a hash at an instant, for an hour. */
static void add(slr_value *value, uint64_t hash, sluice_ns now) {
	const struct slr_token token = {.hash = hash, .at = now, .end = now + HOUR};
	slr_token_add(value, &token, SLR_UNTIL_UNKNOWN);
}

static const struct slr_counter *tokens_of(slr_value value) {
	static struct slr_counter scratch;
	const struct slr_counter *tokens =
		slr_value_find(value, slr_companion_of(SLR_COMPANION_TOKENS, (struct sl_identity){0, 0}), &scratch);
	assert_non_null(tokens);
	return tokens;
}

static uint32_t used_of(slr_value value) {
	return slr_companion_used(&tokens_of(value)->state);
}

static const struct slr_token *table_of(slr_value value) {
	return (const void *)slr_counter_bytes(tokens_of(value));
}

static uint32_t room_of(slr_value value) {
	return (uint32_t)(slr_companion_room(&tokens_of(value)->state) / sizeof(struct slr_token));
}

/* Any hash, one for each number. */
static uint64_t spread(uint64_t number) {
	number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (number ^ number >> 29) | 1;
}

/* Hashes of the first 2,048 places of a table; of every second one of it, and then of others. */
static uint64_t clustered(uint64_t number) {
	return (number + 1) << 32 | number % (ROOM_MAX / 64);
}
static uint64_t even(uint64_t number) {
	return number < ROOM_MAX / 2 ? UINT64_C(1) << 32 | number * 2 : number << 32 | (number * 2 + 1) % ROOM_MAX;
}
static uint64_t (*const chosen[])(uint64_t) = {spread, clustered, even};

/* The places that the longest run of a table has: no look-up walks over more. */
static uint32_t longest_run(const struct slr_token *table, uint32_t room) {
	uint32_t longest = 0, run = 0;
	for (uint32_t i = 0; i < room * 2; i++) {
		run = table[i & (room - 1)].hash != 0 ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

/* As the versions before placed a token, and checked what they read. */
static void assert_is_as_before(const struct slr_token *table, uint32_t room, uint32_t used) {
	uint32_t count = 0;
	assert_true(used <= room / 2);
	for (uint32_t i = 0; i < room; i++) {
		uint32_t at = (uint32_t)table[i].hash & (room - 1);
		count += table[i].hash != 0;
		while (table[i].hash != 0 && at != i && table[at].hash != 0 && table[at].hash != table[i].hash)
			at = (at + 1) & (room - 1);
		assert_true(table[i].hash == 0 || at == i);
	}
	assert_int_equal(count, used);
}

/* Where one more makes a table anew it is for a quarter of it: else, with one that ends for each that comes, every call
 * would cost what a thousand do. */
static void test_a_table_is_seldom_made_anew(void **state) {
	slr_value value = 0;
	uint32_t made = 0;
	const void *before = NULL;
	(void)state;
	for (uint64_t i = 0; i < 300000; i++) {
		add(&value, spread(i), NOW + i * (HOUR / (SLR_TOKENS_MAX - 1)));
		made += table_of(value) != before;
		before = table_of(value);
		assert_in_range(used_of(value), 1, SLR_TOKENS_MAX);
	}
	assert_in_range(made, 15, 14 + 300000 / (SLR_TOKENS_MAX / 4));
	assert_true(slr_value_is_valid(value));
	slr_value_free(value);
}

/* Those that end first are forgotten, as many as half; of the rest each is found. */
static void test_the_half_that_ends_first_goes(void **state) {
	slr_value value = 0;
	(void)state;
	for (uint64_t i = 0; i <= SLR_TOKENS_MAX; i++)
		add(&value, spread(i), NOW + (i ^ 0x5555)); /* in no order */
	assert_int_equal(used_of(value), SLR_TOKENS_MAX / 2 + 1);
	for (uint64_t i = 0; i < SLR_TOKENS_MAX; i++)
		assert_int_equal(slr_token_find(value, spread(i), NOW) != NULL, (i ^ 0x5555) >= SLR_TOKENS_MAX / 2);
	assert_null(slr_token_find(value, spread(SLR_TOKENS_MAX - 1), NOW + 2 * HOUR)); /* it has ended */
	slr_value_free(value);
	value = 0;
	for (uint64_t i = 0; i <= SLR_TOKENS_MAX; i++)
		add(&value, i + 1, NOW); /* all at once: by their hash, then */
	assert_int_equal(used_of(value), SLR_TOKENS_MAX / 2 + 1);
	assert_null(slr_token_find(value, SLR_TOKENS_MAX / 2, NOW));
	assert_non_null(slr_token_find(value, SLR_TOKENS_MAX / 2 + 1, NOW));
	slr_value_free(value);
}

/* Of up to three quarters none goes before it has ended. */
static void test_what_is_not_full_forgets_nothing(void **state) {
	slr_value value = 0;
	(void)state;
	for (uint64_t i = 0; i < SLR_TOKENS_MAX / 4; i++)
		add(&value, spread(i), NOW - HOUR);
	for (uint64_t i = 0; i <= SLR_TOKENS_KEPT; i++)
		add(&value, spread(1000000 + i), NOW);
	for (uint64_t i = 0; i <= SLR_TOKENS_KEPT; i++)
		assert_non_null(slr_token_find(value, spread(1000000 + i), NOW));
	assert_int_equal(used_of(value), SLR_TOKENS_KEPT + 1);
	slr_value_free(value);
}

/* Whatever hashes somebody has chosen, tokens stand apart, are never too many, and their value is read again. */
static void test_chosen_ids_make_no_walk_longer(void **state) {
	(void)state;
	use_secret(42);
	for (size_t choice = 0; choice < sizeof chosen / sizeof *chosen; choice++) {
		slr_value value = 0, read;
		struct slr_bytes bytes;
		for (uint64_t i = 0; i < SLR_TOKENS_MAX + 40; i++) {
			add(&value, chosen[choice](i), NOW + i);
			if (i % 4096 == 4000)
				assert_true(longest_run(table_of(value), room_of(value)) < 200);
		}
		assert_true(slr_value_is_valid(value) && used_of(value) <= SLR_TOKENS_MAX);
		bytes = redis_bytes(value);
		read = slr_read_value(sl_slice(bytes.data, bytes.len));
		assert_true(read != 0 && used_of(read) == used_of(value));
		slr_bytes_free(&bytes);
		slr_value_free(read);
		slr_value_free(value);
	}
	use_secret(0);
}

/* And before the end of a table, where they go on at its beginning. */
static uint64_t hash_of(size_t choice, uint64_t number) {
	return chosen[choice % 3](number) - (choice % 2 != 0 ? 3 : 0);
}

/* Bytes say nothing of the secret: written by one process, read and written by another they are the same, and each of
 * the two forgets what the other does. */
static void test_bytes_are_those_of_any_process(void **state) {
	static const uint32_t counts[] = {1, 7, 100, 5000, SLR_TOKENS_MAX, SLR_TOKENS_MAX + 1, SLR_TOKENS_MAX + 70000};
	(void)state;
	for (size_t i = 0; i < 3 * sizeof counts / sizeof *counts; i++) {
		struct slr_bytes bytes[3];
		slr_value value[3] = {0};
		void *saved;
		for (uint64_t process = 0; process < 2; process++) {
			use_secret(process);
			for (uint64_t k = 0; k < counts[i / 3]; k++)
				add(&value[process], hash_of(i, k), NOW + k);
			bytes[process] = redis_bytes(value[process]);
			assert_int_equal(bytes[process].len, bytes[0].len);
			assert_memory_equal(bytes[process].data, bytes[0].data, bytes[0].len);
		}
		saved = slr_tokens_saved(table_of(value[1]), room_of(value[1]) * sizeof(struct slr_token));
		assert_is_as_before(saved, room_of(value[1]), used_of(value[1]));
		slr_give(saved);
		value[2] = slr_read_value(sl_slice(bytes[0].data, bytes[0].len));
		assert_true(slr_value_is_valid(value[2]));
		for (uint64_t k = 0; k < counts[i / 3]; k++)
			assert_int_equal(slr_token_find(value[2], hash_of(i, k), NOW) != NULL,
			                 slr_token_find(value[1], hash_of(i, k), NOW) != NULL);
		bytes[2] = redis_bytes(value[2]);
		assert_memory_equal(bytes[2].data, bytes[0].data, bytes[0].len);
		for (int k = 0; k < 3; k++) {
			slr_value_free(value[k]);
			slr_bytes_free(&bytes[k]);
		}
	}
	use_secret(0);
}

/* A saved table of so many, as it may be, or more than half full as earlier builds left some. */
static bool is_read(uint32_t room, uint32_t used, bool twice, uint32_t *left) {
	struct slr_token *table = slr_block_take(room * sizeof *table);
	struct sl_counter counter = {.block = table, .block_bytes = room * sizeof *table};
	bool read;
	memset(table, 0, room * sizeof *table);
	for (uint32_t i = 0; i < used; i++)
		table[i] = (struct slr_token){.hash = i + 1, .at = NOW, .end = i}; /* one may have ended long ago */
	if (twice)
		table[used - 1].hash = 1;
	slr_companion_set_used(&counter.state, used);
	read = slr_tokens_load(&counter);
	assert_true(read || counter.block == table);
	if (read) {
		sl_state_set_host(&counter.state, (uint32_t)(counter.block_bytes / 8));
		assert_true(slr_tokens_are_valid(&counter.state, counter.block));
		*left = slr_companion_used(&counter.state);
	}
	slr_block_give(counter.block);
	return read;
}

static void test_tables_of_earlier_builds_are_read(void **state) {
	static const struct {
		uint32_t room, used, left;
	} rows[] = {{8, 1, 1},
	            {8, 4, 4},
	            {8, 5, 5},
	            {8, 8, 8},
	            {8, 0, 0},
	            {4, 1, 0},
	            {ROOM_MAX, SLR_TOKENS_MAX, SLR_TOKENS_MAX},
	            {ROOM_MAX, SLR_TOKENS_MAX + 40, SLR_TOKENS_MAX / 2 + 20},
	            {ROOM_MAX, ROOM_MAX, SLR_TOKENS_MAX},
	            {2 * ROOM_MAX, 1, 0}};
	uint32_t left;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		left = 0;
		assert_int_equal(is_read(rows[i].room, rows[i].used, false, &left), rows[i].left != 0);
		assert_int_equal(left, rows[i].left);
	}
	assert_false(is_read(8, 4, true, &left));
	assert_false(is_read(8, 6, true, &left));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_table_is_seldom_made_anew),
		cmocka_unit_test(test_the_half_that_ends_first_goes),
		cmocka_unit_test(test_what_is_not_full_forgets_nothing),
		cmocka_unit_test(test_chosen_ids_make_no_walk_longer),
		cmocka_unit_test(test_bytes_are_those_of_any_process),
		cmocka_unit_test(test_tables_of_earlier_builds_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
