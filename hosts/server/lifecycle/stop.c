/* The way to the end.
 *
 *   SERVING --SIGTERM--> RED --drain time--> CLOSING --answers given--> gone
 *
 * RED: /readyz says 503, so that balancers look elsewhere; everything is served as before, new connections too, and
 * HTTP answers say "Connection: close", for that is the only way to end a kept connection without a request being lost
 * on its way. CLOSING: nobody listens any more; what has arrived is answered, and connections are closed. Without a
 * drain time RED is left out. Each further signal goes one step on; the last one cuts the connections. */
#include "hosts/server/lifecycle/stop.h"

#include "hosts/server/lifecycle/entrances.h"
#include "hosts/server/lifecycle/reload.h"
#include "hosts/server/lifecycle/upgrade.h"

void sl_server_close(struct sl_server *server) {
	server->phase = SL_CLOSING;
	sl_policy_fix(server, true);
	sl_entrances_close(server, false);
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_drain(&server->workers[i]);
}

static void on_drained(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	if (server->phase == SL_RED)
		sl_server_close(server);
}

static sluice_ns drain_time(struct sl_server *server) {
	if (server->options->drain_given)
		return server->options->drain_ns;
	pthread_mutex_lock(&server->policy_lock);
	sluice_ns drain_ns = sl_policy_settings(server->policy->policy)->drain_ns;
	pthread_mutex_unlock(&server->policy_lock);
	return drain_ns;
}

static void redden(struct sl_server *server, sluice_ns drain_ns) {
	uint64_t drain_ms = drain_ns / 1000000;
	server->phase = SL_RED;
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_redden(&server->workers[i]);
	sl_log(SL_LOG_INFO, "stopping: not ready any more, serving for another %.3g s", (double)drain_ms / 1000);
	uv_timer_start(&server->drain, on_drained, drain_ms, 0);
}

void sl_server_stop(struct sl_server *server) {
	sl_upgrade_abandon(server);
	if (server->phase == SL_SERVING)
		sl_notify("STOPPING=1\nSTATUS=shutting down");
	sluice_ns drain_ns = server->phase == SL_SERVING && !server->upgrade.handed_over ? drain_time(server) : 0;
	if (drain_ns >= 1000000)
		redden(server, drain_ns);
	else
		sl_server_close(server);
}

void sl_stop_init(struct sl_server *server) {
	uv_timer_init(&server->workers[0].loop, &server->drain);
	uv_unref((uv_handle_t *)&server->drain);
	server->drain.data = server;
}
