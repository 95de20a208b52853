/* The files of envoyproxy/ratelimit that a policy names: listed, read and checked, for whoever loads a policy. */
#ifndef SL_ENVOY_FILES_H
#define SL_ENVOY_FILES_H

#include "policy/envoy.h"

/* One file's problems, or one that has no place: then `file` is the policy's, and the problem's place is there. */
typedef void sl_envoy_tell(void *to, const char *file, const struct sluice_problems *problems);

/* Reads all files of the folder that a policy names, *.yaml and *.yml in the order of their names, or the one file,
 * into the policy, before anybody else has it. What a policy without `envoy` names is nothing. Tells of each file that
 * has mistakes or doubts. False where there was a mistake, or where something can't be read.
 *  policy_file  for problems of the policy's own: its line names the folder
 * Regular files only, links followed; those whose names begin with a dot are left out. Any thread but those that serve:
 * a disk may be slow. */
SLUICE_MUST_USE bool sl_envoy_files_read(struct sluice_policy *policy, const char *policy_file, sl_envoy_tell *tell,
                                         void *to);

/* What can be told of the files of a folder, or of one file, without reading (`read` false), or by their bytes: another
 * number where one was written, added, renamed or removed; 0 where nothing is there. */
uint64_t sl_envoy_files_digest(const char *config, bool read);

#endif
