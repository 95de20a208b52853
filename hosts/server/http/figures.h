/* What /metrics and /v1/figures both tell, read once for an answer. */
#ifndef SL_HTTP_FIGURES_H
#define SL_HTTP_FIGURES_H

#include "hosts/server/http/door_http.h"

struct sl_http_figures {
	struct sl_books_sum books;
	struct sl_store_figures store;                         /* zeroes where there is no census */
	uint64_t open[SL_TRANSPORTS], accepted[SL_TRANSPORTS]; /* connections: now, and ever */
	uint64_t refused, reloads_ok, reloads_failed, threads;
	sluice_ns started, reloaded;
	bool reload_failed;
	uint64_t log_written, log_dropped;
};

/* Reads them; turn->context->shared must have books. O(workers); any thread. */
void sl_http_figures_read(const struct sl_http_turn *turn, struct sl_http_figures *figures);

#endif
