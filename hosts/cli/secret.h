/* What `sluice password` and `sluice token` share: the line that goes into the policy file. */
#ifndef SL_CLI_SECRET_H
#define SL_CLI_SECRET_H

#include "hosts/cli/cli.h"

/* The user that the line is for. */
struct sl_secret_user {
	const char *name;  /* NULL: only the secret's own key is printed */
	const char *roles; /* "check", "check,read"; NULL: check */
};

/* Takes the arguments NAME and --role, the only ones of both verbs. SL_GO_ON, or what to exit with. */
int sl_secret_arguments(const struct sl_verb *verb, int argc, char **argv, struct sl_secret_user *user);
/* Prints `- {name: .., KEY: "..", role: [..]}`, or `KEY: ".."` where there is no name. */
void sl_secret_print(const struct sl_secret_user *user, const char *key, const char *text);

/* The one row of their tables of options. */
#define SL_SECRET_OPTION_ROLE \
	{ "role", 'r', "ROLES", "what the user may do: check, read or admin, or several with commas (check)" }

#endif
