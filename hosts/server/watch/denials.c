/* The denial log: lines are made by those who deny, and written by a thread of the log's own.
 *
 *   worker --sl_denials_write()--> [ filling ]  <swap>  [ emptying ] --write()--> FILE --full--> FILE.1
 *
 * Two buffers of fixed size change places: the lock is held for the copy of a line or for the swap, never for a write,
 * so a slow disk costs lines and no time. Four bounds, each on its own, keep an attack from filling a disk:
 *  D1  a key has one line in denials-per-key (top.c says when)
 *  D2  all keys together have denials-per-second lines in a second of the clock that comes with them; what was only
 *      observed has as many of its own, and leaves half of the buffer free: it takes no line from a denial
 *  D3  what does not fit the buffer is dropped
 *  D4  FILE is renamed to FILE.1, over the one before, ere a line would make it longer than denials-size
 * What D2 and D3 and a failed write cost is counted.
 *
 * The file is opened for appending, so that two processes (an upgrade) or a rotation by other means tear no line; the
 * name is looked up again before each write, and where it names another file, that is taken.
 *
 * A name such as /dev/stderr stands for a descriptor that this process inherited. It is not opened: that fails for a
 * socket, which systemd gives as standard error, and for a file of another user. The descriptor is copied and written
 * to as it is, and never set aside: others write to it too, and the name belongs to the whole machine. */
#include "hosts/server/watch/denials.h"

#include "hosts/server/watch/log.h"
#include "os/file.h"
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	QUEUE_BYTES = 256 * 1024,
	REST_WAIT_MS = 1000, /* for the rest of a line */
};

struct sl_denials {
	pthread_t thread;
	pthread_mutex_t lock; /* guards the following, up to the thread's own */
	pthread_cond_t changed;
	bool ending, reopen;
	char *filling;
	size_t filled;
	uint64_t second;       /* the latest of the clock that lines came with */
	uint32_t in_second[2]; /* lines queued in it: of denials, and of what was only observed */
	uint32_t per_second;

	/* the thread's own */
	char *path, *aside; /* FILE and FILE.1 */
	char *emptying;
	int fd;         /* -1: it could not be opened */
	bool inherited; /* fd is a copy of a descriptor that FILE names */
	bool complained;
	uint64_t size_max;

	_Atomic uint64_t written, dropped;
};

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* Takes one line of the second's; the lock is held. A clock that lags (another worker's) counts as the latest. */
static bool second_has_room(struct sl_denials *denials, sluice_ns now, bool observed) {
	uint64_t second = now / 1000000000;
	if (second > denials->second) {
		denials->second = second;
		denials->in_second[0] = denials->in_second[1] = 0;
	}
	if (denials->in_second[observed] >= denials->per_second)
		return false;
	denials->in_second[observed]++;
	return true;
}

static size_t put_line(char line[SL_RECORD_BYTES_MAX], const struct sl_record_line *record) {
	struct sl_out out = sl_out_to(line, SL_RECORD_BYTES_MAX);
	sl_record_put_denial(&out, record);
	sl_out_char(&out, '\n');
	return sl_out_len(&out);
}

void sl_denials_write(struct sl_denials *denials, const struct sl_record_line *record) {
	char line[SL_RECORD_BYTES_MAX];
	pthread_mutex_lock(&denials->lock);
	bool room = second_has_room(denials, record->now, record->observed);
	pthread_mutex_unlock(&denials->lock);
	size_t len = room ? put_line(line, record) : 0;
	pthread_mutex_lock(&denials->lock);
	room = room && denials->filled + len <= (record->observed ? QUEUE_BYTES / 2 : QUEUE_BYTES);
	if (room) {
		memcpy(denials->filling + denials->filled, line, len);
		denials->filled += len;
		pthread_cond_signal(&denials->changed);
	}
	pthread_mutex_unlock(&denials->lock);
	if (!room)
		atomic_fetch_add_explicit(&denials->dropped, 1, memory_order_relaxed);
}

/* Whole lines of at most `room` bytes at the start of data. */
static size_t lines_within(const char *data, size_t len, uint64_t room) {
	if (len <= room)
		return len;
	const char *end = memrchr(data, '\n', (size_t)room);
	return end == NULL ? 0 : (size_t)(end - data) + 1;
}

/* ---- an inherited descriptor ------------------------------------------------------------------------------------- */

/* A copy, or -1 with errno. */
static int copy_descriptor(int number) {
	return sl_file_can_be_written(number) ? fcntl(number, F_DUPFD_CLOEXEC, SL_FILE_STANDARD) : -1;
}

/* Writes as much as is taken at once; returns how much, fewer than `len` with errno. O_NONBLOCK would act on all who
 * have the descriptor, so poll() is asked each time: what has room takes PIPE_BUF bytes. A longer line goes in parts,
 * and room for its rest is waited for, since others write there too. */
static size_t write_inherited(int fd, const char *data, size_t len) {
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	size_t done = 0, part = 0, wrote = 0;
	while (done < len && wrote == part) {
		if (poll(&room, 1, done == 0 || data[done - 1] == '\n' ? 0 : REST_WAIT_MS) != 1) {
			errno = EAGAIN;
			break;
		}
		part = lines_within(data + done, len - done, PIPE_BUF);
		part = part != 0 ? part : PIPE_BUF;
		wrote = sl_file_write(fd, data + done, part);
		done += wrote;
	}
	return done;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Says once what is wrong, until it works again. */
static void complain(struct sl_denials *denials, const char *what) {
	if (!denials->complained)
		sl_log(SL_LOG_ERROR, "denial log %s: %s: %s", denials->path, what, strerror(errno));
	denials->complained = true;
}

/* Never waits: a pipe that nobody reads is refused. */
static bool open_file(struct sl_denials *denials) {
	int number = sl_file_descriptor_of(denials->path);
	if (denials->fd >= 0)
		close(denials->fd);
	denials->inherited = number >= 0;
	if (denials->inherited)
		denials->fd = copy_descriptor(number);
	else
		denials->fd = open(denials->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
	if (denials->fd < 0)
		complain(denials, "opening it");
	return denials->fd >= 0;
}

/* Where the name has come to mean another file, or none: takes that. Returns the size; 0 of what is never set aside. */
static uint64_t look(struct sl_denials *denials) {
	struct stat own, named;
	if (denials->fd < 0 || fstat(denials->fd, &own) != 0)
		own = (struct stat){.st_mode = 0};
	if (denials->fd >= 0 && (denials->inherited || !S_ISREG(own.st_mode)))
		return 0;
	if (denials->fd < 0 || stat(denials->path, &named) != 0 || named.st_ino != own.st_ino ||
	    named.st_dev != own.st_dev) {
		if (!open_file(denials) || fstat(denials->fd, &own) != 0)
			return 0;
	}
	return S_ISREG(own.st_mode) && !denials->inherited ? (uint64_t)own.st_size : 0;
}

static uint64_t count_lines(const char *data, size_t len) {
	uint64_t count = 0;
	for (size_t i = 0; i < len; i++)
		count += data[i] == '\n';
	return count;
}

static size_t write_some(const struct sl_denials *denials, const char *data, size_t len) {
	if (denials->fd < 0)
		return 0;
	return denials->inherited ? write_inherited(denials->fd, data, len) : sl_file_write(denials->fd, data, len);
}

/* Writes all of it, or says why not. Of an inherited descriptor that is full nothing is said: that may be written there
 * too, and would wait. */
static void write_lines(struct sl_denials *denials, const char *data, size_t len) {
	size_t done = write_some(denials, data, len);
	if (done < len && denials->fd >= 0 && !(denials->inherited && errno == EAGAIN))
		complain(denials, "writing");
	else if (done == len)
		denials->complained = false;
	uint64_t lines = count_lines(data, done);
	atomic_fetch_add_explicit(&denials->written, lines, memory_order_relaxed);
	atomic_fetch_add_explicit(&denials->dropped, count_lines(data, len) - lines, memory_order_relaxed);
}

/* Sets the file aside and begins it anew. Where that fails it is cut: the bound on its size comes first. */
static void set_aside(struct sl_denials *denials) {
	if (rename(denials->path, denials->aside) != 0) {
		complain(denials, "setting it aside");
		if (ftruncate(denials->fd, 0) != 0)
			complain(denials, "cutting it");
		return;
	}
	open_file(denials);
}

static void empty(struct sl_denials *denials, size_t len) {
	const char *data = denials->emptying;
	while (len != 0) {
		uint64_t size = look(denials), room = denials->size_max > size ? denials->size_max - size : 0;
		size_t part = lines_within(data, len, room);
		if (part == 0 && size != 0) {
			set_aside(denials);
			part = lines_within(data, len, denials->size_max);
		}
		if (part == 0) /* one line is longer than the file may be: conf allows no such size */
			part = lines_within(data, len, SL_RECORD_BYTES_MAX);
		write_lines(denials, data, part);
		data += part;
		len -= part;
	}
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *run(void *data) {
	struct sl_denials *denials = data;
	bool ending = false;
	while (!ending) {
		pthread_mutex_lock(&denials->lock);
		while (denials->filled == 0 && !denials->ending && !denials->reopen)
			pthread_cond_wait(&denials->changed, &denials->lock);
		char *filled = denials->filling;
		size_t len = denials->filled;
		bool reopen = denials->reopen;
		denials->filling = denials->emptying;
		denials->filled = 0;
		denials->reopen = false;
		ending = denials->ending;
		pthread_mutex_unlock(&denials->lock);
		denials->emptying = filled;
		if (reopen)
			open_file(denials);
		empty(denials, len);
	}
	return NULL;
}

static bool start(struct sl_denials *denials) {
	int failed = sl_thread_start(&denials->thread, run, denials);
	if (failed != 0)
		sl_log(SL_LOG_ERROR, "denial log %s: its thread: %s", denials->path, strerror(failed));
	return failed == 0;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* Whether the file could be opened, or made; or errno. */
static bool can_be_opened(const char *path) {
	char folder[PATH_MAX];
	struct stat found;
	int number = sl_file_descriptor_of(path);
	if (number >= 0)
		return sl_file_can_be_written(number);
	if (stat(path, &found) == 0) {
		errno = EISDIR;
		return !S_ISDIR(found.st_mode) && access(path, W_OK) == 0;
	}
	const char *slash = strrchr(path, '/');
	int len = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
	snprintf(folder, sizeof folder, "%.*s", len == 0 ? 1 : len, len == 0 ? "." : path);
	return errno == ENOENT && access(folder, W_OK | X_OK) == 0;
}

bool sl_denials_check(const struct sl_log_settings *settings) {
	if (settings->denials == NULL || can_be_opened(settings->denials))
		return true;
	sl_log(SL_LOG_ERROR, "log.denials: %s can't be written: %s", settings->denials, strerror(errno));
	return false;
}

static void destroy(struct sl_denials *denials) {
	if (denials->fd >= 0)
		close(denials->fd);
	pthread_cond_destroy(&denials->changed);
	pthread_mutex_destroy(&denials->lock);
	free(denials->path);
	free(denials->aside);
	free(denials->filling);
	free(denials->emptying);
	free(denials);
}

static bool take_memory(struct sl_denials *denials, const char *path) {
	size_t len = strlen(path);
	denials->path = malloc(len + 1);
	denials->aside = malloc(len + 3);
	denials->filling = malloc(QUEUE_BYTES);
	denials->emptying = malloc(QUEUE_BYTES);
	if (denials->path == NULL || denials->aside == NULL || denials->filling == NULL || denials->emptying == NULL) {
		sl_log(SL_LOG_ERROR, "denial log %s: no memory", path);
		return false;
	}
	memcpy(denials->path, path, len + 1);
	memcpy(denials->aside, path, len);
	memcpy(denials->aside + len, ".1", 3);
	return true;
}

struct sl_denials *sl_denials_open(const struct sl_log_settings *settings) {
	struct sl_denials *denials = calloc(1, sizeof *denials);
	if (denials == NULL) {
		fputs("sluice: denial log: no memory\n", stderr);
		return NULL;
	}
	denials->fd = -1;
	denials->per_second = settings->denials_per_second;
	denials->size_max = settings->denials_bytes;
	pthread_mutex_init(&denials->lock, NULL);
	pthread_cond_init(&denials->changed, NULL);
	if (take_memory(denials, settings->denials) && open_file(denials) && start(denials))
		return denials;
	destroy(denials);
	return NULL;
}

void sl_denials_close(struct sl_denials *denials) {
	if (denials == NULL)
		return;
	pthread_mutex_lock(&denials->lock);
	denials->ending = true;
	pthread_cond_signal(&denials->changed);
	pthread_mutex_unlock(&denials->lock);
	pthread_join(denials->thread, NULL);
	destroy(denials);
}

void sl_denials_reopen(struct sl_denials *denials) {
	pthread_mutex_lock(&denials->lock);
	denials->reopen = true;
	pthread_cond_signal(&denials->changed);
	pthread_mutex_unlock(&denials->lock);
}

void sl_denials_figures(const struct sl_denials *denials, uint64_t *written, uint64_t *dropped) {
	*written = denials == NULL ? 0 : atomic_load_explicit(&denials->written, memory_order_relaxed);
	*dropped = denials == NULL ? 0 : atomic_load_explicit(&denials->dropped, memory_order_relaxed);
}
