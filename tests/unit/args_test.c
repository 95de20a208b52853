/* The command line's arguments: every form of an option, what is refused and what is suggested instead. */
#include "hosts/cli/args.h"
#include "hosts/cli/verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { COST, SERVER, PEEK };

static const struct sl_option options[] = {
	[COST] = {"cost", 'n', "N", "what it costs", SL_OWN},
	[SERVER] = {"server", 0, "ADDR", "where", SL_OWN},
	[PEEK] = {"peek", 'p', NULL, "charge nothing", SL_OWN},
};

static struct sl_args begin(char **argv) {
	int argc = 0;
	while (argv[argc] != NULL)
		argc++;
	return sl_args_begin(argv, argc, options, 3);
}

static void expect(struct sl_args *args, int arg, const char *value) {
	args->value = NULL;
	assert_int_equal(sl_args_next(args), arg);
	if (value == NULL)
		assert_null(args->value);
	else
		assert_string_equal(args->value, value);
}

static void forms(void **state) {
	char *argv[] = {"--cost", "5",  "key",       "--cost=6", "-n7",    "-n", "8", "-",
	                "--peek", "-p", "--server=", "--",       "--cost", "-x", NULL};
	struct sl_args args = begin(argv);
	(void)state;
	expect(&args, COST, "5");
	expect(&args, SL_ARG_WORD, "key");
	expect(&args, COST, "6");
	expect(&args, COST, "7");
	expect(&args, COST, "8");
	expect(&args, SL_ARG_WORD, "-");
	expect(&args, PEEK, NULL);
	expect(&args, PEEK, NULL);
	expect(&args, SERVER, "");
	expect(&args, SL_ARG_WORD, "--cost");
	expect(&args, SL_ARG_WORD, "-x");
	expect(&args, SL_ARG_END, NULL);
	expect(&args, SL_ARG_END, NULL);
}

static void help(void **state) {
	char *argv[] = {"--help", "-h", "--", "--help", "--", NULL};
	struct sl_args args = begin(argv);
	(void)state;
	expect(&args, SL_ARG_HELP, NULL);
	expect(&args, SL_ARG_HELP, NULL);
	expect(&args, SL_ARG_WORD, "--help");
	expect(&args, SL_ARG_WORD, "--");
	expect(&args, SL_ARG_END, NULL);
}

static void refused(void **state) {
	static const struct {
		char *word;
		const char *error;
	} bad[] = {
		{"--cots", "no option '--cots': did you mean --cost?"},
		{"--cots=5", "no option '--cots=5': did you mean --cost?"},
		{"--sever", "no option '--sever': did you mean --server?"},
		{"--halp", "no option '--halp': did you mean --help?"},
		{"--frobnicate", "no option '--frobnicate': --help lists them"},
		{"--cos", "no option '--cos': did you mean --cost?"},
		{"--peek=1", "--peek takes no value"},
		{"-x", "no option '-x': --help lists them"},
		{"-pp", "no option '-pp': --help lists them"},
		{"--cost", "--cost needs a value: --cost N"},
		{"-n", "--cost needs a value: --cost N"},
		{"---", "no option '---': --help lists them"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *argv[] = {bad[i].word, NULL};
		struct sl_args args = begin(argv);
		assert_int_equal(sl_args_next(&args), SL_ARG_BAD);
		assert_string_equal(args.error, bad[i].error);
	}
}

static void long_words(void **state) {
	char word[600];
	char *argv[] = {word, NULL};
	struct sl_args args = begin(argv);
	(void)state;
	memset(word, 'x', sizeof word - 1);
	memcpy(word, "--", 2);
	word[sizeof word - 1] = '\0';
	assert_int_equal(sl_args_next(&args), SL_ARG_BAD);
	assert_true(strlen(args.error) < 160);
}

static void nearest(void **state) {
	static const char *const names[] = {"serve", "check", "lint", "replay", "version", "help", NULL};
	static const struct {
		const char *word, *name;
	} cases[] = {
		{"serv", "serve"},   {"server", "serve"}, {"chekc", "check"},     {"hcekc", NULL},
		{"reply", "replay"}, {"lnit", "lint"},    {"versoin", "version"}, {"", NULL},
		{"x", NULL},         {"top", NULL},       {"inspect", NULL},      {"serveserveserveserveserveserveserve", NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *got = sl_args_nearest(cases[i].word, names);
		if (cases[i].name == NULL)
			assert_null(got);
		else
			assert_string_equal(got, cases[i].name);
	}
}

static void numbers(void **state) {
	uint64_t value = 7;
	(void)state;
	assert_true(sl_args_number("0", 0, 9, &value) && value == 0);
	assert_true(sl_args_number("9", 0, 9, &value) && value == 9);
	assert_false(sl_args_number("10", 0, 9, &value));
	assert_false(sl_args_number("0", 1, 9, &value));
	assert_false(sl_args_number("", 0, 9, &value));
	assert_false(sl_args_number("-1", 0, 9, &value));
	assert_false(sl_args_number("+1", 0, 9, &value));
	assert_false(sl_args_number("1 ", 0, 9, &value));
	assert_false(sl_args_number("18446744073709551616", 0, UINT64_MAX, &value));
	assert_int_equal(value, 9);
}

static void sizes(void **state) {
	uint64_t bytes = 7;
	(void)state;
	assert_true(sl_args_size("4096", &bytes) && bytes == 4096);
	assert_true(sl_args_size("3KiB", &bytes) && bytes == 3072);
	assert_true(sl_args_size("512MiB", &bytes) && bytes == 536870912);
	assert_true(sl_args_size("2GiB", &bytes) && bytes == 2147483648);
	assert_false(sl_args_size("2GB", &bytes));
	assert_false(sl_args_size("2 GiB", &bytes));
	assert_false(sl_args_size("GiB", &bytes));
	assert_false(sl_args_size("-1GiB", &bytes));
	assert_false(sl_args_size("17179869184GiB", &bytes)); /* 2^64 */
	assert_true(sl_args_size("17179869183GiB", &bytes));
}

static void durations(void **state) {
	const sluice_ns second = 1000000000, max = 600 * second;
	sluice_ns ns = 7;
	(void)state;
	assert_true(sl_args_duration("0", max, &ns) && ns == 0);
	assert_true(sl_args_duration("1ms", max, &ns) && ns == 1000000);
	assert_true(sl_args_duration("30s", max, &ns) && ns == 30 * second);
	assert_true(sl_args_duration("10m", max, &ns) && ns == max);
	assert_true(sl_args_duration("2h", UINT64_MAX, &ns) && ns == 7200 * second);
	assert_true(sl_args_duration("1d", UINT64_MAX, &ns) && ns == 86400 * second);
	assert_true(sl_args_duration("2w", UINT64_MAX, &ns) && ns == 14 * 86400 * second);
	static const char *const bad[] = {"",
	                                  "1",
	                                  "s",
	                                  "-1s",
	                                  "1 s",
	                                  "1S",
	                                  "11m",
	                                  "600001ms",
	                                  "1.5s",
	                                  "1sx",
	                                  "18446744073709551615d",
	                                  "99999999999999999999s"};
	ns = 7;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(sl_args_duration(bad[i], max, &ns));
	assert_int_equal(ns, 7);
}

/* What an option's value may be, where it goes, and what is said of any other: all by the table. */
static void values(void **state) {
	struct fields {
		bool flag;
		const char *text, *id;
		uint32_t number, name;
		sluice_ns time;
		uint64_t size;
	} to = {.number = 7, .name = 7};
	static const char *const names[] = {"auto", "module", "script", NULL};
	static const struct sl_option all[] = {
		{"flag", 'f', NULL, "", SL_FLAG(offsetof(struct fields, flag))},
		{"text", 0, "T", "", SL_TEXT(offsetof(struct fields, text))},
		{"id", 0, "ID", "", SL_TEXT_OF(offsetof(struct fields, id), 1, 4)},
		{"number", 0, "N", "", SL_NUMBER(offsetof(struct fields, number), 1, 9)},
		{"name", 0, "NAME", "", SL_NAME(offsetof(struct fields, name), names)},
		{"time", 0, "TIME", "", SL_TIME(offsetof(struct fields, time), 1000000, 1000000000, "a duration, up to 1s")},
		{"size", 0, "SIZE", "", SL_SIZE(offsetof(struct fields, size), 1024, 4096, "a size, up to 4KiB")},
	};
	static const struct {
		char *word;
		const char *error;
	} bad[] = {
		{"--id=", "--id '': expected 1 to 4 bytes, found 0"},
		{"--id=12345", "--id '12345': expected 1 to 4 bytes, found 5"},
		{"--number=0", "--number '0': expected a whole number, 1 to 9"},
		{"--number=10", "--number '10': expected a whole number, 1 to 9"},
		{"--number=4294967297", "--number '4294967297': expected a whole number, 1 to 9"},
		{"--name=skript", "--name 'skript': expected auto, module or script; did you mean script?"},
		{"--name=x", "--name 'x': expected auto, module or script"},
		{"--time=0", "--time '0': expected a duration, up to 1s"},
		{"--time=2s", "--time '2s': expected a duration, up to 1s"},
		{"--size=1023", "--size '1023': expected a size, up to 4KiB"},
		{"--size=5KiB", "--size '5KiB': expected a size, up to 4KiB"},
	};
	char *good[] = {"-f", "--text=", "--id=1234", "--number=9", "--name=script", "--time=1ms", "--size=4KiB"};
	struct sl_args args = sl_args_begin(good, 7, all, 7);
	(void)state;
	for (int i = 0; i < 7; i++) {
		assert_int_equal(sl_args_next(&args), i);
		assert_true(sl_args_store(&args, i, &to));
	}
	assert_true(to.flag && to.number == 9 && to.name == 2 && to.time == 1000000 && to.size == 4096);
	assert_string_equal(to.text, "");
	assert_string_equal(to.id, "1234");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *argv[] = {bad[i].word};
		args = sl_args_begin(argv, 1, all, 7);
		int found = sl_args_next(&args);
		assert_true(found >= 0);
		assert_false(sl_args_store(&args, found, &to));
		assert_string_equal(args.error, bad[i].error);
	}
	assert_true(to.number == 9 && to.time == 1000000 && to.size == 4096);
}

static void waits(void **state) {
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{-1, "never"},
		{0, "0 ms"},
		{999, "999 ms"},
		{1000, "1 s"},
		{1500, "1.5 s"},
		{1050, "1.05 s"},
		{1005, "1.005 s"},
		{59999, "59.999 s"},
		{60000, "1 m"},
		{60001, "1 m 1 s"},
		{3599001, "1 h"},
		{3600000, "1 h"},
		{3660000, "1 h 1 m"},
		{86340001, "1 d"},
		{86400000, "1 d"},
		{90000001, "1 d 2 h"},
		{316224000000, "3660 d"},
	};
	char text[SL_WAIT_TEXT_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(sl_cli_wait(text, cases[i].ms), cases[i].text);
	assert_true(strlen(sl_cli_wait(text, INT64_MAX)) < SL_WAIT_TEXT_MAX);
}

static void verbs(void **state) {
	(void)state;
	for (int i = 0; sl_verbs[i] != NULL; i++) {
		assert_ptr_equal(sl_verb_find(sl_verbs[i]->name), sl_verbs[i]);
		assert_int_equal(strncmp(sl_verbs[i]->usage, sl_verbs[i]->name, strlen(sl_verbs[i]->name)), 0);
		assert_non_null(sl_verbs[i]->examples);
	}
	assert_null(sl_verb_find("watch"));
	assert_null(sl_verb_find(""));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms),   cmocka_unit_test(help),    cmocka_unit_test(refused), cmocka_unit_test(long_words),
		cmocka_unit_test(nearest), cmocka_unit_test(numbers), cmocka_unit_test(sizes),   cmocka_unit_test(durations),
		cmocka_unit_test(waits),   cmocka_unit_test(values),  cmocka_unit_test(verbs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
