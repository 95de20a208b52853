/* A limiter as a value of another language: what the bindings for Node and Python have in common. Plain C over the
 * library; no header of a language, nothing of RESP's framing.
 *
 *   language: its own values -> struct sl_asked -> sl_limiter_decide() -> struct sl_told -> its own values
 *
 * What is asked is written as the words of a command and read by the grammar of all doors (proto/command.h). So what
 * may be said of a key, a cost, an id or a limit, and what is wrong with it, stands in one place for servers, module
 * and languages, message by message; and over RESP a binding sends the same words (sl_asked_words()).
 *
 * Plain limits take a shorter way: sl_limiter_check() finds the limit by its text, parsed once, and calls
 * sluice_check(): 43 to 50 instructions beside it, no allocation. A caller may find one limit or several once and pass
 * them (struct sl_set). What is not so plain, or wrong, is left to sl_limiter_decide().
 *
 * Threads: every call from any thread, but sl_limiter_close(), after which nobody may use it. After fork() the child
 * goes on with it, under the caveats of sluice.h. Denied, failed and wrong are three things: a denial is told, what
 * failed or what the caller got wrong is a struct sl_failure. */
#ifndef SL_BINDINGS_HANDLE_H
#define SL_BINDINGS_HANDLE_H

#include "base/bytes.h"
#include "base/operation.h"

struct sl_limiter;

enum {
	SL_LIMITS_KEPT = 1024,     /* texts of limits that are kept parsed; those after them are parsed each time, 100 ns */
	SL_FAILURE_BYTES = 1152,   /* of a failure's text, with its NUL */
	SL_ASKED_LIMITS_MAX = 64,  /* limits of one struct sl_asked that are looked at: more are refused all the same */
	SL_ASKED_WORDS_MAX = 1024, /* arguments of a command */
};

/* What went wrong, as bindings tell it apart. */
enum sl_failure_kind {
	SL_FAILED_LIMIT,    /* "bad-limit": a text that is none, too many, or what the call can't be asked of */
	SL_FAILED_KEY,      /* "bad-key": too long */
	SL_FAILED_ARGUMENT, /* "bad-argument": a cost, an id, a ttl, an attribute; a store that can't be named so */
	SL_FAILED_UNKNOWN,  /* "not-found": no such reservation is open; no such store */
	SL_FAILED_BUSY,     /* "busy": a process that shares the store is stopped with a lock in hand */
	SL_FAILED_FULL,     /* "full": 255 processes have the store open */
	SL_FAILED_STORE,    /* "bad-store": what is there is no store that this version can use */
	SL_FAILED_SYSTEM,   /* "system": no permission, no space, no memory */
	SL_FAILED_POLICY,   /* "bad-policy": its text has mistakes; there is none */
	SL_FAILED_ACCESS,   /* "no-access": of a server: a password, a role */
	SL_FAILED_AWAY,     /* "away": of a server: not to be reached, or not in time */
	SL_FAILED_PROTOCOL, /* "protocol": of a server: an answer that can't be understood */
	SL_FAILURES
};

/* The word of a failure, as above; a constant. */
const char *sl_failure_name(enum sl_failure_kind kind);

/* Which kind the text of an error is, as the grammar words it, and as a server answers it: with or without "ERR " or
 * another word in capitals before it. */
enum sl_failure_kind sl_failure_kind_of(struct sluice_bytes text);

/* Why a call failed: for programs, and for people. */
struct sl_failure {
	enum sl_failure_kind kind;
	char text[SL_FAILURE_BYTES]; /* NUL-ended, no final period; a line each mistake of a policy */
	bool again;                  /* BUSY of a limiter that parks: ask again some ms later */
};

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* Texts are borrowed for the call; len 0: not said. */
struct sl_limiter_options {
	struct sluice_bytes store;  /* `memory` (also if not said), `shared:NAME`, or a path with a slash in it */
	struct sluice_bytes memory; /* `64MiB`, or bytes in digits: sluice_store_options.memory_bytes */
	struct sluice_bytes policy; /* a policy's YAML, or the path of its file: a text with a line break, or with a colon
	                             * before a space, is YAML */
};

/* Opens a limiter: its store, and its policy. It is yours: sl_limiter_close(). False with `failure` filled. As long as
 * sluice_store_open(): the first process that opens an existing store checks all of it. On machines other than x86-64
 * it fails, and says that a server is to be used. */
SLUICE_MUST_USE bool sl_limiter_open(struct sl_limiter **limiter, const struct sl_limiter_options *options,
                                     struct sl_failure *failure);

/* Gives all of it back. NULL is allowed. Nobody may be in a call. */
void sl_limiter_close(struct sl_limiter *limiter);

/* Puts another policy, as in the options, in the place of the one that is there. False with `failure` filled, all
 * mistakes in it, and the one before goes on; so with a policy without limits that doesn't say `limits: []`. Calls that
 * are under way end with the policy that they began with. */
SLUICE_MUST_USE bool sl_limiter_reload(struct sl_limiter *limiter, struct sluice_bytes policy,
                                       struct sl_failure *failure);

/* May a call wait for another process? Of shared stores and files, where one is stopped with a lock in hand: then 10 s,
 * once. Never of private memory, but for threads of the same process. */
bool sl_limiter_may_wait(const struct sl_limiter *limiter);

/* From now on no call waits for a process that is stopped: it fails, with `again` said, and whoever asks it again, at
 * his own pace, says `last` when he will not any more. For event loops. Of the store: all limiters of this process that
 * have it open. */
void sl_limiter_park(struct sl_limiter *limiter);

/* The store, for what is not said here; it lives as long as the limiter. */
struct sluice_store *sl_limiter_store(const struct sl_limiter *limiter);

/* ---- one plain limit --------------------------------------------------------------------------------------------- */

/* Decides and charges one request of one key against one limit, by the store's clock. SLUICE_OK with `decision` filled.
 * Anything else: that is not all there is to it, or it failed; nothing was charged, and sl_limiter_decide() decides it,
 * or says what is wrong. */
SLUICE_MUST_USE sluice_err sl_limiter_check(struct sl_limiter *limiter, struct sluice_bytes key,
                                            struct sluice_bytes limit, uint32_t cost,
                                            struct sluice_decision *decision);

/* The same at an instant: Unix ns, at most SL_AT_NS_MAX; 0: the store's clock says it. */
SLUICE_MUST_USE sluice_err sl_limiter_check_at(struct sl_limiter *limiter, struct sluice_bytes key,
                                               struct sluice_bytes limit, uint32_t cost, sluice_ns now,
                                               struct sluice_decision *decision);

/* ---- several plain limits of one key ----------------------------------------------------------------------------- */

/* Limits that a caller asks by again and again, found once. */
struct sl_set {
	const struct sluice_limit *limits[SLUICE_ITEMS_MAX]; /* the limiter's, as long as it is open */
	uint32_t count;
	uint32_t algorithms; /* a bit each: they say at which instant it is decided */
};

/* Finds limits by their texts, and keeps those that are new. False where one of them is no limit, or needs a lease or a
 * member, where there are none or too many, or no room to keep them: then sl_limiter_decide() decides, or says what is
 * wrong. 10 ns each that is kept. */
SLUICE_MUST_USE bool sl_limiter_set(struct sl_limiter *limiter, const struct sluice_bytes *texts, uint32_t count,
                                    struct sl_set *set);

/* Decides one request of one key against all limits of a set, by the store's clock, and charges all or none, as
 * sl_limiter_check() does one. The index counts the limits of the set. */
SLUICE_MUST_USE sluice_err sl_limiter_check_set(struct sl_limiter *limiter, const struct sl_set *set,
                                                struct sluice_bytes key, uint32_t cost,
                                                struct sluice_decision *decision);

/* ---- the full form ----------------------------------------------------------------------------------------------- */

/* One limit of what is asked. data NULL: the key, or the member, of all. */
struct sl_asked_limit {
	struct sluice_bytes text, key, member;
};

/* What is asked. Zeroed fields are left out; numbers are checked, so whatever a language has may be passed on. */
struct sl_asked {
	enum sl_operation operation; /* one of the public header, or SL_OP_ADMIT */
	struct sluice_bytes key;
	const struct sl_asked_limit *limits;
	uint32_t limit_count;
	const struct sluice_attribute *attributes; /* ADMIT */
	uint32_t attribute_count;
	int64_t cost;               /* of COMMIT the true one */
	int64_t ttl_ms;             /* RESERVE */
	struct sluice_bytes id;     /* data NULL: none. Of a lease; of RELEASE and RENEW also a ticket; of COMMIT that, or
	                             * the id of the reservation with its limits */
	struct sluice_bytes member; /* data NULL: none */
	bool upto, next, each;
	bool last;                  /* of a limiter that parks: what is busy now is busy for good */
	bool open;     /* ADMIT over RESP: tell whether it passes undecided. Without meaning in process */
	sluice_ns now; /* as in sl_limiter_check_at() */
};

/* A limit of the policy that a request met. */
struct sl_told_limit {
	struct sluice_bytes name, text; /* as the policy calls it; canonical, NUL-ended */
	bool observed;                  /* it denies nobody */
};

/* What was decided. */
struct sl_told {
	struct sluice_decision merged; /* its index counts the limits of what was asked; of ADMIT the policy's */
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	uint32_t each_count;      /* of ADMIT as many as apply */
	uint32_t count;           /* RESET, RELEASE, RENEW: of how many counters */
	uint32_t granted;         /* of the cost */
	bool repeated;            /* it had been charged before, under this id */
	bool failed_open;         /* ADMIT: the store can't answer, and the policy's on-error lets it pass */
	struct sluice_bytes id;   /* of what is held now: a lease's id, a ticket; data NULL: nothing is */
	struct sluice_bytes name; /* ADMIT: of the limit that decided; len 0: none applied */
	const struct sl_told_limit *limits; /* ADMIT with `each`: of each of them; else NULL */
	void *memory;                       /* the limiter's: what the three above are in */
};

/* Decides what is asked, all or nothing. True with `told` filled, which sl_told_end() ends; false with `failure`, and
 * nothing charged. Some 300 ns beside sluice_decide(); memory is taken from the system only while several threads are
 * in it. */
SLUICE_MUST_USE bool sl_limiter_decide(struct sl_limiter *limiter, const struct sl_asked *asked, struct sl_told *told,
                                       struct sl_failure *failure);

/* Gives back what `told` points to. */
void sl_told_end(struct sl_limiter *limiter, struct sl_told *told);

/* Who holds leases of a limit of concurrency: fills `list` and `count`, those that end first first; the list is the
 * caller's to free(). False with `failure` filled. `now` as in sl_limiter_check_at(). O(n log n). */
SLUICE_MUST_USE bool sl_limiter_holders(struct sl_limiter *limiter, struct sluice_bytes key, struct sluice_bytes limit,
                                        sluice_ns now, struct sluice_holder **list, uint32_t *count,
                                        struct sl_failure *failure);

/* How many counters of the store count. False with `failure` filled. Walks the store: O(size). */
SLUICE_MUST_USE bool sl_limiter_counters(struct sl_limiter *limiter, uint64_t *count, struct sl_failure *failure);

/* ---- over RESP --------------------------------------------------------------------------------------------------- */

/* Numbers of a command, as texts. */
struct sl_asked_numbers {
	char cost[24], ttl[24], at[24];
};

/* What is asked as the words of a command, its name ("SLUICE.CHECK") first: what a server is to be sent. Fills at most
 * SL_ASKED_WORDS_MAX words, which point into what was asked, `numbers`, and constants; returns how many; 0 with
 * `failure` where there are more, or ADMIT has no attribute. */
uint32_t sl_asked_words(const struct sl_asked *asked, struct sl_asked_numbers *numbers, struct sluice_bytes *words,
                        struct sl_failure *failure);

/* Writes the ticket of a reservation that was made under an id of the caller's, `asked->id`, of these limits and this
 * key, as RESERVE answered it: so that COMMIT can be asked where that answer was lost. Returns its length; 0 with
 * `failure` filled: a limit, or the key, is none. */
size_t sl_asked_ticket(const struct sl_asked *asked, char *text, struct sl_failure *failure);
enum { SL_ASKED_TICKET_BYTES = 26 * 1024 }; /* room that `text` has to have */

/* All limits' answers, of which a server told seven numbers each (the word EACH), as one: fills merged, each,
 * each_count. False for numbers that are none.
 *  texts  of the limits, as they were asked */
SLUICE_MUST_USE bool sl_told_merge(struct sl_told *told, const int64_t (*numbers)[7], const struct sluice_bytes *texts,
                                   uint32_t count);

#endif
