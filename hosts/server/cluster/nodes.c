/* The nodes as a whole: opened, asked, answered in time, closed.
 *
 * One timer serves all that is due: deadlines, pauses, nodes, the topology. It is set to the earliest and is not reset
 * when that goes away, so that a command which is answered, as nearly all are, costs no timer. Commands of one turn of
 * the loop are written by one call a node, right before the loop waits again. Nobody is answered from within
 * sl_nodes_ask(). */
#include "hosts/server/cluster/nodes_timing.h"

#include "base/assert.h"
#include "hosts/server/cluster/answers.h"
#include "hosts/server/cluster/command.h"
#include "hosts/server/cluster/node.h"
#include "hosts/server/cluster/topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	LINE_BYTES = 512,
	LINES_A_SECOND = 10,
	TICKS_A_TURN = 64, /* of nodes: connecting many must not hold up those that are asked */
};

static const sluice_ns STALL_NS = 3 * SL_MS_NS;

/* ---- the log, the figures, chance -------------------------------------------------------------------------------- */

void sl_nodes_say(struct sl_nodes *nodes, bool trouble, const char *format, ...) {
	char line[LINE_BYTES];
	const sluice_ns second = sl_nodes_now(nodes) / (1000 * SL_MS_NS);
	if (nodes->say == NULL)
		return;
	if (second != nodes->said_second) {
		if (nodes->unsaid != 0) {
			snprintf(line, sizeof line, "redis: %u more lines were left out", nodes->unsaid);
			nodes->say(trouble, line);
		}
		nodes->said_second = second;
		nodes->said = nodes->unsaid = 0;
	}
	if (nodes->said == LINES_A_SECOND) {
		nodes->unsaid++;
		return;
	}
	nodes->said++;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(line, sizeof line, format, args);
	va_end(args);
	for (char *p = line; *p != '\0'; p++) /* what nodes say is not to be trusted */
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	nodes->say(trouble, line);
}

static void count(struct sl_nodes *nodes) {
	uint32_t known = 0, up = 0, open = 0;
	for (uint32_t i = 0; i < nodes->count; i++) {
		if (nodes->list[i] == NULL)
			continue;
		known++;
		up += sl_node_is_up(nodes->list[i]);
		open += nodes->list[i]->open;
	}
	atomic_store_explicit(&nodes->figures->nodes, known, memory_order_relaxed);
	atomic_store_explicit(&nodes->figures->nodes_up, up, memory_order_relaxed);
	atomic_store_explicit(&nodes->figures->nodes_open, open, memory_order_relaxed);
}

sluice_ns sl_nodes_jitter(struct sl_nodes *nodes, sluice_ns interval_ns) {
	nodes->random ^= nodes->random << 13;
	nodes->random ^= nodes->random >> 7;
	nodes->random ^= nodes->random << 17;
	return interval_ns / 2 + nodes->random % (interval_ns / 2 + 1);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void sl_nodes_finish(struct sl_nodes *nodes, struct sl_pending_command *pending, const struct sl_answer *answer) {
	struct sl_node_ask *ask = pending->ask;
	pending->ask = NULL;
	sl_pending_commands_clear_due(&nodes->commands, pending);
	sl_pending_commands_give(&nodes->commands, pending);
	ask->answered(ask, answer);
}

void sl_nodes_finish_as(struct sl_nodes *nodes, struct sl_pending_command *pending, enum sl_answer_kind kind) {
	const struct sl_answer answer = {.kind = kind};
	sl_nodes_finish(nodes, pending, &answer);
}

/* ---- pauses ------------------------------------------------------------------------------------------------------ */

static void rest(struct sl_nodes *nodes, struct sl_pending_command *pending, sluice_ns until) {
	const sluice_ns deadline = pending->ask->deadline;
	if (!sl_pending_commands_set_due(&nodes->commands, pending, until < deadline ? until : deadline)) {
		sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
		return;
	}
	pending->paused = true;
	pending->next = nodes->paused;
	pending->prev = NULL;
	if (nodes->paused != NULL)
		nodes->paused->prev = pending;
	nodes->paused = pending;
	sl_nodes_arm(nodes, pending->due);
}

static void wake(struct sl_nodes *nodes, struct sl_pending_command *pending) {
	if (pending->prev != NULL)
		pending->prev->next = pending->next;
	else
		nodes->paused = pending->next;
	if (pending->next != NULL)
		pending->next->prev = pending->prev;
	pending->next = pending->prev = NULL;
	pending->paused = false;
}

void sl_nodes_pause(struct sl_nodes *nodes, struct sl_pending_command *pending) {
	if (nodes->closing)
		sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
	else
		rest(nodes, pending, sl_nodes_now(nodes) + SL_NODE_PAUSE_NS);
}

/* May asks wait until this node, or none, can be asked? Only for those that have not failed yet. */
static bool is_worth_waiting(const struct sl_nodes *nodes, const struct sl_node *node) {
	return node == NULL ? sl_topology_is_hopeful(nodes) : node->fresh && node->state != SL_NODE_UP;
}

void sl_nodes_send_again(struct sl_nodes *nodes, struct sl_pending_command *pending) {
	struct sl_node *node = sl_topology_route(nodes, pending->slot);
	const sluice_ns now = sl_nodes_now(nodes);
	if (nodes->closing || now >= pending->ask->deadline) {
		sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
	} else if (node != NULL && sl_node_is_up(node)) {
		if (!sl_pending_commands_set_due(&nodes->commands, pending, pending->ask->deadline))
			sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
		else if (!sl_node_send(node, pending, now))
			rest(nodes, pending, now + SL_NODE_PAUSE_NS);
	} else if (node == NULL || is_worth_waiting(nodes, node)) {
		rest(nodes, pending, now + SL_NODE_PAUSE_NS);
	} else {
		sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
	}
}

void sl_nodes_hurry(struct sl_nodes *nodes) {
	if (nodes->paused != NULL)
		sl_nodes_arm(nodes, 0);
	for (struct sl_pending_command *pending = nodes->paused; pending != NULL; pending = pending->next) {
		const bool set = sl_pending_commands_set_due(&nodes->commands, pending, 0);
		SL_ASSERT(set); /* it was among them: nothing to allocate */
		(void)set;
	}
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

uint16_t sl_nodes_group(const struct sl_nodes *nodes, struct sluice_bytes key) {
	return nodes->mode == SL_MODE_SINGLE ? 0 : sl_slot_of(key);
}

bool sl_nodes_is_torn(const struct sl_nodes *nodes, uint16_t group) {
	return (nodes->torn[group / 8] >> group % 8 & 1) != 0;
}

bool sl_nodes_knows_slots(const struct sl_nodes *nodes) {
	return nodes->mode != SL_MODE_UNKNOWN;
}

bool sl_nodes_primary(const struct sl_nodes *nodes, uint32_t n, uint16_t *group) {
	bool seen[SL_NODES_MAX] = {false};
	*group = 0;
	if (nodes->mode != SL_MODE_CLUSTER)
		return n == 0;
	for (uint32_t slot = 0; slot < SL_SLOTS; slot++) {
		const uint16_t owner = nodes->owner[slot];
		if (owner == SL_NODE_NONE || seen[owner])
			continue;
		seen[owner] = true;
		*group = (uint16_t)slot;
		if (n-- == 0)
			return true;
	}
	return false;
}

bool sl_nodes_is_up(const struct sl_nodes *nodes, uint16_t group) {
	const struct sl_node *node = sl_topology_route(nodes, group);
	return node != NULL && sl_node_is_up(node);
}

bool sl_nodes_has_only_scripts(const struct sl_nodes *nodes, uint16_t group) {
	const struct sl_node *node = sl_topology_route(nodes, group);
	return node != NULL && sl_node_is_up(node) && node->via == SL_BY_SCRIPT;
}

bool sl_nodes_is_busy(const struct sl_nodes *nodes, uint16_t group) {
	const struct sl_node *node = sl_topology_route(nodes, group);
	return node != NULL && sl_node_is_up(node) && !sl_node_owes(node, sl_nodes_now(nodes) - nodes->budget_ns / 4 * 3);
}

bool sl_nodes_ask(struct sl_nodes *nodes, struct sl_node_ask *ask) {
	if (nodes->closing)
		return false;
	const uint16_t slot = ask->key_count != 0 ? sl_nodes_group(nodes, ask->keys[0]) : ask->group;
	struct sl_node *node = sl_topology_route(nodes, slot);
	const bool up = node != NULL && sl_node_is_up(node);
	if (!up && !is_worth_waiting(nodes, node))
		return false;
	struct sl_pending_command *pending = sl_pending_commands_take(&nodes->commands, SL_PENDING_COMMANDS_MAX);
	if (pending == NULL)
		return false;
	pending->kind = SL_COMMAND_ASK;
	pending->ask = ask;
	pending->slot = slot;
	if (!sl_pending_commands_set_due(&nodes->commands, pending, ask->deadline)) {
		sl_pending_commands_give(&nodes->commands, pending);
		return false;
	}
	if (!up) {
		rest(nodes, pending, ask->deadline);
		return true;
	}
	if (!sl_node_send(node, pending, sl_nodes_now(nodes))) {
		sl_pending_commands_clear_due(&nodes->commands, pending);
		sl_pending_commands_give(&nodes->commands, pending);
		return false;
	}
	sl_nodes_arm(nodes, ask->deadline);
	return true;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void on_turn_end(void *to) {
	struct sl_nodes *nodes = to;
	if (nodes->recounts)
		count(nodes);
	nodes->recounts = false;
	while (nodes->dirty != NULL) {
		struct sl_node *node = nodes->dirty;
		nodes->dirty = node->next_dirty;
		node->dirty = false;
		sl_node_flush(node);
	}
}

void sl_nodes_touch(struct sl_node *node) {
	struct sl_nodes *nodes = node->nodes;
	if (node->dirty)
		return;
	node->dirty = true;
	node->next_dirty = nodes->dirty;
	nodes->dirty = node;
	if (node->next_dirty == NULL && !nodes->closing)
		sl_timer_set(nodes->turn_end, 0);
}

void sl_nodes_count(struct sl_nodes *nodes) {
	if (!nodes->recounts && !nodes->closing && nodes->handles != 0)
		sl_timer_set(nodes->turn_end, 0);
	nodes->recounts = true;
}

/* The time of a command is over, or its pause. */
static void on_due(struct sl_nodes *nodes, struct sl_pending_command *pending) {
	if (pending->paused) {
		wake(nodes, pending);
		sl_nodes_send_again(nodes, pending);
		return;
	}
	struct sl_node *node = pending->node;
	const sluice_ns now = sl_nodes_now(nodes);
	/* What still waits was not asked: it is the node's fault only where it has not answered for twice as long. */
	const sluice_ns owed = pending->waits ? 2 * nodes->budget_ns : nodes->budget_ns / 4 * 3;
	const struct sl_answer late = {.kind = SL_ANSWER_LATE, .ours = !sl_node_owes(node, nodes->looked_at - owed)};
	if (!late.ours && pending->sent >= node->late_at) {
		node->late_at = now; /* all that was under way by now is late for the same reason */
		sl_node_failed(node, 1, "answers come too late");
	}
	if (pending->waits) {
		sl_window_leave(&node->window, pending);
		sl_nodes_finish(nodes, pending, &late);
		return;
	}
	/* Its place in the line stays, for the answer that may come. */
	struct sl_node_ask *ask = pending->ask;
	pending->ask = NULL;
	sl_pending_commands_clear_due(&nodes->commands, pending);
	ask->answered(ask, &late);
}

/* `ms_min`: 1 from within the timer, whom the loop would else call again before anything is read. */
static void set_timer(struct sl_nodes *nodes, sluice_ns due, uint64_t ms_min) {
	const sluice_ns now = sl_nodes_now(nodes);
	const uint64_t ms = due <= now ? 0 : (due - now + SL_MS_NS - 1) / SL_MS_NS;
	nodes->armed = due;
	nodes->expected = due > now ? due : now;
	sl_timer_set(nodes->timer, ms > ms_min ? ms : ms_min);
}

void sl_nodes_arm(struct sl_nodes *nodes, sluice_ns due) {
	if (due < nodes->armed && !nodes->closing)
		set_timer(nodes, due, 0);
}

/* Is it this worker that was late, or about to call an answer late that may lie there? Timers come before sockets: what
 * is to be read is read first. */
static bool has_stalled(struct sl_nodes *nodes, sluice_ns now) {
	const struct sl_pending_command *first = sl_pending_commands_first(&nodes->commands);
	const bool late = first != NULL && !first->paused && first->due <= now;
	nodes->stalled = !nodes->stalled && (late || now > nodes->expected + STALL_NS);
	if (nodes->stalled) {
		set_timer(nodes, now, 1);
		nodes->looked_at = now;
	}
	return nodes->stalled;
}

static void on_timer(void *to) {
	struct sl_nodes *nodes = to;
	const sluice_ns now = sl_nodes_now(nodes);
	const struct sl_pending_command *first;
	sluice_ns next;
	if (has_stalled(nodes, now))
		return;
	nodes->armed = 0; /* whoever arms meanwhile is seen below */
	while (!nodes->closing && (first = sl_pending_commands_first(&nodes->commands)) != NULL && first->due <= now)
		on_due(nodes, sl_pending_commands_first(&nodes->commands));
	for (uint32_t i = 0, ticks = 0; i < nodes->count && !nodes->closing && ticks < TICKS_A_TURN; i++)
		if (nodes->list[i] != NULL && nodes->list[i]->due <= now) {
			sl_node_tick(nodes->list[i], now);
			ticks++;
		}
	if (nodes->closing)
		return;
	next = sl_topology_tick(nodes, now);
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->list[i] != NULL && nodes->list[i]->due < next)
			next = nodes->list[i]->due;
	first = sl_pending_commands_first(&nodes->commands);
	if (first != NULL && first->due < next)
		next = first->due;
	if (!nodes->closing)
		set_timer(nodes, next, 1);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void free_all(struct sl_nodes *nodes) {
	if (nodes->password != NULL)
		explicit_bzero(nodes->password, strlen(nodes->password));
	for (uint32_t i = 0; i < nodes->count; i++)
		free(nodes->list[i]);
	sl_pending_commands_free(&nodes->commands);
	sl_tls_free(nodes->world.tls);
	free(nodes->password);
	free(nodes->user);
	free(nodes);
}

static void maybe_closed(struct sl_nodes *nodes) {
	if (!nodes->closing || nodes->handles != 0 || nodes->world.alive != 0)
		return;
	if (nodes->closed != NULL)
		nodes->closed(nodes->closed_to);
	free_all(nodes); /* after it: who waited asks yet, in vain */
}

static void on_link_ended(struct sl_link_world *world) {
	maybe_closed((struct sl_nodes *)((char *)world - offsetof(struct sl_nodes, world)));
}

static void on_timer_gone(void *to) {
	struct sl_nodes *nodes = to;
	nodes->handles--;
	maybe_closed(nodes);
}

static char *copy(const char *text) {
	return text == NULL ? NULL : strdup(text);
}

static bool no_memory(struct sluice_error *error) {
	snprintf(error->text, sizeof error->text, "out of memory");
	return false;
}

static bool add_seeds(struct sl_nodes *nodes, const struct sl_nodes_options *options, struct sluice_error *error) {
	for (uint32_t i = 0; i < options->address_count; i++) {
		struct sl_node_place place;
		if (!sl_node_place_read(sl_str(options->addresses[i]), &place) || place.host[0] == '\0') {
			snprintf(error->text, sizeof error->text, "store.redis: %.120s: expected host:port or unix:/path",
			         options->addresses[i]);
			return false;
		}
		struct sl_node *node = sl_node_at(nodes, &place);
		if (node == NULL)
			return no_memory(error);
		node->seed = true;
	}
	return true;
}

static bool fill(struct sl_nodes *nodes, const struct sl_nodes_options *options, struct sluice_error *error) {
	nodes->figures = options->figures;
	nodes->say = options->say;
	nodes->via = options->via;
	nodes->budget_ns = options->budget_ns;
	nodes->user = copy(options->user);
	nodes->password = copy(options->password);
	for (int dated = 0; dated < 2; dated++)
		nodes->scripts[dated] = sl_command_script(dated);
	memset(nodes->owner, 0xff, sizeof nodes->owner);
	nodes->refresh_due = nodes->armed = SLUICE_NEVER;
	nodes->refresh_interval_ns = SL_NODE_INTERVAL_MIN_NS;
	nodes->world = (struct sl_link_world){.loop = options->loop,
	                                      .ended = on_link_ended,
	                                      .up = sl_node_on_up,
	                                      .bytes = sl_answers_read,
	                                      .down = sl_node_on_down};
	if ((options->user != NULL && nodes->user == NULL) || (options->password != NULL && nodes->password == NULL))
		return no_memory(error);
	return options->tls == NULL || sl_tls_load_client(options->tls, &nodes->world.tls, error);
}

/* The timers, and chance. */
static bool join_loop(struct sl_nodes *nodes, struct sluice_error *error) {
	const struct sl_loop loop = nodes->world.loop;
	if (!sl_loop_random(loop, &nodes->random, sizeof nodes->random)) {
		snprintf(error->text, sizeof error->text, "the system gave no random bytes");
		return false;
	}
	nodes->random |= 1;
	nodes->timer = sl_timer_new(loop, SL_TIMER_AFTER, on_timer, nodes);
	if (nodes->timer == NULL)
		return no_memory(error);
	nodes->turn_end = sl_timer_new(loop, SL_TIMER_TURN_END, on_turn_end, nodes);
	if (nodes->turn_end == NULL) {
		sl_timer_free(nodes->timer, NULL);
		return no_memory(error);
	}
	nodes->handles = 2;
	return true;
}

bool sl_nodes_open(struct sl_nodes **out, const struct sl_nodes_options *options, struct sluice_error *error) {
	struct sl_nodes *nodes = calloc(1, sizeof *nodes);
	*out = NULL;
	if (nodes == NULL)
		return no_memory(error);
	bool good = fill(nodes, options, error);
	nodes->armed = 0; /* there is no timer yet */
	if (!good || !add_seeds(nodes, options, error) || !join_loop(nodes, error)) {
		free_all(nodes);
		return false;
	}
	set_timer(nodes, 0, 0);
	sl_timer_set(nodes->turn_end, 0);
	*out = nodes;
	return true;
}

static void finish_all(struct sl_nodes *nodes) {
	while (nodes->paused != NULL) {
		struct sl_pending_command *pending = nodes->paused;
		wake(nodes, pending);
		sl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);
	}
	for (uint32_t i = 0; i < nodes->count; i++)
		if (nodes->list[i] != NULL && nodes->list[i]->link != NULL)
			sl_node_down(nodes->list[i], "closed");
}

void sl_nodes_close(struct sl_nodes *nodes, void (*closed)(void *to), void *to) {
	nodes->closed = closed;
	nodes->closed_to = to;
	nodes->closing = true;
	nodes->say = NULL;
	sl_timer_free(nodes->timer, on_timer_gone);
	sl_timer_free(nodes->turn_end, on_timer_gone);
	finish_all(nodes);
}
