/* Place-holder: its owner writes it. */
#include "hosts/server/fleet/fleet.h"
sluice_err sl_fleet_open(struct sl_fleet **fleet, const struct sl_fleet_options *options, struct sluice_error *error) {
	(void)fleet, (void)options, (void)error;
	return SLUICE_E_SYSTEM;
}
struct sl_remote *sl_fleet_remote(struct sl_fleet *fleet) {
	(void)fleet;
	return NULL;
}
void sl_fleet_close(struct sl_fleet *fleet, void (*closed)(void *to), void *to) {
	(void)fleet, (void)closed, (void)to;
}
