/* A connection whose door waits for decisions that are made elsewhere (door/pending.h).
 *
 *   feed -> SL_DOOR_WAIT -> suspend: nothing is read, what was not consumed is kept -> ready -> resume: fed again
 *
 * What was read under one policy is answered under it: the connection holds that policy until the door is done. A
 * connection that closes meanwhile lets go of what is pending; whoever decides it frees it. He bounds the time that it
 * takes, so nothing here does. */
#include "hosts/server/net/suspend.h"

#include "base/assert.h"
#include "os/clock.h"

static void on_ready(struct sl_pending *pending, void *to) {
	struct sl_connection *c = to;
	struct sl_worker_stats *stats = c->worker->context.stats;
	struct sl_pending **end = &c->ready;
	SL_ASSERT(pending == c->pending);
	if (stats != NULL && pending->reload == NULL)
		sl_times_add(&stats->decision, (sl_clock_monotonic() - pending->sent_at) / pending->call_count,
		             pending->call_count);
	while (*end != NULL)
		end = &(*end)->next;
	*end = pending;
	pending->next = NULL;
	c->pending = NULL;
	c->resume(c);
}

void sl_connection_suspend(struct sl_connection *c, void (*resume)(struct sl_connection *c)) {
	struct sl_door_context *context = &c->worker->context;
	c->resume = resume;
	c->pending = context->pending;
	c->pending->ready = on_ready;
	c->pending->to = c;
	if (c->policy == NULL)
		c->policy = sl_shared_policy_hold(c->worker->policy);
}

void sl_connection_forget_pending(struct sl_connection *c) {
	if (c->pending != NULL)
		c->pending->to = NULL;
	c->pending = NULL;
	sl_pending_free_all(c->ready);
	c->ready = NULL;
	c->ready_settled = 0;
	if (c->policy != NULL)
		sl_shared_policy_release(c->policy);
	c->policy = NULL;
}
