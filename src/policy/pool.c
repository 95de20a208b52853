/* A bump allocator over chunks that double up to 1 MiB.
 *
 * Why: a policy is built once, never changed and freed whole, so single frees would only be places to get wrong. A
 * request larger than a chunk gets one of its own size; nothing is ever moved.
 *
 * Invariant: at <= end, and both lie in the newest chunk (or are NULL).
 */
#include "policy/pool.h"

#include "base/assert.h"

#include <stdlib.h>

enum { CHUNK_BYTES_MIN = 4096, CHUNK_BYTES_MAX = 1024 * 1024, ALIGN_BYTES = 16 };

struct sl_pool_chunk {
	struct sl_pool_chunk *next;
	_Alignas(ALIGN_BYTES) char bytes[];
};

static bool pool_grow(struct sl_pool *pool, size_t bytes) {
	size_t want = pool->chunk_bytes < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : pool->chunk_bytes;
	pool->chunk_bytes = want < CHUNK_BYTES_MAX ? want * 2 : CHUNK_BYTES_MAX;
	if (bytes > want)
		want = bytes;
	struct sl_pool_chunk *chunk = NULL;
	if (want <= SIZE_MAX - sizeof *chunk)
		chunk = malloc(sizeof *chunk + want);
	if (chunk == NULL) {
		pool->failed = true;
		return false;
	}
	chunk->next = pool->chunks;
	pool->chunks = chunk;
	pool->at = chunk->bytes;
	pool->end = chunk->bytes + want;
	return true;
}

void *sl_pool_take(struct sl_pool *pool, size_t count, size_t bytes) {
	if (bytes != 0 && count > (SIZE_MAX - ALIGN_BYTES) / bytes) {
		pool->failed = true;
		return NULL;
	}
	size_t want = count * bytes;
	size_t skip = (size_t)(-(uintptr_t)pool->at & (ALIGN_BYTES - 1));
	if (pool->at == NULL || (size_t)(pool->end - pool->at) < skip || (size_t)(pool->end - pool->at) - skip < want) {
		if (!pool_grow(pool, want))
			return NULL;
		skip = 0;
	}
	char *taken = pool->at + skip;
	pool->at = taken + want;
	SL_DEBUG_ASSERT(pool->at <= pool->end);
	memset(taken, 0, want);
	return taken;
}

char *sl_pool_text(struct sl_pool *pool, struct sluice_bytes text) {
	if (pool->at == NULL || (size_t)(pool->end - pool->at) <= text.len) {
		if (text.len == SIZE_MAX || !pool_grow(pool, text.len + 1)) {
			pool->failed = true;
			return NULL;
		}
	}
	char *copy = pool->at;
	if (text.len != 0)
		memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	pool->at += text.len + 1;
	return copy;
}

void sl_pool_free(struct sl_pool *pool) {
	while (pool->chunks != NULL) {
		struct sl_pool_chunk *next = pool->chunks->next;
		free(pool->chunks);
		pool->chunks = next;
	}
	*pool = (struct sl_pool){0};
}
