/* Calls that fail: stands between a program and the C library, and fails the one call, or all calls from one on, that a
 * test asks for. Made twice of this file:
 *
 *   linked in with --wrap (the Makefile reads the list from the object file): every call that our own code makes, and
 *   no other, in any build, so under AddressSanitizer as well;
 *   as a library for LD_PRELOAD, with -DPRELOADED: those of the libraries that the program stands on as well.
 *
 * FAULTS names a file that is mapped (struct faults below), in which a test arms it, before the program or while it
 * runs, and reads what happened. Without it nothing fails. A child that inherits FAULTS counts on in the same file. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order of faults.py's KINDS. */
enum kind {
	MEMORY, MAP, OPEN, READ, WRITE, LOCK, SYNC, SIZE, NAME, LOOK, NET, RESOLVE, THREAD, WAIT, CHANCE, SPAWN
};

enum { SHORT = -1, TRACE = 6, SITES = 1 << 15, TOLD_BYTES = 64 };

/* What a test and the programs share. A call is counted if it is armed and its kind is asked for; those numbered
 * `first` to `last`, from 1 on, fail with `error`; with `every` 2 only each second of them, so that who asks again is
 * served. SHORT: a read or a write takes one byte. `sites` says of each counted call where it was made, by a hash of
 * the calls above it. */
struct faults {
	uint64_t armed, kinds, first, last, every;
	int64_t error;
	uint64_t calls, failed, trace[TRACE];
	char told[TOLD_BYTES]; /* the name of the first that failed */
	uint64_t sites[SITES]; /* kind << 56 | hash */
};

static struct faults *faults;
static uintptr_t program_from, program_to;
static __thread int inside;

/* FACE: what the program calls; REAL: what it would have called. */
#ifdef PRELOADED
#define FACE(name) name
#define REAL(name) ((__typeof__(&name))next(#name, &next_##name))
#define BOTH(type, name, parameters) static void *next_##name

static void *next(const char *name, void **kept) {
	if (*kept == NULL) {
		inside++;
		*kept = dlsym(RTLD_NEXT, name);
		inside--;
	}
	return *kept;
}
#else
#define FACE(name) __wrap_##name
#define REAL(name) __real_##name
#define BOTH(type, name, parameters) \
	type __wrap_##name parameters; \
	type __real_##name parameters
#endif

static int find_program(struct dl_phdr_info *info, size_t size, void *unused) {
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
			program_from = info->dlpi_addr;
			program_to = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
		}
	return 1; /* the first is the program */
}

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("FAULTS");
	void *memory, *trace[2];
	int fd = path == NULL ? -1 : (int)open(path, O_RDWR | O_CLOEXEC);
	if (path == NULL)
		return;
	memory = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || memory == MAP_FAILED)
		abort();
	close(fd);
	dl_iterate_phdr(find_program, NULL);
	inside++;
	backtrace(trace, 2); /* loads what it needs */
	inside--;
	__atomic_store_n(&faults, memory, __ATOMIC_RELEASE);
}

/* The calls above, as far as they are the program's: positions in it, the same in each run. */
static __attribute__((noinline)) uint64_t where(uint64_t trace[TRACE]) {
	void *all[TRACE + 4];
	uint64_t hash = 14695981039346656037u;
	int count, kept = 0;
	inside++;
	count = backtrace(all, TRACE + 4);
	inside--;
	for (int i = 3; i < count && kept < TRACE; i++) {
		uintptr_t at = (uintptr_t)all[i];
		trace[kept] = at >= program_from && at < program_to ? at - program_from : 0;
		hash = (hash ^ trace[kept++]) * 1099511628211u;
	}
	return hash;
}

/* 0: the call is made; else what it fails with. */
static __attribute__((noinline)) int strike(enum kind kind, const char *name) {
	struct faults *f = faults;
	uint64_t number, trace[TRACE] = {0}, hash;
	if (f == NULL || inside != 0 || __atomic_load_n(&f->armed, __ATOMIC_ACQUIRE) == 0 || !(f->kinds >> kind & 1))
		return 0;
	number = __atomic_add_fetch(&f->calls, 1, __ATOMIC_RELAXED);
	hash = where(trace);
	if (number <= SITES)
		f->sites[number - 1] = (uint64_t)kind << 56 | hash >> 8;
	if (number < f->first || number > f->last || (f->every == 2 && (number - f->first) % 2 != 0))
		return 0;
	if (__atomic_fetch_add(&f->failed, 1, __ATOMIC_RELAXED) == 0) {
		memcpy(f->trace, trace, sizeof trace);
		strncpy(f->told, name, TOLD_BYTES - 1);
	}
	if (f->error > 0)
		errno = (int)f->error;
	return (int)f->error;
}

/* Three forms: an error as -1 or NULL and errno; one that is returned; and one byte where many were asked for. */
#define CALL(name, kind, type, failed, parameters, arguments) \
	BOTH(type, name, parameters); \
	type FACE(name) parameters { \
		return strike(kind, #name) != 0 ? (failed) : REAL(name) arguments; \
	}
#define CALL_RETURNS(name, kind, parameters, arguments) \
	BOTH(int, name, parameters); \
	int FACE(name) parameters { \
		int struck = strike(kind, #name); \
		return struck != 0 ? struck : REAL(name) arguments; \
	}
#define CALL_BYTES(name, kind, parameters, arguments, one) \
	BOTH(ssize_t, name, parameters); \
	ssize_t FACE(name) parameters { \
		int struck = strike(kind, #name); \
		if (struck == SHORT && len > 1) \
			return REAL(name) one; \
		return struck > 0 ? -1 : REAL(name) arguments; \
	}

#ifndef PRELOADED
CALL(malloc, MEMORY, void *, NULL, (size_t bytes), (bytes))
CALL(calloc, MEMORY, void *, NULL, (size_t count, size_t bytes), (count, bytes))
CALL(realloc, MEMORY, void *, NULL, (void *old, size_t bytes), (old, bytes))
CALL(aligned_alloc, MEMORY, void *, NULL, (size_t align, size_t bytes), (align, bytes))
CALL(strdup, MEMORY, char *, NULL, (const char *text), (text))
CALL(fopen, OPEN, FILE *, NULL, (const char *path, const char *mode), (path, mode))
#else
/* The linker's names for those that dlsym() itself may need. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t bytes) {
	return strike(MEMORY, "malloc") != 0 ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
	return strike(MEMORY, "calloc") != 0 ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
	return strike(MEMORY, "realloc") != 0 ? NULL : __libc_realloc(old, bytes);
}
#endif
CALL(mmap, MAP, void *, MAP_FAILED, (void *at, size_t len, int prot, int flags, int fd, off_t from),
     (at, len, prot, flags, fd, from))
CALL(mkostemp, OPEN, int, -1, (char *path, int flags), (path, flags))
CALL(opendir, OPEN, DIR *, NULL, (const char *path), (path))
CALL(socket, OPEN, int, -1, (int family, int type, int protocol), (family, type, protocol))
CALL(socketpair, OPEN, int, -1, (int family, int type, int protocol, int fds[2]), (family, type, protocol, fds))
CALL(accept4, OPEN, int, -1, (int fd, struct sockaddr *from, socklen_t *len, int flags), (fd, from, len, flags))
CALL_BYTES(read, READ, (int fd, void *to, size_t len), (fd, to, len), (fd, to, 1))
CALL_BYTES(pread, READ, (int fd, void *to, size_t len, off_t at), (fd, to, len, at), (fd, to, 1, at))
CALL_BYTES(recv, READ, (int fd, void *to, size_t len, int flags), (fd, to, len, flags), (fd, to, 1, flags))
CALL_BYTES(write, WRITE, (int fd, const void *from, size_t len), (fd, from, len), (fd, from, 1))
CALL_BYTES(pwrite, WRITE, (int fd, const void *from, size_t len, off_t at), (fd, from, len, at), (fd, from, 1, at))
CALL_BYTES(send, WRITE, (int fd, const void *from, size_t len, int flags), (fd, from, len, flags), (fd, from, 1, flags))
CALL(sendto, WRITE, ssize_t, -1, (int fd, const void *from, size_t len, int flags, const struct sockaddr *to,
     socklen_t of), (fd, from, len, flags, to, of))
CALL(recvmsg, READ, ssize_t, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
CALL(sendmsg, WRITE, ssize_t, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
CALL(fsync, SYNC, int, -1, (int fd), (fd))
CALL(msync, SYNC, int, -1, (void *at, size_t len, int flags), (at, len, flags))
CALL(ftruncate, SIZE, int, -1, (int fd, off_t bytes), (fd, bytes))
CALL_RETURNS(posix_fallocate, SIZE, (int fd, off_t from, off_t bytes), (fd, from, bytes))
CALL(rename, NAME, int, -1, (const char *from, const char *to), (from, to))
CALL(renameat2, NAME, int, -1, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
CALL(unlink, NAME, int, -1, (const char *path), (path))
CALL(fchmod, NAME, int, -1, (int fd, mode_t mode), (fd, mode))
CALL(fchown, NAME, int, -1, (int fd, uid_t user, gid_t group), (fd, user, group))
CALL(stat, LOOK, int, -1, (const char *path, struct stat *to), (path, to))
CALL(lstat, LOOK, int, -1, (const char *path, struct stat *to), (path, to))
CALL(fstat, LOOK, int, -1, (int fd, struct stat *to), (fd, to))
CALL(connect, NET, int, -1, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len))
CALL(bind, NET, int, -1, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len))
CALL(listen, NET, int, -1, (int fd, int backlog), (fd, backlog))
CALL(getsockname, NET, int, -1, (int fd, struct sockaddr *to, socklen_t *len), (fd, to, len))
CALL(setsockopt, NET, int, -1, (int fd, int level, int name, const void *value, socklen_t len),
     (fd, level, name, value, len))
CALL(getsockopt, NET, int, -1, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len))
CALL(poll, WAIT, int, -1, (struct pollfd *fds, nfds_t count, int timeout), (fds, count, timeout))
CALL(getrandom, CHANCE, ssize_t, -1, (void *to, size_t len, unsigned flags), (to, len, flags))
CALL_RETURNS(pthread_create, THREAD, (pthread_t *to, const pthread_attr_t *as, void *(*run)(void *), void *data),
             (to, as, run, data))
CALL_RETURNS(posix_spawnp, SPAWN, (pid_t *to, const char *file, const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *as, char *const argv[], char *const env[]), (to, file, actions, as, argv, env))

BOTH(int, getaddrinfo, (const char *, const char *, const struct addrinfo *, struct addrinfo **));
int FACE(getaddrinfo)(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **to) {
	return strike(RESOLVE, "getaddrinfo") != 0 ? EAI_AGAIN : REAL(getaddrinfo)(host, port, hints, to);
}

/* With a third argument that is there or not; one that is not asked for is passed on as whatever stands there. */
BOTH(int, open, (const char *, int, ...));
int FACE(open)(const char *path, int flags, ...) {
	va_list rest;
	mode_t mode;
	va_start(rest, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	return strike(OPEN, "open") != 0 ? -1 : REAL(open)(path, flags, mode);
}

BOTH(int, fcntl, (int, int, ...));
int FACE(fcntl)(int fd, int command, ...) {
	va_list rest;
	void *argument;
	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	return strike(LOCK, "fcntl") != 0 ? -1 : REAL(fcntl)(fd, command, argument);
}
