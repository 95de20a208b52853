/* See outcome_record.h. What a request tells of itself is looked for only here, where something is written down. */
#include "hosts/server/door/outcome_record.h"

#include "hosts/server/watch/key_shown.h"
#include "policy/attribute.h"

struct sluice_bytes sl_asker_told(const struct sl_asker *asker, const char *attribute, const char *header) {
	for (size_t i = 0; i < asker->attribute_count; i++)
		if (sl_bytes_equal(asker->attributes[i].name, sl_str(attribute)))
			return asker->attributes[i].value;
	return asker->header != NULL && header != NULL ? asker->header(asker->data, header) : sl_slice(NULL, 0);
}

struct sluice_bytes sl_outcome_limit(const struct sl_door_context *context, const struct sluice_item *item,
                                     uint32_t position, char text[SLUICE_LIMIT_TEXT_MAX]) {
	if (position != SL_POSITION_NOTATION)
		return sl_str(sluice_policy_limit_name(context->policy, position));
	return sl_slice(text, sluice_limit_print(item->limit, text));
}

/* What the policy's limit counted the request by, else what the caller says of it. */
static struct sluice_bytes route_of(const struct sl_door_context *context, const struct sl_asker *asker,
                                    uint32_t position) {
	struct sluice_bytes route = {NULL, 0};
	if (position != SL_POSITION_NOTATION)
		route = sl_policy_route(context->policy, position, sl_asker_told(asker, "path", NULL));
	return route.data != NULL ? route : sl_asker_told(asker, "route", NULL);
}

void sl_outcome_record(const struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i,
                       uint32_t position, const struct sluice_decision *decision, struct sl_outcome_record *made) {
	const struct sl_log_settings *settings = &sl_policy_settings(context->policy)->log;
	const struct sluice_item *item = &outcome->call->items[i];
	const struct sl_asker *asker = &outcome->asker;
	/* the address itself, not the network that it counts as */
	struct sluice_bytes from = sl_attribute_form(SL_ATTRIBUTE_IP, sl_asker_told(asker, "ip", NULL), 128, made->ip);
	made->record = (struct sl_record_line){
		.now = context->now,
		.limit = sl_outcome_limit(context, item, position, made->limit),
		.key = sl_key_shown(settings, item->key, made->key),
		.cost = item->cost != 0 ? item->cost : outcome->call->cost,
		.quota = decision->quota,
		.remaining = decision->remaining,
		.retry_after_ms = sl_ns_to_ms_ceil(decision->retry_after_ns),
		.reset_after_ms = sl_ns_to_ms_ceil(decision->reset_after_ns),
		.method = sl_attribute_form(SL_ATTRIBUTE_METHOD, sl_asker_told(asker, "method", NULL), 128, made->method),
		.route = route_of(context, asker, position),
		.address = sl_key_shown(settings, from, made->address),
		.request_id = sl_asker_told(asker, "request-id", "x-request-id"),
		.traceparent = sl_asker_told(asker, "traceparent", "traceparent"),
		.observed = item->observed != 0 || (item->quota != 0 && outcome->call->merged.allowed),
		.transport = sl_transport_names[outcome->transport],
		.bound = decision->bound,
	};
}

/* ---- those who follow -------------------------------------------------------------------------------------------- */

/* What is shown of one item. */
struct shown {
	uint32_t i, position; /* which item, and of which limit of the policy */
	const struct sluice_decision *decision;
	bool allowed, undecided, candidate;
};

static __attribute__((noinline)) void write_line(const struct sl_door_context *context,
                                                 const struct sl_call_outcome *outcome, const struct shown *shown,
                                                 struct sl_tail_head *head) {
	struct sl_outcome_record made;
	char line[SL_RECORD_BYTES_MAX];
	struct sl_out out = sl_out_to(line, sizeof line);
	sl_outcome_record(context, outcome, shown->i, shown->position, shown->decision, &made);
	made.record.allowed = shown->allowed;
	made.record.undecided = shown->undecided;
	made.record.candidate = shown->candidate;
	made.record.request_denied = shown->allowed && outcome->call->err == SLUICE_OK && !outcome->call->merged.allowed;
	sl_record_put_decision(&out, &made.record);
	sl_tail_write(context->tail, head, sl_slice(line, sl_out_len(&out)));
}

static void show_one(const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                     const struct shown *shown) {
	const struct sluice_item *item = &outcome->call->items[shown->i];
	struct sl_tail_head head;
	struct sl_tail_subject subject = {.limit = item->limit, .key = item->key, .denied = !shown->allowed};
	if (shown->position != SL_POSITION_NOTATION)
		subject.name = sl_str(sluice_policy_limit_name(context->policy, shown->position));
	if (sl_tail_take(context->tail, &subject, context->now, &head))
		write_line(context, outcome, shown, &head);
}

static uint32_t position_of(const struct sl_call_outcome *outcome, uint32_t i) {
	return outcome->positions == NULL ? SL_POSITION_NOTATION : outcome->positions[i];
}

/* Of limits in notation only the merged answer is there. */
static void show_notation(const struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	static const struct sluice_decision none;
	bool failed = call->err != SLUICE_OK;
	if (failed ? call->item_count == 0 : call->merged.index < 0)
		return;
	show_one(context, outcome,
	         &(struct shown){.i = failed ? 0 : (uint32_t)call->merged.index,
	                         .position = SL_POSITION_NOTATION,
	                         .decision = failed ? &none : &call->merged,
	                         .allowed = !failed && call->merged.allowed,
	                         .undecided = failed});
}

/* A request that the store could not answer passes those limits that let it, and the others as they decided. */
static void show_item(const struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i) {
	const struct sluice_call *call = outcome->call;
	const uint32_t open = outcome->undecided != NULL ? outcome->undecided->items : 0;
	const uint32_t failed = outcome->undecided != NULL ? outcome->undecided->failed : 0;
	static const struct sluice_decision none;
	bool undecided = call->err != SLUICE_OK || (failed >> i & 1) != 0;
	if (!sl_rule_has(call->items[i].limit, SL_HAS_COUNTER))
		return;
	show_one(context, outcome,
	         &(struct shown){.i = i,
	                         .position = position_of(outcome, i),
	                         .decision = undecided ? &none : &call->each[i],
	                         .allowed = undecided ? (open >> i & 1) != 0 : call->each[i].allowed,
	                         .undecided = undecided});
}

static void show_candidates(const struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	for (uint32_t i = outcome->shown; i < call->item_count; i++)
		if (!call->each[i].allowed)
			show_one(context, outcome,
			         &(struct shown){.i = i,
			                         .position = position_of(outcome, outcome->candidate_of[i - outcome->shown]),
			                         .decision = &call->each[i],
			                         .candidate = true});
}

void sl_outcome_show(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	(void)sl_tail_catch_up(context->tail, context->now);
	if (outcome->positions == NULL) {
		show_notation(context, outcome);
		return;
	}
	for (uint32_t i = 0; i < outcome->shown; i++)
		show_item(context, outcome, i);
	if (outcome->call->err == SLUICE_OK)
		show_candidates(context, outcome);
}

/* Apart, so that who only looks keeps no record on his stack. */
static __attribute__((noinline)) void write_plain(const struct sl_door_context *context, enum sl_transport transport,
                                                  struct sluice_call *call, struct sl_tail_head *head) {
	const struct sl_call_outcome outcome = {.call = call, .shown = call->item_count, .transport = transport};
	write_line(context, &outcome,
	           &(struct shown){.i = (uint32_t)call->merged.index,
	                           .position = SL_POSITION_NOTATION,
	                           .decision = &call->merged,
	                           .allowed = true},
	           head);
}

void sl_outcome_show_plain(const struct sl_door_context *context, enum sl_transport transport,
                           struct sluice_call *call) {
	const struct sluice_item *item = &call->items[call->merged.index];
	const struct sl_tail_subject subject = {.limit = item->limit, .key = item->key};
	struct sl_tail_head head;
	if (sl_tail_take(context->tail, &subject, context->now, &head))
		write_plain(context, transport, call, &head);
}
