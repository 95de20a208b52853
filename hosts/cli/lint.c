/* lint: what is wrong with a policy file, all of it at once, as file:line:column, which editors jump to. */
#include "hosts/cli/cli.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { ERRORS_ONLY };

static const struct sl_option options[] = {
	[ERRORS_ONLY] = {"errors-only", 0, NULL, "leave out warnings, and don't count them"},
};

/* Returns how many it printed. */
static size_t print_problems(const char *file, const struct sluice_problems *problems, bool errors_only) {
	size_t count = 0;
	for (size_t i = 0; i < problems->count; i++) {
		const struct sluice_problem *problem = &problems->list[i];
		if (problem->warning && errors_only)
			continue;
		count++;
		printf("%s:%u:%u: %s: ", file, problem->line, problem->column, problem->warning ? "warning" : "error");
		sl_cli_show(stdout, problem->text);
		putchar('\n');
	}
	return count;
}

static int lint(const struct sl_verb *verb, const char *path, bool errors_only) {
	const char *file = strcmp(path, "-") == 0 ? "<stdin>" : path;
	char *yaml;
	size_t len;
	if (!sl_cli_read_file(path, SL_POLICY_FILE_BYTES_MAX, &yaml, &len)) {
		if (errno == EFBIG)
			return sl_cli_fail(verb, "%s: longer than the %d MiB that a policy may have", file,
			                   SL_POLICY_FILE_BYTES_MAX >> 20);
		return sl_cli_fail(verb, "%s: %s", file, strerror(errno));
	}
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {0};
	sluice_err err = sluice_policy_load(&policy, sl_slice(yaml, len), &problems);
	size_t shown = print_problems(file, &problems, errors_only);
	int status = err != SLUICE_OK || shown != 0 ? SL_EXIT_DENIED : SL_EXIT_FINE;
	if (err == SLUICE_E_MEMORY)
		status = sl_cli_fail(verb, "%s: no memory to read it", file);
	if (status == SL_EXIT_FINE) {
		uint32_t count = sl_policy_limit_count(policy);
		printf("%s: fine, %u limit%s\n", file, count, count == 1 ? "" : "s");
	}
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	free(yaml);
	return sl_cli_flush(verb) ? status : SL_EXIT_FAILED;
}

static int run_lint(const struct sl_verb *verb, int argc, char **argv) {
	const char *path = NULL;
	bool errors_only = false;
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		if (arg == ERRORS_ONLY) {
			errors_only = true;
			continue;
		}
		if (arg != SL_ARG_WORD)
			return sl_cli_stop(verb, &args, arg);
		if (path != NULL)
			return sl_cli_misuse(verb, "'%.64s' is one file too many", args.value);
		path = args.value;
	}
	return path != NULL ? lint(verb, path, errors_only) : sl_cli_misuse(verb, "which policy file?");
}

const struct sl_verb sl_verb_lint = {
	.name = "lint",
	.usage = "lint FILE [--errors-only]",
	.summary = "Says what is wrong or doubtful in a policy file",
	.text = "Each problem is one line, FILE:LINE:COLUMN: error|warning: TEXT; a policy with warnings alone loads.\n"
	        "`-` reads standard input. Exit status: 0 clean, 1 problems, 2 the file can't be read.\n"
	        "A limit that an absent attribute switches off is a warning, unless it says `optional: true`.\n",
	.examples = "  sluice lint examples/sluice.yaml\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_lint,
};
