/* Workers and connections. A worker is a thread with a loop of its own; a connection belongs to one worker for life, so
 * nothing of it needs a lock. libuv tells when a descriptor is ready; the reads and writes are ours: one of each for a
 * request, into and out of buffers that all connections of a worker share.
 *
 *   worker.c  the loop, and what other threads hand to it      connection.c  bytes between a socket and a door
 *   crowd.c   who may come in, and who gives way               greeting.c    PROXY headers and TLS handshakes
 *   bounds.c  how many there are, in all and of an address     waits.c       who waits for what, and how long
 *   parcel.c  a connection as another process takes it over    wire.c        a socket, or TLS over it
 *   server.c  policy, store, listeners, signals */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include "hosts/server/door/door.h"
#include "hosts/server/net/bounds.h"
#include "hosts/server/net/listen.h"
#include "hosts/server/net/parking.h"
#include "hosts/server/net/reloading.h"

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
	SL_PEER_TEXT_MAX = 64,
};

/* A policy that several workers use; the last to let go frees it. */
struct sl_shared_policy {
	struct sluice_policy *policy;
	uint32_t *rows;     /* of its limits in the books */
	struct sl_tls *tls; /* its certificate, ready for use; NULL where it has none */
	_Atomic uint32_t holders;
};

/* Takes one more hold, and returns what it holds. From any thread. */
struct sl_shared_policy *sl_shared_policy_hold(struct sl_shared_policy *shared);
/* Lets go of one hold. From any thread. */
void sl_shared_policy_release(struct sl_shared_policy *shared);

/* What a connection brings along that comes from another process: door->pack()'s bytes, then input. */
struct sl_luggage {
	size_t packed_len, input_len;
	char bytes[];
};

/* A new connection on its way to its worker. */
struct sl_arrival {
	int fd;
	const struct sl_door *door;
	const struct sl_listener *listener; /* by which it came; lives until the workers have ended */
	char peer[SL_PEER_TEXT_MAX];
	struct sl_address address; /* of an inet socket */
	bool is_unix;
	bool is_named;              /* comes from another process, which has read its PROXY header */
	struct sl_bounds_entry place;      /* sl_worker_admit()'s: how it is counted */
	struct sl_luggage *luggage; /* NULL of one that is new; owned, free() */
};

/* Takes over a connection: its descriptor and a parcel (parcel.h). True: taken; the worker forgets the connection and
 * closes its own copy of the descriptor. False: not now; it is served on, and asked for again after its next request or
 * within 100 ms. On the thread of any worker, so on several at a time. */
typedef bool (*sl_hand_over_fn)(void *to, int fd, const char *parcel, size_t len);

/* What connections wait in lists for, one list of each a worker, the longest wait first (waits.c). */
enum sl_wait { SL_WAIT_IDLE, SL_WAIT_REQUEST, SL_WAIT_WRITE, SL_WAIT_LINGER, SL_WAITS };

struct sl_wait_list {
	struct sl_connection *first, *last;
	_Atomic uint64_t since_ms; /* of the first, published at the end of a turn; UINT64_MAX: none */
};

struct sl_worker {
	uv_loop_t loop;
	uv_async_t wake;     /* something stands in the part below that has a lock */
	uv_prepare_t turn;   /* a new turn of the loop: the instant read in the last one is old */
	uv_check_t turn_end; /* its last answer is sent: the books, what the worker publishes */
	struct sl_parking parking;
	struct sl_reloading reloading;
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
	bool drain, redden, change_hand_over;
};

struct sl_worker_options {
	struct sluice_store *store;
	struct sl_shared_policy *policy; /* the worker takes one hold of its own */
	const struct sl_shared *shared;
	uint32_t number;               /* of this worker, from 0: which page of the books and which top is its own */
	struct sl_worker_figures *own; /* this worker's line of them */
	_Atomic uint64_t *next_id;
	struct sl_bounds *bounds; /* one for all workers of the server; outlives them */
};

/* Makes a worker that runs nothing yet. SLUICE_OK, SLUICE_E_MEMORY, SLUICE_E_SYSTEM. */
SLUICE_MUST_USE sluice_err sl_worker_init(struct sl_worker *worker, const struct sl_worker_options *options);
/* Frees it; its loop must have ended, or never have run. */
void sl_worker_free(struct sl_worker *worker);

/* From any thread: gives the worker a connection, whose descriptor it then owns; false when there is no memory. */
bool sl_worker_give(struct sl_worker *worker, const struct sl_arrival *arrival);
/* From any thread: lets the worker use another policy from its next turn on; it takes one hold of its own. */
void sl_worker_set_policy(struct sl_worker *worker, struct sl_shared_policy *policy);
/* From any thread: the worker serves on, and lets it be known that the server is going down (context.draining). */
void sl_worker_redden(struct sl_worker *worker);
/* From any thread: the worker answers what has arrived, sends it, closes its connections and ends its loop, all within
 * SL_DRAIN_MS. Asked a second time, it ends at once. */
void sl_worker_drain(struct sl_worker *worker);
/* From any thread: the worker gives its connections to another process. Each is packed as soon as it is between two
 * answers and has at most SL_PARCEL_INPUT_MAX bytes of input, idle ones at once; those that can't move (TLS, answers
 * that are not read) are served on, HTTP ones told to close. When none is left, or after SL_DRAIN_MS, the worker drains
 * as above, so that its loop ends. Accepting has to have ended before. With give == NULL the worker serves on as if it
 * had never been asked: the other process failed. */
void sl_worker_hand_over(struct sl_worker *worker, sl_hand_over_fn give, void *to);

/* ---- crowd.c: called on the first worker's thread ---- */

enum sl_room {
	SL_ROOM_YES,  /* it is gone */
	SL_ROOM_SOON, /* somebody of another worker was asked to give way: ask again in a millisecond */
	SL_ROOM_NO,   /* nobody has waited for long enough to give way */
};

/* Are there as many connections as there may be, by connections.max and by what descriptors leave? */
bool sl_worker_is_full(const struct sl_worker *worker);
/* Asks the connection that has waited longest of all workers' (lingering ones, then idle ones, then unfinished requests
 * and answers that are not read) to give way to a newcomer. */
enum sl_room sl_worker_shed(struct sl_worker *workers, uint32_t worker_count);
/* Counts a connection in. False where its address has too many already: it is counted as refused, the caller closes it.
 *  arrival  address and listener are read; place is filled */
SLUICE_MUST_USE bool sl_worker_admit(struct sl_worker *worker, struct sl_arrival *arrival);
/* Undoes sl_worker_admit() of an arrival that no worker got, and closes its descriptor. */
void sl_worker_dismiss(struct sl_worker *worker, struct sl_arrival *arrival);
/* Tells the bounds how many descriptors connections may have, from what is open now and what the process may open: all
 * but a few, so that a policy can still be read when connections have taken the rest. */
void sl_worker_count_descriptors(struct sl_worker *worker);

/* ---- connection.c: called on the worker's own thread only ---- */

/* Takes over an arrival and what it brings; closes it where there is no memory. */
void sl_connection_open(struct sl_worker *worker, struct sl_arrival *arrival);
/* Reads and answers what has arrived already, then closes as soon as the answers are sent. */
void sl_connection_drain(struct sl_connection *connection);
void sl_connection_close(struct sl_connection *connection);
struct sl_connection *sl_connection_next(const struct sl_connection *connection);
/* Sets on a listening socket what the connections accepted from it inherit: no delay, and probes that find out within
 * about two minutes that a peer is gone without a word, and that the kernel keeps 256 KiB at most of what a peer's
 * window has no room for. Nothing for unix sockets. */
void sl_connection_tune(int listening_fd);

#endif
