/* The anchor of a store's clock: what it is moved by, decided from what is stored and what this boot says. Pure. */
#ifndef SL_ANCHOR_H
#define SL_ANCHOR_H

#include "store/latest.h"
#include "store/layout.h"

/* What the host says when a store is opened. */
struct sl_boot {
	uint64_t id[2]; /* of this boot; both 0 when the system does not say */
	sluice_ns wall_ns;
	sluice_ns boottime_ns; /* of the host, not of a time namespace */
};

/* The anchor that a store has from now on: what both of its copies are to hold. Returns whether an anchor of this boot
 * was kept.
 *  copies  as they are stored: any bytes
 *  secret  the arena's */
bool sl_anchor_choose(const struct sl_anchor copies[2], const uint64_t secret[2], const struct sl_boot *boot,
                      struct sl_anchor *chosen);

#endif
