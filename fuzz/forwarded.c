/* Any bytes as X-Forwarded-For and as Forwarded. What a client writes in front of what proxies of ours appended must
 * change nothing: where the walk over the right part ends at a client, it ends there whatever stands to the left, on
 * the same line or on one of its own. */
#include "base/assert.h"
#include "proto/forwarded.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sluice_policy *policy(void) {
	static const char yaml[] = "trusted-proxies: [10.0.0.0/8, \"fd00::/8\", 0.0.0.0/30]\n";
	static struct sluice_policy *loaded;
	if (loaded == NULL)
		SL_ASSERT(sluice_policy_load(&loaded, sl_str(yaml), NULL) == SLUICE_OK);
	return loaded;
}

static bool is_same(bool found, const struct sl_address *a, const struct sluice_bytes *lines, uint32_t count,
                    enum sl_forwarded_form form) {
	struct sl_address b;
	return sl_forwarded_client(lines, count, form, policy(), &b) == found && memcmp(a, &b, sizeof b) == 0;
}

/* The first byte says how long the left part is, in 255ths. */
static void check(const uint8_t *data, size_t size, enum sl_forwarded_form form) {
	size_t left = (size - 1) * data[0] / 255, right = size - 1 - left;
	const uint8_t *text = data + 1;
	struct sl_address client;
	struct sluice_bytes own = sl_slice(text + left, right), lines[2] = {sl_slice(text, left), own};
	if (!sl_forwarded_client(&own, 1, form, policy(), &client) || sl_policy_trusts(policy(), &client))
		return;
	char *joined = malloc(size + 1);
	SL_ASSERT(joined != NULL);
	memcpy(joined, text, left);
	joined[left] = ',';
	memcpy(joined + left + 1, text + left, right);
	struct sluice_bytes one = sl_slice(joined, left + 1 + right);
	SL_ASSERT(is_same(true, &client, &one, 1, form));
	SL_ASSERT(is_same(true, &client, lines, 2, form));
	free(joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (size < 1)
		return 0;
	check(data, size, SL_FORWARDED_FOR);
	check(data, size, SL_FORWARDED_RFC7239);
	return 0;
}
