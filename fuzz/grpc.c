/* Any bytes as a client of the gRPC door. The first byte says what they are, and how long the pieces:
 *
 *   0 a connection from its first byte      1 what comes after a greeting: frames, and HPACK in them
 *   2 the body of a request                 3 the message in it
 *
 * A request is answered alike however its bytes were cut. What frames come to depends on when answers go out between
 * them, so of those it is only held that nothing breaks, and that all memory comes back. */
#include "fuzz/door.h"
#include "fuzz/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTION, FRAMES, BODY, MESSAGE, INPUT_MAX = 1 << 16 };

static uint8_t memory[2 * INPUT_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct fuzz_run whole, pieces;
	if (size == 0 || size > INPUT_MAX)
		return 0;
	int kind = data[0] & 3;
	struct frames input = {.bytes = memory, .room = sizeof memory};
	if (kind != CONNECTION)
		frames_greet(&input);
	if (kind == BODY || kind == MESSAGE)
		frames_request(&input, 1, FRAMES_SHOULD_RATE_LIMIT, data + 1, size - 1, kind == MESSAGE);
	else
		frames_add(&input, data + 1, size - 1);
	fuzz_feed(&sl_door_grpc, &whole, memory, input.len, 0);
	fuzz_feed(&sl_door_grpc, &pieces, memory, input.len, 1 + data[0] / 4);
	if (kind == BODY || kind == MESSAGE)
		SL_ASSERT(whole.context.commands == 1 && pieces.context.commands == 1);
	if (kind == MESSAGE && size < FRAME_BYTES_MAX) /* above, windows are updated, by when what was taken */
		SL_ASSERT(whole.out.len == pieces.out.len);
	return 0;
}
