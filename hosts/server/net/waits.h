/* The lists of those that wait: see waits.c. */
#ifndef SL_WAITS_H
#define SL_WAITS_H

#include "hosts/server/net/connection.h"

/* Notes what the connection waits for: from now on, or, where it did before and nothing has `moved`, as before. */
void sl_wait_for(struct sl_connection *c, enum sl_wait what, bool moved);
/* Takes it out of its list. */
void sl_wait_leave(struct sl_connection *c);
/* Publishes since when the first of each list have waited, for other threads; once a turn. */
void sl_waits_publish(struct sl_worker *worker);

#endif
