/* Who is asked: see topology.c. */
#ifndef SL_TOPOLOGY_H
#define SL_TOPOLOGY_H

#include "hosts/server/cluster/nodes_inside.h"

/* Who is asked for a slot now; NULL where nobody is known. */
struct sl_node *sl_topology_route(const struct sl_nodes *nodes, uint16_t slot);
/* Nobody is up, but some are being connected for the first time: asks may wait a moment. */
bool sl_topology_is_hopeful(const struct sl_nodes *nodes);
/* What a node said of itself, in node->got. */
void sl_topology_on_role(struct sl_node *node);
/* The reply of CLUSTER SLOTS: each token; its end, or that it will not come. */
void sl_topology_on_slot(struct sl_node *node, const struct sl_reply_token *token);
void sl_topology_on_slots(struct sl_node *node);
void sl_topology_no_slots(struct sl_nodes *nodes);
/* A node is up, down, opened, closed, or has said what it is: choose anew. */
void sl_topology_changed(struct sl_nodes *nodes);
/* A slot belongs to another node than we thought, as `node` says. */
void sl_topology_moved(struct sl_node *node, uint16_t slot, struct sl_node *to);
/* A node refused keys of several slots: so it belongs to a cluster. */
void sl_topology_crossed(struct sl_node *node);
/* Several keys of a slot can't be asked for at once: it is on its way from `node`, or to it. */
void sl_topology_torn(struct sl_node *node, uint16_t slot);
/* What is known is out of date: find out, not more often than may be. */
void sl_topology_doubt(struct sl_nodes *nodes);
/* Does what is due at `now`. Returns when it wants to be called again. */
sluice_ns sl_topology_tick(struct sl_nodes *nodes, sluice_ns now);

#endif
