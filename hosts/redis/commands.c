/* The commands that decide, and SLUICE.EFFECT, by which replicas and append-only files are told what came of it. */
#include "hosts/redis/memory.h"
#include "hosts/redis/turn.h"

/* ---- replies ----------------------------------------------------------------------------------------------------- */

/* `told`: a front is told as well which bound was met, above the first bit of the first number. */
static void reply_numbers(struct slr_turn *turn, const struct sluice_decision *decision, int64_t last, bool told) {
	struct RedisModuleCtx *context = turn->context;
	slr_ReplyWithLongLong(context, decision->allowed | (told ? decision->bound << 1 : 0));
	slr_ReplyWithLongLong(context, (long long)decision->quota);
	slr_ReplyWithLongLong(context, decision->remaining);
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->retry_after_ns));
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->reset_after_ns));
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->delay_ns));
	slr_ReplyWithLongLong(context, last);
}

/* Whether a call comes to more than its limits' figures. */
static bool has_outcome(const struct slr_turn *turn) {
	enum slr_operation operation = turn->call->operation;
	return operation == SLR_ACQUIRE || operation == SLR_RESERVE || operation == SLR_COMMIT || turn->call->upto ||
	       turn->call->token != 0;
}

/* By how many nanoseconds a wait is rounded up to whole milliseconds. */
static int64_t rounded_up(sluice_ns wait_ns) {
	return wait_ns == SLUICE_NEVER ? 0 : (int64_t)((SL_MS_NS - wait_ns % SL_MS_NS) % SL_MS_NS);
}

static void reply_each(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	bool outcome = has_outcome(turn);
	slr_ReplyWithArray(turn->context, call->item_count + outcome);
	for (uint32_t i = 0; i < call->item_count; i++) {
		slr_ReplyWithArray(turn->context, 7 + turn->exact);
		reply_numbers(turn, &call->each[i], sl_ns_to_ms_ceil(call->each[i].next_after_ns), true);
		if (turn->exact)
			slr_ReplyWithLongLong(turn->context, rounded_up(call->each[i].retry_after_ns));
	}
	if (!outcome)
		return;
	slr_ReplyWithArray(turn->context, 3);
	slr_ReplyWithLongLong(turn->context, call->granted);
	slr_ReplyWithLongLong(turn->context, call->repeated);
	slr_ReplyWithLongLong(turn->context, call->found);
}

/* The id of what there is now under it: a lease, or a reservation. */
static void reply_id(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	bool held = call->merged.allowed && (call->cost != 0 || call->repeated);
	if (!held || call->merged.index < 0) /* a reservation of what counts nothing is none */
		slr_ReplyWithNull(turn->context);
	else if (call->operation == SLR_ACQUIRE)
		slr_ReplyWithStringBuffer(turn->context, turn->id.data, turn->id.len);
	else
		slr_reply_ticket(turn);
}

static void reply_decision(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	bool has_id = call->operation == SLR_ACQUIRE || call->operation == SLR_RESERVE;
	if (turn->each) {
		reply_each(turn);
		return;
	}
	slr_ReplyWithArray(turn->context, 7 + (has_id || call->upto) + (call->upto && call->operation == SLR_HOLD));
	/* a front's HOLD is of one counter */
	reply_numbers(turn, &call->merged, call->merged.index, call->upto && call->operation == SLR_HOLD);
	if (has_id)
		reply_id(turn);
	else if (call->upto)
		slr_ReplyWithLongLong(turn->context, call->granted);
	if (call->upto && call->operation == SLR_HOLD)
		slr_ReplyWithLongLong(turn->context, call->found);
}

static void reply_lease(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	slr_ReplyWithArray(turn->context, 8);
	slr_ReplyWithLongLong(turn->context, call->granted);
	reply_numbers(turn, &call->each[0], sl_ns_to_ms_ceil(call->each[0].next_after_ns), true);
}

static void reply(struct slr_turn *turn) {
	enum slr_operation operation = turn->call->operation;
	if (operation == SLR_RESET || operation == SLR_CANCEL)
		slr_ReplyWithLongLong(turn->context, turn->call->forgotten);
	else if (operation == SLR_LEASE)
		reply_lease(turn);
	else if (operation == SLR_RELEASE || operation == SLR_RENEW)
		slr_ReplyWithLongLong(turn->context, turn->call->found);
	else if (operation == SLR_COMMIT && turn->call->found == 0)
		slr_ReplyWithError(turn->context, "NOTFOUND no such reservation is open: it was committed before, or has "
		                                  "returned at the end of its ttl, or was of another key");
	else
		reply_decision(turn);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static bool is_lease_right(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	if (call->operation != SLR_LEASE || (call->item_count == 1 && call->items[0].watched == 0))
		return true;
	slr_fail(turn, "a lease is of one limit, neither OBSERVED nor TRIED");
	return false;
}

/* What is acquired or reserved without a name gets one. */
static __attribute__((noinline)) void make_id(struct slr_turn *turn) {
	static char made[17]; /* read until the reply has been given */
	slr_GetRandomHexChars(made, 16);
	turn->id = sl_slice(made, 16);
	turn->call->id = sl_id_number(turn->id);
}

/* Decides a call that has been read, and replies. */
static int decide(struct slr_turn *turn) {
	struct slr_call *call = turn->call;
	if (turn->id.len != 0 && call->operation == SLR_CHECK)
		call->token = slr_token_of(turn);
	else if (turn->id.len == 0 && (call->operation == SLR_ACQUIRE || call->operation == SLR_RESERVE))
		make_id(turn);
	if (!slr_keys_open(turn, call->operation != SLR_PEEK))
		return SLR_REDIS_OK;
	if (slr_turn_decide(turn)) {
		slr_keys_keep(turn);
		reply(turn);
	}
	slr_keys_close(turn);
	return SLR_REDIS_OK;
}

static int run(struct RedisModuleCtx *context, struct RedisModuleString **args, int count,
               const struct slr_form *form) {
	struct slr_turn turn;
	slr_turn_begin(&turn, context, args, count);
	if (slr_IsKeysPositionRequest(context)) {
		slr_read_positions(&turn, form);
		return SLR_REDIS_OK;
	}
	if (!slr_read_call(&turn, form) || !is_lease_right(&turn))
		return SLR_REDIS_OK;
	if (form->operation == SLR_LEASE)
		turn.call->want_next = true;
	return decide(&turn);
}

enum {
	OF_FRONTS = SLR_WORD_EACH,
	OF_CHARGES = SLR_WORD_EACH | SLR_WORD_MEMBER | SLR_WORD_TERMS | SLR_WORD_COST,
};

#define COMMAND(command, operation, text, words, ...)                                               \
	int slr_##command(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) { \
		static const struct slr_form form = {operation, {__VA_ARGS__}, (words), text};              \
		return run(context, args, count, &form);                                                    \
	}

COMMAND(check, SLR_CHECK, "CHECK", OF_CHARGES | SLR_WORD_UPTO | SLR_WORD_ID, SLR_FIELD_COST)
COMMAND(peek, SLR_PEEK, "PEEK", OF_CHARGES | SLR_WORD_UPTO | SLR_WORD_BESIDE, SLR_FIELD_COST)
COMMAND(refund, SLR_REFUND, "REFUND", OF_CHARGES, SLR_FIELD_COST)
COMMAND(reset, SLR_RESET, "RESET", SLR_WORD_TERMS, 0)
COMMAND(hold, SLR_HOLD, "HOLD", OF_FRONTS | SLR_WORD_UPTO, SLR_FIELD_COST, SLR_FIELD_ID, SLR_FIELD_TTL)
COMMAND(confirm, SLR_CONFIRM, "CONFIRM", OF_FRONTS | SLR_WORD_KEEP, SLR_FIELD_COST, SLR_FIELD_ID)
COMMAND(cancel, SLR_CANCEL, "CANCEL", 0, SLR_FIELD_ID)
COMMAND(acquire, SLR_ACQUIRE, "ACQUIRE", OF_CHARGES | SLR_WORD_ID, SLR_FIELD_COST)
COMMAND(reserve, SLR_RESERVE, "RESERVE", OF_CHARGES | SLR_WORD_ID, SLR_FIELD_COST,
        SLR_FIELD_TTL_LONG)

/* Without arguments it says what may be said here. */
int slr_lease(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const struct slr_form form = {
		SLR_LEASE, {SLR_FIELD_ID, SLR_FIELD_TTL, SLR_FIELD_SPENT, SLR_FIELD_WANT}, 0, "LEASE"};
	if (count == 1 && !slr_IsKeysPositionRequest(context))
		return slr_ReplyWithLongLong(context, SLR_GRAMMAR);
	return run(context, args, count, &form);
}

/* ---- leases and tickets ------------------------------------------------------------------------------------------ */

/* Are there limits behind the id? */
static bool has_limits(const struct slr_turn *turn) {
	return turn->count > 3 && !(turn->count == 5 && slr_is_word(slr_arg(turn, 3), "at"));
}

/* A ticket where it can be read as one. What only looks like one is an id, if there are limits with it. */
static int end_leases(struct RedisModuleCtx *context, struct RedisModuleString **args, int count,
                      const struct slr_form *form) {
	struct slr_turn turn;
	bool is_ticket;
	int result = SLR_REDIS_OK;
	if (count < 3)
		return slr_WrongArity(context);
	slr_turn_begin(&turn, context, args, count);
	if (slr_IsKeysPositionRequest(context)) {
		slr_read_positions(&turn, form);
		return SLR_REDIS_OK;
	}
	if (slr_read_ticket(&turn, form, 1, true, &is_ticket)) {
		result = decide(&turn);
		slr_turn_end(&turn);
		return result;
	}
	if (is_ticket)
		return SLR_REDIS_OK;
	if (!has_limits(&turn) && slr_arg(&turn, 2).len > 16 && ((const char *)slr_arg(&turn, 2).data)[16] == '.') {
		slr_fail(&turn, "no ticket: %s: expected it as SLUICE.ADMIT gave it", slr_shown(slr_arg(&turn, 2)).text);
		return SLR_REDIS_OK;
	}
	return slr_read_call(&turn, form) ? decide(&turn) : SLR_REDIS_OK;
}

int slr_release(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const struct slr_form form = {SLR_RELEASE, {SLR_FIELD_NAME}, SLR_WORD_TERMS | SLR_WORD_COST, "RELEASE"};
	return end_leases(context, args, count, &form);
}

int slr_renew(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const struct slr_form form = {SLR_RENEW, {SLR_FIELD_NAME}, SLR_WORD_TERMS | SLR_WORD_COST, "RENEW"};
	return end_leases(context, args, count, &form);
}

int slr_commit(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const struct slr_form form = {SLR_COMMIT, {SLR_FIELD_NAME, SLR_FIELD_ACTUAL}, SLR_WORD_EACH, "COMMIT"};
	struct slr_turn turn;
	bool is_ticket;
	if (count < 4)
		return slr_WrongArity(context);
	slr_turn_begin(&turn, context, args, count);
	if (slr_IsKeysPositionRequest(context)) {
		slr_KeyAtPos(context, 1);
		return SLR_REDIS_OK;
	}
	if (slr_read_ticket(&turn, &form, 2, false, &is_ticket)) {
		(void)decide(&turn);
		slr_turn_end(&turn);
	} else if (!is_ticket) {
		slr_fail(&turn, "no ticket: %s: expected it as SLUICE.RESERVE or SLUICE.ADMIT gave it",
		         slr_shown(slr_arg(&turn, 2)).text);
	}
	return SLR_REDIS_OK;
}

static void reply_holders(struct slr_turn *turn) {
	uint32_t count = slr_holders_of(turn->call, NULL, 0);
	struct sluice_holder *list = slr_take((count + 1) * sizeof *list);
	count = slr_holders_of(turn->call, list, count);
	slr_ReplyWithArray(turn->context, count);
	for (uint32_t i = 0; i < count; i++) {
		char id[17];
		slr_hex_of(list[i].id, id);
		slr_ReplyWithArray(turn->context, 3);
		slr_ReplyWithStringBuffer(turn->context, id, 16);
		slr_ReplyWithLongLong(turn->context, list[i].cost);
		slr_ReplyWithLongLong(turn->context, sl_ns_to_ms_ceil(list[i].ends_after_ns));
	}
	slr_give(list);
}

int slr_holders(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const struct slr_form form = {SLR_HOLDERS, {0}, 0, "HOLDERS"};
	struct slr_turn turn;
	slr_turn_begin(&turn, context, args, count);
	if (slr_IsKeysPositionRequest(context)) {
		slr_read_positions(&turn, &form);
		return SLR_REDIS_OK;
	}
	if (!slr_read_call(&turn, &form))
		return SLR_REDIS_OK;
	if (turn.call->item_count != 1 || turn.call->items[0].limit.algorithm != SLUICE_CONCURRENCY) {
		slr_fail(&turn, "expected one limit of concurrency: others have no holders");
		return SLR_REDIS_OK;
	}
	if (!slr_keys_open(&turn, false))
		return SLR_REDIS_OK;
	reply_holders(&turn);
	slr_keys_close(&turn);
	return SLR_REDIS_OK;
}

/* ---- effects ----------------------------------------------------------------------------------------------------- */

static bool read_expiry(struct sluice_bytes text, int64_t *expire_ms) {
	uint64_t ms;
	*expire_ms = SLR_NO_EXPIRE;
	if (text.len == 2 && memcmp(text.data, "-1", 2) == 0)
		return true;
	if (!sl_bytes_to_u64(text, &ms) || ms > (uint64_t)INT64_MAX)
		return false;
	*expire_ms = (int64_t)ms;
	return true;
}

static void apply(struct slr_turn *turn, int64_t expire_ms) {
	struct slr_key *key = &turn->call->keys[0];
	slr_value before = key->value;
	bool right = slr_notes_apply(&key->value, slr_arg(turn, 3));
	if (!right)
		slr_fail(turn,
		         "the payload is damaged, or of another version: expected what SLUICE.EFFECT was sent by a primary");
	key->changed = right || key->value != before;
	key->expire_ms = 0;
	key->notes.bytes.len = 0;
	turn->call->noted = false; /* so it is handed on as it came, to our own file and replicas */
	slr_keys_keep(turn);
	if (!right)
		return;
	if (key->value != 0 && expire_ms != SLR_NO_EXPIRE)
		slr_SetAbsExpire(turn->keys[0], expire_ms);
	slr_ReplyWithSimpleString(turn->context, "OK");
}

/* Whoever may send effects makes of a counter whatever he likes: so they come from a primary, or out of an append-only
 * file that is being read. */
static bool may_tell(struct RedisModuleCtx *context) {
	return slr_settings.client_effects ||
	       (slr_GetContextFlags(context) & (SLR_CONTEXT_REPLICATED | SLR_CONTEXT_LOADING)) != 0;
}

int slr_effect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_turn turn;
	int64_t expire_ms;
	if (count != 4)
		return slr_WrongArity(context);
	if (!may_tell(context)) {
		slr_ReplyWithError(context, "NOPERM SLUICE.EFFECT is what primaries tell replicas and append-only files: it is "
		                            "not taken from clients unless the module is loaded with client-effects yes");
		return SLR_REDIS_OK;
	}
	slr_turn_begin(&turn, context, args, count);
	if (!read_expiry(slr_arg(&turn, 2), &expire_ms)) {
		slr_fail(&turn, "expire_ms %s: expected Unix milliseconds, or -1 for no expiry",
		         slr_shown(slr_arg(&turn, 2)).text);
		return SLR_REDIS_OK;
	}
	(void)slr_read_key(&turn, 1);
	if (!slr_keys_open(&turn, true))
		return SLR_REDIS_OK;
	apply(&turn, expire_ms);
	slr_keys_close(&turn);
	return SLR_REDIS_OK;
}
