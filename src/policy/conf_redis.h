/* What `store` says of nodes of Redis or Valkey, before it is read. */
#ifndef SL_CONF_REDIS_H
#define SL_CONF_REDIS_H

#include "policy/conf.h"

/* The values of the keys of `store` that are about nodes; NULL where it has none. */
struct sl_redis_nodes {
	const struct sl_yaml *redis, *prefix, *via, *budget, *slices, *slice, *ready_after, *user, *password;
	const struct sl_yaml *password_file, *tls;
};

/* Reads them into settings that hold the defaults; O(addresses^2), at most SL_REDIS_ADDRESSES_MAX. Without `redis` all
 * others are mistakes: they would say how to ask nobody. */
void sl_conf_redis(struct sl_conf *conf, const struct sl_redis_nodes *nodes, struct sl_redis_settings *redis);

#endif
