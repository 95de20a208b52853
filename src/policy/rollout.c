/* The hash of canaries. It is a promise: who is in a canary must not change with a version of Sluice, so nothing here
 * ever does. tests/unit/policy_rollout_test.c holds values of it. */
#include "policy/rollout.h"

#include "base/assert.h"
#include "base/math.h"
#include "base/siphash.h"

static const uint64_t canary_key[2] = {0x6320656369756c73, 0x3176207972616e61}; /* "sluice canary v1", little-endian */

uint64_t sl_canary_limit(struct sluice_bytes name) {
	return sl_siphash(canary_key, NULL, 0, name, 2, 4);
}

bool sl_canary_holds(uint64_t limit, struct sluice_bytes value, uint32_t share) {
	uint64_t hash = sl_siphash(canary_key, &limit, 1, value, 2, 4);
	SL_ASSERT(share <= SL_CANARY_ALL);
	/* The high word of hash * ALL is hash's place among ALL equal parts of 2^64: 0..ALL - 1. */
	return (uint64_t)(sl_mul(hash, SL_CANARY_ALL) >> 64) < share;
}
