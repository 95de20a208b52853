/* From a request to the items that a check decides.
 *
 *   key = pair *( "," pair )      pair = encode(name) "=" encode(value)      encode: % , = become %25 %2C %3D
 *
 * Injective: within an encoded name or value none of the separators occurs, so a key splits into its pairs in one way
 * only, and encode() can be undone. Two requests share a counter of a limit exactly when every part of the key found
 * the same name with the same value. With `user | ip` the name is that of the attribute found: the user "10.0.0.1" is
 * nobody's address. What is longer than SLUICE_KEY_BYTES_MAX is folded (key.h), and can't be undone.
 *
 * One pass: attributes into an array by number, in their forms (attribute.h); then each limit in file order:
 * conditions, overrides, key. Nothing is allocated; a key is written to the caller's buffer and taken back if its limit
 * does not apply.
 */
#include "algo/traits.h"
#include "policy/attribute.h"
#include "policy/key.h"
#include "policy/route.h"

/* A member, as it is: it stands in no key. */
static __attribute__((noinline)) struct sluice_bytes copy_member(struct sl_out *out, struct sluice_bytes value) {
	char folded[SLUICE_KEY_BYTES_MAX];
	value = sl_key_fold(folded, value);
	char *start = out->at;
	sl_out_bytes(out, value.data, value.len);
	return sl_slice(start, value.len);
}

/* ---- conditions ---------------------------------------------------------------------------------------------- */

int sl_value_compare(const void *a, const void *b) {
	const struct sluice_bytes *x = a, *y = b;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->len == 0 ? 0 : memcmp(x->data, y->data, x->len);
}

static bool is_exactly(const struct sl_condition *condition, struct sluice_bytes value) {
	uint32_t low = 0, high = condition->exact_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = sl_value_compare(&condition->exact[middle], &value);
		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool sl_condition_holds(const struct sl_condition *condition, struct sluice_bytes value) {
	if (is_exactly(condition, value))
		return true;
	for (uint32_t i = 0; i < condition->prefix_count; i++) {
		struct sluice_bytes prefix = condition->prefixes[i];
		if (prefix.len <= value.len && (prefix.len == 0 || memcmp(prefix.data, value.data, prefix.len) == 0))
			return true;
	}
	return condition->has_parts && sl_routes_hold(condition, value);
}

bool sl_when_holds(const struct sl_when *when, const struct sluice_bytes *values) {
	for (uint32_t i = 0; i < when->count; i++) {
		struct sluice_bytes value = values[when->list[i].attribute];
		if (value.data == NULL || !sl_condition_holds(&when->list[i], value))
			return false;
	}
	return true;
}

/* ---- one limit ----------------------------------------------------------------------------------------------- */

/* What counts for a request, and for whom it is enforced: the first override that fits, else the limit itself. */
static const struct sluice_limit *choose(const struct sl_ruleset_limit *limit, const struct sluice_bytes *values,
                                         const struct sl_rollout **rollout) {
	for (uint32_t i = 0; i < limit->shown.override_count; i++) {
		const struct sl_override *override = &limit->overrides[i];
		if (sl_when_holds(&override->when, values)) {
			*rollout = &override->rollout;
			return override->own ? &override->limit : &limit->shown.limit;
		}
	}
	*rollout = &limit->rollout;
	return &limit->shown.limit;
}

static bool write_part(const struct sluice_policy *policy, const struct sl_key_part *part,
                       const struct sluice_bytes *values, struct sl_out *out) {
	for (uint32_t i = 0; i < part->count; i++) {
		struct sluice_bytes value = values[part->choices[i]];
		if (value.data == NULL)
			continue;
		struct sluice_bytes name = policy->names[part->choices[i]].encoded;
		sl_out_bytes(out, name.data, name.len);
		sl_key_add(out, value);
		return true;
	}
	sl_out_bytes(out, part->literal.data, part->literal.len);
	return part->literal.data != NULL;
}

/* Writes the key of a request; false, with nothing written, where a part of it is absent. */
static bool write_key(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                      const struct sluice_bytes *values, struct sl_out *out) {
	char *start = out->at;
	for (uint32_t i = 0; i < limit->part_count; i++) {
		if (i > 0)
			sl_out_char(out, ',');
		if (!write_part(policy, &limit->parts[i], values, out)) {
			out->at = start;
			out->overflow = false;
			return false;
		}
	}
	return true;
}

/* What the policy itself says that a request costs at a limit; 0: the request says it. */
static __attribute__((noinline)) uint32_t cost_of(const struct sl_ruleset_limit *limit,
                                                  const struct sluice_bytes *values) {
	const struct sl_policy_cost *cost = &limit->shown.cost;
	for (uint32_t i = 0; i < cost->route_count; i++)
		if (sl_when_holds(&limit->cost_routes[i].when, values))
			return limit->cost_routes[i].cost;
	return cost->header == NULL ? cost->cost : 0;
}

/* Fills the item of a limit that applies; false, with nothing written, where what it counts by is absent. */
static bool fill_item(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                      const struct sluice_bytes *values, struct sluice_bytes member, struct sluice_item *item,
                      struct sl_out *out) {
	char *key = out->at;
	bool members = sl_rule_has(item->limit, SL_TAKES_MEMBER), of = members && member.data == NULL;
	if (of && values[limit->of].data == NULL)
		return false;
	if (!write_key(policy, limit, values, out))
		return false;
	item->key = sl_key_fold(key, sl_slice(key, (size_t)(out->at - key)));
	out->at = key + item->key.len;
	item->ttl_ns = limit->shown.reserve.ttl_ns;
	if (limit->shown.cost.on)
		item->cost = cost_of(limit, values);
	if (limit->shown.has_terms)
		item->terms = &limit->shown.terms;
	if (members)
		item->member = member;
	if (of)
		item->member = copy_member(out, values[limit->of]);
	return true;
}

/* ---- a request ----------------------------------------------------------------------------------------------- */

/* Memory for the forms of the four attributes that have one. */
struct forms {
	char memory[SL_ATTRIBUTE_HOST + 1][SLUICE_KEY_BYTES_MAX];
};

static sluice_err sort_attributes(const struct sluice_policy *policy, const struct sluice_attribute *attributes,
                                  size_t count, struct sluice_bytes *values, struct forms *forms) {
	size_t strangers = 0;
	memset(values, 0, policy->name_count * sizeof *values);
	for (size_t i = 0; i < count; i++) {
		struct sluice_bytes name = attributes[i].name, value = attributes[i].value;
		if (name.len == 0 || name.len > SLUICE_NAME_BYTES_MAX)
			return SLUICE_E_RANGE;
		uint16_t number = sl_name_find(policy, name);
		if (number == SL_NAME_NONE) {
			strangers++;
			continue;
		}
		if (values[number].data != NULL)
			return SLUICE_E_MISUSE;
		uint8_t attribute = policy->names[number].attribute;
		values[number] = (struct sluice_bytes){value.len == 0 ? "" : value.data, value.len};
		if (attribute != SL_ATTRIBUTE_OTHER)
			values[number] = sl_attribute_counted(attribute, values[number], policy->settings.ipv6_prefix,
			                                      policy->settings.paths, forms->memory[attribute]);
	}
	return strangers > 1 && sl_attribute_repeated(attributes, count) != count ? SLUICE_E_MISUSE : SLUICE_OK;
}

/* A limit that applies after so many as can be decided: one that is only observed is noted; another takes the last
 * place, and denies, whatever else applies. Returns whether it does. */
static bool add_beyond(struct sluice_match *match, struct sluice_item item, uint32_t position) {
	if (item.observed) {
		match->beyond = match->beyond != 0 ? match->beyond : position + 1;
		return false;
	}
	item.bound = SLUICE_BOUND_LIMITS;
	item.ttl_ns = 0;
	match->items[SLUICE_ITEMS_MAX - 1] = item;
	match->position[SLUICE_ITEMS_MAX - 1] = position;
	return true;
}

static sluice_err match_limits(const struct sluice_policy *policy, struct sluice_bytes *values,
                               struct sluice_bytes member, struct sluice_match *match, struct sl_out *out) {
	struct sl_route_places places;
	places.count = 0;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_ruleset_limit *limit = &policy->limits[i];
		if (places.count != 0)
			sl_route_leave(&places, values);
		if (!sl_when_holds(&limit->when, values))
			continue;
		if (limit->routed != NULL)
			sl_route_enter(limit->routed, policy->route, values, &places);
		const struct sl_rollout *rollout;
		const struct sluice_limit *rule = choose(limit, values, &rollout);
		struct sluice_item item = {.limit = rule};
		char *key = out->at;
		if (!sl_rule_has(rule, SL_HAS_COUNTER) || !fill_item(policy, limit, values, member, &item, out))
			continue;
		if (out->overflow)
			return SLUICE_E_RANGE;
		item.observed = sl_rollout_observes(rollout, values);
		if (match->count == SLUICE_ITEMS_MAX) {
			if (add_beyond(match, item, i))
				return SLUICE_OK;
			out->at = key;
			continue;
		}
		match->items[match->count] = item;
		match->position[match->count++] = i;
	}
	return SLUICE_OK;
}

sluice_err sl_policy_match(const struct sluice_policy *policy, const struct sluice_attribute *attributes, size_t count,
                           struct sluice_bytes member, struct sluice_match *match, void *buffer, size_t buffer_bytes) {
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	struct forms forms;
	char nothing[1];
	if (policy == NULL || match == NULL || (attributes == NULL && count != 0) || (buffer == NULL && buffer_bytes != 0))
		return SLUICE_E_MISUSE;
	match->count = match->beyond = 0;
	struct sl_out out = sl_out_to(buffer == NULL ? nothing : buffer, buffer_bytes);
	sluice_err err = sort_attributes(policy, attributes, count, values, &forms);
	if (err == SLUICE_OK)
		err = match_limits(policy, values, member, match, &out);
	if (err != SLUICE_OK)
		match->count = 0;
	return err;
}

sluice_err sluice_policy_match(const struct sluice_policy *policy, const struct sluice_attribute *attributes,
                               size_t count, struct sluice_match *match, void *buffer, size_t buffer_bytes) {
	return sl_policy_match(policy, attributes, count, sl_slice(NULL, 0), match, buffer, buffer_bytes);
}
