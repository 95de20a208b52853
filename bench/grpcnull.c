/* grpcnull: a server of the floor of gRPC (grpcnull.h).
 *
 * One thread, epoll, one read and one write for each readable connection. It prints its port on standard output and
 * serves until it is killed.
 */
#include "bench/grpcnull.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READ_BYTES = 64 * 1024, WRITE_BYTES = 1024 * 1024, EVENTS_MAX = 256 };

struct connection {
	int fd;
	nghttp2_session *http2;
};

/* Answers what has come. False when the connection is to be closed. */
static bool serve(struct connection *c) {
	static uint8_t in[READ_BYTES], out[WRITE_BYTES];
	const uint8_t *data;
	size_t len = 0;
	ssize_t got = read(c->fd, in, sizeof in), more;
	if (got <= 0 || nghttp2_session_mem_recv(c->http2, in, (size_t)got) < 0)
		return false;
	while ((more = nghttp2_session_mem_send(c->http2, &data)) > 0) {
		if (len + (size_t)more > sizeof out)
			bench_die("more answers than there is room for");
		memcpy(out + len, data, (size_t)more);
		len += (size_t)more;
	}
	for (size_t sent = 0; sent < len; sent += (size_t)more)
		if ((more = send(c->fd, out + sent, len - sent, MSG_NOSIGNAL)) <= 0)
			return false;
	return true;
}

static void accept_one(int poll, int listener) {
	struct connection *c = calloc(1, sizeof *c);
	int one = 1;
	if (c == NULL || (c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		bench_die("accept");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	c->http2 = grpcnull_session();
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	if (epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event) != 0)
		bench_die("epoll_ctl");
}

int main(void) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), poll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[EVENTS_MAX], event = {.events = EPOLLIN, .data.ptr = NULL};
	if (listener < 0 || poll < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(listener, 1024) != 0 || getsockname(listener, (struct sockaddr *)&address, &len) != 0 ||
	    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) != 0)
		bench_die("can't listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (;;) {
		int count = epoll_wait(poll, events, EVENTS_MAX, -1);
		for (int i = 0; i < count; i++) {
			struct connection *c = events[i].data.ptr;
			if (c == NULL) {
				accept_one(poll, listener);
			} else if (!serve(c)) {
				close(c->fd);
				nghttp2_session_del(c->http2);
				free(c);
			}
		}
	}
}
