/* Any bytes as a PROXY header: however they are cut, the answer is the same.
 *
 * What is a header stays one, of the same length and the same client, whatever follows it; every cut of it asks for
 * more; what is none stays none; and a header never takes more than its bound. */
#include "base/assert.h"
#include "proto/proxy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of a copy that ends where the bytes end, so that reading past them is seen. */
static enum sl_proxy_result parse(struct sl_proxy *proxy, const uint8_t *data, size_t len) {
	char *copy = malloc(len != 0 ? len : 1);
	SL_ASSERT(copy != NULL);
	if (len != 0)
		memcpy(copy, data, len);
	enum sl_proxy_result result = sl_proxy_parse(proxy, copy, len);
	free(copy);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sl_proxy whole, part;
	enum sl_proxy_result result = parse(&whole, data, size);
	size_t decided = size + 1; /* the first length at which it is known */
	for (size_t len = 0; len <= size && len <= SL_PROXY_BYTES_MAX + 16; len++) {
		enum sl_proxy_result cut = parse(&part, data, len);
		if (cut == SL_PROXY_MORE) {
			SL_ASSERT(decided > size);
			SL_ASSERT(len < SL_PROXY_BYTES_MAX);
			continue;
		}
		SL_ASSERT(cut == result);
		if (decided > size)
			decided = len;
		SL_ASSERT(cut == SL_PROXY_BAD ? part.why != NULL && !part.named : part.consumed == decided);
		SL_ASSERT(cut == SL_PROXY_BAD || memcmp(&part.address, &whole.address, sizeof part.address) == 0);
		SL_ASSERT(part.named == whole.named && (!part.named || part.port == whole.port));
	}
	SL_ASSERT((decided > size) == (result == SL_PROXY_MORE) || size > SL_PROXY_BYTES_MAX);
	return 0;
}
