/* Quotas of keys' own at run time (door/key_override.h).
 *
 *   PUT /v1/overrides/{limit}/{key}      {"limit":"6000/1m","ttl_ms":86400000}, of which ttl_ms may be left out
 *   GET /v1/overrides/{limit}/{key}      both answer {"name","key","limit","ends_after_ms"}; GET 404: there is none
 *   DELETE /v1/overrides/{limit}/{key}   {"deleted":n}
 *   GET /v1/overrides?after=0&count=100  {"overrides":[{"name","key","limit","ends_after_ms"}],"next":7}
 *
 * {limit} and {key} are percent-encoded, each a part of the path: what is "/" in them is "%2F". `next` is what `after`
 * has to be to go on, and left out at the end; a page may be empty where others follow. */
#include "hosts/server/http/routes.h"

#include "hosts/server/door/key_override.h"
#include "hosts/server/http/ask.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/reply.h"

enum { COUNT_MAX = 1024, LIMIT_BYTES_MAX = 256, KEY_BYTES_MAX = SLUICE_MATCH_BYTES_MAX / 3 };

static void put_override(struct sl_out *out, struct sluice_bytes name, struct sluice_bytes key,
                         struct sluice_bytes limit, int64_t ms_left) {
	sl_out_char(out, '{');
	sl_json_put_text(out, "name", name);
	sl_json_put_key(out, key);
	sl_json_put_text(out, "limit", limit);
	sl_json_put_i64(out, "ends_after_ms", ms_left);
	sl_out_char(out, '}');
}

/* A key that is no text has its bytes in hex beside it. */
static size_t room_of(struct sluice_bytes name, struct sluice_bytes key, struct sluice_bytes limit) {
	return 128 + SL_JSON_ROOM(name.len) + SL_JSON_ROOM(key.len) + 2 * key.len + SL_JSON_ROOM(limit.len);
}

static void reply_error(struct sl_http_exchange *exchange, sluice_err err, const struct sluice_error *error) {
	if (err == (sluice_err)SL_E_WAITS)
		exchange->waits = true;
	else if (sl_http_is_unable(err))
		sl_http_reply_unable(exchange, 503, err, NULL, 0);
	else
		sl_http_reply_problem(exchange,
		                      err == SLUICE_E_NONE   ? 404
		                      : err == SLUICE_E_FULL ? 409
		                                             : 400,
		                      sl_str(error->text), NULL);
}

static void reply_override(struct sl_http_exchange *exchange, const struct sl_override_target *target,
                           const struct sluice_override *own) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_bytes limit = sl_slice(text, sluice_limit_print(&own->limit, text));
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room_of(target->name, target->key, limit)))
		return;
	sl_http_reply_body(&reply);
	put_override(&reply.w, target->name, target->key, limit, sl_ns_to_ms_ceil(own->ends_after_ns));
	sl_http_reply_end(&reply);
}

/* ---- one --------------------------------------------------------------------------------------------------------- */

/* The two parts of the path, decoded; the key in the match buffer. */
struct parts {
	char limit_memory[3 * LIMIT_BYTES_MAX];
	struct sluice_bytes limit, key;
};

/* Decodes a part of at most `max` bytes. */
static bool decode(struct sluice_bytes part, size_t max, char *memory, struct sluice_bytes *decoded) {
	if (part.len > 3 * max)
		return false;
	ptrdiff_t len = sl_http_decode(part, false, memory);
	*decoded = sl_slice(memory, len < 0 ? 0 : (size_t)len);
	return len >= 0 && (size_t)len <= max;
}

static bool read_parts(struct sl_http_exchange *exchange, struct parts *parts) {
	static const char prefix[] = "/v1/overrides/";
	struct sluice_bytes path = exchange->request->path;
	const char *at = (const char *)path.data + sizeof prefix - 1, *end = (const char *)path.data + path.len;
	const char *slash = memchr(at, '/', (size_t)(end - at));
	if (slash != NULL && slash != at && memchr(slash + 1, '/', (size_t)(end - slash - 1)) == NULL &&
	    exchange->request->query.len == 0 &&
	    decode(sl_slice(at, (size_t)(slash - at)), LIMIT_BYTES_MAX, parts->limit_memory, &parts->limit) &&
	    decode(sl_slice(slash + 1, (size_t)(end - slash - 1)), KEY_BYTES_MAX, exchange->context->match_buffer,
	           &parts->key))
		return true;
	sl_http_reply_problem(exchange, 400,
	                      sl_str("expected /v1/overrides/{limit}/{key}, each percent-encoded: a limit such as "
	                             "policy:NAME or 100%2F1m, and a key"),
	                      NULL);
	return false;
}

/* What a body says, in its own memory. */
static bool read_body(struct sl_http_ask *ask, struct sluice_bytes body, struct sluice_bytes *notation,
                      uint64_t *ttl_ms) {
	struct sl_ask_members members;
	const json_t *limit, *ttl;
	char why[SL_JSON_ERROR_BYTES];
	ask->root = sl_json_read(body, why);
	if (ask->root == NULL)
		return sl_ask_fail(ask, why);
	if (!sl_ask_sort(ask, "", ask->root, SL_ASK_LIMIT | SL_ASK_TTL, &members))
		return false;
	limit = sl_ask_member(&members, SL_ASK_LIMIT);
	ttl = sl_ask_member(&members, SL_ASK_TTL);
	if (limit == NULL)
		return sl_ask_fail(ask, "limit is missing: expected the key's quota, such as \"6000/1m\"");
	if (!json_is_string(limit))
		return sl_ask_fail_type(ask, "limit", "a quota such as \"6000/1m\"", limit);
	*notation = sl_json_bytes(limit);
	*ttl_ms = 0;
	return ttl == NULL || sl_ask_number(ask, &sl_fields[SL_FIELD_TTL], ttl, ttl_ms);
}

static struct sl_override_changer changer_of(const struct sl_http_exchange *exchange) {
	return (struct sl_override_changer){SL_TRANSPORT_HTTP, exchange->login.user};
}

static void put(struct sl_http_exchange *exchange, const struct sl_override_target *target) {
	struct sl_http_ask ask;
	struct sluice_bytes notation;
	struct sluice_override own;
	struct sluice_error error;
	uint64_t ttl_ms;
	sl_http_ask_begin(&ask, exchange);
	if (!read_body(&ask, exchange->request->body, &notation, &ttl_ms)) {
		sl_http_reply_malformed(exchange, &ask);
	} else {
		sluice_err err =
			sl_override_set(exchange->context, target, notation, ttl_ms, changer_of(exchange), &own, &error);
		if (err == SLUICE_OK)
			reply_override(exchange, target, &own);
		else
			reply_error(exchange, err, &error);
	}
	sl_http_ask_free(&ask);
}

static void get(struct sl_http_exchange *exchange, const struct sl_override_target *target) {
	struct sluice_override own;
	struct sluice_error error = {.text = "the key has no quota of its own"};
	sluice_err err = sl_override_get(exchange->context, target, &own, &error);
	if (err == SLUICE_OK)
		reply_override(exchange, target, &own);
	else
		reply_error(exchange, err, &error);
}

static void forget(struct sl_http_exchange *exchange, const struct sl_override_target *target) {
	struct sluice_error error;
	struct sl_http_reply reply;
	uint32_t gone;
	sluice_err err = sl_override_delete(exchange->context, target, changer_of(exchange), &gone, &error);
	if (err != SLUICE_OK) {
		reply_error(exchange, err, &error);
		return;
	}
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", 32))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	sl_json_put_u64(&reply.w, "deleted", gone);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

void sl_http_route_override(struct sl_http_exchange *exchange) {
	struct sl_override_target target;
	struct sluice_error error;
	struct parts parts;
	if (!read_parts(exchange, &parts))
		return;
	sluice_err err = sl_override_find(exchange->context, parts.limit, parts.key, &target, &error);
	if (err != SLUICE_OK)
		reply_error(exchange, err, &error);
	else if (exchange->request->method == SL_HTTP_PUT)
		put(exchange, &target);
	else if (exchange->request->method == SL_HTTP_DELETE)
		forget(exchange, &target);
	else
		get(exchange, &target);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

struct page {
	uint64_t after, count;
};

/* One name=value of the query. Returns NULL, or what would be right. */
static const char *take_pair(struct sluice_bytes name, struct sluice_bytes value, struct page *page) {
	if (sl_bytes_equal(name, sl_str("count")))
		return sl_bytes_to_u64(value, &page->count) && page->count >= 1 && page->count <= COUNT_MAX
		           ? NULL
		           : "count must be a whole number 1..1024";
	if (!sl_bytes_equal(name, sl_str("after")))
		return "expected after=NEXT and count=1..1024 in the query";
	return sl_bytes_to_u64(value, &page->after) ? NULL : "after must be what next was in the page before";
}

static void reply_list(struct sl_http_exchange *exchange, const struct sl_override_list *list) {
	struct sl_http_reply reply;
	size_t room = 64;
	for (size_t i = 0; i < list->count; i++)
		room += room_of(list->list[i].name, list->list[i].key, list->list[i].limit);
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"overrides\":[");
	for (size_t i = 0; i < list->count; i++) {
		sl_json_element(&reply.w);
		put_override(&reply.w, list->list[i].name, list->list[i].key, list->list[i].limit, list->list[i].ms_left);
	}
	sl_out_char(&reply.w, ']');
	if (list->next != 0)
		sl_json_put_u64(&reply.w, "next", list->next);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

void sl_http_route_overrides(struct sl_http_exchange *exchange) {
	struct sluice_bytes rest = exchange->request->query, name, value;
	struct page page = {.count = SL_OVERRIDES_LISTED};
	struct sl_override_list list;
	struct sluice_error error;
	const char *wrong = sl_http_query_repeats(rest) ? SL_HTTP_REPEATED : NULL;
	while (wrong == NULL && sl_http_query_next(&rest, &name, &value))
		wrong = take_pair(name, value, &page);
	if (wrong != NULL) {
		sl_http_reply_problem(exchange, 400, sl_str(wrong), NULL);
		return;
	}
	sluice_err err = sl_override_list_read(exchange->context, page.after, (uint32_t)page.count, &list, &error);
	if (err != SLUICE_OK)
		reply_error(exchange, err, &error);
	else if (list.failed)
		sl_http_reply_problem(exchange, 503, sl_str("there is no memory for the list"), NULL);
	else
		reply_list(exchange, &list);
	sl_override_list_free(&list);
}
