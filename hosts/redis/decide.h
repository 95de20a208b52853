/* Deciding a call over values (value.h): what src/check is for an arena, for keys of Redis. It knows no Redis.
 *
 * Caveats first
 *  - A call that is denied, that fails, or that only looks (SL_OP_PEEK) changes no value.
 *  - `now` is the caller's: Unix ns. A counter's own clock is never before its last charge, and its holds end by that
 *    clock.
 *  - Expiry is told in wall time, which Redis expires by: `wall_ms` is the caller's clock, asked where it is needed. */
#ifndef SLR_DECIDE_H
#define SLR_DECIDE_H

#include "base/operation.h"
#include "hosts/redis/effect.h"

/* Whether an operation is a front's, which holds. */
static inline bool slr_holds_by(enum sl_operation operation) {
	return sl_operation_is(operation, SL_OPS_HOLDING);
}

/* Why a call was not decided. */
enum slr_failure {
	SLR_FINE,
	SLR_LOG_TOO_LONG,      /* a log of 2^25 entries */
	SLR_TOO_MANY_HOLDS,    /* SLR_HOLDS_MAX on one counter: the call is denied, and nobody is told this */
	SLR_TOO_MANY_COUNTERS, /* SLR_COUNTERS_MAX at one key */
	SLR_TOO_MANY_OPEN,     /* SL_LEDGER_MAX reservations of one counter */
	SLR_NO_ROOM,           /* the server has no memory for what a charge would add */
};

struct slr_item {
	struct sluice_limit limit;
	uint8_t key;     /* index into slr_call.keys */
	uint8_t watched; /* 0: enforced; SLUICE_OBSERVED, SLUICE_TRIED */
	bool has_terms;
	uint32_t cost;             /* its own; 0: the call's */
	uint64_t member;           /* distinct: the fingerprint of who is counted; 0: nobody's */
	sluice_ns ttl_ns;          /* SL_OP_ACQUIRE, _RESERVE: what it is charged is reserved for so long; 0: the call's */
	struct sluice_terms terms; /* where it has any */
};

struct slr_key {
	slr_value value;        /* in and out */
	bool changed;           /* out: it is to be kept, its expiry set, its effects sent */
	int64_t expire_ms;      /* out, where changed: wall time until which it is to be kept at least, or 0: as it is */
	int64_t wall_ms;        /* the call's clock, read at the first need; 0: not yet */
	struct slr_effects effects; /* out: what changed, for replicas; written where call->heard */
};

struct slr_call {
	enum sl_operation operation;
	uint32_t item_count, key_count; /* at most SLUICE_ITEMS_MAX each; SL_OP_LEASE: one item */
	uint32_t cost;
	uint32_t spent, want; /* SL_OP_LEASE */
	uint64_t id;          /* of holds, leases and reservations */
	uint64_t token;       /* SL_OP_CHECK: of the request's ID and all its counters; 0: it has none */
	sluice_ns ttl_ns;     /* SL_OP_HOLD, _LEASE, _RESERVE */
	sluice_ns now;
	int64_t (*wall_ms)(void); /* Unix ms */
	bool (*is_full)(void);    /* whether the server has no memory for more; NULL: it always has. Asked where some is
	                           * needed */
	int64_t slack_ms; /* how much longer keys live: instants that a caller sets need not pass as the wall clock does */
	bool want_next;   /* fill next_after_ns */
	bool upto;        /* SL_OP_CHECK, _PEEK, _HOLD: grant the largest part of the cost that is admitted */
	bool keep;        /* no figure counts the hold of `id`; SL_OP_CONFIRM charges out of it, and keeps the rest */
	bool heard;       /* somebody listens */
	struct slr_item items[SLUICE_ITEMS_MAX];
	struct slr_key keys[SLUICE_ITEMS_MAX];

	struct sluice_decision merged, each[SLUICE_ITEMS_MAX]; /* out */
	uint32_t forgotten;                                    /* out: counters reset, or holds cancelled */
	uint32_t granted;                                      /* out: what was leased, or of the cost granted */
	uint32_t found;                                        /* out: SL_OP_RELEASE, _RENEW, _COMMIT: of how many counters;
	                                                        * SL_OP_HOLD with upto: the most that others hold of one */
	bool repeated; /* out: nothing was charged, since that had been done under this id */
};

/* Who holds leases of a call's one limit, of concurrency, those that end first first: fills at most `room` of `list`.
 * Returns how many there are in all. O(n log n). */
uint32_t slr_holders_of(const struct slr_call *call, struct sluice_holder *list, uint32_t room);

/* Decides one call, all or nothing. Well below 1 us for a few small counters; a log with leases on it is copied. */
SLUICE_MUST_USE enum slr_failure slr_decide(struct slr_call *call);

#endif
