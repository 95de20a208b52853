/* grpcnull: a server of the floor of gRPC (grpcnull.h), served as nullserver.h says. */
#include "bench/grpcnull.h"
#include "bench/nullserver.h"

enum { READ_BYTES = 64 * 1024, WRITE_BYTES = 1024 * 1024 };

struct connection {
	int fd;
	nghttp2_session *http2;
};

/* Answers what has come. False when the connection is to be closed. */
static bool serve(void *opened) {
	const struct connection *c = opened;
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

static void *open_one(int fd) {
	struct connection *c = malloc(sizeof *c);
	if (c == NULL)
		bench_die("malloc");
	*c = (struct connection){fd, grpcnull_session()};
	return c;
}

static void close_one(void *opened) {
	struct connection *c = opened;
	close(c->fd);
	nghttp2_session_del(c->http2);
	free(c);
}

int main(void) {
	static const struct nullserver server = {open_one, serve, close_one};
	nullserver_run(&server);
}
