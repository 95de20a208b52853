/* The commonest answer, written at once: a request that its limits allow, with nothing else to tell than what is left
 * of them.
 *
 *   status  | code | current_limit | remaining | reset |      RateLimit-Policy: "a";q=9;w=60, "b";q=5;w=1
 *             ....   =============               .....                          ============= ===========
 *   metadata| limit: name |                                   RateLimit: "b";r=4;t=1
 *             ===========                                                ======
 *
 * What is underlined is the same as long as a limit has its quota. A worker keeps that of 64 limits, each where its
 * position in the policy says; of two that want one place each is rendered anew, and nothing else happens.
 *
 * All of it is what statuses.c would have said by the same functions, byte for byte (tests/model/rls_known_test.c).
 * Whatever is not plain goes that way: denials, what is looked at, given back, held, delayed or observed, quotas,
 * those of keys' own, windows of the calendar, limits that descriptors bring along, other forms of headers. */
#include "hosts/server/envoy/rate_limit.h"

#include "algo/traits.h"
#include "base/assert.h"
#include "store/store.h"

static const struct sl_rls_status nothing = {.code = SL_RLS_OK};

/* ---- what is plain ----------------------------------------------------------------------------------------------- */

/* Is what is told of an item that of its limit, whatever its key is? */
static bool is_of_limit(const struct sluice_store *store, const struct sluice_item *item,
                        const struct sluice_decision *decision) {
	return decision->quota == item->limit->derived[SL_CAPACITY] &&
	       (store == NULL || !sl_rule_has(item->limit, SL_DRAINS) || !sl_store_has_overrides(store));
}

static bool is_plain_item(const struct sluice_item *item, const struct sluice_decision *decision) {
	return item->observed == 0 && item->quota == 0 && decision->allowed && decision->bound == SLUICE_BOUND_NONE &&
	       decision->delay_ns == 0;
}

static bool is_plain(const struct sl_door_context *context, const struct sl_rls_worker *worker) {
	const struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	const struct sluice_call *call = &group->call;
	if (worker->groups[SL_RLS_LOOKED].used || worker->groups[SL_RLS_REFUNDED].used ||
	    (context->forms & ~(uint32_t)SL_FORM_FAILED_OPEN) != SL_FORM_DRAFT10 || call->err != SLUICE_OK ||
	    call->operation != SLUICE_CHARGE || !call->merged.allowed || group->undecided.items != 0 || group->passes)
		return false;
	for (uint32_t i = 0; i < group->match.count; i++)
		if (!is_plain_item(&group->items[i], &group->each[i]) ||
		    !is_of_limit(sl_door_counts(context), &group->items[i], &group->each[i]))
			return false;
	return true;
}

/* ---- what does not change of a limit ----------------------------------------------------------------------------- */

/* Writes a message's field to its place; false where it is too long. */
static bool keep(const struct sl_pb_writer *writer, uint8_t *to, uint16_t *len) {
	struct sluice_bytes written = sl_pb_written(writer);
	if (writer->overflow)
		return false;
	memmove(to, written.data, written.len);
	*len = (uint16_t)written.len;
	return true;
}

static bool render(struct sl_rls_told *told, const struct sl_headers_limit *limit) {
	struct sl_rls_status status = nothing;
	struct sl_pb_writer current = sl_pb_write(told->current, sizeof told->current);
	struct sl_pb_writer metadata = sl_pb_write(told->metadata, sizeof told->metadata);
	struct sl_out policy = sl_out_to(told->policy, sizeof told->policy);
	struct sl_out state = sl_out_to(told->state, sizeof told->state);
	const struct sl_rls_field field = {.name = sl_str("limit"), .text = limit->name};
	sl_rls_status_name(&status, limit);
	if (told->rule != NULL)
		sl_rls_status_name_rule(&status, told->rule);
	sl_rls_limit_put(&current, &status);
	sl_rls_metadata_put(&metadata, &field, 1);
	sl_headers_policy_item(&policy, limit, 0);
	sl_headers_state_name(&state, limit->name);
	told->policy_len = (uint16_t)sl_out_len(&policy);
	told->state_len = (uint16_t)sl_out_len(&state);
	return keep(&current, told->current, &told->current_len) && keep(&metadata, told->metadata, &told->metadata_len) &&
	       !policy.overflow && !state.overflow;
}

static __attribute__((noinline)) bool renew(struct sl_rls_told *told, const struct sluice_policy *policy,
                                            const struct sl_rls_group *group, uint32_t i) {
	const struct sluice_limit *rule = group->items[i].limit;
	uint32_t position = group->match.position[i];
	const struct sluice_decision *decision = &group->each[i];
	told->policy_number = 0;
	if (rule->calendar != SLUICE_CALENDAR_NONE || !sl_rule_has(rule, SL_HAS_COUNTER))
		return false;
	const struct sl_headers_limit limit = {sl_str(sluice_policy_limit_name(policy, position)), rule, decision, false};
	told->rule = sl_policy_envoy_rule(policy, position);
	if (!render(told, &limit))
		return false;
	told->quota = decision->quota;
	told->limit = rule;
	told->position = position;
	told->policy_number = sl_policy_number(policy);
	return true;
}

/* Whether that is what is told of item `i` of a group. */
static bool is_told(const struct sl_rls_told *told, uint64_t number, const struct sl_rls_group *group, uint32_t i) {
	return told->policy_number == number && told->position == group->match.position[i] &&
	       told->limit == group->items[i].limit && told->quota == group->each[i].quota;
}

/* What is told of item `i` of a group; NULL where that is not plain. */
static const struct sl_rls_told *tell(struct sl_rls_worker *worker, const struct sluice_policy *policy, uint64_t number,
                                      const struct sl_rls_group *group, uint32_t i) {
	uint32_t position = group->match.position[i];
	struct sl_rls_told *told = &worker->told[position % SL_RLS_TOLD];
	if (position == SL_POSITION_NOTATION)
		return NULL;
	return is_told(told, number, group, i) || renew(told, policy, group, i) ? told : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* All items of a group: of two that want one place the first has lost it. */
static bool tell_all(struct sl_rls_worker *worker, const struct sluice_policy *policy, const struct sl_rls_group *group,
                     const struct sl_rls_told *told[SLUICE_ITEMS_MAX]) {
	const uint64_t number = sl_policy_number(policy);
	for (uint32_t i = 0; i < group->match.count; i++) {
		told[i] = tell(worker, policy, number, group, i);
		if (told[i] == NULL)
			return false;
	}
	for (uint32_t i = 0; i < group->match.count; i++)
		if (!is_told(told[i], number, group, i))
			return false;
	return true;
}

/* Which of the items from `first` to `end` decides: the first of those that have least left. */
static uint32_t decider(const struct sl_rls_group *group, uint32_t first, uint32_t end) {
	uint32_t least = first;
	SL_ASSERT(first < end);
	for (uint32_t i = first + 1; i < end; i++)
		if (group->each[i].remaining < group->each[least].remaining)
			least = i;
	return least;
}

static void put_status(struct sl_pb_writer *writer, const struct sl_rls_told *told,
                       const struct sluice_decision *decision, sluice_ns now) {
	const struct sl_rls_status status = {.code = SL_RLS_OK,
	                                     .has_limit = true,
	                                     .remaining = decision->remaining,
	                                     .reset_s = sl_rls_reset_s(decision->next_after_ns, now, told->rule)};
	sl_rls_status_put(writer, &status, sl_slice(told->current, told->current_len));
}

/* A descriptor of which no limit is told. */
static void put_nothing(struct sl_pb_writer *writer, const struct sl_rls_worker *worker, uint32_t d) {
	struct sl_rls_status status = nothing;
	status.unlimited = worker->has_rules && worker->found[d].rule != NULL && worker->found[d].rule->unlimited;
	sl_rls_status_put(writer, &status, sl_slice(NULL, 0));
}

static void put_state(struct sl_pb_writer *writer, const struct sl_rls_told *told,
                      const struct sluice_decision *decision) {
	const uint8_t *end = sl_pb_message_end(writer);
	char memory[64];
	struct sl_out numbers = sl_out_to(memory, sizeof memory);
	sl_headers_state_numbers(&numbers, decision);
	sl_pb_put_raw(writer, sl_slice(memory, sl_out_len(&numbers)));
	sl_pb_put_raw(writer, sl_slice(told->state, told->state_len));
	sl_rls_header_begin(writer, sl_str("RateLimit"), end);
}

static void put_policy(struct sl_pb_writer *writer, const struct sl_rls_told *const *told, uint32_t count) {
	const uint8_t *end = sl_pb_message_end(writer);
	for (uint32_t i = count; i-- > 0;) {
		sl_pb_put_raw(writer, sl_slice(told[i]->policy, told[i]->policy_len));
		if (i != 0)
			sl_pb_put_raw(writer, sl_str(", "));
	}
	sl_rls_header_begin(writer, sl_str("RateLimit-Policy"), end);
}

bool sl_rls_plain_put(const struct sl_door_context *context, struct sl_rls_worker *worker,
                      struct sl_pb_writer *writer) {
	const struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	const struct sl_rls_told *told[SLUICE_ITEMS_MAX];
	uint32_t end = group->match.count;
	if (!is_plain(context, worker) || !tell_all(worker, context->policy, group, told))
		return false;
	if (end != 0) {
		uint32_t decides = decider(group, 0, end);
		sl_pb_put_raw(writer, sl_slice(told[decides]->metadata, told[decides]->metadata_len));
		put_state(writer, told[decides], &group->each[decides]);
		put_policy(writer, told, end);
	}
	for (uint32_t d = worker->request.descriptor_count; d-- > 0;) {
		uint32_t first = end;
		while (first > 0 && group->owner[first - 1] == d)
			first--;
		if (first == end) {
			put_nothing(writer, worker, d);
			continue;
		}
		uint32_t decides = decider(group, first, end);
		put_status(writer, told[decides], &group->each[decides], group->call.now);
		end = first;
	}
	SL_ASSERT(end == 0);
	sl_rls_code_put(writer, SL_RLS_OK);
	return true;
}
