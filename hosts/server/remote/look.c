/* See look.h. Each limit is asked for by a command of its own, whose answer is integers alone: they are as many as a
 * node's answer may have. */
#include "hosts/server/remote/look.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "hosts/server/door/inspected.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/sending.h"

#include <stdlib.h>

_Static_assert((int)SL_INSPECTION_FIGURES_MAX <= (int)SL_ANSWER_NUMBERS_MAX, "room for what is told of a limit");

/* One inspection, until all of its limits have been told. */
struct look {
	struct sl_fleet *fleet;
	struct sl_pending *pending;
	struct sl_group *groups[SLUICE_ITEMS_MAX];
	uint32_t left;
	bool starting;
};

static void finish(struct look *look) {
	struct sl_pending *pending = look->pending;
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
		free(look->groups[i]);
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
		fail(told, SLUICE_E_MISUSE, SL_INSPECT_REFUSED_TEXT);
	} else if (answer->kind != SL_ANSWER_NUMBERS) {
		fail(told, SLUICE_E_AWAY, SL_INSPECT_AWAY_TEXT);
	} else if (!sl_inspection_read_figures(answer->numbers, answer->count, &told->list[i], &told->held[i])) {
		fail(told, SLUICE_E_MISUSE, SL_INSPECT_REFUSED_TEXT);
	}
	if (--look->left == 0 && !look->starting)
		finish(look);
}

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
	struct look *look = fleet->closing ? NULL : calloc(1, sizeof *look);
	const struct sluice_call *call = &pending->calls[0].call;
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
		if (sl_rule_has(call->items[i].limit, SL_HAS_COUNTER) && ask_for(look, i))
			look_here(look, i);
	}
	look->starting = false;
	if (look->left != 0)
		return false;
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX; i++)
		free(look->groups[i]);
	free(look);
	return true;
}
