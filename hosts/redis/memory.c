/* Where memory comes from: of Redis in the module, of malloc in tests; see memory.h. */
#include "hosts/redis/memory.h"

void *(*slr_memory_take)(size_t bytes) = malloc;
void (*slr_memory_give)(void *memory) = free;
