/* What the verbs of the command line share: one file a verb; all of them are in verbs.h. */
#ifndef SL_CLI_H
#define SL_CLI_H

#include "hosts/cli/args.h"

#include <stdio.h>

/* The fields of a verb that say its table. */
#define SL_OPTIONS(table) .options = (table), .option_count = sizeof(table) / sizeof *(table)

/* What the program answers to the shell; every verb keeps to it. */
enum {
	SL_EXIT_FINE = 0,   /* allowed, clean, done */
	SL_EXIT_DENIED = 1, /* denied, or findings */
	SL_EXIT_FAILED = 2, /* misuse, or something that could not be done */
	SL_GO_ON = -1,      /* between functions: nothing to exit for yet */
};

/* What the words that follow a verb are, for shells to complete. */
enum sl_follows {
	SL_FOLLOWS_ANY,  /* nothing that can be listed: keys, limits */
	SL_FOLLOWS_FILE, /* paths */
	SL_FOLLOWS_VERB, /* the name of a verb */
};

/* A verb, by its table of options: sl_cli_read() does the rest but for what take() and word() say. */
struct sl_verb {
	const char *name;
	const char *usage;   /* what follows "sluice " in its usage line */
	const char *summary; /* one line, for the list of verbs */
	const char *text;    /* what the help says under the usage line; NULL for nothing */
	const char *examples;
	const struct sl_option *options;
	int option_count;
	enum sl_follows follows;
	const char *const *words; /* what the first word is one of, ended by NULL; NULL where it is no such word */
	/* An option of SL_OPTION_OWN, by its position, and a word that is no option: into what the verb reads its arguments
	 * into. SL_GO_ON, or what to exit with after saying why. */
	int (*take)(const struct sl_verb *verb, void *to, int option, const char *value);
	int (*word)(const struct sl_verb *verb, void *to, const char *word);
	const char *no_word; /* what is said of a word where word() is NULL; NULL: it is one too many */
	uint8_t operation;   /* enum sl_operation that it asks for, of the verbs of ask.h */
	/* Runs the verb over its own arguments; returns what the program exits with. */
	int (*run)(const struct sl_verb *verb, int argc, char **argv);
};

/* Where a server is looked for that nobody named. */
#define SL_CLI_SERVER "127.0.0.1:7379"

/* Prints a verb's help to standard output and returns SL_EXIT_FINE. */
int sl_cli_help(const struct sl_verb *verb);

/* Prints "sluice VERB: text" to standard error, shown as by sl_cli_show(), and returns SL_EXIT_FAILED. */
__attribute__((format(printf, 2, 3))) int sl_cli_fail(const struct sl_verb *verb, const char *format, ...);

/* The same for misuse of the command line: points at the verb's --help as well. */
__attribute__((format(printf, 2, 3))) int sl_cli_misuse(const struct sl_verb *verb, const char *format, ...);

/* Prints text that a server, a log or any other file has said: whatever would act on a terminal, break the line or turn
 * it around stands as \xNN. What is longer than SL_CLI_SHOWN_MAX bytes is cut. */
enum { SL_CLI_SHOWN_MAX = 32 * 1024 }; /* more than any ticket */
void sl_cli_show(FILE *to, const char *text);

/* Reads a verb's arguments into `to`. SL_GO_ON, or what to exit with: after the help, or after saying what is wrong.
 *  given  out: a bit for each option that was there; may be NULL */
int sl_cli_read(const struct sl_verb *verb, int argc, char **argv, void *to, uint32_t *given);

/* How a verb ends that printed to standard output: with `status`, unless what it printed did not arrive. */
int sl_cli_end(const struct sl_verb *verb, int status);

/* Prints what is wrong with a policy file, a line each, FILE:LINE:COLUMN first. Returns how many lines. */
size_t sl_cli_print_problems(FILE *to, const char *file, const struct sluice_problems *problems, bool warnings);

/* Loads a policy and the files of overrides that it names. SL_GO_ON, with *policy the caller's to free; or
 * SL_EXIT_FAILED, after saying on standard error what is wrong: *policy may be set then, too, and is to be freed.
 *  warnings  where the policy has errors, its warnings are told beside them */
SLUICE_MUST_USE int sl_cli_load_policy(const struct sl_verb *verb, const char *path, bool warnings,
                                       struct sluice_policy **policy);

/* The text of a policy, to be freed: of a file, a pipe, or standard input (`-`). Of one that is too long, as much as
 * sluice_policy_load() needs to say so. NULL: error->text says why not, without the path. */
SLUICE_MUST_USE char *sl_cli_read_policy(const char *path, size_t *len, struct sluice_error *error);

/* Writes a wait for people: "350 ms", "12.5 s", "3 m 20 s", "2 d 4 h"; "never" for SLUICE_NEVER. Rounded up to the
 * millisecond; from a minute on, up to the second; from an hour on, up to the minute; from a day on, up to the hour.
 * Returns `text`, of SL_WAIT_TEXT_MAX bytes. */
enum { SL_WAIT_TEXT_MAX = 48 };
const char *sl_cli_wait(char text[SL_WAIT_TEXT_MAX], int64_t ms);

#endif
