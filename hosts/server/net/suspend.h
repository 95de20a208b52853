/* Connections whose door waits: see suspend.c. */
#ifndef SL_SUSPEND_H
#define SL_SUSPEND_H

#include "hosts/server/net/connection.h"

/* Leaves the door's answer to another turn, for what it has sent away; `resume` is called when that is ready. */
void sl_connection_suspend(struct sl_connection *c, void (*resume)(struct sl_connection *c));
/* Forgets what it waits for, and what is ready; its policy too. */
void sl_connection_forget_pending(struct sl_connection *c);

/* ---- requests that wait each on its own (sl_pending_put_off()) ---- */

/* One request of a connection, whose others go on. */
struct sl_waiting {
	struct sl_connection *c;
	struct sl_waiting *next, **link; /* of the connection's */
	void *asker;
	struct sl_pending *pending;      /* under way; NULL: it is there */
	struct sl_pending *ready;        /* what is there, in the order of its steps */
	struct sl_shared_policy *policy; /* under which it was read */
};

/* Takes what the door has put off. `waiting` is the one that was resumed, or NULL: it goes on waiting where it has
 * asked for more, and is freed where not. `resume` is called for each when it is ready. False where there is no memory:
 * the connection is to be closed. */
SLUICE_MUST_USE bool sl_connection_put_off(struct sl_connection *c, struct sl_waiting *waiting,
                                           void (*resume)(struct sl_waiting *waiting));
/* One that is ready and was not resumed yet; NULL: none. */
struct sl_waiting *sl_connection_next_ready(const struct sl_connection *c);
/* Forgets all that its requests wait for. */
void sl_connection_forget_waiting(struct sl_connection *c);

#endif
