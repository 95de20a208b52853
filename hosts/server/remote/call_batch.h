/* Batches: the calls that a door has sent away together, until all of them are decided. */
#ifndef SL_CALL_BATCH_H
#define SL_CALL_BATCH_H

#include "hosts/server/remote/remote_call.h"

struct sl_call_batch {
	struct sl_fleet *fleet;
	struct sl_pending *pending;
	sluice_ns deadline;
	uint32_t left;              /* calls that have not ended */
	bool starting;              /* within send() */
	struct sl_call_batch *next; /* of those that are ready */
	struct sl_remote_call calls[];
};

/* Makes a batch of pending calls, all memory in one piece; NULL when the system gives none. */
struct sl_call_batch *sl_call_batch_new(struct sl_fleet *fleet, struct sl_pending *pending);

/* A call of it has ended: with the last one the batch is freed, and whoever waits for it is told. */
void sl_call_batch_end_one(struct sl_call_batch *batch);

/* Tells those whose batches ended while another was sent. */
void sl_call_batches_finish(struct sl_fleet *fleet);

#endif
