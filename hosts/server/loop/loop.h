/* The world of one worker, as a client of Redis needs it: time, chance, timers, connections and names.
 *
 * cluster/ and remote/ ask nothing else for any of these, so the same code runs in two worlds: loop_uv.c is libuv and
 * the system; tests/sim has one of virtual time, in which fronts, nodes and the network between them are one program.
 *
 *   worker, or a simulation --> struct sl_loop --> remote/, cluster/
 *
 * Nothing here blocks. No function that was handed over is called from within one of those below; all are called on the
 * loop's thread, and those of what was ended are not called any more, but for the `gone` that tells so. */
#ifndef SL_LOOP_H
#define SL_LOOP_H

#include "sluice.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>

struct sl_loop_operations;

/* A world; passed by value. */
struct sl_loop {
	const struct sl_loop_operations *operations;
	void *world; /* what they work on */
};

/* The beginning of what operations make. */
struct sl_timer {
	const struct sl_loop_operations *operations;
};
struct sl_socket {
	const struct sl_loop_operations *operations;
};
struct sl_lookup {
	const struct sl_loop_operations *operations;
};

enum sl_timer_kind {
	SL_TIMER_AFTER,    /* some ms after it was set */
	SL_TIMER_TURN_END, /* when this turn of the loop has called all that it calls, before it waits */
};

enum { SL_SOCKET_READABLE = 1, SL_SOCKET_WRITABLE = 2 };

/* Whom a socket calls. */
struct sl_socket_events {
	/* Some of what is watched for has come (SL_SOCKET_*); or the watching has failed: `error` is an errno, else 0. */
	void (*ready)(void *to, int error, int events);
	void (*gone)(void *to); /* after sl_socket_close(): nothing of it is left on the loop */
	void *to;
};

/* What sl_lookup_new() finds: addresses, which are there until the function returns, or why there are none. */
typedef void (*sl_lookup_found)(void *to, const char *why, const struct addrinfo *addresses);

/* What a world can do. The functions below say what each is for. */
struct sl_loop_operations {
	sluice_ns (*now)(void *world);
	bool (*random)(void *world, void *bytes, size_t len);

	struct sl_timer *(*timer_new)(void *world, enum sl_timer_kind kind, void (*fired)(void *to), void *to);
	void (*timer_set)(struct sl_timer *timer, uint64_t ms);
	void (*timer_stop)(struct sl_timer *timer);
	bool (*timer_is_set)(const struct sl_timer *timer);
	void (*timer_free)(struct sl_timer *timer, void (*gone)(void *to));

	struct sl_socket *(*connect)(void *world, const struct sockaddr *address, socklen_t len,
	                             const struct sl_socket_events *events);
	bool (*watch)(struct sl_socket *socket, int events);
	int (*error)(struct sl_socket *socket);
	ssize_t (*send)(struct sl_socket *socket, const void *data, size_t len);
	ssize_t (*receive)(struct sl_socket *socket, void *into, size_t room);
	int (*descriptor)(const struct sl_socket *socket);
	void (*close)(struct sl_socket *socket);

	struct sl_lookup *(*lookup_new)(void *world, const char *host, const char *port, sl_lookup_found found, void *to);
	void (*lookup_cancel)(struct sl_lookup *lookup);
};

/* ---- time and chance --------------------------------------------------------------------------------------------- */

/* Nanoseconds of a clock that nobody sets: sl_clock_monotonic() in the product. */
static inline sluice_ns sl_loop_now(struct sl_loop loop) {
	return loop.operations->now(loop.world);
}

/* Fills bytes that nobody can guess. False: the system has none. */
static inline bool sl_loop_random(struct sl_loop loop, void *bytes, size_t len) {
	return loop.operations->random(loop.world, bytes, len);
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

/* A timer that is not set. It fires once each time it is set. NULL: no memory. */
static inline struct sl_timer *sl_timer_new(struct sl_loop loop, enum sl_timer_kind kind, void (*fired)(void *to),
                                            void *to) {
	return loop.operations->timer_new(loop.world, kind, fired, to);
}

/* Sets it, anew where it is set: to fire so many ms from this instant, or at the end of the turn, whatever `ms`. */
static inline void sl_timer_set(struct sl_timer *timer, uint64_t ms) {
	timer->operations->timer_set(timer, ms);
}

static inline void sl_timer_stop(struct sl_timer *timer) {
	timer->operations->timer_stop(timer);
}

static inline bool sl_timer_is_set(const struct sl_timer *timer) {
	return timer->operations->timer_is_set(timer);
}

/* Ends it. `gone` (may be NULL) is called, with what the timer calls with, when nothing of it is left on the loop. */
static inline void sl_timer_free(struct sl_timer *timer, void (*gone)(void *to)) {
	timer->operations->timer_free(timer, gone);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* A stream socket on its way to an address, watched for SL_SOCKET_WRITABLE: then sl_socket_error() says what came of
 * it. NULL: errno says why, and nobody is called. */
static inline struct sl_socket *sl_socket_connect(struct sl_loop loop, const struct sockaddr *address, socklen_t len,
                                                  const struct sl_socket_events *events) {
	return loop.operations->connect(loop.world, address, len, events);
}

/* Watches for SL_SOCKET_* from now on, and for nothing else; each turn again while it is so. False: the system does
 * not. */
static inline bool sl_socket_watch(struct sl_socket *socket, int events) {
	return socket->operations->watch(socket, events);
}

/* The error that it has met: an errno, 0: none. */
static inline int sl_socket_error(struct sl_socket *socket) {
	return socket->operations->error(socket);
}

/* Bytes taken, fewer than `len` where there is no room for more; -EAGAIN: none now; -errno. */
static inline ssize_t sl_socket_send(struct sl_socket *socket, const void *data, size_t len) {
	return socket->operations->send(socket, data, len);
}

/* Bytes read; 0: the other side has ended it; -EAGAIN: none now; -errno. */
static inline ssize_t sl_socket_receive(struct sl_socket *socket, void *into, size_t room) {
	return socket->operations->receive(socket, into, room);
}

/* For TLS, which reads and writes by itself; stays the socket's. -1: it has none. */
static inline int sl_socket_descriptor(const struct sl_socket *socket) {
	return socket->operations->descriptor(socket);
}

static inline void sl_socket_close(struct sl_socket *socket) {
	socket->operations->close(socket);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Asks for the addresses of a name. `found` is called once in any case, and then it is gone. NULL: errno says why, and
 * nobody is called. */
static inline struct sl_lookup *sl_lookup_new(struct sl_loop loop, const char *host, const char *port,
                                              sl_lookup_found found, void *to) {
	return loop.operations->lookup_new(loop.world, host, port, found, to);
}

/* Has `found` called soon, if that can be done. */
static inline void sl_lookup_cancel(struct sl_lookup *lookup) {
	lookup->operations->lookup_cancel(lookup);
}

#endif
