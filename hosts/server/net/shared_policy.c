/* Holds on a policy: whoever lets go last frees it, from whichever thread. */
#include "hosts/server/net/shared_policy.h"

#include "hosts/server/tls/tls.h"

#include <stdlib.h>

void sl_shared_policy_release(struct sl_shared_policy *shared) {
	/* acq_rel: whoever frees it must see that all others are done with it */
	if (atomic_fetch_sub_explicit(&shared->holders, 1, memory_order_acq_rel) != 1)
		return;
	sluice_policy_free(shared->policy);
	sl_tls_free(shared->tls);
	free(shared->rows);
	free(shared);
}

struct sl_shared_policy *sl_shared_policy_hold(struct sl_shared_policy *shared) {
	atomic_fetch_add_explicit(&shared->holders, 1, memory_order_relaxed);
	return shared;
}

bool sl_shared_policy_is_mine(const struct sl_shared_policy *shared) {
	return atomic_load_explicit(&shared->holders, memory_order_acquire) == 1; /* pairs with release */
}
