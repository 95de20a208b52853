/* Failing open, told: while the store can't answer, limits with `on-error: allow` let requests pass that nobody has
 * decided. An operator has to know when that began, when it was over and how many passed meanwhile, and a log line for
 * each of them would tell nobody. So there are two lines for one outage, of all limits together:
 *
 *   limits fail open: login lets requests pass undecided (on-error: allow): the store did not answer in time
 *   limits hold again: 41234 requests passed undecided in 93.4 s
 *
 *  F1  They are open from the first request that passes undecided. They hold again when, SL_FAILING_QUIET_NS after the
 *      last such request or later, one is decided by the store: a store that answers now and then is one outage.
 *  F2  Where nobody asks, nobody knows: an outage ends with a decision, not with time.
 *
 * What each limit let pass, and in how many seconds, is counted in its row of the stats. */
#ifndef SL_FAILING_H
#define SL_FAILING_H

#include "base/bytes.h"

#include <stdatomic.h>

#define SL_FAILING_QUIET_NS ((sluice_ns)5000000000)

/* One a server, written by all its workers, relaxed: each field stands for itself. All 0: limits hold. */
struct sl_failing {
	_Atomic uint64_t since, last; /* instants of the first and the last request of the outage; since 0: there is none */
	_Atomic uint64_t passed;      /* requests of it */
};

/* A request passes undecided at `now` (Unix ns, not 0). `limit`: the first that lets it; `why`: in words. Writes the
 * first line where it is the first one. */
void sl_failing_pass(struct sl_failing *failing, sluice_ns now, const char *limit, const char *why);

/* The second line, if the outage is over: sl_failing_decided(). */
void sl_failing_end(struct sl_failing *failing, sluice_ns now);

/* A request was decided by the store at `now`. About a ns while limits hold. */
static inline void sl_failing_decided(struct sl_failing *failing, sluice_ns now) {
	if (__builtin_expect(atomic_load_explicit(&failing->since, memory_order_relaxed) != 0, 0))
		sl_failing_end(failing, now);
}

#endif
