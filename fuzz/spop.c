/* Any bytes as HAProxy at the SPOP door, after a HELLO: see door.h. */
#include "fuzz/door.h"
#include "proto/spop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says whether a HELLO comes before the rest; the second is that of fuzz_door(). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char hello[] = "\0\0\0\x41\x01\0\0\0\x01\0\0\x12supported-versions\x08\x03"
								"2.0\x0emax-frame-size\x03\xfc\xf0\x06\x0c"
								"capabilities\x08\x00";
	if (size < 2 || data[0] % 4 == 0)
		return size < 2 ? 0 : fuzz_door(&sl_door_spop, data + 1, size - 1);
	uint8_t *bytes = malloc(sizeof hello + size);
	SL_ASSERT(bytes != NULL);
	bytes[0] = data[1];
	memcpy(bytes + 1, hello, sizeof hello - 1);
	memcpy(bytes + sizeof hello, data + 2, size - 2);
	fuzz_door(&sl_door_spop, bytes, sizeof hello + size - 2);
	free(bytes);
	return 0;
}
