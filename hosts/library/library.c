/* The library as a host: stores in their three homes, and the simple call with the store's own clock. Everything else
 * that sluice.h offers is the core's and the policy's as it stands. */
#include "base/math.h"
#include "base/out.h"
#include "hosts/library/registry.h"
#include "os/clock.h"
#include "os/map.h"
#include "os/zone.h"
#include "store/scan.h"
#include "store/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHARED_NAME_MAX = 200, HUGE_PAGE_BYTES = 2 << 20 };
#define SHARED_PREFIX "/dev/shm/sluice-" /* where shm_open() puts "/sluice-NAME" */

struct shared_path {
	char text[sizeof SHARED_PREFIX + SHARED_NAME_MAX];
};

/* Limits may be parsed before a store is opened. */
static __attribute__((constructor)) void find_zones(void) {
	sl_zone_use_host();
}

/* The path of shared memory; false for a name that is none. */
static bool shared_path_of(const char *name, struct shared_path *path) {
	size_t length = strlen(name);
	if (length < 1 || length > SHARED_NAME_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name[i]) == NULL)
			return false;
	(void)snprintf(path->text, sizeof path->text, SHARED_PREFIX "%s", name);
	return true;
}

static void show_path(struct sl_opening *opening) {
	struct sl_out out = sl_out_to(opening->shown, sizeof opening->shown - 1);
	sl_out_quoted(&out, sl_str(opening->path), SL_HOME_SHOWN_MAX);
	*out.at = '\0';
}

static sluice_err check_options(struct sl_opening *opening, const struct sluice_store_options *options,
                                struct shared_path *path) {
	uint64_t bytes = options->memory_bytes;
	if (options->file != NULL && options->shared != NULL)
		return sl_opening_fail(opening, SLUICE_E_MISUSE, "a store is in a file or in shared memory, not in both");
	if ((bytes != 0 && bytes < SL_ARENA_BYTES_MIN) || bytes > SL_ARENA_BYTES_MAX ||
	    options->blocks_percent > SL_BLOCKS_PERCENT_MAX)
		return sl_opening_fail(opening, SLUICE_E_RANGE,
		                       "a store takes 1 MiB to 256 GiB of memory, of which 1 to 98 %% are for blocks");
	if (options->mode > 0777)
		return sl_opening_fail(opening, SLUICE_E_RANGE, "the permissions of a store are 0 to 0777");
	if (options->shared != NULL && !shared_path_of(options->shared, path))
		return sl_opening_fail(opening, SLUICE_E_RANGE,
		                       "a name of shared memory has 1 to 200 letters, digits, dots, underscores or hyphens");
	if (options->file != NULL && options->file[0] == '\0')
		return sl_opening_fail(opening, SLUICE_E_RANGE, "the path of the store's file is empty");
	opening->path = options->shared != NULL ? path->text : options->file;
	opening->shared = options->shared != NULL;
	opening->existing = options->existing;
	opening->pretouch = options->pretouch;
	opening->mode = options->mode != 0 ? options->mode : 0600;
	opening->percent = options->blocks_percent != 0 ? options->blocks_percent : SL_BLOCKS_PERCENT_DEFAULT;
	opening->bytes = bytes - bytes % SL_PAGE_BYTES;
	if (opening->path != NULL)
		show_path(opening);
	return SLUICE_OK;
}

sluice_err sl_store_options_check(const struct sluice_store_options *options, struct sluice_error *error) {
	struct sl_opening opening = {.error = error};
	struct shared_path path;
	return check_options(&opening, options, &path);
}

sluice_err sl_store_size_check(const struct sluice_store_options *options, struct sluice_error *error) {
	struct sl_opening opening = {.error = error};
	struct shared_path path;
	uint64_t has;
	sluice_err err = check_options(&opening, options, &path);
	if (err != SLUICE_OK || opening.path == NULL || !sl_file_bytes_at(opening.path, &has) || has == 0)
		return err;
	return sl_home_check_size(&opening, has);
}

sluice_err sl_store_open_within(struct sluice_store **store, const struct sluice_store_options *options,
                                sluice_ns patience_ns, struct sluice_error *error) {
	static const struct sluice_store_options defaults;
	struct sl_opening opening = {.error = error, .patience_ns = patience_ns};
	struct shared_path path;
	struct sl_home *home;
	sluice_err err;
	if (store == NULL)
		return SLUICE_E_MISUSE;
	err = check_options(&opening, options != NULL ? options : &defaults, &path);
	if (err == SLUICE_OK)
		err = sl_registry_open(&home, &opening);
	if (err == SLUICE_OK)
		*store = &home->store;
	return err;
}

sluice_err sluice_store_open(struct sluice_store **store, const struct sluice_store_options *options,
                             struct sluice_error *error) {
	return sl_store_open_within(store, options, SL_HOME_GUARD_WAIT_NS, error);
}

void sluice_store_close(struct sluice_store *store) {
	if (store != NULL && sl_home_of(store) != NULL)
		sl_registry_close(sl_home_of(store));
}

sluice_err sluice_store_forget(const char *shared, struct sluice_error *error) {
	struct sl_opening opening = {.error = error};
	struct shared_path path;
	if (shared == NULL)
		return SLUICE_E_MISUSE;
	if (shared_path_of(shared, &path) && unlink(path.text) == 0)
		return SLUICE_OK;
	if (!shared_path_of(shared, &path) || errno == ENOENT)
		return sl_opening_fail(&opening, SLUICE_E_NONE, "there is no shared memory of that name");
	return sl_opening_fail(&opening, SLUICE_E_SYSTEM, "%s: %s", path.text, strerror(errno));
}

uint64_t sluice_store_pretouch(struct sluice_store *store, uint64_t from, uint64_t bytes) {
	const struct sl_home *home = sl_home_of(store);
	if (home == NULL || home->fd >= 0 || from >= store->arena_bytes)
		return 0;
	unsigned char *memory = (unsigned char *)store->header + from;
	uint64_t left = store->arena_bytes - from;
	uint64_t end = (uintptr_t)memory + sl_min(bytes, left);
	uint64_t now = sl_min(end + (HUGE_PAGE_BYTES - end % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES - (uintptr_t)memory, left);
	sl_map_touch(memory, now);
	return now == left ? 0 : from + now;
}

sluice_ns sluice_store_now(const struct sluice_store *store) {
	struct sl_home *home = sl_home_of(store);
	sluice_ns now;
	if (home == NULL)
		return sluice_now(); /* an arena that was mapped by others */
	now = home->offset_ns + sl_clock_boottime();
	if (now >= __atomic_load_n(&home->latest_ns, __ATOMIC_RELAXED))
		sl_home_raise_latest(home, now);
	return now;
}

/* ---- figures --------------------------------------------------------------------------------------------------- */

static void add_page(struct sluice_store *store, uint64_t page, sluice_ns now, struct sluice_store_stats *stats) {
	struct sl_page_figures figures = {0};
	(void)sl_store_scan(store, page, now, &figures, NULL, NULL);
	stats->passed_over += figures.held_up;
	stats->slots_used += figures.used;
	stats->slots_expired += figures.expired;
	stats->slots_spilled += figures.spilled;
	stats->slots_with_block += figures.with_block;
	stats->block_bytes += figures.block_bytes;
	for (int use = 0; use < SL_USES; use++)
		stats->uses[use] += figures.uses[use];
}

static uint64_t figure(const uint64_t *at) {
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

void sluice_store_stats(struct sluice_store *store, struct sluice_store_stats *stats) {
	const struct sl_header *header = store->header;
	sluice_ns now = sluice_store_now(store);
	*stats = (struct sluice_store_stats){
		.memory_bytes = store->arena_bytes,
		.blocks_percent = header->blocks_percent,
		.slots = store->page_count * SL_PAGE_SLOTS,
		.block_bytes_free = figure(&store->blocks->free_units) * SL_UNIT_BYTES,
		.sketch_bytes = header->cell_count * sizeof(struct sl_sketch_cell),
		.evicted = figure(&header->evicted),
		.from_sketch = figure(&header->sketch_starts),
		.recoveries = figure(&header->stolen_locks),
		.repairs = figure(&header->repairs),
		.dropped = figure(&header->dropped),
		.given_up = store->stalls != NULL ? figure(&store->stalls->given_up) : 0,
		.processes = sl_home_of(store) != NULL ? sl_home_processes(sl_home_of(store)) : 1,
		.created_ns = header->formatted_ns,
		.overrides = figure(&header->overrides),
		.overrides_most = sl_store_overrides_most(store),
	};
	/* Pages are locked to be read: who has no row of its own may not. */
	for (struct sl_walk walk = {.store = store}; store->owner != 0 && sl_walk_next(&walk);)
		add_page(store, walk.page, now, stats);
	stats->stopped = sl_stalls_count(store); /* after the walk, which may have found one */
}

const char *sluice_store_verify(const struct sluice_store *store) {
	return sl_store_verify(store);
}

sluice_err sluice_check(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                        uint32_t cost, struct sluice_decision *decision) {
	struct sluice_item item = {.limit = limit, .key = key};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost};
	sluice_err err;
	if (store == NULL || decision == NULL)
		return SLUICE_E_MISUSE;
	call.now = sluice_store_now(store);
	err = sluice_decide(store, &call);
	if (err == SLUICE_OK)
		*decision = call.merged;
	return err;
}
