/* The library as a host: a store in private memory, and the simple call with its own clock. Everything else that
 * sluice.h offers is the core's and the policy's as it stands. */
#include "base/out.h"
#include "os/map.h"
#include "store/store.h"

#include <sched.h>
#include <stdlib.h>

#define DEFAULT_BYTES ((uint64_t)64 << 20)

static sluice_err fail(struct sluice_error *error, sluice_err err, const char *text) {
	if (error != NULL) {
		struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
		sl_out_str(&out, text);
		*out.at = '\0';
		error->column = 0;
	}
	return err;
}

static void let_others_run(void) {
	(void)sched_yield();
}

static void unmap(struct sluice_store *store) {
	sl_map_free(store->header, store->arena_bytes);
}

sluice_err sluice_store_open(struct sluice_store **store, const struct sluice_store_options *options,
                             struct sluice_error *error) {
	uint64_t bytes = options != NULL && options->memory_bytes != 0 ? options->memory_bytes : DEFAULT_BYTES;
	uint32_t percent =
		options != NULL && options->blocks_percent != 0 ? options->blocks_percent : SL_BLOCKS_PERCENT_DEFAULT;
	uint64_t secret[2];
	struct sluice_store *opened;
	void *memory;
	if (store == NULL)
		return SLUICE_E_MISUSE;
	if (bytes < SL_ARENA_BYTES_MIN || bytes > SL_ARENA_BYTES_MAX || percent > 90)
		return fail(error, SLUICE_E_RANGE,
		            "a store takes 1 MiB to 256 GiB of memory, of which 1 to 90 % are for blocks");
	if (!sl_random_secret(secret))
		return fail(error, SLUICE_E_SYSTEM, "the system's random numbers could not be read");
	bytes -= bytes % SL_PAGE_BYTES;
	opened = malloc(sizeof *opened);
	memory = opened != NULL ? sl_map_private(bytes) : NULL;
	if (memory == NULL || sl_arena_format(memory, bytes, percent, secret) != SLUICE_OK) {
		free(opened);
		return fail(error, SLUICE_E_MEMORY, "the system gave no memory for the store");
	}
	sl_arena_attach(opened, memory);
	opened->relax = let_others_run;
	opened->release = unmap;
	*store = opened;
	return SLUICE_OK;
}

void sluice_store_close(struct sluice_store *store) {
	if (store == NULL)
		return;
	if (store->release != NULL)
		store->release(store);
	free(store);
}

sluice_err sluice_check(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                        uint32_t cost, struct sluice_decision *decision) {
	struct sluice_item item = {.limit = limit, .key = key};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .now = sluice_now()};
	sluice_err err;
	if (decision == NULL)
		return SLUICE_E_MISUSE;
	err = sluice_decide(store, &call);
	if (err == SLUICE_OK)
		*decision = call.merged;
	return err;
}
