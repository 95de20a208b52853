/* Charging what has been admitted elsewhere or before: a lease that is settled or has ended, a charge that a primary
 * tells of. No limit is asked, and a cost that no counter could hold is cut to what it can. */
#ifndef SLR_FORCE_H
#define SLR_FORCE_H

#include "algo/ledger.h"
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

/* Corrects charges (algo/ledger.h) of a copied state; *fresh as above. */
SLUICE_MUST_USE bool slr_correct(const struct sluice_limit *limit, struct sl_counter *step,
                                 const struct sl_correction *list, uint32_t count, void **fresh);

/* Charges whatever the quota (sl_step_count()); *fresh as above. */
SLUICE_MUST_USE bool slr_count(const struct sluice_limit *limit, struct sl_counter *step, sluice_ns instant,
                               uint32_t cost, void **fresh);

/* What may happen to one lease or member of a counter: it ends, ends T from now, or is forgotten. Returns whether
 * anything changed. */
enum slr_end { SLR_END_RELEASE, SLR_END_RENEW, SLR_END_FORGET };
bool slr_end_counter(const struct sluice_limit *limit, struct slr_counter *counter, enum slr_end end, sluice_ns instant,
                     uint64_t who);

/* Charge a counter in its place: for somebody, `who` (0: nobody), as is forced; as is counted; and correct it. False as
 * slr_force(). */
SLUICE_MUST_USE bool slr_force_counter(const struct sluice_limit *wide, struct slr_counter *counter, sluice_ns instant,
                                       uint32_t cost, uint64_t who);
SLUICE_MUST_USE bool slr_count_counter(const struct sluice_limit *limit, struct slr_counter *counter, sluice_ns instant,
                                       uint32_t cost);
SLUICE_MUST_USE bool slr_correct_counter(const struct sluice_limit *limit, struct slr_counter *counter,
                                         const struct sl_correction *list, uint32_t count);

#endif
