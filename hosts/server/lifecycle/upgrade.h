/* Another process takes over: the process that goes. */
#ifndef SL_UPGRADE_H
#define SL_UPGRADE_H

#include "hosts/server/lifecycle/inside.h"

/* Remembers how this process was started, before anything is changed. */
void sl_upgrade_remember(void);
/* Starts the program anew, to take over; a line in the log where that can't be. */
void sl_upgrade_begin(struct sl_server *server);
/* Ends an attempt: the other process is killed and reaped. Nothing is done where there is none. */
void sl_upgrade_abandon(struct sl_server *server);

#endif
