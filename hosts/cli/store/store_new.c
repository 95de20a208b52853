/* See store_new.h. The secret goes along, so keys hash to what they hashed to before. */
#include "hosts/cli/store/store_new.h"

#include "os/file.h"
#include "os/map.h"

#include <errno.h>

/* Nobody else knows the file: any lock word will do. */
#define OWNER ((uint32_t)1 << SL_OWNER_ROW_SHIFT | 1)

int sl_store_new_begin(const struct sl_verb *verb, struct sl_store_new *made, const char *path, uint64_t bytes,
                       uint32_t percent, const struct sl_header *like) {
	*made = (struct sl_store_new){.evicted_before = like->evicted, .part = {.fd = -1}};
	int status = sl_part_begin(verb, &made->part, path);
	if (status != SL_GO_ON)
		return status;
	int err = sl_file_reserve(made->part.fd, bytes);
	void *memory = err == 0 ? sl_map_shared(made->part.fd, bytes, true) : NULL;
	if (memory == NULL) {
		sl_part_drop(&made->part);
		return sl_cli_fail(verb, "%s: %s", path, strerror(err != 0 ? err : errno));
	}
	if (sl_arena_format_like(memory, bytes, percent, like) != SLUICE_OK) {
		sl_map_free(memory, bytes);
		sl_part_drop(&made->part);
		return sl_cli_fail(verb, "%s: a store takes 1 MiB to 256 GiB, of which 1%% to 98%% are for blocks", path);
	}
	sl_arena_attach(&made->store, memory);
	made->store.owner = OWNER;
	return SL_GO_ON;
}

bool sl_store_new_put(struct sl_store_new *made, const struct sl_entry *entry, sluice_ns now) {
	sluice_err err = sl_store_put(&made->store, entry, now);
	made->kept += err == SLUICE_OK;
	made->refused += err == SLUICE_E_FULL;
	return err == SLUICE_OK || err == SLUICE_E_FULL;
}

uint64_t sl_store_new_lost(const struct sl_store_new *made) {
	return made->refused + (made->store.header->evicted - made->evicted_before);
}

static void unmap(struct sl_store_new *made) {
	if (made->store.header != NULL)
		sl_map_free(made->store.header, made->store.arena_bytes);
	made->store.header = NULL;
}

int sl_store_new_finish(const struct sl_verb *verb, struct sl_store_new *made, bool replace) {
	int err = sl_map_sync(made->store.header, made->store.arena_bytes);
	unmap(made);
	if (err == 0)
		return sl_part_finish(verb, &made->part, replace);
	sl_part_drop(&made->part);
	return sl_cli_fail(verb, "%s: %s", made->part.path, strerror(err));
}

void sl_store_new_drop(struct sl_store_new *made) {
	unmap(made);
	sl_part_drop(&made->part);
}
