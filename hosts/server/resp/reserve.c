/* SLUICE.RESERVE and COMMIT: a cost that is known only afterwards.
 *
 *   SLUICE.RESERVE key cost ttl_ms [AT unix_ms] [ID id] limit [limit ...] [KEY key limit ...] ...
 *   SLUICE.COMMIT  key ticket actual [AT unix_ms]
 *
 * The ticket says what was reserved (proto/ticket.h), so that whoever commits need not know. */
#include "hosts/server/resp/resp.h"

enum { TTL_MS_MAX = 3660 * 86400 };

void sl_resp_reserve(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	uint64_t ttl_ms;
	sl_resp_read_begin(turn, &reading, SLUICE_RESERVE, "RESERVE", SL_WORD_ID);
	if (!sl_resp_read_cost(turn, sl_resp_arg(turn, 2), &reading.call->cost) ||
	    !sl_resp_read_number(turn, 3, "ttl_ms", 1, (uint64_t)TTL_MS_MAX * 1000, &ttl_ms) ||
	    !sl_resp_read_limits(turn, &reading, 4))
		return;
	reading.call->ttl_ns = ttl_ms * 1000000;
	if (reading.call->id.len == 0)
		sl_resp_call_make_id(turn, reading.call);
	sl_resp_read_end(turn, &reading, SL_RESP_RESERVED);
}

void sl_resp_commit(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	uint64_t actual;
	bool is_ticket;
	sl_resp_read_begin(turn, &reading, SLUICE_COMMIT, "COMMIT", 0);
	if (!sl_resp_read_number(turn, 3, "actual", 0, UINT32_MAX, &actual))
		return;
	if (sl_resp_read_ticket(turn, &reading, 2, 3, false, &is_ticket)) {
		reading.call->cost = (uint32_t)actual;
		sl_resp_read_end(turn, &reading, SL_RESP_COMMITTED);
	} else if (!is_ticket) {
		sl_reply_error(turn, "ERR no ticket: %s: expected it as SLUICE.RESERVE or SLUICE.ADMIT gave it",
		               sl_resp_shown(sl_resp_arg(turn, 2)).text);
	}
}
