/* What systemd is told. */
#ifndef SL_MANAGER_H
#define SL_MANAGER_H

#include "hosts/server/lifecycle/inside.h"

/* Says that the server serves, begins to feed the watchdog and to sample the stats. */
void sl_manager_start(struct sl_server *server);

#endif
