/* The inside of quotas of keys, for those who fill them (quotas_read.c) and look them up (quotas.c). */
#ifndef SL_QUOTAS_INSIDE_H
#define SL_QUOTAS_INSIDE_H

#include "base/siphash.h"
#include "policy/quotas.h"

struct sl_quota_slot {
	uint32_t tag, row; /* tag 0: free */
};

struct sl_quota_row {
	const char *text;
	uint32_t line;
	uint16_t len, limit;
};

struct sl_quotas {
	const char *file;
	uint64_t key[2];
	struct sl_quota_slot *slots;
	uint32_t mask; /* of the slots */
	uint32_t count;
	struct sl_quota_row *rows;
	struct sluice_limit *limits;
};

static inline uint64_t sl_quotas_hash(const struct sl_quotas *quotas, struct sluice_bytes text) {
	return sl_siphash(quotas->key, NULL, 0, text, 1, 3);
}

static inline uint32_t sl_quotas_tag(uint64_t hash) {
	return (uint32_t)(hash >> 32) | 1;
}

/* The slot that has a key, or the free one where it belongs; *probes: how many it stands from its place. */
uint32_t sl_quotas_slot(const struct sl_quotas *quotas, struct sluice_bytes key, uint64_t hash, uint32_t *probes);

#endif
