/* The bytes of a connection: on its socket as they are, or within TLS. What could not go on says which event it wants;
 * with TLS that may be the other one than expected. */
#include "hosts/server/net/wire.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t later(struct sl_connection *c, int event) {
	c->wants = event;
	return SL_WIRE_LATER;
}

static bool is_passing(int error) {
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static ssize_t of_tls(struct sl_connection *c, ssize_t result) {
	if (result >= 0)
		return result;
	return result == SL_TLS_WANT_READ    ? later(c, UV_READABLE)
	       : result == SL_TLS_WANT_WRITE ? later(c, UV_WRITABLE)
	                                     : SL_WIRE_BROKEN;
}

ssize_t sl_wire_read(struct sl_connection *c, char *to, size_t room) {
	if (c->tls != NULL)
		return of_tls(c, sl_tls_read(c->tls, to, room));
	ssize_t got = read(c->fd, to, room);
	return got >= 0 ? got : is_passing(errno) ? later(c, UV_READABLE) : SL_WIRE_BROKEN;
}

static ssize_t write_once(struct sl_connection *c, const char *data, size_t len) {
	if (c->tls != NULL)
		return of_tls(c, sl_tls_write(c->tls, data, len));
	ssize_t sent = send(c->fd, data, len, MSG_NOSIGNAL);
	return sent >= 0 ? sent : is_passing(errno) ? later(c, UV_WRITABLE) : SL_WIRE_BROKEN;
}

/* A record or a full socket ends a write before its time, so more than one may be needed. */
ssize_t sl_wire_write(struct sl_connection *c, const char *data, size_t len) {
	size_t sent = 0;
	while (sent < len) {
		ssize_t now = write_once(c, data + sent, len - sent);
		if (now == SL_WIRE_BROKEN)
			return now;
		if (now == SL_WIRE_LATER)
			break;
		sent += (size_t)now;
	}
	return (ssize_t)sent;
}

/* The kernel holds megabytes for a peer, and asks for more only when a third of that is gone: what the peer takes shows
 * here long before a write goes on. */
bool sl_wire_has_moved(struct sl_connection *c) {
	int queued = 0, before = c->queued;
	if (ioctl(c->fd, SIOCOUTQ, &queued) != 0)
		return false;
	c->queued = queued;
	return queued < before;
}

bool sl_wire_end(struct sl_connection *c) {
	if (c->tls != NULL)
		sl_tls_end(c->tls);
	return shutdown(c->fd, SHUT_WR) == 0;
}
