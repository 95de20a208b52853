/* See loop.h and loop_uv.h. One uv_poll on the descriptor serves sockets of all families, and TLS alike. */
#include "hosts/server/loop/loop_uv.h"

#include "os/clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

static const struct sl_loop_operations uv_operations;

struct sl_loop sl_loop_uv(uv_loop_t *loop) {
	return (struct sl_loop){&uv_operations, loop};
}

static sluice_ns now(void *world) {
	(void)world;
	return sl_clock_monotonic();
}

static bool fill_random(void *world, void *bytes, size_t len) {
	(void)world;
	return uv_random(NULL, NULL, bytes, len, 0, NULL) == 0;
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

struct uv_timer {
	struct sl_timer timer;
	enum sl_timer_kind kind;
	void (*fired)(void *to);
	void (*gone)(void *to);
	void *to;
	union {
		uv_handle_t handle;
		uv_timer_t after;
		uv_prepare_t turn_end;
	} uv;
};

static struct sl_timer *timer_new(void *world, enum sl_timer_kind kind, void (*fired)(void *to), void *to) {
	struct uv_timer *timer = calloc(1, sizeof *timer);
	if (timer == NULL)
		return NULL;
	*timer = (struct uv_timer){.timer = {&uv_operations}, .kind = kind, .fired = fired, .to = to};
	if (kind == SL_TIMER_AFTER)
		(void)uv_timer_init(world, &timer->uv.after); /* neither fails */
	else
		(void)uv_prepare_init(world, &timer->uv.turn_end);
	timer->uv.handle.data = timer;
	return &timer->timer;
}

static void on_timer(uv_timer_t *handle) {
	struct uv_timer *timer = handle->data;
	timer->fired(timer->to);
}

static void on_turn_end(uv_prepare_t *handle) {
	struct uv_timer *timer = handle->data;
	uv_prepare_stop(handle);
	timer->fired(timer->to);
}

static void timer_set(struct sl_timer *of, uint64_t ms) {
	struct uv_timer *timer = (struct uv_timer *)of;
	if (timer->kind == SL_TIMER_TURN_END) {
		(void)uv_prepare_start(&timer->uv.turn_end, on_turn_end);
		return;
	}
	uv_update_time(timer->uv.handle.loop); /* else it would count from when this turn began */
	(void)uv_timer_start(&timer->uv.after, on_timer, ms, 0);
}

static void timer_stop(struct sl_timer *of) {
	struct uv_timer *timer = (struct uv_timer *)of;
	if (timer->kind == SL_TIMER_TURN_END)
		(void)uv_prepare_stop(&timer->uv.turn_end);
	else
		(void)uv_timer_stop(&timer->uv.after);
}

static bool timer_is_set(const struct sl_timer *of) {
	return uv_is_active(&((const struct uv_timer *)of)->uv.handle) != 0;
}

static void on_timer_closed(uv_handle_t *handle) {
	struct uv_timer *timer = handle->data;
	void (*gone)(void *to) = timer->gone;
	void *to = timer->to;
	free(timer);
	if (gone != NULL)
		gone(to);
}

static void timer_free(struct sl_timer *of, void (*gone)(void *to)) {
	struct uv_timer *timer = (struct uv_timer *)of;
	timer->gone = gone;
	uv_close(&timer->uv.handle, on_timer_closed);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

struct uv_socket {
	struct sl_socket socket;
	struct sl_socket_events events;
	int fd;
	int watched; /* SL_SOCKET_* */
	uv_poll_t poll;
};

_Static_assert((int)SL_SOCKET_READABLE == (int)UV_READABLE && (int)SL_SOCKET_WRITABLE == (int)UV_WRITABLE,
               "events are libuv's");

/* A node that is gone without a word is found out after half a minute. */
static void set_options(int fd) {
	const int yes = 1, idle = 15, between = 5, times = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* A descriptor on its way to an address. -1: errno says why. */
static int begin(const struct sockaddr *address, socklen_t len) {
	const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (address->sa_family != AF_UNIX)
		set_options(fd);
	if (connect(fd, address, len) == 0 || errno == EINPROGRESS)
		return fd;
	const int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
	struct uv_socket *socket = poll->data;
	socket->events.ready(socket->events.to, status < 0 ? -status : 0, events);
}

static bool watch(struct sl_socket *of, int events) {
	struct uv_socket *socket = (struct uv_socket *)of;
	if (socket->watched == events)
		return true;
	socket->watched = events;
	return uv_poll_start(&socket->poll, events, on_poll) == 0;
}

static void on_socket_closed(uv_handle_t *handle) {
	struct uv_socket *socket = handle->data;
	const struct sl_socket_events events = socket->events;
	free(socket);
	if (events.gone != NULL)
		events.gone(events.to);
}

static void socket_close(struct sl_socket *of) {
	struct uv_socket *socket = (struct uv_socket *)of;
	uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
	close(socket->fd);
}

static struct sl_socket *socket_connect(void *world, const struct sockaddr *address, socklen_t len,
                                        const struct sl_socket_events *events) {
	struct uv_socket *socket = calloc(1, sizeof *socket);
	if (socket == NULL)
		return errno = ENOMEM, NULL;
	*socket = (struct uv_socket){.socket = {&uv_operations}, .events = *events};
	socket->fd = begin(address, len);
	if (socket->fd < 0) {
		free(socket);
		return NULL;
	}
	if (uv_poll_init(world, &socket->poll, socket->fd) != 0) {
		close(socket->fd);
		free(socket);
		return errno = EMFILE, NULL;
	}
	socket->poll.data = socket;
	if (watch(&socket->socket, SL_SOCKET_WRITABLE))
		return &socket->socket;
	socket->events.gone = NULL;
	socket_close(&socket->socket);
	return errno = EMFILE, NULL;
}

static int socket_error(struct sl_socket *of) {
	int error = 0;
	socklen_t len = sizeof error;
	return getsockopt(((struct uv_socket *)of)->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

static ssize_t socket_send(struct sl_socket *of, const void *data, size_t len) {
	ssize_t sent;
	do
		sent = send(((struct uv_socket *)of)->fd, data, len, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= 0 ? sent : -errno;
}

static ssize_t socket_receive(struct sl_socket *of, void *into, size_t room) {
	ssize_t got;
	do
		got = recv(((struct uv_socket *)of)->fd, into, room, 0);
	while (got < 0 && errno == EINTR);
	return got >= 0 ? got : -errno;
}

static int descriptor(const struct sl_socket *of) {
	return ((const struct uv_socket *)of)->fd;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

struct uv_lookup {
	struct sl_lookup lookup;
	sl_lookup_found found;
	void *to;
	uv_getaddrinfo_t request;
};

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses) {
	struct uv_lookup *lookup = request->data;
	lookup->found(lookup->to, status != 0 ? uv_strerror(status) : NULL, addresses);
	uv_freeaddrinfo(addresses);
	free(lookup);
}

static struct sl_lookup *lookup_new(void *world, const char *host, const char *port, sl_lookup_found found, void *to) {
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct uv_lookup *lookup = calloc(1, sizeof *lookup);
	if (lookup == NULL)
		return errno = ENOMEM, NULL;
	*lookup = (struct uv_lookup){.lookup = {&uv_operations}, .found = found, .to = to};
	lookup->request.data = lookup;
	if (uv_getaddrinfo(world, &lookup->request, on_found, host, port, &hints) == 0)
		return &lookup->lookup;
	free(lookup);
	return errno = EINVAL, NULL;
}

/* One that runs ends by itself. */
static void lookup_cancel(struct sl_lookup *of) {
	(void)uv_cancel((uv_req_t *)&((struct uv_lookup *)of)->request);
}

static const struct sl_loop_operations uv_operations = {
	.now = now,
	.random = fill_random,
	.timer_new = timer_new,
	.timer_set = timer_set,
	.timer_stop = timer_stop,
	.timer_is_set = timer_is_set,
	.timer_free = timer_free,
	.connect = socket_connect,
	.watch = watch,
	.error = socket_error,
	.send = socket_send,
	.receive = socket_receive,
	.descriptor = descriptor,
	.close = socket_close,
	.lookup_new = lookup_new,
	.lookup_cancel = lookup_cancel,
};
