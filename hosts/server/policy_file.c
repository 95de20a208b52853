#include "hosts/server/policy_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads a whole file, at most SL_POLICY_FILE_BYTES_MAX of it. NULL, and a line on standard error, where it can't. */
static char *read_file(const char *path, size_t *len) {
	FILE *file = fopen(path, "rb");
	if (file == NULL) {
		fprintf(stderr, "sluice: can't read the policy %s: %s\n", path, strerror(errno));
		return NULL;
	}
	char *text = malloc(SL_POLICY_FILE_BYTES_MAX + 1);
	if (text != NULL)
		*len = fread(text, 1, SL_POLICY_FILE_BYTES_MAX + 1, file);
	int why = text == NULL ? ENOMEM : ferror(file) ? errno : 0;
	fclose(file);
	if (why == 0 && *len <= SL_POLICY_FILE_BYTES_MAX)
		return text;
	free(text);
	if (why != 0)
		fprintf(stderr, "sluice: can't read the policy %s: %s\n", path, strerror(why));
	else
		fprintf(stderr, "sluice: the policy %s has more than %d bytes\n", path, SL_POLICY_FILE_BYTES_MAX);
	return NULL;
}

struct sluice_policy *sl_policy_file_load(const char *path) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {.list = NULL};
	char *text = NULL;
	size_t len = 0;
	if (path != NULL && (text = read_file(path, &len)) == NULL)
		return NULL;
	struct sluice_bytes yaml = path != NULL ? sl_slice(text, len) : sl_str("limits: []\n");
	sluice_err err = sluice_policy_load(&policy, yaml, &problems);
	for (size_t i = 0; i < problems.count; i++)
		fprintf(stderr, "%s:%u:%u: %s%s\n", path == NULL ? "(none)" : path, problems.list[i].line,
		        problems.list[i].column, problems.list[i].warning ? "warning: " : "", problems.list[i].text);
	if (err == SLUICE_E_MEMORY)
		fprintf(stderr, "sluice: out of memory while loading the policy\n");
	sluice_problems_free(&problems);
	free(text);
	return err == SLUICE_OK ? policy : NULL;
}
