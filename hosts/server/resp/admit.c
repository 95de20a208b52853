/* SLUICE.ADMIT and EXPLAIN: the limits of the loaded policy.
 *
 *   SLUICE.ADMIT   cost [word ...] name value [name value ...]
 *                                                     charges what the policy says of such a request
 *   SLUICE.EXPLAIN cost name value [name value ...]   tells what it would say, limit by limit, and charges nothing
 *   SLUICE.WHY     cost name value [name value ...]   and of every limit why it counts or not, with what it holds
 *
 * Attributes are what the caller gives, any names. So there is no AT here: it would be one of them; and its words
 * are read only in capitals and only directly after the cost: an attribute of such a name goes after another one.
 * Keys are built in the worker's match buffer, one request after the other, until the batch is decided. */
#include "algo/hll.h"
#include "base/assert.h"
#include "hosts/server/door/admission.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"
#include "policy/explain.h"

#include <stdio.h>

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

struct sluice_attribute *sl_resp_attributes(struct sl_resp_turn *turn, uint32_t count) {
	struct sl_resp_worker *worker = turn->worker;
	if (worker->batch.attribute_count + count > SL_RESP_ARGS_MAX / 2)
		sl_resp_flush(turn);
	return worker->attributes + worker->batch.attribute_count;
}

/* The attributes from `index` on, into the worker's table. */
static bool read_attributes(struct sl_resp_turn *turn, struct sl_command *command, uint32_t index,
                            struct sluice_attribute **attributes, uint32_t *count) {
	*attributes = sl_resp_attributes(turn, (turn->request->count - index) / 2);
	return sl_command_read_attributes(command, index, *attributes, count) || fail(turn, command);
}

/* What is matched: a request of a pattern, or any. */
struct matched {
	const struct sl_pattern *pattern; /* NULL: none */
	const struct sluice_attribute *attributes;
	uint32_t count;
	struct sluice_bytes member; /* of one without a pattern */
};

static inline sluice_err try_match(struct sl_resp_turn *turn, const struct matched *matched) {
	struct sl_resp_worker *worker = turn->worker;
	size_t used = worker->batch.match_used, room = SLUICE_MATCH_BYTES_MAX - used;
	char *buffer = (char *)turn->context->match_buffer + used;
	const struct sluice_policy *policy = turn->context->policy;
	return matched->pattern != NULL
	           ? sl_pattern_match(matched->pattern, policy, matched->attributes, &worker->match, buffer, room)
	           : sl_policy_match(policy, matched->attributes, matched->count, matched->member, &worker->match, buffer,
	                             room);
}

/* Finds the limits that apply; their keys and members stay in the match buffer until the batch is decided. */
static inline sluice_err match_and_keep(struct sl_resp_turn *turn, const struct matched *matched) {
	struct sl_resp_worker *worker = turn->worker;
	sluice_err err = try_match(turn, matched);
	if (err == SLUICE_E_RANGE && worker->batch.match_used != 0) { /* perhaps the buffer is full of earlier keys */
		sl_resp_flush(turn);
		err = try_match(turn, matched);
	}
	if (err == SLUICE_OK)
		worker->batch.match_used =
			sl_admission_match_end(&worker->match, turn->context->match_buffer, worker->batch.match_used);
	return err;
}

static bool fail_undecidable(struct sl_resp_turn *turn) {
	sl_reply_error(turn, "ERR the request could not be decided");
	return false;
}

static bool match(struct sl_resp_turn *turn, struct sl_command *command, const struct sluice_attribute *attributes,
                  uint32_t count, struct sluice_bytes member) {
	const struct matched matched = {NULL, attributes, count, member};
	sluice_err err = match_and_keep(turn, &matched);
	if (err == SLUICE_E_MISUSE) {
		(void)sl_command_fail_match(command, attributes, count);
		return fail(turn, command);
	}
	return err == SLUICE_OK || fail_undecidable(turn);
}

/* Makes a call of what was found. begin() may decide the batch, and with it give up the match buffer: then the keys
 * just built are after its start and stay whole, for nothing is built there before this call has joined. */
static void decide(struct sl_resp_turn *turn, struct sl_admission *admission, const struct sluice_call *asked,
                   uint32_t given, const struct sluice_attribute *attributes, uint32_t attribute_count) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	const struct sluice_match *found = &turn->worker->match;
	size_t used = batch->match_used;
	struct sluice_call *call = sl_resp_call_begin(turn);
	batch->match_used = used;
	uint32_t index = batch->call_count;
	call->cost = asked->cost;
	call->want_next = asked->want_next;
	memcpy(batch->items + batch->item_count, found->items, found->count * sizeof found->items[0]);
	call->item_count = sl_call_outcome_add_candidates(turn->context->policy, found, batch->items + batch->item_count,
	                                                  batch->candidate_of[index]);
	batch->shown[index] = (uint8_t)found->count;
	batch->beyond[index] = found->beyond;
	batch->undecided[index] = (struct sl_undecided){0};
	batch->asked_from[index] = (uint32_t)(attributes - turn->worker->attributes);
	batch->asked_count[index] = attribute_count;
	batch->attribute_count = batch->asked_from[index] + batch->asked_count[index];
	bool prepared = sl_admission_prepare(admission, turn->context->policy, found, batch->candidate_of[index],
	                                     batch->items + batch->item_count, call);
	SL_ASSERT(prepared); /* only the cost of a header may be wrong, and there are none here */
	if (call->id.data == admission->made) {
		memcpy(batch->made[index], admission->made, sizeof batch->made[index]);
		call->id.data = batch->made[index];
	}
	memcpy(batch->positions + batch->item_count, found->position, found->count * sizeof found->position[0]);
	call->each = batch->each + batch->item_count;
	batch->placed[index] = true;
	sl_resp_call_end(turn, call, SL_OP_ADMIT, given);
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
	decide(turn, &admission, &asked, command->given, attributes, count);
}

void sl_resp_admit_alike(struct sl_resp_turn *turn, const struct sl_pattern *pattern,
                         const struct sluice_attribute *attributes, uint32_t cost) {
	const struct matched matched = {.pattern = pattern, .attributes = attributes, .count = pattern->count};
	struct sl_admission admission = {.cost_said = true};
	const struct sluice_call asked = {.cost = cost};
	if (match_and_keep(turn, &matched) == SLUICE_OK)
		decide(turn, &admission, &asked, 0, attributes, pattern->count);
	else
		(void)fail_undecidable(turn);
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

/* The standard error of a count that is an estimate, in parts of 1. */
static void put_error(struct sl_resp_turn *turn, uint32_t error_bp) {
	char text[16];
	snprintf(text, sizeof text, "0.%04u", error_bp);
	sl_reply_text(turn, "error");
	sl_reply_text(turn, text);
}

static void explain_one(struct sl_resp_turn *turn, uint32_t index, const struct sluice_decision *decision,
                        sluice_ns now) {
	const struct sluice_match *found = &turn->worker->match;
	const struct sluice_item *item = &found->items[index];
	char limit[SLUICE_LIMIT_TEXT_MAX];
	size_t len = sluice_limit_print(item->limit, limit);
	uint32_t error_bp = sl_distinct_error(item->limit);
	bool stands = turn->context->remote == NULL && item->terms != NULL && item->terms->penalty_count != 0;
	bool bound = decision->bound != SLUICE_BOUND_NONE;
	sl_reply_array(turn, 9 + (bound ? 2 : 0) + (error_bp != 0 ? 2 : 0) + (stands ? 8 : 0));
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
	if (error_bp != 0)
		put_error(turn, error_bp);
	if (stands)
		put_standing(turn, item, now);
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
	sl_reply_error(turn, call->err == SLUICE_E_AWAY    ? "ERR the store did not answer in time: nothing can be told"
	                     : call->err == SLUICE_E_BUSY  ? "ERR " SL_HELD_UP_TEXT ": nothing can be told"
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
	call.now = sl_door_instant(call.now, found->items, found->count);
	if (!peek(turn, &call))
		return;
	sl_reply_array(turn, found->count);
	for (uint32_t i = 0; i < found->count; i++)
		explain_one(turn, i, &each[i], call.now);
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
	put_pair(turn, "counts", told->item >= 0);
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
