/* TOKENS, the companion of a key (companion.h): the requests that were charged under an ID, and until when each is
 * remembered.
 *
 * They are a hash table of power-of-two size, at most half full, with linear probing: so a token costs the same whether
 * ten or ten thousand are remembered. What has ended goes when the table is made anew, as it must to grow.
 *
 * T1  Whoever chooses IDs knows their hashes, which every server makes alike, but not where they stand: a place follows
 *     from a hash by a secret of the process. Else a few thousand IDs of one run of places would cost every call a
 *     walk over all of them.
 * T2  What is saved or sent says nothing of the secret: there a token stands where its hash alone puts it, in order. So
 *     the bytes are the same wherever they are written, and are those that all versions read.
 * T3  The table has SLR_TOKENS_MAX at most. Full, it is made anew, which takes a millisecond, with no more than
 *     SLR_TOKENS_KEPT of them: so it has room for a quarter as many before the next time. Which of them go follows from
 *     what they say, so that replicas keep the same ones. */
#ifndef SLR_TOKENS_H
#define SLR_TOKENS_H

#include "hosts/redis/value.h"

enum {
	SLR_TOKENS_MAX = 65536,                   /* remembered at one key */
	SLR_TOKENS_KEPT = SLR_TOKENS_MAX / 4 * 3, /* that a full table keeps; of more the half that ends first goes */
};

/* A request that was charged. */
struct slr_token {
	uint64_t hash;   /* of the id and all counters of the call; never 0 */
	sluice_ns end;   /* from which on it is forgotten */
	sluice_ns at;    /* when it was charged */
	sluice_ns delay; /* that it was given */
	uint32_t granted;
	uint32_t zero;
};

/* The secret by which tokens are placed (T1), before the first is; without it is 0, as in tests. */
void slr_tokens_keep_secret(const uint64_t secret[2]);

/* The token of a hash that is remembered at `now`; NULL: there is none. Points into the value. O(1). */
const struct slr_token *slr_token_find(slr_value value, uint64_t hash, sluice_ns now);

/* Whether one can be remembered once so many rows more are made: there is a table for it, or a row for a table. */
bool slr_token_fits(slr_value value, uint32_t rows);

/* Remembers one, in place of one of the same hash. Amortised O(1). */
void slr_token_add(slr_value *value, const struct slr_token *token, int64_t until_ms);

/* ---- as bytes (T2) ----------------------------------------------------------------------------------------------- */

/* The block of a table of so many bytes as it is saved; give it back with slr_give(). */
void *slr_tokens_saved(const void *table, uint64_t bytes);

/* The block that a saved one becomes, taken in its place, and the state for it. False, and all as it was: it is none
 * that any version could have written. */
SLUICE_MUST_USE bool slr_tokens_load(struct sl_counter *counter);

/* Whether a state and a block are ones that this process could have led to. */
bool slr_tokens_are_valid(const struct sl_state *state, const void *table);

#endif
