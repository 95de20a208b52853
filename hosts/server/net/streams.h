/* Connections of a worker that follow decisions (watch/tail.h): every SL_TAIL_TICK_MS it reads the rings of all workers
 * and gives each connection its lines. No timer runs while none does. */
#ifndef SL_STREAMS_H
#define SL_STREAMS_H

#include "hosts/server/watch/tail.h"

#include <uv.h>

enum {
	SL_STREAMS_BYTES = 512 * 1024,        /* lines of one tick, of all workers together */
	SL_STREAMS_LINES_MAX = 4096,          /* how many those are at most */
	SL_STREAMS_OUTPUT_MAX = 256 * 1024,   /* what a connection gets in a tick */
	SL_STREAMS_STALLED_MS = 10 * 1000,    /* who has taken nothing for so long is closed */
	SL_STREAMS_SOCKET_BYTES = 128 * 1024, /* that the kernel keeps for one who does not read; it takes twice that */
};

struct sl_connection;
struct sl_worker;
struct sl_streams_batch;

/* What a stream needs of its connection. */
struct sl_stream_calls {
	/* Sends what stands in the worker's output buffer, of a connection whose answers are all sent; closes it where that
	 * fails. */
	void (*send)(struct sl_connection *c);
	/* Whether it still may follow: asked anew after another policy came. */
	bool (*may)(struct sl_connection *c);
	/* Ends the stream, and the connection after it. */
	void (*end)(struct sl_connection *c);
};

struct sl_streams {
	struct sl_worker *worker;
	uv_timer_t timer;
	const struct sl_stream_calls *calls; /* the same of all connections */
	struct sl_connection *first;
	struct sl_streams_batch *batch; /* made when the first one comes; about 0.7 MiB */
};

/* Makes an empty one on a worker's loop. */
void sl_streams_init(struct sl_streams *streams, uv_loop_t *loop, struct sl_worker *worker);
/* Closes the timer; all connections have gone. */
void sl_streams_close(struct sl_streams *streams);

/* A connection begins to follow (connection->reader is there); it is closed where there is no memory for that. */
void sl_streams_add(struct sl_connection *c, const struct sl_stream_calls *calls);
/* It does no more, and its reader has left. */
void sl_streams_remove(struct sl_connection *c);
/* The same with its reader, which leaves; of a connection that does not follow nothing is done. */
void sl_streams_end(struct sl_connection *c);

#endif
