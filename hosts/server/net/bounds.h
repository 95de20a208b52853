/* How many connections there are: in all, and of each client address. One for the server, shared by its workers.
 *
 * An IPv4 address counts for itself, an IPv6 one for its network (ipv6-prefix). Unix sockets and trusted proxies have
 * no client's address and are counted in all only; behind a PROXY header it is the address that the header names. */
#ifndef SL_BOUNDS_H
#define SL_BOUNDS_H

#include "policy/address.h"
#include "policy/policy.h"

#include <stdatomic.h>

struct sl_bounds;

/* How a connection is counted, for letting go of it when it ends. */
struct sl_bounds_entry {
	bool counted;    /* in all */
	bool by_address; /* and for this address */
	struct sl_address network;
};

/* Makes it; `refused` counts whom it turns away. NULL when the system gives no memory or no random bytes. */
struct sl_bounds *sl_bounds_new(_Atomic uint64_t *refused);
void sl_bounds_free(struct sl_bounds *bounds);

/* Counts one more in all, and returns how many there are with it. */
uint32_t sl_bounds_enter(struct sl_bounds *bounds, struct sl_bounds_entry *place);
/* Counts one more of an address. False, counting nothing, where that would be more than
 * settings->connections.per_address (0: any number), or there is no memory. Any thread; a lock and some 50 ns. */
SLUICE_MUST_USE bool sl_bounds_enter_address(struct sl_bounds *bounds, struct sl_bounds_entry *place,
                                             const struct sl_address *address, const struct sl_settings *settings);
/* Counts one less, as `place` says; any thread. */
void sl_bounds_leave(struct sl_bounds *bounds, struct sl_bounds_entry *place);
/* How many there may be in all: what connections.max allows and descriptors suffice for; UINT32_MAX: any number. */
void sl_bounds_set_descriptors(struct sl_bounds *bounds, uint32_t descriptors);
uint32_t sl_bounds_most(const struct sl_bounds *bounds, const struct sl_settings *settings);
/* Counts a connection that was turned away. */
void sl_bounds_refuse(struct sl_bounds *bounds);
/* How many there are in all. */
uint32_t sl_bounds_open(const struct sl_bounds *bounds);

#endif
