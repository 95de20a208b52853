/* One command: what the server has handed us, the call that is read out of it, and the keys it is about.
 *
 * Redis runs one command at a time, so there is one request, and its memory is used again by the next. */
#ifndef SLR_REQUEST_H
#define SLR_REQUEST_H

#include "hosts/redis/api.h"
#include "hosts/redis/decide.h"
#include "proto/command.h"

struct slr_request {
	struct RedisModuleCtx *context;
	struct RedisModuleString **args;
	uint32_t count;
	struct sl_command *command; /* what was read; its texts are those of `args` */
	struct slr_call *call;
	struct RedisModuleString *names[SLUICE_ITEMS_MAX]; /* of call->keys */
	struct RedisModuleKey *keys[SLUICE_ITEMS_MAX];     /* opened; NULL: not there, and opened for reading */
};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

struct slr_settings {
	bool client_time;    /* AT is allowed */
	bool client_effects; /* SLUICE.EFFECT is taken from anybody */
	uint64_t overrides_max; /* quotas of keys' own that may be set */
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

/* ---- reading (read.c, limits.c, ticket.c) ------------------------------------------------------------------------ */

/* The bytes of a string of the server's, which has them. */
static inline struct sluice_bytes slr_text(const struct RedisModuleString *string) {
	struct sluice_bytes text;
	text.data = slr_StringPtrLen(string, &text.len);
	return text;
}

/* An argument of the command; `index` is below request->count. */
static inline struct sluice_bytes slr_arg(const struct slr_request *request, uint32_t index) {
	return slr_text(request->args[index]);
}

/* Whether a text is a word, in either case. */
bool slr_is_word(struct sluice_bytes text, const char *word);

/* Replies with an error: one line, without the ERR that goes before it. */
__attribute__((format(printf, 2, 3))) void slr_fail(const struct slr_request *request, const char *format, ...);

/* Begins a request, with an empty call at this instant. */
void slr_request_begin(struct slr_request *request, struct RedisModuleCtx *context, struct RedisModuleString **args,
                       int count);

/* Reads the arguments of a command into request->call, or tells the server, which asks for that, where the keys are.
 * False: the reply has been given. */
SLUICE_MUST_USE bool slr_read_call(struct slr_request *request, enum sl_operation operation);

/* The same for CL.THROTTLE. */
SLUICE_MUST_USE bool slr_read_throttle(struct slr_request *request);

/* The place in the call of a key that has been named before; else after all of them. */
uint32_t slr_find_key(const struct slr_request *request, struct sluice_bytes key);

/* The key's place in the call, for `arg`; the first time it is added. */
uint8_t slr_read_key(struct slr_request *request, uint32_t index);

/* Item `i` of a call as its caller said it, to be printed: windows that are spread without the phase that their key has
 * given them.
 *  limit  memory for its limit */
struct sluice_item slr_item_said(const struct slr_call *call, uint32_t i, struct sluice_limit *limit);

/* Finds the keys of the limits of a ticket that was read, which no argument may say: these are made, if the caller's
 * user may change them; slr_request_end() frees them. False: the reply has been given. */
SLUICE_MUST_USE bool slr_take_ticket_keys(struct slr_request *request);

/* The user whom a command runs as, to be freed by slr_FreeModuleUser(); NULL: nobody. */
struct RedisModuleUser *slr_user_of(struct RedisModuleCtx *context);

/* Frees the names that a ticket's keys were given. */
void slr_request_end(struct slr_request *request);

/* The hash of a request's id and of all counters that it names, whatever their order. */
uint64_t slr_token_of(const struct slr_request *request);

/* What a reservation is committed by; until the next call. */
struct sluice_bytes slr_ticket_of(const struct slr_request *request);

/* Reads a limit in the notation; one that was read lately costs 10 ns. False: `error` says why. */
SLUICE_MUST_USE bool slr_limit_read(struct sluice_limit *limit, struct sluice_bytes text, struct sluice_error *error);

/* ---- keys (keys.c) ----------------------------------------------------------------------------------------------- */

/* Opens the call's keys. False: one holds a value of another kind, and the reply has been given. */
SLUICE_MUST_USE bool slr_keys_open(struct slr_request *request, bool to_write);

/* Hands values that the call has changed to the server, with their expiry, and tells replicas. */
void slr_keys_keep(struct slr_request *request);

/* Closes what slr_keys_open() has opened. */
void slr_keys_close(struct slr_request *request);

/* Whether the server has no memory for anything more. A call that is decided asks for itself. */
bool slr_request_is_full(struct slr_request *request);

/* Decides the call that has been read, and replies with an error where that fails: false. */
SLUICE_MUST_USE bool slr_request_decide(struct slr_request *request);

/* Whether anybody is told of changes: an append-only file, a replica, or one that may come back (listen.c). */
bool slr_is_heard(void);

/* Has the server tell us when that may change. */
void slr_listen(struct RedisModuleCtx *context);

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* What fronts may say here: SLUICE.LEASE without arguments answers it. A module that takes no EXACT yet has an error
 * for that, which is how a front tells; from 3 on ACQUIRE and RESERVE take UPTO. */
enum { SLR_GRAMMAR = 3 };

/* One command (docs/design/011-redis.md). Its function reads the arguments, replies once, and returns SLR_REDIS_OK. A
 * malformed call gets an error and changes nothing. */
struct slr_command_row {
	const char *name;
	slr_command run;
	enum sl_operation operation;    /* of the grammar, which says the rest of those that have no summary here */
	const char *flags, *categories; /* as the server names them; none is deny-oom: what finds no memory is denied,
	                                 * where it needs some (keys.c); all else goes on */
	bool reads;                     /* it changes no key */
	int8_t key_at;                  /* which argument is its key; 0: the first; -1: it has none */
	int arity;                      /* 0: the grammar's */
	const char *summary, *complexity; /* NULL: as commands about limits have it */
	const struct sl_argument *arguments;
	uint32_t argument_count;
};
extern const struct slr_command_row slr_commands[]; /* all of them; the last has no name */
extern const struct slr_command_row slr_override_commands[]; /* a container, and its subcommands (override_command.c) */

/* SLUICE.INSPECT of a key alone (inspect.c). */
int slr_inspect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count);

/* ---- the data type (type.c) -------------------------------------------------------------------------------------- */

extern struct RedisModuleType *slr_type;

/* Makes the type known to the server. False: it refused. */
SLUICE_MUST_USE bool slr_type_create(struct RedisModuleCtx *context);

/* Documents commands to the server, where it can be told (describe.c). */
void slr_describe(struct RedisModuleCtx *context);

#endif
