/* Any bytes as a client of the RESP door: see door.h. And fed byte by byte, with the commands before forgotten each
 * time, so that none is recognised by its bytes (hosts/server/resp/memo.h): the answers are the same. */
#include "fuzz/door.h"
#include "hosts/server/resp/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void forget(struct sl_door_context *context) {
	sl_resp_memos_forget(&context->resp->memos);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct fuzz_run whole, forgetful = {.before = forget};
	if (size != 0) {
		fuzz_feed(&sl_door_resp, &whole, data + 1, size - 1, 0);
		fuzz_feed(&sl_door_resp, &forgetful, data + 1, size - 1, 1);
		fuzz_same(&whole, &forgetful);
	}
	return fuzz_door(&sl_door_resp, data, size);
}
