/* Memory from the system: zeroed, page-aligned, in huge pages where they help; private, or that of a file. */
#ifndef SL_MAP_H
#define SL_MAP_H

#include "sluice.h"

/* Maps `bytes` of private memory, taken from the system as it is touched. NULL when the system refuses. Give it back
 * with sl_map_free().
 *  small  in small pages, until sl_map_touch() makes huge ones: a huge page takes the system 0.2 to 4 ms to clear, and
 *         whoever touches it first waits for that */
void *sl_map_private(uint64_t bytes, bool small);

/* Brings in what is not there yet of some bytes of private memory, in huge pages where the system has them, and changes
 * nothing of what they hold, while others use it. Takes the processor as long as clearing that memory does. */
void sl_map_touch(void *memory, uint64_t bytes);

/* Maps the first `bytes` of a file for all who map it; it must have them. NULL when the system refuses, with errno.
 *  fresh  the memory is to be brought in at once, in huge pages where the system offers them for a file: for one that
 *         was just made. What fails of that is left to sl_file_reserve() to say */
void *sl_map_shared(int fd, uint64_t bytes, bool fresh);

/* Tells the system whether a shared mapping is about to be read from its beginning to its end (scan), or here and
 * there, which is how it is mapped. Advice. */
void sl_map_expect_scan(void *memory, uint64_t bytes, bool scan);

/* Gives back what either of these mapped, all `bytes` of it. */
void sl_map_free(void *memory, uint64_t bytes);

/* Writes the first `bytes` of a shared mapping to its file's disk. Returns 0 or an errno. */
int sl_map_sync(void *memory, uint64_t bytes);

/* Fills 16 bytes from the kernel's generator. Returns false when it can't be read. */
bool sl_random_secret(uint64_t secret[2]);

#endif
