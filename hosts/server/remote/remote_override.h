/* Quotas of keys' own where counters are in Redis: what doors ask (door/override_ask.h), asked of nodes' modules. */
#ifndef SL_REMOTE_OVERRIDE_H
#define SL_REMOTE_OVERRIDE_H

#include "hosts/server/remote/plan.h"
#include "hosts/server/remote/shared.h"

/* Takes a pending one (pending->override). True: it has failed already. False: pending->ready() is called later, not
 * from within. */
bool sl_fleet_override(struct sl_fleet *fleet, struct sl_pending *pending);

#endif
