/* The files of quotas of single keys that a policy names (`overrides-from`): read, for whoever loads a policy. */
#ifndef SL_QUOTA_FILES_H
#define SL_QUOTA_FILES_H

#include "policy/policy.h"
#include "policy/report.h"

/* Gives the limits of a policy the quotas of their keys, before anybody else has it. The files are regular ones, of at
 * most SL_POLICY_FILE_BYTES_MAX bytes; one that is empty, or changes while it is read, is refused.
 *  policy_file  for a problem of the file's own: the policy's line names it
 *  file, problem  out, where that fails: which file is wrong (borrowed from policy_file or the policy), and where
 * Any thread but those that serve: about half a second for a million keys. */
SLUICE_MUST_USE bool sl_quota_files_read(struct sluice_policy *policy, const char *policy_file, const char **file,
                                         struct sluice_problem *problem);

/* One of them, for somebody who wants to know all mistakes: `report` gets those of the file *file. */
SLUICE_MUST_USE bool sl_quota_file_check(struct sluice_policy *policy, uint32_t number, const char *policy_file,
                                         const char **file, struct sl_report *report);

#endif
