/* One connection to a node.
 *
 *   RESOLVING -> CONNECTING -> AGREEING (TLS) -> OPEN -> CLOSED
 *
 * Sockets and names are the loop's (loop/loop.h). Input and output are one run of memory each: input grows to the
 * longest token that a reply may have, output to SL_LINK_OUTPUT_BYTES_MAX and is given back when it has been large and
 * is empty. */
#include "hosts/server/cluster/link.h"

#include "base/assert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

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
	uint32_t turn;
	uint32_t handles; /* of the loop: the socket, the lookup */
	struct sl_socket *socket;
	struct sl_lookup *lookup;
	struct sl_tls_session *tls;
	struct sl_node_place place;
	struct memory in, out;
	uint64_t queued, handed;
};

static void on_ready(void *to, int error, int events);

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

static void forget_handle(void *to) {
	struct sl_link *link = to;
	struct sl_link_world *world = link->world;
	if (--link->handles != 0)
		return;
	free(link);
	world->alive--;
	world->ended(world);
}

void sl_link_close(struct sl_link *link) {
	if (link->state == CLOSED)
		return;
	link->state = CLOSED;
	if (link->lookup != NULL)
		sl_lookup_cancel(link->lookup);
	if (link->tls != NULL)
		sl_tls_end(link->tls);
	sl_tls_close(link->tls);
	if (link->socket != NULL)
		sl_socket_close(link->socket);
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

/* A socket on its way to an address. False: errno says why. */
static bool begin(struct sl_link *link, const struct sockaddr *address, socklen_t len) {
	const struct sl_socket_events events = {.ready = on_ready, .gone = forget_handle, .to = link};
	link->socket = sl_socket_connect(link->world->loop, address, len, &events);
	if (link->socket == NULL)
		return false;
	link->handles++;
	link->state = CONNECTING;
	return true;
}

static void on_found(void *to, const char *why, const struct addrinfo *addresses) {
	struct sl_link *link = to;
	link->lookup = NULL;
	if (link->state != CLOSED && why != NULL) {
		fail(link, why);
	} else if (link->state != CLOSED) {
		uint32_t count = 0;
		for (const struct addrinfo *one = addresses; one != NULL; one = one->ai_next)
			count++;
		SL_ASSERT(count != 0); /* else `why` says why there are none */
		const struct addrinfo *chosen = addresses;
		for (uint32_t skip = link->turn % count; skip > 0; skip--)
			chosen = chosen->ai_next;
		if (!begin(link, chosen->ai_addr, chosen->ai_addrlen))
			fail_errno(link, errno);
	}
	forget_handle(link);
}

static bool resolve(struct sl_link *link) {
	char port[8];
	snprintf(port, sizeof port, "%u", link->place.port);
	link->lookup = sl_lookup_new(link->world->loop, link->place.host, port, on_found, link);
	if (link->lookup == NULL)
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

/* Bytes taken; -EAGAIN: not now; -errno. */
static ssize_t hand_over(struct sl_link *link, const char *data, size_t len) {
	if (link->tls == NULL)
		return sl_socket_send(link->socket, data, len);
	errno = 0;
	const ssize_t sent = sl_tls_write(link->tls, data, len);
	if (sent > 0)
		return sent;
	return sent == SL_TLS_WANT_READ || sent == SL_TLS_WANT_WRITE ? -EAGAIN : -(errno != 0 ? errno : ECONNRESET);
}

static void fail_broken(struct sl_link *link, int error);

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
	if (sent < 0 && sent != -EAGAIN) {
		fail_broken(link, (int)-sent);
		return;
	}
	if (link->out.at == link->out.end && link->out.room > OUTPUT_BYTES_KEPT)
		give_back(&link->out);
	if (!sl_socket_watch(link->socket,
	                     SL_SOCKET_READABLE | (link->out.at != link->out.end ? SL_SOCKET_WRITABLE : 0)))
		fail(link, "the system refused to watch its socket");
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Bytes read; 0: it has ended; -EAGAIN: not now; -errno. */
static ssize_t take_over(struct sl_link *link, char *into, size_t room) {
	if (link->tls == NULL)
		return sl_socket_receive(link->socket, into, room);
	errno = 0;
	const ssize_t got = sl_tls_read(link->tls, into, room);
	if (got >= 0)
		return got;
	return got == SL_TLS_WANT_READ || got == SL_TLS_WANT_WRITE ? -EAGAIN : -(errno != 0 ? errno : ECONNRESET);
}

/* Bytes read; 0: not now; -1: it has ended, and `down` was called. */
static ssize_t receive(struct sl_link *link, char *into, size_t room) {
	const ssize_t got = take_over(link, into, room);
	if (got > 0)
		return got;
	if (got == -EAGAIN)
		return 0;
	if (got == 0)
		fail(link, "it closed the connection");
	else
		fail_errno(link, (int)-got);
	return -1;
}

/* Gives what came to the owner. False: closed. */
static bool deliver(struct sl_link *link) {
	const char *why = "a malformed reply";
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
	fail(link, "no memory for its answer");
	return false;
}

static void read_in(struct sl_link *link) {
	if (!make_room(&link->in, 1, INPUT_BYTES, INPUT_BYTES_MAX)) {
		fail(link, "no memory for its answer");
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

/* A node that hangs up may have said why before: what has come is read first. */
static void fail_broken(struct sl_link *link, int error) {
	for (int i = 0; i < READS_A_TURN && make_room(&link->in, 1, INPUT_BYTES, INPUT_BYTES_MAX); i++) {
		const ssize_t got = take_over(link, link->in.bytes + link->in.end, link->in.room - link->in.end);
		if (got <= 0)
			break;
		link->in.end += (size_t)got;
		if (!deliver(link))
			return;
	}
	fail_errno(link, error);
}

/* ---- readiness --------------------------------------------------------------------------------------------------- */

static void open_up(struct sl_link *link) {
	link->state = OPEN;
	if (!sl_socket_watch(link->socket, SL_SOCKET_READABLE))
		fail(link, "the system refused to watch its socket");
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
	} else if (!sl_socket_watch(link->socket, next == SL_TLS_WANT_WRITE ? SL_SOCKET_WRITABLE : SL_SOCKET_READABLE)) {
		fail(link, "the system refused to watch its socket");
	}
}

static void connected(struct sl_link *link) {
	const int error = sl_socket_error(link->socket);
	if (error != 0) {
		fail_errno(link, error);
		return;
	}
	if (link->world->tls == NULL || link->place.is_unix) {
		open_up(link);
		return;
	}
	link->state = AGREEING;
	link->tls = sl_tls_call(link->world->tls, sl_socket_descriptor(link->socket), link->place.host);
	if (link->tls == NULL)
		fail(link, "no memory for TLS");
	else
		agree(link);
}

static void on_ready(void *to, int error, int events) {
	struct sl_link *link = to;
	if (link->state == CLOSED)
		return;
	if (link->state == CONNECTING) { /* also after an error: the socket knows which */
		connected(link);
	} else if (link->state == AGREEING) {
		agree(link);
	} else if (error != 0) { /* the socket knows which: a loop may call any a bad descriptor */
		const int met = sl_socket_error(link->socket);
		fail_broken(link, met != 0 ? met : error);
	} else {
		if ((events & SL_SOCKET_WRITABLE) != 0)
			sl_link_flush(link);
		if (link->state == OPEN && (events & SL_SOCKET_READABLE) != 0)
			read_in(link);
	}
}
