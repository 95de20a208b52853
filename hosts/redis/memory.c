#include "hosts/redis/memory.h"

void *(*slr_memory_take)(size_t bytes) = malloc;
void (*slr_memory_give)(void *memory) = free;
