/* respnull: the floor. A server that reads RESP commands and answers each with the same bytes, deciding nothing.
 *
 * Whatever it costs is loopback TCP, epoll and the stepping over commands; no limiter can be cheaper on a machine, so
 * it stands in the table as what the hardware allows. It also finds the load generator's own ceiling.
 *
 * Served as nullserver.h says. A command that it cannot step over (not an array of bulk strings) closes the connection.
 */
#include "bench/nullserver.h"

enum { BUFFER_BYTES = 256 * 1024 };

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
static bool serve(void *opened) {
	struct connection *connection = opened;
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

static void *open_one(int fd) {
	struct connection *connection = malloc(sizeof *connection);
	if (connection == NULL)
		bench_die("malloc");
	connection->fd = fd;
	connection->in_len = 0;
	return connection;
}

static void close_one(void *opened) {
	close(((struct connection *)opened)->fd);
	free(opened);
}

int main(void) {
	static const struct nullserver server = {open_one, serve, close_one};
	nullserver_run(&server);
}
