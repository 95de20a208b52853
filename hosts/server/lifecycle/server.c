/* The server: sets the table, opens the doors, and clears up.
 *
 * The first worker runs on the calling thread and does what there is one of: it accepts connections and hands them out
 * in turn, hears the signals, reloads the policy. The others only serve. When the last worker has ended, so does the
 * server. inside.h says what is done where. */
#include "hosts/server/lifecycle/inside.h"

#include "hosts/server/lifecycle/accept.h"
#include "hosts/server/lifecycle/entrances.h"
#include "hosts/server/lifecycle/join.h"
#include "hosts/server/lifecycle/manager.h"
#include "hosts/server/lifecycle/reader.h"
#include "hosts/server/lifecycle/readiness.h"
#include "hosts/server/lifecycle/reload.h"
#include "hosts/server/lifecycle/signals.h"
#include "hosts/server/lifecycle/stop.h"
#include "hosts/server/lifecycle/store_location.h"
#include "hosts/server/lifecycle/takeover.h"
#include "hosts/server/lifecycle/pretouch.h"
#include "hosts/server/lifecycle/upgrade.h"
#include "hosts/server/net/crowd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_FAILED = 2 };

/* ---- setting up ------------------------------------------------------------------------------------------------ */

/* An upgrade is a reload as well: what the process that goes had may not be lost by it. */
static bool disarms(const struct sl_server *server, struct sl_reload *outcome) {
	const char *why = sl_policy_disarms(server->had, server->policy->policy);
	if (why != NULL)
		sl_reload_say(outcome, "%s is not served: %s",
		              server->options->policy_file == NULL ? "no policy" : server->options->policy_file, why);
	return why != NULL;
}

static bool load_policy(struct sl_server *server) {
	struct sl_reload outcome = {.taken_over = false};
	struct sl_policy_reading reading;
	sl_policy_file_read(&reading, server->options->policy_file, false);
	server->policy = sl_policy_prepare(server->options, &reading, &outcome, &server->reader.followed);
	if (server->policy != NULL && disarms(server, &outcome)) {
		sl_shared_policy_release(server->policy);
		server->policy = NULL;
	}
	if (server->policy != NULL) {
		sl_log_set_json(sl_policy_settings(server->policy->policy)->log.json);
		server->first = server->policy;
		atomic_fetch_add(&server->first->holders, 1);
	}
	sl_reload_tell(server->options, &outcome);
	sluice_problems_free(&outcome.problems);
	return server->policy != NULL;
}

static uint32_t thread_count(const struct sl_server_options *options, const struct sl_settings *settings) {
	uint32_t count = options->threads != 0 ? options->threads : settings->threads;
	if (count == 0)
		count = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	return count == 0 ? 1 : count > SL_WORKERS_MAX ? SL_WORKERS_MAX : count;
}

/* What the server tells of itself, and whom it asks. */
static void fill_figures(struct sl_server *server) {
	struct sl_figures *figures = server->parts.figures;
	figures->started = sluice_store_now(server->store);
	figures->reloaded_ns = figures->started;
	for (uint32_t i = server->entrance_count; i-- > 0;)
		if (server->entrances[i].door == &sl_door_resp)
			figures->resp_port = server->entrances[i].listener.port;
	server->parts.shared.store_stats = sl_store_stats_new(server->store);
	server->parts.shared.reload_ask = sl_reader_ask;
	server->parts.shared.reload_look = sl_reader_look;
	server->parts.shared.reload_leave = sl_reader_leave;
	server->parts.shared.server = server;
}

static bool make_workers(struct sl_server *server, const struct sl_settings *settings) {
	uint32_t count = thread_count(server->options, settings);
	server->workers = calloc(count, sizeof *server->workers);
	if (!sl_parts_make(&server->parts, count, settings) || server->workers == NULL ||
	    !sl_policy_enter(server, server->policy))
		return false;
	fill_figures(server);
	sl_readiness_init(server);
	for (; server->worker_count < count; server->worker_count++) {
		struct sl_worker_options options = {.store = server->store,
		                                    .policy = server->policy,
		                                    .shared = &server->parts.shared,
		                                    .number = server->worker_count,
		                                    .own = &server->parts.figures->workers[server->worker_count],
		                                    .next_id = &server->next_id,
		                                    .bounds = server->parts.bounds};
		if (sl_worker_init(&server->workers[server->worker_count], &options) != SLUICE_OK)
			return false;
	}
	return true;
}

static void use_all_descriptors(struct sl_server *server) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool set_up(struct sl_server *server) {
	if (!sl_takeover_begin(server) || !sl_entrances_take_given(server) || !load_policy(server))
		return false;
	const struct sl_settings *settings = sl_policy_settings(server->policy->policy);
	if (!sl_entrances_open(server, settings, false))
		return false;
	server->store = sl_store_location_open(server->policy->policy, server->options->quiet);
	if (server->store == NULL)
		return false;
	use_all_descriptors(server);
	if (make_workers(server, settings))
		return sl_parts_open_log(&server->parts, settings) && sl_fleets_join(server, settings);
	sl_log(SL_LOG_ERROR, "out of memory, descriptors or random bytes while starting %u threads",
	       thread_count(server->options, settings));
	return false;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static void *run_worker(void *argument) {
	struct sl_worker *worker = argument;
	uv_run(&worker->loop, UV_RUN_DEFAULT);
	return NULL;
}

static uint32_t start_threads(struct sl_server *server) {
	uint32_t started = 1;
	for (; started < server->worker_count; started++)
		if (pthread_create(&server->workers[started].thread, NULL, run_worker, &server->workers[started]) != 0)
			break;
	return started;
}

/* All that the first worker does besides serving. */
static void start_duties(struct sl_server *server) {
	sl_stop_init(server);
	sl_accept_start(server);
	sl_signals_start(server);
}

static void greet(struct sl_server *server) {
	if (!server->options->quiet) {
		sl_entrances_announce(server);
		sl_readiness_announce(server);
	}
	sl_manager_start(server);
	sl_readiness_start(server);
	sl_pretouch_start(server);
	sl_takeover_ready(server);
}

/* Ends what does not keep the loop alive, so that the loop can be closed. */
static void end_duties(struct sl_server *server) {
	uv_timer_t *timers[] = {&server->pause,     &server->drain,    &server->sample,         &server->room,
	                        &server->readiness, &server->watchdog, &server->pretouch.delay, &server->upgrade.limit};
	sl_signals_end(server);
	sl_upgrade_abandon(server);
	for (size_t i = 0; i < sizeof timers / sizeof *timers; i++)
		sl_handle_close((uv_handle_t *)timers[i]);
	sl_handle_close((uv_handle_t *)&server->upgrade.poll);
	sl_handle_close((uv_handle_t *)&server->predecessor_poll);
	run_worker(&server->workers[0]);
}

/* Runs the first worker here and the others on threads of their own, until all have ended. */
static bool run(struct sl_server *server) {
	uint32_t started = start_threads(server);
	bool all = started == server->worker_count, reads = sl_reader_start(server);
	sl_worker_count_descriptors(&server->workers[0]);
	start_duties(server);
	if (all && reads) {
		greet(server);
	} else if (all) {
		sl_server_close(server);
	} else {
		sl_log(SL_LOG_ERROR, "the system gave only %u of %u threads; choose fewer with --threads", started,
		       server->worker_count);
		sl_server_close(server);
	}
	run_worker(&server->workers[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(server->workers[i].thread, NULL);
	sl_pretouch_end(server);
	end_duties(server);
	return all && reads;
}

static void clear_up(struct sl_server *server) {
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_free(&server->workers[i]);
	free(server->workers);
	sl_parts_free(&server->parts);
	sl_entrances_close(server, false);
	if (server->policy != NULL)
		sl_shared_policy_release(server->policy);
	if (server->first != NULL)
		sl_shared_policy_release(server->first);
	sl_policy_clear_retired(server);
	sluice_store_close(server->store);
	if (server->reserve >= 0)
		close(server->reserve);
	if (server->upgrade.channel >= 0)
		close(server->upgrade.channel);
	if (server->predecessor >= 0)
		close(server->predecessor);
	pthread_mutex_destroy(&server->policy_lock);
}

static void init(struct sl_server *server, const struct sl_server_options *options) {
	*server = (struct sl_server){.options = options, .reserve = -1, .predecessor = -1, .upgrade = {.channel = -1}};
	pthread_mutex_init(&server->policy_lock, NULL);
}

int sl_server_run(const struct sl_server_options *options) {
	struct sl_server server;
	init(&server, options);
	sl_upgrade_remember();
	sl_signals_hold();
	bool served = set_up(&server) && run(&server);
	if (!sl_reader_end(&server))
		_exit(served ? 0 : EXIT_FAILED); /* the kernel clears up: the store is whole at every instant */
	clear_up(&server);
	return served ? 0 : EXIT_FAILED;
}

/* ---- checking -------------------------------------------------------------------------------------------------- */

int sl_server_check(const struct sl_server_options *options) {
	struct sl_server server;
	init(&server, options);
	bool fine = load_policy(&server);
	if (fine) { /* all that is wrong at once, so no short circuit */
		const struct sl_settings *settings = sl_policy_settings(server.policy->policy);
		fine = sl_entrances_open(&server, settings, true);
		fine = sl_store_location_check(settings) && fine;
		fine = sl_denials_check(&settings->log) && fine;
		fine = sl_fleets_check(settings) && fine;
	}
	clear_up(&server);
	if (fine)
		printf("%s: fine\n", options->policy_file == NULL ? "(no policy)" : options->policy_file);
	return fine && fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}
