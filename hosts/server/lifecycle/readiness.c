/* When a server whose store is in Redis is ready: as soon as every worker has a node that answers, or when the
 * policy's `ready-after` has passed since the start. Until then /readyz and grpc.health.v1 are red and systemd is not
 * told, so that balancers send no requests that on-error would answer, and what is to start after this unit waits; a
 * request that comes all the same is decided. HAProxy's check of an SPOE agent does not wait: while it fails HAProxy
 * lets requests pass undecided, even those that on-error would deny (hosts/server/spop/door.c). Once ready the server
 * stays so while nodes come and go: a front end that answers by on-error is better than none. */
#include "hosts/server/lifecycle/readiness.h"

#include "hosts/server/watch/fleet_figures.h"

#include <inttypes.h>

enum { LOOK_MS = 20, TOLD_LATE_US = 10000000 };

static sluice_ns ready_after(struct sl_server *server) {
	pthread_mutex_lock(&server->policy_lock);
	sluice_ns after = sl_policy_settings(server->policy->policy)->redis.ready_after_ns;
	pthread_mutex_unlock(&server->policy_lock);
	return after;
}

bool sl_readiness_waits(const struct sl_server *server) {
	return atomic_load_explicit(&server->parts.figures->awaits_nodes, memory_order_relaxed);
}

void sl_readiness_tell_locked(const struct sl_server *server) {
	if (!sl_readiness_waits(server))
		sl_notify("READY=1\nSTATUS=serving %u limits", sl_policy_limit_count(server->policy->policy));
}

void sl_readiness_tell(struct sl_server *server) {
	pthread_mutex_lock(&server->policy_lock);
	sl_readiness_tell_locked(server);
	pthread_mutex_unlock(&server->policy_lock);
}

/* The log says what /readyz says. */
void sl_readiness_announce(const struct sl_server *server) {
	bool waits = sl_readiness_waits(server);
	sl_log(SL_LOG_INFO, waits ? "listening: not ready before a node of Redis has answered" : "ready");
}

static void end_waiting(struct sl_server *server) {
	atomic_store_explicit(&server->parts.figures->awaits_nodes, false, memory_order_relaxed);
	if (!server->options->quiet)
		sl_readiness_announce(server);
	if (server->predecessor < 0 || server->introduced) /* else it is told then */
		sl_readiness_tell(server);
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_poke(&server->workers[i]);
	uv_timer_stop(&server->readiness);
}

static void on_look(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	const struct sl_figures *figures = server->parts.figures;
	sluice_ns now = sluice_store_now(server->store), waited = now > figures->started ? now - figures->started : 0;
	struct sl_fleet_sum sum;
	sl_fleet_sum(server->parts.fleet, server->worker_count, &sum);
	if (sum.nodes_up != 0)
		sl_log(SL_LOG_INFO, "redis answers: ready for requests after %.3g s", (double)waited / 1e9);
	else if (waited >= ready_after(server))
		sl_log(SL_LOG_WARNING,
		       "redis has not answered for %.3g s (ready-after): ready without it: on-error answers requests",
		       (double)waited / 1e9);
	else
		return;
	end_waiting(server);
}

void sl_readiness_init(struct sl_server *server) {
	bool waits = server->parts.fleet != NULL && !server->predecessor_was_ready && ready_after(server) != 0;
	atomic_store_explicit(&server->parts.figures->awaits_nodes, waits, memory_order_relaxed);
}

void sl_readiness_start(struct sl_server *server) {
	if (!sl_readiness_waits(server))
		return;
	if (server->predecessor < 0) /* systemd's patience with a start may end before ours with the nodes */
		sl_notify("EXTEND_TIMEOUT_USEC=%" PRIu64, ready_after(server) / 1000 + TOLD_LATE_US);
	uv_timer_init(&server->workers[0].loop, &server->readiness);
	uv_unref((uv_handle_t *)&server->readiness);
	server->readiness.data = server;
	uv_timer_start(&server->readiness, on_look, LOOK_MS, LOOK_MS);
}
