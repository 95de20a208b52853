/* The floor of gRPC: a session of nghttp2 that answers every request with the same message, reading nothing of it. What
 * HTTP/2 costs, with headers, a message and trailers, whatever is decided. Served by grpcnull, counted by grpcdoor. */
#ifndef SL_BENCH_GRPCNULL_H
#define SL_BENCH_GRPCNULL_H

#include "bench/bench.h"

#include <nghttp2/nghttp2.h>

enum { GRPCNULL_STREAMS_MAX = 128 };

/* a status with its limit, and nothing else: OK | OK 600/MINUTE "per-client" 599 left, 60 s */
static const uint8_t grpcnull_answer[] = "\0\0\0\0\x20\x08\x01\x12\x1c\x08\x01\x12\x11\x08\xd8\x04\x10\x02\x1a\x0a"
										 "per-client\x18\xd7\x04\x22\x02\x08\x3c";

#define GRPCNULL_NV(name, value)                                                                          \
	{                                                                                                     \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                  \
	}

static ssize_t grpcnull_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                             nghttp2_data_source *source, void *data) {
	static const nghttp2_nv trailers[] = {GRPCNULL_NV("grpc-status", "0")};
	(void)source;
	(void)data;
	if (room < sizeof grpcnull_answer - 1)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	memcpy(to, grpcnull_answer, sizeof grpcnull_answer - 1);
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return nghttp2_submit_trailer(http2, id, trailers, 1) == 0 ? (ssize_t)sizeof grpcnull_answer - 1
	                                                           : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int grpcnull_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	static const nghttp2_nv head[] = {GRPCNULL_NV(":status", "200"), GRPCNULL_NV("content-type", "application/grpc")};
	const nghttp2_data_provider provider = {.read_callback = grpcnull_read};
	(void)data;
	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	return nghttp2_submit_response(http2, frame->hd.stream_id, head, 2, &provider);
}

static nghttp2_session *grpcnull_session(void) {
	static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPCNULL_STREAMS_MAX}};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *http2;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, grpcnull_frame);
	if (nghttp2_session_server_new(&http2, callbacks, NULL) != 0 ||
	    nghttp2_submit_settings(http2, NGHTTP2_FLAG_NONE, settings, 1) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_del(callbacks);
	return http2;
}

#endif
