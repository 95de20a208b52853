/* Deciding a call over values (value.h): what src/check is for an arena, for keys of Redis. It knows no Redis.
 *
 * Caveats first
 *  - A call that is denied, that fails, or that only looks (SLR_PEEK) changes no value.
 *  - `now` is the caller's: Unix ns. A counter's own clock is never behind its last charge, and its holds end by that
 *    clock.
 *  - Expiry is told in wall time, which Redis expires by: `wall_ms` is the caller's clock, asked where it is needed. */
#ifndef SLR_DECIDE_H
#define SLR_DECIDE_H

#include "hosts/redis/note.h"

enum slr_operation { SLR_CHECK, SLR_PEEK, SLR_REFUND, SLR_RESET, SLR_HOLD, SLR_CONFIRM, SLR_CANCEL, SLR_LEASE };

/* Why a call was not decided. */
enum slr_failure {
	SLR_FINE,
	SLR_LOG_TOO_LONG,      /* a log of 2^25 entries */
	SLR_TOO_MANY_HOLDS,    /* SLR_HOLDS_MAX on one counter */
	SLR_TOO_MANY_COUNTERS, /* SLR_COUNTERS_MAX at one key */
};

struct slr_item {
	struct sluice_limit limit;
	uint8_t key;     /* index into slr_call.keys */
	uint8_t watched; /* 0: enforced; SLUICE_OBSERVED, SLUICE_TRIED */
};

struct slr_key {
	slr_value value;        /* in and out */
	bool changed;           /* out: it is to be kept, its expiry set, its notes sent */
	int64_t expire_ms;      /* out, where changed: wall time until which it is to be kept at least, or 0: as it is */
	int64_t wall_ms;        /* the call's clock, read at the first need; 0: not yet */
	struct slr_notes notes; /* out: what changed, for replicas; written where call->noted */
};

struct slr_call {
	enum slr_operation operation;
	uint32_t item_count, key_count; /* at most SLUICE_ITEMS_MAX each; SLR_LEASE: one item */
	uint32_t cost;
	uint32_t spent, want; /* SLR_LEASE */
	uint64_t id;          /* SLR_HOLD, _CONFIRM, _CANCEL, _LEASE */
	sluice_ns ttl_ns;     /* SLR_HOLD, _LEASE */
	sluice_ns now;
	int64_t (*wall_ms)(void); /* Unix ms */
	int64_t slack_ms; /* how much longer keys live: instants that a caller sets need not pass as the wall clock does */
	bool want_next;   /* fill next_after_ns */
	bool noted;       /* somebody listens */
	struct slr_item items[SLUICE_ITEMS_MAX];
	struct slr_key keys[SLUICE_ITEMS_MAX];

	struct sluice_decision merged, each[SLUICE_ITEMS_MAX]; /* out */
	uint32_t forgotten;                                    /* out: counters reset, or holds cancelled */
	uint32_t granted;                                      /* out: SLR_LEASE */
};

/* Decides one call, all or nothing. Well below 1 us for a few small counters; a log with leases on it is copied. */
SLUICE_MUST_USE enum slr_failure slr_decide(struct slr_call *call);

#endif
