/* SLUICE.RELOAD: the policy file is read again. */
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"

/* The first mistake and how many there are; where none has a place, what is said without one. */
static void reply_refused(struct sl_resp_turn *turn, const struct sl_reload *outcome) {
	const struct sluice_problem *first = NULL;
	size_t count = 0;
	for (size_t i = 0; i < outcome->problems.count; i++)
		if (!outcome->problems.list[i].warning && count++ == 0)
			first = &outcome->problems.list[i];
	if (first != NULL)
		sl_reply_error(turn, "ERR keeping the current policy: line %u, column %u: %s (%zu error%s)", first->line,
		               first->column, first->text, count, count == 1 ? "" : "s");
	else
		sl_reply_error(turn, "ERR %.*s", (int)strcspn(outcome->messages, "\n"), outcome->messages);
}

void sl_resp_reload(struct sl_resp_turn *turn) {
	struct sl_door_context *context = turn->context;
	const struct sl_reload *outcome;
	if (context->reloading == NULL) {
		sl_reply_error(turn, "ERR nothing to reload: no policy file was given");
		return;
	}
	if (!sl_pending_reload(context, &outcome)) {
		turn->waits = true;
		turn->said = turn->out->len;
		return;
	}
	if (outcome->taken_over)
		sl_reply_status(turn, "OK");
	else
		reply_refused(turn, outcome);
	sl_pending_settle(context);
}
