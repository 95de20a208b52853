/* What crashes have cost a store in a file. */
#ifndef SL_TORN_H
#define SL_TORN_H

#include <stdint.h>

/* How many counters have been dropped as torn by those who opened the store in a file; 0 for what is no store. To be
 * asked before this process opens it: to close any descriptor of an open store would drop its locks. */
uint64_t sl_torn_dropped(const char *file);

#endif
