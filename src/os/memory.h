/* How much memory the system has for this process. */
#ifndef SL_MEMORY_H
#define SL_MEMORY_H

#include <stdint.h>

/* Bytes that can be taken without others being swapped out, or the process being ended for it: what the kernel calls
 * available, and no more than each control group that the process is in leaves. UINT64_MAX where the system does not
 * say. Reads a few files of /proc and /sys: some 50 us. */
uint64_t sl_memory_available(void);

/* The same by the files of /proc and /sys below another root, "" for the system's: for tests. */
uint64_t sl_memory_available_under(const char *root);

#endif
