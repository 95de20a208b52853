/* Workers and connections. A worker is a thread with a loop of its own; a connection belongs to one worker for life, so
 * nothing of it needs a lock. libuv tells when a descriptor is ready; the reads and writes are ours: one of each for a
 * request, into and out of buffers that all connections of a worker share.
 *
 *   worker.c   the loop, and what other threads hand to it     connection.c  bytes between a socket and a door
 *   arrival.c  a connection on its way to its worker           greeting.c    PROXY headers and TLS handshakes
 *   crowd.c    how full it is, and who gives way               suspend.c     a door that waits for its decisions
 *   bounds.c   how many there are, in all and of an address    waits.c       who waits for what
 *   parcel.c   a connection as another process takes it over   evict.c       and for too long
 *   parking.c, reloading.c  what doors wait for here           input.c, wire.c, close.c
 *   streams.c  who follows decisions, and what he gets of them */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include "hosts/server/net/arrival.h"
#include "hosts/server/net/streams.h"
#include "hosts/server/net/parking.h"
#include "hosts/server/net/reloading.h"
#include "hosts/server/net/shared_policy.h"

#include <pthread.h>
#include <uv.h>

enum {
	SL_READ_BYTES = 64 * 1024,            /* one read of a socket */
	SL_FRONT_BYTES = 4 * 1024,            /* room ahead of it for the request that the read goes on with */
	SL_LINGER_MS = 1000,                  /* how long a closed connection's late bytes are read away */
	SL_LINGER_BYTES = 1024 * 1024,        /* and how many of them */
	SL_DRAIN_MS = 5000,                   /* how long the last answers may take at the end */
	SL_KEPT_BYTES_MAX = 64 * 1024 * 1024, /* unfinished input and untaken answers of all connections of a worker */
	SL_GIVE_WAY_MS = 1000,                /* nobody who has waited for less gives way to a newcomer */
};

/* Takes over a connection: its descriptor and a parcel (parcel.h). True: taken; the worker forgets the connection and
 * closes its own copy of the descriptor. False: not now; it is served on, and asked for again after its next request or
 * within 100 ms. On the thread of any worker, so on several at a time. */
typedef bool (*sl_hand_over_fn)(void *to, int fd, const char *parcel, size_t len);

/* What connections wait in lists for, one list of each a worker, the longest wait first (waits.c). */
enum sl_wait { SL_WAIT_IDLE, SL_WAIT_REQUEST, SL_WAIT_WRITE, SL_WAIT_LINGER, SL_WAIT_STREAM, SL_WAITS };

struct sl_wait_list {
	struct sl_connection *first, *last;
	_Atomic uint64_t since_ms; /* of the first, published at the end of a turn; UINT64_MAX: none */
};

struct sl_worker {
	uv_loop_t loop;
	uv_async_t wake;     /* something stands in the part below that has a lock */
	uv_prepare_t turn;   /* a new turn of the loop: the instant read in the last one is old */
	uv_check_t turn_end; /* its last answer is sent: the stats, what the worker publishes */
	struct sl_parking parking;
	struct sl_reloading reloading;
	struct sl_streams streams;
	uv_timer_t sweep;    /* runs while there are connections, or the worker drains */
	struct sl_door_context context;
	struct sl_buffer out;
	char *input;                       /* SL_FRONT_BYTES + SL_READ_BYTES */
	struct sl_connection *connections; /* list of all */
	struct sl_wait_list waits[SL_WAITS];
	size_t kept_bytes;                /* at most SL_KEPT_BYTES_MAX */
	uint64_t answered[SL_TRANSPORTS]; /* requests of this turn */
	uint64_t policy_number;           /* counts the policies that it has had */
	struct sl_worker_figures *figures;
	struct sl_shared_policy *policy;
	_Atomic uint64_t *next_id;  /* of connections, shared by all workers */
	struct sl_bounds *bounds;   /* shared by all workers */
	void (*ending)(void *to);   /* asked to take off the loop what others have put on it, after the last connection; */
	void *ending_to;            /* NULL: nothing is */
	uint64_t drain_deadline_ms; /* of the loop's clock; 0 while serving */
	sl_hand_over_fn hand_over;  /* NULL: connections stay here */
	void *hand_over_to;
	char *parcel; /* SL_PARCEL_BYTES_MAX, while connections are handed over */
	uint64_t hand_over_deadline_ms;
	_Atomic bool shedding; /* it has been asked to let a connection go and has not done so yet */

	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows: written by the first worker's thread, taken by this one */
	struct sl_arrival *arrivals;
	size_t arrival_count, arrival_capacity;
	struct sl_shared_policy *next_policy; /* NULL: none */
	sl_hand_over_fn next_hand_over;
	void *next_hand_over_to;
	bool drain, redden, poke, change_hand_over;
};

struct sl_worker_options {
	struct sluice_store *store;
	struct sl_shared_policy *policy; /* the worker takes one hold of its own */
	const struct sl_shared *shared;
	uint32_t number;               /* of this worker, from 0: which page of the stats and which top is its own */
	struct sl_worker_figures *own; /* this worker's line of them */
	_Atomic uint64_t *next_id;
	struct sl_bounds *bounds; /* one for all workers of the server; outlives them */
};

/* Makes a worker that runs nothing yet. SLUICE_OK, SLUICE_E_MEMORY, SLUICE_E_SYSTEM. */
SLUICE_MUST_USE sluice_err sl_worker_init(struct sl_worker *worker, const struct sl_worker_options *options);
/* Frees it; its loop must have ended, or never have run. */
void sl_worker_free(struct sl_worker *worker);

/* Reads the clock for this turn, unless it was read: context.now. On the worker's thread. */
static inline void sl_worker_read_clock(struct sl_worker *worker) {
	if (worker->context.now == 0)
		worker->context.now = sluice_store_now(worker->context.store);
}

/* From any thread: gives the worker a connection, whose descriptor it then owns; false when there is no memory. */
bool sl_worker_give(struct sl_worker *worker, const struct sl_arrival *arrival);
/* From any thread: lets the worker use another policy from its next turn on; it takes one hold of its own. */
void sl_worker_set_policy(struct sl_worker *worker, struct sl_shared_policy *policy);
/* From any thread: the worker serves on, and lets it be known that the server is shutting down (context.draining). */
void sl_worker_redden(struct sl_worker *worker);
/* From any thread: the worker lets its doors look at what has changed with the server (shared->figures). */
void sl_worker_poke(struct sl_worker *worker);
/* From any thread: the worker answers what has arrived, sends it, closes its connections and ends its loop, all within
 * SL_DRAIN_MS. Asked a second time, it ends at once. */
void sl_worker_drain(struct sl_worker *worker);
/* From any thread: the worker gives its connections to another process. Each is packed as soon as it is between two
 * answers and has at most SL_PARCEL_INPUT_MAX bytes of input, idle ones at once; those that can't move (TLS, answers
 * that are not read) are served on, HTTP ones told to close. When none is left, or after SL_DRAIN_MS, the worker drains
 * as above, so that its loop ends. Accepting has to have ended before. With give == NULL the worker serves on as if it
 * had never been asked: the other process failed. */
void sl_worker_hand_over(struct sl_worker *worker, sl_hand_over_fn give, void *to);

#endif
