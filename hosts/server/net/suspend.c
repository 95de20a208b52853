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

#include <stdlib.h>

/* Puts it after those that are there, and counts the time that it took. */
static void add_ready(struct sl_connection *c, struct sl_pending *pending, struct sl_pending **end) {
	struct sl_worker_stats *stats = c->worker->context.stats;
	if (stats != NULL && pending->reload == NULL)
		sl_times_add(&stats->decision, (sl_clock_monotonic() - pending->sent_at) / pending->call_count,
		             pending->call_count);
	while (*end != NULL)
		end = &(*end)->next;
	*end = pending;
	pending->next = NULL;
}

static void on_ready(struct sl_pending *pending, void *to) {
	struct sl_connection *c = to;
	SL_ASSERT(pending == c->pending);
	add_ready(c, pending, &c->ready);
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

/* ---- each on its own --------------------------------------------------------------------------------------------- */

static void on_waiting_ready(struct sl_pending *pending, void *to) {
	struct sl_waiting *waiting = to;
	SL_ASSERT(pending == waiting->pending);
	add_ready(waiting->c, pending, &waiting->ready);
	waiting->pending = NULL;
	waiting->c->resume_waiting(waiting);
}

static void free_waiting(struct sl_waiting *waiting) {
	if (waiting->pending != NULL)
		waiting->pending->to = NULL; /* whoever decides it frees it */
	*waiting->link = waiting->next;
	if (waiting->next != NULL)
		waiting->next->link = waiting->link;
	sl_pending_free_all(waiting->ready);
	sl_shared_policy_release(waiting->policy);
	free(waiting);
}

static struct sl_waiting *new_waiting(struct sl_connection *c, void *asker) {
	struct sl_waiting *waiting = calloc(1, sizeof *waiting);
	if (waiting == NULL)
		return NULL;
	*waiting = (struct sl_waiting){.c = c, .next = c->waiting, .link = &c->waiting, .asker = asker};
	waiting->policy = sl_shared_policy_hold(c->worker->policy);
	if (c->waiting != NULL)
		c->waiting->link = &waiting->next;
	c->waiting = waiting;
	return waiting;
}

bool sl_connection_put_off(struct sl_connection *c, struct sl_waiting *waiting,
                           void (*resume)(struct sl_waiting *waiting)) {
	struct sl_pending *pending = c->worker->context.put_off, *next;
	bool again = false, good = true;
	c->worker->context.put_off = NULL;
	c->resume_waiting = resume;
	for (; pending != NULL; pending = next) {
		next = pending->next;
		pending->next = NULL;
		bool more = waiting != NULL && pending->asker == waiting->asker;
		struct sl_waiting *of = more ? waiting : new_waiting(c, pending->asker);
		again = again || more;
		good = good && of != NULL;
		pending->ready = on_waiting_ready;
		pending->to = of; /* NULL: nobody waits for it */
		if (of != NULL && !more)
			of->ready = pending->before;
		else
			sl_pending_free_all(pending->before);
		pending->before = NULL;
		if (of != NULL)
			of->pending = pending;
	}
	if (waiting != NULL && !again)
		free_waiting(waiting);
	return good;
}

struct sl_waiting *sl_connection_next_ready(const struct sl_connection *c) {
	struct sl_waiting *waiting = c->waiting;
	while (waiting != NULL && waiting->pending != NULL)
		waiting = waiting->next;
	return waiting;
}

void sl_connection_forget_waiting(struct sl_connection *c) {
	while (c->waiting != NULL)
		free_waiting(c->waiting);
}
