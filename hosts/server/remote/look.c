/* See look.h. Each limit is asked for by a command of its own, whose answer is integers alone: they are as many as a
 * node's answer may have. Whether its key has a quota of its own is asked beside it, by OVERRIDE GET: a node that keeps
 * none, or does not tell, is as one whose key has none. */
#include "hosts/server/remote/look.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "hosts/server/door/inspected.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/remote_override.h"
#include "hosts/server/remote/sending.h"
#include "proto/reply.h"

#include <stdlib.h>

_Static_assert((int)SL_INSPECTION_FIGURES_MAX <= (int)SL_ANSWER_NUMBERS_MAX, "room for what is told of a limit");

struct look;

/* The question for the quota of a key's own. */
struct own_ask {
	struct sl_node_ask ask;
	struct look *look;
	struct sluice_bytes words[5]; /* GET limit key NAME name */
	char limit[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_override own;
	bool quota, end; /* which was told */
};

/* One inspection, until all of its limits have been told. */
struct look {
	struct sl_fleet *fleet;
	struct sl_pending *pending;
	struct sl_group *groups[SLUICE_ITEMS_MAX];
	uint32_t left; /* answers */
	bool starting;
	struct own_ask owns[]; /* of each limit */
};

static void settle(struct look *look) {
	const struct sl_pending *pending = look->pending;
	for (uint32_t i = 0; i < pending->calls[0].call.item_count; i++) {
		const struct own_ask *asked = &look->owns[i];
		pending->inspected->list[i].overridden = asked->quota && asked->end;
		pending->inspected->list[i].own = asked->own;
		free(look->groups[i]);
	}
}

static void finish(struct look *look) {
	struct sl_pending *pending = look->pending;
	settle(look);
	free(look);
	if (pending->to == NULL)
		sl_pending_free(pending);
	else
		pending->ready(pending, pending->to);
}

static void fail(struct sl_inspected *told, sluice_err err, const char *why) {
	if (told->err == SLUICE_OK || err == SLUICE_E_MISUSE) {
		told->err = err;
		told->failed = why;
	}
}

static void answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct look *look = group->owner;
	struct sl_inspected *told = look->pending->inspected;
	uint8_t i = group->positions[0];
	if (answer->kind == SL_ANSWER_ERROR) {
		sl_fleet_refused(look->fleet, answer->error);
		const bool misunderstood = answer->error.len >= 4 && memcmp(answer->error.data, "ERR ", 4) == 0;
		fail(told, SLUICE_E_MISUSE, misunderstood ? SL_INSPECT_REFUSED_TEXT : SL_INSPECT_UNABLE_TEXT);
	} else if (answer->kind != SL_ANSWER_NUMBERS) {
		fail(told, SLUICE_E_AWAY, SL_INSPECT_AWAY_TEXT);
	} else if (!sl_inspection_read_figures(answer->numbers, answer->count, &told->list[i], &told->held[i])) {
		fail(told, SLUICE_E_MISUSE, SL_INSPECT_REFUSED_TEXT);
	}
	if (--look->left == 0 && !look->starting)
		finish(look);
}

/* ---- quotas of keys' own ----------------------------------------------------------------------------------------- */

static void own_told(struct sl_node_ask *ask, const struct sl_reply_token *token) {
	struct own_ask *asked = (struct own_ask *)(void *)((char *)ask - offsetof(struct own_ask, ask));
	if (token->kind == SL_REPLY_TEXT)
		asked->quota = sluice_limit_parse(&asked->own.limit, token->text, NULL) == SLUICE_OK;
	if (token->kind != SL_REPLY_INTEGER || token->value < -1)
		return;
	asked->end = true;
	asked->own.ends_after_ns = sl_remote_override_left(token->value);
}

static void own_answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct own_ask *asked = (struct own_ask *)(void *)((char *)ask - offsetof(struct own_ask, ask));
	struct look *look = asked->look;
	asked->quota = asked->quota && answer->kind == SL_ANSWER_NUMBERS;
	if (--look->left == 0 && !look->starting)
		finish(look);
}

static void ask_for_own(struct look *look, uint32_t i) {
	const struct sl_pending_call *call = &look->pending->calls[0];
	struct own_ask *asked = &look->owns[i];
	struct sluice_limit rule = *call->call.items[i].limit;
	sl_rule_key(&rule, call->call.items[i].key);
	asked->look = look;
	asked->words[0] = sl_str("GET");
	asked->words[1] = sl_slice(asked->limit, sluice_limit_print(&rule, asked->limit));
	asked->words[2] = look->groups[i]->keys[0];
	asked->words[3] = sl_str("NAME");
	asked->words[4] = sl_str(call->facts[i].name != NULL ? call->facts[i].name : "");
	asked->ask = (struct sl_node_ask){.verb = "OVERRIDE",
	                                  .keys = look->groups[i]->keys,
	                                  .key_count = 1,
	                                  .group = sl_nodes_group(look->fleet->nodes, look->groups[i]->keys[0]),
	                                  .words = asked->words,
	                                  .word_count = call->facts[i].name != NULL ? 5 : 3,
	                                  .bare = true,
	                                  .told = own_told,
	                                  .deadline = look->groups[i]->ask.deadline,
	                                  .answered = own_answered};
	look->left++;
	if (!sl_nodes_ask(look->fleet->nodes, &asked->ask))
		look->left--;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Sends the command of one item; false, with why, where nobody is asked. */
static bool ask_for(struct look *look, uint32_t i) {
	const struct sl_pending_call *call = &look->pending->calls[0];
	struct sl_fleet *fleet = look->fleet;
	struct sl_inspected *told = look->pending->inspected;
	struct sluice_item item = call->call.items[i];
	const struct sl_plan_item plan = {&item, call->facts[i].name, (uint8_t)i};
	item.ttl_ns = 0; /* what looks reserves nothing, and can't say for how long */
	struct sl_group *group = sl_group_new(&plan, 1, fleet->prefix);
	look->groups[i] = group;
	if (group == NULL) {
		fail(told, SLUICE_E_AWAY, SL_INSPECT_AWAY_TEXT);
		return false;
	}
	if (sl_nodes_has_only_scripts(fleet->nodes, sl_nodes_group(fleet->nodes, group->keys[0]))) {
		fail(told, SLUICE_E_MISUSE, SL_INSPECT_SCRIPT_TEXT);
		return false;
	}
	group->owner = look;
	group->dated = call->dated;
	group->now = call->call.now;
	struct sl_head head = sl_group_head(fleet, group);
	sl_group_say(group, SL_OP_INSPECT, &head);
	group->ask.deadline = sl_loop_now(fleet->loop) + fleet->budget_ns;
	group->ask.answered = answered;
	look->left++;
	if (sl_fleet_ask(fleet, group))
		return true;
	look->left--;
	fail(told, SLUICE_E_AWAY, SL_INSPECT_AWAY_TEXT);
	return false;
}

/* What this worker has of a slice of the counter, as far as it has not told. */
static void look_here(struct look *look, uint32_t i) {
	const struct sluice_item *item = &look->pending->calls[0].call.items[i];
	struct sl_held_there *held = &look->pending->inspected->held[i];
	if (look->fleet->slices != NULL)
		sl_quota_slice_look(look->fleet->slices, sl_item_tag(look->fleet->secret, item->limit, item->key),
		                    &held->left_here, &held->spent_here);
}

bool sl_fleet_look(struct sl_fleet *fleet, struct sl_pending *pending) {
	struct sl_inspected *told = pending->inspected;
	const struct sluice_call *call = &pending->calls[0].call;
	struct look *look =
		fleet->closing ? NULL : calloc(1, sizeof *look + call->item_count * sizeof look->owns[0]);
	SL_ASSERT(pending->call_count == 1);
	told->err = SLUICE_OK;
	told->failed = NULL;
	if (look == NULL) {
		fail(told, SLUICE_E_AWAY, SL_INSPECT_AWAY_TEXT);
		return true;
	}
	look->fleet = fleet;
	look->pending = pending;
	look->starting = true;
	for (uint32_t i = 0; i < call->item_count && told->failed == NULL; i++) {
		told->list[i] = (struct sluice_inspection){.decision = sl_plan_full(call->items[i].limit, (uint8_t)i)};
		if (call->items[i].bound != SLUICE_BOUND_NONE) { /* denied, whatever its node would tell */
			sl_decide_beyond(&told->list[i].decision, call->items[i].bound, true);
			continue;
		}
		if (sl_rule_has(call->items[i].limit, SL_HAS_COUNTER) && ask_for(look, i)) {
			look_here(look, i);
			ask_for_own(look, i);
		}
	}
	look->starting = false;
	if (look->left != 0)
		return false;
	settle(look);
	free(look);
	return true;
}
