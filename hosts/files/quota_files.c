/* A file that billing writes may be half written, or emptied and not yet filled: what another size than was read of it,
 * or none, says nothing of what is meant. Who writes a new file and renames it is never met halfway. */
#include "hosts/files/quota_files.h"

#include "os/file.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = SL_POLICY_FILE_BYTES_MAX + 1 }; /* one more than may be tells what is too long */

static bool read_text(const char *path, char *text, size_t *len, struct sluice_problem *problem) {
	struct sluice_error error;
	if (!sl_file_read(path, false, text, ROOM, len, &error))
		snprintf(problem->text, sizeof problem->text, "can't read the overrides %.100s: %.100s", path, error.text);
	else if (*len == ROOM)
		snprintf(problem->text, sizeof problem->text, "the overrides %.100s have more than %d MiB", path,
		         SL_POLICY_FILE_BYTES_MAX >> 20);
	else if (sl_file_has_changed(path, *len))
		snprintf(problem->text, sizeof problem->text, "the overrides %.100s changed while they were read", path);
	else if (*len == 0)
		snprintf(problem->text, sizeof problem->text,
		         "the overrides %.100s are empty: a line that begins with # says that this is meant", path);
	else
		return true;
	return false;
}

static bool read_all(struct sluice_policy *policy, const char *policy_file, char *text, const char **file,
                     struct sluice_problem *problem) {
	for (uint32_t i = 0; i < sl_policy_quotas_count(policy); i++) {
		const struct sl_policy_quotas *quotas = sl_policy_quotas_at(policy, i);
		size_t len = 0;
		*file = policy_file;
		*problem = (struct sluice_problem){.line = quotas->line, .column = quotas->column};
		if (!read_text(quotas->file, text, &len, problem))
			return false;
		*file = quotas->file;
		if (!sl_policy_quotas_set(policy, i, sl_slice(text, len), problem))
			return false;
	}
	return true;
}

bool sl_quota_files_read(struct sluice_policy *policy, const char *policy_file, const char **file,
                         struct sluice_problem *problem) {
	*file = policy_file;
	*problem = (struct sluice_problem){.line = 1, .column = 1, .text = "no memory for the overrides"};
	if (sl_policy_quotas_count(policy) == 0)
		return true;
	char *text = malloc(ROOM);
	bool good = text != NULL && read_all(policy, policy_file, text, file, problem);
	free(text);
	return good;
}
