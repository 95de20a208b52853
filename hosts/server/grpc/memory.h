/* Blocks of memory for the requests of a worker, taken from a slab of its own (memory.c). */
#ifndef SL_GRPC_MEMORY_H
#define SL_GRPC_MEMORY_H

#include "base/bytes.h"

#include <nghttp2/nghttp2.h>

enum {
	SL_GRPC_CLASS_BYTES = 64, /* blocks are of so many bytes times 1 .. SL_GRPC_CLASSES */
	SL_GRPC_CLASSES = 8,
	SL_GRPC_BLOCK_MAX = SL_GRPC_CLASS_BYTES * SL_GRPC_CLASSES,
	SL_GRPC_PAGE_BYTES = 4096,
	SL_GRPC_PAGES = 160, /* 640 KiB: about 400 requests at a time; touched only as they come */
};

struct sl_grpc_block;

/* All zero to begin with; it needs no end, once all that was taken is given back. One thread's. */
struct sl_grpc_memory {
	struct sl_grpc_block *spare[SL_GRPC_CLASSES + 1];
	uint32_t pages_used;
	uint8_t class_of_page[SL_GRPC_PAGES];
	_Alignas(16) uint8_t slab[SL_GRPC_PAGES * SL_GRPC_PAGE_BYTES];
};

/* As malloc(), calloc(), realloc() and free() have it, 64-byte steps apart: NULL where there is no memory; NULL may be
 * given back. O(1), but for a page's first use. */
void *sl_grpc_take(struct sl_grpc_memory *memory, size_t bytes);
void *sl_grpc_take_zeroed(struct sl_grpc_memory *memory, size_t count, size_t bytes);
void *sl_grpc_resize(struct sl_grpc_memory *memory, void *block, size_t bytes);
void sl_grpc_give(struct sl_grpc_memory *memory, void *block);

/* The same for nghttp2, which keeps a copy; the memory outlives its session. */
nghttp2_mem sl_grpc_http2_memory(struct sl_grpc_memory *memory);

#endif
