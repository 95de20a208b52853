/* What /metrics and /v1/figures both tell, read once for an answer. */
#ifndef SL_HTTP_FIGURES_H
#define SL_HTTP_FIGURES_H

#include "hosts/server/http/door_http.h"
#include "hosts/server/watch/fleet_figures.h"

struct sl_http_figures {
	struct sl_stats_sum stats;
	struct sl_store_figures store;                         /* zeroes where there is no store's stats */
	uint64_t open[SL_TRANSPORTS], accepted[SL_TRANSPORTS]; /* connections: now, and ever */
	uint64_t refused, reloads_ok, reloads_failed, threads;
	sluice_ns started, reloaded;
	bool reload_failed;
	uint64_t log_written, log_dropped;
	bool has_fleet; /* the store is in Redis: */
	struct sl_fleet_sum fleet;
	uint32_t client_count;
	struct sl_client_sum clients[SL_CLIENTS_TOLD_MAX];
};

/* The words for the ways in which a fleet decides, in the order of enum sl_fleet_way. */
extern const char *const sl_http_fleet_ways[SL_WAYS];

/* Reads them; exchange->context->shared must have stats. O(workers), and as sl_client_stats_sums(); any thread. */
void sl_http_figures_read(const struct sl_http_exchange *exchange, struct sl_http_figures *figures);

#endif
