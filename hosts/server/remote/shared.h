/* A fleet, as the files of this folder share it: one of a worker, on its loop. */
#ifndef SL_REMOTE_SHARED_H
#define SL_REMOTE_SHARED_H

#include "hosts/server/cluster/nodes.h"
#include "hosts/server/door/pending.h"

struct sl_fleet {
	struct sl_remote remote;
	struct sl_nodes *nodes;
	struct sl_quota_slices *slices; /* NULL: none are taken */
	struct sl_denial_cache *denials;
	struct sl_lanes *lanes;
	struct sl_call_batch *to_finish; /* ended while another was sent */
	struct sluice_store *store;
	struct sl_fleet_figures *figures;
	void (*say)(bool trouble, const char *line);
	char *prefix;
	sluice_ns budget_ns;
	uint64_t secret[2], ids;
	uint64_t hold_id; /* of all holds of this worker: one a counter */
	sluice_ns said_at;
	uint64_t unsaid;
	struct sl_loop loop;
	struct sl_timer *timer, *lane_timer;
	sluice_ns lanes_due; /* when lane_timer is set to; SLUICE_NEVER: it is not */
	sluice_ns lanes_set; /* and when it was set */
	bool stalled;        /* it came too late */
	bool told_apart;     /* the log has that retry-id is of no use for some requests */
	bool sending;        /* nobody is told meanwhile */
	bool closing, nodes_closing;
	void (*closed)(void *to);
	void *closed_to;
};

#endif
