/* The RESP door from inside: what its files share. From outside it is `sl_door_resp` (door.h).
 *
 *   door.c     bytes in, requests dispatched, in order
 *   batch.c    decisions put off until the batch is full, then decided together and answered in order (answer.c)
 *   check.c    SLUICE.CHECK PEEK REFUND RESET ACQUIRE RELEASE RENEW HOLDERS RESERVE COMMIT and CL.THROTTLE, read by
 *              the grammar of all doors
 *   admit.c    SLUICE.ADMIT EXPLAIN WHY (admit_call.c)   connection.c  HELLO AUTH PING CLIENT ...
 *   session.c  who is logged in, and what of a session goes to another process
 *   info.c     INFO CONFIG CLUSTER                       command.c     the table, and COMMAND
 *   top.c      SLUICE.TOP     tail.c  SLUICE.TAIL        admin.c       SLUICE.RELOAD
 *   memo.c     commands that differ from one before in keys alone
 *   override.c SLUICE.OVERRIDE                           rule.c        SLUICE.RULE
 *   reply.c    values, as protocol 2 and 3 write them
 */
#ifndef SL_RESP_DOOR_H
#define SL_RESP_DOOR_H

#include "hosts/server/door/call_outcome.h"
#include "hosts/server/door/door.h"
#include "hosts/admission/ids.h"
#include "hosts/server/door/inspected.h"
#include "hosts/server/resp/memo.h"
#include "proto/command.h"
#include "proto/resp.h"

enum {
	SL_RESP_CALLS_MAX = 64,                /* decisions of one batch */
	SL_RESP_CACHE_LINES = 1024,            /* parsed limits that a worker remembers */
	SL_RESP_CACHE_TEXT_MAX = 59,           /* bytes of their text; a longer one is parsed each time */
	SL_RESP_SPARES = 4 * SLUICE_ITEMS_MAX, /* limits of one batch that the cache had no line for */
	SL_RESP_NAME_BYTES_MAX = 128,          /* CLIENT SETNAME, and SETINFO's two */
	SL_RESP_REPLY_BYTES_MAX = 512          /* one decision, or why there is none; a ticket comes on top */
};

/* What a client has said of itself. One a connection. */
struct sl_resp_session {
	uint64_t id;
	size_t need; /* bytes below which the unfinished request needs no look */
	sluice_ns opened;
	uint8_t protocol; /* 2 or 3 */
	uint32_t roles;             /* SL_ROLE_ bits of whom the client has logged in as; anonymous before */
	struct sl_login_kept login; /* its user is "default" before */
	bool silent;                          /* CLIENT REPLY OFF */
	bool skip;                            /* CLIENT REPLY SKIP: the next request's answer is not wanted */
	char name[SL_RESP_NAME_BYTES_MAX + 1];
	char lib_name[SL_RESP_NAME_BYTES_MAX + 1], lib_version[SL_RESP_NAME_BYTES_MAX + 1];
};

/* A limit whose text was parsed before. */
struct sl_resp_cached {
	uint32_t batch; /* the batch that last used it: its line may not be given to another text meanwhile */
	uint8_t len;    /* of text; 0 for an empty line */
	char text[SL_RESP_CACHE_TEXT_MAX];
	struct sluice_limit limit;
};

/* Decisions put off. Items and limits live until the batch is decided. */
struct sl_resp_batch {
	uint32_t number; /* counts batches; from 1 */
	uint32_t call_count, item_count, spare_count;
	size_t match_used; /* bytes of the context's match_buffer that hold keys */
	struct sluice_call calls[SL_RESP_CALLS_MAX];
	uint8_t operations[SL_RESP_CALLS_MAX]; /* enum sl_operation: which command asked, and so how it is answered */
	uint32_t given[SL_RESP_CALLS_MAX];     /* the words that it said: SL_SAYS() */
	struct sluice_item items[SL_RESP_CALLS_MAX * SLUICE_ITEMS_MAX];
	bool placed[SL_RESP_CALLS_MAX]; /* some of the call's limits are the policy's: the next two are filled */
	uint32_t positions[SL_RESP_CALLS_MAX * SLUICE_ITEMS_MAX];          /* of each item in the policy */
	struct sluice_decision each[SL_RESP_CALLS_MAX * SLUICE_ITEMS_MAX]; /* of each item */
	uint8_t shown[SL_RESP_CALLS_MAX]; /* items that answer; candidates stand after them; SL_OP_ADMIT only */
	uint8_t candidate_of[SL_RESP_CALLS_MAX][SLUICE_ITEMS_MAX];
	bool beyond[SL_RESP_CALLS_MAX]; /* the worker's match is its own, and has limits beyond; SL_OP_ADMIT only */
	struct sl_undecided undecided[SL_RESP_CALLS_MAX]; /* SL_OP_ADMIT only */
	uint32_t attribute_count;           /* of the worker's table: those of calls in the batch */
	uint32_t asked_from[SL_RESP_CALLS_MAX], asked_count[SL_RESP_CALLS_MAX]; /* and whose; SL_OP_ADMIT only */
	struct sluice_limit spares[SL_RESP_SPARES];
	char made[SL_RESP_CALLS_MAX][SL_ID_DIGITS + 1]; /* ids that the door gives */
};

/* The door's memory of one worker thread: about half a MiB, shared by all of its connections. */
struct sl_resp_worker {
	struct sl_resp_request request;
	struct sl_resp_batch batch;
	struct sluice_match match;
	struct sluice_attribute attributes[SL_RESP_ARGS_MAX / 2];
	struct sl_ticket ticket;
	struct sl_command command;
	struct sl_resp_memos memos;
	struct sl_resp_cached *recent; /* the line that was used last; NULL before */
	struct sl_resp_cached cache[SL_RESP_CACHE_LINES];
};

/* Where a request begins. */
struct sl_resp_mark {
	size_t bytes;      /* of the turn's before it */
	uint64_t commands; /* context->commands */
};

/* One request in hand. */
struct sl_resp_turn {
	struct sl_resp_session *session;
	struct sl_door_context *context;
	struct sl_resp_worker *worker;
	struct sl_resp_request *request;
	struct sluice_bytes bytes;             /* that it was parsed from */
	const struct sl_resp_command *command; /* that is run */
	struct sl_buffer *out;
	size_t unsaid; /* bytes of answers that the client did not want */
	bool heard;  /* CLIENT REPLY ON: this answer is given although the one before silenced it */
	bool close;  /* send what is there, then close */
	bool failed; /* the system gave no memory: the answers in `out` are not whole */
	/* Decisions are under way: nothing from `begun` on has happened, and nothing after `said` is said. */
	bool waits;
	struct sl_resp_mark at, begun; /* the request in hand; the first one that is not answered yet */
	size_t said;                   /* out->len when the turn began to wait */
};

/* ---- sessions (session.c) ---- */

/* Does anybody have to log in here? */
bool sl_resp_is_guarded(const struct sl_door_context *context);
/* Finds out anew what the session's client may do: a policy may have come that knows him no more, by another secret, or
 * in other roles. Some ns. */
void sl_resp_session_judge(struct sl_resp_session *session, const struct sl_door_context *context);
/* Ends a login. */
void sl_resp_session_logout(struct sl_resp_session *session);
/* Has the connection counted under the name and version that its client gave its library. */
void sl_resp_session_name_client(const struct sl_resp_session *session, struct sl_door_context *context);
/* As door.h says of pack and unpack. */
size_t sl_resp_session_pack(const void *state, char *bytes);
/* False for bytes that are no session's. */
bool sl_resp_session_unpack(struct sl_resp_session *session, const char *bytes, size_t len);

/* ---- the table of commands (command.c) ---- */

struct sl_resp_argument {
	const char *name, *type, *token; /* token: NULL where there is none */
	bool optional, multiple;
};

struct sl_resp_command {
	const char *name; /* lower case; of a subcommand, "client|id" */
	void (*run)(struct sl_resp_turn *turn);
	int16_t arity; /* arguments with the name; negative: at least so many */
	bool deferred; /* joins the batch instead of answering at once */
	int8_t first_key, last_key, key_step;
	const char *flags, *categories, *group, *summary; /* flags and categories: words with one space between */
	const struct sl_form *form; /* of those of the grammar, whose summary and arguments it tells; NULL: these do */
	uint8_t operation;          /* enum sl_operation, with it */
	const struct sl_resp_argument *arguments;
	const struct sl_resp_command *children; /* subcommands; a command that has some has no run() */
	uint8_t argument_count, child_count;
	uint8_t roles; /* SL_ROLE_ bits, one of which the caller needs; 0: any of them. The flag no_auth: none */
};

/* The command of a name, in any case; NULL where there is none. A few ns. */
const struct sl_resp_command *sl_resp_command_find(struct sluice_bytes name);
/* The subcommand that a name stands for; NULL where there is none. */
const struct sl_resp_command *sl_resp_command_child(const struct sl_resp_command *command, struct sluice_bytes name);
/* Whether a count of arguments fits a command. */
bool sl_resp_command_takes(const struct sl_resp_command *command, uint32_t count);

/* ---- the batch (batch.c) ---- */

/* Starts a call, deciding what has gathered if there is no room for it. Fill its items, which stand after those of the
 * batch, then sl_resp_call_end(); a call that is not ended leaves no trace. Never NULL. */
struct sluice_call *sl_resp_call_begin(struct sl_resp_turn *turn);
/* Says which limit of the policy an item of the call is; of items of which nothing is said, none. So they are counted
 * as such. */
void sl_resp_call_place(struct sl_resp_turn *turn, struct sluice_call *call, uint32_t index, uint32_t position);
/* Joins the call to the batch. */
void sl_resp_call_end(struct sl_resp_turn *turn, struct sluice_call *call, enum sl_operation operation,
                      uint32_t given);
/* Gives the call begun an id of the door's own making. */
void sl_resp_call_make_id(struct sl_resp_turn *turn, struct sluice_call *call);
/* Decides all that has gathered, together, and answers in order. Nothing to do is nothing done. Afterwards turn->waits
 * may be set: whoever goes on to do more than gather has to look. */
void sl_resp_flush(struct sl_resp_turn *turn);

/* Answers the decided calls of the batch, in order (answer.c). Sets turn->failed where there is no memory. */
void sl_resp_answer(struct sl_resp_turn *turn);

/* Looks into the counters of items (door/inspected.h). False: it waits, or has answered with an error (check.c). */
bool sl_resp_inspect_items(struct sl_resp_turn *turn, const struct sluice_item *items, const uint32_t *positions,
                           uint32_t count, sluice_ns now, struct sl_inspected *told);
/* Answers with the quota of a key's own, by names and values (proto/own_quota.h; check.c). */
void sl_resp_put_own_quota(struct sl_resp_turn *turn, const struct sluice_override *own);
/* Answers the i-th limit's part of INSPECT; `more` names with their values follow, which belong to it (check.c). */
void sl_resp_put_inspection(struct sl_resp_turn *turn, const struct sluice_item *item, const struct sl_inspected *told,
                            uint32_t i, uint32_t more);

/* The limit that a text stands for, parsed at most once while the cache has room for it.
 * Returns NULL with `error` filled where the text is no limit. The limit lives until the batch is decided. */
const struct sluice_limit *sl_resp_limit(struct sl_resp_turn *turn, struct sluice_bytes text,
                                         struct sluice_error *error);
/* The same for limits that are not made of notation: looks only. NULL where the text is not remembered. */
const struct sluice_limit *sl_resp_limit_recall(struct sl_resp_turn *turn, struct sluice_bytes text);
/* Remembers a limit under a text of the caller's choice, which no notation may equal; returns where it stands until the
 * batch is decided. */
const struct sluice_limit *sl_resp_limit_keep(struct sl_resp_turn *turn, struct sluice_bytes text,
                                              const struct sluice_limit *limit);

/* ---- admissions (admit_call.c) ---- */

/* What is matched: a request of a pattern, or any. */
struct sl_resp_matched {
	const struct sl_pattern *pattern; /* NULL: none */
	const struct sluice_attribute *attributes;
	uint32_t count;
	struct sluice_bytes member; /* of one without a pattern */
};

#define SL_RESP_UNDECIDABLE "ERR the request could not be decided"

/* Room for so many attributes of a call in the worker's table, after those of the calls that are put off; decides what
 * has gathered where there is none. */
struct sluice_attribute *sl_resp_attributes(struct sl_resp_turn *turn, uint32_t count);
/* Finds the limits that apply, into the worker's match; their keys and members stay in the match buffer until the batch
 * is decided. As sl_policy_match(). */
SLUICE_MUST_USE sluice_err sl_resp_match(struct sl_resp_turn *turn, const struct sl_resp_matched *matched);
/* Has what was found join the batch; `asked` says cost and want_next. */
struct sl_admission;
void sl_resp_admit_join(struct sl_resp_turn *turn, struct sl_admission *admission, const struct sluice_call *asked,
                        uint32_t given, const struct sl_resp_matched *matched);
/* Both of an ADMIT of a pattern, without words; `attributes` stand in the worker's table. */
void sl_resp_admit_alike(struct sl_resp_turn *turn, const struct sl_pattern *pattern,
                         const struct sluice_attribute *attributes, uint32_t cost);

/* How the grammar is this door's (check.c). */
extern const struct sl_command_door sl_resp_grammar;

/* ---- values (reply.c): all append to turn->out, and set turn->failed where there is no memory ---- */

/* Room for `more` bytes at the end of turn->out; NULL, and turn->failed, where there is no memory. Once an answer could
 * not be written nothing more is: what follows would be read as that answer. Cost: as sl_buffer_reserve(). */
static inline char *sl_reply_reserve(struct sl_resp_turn *turn, size_t more) {
	char *at = turn->failed ? NULL : sl_buffer_reserve(turn->out, more);
	turn->failed = at == NULL;
	return at;
}

/* An error: `text` begins with its code word and is one line; \r and \n become spaces. Answers what has gathered in the
 * batch before it. */
void sl_reply_error(struct sl_resp_turn *turn, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sl_reply_status(struct sl_resp_turn *turn, const char *text);
void sl_reply_integer(struct sl_resp_turn *turn, int64_t value);
void sl_reply_bulk(struct sl_resp_turn *turn, struct sluice_bytes text);
void sl_reply_text(struct sl_resp_turn *turn, const char *text);
/* Text for people: `=` with "txt:" in protocol 3. */
void sl_reply_verbatim(struct sl_resp_turn *turn, struct sluice_bytes text);
void sl_reply_null(struct sl_resp_turn *turn);
/* Heads of aggregates; `count` elements have to follow, of a map `count` pairs. */
void sl_reply_array(struct sl_resp_turn *turn, size_t count);
void sl_reply_map(struct sl_resp_turn *turn, size_t pairs);
void sl_reply_set(struct sl_resp_turn *turn, size_t count);
/* A set (or, where `array`, an array) of the words of a text, each a status. */
void sl_reply_words(struct sl_resp_turn *turn, const char *words, bool array);

static inline struct sluice_bytes sl_resp_arg(const struct sl_resp_turn *turn, uint32_t index) {
	return turn->request->args[index];
}

/* As door.h says of stream, may_stream and end_stream (tail.c). */
void sl_resp_stream(void *state, struct sl_door_context *context, struct sluice_bytes line, struct sl_buffer *out);
bool sl_resp_may_stream(void *state, struct sl_door_context *context);
void sl_resp_end_stream(void *state, struct sl_door_context *context, struct sl_buffer *out);

/* The commands, by file. */
void sl_resp_decide(struct sl_resp_turn *turn);
void sl_resp_hold(struct sl_resp_turn *turn);
void sl_resp_end(struct sl_resp_turn *turn);
void sl_resp_holders(struct sl_resp_turn *turn);
void sl_resp_inspect(struct sl_resp_turn *turn);
void sl_resp_throttle(struct sl_resp_turn *turn);
void sl_resp_admit(struct sl_resp_turn *turn);
void sl_resp_explain(struct sl_resp_turn *turn);
void sl_resp_rule(struct sl_resp_turn *turn);
void sl_resp_why(struct sl_resp_turn *turn);
void sl_resp_top(struct sl_resp_turn *turn);
void sl_resp_tail(struct sl_resp_turn *turn);
void sl_resp_reload(struct sl_resp_turn *turn);
void sl_resp_override_set(struct sl_resp_turn *turn);
void sl_resp_override_get(struct sl_resp_turn *turn);
void sl_resp_override_del(struct sl_resp_turn *turn);
void sl_resp_override_list(struct sl_resp_turn *turn);
void sl_resp_hello(struct sl_resp_turn *turn);
void sl_resp_auth(struct sl_resp_turn *turn);
void sl_resp_ping(struct sl_resp_turn *turn);
void sl_resp_echo(struct sl_resp_turn *turn);
void sl_resp_quit(struct sl_resp_turn *turn);
void sl_resp_reset(struct sl_resp_turn *turn);
void sl_resp_select(struct sl_resp_turn *turn);
void sl_resp_time(struct sl_resp_turn *turn);
void sl_resp_client_id(struct sl_resp_turn *turn);
void sl_resp_client_info(struct sl_resp_turn *turn);
void sl_resp_client_list(struct sl_resp_turn *turn);
void sl_resp_client_getname(struct sl_resp_turn *turn);
void sl_resp_client_setname(struct sl_resp_turn *turn);
void sl_resp_client_setinfo(struct sl_resp_turn *turn);
void sl_resp_client_no_evict(struct sl_resp_turn *turn);
void sl_resp_client_reply(struct sl_resp_turn *turn);
void sl_resp_info(struct sl_resp_turn *turn);
void sl_resp_config_get(struct sl_resp_turn *turn);
void sl_resp_no_cluster(struct sl_resp_turn *turn);
void sl_resp_drop(struct sl_resp_turn *turn);
void sl_resp_commands(struct sl_resp_turn *turn);
void sl_resp_command_count(struct sl_resp_turn *turn);
void sl_resp_command_info(struct sl_resp_turn *turn);
void sl_resp_command_docs(struct sl_resp_turn *turn);
void sl_resp_command_list(struct sl_resp_turn *turn);
void sl_resp_command_getkeys(struct sl_resp_turn *turn);
void sl_resp_help(struct sl_resp_turn *turn);

#endif
