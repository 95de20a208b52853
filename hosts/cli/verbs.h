/* All verbs of the command line: found by name, listed, run. */
#ifndef SL_CLI_VERBS_H
#define SL_CLI_VERBS_H

#include "hosts/cli/cli.h"

extern const struct sl_verb sl_verb_serve, sl_verb_ready, sl_verb_check, sl_verb_acquire, sl_verb_release,
	sl_verb_renew, sl_verb_holders, sl_verb_reserve, sl_verb_commit, sl_verb_reset, sl_verb_override, sl_verb_inspect,
	sl_verb_store,
	sl_verb_lint, sl_verb_replay, sl_verb_top, sl_verb_tail, sl_verb_explain, sl_verb_password, sl_verb_token,
	sl_verb_bench, sl_verb_size, sl_verb_completion, sl_verb_version, sl_verb_help;

/* Every verb, in the order of the help; ended by NULL. */
extern const struct sl_verb *const sl_verbs[];

/* Finds a verb by name; NULL when there is none. */
const struct sl_verb *sl_verb_find(const char *name);

/* Runs the program: argv[1] names the verb. Returns what to exit with. */
int sl_cli_main(int argc, char **argv);

#endif
