/* What signals ask for. They are heard by the first worker's loop.
 *
 *   SIGTERM, SIGINT  the next step to the end (stop.c)
 *   SIGHUP           have the policy read again (reader.c), and open the denial log anew
 *   SIGUSR2          start the program anew and hand everything over to it (upgrade.c)
 *   SIGPIPE          ignored: a write to a closed connection is an error of that connection only */
#include "hosts/server/lifecycle/signals.h"

#include "hosts/server/lifecycle/reader.h"
#include "hosts/server/lifecycle/stop.h"
#include "hosts/server/lifecycle/upgrade.h"

#include <signal.h>

static const int numbers[SL_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};

static void on_signal(uv_signal_t *handle, int number) {
	struct sl_server *server = handle->data;
	if (number == SIGHUP) {
		if (server->parts.shared.denials != NULL)
			sl_denials_reopen(server->parts.shared.denials);
		if (sl_reader_ask(server, false) == NULL)
			sl_log(SL_LOG_ERROR, "SIGHUP: nothing is reloaded: no memory, or too many reloads wait already");
	} else if (number == SIGUSR2) {
		sl_upgrade_begin(server);
	} else {
		sl_log(SL_LOG_INFO, "%s: %s", number == SIGTERM ? "SIGTERM" : "SIGINT",
		       server->phase == SL_SERVING ? "ending"
		       : server->phase == SL_RED   ? "ending now, without the rest of the drain time"
		                                   : "closing the connections that are left");
		sl_server_stop(server);
	}
}

static void mask(int how, int first) {
	sigset_t set;
	sigemptyset(&set);
	for (int i = first; i < SL_SIGNALS; i++)
		sigaddset(&set, numbers[i]);
	pthread_sigmask(how, &set, NULL);
}

void sl_signals_hold(void) {
	signal(SIGPIPE, SIG_IGN);
	mask(SIG_BLOCK, 2); /* the first two may end a server that is still starting */
}

void sl_signals_start(struct sl_server *server) {
	for (int i = 0; i < SL_SIGNALS; i++) {
		uv_signal_init(&server->workers[0].loop, &server->signals[i]);
		server->signals[i].data = server;
		uv_signal_start(&server->signals[i], on_signal, numbers[i]);
		uv_unref((uv_handle_t *)&server->signals[i]); /* they end with the loop, not the loop with them */
	}
	mask(SIG_UNBLOCK, 0);
}

void sl_signals_end(struct sl_server *server) {
	mask(SIG_BLOCK, 0); /* closing their handles gives them their default back, which is to kill */
	for (int i = 0; i < SL_SIGNALS; i++)
		sl_handle_close((uv_handle_t *)&server->signals[i]);
}
