/* What the files of a connection share; nobody else's business. */
#ifndef SL_CONNECTION_H
#define SL_CONNECTION_H

#include "hosts/server/door/flight.h"
#include "hosts/server/net/tls.h"
#include "hosts/server/net/worker.h"

enum sl_stage { SL_PROXYING, SL_HANDSHAKING, SL_OPEN, SL_FLUSHING, SL_LINGERING };

struct sl_connection {
	uv_poll_t poll;
	struct sl_worker *worker;
	const struct sl_door *door;
	void *door_state;
	struct sl_connection *next, **link;   /* of all; link: what points to this one */
	struct sl_connection *after, *before; /* of those that wait for the same */
	uint64_t since_ms;                    /* it has, of the loop's clock */
	enum sl_wait wait;
	enum sl_stage stage;
	uint64_t id;
	int fd;
	int events;                 /* that libuv watches for us */
	int wants;                  /* the event without which the wire could not go on */
	bool more;                  /* the door has more to say to the input that it was given */
	bool ending;                /* the server goes down: close once all is said */
	bool is_named;              /* no PROXY header is to come (any more) */
	struct sl_tls_session *tls; /* NULL: the bytes are on the socket as they are */
	char *input;                /* the unfinished request */
	size_t input_len, input_capacity;
	char *pending; /* answers that the peer has not taken yet */
	size_t pending_at, pending_len;
	int queued; /* bytes that the kernel had not got rid of when the peer last took some */
	size_t lingered_bytes;
	const struct sl_listener *listener;
	char peer_text[SL_PEER_TEXT_MAX];
	struct sl_peer peer;
	struct sl_bounds_entry place;
	struct sl_flight *flying;        /* decisions under way that it waits for: nothing is read meanwhile; or NULL */
	struct sl_flight *landed;        /* those that are there and not answered yet, in order */
	uint32_t landed_settled;         /* of their calls, how many have been answered */
	struct sl_shared_policy *policy; /* under which the request in hand was read, while `flying` or `landed` */
	uint64_t judged_by; /* the number of the policy that said whether the peer is trusted; UINT64_MAX: none yet */
};

/* ---- wire.c ---- */

enum { SL_WIRE_LATER = -1, SL_WIRE_BROKEN = -2 };

/* Reads once. Bytes; 0 at the end; SL_WIRE_LATER, and c->wants says which event to wait for; SL_WIRE_BROKEN. `room` is
 * at least SL_TLS_RECORD_BYTES. */
ssize_t sl_wire_read(struct sl_connection *c, char *to, size_t room);
/* Sends as much as goes now: 0..len bytes, less than len with c->wants set; or SL_WIRE_BROKEN. What has not gone must
 * be given again, first of all. */
ssize_t sl_wire_write(struct sl_connection *c, const char *data, size_t len);
/* Has the peer taken any of what the kernel holds for it since the last call, or since `c` began to wait for that? */
bool sl_wire_has_moved(struct sl_connection *c);
/* Tells the peer that this was all; false where it can't be told. */
bool sl_wire_end(struct sl_connection *c);

/* ---- waits.c ---- */

/* Notes what the connection waits for: from now on, or, where it did before and nothing has `moved`, as before. */
void sl_wait_for(struct sl_connection *c, enum sl_wait what, bool moved);
/* Takes it out of its list. */
void sl_wait_leave(struct sl_connection *c);
/* Closes those that have waited too long by the present policy. O(those). */
void sl_waits_sweep(struct sl_worker *worker);
/* Publishes since when the first of each list have waited, for other threads; once a turn. */
void sl_waits_publish(struct sl_worker *worker);
/* Closes the one that has waited longest, if that was for SL_GIVE_WAY_MS (or it lingers). False: nobody has. */
bool sl_waits_give_way(struct sl_worker *worker);
/* Makes room for so many bytes to be kept for `c`, if need be by closing others that keep some and have been slow for
 * SL_GIVE_WAY_MS, the slowest first. False: there is no room. Counting the bytes is the caller's. */
bool sl_waits_make_room(struct sl_worker *worker, struct sl_connection *c, size_t bytes);

/* ---- greeting.c ---- */

/* Goes on with the PROXY header, then with the handshake; sl_connection_ready() when they are done. */
void sl_greeting_proxy(struct sl_connection *c);
void sl_greeting_handshake(struct sl_connection *c);

/* ---- connection.c ---- */

/* Waits for an event; closes the connection where the loop can't. */
void sl_connection_watch(struct sl_connection *c, int events);
/* Keeps bytes as the connection's unfinished input: they may lie in it already. False: no memory, or no room for it. */
bool sl_connection_keep(struct sl_connection *c, const char *data, size_t len);
/* The door's turn: the greeting is over. */
void sl_connection_ready(struct sl_connection *c);
/* Says the last word and waits for the peer to close. */
void sl_connection_linger(struct sl_connection *c);
/* Counts a connection that was none of ours: a greeting that failed. */
void sl_connection_count_error(struct sl_connection *c);
/* Leaves the door's answer to another turn: its decisions fly. */
void sl_connection_fly(struct sl_connection *c);
/* Forgets what flies for it, and what has landed; its policy too. */
void sl_connection_ground(struct sl_connection *c);
/* The door's next turn, over the bytes that are kept: what flew has landed. */
void sl_connection_resume(struct sl_connection *c);
/* Gives it to the other process, if it can go now. True: it is gone. */
bool sl_connection_hand_over(struct sl_connection *c);

#endif
