/* One connection to a node.
 *
 *   RESOLVING -> CONNECTING -> AGREEING (TLS) -> OPEN -> CLOSED
 *
 * One uv_poll on the descriptor serves sockets of both families, unix sockets and TLS alike. Input and output are one
 * run of memory each: input grows to the longest token that a reply may have, output to SL_LINK_OUTPUT_BYTES_MAX and is
 * given back when it has been large and is empty. */
#include "hosts/server/cluster/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	INPUT_BYTES = 16 * 1024,
	INPUT_BYTES_MAX = 2 * SL_REPLY_TOKEN_BYTES_MAX,
	OUTPUT_BYTES = 16 * 1024,
	OUTPUT_BYTES_KEPT = 256 * 1024,
	READS_A_TURN = 16, /* then others have their turn */
};

enum state { RESOLVING, CONNECTING, AGREEING, OPEN, CLOSED };

struct memory {
	char *bytes;
	size_t at, end, room; /* what is in it: bytes + at .. bytes + end */
};

struct sl_link {
	struct sl_link_world *world;
	void *owner;
	uint8_t state;
	bool wants_write, has_poll;
	int fd;
	int events; /* that the poll waits for */
	uint32_t turn;
	uint32_t handles; /* of the loop: the poll, the resolver */
	struct sl_tls_session *tls;
	struct sl_node_place place;
	struct memory in, out;
	uint64_t queued, handed;
	uv_poll_t poll;
	uv_getaddrinfo_t resolver;
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Makes room for `bytes` after what is in it. */
static bool make_room(struct memory *memory, size_t bytes, size_t least, size_t most) {
	const size_t used = memory->end - memory->at;
	if (memory->room - memory->end >= bytes)
		return true;
	if (used + bytes > most)
		return false;
	if (used + bytes <= memory->room / 2 && memory->at != 0) {
		memmove(memory->bytes, memory->bytes + memory->at, used);
	} else {
		size_t room = memory->room > least ? memory->room : least;
		while (room < used + bytes)
			room *= 2;
		char *grown = malloc(room);
		if (grown == NULL)
			return false;
		if (used != 0)
			memcpy(grown, memory->bytes + memory->at, used);
		free(memory->bytes);
		memory->bytes = grown;
		memory->room = room;
	}
	memory->at = 0;
	memory->end = used;
	return true;
}

static void take(struct memory *memory, size_t bytes) {
	memory->at += bytes;
	if (memory->at == memory->end)
		memory->at = memory->end = 0;
}

static void give_back(struct memory *memory) {
	free(memory->bytes);
	*memory = (struct memory){NULL, 0, 0, 0};
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void forget_handle(struct sl_link *link) {
	struct sl_link_world *world = link->world;
	if (--link->handles != 0)
		return;
	free(link);
	world->alive--;
	world->ended(world);
}

static void on_closed(uv_handle_t *handle) {
	forget_handle(handle->data);
}

void sl_link_close(struct sl_link *link) {
	if (link->state == CLOSED)
		return;
	if (link->state == RESOLVING)
		(void)uv_cancel((uv_req_t *)&link->resolver); /* one that runs ends by itself */
	link->state = CLOSED;
	if (link->has_poll)
		uv_close((uv_handle_t *)&link->poll, on_closed);
	if (link->tls != NULL)
		sl_tls_end(link->tls);
	sl_tls_close(link->tls);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	give_back(&link->in);
	give_back(&link->out);
}

static void fail(struct sl_link *link, const char *why) {
	if (link->state == CLOSED)
		return;
	sl_link_close(link);
	link->world->down(link, link->owner, why);
}

static void fail_errno(struct sl_link *link, int error) {
	char why[SL_LINK_WHY_BYTES];
	snprintf(why, sizeof why, "%s", strerror(error));
	fail(link, why);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static bool wait_for(struct sl_link *link, int events) {
	if (link->events == events)
		return true;
	link->events = events;
	return uv_poll_start(&link->poll, events, on_poll) == 0;
}

/* A socket on its way to an address. False: errno says why. */
static bool begin(struct sl_link *link, const struct sockaddr *address, socklen_t len) {
	const int yes = 1, idle = 15, between = 5, times = 3;
	link->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (link->fd < 0)
		return false;
	if (address->sa_family != AF_UNIX) {
		(void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		(void)setsockopt(link->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
		(void)setsockopt(link->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
		(void)setsockopt(link->fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
		(void)setsockopt(link->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
	}
	if (connect(link->fd, address, len) != 0 && errno != EINPROGRESS)
		return false;
	if (uv_poll_init(link->world->loop, &link->poll, link->fd) != 0) {
		errno = EMFILE;
		return false;
	}
	link->poll.data = link;
	link->has_poll = true;
	link->handles++;
	link->state = CONNECTING;
	return wait_for(link, UV_WRITABLE);
}

static void on_resolved(uv_getaddrinfo_t *resolver, int status, struct addrinfo *found) {
	struct sl_link *link = resolver->data;
	if (link->state != CLOSED && status != 0) {
		fail(link, uv_strerror(status));
	} else if (link->state != CLOSED) {
		uint32_t count = 0;
		for (const struct addrinfo *one = found; one != NULL; one = one->ai_next)
			count++;
		const struct addrinfo *chosen = found;
		for (uint32_t skip = link->turn % count; skip > 0; skip--)
			chosen = chosen->ai_next;
		if (!begin(link, chosen->ai_addr, chosen->ai_addrlen))
			fail_errno(link, errno);
	}
	uv_freeaddrinfo(found);
	forget_handle(link);
}

static bool resolve(struct sl_link *link) {
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	char port[8];
	snprintf(port, sizeof port, "%u", link->place.port);
	link->resolver.data = link;
	if (uv_getaddrinfo(link->world->loop, &link->resolver, on_resolved, link->place.host, port, &hints) != 0)
		return false;
	link->handles++;
	return true;
}

/* Addresses are no names: they go without the resolver. */
static bool connect_to(struct sl_link *link) {
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(link->place.port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(link->place.port)};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	if (link->place.is_unix) {
		if (strlen(link->place.host) >= sizeof local.sun_path)
			return errno = ENAMETOOLONG, false;
		memcpy(local.sun_path, link->place.host, strlen(link->place.host) + 1);
		return begin(link, (const struct sockaddr *)&local, sizeof local);
	}
	if (inet_pton(AF_INET, link->place.host, &v4.sin_addr) == 1)
		return begin(link, (const struct sockaddr *)&v4, sizeof v4);
	if (inet_pton(AF_INET6, link->place.host, &v6.sin6_addr) == 1)
		return begin(link, (const struct sockaddr *)&v6, sizeof v6);
	errno = EINVAL;
	return resolve(link);
}

struct sl_link *sl_link_open(struct sl_link_world *world, const struct sl_node_place *place, uint32_t turn, void *owner,
                             char why[SL_LINK_WHY_BYTES]) {
	struct sl_link *link = calloc(1, sizeof *link);
	if (link == NULL) {
		snprintf(why, SL_LINK_WHY_BYTES, "out of memory");
		return NULL;
	}
	link->world = world;
	link->owner = owner;
	link->place = *place;
	link->turn = turn;
	link->fd = -1;
	link->handles = 1; /* this call */
	world->alive++;
	const bool begun = connect_to(link);
	if (!begun) {
		snprintf(why, SL_LINK_WHY_BYTES, "%s", strerror(errno));
		sl_link_close(link);
	}
	if (link->handles > 1)
		link->handles--;
	else { /* nothing of it on the loop */
		world->alive--;
		free(link);
		return NULL;
	}
	return begun ? link : NULL;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

char *sl_link_room(struct sl_link *link, size_t bytes) {
	if (link->state != OPEN || !make_room(&link->out, bytes, OUTPUT_BYTES, SL_LINK_OUTPUT_BYTES_MAX))
		return NULL;
	return link->out.bytes + link->out.end;
}

void sl_link_wrote(struct sl_link *link, size_t bytes) {
	link->out.end += bytes;
	link->queued += bytes;
}

uint64_t sl_link_queued(const struct sl_link *link) {
	return link->queued;
}

uint64_t sl_link_handed(const struct sl_link *link) {
	return link->handed;
}

/* Bytes taken; 0: not now; -1: errno says why, or 0 for TLS. */
static ssize_t hand_over(struct sl_link *link, const char *data, size_t len) {
	ssize_t sent;
	if (link->tls == NULL) {
		do
			sent = send(link->fd, data, len, MSG_NOSIGNAL);
		while (sent < 0 && errno == EINTR);
		return sent >= 0 ? sent : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
	}
	errno = 0;
	sent = sl_tls_write(link->tls, data, len);
	return sent > 0 ? sent : sent == SL_TLS_WANT_READ || sent == SL_TLS_WANT_WRITE ? 0 : -1;
}

void sl_link_flush(struct sl_link *link) {
	if (link->state != OPEN)
		return;
	ssize_t sent = 1;
	while (link->out.at != link->out.end && sent > 0) {
		sent = hand_over(link, link->out.bytes + link->out.at, link->out.end - link->out.at);
		if (sent > 0) {
			take(&link->out, (size_t)sent);
			link->handed += (size_t)sent;
		}
	}
	if (sent < 0) {
		fail_errno(link, errno != 0 ? errno : ECONNRESET);
		return;
	}
	if (link->out.at == link->out.end && link->out.room > OUTPUT_BYTES_KEPT)
		give_back(&link->out);
	if (!wait_for(link, UV_READABLE | (link->out.at != link->out.end ? UV_WRITABLE : 0)))
		fail(link, "the system does not watch its socket");
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Bytes read; 0: not now; -1: it has ended, and `down` was called. */
static ssize_t receive(struct sl_link *link, char *into, size_t room) {
	ssize_t got;
	errno = 0;
	if (link->tls != NULL) {
		got = sl_tls_read(link->tls, into, room);
		if (got == SL_TLS_WANT_READ || got == SL_TLS_WANT_WRITE)
			return 0;
	} else {
		do
			got = recv(link->fd, into, room, 0);
		while (got < 0 && errno == EINTR);
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
	}
	if (got > 0)
		return got;
	if (got == 0)
		fail(link, "it has closed the connection");
	else
		fail_errno(link, errno != 0 ? errno : ECONNRESET);
	return -1;
}

/* Gives what came to the owner. False: closed. */
static bool deliver(struct sl_link *link) {
	const char *why = "a reply that is none";
	size_t need = 1;
	const ptrdiff_t taken =
		link->world->bytes(link, link->owner, link->in.bytes + link->in.at, link->in.end - link->in.at, &need, &why);
	if (link->state == CLOSED)
		return false;
	if (taken < 0) {
		char text[SL_LINK_WHY_BYTES];
		snprintf(text, sizeof text, "it does not speak Redis' protocol: %s", why);
		fail(link, text);
		return false;
	}
	take(&link->in, (size_t)taken);
	const size_t used = link->in.end - link->in.at;
	if (make_room(&link->in, need > used ? need - used : 1, INPUT_BYTES, INPUT_BYTES_MAX))
		return true;
	fail(link, "no memory for what it says");
	return false;
}

static void read_in(struct sl_link *link) {
	if (!make_room(&link->in, 1, INPUT_BYTES, INPUT_BYTES_MAX)) {
		fail(link, "no memory for what it says");
		return;
	}
	for (int i = 0; i < READS_A_TURN || (link->tls != NULL && sl_tls_has_more(link->tls)); i++) {
		const size_t room = link->in.room - link->in.end;
		const ssize_t got = receive(link, link->in.bytes + link->in.end, room);
		if (got <= 0)
			return;
		link->in.end += (size_t)got;
		if (!deliver(link))
			return;
		if (link->tls == NULL && (size_t)got < room)
			return;
	}
}

/* ---- readiness --------------------------------------------------------------------------------------------------- */

static void open_up(struct sl_link *link) {
	link->state = OPEN;
	if (!wait_for(link, UV_READABLE))
		fail(link, "the system does not watch its socket");
	else
		link->world->up(link, link->owner);
}

static void agree(struct sl_link *link) {
	char why[SL_TLS_WHY_BYTES];
	const int next = sl_tls_handshake(link->tls, why);
	if (next == 0) {
		open_up(link);
	} else if (next == SL_TLS_FAILED) {
		fail(link, why);
	} else if (!wait_for(link, next == SL_TLS_WANT_WRITE ? UV_WRITABLE : UV_READABLE)) {
		fail(link, "the system does not watch its socket");
	}
}

static void connected(struct sl_link *link) {
	int error = 0;
	socklen_t len = sizeof error;
	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0) {
		fail_errno(link, error);
		return;
	}
	if (link->world->tls == NULL || link->place.is_unix) {
		open_up(link);
		return;
	}
	link->state = AGREEING;
	link->tls = sl_tls_call(link->world->tls, link->fd, link->place.host);
	if (link->tls == NULL)
		fail(link, "no memory for TLS");
	else
		agree(link);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
	struct sl_link *link = poll->data;
	if (link->state == CLOSED)
		return;
	if (link->state == CONNECTING) { /* also after an error: the socket knows which */
		connected(link);
	} else if (link->state == AGREEING) {
		agree(link);
	} else if (status < 0) {
		fail(link, uv_strerror(status));
	} else {
		if ((events & UV_WRITABLE) != 0)
			sl_link_flush(link);
		if (link->state == OPEN && (events & UV_READABLE) != 0)
			read_in(link);
	}
}
