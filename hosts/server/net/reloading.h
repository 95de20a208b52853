/* Where doors wait that have the policy read again: another thread reads it (lifecycle/reader.c), and a worker's looks
 * now and then whether that is over, serving everybody else meanwhile. */
#ifndef SL_RELOADING_H
#define SL_RELOADING_H

#include "hosts/server/door/pending.h"

#include <uv.h>

enum { SL_RELOADING_TICK_MS = 2 };

struct sl_reloading {
	struct sl_remote remote; /* context->reloading */
	const struct sl_shared *shared;
	uv_timer_t timer; /* runs while something is pending */
	struct sl_pending *first;
};

/* Makes an empty one on a worker's loop. Nothing but the timer is to be given back: sl_reloading_close(). */
void sl_reloading_init(struct sl_reloading *reloading, uv_loop_t *loop, const struct sl_shared *shared);

/* Closes the timer, and frees what is pending: nobody waits for them any more. */
void sl_reloading_close(struct sl_reloading *reloading);

#endif
