/* What goes on by the clock besides serving: the service manager is told that this process lives, the stats are sampled
 * for their history, and the log hears that the store fills up. */
#include "hosts/server/lifecycle/manager.h"

#include "hosts/server/lifecycle/readiness.h"

static void on_watchdog(uv_timer_t *timer) {
	(void)timer;
	sl_notify("WATCHDOG=1");
}

static void on_sample(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	sl_stats_sample(server->parts.shared.stats, sluice_store_now(server->store));
}

static void on_room(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	struct sl_store_figures figures;
	char lines[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX];
	bool warns[SL_STORE_ROOM_LINES];
	sl_store_stats_read(server->parts.shared.store_stats, &figures);
	pthread_mutex_lock(&server->policy_lock);
	figures.overrides_most = sl_store_overrides_bound(sl_policy_settings(server->policy->policy)->overrides_most,
	                                                  figures.overrides_most);
	pthread_mutex_unlock(&server->policy_lock);
	uint32_t count = sl_store_room_look(&server->store_room, &figures, lines, warns);
	for (uint32_t i = 0; i < count; i++)
		sl_log(warns[i] ? SL_LOG_WARNING : SL_LOG_INFO, "%s", lines[i]);
}

static void start_timer(struct sl_server *server, uv_timer_t *timer, uv_timer_cb callback, uint64_t every_ms) {
	uv_timer_init(&server->workers[0].loop, timer);
	uv_unref((uv_handle_t *)timer);
	timer->data = server;
	uv_timer_start(timer, callback, every_ms, every_ms);
}

void sl_manager_start(struct sl_server *server) {
	uint64_t watchdog_ms = sl_notify_watchdog() / 1000000;
	start_timer(server, &server->sample, on_sample, SL_HISTORY_STEP_MS);
	if (server->parts.shared.store_stats != NULL)
		start_timer(server, &server->room, on_room, SL_STORE_ROOM_LOOK_MS);
	if (watchdog_ms != 0) /* twice in its time, as sd_watchdog_enabled(3) recommends */
		start_timer(server, &server->watchdog, on_watchdog, watchdog_ms / 2 > 0 ? watchdog_ms / 2 : 1);
	if (server->predecessor < 0) /* else that one introduces us first */
		sl_readiness_tell(server);
}
