/* A server of a floor: one thread, epoll, one read and one write for each readable connection. What it answers is its
 * program's; what it costs a request is what loopback TCP and epoll cost at so many requests a read.
 *
 * Static inline, like bench.h: with the functions known, nothing is called through a pointer. */
#ifndef SL_BENCH_NULLSERVER_H
#define SL_BENCH_NULLSERVER_H

#include "bench/bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { NULLSERVER_EVENTS_MAX = 256, NULLSERVER_BACKLOG = 1024 };

struct nullserver {
	void *(*open)(int fd);       /* what is kept of a connection; ends the program where there is no memory */
	bool (*serve)(void *opened); /* answers what has come; false: the connection is closed */
	void (*close)(void *opened); /* its descriptor, and what is kept of it */
};

/* Listens somewhere on 127.0.0.1, and prints the port on standard output. */
static inline int nullserver_listen(void) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 ||
	    listen(listener, NULLSERVER_BACKLOG) != 0 || getsockname(listener, (struct sockaddr *)&at, &len) != 0)
		bench_die("cannot listen on 127.0.0.1");
	printf("%u\n", (unsigned)ntohs(at.sin_port));
	fflush(stdout);
	return listener;
}

static inline void nullserver_accept(const struct nullserver *server, int epoll, int listener) {
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		bench_die("accept");
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		bench_die("TCP_NODELAY");
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = server->open(fd)};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		bench_die("epoll_ctl");
}

/* Serves until the process is killed. */
static inline _Noreturn void nullserver_run(const struct nullserver *server) {
	struct epoll_event events[NULLSERVER_EVENTS_MAX], listening = {.events = EPOLLIN, .data.ptr = NULL};
	int listener = nullserver_listen(), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &listening) != 0)
		bench_die("epoll");
	for (;;) {
		int n = epoll_wait(epoll, events, NULLSERVER_EVENTS_MAX, -1);
		if (n < 0 && errno != EINTR)
			bench_die("epoll_wait");
		for (int i = 0; i < n; i++) {
			void *opened = events[i].data.ptr;
			if (opened == NULL)
				nullserver_accept(server, epoll, listener);
			else if (!server->serve(opened))
				server->close(opened);
		}
	}
}

#endif
