/* gRPC over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): what is not HTTP/2's own.
 *
 *   body     = message*          message = flag(1: 0 plain, 1 compressed) length(4, big-endian) bytes
 *   trailers = grpc-status: N, grpc-message: percent-encoded text */
#ifndef SL_GRPC_H
#define SL_GRPC_H

#include "base/out.h"

/* The codes that we give. */
enum sl_grpc_code {
	SL_GRPC_OK = 0,
	SL_GRPC_UNKNOWN = 2,
	SL_GRPC_INVALID_ARGUMENT = 3,
	SL_GRPC_NOT_FOUND = 5,
	SL_GRPC_PERMISSION_DENIED = 7,
	SL_GRPC_RESOURCE_EXHAUSTED = 8,
	SL_GRPC_UNIMPLEMENTED = 12,
	SL_GRPC_INTERNAL = 13,
	SL_GRPC_UNAVAILABLE = 14,
	SL_GRPC_UNAUTHENTICATED = 16,
};

enum {
	SL_GRPC_PREFIX_BYTES = 5,
	SL_GRPC_MESSAGE_MAX = 4 * 1024 * 1024, /* of a request, as grpc-go's servers have it */
	SL_GRPC_TEXT_MAX = 256,                /* of a grpc-message, before it is encoded */
};

/* Where a frame of a message is wrong. */
enum sl_grpc_frame {
	SL_GRPC_FRAME_WHOLE, /* one message, and nothing after it */
	SL_GRPC_FRAME_EMPTY, /* no byte */
	SL_GRPC_FRAME_CUT,
	SL_GRPC_FRAME_MORE, /* bytes after the message */
	SL_GRPC_FRAME_COMPRESSED,
	SL_GRPC_FRAME_FLAG, /* neither 0 nor 1 */
};

/* The message in the body of a unary request. Its flag is judged before its length. */
enum sl_grpc_frame sl_grpc_unframe(struct sluice_bytes body, struct sluice_bytes *message);
/* The length that a body's first bytes announce; 0 while there are less than SL_GRPC_PREFIX_BYTES of them. */
uint32_t sl_grpc_announced(struct sluice_bytes body);
/* Writes the prefix of a message that is not compressed. */
void sl_grpc_prefix(uint8_t to[SL_GRPC_PREFIX_BYTES], uint32_t len);

/* Is it a content type of gRPC: application/grpc, alone or with +suffix or ;parameters? In lower case, as grpc-go. */
bool sl_grpc_is_content(struct sluice_bytes type);
/* Is it a grpc-timeout: 1 to 8 digits and one of H M S m u n? */
bool sl_grpc_is_timeout(struct sluice_bytes text);

/* A text as grpc-message carries it: printable ASCII but % as it is, all else as %XX. At most three bytes each. */
void sl_grpc_encode(struct sl_out *out, struct sluice_bytes text);

#endif
