/* Parked decisions.
 *
 *   door -> sluice_decide() -> held up -> pending -> here, and looked after every SL_PARKING_TICK_MS
 *     the process has moved, or died  -> decided again, from the beginning: charged, denied, or held up once more
 *     it has not for SL_STALL_LOOKS   -> it counts as stopped, for the whole server: SLUICE_E_BUSY, and what the policy
 *                                        says to that (on-error) is the door's to do
 *
 * Looks are counted by the worker's own turns, so a server that hardly runs itself gives nobody up. What of it
 * was decided before is kept as it is: nothing is charged twice. */
#include "hosts/server/net/parking.h"

#include "base/assert.h"
#include "hosts/admission/admission.h"

static void on_tick(uv_timer_t *timer);

/* Tries what is not decided yet, at the store's present instant. True: all of it is decided. */
static bool try_all(struct sl_parking *parking, struct sl_pending *pending) {
	sluice_ns now = 0;
	bool all = true;
	for (uint32_t i = 0; i < pending->call_count; i++) {
		struct sl_pending_call *it = &pending->calls[i];
		if (!sl_is_held_up(it->call.err))
			continue;
		if (sl_stall_look(parking->store, it->call.err) == SL_STALL_STANDS) {
			all = false;
			continue;
		}
		now = now != 0 ? now : sluice_store_now(parking->store);
		if (!it->dated)
			it->call.now = sl_admission_instant(now, it->call.items, it->call.item_count);
		if (sl_is_held_up(sluice_decide(parking->store, &it->call)))
			all = false;
	}
	return all;
}

static bool on_send(struct sl_remote *remote, struct sl_pending *pending) {
	struct sl_parking *parking = (struct sl_parking *)(void *)((char *)remote - offsetof(struct sl_parking, remote));
	if (try_all(parking, pending))
		return true;
	pending->parked = NULL;
	*parking->end = pending;
	parking->end = &pending->parked;
	if (!uv_is_active((uv_handle_t *)&parking->timer))
		uv_timer_start(&parking->timer, on_tick, SL_PARKING_TICK_MS, SL_PARKING_TICK_MS);
	return false;
}

/* Looks once at every process that is waited for. */
static void look(struct sl_parking *parking) {
	bool waited_for[SL_PROCESSES] = {false};
	for (const struct sl_pending *pending = parking->first; pending != NULL; pending = pending->parked)
		for (uint32_t i = 0; i < pending->call_count; i++)
			if (sl_is_held_up(pending->calls[i].call.err))
				waited_for[(SL_E_HELD_UP - (int)pending->calls[i].call.err) % SL_PROCESSES] = true;
	for (int row = 0; row < SL_PROCESSES; row++) {
		sluice_err err = (sluice_err)(SL_E_HELD_UP - row);
		if (!waited_for[row] || sl_stall_look(parking->store, err) != SL_STALL_STANDS) {
			parking->looks[row] = 0;
			continue;
		}
		parking->looks[row] += SL_PARKING_TICK_MS;
		if (parking->looks[row] >= parking->store->stalls->looks)
			sl_stall_give_up(parking->store, err);
	}
}

static void on_tick(uv_timer_t *timer) {
	struct sl_parking *parking = timer->data;
	struct sl_pending *pending = parking->first, *next;
	look(parking);
	/* those that stay are put back one by one: those that are ready let connections send others */
	parking->first = NULL;
	parking->end = &parking->first;
	for (; pending != NULL; pending = next) {
		next = pending->parked;
		if (pending->to == NULL) {
			sl_pending_free(pending);
		} else if (try_all(parking, pending)) {
			pending->ready(pending, pending->to);
		} else {
			pending->parked = NULL;
			*parking->end = pending;
			parking->end = &pending->parked;
		}
	}
	if (parking->first == NULL)
		uv_timer_stop(timer);
}

void sl_parking_init(struct sl_parking *parking, uv_loop_t *loop, struct sluice_store *store) {
	*parking = (struct sl_parking){.remote.send = on_send, .store = store};
	parking->end = &parking->first;
	SL_ASSERT(uv_timer_init(loop, &parking->timer) == 0);
	parking->timer.data = parking;
}

void sl_parking_close(struct sl_parking *parking) {
	for (struct sl_pending *pending = parking->first, *next; pending != NULL; pending = next) {
		next = pending->parked;
		sl_pending_free(pending);
	}
	parking->first = NULL;
	parking->end = &parking->first;
	uv_close((uv_handle_t *)&parking->timer, NULL);
}
