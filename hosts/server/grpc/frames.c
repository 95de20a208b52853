/* What nghttp2 tells of a connection: requests begin, their headers and bodies come, they end.
 *
 * nghttp2 holds HTTP/2's own rules: states and windows of streams, HPACK, what a header may be, CONTINUATION frames (8
 * a list), SETTINGS (32 a frame), answers to PING and SETTINGS (1,000 unsent), streams that are reset (a rate). Here
 * are those that it leaves to us: what a head may be (head.c) and how long, how long a message, and how many frames may
 * come that bring no request on. */
#include "hosts/server/grpc/session.h"

#include "base/assert.h"
#include "base/math.h"


/* ---- heads ------------------------------------------------------------------------------------------------------- */

static int on_begin_headers(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	struct sl_grpc_session *session = data;
	session->heading = true;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
		session->head = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
		return 0;
	}
	session->head = sl_grpc_stream_new(session, frame->hd.stream_id);
	if (session->head == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return nghttp2_session_set_stream_user_data(http2, frame->hd.stream_id, session->head);
}

static void count_error(const struct sl_grpc_session *session) {
	if (session->context->stats != NULL)
		sl_count(&session->context->stats->errors[SL_TRANSPORT_GRPC], 1);
}

/* Ends a stream whose request is none of HTTP's; an answer that has not gone yet goes no more. */
static int refuse_malformed(struct sl_grpc_stream *stream) {
	stream->answered = stream->refused = true;
	count_error(stream->session);
	return nghttp2_submit_rst_stream(stream->session->http2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_PROTOCOL_ERROR);
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, nghttp2_rcbuf *name, nghttp2_rcbuf *value,
                     uint8_t flags, void *data) {
	const struct sl_grpc_session *session = data;
	struct sl_grpc_stream *stream = session->head;
	(void)flags;
	if (stream == NULL || stream->id != frame->hd.stream_id || stream->refused)
		return 0;
	bool good = sl_grpc_head_add(stream, name, value, frame->headers.cat != NGHTTP2_HCAT_REQUEST);
	stream->refused = !good || stream->header_bytes > SL_GRPC_HEADERS_MAX;
	if (stream->header_bytes > SL_GRPC_HEADERS_MAX) {
		stream->answered = true;
		return nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	return good ? 0 : refuse_malformed(stream);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void refuse_too_long(struct sl_grpc_stream *stream, uint32_t len) {
	char memory[SL_GRPC_TEXT_MAX];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_str(&out, "grpc: received message larger than max (");
	sl_out_u64(&out, len);
	sl_out_str(&out, " vs. ");
	sl_out_u64(&out, SL_GRPC_MESSAGE_MAX);
	sl_out_char(&out, ')');
	sl_grpc_refuse(stream, 200, SL_GRPC_RESOURCE_EXHAUSTED, sl_slice(memory, sl_out_len(&out)));
}

/* A bound of the connection keeps the body out: other streams of it hold as much as it may. */
static void deny_unread(struct sl_grpc_stream *stream) {
	if (stream->method->deny != NULL)
		stream->method->deny(stream);
	else
		sl_grpc_fail(stream, SL_GRPC_RESOURCE_EXHAUSTED, "too many unfinished messages on this connection");
}

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len, void *data) {
	struct sl_grpc_stream *stream = nghttp2_session_get_stream_user_data(http2, id);
	(void)flags;
	(void)data;
	if (stream == NULL || stream->refused)
		return 0;
	stream->received += len;
	if ((stream->head & SL_GRPC_HAS_LENGTH) != 0 && stream->received > stream->content_length)
		return refuse_malformed(stream);
	if (stream->answered || stream->waits || stream->started)
		return 0;
	if (!sl_grpc_stream_take(stream, bytes, len)) {
		deny_unread(stream);
		return 0;
	}
	uint32_t announced = sl_grpc_announced(sl_slice(stream->body, stream->body_len));
	if (announced > SL_GRPC_MESSAGE_MAX || stream->body_len > SL_GRPC_MESSAGE_MAX + SL_GRPC_PREFIX_BYTES)
		refuse_too_long(stream, announced);
	return 0;
}

/* ---- frames that bring no request on ----------------------------------------------------------------------------- */

static bool is_aside(const nghttp2_frame *frame) {
	switch (frame->hd.type) {
	case NGHTTP2_PING:
	case NGHTTP2_SETTINGS:
		return (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
	case NGHTTP2_DATA:
		return frame->hd.length == 0 && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0;
	default:
		return frame->hd.type != NGHTTP2_HEADERS;
	}
}

/* A bucket: filled by time and by requests, emptied by such frames. */
static void count_aside(struct sl_grpc_session *session) {
	sluice_ns now = session->context->now;
	if (now > session->aside_at + 1000000000) {
		uint64_t seconds = (now - session->aside_at) / 1000000000;
		session->aside += (int64_t)sl_min(seconds, SL_GRPC_ASIDE_MAX) * SL_GRPC_ASIDE_PER_S;
		session->aside_at = now;
	}
	session->aside = session->aside < SL_GRPC_ASIDE_MAX ? session->aside : SL_GRPC_ASIDE_MAX;
	if (--session->aside < 0) {
		count_error(session);
		(void)nghttp2_session_terminate_session(session->http2, NGHTTP2_ENHANCE_YOUR_CALM);
	}
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

void sl_grpc_part(struct sl_grpc_session *session) {
	SL_ASSERT(session->noticed && !session->parted);
	session->parted = true;
	(void)nghttp2_submit_goaway(session->http2, NGHTTP2_FLAG_NONE,
	                            nghttp2_session_get_last_proc_stream_id(session->http2), NGHTTP2_NO_ERROR, NULL, 0);
	for (struct sl_grpc_stream *stream = session->streams; stream != NULL; stream = stream->next)
		if (stream->watches && !stream->ends)
			sl_grpc_watch_end(stream, SL_GRPC_UNAVAILABLE);
}

/* Is what has come of a request as HTTP has it? Trailers are the last of it, and its body is as long as it said. */
static bool is_well_formed(const struct sl_grpc_stream *stream, const nghttp2_frame *frame, bool head, bool last) {
	if (head && !sl_grpc_head_is_whole(stream))
		return false;
	if (frame->hd.type == NGHTTP2_HEADERS && !head && !last)
		return false;
	return !last || (stream->head & SL_GRPC_HAS_LENGTH) == 0 || stream->received == stream->content_length;
}

static void on_request_frame(struct sl_grpc_session *session, struct sl_grpc_stream *stream,
                             const nghttp2_frame *frame) {
	bool head = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
	bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (!stream->refused && !is_well_formed(stream, frame, head, last)) {
		(void)refuse_malformed(stream);
		return;
	}
	if (last) {
		sl_grpc_stream_finished(stream);
		session->aside += SL_GRPC_ASIDE_PER_REQUEST;
	}
	if (stream->answered || (head && !sl_grpc_admit_head(stream)))
		return;
	if (!last)
		return;
	stream->whole = true;
	*session->whole_end = stream;
	session->whole_end = &stream->next_whole;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	struct sl_grpc_session *session = data;
	struct sl_grpc_stream *stream;
	if (is_aside(frame))
		count_aside(session);
	if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
		session->greeted = true;
	if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
		session->heard = session->noticed;
	if (frame->hd.type == NGHTTP2_HEADERS)
		session->heading = false;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
	if (stream != NULL)
		on_request_frame(session, stream, frame);
	return 0;
}

/* The last of an answer has gone. A peer that goes on with its request is told that nobody reads it; before, that would
 * have taken the answer back. */
static int on_frame_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	struct sl_grpc_stream *stream;
	(void)data;
	if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	stream = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
	if (stream == NULL || !stream->unfinished)
		return 0;
	return nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
}

static int on_invalid_frame(nghttp2_session *http2, const nghttp2_frame *frame, int error, void *data) {
	struct sl_grpc_session *session = data;
	(void)http2;
	(void)frame;
	(void)error;
	session->heading = false;
	count_error(session);
	return 0;
}

static int on_stream_close(nghttp2_session *http2, int32_t id, uint32_t error, void *data) {
	struct sl_grpc_stream *stream = nghttp2_session_get_stream_user_data(http2, id);
	(void)error;
	(void)data;
	if (stream != NULL)
		sl_grpc_stream_end(stream);
	return 0;
}

nghttp2_session_callbacks *sl_grpc_callbacks(void) {
	nghttp2_session_callbacks *callbacks;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	return callbacks;
}
