/* The files of a policy's bodies of denials: read and checked, for whoever loads a policy. */
#ifndef SL_DENIED_FILES_H
#define SL_DENIED_FILES_H

#include "policy/policy.h"

/* Gives a policy the bodies that it names, before anybody else has it. They are regular files: what is longer than
 * SL_DENIED_BYTES_MAX, or changes while it is read, is refused.
 *  policy_file  for a problem of the file's own: the policy's line names it
 *  file, problem  out, where that fails: which file is wrong (borrowed from policy_file or the policy), and where
 * Any thread but those that serve: a disk may be slow. */
SLUICE_MUST_USE bool sl_denied_files_read(struct sluice_policy *policy, const char *policy_file, const char **file,
                                          struct sluice_problem *problem);

/* The same of one of them, `number` below sl_policy_denied_count(). */
SLUICE_MUST_USE bool sl_denied_file_read(struct sluice_policy *policy, uint32_t number, const char *policy_file,
                                         const char **file, struct sluice_problem *problem);

#endif
