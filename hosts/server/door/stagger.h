/* Retry that does not stampede. A hundred callers denied within a millisecond, all told "retry in 3.2 s", come back as
 * one; all but a few are denied again. Where a limit says `stagger: true`, successive denied callers of a key are told
 * successive instants at which cost will be free again.
 *
 * What is promised, and to whom
 *  - Each denial takes a ticket: its cost, and the instant that it was told. Tickets of a key are in order: nobody is
 *    told an earlier instant than those before him, nor one earlier than the truth.
 *  - The instant is the first, in whole milliseconds, at which his cost is admitted if all who hold tickets come at
 *    theirs and nobody else comes. So if that is what happens, nobody is denied twice, and the quota is used as soon as
 *    it frees. The shares of `sliding-window` and of sub-buckets at a weighted edge are rounded up to whole cost.
 *  - A ticket is forgotten when its instant has passed, whether its holder came or not. Who comes late takes nothing
 *    from those after him, but under a bucket without room for more than his cost (burst 1): what it would have won
 *    back meanwhile is lost, and the next one is that much too early.
 *  - Tickets reach SL_STAGGER_WINDOWS windows ahead. Who would be told more begins a new round: he is told the truth
 *    again, and those before him are forgotten. So a caller who hammers can't send the others of his key away for days.
 *  - Several limits of a request are staggered each for itself; the caller is told the longest wait.
 *
 * Tickets live outside of the store (a denial writes nothing there), in a table of bounded size; a key that is pushed
 * out of it is told the plain truth again. A key has up to SL_STAGGER_TICKETS instants; beyond that two neighbours
 * become one, the later: callers are told a little later then, never earlier. */
#ifndef SL_STAGGER_H
#define SL_STAGGER_H

#include "policy/policy.h"

enum {
	SL_STAGGER_WINDOWS = 16,
	SL_STAGGER_KEYS = 1024,
	SL_STAGGER_TICKETS = 1024, /* 16 bytes each, taken as they are needed: at most 16 MiB in all */
};

struct sl_stagger;

/* Makes the table; one a server, shared by its workers. NULL when the system gives no memory. */
struct sl_stagger *sl_stagger_new(void);
void sl_stagger_free(struct sl_stagger *stagger);

/* The wait to tell a caller whom `item` denies at `now` with this cost, and a ticket for it.
 *  truth_ns  the exact wait, as decided; SLUICE_NEVER is returned as it is
 * The waits after it are found by peeking at `store`. At least truth_ns, whole milliseconds. Any thread; about a
 * microsecond, for windows and logs some more the longer the line is. */
sluice_ns sl_stagger_next(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_item *item,
                          uint32_t cost, sluice_ns now, sluice_ns truth_ns);

#endif
