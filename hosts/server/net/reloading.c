#include "hosts/server/net/reloading.h"

#include "base/assert.h"

#include <stdio.h>

static void on_tick(uv_timer_t *timer);

static bool launch(struct sl_remote *remote, struct sl_flight *flight) {
	struct sl_reloading *reloading =
		(struct sl_reloading *)(void *)((char *)remote - offsetof(struct sl_reloading, remote));
	flight->fleet_own = reloading->shared->reload_ask(reloading->shared->server, true);
	if (flight->fleet_own == NULL) {
		snprintf(flight->reload->messages, sizeof flight->reload->messages,
		         "the policy can't be read again now: it is being read for many others");
		return true;
	}
	flight->next = reloading->first;
	reloading->first = flight;
	if (!uv_is_active((uv_handle_t *)&reloading->timer))
		uv_timer_start(&reloading->timer, on_tick, SL_RELOADING_TICK_MS, SL_RELOADING_TICK_MS);
	return false;
}

static void on_tick(uv_timer_t *timer) {
	struct sl_reloading *reloading = timer->data;
	const struct sl_shared *shared = reloading->shared;
	struct sl_flight *flight = reloading->first, *next;
	/* those that stay are put back one by one: landing lets connections launch others */
	reloading->first = NULL;
	for (; flight != NULL; flight = next) {
		next = flight->next;
		if (flight->to != NULL && !shared->reload_look(shared->server, flight->fleet_own, flight->reload)) {
			flight->next = reloading->first;
			reloading->first = flight;
			continue;
		}
		shared->reload_leave(shared->server, flight->fleet_own);
		if (flight->to != NULL)
			flight->landed(flight, flight->to);
		else
			sl_flight_free(flight);
	}
	if (reloading->first == NULL)
		uv_timer_stop(timer);
}

void sl_reloading_init(struct sl_reloading *reloading, uv_loop_t *loop, const struct sl_shared *shared) {
	*reloading = (struct sl_reloading){.remote.launch = launch, .shared = shared};
	SL_ASSERT(uv_timer_init(loop, &reloading->timer) == 0);
	reloading->timer.data = reloading;
}

void sl_reloading_close(struct sl_reloading *reloading) {
	for (struct sl_flight *flight = reloading->first, *next; flight != NULL; flight = next) {
		next = flight->next;
		reloading->shared->reload_leave(reloading->shared->server, flight->fleet_own);
		sl_flight_free(flight);
	}
	reloading->first = NULL;
	uv_close((uv_handle_t *)&reloading->timer, NULL);
}
