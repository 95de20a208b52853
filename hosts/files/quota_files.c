/* A file that billing writes may be half written, or emptied and not yet filled: what another size than was read of it,
 * or none, says nothing of what is meant. Who writes a new file and renames it is never met halfway. */
#include "hosts/files/quota_files.h"

#include "os/file.h"
#include "policy/quotas.h"

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

/* One file. `report`: gets all mistakes of its lines; NULL: the first is *problem. */
static bool read_one(struct sluice_policy *policy, uint32_t number, const char *policy_file, char *text,
                     const char **file, struct sluice_problem *problem, struct sl_report *report) {
	const struct sl_policy_quotas *quotas = sl_policy_quotas_at(policy, number);
	size_t len = 0;
	*file = policy_file;
	*problem = (struct sluice_problem){.line = quotas->line, .column = quotas->column};
	if (text == NULL)
		snprintf(problem->text, sizeof problem->text, "no memory for the overrides");
	if (text == NULL || !read_text(quotas->file, text, &len, problem)) {
		if (report != NULL)
			sl_report_error(report, (struct sl_position){problem->line, problem->column}, "%s", problem->text);
		return false;
	}
	*file = quotas->file;
	return report != NULL ? sl_policy_quotas_check(policy, number, sl_slice(text, len), report)
	                      : sl_policy_quotas_set(policy, number, sl_slice(text, len), problem);
}

bool sl_quota_files_read(struct sluice_policy *policy, const char *policy_file, const char **file,
                         struct sluice_problem *problem) {
	uint32_t count = sl_policy_quotas_count(policy);
	char *text = count != 0 ? malloc(ROOM) : NULL;
	bool good = true;
	for (uint32_t i = 0; i < count && good; i++)
		good = read_one(policy, i, policy_file, text, file, problem, NULL);
	free(text);
	return good;
}

bool sl_quota_file_check(struct sluice_policy *policy, uint32_t number, const char *policy_file, const char **file,
                         struct sl_report *report) {
	struct sluice_problem first;
	char *text = malloc(ROOM);
	bool good = read_one(policy, number, policy_file, text, file, &first, report);
	free(text);
	return good;
}
