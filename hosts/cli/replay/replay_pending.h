/* What becomes of requests later, in the log's time: leases that are released when their request ends, reservations
 * that are committed when its true cost is known. A heap, the earliest on top; of one instant, those of the earlier
 * request first. */
#ifndef SL_CLI_REPLAY_PENDING_H
#define SL_CLI_REPLAY_PENDING_H

#include "base/bytes.h"

enum { SL_PENDING_ID_BYTES = 17 };

/* One of them. What it points to is its own, but for the limits. */
struct sl_replay_pending {
	sluice_ns time;
	uint64_t order; /* of the request, from 1; its id is these digits */
	sluice_operation operation;
	uint32_t cost, reserved; /* COMMIT: the true cost, and what was reserved */
	uint32_t file;           /* where the request stands */
	uint64_t number;
	uint32_t item_count;
	struct sluice_item *items;
};

struct sl_replay_pendings {
	struct sl_replay_pending **heap;
	size_t count, room;
};

/* Adds a copy, keys and all, of those items that `wanted` is true for; nothing where there is none. O(log n). False
 * without memory. */
bool sl_replay_pending_add(struct sl_replay_pendings *pendings, const struct sl_replay_pending *pending,
                           bool (*wanted)(const struct sluice_item *item));

/* The earliest; NULL where there is none. */
const struct sl_replay_pending *sl_replay_pending_first(const struct sl_replay_pendings *pendings);

/* Drops the earliest. O(log n). */
void sl_replay_pending_drop(struct sl_replay_pendings *pendings);

/* The id of a request's lease and reservation: 16 hex digits, NUL-ended. */
void sl_replay_pending_id(uint64_t order, char text[SL_PENDING_ID_BYTES]);

/* Frees all that is left. */
void sl_replay_pendings_close(struct sl_replay_pendings *pendings);

#endif
