/* Exactly the quota, whatever processes do: eight that share nothing but the name of a store, in shared memory and in a
 * file, with one thread each and with four. On one key, on keys that nobody has seen before, and across the ends of
 * windows.
 *
 * All of them make the same calls at the same instants, which come from a plan that all know and step through together;
 * so what is to be admitted is known: what one caller who makes all these calls alone is admitted. */
#include "tests/crash/child.h"
#include "tests/race/crew.h"

#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	MEMBERS = 8,
	THREADS_MAX = 4,
	STORE_MIB = 8,
	ROUNDS = CREW_SLOWNESS > 1 ? 2 : 4,
	NEW_KEYS = 1200 / CREW_SLOWNESS,
	STEPS = 240 / CREW_SLOWNESS,
	EACH_STEP = 3,
};

static const char *const on_one_key[] = {
	"fixed-window 500/1m",
	"sliding-window 500/1m",
	"sliding-buckets 500/1m precision 1s edge count",
	"sliding-buckets 500/1m precision 1s edge drop",
	"sliding-buckets 500/1m precision 1s edge weighted",
	"sliding-log 500/1m",
	"token-bucket 500/1m",
	"leaky-bucket 500/1m queue 499",
};
enum { ALGORITHMS = sizeof on_one_key / sizeof *on_one_key, QUOTA = 500 };

static const char *const on_new_keys[] = {
	"fixed-window 7/1m", "sliding-window 7/1m", "sliding-buckets 7/1m precision 1s",
	"sliding-log 7/1m",  "token-bucket 7/1m",   "leaky-bucket 7/1m queue 6",
};
enum { NEW_QUOTA = 7, NEW_KINDS = sizeof on_new_keys / sizeof *on_new_keys };

static const char *const on_rollovers[] = {
	"fixed-window 40/4s",
	"sliding-window 40/4s",
	"sliding-buckets 40/4s precision 1s edge count",
	"sliding-buckets 40/4s precision 500ms edge drop",
	"sliding-buckets 40/4s precision 1s edge weighted",
	"sliding-log 40/4s",
	"token-bucket 40/4s burst 30",
	"leaky-bucket 40/4s queue 20",
};

/* What the processes share beside the store. */
struct board {
	pthread_barrier_t barrier;
	char file[CHILD_PATH_MAX + 16], shared[64]; /* one of them is empty */
	uint32_t threads;
	uint64_t errors;
	uint64_t one_key[ALGORITHMS][ROUNDS];
	uint64_t new_keys[NEW_KEYS];
	uint64_t rollovers[ALGORITHMS][STEPS];
};

static struct board *board;

static void wait_for_all(void) {
	pthread_barrier_wait(&board->barrier);
}

struct key {
	char text[24];
};

/* Each algorithm has keys of its own: some would share a counter else, that differ in the edge alone. */
static struct key key_of(const char *what, uint32_t which) {
	struct key key;
	snprintf(key.text, sizeof key.text, "%s:%" PRIu32, what, which);
	return key;
}

/* ---- what every thread of every process does --------------------------------------------------------------------- */

static void hammer_one_key(struct crew *crew, uint32_t index) {
	for (uint32_t a = 0; a < ALGORITHMS; a++) {
		struct sluice_limit limit = crew_limit(on_one_key[a]);
		struct key key = key_of("one", a);
		for (int round = 0; round < ROUNDS; round++) {
			uint64_t now = CREW_START_NS + (uint64_t)round * 3 * limit.window_ns, admitted = 0;
			wait_for_all();
			for (uint64_t i = 0; i < QUOTA / MEMBERS; i++) {
				uint32_t cost = 1 + (uint32_t)(i + index) % 3;
				admitted += crew_charge(crew, &limit, key.text, now, cost) ? cost : 0;
			}
			wait_for_all();
			for (int i = 0; i < 3; i++) /* what a cost of 2 or 3 left over */
				admitted += crew_charge(crew, &limit, key.text, now, 1);
			crew_add(&board->one_key[a][round], admitted);
		}
	}
}

/* All walk through the same new keys, each made by several at once. */
static void walk_new_keys(struct crew *crew) {
	wait_for_all();
	for (uint32_t k = 0; k < NEW_KEYS; k++) {
		struct sluice_limit limit = crew_limit(on_new_keys[k % NEW_KINDS]);
		struct key key = key_of("new", k);
		for (int i = 0; i < 2; i++)
			crew_add(&board->new_keys[k], crew_charge(crew, &limit, key.text, CREW_START_NS, 1));
	}
}

static uint64_t instant_of(uint32_t step) {
	return CREW_START_NS + (uint64_t)step * 730 * 1000000; /* no divisor of any window: its ends are met everywhere */
}

static void roll_over(struct crew *crew) {
	for (uint32_t a = 0; a < ALGORITHMS; a++) {
		struct sluice_limit limit = crew_limit(on_rollovers[a]);
		struct key key = key_of("rolls", a);
		for (uint32_t step = 0; step < STEPS; step++) {
			wait_for_all();
			for (int i = 0; i < EACH_STEP; i++)
				crew_add(&board->rollovers[a][step], crew_charge(crew, &limit, key.text, instant_of(step), 1));
		}
	}
}

static void be_a_thread(struct crew *crew, uint32_t index) {
	hammer_one_key(crew, index);
	walk_new_keys(crew);
	roll_over(crew);
}

static struct sluice_store *open_store(bool existing) {
	struct sluice_store_options options = {.memory_bytes = (uint64_t)STORE_MIB << 20, .existing = existing};
	options.file = board->file[0] != '\0' ? board->file : NULL;
	options.shared = board->shared[0] != '\0' ? board->shared : NULL;
	return child_store(&options);
}

static int be_a_member(void) {
	struct crew crew = {.store = open_store(true)};
	crew_run(&crew, board->threads, be_a_thread);
	crew_add(&board->errors, crew.errors);
	sluice_store_close(crew.store);
	return 0;
}

/* ---- what is to be seen ------------------------------------------------------------------------------------------ */

/* The same calls, made by one caller in a store of its own. */
static void expect_rollovers(uint32_t callers) {
	struct crew crew = {.store = crew_store(4)};
	for (uint32_t a = 0; a < ALGORITHMS; a++) {
		struct sluice_limit limit = crew_limit(on_rollovers[a]);
		struct key key = key_of("rolls", a);
		for (uint32_t step = 0; step < STEPS; step++) {
			uint64_t admitted = 0;
			for (uint32_t i = 0; i < callers * EACH_STEP; i++)
				admitted += crew_charge(&crew, &limit, key.text, instant_of(step), 1);
			if (admitted != board->rollovers[a][step])
				fail_msg("%s, step %" PRIu32 ": %" PRIu64 " admitted, alone %" PRIu64, on_rollovers[a], step,
				         board->rollovers[a][step], admitted);
		}
	}
	sluice_store_close(crew.store);
}

static uint64_t expect_board(uint32_t callers) {
	uint64_t total = 0;
	assert_int_equal(board->errors, 0);
	for (int a = 0; a < ALGORITHMS; a++)
		for (int round = 0; round < ROUNDS; round++, total += QUOTA)
			assert_int_equal(board->one_key[a][round], QUOTA);
	for (uint32_t k = 0; k < NEW_KEYS; k++, total += NEW_QUOTA)
		assert_int_equal(board->new_keys[k], NEW_QUOTA);
	expect_rollovers(callers);
	for (int a = 0; a < ALGORITHMS; a++)
		for (uint32_t step = 0; step < STEPS; step++)
			total += board->rollovers[a][step];
	return total;
}

static void run_members(struct child_room *room, struct sluice_store *store, uint32_t threads) {
	pid_t members[MEMBERS];
	bool fine = true;
	board->threads = threads;
	child_barrier_make(&board->barrier, MEMBERS * threads);
	alarm(CREW_SECONDS_MAX);
	for (uint32_t i = 0; i < MEMBERS; i++)
		members[i] = child_start(room, i);
	for (uint32_t i = 0; i < MEMBERS; i++)
		fine = child_end(members[i]) && fine;
	assert_true(fine);
	printf("%s, %d processes of %" PRIu32 " threads: %" PRIu64 " admitted, none too many (no seed)\n",
	       board->file[0] != '\0' ? "file" : "shared memory", MEMBERS, threads, expect_board(MEMBERS * threads));
	assert_null(sluice_store_verify(store));
	alarm(0);
}

static void eight_processes(bool in_file, uint32_t threads) {
	struct child_room room;
	struct sluice_store *store;
	child_room_open(&room, sizeof *board);
	board = room.board;
	if (in_file)
		snprintf(board->file, sizeof board->file, "%s/store", room.folder);
	else
		snprintf(board->shared, sizeof board->shared, "sluice-test-%d-%" PRIu32, (int)getpid(), threads);
	store = open_store(false);
	run_members(&room, store, threads);
	sluice_store_close(store);
	if (!in_file) {
		struct sluice_store_options gone = {.shared = board->shared, .existing = true};
		assert_int_equal(sluice_store_forget(board->shared, NULL), SLUICE_OK);
		assert_int_equal(sluice_store_open(&store, &gone, NULL), SLUICE_E_NONE);
		assert_int_equal(sluice_store_forget(board->shared, NULL), SLUICE_E_NONE);
	}
	child_room_close(&room);
}

static void in_shared_memory(void **state) {
	(void)state;
	eight_processes(false, 1);
}

static void in_shared_memory_with_threads(void **state) {
	(void)state;
	eight_processes(false, THREADS_MAX);
}

static void in_a_file(void **state) {
	(void)state;
	eight_processes(true, 1);
}

static void in_a_file_with_threads(void **state) {
	(void)state;
	eight_processes(true, THREADS_MAX);
}

int main(int argc, char **argv) {
	uint32_t index;
	void *shared;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_shared_memory),
		cmocka_unit_test(in_shared_memory_with_threads),
		cmocka_unit_test(in_a_file),
		cmocka_unit_test(in_a_file_with_threads),
	};
	if (child_is(argc, argv, sizeof *board, &shared, &index)) {
		board = shared;
		return be_a_member();
	}
	return cmocka_run_group_tests_name("processes that share a store", tests, NULL, NULL);
}
