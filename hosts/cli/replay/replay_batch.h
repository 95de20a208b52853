/* Requests of a recording, decided together: see replay_batch.c. */
#ifndef SL_CLI_REPLAY_BATCH_H
#define SL_CLI_REPLAY_BATCH_H

#include "hosts/cli/replay/replay.h"

/* The batch's memory: about 2 MiB, touched as used. NULL when there is none. */
struct sl_replay_batch *sl_replay_batch_open(void);
void sl_replay_batch_close(struct sl_replay_batch *batch);

/* Adds a request, deciding what has gathered when the batch is full. `file` and `number` say where it came from.
 * SL_GO_ON, or SL_EXIT_FAILED after saying why. */
int sl_replay_add(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t file, uint64_t number);

/* Decides what has gathered, and counts or prints it; then what is left to be released and committed comes to its end.
 * As sl_replay_add(). */
int sl_replay_end(struct sl_replay *replay);

#endif
