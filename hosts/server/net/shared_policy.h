/* A policy that several workers use. */
#ifndef SL_SHARED_POLICY_H
#define SL_SHARED_POLICY_H

#include "policy/policy.h"

#include <stdatomic.h>

/* The last to let go frees it. */
struct sl_shared_policy {
	struct sluice_policy *policy;
	uint32_t *rows;     /* of its limits and routes in the stats */
	struct sl_tls *tls; /* its certificate, ready for use; NULL where it has none */
	_Atomic uint32_t holders;
	struct sl_shared_policy *next; /* its owner's list, if any */
};

/* Takes one more hold, and returns what it holds. From any thread. */
struct sl_shared_policy *sl_shared_policy_hold(struct sl_shared_policy *shared);
/* Does nobody else hold it? Then nobody else will, unless he is given it. From whoever holds it. */
bool sl_shared_policy_is_mine(const struct sl_shared_policy *shared);
/* Lets go of one hold. From any thread. Freeing takes some 100 ms where there are 100,000 limits. */
void sl_shared_policy_release(struct sl_shared_policy *shared);

#endif
