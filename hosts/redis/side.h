/* What stands beside the counters of a key, as more counters of its value, of identities that no limit has:
 *
 *   LEDGER   of one counter: its open reservations (algo/ledger.h), sorted by end
 *   CONTENTS of one counter: what the bundles of its ledger are made of (algo/bundle.h)
 *   STRIKES  of one counter: who was denied how often, and is shut out until when (algo/terms.h)
 *   TOKENS   of the key: the requests that were charged under an ID, and until when that is remembered
 *
 *   kind  63..62 3   61..58 enum slr_side   57..0 the name of the counter, but for its highest bits
 *   name  the kind of the counter; of TOKENS both are 0
 *
 * All that one says is in its block; the state has, as for any block, its bytes / 8 in w1's low half, and how many
 * entries are in use in the high one. w0 is 0, but of TOKENS the instant of the last one.
 *
 * TOKENS is a hash table of power-of-two size, at most half full, with linear probing: so a token costs the same
 * whether ten or ten thousand are remembered. What has ended goes when the table is made anew, as it must to grow. */
#ifndef SLR_SIDE_H
#define SLR_SIDE_H

#include "algo/bundle.h"
#include "algo/terms.h"
#include "hosts/redis/value.h"

enum slr_side { SLR_SIDE_LEDGER = 1, SLR_SIDE_STRIKES = 2, SLR_SIDE_TOKENS = 3, SLR_SIDE_CONTENTS = 4 };

enum { SLR_TOKENS_MAX = 65536 /* remembered at one key */ };

/* A request that was charged. */
struct slr_token {
	uint64_t hash;   /* of the id and all counters of the call; never 0 */
	sluice_ns end;   /* from which on it is forgotten */
	sluice_ns at;    /* when it was charged */
	sluice_ns delay; /* that it was given */
	uint32_t granted;
	uint32_t zero;
};

static inline enum slr_side slr_side_type(struct slr_identity identity) {
	return (enum slr_side)(identity.kind >> 58 & 15);
}

/* The identity of what stands beside a counter; of the key, for SLR_SIDE_TOKENS. */
static inline struct slr_identity slr_side_of(enum slr_side side, struct slr_identity counter) {
	if (side == SLR_SIDE_TOKENS)
		counter = (struct slr_identity){0, 0};
	return (struct slr_identity){(uint64_t)3 << 62 | (uint64_t)side << 58 | counter.name << 6 >> 6, counter.kind};
}

/* What of a side's block says something, in bytes: all that is to be saved of it. */
uint64_t slr_side_bytes(struct slr_identity identity, const struct sl_state *state);

/* Whether a side's state and block are ones that this code could have written. */
bool slr_side_is_valid(struct slr_identity identity, const struct sl_state *state, void *block);

/* ---- reservations ------------------------------------------------------------------------------------------------ */

/* The ledger of a counter; points into the value, valid until that is changed. */
struct sl_ledger slr_ledger_of(slr_value value, struct slr_identity counter);

/* The contents of its bundles; points into the value likewise. */
struct sl_contents slr_contents_of(slr_value value, struct slr_identity counter);

/* Adds a reservation at its place, or to a bundle (sl_bundle_add()). Nothing in the ledger has ended. False: there are
 * SL_LEDGER_MAX. `until_ms` as for slr_value_open(). */
SLUICE_MUST_USE bool slr_ledger_add(slr_value *value, struct slr_identity counter, const struct sluice_limit *limit,
                                    uint32_t rate, const struct sl_reservation *reservation, int64_t until_ms);

/* Removes `count` entries from index `at` on. */
void slr_ledger_remove(slr_value *value, struct slr_identity counter, uint32_t at, uint32_t count);

/* Removes one reservation that was found. */
void slr_ledger_close(slr_value *value, struct slr_identity counter, const struct sl_found *found);

/* ---- strikes ----------------------------------------------------------------------------------------------------- */

/* Copies the strikes of a counter; false, and all zero: there are none. */
bool slr_strikes_of(slr_value value, struct slr_identity counter, struct sl_strikes *strikes);

/* Writes them. */
void slr_strikes_put(slr_value *value, struct slr_identity counter, const struct sl_strikes *strikes, int64_t until_ms);

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* The token of a hash that is remembered at `now`; NULL: there is none. Points into the value. */
const struct slr_token *slr_token_find(slr_value value, uint64_t hash, sluice_ns now);

/* Remembers one, in place of one of the same hash. Where SLR_TOKENS_MAX are remembered already, half of the others are
 * forgotten. */
void slr_token_add(slr_value *value, const struct slr_token *token, int64_t until_ms);

#endif
