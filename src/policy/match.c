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
 * conditions, overrides, key. Where there are many, of limits or of a limit's overrides, an index tells those whose
 * conditions may hold, in the same order (index.h). Nothing is allocated; a key is written to the caller's buffer and
 * taken back if its limit does not apply.
 */
#include "algo/traits.h"
#include "base/assert.h"
#include "policy/attribute.h"
#include "policy/explain.h"
#include "policy/index.h"
#include "policy/key.h"
#include "policy/pattern.h"
#include "policy/quotas.h"
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
	if (high == 1)
		return sl_bytes_equal(condition->exact[0], value);
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

/* An IPv6 value is a network already, of ipv6-prefix bits. */
static bool is_in_networks(const struct sl_condition *condition, struct sluice_bytes value) {
	struct sl_network of;
	if (!sl_network_parse(value, &of, NULL))
		return false;
	for (uint32_t i = 0; i < condition->network_count; i++)
		if (sl_network_covers(&condition->networks[i], &of))
			return true;
	return false;
}

static bool ends_as_said(const struct sl_condition *condition, struct sluice_bytes value) {
	for (uint32_t i = 0; i < condition->suffix_count; i++) {
		struct sluice_bytes suffix = condition->suffixes[i];
		const char *end = (const char *)value.data + value.len;
		if (suffix.len < value.len && memcmp(suffix.data, end - suffix.len, suffix.len) == 0)
			return true;
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
	if (condition->network_count != 0)
		return is_in_networks(condition, value);
	if (condition->suffix_count != 0)
		return ends_as_said(condition, value);
	return condition->has_parts && sl_routes_hold(condition, value);
}

bool sl_when_holds(const struct sl_when *when, const struct sluice_bytes *values) {
	for (uint32_t i = 0; i < when->count; i++) {
		struct sluice_bytes value = values[when->list[i].attribute];
		if (value.data == NULL || !sl_condition_holds(&when->list[i], value))
			return false;
	}
	for (uint32_t i = 0; i < when->except_count; i++)
		if (sl_when_holds(&when->except[i], values))
			return false;
	return true;
}

/* ---- one limit ----------------------------------------------------------------------------------------------- */

/* The number of the first override that fits, of many; their count: none does. */
static __attribute__((noinline)) uint32_t find_override(const struct sl_ruleset_limit *limit,
                                                        const struct sluice_bytes *values) {
	struct sl_index_walk walk;
	sl_index_begin(limit->index, values, &walk);
	for (uint32_t i = sl_index_next(&walk); i != SL_INDEX_END; i = sl_index_next(&walk))
		if (sl_when_holds(&limit->overrides[i].when, values))
			return i;
	return limit->shown.override_count;
}

/* Whether conditions may hold, as far as the first of them tells at a glance: that of most overrides does. */
static inline bool when_may_hold(const struct sl_when *when, const struct sluice_bytes *values) {
	if (when->count == 0)
		return true;
	const struct sl_condition *first = &when->list[0];
	struct sluice_bytes value = values[first->attribute];
	return value.data != NULL && (value.len >= 64 || (first->not_of >> value.len & 1) == 0);
}

/* What counts for a request, and for whom it is enforced: the first override that fits, else the limit itself. */
static inline __attribute__((always_inline)) const struct sluice_limit *
choose(const struct sl_ruleset_limit *limit, const struct sluice_bytes *values, const struct sl_rollout **rollout) {
	uint32_t i = 0, count = limit->shown.override_count;
	if (count != 0 && limit->index != NULL)
		i = find_override(limit, values);
	else
		while (i < count && !(when_may_hold(&limit->overrides[i].when, values) &&
		                      sl_when_holds(&limit->overrides[i].when, values)))
			i++;
	if (i == count) {
		*rollout = &limit->rollout;
		return &limit->shown.limit;
	}
	const struct sl_override *override = &limit->overrides[i];
	*rollout = &override->rollout;
	return override->own ? &override->limit : &limit->shown.limit;
}

static inline __attribute__((always_inline)) bool write_part(const struct sluice_policy *policy,
                                                             const struct sl_key_part *part,
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
static inline __attribute__((always_inline)) bool write_key(const struct sluice_policy *policy,
                                                            const struct sl_ruleset_limit *limit,
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

bool sl_quota_of(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                 const struct sluice_bytes *values, struct sl_quota *quota) {
	char text[SLUICE_KEY_BYTES_MAX]; /* a longer key is folded, and no file has it */
	struct sl_out out = sl_out_to(text, sizeof text);
	return write_key(policy, limit, values, &out) && !out.overflow &&
	       sl_quotas_find(limit->quotas, sl_slice(text, sl_out_len(&out)), quota);
}

/* What counts for a key that has a quota of its own, in place of what its limit and the overrides say. */
static __attribute__((noinline)) void choose_by_key(const struct sluice_policy *policy,
                                                    const struct sl_ruleset_limit *limit,
                                                    const struct sluice_bytes *values, struct sluice_item *item,
                                                    const struct sl_rollout **rollout) {
	struct sl_quota quota;
	if (!sl_quota_of(policy, limit, values, &quota))
		return;
	item->limit = quota.limit;
	*rollout = &limit->rollout;
}

/* Fills the item of a limit that applies; with nothing written where what it counts by is absent. Its key may be there
 * already: item->key. */
static inline __attribute__((always_inline)) enum sl_why
fill_item(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit, const struct sluice_bytes *values,
          struct sluice_bytes member, struct sluice_item *item, struct sl_out *out) {
	char *key = out->at;
	bool members = sl_rule_has(item->limit, SL_TAKES_MEMBER), of = members && member.data == NULL;
	if (of && values[limit->of].data == NULL)
		return SL_WHY_MEMBER;
	if (item->key.data == NULL) {
		if (!write_key(policy, limit, values, out))
			return SL_WHY_KEY;
		item->key = sl_key_fold(key, sl_slice(key, (size_t)(out->at - key)));
		out->at = key + item->key.len;
	}
	item->ttl_ns = limit->shown.reserve.ttl_ns;
	if (limit->shown.cost.on)
		item->cost = cost_of(limit, values);
	if (limit->shown.has_terms)
		item->terms = &limit->shown.terms;
	if (members)
		item->member = member.len <= SLUICE_KEY_BYTES_MAX ? member : copy_member(out, member);
	if (of)
		item->member = copy_member(out, values[limit->of]);
	return SL_WHY_COUNTS;
}

/* What of a limit's answer is known before it is considered. */
struct foregone {
	bool holds;              /* its conditions do */
	struct sluice_bytes key; /* data NULL: it has to be written */
};
static const struct foregone nothing_known = {false, {NULL, 0}};

/* Whether a limit counts for a request, and then its item, observed or not; else why not.
 *  rollout  out: of what counts, the limit or an override; unless its conditions don't hold
 *  places   those of the limit before, which are left; then this one's */
static inline __attribute__((always_inline)) enum sl_why
consider(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit, const struct foregone *known,
         struct sluice_bytes *values, struct sl_route_places *places, struct sluice_bytes member,
         struct sluice_item *item, const struct sl_rollout **rollout, struct sl_out *out) {
	if (places->count != 0)
		sl_route_leave(places, values);
	if (!known->holds && !sl_when_is_empty(&limit->when) && !sl_when_holds(&limit->when, values))
		return SL_WHY_WHEN;
	if (limit->routed != NULL)
		sl_route_enter(limit->routed, policy->route, values, places);
	*item = (struct sluice_item){.limit = choose(limit, values, rollout), .key = known->key};
	if (limit->quotas != NULL)
		choose_by_key(policy, limit, values, item, rollout);
	if (!sl_rule_has(item->limit, SL_HAS_COUNTER))
		return SL_WHY_UNLIMITED;
	enum sl_why why = fill_item(policy, limit, values, member, item, out);
	if (why == SL_WHY_COUNTS)
		item->observed = sl_rollout_observes(*rollout, values);
	return why;
}

/* ---- a request ----------------------------------------------------------------------------------------------- */

/* Memory for the forms of the four attributes that have one. */
struct forms {
	char memory[SL_ATTRIBUTE_HOST + 1][SLUICE_KEY_BYTES_MAX];
};

static inline void put_value(const struct sluice_policy *policy, struct sluice_bytes *values, uint16_t number,
                             struct sluice_bytes value, struct forms *forms) {
	uint8_t attribute = policy->names[number].attribute;
	values[number] = (struct sluice_bytes){value.len == 0 ? "" : value.data, value.len};
	if (attribute != SL_ATTRIBUTE_OTHER)
		values[number] = sl_attribute_counted(attribute, values[number], policy->settings.ipv6_prefix,
		                                      policy->settings.paths, forms->memory[attribute]);
}

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
		put_value(policy, values, number, value, forms);
	}
	return strangers > 1 && sl_attribute_repeated(attributes, count) != count ? SLUICE_E_MISUSE : SLUICE_OK;
}

static inline bool is_blocked(const struct sluice_match *match) {
	return match->count == SLUICE_ITEMS_MAX && match->items[SLUICE_ITEMS_MAX - 1].bound == SLUICE_BOUND_LIMITS;
}

/* Keeps a limit that has no place among those that are decided. One that is enforced takes the last place, and denies,
 * whatever else counts; then the one that had that place has none. It is kept even if SLUICE_BEYOND_MAX are. */
static __attribute__((noinline)) enum sl_why add_beyond(struct sluice_match *match, const struct sluice_item *item,
                                                        uint32_t position) {
	enum { LAST = SLUICE_ITEMS_MAX - 1 };
	const bool takes = !item->observed && !is_blocked(match), full = match->beyond == SLUICE_BEYOND_MAX;
	const uint32_t at = SLUICE_ITEMS_MAX + match->beyond - full;
	if (full && !takes)
		return SL_WHY_LATER;
	match->items[at] = takes ? match->items[LAST] : *item;
	match->position[at] = takes ? match->position[LAST] : position;
	match->items[at].bound = SLUICE_BOUND_LIMITS;
	match->items[at].ttl_ns = 0;
	match->beyond += !full;
	if (takes) {
		match->items[LAST] = *item;
		match->items[LAST].bound = SLUICE_BOUND_LIMITS;
		match->items[LAST].ttl_ns = 0;
		match->position[LAST] = position;
	}
	return SL_WHY_BEYOND;
}

/* Adds the item of a limit that counts. SL_WHY_BEYOND: there is no place for it, but it is kept; SL_WHY_LATER: not. */
static inline enum sl_why add_item(struct sluice_match *match, const struct sluice_item *item, uint32_t position) {
	if (match->count == SLUICE_ITEMS_MAX)
		return add_beyond(match, item, position);
	match->items[match->count] = *item;
	match->position[match->count++] = position;
	return SL_WHY_COUNTS;
}

bool sl_match_add(struct sluice_match *match, const struct sluice_item *item, uint32_t position) {
	return add_item(match, item, position) == SL_WHY_COUNTS;
}

/* A request while it is matched. */
struct matching {
	const struct sluice_policy *policy;
	struct sluice_bytes *values;
	struct sluice_bytes member;
	struct sluice_match *match;
	struct sl_out *out;
	struct sl_route_places places;
};

/* Considers a limit, and adds its item where it counts. False: no more are to be. *key: of the item; NULL: none. */
static inline __attribute__((always_inline)) bool match_limit(struct matching *m, uint32_t position,
                                                              const struct foregone *known, struct sluice_bytes *key) {
	const struct sl_rollout *rollout;
	struct sluice_item item;
	char *start = m->out->at;
	key->data = NULL;
	if (consider(m->policy, &m->policy->limits[position], known, m->values, &m->places, m->member, &item, &rollout,
	             m->out) != SL_WHY_COUNTS)
		return true;
	if (m->out->overflow)
		return false;
	if (add_item(m->match, &item, position) != SL_WHY_LATER) {
		*key = item.key;
		return true;
	}
	m->out->at = start;
	return !is_blocked(m->match);
}

/* An index is asked before the first limit puts its route among the values. */
static sluice_err match_limits(const struct sluice_policy *policy, struct sluice_bytes *values,
                               struct sluice_bytes member, struct sluice_match *match, struct sl_out *out) {
	struct matching matching = {.policy = policy, .values = values, .member = member, .match = match, .out = out};
	struct sluice_bytes key;
	struct sl_index_walk walk;
	const bool many = policy->index != NULL;
	if (many)
		sl_index_begin(policy->index, values, &walk);
	for (uint32_t i = many ? sl_index_next(&walk) : 0; i < policy->limit_count;
	     i = many ? sl_index_next(&walk) : i + 1)
		if (!match_limit(&matching, i, &nothing_known, &key))
			break;
	return out->overflow ? SLUICE_E_RANGE : SLUICE_OK;
}

/* ---- a request of a pattern -------------------------------------------------------------------------------------- */

static sluice_err match_listed(const struct sl_pattern *pattern, const struct sluice_policy *policy,
                               struct sluice_bytes *values, struct sluice_match *match, struct sl_out *out) {
	struct matching matching = {.policy = policy, .values = values, .match = match, .out = out};
	struct sluice_bytes keys[SL_PATTERN_LIMITS_MAX];
	for (uint32_t i = 0; i < pattern->limit_count; i++) {
		const struct sl_pattern_limit *limit = &pattern->limits[i];
		struct foregone known = {limit->sure, {NULL, 0}};
		if (limit->key_of != 0)
			known.key = keys[limit->key_of - 1];
		if (!match_limit(&matching, limit->position, &known, &keys[i]))
			break;
	}
	return out->overflow ? SLUICE_E_RANGE : SLUICE_OK;
}

sluice_err sl_pattern_match(const struct sl_pattern *pattern, const struct sluice_policy *policy,
                            const struct sluice_attribute *attributes, struct sluice_match *match, void *buffer,
                            size_t buffer_bytes) {
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	struct forms forms;
	struct sl_out out = sl_out_to(buffer, buffer_bytes);
	SL_ASSERT(sl_pattern_is_of(pattern, policy) && pattern->count <= SL_PATTERN_ATTRIBUTES_MAX);
	memcpy(values, pattern->values, policy->name_count * sizeof values[0]);
	for (uint32_t left = pattern->varies; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		if (pattern->numbers[i] != SL_NAME_NONE)
			put_value(policy, values, pattern->numbers[i], attributes[i].value, &forms);
	}
	match->count = match->beyond = 0;
	sluice_err err = pattern->listed ? match_listed(pattern, policy, values, match, &out)
	                                 : match_limits(policy, values, sl_slice(NULL, 0), match, &out);
	if (err != SLUICE_OK)
		match->count = 0;
	return err;
}

/* ---- any request ------------------------------------------------------------------------------------------------- */

/* The limits of one request, after those that the match has; keys go to `out`. */
static sluice_err match_request(const struct sluice_policy *policy, const struct sluice_attribute *attributes,
                                size_t count, struct sluice_bytes member, struct sluice_match *match,
                                struct sl_out *out) {
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	struct forms forms;
	sluice_err err = sort_attributes(policy, attributes, count, values, &forms);
	return err == SLUICE_OK ? match_limits(policy, values, member, match, out) : err;
}

sluice_err sl_policy_match(const struct sluice_policy *policy, const struct sluice_attribute *attributes, size_t count,
                           struct sluice_bytes member, struct sluice_match *match, void *buffer, size_t buffer_bytes) {
	char nothing[1];
	if (policy == NULL || match == NULL || (attributes == NULL && count != 0) || (buffer == NULL && buffer_bytes != 0))
		return SLUICE_E_MISUSE;
	match->count = match->beyond = 0;
	struct sl_out out = sl_out_to(buffer == NULL ? nothing : buffer, buffer_bytes);
	sluice_err err = match_request(policy, attributes, count, member, match, &out);
	if (err != SLUICE_OK)
		match->count = 0;
	return err;
}

sluice_err sl_policy_match_more(const struct sluice_policy *policy, const struct sluice_attribute *attributes,
                                size_t count, struct sluice_match *match, void *buffer, size_t buffer_bytes,
                                size_t *buffer_used) {
	struct sl_out out = sl_out_to((char *)buffer + *buffer_used, buffer_bytes - *buffer_used);
	sluice_err err = match_request(policy, attributes, count, sl_slice(NULL, 0), match, &out);
	*buffer_used += sl_out_len(&out);
	return err;
}

sluice_err sluice_policy_match(const struct sluice_policy *policy, const struct sluice_attribute *attributes,
                               size_t count, struct sluice_match *match, void *buffer, size_t buffer_bytes) {
	return sl_policy_match(policy, attributes, count, sl_slice(NULL, 0), match, buffer, buffer_bytes);
}

/* ---- what each limit says of a request ------------------------------------------------------------------------- */

/* The longest key before it is folded, and a member. */
enum { KEY_ROOM = (SL_POLICY_KEY_PARTS_MAX * 3 + 1) * (SLUICE_NAME_BYTES_MAX + SLUICE_KEY_BYTES_MAX + 2) };

/* The place of a limit among those of a match; -1: it has none. */
static int32_t place_of(const struct sluice_match *match, uint32_t position) {
	for (uint32_t i = 0; i < match->count; i++)
		if (match->position[i] == position)
			return (int32_t)i;
	return -1;
}

uint32_t sl_policy_told_count(const struct sluice_policy *policy) {
	return policy->limit_count < SL_TOLD_MAX ? policy->limit_count : SL_TOLD_MAX;
}

void sl_policy_explain(const struct sluice_policy *policy, const struct sluice_attribute *attributes, size_t count,
                       struct sluice_bytes member, const struct sluice_match *match,
                       void (*tell)(void *to, const struct sl_policy_told *told), void *to) {
	const bool too_many = is_blocked(match);
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	struct sl_route_places places;
	struct forms forms;
	char key[KEY_ROOM];
	sluice_err err = sort_attributes(policy, attributes, count, values, &forms);
	SL_ASSERT(err == SLUICE_OK);
	places.count = 0;
	uint32_t others = sl_policy_told_count(policy) - match->count;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_rollout *rollout = NULL;
		struct sluice_item item;
		struct sl_out out = sl_out_to(key, sizeof key);
		struct sl_policy_told told = {.policy = policy, .position = i, .item = place_of(match, i), .values = values};
		if (told.item < 0 && others-- == 0) {
			others = 0;
			continue;
		}
		enum sl_why why = consider(policy, &policy->limits[i], &nothing_known, values, &places, member, &item,
		                           &rollout, &out);
		if (why == SL_WHY_COUNTS && told.item < 0)
			why = too_many ? SL_WHY_LATER : SL_WHY_BEYOND;
		SL_ASSERT(!out.overflow && (why == SL_WHY_COUNTS) == (told.item >= 0));
		told.why = (uint8_t)why;
		told.rollout = rollout;
		tell(to, &told);
	}
}
