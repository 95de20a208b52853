/* How much memory so many keys take, wherever they may be counted: figures that tests hold against real stores. */
#ifndef SL_CLI_SIZE_H
#define SL_CLI_SIZE_H

#include "base/bytes.h"

/* Bytes a key of 20 bytes takes under one limit when its quota is used up by costs of 1. */
struct sl_size {
	uint64_t slots, blocks;    /* of a store, private or in a file: what has to be given, room to spare included */
	uint64_t module, script;   /* of a Redis, by its own account (used_memory), tables and expiries included */
	uint64_t theirs;           /* likewise, of the structure that is written for this by hand; 0: there is none */
	const char *theirs_called; /* what that is: a constant, NULL for none */
};

/* Of a limit; all 0 for one that has no counter. */
struct sl_size sl_size_of(const struct sluice_limit *limit);

/* The memory, in MiB, and the share of blocks, in percent (1..98), of a store for so many keys, below 2^32, of each of
 * at most SLUICE_ITEMS_MAX limits; it may be more than a store can have. */
void sl_size_store(const struct sluice_limit *limits, uint32_t count, uint64_t keys, uint64_t *mib, uint32_t *percent);

#endif
