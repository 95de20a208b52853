/* What the tests of stores in files share; see home.h. */
#include "tests/unit/home.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

int home_setup(void **state) {
	struct home_paths *paths = calloc(1, sizeof *paths);
	(void)snprintf(paths->folder, sizeof paths->folder, "/tmp/sluice-open-XXXXXX");
	if (mkdtemp(paths->folder) == NULL)
		return -1;
	(void)snprintf(paths->file, sizeof paths->file, "%s/store", paths->folder);
	(void)snprintf(paths->other, sizeof paths->other, "%s/other", paths->folder);
	(void)snprintf(paths->third, sizeof paths->third, "%s/third", paths->folder);
	(void)snprintf(paths->shared, sizeof paths->shared, "test-%s", strrchr(paths->folder, '-') + 1);
	*state = paths;
	return 0;
}

int home_teardown(void **state) {
	struct home_paths *paths = *state;
	(void)unlink(paths->file);
	(void)unlink(paths->other);
	(void)unlink(paths->third);
	(void)rmdir(paths->folder);
	if (sluice_store_forget(paths->shared, NULL) == SLUICE_OK)
		print_message("%s was still there\n", paths->shared);
	free(paths);
	return 0;
}

struct sluice_store *open_or_fail(const struct sluice_store_options *options) {
	struct sluice_store *store = NULL;
	struct sluice_error error = {.text = ""};
	if (sluice_store_open(&store, options, &error) != SLUICE_OK)
		fail_msg("%s", error.text);
	return store;
}

uint32_t remaining_after(struct sluice_store *store, const char *text, const char *key) {
	struct sluice_decision decision;
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	assert_int_equal(sluice_check(store, &limit, sl_str(key), 1, &decision), SLUICE_OK);
	assert_true(decision.allowed);
	return decision.remaining;
}

/* All of a regular file, for comparing; NULL for what is none. */
static uint8_t *contents(const char *path, struct stat *about) {
	uint8_t *bytes;
	if (path == NULL || lstat(path, about) != 0 || !S_ISREG(about->st_mode))
		return NULL;
	bytes = malloc((size_t)about->st_size + 1);
	if (bytes != NULL && access(path, R_OK) == 0)
		read_file(path, bytes, (uint64_t)about->st_size);
	return bytes;
}

/* NULL, or what is wrong. */
static const char *refused(const struct sluice_store_options *options, sluice_err err, const char *text,
                           struct sluice_error *error) {
	struct stat before = {.st_size = 0}, after = {.st_size = 0};
	struct sluice_store *store = NULL;
	const char *wrong = NULL;
	uint8_t *was, *is;
	sluice_err got;
	bool open_elsewhere = options->file != NULL && access(options->file, R_OK) != 0;
	was = open_elsewhere ? NULL : contents(options->file, &before);
	memset(error, 'x', sizeof *error);
	got = sluice_store_open(&store, options, error);
	is = open_elsewhere ? NULL : contents(options->file, &after);
	if (got != err || store != NULL)
		wrong = "another result";
	else if (memchr(error->text, '\0', sizeof error->text) == NULL || strstr(error->text, text) == NULL)
		wrong = "another reason";
	else if ((was == NULL) != (is == NULL) || before.st_size != after.st_size ||
	         (was != NULL && memcmp(was, is, (size_t)before.st_size) != 0))
		wrong = "the file was changed";
	free(was);
	free(is);
	return wrong;
}

void assert_refused(const struct sluice_store_options *options, sluice_err err, const char *text) {
	struct sluice_error error;
	const char *wrong = refused(options, err, text, &error);
	if (wrong != NULL)
		fail_msg("%s than %d, '%s': %.200s", wrong, err, text, error.text);
}

void child_expect_refused(const struct sluice_store_options *options, sluice_err err, const char *text) {
	struct sluice_error error;
	const char *wrong = refused(options, err, text, &error);
	if (wrong != NULL) {
		(void)fprintf(stderr, "%s than %d, '%s': %.200s\n", wrong, err, text, error.text);
		_exit(1);
	}
}

void write_file(const char *path, const void *bytes, uint64_t count) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	assert_int_equal(close(fd), 0);
}

void read_file(const char *path, void *bytes, uint64_t count) {
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, bytes, count), count);
	assert_int_equal(close(fd), 0);
}

void copy_with_holes(const char *from, const char *to, uint64_t bytes) {
	static const uint8_t zeros[4096];
	uint8_t page[4096];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHILD_ASSERT(in >= 0 && out >= 0 && ftruncate(out, (off_t)bytes) == 0);
	for (uint64_t at = 0; at < bytes; at += sizeof page) {
		CHILD_ASSERT(pread(in, page, sizeof page, (off_t)at) == (ssize_t)sizeof page);
		if (memcmp(page, zeros, sizeof page) != 0)
			CHILD_ASSERT(pwrite(out, page, sizeof page, (off_t)at) == (ssize_t)sizeof page);
	}
	CHILD_ASSERT(close(in) == 0 && close(out) == 0);
}

void in_child(void (*work)(struct home_paths *), struct home_paths *paths) {
	int status;
	pid_t child = fork();
	if (child == 0) {
		work(paths);
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == IN_CHILD_SKIPPED)
		print_message("[ SKIPPED  ] a part that needs privileges\n");
	else
		assert_int_equal(status, 0);
}

void child_fail(const char *file, int line) {
	(void)fprintf(stderr, "%s:%d: failed in a child\n", file, line);
	_exit(1);
}
