/* See parts.h. Made before the first thread starts, so nothing of it needs a lock to begin with. */
#include "hosts/server/lifecycle/parts.h"

#include "hosts/admission/stagger.h"
#include "hosts/server/watch/fleet_figures.h"
#include "hosts/server/net/bounds.h"

#include <stdlib.h>
#include <string.h>

static bool make_tops(struct sl_parts *parts, uint32_t workers) {
	struct sl_top **tops = calloc(workers, sizeof *tops);
	if (tops == NULL)
		return false;
	parts->shared.tops = tops;
	for (; parts->shared.top_count < workers; parts->shared.top_count++) {
		tops[parts->shared.top_count] = sl_top_new();
		if (tops[parts->shared.top_count] == NULL)
			return false;
	}
	return true;
}

static bool make_fleet_figures(struct sl_parts *parts, uint32_t workers) {
	parts->fleet = aligned_alloc(64, workers * sizeof *parts->fleet);
	if (parts->fleet == NULL)
		return false;
	memset(parts->fleet, 0, workers * sizeof *parts->fleet);
	parts->shared.fleet = parts->fleet;
	return true;
}

bool sl_parts_make(struct sl_parts *parts, uint32_t workers, const struct sl_settings *settings) {
	struct sl_shared *shared = &parts->shared;
	*parts = (struct sl_parts){.figures = aligned_alloc(64, sizeof *parts->figures)};
	if (parts->figures == NULL)
		return false;
	memset(parts->figures, 0, sizeof *parts->figures);
	parts->figures->worker_count = workers;
	shared->figures = parts->figures;
	shared->failing = &parts->failing;
	parts->bounds = sl_bounds_new(&parts->figures->refused);
	shared->stats = sl_stats_new(workers);
	shared->tail = sl_tail_new(workers);
	shared->stagger = sl_stagger_new();
	shared->access = sl_access_new();
	if (parts->bounds == NULL || shared->stats == NULL || shared->tail == NULL || shared->stagger == NULL ||
	    shared->access == NULL || !make_tops(parts, workers))
		return false;
	return settings->redis.address_count == 0 || make_fleet_figures(parts, workers);
}

bool sl_parts_open_log(struct sl_parts *parts, const struct sl_settings *settings) {
	if (settings->log.denials != NULL)
		parts->shared.denials = sl_denials_open(&settings->log);
	return settings->log.denials == NULL || parts->shared.denials != NULL;
}

void sl_parts_free(struct sl_parts *parts) {
	struct sl_shared *shared = &parts->shared;
	sl_store_stats_free(shared->store_stats);
	sl_denials_close(shared->denials);
	for (uint32_t i = 0; i < shared->top_count; i++)
		sl_top_free(shared->tops[i]);
	free((void *)shared->tops);
	sl_access_free(shared->access);
	sl_tail_free(shared->tail);
	sl_stagger_free(shared->stagger);
	sl_stats_free(shared->stats);
	sl_bounds_free(parts->bounds);
	free(parts->fleet);
	free(parts->figures);
}
