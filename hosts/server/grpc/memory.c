/* Memory that comes and goes with each request: nghttp2's streams and frames, and ours. A hundred of them end together
 * and begin together, so that malloc() would merge and cut blocks again for every one: an eighth of what a request
 * costs the server.
 *
 *   slab    | page of 64s | page of 256s | page of 64s | ..  not cut yet  |
 *   free    list of each class, the last that was given back first
 *
 *  I1  A page is cut into blocks of one class, n * 64 bytes, the first time that class finds its list empty; it stays.
 *  I2  A block's class is its page's, so that blocks need no head; what does not lie in the slab is malloc's.
 *  I3  Where the slab is used up, and above SL_GRPC_BLOCK_MAX, it is malloc's turn: nothing fails earlier. */
#include "hosts/server/grpc/memory.h"

#include "base/assert.h"

#include <stdlib.h>

/* AddressSanitizer sees what is used after its end only where that is given back to malloc. */
#if defined(__SANITIZE_ADDRESS__)
#define POOLED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOLED 0
#endif
#endif
#ifndef POOLED
#define POOLED 1
#endif

/* The first word of a block that is free. */
struct sl_grpc_block {
	struct sl_grpc_block *next;
};

static bool is_ours(const struct sl_grpc_memory *memory, const void *block) {
	return (uintptr_t)block - (uintptr_t)memory->slab < sizeof memory->slab;
}

static size_t class_of(const struct sl_grpc_memory *memory, const void *block) {
	return memory->class_of_page[((uintptr_t)block - (uintptr_t)memory->slab) / SL_GRPC_PAGE_BYTES];
}

/* Cuts a page; false where none is left. */
static bool cut(struct sl_grpc_memory *memory, size_t class) {
	size_t bytes = class * SL_GRPC_CLASS_BYTES;
	if (memory->pages_used == SL_GRPC_PAGES)
		return false;
	uint8_t *page = memory->slab + (size_t)memory->pages_used * SL_GRPC_PAGE_BYTES;
	memory->class_of_page[memory->pages_used++] = (uint8_t)class;
	for (size_t at = 0; at + bytes <= SL_GRPC_PAGE_BYTES; at += bytes) {
		struct sl_grpc_block *block = (struct sl_grpc_block *)(void *)(page + at);
		block->next = memory->spare[class];
		memory->spare[class] = block;
	}
	return true;
}

void *sl_grpc_take(struct sl_grpc_memory *memory, size_t bytes) {
	size_t class = (bytes + SL_GRPC_CLASS_BYTES - 1) / SL_GRPC_CLASS_BYTES;
	if (!POOLED || class == 0 || class > SL_GRPC_CLASSES || (memory->spare[class] == NULL && !cut(memory, class)))
		return malloc(bytes);
	struct sl_grpc_block *block = memory->spare[class];
	memory->spare[class] = block->next;
	return block;
}

void sl_grpc_give(struct sl_grpc_memory *memory, void *block) {
	if (!is_ours(memory, block)) {
		free(block);
		return;
	}
	size_t class = class_of(memory, block);
	SL_DEBUG_ASSERT(class >= 1 && class <= SL_GRPC_CLASSES);
	struct sl_grpc_block *spare = block;
	spare->next = memory->spare[class];
	memory->spare[class] = spare;
}

void *sl_grpc_take_zeroed(struct sl_grpc_memory *memory, size_t count, size_t bytes) {
	if (count != 0 && bytes > SIZE_MAX / count)
		return NULL;
	void *block = sl_grpc_take(memory, count * bytes);
	if (block != NULL)
		memset(block, 0, count * bytes);
	return block;
}

void *sl_grpc_resize(struct sl_grpc_memory *memory, void *block, size_t bytes) {
	if (block == NULL)
		return sl_grpc_take(memory, bytes);
	if (!is_ours(memory, block))
		return realloc(block, bytes);
	size_t had = class_of(memory, block) * SL_GRPC_CLASS_BYTES;
	if (bytes <= had)
		return block;
	void *larger = sl_grpc_take(memory, bytes);
	if (larger == NULL)
		return NULL;
	memcpy(larger, block, had);
	sl_grpc_give(memory, block);
	return larger;
}

/* ---- for nghttp2 ------------------------------------------------------------------------------------------------- */

static void *http2_malloc(size_t bytes, void *memory) {
	return sl_grpc_take(memory, bytes);
}

static void http2_free(void *block, void *memory) {
	sl_grpc_give(memory, block);
}

static void *http2_calloc(size_t count, size_t bytes, void *memory) {
	return sl_grpc_take_zeroed(memory, count, bytes);
}

static void *http2_realloc(void *block, size_t bytes, void *memory) {
	return sl_grpc_resize(memory, block, bytes);
}

nghttp2_mem sl_grpc_http2_memory(struct sl_grpc_memory *memory) {
	return (nghttp2_mem){memory, http2_malloc, http2_free, http2_calloc, http2_realloc};
}
