/* How full it is, and who gives way to a newcomer. To be called on the first worker's thread. */
#ifndef SL_CROWD_H
#define SL_CROWD_H

#include "hosts/server/net/worker.h"

enum sl_room {
	SL_ROOM_YES,  /* it is gone */
	SL_ROOM_SOON, /* somebody of another worker was asked to give way: ask again in a millisecond */
	SL_ROOM_NO,   /* nobody has waited for long enough to give way */
};

/* Are there as many connections as there may be, by connections.max and by what descriptors leave? */
bool sl_worker_is_full(const struct sl_worker *worker);
/* Asks the connection that has waited longest of all workers' (lingering ones, then idle ones, then unfinished requests
 * and answers that are not read) to give way to a newcomer. */
enum sl_room sl_worker_shed(struct sl_worker *workers, uint32_t worker_count);
/* Tells the bounds how many descriptors connections may have, from what is open now and what the process may open: all
 * but a few, so that a policy can still be read when connections have taken the rest. */
void sl_worker_count_descriptors(struct sl_worker *worker);

#endif
