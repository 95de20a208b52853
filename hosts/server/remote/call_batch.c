/* See call_batch.h: made, counted down, and handed back. */
#include "hosts/server/remote/call_batch.h"

#include "base/assert.h"
#include "hosts/server/remote/sending.h"

#include <stdlib.h>

struct sl_call_batch *sl_call_batch_new(struct sl_fleet *fleet, struct sl_pending *pending) {
	size_t items = 0, count = pending->call_count;
	struct sl_call_batch *batch;
	struct sl_remote_item *next;
	for (size_t c = 0; c < count; c++)
		items += pending->calls[c].call.item_count;
	batch = malloc(sizeof *batch + count * sizeof batch->calls[0] + items * sizeof *next);
	if (batch == NULL)
		return NULL;
	*batch = (struct sl_call_batch){.fleet = fleet,
	                                .pending = pending,
	                                .deadline = pending->sent_at + fleet->budget_ns,
	                                .left = pending->call_count};
	next = (struct sl_remote_item *)&batch->calls[count];
	memset(next, 0, items * sizeof *next);
	for (size_t c = 0; c < count; c++) {
		batch->calls[c] = (struct sl_remote_call){.batch = batch, .call = &pending->calls[c], .items = next};
		next += pending->calls[c].call.item_count;
	}
	pending->owner = batch;
	return batch;
}

void sl_call_batch_end_one(struct sl_call_batch *batch) {
	struct sl_pending *pending = batch->pending;
	SL_ASSERT(batch->left > 0);
	if (--batch->left != 0 || batch->starting)
		return;
	if (batch->fleet->sending) {
		batch->next = batch->fleet->to_finish;
		batch->fleet->to_finish = batch;
		sl_fleet_wake(batch->fleet, 0);
		return;
	}
	free(batch);
	if (pending->to == NULL)
		sl_pending_free(pending);
	else
		pending->ready(pending, pending->to);
}

void sl_call_batches_finish(struct sl_fleet *fleet) {
	while (fleet->to_finish != NULL) {
		struct sl_call_batch *batch = fleet->to_finish;
		fleet->to_finish = batch->next;
		batch->left = 1;
		sl_call_batch_end_one(batch);
	}
}
