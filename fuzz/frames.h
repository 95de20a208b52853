/* HTTP/2 as a client of the gRPC door writes it, for the fuzzers. */
#ifndef SL_FUZZ_FRAMES_H
#define SL_FUZZ_FRAMES_H

#include "base/assert.h"
#include "proto/grpc.h"

#include <stdint.h>
#include <string.h>

enum { FRAME_BYTES_MAX = 16384 };

/* Where frames are written. */
struct frames {
	uint8_t *bytes;
	size_t len, room;
};

static inline void frames_add(struct frames *to, const void *bytes, size_t len) {
	SL_ASSERT(to->len + len <= to->room);
	if (len != 0)
		memcpy(to->bytes + to->len, bytes, len);
	to->len += len;
}

static inline void frames_add_frame(struct frames *to, uint8_t type, uint8_t flags, uint32_t stream, const void *data,
                                    size_t len) {
	const uint8_t head[9] = {(uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,          type, flags,
	                         (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
	frames_add(to, head, sizeof head);
	frames_add(to, data, len);
}

/* A header that is not indexed, by RFC 7541: its name and value as they are. */
static inline size_t frames_header(uint8_t *to, const char *name, const char *value) {
	size_t name_len = strlen(name), value_len = strlen(value);
	SL_ASSERT(name_len < 127 && value_len < 127);
	to[0] = 0;
	to[1] = (uint8_t)name_len;
	memcpy(to + 2, name, name_len);
	to[2 + name_len] = (uint8_t)value_len;
	memcpy(to + 3 + name_len, value, value_len);
	return 3 + name_len + value_len;
}

static inline void frames_greet(struct frames *to) {
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	frames_add(to, preface, sizeof preface - 1);
	frames_add_frame(to, 4, 0, 0, NULL, 0);
}

/* A request of a method of the door; `framed`: the body is a message, and has no prefix of its own. */
static inline void frames_request(struct frames *to, uint32_t stream, const char *path, const void *body, size_t len,
                                  bool framed) {
	uint8_t head[256], prefix[SL_GRPC_PREFIX_BYTES];
	const uint8_t *at = body;
	size_t head_len = frames_header(head, ":method", "POST");
	head_len += frames_header(head + head_len, ":scheme", "http");
	head_len += frames_header(head + head_len, ":authority", "x");
	head_len += frames_header(head + head_len, ":path", path);
	head_len += frames_header(head + head_len, "content-type", "application/grpc");
	SL_ASSERT(head_len <= sizeof head);
	frames_add_frame(to, 1, 4, stream, head, head_len);
	sl_grpc_prefix(prefix, (uint32_t)len);
	if (framed)
		frames_add_frame(to, 0, 0, stream, prefix, sizeof prefix);
	for (; len > FRAME_BYTES_MAX; at += FRAME_BYTES_MAX, len -= FRAME_BYTES_MAX)
		frames_add_frame(to, 0, 0, stream, at, FRAME_BYTES_MAX);
	frames_add_frame(to, 0, 1, stream, at, len);
}

#define FRAMES_SHOULD_RATE_LIMIT "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

#endif
