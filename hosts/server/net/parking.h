/* Where decisions wait that another process holds up: one that shares the store and was stopped with a lock in hand
 * (store/lock.h). A worker's thread never waits for it: the door gives up its turn, as it does for decisions that are
 * made elsewhere (door/pending.h), and meanwhile the worker serves everybody else. */
#ifndef SL_PARKING_H
#define SL_PARKING_H

#include "hosts/server/door/pending.h"
#include "store/lock.h"

#include <uv.h>

enum { SL_PARKING_TICK_MS = 2 };

struct sl_parking {
	struct sl_remote remote; /* context->parking */
	struct sluice_store *store;
	uv_timer_t timer; /* runs while something is pending */
	struct sl_pending *first, **end;
	uint32_t looks[SL_PROCESSES]; /* in a row that have found a process at the very lock, by row of the process table */
};

/* Makes an empty one on a worker's loop. Nothing but the timer is to be given back: sl_parking_close(). */
void sl_parking_init(struct sl_parking *parking, uv_loop_t *loop, struct sluice_store *store);

/* Closes the timer, and frees what is pending: nobody waits for them any more. */
void sl_parking_close(struct sl_parking *parking);

#endif
