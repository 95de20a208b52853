/* What an algorithm remembers of a counter: 16 bytes, and for the larger ones a block of memory beside them; of a
 * bucket also the rate that it drains by, where its host has room for that.
 *
 * A state of zeros is no state. The host (the store, or a module) keeps these bytes and the block, and never looks into
 * them, but for two agreements:
 *
 *   word 0, bits 63..19   the instant of the last charge in units of 2^19 ns (base/coarse.h), whatever else an
 *                         algorithm packs below. The store adds a lifetime to it to know, knowing nothing of limits,
 *                         from when on the state equals no state.
 *   word 1, bits 31..0    belong to the host where the algorithm uses a block: there it keeps where the block is. */
#ifndef SL_STATE_H
#define SL_STATE_H

#include "algo/rule.h"
#include "base/coarse.h"

struct sl_state {
	uint64_t w[2];
	/* Of buckets whose rate may change; others don't look at it. Either the rate that it drains by: QUOTA of the limit
	 * that charged it last, or 0 where that is not known; then `life` is 0. Or, from a host that keeps no rates, the
	 * code of the lifetime that it was published with (base/life.h), plus 1; then `rate` says nothing. */
	uint32_t rate, life;
};

/* A log as it stands at one instant (log.c). */
struct sl_log {
	unsigned char *sums, *instants; /* parts of the block */
	uint32_t capacity, weighted;
	uint32_t width, head, count;
	uint32_t expired;     /* of the `count` entries, how many no longer count */
	uint32_t total, base; /* the sum at the newest entry, and at the newest expired one */
	uint64_t last_ms, window_ms;
	sluice_ns t;
};

/* Sub-buckets as they stand at one instant (subs.c). */
struct sl_subs {
	void *cells;        /* the block; NULL: none, or one too short */
	bool narrow;        /* cells of 16 bits */
	uint64_t n, slot;   /* where the cell of the last charge's sub-bucket stands */
	uint64_t stale;     /* of the newest cells, how many read as 0 */
	uint64_t moved;     /* sub-buckets from the last charge's to t's, at most n + 1 */
	uint64_t b;         /* t's */
	uint64_t full, old; /* the cost of b-n+1..b, and of b-n */
	sluice_ns t, r;     /* the instant, and how far into b it is */
};

enum { SL_NO_PLACE = UINT32_MAX };

/* Leases, or members, as they stand at one instant (seats.c). */
struct sl_seats {
	uint64_t *ends, *ids; /* parts of the block */
	uint32_t *costs;      /* the same; NULL: 1 each */
	uint32_t capacity, flags;
	uint32_t live, mine, spare; /* how many count; where who asks stands; a dead seat. SL_NO_PLACE: none */
	uint64_t held;              /* what they cost */
	sluice_ns last_end;         /* when the last of them ends; 0: none */
	sluice_ns t, last;          /* the instant; that of the last charge */
	struct sl_hll *hll;   /* distinct above 1,024: part of the block (hll.h); NULL: none */
	uint16_t rows[28];          /* of the sketch at t, if they were counted: then rows[0] is not 0 */
};

/* A counter as a step sees it: a copy of its state, and its block in place (NULL and 0 bytes: none). Any bytes may
 * stand in either: answers may then be wrong, but nothing outside the block is touched and no step takes longer. */
struct sl_counter {
	struct sl_state state;
	void *block;          /* aligned to 8 */
	uint64_t block_bytes; /* a multiple of 8 */
	uint64_t who;         /* in: concurrency: the number of the lease; distinct: the fingerprint of the member; 0:
	                       * nobody's. Others do not look at it */
	uint32_t keep;        /* out, of sl_step_count(): what sl_step_trim() leaves of a log */
	bool known;           /* out, of sl_step(): that lease is held, that member counted: nothing more is charged */
	union {               /* what sl_step() found, for the write at the same instant that follows it */
		struct sl_log log;
		struct sl_subs subs;
		struct sl_seats seats;
	};
};

/* The two agreements, for hosts: the instant of the last charge, cut to 2^19 ns; and what of it is the host's. */
static inline sluice_ns sl_state_coarse(const struct sl_state *state) {
	return state->w[0] >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
}

static inline uint32_t sl_state_host(const struct sl_state *state) {
	return (uint32_t)state->w[1];
}

static inline void sl_state_set_host(struct sl_state *state, uint32_t host) {
	state->w[1] = state->w[1] >> 32 << 32 | host;
}

static inline bool sl_state_is_none(const struct sl_state *state) {
	return (state->w[0] | state->w[1]) == 0;
}

#endif
