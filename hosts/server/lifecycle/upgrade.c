/* Hot upgrade, the process that goes.
 *
 *   this process                                  the program's file, started anew
 *   ------------                                  --------------------------------
 *   SIGUSR2: starts it with one end of a channel
 *   listening sockets, with what they are for --> opens the same store, loads the policy, starts its workers
 *                                             <-- "ready"   (or it dies, or 30 s pass: then all goes on here)
 *   stops accepting; "main"                   --> accepts; for systemd it is the main process from now on
 *   each connection, between two answers      --> serves it on
 *   ends when none is left                    --> end of the channel
 *
 * Listening never ceases, for both hold the same sockets: whoever connects meanwhile waits in their queue at most.
 * Decisions are right throughout, for both decide in the same store; so a server with private memory can't be upgraded
 * so. Nothing but the channel is inherited: all other descriptors are close-on-exec. */
#include "hosts/server/lifecycle/upgrade.h"

#include "hosts/server/lifecycle/entrances.h"
#include "hosts/server/lifecycle/readiness.h"
#include "hosts/server/lifecycle/reload.h"
#include "hosts/server/lifecycle/takeover.h"
#include "hosts/server/net/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	READY_MS = 30000,
	GIVE_TRIES = 5,
	GIVE_WAIT_MS = 20,
	REAP_TRIES = 50,
	COMMAND_BYTES_MAX = 128 * 1024,
	ARGUMENTS_MAX = 256,
	ENVIRONMENT_MAX = 1024,
	CHANNEL_BYTES = 1024 * 1024, /* asked for; the system gives what it may */
};

extern char **environ;

/* ---- how this process was started ------------------------------------------------------------------------------ */

static struct {
	char text[COMMAND_BYTES_MAX];
	char *arguments[ARGUMENTS_MAX + 1]; /* ended by NULL; no first one: not known */
} command;

void sl_upgrade_remember(void) {
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
	ssize_t len = fd < 0 ? -1 : read(fd, command.text, sizeof command.text);
	if (fd >= 0)
		close(fd);
	command.arguments[0] = NULL;
	if (len <= 0 || len == sizeof command.text || command.text[len - 1] != '\0')
		return;
	for (char *at = command.text; at < command.text + len && count < ARGUMENTS_MAX; at += strlen(at) + 1)
		command.arguments[count++] = at;
	command.arguments[count] = NULL;
}

/* ---- starting the other ---------------------------------------------------------------------------------------- */

/* This environment, without what systemd meant for this process alone. */
static void fill_environment(char *list[ENVIRONMENT_MAX + 3], char *channel, char *had) {
	static const char *const ours[] = {"LISTEN_PID=",   "LISTEN_FDS=",           "LISTEN_FDNAMES=",
	                                   "WATCHDOG_PID=", SL_TAKEOVER_VARIABLE "=", SL_TAKEOVER_HAD "="};
	int count = 0;
	for (char **at = environ; *at != NULL && count < ENVIRONMENT_MAX; at++) {
		bool is_ours = false;
		for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
			is_ours |= strncmp(*at, ours[i], strlen(ours[i])) == 0;
		if (!is_ours)
			list[count++] = *at;
	}
	list[count++] = channel;
	list[count++] = had;
	list[count] = NULL;
}

static void say_what_it_had(struct sl_server *server, char had[64]) {
	pthread_mutex_lock(&server->policy_lock);
	uint32_t armed = sl_policy_armed(server->policy->policy);
	snprintf(had, 64, SL_TAKEOVER_HAD "=%s,%s,%s,%s", (armed & SL_ARMED_LIMITS) != 0 ? "limits" : "",
	         (armed & SL_ARMED_USERS) != 0 ? "users" : "", (armed & SL_ARMED_RULES) != 0 ? "rules" : "",
	         sl_readiness_waits(server) ? "unready" : "");
	pthread_mutex_unlock(&server->policy_lock);
}

/* Starts the program with `channel` open in it; 0 or an errno. The signals that this process holds or ignores are not
 * held or ignored there. */
static int spawn(struct sl_server *server, int *pid, int channel) {
	char *environment[ENVIRONMENT_MAX + 3], variable[32], had[64];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	snprintf(variable, sizeof variable, SL_TAKEOVER_VARIABLE "=%d", channel);
	say_what_it_had(server, had);
	fill_environment(environment, variable, had);
	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attributes) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	/* a descriptor that is duplicated onto itself loses close-on-exec, there only */
	int why = posix_spawn_file_actions_adddup2(&actions, channel, channel);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	if (why == 0)
		why = posix_spawnp(pid, command.arguments[0], &actions, &attributes, command.arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return why;
}

/* One message with all listening sockets: a line for each, which says what it is for. */
static bool send_entrances(const struct sl_server *server, int channel) {
	char text[SL_TAKEOVER_TEXT_MAX], control[CMSG_SPACE(SL_LISTENS_MAX * sizeof(int))];
	struct sl_out out = sl_out_to(text, sizeof text);
	int fds[SL_LISTENS_MAX];
	sl_out_str(&out, SL_TAKEOVER_HEAD);
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		fds[i] = server->entrances[i].listener.fd;
		sl_out_str(&out, server->entrances[i].key);
		sl_out_char(&out, '\n');
	}
	size_t bytes = server->entrance_count * sizeof(int);
	struct iovec part = {text, sl_out_len(&out)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(bytes)};
	memset(control, 0, sizeof control);
	*CMSG_FIRSTHDR(&message) =
		(struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(bytes)};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, bytes);
	return !out.overflow && sendmsg(channel, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
}

/* ---- the other is ready, or failed ----------------------------------------------------------------------------- */

/* Called by workers, on their own threads. The other process is seldom behind for long. */
static bool give(void *to, int fd, const char *parcel, size_t len) {
	const struct sl_server *server = to;
	for (int i = 0; i < GIVE_TRIES; i++) {
		struct pollfd room = {.fd = server->upgrade.channel, .events = POLLOUT};
		if (sl_parcel_send(server->upgrade.channel, fd, parcel, len))
			return true;
		if (errno != EAGAIN)
			return false;
		(void)poll(&room, 1, GIVE_WAIT_MS);
	}
	return false;
}

static void hand_over(struct sl_server *server) {
	struct sl_upgrade *upgrade = &server->upgrade;
	uv_timer_stop(&upgrade->limit);
	uv_poll_stop(&upgrade->poll);
	upgrade->handed_over = true;
	server->phase = SL_CLOSING;
	sl_policy_fix(server, true);
	sl_entrances_close(server, true);
	/* the watchdog is fed: half its time may have passed here, and the new process may use up the other half */
	sl_notify("MAINPID=%d\nSTATUS=process %d has taken over\nWATCHDOG=1", upgrade->pid, upgrade->pid);
	(void)!send(upgrade->channel, SL_TAKEOVER_MAIN, strlen(SL_TAKEOVER_MAIN), MSG_NOSIGNAL);
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_hand_over(&server->workers[i], give, server);
	sl_log(SL_LOG_INFO, "process %d has taken over: process %d exits", upgrade->pid, (int)getpid());
}

/* Whatever has become of the other process, it is none after this. Its end of the channel closes a moment before its
 * status can be had, so it gets that moment. */
static void reap(struct sl_upgrade *upgrade, char what[64]) {
	int status = 0;
	pid_t ended = 0;
	snprintf(what, 64, "its exit status is unknown");
	for (int i = 0; i < REAP_TRIES && ended == 0; i++) {
		ended = waitpid(upgrade->pid, &status, WNOHANG);
		if (ended == 0)
			(void)poll(NULL, 0, 1);
	}
	if (ended == 0) {
		kill(upgrade->pid, SIGKILL);
		ended = waitpid(upgrade->pid, &status, 0);
	}
	if (ended != upgrade->pid)
		return;
	if (WIFEXITED(status))
		snprintf(what, 64, "it ended with status %d", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		snprintf(what, 64, "it was ended by signal %d", WTERMSIG(status));
}

static void on_channel_closed(uv_handle_t *handle) {
	struct sl_server *server = handle->data;
	close(server->upgrade.channel);
	server->upgrade.channel = -1; /* only now may the handle be used for another */
}

static void give_up(struct sl_server *server, const char *why) {
	char what[64];
	uv_close((uv_handle_t *)&server->upgrade.poll, on_channel_closed);
	uv_timer_stop(&server->upgrade.limit);
	reap(&server->upgrade, what);
	sl_log(SL_LOG_ERROR, "the upgrade failed: %s (%s); process %d keeps serving", why, what, (int)getpid());
}

static void on_message(uv_poll_t *handle, int status, int events) {
	struct sl_server *server = handle->data;
	char text[sizeof SL_TAKEOVER_READY];
	(void)events;
	ssize_t got = status != 0 ? 0 : recv(server->upgrade.channel, text, sizeof text, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == (ssize_t)strlen(SL_TAKEOVER_READY) && memcmp(text, SL_TAKEOVER_READY, (size_t)got) == 0)
		hand_over(server);
	else if (got <= 0)
		give_up(server, "the new process ended before it was ready");
	else
		give_up(server, "the new process speaks another version of the handover protocol");
}

static void on_limit(uv_timer_t *timer) {
	give_up(timer->data, "the new process was not ready within 30 s, and was ended");
}

void sl_upgrade_abandon(struct sl_server *server) {
	if (server->upgrade.channel >= 0 && !server->upgrade.handed_over &&
	    !uv_is_closing((uv_handle_t *)&server->upgrade.poll))
		give_up(server, "the server is shutting down");
}

/* ---- beginning ------------------------------------------------------------------------------------------------- */

/* Why there can be no upgrade now; NULL where there can. */
static const char *refusal(const struct sl_server *server) {
	const struct sl_settings *settings = sl_policy_settings(server->first->policy);
	if (settings->store_file == NULL && settings->store_shared == NULL && settings->redis.address_count == 0)
		return "the counters are in private memory and would be lost: use store: {file: ...} or {shared: ...}";
	if (server->phase != SL_SERVING)
		return "the server is shutting down";
	if (server->upgrade.channel >= 0)
		return "another upgrade is under way";
	if (server->predecessor >= 0)
		return "the previous process is still handing over";
	if (command.arguments[0] == NULL)
		return "/proc/self/cmdline does not say how this process was started";
	return NULL;
}

static void watch(struct sl_server *server) {
	uv_loop_t *loop = &server->workers[0].loop;
	struct sl_upgrade *upgrade = &server->upgrade;
	if (uv_handle_get_loop((uv_handle_t *)&upgrade->limit) == NULL) {
		uv_timer_init(loop, &upgrade->limit);
		uv_unref((uv_handle_t *)&upgrade->limit);
		upgrade->limit.data = server;
	}
	uv_timer_start(&upgrade->limit, on_limit, READY_MS, 0);
	uv_poll_init(loop, &upgrade->poll, upgrade->channel);
	uv_unref((uv_handle_t *)&upgrade->poll);
	upgrade->poll.data = server;
	uv_poll_start(&upgrade->poll, UV_READABLE, on_message);
}

void sl_upgrade_begin(struct sl_server *server) {
	int ends[2], bytes = CHANNEL_BYTES, why = 0;
	const char *refused = refusal(server);
	if (refused != NULL) {
		sl_log(SL_LOG_ERROR, "no upgrade: %s", refused);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
		sl_log(SL_LOG_ERROR, "no upgrade: %s", strerror(errno));
		return;
	}
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	why = send_entrances(server, ends[0]) ? spawn(server, &server->upgrade.pid, ends[1]) : errno;
	close(ends[1]);
	if (why != 0) {
		close(ends[0]);
		sl_log(SL_LOG_ERROR, "no upgrade: can't start %.300s: %s", command.arguments[0], strerror(why));
		return;
	}
	server->upgrade.channel = ends[0];
	sl_log(SL_LOG_INFO, "upgrade: process %d was started to take over", server->upgrade.pid);
	watch(server);
}
