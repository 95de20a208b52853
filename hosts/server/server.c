/* The server: sets the table, opens the doors, and clears up.
 *
 * The first worker runs on the calling thread and does what there is one of: it accepts connections and hands them out
 * in turn, hears the signals, reloads the policy. The others only serve. When the last worker has ended, so does the
 * server.
 *
 *   SIGTERM, SIGINT  stop accepting, answer what has arrived, exit 0; a second one cuts the connections
 *   SIGHUP           read the policy again; a bad file leaves the old one running
 *   SIGPIPE          ignored: a write to a closed connection is an error of that connection only */
#include "hosts/server/server.h"

#include "hosts/server/net/listen.h"
#include "hosts/server/parts.h"
#include "hosts/server/policy_file.h"
#include "hosts/server/store_home.h"
#include "hosts/server/net/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_MAX = 64, PAUSE_MS = 100, COMPLAIN_EVERY_MS = 10000, EXIT_FAILED = 2 };
enum { TERM, INT, HUP, SIGNALS };

struct server;

struct entrance {
	uv_poll_t poll;
	struct sl_listener listener;
	const struct sl_door *door;
	struct server *server;
};

struct server {
	const struct sl_server_options *options;
	struct sl_shared_policy *policy;
	struct sl_shared_policy *first; /* the policy that the store was opened by */
	struct sluice_store *store;
	struct sl_parts parts;
	struct entrance entrances[SL_LISTENS_MAX];
	uint32_t entrance_count;
	uv_signal_t signals[SIGNALS];
	uv_timer_t pause;  /* accepting rests after an error that more tries would repeat */
	uv_timer_t sample; /* takes the books into their history */
	struct sl_worker *workers;
	uint32_t worker_count, next_worker;
	int reserve; /* a descriptor to give up when there is none left */
	uint64_t complained_ms;
	_Atomic uint64_t next_id;
};

/* ---- accepting ------------------------------------------------------------------------------------------------ */

static void describe_peer(struct sl_arrival *arrival, const struct sockaddr_storage *address) {
	char host[INET6_ADDRSTRLEN] = "";
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(arrival->peer, sizeof arrival->peer, "%s:%u", host, ntohs(in->sin_port));
		arrival->address = (struct sl_address){{[10] = 0xff, [11] = 0xff}};
		memcpy(arrival->address.bytes + 12, &in->sin_addr, 4);
	} else if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(arrival->peer, sizeof arrival->peer, "[%s]:%u", host, ntohs(in6->sin6_port));
		memcpy(arrival->address.bytes, &in6->sin6_addr, 16);
	} else {
		snprintf(arrival->peer, sizeof arrival->peer, "unix");
		arrival->is_unix = true;
	}
}

static void hand_out(struct entrance *entrance, int fd, const struct sockaddr_storage *address) {
	struct server *server = entrance->server;
	struct sl_arrival arrival = {.fd = fd, .door = entrance->door, .listener = &entrance->listener};
	struct sl_worker *worker = &server->workers[server->next_worker++ % server->worker_count];
	int on = 1;
	describe_peer(&arrival, address);
	if (address->ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (worker == &server->workers[0])
		sl_connection_open(worker, &arrival);
	else if (!sl_worker_give(worker, &arrival))
		close(fd);
}

static void on_acceptable(uv_poll_t *handle, int status, int events);

static void on_pause_over(uv_timer_t *timer) {
	struct server *server = timer->data;
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].listener.fd >= 0)
			uv_poll_start(&server->entrances[i].poll, UV_READABLE, on_acceptable);
}

/* Without this the loop would spin: the connection that cannot be taken stays ready. */
static void pause_accepting(struct server *server) {
	for (uint32_t i = 0; i < server->entrance_count; i++)
		uv_poll_stop(&server->entrances[i].poll);
	uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
}

static void complain(struct server *server, int why) {
	uint64_t now_ms = uv_now(&server->workers[0].loop);
	if (server->complained_ms != 0 && now_ms - server->complained_ms < COMPLAIN_EVERY_MS)
		return;
	server->complained_ms = now_ms;
	fprintf(stderr, "sluice: connections are turned away: %s%s\n", strerror(why),
	        why == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
}

/* No descriptor is left: the one in reserve is given up to take the connection and end it at once, so that its peer
 * knows. Those that are open go on being served. */
static void turn_away(struct entrance *entrance) {
	struct server *server = entrance->server;
	if (server->reserve < 0) {
		pause_accepting(server);
		return;
	}
	close(server->reserve);
	int fd = accept4(entrance->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_acceptable(uv_poll_t *handle, int status, int events) {
	struct entrance *entrance = handle->data;
	(void)events;
	for (int i = 0; status == 0 && i < ACCEPTS_MAX && entrance->listener.fd >= 0; i++) {
		struct sockaddr_storage address = {.ss_family = AF_UNIX};
		socklen_t len = sizeof address;
		int fd = accept4(entrance->listener.fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			hand_out(entrance, fd, &address);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return;
		} else if (errno == EMFILE || errno == ENFILE) {
			complain(entrance->server, errno);
			turn_away(entrance);
		} else if (errno == ENOBUFS || errno == ENOMEM) {
			complain(entrance->server, errno);
			pause_accepting(entrance->server);
			return;
		} /* else that connection is gone already; the next may be fine */
	}
}

/* ---- signals -------------------------------------------------------------------------------------------------- */

static struct sl_shared_policy *load_policy(const char *path) {
	struct sl_shared_policy *shared = malloc(sizeof *shared);
	if (shared == NULL)
		return NULL;
	shared->policy = sl_policy_file_load(path);
	shared->rows = NULL;
	shared->holders = 1;
	if (shared->policy != NULL)
		return shared;
	free(shared);
	return NULL;
}

/* What the policy asks for and this version does not have. */
static bool settings_are_served(const struct sl_settings *settings) {
	for (uint32_t i = 0; i < settings->listen_count; i++)
		if (settings->listens[i].door == SL_LISTEN_GRPC) {
			fprintf(stderr, "sluice: listen.grpc: this version serves no gRPC; take it out of the policy\n");
			return false;
		}
	return true;
}

/* Gives the limits of a policy their rows in the books. */
static bool enter_policy(struct server *server, struct sl_shared_policy *policy) {
	policy->rows = calloc(sl_policy_limit_count(policy->policy) + 1, sizeof *policy->rows);
	if (policy->rows == NULL)
		return false;
	sl_books_enter(server->parts.shared.books, policy->policy, policy->rows);
	return true;
}

static void reload(struct server *server) {
	const char *path = server->options->policy_file;
	if (path == NULL) {
		fprintf(stderr, "sluice: nothing to read again: no policy file was given\n");
		return;
	}
	struct sl_shared_policy *policy = load_policy(path);
	if (policy != NULL && !settings_are_served(sl_policy_settings(policy->policy))) {
		sl_shared_policy_release(policy);
		policy = NULL;
	}
	if (policy == NULL) {
		fprintf(stderr, "sluice: %s was not taken over: the policy of before goes on\n", path);
		return;
	}
	if (!enter_policy(server, policy)) {
		sl_shared_policy_release(policy);
		fprintf(stderr, "sluice: out of memory: the policy of before goes on\n");
		return;
	}
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_set_policy(&server->workers[i], policy);
	sl_shared_policy_release(server->policy);
	server->policy = policy;
	if (!sl_store_home_equal(sl_policy_settings(policy->policy), sl_policy_settings(server->first->policy)))
		fprintf(stderr, "sluice: store: what %s now says of it needs a restart: the store of before goes on\n", path);
	if (!server->options->quiet)
		fprintf(stderr, "sluice: took over %s\n", path);
}

static void close_entrances(struct server *server) {
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		uv_handle_t *handle = (uv_handle_t *)&server->entrances[i].poll;
		if (!uv_is_closing(handle))
			uv_close(handle, NULL);
		sl_listener_close(&server->entrances[i].listener);
	}
	if (!uv_is_closing((uv_handle_t *)&server->pause))
		uv_close((uv_handle_t *)&server->pause, NULL);
}

static void on_signal(uv_signal_t *handle, int number) {
	struct server *server = handle->data;
	if (number == SIGHUP) {
		reload(server);
		return;
	}
	close_entrances(server);
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_drain(&server->workers[i]);
}

/* ---- setting up ------------------------------------------------------------------------------------------------ */

static bool open_entrance(struct server *server, const char *address, const struct sl_listen *listen) {
	static const struct sl_door *const doors[] = {[SL_LISTEN_RESP] = &sl_door_resp, [SL_LISTEN_HTTP] = &sl_door_http};
	struct entrance *entrance = &server->entrances[server->entrance_count];
	struct sluice_error error;
	entrance->door = doors[listen->door];
	entrance->server = server;
	if (sl_listen(&entrance->listener, address, listen->door == SL_LISTEN_RESP ? "--resp" : "--http", &error) ==
	    SLUICE_OK) {
		entrance->listener.forms = listen->forms;
		entrance->listener.tls = listen->tls;
		entrance->listener.proxy_protocol = listen->proxy_protocol;
		server->entrance_count++;
		return true;
	}
	fprintf(stderr, "sluice: %s\n", error.text);
	return false;
}

static bool open_entrances(struct server *server, const struct sl_settings *settings) {
	const char *instead[] = {
		[SL_LISTEN_RESP] = server->options->listen_resp, [SL_LISTEN_HTTP] = server->options->listen_http};
	for (uint32_t i = 0; i < settings->listen_count; i++) {
		const struct sl_listen *listen = &settings->listens[i];
		const char *address = instead[listen->door] != NULL ? instead[listen->door] : listen->address;
		if (!open_entrance(server, address, listen))
			return false;
	}
	return true;
}

static uint32_t thread_count(const struct sl_server_options *options, const struct sl_settings *settings) {
	uint32_t count = options->threads != 0 ? options->threads : settings->threads;
	if (count == 0)
		count = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	return count == 0 ? 1 : count > SL_WORKERS_MAX ? SL_WORKERS_MAX : count;
}

static bool make_workers(struct server *server, const struct sl_settings *settings) {
	uint32_t count = thread_count(server->options, settings);
	server->workers = calloc(count, sizeof *server->workers);
	if (!sl_parts_make(&server->parts, count, settings) || server->workers == NULL ||
	    !enter_policy(server, server->policy))
		return false;
	server->parts.figures->started = sluice_store_now(server->store);
	server->parts.shared.census = sl_census_new(server->store);
	server->parts.figures->resp_port = server->entrances[0].listener.port;
	for (; server->worker_count < count; server->worker_count++) {
		struct sl_worker_options options = {.store = server->store,
		                                    .policy = server->policy,
		                                    .shared = &server->parts.shared,
		                                    .number = server->worker_count,
		                                    .own = &server->parts.figures->workers[server->worker_count],
		                                    .next_id = &server->next_id};
		if (sl_worker_init(&server->workers[server->worker_count], &options) != SLUICE_OK)
			return false;
	}
	return true;
}

static void watch_signals(struct server *server) {
	static const int numbers[SIGNALS] = {[TERM] = SIGTERM, [INT] = SIGINT, [HUP] = SIGHUP};
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(&server->workers[0].loop, &server->signals[i]);
		server->signals[i].data = server;
		uv_signal_start(&server->signals[i], on_signal, numbers[i]);
		uv_unref((uv_handle_t *)&server->signals[i]); /* they end with the loop, not the loop with them */
	}
}

static void on_sample(uv_timer_t *timer) {
	struct server *server = timer->data;
	sl_books_sample(server->parts.shared.books, sluice_store_now(server->store));
}

static void watch_books(struct server *server) {
	uv_timer_init(&server->workers[0].loop, &server->sample);
	server->sample.data = server;
	uv_timer_start(&server->sample, on_sample, SL_HISTORY_STEP_MS, SL_HISTORY_STEP_MS);
	uv_unref((uv_handle_t *)&server->sample); /* as the signals */
}

static void watch_entrances(struct server *server) {
	uv_loop_t *loop = &server->workers[0].loop;
	uv_timer_init(loop, &server->pause);
	server->pause.data = server;
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct entrance *entrance = &server->entrances[i];
		entrance->poll.data = entrance;
		if (uv_poll_init(loop, &entrance->poll, entrance->listener.fd) == 0)
			uv_poll_start(&entrance->poll, UV_READABLE, on_acceptable);
	}
}

static void use_all_descriptors(struct server *server) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static void *run_worker(void *argument) {
	struct sl_worker *worker = argument;
	uv_run(&worker->loop, UV_RUN_DEFAULT);
	return NULL;
}

static void announce(const struct server *server) {
	if (server->options->quiet)
		return;
	for (uint32_t i = 0; i < server->entrance_count; i++)
		fprintf(stderr, "sluice: %s on %s\n", server->entrances[i].door->name, server->entrances[i].listener.name);
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (!server->entrances[i].listener.loopback)
			fprintf(stderr, "sluice: warning: %s on %s has no authentication yet: whoever reaches it can use it\n",
			        server->entrances[i].door->name, server->entrances[i].listener.name);
	fprintf(stderr, "sluice: ready\n");
}

/* From here to the end a further signal changes nothing: the process is ending, with status 0. */
static void hold_signals(void) {
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Runs the first worker here and the others on threads of their own, until all have ended. */
static bool run(struct server *server) {
	uint32_t started = 1;
	for (; started < server->worker_count; started++)
		if (pthread_create(&server->workers[started].thread, NULL, run_worker, &server->workers[started]) != 0)
			break;
	bool all = started == server->worker_count;
	watch_signals(server);
	watch_books(server);
	watch_entrances(server);
	if (all) {
		announce(server);
	} else {
		fprintf(stderr, "sluice: the system gave only %u of %u threads; choose fewer with --threads\n", started,
		        server->worker_count);
		close_entrances(server);
		for (uint32_t i = 0; i < server->worker_count; i++)
			sl_worker_drain(&server->workers[i]);
	}
	run_worker(&server->workers[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(server->workers[i].thread, NULL);
	hold_signals(); /* closing their handles gives them their default back, which is to kill */
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&server->signals[i], NULL);
	uv_close((uv_handle_t *)&server->sample, NULL);
	run_worker(&server->workers[0]);
	return all;
}

static bool set_up(struct server *server) {
	server->policy = load_policy(server->options->policy_file);
	if (server->policy == NULL)
		return false;
	const struct sl_settings *settings = sl_policy_settings(server->policy->policy);
	server->first = server->policy;
	atomic_fetch_add(&server->first->holders, 1);
	if (!settings_are_served(settings) || !open_entrances(server, settings))
		return false;
	server->store = sl_store_home_open(settings, server->options->quiet);
	if (server->store == NULL)
		return false;
	use_all_descriptors(server);
	if (make_workers(server, settings))
		return true;
	fprintf(stderr, "sluice: out of memory or descriptors while starting %u threads\n",
	        thread_count(server->options, settings));
	return false;
}

static void clear_up(struct server *server) {
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_free(&server->workers[i]);
	free(server->workers);
	sl_parts_free(&server->parts);
	for (uint32_t i = 0; i < server->entrance_count; i++)
		sl_listener_close(&server->entrances[i].listener);
	if (server->policy != NULL)
		sl_shared_policy_release(server->policy);
	if (server->first != NULL)
		sl_shared_policy_release(server->first);
	sluice_store_close(server->store);
	if (server->reserve >= 0)
		close(server->reserve);
}

int sl_server_run(const struct sl_server_options *options) {
	struct server server = {.options = options, .reserve = -1};
	bool served = set_up(&server) && run(&server);
	clear_up(&server);
	return served ? 0 : EXIT_FAILED;
}
