/* What goes out to the nodes, and when lanes are looked at again. */
#ifndef SL_SENDING_H
#define SL_SENDING_H

#include "hosts/server/remote/plan.h"
#include "hosts/server/remote/shared.h"

/* What a group's command says of it. */
struct sl_head sl_group_head(const struct sl_fleet *fleet, const struct sl_group *group);

/* Sends a group's command; false: nobody to ask. */
bool sl_fleet_ask(struct sl_fleet *fleet, struct sl_group *group);

/* Whether what is late at a group's node, or could not be sent there, was behind too many others: the node is not away.
 * See sl_nodes_is_busy(). */
bool sl_fleet_is_busy(const struct sl_fleet *fleet, uint16_t group);

/* Sends a last command of a group, best effort, and frees it. */
void sl_group_send_off(struct sl_fleet *fleet, struct sl_group *group, enum sl_operation verb);

/* Says in the log that a command was refused, and what to do; at a bounded rate. */
void sl_fleet_refused(struct sl_fleet *fleet, struct sluice_bytes error);

/* A proxy's client can't help where the keys of limits lie: his request, of several slots, is decided as if it were no
 * retry. Takes the id of the policy's retry-id from it, and says so in the log, once. False: it has none. */
bool sl_fleet_drop_retry_id(struct sl_fleet *fleet, struct sl_pending_call *of);

/* A random number for a hold: others can't guess it. */
uint64_t sl_fleet_id(struct sl_fleet *fleet);

/* Has the lanes looked at when this instant has come. */
void sl_fleet_wake(struct sl_fleet *fleet, sluice_ns due);

#endif
