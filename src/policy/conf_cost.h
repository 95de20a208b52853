/* What a request costs at one limit, where that is not what the request says itself. */
#ifndef SL_CONF_COST_H
#define SL_CONF_COST_H

#include "policy/conf.h"

/* The other keys of a limit that its cost depends on. Nodes are their values, NULL where it has none. */
struct sl_cost_nodes {
	const struct sl_yaml *cost, *reserve;
};

/* Reads `cost` into a limit whose notation, overrides and `reserve` have been read; `whole` is false where one of those
 * could not be, and nothing is said then of what does not go with them. The store must have been read. */
void sl_conf_cost(struct sl_conf *conf, const struct sl_cost_nodes *nodes, bool whole, struct sl_ruleset_limit *limit);

#endif
