/* Quotas of keys' own where counters are in Redis: what doors ask (door/override_ask.h), asked of nodes' modules. */
#ifndef SL_REMOTE_OVERRIDE_H
#define SL_REMOTE_OVERRIDE_H

#include "base/math.h"
#include "hosts/server/remote/plan.h"
#include "hosts/server/remote/shared.h"

/* How long a quota counts yet that a node tells, ns, 3660 d at most: its answer is in ms, and negative for one without
 * an end (SLUICE_NEVER). */
static inline sluice_ns sl_remote_override_left(int64_t ms) {
	return ms < 0 ? SLUICE_NEVER : sl_min((uint64_t)ms, SL_WINDOW_NS_MAX / SL_MS_NS) * SL_MS_NS;
}

/* Takes a pending one (pending->override). True: it has failed already. False: pending->ready() is called later, not
 * from within. */
bool sl_fleet_override(struct sl_fleet *fleet, struct sl_pending *pending);

#endif
