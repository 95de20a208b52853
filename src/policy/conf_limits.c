/* The list of limits.
 *
 * A mapping is gathered first, as nodes, and read afterwards: what one key means may hang on another (the counters of a
 * rule belong to the limit's name). Mistakes are sorted by place anyway.
 */
#include "policy/conf_cost.h"
#include "policy/conf_rollout.h"
#include "policy/conf_terms.h"

#include "algo/override.h"
#include "base/assert.h"
#include "policy/describe.h"
#include "policy/index.h"
#include "policy/lint.h"
#include "policy/quotas.h"

/* The values of one limit's keys, NULL where it has none. */
struct limit_nodes {
	const struct sl_yaml *name, *when, *key, *limit, *candidate, *overrides, *from, *on_error, *strict, *stagger;
	struct sl_rollout_nodes rollout;
	const struct sl_yaml *of, *penalty, *count_denied, *reserve, *cost, *optional, *denied;
};

struct override_nodes {
	const struct sl_yaml *when, *limit;
	struct sl_rollout_nodes rollout;
};

/* A reader that keeps the node for later. */
static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

/* ---- one limit -------------------------------------------------------------------------------------------------- */

static void read_name(struct sl_conf *conf, const struct sl_yaml *node, const char **name) {
	struct sluice_bytes text;
	size_t good = 0;
	if (!sl_conf_text(conf, node, "the name of a limit", &text))
		return;
	const char *p = text.data;
	while (good < text.len && p[good] >= 0x20 && p[good] < 0x7f)
		good++;
	if (good < text.len)
		sl_report_found(conf->report, sl_node_place(node, good), text, "expected a name of printable ASCII characters");
	else if (text.len == 0 || text.len > SLUICE_NAME_BYTES_MAX)
		sl_report_error(conf->report, node->place, "expected a name of 1 to %d bytes, found %zu", SLUICE_NAME_BYTES_MAX,
		                text.len);
	else
		*name = sl_pool_text(&conf->policy->pool, text);
}

/* A limit in the notation, of a name; false where it is none, which is reported. */
static bool read_notation(struct sl_conf *conf, const struct sl_yaml *node, const char *name,
                          struct sluice_limit *limit) {
	struct sluice_error error = {0};
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "a limit such as 100/1m", &text))
		return false;
	if (sluice_limit_parse(limit, text, &error) != SLUICE_OK) {
		struct sl_position place = error.column == 0 ? node->place : sl_node_place(node, error.column - 1);
		sl_report_error(conf->report, place, "%s", error.text);
		return false;
	}
	if (name != NULL)
		sl_rule_name(limit, sl_str(name));
	return true;
}

static bool read_rule(struct sl_conf *conf, const struct sl_yaml *node, const char *name, struct sluice_limit *limit) {
	bool good = read_notation(conf, node, name, limit);
	if (good)
		sl_lint_rule(conf, node, limit);
	return good;
}

/* `whole`: the limit itself was read. */
static void read_candidate(struct sl_conf *conf, const struct sl_yaml *node, bool whole,
                           struct sl_policy_limit *shown) {
	struct sluice_limit candidate;
	if (!read_notation(conf, node, shown->name, &candidate) || !whole)
		return;
	const char *why = sl_rule_mismatch(&shown->limit, &candidate);
	if (why != NULL) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		sluice_limit_print(&shown->limit, text);
		sl_report_error(conf->report, node->place, "expected another quota for the counters of %s: %s", text, why);
		return;
	}
	SL_ASSERT(shown->name == NULL || candidate.derived[SL_IDENT_KIND] == shown->limit.derived[SL_IDENT_KIND]);
	shown->candidate = candidate;
	shown->has_candidate = true;
	sl_lint_candidate(conf, node, shown);
}

/* `limit` is the limit itself, which has been read. */
static void read_override(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit,
                          struct sl_override *override) {
	static const struct sl_field fields[] = {
		{"when", keep, offsetof(struct override_nodes, when), "conditions, such as {plan: pro}"},
		{"limit", keep, offsetof(struct override_nodes, limit), NULL},
		{"observe", keep, offsetof(struct override_nodes, rollout.observe), NULL},
		{"canary", keep, offsetof(struct override_nodes, rollout.canary), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct override_nodes nodes = {0};
	const char *canary;
	sl_conf_map(conf, node, "an override", fields, &nodes);
	if (nodes.when != NULL) {
		sl_conf_when(conf, nodes.when, &override->when);
		sl_lint_never(conf, nodes.when, &override->when);
	}
	override->own = nodes.limit != NULL;
	override->limit = limit->shown.limit;
	if (nodes.limit != NULL)
		read_rule(conf, nodes.limit, limit->shown.name, &override->limit);
	else if (nodes.rollout.observe == NULL && nodes.rollout.canary == NULL && node->kind == SL_NODE_MAP && !node->cut)
		sl_report_error(conf->report, node->place,
		                "missing key 'limit' in an override: expected a limit such as 100/1m, unlimited, or one of "
		                "observe and canary");
	override->rollout = limit->rollout;
	sl_conf_rollout(conf, &nodes.rollout, limit->shown.name, &override->rollout, &canary);
	override->rollout.observe |= conf->policy->observe;
}

static void read_overrides(struct sl_conf *conf, const struct limit_nodes *nodes, struct sl_ruleset_limit *limit) {
	const struct sl_yaml *list = nodes->overrides;
	if (list == NULL || !sl_conf_expect(conf, list, SL_NODE_LIST, "a list of overrides"))
		return;
	if (list->count > SL_POLICY_OVERRIDES_MAX) {
		sl_report_error(conf->report, list->place, "expected at most %d overrides, found %u", SL_POLICY_OVERRIDES_MAX,
		                list->count);
		return;
	}
	struct sl_override *overrides = sl_pool_take(&conf->policy->pool, list->count, sizeof *overrides);
	const struct sl_yaml **places = sl_pool_take(conf->scratch, list->count, sizeof *places);
	if (overrides == NULL || places == NULL)
		return;
	limit->overrides = overrides;
	size_t mistakes = conf->report->error_count;
	for (const struct sl_yaml *node = list->first; node != NULL; node = node->next) {
		places[limit->shown.override_count] = node;
		read_override(conf, node, limit, &overrides[limit->shown.override_count++]);
	}
	if (list->count >= SL_INDEX_LEAST)
		limit->index = sl_index_make(&conf->policy->pool, &overrides->when, sizeof *overrides, list->count);
	if (nodes->limit != NULL && conf->report->error_count == mistakes)
		sl_lint_overrides(conf, nodes->limit, limit, places);
}

/* The file of the quotas of single keys, which whoever loads the policy reads. */
static void read_from(struct sl_conf *conf, const struct sl_yaml *node, struct sl_ruleset_limit *limit) {
	struct sluice_policy *policy = conf->policy;
	const char *file = NULL;
	sl_conf_path(conf, node, &file);
	if (file == NULL)
		return;
	if (strlen(file) > SL_QUOTAS_PATH_BYTES_MAX)
		sl_report_error(conf->report, node->place, "expected a path of at most %d bytes, found %zu",
		                SL_QUOTAS_PATH_BYTES_MAX, strlen(file));
	else if (limit->part_count == 0)
		sl_report_error(conf->report, node->place, "overrides-from needs a key: all requests share this counter");
	else if (!sl_rule_has(&limit->shown.limit, SL_HAS_COUNTER))
		sl_report_error(conf->report, node->place,
		                "overrides-from gives keys another quota for the counters of the limit: unlimited has none");
	else if (policy->quotas_count == SL_QUOTAS_FILES_MAX)
		sl_report_error(conf->report, node->place, "expected at most %d limits with "
		                                           "overrides-from", SL_QUOTAS_FILES_MAX);
	else
		policy->quotas[policy->quotas_count++] =
			(struct sl_policy_quotas){file, policy->limit_count, node->place.line, node->place.column};
	limit->shown.overrides_from = file;
}

/* What a limit's conditions say of the path; NULL: nothing. */
static const struct sl_condition *find_paths(const struct sl_when *when) {
	for (uint32_t i = 0; i < when->count; i++)
		if (when->list[i].route_count != 0)
			return &when->list[i];
	return NULL;
}

/* Numbers the routes of a limit, as far as there are numbers. */
static void number_routes(struct sluice_policy *policy, const struct sl_condition *paths,
                          struct sl_ruleset_limit *limit) {
	uint32_t left = SL_POLICY_ROUTES_MAX - policy->route_count, count = paths == NULL ? 0 : paths->route_count;
	limit->paths = paths;
	limit->routes = (struct sl_policy_routes){policy->route_count, count < left ? count : left};
	policy->route_count += limit->routes.count;
}

static void read_limit(struct sl_conf *conf, const struct limit_nodes *nodes, struct sl_ruleset_limit *limit) {
	size_t mistakes = conf->report->error_count;
	limit->of = SL_NAME_NONE;
	limit->shown.terms_text = "";
	conf->optional = false;
	if (nodes->optional != NULL)
		sl_conf_bool(conf, nodes->optional, &conf->optional);
	if (nodes->name != NULL)
		read_name(conf, nodes->name, &limit->shown.name);
	if (nodes->when != NULL) {
		sl_conf_when(conf, nodes->when, &limit->when);
		sl_lint_when(conf, nodes->when);
		sl_lint_never(conf, nodes->when, &limit->when);
	}
	conf->routed = find_paths(&limit->when);
	number_routes(conf->policy, conf->routed, limit);
	if (nodes->key != NULL)
		sl_conf_key(conf, nodes->key, limit);
	bool whole = nodes->limit != NULL && read_rule(conf, nodes->limit, limit->shown.name, &limit->shown.limit);
	if (nodes->candidate != NULL)
		read_candidate(conf, nodes->candidate, whole, &limit->shown);
	sl_conf_rollout(conf, &nodes->rollout, limit->shown.name, &limit->rollout, &limit->shown.canary);
	read_overrides(conf, nodes, limit);
	if (nodes->from != NULL && whole)
		read_from(conf, nodes->from, limit);
	struct sl_term_nodes terms = {nodes->limit,   nodes->candidate,    nodes->of,
	                              nodes->penalty, nodes->count_denied, nodes->reserve};
	sl_conf_terms(conf, &terms, whole && conf->report->error_count == mistakes, limit);
	struct sl_cost_nodes costs = {nodes->cost, nodes->reserve};
	sl_conf_cost(conf, &costs, whole && conf->report->error_count == mistakes, limit);
	limit->rollout.observe |= conf->policy->observe;
	limit->shown.observe = limit->rollout.observe;
	for (uint32_t i = 0; i < limit->shown.override_count; i++)
		limit->shown.rollout_varies |= !sl_rollout_equal(&limit->rollout, &limit->overrides[i].rollout);
	if (whole && conf->report->error_count == mistakes)
		sl_lint_unlimited(conf, nodes->limit, limit);
	if (!sl_limit_variants(&conf->policy->pool, limit))
		sl_report_error(conf->report, nodes->overrides->place,
		                "expected at most %d different counters of one key: algorithms, windows and precisions of a "
		                "limit and its overrides",
		                SL_POLICY_VARIANTS_MAX);
	if (nodes->on_error != NULL)
		sl_conf_on_error(conf, nodes->on_error, &limit->shown.on_error);
	if (nodes->strict != NULL)
		sl_conf_bool(conf, nodes->strict, &limit->shown.strict);
	if (nodes->stagger != NULL)
		sl_conf_bool(conf, nodes->stagger, &limit->shown.stagger);
	if (nodes->denied != NULL)
		sl_conf_denied(conf, nodes->denied, &limit->shown.denied);
	sl_lint_elsewhere(conf, nodes->on_error, nodes->strict, nodes->stagger, &limit->shown);
	conf->policy->route = sl_name_find(conf->policy, sl_str("route"));
	if (conf->routed != NULL && (conf->routed->has_parts || conf->policy->route != SL_NAME_NONE))
		limit->routed = conf->routed;
	conf->routed = NULL;
	sl_lint_routes(conf, nodes->when, limit);
	limit->shown.when_text = sl_describe_when(&conf->policy->pool, nodes->when);
	limit->shown.key_text = sl_describe_key(conf->policy, limit);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static void check_name(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_yaml *const *nodes) {
	const uint32_t position = conf->policy->limit_count;
	const char *name = conf->policy->limits[position].shown.name;
	uint32_t first = name == NULL ? position : sl_limit_names_add(conf->policy, position);
	if (first != position)
		sl_report_error(conf->report, node->place, "duplicate name %s: the limit in line %u has it",
		                sl_quote(sl_str(name)).text, nodes[first]->place.line);
}

static void add_limit(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_yaml **nodes) {
	static const struct sl_field fields[] = {
		{"name", keep, offsetof(struct limit_nodes, name), "a name, such as per-user"},
		{"when", keep, offsetof(struct limit_nodes, when), NULL},
		{"key", keep, offsetof(struct limit_nodes, key), "the key, such as ip; or [] for one counter of all requests"},
		{"limit", keep, offsetof(struct limit_nodes, limit), "a limit such as 100/1m"},
		{"candidate", keep, offsetof(struct limit_nodes, candidate), NULL},
		{"overrides", keep, offsetof(struct limit_nodes, overrides), NULL},
		{"overrides-from", keep, offsetof(struct limit_nodes, from), NULL},
		{"observe", keep, offsetof(struct limit_nodes, rollout.observe), NULL},
		{"canary", keep, offsetof(struct limit_nodes, rollout.canary), NULL},
		{"on-error", keep, offsetof(struct limit_nodes, on_error), NULL},
		{"strict", keep, offsetof(struct limit_nodes, strict), NULL},
		{"stagger", keep, offsetof(struct limit_nodes, stagger), NULL},
		{"of", keep, offsetof(struct limit_nodes, of), NULL},
		{"penalty", keep, offsetof(struct limit_nodes, penalty), NULL},
		{"count-denied", keep, offsetof(struct limit_nodes, count_denied), NULL},
		{"reserve", keep, offsetof(struct limit_nodes, reserve), NULL},
		{"cost", keep, offsetof(struct limit_nodes, cost), NULL},
		{"optional", keep, offsetof(struct limit_nodes, optional), NULL},
		{"denied", keep, offsetof(struct limit_nodes, denied), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct limit_nodes values = {0};
	struct sluice_policy *policy = conf->policy;
	sl_conf_map(conf, node, "a limit", fields, &values);
	read_limit(conf, &values, &policy->limits[policy->limit_count]);
	if (values.name != NULL)
		check_name(conf, values.name, nodes);
	nodes[policy->limit_count++] = node;
}

void sl_conf_limits(struct sl_conf *conf, const struct sl_yaml *list, void *into) {
	struct sluice_policy *policy = into;
	if (!sl_conf_expect(conf, list, SL_NODE_LIST, "a list of limits"))
		return;
	if (list->count > SL_POLICY_LIMITS_MAX) {
		sl_report_error(conf->report, list->place, "expected at most %d limits, found %u", SL_POLICY_LIMITS_MAX,
		                list->count);
		return;
	}
	policy->limits = sl_pool_take(&policy->pool, list->count, sizeof *policy->limits);
	const struct sl_yaml **nodes = sl_pool_take(conf->scratch, list->count, sizeof *nodes);
	conf->first_use = sl_pool_take(conf->scratch, SL_ATTRIBUTES_MAX, sizeof *conf->first_use);
	if (policy->limits == NULL || nodes == NULL || conf->first_use == NULL || !sl_limit_names_make(policy, list->count))
		return;
	for (const struct sl_yaml *node = list->first; node != NULL; node = node->next)
		add_limit(conf, node, nodes);
	if (conf->report->error_count != 0)
		return;
	if (list->count >= SL_INDEX_LEAST)
		policy->index = sl_index_make(&policy->pool, &policy->limits->when, sizeof *policy->limits, list->count);
	sl_lint_names(conf);
	sl_lint_many(conf, nodes);
	sl_lint_room(conf, nodes);
	sl_lint_calendars(conf, nodes);
	sl_lint_paths(conf, nodes);
	sl_lint_hidden(conf, nodes);
}
