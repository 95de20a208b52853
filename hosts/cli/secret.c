/* The arguments and the output of the verbs that make secrets. */
#include "hosts/cli/secret.h"

#include <stdio.h>

/* Only roles that there are, so that the line can be pasted without another look. */
static bool are_roles(const char *text) {
	static const char *const names[] = {"check", "read", "admin"};
	for (;;) {
		size_t len = strcspn(text, ",");
		bool known = false;
		for (int i = 0; i < 3; i++)
			known |= len == strlen(names[i]) && memcmp(text, names[i], len) == 0;
		if (!known)
			return false;
		if (text[len] == '\0')
			return true;
		text += len + 1;
	}
}

static bool is_user_name(const char *text) {
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == ':')
			return false;
	return len >= 1 && len <= SLUICE_NAME_BYTES_MAX;
}

int sl_secret_arguments(const struct sl_verb *verb, int argc, char **argv, struct sl_secret_user *user) {
	struct sl_args args = sl_args_begin(argv, argc, verb->options, verb->option_count);
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		if (arg == SL_ARG_WORD && user->name == NULL)
			user->name = args.value;
		else if (arg == SL_ARG_WORD)
			return sl_cli_misuse(verb, "one word too many: expected the name of one user; secrets are never arguments");
		else if (arg < 0)
			return sl_cli_stop(verb, &args, arg);
		else
			user->roles = args.value;
	}
	if (user->name != NULL && !is_user_name(user->name))
		return sl_cli_misuse(verb, "expected a name of 1 to %d printable ASCII characters, without ':' and spaces",
		                     SLUICE_NAME_BYTES_MAX);
	if (user->roles != NULL && !are_roles(user->roles))
		return sl_cli_misuse(verb, "--role '%.64s': expected check, read or admin, or several with commas",
		                     user->roles);
	return SL_GO_ON;
}

/* A name in quotes, so that YAML sees text whatever it is. */
static void print_name(const char *name) {
	putchar('"');
	for (; *name != '\0'; name++) {
		if (*name == '"' || *name == '\\')
			putchar('\\');
		putchar(*name);
	}
	putchar('"');
}

void sl_secret_print(const struct sl_secret_user *user, const char *key, const char *text) {
	if (user->name == NULL) {
		printf("%s: \"%s\"\n", key, text);
		return;
	}
	fputs("- {name: ", stdout);
	print_name(user->name);
	printf(", %s: \"%s\", roles: [%s]}\n", key, text, user->roles != NULL ? user->roles : "check");
}
