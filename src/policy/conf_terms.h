/* What a limit says beyond how much, and of whom: members, penalties, denials that count, reservations. */
#ifndef SL_CONF_TERMS_H
#define SL_CONF_TERMS_H

#include "policy/conf.h"

/* The values of those keys, NULL where a limit has none; and those of `limit` and `candidate`, for what is missing. */
struct sl_term_nodes {
	const struct sl_yaml *limit, *candidate, *of, *penalty, *count_denied, *reserve;
};

/* Reads them into a limit whose own notation and overrides have been read; where `whole` is false one of those could
 * not be, and nothing is said of what does not go with them. The store must have been read. */
void sl_conf_terms(struct sl_conf *conf, const struct sl_term_nodes *nodes, bool whole, struct sl_ruleset_limit *limit);

/* Says of what needs Sluice's module where the counters are in Redis: an error where it can't be there, a warning where
 * it may be missing. `node` is where, `what` what needs it. The store must have been read. */
void sl_conf_needs_module(struct sl_conf *conf, const struct sl_yaml *node, const char *what);
/* The same of what a limit's notation says. */
void sl_conf_limit_needs_module(struct sl_conf *conf, const struct sl_yaml *node, const struct sluice_limit *limit);

/* What of a limit's notation needs the module, for SL_NEEDS_MODULE_TEXT, where the counters are in a Redis that is to
 * do without it; else NULL. */
const char *sl_beyond_script(const struct sl_redis_settings *redis, const struct sluice_limit *limit);
/* Of a whole policy whose counters stay in that Redis, whatever its own store: the name of a limit that needs it. */
const char *sl_policy_beyond_script(const struct sluice_policy *policy, const struct sl_redis_settings *redis);
#define SL_NEEDS_MODULE_TEXT "%s needs Sluice's module on the nodes: via: script can't do it"

#endif
