/* The policy file: read, loaded, its problems told. */
#ifndef SL_POLICY_FILE_H
#define SL_POLICY_FILE_H

#include "policy/policy.h"

/* What reading a policy file came to. */
struct sl_policy_reading {
	struct sluice_policy *policy;    /* NULL: there is none to serve */
	struct sluice_problems problems; /* of its text: mistakes or doubts, by place */
	char error[512];                 /* why it could not be read at all; "" where it could */
	uint64_t digest;                 /* of its text: another one means other text; 0 where it could not be read */
	bool again;                      /* while serving: only regular files are read; else pipes, too */
};

/* Reads and loads a policy, or an empty one where `path` is NULL. Any thread but those that serve: a disk may be slow,
 * a file's host away. End the reading with sl_policy_reading_free(), after taking the policy out of it (which
 * sluice_policy_free() frees) by setting it NULL. */
void sl_policy_file_read(struct sl_policy_reading *reading, const char *path, bool again);
void sl_policy_reading_free(struct sl_policy_reading *reading);

/* The digest of a regular file's bytes, at most SL_POLICY_FILE_BYTES_MAX + 1 of them; 0 for one that can't be read.
 * Means something within this process only. */
uint64_t sl_policy_file_digest(const char *path);

#endif
