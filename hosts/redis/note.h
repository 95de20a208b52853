/* Notes: what a call has changed in a value, written so that a replica, or a server that reads its append-only file,
 * makes the same of its own copy without deciding anything or reading a clock. They are the payload of SLUICE.EFFECT.
 *
 *   note    := type u8 | kind u64 | name u64 | rest           numbers are little-endian
 *   STATE   := w0 u64 | w1 u64                                the state of a small counter: as it now is
 *   CHARGE  := instant u64 | cost u32                         what a log or sub-buckets were charged
 *   WHOLE   := a counter (codec.h)                            its state, block and holds: as they now are
 *   HOLDS   := count u32 | count holds                        its holds: as they now are
 *   GONE    :=                                                it is forgotten
 *
 * A log of 70,000 entries is not sent again for each charge: so CHARGE, the only one that is not idempotent. It is
 * charged whatever its limit says, since it has been admitted. */
#ifndef SLR_NOTE_H
#define SLR_NOTE_H

#include "hosts/redis/codec.h"

enum slr_note { SLR_NOTE_STATE = 1, SLR_NOTE_CHARGE, SLR_NOTE_WHOLE, SLR_NOTE_HOLDS, SLR_NOTE_GONE };

/* Notes of one key. Zeroed it is empty; its memory is kept from call to call, until slr_bytes_free(). */
struct slr_notes {
	struct slr_bytes bytes;
};

/* Appends a note: the state as it now is, of a counter without block. */
void slr_note_state(struct slr_notes *notes, struct slr_identity identity, const struct sl_state *state);

/* Appends a note: what a counter with a block was charged, cost >= 1. */
void slr_note_charge(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost);

/* Append a note of a counter as it now is; of its holds; and that it is forgotten. */
void slr_note_whole(struct slr_notes *notes, const struct slr_counter *counter);
void slr_note_holds(struct slr_notes *notes, const struct slr_counter *counter);
void slr_note_gone(struct slr_notes *notes, struct slr_identity identity);

/* Does to a value what notes say. Any bytes may come: false where they are no notes, and then the value is as it was;
 * or where they were written for another value, which has no room for them: then it is well-formed. */
SLUICE_MUST_USE bool slr_notes_apply(slr_value *value, struct sluice_bytes notes);

#endif
