/* What counters in Redis hold of a request, beside what its policy says of it. */
#ifndef SL_CLI_EXPLAIN_REDIS_H
#define SL_CLI_EXPLAIN_REDIS_H

#include "hosts/cli/told.h"

/* Asks a Redis with Sluice's module what the counters of a request hold, and adds it to what is told of those limits.
 *  client  connected; a limit is one SLUICE.INSPECT, one after the other
 *  prefix  of keys in Redis; "" for none
 *  attributes  of the request, which the policy has been asked about before: each once
 *  list    what the policy said of all its limits: name, key, cost; `count` of them
 * False with `error` filled: nobody answers, or what is told is no answer. */
bool sl_explain_in_redis(struct sl_client *client, const struct sluice_policy *policy, const char *prefix,
                         const struct sluice_attribute *attributes, size_t attribute_count, struct sl_told *list,
                         uint32_t count, struct sluice_error *error);

#endif
