/* Workers and the nodes that they ask. */
#ifndef SL_JOIN_H
#define SL_JOIN_H

#include "hosts/server/lifecycle/inside.h"

/* Where the policy's store is in Redis: gives each worker a fleet on its loop. Before they run. False after a line in
 * the log: a password file or certificate that can't be read, an address that is none. */
bool sl_fleets_join(struct sl_server *server, const struct sl_settings *settings);
/* Whether they could be given one, as far as that can be told without connecting. False after a line in the log. */
bool sl_fleets_check(const struct sl_settings *settings);

#endif
