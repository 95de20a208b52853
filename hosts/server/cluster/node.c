/* One node: connected, greeted, probed, given up.
 *
 * The greeting goes in one write: AUTH (where there is a password), CLIENT SETNAME, SLUICE.LEASE without arguments (a
 * node that has no such command says so, whatever its users may do), ROLE, PING. The answer to PING is the last, and
 * tells one that is loading its data.
 *
 * A node that is up is sent PING every second, and has a second to answer; with it SLUICE.LEASE, as long as the answer
 * was an error that says nothing of the module, as that of a replica. One whose circuit is open is probed after
 * 100 ms, then in growing intervals, and is asked again as soon as a probe is answered within a request's budget: one
 * that answers, but too late for every request, stays open. */
#include "hosts/server/cluster/node.h"

#include "hosts/server/cluster/advice.h"
#include "hosts/server/cluster/command.h"
#include "hosts/server/cluster/nodes_timing.h"
#include "hosts/server/cluster/topology.h"
#include "proto/resp.h"

#include <stdio.h>
#include <stdlib.h>

static const sluice_ns SAY_AGAIN_NS = 30000 * SL_MS_NS; /* the same line of the same node */

/* ---- made and removed -------------------------------------------------------------------------------------------- */

static struct sl_node *make(struct sl_nodes *nodes, const struct sl_node_place *place) {
	uint32_t index = 0;
	while (index < nodes->count && nodes->list[index] != NULL)
		index++;
	if (index == SL_NODES_MAX)
		return NULL;
	struct sl_node *node = calloc(1, sizeof *node);
	if (node == NULL)
		return NULL;
	node->nodes = nodes;
	node->index = (uint16_t)index;
	node->place = *place;
	node->fresh = true;
	node->interval_ns = SL_NODE_INTERVAL_MIN_NS;
	sl_window_reset(&node->window);
	sl_node_place_print(place, node->name);
	nodes->list[index] = node;
	nodes->count = index == nodes->count ? index + 1 : nodes->count;
	return node;
}

struct sl_node *sl_node_at(struct sl_nodes *nodes, const struct sl_node_place *place) {
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->list[i] != NULL && sl_node_place_equal(&nodes->list[i]->place, place))
			return nodes->list[i];
	struct sl_node *node = make(nodes, place);
	if (node != NULL) {
		node->due = 0; /* at once, but not from within whoever asks */
		sl_nodes_arm(nodes, 0);
		sl_nodes_count(nodes);
	}
	return node;
}

void sl_node_remove(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	struct sl_node **at = &nodes->dirty;
	while (*at != NULL && *at != node)
		at = &(*at)->next_dirty;
	if (*at == node)
		*at = node->next_dirty;
	if (node->link != NULL)
		sl_link_close(node->link);
	nodes->list[node->index] = NULL;
	free(node);
}

/* ---- its line ---------------------------------------------------------------------------------------------------- */

static void append(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now) {
	pending->node = node;
	pending->sent = now;
	pending->end = sl_link_queued(node->link);
	pending->next = NULL;
	if (node->last != NULL)
		node->last->next = pending;
	else
		node->first = pending;
	node->last = pending;
	if (node->unhanded == NULL)
		node->unhanded = pending;
	node->window.under_way++;
	sl_nodes_touch(node);
	sl_count(&node->nodes->figures->commands, 1);
}

struct sl_pending_command *sl_node_shift(struct sl_node *node) {
	struct sl_pending_command *pending = node->first;
	if (node->unhanded == pending)
		node->unhanded = pending->next;
	node->first = pending->next;
	if (node->first == NULL)
		node->last = NULL;
	pending->next = NULL;
	node->window.under_way--;
	if (pending == node->ping)
		node->ping = NULL;
	return pending;
}

void sl_node_flush(struct sl_node *node) {
	if (node->link == NULL)
		return;
	sl_link_flush(node->link);
	const sluice_ns now = sl_nodes_now(node->nodes);
	while (node->link != NULL && node->unhanded != NULL && node->unhanded->end <= sl_link_handed(node->link)) {
		node->unhanded->sent = now;
		node->unhanded = node->unhanded->next;
	}
}

bool sl_node_owes(const struct sl_node *node, sluice_ns since) {
	return node->first != NULL && node->first != node->unhanded && node->first->sent <= since;
}

bool sl_node_command(struct sl_node *node, enum sl_command_kind kind, uint32_t count, const struct sluice_bytes *args) {
	struct sl_nodes *nodes = node->nodes;
	char *at = node->link == NULL ? NULL : sl_link_room(node->link, sl_resp_command_bytes(count, args));
	struct sl_pending_command *pending =
		at == NULL ? NULL
				   : sl_pending_commands_take(&nodes->commands, SL_PENDING_COMMANDS_MAX + SL_PENDING_COMMANDS_OWN);
	if (pending == NULL)
		return false;
	sl_link_wrote(node->link, (size_t)(sl_resp_put_command(at, count, args) - at));
	pending->kind = (uint8_t)kind;
	append(node, pending, sl_nodes_now(nodes));
	if (kind == SL_COMMAND_PING)
		node->ping = pending;
	return true;
}

bool sl_node_send(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now) {
	if (node->link != NULL && !pending->ask->at_once && !sl_window_is_open(&node->window)) {
		pending->node = node;
		sl_window_wait(&node->window, pending, now);
		return true;
	}
	return sl_node_send_now(node, pending, now);
}

void sl_node_go_on(struct sl_node *node, sluice_ns now) {
	struct sl_pending_command *pending;
	sl_window_read(&node->window, now);
	while (sl_node_is_up(node) && (pending = sl_window_next(&node->window)) != NULL)
		if (!sl_node_send_now(node, pending, now))
			sl_nodes_finish_as(node->nodes, pending, SL_ANSWER_AWAY);
}

bool sl_node_send_now(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now) {
	char *at = node->link == NULL ? NULL : sl_link_room(node->link, sl_command_ask_bytes(pending->ask));
	if (at == NULL)
		return false;
	const char *sha = node->via == SL_BY_SCRIPT ? node->nodes->scripts[pending->ask->dated].sha : NULL;
	sl_link_wrote(node->link, (size_t)(sl_command_write_ask(at, pending->ask, sha, node->grammar) - at));
	append(node, pending, now);
	return true;
}

/* ---- connected --------------------------------------------------------------------------------------------------- */

static bool command(struct sl_node *node, enum sl_command_kind kind, const char *a, const char *b, const char *c) {
	const struct sluice_bytes args[] = {sl_str(a), sl_str(b != NULL ? b : ""), sl_str(c != NULL ? c : "")};
	return sl_node_command(node, kind, 1 + (b != NULL) + (c != NULL), args);
}

void sl_node_ask_module(struct sl_node *node) {
	if (node->state == SL_NODE_UP && !node->has_told)
		(void)command(node, SL_COMMAND_MODULE, "SLUICE.LEASE", NULL, NULL);
}

static void begin(struct sl_node *node, sluice_ns now) {
	struct sl_nodes *nodes = node->nodes;
	char why[SL_LINK_WHY_BYTES];
	node->state = SL_NODE_CONNECTING;
	node->due = now + SL_NODE_CONNECT_NS;
	node->link = sl_link_open(&nodes->world, &node->place, node->turn++, node, why);
	if (node->link == NULL)
		sl_node_down(node, why);
}

void sl_node_on_up(struct sl_link *link, void *owner) {
	struct sl_node *node = owner;
	const struct sl_nodes *nodes = node->nodes;
	(void)link;
	node->state = SL_NODE_GREETING;
	node->reply = (struct sl_reply){.depth = 0};
	node->has_module = node->has_told = node->loads[0] = node->loads[1] = false;
	node->role = SL_ROLE_UNKNOWN;
	sl_count(&nodes->figures->connects, 1);
	bool sent = true;
	if (nodes->password != NULL && nodes->user != NULL)
		sent = command(node, SL_COMMAND_AUTH, "AUTH", nodes->user, nodes->password);
	else if (nodes->password != NULL)
		sent = command(node, SL_COMMAND_AUTH, "AUTH", nodes->password, NULL);
	sent = sent && command(node, SL_COMMAND_NAME, "CLIENT", "SETNAME", "sluice") &&
	       command(node, SL_COMMAND_MODULE, "SLUICE.LEASE", NULL, NULL) &&
	       command(node, SL_COMMAND_ROLE, "ROLE", NULL, NULL) && command(node, SL_COMMAND_PING, "PING", NULL, NULL);
	if (!sent)
		sl_node_down(node, "no memory for the first commands");
}

/* Module or script, as the settings want it and the node has it; NULL, or why it is of no use. */
static const char *choose_via(struct sl_node *node) {
	const struct sl_nodes *nodes = node->nodes;
	if (nodes->via == SL_BY_MODULE && !node->has_module)
		return "it has not loaded the module, which via: module requires (loadmodule sluice-module.so)";
	if (nodes->via != SL_BY_SCRIPT && node->has_module) {
		node->via = SL_BY_MODULE;
		return NULL;
	}
	if (nodes->scripts[0].text.len == 0)
		return "it has not loaded the module (loadmodule sluice-module.so)";
	node->via = SL_BY_SCRIPT;
	return NULL;
}

void sl_node_greeted(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	const char *why = choose_via(node);
	if (why != NULL) {
		sl_node_down(node, why);
		return;
	}
	if (node->via == SL_BY_SCRIPT) { /* loaded before it is needed; nothing waits for the answer */
		const struct sluice_bytes load[] = {sl_str("SCRIPT"), sl_str("LOAD"), nodes->scripts[0].text};
		node->loads[0] = sl_node_command(node, SL_COMMAND_SCRIPT, 3, load);
	}
	node->state = SL_NODE_UP;
	node->open = false;
	node->failures = 0;
	node->due = sl_nodes_now(nodes) + SL_NODE_PULSE_NS;
	node->said[0] = '\0';
	sl_nodes_arm(nodes, node->due);
	sl_nodes_say(nodes, false, "redis %s: connected%s; decisions are made by the %s", node->name,
	             node->role == SL_ROLE_REPLICA ? ", a replica" : "", node->via == SL_BY_MODULE ? "module" : "script");
	sl_topology_changed(nodes);
	sl_nodes_count(nodes);
	sl_nodes_hurry(nodes);
}

/* ---- failed ------------------------------------------------------------------------------------------------------ */

static sluice_ns next_interval(struct sl_node *node) {
	const sluice_ns wait = sl_nodes_jitter(node->nodes, node->interval_ns);
	node->interval_ns *= 2;
	if (node->interval_ns > SL_NODE_INTERVAL_MAX_NS)
		node->interval_ns = SL_NODE_INTERVAL_MAX_NS;
	return wait;
}

/* Says why a node is not asked, unless that was said a moment ago. */
static void say_why(struct sl_node *node, const char *why, sluice_ns wait, sluice_ns now) {
	if (strncmp(node->said, why, sizeof node->said - 1) == 0 && now - node->said_at < SAY_AGAIN_NS)
		return;
	snprintf(node->said, sizeof node->said, "%s", why);
	node->said_at = now;
	const uint64_t ms = wait / SL_MS_NS;
	const char *advice = sl_advice_for(sl_str(why));
	sl_nodes_say(node->nodes, true, "redis %s: %s%s%s; retrying in %u.%02u s", node->name, why,
	             advice != NULL ? "; " : "", advice != NULL ? advice : "", (unsigned)(ms / 1000),
	             (unsigned)(ms % 1000 / 10));
}

void sl_node_failed(struct sl_node *node, uint32_t asks, const char *why) {
	struct sl_nodes *nodes = node->nodes;
	node->failures = asks < UINT32_MAX - node->failures ? node->failures + asks : UINT32_MAX;
	if (node->failures < SL_NODE_FAILURES_MAX || node->open)
		return;
	node->open = true;
	sl_count(&nodes->figures->breaks, 1);
	if (node->state == SL_NODE_UP) {
		const sluice_ns now = sl_nodes_now(nodes), wait = next_interval(node);
		node->due = node->ping != NULL ? node->due : now + wait;
		sl_nodes_arm(nodes, node->due);
		say_why(node, why, wait, now);
		sl_topology_changed(nodes);
	}
	sl_nodes_count(nodes);
}

/* What was not sent yet can go elsewhere. */
static void end_waiting(struct sl_nodes *nodes, struct sl_window *window) {
	while (window->first != NULL) {
		struct sl_pending_command *pending = window->first;
		sl_window_leave(window, pending);
		sl_nodes_send_again(nodes, pending);
	}
}

/* Answers all that was under way: what its link has taken may have been done, the rest can go elsewhere. */
static void end_pending(struct sl_node *node, struct sl_pending_command *pending, uint64_t handed) {
	struct sl_nodes *nodes = node->nodes;
	while (pending != NULL) {
		struct sl_pending_command *next = pending->next;
		pending->next = NULL;
		if (pending->ask == NULL)
			sl_pending_commands_give(&nodes->commands, pending);
		else if (pending->end <= handed)
			sl_nodes_finish_as(nodes, pending, SL_ANSWER_LOST);
		else
			sl_nodes_send_again(nodes, pending);
		pending = next;
	}
}

static uint32_t count_lost(const struct sl_pending_command *pending, uint64_t handed) {
	uint32_t lost = 0;
	for (; pending != NULL; pending = pending->next)
		lost += pending->ask != NULL && pending->end <= handed;
	return lost;
}

void sl_node_down(struct sl_node *node, const char *why) {
	struct sl_nodes *nodes = node->nodes;
	struct sl_pending_command *first = node->first;
	struct sl_window waiting = node->window;
	const uint64_t handed = node->link != NULL ? sl_link_handed(node->link) : 0;
	const sluice_ns now = sl_nodes_now(nodes), wait = next_interval(node);
	const uint32_t lost = count_lost(first, handed);
	if (node->state >= SL_NODE_GREETING)
		sl_count(&nodes->figures->disconnects, 1);
	if (node->link != NULL)
		sl_link_close(node->link);
	node->link = NULL;
	node->first = node->last = node->ping = node->unhanded = NULL;
	sl_window_reset(&node->window);
	node->fresh = false;
	node->role = SL_ROLE_UNKNOWN;
	node->state = SL_NODE_IDLE;
	node->due = now + wait;
	sl_nodes_arm(nodes, node->due);
	say_why(node, why, wait, now);
	sl_node_failed(node, lost == 0 ? 1 : lost, why);
	if (nodes->slots_from == node)
		sl_topology_no_slots(nodes);
	sl_topology_changed(nodes);
	sl_nodes_count(nodes);
	end_pending(node, first, handed);
	end_waiting(nodes, &waiting);
}

void sl_node_on_down(struct sl_link *link, void *owner, const char *why) {
	(void)link;
	sl_node_down(owner, why);
}

/* ---- probed ------------------------------------------------------------------------------------------------------ */

void sl_node_pinged(struct sl_node *node, sluice_ns sent) {
	struct sl_nodes *nodes = node->nodes;
	const sluice_ns now = sl_nodes_now(nodes);
	const bool in_time = now - sent <= nodes->budget_ns;
	if (node->open && !in_time) {
		node->due = now + next_interval(node);
		sl_nodes_arm(nodes, node->due);
		return;
	}
	node->due = now + SL_NODE_PULSE_NS;
	sl_nodes_arm(nodes, node->due);
	if (in_time)
		node->interval_ns = SL_NODE_INTERVAL_MIN_NS;
	if (!node->open)
		return;
	node->open = false;
	node->failures = 0;
	node->said[0] = '\0';
	sl_nodes_say(nodes, false, "redis %s: answers again", node->name);
	sl_topology_changed(nodes);
	sl_nodes_count(nodes);
	sl_nodes_hurry(nodes);
}

static void probe(struct sl_node *node, sluice_ns now) {
	if (node->ping != NULL) {
		sl_node_down(node, "no answer within 1 s");
		return;
	}
	node->due = now + SL_NODE_CONNECT_NS;
	if (!command(node, SL_COMMAND_PING, "PING", NULL, NULL))
		sl_node_down(node, "it does not read what is sent to it");
	else if (node->nodes->mode != SL_MODE_CLUSTER)
		(void)command(node, SL_COMMAND_ROLE, "ROLE", NULL, NULL);
	sl_node_ask_module(node);
}

void sl_node_tick(struct sl_node *node, sluice_ns now) {
	switch (node->state) {
	case SL_NODE_IDLE:
		begin(node, now);
		break;
	case SL_NODE_CONNECTING:
		sl_node_down(node, "no connection within 1 s");
		break;
	case SL_NODE_GREETING:
		sl_node_down(node, "no answer within 1 s");
		break;
	default:
		probe(node, now);
	}
}
