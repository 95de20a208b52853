/* Making patterns: what of a match follows from the values that stay the same. See pattern.h. */
#include "policy/pattern.h"

#include "base/assert.h"
#include "base/recall.h"
#include "policy/attribute.h"
#include "policy/index.h"

/* What is known of a condition. */
enum known { NO, YES, PERHAPS };

/* A bit for each attribute by number. */
struct varying {
	uint64_t bits[SL_ATTRIBUTES_MAX / 64];
};

static bool varies(const struct varying *varying, uint32_t number) {
	return (varying->bits[number / 64] >> number % 64 & 1) != 0;
}

static enum known know(const struct sl_when *when, const struct sl_pattern *pattern, const struct varying *varying) {
	enum known known = YES;
	for (uint32_t i = 0; i < when->count; i++) {
		const struct sl_condition *condition = &when->list[i];
		struct sluice_bytes value = pattern->values[condition->attribute];
		if (varies(varying, condition->attribute))
			known = PERHAPS;
		else if (value.data == NULL || !sl_condition_holds(condition, value))
			return NO;
	}
	for (uint32_t i = 0; i < when->except_count; i++) {
		enum known except = know(&when->except[i], pattern, varying);
		if (except == YES)
			return NO;
		if (except == PERHAPS)
			known = PERHAPS;
	}
	return known;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Keeps the form of a value that stays the same. False: there is no room for it. */
static bool keep_value(struct sl_pattern *pattern, const struct sluice_policy *policy, uint16_t number,
                       struct sluice_bytes value, size_t *used) {
	char memory[SLUICE_KEY_BYTES_MAX];
	uint8_t attribute = policy->names[number].attribute;
	value = (struct sluice_bytes){value.len == 0 ? "" : value.data, value.len};
	if (attribute != SL_ATTRIBUTE_OTHER)
		value = sl_attribute_counted(attribute, value, policy->settings.ipv6_prefix, policy->settings.paths, memory);
	if (value.len > sizeof pattern->memory - *used)
		return false;
	memcpy(pattern->memory + *used, value.data, value.len);
	pattern->values[number] = sl_slice(pattern->memory + *used, value.len);
	*used += value.len;
	return true;
}

static void sort(struct sl_pattern *pattern, const struct sluice_policy *policy,
                 const struct sluice_attribute *attributes, struct varying *varying) {
	size_t used = 0;
	memset(pattern->values, 0, policy->name_count * sizeof pattern->values[0]);
	for (uint32_t i = 0; i < pattern->count; i++) {
		uint16_t number = sl_name_find(policy, attributes[i].name);
		pattern->numbers[i] = number;
		if (number == SL_NAME_NONE)
			continue;
		if ((pattern->varies >> i & 1) == 0 && !keep_value(pattern, policy, number, attributes[i].value, &used))
			pattern->varies |= 1u << i;
		if ((pattern->varies >> i & 1) != 0)
			varying->bits[number / 64] |= (uint64_t)1 << number % 64;
	}
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Do two limits count for the same whoever asks? Where paths fill in attributes, each by its own. */
static bool counts_alike(const struct sl_ruleset_limit *a, const struct sl_ruleset_limit *b) {
	if (a->part_count != b->part_count || a->routed != NULL || b->routed != NULL)
		return false;
	for (uint32_t i = 0; i < a->part_count; i++) {
		const struct sl_key_part *x = &a->parts[i], *y = &b->parts[i];
		bool literal = x->literal.data != NULL;
		if (x->count != y->count || memcmp(x->choices, y->choices, x->count * sizeof x->choices[0]) != 0 ||
		    literal != (y->literal.data != NULL) || (literal && !sl_bytes_equal(x->literal, y->literal)))
			return false;
	}
	return true;
}

static uint8_t key_of(const struct sl_pattern *pattern, const struct sluice_policy *policy, uint32_t position) {
	for (uint32_t i = 0; i < pattern->limit_count; i++)
		if (counts_alike(&policy->limits[pattern->limits[i].position], &policy->limits[position]))
			return (uint8_t)(i + 1);
	return 0;
}

/* False: there is no room for it. */
static bool add_limit(struct sl_pattern *pattern, const struct sluice_policy *policy, uint32_t position,
                      const struct varying *varying) {
	enum known known = know(&policy->limits[position].when, pattern, varying);
	if (known == NO)
		return true;
	if (pattern->limit_count == SL_PATTERN_LIMITS_MAX)
		return false;
	pattern->limits[pattern->limit_count] = (struct sl_pattern_limit){
		.position = position, .key_of = key_of(pattern, policy, position), .sure = known == YES};
	pattern->limit_count++;
	return true;
}

/* Does the index tell the same whatever the values are that differ? */
static bool tells_the_same(const struct sl_index *index, const struct varying *varying) {
	for (uint32_t number = 0; number < SL_ATTRIBUTES_MAX; number++)
		if (varies(varying, number) && sl_index_asks(index, number))
			return false;
	return true;
}

static bool list_limits(struct sl_pattern *pattern, const struct sluice_policy *policy, const struct varying *varying) {
	struct sl_index_walk walk;
	const bool many = policy->index != NULL;
	pattern->limit_count = 0;
	if (many && !tells_the_same(policy->index, varying))
		return false;
	if (many)
		sl_index_begin(policy->index, pattern->values, &walk);
	for (uint32_t i = many ? sl_index_next(&walk) : 0; i < policy->limit_count;
	     i = many ? sl_index_next(&walk) : i + 1)
		if (!add_limit(pattern, policy, i, varying))
			return false;
	return true;
}

/* ---- values that nothing asks for -------------------------------------------------------------------------------- */

static bool when_asks(const struct sl_when *when, uint32_t number) {
	bool asks = false;
	for (uint32_t i = 0; i < when->count; i++)
		asks = asks || when->list[i].attribute == number;
	for (uint32_t i = 0; i < when->except_count; i++)
		asks = asks || when_asks(&when->except[i], number);
	return asks;
}

static bool rollout_asks(const struct sl_rollout *rollout, uint32_t number) {
	return rollout->canary && rollout->attribute == number;
}

/* Among the choices of a part up to the first that every such request has? */
static bool part_asks(const struct sl_key_part *part, const struct sl_pattern *pattern, const struct varying *varying,
                      uint32_t number) {
	for (uint32_t i = 0; i < part->count; i++) {
		uint32_t choice = part->choices[i];
		if (choice == number)
			return true;
		if (varies(varying, choice) || pattern->values[choice].data != NULL)
			return false;
	}
	return false;
}

/* Perhaps, where paths fill in attributes. */
static bool limit_asks(const struct sl_ruleset_limit *limit, const struct sl_pattern *pattern,
                       const struct varying *varying, uint32_t number) {
	bool asks = limit->routed != NULL || limit->of == number || when_asks(&limit->when, number) ||
	            rollout_asks(&limit->rollout, number);
	for (uint32_t i = 0; i < limit->shown.cost.route_count && !asks; i++)
		asks = when_asks(&limit->cost_routes[i].when, number);
	for (uint32_t i = 0; i < limit->shown.override_count && !asks; i++)
		asks = when_asks(&limit->overrides[i].when, number) || rollout_asks(&limit->overrides[i].rollout, number);
	for (uint32_t i = 0; i < limit->part_count && !asks; i++)
		asks = part_asks(&limit->parts[i], pattern, varying, number);
	return asks;
}

/* A value that no limit of the list asks for is not brought into its form: of `user | ip`, an ip beside a user. */
static void leave_out(struct sl_pattern *pattern, const struct sluice_policy *policy, const struct varying *varying) {
	for (uint32_t left = pattern->varies; left != 0; left &= left - 1) {
		uint16_t *number = &pattern->numbers[__builtin_ctz(left)];
		bool asks = *number == SL_NAME_NONE;
		for (uint32_t i = 0; i < pattern->limit_count && !asks; i++)
			asks = limit_asks(&policy->limits[pattern->limits[i].position], pattern, varying, *number);
		*number = asks ? *number : SL_NAME_NONE;
	}
}

bool sl_pattern_make(struct sl_pattern *pattern, const struct sluice_policy *policy,
                     const struct sluice_attribute *attributes, uint32_t count, uint32_t varies) {
	struct varying varying = {{0}};
	pattern->policy_number = 0;
	if (count > SL_PATTERN_ATTRIBUTES_MAX)
		return false;
	pattern->count = count;
	pattern->varies = varies;
	sort(pattern, policy, attributes, &varying);
	pattern->listed = list_limits(pattern, policy, &varying);
	if (pattern->listed)
		leave_out(pattern, policy, &varying);
	pattern->policy_number = policy->number;
	return true;
}

/* ---- finding the pattern of a request ---------------------------------------------------------------------------- */

static inline bool is_piece(const struct sl_pattern_memo *memo, struct sl_pattern_piece piece,
                            struct sluice_bytes text) {
	return sl_recall_is(memo->text + piece.at, piece.len, text);
}

static inline bool has_names(const struct sl_pattern_memo *memo, const struct sluice_attribute *attributes,
                             size_t count) {
	if (memo->count != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!is_piece(memo, memo->names[i], attributes[i].name))
			return false;
	return true;
}

/* A bit for each value that is not the one remembered. */
static inline uint32_t differing(const struct sl_pattern_memo *memo, const struct sluice_attribute *attributes,
                                 uint32_t among) {
	uint32_t bits = 0;
	for (uint32_t left = among; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		if (!is_piece(memo, memo->values[i], attributes[i].value))
			bits |= 1u << i;
	}
	return bits;
}

static bool keep_piece(struct sl_pattern_memo *memo, struct sl_pattern_piece *piece, struct sluice_bytes text,
                       size_t *used) {
	if (text.len > sizeof memo->text - *used)
		return false;
	*piece = (struct sl_pattern_piece){(uint16_t)*used, (uint16_t)text.len};
	if (text.len != 0)
		memcpy(memo->text + *used, text.data, text.len);
	*used += text.len;
	return true;
}

/* A request with more than there is room for leaves the memo empty. */
static void keep(struct sl_pattern_memo *memo, const struct sluice_attribute *attributes, size_t count) {
	size_t used = 0;
	memo->count = 0;
	for (uint32_t i = 0; i < count; i++)
		if (!keep_piece(memo, &memo->names[i], attributes[i].name, &used) ||
		    !keep_piece(memo, &memo->values[i], attributes[i].value, &used))
			return;
	memo->count = (uint32_t)count;
}

/* The first request of its names is only noted. */
static void learn(struct sl_pattern_memo *memo, const struct sluice_policy *policy,
                  const struct sluice_attribute *attributes, size_t count) {
	if (count == 0 || count > SL_PATTERN_ATTRIBUTES_MAX)
		return;
	bool known = has_names(memo, attributes, count);
	uint32_t varies = known ? memo->pattern.varies | differing(memo, attributes, (1u << count) - 1) : 0;
	keep(memo, attributes, count);
	memo->pattern.policy_number = 0;
	memo->pattern.varies = varies;
	if (known && memo->count != 0)
		(void)sl_pattern_make(&memo->pattern, policy, attributes, (uint32_t)count, varies);
}

sluice_err sl_pattern_memo_match(struct sl_pattern_memo *memo, const struct sluice_policy *policy,
                                 const struct sluice_attribute *attributes, size_t count, struct sluice_bytes member,
                                 struct sluice_match *match, void *buffer, size_t buffer_bytes) {
	const bool alone = member.data == NULL;
	if (alone && memo->count != 0 && sl_pattern_is_of(&memo->pattern, policy) && has_names(memo, attributes, count) &&
	    differing(memo, attributes, ~memo->pattern.varies & ((1u << count) - 1)) == 0)
		return sl_pattern_match(&memo->pattern, policy, attributes, match, buffer, buffer_bytes);
	sluice_err err = sl_policy_match(policy, attributes, count, member, match, buffer, buffer_bytes);
	if (alone && err == SLUICE_OK)
		learn(memo, policy, attributes, count);
	return err;
}
