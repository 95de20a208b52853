/* How an arrival is counted: in by its address, out when no worker gets it. */
#include "hosts/server/net/arrival.h"

#include <stdlib.h>
#include <unistd.h>

bool sl_arrival_admit(struct sl_bounds *bounds, const struct sluice_policy *policy, struct sl_arrival *arrival) {
	bool has_client = !arrival->is_unix && !arrival->listener->proxy_protocol;
	if (has_client && !sl_policy_trusts(policy, &arrival->address) &&
	    !sl_bounds_enter_address(bounds, &arrival->place, &arrival->address, sl_policy_settings(policy))) {
		sl_bounds_refuse(bounds);
		return false;
	}
	sl_bounds_enter(bounds, &arrival->place);
	return true;
}

void sl_arrival_admit_moved(struct sl_bounds *bounds, const struct sluice_policy *policy, struct sl_arrival *arrival) {
	struct sl_settings settings = *sl_policy_settings(policy);
	if (arrival->place.counted)
		return;
	settings.connections.per_address = 0;
	sl_bounds_enter(bounds, &arrival->place);
	if (!arrival->is_unix && (arrival->is_named || !arrival->listener->proxy_protocol) &&
	    !sl_policy_trusts(policy, &arrival->address))
		(void)!sl_bounds_enter_address(bounds, &arrival->place, &arrival->address, &settings);
}

void sl_arrival_dismiss(struct sl_bounds *bounds, struct sl_arrival *arrival) {
	sl_bounds_leave(bounds, &arrival->place);
	close(arrival->fd);
	free(arrival->luggage);
	arrival->luggage = NULL;
}
