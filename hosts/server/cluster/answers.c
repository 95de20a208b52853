/* From a node's bytes to answers.
 *
 * Replies belong to the commands in the node's line, in order. Nothing of a reply is kept but what its command needs:
 * up to SL_ANSWER_NUMBERS_MAX integers, the first bytes of an error, two strings. A reply to somebody who was told that
 * it is late is read all the same, and dropped.
 *
 * Errors that say that nothing was done, and that it may be done in a moment or elsewhere, are not told to callers:
 *
 *   MOVED slot host:port    the slot's owner is another from now on: sent there
 *   ASK slot host:port      this once: ASKING and the command are sent there
 *   READONLY                it is no primary any more: find the new one, then again
 *   TRYAGAIN CLUSTERDOWN    in a moment again
 *   LOADING MASTERDOWN BUSY in a moment again; the node has failed
 *   NOSCRIPT                SCRIPT LOAD, and right after it again */
#include "hosts/server/cluster/answers.h"

#include "base/math.h"
#include "hosts/server/cluster/command.h"
#include "hosts/server/cluster/node.h"
#include "hosts/server/cluster/nodes_timing.h"
#include "hosts/server/cluster/topology.h"

#include <stdlib.h>

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static void keep_text(struct sl_collected *got, struct sluice_bytes text) {
	char *into = got->texts == 0 ? got->first : got->second;
	const size_t room = got->texts == 0 ? sizeof got->first : sizeof got->second;
	if (got->texts < 2 && text.len < room && (text.len == 0 || memchr(text.data, '\0', text.len) == NULL)) {
		if (text.len != 0)
			memcpy(into, text.data, text.len);
		into[text.len] = '\0';
	}
	got->texts++;
	got->odd = true;
}

/* `ask`: what it answers, or NULL. */
static void collect(struct sl_collected *got, const struct sl_reply_token *token, const struct sl_node_ask *ask) {
	switch (token->kind) {
	case SL_REPLY_ARRAY:
		break;
	case SL_REPLY_INTEGER:
		if (got->count < SL_ANSWER_NUMBERS_MAX)
			got->numbers[got->count++] = token->value;
		else
			got->odd = true;
		break;
	case SL_REPLY_TEXT:
		if (ask != NULL && ask->one != NULL && token->depth == 0 && sl_command_read_one(token->text, got->numbers))
			got->count = SL_COMMAND_ONE_NUMBERS;
		else
			keep_text(got, token->text);
		break;
	case SL_REPLY_ERROR:
		got->is_error = token->depth == 0;
		got->odd = true;
		got->error_len = (uint16_t)(token->text.len < sizeof got->error ? token->text.len : sizeof got->error - 1);
		memcpy(got->error, token->text.data, got->error_len);
		got->error[got->error_len] = '\0';
		break;
	case SL_REPLY_NIL:
		got->odd = true;
	}
}

static void begin_collecting(struct sl_collected *got) {
	got->count = got->texts = got->error_len = 0;
	got->is_error = got->odd = false;
	got->first[0] = got->second[0] = got->error[0] = '\0';
}

static bool says(const struct sl_collected *got, const char *word) {
	return got->is_error && strncmp(got->error, word, strlen(word)) == 0;
}

/* ---- redirections ------------------------------------------------------------------------------------------------ */

/* "MOVED 3999 127.0.0.1:6381": the slot and the node, which is made known. NULL: it makes no sense, or no room. */
static struct sl_node *redirected(struct sl_node *node, uint16_t *slot) {
	const struct sl_collected *got = &node->got;
	struct sl_node_place place;
	uint64_t number;
	const char *end = got->error + got->error_len;
	const char *first = memchr(got->error, ' ', got->error_len);
	const char *second = first == NULL ? NULL : memchr(first + 1, ' ', (size_t)(end - first - 1));
	if (second == NULL || !sl_bytes_to_u64(sl_slice(first + 1, (size_t)(second - first - 1)), &number) ||
	    number >= SL_SLOTS || !sl_node_place_read(sl_slice(second + 1, (size_t)(end - second - 1)), &place))
		return NULL;
	sl_node_place_complete(&place, &node->place);
	*slot = (uint16_t)number;
	return sl_node_at(node->nodes, &place);
}

static void again(struct sl_nodes *nodes, struct sl_pending_command *pending) {
	if (pending->tries < UINT8_MAX)
		pending->tries++;
	if (pending->tries > SL_NODE_REDIRECTS_MAX)
		sl_nodes_pause(nodes, pending);
	else
		sl_nodes_send_again(nodes, pending);
}

static void on_ask(struct sl_nodes *nodes, struct sl_node *to, struct sl_pending_command *pending) {
	const struct sluice_bytes asking = sl_str("ASKING");
	if (pending->tries < UINT8_MAX)
		pending->tries++;
	/* Of a node that is being connected, or one that is asked in vain, the owner will tell us again. */
	if (pending->tries > SL_NODE_REDIRECTS_MAX || !sl_node_is_up(to) ||
	    !sl_node_command(to, SL_COMMAND_ASKING, 1, &asking) || !sl_node_send_now(to, pending, sl_nodes_now(nodes)))
		sl_nodes_pause(nodes, pending);
}

static void finish_error(struct sl_node *node, struct sl_pending_command *pending, struct sluice_bytes text) {
	const struct sl_answer answer = {.kind = SL_ANSWER_ERROR, .error = text};
	sl_count(&node->nodes->figures->refused, 1);
	sl_nodes_finish(node->nodes, pending, &answer);
}

static void redirect(struct sl_node *node, struct sl_pending_command *pending, bool moved) {
	struct sl_nodes *nodes = node->nodes;
	uint16_t slot = 0;
	struct sl_node *to = redirected(node, &slot);
	if (pending->ask == NULL) {
		sl_pending_commands_give(&nodes->commands, pending);
		pending = NULL;
	}
	sl_count(&nodes->figures->redirected, 1);
	if (to != NULL && moved)
		sl_topology_moved(node, slot, to);
	if (pending == NULL)
		return;
	pending->slot = slot;
	if (to == NULL)
		finish_error(node, pending, sl_slice(node->got.error, node->got.error_len));
	else if (moved)
		again(nodes, pending);
	else
		on_ask(nodes, to, pending);
}

/* ---- asks -------------------------------------------------------------------------------------------------------- */

static void load_script(struct sl_node *node, struct sl_pending_command *pending) {
	const struct sl_nodes *nodes = node->nodes;
	const bool dated = pending->ask->dated;
	const struct sluice_bytes load[] = {sl_str("SCRIPT"), sl_str("LOAD"), nodes->scripts[dated].text};
	if (!node->loads[dated])
		node->loads[dated] = sl_node_command(node, SL_COMMAND_SCRIPT, 3, load);
	again(node->nodes, pending);
}

/* Errors that are none of the caller's. False: it is. */
static bool handled(struct sl_node *node, struct sl_pending_command *pending) {
	struct sl_nodes *nodes = node->nodes;
	const struct sl_collected *got = &node->got;
	if (says(got, "MOVED ") || says(got, "ASK ")) {
		redirect(node, pending, says(got, "MOVED "));
		return true;
	}
	if (says(got, "READONLY")) {
		node->role = SL_ROLE_REPLICA;
		sl_topology_changed(nodes);
		sl_topology_doubt(nodes);
	} else if (says(got, "LOADING") || says(got, "MASTERDOWN") || says(got, "BUSY ")) {
		sl_node_failed(node, 1, got->error);
	} else if (says(got, "CLUSTERDOWN")) {
		sl_topology_doubt(nodes);
	} else if (says(got, "CROSSSLOT")) {
		sl_topology_crossed(node);
		return false; /* its keys go by several commands from now on, which is the caller's to do */
	} else if (says(got, "NOSCRIPT") && node->via == SL_BY_SCRIPT && pending->ask != NULL) {
		load_script(node, pending);
		return true;
	} else if (!says(got, "TRYAGAIN")) {
		return false;
	} else if (pending->ask != NULL && pending->ask->key_count > 1) {
		sl_topology_torn(node, pending->slot);
	}
	if (pending->ask != NULL)
		sl_nodes_pause(nodes, pending);
	else
		sl_pending_commands_give(&nodes->commands, pending);
	return true;
}

static void answer(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now) {
	struct sl_nodes *nodes = node->nodes;
	const struct sl_collected *got = &node->got;
	sl_window_answered(&node->window, pending->sent, now, nodes->budget_ns);
	if (got->is_error && handled(node, pending))
		return;
	if (pending->ask == NULL) {
		sl_pending_commands_give(&nodes->commands, pending);
		return;
	}
	sl_node_succeeded(node);
	sl_times_add(&nodes->figures->asked, now - pending->sent, 1);
	if (got->is_error) {
		finish_error(node, pending, sl_slice(got->error, got->error_len));
	} else if ((got->odd || got->count == 0) && pending->ask->told == NULL) {
		finish_error(node, pending, sl_str("ERR the node's answer does not fit the command"));
	} else {
		const struct sl_answer numbers = {.kind = SL_ANSWER_NUMBERS, .count = got->count, .numbers = got->numbers};
		sl_nodes_finish(nodes, pending, &numbers);
	}
}

/* ---- our own ----------------------------------------------------------------------------------------------------- */

static void on_ping(struct sl_node *node, sluice_ns sent) {
	const struct sl_collected *got = &node->got;
	const bool unable = says(got, "LOADING") || says(got, "BUSY ") || says(got, "NOAUTH");
	if (node->state == SL_NODE_GREETING && unable)
		sl_node_down(node, got->error);
	else if (node->state == SL_NODE_GREETING)
		sl_node_greeted(node);
	else if (unable && node->open)
		sl_node_pinged(node, 0); /* as one that came too late */
	else if (node->state == SL_NODE_UP)
		sl_node_pinged(node, sent);
}

/* A module of before has an ERR for it. Others say nothing of what it knows, such as READONLY: it is asked again. */
static void on_module(struct sl_node *node) {
	const struct sl_collected *got = &node->got;
	node->has_module = !says(got, "ERR unknown command") && !says(got, "NOAUTH");
	node->has_told = !got->is_error || says(got, "ERR ");
	node->grammar = got->count == 1 && got->numbers[0] > 0 ? (uint8_t)sl_min((uint64_t)got->numbers[0], UINT8_MAX) : 0;
}

static void on_script(struct sl_node *node) {
	node->loads[0] = node->loads[1] = false; /* at worst the other one is loaded twice */
	if (node->got.is_error)
		sl_nodes_say(node->nodes, true, "redis %s: SCRIPT LOAD: %s", node->name, node->got.error);
}

static void finish(struct sl_node *node, struct sl_pending_command *pending, sluice_ns now) {
	const enum sl_command_kind kind = pending->kind;
	const sluice_ns sent = pending->sent;
	const struct sl_collected *got = &node->got;
	if (kind == SL_COMMAND_ASK) {
		answer(node, pending, now);
		return;
	}
	sl_pending_commands_give(&node->nodes->commands, pending);
	switch (kind) {
	case SL_COMMAND_AUTH:
		if (got->is_error)
			sl_node_down(node, got->error);
		break;
	case SL_COMMAND_NAME: /* may be refused; but a node that has no room for us says so to the first command */
		if (says(got, "ERR max number of clients"))
			sl_node_down(node, got->error);
		break;
	case SL_COMMAND_MODULE:
		on_module(node);
		break;
	case SL_COMMAND_ROLE:
		sl_topology_on_role(node);
		break;
	case SL_COMMAND_SLOTS:
		sl_topology_on_slots(node);
		break;
	case SL_COMMAND_SCRIPT:
		on_script(node);
		break;
	case SL_COMMAND_PING:
		on_ping(node, sent);
		break;
	default: /* ASKING is never refused */
		break;
	}
}

/* One token. False: nobody has asked for it. */
static bool take(struct sl_node *node, const struct sl_reply_token *token, sluice_ns now) {
	if (token->aside)
		return true;
	if (node->first == NULL)
		return false;
	if (token->depth == 0)
		begin_collecting(&node->got);
	collect(&node->got, token, node->first->kind == SL_COMMAND_ASK ? node->first->ask : NULL);
	if (node->first->kind == SL_COMMAND_ASK && node->first->ask != NULL && node->first->ask->told != NULL &&
	    token->kind != SL_REPLY_ERROR)
		node->first->ask->told(node->first->ask, token);
	if (node->first->kind == SL_COMMAND_SLOTS)
		sl_topology_on_slot(node, token);
	if (token->last)
		finish(node, sl_node_shift(node), now);
	return true;
}

ptrdiff_t sl_answers_read(struct sl_link *link, void *owner, const char *data, size_t len, size_t *need,
                          const char **why) {
	struct sl_node *node = owner;
	const sluice_ns now = sl_nodes_now(node->nodes);
	size_t at = 0;
	for (;;) {
		struct sl_reply_token token;
		const ptrdiff_t taken = sl_reply_next(&node->reply, data + at, len - at, &token);
		if (taken < 0) {
			*why = node->reply.error;
			return -1;
		}
		if (taken == 0) {
			*need = node->reply.need;
			sl_node_go_on(node, now);
			return (ptrdiff_t)at;
		}
		at += (size_t)taken;
		if (!take(node, &token, now)) {
			*why = "an answer to no command";
			return -1;
		}
		if (node->link != link) /* it went down meanwhile */
			return (ptrdiff_t)at;
	}
}
