/* Ends what a ticket holds, in a server: its calls may be decided elsewhere, and are counted. */
#ifndef SL_ENDING_DECIDE_H
#define SL_ENDING_DECIDE_H

#include "hosts/admission/ending.h"
#include "hosts/server/door/call_outcome.h"

/* Decides the calls, one after the other, and counts what became of them once all are decided. False: later, or there
 * is no memory for it, as sl_pending_decide() says. True: *err is SLUICE_OK, or says why one was not decided; those
 * before it are. */
SLUICE_MUST_USE bool sl_ending_decide(struct sl_ending *ending, struct sl_door_context *context,
                                      enum sl_transport transport, sluice_err *err);

#endif
