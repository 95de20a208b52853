/* RateLimitService.ShouldRateLimit: messages to requests, and answers to messages. What is decided, and what is told of
 * it, is envoy/rate_limit.h's. */
#include "hosts/server/grpc/session.h"

#include "base/assert.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/envoy/rate_limit.h"

#include <stdlib.h>

/* More than the most that there can be: SL_RLS_TEXT_BYTES, and 256 statuses; or 64 Ki short ones. */
enum { ANSWER_BYTES = 512 * 1024 };

/* The memory of a worker's connections, and of the answer in hand. */
struct sl_grpc_worker {
	struct sl_grpc_memory memory;
	uint8_t answer[ANSWER_BYTES];
};

struct sl_grpc_memory *sl_grpc_memory_of(struct sl_door_context *context) {
	if (context->grpc == NULL)
		context->grpc = calloc(1, sizeof *context->grpc);
	return context->grpc == NULL || sl_rls_worker_of(context) == NULL ? NULL : &context->grpc->memory;
}

static struct sl_pb_writer begin(const struct sl_grpc_stream *stream) {
	return sl_pb_write(stream->session->context->grpc->answer, ANSWER_BYTES);
}

static void send(struct sl_grpc_stream *stream, const struct sl_rls_answer *answer) {
	if (!answer->written)
		sl_rls_response_put(answer->writer, &answer->response);
	SL_ASSERT(!answer->writer->overflow);
	sl_grpc_answer(stream, sl_pb_written(answer->writer));
}

static void send_bound(struct sl_grpc_stream *stream, const char *bound, uint32_t descriptors) {
	struct sl_door_context *context = stream->session->context;
	struct sl_pb_writer writer = begin(stream);
	struct sl_rls_answer answer;
	answer.writer = &writer;
	sl_rls_answer_bound(context, context->rls, SL_TRANSPORT_GRPC, bound, descriptors, &answer);
	send(stream, &answer);
}

static void put_off(struct sl_grpc_stream *stream) {
	struct sl_door_context *context = stream->session->context;
	if (context->pending == NULL) {
		sl_grpc_fail(stream, SL_GRPC_RESOURCE_EXHAUSTED, "out of memory");
		sl_pending_settle(context);
		return;
	}
	sl_pending_put_off(context, stream);
	stream->waits = true;
	stream->session->waiting++;
}

static bool read_request(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	const struct sl_door_context *context = stream->session->context;
	enum sl_rls_read came = sl_rls_read(context, context->rls, message);
	if (came == SL_RLS_TOO_MANY)
		send_bound(stream, "descriptors", context->rls->request.descriptors_sent);
	else if (came == SL_RLS_MALFORMED)
		sl_grpc_fail(stream, SL_GRPC_INTERNAL,
		             "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	return came == SL_RLS_READ;
}

void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	struct sl_grpc_session *session = stream->session;
	struct sl_door_context *context = session->context;
	struct sl_pb_writer writer = begin(stream);
	struct sl_rls_answer answer;
	answer.writer = &writer;
	if (session->waiting >= SL_GRPC_WAITING_MAX) {
		send_bound(stream, "queue", 0);
		return;
	}
	if (!read_request(stream, message))
		return;
	switch (sl_rls_decide(context, context->rls, SL_TRANSPORT_GRPC, &answer)) {
	case SL_RLS_LATER:
		put_off(stream);
		return;
	case SL_RLS_REFUSED:
		sl_grpc_fail(stream, answer.code, answer.text);
		break;
	default:
		send(stream, &answer);
	}
	sl_pending_settle(context); /* it needs nothing more of what it had asked for */
}

void sl_grpc_deny_unread(struct sl_grpc_stream *stream) {
	send_bound(stream, "message", 0);
}
