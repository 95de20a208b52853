/* What shells complete after `sluice`. */
#ifndef SL_CLI_COMPLETION_H
#define SL_CLI_COMPLETION_H

#include "hosts/cli/cli.h"

/* The shells that there is a script for, ended by NULL. */
extern const char *const sl_completion_shells[];

/* Prints the script of a shell, by its position there, to standard output.
 *  verbs  all that the program has, ended by NULL */
void sl_completion_print(uint32_t shell, const struct sl_verb *const *verbs);

#endif
