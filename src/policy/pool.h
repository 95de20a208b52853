/* Memory that is given back all at once: what a policy owns, and what reading one needs for a moment. */
#ifndef SL_POOL_H
#define SL_POOL_H

#include "base/bytes.h"

struct sl_pool_chunk;

/* All zero is an empty pool. Not safe for two threads at a time. */
struct sl_pool {
	struct sl_pool_chunk *chunks;
	char *at, *end;
	size_t chunk_bytes; /* of the next chunk */
	bool failed;        /* the system gave no memory, once: everything taken since is suspect */
};

/* Takes `count` zeroed things of `bytes` each, aligned for any type. Owned by the pool. NULL, with `failed` set, when
 * the system gives no memory or the product overflows. O(bytes). */
void *sl_pool_take(struct sl_pool *pool, size_t count, size_t bytes);

/* Copies text and puts a NUL after it. Owned by the pool; NULL, with `failed` set, without memory. */
char *sl_pool_text(struct sl_pool *pool, struct sluice_bytes text);

/* Gives everything back and leaves an empty pool. */
void sl_pool_free(struct sl_pool *pool);

#endif
