#include "hosts/server/http/door_http.h"

void sl_http_route_page(struct sl_http_turn *turn) {
	sl_http_reply_problem(turn, 501, sl_str("not built yet"), NULL);
}
