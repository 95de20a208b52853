/* Accepting: connections are taken by the first worker's thread and handed to all workers in turn.
 *
 * When the process has no descriptor left, the one in reserve is given up to take the connection and end it at once, so
 * that its peer knows. When there is no memory for a connection, accepting rests for a moment: without that the loop
 * would spin, for a connection that cannot be taken stays ready. In either case those that are open are served on, and
 * accepting recovers by itself. */
#include "hosts/server/lifecycle/accept.h"

#include "hosts/server/net/connection.h"
#include "hosts/server/net/crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_MAX = 64, PAUSE_MS = 100, SHED_PAUSE_MS = 1 };
#define COMPLAIN_EVERY_NS ((sluice_ns)10 * 1000000000)

static void describe_peer(struct sl_arrival *arrival, const struct sockaddr_storage *address) {
	char host[INET6_ADDRSTRLEN] = "";
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(arrival->peer, sizeof arrival->peer, "%s:%u", host, ntohs(in->sin_port));
		arrival->address = (struct sl_address){{[10] = 0xff, [11] = 0xff}};
		memcpy(arrival->address.bytes + 12, &in->sin_addr, 4);
	} else if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(arrival->peer, sizeof arrival->peer, "[%s]:%u", host, ntohs(in6->sin6_port));
		memcpy(arrival->address.bytes, &in6->sin6_addr, 16);
	} else {
		snprintf(arrival->peer, sizeof arrival->peer, "unix");
		arrival->is_unix = true;
	}
}

void sl_accept_place(struct sl_server *server, struct sl_arrival *arrival) {
	struct sl_worker *worker = &server->workers[server->next_worker++ % server->worker_count];
	if (worker == &server->workers[0])
		sl_connection_open(worker, arrival);
	else if (!sl_worker_give(worker, arrival))
		sl_arrival_dismiss(worker->bounds, arrival);
}

static void hand_out(struct sl_entrance *entrance, int fd, const struct sockaddr_storage *address) {
	const struct sl_worker *first = &entrance->server->workers[0];
	struct sl_arrival arrival = {.fd = fd, .door = entrance->door, .listener = &entrance->listener};
	describe_peer(&arrival, address);
	if (sl_arrival_admit(first->bounds, first->context.policy, &arrival))
		sl_accept_place(entrance->server, &arrival);
	else
		close(fd);
}

static void on_acceptable(uv_poll_t *handle, int status, int events);

static void on_pause_over(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].listener.fd >= 0 && server->entrances[i].polled)
			uv_poll_start(&server->entrances[i].poll, UV_READABLE, on_acceptable);
}

static void pause_accepting(struct sl_server *server, uint64_t ms) {
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].polled)
			uv_poll_stop(&server->entrances[i].poll);
	uv_timer_start(&server->pause, on_pause_over, ms, 0);
}

/* A client can cause this as often as it likes: one line in ten seconds. */
static void complain(struct sl_server *server, const char *why) {
	atomic_fetch_add_explicit(&server->parts.figures->refused, 1, memory_order_relaxed);
	if (sl_log_may(&server->complained, COMPLAIN_EVERY_NS))
		sl_log(SL_LOG_ERROR, "refusing connections: %s", why);
}

/* Gives up the reserve to take one connection and end it; false when there is none to give up. */
static bool turn_away(struct sl_entrance *entrance) {
	struct sl_server *server = entrance->server;
	if (server->reserve < 0)
		server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC); /* one may have been free for a moment */
	if (server->reserve < 0)
		return false;
	close(server->reserve);
	int fd = accept4(entrance->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return true;
}

/* The bounds are reached, and somebody is waiting to come in: somebody else gives way, or the newcomer is turned away.
 * Who belongs to another worker gives way on that worker's thread; meanwhile the newcomer waits where it is. False when
 * that is so. */
static bool make_room(struct sl_entrance *entrance) {
	struct sl_server *server = entrance->server;
	enum sl_room room = sl_worker_shed(server->workers, server->worker_count);
	if (room == SL_ROOM_YES)
		return true;
	if (room == SL_ROOM_NO) {
		complain(server, "connections.max is reached, or what the limit of open files (ulimit -n) leaves for them");
		if (turn_away(entrance))
			return false;
	}
	pause_accepting(server, room == SL_ROOM_SOON ? SHED_PAUSE_MS : PAUSE_MS);
	return false;
}

/* Takes one connection; false when there is none, or none can be taken now. */
static bool take_one(struct sl_entrance *entrance) {
	struct sockaddr_storage address = {.ss_family = AF_UNIX};
	socklen_t len = sizeof address;
	int fd = accept4(entrance->listener.fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		hand_out(entrance, fd, &address);
		return true;
	}
	int why = errno;
	if (why == EAGAIN || why == EWOULDBLOCK)
		return false;
	if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM)
		return true; /* that connection is gone already; the next may be fine */
	if (sl_worker_shed(entrance->server->workers, entrance->server->worker_count) != SL_ROOM_NO) {
		pause_accepting(entrance->server, SHED_PAUSE_MS);
		return false;
	}
	complain(entrance->server, strerror(why));
	if ((why == EMFILE || why == ENFILE) && turn_away(entrance))
		return true;
	pause_accepting(entrance->server, PAUSE_MS);
	return false;
}

static void on_acceptable(uv_poll_t *handle, int status, int events) {
	struct sl_entrance *entrance = handle->data;
	(void)events;
	for (int i = 0; status == 0 && i < ACCEPTS_MAX && entrance->listener.fd >= 0; i++) {
		/* only the first is known to be waiting: for others nobody has to go before the loop asks again */
		if (sl_worker_is_full(&entrance->server->workers[0]) && (i != 0 || !make_room(entrance)))
			return;
		if (!take_one(entrance))
			return;
	}
}

void sl_accept_start(struct sl_server *server) {
	uv_loop_t *loop = &server->workers[0].loop;
	uv_timer_init(loop, &server->pause);
	uv_unref((uv_handle_t *)&server->pause);
	server->pause.data = server;
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct sl_entrance *entrance = &server->entrances[i];
		entrance->poll.data = entrance;
		sl_listener_tune(&entrance->listener);
		entrance->polled = uv_poll_init(loop, &entrance->poll, entrance->listener.fd) == 0;
		if (entrance->polled)
			uv_poll_start(&entrance->poll, UV_READABLE, on_acceptable);
	}
}
