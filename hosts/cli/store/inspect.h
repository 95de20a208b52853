/* What inspect finds in a store, and its two ways of telling. */
#ifndef SL_CLI_INSPECT_H
#define SL_CLI_INSPECT_H

#include "hosts/cli/ask.h"
#include "store/store.h"

enum { SL_INSPECT_SIZES = 33 }; /* blocks of up to 64 bytes, up to 128, ... up to 2^38 */

struct sl_inspection {
	const char *name;
	struct sluice_store_stats stats;
	sluice_ns now; /* by the store's clock */
	/* of the counters that had not expired */
	uint64_t counters;
	sluice_ns youngest, oldest; /* instants of last charges; of no meaning without counters */
	uint64_t sizes[SL_INSPECT_SIZES];
};

/* Prints an inspection as a table for people, or as one JSON object for programs. */
void sl_inspect_print_text(const struct sl_inspection *inspection);
void sl_inspect_print_json(const struct sl_inspection *inspection);

#endif
