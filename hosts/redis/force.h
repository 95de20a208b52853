/* Charging what has been admitted elsewhere or before: a lease that is settled or has ended, a charge that a primary
 * tells of. No limit is asked, and a cost that no counter could hold is cut to what it can. */
#ifndef SLR_FORCE_H
#define SLR_FORCE_H

#include "hosts/redis/value.h"

/* A limit with the counters and the rate of `limit`, that admits as much as any can. */
struct sluice_limit slr_widened(const struct sluice_limit *limit);

/* Charges `cost` at `instant` to a copied state and its block, in place; or, where the block is too short, into a fresh
 * one, which step->block then is and *fresh too: the caller's, as the old one still is. *fresh is NULL otherwise.
 *  wide  of slr_widened() or slr_widest_limit()
 * False: the log has as many entries as one may have, and nothing was changed. */
SLUICE_MUST_USE bool slr_force(const struct sluice_limit *wide, struct sl_counter *step, sluice_ns instant,
                               uint32_t cost, void **fresh);

/* The half of slr_force() behind the step, for a counter that sl_step() has charged with `cost` > 0 at this instant. */
SLUICE_MUST_USE bool slr_force_stepped(const struct sluice_limit *limit, struct sl_counter *step, sluice_ns instant,
                                       uint32_t cost, void **fresh);

/* Charges a counter in its place. False as slr_force(). */
SLUICE_MUST_USE bool slr_force_counter(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant,
                                       uint32_t cost);

#endif
