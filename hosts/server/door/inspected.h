/* What counters hold, for the doors that tell it: SLUICE.INSPECT and WHY, /v1/inspect. */
#ifndef SL_INSPECTED_H
#define SL_INSPECTED_H

#include "hosts/server/door/call_outcome.h"
#include "proto/inspection.h"

/* Why nothing can be told. */
#define SL_INSPECT_AWAY_TEXT "the store did not answer in time: nothing was read"
#define SL_INSPECT_SCRIPT_TEXT                                                                                 \
	"the node of this key has only the script, which does not inspect: load sluice-module.so there, and give " \
	"the store a new prefix, or look with HGETALL (docs/script.md)"
#define SL_INSPECT_REFUSED_TEXT                                                                                  \
	"the node did not tell: its module must be as new as this server, and an instant (AT) needs one that was " \
	"loaded with client-time yes; the server's log has the node's message"

#define SL_INSPECT_UNABLE_TEXT "the node refused to tell: the server's log has its message, and what to do"

struct sl_inspected {
	const char *failed; /* why nothing can be told, for people; NULL: it is */
	sluice_err err;     /* with it: SLUICE_E_BUSY, SLUICE_E_AWAY; SLUICE_E_MISUSE where it can't be asked there */
	struct sluice_inspection list[SLUICE_ITEMS_MAX];
	struct sl_held_there held[SLUICE_ITEMS_MAX]; /* where counters are in Redis: context->remote */
};

/* Looks into the counters of items at an instant, each with its own cost or 1; charges nothing.
 *  positions  of each item in the policy, or SL_POSITION_NOTATION; NULL: all in notation
 * False: it is under way (door/pending.h); the caller leaves no trace and returns SL_DOOR_WAIT. As dear as
 * sluice_inspect(); where counters are in Redis, a round trip. */
SLUICE_MUST_USE bool sl_inspected_look(struct sl_door_context *context, const struct sluice_item *items,
                                       const uint32_t *positions, uint32_t count, sluice_ns now,
                                       struct sl_inspected *told);

#endif
