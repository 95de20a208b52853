/* What all that asks nodes has in common: a group's command is sent, and what they refuse is told. */
#include "hosts/server/remote/sending.h"

#include "algo/rule.h"
#include "base/math.h"
#include "base/out.h"
#include "base/siphash.h"
#include "hosts/server/cluster/advice.h"

#include <stdlib.h>

enum { LINE_BYTES_MAX = 400, QUOTED_MAX = 160, HOLD_MS_MIN = 1000, HOLD_MS_MAX = 60000 };
#define SAY_EVERY_NS ((sluice_ns)5000000000)
#define TIDY_NS ((sluice_ns)1000000000) /* how long a command may take that nobody waits for */

/* ---- the log ----------------------------------------------------------------------------------------------------- */

void sl_fleet_refused(struct sl_fleet *fleet, struct sluice_bytes error) {
	char line[LINE_BYTES_MAX];
	struct sl_out out = sl_out_to(line, sizeof line - 1);
	sluice_ns now = sl_loop_now(fleet->loop);
	if (fleet->say == NULL)
		return;
	if (fleet->said_at != 0 && now - fleet->said_at < SAY_EVERY_NS) {
		fleet->unsaid++;
		return;
	}
	sl_out_str(&out, "redis: a command was refused: ");
	sl_out_quoted(&out, error, QUOTED_MAX);
	sl_out_str(&out, "; ");
	const char *advice = sl_advice_for(error);
	sl_out_str(&out, advice != NULL ? advice : "on-error decides what requests get meanwhile");
	if (fleet->unsaid != 0) {
		sl_out_str(&out, " (and ");
		sl_out_u64(&out, fleet->unsaid);
		sl_out_str(&out, " more before)");
	}
	*out.at = '\0';
	fleet->said_at = now;
	fleet->unsaid = 0;
	fleet->say(true, line);
}

bool sl_fleet_drop_retry_id(struct sl_fleet *fleet, struct sl_pending_call *of) {
	if (!of->retried || of->call.operation != SLUICE_CHARGE)
		return false;
	of->call.id = sl_slice(NULL, 0);
	if (fleet->say != NULL && !fleet->told_apart)
		fleet->say(true, "redis: retry-id: the limits of a request lie in several slots of the cluster, and a retry of "
		                 "it is charged once more; give their keys one hash tag");
	fleet->told_apart = true;
	return true;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

uint64_t sl_fleet_id(struct sl_fleet *fleet) {
	const uint64_t word = fleet->ids++;
	return sl_siphash(fleet->secret, &word, 1, sl_str("hold"), 2, 4);
}

bool sl_fleet_ask(struct sl_fleet *fleet, struct sl_group *group) {
	return !fleet->nodes_closing && sl_nodes_ask(fleet->nodes, &group->ask);
}

bool sl_fleet_is_busy(const struct sl_fleet *fleet, uint16_t group) {
	return !fleet->closing && sl_nodes_is_busy(fleet->nodes, group);
}

struct sl_head sl_group_head(const struct sl_fleet *fleet, const struct sl_group *group) {
	uint64_t ttl_ms = sl_min(sl_max(4 * fleet->budget_ns / SL_MS_NS, HOLD_MS_MIN), HOLD_MS_MAX);
	return (struct sl_head){
		.cost = group->cost, .ttl_ms = (uint32_t)ttl_ms, .id = group->id, .dated = group->dated, .now = group->now};
}

static void tidied(struct sl_node_ask *ask, const struct sl_answer *answer) {
	(void)answer;
	free((struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask)));
}

void sl_group_send_off(struct sl_fleet *fleet, struct sl_group *group, enum sl_operation verb) {
	struct sl_head head = sl_group_head(fleet, group);
	group->owner = NULL;
	sl_group_say(group, verb, &head);
	group->ask.deadline = sl_loop_now(fleet->loop) + TIDY_NS;
	group->ask.answered = tidied;
	group->ask.at_once = true;
	if (!sl_fleet_ask(fleet, group))
		free(group);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

void sl_fleet_wake(struct sl_fleet *fleet, sluice_ns due) {
	sluice_ns now;
	if (due >= fleet->lanes_due || fleet->nodes_closing)
		return;
	now = sl_loop_now(fleet->loop);
	fleet->lanes_due = due;
	fleet->lanes_set = now;
	sl_timer_set(fleet->lane_timer, due <= now ? 1 : (due - now + SL_MS_NS - 1) / SL_MS_NS);
}
