/* A peer on the wire that behaves as a test says; see wire_peer.h. */
#include "tests/unit/wire_peer.h"

#include "base/bytes.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_resp_request request;

static void on_gone(uv_handle_t *handle) {
	struct peer_link *link = handle->data;
	link->used = false;
	link->peer->open--;
}

static void hang_up(struct peer_link *link) {
	if (link->used && !uv_is_closing((uv_handle_t *)&link->tcp))
		uv_close((uv_handle_t *)&link->tcp, on_gone);
}

static void on_written(uv_write_t *write, int status) {
	(void)status;
	free(write);
}

static void send_bytes(struct peer_link *link, const char *bytes, size_t len) {
	struct {
		uv_write_t write;
		char bytes[];
	} *sent = malloc(sizeof *sent + len);
	assert_non_null(sent);
	memcpy(sent->bytes, bytes, len);
	const uv_buf_t buffer = uv_buf_init(sent->bytes, (unsigned)len);
	if (uv_write(&sent->write, (uv_stream_t *)&link->tcp, &buffer, 1, on_written) != 0)
		free(sent);
}

static void send_text(struct peer_link *link, const char *text) {
	if (text == NULL || uv_is_closing((uv_handle_t *)&link->tcp))
		return;
	for (size_t at = 0, len = strlen(text), step = link->peer->drip ? 1 : len; at < len; at += step)
		send_bytes(link, text + at, step);
}

static void on_check(struct peer_link *link) {
	struct wire_peer *peer = link->peer;
	peer->checks++;
	(void)snprintf(peer->last_key, sizeof peer->last_key, "%.*s", (int)request.args[1].len,
	               (const char *)request.args[1].data);
	(void)snprintf(peer->last_word, sizeof peer->last_word, "%.*s", (int)request.args[3].len,
	               (const char *)request.args[3].data);
	if (peer->resets)
		hang_up(link);
	else if (link->asking && peer->asked != NULL)
		send_text(link, peer->asked);
	else if (peer->first_count > 0 && peer->first_count-- > 0)
		send_text(link, peer->first);
	else
		send_text(link, peer->check);
	link->asking = false;
	const sluice_ns end = sl_clock_monotonic() + (sluice_ns)peer->stalls_ms * 1000000;
	while (sl_clock_monotonic() < end)
		;
}

static void on_request(struct peer_link *link) {
	struct wire_peer *peer = link->peer;
	const struct sluice_bytes name = request.args[0];
	if (sl_bytes_equal_nocase(name, "SLUICE.CHECK")) {
		on_check(link);
	} else if (sl_bytes_equal_nocase(name, "SLUICE.LEASE")) {
		send_text(link, peer->module);
	} else if (sl_bytes_equal_nocase(name, "PING")) {
		peer->pings++;
		send_text(link, peer->ping);
	} else if (sl_bytes_equal_nocase(name, "ROLE")) {
		send_text(link, peer->role);
	} else if (sl_bytes_equal_nocase(name, "CLUSTER")) {
		peer->slots_asked++;
		send_text(link, peer->slots);
	} else if (sl_bytes_equal_nocase(name, "ASKING")) {
		peer->askings++;
		link->asking = true;
		send_text(link, "+OK\r\n");
	} else {
		peer->scripts += sl_bytes_equal_nocase(name, "SCRIPT");
		send_text(link, "+OK\r\n");
	}
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct peer_link *link = handle->data;
	(void)suggested;
	*buffer = uv_buf_init(link->input + link->len, (unsigned)(sizeof link->input - link->len));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer) {
	struct peer_link *link = stream->data;
	size_t at = 0;
	(void)buffer;
	if (got < 0)
		hang_up(link);
	if (got <= 0)
		return;
	link->len += (size_t)got;
	for (ptrdiff_t taken = 1; taken > 0 && !uv_is_closing((uv_handle_t *)stream); at += (size_t)taken) {
		taken = sl_resp_parse(&request, link->input + at, link->len - at);
		assert_true(taken >= 0); /* what we send is well formed, whatever happens */
		if (taken > 0)
			on_request(link);
	}
	memmove(link->input, link->input + at, link->len - at);
	link->len -= at;
}

static void on_connect(uv_stream_t *listener, int status) {
	struct wire_peer *peer = listener->data;
	struct peer_link *link = peer->links;
	assert_int_equal(status, 0);
	while (link->used)
		link++;
	assert_true(link < peer->links + PEER_LINKS_MAX);
	*link = (struct peer_link){.peer = peer, .used = true};
	peer->open++;
	peer->connects++;
	assert_int_equal(uv_tcp_init(listener->loop, &link->tcp), 0);
	link->tcp.data = link;
	assert_int_equal(uv_accept(listener, (uv_stream_t *)&link->tcp), 0);
	assert_int_equal(uv_tcp_nodelay(&link->tcp, 1), 0);
	if (peer->refuses)
		hang_up(link);
	else if (!peer->deaf)
		assert_int_equal(uv_read_start((uv_stream_t *)&link->tcp, on_room, on_read), 0);
}

void peer_listen(struct wire_peer *peer, uv_loop_t *loop) {
	struct sockaddr_in address;
	struct sockaddr_storage bound;
	int len = sizeof bound;
	memset(peer, 0, sizeof *peer);
	peer->check = "*1\r\n:1\r\n";
	peer->ping = "+PONG\r\n";
	peer->slots = "-ERR This instance has cluster support disabled\r\n";
	peer->role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
	peer->module = "-ERR wrong number of arguments for 'sluice.lease' command\r\n";
	assert_int_equal(uv_tcp_init(loop, &peer->listener), 0);
	peer->listener.data = peer;
	assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
	assert_int_equal(uv_tcp_bind(&peer->listener, (const struct sockaddr *)&address, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&peer->listener, 64, on_connect), 0);
	assert_int_equal(uv_tcp_getsockname(&peer->listener, (struct sockaddr *)&bound, &len), 0);
	peer->port = ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port);
	(void)snprintf(peer->address, sizeof peer->address, "127.0.0.1:%u", peer->port);
}

void peer_say(struct wire_peer *peer, const char *bytes) {
	for (struct peer_link *link = peer->links; link < peer->links + PEER_LINKS_MAX; link++)
		if (link->used)
			send_text(link, bytes);
}

void peer_hang_up(struct wire_peer *peer) {
	for (struct peer_link *link = peer->links; link < peer->links + PEER_LINKS_MAX; link++)
		hang_up(link);
}

void peer_reset(struct wire_peer *peer) {
	for (struct peer_link *link = peer->links; link < peer->links + PEER_LINKS_MAX; link++)
		if (link->used && !uv_is_closing((uv_handle_t *)&link->tcp))
			assert_int_equal(uv_tcp_close_reset(&link->tcp, on_gone), 0);
}

static void on_listener_closed(uv_handle_t *handle) {
	handle->data = NULL;
}

void peer_close(struct wire_peer *peer) {
	uv_loop_t *loop = peer->listener.loop;
	peer_hang_up(peer);
	uv_close((uv_handle_t *)&peer->listener, on_listener_closed);
	while (peer->listener.data != NULL || peer->open != 0)
		uv_run(loop, UV_RUN_NOWAIT);
}
