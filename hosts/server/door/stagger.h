/* Retry that does not stampede. A hundred callers denied within a millisecond, all told "retry in 3.2 s", come back as
 * one; all but a few are denied again. Where a limit says `stagger: true`, successive denied callers of a key are told
 * successive instants at which cost will be free again: the first one the true wait, the second one the wait for the
 * cost of both, and so on; never earlier than the truth.
 *
 * Tickets live outside of the store (a denial writes nothing there), in a table of bounded size; a key that is pushed out
 * of it is told the plain truth again. A ticket is forgotten when its instant has passed. */
#ifndef SL_STAGGER_H
#define SL_STAGGER_H

#include "policy/policy.h"

struct sl_stagger;

/* Makes the table; one a server, shared by its workers. NULL when the system gives no memory. */
struct sl_stagger *sl_stagger_new(void);
void sl_stagger_free(struct sl_stagger *stagger);

/* The wait to tell a caller whom `item` denies at `now` with this cost, and a ticket for it.
 *  truth_ns  the exact wait, as decided; SLUICE_NEVER is returned as it is
 * The waits behind it are found by peeking at `store`. At least truth_ns. Any thread; about a microsecond. */
sluice_ns sl_stagger_next(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_item *item,
                          uint32_t cost, sluice_ns now, sluice_ns truth_ns);

#endif
