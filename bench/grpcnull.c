/* grpcnull: the floor of gRPC. A server over nghttp2 that answers every request with the same message, reading nothing
 * of it: what HTTP/2 costs, with headers, a message and trailers, whatever is decided.
 *
 * One thread, epoll, one read and one write for each readable connection. It prints its port on standard output and
 * serves until it is killed.
 */
#include "bench/bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READ_BYTES = 64 * 1024, WRITE_BYTES = 1024 * 1024, EVENTS_MAX = 256, STREAMS_MAX = 128 };

/* a status with its limit, and nothing else: OK | OK 600/MINUTE "per-client" 599 left, 60 s */
static const uint8_t answer[] = "\0\0\0\0\x20\x08\x01\x12\x1c\x08\x01\x12\x11\x08\xd8\x04\x10\x02\x1a\x0aper-client"
								"\x18\xd7\x04\x22\x02\x08\x3c";

#define NV(name, value)                                                                                   \
	{                                                                                                     \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                  \
	}

static ssize_t on_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *data) {
	static const nghttp2_nv trailers[] = {NV("grpc-status", "0")};
	(void)source;
	(void)data;
	if (room < sizeof answer - 1)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	memcpy(to, answer, sizeof answer - 1);
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return nghttp2_submit_trailer(http2, id, trailers, 1) == 0 ? (ssize_t)sizeof answer - 1
	                                                           : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	static const nghttp2_nv head[] = {NV(":status", "200"), NV("content-type", "application/grpc")};
	const nghttp2_data_provider provider = {.read_callback = on_read};
	(void)data;
	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	return nghttp2_submit_response(http2, frame->hd.stream_id, head, 2, &provider);
}

struct connection {
	int fd;
	nghttp2_session *http2;
};

static nghttp2_session *new_session(void) {
	static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX}};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *http2;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	if (nghttp2_session_server_new(&http2, callbacks, NULL) != 0 ||
	    nghttp2_submit_settings(http2, NGHTTP2_FLAG_NONE, settings, 1) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_del(callbacks);
	return http2;
}

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
	c->http2 = new_session();
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
