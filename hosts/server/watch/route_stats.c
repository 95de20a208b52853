/* Denials by route: a table of names, and counters that only their worker writes. B1 to B3 of stats.c hold here, too:
 * a name keeps its row, the longest unused row goes to a new name only when no other is free, and nobody sets a counter
 * to 0: a row's new name subtracts what was counted before it. */
#include "hosts/server/watch/route_stats.h"

#include "base/assert.h"

#include <pthread.h>
#include <stdlib.h>

struct name {
	struct sl_route_sum shown; /* `denied` of it: what the row counted under names that had it earlier */
	uint64_t entered;          /* number of the last policy that has it */
};

struct sl_route_stats {
	uint32_t workers;
	_Atomic uint64_t *counters; /* SL_ROUTE_ROWS_MAX of each worker */
	pthread_mutex_t lock;       /* guards all of the following */
	uint64_t policies;          /* entered so far */
	uint32_t count;
	struct name names[SL_ROUTE_ROWS_MAX];
};

_Static_assert(SL_ROUTE_ROWS_MAX > 2 * SL_POLICY_ROUTES_MAX, "two policies must fit");
_Static_assert(SL_ROUTE_ROWS_MAX * sizeof(uint64_t) % 64 == 0, "workers share no cache line");

struct sl_route_stats *sl_route_stats_new(uint32_t workers) {
	struct sl_route_stats *stats = calloc(1, sizeof *stats);
	size_t bytes = (size_t)workers * SL_ROUTE_ROWS_MAX * sizeof *stats->counters;
	if (stats == NULL)
		return NULL;
	stats->counters = aligned_alloc(64, bytes);
	if (stats->counters == NULL) {
		free(stats);
		return NULL;
	}
	memset((void *)stats->counters, 0, bytes);
	stats->workers = workers;
	pthread_mutex_init(&stats->lock, NULL);
	return stats;
}

void sl_route_stats_free(struct sl_route_stats *stats) {
	if (stats == NULL)
		return;
	pthread_mutex_destroy(&stats->lock);
	free((void *)stats->counters);
	free(stats);
}

_Atomic uint64_t *sl_route_stats_worker(struct sl_route_stats *stats, uint32_t worker) {
	SL_ASSERT(worker < stats->workers);
	return stats->counters + (size_t)worker * SL_ROUTE_ROWS_MAX;
}

/* All that was ever counted in a row, whatever its name. */
static uint64_t counted(const struct sl_route_stats *stats, uint32_t row) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < stats->workers; i++)
		sum += atomic_load_explicit(&stats->counters[(size_t)i * SL_ROUTE_ROWS_MAX + row], memory_order_relaxed);
	return sum;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool is_named(const struct name *name, const char *limit, struct sluice_bytes route) {
	return sl_bytes_equal(sl_str(name->shown.route), route) && strcmp(name->shown.limit, limit) == 0;
}

static uint32_t find_name(const struct sl_route_stats *stats, const char *limit, struct sluice_bytes route) {
	for (uint32_t row = 0; row < stats->count; row++)
		if (is_named(&stats->names[row], limit, route))
			return row;
	return SL_ROUTE_ROW_NONE;
}

/* As in stats.c, it is neither of the policy being entered nor of the one before it. */
static uint32_t longest_unused(const struct sl_route_stats *stats) {
	uint32_t best = 0;
	for (uint32_t row = 1; row < SL_ROUTE_ROWS_MAX; row++)
		if (stats->names[row].entered < stats->names[best].entered)
			best = row;
	SL_ASSERT(stats->names[best].entered + 1 < stats->policies);
	return best;
}

static uint32_t take_row(struct sl_route_stats *stats, const char *limit, struct sluice_bytes route) {
	uint32_t row = stats->count < SL_ROUTE_ROWS_MAX ? stats->count++ : longest_unused(stats);
	struct sl_route_sum *shown = &stats->names[row].shown;
	size_t len = strlen(limit);
	SL_ASSERT(len <= SLUICE_NAME_BYTES_MAX && route.len <= SL_ROUTE_TEXT_MAX);
	memcpy(shown->limit, limit, len + 1);
	memcpy(shown->route, route.data, route.len);
	shown->route[route.len] = '\0';
	shown->denied = counted(stats, row);
	return row;
}

/* Finds the rows of a limit's routes; those without one take theirs where `take`. */
static void enter_limit(struct sl_route_stats *stats, const struct sluice_policy *policy, uint32_t position, bool take,
                        uint32_t *rows) {
	const char *limit = sl_policy_limit_at(policy, position)->name;
	struct sl_policy_routes routes = sl_policy_routes(policy, position);
	for (uint32_t i = 0; i < routes.count; i++) {
		struct sluice_bytes route = sl_policy_route_at(policy, position, i);
		uint32_t row = find_name(stats, limit, route);
		if (row == SL_ROUTE_ROW_NONE && take && route.len <= SL_ROUTE_TEXT_MAX)
			row = take_row(stats, limit, route);
		if (row != SL_ROUTE_ROW_NONE)
			stats->names[row].entered = stats->policies;
		rows[routes.first + i] = row;
	}
}

void sl_route_stats_enter(struct sl_route_stats *stats, const struct sluice_policy *policy, uint32_t *rows) {
	uint32_t count = sl_policy_limit_count(policy);
	pthread_mutex_lock(&stats->lock);
	stats->policies++;
	for (uint32_t i = 0; i < count; i++) /* those that stay, before any row is given away */
		enter_limit(stats, policy, i, false, rows);
	for (uint32_t i = 0; i < count; i++)
		enter_limit(stats, policy, i, true, rows);
	pthread_mutex_unlock(&stats->lock);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Readers see const stats; the lock is no part of what they see. */
static void lock(const struct sl_route_stats *stats) {
	pthread_mutex_lock((pthread_mutex_t *)&stats->lock);
}

static void unlock(const struct sl_route_stats *stats) {
	pthread_mutex_unlock((pthread_mutex_t *)&stats->lock);
}

uint32_t sl_route_stats_count(const struct sl_route_stats *stats) {
	lock(stats);
	uint32_t count = stats->count;
	unlock(stats);
	return count;
}

bool sl_route_stats_row(const struct sl_route_stats *stats, uint32_t row, struct sl_route_sum *sum) {
	lock(stats);
	bool used = row < stats->count;
	if (used) {
		*sum = stats->names[row].shown;
		sum->denied = counted(stats, row) - sum->denied;
	}
	unlock(stats);
	return used;
}
