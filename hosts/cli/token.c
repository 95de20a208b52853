/* token: a new secret for a program, and the line that lets the server know it again. */
#include "hosts/cli/secret.h"

#include "hosts/server/access/access.h"

#include <openssl/crypto.h>
#include <stdio.h>

static const struct sl_option options[] = {SL_SECRET_OPTION_ROLE};

static int run_token(const struct sl_verb *verb, int argc, char **argv) {
	char token[SL_TOKEN_TEXT_BYTES + 1], text[SL_SECRET_TEXT_MAX];
	struct sl_secret_user user = {0};
	int status = sl_secret_arguments(verb, argc, argv, &user);
	if (status != SL_GO_ON)
		return status;
	if (!sl_secret_of_token(token, text))
		return sl_cli_fail(verb, "the system gives no random bytes");
	puts(token);
	OPENSSL_cleanse(token, sizeof token);
	sl_secret_print(&user, "token", text);
	return sl_cli_flush(verb) ? SL_EXIT_FINE : SL_EXIT_FAILED;
}

const struct sl_verb sl_verb_token = {
	.name = "token",
	.usage = "token [NAME] [--role ROLES]",
	.summary = "Makes a token for a program, and the line of the policy file that knows it",
	.text =
		"The first line is the token, 256 random bits: give it to the program, and to nobody else. The second goes\n"
		"under `users:` in the policy file; it holds a hash, which nobody can log in with.\n",
	.examples = "  sluice token api\n"
				"  sluice token prometheus --role read\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_token,
};
