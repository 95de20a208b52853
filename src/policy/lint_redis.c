/* What cannot be meant, or will be regretted, of a store in Redis, and of limits that think they have one.
 *
 * As in lint.c, each warning is true whatever the traffic is. A node on loopback or a unix socket is this host's:
 * nobody listens in between.
 */
#include "algo/step.h"
#include "algo/traits.h"
#include "policy/lint.h"

static const sluice_ns SECOND_NS = 1000000000;

static bool crosses_network(const struct sl_redis_settings *redis) {
	for (uint32_t i = 0; i < redis->address_count; i++) {
		const char *text = redis->addresses[i];
		struct sl_address address;
		bool local = strncmp(text, "unix:", 5) == 0 || strncmp(text, "localhost:", 10) == 0 ||
		             (sl_address_parse(sl_str(text), &address, NULL) && sl_address_is_loopback(&address));
		if (!local)
			return true;
	}
	return false;
}

void sl_lint_redis(struct sl_conf *conf, const struct sl_redis_nodes *nodes, const struct sl_redis_settings *redis) {
	if (nodes->budget != NULL && redis->budget_ns > SECOND_NS)
		sl_report_warning(conf->report, nodes->budget->place,
		                  "while nodes don't answer, every request waits this long: a budget above 1s stalls callers");
	if (nodes->slice != NULL && !redis->slices)
		sl_report_warning(conf->report, nodes->slice->place, "slice has no effect: slices is false");
	if (nodes->password_file != NULL && !redis->tls && crosses_network(redis))
		sl_report_warning(conf->report, nodes->password_file->place,
		                  "the password crosses the network in clear text: tls protects it");
}

void sl_lint_elsewhere(struct sl_conf *conf, const struct sl_yaml *on_error, const struct sl_yaml *strict,
                       const struct sl_yaml *stagger, const struct sl_policy_limit *limit) {
	const bool elsewhere = conf->policy->settings.redis.address_count != 0;
	if (on_error != NULL && !elsewhere && limit->on_error == SL_ON_ERROR_LOCAL)
		sl_report_warning(conf->report, on_error->place,
		                  "local acts as allow here: the store is on this host, not in Redis");
	if (strict != NULL && !elsewhere && limit->strict)
		sl_report_warning(conf->report, strict->place,
		                  "strict has no effect here: it forbids slices, which only a store in Redis has");
	if (stagger != NULL && !elsewhere && limit->stagger && sl_rule_has(&limit->limit, SL_HAS_SEATS))
		sl_report_warning(conf->report, stagger->place,
		                  "stagger has no effect at concurrency and distinct: their callers are told the exact wait");
	if (stagger != NULL && elsewhere && limit->stagger && sl_rule_lacks(&limit->limit, SL_DRAINS) &&
	    !sl_step_goes_at_once(&limit->limit))
		sl_report_warning(conf->report, stagger->place,
		                  "stagger has no effect here: the store is in Redis, where only the waits of buckets and "
		                  "fixed windows can be staggered");
}
