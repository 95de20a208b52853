/* GET /v1/limits?after=per-user&count=100: the policy's limits in the order of its file, a page at a time.
 *
 *   {"limits":[{"name":"search","limit":"token-bucket 10/1s burst 50", ..}],"total":5000,"next":"search"}
 *
 * `next` is what `after` has to be for those that follow; where nothing does it is left out. Nobody keeps anything
 * between two pages: after a reload `after` finds its limit by name, wherever that stands now. */
#include "hosts/server/http/routes.h"

#include "algo/terms.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"

enum { COUNT_MAX = 1024 }; /* limits of one page, and what there is where nobody says a count */

struct page {
	uint32_t first, count;
};

static size_t limit_room(const struct sl_policy_limit *limit) {
	const struct sl_policy_reserve *reserve = &limit->reserve;
	size_t more = limit->of != NULL ? SL_JSON_ROOM(strlen(limit->of)) : 0;
	if (limit->canary != NULL)
		more += SL_JSON_ROOM(strlen(limit->canary));
	if (limit->overrides_from != NULL)
		more += SL_JSON_ROOM(strlen(limit->overrides_from));
	if (reserve->actual_header != NULL)
		more += SL_JSON_ROOM(strlen(reserve->actual_header));
	if (limit->cost.header != NULL)
		more += SL_JSON_ROOM(strlen(limit->cost.header));
	if (reserve->estimate_header != NULL)
		more += SL_JSON_ROOM(strlen(reserve->estimate_header));
	return 576 + SLUICE_LIMIT_TEXT_MAX + SL_TERMS_TEXT_MAX + more + SL_JSON_ROOM(strlen(limit->name)) +
	       SL_JSON_ROOM(strlen(limit->key_text)) + strlen(limit->when_text);
}

static void put_text_or_null(struct sl_out *out, const char *name, const char *text) {
	if (text != NULL)
		sl_json_put_text(out, name, sl_str(text));
	else
		sl_json_put_null(out, name);
}

/* {"ttl_ms":60000,"actual":"x-actual-cost","estimate":1,"estimate_header":null}, or null */
static void put_reserve(struct sl_out *out, const struct sl_policy_reserve *reserve) {
	if (!reserve->on) {
		sl_json_put_null(out, "reserve");
		return;
	}
	sl_json_open(out, "reserve", '{');
	sl_json_put_ms(out, "ttl_ms", reserve->ttl_ns);
	put_text_or_null(out, "actual", reserve->actual_header);
	sl_json_put_u64(out, "estimate", reserve->estimate);
	put_text_or_null(out, "estimate_header", reserve->estimate_header);
	sl_out_char(out, '}');
}

/* What is said of a limit besides its notation: null and false where it is not. */
static void put_terms(struct sl_out *out, const struct sl_policy_limit *limit) {
	char penalty[SL_TERMS_TEXT_MAX];
	bool has_penalty = limit->has_terms && limit->terms.penalty_count != 0;
	if (has_penalty)
		sl_penalty_print(&limit->terms, penalty);
	put_text_or_null(out, "of", limit->of);
	put_text_or_null(out, "penalty", has_penalty ? penalty : NULL);
	sl_json_put_bool(out, "count_denied", limit->has_terms && limit->terms.count_denied);
	put_reserve(out, &limit->reserve);
}

/* {"cost":5,"header":"x-cost","routes":2}, or null: 0 is what the request costs, which 1 is where nobody says it. */
static void put_cost(struct sl_out *out, const struct sl_policy_cost *cost) {
	if (!cost->on) {
		sl_json_put_null(out, "cost");
		return;
	}
	sl_json_open(out, "cost", '{');
	sl_json_put_u64(out, "cost", cost->cost);
	put_text_or_null(out, "header", cost->header);
	sl_json_put_u64(out, "routes", cost->route_count);
	sl_out_char(out, '}');
}

static void put_limit(struct sl_out *out, const struct sl_policy_limit *limit) {
	sl_json_open(out, NULL, '{');
	sl_json_put_text(out, "name", sl_str(limit->name));
	sl_json_put_limit(out, "limit", &limit->limit);
	sl_json_put_text(out, "key", sl_str(limit->key_text));
	sl_json_name(out, "when");
	sl_out_str(out, limit->when_text);
	sl_json_put_u64(out, "overrides", limit->override_count);
	put_text_or_null(out, "overrides_from", limit->overrides_from);
	sl_json_put_u64(out, "keys_with_overrides", limit->quota_count);
	sl_json_put_bool(out, "observe", limit->observe);
	put_text_or_null(out, "canary", limit->canary);
	sl_json_put_word(out, "on_error",
	                 limit->on_error == SL_ON_ERROR_DENY    ? "deny"
	                 : limit->on_error == SL_ON_ERROR_LOCAL ? "local"
	                                                        : "allow");
	sl_json_put_bool(out, "strict", limit->strict);
	put_terms(out, limit);
	put_cost(out, &limit->cost);
	sl_out_char(out, '}');
}

/* One name=value of the query. Returns NULL, or what would be right. */
static const char *take_pair(const struct sluice_policy *policy, struct sluice_bytes name, struct sluice_bytes value,
                             struct page *page) {
	char memory[SLUICE_NAME_BYTES_MAX * 3];
	uint64_t number;
	if (sl_bytes_equal(name, sl_str("count"))) {
		if (!sl_bytes_to_u64(value, &number) || number < 1 || number > COUNT_MAX)
			return "count must be a whole number 1..1024";
		page->count = (uint32_t)number;
		return NULL;
	}
	if (!sl_bytes_equal(name, sl_str("after")) || value.len > sizeof memory)
		return "expected after=NAME and count=1..1024 in the query";
	ptrdiff_t len = sl_http_decode(value, true, memory);
	int64_t position = len < 0 ? -1 : sl_policy_limit_find(policy, sl_slice(memory, (size_t)len));
	page->first = (uint32_t)(position + 1);
	return position < 0 ? "after must be the name of a limit" : NULL;
}

void sl_http_route_limits(struct sl_http_exchange *exchange) {
	const struct sluice_policy *policy = exchange->context->policy;
	const uint32_t total = sl_policy_limit_count(policy);
	struct sluice_bytes rest = exchange->request->query, name, value;
	struct page page = {.count = COUNT_MAX};
	struct sl_http_reply reply;
	const char *wrong = sl_http_query_repeats(rest) ? SL_HTTP_REPEATED : NULL;
	while (wrong == NULL && sl_http_query_next(&rest, &name, &value))
		wrong = take_pair(policy, name, value, &page);
	if (wrong != NULL) {
		sl_http_reply_problem(exchange, 400, sl_str(wrong), NULL);
		return;
	}
	const uint32_t end = total - page.first < page.count ? total : page.first + page.count;
	size_t room = 128 + SL_JSON_ROOM(SLUICE_NAME_BYTES_MAX);
	for (uint32_t i = page.first; i < end; i++)
		room += limit_room(sl_policy_limit_at(policy, i));
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"limits\":[");
	for (uint32_t i = page.first; i < end; i++)
		put_limit(&reply.w, sl_policy_limit_at(policy, i));
	sl_out_char(&reply.w, ']');
	sl_json_put_u64(&reply.w, "total", total);
	if (end < total)
		sl_json_put_text(&reply.w, "next", sl_str(sl_policy_limit_at(policy, end - 1)->name));
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}
