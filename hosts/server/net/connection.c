/* A connection: bytes from a socket to a door, and answers back.
 *
 *                                  +-- answers not taken by the peer yet: only then is a copy made, and no more is read
 *                                  v   until they are gone
 *   PROXYING -> HANDSHAKING -> OPEN -(door closes)-> FLUSHING -(all sent)-> LINGERING -(peer closes, 1 s)-> gone
 *
 * Reading goes into the worker's one buffer and the door parses there, in place; only the tail of an unfinished request
 * is kept with the connection, in as many bytes as it has. A short tail is put in front of the next read, which stays
 * in place too; a long one is appended to, so that each byte of it is copied once. Lingering reads away what the peer
 * still sends after our last word: closing a socket with unread bytes in it would make the kernel reset the connection,
 * and the peer lose that word.
 *
 * A door that has said enough for one turn goes on in the next turn of the loop, over input that is kept: whatever one
 * peer asks at once, others wait for one turn of it. Only where the server goes down does it say all at once.
 *
 * Invariants
 *  1. input_len < SL_DOOR_INPUT_MAX whenever the socket is read; a door that asks for more is closed.
 *  2. While unsent_len > 0 nothing is read: a peer that does not read costs at most the answers of one turn.
 *  3. worker->kept_bytes is the sum of all input_capacity and unsent_len, and at most SL_KEPT_BYTES_MAX.
 *  4. A connection that is not closed stands in one list of those that wait. */
#include "hosts/server/net/connection.h"

#include "base/assert.h"
#include "hosts/server/net/close.h"
#include "hosts/server/net/evict.h"
#include "hosts/server/net/streams.h"
#include "hosts/server/net/greeting.h"
#include "hosts/server/net/input.h"
#include "hosts/server/net/parcel.h"
#include "hosts/server/net/suspend.h"
#include "hosts/server/net/waits.h"
#include "hosts/server/net/wire.h"
#include "os/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRAIN_READS_MAX = 16 };

static void on_ready(uv_poll_t *handle, int status, int events);

/* Waits for an event; closes the connection where the loop can't. */
static void watch(struct sl_connection *c, int events) {
	if (c->fd < 0 || c->events == events)
		return;
	c->events = events;
	if (uv_poll_start(&c->poll, events, on_ready) != 0)
		sl_connection_close(c);
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

/* Sends the worker's output buffer, and keeps a copy of what does not go. False when the connection is broken. */
static bool send_out(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	size_t len = worker->out.len;
	if (len == 0)
		return true;
	worker->out.len = 0;
	ssize_t sent = sl_wire_write(c, worker->out.data, len);
	if (sent < 0)
		return false;
	size_t left = len - (size_t)sent;
	if (left == 0)
		return true;
	char *unsent = sl_evict_for_room(worker, c, left) ? malloc(left) : NULL;
	if (unsent == NULL)
		return false;
	memcpy(unsent, worker->out.data + sent, left);
	c->unsent = unsent;
	c->unsent_len = left;
	c->unsent_at = 0;
	worker->kept_bytes += left;
	sl_wait_for(c, SL_WAIT_WRITE, true);
	sl_wire_has_moved(c);
	return true;
}

/* Sends more of what is unsent. False when the connection is broken. */
static bool send_unsent(struct sl_connection *c) {
	ssize_t sent = sl_wire_write(c, c->unsent + c->unsent_at, c->unsent_len - c->unsent_at);
	if (sent < 0)
		return false;
	c->unsent_at += (size_t)sent;
	sl_wait_for(c, SL_WAIT_WRITE, sent > 0);
	sl_wire_has_moved(c);
	if (c->unsent_at < c->unsent_len)
		return true;
	c->worker->kept_bytes -= c->unsent_len;
	free(c->unsent);
	c->unsent = NULL;
	c->unsent_at = c->unsent_len = 0;
	return true;
}

/* Says the last word and waits for the peer to close. */
static void linger(struct sl_connection *c) {
	if (!sl_wire_end(c)) {
		sl_connection_close(c);
		return;
	}
	c->stage = SL_LINGERING;
	sl_wait_for(c, SL_WAIT_LINGER, true);
	watch(c, UV_READABLE);
}

/* The last answer is given: close once it is sent. */
static void finish(struct sl_connection *c) {
	if (c->unsent_len != 0) {
		c->stage = SL_FLUSHING;
		watch(c, c->wants);
	} else {
		linger(c);
	}
}

/* ---- receiving ------------------------------------------------------------------------------------------------ */

/* Tells the worker's context whose bytes come next. */
static void introduce(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	struct sl_door_context *context = &worker->context;
	if (c->judged_by != worker->policy_number) {
		c->judged_by = worker->policy_number;
		c->peer.is_trusted = c->peer.is_unix || sl_policy_trusts(context->policy, &c->peer.address);
	}
	context->connection_id = c->id;
	context->client = c->client;
	context->peer = c->peer;
	context->forms = c->listener->forms;
	context->listener = c->listener->number;
	context->leaving = c->leaving || (worker->hand_over != NULL && c->tls != NULL);
}

/* Lends the context what the connection has waited for, and the policy under which it did; and takes back what is left.
 */
static void lend(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	struct sl_shared_policy *policy = c->policy != NULL ? c->policy : worker->policy;
	worker->context.policy = policy->policy;
	worker->context.rows = policy->rows;
	worker->context.ready = c->ready;
	worker->context.ready_settled = c->ready_settled;
	worker->context.ready_taken = 0;
	worker->context.reader = c->reader;
}

static void send_stream(struct sl_connection *c);
static bool may_stream(struct sl_connection *c);
static void end_stream(struct sl_connection *c);

static const struct sl_stream_calls stream_calls = {send_stream, may_stream, end_stream};

/* The door may have let its client follow decisions, or end that. */
static void take_reader(struct sl_connection *c, struct sl_tail_reader *reader) {
	bool did = c->reader != NULL;
	c->reader = reader;
	if (reader != NULL)
		c->streams_by = c->worker->policy_number;
	if (reader != NULL && !did)
		sl_streams_add(c, &stream_calls);
	else if (reader == NULL && did)
		sl_streams_remove(c);
}

static void take_back(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	c->client = worker->context.client;
	sl_connection_count_decided(c); /* before it closes, or its peer has the answers */
	c->ready = worker->context.ready;
	c->ready_settled = worker->context.ready_settled;
	worker->context.ready = NULL;
	worker->context.policy = worker->policy->policy;
	worker->context.rows = worker->policy->rows;
	struct sl_tail_reader *reader = worker->context.reader;
	worker->context.reader = NULL;
	take_reader(c, reader);
}

/* What a connection waits for that is not to be read or written now. Closes one whose door holds more than there is
 * room for. */
static enum sl_wait wait_of(struct sl_connection *c) {
	if (c->door->standing == NULL)
		return c->input_len != 0 ? SL_WAIT_REQUEST : c->reader != NULL ? SL_WAIT_STREAM : SL_WAIT_IDLE;
	struct sl_door_standing standing = c->door->standing(c->door_state);
	c->worker->kept_bytes += standing.held_bytes - c->held_bytes;
	bool more = standing.held_bytes > c->held_bytes;
	c->held_bytes = standing.held_bytes;
	if (more && !sl_evict_for_room(c->worker, c, 0))
		sl_connection_close(c);
	return standing.unread                              ? SL_WAIT_WRITE
	       : standing.unfinished || c->waiting != NULL ? SL_WAIT_REQUEST
	                                                    : SL_WAIT_IDLE;
}

/* The door goes on with what it has, when others had their turns. */
static bool is_in_turn(const struct sl_connection *c) {
	return c->more && c->unsent_len == 0 && c->door->standing == NULL;
}

/* Between two events: what is waited for, and for what by the loop. */
static void settle(struct sl_connection *c, bool answered) {
	if (c->fd < 0)
		return;
	if (c->unsent_len != 0) {
		watch(c, c->wants);
		return;
	}
	if (c->pending != NULL) {
		sl_wait_for(c, SL_WAIT_REQUEST, true);
		watch(c, 0);
		return;
	}
	bool in_turn = is_in_turn(c);
	enum sl_wait wait = in_turn ? SL_WAIT_WRITE : wait_of(c);
	if (c->fd < 0)
		return;
	sl_wait_for(c, wait, answered);
	watch(c, in_turn ? UV_WRITABLE : UV_READABLE);
	if (c->fd >= 0 && c->worker->hand_over != NULL)
		sl_connection_hand_over(c);
}

static void answer_suspended(struct sl_connection *c);
static void answer_waiting(struct sl_waiting *waiting);

/* One call of the door, and its answers sent; `*data` and `*len` move on. False when the connection is broken. */
static bool feed_once(struct sl_connection *c, const char **data, size_t *len, enum sl_door_verdict *verdict) {
	struct sl_worker *worker = c->worker;
	size_t consumed = 0;
	lend(c);
	*verdict = c->door->feed(c->door_state, &worker->context, *data, *len, &consumed, &worker->out);
	take_back(c);
	if (*verdict == SL_DOOR_WAIT)
		sl_connection_suspend(c, answer_suspended);
	else if (*verdict != SL_DOOR_MORE)
		sl_connection_forget_pending(c);
	*data += consumed;
	*len -= consumed;
	bool good = worker->context.put_off == NULL || sl_connection_put_off(c, NULL, answer_waiting);
	return send_out(c) && good;
}

/* Counts what was answered. A request that has waited took from when it was sent away on; the others are counted by
 * their turn. */
static void count_answered(struct sl_connection *c, uint64_t answered, sluice_ns sent_at) {
	struct sl_worker *worker = c->worker;
	struct sl_worker_stats *stats = worker->context.stats;
	if (sent_at == 0)
		worker->answered[c->door->transport] += answered;
	else if (stats != NULL && answered != 0)
		sl_times_add(&stats->request[c->door->transport], sl_clock_monotonic() - sent_at, answered);
	atomic_store_explicit(&worker->figures->commands, worker->context.commands, memory_order_relaxed);
}

/* Gives the door bytes until it wants no more of them or its turn is over, sends its answers, keeps the rest. Doors
 * that consume all they are fed have no turns. */
static void feed(struct sl_connection *c, const char *data, size_t len) {
	struct sl_worker *worker = c->worker;
	uint64_t before = worker->context.commands;
	sluice_ns sent_at = c->ready != NULL ? c->ready->sent_at : 0;
	enum sl_door_verdict verdict;
	introduce(c);
	do {
		if (!feed_once(c, &data, &len, &verdict)) {
			sl_connection_close(c);
			return;
		}
	} while (verdict == SL_DOOR_MORE && c->unsent_len == 0 && (c->ending || c->door->standing != NULL));
	uint64_t answered = worker->context.commands - before;
	count_answered(c, answered, sent_at);
	c->more = verdict == SL_DOOR_MORE || sl_connection_next_ready(c) != NULL;
	if (verdict == SL_DOOR_CLOSE) {
		sl_streams_end(c);
		finish(c);
		return;
	}
	if (!sl_input_keep(c, data, len) || (verdict == SL_DOOR_OPEN && len >= SL_DOOR_INPUT_MAX)) {
		sl_connection_close(c);
		return;
	}
	settle(c, answered != 0);
}

/* Gives the door what was read into the worker's buffer, after what the connection has kept. */
static void feed_read(struct sl_connection *c, char *data, size_t len) {
	size_t kept = c->input_len;
	if (kept <= SL_FRONT_BYTES) {
		if (kept != 0)
			memcpy(data - kept, c->input, kept);
		feed(c, data - kept, kept + len);
	} else if (sl_input_append(c, data, len)) {
		feed(c, c->input, c->input_len);
	} else {
		sl_connection_close(c);
	}
}

static bool can_receive(const struct sl_connection *c) {
	return c->fd >= 0 && c->stage == SL_OPEN && c->unsent_len == 0 && c->pending == NULL;
}

/* Reads once and answers. False when nothing was there, or the connection is not open any more. */
static bool receive(struct sl_connection *c) {
	char *to = c->worker->input + SL_FRONT_BYTES;
	ssize_t got = sl_wire_read(c, to, SL_READ_BYTES);
	if (got > 0) {
		feed_read(c, to, (size_t)got);
		return can_receive(c);
	}
	if (got == SL_WIRE_LATER)
		watch(c, c->wants);
	else
		sl_connection_close(c);
	return false;
}

/* Reads away what comes after our last word, whatever it is. */
static void discard(struct sl_connection *c) {
	ssize_t got = read(c->fd, c->worker->input, SL_READ_BYTES);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	c->lingered_bytes += got > 0 ? (size_t)got : 0;
	if (got <= 0 || c->lingered_bytes > SL_LINGER_BYTES)
		sl_connection_close(c);
}

/* After answers that were not sent at once, or came later: what the connection does next. */
static void rest(struct sl_connection *c) {
	if (c->fd < 0 || c->stage == SL_LINGERING || c->unsent_len != 0)
		return;
	if (c->stage == SL_FLUSHING)
		linger(c);
	else if (c->ending && c->pending == NULL && c->door->standing == NULL)
		sl_connection_close(c);
	else
		settle(c, true);
}

/* The door's turn for one request, what it waited for being there. False when the connection is closed, or closes. */
static bool feed_waiting(struct sl_connection *c, struct sl_waiting *waiting) {
	struct sl_worker *worker = c->worker;
	struct sl_door_context *context = &worker->context;
	uint64_t before = context->commands;
	sluice_ns sent_at = waiting->ready->sent_at;
	size_t consumed;
	introduce(c);
	context->policy = waiting->policy->policy;
	context->rows = waiting->policy->rows;
	context->ready = waiting->ready;
	context->ready_settled = context->ready_taken = 0;
	context->asker = waiting->asker;
	enum sl_door_verdict verdict = c->door->feed(c->door_state, context, "", 0, &consumed, &worker->out);
	c->client = context->client;
	sl_connection_count_decided(c);
	context->asker = NULL;
	waiting->ready = context->ready;
	context->ready = NULL;
	context->policy = worker->policy->policy;
	context->rows = worker->policy->rows;
	bool good = sl_connection_put_off(c, waiting, answer_waiting);
	if (!send_out(c) || !good) {
		sl_connection_close(c);
		return false;
	}
	count_answered(c, context->commands - before, sent_at);
	c->more = c->more || verdict == SL_DOOR_MORE;
	if (verdict == SL_DOOR_CLOSE)
		finish(c);
	return verdict != SL_DOOR_CLOSE;
}

/* All requests whose answers are there, as long as the peer takes them. */
static void feed_ready(struct sl_connection *c) {
	struct sl_waiting *waiting;
	while (c->unsent_len == 0 && (waiting = sl_connection_next_ready(c)) != NULL)
		if (!feed_waiting(c, waiting))
			return;
	if (c->unsent_len == 0 && c->more)
		feed(c, c->input_len != 0 ? c->input : "", c->input_len);
	else
		settle(c, true);
}

static void answer_waiting(struct sl_waiting *waiting) {
	struct sl_connection *c = waiting->c;
	sl_worker_read_clock(c->worker);
	if (c->stage != SL_OPEN) /* it has said its last word */
		return;
	c->more = false;
	if (c->unsent_len != 0)
		c->more = true;
	else
		feed_ready(c);
}

/* Nothing has come, but the context has something to tell. */
static void poke(struct sl_connection *c) {
	if (c->fd < 0 || c->stage != SL_OPEN || c->door->standing == NULL)
		return;
	sl_worker_read_clock(c->worker);
	if (c->unsent_len != 0)
		c->more = true;
	else
		feed(c, "", 0);
}

static void resume(struct sl_connection *c) {
	if (c->unsent_len != 0 && !send_unsent(c)) {
		sl_connection_close(c);
		return;
	}
	if (c->unsent_len != 0) {
		watch(c, c->wants);
		return;
	}
	if (c->stage == SL_OPEN && c->more)
		feed_ready(c);
	rest(c);
}

/* The door's next turn, over the bytes that are kept: what it waited for is ready. */
static void answer_suspended(struct sl_connection *c) {
	sl_worker_read_clock(c->worker);
	if (c->unsent_len != 0) { /* the answers before this one are not sent yet */
		c->more = true;
		return;
	}
	feed(c, c->input, c->input_len);
	if (c->stage != SL_FLUSHING)
		rest(c);
}

/* ---- following decisions ---------------------------------------------------------------------------------------- */

static void send_stream(struct sl_connection *c) {
	SL_ASSERT(c->unsent_len == 0);
	if (send_out(c))
		settle(c, false);
	else
		sl_connection_close(c);
}

static bool may_stream(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	if (c->streams_by == worker->policy_number)
		return true;
	c->streams_by = worker->policy_number;
	return c->door->may_stream(c->door_state, &worker->context);
}

static void end_stream(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	if (c->unsent_len != 0 || c->pending != NULL || c->stage != SL_OPEN) {
		sl_connection_close(c);
		return;
	}
	worker->context.reader = c->reader;
	c->door->end_stream(c->door_state, &worker->context, &worker->out);
	worker->context.reader = NULL;
	sl_streams_end(c);
	if (send_out(c))
		finish(c);
	else
		sl_connection_close(c);
}

/* ---- greeting -------------------------------------------------------------------------------------------------- */

/* Begins a TLS session; closes the connection where it can't. */
static bool start_tls(struct sl_connection *c) {
	const struct sl_tls *tls = c->worker->policy->tls;
	c->tls = tls != NULL ? sl_tls_open(tls, c->fd, c->door->alpn) : NULL;
	if (c->tls != NULL)
		return true;
	sl_connection_count_error(c);
	sl_connection_close(c);
	return false;
}

/* The next of the greeting, or the door's turn where it is over. */
static void enter(struct sl_connection *c) {
	if (c->listener->tls && c->tls == NULL) {
		c->stage = SL_HANDSHAKING;
		if (!start_tls(c))
			return;
		watch(c, UV_READABLE);
		return;
	}
	c->stage = SL_OPEN;
	settle(c, true);
}

static void greet(struct sl_connection *c) {
	enum sl_greeting came = c->stage == SL_PROXYING ? sl_greeting_proxy(c) : sl_greeting_handshake(c);
	if (came == SL_GREETING_REFUSED || came == SL_GREETING_FAILED)
		sl_connection_count_error(c);
	if (came == SL_GREETING_DONE)
		enter(c);
	else if (came == SL_GREETING_LATER)
		watch(c, c->wants);
	else if (came == SL_GREETING_REFUSED)
		linger(c);
	else
		sl_connection_close(c);
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

static void go_on(struct sl_connection *c) {
	if (c->stage == SL_LINGERING)
		discard(c);
	else if (c->stage <= SL_HANDSHAKING)
		greet(c);
	else if (c->unsent_len != 0 || is_in_turn(c))
		resume(c);
	else
		receive(c);
}

static void on_ready(uv_poll_t *handle, int status, int events) {
	struct sl_connection *c = handle->data;
	(void)events; /* level-triggered: whatever it was, doing the next thing finds out */
	sl_worker_read_clock(c->worker);
	if (status < 0)
		sl_connection_close(c);
	else
		go_on(c);
}

/* ---- beginning and end ---------------------------------------------------------------------------------------- */

/* The kernel gives up on a peer that takes nothing; not before connections.write does. */
static void be_patient(const struct sl_connection *c) {
	sluice_ns write_ns = sl_policy_settings(c->worker->context.policy)->connections.write_ns;
	unsigned ms = write_ns / 1000000 < INT32_MAX ? (unsigned)(write_ns / 1000000) : INT32_MAX;
	if (write_ns == 0 || ms > SL_USER_TIMEOUT_MS)
		setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms); /* 0: as long as the kernel tries */
}

/* What the door remembers of a connection that comes from another process, or a new one's nothing. */
static void *open_door(struct sl_connection *c, const struct sl_luggage *luggage) {
	struct sl_door_context *context = &c->worker->context;
	if (luggage == NULL)
		return c->door->open(context);
	return c->door->unpack(context, luggage->bytes, luggage->packed_len);
}

/* Counts it among its client's: unnamed, or as its door has remembered. */
static void *open_counted(struct sl_connection *c, const struct sl_luggage *luggage) {
	struct sl_door_context *context = &c->worker->context;
	context->client = context->stats == NULL ? 0 : sl_client_stats_open(&context->stats->clients, c->door->transport);
	void *state = open_door(c, luggage);
	c->client = context->client;
	if (state == NULL)
		sl_connection_uncount_client(c);
	return state;
}

/* Ties the connection to the loop and to a door; false leaves nothing behind but `c` itself. */
static bool start(struct sl_connection *c, const struct sl_luggage *luggage) {
	struct sl_worker *worker = c->worker;
	c->door_state = open_counted(c, luggage);
	if (c->door_state == NULL)
		return false;
	if (uv_poll_init(&worker->loop, &c->poll, c->fd) != 0) {
		sl_connection_uncount_client(c);
		c->door->close(c->door_state);
		return false;
	}
	if (!c->peer.is_unix)
		be_patient(c);
	c->poll.data = c;
	c->next = worker->connections;
	c->link = &worker->connections;
	if (c->next != NULL)
		c->next->link = &c->next;
	worker->connections = c;
	atomic_fetch_add_explicit(&worker->figures->opened[c->door->transport], 1, memory_order_relaxed);
	if (!uv_is_active((uv_handle_t *)&worker->sweep))
		uv_timer_again(&worker->sweep);
	return true;
}

static struct sl_connection *make(struct sl_worker *worker, const struct sl_arrival *arrival) {
	struct sl_connection *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->worker = worker;
	c->door = arrival->door;
	c->fd = arrival->fd;
	c->id = atomic_fetch_add_explicit(worker->next_id, 1, memory_order_relaxed) + 1;
	c->listener = arrival->listener;
	c->place = arrival->place;
	c->wait = SL_WAITS;
	c->poke = poke;
	c->judged_by = UINT64_MAX;
	c->is_named = arrival->is_named || !arrival->listener->proxy_protocol;
	memcpy(c->peer_text, arrival->peer, sizeof c->peer_text);
	c->peer = (struct sl_peer){.text = c->peer_text,
	                           .address = arrival->address,
	                           .is_unix = arrival->is_unix,
	                           .is_tls = arrival->listener->tls};
	introduce(c);
	return c;
}

/* The first thing that a connection does. */
static void begin(struct sl_connection *c, const struct sl_luggage *luggage) {
	sl_wait_for(c, SL_WAIT_REQUEST, true);
	if (!c->is_named && !c->peer.is_trusted) {
		sl_connection_count_error(c);
		sl_connection_close(c);
	} else if (!c->is_named) {
		c->stage = SL_PROXYING;
		watch(c, UV_READABLE);
	} else {
		enter(c);
	}
	if (luggage != NULL && luggage->input_len != 0 && c->fd >= 0 && c->stage == SL_OPEN)
		feed(c, luggage->bytes + luggage->packed_len, luggage->input_len);
}

void sl_connection_open(struct sl_worker *worker, struct sl_arrival *arrival) {
	sl_worker_read_clock(worker);
	sl_arrival_admit_moved(worker->bounds, worker->context.policy, arrival);
	struct sl_connection *c = make(worker, arrival);
	if (c != NULL && start(c, arrival->luggage)) {
		begin(c, arrival->luggage);
	} else {
		free(c);
		sl_arrival_dismiss(worker->bounds, arrival);
	}
	free(arrival->luggage);
	arrival->luggage = NULL;
}

bool sl_connection_hand_over(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	bool is_between = c->stage == SL_OPEN || (c->stage == SL_PROXYING && c->input_len == 0);
	char packed[SL_DOOR_PACK_MAX];
	if (c->reader != NULL) { /* he asks the other process again, which has decisions of its own */
		if (!is_in_turn(c))
			end_stream(c);
		return false;
	}
	if (c->door->standing != NULL) {
		(void)sl_connection_leave(c);
		return false;
	}
	if (c->fd < 0 || !is_between || c->tls != NULL || c->listener->tls || c->unsent_len != 0 || c->more || c->ending ||
	    c->pending != NULL || c->input_len > SL_PARCEL_INPUT_MAX)
		return false;
	struct sl_parcel parcel = {.transport = c->door->transport,
	                           .is_unix = c->peer.is_unix,
	                           .is_named = c->is_named && c->listener->proxy_protocol,
	                           .address = c->peer.address,
	                           .listener = sl_str(c->listener->name),
	                           .peer = sl_str(c->peer_text),
	                           .packed = sl_slice(packed, c->door->pack(c->door_state, packed)),
	                           .input = sl_slice(c->input, c->input_len)};
	size_t len = sl_parcel_write(&parcel, worker->parcel);
	if (!worker->hand_over(worker->hand_over_to, c->fd, worker->parcel, len))
		return false;
	sl_connection_close(c); /* its descriptor here: the connection lives on by the other process's */
	return true;
}

void sl_connection_drain(struct sl_connection *c) {
	sl_worker_read_clock(c->worker);
	c->ending = true;
	if (is_in_turn(c))
		feed_ready(c);
	for (int i = 0; i < DRAIN_READS_MAX && can_receive(c); i++)
		if (!receive(c))
			break;
	if (c->reader != NULL)
		end_stream(c);
	else if (c->door->standing != NULL && c->stage == SL_OPEN)
		(void)sl_connection_leave(c);
	else if (c->fd >= 0 && c->stage <= SL_OPEN && c->unsent_len == 0 && c->pending == NULL)
		sl_connection_close(c); /* nothing unread, nothing unsaid */
}
