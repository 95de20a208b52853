/* respnull: the floor. A server that reads RESP commands and answers each with the same bytes, deciding nothing.
 *
 * Whatever it costs is loopback TCP, epoll and the stepping over commands; no limiter can be cheaper on a machine, so
 * it stands in the table as what the hardware allows. It also finds the load generator's own ceiling.
 *
 * One thread, epoll, one read and one write for each readable connection. It prints its port on standard output and
 * serves until it is killed. A command that it cannot step over (not an array of bulk strings) closes the connection.
 */
#include "bench/bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { BUFFER_BYTES = 256 * 1024, CONNECTIONS_MAX = 1024, EVENTS_MAX = 256 };

/* seven integers, as SLUICE.CHECK answers */
static const char answer[] = "*7\r\n:1\r\n:100\r\n:99\r\n:0\r\n:60000\r\n:0\r\n:0\r\n";

struct connection {
	int fd;
	size_t in_len;
	char in[BUFFER_BYTES];
};

/* Reads "Xnnn\r\n" at *at; -1 when it is not all there, -2 when it is something else. */
static long header(const char **at, const char *end, char type) {
	const char *p = *at;
	long n = 0;
	if (p < end && *p != type)
		return -2;
	for (p += p < end; p < end && *p >= '0' && *p <= '9' && n < 1 << 20; p++)
		n = n * 10 + (*p - '0');
	if (end - p < 2)
		return -1;
	if (p[0] != '\r' || p[1] != '\n')
		return -2;
	*at = p + 2;
	return n;
}

/* Steps over the command at *at: 1 done, 0 more to come, -1 bad. */
static int step_over(const char **at, const char *end) {
	const char *p = *at;
	long count = header(&p, end, '*');
	for (long i = 0; i < count; i++) {
		long len = header(&p, end, '$');
		if (len < 0)
			return len == -1 ? 0 : -1;
		if (end - p < len + 2)
			return 0;
		p += len + 2;
	}
	if (count < 0)
		return count == -1 ? 0 : -1;
	*at = p;
	return 1;
}

/* Answers what has arrived; false closes the connection. */
static bool serve(struct connection *connection) {
	static char out[BUFFER_BYTES * 4];
	size_t out_len = 0;
	ssize_t n = recv(connection->fd, connection->in + connection->in_len, BUFFER_BYTES - connection->in_len, 0);
	if (n <= 0)
		return false;
	const char *at = connection->in, *end = connection->in + connection->in_len + n;
	int done = 0;
	while (out_len + sizeof answer < sizeof out && (done = step_over(&at, end)) == 1) {
		memcpy(out + out_len, answer, sizeof answer - 1);
		out_len += sizeof answer - 1;
	}
	connection->in_len = (size_t)(end - at);
	memmove(connection->in, at, connection->in_len);
	/* blocking, so that it is one call: the client always reads what it asked for */
	return done >= 0 && (out_len == 0 || send(connection->fd, out, out_len, MSG_NOSIGNAL) == (ssize_t)out_len);
}

static void accept_one(int epoll, int listener) {
	int one = 1;
	struct connection *connection = malloc(sizeof *connection);
	if (connection == NULL)
		bench_die("malloc");
	connection->in_len = 0;
	connection->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (connection->fd < 0)
		bench_die("accept");
	if (setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		bench_die("TCP_NODELAY");
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
		bench_die("epoll_ctl");
}

static int listen_somewhere(void) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 ||
	    listen(listener, CONNECTIONS_MAX) != 0 || getsockname(listener, (struct sockaddr *)&at, &len) != 0)
		bench_die("cannot listen on 127.0.0.1");
	printf("%u\n", (unsigned)ntohs(at.sin_port));
	fflush(stdout);
	return listener;
}

int main(void) {
	struct epoll_event events[EVENTS_MAX], listening = {.events = EPOLLIN, .data.ptr = NULL};
	int listener = listen_somewhere(), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &listening) != 0)
		bench_die("epoll");
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
		if (n < 0 && errno != EINTR)
			bench_die("epoll_wait");
		for (int i = 0; i < n; i++) {
			struct connection *connection = events[i].data.ptr;
			if (connection == NULL) {
				accept_one(epoll, listener);
			} else if (!serve(connection)) {
				close(connection->fd);
				free(connection);
			}
		}
	}
}
