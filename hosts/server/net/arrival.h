/* A new connection on its way to its worker: just accepted, or from another process. */
#ifndef SL_ARRIVAL_H
#define SL_ARRIVAL_H

#include "hosts/server/door/door.h"
#include "hosts/server/net/bounds.h"
#include "hosts/server/net/listen.h"

enum { SL_PEER_TEXT_MAX = 64 };

/* What a connection brings along that comes from another process: door->pack()'s bytes, then input. */
struct sl_luggage {
	size_t packed_len, input_len;
	char bytes[];
};

struct sl_arrival {
	int fd;
	const struct sl_door *door;
	const struct sl_listener *listener; /* by which it came; lives until the workers have ended */
	char peer[SL_PEER_TEXT_MAX];
	struct sl_address address; /* of an inet socket */
	bool is_unix;
	bool is_named;              /* comes from another process, which has read its PROXY header */
	struct sl_bounds_entry place;      /* sl_bounds_admit()'s: how it is counted */
	struct sl_luggage *luggage; /* NULL of one that is new; owned, free() */
};

/* Counts it in. False where its address has too many already: it is counted as refused, the caller closes it.
 *  arrival  address and listener are read; place is filled */
SLUICE_MUST_USE bool sl_arrival_admit(struct sl_bounds *bounds, const struct sluice_policy *policy,
                                      struct sl_arrival *arrival);
/* Counts one in that comes from another process: it is let in, whatever the bounds say. Once is enough. */
void sl_arrival_admit_moved(struct sl_bounds *bounds, const struct sluice_policy *policy, struct sl_arrival *arrival);
/* Counts one out that no worker got, closes its descriptor and frees what it brought. */
void sl_arrival_dismiss(struct sl_bounds *bounds, struct sl_arrival *arrival);

#endif
