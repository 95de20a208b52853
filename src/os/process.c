/* Liveness by record locks.
 *
 * A process that uses a shared store holds a write lock (fcntl, POSIX) on one byte of its file, its row, far after the
 * end of the file. Whether it lives is asked with F_GETLK. This knows no process ids, so it can't be deceived by an id
 * that was given to another process, nor by namespaces in which the same process has several or none, and needs no
 * right to send signals or to read /proc.
 *
 * What Linux does, and what is relied on:
 *  - The owner of such a lock is the table of descriptors (files_struct), which all threads of a process share. Another
 *    process that asks sees the lock; the process itself never sees its own: own rows are told by comparing words.
 *  - A lock vanishes when its owner closes any descriptor of the file, whichever way it was opened. hosts/library keeps
 *    one descriptor a file and process for that reason.
 *  - When a process ends, however it ends, each thread gives up its memory (exit_mm) before the last one gives up the
 *    table of descriptors (exit_files): once the lock is gone no instruction of it can still write to the arena.
 *  - fork() gives the child a table of its own, without any locks, and the parent keeps its own. exec() closes the
 *    descriptor (O_CLOEXEC), and with it drops the lock.
 *  - Locks of the open file description (F_OFD_SETLK) and flock() would be inherited by fork(): a child that never
 *    touches the store would keep its dead parent alive. Hence neither.
 *
 * Bytes: SL_LOCK_BASE is the guard, SL_LOCK_BASE + row the rows. */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#define SL_LOCK_BASE ((off_t)1 << 40) /* beyond any arena */
#define SL_LOCK_ROWS ((off_t)255)

static int lock_bytes(int fd, int command, short type, off_t start, off_t count, struct flock *found) {
	*found = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = SL_LOCK_BASE + start, .l_len = count};
	while (fcntl(fd, command, found) != 0) {
		if (errno == EACCES)
			return EAGAIN; /* what POSIX allows for the same */
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* Asking again in short steps, not F_SETLKW: that one knows no time limit, and reports deadlocks that are none. */
int sl_guard_take(int fd, sluice_ns wait_ns) {
	struct timespec start, now, pause = {0, 200000};
	struct flock lock;
	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		int err = lock_bytes(fd, F_SETLK, F_WRLCK, 0, 1, &lock);
		if (err != EAGAIN)
			return err;
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		if ((sluice_ns)((now.tv_sec - start.tv_sec) * 1000000000 + (now.tv_nsec - start.tv_nsec)) >= wait_ns)
			return EAGAIN;
		(void)nanosleep(&pause, NULL);
		if (pause.tv_nsec < 20000000)
			pause.tv_nsec *= 2;
	}
}

void sl_guard_release(int fd) {
	struct flock lock;
	(void)lock_bytes(fd, F_SETLK, F_UNLCK, 0, 1, &lock);
}

int sl_row_take(int fd, uint32_t row) {
	struct flock lock;
	return lock_bytes(fd, F_SETLK, F_WRLCK, (off_t)row, 1, &lock);
}

bool sl_row_is_held(int fd, uint32_t row) {
	struct flock lock;
	return lock_bytes(fd, F_GETLK, F_WRLCK, (off_t)row, 1, &lock) != 0 || lock.l_type != F_UNLCK;
}

int sl_any_row_is_held(int fd, bool *held) {
	struct flock lock;
	int err = lock_bytes(fd, F_GETLK, F_WRLCK, 1, SL_LOCK_ROWS, &lock);
	*held = err != 0 || lock.l_type != F_UNLCK;
	return err;
}
