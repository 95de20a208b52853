/* What a worker counts of its connections to Redis. Written by it, read by any thread. */
#ifndef SL_CLUSTER_FIGURES_H
#define SL_CLUSTER_FIGURES_H

#include "hosts/server/watch/times.h"

struct sl_cluster_figures {
	_Atomic uint64_t refused;                     /* commands answered with an error */
	_Atomic uint64_t commands;                    /* sent */
	_Atomic uint64_t redirected;                  /* MOVED and ASK */
	_Atomic uint64_t connects;                    /* connections that were made */
	_Atomic uint64_t disconnects;                 /* and lost */
	_Atomic uint64_t breaks;                      /* times that a node's circuit was opened */
	_Atomic uint32_t nodes, nodes_up, nodes_open; /* known; answering; with an open circuit */
	struct sl_times asked;                        /* how long commands took */
};

#endif
