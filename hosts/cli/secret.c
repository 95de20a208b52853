/* password, token: secrets that are made here, and the line of the policy file that knows each again.
 *
 * A password is read from standard input: from a terminal unseen and twice, else one line. It is never an argument, for
 * those can be read by everybody on the machine. A token is made, for a program. */
#include "hosts/cli/interrupt.h"
#include "hosts/cli/verbs.h"
#include "hosts/server/access/access.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

enum { PASSWORD_BYTES_MAX = 1024 };

/* ---- the arguments and the line of both -------------------------------------------------------------------------- */

/* The user that the line is for. */
struct secret_user {
	const char *name;  /* NULL: only the secret's own key is printed */
	const char *roles; /* "check", "check,read"; NULL: check */
};

static const struct sl_option options[] = {
	{"role", 'r', "ROLES", "the user's roles: check, read or admin, or several separated by commas (check)",
     SL_TEXT(offsetof(struct secret_user, roles))},
};

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

static int take_name(const struct sl_verb *verb, void *to, const char *word) {
	struct secret_user *user = to;
	if (user->name != NULL)
		return sl_cli_misuse(verb, "one word too many: expected the name of one user; secrets are never arguments");
	user->name = word;
	return SL_GO_ON;
}

static int read_arguments(const struct sl_verb *verb, int argc, char **argv, struct secret_user *user) {
	int status = sl_cli_read(verb, argc, argv, user, NULL);
	if (status != SL_GO_ON)
		return status;
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

static void print_line(const struct secret_user *user, const char *key, const char *text) {
	if (user->name == NULL) {
		printf("%s: \"%s\"\n", key, text);
		return;
	}
	fputs("- {name: ", stdout);
	print_name(user->name);
	printf(", %s: \"%s\", roles: [%s]}\n", key, text, user->roles != NULL ? user->roles : "check");
}

/* ---- password ---------------------------------------------------------------------------------------------------- */

/* Reads a line without its end. Negative with errno: EFBIG for one that is too long, EINTR for a signal. Byte by byte,
 * so that nothing after it is lost to somebody who reads on.
 *  interruptible  between sl_interrupt_begin() and its end */
static ssize_t read_password(char password[PASSWORD_BYTES_MAX], bool interruptible) {
	size_t len = 0;
	for (;;) {
		struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
		char byte;
		if (interruptible && sl_interrupt_poll(&input, 1, -1) < 0)
			return -1;
		ssize_t got = read(STDIN_FILENO, &byte, 1);
		if (got < 0 && errno == EINTR && !sl_interrupted())
			continue; /* it was stopped, and goes on */
		if (got < 0)
			return -1;
		if (got == 0 || byte == '\n')
			break;
		if (len == PASSWORD_BYTES_MAX) {
			errno = EFBIG;
			return -1;
		}
		password[len++] = byte;
	}
	if (len > 0 && password[len - 1] == '\r')
		len--;
	return (ssize_t)len;
}

/* Asks at the terminal, with nothing shown of the answer, and leaves the terminal as it was, signal or not. */
static ssize_t ask_unseen(const char *prompt, char password[PASSWORD_BYTES_MAX]) {
	struct termios before, unseen;
	if (tcgetattr(STDIN_FILENO, &before) != 0)
		return -1;
	sl_interrupt_begin(true);
	unseen = before;
	unseen.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &unseen); /* before it asks: what is typed earlier is thrown away */
	fputs(prompt, stderr);
	ssize_t len = read_password(password, true);
	int number = errno;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	fputc('\n', stderr);
	sl_interrupt_end();
	errno = number;
	return len;
}

static int complain(const struct sl_verb *verb) {
	if (sl_interrupted())
		return sl_cli_fail(verb, "interrupted: nothing was made");
	if (errno == EFBIG)
		return sl_cli_fail(verb, "a password has at most %d bytes", PASSWORD_BYTES_MAX);
	return sl_cli_fail(verb, "standard input: %s", strerror(errno));
}

/* Reads it, and once more from a person. SL_GO_ON with *len, or what to exit with. */
static int obtain(const struct sl_verb *verb, char password[PASSWORD_BYTES_MAX], size_t *len) {
	char again[PASSWORD_BYTES_MAX];
	bool terminal = isatty(STDIN_FILENO) == 1;
	ssize_t got = terminal ? ask_unseen("password: ", password) : read_password(password, false);
	if (got < 0)
		return complain(verb);
	if (got == 0)
		return sl_cli_fail(verb, "an empty password would let everybody in: expected one on standard input");
	if (memchr(password, '\0', (size_t)got) != NULL)
		return sl_cli_fail(verb, "a password can't have a NUL byte");
	*len = (size_t)got;
	if (!terminal)
		return SL_GO_ON;
	got = ask_unseen("once more: ", again);
	bool same = got == (ssize_t)*len && CRYPTO_memcmp(password, again, *len) == 0;
	OPENSSL_cleanse(again, sizeof again);
	if (got < 0)
		return complain(verb);
	return same ? SL_GO_ON : sl_cli_fail(verb, "the two are not the same: nothing was made");
}

static int run_password(const struct sl_verb *verb, int argc, char **argv) {
	char password[PASSWORD_BYTES_MAX], text[SL_SECRET_TEXT_MAX];
	struct secret_user user = {0};
	size_t len = 0;
	int status = read_arguments(verb, argc, argv, &user);
	if (status != SL_GO_ON)
		return status;
	status = obtain(verb, password, &len);
	if (status == SL_GO_ON && !sl_secret_of_password(sl_slice(password, len), text))
		status = sl_cli_fail(verb, "the system gave no random bytes");
	OPENSSL_cleanse(password, sizeof password);
	if (status != SL_GO_ON)
		return status;
	print_line(&user, "password", text);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

const struct sl_verb sl_verb_password = {
	.name = "password",
	.usage = "password [NAME] [--role ROLES]",
	.summary = "Hashes a password for the policy file",
	.text = "The password is read from standard input: at a terminal unseen and twice, else one line. What is printed\n"
			"goes under `users:` in the policy file. Programs are better off with a token: see `sluice token`.\n",
	.examples = "  sluice password alice --role admin\n"
				"  pass show sluice/alice | sluice password alice --role check,read\n",
	SL_OPTIONS(options),
	.word = take_name,
	.run = run_password,
};

/* ---- token ------------------------------------------------------------------------------------------------------- */

static int run_token(const struct sl_verb *verb, int argc, char **argv) {
	char token[SL_TOKEN_TEXT_BYTES + 1], text[SL_SECRET_TEXT_MAX];
	struct secret_user user = {0};
	int status = read_arguments(verb, argc, argv, &user);
	if (status != SL_GO_ON)
		return status;
	if (!sl_secret_of_token(token, text))
		return sl_cli_fail(verb, "the system gave no random bytes");
	puts(token);
	OPENSSL_cleanse(token, sizeof token);
	print_line(&user, "token", text);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

const struct sl_verb sl_verb_token = {
	.name = "token",
	.usage = "token [NAME] [--role ROLES]",
	.summary = "Makes a token for a program, and the line of the policy file that knows it",
	.text =
		"The first line is the token, 256 random bits: give it to the program and to nobody else. The second goes\n"
		"under `users:` in the policy file; it contains a hash, which is useless for logging in.\n",
	.examples = "  sluice token api\n"
				"  sluice token prometheus --role read\n",
	SL_OPTIONS(options),
	.word = take_name,
	.run = run_token,
};
