/* Processes that share nothing but a file: started by fork and exec of the test itself, so that nothing of its memory,
 * descriptors or locks is inherited. What they and the test tell each other stands in a piece of shared memory. */
#ifndef TESTS_CRASH_CHILD_H
#define TESTS_CRASH_CHILD_H

#include "sluice.h"

#include <pthread.h>
#include <sys/types.h>

enum { CHILD_PATH_MAX = 128 };

/* A folder of the test's own, with a board. */
struct child_room {
	char folder[CHILD_PATH_MAX];
	char board_path[CHILD_PATH_MAX + 8];
	void *board; /* zeroed, shared with the children */
	size_t board_bytes;
};

/* Makes a room; aborts when it can't. */
void child_room_open(struct child_room *room, size_t board_bytes);

/* Removes the folder and the files in it. */
void child_room_close(struct child_room *room);

/* Starts the test's own program as `program child BOARD-PATH INDEX`. Returns its pid. */
pid_t child_start(const struct child_room *room, uint32_t index);

/* Waits for a child; returns whether it exited with status 0. */
bool child_end(pid_t child);

/* For main(): whether the program was started by child_start(). Maps the board and tells the index. */
bool child_is(int argc, char **argv, size_t board_bytes, void **board, uint32_t *index);

/* Opens a store or ends the process, saying why. */
struct sluice_store *child_store(const struct sluice_store_options *options);

/* A barrier among processes and their threads, in shared memory. */
void child_barrier_make(pthread_barrier_t *barrier, uint32_t count);

#endif
