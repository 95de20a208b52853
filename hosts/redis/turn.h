/* One command in its turn: what the server has handed us, the call that is read out of it, and the keys it is about.
 *
 * Redis runs one command at a time, so there is one turn, and its memory is used again by the next. */
#ifndef SLR_TURN_H
#define SLR_TURN_H

#include "hosts/redis/api.h"
#include "hosts/redis/decide.h"

#include <stdarg.h>

struct slr_form;

struct slr_turn {
	struct RedisModuleCtx *context;
	struct RedisModuleString **args;
	uint32_t count;
	bool each, exact;       /* the reply tells of each limit; and of its wait by how much it was rounded up */
	bool timed;             /* AT said the instant */
	struct sluice_bytes id; /* that the call says, len 0: none */
	const struct slr_form *form;
	bool ticketed; /* keys come from a ticket */
	struct slr_call *call;
	struct RedisModuleString *names[SLUICE_ITEMS_MAX]; /* of call->keys */
	struct sluice_bytes limit_names[SLUICE_ITEMS_MAX]; /* of call->items; len 0: none */
	struct RedisModuleKey *keys[SLUICE_ITEMS_MAX];     /* opened; NULL: not there, and opened for reading */
};

/* What a command has between its key and its limits. */
enum slr_field {
	SLR_FIELD_COST = 1,
	SLR_FIELD_ID,
	SLR_FIELD_TTL,
	SLR_FIELD_SPENT,
	SLR_FIELD_WANT,
	SLR_FIELD_NAME,     /* of a lease, any text */
	SLR_FIELD_TTL_LONG, /* of a reservation; 0: its limits say theirs */
	SLR_FIELD_ACTUAL    /* what it has cost */
};
enum { SLR_FIELDS_MAX = 4 };

struct slr_form {
	enum slr_operation operation;
	uint8_t fields[SLR_FIELDS_MAX]; /* enum slr_field, in order; 0: no more */
	uint8_t words;                  /* SLR_WORD_*: which may stand among the limits */
	const char *name;               /* for messages: "CHECK" */
};

/* Words that not every command takes. */
enum {
	SLR_WORD_EACH = 1 << 0, /* and EXACT */
	SLR_WORD_MEMBER = 1 << 1,
	SLR_WORD_UPTO = 1 << 2,
	SLR_WORD_ID = 1 << 3,
	SLR_WORD_TERMS = 1 << 4,
	SLR_WORD_COST = 1 << 5, /* and TTL */
	SLR_WORD_KEEP = 1 << 6,
	SLR_WORD_BESIDE = 1 << 7,
};

typedef int slr_command_function(struct RedisModuleCtx *, struct RedisModuleString **, int);

/* ---- settings ---------------------------------------------------------------------------------------------------- */

struct slr_settings {
	bool client_time;    /* AT is allowed */
	bool client_effects; /* SLUICE.EFFECT is taken from anybody */
};
extern struct slr_settings slr_settings;

/* Reads the arguments that the module was loaded with. False: `error` says which is wrong and what would be right. */
bool slr_settings_read(struct slr_settings *settings, struct RedisModuleString **args, int count,
                       struct sluice_error *error);

/* ---- clock ------------------------------------------------------------------------------------------------------- */

/* Anchors the clock to wall time; once, when the module is loaded. */
void slr_clock_anchor(void);

/* Unix ns of a clock that nobody sets: CLOCK_BOOTTIME, moved by what it was anchored to. */
sluice_ns slr_clock_now(void);

/* Unix ms of the wall clock, which Redis expires keys by. */
int64_t slr_clock_wall_ms(void);

/* ---- reading (read.c, limits.c) ---------------------------------------------------------------------------------- */

/* An argument of the command; `index` is below turn->count. */
struct sluice_bytes slr_arg(const struct slr_turn *turn, uint32_t index);

/* Whether a text is a word, in either case. */
bool slr_is_word(struct sluice_bytes text, const char *word);

/* Replies with an error: one line, without the ERR that goes before it. */
__attribute__((format(printf, 2, 3))) void slr_fail(const struct slr_turn *turn, const char *format, ...);

/* A number as 16 hex digits, NUL-ended. */
void slr_hex_of(uint64_t number, char text[17]);

struct slr_shown {
	char text[600];
};

/* A text as messages show it. */
struct slr_shown slr_shown(struct sluice_bytes text);

/* Begins a turn, with an empty call at this instant. */
void slr_turn_begin(struct slr_turn *turn, struct RedisModuleCtx *context, struct RedisModuleString **args, int count);

/* Reads the arguments of a command of this form into turn->call. False: the reply has been given. */
SLUICE_MUST_USE bool slr_read_call(struct slr_turn *turn, const struct slr_form *form);

/* The fingerprint of a member of `distinct`, the same on every node; never 0. */
uint64_t slr_member_number(struct sluice_bytes member);

/* The key's place in the call, for `arg`; the first time it is added. */
uint8_t slr_read_key(struct slr_turn *turn, uint32_t index);

/* Whether a key is short enough. False: the reply has been given. */
SLUICE_MUST_USE bool slr_key_fits(struct slr_turn *turn, struct sluice_bytes key);

/* Reads a command that says a ticket at index 2 and perhaps a cost behind it (`fields` of them in all), in place of its
 * limits: those of it that are leases, or that are not. Keys that no argument says are made, if the caller's user may
 * change them; slr_turn_end() frees them.
 *  *is_ticket  false, and nothing was replied: there is no ticket
 * False: there is none, or the reply has been given. */
SLUICE_MUST_USE bool slr_read_ticket(struct slr_turn *turn, const struct slr_form *form, uint32_t fields, bool leases,
                                     bool *is_ticket);

/* Frees the names that a ticket's keys were given. */
void slr_turn_end(struct slr_turn *turn);

/* Reads `AT unix_ms` at *index, if it stands there, into call->now; *index is then behind it. */
SLUICE_MUST_USE bool slr_read_at(struct slr_turn *turn, uint32_t *index);

/* Reads the field `which` of a form. */
SLUICE_MUST_USE bool slr_read_field(struct slr_turn *turn, uint8_t field, struct sluice_bytes text);

/* Reads EACH or EXACT at *index, if it stands there and the form takes it; *index is then behind it. */
void slr_read_each(struct slr_turn *turn, const struct slr_form *form, uint32_t *index);

/* Sets the instant of a call that names none. */
void slr_set_instant(struct slr_call *call);

/* Whether an operation can do what the limits of its call ask for. False: the reply has been given. */
SLUICE_MUST_USE bool slr_fits_operation(struct slr_turn *turn);

/* The hash of a request's id and of all counters that it names, whatever their order. */
uint64_t slr_token_of(const struct slr_turn *turn);

/* Replies with what a reservation is committed by. */
void slr_reply_ticket(struct slr_turn *turn);

/* Tells the server, which asks for that, where the keys of a command of this form are. */
void slr_read_positions(const struct slr_turn *turn, const struct slr_form *form);

/* Reads a limit in the notation; one that was read lately costs 10 ns. False: `error` says why. */
SLUICE_MUST_USE bool slr_limit_read(struct sluice_limit *limit, struct sluice_bytes text, struct sluice_error *error);

/* ---- keys (keys.c) ----------------------------------------------------------------------------------------------- */

/* Opens the call's keys. False: one holds a value of another kind, and the reply has been given. */
SLUICE_MUST_USE bool slr_keys_open(struct slr_turn *turn, bool to_write);

/* Hands values that the call has changed to the server, with their expiry, and tells replicas. */
void slr_keys_keep(struct slr_turn *turn);

/* Closes what slr_keys_open() has opened. */
void slr_keys_close(struct slr_turn *turn);

/* Decides the call that has been read, and replies with an error where that fails: false. */
SLUICE_MUST_USE bool slr_turn_decide(struct slr_turn *turn);

/* Whether anybody is told of changes: an append-only file, a replica, or one that may come back (listen.c). */
bool slr_is_heard(void);

/* Has the server tell us when that may change. */
void slr_listen(struct RedisModuleCtx *context);

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* What fronts may say here: SLUICE.LEASE without arguments answers it. A module that takes no EXACT yet has an error
 * for that, which is how a front tells. */
enum { SLR_GRAMMAR = 2 };

/* One function for each command (docs/design/011-redis.md): each reads its arguments, replies once, and returns
 * SLR_REDIS_OK. A malformed call gets an error and changes nothing. */
slr_command_function slr_check;
slr_command_function slr_peek;
slr_command_function slr_refund;
slr_command_function slr_reset;
slr_command_function slr_hold;
slr_command_function slr_confirm;
slr_command_function slr_cancel;
slr_command_function slr_lease;
slr_command_function slr_acquire;
slr_command_function slr_release;
slr_command_function slr_renew;
slr_command_function slr_holders;
slr_command_function slr_reserve;
slr_command_function slr_commit;
slr_command_function slr_inspect;
slr_command_function slr_throttle;
slr_command_function slr_effect;

/* ---- the data type (type.c) -------------------------------------------------------------------------------------- */

extern struct RedisModuleType *slr_type;

/* Makes the type known to the server. False: it refused. */
SLUICE_MUST_USE bool slr_type_create(struct RedisModuleCtx *context);

/* Documents commands to the server, where it can be told (describe.c). */
void slr_describe(struct RedisModuleCtx *context);

#endif
