/* The words of SLUICE.OVERRIDE: what each subcommand takes, with and without a NAME, and what is left unsaid. */
#include "proto/override_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SET, ONE, LIST };

/* What was read, as "limit key quota ttl name" or "limit key name" or "from count"; else the error. */
static const char *read_words(int form, bool fronts, const char *line) {
	static char text[SL_OVERRIDE_ERROR_BYTES], said[SL_OVERRIDE_ERROR_BYTES];
	struct sl_override_words words = {.ttl_ms = 77, .from = 77, .count = 77, .name = sl_str("old")};
	struct sluice_bytes args[16];
	uint32_t count = 0;
	char *rest = NULL;
	snprintf(text, sizeof text, "%s", line);
	for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
		args[count++] = sl_str(word);
	bool good = form == SET ? sl_override_read_set(&words, args, count, fronts)
	            : form == ONE ? sl_override_read_one(&words, args, count, fronts)
	                          : sl_override_read_list(&words, args, count);
	const char *name = words.name.data == NULL ? "-" : words.name.data;
	if (!good)
		snprintf(said, sizeof said, "%s", words.error);
	else if (form == SET)
		snprintf(said, sizeof said, "%s %s %s %llu %s", (const char *)words.limit.data, (const char *)words.key.data,
		         (const char *)words.quota.data, (unsigned long long)words.ttl_ms, name);
	else if (form == ONE)
		snprintf(said, sizeof said, "%s %s %s", (const char *)words.limit.data, (const char *)words.key.data, name);
	else
		snprintf(said, sizeof said, "%llu %u", (unsigned long long)words.from, words.count);
	return said;
}

#define SET_FORM "expected SLUICE.OVERRIDE SET limit key quota [ttl_ms]"
#define ONE_FORM "expected SLUICE.OVERRIDE GET|DEL limit key"
#define LIST_FORM "expected SLUICE.OVERRIDE LIST [cursor [COUNT 1..10000]]"

static const struct {
	int form;
	bool fronts;
	const char *line, *said;
} rows[] = {
	{SET, false, "S SET a k 9/1m", "a k 9/1m 0 -"},
	{SET, false, "S SET a k 9/1m 1", "a k 9/1m 1 -"},
	{SET, false, "S SET a k 9/1m 0", "ttl_ms '0': expected a whole number from 1 to 316224000000"},
	{SET, false, "S SET a k", SET_FORM},
	{SET, false, "S SET a k 9/1m 1 1", SET_FORM},
	{SET, false, "S SET a k 9/1m NAME n", SET_FORM},
	{SET, true, "S SET a k 9/1m name n", "a k 9/1m 0 n"},
	{SET, true, "S SET a k 9/1m 5 NAME n", "a k 9/1m 5 n"},
	{SET, true, "S SET a k", SET_FORM " [NAME name]"},
	{ONE, false, "S GET a k", "a k -"},
	{ONE, false, "S GET a", ONE_FORM},
	{ONE, false, "S GET a k NAME n", ONE_FORM},
	{ONE, true, "S GET a k NAME n", "a k n"},
	{ONE, true, "S GET a NAME", "a NAME -"},
	{LIST, false, "S LIST", "0 100"},
	{LIST, false, "S LIST 5", "5 100"},
	{LIST, false, "S LIST x", LIST_FORM},
	{LIST, false, "S LIST 5 COUNT", LIST_FORM},
	{LIST, false, "S LIST 5 count 1", "5 1"},
	{LIST, false, "S LIST 5 COUNT 10000", "5 10000"},
	{LIST, false, "S LIST 5 COUNT 0", LIST_FORM},
	{LIST, false, "S LIST 5 COUNT 10001", LIST_FORM},
	{LIST, false, "S LIST 5 COUNT x", LIST_FORM},
	{LIST, false, "S LIST 5 LIMIT 1", LIST_FORM},
	{LIST, false, "S LIST x COUNT 1", LIST_FORM},
	{LIST, false, "S LIST 5 COUNT 1 1", LIST_FORM},
};

static void each_form(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(read_words(rows[i].form, rows[i].fronts, rows[i].line), rows[i].said);
}

/* A name may have 64 bytes. */
static void longest_name(void **state) {
	char line[256];
	(void)state;
	for (int bytes = SLUICE_NAME_BYTES_MAX; bytes <= SLUICE_NAME_BYTES_MAX + 1; bytes++) {
		bool fits = bytes == SLUICE_NAME_BYTES_MAX;
		snprintf(line, sizeof line, "S GET a k NAME %0*d", bytes, 7);
		assert_true((strncmp(read_words(ONE, true, line), "a k 000", 7) == 0) == fits);
		if (!fits)
			assert_string_equal(read_words(ONE, true, line), "NAME needs a name of 1 to 64 bytes");
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_form), cmocka_unit_test(longest_name)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
