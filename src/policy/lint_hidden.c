/* What another rule hides: overrides, limits, routes and whole conditions that can never count.
 *
 * As in lint.c, each warning is proved. Where a proof would take more than is looked at here (parts of paths,
 * conditions of several kinds, what a route fills in) there is none, and so no warning.
 *
 * An example of what a rule holds for is looked up in the index of the others: whatever covers the rule holds for the
 * example, too. So 100,000 rules take as long as their neighbours, not as their pairs. */
#include "policy/lint.h"

#include "algo/rule.h"
#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"
#include "policy/index.h"
#include "policy/route.h"

#include <inttypes.h>

bool sl_lint_spend(struct sl_conf *conf, uint64_t steps) {
	if (conf->lint_steps < steps) {
		conf->policy->half_linted = true;
		return false;
	}
	conf->lint_steps -= steps;
	return true;
}

bool sl_lint_is_half(const struct sluice_policy *policy) {
	return policy->half_linted;
}

bool sl_lint_is_of_route(const struct sl_conf *conf, uint32_t number) {
	return conf->routed != NULL && (sl_routes_fill(conf->routed, number) ||
	                                sl_bytes_equal(conf->policy->names[number].text, sl_str("route")));
}

/* ---- conditions ------------------------------------------------------------------------------------------------- */

const struct sl_condition *sl_lint_condition(const struct sl_when *when, uint32_t attribute) {
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
	if (narrow->has_parts || !sl_lint_spend(conf, values * (wide->prefix_count + 8)))
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
bool sl_lint_covers(struct sl_conf *conf, const struct sl_when *wide, const struct sl_when *narrow) {
	if (wide->except_count != 0 || !sl_lint_spend(conf, 1 + (uint64_t)wide->count * narrow->count))
		return false;
	for (uint32_t i = 0; i < wide->count; i++) {
		const struct sl_condition *condition = sl_lint_condition(narrow, wide->list[i].attribute);
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

/* Does one of the texts begin (or, `ends`, end) with the other? */
static bool texts_meet(struct sluice_bytes a, struct sluice_bytes b, bool ends) {
	size_t len = a.len < b.len ? a.len : b.len;
	const char *x = a.data, *y = b.data;
	return len == 0 || memcmp(ends ? x + a.len - len : x, ends ? y + b.len - len : y, len) == 0;
}

static bool any_texts_meet(const struct sluice_bytes *a, uint32_t a_count, const struct sluice_bytes *b,
                           uint32_t b_count, bool ends) {
	for (uint32_t i = 0; i < a_count; i++)
		for (uint32_t k = 0; k < b_count; k++)
			if (texts_meet(a[i], b[k], ends))
				return true;
	return false;
}

static bool any_networks_meet(const struct sl_condition *a, const struct sl_condition *b) {
	for (uint32_t i = 0; i < a->network_count; i++)
		for (uint32_t k = 0; k < b->network_count; k++)
			if (sl_network_covers(&a->networks[i], &b->networks[k]) ||
			    sl_network_covers(&b->networks[k], &a->networks[i]))
				return true;
	return false;
}

static bool any_exact_holds(const struct sl_condition *exact, const struct sl_condition *other) {
	for (uint32_t i = 0; i < exact->exact_count; i++)
		if (sl_condition_holds(other, exact->exact[i]))
			return true;
	return false;
}

/* How many kinds of values it has that are no single ones. */
static uint32_t kinds_of(const struct sl_condition *condition) {
	return (condition->prefix_count != 0) + (condition->suffix_count != 0) + (condition->network_count != 0);
}

/* Is there surely no value that two conditions of one attribute hold for? Kinds that are mixed are not looked into. */
static bool conditions_exclude(struct sl_conf *conf, const struct sl_condition *a, const struct sl_condition *b) {
	bool mixed = (kinds_of(a) != 0 && b->prefix_count + b->suffix_count + b->network_count != 0) &&
	             (kinds_of(a) + kinds_of(b) != 2 || (a->prefix_count != 0) != (b->prefix_count != 0) ||
	              (a->suffix_count != 0) != (b->suffix_count != 0));
	uint64_t pairs = (uint64_t)a->prefix_count * b->prefix_count + (uint64_t)a->suffix_count * b->suffix_count +
	                 (uint64_t)a->network_count * b->network_count;
	if (mixed || a->has_parts || b->has_parts ||
	    !sl_lint_spend(conf, pairs + 8 * ((uint64_t)a->exact_count + b->exact_count)))
		return false;
	return !any_exact_holds(a, b) && !any_exact_holds(b, a) && !any_networks_meet(a, b) &&
	       !any_texts_meet(a->prefixes, a->prefix_count, b->prefixes, b->prefix_count, false) &&
	       !any_texts_meet(a->suffixes, a->suffix_count, b->suffixes, b->suffix_count, true);
}

/* Is there surely no request that meets both? */
static bool whens_exclude(struct sl_conf *conf, const struct sl_when *a, const struct sl_when *b) {
	for (uint32_t i = 0; i < a->count; i++) {
		const struct sl_condition *other = sl_lint_condition(b, a->list[i].attribute);
		if (other != NULL && conditions_exclude(conf, &a->list[i], other))
			return true;
	}
	for (uint32_t i = 0; i < a->except_count; i++)
		if (sl_lint_covers(conf, &a->except[i], b))
			return true;
	for (uint32_t i = 0; i < b->except_count; i++)
		if (sl_lint_covers(conf, &b->except[i], a))
			return true;
	return false;
}

void sl_lint_never(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_when *when) {
	for (uint32_t i = 0; i < when->except_count; i++)
		if (sl_lint_covers(conf, &when->except[i], when)) {
			sl_report_warning(conf->report, node->place, "never holds: `not` excludes all that the other conditions "
			                                             "match");
			return;
		}
}

/* ---- overrides -------------------------------------------------------------------------------------------------- */

/* Does a route of the limit put another value in the place of one that the conditions ask for? */
static bool asks_for_route(const struct sl_conf *conf, const struct sl_when *when) {
	for (uint32_t i = 0; i < when->count; i++)
		if (sl_lint_is_of_route(conf, when->list[i].attribute))
			return true;
	return false;
}

/* Are all routes of the limit's `when` such that `route` is never what a condition asks for? */
static bool routes_exclude(struct sl_conf *conf, const struct sl_condition *routed, const struct sl_condition *asked) {
	if (!sl_bytes_equal(conf->policy->names[asked->attribute].text, sl_str("route")) ||
	    !sl_lint_spend(conf, 8 * (uint64_t)routed->route_count))
		return false;
	for (uint32_t i = 0; i < routed->route_count; i++)
		if (sl_condition_holds(asked, routed->routes[i].text))
			return false;
	return true;
}

/* Do the limit's own conditions leave nothing for those of an override, or of a cost? */
static bool limit_excludes(struct sl_conf *conf, const struct sl_ruleset_limit *limit, const struct sl_when *when) {
	if (!asks_for_route(conf, when))
		return whens_exclude(conf, &limit->when, when);
	for (uint32_t i = 0; i < when->count; i++)
		if (routes_exclude(conf, conf->routed, &when->list[i]))
			return true;
	return false;
}

/* The first override that takes all of another, and comes before it; that one's own number: none. */
static uint32_t find_cover(struct sl_conf *conf, const struct sl_ruleset_limit *limit, uint32_t number) {
	const struct sl_when *when = &limit->overrides[number].when;
	struct sl_index_walk walk = {.all_count = number};
	if (limit->index != NULL)
		walk_covers(limit->index, when, &walk);
	for (uint32_t i = sl_index_next(&walk); i < number && sl_lint_spend(conf, 1); i = sl_index_next(&walk))
		if (sl_lint_covers(conf, &limit->overrides[i].when, when))
			return i;
	return number;
}

/* Is it the limit itself, for the same requests as before? */
static bool is_same(const struct sl_ruleset_limit *limit, const struct sl_override *override) {
	const struct sl_rollout *a = &limit->rollout, *b = &override->rollout;
	char said[SLUICE_LIMIT_TEXT_MAX], again[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&limit->shown.limit, said);
	sluice_limit_print(&override->limit, again);
	return !a->observe && !b->observe && !a->canary && !b->canary && !limit->shown.has_candidate &&
	       strcmp(said, again) == 0;
}

/* An override that says what holds without it, and keeps no request from one after it. */
static bool changes_nothing(struct sl_conf *conf, const struct sl_ruleset_limit *limit, uint32_t number) {
	const struct sl_override *override = &limit->overrides[number];
	if (!is_same(limit, override))
		return false;
	for (uint32_t i = number + 1; i < limit->shown.override_count; i++)
		if (!sl_lint_spend(conf, 1) || !whens_exclude(conf, &override->when, &limit->overrides[i].when))
			return false;
	return true;
}

static void lint_override(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit,
                          uint32_t number, const struct sl_yaml *const *nodes) {
	const struct sl_when *when = &limit->overrides[number].when;
	uint32_t cover = find_cover(conf, limit, number);
	if (cover != number)
		sl_report_warning(conf->report, node->place, "never reached: the override in line %u matches all of it",
		                  nodes[cover]->place.line);
	else if (limit_excludes(conf, limit, when))
		sl_report_warning(conf->report, node->place, "never used: the limit's own `when` excludes all of it");
	else if (changes_nothing(conf, limit, number))
		sl_report_warning(conf->report, node->place, "changes nothing: the limit itself says the same");
}

void sl_lint_overrides(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit,
                       const struct sl_yaml *const *nodes) {
	uint32_t count = limit->shown.override_count;
	for (uint32_t i = 0; i < count; i++)
		lint_override(conf, nodes[i], limit, i, nodes);
	for (uint32_t i = 0; i < count; i++)
		if (sl_when_is_empty(&limit->overrides[i].when)) {
			sl_report_warning(conf->report, node->place, "never used: the override in line %u has no conditions",
			                  nodes[i]->place.line);
			return;
		}
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* The most that a quota admits at once; UINT64_MAX where it denies nobody. */
static uint64_t most_of(const struct sluice_limit *limit, const struct sl_rollout *rollout) {
	if (!sl_rule_has(limit, SL_HAS_COUNTER) || rollout->observe || rollout->canary)
		return UINT64_MAX;
	return limit->derived[SL_CAPACITY];
}

/* The most that any quota admits at once which requests of these conditions can be charged to: those of the overrides
 * that they may meet, as far as one that takes them all, and else that of the limit. UINT64_MAX: not known. */
static uint64_t most_admitted(struct sl_conf *conf, const struct sl_when *when, const struct sl_ruleset_limit *limit) {
	uint64_t most = 0;
	if (limit->shown.overrides_from != NULL)
		return UINT64_MAX;
	for (uint32_t i = 0; i < limit->shown.override_count; i++) {
		const struct sl_override *override = &limit->overrides[i];
		if (!sl_lint_spend(conf, 1))
			return UINT64_MAX;
		if (whens_exclude(conf, when, &override->when))
			continue;
		most = sl_max(most, most_of(&override->limit, &override->rollout));
		if (sl_lint_covers(conf, &override->when, when))
			return most;
	}
	return sl_max(most, most_of(&limit->shown.limit, &limit->rollout));
}

/* `what` the number is: a cost, an estimate. */
static void lint_cost(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_when *when, const char *what,
                      uint32_t cost, const struct sl_ruleset_limit *limit) {
	uint64_t most = conf->policy->observe ? UINT64_MAX : most_admitted(conf, when, limit);
	if (most != 0 && most < cost) /* a quota of 0 is told of by itself */
		sl_report_warning(conf->report, node->place,
		                  "never admitted: %s of %" PRIu32 ", where the largest quota that it can be charged to "
		                  "admits %" PRIu64 " at once",
		                  what, cost, most);
}

/* The first cost that takes all requests of another one, and comes before it; that one's own number: none. */
static uint32_t find_cost_cover(struct sl_conf *conf, const struct sl_ruleset_limit *limit, uint32_t number) {
	for (uint32_t i = 0; i < number && sl_lint_spend(conf, 1); i++)
		if (sl_lint_covers(conf, &limit->cost_routes[i].when, &limit->cost_routes[number].when))
			return i;
	return number;
}

/* Of requests of every kind. */
static const struct sl_when all = {0};

void sl_lint_first_charge(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	SL_ASSERT(limit->shown.reserve.on);
	lint_cost(conf, node, &all, "an estimate", limit->shown.reserve.estimate, limit);
}

void sl_lint_costs(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	const struct sl_yaml *element = node->kind == SL_NODE_LIST ? node->first : node, *nodes[SL_POLICY_COSTS_MAX];
	const struct sl_yaml *last = NULL; /* a cost without conditions */
	for (uint32_t i = 0; i < limit->shown.cost.route_count; i++, element = element->next) {
		const struct sl_when *when = &limit->cost_routes[i].when;
		uint32_t cover = find_cost_cover(conf, limit, i);
		nodes[i] = element;
		if (last == NULL && sl_when_is_empty(when))
			last = element;
		if (cover != i)
			sl_report_warning(conf->report, element->place, "never reached: the cost in line %u matches all of it",
			                  nodes[cover]->place.line);
		else if (limit_excludes(conf, limit, when))
			sl_report_warning(conf->report, element->place, "never used: the limit's own `when` excludes all of it");
		else
			lint_cost(conf, element, when, "a cost", limit->cost_routes[i].cost, limit);
	}
	if (element != NULL && last != NULL) {
		sl_report_warning(conf->report, element->place, "never used: the cost in line %u has no conditions",
		                  last->place.line);
		return;
	}
	if (element != NULL && limit->shown.cost.header != NULL)
		element = node->kind == SL_NODE_LIST ? element->next : NULL;
	if (element != NULL)
		lint_cost(conf, element, &all, "a cost", limit->shown.cost.cost, limit);
}

void sl_lint_unlimited(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	if (limit->shown.override_count == 0 && !sl_rule_has(&limit->shown.limit, SL_HAS_COUNTER))
		sl_report_warning(conf->report, node->place, "unlimited, without overrides: this limit never applies");
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Does it deny by what it counts of the requests' own cost, and nothing else? */
static bool is_plain(const struct sl_ruleset_limit *limit) {
	const struct sl_policy_limit *shown = &limit->shown;
	return sl_rule_has(&shown->limit, SL_COUNTS_COST) && !sl_rule_spreads(&shown->limit) &&
	       shown->override_count == 0 && shown->overrides_from == NULL && !limit->rollout.observe &&
	       !limit->rollout.canary && !shown->has_candidate && !shown->has_terms && !shown->reserve.on &&
	       !shown->cost.on && !shown->stagger && limit->routed == NULL;
}

/* Two that count alike by the same clock, the first with no more quota than the second. Buckets are left out but for
 * the very same: their quota is a speed as well. */
static bool is_as_strict(const struct sluice_limit *strict, const struct sluice_limit *loose) {
	bool bucket = sl_rule_has(strict, SL_DRAINS);
	return strict->algorithm == loose->algorithm && strict->edge == loose->edge &&
	       strict->bucket_count == loose->bucket_count && strict->burst == loose->burst &&
	       strict->calendar == loose->calendar && strict->zone == loose->zone &&
	       strict->window_ns == loose->window_ns && strict->precision_ns == loose->precision_ns &&
	       (bucket ? strict->quota == loose->quota : strict->quota <= loose->quota);
}

static bool is_same_key(const struct sl_ruleset_limit *a, const struct sl_ruleset_limit *b) {
	if (a->part_count != b->part_count)
		return false;
	for (uint32_t i = 0; i < a->part_count; i++) {
		const struct sl_key_part *x = &a->parts[i], *y = &b->parts[i];
		if (x->count != y->count || memcmp(x->choices, y->choices, x->count * sizeof *x->choices) != 0 ||
		    (x->literal.data == NULL) != (y->literal.data == NULL) || !sl_bytes_equal(x->literal, y->literal))
			return false;
	}
	return true;
}

/* Does the strict one deny whatever the loose one would? Of two that are the same the earlier one counts as strict. */
static bool hides(struct sl_conf *conf, uint32_t strict, uint32_t loose) {
	const struct sl_ruleset_limit *a = &conf->policy->limits[strict], *b = &conf->policy->limits[loose];
	if (strict == loose || !is_as_strict(&a->shown.limit, &b->shown.limit) || !is_plain(a) ||
	    a->shown.on_error != b->shown.on_error || !is_same_key(a, b) || !sl_lint_covers(conf, &a->when, &b->when))
		return false;
	return strict < loose || !is_as_strict(&b->shown.limit, &a->shown.limit) ||
	       !sl_lint_covers(conf, &b->when, &a->when);
}

void sl_lint_hidden(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		struct sl_index_walk walk = {.all_count = policy->limit_count};
		if (!is_plain(&policy->limits[i]))
			continue;
		if (policy->index != NULL)
			walk_covers(policy->index, &policy->limits[i].when, &walk);
		for (uint32_t k = sl_index_next(&walk); k < policy->limit_count; k = sl_index_next(&walk)) {
			if (!sl_lint_spend(conf, 4))
				return;
			if (!hides(conf, k, i))
				continue;
			sl_report_warning(conf->report, nodes[i]->place,
			                  "denies no request that the limit in line %u admits: that limit counts the same and "
			                  "its quota is no larger",
			                  nodes[k]->place.line);
			break;
		}
	}
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

/* What every path of a route begins with. */
static struct sluice_bytes beginning_of(const struct sl_route *route) {
	const char *text = route->stem.data, *part = NULL;
	if (route->part_count != 0)
		part = memchr(text, '{', route->stem.len);
	if (part != NULL)
		return sl_slice(text, (size_t)(part - text));
	return sl_slice(text, route->stem.len - route->ends_loosely);
}

/* The same but for the names of parts. */
static bool is_same_route(const struct sl_route *a, const struct sl_route *b) {
	const char *x = a->stem.data, *y = b->stem.data, *x_end = x + a->stem.len, *y_end = y + b->stem.len;
	if (a->part_count != b->part_count || a->prefix != b->prefix || a->ends_loosely != b->ends_loosely)
		return false;
	while (x < x_end && y < y_end && *x == *y) {
		if (a->part_count != 0 && *x == '{') {
			x = memchr(x, '}', (size_t)(x_end - x));
			y = memchr(y, '}', (size_t)(y_end - y));
			SL_ASSERT(x != NULL && y != NULL);
		}
		x++;
		y++;
	}
	return x == x_end && y == y_end;
}

/* Does a route hold for all that another one holds for? */
static bool route_covers(const struct sl_route *wide, const struct sl_route *narrow) {
	struct sluice_bytes begin = beginning_of(narrow);
	if (is_same_route(wide, narrow))
		return true;
	if (!narrow->prefix && narrow->part_count == 0)
		return sl_route_holds(wide, narrow->stem, NULL);
	return wide->prefix && wide->part_count == 0 && wide->stem.len <= begin.len &&
	       memcmp(wide->stem.data, begin.data, wide->stem.len) == 0;
}

static bool counts_routes(const struct sl_conf *conf, const struct sl_ruleset_limit *limit) {
	for (uint32_t i = 0; i < limit->part_count; i++)
		for (uint32_t k = 0; k < limit->parts[i].count; k++)
			if (limit->parts[i].choices[k] == conf->policy->route)
				return true;
	return false;
}

void sl_lint_routes(struct sl_conf *conf, const struct sl_yaml *when, const struct sl_ruleset_limit *limit) {
	const struct sl_condition *paths = limit->paths;
	bool counted = counts_routes(conf, limit);
	for (uint32_t i = 1; paths != NULL && limit->routed != NULL && i < paths->route_count; i++)
		for (uint32_t k = 0; k < i && (counted || paths->routes[i].part_count != 0); k++) {
			if (!sl_lint_spend(conf, 4))
				return;
			if (!route_covers(&paths->routes[k], &paths->routes[i]))
				continue;
			sl_report_warning(conf->report, when->place, "%s is never the route: %s before it matches all of it",
			                  sl_quote(paths->routes[i].text).text, sl_quote(paths->routes[k].text).text);
			break;
		}
}
