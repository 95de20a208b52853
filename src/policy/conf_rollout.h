/* Whom a limit, or an override, denies: everybody, nobody, or a share. */
#ifndef SL_CONF_ROLLOUT_H
#define SL_CONF_ROLLOUT_H

#include "policy/conf.h"

/* The values of those keys, NULL where a limit or an override has none. */
struct sl_rollout_nodes {
	const struct sl_yaml *observe, *canary;
};

/* Reads them. Where neither is written, `rollout` and `shown` stay as they are: an override is enforced as its limit.
 *  name   of the limit; NULL where it could not be read
 *  shown  the canary as one line, in the policy's memory; NULL without one */
void sl_conf_rollout(struct sl_conf *conf, const struct sl_rollout_nodes *nodes, const char *name,
                     struct sl_rollout *rollout, const char **shown);

#endif
