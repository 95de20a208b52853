/* What counters hold, as HTTP tells it (proto/inspection.h): GET /v1/inspect?name=value.. by a request's attributes, as
 * the policy finds its limits for them; POST /v1/inspect {"key","limits"} by key and limits. Which is read in admit.c.
 *
 *   {"limits":[{"limit","key","allowed",.. "returns":[[after_ms,remaining]], "charges":[[from_ms,until_ms,cost]],
 *    "name"}]}
 *
 * Both have "bound" and "error" where there is one. By attributes each limit says why it applies (policy/explain.h),
 * and those that don't say why not:
 *
 *   {"limits":[{.., "cost","observed","name","why"}], "others":[{"limit","name","why"}]} */
#include "hosts/server/http/routes.h"

#include "hosts/server/door/inspected.h"
#include "hosts/server/http/decide.h"
#include "hosts/server/http/decision.h"
#include "hosts/server/http/reply.h"
#include "policy/explain.h"
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

/* What fronts hold, where the counters are in Redis. */
static void put_held(struct sl_out *out, const struct sl_held_there *held) {
	sl_json_put_u64(out, "held", held->cost);
	sl_json_open(out, "slices", '[');
	for (uint32_t i = 0; i < held->slice_count; i++) {
		sl_out_str(out, i != 0 ? ",[" : "[");
		sl_out_i64(out, held->slices[i].ends_ms);
		sl_out_char(out, ',');
		sl_out_u64(out, held->slices[i].cost);
		sl_out_char(out, ']');
	}
	sl_out_char(out, ']');
	sl_json_put_u64(out, "slice_left", held->left_here);
	sl_json_put_u64(out, "slice_spent", held->spent_here);
}

static void put_inspected(struct sl_out *out, const struct sluice_item *item, const struct sl_inspected *inspected,
                          uint32_t at, bool remote) {
	const struct sluice_inspection *told = &inspected->list[at];
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	sl_inspection_numbers(told, numbers);
	sl_json_open(out, NULL, '{');
	sl_json_put_limit(out, "limit", item->limit);
	sl_json_put_text(out, "key", item->key);
	sl_json_put_bool(out, numbers[0].name, numbers[0].value != 0);
	for (int i = 1; i < SL_INSPECTION_NUMBERS; i++)
		sl_json_put_i64(out, numbers[i].name, numbers[i].value);
	put_lists(out, told);
	if (told->overridden)
		sl_json_put_own_quota(out, &told->own);
	sl_http_put_bound(out, &told->decision);
	sl_http_put_error(out, item->limit);
	if (remote)
		put_held(out, &inspected->held[at]);
}

/* Looks; false where it waits, or was answered that nothing can be told. */
static bool look(struct sl_http_exchange *exchange, const struct sluice_item *items, const uint32_t *positions,
                 uint32_t count, sluice_ns now, struct sl_inspected *told) {
	if (!sl_inspected_look(exchange->context, items, positions, count, now, told)) {
		exchange->waits = true;
		return false;
	}
	if (told->failed == NULL)
		return true;
	if (sl_http_is_unable(told->err))
		sl_http_reply_failed(exchange, told->err);
	else
		sl_http_reply_problem(exchange, 400, sl_str(told->failed), NULL);
	return false;
}

static size_t room_of(const struct sluice_item *items, uint32_t count) {
	size_t room = 64;
	for (uint32_t i = 0; i < count; i++)
		room += SL_INSPECTION_JSON_MAX + SL_HELD_JSON_MAX + SL_JSON_ROOM(items[i].key.len) +
		        SL_JSON_ROOM(SLUICE_NAME_BYTES_MAX) + sizeof ",\"undecided\":1024";
	return room;
}

/* Of a limit of the policy, besides, which override applies to the key, or may. */
static void put_named(struct sl_out *out, const struct sluice_policy *policy, uint32_t position,
                      struct sluice_bytes key) {
	const struct sl_policy_keyed keyed = sl_policy_limit_of_key(policy, position, key);
	sl_json_put_text(out, "name", sl_str(sluice_policy_limit_name(policy, position)));
	if (keyed.override != 0)
		sl_json_put_u64(out, "override", keyed.override);
	if (keyed.undecided != 0)
		sl_json_put_u64(out, "undecided", keyed.undecided);
}

void sl_http_reply_inspection(struct sl_http_exchange *exchange, const struct sluice_item *items, uint32_t count,
                              const uint32_t *positions, sluice_ns now) {
	const struct sluice_policy *policy = exchange->context->policy;
	struct sl_inspected told;
	struct sl_http_reply reply;
	if (!look(exchange, items, positions, count, now, &told) ||
	    !sl_http_reply_begin(&reply, exchange, 200, "application/json", room_of(items, count)))
		return;
	sl_http_reply_body(&reply);
	sl_out_str(&reply.w, "{\"limits\":[");
	for (uint32_t i = 0; i < count; i++) {
		put_inspected(&reply.w, &items[i], &told, i, exchange->context->remote != NULL);
		if (positions[i] != SL_POSITION_NOTATION)
			put_named(&reply.w, policy, positions[i], items[i].key);
		sl_out_char(&reply.w, '}');
	}
	sl_out_str(&reply.w, "]}");
	sl_http_reply_end(&reply);
}

/* ---- by attributes, with reasons ------------------------------------------------------------------------------- */

/* An answer while it is measured, and then written. */
struct telling {
	const struct sluice_policy *policy;
	const struct sluice_item *items;
	const struct sl_inspected *told;
	struct sl_out *out;
	size_t room;
	bool remote; /* the counters are in Redis */
	bool others; /* those that don't count; else those that do */
};

static void measure(void *to, const struct sl_policy_told *told) {
	struct telling *telling = to;
	char why[SL_WHY_BYTES_MAX];
	telling->room +=
		128 + SLUICE_LIMIT_TEXT_MAX + SL_JSON_ROOM(SLUICE_NAME_BYTES_MAX) + SL_JSON_ROOM(sl_policy_why(told, why).len);
}

static void put_told(void *to, const struct sl_policy_told *told) {
	const struct telling *telling = to;
	char why[SL_WHY_BYTES_MAX];
	if ((told->item < 0) != telling->others)
		return;
	if (told->item >= 0) {
		const struct sluice_item *item = &telling->items[told->item];
		put_inspected(telling->out, item, telling->told, (uint32_t)told->item, telling->remote);
		sl_json_put_u64(telling->out, "cost", item->cost);
		sl_json_put_bool(telling->out, "observed", item->observed != 0);
	} else {
		sl_json_open(telling->out, NULL, '{');
		sl_json_put_limit(telling->out, "limit", &sl_policy_limit_at(telling->policy, told->position)->limit);
	}
	sl_json_put_text(telling->out, "name", sl_str(sluice_policy_limit_name(telling->policy, told->position)));
	sl_json_put_text(telling->out, "why", sl_policy_why(told, why));
	sl_out_char(telling->out, '}');
}

void sl_http_reply_why(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                       const struct sluice_match *match, const struct sluice_item *items) {
	const struct sluice_policy *policy = exchange->context->policy;
	struct sl_inspected told;
	struct sl_http_reply reply;
	struct telling telling = {
		.policy = policy, .items = items, .told = &told, .out = &reply.w, .remote = exchange->context->remote != NULL};
	if (!look(exchange, items, match->position, match->count, ask->call.now, &told))
		return;
	telling.room = room_of(items, match->count);
	sl_policy_explain(policy, ask->attributes, ask->attribute_count, ask->member, match, measure, &telling);
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", telling.room))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	for (int others = 0; others < 2; others++) {
		telling.others = others != 0;
		sl_json_open(&reply.w, telling.others ? "others" : "limits", '[');
		sl_policy_explain(policy, ask->attributes, ask->attribute_count, ask->member, match, put_told, &telling);
		sl_out_char(&reply.w, ']');
	}
	if (sl_policy_told_count(policy) != sl_policy_limit_count(policy))
		sl_json_put_u64(&reply.w, "left_out", sl_policy_limit_count(policy) - sl_policy_told_count(policy));
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}
