/* The grammar of the commands, once: which words each has, what they mean, where they may stand, and what is wrong with
 * them. The server's RESP door, the module in Redis and the HTTP door read by the same tables into the same struct;
 * what clients are told about commands (COMMAND DOCS, key positions) is made from these tables, too.
 *
 *   command   NAME key [field ..] (word | limit) ..           fields by position: cost, id, ttl_ms ..
 *   ticketed  NAME key ticket [field ..] [word ..]            RELEASE RENEW COMMIT: the ticket says the limits
 *   admit     ADMIT cost [word ..] name value ..              words in capitals, directly after the cost
 *
 * No limit in the notation reads as a word, and free bytes (keys, members, ids) stand only after their words: so
 * nothing needs an escape. Reading owns nothing and copies nothing; errors are one line for people, without the ERR
 * before them. */
#ifndef SL_PROTO_COMMAND_H
#define SL_PROTO_COMMAND_H

#include "base/operation.h"
#include "base/out.h"
#include "proto/ticket.h"

/* Words that stand among the limits. */
enum sl_command_word {
	SL_WORD_KEY,
	SL_WORD_AT,
	SL_WORD_MEMBER,
	SL_WORD_ID,
	SL_WORD_UPTO,
	SL_WORD_NEXT,
	SL_WORD_EACH,
	SL_WORD_OPEN,
	/* of fronts */
	SL_WORD_EXACT,
	SL_WORD_KEEP,
	SL_WORD_BESIDE,
	SL_WORD_NAME,
	SL_WORD_OBSERVED,
	SL_WORD_TRIED,
	SL_WORD_TERMS,
	SL_WORD_COST,
	SL_WORD_TTL,
	SL_WORDS
};
#define SL_SAYS(word) (1u << SL_WORD_##word)

/* What stands between the key and the limits, by position. */
enum sl_command_field {
	SL_FIELD_NONE,
	SL_FIELD_COST,
	SL_FIELD_ACTUAL,
	SL_FIELD_TTL,
	SL_FIELD_HOLD_TTL,
	SL_FIELD_SPENT,
	SL_FIELD_WANT,
	SL_FIELD_HOLD,   /* the id of a front's hold, in hex */
	SL_FIELD_LEASE,  /* the id of a lease, or a ticket */
	SL_FIELD_TICKET, /* a ticket */
	/* of CL.THROTTLE */
	SL_FIELD_MAX_BURST,
	SL_FIELD_COUNT,
	SL_FIELD_PERIOD,
	SL_FIELD_QUANTITY, /* may be left out, or be negative */
	SL_FIELDS
};
enum { SL_FORM_FIELDS_MAX = 4 };

/* One command. */
struct sl_form {
	const char *name;    /* in capitals, without SLUICE. before it */
	const char *summary; /* what it does, in a line for people */
	uint8_t fields[SL_FORM_FIELDS_MAX], field_count;
	bool costs;   /* the cost is the only field */
	bool limits;  /* limits stand after, at least one; with LEASE: unless that is a ticket */
	bool leases;  /* may be asked of limits of concurrency */
	bool members; /* limits of distinct need a member */
	uint32_t words, fronts; /* SL_SAYS() bits: of all callers, and of fronts beside */
};
extern const struct sl_form sl_forms[SL_OPERATIONS];

/* What is said of a word, or a field, wherever it is asked for. `most` 0: no number. */
struct sl_meaning {
	const char *name;          /* "UPTO"; "ttl_ms" */
	uint8_t len;               /* of the name */
	const char *member;        /* of a JSON object; NULL: none */
	const char *argument;      /* what COMMAND DOCS calls its argument */
	uint64_t least, most;      /* of a number */
	const char *unit;          /* of a number, for messages: "Unix milliseconds, "; NULL: none */
	bool is_ms;                /* milliseconds that pass */
	const char *needs, *more;  /* what has to stand after the word; NULL: nothing; and what that is, for messages */
	uint8_t takes;             /* arguments after the word that belong to it */
	uint8_t follow;            /* and how many there have to be at least, with a limit where it stands for one */
	uint32_t against;          /* SL_SAYS() bits of words beside which it can't stand */
	bool ahead, first, repeats; /* stands in front of a limit; before the first; may stand several times */
};
extern const struct sl_meaning sl_words[SL_WORDS], sl_fields[SL_FIELDS];

enum {
	SL_COMMAND_ARGS_MAX = 1024,
	SL_COMMAND_ERROR_BYTES = 1024,
	SL_HOLD_MS_MAX = 60000,  /* how long a front's hold may last */
	SL_HOLD_DIGITS_MAX = 16, /* of its id */
};

struct sl_command;

/* What differs between the doors. */
struct sl_command_door {
	bool fronts; /* takes what only fronts say */
	/* Why callers may not set the instant; NULL: they may. */
	const char *(*refuses_at)(const struct sl_command *command);
	/* The limit that a text stands for, which lives as long as the call; NULL with `error` filled. */
	const struct sluice_limit *(*limit)(struct sl_command *command, struct sluice_bytes text,
	                                    struct sluice_error *error);
	/* Adds what `policy:NAME` stands for, by sl_command_add(); false with the command's error filled. NULL: there is no
	 * policy. */
	bool (*named)(struct sl_command *command, struct sluice_bytes text, struct sluice_bytes name);
	/* SLUICE_KEY_BYTES_MAX bytes that live as long as the call, to fold a longer key or member into (base/fold.h): once
	 * for each argument that is so long, at most. NULL: keys are the database's own, whose names stay as they are, and
	 * so do members, which are only hashed there. */
	char *(*fold_room)(struct sl_command *command);
};

/* A command being read, and then what it asks. The caller sets the first four, and call->now; 4 KiB, not to be cleared.
 * */
struct sl_command {
	const struct sl_command_door *door;
	void *owner; /* the door's own */
	struct sluice_call *call;
	struct sluice_item *items; /* SLUICE_ITEMS_MAX of them, of the call */
	struct sl_ticket *ticket;  /* memory for one, where the form takes such, and for what it points to */
	void *ticket_memory;

	enum sl_operation operation;
	const struct sl_form *form;
	uint32_t given;      /* SL_SAYS() bits of the words that stood there */
	uint32_t algorithms; /* a bit for each that is among the limits */
	uint32_t named;      /* a bit for each limit that NAME stood before */
	uint32_t ahead;      /* while it is read: words in front of the next limit; what they say is in `next` */
	uint32_t before;     /* and limits of the keys before this one */
	bool ticketed;       /* a ticket says the limits */
	/* of fronts */
	uint64_t hold; /* the id of a hold */
	uint32_t spent, want;
	struct sluice_bytes names[SLUICE_ITEMS_MAX];
	struct sluice_terms terms[SLUICE_ITEMS_MAX]; /* to which items point */
	uint16_t key_args[SLUICE_ITEMS_MAX];         /* which argument is the key of each limit; of a ticket's 0 */

	/* while it is read */
	const struct sluice_bytes *args;
	uint32_t count;
	struct sluice_bytes key, member;
	uint16_t key_arg;
	struct sluice_item next;
	char error[SL_COMMAND_ERROR_BYTES]; /* where it failed: NUL-ended */
};

/* Reads the arguments of a command, its name and key among them; a call begun: no items, no id, nothing asked for. The
 * count must be at least sl_command_arity(). False with command->error filled. About 100 ns for a limit that is known.
 * */
SLUICE_MUST_USE bool sl_command_read(struct sl_command *command, enum sl_operation operation,
                                     const struct sluice_bytes *args, uint32_t count);

/* How many arguments a command has at least, its name among them. */
static inline uint32_t sl_command_arity(enum sl_operation operation) {
	const struct sl_form *form = &sl_forms[operation];
	return 2 + form->field_count + form->limits;
}

/* Adds a limit for the key and the member that stand now; NULL with the error filled where there are too many. */
struct sluice_item *sl_command_add(struct sl_command *command, const struct sluice_limit *limit);

/* Whether a word is one that stands alone and has a member of JSON, an option of the command line: UPTO. */
static inline bool sl_word_is_flag(enum sl_command_word word) {
	return sl_words[word].takes == 0 && sl_words[word].member != NULL;
}
/* What a word that stands alone asks of a call. */
void sl_command_say(struct sluice_call *call, enum sl_command_word word);

/* Fills the error; false. */
__attribute__((format(printf, 2, 3))) bool sl_command_fail(struct sl_command *command, const char *format, ...);

/* Reads the cost of ADMIT or EXPLAIN, and the words after it: *index is that of the first attribute. What MEMBER says
 * is in command->member. */
SLUICE_MUST_USE bool sl_command_read_admit(struct sl_command *command, enum sl_operation operation,
                                           const struct sluice_bytes *args, uint32_t count, uint32_t *index);

#define SL_NO_ATTRIBUTE "no attribute: expected at least one, a name and a value"

/* Reads the attributes of ADMIT or EXPLAIN, from `index` on to the end: fills as many as half of the arguments. False
 * with the error filled: none, one without a value, a name too long. */
SLUICE_MUST_USE bool sl_command_read_attributes(struct sl_command *command, uint32_t index,
                                                struct sluice_attribute *attributes, uint32_t *count);

/* Says what is wrong with attributes that were read, and that no policy takes: one is given twice. False. */
bool sl_command_fail_match(struct sl_command *command, const struct sluice_attribute *attributes, uint32_t count);

/* Takes of a ticket that was read what an operation is about: leases, or, of COMMIT, what was reserved. */
void sl_command_take_ticket(struct sl_command *command);

/* What a caller is told of sl_items_second_member(). */
#define SL_SECOND_MEMBER_TEXT "another member of the same counter: expected one, and a call for each of the others"

/* What an operation can't do with its limits: the rule is one, its text differs by the door. %s is the command's name
 * or, in one `of_algorithm`, the word of the limit's algorithm. */
struct sl_misfit {
	const char *resp, *http;
	bool of_algorithm;
};
/* NULL: it can. *index is the limit's, counted from 0; -1: of all. */
const struct sl_misfit *sl_command_misfit(enum sl_operation operation, const struct sluice_call *call, int *index);

/* Whether a number is one that a word or a field may have. */
static inline bool sl_meaning_has(const struct sl_meaning *meaning, uint64_t number) {
	return number >= meaning->least && number <= meaning->most;
}

/* Where the keys of a command are: fills `positions` (as many as there are arguments), returns how many. For whatever
 * was sent: nothing is refused. */
uint32_t sl_command_keys(enum sl_operation operation, const struct sluice_bytes *args, uint32_t count,
                         uint16_t *positions);

/* What clients are told of an argument. */
enum sl_argument_type {
	SL_ARGUMENT_KEY,
	SL_ARGUMENT_STRING,
	SL_ARGUMENT_INTEGER,
	SL_ARGUMENT_INSTANT, /* Unix milliseconds */
	SL_ARGUMENT_TOKEN,   /* the token alone */
};
struct sl_argument {
	const char *name, *token; /* token: the word before it; NULL: none */
	enum sl_argument_type type;
	bool optional, multiple;
	bool ahead; /* stands in front of each limit */
};
enum { SL_ARGUMENTS_MAX = 4 + SL_FORM_FIELDS_MAX + SL_WORDS };
/* All arguments of a command; returns how many. `fronts`: with those that only fronts say. */
uint32_t sl_command_arguments(enum sl_operation operation, bool fronts, struct sl_argument list[SL_ARGUMENTS_MAX]);

/* A key as the door counts it: folded where it is too long, into the door's memory. */
struct sluice_bytes sl_command_fold(struct sl_command *command, struct sluice_bytes key);

/* CL.THROTTLE key max_burst count period [quantity], redis-cell's: a bucket of `count/period` seconds and a burst of
 * max_burst + 1, with a counter that no CHECK meets. The first reads key and quantity: which operation, and its cost.
 * The second makes the limit of the three numbers. */
SLUICE_MUST_USE bool sl_command_read_throttle(struct sl_command *command, const struct sluice_bytes *args,
                                              uint32_t count);
SLUICE_MUST_USE bool sl_command_throttle_limit(struct sl_command *command, struct sluice_limit *limit);

/* A text as messages show it: quoted, printable, at most 128 bytes of it. */
struct sl_shown {
	char text[560];
};
struct sl_shown sl_shown(struct sluice_bytes text);

#endif
