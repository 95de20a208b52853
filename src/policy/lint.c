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
#include "policy/route.h"

#include <inttypes.h>

/* ---- what a client may leave out ------------------------------------------------------------------------------- */

void sl_lint_part(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_key_part *part) {
	const struct sl_name *names = conf->policy->names;
	if (conf->optional)
		return;
	for (uint32_t i = 0; i < part->count; i++)
		if (sl_name_is_built_in(names[part->choices[i]].text) || sl_lint_is_of_route(conf, part->choices[i]))
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
		sl_report_warning(conf->report, node->place, "the candidate equals the limit: it will show nothing new");
}

/* ---- more than can be decided ----------------------------------------------------------------------------------- */

enum { MANY_TOLD_MAX = 16 };

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

/* An observed limit that finds no place is left out; one that is enforced, or may be, takes the last, and denies. */
static bool denies_beyond(const struct sl_policy_limit *limit) {
	return !limit->observe || limit->canary != NULL || limit->rollout_varies;
}

/* The limit that denies a request which joins one, and as many others as there may be; limit_count: none does. */
static uint32_t one_too_many(const struct sluice_policy *policy, uint32_t seed) {
	struct sluice_bytes values[SL_ATTRIBUTES_MAX];
	uint32_t count = 0;
	memset(values, 0, sizeof values);
	if (!joins(&policy->limits[seed], values))
		return policy->limit_count;
	for (uint32_t i = 0; i < policy->limit_count; i++)
		if (joins(&policy->limits[i], values) && ++count > SLUICE_ITEMS_MAX && denies_beyond(&policy->limits[i].shown))
			return i;
	return policy->limit_count;
}

void sl_lint_many(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	uint32_t told[MANY_TOLD_MAX], told_count = 0;
	for (uint32_t seed = 0; policy->limit_count > SLUICE_ITEMS_MAX && seed < policy->limit_count; seed++) {
		uint32_t t = 0, one;
		if (!sl_lint_spend(conf, 4 * (uint64_t)policy->limit_count) || told_count == MANY_TOLD_MAX)
			return;
		one = one_too_many(policy, seed);
		while (t < told_count && told[t] != one)
			t++;
		if (one == policy->limit_count || t != told_count)
			continue;
		told[told_count++] = one;
		sl_report_warning(conf->report, nodes[one]->place,
		                  "one limit more than the %d that may apply to a request: it denies such a request",
		                  SLUICE_ITEMS_MAX);
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
	const struct sl_condition *paths = sl_lint_condition(&limit->when, path);
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
			if (!sl_lint_spend(conf, 8))
				return;
			bounded = sl_rule_has(&policy->limits[j].shown.limit, SL_HAS_COUNTER) &&
			          is_key_without_path(limit, &policy->limits[j], path) &&
			          sl_lint_covers(conf, &policy->limits[j].when, &limit->when);
		}
		if (!bounded)
			sl_report_warning(conf->report, place_of_key(nodes[i]),
			                  "each path has a quota of its own, even one that a client makes up: key by route (the "
			                  "pattern of `when`) instead, or add a limit with the same key without path");
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
			                  " KiB, and may have at most %" PRIu64
			                  " KiB of this store: it is denied beyond that. Give store more memory, or blocks a "
			                  "larger share",
			                  in_kib(bytes), in_kib(most));
	}
}
