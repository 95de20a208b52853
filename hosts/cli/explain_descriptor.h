/* What a descriptor of Envoy's rate limit service finds in the files of envoyproxy/ratelimit. */
#ifndef SL_EXPLAIN_DESCRIPTOR_H
#define SL_EXPLAIN_DESCRIPTOR_H

#include "hosts/cli/ask.h"

/* Reads the files that a policy names into it, before it is asked about. False with `*status` what to exit with: the
 * reason is said.
 *  policy_file  of the policy, for what is wrong with the files */
bool sl_explain_read_files(struct sl_cli_ask *ask, struct sluice_policy *policy, const char *policy_file, int *status);

/* Tells which rule a descriptor finds, and what is left of it; nothing is charged.
 *  ask         connected to a server, or to the door in this process
 *  counters    false: nobody knows what counters hold
 *  descriptor  KEY=VALUE,KEY=VALUE..; in either a comma, a percent sign or = is %2C, %25, %3D
 * Returns the exit status: SL_EXIT_FINE, SL_EXIT_DENIED, or another with the reason said. */
int sl_explain_descriptor(struct sl_cli_ask *ask, bool counters, const char *domain, const char *descriptor);

#endif
