/* The policy file: read, loaded, its problems printed. */
#ifndef SL_POLICY_FILE_H
#define SL_POLICY_FILE_H

#include "policy/policy.h"

/* Loads a policy, or an empty one where `path` is NULL. What is wrong or doubtful goes to standard error, a line each:
 * "FILE:LINE:COLUMN: text". Returns NULL when there is no policy to serve. Free it with sluice_policy_free(). */
struct sluice_policy *sl_policy_file_load(const char *path);

#endif
