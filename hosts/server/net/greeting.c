/* What comes before a door's first byte: a PROXY header where the listener says so, then a TLS handshake where it does.
 *
 * The header is looked at in the socket before it is taken from it, so that not a byte after it is: that byte is
 * TLS's, or the door's. A header that goes on is kept with the connection and its bytes are taken, or the socket would
 * stay readable and the loop spin. */
#include "hosts/server/net/greeting.h"

#include "base/assert.h"
#include "hosts/server/net/input.h"
#include "proto/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

/* ---- PROXY ------------------------------------------------------------------------------------------------------- */

static bool take_from_socket(struct sl_connection *c, char *to, size_t len) {
	return len == 0 || recv(c->fd, to, len, 0) == (ssize_t)len;
}

/* From now on the peer is whom the header names; and counts for its own address. False: that has too many. */
static bool take_name(struct sl_connection *c, const struct sl_proxy *proxy) {
	const struct sluice_policy *policy = c->worker->context.policy;
	char host[SL_ADDRESS_TEXT_MAX];
	if (proxy->named) {
		sl_address_print(&proxy->address, host);
		snprintf(c->peer_text, sizeof c->peer_text, sl_address_is_v4(&proxy->address) ? "%s:%u" : "[%s]:%u", host,
		         proxy->port);
		c->peer.address = proxy->address;
		c->peer.is_unix = false;
		c->judged_by = UINT64_MAX;
	}
	c->is_named = true;
	if (c->peer.is_unix || sl_policy_trusts(policy, &c->peer.address) ||
	    sl_bounds_enter_address(c->worker->bounds, &c->place, &c->peer.address, sl_policy_settings(policy)))
		return true;
	sl_bounds_refuse(c->worker->bounds);
	return false;
}

enum sl_greeting sl_greeting_proxy(struct sl_connection *c) {
	char *bytes = c->worker->input;
	size_t kept = c->input_len;
	struct sl_proxy proxy;
	SL_ASSERT(kept < SL_PROXY_BYTES_MAX);
	c->wants = UV_READABLE;
	ssize_t got = recv(c->fd, bytes + kept, SL_PROXY_BYTES_MAX - kept, MSG_PEEK);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return SL_GREETING_LATER;
	if (got <= 0) /* with nothing before it, a balancer that only looked whether somebody listens */
		return kept == 0 ? SL_GREETING_CLOSED : SL_GREETING_FAILED;
	if (kept != 0)
		memcpy(bytes, c->input, kept);
	enum sl_proxy_result result = sl_proxy_parse(&proxy, bytes, kept + (size_t)got);
	size_t taken = result == SL_PROXY_DONE ? proxy.consumed - kept : (size_t)got;
	if (result == SL_PROXY_BAD || !take_from_socket(c, bytes + kept, taken))
		return SL_GREETING_FAILED;
	if (!sl_input_keep(c, bytes, result == SL_PROXY_DONE ? 0 : kept + taken) ||
	    (result == SL_PROXY_DONE && !take_name(c, &proxy)))
		return SL_GREETING_CLOSED;
	return result == SL_PROXY_DONE ? SL_GREETING_DONE : SL_GREETING_LATER;
}

/* ---- TLS --------------------------------------------------------------------------------------------------------- */

enum sl_greeting sl_greeting_handshake(struct sl_connection *c) {
	int result = sl_tls_handshake(c->tls, NULL);
	c->wants = result == SL_TLS_WANT_READ ? UV_READABLE : UV_WRITABLE;
	return result == 0 ? SL_GREETING_DONE : result == SL_TLS_FAILED ? SL_GREETING_REFUSED : SL_GREETING_LATER;
}
