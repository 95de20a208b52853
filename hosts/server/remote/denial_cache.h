/* Denials that still hold. A denial changes nothing, so the same cost is denied until its retry_after is over, and can
 * be told so here, with the waits counted down: for the retries of those who don't wait no command is sent.
 *
 * What others charge or give back is not known here, so a denial is remembered for SL_DENIAL_CACHE_NS_MAX at most; what
 * this front charges or gives back at a node forgets it. A larger cost is denied as well, but for longer, which only
 * the counter can say: it is asked.
 *
 * Bounded: sets of four, the entry that ends first makes room. Time is passed in. */
#ifndef SL_DENIAL_CACHE_H
#define SL_DENIAL_CACHE_H

#include "base/bytes.h"

enum { SL_DENIAL_CACHE_ENTRIES = 64 * 1024, SL_DENIAL_CACHE_WAYS = 4 };
#define SL_DENIAL_CACHE_NS_MAX ((sluice_ns)1000000000)

/* Whose counter an item has, whatever its limit's quota: limits that meet there share it. Likewise secret. */
uint64_t sl_item_counter(const uint64_t secret[2], const struct sluice_limit *limit, struct sluice_bytes key);

/* Whose counter an item has, and all of its limit that the answer depends on: 64 bits under a secret of 128, so nobody
 * can choose keys that meet. About 40 ns. */
uint64_t sl_item_tag(const uint64_t secret[2], const struct sluice_limit *limit, struct sluice_bytes key);

struct sl_denial_cache;

/* NULL when the system gives no memory. 3.5 MiB, taken from the system as it is used. */
struct sl_denial_cache *sl_denial_cache_new(void);
void sl_denial_cache_free(struct sl_denial_cache *cache);

/* Remembers a denial of `cost` that was told at `now`. One whose wait is over at once is none. */
void sl_denial_cache_add(struct sl_denial_cache *cache, uint64_t tag, uint32_t cost,
                         const struct sluice_decision *denial, sluice_ns now);

/* Is this cost known to be denied? Then fills `denial` (index 0), waits counted down. One cache miss. */
bool sl_denial_cache_find(const struct sl_denial_cache *cache, uint64_t tag, uint32_t cost, sluice_ns now,
                          struct sluice_decision *denial);

/* Forgets what is known of a counter. */
void sl_denial_cache_forget(struct sl_denial_cache *cache, uint64_t tag);

/* What is left of a wait after `passed`; SLUICE_NEVER stays. */
static inline sluice_ns sl_denial_cache_left(sluice_ns wait, sluice_ns passed) {
	return wait == SLUICE_NEVER ? wait : wait > passed ? wait - passed : 0;
}

#endif
