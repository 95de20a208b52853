/* See pretouch.h. It begins late: memory that comes in small pages meanwhile costs little (0.3 us a page), and whoever
 * only tries something out is spared the work. It stops where a container, or the host, would run short of memory: what
 * a store may take is often more than it ever does. */
#include "hosts/server/lifecycle/pretouch.h"

#include "os/memory.h"
#include "os/thread.h"

#include <inttypes.h>
#include <sys/resource.h>

enum { START_MS = 1000, PIECE_BYTES = 4 << 20, LOOK_BYTES = 64 << 20, LOWEST_PRIORITY = 19 };
#define SPARE_BYTES ((uint64_t)LOOK_BYTES + ((uint64_t)64 << 20)) /* left to others after the next look */

static bool is_enough(uint64_t at) {
	if (sl_memory_available() >= SPARE_BYTES)
		return true;
	sl_log(SL_LOG_INFO,
	       "store: the system has little memory left: after %" PRIu64 " MiB the rest is allocated as it is used",
	       at >> 20);
	return false;
}

static void *run(void *argument) {
	struct sl_server *server = argument;
	uint64_t at = 0, looked = 0;
	(void)setpriority(PRIO_PROCESS, 0, LOWEST_PRIORITY); /* of this thread, on Linux */
	if (!is_enough(0))
		return NULL;
	while (!server->pretouch.stop && (at = sluice_store_pretouch(server->store, at, PIECE_BYTES)) != 0) {
		if (at - looked < LOOK_BYTES)
			continue;
		looked = at;
		if (!is_enough(at))
			break;
	}
	return NULL;
}

static void on_start(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	server->pretouch.started = sl_thread_start(&server->pretouch.thread, run, server) == 0;
	sl_handle_close((uv_handle_t *)timer);
}

void sl_pretouch_start(struct sl_server *server) {
	uv_timer_t *timer = &server->pretouch.delay;
	pthread_mutex_lock(&server->policy_lock);
	const bool wanted = sl_policy_settings(server->policy->policy)->pretouch;
	pthread_mutex_unlock(&server->policy_lock);
	if (!wanted)
		return;
	uv_timer_init(&server->workers[0].loop, timer);
	timer->data = server;
	uv_timer_start(timer, on_start, START_MS, 0);
	uv_unref((uv_handle_t *)timer);
}

void sl_pretouch_end(struct sl_server *server) {
	server->pretouch.stop = true;
	if (server->pretouch.started)
		pthread_join(server->pretouch.thread, NULL);
}
