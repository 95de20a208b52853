/* SLUICE.ADMIT and EXPLAIN: the limits of the loaded policy.
 *
 *   SLUICE.ADMIT   cost [word ...] name value [name value ...]
 *                                                     charges what the policy says of such a request
 *   SLUICE.EXPLAIN cost name value [name value ...]   tells what it would say, limit by limit, and charges nothing
 *   SLUICE.WHY     cost name value [name value ...]   and of every limit why it counts or not, with what it holds
 *
 * Attributes are what the caller gives, any names. So there is no AT here: it would be one of them; and its words
 * are read only in capitals and only directly after the cost: an attribute of such a name goes after another one. */
#include "base/assert.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/key_override.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"
#include "policy/explain.h"
#include "proto/inspection.h"

static bool fail(struct sl_resp_turn *turn, const struct sl_command *command) {
	sl_reply_error(turn, "ERR %s", command->error);
	return false;
}

/* The cost, and the words after it; *index is that of the first attribute. The command is in the worker's memory,
 * until the next one. */
static struct sl_command *read_head(struct sl_resp_turn *turn, struct sluice_call *asked, uint32_t *index) {
	struct sl_command *command = &turn->worker->command;
	asked->upto = asked->want_next = false;
	asked->item_count = 0;
	asked->id.len = 0;
	command->door = &sl_resp_grammar;
	command->owner = turn;
	command->call = asked;
	if (sl_command_read_admit(command, turn->command->operation, turn->request->args, turn->request->count, index))
		return command;
	(void)fail(turn, command);
	return NULL;
}

/* The attributes from `index` on, into the worker's table. */
static bool read_attributes(struct sl_resp_turn *turn, struct sl_command *command, uint32_t index,
                            struct sluice_attribute **attributes, uint32_t *count) {
	*attributes = sl_resp_attributes(turn, (turn->request->count - index) / 2);
	return sl_command_read_attributes(command, index, *attributes, count) || fail(turn, command);
}

static bool match(struct sl_resp_turn *turn, struct sl_command *command, const struct sluice_attribute *attributes,
                  uint32_t count, struct sluice_bytes member) {
	const struct sl_resp_matched matched = {NULL, attributes, count, member};
	sluice_err err = sl_resp_match(turn, &matched);
	if (err == SLUICE_E_MISUSE) {
		(void)sl_command_fail_match(command, attributes, count);
		return fail(turn, command);
	}
	if (err != SLUICE_OK)
		sl_reply_error(turn, SL_RESP_UNDECIDABLE);
	return err == SLUICE_OK;
}

void sl_resp_admit(struct sl_resp_turn *turn) {
	struct sluice_call asked;
	uint32_t index;
	struct sluice_attribute *attributes;
	uint32_t count;
	struct sl_command *command = read_head(turn, &asked, &index);
	if (command == NULL || !read_attributes(turn, command, index, &attributes, &count) ||
	    !match(turn, command, attributes, count, command->member))
		return;
	struct sl_admission admission = {.cost_said = true, .upto = asked.upto, .id = asked.id};
	if (command->given == 0)
		sl_resp_memo_keep_admit(turn, attributes, count, asked.cost);
	sl_resp_admit_join(turn, &admission, &asked, command->given,
	                   &(struct sl_resp_matched){.attributes = attributes, .count = count});
}

static void put_pair(struct sl_resp_turn *turn, const char *name, int64_t value) {
	sl_reply_text(turn, name);
	sl_reply_integer(turn, value);
}

/* How the key stands with the penalties of a limit. */
static void put_standing(struct sl_resp_turn *turn, const struct sluice_item *item, sluice_ns now) {
	struct sluice_standing standing = sluice_standing(turn->context->store, item, now);
	put_pair(turn, "level", standing.level);
	put_pair(turn, "denials", standing.denials);
	put_pair(turn, "ends_after_ms", sl_ns_to_ms_ceil(standing.ends_after_ns));
	put_pair(turn, "forgiven_after_ms", sl_ns_to_ms_ceil(standing.forgiven_after_ns));
}

static void explain_one(struct sl_resp_turn *turn, uint32_t index, const struct sluice_decision *decision,
                        sluice_ns now) {
	const struct sluice_match *found = &turn->worker->match;
	const struct sluice_item *item = &found->items[index];
	char limit[SLUICE_LIMIT_TEXT_MAX], error[SL_ERROR_TEXT_MAX];
	size_t len = sluice_limit_print(item->limit, limit);
	const bool estimates = sl_error_text(item->limit, error);
	bool stands = turn->context->remote == NULL && item->terms != NULL && item->terms->penalty_count != 0;
	bool bound = decision->bound != SLUICE_BOUND_NONE;
	struct sluice_override own;
	bool owns = sl_override_of_item(turn->context, item, now, &own);
	sl_reply_array(turn, 9 + (bound ? 2 : 0) + (estimates ? 2 : 0) + (stands ? 8 : 0) +
	                         (owns ? 2 * SL_OWN_QUOTA_NAMES : 0));
	sl_reply_text(turn, sluice_policy_limit_name(turn->context->policy, found->position[index]));
	sl_reply_bulk(turn, sl_slice(limit, len));
	sl_reply_bulk(turn, item->key);
	sl_reply_integer(turn, decision->allowed);
	sl_reply_integer(turn, (int64_t)decision->quota);
	sl_reply_integer(turn, decision->remaining);
	sl_reply_integer(turn, sl_ns_to_ms_ceil(decision->retry_after_ns));
	sl_reply_integer(turn, sl_ns_to_ms_ceil(decision->reset_after_ns));
	sl_reply_integer(turn, sl_ns_to_ms_ceil(decision->delay_ns));
	if (bound) {
		sl_reply_text(turn, "bound");
		sl_reply_text(turn, sluice_bound_name((sluice_bound)decision->bound));
	}
	if (estimates) {
		sl_reply_text(turn, "error");
		sl_reply_text(turn, error);
	}
	if (stands)
		put_standing(turn, item, now);
	if (owns)
		sl_resp_put_own_quota(turn, &own);
}

/* Peeks at what was found. False where it waits, or has answered with an error. */
static bool peek(struct sl_resp_turn *turn, struct sluice_call *call) {
	struct sl_door_context *context = turn->context;
	const struct sluice_match *found = &turn->worker->match;
	struct sl_call_outcome outcome = {.call = call, .positions = found->position, .shown = found->count};
	bool here = context->remote == NULL && !sl_pending_wait(context);
	if (here)
		call->err = sluice_decide(context->store, call);
	if (!(here ? sl_pending_park(context, &outcome, 1) : sl_pending_decide(context, &outcome, 1))) {
		turn->waits = true;
		turn->said = turn->out->len;
		return false;
	}
	sl_pending_settle(context);
	if (call->err == SLUICE_OK)
		return true;
	sl_reply_error(turn, call->err == SLUICE_E_AWAY    ? "ERR the store did not answer in time: nothing was read"
	                     : call->err == SLUICE_E_BUSY  ? "ERR " SL_HELD_UP_TEXT ": nothing was read"
	                     : call->err == SLUICE_E_APART ? "ERR " SL_PENDING_APART_TEXT
	                                                   : "ERR the request could not be decided");
	return false;
}

void sl_resp_explain(struct sl_resp_turn *turn) {
	const struct sluice_match *found = &turn->worker->match;
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sluice_call call = {
		.items = found->items, .operation = SLUICE_PEEK, .now = turn->context->now, .each = each};
	struct sluice_call asked;
	uint32_t index;
	struct sluice_attribute *attributes;
	uint32_t count;
	struct sl_command *command = read_head(turn, &asked, &index);
	if (command == NULL || !read_attributes(turn, command, index, &attributes, &count) ||
	    !match(turn, command, attributes, count, sl_slice(NULL, 0)))
		return;
	call.cost = asked.cost;
	if (asked.cost == 0)
		sl_admission_drop_costs(turn->worker->match.items, found->count);
	turn->worker->batch.match_used = 0;
	call.item_count = found->count;
	call.now = sl_admission_instant(call.now, found->items, found->count);
	if (!peek(turn, &call))
		return;
	sl_reply_array(turn, found->count + found->beyond);
	for (uint32_t i = 0; i < found->count; i++)
		explain_one(turn, i, &each[i], call.now);
	for (uint32_t i = SLUICE_ITEMS_MAX; i < SLUICE_ITEMS_MAX + found->beyond; i++) {
		struct sluice_decision unread;
		sl_decide_unread(&found->items[i], sl_admission_costs(&call), &unread);
		explain_one(turn, i, &unread, call.now);
	}
}

/* ---- why ------------------------------------------------------------------------------------------------------- */

/* The answer while it is written, limit by limit. */
struct telling {
	struct sl_resp_turn *turn;
	const struct sl_inspected *told; /* of the match's items */
};

static void put_text_pair(struct sl_resp_turn *turn, const char *name, struct sluice_bytes value) {
	sl_reply_text(turn, name);
	sl_reply_bulk(turn, value);
}

static void tell_why(void *to, const struct sl_policy_told *told) {
	const struct telling *telling = to;
	struct sl_resp_turn *turn = telling->turn;
	char why[SL_WHY_BYTES_MAX];
	const struct sluice_policy *policy = turn->context->policy;
	if (told->item >= 0) {
		const struct sluice_item *item = &turn->worker->match.items[told->item];
		sl_resp_put_inspection(turn, item, telling->told, (uint32_t)told->item, 5);
		put_pair(turn, "cost", item->cost);
		put_pair(turn, "observed", item->observed != 0);
	} else {
		char text[SLUICE_LIMIT_TEXT_MAX];
		sl_reply_array(turn, 2 * 4);
		put_text_pair(turn, "limit",
		              sl_slice(text, sluice_limit_print(&sl_policy_limit_at(policy, told->position)->limit, text)));
	}
	put_text_pair(turn, "name", sl_str(sluice_policy_limit_name(policy, told->position)));
	put_pair(turn, "applies", told->item >= 0);
	put_text_pair(turn, "why", sl_policy_why(told, why));
}

/* A cost of nothing is admitted by all, which is no answer. */
void sl_resp_why(struct sl_resp_turn *turn) {
	struct sluice_match *found = &turn->worker->match;
	struct sl_inspected told;
	struct telling telling = {.turn = turn, .told = &told};
	struct sluice_call asked;
	uint32_t index;
	struct sluice_attribute *attributes;
	uint32_t count;
	struct sl_command *command = read_head(turn, &asked, &index);
	if (command == NULL || !read_attributes(turn, command, index, &attributes, &count))
		return;
	if (asked.cost == 0) {
		sl_reply_error(turn, "ERR a cost of 0 is always admitted: expected 1..4294967295");
		return;
	}
	if (!match(turn, command, attributes, count, sl_slice(NULL, 0)))
		return;
	turn->worker->batch.match_used = 0;
	for (uint32_t i = 0; i < found->count; i++)
		if (found->items[i].cost == 0)
			found->items[i].cost = asked.cost;
	if (!sl_resp_inspect_items(turn, found->items, found->position, found->count, turn->context->now, &told))
		return;
	sl_reply_array(turn, sl_policy_told_count(turn->context->policy));
	sl_policy_explain(turn->context->policy, attributes, count, sl_slice(NULL, 0), found, tell_why, &telling);
}
