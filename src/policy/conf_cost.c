/* What a request costs at one limit.
 *
 *   cost = NUMBER | header NAME | [ROUTE, ... , header NAME, NUMBER]        ROUTE = {when: CONDITIONS, cost: NUMBER}
 *
 * In a list the first that fits counts: conditions in their order, then the header where the request has one, then the
 * number. A number holds whoever asks, and whatever cost he says: it is what this limit takes such a request for. A
 * header lets the request say it, and so does a caller who states a cost; the number after it is for those who do
 * neither.
 */
#include "policy/conf_cost.h"

#include "algo/traits.h"
#include "policy/conf_terms.h"
#include "policy/lint.h"

struct route_nodes {
	const struct sl_yaml *when, *cost;
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

/* Cost 0 is no cost: whoever is not to be counted has an override. */
static void read_number(struct sl_conf *conf, const struct sl_yaml *node, uint32_t *cost) {
	if (node->kind == SL_NODE_TEXT && sl_bytes_equal(node->text, sl_str("0")))
		sl_report_error(conf->report, node->place,
		                "expected a cost from 1, found 0: an override whose limit is unlimited costs nothing");
	else
		sl_conf_number(conf, node, 1, UINT32_MAX, cost);
}

static void read_route(struct sl_conf *conf, const struct sl_yaml *node, struct sl_cost_route *route) {
	static const struct sl_field fields[] = {
		{"when", keep, offsetof(struct route_nodes, when), "conditions, such as {path: /export/*}"},
		{"cost", keep, offsetof(struct route_nodes, cost), "a cost such as 5"},
		{NULL, NULL, 0, NULL},
	};
	struct route_nodes nodes = {0};
	sl_conf_map(conf, node, "a cost", fields, &nodes);
	if (nodes.when != NULL) {
		sl_conf_when(conf, nodes.when, &route->when);
		sl_lint_never(conf, nodes.when, &route->when);
	}
	if (nodes.cost != NULL)
		read_number(conf, nodes.cost, &route->cost);
}

/* One element of a list; false for one that stands where it can't, which is reported. */
static bool read_element(struct sl_conf *conf, const struct sl_yaml *node, struct sl_cost_route *routes,
                         struct sl_policy_cost *cost) {
	bool header = sl_conf_is_header(node);
	if (cost->cost != 0 || (cost->header != NULL && (header || node->kind == SL_NODE_MAP))) {
		sl_report_error(conf->report, node->place,
		                "never read: expected first {when, cost} of some requests, then header NAME, then a number");
		return false;
	}
	if (node->kind == SL_NODE_MAP)
		read_route(conf, node, &routes[cost->route_count++]);
	else if (header)
		cost->header = sl_conf_header(conf, node);
	else
		read_number(conf, node, &cost->cost);
	return true;
}

static void read_list(struct sl_conf *conf, const struct sl_yaml *list, struct sl_ruleset_limit *limit) {
	struct sl_cost_route *routes = NULL;
	if (list->count < 1 || list->count > SL_POLICY_COSTS_MAX) {
		sl_report_error(conf->report, list->place, "expected 1 to %d costs, found %u", SL_POLICY_COSTS_MAX,
		                list->count);
		return;
	}
	routes = sl_pool_take(&conf->policy->pool, list->count, sizeof *routes);
	limit->cost_routes = routes;
	for (const struct sl_yaml *node = list->first; node != NULL && routes != NULL; node = node->next)
		if (!read_element(conf, node, routes, &limit->shown.cost))
			return;
}

/* Does a cost go with the limit and its overrides? */
static void check_kinds(struct sl_conf *conf, const struct sl_cost_nodes *nodes, const struct sl_ruleset_limit *limit) {
	bool counts = false, members = false;
	for (uint32_t i = 0; i <= limit->shown.override_count; i++) {
		const struct sluice_limit *one = i == 0 ? &limit->shown.limit : &limit->overrides[i - 1].limit;
		counts = counts || sl_rule_has(one, SL_HAS_COUNTER);
		members = members || sl_rule_has(one, SL_TAKES_MEMBER);
	}
	if (members)
		sl_report_error(conf->report, nodes->cost->place,
		                "cost does not go with distinct: a member counts as one, whatever the request costs");
	else if (!counts)
		sl_report_error(conf->report, nodes->cost->place, "cost does not go with unlimited: it counts nothing");
	if (limit->shown.reserve.on)
		sl_report_error(conf->report, nodes->cost->place,
		                "cost does not go with reserve: a request first costs the estimate");
	sl_conf_needs_module(conf, nodes->cost, "a cost of one limit alone");
}

void sl_conf_cost(struct sl_conf *conf, const struct sl_cost_nodes *nodes, bool whole, struct sl_ruleset_limit *limit) {
	const struct sl_yaml *node = nodes->cost;
	struct sl_policy_cost *cost = &limit->shown.cost;
	if (node == NULL)
		return;
	size_t mistakes = conf->report->error_count;
	cost->on = true;
	if (node->kind == SL_NODE_LIST)
		read_list(conf, node, limit);
	else if (sl_conf_is_header(node))
		cost->header = sl_conf_header(conf, node);
	else
		read_number(conf, node, &cost->cost);
	if (whole)
		check_kinds(conf, nodes, limit);
	if (whole && conf->report->error_count == mistakes)
		sl_lint_costs(conf, node, limit);
}
