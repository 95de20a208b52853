/* What RateLimitService answers: the statuses of the descriptors, and what Envoy adds to the response of whom it asks
 * for.
 *
 * A status is what a descriptor's own limits say: over its limit are those that deny, whatever became of the others.
 * Its current_limit is the limit that decided, as merging has it; `unit` is given where its window is one of Envoy's
 * units, else it is unknown, and only the headers have it exactly. duration_until_reset is the wait until a denied
 * request may be tried again, or until one more is free, in whole seconds.
 *
 * Headers are those of all doors, in the forms of the listener: Envoy adds them to responses whether they are allowed
 * or not. A denial has the body that the policy names. What was granted for a while (leases, reservations) goes
 * upstream as Sluice-Ticket, as at the proxies' doors. */
#include "hosts/server/envoy/rate_limit.h"

#include "algo/merge.h"
#include "algo/traits.h"
#include "base/assert.h"
#include "proto/headers.h"
#include "proto/template.h"

enum {
	SHOWN_MAX = SL_RLS_GROUPS * SLUICE_ITEMS_MAX,
	NAME_TOLD_MAX = 512,
	WINDOWS_MAX = 10000, /* a bucket that takes longer to fill than any unit is has none; and nothing overflows */
};

/* All that was decided of a request, in one list. */
struct shown {
	uint32_t count;
	struct sl_headers_limit limits[SHOWN_MAX];
	struct sluice_limit own[SHOWN_MAX]; /* of those that are decided by their keys' own quotas */
	const struct sluice_item *items[SHOWN_MAX];
	uint32_t positions[SHOWN_MAX];
	uint16_t owner[SHOWN_MAX];
	struct sluice_decision merged; /* index is one of the list */
	bool unable, passes;
	sluice_ns now;
};

/* ---- what was decided -------------------------------------------------------------------------------------------- */

static bool is_decided(const struct sl_rls_group *group, uint32_t i) {
	return group->call.err == SLUICE_OK && (group->undecided.items >> i & 1) == 0;
}

static struct sluice_bytes name_of(const struct sluice_policy *policy, struct sl_rls_group *group, uint32_t i) {
	if (group->match.position[i] != SL_POSITION_NOTATION)
		return sl_str(sluice_policy_limit_name(policy, group->match.position[i]));
	ptrdiff_t at = group->items[i].limit - group->overrides;
	SL_ASSERT(at >= 0 && at <= SLUICE_ITEMS_MAX);
	return sl_slice(group->override_names[at], sluice_limit_print(group->items[i].limit, group->override_names[at]));
}

/* Does some quota of a group admit, so that those that don't are observed? */
static bool quota_admits(const struct sl_rls_group *group) {
	bool admits = false;
	for (uint32_t i = 0; i < group->match.count; i++)
		admits = admits || (group->items[i].quota != 0 && is_decided(group, i) && group->each[i].allowed);
	return admits;
}

/* The quota of a group that its answer goes by where all deny; NULL: there is none, or one admits. */
static const struct sluice_decision *denying_quota(const struct sl_rls_group *group) {
	const struct sluice_decision *first = NULL;
	for (uint32_t i = 0; i < group->match.count; i++)
		if (group->items[i].quota != 0 && group->items[i].observed == 0 && is_decided(group, i) &&
		    sl_merge_quota_is_first(&group->each[i], first))
			first = &group->each[i];
	return first;
}

static bool takes_part(const struct sl_headers_limit *limit) {
	return !limit->observed && sl_rule_has(limit->limit, SL_HAS_COUNTER);
}

static void add_group(struct shown *shown, const struct sl_door_context *context, struct sl_rls_group *group) {
	const bool admits = quota_admits(group);
	const struct sluice_decision *denying = admits ? NULL : denying_quota(group);
	for (uint32_t i = 0; i < group->match.count; i++) {
		if (!is_decided(group, i))
			continue;
		uint32_t at = shown->count++;
		shown->limits[at] = (struct sl_headers_limit){
			name_of(context->policy, group, i),
			sl_admission_limit(sl_door_counts(context), &group->items[i], &group->each[i], group->call.now,
		                       &shown->own[at]),
			&group->each[i],
			group->items[i].observed != 0 || (group->items[i].quota != 0 && admits && !group->each[i].allowed)};
		shown->items[at] = &group->items[i];
		shown->positions[at] = group->match.position[i];
		shown->owner[at] = group->owner[i];
		if (takes_part(&shown->limits[at]) &&
		    (admits || group->items[i].quota == 0 || denying == &group->each[i]))
			sl_merge_add(&shown->merged, &group->each[i], (int32_t)at);
	}
	shown->unable = shown->unable || group->unable != 0;
	shown->passes = shown->passes || group->passes;
}

/* What was given back is told, but takes no part in the answer. What nobody could decide may be tried again soon: but
 * not before a limit that denied admits it. */
static void collect(struct shown *shown, const struct sl_door_context *context, struct sl_rls_worker *worker) {
	shown->count = 0;
	shown->merged = sl_merge_nothing();
	shown->unable = shown->passes = false;
	shown->now = 0;
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++) {
		struct sluice_decision before = shown->merged;
		if (worker->groups[kind].used)
			shown->now = worker->groups[kind].call.now;
		add_group(shown, context, &worker->groups[kind]);
		if (kind == SL_RLS_REFUNDED)
			shown->merged = before;
	}
	if (!shown->unable)
		return;
	shown->merged.allowed = false;
	shown->merged.retry_after_ns = sl_max(shown->merged.retry_after_ns, SL_UNABLE_RETRY_NS);
}

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

/* The unit of the window in which a limit's whole quota, as decisions have it, is won back: of a bucket the time that
 * it takes to fill, which may be several windows. */
static enum sl_rls_unit unit_of(const struct sluice_limit *limit, uint64_t quota) {
	static const enum sl_rls_unit units[] = {
		[SLUICE_CALENDAR_NONE] = SL_RLS_UNKNOWN, [SLUICE_CALENDAR_HOUR] = SL_RLS_HOUR,
		[SLUICE_CALENDAR_DAY] = SL_RLS_DAY,      [SLUICE_CALENDAR_WEEK] = SL_RLS_WEEK,
		[SLUICE_CALENDAR_MONTH] = SL_RLS_MONTH,  [SLUICE_CALENDAR_YEAR] = SL_RLS_YEAR,
	};
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return limit->calendar < sizeof units / sizeof units[0] ? units[limit->calendar] : SL_RLS_UNKNOWN;
	uint64_t windows = limit->quota == 0 ? 1 : quota / limit->quota;
	if (sl_rule_has(limit, SL_TAKES_LEASE) || windows * limit->quota != quota || windows > WINDOWS_MAX)
		return SL_RLS_UNKNOWN;
	return sl_rls_unit_of(windows * limit->window_ns);
}

void sl_rls_status_name(struct sl_rls_status *status, const struct sl_headers_limit *limit) {
	uint64_t quota = limit->decision->quota;
	status->has_limit = true;
	status->name = limit->name;
	status->requests = quota < UINT32_MAX ? (uint32_t)quota : UINT32_MAX;
	status->unit = unit_of(limit->limit, quota);
}

/* A file may make a name as long as itself: so much of it is told that all statuses of a request fit its answer. */
static struct sluice_bytes name_told(struct sluice_bytes name) {
	const char *p = name.data;
	if (name.len <= NAME_TOLD_MAX)
		return name;
	size_t len = NAME_TOLD_MAX;
	while (len != 0 && (p[len] & 0xc0) == 0x80)
		len--;
	return sl_slice(p, len);
}

void sl_rls_status_name_rule(struct sl_rls_status *status, const struct sl_envoy_rule *rule) {
	status->name = name_told(rule->name);
	if (rule->own)
		return;
	status->requests = rule->requests;
	status->unit = (enum sl_rls_unit)rule->unit;
}

uint64_t sl_rls_reset_s(sluice_ns wait, sluice_ns now, const struct sl_envoy_rule *rule) {
	if (rule != NULL && !rule->own && rule->fixed) {
		sluice_ns window = rule->shown.limit.window_ns;
		wait = window - now % window;
	}
	return wait == SLUICE_NEVER ? 0 : (uint64_t)sl_ns_to_s_ceil(wait);
}

static void fill_status(struct sl_rls_status *status, const struct shown *shown, const struct sluice_decision *merged) {
	const struct sl_headers_limit *limit = &shown->limits[merged->index];
	sluice_ns wait = merged->allowed ? limit->decision->next_after_ns : merged->retry_after_ns;
	status->code = merged->allowed ? SL_RLS_OK : SL_RLS_OVER_LIMIT;
	sl_rls_status_name(status, limit);
	status->remaining = merged->remaining;
	status->reset_s = sl_rls_reset_s(wait, shown->now, NULL);
}

/* A rule of envoyproxy/ratelimit's files says what it is as its file does. Who is over has nothing left. */
static void fill_rule(struct sl_rls_status *status, const struct shown *shown, const struct sl_envoy_rule *rule) {
	sl_rls_status_name_rule(status, rule);
	if (rule->own || !rule->fixed)
		return;
	status->reset_s = sl_rls_reset_s(0, shown->now, rule);
	if (status->code == SL_RLS_OVER_LIMIT)
		status->remaining = 0;
}

/* One that decided nothing, being a shadow or a quota where another one admits, is told where nothing else is. */
static void fill_observed(struct sl_rls_status *status, const struct shown *shown, uint32_t i,
                          const struct sl_envoy_rule *rule) {
	struct sluice_decision alone = *shown->limits[i].decision;
	alone.index = (int32_t)i;
	fill_status(status, shown, &alone);
	fill_rule(status, shown, rule);
	status->code = SL_RLS_OK;
	status->no_reset = rule->quota && !rule->shadow;
	if (!alone.allowed)
		status->remaining = 0;
}

/* What descriptors have found in envoyproxy/ratelimit's files. */
static void fill_rules(struct sl_rls_worker *worker, const struct sluice_policy *policy, const struct shown *shown,
                       const struct sluice_decision *merged) {
	for (uint32_t d = 0; d < worker->request.descriptor_count; d++)
		worker->statuses[d].unlimited = worker->found[d].rule != NULL && worker->found[d].rule->unlimited;
	for (uint32_t i = 0; i < shown->count; i++) {
		const struct sl_envoy_rule *rule = sl_policy_envoy_rule(policy, shown->positions[i]);
		struct sl_rls_status *status = &worker->statuses[shown->owner[i]];
		int32_t decided = merged[shown->owner[i]].index;
		if (rule != NULL && decided == (int32_t)i)
			fill_rule(status, shown, rule);
		else if (rule != NULL && decided < 0)
			fill_observed(status, shown, i, rule);
	}
}

/* Limits that nobody could decide, and that say on-error: deny. */
static void mark_unable(struct sl_rls_worker *worker, const struct sl_rls_group *group) {
	for (uint32_t i = 0; i < group->match.count; i++)
		if ((group->unable >> i & 1) != 0)
			worker->statuses[group->owner[i]].code = SL_RLS_OVER_LIMIT;
}

static void fill_statuses(struct sl_rls_worker *worker, const struct sluice_policy *policy, const struct shown *shown) {
	struct sluice_decision merged[SL_RLS_DESCRIPTORS_MAX];
	for (uint32_t d = 0; d < worker->request.descriptor_count; d++) {
		worker->statuses[d] = (struct sl_rls_status){.code = SL_RLS_OK};
		merged[d] = sl_merge_nothing();
	}
	for (uint32_t i = 0; i < shown->count; i++)
		if (takes_part(&shown->limits[i]))
			sl_merge_add(&merged[shown->owner[i]], shown->limits[i].decision, (int32_t)i);
	for (uint32_t d = 0; d < worker->request.descriptor_count; d++) {
		if (worker->request.descriptors[d].negative)
			merged[d].allowed = true;
		if (merged[d].index >= 0)
			fill_status(&worker->statuses[d], shown, &merged[d]);
	}
	if (worker->has_rules)
		fill_rules(worker, policy, shown, merged);
	for (uint32_t kind = 0; kind < SL_RLS_REFUNDED; kind++)
		mark_unable(worker, &worker->groups[kind]);
}

/* ---- headers, body, metadata ------------------------------------------------------------------------------------- */

/* Header lines, each "Name: value" with CR LF, as the message has them. */
static uint32_t split_lines(const char *at, const char *end, struct sl_rls_header *headers, uint32_t count) {
	while (at < end && count < SL_RLS_HEADERS_MAX) {
		const char *colon = memchr(at, ':', (size_t)(end - at));
		const char *stop = memchr(at, '\r', (size_t)(end - at));
		SL_ASSERT(colon != NULL && stop != NULL && colon < stop);
		headers[count++] =
			(struct sl_rls_header){sl_slice(at, (size_t)(colon - at)), sl_slice(colon + 2, (size_t)(stop - colon) - 2)};
		at = stop + 2;
	}
	return count;
}

static void put_headers(struct sl_out *out, const struct shown *shown, uint32_t forms) {
	const struct sl_headers_decision decision = {
		.limits = shown->limits,
		.count = shown->count,
		.decided = shown->merged.index,
		.allowed = shown->merged.allowed,
		.now = shown->now,
	};
	if (!shown->merged.allowed)
		sl_headers_retry_after(out, shown->merged.retry_after_ns);
	if (shown->passes && (forms & SL_FORM_FAILED_OPEN) != 0)
		sl_out_str(out, "Sluice-Failed-Open: 1\r\n");
	sl_headers_rate_limit(out, forms, &decision);
}

/* The policy's own body of a denial; empty where it names none. */
static struct sluice_bytes put_body(struct sl_out *out, const struct sluice_policy *policy, const struct shown *shown,
                                    const char **media) {
	int32_t index = shown->merged.index;
	if (shown->merged.allowed || shown->unable || index < 0 || shown->positions[index] == SL_POSITION_NOTATION)
		return sl_slice(NULL, 0);
	const struct sl_policy_denied *denied = sl_policy_denied_by(policy, shown->positions[index]);
	if (denied == NULL)
		return sl_slice(NULL, 0);
	const struct sluice_decision *decision = shown->limits[index].decision;
	const struct sl_template_values values = {
		.limit = shown->limits[index].name,
		.request_id = sl_slice(NULL, 0),
		.quota = decision->quota,
		.remaining = decision->remaining,
		.retry_after_ns = shown->merged.retry_after_ns,
		.reset_after_ns = decision->reset_after_ns,
	};
	char *start = out->at;
	sl_template_put(out, denied->body, (enum sl_denied_type)denied->type, &values);
	*media = sl_template_media((enum sl_denied_type)denied->type);
	return sl_slice(start, (size_t)(out->at - start));
}

static void put_field(struct sl_rls_response *response, struct sl_rls_worker *worker, struct sl_rls_field field) {
	SL_ASSERT(response->metadata_count < SL_RLS_FIELDS_MAX);
	worker->fields[response->metadata_count++] = field;
	response->metadata = worker->fields;
}

static void put_text(struct sl_rls_response *response, struct sl_rls_worker *worker, const char *name,
                     struct sluice_bytes text) {
	put_field(response, worker, (struct sl_rls_field){.name = sl_str(name), .text = text});
}

static void put_ms(struct sl_rls_response *response, struct sl_rls_worker *worker, const char *name, sluice_ns ns) {
	put_field(response, worker,
	          (struct sl_rls_field){.name = sl_str(name), .is_number = true, .number = sl_ns_to_ms_ceil(ns)});
}

/* For whoever looks into Envoy's log: which limit decided, and what it said. */
static void put_metadata(struct sl_rls_response *response, struct sl_rls_worker *worker, const struct shown *shown) {
	const struct sluice_decision *merged = &shown->merged;
	if (merged->index < 0)
		return;
	put_text(response, worker, "limit", shown->limits[merged->index].name);
	if (!merged->allowed)
		put_ms(response, worker, "retry_after_ms", merged->retry_after_ns);
	if (merged->delay_ns != 0)
		put_ms(response, worker, "delay_ms", merged->delay_ns);
	if (merged->bound != SLUICE_BOUND_NONE)
		put_text(response, worker, "bound", sl_str(sluice_bound_name((sluice_bound)merged->bound)));
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* The ticket of what is held now; empty for nothing. */
static struct sluice_bytes ticket_of(const struct sluice_policy *policy, struct sl_rls_worker *worker) {
	const struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	const struct sluice_call *call = &group->call;
	if (group->match.count == 0 || call->err != SLUICE_OK || !call->merged.allowed || !sl_admission_holds(call))
		return sl_slice(NULL, 0);
	return sl_slice(worker->ticket, sl_admission_ticket(policy, &group->match, call, SL_ADMISSION_PROXY_TICKET_MAX,
	                                                    worker->ticket));
}

void sl_rls_answer_decided(const struct sl_door_context *context, struct sl_rls_worker *worker,
                           struct sl_rls_answer *answer) {
	struct sl_rls_response *response = &answer->response;
	struct shown shown;
	const char *media = NULL;
	struct sl_out out = sl_out_to(worker->text, sizeof worker->text);
	collect(&shown, context, worker);
	fill_statuses(worker, context->policy, &shown);
	put_headers(&out, &shown, context->forms);
	*response = (struct sl_rls_response){
		.code = shown.merged.allowed ? SL_RLS_OK : SL_RLS_OVER_LIMIT,
		.statuses = worker->statuses,
		.status_count = worker->request.descriptor_count,
		.response_headers = worker->headers,
		.response_header_count = split_lines(worker->text, out.at, worker->headers, 0),
		.request_headers = &worker->upstream,
	};
	response->body = put_body(&out, context->policy, &shown, &media);
	SL_ASSERT(!out.overflow);
	if (media != NULL)
		worker->headers[response->response_header_count++] =
			(struct sl_rls_header){sl_str("content-type"), sl_str(media)};
	worker->upstream = (struct sl_rls_header){sl_str("sluice-ticket"), ticket_of(context->policy, worker)};
	response->request_header_count = worker->upstream.value.len != 0;
	put_metadata(response, worker, &shown);
}

static void count_error(struct sl_worker_stats *stats, enum sl_transport transport) {
	if (stats != NULL)
		sl_count(&stats->errors[transport], 1);
}

void sl_rls_answer_refused(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                           const struct sl_rls_group *group, const char *why, struct sl_rls_answer *answer) {
	struct sl_rls_response *response = &answer->response;
	answer->written = false;
	*response = (struct sl_rls_response){
		.code = SL_RLS_OVER_LIMIT, .statuses = worker->statuses, .status_count = worker->request.descriptor_count};
	for (uint32_t d = 0; d < response->status_count; d++)
		worker->statuses[d] = (struct sl_rls_status){.code = SL_RLS_OK};
	for (uint32_t i = 0; i < group->match.count; i++)
		if (!group->match.items[i].observed)
			worker->statuses[group->owner[i]].code = SL_RLS_OVER_LIMIT;
	put_text(response, worker, "refused", sl_str(why));
	count_error(context->stats, transport);
}

void sl_rls_answer_bound(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                         const char *bound, uint32_t descriptors, struct sl_rls_answer *answer) {
	static const struct sl_rls_header later = {{"Retry-After", 11}, {"1", 1}};
	answer->written = false;
	answer->response = (struct sl_rls_response){.code = SL_RLS_OVER_LIMIT,
	                                            .response_headers = &later,
	                                            .response_header_count = 1,
	                                            .over_count = descriptors <= SL_RLS_OVER_MAX ? descriptors : 0};
	put_text(&answer->response, worker, "bound", sl_str(bound));
	count_error(context->stats, transport);
}
