/* Arguments of one verb: a table of options, walked in the order in which they were given.
 *
 * Options may stand before, between and after the words; `--` ends them; `--name VALUE` and `--name=VALUE` are the
 * same; a lone `-` is a word. Anything unknown is answered with the nearest thing that exists. What an option's value
 * may be, and where it goes, stands in the table too. Nothing here prints or exits, so that tests can look at every
 * answer. */
#ifndef SL_CLI_ARGS_H
#define SL_CLI_ARGS_H

#include "base/bytes.h"

/* What an option's value is, and the type of the field that it goes to. */
enum sl_option_kind {
	SL_OPTION_OWN,    /* the verb reads it itself, by its take() */
	SL_OPTION_FLAG,   /* bool */
	SL_OPTION_TEXT,   /* const char *, borrowed; of least..most bytes, unless most is 0 */
	SL_OPTION_NUMBER, /* uint32_t, least..most */
	SL_OPTION_TIME,   /* sluice_ns, least..most */
	SL_OPTION_SIZE,   /* uint64_t bytes, least..most */
	SL_OPTION_NAME,   /* uint32_t: which of `names` */
};

/* One option of a verb. */
struct sl_option {
	const char *name;  /* without the dashes: "cost" */
	char letter;       /* short form, or 0 */
	const char *value; /* what stands for its value in the help ("N"); NULL for a flag */
	const char *help;  /* one line, or several separated by '\n' */
	enum sl_option_kind kind;
	size_t to; /* offset of its field in what the verb reads its arguments into */
	uint64_t least, most;
	const char *expects;      /* of TIME and SIZE, for messages: "a duration such as 30s, up to 10m" */
	const char *const *names; /* of NAME, ended by NULL */
};

/* How a row ends, by the kind; `to` is the field's offset. */
#define SL_OWN SL_OPTION_OWN, 0, 0, 0, NULL, NULL
#define SL_FLAG(to) SL_OPTION_FLAG, to, 0, 0, NULL, NULL
#define SL_TEXT(to) SL_OPTION_TEXT, to, 0, 0, NULL, NULL
#define SL_TEXT_OF(to, least, most) SL_OPTION_TEXT, to, least, most, NULL, NULL
#define SL_NUMBER(to, least, most) SL_OPTION_NUMBER, to, least, most, NULL, NULL
#define SL_TIME(to, least, most, expects) SL_OPTION_TIME, to, least, most, expects, NULL
#define SL_SIZE(to, least, most, expects) SL_OPTION_SIZE, to, least, most, expects, NULL
#define SL_NAME(to, names) SL_OPTION_NAME, to, 0, 0, NULL, names

/* A walk over the arguments of one verb. */
struct sl_args {
	char **argv;
	int argc, at;
	const struct sl_option *options;
	int option_count;
	bool words_only;   /* `--` was met */
	const char *value; /* out: an option's value, or the word */
	char error[256];   /* out: why SL_ARG_BAD, one line */
};

/* What sl_args_next() answers when it is not the position of an option in the table. */
enum {
	SL_ARG_WORD = -1, /* `value` is a word that is no option */
	SL_ARG_END = -2,
	SL_ARG_HELP = -3, /* --help or -h, which every verb has */
	SL_ARG_BAD = -4,  /* `error` says why */
};

/* Reads the value that sl_args_next() found for options[found] into its field of `to`. False, with args->error filled,
 * where it may not be that. Not for SL_OPTION_OWN. */
bool sl_args_store(struct sl_args *args, int found, void *to);

/* Begins a walk over argv[0..argc), which excludes the program's and the verb's names. Borrows both arrays. */
struct sl_args sl_args_begin(char **argv, int argc, const struct sl_option *options, int option_count);

/* The next option (>= 0, its position in the table) or one of SL_ARG_*. `value` borrows from argv. */
int sl_args_next(struct sl_args *args);

/* Which of a list of names, ended by NULL, `word` is; -1, with args->error filled, where it is none. */
int sl_args_name(struct sl_args *args, const char *option, const char *word, const char *const *names);

/* The one of a list of names, ended by NULL, that `word` was most likely meant to be; NULL where none is near. */
const char *sl_args_nearest(const char *word, const char *const *names);

/* Reads a whole number min..max, digits only. False when it is anything else; `*value` is then untouched. */
bool sl_args_number(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Reads a duration: a whole number and `ms`, `s`, `m`, `h` or `d`; or 0. False when it is anything else, or above
 * `max`; `*ns` is then untouched. */
bool sl_args_duration(const char *text, sluice_ns max, sluice_ns *ns);

/* Reads a size in bytes: a whole number, then nothing, `KiB`, `MiB` or `GiB`. False when it is anything else or does
 * not fit in 64 bits. */
bool sl_args_size(const char *text, uint64_t *bytes);

#endif
