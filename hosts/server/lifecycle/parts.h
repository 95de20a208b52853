/* What there is one of in a server besides its store and its listeners: made together, ended together. */
#ifndef SL_PARTS_H
#define SL_PARTS_H

#include "hosts/server/door/door.h"

struct sl_parts {
	struct sl_shared shared; /* what the doors see of it */
	struct sl_figures *figures;
	struct sl_bounds *bounds;       /* of its connections */
	struct sl_failing failing;      /* whether its limits fail open */
	struct sl_fleet_figures *fleet; /* of each worker; NULL: counters of this host */
};

/* Makes all parts for so many workers, but for the denial log; false, of which nothing was said, where the system gives
 * no memory. End with sl_parts_free() in either case. */
SLUICE_MUST_USE bool sl_parts_make(struct sl_parts *parts, uint32_t workers, const struct sl_settings *settings);

/* Opens the denial log, if the settings name one. False after a line in the log. */
SLUICE_MUST_USE bool sl_parts_open_log(struct sl_parts *parts, const struct sl_settings *settings);
void sl_parts_free(struct sl_parts *parts);

#endif
