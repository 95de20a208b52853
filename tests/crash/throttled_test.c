/* Owners of locks that hardly run are waited for: 64 threads of two processes on one store, in a cgroup of a tenth of a
 * processor, and one process outside that has a processor to itself. All are alive, so nobody may be given up on, by
 * those inside or by the one outside, who looks as often as it can while they are kept from running with locks in hand.
 *
 * Where no cgroup can be made the two are stopped and let go on in turns, 10 ms of 100, which is harsher: all threads
 * of a process at once, wherever they are. SLUICE_SECONDS: how long; some seconds otherwise. */
#include "tests/crash/arena.h"
#include "tests/crash/child.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { INSIDE = 2, PROCESSES = INSIDE + 1, THREADS = 32, KEYS = 5, SECONDS_SHORT = 5, WAIT_S = 60 };

static const char *const notations[] = {"sliding-log 400/10ms", "sliding-window 1000000/1s", "sliding-log 90/20ms",
                                        "token-bucket 1000000/1s"};
enum { KINDS = sizeof notations / sizeof *notations };

struct board {
	char file[CHILD_PATH_MAX + 16];
	uint64_t seed;
	uint32_t ready, stop; /* atomic */
	uint64_t calls[PROCESSES], given_up[PROCESSES], wrong[PROCESSES], longest_ns[PROCESSES];
};

static struct board *board;
static struct sluice_store *store;
static struct sluice_limit limits[KINDS];
static uint32_t process;

/* ---- those who call ---------------------------------------------------------------------------------------------- */

static void call_once(struct dice *dice) {
	char keys[4][16];
	struct sluice_item items[4];
	struct sluice_call call = {.items = items, .item_count = 1 + (uint32_t)dice_below(dice, 4), .cost = 1};
	for (uint32_t i = 0; i < call.item_count; i++) {
		snprintf(keys[i], sizeof keys[i], "k%" PRIu64, dice_below(dice, KEYS));
		items[i] = (struct sluice_item){.limit = &limits[dice_below(dice, KINDS)], .key = sl_str(keys[i])};
	}
	call.operation = dice_one_in(dice, 50) ? SLUICE_RESET : SLUICE_CHARGE;
	call.now = sluice_store_now(store);
	uint64_t begun = arena_clock_ns(), took;
	sluice_err err = sluice_decide(store, &call);
	took = arena_clock_ns() - begun;
	if (err != SLUICE_OK && err != SLUICE_E_FULL)
		__atomic_fetch_add(&board->wrong[process], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&board->calls[process], 1, __ATOMIC_RELAXED);
	if (took > __atomic_load_n(&board->longest_ns[process], __ATOMIC_RELAXED))
		__atomic_store_n(&board->longest_ns[process], took, __ATOMIC_RELAXED);
}

static void *be_a_thread(void *argument) {
	struct dice dice = dice_of(board->seed, (uint64_t)process << 8 | (uint64_t)(uintptr_t)argument);
	while (!__atomic_load_n(&board->stop, __ATOMIC_RELAXED))
		call_once(&dice);
	return NULL;
}

static int be_a_process(uint32_t index) {
	struct sluice_store_options options = {.file = board->file, .existing = true};
	struct sluice_store_stats stats;
	pthread_t threads[THREADS];
	uint32_t count = index < INSIDE ? THREADS : 1;
	process = index;
	store = child_store(&options);
	for (int i = 0; i < KINDS; i++)
		limits[i] = arena_limit(notations[i]);
	__atomic_fetch_add(&board->ready, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, be_a_thread, (void *)(uintptr_t)i) != 0)
			return 1;
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	sluice_store_stats(store, &stats);
	board->given_up[index] = stats.given_up;
	sluice_store_close(store);
	return 0;
}

/* ---- a tenth of a processor -------------------------------------------------------------------------------------- */

static bool put(const char *folder, const char *name, const char *text) {
	char path[160];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	if (file == NULL)
		return false;
	bool fine = fputs(text, file) >= 0;
	return fclose(file) == 0 && fine;
}

/* A cgroup of the test's own, of either version; false where there can be none. */
static bool cgroup_open(char *folder, size_t size, const pid_t *children) {
	static const char *const roots[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};
	for (int version = 1; version <= 2; version++) {
		bool fine;
		snprintf(folder, size, "%s/sluice-test-%d", roots[version - 1], (int)getpid());
		if (mkdir(folder, 0755) != 0)
			continue;
		fine = version == 1 ? put(folder, "cpu.cfs_period_us", "100000") && put(folder, "cpu.cfs_quota_us", "10000")
		                    : put(folder, "cpu.max", "10000 100000");
		for (int i = 0; i < INSIDE && fine; i++) {
			char pid[16];
			snprintf(pid, sizeof pid, "%d", (int)children[i]);
			fine = put(folder, "cgroup.procs", pid);
		}
		if (fine)
			return true;
		rmdir(folder);
	}
	return false;
}

/* Lets those inside run for 10 ms of 100. */
static void take_turns(const pid_t *children, uint64_t seconds) {
	for (uint64_t i = 0; i < seconds * 10; i++)
		for (int phase = 0; phase < 2; phase++) {
			for (int c = 0; c < INSIDE; c++)
				assert_int_equal(kill(children[c], phase == 0 ? SIGCONT : SIGSTOP), 0);
			usleep(phase == 0 ? 10000 : 90000);
		}
	for (int c = 0; c < INSIDE; c++)
		assert_int_equal(kill(children[c], SIGCONT), 0);
}

static void nobody_who_is_alive_is_given_up(void **state) {
	struct child_room room;
	struct sluice_store_options options = {.memory_bytes = (uint64_t)4 << 20};
	uint64_t seconds = arena_seconds() != 0 ? arena_seconds() : SECONDS_SHORT;
	pid_t children[PROCESSES];
	char folder[128];
	(void)state;
	child_room_open(&room, sizeof *board);
	board = room.board;
	board->seed = dice_seed();
	snprintf(board->file, sizeof board->file, "%s/store", room.folder);
	options.file = board->file;
	sluice_store_close(child_store(&options));
	for (uint32_t i = 0; i < PROCESSES; i++)
		children[i] = child_start(&room, i);
	for (int i = 0; i < WAIT_S * 1000 && __atomic_load_n(&board->ready, __ATOMIC_RELAXED) < PROCESSES; i++)
		usleep(1000);
	bool grouped = cgroup_open(folder, sizeof folder, children);
	if (grouped)
		sleep((unsigned)seconds);
	else
		take_turns(children, seconds);
	__atomic_store_n(&board->stop, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < PROCESSES; i++)
		assert_true(child_end(children[i]));
	if (grouped)
		rmdir(folder);
	printf("seed %" PRIu64 ": %" PRIu64 " s, %s; %" PRIu64 " + %" PRIu64 " calls inside, the longest %.0f ms; %" PRIu64
	       " outside, the longest %.0f ms; given up %" PRIu64 "\n",
	       board->seed, seconds, grouped ? "a cgroup of a tenth of a processor" : "stopped for 90 ms of 100",
	       board->calls[0], board->calls[1], (double)sl_max(board->longest_ns[0], board->longest_ns[1]) / 1e6,
	       board->calls[2], (double)board->longest_ns[2] / 1e6,
	       board->given_up[0] + board->given_up[1] + board->given_up[2]);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		assert_true(board->calls[i] > 0);
		assert_int_equal(board->given_up[i], 0);
		assert_int_equal(board->wrong[i], 0);
	}
	child_room_close(&room);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_who_is_alive_is_given_up),
	};
	void *memory;
	uint32_t index;
	if (child_is(argc, argv, sizeof *board, &memory, &index)) {
		board = memory;
		return be_a_process(index);
	}
	return cmocka_run_group_tests_name("throttled", tests, NULL, NULL);
}
