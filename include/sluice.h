/* Sluice: rate limiting by sliding windows, exact where it says exact.
 *
 * The one public header. Simple calls first (open a store, parse a limit, check), then the full form (several limits
 * and keys, all or nothing; batches), then policies.
 *
 * Caveats first
 *  - A store in a file or in shared memory is shared by all processes of one host that open it, also across containers
 *    with namespaces of their own, but never by two hosts or two kernels: a network filesystem, or one shared with a
 *    virtual machine, is not supported and would corrupt nothing but count wrongly.
 *  - Who holds a lock is told by POSIX record locks on the file, which the kernel drops when a process closes *any*
 *    descriptor of it: a process that has a store open must not open() and close() its file by other means (to back it
 *    up, say: copy it from another process, best with all users stopped; see `sluice store dump`).
 *  - After fork() the child goes on with every store that it inherited: shared ones stay shared, private ones become a
 *    copy of its own. 255 processes may have a store open, forked ones included: a child beyond them gets
 *    SLUICE_E_BUSY until it opens the store again when there is room. Processes made by a bare clone() system call must
 *    open the store themselves, and not go on with one that they inherited.
 *  - Nobody may truncate a store's file while it is open: the kernel would end its users by SIGBUS. Its disk space is
 *    reserved when it is created, so that a full disk can't.
 *  - A process that dies inside a call, at whatever instruction, leaves every counter whole, with its call charged in
 *    full, in part, or not. Others may wait for the death to be noticed, some milliseconds, once.
 *  - A process that is stopped inside a call (SIGSTOP, a freezer, a debugger) goes on with that call when it may: its
 *    locks are never taken from it. Others that need one of them wait until it moves, 10 s at least, once; then their
 *    calls that need one return SLUICE_E_BUSY at once, until it has moved. All other calls go on. Threads of one
 *    process wait for each other in the same way.
 *  - After a power cut the file may be torn: the first process to open it checks all of it, drops what is torn and
 *    counts what it dropped. That walk is O(size): about 0.3 s a GiB.
 *  - A file belongs to the version of the format and the kind of machine that wrote it; others refuse it.
 *  - The bounds printed in docs/limits.md hold while the store is not full. A full store evicts: first what counts no
 *    longer, then the least used counters of its neighbourhood, whose use is remembered conservatively; a key never
 *    starts with more than its quota. A limit whose counter can't be kept all the same (a log, or leases, that would
 *    take more than a quarter of the store's blocks; all counters of a neighbourhood in use by calls at this instant)
 *    denies, and the decision says so: SLUICE_BOUND_ROOM.
 *  - Instants are Unix nanoseconds that you pass in, or that sluice_store_now() reads. A counter's clock never runs
 *    backwards: an instant before its last charge counts as the instant of that charge.
 *  - A log (sliding-log) keeps instants rounded up to 1 ms: nothing expires early, nothing more than 1 ms late.
 *  - Denied is a decision, not an error: look at `allowed` only after the call returned SLUICE_OK.
 *
 * Every call is safe from any thread on any store, limit or policy, except that a store or a policy must not be closed
 * while another thread uses it. No call keeps a pointer it was given, unless its comment says so.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_VERSION "0.1.0"

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#define SLUICE_MUST_USE __attribute__((warn_unused_result))
#else
#define SLUICE_API
#define SLUICE_MUST_USE
#endif

/* All time. Instants are nanoseconds since the Unix epoch; waits are nanoseconds, saturating below SLUICE_NEVER (a wait
 * of more than 584 years is reported as 584 years). */
typedef uint64_t sluice_ns;
#define SLUICE_NEVER UINT64_MAX /* a retry_after that no wait satisfies: the cost is above the quota */

enum {
	SLUICE_ITEMS_MAX = 16,       /* limits in one decision */
	SLUICE_KEY_BYTES_MAX = 1024, /* bytes of a key, or of an attribute's value, at every door */
	SLUICE_NAME_BYTES_MAX = 64,  /* bytes of a limit's or an attribute's name */
	SLUICE_ID_BYTES_MAX = 64,    /* bytes of the id of a lease, a reservation or a retried request */
	SLUICE_LIMIT_TEXT_MAX = 128, /* bytes of any canonical limit, with its NUL */
	SLUICE_PENALTIES_MAX = 8,    /* steps of one escalation */
};

/* What a call says of itself. Negative is failure: nothing was charged and nothing was changed. */
typedef enum sluice_err {
	SLUICE_OK = 0,
	SLUICE_E_SYNTAX = -1, /* text that does not follow the notation or the policy format */
	SLUICE_E_RANGE = -2,  /* a number, a length or a count outside its documented range */
	SLUICE_E_FULL = -3,   /* no room for what is copied into a store; of no call that decides: there sluice_bound is */
	SLUICE_E_MEMORY = -4, /* the system gave no memory */
	SLUICE_E_SYSTEM = -5, /* a file or a clock could not be read; the error's text says which and why */
	SLUICE_E_MISUSE = -6, /* a null pointer, an unknown operation */
	SLUICE_E_NONE = -7,   /* there is no such store */
	SLUICE_E_STORE = -8,  /* not a store that this version can use */
	SLUICE_E_BUSY = -9,   /* others hold it, or one who is stopped holds a lock that the call needs */
	SLUICE_E_AWAY = -10,  /* the store is on another host and did not answer in time. The library itself has no such
	                       * stores: of servers in front of Redis */
	SLUICE_E_APART = -11, /* counters that have to change in one step lie on several nodes: likewise */
} sluice_err;

/* Borrowed bytes: never NUL-ended, never kept by a call. `data` may be NULL where `len` is 0. */
struct sluice_bytes {
	const void *data;
	size_t len;
};

/* Why a call failed, for a person. `column` counts bytes from 1 in the text that was parsed; 0 where none applies. */
struct sluice_error {
	uint32_t column;
	char text[252]; /* NUL-ended, one line, no final period */
};

/* ---- limits ------------------------------------------------------------------------------------------------ */

typedef enum sluice_algorithm {
	SLUICE_UNLIMITED = 0,
	SLUICE_FIXED_WINDOW = 1,
	SLUICE_SLIDING_WINDOW = 2,
	SLUICE_SLIDING_BUCKETS = 3,
	SLUICE_SLIDING_LOG = 4,
	SLUICE_TOKEN_BUCKET = 5,
	SLUICE_LEAKY_BUCKET = 6,
	SLUICE_CONCURRENCY = 7,
	SLUICE_DISTINCT = 8,
	SLUICE_SPREAD = 16, /* a bit beside SLUICE_FIXED_WINDOW or SLUICE_SLIDING_WINDOW: `spread` */
} sluice_algorithm;

typedef enum sluice_edge {
	SLUICE_EDGE_COUNT = 0, /* sliding-buckets */
	SLUICE_EDGE_DROP = 1,
	SLUICE_EDGE_WEIGHTED = 2,
	SLUICE_EDGE_DENY = 3, /* distinct above 1,024: whom an estimate does not know is denied once it is full, */
	SLUICE_EDGE_ALLOW = 4 /* or admitted, where he would not raise it */
} sluice_edge;

/* A window of the calendar: fixed windows that start with the hour, day, Monday, month or year of a time zone. */
typedef enum sluice_calendar {
	SLUICE_CALENDAR_NONE = 0,
	SLUICE_CALENDAR_HOUR = 1,
	SLUICE_CALENDAR_DAY = 2,
	SLUICE_CALENDAR_WEEK = 3,
	SLUICE_CALENDAR_MONTH = 4,
	SLUICE_CALENDAR_YEAR = 5,
} sluice_calendar;

/* A limit: an algorithm with its numbers, validated. Fill it with sluice_limit_parse() only; the fields up to
 * `precision_ns` may be read, the rest is derived. A value: copy it freely, it owns nothing. */
struct sluice_limit {
	uint8_t algorithm;      /* enum sluice_algorithm; with SLUICE_SPREAD, the windows of each key begin at a phase of
	                         * its own */
	uint8_t edge;           /* enum sluice_edge; sliding-buckets, and distinct above a quota of 1,024 */
	uint16_t bucket_count;  /* n = W / P, 2..4096; sliding-buckets only */
	uint32_t quota;         /* Q, in units of cost; N of concurrency */
	uint32_t burst;         /* B of token-bucket, N of leaky-bucket's queue; of distinct above a quota of 1,024 its
	                         * registers; with SLUICE_SPREAD the phase that was said, in 131072ths of W, plus 1; else
	                         * 0 */
	uint16_t calendar;      /* enum sluice_calendar; fixed-window only */
	uint16_t zone;          /* which time zone of this process's: src/algo/calendar.h */
	sluice_ns window_ns;    /* W, 1 ms .. 3660 d; 0 for unlimited; T of concurrency; of a calendar the longest that it
	                         * can be */
	sluice_ns precision_ns; /* P, sliding-buckets only */
	uint64_t derived[6];    /* constants of the algorithm and the identity of its counters: src/algo/rule.h */
};

/* Parses one limit in the notation (`100/60s`, `sliding-log 400k/1m`, `token-bucket 10/1s burst 100`, `unlimited`).
 *  limit   out; untouched on failure
 *  error   out, may be NULL: the column, what was found and what was expected
 * Returns SLUICE_OK, SLUICE_E_SYNTAX, or SLUICE_E_RANGE for a number out of range. About 100 ns; no allocation. The
 * first limit of a time zone reads it from the host's tzdata, once, some 100 us. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_limit_parse(struct sluice_limit *limit, struct sluice_bytes text,
                                                         struct sluice_error *error);

/* Writes the canonical text of a limit (`sliding-window 100/1m`), NUL-ended; parsing it gives an equal limit.
 *  text    out, at least SLUICE_LIMIT_TEXT_MAX bytes
 * Returns its length without the NUL; never fails. */
SLUICE_API size_t sluice_limit_print(const struct sluice_limit *limit, char text[SLUICE_LIMIT_TEXT_MAX]);

/* ---- decisions ---------------------------------------------------------------------------------------------- */

/* A bound of ours that a decision met: what callers bring along, or load, can go beyond what is kept of a counter. That
 * is no error. Either the limit denies, whatever its quota says: remaining 0, and a retry_after by which the bound can
 * have passed; or it is kept more coarsely, on the safe side. The other limits of the call are decided as ever. */
typedef enum sluice_bound {
	SLUICE_BOUND_NONE = 0,         /* the limit's own quota decided */
	SLUICE_BOUND_LIMITS = 1,       /* denies: more than SLUICE_ITEMS_MAX limits of a policy apply to the request */
	SLUICE_BOUND_ROOM = 2,         /* denies: the store has no room for the counter, its log or its leases */
	SLUICE_BOUND_RESERVATIONS = 3, /* denies: more reservations of the counter are open than are kept: 16,384, or what a
	                                * quarter of the store's blocks holds */
	SLUICE_BOUND_HOLDS = 4,        /* denies: too many calls over several nodes hold the counter at a time. Where
	                                * counters are in Redis */
	SLUICE_BOUND_QUEUE = 5,        /* denies: too much waits for the store already. Likewise */
	SLUICE_BOUND_KEY = 6,          /* denies nobody: a key too long for the store is kept as its hash. Likewise */
} sluice_bound;
enum { SLUICE_BOUNDS = 7 };

/* "limits", "room", "reservations", "holds", "queue", "key"; "none" for SLUICE_BOUND_NONE, and for what is none. Owned
 * by the library. */
SLUICE_API const char *sluice_bound_name(sluice_bound bound);

/* What a client should know. Waits are counted from the instant of the decision (or from the counter's last charge,
 * where that is later). */
struct sluice_decision {
	bool allowed;
	uint8_t bound;            /* enum sluice_bound that the limit met; merged: that of the limit that decided */
	int32_t index;            /* position of the limit that decided, from 0; -1 where none applied */
	uint32_t remaining;       /* the largest cost that would be admitted now, after this decision */
	uint64_t quota;           /* Q; B for token-bucket; N + 1 for leaky-bucket; 4294967295 where no limit applied */
	sluice_ns retry_after_ns; /* 0 when allowed; else the exact wait that admits the same cost; or SLUICE_NEVER */
	sluice_ns reset_after_ns; /* the wait until the whole quota is back */
	sluice_ns delay_ns;       /* leaky-bucket: how long to hold the request; else 0 */
	sluice_ns next_after_ns;  /* the wait until `remaining` grows by one; 0 while the whole quota is free. Filled only
	                           * for calls that ask for it (sluice_call.want_next), else 0 */
};

/* ---- the store ---------------------------------------------------------------------------------------------- */

struct sluice_store;

/* Where a store lives: in memory of this process, unless `file` or `shared` names another home (not both). */
struct sluice_store_options {
	/* Of the whole arena, rounded down to 4 KiB; 1 MiB .. 256 GiB. 0: 64 MiB for a new one, and for one that exists
	 * whatever it has. Private memory is taken from the system as it is used, that of a file or shared at once (Docker
	 * gives /dev/shm 64 MiB in all, unless told otherwise: --shm-size). */
	uint64_t memory_bytes;
	uint32_t blocks_percent; /* share of it for logs and sub-buckets, 1..98; 0 for 50. The rest holds the counters. Only
	                          * for a new one: an existing store keeps its own */
	const char *file;        /* path of a file on a local filesystem; created where there is none, unless `existing` */
	const char *shared;      /* name of memory shared by the processes of this host, 1..200 of [A-Za-z0-9._-]; it stays
	                          * until the host restarts or sluice_store_forget() */
	uint32_t mode;           /* permissions of what is created, 0..0777; 0 for 0600. The umask applies. All users of a
	                          * store must be able to read and write it */
	bool existing;           /* do not create: SLUICE_E_NONE where there is none */
	bool pretouch;           /* sluice_store_pretouch() is going to be called: private memory comes in small pages until
	                          * then, so that no call waits while the system clears a huge one. Else it is ignored */
};

/* Opens a store. `options` may be NULL. The store is yours: close it with sluice_store_close(). A process may open the
 * same file or shared memory several times: it is given the same store each time, and closes it as often. The first
 * process to open one that exists checks all of it, O(size); others join in well under a millisecond, or wait for one
 * that is opening it. Forks wait for openings.
 * Returns SLUICE_OK, or with `error` (may be NULL) saying more, in which case a file is left as it was:
 *  SLUICE_E_RANGE   a size or name out of range; a size that is not the one that the store was created with
 *  SLUICE_E_NONE    there is none, and `existing` was said
 *  SLUICE_E_STORE   it is none of ours, of another version, truncated, damaged in its header, or was made on another
 *                   kind of machine; a folder, a symbolic link, a pipe, a device
 *  SLUICE_E_BUSY    another process has been opening it for 10 s; 255 processes have it open
 *  SLUICE_E_MEMORY  the system gave no memory for it
 *  SLUICE_E_SYSTEM  the system refused the file: no permission, no space; or it is on a network filesystem
 *  SLUICE_E_MISUSE  both `file` and `shared` */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_store_open(struct sluice_store **store,
                                                        const struct sluice_store_options *options,
                                                        struct sluice_error *error);

/* Brings in private memory of a store ahead, so that no call waits for the system: the first 128 calls of a store of
 * 256 MiB may take 16 to 460 ms of processor without it. To be called on a thread of its own, beside others that use
 * the store, until it returns 0. What counters hold is unchanged.
 *  from   0 at first, then what the call before returned
 *  bytes  about how much one call brings in, 1 and more; what it has begun of 2 MiB it finishes
 * Returns where to go on; 0: all is there, as always for a store in a file or in shared memory. 0.5 to 2 s of processor
 * a GiB, in all. */
SLUICE_API uint64_t sluice_store_pretouch(struct sluice_store *store, uint64_t from, uint64_t bytes);

/* Closes a store, as often as it was opened. Private memory is given back; what is in a file or shared memory stays.
 * NULL is allowed. */
SLUICE_API void sluice_store_close(struct sluice_store *store);

/* Removes the name of shared memory; processes that have it open go on with it. SLUICE_OK, SLUICE_E_NONE, _SYSTEM. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_store_forget(const char *shared, struct sluice_error *error);

/* The store's clock: Unix nanoseconds from CLOCK_BOOTTIME, anchored to wall time once. All processes that share a store
 * read the same clock; a step of the wall clock, a suspend and a restart of any of them change nothing. When the host
 * has restarted the first opener anchors it anew: to wall time or, where that lies earlier, to the latest instant that
 * the clock had reached, from which it goes on: it never runs back. So a store whose clock was set while the host was
 * in 2036 by mistake stays there; its counters are right all the same. About 30 ns. */
SLUICE_API sluice_ns sluice_store_now(const struct sluice_store *store);

/* The clock of a process without a store; that of private stores. */
SLUICE_API sluice_ns sluice_now(void);

/* What a store is and holds. */
struct sluice_store_stats {
	uint64_t memory_bytes, blocks_percent;
	uint64_t slots, slots_used, slots_expired; /* expired ones are used ones that count no longer */
	uint64_t slots_spilled;                    /* in another bucket than their own */
	uint64_t slots_with_block;
	uint64_t block_bytes, block_bytes_free; /* what counters keep in blocks; and what is free */
	uint64_t sketch_bytes;
	uint64_t uses[8];     /* counters in use by how much of their quota was used: up to 1/32, 1/16, 1/10, 1/5, 2/5, 3/4,
	                       * less than all, all */
	uint64_t evicted;     /* counters in use that made room for others, since the store was created */
	uint64_t from_sketch; /* counters that started with less than their quota for it */
	uint64_t recoveries;  /* locks taken from processes that had died */
	uint64_t repairs;     /* times that a first opener checked all of it */
	uint64_t dropped;     /* counters that were dropped then, as torn */
	uint64_t given_up;    /* calls of this process that were not decided, since another process had stopped with a lock
	                       * in hand: SLUICE_E_BUSY */
	uint32_t stopped;     /* processes that this one takes for stopped now */
	uint32_t passed_over; /* buckets that sluice_store_stats() could not look at for that */
	uint32_t processes;   /* that have it open */
	sluice_ns created_ns; /* wall time */
	uint64_t overrides;      /* quotas of keys' own (sluice_override_set()); those that have ended may be among them */
	uint64_t overrides_most; /* of which it holds so many: a quarter of its slots, or a half of its blocks
	                          * where those are less */
};

/* Fills `stats`, walking the whole store beside its users: O(size), about 0.3 s a GiB. One that has stopped with a lock
 * in hand is waited for once, as by any call; then what it has locked is passed over. In a child that has no room
 * among the processes (see the caveats) the figures of slots are 0. */
SLUICE_API void sluice_store_stats(struct sluice_store *store, struct sluice_store_stats *stats);

/* Checks every structure and reference of a store that nobody else uses at this time. Returns NULL or what is wrong.
 * O(size). */
SLUICE_API const char *sluice_store_verify(const struct sluice_store *store);

/* ---- deciding: the simple call ------------------------------------------------------------------------------- */

/* Decides one request of one key against one limit, now, and charges it if it is allowed.
 *  cost    0..4294967295; 0 charges nothing and is always allowed
 * Returns SLUICE_OK with `decision` filled, or SLUICE_E_BUSY (a forked child without room, a process that is stopped:
 * see the caveats), SLUICE_E_MISUSE. Tens of ns for a key in cache, one miss of memory otherwise; no allocation from
 * the system. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_check(struct sluice_store *store, const struct sluice_limit *limit,
                                                   struct sluice_bytes key, uint32_t cost,
                                                   struct sluice_decision *decision);

/* ---- deciding: the full form --------------------------------------------------------------------------------- */

typedef enum sluice_operation {
	SLUICE_CHARGE = 0, /* decide; charge every limit if all admit, none otherwise */
	SLUICE_PEEK = 1,   /* decide with the same cost, charging and creating nothing */
	SLUICE_REFUND = 2, /* give `cost` back, newest charges first, at most what they hold; answers as a peek of cost 0 */
	SLUICE_RESET = 3,  /* forget the counters; `forgotten` says how many there were */
	/* Leases: calls with limits of concurrency, and any others beside them, all or nothing. `id` names the lease. */
	SLUICE_ACQUIRE =
		4, /* CHARGE, and a lease of `cost` at each limit of concurrency. Where all of those hold a lease of
	                     * this id already, nothing is charged anew: `repeated` */
	SLUICE_RELEASE = 5, /* end the lease; `found` says of how many counters: 0 where it had ended, or never was */
	SLUICE_RENEW = 6,   /* let it end T from now; `found` likewise. Other limits take no part in either */
	/* Reservations: a cost that is known only afterwards. Not for concurrency or distinct. `id` names it. */
	SLUICE_RESERVE = 7, /* CHARGE, and what was charged goes back `ttl_ns` later unless it is committed; where that is
	                     * 0, at those limits only whose item says a ttl. With the id of an open reservation nothing
	                     * is charged anew: `repeated` */
	SLUICE_COMMIT = 8, /* the true cost is `cost`: corrects what was charged, at the instant at which it was, also above
	                     * the quota; `found` says of how many counters: 0 where it was committed before or has ended,
	                     * and nothing changed. Answers as a peek of cost 0 */
} sluice_operation;

/* Limits that take no part in the merged answer, and deny nobody. */
enum {
	SLUICE_OBSERVED = 1, /* decided alone, and charged when the request is allowed and it admits; the same as `true` */
	SLUICE_TRIED = 2,    /* decided alone, never charged: it sees what others charge to the counter that it shares */
};

/* What else may be said of a limit. Part of a policy's limit, never of the identity of its counters. */
struct sluice_terms {
	/* Every request that the limit judges is charged to it, allowed or not; counts saturate, a log keeps the newest Q
	 * units, a bucket is emptied at most. Not for concurrency and distinct. */
	bool count_denied;
	/* Escalation: who is denied `after` times within `within_ns` is shut out for penalties_ns[0]; the next time for
	 * penalties_ns[1], and so on; the last one repeats. What is asked during it counts as no denial and prolongs
	 * nothing. Forgiven, back to the first, when nothing was denied for `forgive_ns` since. */
	uint8_t penalty_count; /* 0: none; at most SLUICE_PENALTIES_MAX */
	uint16_t after;        /* 1..64 */
	sluice_ns within_ns, forgive_ns;
	sluice_ns penalties_ns[SLUICE_PENALTIES_MAX]; /* rising */
};

/* One limit of a request, with the key that it counts for. Zeroed fields are left out. */
struct sluice_item {
	const struct sluice_limit *limit; /* borrowed for the call */
	struct sluice_bytes key;          /* any bytes, any length; borrowed for the call */
	uint8_t observed;                 /* 0: enforced; SLUICE_OBSERVED, SLUICE_TRIED */
	uint8_t bound;                    /* enum sluice_bound that the limit has met before: it denies, for good, and its
	                                   * counter is not looked at. As sluice_policy_match() fills it */
	uint8_t quota;                    /* 1: it denies only where all limits of the call that say so deny; where one of
	                                   * them admits, those that don't are observed. 0: it denies by itself */
	uint32_t cost;                    /* what this limit is charged, where it is not the call's cost: 0 is the call's.
	                                   * 0 in calls with `upto` */
	struct sluice_bytes member; /* distinct: who is counted; any bytes, data not NULL. Without one a PEEK decides for
	                                   * a stranger, and a CHARGE is a misuse */
	const struct sluice_terms *terms; /* borrowed for the call; NULL: none */
	sluice_ns ttl_ns;                 /* ACQUIRE, RESERVE: what this limit is charged is a reservation for so long, of
	                                   * the call's id; 0: what RESERVE says of all, in ACQUIRE none */
};

/* A request and its answer. */
struct sluice_call {
	const struct sluice_item *items; /* in: 0..SLUICE_ITEMS_MAX limits */
	uint32_t item_count;
	uint32_t cost;
	sluice_operation operation;
	bool want_next;         /* in: fill next_after_ns as well (one more search) */
	bool upto;              /* in: CHARGE, PEEK, ACQUIRE and RESERVE grant the largest admissible part of `cost`, and
	                                * deny only where that is nothing */
	sluice_ns now;          /* in: the instant, Unix ns */
	struct sluice_bytes id; /* in: 1..SLUICE_ID_BYTES_MAX bytes: of the lease or the reservation. For CHARGE and
	                                * RESERVE may be absent (len 0); given to CHARGE, the same id for the same counters
	                                * within the longest window is charged once, and answered alike: `repeated` */
	sluice_ns ttl_ns;       /* in: RESERVE, 1 ms .. 3660 d */
	struct sluice_decision *each;  /* in: item_count decisions to fill, or NULL */
	struct sluice_decision merged; /* out: index counts items; observed and unlimited ones are never named */
	uint32_t forgotten;            /* out: SLUICE_RESET */
	uint32_t found;                /* out: SLUICE_RELEASE, _RENEW, _COMMIT */
	uint32_t granted;              /* out: what of `cost` was granted: all or nothing, but for `upto` */
	bool repeated;                 /* out: nothing was charged, since that had been done before under this id */
	uint16_t penalized;            /* out: CHARGE, ACQUIRE, RESERVE: a bit for each item by whose penalty a shut-out
	                                * began with this call, 1 for items[0] */
	sluice_err err; /* out: SLUICE_OK, SLUICE_E_BUSY, SLUICE_E_RANGE (too many items; an id, ttl or terms out of range),
	                 * _MISUSE (CHARGE of concurrency, distinct without a member, RESERVE of either) */
};

/* Decides one call, all or nothing, as one step among all threads. Returns call->err. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_decide(struct sluice_store *store, struct sluice_call *call);

/* Makes an id for a lease or a reservation, that nobody else has: 16 hex digits, NUL-ended. Any text of yours may serve
 * as well: one of 16 hex digits in lower case is that number, others are hashed to one. About 1 us. */
SLUICE_API void sluice_make_id(char text[17]);

/* Who holds a lease. */
struct sluice_holder {
	uint64_t id; /* the number of its id; printed as 16 hex digits it is an id of this lease */
	uint32_t cost;
	sluice_ns ends_after_ns; /* if nobody renews or releases it */
};

/* Lists who holds leases of a limit of concurrency, those that end first first: fills at most `room` of `list`.
 * Returns how many there are in all; 0 for other algorithms; SLUICE_HOLDERS_BUSY where a process that is stopped holds
 * a lock that is needed (SLUICE_E_BUSY). O(n log n). */
#define SLUICE_HOLDERS_BUSY UINT32_MAX
SLUICE_API uint32_t sluice_holders(struct sluice_store *store, const struct sluice_limit *limit,
                                   struct sluice_bytes key, sluice_ns now, struct sluice_holder *list, uint32_t room);

/* How a key stands with the penalties of a limit (struct sluice_terms). */
struct sluice_standing {
	uint32_t level;          /* penalties imposed so far, 0..; forgiven ones not */
	uint32_t denials;        /* that count towards the next */
	sluice_ns ends_after_ns; /* the wait until a shut-out ends; 0: none */
	sluice_ns forgiven_after_ns;
};

/* Looks how a key stands; nothing is changed. The limit's own counter is not looked at. All zeroes where a process that
 * is stopped holds a lock that is needed. */
SLUICE_API struct sluice_standing sluice_standing(struct sluice_store *store, const struct sluice_item *item,
                                                  sluice_ns now);

/* ---- quotas of keys' own ------------------------------------------------------------------------------------- *
 *
 * Another quota for the counter that a limit has for one key, from now on: what a billing system says when a plan
 * changes. It is kept in the store beside the counter, so that every process that shares the store decides by it from
 * the next call on, and each call by the old quota or by the new one; but not with the counter: it stays when that
 * expires, is reset or evicted, until its own end. It wins against whatever limit a call brings for that counter, a
 * candidate's included. What is spent stays spent, as whenever a quota changes.
 *
 * It has to be a quota for that counter: another algorithm, window, precision or phase would count elsewhere, and is
 * refused; so is another rate of a bucket without a name. `unlimited` admits all and counts nothing; what was charged,
 * leased or reserved before is refunded, released and committed as if there were none. */

/* What is to be set. Zeroed fields are left out. */
struct sluice_override_request {
	const struct sluice_limit *limit; /* whose counter: as its calls have it, by policy or notation */
	struct sluice_bytes key;          /* likewise */
	const struct sluice_limit *own;   /* the quota */
	sluice_ns ttl_ns;                 /* 1 ms .. 3660 d; 0: it does not end */
	uint64_t most;            /* how many the store may have in all, but never more than overrides_most of its
	                           * figures; 0: those */
	struct sluice_bytes name; /* what sluice_override_list() tells the limit's name to be, at most
	                           * SLUICE_NAME_BYTES_MAX bytes */
};

/* Sets the quota of a key at `now`, or changes it. SLUICE_OK, or nothing was changed and `error` (may be NULL) says:
 *  SLUICE_E_RANGE   the quota is none for that counter; a ttl or a name out of range
 *  SLUICE_E_FULL    there are `most` already, or the store has no room for one more
 *  SLUICE_E_BUSY, SLUICE_E_MISUSE
 * 24 bytes of a slot, and 64 and more of a block. About 1 us. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_set(struct sluice_store *store,
                                                          const struct sluice_override_request *request, sluice_ns now,
                                                          struct sluice_error *error);

/* Forgets it: the limit's own quota counts again. SLUICE_OK; SLUICE_E_NONE: there was none; SLUICE_E_BUSY, _MISUSE. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_delete(struct sluice_store *store,
                                                             const struct sluice_limit *limit, struct sluice_bytes key,
                                                             sluice_ns now);

/* A quota of a key's own. */
struct sluice_override {
	struct sluice_limit limit; /* the limit of the key, with the counters of the limit that was asked for */
	sluice_ns ends_after_ns;   /* the wait until it ends, at most 1 ms more; SLUICE_NEVER: it does not */
};

/* The quota of a key at `now`. SLUICE_OK; SLUICE_E_NONE: it has none of its own; SLUICE_E_BUSY, _MISUSE. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_get(struct sluice_store *store, const struct sluice_limit *limit,
                                                          struct sluice_bytes key, sluice_ns now,
                                                          struct sluice_override *override);

/* One that is listed. Texts are borrowed until visit() returns. */
struct sluice_override_entry {
	struct sluice_bytes name, key; /* as they were given; of a longer key its first SLUICE_KEY_BYTES_MAX bytes */
	struct sluice_bytes limit;     /* its quota, in canonical text */
	sluice_ns ends_after_ns;
};

/* Lists quotas of keys' own, in no order, beside users of the store: each that is there from the first call to the last
 * is told once.
 *  from   0 at first, then what the call before returned
 *  count  it ends with the page of the store (160 slots) in which so many have been told, or after 1,024 pages
 *  visit  is called while a lock of the store is held: it must be quick, and make no call with the store
 * Returns where to go on; 0: that was all. At most some ms. */
SLUICE_API uint64_t sluice_override_list(struct sluice_store *store, uint64_t from, uint32_t count, sluice_ns now,
                                         void (*visit)(void *context, const struct sluice_override_entry *entry),
                                         void *context);

/* What a counter holds, and what becomes of it: for people who ask why somebody is denied. */
enum { SLUICE_RETURNS_MAX = 8, SLUICE_CHARGES_MAX = 16 };
struct sluice_return {
	sluice_ns after_ns; /* the wait, in whole milliseconds: one ms earlier less is left */
	uint32_t remaining; /* that is left from then on, if nothing else is asked */
};
struct sluice_charged { /* a window's count, a sub-bucket, an entry of a log, a lease, a member; a bucket's debt */
	sluice_ns from_ns;  /* Unix ns: when it was charged, or the window or sub-bucket of that begins */
	sluice_ns until_ns; /* from when on it counts no longer */
	uint64_t cost;
};
struct sluice_inspection {
	struct sluice_decision decision; /* what the cost would get now, penalties and all; next_after_ns is filled */
	uint64_t used;                   /* that counts; above the quota where that was lowered, or corrected */
	sluice_ns last_ns;               /* the last charge, Unix ns; 0: there is no counter */
	uint32_t return_count;           /* the next instants at which units return; none of distinct above 1,024 */
	uint32_t charge_count;           /* of what counts, the oldest first */
	uint32_t charges_in_all;         /* and how many there are */
	bool overridden;                 /* the key has a quota of its own, by which all of this is: `own` */
	struct sluice_override own;
	struct sluice_standing standing; /* with the limit's penalties */
	struct sluice_return returns[SLUICE_RETURNS_MAX];
	struct sluice_charged charges[SLUICE_CHARGES_MAX];
};

/* Looks into the counters of `count` items (at most SLUICE_ITEMS_MAX), one after another, each under its own lock, and
 * charges nothing: fills as many of `list`. `decision` is what an item's own cost, 1 where it has none, would get;
 * it and `returns` are what sluice_decide() will say. SLUICE_OK; SLUICE_E_BUSY, _RANGE and _MISUSE as there, and then
 * the list means nothing. 1 us each, 9 us of 4,096 sub-buckets, 19 us of 1,024 leases; all sixteen of these 0.3 ms. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_inspect(struct sluice_store *store, const struct sluice_item *items,
                                                     uint32_t count, sluice_ns now, struct sluice_inspection *list);

/* Decides `count` calls in order, each as sluice_decide() would, but hashes and prefetches ahead, so that the memory
 * misses overlap. Look at each call's `err`: SLUICE_E_MISUSE in all of them for a NULL store. */
SLUICE_API void sluice_decide_many(struct sluice_store *store, struct sluice_call *calls, size_t count);

/* ---- policies ------------------------------------------------------------------------------------------------ */

struct sluice_policy; /* immutable once loaded; shared by any number of threads */

/* What is wrong with a policy file, or doubtful. Lines and columns count from 1. */
struct sluice_problem {
	uint32_t line, column;
	bool warning;   /* the file loads all the same */
	char text[248]; /* NUL-ended: what was found and what was expected */
};

/* All problems of one file, in the order of the file. Free with sluice_problems_free(). */
struct sluice_problems {
	struct sluice_problem *list;
	size_t count;
};

/* Loads a policy from YAML bytes; files that it names (overrides-from, denied, envoy) are for servers, and are not read
 * here: no key has a quota of its own. All mistakes are reported at once; `problems` (may be NULL) also carries
 * warnings, and is the caller's to free in either case.
 * Returns SLUICE_OK with *policy set (free it with sluice_policy_free()), SLUICE_E_SYNTAX, or SLUICE_E_MEMORY. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_policy_load(struct sluice_policy **policy, struct sluice_bytes yaml,
                                                         struct sluice_problems *problems);
SLUICE_API void sluice_policy_free(struct sluice_policy *policy);
SLUICE_API void sluice_problems_free(struct sluice_problems *problems);

/* One attribute of a request, such as user=alice. */
struct sluice_attribute {
	struct sluice_bytes name, value; /* name 1..SLUICE_NAME_BYTES_MAX bytes */
};

/* The limits of a policy that apply to one request. */
struct sluice_match {
	uint32_t count;
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* point into the policy and into the caller's buffer */
	uint32_t position[SLUICE_ITEMS_MAX];        /* of each limit in the policy file, from 0 */
	uint32_t beyond; /* 1 + the position of an observed limit that applies after SLUICE_ITEMS_MAX others, and is left
	                  * out; 0: none */
};

/* Finds the limits that apply to a request and encodes their keys. `ip`, `path`, `method` and `host` are brought into
 * one form first: an ip that is an address is canonical, without its port, IPv6 as its network (ipv6-prefix of the
 * policy, 64); a path without query, resolved; a method in upper case; a host in lower case, without port. A value of
 * more than SLUICE_KEY_BYTES_MAX bytes counts as the hash of the whole.
 *  buffer  holds the keys that `match` points to; SLUICE_MATCH_BYTES_MAX always suffices
 * An item has a cost of its own where its limit's `cost` says a number: clear it for a request that costs nothing, and
 * for one with `upto`.
 * Where more than SLUICE_ITEMS_MAX limits apply, the first after so many that is enforced takes the last place, and
 * denies: its item has SLUICE_BOUND_LIMITS. A call of these items charges nothing.
 * Returns SLUICE_OK; SLUICE_E_MISUSE where an attribute is given twice; SLUICE_E_RANGE when a name is too long, or the
 * buffer is too small. No allocation; one pass over the policy's limits. */
#define SLUICE_MATCH_BYTES_MAX ((size_t)512 * 1024)
SLUICE_API SLUICE_MUST_USE sluice_err sluice_policy_match(const struct sluice_policy *policy,
                                                          const struct sluice_attribute *attributes, size_t count,
                                                          struct sluice_match *match, void *buffer,
                                                          size_t buffer_bytes);

/* The name of the limit at a position of the policy file; NULL past the last. Owned by the policy. */
SLUICE_API const char *sluice_policy_limit_name(const struct sluice_policy *policy, uint32_t position);

#ifdef __cplusplus
}
#endif
#endif
