/* Processes that share nothing but a file; see child.h. */
#include "tests/crash/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *map_board(const char *path, size_t bytes, int flags) {
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	void *board;
	if (fd < 0 || (flags != 0 && ftruncate(fd, (off_t)bytes) != 0))
		abort();
	board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (board == MAP_FAILED)
		abort();
	close(fd);
	return board;
}

void child_room_open(struct child_room *room, size_t board_bytes) {
	const char *above = getenv("TMPDIR");
	snprintf(room->folder, sizeof room->folder, "%s/sluice-test-XXXXXX", above != NULL ? above : "/tmp");
	if (mkdtemp(room->folder) == NULL)
		abort();
	snprintf(room->board_path, sizeof room->board_path, "%s/board", room->folder);
	room->board_bytes = board_bytes;
	room->board = map_board(room->board_path, board_bytes, O_CREAT | O_EXCL);
}

void child_room_close(struct child_room *room) {
	DIR *folder = opendir(room->folder);
	for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
		unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder != NULL)
		closedir(folder);
	rmdir(room->folder);
	munmap(room->board, room->board_bytes);
}

pid_t child_start(const struct child_room *room, uint32_t index) {
	char number[16];
	pid_t child;
	snprintf(number, sizeof number, "%" PRIu32, index);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "member", "child", room->board_path, number, (char *)NULL);
		_exit(127);
	}
	if (child < 0)
		abort();
	return child;
}

bool child_end(pid_t child) {
	int status;
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool child_is(int argc, char **argv, size_t board_bytes, void **board, uint32_t *index) {
	if (argc != 4 || strcmp(argv[1], "child") != 0)
		return false;
	*board = map_board(argv[2], board_bytes, 0);
	*index = (uint32_t)strtoul(argv[3], NULL, 10);
	return true;
}

struct sluice_store *child_store(const struct sluice_store_options *options) {
	struct sluice_store *store;
	struct sluice_error error = {0};
	sluice_err err = sluice_store_open(&store, options, &error);
	if (err == SLUICE_OK)
		return store;
	fprintf(stderr, "store does not open: %d, %s\n", err, error.text);
	exit(3);
}

void child_barrier_make(pthread_barrier_t *barrier, uint32_t count) {
	pthread_barrierattr_t shared;
	if (pthread_barrierattr_init(&shared) != 0 ||
	    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) != 0 ||
	    pthread_barrier_init(barrier, &shared, count) != 0)
		abort();
	pthread_barrierattr_destroy(&shared);
}
