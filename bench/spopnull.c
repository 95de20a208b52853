/* spopnull: the floor of SPOP. An agent that greets HAProxy and answers each NOTIFY with the ACK that Sluice's door
 * gives an admission that is allowed, reading nothing of it but its two numbers and deciding nothing. No agent can be
 * cheaper on a machine. Served as nullserver.h says. */
#include "bench/nullserver.h"

#include "proto/spop.h"

enum { BUFFER_BYTES = 256 * 1024, FRAME_BYTES = 16380 };

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
static bool serve(void *opened) {
	struct connection *connection = opened;
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
