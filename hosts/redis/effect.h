/* Effects: what a call has changed in a value, written so that a replica, or a server that reads its append-only file,
 * makes the same of its own copy without deciding anything or reading a clock. They are the payload of SLUICE.EFFECT.
 *
 *   effect  := type u8 | kind u64 | name u64 | rest           numbers are little-endian
 *   STATE   := w0 u64 | w1 u64                                the state of a small counter: as it now is
 *   CHARGE  := instant u64 | cost u32                         what a log or sub-buckets were charged
 *   WHOLE   := a counter (codec.h)                            its state, block and holds: as they now are
 *   HOLDS   := count u32 | count holds                        its holds: as they now are
 *   GONE    :=                                                it is forgotten
 *   LEND    := instant u64 | cost u32 | who u64               what a lease or member was charged
 *   RELEASE := instant u64 | who u64                          a lease ended,
 *   RENEW   := instant u64 | who u64                          or was renewed,
 *   FORGET  := instant u64 | who u64                          or a member forgotten
 *   COUNT   := instant u64 | cost u32 | quota u32             what a log or sub-buckets were charged under count-denied
 *   CORRECT := count u32 | count corrections                  of a log or sub-buckets: instant u64 | known u64
 *                                                             | charged u32 | actual u32 | debt u32
 *   OPEN    := id u64 | instant u64 | end u64 | cost u32      a reservation
 *              | debt u32
 *   CLOSE   := end u64 | id u64                               that one is committed
 *   RETURN  := instant u64                                    all that had ended by then have left the ledger
 *   RATE    := rate u32                                       of a bucket of a name, after its STATE or WHOLE: what it
 *                                                             drains by, where that is not what it was
 *   REFUND  := instant u64 | cost u32                         what was given back of a log
 *   TOKEN   := hash u64 | end u64 | at u64 | delay u64        a request that was charged; name and kind are 0
 *              | granted u32
 *
 * A log of 70,000 entries is not sent again for each charge: so CHARGE and what is like it, which are not
 * idempotent. It
 * is charged whatever its limit says, since it has been admitted. Strikes, and quotas of keys' own, are sent WHOLE. */
#ifndef SLR_EFFECT_H
#define SLR_EFFECT_H

#include "hosts/redis/codec.h"
#include "hosts/redis/companion.h"
#include "hosts/redis/tokens.h"

enum slr_effect_type {
	SLR_EFFECT_STATE = 1,
	SLR_EFFECT_CHARGE,
	SLR_EFFECT_WHOLE,
	SLR_EFFECT_HOLDS,
	SLR_EFFECT_GONE,
	SLR_EFFECT_LEND,
	SLR_EFFECT_RELEASE,
	SLR_EFFECT_RENEW,
	SLR_EFFECT_FORGET,
	SLR_EFFECT_COUNT,
	SLR_EFFECT_CORRECT,
	SLR_EFFECT_OPEN,
	SLR_EFFECT_CLOSE,
	SLR_EFFECT_RETURN,
	SLR_EFFECT_TOKEN,
	SLR_EFFECT_RATE,
	SLR_EFFECT_REFUND
};

/* Effects of one key. Zeroed it is empty; its memory is kept from call to call, until slr_bytes_free(). */
struct slr_effects {
	struct slr_bytes bytes;
};

/* Appends an effect: the state as it now is, of a counter without block. */
void slr_effect_state(struct slr_effects *effects, struct sl_identity identity, const struct sl_state *state);

/* Appends an effect of a bucket's rate, where it keeps one. */
void slr_effect_rate(struct slr_effects *effects, struct sl_identity identity, const struct sl_state *state);

/* Appends an effect: what a counter with a block was charged, cost >= 1. */
void slr_effect_charge(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost);

/* Append an effect of a counter as it now is, but for its rate; of that and until when it is kept, wall ms; of its
 * holds; and that it is forgotten. */
void slr_effect_whole(struct slr_effects *effects, const struct slr_counter *counter);
void slr_effect_kept(struct slr_effects *effects, const struct slr_counter *counter, int64_t until_ms);
void slr_effect_holds(struct slr_effects *effects, const struct slr_counter *counter);
void slr_effect_gone(struct slr_effects *effects, struct sl_identity identity);

/* Append an effect of a lease or member: what it was charged, cost >= 1; and that it ended, was renewed or forgotten.
 * */
void slr_effect_lend(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost,
                     uint64_t who);
void slr_effect_who(struct slr_effects *effects, enum slr_effect_type type, struct sl_identity identity,
                    sluice_ns instant, uint64_t who);

/* Append an effect of a counter with a block: what it was charged whatever its quota; and how it was corrected. */
void slr_effect_count(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost,
                      uint32_t quota);
void slr_effect_correct(struct slr_effects *effects, struct sl_identity identity, const struct sl_correction *list,
                        uint32_t count);

/* Appends an effect: what was asked back of a log. */
void slr_effect_refund(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost);

/* Append an effect of a counter's ledger: what is reserved, what is committed; and what has ended at an instant. */
void slr_effect_open(struct slr_effects *effects, struct sl_identity identity,
                     const struct sl_reservation *reservation);
void slr_effect_close(struct slr_effects *effects, struct sl_identity identity,
                      const struct sl_reservation *reservation);
void slr_effect_return(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant);

/* Appends an effect of a request that was charged. */
void slr_effect_token(struct slr_effects *effects, const struct slr_token *token);

/* Does to a value what effects say. Any bytes may come: false where they are no effects, and then the value is as it
 * was; or where they were written for another value, which has no room for them: then it is well-formed. */
SLUICE_MUST_USE bool slr_effects_apply(slr_value *value, struct sluice_bytes effects);

#endif
