/* Who holds leases, for hosts that list them (lease.c). */
#ifndef SL_CHECK_LEASE_H
#define SL_CHECK_LEASE_H

#include "store/store.h"

/* Lists the leases of a counter of concurrency, in no order: fills at most `room`; returns how many there are, or
 * SLUICE_HOLDERS_BUSY. O(n), under the lock of its home. */
uint32_t sl_store_leases(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                         sluice_ns now, struct sluice_holder *list, uint32_t room);

#endif
