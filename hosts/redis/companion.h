/* The companions of the counters of a key, kept as more counters of its value, of identities that no limit has:
 *
 *   LEDGER   of one counter: its open reservations (algo/ledger.h), sorted by end
 *   CONTENTS of one counter: what the bundles of its ledger are made of (algo/bundle.h)
 *   STRIKES  of one counter: who was denied how often, and is locked out until when (algo/terms.h)
 *   OVERRIDE of one counter: the quota that its key was given at run time (own_quota.h)
 *   TOKENS   of the key: the requests that were charged under an ID, and until when that is remembered (tokens.h)
 *
 * Their identities are companions' (algo/rule.h) of the type enum slr_companion; of TOKENS the counter's is 0.
 *
 * All that one says is in its block; the state has, as for any block, its bytes / 8 in w1's low half, and how many
 * entries are in use in the high one. w0 is 0, but of TOKENS the instant of the last one. */
#ifndef SLR_COMPANION_H
#define SLR_COMPANION_H

#include "algo/bundle.h"
#include "algo/terms.h"
#include "hosts/redis/value.h"

enum slr_companion {
	SLR_COMPANION_LEDGER = 1,
	SLR_COMPANION_STRIKES = 2,
	SLR_COMPANION_TOKENS = 3,
	SLR_COMPANION_CONTENTS = 4,
	SLR_COMPANION_OVERRIDE = 5
};

/* The identity of a counter's companion; of the key's, for SLR_COMPANION_TOKENS. */
static inline struct sl_identity slr_companion_of(enum slr_companion companion, struct sl_identity counter) {
	return sl_identity_companion(companion, companion == SLR_COMPANION_TOKENS ? (struct sl_identity){0, 0} : counter);
}

static inline bool slr_companion_is(enum slr_companion companion, struct sl_identity identity) {
	return sl_identity_is_companion(identity) && sl_identity_algorithm(identity) == (uint32_t)companion;
}

static inline bool slr_companion_is_tokens(struct sl_identity identity) {
	return sl_identity_equal(identity, slr_companion_of(SLR_COMPANION_TOKENS, (struct sl_identity){0, 0}));
}

/* The companion of a counter, as slr_value_find() gives it. */
static inline struct slr_counter *slr_companion_find(slr_value value, enum slr_companion companion,
                                                     struct sl_identity counter, struct slr_counter *scratch) {
	if (slr_value_is_packed(value) || !slr_value_has_companions(value))
		return NULL;
	return slr_value_find(value, slr_companion_of(companion, counter), scratch);
}

/* How many entries of a companion's block are in use, and how many bytes it has. */
static inline uint32_t slr_companion_used(const struct sl_state *state) {
	return (uint32_t)(state->w[1] >> 32);
}
static inline void slr_companion_set_used(struct sl_state *state, uint64_t used) {
	state->w[1] = used << 32 | (uint32_t)state->w[1];
}
static inline uint64_t slr_companion_room(const struct sl_state *state) {
	return (uint64_t)(uint32_t)state->w[1] * 8;
}

/* How many bytes of a companion's block are in use: all that is to be saved of it. */
uint64_t slr_companion_bytes(struct sl_identity identity, const struct sl_state *state);

/* Whether a companion's state and block are ones that this code could have written. */
bool slr_companion_is_valid(struct sl_identity identity, const struct sl_state *state, void *block);

/* ---- reservations ------------------------------------------------------------------------------------------------ */

/* The ledger of a counter; points into the value, valid until that is changed. */
struct sl_ledger slr_ledger_of(slr_value value, struct sl_identity counter);

/* The contents of its bundles; points into the value likewise. */
struct sl_contents slr_contents_of(slr_value value, struct sl_identity counter);

/* Adds a reservation at its place, or to a bundle (sl_bundle_add()). Nothing in the ledger has ended. False: there are
 * SL_LEDGER_MAX. `until_ms`: when the reservation has ended, for slr_value_gather(). */
SLUICE_MUST_USE bool slr_ledger_add(slr_value *value, struct sl_identity counter, const struct sluice_limit *limit,
                                    uint32_t rate, const struct sl_reservation *reservation, int64_t until_ms);

/* Removes `count` entries from index `at` on. */
void slr_ledger_remove(slr_value *value, struct sl_identity counter, uint32_t at, uint32_t count);

/* Removes one reservation that was found. */
void slr_ledger_close(slr_value *value, struct sl_identity counter, const struct sl_found *found);

/* ---- strikes ----------------------------------------------------------------------------------------------------- */

/* Copies the strikes of a counter; false, and all zero: there are none. */
bool slr_strikes_of(slr_value value, struct sl_identity counter, struct sl_strikes *strikes);

/* Writes them. */
void slr_strikes_put(slr_value *value, struct sl_identity counter, const struct sl_strikes *strikes, int64_t until_ms);

#endif
