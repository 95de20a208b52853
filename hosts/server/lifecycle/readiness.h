/* Whether requests are wanted, where the store is in Redis. */
#ifndef SL_READINESS_H
#define SL_READINESS_H

#include "hosts/server/lifecycle/inside.h"

/* Says whether a node is waited for, before anybody can ask. */
void sl_readiness_init(struct sl_server *server);
/* Is it still? Any thread. */
bool sl_readiness_waits(const struct sl_server *server);
/* Tells systemd how many limits are served, and that all is ready; nothing while a node is waited for, since it is told
 * when that is over. With the policy's lock in hand. */
void sl_readiness_tell_locked(const struct sl_server *server);
/* The same without it. Any thread. */
void sl_readiness_tell(struct sl_server *server);
/* Logs that the server is ready; or that it listens, where a node is waited for: then it is said to be ready later. */
void sl_readiness_announce(const struct sl_server *server);
/* Begins to look for it, on the first worker's loop. */
void sl_readiness_start(struct sl_server *server);

#endif
