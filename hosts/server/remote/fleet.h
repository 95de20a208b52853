/* The fleet: how a front decides over nodes of Redis or Valkey. One a worker thread, on its loop; no locks.
 *
 *   fleet.c         opened, closed, asked         call_batch.c    calls that were sent together
 *   start.c         what is decided here          remote_call.c   one call: asked
 *   lane.c          calls that share a counter, in their order, and what is held for them
 *   plan.c          items -> commands, by slot    sending.c       commands -> nodes
 *   slice.c         slices of hot counters        rate.c          which are hot
 *   denial_cache.c  denials that still hold       fallback.c      what a call gets when nobody answers
 *   look.c          what counters hold, told      remote_override.c  quotas of keys' own
 *
 * The nodes are cluster/nodes.h: connections, slots, scripts, who is up. What is counted: watch/fleet_figures.h.
 *
 * See docs/design/011-redis.md for the commands and why, docs/fleet.md for what users are told. */
#ifndef SL_FLEET_H
#define SL_FLEET_H

#include "hosts/server/door/pending.h"
#include "hosts/server/loop/loop.h"
#include "hosts/server/watch/fleet_figures.h"

struct sl_fleet;

struct sl_fleet_options {
	const struct sl_redis_settings *settings; /* copied: may go after the call */
	struct sl_loop loop; /* whose time is that of struct sl_pending */
	struct sluice_store *store;       /* of this process: on-error: local */
	struct sl_fleet_figures *figures; /* this worker's */
	const char *password;             /* NULL: none; copied */
	/* The log, may be NULL: nodes that come and go, at most some lines a second; `trouble`: a warning. */
	void (*say)(bool trouble, const char *line);
};

/* Makes a fleet and begins to connect; it can be asked at once. False:
 * error->text says why, such as a certificate that can't be read or an address that is none. */
SLUICE_MUST_USE bool sl_fleet_open(struct sl_fleet **fleet, const struct sl_fleet_options *options,
                                   struct sluice_error *error);

/* What doors ask (context->remote); lives as long as the fleet. */
struct sl_remote *sl_fleet_remote(struct sl_fleet *fleet);

/* Ends it: returns slices, ends what is still pending as SLUICE_E_AWAY, closes connections. `closed` is called when
 * nothing of it is left on the loop, within a second; it may be NULL. */
void sl_fleet_close(struct sl_fleet *fleet, void (*closed)(void *to), void *to);

#endif
