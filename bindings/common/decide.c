/* The full form: what is asked becomes words, the grammar makes a call of them, the library decides it.
 *
 *   asked -> sl_asked_words() -> sl_command_read() -> sluice_decide() -> told
 *                                sl_command_read_admit(), the policy's match -> sl_admission_prepare() -> */
#include "bindings/common/workspace.h"

#include "algo/algorithms.h"
#include "algo/merge.h"
#include "hosts/admission/admission.h"
#include "hosts/admission/ids.h"
#include "hosts/admission/stagger.h"
#include "proto/answer.h"
#include "proto/problem.h"
#include "store/lock.h"

#include <stdlib.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct sl_workspace *sl_workspace_take(struct sl_limiter *limiter) {
	struct sl_workspace *workspace = __atomic_exchange_n(&limiter->spare, NULL, __ATOMIC_ACQUIRE);
	if (workspace == NULL) {
		workspace = malloc(sizeof *workspace);
		if (workspace != NULL)
			workspace->match_more = NULL;
	}
	return workspace;
}

void sl_workspace_give(struct sl_limiter *limiter, struct sl_workspace *workspace) {
	sl_workspace_free(__atomic_exchange_n(&limiter->spare, workspace, __ATOMIC_ACQ_REL));
}

void sl_workspace_free(struct sl_workspace *workspace) {
	if (workspace != NULL)
		free(workspace->match_more);
	free(workspace);
}

void sl_told_end(struct sl_limiter *limiter, struct sl_told *told) {
	sl_workspace_give(limiter, told->memory);
	told->memory = NULL;
}

/* ---- the grammar's door ------------------------------------------------------------------------------------------ */

struct owner {
	struct sl_limiter *limiter;
	struct sl_workspace *workspace;
};

static const char *refuses_at(const struct sl_command *command) {
	(void)command;
	return "the limiter's clock says the instant";
}

static const struct sluice_limit *find_limit(struct sl_command *command, struct sluice_bytes text,
                                             struct sluice_error *error) {
	const struct owner *owner = command->owner;
	const struct sl_kept *kept = sl_kept_find(owner->limiter, text);
	struct sluice_limit *limit = &owner->workspace->limits[command->call->item_count];
	if (kept != NULL)
		return &kept->limit;
	if (sluice_limit_parse(limit, text, error) != SLUICE_OK)
		return NULL;
	sl_kept_add(owner->limiter, text, limit);
	return limit;
}

/* There are never more: the grammar wants a limit between two keys, or two members, as sl_asked_words() says them. */
static char *fold_room(struct sl_command *command) {
	const struct owner *owner = command->owner;
	struct sl_workspace *ws = owner->workspace;
	SL_ASSERT(ws->fold_count < SL_WORKSPACE_FOLDS_MAX);
	return ws->folds[ws->fold_count++];
}

static const struct sl_command_door door = {.refuses_at = refuses_at, .limit = find_limit, .fold_room = fold_room};

static bool fail_command(struct sl_failure *failure, const struct sl_command *command) {
	return sl_fail(failure, sl_failure_kind_of(sl_str(command->error)), "%s", command->error);
}

/* Has this process a place in the store? False with `failure` filled. */
static bool has_place(const struct sl_limiter *limiter, struct sl_failure *failure) {
	return limiter->store->owner != 0 ||
	       sl_fail(failure, SL_FAILED_FULL,
	               "255 processes have the store open, and this one, made by fork(), has no place among them: it "
	               "may open the store again when one of them has gone");
}

static bool fail_err(const struct sl_limiter *limiter, struct sl_failure *failure, sluice_err err) {
	if (err == SLUICE_E_BUSY && !has_place(limiter, failure))
		return false;
	if (err == SLUICE_E_BUSY || sl_is_held_up(err)) {
		(void)sl_fail(failure, SL_FAILED_BUSY, SL_HELD_UP_TEXT ": the request was not decided");
		failure->again = sl_is_held_up(err);
		return false;
	}
	return sl_fail(failure, SL_FAILED_ARGUMENT, "the request could not be decided");
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static void keep_id(struct sl_told *told, struct sl_workspace *ws, struct sluice_bytes id) {
	SL_ASSERT(id.len < sizeof ws->held);
	memcpy(ws->held, id.data, id.len);
	told->id = sl_slice(ws->held, id.len);
}

static void tell(struct sl_told *told, const struct sluice_call *call) {
	told->merged = call->merged;
	told->granted = call->granted;
	told->repeated = call->repeated;
	told->failed_open = false;
	told->count = call->operation == SLUICE_RESET ? call->forgotten : call->found;
	told->each_count = call->each != NULL ? call->item_count : 0;
	told->id = told->name = sl_slice(NULL, 0);
	told->limits = NULL;
}

/* An error in place of an answer, in the words of all doors. */
static void put_error(void *to, const char *text) {
	(void)sl_fail(to, sl_failure_kind_of(sl_str(text)), "%s", text);
}

static bool fail_unknown(struct sl_failure *failure, const struct sl_command *command) {
	static const struct sl_answer_sink sink = {.error = put_error};
	const struct sl_outcome outcome = {.operation = command->operation, .call = command->call};
	sl_answer_put_other(&sink, failure, &outcome);
	return false;
}

static void begin(struct sl_workspace *ws, struct owner *owner, const struct sl_asked *asked, struct sl_told *told) {
	ws->command.door = &door;
	ws->command.owner = owner;
	ws->command.call = &ws->call;
	ws->command.items = ws->items;
	ws->command.ticket = &ws->ticket;
	ws->command.ticket_memory = ws->ticket_memory;
	ws->fold_count = 0;
	ws->call = (struct sluice_call){.items = ws->items,
	                                .now = asked->now != 0 ? asked->now : sluice_store_now(owner->limiter->store),
	                                .each = asked->each || asked->operation == SL_OP_ADMIT ? told->each : NULL};
}

/* ---- limits that the caller brings along ------------------------------------------------------------------------- */

static void tell_held(struct sl_told *told, struct sl_workspace *ws, const struct sl_asked *asked) {
	const struct sluice_call *call = &ws->call;
	char folded[SLUICE_KEY_BYTES_MAX];
	if (asked->operation == SL_OP_ACQUIRE && sl_answer_holds(call))
		keep_id(told, ws, call->id);
	else if (asked->operation == SL_OP_RESERVE && sl_answer_holds(call) && call->merged.index >= 0)
		told->id = sl_slice(ws->held, sl_ticket_write(ws->held, sl_id_number(call->id),
		                                              sl_asked_ticket_key(asked, folded), call->items, NULL,
		                                              call->item_count));
}

/* The instant is said beside the words, to the nanosecond. */
static bool decide(struct owner *owner, const struct sl_asked *asked, struct sl_told *told,
                   struct sl_failure *failure) {
	struct sl_workspace *ws = owner->workspace;
	struct sluice_call *call = &ws->call;
	struct sl_asked timeless = *asked;
	char made[SL_ID_DIGITS + 1];
	timeless.now = 0;
	if (asked->operation == SL_OP_COMMIT && asked->limit_count != 0 && !sl_ticket_is(asked->id)) {
		timeless.id = sl_slice(ws->ticket_text, sl_asked_ticket(asked, ws->ticket_text, failure));
		if (timeless.id.len == 0)
			return false;
	}
	timeless.limit_count = asked->operation == SL_OP_COMMIT ? 0 : asked->limit_count; /* the ticket says them */
	uint32_t count = sl_asked_words(&timeless, &ws->numbers, ws->words, failure);
	/* without a limit there are fewer words than the form has: all that is read of such a command is there */
	if (!sl_command_read(&ws->command, asked->operation, ws->words, count))
		return fail_command(failure, &ws->command);
	if (call->id.len == 0 && (asked->operation == SL_OP_ACQUIRE || asked->operation == SL_OP_RESERVE)) {
		call->id = sl_make_id(made);
	}
	call->now = sl_admission_instant(call->now, call->items, call->item_count);
	if (sluice_decide(owner->limiter->store, call) != SLUICE_OK)
		return fail_err(owner->limiter, failure, call->err);
	if (asked->operation == SL_OP_COMMIT && call->found == 0)
		return fail_unknown(failure, &ws->command);
	tell(told, call);
	tell_held(told, ws, asked);
	return true;
}

/* ---- those of the policy ----------------------------------------------------------------------------------------- */

static sluice_err match(struct owner *owner, const struct sluice_policy *policy, uint32_t count,
                        struct sluice_bytes member) {
	struct sl_workspace *ws = owner->workspace;
	sluice_err err =
		sl_policy_match(policy, ws->attributes, count, member, &ws->match, ws->match_bytes, sizeof ws->match_bytes);
	if (err != SLUICE_E_RANGE)
		return err;
	if (ws->match_more == NULL)
		ws->match_more = malloc(SLUICE_MATCH_BYTES_MAX);
	if (ws->match_more == NULL)
		return SLUICE_E_MEMORY;
	return sl_policy_match(policy, ws->attributes, count, member, &ws->match, ws->match_more, SLUICE_MATCH_BYTES_MAX);
}

static void tell_limits(struct sl_workspace *ws, const struct sluice_policy *policy, struct sl_told *told) {
	for (uint32_t i = 0; i < told->each_count; i++) {
		const struct sluice_item *item = &ws->call.items[i];
		const char *name = sluice_policy_limit_name(policy, ws->match.position[i]);
		size_t len = strlen(name);
		memcpy(ws->names[i], name, len + 1);
		ws->told[i] = (struct sl_told_limit){
			.name = sl_slice(ws->names[i], len),
			.text = sl_slice(ws->texts[i], sluice_limit_print(item->limit, ws->texts[i])),
			.observed = item->observed != 0,
		};
	}
	told->limits = ws->told;
}

static void tell_admitted(struct owner *owner, const struct sluice_policy *policy, struct sl_told *told) {
	struct sl_workspace *ws = owner->workspace;
	const struct sluice_call *call = &ws->call;
	int32_t index = told->merged.index;
	if (index >= 0) {
		const char *name = sluice_policy_limit_name(policy, ws->match.position[index]);
		told->name = sl_slice(ws->name, strlen(name));
		memcpy(ws->name, name, told->name.len + 1);
		told->merged.index = (int32_t)ws->match.position[index];
	}
	for (uint32_t i = 0; i < told->each_count; i++)
		told->each[i].index = (int32_t)ws->match.position[i];
	if (call->err == SLUICE_OK && sl_admission_holds(call) && sl_answer_holds(call))
		told->id = sl_slice(ws->held, sl_admission_ticket(policy, &ws->match, call, sizeof ws->held, ws->held));
}

static bool fail_match(struct sl_failure *failure, struct sl_command *command, const struct sl_workspace *ws,
                       uint32_t count, sluice_err err) {
	if (err == SLUICE_E_MEMORY)
		return sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
	sl_command_fail_match(command, ws->attributes, count);
	return fail_command(failure, command);
}

/* While a process that shares the store is stopped the policy says what a request gets. */
static void fall_back(struct owner *owner, const struct sluice_policy *policy) {
	struct sl_workspace *ws = owner->workspace;
	ws->call.each = NULL;
	sl_admission_fall_back(policy, &ws->match, &ws->call);
}

static bool admit_by(struct owner *owner, const struct sluice_policy *policy, const struct sl_asked *asked,
                     struct sl_told *told, struct sl_failure *failure) {
	struct sl_workspace *ws = owner->workspace;
	struct sluice_call *call = &ws->call;
	uint32_t index, count = sl_asked_words(asked, &ws->numbers, ws->words, failure), attributes;
	if (policy == NULL)
		return sl_fail(failure, SL_FAILED_POLICY, "there is no policy: expected one in the limiter's options");
	if (count == 0)
		return false;
	if (!sl_command_read_admit(&ws->command, SL_OP_ADMIT, ws->words, count, &index) ||
	    !sl_command_read_attributes(&ws->command, index, ws->attributes, &attributes))
		return fail_command(failure, &ws->command);
	sluice_err err = match(owner, policy, attributes, ws->command.member);
	if (err != SLUICE_OK)
		return fail_match(failure, &ws->command, ws, attributes, err);
	struct sl_admission admission = {.cost_said = true, .upto = call->upto, .id = call->id};
	call->items = ws->match.items;
	call->item_count = ws->match.count;
	bool prepared = sl_admission_prepare(&admission, policy, &ws->match, NULL, ws->match.items, call);
	SL_ASSERT(prepared); /* only the cost of a header may be wrong, and there are none here */
	call->now = sl_admission_instant(call->now, call->items, call->item_count);
	if (sluice_decide(owner->limiter->store, call) == SLUICE_OK && asked->now == 0)
		sl_stagger_call(owner->limiter->stagger, owner->limiter->store, policy, ws->match.position, ws->match.count,
		                call);
	if (asked->last && sl_is_held_up(call->err))
		call->err = SLUICE_E_BUSY;
	if (call->err == SLUICE_E_BUSY)
		fall_back(owner, policy);
	else if (call->err != SLUICE_OK)
		return fail_err(owner->limiter, failure, call->err);
	tell(told, call);
	told->failed_open = call->err != SLUICE_OK && call->merged.allowed;
	tell_admitted(owner, policy, told);
	if (asked->each)
		tell_limits(ws, policy, told);
	return true;
}

static bool admit(struct owner *owner, const struct sl_asked *asked, struct sl_told *told,
                  struct sl_failure *failure) {
	const struct sluice_policy *policy = sl_limiter_enter(owner->limiter);
	bool good = admit_by(owner, policy, asked, told, failure);
	sl_limiter_leave(owner->limiter);
	return good;
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

bool sl_limiter_decide(struct sl_limiter *limiter, const struct sl_asked *asked, struct sl_told *told,
                       struct sl_failure *failure) {
	struct owner owner = {limiter, sl_workspace_take(limiter)};
	if (owner.workspace == NULL)
		return sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
	begin(owner.workspace, &owner, asked, told);
	bool good = asked->operation == SL_OP_ADMIT ? admit(&owner, asked, told, failure)
	                                            : decide(&owner, asked, told, failure);
	if (good)
		told->memory = owner.workspace;
	else
		sl_workspace_give(limiter, owner.workspace);
	return good;
}

/* ---- who holds leases -------------------------------------------------------------------------------------------- */

/* Read as the command of that name, so that what is wrong has the words of all doors. */
static const struct sluice_item *read_holders(struct owner *owner, struct sluice_bytes key, struct sluice_bytes limit,
                                              sluice_ns now, struct sl_failure *failure) {
	struct sl_workspace *ws = owner->workspace;
	struct sl_told told;
	const struct sl_asked asked = {.operation = SL_OP_HOLDERS, .now = now};
	begin(ws, owner, &asked, &told);
	ws->words[0] = sl_str("SLUICE.HOLDERS");
	ws->words[1] = key;
	ws->words[2] = limit;
	if (sl_command_read(&ws->command, SL_OP_HOLDERS, ws->words, 3))
		return &ws->call.items[0];
	(void)fail_command(failure, &ws->command);
	return NULL;
}

bool sl_limiter_holders(struct sl_limiter *limiter, struct sluice_bytes key, struct sluice_bytes limit, sluice_ns now,
                        struct sluice_holder **list, uint32_t *count, struct sl_failure *failure) {
	struct owner owner = {limiter, sl_workspace_take(limiter)};
	if (owner.workspace == NULL)
		return sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
	const struct sluice_item *item = read_holders(&owner, key, limit, now, failure);
	bool good = item != NULL && has_place(limiter, failure);
	*list = NULL;
	*count = 0;
	if (good) {
		now = owner.workspace->call.now;
		uint32_t room = sluice_holders(limiter->store, item->limit, item->key, now, NULL, 0);
		if (room == SLUICE_HOLDERS_BUSY)
			good = sl_fail(failure, SL_FAILED_BUSY, SL_HELD_UP_TEXT ": nothing was read");
		else if ((*list = malloc(((size_t)room + 1) * sizeof **list)) == NULL)
			good = sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
		else /* others may acquire between the two looks: those that end last are left out */
			*count = sluice_holders(limiter->store, item->limit, item->key, now, *list, room);
		if (good && *count > room)
			*count = room;
	}
	sl_workspace_give(limiter, owner.workspace);
	return good;
}

bool sl_limiter_counters(struct sl_limiter *limiter, uint64_t *count, struct sl_failure *failure) {
	struct sluice_store_stats stats;
	if (!has_place(limiter, failure))
		return false;
	sluice_store_stats(limiter->store, &stats);
	*count = stats.slots_used - stats.slots_expired;
	return true;
}
