/* Problems as draft-ietf-httpapi-ratelimit-headers-10 has them:
 *
 *   {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,
 *    "detail":"limit login (sliding-log 5/1m) has 0 left, the request costs 1: retry in 41200 ms",
 *    "violated-policies":["login"]} */
#include "proto/problem.h"

#include "algo/traits.h"
#include "base/assert.h"
#include "proto/http.h"
#include "proto/json_put.h"

const char sl_problem_media[] = "application/problem+json";
const char sl_problem_quota[] = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const char sl_problem_reduced[] = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

void sl_problem_members(struct sl_out *out, unsigned status, const char *type, const char *title,
                        struct sluice_bytes detail) {
	sl_out_char(out, '{');
	sl_json_put_word(out, "type", type != NULL ? type : "about:blank");
	sl_json_put_word(out, "title", title != NULL ? title : sl_http_reason(status));
	sl_json_put_u64(out, "status", status);
	sl_json_put_text(out, "detail", detail);
}

/* What a limit was asked for. */
static uint32_t cost_of(const struct sl_problem_denial *denial, uint32_t i) {
	const struct sluice_item *item = &denial->call->items[i];
	return item->cost != 0 ? item->cost : sl_rule_has(item->limit, SL_TAKES_MEMBER) ? 1 : denial->call->cost;
}

/* Whether a bound has denied. A key that is kept as its hash denies nobody, though it is told: it is the reason only
 * for a denial that no quota explains. */
static bool is_by_bound(const struct sl_problem_denial *denial, uint64_t takes) {
	const struct sluice_decision *merged = &denial->call->merged;
	if (merged->bound == SLUICE_BOUND_KEY)
		return merged->retry_after_ns == SLUICE_NEVER && takes <= merged->quota;
	return merged->bound != SLUICE_BOUND_NONE;
}

void sl_problem_detail(struct sl_out *out, const struct sl_problem_denial *denial) {
	const struct sluice_decision *merged = &denial->call->merged;
	uint32_t decider = (uint32_t)merged->index;
	SL_ASSERT(decider < denial->count);
	const uint32_t takes = denial->call->upto ? 1 : cost_of(denial, decider);
	const bool by_bound = is_by_bound(denial, takes);
	char notation[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_bytes name = denial->limits[decider].name;
	struct sluice_bytes limit = sl_slice(notation, sluice_limit_print(denial->limits[decider].limit, notation));
	sl_out_str(out, "limit ");
	sl_out_bytes(out, name.data, name.len);
	if (!sl_bytes_equal(name, limit)) {
		sl_out_str(out, " (");
		sl_out_bytes(out, limit.data, limit.len);
		sl_out_str(out, ")");
	}
	if (by_bound) {
		sl_out_str(out, " can't be kept for the request (bound: ");
		sl_out_str(out, sluice_bound_name((sluice_bound)merged->bound));
		sl_out_char(out, ')');
	} else {
		sl_out_str(out, " has ");
		sl_out_u64(out, denial->limits[decider].decision->remaining);
		sl_out_str(out, denial->call->upto ? " left, the request takes at least " : " left, the request costs ");
		sl_out_u64(out, takes);
	}
	if (merged->retry_after_ns == SLUICE_NEVER && by_bound) {
		sl_out_str(out, ": it can never be admitted");
	} else if (merged->retry_after_ns == SLUICE_NEVER) {
		sl_out_str(out, ": it can never be admitted, the quota is ");
		sl_out_u64(out, merged->quota);
	} else {
		sl_out_str(out, ": retry in ");
		sl_out_i64(out, sl_ns_to_ms_ceil(merged->retry_after_ns));
		sl_out_str(out, " ms");
	}
}

static void open_violated(struct sl_out *out) {
	sl_json_open(out, "violated-policies", '[');
}

static void put_violated(struct sl_out *out, struct sluice_bytes name) {
	sl_json_element(out);
	sl_json_string(out, name);
}

void sl_problem_put_denial(struct sl_out *out, unsigned status, const struct sl_problem_denial *denial) {
	char memory[SL_PROBLEM_DETAIL_MAX];
	struct sl_out detail = sl_out_to(memory, sizeof memory);
	sl_problem_detail(&detail, denial);
	sl_problem_members(out, status, sl_problem_quota, "Quota Exceeded", sl_slice(memory, sl_out_len(&detail)));
	open_violated(out);
	for (uint32_t i = 0; i < denial->count; i++)
		if (sl_headers_is_told(&denial->limits[i]) && !denial->limits[i].decision->allowed)
			put_violated(out, denial->limits[i].name);
	sl_out_char(out, ']');
}

void sl_problem_put_unable(struct sl_out *out, unsigned status, bool held_up, const struct sluice_bytes *names,
                           uint32_t count) {
	sl_problem_members(out, status, sl_problem_reduced, held_up ? "Store held up" : "Store away",
	                   sl_str(held_up ? SL_HELD_UP_TEXT ": the request was not decided"
	                                  : "the store did not answer in time: the request was not decided"));
	open_violated(out);
	for (uint32_t i = 0; i < count; i++)
		put_violated(out, names[i]);
	sl_out_str(out, "]}");
}
