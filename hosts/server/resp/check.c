/* SLUICE.CHECK, PEEK, REFUND and RESET: limits that the caller brings along, or names.
 *
 *   SLUICE.CHECK key cost [AT unix_ms] [UPTO] [ID token] [MEMBER m] limit [limit ...] [KEY key limit [limit ...]] ...
 *   SLUICE.RESET key      [AT unix_ms]                              limit [limit ...] [KEY key limit [limit ...]] ...
 *
 * How they are read is in read.c. */
#include "hosts/server/resp/resp.h"

static void decide(struct sl_resp_turn *turn, sluice_operation operation, const char *command, uint32_t takes) {
	struct sl_resp_reading reading;
	sl_resp_read_begin(turn, &reading, operation, command, takes);
	if (!sl_resp_read_cost(turn, sl_resp_arg(turn, 2), &reading.call->cost) || !sl_resp_read_limits(turn, &reading, 3))
		return;
	sl_resp_read_end(turn, &reading, reading.call->upto ? SL_RESP_GRANTED : SL_RESP_NUMBERS);
}

void sl_resp_check(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_CHARGE, "CHECK", SL_WORD_MEMBER | SL_WORD_UPTO | SL_WORD_ID);
}

void sl_resp_peek(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_PEEK, "PEEK", SL_WORD_MEMBER | SL_WORD_UPTO);
}

void sl_resp_refund(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_REFUND, "REFUND", SL_WORD_MEMBER);
}

void sl_resp_reset_counters(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	sl_resp_read_begin(turn, &reading, SLUICE_RESET, "RESET", 0);
	if (sl_resp_read_limits(turn, &reading, 2))
		sl_resp_read_end(turn, &reading, SL_RESP_FORGOTTEN);
}
