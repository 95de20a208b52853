/* The commands that decide, and SLUICE.EFFECT, by which replicas and append-only files are told what came of it. */
#include "hosts/redis/turn.h"

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void reply_numbers(struct slr_turn *turn, const struct sluice_decision *decision, int64_t last) {
	struct RedisModuleCtx *context = turn->context;
	slr_ReplyWithLongLong(context, decision->allowed);
	slr_ReplyWithLongLong(context, (long long)decision->quota);
	slr_ReplyWithLongLong(context, decision->remaining);
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->retry_after_ns));
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->reset_after_ns));
	slr_ReplyWithLongLong(context, sl_ns_to_ms_ceil(decision->delay_ns));
	slr_ReplyWithLongLong(context, last);
}

static void reply_decision(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	if (!turn->each) {
		slr_ReplyWithArray(turn->context, 7);
		reply_numbers(turn, &call->merged, call->merged.index);
		return;
	}
	slr_ReplyWithArray(turn->context, call->item_count);
	for (uint32_t i = 0; i < call->item_count; i++) {
		slr_ReplyWithArray(turn->context, 7);
		reply_numbers(turn, &call->each[i], sl_ns_to_ms_ceil(call->each[i].next_after_ns));
	}
}

static void reply_lease(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	slr_ReplyWithArray(turn->context, 8);
	slr_ReplyWithLongLong(turn->context, call->granted);
	reply_numbers(turn, &call->each[0], sl_ns_to_ms_ceil(call->each[0].next_after_ns));
}

static void reply(struct slr_turn *turn) {
	enum slr_operation operation = turn->call->operation;
	if (operation == SLR_RESET || operation == SLR_CANCEL)
		slr_ReplyWithLongLong(turn->context, turn->call->forgotten);
	else if (operation == SLR_LEASE)
		reply_lease(turn);
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

static int run(struct RedisModuleCtx *context, struct RedisModuleString **args, int count,
               const struct slr_form *form) {
	struct slr_turn turn;
	slr_turn_begin(&turn, context, args, count);
	if (slr_IsKeysPositionRequest(context)) {
		slr_read_positions(&turn, form);
		return SLR_REDIS_OK;
	}
	if (!slr_read_call(&turn, form) || !is_lease_right(&turn) || !slr_keys_open(&turn, form->operation != SLR_PEEK))
		return SLR_REDIS_OK;
	if (form->operation == SLR_LEASE)
		turn.call->want_next = true;
	if (slr_turn_decide(&turn)) {
		slr_keys_keep(&turn);
		reply(&turn);
	}
	slr_keys_close(&turn);
	return SLR_REDIS_OK;
}

#define COMMAND(name, operation, has_each, ...)                                                  \
	int slr_##name(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) { \
		static const struct slr_form form = {operation, {__VA_ARGS__}, has_each};                \
		return run(context, args, count, &form);                                                 \
	}

COMMAND(check, SLR_CHECK, true, SLR_FIELD_COST)
COMMAND(peek, SLR_PEEK, true, SLR_FIELD_COST)
COMMAND(refund, SLR_REFUND, true, SLR_FIELD_COST)
COMMAND(reset, SLR_RESET, false, 0)
COMMAND(hold, SLR_HOLD, true, SLR_FIELD_COST, SLR_FIELD_ID, SLR_FIELD_TTL)
COMMAND(confirm, SLR_CONFIRM, true, SLR_FIELD_COST, SLR_FIELD_ID)
COMMAND(cancel, SLR_CANCEL, false, SLR_FIELD_ID)
COMMAND(lease, SLR_LEASE, false, SLR_FIELD_ID, SLR_FIELD_TTL, SLR_FIELD_SPENT, SLR_FIELD_WANT)

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

int slr_effect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_turn turn;
	int64_t expire_ms;
	if (count != 4)
		return slr_WrongArity(context);
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
