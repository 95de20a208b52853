/* What will surprise of members, leases, penalties, reservations and windows of the calendar.
 *
 * As in lint.c, each warning is true whatever the traffic is, and there is a way to write the limit without it.
 */
#include "policy/lint.h"

#include "algo/hll.h"
#include "algo/terms.h"

enum { LEASE_LONG_H = 24 };

static const sluice_ns HOUR_NS = (sluice_ns)3600 * 1000 * SL_MS_NS;

/* ---- members, leases -------------------------------------------------------------------------------------------- */

void sl_lint_of(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	if (!conf->optional && !sl_name_is_built_in(sl_str(limit->shown.of)))
		sl_report_warning(conf->report, node->place,
		                  "a request without %s escapes this limit: it has no member and is not counted",
		                  sl_quote(sl_str(limit->shown.of)).text);
	for (uint32_t i = 0; i < limit->part_count; i++)
		if (limit->parts[i].count == 1 && limit->parts[i].choices[0] == limit->of)
			sl_report_warning(conf->report, node->place, "%s is part of the key as well: each counter has one member",
			                  sl_quote(sl_str(limit->shown.of)).text);
}

/* The limit itself, then its overrides. */
static const struct sluice_limit *variant(const struct sl_ruleset_limit *limit, uint32_t i) {
	return i == 0 ? &limit->shown.limit : &limit->overrides[i - 1].limit;
}

static void lint_estimate(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	for (uint32_t i = 0; i <= limit->shown.override_count; i++) {
		uint32_t error_bp = sl_distinct_error(variant(limit, i));
		if (error_bp == 0)
			continue;
		sl_report_warning(conf->report, node->place,
		                  "more than 1,024 members are estimated: standard error %u.%02u %%, some %u KiB a key that "
		                  "has so many",
		                  error_bp / 100, error_bp % 100,
		                  (unsigned)(sl_hll_bytes(sl_rule_register_bits(variant(limit, i))) / 1024));
		return;
	}
}

static void lint_allow(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	for (uint32_t i = 0; i <= limit->shown.override_count; i++)
		if (sl_rule_has(variant(limit, i), SL_TAKES_MEMBER) && variant(limit, i)->edge == SLUICE_EDGE_ALLOW) {
			sl_report_warning(conf->report, node->place,
			                  "edge allow is not a bound: once the quota is used up, nearly all new members are "
			                  "admitted too, because an estimate can't tell them from counted ones: use edge deny "
			                  "where the quota protects something");
			return;
		}
}

static void lint_lease(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit) {
	for (uint32_t i = 0; i <= limit->shown.override_count; i++)
		if (sl_rule_has(variant(limit, i), SL_TAKES_LEASE) &&
		    variant(limit, i)->window_ns > LEASE_LONG_H * HOUR_NS) {
			sl_report_warning(conf->report, node->place,
			                  "a holder that dies keeps its place for as long as the lease: shorter ones can be "
			                  "renewed");
			return;
		}
}

/* ---- penalties, reservations ------------------------------------------------------------------------------------ */

/* The longest that a request of cost 1 can be told to wait by the limit itself, or less. */
static sluice_ns longest_wait(const struct sluice_limit *limit) {
	bool bucket = sl_rule_has(limit, SL_DRAINS);
	return bucket && limit->quota != 0 ? limit->window_ns / limit->quota : limit->window_ns;
}

static void lint_penalty(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_policy_limit *shown) {
	const struct sluice_terms *terms = &shown->terms;
	if (!sl_rule_has(&shown->limit, SL_HAS_COUNTER) || terms->penalty_count == 0)
		return;
	if (terms->penalties_ns[terms->penalty_count - 1] < longest_wait(&shown->limit))
		sl_report_warning(conf->report, node->place,
		                  "the limit itself may make a client wait longer than the longest penalty");
}

void sl_lint_actual(struct sl_conf *conf, const struct sl_yaml *node) {
	if (!sl_lint_has_door(conf, SL_LISTEN_HTTP))
		sl_report_warning(conf->report, node->place,
		                  "never read: only HTTP doors see the headers of responses, and there is no http listener");
}

void sl_lint_terms(struct sl_conf *conf, const struct sl_term_nodes *nodes, const struct sl_ruleset_limit *limit) {
	lint_estimate(conf, nodes->limit, limit);
	lint_allow(conf, nodes->limit, limit);
	lint_lease(conf, nodes->limit, limit);
	if (nodes->penalty != NULL)
		lint_penalty(conf, nodes->penalty, &limit->shown);
}

/* ---- windows of the calendar ------------------------------------------------------------------------------------- */

/* Does it bound bursts, whatever the calendar? */
static bool rolls(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_HAS_COUNTER) && !sl_rule_has(limit, SL_TAKES_MEMBER) &&
	       limit->calendar == SLUICE_CALENDAR_NONE;
}

void sl_lint_calendars(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sluice_policy *policy = conf->policy;
	for (uint32_t i = 0; i < policy->limit_count; i++) {
		const struct sl_policy_limit *shown = &policy->limits[i].shown;
		bool bounded = shown->limit.calendar == SLUICE_CALENDAR_NONE;
		for (uint32_t j = 0; j < policy->limit_count && !bounded; j++) {
			if (!sl_lint_spend(conf, 1))
				return;
			const struct sl_policy_limit *other = &policy->limits[j].shown;
			bounded = rolls(&other->limit) && strcmp(other->key_text, shown->key_text) == 0;
		}
		if (!bounded)
			sl_report_warning(conf->report, nodes[i]->place,
			                  "up to twice the quota passes around the end of a window of the calendar: add a second "
			                  "limit with the same key, such as 100/1m, to bound that");
	}
}
