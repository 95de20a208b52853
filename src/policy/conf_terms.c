/* Members, penalties, denials that count, reservations: each belongs to some algorithms, and says why not to others.
 *
 *   of            an attribute: whose values are the members of `distinct`
 *   penalty       "[1m, 10m] after 3 denials in 1m forgive 1d", with quotes or without (brackets.c)
 *                 | {steps: [1m, 10m], after: 3, in: 1m, forgive: 1d}
 *   count-denied  true | false
 *   reserve       true | false | {ttl: 60s, actual: header NAME, estimate: N | header NAME | [header NAME, N]}
 *
 * A limit may have overrides of other algorithms. What is said here holds for all of them, so it must be possible with
 * each; `unlimited` among them takes no part.
 */
#include "policy/conf_terms.h"

#include "algo/hll.h"
#include "algo/terms.h"
#include "base/assert.h"
#include "policy/lint.h"

#include <stdio.h>

static const char duration_max[] = "3660d";

enum { RESERVE_TTL_S = 60 };

/* ---- what goes with what ---------------------------------------------------------------------------------------- */

/* A bit for each algorithm that a limit or one of its overrides has. */
static uint32_t find_kinds(const struct sl_ruleset_limit *limit) {
	uint32_t kinds = 1u << limit->shown.limit.algorithm;
	for (uint32_t i = 0; i < limit->shown.override_count; i++)
		kinds |= 1u << limit->overrides[i].limit.algorithm;
	return kinds;
}

/* Refuses a key that some of a limit's algorithms can't have: those that are `without` what it takes, and say `why`. */
static void goes_with(struct sl_conf *conf, const struct sl_yaml *node, const char *key, uint32_t kinds,
                      uint32_t without, const char *why) {
	uint32_t refused = kinds & without;
	SL_ASSERT(node != NULL); /* what was read has its text */
	if (refused == 0 && (kinds & sl_algorithms_with(SL_HAS_COUNTER)) == 0)
		refused = kinds, why = "it counts nothing";
	if (refused != 0)
		sl_report_error(conf->report, node->place, "%s does not go with %s: %s", key,
		                sl_algorithm_word((uint32_t)__builtin_ctz(refused)), why);
}

void sl_conf_needs_module(struct sl_conf *conf, const struct sl_yaml *node, const char *what) {
	const struct sl_redis_settings *redis = &conf->policy->settings.redis;
	SL_ASSERT(node != NULL);
	if (redis->address_count == 0 || redis->via == SL_VIA_MODULE)
		return;
	if (redis->via == SL_VIA_SCRIPT)
		sl_report_error(conf->report, node->place, SL_NEEDS_MODULE_TEXT, what);
	else
		sl_report_warning(conf->report, node->place,
		                  "%s needs Sluice's module on the nodes: via: module makes sure of it", what);
}

/* A script counts the debt of a bucket in 1/W of a unit, W in milliseconds: that of a full one, and a charge more, has
 * to fit the 53 bits of a number in Lua (hosts/redis/script/notation.lua). */
static bool fits_script(const struct sluice_limit *limit) {
	uint64_t window_ms = (uint64_t)limit->window_ns / SL_MS_NS;
	return !sl_rule_has(limit, SL_DRAINS) || limit->quota == 0 ||
	       limit->derived[SL_CAPACITY] + 1 <= (((uint64_t)1 << 53) - 1) / window_ms;
}

/* A call to a script reads and writes all leases of a counter (hosts/redis/script/notation.lua). */
enum { SCRIPT_LEASES_MAX = 1024 };

/* What of a limit's notation may need the module: bits, in the order of the texts. */
enum { NEEDS_CALENDAR = 1, NEEDS_SPREAD = 2, NEEDS_MANY = 4, NEEDS_LEASES = 8, NEEDS_WIDE = 16 };
static const char *const needing[] = {"a window of the calendar", "spread", "distinct above 1,024",
                                      "concurrency above 1,024",
                                      "a bucket of so large a burst over so long a window"};

static uint32_t needs_of(const struct sluice_limit *limit) {
	return (limit->calendar != SLUICE_CALENDAR_NONE ? NEEDS_CALENDAR : 0) |
	       (sl_rule_spreads(limit) ? NEEDS_SPREAD : 0) | (sl_distinct_error(limit) != 0 ? NEEDS_MANY : 0) |
	       (sl_rule_has(limit, SL_TAKES_LEASE) && limit->quota > SCRIPT_LEASES_MAX ? NEEDS_LEASES : 0) |
	       (fits_script(limit) ? 0 : NEEDS_WIDE);
}

static void report_needs(struct sl_conf *conf, const struct sl_yaml *node, uint32_t needs) {
	for (uint32_t i = 0; i < sizeof needing / sizeof *needing; i++)
		if ((needs >> i & 1) != 0)
			sl_conf_needs_module(conf, node, needing[i]);
}

void sl_conf_limit_needs_module(struct sl_conf *conf, const struct sl_yaml *node, const struct sluice_limit *limit) {
	report_needs(conf, node, needs_of(limit));
}

const char *sl_beyond_script(const struct sl_redis_settings *redis, const struct sluice_limit *limit) {
	uint32_t needs = needs_of(limit);
	if (redis->address_count == 0 || redis->via != SL_VIA_SCRIPT || needs == 0)
		return NULL;
	return needing[__builtin_ctz(needs)];
}

/* Those of the limit and of its overrides. */
static uint32_t needs_of_notations(const struct sl_ruleset_limit *limit) {
	uint32_t needs = needs_of(&limit->shown.limit);
	for (uint32_t i = 0; i < limit->shown.override_count; i++)
		needs |= needs_of(&limit->overrides[i].limit);
	return needs;
}

static void check_store(struct sl_conf *conf, const struct sl_term_nodes *nodes, const struct sl_ruleset_limit *limit) {
	report_needs(conf, nodes->limit, needs_of_notations(limit));
	if (limit->shown.has_candidate)
		report_needs(conf, nodes->candidate, needs_of(&limit->shown.candidate));
	if (limit->shown.terms.penalty_count != 0)
		sl_conf_needs_module(conf, nodes->penalty, "penalty");
	if (limit->shown.terms.count_denied)
		sl_conf_needs_module(conf, nodes->count_denied, "count-denied");
	if (limit->shown.reserve.on)
		sl_conf_needs_module(conf, nodes->reserve, "reserve");
}

static bool is_beyond_script(const struct sl_ruleset_limit *limit) {
	return needs_of_notations(limit) != 0 ||
	       (limit->shown.has_candidate && needs_of(&limit->shown.candidate) != 0) ||
	       limit->shown.terms.penalty_count != 0 || limit->shown.terms.count_denied ||
	       limit->shown.reserve.on || limit->shown.cost.on;
}

const char *sl_policy_beyond_script(const struct sluice_policy *policy, const struct sl_redis_settings *redis) {
	if (redis->address_count != 0 && redis->via == SL_VIA_SCRIPT)
		for (uint32_t i = 0; i < policy->limit_count; i++)
			if (is_beyond_script(&policy->limits[i]))
				return policy->limits[i].shown.name;
	return NULL;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

static void read_of(struct sl_conf *conf, const struct sl_yaml *node, struct sl_ruleset_limit *limit) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "the attribute whose values are counted, such as ip", &text))
		return;
	uint16_t number = sl_conf_name(conf, node, 0, text);
	if (number == SL_NAME_NONE)
		return;
	limit->of = number;
	limit->shown.of = conf->policy->names[number].text.data;
	sl_lint_of(conf, node, limit);
}

/* ---- penalties -------------------------------------------------------------------------------------------------- */

struct penalty_nodes {
	const struct sl_yaml *steps, *after, *in, *forgive;
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

static void read_duration(struct sl_conf *conf, const struct sl_yaml *node, sluice_ns *ns) {
	sl_conf_wait(conf, node, SL_MS_NS, "1ms", SL_WINDOW_NS_MAX, duration_max, ns);
}

static void read_steps(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_terms *terms) {
	bool list = node->kind == SL_NODE_LIST;
	if (list && (node->count < 1 || node->count > SLUICE_PENALTIES_MAX)) {
		sl_report_error(conf->report, node->place, "expected 1 to %d penalties, found %u", SLUICE_PENALTIES_MAX,
		                node->count);
		return;
	}
	for (const struct sl_yaml *one = list ? node->first : node; one != NULL; one = list ? one->next : NULL) {
		sluice_ns step = 0, before = terms->penalty_count == 0 ? 0 : terms->penalties_ns[terms->penalty_count - 1];
		read_duration(conf, one, &step);
		if (step == 0)
			continue;
		if (step <= before)
			sl_report_found(conf->report, one->place, one->text,
			                "expected a penalty that is longer than the one before");
		terms->penalties_ns[terms->penalty_count++] = step;
	}
}

static void read_penalty_map(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_terms *terms) {
	static const struct sl_field fields[] = {
		{"steps", keep, offsetof(struct penalty_nodes, steps), "the penalties, such as [1m, 10m, 1h]"},
		{"after", keep, offsetof(struct penalty_nodes, after), "after how many denials, such as 3"},
		{"in", keep, offsetof(struct penalty_nodes, in), "in what time, such as 1m"},
		{"forgive", keep, offsetof(struct penalty_nodes, forgive), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct penalty_nodes nodes = {0};
	uint32_t after = 0;
	sl_conf_map(conf, node, "a penalty", fields, &nodes);
	if (nodes.steps != NULL)
		read_steps(conf, nodes.steps, terms);
	if (nodes.after != NULL)
		sl_conf_number(conf, nodes.after, 1, SL_AFTER_MAX, &after);
	if (nodes.in != NULL)
		read_duration(conf, nodes.in, &terms->within_ns);
	terms->after = (uint16_t)after;
	terms->forgive_ns = terms->penalty_count == 0 ? 0 : terms->penalties_ns[terms->penalty_count - 1];
	if (nodes.forgive != NULL)
		read_duration(conf, nodes.forgive, &terms->forgive_ns);
}

static void read_penalty(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_terms *terms) {
	struct sluice_error error = {0};
	struct sluice_bytes text;
	if (node->kind == SL_NODE_MAP) {
		read_penalty_map(conf, node, terms);
	} else if (sl_conf_text(conf, node, "penalties such as [1m, 10m, 1h] after 3 denials in 1m", &text) &&
	           sl_penalty_parse(terms, text, &error) != SLUICE_OK) {
		struct sl_position place = error.column == 0 ? node->place : sl_node_place(node, error.column - 1);
		sl_report_error(conf->report, place, "%s", error.text);
	}
}

/* ---- reservations ----------------------------------------------------------------------------------------------- */

struct reserve_nodes {
	const struct sl_yaml *ttl, *actual, *estimate;
};

/* 500, `header x-estimate`, or [header x-estimate, 500]. Returns the number, NULL if there is none. */
static const struct sl_yaml *read_estimate(struct sl_conf *conf, const struct sl_yaml *node,
                                           struct sl_policy_reserve *reserve) {
	bool list = node->kind == SL_NODE_LIST;
	const struct sl_yaml *header = list ? node->first : sl_conf_is_header(node) ? node : NULL;
	const struct sl_yaml *number = list && header != NULL ? header->next : list || header != NULL ? NULL : node;
	if (list && (node->count != 2 || number == NULL)) {
		sl_report_error(conf->report, node->place,
		                "expected a cost such as 500, header NAME, or both as a list: [header x-estimate, 500]");
		return NULL;
	}
	if (header != NULL)
		reserve->estimate_header = sl_conf_header(conf, header);
	if (number != NULL)
		sl_conf_number(conf, number, 1, UINT32_MAX, &reserve->estimate);
	return number;
}

/* Returns the number of its estimate, NULL if there is none. */
static const struct sl_yaml *read_reserve(struct sl_conf *conf, const struct sl_yaml *node,
                                          struct sl_policy_reserve *reserve) {
	static const struct sl_field fields[] = {
		{"ttl", keep, offsetof(struct reserve_nodes, ttl), NULL},
		{"actual", keep, offsetof(struct reserve_nodes, actual), NULL},
		{"estimate", keep, offsetof(struct reserve_nodes, estimate), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct reserve_nodes nodes = {0};
	const struct sl_yaml *number = NULL;
	if (node->kind == SL_NODE_MAP) {
		reserve->on = true;
		sl_conf_map(conf, node, "reserve", fields, &nodes);
	} else {
		sl_conf_bool(conf, node, &reserve->on);
	}
	if (!reserve->on)
		return NULL;
	reserve->ttl_ns = (sluice_ns)RESERVE_TTL_S * 1000 * SL_MS_NS;
	if (nodes.ttl != NULL)
		read_duration(conf, nodes.ttl, &reserve->ttl_ns);
	if (nodes.actual != NULL)
		reserve->actual_header = sl_conf_header(conf, nodes.actual);
	if (nodes.estimate != NULL)
		number = read_estimate(conf, nodes.estimate, reserve);
	if (reserve->actual_header != NULL)
		sl_lint_actual(conf, nodes.actual);
	return number;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* Do the keys go with the limit and its overrides? */
static void check_kinds(struct sl_conf *conf, const struct sl_term_nodes *nodes, const struct sl_ruleset_limit *limit) {
	const struct sl_policy_limit *shown = &limit->shown;
	uint32_t kinds = find_kinds(limit);
	bool distinct = (kinds & sl_algorithms_with(SL_TAKES_MEMBER)) != 0;
	if (distinct && nodes->of == NULL)
		sl_report_error(conf->report, nodes->limit->place,
		                "missing key 'of' in a limit of distinct: expected the attribute whose values are counted, "
		                "such as ip");
	if (!distinct && nodes->of != NULL)
		sl_report_error(conf->report, nodes->of->place,
		                "of is for distinct alone, such as distinct 5/1d: all other limits count requests");
	if (shown->terms.count_denied)
		goes_with(conf, nodes->count_denied, "count-denied", kinds, sl_algorithms_without(SL_COUNTS_DENIED),
		          "it can't count denials");
	if (shown->terms.penalty_count != 0)
		goes_with(conf, nodes->penalty, "penalty", kinds, 0, NULL);
	if (shown->reserve.on)
		goes_with(conf, nodes->reserve, "reserve", kinds, sl_algorithms_without(SL_RESERVABLE),
		          "its charges can't be corrected later");
	check_store(conf, nodes, limit);
}

void sl_conf_terms(struct sl_conf *conf, const struct sl_term_nodes *nodes, bool whole,
                   struct sl_ruleset_limit *limit) {
	struct sl_policy_limit *shown = &limit->shown;
	const struct sl_yaml *estimate = NULL;
	char text[SL_TERMS_TEXT_MAX];
	if (nodes->of != NULL)
		read_of(conf, nodes->of, limit);
	if (nodes->penalty != NULL)
		read_penalty(conf, nodes->penalty, &shown->terms);
	if (nodes->count_denied != NULL)
		sl_conf_bool(conf, nodes->count_denied, &shown->terms.count_denied);
	if (nodes->reserve != NULL)
		estimate = read_reserve(conf, nodes->reserve, &shown->reserve);
	shown->has_terms = shown->terms.count_denied || shown->terms.penalty_count != 0;
	if (!whole)
		return;
	check_kinds(conf, nodes, limit);
	if (conf->report->error_count == 0)
		sl_lint_terms(conf, nodes, limit);
	if (estimate != NULL && conf->report->error_count == 0)
		sl_lint_first_charge(conf, estimate, limit);
	if (shown->has_terms && conf->report->error_count == 0)
		shown->terms_text = sl_pool_text(&conf->policy->pool, sl_slice(text, sl_terms_print(&shown->terms, text)));
}
