/* What commands answer: which elements, how many, and in which order, as the table in proto/answer.h has it; and what
 * is read again of it, at the edges. */
#include "proto/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* What was written: "[7 1 100 .." for arrays, numbers, 'texts', nil, and !errors. */
static char written[512];

static void write_array(void *to, uint32_t count) {
	snprintf((char *)to + strlen(to), 32, "[%u ", count);
}

static void write_integer(void *to, int64_t value) {
	snprintf((char *)to + strlen(to), 32, "%lld ", (long long)value);
}

static void write_text(void *to, struct sluice_bytes text) {
	if (text.data == NULL)
		snprintf((char *)to + strlen(to), 32, "nil ");
	else
		snprintf((char *)to + strlen(to), 32, "'%.*s' ", (int)text.len, (const char *)text.data);
}

static void write_error(void *to, const char *text) {
	snprintf((char *)to + strlen(to), 32, "!%.8s", text);
}

static const struct sl_answer_sink sink = {write_array, write_integer, write_text, write_error};

static void *put_one(void *to, int64_t value) {
	write_integer(to, value);
	return to;
}

/* The waits are rounded up by 999,999, by 1 and by nothing. */
static struct sluice_decision each[2] = {
	{.allowed = true, .quota = 9, .remaining = 4, .reset_after_ns = 3 * MS + 1, .next_after_ns = 2 * MS},
	{.allowed = false,
     .bound = SLUICE_BOUND_ROOM,
     .quota = UINT64_C(4294967296),
     .remaining = 5,
     .retry_after_ns = 7 * MS - 1,
     .reset_after_ns = 8 * MS,
     .next_after_ns = MS},
};

static const struct {
	enum sl_operation operation;
	uint32_t given;
	bool upto, named, ticketed, failed_open, denied;
	uint32_t found;
	const char *id;   /* NULL: of nothing */
	const char *says; /* all of it; of the seven just the first */
} rows[] = {
	{SL_OP_CHECK, 0, 0, 0, 0, 0, 0, 0, NULL, "seven+0 "},
	{SL_OP_CHECK, SL_SAYS(NEXT), 0, 0, 0, 0, 0, 0, NULL, "seven+1 2 "},
	{SL_OP_CHECK, SL_SAYS(UPTO), 1, 0, 0, 0, 0, 0, NULL, "seven+1 6 "},
	{SL_OP_REFUND, 0, 0, 0, 0, 0, 1, 0, NULL, "seven+0 "},
	{SL_OP_ACQUIRE, 0, 0, 0, 0, 0, 0, 0, "id", "seven+1 'id' "},
	{SL_OP_ACQUIRE, SL_SAYS(NEXT), 0, 0, 0, 0, 1, 0, NULL, "seven+2 nil 1 "},
	{SL_OP_RESERVE, 0, 0, 0, 0, 0, 0, 0, "id", "seven+1 'id' "},
	{SL_OP_COMMIT, SL_SAYS(NEXT), 0, 0, 0, 0, 0, 1, NULL, "seven+1 2 "},
	{SL_OP_COMMIT, 0, 0, 0, 0, 0, 0, 0, NULL, "!NOTFOUND"},
	{SL_OP_COMMIT, SL_SAYS(EACH), 0, 0, 0, 0, 0, 0, NULL, "!NOTFOUND"},
	{SL_OP_ADMIT, 0, 0, 1, 0, 0, 0, 0, NULL, "seven+1 'name' "},
	{SL_OP_ADMIT, SL_SAYS(UPTO) | SL_SAYS(NEXT) | SL_SAYS(OPEN), 1, 1, 1, 1, 0, 0, "id",
     "seven+5 'name' 6 'id' 2 1 "},
	{SL_OP_ADMIT, SL_SAYS(OPEN), 0, 1, 1, 0, 0, 0, NULL, "seven+3 'name' nil 0 "},
	{SL_OP_ADMIT, SL_SAYS(EACH) | SL_SAYS(OPEN), 0, 1, 1, 0, 0, 0, NULL,
     "seven+4 'name' nil [2 [11 'a' 'sliding-window 9/1s' 1 9 4 0 4 0 2 5 0 "
     "[11 'b' 'sliding-window 9/1s' 4 4294967296 5 7 8 0 1 7 1 0 "},
	{SL_OP_RESET, 0, 0, 0, 0, 0, 0, 0, NULL, "3 "},
	{SL_OP_CANCEL, 0, 0, 0, 0, 0, 0, 0, NULL, "3 "},
	{SL_OP_RELEASE, 0, 0, 0, 0, 0, 0, 2, NULL, "2 "},
	{SL_OP_RENEW, 0, 0, 0, 0, 0, 0, 1, NULL, "1 "},
	{SL_OP_LEASE, 0, 0, 0, 0, 0, 0, 0, NULL, "[8 6 1 9 4 0 4 0 2 "},
	{SL_OP_HOLD, 0, 0, 0, 0, 0, 0, 0, NULL, "seven+0 "},
	{SL_OP_HOLD, SL_SAYS(UPTO), 1, 0, 0, 0, 1, 5, NULL, "[9 4 4294967296 5 7 8 0 1 6 5 "},
	{SL_OP_CHECK, SL_SAYS(EACH), 0, 0, 0, 0, 0, 0, NULL, "[2 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 "},
	{SL_OP_PEEK, SL_SAYS(EXACT), 0, 0, 0, 0, 0, 0, NULL, "[2 [8 1 9 4 0 4 0 2 0 [8 4 4294967296 5 7 8 0 1 1 "},
	{SL_OP_CHECK, SL_SAYS(EACH) | SL_SAYS(ID), 0, 0, 0, 0, 0, 0, NULL,
     "[3 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 [3 6 1 0 "},
	{SL_OP_CHECK, SL_SAYS(EACH) | SL_SAYS(UPTO), 1, 0, 0, 0, 0, 0, NULL,
     "[3 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 [3 6 1 0 "},
	{SL_OP_ACQUIRE, SL_SAYS(EACH), 0, 0, 0, 0, 0, 0, "id",
     "[3 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 [3 6 1 0 "},
	{SL_OP_RESERVE, SL_SAYS(EACH), 0, 0, 0, 0, 0, 0, "id",
     "[3 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 [3 6 1 0 "},
	{SL_OP_COMMIT, SL_SAYS(EACH), 0, 0, 0, 0, 0, 2, NULL,
     "[3 [7 1 9 4 0 4 0 2 [7 4 4294967296 5 7 8 0 1 [3 6 1 2 "},
};

static void test_answers(void **state) {
	static const char *const names[] = {"a", "b"};
	static const uint32_t positions[] = {5, 7};
	struct sluice_limit limit;
	struct sluice_error error;
	(void)state;
	assert_int_equal(sluice_limit_parse(&limit, sl_str("9/1s"), &error), SLUICE_OK);
	const struct sluice_item items[] = {{.limit = &limit}, {.limit = &limit, .observed = true}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_call call = {
			.items = items, .item_count = 2, .each = each, .upto = rows[i].upto, .granted = 6};
		struct sl_outcome o = {.operation = rows[i].operation, .given = rows[i].given, .call = &call};
		call.merged = each[rows[i].denied];
		call.merged.index = rows[i].denied;
		call.found = rows[i].found;
		call.forgotten = 3;
		call.repeated = true;
		o.named = rows[i].named;
		o.told = 2;
		o.names = names;
		o.positions = positions;
		o.ticketed = rows[i].ticketed;
		o.failed_open = rows[i].failed_open;
		o.name = sl_str("name");
		o.id = rows[i].id == NULL ? sl_slice(NULL, 0) : sl_str(rows[i].id);
		written[0] = '\0';
		if (sl_answer_is_decision(&o)) {
			snprintf(written, sizeof written, "seven+%d ", sl_answer_more(&o));
			sl_answer_put_more(&sink, written, &o);
		} else {
			sl_answer_put_other(&sink, written, &o);
		}
		if (strcmp(written, rows[i].says) != 0)
			fail_msg("row %zu: %s", i, written);
	}
}

static void test_figures(void **state) {
	static const struct sluice_decision never = {.quota = 1, .retry_after_ns = SLUICE_NEVER, .delay_ns = 1};
	(void)state;
	written[0] = '\0';
	(void)sl_answer_seven(put_one, written, &never, never.allowed, -1);
	assert_string_equal(written, "0 1 0 -1 0 1 -1 ");
	written[0] = '\0';
	(void)sl_answer_cell(put_one, written, &never);
	assert_string_equal(written, "1 1 0 -1 0 ");
	written[0] = '\0';
	(void)sl_answer_cell(put_one, written, &each[0]);
	(void)sl_answer_cell(put_one, written, &each[1]);
	assert_string_equal(written, "0 9 4 -1 1 1 4294967296 5 1 1 ");
	assert_true(sl_answer_is_plain(SL_OP_REFUND, SL_SAYS(KEY) | SL_SAYS(AT) | SL_SAYS(MEMBER)));
	assert_false(sl_answer_is_plain(SL_OP_CHECK, SL_SAYS(NEXT)) || sl_answer_is_plain(SL_OP_ACQUIRE, 0));
}

/* ---- read again -------------------------------------------------------------------------------------------------- */

static const struct {
	int64_t n[SL_FIGURES_EXACT];
	bool seven, eight; /* possible as so many */
} read[] = {
	{{1, 9, 4, 0, 4, 0, 2, 0}, true, true},
	{{0, 0, 0, -1, -1, -1, -1, 0}, true, true},
	{{2 * SLUICE_BOUNDS - 1, UINT32_MAX + INT64_C(1), UINT32_MAX, 1, 0, 0, 0, 999999}, true, true},
	{{2 * SLUICE_BOUNDS, 9, 4, 0, 4, 0, 2, 0}, false, false},
	{{-1, 9, 4, 0, 4, 0, 2, 0}, false, false},
	{{0, -1, 4, 0, 4, 0, 2, 0}, false, false},
	{{0, UINT32_MAX + INT64_C(2), 4, 0, 4, 0, 2, 0}, false, false},
	{{0, 9, -1, 0, 4, 0, 2, 0}, false, false},
	{{0, 9, UINT32_MAX + INT64_C(1), 0, 4, 0, 2, 0}, false, false},
	{{0, 9, 4, -2, 4, 0, 2, 0}, false, false},
	{{0, 9, 4, 0, -2, 0, 2, 0}, false, false},
	{{0, 9, 4, 0, 4, -2, 2, 0}, false, false},
	{{0, 9, 4, 0, 4, 0, -2, 0}, false, false},
	{{0, 9, 4, 0, 4, 0, 2, 5}, true, false}, /* nothing to round */
	{{0, 9, 4, -1, 4, 0, 2, 5}, true, false},
	{{0, 9, 4, 1, 4, 0, 2, -1}, true, false},
	{{0, 9, 4, 1, 4, 0, 2, 1000000}, true, false},
};

static void test_what_may_be_read(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		if (sl_answer_is_each(read[i].n, SL_FIGURES) != read[i].seven ||
		    sl_answer_is_each(read[i].n, SL_FIGURES_EXACT) != read[i].eight)
			fail_msg("row %zu", i);
}

static void test_what_is_read(void **state) {
	static const int64_t n[] = {5, 9, 4, 7, -1, INT64_MAX, 1, 1};
	struct sluice_decision d = sl_answer_each(n, SL_FIGURES_EXACT);
	(void)state;
	assert_true(d.allowed && d.bound == SLUICE_BOUND_ROOM && d.quota == 9 && d.remaining == 4);
	assert_true(d.retry_after_ns == 7 * MS - 1 && d.reset_after_ns == SLUICE_NEVER);
	assert_true(d.delay_ns == SLUICE_NEVER - 1 && d.next_after_ns == MS);
	d = sl_answer_each(n, SL_FIGURES);
	assert_true(d.retry_after_ns == 7 * MS);
}

/* Each wait comes back as it was, if what it was rounded by is told. */
static void test_exact_waits_come_back(void **state) {
	static const sluice_ns waits[] = {0, 1, MS - 1, MS, MS + 1, 7 * MS - 1, SLUICE_NEVER};
	(void)state;
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		struct sluice_decision one = {.quota = 9, .retry_after_ns = waits[i]};
		struct sluice_call call = {.item_count = 1, .each = &one};
		struct sl_outcome o = {.operation = SL_OP_PEEK, .given = SL_SAYS(EXACT), .call = &call};
		int64_t n[SL_FIGURES_EXACT];
		char *at = written + strlen("[1 [8 ");
		written[0] = '\0';
		sl_answer_put_other(&sink, written, &o);
		for (int k = 0; k < SL_FIGURES_EXACT; k++)
			n[k] = strtoll(at, &at, 10);
		assert_true(sl_answer_is_each(n, SL_FIGURES_EXACT));
		assert_true(sl_answer_each(n, SL_FIGURES_EXACT).retry_after_ns == waits[i]);
	}
}

/* Is there anything under a call's id now? */
static void test_what_is_held(void **state) {
	struct sluice_call call = {.cost = 1, .merged = {.allowed = true}};
	(void)state;
	assert_true(sl_answer_holds(&call));
	call.merged.allowed = false;
	assert_false(sl_answer_holds(&call));
	call.merged.allowed = true;
	call.cost = 0;
	assert_false(sl_answer_holds(&call));
	call.repeated = true;
	assert_true(sl_answer_holds(&call));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),          cmocka_unit_test(test_figures),
		cmocka_unit_test(test_what_may_be_read), cmocka_unit_test(test_what_is_read),
		cmocka_unit_test(test_exact_waits_come_back), cmocka_unit_test(test_what_is_held),
	};
	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
