#include "hosts/server/resp/resp.h"

void sl_resp_top(struct sl_resp_turn *turn) {
	sl_reply_error(turn, "ERR not built yet");
}
