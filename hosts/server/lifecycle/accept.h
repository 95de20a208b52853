/* Connections taken and handed to workers. */
#ifndef SL_ACCEPT_H
#define SL_ACCEPT_H

#include "hosts/server/lifecycle/inside.h"

/* Begins to accept, on the first worker's loop. */
void sl_accept_start(struct sl_server *server);
/* Gives an arrival to the worker whose turn it is; it is closed where there is no room for it. */
void sl_accept_place(struct sl_server *server, struct sl_arrival *arrival);

#endif
