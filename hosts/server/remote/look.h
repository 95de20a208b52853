/* What counters in Redis hold, asked of their nodes for the doors that tell it: by the module's INSPECT, a command a
 * limit; with what this worker has taken of them and not told yet. */
#ifndef SL_REMOTE_LOOK_H
#define SL_REMOTE_LOOK_H

#include "hosts/server/remote/plan.h"
#include "hosts/server/remote/shared.h"
#include "hosts/server/remote/slice.h"

/* Takes a pending inspection (pending->inspected, of its one call's items). True: it is told already, or failed. False:
 * pending->ready() is called later, not from within. */
bool sl_fleet_look(struct sl_fleet *fleet, struct sl_pending *pending);

#endif
