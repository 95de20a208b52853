/* Keeping what a request came to, and finding it again: known.h. */
#include "hosts/server/envoy/rate_limit.h"

#include "base/assert.h"
#include "base/recall.h"

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

/* A text of the message as it is in the copy; one that is none of it, such as a name of ours, stays. */
static struct sluice_bytes moved(const struct sl_rls_known *known, struct sluice_bytes message,
                                 struct sluice_bytes text) {
	size_t at = (size_t)((uintptr_t)text.data - (uintptr_t)message.data);
	return text.data != NULL && at < message.len ? sl_slice(known->message + at, text.len) : text;
}

/* Is an item of the kind? */
static bool is_kept(const struct sluice_item *item, uint32_t position) {
	return position != SL_POSITION_NOTATION && item->bound == SLUICE_BOUND_NONE && item->member.data == NULL &&
	       item->ttl_ns == 0;
}

static bool is_of_the_kind(const struct sl_rls_worker *worker) {
	const struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	const struct sl_rls_request *request = &worker->request;
	if (!group->used || worker->groups[SL_RLS_LOOKED].used || worker->groups[SL_RLS_REFUNDED].used ||
	    group->match.beyond != 0 || group->call.item_count != group->match.count ||
	    group->call.operation != SLUICE_CHARGE || group->call.id.len != 0 || group->call.upto ||
	    sl_out_len(&worker->names) != 0)
		return false;
	for (uint32_t i = 0; i < group->match.count; i++)
		if (!is_kept(&group->items[i], group->match.position[i]))
			return false;
	return group->match.count <= SL_RLS_KNOWN_ITEMS_MAX && request->descriptor_count <= SL_RLS_KNOWN_DESCRIPTORS_MAX &&
	       request->entry_count <= SL_RLS_KNOWN_ENTRIES_MAX && worker->attribute_count <= SL_RLS_KNOWN_ATTRIBUTES_MAX;
}

/* The items with their keys; false where those find no room. */
static bool keep_items(struct sl_rls_known *known, const struct sl_rls_group *group) {
	struct sl_out keys = sl_out_to(known->keys, sizeof known->keys);
	for (uint32_t i = 0; i < group->match.count; i++) {
		struct sluice_bytes key = group->items[i].key;
		known->items[i] = group->items[i];
		known->items[i].key.data = keys.at;
		sl_out_bytes(&keys, key.data, key.len);
		known->owner[i] = group->owner[i];
		known->costs[i] = group->costs[i];
		known->positions[i] = group->match.position[i];
	}
	known->item_count = (uint8_t)group->match.count;
	known->cost = group->call.cost;
	return !keys.overflow;
}

static void keep_request(struct sl_rls_known *known, const struct sl_rls_worker *worker, struct sluice_bytes message) {
	const struct sl_rls_request *request = &worker->request;
	known->hits = request->hits;
	known->domain = moved(known, message, request->domain);
	known->descriptor_count = (uint8_t)request->descriptor_count;
	known->entry_count = (uint8_t)request->entry_count;
	known->attribute_count = (uint8_t)worker->attribute_count;
	for (uint32_t d = 0; d < request->descriptor_count; d++) {
		known->descriptors[d] = request->descriptors[d];
		known->found[d] = worker->has_rules ? worker->found[d] : (struct sl_envoy_found){.rule = NULL};
	}
	for (uint32_t i = 0; i < request->entry_count; i++)
		known->entries[i] = (struct sl_rls_entry){moved(known, message, request->entries[i].key),
		                                          moved(known, message, request->entries[i].value)};
	for (size_t i = 0; i < worker->attribute_count; i++)
		known->attributes[i] = (struct sluice_attribute){moved(known, message, worker->attributes[i].name),
		                                                 moved(known, message, worker->attributes[i].value)};
}

void sl_rls_known_keep(const struct sl_door_context *context, struct sl_rls_worker *worker) {
	struct sl_rls_known *known = worker->room;
	struct sluice_bytes message = worker->message;
	worker->room = NULL;
	known->policy_number = 0;
	if (!is_of_the_kind(worker) || !keep_items(known, &worker->groups[SL_RLS_CHARGED]))
		return;
	SL_ASSERT(message.len != 0 && message.len <= sizeof known->message);
	memcpy(known->message, message.data, message.len);
	known->len = (uint32_t)message.len;
	keep_request(known, worker, message);
	known->policy_number = sl_policy_number(context->policy);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Puts what is known where reading and matching would have put it. */
static void put_back(const struct sl_door_context *context, struct sl_rls_worker *worker,
                     const struct sl_rls_known *known) {
	struct sl_rls_request *request = &worker->request;
	struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	request->domain = known->domain;
	request->hits = known->hits;
	request->descriptor_count = known->descriptor_count;
	request->entry_count = known->entry_count;
	memcpy(request->descriptors, known->descriptors, known->descriptor_count * sizeof known->descriptors[0]);
	worker->has_rules = sl_policy_settings(context->policy)->envoy.config != NULL;
	if (worker->has_rules) {
		memcpy(request->entries, known->entries, known->entry_count * sizeof known->entries[0]);
		memcpy(worker->found, known->found, known->descriptor_count * sizeof known->found[0]);
	}
	memcpy(worker->attributes, known->attributes, known->attribute_count * sizeof known->attributes[0]);
	worker->attribute_count = known->attribute_count;
	for (uint32_t kind = 0; kind < SL_RLS_GROUPS; kind++)
		sl_rls_group_clear(&worker->groups[kind]);
	group->used = true;
	group->match.count = known->item_count;
	for (uint32_t i = 0; i < known->item_count; i++) {
		group->items[i] = group->match.items[i] = known->items[i];
		group->match.position[i] = known->positions[i];
		group->owner[i] = known->owner[i];
		group->costs[i] = known->costs[i];
	}
	group->call = (struct sluice_call){.items = group->items,
	                                   .item_count = known->item_count,
	                                   .cost = known->cost,
	                                   .operation = SLUICE_CHARGE,
	                                   .each = group->each,
	                                   .want_next = true};
}

enum sl_rls_read sl_rls_read(const struct sl_door_context *context, struct sl_rls_worker *worker,
                             struct sluice_bytes message) {
	worker->met = worker->room = NULL;
	if (message.len == 0 || message.len > SL_RLS_KNOWN_BYTES_MAX)
		return sl_rls_request_read(&worker->request, message);
	uint64_t hash = sl_recall_hash(message);
	struct sl_rls_known *known = &worker->known[hash >> 32 & (SL_RLS_KNOWN - 1)];
	if (known->policy_number == sl_policy_number(context->policy) &&
	    sl_recall_is((const char *)known->message, known->len, message)) {
		put_back(context, worker, known);
		worker->met = known;
		return SL_RLS_READ;
	}
	if (known->last == hash) {
		worker->room = known;
		worker->message = message;
	}
	known->last = hash;
	return sl_rls_request_read(&worker->request, message);
}
