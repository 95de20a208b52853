/* Connections that are closed to make room, or because their time is over. */
#ifndef SL_EVICT_H
#define SL_EVICT_H

#include "hosts/server/net/connection.h"

/* Closes those that have waited too long by the present policy. O(those). */
void sl_evict_overdue(struct sl_worker *worker);
/* Closes the one that has waited longest, if that was for SL_GIVE_WAY_MS (or it lingers). False: nobody has. */
bool sl_evict_longest(struct sl_worker *worker);
/* Makes room for so many bytes to be kept for `c`, if need be by closing others that keep some and have been slow for
 * SL_GIVE_WAY_MS, the slowest first. False: there is no room. Counting the bytes is the caller's. */
bool sl_evict_for_room(struct sl_worker *worker, struct sl_connection *c, size_t bytes);

#endif
