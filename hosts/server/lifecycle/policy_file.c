/* See policy_file.h. Reading is apart from loading: a file that is not there is no file that is wrong. */
#include "hosts/server/lifecycle/policy_file.h"

#include "base/siphash.h"
#include "os/file.h"

#include <stdio.h>
#include <stdlib.h>

/* Nobody gains by finding two files of one digest: whoever writes the policy needs no tricks. */
static uint64_t digest_of(const char *text, size_t len) {
	static const uint64_t key[2] = {0x736c756963652e79, 0x616d6c2064696765};
	return sl_siphash(key, NULL, 0, sl_slice(text, len), 1, 3);
}

uint64_t sl_policy_file_digest(const char *path) {
	struct sluice_error error;
	size_t len;
	char *text = sl_file_read_text(path, false, SL_POLICY_FILE_BYTES_MAX, &len, &error);
	uint64_t digest = text != NULL ? digest_of(text, len) : 0;
	free(text);
	return digest;
}

/* The text of the file, to be freed; NULL with reading->error set. */
static char *read_text(struct sl_policy_reading *reading, const char *path, bool again, size_t *len) {
	struct sluice_error error;
	char *text = sl_file_read_text(path, !again, SL_POLICY_FILE_BYTES_MAX, len, &error);
	reading->digest = text != NULL ? digest_of(text, *len) : 0;
	if (text == NULL)
		snprintf(reading->error, sizeof reading->error, "can't read the policy %.200s: %s", path, error.text);
	return text;
}

void sl_policy_file_read(struct sl_policy_reading *reading, const char *path, bool again) {
	char *text = NULL;
	size_t len = 0;
	*reading = (struct sl_policy_reading){.again = again};
	if (path != NULL && (text = read_text(reading, path, again, &len)) == NULL)
		return;
	struct sluice_bytes yaml = path != NULL ? sl_slice(text, len) : sl_str("limits: []\n");
	sluice_err err = sluice_policy_load(&reading->policy, yaml, &reading->problems);
	if (err == SLUICE_E_MEMORY)
		snprintf(reading->error, sizeof reading->error, "out of memory while loading the policy");
	if (err != SLUICE_OK)
		reading->policy = NULL;
	free(text);
}

void sl_policy_reading_free(struct sl_policy_reading *reading) {
	sluice_policy_free(reading->policy);
	sluice_problems_free(&reading->problems);
	*reading = (struct sl_policy_reading){.policy = NULL};
}
