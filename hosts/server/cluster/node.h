/* One node: see node.c. */
#ifndef SL_NODE_H
#define SL_NODE_H

#include "hosts/server/cluster/nodes_inside.h"

/* The node of a place; made, and being connected, where it was not known. NULL: no memory, or too many. */
struct sl_node *sl_node_at(struct sl_nodes *nodes, const struct sl_node_place *place);
/* Takes it from the list and frees it; it has no commands. */
void sl_node_remove(struct sl_node *node);
/* Puts a command of our own into its line. False: no room. */
bool sl_node_command(struct sl_node *node, enum sl_command_kind kind, uint32_t count, const struct sluice_bytes *args);
/* Puts a command that is asked for into its line, or lets it wait for its turn. False: no room, nothing changed. */
bool sl_node_send(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now);
/* The same before all that wait: for what belongs right behind the command before it. */
bool sl_node_send_now(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now);
/* What has come was read: sends those that wait and whose turn it is. */
void sl_node_go_on(struct sl_node *node, sluice_ns now);
/* Hands over what has been written to it. */
void sl_node_flush(struct sl_node *node);
/* Has it had something since `since`, or for longer, that it has not answered? */
bool sl_node_owes(const struct sl_node *node, sluice_ns since);
/* Takes the first command from its line. */
struct sl_pending_command *sl_node_shift(struct sl_node *node);
/* Its greeting is answered: asks may go. */
void sl_node_greeted(struct sl_node *node);
/* Asks what its module knows, unless it has told. */
void sl_node_ask_module(struct sl_node *node);
/* The answer to PING. */
void sl_node_pinged(struct sl_node *node, sluice_ns sent);
/* It has answered an ask in time. */
static inline void sl_node_succeeded(struct sl_node *node) {
	node->failures = 0;
	node->interval_ns = SL_NODE_INTERVAL_MIN_NS;
}
/* It has failed so many asks: opens the circuit where that is too many in a row. */
void sl_node_failed(struct sl_node *node, uint32_t asks, const char *why);
/* Gives its connection up; what was under way is answered. */
void sl_node_down(struct sl_node *node, const char *why);
/* Does what is due at `now`; sets node->due anew. */
void sl_node_tick(struct sl_node *node, sluice_ns now);
/* The events of its link. */
void sl_node_on_up(struct sl_link *link, void *owner);
void sl_node_on_down(struct sl_link *link, void *owner, const char *why);

#endif
