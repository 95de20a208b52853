/* Memory from the system: zeroed, page-aligned, in huge pages where they help. */
#ifndef SL_MAP_H
#define SL_MAP_H

#include "sluice.h"

/* Maps `bytes` of private memory, taken from the system as it is touched. NULL when the system refuses. Give it back
 * with sl_map_free(). */
void *sl_map_private(uint64_t bytes);
void sl_map_free(void *memory, uint64_t bytes);

/* Fills 16 bytes from the kernel's generator. Returns false when it can't be read. */
bool sl_random_secret(uint64_t secret[2]);

#endif
