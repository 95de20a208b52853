/* grpc.health.v1: what balancers and kubelets ask. The server says what /readyz says: that it serves, but for
 * before a node of Redis answers and while it drains; whoever asks then is served all the same. The names that are
 * known are the server's own (""), the one that envoyproxy/ratelimit has ("ratelimit"), and the service's.
 *
 *   HealthCheckRequest  1 service      HealthCheckResponse  1 status: 1 SERVING, 2 NOT_SERVING, 3 SERVICE_UNKNOWN */
#include "hosts/server/grpc/session.h"
#include "proto/rls.h"

enum { STATUS = 1, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3, MESSAGE_BYTES = 16 };

static bool is_known(struct sluice_bytes service) {
	static const char *const names[] = {"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (sl_bytes_equal(service, sl_str(names[i])))
			return true;
	return false;
}

static void answer(struct sl_grpc_stream *stream, uint8_t status) {
	uint8_t memory[MESSAGE_BYTES];
	struct sl_pb_writer writer = sl_pb_write(memory, sizeof memory);
	sl_pb_put_varint(&writer, STATUS, status);
	stream->told = status;
	sl_grpc_answer(stream, sl_pb_written(&writer));
}

static uint8_t status_of(const struct sl_grpc_session *session) {
	return session->ready ? SERVING : NOT_SERVING;
}

static bool read_service(struct sl_grpc_stream *stream, struct sluice_bytes message, bool *known) {
	struct sluice_bytes service;
	bool good = sl_health_request_read(message, &service);
	if (!good)
		sl_grpc_fail(stream, SL_GRPC_INTERNAL,
		             "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	*known = good && is_known(service);
	return good;
}

void sl_grpc_health_check(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	bool known;
	if (!read_service(stream, message, &known))
		return;
	if (known)
		answer(stream, status_of(stream->session));
	else
		sl_grpc_fail(stream, SL_GRPC_NOT_FOUND, "unknown service");
}

void sl_grpc_health_watch(struct sl_grpc_stream *stream, struct sluice_bytes message) {
	bool known;
	if (!read_service(stream, message, &known))
		return;
	stream->watches = true;
	answer(stream, known ? status_of(stream->session) : SERVICE_UNKNOWN);
	if (stream->session->parted)
		sl_grpc_watch_end(stream, SL_GRPC_UNAVAILABLE);
}

void sl_grpc_health_changed(struct sl_grpc_session *session) {
	uint8_t status = status_of(session);
	for (struct sl_grpc_stream *stream = session->streams; stream != NULL; stream = stream->next)
		if (stream->watches && !stream->ends && stream->told != SERVICE_UNKNOWN && stream->told != status)
			answer(stream, status);
}
