/* Notes: what a call has changed in a value, written so that a replica, or a server that reads its append-only file,
 * makes the same of its own copy without deciding anything or reading a clock. They are the payload of SLUICE.EFFECT.
 *
 *   note    := type u8 | kind u64 | name u64 | rest           numbers are little-endian
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
 *   RATE    := rate u32                                       of a bucket of a name, behind its STATE or WHOLE: what it
 *                                                             drains by, where that is not what it was
 *   TOKEN   := hash u64 | end u64 | at u64 | delay u64        a request that was charged; name and kind are 0
 *              | granted u32
 *
 * A log of 70,000 entries is not sent again for each charge: so CHARGE and what is like it, which are not
 * idempotent. It
 * is charged whatever its limit says, since it has been admitted. Strikes are sent WHOLE. */
#ifndef SLR_NOTE_H
#define SLR_NOTE_H

#include "hosts/redis/codec.h"
#include "hosts/redis/side.h"

enum slr_note {
	SLR_NOTE_STATE = 1,
	SLR_NOTE_CHARGE,
	SLR_NOTE_WHOLE,
	SLR_NOTE_HOLDS,
	SLR_NOTE_GONE,
	SLR_NOTE_LEND,
	SLR_NOTE_RELEASE,
	SLR_NOTE_RENEW,
	SLR_NOTE_FORGET,
	SLR_NOTE_COUNT,
	SLR_NOTE_CORRECT,
	SLR_NOTE_OPEN,
	SLR_NOTE_CLOSE,
	SLR_NOTE_RETURN,
	SLR_NOTE_TOKEN,
	SLR_NOTE_RATE
};

/* Notes of one key. Zeroed it is empty; its memory is kept from call to call, until slr_bytes_free(). */
struct slr_notes {
	struct slr_bytes bytes;
};

/* Appends a note: the state as it now is, of a counter without block. */
void slr_note_state(struct slr_notes *notes, struct slr_identity identity, const struct sl_state *state);

/* Appends a note of a bucket's rate, where it keeps one. */
void slr_note_rate(struct slr_notes *notes, struct slr_identity identity, const struct sl_state *state);

/* Appends a note: what a counter with a block was charged, cost >= 1. */
void slr_note_charge(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost);

/* Append a note of a counter as it now is, but for its rate; of its holds; and that it is forgotten. */
void slr_note_whole(struct slr_notes *notes, const struct slr_counter *counter);
void slr_note_holds(struct slr_notes *notes, const struct slr_counter *counter);
void slr_note_gone(struct slr_notes *notes, struct slr_identity identity);

/* Append a note of a lease or member: what it was charged, cost >= 1; and that it ended, was renewed or forgotten. */
void slr_note_lend(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost,
                   uint64_t who);
void slr_note_who(struct slr_notes *notes, enum slr_note type, struct slr_identity identity, sluice_ns instant,
                  uint64_t who);

/* Append a note of a counter with a block: what it was charged whatever its quota; and how it was corrected. */
void slr_note_count(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost,
                    uint32_t quota);
void slr_note_correct(struct slr_notes *notes, struct slr_identity identity, const struct sl_correction *list,
                      uint32_t count);

/* Append a note of a counter's ledger: what is reserved, what is committed; and what has ended at an instant. */
void slr_note_open(struct slr_notes *notes, struct slr_identity identity, const struct sl_reservation *reservation);
void slr_note_close(struct slr_notes *notes, struct slr_identity identity, const struct sl_reservation *reservation);
void slr_note_return(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant);

/* Appends a note of a request that was charged. */
void slr_note_token(struct slr_notes *notes, const struct slr_token *token);

/* Does to a value what notes say. Any bytes may come: false where they are no notes, and then the value is as it was;
 * or where they were written for another value, which has no room for them: then it is well-formed. */
SLUICE_MUST_USE bool slr_notes_apply(slr_value *value, struct sluice_bytes notes);

#endif
