/* Whether a limit may deny a request that it counts, or only observes it: decided here for each request and nowhere
 * else. A limit observes everybody, enforces for everybody, or has a canary: it enforces for a stable share of the
 * values of one attribute and observes the others.
 *
 *   hash(limit, value) = SipHash-2-4(K, le64(SipHash-2-4(K, limit)) || value)      K: the bytes "sluice canary v1"
 *   enforced           = hash * 100 % < 2^64 * share
 *
 * The key is a constant and nobody's secret, so every process, front and version decides alike, before and after a
 * restart. A larger share holds all values of a smaller one. The name of the limit goes in, so that it is not the same
 * tenth of the users that tries every new limit. */
#ifndef SL_ROLLOUT_H
#define SL_ROLLOUT_H

#include "base/bytes.h"

enum {
	SL_CANARY_ONE_PERCENT = 10000, /* shares are in millionths: 0.0001 % is the least */
	SL_CANARY_ALL = 100 * SL_CANARY_ONE_PERCENT,
};

struct sl_rollout {
	bool observe;       /* denies nobody, whatever follows */
	bool canary;        /* the rest counts */
	uint16_t attribute; /* number of the attribute whose values are shared out */
	uint32_t share;     /* of its values that are enforced, 0..SL_CANARY_ALL */
	uint64_t limit;     /* sl_canary_limit() */
};

/* The hash of a limit's name, with which its values are hashed. */
uint64_t sl_canary_limit(struct sluice_bytes name);

/* Is a value one of the share of a limit? Of share 0 none is, of SL_CANARY_ALL all are. Some 30 ns. */
bool sl_canary_holds(uint64_t limit, struct sluice_bytes value, uint32_t share);

/* Is a request only observed? `values` by attribute number; data NULL: absent, and then it is not in the canary. */
static inline bool sl_rollout_observes(const struct sl_rollout *rollout, const struct sluice_bytes *values) {
	if (rollout->observe || !rollout->canary)
		return rollout->observe;
	struct sluice_bytes value = values[rollout->attribute];
	return value.data == NULL || !sl_canary_holds(rollout->limit, value, rollout->share);
}

/* Do two of one limit say the same of every request? */
static inline bool sl_rollout_equal(const struct sl_rollout *a, const struct sl_rollout *b) {
	if (a->observe || b->observe)
		return a->observe == b->observe;
	return a->canary == b->canary && (!a->canary || (a->attribute == b->attribute && a->share == b->share));
}

#endif
