/* What a node tells a front of a counter, as integers alone: read as it was written, and nothing else is read; a node
 * may answer anything. */
#include "proto/inspection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct written {
	uint32_t announced, count;
	int64_t list[2 * SL_INSPECTION_FIGURES_MAX];
};

static void put_array(void *to, uint32_t count) {
	((struct written *)to)->announced = count;
}

static void put_integer(void *to, int64_t value) {
	struct written *written = to;
	written->list[written->count++] = value;
}

static void put_text(void *to, struct sluice_bytes text) {
	(void)to;
	fail_msg("a text: %.*s", (int)text.len, (const char *)text.data);
}

static void put_error(void *to, const char *text) {
	(void)to;
	fail_msg("%s", text);
}

static const struct sl_answer_sink sink = {put_array, put_integer, put_text, put_error};
#define MS UINT64_C(1000000)

static struct sluice_inspection longest(struct sl_held_there *held) {
	struct sluice_inspection told = {
		.decision = {.quota = 9,
	                 .remaining = 2,
	                 .retry_after_ns = SLUICE_NEVER,
	                 .reset_after_ns = 7 * MS,
	                 .next_after_ns = 3 * MS,
	                 .delay_ns = 1 * MS},
		.used = 7,
		.last_ns = 1800000000000 * MS,
		.return_count = SLUICE_RETURNS_MAX,
		.charge_count = SLUICE_CHARGES_MAX,
		.charges_in_all = 5000,
		.standing = {.level = 2, .denials = 1, .ends_after_ns = 60 * MS},
	};
	for (uint32_t i = 0; i < SLUICE_RETURNS_MAX; i++)
		told.returns[i] = (struct sluice_return){(i + 1) * MS, 3 + i};
	for (uint32_t i = 0; i < SLUICE_CHARGES_MAX; i++)
		told.charges[i] = (struct sluice_charged){(1700000000000 + i) * MS, (1900000000000 + i) * MS, i + 1};
	*held = (struct sl_held_there){.cost = 12, .slice_count = SL_HELD_SLICES_MAX};
	for (uint32_t i = 0; i < SL_HELD_SLICES_MAX; i++)
		held->slices[i].ends_ms = 1800000000000 + i, held->slices[i].cost = i;
	return told;
}

static struct written write_out(void) {
	struct sl_held_there held;
	struct sluice_inspection told = longest(&held);
	struct written written = {.count = 0};
	sl_inspection_put_figures(&sink, &written, &told, &held);
	return written;
}

static void test_as_it_was_written(void **state) {
	struct sl_held_there held, read_held = {.left_here = 4, .spent_here = 5};
	struct sluice_inspection told = longest(&held), read;
	struct written written = write_out();
	(void)state;
	assert_int_equal(written.count, written.announced);
	assert_int_equal(written.count, SL_INSPECTION_FIGURES_MAX);
	assert_true(sl_inspection_read_figures(written.list, written.count, &read, &read_held));
	assert_memory_equal(&read.decision, &told.decision, sizeof told.decision);
	assert_memory_equal(&read.returns, &told.returns, sizeof told.returns);
	assert_memory_equal(&read.charges, &told.charges, sizeof told.charges);
	assert_int_equal(read.used, told.used);
	assert_int_equal(read.last_ns, told.last_ns);
	assert_int_equal(read.charges_in_all, told.charges_in_all);
	assert_int_equal(read.standing.level, told.standing.level);
	assert_int_equal(read.standing.ends_after_ns, told.standing.ends_after_ns);
	assert_int_equal(read_held.cost, held.cost);
	assert_memory_equal(&read_held.slices, &held.slices, sizeof held.slices);
	assert_int_equal(read_held.left_here + read_held.spent_here, 9); /* nobody else's to say */
}

/* Every answer that is shorter, or longer, or has one number that can't be, is none. */
static void test_what_is_none(void **state) {
	const struct written written = write_out();
	struct sl_held_there held;
	struct sluice_inspection read;
	(void)state;
	for (uint32_t count = 0; count < written.count; count++)
		assert_false(sl_inspection_read_figures(written.list, count, &read, &held));
	assert_false(sl_inspection_read_figures(written.list, written.count + 1, &read, &held));
	for (uint32_t i = 0; i < written.count; i++) {
		struct written wrong = written;
		wrong.list[i] = -2;
		assert_false(sl_inspection_read_figures(wrong.list, wrong.count, &read, &held));
		wrong.list[i] = INT64_MAX; /* some may be: what is read stays within its arrays */
		bool whole = sl_inspection_read_figures(wrong.list, wrong.count, &read, &held);
		assert_true(!whole || i != SL_INSPECTION_NUMBERS); /* so many returns are none */
		assert_in_range(read.return_count, 0, SLUICE_RETURNS_MAX);
		assert_in_range(read.charge_count, 0, SLUICE_CHARGES_MAX);
		assert_in_range(held.slice_count, 0, SL_HELD_SLICES_MAX);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_was_written),
		cmocka_unit_test(test_what_is_none),
	};
	return cmocka_run_group_tests_name("inspection", tests, NULL, NULL);
}
