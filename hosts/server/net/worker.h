/* Workers and connections. A worker is a thread with a loop of its own; a connection belongs to one worker for life, so
 * nothing of it needs a lock. libuv tells when a descriptor is ready; the reads and writes are ours: one of each for a
 * request, into and out of buffers that all connections of a worker share.
 *
 *   connection.c  bytes between a socket and a door          worker.c  the loop, what other threads hand to it, the end
 *   server.c      policy, store, listeners, signals */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include "hosts/server/door/door.h"
#include "hosts/server/net/listen.h"

#include <pthread.h>
#include <uv.h>

enum {
	SL_READ_BYTES = 64 * 1024,     /* one read of a socket */
	SL_LINGER_MS = 1000,           /* how long a closed connection's late bytes are read away */
	SL_LINGER_BYTES = 1024 * 1024, /* and how many of them */
	SL_DRAIN_MS = 5000,            /* how long the last answers may take at the end */
	SL_PEER_TEXT_MAX = 64,
};

/* A policy that several workers use; the last to let go frees it. */
struct sl_shared_policy {
	struct sluice_policy *policy;
	uint32_t *rows; /* of its limits in the books */
	_Atomic uint32_t holders;
};

/* Lets go of one hold. From any thread. */
void sl_shared_policy_release(struct sl_shared_policy *shared);

/* A new connection on its way to its worker. */
struct sl_arrival {
	int fd;
	const struct sl_door *door;
	const struct sl_listener *listener; /* by which it came; lives until the workers have ended */
	char peer[SL_PEER_TEXT_MAX];
	struct sl_address address; /* of an inet socket */
	bool is_unix;
};

struct sl_worker {
	uv_loop_t loop;
	uv_async_t wake;   /* something stands in the part below that has a lock */
	uv_prepare_t turn; /* a new turn of the loop: the instant read in the last one is old */
	uv_timer_t sweep;  /* runs while connections linger, or the worker drains */
	struct sl_door_context context;
	struct sl_buffer out;
	char *input;                       /* SL_READ_BYTES */
	struct sl_connection *connections; /* list of all */
	struct sl_worker_figures *figures;
	struct sl_shared_policy *policy;
	_Atomic uint64_t *next_id;  /* of connections, shared by all workers */
	uint64_t drain_deadline_ms; /* of the loop's clock; 0 while serving */

	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows: written by the first worker's thread, taken by this one */
	struct sl_arrival *arrivals;
	size_t arrival_count, arrival_capacity;
	struct sl_shared_policy *next_policy; /* NULL: none */
	bool drain;
};

struct sl_worker_options {
	struct sluice_store *store;
	struct sl_shared_policy *policy; /* the worker takes one hold of its own */
	const struct sl_shared *shared;
	uint32_t number;               /* of this worker, from 0: which page of the books and which top is its own */
	struct sl_worker_figures *own; /* this worker's line of them */
	_Atomic uint64_t *next_id;
};

/* Makes a worker that runs nothing yet. SLUICE_OK, SLUICE_E_MEMORY, SLUICE_E_SYSTEM. */
SLUICE_MUST_USE sluice_err sl_worker_init(struct sl_worker *worker, const struct sl_worker_options *options);
/* Frees it; its loop must have ended, or never have run. */
void sl_worker_free(struct sl_worker *worker);

/* From any thread: gives the worker a connection, whose descriptor it then owns; false when there is no memory. */
bool sl_worker_give(struct sl_worker *worker, const struct sl_arrival *arrival);
/* From any thread: lets the worker use another policy from its next turn on; it takes one hold of its own. */
void sl_worker_set_policy(struct sl_worker *worker, struct sl_shared_policy *policy);
/* From any thread: the worker answers what has arrived, sends it, closes its connections and ends its loop, all within
 * SL_DRAIN_MS. Asked a second time, it ends at once. */
void sl_worker_drain(struct sl_worker *worker);

/* ---- connection.c: called on the worker's own thread only ---- */

/* Takes over a descriptor; closes it where there is no memory. */
void sl_connection_open(struct sl_worker *worker, const struct sl_arrival *arrival);
/* Reads and answers what has arrived already, then closes as soon as the answers are sent. */
void sl_connection_drain(struct sl_connection *connection);
void sl_connection_close(struct sl_connection *connection);
/* Closes those that have lingered for long enough; true while some still linger. */
bool sl_connection_sweep(struct sl_worker *worker);
struct sl_connection *sl_connection_next(const struct sl_connection *connection);

#endif
