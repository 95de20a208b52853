/* Connections whose door waits: see suspend.c. */
#ifndef SL_SUSPEND_H
#define SL_SUSPEND_H

#include "hosts/server/net/connection.h"

/* Leaves the door's answer to another turn, for what it has sent away; `resume` is called when that is ready. */
void sl_connection_suspend(struct sl_connection *c, void (*resume)(struct sl_connection *c));
/* Forgets what it waits for, and what is ready; its policy too. */
void sl_connection_forget_pending(struct sl_connection *c);

#endif
