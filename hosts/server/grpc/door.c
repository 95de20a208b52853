/* The gRPC door: one connection of HTTP/2, by prior knowledge or by ALPN.
 *
 *   feed: what a request waited for -> what the server has to tell -> bytes to nghttp2 (frames.c)
 *         -> requests that are whole, decided -> bytes out
 *
 * So each of the three has the processor's cache of instructions to itself: a request took 62 misses of it where
 * nghttp2's code and ours took turns, and takes a few.
 *
 * All bytes are taken as they come. Requests are answered in the order in which they are decided, and their answers go
 * as far as the peer's windows let them.
 *
 * When the connection has to leave (drain, upgrade, idle), the peer is told by GOAWAY in two steps, as grpc-go does:
 * one that announces it and a PING; and when that is answered, one with the last stream that is served. Between the two
 * the peer may still open streams, which are answered; after the second it knows which it has to send elsewhere. So
 * nothing is lost. */
#include "hosts/server/grpc/session.h"

#include "base/assert.h"

#include <stdlib.h>

enum {
	RESETS_AT_ONCE =
		10000, /* streams that a peer may reset: whose time-out is short resets many where a store is slow */
	RESETS_PER_S = 1000,
	WINDOW_BYTES = 1024 * 1024, /* of a connection: what all its streams may send before we take it */
};

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static bool start_http2(struct sl_grpc_session *session) {
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, SL_GRPC_STREAMS_MAX},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, SL_GRPC_HEADERS_MAX},
	};
	nghttp2_mem memory = sl_grpc_http2_memory(session->memory);
	nghttp2_session_callbacks *callbacks = sl_grpc_callbacks();
	nghttp2_option *option = NULL;
	bool good = callbacks != NULL && nghttp2_option_new(&option) == 0;
	if (good) {
		nghttp2_option_set_stream_reset_rate_limit(option, RESETS_AT_ONCE, RESETS_PER_S);
		nghttp2_option_set_no_http_messaging(option, 1); /* head.c does that */
		good = nghttp2_session_server_new3(&session->http2, callbacks, session, option, &memory) == 0;
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return good &&
	       nghttp2_submit_settings(session->http2, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof settings[0]) ==
	           0 &&
	       nghttp2_session_set_local_window_size(session->http2, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) == 0;
}

static void grpc_close(void *state) {
	struct sl_grpc_session *session = state;
	sl_grpc_heads_forget(session);
	nghttp2_session_del(session->http2); /* calls nothing back */
	while (session->streams != NULL)
		sl_grpc_stream_free(session->streams);
	SL_ASSERT(session->held_bytes == 0 && session->unfinished == 0 && session->owed == 0);
	free(session);
}

static void *grpc_open(struct sl_door_context *context) {
	struct sl_grpc_session *session = calloc(1, sizeof *session);
	if (session == NULL)
		return NULL;
	session->memory = sl_grpc_memory_of(context);
	session->whole_end = &session->whole;
	session->aside = SL_GRPC_ASIDE_MAX;
	session->aside_at = context->now;
	session->ready = sl_door_unready(context) == NULL;
	if (session->memory != NULL && start_http2(session))
		return session;
	grpc_close(session);
	return NULL;
}

/* ---- feeding ----------------------------------------------------------------------------------------------------- */

/* What a request asked for is there. */
static void resume(struct sl_grpc_session *session, struct sl_grpc_stream *stream) {
	SL_ASSERT(stream->waits && stream->session == session);
	stream->waits = false;
	session->waiting--;
	if (stream->gone)
		sl_grpc_stream_free(stream);
	else
		sl_grpc_run(stream);
}

/* What has changed with the server. */
static void look_around(struct sl_grpc_session *session) {
	const struct sl_door_context *context = session->context;
	if (session->ready != (sl_door_unready(context) == NULL)) {
		session->ready = !session->ready;
		sl_grpc_health_changed(session);
	}
	if (!context->leaving || session->noticed)
		return;
	session->noticed = true;
	if (!session->greeted || nghttp2_submit_shutdown_notice(session->http2) != 0 ||
	    nghttp2_submit_ping(session->http2, NGHTTP2_FLAG_NONE, (const uint8_t *)"leaving.") != 0)
		session->ended = true;
}

/* Takes bytes. False where the connection is none of HTTP/2, or has no memory. */
static bool take(struct sl_grpc_session *session, const char *data, size_t len) {
	ssize_t taken = len == 0 ? 0 : nghttp2_session_mem_recv(session->http2, (const uint8_t *)data, len);
	if (taken >= 0)
		return true;
	if (session->context->stats != NULL)
		sl_count(&session->context->stats->errors[SL_TRANSPORT_GRPC], 1);
	return false;
}

/* Appends what is to be sent. */
static enum sl_door_verdict say(struct sl_grpc_session *session, struct sl_buffer *out) {
	size_t before = out->len;
	for (;;) {
		const uint8_t *data;
		ssize_t len = nghttp2_session_mem_send(session->http2, &data);
		if (len < 0 || (len > 0 && !sl_buffer_append(out, data, (size_t)len)))
			return SL_DOOR_CLOSE;
		if (len == 0)
			break;
		if (out->len - before >= SL_DOOR_OUTPUT_TURN)
			return SL_DOOR_MORE;
	}
	bool over = !nghttp2_session_want_read(session->http2) && !nghttp2_session_want_write(session->http2);
	return over || session->ended ? SL_DOOR_CLOSE : SL_DOOR_OPEN;
}

static enum sl_door_verdict grpc_feed(void *state, struct sl_door_context *context, const char *data, size_t len,
                                      size_t *consumed, struct sl_buffer *out) {
	struct sl_grpc_session *session = state;
	session->context = context;
	*consumed = len;
	if (context->asker != NULL)
		resume(session, context->asker);
	look_around(session);
	bool good = take(session, data, len);
	if (good)
		sl_grpc_run_whole(session);
	if (session->heard && !session->parted)
		sl_grpc_part(session);
	enum sl_door_verdict verdict = say(session, out);
	session->context = NULL;
	return good ? verdict : SL_DOOR_CLOSE;
}

static struct sl_door_standing grpc_standing(const void *state) {
	const struct sl_grpc_session *session = state;
	return (struct sl_door_standing){.unfinished = !session->greeted || session->heading || session->unfinished != 0,
	                                 .unread = session->owed != 0,
	                                 .held_bytes = session->held_bytes};
}

const struct sl_door sl_door_grpc = {.name = "grpc",
                                     .transport = SL_TRANSPORT_GRPC,
                                     .alpn = "\x02h2",
                                     .open = grpc_open,
                                     .close = grpc_close,
                                     .feed = grpc_feed,
                                     .standing = grpc_standing};
