/* The store's memory is brought in ahead, so that no request waits while the system clears it. */
#ifndef SL_PRETOUCH_H
#define SL_PRETOUCH_H

#include "hosts/server/lifecycle/inside.h"

/* Begins it on a thread of its own, at the lowest priority, a second after the server is ready, unless the policy says
 * `pretouch: false`. To be called on the first worker's thread. Where there is no thread to be had, memory comes as it
 * is used. */
void sl_pretouch_start(struct sl_server *server);

/* Ends it, within some ms, and waits for that: the store can be closed then. After the workers have ended. */
void sl_pretouch_end(struct sl_server *server);

#endif
