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

#include "algo/step.h"
#include "algo/traits.h"
#include "policy/policy.h"

enum {
	SL_STAGGER_WINDOWS = 16,
	SL_STAGGER_KEYS = 1024,
	SL_STAGGER_TICKETS = 1024, /* 16 bytes each, taken as they are needed: at most 16 MiB in all */
};

struct sl_stagger;

/* Makes the table; one a server, shared by its workers. NULL when the system gives no memory, or no random
 * bytes. */
struct sl_stagger *sl_stagger_new(void);
void sl_stagger_free(struct sl_stagger *stagger);

/* The wait to tell a caller whom `item` denies at `now` with this cost, and a ticket for it.
 *  store   where the waits after it are found, by peeking; NULL: it is elsewhere. Then a bucket's are found by the
 *          denial alone, which says how much it holds, and those of fixed windows, whose truth is the window's end:
 *          from there on tickets alone count. All other limits tell the truth, and so does a key with another quota of
 *          its own (OVERRIDE), which is spread by that quota where there is a store
 *  denial  as decided: retry_after_ns is the truth; SLUICE_NEVER is returned as it is
 * At least the truth, whole milliseconds. Any thread; about a microsecond, for windows and logs some more the longer
 * the line is. */
sluice_ns sl_stagger_next(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_item *item,
                          uint32_t cost, sluice_ns now, const struct sluice_decision *denial);

/* Whether a limit is staggered whose store is elsewhere. */
static inline bool sl_stagger_suits_elsewhere(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_DRAINS) || sl_step_goes_at_once(limit);
}

/* The position of an item that no policy says anything of. */
#define SL_POSITION_NOTATION UINT32_MAX

/* The same for each limit that denies a decided call and says `stagger: true`: lengthens each[i].retry_after_ns, and
 * what is merged of them. Nothing where the call is allowed.
 *  store      NULL: it is elsewhere
 *  positions  of the first `count` items in the policy, or SL_POSITION_NOTATION
 *  call       decided, with call->each filled */
void sl_stagger_call(struct sl_stagger *stagger, struct sluice_store *store, const struct sluice_policy *policy,
                     const uint32_t *positions, uint32_t count, struct sluice_call *call);

#endif
