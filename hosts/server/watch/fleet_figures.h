/* What a front counts of its fleet. Written by one worker, read by any thread (metrics, dashboard). */
#ifndef SL_FLEET_FIGURES_H
#define SL_FLEET_FIGURES_H

#include "hosts/server/watch/cluster_figures.h"

/* How a call was decided. */
enum sl_fleet_way {
	SL_WAY_ASKED,  /* by one command */
	SL_WAY_HELD,   /* over several slots: hold, then confirm or cancel */
	SL_WAY_SLICE,  /* from slices of quota that are here: no command */
	SL_WAY_KNOWN,  /* denied by a denial that still holds: no command */
	SL_WAY_LOCAL,  /* nobody answered: by counters of this process */
	SL_WAY_FAILED, /* nobody answered: on-error allow or deny, or an error */
	SL_WAYS
};

struct sl_fleet_figures {
	_Alignas(64) _Atomic uint64_t decided[SL_WAYS];
	_Atomic uint64_t late;                        /* calls whose budget was over before the answer came */
	_Atomic uint64_t slice_units, returned;       /* units of cost taken in slices, and given back unspent */
	_Atomic uint64_t lost_confirms;               /* holds that could not be confirmed in time */
	_Atomic uint32_t slices;                      /* slices held now */
	struct sl_cluster_figures cluster;
};

/* The same of all workers. */
struct sl_fleet_sum {
	uint64_t decided[SL_WAYS], late, refused, commands, redirected, connects, disconnects, breaks, slice_units,
		returned;
	uint64_t lost_confirms, slices;
	uint64_t nodes, nodes_up, nodes_open; /* each worker has connections of its own: the most, least, and most of any */
	uint64_t asked[SL_TIMES];             /* by bucket, as stats have them */
	sluice_ns asked_ns;
};

/* Adds up the figures of `count` workers, at least 1. Any thread. */
void sl_fleet_sum(const struct sl_fleet_figures *figures, uint32_t count, struct sl_fleet_sum *sum);

#endif
