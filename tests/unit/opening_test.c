/* What may happen on the way into a store: death at any system call, and a path that turns into another file. Each
 * place is met by tracing a child from one system call to the next. */
#include "tests/unit/home.h"

#include "hosts/library/home.h"
#include "os/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void kill_and_bury(pid_t child) {
	int status;
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static struct sluice_store *open_mebibyte(const struct home_paths *paths) {
	return open_or_fail(&(struct sluice_store_options){.file = paths->file, .memory_bytes = MIB});
}

/* ---- killed while opening -------------------------------------------------------------------------------------- */

/* Runs a child that opens the store, up to its n-th stop at a system call (before or after it), and kills it there.
 * Returns false when it had opened it by then. */
static bool die_opening(const struct sluice_store_options *options, int stops) {
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sluice_store *store;
		CHILD_ASSERT(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0);
		CHILD_ASSERT(sluice_store_open(&store, options, NULL) == SLUICE_OK);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	for (int i = 0; i < stops && WIFSTOPPED(status); i++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	if (!WIFSTOPPED(status)) {
		assert_int_equal(status, 0);
		return false;
	}
	kill_and_bury(child);
	return true;
}

/* At any system call on the way into a store, new or old, in a file or in shared memory: the next one comes in, and
 * finds all or nothing. */
static void test_killed_while_opening(void **state) {
	struct home_paths *paths = *state;
	const struct sluice_store_options homes[] = {{.file = paths->file, .memory_bytes = MIB},
	                                             {.shared = paths->shared, .memory_bytes = MIB}};
	for (int how = 0; how < 4; how++) {
		const struct sluice_store_options *options = &homes[how / 2];
		bool old = how % 2;
		int stops = 0;
		do {
			struct sluice_store *store;
			if (old) {
				store = open_or_fail(options);
				(void)remaining_after(store, "4000/1h", "a");
				sluice_store_close(store);
			}
			if (!die_opening(options, ++stops))
				break;
			store = open_or_fail(options);
			assert_int_equal(remaining_after(store, "4000/1h", "a"), old ? 4000 - 2 * stops : 3999);
			assert_null(sluice_store_verify(store));
			sluice_store_close(store);
			if (!old && options->file != NULL)
				assert_int_equal(unlink(paths->file), 0);
			else if (!old)
				assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
		} while (stops < 1000);
		assert_true(stops > 20 && stops < 1000);
		print_message("%s store: %d places\n", old ? "an old" : "a new", stops);
	}
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
}

/* ---- a path that changes --------------------------------------------------------------------------------------- */

/* Whoever fails to make a new store removes its file again, and `sluice store resize` puts another one in its place.
 * Who waited for the guard begins anew: it must not end in a file that the path does not lead to. */
static void wait_for_guard(struct home_paths *paths, bool replaced) {
	struct sluice_store *store;
	int fd, status;
	pid_t child;
	write_file(paths->file, "", 0);
	fd = open(paths->file, O_RDWR);
	assert_int_equal(sl_guard_take(fd, 0), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		CHILD_ASSERT(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0);
		store = open_mebibyte(paths);
		CHILD_ASSERT(remaining_after(store, "5/1h", "a") == 4);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	for (int i = 0; i < 100; i++) { /* by then it asks for the guard again and again */
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSTOPPED(status));
	}
	assert_int_equal(replaced ? rename(paths->other, paths->file) : unlink(paths->file), 0);
	sl_guard_release(fd);
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	store = open_or_fail(&(struct sluice_store_options){.file = paths->file, .existing = true});
	assert_int_equal(remaining_after(store, "5/1h", "a"), 3);
	sluice_store_close(store);
	assert_int_equal(close(fd), 0);
}

static void test_file_is_removed_or_replaced(void **state) {
	struct home_paths *paths = *state;
	wait_for_guard(paths, false);
	assert_int_equal(unlink(paths->file), 0);
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.file = paths->other, .memory_bytes = MIB}));
	wait_for_guard(paths, true);
}

static void point_path_at(const struct home_paths *paths, const char *target) {
	char spare[96];
	(void)snprintf(spare, sizeof spare, "%s/spare", paths->folder);
	assert_int_equal(link(target, spare), 0);
	assert_int_equal(rename(spare, paths->file), 0);
}

/* A child that has the store `other` open opens `file`, stops, and says by its exit status what it had: 0 two stores, 1
 * one, 2 one and a descriptor more. */
static void open_what_changes(const struct home_paths *paths) {
	struct sluice_store *kept, *found;
	uint32_t owner, status;
	CHILD_ASSERT(sluice_store_open(&kept, &(struct sluice_store_options){.file = paths->other}, NULL) == SLUICE_OK);
	owner = kept->owner;
	CHILD_ASSERT(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0);
	CHILD_ASSERT(sluice_store_open(&found, &(struct sluice_store_options){.file = paths->file}, NULL) == SLUICE_OK);
	status = found != kept ? 0 : 1 + sl_home_of(kept)->spare_count;
	sluice_store_close(found);
	CHILD_ASSERT(raise(SIGSTOP) == 0 && kept->owner == owner);
	_exit((int)status);
}

/* Lets a traced child run to its next stop: at a system call, or by a signal; false for the latter. */
static bool next_call(pid_t child) {
	int status;
	assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status));
	return WSTOPSIG(status) == SIGTRAP;
}

/* At any system call on the way the path turns from another store into the one that the process has open: whichever it
 * gets, it stays alive in that one. */
static void test_a_path_that_changes(void **state) {
	struct home_paths *paths = *state;
	uint32_t results[3] = {0, 0, 0};
	bool changed = true;
	int fd, status;
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.file = paths->third, .memory_bytes = MIB}));
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.file = paths->other, .memory_bytes = MIB}));
	fd = open(paths->other, O_RDWR);
	for (int stops = 1; changed; stops++) {
		pid_t child;
		point_path_at(paths, paths->third);
		child = fork();
		assert_true(child >= 0);
		if (child == 0)
			open_what_changes(paths);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSTOPPED(status));
		changed = true;
		for (int i = 0; i < stops && changed; i++)
			changed = next_call(child);
		if (changed) {
			point_path_at(paths, paths->other);
			while (next_call(child))
				;
		}
		assert_true(sl_row_is_held(fd, 1));
		assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 3);
		results[WEXITSTATUS(status)]++;
	}
	assert_false(sl_row_is_held(fd, 1));
	assert_int_equal(close(fd), 0);
	print_message("another store %u times, the same %u times, %u times by surprise\n", results[0], results[1],
	              results[2]);
	assert_true(results[0] > 0 && results[1] > 0 && results[2] > 0);
}

int main(void) {
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(test_killed_while_opening),
		ENTRY(test_file_is_removed_or_replaced),
		ENTRY(test_a_path_that_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
