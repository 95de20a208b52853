/* SLUICE.ADMIT and EXPLAIN: the limits of the loaded policy.
 *
 *   SLUICE.ADMIT   cost [word ...] name value [name value ...]
 *                                                     charges what the policy says of such a request
 *   SLUICE.EXPLAIN cost name value [name value ...]   tells what it would say, limit by limit, and charges nothing
 *
 * Attributes are what the caller gives, any names. So there is no AT here: it would be one of them; and its words
 * are read only in capitals and only directly after the cost: an attribute of such a name goes after another one.
 * Keys are built in the worker's match buffer, one request after the other, until the batch is decided. */
#include "algo/hll.h"
#include "base/assert.h"
#include "hosts/server/door/admission.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"
#include "policy/attribute.h"

#include <stdio.h>

static bool name_fits(struct sl_resp_turn *turn, struct sluice_bytes name) {
	if (name.len == 0 || name.len > SLUICE_NAME_BYTES_MAX) {
		sl_reply_error(turn, "ERR the attribute name %s has %zu bytes: expected 1 to %d", sl_shown(name).text,
		               name.len, SLUICE_NAME_BYTES_MAX);
		return false;
	}
	return true;
}

/* The cost, and the words after it; *index is that of the first attribute. The command is in the worker's memory,
 * until the next one. */
static const struct sl_command *read_head(struct sl_resp_turn *turn, struct sluice_call *asked, uint32_t *index) {
	struct sl_command *command = &turn->worker->command;
	asked->upto = asked->want_next = false;
	asked->item_count = 0;
	asked->id.len = 0;
	command->door = &sl_resp_grammar;
	command->owner = turn;
	command->call = asked;
	if (sl_command_read_admit(command, turn->command->operation, turn->request->args, turn->request->count, index))
		return command;
	sl_reply_error(turn, "ERR %s", command->error);
	return NULL;
}

/* The attributes from `index` on, into the worker's table, after those of the calls that are put off. */
static bool read_attributes(struct sl_resp_turn *turn, uint32_t index, struct sluice_attribute **attributes,
                            size_t *count) {
	const struct sl_resp_request *request = turn->request;
	struct sl_resp_worker *worker = turn->worker;
	size_t n = 0;
	if (index == request->count) {
		sl_reply_error(turn, "ERR no attribute: expected at least one, a name and a value");
		return false;
	}
	if ((request->count - index) % 2 != 0) {
		sl_reply_error(turn, "ERR attribute %s has no value: expected pairs of a name and a value",
		               sl_shown(request->args[request->count - 1]).text);
		return false;
	}
	if (worker->batch.attribute_count + (request->count - index) / 2 > SL_RESP_ARGS_MAX / 2)
		sl_resp_flush(turn);
	*attributes = worker->attributes + worker->batch.attribute_count;
	for (uint32_t i = index; i < request->count; i += 2, n++) {
		if (!name_fits(turn, request->args[i]))
			return false;
		(*attributes)[n] = (struct sluice_attribute){request->args[i], request->args[i + 1]};
	}
	*count = n;
	return true;
}

static sluice_err try_match(struct sl_resp_turn *turn, const struct sluice_attribute *attributes, size_t count,
                            struct sluice_bytes member) {
	struct sl_resp_worker *worker = turn->worker;
	size_t used = worker->batch.match_used;
	return sl_policy_match(turn->context->policy, attributes, count, member, &worker->match,
	                       (char *)turn->context->match_buffer + used, SLUICE_MATCH_BYTES_MAX - used);
}

/* What stands in the match buffer stays there until the batch is decided. */
static void keep(struct sl_resp_turn *turn, struct sluice_bytes text) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	if (text.len == 0)
		return;
	const char *buffer = turn->context->match_buffer, *end = (const char *)text.data + text.len;
	if (end > buffer + batch->match_used && end <= buffer + SLUICE_MATCH_BYTES_MAX)
		batch->match_used = (size_t)(end - buffer);
}

/* Finds the limits that apply, and keeps their keys and members. */
static bool match(struct sl_resp_turn *turn, const struct sluice_attribute *attributes, size_t count,
                  struct sluice_bytes member) {
	struct sl_resp_worker *worker = turn->worker;
	sluice_err err = try_match(turn, attributes, count, member);
	if (err == SLUICE_E_RANGE && worker->batch.match_used != 0) { /* perhaps the buffer is full of earlier keys */
		sl_resp_flush(turn);
		err = try_match(turn, attributes, count, member);
	}
	if (err == SLUICE_E_MISUSE) {
		size_t twice = sl_attribute_repeated(attributes, count);
		SL_ASSERT(twice < count);
		sl_reply_error(turn, "ERR the attribute %s is given twice: expected each once",
		               sl_shown(attributes[twice].name).text);
		return false;
	}
	if (err != SLUICE_OK) {
		sl_reply_error(turn, "ERR the request could not be decided");
		return false;
	}
	for (uint32_t i = 0; i < worker->match.count; i++) {
		keep(turn, worker->match.items[i].key);
		keep(turn, worker->match.items[i].member);
	}
	return true;
}

/* Makes a call of what was found. begin() may decide the batch, and with it give up the match buffer: then the keys
 * just built are after its start and stay whole, for nothing is built there before this call has joined. */
static void decide(struct sl_resp_turn *turn, struct sl_admission *admission, const struct sl_command *command,
                   const struct sluice_attribute *attributes, size_t attribute_count) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	const struct sluice_match *found = &turn->worker->match;
	size_t used = batch->match_used;
	struct sluice_call *call = sl_resp_call_begin(turn);
	batch->match_used = used;
	uint32_t index = batch->call_count;
	call->cost = command->call->cost;
	call->want_next = command->call->want_next;
	memcpy(batch->items + batch->item_count, found->items, found->count * sizeof found->items[0]);
	call->item_count = sl_call_outcome_add_candidates(turn->context->policy, found, batch->items + batch->item_count,
	                                                  batch->candidate_of[index]);
	batch->shown[index] = (uint8_t)found->count;
	batch->beyond[index] = found->beyond;
	batch->undecided[index] = (struct sl_undecided){0};
	batch->asked_from[index] = (uint32_t)(attributes - turn->worker->attributes);
	batch->asked_count[index] = (uint32_t)attribute_count;
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
	sl_resp_call_end(turn, call, SL_OP_ADMIT, command->given);
}

void sl_resp_admit(struct sl_resp_turn *turn) {
	struct sluice_call asked;
	uint32_t index;
	struct sluice_attribute *attributes;
	size_t count;
	const struct sl_command *command = read_head(turn, &asked, &index);
	if (command == NULL || !read_attributes(turn, index, &attributes, &count) ||
	    !match(turn, attributes, count, command->member))
		return;
	struct sl_admission admission = {.cost_said = true, .upto = asked.upto, .id = asked.id};
	decide(turn, &admission, command, attributes, count);
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
	size_t count;
	if (read_head(turn, &asked, &index) == NULL || !read_attributes(turn, index, &attributes, &count) ||
	    !match(turn, attributes, count, sl_slice(NULL, 0)))
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
