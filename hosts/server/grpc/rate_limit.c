/* RateLimitService.ShouldRateLimit by the limits of the policy.
 *
 *   domain, descriptors -> attributes of each -> the limits that apply -> one call -> statuses.c
 *
 * Each descriptor is one request, whose entries are its attributes; `domain` is one too. What Envoy calls
 * remote_address is `ip` here; an entry whose key has stood in its descriptor before is named KEY.2, KEY.3. A
 * descriptor that brings a limit along is decided by that one alone: a fixed window, counted by domain and all its
 * entries. Where the policy names files of envoyproxy/ratelimit (policy/envoy.h), a descriptor is decided by what its
 * entries find there as well.
 *
 * The limits of all descriptors are one decision: all admit and all are charged, or none. Two kinds of descriptors
 * stand apart, in calls of their own, since a call does one thing:
 *
 *   hits_addend present and 0   looks, as whether one more fits. First: where it denies, the others are looked at, too
 *   is_negative_hits            gives back, last, and never denies
 *
 * Nothing is settled before all is decided: a request that waits for its store is decided again from its first step. */
#include "hosts/server/grpc/rate_limit.h"

#include "algo/merge.h"
#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/server/door/pending.h"
#include "policy/key.h"

#include <stdlib.h>

_Static_assert(sizeof(struct sl_rls_entry) == 2 * sizeof(struct sluice_bytes), "entries are pairs of texts");

struct sl_grpc_memory *sl_grpc_memory_of(struct sl_door_context *context) {
	if (context->grpc == NULL)
		context->grpc = calloc(1, sizeof *context->grpc);
	return context->grpc == NULL ? NULL : &context->grpc->memory;
}

/* ---- descriptors to attributes ----------------------------------------------------------------------------------- */

/* How many of a descriptor's entries before this one have its key. */
static uint32_t count_before(const struct sl_rls_entry *entries, uint32_t at) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < at; i++)
		count += sl_bytes_equal(entries[i].key, entries[at].key);
	return count;
}

/* The attribute that an entry is; len 0: it has no name that fits. */
static struct sluice_bytes name_of(struct sl_grpc_worker *worker, const struct sl_rls_entry *entries, uint32_t at) {
	struct sluice_bytes key = entries[at].key;
	uint32_t before = count_before(entries, at);
	if (sl_bytes_equal(key, sl_str("remote_address")))
		key = sl_str("ip");
	if (before == 0)
		return key;
	char *start = worker->names.at;
	sl_out_bytes(&worker->names, key.data, key.len);
	sl_out_char(&worker->names, '.');
	sl_out_u64(&worker->names, before + 1);
	return worker->names.overflow ? sl_slice(NULL, 0) : sl_slice(start, (size_t)(worker->names.at - start));
}

static bool has_name(const struct sluice_attribute *attributes, size_t count, struct sluice_bytes name) {
	for (size_t i = 0; i < count; i++)
		if (sl_bytes_equal(attributes[i].name, name))
			return true;
	return false;
}

/* A descriptor's attributes, after those of the ones before. What can be none, having no name, or one longer than names
 * are, or that of another entry (ip beside remote_address), is left out: no limit can ask for it. */
static size_t read_attributes(struct sl_grpc_worker *worker, const struct sl_rls_descriptor *descriptor) {
	const struct sl_rls_entry *entries = worker->request.entries + descriptor->first_entry;
	struct sluice_attribute *attributes = worker->attributes + worker->attribute_count;
	size_t count = 0;
	for (uint32_t i = 0; i < descriptor->entry_count; i++) {
		struct sluice_bytes name = name_of(worker, entries, i);
		if (name.len != 0 && name.len <= SLUICE_NAME_BYTES_MAX && !has_name(attributes, count, name))
			attributes[count++] = (struct sluice_attribute){name, entries[i].value};
	}
	if (!has_name(attributes, count, sl_str("domain")))
		attributes[count++] = (struct sluice_attribute){sl_str("domain"), worker->request.domain};
	worker->attribute_count += count;
	SL_ASSERT(worker->attribute_count <= SL_RLS_ATTRIBUTES_MAX);
	return count;
}

/* ---- attributes to limits ---------------------------------------------------------------------------------------- */

/* Whose the items from `first` on are, and what they cost. An item that has taken the last place of all is another's no
 * more. */
static void own(struct sl_rls_group *group, uint32_t first, uint32_t descriptor, uint32_t cost) {
	if (first == SLUICE_ITEMS_MAX && group->match.items[first - 1].bound == SLUICE_BOUND_LIMITS)
		first--;
	for (uint32_t i = first; i < group->match.count; i++) {
		group->owner[i] = (uint16_t)descriptor;
		group->costs[i] = cost;
	}
}

/* Has a limit that found no place denied all of a group already? */
static bool is_full(const struct sl_rls_group *group) {
	return group->match.count == SLUICE_ITEMS_MAX &&
	       group->match.items[SLUICE_ITEMS_MAX - 1].bound == SLUICE_BOUND_LIMITS;
}

/* The key of a limit that a descriptor brings along, or has found: its domain and all its entries, in their order. One
 * that grows long is folded on the way.
 *  found  the rule whose values are counted, some of which share a threshold; NULL: the descriptor's own */
static struct sluice_bytes entries_key(struct sl_door_context *context, struct sl_grpc_worker *worker,
                                       const struct sl_rls_descriptor *descriptor, const struct sl_envoy_found *found) {
	char *start = (char *)context->match_buffer + worker->match_used;
	struct sl_out out = sl_out_to(start, SLUICE_MATCH_BYTES_MAX - worker->match_used);
	struct sluice_bytes key;
	sl_key_add(&out, worker->request.domain);
	for (uint32_t i = 0; i < descriptor->entry_count; i++) {
		const struct sl_rls_entry *entry = &worker->request.entries[descriptor->first_entry + i];
		sl_out_char(&out, ',');
		sl_key_add(&out, entry->key);
		sl_out_char(&out, '=');
		sl_key_add(&out, found == NULL ? entry->value : sl_policy_envoy_value(context->policy, found, i, entry->value));
		key = sl_key_fold(start, sl_slice(start, sl_out_len(&out)));
		out.at = start + key.len;
	}
	SL_ASSERT(!out.overflow);
	key = sl_key_fold(start, sl_slice(start, sl_out_len(&out)));
	worker->match_used += key.len;
	return key;
}

/* Adds a limit that a descriptor brings along; false for one of no unit, or of too long a one. */
static bool add_override(struct sl_door_context *context, struct sl_grpc_worker *worker, struct sl_rls_group *group,
                         const struct sl_rls_descriptor *descriptor) {
	sluice_ns unit_ns = descriptor->limit_unit < SL_RLS_WEEK ? sl_rls_unit_ns(descriptor->limit_unit) : 0;
	uint64_t multiplier = descriptor->limit_multiplier != 0 ? descriptor->limit_multiplier : 1;
	struct sluice_limit *limit = &group->overrides[group->override_count];
	char text[64];
	struct sl_out out = sl_out_to(text, sizeof text);
	sl_out_str(&out, "fixed-window ");
	sl_out_u64(&out, descriptor->limit_requests);
	sl_out_char(&out, '/');
	sl_out_u64(&out, unit_ns / 1000000000 * multiplier);
	sl_out_char(&out, 's');
	if (unit_ns == 0 || sluice_limit_parse(limit, sl_slice(text, sl_out_len(&out)), NULL) != SLUICE_OK)
		return false;
	struct sluice_item item = {.limit = limit, .key = entries_key(context, worker, descriptor, NULL)};
	if (sl_match_add(&group->match, &item, SL_POSITION_NOTATION))
		group->override_count++;
	return true;
}

/* Adds the rule that a descriptor has found, if there is one that counts. */
static void add_rule(struct sl_door_context *context, struct sl_grpc_worker *worker, struct sl_rls_group *group,
                     uint32_t index) {
	const struct sl_envoy_found *found = &worker->found[index];
	const struct sl_envoy_rule *rule = found->rule;
	if (rule == NULL || rule->unlimited)
		return;
	struct sluice_item item = {
		.limit = &rule->shown.limit,
		.key = entries_key(context, worker, &worker->request.descriptors[index], found),
		.observed = rule->shadow ? SLUICE_OBSERVED : 0,
		.quota = rule->quota,
		.terms = rule->shown.has_terms ? &rule->shown.terms : NULL,
	};
	(void)sl_match_add(&group->match, &item, found->position); /* one that finds no place is noted, or denies */
}

static struct sl_rls_group *group_of(struct sl_grpc_worker *worker, const struct sl_rls_descriptor *descriptor,
                                     uint32_t *cost) {
	bool peek;
	*cost = sl_rls_hits(&worker->request, descriptor, &peek);
	if (!descriptor->has_hits && worker->request.hits == 0)
		*cost = 0; /* nothing is said */
	if (peek)
		*cost = 1;
	return &worker->groups[peek ? SL_RLS_LOOKED : descriptor->negative ? SL_RLS_REFUNDED : SL_RLS_CHARGED];
}

/* Adds the limits of one descriptor to the group that it is of. False once the request was refused. */
static bool add_descriptor(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker, uint32_t index) {
	struct sl_door_context *context = stream->session->context;
	const struct sl_rls_descriptor *descriptor = &worker->request.descriptors[index];
	uint32_t cost;
	struct sl_rls_group *group = group_of(worker, descriptor, &cost);
	uint32_t first = group->match.count;
	group->used = true;
	const struct sluice_attribute *attributes = worker->attributes + worker->attribute_count;
	size_t count = read_attributes(worker, descriptor);
	if (is_full(group))
		return true;
	if (descriptor->has_limit) {
		bool counts = !worker->has_rules || sl_policy_envoy_has(context->policy, worker->request.domain);
		if (counts && !add_override(context, worker, group, descriptor)) {
			sl_grpc_fail(stream, SL_GRPC_INVALID_ARGUMENT,
			             "rate limit override must have a unit, SECOND to YEAR, and at most 3660 days");
			return false;
		}
	} else if (sl_policy_match_more(context->policy, attributes, count, &group->match, context->match_buffer,
	                                SLUICE_MATCH_BYTES_MAX, &worker->match_used) != SLUICE_OK) {
		sl_grpc_fail(stream, SL_GRPC_INTERNAL, "the request could not be decided");
		return false;
	}
	if (worker->has_rules && !descriptor->has_limit && !is_full(group))
		add_rule(context, worker, group, index);
	own(group, first, index, cost);
	return true;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* Takes out what can't be given back: limits whose charges end by themselves. */
static void keep_refundable(struct sl_rls_group *group) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < group->match.count; i++) {
		if (!sl_rule_has(group->match.items[i].limit, SL_REFUNDABLE) || group->match.items[i].bound != 0)
			continue;
		group->match.items[kept] = group->match.items[i];
		group->match.position[kept] = group->match.position[i];
		group->owner[kept] = group->owner[i];
		group->costs[kept++] = group->costs[i];
	}
	group->match.count = kept;
}

/* Makes the call of a group. */
static void prepare(struct sl_door_context *context, struct sl_grpc_worker *worker, uint32_t kind, bool only_look) {
	struct sl_rls_group *group = &worker->groups[kind];
	struct sluice_match *match = &group->match;
	if (kind == SL_RLS_REFUNDED)
		keep_refundable(group);
	memcpy(group->items, match->items, match->count * sizeof match->items[0]);
	group->call = (struct sluice_call){
		.items = group->items, .item_count = match->count, .cost = 1, .each = group->each, .want_next = true};
	if (kind == SL_RLS_CHARGED)
		group->call.item_count =
			sl_call_outcome_add_candidates(context->policy, match, group->items, group->candidate_of);
	group->admission = (struct sl_admission){.peek = only_look, .costs = group->costs};
	bool good = sl_admission_prepare(&group->admission, context->policy, match, group->candidate_of, group->items,
	                                 &group->call);
	SL_ASSERT(good); /* only the cost of a header may be wrong, and there are none here */
	if (kind == SL_RLS_REFUNDED) {
		group->call.operation = SLUICE_REFUND;
		group->call.id.len = 0;
	}
	group->call.now = sl_door_instant(context->now, group->items, group->call.item_count);
	group->undecided = (struct sl_undecided){0};
	group->outcome = (struct sl_call_outcome){
		.call = &group->call,
		.positions = match->position,
		.shown = match->count,
		.candidate_of = group->candidate_of,
		.transport = SL_TRANSPORT_GRPC,
		.undecided = &group->undecided,
		.beyond = match->beyond,
		.asker = {.attributes = worker->attributes, .attribute_count = worker->attribute_count}};
}

/* Can the proxy be told what it would hold? All tickets of a call are of one length, whatever their id. */
static bool can_tell(const struct sl_door_context *context, struct sl_grpc_worker *worker,
                     const struct sl_rls_group *group) {
	return !sl_admission_holds(&group->call) || sl_admission_ticket(context->policy, &group->match, &group->call,
	                                                                worker->ticket) <= SL_ADMISSION_PROXY_TICKET_MAX;
}

/* Decides one group. False: later, or never, and then it was refused. */
static bool decide(struct sl_grpc_stream *stream, struct sl_rls_group *group) {
	struct sl_door_context *context = stream->session->context;
	if (sl_pending_ask(context, &group->outcome))
		return true;
	if (context->pending == NULL) {
		sl_grpc_fail(stream, SL_GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return false;
	}
	sl_pending_put_off(context, stream);
	stream->waits = true;
	stream->session->waiting++;
	return false;
}

/* What became of a group that the store could not decide. False where its limits don't say what then. */
static bool judge(struct sl_door_context *context, struct sl_rls_group *group) {
	sluice_err err = group->call.err;
	bool away = err == SLUICE_E_AWAY || err == SLUICE_E_BUSY, told = false;
	group->passes = sl_call_outcome_fails_open(context, &group->outcome);
	group->unable = 0;
	if (err == SLUICE_OK || group->passes)
		return true;
	for (uint32_t i = 0; i < group->match.count && away; i++) {
		bool notation = group->match.position[i] == SL_POSITION_NOTATION;
		told = told || notation;
		if (!notation && sl_policy_on_error(context->policy, &group->match, i) == SL_ON_ERROR_DENY)
			group->unable |= (uint32_t)1 << i;
	}
	return away && (group->unable != 0 || !told);
}

/* A group that can't be decided. An outage, of which no limit says what then, is UNAVAILABLE: the proxy's configuration
 * says. What no node can decide is no outage, and a caller may have brought it about: it is refused, for a proxy lets
 * pass what it gets an error for. */
static void answer_undecided(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker,
                             const struct sl_rls_group *group) {
	switch (group->call.err) {
	case SLUICE_E_APART:
		sl_rls_answer_refused(stream, worker, group, SL_PENDING_APART_TEXT);
		break;
	case SLUICE_E_MISUSE:
		sl_rls_answer_refused(stream, worker, group, SL_PENDING_MISUSE_TEXT);
		break;
	case SLUICE_E_AWAY:
		sl_grpc_fail(stream, SL_GRPC_UNAVAILABLE, "the store did not answer in time: the request was not decided");
		break;
	case SLUICE_E_BUSY:
		sl_grpc_fail(stream, SL_GRPC_UNAVAILABLE, SL_HELD_UP_TEXT ": the request was not decided");
		break;
	default:
		sl_grpc_fail(stream, SL_GRPC_UNAVAILABLE, "the request could not be decided");
	}
}

static bool denies(const struct sl_rls_group *group) {
	return group->unable != 0 || (group->call.err == SLUICE_OK && !group->call.merged.allowed);
}

/* Decides all groups that have limits, in their order. False: later, or refused. */
static bool decide_all(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker) {
	struct sl_door_context *context = stream->session->context;
	bool denied = false;
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++) {
		struct sl_rls_group *group = &worker->groups[kind];
		group->call.err = SLUICE_OK;
		group->passes = false;
		group->unable = 0;
		if (group->used)
			prepare(context, worker, kind, kind == SL_RLS_LOOKED || denied);
		group->call.merged = sl_merge_nothing();
		if (group->match.count == 0)
			continue;
		if (!can_tell(context, worker, group))
			sl_admission_deny_untold(&group->call);
		else if (!decide(stream, group))
			return false;
		if (!judge(context, group)) {
			answer_undecided(stream, worker, group);
			return false;
		}
		denied = denied || (kind != SL_RLS_REFUNDED && denies(group));
	}
	return true;
}

/* ---- a request --------------------------------------------------------------------------------------------------- */

static bool read_request(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker, struct sluice_bytes message) {
	enum sl_rls_read came = sl_rls_request_read(&worker->request, message);
	if (came == SL_RLS_TOO_MANY)
		sl_rls_answer_bound(stream, "descriptors");
	else if (came == SL_RLS_MALFORMED)
		sl_grpc_fail(stream, SL_GRPC_INTERNAL,
		             "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	else if (worker->request.domain.len == 0)
		sl_grpc_fail(stream, SL_GRPC_UNKNOWN, "rate limit domain must not be empty");
	else if (worker->request.descriptor_count == 0)
		sl_grpc_fail(stream, SL_GRPC_UNKNOWN, "rate limit descriptor list must not be empty");
	else
		return true;
	return false;
}

static bool is_replaced(const struct sl_grpc_worker *worker, struct sluice_bytes name) {
	for (uint32_t i = 0; i < worker->request.descriptor_count; i++) {
		const struct sl_envoy_rule *rule = worker->found[i].rule;
		for (uint32_t k = 0; rule != NULL && k < rule->replace_count; k++)
			if (sl_bytes_equal(rule->replaces[k], name))
				return true;
	}
	return false;
}

/* What each descriptor is decided by in the files of envoyproxy/ratelimit; and of those, not by what another one
 * replaces. */
static void find_rules(const struct sluice_policy *policy, struct sl_grpc_worker *worker) {
	uint8_t gone[SL_RLS_DESCRIPTORS_MAX] = {0};
	bool replaces = false;
	for (uint32_t i = 0; i < worker->request.descriptor_count; i++) {
		const struct sl_rls_descriptor *descriptor = &worker->request.descriptors[i];
		worker->found[i].rule = NULL;
		if (!descriptor->has_limit && descriptor->entry_count != 0)
			sl_policy_envoy_find(policy, worker->request.domain, &worker->request.entries[descriptor->first_entry].key,
			                     descriptor->entry_count, &worker->found[i]);
		replaces = replaces || (worker->found[i].rule != NULL && worker->found[i].rule->replace_count != 0);
	}
	for (uint32_t i = 0; replaces && i < worker->request.descriptor_count; i++) {
		const struct sl_envoy_rule *rule = worker->found[i].rule;
		gone[i] = rule != NULL && rule->name.len != 0 && !rule->unlimited && is_replaced(worker, rule->name);
	}
	for (uint32_t i = 0; replaces && i < worker->request.descriptor_count; i++)
		if (gone[i])
			worker->found[i].rule = NULL;
}

/* The limits of all descriptors, in their groups. */
static bool match_all(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker) {
	worker->attribute_count = worker->match_used = 0;
	worker->names = sl_out_to(worker->names_memory, sizeof worker->names_memory);
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++) {
		struct sl_rls_group *group = &worker->groups[kind];
		group->match.count = group->match.beyond = group->override_count = 0;
		group->used = false;
	}
	worker->has_rules = sl_policy_settings(stream->session->context->policy)->envoy.config != NULL;
	if (worker->has_rules)
		find_rules(stream->session->context->policy, worker);
	for (uint32_t i = 0; i < worker->request.descriptor_count; i++)
		if (!add_descriptor(stream, worker, i))
			return false;
	return true;
}

/* What a rule is counted by, as envoyproxy/ratelimit counts: hits that are near are those above the share of the quota.
 * What is denied is over as a whole. */
static void count_hits(const struct sluice_call *call, const struct sl_envoy_rule *rule,
                       const struct sluice_decision *decision, uint64_t hits, uint64_t add[SL_RULE_COUNTS]) {
	uint64_t used = decision->quota - sl_min(decision->remaining, decision->quota);
	uint64_t after = call->merged.allowed ? used : used + hits, before = after - sl_min(hits, after);
	uint64_t near = decision->quota * SL_ENVOY_NEAR_PERCENT / 100;
	add[SL_RULE_TOTAL] = hits;
	if (decision->allowed) {
		add[SL_RULE_WITHIN] = hits;
		add[SL_RULE_NEAR] = after > near ? sl_min(hits, after - sl_max(near, before)) : 0;
	} else {
		add[SL_RULE_OVER] = hits;
		add[SL_RULE_SHADOW] = rule->shadow ? hits : 0;
	}
}

static void count_rules(struct sl_door_context *context, struct sl_grpc_worker *worker) {
	const struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	if (context->stats == NULL || group->call.err != SLUICE_OK)
		return;
	for (uint32_t i = 0; i < group->match.count; i++) {
		const struct sl_envoy_rule *rule = sl_policy_envoy_rule(context->policy, group->match.position[i]);
		const struct sl_rls_descriptor *descriptor = &worker->request.descriptors[group->owner[i]];
		uint64_t add[SL_RULE_COUNTS] = {0}, hits = group->costs[i] != 0 ? group->costs[i] : 1;
		char text[SL_ENVOY_METRIC_BYTES_MAX];
		if (rule == NULL || (group->undecided.items >> i & 1) != 0)
			continue;
		count_hits(&group->call, rule, &group->each[i], hits, add);
		struct sluice_bytes name = sl_policy_envoy_metric(
			context->policy, &worker->found[group->owner[i]], worker->request.domain,
			&worker->request.entries[descriptor->first_entry].key, descriptor->entry_count, text);
		sl_rule_stats_count(&context->stats->rules, worker->request.domain, name, add);
	}
}

static void settle(struct sl_door_context *context, struct sl_grpc_worker *worker) {
	struct sl_rls_group *charged = &worker->groups[SL_RLS_CHARGED];
	if (charged->used && charged->call.operation != SLUICE_PEEK)
		sl_call_outcome_settle(context, &charged->outcome);
	if (charged->used && charged->call.operation != SLUICE_PEEK && worker->has_rules)
		count_rules(context, worker);
	sl_pending_settle(context);
}

void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	struct sl_grpc_session *session = stream->session;
	struct sl_door_context *context = session->context;
	struct sl_grpc_worker *worker = context->grpc;
	if (session->waiting >= SL_GRPC_WAITING_MAX) {
		sl_rls_answer_bound(stream, "queue");
		return;
	}
	if (!read_request(stream, worker, message) || !match_all(stream, worker))
		return;
	if (decide_all(stream, worker)) {
		settle(context, worker);
		sl_rls_answer(stream, worker);
	} else if (!stream->waits) {
		sl_pending_settle(context); /* it was answered, and needs nothing of what it had asked for */
	}
}

void sl_grpc_deny_unread(struct sl_grpc_stream *stream) {
	sl_rls_answer_bound(stream, "message");
}
