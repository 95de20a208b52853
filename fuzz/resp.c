/* Any bytes as a client of the RESP door: see door.h. */
#include "fuzz/door.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	return fuzz_door(&sl_door_resp, data, size);
}
