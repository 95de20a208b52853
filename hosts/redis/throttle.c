/* CL.THROTTLE, redis-cell's command, for those who come from there.
 *
 *   CL.THROTTLE key max_burst count period [quantity]
 *
 * It is a token-bucket of `count/period` seconds and burst max_burst + 1, with a counter that no SLUICE.CHECK meets.
 * Answers and refusals are those of the server's door (hosts/server/resp/throttle.c). */
#include "hosts/redis/turn.h"

enum { PERIOD_S_MAX = 3660 * 86400 };

static bool to_i64(struct sluice_bytes text, int64_t *value) {
	const char *p = text.data;
	bool negative = text.len > 1 && *p == '-';
	uint64_t magnitude;
	if (!sl_bytes_to_u64(sl_slice(p + negative, text.len - negative), &magnitude) || magnitude > (uint64_t)INT64_MAX)
		return false;
	*value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	return true;
}

static bool read_number(struct slr_turn *turn, uint32_t index, const char *what, int64_t least, int64_t most,
                        int64_t *value) {
	struct sluice_bytes text = slr_arg(turn, index);
	if (to_i64(text, value) && *value >= least && *value <= most)
		return true;
	slr_fail(turn, "%s %s: expected a whole number from %lld to %lld", what, slr_shown(text).text, (long long)least,
	         (long long)most);
	return false;
}

static bool read_limit(struct slr_turn *turn, struct sluice_limit *limit) {
	int64_t max_burst, count, period;
	struct sluice_error error;
	if (!read_number(turn, 2, "max_burst", 0, (int64_t)UINT32_MAX - 1, &max_burst) ||
	    !read_number(turn, 3, "count", 1, UINT32_MAX, &count) ||
	    !read_number(turn, 4, "period", 1, PERIOD_S_MAX, &period))
		return false;
	if (sl_rule_make_token_bucket(limit, (uint64_t)count, (sluice_ns)period * 1000000000, (uint64_t)max_burst + 1,
	                              &error) != SLUICE_OK) {
		slr_fail(turn, "%s", error.text);
		return false;
	}
	sl_rule_throttle(limit);
	return true;
}

/* redis-cell's five: the first is 1 when *denied*, waits are whole seconds, and there is no wait while allowed. */
static void reply(struct slr_turn *turn) {
	const struct sluice_decision *decision = &turn->call->merged;
	slr_ReplyWithArray(turn->context, 5);
	slr_ReplyWithLongLong(turn->context, !decision->allowed);
	slr_ReplyWithLongLong(turn->context, (long long)decision->quota);
	slr_ReplyWithLongLong(turn->context, decision->remaining);
	slr_ReplyWithLongLong(turn->context, decision->allowed ? -1 : sl_ns_to_s_ceil(decision->retry_after_ns));
	slr_ReplyWithLongLong(turn->context, sl_ns_to_s_ceil(decision->reset_after_ns));
}

static bool read_call(struct slr_turn *turn) {
	struct slr_call *call = turn->call;
	struct sluice_bytes key = slr_arg(turn, 1);
	int64_t quantity = 1;
	if (key.len > SLUICE_KEY_BYTES_MAX) {
		slr_fail(turn, "the key has %zu bytes: at most %d are allowed", key.len, SLUICE_KEY_BYTES_MAX);
		return false;
	}
	if (turn->count == 6 && !read_number(turn, 5, "quantity", -(int64_t)UINT32_MAX, UINT32_MAX, &quantity))
		return false;
	if (!read_limit(turn, &call->items[0].limit))
		return false;
	call->operation = quantity > 0 ? SLR_CHECK : quantity == 0 ? SLR_PEEK : SLR_REFUND;
	call->cost = (uint32_t)(quantity < 0 ? -quantity : quantity);
	call->items[0].watched = 0;
	call->items[0].key = slr_read_key(turn, 1);
	call->item_count = 1;
	call->now = slr_clock_now();
	return true;
}

int slr_throttle(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_turn turn;
	if (count < 5 || count > 6)
		return slr_WrongArity(context);
	slr_turn_begin(&turn, context, args, count);
	if (!read_call(&turn) || !slr_keys_open(&turn, true))
		return SLR_REDIS_OK;
	if (slr_turn_decide(&turn)) {
		slr_keys_keep(&turn);
		reply(&turn);
	}
	slr_keys_close(&turn);
	return SLR_REDIS_OK;
}
