/* A worker: one thread, one loop, its connections, and the letter box through which the first worker's thread hands it
 * new connections, a new policy, and the order to end. */
#include "hosts/server/net/worker.h"

#include "base/assert.h"
#include "hosts/server/net/close.h"
#include "hosts/server/net/connection.h"
#include "hosts/server/net/evict.h"
#include "hosts/server/net/parcel.h"
#include "hosts/server/net/waits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SWEEP_MS = 100 };

/* ---- the loop's callbacks -------------------------------------------------------------------------------------- */

static void on_turn(uv_prepare_t *handle) {
	struct sl_worker *worker = handle->data;
	worker->context.now = 0; /* the first one who needs it reads the clock, once a turn */
}

/* The stats of a turn. A request's time is from when the loop woke for it until all that the turn answered was sent:
 * its wait for its neighbours is part of what its caller sees. So the clock is read twice a turn, however much is in
 * it. */
static void on_turn_end(uv_check_t *handle) {
	struct sl_worker *worker = handle->data;
	struct sl_worker_stats *stats = worker->context.stats;
	sl_waits_publish(worker);
	uint64_t answered = 0;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		answered += worker->answered[transport];
	if (answered == 0)
		return;
	sluice_ns now = sluice_store_now(worker->context.store), since = worker->context.now;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
		if (stats != NULL && worker->answered[transport] != 0)
			sl_times_add(&stats->request[transport], now > since ? now - since : 0, worker->answered[transport]);
		worker->answered[transport] = 0;
	}
}

static void end_loop(struct sl_worker *worker) {
	free(worker->parcel);
	worker->parcel = NULL;
	worker->hand_over = NULL;
	if (worker->ending != NULL)
		worker->ending(worker->ending_to);
	uv_close((uv_handle_t *)&worker->wake, NULL);
	uv_close((uv_handle_t *)&worker->turn, NULL);
	uv_close((uv_handle_t *)&worker->turn_end, NULL);
	uv_close((uv_handle_t *)&worker->sweep, NULL);
	sl_parking_close(&worker->parking);
	sl_reloading_close(&worker->reloading);
	sl_streams_close(&worker->streams);
}

static void close_all(struct sl_worker *worker) {
	for (struct sl_connection *c = worker->connections, *next; c != NULL; c = next) {
		next = c->next;
		sl_connection_close(c);
	}
}

static void start_draining(struct sl_worker *worker);

/* Gives away what can go; when nothing is left, or the time is over, the rest is drained. */
static void hand_over_all(struct sl_worker *worker) {
	for (struct sl_connection *c = worker->connections, *next; c != NULL; c = next) {
		next = c->next;
		sl_connection_hand_over(c);
	}
	if (worker->connections == NULL || uv_now(&worker->loop) >= worker->hand_over_deadline_ms)
		start_draining(worker);
}

static void on_sweep(uv_timer_t *timer) {
	struct sl_worker *worker = timer->data;
	sl_evict_overdue(worker);
	if (worker->drain_deadline_ms == 0) {
		if (worker->hand_over != NULL)
			hand_over_all(worker);
		else if (worker->connections == NULL)
			uv_timer_stop(timer);
		return;
	}
	if (uv_now(&worker->loop) >= worker->drain_deadline_ms)
		close_all(worker);
	if (worker->connections == NULL)
		end_loop(worker);
}

static void start_draining(struct sl_worker *worker) {
	worker->context.draining = true;
	if (worker->drain_deadline_ms != 0) { /* asked twice */
		worker->drain_deadline_ms = 1;
		return;
	}
	worker->drain_deadline_ms = uv_now(&worker->loop) + SL_DRAIN_MS;
	worker->hand_over = NULL; /* who could not go until now stays */
	for (struct sl_connection *c = worker->connections, *next; c != NULL; c = next) {
		next = c->next;
		sl_connection_drain(c);
	}
	if (worker->connections == NULL)
		end_loop(worker);
	else
		uv_timer_again(&worker->sweep);
}

static void use_policy(struct sl_worker *worker, struct sl_shared_policy *policy) {
	struct sl_shared_policy *old = worker->policy;
	worker->policy = policy;
	worker->context.policy = policy->policy;
	worker->context.rows = policy->rows;
	worker->policy_number++;
	sl_shared_policy_release(old);
}

static void set_hand_over(struct sl_worker *worker, sl_hand_over_fn give, void *to) {
	if (worker->drain_deadline_ms != 0)
		return;
	if (worker->parcel == NULL)
		worker->parcel = malloc(SL_PARCEL_BYTES_MAX);
	worker->hand_over = worker->parcel != NULL ? give : NULL;
	worker->hand_over_to = to;
	worker->hand_over_deadline_ms = uv_now(&worker->loop) + SL_DRAIN_MS;
	if (give == NULL)
		return;
	if (worker->hand_over == NULL) { /* no memory: as if nobody could go */
		start_draining(worker);
		return;
	}
	uv_timer_again(&worker->sweep);
	hand_over_all(worker);
}

static void poke_all(struct sl_worker *worker) {
	for (struct sl_connection *c = worker->connections, *next; c != NULL; c = next) {
		next = c->next;
		c->poke(c);
	}
}

static void on_wake(uv_async_t *handle) {
	struct sl_worker *worker = handle->data;
	pthread_mutex_lock(&worker->lock);
	struct sl_arrival *arrivals = worker->arrivals;
	size_t count = worker->arrival_count;
	struct sl_shared_policy *policy = worker->next_policy;
	bool drain = worker->drain, redden = worker->redden, poke = worker->poke;
	bool change_hand_over = worker->change_hand_over;
	sl_hand_over_fn give = worker->next_hand_over;
	void *give_to = worker->next_hand_over_to;
	worker->arrivals = NULL;
	worker->arrival_count = worker->arrival_capacity = 0;
	worker->next_policy = NULL;
	worker->drain = worker->redden = worker->poke = worker->change_hand_over = false;
	pthread_mutex_unlock(&worker->lock);
	if (redden)
		worker->context.draining = true;
	if (redden || poke)
		poke_all(worker);
	if (policy != NULL)
		use_policy(worker, policy);
	for (size_t i = 0; i < count; i++)
		sl_connection_open(worker, &arrivals[i]);
	free(arrivals);
	if (atomic_load_explicit(&worker->shedding, memory_order_relaxed)) {
		(void)sl_evict_longest(worker);
		/* release: who sees it sees one connection less; pairs with sl_worker_shed() */
		atomic_store_explicit(&worker->shedding, false, memory_order_release);
	}
	if (change_hand_over)
		set_hand_over(worker, give, give_to);
	if (drain)
		start_draining(worker);
}

/* ---- the letter box -------------------------------------------------------------------------------------------- */

static bool push(struct sl_worker *worker, const struct sl_arrival *arrival) {
	if (worker->arrival_count == worker->arrival_capacity) {
		size_t capacity = worker->arrival_capacity == 0 ? 16 : worker->arrival_capacity * 2;
		struct sl_arrival *arrivals = realloc(worker->arrivals, capacity * sizeof *arrivals);
		if (arrivals == NULL)
			return false;
		worker->arrivals = arrivals;
		worker->arrival_capacity = capacity;
	}
	worker->arrivals[worker->arrival_count++] = *arrival;
	return true;
}

bool sl_worker_give(struct sl_worker *worker, const struct sl_arrival *arrival) {
	pthread_mutex_lock(&worker->lock);
	bool pushed = push(worker, arrival);
	pthread_mutex_unlock(&worker->lock);
	if (pushed)
		uv_async_send(&worker->wake);
	return pushed;
}

void sl_worker_set_policy(struct sl_worker *worker, struct sl_shared_policy *policy) {
	pthread_mutex_lock(&worker->lock);
	struct sl_shared_policy *unused = worker->next_policy;
	worker->next_policy = sl_shared_policy_hold(policy);
	pthread_mutex_unlock(&worker->lock);
	if (unused != NULL)
		sl_shared_policy_release(unused);
	uv_async_send(&worker->wake);
}

void sl_worker_redden(struct sl_worker *worker) {
	pthread_mutex_lock(&worker->lock);
	worker->redden = true;
	pthread_mutex_unlock(&worker->lock);
	uv_async_send(&worker->wake);
}

void sl_worker_poke(struct sl_worker *worker) {
	pthread_mutex_lock(&worker->lock);
	worker->poke = true;
	pthread_mutex_unlock(&worker->lock);
	uv_async_send(&worker->wake);
}

void sl_worker_hand_over(struct sl_worker *worker, sl_hand_over_fn give, void *to) {
	pthread_mutex_lock(&worker->lock);
	worker->next_hand_over = give;
	worker->next_hand_over_to = to;
	worker->change_hand_over = true;
	pthread_mutex_unlock(&worker->lock);
	uv_async_send(&worker->wake);
}

void sl_worker_drain(struct sl_worker *worker) {
	pthread_mutex_lock(&worker->lock);
	worker->drain = true;
	pthread_mutex_unlock(&worker->lock);
	uv_async_send(&worker->wake);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

static void init_handles(struct sl_worker *worker) {
	uv_prepare_init(&worker->loop, &worker->turn);
	uv_check_init(&worker->loop, &worker->turn_end);
	uv_timer_init(&worker->loop, &worker->sweep);
	worker->wake.data = worker->turn.data = worker->turn_end.data = worker->sweep.data = worker;
	uv_prepare_start(&worker->turn, on_turn);
	uv_check_start(&worker->turn_end, on_turn_end);
	uv_timer_start(&worker->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
}

sluice_err sl_worker_init(struct sl_worker *worker, const struct sl_worker_options *options) {
	*worker = (struct sl_worker){.figures = options->own, .next_id = options->next_id, .bounds = options->bounds};
	for (int i = 0; i < SL_WAITS; i++)
		worker->waits[i].since_ms = UINT64_MAX;
	worker->input = malloc(SL_FRONT_BYTES + SL_READ_BYTES);
	worker->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	if (worker->input == NULL || worker->context.match_buffer == NULL) {
		free(worker->input);
		free(worker->context.match_buffer);
		return SLUICE_E_MEMORY;
	}
	if (uv_loop_init(&worker->loop) != 0 || uv_async_init(&worker->loop, &worker->wake, on_wake) != 0) {
		free(worker->input);
		free(worker->context.match_buffer);
		return SLUICE_E_SYSTEM;
	}
	init_handles(worker);
	pthread_mutex_init(&worker->lock, NULL);
	worker->policy = sl_shared_policy_hold(options->policy);
	worker->context.store = options->store;
	sl_parking_init(&worker->parking, &worker->loop, options->store);
	worker->context.parking = &worker->parking.remote;
	sl_reloading_init(&worker->reloading, &worker->loop, options->shared);
	worker->context.reloading = &worker->reloading.remote;
	sl_streams_init(&worker->streams, &worker->loop, worker);
	worker->context.policy = options->policy->policy;
	worker->context.rows = options->policy->rows;
	worker->context.shared = options->shared;
	worker->context.stats = sl_stats_worker(options->shared->stats, options->number);
	worker->context.top = options->shared->tops[options->number];
	if (options->shared->tail != NULL)
		worker->context.tail = sl_tail_source(options->shared->tail, options->number);
	return SLUICE_OK;
}

void sl_worker_free(struct sl_worker *worker) {
	if (uv_loop_close(&worker->loop) != 0) { /* never ran: its handles are still open */
		end_loop(worker);
		uv_run(&worker->loop, UV_RUN_DEFAULT);
		uv_loop_close(&worker->loop);
	}
	SL_ASSERT(worker->connections == NULL && worker->kept_bytes == 0);
	for (size_t i = 0; i < worker->arrival_count; i++)
		sl_arrival_dismiss(worker->bounds, &worker->arrivals[i]);
	free(worker->arrivals);
	if (worker->next_policy != NULL)
		sl_shared_policy_release(worker->next_policy);
	sl_shared_policy_release(worker->policy);
	sl_door_context_free(&worker->context);
	sl_buffer_free(&worker->out);
	free(worker->context.match_buffer);
	free(worker->input);
	pthread_mutex_destroy(&worker->lock);
}
