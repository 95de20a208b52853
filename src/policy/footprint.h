/* What counters take of a store, and how a store is split between slots and blocks: said once, for `sluice size`, lint,
 * and a server that makes a store. */
#ifndef SL_FOOTPRINT_H
#define SL_FOOTPRINT_H

#include "policy/policy.h"

/* Bytes of a store. They may be added up over limits. */
struct sl_footprint {
	uint64_t slot;  /* a slot and its part of a bucket, as full as pages are before the first overflows; its sketch */
	uint64_t least; /* of its block, after a charge of 1; 0: it has none */
	uint64_t most;  /* of its block, when costs of 1 have used the quota up, with the gaps that growing leaves */
};

/* Of one counter of a limit; all 0 for one that has none. O(1). */
struct sl_footprint sl_footprint_of(const struct sluice_limit *limit);

/* What one counter takes of a block, without gaps or units, with as many entries as its quota has units, each charged
 * by itself; of members at most those that are counted exactly. 0 for algorithms without blocks. */
uint64_t sl_footprint_bytes_used_up(const struct sluice_limit *limit);

/* The share of blocks, in percent (1..98), for counters that take that: the one that holds, whatever their blocks are
 * between least and most, the largest part of what the best share would hold. */
uint32_t sl_footprint_split(const struct sl_footprint *sum);

/* What one more key takes that all limits of a policy count, each by what stands at the limit itself, or, where that is
 * unlimited, by its first override that counts. Limits without keys, which have one counter each, and what is kept for
 * open reservations and penalties, are left out. O(limits). */
struct sl_footprint sl_policy_footprint(const struct sluice_policy *policy);

/* The share of blocks, in percent, of a store that is made for a policy: what it says, or what its limits need, with a
 * tenth left to either part for limits that come later or in notation. The default where no limit says anything. */
uint32_t sl_policy_blocks_percent(const struct sluice_policy *policy);

/* For how many keys a store of a policy's memory and share has room, if all limits count each and use it up. UINT64_MAX
 * where no limit has a key. */
uint64_t sl_policy_keys_most(const struct sluice_policy *policy);

#endif
