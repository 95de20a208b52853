/* Who is alive, and what a fork makes of a store: owners that die, rows that are used again or used up, namespaces.
 * What may happen on the way into a store is in opening_test.c. */
#include "tests/unit/home.h"

#include "base/bytes.h"
#include "os/clock.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define LOCK_BASE ((off_t)1 << 40) /* as in os/process.c: part of the format, like any offset */

/* Two pipes between a test and a child of it: each waits for a byte, or a word, of the other. */
struct talk {
	int to_child[2], to_parent[2];
};

static struct talk talk_open(void) {
	struct talk talk;
	assert_int_equal(pipe(talk.to_child), 0);
	assert_int_equal(pipe(talk.to_parent), 0);
	return talk;
}

static void talk_close(const struct talk *talk) {
	for (int i = 0; i < 2; i++)
		assert_true(close(talk->to_child[i]) == 0 && close(talk->to_parent[i]) == 0);
}

static void say(int fd, uint32_t word) {
	CHILD_ASSERT(write(fd, &word, sizeof word) == (ssize_t)sizeof word);
}

static uint32_t hear(int fd) {
	uint32_t word = 0;
	CHILD_ASSERT(read(fd, &word, sizeof word) == (ssize_t)sizeof word);
	return word;
}

static uint32_t row_of(uint32_t owner) {
	return owner >> SL_OWNER_ROW_SHIFT;
}

static void kill_and_bury(pid_t child) {
	int status;
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static sluice_err ask(struct sluice_store *store, const char *text, bool *allowed) {
	struct sluice_decision decision = {.allowed = false};
	struct sluice_limit limit;
	sluice_err err = sluice_limit_parse(&limit, sl_str(text), NULL);
	if (err == SLUICE_OK)
		err = sluice_check(store, &limit, sl_str("hot"), 1, &decision);
	*allowed = decision.allowed;
	return err;
}

static struct sluice_store *open_mebibyte(const struct home_paths *paths) {
	return open_or_fail(&(struct sluice_store_options){.file = paths->file, .memory_bytes = MIB});
}

/* ---- owners ---------------------------------------------------------------------------------------------------- */

/* A child says its lock word, and lives until it is told otherwise. */
static pid_t child_owner(struct sluice_store *store, const struct talk *talk) {
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		say(talk->to_parent[1], store->owner);
		(void)hear(talk->to_child[0]);
		_exit(0);
	}
	return child;
}

static void test_owner_is_dead_when_it_is(void **state) {
	struct sluice_store *store = open_mebibyte(*state);
	struct talk talk = talk_open();
	pid_t child = child_owner(store, &talk), next;
	uint32_t owner = hear(talk.to_parent[0]), successor;
	assert_int_not_equal(row_of(owner), row_of(store->owner));
	assert_false(store->owner_is_dead(store, owner));
	assert_false(store->owner_is_dead(store, store->owner));
	/* words that nobody alive can have: another generation of either row, a row that nobody holds, none */
	assert_true(store->owner_is_dead(store, owner + 1));
	assert_true(store->owner_is_dead(store, store->owner + 1));
	assert_true(store->owner_is_dead(store, 200u << SL_OWNER_ROW_SHIFT | 1));
	assert_true(store->owner_is_dead(store, 200u << SL_OWNER_ROW_SHIFT));
	assert_true(store->owner_is_dead(store, 5));
	kill_and_bury(child);
	assert_true(store->owner_is_dead(store, owner));
	/* Its row goes to the next, under another generation: the old word stays dead. */
	next = child_owner(store, &talk);
	successor = hear(talk.to_parent[0]);
	assert_int_equal(row_of(successor), row_of(owner));
	assert_int_equal(successor, owner + 1);
	assert_false(store->owner_is_dead(store, successor));
	assert_true(store->owner_is_dead(store, owner));
	kill_and_bury(next);
	talk_close(&talk);
	sluice_store_close(store);
}

/* A process that stands still is not dead. */
static void test_a_stopped_owner_lives(void **state) {
	struct sluice_store *store = open_mebibyte(*state);
	struct talk talk = talk_open();
	pid_t child = child_owner(store, &talk);
	uint32_t owner = hear(talk.to_parent[0]);
	int status;
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	assert_false(store->owner_is_dead(store, owner));
	kill_and_bury(child);
	assert_true(store->owner_is_dead(store, owner));
	talk_close(&talk);
	sluice_store_close(store);
}

static void test_generations_rise_and_wrap(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store *store = open_mebibyte(paths);
	uint32_t owner = store->owner;
	assert_int_equal(row_of(owner), 1);
	sluice_store_close(store);
	store = open_mebibyte(paths);
	assert_int_equal(store->owner, owner + 1);
	store->processes->rows[1].generation = SL_OWNER_GENERATION_MASK;
	sluice_store_close(store);
	store = open_mebibyte(paths);
	assert_int_equal(store->owner, 1u << SL_OWNER_ROW_SHIFT | 1); /* 0 is never a generation */
	sluice_store_close(store);
}

/* A second handle that is closed, and a failed attempt to open, leave the process alive for others. */
static void test_closing_a_handle_keeps_the_row(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store *store = open_mebibyte(paths), *again = open_mebibyte(paths), *none;
	struct talk talk = talk_open();
	uint32_t owner = store->owner;
	pid_t child;
	sluice_store_close(again);
	assert_int_equal(
		sluice_store_open(&none, &(struct sluice_store_options){.file = paths->file, .memory_bytes = 2 * MIB}, NULL),
		SLUICE_E_RANGE);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sluice_store_stats stats;
		sluice_store_stats(store, &stats);
		say(talk.to_parent[1], store->owner_is_dead(store, owner));
		say(talk.to_parent[1], stats.processes);
		_exit(0);
	}
	assert_int_equal(hear(talk.to_parent[0]), false);
	assert_int_equal(hear(talk.to_parent[0]), 2);
	assert_int_equal(waitpid(child, NULL, 0), child);
	talk_close(&talk);
	sluice_store_close(store);
}

static void comes_second(struct home_paths *paths) {
	struct sluice_store *store;
	struct sluice_store_stats stats;
	CHILD_ASSERT(sluice_store_open(&store, &(struct sluice_store_options){.file = paths->file}, NULL) == SLUICE_OK);
	sluice_store_stats(store, &stats);
	CHILD_ASSERT(stats.processes == 2 && stats.repairs == 1);
	sluice_store_close(store);
}

/* Only who finds nobody makes a store whole: locks of the living are not theirs to break. */
static void test_a_store_in_use_is_not_repaired(void **state) {
	struct home_paths *paths = *state;
	struct talk talk = talk_open();
	struct sluice_store *store;
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) { /* before this process has it open: it is to open it as a stranger */
		(void)hear(talk.to_child[0]);
		comes_second(paths);
		_exit(0);
	}
	sluice_store_close(open_mebibyte(paths));
	store = open_mebibyte(paths);
	say(talk.to_child[1], 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	talk_close(&talk);
	sluice_store_close(store);
}

/* The first process of a namespace of its own: neither side has a number for the other. */
static void in_a_pid_namespace(struct home_paths *paths) {
	struct sluice_store *store;
	struct talk talk;
	uint32_t outer, inner;
	pid_t child;
	if (unshare(CLONE_NEWPID) != 0)
		_exit(IN_CHILD_SKIPPED);
	CHILD_ASSERT(sluice_store_open(&store, &(struct sluice_store_options){.file = paths->file}, NULL) == SLUICE_OK);
	CHILD_ASSERT(pipe(talk.to_child) == 0 && pipe(talk.to_parent) == 0);
	outer = store->owner;
	child = fork();
	CHILD_ASSERT(child >= 0);
	if (child == 0) {
		CHILD_ASSERT(getpid() == 1);
		CHILD_ASSERT(!store->owner_is_dead(store, outer));
		say(talk.to_parent[1], store->owner);
		(void)hear(talk.to_child[0]);
		_exit(0);
	}
	inner = hear(talk.to_parent[0]);
	CHILD_ASSERT(!store->owner_is_dead(store, inner));
	CHILD_ASSERT(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	CHILD_ASSERT(store->owner_is_dead(store, inner));
	sluice_store_close(store);
}

static void test_pid_namespaces(void **state) {
	struct sluice_store *store = open_mebibyte(*state);
	sluice_store_close(store);
	in_child(in_a_pid_namespace, *state);
}

/* ---- the guard ------------------------------------------------------------------------------------------------- */

static void test_guard_is_freed_by_death(void **state) {
	struct home_paths *paths = *state;
	struct talk talk = talk_open();
	pid_t child = fork();
	int fd;
	assert_true(child >= 0);
	if (child == 0) {
		fd = open(paths->file, O_RDWR | O_CREAT, 0600);
		say(talk.to_parent[1], (uint32_t)sl_guard_take(fd, 0));
		(void)hear(talk.to_child[0]);
		_exit(0);
	}
	assert_int_equal(hear(talk.to_parent[0]), 0);
	fd = open(paths->file, O_RDWR);
	assert_int_equal(sl_guard_take(fd, 0), EAGAIN);
	kill_and_bury(child);
	assert_int_equal(sl_guard_take(fd, 0), 0);
	sl_guard_release(fd);
	assert_int_equal(close(fd), 0);
	assert_int_equal(sl_guard_take(fd, 0), EBADF);
	talk_close(&talk);
}

/* ---- rows used up ---------------------------------------------------------------------------------------------- */

/* Holds all rows but the first, as 254 processes would. */
static pid_t hold_other_rows(const struct home_paths *paths, const struct talk *talk) {
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BASE + 2, .l_len = 254};
		int fd = open(paths->file, O_RDWR);
		say(talk->to_parent[1], (uint32_t)fcntl(fd, F_SETLK, &lock));
		(void)hear(talk->to_child[0]);
		_exit(0);
	}
	assert_int_equal(hear(talk->to_parent[0]), 0);
	return child;
}

/* What a child without a row may do: nothing, until one is free and it opens the store again. */
static void without_a_row(struct sluice_store *store, const struct home_paths *paths, const struct talk *talk) {
	struct sluice_store_options options = {.file = paths->file};
	struct sluice_store_stats stats;
	struct sluice_store *again;
	bool allowed;
	CHILD_ASSERT(store->owner == 0);
	CHILD_ASSERT(ask(store, "5/1h", &allowed) == SLUICE_E_BUSY && !allowed);
	sluice_store_stats(store, &stats);
	CHILD_ASSERT(stats.memory_bytes == MIB && stats.slots_used == 0);
	child_expect_refused(&options, SLUICE_E_BUSY, "255 processes have it open");
	say(talk->to_parent[1], 1);
	(void)hear(talk->to_child[0]);
	CHILD_ASSERT(sluice_store_open(&again, &options, NULL) == SLUICE_OK && again == store && store->owner != 0);
	CHILD_ASSERT(ask(store, "5/1h", &allowed) == SLUICE_OK && allowed);
	_exit(0);
}

static void test_rows_used_up(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store *store = open_mebibyte(paths);
	struct talk holding = talk_open(), trying = talk_open();
	pid_t holder = hold_other_rows(paths, &holding), child = fork();
	struct sluice_store_stats stats;
	int status;
	assert_true(child >= 0);
	if (child == 0)
		without_a_row(store, paths, &trying);
	assert_int_equal(hear(trying.to_parent[0]), 1);
	sluice_store_stats(store, &stats);
	assert_int_equal(stats.processes, 255);
	kill_and_bury(holder);
	say(trying.to_child[1], 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	talk_close(&holding);
	talk_close(&trying);
	sluice_store_close(store);
}

/* ---- forks ----------------------------------------------------------------------------------------------------- */

/* Children that inherited the store and processes that opened it: one limit for all of them. */
static void hammer(struct sluice_store *store, struct home_paths *paths, uint32_t *admitted) {
	bool opens = store == NULL;
	if (opens)
		CHILD_ASSERT(sluice_store_open(&store, &(struct sluice_store_options){.file = paths->file}, NULL) == SLUICE_OK);
	for (int i = 0; i < 400; i++) {
		bool allowed;
		CHILD_ASSERT(ask(store, i % 2 ? "1000/1h" : "sliding-log 1000/1h", &allowed) == SLUICE_OK);
		if (allowed)
			(void)__atomic_add_fetch(&admitted[i % 2], 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

static void test_forks_share_a_limit(void **state) {
	struct home_paths *paths = *state;
	uint32_t *admitted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sluice_store *store = NULL;
	pid_t children[8];
	/* four before the parent has the store open, four that inherit it: 1600 asks of each limit */
	for (int i = 0; i < 8; i++) {
		if (i == 0 || i == 4)
			store = open_mebibyte(paths);
		if (i == 0)
			sluice_store_close(store);
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0)
			hammer(i < 4 ? NULL : store, paths, admitted);
	}
	for (int i = 0; i < 8; i++) {
		int status;
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(admitted[0], 1000);
	assert_int_equal(admitted[1], 1000);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
	assert_int_equal(munmap(admitted, 4096), 0);
}

/* A private store becomes two. A lock that another thread of the parent held at that instant has no owner in the child,
 * and is recovered there. */
static void test_private_store_after_fork(void **state) {
	struct sluice_store *store = open_or_fail(&(struct sluice_store_options){.memory_bytes = MIB});
	struct sl_bucket *buckets = store->pages->buckets;
	uint32_t owner = store->owner;
	bool allowed;
	int status;
	pid_t child;
	(void)state;
	assert_int_equal(ask(store, "2/1h", &allowed), SLUICE_OK);
	assert_true(allowed);
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++)
		buckets[i].lock = owner;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		CHILD_ASSERT(store->owner != owner);
		CHILD_ASSERT(ask(store, "2/1h", &allowed) == SLUICE_OK && allowed);
		CHILD_ASSERT(ask(store, "2/1h", &allowed) == SLUICE_OK && !allowed);
		_exit(0);
	}
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++)
		buckets[i].lock = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(store->owner, owner);
	assert_int_equal(ask(store, "2/1h", &allowed), SLUICE_OK);
	assert_true(allowed); /* the child's charges were its own */
	sluice_store_close(store);
}

/* A lock left by a child that died with it: the next to need it goes on. */
static void test_lock_of_a_dead_child_is_taken(void **state) {
	struct sluice_store *store = open_mebibyte(*state);
	struct talk talk = talk_open();
	pid_t child = child_owner(store, &talk);
	uint32_t owner = hear(talk.to_parent[0]);
	struct sluice_store_stats stats;
	bool allowed;
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++)
		store->pages->buckets[i].lock = owner;
	kill_and_bury(child);
	assert_int_equal(ask(store, "2/1h", &allowed), SLUICE_OK);
	assert_true(allowed);
	sluice_store_stats(store, &stats);
	assert_true(stats.recoveries > 0);
	assert_int_equal(stats.slots_used, 1);
	talk_close(&talk);
	sluice_store_close(store);
}

/* ---- containers ------------------------------------------------------------------------------------------------ */

/* Runs this program on a store in a time namespace that has moved CLOCK_BOOTTIME by a day. */
static void run_in_a_time_namespace(char *file) {
	const char *moved = "boottime 86400 500\n";
	char *arguments[] = {"process_test", file, NULL};
	sluice_ns raw = sl_clock_boottime();
	int fd, status;
	pid_t child;
	if (unshare(CLONE_NEWTIME) != 0 || (fd = open("/proc/self/timens_offsets", O_WRONLY)) < 0)
		_exit(IN_CHILD_SKIPPED);
	CHILD_ASSERT(write(fd, moved, strlen(moved)) == (ssize_t)strlen(moved));
	child = fork();
	if (child == 0) {
		CHILD_ASSERT(sl_clock_boottime() > raw + (sluice_ns)86400 * 1000000000);
		CHILD_ASSERT(execv("/proc/self/exe", arguments) == 0); /* as in a container: it inherits no store */
	}
	CHILD_ASSERT(waitpid(child, &status, 0) == child && status == 0);
	_exit(0);
}

/* On a store that is open outside, and on one that is made inside: neither clock has moved. */
static void in_a_time_namespace(struct home_paths *paths) {
	sluice_ns before = sluice_store_now(open_mebibyte(paths));
	for (int i = 0; i < 2; i++) {
		char *file = i == 0 ? paths->file : paths->other;
		struct sluice_store *store;
		sluice_ns there, now;
		int status;
		pid_t child = fork();
		if (child == 0)
			run_in_a_time_namespace(file);
		CHILD_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status));
		if (WEXITSTATUS(status) != 0)
			_exit(WEXITSTATUS(status));
		CHILD_ASSERT(sluice_store_open(&store, &(struct sluice_store_options){.file = file}, NULL) == SLUICE_OK);
		there = store->processes->rows[SL_PROCESSES - 1].since_ns;
		now = sluice_store_now(store);
		/* two anchors are taken at two instants: wall time may have been slewed between them */
		CHILD_ASSERT(there + 1000000000 > before && there <= now && now < before + (sluice_ns)600 * 1000000000);
	}
}

/* The program in the namespace: leaves what it reads where the other finds it, in a row that nobody holds. */
static int tell_the_time(const char *file) {
	struct sluice_store *store;
	if (sluice_store_open(&store, &(struct sluice_store_options){.file = file, .memory_bytes = MIB}, NULL) != SLUICE_OK)
		return 1;
	store->processes->rows[SL_PROCESSES - 1].since_ns = sluice_store_now(store);
	sluice_store_close(store);
	return 0;
}

static void test_time_namespaces(void **state) {
	in_child(in_a_time_namespace, *state);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

static void *open_and_close(void *paths) {
	for (int i = 0; i < 100; i++) {
		struct sluice_store *store = NULL;
		const struct home_paths *at = paths;
		bool allowed;
		if (sluice_store_open(&store, &(struct sluice_store_options){.file = at->file, .memory_bytes = MIB}, NULL) !=
		        SLUICE_OK ||
		    ask(store, "1000/1h", &allowed) != SLUICE_OK || !allowed)
			return paths;
		sluice_store_close(store);
	}
	return NULL;
}

/* Threads that open and close the same store all the time lose no count and leave nothing open. */
static void test_threads_open_and_close(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store *store;
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, paths), 0);
	for (int i = 0; i < 4; i++) {
		void *failed;
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	store = open_mebibyte(paths);
	assert_int_equal(remaining_after(store, "1000/1h", "hot"), 1000 - 401);
	assert_int_equal(row_of(store->owner), 1);
	sluice_store_close(store);
}

int main(int count, char **arguments) {
	if (count == 2 && arguments[1][0] == '/')
		return tell_the_time(arguments[1]);
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(test_owner_is_dead_when_it_is),
		ENTRY(test_a_stopped_owner_lives),
		ENTRY(test_generations_rise_and_wrap),
		ENTRY(test_closing_a_handle_keeps_the_row),
		ENTRY(test_a_store_in_use_is_not_repaired),
		ENTRY(test_pid_namespaces),
		ENTRY(test_guard_is_freed_by_death),
		ENTRY(test_rows_used_up),
		ENTRY(test_forks_share_a_limit),
		ENTRY(test_private_store_after_fork),
		ENTRY(test_lock_of_a_dead_child_is_taken),
		ENTRY(test_time_namespaces),
		ENTRY(test_threads_open_and_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
