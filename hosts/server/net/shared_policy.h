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
};

/* Takes one more hold, and returns what it holds. From any thread. */
struct sl_shared_policy *sl_shared_policy_hold(struct sl_shared_policy *shared);
/* Lets go of one hold. From any thread. */
void sl_shared_policy_release(struct sl_shared_policy *shared);

#endif
