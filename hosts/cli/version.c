#include "hosts/cli/cli.h"

#include <stdio.h>

static int run_version(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_args args = sl_args_begin(argv, argc, NULL, 0);
	int arg = sl_args_next(&args);
	if (arg == SL_ARG_WORD)
		return sl_cli_misuse(verb, "'%.64s' is one word too many", args.value);
	if (arg != SL_ARG_END)
		return sl_cli_stop(verb, &args, arg);
	puts("sluice " SLUICE_VERSION);
	return sl_cli_flush(verb) ? SL_EXIT_FINE : SL_EXIT_FAILED;
}

const struct sl_verb sl_verb_version = {
	.name = "version",
	.usage = "version",
	.summary = "Prints the program's version",
	.examples = "  sluice version\n",
	.run = run_version,
};
