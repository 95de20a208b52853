/* The stats: what has been decided, by limit. Every door writes them through sl_call_outcome_settle()
 * (door/call_outcome.h); the metrics, the figures and the dashboard read them.
 *
 * A row belongs to a limit's name and lives as long as the server: a reload that moves, changes or drops a limit does
 * not make its counters jump. Row 0 counts limits given in notation, which have no name. Each worker has a page of its
 * own with all rows, which it alone writes; readers add the pages up. No label and no row ever comes from a key.
 * Of a policy with more than SL_STATS_LIMITS_MAX limits the first of its file have rows; the others share one.
 *
 *            row 0     row 1 "login"   row 2 "per-user" ..
 *   worker 0 [....]    [....]          [....]                 <- written by worker 0 only, relaxed
 *   worker 1 [....]    [....]          [....]
 *
 * A sampler takes the sums every SL_HISTORY_STEP_MS into a ring, so that a dashboard that is opened in the middle of an
 * incident shows how it began. */
#ifndef SL_STATS_H
#define SL_STATS_H

#include "hosts/server/watch/client_stats.h"
#include "hosts/server/watch/route_stats.h"
#include "hosts/server/watch/rule_stats.h"
#include "hosts/server/watch/times.h"
#include "policy/policy.h"

/* What became of leases, reservations and retries: calls, not limits. */
enum sl_event {
	SL_EVENT_LEASE_ACQUIRED,
	SL_EVENT_LEASE_RELEASED,
	SL_EVENT_LEASE_RENEWED,
	SL_EVENT_LEASE_UNKNOWN, /* released or renewed, but it had ended, or never was */
	SL_EVENT_RESERVATION_MADE,
	SL_EVENT_RESERVATION_COMMITTED,
	SL_EVENT_RESERVATION_UNKNOWN, /* committed, but it had been before, or had returned at its end */
	SL_EVENT_REPEATED,            /* allowed without a charge: it had been charged before under its id */
	SL_EVENT_PARTLY,              /* UPTO: less was granted than was asked for, but some */
	SL_EVENT_OVERRIDE_SET,        /* a key got a quota of its own, or another one */
	SL_EVENT_OVERRIDE_DELETED,
	SL_EVENT_OVERRIDE_FULL, /* refused: there were as many as there may be */
	SL_EVENTS
};

/* The name of the row of limits that have none of their own. */
#define SL_STATS_OTHERS "(others)"

enum {
	SL_STATS_LIMITS_MAX = 1024, /* limits of a policy that have rows of their own */
	/* Names remembered, row 0 included: more than the limits of two policies, so that a new policy finds rows that
	 * neither it nor the one before it uses. */
	SL_ROWS_MAX = 2 * SL_STATS_LIMITS_MAX + 64,
	SL_HISTORY_STEP_MS = 2000,
	SL_HISTORY_STEPS = 450, /* 15 minutes */
};

/* What one worker counted of one limit. Relaxed; written by that worker only. */
struct sl_row {
	_Atomic uint64_t decisions[SL_TRANSPORTS][SL_VERDICTS]; /* by this limit alone */
	_Atomic uint64_t hits[2];                               /* cost of what it denied [0] and allowed [1] */
	_Atomic uint64_t near;      /* allowed decisions that left at most near-limit of the quota */
	_Atomic uint64_t candidate; /* decisions that its candidate would have denied */
	_Atomic uint64_t penalties; /* lockouts that began */
	_Atomic uint64_t undecided; /* requests that it let pass while the store could not answer (on-error: allow) */
	_Atomic uint64_t bounds[SLUICE_BOUNDS]; /* decisions that met this bound of ours; [0] stays 0 */
};

/* One worker's page. */
struct sl_worker_stats {
	_Alignas(64) _Atomic(struct sl_row *) rows[SL_ROWS_MAX / 64]; /* chunks of 64 rows, made when first needed */
	_Atomic uint64_t requests[SL_TRANSPORTS][SL_VERDICTS];        /* decided as a whole; never SHADOW */
	_Atomic uint64_t errors[SL_TRANSPORTS];                       /* protocol errors, refused requests */
	_Atomic uint64_t events[SL_TRANSPORTS][SL_EVENTS];
	struct sl_rule_page *_Atomic rules; /* by the rules of envoyproxy/ratelimit's files; NULL: none was met yet */
	_Atomic uint64_t *routes; /* denials by the rows of routes: SL_ROUTE_ROWS_MAX */
	struct sl_times decision, request[SL_TRANSPORTS];
	struct sl_client_page clients;
};

struct sl_stats;

/* Makes the stats for so many workers; NULL when the system gives no memory. Free with sl_stats_free(). */
struct sl_stats *sl_stats_new(uint32_t workers);
void sl_stats_free(struct sl_stats *stats);

/* The page of a worker, 0..workers-1. Owned by the stats. */
struct sl_worker_stats *sl_stats_worker(struct sl_stats *stats, uint32_t worker);

/* How many limits of a policy have rows of their own: those before this position. */
uint32_t sl_stats_limits_of(const struct sluice_policy *policy);

/* How many rows a policy has: of its limits, and after them of its routes. */
uint32_t sl_stats_rows_of(const struct sluice_policy *policy);

/* Gives each limit of a policy its row, by name, and each of its routes: fills rows[0 .. sl_stats_rows_of()), the
 * routes' by their numbers after those of the limits. To be called for every policy that is taken over, before it is
 * used. From any thread; O(limits x rows), some ms for the largest policies. A row that is used again is one that
 * neither this policy nor the one entered before it has. */
void sl_stats_enter(struct sl_stats *stats, const struct sluice_policy *policy, uint32_t *rows);

/* The row of a page, for writing by its worker; NULL when the system gives no memory. Some ns. */
struct sl_row *sl_worker_stats_row(struct sl_worker_stats *stats, uint32_t row);

/* A limit let a request pass undecided at `now`: the second is counted, once whatever worker says so. Any thread. */
void sl_stats_undecided(struct sl_stats *stats, uint32_t row, sluice_ns now);

/* ---- reading ---- */

/* The sums of all workers of one row. */
struct sl_row_sum {
	char name[SLUICE_NAME_BYTES_MAX + 1]; /* "" for row 0 */
	uint64_t decisions[SL_TRANSPORTS][SL_VERDICTS];
	uint64_t hits[2], near, candidate, penalties, bounds[SLUICE_BOUNDS];
	uint64_t undecided, undecided_s; /* requests let pass, and the seconds in which there was any */
};

/* The highest row in use + 1. */
uint32_t sl_stats_row_count(const struct sl_stats *stats);
/* Adds up a row; false where it is not in use. From any thread. */
bool sl_stats_row(const struct sl_stats *stats, uint32_t row, struct sl_row_sum *sum);

/* The denials by route. Owned by the stats. */
const struct sl_route_stats *sl_stats_routes(const struct sl_stats *stats);

/* The pages of all workers for the rules of envoyproxy/ratelimit's files, each of which may be NULL: fills `pages`.
 * Returns how many, at most SL_THREADS_MAX. */
uint32_t sl_stats_rules(const struct sl_stats *stats, const struct sl_rule_page *pages[SL_THREADS_MAX]);

/* Adds up who asks: as sl_client_stats_sums() says. */
uint32_t sl_stats_clients(struct sl_stats *stats, struct sl_client_sum sums[SL_CLIENTS_TOLD_MAX]);

/* What all doors together decided of it. */
uint64_t sl_row_sum_decided(const struct sl_row_sum *sum, enum sl_verdict verdict);

struct sl_stats_sum {
	uint64_t requests[SL_TRANSPORTS][SL_VERDICTS], errors[SL_TRANSPORTS], events[SL_TRANSPORTS][SL_EVENTS];
	uint64_t decision[SL_TIMES], decision_ns;
	uint64_t request[SL_TRANSPORTS][SL_TIMES], request_ns[SL_TRANSPORTS];
};
/* Adds up what is counted of requests as a whole. From any thread; O(workers). */
void sl_stats_sum(const struct sl_stats *stats, struct sl_stats_sum *sum);

/* What all doors together decided, and what became of leases, reservations and retries there. */
uint64_t sl_stats_sum_decided(const struct sl_stats_sum *sum, enum sl_verdict verdict);
uint64_t sl_stats_sum_event(const struct sl_stats_sum *sum, enum sl_event event);

/* ---- history ---- */

/* What was counted in one step of time. */
struct sl_step_sum {
	uint32_t allowed, denied, shadow, near, candidate;
};

/* Takes the sums of now into the history; called every SL_HISTORY_STEP_MS by one thread. */
void sl_stats_sample(struct sl_stats *stats, sluice_ns now);
/* The last steps of a row, oldest first: at most SL_HISTORY_STEPS. Returns how many; *last is the instant of the
 * newest. From any thread. */
uint32_t sl_stats_history(struct sl_stats *stats, uint32_t row, struct sl_step_sum steps[SL_HISTORY_STEPS],
                          sluice_ns *last);

#endif
