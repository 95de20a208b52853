/* Any bytes as a client of the gRPC door. The first byte says what they are, and how long the pieces:
 *
 *   0 a connection from its first byte      1 what comes after a greeting: frames, and HPACK in them
 *   2 the body of a request                 3 the message in it
 *
 * A request is answered alike however its bytes were cut. What frames come to depends on when answers go out between
 * them, so of those it is only held that nothing breaks, and that all memory comes back. */
#include "fuzz/door.h"
#include "proto/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTION, FRAMES, BODY, MESSAGE, INPUT_MAX = 1 << 16, FRAME_MAX = 16384 };

static uint8_t input[2 * INPUT_MAX];
static size_t input_len;

static void add(const void *bytes, size_t len) {
	SL_ASSERT(input_len + len <= sizeof input);
	if (len != 0)
		memcpy(input + input_len, bytes, len);
	input_len += len;
}

static void add_frame(uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len) {
	const uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0,
	                         (uint8_t)stream};
	add(head, sizeof head);
	add(data, len);
}

/* A header that is not indexed, by RFC 7541: its name and value as they are. */
static size_t header_to(uint8_t *to, const char *name, const char *value) {
	size_t name_len = strlen(name), value_len = strlen(value);
	SL_ASSERT(name_len < 127 && value_len < 127);
	to[0] = 0;
	to[1] = (uint8_t)name_len;
	memcpy(to + 2, name, name_len);
	to[2 + name_len] = (uint8_t)value_len;
	memcpy(to + 3 + name_len, value, value_len);
	return 3 + name_len + value_len;
}

static void greet(void) {
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	add(preface, sizeof preface - 1);
	add_frame(4, 0, 0, NULL, 0);
}

static void request(const uint8_t *body, size_t len, bool framed) {
	uint8_t head[256], prefix[SL_GRPC_PREFIX_BYTES];
	size_t head_len = header_to(head, ":method", "POST");
	head_len += header_to(head + head_len, ":scheme", "http");
	head_len += header_to(head + head_len, ":authority", "x");
	head_len += header_to(head + head_len, ":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
	head_len += header_to(head + head_len, "content-type", "application/grpc");
	SL_ASSERT(head_len <= sizeof head);
	add_frame(1, 4, 1, head, head_len);
	sl_grpc_prefix(prefix, (uint32_t)len);
	if (framed)
		add_frame(0, 0, 1, prefix, sizeof prefix);
	for (; len > FRAME_MAX; body += FRAME_MAX, len -= FRAME_MAX)
		add_frame(0, 0, 1, body, FRAME_MAX);
	add_frame(0, 1, 1, body, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct fuzz_run whole, pieces;
	if (size == 0 || size > INPUT_MAX)
		return 0;
	int kind = data[0] & 3;
	input_len = 0;
	if (kind != CONNECTION)
		greet();
	if (kind == BODY || kind == MESSAGE)
		request(data + 1, size - 1, kind == MESSAGE);
	else
		add(data + 1, size - 1);
	fuzz_feed(&sl_door_grpc, &whole, input, input_len, 0);
	fuzz_feed(&sl_door_grpc, &pieces, input, input_len, 1 + data[0] / 4);
	if (kind == BODY || kind == MESSAGE)
		SL_ASSERT(whole.context.commands == 1 && pieces.context.commands == 1);
	if (kind == MESSAGE && size < FRAME_MAX) /* above, windows are updated, by when what was taken */
		SL_ASSERT(whole.out.len == pieces.out.len);
	return 0;
}
