/* The way to the end. */
#ifndef SL_STOP_H
#define SL_STOP_H

#include "hosts/server/lifecycle/inside.h"

/* The next step to the end: red for the drain time, then no new connections, then no connections. */
void sl_server_stop(struct sl_server *server);
/* Ends listening, and the workers as soon as their answers are given. */
void sl_server_close(struct sl_server *server);
/* Makes the timers that the end needs. */
void sl_stop_init(struct sl_server *server);

#endif
