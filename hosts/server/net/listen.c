/* Addresses and the sockets that listen on them.
 *
 * A unix socket's file outlives a server that was killed, and then keeps the next one from binding. Whether somebody
 * still listens is asked by connecting: refused means that nobody does, and only then is the file removed. */
#include "hosts/server/net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

/* An address that a socket can be bound to. */
struct target {
	struct sockaddr_storage address;
	socklen_t len;
};

static bool is_socket(const char *path) {
	struct stat status;
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static sluice_err fail_bind(struct sluice_error *error, const char *text, const char *option, int why) {
	bool other_file = why == EADDRINUSE && strncmp(text, "unix:", 5) == 0 && !is_socket(text + 5);
	if (other_file)
		snprintf(error->text, sizeof error->text,
		         "can't listen on %.120s: the file is no socket and is left alone (choose another with %s)", text,
		         option);
	else if (why == EADDRINUSE)
		snprintf(error->text, sizeof error->text,
		         "can't listen on %.120s: address already in use (is another sluice running? choose another with %s)",
		         text, option);
	else
		snprintf(error->text, sizeof error->text, "can't listen on %.120s: %s (choose another with %s)", text,
		         strerror(why), option);
	return SLUICE_E_SYSTEM;
}

static sluice_err fail_text(struct sluice_error *error, const char *text, const char *why, const char *option) {
	snprintf(error->text, sizeof error->text,
	         "can't listen on '%.80s': %s; %s expects HOST:PORT, [IPV6]:PORT or unix:/path", text, why, option);
	return SLUICE_E_SYNTAX;
}

/* ---- HOST:PORT ------------------------------------------------------------------------------------------------ */

/* Splits at the last colon; brackets around the host are taken off. */
static bool split(const char *text, char host[256], char port[8]) {
	const char *colon = strrchr(text, ':'), *start = text, *end = colon;
	if (colon == NULL || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
		return false;
	if (*text == '[') {
		if (colon == text || colon[-1] != ']')
			return false;
		start++;
		end--;
	} else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
		return false; /* an IPv6 address without brackets: which colon is the port's? */
	}
	if (end <= start || end - start > 255)
		return false;
	snprintf(host, 256, "%.*s", (int)(end - start), start);
	snprintf(port, 8, "%s", colon + 1);
	return true;
}

static sluice_err resolve(struct target *target, const char *text, const char *option, struct sluice_error *error) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
	char host[256], port[8];
	uint64_t number;
	if (!split(text, host, port))
		return fail_text(error, text, "not an address", option);
	if (!sl_bytes_to_u64(sl_str(port), &number) || number > 65535)
		return fail_text(error, text, "the port is not a number from 0 to 65535", option);
	int why = getaddrinfo(host, port, &hints, &found);
	if (why != 0)
		return fail_text(error, text, gai_strerror(why), option);
	memcpy(&target->address, found->ai_addr, found->ai_addrlen);
	target->len = found->ai_addrlen;
	freeaddrinfo(found);
	return SLUICE_OK;
}

static void describe_inet(struct sl_listener *listener) {
	struct sockaddr_storage address;
	socklen_t len = sizeof address;
	char host[INET6_ADDRSTRLEN] = "?";
	if (getsockname(listener->fd, (struct sockaddr *)&address, &len) != 0)
		return;
	if (address.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		listener->port = ntohs(in6->sin6_port);
		listener->loopback = IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
		snprintf(listener->name, sizeof listener->name, "[%s]:%u", host, listener->port);
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		listener->port = ntohs(in->sin_port);
		listener->loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
		snprintf(listener->name, sizeof listener->name, "%s:%u", host, listener->port);
	}
}

/* ---- unix:/path ----------------------------------------------------------------------------------------------- */

static sluice_err unix_target(struct target *target, const char *text, const char *option, struct sluice_error *error) {
	struct sockaddr_un *address = (struct sockaddr_un *)&target->address;
	const char *path = text + strlen("unix:");
	if (*path == '\0' || strlen(path) >= sizeof address->sun_path)
		return fail_text(error, text, "the path has to have 1 to 107 bytes", option);
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, path, strlen(path) + 1);
	target->len = sizeof *address;
	return SLUICE_OK;
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

/* ---- both ----------------------------------------------------------------------------------------------------- */

static int bind_and_listen(const struct target *target) {
	int on = 1;
	int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (target->address.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&target->address, target->len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

sluice_err sl_listen(struct sl_listener *listener, const char *text, const char *option, struct sluice_error *error) {
	struct target target = {.len = 0};
	bool is_unix = strncmp(text, "unix:", 5) == 0;
	*listener = (struct sl_listener){.fd = -1, .loopback = true};
	sluice_err err = is_unix ? unix_target(&target, text, option, error) : resolve(&target, text, option, error);
	if (err != SLUICE_OK)
		return err;
	listener->fd = bind_and_listen(&target);
	if (listener->fd < 0 && errno == EADDRINUSE && is_unix && is_stale(&target)) {
		unlink(text + strlen("unix:"));
		listener->fd = bind_and_listen(&target);
	}
	if (listener->fd < 0)
		return fail_bind(error, text, option, errno);
	if (is_unix) {
		snprintf(listener->name, sizeof listener->name, "%s", text);
		snprintf(listener->unix_path, sizeof listener->unix_path, "%s", text + strlen("unix:"));
	} else {
		describe_inet(listener);
	}
	return SLUICE_OK;
}

void sl_listener_close(struct sl_listener *listener) {
	if (listener->fd < 0)
		return;
	if (listener->unix_path[0] != '\0')
		unlink(listener->unix_path);
	close(listener->fd);
	listener->fd = -1;
}
