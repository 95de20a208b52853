/* Penalties as people write them: `penalty: [1m, 10m, 1h] after 3 denials in 1m`, which is no YAML. */
#ifndef SL_BRACKETS_H
#define SL_BRACKETS_H

#include "policy/pool.h"

/* A copy of the bytes of a policy file in which YAML reads such a penalty as one plain text. Lines and columns stay.
 * Owned by the pool; the bytes themselves where there is none of it. NULL data without memory. O(bytes). */
struct sluice_bytes sl_brackets_hide(struct sl_pool *pool, struct sluice_bytes yaml);

/* Puts back into a text that YAML has read what was hidden, in place; returns its new length. */
size_t sl_brackets_show(char *text, size_t len);

#endif
