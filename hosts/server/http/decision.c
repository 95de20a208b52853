/* Decisions, as HTTP shows them: the RateLimit headers and one JSON object, the same for every route.
 *
 *   allowed  200 application/json          {"allowed":true,"limit":"per-user","quota":600,...,"limits":[{...}]}
 *   denied   429 application/problem+json  {"type":..,"title":..,"status":429,"detail":..,"violated-policies":[..],
 *                                           "allowed":false,...}
 *
 * "limit" is the name of the limit that decided, "" where none did. Waits are in ms, rounded up, -1 for never. */
#include "base/assert.h"
#include "hosts/server/http/door_http.h"

static struct sluice_bytes name_of_decider(const struct sl_http_view *view) {
	int32_t index = view->call->merged.index;
	return index < 0 || (uint32_t)index >= view->count ? sl_str("") : view->limits[index].name;
}

static void put_ms(struct sl_out *out, sluice_ns ns) {
	sl_out_i64(out, sl_ns_to_ms_ceil(ns));
}

static void put_numbers(struct sl_out *out, const struct sluice_decision *decision) {
	sl_out_str(out, ",\"quota\":");
	sl_out_u64(out, decision->quota);
	sl_out_str(out, ",\"remaining\":");
	sl_out_u64(out, decision->remaining);
	sl_out_str(out, ",\"retry_after_ms\":");
	put_ms(out, decision->retry_after_ns);
	sl_out_str(out, ",\"reset_after_ms\":");
	put_ms(out, decision->reset_after_ns);
	sl_out_str(out, ",\"delay_ms\":");
	put_ms(out, decision->delay_ns);
}

static void put_allowed(struct sl_out *out, bool allowed) {
	sl_out_str(out, allowed ? "\"allowed\":true" : "\"allowed\":false");
}

static void put_limit(struct sl_out *out, const struct sl_http_view *view, uint32_t i) {
	sl_out_str(out, i > 0 ? ",{\"limit\":" : "{\"limit\":");
	sl_json_string(out, view->texts[i]);
	sl_out_str(out, ",\"name\":");
	sl_json_string(out, view->limits[i].name);
	sl_out_str(out, ",\"key\":");
	sl_json_string(out, view->keys[i]);
	sl_out_char(out, ',');
	put_allowed(out, view->limits[i].decision->allowed);
	put_numbers(out, view->limits[i].decision);
	sl_out_str(out, view->limits[i].observed ? ",\"observed\":true}" : ",\"observed\":false}");
}

/* The members of the decision, without the braces around them. */
static void put_decision(struct sl_out *out, const struct sl_http_view *view) {
	put_allowed(out, view->call->merged.allowed);
	sl_out_str(out, ",\"limit\":");
	sl_json_string(out, name_of_decider(view));
	put_numbers(out, &view->call->merged);
	sl_out_str(out, ",\"limits\":[");
	for (uint32_t i = 0; i < view->count; i++)
		put_limit(out, view, i);
	sl_out_char(out, ']');
}

/* What a person should know about a denial: which limit, how much is left of it, and how long to wait. */
static void put_detail(struct sl_out *out, const struct sl_http_view *view) {
	const struct sluice_decision *merged = &view->call->merged;
	char memory[SL_HTTP_ERROR_BYTES];
	struct sl_out text = sl_out_to(memory, sizeof memory);
	uint32_t decider = (uint32_t)merged->index;
	SL_ASSERT(decider < view->count);
	sl_out_str(&text, "limit ");
	sl_out_bytes(&text, view->limits[decider].name.data, view->limits[decider].name.len);
	if (!sl_bytes_equal(view->limits[decider].name, view->texts[decider])) {
		sl_out_str(&text, " (");
		sl_out_bytes(&text, view->texts[decider].data, view->texts[decider].len);
		sl_out_str(&text, ")");
	}
	sl_out_str(&text, " has ");
	sl_out_u64(&text, view->limits[decider].decision->remaining);
	sl_out_str(&text, " left, the request costs ");
	sl_out_u64(&text, view->call->cost);
	if (merged->retry_after_ns == SLUICE_NEVER) {
		sl_out_str(&text, ": it can never be admitted, the quota is ");
		sl_out_u64(&text, merged->quota);
	} else {
		sl_out_str(&text, ": retry in ");
		put_ms(&text, merged->retry_after_ns);
		sl_out_str(&text, " ms");
	}
	sl_json_string(out, sl_slice(memory, sl_out_len(&text)));
}

static void put_violated(struct sl_out *out, const struct sl_http_view *view) {
	const char *before = ",\"violated-policies\":[";
	for (uint32_t i = 0; i < view->count; i++)
		if (sl_headers_is_told(&view->limits[i]) && !view->limits[i].decision->allowed) {
			sl_out_str(out, before);
			sl_json_string(out, view->limits[i].name);
			before = ",";
		}
	sl_out_str(out, "],");
}

static void put_problem(struct sl_out *out, const struct sl_http_view *view) {
	sl_out_str(out, "{\"type\":\"");
	sl_out_str(out, sl_http_problem_quota);
	sl_out_str(out, "\",\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":");
	put_detail(out, view);
	put_violated(out, view);
	put_decision(out, view);
	sl_out_char(out, '}');
}

/* Header lines and body together. A name stands in both headers, in the list, among the violated and on top. */
static size_t room_for(const struct sl_http_view *view) {
	size_t room = 512 + SL_JSON_ROOM(SL_HTTP_ERROR_BYTES) + SL_HEADERS_ROOM_FIXED;
	for (uint32_t i = 0; i < view->count; i++)
		room += 384 + SL_HEADERS_ROOM_PER_LIMIT + SLUICE_LIMIT_TEXT_MAX + SL_JSON_ROOM(view->keys[i].len) +
		        (4 + 3 * 6) * view->limits[i].name.len;
	return room;
}

void sl_http_reply_decision(struct sl_http_turn *turn, const struct sl_http_view *view) {
	const struct sluice_decision *merged = &view->call->merged;
	bool denied = !merged->allowed && !view->style.explain;
	unsigned denied_status = view->style.denied != 0 ? view->style.denied : 429;
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, turn, denied ? denied_status : 200,
	                         denied ? "application/problem+json" : "application/json", room_for(view)))
		return;
	if (denied)
		sl_headers_retry_after(&reply.w, merged->retry_after_ns);
	sl_headers_rate_limit(&reply.w, view->limits, view->count, merged->allowed, merged->index);
	sl_http_reply_body(&reply);
	if (denied) {
		put_problem(&reply.w, view);
	} else if (!view->style.empty) {
		sl_out_char(&reply.w, '{');
		put_decision(&reply.w, view);
		sl_out_char(&reply.w, '}');
	}
	sl_http_reply_end(&reply);
}
