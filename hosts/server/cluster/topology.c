/* Who is asked.
 *
 * CLUSTER SLOTS tells a cluster (an array) from a single server (an ERR). One whose user may not ask is taken for a
 * single server until it says MOVED or CROSSSLOT, and is asked on. In a cluster each slot has an owner, which
 * MOVED corrects at once and the next CLUSTER SLOTS, asked of one node after the other, confirms. Among single servers
 * the one that ROLE calls master is asked; of several, one that a replica follows, then the one that was asked before:
 * a primary whom its replicas have left has lost a failover that it does not know of. Replicas name nodes that the
 * settings did not.
 *
 * While something is amiss (a slot without a node that answers, no primary) nodes are asked again after 100 ms, 200 ms
 * .. 1 s; else every 10 s, so that nodes which nobody sent us to become known. A map that takes a slot from a node that
 * answers, in favour of one that does not, is not believed as to that slot: a node that is cut off from the others
 * answers from the past. */
#include "hosts/server/cluster/topology.h"

#include "hosts/server/cluster/advice.h"
#include "hosts/server/cluster/node.h"
#include "hosts/server/cluster/nodes_timing.h"

#include <stdlib.h>

static const sluice_ns REFRESH_MIN_NS = 100 * SL_MS_NS, REFRESH_AMISS_NS = 1000 * SL_MS_NS,
					   REFRESH_QUIET_NS = 10000 * SL_MS_NS;

/* ---- routes ------------------------------------------------------------------------------------------------------ */

struct sl_node *sl_topology_route(const struct sl_nodes *nodes, uint16_t slot) {
	if (nodes->mode == SL_MODE_SINGLE)
		return nodes->primary;
	if (nodes->mode == SL_MODE_CLUSTER && nodes->owner[slot] != SL_NODE_NONE)
		return nodes->list[nodes->owner[slot]];
	return NULL;
}

bool sl_topology_is_hopeful(const struct sl_nodes *nodes) {
	for (uint32_t i = 0; i < nodes->count && nodes->mode != SL_MODE_CLUSTER; i++) {
		const struct sl_node *node = nodes->list[i];
		if (node != NULL && node->fresh && (node->state != SL_NODE_UP || nodes->mode == SL_MODE_UNKNOWN))
			return true;
	}
	return false;
}

/* Is all well: does each slot have a node that is asked? */
static bool is_amiss(const struct sl_nodes *nodes) {
	if (nodes->mode != SL_MODE_CLUSTER)
		return nodes->primary == NULL || !sl_node_is_up(nodes->primary);
	uint16_t last = SL_NODE_NONE;
	for (uint32_t slot = 0; slot < SL_SLOTS; slot++) {
		if (nodes->owner[slot] == SL_NODE_NONE)
			return true;
		if (nodes->owner[slot] != last && !sl_node_is_up(nodes->list[nodes->owner[slot]]))
			return true;
		last = nodes->owner[slot];
	}
	return false;
}

/* ---- single servers ---------------------------------------------------------------------------------------------- */

static bool has_follower(const struct sl_nodes *nodes, const struct sl_node *primary) {
	for (uint32_t i = 0; i < nodes->count; i++) {
		const struct sl_node *node = nodes->list[i];
		if (node != NULL && node->state == SL_NODE_UP && node->role == SL_ROLE_REPLICA &&
		    sl_node_place_equal(&node->leader, &primary->place))
			return true;
	}
	return false;
}

/* How well a node would do: 0, not at all. */
static int rank(const struct sl_nodes *nodes, const struct sl_node *node) {
	if (node == NULL || node->state != SL_NODE_UP || node->role != SL_ROLE_PRIMARY)
		return 0;
	return 1 + (node == nodes->primary ? 2 : 0) + (has_follower(nodes, node) ? 4 : 0) + (node->open ? 0 : 8);
}

static void choose_primary(struct sl_nodes *nodes) {
	struct sl_node *best = NULL;
	int best_rank = 0;
	for (uint32_t i = 0; i < nodes->count; i++) {
		const int this_rank = rank(nodes, nodes->list[i]);
		if (this_rank > best_rank) {
			best = nodes->list[i];
			best_rank = this_rank;
		}
	}
	/* One that is down may come back sooner than another takes over: it stays who would be asked. */
	if (best == nodes->primary || (best == NULL && nodes->primary->role != SL_ROLE_REPLICA))
		return;
	if (best != NULL && nodes->had_primary)
		sl_nodes_say(nodes, false, "redis %s: is the primary now", best->name);
	nodes->had_primary = nodes->had_primary || best != NULL;
	nodes->primary = best;
	sl_nodes_hurry(nodes);
}

void sl_topology_on_role(struct sl_node *node) {
	const struct sl_collected *got = &node->got;
	if (got->is_error) { /* it may not be asked: it is what it turns out to be */
		node->role = node->role == SL_ROLE_UNKNOWN ? SL_ROLE_PRIMARY : node->role;
		return;
	}
	const uint8_t was = node->role;
	node->role = strcmp(got->first, "master") == 0 ? SL_ROLE_PRIMARY : SL_ROLE_REPLICA;
	if (was == SL_ROLE_REPLICA && node->role == SL_ROLE_PRIMARY)
		sl_node_ask_module(node);
	node->leader = (struct sl_node_place){.port = 0};
	if (strcmp(got->first, "slave") == 0 && got->count > 0 && got->numbers[0] > 0 && got->numbers[0] <= UINT16_MAX &&
	    got->second[0] != '\0') {
		memcpy(node->leader.host, got->second, sizeof node->leader.host);
		node->leader.port = (uint16_t)got->numbers[0];
		if (node->nodes->mode == SL_MODE_SINGLE)
			(void)sl_node_at(node->nodes, &node->leader);
	}
	if (node->state == SL_NODE_UP)
		sl_topology_changed(node->nodes);
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

static void ask_slots(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	const struct sluice_bytes slots[] = {sl_str("CLUSTER"), sl_str("SLOTS")};
	if (nodes->slots_from != NULL || !sl_node_command(node, SL_COMMAND_SLOTS, 2, slots))
		return;
	nodes->slots_from = node;
	nodes->slots_reader = (struct sl_slots_reader){.field = 0};
	memset(nodes->next_owner, 0xff, sizeof nodes->next_owner);
}

void sl_topology_no_slots(struct sl_nodes *nodes) {
	nodes->slots_from = NULL;
}

void sl_topology_on_slot(struct sl_node *node, const struct sl_reply_token *token) {
	struct sl_nodes *nodes = node->nodes;
	if (nodes->slots_from != node || !sl_slots_read(&nodes->slots_reader, token))
		return;
	struct sl_slots_range range = nodes->slots_reader.range;
	sl_node_place_complete(&range.primary, &node->place);
	const struct sl_node *owner = sl_node_at(nodes, &range.primary);
	for (uint32_t slot = range.first; owner != NULL && slot <= range.last; slot++)
		nodes->next_owner[slot] = owner->index;
}

/* Takes the new map over, but for slots that would go from a node that answers to one that failed. */
static void take_over(struct sl_nodes *nodes) {
	for (uint32_t slot = 0; slot < SL_SLOTS; slot++) {
		const uint16_t is = nodes->owner[slot], will = nodes->next_owner[slot];
		if (is == will)
			continue;
		const bool is_up = is != SL_NODE_NONE && sl_node_is_up(nodes->list[is]);
		const struct sl_node *to = will == SL_NODE_NONE ? NULL : nodes->list[will];
		if (!is_up || (to != NULL && (sl_node_is_up(to) || to->fresh)))
			nodes->owner[slot] = will;
	}
}

static void set_single(struct sl_nodes *nodes) {
	if (nodes->mode != SL_MODE_UNKNOWN)
		return;
	nodes->mode = SL_MODE_SINGLE;
	for (uint32_t i = 0; i < nodes->count; i++) {
		struct sl_node *node = nodes->list[i];
		if (node != NULL && node->state == SL_NODE_UP && node->leader.port != 0)
			(void)sl_node_at(nodes, &node->leader);
	}
}

static void set_cluster(struct sl_nodes *nodes) {
	if (nodes->mode == SL_MODE_CLUSTER)
		return;
	nodes->mode = SL_MODE_CLUSTER;
	nodes->primary = NULL;
}

/* A node says that it belongs to a cluster: until it is known who has which slots it is asked for all, and corrects. */
static void found_cluster(struct sl_nodes *nodes, const struct sl_node *node) {
	if (nodes->mode == SL_MODE_CLUSTER)
		return;
	set_cluster(nodes);
	for (uint32_t slot = 0; slot < SL_SLOTS; slot++)
		nodes->owner[slot] = node->index;
}

/* Why a node does not say who has which slots. Only an ERR says that there are none: it has no such command, or no
 * cluster. Other errors pass, but for the rights of our user: who may not ask is better off with a guess. */
static void no_slots_for(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	const char *error = node->got.error;
	nodes->guessed = strncmp(error, "ERR ", 4) != 0;
	if (!nodes->guessed || strncmp(error, "NOPERM", 6) == 0)
		set_single(nodes);
	const char *advice = sl_advice_for(sl_str(error));
	if (nodes->guessed && !nodes->told_guess)
		sl_nodes_say(nodes, true, "redis %s: CLUSTER SLOTS: %s%s%s", node->name, error, advice != NULL ? "; " : "",
		             advice != NULL ? advice : "");
	nodes->told_guess = nodes->guessed;
}

void sl_topology_on_slots(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	const struct sl_collected *got = &node->got;
	if (nodes->slots_from != node)
		return;
	nodes->slots_from = NULL;
	if (got->is_error && strncmp(got->error, "LOADING", 7) == 0)
		return;
	if (got->is_error) {
		no_slots_for(node);
	} else {
		nodes->guessed = nodes->told_guess = nodes->is_torn = false;
		memset(nodes->torn, 0, sizeof nodes->torn);
		set_cluster(nodes);
		nodes->refreshed = sl_nodes_now(nodes);
		take_over(nodes);
		if (nodes->slots_reader.bad != 0)
			sl_nodes_say(nodes, true, "redis %s: left malformed entries of its CLUSTER SLOTS out", node->name);
	}
	sl_topology_changed(nodes);
	sl_nodes_hurry(nodes);
}

void sl_topology_moved(struct sl_node *node, uint16_t slot, struct sl_node *to) {
	found_cluster(node->nodes, node);
	node->nodes->owner[slot] = to->index;
	sl_node_ask_module(to);
	sl_topology_doubt(node->nodes);
}

void sl_topology_crossed(struct sl_node *node) {
	found_cluster(node->nodes, node);
	sl_topology_doubt(node->nodes);
}

void sl_topology_torn(struct sl_node *node, uint16_t slot) {
	struct sl_nodes *nodes = node->nodes;
	if (nodes->mode != SL_MODE_CLUSTER)
		return;
	nodes->torn[slot / 8] |= (uint8_t)(1 << slot % 8);
	if (!nodes->is_torn)
		sl_nodes_say(nodes, false, "redis %s: slot %u is being moved: its keys are asked for one by one meanwhile",
		             node->name, slot);
	nodes->is_torn = true;
}

/* ---- finding out ------------------------------------------------------------------------------------------------- */

static void set_refresh(struct sl_nodes *nodes, sluice_ns due) {
	if (due >= nodes->refresh_due)
		return;
	nodes->refresh_due = due;
	sl_nodes_arm(nodes, due);
}

void sl_topology_doubt(struct sl_nodes *nodes) {
	nodes->doubted = true;
	nodes->refresh_interval_ns = REFRESH_MIN_NS;
	set_refresh(nodes, nodes->refreshed + REFRESH_MIN_NS);
}

void sl_topology_changed(struct sl_nodes *nodes) {
	if (nodes->closing)
		return;
	if (nodes->mode == SL_MODE_SINGLE)
		choose_primary(nodes);
	nodes->refresh_interval_ns = REFRESH_MIN_NS;
	set_refresh(nodes, nodes->refreshed + REFRESH_MIN_NS);
}

static struct sl_node *next_to_ask(struct sl_nodes *nodes) {
	for (uint32_t i = 0; i < nodes->count; i++) {
		struct sl_node *node = nodes->list[(nodes->next_refresh + i) % nodes->count];
		if (node != NULL && sl_node_is_up(node)) {
			nodes->next_refresh = (uint16_t)(node->index + 1);
			return node;
		}
	}
	return NULL;
}

static void ask_roles(struct sl_nodes *nodes) {
	const struct sluice_bytes role = sl_str("ROLE");
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->list[i] != NULL && sl_node_is_up(nodes->list[i]))
			(void)sl_node_command(nodes->list[i], SL_COMMAND_ROLE, 1, &role);
}

/* Forgets nodes that nobody names any more: those that settings did not, own nothing and lead nobody. */
static void forget_strangers(struct sl_nodes *nodes) {
	bool named[SL_NODES_MAX] = {false};
	for (uint32_t slot = 0; slot < SL_SLOTS; slot++)
		if (nodes->owner[slot] != SL_NODE_NONE)
			named[nodes->owner[slot]] = true;
	for (uint32_t i = 0; i < nodes->count; i++) {
		struct sl_node *node = nodes->list[i];
		if (node == NULL || node->seed || node->fresh || named[i] || node == nodes->primary || node->first != NULL ||
		    node->window.first != NULL ||
		    node == nodes->slots_from || (nodes->mode == SL_MODE_SINGLE && has_follower(nodes, node)))
			continue;
		sl_node_remove(node);
	}
	sl_nodes_count(nodes);
}

sluice_ns sl_topology_tick(struct sl_nodes *nodes, sluice_ns now) {
	if (now < nodes->refresh_due)
		return nodes->refresh_due;
	const bool amiss = is_amiss(nodes),
			   asks = amiss || nodes->doubted || now - nodes->refreshed >= REFRESH_QUIET_NS / 2;
	if (nodes->slots_from == NULL)
		forget_strangers(nodes);
	if (nodes->mode == SL_MODE_SINGLE && amiss)
		ask_roles(nodes);
	if (asks && (nodes->mode != SL_MODE_SINGLE || nodes->guessed || nodes->doubted)) {
		struct sl_node *node = next_to_ask(nodes);
		if (node != NULL)
			ask_slots(node);
	}
	nodes->refreshed = asks ? now : nodes->refreshed;
	nodes->doubted = false;
	sluice_ns wait = REFRESH_QUIET_NS;
	if (amiss) {
		wait = nodes->refresh_interval_ns;
		nodes->refresh_interval_ns = 2 * wait < REFRESH_AMISS_NS ? 2 * wait : REFRESH_AMISS_NS;
	}
	nodes->refresh_due = now + (amiss && wait == REFRESH_MIN_NS ? wait : sl_nodes_jitter(nodes, wait));
	return nodes->refresh_due;
}
