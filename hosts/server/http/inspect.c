/* What counters hold, as HTTP tells it (proto/inspection.h): GET /v1/inspect?name=value.. by a request's attributes, as
 * the policy finds its limits for them; POST /v1/inspect {"key","limits"} by key and limits. Which is read in admit.c.
 *
 *   {"limits":[{"limit","name","key","allowed",.. "returns":[[after_ms,remaining]],
 *    "charges":[[from_ms,until_ms,cost]]}]} */
#include "hosts/server/http/routes.h"

#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"
#include "proto/inspection.h"
#include "proto/json.h"

static void put_lists(struct sl_out *out, const struct sluice_inspection *told) {
	sl_out_str(out, ",\"returns\":[");
	for (uint32_t i = 0; i < told->return_count; i++) {
		sl_out_str(out, i != 0 ? ",[" : "[");
		sl_out_i64(out, sl_ns_to_ms_ceil(told->returns[i].after_ns));
		sl_out_char(out, ',');
		sl_out_u64(out, told->returns[i].remaining);
		sl_out_char(out, ']');
	}
	sl_out_str(out, "],\"charges\":[");
	for (uint32_t i = 0; i < told->charge_count; i++) {
		sl_out_str(out, i != 0 ? ",[" : "[");
		sl_out_i64(out, sl_inspection_ms(told->charges[i].from_ns));
		sl_out_char(out, ',');
		sl_out_i64(out, sl_inspection_ms(told->charges[i].until_ns));
		sl_out_char(out, ',');
		sl_out_u64(out, told->charges[i].cost);
		sl_out_char(out, ']');
	}
	sl_out_char(out, ']');
}

static void put_inspected(struct sl_out *out, const struct sluice_item *item, struct sluice_bytes name,
                          const struct sluice_inspection *told) {
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	char text[SLUICE_LIMIT_TEXT_MAX];
	sl_inspection_numbers(told, numbers);
	sl_out_str(out, "{\"limit\":");
	sl_json_string(out, sl_slice(text, sluice_limit_print(item->limit, text)));
	if (name.data != NULL) {
		sl_out_str(out, ",\"name\":");
		sl_json_string(out, name);
	}
	sl_out_str(out, ",\"key\":");
	sl_json_string(out, item->key);
	for (int i = 0; i < SL_INSPECTION_NUMBERS; i++) {
		sl_out_str(out, ",\"");
		sl_out_str(out, numbers[i].name);
		sl_out_str(out, "\":");
		if (i == 0)
			sl_out_str(out, numbers[i].value != 0 ? "true" : "false");
		else
			sl_out_i64(out, numbers[i].value);
	}
	put_lists(out, told);
	sl_out_char(out, '}');
}

void sl_http_reply_inspection(struct sl_http_exchange *exchange, const struct sluice_item *items, uint32_t count,
                              const uint32_t *positions, sluice_ns now) {
	const struct sl_door_context *context = exchange->context;
	struct sluice_inspection told[SLUICE_ITEMS_MAX];
	struct sl_http_reply reply;
	size_t room = 64;
	sluice_err err = context->remote != NULL ? SLUICE_OK
	                                         : sluice_inspect(context->store, items, count,
	                                                          sl_door_instant(now, items, count), told);
	if (context->remote != NULL)
		sl_http_reply_problem(exchange, 400, sl_str("the store is in Redis: ask its nodes, by SLUICE.INSPECT"), NULL);
	else if (err != SLUICE_OK)
		sl_http_reply_failed(exchange, err);
	if (context->remote != NULL || err != SLUICE_OK)
		return;
	for (uint32_t i = 0; i < count; i++)
		room += SL_INSPECTION_JSON_MAX + SL_JSON_ROOM(items[i].key.len) + SL_JSON_ROOM(SLUICE_NAME_BYTES_MAX);
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"limits\":[");
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_bytes name = {NULL, 0};
		if (positions[i] != SL_POSITION_NOTATION)
			name = sl_str(sluice_policy_limit_name(context->policy, positions[i]));
		if (i > 0)
			sl_out_char(&reply.w, ',');
		put_inspected(&reply.w, &items[i], name, &told[i]);
	}
	sl_out_str(&reply.w, "]}");
	sl_http_reply_end(&reply);
}
