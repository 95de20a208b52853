/* What cannot be meant.
 *
 * Every warning is a statement that holds for each request, proved and not guessed: a file without warnings is not
 * thereby good, but one with a warning has something to look at. Whatever needs a search gets a budget of steps.
 */
#include "policy/footprint.h"
#include "policy/lint.h"

#include "algo/rule.h"
#include "base/math.h"
#include "base/out.h"
#include "policy/index.h"
#include "policy/route.h"

#include <inttypes.h>

static bool spend(struct sl_conf *conf, uint64_t steps) {
	if (conf->lint_steps < steps)
		return false;
	conf->lint_steps -= steps;
	return true;
}

/* ---- what a client may leave out ------------------------------------------------------------------------------- */

/* Does the path of each request that the limit is for fill it in? */
static bool is_of_route(const struct sl_conf *conf, uint32_t number) {
	return conf->routed != NULL && (sl_routes_fill(conf->routed, number) ||
	                                sl_bytes_equal(conf->policy->names[number].text, sl_str("route")));
}

void sl_lint_part(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_key_part *part) {
	const struct sl_name *names = conf->policy->names;
	if (conf->optional)
		return;
	for (uint32_t i = 0; i < part->count; i++)
		if (sl_name_is_built_in(names[part->choices[i]].text) || is_of_route(conf, part->choices[i]))
			return;
	if (part->count != 0 && part->literal.data == NULL)
		sl_report_warning(conf->report, node->place,
		                  "a request %s %s escapes this limit: add a fallback that every request has, such as ' | ip'",
		                  part->count == 1 ? "without" : "with none of", sl_quote(node->text).text);
}

void sl_lint_when(struct sl_conf *conf, const struct sl_yaml *when) {
	if (when->kind != SL_NODE_MAP || conf->optional)
		return;
	for (const struct sl_yaml *key = sl_map_first(when); key != NULL; key = sl_map_next(key))
		if (key->kind == SL_NODE_TEXT && !sl_name_is_built_in(key->text) && !sl_bytes_equal(key->text, sl_str("not")))
			sl_report_warning(conf->report, key->place,
			                  "a request without %s escapes this limit: a limit for all, with overrides, is safer",
			                  sl_quote(key->text).text);
}

void sl_lint_rule(struct sl_conf *conf, const struct sl_yaml *node, const struct sluice_limit *limit) {
	if (sl_rule_has(limit, SL_HAS_COUNTER) && limit->quota == 0)
		sl_report_warning(conf->report, node->place, "a quota of 0 denies every request that costs anything");
}

void sl_lint_candidate(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_policy_limit *limit) {
	char enforced[SLUICE_LIMIT_TEXT_MAX], tried[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&limit->limit, enforced);
	sluice_limit_print(&limit->candidate, tried);
	if (strcmp(enforced, tried) == 0)
		sl_report_warning(conf->report, node->place, "the candidate is the limit itself: it will tell nothing new");
}

/* ---- what is never reached -------------------------------------------------------------------------------------- */

static const struct sl_condition *find_condition(const struct sl_when *when, uint32_t attribute) {
	for (uint32_t i = 0; i < when->count; i++)
		if (when->list[i].attribute == attribute)
			return &when->list[i];
	return NULL;
}

static bool has_prefix_of(const struct sl_condition *condition, struct sluice_bytes prefix) {
	for (uint32_t i = 0; i < condition->prefix_count; i++) {
		struct sluice_bytes shorter = condition->prefixes[i];
		if (shorter.len <= prefix.len && (shorter.len == 0 || memcmp(shorter.data, prefix.data, shorter.len) == 0))
			return true;
	}
	return false;
}

static bool has_suffix_of(const struct sl_condition *condition, struct sluice_bytes suffix) {
	for (uint32_t i = 0; i < condition->suffix_count; i++) {
		struct sluice_bytes shorter = condition->suffixes[i];
		const char *end = (const char *)suffix.data + suffix.len;
		if (shorter.len <= suffix.len && memcmp(shorter.data, end - shorter.len, shorter.len) == 0)
			return true;
	}
	return false;
}

static bool has_network_of(const struct sl_condition *condition, const struct sl_network *network) {
	for (uint32_t i = 0; i < condition->network_count; i++)
		if (sl_network_covers(&condition->networks[i], network))
			return true;
	return false;
}

/* Does `wide` hold for every value that `narrow` holds for? */
static bool condition_covers(struct sl_conf *conf, const struct sl_condition *wide, const struct sl_condition *narrow) {
	uint64_t values =
		(uint64_t)narrow->exact_count + narrow->prefix_count + narrow->suffix_count + narrow->network_count;
	if (narrow->has_parts || !spend(conf, values * (wide->prefix_count + 8)))
		return false;
	for (uint32_t i = 0; i < narrow->suffix_count; i++)
		if (!has_suffix_of(wide, narrow->suffixes[i]))
			return false;
	for (uint32_t i = 0; i < narrow->network_count; i++)
		if (!has_network_of(wide, &narrow->networks[i]))
			return false;
	for (uint32_t i = 0; i < narrow->exact_count; i++)
		if (!sl_condition_holds(wide, narrow->exact[i]))
			return false;
	for (uint32_t i = 0; i < narrow->prefix_count; i++)
		if (!has_prefix_of(wide, narrow->prefixes[i]))
			return false;
	return true;
}

/* What `narrow` excepts makes it narrower still; what `wide` excepts may be what `narrow` is for. */
static bool when_covers(struct sl_conf *conf, const struct sl_when *wide, const struct sl_when *narrow) {
	if (wide->except_count != 0 || !spend(conf, 1 + (uint64_t)wide->count * narrow->count))
		return false;
	for (uint32_t i = 0; i < wide->count; i++) {
		const struct sl_condition *condition = find_condition(narrow, wide->list[i].attribute);
		if (condition == NULL || !condition_covers(conf, &wide->list[i], condition))
			return false;
	}
	return true;
}

/* A value that a condition holds for; data NULL where none can be told. `memory` has SL_ADDRESS_TEXT_MAX. */
static struct sluice_bytes example_of(const struct sl_condition *condition, char *memory) {
	if (condition->exact_count != 0)
		return condition->exact[0];
	if (condition->prefix_count != 0)
		return condition->prefixes[0];
	if (condition->suffix_count != 0) /* with the star before it, which is as good as any name */
		return sl_slice((const char *)condition->suffixes[0].data - 1, condition->suffixes[0].len + 1);
	if (condition->network_count != 0)
		return sl_slice(memory, sl_network_print(&condition->networks[0], memory));
	return sl_slice(NULL, 0);
}

/* Begins a walk of all in an index that may hold for whatever these conditions hold for: what covers them holds for
 * each request that meets them, so for this one. */
static void walk_covers(const struct sl_index *index, const struct sl_when *when, struct sl_index_walk *walk) {
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	char memory[SL_ADDRESS_TEXT_MAX]; /* for one value: only an ip has networks */
	memset(values, 0, sizeof values);
	for (uint32_t i = 0; i < when->count; i++)
		values[when->list[i].attribute] = example_of(&when->list[i], memory);
	sl_index_begin(index, values, walk);
}

/* The first override that takes all of another, and comes before it; that one's own number: none. */
static uint32_t find_cover(struct sl_conf *conf, const struct sl_ruleset_limit *limit, uint32_t number) {
	const struct sl_when *when = &limit->overrides[number].when;
	struct sl_index_walk walk = {.all_count = number};
	if (limit->index != NULL)
		walk_covers(limit->index, when, &walk);
	for (uint32_t i = sl_index_next(&walk); i < number && spend(conf, 1); i = sl_index_next(&walk))
		if (when_covers(conf, &limit->overrides[i].when, when))
			return i;
	return number;
}

void sl_lint_overrides(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit,
                       const struct sl_yaml *const *nodes) {
	uint32_t count = limit->shown.override_count;
	for (uint32_t i = 1; i < count; i++) {
		uint32_t cover = find_cover(conf, limit, i);
		if (cover != i)
			sl_report_warning(conf->report, nodes[i]->place, "never reached: the override in line %u takes all of it",
			                  nodes[cover]->place.line);
	}
	for (uint32_t i = 0; i < count; i++)
		if (sl_when_is_empty(&limit->overrides[i].when)) {
			sl_report_warning(conf->report, node->place, "never used: the override in line %u has no conditions",
			                  nodes[i]->place.line);
			return;
		}
}

void sl_lint_unlimited(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	if (limit->shown.override_count == 0 && !sl_rule_has(&limit->shown.limit, SL_HAS_COUNTER))
		sl_report_warning(conf->report, node->place, "unlimited, without overrides: this limit never applies");
}

/* ---- more than can be decided ----------------------------------------------------------------------------------- */

/* Whether a request of these values, and of more, is one that a limit is for: then it gets those that the limit asks
 * for of attributes that it does not have yet, of each the first. */
static bool joins(const struct sl_ruleset_limit *limit, struct sluice_bytes values[SL_ATTRIBUTES_MAX]) {
	bool counts = sl_rule_has(&limit->shown.limit, SL_HAS_COUNTER) || limit->shown.override_count != 0;
	counts = counts && limit->when.except_count == 0;
	for (uint32_t i = 0; i < limit->when.count && counts; i++) {
		const struct sl_condition *condition = &limit->when.list[i];
		struct sluice_bytes value = values[condition->attribute];
		counts = condition->exact_count + condition->prefix_count != 0 &&
		         (value.data == NULL || sl_condition_holds(condition, value));
	}
	for (uint32_t i = 0; i < limit->when.count && counts; i++) {
		const struct sl_condition *condition = &limit->when.list[i];
		if (values[condition->attribute].data == NULL)
			values[condition->attribute] = condition->exact_count != 0 ? condition->exact[0] : condition->prefixes[0];
	}
	return counts;
}

void sl_lint_many(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	for (uint32_t seed = 0; policy->limit_count > SLUICE_ITEMS_MAX && seed < policy->limit_count; seed++) {
		uint32_t count = 0;
		if (!spend(conf, 4 * (uint64_t)policy->limit_count))
			return;
		memset(values, 0, sizeof values);
		if (!joins(&policy->limits[seed], values))
			continue;
		for (uint32_t i = 0; i < policy->limit_count; i++) {
			count += joins(&policy->limits[i], values);
			if (count > SLUICE_ITEMS_MAX) {
				sl_report_warning(conf->report, nodes[i]->place,
				                  "one limit more than the %d that may apply to a request: it denies such a request",
				                  SLUICE_ITEMS_MAX);
				return;
			}
		}
	}
}

/* ---- a quota for each path --------------------------------------------------------------------------------------- */

/* Are two limits of one key, but for the path in the first one's? */
static bool is_key_without_path(const struct sl_ruleset_limit *of, const struct sl_ruleset_limit *other,
                                uint32_t path) {
	uint32_t k = 0;
	for (uint32_t i = 0; i < of->part_count; i++) {
		if (of->parts[i].count == 1 && of->parts[i].choices[0] == path)
			continue;
		if (k == other->part_count || of->parts[i].count != other->parts[k].count ||
		    memcmp(of->parts[i].choices, other->parts[k].choices, of->parts[i].count * sizeof(uint16_t)) != 0)
			return false;
		k++;
	}
	return k == other->part_count;
}

static bool counts_paths(const struct sl_ruleset_limit *limit, uint32_t path) {
	const struct sl_condition *paths = find_condition(&limit->when, path);
	bool counted = false;
	for (uint32_t i = 0; i < limit->part_count; i++)
		counted = counted || (limit->parts[i].count == 1 && limit->parts[i].choices[0] == path);
	return counted && (paths == NULL || paths->prefix_count != 0 || paths->has_parts);
}

static struct sl_position place_of_key(const struct sl_yaml *limit) {
	for (const struct sl_yaml *key = sl_map_first(limit); key != NULL; key = sl_map_next(key))
		if (key->kind == SL_NODE_TEXT && sl_bytes_equal(key->text, sl_str("key")))
			return key->next->place;
	return limit->place;
}

void sl_lint_paths(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	uint32_t path = sl_name_find(policy, sl_str("path"));
	for (uint32_t i = 0; path != SL_NAME_NONE && i < policy->limit_count; i++) {
		const struct sl_ruleset_limit *limit = &policy->limits[i];
		bool bounded = !counts_paths(limit, path);
		for (uint32_t j = 0; j < policy->limit_count && !bounded; j++) {
			if (!spend(conf, 8))
				return;
			bounded = sl_rule_has(&policy->limits[j].shown.limit, SL_HAS_COUNTER) &&
			          is_key_without_path(limit, &policy->limits[j], path) &&
			          when_covers(conf, &policy->limits[j].when, &limit->when);
		}
		if (!bounded)
			sl_report_warning(conf->report, place_of_key(nodes[i]),
			                  "each path has a quota of its own, also those that clients make up: route counts what "
			                  "`when` says of path, or a limit of the same key without path bounds all");
	}
}

/* ---- more than has room ----------------------------------------------------------------------------------------- */

enum { SHARE = 4 /* of the blocks, that one counter gets: src/store/blocks.h */ };

static uint64_t in_kib(uint64_t bytes) {
	return bytes / 1024 + (bytes % 1024 != 0);
}

void sl_lint_room(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	const struct sl_settings *settings = &policy->settings;
	uint64_t most = settings->memory_bytes / 100 * sl_policy_blocks_percent(policy) / SHARE;
	if (settings->redis.address_count != 0)
		return;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_ruleset_limit *limit = &policy->limits[i];
		uint64_t bytes = sl_footprint_bytes_used_up(&limit->shown.limit);
		for (uint32_t k = 0; k < limit->shown.override_count; k++) {
			uint64_t other = sl_footprint_bytes_used_up(&limit->overrides[k].limit);
			bytes = bytes > other ? bytes : other;
		}
		if (bytes > most)
			sl_report_warning(conf->report, nodes[i]->place,
			                  "a key that uses up the quota by costs of 1 needs %" PRIu64
			                  " KiB, and gets at most %" PRIu64
			                  " KiB of this store: beyond that it is denied. Give store more memory, or blocks",
			                  in_kib(bytes), in_kib(most));
	}
}
