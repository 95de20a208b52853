/* Where the module's values get their memory: from Redis within a server, which counts it in used_memory, and from the
 * system in tests and fuzzers, which know no Redis. Redis ends itself when it has none, so nothing here fails. */
#ifndef SLR_MEMORY_H
#define SLR_MEMORY_H

#include "base/assert.h"

#include <stddef.h>
#include <stdlib.h>

/* malloc() and free() until the module is loaded; changed before the first value is made, never after. */
extern void *(*slr_memory_take)(size_t bytes);
extern void (*slr_memory_give)(void *memory);

/* Memory aligned to 8 at least. Give it back with slr_give(). */
static inline void *slr_take(size_t bytes) {
	void *memory = slr_memory_take(bytes);
	SL_ASSERT(memory != NULL);
	return memory;
}

static inline void slr_give(void *memory) {
	slr_memory_give(memory);
}

#endif
