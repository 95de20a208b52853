/* See reloading.h. A timer looks at tickets, because the reader's thread may not touch a worker's connections.
 *
 * The list is linked by `next`, which no door uses meanwhile: whoever asks for a reload waits with its whole
 * connection, and is never put off (sl_pending_put_off()). */
#include "hosts/server/net/reloading.h"

#include "base/assert.h"

#include <stdio.h>

static void on_tick(uv_timer_t *timer);

static bool on_send(struct sl_remote *remote, struct sl_pending *pending) {
	struct sl_reloading *reloading =
		(struct sl_reloading *)(void *)((char *)remote - offsetof(struct sl_reloading, remote));
	pending->owner = reloading->shared->reload_ask(reloading->shared->server, true);
	if (pending->owner == NULL) {
		snprintf(pending->reload->messages, sizeof pending->reload->messages,
		         "the policy can't be reloaded now: too many reloads are waiting");
		return true;
	}
	pending->next = reloading->first;
	reloading->first = pending;
	if (!uv_is_active((uv_handle_t *)&reloading->timer))
		uv_timer_start(&reloading->timer, on_tick, SL_RELOADING_TICK_MS, SL_RELOADING_TICK_MS);
	return false;
}

static void on_tick(uv_timer_t *timer) {
	struct sl_reloading *reloading = timer->data;
	const struct sl_shared *shared = reloading->shared;
	struct sl_pending *pending = reloading->first, *next;
	/* those that stay are put back one by one: those that are ready let connections send others */
	reloading->first = NULL;
	for (; pending != NULL; pending = next) {
		next = pending->next;
		if (pending->to != NULL && !shared->reload_look(shared->server, pending->owner, pending->reload)) {
			pending->next = reloading->first;
			reloading->first = pending;
			continue;
		}
		shared->reload_leave(shared->server, pending->owner);
		if (pending->to != NULL)
			pending->ready(pending, pending->to);
		else
			sl_pending_free(pending);
	}
	if (reloading->first == NULL)
		uv_timer_stop(timer);
}

void sl_reloading_init(struct sl_reloading *reloading, uv_loop_t *loop, const struct sl_shared *shared) {
	*reloading = (struct sl_reloading){.remote.send = on_send, .shared = shared};
	SL_ASSERT(uv_timer_init(loop, &reloading->timer) == 0);
	reloading->timer.data = reloading;
}

void sl_reloading_close(struct sl_reloading *reloading) {
	for (struct sl_pending *pending = reloading->first, *next; pending != NULL; pending = next) {
		next = pending->next;
		reloading->shared->reload_leave(reloading->shared->server, pending->owner);
		sl_pending_free(pending);
	}
	reloading->first = NULL;
	uv_close((uv_handle_t *)&reloading->timer, NULL);
}
