/* The grammar of commands as fronts speak it, read without a server: what stands in front of limits, holds and slices,
 * what is wrong with them, and where the keys are. What all doors share is in tests/e2e/test_grammar.py. */
#include "proto/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sluice_limit limits[SLUICE_ITEMS_MAX];
static struct sluice_item items[SLUICE_ITEMS_MAX];
static struct sluice_call call;
static struct sl_ticket ticket;
static char memory[SL_TICKET_BYTES_MAX];

static const char *refuses_at(const struct sl_command *command) {
	(void)command;
	return NULL;
}

static const struct sluice_limit *find(struct sl_command *command, struct sluice_bytes text,
                                       struct sluice_error *error) {
	struct sluice_limit *limit = &limits[command->call->item_count];
	return sluice_limit_parse(limit, text, error) == SLUICE_OK ? limit : NULL;
}

static const struct sl_command_door door = {.fronts = true, .refuses_at = refuses_at, .limit = find};
static struct sl_command command = {
	.door = &door, .call = &call, .items = items, .ticket = &ticket, .ticket_memory = memory};

/* Words with one space between; `_` in a word is a space. */
static uint32_t split(const char *words, struct sluice_bytes args[64]) {
	static char text[1024];
	uint32_t count = 0;
	char *at = text;
	snprintf(text, sizeof text, "%s", words);
	while (*at != '\0') {
		size_t len = strcspn(at, " ");
		args[count++] = sl_slice(at, len);
		for (char *p = at; p < at + len; p++)
			*p = *p == '_' ? ' ' : *p;
		at += len + (at[len] == ' ');
	}
	return count;
}

static bool ask(enum sl_operation operation, const char *words) {
	struct sluice_bytes args[64];
	uint32_t count = split(words, args);
	call = (struct sluice_call){.items = items};
	assert_true(count >= sl_command_arity(operation));
	return sl_command_read(&command, operation, args, count);
}

static void test_what_stands_in_front_of_a_limit(void **state) {
	(void)state;
	assert_true(ask(SL_OP_ACQUIRE, "ACQUIRE k 3 EXACT name n OBSERVED COST 5 concurrency_9_lease_1s KEY j TRIED TTL 70 "
	                               "TERMS count-denied 9/1m MEMBER m 8/1m"));
	assert_int_equal(call.item_count, 3);
	assert_int_equal(items[0].observed, SLUICE_OBSERVED);
	assert_int_equal(items[0].cost, 5);
	assert_int_equal(command.named, 1);
	assert_true(sl_bytes_equal(command.names[0], sl_str("n")));
	assert_int_equal(items[1].observed, SLUICE_TRIED);
	assert_int_equal(items[1].ttl_ns, 70000000);
	assert_true(items[1].terms->count_denied && items[0].terms == NULL);
	assert_true(sl_bytes_equal(items[0].key, sl_str("k")) && sl_bytes_equal(items[2].key, sl_str("j")));
	assert_true(items[2].observed == 0 && items[2].cost == 0 && items[2].ttl_ns == 0 && items[2].terms == NULL);
	assert_true(sl_bytes_equal(items[0].member, sl_str("m"))); /* the first is of those before it, too */
	assert_true((command.given & SL_SAYS(EXACT)) != 0 && call.want_next);
}

static void test_holds_and_slices(void **state) {
	(void)state;
	assert_true(ask(SL_OP_HOLD, "HOLD k 3 aF 2000 UPTO 9/1m"));
	assert_true(command.hold == 0xaf && call.ttl_ns == 2000000000 && call.cost == 3 && call.upto);
	assert_true(ask(SL_OP_CONFIRM, "CONFIRM k 3 a KEEP 9/1m"));
	assert_true((command.given & SL_SAYS(KEEP)) != 0);
	assert_true(ask(SL_OP_PEEK, "PEEK k 3 BESIDE 1f 9/1m") && command.hold == 0x1f);
	assert_true(ask(SL_OP_LEASE, "LEASE k a 500 7 8 9/1m") && command.spent == 7 && command.want == 8);
	assert_true(ask(SL_OP_RESERVE, "RESERVE k 1 0 TTL 5 9/1m")); /* its limits say when it ends */
}

static const struct {
	enum sl_operation operation;
	const char *words, *error;
} mistakes[] = {
	{SL_OP_CHECK, "CHECK k 1 NAME n", "NAME needs a name and a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 9/1m TRIED", "TRIED needs a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 TERMS x 9/1m", "limit 1, TERMS, column 1: "},
	{SL_OP_CHECK, "CHECK k 1 COST 0 9/1m", "COST '0': expected a whole number from 1 to 4294967295"},
	{SL_OP_CHECK, "CHECK k 1 TTL 0 9/1m", "TTL '0': expected a whole number from 1 to 316224000000"},
	{SL_OP_CHECK, "CHECK k 1 OBSERVED UPTO", "what stands at the end needs a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 9/1m NAME n KEY j 9/1m", "KEY needs to stand before what is said of its limit"},
	{SL_OP_CHECK, "CHECK k 1 KEEP 9/1m", "KEEP is no word of SLUICE.CHECK"},
	{SL_OP_RESET, "RESET k COST 3 9/1m", "COST is no word of SLUICE.RESET"},
	{SL_OP_PEEK, "PEEK k 1 BESIDE a BESIDE b 9/1m", "BESIDE twice: expected it once"},
	{SL_OP_PEEK, "PEEK k 1 BESIDE xy 9/1m", "id 'xy': expected 1 to 16 hex digits"},
	{SL_OP_HOLD, "HOLD k 1 0123456789abcdef0 9 9/1m", "id '0123456789abcdef0': expected 1 to 16 hex digits"},
	{SL_OP_HOLD, "HOLD k 1 a 60001 9/1m", "ttl_ms '60001': expected a whole number from 1 to 60000"},
	{SL_OP_HOLD, "HOLD k 1 a 9 distinct_5/1h", "limit 1: distinct is not held: SLUICE.CHECK with MEMBER decides"},
	{SL_OP_LEASE, "LEASE k a 9 0 1 OBSERVED 9/1m", "a lease is of one limit, neither OBSERVED nor TRIED"},
	{SL_OP_RESERVE, "RESERVE k 1 0 9/1m", "ttl_ms '0': expected a whole number from 1 to 316224000000"},
	{SL_OP_CHECK, "CHECK k 1 NEXT EXACT 9/1m", "NEXT and EACH: expected one of them"},
};

static void test_mistakes(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		assert_false(ask(mistakes[i].operation, mistakes[i].words));
		if (strncmp(command.error, mistakes[i].error, strlen(mistakes[i].error)) != 0)
			fail_msg("%s: %s", mistakes[i].words, command.error);
	}
}

static void test_where_the_keys_are(void **state) {
	(void)state;
	struct sluice_bytes args[64];
	uint16_t at[64];
	uint32_t count = split("CHECK a 1 NAME KEY 9/1m KEY b MEMBER key COST 5 9/1m key c 9/1m KEY", args);
	assert_int_equal(sl_command_keys(SL_OP_CHECK, args, count, at), 3);
	assert_true(at[0] == 1 && at[1] == 7 && at[2] == 14);
	assert_int_equal(sl_command_keys(SL_OP_COMMIT, args, count, at), 1);
}

/* Each form tells of all that it takes, once, and no member of JSON means two things. */
static void test_the_tables(void **state) {
	(void)state;
	struct sl_argument told[SL_ARGUMENTS_MAX];
	for (unsigned i = 0; i < SL_OP_THROTTLE; i++) {
		const struct sl_form *form = &sl_forms[i];
		uint32_t count = sl_command_arguments(i, true, told);
		assert_non_null(form->name);
		assert_int_equal(form->words & form->fronts, 0);
		assert_true(count >= form->field_count + (uint32_t)__builtin_popcount(form->words | form->fronts));
		for (uint32_t k = 0; k < count; k++)
			for (uint32_t j = 0; j < k && told[k].token != NULL; j++)
				assert_true(told[j].token == NULL || strcmp(told[j].token, told[k].token) != 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stands_in_front_of_a_limit), cmocka_unit_test(test_holds_and_slices),
		cmocka_unit_test(test_mistakes),                        cmocka_unit_test(test_where_the_keys_are),
		cmocka_unit_test(test_the_tables),
	};
	return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
