/* A connection, as the files that move its bytes share it. Others open it, and see no more of it. */
#ifndef SL_CONNECTION_H
#define SL_CONNECTION_H

#include "hosts/server/door/pending.h"
#include "hosts/server/tls/tls.h"
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
	uint32_t client; /* as which it is counted: struct sl_door_context */
	int fd;
	int events;                 /* that libuv watches for us */
	int wants;                  /* the event without which the wire could not go on */
	bool more;                  /* the door has more to say to the input that it was given */
	bool ending;                /* the server goes down: close once all is said */
	bool is_named;              /* no PROXY header is to come (any more) */
	struct sl_tls_session *tls; /* NULL: the bytes are on the socket as they are */
	char *input;                /* the unfinished request */
	size_t input_len, input_capacity;
	char *unsent; /* answers that the peer has not taken yet */
	size_t unsent_at, unsent_len;
	int queued; /* bytes that the kernel had not got rid of when the peer last took some */
	size_t lingered_bytes;
	const struct sl_listener *listener;
	char peer_text[SL_PEER_TEXT_MAX];
	struct sl_peer peer;
	struct sl_bounds_entry place;
	struct sl_pending *pending; /* decisions under way that it waits for: nothing is read meanwhile; or NULL */
	void (*resume)(struct sl_connection *c); /* called when they are there */
	struct sl_pending *ready;                /* those that are there and not answered yet, in order */
	uint32_t ready_settled;                  /* of their calls, how many have been answered */
	struct sl_shared_policy *policy;         /* under which the request in hand was read, while `pending` or `ready` */
	struct sl_waiting *waiting;              /* requests that wait each on its own, or are to be resumed (suspend.h) */
	void (*resume_waiting)(struct sl_waiting *waiting);
	void (*poke)(struct sl_connection *c); /* lets a door that answers each request on its own look at the context: the
	                                        * server drains, or the connection has to leave; nothing for others */
	size_t held_bytes; /* that its door holds: part of worker->kept_bytes */
	bool leaving;      /* a door that answers each request on its own was asked to end */
	struct sl_tail_reader *reader; /* it follows decisions; NULL: it does not. Then one of the worker's list: */
	struct sl_connection *stream_before, *stream_after;
	uint64_t streams_by; /* the number of the policy that said whether it still may */
	uint64_t judged_by; /* the number of the policy that said whether the peer is trusted; UINT64_MAX: none yet */
};

/* Takes over an arrival and what it brings; closes it where there is no memory. */
void sl_connection_open(struct sl_worker *worker, struct sl_arrival *arrival);
/* Reads and answers what has arrived already, then closes as soon as the answers are sent. */
void sl_connection_drain(struct sl_connection *c);
/* Gives it to the other process, if it can go now. True: it is gone. */
bool sl_connection_hand_over(struct sl_connection *c);

#endif
