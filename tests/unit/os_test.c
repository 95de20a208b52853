/* What the program asks of its system, beside another way to ask: which boot this is, how the clock of a time namespace
 * is shifted, the memory that may still be had; and the sockets that a service manager has left open, by table. */
#include "os/clock.h"
#include "os/file.h"
#include "os/map.h"
#include "os/memory.h"
#include "os/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void a_boot_is_known_by_its_id(void **state) {
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
	unsigned a, b, c, d;
	uint64_t boot[2], e;
	(void)state;
	if (file == NULL)
		skip();
	assert_int_equal(fscanf(file, "%8x-%4x-%4x-%4x-%12" SCNx64, &a, &b, &c, &d, &e), 5);
	(void)fclose(file);
	assert_true(sl_clock_boot_id(boot));
	assert_true(boot[0] == ((uint64_t)a << 32 | (uint64_t)b << 16 | c));
	assert_true(boot[1] == ((uint64_t)d << 48 | e));
}

static void there_is_memory_and_not_more_than_the_system_has(void **state) {
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	(void)state;
	assert_in_range(sl_memory_available(), 1, all);
}

/* A folder of files like those of /proc and /sys. */
static void write_below(const char *root, const char *path, const char *text) {
	char whole[256], *slash;
	(void)snprintf(whole, sizeof whole, "%s%s", root, path);
	for (slash = strchr(whole + strlen(root) + (*path != '\0'), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(whole, 0700);
		*slash = '/';
	}
	FILE *file = fopen(whole, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* As much as there is, and as its group leaves, and each group above it. */
static void no_group_is_asked_for_more_than_it_leaves(void **state) {
	static const struct {
		const char *group, *outer_max, *outer_used, *inner_max, *inner_used;
		uint64_t left;
	} groups[] = {
		{"0::/a/b\n", "max", "1", "max", "1", 8192000},
		{"0::/a/b\n", "5000\n", "1000\n", "4500", "1000", 3500},
		{"0::/a/b\n", "5000", "4000", "4500", "1000", 1000},
		{"0::/a\n", "5000", "4000", "10", "10", 1000},
		{"0::/\n", "5000", "4000", "10", "10", 8192000},
		{"1:name=x:/y\n0::/a/b\n2:z:/\n", "5000", "1000", "4500", "1000", 3500},
		{"1:name=x:/a/b\n", "5000", "1000", "4500", "1000", 8192000},
		{"0::/a/b\n", "5000", "5000", "4500", "1000", 0},
		{"0::/a/b\n", "5000", "5001", "4500", "1000", 0},
	};
	static const char *const paths[] = {"/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup/a/memory.max",
	                                    "/sys/fs/cgroup/a/memory.current", "/sys/fs/cgroup/a/b/memory.max",
	                                    "/sys/fs/cgroup/a/b/memory.current"};
	static const char *const folders[] = {"/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup", "/sys/fs", "/sys",
	                                      "/proc/self", "/proc", ""};
	char root[] = "/tmp/sluice-os-XXXXXX", whole[128];
	(void)state;
	assert_non_null(mkdtemp(root));
	assert_true(sl_memory_available_under(root) == UINT64_MAX); /* nobody says */
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
		const char *const texts[] = {"MemTotal: 9000 kB\nMemAvailable:    8000 kB\nBuffers: 1 kB\n", groups[i].group,
		                             groups[i].outer_max, groups[i].outer_used, groups[i].inner_max,
		                             groups[i].inner_used};
		for (size_t k = 0; k < sizeof paths / sizeof *paths; k++)
			write_below(root, paths[k], texts[k]);
		uint64_t left = sl_memory_available_under(root);
		if (left != groups[i].left)
			fail_msg("row %zu: %" PRIu64, i, left);
	}
	for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
		(void)snprintf(whole, sizeof whole, "%s%s", root, paths[k]);
		assert_int_equal(unlink(whole), 0);
	}
	for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
		(void)snprintf(whole, sizeof whole, "%s%s", root, folders[k]);
		assert_int_equal(rmdir(whole), 0);
	}
}

/* By the line of the clock that nobody can set, modulo 2^64. */
static void a_namespace_says_how_its_clock_is_shifted(void **state) {
	static const struct {
		const char *text;
		uint64_t shift;
	} offsets[] = {
		{"", 0},
		{"monotonic           7         8\n", 0},
		{"monotonic           7         8\nboottime            3         5\n", 3000000005},
		{"boottime 86400 999999999\nmonotonic 1 1\n", 86400999999999},
		{"monotonic 0 0\nboottime -2 500000000\n", (uint64_t)0 - 1500000000},
		{"boottime 2\n", 0},
	};
	char path[] = "/tmp/sluice-os-XXXXXX";
	int fd = mkstemp(path);
	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		write_below(path, "", offsets[i].text);
		assert_true(sl_clock_boottime_shift_by(path) == offsets[i].shift);
	}
	close(fd);
	unlink(path);
	assert_int_equal(sl_clock_boottime_shift_by(path), 0);
}

/* Memory is brought in as it is, also where the kernel won't do it: it takes whole pages only. */
static void what_is_touched_stays_as_it_is(void **state) {
	enum { BYTES = 5 * 4096 };
	unsigned char *memory = sl_map_private(BYTES, true), kept[BYTES];
	(void)state;
	assert_non_null(memory);
	for (size_t at = 0; at < BYTES; at++)
		kept[at] = memory[at] = (unsigned char)(at / 7 * 2);
	sl_map_touch(memory, BYTES);
	assert_memory_equal(memory, kept, BYTES);
	sl_map_touch(memory + 14, BYTES - 14);
	assert_memory_equal(memory, kept, BYTES);
	sl_map_free(memory, BYTES);
}

/* Of a file that can't be read nothing was. */
static void what_is_not_there_has_no_bytes(void **state) {
	struct sluice_error error;
	char byte;
	size_t len = 7;
	(void)state;
	assert_false(sl_file_read("/proc/self/none", false, &byte, 1, &len, &error));
	assert_int_equal(len, 0);
	len = 7;
	assert_null(sl_file_read_text("/proc/self/none", false, 1, &len, &error));
	assert_int_equal(len, 0);
	assert_null(sl_file_read_text("/", false, 1, &len, &error));
	assert_string_equal(error.text, "Is a directory");
}

/* Whole, up to its bound and one byte more, whatever room was there for it at first. */
static void a_text_is_read_whole(void **state) {
	static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 131071, 131072, 131073, 300000};
	static char written[300000];
	char path[] = "/tmp/sluice-os-XXXXXX";
	const int fd = mkstemp(path);
	(void)state;
	for (size_t i = 0; i < sizeof written; i++)
		written[i] = (char)(i * 2654435761u >> 24);
	assert_int_equal(write(fd, written, sizeof written), sizeof written);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
			const size_t there = sizes[sizeof sizes / sizeof *sizes - 1 - i], most = sizes[j];
			struct sluice_error error;
			size_t len;
			assert_int_equal(ftruncate(fd, (off_t)there), 0);
			char *text = sl_file_read_text(path, false, most, &len, &error);
			assert_non_null(text);
			assert_int_equal(len, there > most ? most + 1 : there);
			assert_memory_equal(text, written, len);
			free(text);
			assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
			text = sl_file_read_rest(fd, most, &len, &error);
			assert_non_null(text);
			assert_int_equal(len, there > most ? most + 1 : there);
			free(text);
		}
	(void)close(fd);
	assert_null(sl_file_read_rest(fd, 1, &(size_t){7}, &(struct sluice_error){.text = ""}));
	assert_int_equal(unlink(path), 0);
}

/* What reads as far as it gets would take a part for the whole. */
static void a_call_that_fails_is_told(void **state) {
	char byte;
	size_t len;
	int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)state;
	assert_true(folder >= 0);
	assert_int_equal(sl_file_read_all(folder, &byte, 1, &len), EISDIR);
	assert_int_equal(sl_file_set_length(folder, 0), EINVAL);
	(void)close(folder);
}

/* 0 is a descriptor like others, where whoever starts us has closed it. A store is not opened there: what is printed
 * would go into it. */
static void a_descriptor_may_be_0(void **state) {
	char path[] = "/tmp/sluice-os-XXXXXX";
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 64), made = mkstemp(path), fd = fcntl(made, F_DUPFD_CLOEXEC, 64);
	bool created;
	(void)state;
	assert_true(fd > 0);
	(void)close(made);
	(void)close(0);
	assert_int_equal(sl_file_sync(fd, path), 0);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(unlink(path), 0);
	int store = sl_file_open(path, true, 0600, &created);
	assert_true(store > 2);
	assert_true(created);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	(void)close(store);
	(void)close(fd);
	assert_int_equal(unlink(path), 0);
	if (kept >= 0) {
		assert_int_equal(dup2(kept, 0), 0);
		(void)close(kept);
	}
}

static void *read_pipe(void *path) {
	struct sluice_error error;
	char bytes[2];
	size_t len;
	return sl_file_read(path, true, bytes, sizeof bytes, &len, &error) && len == 1 ? path : NULL;
}

/* A program that another thread starts meanwhile has nothing of what is read. A pipe can be looked at while it is: of
 * the next two descriptors it has the one that we have not. */
static void what_is_read_is_closed_in_other_programs(void **state) {
	char folder[] = "/tmp/sluice-os-XXXXXX", path[64];
	int next[2], ours, flags;
	pthread_t reader;
	void *result;
	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof path, "%s/pipe", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(pipe(next), 0);
	(void)close(next[0]);
	(void)close(next[1]);
	assert_int_equal(pthread_create(&reader, NULL, read_pipe, path), 0);
	ours = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(ours == next[0] || ours == next[1]);
	while ((flags = fcntl(next[0] + next[1] - ours, F_GETFD)) < 0)
		(void)sched_yield();
	assert_int_equal(flags, FD_CLOEXEC);
	assert_int_equal(write(ours, "x", 1), 1);
	(void)close(ours);
	assert_int_equal(pthread_join(reader, &result), 0);
	assert_non_null(result);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

enum { FIRST = 3 }; /* descriptors of a service manager begin with the third */

static const struct {
	bool mine;
	const char *fds, *names;
	int count;
	const char *first, *second;
} rows[] = {
	{false, "1", NULL, 0, NULL, NULL},
	{true, NULL, NULL, 0, NULL, NULL},
	{true, "0", NULL, 0, NULL, NULL},
	{true, "x", NULL, -1, NULL, NULL},
	{true, "", NULL, -1, NULL, NULL},
	{true, "-1", NULL, -1, NULL, NULL},
	{true, "18446744073709551616", NULL, -1, NULL, NULL},
	{true, "4097", NULL, -1, NULL, NULL},
	{true, "1", NULL, 1, "", NULL},
	{true, "2", NULL, 2, "", ""},
	{true, "2", "resp:http", 2, "resp", "http"},
	{true, "2", "resp", 2, "resp", ""},
	{true, "2", ":http:more", 2, "", "http"},
};

static void sockets_are_taken_as_they_are_given(void **state) {
	struct sl_given given[SL_GIVEN_MAX];
	char pid[16];
	int kept[2] = {fcntl(FIRST, F_DUPFD, 64), fcntl(FIRST + 1, F_DUPFD, 64)};
	(void)state;
	for (int fd = FIRST; fd < FIRST + 2; fd++)
		assert_int_equal(dup2(0, fd), fd);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		(void)snprintf(pid, sizeof pid, "%d", (int)getpid() + !rows[i].mine);
		setenv("LISTEN_PID", pid, 1);
		unsetenv("LISTEN_FDS");
		unsetenv("LISTEN_FDNAMES");
		if (rows[i].fds != NULL)
			setenv("LISTEN_FDS", rows[i].fds, 1);
		if (rows[i].names != NULL)
			setenv("LISTEN_FDNAMES", rows[i].names, 1);
		for (int k = 0; k < 2; k++)
			assert_int_equal(fcntl(FIRST + k, F_SETFD, 0), 0);
		int count = sl_given_sockets(given);
		if (count != rows[i].count)
			fail_msg("row %zu: %d", i, count);
		for (int k = 0; k < count; k++) {
			assert_int_equal(given[k].fd, FIRST + k);
			assert_string_equal(given[k].name, k == 0 ? rows[i].first : rows[i].second);
			assert_int_equal(fcntl(FIRST + k, F_GETFD), FD_CLOEXEC); /* whoever is started has none of them */
		}
	}
	close(FIRST + 1);
	setenv("LISTEN_FDS", "2", 1);
	assert_int_equal(sl_given_sockets(given), -1); /* one that is not there */
	for (int k = 0; k < 2; k++)
		if (kept[k] >= 0)
			dup2(kept[k], FIRST + k);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_boot_is_known_by_its_id),
		cmocka_unit_test(there_is_memory_and_not_more_than_the_system_has),
		cmocka_unit_test(no_group_is_asked_for_more_than_it_leaves),
		cmocka_unit_test(a_namespace_says_how_its_clock_is_shifted),
		cmocka_unit_test(what_is_touched_stays_as_it_is),
		cmocka_unit_test(what_is_not_there_has_no_bytes),
		cmocka_unit_test(a_text_is_read_whole),
		cmocka_unit_test(a_call_that_fails_is_told),
		cmocka_unit_test(a_descriptor_may_be_0),
		cmocka_unit_test(what_is_read_is_closed_in_other_programs),
		cmocka_unit_test(sockets_are_taken_as_they_are_given),
	};
	return cmocka_run_group_tests_name("the system", tests, NULL, NULL);
}
