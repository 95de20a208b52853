/* Real redis-servers for tests; see redis_servers.h. */
#include "tests/unit/redis_servers.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include <cmocka.h>

enum { ARGS_MAX = 64 };

static const char program[] = "/usr/bin/redis-server";

bool redis_is_there(void) {
	return access(program, X_OK) == 0;
}

static int loopback(uint16_t port, int (*call)(int, const struct sockaddr *, socklen_t)) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	const int yes = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (call(fd, (const struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

uint16_t redis_free_port(void) {
	for (int tries = 0; tries < 100; tries++) {
		struct sockaddr_in address;
		socklen_t len = sizeof address;
		int fd = loopback(0, bind);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
		close(fd);
		const uint16_t port = ntohs(address.sin_port);
		if (port > 50000) /* a cluster's bus is 10000 above */
			continue;
		fd = loopback((uint16_t)(port + 10000), bind);
		if (fd < 0)
			continue;
		close(fd);
		return port;
	}
	fail_msg("no free port");
	return 0;
}

static void run(const struct redis_server *server, bool plain, const char *const *args) {
	char port[8];
	const char *argv[ARGS_MAX] = {
		program,  "--port", port,           "--bind", "127.0.0.1", "--dir", server->folder,
		"--save", "",       "--appendonly", "no",     "--logfile", "log",   "--repl-diskless-sync-delay",
		"0"};
	static const char *const renamed[] = {"--rename-command", "INCRBY",   "SLUICE.CHECK",
	                                      "--rename-command", "BITFIELD", "SLUICE.PEEK",
	                                      "--rename-command", "DECRBY",   "SLUICE.LEASE"};
	size_t count = 0;
	(void)snprintf(port, sizeof port, "%u", server->port);
	while (argv[count] != NULL)
		count++;
	for (size_t i = 0; !plain && i < sizeof renamed / sizeof *renamed; i++)
		argv[count++] = renamed[i];
	for (size_t i = 0; args != NULL && args[i] != NULL && count < ARGS_MAX - 1; i++)
		argv[count++] = args[i];
	argv[count] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	const int null = open("/dev/null", O_RDWR);
	dup2(null, STDOUT_FILENO);
	execv(program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static bool has_said_it_is_ready(const struct redis_server *server) {
	char path[80], line[512];
	bool ready = false;
	(void)snprintf(path, sizeof path, "%s/log", server->folder);
	FILE *log = fopen(path, "r");
	while (log != NULL && !ready && fgets(line, sizeof line, log) != NULL)
		ready = strstr(line, "eady to accept connections") != NULL;
	if (log != NULL)
		fclose(log);
	return ready;
}

static void wait_a_little(void) {
	const struct timespec little = {.tv_nsec = 5000000};
	nanosleep(&little, NULL);
}

void redis_start(struct redis_server *server, bool plain, const char *const *args) {
	if (server->port == 0)
		server->port = redis_free_port();
	if (server->folder[0] == '\0') {
		(void)snprintf(server->folder, sizeof server->folder, "/tmp/sluice-redis-XXXXXX");
		assert_non_null(mkdtemp(server->folder));
	}
	char log[80];
	(void)snprintf(log, sizeof log, "%s/log", server->folder);
	(void)unlink(log);
	(void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (server->pid == 0)
		run(server, plain, args);
	for (int i = 0; i < 6000 && !has_said_it_is_ready(server); i++) {
		int status;
		if (waitpid(server->pid, &status, WNOHANG) == server->pid)
			fail_msg("redis-server has ended by itself: see %s/log", server->folder);
		wait_a_little();
	}
	assert_true(has_said_it_is_ready(server));
}

/* The folder, and what the server left in it. */
static void clear(const char *folder) {
	char path[512];
	DIR *dir = opendir(folder);
	for (const struct dirent *one; dir != NULL && (one = readdir(dir)) != NULL;) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
		(void)unlink(path);
	}
	if (dir != NULL)
		closedir(dir);
	(void)rmdir(folder);
}

void redis_end(struct redis_server *server, int number) {
	int status;
	if (server->pid > 0) {
		kill(server->pid, number);
		assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
	}
	server->pid = 0;
	if (number == SIGTERM)
		clear(server->folder);
}

const char *redis_say(const struct redis_server *server, const char *line) {
	static char reply[64 * 1024];
	ssize_t got = 0;
	int fd = loopback(server->port, connect);
	reply[0] = '\0';
	if (fd < 0)
		return reply;
	(void)dprintf(fd, "%s\r\nQUIT\r\n", line);
	for (ssize_t more = 1; more > 0 && got<(ssize_t)sizeof reply - 1; got += more> 0 ? more : 0)
		more = read(fd, reply + got, sizeof reply - 1 - (size_t)got);
	reply[got] = '\0';
	close(fd);
	return reply;
}

void redis_await(const struct redis_server *server, const char *line, const char *holds, unsigned ms) {
	for (unsigned i = 0; i < ms / 5; i++) {
		if (strstr(redis_say(server, line), holds) != NULL)
			return;
		wait_a_little();
	}
	fail_msg("%s: %s: not '%s' within %u ms, but %s", server->address, line, holds, ms, redis_say(server, line));
}
