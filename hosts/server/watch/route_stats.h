/* Denials by route: how often each limit denied, by the path of its `when` that the request had. The stats own them
 * (stats.h), call_outcome.c counts in them, the metrics read them.
 *
 * A row belongs to the name of a limit and the text of one of its routes, as the policy writes them; no row ever comes
 * from a path that a request has. Rows outlive reloads as those of limits do. Each worker has counters of its own,
 * which it alone writes; readers add them up. */
#ifndef SL_ROUTE_STATS_H
#define SL_ROUTE_STATS_H

#include "hosts/server/watch/times.h"
#include "policy/policy.h"

enum {
	/* Rows remembered: more than the routes of two policies, as with limits (SL_ROWS_MAX). */
	SL_ROUTE_ROWS_MAX = 2 * SL_POLICY_ROUTES_MAX + 64,
	SL_ROUTE_TEXT_MAX = 255,       /* bytes of a route that is counted; a longer one has no row */
	SL_ROUTE_ROW_NONE = UINT32_MAX /* the row of what is not counted */
};

struct sl_route_stats;

/* Makes them for so many workers, at least one; NULL when the system gives no memory. */
struct sl_route_stats *sl_route_stats_new(uint32_t workers);
void sl_route_stats_free(struct sl_route_stats *stats);

/* The counters of a worker, 0..workers-1, by row: SL_ROUTE_ROWS_MAX of them, to be written by that worker only. Owned
 * by the stats. */
_Atomic uint64_t *sl_route_stats_worker(struct sl_route_stats *stats, uint32_t worker);

/* Gives each route of a policy its row: fills rows[0 .. sl_policy_route_count()), by the routes' numbers. To be called
 * for every policy that is taken over, before it is used. From any thread; O(routes x rows). */
void sl_route_stats_enter(struct sl_route_stats *stats, const struct sluice_policy *policy, uint32_t *rows);

/* The sum of all workers of one row. */
struct sl_route_sum {
	char limit[SLUICE_NAME_BYTES_MAX + 1], route[SL_ROUTE_TEXT_MAX + 1];
	uint64_t denied;
};

/* The highest row in use + 1. From any thread. */
uint32_t sl_route_stats_count(const struct sl_route_stats *stats);
/* Adds up a row; false where it is not in use. From any thread. */
bool sl_route_stats_row(const struct sl_route_stats *stats, uint32_t row, struct sl_route_sum *sum);

#endif
