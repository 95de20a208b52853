/* spopnull: the floor of SPOP. An agent that greets HAProxy and answers each NOTIFY with the ACK that Sluice's door
 * gives an admission that is allowed, reading nothing of it but its two numbers and deciding nothing.
 *
 * What it costs a request is what loopback TCP and epoll cost at so many requests a read; no agent can be cheaper on a
 * machine. One thread, one read and one write for each readable connection. It prints its port on standard output and
 * serves until it is killed.
 */
#include "bench/bench.h"

#include "proto/spop.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { BUFFER_BYTES = 256 * 1024, FRAME_BYTES = 16380, EVENTS_MAX = 256 };

struct connection {
	int fd;
	size_t in_len;
	char in[BUFFER_BYTES];
};

static void greet(struct sl_out *out) {
	char *start = sl_spop_begin(out, SL_SPOP_AGENT_HELLO, 0, 0);
	sl_spop_put_pair_text(out, "version", "2.0");
	sl_spop_put_pair_u32(out, "max-frame-size", FRAME_BYTES);
	sl_spop_put_pair_text(out, "capabilities", "pipelining");
	sl_spop_end(out, start);
}

static void acknowledge(struct sl_out *out, const struct sl_spop_frame *frame) {
	char *start = sl_spop_begin(out, SL_SPOP_ACK, frame->stream, frame->frame);
	sl_spop_set_bool(out, "denied", false);
	sl_spop_set_text(out, "limit", sl_str("per-user"));
	sl_spop_set_number(out, "quota", 1000000);
	sl_spop_set_number(out, "remaining", 999999);
	sl_spop_set_number(out, "reset_after_ms", 60000);
	sl_spop_end(out, start);
}

/* Answers what has arrived; false closes the connection. */
static bool serve(struct connection *connection) {
	static char memory[BUFFER_BYTES * 2];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	struct sl_spop_frame frame;
	ptrdiff_t taken;
	size_t at = 0;
	ssize_t n = recv(connection->fd, connection->in + connection->in_len, BUFFER_BYTES - connection->in_len, 0);
	if (n <= 0)
		return false;
	connection->in_len += (size_t)n;
	while ((taken = sl_spop_frame_read(&frame, connection->in + at, connection->in_len - at, FRAME_BYTES)) > 0) {
		if (frame.type == SL_SPOP_HAPROXY_HELLO)
			greet(&out);
		else if (frame.type == SL_SPOP_NOTIFY)
			acknowledge(&out, &frame);
		else
			return false;
		at += (size_t)taken;
	}
	if (taken < 0 || out.overflow)
		return false;
	connection->in_len -= at;
	memmove(connection->in, connection->in + at, connection->in_len);
	ssize_t len = (ssize_t)sl_out_len(&out);
	return len == 0 || send(connection->fd, memory, (size_t)len, MSG_NOSIGNAL) == len;
}

static void accept_one(int poll, int listener) {
	struct connection *connection = malloc(sizeof *connection);
	int one = 1;
	if (connection == NULL || (connection->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		bench_die("accept");
	connection->in_len = 0;
	setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
	if (epoll_ctl(poll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
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
			struct connection *connection = events[i].data.ptr;
			if (connection == NULL) {
				accept_one(poll, listener);
			} else if (!serve(connection)) {
				close(connection->fd);
				free(connection);
			}
		}
	}
}
