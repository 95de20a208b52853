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

struct slr_key {
	slr_value value;        /* in and out */
	bool changed;           /* out: it is to be kept, its expiry set, its effects sent */
	bool exact;             /* `expire_ms` is what the key's expiry is to be, even if that is sooner, or none */
	int64_t expire_ms;      /* out, where changed: wall time until which it is to be kept at least, or 0: as it is */
	int64_t spare_ms;       /* out: how much longer than that it may be kept, so that its expiry moves seldom */
	int64_t wall_ms;        /* the call's clock, read at the first need; 0: not yet */
	struct slr_effects effects; /* out: what changed, for replicas; written where call->heard */
};

/* A call of counters in values: what is asked of them, and what a front and a value need beside that. */
struct slr_call {
	struct sluice_call asked; /* and answered; its operation, `items` and `each` are filled as it is decided. `found`:
	                           * of SL_OP_HOLD with upto the most that others hold of one counter; `forgotten`: holds
	                           * cancelled, too; `granted`: what was leased, too */
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* SL_OP_LEASE: one; their keys are those below */
	uint8_t key_of[SLUICE_ITEMS_MAX];           /* of each item: index into `keys` */
	struct slr_key keys[SLUICE_ITEMS_MAX];
	uint32_t key_count;          /* at most SLUICE_ITEMS_MAX */
	enum sl_operation operation; /* what it is to its caller: a hold is a charge to what decides */
	uint32_t spent, want;        /* SL_OP_LEASE */
	uint64_t id;                 /* of holds, leases and reservations: the number of asked.id, or a front's */
	uint64_t token;              /* SL_OP_CHECK: of the request's ID and all its counters; 0: it has none */
	int64_t (*wall_ms)(void);    /* Unix ms */
	bool (*is_full)(void);       /* whether the server has no memory for more; NULL: it always has. Asked where some is
	                              * needed */
	int64_t slack_ms; /* how much longer keys live: instants that a caller sets need not pass as the wall clock does */
	bool keep;        /* no figure counts the hold of `id`; SL_OP_CONFIRM charges out of it, and keeps the rest */
	bool heard;       /* somebody listens */
	uint32_t phased;  /* a bit for each item whose limit has its phase from its key */
	struct sluice_inspection *inspect; /* SL_OP_PEEK: out, what each item's counter holds, too; NULL: it is not told */
	struct sluice_decision each[SLUICE_ITEMS_MAX]; /* out */
};

/* Who holds leases of a call's one limit, of concurrency, those that end first first: fills at most `room` of `list`.
 * Returns how many there are in all. O(n log n). */
uint32_t slr_holders_of(const struct slr_call *call, struct sluice_holder *list, uint32_t room);

/* Decides one call, all or nothing. Well below 1 us for a few small counters; a log with leases on it is copied. */
SLUICE_MUST_USE enum slr_failure slr_decide(struct slr_call *call);

#endif
