/* What a descriptor of Envoy's rate limit service finds in the files of envoyproxy/ratelimit. */
#ifndef SL_EXPLAIN_DESCRIPTOR_H
#define SL_EXPLAIN_DESCRIPTOR_H

#include "hosts/cli/ask.h"

/* Reads the files that a policy names, and tells which rule a descriptor finds, and what its counter holds where
 * ask->store names a store of this host, or a Redis; nothing is charged.
 *  policy_file  of the policy, for what is wrong with the files
 *  descriptor   KEY=VALUE,KEY=VALUE..; in either a comma, a percent sign or = is %2C, %25, %3D
 * Returns the exit status: SL_EXIT_FINE, SL_EXIT_DENIED, or SL_EXIT_FAILED with the reason said. */
int sl_explain_descriptor(struct sl_cli_ask *ask, struct sluice_policy *policy, const char *policy_file,
                          const char *domain, const char *descriptor);

#endif
