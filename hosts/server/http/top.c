/* GET /v1/top?kind=denied|near|shadow|candidate&count=20: the keys denied most, nearest to their limits, or that would
 * be denied, over all workers.
 *
 *   {"kind":"denied","entries":[{"limit":"login","named":true,"key":"ip=192.0.2.7","count":41,"error":0,
 *                                "last_ms":1800000000123}]}
 *
 * Keys are bytes, JSON is text: a key that is not UTF-8 has U+FFFD for each byte that is none, and all of its bytes in
 * "key_hex" beside it. A key with a quota of its own has "own_quota" and "own_ends_after_ms" besides. */
#include "hosts/server/http/routes.h"

#include "hosts/server/door/key_override.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"

#include <stdlib.h>

enum { COUNT_DEFAULT = 20, ENTRY_ROOM = 256 + SL_OWN_QUOTA_JSON_MAX };

struct asked {
	enum sl_top_kind kind;
	uint32_t count;
};

/* One name=value of the query. Returns NULL, or what would be right. */
static const char *take_pair(struct sluice_bytes name, struct sluice_bytes value, struct asked *asked) {
	uint64_t number;
	if (sl_bytes_equal(name, sl_str("kind")))
		return sl_top_kind_find(value, &asked->kind) ? NULL : "kind must be denied, near, shadow or candidate";
	if (!sl_bytes_equal(name, sl_str("count")))
		return "expected kind=denied|near|shadow|candidate and count=1..100 in the query";
	if (!sl_bytes_to_u64(value, &number) || number < 1 || number > SL_TOP_COUNT_MAX)
		return "count must be a whole number 1..100";
	asked->count = (uint32_t)number;
	return NULL;
}

static const char *read_query(struct sluice_bytes query, struct asked *asked) {
	struct sluice_bytes name, value;
	const char *wrong = sl_http_query_repeats(query) ? SL_HTTP_REPEATED : NULL;
	while (wrong == NULL && sl_http_query_next(&query, &name, &value))
		wrong = take_pair(name, value, asked);
	return wrong;
}

static void put_entry(struct sl_out *out, const struct sl_door_context *context, const struct sl_top_entry *entry) {
	struct sluice_bytes limit = sl_slice(entry->limit, entry->limit_len), key = sl_slice(entry->key, entry->key_len);
	struct sluice_override own;
	sl_json_open(out, NULL, '{');
	sl_json_put_text(out, "limit", limit);
	sl_json_put_bool(out, "named", entry->named);
	sl_json_put_key(out, key);
	sl_json_put_u64(out, "count", entry->count);
	sl_json_put_u64(out, "error", entry->error);
	sl_json_put_u64(out, "last_ms", entry->last / 1000000);
	if (sl_override_of_key(context, entry->named, limit, key, &own))
		sl_json_put_own_quota(out, &own);
	sl_out_char(out, '}');
}

static void reply(struct sl_http_exchange *exchange, enum sl_top_kind kind, const struct sl_top_entry *entries,
                  uint32_t count) {
	struct sl_http_reply reply;
	size_t room = 64;
	for (uint32_t i = 0; i < count; i++)
		room += ENTRY_ROOM + SL_JSON_ROOM(entries[i].limit_len) + SL_JSON_ROOM(entries[i].key_len) +
		        2 * (size_t)entries[i].key_len;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	sl_json_put_word(&reply.w, "kind", sl_top_kind_name(kind));
	sl_json_open(&reply.w, "entries", '[');
	for (uint32_t i = 0; i < count; i++)
		put_entry(&reply.w, exchange->context, &entries[i]);
	sl_out_str(&reply.w, "]}");
	sl_http_reply_end(&reply);
}

void sl_http_route_top(struct sl_http_exchange *exchange) {
	const struct sl_shared *shared = exchange->context->shared;
	struct asked asked = {SL_TOP_DENIED, COUNT_DEFAULT};
	const char *wrong = read_query(exchange->request->query, &asked);
	if (wrong != NULL) {
		sl_http_reply_problem(exchange, 400, sl_str(wrong), NULL);
		return;
	}
	struct sl_top_entry *entries = calloc(asked.count, sizeof *entries);
	if (entries == NULL || shared == NULL) {
		sl_http_reply_problem(exchange, 503, sl_str("nothing is counted here, or there is no memory for the list"),
		                      NULL);
	} else {
		asked.count =
			sl_top_list(shared->tops, shared->top_count, asked.kind, exchange->context->now, entries, asked.count);
		reply(exchange, asked.kind, entries, asked.count);
	}
	free(entries);
}
