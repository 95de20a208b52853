/* Sluice: a rate limiter. It is exact wherever this header says that it is.
 *
 * This is the only public header. It begins with the simple calls (open a store, parse a limit, check), goes on to the
 * full form (several limits and keys, all or nothing; batches), and ends with policies.
 *
 * Caveats first
 *  - All processes of one host that open a store in a file or in shared memory share it, even from containers with
 *    namespaces of their own. Two hosts, or two kernels, can't share one. A network filesystem, and a filesystem shared
 *    with a virtual machine, are not supported: nothing would be corrupted, but the counts would be wrong.
 *  - POSIX record locks on the file tell which process holds a lock. The kernel drops a process's record locks as soon
 *    as the process closes *any* descriptor of the file. So a process that has a store open must not open() and close()
 *    its file by other means. To back the file up, copy it from another process, best while nobody uses it; see
 *    `sluice store dump`.
 *  - After fork() the child may use every store that it inherited. Shared stores stay shared; of a private store the
 *    child has its own copy. At most 255 processes may have a store open, forked ones included. A child beyond that
 *    gets SLUICE_E_BUSY until it opens the store again and there is room. A process made by a bare clone() system call
 *    must open the store itself and must not use an inherited one.
 *  - Nobody may truncate a store's file while it is open: the kernel would end its users by SIGBUS. A full disk can't
 *    do that, because the disk space is reserved when the file is created.
 *  - If a process dies inside a call, at whatever instruction, every counter is left whole; the call is charged in
 *    full, in part or not at all. Other processes may wait once, for some milliseconds, until the death is noticed.
 *  - If a process is stopped inside a call (SIGSTOP, a freezer, a debugger), it keeps its locks and finishes the call
 *    when it runs again. Others that need one of those locks wait for it, at least 10 s, once. After that, calls that
 *    need one return SLUICE_E_BUSY at once until the stopped process has run again. All other calls work as usual.
 *    Threads of one process wait for each other in the same way.
 *  - After a power cut the file may be torn. The first process that opens it checks all of it, drops what is torn and
 *    counts what it dropped. This takes O(size), about 0.3 s a GiB.
 *  - A file belongs to one version of the format and one kind of machine. Other versions and machines refuse it.
 *  - The bounds in docs/limits.md hold while the store is not full. A full store evicts expired counters first, then
 *    the least used counters nearby. It remembers their use conservatively: a key never starts with more than its
 *    quota. If a counter can't be kept even so, its limit denies, and the decision says SLUICE_BOUND_ROOM. That happens
 *    when a log or leases would take more than a quarter of the store's blocks, or when calls are using all counters
 *    nearby at this instant.
 *  - Instants are Unix nanoseconds. You pass them in, or sluice_store_now() reads them. A counter's clock never runs
 *    backwards: an instant before the counter's last charge counts as the instant of that charge.
 *  - A log (sliding-log) keeps instants rounded up to 1 ms: no entry expires early, or more than 1 ms late.
 *  - A denial is a decision, not an error. Read `allowed` only after the call returned SLUICE_OK.
 *
 * Any thread may make any call on any store, limit or policy. The only exception: no thread may close a store or free a
 * policy while another uses it. No call keeps a pointer that it was given, unless its comment says so.
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

/* All times are in nanoseconds. An instant counts from the Unix epoch. A wait saturates below SLUICE_NEVER: a wait of
 * more than 584 years is reported as 584 years. */
typedef uint64_t sluice_ns;
#define SLUICE_NEVER UINT64_MAX /* a retry_after: no wait is long enough, since the cost exceeds the quota */

enum {
	SLUICE_ITEMS_MAX = 16,       /* limits in one decision */
	SLUICE_BEYOND_MAX = 16,      /* limits of a policy that apply to a request, and found no place among those */
	SLUICE_MATCHED_MAX = SLUICE_ITEMS_MAX + SLUICE_BEYOND_MAX,
	SLUICE_KEY_BYTES_MAX = 1024, /* bytes of a key, a member or an attribute's value. A longer one counts as the hash of
	                              * the whole, the same through every door: it keeps its first 959 bytes, then has '~'
	                              * and its SHA-256 in hex */
	SLUICE_NAME_BYTES_MAX = 64,  /* bytes of the name of a limit or an attribute */
	SLUICE_ID_BYTES_MAX = 64,    /* bytes of the id of a lease, a reservation or a retried request */
	SLUICE_LIMIT_TEXT_MAX = 128, /* bytes of a limit's canonical text, with its NUL */
	SLUICE_PENALTIES_MAX = 8,    /* penalties of one escalation */
};

/* The result of a call. A negative one is a failure: nothing was charged and nothing was changed. */
typedef enum sluice_err {
	SLUICE_OK = 0,
	SLUICE_E_SYNTAX = -1, /* the text does not follow the notation or the policy format */
	SLUICE_E_RANGE = -2,  /* a number, a length or a count is outside its documented range */
	SLUICE_E_FULL = -3,   /* the store has no room for what is copied into it. Calls that decide never return this; they
	                       * report enum sluice_bound */
	SLUICE_E_MEMORY = -4, /* the system gave no memory */
	SLUICE_E_SYSTEM = -5, /* a file or a clock could not be read; the error's text says which and why */
	SLUICE_E_MISUSE = -6, /* a null pointer, or an unknown operation */
	SLUICE_E_NONE = -7,   /* there is no such store */
	SLUICE_E_STORE = -8,  /* this is not a store that this version can use */
	SLUICE_E_BUSY = -9,   /* others hold the store, or a stopped process holds a lock that the call needs */
	SLUICE_E_AWAY = -10,  /* the store is on another host, which did not answer in time. Only servers in front of Redis
	                       * return this; the library itself has no such stores */
	SLUICE_E_APART = -11, /* several nodes hold counters that have to change in one step. Only servers in front of Redis
	                       * return this */
} sluice_err;

/* Borrowed bytes. They need no NUL at the end, and no call keeps them. `data` may be NULL if `len` is 0. */
struct sluice_bytes {
	const void *data;
	size_t len;
};

/* Why a call failed, for a person to read. `column` counts bytes of the parsed text from 1; it is 0 if no text was
 * parsed. */
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
	SLUICE_SPREAD = 16, /* `spread`: a bit that is added to SLUICE_FIXED_WINDOW or SLUICE_SLIDING_WINDOW */
} sluice_algorithm;

typedef enum sluice_edge {
	SLUICE_EDGE_COUNT = 0, /* of sliding-buckets, as the next two */
	SLUICE_EDGE_DROP = 1,
	SLUICE_EDGE_WEIGHTED = 2,
	/* Of distinct above a quota of 1,024, once the estimate has reached the quota. A member that the estimate does not
	 * know is .. */
	SLUICE_EDGE_DENY = 3, /* .. denied */
	SLUICE_EDGE_ALLOW = 4 /* .. admitted if it would not raise the estimate */
} sluice_edge;

/* A calendar window: a fixed window that starts with the hour, day, Monday, month or year of a time zone. */
typedef enum sluice_calendar {
	SLUICE_CALENDAR_NONE = 0,
	SLUICE_CALENDAR_HOUR = 1,
	SLUICE_CALENDAR_DAY = 2,
	SLUICE_CALENDAR_WEEK = 3,
	SLUICE_CALENDAR_MONTH = 4,
	SLUICE_CALENDAR_YEAR = 5,
} sluice_calendar;

/* A validated limit: an algorithm with its numbers. Only sluice_limit_parse() may fill it. You may read the fields up
 * to `precision_ns`; the others are derived. It is a value that owns nothing: copy it freely. */
struct sluice_limit {
	uint8_t algorithm;      /* enum sluice_algorithm; with SLUICE_SPREAD each key's windows begin at a phase of their
	                         * own */
	uint8_t edge;           /* enum sluice_edge; of sliding-buckets, and of distinct above a quota of 1,024 */
	uint16_t bucket_count;  /* n = W / P, 2..4096; sliding-buckets only */
	uint32_t quota;         /* Q, in units of cost; N of concurrency */
	uint32_t burst;         /* token-bucket: B. leaky-bucket: N, the queue. distinct above a quota of 1,024: its number
	                         * of registers. With SLUICE_SPREAD: the phase that was given, in 131072ths of W, plus 1.
	                         * Otherwise 0 */
	uint16_t calendar;      /* enum sluice_calendar; fixed-window only */
	uint16_t zone;          /* the number of the time zone in this process: src/algo/calendar.h */
	sluice_ns window_ns;    /* W, 1 ms .. 3660 d; T of concurrency; the longest window of a calendar; 0 of unlimited */
	sluice_ns precision_ns; /* P, sliding-buckets only */
	uint64_t derived[6];    /* constants of the algorithm, and the identity of its counters: src/algo/rule.h */
};

/* Parses one limit in the notation (`100/60s`, `sliding-log 400k/1m`, `token-bucket 10/1s burst 100`, `unlimited`).
 *  limit   out; unchanged on failure
 *  error   out, may be NULL: the column, what was found and what was expected
 * Returns SLUICE_OK, SLUICE_E_SYNTAX, or SLUICE_E_RANGE for a number out of range. Takes about 100 ns and allocates
 * nothing. The first limit in a time zone reads that zone from the host's tzdata once, which takes some 100 us. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_limit_parse(struct sluice_limit *limit, struct sluice_bytes text,
                                                         struct sluice_error *error);

/* Writes the canonical text of a limit (`sliding-window 100/1m`), NUL-ended. Parsing that text gives an equal limit.
 *  text    out, at least SLUICE_LIMIT_TEXT_MAX bytes
 * Returns its length without the NUL. Never fails. */
SLUICE_API size_t sluice_limit_print(const struct sluice_limit *limit, char text[SLUICE_LIMIT_TEXT_MAX]);

/* ---- decisions ---------------------------------------------------------------------------------------------- */

/* One of Sluice's own bounds, which a decision met. What callers send, or the load, can exceed what Sluice keeps for a
 * counter. That is not an error. Either the limit denies, whatever its quota says; then `remaining` is 0, and after
 * `retry_after_ns` the bound may no longer be exceeded. Or the counter is kept more coarsely, on the safe side. The
 * other limits of the call are decided as usual. */
typedef enum sluice_bound {
	SLUICE_BOUND_NONE = 0,         /* the limit's own quota decided */
	SLUICE_BOUND_LIMITS = 1,       /* denies what costs anything: more than SLUICE_ITEMS_MAX limits of a policy apply to
	                                * the request */
	SLUICE_BOUND_ROOM = 2,         /* denies: the store has no room for the counter, its log or its leases */
	SLUICE_BOUND_RESERVATIONS = 3, /* denies: the counter has as many open reservations as are kept: 16,384, or as many
	                                * as fit into a quarter of the store's blocks */
	SLUICE_BOUND_HOLDS = 4,        /* denies: too many calls over several nodes hold the counter at once. Only if the
	                                * counters are in Redis */
	SLUICE_BOUND_QUEUE = 5,        /* denies: too many calls wait for the store already. Only in Redis */
	SLUICE_BOUND_KEY = 6,          /* does not deny: the key is too long for the store, which keeps its hash. Only in
	                                * Redis */
} sluice_bound;
enum { SLUICE_BOUNDS = 7 };

/* Returns "limits", "room", "reservations", "holds", "queue" or "key"; "none" for SLUICE_BOUND_NONE and for any other
 * number. The library owns the text. */
SLUICE_API const char *sluice_bound_name(sluice_bound bound);

/* What a client should know. Waits count from the instant of the decision, or from the counter's last charge if that is
 * later. */
struct sluice_decision {
	bool allowed;
	uint8_t bound;            /* enum sluice_bound that the limit met; in a merged decision, that of the deciding
	                           * limit */
	int32_t index;            /* position of the deciding limit, from 0; -1 if no limit applied */
	uint32_t remaining;       /* the largest cost that would be admitted now, after this decision */
	uint64_t quota;           /* Q; B for token-bucket; N + 1 for leaky-bucket; 4294967295 if no limit applied */
	sluice_ns retry_after_ns; /* 0 when allowed; otherwise the exact wait that admits the same cost, or SLUICE_NEVER */
	sluice_ns reset_after_ns; /* the wait until the whole quota is available again */
	sluice_ns delay_ns;       /* leaky-bucket: how long to hold the request back; 0 for others */
	sluice_ns next_after_ns;  /* the wait until `remaining` grows by one; 0 while the whole quota is free. In a merged
	                           * decision the longest of the limits with the least remaining; 0 where one of these has
	                           * its whole quota, as the least can't grow then. Only calls that set
	                           * sluice_call.want_next have it; in others it is 0 */
};

/* ---- the store ---------------------------------------------------------------------------------------------- */

struct sluice_store;

/* Where a store is kept: in private memory of this process, unless `file` or `shared` is given (not both). */
struct sluice_store_options {
	/* Size of the whole arena, 1 MiB .. 256 GiB, rounded down to 4 KiB. With 0 a new store has 64 MiB, and an existing
	 * one keeps its size. The system provides private memory as it is used, but that of a file or shared memory at once
	 * (Docker gives /dev/shm 64 MiB in all, unless --shm-size says otherwise). */
	uint64_t memory_bytes;
	uint32_t blocks_percent; /* share for logs and sub-buckets, 1..98; 0 means 50. The rest holds the counters. Only a
	                          * new store uses it; an existing one keeps its own */
	const char *file;        /* path of a file on a local filesystem; created if it is missing, unless `existing` */
	const char *shared;      /* name of memory that processes of this host share, 1..200 of [A-Za-z0-9._-]; it stays
	                          * until the host restarts or sluice_store_forget() removes it */
	uint32_t mode;           /* permissions of what is created, 0..0777; 0 means 0600. The umask applies. All users of a
	                          * store must be able to read and write it */
	bool existing;           /* create nothing: return SLUICE_E_NONE if there is no such store */
	bool pretouch;           /* you are going to call sluice_store_pretouch(): until then private memory comes in small
	                          * pages, so that no call waits while the system clears a huge one. Stores in a file or in
	                          * shared memory ignore it */
};

/* Opens a store. `options` may be NULL. The caller owns the store: close it with sluice_store_close(). A process may
 * open the same file or shared memory several times; it gets the same store each time, and must close it as often. The
 * first process that opens an existing store checks all of it, O(size). Others join in well under a millisecond, or
 * wait while another process opens it. A fork() waits until an opening is done.
 * Returns SLUICE_OK, or an error that `error` (may be NULL) explains; then a file is left as it was:
 *  SLUICE_E_RANGE   a size or a name is out of range; or the size differs from that of the existing store
 *  SLUICE_E_NONE    there is no such store, and `existing` was set
 *  SLUICE_E_STORE   it is not a store, or one of another version or another kind of machine; it is truncated, or its
 *                   header is damaged; it is a folder, a symbolic link, a pipe or a device
 *  SLUICE_E_BUSY    another process has been opening it for 10 s, or 255 processes have it open
 *  SLUICE_E_MEMORY  the system gave no memory for it
 *  SLUICE_E_SYSTEM  the system refused the file (no permission, no space), or it is on a network filesystem
 *  SLUICE_E_MISUSE  both `file` and `shared` were given */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_store_open(struct sluice_store **store,
                                                        const struct sluice_store_options *options,
                                                        struct sluice_error *error);

/* Pages in private memory of a store ahead of time, so that no call waits for the system. Without it the first 128
 * calls of a store of 256 MiB may take 16 to 460 ms of processor time. Call it on a thread of its own until it returns
 * 0; other threads may use the store meanwhile. Counters are unchanged.
 *  from   0 at first, then what the previous call returned
 *  bytes  about how much one call pages in, at least 1; a call finishes any 2 MiB that it has begun
 * Returns where to go on, or 0 when all memory is there, as it always is for a store in a file or in shared memory. All
 * calls together take 0.5 to 2 s of processor time a GiB. */
SLUICE_API uint64_t sluice_store_pretouch(struct sluice_store *store, uint64_t from, uint64_t bytes);

/* Closes a store; call it as often as the store was opened. The last call frees private memory. A file or shared memory
 * keeps what it has. NULL is allowed. */
SLUICE_API void sluice_store_close(struct sluice_store *store);

/* Removes the name of shared memory. Processes that have it open may go on using it. Returns SLUICE_OK, SLUICE_E_NONE
 * or SLUICE_E_SYSTEM. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_store_forget(const char *shared, struct sluice_error *error);

/* Reads the store's clock, in Unix nanoseconds: CLOCK_BOOTTIME, anchored once to wall time. All processes that share a
 * store read the same clock. Setting the wall clock, suspending the host or restarting one of the processes does not
 * disturb it. After a restart of the host, the first opener anchors the clock anew: to wall time, or to the
 * latest instant that the clock had reached if wall time is earlier. So it never runs backwards. If the host's clock
 * was set to 2036 by mistake meanwhile, the store's clock stays in 2036; its counters are right even so. Takes about 30
 * ns. */
SLUICE_API sluice_ns sluice_store_now(const struct sluice_store *store);

/* Reads the clock that private stores use; for a process without a store. */
SLUICE_API sluice_ns sluice_now(void);

/* The figures of a store. */
struct sluice_store_stats {
	uint64_t memory_bytes, blocks_percent;
	uint64_t slots, slots_used, slots_expired; /* slots_used includes slots_expired, whose counters no longer count */
	uint64_t slots_spilled;                    /* in another bucket than their home bucket */
	uint64_t slots_with_block;
	uint64_t block_bytes, block_bytes_free; /* what counters keep in blocks; what is free there */
	uint64_t sketch_bytes;
	uint64_t uses[8];     /* counters in use, by the share of their quota that was used: up to 1/32, 1/16, 1/10, 1/5,
	                       * 2/5, 3/4, less than all, all */
	uint64_t evicted;     /* counters in use that were evicted since the store was created */
	uint64_t from_sketch; /* counters that started with less than their quota, as the sketch remembered */
	uint64_t recoveries;  /* locks taken from processes that had died */
	uint64_t repairs;     /* times that a first opener checked the whole store */
	uint64_t dropped;     /* torn counters that those checks dropped */
	uint64_t given_up;    /* calls of this process that returned SLUICE_E_BUSY, because another process had stopped
	                       * while it held a lock */
	uint32_t stopped;     /* processes that this one believes to be stopped now */
	uint32_t passed_over; /* buckets that sluice_store_stats() could not read because of those */
	uint32_t processes;   /* processes that have the store open */
	sluice_ns created_ns; /* wall time */
	uint64_t overrides;      /* quotas of keys' own (sluice_override_set()), possibly with some that have ended */
	uint64_t overrides_most; /* how many of them the store can hold: a quarter of its slots, or half of its blocks if
	                          * those are fewer */
};

/* Fills `stats`. Walks the whole store while others use it: O(size), about 0.3 s a GiB. If a process has stopped while
 * it holds a lock, the walk waits for it once, as any call does, and then skips what it has locked. In a forked child
 * that has no room among the processes (see the caveats), the figures of slots are 0. */
SLUICE_API void sluice_store_stats(struct sluice_store *store, struct sluice_store_stats *stats);

/* Checks every structure and reference of a store. Nobody else may use the store meanwhile. Returns NULL, or a text
 * that says what is wrong. O(size). */
SLUICE_API const char *sluice_store_verify(const struct sluice_store *store);

/* ---- deciding: the simple call ------------------------------------------------------------------------------- */

/* Decides one request of one key against one limit, now, and charges the request if it is allowed.
 *  cost    0..4294967295; a cost of 0 charges nothing and is always allowed
 * Returns SLUICE_OK with `decision` filled; SLUICE_E_BUSY if this is a forked child without room or a stopped process
 * holds a lock (see the caveats); or SLUICE_E_MISUSE. Takes tens of ns if the counter is in cache, otherwise one cache
 * miss. Allocates nothing from the system. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_check(struct sluice_store *store, const struct sluice_limit *limit,
                                                   struct sluice_bytes key, uint32_t cost,
                                                   struct sluice_decision *decision);

/* ---- deciding: the full form --------------------------------------------------------------------------------- */

typedef enum sluice_operation {
	SLUICE_CHARGE = 0, /* decide; charge every limit if all admit, otherwise none */
	SLUICE_PEEK = 1,   /* decide with the same cost, but charge and create nothing */
	SLUICE_REFUND = 2, /* give `cost` back, newest charges first, at most what they hold. Answers as a peek of cost 0 */
	SLUICE_RESET = 3,  /* forget the counters; `forgotten` says how many there were */

	/* Leases, named by `id`: all or nothing, for limits of concurrency and any others in the same call. */

	/* CHARGE, and take a lease of `cost` at each limit of concurrency. If all of those hold a lease of this id already,
	 * nothing is charged again: `repeated` */
	SLUICE_ACQUIRE = 4,
	/* End the lease. `found` says for how many counters; 0 if it had ended or never existed. Does nothing to the other
	 * limits */
	SLUICE_RELEASE = 5,
	/* Let the lease end T from now. `found` as above. Does nothing to the other limits */
	SLUICE_RENEW = 6,

	/* Reservations, named by `id`: for a cost that is known only afterwards. Not for concurrency or distinct. */

	/* CHARGE; unless it is committed, the charge is refunded after `ttl_ns`. If `ttl_ns` is 0, only those limits are
	 * reserved whose item has a ttl. With the id of an open reservation nothing is charged again: `repeated` */
	SLUICE_RESERVE = 7,
	/* The true cost is `cost`: correct the charge at the instant at which it was made, even above the quota. `found`
	 * says for how many counters; 0 if the reservation was committed before or has ended, and then nothing changed.
	 * Answers as a peek of cost 0 */
	SLUICE_COMMIT = 8,
} sluice_operation;

/* Values of sluice_item.observed: limits that deny nobody and take no part in the merged answer. */
enum {
	SLUICE_OBSERVED = 1, /* decided alone; charged if the request is allowed and the limit itself admits. Same as
	                      * `true` */
	SLUICE_TRIED = 2,    /* decided alone, never charged: it sees what others charge to the counter that it shares */
};

/* Further terms of a limit. They belong to a policy's limit, and never to the identity of its counters. */
struct sluice_terms {
	/* Charge every request that the limit judges, allowed or not. Counts saturate, a log keeps the newest Q units, and
	 * a bucket is emptied at most. Not for concurrency and distinct. */
	bool count_denied;
	/* Escalation. A key that is denied `after` times within `within_ns` is locked out for penalties_ns[0], the next
	 * time for penalties_ns[1], and so on; the last penalty repeats. A request during a penalty counts as no denial and
	 * does not prolong it. If nothing has been denied for `forgive_ns` since, the next penalty is the first again. */
	uint8_t penalty_count; /* 0: none; at most SLUICE_PENALTIES_MAX */
	uint16_t after;        /* 1..64 */
	sluice_ns within_ns, forgive_ns;
	sluice_ns penalties_ns[SLUICE_PENALTIES_MAX]; /* rising */
};

/* One limit of a request, and the key that it counts. Leave out a field by leaving it zero. */
struct sluice_item {
	const struct sluice_limit *limit; /* borrowed for the call */
	struct sluice_bytes key;          /* any bytes, any length (SLUICE_KEY_BYTES_MAX); borrowed for
	                                   * the call */
	uint8_t observed;                 /* 0: enforced; or SLUICE_OBSERVED, SLUICE_TRIED */
	uint8_t bound;                    /* enum sluice_bound that the limit has met before the call, as
	                                   * sluice_policy_match() fills it: the limit denies, with no wait that helps, and
	                                   * its counter is not read */
	uint8_t quota;                    /* 1: the limits of the call that have 1 here deny only if all of them do; if one
	                                   * admits, those that would deny are observed. Where all deny, only the one that
	                                   * admits again first counts in `merged`. 0: it denies by itself */
	uint32_t cost;                    /* what this limit is charged; 0: the call's cost. Must be 0 in calls with
	                                   * `upto`. Limits that meet in one counter charge it the greatest of theirs */
	struct sluice_bytes member;       /* distinct: who is counted; any bytes, data not NULL. Without a member a PEEK
	                                   * decides for an unknown one, and a CHARGE is a misuse. So are two members for
	                                   * one counter (limit and key) in one call: make a call for each */
	const struct sluice_terms *terms; /* borrowed for the call; NULL: none */
	sluice_ns ttl_ns;                 /* ACQUIRE, RESERVE: what this limit is charged is a reservation of the call's id
	                                   * for this long. 0: in RESERVE the call's ttl_ns, in ACQUIRE no reservation */
};

/* A request and its answer. */
struct sluice_call {
	const struct sluice_item *items; /* in: 0..SLUICE_ITEMS_MAX limits */
	uint32_t item_count;
	uint32_t cost;
	sluice_operation operation;
	bool want_next;                /* in: fill next_after_ns as well (one more search) */
	bool upto;                     /* in: CHARGE, PEEK, ACQUIRE and RESERVE grant the largest admissible part of `cost`,
	                                * and deny only if that is nothing */
	sluice_ns now;                 /* in: the instant, Unix ns */
	struct sluice_bytes id;        /* in: names the lease or the reservation, 1..SLUICE_ID_BYTES_MAX bytes. CHARGE and
	                                * RESERVE may leave it out (len 0). A CHARGE with an id is charged once: the same
	                                * id for the same counters, within the longest window, is answered alike and not
	                                * charged again: `repeated` */
	sluice_ns ttl_ns;              /* in: RESERVE, 1 ms .. 3660 d */
	struct sluice_decision *each;  /* in: item_count decisions to fill, or NULL */
	struct sluice_decision merged; /* out: index counts items; it never names observed and unlimited ones */
	uint32_t forgotten;            /* out: SLUICE_RESET */
	uint32_t found;                /* out: SLUICE_RELEASE, _RENEW, _COMMIT */
	uint32_t granted;              /* out: how much of `cost` was granted: all or nothing, except with `upto` */
	bool repeated;                 /* out: nothing was charged, because this id had been charged before */
	uint16_t penalized;            /* out: CHARGE, ACQUIRE, RESERVE: a bit for each item whose penalty began with this
	                                * call; bit 0 is items[0] */
	/* out: SLUICE_OK, SLUICE_E_BUSY, SLUICE_E_RANGE (too many items; an id, a ttl or terms out of range) or
	 * SLUICE_E_MISUSE (CHARGE of concurrency; distinct without a member, or with two for one counter; RESERVE of
	 * either) */
	sluice_err err;
};

/* Decides one call, all or nothing, as one step with respect to all other calls. Returns call->err. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_decide(struct sluice_store *store, struct sluice_call *call);

/* Makes an id for a lease or a reservation that nobody else has: 16 hex digits, NUL-ended. Any text of yours may serve
 * as well: 16 hex digits in lower case are that number, other texts are hashed to one. Takes about 1 us. */
SLUICE_API void sluice_make_id(char text[17]);

/* A lease that is held. */
struct sluice_holder {
	uint64_t id; /* the number of its id; printed as 16 hex digits, it is an id of this lease */
	uint32_t cost;
	sluice_ns ends_after_ns; /* unless somebody renews or releases it */
};

/* Lists the leases of a limit of concurrency, soonest to end first. Fills at most `room` entries of `list`.
 * Returns how many leases there are in all; 0 for other algorithms; SLUICE_HOLDERS_BUSY where other calls would return
 * SLUICE_E_BUSY: a stopped process holds a lock that is needed, or this is a forked child that has no room among the
 * processes. O(n log n). */
#define SLUICE_HOLDERS_BUSY UINT32_MAX
SLUICE_API uint32_t sluice_holders(struct sluice_store *store, const struct sluice_limit *limit,
                                   struct sluice_bytes key, sluice_ns now, struct sluice_holder *list, uint32_t room);

/* How a key stands with the penalties of a limit (struct sluice_terms). */
struct sluice_standing {
	uint32_t level;          /* penalties imposed so far and not forgiven, from 0 */
	uint32_t denials;        /* denials that count towards the next penalty */
	sluice_ns ends_after_ns; /* the wait until the current penalty ends; 0: none */
	sluice_ns forgiven_after_ns;
};

/* Reads how a key stands, and changes nothing. Does not read the limit's own counter. All fields are 0 if a stopped
 * process holds a lock that is needed. */
SLUICE_API struct sluice_standing sluice_standing(struct sluice_store *store, const struct sluice_item *item,
                                                  sluice_ns now);

/* ---- quotas of keys' own ------------------------------------------------------------------------------------- *
 *
 * An override gives one key of a limit another quota, from now on: for example, when a billing system changes a plan.
 * The store keeps it beside the counter, so every process that shares the store decides by it from the next call on.
 * Each call is decided by the old quota or by the new one. The override does not end when the counter expires, is reset
 * or is evicted; it ends when it says so. It takes precedence over whatever limit a call brings for that counter, a
 * candidate's included. What is spent stays spent, as it does whenever a quota changes.
 *
 * The quota has to fit that counter. Another algorithm, window, precision or phase would count in another counter, and
 * is refused; so is another rate of a bucket without a name. `unlimited` admits all and counts nothing; what was
 * charged, leased or reserved before can still be refunded, released and committed. */

/* What to set. Leave out a field by leaving it zero. */
struct sluice_override_request {
	const struct sluice_limit *limit; /* the limit whose counter it is, as its calls have it, by policy or notation */
	struct sluice_bytes key;          /* the key, likewise */
	const struct sluice_limit *own;   /* the quota */
	sluice_ns ttl_ns;                 /* 1 ms .. 3660 d; 0: it does not end */
	uint64_t most;                    /* how many overrides the store may have in all; 0, or more than it can hold:
	                                   * sluice_store_stats.overrides_most */
	struct sluice_bytes name;         /* the limit's name, as sluice_override_list() will report it; at most
	                                   * SLUICE_NAME_BYTES_MAX bytes */
};

/* Sets or changes the quota of a key at `now`. Returns SLUICE_OK; or nothing was changed, and `error` (may be NULL)
 * explains:
 *  SLUICE_E_RANGE   the quota does not fit that counter; a ttl or a name is out of range
 *  SLUICE_E_FULL    there are `most` already, or the store has no room for one more
 *  SLUICE_E_BUSY, SLUICE_E_MISUSE
 * Needs 24 bytes of a slot, and 64 or more of a block. Takes about 1 us. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_set(struct sluice_store *store,
                                                          const struct sluice_override_request *request, sluice_ns now,
                                                          struct sluice_error *error);

/* Removes the override of a key: the limit's own quota counts again. Returns SLUICE_OK; SLUICE_E_NONE if there was
 * none; SLUICE_E_BUSY or SLUICE_E_MISUSE. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_delete(struct sluice_store *store,
                                                             const struct sluice_limit *limit, struct sluice_bytes key,
                                                             sluice_ns now);

/* A quota of a key's own. */
struct sluice_override {
	struct sluice_limit limit; /* the key's limit, with the counters of the limit that was asked for */
	sluice_ns ends_after_ns;   /* the wait until it ends, at most 1 ms too long; SLUICE_NEVER: it does not end */
};

/* Reads the quota of a key at `now`. Returns SLUICE_OK; SLUICE_E_NONE if the key has no quota of its own; SLUICE_E_BUSY
 * or SLUICE_E_MISUSE. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_override_get(struct sluice_store *store, const struct sluice_limit *limit,
                                                          struct sluice_bytes key, sluice_ns now,
                                                          struct sluice_override *override);

/* One entry of the list. Its texts are borrowed until visit() returns. */
struct sluice_override_entry {
	struct sluice_bytes name, key; /* as they were given, but for a key above SLUICE_KEY_BYTES_MAX */
	struct sluice_bytes limit;     /* its quota, in canonical text */
	sluice_ns ends_after_ns;
};

/* Lists quotas of keys' own, in no order, while others use the store. Each one that exists from the first call to the
 * last is listed once.
 *  from   0 at first, then what the previous call returned
 *  count  the call ends with the page of the store (160 slots) in which it has listed this many, or after 1,024 pages
 *  visit  is called while a lock of the store is held: it must be quick, and must make no call with the store
 * Returns where to go on, or 0 when that was all. Takes some ms at most. */
SLUICE_API uint64_t sluice_override_list(struct sluice_store *store, uint64_t from, uint32_t count, sluice_ns now,
                                         void (*visit)(void *context, const struct sluice_override_entry *entry),
                                         void *context);

/* What a counter holds, and when it expires: for people who ask why a client is denied. */
enum { SLUICE_RETURNS_MAX = 8, SLUICE_CHARGES_MAX = 16 };
struct sluice_return {
	sluice_ns after_ns; /* the wait, in whole milliseconds; 1 ms earlier less is left */
	uint32_t remaining; /* what is left from then on, if nothing else is charged */
};
struct sluice_charged { /* a window's count, a sub-bucket, an entry of a log, a lease, a member, or a bucket's debt */
	sluice_ns from_ns;  /* Unix ns: when it was charged, or when its window or sub-bucket begins */
	sluice_ns until_ns; /* when it stops counting */
	uint64_t cost;
};
struct sluice_inspection {
	struct sluice_decision decision; /* what the cost would get now, penalties included; next_after_ns is filled */
	uint64_t used;                   /* what counts now; above the quota if that was lowered, or a charge corrected */
	sluice_ns last_ns;               /* the last charge, Unix ns; 0: there is no counter */
	uint32_t return_count;           /* the next instants at which units return; 0 for distinct above 1,024 */
	uint32_t charge_count;           /* charges that count, oldest first */
	uint32_t charges_in_all;         /* how many of those there are */
	bool overridden;                 /* the key has a quota of its own, `own`, and all figures are by that */
	struct sluice_override own;
	struct sluice_standing standing; /* with the limit's penalties */
	struct sluice_return returns[SLUICE_RETURNS_MAX];
	struct sluice_charged charges[SLUICE_CHARGES_MAX];
};

/* Reads the counters of `count` items (at most SLUICE_ITEMS_MAX), one after another, each under its own lock, and
 * charges nothing. Fills `count` entries of `list`. `decision` is what the item's own cost would get, or a cost of 1 if
 * the item has none; `decision` and `returns` are what sluice_decide() will say. Returns SLUICE_OK; or SLUICE_E_BUSY,
 * SLUICE_E_RANGE or SLUICE_E_MISUSE as sluice_decide() does, and then the list means nothing. Takes 1 us each, 9 us
 * with 4,096 sub-buckets, 19 us with 1,024 leases; sixteen of the last take 0.3 ms. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_inspect(struct sluice_store *store, const struct sluice_item *items,
                                                     uint32_t count, sluice_ns now, struct sluice_inspection *list);

/* Decides `count` calls in order, each as sluice_decide() would, but hashes and prefetches ahead so that cache misses
 * overlap. Read each call's `err`: it is SLUICE_E_MISUSE in all of them if the store is NULL. */
SLUICE_API void sluice_decide_many(struct sluice_store *store, struct sluice_call *calls, size_t count);

/* ---- policies ------------------------------------------------------------------------------------------------ */

struct sluice_policy; /* immutable once loaded; any number of threads may share it */

/* A mistake or a warning in a policy file. Lines and columns count from 1. */
struct sluice_problem {
	uint32_t line, column;
	bool warning;   /* the file loads even so */
	char text[248]; /* NUL-ended: what was found and what was expected */
};

/* All problems of one file, in file order. Free them with sluice_problems_free(). */
struct sluice_problems {
	struct sluice_problem *list;
	size_t count;
};

/* Loads a policy from YAML bytes. Files that it names (overrides-from, denied, envoy) are for servers; they are not
 * read here, so no key has a quota from such a file. Reports all mistakes at once, and warnings, in `problems` (may be
 * NULL), which the caller frees whatever the result.
 * Returns SLUICE_OK with *policy set (free it with sluice_policy_free()), SLUICE_E_SYNTAX or SLUICE_E_MEMORY. */
SLUICE_API SLUICE_MUST_USE sluice_err sluice_policy_load(struct sluice_policy **policy, struct sluice_bytes yaml,
                                                         struct sluice_problems *problems);
SLUICE_API void sluice_policy_free(struct sluice_policy *policy);
SLUICE_API void sluice_problems_free(struct sluice_problems *problems);

/* One attribute of a request, such as user=alice. */
struct sluice_attribute {
	struct sluice_bytes name, value; /* name 1..SLUICE_NAME_BYTES_MAX bytes */
};

/* The limits of a policy that apply to one request. Those of a call are the first `count`. Those that found no place
 * among them, because SLUICE_ITEMS_MAX others apply, are the `beyond` ones from SLUICE_ITEMS_MAX on: they have
 * SLUICE_BOUND_LIMITS, and their counters are not read. */
struct sluice_match {
	uint32_t count;
	uint32_t beyond; /* at most SLUICE_BEYOND_MAX: more are not kept */
	struct sluice_item items[SLUICE_MATCHED_MAX]; /* they point into the policy and into the caller's buffer */
	uint32_t position[SLUICE_MATCHED_MAX];        /* of each limit in the policy file, from 0 */
};

/* Finds the limits that apply to a request, and encodes their keys. `ip`, `path`, `method` and `host` are first brought
 * into one form: an ip that is an address becomes canonical, without its port, and IPv6 becomes its network
 * (ipv6-prefix of the policy, 64); a path is resolved and loses its query; a method is in upper case; a host is in
 * lower case, without its port. A value above SLUICE_KEY_BYTES_MAX counts as the hash of the whole.
 *  buffer  holds the keys that `match` points to; SLUICE_MATCH_BYTES_MAX always suffices
 * An item has a cost of its own if the `cost` of its limit is a number. Clear that cost for a request that costs
 * nothing, and for one with `upto`.
 * If more than SLUICE_ITEMS_MAX limits apply, the first enforced one beyond those takes the last place and denies: its
 * item has SLUICE_BOUND_LIMITS. A call of these items charges nothing; it is allowed only if it costs nothing. The
 * limit that had the last place is then among those `beyond`.
 * Returns SLUICE_OK; SLUICE_E_MISUSE if an attribute is given twice; SLUICE_E_RANGE if a name is too long or the buffer
 * too small. Allocates nothing. Passes once over the policy's limits. */
#define SLUICE_MATCH_BYTES_MAX ((size_t)512 * 1024)
SLUICE_API SLUICE_MUST_USE sluice_err sluice_policy_match(const struct sluice_policy *policy,
                                                          const struct sluice_attribute *attributes, size_t count,
                                                          struct sluice_match *match, void *buffer,
                                                          size_t buffer_bytes);

/* Returns the name of the limit at a position in the policy file, or NULL past the last. The policy owns the text. */
SLUICE_API const char *sluice_policy_limit_name(const struct sluice_policy *policy, uint32_t position);

#ifdef __cplusplus
}
#endif
#endif
