/* Requests to Envoy's rate limit service, by the limits of the policy.
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
#include "hosts/server/envoy/rate_limit.h"

#include "algo/merge.h"
#include "algo/rule.h"
#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/server/door/pending.h"
#include "policy/key.h"
#include "proto/command.h"

#include <stdlib.h>

#define UNDECIDED_TEXT "the request could not be decided"

_Static_assert(sizeof(struct sl_rls_entry) == 2 * sizeof(struct sluice_bytes), "entries are pairs of texts");

struct sl_rls_worker *sl_rls_worker_of(struct sl_door_context *context) {
	if (context->rls == NULL)
		context->rls = calloc(1, sizeof *context->rls);
	return context->rls;
}

/* A request on its way. */
struct deciding {
	struct sl_door_context *context;
	struct sl_rls_worker *worker;
	enum sl_transport transport;
	struct sl_rls_answer *answer;
};

static enum sl_rls_end refuse(struct sl_rls_answer *answer, enum sl_grpc_code code, const char *text) {
	answer->code = code;
	answer->text = text;
	return SL_RLS_REFUSED;
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
static struct sluice_bytes name_of(struct sl_rls_worker *worker, const struct sl_rls_entry *entries, uint32_t at) {
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
static size_t read_attributes(struct sl_rls_worker *worker, const struct sl_rls_descriptor *descriptor) {
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

/* The key of a limit that a descriptor brings along, or has found (`found`), in the buffer of matches. */
static struct sluice_bytes entries_key(struct sl_door_context *context, struct sl_rls_worker *worker,
                                       const struct sl_rls_descriptor *descriptor, const struct sl_envoy_found *found) {
	struct sluice_bytes key = sl_policy_envoy_key(
		context->policy, found, worker->request.domain, &worker->request.entries[descriptor->first_entry].key,
		descriptor->entry_count, (char *)context->match_buffer + worker->match_used,
		SLUICE_MATCH_BYTES_MAX - worker->match_used);
	worker->match_used += key.len;
	return key;
}

/* Adds a limit that a descriptor brings along; false for one of no unit, or of too long a one. Beside files whose rules
 * count what is denied (`count-denied`), it does so, too, as in envoyproxy/ratelimit. */
static bool add_override(struct sl_door_context *context, struct sl_rls_worker *worker, struct sl_rls_group *group,
                         const struct sl_rls_descriptor *descriptor) {
	static const struct sluice_terms counts_denied = {.count_denied = true};
	const struct sl_envoy_settings *theirs = &sl_policy_settings(context->policy)->envoy;
	sluice_ns unit_ns = sl_rls_unit_ns(descriptor->limit_unit);
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
	item.terms = theirs->config != NULL && theirs->count_denied ? &counts_denied : NULL;
	if (sl_match_add(&group->match, &item, SL_POSITION_NOTATION))
		group->override_count++;
	return true;
}

/* Adds the rule that a descriptor has found, if there is one that counts. */
static void add_rule(struct sl_door_context *context, struct sl_rls_worker *worker, struct sl_rls_group *group,
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

static struct sl_rls_group *group_of(struct sl_rls_worker *worker, const struct sl_rls_descriptor *descriptor,
                                     uint32_t *cost) {
	bool peek;
	*cost = sl_rls_hits(&worker->request, descriptor, &peek);
	if (!descriptor->has_hits && worker->request.hits == 0)
		*cost = 0; /* nothing is said */
	if (peek)
		*cost = 1;
	return &worker->groups[peek ? SL_RLS_LOOKED : descriptor->negative ? SL_RLS_REFUNDED : SL_RLS_CHARGED];
}

/* Adds the limits of one descriptor to the group that it is of. ANSWERED: it did. */
static enum sl_rls_end add_descriptor(const struct deciding *d, uint32_t index) {
	struct sl_door_context *context = d->context;
	struct sl_rls_worker *worker = d->worker;
	const struct sl_rls_descriptor *descriptor = &worker->request.descriptors[index];
	uint32_t cost;
	struct sl_rls_group *group = group_of(worker, descriptor, &cost);
	uint32_t first = group->match.count;
	group->used = true;
	const struct sluice_attribute *attributes = worker->attributes + worker->attribute_count;
	size_t count = read_attributes(worker, descriptor);
	if (is_full(group))
		return SL_RLS_ANSWERED;
	if (descriptor->has_limit) {
		bool counts = !worker->has_rules || sl_policy_envoy_has(context->policy, worker->request.domain);
		if (counts && !add_override(context, worker, group, descriptor))
			return refuse(d->answer, SL_GRPC_INVALID_ARGUMENT,
			              "rate limit override must have a unit, SECOND to WEEK, and at most 3660 days");
	} else if (sl_policy_match_more(context->policy, attributes, count, &group->match, context->match_buffer,
	                                SLUICE_MATCH_BYTES_MAX, &worker->match_used) != SLUICE_OK) {
		return refuse(d->answer, SL_GRPC_INTERNAL, UNDECIDED_TEXT);
	}
	if (worker->has_rules && !descriptor->has_limit && !is_full(group))
		add_rule(context, worker, group, index);
	own(group, first, index, cost);
	return SL_RLS_ANSWERED;
}

/* ---- what is counted --------------------------------------------------------------------------------------------- */

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

static void count_rules(struct sl_door_context *context, struct sl_rls_worker *worker) {
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

static void settle(struct sl_door_context *context, struct sl_rls_worker *worker) {
	struct sl_rls_group *charged = &worker->groups[SL_RLS_CHARGED];
	if (!charged->used || charged->call.operation == SLUICE_PEEK)
		return;
	sl_call_outcome_settle(context, &charged->outcome);
	if (worker->has_rules)
		count_rules(context, worker);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* Takes out what can't be given back: limits whose charges end by themselves; and all, where more apply than one
 * request can have: it was charged nothing, and what would be given back is others'. */
static void keep_refundable(struct sl_rls_group *group) {
	const uint32_t count = is_full(group) ? 0 : group->match.count;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!sl_rule_has(group->match.items[i].limit, SL_REFUNDABLE))
			continue;
		group->match.items[kept] = group->match.items[i];
		group->match.position[kept] = group->match.position[i];
		group->owner[kept] = group->owner[i];
		group->costs[kept++] = group->costs[i];
	}
	group->match.count = kept;
}

/* Begins to decide the call of a group, which is made. */
static void begin(const struct deciding *d, struct sl_rls_group *group) {
	const struct sl_rls_worker *worker = d->worker;
	group->call.now = sl_admission_instant(d->context->now, group->items, group->call.item_count);
	group->undecided = (struct sl_undecided){0};
	group->outcome = (struct sl_call_outcome){
		.call = &group->call,
		.positions = group->match.position,
		.shown = group->match.count,
		.candidate_of = group->candidate_of,
		.transport = d->transport,
		.undecided = &group->undecided,
		.beyond = group->match.beyond != 0 ? &group->match : NULL,
		.asker = {.attributes = worker->attributes, .attribute_count = worker->attribute_count}};
}

/* Makes the call of a group. */
static void prepare(const struct deciding *d, uint32_t kind, bool only_look) {
	struct sl_door_context *context = d->context;
	struct sl_rls_worker *worker = d->worker;
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
	begin(d, group);
}

/* Can the proxy be told what it would hold? */
static bool can_tell(const struct sl_door_context *context, struct sl_rls_worker *worker,
                     const struct sl_rls_group *group) {
	const size_t most = SL_ADMISSION_PROXY_TICKET_MAX;
	return !sl_admission_holds(&group->call) ||
	       sl_admission_ticket(context->policy, &group->match, &group->call, most, worker->ticket) <= most;
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
static enum sl_rls_end answer_undecided(const struct deciding *d, const struct sl_rls_group *group) {
	d->answer->err = group->call.err;
	switch (group->call.err) {
	case SLUICE_E_APART:
		sl_rls_answer_refused(d->context, d->worker, d->transport, group, SL_PENDING_APART_TEXT, d->answer);
		return SL_RLS_ANSWERED;
	case SLUICE_E_MISUSE:
		sl_rls_answer_refused(d->context, d->worker, d->transport, group, SL_PENDING_MISUSE_TEXT, d->answer);
		return SL_RLS_ANSWERED;
	case SLUICE_E_AWAY:
		return refuse(d->answer, SL_GRPC_UNAVAILABLE, "the store did not answer in time: the request was not decided");
	case SLUICE_E_BUSY:
		return refuse(d->answer, SL_GRPC_UNAVAILABLE, SL_HELD_UP_TEXT ": the request was not decided");
	default:
		return refuse(d->answer, SL_GRPC_UNAVAILABLE, UNDECIDED_TEXT);
	}
}

static bool denies(const struct sl_rls_group *group) {
	return group->unable != 0 || (group->call.err == SLUICE_OK && !group->call.merged.allowed);
}

static enum sl_rls_end answer_decided(const struct deciding *d) {
	settle(d->context, d->worker);
	d->answer->written = d->answer->writer != NULL && sl_rls_plain_put(d->context, d->worker, d->answer->writer);
	if (!d->answer->written)
		sl_rls_answer_decided(d->context, d->worker, d->answer);
	return SL_RLS_ANSWERED;
}

/* Decides a request that came before. It has one call, which charges, and of which nothing is told but a decision. */
static enum sl_rls_end decide_known(const struct deciding *d) {
	struct sl_rls_group *group = &d->worker->groups[SL_RLS_CHARGED];
	begin(d, group);
	if (group->match.count == 0)
		group->call.merged = sl_merge_nothing();
	else if (!sl_pending_ask(d->context, &group->outcome))
		return SL_RLS_LATER;
	return judge(d->context, group) ? answer_decided(d) : answer_undecided(d, group);
}

static bool has_more(const struct sl_rls_worker *worker, uint32_t kind) {
	for (kind++; kind < SL_RLS_GROUPS; kind++)
		if (worker->groups[kind].used)
			return true;
	return false;
}

/* The group in which descriptors name two members for one counter of `distinct`, as no call may; NULL: none. */
static const struct sl_rls_group *find_unfit(const struct sl_rls_worker *worker) {
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++) {
		const struct sluice_match *match = &worker->groups[kind].match;
		if (sl_items_second_member(match->items, match->count) != match->count)
			return &worker->groups[kind];
	}
	return NULL;
}

/* Decides all groups that have limits, in their order, and answers. */
static enum sl_rls_end decide_all(const struct deciding *d) {
	struct sl_rls_worker *worker = d->worker;
	const struct sl_rls_group *unfit = find_unfit(worker);
	bool denied = false;
	if (unfit != NULL) {
		sl_rls_answer_refused(d->context, worker, d->transport, unfit, SL_SECOND_MEMBER_TEXT, d->answer);
		return SL_RLS_ANSWERED;
	}
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++) {
		struct sl_rls_group *group = &worker->groups[kind];
		if (group->used)
			prepare(d, kind, kind == SL_RLS_LOOKED || denied);
		if (kind == SL_RLS_CHARGED && worker->room != NULL)
			sl_rls_known_keep(d->context, worker);
		group->call.merged = sl_merge_nothing();
		if (group->match.count == 0)
			continue;
		group->outcome.more = has_more(worker, kind);
		if (!can_tell(d->context, worker, group))
			sl_admission_deny_untold(&group->call);
		else if (!sl_pending_ask(d->context, &group->outcome))
			return SL_RLS_LATER;
		if (!judge(d->context, group))
			return answer_undecided(d, group);
		denied = denied || (kind != SL_RLS_REFUNDED && denies(group));
	}
	return answer_decided(d);
}

/* ---- a request --------------------------------------------------------------------------------------------------- */

static bool is_replaced(const struct sl_rls_worker *worker, struct sluice_bytes name) {
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
static void find_rules(const struct sluice_policy *policy, struct sl_rls_worker *worker) {
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

/* The limits of all descriptors, in their groups. ANSWERED: they were found. */
static enum sl_rls_end match_all(const struct deciding *d) {
	const struct sluice_policy *policy = d->context->policy;
	struct sl_rls_worker *worker = d->worker;
	enum sl_rls_end end = SL_RLS_ANSWERED;
	worker->attribute_count = worker->match_used = 0;
	worker->names = sl_out_to(worker->names_memory, sizeof worker->names_memory);
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++)
		sl_rls_group_clear(&worker->groups[kind]);
	worker->has_rules = sl_policy_settings(policy)->envoy.config != NULL;
	if (worker->has_rules)
		find_rules(policy, worker);
	for (uint32_t i = 0; i < worker->request.descriptor_count && end == SL_RLS_ANSWERED; i++)
		end = add_descriptor(d, i);
	return end;
}

enum sl_rls_end sl_rls_decide(struct sl_door_context *context, struct sl_rls_worker *worker,
                              enum sl_transport transport, struct sl_rls_answer *answer) {
	const struct deciding d = {context, worker, transport, answer};
	answer->err = SLUICE_OK;
	if (worker->met != NULL)
		return decide_known(&d);
	if (worker->request.domain.len == 0)
		return refuse(answer, SL_GRPC_UNKNOWN, "rate limit domain must not be empty");
	if (worker->request.descriptor_count == 0)
		return refuse(answer, SL_GRPC_UNKNOWN, "rate limit descriptor list must not be empty");
	enum sl_rls_end end = match_all(&d);
	return end == SL_RLS_ANSWERED ? decide_all(&d) : end;
}
