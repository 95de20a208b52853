/* A folder is listed once, its names are sorted, and each file is read whole: rules that clash are told in the same
 * order whatever the filesystem's is. A folder that is a link, as a ConfigMap's is, is followed. */
#include "hosts/files/envoy_files.h"

#include "base/siphash.h"
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PATH_BYTES_MAX = SL_ENVOY_PATH_BYTES_MAX + 1 + 256 };

/* The files: names in a folder, or one path. */
struct listing {
	char **names;
	uint32_t count;
	bool is_folder, too_many;
};

static void listing_free(struct listing *list) {
	for (uint32_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct listing){.names = NULL};
}

static bool is_yaml(const char *name) {
	size_t len = strlen(name);
	return name[0] != '.' &&
	       ((len > 5 && strcmp(name + len - 5, ".yaml") == 0) || (len > 4 && strcmp(name + len - 4, ".yml") == 0));
}

static int compare_names(const void *a, const void *b) {
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void path_of(char path[PATH_BYTES_MAX], const char *config, const struct listing *list, uint32_t i) {
	snprintf(path, PATH_BYTES_MAX, list->is_folder ? "%s/%s" : "%s", config, list->names[i]);
}

static bool add_name(struct listing *list, const char *name) {
	if (list->count == SL_ENVOY_FILES_MAX) {
		list->too_many = true;
		return true;
	}
	list->names[list->count] = strdup(name);
	return list->names[list->count] != NULL && ++list->count != 0;
}

/* 0, or an errno. */
static int list_folder(struct listing *list, const char *config) {
	DIR *folder = opendir(config);
	const struct dirent *entry;
	int error = folder == NULL ? errno : 0;
	while (folder != NULL && error == 0 && (entry = readdir(folder)) != NULL)
		if (is_yaml(entry->d_name) && !add_name(list, entry->d_name))
			error = ENOMEM;
	if (folder != NULL)
		closedir(folder);
	qsort(list->names, list->count, sizeof list->names[0], compare_names);
	return error;
}

static int list_files(struct listing *list, const char *config) {
	struct stat status;
	*list = (struct listing){.names = calloc(SL_ENVOY_FILES_MAX, sizeof *list->names)};
	if (list->names == NULL)
		return ENOMEM;
	if (stat(config, &status) != 0)
		return errno;
	list->is_folder = S_ISDIR(status.st_mode);
	if (list->is_folder)
		return list_folder(list, config);
	return add_name(list, config) ? 0 : ENOMEM;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct reader {
	struct sluice_policy *policy;
	const char *policy_file;
	sl_envoy_tell *tell;
	void *to;
	char *text; /* SL_ENVOY_FILE_BYTES_MAX + 1 bytes */
	bool good;
};

/* What is wrong with what the policy names. */
static void tell_place(struct reader *reader, const char *format, const char *what, const char *why) {
	const struct sl_envoy_settings *envoy = &sl_policy_settings(reader->policy)->envoy;
	struct sluice_problem problem = {.line = envoy->line, .column = envoy->column};
	snprintf(problem.text, sizeof problem.text, format, what, why);
	reader->tell(reader->to, reader->policy_file, &(struct sluice_problems){.list = &problem, .count = 1});
	reader->good = false;
}

static void read_one(struct reader *reader, const char *path) {
	struct sluice_error error;
	struct sluice_problems problems;
	size_t len = 0;
	if (!sl_file_read(path, false, reader->text, SL_ENVOY_FILE_BYTES_MAX + 1, &len, &error)) {
		tell_place(reader, "can't read %.120s: %.100s", path, error.text);
		return;
	}
	sluice_err err = sl_policy_envoy_add(reader->policy, path, sl_slice(reader->text, len), &problems);
	if (problems.count != 0)
		reader->tell(reader->to, path, &problems);
	if (err == SLUICE_E_MEMORY)
		tell_place(reader, "can't read %.120s: %s", path, "out of memory");
	reader->good = reader->good && err == SLUICE_OK;
	sluice_problems_free(&problems);
}

bool sl_envoy_files_read(struct sluice_policy *policy, const char *policy_file, sl_envoy_tell *tell, void *to) {
	const char *config = sl_policy_settings(policy)->envoy.config;
	struct reader reader = {policy, policy_file, tell, to, NULL, true};
	struct listing list;
	char path[PATH_BYTES_MAX];
	if (config == NULL)
		return true;
	int error = list_files(&list, config);
	if (error == 0)
		reader.text = malloc(SL_ENVOY_FILE_BYTES_MAX + 1);
	if (error != 0 || reader.text == NULL)
		tell_place(&reader, "can't read %.120s: %.100s", config, strerror(error != 0 ? error : ENOMEM));
	else if (list.too_many)
		tell_place(&reader, "%.120s: %s", config, "expected at most 256 files");
	for (uint32_t i = 0, count = reader.good ? list.count : 0; i < count; i++) { /* all mistakes of all files */
		path_of(path, config, &list, i);
		read_one(&reader, path);
	}
	free(reader.text);
	listing_free(&list);
	return reader.good;
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t seed, struct sluice_bytes bytes) {
	const uint64_t key[2] = {seed, 0x656e766f7966696c};
	return sl_siphash(key, NULL, 0, bytes, 1, 3) | 1;
}

static uint64_t look_at(const char *path, uint64_t seed) {
	struct stat status;
	if (stat(path, &status) != 0)
		return mix(seed, sl_str("gone"));
	const uint64_t words[] = {(uint64_t)status.st_dev,          (uint64_t)status.st_ino,
	                          (uint64_t)status.st_size,         (uint64_t)status.st_mtim.tv_sec,
	                          (uint64_t)status.st_mtim.tv_nsec, (uint64_t)status.st_ctim.tv_sec,
	                          (uint64_t)status.st_ctim.tv_nsec};
	return mix(seed, sl_slice(words, sizeof words));
}

static uint64_t digest_of(const char *path, uint64_t seed, char *text) {
	struct sluice_error error;
	size_t len = 0;
	if (text == NULL || !sl_file_read(path, false, text, SL_ENVOY_FILE_BYTES_MAX + 1, &len, &error))
		return mix(seed, sl_str("gone"));
	return mix(seed, sl_slice(text, len));
}

uint64_t sl_envoy_files_digest(const char *config, bool read) {
	struct listing list;
	char path[PATH_BYTES_MAX];
	char *text = read ? malloc(SL_ENVOY_FILE_BYTES_MAX + 1) : NULL;
	uint64_t digest = 0;
	int error = list_files(&list, config);
	for (uint32_t i = 0; error == 0 && i < list.count; i++) {
		path_of(path, config, &list, i);
		digest = mix(digest, sl_str(list.names[i]));
		digest = read ? digest_of(path, digest, text) : look_at(path, digest);
	}
	free(text);
	listing_free(&list);
	return digest;
}
