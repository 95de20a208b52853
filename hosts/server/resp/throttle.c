/* CL.THROTTLE, redis-cell's command, for those who come from there.
 *
 *   CL.THROTTLE key max_burst count period [quantity]
 *
 * It is a token-bucket of `count/period` seconds and burst max_burst + 1, with a counter that no SLUICE.CHECK meets.
 * The answers are redis-cell 0.5.0's on every sane call, and differ where it errs: seconds are rounded up, never down
 * to a wait that is too short; a negative rate or burst is refused instead of denying all; a refund of a key that is
 * not there creates nothing; a key is never a Redis value of another kind, so nothing can crash on one. */
#include "algo/rule.h"
#include "hosts/server/resp/resp.h"

enum { PERIOD_S_MAX = 3660 * 86400 };

static bool read_number(struct sl_resp_turn *turn, uint32_t index, const char *what, int64_t least, int64_t most,
                        int64_t *value) {
	struct sluice_bytes text = sl_resp_arg(turn, index);
	if (sl_resp_to_i64(text, value) && *value >= least && *value <= most)
		return true;
	sl_reply_error(turn, "ERR %s %s: expected a whole number from %lld to %lld", what, sl_resp_shown(text).text,
	               (long long)least, (long long)most);
	return false;
}

/* The limit of three numbers, checked and built. */
static const struct sluice_limit *make_limit(struct sl_resp_turn *turn, struct sluice_bytes text) {
	int64_t max_burst, count, period;
	struct sluice_limit limit;
	struct sluice_error error;
	if (!read_number(turn, 2, "max_burst", 0, (int64_t)UINT32_MAX - 1, &max_burst) ||
	    !read_number(turn, 3, "count", 1, UINT32_MAX, &count) ||
	    !read_number(turn, 4, "period", 1, PERIOD_S_MAX, &period))
		return NULL;
	if (sl_rule_make_token_bucket(&limit, (uint64_t)count, (sluice_ns)period * 1000000000, (uint64_t)max_burst + 1,
	                              &error) != SLUICE_OK) {
		sl_reply_error(turn, "ERR %s", error.text);
		return NULL;
	}
	sl_rule_throttle(&limit);
	return sl_resp_limit_keep(turn, text, &limit);
}

/* The three numbers as they stand in the request, framing and all: one text for one limit, as no notation is. */
static struct sluice_bytes text_of(const struct sl_resp_turn *turn) {
	struct sluice_bytes first = sl_resp_arg(turn, 2), last = sl_resp_arg(turn, 4);
	const char *start = first.data, *end = (const char *)last.data + last.len;
	if (turn->request->is_inline) /* unquoted words touch each other: 1 and 23 would look like 12 and 3 */
		return sl_slice(NULL, 0);
	return sl_slice(start, (size_t)(end - start));
}

void sl_resp_throttle(struct sl_resp_turn *turn) {
	struct sluice_bytes key = sl_resp_arg(turn, 1);
	int64_t quantity = 1;
	if (turn->request->count > 5 + 1) {
		sl_reply_error(turn, "ERR wrong number of arguments for 'cl.throttle' command");
		return;
	}
	if (key.len > SLUICE_KEY_BYTES_MAX) {
		sl_reply_error(turn, "ERR the key has %zu bytes: at most %d are allowed", key.len, SLUICE_KEY_BYTES_MAX);
		return;
	}
	if (turn->request->count == 6 && !read_number(turn, 5, "quantity", -(int64_t)UINT32_MAX, UINT32_MAX, &quantity))
		return;
	struct sluice_call *call = sl_resp_call_begin(turn);
	struct sluice_bytes text = text_of(turn);
	const struct sluice_limit *limit = sl_resp_limit_recall(turn, text);
	if (limit == NULL)
		limit = make_limit(turn, text);
	if (limit == NULL)
		return;
	call->operation = quantity > 0 ? SLUICE_CHARGE : quantity == 0 ? SLUICE_PEEK : SLUICE_REFUND;
	call->cost = (uint32_t)(quantity < 0 ? -quantity : quantity);
	sl_resp_call_item(turn, call, limit, key);
	sl_resp_call_end(turn, call, SL_RESP_CELL);
}
