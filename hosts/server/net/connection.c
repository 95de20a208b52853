/* A connection: bytes from a socket to a door, and answers back.
 *
 *                +---------------------- answers not taken by the peer yet: only then is a copy made
 *                v                       and no more is read until they are gone
 *   OPEN --(door closes)--> FLUSHING --(all sent)--> LINGERING --(peer closes, or 1 s)--> gone
 *
 * Reading goes into the worker's one buffer and the door parses there, in place; only the tail of an unfinished request
 * is kept with the connection. Lingering reads away what the peer still sends after our last word: closing a socket
 * with unread bytes in it would make the kernel reset the connection, and the peer lose that word.
 *
 * Invariants
 *  1. input_len < SL_DOOR_INPUT_MAX whenever the socket is read; a door that asks for more is closed.
 *  2. While pending_len > 0 nothing is read: a peer that does not read costs at most the answers of one turn.
 */
#include "hosts/server/net/worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum state { OPEN, FLUSHING, LINGERING };
enum { DRAIN_READS_MAX = 16, INPUT_ROOM_MIN = 16 * 1024 };

struct sl_connection {
	uv_poll_t poll;
	struct sl_worker *worker;
	const struct sl_door *door;
	void *door_state;
	struct sl_connection *next, **link; /* link: what points to this one */
	uint64_t id;
	int fd;
	int events; /* that libuv watches for us */
	enum state state;
	bool more;   /* the door has more to say to the input that it was given */
	bool ending; /* the server goes down: close once all is said */
	char *input; /* the unfinished request */
	size_t input_len, input_capacity;
	char *pending; /* answers that the peer has not taken yet */
	size_t pending_at, pending_len;
	uint64_t linger_until_ms; /* of the loop's clock */
	size_t lingered_bytes;
	const struct sl_listener *listener;
	char peer_text[SL_PEER_TEXT_MAX];
	struct sl_peer peer;
	const struct sluice_policy *judged_by; /* the policy that said whether the peer is trusted */
};

struct sl_connection *sl_connection_next(const struct sl_connection *connection) {
	return connection->next;
}

static void on_closed(uv_handle_t *handle) {
	struct sl_connection *c = handle->data;
	free(c->input);
	free(c->pending);
	free(c);
}

void sl_connection_close(struct sl_connection *c) {
	if (c->fd < 0)
		return;
	uv_close((uv_handle_t *)&c->poll, on_closed);
	close(c->fd);
	c->fd = -1;
	*c->link = c->next;
	if (c->next != NULL)
		c->next->link = c->link;
	c->door->close(c->door_state);
	atomic_fetch_add_explicit(&c->worker->figures->closed[c->door->transport], 1, memory_order_relaxed);
}

static void on_ready(uv_poll_t *handle, int status, int events);

static void watch(struct sl_connection *c, int events) {
	if (c->events == events)
		return;
	c->events = events;
	if (uv_poll_start(&c->poll, events, on_ready) != 0)
		sl_connection_close(c);
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

/* Sends what it can; -1 when the connection is broken. */
static ssize_t send_some(struct sl_connection *c, const char *data, size_t len) {
	for (;;) {
		ssize_t sent = send(c->fd, data, len, MSG_NOSIGNAL);
		if (sent >= 0)
			return sent;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		if (errno != EINTR)
			return -1;
	}
}

/* Sends the worker's output buffer, and keeps a copy of what does not go. False when the connection is broken. */
static bool send_out(struct sl_connection *c) {
	struct sl_buffer *out = &c->worker->out;
	size_t len = out->len;
	if (len == 0)
		return true;
	out->len = 0;
	ssize_t sent = send_some(c, out->data, len);
	if (sent < 0)
		return false;
	if ((size_t)sent == len)
		return true;
	c->pending_len = len - (size_t)sent;
	c->pending_at = 0;
	c->pending = malloc(c->pending_len);
	if (c->pending == NULL)
		return false;
	memcpy(c->pending, out->data + sent, c->pending_len);
	return true;
}

/* Sends more of what is pending. False when the connection is broken. */
static bool send_pending(struct sl_connection *c) {
	ssize_t sent = send_some(c, c->pending + c->pending_at, c->pending_len - c->pending_at);
	if (sent < 0)
		return false;
	c->pending_at += (size_t)sent;
	if (c->pending_at < c->pending_len)
		return true;
	free(c->pending);
	c->pending = NULL;
	c->pending_at = c->pending_len = 0;
	return true;
}

static void linger(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	if (shutdown(c->fd, SHUT_WR) != 0) {
		sl_connection_close(c);
		return;
	}
	c->state = LINGERING;
	c->linger_until_ms = uv_now(&worker->loop) + SL_LINGER_MS;
	if (!uv_is_active((uv_handle_t *)&worker->sweep))
		uv_timer_again(&worker->sweep);
	watch(c, UV_READABLE);
}

/* The last answer is given: close once it is sent. */
static void finish(struct sl_connection *c) {
	if (c->pending_len != 0) {
		c->state = FLUSHING;
		watch(c, UV_WRITABLE);
	} else {
		linger(c);
	}
}

/* ---- receiving ------------------------------------------------------------------------------------------------ */

static bool input_reserve(struct sl_connection *c, size_t capacity) {
	if (capacity <= c->input_capacity)
		return true;
	char *input = realloc(c->input, capacity);
	if (input == NULL)
		return false;
	c->input = input;
	c->input_capacity = capacity;
	return true;
}

/* Keeps what the door has not consumed: the end of `data`, which may lie in the connection's own buffer. */
static bool keep(struct sl_connection *c, const char *data, size_t len) {
	c->input_len = len;
	if (len == 0 && c->input == NULL)
		return true;
	if (len == 0) {
		free(c->input);
		c->input = NULL;
		c->input_capacity = 0;
		return true;
	}
	if (c->input != NULL && data >= c->input && data < c->input + c->input_capacity) {
		memmove(c->input, data, len);
		return true;
	}
	if (!input_reserve(c, len + INPUT_ROOM_MIN))
		return false;
	memcpy(c->input, data, len);
	return true;
}

/* Tells the worker's context whose bytes come next. */
static void introduce(struct sl_connection *c) {
	struct sl_door_context *context = &c->worker->context;
	if (c->judged_by != context->policy) {
		c->judged_by = context->policy;
		c->peer.is_trusted = c->peer.is_unix || sl_policy_trusts(context->policy, &c->peer.address);
	}
	context->connection_id = c->id;
	context->peer = c->peer;
	context->forms = c->listener->forms;
}

/* Gives the door bytes until it wants no more of them, sends its answers, keeps the rest. */
static void feed(struct sl_connection *c, const char *data, size_t len) {
	struct sl_worker *worker = c->worker;
	enum sl_door_verdict verdict;
	introduce(c);
	do {
		size_t consumed = 0;
		verdict = c->door->feed(c->door_state, &worker->context, data, len, &consumed, &worker->out);
		data += consumed;
		len -= consumed;
		if (!send_out(c)) {
			sl_connection_close(c);
			return;
		}
	} while (verdict == SL_DOOR_MORE && c->pending_len == 0);
	atomic_store_explicit(&worker->figures->commands, worker->context.commands, memory_order_relaxed);
	c->more = verdict == SL_DOOR_MORE;
	if (verdict == SL_DOOR_CLOSE) {
		finish(c);
		return;
	}
	if (!keep(c, data, len) || (verdict == SL_DOOR_OPEN && len >= SL_DOOR_INPUT_MAX)) {
		sl_connection_close(c);
		return;
	}
	watch(c, c->pending_len != 0 ? UV_WRITABLE : UV_READABLE);
}

/* Where the next bytes go: behind the unfinished request, or else into the worker's buffer. */
static char *input_room(struct sl_connection *c, size_t *room) {
	if (c->input_len == 0) {
		*room = SL_READ_BYTES;
		return c->worker->input;
	}
	size_t capacity = c->input_capacity;
	while (capacity < c->input_len + INPUT_ROOM_MIN)
		capacity *= 2;
	if (capacity > SL_DOOR_INPUT_MAX)
		capacity = SL_DOOR_INPUT_MAX;
	if (!input_reserve(c, capacity))
		return NULL;
	*room = capacity > c->input_len ? capacity - c->input_len : 0;
	return c->input + c->input_len;
}

/* Reads once and answers. False when nothing was there, or the connection is not open any more. */
static bool receive(struct sl_connection *c) {
	size_t room = 0;
	char *to = input_room(c, &room);
	if (to == NULL || room == 0) {
		sl_connection_close(c);
		return false;
	}
	ssize_t got = read(c->fd, to, room);
	if (got > 0) {
		if (c->input_len != 0)
			feed(c, c->input, c->input_len + (size_t)got);
		else
			feed(c, to, (size_t)got);
		return c->fd >= 0 && c->state == OPEN && c->pending_len == 0;
	}
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return false;
	sl_connection_close(c);
	return false;
}

/* Reads away what comes after our last word. */
static void discard(struct sl_connection *c) {
	ssize_t got = read(c->fd, c->worker->input, SL_READ_BYTES);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	c->lingered_bytes += got > 0 ? (size_t)got : 0;
	if (got <= 0 || c->lingered_bytes > SL_LINGER_BYTES)
		sl_connection_close(c);
}

static void resume(struct sl_connection *c) {
	if (!send_pending(c)) {
		sl_connection_close(c);
		return;
	}
	if (c->pending_len == 0 && c->state == OPEN && c->more)
		feed(c, c->input, c->input_len);
	if (c->fd < 0 || c->state == LINGERING || c->pending_len != 0)
		return;
	if (c->state == FLUSHING || c->ending)
		linger(c);
	else
		watch(c, UV_READABLE);
}

static void on_ready(uv_poll_t *handle, int status, int events) {
	struct sl_connection *c = handle->data;
	struct sl_worker *worker = c->worker;
	if (worker->context.now == 0)
		worker->context.now = sluice_store_now(worker->context.store);
	if (status < 0)
		sl_connection_close(c);
	else if (c->state == LINGERING)
		discard(c);
	else if (c->pending_len != 0)
		resume(c);
	else if (events & UV_READABLE)
		receive(c);
}

/* ---- beginning and end ---------------------------------------------------------------------------------------- */

/* Ties the connection to the loop and to a door; false leaves nothing behind but `c` itself. */
static bool start(struct sl_connection *c, struct sl_worker *worker) {
	c->door_state = c->door->open(&worker->context);
	if (c->door_state == NULL)
		return false;
	if (uv_poll_init(&worker->loop, &c->poll, c->fd) != 0) {
		c->door->close(c->door_state);
		return false;
	}
	c->poll.data = c;
	c->next = worker->connections;
	c->link = &worker->connections;
	if (c->next != NULL)
		c->next->link = &c->next;
	worker->connections = c;
	atomic_fetch_add_explicit(&worker->figures->opened[c->door->transport], 1, memory_order_relaxed);
	return true;
}

void sl_connection_open(struct sl_worker *worker, struct sl_arrival *arrival) {
	struct sl_connection *c = calloc(1, sizeof *c);
	if (worker->context.now == 0)
		worker->context.now = sluice_store_now(worker->context.store);
	if (c == NULL) {
		close(arrival->fd);
		return;
	}
	c->worker = worker;
	c->door = arrival->door;
	c->fd = arrival->fd;
	c->id = atomic_fetch_add_explicit(worker->next_id, 1, memory_order_relaxed) + 1;
	c->listener = arrival->listener;
	memcpy(c->peer_text, arrival->peer, sizeof c->peer_text);
	c->peer = (struct sl_peer){.text = c->peer_text, .address = arrival->address, .is_unix = arrival->is_unix};
	introduce(c);
	if (!start(c, worker)) {
		close(c->fd);
		free(c);
		return;
	}
	watch(c, UV_READABLE);
}

void sl_connection_drain(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	if (worker->context.now == 0)
		worker->context.now = sluice_store_now(worker->context.store);
	for (int i = 0; i < DRAIN_READS_MAX && c->state == OPEN && c->pending_len == 0; i++)
		if (!receive(c))
			break;
	c->ending = true;
	if (c->fd >= 0 && c->state == OPEN && c->pending_len == 0)
		sl_connection_close(c); /* nothing unread, nothing unsaid */
}

bool sl_connection_sweep(struct sl_worker *worker) {
	uint64_t now_ms = uv_now(&worker->loop);
	bool lingering = false;
	for (struct sl_connection *c = worker->connections, *next; c != NULL; c = next) {
		next = c->next;
		if (c->state == LINGERING && now_ms >= c->linger_until_ms)
			sl_connection_close(c);
		else
			lingering |= c->state == LINGERING;
	}
	return lingering;
}
