/* Sockets between clients and workers, in memory, and the clock and chance that go with them. The linker puts what is
 * below in the place of the C library's (__wrap_); whatever is none of ours goes on to that. */
#include "fuzz/session/session.h"

#include "base/math.h"
#include "base/out.h"
#include "hosts/admission/ids.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FD_FIRST = 1 << 20 };

static struct wire wires[SOCKETS_MAX];
static uint64_t drawn, made;
sluice_ns wire_now;

static struct wire *of(int fd) {
	return fd >= FD_FIRST && fd < FD_FIRST + SOCKETS_MAX ? &wires[fd - FD_FIRST] : NULL;
}

/* ---- the client's side ------------------------------------------------------------------------------------------- */

struct wire *wire_new(int *fd) {
	for (int i = 0; i < SOCKETS_MAX; i++) {
		if (wires[i].open)
			continue;
		wires[i] = (struct wire){.open = true, .held = 1, .room = SIZE_MAX, .grain = SIZE_MAX};
		*fd = FD_FIRST + i;
		return &wires[i];
	}
	return NULL;
}

struct wire *wire_at(uint32_t index) {
	return &wires[index % SOCKETS_MAX];
}

void wire_hold(int fd) {
	SL_ASSERT(of(fd) != NULL && of(fd)->held > 0);
	of(fd)->held++;
}

void wire_say(struct wire *wire, const void *data, size_t len) {
	if (wire->ended || wire->reset || len == 0)
		return;
	wire->way = realloc(wire->way, wire->way_len + len);
	SL_ASSERT(wire->way != NULL);
	memcpy(wire->way + wire->way_len, data, len);
	wire->way_len += len;
}

void wire_arrive(struct wire *wire, size_t len) {
	wire->way_arrived += sl_min(len, wire->way_len - wire->way_arrived);
}

void wire_take(struct wire *wire, size_t len) {
	wire->queued -= sl_min(len, wire->queued);
}

void wire_forget(void) {
	for (int i = 0; i < SOCKETS_MAX; i++) {
		SL_ASSERT(wires[i].held == 0);
		free(wires[i].way);
		free(wires[i].heard);
		wires[i] = (struct wire){.open = false};
	}
	drawn = made = 0;
}

/* ---- the server's side ------------------------------------------------------------------------------------------- */

/* As a kernel has it: an end comes after what was said before it; a reset takes what is not read along. */
bool wire_is_readable(int fd) {
	const struct wire *wire = of(fd);
	return wire->reset || wire->way_at < wire->way_arrived || (wire->ended && wire->way_at == wire->way_len);
}

bool wire_is_writable(int fd) {
	const struct wire *wire = of(fd);
	return wire->reset || wire->queued < wire->room;
}

static ssize_t fail(int error) {
	errno = error;
	return -1;
}

static ssize_t receive(struct wire *wire, void *to, size_t room, bool peek) {
	SL_ASSERT(wire->held > 0);
	size_t len = sl_min(sl_min(room, wire->grain), wire->way_arrived - wire->way_at);
	if (wire->reset)
		return fail(ECONNRESET);
	if (len == 0)
		return wire->ended && wire->way_at == wire->way_len ? 0 : fail(EAGAIN);
	memcpy(to, wire->way + wire->way_at, len);
	wire->way_at += peek ? 0 : len;
	return (ssize_t)len;
}

ssize_t __real_read(int fd, void *to, size_t room);
ssize_t __wrap_read(int fd, void *to, size_t room);
ssize_t __wrap_read(int fd, void *to, size_t room) {
	return of(fd) != NULL ? receive(of(fd), to, room, false) : __real_read(fd, to, room);
}

ssize_t __real_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags) {
	return of(fd) != NULL ? receive(of(fd), to, room, (flags & MSG_PEEK) != 0) : __real_recv(fd, to, room, flags);
}

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags) {
	struct wire *wire = of(fd);
	if (wire == NULL)
		return __real_send(fd, data, len, flags);
	SL_ASSERT(wire->held > 0 && !wire->finished);
	if (wire->reset)
		return fail(ECONNRESET);
	len = sl_min(sl_min(len, wire->grain), wire->room - sl_min(wire->room, wire->queued));
	if (len == 0)
		return fail(EAGAIN);
	if (wire->heard_len + len > wire->heard_capacity) {
		wire->heard_capacity = 2 * (wire->heard_len + len);
		wire->heard = realloc(wire->heard, wire->heard_capacity);
		SL_ASSERT(wire->heard != NULL);
	}
	memcpy(wire->heard + wire->heard_len, data, len);
	wire->heard_len += len;
	wire->queued += len;
	return (ssize_t)len;
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
	struct wire *wire = of(fd);
	if (wire == NULL)
		return __real_shutdown(fd, how);
	SL_ASSERT(wire->held > 0 && how == SHUT_WR);
	if (wire->reset)
		return (int)fail(ENOTCONN);
	wire->finished = true;
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
	struct wire *wire = of(fd);
	if (wire == NULL)
		return __real_close(fd);
	SL_ASSERT(wire->held > 0);
	wire->held--;
	return 0;
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
	return of(fd) != NULL ? 0 : __real_setsockopt(fd, level, name, value, len);
}

int __real_ioctl(int fd, unsigned long what, void *to);
int __wrap_ioctl(int fd, unsigned long what, void *to);
int __wrap_ioctl(int fd, unsigned long what, void *to) {
	if (of(fd) == NULL)
		return __real_ioctl(fd, what, to);
	*(int *)to = (int)sl_min(of(fd)->queued, INT32_MAX);
	return 0;
}

/* ---- clock and chance -------------------------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t id, struct timespec *to);
int __wrap_clock_gettime(clockid_t id, struct timespec *to);
int __wrap_clock_gettime(clockid_t id, struct timespec *to) {
	if (wire_now == 0) /* outside of an input */
		return __real_clock_gettime(id, to);
	*to = (struct timespec){.tv_sec = (time_t)(wire_now / 1000000000), .tv_nsec = (long)(wire_now % 1000000000)};
	return 0;
}

ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags) {
	(void)flags;
	for (size_t i = 0; i < len; i++) {
		drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		((uint8_t *)to)[i] = (uint8_t)(drawn >> 56);
	}
	return (ssize_t)len;
}

/* Ids that a door makes are drawn from a thread's own generator, which an input before this one has moved on. */
struct sluice_bytes __wrap_sl_make_id(char text[SL_ID_DIGITS + 1]);
struct sluice_bytes __wrap_sl_make_id(char text[SL_ID_DIGITS + 1]) {
	sl_hex_text(text, ++made);
	return sl_slice(text, SL_ID_DIGITS);
}
