/* Addresses and the sockets that listen on them.
 *
 * A unix socket's file outlives a server that was killed, and then keeps the next one from binding. Whether somebody
 * still listens is asked by connecting: refused means that nobody does, and only then is the file removed.
 *
 * Its permissions are those of the socket at the moment of bind(), less the umask: so they are set before, and the
 * umask is 0 for that moment. To change them afterwards would leave the file open to others in between. */
#include "hosts/server/net/listen.h"

#include "policy/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 4096, UNSENT_BYTES_MAX = 256 * 1024 };

/* An address that a socket can be bound to. */
struct target {
	struct sockaddr_storage address;
	socklen_t len;
};

static bool is_socket(const char *path) {
	struct stat status;
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static bool fail_bind(struct sluice_error *error, const char *text, const char *option, int why) {
	bool other_file = why == EADDRINUSE && strncmp(text, "unix:", 5) == 0 && !is_socket(text + 5);
	if (other_file)
		snprintf(error->text, sizeof error->text,
		         "can't listen on %.120s: the file is not a socket and is left alone (choose another with %s)", text,
		         option);
	else if (why == EADDRINUSE)
		snprintf(error->text, sizeof error->text,
		         "can't listen on %.120s: address already in use (is another sluice running? choose another with %s)",
		         text, option);
	else
		snprintf(error->text, sizeof error->text, "can't listen on %.120s: %s (choose another with %s)", text,
		         strerror(why), option);
	return false;
}

static bool fail_text(struct sluice_error *error, const char *text, const char *why, const char *option) {
	snprintf(error->text, sizeof error->text,
	         "can't listen on '%.80s': %s; %s expects HOST:PORT, [IPV6]:PORT or unix:/path", text, why, option);
	return false;
}

/* ---- HOST:PORT ------------------------------------------------------------------------------------------------ */

static bool resolve(struct target *target, const char *text, const char *option, struct sluice_error *error) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
	char host[256], port[8];
	uint64_t number;
	/* an IPv6 address without brackets: which colon is the port's? */
	if (!sl_host_split(text, host, port) || (*text != '[' && strchr(host, ':') != NULL))
		return fail_text(error, text, "not an address", option);
	if (!sl_bytes_to_u64(sl_str(port), &number) || number > 65535)
		return fail_text(error, text, "the port is not a number from 0 to 65535", option);
	int why = getaddrinfo(host, port, &hints, &found);
	if (why != 0)
		return fail_text(error, text, gai_strerror(why), option);
	memcpy(&target->address, found->ai_addr, found->ai_addrlen);
	target->len = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

static bool is_loopback(const struct sockaddr_storage *address) {
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	if (address->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	return address->ss_family == AF_UNIX;
}

static void describe_inet(struct sl_listener *listener, const struct sockaddr_storage *address) {
	char host[INET6_ADDRSTRLEN] = "?";
	listener->loopback = is_loopback(address);
	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		listener->port = ntohs(in6->sin6_port);
		snprintf(listener->name, sizeof listener->name, "[%s]:%u", host, listener->port);
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		listener->port = ntohs(in->sin_port);
		snprintf(listener->name, sizeof listener->name, "%s:%u", host, listener->port);
	}
}

/* ---- unix:/path ----------------------------------------------------------------------------------------------- */

static bool unix_target(struct target *target, const char *text, const char *option, struct sluice_error *error) {
	struct sockaddr_un *address = (struct sockaddr_un *)&target->address;
	const char *path = text + strlen("unix:");
	if (*path == '\0' || strlen(path) >= sizeof address->sun_path)
		return fail_text(error, text, "the path has to have 1 to 107 bytes", option);
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, path, strlen(path) + 1);
	target->len = sizeof *address;
	return true;
}

/* Whether a unix socket's file is left over from a server that is gone. */
static bool is_stale(const struct target *target) {
	const struct sockaddr_un *address = (const struct sockaddr_un *)&target->address;
	if (!is_socket(address->sun_path))
		return false;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	int result = connect(fd, (const struct sockaddr *)address, target->len);
	bool refused = result != 0 && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

/* The name of a unix socket, and which file it has. An abstract one has none: nothing is to be removed. */
static void describe_unix(struct sl_listener *listener, const struct sockaddr_un *address, bool remove) {
	struct stat status;
	listener->loopback = true;
	bool is_abstract = address->sun_path[0] == '\0';
	snprintf(listener->name, sizeof listener->name, "unix:%s%.*s", is_abstract ? "@" : "",
	         (int)sizeof address->sun_path - 1, address->sun_path + is_abstract);
	if (!remove || is_abstract || lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
		return;
	snprintf(listener->unix_path, sizeof listener->unix_path, "%.*s", (int)sizeof address->sun_path, address->sun_path);
	listener->unix_device = status.st_dev;
	listener->unix_inode = status.st_ino;
}

/* ---- both ----------------------------------------------------------------------------------------------------- */

static int close_failed(int fd) {
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static int bind_unix(int fd, const struct target *target, uint32_t mode) {
	if (fchmod(fd, mode) != 0)
		return -1;
	mode_t before = umask(0);
	int bound = bind(fd, (const struct sockaddr *)&target->address, target->len);
	int why = errno;
	umask(before);
	errno = why;
	return bound;
}

static int bind_inet(int fd, const struct target *target) {
	int on = 1;
	if (target->address.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	return bind(fd, (const struct sockaddr *)&target->address, target->len);
}

static int bind_and_listen(const struct target *target, uint32_t mode) {
	bool is_unix = target->address.ss_family == AF_UNIX;
	int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if ((is_unix ? bind_unix(fd, target, mode) : bind_inet(fd, target)) != 0)
		return close_failed(fd);
	return listen(fd, BACKLOG) == 0 ? fd : close_failed(fd);
}

/* Sets the listener's name and reach, by what the socket says of itself. */
static bool describe(struct sl_listener *listener, int fd, bool remove) {
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof address;
	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
		return false;
	if (address.ss_family == AF_UNIX) {
		describe_unix(listener, (const struct sockaddr_un *)&address, remove);
		return true;
	}
	describe_inet(listener, &address);
	return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

static bool refuse_public(struct sluice_error *error, const char *text, bool no_login) {
	if (no_login)
		snprintf(error->text, sizeof error->text,
		         "refusing to listen on %.60s: other hosts can reach it and its protocol has no login; listen on "
		         "127.0.0.1 or unix:/path, or say tls: true in the policy, with a client-ca",
		         text);
	else
		snprintf(
			error->text, sizeof error->text,
			"refusing to listen on %.60s: other hosts can reach it and the policy has no users; add users, listen on "
			"127.0.0.1 or unix:/path, or say unprotected: true there or --unprotected here",
			text);
	return false;
}

bool sl_listen(struct sl_listener *listener, const struct sl_listen_ask *ask, struct sluice_error *error) {
	struct target target = {.len = 0};
	const char *text = ask->text;
	bool is_unix = strncmp(text, "unix:", 5) == 0;
	*listener = (struct sl_listener){.fd = -1, .loopback = true};
	if (!(is_unix ? unix_target : resolve)(&target, text, ask->option, error))
		return false;
	listener->loopback = is_loopback(&target.address);
	if (ask->local_only && !listener->loopback)
		return refuse_public(error, text, ask->no_login);
	if (ask->only_look)
		return true;
	listener->fd = bind_and_listen(&target, ask->mode);
	if (listener->fd < 0 && errno == EADDRINUSE && is_unix && is_stale(&target)) {
		unlink(text + strlen("unix:"));
		listener->fd = bind_and_listen(&target, ask->mode);
	}
	if (listener->fd < 0)
		return fail_bind(error, text, ask->option, errno);
	if (describe(listener, listener->fd, true))
		return true;
	(void)fail_bind(error, text, ask->option, errno);
	sl_listener_leave(listener);
	return false;
}

/* ---- given descriptors ---------------------------------------------------------------------------------------- */

static bool option_is(int fd, int option, int expected) {
	int value = 0;
	socklen_t len = sizeof value;
	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == expected;
}

bool sl_listener_adopt(struct sl_listener *listener, int fd, bool remove, struct sluice_error *error) {
	*listener = (struct sl_listener){.fd = -1};
	const char *why = NULL;
	if (!option_is(fd, SO_TYPE, SOCK_STREAM))
		why = "it is not a stream socket";
	else if (!option_is(fd, SO_ACCEPTCONN, 1))
		why = "nothing listens on it";
	else if (!describe(listener, fd, remove))
		why = "it is neither IPv4, IPv6 nor unix";
	else if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		why = strerror(errno);
	if (why == NULL) {
		listener->fd = fd;
		return true;
	}
	snprintf(error->text, sizeof error->text, "descriptor %d can't be served: %s", fd, why);
	return false;
}

void sl_listener_close(struct sl_listener *listener) {
	struct stat status;
	if (listener->fd >= 0 && listener->unix_path[0] != '\0' && lstat(listener->unix_path, &status) == 0 &&
	    status.st_dev == listener->unix_device && status.st_ino == listener->unix_inode)
		unlink(listener->unix_path);
	sl_listener_leave(listener);
}

void sl_listener_leave(struct sl_listener *listener) {
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
}

void sl_listener_tune(const struct sl_listener *listener) {
	static const struct {
		int level, option, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 60},
		{IPPROTO_TCP, TCP_KEEPINTVL, 15},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, SL_USER_TIMEOUT_MS},
		{IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX},
	};
	struct sockaddr_storage address;
	socklen_t len = sizeof address;
	if (getsockname(listener->fd, (struct sockaddr *)&address, &len) != 0 || address.ss_family == AF_UNIX)
		return;
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		setsockopt(listener->fd, options[i].level, options[i].option, &options[i].value, sizeof options[i].value);
}
