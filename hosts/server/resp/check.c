/* The commands that decide limits that the caller brings along, or names: read by the grammar of all doors
 * (proto/command.h), put off into the batch, answered by answer.c.
 *
 * A limit is notation, or `policy:NAME`: the limit of that name with its own counter and its own penalties, for a key
 * as EXPLAIN shows it (`ip=192.0.2.7`). Its conditions, overrides, `observe` and candidate are of requests that the
 * policy decides; here the caller has decided that it counts. RESET takes the overrides along: it forgets every
 * counter of the key. INSPECT tells the quota of the override that counts for the key, and which that is.
 *
 * Whoever gives a lease an id of his own may ask again when the answer was lost: he gets the lease that he has. Others
 * get one that nobody guesses (door/ids.h); it is all that it takes to end the lease, besides its key and limits.
 * HOLDERS lists ids, and so is for those who may read, not for those who may only be limited. */
#include "base/assert.h"
#include "hosts/server/door/call_outcome.h"
#include "hosts/server/door/tailing.h"
#include "hosts/server/resp/resp.h"
#include "proto/inspection.h"

#include <stdio.h>
#include <stdlib.h>

/* Where the match buffer's room for the forms of one command's keys begins, at the latest. */
#define FORMS_FROM (SLUICE_MATCH_BYTES_MAX - (size_t)SLUICE_ITEMS_MAX * SLUICE_KEY_BYTES_MAX)

/* ---- limits of the policy, by name ------------------------------------------------------------------------------- */

static bool fail_unknown(struct sl_command *command, struct sluice_bytes name) {
	const struct sl_resp_turn *turn = command->owner;
	const struct sluice_policy *policy = turn->context->policy;
	char memory[SL_RESP_REPLY_BYTES_MAX + 64];
	struct sl_out out = sl_out_to(memory, sizeof memory - 1);
	sl_tailing_suggest(&out, policy, name);
	*out.at = '\0';
	return sl_command_fail(command, "limit %u: the policy has no limit %s: %s", command->call->item_count + 1,
	                       sl_shown(name).text, memory);
}

/* The key in the form that requests have; what must be written anew stays in the match buffer until the batch is
 * decided. sl_resp_call_begin() keeps room for a call's. */
static struct sluice_bytes key_form(struct sl_resp_turn *turn, struct sluice_bytes key) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	char *memory = (char *)turn->context->match_buffer + batch->match_used;
	SL_ASSERT(SLUICE_MATCH_BYTES_MAX - batch->match_used >= SLUICE_KEY_BYTES_MAX);
	struct sluice_bytes form = sl_policy_key(turn->context->policy, key, memory);
	if (form.data == memory)
		batch->match_used += form.len;
	return form;
}

/* A reset forgets whatever counter the limit or an override of it may keep; else it is the limit's own, whose numbers
 * live as long as the policy, which is changed between turns only. */
static bool add_named(struct sl_command *command, struct sluice_bytes text, struct sluice_bytes name) {
	struct sl_resp_turn *turn = command->owner;
	const struct sluice_policy *policy = turn->context->policy;
	const struct sluice_limit *variants[SLUICE_ITEMS_MAX + 1];
	int64_t position = sl_policy_limit_find(policy, name);
	uint32_t count = 1, before = command->call->item_count;
	struct sl_policy_keyed keyed = {.cost = 0};
	if (position < 0)
		return fail_unknown(command, name);
	const struct sl_policy_limit *limit = sl_policy_limit_at(policy, (uint32_t)position);
	variants[0] = &limit->limit;
	if (command->operation == SL_OP_RESET)
		count = sl_policy_limit_variants(policy, (uint32_t)position, variants, SLUICE_ITEMS_MAX + 1);
	if (count > SLUICE_ITEMS_MAX - before)
		return sl_command_fail(
			command, "too many limits: at most %d in one request, and %s with its overrides stands for %s%u",
			SLUICE_ITEMS_MAX, sl_shown(text).text, count > SLUICE_ITEMS_MAX ? "at least " : "", count);
	const struct sluice_bytes key = key_form(turn, command->key); /* not for a limit too many: it has no room there */
	if (command->operation == SL_OP_INSPECT) {
		keyed = sl_policy_limit_of_key(policy, (uint32_t)position, key);
		variants[0] = keyed.limit;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_item *item = sl_command_add(command, variants[i]);
		item->key = key;
		item->terms = limit->has_terms ? &limit->terms : NULL;
		item->cost = keyed.cost;
		sl_resp_call_place(turn, command->call, before + i, (uint32_t)position);
	}
	return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const char *refuses_at(const struct sl_command *command) {
	const struct sl_resp_turn *turn = command->owner;
	return sl_policy_settings(turn->context->policy)->client_time ? NULL : "set client-time: true in the policy file";
}

static const struct sluice_limit *find_limit(struct sl_command *command, struct sluice_bytes text,
                                             struct sluice_error *error) {
	return sl_resp_limit(command->owner, text, error);
}

/* In the match buffer: begin() saw to it that the bytes of the whole request would fit there. */
static char *fold_room(struct sl_command *command) {
	const struct sl_resp_turn *turn = command->owner;
	struct sl_resp_batch *batch = &turn->worker->batch;
	char *memory = (char *)turn->context->match_buffer + batch->match_used;
	SL_ASSERT(SLUICE_MATCH_BYTES_MAX - batch->match_used >= SLUICE_KEY_BYTES_MAX);
	batch->match_used += SLUICE_KEY_BYTES_MAX;
	return memory;
}

const struct sl_command_door sl_resp_grammar = {
	.refuses_at = refuses_at, .limit = find_limit, .named = add_named, .fold_room = fold_room};

/* Begins a command, and its call in the batch. What the command keeps in the match buffer is no longer than itself,
 * but for the forms of keys, of which sl_resp_call_begin() thinks. */
static inline struct sl_command *begin(struct sl_resp_turn *turn) {
	struct sl_command *command = &turn->worker->command;
	if (turn->worker->batch.match_used > FORMS_FROM - turn->bytes.len)
		sl_resp_flush(turn);
	command->door = &sl_resp_grammar;
	command->owner = turn;
	command->call = sl_resp_call_begin(turn);
	command->items = turn->worker->batch.items + turn->worker->batch.item_count;
	return command;
}

static __attribute__((noinline)) void fail(struct sl_resp_turn *turn) {
	sl_reply_error(turn, "ERR %s", turn->worker->command.error);
}

/* The limits of a ticket stay until the batch is decided, among the spare ones; its texts are in the match buffer. */
static void keep_ticket(struct sl_resp_turn *turn, struct sl_command *command) {
	const struct sluice_policy *policy = turn->context->policy;
	for (uint32_t i = 0; i < command->call->item_count; i++) {
		int64_t position = command->names[i].len == 0 ? -1 : sl_policy_limit_find(policy, command->names[i]);
		command->items[i].limit = sl_resp_limit_keep(turn, sl_slice(NULL, 0), command->items[i].limit);
		if (position >= 0)
			sl_resp_call_place(turn, command->call, i, (uint32_t)position);
	}
}

static inline void join(struct sl_resp_turn *turn, struct sl_command *command) {
	sl_resp_memo_keep(turn);
	sl_resp_call_end(turn, command->call, command->operation, command->given);
}

void sl_resp_decide(struct sl_resp_turn *turn) {
	struct sl_command *command = begin(turn);
	if (sl_command_read(command, turn->command->operation, turn->request->args, turn->request->count))
		join(turn, command);
	else
		fail(turn);
}

/* A lease, or a reservation: with an id of the door's making where the caller gives none. */
void sl_resp_hold(struct sl_resp_turn *turn) {
	struct sl_command *command = begin(turn);
	if (!sl_command_read(command, turn->command->operation, turn->request->args, turn->request->count)) {
		fail(turn);
		return;
	}
	if (command->call->id.len == 0)
		sl_resp_call_make_id(turn, command->call);
	sl_resp_call_end(turn, command->call, command->operation, command->given);
}

/* What was held goes on, ends, or is corrected: by its id, or by a ticket. */
void sl_resp_end(struct sl_resp_turn *turn) {
	struct sl_command *command = begin(turn);
	command->ticket = &turn->worker->ticket;
	command->ticket_memory = (char *)turn->context->match_buffer + turn->worker->batch.match_used;
	turn->worker->batch.match_used += sl_resp_arg(turn, 2).len; /* more than is decoded into it */
	if (!sl_command_read(command, turn->command->operation, turn->request->args, turn->request->count)) {
		fail(turn);
		return;
	}
	if (command->ticketed)
		keep_ticket(turn, command);
	sl_resp_call_end(turn, command->call, command->operation, command->given);
}

/* ---- CL.THROTTLE ------------------------------------------------------------------------------------------------- */

/* The three numbers as they stand in the request, framing and all: one text for one limit, as no notation is. */
static struct sluice_bytes text_of(const struct sl_resp_turn *turn) {
	struct sluice_bytes first = sl_resp_arg(turn, 2), last = sl_resp_arg(turn, 4);
	const char *start = first.data, *end = (const char *)last.data + last.len;
	if (turn->request->is_inline) /* unquoted words touch each other: 1 and 23 would look like 12 and 3 */
		return sl_slice(NULL, 0);
	return sl_slice(start, (size_t)(end - start));
}

void sl_resp_throttle(struct sl_resp_turn *turn) {
	struct sl_command *command = begin(turn);
	struct sluice_bytes text = text_of(turn);
	struct sluice_limit made;
	if (turn->request->count > 5 + 1) {
		sl_reply_error(turn, "ERR wrong number of arguments for 'cl.throttle' command");
		return;
	}
	if (!sl_command_read_throttle(command, turn->request->args, turn->request->count)) {
		fail(turn);
		return;
	}
	const struct sluice_limit *limit = sl_resp_limit_recall(turn, text);
	if (limit == NULL && !sl_command_throttle_limit(command, &made)) {
		fail(turn);
		return;
	}
	command->items[0] = (struct sluice_item){.limit = limit != NULL ? limit : sl_resp_limit_keep(turn, text, &made),
	                                         .key = command->key};
	command->call->item_count = 1;
	sl_resp_call_end(turn, command->call, SL_OP_THROTTLE, 0);
}

/* ---- who holds leases -------------------------------------------------------------------------------------------- */

static void reply_holders(struct sl_resp_turn *turn, const struct sluice_holder *list, uint32_t count) {
	sl_reply_array(turn, count);
	for (uint32_t i = 0; i < count; i++) {
		char id[SL_ID_DIGITS + 1];
		sl_hex_text(id, list[i].id);
		sl_reply_array(turn, 3);
		sl_reply_text(turn, id);
		sl_reply_integer(turn, list[i].cost);
		sl_reply_integer(turn, sl_ns_to_ms_ceil(list[i].ends_after_ns));
	}
}

/* Others may acquire between the two looks: then those that end last are left out. */
void sl_resp_holders(struct sl_resp_turn *turn) {
	struct sl_command *command = begin(turn);
	if (!sl_command_read(command, SL_OP_HOLDERS, turn->request->args, turn->request->count)) {
		fail(turn);
		return;
	}
	if (turn->context->remote != NULL) {
		sl_reply_error(turn, "ERR the store is in Redis: ask its nodes, by SLUICE.HOLDERS");
		return;
	}
	const struct sluice_item *item = &command->items[0];
	sluice_ns now = command->call->now;
	uint32_t room = sluice_holders(turn->context->store, item->limit, item->key, now, NULL, 0);
	if (room == SLUICE_HOLDERS_BUSY) {
		sl_reply_error(turn, "ERR " SL_HELD_UP_TEXT ": nothing was read");
		return;
	}
	struct sluice_holder *list = malloc((room + 1) * sizeof *list);
	if (list == NULL) {
		turn->failed = true;
		return;
	}
	uint32_t count = sluice_holders(turn->context->store, item->limit, item->key, now, list, room);
	reply_holders(turn, list, count < room ? count : room);
	free(list);
}

/* ---- what counters hold ------------------------------------------------------------------------------------------ */

static void put_array(void *to, uint32_t count) {
	sl_reply_array(to, count);
}

static void put_integer(void *to, int64_t value) {
	sl_reply_integer(to, value);
}

static void put_text(void *to, struct sluice_bytes text) {
	sl_reply_bulk(to, text);
}

static void put_error(void *to, const char *text) {
	sl_reply_error(to, "%s", text);
}

static const struct sl_answer_sink sink = {put_array, put_integer, put_text, put_error};

void sl_resp_put_own_quota(struct sl_resp_turn *turn, const struct sluice_override *own) {
	sl_own_quota_put(&sink, turn, own);
}

void sl_resp_put_inspection(struct sl_resp_turn *turn, const struct sluice_item *item, const struct sl_inspected *told,
                            uint32_t i, uint32_t more) {
	const bool remote = turn->context->remote != NULL;
	sl_inspection_put(&sink, turn, item, &told->list[i], more + (remote ? 4 : 0));
	if (!remote)
		return;
	sl_held_put(&sink, turn, &told->held[i]);
	sl_held_put_here(&sink, turn, &told->held[i]);
}

bool sl_resp_inspect_items(struct sl_resp_turn *turn, const struct sluice_item *items, const uint32_t *positions,
                           uint32_t count, sluice_ns now, struct sl_inspected *told) {
	if (!sl_inspected_look(turn->context, items, positions, count, now, told)) {
		turn->waits = true;
		turn->said = turn->out->len;
		return false;
	}
	if (told->failed != NULL)
		sl_reply_error(turn, "ERR %s", told->failed);
	return told->failed == NULL;
}

/* Of a limit of the policy, besides, which override counts for the key, or may. */
static void put_inspected(struct sl_resp_turn *turn, const struct sluice_item *item, uint32_t position,
                          const struct sl_inspected *told, uint32_t i) {
	struct sl_policy_keyed keyed = {.override = 0};
	if (position != SL_POSITION_NOTATION)
		keyed = sl_policy_limit_of_key(turn->context->policy, position, item->key);
	sl_resp_put_inspection(turn, item, told, i, (keyed.override != 0) + (keyed.undecided != 0));
	if (keyed.override != 0) {
		sl_reply_text(turn, "override");
		sl_reply_integer(turn, keyed.override);
	}
	if (keyed.undecided != 0) {
		sl_reply_text(turn, "undecided");
		sl_reply_integer(turn, keyed.undecided);
	}
}

void sl_resp_inspect(struct sl_resp_turn *turn) {
	struct sl_inspected told;
	struct sl_command *command = begin(turn);
	if (!sl_command_read(command, SL_OP_INSPECT, turn->request->args, turn->request->count)) {
		fail(turn);
		return;
	}
	const struct sluice_call *call = command->call;
	const struct sl_resp_batch *batch = &turn->worker->batch;
	const uint32_t *positions = call->each != NULL ? batch->positions + batch->item_count : NULL;
	if (!sl_resp_inspect_items(turn, call->items, positions, call->item_count, call->now, &told))
		return;
	sl_reply_array(turn, call->item_count);
	for (uint32_t i = 0; i < call->item_count; i++)
		put_inspected(turn, &call->items[i], positions != NULL ? positions[i] : SL_POSITION_NOTATION, &told, i);
}
