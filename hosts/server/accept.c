/* Accepting: connections are taken by the first worker's thread and handed to all workers in turn.
 *
 * When the process has no descriptor left, the one in reserve is given up to take the connection and end it at once, so
 * that its peer knows. When there is no memory for a connection, accepting rests for a moment: without that the loop
 * would spin, for a connection that cannot be taken stays ready. In either case those that are open are served on, and
 * accepting recovers by itself. */
#include "hosts/server/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_MAX = 64, PAUSE_MS = 100 };
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
		close(arrival->fd);
}

static void hand_out(struct sl_entrance *entrance, int fd, const struct sockaddr_storage *address) {
	struct sl_arrival arrival = {.fd = fd, .door = entrance->door, .listener = &entrance->listener};
	int on = 1;
	describe_peer(&arrival, address);
	if (address->ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	sl_accept_place(entrance->server, &arrival);
}

static void on_acceptable(uv_poll_t *handle, int status, int events);

static void on_pause_over(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].listener.fd >= 0 && server->entrances[i].polled)
			uv_poll_start(&server->entrances[i].poll, UV_READABLE, on_acceptable);
}

static void pause_accepting(struct sl_server *server) {
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].polled)
			uv_poll_stop(&server->entrances[i].poll);
	uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
}

/* A client can cause this as often as it likes: one line in ten seconds. */
static void complain(struct sl_server *server, int why) {
	atomic_fetch_add_explicit(&server->parts.figures->refused, 1, memory_order_relaxed);
	if (sl_log_may(&server->complained, COMPLAIN_EVERY_NS))
		sl_log(SL_LOG_ERROR, "connections are turned away: %s%s", strerror(why),
		       why == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
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
	complain(entrance->server, why);
	if ((why == EMFILE || why == ENFILE) && turn_away(entrance))
		return true;
	pause_accepting(entrance->server);
	return false;
}

static void on_acceptable(uv_poll_t *handle, int status, int events) {
	struct sl_entrance *entrance = handle->data;
	(void)events;
	for (int i = 0; status == 0 && i < ACCEPTS_MAX && entrance->listener.fd >= 0; i++)
		if (!take_one(entrance))
			return;
}

void sl_accept_start(struct sl_server *server) {
	uv_loop_t *loop = &server->workers[0].loop;
	uv_timer_init(loop, &server->pause);
	uv_unref((uv_handle_t *)&server->pause);
	server->pause.data = server;
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct sl_entrance *entrance = &server->entrances[i];
		entrance->poll.data = entrance;
		entrance->polled = uv_poll_init(loop, &entrance->poll, entrance->listener.fd) == 0;
		if (entrance->polled)
			uv_poll_start(&entrance->poll, UV_READABLE, on_acceptable);
	}
}
