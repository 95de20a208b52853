/* The wall clock of a program, in a test's hand. Built by redis_world.py and tests/model/redis_door.c as a library that
 * is loaded ahead of the C library:
 *
 *   LD_PRELOAD=clock.so STEERED_CLOCK=FILE program
 *
 * FILE holds three 64-bit numbers of microseconds, which may be written at any time: an instant at which the wall clock
 * stands still (0: it runs), by how much it is off, and one at which CLOCK_BOOTTIME stands still (0: it runs).
 * CLOCK_MONOTONIC is left alone, and so is CLOCK_BOOTTIME by a step of the wall clock, as with a real one. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { US = 1000000 };

/* A server may bind a module to its own libraries first (RTLD_DEEPBIND; Valkey does), ahead of this one. */
void *dlopen(const char *path, int flags) {
	void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	return real(path, flags & ~RTLD_DEEPBIND);
}

static const volatile int64_t *steering(void) {
	static const volatile int64_t *found;
	const char *path = getenv("STEERED_CLOCK");
	int fd;
	if (found != NULL || path == NULL)
		return found;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		abort();
	found = mmap(NULL, 3 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (found == MAP_FAILED)
		abort();
	close(fd);
	return found;
}

static int64_t wall_us(int64_t *nanoseconds) {
	const volatile int64_t *steer = steering();
	struct timespec real;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
	*nanoseconds = real.tv_nsec % 1000;
	if (steer != NULL && steer[0] != 0) {
		*nanoseconds = 0;
		return steer[0];
	}
	return (int64_t)real.tv_sec * US + real.tv_nsec / 1000 + (steer == NULL ? 0 : steer[1]);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
	const volatile int64_t *steer = steering();
	int64_t us, ns;
	if (clock == CLOCK_BOOTTIME && steer != NULL && steer[2] != 0) {
		at->tv_sec = steer[2] / US;
		at->tv_nsec = steer[2] % US * 1000;
		return 0;
	}
	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, at);
	us = wall_us(&ns);
	at->tv_sec = us / US;
	at->tv_nsec = us % US * 1000 + ns;
	return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
	int64_t ns, us = wall_us(&ns);
	(void)zone;
	at->tv_sec = us / US;
	at->tv_usec = us % US;
	return 0;
}

time_t time(time_t *at) {
	int64_t ns;
	time_t now = (time_t)(wall_us(&ns) / US);
	if (at != NULL)
		*at = now;
	return now;
}
