/* One request: the memory that it takes, and how it is answered.
 *
 *   answered    HEADERS :status 200, content-type      DATA prefix, message      HEADERS grpc-status: 0, END_STREAM
 *   refused     HEADERS :status, content-type, grpc-status, grpc-message, END_STREAM
 *
 * Either is followed by RST_STREAM if the peer has more to send: nobody will read it (frames.c).
 *
 * The body is copied as it comes, in as much memory as has come: what its prefix announces is nobody's claim on memory.
 * A stream that the peer gives up while its decision is under way stays until that is there, for it can't be taken
 * back; one that it gives up before its turn has come stays until then, and is not decided. */
#include "hosts/server/grpc/session.h"

#include "base/assert.h"

#include <stdlib.h>

enum { ROOM_MIN = 256, ROOM_MAX = SL_GRPC_MESSAGE_MAX + SL_GRPC_PREFIX_BYTES };

#define NV(name, value, len) \
	{ (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, len, NGHTTP2_NV_FLAG_NONE }
#define NV_FIXED(name, value)                                                                             \
	{                                                                                                     \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                  \
	}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_session *session, int32_t id) {
	struct sl_grpc_stream *stream = sl_grpc_take_zeroed(session->memory, 1, sizeof *stream);
	if (stream == NULL)
		return NULL;
	stream->session = session;
	stream->id = id;
	stream->unfinished = true;
	session->unfinished++;
	session->held_bytes += sizeof *stream;
	stream->next = session->streams;
	stream->link = &session->streams;
	if (stream->next != NULL)
		stream->next->link = &stream->next;
	session->streams = stream;
	return stream;
}

static void owe(struct sl_grpc_stream *stream, bool owes) {
	struct sl_grpc_session *session = stream->session;
	session->owed += (uint32_t)owes - (uint32_t)stream->owes;
	stream->owes = owes;
}

static void drop_body(struct sl_grpc_stream *stream) {
	stream->session->held_bytes -= stream->body_room;
	sl_grpc_give(stream->session->memory, stream->body);
	stream->body = NULL;
	stream->body_len = stream->body_room = 0;
}

static void drop_authorization(struct sl_grpc_stream *stream) {
	if (stream->authorization != NULL)
		explicit_bzero(stream->authorization, stream->authorization_len);
	free(stream->authorization);
	stream->authorization = NULL;
}

void sl_grpc_stream_free(struct sl_grpc_stream *stream) {
	sl_grpc_stream_finished(stream);
	owe(stream, false);
	drop_body(stream);
	drop_authorization(stream);
	stream->session->held_bytes -= sizeof *stream + stream->answer_room;
	if (stream->session->head == stream)
		stream->session->head = NULL;
	*stream->link = stream->next;
	if (stream->next != NULL)
		stream->next->link = stream->link;
	sl_grpc_give(stream->session->memory, stream->answer);
	sl_grpc_give(stream->session->memory, stream);
}

void sl_grpc_stream_end(struct sl_grpc_stream *stream) {
	if (!stream->waits && !stream->whole) {
		sl_grpc_stream_free(stream);
		return;
	}
	sl_grpc_stream_finished(stream);
	owe(stream, false);
	stream->gone = stream->answered = true;
}

void sl_grpc_stream_finished(struct sl_grpc_stream *stream) {
	stream->session->unfinished -= stream->unfinished;
	stream->unfinished = false;
}

/* Makes room for `need` bytes in memory of *room, at least doubling it. */
static bool make_room(struct sl_grpc_session *session, uint8_t **memory, size_t *room, size_t need) {
	size_t more = *room == 0 ? ROOM_MIN : *room;
	while (more < need)
		more *= 2;
	if (more > ROOM_MAX)
		more = need > ROOM_MAX ? need : ROOM_MAX;
	if (need <= *room)
		return true;
	if (session->held_bytes + (more - *room) > SL_GRPC_HELD_MAX)
		return false;
	uint8_t *larger = sl_grpc_resize(session->memory, *memory, more);
	if (larger == NULL)
		return false;
	session->held_bytes += more - *room;
	*memory = larger;
	*room = more;
	return true;
}

bool sl_grpc_stream_take(struct sl_grpc_stream *stream, const uint8_t *data, size_t len) {
	if (!make_room(stream->session, &stream->body, &stream->body_room, stream->body_len + len))
		return false;
	memcpy(stream->body + stream->body_len, data, len);
	stream->body_len += len;
	return true;
}

void sl_grpc_stream_show(struct sl_grpc_stream *stream, struct sluice_bytes text) {
	struct sl_out out = sl_out_to(stream->shown.text, sizeof stream->shown.text);
	const unsigned char *p = text.data;
	for (size_t i = 0; i < text.len && out.end - out.at >= 4; i++)
		if (p[i] >= ' ' && p[i] <= '~')
			sl_out_char(&out, (char)p[i]);
		else
			sl_out_escaped(&out, p[i]);
	stream->shown.len = (uint8_t)sl_out_len(&out);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* The trailers of an answer that has messages. */
static int end_answer(struct sl_grpc_stream *stream, nghttp2_session *http2) {
	static const nghttp2_nv good[] = {NV_FIXED("grpc-status", "0")};
	char digits[4];
	owe(stream, false);
	if (stream->code == SL_GRPC_OK) /* as nearly all are */
		return nghttp2_submit_trailer(http2, stream->id, good, 1);
	struct sl_out out = sl_out_to(digits, sizeof digits);
	sl_out_u64(&out, stream->code);
	const nghttp2_nv trailers[] = {NV("grpc-status", digits, sl_out_len(&out))};
	return nghttp2_submit_trailer(http2, stream->id, trailers, 1);
}

static ssize_t on_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *data) {
	struct sl_grpc_stream *stream = source->ptr;
	size_t left = stream->answer_len - stream->answer_at, len = left < room ? left : room;
	(void)id;
	(void)data;
	if (len != 0)
		memcpy(to, stream->answer + stream->answer_at, len);
	stream->answer_at += len;
	if (len < left)
		return (ssize_t)len;
	if (!stream->watches || stream->ends) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		return end_answer(stream, http2) == 0 ? (ssize_t)len : NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	owe(stream, false);
	stream->answer_at = stream->answer_len = 0;
	return len != 0 ? (ssize_t)len : NGHTTP2_ERR_DEFERRED;
}

/* Counts what was answered; nothing of the request is needed any more. */
static void settle(struct sl_grpc_stream *stream) {
	if (!stream->answered && !stream->started)
		stream->session->context->commands++;
	drop_authorization(stream);
	if (!stream->waits)
		drop_body(stream);
}

/* Says that the stream's answer has begun: its head, and where to read it. */
static int begin_answer(struct sl_grpc_stream *stream) {
	static const nghttp2_nv head[] = {NV_FIXED(":status", "200"), NV_FIXED("content-type", "application/grpc")};
	const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_read};
	return nghttp2_submit_response(stream->session->http2, stream->id, head, 2, &provider);
}

void sl_grpc_answer(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	struct sl_grpc_session *session = stream->session;
	size_t len = SL_GRPC_PREFIX_BYTES + message.len;
	bool begun = stream->started;
	SL_ASSERT(!stream->answered && message.len <= UINT32_MAX);
	if (!make_room(session, &stream->answer, &stream->answer_room, stream->answer_len + len)) {
		session->ended = true; /* its answers are not taken, or there is no memory */
		return;
	}
	sl_grpc_prefix(stream->answer + stream->answer_len, (uint32_t)message.len);
	if (message.len != 0)
		memcpy(stream->answer + stream->answer_len + SL_GRPC_PREFIX_BYTES, message.data, message.len);
	stream->answer_len += len;
	settle(stream);
	stream->answered = !stream->watches;
	stream->started = true;
	owe(stream, true);
	int went = begun ? nghttp2_session_resume_data(session->http2, stream->id) : begin_answer(stream);
	if (went != 0 && went != NGHTTP2_ERR_INVALID_ARGUMENT) /* the stream is there, but its data wait for nothing */
		session->ended = true;
}

void sl_grpc_watch_end(struct sl_grpc_stream *stream, enum sl_grpc_code code) {
	SL_ASSERT(stream->watches);
	stream->code = code;
	stream->ends = stream->answered = true;
	owe(stream, true);
	(void)nghttp2_session_resume_data(stream->session->http2, stream->id);
}

static void count_error(const struct sl_grpc_session *session, enum sl_grpc_code code) {
	struct sl_worker_stats *stats = session->context->stats;
	if (stats != NULL && code != SL_GRPC_UNAVAILABLE)
		sl_count(&stats->errors[SL_TRANSPORT_GRPC], 1);
}

void sl_grpc_refuse(struct sl_grpc_stream *stream, unsigned status, enum sl_grpc_code code, struct sluice_bytes text) {
	struct sl_grpc_session *session = stream->session;
	char memory[8 + 4 + 3 * SL_GRPC_TEXT_MAX];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	SL_ASSERT(!stream->answered && !stream->started && code != SL_GRPC_OK);
	sl_out_u64(&out, status);
	size_t status_len = sl_out_len(&out);
	sl_out_u64(&out, code);
	size_t code_len = sl_out_len(&out) - status_len;
	sl_grpc_encode(&out, sl_slice(text.data, text.len < SL_GRPC_TEXT_MAX ? text.len : SL_GRPC_TEXT_MAX));
	size_t text_len = sl_out_len(&out) - status_len - code_len;
	const nghttp2_nv head[] = {
		NV(":status", memory, status_len),
		NV_FIXED("content-type", "application/grpc"),
		NV("grpc-status", memory + status_len, code_len),
		NV("grpc-message", memory + status_len + code_len, text_len),
		NV_FIXED("grpc-accept-encoding", "identity"),
	};
	settle(stream);
	count_error(session, code);
	stream->answered = true;
	owe(stream, true);
	size_t count = code == SL_GRPC_UNIMPLEMENTED ? 5 : 4;
	if (nghttp2_submit_response(session->http2, stream->id, head, count, NULL) != 0)
		session->ended = true;
}
