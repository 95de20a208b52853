/* Decisions, as HTTP shows them: the RateLimit headers and one JSON object, the same for every route.
 *
 *   allowed  200 application/json          {"allowed":true,"limit":"per-user","quota":600,...,"limits":[{...}]}
 *   denied   429 application/problem+json  {"type":..,"title":..,"status":429,"detail":..,"violated-policies":[..],
 *                                           "allowed":false,...}
 *
 * At the proxies' doors a denial is read by whoever was denied: there it ends after "violated-policies", for the rest
 * tells of limits that have nothing to do with it, what is left of them, keys, and limits that are only tried. A
 * listener may say `details: true`. Or the policy names a body of its own: then it is that one.
 *
 * "limit" is the name of the limit that decided, "" where none did. Waits are in ms, rounded up, -1 for never. An
 * explanation says besides, of each limit, when its next unit frees, what its candidate would have said, and the quota
 * of the key's own, if it has one. */
#include "hosts/server/http/decision.h"

#include "base/assert.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/key_override.h"
#include "hosts/server/http/door_http.h"
#include "hosts/server/http/reply.h"
#include "proto/inspection.h"
#include "proto/json.h"
#include "proto/problem.h"
#include "proto/template.h"

/* Of an answer's head, before its length: with that it fits the page, 4 KiB, that nginx keeps for a head. The longest
 * ticket and all lines but those that tell of limits are shorter. */
enum { PROXY_HEAD_MAX = 4000 };

_Static_assert(SL_ADMISSION_PROXY_TICKET_MAX + SL_HTTP_REPLY_ROOM_HEAD < PROXY_HEAD_MAX, "a ticket fits a head");

void sl_http_view_limit(struct sl_http_view *view, uint32_t i, struct sluice_bytes name) {
	const struct sluice_item *item = &view->call->items[i];
	const struct sluice_decision *decision = &view->call->each[i];
	view->keys[i] = item->key;
	view->limits[i] = (struct sl_headers_limit){
		name,
		sl_admission_limit(sl_door_counts(view->context), item, decision, view->call->now, &view->own[i]),
		decision,
		item->observed != 0,
	};
}

static struct sluice_bytes name_of_decider(const struct sl_http_view *view) {
	int32_t index = view->call->merged.index;
	return index < 0 || (uint32_t)index >= view->count ? sl_str("") : view->limits[index].name;
}

void sl_http_put_bound(struct sl_out *out, const struct sluice_decision *decision) {
	if (decision->bound != SLUICE_BOUND_NONE)
		sl_json_put_word(out, "bound", sluice_bound_name(decision->bound));
}

static void put_ms(struct sl_out *out, sluice_ns ns) {
	sl_out_i64(out, sl_ns_to_ms_ceil(ns));
}

static void put_numbers(struct sl_out *out, const struct sluice_decision *decision) {
	sl_json_put_u64(out, "quota", decision->quota);
	sl_json_put_u64(out, "remaining", decision->remaining);
	sl_json_put_ms(out, "retry_after_ms", decision->retry_after_ns);
	sl_json_put_ms(out, "reset_after_ms", decision->reset_after_ns);
	sl_json_put_ms(out, "delay_ms", decision->delay_ns);
}

/* The candidate of a limit, where it has one: another quota, tried on the same counter. */
static void put_candidate(struct sl_out *out, const struct sl_http_view *view, uint32_t i) {
	for (uint32_t c = view->count; c < view->call->item_count; c++) {
		if (view->candidate_of[c - view->count] != i)
			continue;
		const struct sluice_decision *decision = &view->call->each[c];
		sl_json_open(out, "candidate", '{');
		sl_json_put_limit(out, "limit", view->call->items[c].limit);
		sl_json_put_bool(out, "allowed", decision->allowed);
		sl_json_put_u64(out, "remaining", decision->remaining);
		sl_json_put_ms(out, "retry_after_ms", decision->retry_after_ns);
		sl_out_char(out, '}');
		return;
	}
}

/* How the key stands with the penalties of the limit, where it has any. */
static void put_standing(struct sl_out *out, const struct sl_http_view *view, uint32_t i) {
	const struct sluice_item *item = &view->call->items[i];
	if (view->context->remote != NULL || item->terms == NULL || item->terms->penalty_count == 0)
		return;
	struct sluice_standing standing = sluice_standing(view->context->store, item, view->call->now);
	sl_json_open(out, "penalty", '{');
	sl_json_put_u64(out, "level", standing.level);
	sl_json_put_u64(out, "denials", standing.denials);
	sl_json_put_ms(out, "ends_after_ms", standing.ends_after_ns);
	sl_json_put_ms(out, "forgiven_after_ms", standing.forgiven_after_ns);
	sl_out_char(out, '}');
}

/* The quota of the key's own by which it was decided, where it has one. */
static void put_own(struct sl_out *out, const struct sl_http_view *view, uint32_t i) {
	struct sluice_override own;
	if (sl_override_of_item(view->context, &view->call->items[i], view->call->now, &own))
		sl_json_put_own_quota(out, &own);
}

void sl_http_put_error(struct sl_out *out, const struct sluice_limit *limit) {
	char text[SL_ERROR_TEXT_MAX];
	if (!sl_error_text(limit, text))
		return;
	sl_json_name(out, "error");
	sl_out_str(out, text);
}

static void put_limit(struct sl_out *out, const struct sl_http_view *view, uint32_t i) {
	const struct sl_headers_limit *limit = &view->limits[i];
	sl_json_open(out, NULL, '{');
	sl_json_put_limit(out, "limit", view->style.explain && i < view->count ? view->call->items[i].limit : limit->limit);
	sl_json_put_text(out, "name", limit->name);
	sl_json_put_text(out, "key", view->keys[i]);
	sl_json_put_bool(out, "allowed", limit->decision->allowed);
	put_numbers(out, limit->decision);
	sl_http_put_bound(out, limit->decision);
	if (view->next || view->style.explain)
		sl_json_put_ms(out, "next_after_ms", limit->decision->next_after_ns);
	if (view->style.explain && i < view->count) {
		put_candidate(out, view, i);
		put_standing(out, view, i);
		sl_http_put_error(out, limit->limit);
		put_own(out, view, i);
	}
	sl_json_put_bool(out, "observed", limit->observed);
	sl_out_char(out, '}');
}

/* The members of the decision, without the braces around them. */
static void put_decision(struct sl_out *out, const struct sl_http_view *view) {
	sl_json_put_bool(out, "allowed", view->call->merged.allowed);
	sl_json_put_text(out, "limit", name_of_decider(view));
	put_numbers(out, &view->call->merged);
	sl_http_put_bound(out, &view->call->merged);
	if (view->next)
		sl_json_put_ms(out, "next_after_ms", view->call->merged.next_after_ns);
	if (view->call->upto)
		sl_json_put_u64(out, "granted", view->call->granted);
	if (view->id.len != 0)
		sl_json_put_text(out, "id", view->id);
	if (view->call->repeated)
		sl_json_put_bool(out, "repeated", true);
	if (view->failed_open)
		sl_json_put_bool(out, "failed_open", true);
	sl_json_open(out, "limits", '[');
	for (uint32_t i = 0; i < view->count + view->beyond; i++)
		put_limit(out, view, i);
	sl_out_char(out, ']');
}

static void put_problem(struct sl_out *out, const struct sl_http_view *view, unsigned status, bool details) {
	sl_problem_put_denial(out, status, &(struct sl_problem_denial){view->call, view->limits, view->count});
	if (details)
		put_decision(out, view);
	sl_out_char(out, '}');
}

/* A proxy cannot hold a request for us: it is let through, and told what would have been the rate. */
static void put_delay(struct sl_out *out, sluice_ns delay_ns) {
	if (delay_ns == 0)
		return;
	sl_out_str(out, "Sluice-Delay-Ms: ");
	put_ms(out, delay_ns);
	sl_out_str(out, "\r\n");
}

/* What a proxy keeps to commit the request with. */
static void put_ticket(struct sl_out *out, struct sluice_bytes id) {
	if (id.len == 0)
		return;
	sl_out_str(out, "Sluice-Ticket: ");
	sl_out_bytes(out, id.data, id.len);
	sl_out_str(out, "\r\n");
}

/* Header lines and body together. A name stands in both headers, in the list, among the violated and on top. */
static size_t room_for(const struct sl_http_view *view) {
	size_t room = 512 + SL_JSON_ROOM(SL_HTTP_ERROR_BYTES) + SL_HEADERS_ROOM_FIXED + SL_JSON_ROOM(view->id.len);
	room += (size_t)(view->call->item_count - view->count) * (128 + SLUICE_LIMIT_TEXT_MAX);
	for (uint32_t i = 0; i < view->count + view->beyond; i++)
		room += 576 + SL_OWN_QUOTA_JSON_MAX + SL_HEADERS_ROOM_PER_LIMIT + SLUICE_LIMIT_TEXT_MAX +
		        SL_JSON_ROOM(view->keys[i].len) + (4 + 3 * 6) * view->limits[i].name.len;
	return room + (view->denied != NULL ? SL_TEMPLATE_ROOM(view->denied->body.len) : 0);
}

/* The lines that tell of limits. A proxy's door leaves them out where they would make the head longer than proxies
 * read: nginx would take the whole answer for a failure, and fail open. */
static void put_rate_limit(struct sl_out *out, const struct sl_http_view *view, uint32_t forms,
                           const struct sl_headers_decision *decision) {
	char *before = out->at;
	sl_headers_rate_limit(out, forms, decision);
	if (view->style.empty && sl_out_len(out) > PROXY_HEAD_MAX)
		out->at = before;
}

static void put_headers(struct sl_out *out, const struct sl_http_view *view, uint32_t forms, bool denied) {
	const struct sluice_decision *merged = &view->call->merged;
	const struct sl_headers_decision decision = {
		.limits = view->limits,
		.count = view->count,
		.decided = merged->index,
		.allowed = merged->allowed,
		.now = view->call->now,
	};
	if (denied)
		sl_headers_retry_after(out, merged->retry_after_ns);
	else if (view->style.empty) {
		put_delay(out, merged->delay_ns);
		put_ticket(out, view->id);
	}
	if (view->failed_open && (forms & SL_FORM_FAILED_OPEN) != 0)
		sl_out_str(out, SL_HEADERS_FAILED_OPEN);
	put_rate_limit(out, view, forms, &decision);
}

static void put_denied(struct sl_out *out, const struct sl_http_view *view) {
	const struct sluice_decision *merged = &view->call->merged;
	sl_template_put_denial(out, view->denied, &view->limits[merged->index], merged->retry_after_ns,
	                       view->request_id);
}

static const char *media_of(const struct sl_http_view *view, bool denied) {
	if (!denied)
		return view->style.empty ? NULL : "application/json";
	return view->denied != NULL ? sl_template_media((enum sl_denied_type)view->denied->type)
	                            : sl_problem_media;
}

void sl_http_reply_decision(struct sl_http_exchange *exchange, const struct sl_http_view *view) {
	bool denied = !view->call->merged.allowed && !view->style.explain;
	unsigned status = !denied ? 200 : view->style.denied != 0 ? view->style.denied : 429;
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, status, media_of(view, denied), room_for(view)))
		return;
	put_headers(&reply.w, view, exchange->context->forms, denied);
	sl_http_reply_body(&reply);
	if (denied && view->denied != NULL) {
		put_denied(&reply.w, view);
	} else if (denied) {
		const struct sl_listen *listen = sl_http_listen(exchange);
		put_problem(&reply.w, view, status, !view->style.empty || (listen != NULL && listen->details));
	} else if (!view->style.empty) {
		sl_out_char(&reply.w, '{');
		put_decision(&reply.w, view);
		sl_out_char(&reply.w, '}');
	}
	sl_http_reply_end(&reply);
}
