/* The command line: one file a verb, and the little that they share. */
#ifndef SL_CLI_H
#define SL_CLI_H

#include "hosts/cli/args.h"

#include <stdio.h>

/* What the program answers to the shell; every verb keeps to it. */
enum {
	SL_EXIT_FINE = 0,   /* allowed, clean, done */
	SL_EXIT_DENIED = 1, /* denied, or findings */
	SL_EXIT_FAILED = 2, /* misuse, or something that could not be done */
	SL_GO_ON = -1,      /* between functions: nothing to exit for yet */
};

struct sl_verb {
	const char *name;
	const char *usage;   /* what follows "sluice " in its usage line */
	const char *summary; /* one line, for the list of verbs */
	const char *text;    /* what the help says under the usage line; NULL for nothing */
	const char *examples;
	const struct sl_option *options;
	int option_count;
	/* Runs the verb over its own arguments; returns what the program exits with. */
	int (*run)(const struct sl_verb *verb, int argc, char **argv);
};

extern const struct sl_verb sl_verb_serve, sl_verb_check, sl_verb_acquire, sl_verb_release, sl_verb_renew,
	sl_verb_holders, sl_verb_reserve, sl_verb_commit, sl_verb_reset, sl_verb_inspect, sl_verb_store, sl_verb_lint,
	sl_verb_replay, sl_verb_top, sl_verb_password, sl_verb_token, sl_verb_bench, sl_verb_version, sl_verb_help;

/* Where a server is looked for that nobody named. */
#define SL_CLI_SERVER "127.0.0.1:7379"

/* Every verb, in the order of the help; ended by NULL. */
extern const struct sl_verb *const sl_verbs[];

/* Finds a verb by name; NULL when there is none. */
const struct sl_verb *sl_verb_find(const char *name);

/* Runs the program: argv[1] names the verb. Returns what to exit with. */
int sl_cli_main(int argc, char **argv);

/* Prints a verb's help to standard output and returns SL_EXIT_FINE. */
int sl_cli_help(const struct sl_verb *verb);

/* Prints the general help to standard output and returns SL_EXIT_FINE. */
int sl_cli_overview(void);

/* Answers "no such verb" with the nearest one. Returns SL_EXIT_FAILED. */
int sl_cli_no_verb(const char *name);

/* Prints "sluice VERB: text" to standard error, shown as by sl_cli_show(), and returns SL_EXIT_FAILED. */
__attribute__((format(printf, 2, 3))) int sl_cli_fail(const struct sl_verb *verb, const char *format, ...);

/* The same for misuse of the command line: points at the verb's --help as well. */
__attribute__((format(printf, 2, 3))) int sl_cli_misuse(const struct sl_verb *verb, const char *format, ...);

/* Prints text that a server, a log or any other file has said: whatever would act on a terminal, break the line or turn
 * it around stands as \xNN. What is longer than SL_CLI_SHOWN_MAX bytes is cut. */
enum { SL_CLI_SHOWN_MAX = 32 * 1024 }; /* more than any ticket */
void sl_cli_show(FILE *to, const char *text);

/* Ends a verb's walk over its options: prints the help for SL_ARG_HELP, the error for SL_ARG_BAD. Returns what to exit
 * with. */
int sl_cli_stop(const struct sl_verb *verb, const struct sl_args *args, int arg);

/* Flushes standard output. False, after saying so, when what was printed did not arrive (a full disk). */
bool sl_cli_flush(const struct sl_verb *verb);

/* Reads a whole file (`-`: standard input) of at most `max` bytes into memory that the caller frees. False with errno
 * set: EFBIG for a longer one. */
bool sl_cli_read_file(const char *path, size_t max, char **data, size_t *len);

/* Writes a wait for people: "350 ms", "12.5 s", "3 m 20 s", "2 d 4 h"; "never" for SLUICE_NEVER. Rounded up to the
 * millisecond; from a minute on, up to the second; from an hour on, up to the minute; from a day on, up to the hour.
 * Returns `text`, of SL_WAIT_TEXT_MAX bytes. */
enum { SL_WAIT_TEXT_MAX = 48 };
const char *sl_cli_wait(char text[SL_WAIT_TEXT_MAX], int64_t ms);

#endif
