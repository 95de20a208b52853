/* Where a batch begins: what is decided here, and what has to be asked for. */
#ifndef SL_REMOTE_START_H
#define SL_REMOTE_START_H

#include "hosts/server/remote/call_batch.h"

/* Begins all calls. True: all have ended. The batch is the callee's. */
bool sl_call_batch_start(struct sl_call_batch *batch);

#endif
