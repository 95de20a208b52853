/* A body is served as it was read, until the policy is read again: nobody who was denied waits for a disk, and a file
 * that is gone by then is missed by the next reading only, which is refused. */
#include "hosts/files/denied_files.h"

#include "os/file.h"
#include "proto/template.h"

#include <stdio.h>

/* One byte more than may be is looked at, so that what is too long is told from what is as long as it may be. */
static bool read_body(const char *path, char text[SL_DENIED_BYTES_MAX + 1], size_t *len,
                      struct sluice_problem *problem) {
	struct sluice_error error;
	if (!sl_file_read(path, false, text, SL_DENIED_BYTES_MAX + 1, len, &error))
		snprintf(problem->text, sizeof problem->text, "can't read the body %.100s: %.100s", path, error.text);
	else if (*len <= SL_DENIED_BYTES_MAX && sl_file_has_changed(path, *len))
		snprintf(problem->text, sizeof problem->text, "the body %.100s changed while it was read", path);
	else
		return true;
	return false;
}

bool sl_denied_file_read(struct sluice_policy *policy, uint32_t number, const char *policy_file, const char **file,
                         struct sluice_problem *problem) {
	const struct sl_policy_denied *denied = sl_policy_denied_at(policy, number);
	char text[SL_DENIED_BYTES_MAX + 1];
	size_t len = 0;
	*file = policy_file;
	*problem = (struct sluice_problem){.line = denied->line, .column = denied->column};
	if (!read_body(denied->file, text, &len, problem))
		return false;
	*file = denied->file;
	if (!sl_template_check(sl_slice(text, len), (enum sl_denied_type)denied->type, problem))
		return false;
	if (sl_policy_denied_set(policy, number, sl_slice(text, len)))
		return true;
	snprintf(problem->text, sizeof problem->text, "no memory for it");
	return false;
}

bool sl_denied_files_read(struct sluice_policy *policy, const char *policy_file, const char **file,
                          struct sluice_problem *problem) {
	for (uint32_t i = 0; i < sl_policy_denied_count(policy); i++)
		if (!sl_denied_file_read(policy, i, policy_file, file, problem))
			return false;
	return true;
}
