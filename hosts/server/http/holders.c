/* POST /v1/holders: who holds leases of a limit of concurrency, those that end
 * first first.
 *
 *   {"holders":[{"id":"0f3a..","cost":1,"ends_after_ms":29000}],"count":1}
 *
 * At most 10,000 are listed; "count" is how many there are. An id that the
 * client made up itself is shown as the number that it stands for: release and
 * renew take either. */
#include "hosts/server/http/routes.h"

#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"

#include <stdlib.h>

enum { HOLDERS_MAX = 10000, HOLDER_ROOM = 96 };

static void put_holder(struct sl_out *out, const struct sluice_holder *holder) {
	char id[17];
	sl_hex_text(id, holder->id);
	sl_json_open(out, NULL, '{');
	sl_json_put_word(out, "id", id);
	sl_json_put_u64(out, "cost", holder->cost);
	sl_json_put_ms(out, "ends_after_ms", holder->ends_after_ns);
	sl_out_char(out, '}');
}

static void reply_holders(struct sl_http_exchange *exchange, const struct sluice_holder *list, uint32_t count,
                          uint32_t all) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", 64 + (size_t)count * HOLDER_ROOM))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"holders\":[");
	for (uint32_t i = 0; i < count; i++)
		put_holder(&reply.w, &list[i]);
	sl_out_char(&reply.w, ']');
	sl_json_put_u64(&reply.w, "count", all);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

static void list_holders(struct sl_http_exchange *exchange, const struct sl_http_ask *ask) {
	struct sluice_holder *list;
	if (exchange->context->remote != NULL) {
		sl_http_reply_problem(exchange, 400, sl_str("the store is in Redis: ask its nodes, by SLUICE.HOLDERS"), NULL);
		return;
	}
	list = malloc(HOLDERS_MAX * sizeof list[0]);
	if (list == NULL) {
		sl_http_reply_problem(exchange, 503, sl_str("there is no memory for the list"), NULL);
		return;
	}
	uint32_t all = sluice_holders(exchange->context->store, ask->items[0].limit, ask->items[0].key, ask->call.now, list,
	                              HOLDERS_MAX);
	if (all == SLUICE_HOLDERS_BUSY)
		sl_http_reply_unable(exchange, 503, SLUICE_E_BUSY, NULL, 0);
	else
		reply_holders(exchange, list, all < HOLDERS_MAX ? all : HOLDERS_MAX, all);
	free(list);
}

void sl_http_route_holders(struct sl_http_exchange *exchange) {
	struct sl_http_ask ask;
	if (sl_http_ask_body(&ask, exchange, SL_OP_HOLDERS, NULL))
		list_holders(exchange, &ask);
	else
		sl_http_reply_malformed(exchange, &ask);
	sl_http_ask_free(&ask);
}
